//! The throughput rule: the highest level below a safe share of the estimate (dash.js 5).

use super::{Decision, Rule, Situation};

/// Share of the estimate that may be used.
pub const SAFETY: f64 = 0.9;

/// Picks by throughput alone; the lowest level until something was measured.
#[derive(Debug, Clone, Copy)]
pub struct Rate;

impl Rule for Rate {
    fn name(&self) -> String {
        "rate".into()
    }

    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let budget_bps = SAFETY * situation.throughput_bps.unwrap_or(0.0);
        Decision::Level(rate_level(situation.ladder_bps, budget_bps))
    }
}

/// The highest level with a rate of at most `budget_bps`, or the lowest of all.
pub fn rate_level(ladder_bps: &[u64], budget_bps: f64) -> usize {
    let affordable = ladder_bps.partition_point(|&bps| bps as f64 <= budget_bps);
    affordable.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::situation;
    use super::*;

    #[test]
    fn nine_tenths_of_the_estimate() {
        // 0.9 * 4.5 = 4.05 affords 4; 0.9 * 4.4 = 3.96 does not.
        for (throughput_bps, level) in [(4.5e6, 2), (4.4e6, 1), (0.1e6, 0), (99e6, 3)] {
            let decision = Rate.decide(&situation(5.0, throughput_bps, 0));
            assert_eq!(decision, Decision::Level(level), "{throughput_bps}");
        }
    }
}
