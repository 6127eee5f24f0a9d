//! Why a connection's flow failed.

use std::time::Duration;

use mpq_driver::CloseReason;

/// Why a connection's flow failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The handshake took too long.
    #[error("no handshake within {0:?}")]
    Handshake(Duration),

    /// The connection ended before the flow.
    #[error("{0}")]
    Closed(CloseReason),

    /// A byte that was read is not the one that was sent.
    #[error("byte {offset} of stream {stream} is not what was sent")]
    Wrong {
        /// The stream.
        stream: u64,
        /// Of the byte, from 0.
        offset: u64,
    },

    /// A stream ended elsewhere than it was to.
    #[error("stream {stream} ended after {bytes} bytes in place of {wanted}")]
    Length {
        /// The stream.
        stream: u64,
        /// Its length.
        bytes: u64,
        /// What it was to be.
        wanted: u64,
    },

    /// The DASH client could not go on.
    #[error("{0}")]
    Player(String),
}
