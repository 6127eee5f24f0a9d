//! Policies by name, with the rules that all of them follow: `full-mesh`, `backup:metered=use,max=3`.

use std::time::Duration;

use super::Entry;
use super::Policy;
use super::POLICIES;
use crate::params::Listed;
use crate::params::Param;
use crate::params::Settings;

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
    /// After how long of silence a path sends something for the NATs on its way.
    pub keep_alive: Option<Duration>,
}

/// The parameters of every policy.
pub const RULES: &[Param] = &[
    Param::number("max", [1.0, 8.0, 64.0], "paths at a time"),
    Param::number(
        "per-interface",
        [1.0, 1.0, 64.0],
        "paths over one interface, to further addresses of the server or of the other family",
    ),
    Param::choice(
        "metered",
        &["backup", "use", "never"],
        "whether interfaces that cost money stand by, are used as others, or not at all",
    ),
    Param::choice(
        "tunnel",
        &["stay", "around"],
        "whether other interfaces may be used beside a VPN that holds the default route",
    ),
    // RFC 9000, Section 10.1.2, names 30 s as what NATs may forget after.
    Param::time(
        "keep-alive",
        [0.0, 25.0, 3600.0],
        "no path is silent for longer in a connection that is used, so that NATs keep it; 0s: never",
    ),
];

impl From<&Settings> for Rules {
    fn from(settings: &Settings) -> Rules {
        let keep_alive = Duration::from_secs_f64(settings.get("keep-alive"));
        Rules {
            max_paths: settings.get("max") as usize,
            per_interface: settings.get("per-interface") as usize,
            metered: match settings.word("metered") {
                "use" => Metered::Use,
                "never" => Metered::Never,
                _ => Metered::Backup,
            },
            around_tunnel: settings.word("tunnel") == "around",
            keep_alive: (!keep_alive.is_zero()).then_some(keep_alive),
        }
    }
}

impl Listed for Entry {
    const KIND: &'static str = "path policy";
    const TABLE: &'static [Entry] = POLICIES;

    fn name(&self) -> &'static str {
        self.name
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// A policy from [`POLICIES`] and its rules: `full-mesh`, `backup:metered=use,max=3`.
pub type Choice = crate::params::Choice<Entry>;

impl Choice {
    /// The rules.
    pub fn rules(&self) -> Rules {
        Rules::from(self.settings())
    }

    /// A fresh policy, for one connection.
    pub(super) fn policy(&self) -> Box<dyn Policy> {
        (self.entry().new)(self.settings())
    }
}

/// The first policy, with the rules' defaults.
impl Default for Choice {
    fn default() -> Self {
        Choice::defaults(&POLICIES[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_rules() {
        let choice: Choice = "backup:max=3,metered=use,keep-alive=0s,tunnel=around,per-interface=2"
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
        assert_eq!(choice.rules(), rules);
        for entry in POLICIES {
            let choice: Choice = entry.name.parse().unwrap();
            assert_eq!(choice.rules(), Choice::default().rules());
            assert_eq!(entry.params[..RULES.len()], *RULES);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert!(said("fullmesh").contains("full-mesh, backup, default-first, ndiffports, pcdc"));
        assert!(said("backup:most=3").contains("\"most\""));
        assert!(said("backup:max=0").contains("1 to 64"));
        assert!(said("backup:metered").contains("never"));
        assert!(said("backup:keep-alive=5").contains("25s"));
    }
}
