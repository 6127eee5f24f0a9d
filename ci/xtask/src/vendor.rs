//! The unpacked crate as a git repository: commit `upstream`, then one commit for each patch.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::git;
use crate::git::Git;
use crate::patch;
use crate::patch::Message;
use crate::published;
use crate::published::Source;
use crate::queue::Queue;
use crate::series::Series;

/// Tag of the commit that holds the crate as published.
pub const BASE: &str = "upstream";

/// Branch that the patches are commits of.
const BRANCH: &str = "main";

/// Date of the base commit: any fixed one makes its id the same everywhere.
const BASE_DATE: &str = "2000-01-01T00:00:00+0000";

/// File in the git directory that says what was last unpacked or exported.
const STAMP: &str = "quiche-patches-stamp";

/// Files a work tree of ours may hold that git shall not see. The alias lets
/// `cargo xtask` work from there too.
const EXCLUDED: &str = "/target\n/.cargo\n";
const ALIAS: &str = "[alias]\nxtask = \"run --locked --manifest-path \
                     ../../ci/xtask/Cargo.toml --\"\n";

/// Lines of one rejected hunk file to show before pointing at the file.
const MAX_REJECT_LINES: usize = 60;

/// What `vendor/quiche` was in step with when the tool last touched it.
#[derive(Debug, Eq, PartialEq)]
pub struct Stamp {
    /// [`Queue::hash`] of the folder of patches.
    pub queue: String,
    /// Commit of the last patch.
    pub head: String,
}

impl Stamp {
    /// Reads the stamp of the repository, if it has one.
    pub fn load(git: &Git) -> Result<Option<Stamp>> {
        let Ok(text) = fs::read_to_string(git.internal_path(STAMP)?) else {
            return Ok(None);
        };

        Ok(text.trim_end().split_once(' ').map(|(queue, head)| Stamp {
            queue: queue.to_string(),
            head: head.to_string(),
        }))
    }

    /// Records that the repository's HEAD and `queue` are in step.
    pub fn store(git: &Git, queue: &Queue) -> Result<()> {
        let head = git.text(&["rev-parse", "HEAD"])?;

        fs::write(
            git.internal_path(STAMP)?,
            format!("{} {head}\n", queue.hash()?),
        )?;

        Ok(())
    }
}

/// Makes `git`'s folder a repository if it is none.
pub fn init(git: &Git) -> Result<()> {
    fs::create_dir_all(git.dir())?;

    if !git.is_repository() {
        git.text(&["init", "--quiet", "--template=", "-b", BRANCH])?;
    }

    let exclude = git.internal_path("info/exclude")?;

    if let Some(parent) = exclude.parent() {
        fs::create_dir_all(parent)?;
    }

    fs::write(exclude, EXCLUDED)?;
    Ok(())
}

/// Lets `cargo xtask` work from within `vendor/quiche`.
pub fn write_alias(git: &Git) -> Result<()> {
    let config = git.dir().join(".cargo");

    fs::create_dir_all(&config)?;
    fs::write(config.join("config.toml"), ALIAS)?;
    Ok(())
}

/// Commits the published crate, verified, as a root commit; moves the tag
/// [`BASE`] and the work tree there. Commits made before stay in the reflog.
pub fn check_out_base(git: &Git, source: &Source, queue: &Queue) -> Result<()> {
    let package = source.fetch(&queue.upstream)?;
    let scratch = tempfile::tempdir()?;
    let tree_dir = scratch.path().join("tree");

    fs::create_dir(&tree_dir)?;
    package.unpack(&tree_dir)?;

    let staged = |args: &[&str]| -> Result<String> {
        let output = git::run(
            git.command()
                .env("GIT_DIR", git.dir().join(".git"))
                .env("GIT_WORK_TREE", &tree_dir)
                .env("GIT_INDEX_FILE", scratch.path().join("index"))
                .env("GIT_AUTHOR_DATE", BASE_DATE)
                .env("GIT_COMMITTER_DATE", BASE_DATE)
                .current_dir(&tree_dir)
                .args(args),
        )?;

        if !output.status.success() {
            bail!(
                "cannot commit the crate as published:\n{}",
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }

        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    };

    staged(&["add", "--all", "--force", "."])?;

    let tree = staged(&["write-tree"])?;
    let subject = format!("{} {}", queue.upstream.name(), queue.upstream.version());
    let base = staged(&["commit-tree", &tree, "-m", &subject])?;

    git.text(&["tag", "--force", BASE, &base])?;
    git.text(&["checkout", "--quiet", "--force", "-B", BRANCH, &base])?;
    git.text(&["clean", "-d", "--force", "--quiet"])?;

    Ok(())
}

/// How `git am` treats a patch that does not fit as it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fit {
    /// Stop.
    Exact,
    /// Merge it, with the base it was made for as the common ancestor.
    ThreeWay,
}

