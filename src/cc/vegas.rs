//! TCP Vegas on each path by itself (Brakmo and Peterson 1995).
//!
//! Compares the rate that the window would give on an empty path with the rate it gives, and holds
//! the difference, the packets that wait in the bottleneck's queue, between alpha and beta. Decides
//! once per round trip.
//!
//! | symbol  | name here       | unit    | source                                       |
//! |---------|-----------------|---------|----------------------------------------------|
//! | BaseRTT | `base`          | s       | minimum RTT                                  |
//! | R       | `rtt`           | s       | least RTT of the round                       |
//! | diff    | `diff`          | packets | w (R - base)/R                               |
//! | alpha   | `Vegas::alpha`  | packets | 2, as in Linux; 1 in the paper               |
//! | beta    | `Vegas::beta`   | packets | 4, as in Linux; 3 in the paper               |
//! | gamma   | `Vegas::gamma`  | packets | 1: leave slow start                          |
//!
//! A round with fewer than three RTT samples, which may all be one delayed ACK, is Reno's.

use super::boxed;
use super::reno;
use super::units::packets;
use super::units::secs;
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
    name: "vegas",
    coupled: false,
    summary: "Vegas on each path by itself: keeps a few packets queued, by delay",
    idea: "The window is held where two to four of its packets wait in the bottleneck's queue.",
    source: "Brakmo and Peterson, IEEE JSAC 13(8), 1995; constants as in Linux",
    formula:
        "diff = w (R - base)/R; per round trip: w += 1 if diff < alpha, w -= 1 if diff > beta; \
              loss: w = w/2",
    use_when: "the bottleneck is ours alone, or all on it are delay-based, and delay matters",
    avoid_when: "a loss-based flow shares the bottleneck: it takes nearly all",
    deviations: &[
        "alpha and beta are Linux's 2 and 4 packets; the paper has 1 and 3",
        "a round trip with fewer than three RTT samples is Reno's, as it may be one delayed ACK",
    ],
    params: &[
        Param::packets(
            "alpha",
            [0.5, 2.0, 1000.0],
            "queued packets below which the window grows",
        ),
        Param::packets(
            "beta",
            [0.5, 4.0, 1000.0],
            "queued packets above which it shrinks",
        ),
        Param::packets(
            "gamma",
            [0.1, 1.0, 1000.0],
            "queued packets that end slow start",
        ),
    ],
    new: |settings| boxed(Vegas::new(settings)),
};

/// Fewer RTT samples than this say nothing about a queue.
pub(super) const MIN_SAMPLES: u32 = 3;

/// diff = w (R - base)/R: how many of `w` packets wait in a queue.
pub(super) fn diff(w: f64, base: f64, rtt: f64) -> f64 {
    (w * (rtt - base) / rtt).max(0.0)
}

/// Leaves slow start at the window that fills the path without a queue, and one packet:
/// w = min(w, w base/R + 1); ssthresh = min(ssthresh, w - 1).
pub(super) fn leave_slow_start(path: &PathState, base: f64, rtt: f64) -> Change {
    let w = packets(path);
    set(path, w.min(w * base / rtt + 1.0), w - 1.0)
}

/// A window, and a threshold not above `ssthresh`, both in packets.
fn set(path: &PathState, w: f64, ssthresh: f64) -> Change {
    let mss = path.mss_bytes as f64;
    Change {
        cwnd_bytes: w * mss,
        ssthresh_bytes: Some((ssthresh * mss).min(path.ssthresh_bytes as f64)),
    }
}

/// One packet more, Reno's step for a round trip.
pub(super) fn one_more(path: &PathState) -> Change {
    Change {
        cwnd_bytes: (path.cwnd_bytes + path.mss_bytes) as f64,
        ssthresh_bytes: None,
    }
}

/// One packet less.
pub(super) fn one_less(path: &PathState) -> Change {
    let w = packets(path) - 1.0;
    set(path, w, w - 1.0)
}

/// The controller.
#[derive(Debug)]
struct Vegas {
    alpha: f64,
    beta: f64,
    gamma: f64,
}

/// Vegas of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Slow start doubles in every other round trip, to measure in between.
    pauses: bool,
    diff: f64,
}

impl Vegas {
    fn new(settings: &Settings) -> Self {
        Vegas {
            alpha: settings.get("alpha"),
            beta: settings.get("beta"),
            gamma: settings.get("gamma"),
        }
    }
}

impl Controller for Vegas {
    type Flow = Flow;

    fn slow_start_gain(&mut self, own: Own<Flow>) -> f64 {
        match own.flow.pauses {
            true => 0.0,
            false => 1.0,
        }
    }

    fn on_round(&mut self, own: Own<Flow>, round: &Round) -> Option<Change> {
        let (path, flow) = (own.path, own.flow);
        let base = secs(path.rtt?.min);
        flow.pauses = !flow.pauses && path.in_slow_start();
        if round.samples < MIN_SAMPLES {
            flow.pauses = false;
            return (!path.in_slow_start()).then(|| one_more(path));
        }

        let rtt = secs(round.min_rtt);
        flow.diff = diff(packets(path), base, rtt);
        if path.in_slow_start() {
            return (flow.diff > self.gamma).then(|| leave_slow_start(path, base, rtt));
        }
        if flow.diff > self.beta {
            Some(one_less(path))
        } else if flow.diff < self.alpha {
            Some(one_more(path))
        } else {
            None
        }
    }

