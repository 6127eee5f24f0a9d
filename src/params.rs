//! Algorithms by name with their parameters: `name:key=value,key=value`, as in
//! `dc-ledbat:ret=10s,zeta=1` or `ecf:tail=off`.
//!
//! A controller or scheduler declares its parameters in its entry with unit, default and range;
//! text becomes a [`Choice`] here, once for all of them. Whatever a paper leaves open is such a
//! parameter.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;

/// How a parameter's value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// A number without a unit: `zeta=1`.
    Number,
    /// A number of packets of the path's largest size: `gamma=30`.
    Packets,
    /// A number of things that do not come in parts: `horizon=5`.
    Whole,
    /// A time with its unit, one of `us`, `ms` and `s`: `ret=10s`. The value is in seconds.
    Time,
    /// One of these words: `f=sqrt`. The value is the word's index.
    Choice(&'static [&'static str]),
}

/// `number`, `packets`, `whole number`, `time` or `word`.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Unit::Number => "number",
            Unit::Packets => "packets",
            Unit::Whole => "whole number",
            Unit::Time => "time",
            Unit::Choice(_) => "word",
        })
    }
}

/// One parameter of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// The key before `=`.
    pub name: &'static str,
    /// How the value is written.
    pub unit: Unit,
    /// The value unless another one is given; seconds for times.
    pub default: f64,
    /// The least value allowed.
    pub min: f64,
    /// The greatest value allowed.
    pub max: f64,
    /// One line: what it does, and where the default comes from.
    pub about: &'static str,
}

impl Param {
    /// A parameter without a unit.
    pub const fn number(
        name: &'static str,
        [min, default, max]: [f64; 3],
        about: &'static str,
    ) -> Param {
        Param {
            name,
            unit: Unit::Number,
            default,
            min,
            max,
            about,
        }
    }

    /// A parameter in packets.
    pub const fn packets(name: &'static str, range: [f64; 3], about: &'static str) -> Param {
        Param {
            unit: Unit::Packets,
            ..Param::number(name, range, about)
        }
    }

    /// A parameter that is a whole number.
    pub const fn whole(name: &'static str, range: [f64; 3], about: &'static str) -> Param {
        Param {
            unit: Unit::Whole,
            ..Param::number(name, range, about)
        }
    }

    /// A parameter that is a time; the range is in seconds.
    pub const fn time(name: &'static str, range: [f64; 3], about: &'static str) -> Param {
        Param {
            unit: Unit::Time,
            ..Param::number(name, range, about)
        }
    }

    /// A choice between words; the first is the default.
    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        about: &'static str,
    ) -> Param {
        Param {
            unit: Unit::Choice(words),
            ..Param::number(name, [0.0, 0.0, (words.len() - 1) as f64], about)
        }
    }

    /// What `text` means for this parameter, unless it is malformed or out of range.
    fn parse(&self, text: &str) -> Option<f64> {
        let value = match self.unit {
            Unit::Number | Unit::Packets => text.parse().ok()?,
            Unit::Whole => f64::from(text.parse::<u32>().ok()?),
            Unit::Time => seconds(text)?,
            Unit::Choice(words) => words.iter().position(|word| *word == text)? as f64,
        };
        (self.min..=self.max).contains(&value).then_some(value)
    }

    /// The default as it would be written: `10s`, `sqrt`.
    pub fn default_text(&self) -> String {
        self.write(self.default)
    }

    /// What else may be written: `1s to 3600s`, `or linear`.
    pub fn range_text(&self) -> String {
        match self.unit {
            Unit::Choice(words) => {
                let default = self.default as usize;
                let others = words.iter().enumerate().filter(|(i, _)| *i != default);
                let others: Vec<_> = others.map(|(_, word)| *word).collect();
                format!("or {}", others.join(", "))
            }
            _ => format!("{} to {}", self.write(self.min), self.write(self.max)),
        }
    }

    /// `value` as it would be written on a command line.
    fn write(&self, value: f64) -> String {
        match self.unit {
            Unit::Number | Unit::Packets | Unit::Whole => format!("{value}"),
            Unit::Time if value >= 1.0 || value == 0.0 => format!("{value}s"),
            Unit::Time if value >= 1e-3 => format!("{}ms", rounded(value * 1e3)),
            Unit::Time => format!("{}us", rounded(value * 1e6)),
            Unit::Choice(words) => words[value as usize].to_owned(),
        }
    }
}

