//! Parameters of controllers: `name:key=value,key=value`, as in `dc-ledbat:ret=10s,zeta=1`.
//!
//! A controller declares its parameters in its [`Entry`] with unit, default and range; text becomes
//! [`Settings`] here, once for all of them. Whatever a paper leaves open is such a parameter.

use std::fmt;
use std::str::FromStr;

use super::Controller;
use super::Entry;
use super::Options;
use super::CONTROLLERS;
use crate::UnknownName;

/// How a parameter's value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    /// A number without a unit: `zeta=1`.
    Number,
    /// A number of packets of the path's largest size: `gamma=30`.
    Packets,
    /// A time with its unit, one of `us`, `ms` and `s`: `ret=10s`. The value is in seconds.
    Time,
    /// One of these words: `f=sqrt`. The value is the word's index.
    Choice(&'static [&'static str]),
}

/// `number`, `packets`, `time` or `word`.
impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Unit::Number => "number",
            Unit::Packets => "packets",
            Unit::Time => "time",
            Unit::Choice(_) => "word",
        })
    }
}

/// One parameter of a controller.
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
    pub(super) const fn number(
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
    pub(super) const fn packets(name: &'static str, range: [f64; 3], about: &'static str) -> Param {
        Param {
            unit: Unit::Packets,
            ..Param::number(name, range, about)
        }
    }

    /// A parameter that is a time; the range is in seconds.
    pub(super) const fn time(name: &'static str, range: [f64; 3], about: &'static str) -> Param {
        Param {
            unit: Unit::Time,
            ..Param::number(name, range, about)
        }
    }

    /// A choice between words; the first is the default.
    pub(super) const fn choice(
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
            Unit::Number | Unit::Packets => format!("{value}"),
            Unit::Time if value >= 1.0 => format!("{value}s"),
            Unit::Time if value >= 1e-3 => format!("{}ms", rounded(value * 1e3)),
            Unit::Time => format!("{}us", rounded(value * 1e6)),
            Unit::Choice(words) => words[value as usize].to_owned(),
        }
    }
}

/// The parameter of every coupled controller that goes by losses: a path whose slow start an unlucky
/// loss has ended may go on with it ([`Options::re_entry`]).
pub(super) const RE_ENTRY: Param = Param::choice(
    "re-entry",
    &["on", "off"],
    "whether a path that an unlucky loss stopped in slow start goes on while it shows no queue",
);

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

/// A value for each parameter of one controller.
#[derive(Clone, Debug)]
pub struct Settings {
    params: &'static [Param],
    values: Vec<f64>,
}

impl Settings {
    /// The defaults of `params`.
    pub fn defaults(params: &'static [Param]) -> Settings {
        Settings {
            params,
            values: params.iter().map(|param| param.default).collect(),
        }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.params.iter().position(|param| param.name == name)
    }

    /// The value of parameter `name`; seconds for times.
    ///
    /// # Panics
    /// If the controller declares no such parameter.
    pub fn get(&self, name: &str) -> f64 {
        let index = self.index(name).expect("a parameter of the entry");
        self.values[index]
    }

    /// The word that parameter `name` is set to.
    ///
    /// # Panics
    /// If the controller declares no such choice.
    pub fn word(&self, name: &str) -> &'static str {
        let index = self.index(name).expect("a parameter of the entry");
        match self.params[index].unit {
            Unit::Choice(words) => words[self.values[index] as usize],
            _ => panic!("{name} is not a choice"),
        }
    }
}

/// A controller and a value for each of its parameters, chosen once for many connections.
///
/// Written as a name, or as a name and parameters: `lia`, `dc-ledbat:ret=10s,zeta=1`. What is not
/// given keeps its default.
///
/// # Errors
/// Parsing fails with an [`InvalidChoice`], which lists what would be accepted: the names, or the
/// controller's parameters with their ranges.
#[derive(Clone, Debug)]
pub struct Choice {
    entry: &'static Entry,
    settings: Settings,
}

