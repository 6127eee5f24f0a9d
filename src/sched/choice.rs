//! Schedulers by name: `min-rtt`, or `min-rtt:tail=off`.

use std::fmt;
use std::str::FromStr;

use super::Chosen;
use super::Entry;
use super::SCHEDULERS;
use crate::UnknownName;

/// What follows a name to allow copies of the tail, which is the default, or not.
const TAIL: [(&str, bool); 2] = [("tail=on", true), ("tail=off", false)];

/// A scheduler by name, and whether it may order copies of the tail. The default is the first of
/// [`SCHEDULERS`].
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    entry: &'static Entry,
    tail: bool,
}

impl Choice {
    /// A fresh scheduler, for one connection.
    pub fn scheduler(&self) -> Chosen {
        Chosen {
            kind: (self.entry.new)(),
            tail: self.tail,
        }
    }
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            entry: &SCHEDULERS[0],
            tail: true,
        }
    }
}

impl FromStr for Choice {
    type Err = InvalidChoice;

    fn from_str(text: &str) -> Result<Choice, InvalidChoice> {
        let (name, param) = match text.split_once(':') {
            Some((name, param)) => (name, Some(param)),
            None => (text, None),
        };
        let Some(entry) = SCHEDULERS.iter().find(|entry| entry.name == name) else {
            let valid = SCHEDULERS.iter().map(|entry| entry.name);
            return Err(InvalidChoice::Name(UnknownName::new(
                "scheduler",
                name,
                valid,
            )));
        };
        let tail = match param {
            None => true,
            Some(given) => match TAIL.iter().find(|(word, _)| *word == given) {
                Some((_, tail)) => *tail,
                None => {
                    return Err(InvalidChoice::Param {
                        scheduler: entry.name,
                        given: given.to_owned(),
                    })
                }
            },
        };
        Ok(Choice { entry, tail })
    }
}

/// The scheduler called `name`, fresh for one connection.
///
/// # Errors
/// [`InvalidChoice`] says what would be accepted.
pub fn by_name(name: &str) -> Result<Chosen, InvalidChoice> {
    Ok(name.parse::<Choice>()?.scheduler())
}

/// Why a text names no scheduler, and what would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidChoice {
    /// No scheduler has the name.
    Name(UnknownName),
    /// What follows the name is no parameter.
    Param {
        /// The scheduler.
        scheduler: &'static str,
        /// What was given.
        given: String,
    },
}

impl fmt::Display for InvalidChoice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidChoice::Name(error) => error.fmt(f),
            InvalidChoice::Param { scheduler, given } => write!(
                f,
                "{scheduler} has no parameter \"{given}\"; use tail=on or tail=off"
            ),
        }
    }
}

impl std::error::Error for InvalidChoice {}
