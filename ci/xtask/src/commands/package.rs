//! The patched quiche and what it needs of ours, as a folder and an archive for projects elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use flate2::Compression;
use flate2::GzBuilder;

use super::check;
use super::Project;
use crate::git::Git;
use crate::published;
use crate::queue::Queue;

/// What the manifest of the patched quiche says of the decision layer, and what it says in the package.
const DEPENDENCY: &str = "[dependencies.mpq-decision]\npath = \"../..\"\n";
const PACKAGED_DEPENDENCY: &str = "[dependencies.mpq-decision]\npath = \"../mpq-decision\"\n";

/// Files at the top of the package, which stand in `ci/xtask/package/`.
const TEMPLATES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../../package/Cargo.toml")),
    ("Makefile", include_str!("../../package/Makefile")),
    ("README.md", include_str!("../../package/README.md")),
    ("quiche.pc.in", include_str!("../../package/quiche.pc.in")),
];

/// Time of the files in the archive where there is no commit to take it from: 2000-01-01.
const NO_COMMIT_TIME: u64 = 946_684_800;

/// A file of the package.
struct File {
    bytes: Vec<u8>,
    executable: bool,
}

/// Contents of the package by path inside it, sorted.
type Files = BTreeMap<String, File>;

/// Writes `NAME/` and `NAME.tar.gz` into the folder `to`, by default `out/package`.
pub fn package(project: &Project, to: Option<PathBuf>) -> Result<()> {
    let to = to.unwrap_or_else(|| project.root.join("out/package"));

    println!("checking that the patches, the crate and vendor/quiche say the same");

    let scratch = tempfile::tempdir()?;
    let (quiche, queue) = check::rebuild(project, scratch.path())?;
    let decision = Manifest::load(&project.root.join("Cargo.toml"))?;
    let commit = Commit::of(project)?;

    let name = format!(
        "quiche-multipath-{}+mpq{}",
        queue.upstream.version(),
        decision.version
    );

    println!(
        "collecting quiche {} with {}, mpq-decision {} and the examples",
        queue.upstream.version(),
        Project::patches(queue.files.len()),
        decision.version
    );

    let mut files = Files::new();

    add_quiche(&mut files, &quiche)?;
    add_decision(&mut files, &project.root, &decision)?;
    add_folder(&mut files, &project.root.join("examples"), "examples")?;
    add_file(
        &mut files,
        &project.root.join("docs/library.md"),
        "docs/library.md",
    )?;
    add_templates(&mut files, &name, &queue, &decision, &commit)?;

    let folder = to.join(&name);
    let archive = to.join(format!("{name}.tar.gz"));
    let bytes = pack(&files, &name, commit.time)?;

    write_folder(&files, &folder)?;
    println!("{}/: {} files", project.shown(&folder), files.len());

    fs::write(&archive, &bytes).with_context(|| format!("cannot write {}", archive.display()))?;
    println!(
        "{}: {} KB, sha256 {}",
        project.shown(&archive),
        bytes.len().div_ceil(1000),
        published::sha256(&bytes)
    );

    if commit.changed {
        println!("note: it holds changes that are not committed, and its README.md says so");
    }

    Ok(())
}

/// The manifest of the decision layer.
struct Manifest {
    version: String,
    text: String,
}

impl Manifest {
    /// Takes the package out of the workspace whose root it is.
    fn load(path: &Path) -> Result<Manifest> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;

        Manifest::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Manifest> {
        let whole: toml::Table = text.parse()?;
        let table = |table: &toml::Table, key: &str| -> Option<toml::Table> {
            table.get(key)?.as_table().cloned()
        };
        let inherited = table(&whole, "workspace")
            .and_then(|w| table(&w, "package"))
            .unwrap_or_default();
        let mut package = table(&whole, "package").context("there is no [package]")?;

        for (key, value) in package.iter_mut() {
            let inherits = value.get("workspace").and_then(toml::Value::as_bool);

            if inherits == Some(true) {
                *value = inherited
                    .get(key)
                    .with_context(|| format!("`workspace.package.{key}` is missing"))?
                    .clone();
            }
        }

        if whole.contains_key("dependencies") {
            bail!("the decision layer is to depend on std alone, but has [dependencies]");
        }

        let version = package
            .get("version")
            .and_then(toml::Value::as_str)
            .context("`package.version` is missing")?
            .to_string();
        let mut manifest = toml::Table::new();

        // Development dependencies and benchmarks stay behind: the package's lock file does not know them.
        manifest.insert("package".into(), package.into());

        if let Some(lib) = table(&whole, "lib") {
            manifest.insert("lib".into(), lib.into());
        }

        Ok(Manifest {
            version,
            text: toml::to_string(&manifest)?,
        })
    }
}

