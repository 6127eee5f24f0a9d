//! Weighted round robin, by deficit: each path carries its share, whatever its RTT.
//!
//! A path's count is what it carried, divided by its weight. The open path that is farthest behind
//! has the next turn, for a quantum of Q = 8 packets times its weight over the largest one. One that
//! had no room meanwhile has lost its turns, but for one quantum:
//!
//! ```text
//! next = the open path of least v_i; v_i += bytes / w_i
//! on its return: v_i = max(v_i, v - Q), v the least at the last turn
//! ```
//!
//! The weights are parameters, or each path's window in a round trip.

use std::time::Instant;

use super::measure;
use super::min_rtt::MinRtt;
use super::opportunistic;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::params::Param;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;

/// Packets in a turn of the path of the largest weight.
const QUANTUM_PACKETS: u64 = 8;

/// The paths that have weights of their own.
const WEIGHTS: usize = 4;

/// A weight of one.
const ONE: u64 = 1000;

/// The range of a weight, and the default.
const RANGE: [f64; 3] = [0.01, 1.0, 100.0];

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "round-robin",
    summary: "each path in turn, as much as its weight says",
    idea:
        "Every path carries its share of the bytes, by given weights or by what its window carries \
           in a round trip. A path that is full loses its turn.",
    source:
        "Shreedhar and Varghese, Deficit Round Robin, SIGCOMM 1995; the scheduler of that name \
             in the MPTCP kernels",
    rule: "the open path of least v_i, for Q w_i/max w bytes; v_i += bytes/w_i; back from a full \
           window: v_i = max(v_i, v - Q)",
    use_when: "an experiment needs a given ratio of bytes on the paths",
    wrong: "it heeds no RTT: once the receiver's window is full, equal weights run n paths at n \
            times the rate of the slowest, and the end of every object waits for the slowest path",
    deviations: &[
        "a path's debt or credit is its distance from the others' count, so that a turn needs no \
         rounds to be found",
    ],
    params: &[
        Param::choice(
            "by",
            &["weights", "rate"],
            "whether w0 to w3 are the shares, or each path's window in a round trip is",
        ),
        Param::number(
            "w0",
            RANGE,
            "weight of path ID 0, the path of the handshake",
        ),
        Param::number("w1", RANGE, "weight of path ID 1"),
        Param::number("w2", RANGE, "weight of path ID 2"),
        Param::number("w3", RANGE, "weight of path ID 3 and of all after it"),
        tail::PARAM,
        opportunistic::PARAM,
    ],
    new: |settings| {
        let weight = |name| (settings.get(name) * ONE as f64) as u64;
        Box::new(RoundRobin {
            by_rate: settings.word("by") == "rate",
            weights: ["w0", "w1", "w2", "w3"].map(weight),
            ..RoundRobin::default()
        })
    },
};

/// The scheduler.
#[derive(Debug, Default)]
struct RoundRobin {
    by_rate: bool,

    /// In thousandths.
    weights: [u64; WEIGHTS],

    /// What each path carried, in bytes of weight one.
    carried: PathMap<u64>,

    /// The least of these among the open paths, at the last turn.
    level: u64,

    /// Whose turn it is, and what the connection had sent when it was counted last.
    turn: Option<(PathId, u64)>,

    /// For what has no turns: what is sent again, and datagrams.
    min_rtt: MinRtt,
}

impl RoundRobin {
    /// The path's weight, in thousandths or in bytes per second; that of a path without RTT sample
    /// is unknown if the rates are the weights.
    fn weight(&self, path: &PathState) -> Option<u64> {
        match self.by_rate {
            true => {
                let rtt = path.rtt?.smoothed.as_nanos().max(1);
                let rate = u128::from(path.cwnd_bytes) * 1_000_000_000 / rtt;
                Some(u64::try_from(rate).unwrap_or(u64::MAX).max(1))
            }
            false => {
                let at = usize::try_from(path.id.0).unwrap_or(WEIGHTS);
                Some(self.weights[at.min(WEIGHTS - 1)].max(1))
            }
        }
    }

    /// Counts what was sent since the last pick for the path that had the turn.
    fn count(&mut self, view: &View, least: u64, most: u64) {
        let sent = view.connection().sent_bytes;
        let Some((path, before)) = self.turn else {
            return;
        };
        self.turn = Some((path, sent));
        let weight = view
            .any_path(path)
            .and_then(|path| self.weight(path))
            .unwrap_or(least);
        if let Some(carried) = self.carried.get_mut(path) {
            let bytes = u128::from(sent.saturating_sub(before));
            let share = bytes * u128::from(most) / u128::from(weight.max(1));
            *carried = carried.saturating_add(share.try_into().unwrap_or(u64::MAX));
        }
    }
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        if !matches!(ask, Ask::New { .. }) {
            return self.min_rtt.pick(now, view, ask);
        }

        let weights = view.paths().filter_map(|path| self.weight(path));
        let least = weights.clone().min().unwrap_or(ONE);
        let most = weights.max().unwrap_or(ONE);
        self.count(view, least, most);

        let mut next: Option<(u64, &PathState)> = None;
        let open = |path: &&PathState| measure::is_open(path, now, view, ask);
        for path in view.paths().filter(open) {
            let quantum = QUANTUM_PACKETS * path.mss_bytes;
            let carried = self.carried.get(path.id).copied().unwrap_or(self.level);
            let carried = carried.max(self.level.saturating_sub(quantum));
            self.carried.insert(path.id, carried);
            if next.is_none_or(|(least, _)| carried < least) {
                next = Some((carried, path));
            }
        }
        let Some((level, path)) = next else {
            return measure::wait(now, view, ask);
        };

        self.level = level;
        self.turn = Some((path.id, view.connection().sent_bytes));
        let weight = self.weight(path).unwrap_or(least);
        let quantum = u128::from(QUANTUM_PACKETS * path.mss_bytes) * u128::from(weight);
        let quantum = u64::try_from(quantum / u128::from(most)).unwrap_or(u64::MAX);
        Pick::Send {
            path: path.id,
            quantum_bytes: path.room_bytes().min(quantum.max(path.mss_bytes)),
        }
    }
}
