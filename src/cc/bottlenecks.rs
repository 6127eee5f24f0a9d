//! Which paths share a bottleneck: the detection of DC-LEDBAT (section IV-C).
//!
//! A path that reduces its queue by intent, by multiplicative decrease (MD) or Probe-OWD (PO), gives
//! a signal at TS_i. For each other path j one round trip of j decides:
//!
//! - both gave MD: they share (the pair is symmetric);
//! - j gave no signal, and its queueing delay fell all the same by more than a margin: they share;
//! - otherwise they do not.
//!
//! Two equal verdicts in a row are believed; sets are what such pairs connect. While either path is
//! congested, and one round trip longer, nothing is concluded.
//!
//! Two readings of the paper. If j gives a signal of another kind in the round trip, or is above the
//! target anyway, its queue falls by its own doing: that proves nothing, and there is no verdict
//! (taken as "otherwise", two paths that probe together would never be coupled). "Re-execute the detection after any subflow enters
//! Probe-OWD" is that PO is a signal; the run of verdicts is not cleared by it, or paths that only
//! probe would never reach two in a row.
//!
//! A queueing delay here is the least within the last quarter to half of a round trip; the margin is
//! ours, as the paper compares without one.

use std::time::Duration;
use std::time::Instant;

use crate::path_map::PathMap;
use crate::registry::PathId;

/// How a path reduced its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// The first ACK above the target delay.
    MultiplicativeDecrease,
    /// Probe-OWD began.
    Probe,
}

/// One path's queueing delay, least over a moving part of a round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    began: Option<Instant>,
    current: f64,
    previous: f64,
    rtt: Duration,
    /// Congested, or was less than a round trip ago, until this time.
    congested_until: Option<Instant>,
}

impl Queue {
    fn add(&mut self, now: Instant, q: f64, rtt: Duration) {
        self.rtt = rtt;
        match self.began {
            Some(began) if now.saturating_duration_since(began) < rtt / 4 => {
                self.current = self.current.min(q);
            }
            Some(_) => {
                self.previous = self.current;
                self.current = q;
                self.began = Some(now);
            }
            None => {
                *self = Queue {
                    began: Some(now),
                    current: q,
                    previous: q,
                    ..*self
                };
            }
        }
    }

    fn least(&self) -> f64 {
        self.current.min(self.previous)
    }

    fn congested(&self, now: Instant) -> bool {
        self.congested_until.is_some_and(|until| now < until)
    }
}

/// A signal of one path, and what the other one of the pair does within its round trip.
#[derive(Clone, Copy, Debug)]
struct Watch {
    signal: Signal,
    until: Instant,
    /// The other's queueing delay at the signal, seconds.
    before: f64,
}

/// Two paths, `a` before `b` in ID order.
#[derive(Clone, Copy, Debug)]
struct Pair {
    paths: [PathId; 2],
    /// `watches[i]` began with a signal of `paths[i]` and watches the other one.
    watches: [Option<Watch>; 2],
    last: Option<bool>,
    shared: bool,
    /// Either verdict was believed.
    decided: bool,
}

impl Pair {
    fn conclude(&mut self, verdict: bool) {
        if self.last == Some(verdict) {
            (self.shared, self.decided) = (verdict, true);
        }
        self.last = Some(verdict);
    }
}

/// What a fall of a queueing delay must exceed.
#[derive(Clone, Copy, Debug)]
struct Margins {
    secs: f64,
    part: f64,
}

impl Margins {
    fn is_fall(&self, before: f64, after: f64) -> bool {
        after < before - self.secs.max(self.part * before)
    }
}

/// The pairs of all paths, and the sets they make.
#[derive(Debug)]
pub(super) struct Bottlenecks {
    margins: Margins,
    queues: PathMap<Queue>,
    pairs: Vec<Pair>,
    /// The least path ID of the set that a path is in.
    sets: PathMap<PathId>,
}

impl Bottlenecks {
    /// A fall of a queueing delay counts if it is more than `margin` seconds and more than
    /// `margin_part` of the delay.
    pub fn new(margin: f64, margin_part: f64) -> Self {
        Bottlenecks {
            margins: Margins {
                secs: margin,
                part: margin_part,
            },
            queues: PathMap::default(),
            pairs: Vec::new(),
            sets: PathMap::default(),
        }
    }

    /// Whether a queueing delay that goes from `before` to `after`, in seconds, falls by more than
    /// the margin.
    pub fn is_fall(&self, before: f64, after: f64) -> bool {
        self.margins.is_fall(before, after)
    }

