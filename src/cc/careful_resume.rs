//! Careful Resume (RFC 9959): a path that carried much before begins with half of that, once its RTT
//! says that it is the same path.
//!
//! ```text
//!                 initial window acked, RTT fits,        first packet of     last packet of
//!                 sender limited: jump                   the jump acked      the jump acked
//!   RECONNAISSANCE ------------------> UNVALIDATED -----------> VALIDATING -----------> NORMAL
//!        | congestion, another RTT          |    congestion        |                      ^
//!        +--------------------> NORMAL      +------> RETREAT <-----+                      |
//!                                                       | last packet of the jump acked   |
//!                                                       +---------------------------------+
//! ```
//!
//! Sections are those of draft-ietf-tsvwg-careful-resume-24, which became the RFC.
//!
//! | RFC 9959           | here                                             | section |
//! |--------------------|--------------------------------------------------|---------|
//! | saved_cwnd, _rtt   | [`Saved`]                                        | 3.1     |
//! | jump_cwnd          | saved_cwnd/2                                     | 3.3     |
//! | PipeSize           | `pipe_bytes`: in flight at the jump, and all acked since | 3.3 |
//! | unvalidated packets | those sent between the jump and the end of its phase | 3.3 |
//!
//! The jump is paced with cwnd/srtt; slow start's gain of 2 would send half a window at twice the
//! rate that was seen. Packets are told apart by when they were sent. Where the phase of the jump
//! ends, the window is what is in flight and grows by what this very ACK acked, which is what was in
//! flight before it.

use std::time::Duration;
use std::time::Instant;

use super::Ack;

/// Windows below so many initial ones are not worth it (section 3.1).
const LEAST_INITIAL_WINDOWS: f64 = 4.0;

/// Part of the saved window that the jump goes to (section 3.3).
const JUMP: f64 = 0.5;

/// Part of PipeSize that slow start may go to after a retreat (section 3.5).
const BETA: f64 = 0.5;

/// An initial window has so many packets (RFC 9002, section 7.2), which tells how long one is.
const INITIAL_PACKETS: f64 = 10.0;

/// An RTT beyond so many saved ones is that of another path (section 4.2.1).
const MOST_SAVED_RTTS: u32 = 10;

/// What is remembered of a path (the Observing phase).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The window that carried data without being too large.
    pub cwnd_bytes: u64,
    /// The least RTT.
    pub rtt: Duration,
}

impl Saved {
    /// Whether an RTT sample can be one of the path: more than half of it, and up to ten times
    /// (sections 3.2 and 4.2.1).
    fn fits(&self, sample: Duration) -> bool {
        2 * sample > self.rtt && sample <= MOST_SAVED_RTTS * self.rtt
    }

    /// Whether the window is worth remembering, or using (section 3.1).
    pub fn is_worth(&self, initial_bytes: f64) -> bool {
        self.cwnd_bytes as f64 >= LEAST_INITIAL_WINDOWS * initial_bytes && !self.rtt.is_zero()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reconnaissance,
    /// Since the jump.
    Unvalidated {
        since: Instant,
    },
    /// Until a packet sent at this time or later is acked.
    Validating {
        last_sent: Instant,
    },
    Retreat {
        last_sent: Instant,
    },
    Normal,
}

/// What becomes of the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// What the controller says.
    Free,
    /// It stays.
    Hold,
    /// It is this, in bytes.
    Set(f64),
    /// It stays, and slow start goes on to this threshold, in bytes.
    Threshold(f64),
}

/// The state of one path.
#[derive(Clone, Copy, Debug)]
pub struct CarefulResume {
    saved: Saved,
    phase: Phase,
    initial_bytes: f64,
    acked_bytes: f64,
    pipe_bytes: f64,
}

impl CarefulResume {
    /// Of a path that begins with `initial_bytes`.
    pub fn new(saved: Saved, initial_bytes: f64) -> Self {
        let phase = match saved.is_worth(initial_bytes) {
            true => Phase::Reconnaissance,
            false => Phase::Normal,
        };
        CarefulResume {
            saved,
            phase,
            initial_bytes,
            acked_bytes: 0.0,
            pipe_bytes: 0.0,
        }
    }

    /// Of a path of this least RTT whose window jumps now, from `cwnd_bytes`.
    pub fn jumped(now: Instant, cwnd_bytes: f64, rtt: Duration) -> Self {
        CarefulResume {
            saved: Saved { cwnd_bytes: 0, rtt },
            phase: Phase::Unvalidated { since: now },
            initial_bytes: cwnd_bytes,
            acked_bytes: 0.0,
            pipe_bytes: cwnd_bytes,
        }
    }

