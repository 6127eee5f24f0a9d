//! Compound TCP on each path by itself (Tan et al., INFOCOM 2006; draft-sridharan-tcpm-ctcp-02).
//!
//! The window is the sum of Reno's, driven by losses, and of a second one, driven by delay: that
//! one grows fast while the path is empty and vanishes once packets queue.
//!
//! | symbol  | name here         | unit    | source                                  |
//! |---------|-------------------|---------|-----------------------------------------|
//! | W       | `w`               | packets | cwnd + dwnd: the registry's window      |
//! | dwnd    | `Flow::dwnd`      | packets | draft section 3                         |
//! | alpha   | `Rule::alpha`     | 1       | 1/8                                     |
//! | beta, b | `Rule::b`         | 1       | 1/2, given up on a loss                 |
//! | k       | `Rule::k`         | 1       | 3/4                                     |
//! | gamma   | `Rule::gamma`     | packets | 30: more in the queue is early congestion |
//! | zeta    | `Rule::zeta`      | 1       | how fast dwnd then falls                |
//! | diff    | `diff`            | packets | W (R - base)/R, as Vegas                |
//! | W_LOW   | `Rule::w_low`     | packets | 38: below, Reno alone                   |
//!
//! R is the least RTT of the round, as in Vegas: a delayed ACK is no queue.
//!
//! [`Flow`] is the algorithm of one path, which MCompound uses too, with [`Thetas`] below 1.

use super::boxed;
use super::start;
use super::units::packets;
use super::units::secs;
use super::vegas::diff;
use super::vegas::MIN_SAMPLES;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "compound",
    coupled: false,
    summary: "Compound TCP on each path by itself: Reno plus a window driven by delay",
    idea: "A second window, driven by delay, fills an empty path fast and vanishes when packets \
           queue, which leaves Reno.",
    source: "Tan et al., INFOCOM 2006; draft-sridharan-tcpm-ctcp-02",
    formula: "W = cwnd + dwnd; ack: cwnd += 1/W; per round trip: diff < gamma: \
              dwnd += max(alpha W^k - 1, 0), else dwnd = max(dwnd - zeta diff, 0); \
              loss: W = (1 - b) W",
    use_when: "a path is fast and long, and others on it use Reno",
    avoid_when: "the RTT varies for other reasons than queues, as on radio links",
    deviations: &["R is the least RTT of a round trip: a delayed ACK is no queue"],
    params: PARAMS,
    new: |settings| boxed(Compound(Rule::new(settings))),
};

/// Those of Compound and MCompound.
pub(super) const PARAMS: &[Param] = &[
    Param::number("alpha", [0.001, 0.125, 10.0], "scale of dwnd's growth; 1/8"),
    Param::number("k", [0.0, 0.75, 1.0], "exponent of dwnd's growth; 3/4"),
    Param::number(
        "b",
        [0.01, 0.5, 0.9],
        "fraction of the window given up on a loss; 1/2",
    ),
    Param::packets(
        "gamma",
        [1.0, 30.0, 10_000.0],
        "queued packets at which dwnd falls; 30",
    ),
    Param::number(
        "zeta",
        [0.001, 1.0, 10.0],
        "packets of dwnd given up for each queued; 1",
    ),
    Param::packets(
        "w_low",
        [0.0, 38.0, 10_000.0],
        "window below which there is no dwnd; 38 in the draft, 0 for the MCompound paper",
    ),
    start::SSTHRESH,
];

/// The constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub alpha: f64,
    pub k: f64,
    pub b: f64,
    pub gamma: f64,
    pub zeta: f64,
    pub w_low: f64,
}

impl Rule {
    /// From [`PARAMS`].
    pub fn new(settings: &Settings) -> Rule {
        Rule {
            alpha: settings.get("alpha"),
            k: settings.get("k"),
            b: settings.get("b"),
            gamma: settings.get("gamma"),
            zeta: settings.get("zeta"),
            w_low: settings.get("w_low"),
        }
    }
}

/// What MCompound multiplies by; all 1 in Compound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thetas {
    /// Of dwnd's growth.
    pub theta1: f64,
    /// Of cwnd's growth.
    pub theta2: f64,
    /// Of gamma.
    pub theta3: f64,
}

impl Thetas {
    /// Compound itself.
    pub const ONE: Thetas = Thetas {
        theta1: 1.0,
        theta2: 1.0,
        theta3: 1.0,
    };
}

/// Before the first round trip.
impl Default for Thetas {
    fn default() -> Self {
        Thetas::ONE
    }
}

/// The delay-based half of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    dwnd: f64,
    diff: f64,
}

