//! LEDBAT on each path by itself (RFC 6817).
//!
//! Uses what others leave: the window follows the queueing delay so that it stays at a target of
//! 100 ms, and gives way to flows that queue more. There is no slow start.
//!
//! | symbol     | name here         | unit    | source                |
//! |------------|-------------------|---------|-----------------------|
//! | TARGET     | `Ledbat::target`  | s       | RFC 6817 section 2.5: at most 100 ms |
//! | GAIN       | `Ledbat::gain`    | 1       | section 2.4.2: at most 1 |
//! | INIT_CWND  | `Ledbat::init`    | packets | section 2.5: 2        |
//! | MIN_CWND   | the shared floor  | packets | section 2.5: 2        |
//! | off_target | `off_target`      | 1       | (TARGET - q)/TARGET   |
//!
//! q comes from [`Delay`]: one-way if the peer sends timestamps. The RFC's bound of the window by
//! what is in flight plus ALLOWED_INCREASE is the shared test whether the window is the limit.

use std::time::Instant;

use super::delay::Delay;
use super::members::packets;
use super::reno;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Param;
use super::Settings;
use super::Trace;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "ledbat",
    coupled: false,
    summary: "LEDBAT (RFC 6817) on each path by itself: gives way to everyone else",
    idea: "The window follows the queueing delay towards a target of 100 ms, so it uses what \
           others leave and yields when they come.",
    source: "RFC 6817",
    formula: "q = delay - base delay; ack: w += gain (target - q)/target / w; loss: w = w/2",
    use_when: "the transfer may take as long as it likes: backups, updates",
    avoid_when: "several LEDBAT flows share a bottleneck: a late one takes the standing queue for \
                 the empty path, and most of the rate (fLEDBAT, DC-LEDBAT)",
    deviations: &[
        "q is one-way if the peer sends timestamps, else it comes from RTT samples less the \
         peer's ACK delay",
        "ALLOWED_INCREASE is the test, shared by all controllers, whether the window is the \
         limit",
    ],
    params: &[
        TARGET,
        Param::number(
            "gain",
            [0.01, 1.0, 1.0],
            "window gained per round trip on an empty path",
        ),
        Param::packets("init", [2.0, 2.0, 10.0], "initial window; RFC 6817's 2"),
    ],
    new: |settings| Box::new(Ledbat::new(settings)),
};

/// The target delay of LEDBAT and its relatives.
pub(super) const TARGET: Param = Param::time(
    "target",
    [0.001, 0.1, 10.0],
    "queueing delay aimed at; RFC 6817 allows at most 100 ms",
);

/// off_target = (TARGET - q) / TARGET (RFC 6817, section 2.4.2).
fn off_target(target: f64, q: f64) -> f64 {
    (target - q) / target
}

/// The controller.
#[derive(Debug)]
struct Ledbat {
    target: f64,
    gain: f64,
    init: f64,
    delays: PathMap<Delay>,
}

impl Ledbat {
    fn new(settings: &Settings) -> Self {
        Ledbat {
            target: settings.get("target"),
            gain: settings.get("gain"),
            init: settings.get("init"),
            delays: PathMap::default(),
        }
    }

    fn queueing(&self, id: PathId) -> f64 {
        self.delays.get(id).map_or(0.0, Delay::queueing)
    }
}

impl Controller for Ledbat {
    fn on_path_added(&mut self, _now: Instant, id: PathId) {
        self.delays.insert(id, Delay::default());
    }

    fn on_path_closed(&mut self, _now: Instant, id: PathId) {
        self.delays.remove(id);
    }

    fn on_path_reset(&mut self, _now: Instant, id: PathId) {
        self.delays.insert(id, Delay::default());
    }

    fn initial_window_packets(&self) -> Option<f64> {
        Some(self.init)
    }

    fn has_slow_start(&self) -> bool {
        false
    }

    fn on_sample(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) {
        if let (Some(path), Some(delay)) = (paths.get(id), self.delays.get_mut(id)) {
            delay.on_ack(now, path, ack);
        }
    }

    fn increase(&mut self, _now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64 {
        paths.get(id).map_or(0.0, |path| {
            let off = off_target(self.target, self.queueing(id));
            self.gain * off * ack.acked_bytes as f64 / packets(path)
        })
    }

    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64 {
        reno::Reno.decrease(now, paths, id)
    }

    fn trace(&self, _paths: &Registry, id: PathId, trace: &mut Trace) {
        trace.push("q_secs", self.queueing(id));
        trace.push("off_target", off_target(self.target, self.queueing(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// What one acked packet does to a window of 20 packets, with a queue of `q_ms`.
    fn step(q_ms: i64) -> f64 {
        let now = Instant::now();
        let mut ledbat = Ledbat::new(&Settings::defaults(ENTRY.params));
        ledbat.on_path_added(now, PathId(0));
        let mut paths = paths(&[(20, 100)]);
        for delay_ms in [0, q_ms, q_ms, q_ms, q_ms] {
            paths.get_mut(PathId(0)).unwrap().one_way_delay_micros = Some(delay_ms * 1000);
            ledbat.on_sample(now, &paths, PathId(0), &ack(now));
        }
        ledbat.increase(now, &paths, PathId(0), &ack(now))
    }

    #[test]
    fn the_step_is_proportional_to_the_distance_from_the_target() {
        // q = 0: off = 1, 1/20 packets = 50 bytes, as Reno. q = 50 ms: off = 1/2. q = 100: none.
        close(step(0), 50.0);
        close(step(50), 25.0);
        close(step(100), 0.0);
        // q = 250 ms: off = -1.5.
        close(step(250), -75.0);
    }

    #[test]
    fn a_loss_halves() {
        let now = Instant::now();
        let mut ledbat = Ledbat::new(&Settings::defaults(ENTRY.params));
        close(
            ledbat.decrease(now, &paths(&[(20, 100)]), PathId(0)),
            10_000.0,
        );
    }
}
