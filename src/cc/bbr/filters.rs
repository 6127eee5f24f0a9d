//! Round trips by delivered bytes, the greatest rate, and how much is acked at once (draft,
//! sections 5.5.1 to 5.5.9).

use super::Seen;
use crate::cc::units::seconds;
use crate::cc::units::Bounded;
use crate::cc::RateSample;

/// ExtraAckedFilterLen is 10 round trips: the half that fills, and the one before.
const AGGREGATION_ROUNDS: u64 = 5;

/// Round trips: one ends when a packet is acked that left after it began.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    pub count: u64,
    /// This ACK begins one.
    pub started: bool,
    next_delivered: u64,
    total: u64,
}

impl Rounds {
    pub fn update(&mut self, sample: &RateSample) {
        self.total = sample.total_bytes;
        self.started = sample.prior_bytes >= self.next_delivered;
        if self.started {
            self.start();
            self.count += 1;
        }
    }

    /// Bytes delivered so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// StartRound: another one begins, whatever the last one was like.
    pub fn start(&mut self) {
        self.next_delivered = self.total;
    }
}

/// The greatest rate of this cycle and the one before, bytes/s.
#[derive(Clone, Debug, Default)]
pub struct MaxBw([f64; 2]);

impl MaxBw {
    pub fn get(&self) -> f64 {
        self.0[0].at_least(self.0[1])
    }

    pub fn update(&mut self, rate: Option<f64>, limited: bool) {
        if let Some(rate) = rate.filter(|rate| !limited || *rate >= self.get()) {
            self.0[0] = self.0[0].at_least(rate);
        }
    }

    /// Both are this part of what they were.
    pub fn scale(&mut self, part: f64) {
        self.0 = self.0.map(|bw| part * bw);
    }

    /// AdvanceMaxBwFilter: a cycle ended.
    pub fn advance(&mut self) {
        self.0 = [0.0, self.0[0]];
    }
}

/// What is acked beyond the rate, because ACKs come in bundles.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// On the engine's clock.
    since: Option<u64>,
    delivered: f64,
    extra: [f64; 2],
    /// Where the half that fills began.
    round: u64,
    /// The most that did not lose too much; infinite before anything was lost.
    most: f64,
}

impl Default for Aggregation {
    fn default() -> Self {
        Aggregation {
            since: None,
            delivered: 0.0,
            extra: [0.0; 2],
            round: 0,
            most: f64::INFINITY,
        }
    }
}

impl Aggregation {
    pub fn extra(&self) -> f64 {
        self.extra[0].at_least(self.extra[1]).at_most(self.most)
    }

    /// So much in bundles was too much: `keep` of it is less.
    pub fn cut(&mut self, keep: f64) {
        self.most = keep * self.extra();
    }

    /// There may be room for more again.
    pub fn grow(&mut self, bytes: f64) {
        self.most += bytes;
    }

    /// As if so much had been acked at once.
    #[cfg(test)]
    pub fn set_extra(&mut self, bytes: f64) {
        self.extra[0] = bytes;
    }

    /// A path that was idle was not slow.
    pub fn restart(&mut self, clock_nanos: u64) {
        self.since = Some(clock_nanos);
        self.delivered = 0.0;
    }

    pub fn update(&mut self, seen: &Seen, bw: f64, cwnd: f64, round: u64, full: bool) {
        let since = *self.since.get_or_insert(seen.clock_nanos);
        let elapsed = seconds(seen.clock_nanos.saturating_sub(since));
        let mut expected = bw * elapsed;
        if self.delivered <= expected {
            self.restart(seen.clock_nanos);
            expected = 0.0;
        }
        self.delivered += seen.acked;
        // In Startup one round trip is remembered.
        let rounds = if full { AGGREGATION_ROUNDS } else { 1 };
        if round >= self.round + rounds {
            self.round = round;
            self.extra = [0.0, if full { self.extra[0] } else { 0.0 }];
        }
        self.extra[0] = self.extra[0].at_least((self.delivered - expected).at_most(cwnd));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::time::Instant;

    use super::super::testing;
    use super::*;

    #[test]
    fn what_is_acked_beyond_the_rate() {
        let start = Instant::now();
        let mut aggregation = Aggregation::default();
        let mut update = |ms: u64, acked: f64, cwnd: f64, round: u64, full: bool| {
            let seen = Seen {
                acked,
                ..testing::seen(start + Duration::from_millis(ms))
            };
            aggregation.update(&seen, 1000.0, cwnd, round, full);
            aggregation.extra()
        };
        // 1000 bytes/s: 500 at once are 500 more; with 300 after 0.1 s, 800 - 100.
        assert_eq!(update(0, 500.0, 1e9, 0, true), 500.0);
        assert_eq!(update(100, 300.0, 1e9, 0, true), 700.0);
        // After 0.8 s the rate has made up for it: anew. What was greatest is remembered.
        assert_eq!(update(800, 50.0, 1e9, 0, true), 700.0);
        assert_eq!(update(820, 900.0, 1e9, 0, true), 930.0);
        // No more than the window.
        assert_eq!(update(820, 5_000.0, 940.0, 0, true), 940.0);
        // For five rounds and five more.
        assert_eq!(update(60_000, 10.0, 1e9, 4, true), 940.0);
        assert_eq!(update(60_000, 0.0, 1e9, 5, true), 940.0);
        assert_eq!(update(60_000, 0.0, 1e9, 9, true), 940.0);
        assert_eq!(update(60_000, 0.0, 1e9, 10, true), 10.0);
        // In Startup for the round itself.
        assert_eq!(update(60_000, 90.0, 1e9, 10, false), 100.0);
        assert_eq!(update(90_000, 7.0, 1e9, 11, false), 7.0);
    }

    #[test]
    fn what_losses_leave_of_it() {
        let mut aggregation = Aggregation::default();
        aggregation.set_extra(500.0);
        aggregation.grow(10.0);
        assert_eq!(aggregation.extra(), 500.0);
        // 0.7 of 500, and of what is left.
        aggregation.cut(0.7);
        assert_eq!(aggregation.extra(), 350.0);
        aggregation.cut(0.7);
        assert!((aggregation.extra() - 245.0).abs() < 1e-9);
        aggregation.grow(55.0);
        assert!((aggregation.extra() - 300.0).abs() < 1e-9);
    }
}
