//! Backup: one path carries the data, the others are open, validated, and stand by.
//!
//! The path that carries is the most preferred one that is not in doubt. A scheduler switches by
//! itself the moment it is in doubt (see [`Tier`](crate::sched::Tier)); the status that follows
//! makes the peer switch, too.

use super::Entry;
use super::Pair;
use super::Policy;
use super::View;
use super::RULES;
use crate::registry::PathId;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "backup",
    summary: "a path over every interface; the first carries all, the others stand by",
    params: RULES,
    new: |_| Box::new(Backup),
};

#[derive(Debug)]
struct Backup;

impl Policy for Backup {
    fn wants(&self, _view: &View<'_>, _pair: &Pair) -> Result<(), &'static str> {
        Ok(())
    }

    fn carries(&self, view: &View<'_>, path: PathId) -> bool {
        view.best_working() == Some(path)
    }
}
