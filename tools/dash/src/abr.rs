//! Adaptation rules: which level the next video segment has.
//!
//! A rule is a state machine without a clock. It sees the buffer, the throughput estimate and the
//! ladder, and answers with a level or a wait; equal inputs give equal answers.

mod abandon;
mod bba0;
mod bola;
mod dynamic;
mod fixed;
mod rate;

use std::fmt::Debug;
use std::time::Duration;

pub use self::abandon::{should_abandon, Download};
pub use self::bba0::Bba0;
pub use self::bola::Bola;
pub use self::dynamic::Dynamic;
pub use self::fixed::Fixed;
pub use self::rate::{rate_level, Rate, SAFETY};

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

/// An adaptation rule.
pub trait Rule: Debug + Send {
    /// The name [`by_name`] knows it by, for reports.
    fn name(&self) -> String;

    /// Decides about the next segment. Called once per segment, and again after a wait.
    fn decide(&mut self, situation: &Situation<'_>) -> Decision;

    /// Whether a download that falls behind may be given up for a lower level.
    fn may_abandon(&self) -> bool {
        false
    }
}

/// Names that [`by_name`] accepts.
pub const NAMES: [&str; 5] = ["rate", "bba0", "bola", "dynamic", "fixed:LEVEL"];

/// There is no rule of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown adaptation rule {0:?}; known are {names}", names = NAMES.join(", "))]
pub struct UnknownRule(pub String);

/// Makes a rule from its name, e.g. `rate` or `fixed:0`.
pub fn by_name(name: &str) -> Result<Box<dyn Rule>, UnknownRule> {
    let unknown = || UnknownRule(name.into());
    Ok(match name {
        "rate" => Box::new(Rate),
        "bba0" => Box::new(Bba0),
        "bola" => Box::new(Bola::default()),
        "dynamic" => Box::new(Dynamic::default()),
        _ => {
            let level = name.strip_prefix("fixed:").ok_or_else(unknown)?;
            Box::new(Fixed(level.parse().map_err(|_| unknown())?))
        }
    })
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
        }
    }

    #[test]
    fn names_lead_to_their_rules() {
        for name in ["rate", "bba0", "bola", "dynamic", "fixed:2"] {
            assert_eq!(by_name(name).unwrap().name(), name);
        }
        for name in ["", "Rate", "fixed", "fixed:", "fixed:-1", "fixed:top"] {
            let error = by_name(name).unwrap_err().to_string();
            assert!(
                error.contains("rate, bba0, bola, dynamic, fixed:LEVEL"),
                "{error}"
            );
        }
    }

    #[test]
    fn no_rule_needs_an_estimate_or_a_second_level() {
        for name in ["rate", "bba0", "bola", "dynamic", "fixed:7"] {
            for buffer_s in [0.0, 5.0, 13.0, 40.0] {
                let mut rule = by_name(name).unwrap();
                let blind = Situation {
                    throughput_bps: None,
                    last_level: None,
                    ..situation(buffer_s, 0.0, 0)
                };
                if let Decision::Level(level) = rule.decide(&blind) {
                    assert!(level < LADDER.len(), "{name}");
                }
                let single = Situation {
                    ladder_bps: &LADDER[..1],
                    ..situation(buffer_s, 5e6, 0)
                };
                let decision = by_name(name).unwrap().decide(&single);
                assert_eq!(decision, Decision::Level(0), "{name} at {buffer_s} s");
            }
        }
    }
}
