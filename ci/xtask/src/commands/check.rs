//! Proves that `quiche-patches/` and `vendor/quiche` say the same.

use std::fs;
use std::path::Path;

use anyhow::bail;
use anyhow::Result;

use super::Project;
use crate::git::Git;
use crate::queue::Queue;
use crate::vendor;
use crate::vendor::Fit;
use crate::vendor::Rendered;

/// Unpacks, applies and exports in a scratch folder and compares every byte.
pub fn check(project: &Project) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (_, queue) = rebuild(project, scratch.path())?;

    println!(
        "{} applied to {} {}, exported again, and compared byte for byte",
        Project::patches(queue.files.len()),
        queue.upstream.name(),
        queue.upstream.version()
    );

    Ok(())
}

/// The published crate with the patches applied, as a repository in `scratch`. Fails if
/// `quiche-patches/` is not what export would write, or if `vendor/quiche` is there and differs.
pub fn rebuild(project: &Project, scratch: &Path) -> Result<(Git, Queue)> {
    let queue = project.queue()?;
    let complaints = queue.complaints();

    if !complaints.is_empty() {
        bail!(
            "{} breaks its own rules:\n  {}\n\
             Messages are mended in vendor/quiche: \
             `git rebase --interactive {}` with `reword`, \
             then `cargo xtask quiche export`.",
            project.shown(&queue.dir),
            complaints.join("\n  "),
            vendor::BASE
        );
    }

    let git = Git::at(scratch.join("quiche"));

    vendor::init(&git)?;
    vendor::check_out_base(&git, &project.source, &queue)?;

    if vendor::apply(&git, &queue, Fit::Exact).is_err() {
        // The scratch folder goes away: vendor/quiche is where to mend it.
        bail!(
            "the series does not apply to {} {}; `cargo xtask quiche unpack` \
             shows which hunk fails and how to continue",
            queue.upstream.name(),
            queue.upstream.version()
        );
    }

    let rendered = vendor::render(&git, &queue.series)?;
    let differences = differences(&rendered, &queue);

    if !differences.is_empty() {
        bail!(
            "{} is not what export would write:\n  {}\n\
             `cargo xtask quiche unpack && cargo xtask quiche export` rewrites it.",
            project.shown(&queue.dir),
            differences.join("\n  ")
        );
    }

    check_vendor(project, &git)?;

    Ok((git, queue))
}

/// Where the two differ: file and first line that does.
fn differences(rendered: &Rendered, queue: &Queue) -> Vec<String> {
    let mut differences = Vec::new();

    if rendered.series != queue.series_text {
        differences.push(first_difference(
            "series",
            queue.series_text.as_bytes(),
            rendered.series.as_bytes(),
        ));
    }

    for (name, bytes) in &rendered.files {
        match queue.files.get(name) {
            Some(old) if old == bytes => (),
            Some(old) => differences.push(first_difference(name, old, bytes)),
            None => differences.push(format!(
                "{name}: missing; the patch is in a file of another name"
            )),
        }
    }

    for name in queue.files.keys() {
        if !rendered.files.contains_key(name) {
            differences.push(format!("{name}: export would not write this file"));
        }
    }

    differences
}

fn first_difference(name: &str, ours: &[u8], exported: &[u8]) -> String {
    let ours = String::from_utf8_lossy(ours);
    let exported = String::from_utf8_lossy(exported);
    let mut theirs = exported.lines();

    for (number, line) in ours.lines().enumerate() {
        let other = theirs.next();

        if other != Some(line) {
            return format!(
                "{name}:{}: `{line}`, exported as `{}`",
                number + 1,
                other.unwrap_or("end of file")
            );
        }
    }

    format!("{name}: the end of the file differs")
}

/// Compares `vendor/quiche`, if it is there, with the tree just built.
fn check_vendor(project: &Project, built: &Git) -> Result<()> {
    let git = project.vendor();

    if !git.is_repository() {
        return Ok(());
    }

    vendor::require_clean(&git)?;

    let tree = built.text(&["rev-parse", "HEAD^{tree}"])?;

    if git.text(&["rev-parse", "HEAD^{tree}"])? == tree {
        return Ok(());
    }

    // The object store of the scratch repository is enough to name the files.
    let alternate = fs::canonicalize(built.dir().join(".git/objects"))?;
    let output = crate::git::run(
        git.command()
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternate)
            .args(["diff", "--stat=72", &tree, "HEAD"]),
    )?;

    bail!(
        "{} differs from the published crate with the patches applied:\n{}\n\
         `cargo xtask quiche export` keeps what is in {0}, \
         `cargo xtask quiche unpack` follows quiche-patches/.",
        project.shown(git.dir()),
        String::from_utf8_lossy(&output.stdout).trim_end()
    );
}
