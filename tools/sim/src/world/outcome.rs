//! What comes out of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use super::transit::MOST_AT_ONCE;
use crate::failure::Failure;

/// What came out of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long it was.
    pub simulated: Duration,
    /// By their names in `docs/scenarios.md`.
    pub metrics: BTreeMap<String, f64>,
    /// Packets that were sent.
    pub packets: u64,
    /// Hash over time, sender, path and size of each.
    pub packet_log: u64,
}

impl Outcome {
    /// A run that could not begin.
    pub(crate) fn failed(reason: String) -> Outcome {
        Outcome {
            failure: Some(reason),
            simulated: Duration::ZERO,
            metrics: BTreeMap::new(),
            packets: 0,
            packet_log: 0,
        }
    }
}

/// What became of one connection.
#[derive(Debug)]
pub struct Ending {
    /// When its flow ended; `None` if it never did.
    pub ended: Option<Duration>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Whether the client ever opened another path than that of the handshake, which it can do once
    /// the handshake is confirmed.
    pub has_opened: bool,
    /// Whether client and server have closed, or never began.
    pub is_closed: [bool; 2],
}

/// A run that did not come to an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
    /// A file could not be written.
    #[error("cannot write to {0}: {1}")]
    Write(String, std::io::Error),
    /// The scenario or its files changed since they were checked.
    #[error("{0}")]
    Setup(String),
    /// It took more events than it may.
    #[error("more than {0} events, at {1:?} of simulated time")]
    Events(u64, Duration),
    /// A host had always one more datagram to send.
    #[error("more than {MOST_AT_ONCE} datagrams at once, at {0:?} of simulated time")]
    Sends(Duration),
}
