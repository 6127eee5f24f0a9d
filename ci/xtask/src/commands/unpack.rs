//! Makes `vendor/quiche` from the published crate and the patches.

use std::fs;

use anyhow::bail;
use anyhow::Result;

use super::Project;
use crate::git::Git;
use crate::queue::Queue;
use crate::vendor;
use crate::vendor::Fit;
use crate::vendor::Stamp;

/// What to do when `vendor/quiche` holds work that `quiche-patches/` does not.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocalWork {
    /// Fail.
    Refuse,
    /// Leave the tree as it is and say so.
    Keep,
    /// Put it aside; its commits stay in the reflog.
    Discard,
}

/// Fetches, verifies, unpacks and patches; quick when nothing has changed.
pub fn unpack(project: &Project, local: LocalWork) -> Result<()> {
    let git = project.vendor();
    let queue = project.queue()?;
    let shown = project.shown(git.dir()).to_string();
    let occupied = fs::read_dir(git.dir()).is_ok_and(|mut d| d.next().is_some());

    if git.is_repository() {
        if let Some(work) = vendor::local_work(&git, &queue)? {
            match local {
                LocalWork::Refuse => bail!(
                    "{shown} is left as it is: {work}.\n\
                     `cargo xtask quiche unpack --force` discards that."
                ),

                LocalWork::Keep => {
                    eprintln!("{shown} is left as it is: {work}");
                    return Ok(());
                }

                LocalWork::Discard => {
                    if let Some(head) = git.commit("HEAD")? {
                        println!("discarding work; the commits end at {head}");
                    }
                }
            }
        } else if is_current(&git, &queue)? {
            println!("{shown} is up to date");
            return Ok(());
        }
    } else if occupied {
        if local != LocalWork::Discard {
            bail!(
                "{shown} is in the way: it is not a git repository made by this \
                 command.\n`cargo xtask quiche unpack --force` deletes it."
            );
        }

        fs::remove_dir_all(git.dir())?;
    }

    vendor::init(&git)?;

    // A rebase or am given up with --force; quitting leaves the tree alone.
    if let Some(command) = git.unfinished()? {
        let name = command.trim_start_matches("git ");
        git.text(&[name, "--quit"])?;
    }

    vendor::check_out_base(&git, &project.source, &queue)?;
    vendor::write_alias(&git)?;
    vendor::apply(&git, &queue, Fit::Exact)?;
    Stamp::store(&git, &queue)?;

    println!(
        "{shown}: {} {} with {}",
        queue.upstream.name(),
        queue.upstream.version(),
        Project::patches(queue.series.patches().count())
    );

    Ok(())
}

/// Whether the repository, known to hold no work of its own, is what the queue says.
fn is_current(git: &Git, queue: &Queue) -> Result<bool> {
    let now = Stamp {
        queue: queue.hash()?,
        head: git.text(&["rev-parse", "HEAD"])?,
    };

    Ok(Stamp::load(git)?.is_some_and(|s| s == now))
}
