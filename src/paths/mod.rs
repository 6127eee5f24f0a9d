//! Path managers: which paths exist, and what each is for.
//!
//! A driver watches the interfaces and the connection and reports what it sees as [`Event`]s; a
//! manager answers with [`Action`]s. Only a client opens paths (RFC 10069), so managers that open
//! run there; a server's may refuse, set a status or abandon.
//!
//! To add a manager: one file here, one line in [`MANAGERS`].

mod backup;
mod full_mesh;
mod opener;

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use crate::registry::PathId;
use crate::registry::Registry;
use crate::registry::Status;
use crate::UnknownName;

pub use backup::Backup;
pub use full_mesh::FullMesh;
pub use opener::Limits;

/// One end of a path on this host. The driver chooses the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Local {
    /// Index of the interface.
    pub if_index: u32,
    /// The address; of global scope.
    pub ip: IpAddr,
}

/// Where a path runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Our end.
    pub local: Local,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

/// The state of a local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalAddr {
    /// Which one.
    pub local: Local,
    /// The address is there, the interface up and its carrier on.
    pub up: bool,
    /// The default route leaves by this interface.
    pub default_route: bool,
    /// The route's metric: less is preferred.
    pub metric: u32,
    /// Use of the interface costs money or quota.
    pub metered: bool,
}

/// How we learned of an address of the peer; in order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoteSource {
    /// The address the connection began with.
    Connection,
    /// Configured, or given by the application.
    Configured,
    /// The preferred_address transport parameter.
    Preferred,
    /// Name resolution; may be another host.
    Resolved,
}

/// Something a manager must know.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The handshake is confirmed: paths may be opened beside the first.
    HandshakeConfirmed {
        /// The first path's ID.
        path: PathId,
        /// Where it runs.
        pair: Pair,
    },
    /// A local address appeared, changed or went.
    LocalAddr(LocalAddr),
    /// An address of the peer became known.
    RemoteAddr {
        /// The address.
        addr: SocketAddr,
        /// How we know.
        source: RemoteSource,
    },
    /// An [`Action::Open`] was carried out.
    PathOpened {
        /// The new path's ID.
        path: PathId,
        /// Where it runs.
        pair: Pair,
    },
    /// An [`Action::Open`] could not be carried out.
    OpenFailed {
        /// The pair that was to be opened.
        pair: Pair,
    },
    /// The path's address was validated.
    PathValidated {
        /// The path.
        path: PathId,
    },
    /// The path's address could not be validated.
    PathFailed {
        /// The path.
        path: PathId,
    },
    /// The failure detector failed the path.
    PathPf {
        /// The path.
        path: PathId,
    },
    /// The path carries data again.
    PathRecovered {
        /// The path.
        path: PathId,
    },
    /// The path was abandoned, by either side.
    PathAbandoned {
        /// The path.
        path: PathId,
    },
    /// How many path IDs can still be opened.
    PathIdsAvailable {
        /// IDs not used yet, within both sides' limits.
        unused: u64,
    },
    /// The application wants a path used or held back.
    AppPolicy {
        /// The path.
        path: PathId,
        /// For what.
        status: Status,
    },
    /// A measurement of what the path adds to the connection.
    Sample {
        /// The path.
        path: PathId,
        /// The impact factor: 1 - throughput without the path / throughput with it.
        omega: f64,
        /// Over which time.
        over: Duration,
    },
}

/// Why a path is abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its local address is gone (PATH_UNSTABLE_OR_POOR).
    AddressGone,
    /// It never worked (PATH_UNSTABLE_OR_POOR).
    NotValidated,
}

/// What the driver is to do. Doing it twice is the same as doing it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open a path; answered by [`Event::PathOpened`] or [`Event::OpenFailed`].
    Open(Pair),
    /// Abandon the path; answered by [`Event::PathAbandoned`].
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
    /// Do not follow the peer to its new address.
    MigrateRefuse {
        /// The path that moved.
        path: PathId,
    },
    /// Send a PING on the path.
    Probe {
        /// The path.
        path: PathId,
    },
}

/// Decides which paths exist. Runs on events and timers, never per packet.
pub trait PathManager {
    /// Something happened. Pushes what is to be done.
    fn on_event(
        &mut self,
        now: Instant,
        paths: &Registry,
        event: &Event,
        actions: &mut Vec<Action>,
    );

    /// Time passed. Pushes what is to be done.
    fn tick(&mut self, now: Instant, paths: &Registry, actions: &mut Vec<Action>);

    /// When [`PathManager::tick`] must be called at the latest.
    fn next_timer(&self) -> Option<Instant>;
}

/// A path manager that can be chosen by name.
pub struct Entry {
    /// The name in configuration files and on command lines.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Makes a fresh manager for one connection.
    pub new: fn(Limits) -> Box<dyn PathManager + Send + Sync>,
}

/// Every path manager there is.
pub const MANAGERS: &[Entry] = &[
    Entry {
        name: "full-mesh",
        summary: "a path for every local and remote address of one family",
        new: |limits| Box::new(FullMesh::new(limits)),
    },
    Entry {
        name: "backup",
        summary: "the same paths, but one carries the data and the others stand by",
        new: |limits| Box::new(Backup::new(limits)),
    },
];

/// The path manager called `name`, fresh for one connection.
///
/// # Errors
/// [`UnknownName`] lists the names that exist.
pub fn by_name(
    name: &str,
    limits: Limits,
) -> Result<Box<dyn PathManager + Send + Sync>, UnknownName> {
    match MANAGERS.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok((entry.new)(limits)),
        None => {
            let valid = MANAGERS.iter().map(|entry| entry.name);
            Err(UnknownName::new("path manager", name, valid))
        }
    }
}