/// Applies the patches as commits on HEAD. If one does not apply, `git am` is
/// left waiting there and the error shows what failed and how to go on.
pub fn apply(git: &Git, queue: &Queue, fit: Fit) -> Result<()> {
    let patches = queue.patches()?;

    if patches.is_empty() {
        return Ok(());
    }

    if fit == Fit::ThreeWay {
        // Of the repository, as a person goes on with git alone: what both sides come from is shown
        // beside them, and what was resolved once is resolved the same way when it comes again.
        git.text(&["config", "merge.conflictStyle", "diff3"])?;
        git.text(&["config", "rerere.enabled", "true"])?;
    }

    // Fixed committer and dates: the same queue gives the same commit ids.
    let mut cmd = git.command();

    cmd.args([
        "am",
        "--quiet",
        "-p2",
        "--keep-non-patch",
        "--keep-cr",
        "--no-scissors",
        "--no-gpg-sign",
        "--committer-date-is-author-date",
        "--whitespace=nowarn",
        match fit {
            Fit::Exact => "--no-3way",
            Fit::ThreeWay => "--3way",
        },
        "--",
    ]);

    cmd.args(patches.iter().map(|(name, _)| queue.dir.join(name)));

    let output = git::run(&mut cmd)?;

    if output.status.success() {
        return Ok(());
    }

    let stderr = String::from_utf8_lossy(&output.stderr);
    let next = fs::read_to_string(git.internal_path("rebase-apply/next")?)
        .ok()
        .and_then(|n| n.trim().parse::<usize>().ok());

    let Some((number, name)) = next.and_then(|n| Some((n, patches.get(n.checked_sub(1)?)?.0)))
    else {
        bail!("git am failed:\n{}", stderr.trim_end());
    };

    let subject =
        Message::from_patch(&queue.files[name]).map_or_else(|e| e.to_string(), |m| m.subject);

    bail!(
        "patch {number} of {}, {name} (\"{subject}\"), does not apply to {} {}\n\n{}\n\n{}",
        patches.len(),
        queue.upstream.name(),
        queue.upstream.version(),
        what_failed(git, &stderr)?.trim_end(),
        how_to_continue(git.dir(), fit)
    )
}

/// Brings the parts of the failed patch that fit into the work tree and
/// returns the hunks that do not.
fn what_failed(git: &Git, stderr: &str) -> Result<String> {
    let unmerged = git.text(&["diff", "--name-only", "--diff-filter=U"])?;

    if !unmerged.is_empty() {
        let mut text = String::from("The conflicts, marked in the files:\n");

        for path in unmerged.lines() {
            let marked = fs::read_to_string(git.dir().join(path)).unwrap_or_default();
            let hunks = marked.lines().filter(|l| l.starts_with("<<<<<<< ")).count();

            text.push_str(&format!("  {path}: {hunks}\n"));
        }

        let diff = git.text(&["diff", "--no-color", "--diff-filter=U"])?;
        let shown: Vec<_> = diff.lines().take(MAX_REJECT_LINES).collect();

        text.push_str(&format!("\n{}\n", shown.join("\n")));

        if diff.lines().count() > MAX_REJECT_LINES {
            text.push_str("... and more in the files\n");
        }

        return Ok(text);
    }

    let patch = git.internal_path("rebase-apply/patch")?;
    let output = git::run(
        git.command()
            .args(["apply", "--reject", "-p2", "--whitespace=nowarn"])
            .arg(patch),
    )?;

    let mut text = String::from_utf8_lossy(&output.stderr)
        .lines()
        .filter(|l| l.starts_with("error: "))
        .map(|l| format!("{l}\n"))
        .collect::<String>();

    for path in git.uncommitted()? {
        if !path.ends_with(".rej") {
            continue;
        }

        let rejected = fs::read_to_string(git.dir().join(&path))?;
        let shown: Vec<_> = rejected.lines().take(MAX_REJECT_LINES).collect();

        text.push_str(&format!("\n{path}:\n{}\n", shown.join("\n")));

        if rejected.lines().count() > MAX_REJECT_LINES {
            text.push_str("... and more in that file\n");
        }
    }

    if text.is_empty() {
        text = stderr.to_string();
    }

    Ok(text)
}

