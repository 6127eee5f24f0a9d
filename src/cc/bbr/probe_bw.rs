//! ProbeBW: Down, Cruise, Refill and Up in turn (draft, section 5.3.3).

use std::time::Instant;

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;

/// A probe comes after so many round trips, if the flow is small enough: as many as Reno needs for
/// this window.
const MOST_ROUNDS: f64 = 63.0;

/// look=on: the first probe after Drain.
const EARLY_ROUNDS: u64 = 10;
const EARLY_SECS: f64 = 1.0;

/// regrow=on: what two round trips of a probe have to add for a Startup.
const REGROW: f64 = 1.2;
const REGROW_ROUNDS: u32 = 2;

/// Which samples an ACK brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The cycle of probes.
#[derive(Clone, Debug, Default)]
pub struct Cycle {
    /// When Drain began, in round trips.
    pub drain_round: u64,
    /// A packet that is acked or lost was sent in Refill or Up, and no loss was too much yet.
    pub is_probe_sample: bool,
    /// The last probe lost too much.
    pub was_too_high: bool,
    /// The last probe ended at `inflight_hi`, before it could.
    was_precautionary: bool,
    ack_phase: AckPhase,
    /// When Down began.
    since: Option<Instant>,
    wait_secs: f64,
    /// The round trip in which it is due at the latest, whatever the window.
    latest_round: u64,
    /// The round trip from which on they count as since the last probe.
    first_round: u64,
    /// Growth of `inflight_hi` in Up.
    up_rounds: u32,
    up_acked: f64,
    acked_per_packet: f64,
    /// regrow: the greatest rate when the round trip began, and how many in a row added a fifth.
    rate_before: f64,
    grown: u32,
    /// xorshift64*; 0 before its first use.
    random: u64,
}

