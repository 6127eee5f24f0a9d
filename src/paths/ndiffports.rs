//! N different ports: several paths between the addresses of the first, told apart by our port.
//!
//! For networks that spread flows over several links by their ports (ECMP, link aggregation), as the
//! path manager of that name of the kernel's MPTCP does.

use super::Entry;
use super::Pair;
use super::Policy;
use super::Rules;
use super::View;
use super::RULES;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "ndiffports",
    summary:
        "per-interface=N paths (2 without) between the first path's addresses, from other ports",
    params: RULES,
    new: |_| Box::new(NDiffPorts),
};

#[derive(Debug)]
struct NDiffPorts;

impl Policy for NDiffPorts {
    fn wants(&self, view: &View<'_>, pair: &Pair) -> Result<(), &'static str> {
        match view.first_pair() {
            Some(first) if first != *pair => Err("ndiffports uses the first path's addresses only"),
            _ => Ok(()),
        }
    }

    fn repeats_pairs(&self) -> bool {
        true
    }

    fn per_interface(&self, rules: &Rules) -> usize {
        rules.per_interface.max(2)
    }
}