fn how_to_continue(dir: &Path, fit: Fit) -> String {
    let (state, edit) = match fit {
        Fit::Exact => (
            "The hunks of this one that\n\
             fit are in its files; each hunk that does not is in a *.rej file.",
            "edit the files, delete the *.rej files",
        ),
        Fit::ThreeWay => (
            "What of this one could be\n\
             merged is in its files; what could not is between conflict markers, with what\n\
             both sides come from between ||||||| and =======.",
            "edit the files",
        ),
    };
    let check = match fit {
        Fit::Exact => "",
        Fit::ThreeWay => {
            "cargo check --locked --lib --tests --features ffi,internal,qlog\n                \
             (what merges need not compile; mend with git commit --fixup=COMMIT\n                \
             and git rebase -i --autosquash upstream)\n  "
        }
    };

    format!(
        "The patches before it are commits in {0}. {state}\n\
         To continue:\n  \
           cd {0}\n  \
           {edit}\n  \
           git add --all && git am --continue    (applies the patches after it too)\n  \
           {check}\
           cargo xtask quiche export\n\
         To drop the patch: git am --skip. To start again: cargo xtask quiche unpack --force",
        dir.display()
    )
}

/// `series` and patch files as text, before they are written anywhere.
#[derive(Debug, Eq, PartialEq)]
pub struct Rendered {
    pub series: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Rendered {
    /// Whether the folder of patches holds exactly this.
    pub fn equals(&self, queue: &Queue) -> bool {
        self.series == queue.series_text && self.files == queue.files
    }
}

/// Writes the commits after [`BASE`] out as patches, with the comments of `series`.
pub fn render(git: &Git, series: &Series) -> Result<Rendered> {
    if git.commit(BASE)?.is_none() {
        bail!(
            "{} has no tag `{BASE}`: it was not made by `cargo xtask quiche unpack`",
            git.dir().display()
        );
    }

    if git.text(&["merge-base", BASE, "HEAD"]).ok() != git.commit(BASE)? {
        bail!(
            "HEAD of {} does not descend from the tag `{BASE}`",
            git.dir().display()
        );
    }

    let range = format!("{BASE}..HEAD");
    let merges = git.text(&["rev-list", "--merges", &range])?;

    if let Some(merge) = merges.lines().next() {
        bail!(
            "commit {merge} is a merge, which no patch can carry: \
             `git rebase {BASE}` makes the history straight"
        );
    }

    let commits = git.text(&["rev-list", "--reverse", &range])?;
    let mut names = Vec::new();
    let mut files = BTreeMap::new();

    for commit in commits.lines() {
        let (name, bytes) = render_commit(git, commit)?;

        if files.contains_key(&name) {
            bail!(
                "two commits would both be written to {name}: \
                 give one a `Patch-File: other-name.patch` trailer"
            );
        }

        files.insert(name.clone(), bytes);
        names.push(name);
    }

    Ok(Rendered {
        series: series.rewrite(&names),
        files,
    })
}

fn render_commit(git: &Git, commit: &str) -> Result<(String, Vec<u8>)> {
    let text = git.text(&["show", "--no-patch", "--format=%B", commit])?;
    let message = Message::from_commit(&text);
    let subject = &message.subject;

    if ["fixup!", "squash!", "amend!"]
        .iter()
        .any(|p| subject.starts_with(p))
    {
        bail!(
            "the commit `{subject}` is not yet folded into its patch: \
             `git rebase --interactive --autosquash {BASE}` does it"
        );
    }

    if let Some(line) = patch::line_ending_the_message(&text) {
        bail!(
            "the message of the commit `{subject}` has the line `{line}`, \
             which git am takes for the end of the message: indent it"
        );
    }

    let patch = git.bytes(&[
        "format-patch",
        "-1",
        "--stdout",
        "--zero-commit",
        "--full-index",
        "--binary",
        "--no-stat",
        "--no-signature",
        "--no-numbered",
        "--no-renames",
        "--no-attach",
        "--no-thread",
        "--no-cover-letter",
        "--no-base",
        "--no-notes",
        "--no-to",
        "--no-cc",
        "--no-add-header",
        "--no-signoff",
        "--no-from",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "--no-encode-email-headers",
        "--subject-prefix=PATCH",
        "--unified=3",
        "--inter-hunk-context=0",
        "--diff-algorithm=histogram",
        "--indent-heuristic",
        "--src-prefix=a/quiche/",
        "--dst-prefix=b/quiche/",
        "-O/dev/null",
        commit,
    ])?;

    if !patch.windows(12).any(|w| w == b"\ndiff --git ") {
        bail!("the commit `{subject}` changes nothing: drop it");
    }

    Ok((patch::file_name(&message)?, patch))
}

/// Work in `vendor/quiche` that unpacking would put aside.
pub fn local_work(git: &Git, queue: &Queue) -> Result<Option<String>> {
    if let Some(command) = git.unfinished()? {
        return Ok(Some(format!(
            "a `{command}` is not finished there (`{command} --continue` or `--abort`)"
        )));
    }

    let uncommitted = git.uncommitted()?;

    if !uncommitted.is_empty() {
        return Ok(Some(format!(
            "there are uncommitted changes: {}",
            shorten(&uncommitted)
        )));
    }

    let head = git.commit("HEAD")?;

    if head.is_none() || head == git.commit(BASE)? || head == Stamp::load(git)?.map(|s| s.head) {
        return Ok(None);
    }

    if render(git, &queue.series).is_ok_and(|r| r.equals(queue)) {
        return Ok(None);
    }

    Ok(Some(
        "there are commits that are not in quiche-patches/ \
         (`cargo xtask quiche export` puts them there)"
            .to_string(),
    ))
}

/// Fails, and says what to do, while `git`'s work tree is not ready to be exported.
pub fn require_clean(git: &Git) -> Result<()> {
    if !git.is_repository() {
        bail!(
            "{} is not there yet: run `cargo xtask quiche unpack`",
            git.dir().display()
        );
    }

    if let Some(command) = git.unfinished()? {
        bail!(
            "a `{command}` is not finished in {}: `{command} --continue` or \
             `{command} --abort` first",
            git.dir().display()
        );
    }

    let uncommitted = git.uncommitted()?;

    if !uncommitted.is_empty() {
        bail!(
            "{} has uncommitted changes ({}): commit them, or \
             `git commit --fixup COMMIT` and \
             `git rebase --interactive --autosquash {BASE}`",
            git.dir().display(),
            shorten(&uncommitted)
        );
    }

    Ok(())
}

fn shorten(paths: &[String]) -> String {
    let mut text = paths.iter().take(3).cloned().collect::<Vec<_>>().join(", ");

    if paths.len() > 3 {
        text.push_str(&format!(" and {} more", paths.len() - 3));
    }

    text
}

/// The revision line of `UPSTREAM`, from the base that is checked out.
pub fn base_revision(git: &Git) -> Result<String> {
    published::revision(git.dir())
        .context("the crate does not say which upstream commit it was made from")
}
