//! What a loss-based flow would have in flight, while somebody else keeps a queue (`compete`); ours.
//!
//! A BBR flow paces at the rate it is known to get through, so that alone it shows no queue in
//! Cruise. A queue that is there nevertheless is somebody else's, who fills it until packets are
//! lost, and gives way then. Beside such a one, what may be in flight is bounded by the window that
//! AIMD or CUBIC would have there: cut once for the losses of a round trip that came with a queue,
//! grown by ACKs. Losses without a queue, and as many as the path loses anyway, are none of these
//! ([`Judge`](super::losses::Judge)), so the bound holds nothing back on a link that loses at random.
//!
//! | symbol | name here | unit  | what it is                                                    |
//! |--------|-----------|-------|---------------------------------------------------------------|
//! | W_v    | `window`  | bytes | the virtual window; infinite where there is none              |
//! | s      | `share`   | 1     | the path's part of its group's rate, by which its part grows  |

use std::time::Duration;
use std::time::Instant;

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;
use super::MIN_PACKETS;
use crate::cc::cubic;
use crate::cc::cubic::Gains;
use crate::cc::cubic::Growth;
use crate::cc::units::Bounded;

/// A rival is thought to be there for so long after its queue was seen: as long as a probe waits.
const HOLD: Duration = Duration::from_secs(3);

/// With a queue longer than this, in least RTTs, the bound of the model, twice the BDP, gives way before
/// any loss does.
const DEEP: f64 = 3.0;

/// By what the virtual window grows and shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    Off,
    Aimd,
    Cubic,
}

/// The rival of a path, and the virtual window.
#[derive(Clone, Debug)]
pub struct Rival {
    /// When a queue was seen last that is not the path's own.
    seen: Option<Instant>,
    /// Bytes.
    pub window: f64,
    cubic: cubic::Flow,
    /// When it was the limit last.
    pub bound_at: Option<Instant>,
    /// When it was cut last.
    pub cut_at: Option<Instant>,
}

impl Default for Rival {
    fn default() -> Self {
        Rival {
            seen: None,
            window: f64::INFINITY,
            cubic: cubic::Flow::default(),
            bound_at: None,
            cut_at: None,
        }
    }
}

impl Rival {
    /// Whether somebody keeps a queue.
    fn is_there(&self, now: Instant) -> bool {
        self.seen
            .is_some_and(|seen| now.saturating_duration_since(seen) <= HOLD)
    }

    /// A queue was seen that is not the path's own.
    pub fn see(&mut self, now: Instant) {
        self.seen = Some(now);
    }

    /// Whether a packet that left at `sent` belongs to what the window was cut for.
    fn is_of_last_cut(&self, sent: Instant) -> bool {
        self.cut_at.is_some_and(|cut| sent <= cut)
    }

    /// Cuts the window, of which no more counts than was in flight.
    fn cut(&mut self, rules: &Rules, now: Instant, flight: f64) {
        let window = self.window.at_most(flight);
        self.cut_at = Some(now);
        self.window = match rules.law {
            Law::Cubic => self.cubic.decrease(window),
            Law::Aimd | Law::Off => rules.keep * window,
        };
    }

    fn leave(&mut self) {
        self.seen = None;
        self.window = f64::INFINITY;
        self.cubic = cubic::Flow::default();
    }

    fn grow(&mut self, rules: &Rules, seen: &Seen, srtt: f64, share: f64) {
        let growth = match rules.law {
            Law::Cubic => {
                let growth = Growth {
                    srtt: Duration::from_secs_f64(srtt),
                    cwnd_bytes: self.window,
                    mss_bytes: seen.mss,
                    acked_bytes: seen.acked,
                };
                let gains = Gains {
                    cubic: share,
                    friendly: share,
                };
                self.cubic.increase(seen.now, &growth, gains)
            }
            Law::Aimd | Law::Off => share * rules.grow * seen.mss * seen.acked / self.window,
        };
        self.window += growth;
    }
}

impl Engine {
    /// A round trip of Cruise may have shown somebody's queue; the virtual window grows, or is
    /// forgotten.
    pub fn update_rival(&mut self, rules: &Rules, seen: &Seen) {
        if rules.law == Law::Off || !self.min_rtt.secs.is_finite() {
            return;
        }
        if self.orders.others_act {
            self.judge.spoil();
        }
        if self.rounds.started && self.judge.cruised_with_queue() {
            self.rival.see(seen.now);
        }
        if let Some(cut) = self.orders.cut {
            self.rival.see(seen.now);
            self.give_way(rules, seen.now, cut, seen.mss);
        }
        if self.rival.window.is_infinite() {
            return;
        }
        if !self.rival.is_there(seen.now) {
            self.rival.leave();
            return;
        }
        if self.cwnd >= self.rival.window - seen.mss && seen.cwnd_limited {
            self.rival.bound_at = Some(seen.now);
        }
        if self.rival.is_of_last_cut(seen.sent) {
            return;
        }
        let rtt = self.min_rtt.secs + self.judge.queue_now();
        let bound_at = self.rival.bound_at.max(self.orders.bound_at);
        let is_late = |at| seen.now.saturating_duration_since(at).as_secs_f64() > rtt;
        match bound_at.is_none_or(is_late) {
            true => self.rival.cubic.on_underused(seen.now),
            false => {
                let share = 1.0 - self.orders.others_share;
                self.rival.grow(rules, seen, rtt, share);
            }
        }
    }