/// Without the error that a change of the unit makes.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// `10s`, `1.5ms` or `250us` in seconds.
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]
        .into_iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))?;
    Some(number.parse::<f64>().ok()? * unit)
}

/// `ret=10s (1s to 3600s)` or `f=sqrt (or linear)`.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let default = self.default_text();
        write!(f, "{}={default} ({})", self.name, self.range_text())
    }
}

/// The most parameters that an algorithm has.
const MAX_PARAMS: usize = 16;

/// A value for each parameter of one algorithm. Held inline, so that choices can be copied.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    params: &'static [Param],
    values: [f64; MAX_PARAMS],
}

impl Settings {
    /// The defaults of `params`.
    ///
    /// # Panics
    /// If there are more than 16.
    pub fn defaults(params: &'static [Param]) -> Settings {
        let mut values = [0.0; MAX_PARAMS];
        for (value, param) in values[..params.len()].iter_mut().zip(params) {
            *value = param.default;
        }
        Settings { params, values }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }

    /// Whether there is a parameter called `name`.
    pub fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// The value of parameter `name`; seconds for times.
    ///
    /// # Panics
    /// If the algorithm declares no such parameter.
    pub fn get(&self, name: &str) -> f64 {
        let index = self.index(name).expect("a parameter of the entry");
        self.values[index]
    }

    /// The word that parameter `name` is set to.
    ///
    /// # Panics
    /// If the algorithm declares no such choice.
    pub fn word(&self, name: &str) -> &'static str {
        let index = self.index(name).expect("a parameter of the entry");
        match self.params[index].unit {
            Unit::Choice(words) => words[self.values[index] as usize],
            _ => panic!("{name} is not a choice"),
        }
    }
}

/// An algorithm in a table from which one is chosen by name: what [`Choice`] needs of its entry.
pub trait Listed: fmt::Debug + Sized + 'static {
    /// What the algorithms of the table are, for error messages.
    const KIND: &'static str;

    /// Every algorithm there is, the default first if there is one.
    const TABLE: &'static [Self];

    /// The name in configuration files and on command lines.
    fn name(&self) -> &'static str;

    /// Its parameters.
    fn params(&self) -> &'static [Param];
}

/// An algorithm and a value for each of its parameters, chosen once for many connections.
///
/// Written as a name, or as a name and parameters: `lia`, `dc-ledbat:ret=10s,zeta=1`. What is not
/// given keeps its default.
///
/// # Errors
/// Parsing fails with an [`InvalidChoice`], which lists what would be accepted: the names, or the
/// algorithm's parameters with their ranges.
#[derive(Debug)]
pub struct Choice<E: 'static> {
    entry: &'static E,
    settings: Settings,
}

// Derived, these would ask the same of `E`.
impl<E> Clone for Choice<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Choice<E> {}

impl<E: Listed> Choice<E> {
    /// `entry` with its parameters at their defaults.
    pub fn defaults(entry: &'static E) -> Self {
        Choice {
            entry,
            settings: Settings::defaults(entry.params()),
        }
    }

    /// What was chosen.
    pub fn entry(&self) -> &'static E {
        self.entry
    }

    /// The values of its parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets what `list` gives, `key=value,key=value`.
    fn set(&mut self, list: &str) -> Result<(), InvalidChoice> {
        let (algorithm, params) = (self.entry.name(), self.entry.params());
        let mut given = [false; MAX_PARAMS];
        for item in list.split(',') {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let Some(index) = self.settings.index(key) else {
                return Err(InvalidChoice::Key {
                    algorithm,
                    key: key.to_owned(),
                    params,
                });
            };
            let param = &params[index];
            self.settings.values[index] = param.parse(value).ok_or(InvalidChoice::Value {
                algorithm,
                param: *param,
                value: value.to_owned(),
            })?;
            if std::mem::replace(&mut given[index], true) {
                return Err(InvalidChoice::Twice {
                    algorithm,
                    key: param.name,
                });
            }
        }
        Ok(())
    }
}

impl<E: Listed> FromStr for Choice<E> {
    type Err = InvalidChoice;

