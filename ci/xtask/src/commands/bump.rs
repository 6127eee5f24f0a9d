//! Moves the patches to another version of the crate.

use std::fs;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use super::export;
use super::Project;
use crate::git::Git;
use crate::patch::Message;
use crate::vendor;
use crate::vendor::Fit;
use crate::vendor::Stamp;

/// Merges the series onto `version`, updates UPSTREAM and exports.
pub fn bump(project: &Project, version: &str) -> Result<()> {
    let git = project.vendor();
    let mut queue = project.queue()?;
    let before = queue.upstream.version().to_string();

    if version == before {
        bail!("the patches are for {version} already");
    }

    // The old base has to be in the repository: it is what the merge is relative to.
    vendor::require_clean(&git)?;

    let now = Stamp {
        queue: queue.hash()?,
        head: git.text(&["rev-parse", "HEAD"])?,
    };

    if Stamp::load(&git)?.is_none_or(|s| s != now) {
        bail!(
            "{} and quiche-patches/ are not in step: `cargo xtask quiche export` \
             or `cargo xtask quiche unpack` first",
            project.shown(git.dir())
        );
    }

    let name = queue.upstream.name().to_string();
    let checksum = project.source.checksum(&name, version)?;

    // What was before, for `git diff before-upstream upstream` and `git range-diff`.
    git.text(&["tag", "--force", "before", "HEAD"])?;
    git.text(&["tag", "--force", "before-upstream", vendor::BASE])?;

    queue.upstream.set("Version", version);
    queue.upstream.set("Checksum", &checksum);
    vendor::check_out_base(&git, &project.source, &queue)?;

    if let Ok(revision) = vendor::base_revision(&git) {
        queue.upstream.set("Revision", &revision);
    }

    // Before the patches: whoever continues by hand exports against the new base.
    fs::write(queue.dir.join("UPSTREAM"), queue.upstream.to_text())?;
    println!("{name} {before} -> {version}");

    vendor::write_alias(&git)?;
    vendor::apply(&git, &queue, Fit::ThreeWay).with_context(|| {
        format!(
            "UPSTREAM says {version} now, but not every patch could be merged \
             (to stay with {before}, restore UPSTREAM and unpack with --force)"
        )
    })?;

    let range = format!("{}..HEAD", vendor::BASE);
    let subjects = git.text(&["log", "--format=%s", &range])?;

    for (name, bytes) in queue.patches()? {
        let subject = Message::from_patch(bytes)?.subject;

        if !subjects.lines().any(|s| s == subject) {
            println!("empty:   {name}: {version} has it already");
        }
    }

    export(project)?;
    println!("next: `cargo xtask quiche test-each`, then commit quiche-patches/");

    let places = pins(project, &name, &before)?;

    if !places.is_empty() {
        println!("{before} is still named in {}", places.join(", "));
    }

    Ok(())
}

/// The manifests, lock files and pages that name the version `before`, as paths from the root.
fn pins(project: &Project, name: &str, before: &str) -> Result<Vec<String>> {
    let mut places = Vec::new();

    // Fails where nothing is found, and where the project is no repository.
    let found = Git::at(&project.root).output(&["grep", "-l", "-F", before])?;

    for path in String::from_utf8_lossy(&found.stdout).lines() {
        let is_kind = ["Cargo.toml", "Cargo.lock", ".md"]
            .iter()
            .any(|end| path.ends_with(end));

        if is_kind && fs::read_to_string(project.root.join(path))?.contains(name) {
            places.push(path.to_string());
        }
    }

    Ok(places)
}
