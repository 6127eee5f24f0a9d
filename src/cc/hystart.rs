//! HyStart++ (RFC 9406): leaves the first slow start when the delay rises, before packets are lost.
//!
//! While the RTT of a round grows beyond the previous round's, slow start gives way to conservative
//! slow start (CSS), which grows at a quarter of the speed. Either the RTT falls back and slow start
//! resumes, or five rounds confirm and congestion avoidance begins.
//!
//! | RFC 9406           | here                  |
//! |--------------------|-----------------------|
//! | lastRoundMinRTT    | `last_round_min`      |
//! | currentRoundMinRTT | `this_round_min`      |
//! | rttSampleCount     | `samples`             |
//! | cssBaselineMinRtt  | `Css::baseline`       |
//! | L                  | infinite: the sender is paced (section 4.3) |

use std::time::Duration;

const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
/// Fewer RTT samples in a round decide nothing.
pub(super) const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Conservative slow start.
#[derive(Clone, Copy, Debug)]
struct Css {
    /// The RTT that made us suspect a queue.
    baseline: Duration,
    /// Rounds begun in this phase, the first partial one included.
    rounds: u32,
}

/// HyStart++ of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    last_round_min: Option<Duration>,
    this_round_min: Option<Duration>,
    samples: u32,
    css: Option<Css>,
}

/// What slow start does with an ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Grow by this fraction of the acked bytes.
    Grow(f64),
    /// Leave slow start.
    Leave,
}

impl HyStart {
    /// A packet sent after the last call was acked: a round ended.
    pub fn on_round(&mut self) {
        self.last_round_min = self.this_round_min.take();
        self.samples = 0;
        if let Some(css) = &mut self.css {
            css.rounds += 1;
        }
    }

    /// Takes the RTT sample of an ACK, if it gave one.
    pub fn on_ack(&mut self, rtt_sample: Option<Duration>) -> Verdict {
        if let Some(sample) = rtt_sample {
            self.samples += 1;
            self.this_round_min = Some(self.this_round_min.map_or(sample, |min| min.min(sample)));
        }
        let confident = self.samples >= N_RTT_SAMPLE;

        match (self.css, self.this_round_min, self.last_round_min) {
            (Some(css), Some(this), _) if confident && this < css.baseline => self.css = None,
            (Some(css), ..) if css.rounds >= CSS_ROUNDS => return Verdict::Leave,
            (None, Some(this), Some(last)) if confident && this >= last + rtt_thresh(last) => {
                self.css = Some(Css {
                    baseline: this,
                    rounds: 0,
                });
            }
            _ => (),
        }

        match self.css {
            Some(_) => Verdict::Grow(1.0 / CSS_GROWTH_DIVISOR),
            None => Verdict::Grow(1.0),
        }
    }
}

/// RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH)).
pub(super) fn rtt_thresh(last_round_min: Duration) -> Duration {
    (last_round_min / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(hystart: &mut HyStart, rtt_ms: u64) -> Verdict {
        hystart.on_round();
        let mut verdict = Verdict::Leave;
        for _ in 0..N_RTT_SAMPLE {
            verdict = hystart.on_ack(Some(Duration::from_millis(rtt_ms)));
        }
        verdict
    }

    #[test]
    fn threshold_is_an_eighth_within_its_bounds() {
        assert_eq!(
            rtt_thresh(Duration::from_millis(8)),
            Duration::from_millis(4)
        );
        assert_eq!(
            rtt_thresh(Duration::from_millis(80)),
            Duration::from_millis(10)
        );
        assert_eq!(
            rtt_thresh(Duration::from_millis(800)),
            Duration::from_millis(16)
        );
    }

    #[test]
    fn five_rounds_of_a_risen_rtt_end_slow_start() {
        let mut hystart = HyStart::default();
        assert_eq!(round(&mut hystart, 80), Verdict::Grow(1.0));
        // 80/8 = 10 ms is the threshold: 89 is not enough, 99 = 89 + 10 (89/8 = 11.1) neither.
        assert_eq!(round(&mut hystart, 89), Verdict::Grow(1.0));
        assert_eq!(round(&mut hystart, 99), Verdict::Grow(1.0));
        // 99/8 = 12.4: 112 is beyond.
        assert_eq!(round(&mut hystart, 112), Verdict::Grow(0.25));
        for _ in 0..4 {
            assert_eq!(round(&mut hystart, 115), Verdict::Grow(0.25));
        }
        assert_eq!(round(&mut hystart, 115), Verdict::Leave);
    }

    #[test]
    fn slow_start_resumes_when_the_rtt_falls_back() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        assert_eq!(round(&mut hystart, 60), Verdict::Grow(0.25));
        assert_eq!(round(&mut hystart, 41), Verdict::Grow(1.0));
    }

    #[test]
    fn seven_samples_decide_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        hystart.on_round();
        for _ in 0..7 {
            assert_eq!(
                hystart.on_ack(Some(Duration::from_millis(90))),
                Verdict::Grow(1.0)
            );
        }
        assert_eq!(hystart.on_ack(None), Verdict::Grow(1.0));
        assert_eq!(
            hystart.on_ack(Some(Duration::from_millis(90))),
            Verdict::Grow(0.25)
        );
    }

    #[test]
    fn a_round_like_the_first_conservative_one_counts() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 40);
        for _ in 0..5 {
            assert_eq!(round(&mut hystart, 60), Verdict::Grow(0.25));
        }
        assert_eq!(round(&mut hystart, 60), Verdict::Leave);
    }
}