impl Choice {
    /// What was chosen, from [`CONTROLLERS`].
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// What the shared machinery does for it, besides what the transport decides.
    pub fn options(&self) -> Options {
        let declared = self.settings.index(RE_ENTRY.name).is_some();
        Options {
            re_entry: declared && self.settings.word(RE_ENTRY.name) == "on",
            ..Options::default()
        }
    }

    /// A fresh controller, for one connection. Put it into a [`Group`](super::Group) with
    /// [`Choice::options`].
    pub fn controller(&self) -> Box<dyn Controller> {
        (self.entry.new)(&self.settings)
    }
}

impl FromStr for Choice {
    type Err = InvalidChoice;

    fn from_str(text: &str) -> Result<Choice, InvalidChoice> {
        let (name, list) = match text.split_once(':') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let Some(entry) = CONTROLLERS.iter().find(|entry| entry.name == name) else {
            let valid = CONTROLLERS.iter().map(|entry| entry.name);
            let error = UnknownName::new("congestion controller", name, valid);
            return Err(InvalidChoice::Name(error));
        };
        let settings = match list {
            Some(list) => settings_of(entry, list)?,
            None => Settings::defaults(entry.params),
        };
        Ok(Choice { entry, settings })
    }
}

/// Why a text names no controller, and what would.
#[derive(Clone, Debug, PartialEq)]
pub enum InvalidChoice {
    /// No controller has the name.
    Name(UnknownName),
    /// The controller has no parameter of that name.
    Key {
        /// The controller.
        controller: &'static str,
        /// What was given.
        key: String,
        /// What it has.
        params: &'static [Param],
    },
    /// The value is malformed, out of range, or missing.
    Value {
        /// The controller.
        controller: &'static str,
        /// The parameter, with its range.
        param: Param,
        /// What was given.
        value: String,
    },
    /// The parameter was given twice.
    Twice {
        /// The controller.
        controller: &'static str,
        /// The parameter.
        key: &'static str,
    },
}

impl fmt::Display for InvalidChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidChoice::Name(error) => error.fmt(f),
            InvalidChoice::Key {
                controller,
                key,
                params: [],
            } => write!(f, "{controller} has no parameters; leave out \"{key}\""),
            InvalidChoice::Key {
                controller,
                key,
                params,
            } => {
                let params: Vec<_> = params.iter().map(Param::to_string).collect();
                let valid = params.join(", ");
                write!(
                    f,
                    "{controller} has no parameter \"{key}\"; use any of: {valid}"
                )
            }
            InvalidChoice::Value {
                controller,
                param,
                value,
            } => write!(
                f,
                "\"{value}\" is no value for {} of {controller}; use one like {param}",
                param.name
            ),
            InvalidChoice::Twice { controller, key } => {
                write!(f, "{controller} got \"{key}\" twice; give it once")
            }
        }
    }
}

impl std::error::Error for InvalidChoice {}

/// The parameters of `entry` that `list` gives, `key=value,key=value`; the others at their defaults.
pub(super) fn settings_of(entry: &'static Entry, list: &str) -> Result<Settings, InvalidChoice> {
    let mut settings = Settings::defaults(entry.params);
    let mut given = vec![false; entry.params.len()];
    for item in list.split(',') {
        let (key, value) = item.split_once('=').unwrap_or((item, ""));
        let Some(index) = settings.index(key) else {
            return Err(InvalidChoice::Key {
                controller: entry.name,
                key: key.to_owned(),
                params: entry.params,
            });
        };
        let param = &entry.params[index];
        settings.values[index] = param.parse(value).ok_or(InvalidChoice::Value {
            controller: entry.name,
            param: *param,
            value: value.to_owned(),
        })?;
        if std::mem::replace(&mut given[index], true) {
            return Err(InvalidChoice::Twice {
                controller: entry.name,
                key: param.name,
            });
        }
    }
    Ok(settings)
}

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
    }

    #[test]
    fn a_parameter_prints_as_it_is_written() {
        assert_eq!(TIME.to_string(), "ret=10s (1s to 3600s)");
        assert_eq!(WORD.to_string(), "f=sqrt (or linear)");
        let short = Param::time("margin", [1e-4, 2e-3, 0.1], "a short time");
        assert_eq!(short.to_string(), "margin=2ms (100us to 100ms)");
    }
}
