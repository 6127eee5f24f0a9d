//! Full mesh: every interface carries data.

use super::Entry;
use super::Pair;
use super::Policy;
use super::View;
use super::RULES;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "full-mesh",
    summary: "a path over every interface, all in use (with per-interface=N: over more addresses)",
    params: RULES,
    new: |_| Box::new(FullMesh),
};

#[derive(Debug)]
struct FullMesh;

impl Policy for FullMesh {
    fn wants(&self, _view: &View<'_>, _pair: &Pair) -> Result<(), &'static str> {
        Ok(())
    }

    fn races(&self) -> bool {
        true
    }
}