    /// A path joins, coupled with none.
    pub fn add(&mut self, id: PathId) {
        if self.queues.insert(id, Queue::default()).is_some() {
            self.remove_pairs(id);
        }
        self.sets.insert(id, id);
        for (other, _) in self.queues.iter() {
            if other != id {
                self.pairs.push(Pair {
                    paths: [id.min(other), id.max(other)],
                    watches: [None; 2],
                    last: None,
                    shared: false,
                    decided: false,
                });
            }
        }
        self.connect();
    }

    /// A path leaves.
    pub fn remove(&mut self, id: PathId) {
        self.queues.remove(id);
        self.sets.remove(id);
        self.remove_pairs(id);
        self.connect();
    }

    fn remove_pairs(&mut self, id: PathId) {
        self.pairs.retain(|pair| !pair.paths.contains(&id));
    }

    /// Whether two paths are believed to share a bottleneck.
    pub fn same_set(&self, a: PathId, b: PathId) -> bool {
        self.sets.get(a).is_some() && self.sets.get(a) == self.sets.get(b)
    }

    /// The set of a path, by the least ID of its paths, if there is a verdict on whether it shares
    /// with any other.
    pub fn verdict(&self, id: PathId) -> Option<PathId> {
        let mut of_path = self.pairs.iter().filter(|pair| pair.paths.contains(&id));
        let known = of_path.any(|pair| pair.decided);
        self.sets.get(id).copied().filter(|_| known)
    }

    /// The connected components of the shared pairs.
    fn connect(&mut self) {
        for (id, set) in self.sets.iter_mut() {
            *set = id;
        }
        // Each turn joins the sets of at least one pair, or is the last.
        loop {
            let joins = self
                .pairs
                .iter()
                .filter(|pair| pair.shared)
                .find_map(|pair| {
                    let [a, b] = pair.paths.map(|id| self.sets.get(id).copied());
                    (a != b).then_some((a?.min(b?), a?.max(b?)))
                });
            let Some((kept, joined)) = joins else { return };
            for (_, set) in self.sets.iter_mut() {
                if *set == joined {
                    *set = kept;
                }
            }
        }
    }

    /// Path `id` measured a queueing delay of `q` seconds, `above` the target or not. Ends the round trips that watched it.
    pub fn on_queueing(&mut self, now: Instant, id: PathId, q: f64, rtt: Duration, above: bool) {
        let Some(queue) = self.queues.get_mut(id) else {
            return;
        };
        queue.add(now, q, rtt);
        let after = queue.least();

        let (mut changed, margins) = (false, self.margins);
        for pair in &mut self.pairs {
            let watcher = match pair.paths {
                [_, b] if b == id => 0,
                [a, _] if a == id => 1,
                _ => continue,
            };
            if above {
                pair.watches[watcher] = None;
            }
            let Some(watch) = pair.watches[watcher].filter(|watch| now >= watch.until) else {
                continue;
            };
            pair.watches[watcher] = None;
            let was_shared = pair.shared;
            pair.conclude(margins.is_fall(watch.before, after));
            changed |= pair.shared != was_shared;
        }
        if changed {
            self.connect();
        }
    }

    /// Path `id` is congested: it lost a packet, or its queue stays above the target. What watches it,
    /// or began with it, is given up.
    pub fn on_congestion(&mut self, now: Instant, id: PathId, rtt: Duration) {
        if let Some(queue) = self.queues.get_mut(id) {
            queue.congested_until = now.checked_add(rtt);
        }
        for pair in &mut self.pairs {
            if pair.paths.contains(&id) {
                pair.watches = [None; 2];
            }
        }
    }

