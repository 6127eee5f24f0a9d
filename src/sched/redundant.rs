//! Redundant: every path carries everything, and the first copy to arrive counts.
//!
//! A path with room first repeats what the other paths have in flight and it has not carried, the
//! oldest first. Only one that is not behind sends new data, the one of least RTT first. What was
//! lost goes before copies, as it is the oldest of all. What was acknowledged elsewhere is skipped, so
//! a slow path jumps ahead and does not replay the past: the goodput is the best path's, the latency
//! of a message the least of all.

use std::time::Instant;

use super::min_rtt::MinRtt;
use super::Ask;
use super::CopyOrder;
use super::Entry;
use super::Moment;
use super::Pick;
use super::Scheduler;
use super::View;
use super::Which;
use crate::registry::PathId;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "redundant",
    summary: "every path carries everything, the first copy counts",
    idea: "Each byte is sent on every path, each within its own window. A message arrives as early as \
           on the best path alone, also when that changes from one to the next.",
    source: "the scheduler of that name in the MPTCP kernels; Frommgen et al., ReMP TCP, ICC 2016",
    rule: "a path with room repeats the oldest data that others have in flight and it has not carried; \
           with none, new data by min-rtt; what is acknowledged on any path is never sent again",
    use_when: "messages are short and rare, and each must be there soon: control, voice, first frames",
    wrong: "all paths together have the goodput of the best one, and every byte is paid for on each; a \
            bottleneck that paths share carries it twice",
    deviations: &[
        "a path skips what was acknowledged on another; the kernel's replays it",
        "backup paths carry no copies",
        "neither tail nor opportunistic: what ends a transfer or blocks flow control is on every path anyhow",
    ],
    params: &[],
    new: |_| Box::<Redundant>::default(),
};

/// The scheduler.
#[derive(Debug, Default)]
struct Redundant {
    min_rtt: MinRtt,

    /// What is to be sent next was lost.
    repairs: bool,
}

impl Scheduler for Redundant {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        self.repairs = matches!(ask, Ask::Retransmit { .. });
        self.min_rtt.pick(now, view, ask)
    }

    fn duplicate(
        &mut self,
        _now: Instant,
        view: &View,
        spare: PathId,
        from: PathId,
        moment: Moment,
    ) -> Option<CopyOrder> {
        if self.repairs && moment == Moment::BeforeNew {
            return None;
        }
        let (spare, _) = (view.path(spare)?, view.any_path(from)?);
        let room_bytes = spare.room_bytes();
        (room_bytes >= spare.mss_bytes).then_some(CopyOrder {
            which: Which::Oldest,
            stream: None,
            ended: false,
            again: true,
            sent_after: None,
            sent_before: None,
            most_bytes: room_bytes,
        })
    }

    fn copies_first(&self) -> bool {
        true
    }
}