    /// Packets that left at `sent` were lost with a queue: gives way if it is a rival's, once in a round
    /// trip.
    pub fn on_congestion(&mut self, rules: &Rules, now: Instant, sent: Instant, mss: f64) {
        let is_deep = self.judge.queue_now() > DEEP * self.min_rtt.secs;
        let is_ours = rules.law == Law::Off || !self.rival.is_there(now);
        if !is_deep && !is_ours && !self.rival.is_of_last_cut(sent) {
            self.give_way(rules, now, now, mss);
        }
    }

    /// Cuts the window for losses that were found at `at`, and ends a probe.
    pub fn give_way(&mut self, rules: &Rules, now: Instant, at: Instant, mss: f64) {
        let flight = self.peak[0].at_least(self.peak[1]);
        self.rival.cut(rules, at, flight);
        let floor = MIN_PACKETS * mss;
        self.rival.window = self.rival.window.at_least(floor);
        self.cycle.is_probe_sample = false;
        if self.phase == Phase::Up || self.phase == Phase::Refill {
            self.leave_up(rules, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::rules;
    use super::super::testing::seen;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Beside a rival that was seen at `now`, with a virtual window of 100 packets.
    fn engine(now: Instant) -> Engine {
        let mut engine = Engine {
            phase: Phase::Cruise,
            cwnd: 99e3,
            ..Engine::default()
        };
        engine.min_rtt.secs = 0.125;
        engine.rival.see(now);
        engine.rival.window = 100e3;
        engine
    }

    #[test]
    fn the_virtual_window_is_the_limit_within_a_packet() {
        let (rules, now) = (rules("compete=aimd"), Instant::now());
        for (cwnd, cwnd_limited, is_limit) in [
            (99e3, true, true),
            (98.9e3, true, false),
            (99e3, false, false),
            (200e3, false, false),
        ] {
            let mut engine = engine(now);
            engine.cwnd = cwnd;
            let mut seen = seen(now);
            seen.cwnd_limited = cwnd_limited;
            engine.update_rival(&rules, &seen);
            assert_eq!(engine.bound_at(), is_limit.then_some(now));
            assert_eq!(engine.rival.window > 100e3, is_limit);
        }
    }

    #[test]
    fn it_grows_for_a_round_trip_after_it_was() {
        let (rules, start) = (rules("compete=aimd"), Instant::now());
        // 125 ms, and the queue of 10 ms.
        for (ms, queue, grows) in [
            (125, 0.0, true),
            (126, 0.0, false),
            (135, 0.010, true),
            (136, 0.010, false),
        ] {
            let mut engine = engine(start);
            engine.rival.bound_at = Some(start);
            let mut late = seen(start);
            late.rtt = Some(0.125 + queue);
            engine.judge.on_ack(&late, 0.125, true);
            let mut seen = seen(start + ms * MS);
            seen.cwnd_limited = false;
            engine.update_rival(&rules, &seen);
            assert_eq!(engine.rival.window > 100e3, grows, "{ms} {queue}");
        }
    }

    #[test]
    fn nothing_competes_where_it_is_off_or_no_rtt_is_known() {
        let now = Instant::now();
        for (list, min_rtt) in [("compete=off", 0.125), ("compete=aimd", f64::INFINITY)] {
            let mut engine = engine(now);
            engine.min_rtt.secs = min_rtt;
            engine.orders.cut = Some(now);
            engine.update_rival(&rules(list), &seen(now));
            assert_eq!((engine.gave_way(), engine.rival.window), (None, 100e3));
        }
    }

    #[test]
    fn who_gives_way_keeps_four_packets_and_ends_its_probe() {
        let (rules, now) = (rules("compete=aimd,keep=0.5"), Instant::now());
        for (flight, window) in [(60e3, 30e3), (1e3, 4e3)] {
            let mut engine = engine(now);
            engine.peak = [0.0, flight];
            engine.give_way(&rules, now, now, 1000.0);
            assert_eq!(engine.rival.window, window);
            assert_eq!(engine.gave_way(), Some(now));
        }
        for (phase, after) in [
            (Phase::Up, Phase::Down),
            (Phase::Refill, Phase::Down),
            (Phase::Cruise, Phase::Cruise),
            (Phase::ProbeRtt, Phase::ProbeRtt),
        ] {
            let mut engine = engine(now);
            (engine.phase, engine.cycle.is_probe_sample) = (phase, true);
            engine.give_way(&rules, now, now, 1000.0);
            assert_eq!(engine.phase, after);
            assert!(!engine.cycle.is_probe_sample);
        }
    }

    #[test]
    fn a_queue_that_is_deep_is_left_to_the_model() {
        let (rules, now) = (rules("compete=aimd,keep=0.5"), Instant::now());
        // Three least RTTs are 375 ms.
        for (queue, gives_way) in [(0.375, true), (0.376, false)] {
            let mut engine = engine(now);
            engine.peak = [80e3, 0.0];
            let mut late = seen(now);
            late.rtt = Some(0.125 + queue);
            engine.judge.on_ack(&late, 0.125, true);
            engine.on_congestion(&rules, now, now, 1000.0);
            assert_eq!(engine.gave_way().is_some(), gives_way, "{queue}");
        }
    }
}
