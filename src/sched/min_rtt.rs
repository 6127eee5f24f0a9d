//! Least RTT first: the default scheduler of the MPTCP kernels and of most multipath QUIC stacks.
//!
//! Among the paths with room for a packet, the one with the least smoothed RTT; the next one when it
//! is full; nothing when all are. Three refinements:
//!
//! - Tie band: RTTs within max(1 ms, 1/16) of the least are equal; then the larger room decides,
//!   then the last pick, then the lower path ID. Else RTT noise would move every burst.
//! - A path that only waits for its pacer is not full: we wait for it if that costs no more than
//!   the RTT that the next path is longer by, and if what is left to send fits its window. More
//!   than that goes to the next path sooner or later, so it may go now.
//! - A path without an RTT sample comes last, except for one probing burst of two packets in
//!   flight, which gives it the sample.
//!
//! What it gets wrong: a full fast path spills at once, however slow the next path is, so a short
//! object's last packet can sit on the slowest path.

use std::time::Duration;
use std::time::Instant;

use super::measure::distance;
use super::measure::held;
use super::measure::need_bytes;
use super::measure::srtt;
use super::opportunistic;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use super::Why;
use super::MAX_QUANTUM_BYTES;
use crate::health::Health;
use crate::registry::PathId;
use crate::registry::PathState;

/// The tie band: RTTs this close are the same, whatever their size.
const TIE_BAND: Duration = Duration::from_millis(1);

/// The tie band as a fraction of the least RTT.
const TIE_FRACTION: u32 = 16;

/// In flight on a path without an RTT sample, and per pick when little is left to send.
const SMALL_BURST_PACKETS: u64 = 2;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "min-rtt",
    summary: "the path with the least RTT that has room, the next one when it is full",
    idea: "Data takes the shortest way while that has room, and spills to the next as soon as it is \
           full.",
    source: "the default scheduler of the MPTCP kernels",
    rule: "of the paths with room, the one of least srtt; none has: wait for an acknowledgment",
    use_when: "the application always has more to send, or to compare with what others have",
    wrong: "a full fast path spills at once, however slow the next path is, so the last packet of a \
            short object can sit on the slowest one",
    deviations: &[
        "RTTs within max(1 ms, 1/16) of the least are equal; then the larger room decides, then the \
         last pick",
        "a path that only waits for its pacer is waited for as long as its lead, if what is left to \
         send fits its window",
        "a path without an RTT sample comes last, but for one burst of two packets that gives it one",
    ],
    params: &[tail::PARAM, opportunistic::PARAM],
    new: |_| Box::<MinRtt>::default(),
};

/// The scheduler.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    last_pick: Option<PathId>,
}

/// Up to this RTT a path counts as equal to one of RTT `least`.
fn tie_limit(least: Duration) -> Duration {
    least.saturating_add(TIE_BAND.max(least / TIE_FRACTION))
}

/// What the paths faster than `than` still have room for.
fn faster_room_bytes<'a>(
    paths: impl Iterator<Item = &'a PathState>,
    view: &View,
    than: &PathState,
) -> u64 {
    paths
        .filter(|path| distance(view, path) < distance(view, than))
        .fold(0, |sum, path| sum.saturating_add(path.room_bytes()))
}

/// A new path may send two packets ahead of its turn, to be measured. Not before it is validated: it
/// may be dead.
fn wants_probing(path: &PathState) -> bool {
    path.validated
        && path.rtt.is_none()
        && path.in_flight_bytes < SMALL_BURST_PACKETS * path.mss_bytes
}

/// A burst on the path: two packets when little is left to send, to think again after them.
pub(super) fn burst(path: &PathState, view: &View, ask: &Ask) -> Pick {
    let limit = match ask {
        Ask::New { .. } if view.connection().unsent_or_more() < path.cwnd_bytes => {
            SMALL_BURST_PACKETS * path.mss_bytes
        }
        Ask::New { .. } | Ask::Retransmit { .. } => MAX_QUANTUM_BYTES,
        Ask::Datagram { len_bytes } => u64::from(*len_bytes),
    };
    Pick::Send {
        path: path.id,
        quantum_bytes: path.room_bytes().min(limit),
    }
}

/// Whether a retransmission should rather go elsewhere than on this path.
fn avoids(path: &PathState, ask: &Ask) -> bool {
    match ask {
        Ask::Retransmit {
            from,
            tried,
            why: Why::Pto | Why::Moved,
            ..
        } => path.id == *from || tried.contains(path.id),
        Ask::Retransmit {
            from,
            why: Why::Lost,
            ..
        } => path.id == *from && path.health != Health::Healthy,
        Ask::New { .. } | Ask::Datagram { .. } => false,
    }
}

impl MinRtt {
    /// The best of `paths` by the tie-band rule.
    fn best<'a>(
        &self,
        view: &View,
        paths: impl Iterator<Item = &'a PathState> + Clone,
    ) -> Option<&'a PathState> {
        let limit = tie_limit(paths.clone().map(|path| distance(view, path)).min()?);
        let equal = paths.filter(|path| distance(view, path) <= limit);
        equal.max_by_key(|path| {
            (
                path.room_bytes(),
                self.last_pick == Some(path.id),
                std::cmp::Reverse(path.id),
            )
        })
    }

    fn send(&mut self, path: &PathState, view: &View, ask: &Ask) -> Pick {
        self.last_pick = Some(path.id);
        let small = SMALL_BURST_PACKETS * path.mss_bytes;
        match ask {
            Ask::New { .. } if wants_probing(path) => Pick::Send {
                path: path.id,
                quantum_bytes: path.room_bytes().min(small - path.in_flight_bytes),
            },
            _ => burst(path, view, ask),
        }
    }
}

impl Scheduler for MinRtt {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        let open = view
            .paths()
            .filter(|path| path.room_bytes() >= need_bytes(path, view, ask));

        if matches!(ask, Ask::New { .. }) {
            let new = open
                .clone()
                .find(|path| wants_probing(path) && held(path, now).is_zero());
            if let Some(new) = new {
                return self.send(new, view, ask);
            }
        }

        let preferred = self.best(view, open.clone().filter(|path| !avoids(path, ask)));
        let Some(fast) = preferred.or_else(|| self.best(view, open.clone())) else {
            // All are full: an ack ends that, most likely one of the fastest path.
            return match view.paths().min_by_key(|path| distance(view, path)) {
                Some(path) => Pick::Wait {
                    on: path.id,
                    until: None,
                },
                None => Pick::None,
            };
        };

        let wait = held(fast, now);
        if wait.is_zero() {
            return self.send(fast, view, ask);
        }
        let next = self.best(
            view,
            open.clone()
                .filter(|path| held(path, now).is_zero() && !avoids(path, ask)),
        );
        match next {
            Some(next)
                if wait > srtt(next).saturating_sub(srtt(fast))
                    || view.connection().unsent_or_more() > faster_room_bytes(open, view, next) =>
            {
                self.send(next, view, ask)
            }
            _ => Pick::Wait {
                on: fast.id,
                until: fast.pacing_release,
            },
        }
    }
}
