//! Exit codes, and errors that carry one.

use std::fmt::Display;

use mpq_driver::endpoint::ConnectError;
use mpq_driver::h3::client::ClientError;
use mpq_driver::CloseReason;

/// Wrong arguments.
pub const USAGE: u8 = 1;
/// The network or the peer does not answer, or the connection broke.
pub const NETWORK: u8 = 2;
/// TLS failed or the certificate was refused.
pub const TLS: u8 = 3;
/// HTTP status 400 or higher.
pub const STATUS: u8 = 4;
/// The body is not what was announced.
pub const TRUNCATED: u8 = 5;
/// A local file cannot be read or written.
pub const LOCAL: u8 = 6;
/// A simulated run failed, or a connection did in a way that it must not.
pub const RUN: u8 = 7;
/// A rule of a scenario does not hold.
pub const RULE: u8 = 8;
/// Interrupted by a signal.
pub const INTERRUPTED: u8 = 130;

/// The codes, for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    success
  1    wrong usage
  2    network: unreachable, timeout, connection broken
  3    TLS: handshake failed, certificate refused
  4    HTTP status 400 or higher
  5    body truncated or malformed (of play: the MPD or a segment)
  6    local file: disk full, no permission
  7    of sim: a run failed; of chaos: a connection hung, or failed without a reason of the network
  8    of sim: a rule of the scenario does not hold
  130  interrupted";

/// The end of a command that failed.
#[derive(Debug)]
pub struct Failure {
    /// The process's exit code.
    pub code: u8,
    /// One line for the user; `None` if all was said before.
    pub message: Option<String>,
}

impl Failure {
    /// A failure with exit code `code`.
    pub fn new(code: u8, message: impl Display) -> Failure {
        Failure {
            code,
            message: Some(message.to_string()),
        }
    }

    /// The same, with what it is about in front.
    pub fn about(mut self, what: impl Display) -> Failure {
        self.message = self.message.map(|message| format!("{what}: {message}"));
        self
    }
}

impl From<ClientError> for Failure {
    fn from(e: ClientError) -> Failure {
        let code = match &e {
            ClientError::Config(_) => USAGE,
            ClientError::Connect(
                ConnectError::NoRoute { .. }
                | ConnectError::OtherFamily
                | ConnectError::Bind { .. },
            ) => NETWORK,
            _ => LOCAL,
        };
        Failure::new(code, e)
    }
}

/// The code for a connection that ended like this.
pub fn code_of(reason: &CloseReason) -> u8 {
    match reason {
        CloseReason::Certificate(_) | CloseReason::Tls { .. } => TLS,
        _ => NETWORK,
    }
}

/// The line for a connection that ended like this, with what to do about it.
pub fn describe(reason: &CloseReason) -> String {
    match reason {
        CloseReason::Certificate(_) => format!(
            "{reason}; trust its issuer with --trust-origin-ca-pem FILE, the \
             certificate itself with --pin SHA256, or nothing with --no-verify"
        ),
        _ => reason.to_string(),
    }
}
