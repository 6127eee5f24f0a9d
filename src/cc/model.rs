//! What controllers that keep a model of a path are told, and answer (draft-ietf-ccwg-bbr, section
//! 4.1: delivery rate samples).
//!
//! Packets are named as there: `C` is the connection on this path, `P` a packet, `rs` the sample of
//! an ACK.

use std::time::Duration;

/// What the sender knew when it sent a packet, and lost since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flight {
    /// Bytes in flight when it left, its own included (`P.tx_in_flight`).
    pub tx_in_flight_bytes: u64,
    /// Bytes declared lost since it left (`C.lost - P.lost`).
    pub lost_bytes: u64,
    /// Bytes of the packet.
    pub packet_bytes: u64,
    /// Something other than window and pacer limited what was sent before it.
    pub app_limited: bool,
}

impl Flight {
    /// Whether nothing was in flight when it left.
    pub fn is_from_idle(&self) -> bool {
        self.tx_in_flight_bytes <= self.packet_bytes
    }
}

/// What one ACK says about the rate at which a path delivers. Made afresh for each ACK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes delivered on the path so far (`C.delivered`).
    pub total_bytes: u64,
    /// The same when the newest acked packet was sent (`rs.prior_delivered`).
    pub prior_bytes: u64,
    /// The time that the bytes between took: the longer of the times in which they were sent and
    /// acked; zero if that is less than the least RTT, and so no measure.
    pub interval: Duration,
    /// The newest acked packet.
    pub newest: Flight,
}

impl RateSample {
    /// Bytes delivered from the newest acked packet's departure to this ACK (`rs.delivered`).
    pub fn delivered_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.prior_bytes)
    }

    /// The delivery rate, bytes per second; `None` if the interval is no measure.
    pub fn bytes_per_sec(&self) -> Option<f64> {
        let interval = self.interval.as_secs_f64();
        (interval > 0.0).then(|| self.delivered_bytes() as f64 / interval)
    }
}

/// What a model answers: what a path may send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// The window.
    pub cwnd_bytes: f64,
    /// The pacing rate, bytes per second; `None` if it is not known yet: twice the window in a
    /// smoothed RTT.
    pub pacing_rate_bytes_per_sec: Option<f64>,
    /// It still looks for the path's capacity, as slow start does.
    pub starts: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_a_sample() {
        let sample = RateSample {
            total_bytes: 30_000,
            prior_bytes: 10_000,
            interval: Duration::from_millis(100),
            newest: Flight::default(),
        };
        assert_eq!(sample.bytes_per_sec(), Some(200_000.0));
        let unreliable = RateSample {
            interval: Duration::ZERO,
            ..sample
        };
        assert_eq!(unreliable.bytes_per_sec(), None);
    }

    #[test]
    fn a_packet_that_was_alone() {
        let flight = |tx_in_flight_bytes| Flight {
            tx_in_flight_bytes,
            packet_bytes: 1200,
            ..Flight::default()
        };
        assert!(flight(1200).is_from_idle());
        assert!(!flight(2400).is_from_idle());
    }
}
