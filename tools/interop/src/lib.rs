//! Runs other people's QUIC implementations against the patched quiche, over
//! UDP sockets on loopback.
//!
//! A test is written once against two [`Peer`]s and does not know which of them
//! is quiche; [`Pair`] makes the two, in either role. What they say to each other
//! is in [`transfer`].
//!
//! Network `n` of the tests is 127.0.n.0/24: the server has the address .1 on it,
//! the client .2, and a relay between them .3.

pub mod ack_log;
pub mod journal;
pub mod noq_peer;
pub mod pair;
pub mod quiche_peer;
pub mod transfer;

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;
use std::time::Instant;

pub use journal::Closed;
pub use journal::Event;
pub use journal::Journal;
pub use pair::Pair;
pub use pair::Roles;
pub use transfer::Request;

/// The name in the server's certificate, which the client checks.
pub const SERVER_NAME: &str = "localhost";

/// The application protocol (ALPN) of the tests.
pub const ALPN: &[u8] = b"mpq-interop";

/// The highest path ID that either side accepts at first.
pub const INITIAL_MAX_PATH_ID: u32 = 3;

/// Stream and connection windows of both sides, in bytes. With more, a download
/// of noq 1.4 over unequal paths ends with "too many gaps in stream buffer".
pub const WINDOW_BYTES: u32 = 2 << 20;

/// RFC 10069's error code of a path that an application abandons. It is the only
/// one that noq lets an application send.
pub const APPLICATION_ABANDON_PATH: u64 = 0x3e;

/// The server's IP address on a network.
pub fn server_ip(network: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, network, 1)
}

/// The client's IP address on a network.
pub fn client_ip(network: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, network, 2)
}

/// One side of a connection, whatever implements it. All calls return at once.
pub trait Peer {
    /// What has happened so far.
    fn journal(&self) -> &Journal;

    /// Whether both sides sent initial_max_path_id.
    fn is_multipath(&self) -> bool;

    /// The paths, by path ID. An abandoned one is among them until its state is
    /// removed.
    fn paths(&self) -> Vec<PathReport>;

    /// Opens a path from [`client_ip`] of a network, and returns its path ID.
    fn open_path(&self, network: u8, remote: SocketAddr) -> Result<u64, OpenError>;

    /// Tells the peer to avoid a path, or to use it again.
    fn set_backup(&self, path_id: u64, backup: bool);

    /// Abandons a path with [`APPLICATION_ABANDON_PATH`].
    fn abandon(&self, path_id: u64);

    /// Begins a transfer. Only clients can.
    fn start(&self, request: Request) -> Transfer;

    /// Updates the 1-RTT keys; false if the implementation cannot be told to.
    fn update_keys(&self) -> bool;

    /// Closes the connection with an application error code.
    fn close(&self, error_code: u32, reason: &str);

    /// How many packets on path 0, and how many on path 1, acknowledged packets of path 1; only ours tells.
    fn acks_of_path_1(&self) -> Option<[u64; 2]>;

    /// How many PATH_ACK frames were sent; of ours, those of path 1.
    fn path_acks(&self) -> u64;
}

/// Why a path cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The limits or the connection IDs for it have not arrived yet.
    NotYet,
    /// Anything else.
    Refused(String),
}

/// What an implementation counts of a path.
#[derive(Clone, Debug)]
pub struct PathReport {
    pub path_id: u64,
    /// UDP payload sent, in bytes.
    pub sent_bytes: u64,
    /// UDP payload received, in bytes.
    pub received_bytes: u64,
    /// Sent packets taken for lost.
    pub lost_packets: u64,
    /// All of the implementation's own statistics, for failure messages.
    pub details: String,
}

/// A transfer that goes on.
pub struct Transfer(pub(crate) Receiver<Result<(), String>>);

impl Transfer {
    /// Waits until all bytes arrived, unchanged, in both directions.
    pub fn wait(self, deadline: Instant) -> Result<(), String> {
        self.0
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .unwrap_or_else(|e| Err(format!("the transfer did not end: {e}")))
    }
}
