//! The path manager: which paths exist, and what each is for.
//!
//! ```text
//!   addresses, routes, interfaces   path events        timers
//!                 \                      |             /
//!                  +--- Manager (this module) --------+
//!                       |  rules of all: back-off, flaps, tunnels, budgets
//!                       |  Policy: which of the possible paths, and for what
//!                       v
//!            Action: open, abandon, set the status, keep alive
//! ```
//!
//! A driver reports facts as [`Event`]s and carries out [`Action`]s; it decides nothing. Only a
//! client opens paths (RFC 10069, MP-030), so a manager runs there: in the tools' driver and in the
//! simulator.
//!
//! To add a policy: one file here, one line in [`POLICIES`].

mod attempts;
mod choice;
mod facts;
mod handshake;
mod impact;
mod keep_alive;
mod manager;
mod unused;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Instant;

use crate::params::Param;
use crate::params::Settings;
use crate::registry::PathId;
use crate::registry::Status;

pub use crate::params::InvalidChoice;
pub use attempts::Attempts;
pub use attempts::Candidate;
pub use attempts::Progress;
pub use attempts::Step;
pub use attempts::ADDRESS_DELAY;
pub use attempts::LEAST_DELAY;
pub use attempts::LINK_DELAY;
pub use choice::Choice;
pub use choice::Metered;
pub use choice::Rules;
pub use choice::RULES;
pub use facts::Event;
pub use facts::Local;
pub use facts::LocalAddr;
pub use facts::OpenError;
pub use facts::Pair;
pub use facts::RemoteSource;
pub use facts::Sample;
pub use facts::Traffic;
pub use manager::Manager;
pub use manager::View;
pub use unused::Unused;
pub use unused::Why;

/// What the driver is to do. Doing it twice is the same as doing it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a path; answered by [`Event::Opened`] or [`Event::OpenFailed`].
    Open(Pair),
    /// Move what is in flight on the path to others: its address is gone.
    Suspend(PathId),
    /// Abandon the path; answered by [`Event::Abandoned`] or [`Event::AbandonRefused`].
    Abandon {
        /// The path.
        path: PathId,
        /// Why.
        reason: Reason,
    },
    /// Set our status of the path and tell the peer.
    SetStatus {
        /// The path.
        path: PathId,
        /// For what it may be used.
        status: Status,
    },
    /// Send something on the path, so that the NATs on its way do not forget it.
    KeepAlive(PathId),
    /// Say what was delivered so far: answered by [`Event::Sample`].
    Sample,
    /// Say what each path has carried so far: answered by [`Event::Traffic`].
    Traffic,
}

/// Why a path is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its local address is gone (PATH_UNSTABLE_OR_POOR).
    AddressGone,
    /// It works, and is not wanted any more (APPLICATION_ABANDON_PATH).
    NotWanted,
}

/// Chooses among the paths that are possible. Asked on events and timers, never per packet.
pub trait Policy: Debug + Send + Sync {
    /// Whether a path over `pair` is to be opened, or why not, in words that go with its interface:
    /// "stands by".
    fn wants(&self, view: &View<'_>, pair: &Pair) -> Result<(), &'static str>;

    /// Whether the path, which is open, is to stay.
    fn keeps(&self, view: &View<'_>, path: PathId) -> bool {
        let _ = (view, path);
        true
    }

    /// Whether the path is to carry data; if not, it stands by.
    fn carries(&self, view: &View<'_>, path: PathId) -> bool {
        let _ = (view, path);
        true
    }

    /// Whether the links carry data side by side, so that the handshake may take any of them. False:
    /// it takes the most preferred one that works.
    fn races(&self) -> bool {
        false
    }

    /// Whether several paths may have the same addresses, and differ in our port.
    fn repeats_pairs(&self) -> bool {
        false
    }

    /// How many paths an interface may have.
    fn per_interface(&self, rules: &Rules) -> usize {
        rules.per_interface
    }

    /// Something happened, or [`Policy::look_at`] came; the questions above follow.
    fn look(&mut self, now: Instant, view: &View<'_>) {
        let _ = (now, view);
    }

    /// When it wants to look although nothing happened.
    fn look_at(&self) -> Option<Instant> {
        None
    }

    /// When it wants to know what was delivered.
    fn sample_at(&self) -> Option<Instant> {
        None
    }

    /// What was delivered until `now`.
    fn on_sample(&mut self, now: Instant, view: &View<'_>, sample: Sample) {
        let _ = (now, view, sample);
    }

    /// An earlier connection found the impact factor `omega` between these addresses.
    fn recall(&mut self, local: IpAddr, remote: SocketAddr, omega: f64) {
        let _ = (local, remote, omega);
    }

    /// The impact factor of a path, if it was measured or recalled.
    fn impact(&self, view: &View<'_>, path: PathId) -> Option<f64> {
        let _ = (view, path);
        None
    }
}

/// A policy that can be chosen by name.
#[derive(Debug)]
pub struct Entry {
    /// The name on command lines and in scenarios.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Its parameters: [`RULES`], and what may follow them.
    pub params: &'static [Param],
    /// Makes it, for one connection.
    pub new: fn(&Settings) -> Box<dyn Policy>,
}

table_of_files! {
    /// Every policy there is, the default first.
    pub const POLICIES: &[Entry] = [
        full_mesh,
        backup,
        default_first,
        ndiffports,
        pcdc,
        pcdc_quick,
    ];
}
