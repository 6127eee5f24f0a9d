//! fLEDBAT on each path by itself (Carofiglio et al. 2013; equation 2 of the DC-LEDBAT paper).
//!
//! LEDBAT whose decrease above the target is in proportion to the window, so that flows of
//! different ages converge to equal shares.
//!
//! | symbol   | name here      | unit    | source                                    |
//! |----------|----------------|---------|-------------------------------------------|
//! | delta    | `Rule::target` | s       | 100 ms                                    |
//! | Delta(t) | `distance`     | s       | delta - q                                 |
//! | alpha    | `Rule::alpha`  | packets | 1                                         |
//! | zeta     | `Rule::zeta`   | 1       | not given in the paper; see below         |
//! | W        | `w`            | packets | window                                    |
//!
//! zeta (A): in equilibrium a round trip adds alpha and takes zeta W |Delta|/delta away, so the
//! queue stands N alpha delta/(zeta T) packets above the target (equation 6). With zeta = 1 that is
//! a few packets for rates from 8 to 100 Mbit/s. A round trip takes at most half the window.

use std::time::Instant;

use super::boxed;
use super::delay::Delay;
use super::delay::Grain;
use super::delay::GRAIN;
use super::ledbat::TARGET;
use super::reno;
use super::units::packets;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "fledbat",
    coupled: false,
    summary: "fLEDBAT on each path by itself: LEDBAT that shares with its like",
    idea: "LEDBAT with a decrease in proportion to the window, so that flows of different ages \
           converge to equal shares.",
    source: "Carofiglio et al., Computer Networks 57(8), 2013; equation 2 of the DC-LEDBAT paper",
    formula: "D = target - q; ack: w += alpha/w, and zeta D/target more if D < 0; loss: w = w/2",
    use_when: "background transfers share a bottleneck with each other",
    avoid_when: "paths share a bottleneck (DC-LEDBAT couples them), or the base delay cannot be \
                 measured because the queue never empties",
    deviations: &[
        "zeta is 1: the paper gives no value",
        "a round trip takes at most half of the window",
    ],
    params: &[TARGET, ALPHA, ZETA, INIT, SLOW_START, GRAIN],
    new: |settings| boxed(Fledbat::new(settings)),
};

/// The additive increase.
pub(super) const ALPHA: Param = Param::packets(
    "alpha",
    [0.1, 1.0, 10.0],
    "packets gained per round trip; 1",
);

/// The multiplicative decrease.
pub(super) const ZETA: Param = Param::number(
    "zeta",
    [0.01, 1.0, 10.0],
    "gain of the decrease above the target; the paper gives none, 1 is ours",
);

/// The first window.
pub(super) const INIT: Param = Param::packets(
    "init",
    [2.0, 10.0, 10.0],
    "initial window; 10 as in the paper's kernel, LEDBAT has 2",
);

/// Whether a path begins by doubling.
pub(super) const SLOW_START: Param = Param::choice(
    "slow-start",
    &["off", "on"],
    "whether a path doubles until its queue is at the target or a packet is lost",
);

/// Ends the slow start of `path` where the queueing delay `q` is above `target`, both in seconds.
pub(super) fn leaves_slow_start(path: &PathState, q: f64, target: f64) -> Option<Change> {
    (path.in_slow_start() && q > target).then_some(Change {
        cwnd_bytes: path.cwnd_bytes as f64,
        ssthresh_bytes: Some(path.cwnd_bytes as f64),
    })
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub target: f64,
    pub alpha: f64,
    pub zeta: f64,
}

impl Rule {
    /// From [`TARGET`], [`ALPHA`] and [`ZETA`].
    pub fn new(settings: &Settings) -> Rule {
        Rule {
            target: settings.get("target"),
            alpha: settings.get("alpha"),
            zeta: settings.get("zeta"),
        }
    }

    /// What an acked packet adds, in packets, with a queueing delay of `q` seconds: `gain`, which
    /// is alpha/W for a path by itself, and zeta Delta/delta where Delta < 0 (equation 2).
    pub fn step(&self, gain: f64, q: f64) -> f64 {
        let distance = self.target - q;
        gain + self.zeta * distance.min(0.0) / self.target
    }
}