/// What the package is made from, as far as git knows.
struct Commit {
    text: String,
    /// Whether it has changes beside the commit.
    changed: bool,
    /// Seconds since 1970.
    time: u64,
}

impl Commit {
    fn of(project: &Project) -> Result<Commit> {
        let git = Git::at(&project.root);

        if !git.is_repository() || git.commit("HEAD")?.is_none() {
            return Ok(Commit {
                text: "none".into(),
                changed: false,
                time: NO_COMMIT_TIME,
            });
        }

        let status = git.text(&[
            "status",
            "--porcelain",
            "--",
            "COPYING",
            "Cargo.toml",
            "ci/xtask",
            "docs/library.md",
            "examples",
            "quiche-patches",
            "src",
        ])?;
        let changed = !status.is_empty();
        let mut text = git.text(&["rev-parse", "HEAD"])?;

        if changed {
            text.push_str(", with changes that are not committed");
        }

        Ok(Commit {
            text,
            changed,
            time: git.text(&["show", "-s", "--format=%ct", "HEAD"])?.parse()?,
        })
    }
}

/// Adds what the patched quiche holds; its lock file becomes the one of the package's workspace.
fn add_quiche(files: &mut Files, git: &Git) -> Result<()> {
    let tar = git.bytes(&["archive", "--format=tar", "HEAD^{tree}"])?;

    for entry in tar::Archive::new(&tar[..]).entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        let path = utf8(&entry.path()?)?;

        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }

        if !kind.is_file() {
            bail!("quiche's `{path}` is neither file nor folder");
        }

        let executable = entry.header().mode()? & 0o100 != 0;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;

        let path = match path.as_str() {
            "Cargo.lock" => path,
            _ => format!("quiche/{path}"),
        };

        files.insert(path, File { bytes, executable });
    }

    let manifest = files
        .get_mut("quiche/Cargo.toml")
        .context("quiche has no Cargo.toml")?;
    let text = std::str::from_utf8(&manifest.bytes)?;

    if text.matches(DEPENDENCY).count() != 1 {
        bail!("quiche's Cargo.toml does not have these lines, once:\n{DEPENDENCY}");
    }

    manifest.bytes = text.replace(DEPENDENCY, PACKAGED_DEPENDENCY).into_bytes();
    Ok(())
}

fn add_decision(files: &mut Files, root: &Path, manifest: &Manifest) -> Result<()> {
    add_text(files, "mpq-decision/Cargo.toml", &manifest.text);

    for path in ["mpq-decision/COPYING", "examples/COPYING"] {
        add_file(files, &root.join("COPYING"), path)?;
    }

    add_folder(files, &root.join("src"), "mpq-decision/src")
}

/// Adds the files below `from` as files below `to`, without hidden ones and what cargo has built.
fn add_folder(files: &mut Files, from: &Path, to: &str) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;

    for entry in entries {
        let entry = entry?;
        let name = utf8(Path::new(&entry.file_name()))?;
        let path = format!("{to}/{name}");
        let kind = entry.file_type()?;

        if name.starts_with('.') || name == "target" {
            continue;
        } else if kind.is_dir() {
            add_folder(files, &entry.path(), &path)?;
        } else if kind.is_file() {
            add_file(files, &entry.path(), &path)?;
        } else {
            bail!("{} is neither file nor folder", entry.path().display());
        }
    }

    Ok(())
}

