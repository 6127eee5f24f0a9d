//! Startup and Drain (draft, sections 5.3.1 and 5.3.2).

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;
use crate::cc::units::Bounded;

/// Growth that shows that the pipe is not full, and round trips without it that show it is.
const GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Drain ends after so many round trips.
const DRAIN_ROUNDS: u64 = 3;

/// Whether the pipe is full.
#[derive(Clone, Debug, Default)]
pub struct FullBw {
    /// In the Startup that is over, or was before.
    pub reached: bool,
    /// In this probe.
    pub now: bool,
    pub count: u32,
    bw: f64,
}

impl FullBw {
    /// Begins anew, at the rate of now.
    pub fn reset(&mut self, bw: f64) {
        *self = FullBw {
            reached: self.reached,
            bw,
            ..FullBw::default()
        };
    }

    /// CheckFullBWReached, on a path whose least RTT is `min_rtt_secs`.
    ///
    /// A window that is full but for a packet or two counts as limited, in one round trip after another
    /// where a scheduler chooses among paths. What left with so much in flight that growth would have
    /// shown tells all the same.
    pub fn check(&mut self, seen: &Seen, round_started: bool, min_rtt_secs: f64) {
        let in_flight = seen.sample.newest.tx_in_flight_bytes as f64;
        let tells = !seen.limited || in_flight >= GROWTH * self.bw * min_rtt_secs;
        let Some(rate) = seen.rate.filter(|_| round_started && tells) else {
            return;
        };
        if self.now {
            return;
        }
        if rate >= GROWTH * self.bw {
            self.reset(rate);
            return;
        }
        self.count += 1;
        self.now = self.count >= FULL_ROUNDS;
        self.reached |= self.now;
    }
}

impl Engine {
    /// CheckStartupDone.
    pub fn check_startup_done(&mut self, rules: &Rules, seen: &Seen) {
        if self.phase != Phase::Startup {
            return;
        }
        if self.rounds.started && self.judge.ends_startup(rules, self.full.count) {
            self.full.reached = true;
            self.bounds.inflight_hi = self.bdp(1.0).at_least(self.bounds.inflight_latest());
        }
        if self.full.reached {
            self.phase = Phase::Drain;
            self.cycle.drain_round = self.rounds.count;
            self.full.reset(seen.rate.unwrap_or(0.0));
        }
    }

    /// CheckDrainDone.
    pub fn check_drain_done(&mut self, rules: &Rules, seen: &Seen) {
        if self.phase != Phase::Drain {
            return;
        }
        let late = self.rounds.count > self.cycle.drain_round + DRAIN_ROUNDS;
        if late || seen.in_flight <= self.target(1.0, seen.mss) {
            self.start_down(rules, seen);
            self.cycle.look_early(rules);
        }
    }

    /// Looks for the capacity from the beginning, from the rate that is known.
    pub fn enter_startup(&mut self) {
        self.phase = Phase::Startup;
        self.full = FullBw::default();
        self.bounds.reset_short();
        self.bounds.inflight_hi = f64::INFINITY;
    }
}
