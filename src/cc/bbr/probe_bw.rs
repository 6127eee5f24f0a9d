//! ProbeBW: Down, Cruise, Refill and Up in turn (draft, section 5.3.3).

use std::time::Duration;
use std::time::Instant;

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;
use crate::cc::units::Bounded;

/// A probe comes after so many round trips, if the flow is small enough: as many as Reno needs for
/// this window.
const MOST_ROUNDS: f64 = 63.0;

/// look=on: the first probe after Drain.
const EARLY_ROUNDS: u64 = 10;
const EARLY_SECS: f64 = 1.0;

/// For how long after its time a probe lets that of another path end first.
const MOST_YIELDED: Duration = Duration::from_secs(2);

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
    /// When Down began, and the next probe comes so long after it.
    since: Option<Instant>,
    wait_secs: f64,
    /// The two together.
    due: Option<Instant>,
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
            self.wait(self.wait_secs.at_most(EARLY_SECS));
            self.latest_round = self.first_round + EARLY_ROUNDS;
        }
    }

    fn wait(&mut self, secs: f64) {
        self.wait_secs = secs;
        let wait = Duration::from_nanos((secs * 1e9) as u64);
        self.due = self.since.map(|since| since + wait);
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
        cycle.since = Some(now);
        let wait_secs = rules.wait_secs + cycle.random(mix);
        cycle.wait(wait_secs);
        cycle.first_round =
            self.rounds.count - u64::from(cycle.random(mix) < 0.5).min(self.rounds.count);
        cycle.latest_round = u64::MAX;
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
        self.aggregation.grow(self.quantum() / 8.0);
        self.raise_slope(seen.mss);
    }

    /// RaiseInflightLongtermSlope.
    fn raise_slope(&mut self, mss: f64) {
        let growth = (1u64 << self.cycle.up_rounds) as f64;
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.acked_per_packet = (self.cwnd / growth).at_least(mss);
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
        self.bounds.inflight_hi = self.bounds.inflight_hi.at_least(in_flight);
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
        // One that is idle since it began does not end its probe.
        let yields = orders.yields && cycle.due.is_none_or(|due| seen.now <= due + MOST_YIELDED);
        if orders.probe || orders.hold || yields {
            return orders.probe;
        }
        let elapsed = cycle.due.is_some_and(|due| seen.now > due);
        let rounds = self.rounds.count.saturating_sub(cycle.first_round);
        let window = self.bdp(1.0).at_most(self.cwnd) / seen.mss + orders.others_packets;
        elapsed
            || rounds as f64 >= window.at_most(MOST_ROUNDS)
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

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::super::testing::rules;
    use super::*;
    use crate::cc::RateSample;

    /// 1 MB/s and 0.1 s, 100 packets of window, in Cruise, after so many bytes.
    fn engine(total: u64) -> Engine {
        let mut engine = Engine {
            phase: Phase::Cruise,
            bw: 1e6,
            cwnd: 100e3,
            ..Engine::default()
        };
        engine.min_rtt.secs = 0.1;
        engine.max_bw.update(Some(1e6), false);
        engine.full.reached = true;
        engine.rounds.update(&RateSample {
            total_bytes: total,
            ..RateSample::default()
        });
        engine
    }

    fn seen(now: Instant, total: u64) -> Seen {
        Seen {
            in_flight: 100e3,
            rtt: Some(0.05),
            sample: RateSample {
                total_bytes: total,
                ..RateSample::default()
            },
            ..testing::seen(now)
        }
    }

    /// xorshift64* by another program.
    #[test]
    fn waits_are_random_and_differ_between_flows() {
        let mut cycle = Cycle::default();
        assert_eq!(cycle.random(7), 0.40281460385623424);
        assert_eq!(cycle.random(7), 0.31377077661360475);
        // 12,345 bytes and 50 ms, or 12,345 bytes and a window of 80,000.
        let now = Instant::now();
        let rules = rules("wait=2s");
        let mut down = engine(12_345);
        down.start_down(&rules, &seen(now, 12_345));
        assert_eq!(down.cycle.wait_secs, 2.0 + 0.18556417937576875);
        let mut leave = engine(12_345);
        leave.cwnd = 80e3;
        leave.leave_up(&rules, now);
        assert_eq!(leave.cycle.wait_secs, 2.0 + 0.6302663788953188);
        // The second number says whether a round trip less will do; before the first there is none.
        for (total, less) in [(12_345, 1), (12_348, 0)] {
            let mut down = engine(total);
            let count = 40;
            down.rounds.count = count;
            down.start_down(&rules, &seen(now, total));
            assert_eq!(down.cycle.first_round, count - less, "{total}");
        }
        let mut down = engine(12_345);
        down.rounds.count = 0;
        down.start_down(&rules, &seen(now, 12_345));
        assert_eq!(down.cycle.first_round, 0);
    }

    #[test]
    fn samples_of_a_probe() {
        let (rules, now) = (rules(""), Instant::now());
        let mut engine = engine(1000);
        engine.rounds.started = true;
        engine.cycle.ack_phase = AckPhase::Starting;
        assert!(!engine.adapt_long_term(&rules, &seen(now, 1000)));
        assert_eq!(engine.cycle.ack_phase, AckPhase::Feedback);
        engine.cycle.stop_samples();
        assert_eq!(engine.cycle.ack_phase, AckPhase::Stopping);
        // A probe that ended at the bound, before it could, goes on if nothing was too much since.
        for (precautionary, too_high, phase) in [
            (true, false, Phase::Refill),
            (true, true, Phase::Down),
            (false, false, Phase::Down),
        ] {
            engine.phase = Phase::Down;
            engine.cycle.stop_samples();
            engine.cycle.is_probe_sample = true;
            engine.cycle.was_precautionary = precautionary;
            engine.cycle.was_too_high = too_high;
            let changed = engine.adapt_long_term(&rules, &seen(now, 1000));
            assert_eq!(changed, phase == Phase::Refill);
            assert_eq!(engine.phase, phase);
            assert!(!engine.cycle.is_probe_sample);
        }
    }

    #[test]
    fn the_bound_rises_where_it_is_what_limits() {
        let now = Instant::now();
        for (cwnd_limited, cwnd, rises) in [
            (true, 100e3, true),
            (true, 99e3, false),
            (true, 101e3, true),
            (false, 100e3, false),
        ] {
            let mut engine = engine(1000);
            engine.cwnd = cwnd;
            engine.bounds.inflight_hi = 100e3;
            engine.cycle.acked_per_packet = 500.0;
            engine.rounds.started = false;
            let mut seen = seen(now, 1000);
            seen.cwnd_limited = cwnd_limited;
            engine.raise_inflight_hi(&seen);
            let hi = if rises { 102e3 } else { 100e3 };
            assert_eq!(engine.bounds.inflight_hi, hi);
        }
    }

    #[test]
    fn when_it_is_time() {
        let now = Instant::now() + Duration::from_secs(9);
        let mut engine = engine(1000);
        engine.cycle.latest_round = u64::MAX;
        engine.cycle.since = Some(now - Duration::from_secs(2));
        engine.cycle.wait(2.0);
        engine.cycle.first_round = engine.rounds.count;
        assert!(!engine.is_time_to_probe(&seen(now, 1000)));
        let later = seen(now + Duration::from_millis(1), 1000);
        assert!(engine.is_time_to_probe(&later));
        // Orders come first.
        for (probe, hold, is_time) in [(true, true, true), (false, true, false)] {
            (engine.orders.probe, engine.orders.hold) = (probe, hold);
            assert_eq!(engine.is_time_to_probe(&later), is_time);
        }
        (engine.orders.probe, engine.orders.hold) = (true, false);
        assert!(engine.is_time_to_probe(&seen(now, 1000)));
        // Another path's probe is waited for, unless it does not end.
        (engine.orders.probe, engine.orders.yields) = (false, true);
        for (late_ms, is_time) in [(1, false), (2_000, false), (2_001, true)] {
            let late = seen(now + Duration::from_millis(late_ms), 1000);
            assert_eq!(engine.is_time_to_probe(&late), is_time, "{late_ms}");
        }

        // Down ends when what is in flight fits the greatest rate, of which the group takes a tenth off.
        close(engine.target_of_max(1000.0), 100e3);
        engine.orders.less = 0.1;
        close(engine.target_of_max(1000.0), 90e3);
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn when_a_probe_ends() {
        let now = Instant::now();
        for (too_high, in_flight, ends) in [
            (true, 120e3, true),
            (true, 119e3, false),
            (false, 120e3, false),
        ] {
            let mut engine = engine(1000);
            engine.bounds.inflight_hi = 120e3;
            engine.cycle.was_too_high = too_high;
            let mut seen = seen(now, 1000);
            seen.in_flight = in_flight;
            assert_eq!(engine.is_time_to_go_down(&seen), ends);
            assert_eq!(engine.cycle.was_precautionary, ends);
        }
        // Held by its bound it may not have seen all; else three round trips without growth end it.
        for (cwnd_limited, cwnd, ends) in [
            (true, 120e3, false),
            (true, 119e3, true),
            (false, 120e3, true),
        ] {
            let mut engine = engine(1000);
            engine.bounds.inflight_hi = 120e3;
            engine.cwnd = cwnd;
            (engine.full.now, engine.full.count) = (true, 3);
            let mut seen = seen(now, 1000);
            seen.cwnd_limited = cwnd_limited;
            assert_eq!(engine.is_time_to_go_down(&seen), ends);
            assert_eq!(engine.full.count, if ends { 3 } else { 0 });
        }
    }

    #[test]
    fn a_path_regrows_after_two_round_trips_of_a_fifth_more() {
        let rules = rules("");
        let regrows = |rates: [f64; 2]| {
            let mut engine = engine(1000);
            engine.cycle.rate_before = 1e6;
            rates.map(|rate| {
                engine.max_bw.update(Some(rate), false);
                engine.rounds.started = true;
                engine.regrows(&rules)
            })
        };
        assert_eq!(regrows([1.2e6, 1.44e6]), [false, true]);
        assert_eq!(regrows([1.2e6, 1.43e6]), [false, false]);
        assert_eq!(regrows([1.19e6, 1.5e6]), [false, false]);
    }
}
