//! The path-state registry: what is known about each path, in one place.
//!
//! The connection owns the [`Registry`] and lends it to the congestion controller, the scheduler,
//! the failure detector and the path manager. Each field of [`PathState`] has exactly one writer:
//!
//! | writer     | when                                            | fields                        |
//! |------------|-------------------------------------------------|-------------------------------|
//! | transport  | packet sent, acked or lost; frame or timer seen | everything not named below    |
//! | controller | inside a [`cc::Group`](crate::cc::Group) call    | windows, recovery, loss spans |
//! | health     | inside a [`health::Monitor`](crate::health::Monitor) call | `health`            |
//!
//! Where each path has a controller of the transport's own (its CUBIC, say) there is no group: the
//! transport writes `cwnd_bytes` and `ssthresh_bytes`, so that schedulers still see the windows, and
//! nobody the controller's other fields, which only controllers read.

use std::time::Duration;
use std::time::Instant;

use crate::health::Health;
use crate::path_map::PathMap;

/// The path ID of RFC 10069. Never reused within a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u64);

impl std::fmt::Display for PathId {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What a side wishes a path to be used for (RFC 10069, PATH_STATUS_AVAILABLE and _BACKUP).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// For normal use.
    #[default]
    Available,
    /// Only when no available path works.
    Backup,
}

/// The round-trip time estimate of RFC 9002, section 5. Exists from the first sample on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    /// smoothed_rtt.
    pub smoothed: Duration,
    /// rttvar, the mean deviation.
    pub var: Duration,
    /// latest_rtt.
    pub latest: Duration,
    /// min_rtt.
    pub min: Duration,
}

impl Rtt {
    /// The estimate after a single sample (RFC 9002, section 5.2 and 5.3).
    pub fn first(sample: Duration) -> Self {
        Rtt {
            smoothed: sample,
            var: sample / 2,
            latest: sample,
            min: sample,
        }
    }
}

/// kInitialRtt (RFC 9002, section 6.2.2): stands in for the RTT of a path without a sample.
pub const INITIAL_RTT: Duration = Duration::from_millis(333);

/// "Slow-start threshold not set yet": slow start ends only by a loss or by HyStart++.
pub const SSTHRESH_UNSET: u64 = u64::MAX;

/// The smallest datagram a path must carry to be usable (RFC 9000, section 14).
pub const MIN_DATAGRAM_BYTES: u64 = 1200;

/// Everything the controllers, schedulers and detectors read about one path.
#[derive(Clone, Debug)]
pub struct PathState {
    /// The path's ID. Fixed.
    pub id: PathId,

    // Written by the transport: what it measures.
    /// Largest UDP payload the path carries now; the papers' "packet" or "MSS".
    pub mss_bytes: u64,
    /// Bytes sent and neither acked nor declared lost (RFC 9002, bytes_in_flight).
    pub in_flight_bytes: u64,
    /// Round-trip time; `None` while there is no sample, which is not the same as "fast".
    pub rtt: Option<Rtt>,
    /// The path that ACKs of this one come back on by habit, and `rtt` is for: itself, unless the
    /// peer prefers another (RFC 10069, section 5.4). Samples of two ways back do not compare.
    pub way_back: PathId,
    /// How long the peer says it held back the ACK of the latest RTT sample (RFC 9002, section
    /// 5.3); zero if unknown.
    pub ack_delay: Duration,
    /// Latest one-way delay from here to the peer, in microseconds: the peer's receive time minus
    /// our send time. The clocks are not synchronised, so only differences mean anything, and it
    /// can be negative. `None` unless the peer sends timestamps
    /// ([`cc::Group::reads_one_way_delay`](crate::cc::Group::reads_one_way_delay)).
    pub one_way_delay_micros: Option<i64>,
    /// Measured delivery rate, bytes per second; `None` before the first sample.
    pub delivery_rate_bytes_per_sec: Option<u64>,
    /// When the pacer lets the next packet go; `None` means now.
    pub pacing_release: Option<Instant>,
    /// Send time of the oldest ack-eliciting packet not yet acked or declared lost.
    pub oldest_unacked_eliciting_sent: Option<Instant>,
    /// Consecutive probe timeouts since the last ack progress (RFC 9002, pto_count).
    pub pto_count: u32,
    /// Packets declared lost so far.
    pub lost_packets: u64,
    /// Bytes declared lost so far.
    pub lost_bytes: u64,

    // Written by the transport: whether and for what the path may be used.
    /// The path's address passed validation (RFC 9000, section 8.2).
    pub validated: bool,
    /// The path is new and being validated, and takes data meanwhile (RFC 10069, section 3.1.2).
    pub takes_early_data: bool,
    /// PATH_ABANDON was sent or received.
    pub abandoned: bool,
    /// There is an unused or current destination connection ID for the path.
    pub has_dcid: bool,
    /// What the anti-amplification limit still leaves for data, bytes; `None` when it does not apply.
    pub amplification_room_bytes: Option<u64>,
    /// The peer's wish for the direction in which we send.
    pub peer_status: Status,
    /// Our own policy (cost, battery, byte budget).
    pub local_status: Status,

