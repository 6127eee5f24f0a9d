//! What a driver knows and reports: addresses, routes, and what became of paths.

use std::net::IpAddr;
use std::net::SocketAddr;

use crate::registry::PathId;

/// One end of a path on this host. The driver chooses the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Local {
    /// Index of the interface; 0 if it is not known.
    pub if_index: u32,
    /// The address.
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

impl Pair {
    /// Whether both ends are of one family.
    pub(super) fn is_possible(&self) -> bool {
        self.local.ip.is_ipv4() == self.remote.is_ipv4()
    }
}

/// A local address, its interface, and what is known of both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAddr {
    /// Which one.
    pub local: Local,
    /// The interface's name.
    pub interface: String,
    /// The address is there, the interface up and its carrier on.
    pub up: bool,
    /// The metric of the interface's default route for this family, less is preferred; `None`
    /// without such a route.
    pub metric: Option<u32>,
    /// The interface is a tunnel: what it sends leaves through another one.
    pub tunnel: bool,
    /// Its use costs money or quota.
    pub metered: bool,
    /// The user wants it only while nothing else works.
    pub standby: bool,
    /// The user named it, as the how manieth.
    pub named: Option<u32>,
    /// The kernel drops what comes in here unless its own route to the sender leaves here, too
    /// (`rp_filter` = 1).
    pub strict_rp_filter: bool,
}

impl LocalAddr {
    /// An address of which nothing else is known.
    pub fn new(local: Local, interface: &str) -> LocalAddr {
        LocalAddr {
            local,
            interface: interface.to_owned(),
            up: true,
            metric: None,
            tunnel: false,
            metered: false,
            standby: false,
            named: None,
            strict_rp_filter: false,
        }
    }
}

/// How we learned of an address of the peer; in order of trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RemoteSource {
    /// The address the connection began with.
    Connection,
    /// Name resolution; may be another host.
    Resolved,
    /// The peer named it, over this connection, as an address of its service; may be another host.
    Named,
}

/// Why a path could not be opened although it was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The handshake is not confirmed, or Connection IDs are under way: a matter of time.
    NotYet,
    /// The limits on path IDs allow no further one.
    NoPathIds,
    /// The peer forbids it, for example by disable_active_migration.
    Refused,
    /// The kernel gave no socket, and said why.
    Socket(String),
}

/// What a connection has delivered so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of streams that the application was given, and of packets that the peer acknowledged,
    /// without copies of what is in flight on other paths.
    pub delivered_bytes: u64,
    /// A request or a transfer is under way: more would be delivered if the network let it.
    pub is_wanted: bool,
}

/// What the paths of a connection have carried so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of streams that the application was given.
    pub read_bytes: u64,
    /// Bytes of packets that the peer acknowledged.
    pub acked_bytes: u64,
    /// Packets that left on each open path.
    pub sent_packets: Vec<(PathId, u64)>,
}

/// Something that a manager must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A local address appeared or changed.
    LocalAddr(LocalAddr),
    /// A local address is gone.
    LocalGone(Local),
    /// An address of the peer became known.
    RemoteAddr {
        /// The address.
        addr: SocketAddr,
        /// How we know.
        source: RemoteSource,
    },
    /// The kernel sends to `remote` through this interface; `None` if it has no route.
    Route {
        /// The peer's address.
        remote: SocketAddr,
        /// Index of the interface.
        if_index: Option<u32>,
    },
    /// The connection began.
    Began {
        /// Where its first path runs.
        pair: Pair,
    },
    /// The handshake is confirmed, and several paths may be open.
    Confirmed,
    /// The peer did not agree to several paths.
    SinglePath,
    /// Further path IDs, or Connection IDs for them, can be used.
    PathIdsAvailable,
    /// An [`Action::Open`](super::Action::Open) was carried out.
    Opened {
        /// The new path's ID.
        path: PathId,
        /// Where it runs.
        pair: Pair,
    },
    /// An [`Action::Open`](super::Action::Open) could not be carried out.
    OpenFailed {
        /// The pair that was to be opened.
        pair: Pair,
        /// Why not.
        error: OpenError,
    },
    /// The path was validated and can carry data.
    Validated {
        /// The path.
        path: PathId,
    },
    /// The failure detector doubts that the path works, or does not any more.
    Doubt {
        /// The path.
        path: PathId,
        /// Whether it is in doubt now.
        doubted: bool,
    },
    /// An [`Action::Abandon`](super::Action::Abandon) could not be carried out: no other path could
    /// go on.
    AbandonRefused {
        /// The path.
        path: PathId,
    },
    /// The path was abandoned.
    Abandoned {
        /// The path.
        path: PathId,
        /// Whether by the peer.
        by_peer: bool,
        /// The error code of PATH_ABANDON.
        error_code: u64,
    },
    /// An [`Action::Sample`](super::Action::Sample) was carried out.
    Sample(Sample),
    /// An [`Action::Traffic`](super::Action::Traffic) was carried out.
    Traffic(Traffic),
    /// The application wants no path from there, until an [`Event::LocalAddr`] says something new.
    Leave(Local),
}
