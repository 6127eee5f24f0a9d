//! Writes the commits of `vendor/quiche` back to `quiche-patches/`.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Project;
use crate::vendor;
use crate::vendor::Stamp;

/// Rewrites the patch files and `series`; files that do not change are not touched.
pub fn export(project: &Project) -> Result<()> {
    let git = project.vendor();
    vendor::require_clean(&git)?;

    let queue = project.queue()?;
    let rendered = vendor::render(&git, &queue.series)?;

    for (name, bytes) in &rendered.files {
        match queue.files.get(name) {
            Some(old) if old == bytes => continue,
            Some(_) => println!("changed: {name}"),
            None => println!("new:     {name}"),
        }

        write(&queue.dir.join(name), bytes)?;
    }

    if rendered.series != queue.series_text {
        println!("changed: series");
        write(&queue.dir.join("series"), rendered.series.as_bytes())?;
    }

    for name in queue.files.keys() {
        if !rendered.files.contains_key(name) {
            println!("removed: {name} (no commit carries it)");
            fs::remove_file(queue.dir.join(name))?;
        }
    }

    println!(
        "{}: {}",
        project.shown(&queue.dir),
        Project::patches(rendered.files.len())
    );
    Stamp::store(&git, &project.queue()?)
}

/// Replaces a file whole, so that an interrupted export leaves no half of one.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");

    fs::write(&partial, bytes)?;
    fs::rename(&partial, path)?;
    Ok(())
}
