//! Why a connection ended, or never began.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The end of a connection, in terms a user can act on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The kernel has no route to the peer, or no usable local address.
    #[error("{peer} is unreachable: {error}")]
    Unreachable {
        /// Where the first packet should have gone.
        peer: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },

    /// The peer never completed the handshake.
    #[error("no answer from {peer} within {after:?}: is a QUIC server listening there, and is UDP let through?")]
    HandshakeTimeout {
        /// The server's address.
        peer: SocketAddr,
        /// How long was waited.
        after: Duration,
    },

    /// The peer's certificate was refused, or ours by the peer.
    #[error("the certificate of the server was refused: {0}")]
    Certificate(&'static str),

    /// TLS failed otherwise.
    #[error("the TLS handshake failed: {alert} (alert {code})")]
    Tls {
        /// The TLS alert number.
        code: u8,
        /// Its name.
        alert: &'static str,
    },

    /// No common QUIC version.
    #[error("the server speaks no QUIC version that we do")]
    Version,

    /// Nothing was received for the idle timeout.
    #[error("the connection timed out: nothing received from {peer} for {after:?}")]
    IdleTimeout {
        /// The peer's address at the start.
        peer: SocketAddr,
        /// The idle timeout in force.
        after: Duration,
    },

    /// The peer closed the connection.
    #[error("the peer closed the connection: {} error {code:#x}{}", layer(.app), text(.reason))]
    ByPeer {
        /// Whether the code is the application's (HTTP/3), not QUIC's.
        app: bool,
        /// The error code.
        code: u64,
        /// The reason phrase, possibly empty.
        reason: String,
    },

    /// This side closed the connection.
    #[error("closed the connection: {} error {code:#x}{}", layer(.app), text(.reason))]
    ByUs {
        /// Whether the code is the application's (HTTP/3), not QUIC's.
        app: bool,
        /// The error code.
        code: u64,
        /// The reason phrase, possibly empty.
        reason: String,
    },

    /// A connection of another transport than QUIC broke.
    #[error("the connection broke: {0}")]
    Broken(io::Error),

    /// The peer no longer knows the connection (stateless reset).
    #[error("the peer lost the state of the connection (stateless reset)")]
    Reset,
}

impl CloseReason {
    /// Whether the connection ended without an error, on either side.
    pub fn is_clean(&self) -> bool {
        // H3_NO_ERROR, and 0 for QUIC's NO_ERROR.
        matches!(
            self,
            CloseReason::ByPeer {
                app: true,
                code: 0x100,
                ..
            } | CloseReason::ByUs {
                app: true,
                code: 0x100,
                ..
            } | CloseReason::ByPeer {
                app: false,
                code: 0,
                ..
            } | CloseReason::ByUs {
                app: false,
                code: 0,
                ..
            }
        )
    }
}

fn layer(app: &bool) -> &'static str {
    if *app {
        "application"
    } else {
        "transport"
    }
}

fn text(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    }
}

/// What `quic`, which is closed, died of.
pub fn close_reason(
    quic: &quiche::Connection,
    last_recv_error: Option<quiche::Error>,
    peer: SocketAddr,
    after: Duration,
) -> CloseReason {
    if last_recv_error == Some(quiche::Error::UnknownVersion) {
        return CloseReason::Version;
    }

    if let Some(e) = quic.local_error().or(quic.peer_error()) {
        let ours = quic.local_error().is_some();
        let reason = String::from_utf8_lossy(&e.reason).into_owned();

        // CRYPTO_ERROR (RFC 9001, section 4.8) carries the TLS alert.
        if !e.is_app && (0x100..0x200).contains(&e.error_code) {
            return tls_reason((e.error_code - 0x100) as u8);
        }

        return if ours {
            CloseReason::ByUs {
                app: e.is_app,
                code: e.error_code,
                reason,
            }
        } else {
            CloseReason::ByPeer {
                app: e.is_app,
                code: e.error_code,
                reason,
            }
        };
    }

    if quic.is_timed_out() {
        return if quic.is_established() {
            CloseReason::IdleTimeout { peer, after }
        } else {
            CloseReason::HandshakeTimeout { peer, after }
        };
    }

    CloseReason::Reset
}

/// Names of the TLS alerts (RFC 8446, section 6.2) that a handshake can meet.
fn tls_reason(code: u8) -> CloseReason {
    match code {
        42 => CloseReason::Certificate("it is corrupt or its name is wrong"),
        43 => CloseReason::Certificate("its type is not supported"),
        44 => CloseReason::Certificate("it is revoked"),
        45 => CloseReason::Certificate("it has expired or is not yet valid"),
        46 => CloseReason::Certificate("it is not acceptable"),
        48 => CloseReason::Certificate("it is signed by an unknown authority"),
        _ => CloseReason::Tls {
            code,
            alert: match code {
                10 => "unexpected message",
                40 => "no common parameters",
                47 => "illegal parameter",
                50 => "decode error",
                51 => "decrypt error",
                70 => "protocol version",
                80 => "internal error",
                109 => "missing extension",
                112 => "unknown server name",
                116 => "client certificate required",
                120 => "no common application protocol",
                _ => "unknown",
            },
        },
    }
}
