//! A controller as it is shown, quiche's or ours.

use mpq_decision::cc::Entry;
use mpq_decision::cc::Param;
use mpq_decision::cc::Unit;
use mpq_decision::cc::CONTROLLERS;
use serde::Serialize;

use super::per_path;

/// Whose windows a controller decides on together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// quiche's own: each path has one, which knows of no other.
    Quiche,
    /// Each path is treated by itself.
    EachPath,
    /// All paths of a connection are coupled.
    Coupled,
}

/// All there is to say of a controller; the fields are those of [`Entry`].
#[derive(Clone, Debug, Serialize)]
pub struct Controller {
    pub name: &'static str,
    pub scope: Scope,
    pub summary: &'static str,
    pub idea: &'static str,
    pub source: &'static str,
    pub formula: &'static str,
    pub parameters: Vec<Parameter>,
    pub use_when: &'static str,
    pub avoid_when: &'static str,
    pub deviations: &'static [&'static str],
}

/// A parameter; values are as on a command line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: String,
    pub default: String,
    /// "1s to 3600s", or "or linear" where it is one of several words.
    pub range: String,
    /// The words of a choice, the default among them; empty for numbers.
    pub words: &'static [&'static str],
    pub about: &'static str,
}

/// Every name that --cc accepts, in the order of the lists in error messages.
pub fn all() -> impl Iterator<Item = Controller> {
    per_path::controllers().chain(CONTROLLERS.iter().map(Controller::from))
}

impl From<&Entry> for Controller {
    fn from(entry: &Entry) -> Controller {
        Controller {
            name: entry.name,
            scope: match entry.coupled {
                true => Scope::Coupled,
                false => Scope::EachPath,
            },
            summary: entry.summary,
            idea: entry.idea,
            source: entry.source,
            formula: entry.formula,
            parameters: entry.params.iter().map(Parameter::from).collect(),
            use_when: entry.use_when,
            avoid_when: entry.avoid_when,
            deviations: entry.deviations,
        }
    }
}

impl From<&Param> for Parameter {
    fn from(param: &Param) -> Parameter {
        Parameter {
            name: param.name,
            unit: param.unit.to_string(),
            default: param.default_text(),
            range: param.range_text(),
            words: match param.unit {
                Unit::Choice(words) => words,
                _ => &[],
            },
            about: param.about,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn these_are_the_names_that_quiche_accepts() {
        let names: Vec<_> = all().map(|controller| controller.name).collect();
        let accepted: Vec<_> = quiche::cc_algorithms().map(|(name, _)| name).collect();
        assert_eq!(names, accepted);
    }
}
