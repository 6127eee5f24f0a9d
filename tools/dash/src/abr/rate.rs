//! The throughput rule: the highest level below a safe share of the estimate (dash.js 5).

use mpq_decision::params::Param;

use super::table::{Entry, ABANDON_LATE};
use super::{Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "rate",
    summary: "the highest level below nine tenths of the throughput",
    idea: "What the connection carried of late it will carry again, with a margin for the error.",
    source: "dash.js 5, ThroughputRule",
    rule:
        "C = min(EWMA of 3 s half-life, EWMA of 8 s half-life) over the time in which a request is \
           out; R = max{R_m: R_m <= safety C}, the lowest if there is none",
    use_when: "the buffer is short, or as a base to compare with",
    wrong: "the buffer does not count: a full one is not used to ride out a dip",
    deviations: &[
        "the throughput is that of the connection, audio and video and all paths together",
    ],
    params: &[SAFETY, ABANDON_LATE],
    new: |settings| {
        Box::new(Rate {
            safety: settings.get("safety"),
        })
    },
};

/// Share of the estimate that may be used.
pub(super) const SAFETY: Param = Param::number(
    "safety",
    [0.1, 0.9, 1.0],
    "share of the estimated throughput that may be used; dash.js has 0.9",
);

/// Picks by throughput alone; the lowest level until something was measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub safety: f64,
}

impl Rule for Rate {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let budget_bps = self.safety * situation.throughput_bps.unwrap_or(0.0);
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
    use super::super::tests::{rule, situation};
    use super::*;

    #[test]
    fn nine_tenths_of_the_estimate() {
        // 0.9 * 4.5 = 4.05 affords 4; 0.9 * 4.4 = 3.96 does not, 0.95 * 4.4 = 4.18 does.
        for (name, throughput_bps, level) in [
            ("rate", 4.5e6, 2),
            ("rate", 4.4e6, 1),
            ("rate", 0.1e6, 0),
            ("rate", 99e6, 3),
            ("rate:safety=0.95", 4.4e6, 2),
        ] {
            let decision = rule(name).decide(&situation(5.0, throughput_bps, 0));
            assert_eq!(decision, Decision::Level(level), "{name}: {throughput_bps}");
        }
    }
}
