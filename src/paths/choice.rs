//! Policies by name, with the rules that all of them follow: `full-mesh`, `backup:metered=use,max=3`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::Entry;
use super::Policy;
use super::POLICIES;
use crate::UnknownName;

/// What interfaces are for that cost money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metered {
    /// The same as others.
    Use,
    /// Their paths stand by while any other works.
    Backup,
    /// They have no paths while there is another interface.
    Never,
}

/// The rules that hold whatever the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Paths open at a time, the first included.
    pub max_paths: usize,
    /// Paths over one interface.
    pub per_interface: usize,
    /// What metered interfaces are for.
    pub metered: Metered,
    /// Paths around a tunnel that holds the default route are allowed.
    pub around_tunnel: bool,
    /// How often a path that stands by sends something for the NATs on its way (RFC 9000, Section
    /// 10.1.2, names 30 s as what they may forget after).
    pub keep_alive: Option<Duration>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            max_paths: 8,
            per_interface: 1,
            metered: Metered::Backup,
            around_tunnel: false,
            keep_alive: Some(Duration::from_secs(25)),
        }
    }
}

/// A rule that can be set on a command line.
#[derive(Debug)]
pub struct Key {
    /// The word before `=`.
    pub name: &'static str,
    /// What may follow, the default first.
    pub values: &'static str,
    /// One line.
    pub about: &'static str,
    set: fn(&mut Rules, &str) -> Option<()>,
}

/// The rules that can be set.
pub const KEYS: &[Key] = &[
    Key {
        name: "max",
        values: "8; 1 to 64",
        about: "paths at a time",
        set: |rules, text| number(text, 64).map(|n| rules.max_paths = n),
    },
    Key {
        name: "per-interface",
        values: "1; 1 to 64",
        about:
            "paths over one interface, to further addresses of the server or of the other family",
        set: |rules, text| number(text, 64).map(|n| rules.per_interface = n),
    },
    Key {
        name: "metered",
        values: "backup, use, never",
        about: "whether interfaces that cost money stand by, are used as others, or not at all",
        set: |rules, text| {
            rules.metered = match text {
                "backup" => Metered::Backup,
                "use" => Metered::Use,
                "never" => Metered::Never,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "tunnel",
        values: "stay, around",
        about: "whether other interfaces may be used beside a VPN that holds the default route",
        set: |rules, text| {
            rules.around_tunnel = match text {
                "stay" => false,
                "around" => true,
                _ => return None,
            };
            Some(())
        },
    },
    Key {
        name: "keep-alive",
        values: "25s; 1s to 3600s, or off",
        about: "how often a path that stands by sends something, so that NATs do not forget it",
        set: |rules, text| {
            rules.keep_alive = match text.strip_suffix('s') {
                None if text == "off" => None,
                seconds => {
                    let seconds = number(seconds?, 3600)?;
                    Some(Duration::from_secs(seconds as u64))
                }
            };
            Some(())
        },
    },
];

fn number(text: &str, max: usize) -> Option<usize> {
    text.parse().ok().filter(|n| (1..=max).contains(n))
}

/// A policy and its rules, chosen once for many connections. The default is the first of
/// [`POLICIES`].
///
/// # Errors
/// Parsing fails with an [`InvalidChoice`], which says what would be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    entry: &'static Entry,
    rules: Rules,
}

impl Choice {
    /// What was chosen, from [`POLICIES`].
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A fresh policy, for one connection.
    pub(super) fn policy(&self) -> Box<dyn Policy> {
        (self.entry.new)()
    }
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            entry: &POLICIES[0],
            rules: Rules::default(),
        }
    }
}

impl FromStr for Choice {
    type Err = InvalidChoice;

    fn from_str(text: &str) -> Result<Choice, InvalidChoice> {
        let (name, list) = match text.split_once(':') {
            Some((name, list)) => (name, Some(list)),
            None => (text, None),
        };
        let Some(entry) = POLICIES.iter().find(|entry| entry.name == name) else {
            let valid = POLICIES.iter().map(|entry| entry.name);
            return Err(InvalidChoice::Name(UnknownName::new(
                "path policy",
                name,
                valid,
            )));
        };
        let mut rules = Rules::default();
        for item in list.into_iter().flat_map(|list| list.split(',')) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let Some(known) = KEYS.iter().find(|known| known.name == key) else {
                return Err(InvalidChoice::Key(key.to_owned()));
            };
            (known.set)(&mut rules, value).ok_or_else(|| InvalidChoice::Value {
                key: known,
                value: value.to_owned(),
            })?;
        }
        Ok(Choice { entry, rules })
    }
}

/// Why a text names no policy, and what would.
#[derive(Clone, Debug)]
pub enum InvalidChoice {
    /// No policy has the name.
    Name(UnknownName),
    /// No rule has the name.
    Key(String),
    /// The value is malformed, out of range, or missing.
    Value {
        /// The rule.
        key: &'static Key,
        /// What was given.
        value: String,
    },
}

impl fmt::Display for InvalidChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidChoice::Name(error) => error.fmt(f),
            InvalidChoice::Key(key) => {
                let valid: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                let valid = valid.join(", ");
                write!(f, "paths have no rule \"{key}\"; use any of: {valid}")
            }
            InvalidChoice::Value { key, value } => write!(
                f,
                "\"{value}\" is no value for {}; use one of: {}",
                key.name, key.values
            ),
        }
    }
}

impl std::error::Error for InvalidChoice {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rules() {
        let choice: Choice =
            "backup:max=3,metered=use,keep-alive=off,tunnel=around,per-interface=2"
                .parse()
                .unwrap();
        assert_eq!(choice.entry().name, "backup");
        let rules = Rules {
            max_paths: 3,
            per_interface: 2,
            metered: Metered::Use,
            around_tunnel: true,
            keep_alive: None,
        };
        assert_eq!(*choice.rules(), rules);
        for entry in POLICIES {
            let choice: Choice = entry.name.parse().unwrap();
            assert_eq!(*choice.rules(), Rules::default());
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert!(said("fullmesh").contains("full-mesh, backup, default-first, ndiffports"));
        assert!(said("backup:most=3").contains("\"most\""));
        assert!(said("backup:max=0").contains("1 to 64"));
        assert!(said("backup:metered").contains("never"));
        assert!(said("backup:keep-alive=5").contains("25s"));
    }
}
