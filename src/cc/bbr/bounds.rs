//! What losses say about the path: bounds of rate and flight, for long and for now (draft,
//! section 5.5.10).

use std::time::Instant;

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;
use super::MIN_PACKETS;
use super::SHORT_SECS;
use crate::cc::units::Bounded;
use crate::cc::Flight;
use crate::cc::Loss;

/// Headroom: what Cruise leaves of `inflight_hi` for others.
const HEADROOM: f64 = 0.15;

/// The bounds, infinite where there is none, and what they are taken from.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Most bytes in flight that did not lose too much (inflight_longterm).
    pub inflight_hi: f64,
    /// What a lossy round trip left of the rate, bytes/s (bw_shortterm).
    pub bw_lo: f64,
    /// The same of the flight, bytes (inflight_shortterm).
    pub inflight_lo: f64,
    bw_latest: f64,
    inflight_latest: f64,
    /// What was delivered when the round trip of losses began that goes on.
    loss_round: u64,
    /// A round trip of losses ended with this ACK.
    loss_round_ended: bool,
    /// Packets lost in it, and what was delivered when they began to be counted.
    lost: f64,
    since: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            inflight_hi: f64::INFINITY,
            bw_lo: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            loss_round: 0,
            loss_round_ended: false,
            lost: 0.0,
            since: 0,
        }
    }
}

impl Bounds {
    /// UpdateLatestDeliverySignals.
    pub fn note_delivery(&mut self, seen: &Seen) {
        self.bw_latest = self.bw_latest.at_least(seen.rate.unwrap_or(0.0));
        let delivered = seen.sample.delivered_bytes() as f64;
        self.inflight_latest = self.inflight_latest.at_least(delivered);
        self.loss_round_ended = seen.sample.prior_bytes >= self.loss_round;
        if self.loss_round_ended {
            self.loss_round = seen.sample.total_bytes;
        }
    }

    /// AdvanceLatestDeliverySignals.
    pub fn advance_delivery(&mut self, seen: &Seen) {
        if self.loss_round_ended {
            self.bw_latest = seen.rate.unwrap_or(0.0);
            self.inflight_latest = seen.sample.delivered_bytes() as f64;
        }
    }

    pub fn inflight_latest(&self) -> f64 {
        self.inflight_latest
    }

    /// ResetCongestionSignals.
    pub fn reset_signals(&mut self) {
        self.lost = 0.0;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    /// So many packets were lost in this round trip.
    #[cfg(test)]
    pub fn lose(&mut self, packets: f64) {
        self.lost += packets;
    }

    /// What was lost in this round trip was not.
    pub fn forget_losses(&mut self) {
        self.lost = 0.0;
    }

    /// ResetShortTermModel.
    pub fn reset_short(&mut self) {
        self.bw_lo = f64::INFINITY;
        self.inflight_lo = f64::INFINITY;
    }

    /// InflightWithHeadroom.
    pub fn with_headroom(&self, mss: f64) -> f64 {
        if self.inflight_hi.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = mss.at_least(HEADROOM * self.inflight_hi);
        (self.inflight_hi - headroom).at_least(MIN_PACKETS * mss)
    }

    /// BoundCwndForModel.
    pub fn cap(&self, phase: Phase, mss: f64) -> f64 {
        let cap = match phase {
            Phase::Startup | Phase::Drain => f64::INFINITY,
            Phase::Down | Phase::Refill | Phase::Up => self.inflight_hi,
            Phase::Cruise | Phase::ProbeRtt => self.with_headroom(mss),
        };
        cap.at_most(self.inflight_lo)
    }
}

impl Engine {
    /// AdaptLowerBoundsFromCongestion, at the end of a round trip of losses.
    pub fn adapt_lower_bounds(&mut self, rules: &Rules, seen: &Seen) {
        if !self.bounds.loss_round_ended {
            return;
        }
        let lost = std::mem::take(&mut self.bounds.lost);
        let total = seen.sample.total_bytes;
        let since = std::mem::replace(&mut self.bounds.since, total);
        let sent = lost + total.saturating_sub(since) as f64 / seen.mss;
        let congested = match rules.judged {
            true => self.judge.too_many(rules, lost, sent),
            false => true,
        };
        if lost == 0.0 || !congested {
            return;
        }
        if self.min_rtt.secs < SHORT_SECS {
            self.aggregation.cut(rules.beta);
        }
        if self.phase.is_probing() {
            return;
        }
        let bounds = &mut self.bounds;
        if bounds.bw_lo.is_infinite() {
            bounds.bw_lo = self.max_bw.get();
        }
        if bounds.inflight_lo.is_infinite() {
            bounds.inflight_lo = self.cwnd;
        }
        bounds.bw_lo = bounds.bw_latest.at_least(rules.beta * bounds.bw_lo);
        bounds.inflight_lo = bounds
            .inflight_latest
            .at_least(rules.beta * bounds.inflight_lo);
    }