impl Flow {
    /// dwnd after a round trip; `w` is W, all in packets.
    ///
    /// The window also gains theta2 packets in the round by cwnd, so that much is left out of
    /// dwnd's gain: W grows by alpha W^k theta1.
    fn dwnd_after_round(&self, rule: &Rule, thetas: &Thetas, w: f64) -> f64 {
        if self.diff < thetas.theta3 * rule.gamma {
            let gain = rule.alpha * w.powf(rule.k) * thetas.theta1 - thetas.theta2;
            self.dwnd + gain.max(0.0)
        } else {
            (self.dwnd - rule.zeta * self.diff).max(0.0)
        }
    }

    /// A round trip ended. Returns the window if dwnd changed it.
    pub fn on_round(
        &mut self,
        rule: &Rule,
        thetas: &Thetas,
        path: &PathState,
        round: &Round,
    ) -> Option<Change> {
        let rtt = path.rtt?;
        if path.in_slow_start() || path.in_recovery || round.samples < MIN_SAMPLES {
            return None;
        }
        let w = packets(path);
        self.dwnd = self.dwnd.min(w);
        self.diff = diff(w, secs(rtt.min), secs(round.min_rtt));
        let cwnd = w - self.dwnd;
        let dwnd = match w < rule.w_low {
            true => 0.0,
            false => self.dwnd_after_round(rule, thetas, w),
        };
        if dwnd > self.dwnd && !round.limited {
            return None;
        }
        self.dwnd = dwnd;
        Some(Change {
            cwnd_bytes: (cwnd + dwnd) * path.mss_bytes as f64,
            ssthresh_bytes: None,
        })
    }

    /// The window after a loss, in packets: cwnd/2, and dwnd = max(W (1 - b) - cwnd/2, 0).
    pub fn decrease(&mut self, rule: &Rule, w: f64) -> f64 {
        let half = (w - self.dwnd.min(w)) / 2.0;
        self.dwnd = (w * (1.0 - rule.b) - half).max(0.0);
        half + self.dwnd
    }

    pub fn trace(&self, trace: &mut Trace) {
        trace.push("dwnd_packets", self.dwnd);
        trace.push("diff_packets", self.diff);
    }
}

/// The controller.
#[derive(Debug)]
struct Compound(Rule);

impl Controller for Compound {
    type Flow = Flow;

    fn on_round(&mut self, own: Own<Flow>, round: &Round) -> Option<Change> {
        own.flow.on_round(&self.0, &Thetas::ONE, own.path, round)
    }