    fn from_str(text: &str) -> Result<Self, InvalidChoice> {
        let (name, list) = match text.split_once(':') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let Some(entry) = E::TABLE.iter().find(|entry| entry.name() == name) else {
            let valid = E::TABLE.iter().map(E::name);
            return Err(InvalidChoice::Name(UnknownName::new(E::KIND, name, valid)));
        };
        let mut choice = Choice::defaults(entry);
        match list {
            Some(list) => choice.set(list).map(|()| choice),
            None => Ok(choice),
        }
    }
}

/// Why a text chooses nothing, and what would.
#[derive(Clone, Debug, PartialEq)]
pub enum InvalidChoice {
    /// Nothing has the name.
    Name(UnknownName),
    /// It has no parameter of that name.
    Key {
        /// Which algorithm.
        algorithm: &'static str,
        /// What was given.
        key: String,
        /// What it has.
        params: &'static [Param],
    },
    /// The value is malformed, out of range, or missing.
    Value {
        /// Which algorithm.
        algorithm: &'static str,
        /// The parameter, with its range.
        param: Param,
        /// What was given.
        value: String,
    },
    /// The parameter was given twice.
    Twice {
        /// Which algorithm.
        algorithm: &'static str,
        /// The parameter.
        key: &'static str,
    },
}

impl fmt::Display for InvalidChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidChoice::Name(error) => error.fmt(f),
            InvalidChoice::Key {
                algorithm,
                key,
                params: [],
            } => write!(f, "{algorithm} has no parameters; leave out \"{key}\""),
            InvalidChoice::Key {
                algorithm,
                key,
                params,
            } => {
                let params: Vec<_> = params.iter().map(Param::to_string).collect();
                let valid = params.join(", ");
                write!(
                    f,
                    "{algorithm} has no parameter \"{key}\"; use any of: {valid}"
                )
            }
            InvalidChoice::Value {
                algorithm,
                param,
                value,
            } => write!(
                f,
                "\"{value}\" is no value for {} of {algorithm}; use one like {param}",
                param.name
            ),
            InvalidChoice::Twice { algorithm, key } => {
                write!(f, "{algorithm} got \"{key}\" twice; give it once")
            }
        }
    }
}

impl std::error::Error for InvalidChoice {}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Param = Param::time("ret", [1.0, 10.0, 3600.0], "a time");
    const WORD: Param = Param::choice("f", &["sqrt", "linear"], "a word");

    #[test]
    fn values_have_units() {
        assert_eq!(TIME.parse("10s"), Some(10.0));
        assert_eq!(TIME.parse("2500ms"), Some(2.5));
        assert_eq!(TIME.parse("1500000us"), Some(1.5));
        for malformed in ["10", "s", "", "10h", "nans", "-3s", "0.5s", "infs"] {
            assert_eq!(TIME.parse(malformed), None, "{malformed}");
        }
        let number = Param::number("zeta", [0.1, 1.0, 10.0], "a number");
        assert_eq!(number.parse("0.5"), Some(0.5));
        assert_eq!(number.parse("nan"), None);
        assert_eq!(number.parse("11"), None);
        assert_eq!(WORD.parse("linear"), Some(1.0));
        assert_eq!(WORD.parse("1"), None);
        assert_eq!(WORD.max, 1.0);
        let whole = Param::whole("n", [1.0, 5.0, 8.0], "a count");
        assert_eq!(whole.parse("8"), Some(8.0));
        for malformed in ["0", "9", "2.5", "-1", "1e0", ""] {
            assert_eq!(whole.parse(malformed), None, "{malformed}");
        }
        let packets = Param::packets("w", [1.0, 2.0, 8.0], "a window");
        assert_eq!(
            (packets.unit, packets.parse("8")),
            (Unit::Packets, Some(8.0))
        );
    }

    #[test]
    fn a_parameter_prints_as_it_is_written() {
        assert_eq!(TIME.to_string(), "ret=10s (1s to 3600s)");
        assert_eq!(WORD.to_string(), "f=sqrt (or linear)");
        let short = Param::time("margin", [1e-4, 2e-3, 0.1], "a short time");
        assert_eq!(short.to_string(), "margin=2ms (100us to 100ms)");
    }

    #[test]
    fn a_parameter_that_is_not_there() {
        let settings = Settings::defaults(&[TIME, WORD]);
        assert!(settings.has("ret") && settings.has("f") && !settings.has("g"));
    }
}
