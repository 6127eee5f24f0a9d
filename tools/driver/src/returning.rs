//! Clients that come back.

use std::sync::atomic::AtomicU64;

/// What an endpoint makes tokens with.
pub(crate) type Keeper = mpq_returning::Keeper<Box<[AtomicU64]>>;

/// What a client has of an earlier connection to the same server.
#[derive(Clone, Debug, Default)]
pub struct Resumption {
    /// The TLS session, as [`quiche::Connection::session`] gave it.
    pub session: Option<Vec<u8>>,

    /// The token, as [`quiche::Connection::next_token`] gave it. It is for one connection.
    pub token: Option<Vec<u8>>,
}