fn add_file(files: &mut Files, from: &Path, to: &str) -> Result<()> {
    let cannot = || format!("cannot read {}", from.display());
    let bytes = fs::read(from).with_context(cannot)?;
    let executable = is_executable(&fs::metadata(from).with_context(cannot)?);

    files.insert(to.into(), File { bytes, executable });
    Ok(())
}

fn add_templates(
    files: &mut Files,
    name: &str,
    queue: &Queue,
    decision: &Manifest,
    commit: &Commit,
) -> Result<()> {
    let patches = Project::patches(queue.files.len());
    let series = queue.hash()?;
    let values = [
        ("@NAME@", name),
        ("@QUICHE@", queue.upstream.version()),
        ("@DECISION@", &decision.version),
        ("@CRATE@", queue.upstream.checksum()),
        ("@PATCHES@", &patches),
        ("@SERIES@", &series),
        ("@COMMIT@", &commit.text),
    ];

    for (path, template) in TEMPLATES {
        let mut text = template.to_string();

        if path.ends_with(".md") {
            for (key, value) in values {
                text = text.replace(key, value);
            }
        }

        add_text(files, path, &text);
    }

    Ok(())
}

fn add_text(files: &mut Files, path: &str, text: &str) {
    files.insert(
        path.into(),
        File {
            bytes: text.as_bytes().to_vec(),
            executable: false,
        },
    );
}

/// The archive: sorted, with nobody's name and one time, so that equal contents are equal bytes.
fn pack(files: &Files, name: &str, time: u64) -> Result<Vec<u8>> {
    let gz = GzBuilder::new().write(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(gz);

    for (path, file) in files {
        let mut header = tar::Header::new_gnu();

        header.set_size(file.bytes.len() as u64);
        header.set_mode(file.mode());
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, format!("{name}/{path}"), &file.bytes[..])?;
    }

    Ok(tar.into_inner()?.finish()?)
}

/// Replaces `folder` by the files.
fn write_folder(files: &Files, folder: &Path) -> Result<()> {
    if folder.join(".git").exists() {
        bail!(
            "{} is a git repository, which would be lost: `--to DIR` puts the package elsewhere",
            folder.display()
        );
    }

    let shown = folder.display();

    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot replace {shown}"))?;
    }

    for (path, file) in files {
        let path = folder.join(path);

        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot write to {shown}"))?;
        }

        fs::write(&path, &file.bytes)?;
        set_mode(&path, file.mode())?;
    }

    Ok(())
}

impl File {
    fn mode(&self) -> u32 {
        match self.executable {
            true => 0o755,
            false => 0o644,
        }
    }
}

fn utf8(path: &Path) -> Result<String> {
    let text = path.to_str();

    Ok(text
        .with_context(|| format!("the name {} is not UTF-8", path.display()))?
        .to_string())
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;

    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_leaves_its_workspace() {
        let manifest = Manifest::parse(
            "[workspace]\nmembers = [\"x\"]\n\
             [workspace.package]\nversion = \"1.2.3\"\nlicense = \"BSD-2-Clause\"\n\
             [package]\nname = \"d\"\nversion.workspace = true\nlicense.workspace = true\n\
             [lib]\npath = \"src/lib.rs\"\n\
             [dev-dependencies]\nproptest = \"1\"\n[[bench]]\nname = \"b\"\n",
        )
        .unwrap();

        assert_eq!(manifest.version, "1.2.3");
        let table: toml::Table = manifest.text.parse().unwrap();
        assert_eq!(table["package"]["license"].as_str(), Some("BSD-2-Clause"));
        assert_eq!(table["lib"]["path"].as_str(), Some("src/lib.rs"));
        assert_eq!(table.len(), 2, "{}", manifest.text);
    }

    #[test]
    fn a_manifest_that_needs_more_is_refused() {
        for (text, why) in [
            (
                "[package]\nversion.workspace = true\n",
                "`workspace.package.version` is missing",
            ),
            (
                "[package]\nversion = \"1.0.0\"\n[dependencies]\nx = \"1\"\n",
                "std alone",
            ),
            ("[workspace]\n", "no [package]"),
        ] {
            let error = Manifest::parse(text).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