    /// HandleLostPacket, for the packets that were declared lost together.
    pub fn on_loss(&mut self, rules: &Rules, now: Instant, mss: f64, loss: &Loss, flight: &Flight) {
        let packets = loss.lost_packets as f64;
        self.judge.on_loss(packets);
        let sent = flight.tx_in_flight_bytes as f64 / mss;
        if self.judge.gives_way(rules, sent) {
            self.on_congestion(rules, now, loss.newest_lost_sent, mss);
        }
        if self.bounds.lost == 0.0 {
            // NoteLoss: the round trip of losses begins here.
            self.bounds.loss_round = self.rounds.total();
        }
        self.bounds.lost += packets;

        if !self.cycle.is_probe_sample {
            return;
        }
        let lost = flight.lost_bytes as f64;
        let in_flight = flight.tx_in_flight_bytes as f64;
        if !self.judge.too_many(rules, lost / mss, in_flight / mss) {
            return;
        }
        let size = flight.packet_bytes as f64;
        let share = self.judge.bound(rules, in_flight / mss) * mss / in_flight.at_least(mss);
        let most = inflight_at_loss(share, in_flight - size, lost - size);
        self.on_inflight_too_high(rules, now, most, flight.app_limited);
    }

    /// HandleInflightTooHigh: `most` bytes in flight lose as much as they may.
    fn on_inflight_too_high(&mut self, rules: &Rules, now: Instant, most: f64, limited: bool) {
        self.cycle.was_too_high = true;
        self.cycle.is_probe_sample = false;
        if !limited {
            let least = rules.beta * self.bdp(1.0).at_most(self.cwnd);
            self.bounds.inflight_hi = most.at_least(least);
        }
        if self.phase == Phase::Up {
            self.leave_up(rules, now);
        }
    }
}

/// InflightAtLoss: the flight at which losses crossed `share`, of `lost` bytes of `in_flight`.
fn inflight_at_loss(share: f64, in_flight: f64, lost: f64) -> f64 {
    in_flight + (share * in_flight - lost) / (1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_crossed_the_bound_before_the_last_of_them() {
        // 100 packets in flight of which 12 were lost: at 2 %, 100 + (2 - 12)/0.98.
        let at = inflight_at_loss(0.02, 100.0, 12.0);
        assert!((at - 89.795_918).abs() < 1e-5, "{at}");
    }

    #[test]
    fn headroom_is_left_in_cruise_alone() {
        let bounds = Bounds {
            inflight_hi: 100_000.0,
            ..Bounds::default()
        };
        assert_eq!(bounds.cap(Phase::Cruise, 1000.0), 85_000.0);
        assert_eq!(bounds.cap(Phase::ProbeRtt, 1000.0), 85_000.0);
        assert_eq!(bounds.cap(Phase::Up, 1000.0), 100_000.0);
        assert_eq!(bounds.cap(Phase::Startup, 1000.0), f64::INFINITY);
        let lower = Bounds {
            inflight_lo: 60_000.0,
            ..bounds
        };
        assert_eq!(lower.cap(Phase::Cruise, 1000.0), 60_000.0);
        // One packet at least is headroom, and four packets are left.
        let small = Bounds {
            inflight_hi: 4_500.0,
            ..Bounds::default()
        };
        assert_eq!(small.cap(Phase::Cruise, 1000.0), 4_000.0);
    }

    #[test]
    fn a_probe_leaves_beta_of_the_window_at_least() {
        let rules = super::super::testing::rules("");
        let now = Instant::now();
        // A BDP of 100 kB and a window of 80: 0.7 of the lesser.
        for (most, limited, hi) in [
            (10e3, false, 56e3),
            (70e3, false, 70e3),
            (10e3, true, f64::INFINITY),
        ] {
            let mut engine = Engine {
                bw: 1e6,
                cwnd: 80e3,
                phase: Phase::Refill,
                ..Engine::default()
            };
            engine.min_rtt.secs = 0.1;
            engine.cycle.is_probe_sample = true;
            engine.on_inflight_too_high(&rules, now, most, limited);
            assert_eq!(engine.bounds.inflight_hi, hi);
            assert!(engine.cycle.was_too_high && !engine.cycle.is_probe_sample);
            assert_eq!(engine.phase, Phase::Refill);
        }
    }

    #[test]
    fn a_new_probe_forgets_what_was_lost_and_delivered() {
        let mut bounds = Bounds {
            lost: 3.0,
            bw_latest: 4.0,
            inflight_latest: 5.0,
            ..Bounds::default()
        };
        bounds.reset_signals();
        let left = (bounds.lost, bounds.bw_latest, bounds.inflight_latest());
        assert_eq!(left, (0.0, 0.0, 0.0));
    }
}