    /// Path `id` gives a signal.
    pub fn on_signal(&mut self, now: Instant, id: PathId, signal: Signal) {
        let mut changed = false;
        for pair in &mut self.pairs {
            let (own, other) = match pair.paths {
                [a, b] if a == id => (0, b),
                [a, b] if b == id => (1, a),
                _ => continue,
            };
            let (Some(queue), Some(others)) = (self.queues.get(id), self.queues.get(other)) else {
                continue;
            };
            if queue.congested(now) || others.congested(now) || others.began.is_none() {
                continue;
            }
            // The other one gave a signal less than a round trip of this path ago.
            if let Some(first) = pair.watches[1 - own].take() {
                if now < first.until {
                    let both = Signal::MultiplicativeDecrease;
                    if first.signal == both && signal == both {
                        let was_shared = pair.shared;
                        pair.conclude(true);
                        changed |= pair.shared != was_shared;
                    }
                    continue;
                }
            }
            pair.watches[own] = now.checked_add(others.rtt).map(|until| Watch {
                signal,
                until,
                before: others.least(),
            });
        }
        if changed {
            self.connect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const RTT: Duration = Duration::from_millis(100);
    const MD: Signal = Signal::MultiplicativeDecrease;

    struct Bench {
        bottlenecks: Bottlenecks,
        now: Instant,
    }

    impl Bench {
        fn new(n: u64) -> Self {
            let mut bench = Bench {
                bottlenecks: Bottlenecks::new(0.002, 0.05),
                now: Instant::now(),
            };
            for id in 0..n {
                bench.bottlenecks.add(PathId(id));
                bench.settle(id, 0.1);
            }
            bench
        }

        /// The path's queueing delay is `q` for a round trip.
        fn settle(&mut self, id: u64, q: f64) {
            for _ in 0..10 {
                self.now += RTT / 10;
                self.bottlenecks
                    .on_queueing(self.now, PathId(id), q, RTT, false);
            }
        }

        fn signal(&mut self, id: u64, signal: Signal) {
            self.bottlenecks.on_signal(self.now, PathId(id), signal);
        }

        fn shared(&self, a: u64, b: u64) -> bool {
            self.bottlenecks.same_set(PathId(a), PathId(b))
        }
    }

    #[test]
    fn two_decreases_within_a_round_trip_twice() {
        let mut bench = Bench::new(2);
        for expected in [false, true] {
            assert_eq!(bench.bottlenecks.verdict(PathId(1)), None);
            bench.signal(0, MD);
            bench.now += 40 * MS;
            bench.signal(1, MD);
            assert_eq!(bench.shared(0, 1), expected);
            bench.now += 500 * MS;
        }
        assert_eq!(bench.bottlenecks.verdict(PathId(1)), Some(PathId(0)));
        // Decreases far apart, with steady queues: twice "not shared" decouples.
        for expected in [true, false] {
            bench.settle(1, 0.1);
            bench.signal(0, MD);
            bench.settle(1, 0.1);
            assert_eq!(bench.shared(0, 1), expected);
        }
    }

    #[test]
    fn a_queue_that_falls_with_anothers_probe() {
        let mut bench = Bench::new(2);
        for expected in [false, true] {
            bench.settle(1, 0.1);
            bench.signal(0, Signal::Probe);
            bench.settle(1, 0.05);
            assert_eq!(bench.shared(0, 1), expected);
        }
    }

    #[test]
    fn a_fall_within_the_margin_is_none() {
        // 100 ms: the margin is max(2, 5) = 5 ms. 96 ms is within, 94 is not.
        for (after, shared) in [(0.096, false), (0.094, true)] {
            let mut bench = Bench::new(2);
            for _ in 0..2 {
                bench.settle(1, 0.1);
                bench.signal(0, MD);
                bench.settle(1, after);
            }
            assert_eq!(bench.shared(0, 1), shared, "{after}");
        }
    }

    #[test]
    fn one_verdict_is_not_enough_and_an_other_one_starts_anew() {
        let mut bench = Bench::new(2);
        for after in [0.05, 0.1, 0.05] {
            bench.settle(1, 0.1);
            bench.signal(0, MD);
            bench.settle(1, after);
            assert!(!bench.shared(0, 1));
        }
    }

    #[test]
    fn congestion_and_signals_of_another_kind_prove_nothing() {
        let mut bench = Bench::new(2);
        for _ in 0..4 {
            bench.settle(1, 0.1);
            bench.signal(0, MD);
            bench.bottlenecks.on_congestion(bench.now, PathId(1), RTT);
            bench.settle(1, 0.05);
            assert!(!bench.shared(0, 1));
        }
        bench.now += RTT;
        for _ in 0..4 {
            bench.settle(1, 0.1);
            bench.signal(0, Signal::Probe);
            bench.signal(1, Signal::Probe);
            bench.settle(1, 0.05);
            assert!(!bench.shared(0, 1));
        }
    }

    #[test]
    fn a_path_above_the_target_proves_nothing() {
        let mut bench = Bench::new(2);
        for _ in 0..4 {
            bench.settle(1, 0.1);
            bench.signal(0, MD);
            let (now, id) = (bench.now, PathId(1));
            bench.bottlenecks.on_queueing(now, id, 0.11, RTT, true);
            bench.settle(1, 0.05);
            assert!(!bench.shared(0, 1));
        }
    }

    #[test]
    fn sets_are_connected_components() {
        let mut bench = Bench::new(4);
        for (a, b) in [(0, 1), (1, 3)] {
            for _ in 0..2 {
                bench.signal(a, MD);
                bench.signal(b, MD);
                bench.now += 500 * MS;
            }
        }
        assert!(bench.shared(0, 3) && bench.shared(0, 1) && !bench.shared(0, 2));
        bench.bottlenecks.remove(PathId(1));
        assert!(!bench.shared(0, 3) && !bench.shared(0, 1));
        bench.bottlenecks.add(PathId(1));
        assert!(!bench.shared(0, 1) && bench.shared(1, 1));
    }

    #[test]
    fn the_least_of_a_quarter_of_a_round_trip_and_the_one_before() {
        let start = Instant::now();
        let mut queue = Queue::default();
        for (micros, q, least) in [
            (0, 0.1, 0.1),
            (10_000, 0.05, 0.05),
            (24_999, 0.2, 0.05),
            // 25 ms: another quarter.
            (25_000, 0.2, 0.05),
            (50_000, 0.3, 0.2),
            (60_000, 0.15, 0.15),
        ] {
            queue.add(start + Duration::from_micros(micros), q, RTT);
            assert_eq!(queue.least(), least, "{micros}");
        }
    }

    #[test]
    fn congested_until_a_round_trip_later() {
        let mut bench = Bench::new(1);
        let congested = |bench: &Bench, at| {
            let queue = bench.bottlenecks.queues.get(PathId(0)).unwrap();
            queue.congested(at)
        };
        assert!(!congested(&bench, bench.now));
        bench.bottlenecks.on_congestion(bench.now, PathId(0), RTT);
        assert!(congested(&bench, bench.now + 99 * MS));
        assert!(!congested(&bench, bench.now + RTT));
    }

    #[test]
    fn what_a_congested_path_says_or_shows_proves_nothing() {
        for congested in [0, 1] {
            let mut bench = Bench::new(2);
            for _ in 0..4 {
                bench.settle(1, 0.1);
                let id = PathId(congested);
                bench.bottlenecks.on_congestion(bench.now, id, RTT);
                bench.signal(0, MD);
                bench.settle(1, 0.05);
                assert!(!bench.shared(0, 1), "{congested}");
            }
        }
    }

    #[test]
    fn a_fall_exceeds_the_margin() {
        let bench = Bench::new(1);
        assert!(!bench.bottlenecks.is_fall(0.1, 0.1 - 0.05 * 0.1));
        assert!(bench.bottlenecks.is_fall(0.1, 0.0949));
        // Of 20 ms the margin is 2 ms.
        assert!(!bench.bottlenecks.is_fall(0.02, 0.0181));
        assert!(bench.bottlenecks.is_fall(0.02, 0.0179));
    }

    #[test]
    fn the_other_one_of_a_pair_may_come_first() {
        let mut bench = Bench::new(2);
        for expected in [false, true] {
            bench.settle(0, 0.1);
            bench.signal(1, MD);
            bench.settle(0, 0.05);
            assert_eq!(bench.shared(0, 1), expected);
        }
    }

    #[test]
    fn a_fall_is_that_of_the_path_that_is_watched() {
        for signals in [0, 1] {
            let mut bench = Bench::new(3);
            for _ in 0..2 {
                bench.settle(2, 0.1);
                bench.signal(signals, MD);
                bench.settle(2, 0.05);
            }
            assert!(bench.shared(signals, 2) && !bench.shared(0, 1));
        }
    }

    #[test]
    fn a_watch_ends_after_the_others_round_trip() {
        // The queue falls at its end, and not before.
        let mut bench = Bench::new(2);
        for expected in [false, true] {
            bench.settle(1, 0.1);
            bench.signal(0, MD);
            let until = bench.now + RTT;
            for (before, q) in [(60, 0.1), (30, 0.1), (1, 0.05), (0, 0.05)] {
                let (at, id) = (until - before * MS, PathId(1));
                bench.bottlenecks.on_queueing(at, id, q, RTT, false);
            }
            bench.now = until;
            assert_eq!(bench.shared(0, 1), expected);
        }
    }

    #[test]
    fn decreases_a_round_trip_apart_or_beside_a_probe_are_not_one() {
        for (apart, first) in [(RTT, MD), (MS, Signal::Probe)] {
            let mut bench = Bench::new(2);
            for _ in 0..4 {
                bench.signal(0, first);
                bench.now += apart;
                bench.signal(1, MD);
                bench.now += 500 * MS;
                assert!(!bench.shared(0, 1), "{apart:?}");
            }
        }
    }
}
