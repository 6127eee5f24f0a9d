//! Opportunistic retransmission: what fills the receiver's window is sent again on a faster path.
//!
//! When flow control lets nothing more be written, the transfer waits for the oldest byte that is
//! not acknowledged. If that is in flight on a path q, a path p that has nothing else to do repeats
//! it, if q is slow or has nearly no window:
//!
//! ```text
//! cwnd_q <= 4 packets, or 4 srtt_p < srtt_q
//! ```
//!
//! Each packet once, the oldest first, and only what p would deliver sooner than q may be expected
//! to. The slow path's window is not cut for it: that is the controller's business.

use std::time::Instant;

use super::measure::distance;
use super::CopyOrder;
use super::View;
use super::Which;
use crate::params::Param;
use crate::registry::PathId;
use crate::registry::PathState;

/// The parameter of every scheduler.
pub(super) const PARAM: Param = Param::choice(
    "opportunistic",
    &["off", "on"],
    "whether what blocks flow control on a slow path is repeated on a faster one",
);

/// A window of so many packets or fewer is next to none.
const SMALL_WINDOW_PACKETS: u64 = 4;

/// A path of so many times the RTT is slow.
const SLOW_RTT_FACTOR: u32 = 4;

/// Whether connection flow control is what stops the application.
fn is_blocked(view: &View, mss_bytes: u64) -> bool {
    view.connection().flow_control_room_bytes < mss_bytes
}

/// Whether data on `slow` shall be repeated on `fast`.
fn is_worth_it(view: &View, fast: &PathState, slow: &PathState) -> bool {
    slow.cwnd_bytes <= SMALL_WINDOW_PACKETS * slow.mss_bytes
        || distance(view, fast).saturating_mul(SLOW_RTT_FACTOR) < distance(view, slow)
}

/// What `spare` shall repeat of what `from` has in flight.
pub(super) fn copy(now: Instant, view: &View, spare: PathId, from: PathId) -> Option<CopyOrder> {
    let (spare, from) = (view.path(spare)?, view.any_path(from)?);
    let oldest = from.oldest_unacked_eliciting_sent?;
    if !is_blocked(view, spare.mss_bytes)
        || !is_worth_it(view, spare, from)
        || spare.room_bytes() < spare.mss_bytes
        || view
            .paths()
            .filter_map(|path| path.oldest_unacked_eliciting_sent)
            .any(|sent| sent < oldest)
    {
        return None;
    }
    let sooner = from.rtt?.smoothed.saturating_sub(spare.rtt?.smoothed);
    Some(CopyOrder {
        which: Which::Oldest,
        stream: None,
        ended: false,
        again: false,
        // What is that old comes any moment.
        sent_after: now.checked_sub(sooner),
        sent_before: None,
        most_bytes: spare.mss_bytes,
    })
}
