//! Runs quiche connections on any number of UDP sockets.
//!
//! quiche turns packets into events and events into packets; this crate does
//! the rest: sockets with segmentation offload, timers fine enough for pacing,
//! routing by connection ID, and opening paths as local addresses come and go.
//! [`Endpoint`] is a single-threaded event loop for clients and servers alike,
//! [`h3`] the HTTP/3 layer on top of it.

pub mod config;
pub mod endpoint;
pub mod facts;
pub mod h3;
pub mod multipath;
pub mod playback;

mod cid;
mod conn_key;
mod connection;
mod error;
mod listener;
mod path_mtu;
mod qlog;
mod returning;
mod socket;
mod timer;

pub use cid::EndpointKey;
pub use config::CcObserver;
pub use config::ConfigError;
pub use config::TransportSettings;
pub use config::DEFAULT_CONTROLLER;
pub use conn_key::ConnKey;
pub use connection::Conn;
pub use connection::PathSnapshot;
pub use endpoint::App;
pub use endpoint::ConnectOptions;
pub use endpoint::Endpoint;
pub use error::close_reason;
pub use error::CloseReason;
pub use listener::ListenOptions;
pub use mpq_returning::Memory;
pub use mpq_returning::Refusal;
pub use multipath::PathChange;
pub use returning::Resumption;
pub use socket::SendStats;
pub use socket::SocketOptions;

/// The largest UDP payload this crate sends, in bytes: what a jumbo frame of
/// 9,000 bytes carries over IPv4.
pub const MAX_DATAGRAM_BYTES: usize = 8972;

/// What an Ethernet frame carries over IPv4. Larger datagrams are looked for
/// where the MTU of the interface has room for them.
pub const ETHERNET_DATAGRAM_BYTES: usize = 1472;