    /// cwnd += 1/W per acked packet.
    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        ack.acked_bytes as f64 / packets(own.path)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.flow.decrease(&self.0, packets(own.path)) * own.path.mss_bytes as f64
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        flow.trace(trace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn rule() -> Rule {
        Rule::new(&Settings::defaults(PARAMS))
    }

    #[test]
    fn an_empty_path_is_filled_fast() {
        // W = 256, no queue: 256^0.75 = 64, 64/8 - 1 = 7 packets more in dwnd; cwnd adds the 8th.
        let mut flow = Flow::default();
        let paths = paths(&[(256, 100)]);
        let path = paths.get(PathId(0)).unwrap();
        let change = flow.on_round(&rule(), &Thetas::ONE, path, &round(100));
        close(change.unwrap().cwnd_bytes, 263_000.0);
        close(flow.dwnd, 7.0);
    }

    #[test]
    fn a_queue_takes_dwnd_away() {
        // W = 256, base 100 ms, R = 128 ms: diff = 256 * 28/128 = 56 > 30: dwnd = 100 - 56.
        let mut flow = Flow {
            dwnd: 100.0,
            diff: 0.0,
        };
        let paths = paths(&[(256, 100)]);
        let path = paths.get(PathId(0)).unwrap();
        let change = flow.on_round(&rule(), &Thetas::ONE, path, &round(128));
        close(flow.dwnd, 44.0);
        close(change.unwrap().cwnd_bytes, 200_000.0);
        // Again: nothing is left of it, and cwnd stays.
        flow.dwnd = 10.0;
        let change = flow.on_round(&rule(), &Thetas::ONE, path, &round(128));
        close(flow.dwnd, 0.0);
        close(change.unwrap().cwnd_bytes, 246_000.0);
    }

    #[test]
    fn small_windows_are_renos() {
        let mut flow = Flow::default();
        let paths = paths(&[(37, 100)]);
        let path = paths.get(PathId(0)).unwrap();
        let change = flow.on_round(&rule(), &Thetas::ONE, path, &round(100));
        close(change.unwrap().cwnd_bytes, 37_000.0);
        // alpha W^k = 1 at W = 16: below, dwnd adds nothing even without W_LOW.
        let open = Rule {
            w_low: 0.0,
            ..rule()
        };
        close(flow.dwnd_after_round(&open, &Thetas::ONE, 16.0), 0.0);
    }

    #[test]
    fn a_loss_halves_the_sum() {
        // W = 100 = 60 + 40: cwnd 30, dwnd = 100/2 - 30 = 20, together 50.
        let mut flow = Flow {
            dwnd: 40.0,
            diff: 0.0,
        };
        close(flow.decrease(&rule(), 100.0), 50.0);
        close(flow.dwnd, 20.0);
        // b = 0.9: W (1 - b) = 10 < cwnd/2 = 30: dwnd = 0.
        let steep = Rule { b: 0.9, ..rule() };
        flow.dwnd = 40.0;
        close(flow.decrease(&steep, 100.0), 30.0);
    }

    #[test]
    fn steps_of_a_path() {
        let now = Instant::now();
        let paths = paths(&[(256, 100)]);
        let mut compound = joined(Compound(rule()), &paths);
        let two = Ack {
            acked_bytes: 512,
            ..ack(now)
        };
        close(compound.increase(now, &paths, PathId(0), &two), 2.0);
        let change = compound.on_round(now, &paths, PathId(0), &round(100));
        close(change.unwrap().cwnd_bytes, 263_000.0);
        shows(
            &compound,
            &paths,
            &[("dwnd_packets", 7.0), ("diff_packets", 0.0)],
        );
        close(compound.decrease(now, &paths, PathId(0)), 128_000.0);
    }

    #[test]
    fn when_a_round_trip_changes_nothing() {
        let mut list = paths(&[(256, 100)]);
        let mut flow = Flow {
            dwnd: 100.0,
            diff: 5.0,
        };
        let before = (100.0, 5.0);
        let mut unchanged = |list: &Registry, round: &Round| {
            let path = list.get(PathId(0)).unwrap();
            let change = flow.on_round(&rule(), &Thetas::ONE, path, round);
            change.is_none() && (flow.dwnd, flow.diff) == before
        };
        let few = Round {
            samples: 2,
            ..round(100)
        };
        assert!(unchanged(&list, &few));
        list.get_mut(PathId(0)).unwrap().in_recovery = true;
        assert!(unchanged(&list, &round(100)));
        let path = list.get_mut(PathId(0)).unwrap();
        (path.in_recovery, path.ssthresh_bytes) = (false, path.cwnd_bytes + 1);
        assert!(unchanged(&list, &round(100)));
        // Three samples are enough; what does not limit the sender does not grow, but falls.
        let mut list = paths(&[(256, 100)]);
        let three = Round {
            samples: 3,
            limited: false,
            ..round(100)
        };
        assert_eq!(
            flow.on_round(&rule(), &Thetas::ONE, list.get(PathId(0)).unwrap(), &three),
            None
        );
        close(flow.dwnd, 100.0);
        close(flow.diff, 0.0);
        let queued = Round {
            limited: false,
            ..round(128)
        };
        let path = list.get_mut(PathId(0)).unwrap();
        let change = flow.on_round(&rule(), &Thetas::ONE, path, &queued);
        close(change.unwrap().cwnd_bytes, 200_000.0);
    }

    #[test]
    fn what_does_not_grow_need_not_be_limited() {
        let paths = paths(&[(20, 100)]);
        let unlimited = Round {
            limited: false,
            ..round(100)
        };
        let path = paths.get(PathId(0)).unwrap();
        let change = Flow::default().on_round(&rule(), &Thetas::ONE, path, &unlimited);
        close(change.unwrap().cwnd_bytes, 20_000.0);
    }

    #[test]
    fn the_bounds_of_dwnd() {
        let after = |flow: Flow, rule: Rule, packets| {
            let paths = paths(&[(packets, 100)]);
            let mut flow = flow;
            let path = paths.get(PathId(0)).unwrap();
            flow.on_round(&rule, &Thetas::ONE, path, &round(100));
            flow.dwnd
        };
        // W_LOW = 38 packets: 38^0.75/8 - 1 = 0.913.
        close(
            after(Flow::default(), rule(), 38),
            38.0_f64.powf(0.75) / 8.0 - 1.0,
        );
        // gamma packets queued are too many: with none and gamma = 0, dwnd falls by nothing.
        let none = Rule {
            gamma: 0.0,
            ..rule()
        };
        close(after(Flow::default(), none, 256), 0.0);
    }
}
