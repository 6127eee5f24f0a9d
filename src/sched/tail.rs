//! Copies of the tail: what the last bytes of a transfer wait for.
//!
//! When no new data is left, a path falls idle while the last bytes are still in the queue of
//! another one. Sent again on the idle path, newest first, they may arrive sooner there. Both
//! paths then work towards each other, and the transfer ends where they meet.
//!
//! A packet in flight on path s since time t is expected to be acknowledged at t + R, with
//!
//! ```text
//! R = max(srtt_s, latest_s, age of the oldest packet in flight, in_flight_s / delivery rate_s)
//! ```
//!
//! as in slow start the queue is longer than the RTT samples know. A copy on path f is acknowledged
//! at now + min_rtt_f, because f carries it only as far as it has no queue: while its latest RTT is
//! within a quarter of min_rtt_f, or it has less in flight than delivery rate_f min_rtt_f. So copies
//! do not delay what is declared lost meanwhile and must be sent again. A copy is worth while if it
//! is sooner by a quarter of min_rtt_f.

use std::time::Duration;
use std::time::Instant;

use super::CopyOrder;
use super::View;
use super::Which;
use crate::params::Param;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Rtt;

/// The parameter of every scheduler that copies tails.
pub(super) const PARAM: Param = Param::choice(
    "tail",
    &["on", "off"],
    "whether an idle path repeats the end of what waits in the queue of another one",
);

/// One byte in this many may be a copy, beyond [`ALLOWANCE_BYTES`].
const SHARE: u64 = 20;

/// Copies that a connection may send at any time.
const ALLOWANCE_BYTES: u64 = 64 * 1024;

/// What a path may have in flight in any case: the initial window of RFC 9002, section 7.2.
const LEAST_PIPE_PACKETS: u64 = 10;

/// Whether another packet on the path would wait in a queue, as far as one can tell.
fn has_queue(path: &PathState, rtt: &Rtt) -> bool {
    if rtt.latest <= rtt.min + rtt.min / 4 {
        return false;
    }
    let rate = path.delivery_rate_bytes_per_sec.unwrap_or(0);
    let pipe_bytes = u128::from(rate) * rtt.min.as_micros() / 1_000_000;
    let least_bytes = LEAST_PIPE_PACKETS * path.mss_bytes;
    u128::from(path.in_flight_bytes + path.mss_bytes) > pipe_bytes.max(least_bytes.into())
}

/// How long a packet in flight on `path` takes until it is acknowledged.
fn round_trip(path: &PathState, now: Instant) -> Option<Duration> {
    let rtt = path.rtt?;
    let oldest = path
        .oldest_unacked_eliciting_sent
        .map_or(Duration::ZERO, |sent| now.saturating_duration_since(sent));
    let drain = path
        .delivery_rate_bytes_per_sec
        .map_or(Duration::ZERO, |rate| {
            let micros = u128::from(path.in_flight_bytes) * 1_000_000 / u128::from(rate.max(1));
            Duration::from_micros(micros.try_into().unwrap_or(u64::MAX))
        });
    Some(rtt.smoothed.max(rtt.latest).max(oldest).max(drain))
}

/// Whether a copy of what is in flight on `from` is worth sending on `spare`.
pub(super) fn copy(now: Instant, view: &View, spare: PathId, from: PathId) -> Option<CopyOrder> {
    let (spare, from) = (view.path(spare)?, view.any_path(from)?);
    let connection = view.connection();

    let allowed = ALLOWANCE_BYTES + connection.sent_bytes / SHARE;
    let rtt = spare.rtt?;
    if connection.copied_bytes + spare.mss_bytes > allowed
        || spare.room_bytes() < spare.mss_bytes
        || has_queue(spare, &rtt)
    {
        return None;
    }

    let held = spare.pacing_release.map_or(Duration::ZERO, |release| {
        release.saturating_duration_since(now)
    });
    let worth_from = held + rtt.min + rtt.min / 4;
    let age = round_trip(from, now)?.checked_sub(worth_from)?;
    Some(CopyOrder {
        which: Which::Newest,
        stream: None,
        // An application that only pauses is not at its end.
        ended: true,
        again: false,
        sent_after: Some(now.checked_sub(age)?),
        sent_before: None,
        most_bytes: spare.mss_bytes,
    })
}
