//! Default first: one path, by the default route, and another only while it does not work.
//!
//! Costs nothing on the other interfaces as long as all is well, at the price of a round trip and a
//! validation when it is not; [`backup`](super::backup) has them open before.

use super::Entry;
use super::Pair;
use super::Policy;
use super::View;
use super::RULES;
use crate::registry::PathId;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "default-first",
    summary: "one path by the default route; another is opened only while that does not work",
    params: RULES,
    new: |_| Box::new(DefaultFirst),
};

#[derive(Debug)]
struct DefaultFirst;

impl Policy for DefaultFirst {
    fn wants(&self, view: &View<'_>, pair: &Pair) -> Result<(), &'static str> {
        match view.best_working() {
            // A better interface than that of the path in use has come, or come back.
            Some(best) if view.is_better(pair, best) => Ok(()),
            Some(_) => Err("is opened when the path in use does not work"),
            None => Ok(()),
        }
    }

    fn keeps(&self, view: &View<'_>, path: PathId) -> bool {
        // A better one that is in doubt may come back.
        view.best_working()
            .is_none_or(|best| !view.is_validated(path) || !view.is_better_path(best, path))
    }
}