/// The guard of one path: a round trip takes at most half of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    /// Half the window at the start of the round, packets: no decrease below it.
    floor: f64,
}

impl Guard {
    /// A round trip begins.
    pub fn on_round(&mut self, w: f64) {
        self.floor = w / 2.0;
    }

    /// The step for so many acked packets, with the guard.
    pub fn guarded(&self, step: f64, acked: f64, w: f64) -> f64 {
        let wanted = step * acked;
        match wanted < 0.0 {
            true => wanted.max((self.floor - w).min(0.0)),
            false => wanted,
        }
    }
}

/// fLEDBAT of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    delay: Delay,
    grain: Grain,
    guard: Guard,
}

/// The controller.
#[derive(Debug)]
struct Fledbat {
    rule: Rule,
    init: f64,
    slow_start: bool,
    grain: Grain,
}

impl Fledbat {
    fn new(settings: &Settings) -> Self {
        Fledbat {
            rule: Rule::new(settings),
            init: settings.get("init"),
            slow_start: settings.word(SLOW_START.name) == "on",
            grain: Grain::new(settings),
        }
    }
}

impl Controller for Fledbat {
    type Flow = Flow;

    fn on_path_added(&mut self, _now: Instant, _id: PathId) -> Flow {
        Flow {
            grain: self.grain,
            ..Flow::default()
        }
    }

    fn initial_window_packets(&self) -> Option<f64> {
        Some(self.init)
    }

    fn has_slow_start(&self) -> bool {
        self.slow_start
    }

    fn reads_one_way_delay(&self) -> bool {
        true
    }

    fn on_sample(&mut self, own: Own<Flow>, ack: &Ack) {
        let Flow { delay, grain, .. } = own.flow;
        delay.on_ack(own.now, own.path, ack, grain);
    }

