//! What schedulers ask of a path: its round-trip time and rate, whether it can take what is asked,
//! and what ends a wait if none can.

use std::time::Duration;
use std::time::Instant;

use super::way_out;
use super::Ask;
use super::Pick;
use super::View;
use super::Why;
use crate::health::Health;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Rtt;
use crate::registry::INITIAL_RTT;

/// The smoothed RTT; unmeasured paths sort after all measured ones.
pub(super) fn srtt(path: &PathState) -> Duration {
    path.rtt.map_or(Duration::MAX, |rtt| rtt.smoothed)
}

/// The RTT as it would be with both ways as long as the way out, by which paths are compared: the
/// smoothed RTT, unless more is known. Unmeasured paths sort after all measured ones.
pub(super) fn distance(view: &View, path: &PathState) -> Duration {
    if !view.has_detours() {
        return srtt(path);
    }
    let twice = |out: Duration| out.saturating_mul(2);
    way_out::by_round_trips(view, path).map_or(Duration::MAX, twice)
}

/// The RTT, or kInitialRtt for a path that takes data before it is validated.
pub(super) fn rtt_or_initial(path: &PathState) -> Option<Rtt> {
    let early = || (!path.validated).then(|| Rtt::first(INITIAL_RTT));
    path.rtt.or_else(early)
}

/// How long the pacer still holds the path.
pub(super) fn held(path: &PathState, now: Instant) -> Duration {
    path.pacing_release.map_or(Duration::ZERO, |release| {
        release.saturating_duration_since(now)
    })
}

/// How long a peer may hold back an acknowledgment: max_ack_delay, by default (RFC 9000, section 18.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);

/// When the acknowledgment of the oldest packet in flight is overdue, by a probe timeout (RFC 9002, section
/// 6.2.1). None while nothing is in flight, or without an RTT sample.
pub(super) fn overdue_at(path: &PathState) -> Option<Instant> {
    let rtt = path.rtt?;
    let own = rtt.smoothed.saturating_add(rtt.var.saturating_mul(4));
    path.oldest_unacked_eliciting_sent?
        .checked_add(own.saturating_add(MAX_ACK_DELAY))
}

/// Whether it is.
pub(super) fn is_overdue(path: &PathState, now: Instant) -> bool {
    overdue_at(path).is_some_and(|at| at <= now)
}

/// The rate that the path is worth: as delivered, else a window in a round trip. None without an
/// RTT sample.
pub(super) fn rate_bytes_per_sec(path: &PathState) -> Option<u64> {
    let by_window = |rtt: Duration| {
        let rate = u128::from(path.cwnd_bytes) * 1_000_000_000 / rtt.as_nanos().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    let srtt = path.rtt?.smoothed;
    Some(
        path.delivery_rate_bytes_per_sec
            .unwrap_or_else(|| by_window(srtt)),
    )
}

/// What the path carries in a round trip: its window, or what its pace lets out if that is less, as with
/// models, whose windows have room for acknowledgments that are late. At least a byte.
pub(super) fn bytes_in_round_trip(path: &PathState) -> u64 {
    let paced = |rate: u64| Some(bytes_in(path.rtt?.smoothed, rate));
    let paced = path.pacing_rate_bytes_per_sec.and_then(paced);
    paced
        .map_or(path.cwnd_bytes, |bytes| bytes.min(path.cwnd_bytes))
        .max(1)
}

/// How many bytes the path carries in `time` at `rate` bytes per second.
pub(super) fn bytes_in(time: Duration, rate_bytes_per_sec: u64) -> u64 {
    let bytes = time.as_nanos().saturating_mul(rate_bytes_per_sec.into()) / 1_000_000_000;
    bytes.try_into().unwrap_or(u64::MAX)
}

/// The room a path must have for what is asked.
pub(super) fn need_bytes(path: &PathState, view: &View, ask: &Ask) -> u64 {
    match ask {
        Ask::New { .. } => path.mss_bytes.min(view.connection().unsent_bytes).max(1),
        Ask::Retransmit { .. } => path.mss_bytes,
        Ask::Datagram { len_bytes } => u64::from(*len_bytes).max(1),
    }
}

/// Whether window and pacer let the path take what is asked now.
pub(super) fn is_open(path: &PathState, now: Instant, view: &View, ask: &Ask) -> bool {
    path.room_bytes() >= need_bytes(path, view, ask) && held(path, now).is_zero()
}

/// The answer when no path is open: wait for the first pacer, or for an acknowledgment.
pub(super) fn wait(now: Instant, view: &View, ask: &Ask) -> Pick {
    let paced = view
        .paths()
        .filter(|path| path.room_bytes() >= need_bytes(path, view, ask))
        .filter(|path| !held(path, now).is_zero())
        .min_by_key(|path| path.pacing_release);
    let full = || view.paths().min_by_key(|path| distance(view, path));
    match (paced, paced.or_else(full)) {
        (Some(path), _) => Pick::Wait {
            on: path.id,
            until: path.pacing_release,
        },
        (None, Some(path)) => Pick::Wait {
            on: path.id,
            until: None,
        },
        (None, None) => Pick::None,
    }
}

/// The answer if what the path of least RTT lost had better wait for it than be sent on `path`,
/// because its acknowledgment comes sooner so. Else what the receiver holds back for it waits for a
/// slow path. What another path lost may be more than the fast one carries in long.
pub(super) fn wait_with_loss(now: Instant, view: &View, ask: &Ask, path: PathId) -> Option<Pick> {
    let Ask::Retransmit {
        from,
        tried,
        why: Why::Lost,
        ..
    } = ask
    else {
        return None;
    };
    let slow = view.path(path).filter(|slow| !tried.contains(slow.id))?;
    let measured = view.paths().filter(|path| path.rtt.is_some());
    let fast = measured
        .min_by_key(|path| distance(view, path))
        .filter(|path| path.id == *from && path.health == Health::Healthy)?;
    let release = fast.pacing_release.filter(|release| *release > now);
    let can_end = fast.in_flight_bytes > 0 || release.is_some();
    if !can_end || is_open(fast, now, view, ask) {
        return None;
    }
    // Until the window, cut by the loss, has room again.
    let cwnd = u128::from(fast.cwnd_bytes.max(1));
    let full = u128::from(fast.in_flight_bytes) + u128::from(fast.mss_bytes);
    let drain = (srtt(fast).as_nanos()).saturating_mul(full.saturating_sub(cwnd)) / cwnd;
    let back = srtt(fast).as_nanos() + drain + held(fast, now).as_nanos();
    (back < srtt(slow).as_nanos()).then_some(Pick::Wait {
        on: fast.id,
        until: release,
    })
}