impl Cycle {
    /// A number in [0, 1). What was measured is mixed in, so that no two flows go in step.
    fn random(&mut self, mix: u64) -> f64 {
        let mut x = (self.random ^ mix.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// After Startup: the next probe soon.
    pub fn look_early(&mut self, rules: &Rules) {
        if rules.look {
            self.wait_secs = self.wait_secs.min(EARLY_SECS);
            self.latest_round = self.first_round + EARLY_ROUNDS;
        }
    }

    /// Samples of a probe are over once the next round trip begins.
    pub fn stop_samples(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Engine {
    pub fn start_down(&mut self, rules: &Rules, seen: &Seen) {
        // What differs between flows: how long this round trip took, and how much it delivered.
        let rtt = seen.rtt.unwrap_or(self.min_rtt.secs);
        let mix = seen.sample.total_bytes ^ ((rtt * 1e9) as u64).rotate_left(32);
        self.begin_down(rules, seen.now, mix);
    }

    /// StartProbeBW_DOWN after losses.
    pub fn leave_up(&mut self, rules: &Rules, now: Instant) {
        let mix = self.rounds.total() ^ (self.cwnd as u64).rotate_left(32);
        self.begin_down(rules, now, mix);
    }

    fn begin_down(&mut self, rules: &Rules, now: Instant, mix: u64) {
        self.bounds.reset_signals();
        let cycle = &mut self.cycle;
        cycle.acked_per_packet = f64::INFINITY;
        // PickProbeWait: up to a second more, and up to a round trip less.
        cycle.wait_secs = rules.wait_secs + cycle.random(mix);
        cycle.first_round =
            self.rounds.count - u64::from(cycle.random(mix) < 0.5).min(self.rounds.count);
        cycle.latest_round = u64::MAX;
        cycle.since = Some(now);
        cycle.ack_phase = AckPhase::Stopping;
        self.rounds.start();
        self.phase = Phase::Down;
    }

    fn start_refill(&mut self) {
        self.bounds.reset_short();
        self.cycle.up_rounds = 0;
        self.cycle.up_acked = 0.0;
        self.cycle.was_precautionary = false;
        self.cycle.ack_phase = AckPhase::Refilling;
        self.rounds.start();
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, seen: &Seen) {
        self.cycle.ack_phase = AckPhase::Starting;
        self.rounds.start();
        self.full.reset(seen.rate.unwrap_or(0.0));
        self.phase = Phase::Up;
        self.cycle.rate_before = self.max_bw.get();
        self.cycle.grown = 0;
        self.raise_slope(seen.mss);
    }

    /// RaiseInflightLongtermSlope.
    fn raise_slope(&mut self, mss: f64) {
        let growth = (1u64 << self.cycle.up_rounds) as f64;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.acked_per_packet = (self.cwnd / growth).max(mss);
    }

    /// UpdateProbeBWCyclePhase.
    pub fn update_cycle(&mut self, rules: &Rules, seen: &Seen) {
        if !self.full.reached || self.adapt_long_term(rules, seen) {
            return;
        }
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(seen) => self.start_refill(),
            Phase::Down if self.is_time_to_cruise(seen) => self.phase = Phase::Cruise,
            Phase::Refill if self.rounds.started => {
                self.cycle.is_probe_sample = true;
                self.start_up(seen);
            }
            Phase::Up => {
                if self.regrows(rules) {
                    self.enter_startup();
                } else if self.orders.end_probe || self.is_time_to_go_down(seen) {
                    self.cycle.was_too_high = false;
                    self.start_down(rules, seen);
                }
            }
            _ => (),
        }
    }

    /// AdaptLongTermModel; true if it changed the phase.
    fn adapt_long_term(&mut self, rules: &Rules, seen: &Seen) -> bool {
        if self.rounds.started {
            match self.cycle.ack_phase {
                AckPhase::Starting => self.cycle.ack_phase = AckPhase::Feedback,
                AckPhase::Stopping => {
                    self.cycle.is_probe_sample = false;
                    self.cycle.ack_phase = AckPhase::Init;
                    let cycles = self.phase.is_probe_bw();
                    if cycles && !seen.limited {
                        self.max_bw.advance();
                    }
                    if cycles && self.cycle.was_precautionary && !self.cycle.was_too_high {
                        self.start_refill();
                        return true;
                    }
                }
                _ => (),
            }
        }
        let newest = &seen.sample.newest;
        let (lost, in_flight) = (newest.lost_bytes as f64, newest.tx_in_flight_bytes as f64);
        if self
            .judge
            .too_many(rules, lost / seen.mss, in_flight / seen.mss)
            || self.bounds.inflight_hi.is_infinite()
        {
            return false;
        }
        self.bounds.inflight_hi = self.bounds.inflight_hi.max(in_flight);
        if self.phase == Phase::Up {
            self.raise_inflight_hi(seen);
        }
        false
    }

    /// ProbeInflightLongtermUpward.
    fn raise_inflight_hi(&mut self, seen: &Seen) {
        if !seen.cwnd_limited || self.cwnd < self.bounds.inflight_hi {
            return;
        }
        let cycle = &mut self.cycle;
        cycle.up_acked += seen.acked;
        if cycle.up_acked >= cycle.acked_per_packet {
            let packets = (cycle.up_acked / cycle.acked_per_packet).floor();
            cycle.up_acked -= packets * cycle.acked_per_packet;
            self.bounds.inflight_hi += packets * seen.mss;
        }
        if self.rounds.started {
            self.raise_slope(seen.mss);
        }
    }

    /// IsTimeToProbeBW, with IsRenoCoexistenceProbeTime.
    fn is_time_to_probe(&self, seen: &Seen) -> bool {
        let (cycle, orders) = (&self.cycle, &self.orders);
        if orders.probe || orders.hold {
            return orders.probe;
        }
        let elapsed = cycle.since.is_some_and(|since| {
            seen.now.saturating_duration_since(since).as_secs_f64() > cycle.wait_secs
        });
        let rounds = self.rounds.count.saturating_sub(cycle.first_round);
        let window = self.bdp(1.0).min(self.cwnd) / seen.mss + orders.others_packets;
        elapsed
            || rounds as f64 >= window.min(MOST_ROUNDS)
            || self.rounds.count >= cycle.latest_round
    }

    fn is_time_to_cruise(&self, seen: &Seen) -> bool {
        seen.in_flight <= self.bounds.with_headroom(seen.mss)
            && seen.in_flight <= self.target_of_max(seen.mss)
    }

    /// Inflight(max_bw, 1.0).
    fn target_of_max(&self, mss: f64) -> f64 {
        match self.min_rtt.secs.is_finite() {
            true => {
                let bw = self.max_bw.get() * (1.0 - self.orders.less);
                self.quantized(bw * self.min_rtt.secs, mss)
            }
            false => self.target(1.0, mss),
        }
    }

    /// IsTimeToGoDown.
    fn is_time_to_go_down(&mut self, seen: &Seen) -> bool {
        if self.cycle.was_too_high && seen.in_flight >= self.bounds.inflight_hi {
            self.cycle.was_precautionary = true;
            return true;
        }
        if seen.cwnd_limited && self.cwnd >= self.bounds.inflight_hi {
            self.full.reset(seen.rate.unwrap_or(0.0));
            return false;
        }
        self.full.now
    }

    /// Whether the path has much more than was known, and no queue: a probe is too slow for that.
    fn regrows(&mut self, rules: &Rules) -> bool {
        if !rules.regrow || !self.rounds.started {
            return false;
        }
        let cycle = &mut self.cycle;
        let rate = self.max_bw.get();
        let more = rate >= REGROW * cycle.rate_before;
        cycle.grown = if more && !self.judge.shows_queue() {
            cycle.grown + 1
        } else {
            0
        };
        cycle.rate_before = rate;
        cycle.grown >= REGROW_ROUNDS
    }
}
