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

use super::boxed;
use super::delay::Delay;
use super::delay::Grain;
use super::reno;
use super::units::packets;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
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
    new: |settings| boxed(Ledbat::new(settings)),
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
}

impl Ledbat {
    fn new(settings: &Settings) -> Self {
        Ledbat {
            target: settings.get("target"),
            gain: settings.get("gain"),
            init: settings.get("init"),
        }
    }
}

impl Controller for Ledbat {
    type Flow = Delay;

    fn initial_window_packets(&self) -> Option<f64> {
        Some(self.init)
    }

    fn has_slow_start(&self) -> bool {
        false
    }

    fn reads_one_way_delay(&self) -> bool {
        true
    }

    fn on_sample(&mut self, own: Own<Delay>, ack: &Ack) {
        own.flow
            .on_ack(own.now, own.path, ack, &mut Grain::default());
    }

    fn increase(&mut self, own: Own<Delay>, ack: &Ack) -> f64 {
        let off = off_target(self.target, own.flow.queueing());
        self.gain * off * ack.acked_bytes as f64 / packets(own.path)
    }

    fn decrease(&mut self, own: Own<Delay>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, delay: &Delay, trace: &mut Trace) {
        let q = delay.queueing();
        trace.push("q_secs", q);
        trace.push("off_target", off_target(self.target, q));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// What one acked packet does to a window of 20 packets, with a queue of `q_ms`.
    fn step(q_ms: i64) -> f64 {
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        let mut ledbat = joined(Ledbat::new(&settings(&ENTRY, "")), &paths);
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
        let paths = paths(&[(20, 100)]);
        let mut ledbat = joined(Ledbat::new(&settings(&ENTRY, "")), &paths);
        close(ledbat.decrease(now, &paths, PathId(0)), 10_000.0);
    }

    #[test]
    fn what_the_transport_is_told() {
        let ledbat = ENTRY.with_defaults();
        assert_eq!(ledbat.initial_window_packets(), Some(2.0));
        assert!(!ledbat.has_slow_start() && ledbat.reads_one_way_delay());
        let paths = paths(&[(20, 100)]);
        let ledbat = joined(Ledbat::new(&settings(&ENTRY, "")), &paths);
        shows(&ledbat, &paths, &[("q_secs", 0.0), ("off_target", 1.0)]);
    }
}
