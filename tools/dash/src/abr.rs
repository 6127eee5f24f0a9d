//! Adaptation rules: which level the next video segment has.
//!
//! A rule is a state machine without a clock. It sees the buffer, the throughput estimate and the
//! ladder, hears of each segment that came, and answers with a level or a wait; equal inputs give
//! equal answers. [`RULES`] is the table from which [`by_name`] makes them.

mod abandon;
mod bba0;
mod bola;
mod dynamic;
mod fixed;
mod l2a;
mod mpc;
mod rate;
mod table;

use std::fmt::Debug;
use std::time::Duration;

pub(crate) use self::abandon::Pace;
pub use self::abandon::{should_abandon, Abandon, Download};
pub use self::rate::rate_level;
pub use self::table::{by_name, choose, Choice, Entry, InvalidChoice, RULES};

/// What a rule may look at.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// Rates of the levels, bit/s, ascending; never empty.
    pub ladder_bps: &'a [u64],
    /// Length of the next segment.
    pub segment: Duration,
    /// Media buffered ahead of the playhead, video and audio both.
    pub buffer: Duration,
    /// Where fetching pauses below the top level.
    pub buffer_goal: Duration,
    /// Estimated throughput of the connection, bit/s; `None` before anything was measured.
    pub throughput_bps: Option<f64>,
    /// Level of the previous segment.
    pub last_level: Option<usize>,
    /// Since the last segment came, or since the rule was asked last if that was later: time that
    /// no download took.
    pub idle: Duration,
    /// How fast the media plays: 1, but for live playback that catches up or falls back.
    pub playback_rate: f64,
}

impl Situation<'_> {
    /// The highest level.
    pub fn top(&self) -> usize {
        self.ladder_bps.len() - 1
    }
}

/// A rule's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Fetch the next segment at this level, counted from 0, the lowest.
    Level(usize),
    /// Fetch nothing for this long, then ask again.
    Wait(Duration),
}

/// A video segment that has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// Its level.
    pub level: usize,
    /// Media in it.
    pub duration: Duration,
    /// From the request to the last byte.
    pub took: Duration,
    /// Buffered before it joined.
    pub buffer: Duration,
    /// What the whole connection carried meanwhile, other requests included, bit/s.
    pub throughput_bps: f64,
}

/// An adaptation rule.
pub trait Rule: Debug + Send {
    /// Decides about the next segment. Called once per segment, and again after a wait.
    fn decide(&mut self, situation: &Situation<'_>) -> Decision;

    /// A video segment came; before the next decision.
    fn on_segment(&mut self, _arrival: &Arrival) {}

    /// Playback stood for want of video; before the segment that ended that.
    fn on_stall(&mut self) {}

    /// Which downloads that fall behind are given up for a lower level.
    fn abandons(&self) -> Abandon {
        Abandon::Never
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ladder in Mbit/s: 1, 2, 4, 8.
    pub(super) const LADDER: [u64; 4] = [1_000_000, 2_000_000, 4_000_000, 8_000_000];

    pub(super) fn situation(buffer_s: f64, throughput_bps: f64, last: usize) -> Situation<'static> {
        Situation {
            ladder_bps: &LADDER,
            segment: Duration::from_secs(2),
            buffer: Duration::from_secs_f64(buffer_s),
            buffer_goal: Duration::from_secs(18),
            throughput_bps: Some(throughput_bps),
            last_level: Some(last),
            idle: Duration::ZERO,
            playback_rate: 1.0,
        }
    }

    /// A rule by its name.
    pub(super) fn rule(name: &str) -> Box<dyn Rule> {
        by_name(name).unwrap()
    }

    /// A segment of 2 s that came at this rate.
    pub(super) fn arrival(level: usize, throughput_bps: f64) -> Arrival {
        let bits = 2.0 * LADDER[level] as f64;
        Arrival {
            level,
            duration: Duration::from_secs(2),
            took: Duration::from_secs_f64(bits / throughput_bps),
            buffer: Duration::from_secs(4),
            throughput_bps,
        }
    }

    #[test]
    fn no_rule_needs_an_estimate_or_a_second_level() {
        for name in RULES.iter().map(|entry| entry.name) {
            for buffer_s in [0.0, 5.0, 13.0, 40.0] {
                let blind = Situation {
                    throughput_bps: None,
                    last_level: None,
                    ..situation(buffer_s, 0.0, 0)
                };
                if let Decision::Level(level) = rule(name).decide(&blind) {
                    assert!(level < LADDER.len(), "{name}");
                }
                let single = Situation {
                    ladder_bps: &LADDER[..1],
                    ..situation(buffer_s, 5e6, 0)
                };
                let mut measured = rule(name);
                for _ in 0..20 {
                    measured.on_segment(&arrival(0, 5e6));
                    let decision = measured.decide(&single);
                    assert_eq!(decision, Decision::Level(0), "{name} at {buffer_s} s");
                }
            }
        }
    }
}