    /// Whether the window is that of the jump, and must be paced.
    pub fn is_unvalidated(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated { .. })
    }

    /// Packets were acked while the window was `cwnd_bytes`; `limited`: it limited the sender.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack, cwnd_bytes: f64, limited: bool) -> Step {
        let acked_bytes = ack.acked_bytes as f64;
        let fits = ack.rtt_sample.is_none_or(|sample| self.saved.fits(sample));
        let before_bytes = ack.in_flight_before_bytes as f64;
        let flight_bytes = (before_bytes - acked_bytes).max(0.0);
        match self.phase {
            Phase::Reconnaissance => {
                if !fits {
                    self.phase = Phase::Normal;
                    return Step::Free;
                }
                self.acked_bytes += acked_bytes;
                let jump_bytes = JUMP * self.saved.cwnd_bytes as f64;
                if cwnd_bytes >= jump_bytes {
                    self.phase = Phase::Normal;
                } else if self.acked_bytes >= self.initial_bytes && limited {
                    self.phase = Phase::Unvalidated { since: now };
                    self.pipe_bytes = flight_bytes;
                    return Step::Set(jump_bytes);
                }
                Step::Free
            }
            Phase::Unvalidated { since } => {
                self.pipe_bytes += acked_bytes;
                if !fits {
                    self.phase = Phase::Retreat { last_sent: now };
                    return Step::Set(cwnd_bytes.min(self.pipe_bytes / 2.0));
                }
                let packet_bytes = self.initial_bytes / INITIAL_PACKETS;
                let is_all_sent = before_bytes > cwnd_bytes - packet_bytes;
                let waited = now.saturating_duration_since(since);
                let is_over = ack.rtt_sample.is_some_and(|sample| waited > sample);
                if ack.newest_sent <= since && !is_all_sent && !is_over {
                    return Step::Hold;
                }
                if flight_bytes < self.initial_bytes || flight_bytes <= self.pipe_bytes {
                    self.phase = Phase::Normal;
                    return Step::Set(cwnd_bytes.min(self.pipe_bytes.max(self.initial_bytes)));
                }
                self.phase = Phase::Validating { last_sent: now };
                Step::Set(cwnd_bytes.min(before_bytes))
            }
            Phase::Validating { last_sent } => {
                self.pipe_bytes += acked_bytes;
                if ack.newest_sent >= last_sent {
                    self.phase = Phase::Normal;
                }
                Step::Free
            }
            Phase::Retreat { last_sent } => {
                self.pipe_bytes += acked_bytes;
                if ack.newest_sent < last_sent {
                    return Step::Hold;
                }
                self.phase = Phase::Normal;
                Step::Threshold(BETA * self.pipe_bytes)
            }
            Phase::Normal => Step::Free,
        }
    }

    /// A congestion event: at most this window is left, if the rule says so.
    pub fn on_congestion(&mut self, now: Instant) -> Option<f64> {
        let last_sent = match self.phase {
            Phase::Reconnaissance => {
                self.phase = Phase::Normal;
                return None;
            }
            Phase::Unvalidated { .. } => now,
            Phase::Validating { last_sent } => last_sent,
            Phase::Retreat { .. } | Phase::Normal => return None,
        };
        self.phase = Phase::Retreat { last_sent };
        Some(self.pipe_bytes / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// 10 packets of 1000 bytes, and 400 of them at 100 ms before.
    fn begin() -> (Instant, CarefulResume) {
        let saved = Saved {
            cwnd_bytes: 400_000,
            rtt: 100 * MS,
        };
        (Instant::now(), CarefulResume::new(saved, 10_000.0))
    }

    fn ack(acked_bytes: u64, newest_sent: Instant, rtt: Duration, in_flight: u64) -> Ack {
        Ack {
            acked_bytes,
            acked_packets: acked_bytes / 1000,
            newest_sent,
            in_flight_before_bytes: in_flight,
            rtt_sample: Some(rtt),
            app_limited: false,
        }
    }

    /// The same after its jump at 100 ms.
    fn jumped() -> (Instant, CarefulResume) {
        let (t, mut rule) = begin();
        let first = ack(4_000, t, 100 * MS, 10_000);
        assert_eq!(
            rule.on_ack(t + 100 * MS, &first, 10_000.0, true),
            Step::Free
        );
        let rest = ack(6_000, t, 100 * MS, 6_000);
        assert_eq!(
            rule.on_ack(t + 100 * MS, &rest, 14_000.0, true),
            Step::Set(200_000.0)
        );
        assert!(rule.is_unvalidated());
        (t, rule)
    }

    #[test]
    fn the_jump_is_validated_and_then_forgotten() {
        let (t, mut rule) = jumped();
        // A packet that was sent before the jump.
        let old = ack(1_000, t + 100 * MS, 100 * MS, 150_000);
        assert_eq!(
            rule.on_ack(t + 150 * MS, &old, 200_000.0, false),
            Step::Hold
        );
        // The first one after it: the window is what was in flight, as not all of it was used.
        let new = ack(1_000, t + 101 * MS, 100 * MS, 180_000);
        assert_eq!(
            rule.on_ack(t + 201 * MS, &new, 200_000.0, false),
            Step::Set(180_000.0)
        );
        assert!(!rule.is_unvalidated());
        // PipeSize: nothing in flight at the jump, and 2,000 + 50,000 acked since.
        let more = ack(50_000, t + 180 * MS, 100 * MS, 180_000);
        assert_eq!(
            rule.on_ack(t + 280 * MS, &more, 181_000.0, true),
            Step::Free
        );
        assert_eq!(rule.pipe_bytes, 52_000.0);
        // The last of the jump left at 201 ms.
        let last = ack(50_000, t + 201 * MS, 100 * MS, 180_000);
        rule.on_ack(t + 301 * MS, &last, 230_000.0, true);
        assert_eq!(rule.phase, Phase::Normal);
        assert_eq!(rule.on_congestion(t + 302 * MS), None);
    }

    #[test]
    fn a_jump_that_is_hardly_used_leaves_the_pipe() {
        // Little was sent of it: what is in flight is less than an initial window.
        let (t, mut rule) = jumped();
        let new = ack(1_000, t + 101 * MS, 100 * MS, 10_500);
        assert_eq!(
            rule.on_ack(t + 201 * MS, &new, 200_000.0, false),
            Step::Set(10_000.0)
        );
        assert_eq!(rule.phase, Phase::Normal);
        // Or no more than what was acked.
        let (t, mut rule) = jumped();
        let old = ack(30_000, t + 100 * MS, 100 * MS, 60_000);
        assert_eq!(
            rule.on_ack(t + 150 * MS, &old, 200_000.0, false),
            Step::Hold
        );
        let new = ack(2_000, t + 101 * MS, 100 * MS, 34_000);
        assert_eq!(
            rule.on_ack(t + 201 * MS, &new, 200_000.0, false),
            Step::Set(32_000.0)
        );
        assert_eq!(rule.phase, Phase::Normal);
    }

    #[test]
    fn the_jump_ends_when_it_is_sent_or_after_an_rtt() {
        // All but a packet is in flight.
        let (t, mut rule) = jumped();
        let old = ack(1_000, t + 100 * MS, 100 * MS, 199_500);
        assert_eq!(
            rule.on_ack(t + 180 * MS, &old, 200_000.0, true),
            Step::Set(199_500.0)
        );
        assert!(!rule.is_unvalidated());
        // None of it is acked in 100 ms.
        let (t, mut rule) = jumped();
        let old = ack(1_000, t + 100 * MS, 100 * MS, 150_000);
        assert_eq!(
            rule.on_ack(t + 200 * MS, &old, 200_000.0, false),
            Step::Hold
        );
        assert_eq!(
            rule.on_ack(t + 201 * MS, &old, 200_000.0, false),
            Step::Set(150_000.0)
        );
    }

    #[test]
    fn a_path_that_changes_after_the_jump_is_left_in_retreat() {
        for rtt_ms in [50, 1001] {
            let (t, mut rule) = jumped();
            let old = ack(4_000, t + 100 * MS, rtt_ms * MS, 150_000);
            assert_eq!(
                rule.on_ack(t + 150 * MS, &old, 200_000.0, false),
                Step::Set(2_000.0)
            );
            assert!(matches!(rule.phase, Phase::Retreat { .. }));
        }
    }

    #[test]
    fn congestion_while_validating_leaves_half_of_the_pipe() {
        let (t, mut rule) = jumped();
        let new = ack(10_000, t + 101 * MS, 100 * MS, 200_000);
        rule.on_ack(t + 201 * MS, &new, 200_000.0, true);
        assert_eq!(rule.on_congestion(t + 210 * MS), Some(5_000.0));
        assert_eq!(rule.on_congestion(t + 211 * MS), None);
        let rest = ack(30_000, t + 150 * MS, 100 * MS, 100_000);
        assert_eq!(rule.on_ack(t + 250 * MS, &rest, 5_000.0, true), Step::Hold);
        let last = ack(1_000, t + 201 * MS, 100 * MS, 50_000);
        assert_eq!(
            rule.on_ack(t + 301 * MS, &last, 5_000.0, true),
            Step::Threshold(20_500.0)
        );
        assert_eq!(rule.on_ack(t + 302 * MS, &last, 5_000.0, true), Step::Free);
    }

    #[test]
    fn congestion_right_after_the_jump_retreats_too() {
        let (t, mut rule) = jumped();
        let old = ack(8_000, t + 100 * MS, 100 * MS, 100_000);
        rule.on_ack(t + 119 * MS, &old, 200_000.0, false);
        assert_eq!(rule.on_congestion(t + 120 * MS), Some(4_000.0));
        // What was sent until then is the jump.
        let some = ack(1_000, t + 119 * MS, 100 * MS, 9_000);
        assert_eq!(rule.on_ack(t + 219 * MS, &some, 4_000.0, true), Step::Hold);
        let last = ack(1_000, t + 120 * MS, 100 * MS, 9_000);
        assert_eq!(
            rule.on_ack(t + 220 * MS, &last, 4_000.0, true),
            Step::Threshold(5_000.0)
        );
    }

    #[test]
    fn another_rtt_is_another_path() {
        for (rtt_ms, fits) in [(50, false), (51, true), (1000, true), (1001, false)] {
            let (t, mut rule) = begin();
            let all = ack(10_000, t, rtt_ms * MS, 10_000);
            let jumps = rule.on_ack(t + 100 * MS, &all, 10_000.0, true) != Step::Free;
            assert_eq!(jumps, fits, "{rtt_ms}");
            // One sample is enough to know.
            assert_eq!(rule.phase == Phase::Normal, !fits);
        }
    }

    #[test]
    fn no_jump_before_its_time() {
        let (t, mut rule) = begin();
        // Not all of the initial window is acked.
        let some = ack(9_999, t, 100 * MS, 10_000);
        assert_eq!(rule.on_ack(t + 100 * MS, &some, 10_000.0, true), Step::Free);
        // Nothing to send: later it may.
        let one = ack(1, t, 100 * MS, 10_000);
        assert_eq!(rule.on_ack(t + 100 * MS, &one, 20_000.0, false), Step::Free);
        assert_eq!(
            rule.on_ack(t + 900 * MS, &one, 20_000.0, true),
            Step::Set(200_000.0)
        );
    }

    #[test]
    fn what_ends_it_before_the_jump() {
        let (t, mut rule) = begin();
        assert_eq!(rule.on_congestion(t), None);
        assert_eq!(rule.phase, Phase::Normal);
        // Slow start is there already.
        let (t, mut rule) = begin();
        let all = ack(10_000, t, 100 * MS, 10_000);
        rule.on_ack(t + 100 * MS, &all, 200_000.0, true);
        assert_eq!(rule.phase, Phase::Normal);
        // Too little to be worth it: less than four initial windows.
        let small = Saved {
            cwnd_bytes: 39_999,
            rtt: 100 * MS,
        };
        assert_eq!(CarefulResume::new(small, 10_000.0).phase, Phase::Normal);
    }

    #[test]
    fn bounds_of_a_jump_that_is_used() {
        // All but a packet of 1000 bytes is in flight: more than that is needed.
        let (t, mut rule) = jumped();
        let old = ack(1_000, t + 100 * MS, 100 * MS, 199_000);
        assert_eq!(rule.on_ack(t + 180 * MS, &old, 200_000.0, true), Step::Hold);
        // An initial window is in flight: that is enough to validate.
        let (t, mut rule) = jumped();
        let new = ack(1_000, t + 101 * MS, 100 * MS, 11_000);
        assert_eq!(
            rule.on_ack(t + 201 * MS, &new, 200_000.0, false),
            Step::Set(11_000.0)
        );
        // Until the last of the jump is acked, which left at 201 ms.
        let more = ack(1_000, t + 200 * MS, 100 * MS, 11_000);
        rule.on_ack(t + 300 * MS, &more, 11_000.0, true);
        assert!(matches!(rule.phase, Phase::Validating { .. }));
    }

    #[test]
    fn a_jump_by_what_was_measured_is_validated_as_any_other() {
        let t = Instant::now();
        for (rtt_ms, step) in [(100, Step::Hold), (1001, Step::Set(10_500.0))] {
            let mut rule = CarefulResume::jumped(t, 20_000.0, 100 * MS);
            let old = ack(1_000, t, rtt_ms * MS, 20_000);
            assert_eq!(rule.on_ack(t + MS, &old, 50_000.0, true), step);
        }
    }

    #[test]
    fn who_begins_where_it_was() {
        for name in [
            "olia",
            "lia",
            "coupled-cubic",
            "uncoupled-reno",
            "sbd-cubic",
        ] {
            assert!(crate::cc::resumes_carefully(name), "{name}");
        }
        // No slow start; a model of its own; quiche's own, which is not ours to ask; nothing.
        for name in ["fledbat", "sbd-bbr", "uncoupled-bbr", "cubic", "no-such"] {
            assert!(!crate::cc::resumes_carefully(name), "{name}");
        }
    }
}
