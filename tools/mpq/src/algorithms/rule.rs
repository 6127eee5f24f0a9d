//! An adaptation rule as it is shown.

use mpq_dash::abr::Entry;
use mpq_dash::abr::RULES;
use serde::Serialize;

use super::controller::Parameter;

/// All there is to say of a rule; the fields are those of [`Entry`].
#[derive(Clone, Debug, Serialize)]
pub struct Rule {
    pub name: &'static str,
    pub summary: &'static str,
    pub idea: &'static str,
    pub source: &'static str,
    pub rule: &'static str,
    pub parameters: Vec<Parameter>,
    pub use_when: &'static str,
    pub wrong: &'static str,
    pub deviations: &'static [&'static str],
}

/// Every name that --abr accepts, in the order of the lists in error messages.
pub fn all() -> impl Iterator<Item = Rule> {
    RULES.iter().map(Rule::from)
}

impl From<&Entry> for Rule {
    fn from(entry: &Entry) -> Rule {
        Rule {
            name: entry.name,
            summary: entry.summary,
            idea: entry.idea,
            source: entry.source,
            rule: entry.rule,
            parameters: entry.params.iter().map(Parameter::from).collect(),
            use_when: entry.use_when,
            wrong: entry.wrong,
            deviations: entry.deviations,
        }
    }
}