    fn on_time(&mut self, own: Own<Flow>) -> Option<Change> {
        leaves_slow_start(own.path, own.flow.delay.queueing(), self.rule.target)
            .filter(|_| self.slow_start)
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        own.flow.guard.on_round(packets(own.path));
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let (w, mss) = (packets(own.path), own.path.mss_bytes as f64);
        let step = self
            .rule
            .step(self.rule.alpha / w, own.flow.delay.queueing());
        let acked = ack.acked_bytes as f64 / mss;
        own.flow.guard.guarded(step, acked, w) * mss
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        let q = flow.delay.queueing();
        trace.push("q_secs", q);
        trace.push("distance_secs", self.rule.target - q);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    fn rule() -> Rule {
        Rule::new(&Settings::defaults(ENTRY.params))
    }

    #[test]
    fn equation_2() {
        // W = 20. Below the target: 1/20. 10 ms above: 1/20 + (-0.01)/0.1 = 0.05 - 0.1 = -0.05.
        close(rule().step(1.0 / 20.0, 0.0), 0.05);
        close(rule().step(1.0 / 20.0, 0.1), 0.05);
        close(rule().step(1.0 / 20.0, 0.11), -0.05);
    }

    #[test]
    fn equation_6() {
        // The step is zero where zeta |Delta|/delta = alpha/W: with W = 20, |Delta| = 0.1/20 = 5 ms.
        close(rule().step(1.0 / 20.0, 0.105), 0.0);
        // C = W/T in packets: N flows of W = C T/N stand C |Delta| = N alpha delta/(zeta T) above
        // C delta. N = 2, T = 0.04 s, C = 1000/s: W = 20, excess 2 * 0.1/0.04 = 5 = 1000 * 0.005.
        let (n, c, t) = (2.0, 1000.0, 0.04);
        let excess = n * rule().alpha * rule().target / (rule().zeta * t);
        close(rule().step(n / (c * t), rule().target + excess / c), 0.0);
    }

    #[test]
    fn a_slow_start_ends_at_the_target() {
        let (now, id) = (Instant::now(), PathId(0));
        let mut paths = paths(&[(40, 40)]);
        paths.get_mut(id).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        for (list, change) in [("slow-start=on", true), ("", false)] {
            let controller = Fledbat::new(&settings(&ENTRY, list));
            assert_eq!(controller.has_slow_start(), change);
            let mut fledbat = joined(controller, &paths);
            // 20 ms one way, then 119 and 121 ms: the target of 100 ms lies between.
            for (micros, left) in [(20_000, false), (119_000, false), (121_000, true)] {
                paths.get_mut(id).unwrap().one_way_delay_micros = Some(micros);
                for _ in 0..4 {
                    fledbat.on_sample(now, &paths, id, &ack(now));
                }
                let expected = Change {
                    cwnd_bytes: 40_000.0,
                    ssthresh_bytes: Some(40_000.0),
                };
                let expected = (left && change).then_some(expected);
                assert_eq!(fledbat.on_time(now, &paths, id), expected);
            }
        }
    }

    #[test]
    fn delays_are_rounded_by_the_grain() {
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        for (list, queue) in [("", 0.027), ("grain=10ms", 0.02)] {
            let mut fledbat = joined(Fledbat::new(&settings(&ENTRY, list)), &paths);
            for delay_ms in [0, 27, 27, 27, 27] {
                paths.get_mut(PathId(0)).unwrap().one_way_delay_micros = Some(delay_ms * 1000);
                fledbat.on_sample(now, &paths, PathId(0), &ack(now));
            }
            let shown = [("q_secs", queue), ("distance_secs", 0.1 - queue)];
            shows(&fledbat, &paths, &shown);
        }
        // At the target itself a slow start goes on.
        let path = paths.get_mut(PathId(0)).unwrap();
        path.ssthresh_bytes = SSTHRESH_UNSET;
        assert!(leaves_slow_start(path, 0.1, 0.1).is_none());
        assert!(leaves_slow_start(path, 0.1001, 0.1).is_some());
    }

    #[test]
    fn a_round_trip_takes_at_most_half() {
        let mut flow = Guard::default();
        flow.on_round(20.0);
        // q = 2 s: 0.05 - 19 per packet. One packet would take all; the floor is 10.
        let step = rule().step(0.05, 2.0);
        close(flow.guarded(step, 1.0, 20.0), -10.0);
        close(flow.guarded(step, 1.0, 10.0), 0.0);
        close(flow.guarded(0.05, 2.0, 10.0), 0.1);
    }

    #[test]
    fn what_the_transport_is_told() {
        let fledbat = ENTRY.with_defaults();
        assert_eq!(fledbat.initial_window_packets(), Some(10.0));
        assert!(!fledbat.has_slow_start() && fledbat.reads_one_way_delay());
    }

    #[test]
    fn steps_of_a_path() {
        // W = 20, q = 120 ms: 1/20 - 0.02/0.1 = -0.15 packets for an acked one, and for two -0.3.
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        let mut fledbat = joined(Fledbat::new(&settings(&ENTRY, "")), &paths);
        for delay_ms in [0, 120, 120, 120, 120] {
            paths.get_mut(PathId(0)).unwrap().one_way_delay_micros = Some(delay_ms * 1000);
            fledbat.on_sample(now, &paths, PathId(0), &ack(now));
        }
        assert_eq!(fledbat.on_round(now, &paths, PathId(0), &round(220)), None);
        close(fledbat.increase(now, &paths, PathId(0), &ack(now)), -150.0);
        let two = Ack {
            acked_bytes: 2 * MSS,
            ..ack(now)
        };
        close(fledbat.increase(now, &paths, PathId(0), &two), -300.0);
        shows(
            &fledbat,
            &paths,
            &[("q_secs", 0.12), ("distance_secs", -0.02)],
        );
        // No more than half of the window that the round trip began with.
        let all = Ack {
            acked_bytes: 1000 * MSS,
            ..ack(now)
        };
        close(fledbat.increase(now, &paths, PathId(0), &all), -10_000.0);
    }
}
