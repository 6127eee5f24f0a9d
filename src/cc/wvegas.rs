//! wVegas: weighted Vegas (Cao, Xu and Fu, ICNP 2012).
//!
//! Vegas on each path, where the number of packets a path keeps in its bottleneck's queue is its
//! share of a total for the connection; the share follows the rate, so congested paths get less.
//!
//! | symbol      | name here          | unit    | source                              |
//! |-------------|--------------------|---------|-------------------------------------|
//! | total_alpha | `total_alpha`      | packets | 10                                  |
//! | alpha_r     | `Flow::alpha`      | packets | 2 at first, and at least            |
//! | gamma       | `gamma`            | packets | 1: leave slow start                 |
//! | diff_r      | `Flow::diff`       | packets | w (R - base)/R                      |
//! | R           | `rtt`              | s       | mean RTT of the round               |
//! | x_r         | `Flow::rate`       | packets/s | w/R of the last round             |
//! | q_r         | `Flow::queue_secs` | s       | least R - base since the last drain |
//!
//! Queue drain: when the queueing delay reaches twice its least value, the window falls to
//! base/(2R) of itself, so that the minimum RTT can be measured. Taken in every round, that rule
//! would strike when the queue grows from one packet to two, and the window would never reach its
//! alpha_r; the measured jitter of a kernel hides that. Here rounds count for it only while the path
//! has its alpha_r packets queued (diff >= alpha_r), so it strikes when others fill the queue.
//!
//! The Coupled CUBIC paper says that wVegas halves the window above the threshold; it takes one
//! packet per round trip.

use super::boxed;
use super::reno;
use super::units::packets;
use super::units::secs;
use super::vegas;
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
    name: "wvegas",
    coupled: true,
    summary: "wVegas: weighted Vegas, shifts traffic by delay before anything is lost",
    idea:
        "Vegas on each path; the queue that a path may keep is its share of a total, and follows \
           its rate, so traffic leaves the paths where packets wait.",
    source: "Cao, Xu and Fu, ICNP 2012; constants as in the MPTCP kernel",
    formula: "diff = w (R - base)/R; alpha_r = max(2, total x_r/sum x); per round trip: \
              w += 1 if diff < alpha_r, w -= 1 if diff > alpha_r; loss: w = w/2",
    use_when: "all flows at the bottlenecks are delay-based, and delay matters",
    avoid_when: "a loss-based flow shares a bottleneck: it takes nearly all",
    deviations: &[
        "the queue is drained only by rounds with diff >= alpha_r, so when others fill it; in \
         every round, a queue that grows from one packet to two would strike",
        "a window above the threshold loses one packet per round trip; the Coupled CUBIC paper \
         says half",
    ],
    params: &[
        Param::packets(
            "total",
            [2.0, 10.0, 10_000.0],
            "queued packets of all paths together; 10",
        ),
        Param::packets(
            "gamma",
            [0.1, 1.0, 1000.0],
            "queued packets that end slow start; 1",
        ),
    ],
    new: |settings| boxed(Wvegas::new(settings)),
};

/// alpha_r at first, and the least that it becomes.
const MIN_ALPHA: f64 = 2.0;

/// wVegas of one path.
#[derive(Clone, Copy, Debug)]
struct Flow {
    alpha: f64,
    diff: f64,
    rate: Option<f64>,
    queue_secs: Option<f64>,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            alpha: MIN_ALPHA,
            diff: 0.0,
            rate: None,
            queue_secs: None,
        }
    }
}

impl Flow {
    /// Whether the queue must be drained, now that packets wait `queue_secs`.
    fn drains(&mut self, queue_secs: f64) -> bool {
        let least = self.queue_secs.map_or(queue_secs, |q| q.min(queue_secs));
        let drains = queue_secs >= 2.0 * least;
        self.queue_secs = (!drains).then_some(least);
        drains
    }
}

/// The controller.
#[derive(Debug)]
struct Wvegas {
    total: f64,
    gamma: f64,
}

impl Wvegas {
    fn new(settings: &Settings) -> Self {
        Wvegas {
            total: settings.get("total"),
            gamma: settings.get("gamma"),
        }
    }

    /// alpha_r = max(2, x_r / sum x_s * total_alpha).
    fn alpha(&self, own: &Own<Flow>, rate: f64) -> f64 {
        let sum: f64 = own.flows().filter_map(|(_, flow)| flow.rate).sum();
        match sum > 0.0 {
            true => (rate / sum * self.total).max(MIN_ALPHA),
            false => MIN_ALPHA,
        }
    }
}

