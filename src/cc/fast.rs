//! FAST TCP on each path by itself (Wei et al. 2006).
//!
//! Moves the window towards the one that keeps A packets in the bottleneck's queue, the faster the
//! further it is away: w -> base/rtt w + A is a fixed point where w (rtt - base)/rtt = A.
//!
//! | symbol   | name here   | unit    | source                                            |
//! |----------|-------------|---------|---------------------------------------------------|
//! | baseRTT  | `base`      | s       | minimum RTT                                       |
//! | RTT      | `rtt`       | s       | mean RTT of the round                             |
//! | gamma, g | `Rule::g`   | 1       | step, 1/2                                         |
//! | alpha, A | `Rule::a`   | packets | packets in the queue, 20 for each 100 Mbit/s      |
//!
//! Slow start ends when the queue holds A, as there the update takes over without a step. FAST
//! does not say how it ends; the choice is ours.
//!
//! [`Rule::next`] is shared with MPFAST.

use super::boxed;
use super::reno;
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
    name: "fast",
    coupled: false,
    summary: "FAST on each path by itself: a fixed number of packets in the queue, by delay",
    idea: "The window moves towards the one that keeps A packets in the bottleneck's queue, the \
           faster the further it is away.",
    source: "Wei, Jin, Low and Hegde, IEEE/ACM Transactions on Networking 14(6), 2006",
    formula: "per round trip: w = min(2w, (1-g) w + g (base/rtt w + A)); loss: w = w/2",
    use_when: "the path is fast and long and all on it are delay-based",
    avoid_when: "a loss-based flow shares the bottleneck: it takes nearly all",
    deviations: &[
        "slow start ends when the queue holds A packets; the paper does not say how it ends",
    ],
    params: PARAMS,
    new: |settings| boxed(Fast(Rule::new(settings))),
};

/// Those of FAST and MPFAST.
pub(super) const PARAMS: &[Param] = &[
    Param::packets(
        "a",
        [2.0, 20.0, 10_000.0],
        "packets kept in the queue; 20 for each 100 Mbit/s",
    ),
    Param::number(
        "g",
        [0.01, 0.5, 1.0],
        "step towards the target per round trip",
    ),
];

/// The constants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub a: f64,
    pub g: f64,
}

impl Rule {
    /// From [`PARAMS`].
    pub fn new(settings: &Settings) -> Rule {
        Rule {
            a: settings.get("a"),
            g: settings.get("g"),
        }
    }

    /// min(2w, (1-g) w + g (base/rtt w + A)), packets.
    fn next(&self, w: f64, base: f64, rtt: f64) -> f64 {
        let target = base / rtt * w + self.a;
        ((1.0 - self.g) * w + self.g * target).min(2.0 * w)
    }

    /// The window after a round trip, or the end of slow start.
    pub fn on_round(&self, path: &PathState, round: &Round) -> Option<Change> {
        let base = secs(path.rtt?.min);
        if round.samples < MIN_SAMPLES {
            return None;
        }
        let rtt = secs(round.mean_rtt).max(base);
        let w = packets(path);
        if path.in_slow_start() {
            return (diff(w, base, rtt) >= self.a).then_some(Change {
                cwnd_bytes: path.cwnd_bytes as f64,
                ssthresh_bytes: Some(path.cwnd_bytes as f64),
            });
        }
        Some(Change {
            cwnd_bytes: self.next(w, base, rtt) * path.mss_bytes as f64,
            ssthresh_bytes: None,
        })
    }
}

/// The controller; all it needs is in the registry.
#[derive(Debug)]
struct Fast(Rule);

impl Controller for Fast {
    type Flow = ();

    fn on_round(&mut self, own: Own<()>, round: &Round) -> Option<Change> {
        self.0.on_round(own.path, round)
    }

    fn increase(&mut self, own: Own<Self::Flow>, ack: &Ack) -> f64 {
        reno::step_without_rtt(own.path, ack)
    }

    fn decrease(&mut self, own: Own<Self::Flow>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, _flow: &(), trace: &mut Trace) {
        trace.push("a_packets", self.0.a);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    const RULE: Rule = Rule { a: 20.0, g: 0.5 };

    #[test]
    fn the_update() {
        // w = 100, base 100 ms, rtt 125 ms: target 80 + 20 = 100: the fixed point, with
        // 100 * 25/125 = 20 = A packets in the queue.
        close(RULE.next(100.0, 0.1, 0.125), 100.0);
        // No queue: target 120, half of the way is 110.
        close(RULE.next(100.0, 0.1, 0.1), 110.0);
        // rtt 200 ms: target 50 + 20 = 70, half of the way is 85.
        close(RULE.next(100.0, 0.1, 0.2), 85.0);
        // At most twice the window: 4 -> (4 + 24)/2 = 14, but 8.
        close(RULE.next(4.0, 0.1, 0.1), 8.0);
    }

    #[test]
    fn slow_start_ends_with_a_packets_queued() {
        let mut paths = paths(&[(100, 100)]);
        paths.get_mut(PathId(0)).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        let path = paths.get(PathId(0)).unwrap();
        // 100 * 20/120 = 16.7 packets: not yet; 100 * 26/126 = 20.6: ends where it is.
        assert_eq!(RULE.on_round(path, &round(120)), None);
        let change = RULE.on_round(path, &round(126)).unwrap();
        close(change.cwnd_bytes, 100_000.0);
        close(change.ssthresh_bytes.unwrap(), 100_000.0);
    }

    #[test]
    fn a_round_trip_in_congestion_avoidance() {
        // base 100 ms, 200 ms now: 85 packets, as above.
        let paths = paths(&[(100, 100)]);
        let path = paths.get(PathId(0)).unwrap();
        let change = |round| RULE.on_round(path, &round);
        let moved = Change {
            cwnd_bytes: 85_000.0,
            ssthresh_bytes: None,
        };
        assert_eq!(change(round(200)), Some(moved));
        for (samples, moves) in [(2, false), (3, true)] {
            let few = Round {
                samples,
                ..round(200)
            };
            assert_eq!(change(few).is_some(), moves);
        }
        let fast = joined(Fast(RULE), &paths);
        shows(&fast, &paths, &[("a_packets", 20.0)]);
        let change = { fast }.on_round(Instant::now(), &paths, PathId(0), &round(200));
        assert_eq!(change, Some(moved));
    }

    #[test]
    fn a_packets_exactly_end_slow_start() {
        // 100 * 25/125 = 20.
        let mut paths = paths(&[(100, 100)]);
        paths.get_mut(PathId(0)).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        let path = paths.get(PathId(0)).unwrap();
        let base = secs(std::time::Duration::from_millis(100));
        let rtt = secs(std::time::Duration::from_millis(125));
        let exact = Rule {
            a: diff(100.0, base, rtt),
            ..RULE
        };
        assert!(exact.on_round(path, &round(125)).is_some());
    }
}
