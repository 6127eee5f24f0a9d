//! What `cargo xtask quiche ...` does.

mod bump;
mod check;
mod export;
mod package;
mod test_each;
mod unpack;

use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;

use crate::git::Git;
use crate::published::Source;
use crate::queue::Queue;

pub use bump::bump;
pub use check::check;
pub use export::export;
pub use package::package;
pub use test_each::test_each;
pub use test_each::Selection;
pub use unpack::unpack;
pub use unpack::LocalWork;

/// The project's folders that the commands work on.
#[derive(Clone, Debug)]
pub struct Project {
    pub root: PathBuf,
    pub source: Source,
}

impl Project {
    /// The repository that the patches are applied in.
    pub fn vendor(&self) -> Git {
        Git::at(self.root.join("vendor/quiche"))
    }

    /// The patch queue, read anew.
    pub fn queue(&self) -> Result<Queue> {
        Queue::load(&self.root.join("quiche-patches"))
    }

    /// `count` with its noun, for messages.
    pub fn patches(count: usize) -> String {
        format!("{count} patch{}", if count == 1 { "" } else { "es" })
    }

    /// `path` as seen from the project's root, for messages.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