    fn increase(&mut self, own: Own<Self::Flow>, ack: &Ack) -> f64 {
        reno::step_without_rtt(own.path, ack)
    }

    fn decrease(&mut self, own: Own<Self::Flow>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        trace.push("diff_packets", flow.diff);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    fn vegas() -> Flows<Vegas> {
        let mut vegas = Flows::new(Vegas::new(&settings(&ENTRY, "")));
        vegas.on_path_added(Instant::now(), PathId(0));
        vegas
    }

    fn after(packets: u64, base_ms: u64, round: &Round) -> Option<Change> {
        vegas().on_round(
            Instant::now(),
            &paths(&[(packets, base_ms)]),
            PathId(0),
            round,
        )
    }

    #[test]
    fn packets_in_the_queue() {
        // 20 packets, base 100 ms, now 125 ms: 20 * 25/125 = 4 of them wait.
        close(diff(20.0, 0.1, 0.125), 4.0);
        close(diff(20.0, 0.1, 0.1), 0.0);
        // A minimum that was just raised leaves no negative queue.
        close(diff(20.0, 0.1, 0.08), 0.0);
    }

    #[test]
    fn the_window_moves_by_one_packet() {
        // diff = 20 * 5/105 = 0.95 < 2: up. 20 * 15/115 = 2.6: stays. 20 * 30/130 = 4.6 > 4: down.
        close(after(20, 100, &round(105)).unwrap().cwnd_bytes, 21_000.0);
        assert_eq!(after(20, 100, &round(115)), None);
        let down = after(20, 100, &round(130)).unwrap();
        close(down.cwnd_bytes, 19_000.0);
        close(down.ssthresh_bytes.unwrap(), 18_000.0);
    }

    #[test]
    fn few_samples_are_renos_round() {
        let few = Round {
            samples: 2,
            ..round(200)
        };
        close(after(20, 100, &few).unwrap().cwnd_bytes, 21_000.0);
    }

    #[test]
    fn slow_start_pauses_and_ends_by_delay() {
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        paths.get_mut(PathId(0)).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        let mut vegas = vegas();
        close(vegas.slow_start_gain(now, &paths, PathId(0)), 1.0);
        assert_eq!(vegas.on_round(now, &paths, PathId(0), &round(100)), None);
        close(vegas.slow_start_gain(now, &paths, PathId(0)), 0.0);
        assert_eq!(vegas.on_round(now, &paths, PathId(0), &round(100)), None);
        close(vegas.slow_start_gain(now, &paths, PathId(0)), 1.0);
        // diff = 20 * 25/125 = 4 > 1: w = 20 * 100/125 + 1 = 17, ssthresh = 20 - 1.
        let change = vegas.on_round(now, &paths, PathId(0), &round(125)).unwrap();
        close(change.cwnd_bytes, 17_000.0);
        close(change.ssthresh_bytes.unwrap(), 19_000.0);
    }

    #[test]
    fn the_window_stays_within_alpha_and_beta_themselves() {
        // 20 * 25/125 = 4 = beta, 12 * 20/120 = 2 = alpha: neither up nor down.
        let at = |packets, rtt_ms, alpha, beta| {
            let paths = paths(&[(packets, 100)]);
            let mut vegas = joined(
                Vegas {
                    alpha,
                    beta,
                    gamma: 1.0,
                },
                &paths,
            );
            vegas.on_round(Instant::now(), &paths, PathId(0), &round(rtt_ms))
        };
        let queued = |packets, rtt_ms: u64| {
            let rtt = secs(std::time::Duration::from_millis(rtt_ms));
            diff(packets, secs(std::time::Duration::from_millis(100)), rtt)
        };
        assert_eq!(at(20, 125, 2.0, queued(20.0, 125)), None);
        assert_eq!(at(12, 120, queued(12.0, 120), 4.0), None);
        // And a threshold that is lower already stays.
        let mut low = paths(&[(20, 100)]);
        low.get_mut(PathId(0)).unwrap().ssthresh_bytes = 5_000;
        let change = one_less(low.get(PathId(0)).unwrap());
        close(change.ssthresh_bytes.unwrap(), 5_000.0);
    }

    #[test]
    fn slow_start_goes_on_with_gamma_packets_queued_or_too_few_samples() {
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        paths.get_mut(PathId(0)).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        let rtt = secs(std::time::Duration::from_millis(125));
        let gamma = diff(20.0, secs(std::time::Duration::from_millis(100)), rtt);
        let exact = Vegas {
            alpha: 2.0,
            beta: 4.0,
            gamma,
        };
        let mut vegas = joined(exact, &paths);
        assert_eq!(vegas.on_round(now, &paths, PathId(0), &round(125)), None);
        shows(&vegas, &paths, &[("diff_packets", 4.0)]);
        // A round trip that measures nothing is no pause, nor Reno's.
        let mut vegas = self::vegas();
        for (samples, gain) in [(2, 1.0), (3, 0.0)] {
            let few = Round {
                samples,
                ..round(100)
            };
            assert_eq!(vegas.on_round(now, &paths, PathId(0), &few), None);
            close(vegas.slow_start_gain(now, &paths, PathId(0)), gain);
        }
    }
}
