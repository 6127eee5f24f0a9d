//! A scheduler as it is shown.

use mpq_decision::sched::Entry;
use mpq_decision::sched::SCHEDULERS;
use serde::Serialize;

use super::controller::Parameter;

/// All there is to say of a scheduler; the fields are those of [`Entry`].
#[derive(Clone, Debug, Serialize)]
pub struct Scheduler {
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

/// Every name that --sched accepts, in the order of the lists in error messages.
pub fn all() -> impl Iterator<Item = Scheduler> {
    SCHEDULERS.iter().map(Scheduler::from)
}

impl From<&Entry> for Scheduler {
    fn from(entry: &Entry) -> Scheduler {
        Scheduler {
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
