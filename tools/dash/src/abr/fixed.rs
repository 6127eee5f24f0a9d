//! One level throughout, for baselines.

use super::{Decision, Rule, Situation};

/// Always this level, or the top one where the ladder is shorter.
#[derive(Debug, Clone, Copy)]
pub struct Fixed(pub usize);

impl Rule for Fixed {
    fn name(&self) -> String {
        format!("fixed:{}", self.0)
    }

    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        Decision::Level(self.0.min(situation.top()))
    }
}