    // Written by the controller.
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, or [`SSTHRESH_UNSET`]; never above the window without slow start.
    pub ssthresh_bytes: u64,
    /// Rate at which the path should be paced, bytes per second; `None` without an RTT sample.
    pub pacing_rate_bytes_per_sec: Option<u64>,
    /// In a recovery period (RFC 9002, section 7.3.2).
    pub in_recovery: bool,
    /// Congestion events so far: losses that reduced the window.
    pub congestion_events: u64,
    /// Bytes acked since the last congestion event, or since the path began.
    pub acked_since_loss_bytes: u64,
    /// Bytes acked between the last two congestion events; 0 before the first one.
    pub acked_between_losses_bytes: u64,

    // Written by the failure detector.
    /// What the failure detector believes.
    pub health: Health,
}

impl PathState {
    /// A path that was just opened: no sample, not validated, no window yet.
    pub fn new(id: PathId, mss_bytes: u64) -> Self {
        PathState {
            id,
            mss_bytes: mss_bytes.max(1),
            in_flight_bytes: 0,
            rtt: None,
            way_back: id,
            ack_delay: Duration::ZERO,
            one_way_delay_micros: None,
            delivery_rate_bytes_per_sec: None,
            pacing_release: None,
            oldest_unacked_eliciting_sent: None,
            pto_count: 0,
            lost_packets: 0,
            lost_bytes: 0,
            validated: false,
            takes_early_data: false,
            abandoned: false,
            has_dcid: true,
            amplification_room_bytes: None,
            peer_status: Status::Available,
            local_status: Status::Available,
            cwnd_bytes: 0,
            ssthresh_bytes: SSTHRESH_UNSET,
            pacing_rate_bytes_per_sec: None,
            in_recovery: false,
            congestion_events: 0,
            acked_since_loss_bytes: 0,
            acked_between_losses_bytes: 0,
            health: Health::Healthy,
        }
    }

    /// Bytes that may be sent now without exceeding the window or the anti-amplification limit.
    pub fn room_bytes(&self) -> u64 {
        let window = self.cwnd_bytes.saturating_sub(self.in_flight_bytes);
        window.min(self.amplification_room_bytes.unwrap_or(u64::MAX))
    }

    /// Whether the path carries data or may: it is validated, or new and begins before it is.
    pub fn is_open(&self) -> bool {
        (self.validated || self.takes_early_data)
            && !self.abandoned
            && self.has_dcid
            && self.mss_bytes >= MIN_DATAGRAM_BYTES
    }

    /// Whether data may be sent on the path at all, whatever the window.
    pub fn takes_data(&self) -> bool {
        self.is_open() && self.amplification_room_bytes != Some(0)
    }

    /// Whether the path is known to work, so that others need not. One that takes early data is not.
    pub fn is_usable(&self) -> bool {
        self.validated && self.takes_data()
    }

    /// In slow start (RFC 9002, section 7.3.1).
    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }
}

/// One [`PathState`] per open path, in path ID order.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    paths: PathMap<PathState>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a path and returns its entry, replacing one of the same ID if there was any.
    pub fn add(&mut self, id: PathId, mss_bytes: u64) -> &mut PathState {
        self.paths.insert(id, PathState::new(id, mss_bytes));
        self.paths.get_mut(id).expect("inserted on the line above")
    }

    /// Forgets a path. Tell the controller and the detector before.
    pub fn remove(&mut self, id: PathId) -> Option<PathState> {
        self.paths.remove(id)
    }

    /// The entry of path `id`.
    pub fn get(&self, id: PathId) -> Option<&PathState> {
        self.paths.get(id)
    }

    /// The entry of path `id`, for the writers named in the module's table.
    pub fn get_mut(&mut self, id: PathId) -> Option<&mut PathState> {
        self.paths.get_mut(id)
    }

    /// All paths in path ID order.
    pub fn iter(&self) -> impl Iterator<Item = &PathState> + Clone {
        self.paths.iter().map(|(_, path)| path)
    }

    /// How many paths there are.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether there is no path.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_of_the_round_trip_time() {
        let rtt = Rtt::first(Duration::from_millis(100));
        assert_eq!(rtt.smoothed, Duration::from_millis(100));
        assert_eq!(rtt.var, Duration::from_millis(50));
        assert_eq!((rtt.latest, rtt.min), (rtt.smoothed, rtt.smoothed));
    }

    #[test]
    fn room_is_what_window_and_amplification_leave() {
        let mut registry = Registry::new();
        assert!(registry.is_empty());
        let path = registry.add(PathId(0), 1200);
        (path.cwnd_bytes, path.in_flight_bytes) = (12_000, 5_000);
        path.amplification_room_bytes = None;
        assert_eq!(path.room_bytes(), 7_000);
        path.amplification_room_bytes = Some(3_600);
        assert_eq!(path.room_bytes(), 3_600);
        path.in_flight_bytes = 20_000;
        assert_eq!(path.room_bytes(), 0);

        registry.add(PathId(1), 1200);
        registry.add(PathId(2), 1200);
        assert_eq!((registry.len(), registry.is_empty()), (3, false));
    }
}