impl Controller for Wvegas {
    type Flow = Flow;

    fn on_round(&mut self, own: Own<Flow>, round: &Round) -> Option<Change> {
        let path = own.path;
        let base = secs(path.rtt?.min);
        if round.samples < MIN_SAMPLES {
            return (!path.in_slow_start()).then(|| vegas::one_more(path));
        }
        let w = packets(path);
        let rtt = secs(round.mean_rtt).max(base);
        let diff = vegas::diff(w, base, rtt);
        own.flow.diff = diff;
        own.flow.rate = Some(w / rtt);
        if path.in_slow_start() {
            return (diff > self.gamma).then(|| vegas::leave_slow_start(path, base, rtt));
        }

        let mut drains = false;
        if diff >= own.flow.alpha {
            drains = !path.in_recovery && own.flow.drains(rtt - base);
            own.flow.alpha = self.alpha(&own, w / rtt);
        }
        if drains {
            Some(Change {
                cwnd_bytes: path.cwnd_bytes as f64 * base / (2.0 * rtt),
                ssthresh_bytes: None,
            })
        } else if diff > own.flow.alpha {
            Some(vegas::one_less(path))
        } else if diff < own.flow.alpha {
            Some(vegas::one_more(path))
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
        trace.push("alpha", flow.alpha);
        trace.push("diff_packets", flow.diff);
        trace.push("q_min_secs", flow.queue_secs.unwrap_or(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn wvegas(paths: u64) -> Flows<Wvegas> {
        let mut wvegas = Flows::new(Wvegas::new(&settings(&ENTRY, "")));
        for id in 0..paths {
            wvegas.on_path_added(Instant::now(), PathId(id));
        }
        wvegas
    }

    #[test]
    fn alpha_follows_the_share_of_the_rate() {
        let now = Instant::now();
        let mut wvegas = wvegas(2);
        // Both w = 40, base 100 ms, R = 125 ms: diff = 40/5 = 8 >= 2, x = 320 packets/s.
        let paths = paths(&[(40, 100), (40, 100)]);
        wvegas.on_round(now, &paths, PathId(0), &round(125));
        // Alone so far: alpha = 10 > 8, so one packet more next time, or now.
        close(wvegas.flows.get(PathId(0)).unwrap().alpha, 10.0);
        let change = wvegas
            .on_round(now, &paths, PathId(1), &round(125))
            .unwrap();
        // Two equal rates: alpha = 5 < 8: one packet less.
        close(wvegas.flows.get(PathId(1)).unwrap().alpha, 5.0);
        close(change.cwnd_bytes, 39_000.0);
    }

    #[test]
    fn alpha_is_at_least_two() {
        let now = Instant::now();
        let mut wvegas = wvegas(2);
        // Rates 800 and 80: 10/11 and 1/11 of 10, but 2.
        let paths = paths(&[(100, 100), (10, 100)]);
        wvegas.on_round(now, &paths, PathId(0), &round(125));
        wvegas.on_round(now, &paths, PathId(1), &round(125));
        close(wvegas.flows.get(PathId(1)).unwrap().alpha, 2.0);
    }

    #[test]
    fn a_doubled_queue_is_drained() {
        let now = Instant::now();
        let mut wvegas = wvegas(1);
        let paths = paths(&[(60, 100)]);
        // diff = 60 * 25/125 = 12 > 10: one less; the least queue is 25 ms.
        let change = wvegas
            .on_round(now, &paths, PathId(0), &round(125))
            .unwrap();
        close(change.cwnd_bytes, 59_000.0);
        // 50 ms: w * base/(2R) = 60 * 100/300 = 20.
        let change = wvegas
            .on_round(now, &paths, PathId(0), &round(150))
            .unwrap();
        close(change.cwnd_bytes, 20_000.0);
        assert_eq!(wvegas.flows.get(PathId(0)).unwrap().queue_secs, None);
    }

    fn after(packets: u64, rtt_ms: u64, flow: Flow) -> (Option<Change>, Flows<Wvegas>) {
        let paths = paths(&[(packets, 100)]);
        let mut wvegas = wvegas(1);
        *wvegas.flows.get_mut(PathId(0)).unwrap() = flow;
        let change = wvegas.on_round(Instant::now(), &paths, PathId(0), &round(rtt_ms));
        (change, wvegas)
    }

    #[test]
    fn few_samples_are_renos_round() {
        let now = Instant::now();
        let mut list = paths(&[(20, 100)]);
        for (samples, cwnd_bytes) in [(2, Some(21_000.0)), (3, Some(19_000.0))] {
            let few = Round {
                samples,
                ..round(1000)
            };
            let flow = Flow {
                alpha: 9.0,
                ..Flow::default()
            };
            let mut wvegas = wvegas(1);
            *wvegas.flows.get_mut(PathId(0)).unwrap() = flow;
            let change = wvegas.on_round(now, &list, PathId(0), &few);
            assert_eq!(change.map(|change| change.cwnd_bytes), cwnd_bytes);
        }
        list.get_mut(PathId(0)).unwrap().ssthresh_bytes = crate::registry::SSTHRESH_UNSET;
        let few = Round {
            samples: 2,
            ..round(100)
        };
        assert_eq!(wvegas(1).on_round(now, &list, PathId(0), &few), None);
    }

    #[test]
    fn slow_start_ends_by_more_than_gamma_queued() {
        // 20 * 25/125 = 4 packets wait: w = 20 * 100/125 + 1 = 17.
        let now = Instant::now();
        let mut list = paths(&[(20, 100)]);
        list.get_mut(PathId(0)).unwrap().ssthresh_bytes = crate::registry::SSTHRESH_UNSET;
        let exact = vegas::diff(20.0, 0.1, 0.125);
        for (gamma, cwnd_bytes) in [(exact, None), (3.9, Some(17_000.0))] {
            let mut wvegas = wvegas(1);
            wvegas.controller.gamma = gamma;
            let change = wvegas.on_round(now, &list, PathId(0), &round(125));
            assert_eq!(change.map(|change| change.cwnd_bytes), cwnd_bytes);
        }
    }

    #[test]
    fn the_window_follows_alpha() {
        let with = |alpha| Flow {
            alpha,
            ..Flow::default()
        };
        // 40 * 25/125 = 8 of 10 packets wait: one more. Alone, alpha becomes 10 before that.
        let (change, wvegas) = after(40, 125, with(2.0));
        close(change.unwrap().cwnd_bytes, 41_000.0);
        let paths = paths(&[(40, 100)]);
        let shown = [
            ("alpha", 10.0),
            ("diff_packets", 8.0),
            ("q_min_secs", 0.025),
        ];
        shows(&wvegas, &paths, &shown);
        // Just alpha: it stays, and is reckoned anew.
        let exact = vegas::diff(40.0, 0.1, 0.125);
        let (_, wvegas) = after(40, 125, with(exact));
        close(wvegas.flows.get(PathId(0)).unwrap().alpha, 10.0);
        let (_, wvegas) = after(40, 125, with(exact + 1e-6));
        close(wvegas.flows.get(PathId(0)).unwrap().alpha, exact + 1e-6);
        // 60 * 20/120 = 10 of 10: neither more nor less.
        let ten = vegas::diff(60.0, 0.1, 0.12);
        let mut flow = with(2.0);
        flow.queue_secs = Some(0.02);
        let mut wvegas = self::wvegas(1);
        wvegas.controller.total = ten;
        *wvegas.flows.get_mut(PathId(0)).unwrap() = flow;
        let paths = self::paths(&[(60, 100)]);
        assert_eq!(
            wvegas.on_round(Instant::now(), &paths, PathId(0), &round(120)),
            None
        );
    }

    #[test]
    fn no_queue_is_drained_in_recovery() {
        let now = Instant::now();
        let mut paths = paths(&[(60, 100)]);
        paths.get_mut(PathId(0)).unwrap().in_recovery = true;
        let mut wvegas = wvegas(1);
        wvegas.flows.get_mut(PathId(0)).unwrap().queue_secs = Some(0.01);
        let change = wvegas
            .on_round(now, &paths, PathId(0), &round(125))
            .unwrap();
        close(change.cwnd_bytes, 59_000.0);
    }

    #[test]
    fn a_queue_of_twice_the_least_is_drained() {
        let mut flow = Flow {
            queue_secs: Some(0.01),
            ..Flow::default()
        };
        assert!(!flow.drains(0.0199));
        assert_eq!(flow.queue_secs, Some(0.01));
        assert!(flow.drains(0.02));
        assert_eq!(flow.queue_secs, None);
    }
}
