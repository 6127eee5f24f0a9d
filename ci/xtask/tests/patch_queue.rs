//! The whole tool on a small crate that stands in for quiche.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use sha2::Digest;
use sha2::Sha256;

/// A project with two published versions of a crate and an empty series.
struct Fixture {
    dir: tempfile::TempDir,
}

/// Ten lines, so that changes to the first and the last do not share a hunk.
const LIB: &str = "// 1\n// 2\n// 3\n// 4\n// 5\n// 6\n// 7\n// 8\n// 9\n// 10\n";

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture {
            dir: tempfile::tempdir().unwrap(),
        };

        fs::create_dir_all(fixture.path("crates")).unwrap();
        fs::create_dir_all(fixture.path("quiche-patches")).unwrap();
        fixture.publish("1.0.0", LIB);

        let sum = fixture.checksum("1.0.0");
        fixture.write(
            "quiche-patches/UPSTREAM",
            &format!("Name: quiche\nVersion: 1.0.0\nChecksum: {sum}\nLicense: BSD-2-Clause\n"),
        );
        fixture.write("quiche-patches/series", "# The order.\n");
        fixture
    }

    /// A fixture with the patches `a-first.patch` (line 1), `b-second.patch`
    /// (line 10) and `c-third.patch` (a new file), exported.
    fn with_patches() -> Fixture {
        let fixture = Fixture::new();
        fixture.xtask_ok(&["unpack"]);

        fixture.edit("// 1\n", "// one\n");
        fixture.commit("a: first");
        fixture.edit("// 10\n", "// ten\n");
        fixture.commit("b: second");
        fixture.write("vendor/quiche/src/new.rs", "// new\n");
        fixture.commit("c: third");

        fixture.xtask_ok(&["export"]);
        fixture
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn edit(&self, from: &str, to: &str) {
        let old = self.read("vendor/quiche/src/lib.rs");
        assert!(old.contains(from), "{from:?} is not in {old:?}");
        self.write("vendor/quiche/src/lib.rs", &old.replacen(from, to, 1));
    }

    fn publish(&self, version: &str, lib: &str) {
        let stem = format!("quiche-{version}");
        let mut tar = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));

        for (name, text) in [
            (
                "Cargo.toml",
                format!(
                    "[package]\nname = \"quiche\"\nversion = \"{version}\"\n\
                     edition = \"2021\"\n"
                ),
            ),
            (
                "Cargo.lock",
                format!(
                    "version = 4\n\n[[package]]\nname = \"quiche\"\n\
                     version = \"{version}\"\n"
                ),
            ),
            (
                ".cargo_vcs_info.json",
                format!("{{\"git\":{{\"sha1\":\"rev-{version}\"}}}}\n"),
            ),
            // Upstream's own ignore rules must not lose files of the crate.
            (".gitignore", "*.lock\n".to_string()),
            ("src/lib.rs", lib.to_string()),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            tar.append_data(&mut header, format!("{stem}/{name}"), text.as_bytes())
                .unwrap();
        }

        let bytes = tar.into_inner().unwrap().finish().unwrap();
        fs::write(self.path(&format!("crates/{stem}.crate")), bytes).unwrap();
    }

    fn checksum(&self, version: &str) -> String {
        let path = self.path(&format!("crates/quiche-{version}.crate"));
        format!("{:x}", Sha256::digest(fs::read(path).unwrap()))
    }

    fn xtask(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .arg("quiche")
            .args(args)
            .arg("--root")
            .arg(self.dir.path())
            .arg("--crates")
            .arg(self.path("crates"))
            // Settings of a user's that must not show in the result.
            .env("GIT_CONFIG_GLOBAL", self.hostile_config())
            .env("GIT_AUTHOR_NAME", "somebody else")
            .env_remove("CARGO_TARGET_DIR")
            .output()
            .unwrap()
    }

    fn hostile_config(&self) -> PathBuf {
        let path = self.path("gitconfig");
        fs::write(
            &path,
            "[diff]\nnoprefix = true\ncontext = 9\nalgorithm = minimal\n\
             [format]\nsignoff = true\nnumbered = true\nattach = true\n\
             subjectPrefix = RFC\n[core]\nautocrlf = true\nabbrev = 5\n\
             [commit]\ngpgSign = true\n[am]\nthreeWay = true\n",
        )
        .unwrap();
        path
    }

    fn xtask_ok(&self, args: &[&str]) -> String {
        let output = self.xtask(args);
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn xtask_err(&self, args: &[&str]) -> String {
        let output = self.xtask(args);
        assert_eq!(output.status.code(), Some(1), "{args:?} succeeded");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Git as a developer would run it in `vendor/quiche`.
    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Dev", "-c", "user.email=dev@example.org"])
            .args(args)
            .current_dir(self.path("vendor/quiche"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_EDITOR", "true")
            .env("GIT_SEQUENCE_EDITOR", "true")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    }

    fn commit(&self, subject: &str) {
        let message = format!(
            "{subject}\n\nWhy it — with a dash — is needed.\n\n\
             Spec: RFC 10069 section 4\nUpstream-Status: Pending\n"
        );
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "-m", &message]);
    }

    /// Everything in `quiche-patches/`, by name.
    fn patches(&self) -> Vec<(String, String)> {
        let mut all: Vec<_> = fs::read_dir(self.path("quiche-patches"))
            .unwrap()
            .map(|e| {
                let path = e.unwrap().path();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect();
        all.sort();
        all
    }

    fn remove_vendor(&self) {
        fs::remove_dir_all(self.path("vendor")).unwrap();
    }
}

#[test]
fn patches_have_the_promised_form() {
    let f = Fixture::with_patches();

    assert_eq!(
        f.read("quiche-patches/series"),
        "# The order.\na-first.patch\nb-second.patch\nc-third.patch\n"
    );

    let patch = f.read("quiche-patches/a-first.patch");
    assert!(patch.starts_with(&format!("From {} ", "0".repeat(40))));
    assert!(patch.contains("\nSubject: [PATCH] a: first\n"), "{patch}");
    assert!(patch.contains("\nFrom: Dev <dev@example.org>\n"), "{patch}");
    assert!(patch.contains("\n--- a/quiche/src/lib.rs\n+++ b/quiche/src/lib.rs\n"));
    // Full index: 40 digits on both sides. Three lines of context.
    let index = patch.lines().find(|l| l.starts_with("index ")).unwrap();
    assert_eq!(index.len(), "index ..".len() + 80 + " 100644".len());
    assert!(
        patch.ends_with("@@ -1,4 +1,4 @@\n-// 1\n+// one\n // 2\n // 3\n // 4\n"),
        "{patch}"
    );
}

#[test]
fn unpack_then_export_is_byte_identical() {
    let f = Fixture::with_patches();
    let before = f.patches();
    let tree = f.git(&["rev-parse", "HEAD^{tree}"]);

    f.remove_vendor();
    f.xtask_ok(&["unpack"]);
    let head = f.git(&["rev-parse", "HEAD"]);
    assert_eq!(f.git(&["rev-parse", "HEAD^{tree}"]), tree);
    assert_eq!(f.git(&["rev-list", "--count", "upstream..HEAD"]), "3");
    assert_eq!(f.git(&["status", "--porcelain"]), "");
    // A file that the crate's own .gitignore names is in the base.
    assert_eq!(f.git(&["ls-files", "Cargo.lock"]), "Cargo.lock");

    f.xtask_ok(&["export"]);
    assert_eq!(f.patches(), before);
    f.xtask_ok(&["check"]);

    // The same queue gives the same commit ids.
    f.remove_vendor();
    f.xtask_ok(&["unpack"]);
    assert_eq!(f.git(&["rev-parse", "HEAD"]), head);
}

#[test]
fn unpack_is_idempotent_and_follows_the_queue() {
    let f = Fixture::with_patches();
    assert!(f.xtask_ok(&["unpack"]).contains("is up to date"));

    // As if a colleague had dropped the last patch.
    f.write("quiche-patches/series", "a-first.patch\nb-second.patch\n");
    fs::remove_file(f.path("quiche-patches/c-third.patch")).unwrap();
    assert!(f.xtask_ok(&["unpack"]).contains("with 2 patches"));
    assert!(!f.path("vendor/quiche/src/new.rs").exists());
    assert!(f.xtask_ok(&["unpack"]).contains("is up to date"));
}

#[test]
fn fixup_changes_only_its_patch() {
    let f = Fixture::with_patches();
    let before = f.patches();

    f.edit("// 2\n", "// two\n");
    f.git(&["commit", "-qa", "--fixup", "HEAD~2"]);
    assert!(f.xtask_err(&["export"]).contains("not yet folded"));
    f.git(&["rebase", "-q", "-i", "--autosquash", "upstream"]);

    let said = f.xtask_ok(&["export"]);
    assert!(said.contains("changed: a-first.patch"), "{said}");

    let after = f.patches();
    let changed: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(b, a)| b != a)
        .map(|(_, a)| a.0.as_str())
        .collect();

    // b's blob ids and line numbers follow the file it shares with a.
    assert_eq!(changed, ["a-first.patch", "b-second.patch"]);
    let diff = |text: &str| text.split_once("\n@@").unwrap().1.to_string();
    assert_eq!(diff(&before[2].1), diff(&after[2].1));
    f.xtask_ok(&["check"]);
}

#[test]
fn patches_of_other_files_stay_as_they_are() {
    let f = Fixture::with_patches();
    let before = f.patches();

    f.write("vendor/quiche/src/new.rs", "// newer\n");
    f.git(&["commit", "-qa", "--fixup", "HEAD"]);
    f.git(&["rebase", "-q", "-i", "--autosquash", "upstream"]);
    f.xtask_ok(&["export"]);

    let after = f.patches();
    assert_eq!(before[1], after[1]);
    assert_eq!(before[2], after[2]);
    assert_ne!(before[3], after[3]);
    assert_eq!(before[4], after[4]);
}

#[test]
fn dropped_patches_are_deleted_and_headings_kept() {
    let f = Fixture::with_patches();
    f.write(
        "quiche-patches/series",
        "# The order.\n\n# one\na-first.patch\nb-second.patch\n\n# two\nc-third.patch\n",
    );
    f.xtask_ok(&["check"]);

    f.git(&["rebase", "-q", "--onto", "upstream", "HEAD~2"]);
    let said = f.xtask_ok(&["export"]);
    assert!(said.contains("removed: a-first.patch"), "{said}");
    assert!(!f.path("quiche-patches/a-first.patch").exists());
    assert_eq!(
        f.read("quiche-patches/series"),
        "# The order.\n\n# one\nb-second.patch\n\n# two\nc-third.patch\n"
    );
    f.xtask_ok(&["check"]);
}

#[test]
fn failing_hunk_is_shown_and_can_be_continued() {
    let f = Fixture::with_patches();
    let good = f.read("quiche-patches/a-first.patch");
    let bad = good.replace("-// 1\n", "-// uno\n");
    assert_ne!(good, bad);

    f.write("quiche-patches/a-first.patch", &bad);
    f.remove_vendor();
    let err = f.xtask_err(&["unpack"]);

    for promised in [
        "patch 1 of 3, a-first.patch (\"a: first\"), does not apply to quiche 1.0.0",
        "error: patch failed: src/lib.rs:1",
        "src/lib.rs.rej:",
        "-// uno\n+// one",
        "git add --all && git am --continue",
        "cargo xtask quiche export",
    ] {
        assert!(err.contains(promised), "no {promised:?} in:\n{err}");
    }

    // The state is git's, so neither command walks over it.
    assert!(f
        .xtask_err(&["unpack"])
        .contains("`git am` is not finished"));
    assert!(f
        .xtask_err(&["export"])
        .contains("`git am` is not finished"));
    assert!(f.xtask_err(&["check"]).contains("does not apply"));

    // As the message says.
    fs::remove_file(f.path("vendor/quiche/src/lib.rs.rej")).unwrap();
    f.edit("// 1\n", "// one\n");
    f.git(&["add", "--all"]);
    f.git(&["am", "--continue"]);
    f.xtask_ok(&["export"]);
    assert_eq!(f.read("quiche-patches/a-first.patch"), good);
    f.xtask_ok(&["check"]);
}

#[test]
fn fuzz_is_refused() {
    let f = Fixture::with_patches();
    // A context line that is not in the file: patch(1) would shrug.
    let patch = f.read("quiche-patches/a-first.patch");
    f.write(
        "quiche-patches/a-first.patch",
        &patch.replace("\n // 4\n", "\n // four\n"),
    );
    f.remove_vendor();
    assert!(f.xtask_err(&["unpack"]).contains("does not apply"));
    // --force starts again, and fails again on the same patch.
    assert!(f
        .xtask_err(&["unpack", "--force"])
        .contains("a-first.patch"));
    f.write("quiche-patches/a-first.patch", &patch);
    f.xtask_ok(&["unpack", "--force"]);
    f.xtask_ok(&["check"]);
}

#[test]
fn check_catches_one_byte() {
    let f = Fixture::with_patches();
    let patch = f.read("quiche-patches/b-second.patch");

    f.write(
        "quiche-patches/b-second.patch",
        &patch.replace("+// ten", "+// Ten"),
    );
    let err = f.xtask_err(&["check"]);
    assert!(err.contains("b-second.patch:"), "{err}");
    assert!(err.contains("is not what export would write"), "{err}");
    assert!(err.contains("cargo xtask quiche export"), "{err}");

    // Of the message, which no apply looks at.
    f.write(
        "quiche-patches/b-second.patch",
        &patch.replace("is needed.", "is needed. "),
    );
    assert!(f.xtask_err(&["check"]).contains("b-second.patch"));

    f.write("quiche-patches/b-second.patch", &patch);
    f.xtask_ok(&["check"]);
}

#[test]
fn check_compares_with_vendor() {
    let f = Fixture::with_patches();
    f.edit("// 5\n", "// five\n");
    assert!(f.xtask_err(&["check"]).contains("uncommitted changes"));

    f.commit("d: fourth");
    let err = f.xtask_err(&["check"]);
    assert!(err.contains("vendor/quiche differs"), "{err}");
    assert!(err.contains("src/lib.rs"), "{err}");
}

#[test]
fn check_lints_the_queue() {
    let f = Fixture::with_patches();
    fs::copy(
        f.path("quiche-patches/a-first.patch"),
        f.path("quiche-patches/stray.patch"),
    )
    .unwrap();
    assert!(f.xtask_err(&["check"]).contains("stray.patch: not listed"));
    fs::remove_file(f.path("quiche-patches/stray.patch")).unwrap();

    let series = f.read("quiche-patches/series");
    f.write(
        "quiche-patches/series",
        &(series.clone() + "a-first.patch\n"),
    );
    assert!(f.xtask_err(&["check"]).contains("listed twice"));
    f.write("quiche-patches/series", &(series.clone() + "none.patch\n"));
    assert!(f
        .xtask_err(&["check"])
        .contains("none.patch: listed in series"));
    f.write("quiche-patches/series", &series);

    f.edit("// 5\n", "// five\n");
    f.git(&["commit", "-qam", "do it"]);
    f.xtask_ok(&["export"]);
    let err = f.xtask_err(&["check"]);
    assert!(
        err.contains("do-it.patch: the trailer `Spec:` is missing"),
        "{err}"
    );
    assert!(err.contains("no body"), "{err}");
}

#[test]
fn check_compares_the_readme_with_the_series() {
    let f = Fixture::with_patches();
    let line = |name: &str| {
        let area = &name[..1];
        format!("- [{area}: {}]({name}.patch): it does.\n", &name[2..])
    };
    let readme: String = ["a-first", "b-second", "c-third"].map(line).concat();
    let pull = f.path("quiche-patches/upstream");

    f.write("quiche-patches/README.md", &readme);
    let err = f.xtask_err(&["check"]);
    assert!(err.contains("upstream/a-first.md is missing"), "{err}");

    fs::create_dir(&pull).unwrap();
    for (name, title) in [
        ("a-first", "a: first"),
        ("b-second", "b: second"),
        ("c-third", "c: third"),
    ] {
        fs::write(
            pull.join(format!("{name}.md")),
            format!("# {title}\n\nText.\n"),
        )
        .unwrap();
    }
    f.xtask_ok(&["check"]);

    // Neither export nor unpack touches either.
    f.xtask_ok(&["export"]);
    f.xtask_ok(&["unpack", "--force"]);
    assert_eq!(f.read("quiche-patches/README.md"), readme);
    assert_eq!(fs::read_dir(&pull).unwrap().count(), 3);

    f.write(
        "quiche-patches/README.md",
        &readme.replace(&line("b-second"), ""),
    );
    let err = f.xtask_err(&["check"]);
    assert!(err.contains("no line for b-second.patch"), "{err}");
    f.write("quiche-patches/README.md", &readme);

    fs::rename(pull.join("c-third.md"), pull.join("d.md")).unwrap();
    let err = f.xtask_err(&["check"]);
    assert!(err.contains("upstream/c-third.md is missing"), "{err}");
    assert!(err.contains("upstream/d.md: no patch"), "{err}");
}

#[test]
fn local_work_is_not_lost() {
    let f = Fixture::with_patches();

    f.edit("// 5\n", "// five\n");
    let err = f.xtask_err(&["unpack"]);
    assert!(err.contains("uncommitted changes: src/lib.rs"), "{err}");
    assert!(err.contains("--force"), "{err}");
    assert!(f.xtask_err(&["export"]).contains("git commit --fixup"));

    f.commit("d: fourth");
    let head = f.git(&["rev-parse", "HEAD"]);
    assert!(f.xtask_err(&["unpack"]).contains("not in quiche-patches/"));
    f.xtask_ok(&["unpack", "--keep-work"]);
    assert_eq!(f.git(&["rev-parse", "HEAD"]), head);

    // Even discarded commits can be found again.
    assert!(f.xtask_ok(&["unpack", "--force"]).contains(&head));
    assert_eq!(
        f.read("vendor/quiche/src/lib.rs").matches("five").count(),
        0
    );
    assert_eq!(f.git(&["cat-file", "-t", &head]), "commit");
    f.xtask_ok(&["check"]);
}

#[test]
fn other_folders_are_not_overwritten() {
    let f = Fixture::new();
    fs::create_dir_all(f.path("vendor/quiche")).unwrap();
    f.write("vendor/quiche/notes", "mine\n");
    assert!(f.xtask_err(&["unpack"]).contains("is in the way"));
    assert_eq!(f.read("vendor/quiche/notes"), "mine\n");
    f.xtask_ok(&["unpack", "--force"]);
    assert!(!f.path("vendor/quiche/notes").exists());
}

#[test]
fn a_changed_crate_is_refused() {
    let f = Fixture::new();
    let expected = f.checksum("1.0.0");
    f.publish("1.0.0", "// another\n");
    let err = f.xtask_err(&["unpack"]);
    assert!(err.contains(&expected), "{err}");
    assert!(err.contains(&f.checksum("1.0.0")), "{err}");
    assert!(!f.path("vendor/quiche/src").exists());
}

#[test]
fn commits_that_no_patch_can_carry_are_refused() {
    let f = Fixture::with_patches();
    let before = f.patches();

    let refuse = |args: &[&str], promised: &str| {
        f.git(args);
        let err = f.xtask_err(&["export"]);
        assert!(err.contains(promised), "no {promised:?} in {err}");
        assert_eq!(f.patches(), before);
        f.git(&["reset", "-q", "--hard", "HEAD~1"]);
    };

    refuse(
        &["commit", "-q", "--allow-empty", "-m", "d: x"],
        "changes nothing",
    );

    f.edit("// 5\n", "// five\n");
    refuse(
        &["commit", "-qam", "d: x\n\na\n---\nb"],
        "end of the message",
    );
    f.edit("// 5\n", "// five\n");
    refuse(&["commit", "-qam", "b: second"], "both be written to");
    f.edit("// 5\n", "// five\n");
    refuse(
        &["commit", "-qam", "d: x\n\nPatch-File: ../../x.patch"],
        "is not a patch name",
    );
}

#[test]
fn patch_file_trailer_names_the_file() {
    let f = Fixture::with_patches();
    f.edit("// 5\n", "// five\n");
    f.git(&[
        "commit",
        "-qam",
        "d: x\n\nWhy.\n\nSpec: none\nUpstream-Status: Pending\n\
         Patch-File: build-five.patch",
    ]);
    f.xtask_ok(&["export"]);
    assert!(f.path("quiche-patches/build-five.patch").exists());
    f.xtask_ok(&["check"]);
}

#[test]
fn bump_moves_the_series_and_names_empty_patches() {
    let f = Fixture::with_patches();
    // Upstream took the second patch and changed a context line of the first.
    f.publish(
        "1.1.0",
        &LIB.replace("// 4\n", "// four\n")
            .replace("// 10\n", "// ten\n"),
    );

    let said = f.xtask_ok(&["bump", "1.1.0"]);
    assert!(said.contains("empty:   b-second.patch"), "{said}");
    assert!(said.contains("removed: b-second.patch"), "{said}");

    let upstream = f.read("quiche-patches/UPSTREAM");
    assert!(upstream.contains("\nVersion: 1.1.0\n"), "{upstream}");
    assert!(upstream.contains(&f.checksum("1.1.0")), "{upstream}");
    assert!(upstream.contains("\nRevision: rev-1.1.0\n"), "{upstream}");
    assert_eq!(
        f.read("quiche-patches/series"),
        "# The order.\na-first.patch\nc-third.patch\n"
    );
    assert!(f
        .read("vendor/quiche/src/lib.rs")
        .starts_with("// one\n// 2\n// 3\n// four\n"));
    f.xtask_ok(&["check"]);
}

#[test]
fn bump_stops_at_a_conflict_and_can_be_continued() {
    let f = Fixture::with_patches();
    f.publish("1.1.0", &LIB.replace("// 10\n", "// X\n"));

    let err = f.xtask_err(&["bump", "1.1.0"]);
    for promised in [
        "patch 2 of 3, b-second.patch (\"b: second\"), does not apply to quiche 1.1.0",
        "src/lib.rs: 1",
        "// X",
        "|||||||",
        "// ten",
        "git am --continue",
        "cargo check",
    ] {
        assert!(err.contains(promised), "no {promised:?} in:\n{err}");
    }
    assert!(!err.contains(".rej"), "{err}");
    // What was before is at hand.
    f.git(&["merge-base", "--is-ancestor", "before-upstream", "before"]);

    f.write(
        "vendor/quiche/src/lib.rs",
        &LIB.replace("// 1\n", "// one\n")
            .replace("// 10\n", "// ten\n"),
    );
    f.git(&["add", "--all"]);
    f.git(&["am", "--continue"]);
    f.xtask_ok(&["export"]);
    f.xtask_ok(&["check"]);
    assert!(f
        .read("quiche-patches/b-second.patch")
        .contains("-// X\n+// ten\n"));
    assert!(f.read("quiche-patches/UPSTREAM").contains("Version: 1.1.0"));
}

#[test]
fn bump_wants_a_tree_in_step() {
    let f = Fixture::with_patches();
    f.publish("1.1.0", LIB);
    f.edit("// 5\n", "// five\n");
    f.commit("d: fourth");
    assert!(f.xtask_err(&["bump", "1.1.0"]).contains("not in step"));
    assert!(f.xtask_err(&["bump", "1.0.0"]).contains("already"));
    assert!(f.read("quiche-patches/UPSTREAM").contains("Version: 1.0.0"));
}

#[test]
fn test_each_stops_at_the_first_failure() {
    let f = Fixture::with_patches();
    f.edit(
        "// 5\n",
        "#[test]\nfn four() { assert_eq!(std::env::args().count(), 0) }\n",
    );
    f.commit("d: breaks");
    f.edit("count(), 0", "count(), 1");
    f.commit("e: mends");

    let output = f.xtask(&["test-each"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("[3/5] passed"), "{said}{err}");
    assert!(said.contains("[4/5] d: breaks"), "{said}{err}");
    assert!(!said.contains("[5/5]"), "{said}");
    assert!(
        err.contains("the tests fail at patch 4, `d: breaks`"),
        "{err}"
    );
    assert!(!f.path("vendor/quiche-test-each").exists());

    let said = f.xtask_ok(&["test-each", "--from", "5"]);
    assert!(!said.contains("[4/5]") && said.contains("[5/5] passed"));
    let said = f.xtask_ok(&["test-each", "--only", "1"]);
    assert!(said.contains("[1/5] passed") && !said.contains("[2/5]"));
    assert!(f
        .xtask_err(&["test-each", "--only", "6"])
        .contains("1 to 5"));
    assert_eq!(f.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn test_each_at_cuts() {
    let f = Fixture::with_patches();
    let series = "# The order.\n\n# First.\na-first.patch\n\n# cut: one\nb-second.patch\n# cut: two\nc-third.patch\n";
    f.write("quiche-patches/series", series);
    f.xtask_ok(&["export"]);
    assert_eq!(f.read("quiche-patches/series"), series);

    let said = f.xtask_ok(&["test-each", "--at", "two"]);
    assert!(said.contains("[2/3] passed"), "{said}");
    assert!(!said.contains("[1/3]") && !said.contains("[3/3]"), "{said}");
    let said = f.xtask_ok(&["test-each", "--at", "one", "--at", "two"]);
    assert!(
        said.contains("[1/3] passed") && said.contains("[2/3] passed"),
        "{said}"
    );

    let amend_second = || {
        f.git(&["commit", "-qa", "--fixup", ":/^b: second"]);
        let squash = [
            "-c",
            "sequence.editor=:",
            "rebase",
            "-qi",
            "--autosquash",
            "upstream",
        ];
        f.git(&squash);
        f.xtask_ok(&["export"]);
    };

    // Warnings do at cuts what they do nowhere else: without the tests, and in them.
    for (unused, said) in [
        ("fn unused() {}\n", "says what is shown above"),
        ("#[cfg(test)]\nfn unused() {}\n", "compile with warnings"),
    ] {
        f.edit("// 5\n", unused);
        amend_second();

        let err = f.xtask_err(&["test-each", "--at", "one", "--at", "two"]);
        assert!(err.contains("patch 2, `b: second`"), "{err}");
        assert!(err.contains(said) && err.contains("never used"), "{err}");
        f.xtask_ok(&["test-each"]);

        f.edit(unused, "// 5\n");
        amend_second();
    }

    let err = f.xtask_err(&["test-each", "--at", "three"]);
    assert!(
        err.contains("no line `# cut: three`; it has one, two"),
        "{err}"
    );

    f.edit("// 5\n", "// five\n");
    f.commit("d: not exported");
    let err = f.xtask_err(&["test-each", "--at", "one"]);
    assert!(err.contains("not in step"), "{err}");
}

/// What the package is made from beside quiche; the third patch makes quiche depend on the decision layer.
fn packable() -> Fixture {
    let f = Fixture::with_patches();

    for dir in ["src/cc", "examples/c/target", "docs"] {
        fs::create_dir_all(f.path(dir)).unwrap();
    }

    for (path, text) in [
        ("COPYING", "Our licence.\n"),
        (
            "Cargo.toml",
            "[workspace]\n[workspace.package]\nversion = \"0.2.0\"\n\
             [package]\nname = \"mpq-decision\"\nversion.workspace = true\n\
             [dev-dependencies]\nproptest = \"1\"\n",
        ),
        ("docs/library.md", "# The library\n"),
        ("examples/c/client.c", "int main(void) { return 0; }\n"),
        ("examples/c/target/client", "built\n"),
        ("examples/c/.client.c.swp", "being edited\n"),
        ("src/lib.rs", "//! Decisions.\n"),
        ("src/cc/lia.rs", "//! LIA.\n"),
    ] {
        f.write(path, text);
    }

    let manifest = f.read("vendor/quiche/Cargo.toml");
    f.write(
        "vendor/quiche/Cargo.toml",
        &format!("{manifest}\n[dependencies.mpq-decision]\npath = \"../..\"\n"),
    );
    f.commit("d: depend on the decision layer");
    f.xtask_ok(&["export"]);
    f
}

const PACKAGE: &str = "quiche-multipath-1.0.0+mpq0.2.0";

/// The files of an archive, without their times; the bytes as text.
fn unpacked(archive: &[u8]) -> Vec<(String, u32, String)> {
    use std::io::Read;

    tar::Archive::new(flate2::read::GzDecoder::new(archive))
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            let path = entry.path().unwrap().to_str().unwrap().to_string();
            let header = entry.header();
            let mode = header.mode().unwrap();
            assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
            assert_eq!(header.username().unwrap().unwrap_or_default(), "");
            entry.read_to_string(&mut text).unwrap();
            (path, mode, text)
        })
        .collect()
}

#[test]
fn package_has_what_is_needed_and_nothing_of_this_machine() {
    let f = packable();
    let said = f.xtask_ok(&["package"]);
    assert!(
        said.contains(&format!("out/package/{PACKAGE}.tar.gz: ")),
        "{said}"
    );

    let archive = fs::read(f.path(&format!("out/package/{PACKAGE}.tar.gz"))).unwrap();
    let files = unpacked(&archive);
    let names: Vec<_> = files
        .iter()
        .map(|(path, _, _)| path.strip_prefix(&format!("{PACKAGE}/")).unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "Cargo.lock",
            "Cargo.toml",
            "Makefile",
            "README.md",
            "docs/library.md",
            "examples/COPYING",
            "examples/c/client.c",
            "mpq-decision/COPYING",
            "mpq-decision/Cargo.toml",
            "mpq-decision/src/cc/lia.rs",
            "mpq-decision/src/lib.rs",
            "quiche.pc.in",
            "quiche/.cargo_vcs_info.json",
            "quiche/.gitignore",
            "quiche/Cargo.toml",
            "quiche/src/lib.rs",
            "quiche/src/new.rs",
        ]
    );

    let here = f.dir.path().to_str().unwrap();
    for (path, mode, text) in &files {
        assert_eq!(*mode, 0o644, "{path}");
        assert!(!text.contains(here), "{path} names {here}");
        // The folder holds the same.
        assert_eq!(f.read(&format!("out/package/{path}")), *text, "{path}");
    }

    let text = |name: &str| {
        let path = format!("{PACKAGE}/{name}");
        &files.iter().find(|(p, _, _)| *p == path).unwrap().2
    };
    assert!(text("quiche/Cargo.toml").contains("path = \"../mpq-decision\"\n"));
    assert!(text("quiche/src/lib.rs").starts_with("// one\n"), "patched");
    assert!(text("mpq-decision/Cargo.toml").contains("version = \"0.2.0\"\n"));
    assert!(!text("mpq-decision/Cargo.toml").contains("proptest"));
    assert!(text("README.md").contains(&f.checksum("1.0.0")));
    assert!(text("README.md").contains("4 patches"));
    assert!(!text("README.md").contains('@'), "a value is missing");
}

#[test]
fn package_is_the_same_bytes_from_the_same_files() {
    let f = packable();
    let make = |to: &str| {
        f.xtask_ok(&["package", "--to", f.path(to).to_str().unwrap()]);
        fs::read(f.path(&format!("{to}/{PACKAGE}.tar.gz"))).unwrap()
    };

    let first = make("one");
    f.remove_vendor();
    f.write("src/lib.rs", "//! Decisions.\n");
    assert!(
        first == make("two"),
        "vendor/quiche and times changed bytes"
    );
    // Again in the same place, where what others have left there goes.
    f.write(&format!("one/{PACKAGE}/mpq-decision/src/old.rs"), "");
    assert!(first == make("one"));
    assert!(!f
        .path(&format!("one/{PACKAGE}/mpq-decision/src/old.rs"))
        .exists());

    f.write("src/lib.rs", "//! Other decisions.\n");
    assert!(first != make("two"));
}

#[test]
fn package_refuses_what_the_series_does_not_say() {
    let f = packable();
    f.write("vendor/quiche/src/new.rs", "// newer\n");
    let err = f.xtask_err(&["package"]);
    assert!(err.contains("uncommitted changes (src/new.rs)"), "{err}");

    f.commit("e: not exported");
    let err = f.xtask_err(&["package"]);
    assert!(
        err.contains("differs from the published crate with the patches")
            && err.contains("src/new.rs")
            && err.contains("cargo xtask quiche export"),
        "{err}"
    );
    assert!(!f.path("out").exists());

    f.xtask_ok(&["unpack", "--force"]);
    f.xtask_ok(&["package"]);
    fs::create_dir(f.path(&format!("out/package/{PACKAGE}/.git"))).unwrap();
    let err = f.xtask_err(&["package"]);
    assert!(err.contains("is a git repository"), "{err}");
}

#[test]
fn package_needs_the_dependency_that_it_redirects() {
    let f = packable();
    f.git(&["reset", "-q", "--hard", "HEAD^"]);
    f.xtask_ok(&["export"]);
    let err = f.xtask_err(&["package"]);
    assert!(err.contains("[dependencies.mpq-decision]"), "{err}");
}

#[test]
fn a_broken_repository_does_not_reach_the_one_around_it() {
    let f = Fixture::with_patches();
    let outer = |args: &[&str]| {
        let output = Command::new("git")
            .args(args)
            .current_dir(f.dir.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    outer(&["init", "-q"]);

    let head: &Path = &f.path("vendor/quiche/.git/HEAD");
    fs::remove_file(head).unwrap();
    assert!(!f.xtask(&["unpack", "--force"]).status.success());
    assert_eq!(outer(&["tag"]), "");
}

/// Cargo says that it waits for another one's lock, unless it is told to be quiet.
#[test]
fn nobody_waits_in_silence() {
    let f = Fixture::new();
    f.xtask_ok(&["unpack"]);

    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    for config in [
        own.join("../../.cargo/config.toml"),
        own.join(".cargo/config.toml"),
        f.path("vendor/quiche/.cargo/config.toml"),
    ] {
        let text = fs::read_to_string(&config).unwrap();
        let alias = text.lines().find(|l| l.starts_with("xtask = \"run"));
        assert!(
            alias.is_some_and(|a| !a.contains("quiet") && !a.contains(" -q ")),
            "{}: {text}",
            config.display()
        );
    }
}

#[test]
fn the_real_workspace_leaves_the_test_tree_alone() {
    // test-each works in vendor/quiche-test-each, which cargo must not take
    // for a forgotten member of the workspace around it.
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
    let exclude = manifest["workspace"]["exclude"].as_array().unwrap();
    assert!(exclude.iter().any(|e| e.as_str() == Some("vendor")));
}
