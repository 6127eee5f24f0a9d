//! One level throughout, for baselines.

use mpq_decision::params::Param;

use super::table::Entry;
use super::{Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "fixed",
    summary: "one level throughout, given as fixed:LEVEL",
    idea: "Nothing adapts, so that what differs between two sessions is the network.",
    source: "no publication: a base to compare with",
    rule: "m = level, the top one where the ladder is shorter",
    use_when: "transports are compared at one rate",
    wrong: "it stalls wherever the network carries less than the level",
    deviations: &[],
    params: &[Param::whole(
        "level",
        [0.0, 0.0, 999.0],
        "level of every segment, 0 the lowest; fixed:2 says the same as fixed:level=2",
    )],
    new: |settings| Box::new(Fixed(settings.get("level") as usize)),
};

/// Always this level, or the top one where the ladder is shorter.
#[derive(Debug, Clone, Copy)]
struct Fixed(usize);

impl Rule for Fixed {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        Decision::Level(self.0.min(situation.top()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rule, situation};
    use super::*;

    #[test]
    fn the_level_or_the_top() {
        for (name, level) in [("fixed", 0), ("fixed:2", 2), ("fixed:level=9", 3)] {
            let decision = rule(name).decide(&situation(5.0, 1e6, 0));
            assert_eq!(decision, Decision::Level(level), "{name}");
        }
    }
}
