//! The rules by name, with parameters: `mpc`, `mpc:horizon=3`, `rate:safety=0.8,abandon=on`.

use mpq_decision::params::{self, Listed, Param, Settings};

use super::{
    bba0, bola, dynamic, fixed, l2a, mpc, rate, Abandon, Arrival, Decision, Rule, Situation,
};

pub use mpq_decision::params::InvalidChoice;

/// What is known of a rule.
#[derive(Debug)]
pub struct Entry {
    /// The name on command lines and in scenarios.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it tries to do, in a sentence or two.
    pub idea: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// How it decides, in the symbols of the source, steps parted by "; ".
    pub rule: &'static str,
    /// When it is the right choice.
    pub use_when: &'static str,
    /// What it gets wrong.
    pub wrong: &'static str,
    /// Where it departs from the source, or what it takes for what the source leaves open.
    pub deviations: &'static [&'static str],
    /// Its parameters.
    pub params: &'static [Param],
    /// Makes it for one session.
    pub new: fn(&Settings) -> Box<dyn Rule>,
}

impl Entry {
    /// The file that has it, from the project's root.
    pub fn file(&self) -> String {
        format!("tools/dash/src/abr/{}.rs", self.name)
    }
}

/// Every rule there is; the first is the default.
pub const RULES: &[Entry] = &[
    rate::ENTRY,
    bba0::ENTRY,
    bola::ENTRY,
    dynamic::ENTRY,
    mpc::ENTRY,
    l2a::ENTRY,
    fixed::ENTRY,
];

impl Listed for Entry {
    const KIND: &'static str = "adaptation rule";
    const TABLE: &'static [Entry] = RULES;

    fn name(&self) -> &'static str {
        self.name
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// A rule with a value for each of its parameters.
pub type Choice = params::Choice<Entry>;

/// Whether a segment that comes too slowly is given up for a lower level, see
/// [`should_abandon`](super::should_abandon). A parameter of every rule that has levels to choose.
pub(super) const ABANDON: Param = Param::choice(
    "abandon",
    &["off", "on", "late"],
    "give up a segment that comes too slowly, for a lower level: on as dash.js (AbandonRequestsRule), late only where the buffer \
     would run out",
);

/// The same where it is done unless told otherwise.
pub(super) const ABANDON_ON: Param =
    Param::choice("abandon", &["on", "off", "late"], ABANDON.about);

/// The same where it is done only for what would come too late, unless told otherwise.
pub(super) const ABANDON_LATE: Param =
    Param::choice("abandon", &["late", "on", "off"], ABANDON.about);

/// Reads a choice: `NAME`, `NAME:KEY=VALUE,...`, and `fixed:LEVEL`.
///
/// # Errors
/// The text names no rule, or a parameter or value that the rule does not have; the error says what
/// would be accepted.
pub fn choose(text: &str) -> Result<Choice, InvalidChoice> {
    match text.strip_prefix("fixed:") {
        Some(level) if level.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("fixed:level={level}").parse()
        }
        _ => text.parse(),
    }
}

/// Makes a rule from its name and parameters, e.g. `mpc`, `bola:target=30s` or `fixed:0`.
///
/// # Errors
/// As those of [`choose`].
pub fn by_name(text: &str) -> Result<Box<dyn Rule>, InvalidChoice> {
    let choice = choose(text)?;
    let settings = choice.settings();
    let rule = (choice.entry().new)(settings);
    let word = match settings.has(ABANDON.name) {
        true => settings.word(ABANDON.name),
        false => "off",
    };
    Ok(match word {
        "on" => Box::new(Abandoning(rule, Abandon::Slow)),
        "late" => Box::new(Abandoning(rule, Abandon::Late)),
        _ => rule,
    })
}

/// A rule that lets go of what comes too slowly.
#[derive(Debug)]
struct Abandoning(Box<dyn Rule>, Abandon);

impl Rule for Abandoning {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        self.0.decide(situation)
    }

    fn on_segment(&mut self, arrival: &Arrival) {
        self.0.on_segment(arrival);
    }

    fn on_stall(&mut self) {
        self.0.on_stall();
    }

    fn abandons(&self) -> Abandon {
        self.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_defaults_and_what_is_shown_can_be_given() {
        for entry in RULES {
            assert!(by_name(entry.name).is_ok(), "{}", entry.name);
            for param in entry.params {
                let text = format!("{}:{}={}", entry.name, param.name, param.default_text());
                let choice = choose(&text).unwrap();
                assert_eq!(choice.settings().get(param.name), param.default, "{text}");
                for bound in [param.min, param.max] {
                    assert!((param.min..=param.max).contains(&bound), "{text}");
                }
            }
            for text in [
                entry.summary,
                entry.idea,
                entry.source,
                entry.rule,
                entry.use_when,
                entry.wrong,
            ] {
                assert!(text.len() > 10 && !text.ends_with('\n'), "{}", entry.name);
            }
        }
    }

    #[test]
    fn a_level_may_stand_alone() {
        let level = |text| choose(text).unwrap().settings().get("level");
        assert_eq!(level("fixed:2"), 2.0);
        assert_eq!(level("fixed:level=2"), 2.0);
        assert_eq!(level("fixed"), 0.0);
    }

    #[test]
    fn abandonment_is_a_parameter() {
        for (text, which) in [
            ("rate", Abandon::Late),
            ("rate:abandon=off", Abandon::Never),
            ("rate:abandon=on", Abandon::Slow),
            ("mpc:horizon=3,abandon=on", Abandon::Slow),
            ("l2a", Abandon::Late),
            ("bola", Abandon::Never),
            ("dynamic", Abandon::Slow),
            ("dynamic:abandon=off", Abandon::Never),
            ("dynamic:abandon=late", Abandon::Late),
            ("fixed:0", Abandon::Never),
        ] {
            assert_eq!(by_name(text).unwrap().abandons(), which, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right() {
        let all: Vec<_> = RULES.iter().map(|entry| entry.name).collect();
        for name in ["", "Rate", "best"] {
            let error = by_name(name).unwrap_err().to_string();
            assert!(error.contains(&all.join(", ")), "{error}");
        }
        for (text, said) in [
            ("fixed:", "level=0 (0 to"),
            ("fixed:-1", "level=0 (0 to"),
            ("fixed:level=1.5", "level=0 (0 to"),
            ("rate:safety=2", "safety=0.9 (0.1 to 1)"),
            ("mpc:horizon=0", "horizon=5 (1 to 8)"),
            ("mpc:horizon=2.5", "horizon=5 (1 to 8)"),
            ("bola:abandon=maybe", "abandon=off (or on, late)"),
            ("bola:target=20", "target=18s"),
        ] {
            let error = by_name(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
