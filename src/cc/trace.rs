//! What a controller decided, for qlog, CSV and figures.
//!
//! A [`Trace`] is made on demand after an event, with
//! [`Group::trace`](super::Group::trace), so it costs nothing while nobody looks. Each controller
//! gives the same names in the same order every time: they are the columns of a table.

use std::time::Duration;
use std::time::Instant;

use crate::registry::PathId;
use crate::registry::PathState;

/// The most values of its own that a controller shows.
const MAX_VALUES: usize = 12;

/// Where a path is in its congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// RFC 9002, section 7.3.1.
    SlowStart,
    /// RFC 9002, section 7.3.2.
    Recovery,
    /// RFC 9002, section 7.3.3.
    CongestionAvoidance,
}

impl Phase {
    /// The name that qlog's `congestion_state_updated` uses.
    pub fn name(self) -> &'static str {
        match self {
            Phase::SlowStart => "slow_start",
            Phase::Recovery => "recovery",
            Phase::CongestionAvoidance => "congestion_avoidance",
        }
    }
}

/// One path after one event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trace {
    /// When.
    pub time: Instant,
    /// Which path.
    pub path: PathId,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, or [`SSTHRESH_UNSET`](crate::registry::SSTHRESH_UNSET).
    pub ssthresh_bytes: u64,
    /// Smoothed RTT; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Minimum RTT; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// The phase.
    pub phase: Phase,
    values: [(&'static str, f64); MAX_VALUES],
    len: usize,
}

impl Trace {
    pub(super) fn new(time: Instant, path: &PathState) -> Trace {
        let phase = match (path.in_recovery, path.in_slow_start()) {
            (true, _) => Phase::Recovery,
            (false, true) => Phase::SlowStart,
            (false, false) => Phase::CongestionAvoidance,
        };
        Trace {
            time,
            path: path.id,
            cwnd_bytes: path.cwnd_bytes,
            ssthresh_bytes: path.ssthresh_bytes,
            smoothed_rtt: path.rtt.map(|rtt| rtt.smoothed),
            min_rtt: path.rtt.map(|rtt| rtt.min),
            phase,
            values: [("", 0.0); MAX_VALUES],
            len: 0,
        }
    }

    /// Adds a value of the controller's own. Units are in the name, unless it is a paper's symbol.
    ///
    /// # Panics
    /// If a controller shows more than twelve.
    pub fn push(&mut self, name: &'static str, value: f64) {
        self.values[self.len] = (name, value);
        self.len += 1;
    }

    /// The controller's own values, by name: a paper's symbols, and what couples the paths.
    pub fn values(&self) -> &[(&'static str, f64)] {
        &self.values[..self.len]
    }
}
