//! BLEST: what a slow path would hold up of the receiver's window is left for the fast one.
//!
//! A packet on the slow path s is in the way of all that the fast path f could send until it is
//! acknowledged: behind it, the receiver's window fills. With W bytes of window from the oldest
//! byte that is not acknowledged, X what f sends until then, and fl what is in flight:
//!
//! ```text
//! linger = max(srtt_s, min_s + (max_s - min_s) (fl_s + packet) / cwnd_s)
//! n = floor(linger / ((min_f + max_f) / 2)) + 1 round trips of f
//! X = cwnd_f (2^n - 1) in slow start, n <= 16; else (max(cwnd_f, ssthresh_f + 1) + (n - 1)/2) n
//! send on s if lambda X <= W - (packet + fl_s), else wait for f
//! ```
//!
//! with the least and the greatest smoothed RTT of the last ten seconds, and X at most what the
//! greatest rate of f in these carries in that time. Lambda moves with what became of it: 0.04 up when the window was blocked and
//! the oldest packet was on a slower path, else 0.01 down, once in a round trip of the fast path.

use std::time::Duration;
use std::time::Instant;

use super::measure;
use super::measure::distance;
use super::measure::srtt;
use super::min_rtt::MinRtt;
use super::opportunistic;
use super::seen::Range;
use super::seen::Seen;
use super::tail;
use super::Ask;
use super::Entry;
use super::Event;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::params::Param;
use crate::registry::PathState;

/// Lambda is counted in hundredths.
const HUNDRED: u64 = 100;

/// The range of lambda.
const LAMBDA: [u64; 2] = [100, 130];

/// What lambda gains when the window was blocked by a slow path.
const LAMBDA_UP: u64 = 4;

/// What it loses when it was not.
const LAMBDA_DOWN: u64 = 1;

/// Round trips that a slow start is thought to go on.
const SLOW_START_ROUNDS: u128 = 16;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "blest",
    summary: "min-rtt, but a slow path gets nothing that would block the receiver's window",
    idea: "Before data goes to a slow path, BLEST estimates what the fast one could send until that is \
           acknowledged. If the receiver's window has no room for both, the fast path is waited for.",
    source: "Ferlin, Alay, Mehani and Boreli, BLEST, IFIP Networking 2016",
    rule: "X = what the fast path sends while the packet is under way on s; send on s if lambda X <= W \
           - (packet + in flight on s), else wait for the fast path",
    use_when: "receivers have small windows and paths are unlike",
    wrong: "it protects the window, not the end of a transfer: with a window of several megabytes it \
            never waits, and is min-rtt with its last packet on the slowest path",
    deviations: &[
        "X is at most what the greatest rate of the last 10 s carries in that time: by Reno's growth 31 \
         round trips of 20 packets are 1.56 MB where 10 Mbit/s carry 375 kB",
        "the least and the greatest RTT are those of the last 10 s; the kernel's are for ever",
        "lambda rises when flow control blocks while the oldest packet in flight is on a slower path; \
         the kernel's rises with its opportunistic retransmissions",
        "a path without an RTT sample is treated as by min-rtt",
    ],
    params: &[
        Param::number(
            "lambda",
            [1.0, 1.2, 1.3],
            "factor of what the fast path is expected to send, at first; it moves between 1 and 1.3",
        ),
        tail::PARAM,
        opportunistic::PARAM,
    ],
    new: |settings| {
        Box::new(Blest {
            min_rtt: MinRtt::default(),
            seen: Seen::default(),
            lambda: (settings.get("lambda") * HUNDRED as f64).round() as u64,
            adapted: None,
            blocked: false,
        })
    },
};

/// The scheduler.
#[derive(Debug)]
struct Blest {
    min_rtt: MinRtt,

    seen: Seen,

    /// In hundredths.
    lambda: u64,

    /// When lambda moved last.
    adapted: Option<Instant>,

    /// Since then, the window was blocked while a slower path had the oldest packet.
    blocked: bool,
}

/// How long a packet on the path is under way, with what is there already.
fn linger(path: &PathState, srtt: Duration, range: &Range) -> Duration {
    let full = path.in_flight_bytes.saturating_add(path.mss_bytes);
    let cwnd = path.cwnd_bytes.max(1);
    let spread = range
        .most_rtt()
        .saturating_sub(range.least_rtt())
        .as_nanos();
    let part = spread.saturating_mul(full.min(cwnd).into()) / u128::from(cwnd);
    let part = Duration::from_nanos(part.try_into().unwrap_or(u64::MAX));
    srtt.max(range.least_rtt().saturating_add(part))
}

/// What Reno sends on the path in `time`.
fn reno_bytes(path: &PathState, time: Duration, range: &Range) -> u128 {
    let mss = u128::from(path.mss_bytes);
    let rtt = (range.least_rtt().as_nanos() + range.most_rtt().as_nanos()) / 2;
    let rounds = time.as_nanos() / rtt.max(1) + 1;
    let cwnd = u128::from(path.cwnd_bytes) / mss;
    if path.in_slow_start() {
        let rounds = rounds.min(SLOW_START_ROUNDS);
        return cwnd * ((1 << rounds) - 1) * mss;
    }
    let window = cwnd.max(u128::from(path.ssthresh_bytes) / mss + 1);
    // Twice, for the half of the rounds.
    (2 * window + rounds - 1).saturating_mul(rounds) / 2 * mss
}

impl Blest {
    /// Keeps what the paths have shown, and lambda, up to date.
    fn observe(&mut self, now: Instant, view: &View, fast: Duration) {
        self.seen.look(now, view);
        let due = self
            .adapted
            .is_none_or(|at| now.saturating_duration_since(at) >= fast);
        if !due {
            return;
        }
        if self.adapted.is_some() {
            self.lambda = match std::mem::take(&mut self.blocked) {
                true => self.lambda + LAMBDA_UP,
                false => self.lambda - LAMBDA_DOWN,
            }
            .clamp(LAMBDA[0], LAMBDA[1]);
        }
        self.adapted = Some(now);
    }

    /// Whether data on `slow` would block the window for what `fast` can send.
    fn blocks(&self, slow: &PathState, fast: &PathState, view: &View) -> bool {
        let (Some(slow_range), Some(fast_range), Some(rtt)) =
            (self.seen.of(slow.id), self.seen.of(fast.id), slow.rtt)
        else {
            return false;
        };
        let time = linger(slow, rtt.smoothed, slow_range);
        let rate = self.seen.rate(fast);
        let bytes = reno_bytes(fast, time, fast_range).min(measure::bytes_in(time, rate).into());
        let expected = bytes.saturating_mul(self.lambda.into()) / u128::from(HUNDRED);
        let held = slow.in_flight_bytes.saturating_add(slow.mss_bytes);
        let window = view.connection().reassembly_room_bytes;
        expected > u128::from(window.saturating_sub(held))
    }
}

impl Scheduler for Blest {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        let pick = self.min_rtt.pick(now, view, ask);
        let measured = view.paths().filter(|path| path.rtt.is_some());
        let Some(fast) = measured.min_by_key(|path| distance(view, path)) else {
            return pick;
        };
        self.observe(now, view, srtt(fast));

        let Pick::Send { path, .. } = pick else {
            return pick;
        };
        if !matches!(ask, Ask::New { .. }) {
            return measure::wait_with_loss(now, view, ask, path).unwrap_or(pick);
        }
        let release = fast.pacing_release.filter(|release| *release > now);
        // Something must end the wait: an ack, or the pacer. One with room has been passed over for
        // an equal one.
        let can_wait = !measure::is_open(fast, now, view, ask)
            && (fast.in_flight_bytes > 0 || release.is_some());
        match view.path(path) {
            Some(slow) if slow.id != fast.id && can_wait && self.blocks(slow, fast, view) => {
                Pick::Wait {
                    on: fast.id,
                    until: release,
                }
            }
            _ => pick,
        }
    }

    fn listens(&self) -> bool {
        true
    }

    fn on_event(&mut self, _now: Instant, view: &View, event: &Event) {
        let Event::FlowBlocked { stream: None } = event else {
            return;
        };
        let fast = view.paths().filter(|path| path.rtt.is_some());
        let fast = fast.min_by_key(|path| distance(view, path));
        let oldest = view
            .paths()
            .filter(|path| path.oldest_unacked_eliciting_sent.is_some())
            .min_by_key(|path| path.oldest_unacked_eliciting_sent);
        if let (Some(fast), Some(oldest)) = (fast, oldest) {
            self.blocked |= distance(view, oldest) > distance(view, fast);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::seen::tests::range;
    use super::*;
    use crate::registry::PathId;
    use crate::registry::Rtt;

    const MS: Duration = Duration::from_millis(1);

    fn path(srtt_ms: u32, cwnd_packets: u64) -> PathState {
        let mut path = PathState::new(PathId(0), 1200);
        path.rtt = Some(Rtt::first(MS * srtt_ms));
        path.cwnd_bytes = cwnd_packets * 1200;
        path
    }

    #[test]
    fn what_reno_sends() {
        // 300/10 + 1 = 31 round trips, (20 + 30/2) 31 = 1085 packets.
        let mut fast = path(10, 20);
        fast.ssthresh_bytes = 10 * 1200;
        assert_eq!(reno_bytes(&fast, MS * 300, &range(10, 10)), 1085 * 1200);
        // By the mean of least and greatest RTT: 300/15 + 1 = 21, (20 + 20/2) 21 = 630.
        assert_eq!(reno_bytes(&fast, MS * 300, &range(10, 20)), 630 * 1200);
        // A window below the threshold, after slow start: it is taken to have jumped there already.
        fast.ssthresh_bytes = 20 * 1200;
        assert_eq!(reno_bytes(&fast, MS, &range(10, 10)), 21 * 1200);
    }

    #[test]
    fn what_slow_start_sends() {
        // 40/10 + 1 = 5 round trips: 10 (2^5 - 1).
        let fast = path(10, 10);
        assert_eq!(reno_bytes(&fast, MS * 40, &range(10, 10)), 310 * 1200);
        // No more than 16.
        let most = 10 * ((1 << 16) - 1) * 1200;
        assert_eq!(reno_bytes(&fast, MS * 400, &range(10, 10)), most);
    }

    #[test]
    fn how_long_a_packet_lingers() {
        // (5 + 1) of 12 packets: half way from 200 to 400.
        let mut slow = path(250, 12);
        slow.in_flight_bytes = 5 * 1200;
        assert_eq!(linger(&slow, MS * 250, &range(200, 400)), MS * 300);
        assert_eq!(linger(&slow, MS * 310, &range(200, 400)), MS * 310);
        slow.in_flight_bytes = 50 * 1200;
        assert_eq!(linger(&slow, MS * 250, &range(200, 400)), MS * 400);
    }

    #[test]
    fn lambda_moves_once_in_a_round_trip() {
        use crate::registry::Registry;
        use crate::sched::Connection;

        let lambda = |oldest_ms, blocked: bool, after_ms| {
            let mut paths = Registry::new();
            for (id, rtt_ms) in [(0, 100), (1, oldest_ms)] {
                let path = paths.add(PathId(id), 1200);
                path.validated = true;
                path.rtt = Some(Rtt::first(MS * rtt_ms));
            }
            let now = Instant::now();
            paths
                .get_mut(PathId(1))
                .unwrap()
                .oldest_unacked_eliciting_sent = Some(now);
            let connection = Connection::default();
            let view = View::new(&paths, &connection);
            let mut blest = Blest {
                min_rtt: MinRtt::default(),
                seen: Seen::default(),
                lambda: 120,
                adapted: None,
                blocked: false,
            };
            blest.observe(now, &view, 100 * MS);
            if blocked {
                blest.on_event(now, &view, &Event::FlowBlocked { stream: None });
            }
            blest.observe(now + after_ms * MS, &view, 100 * MS);
            blest.lambda
        };
        assert_eq!(lambda(300, true, 100), 124);
        assert_eq!(lambda(300, false, 100), 119);
        assert_eq!(lambda(300, true, 99), 120);
        // The oldest packet is on a path that is no slower.
        assert_eq!(lambda(100, true, 100), 119);
    }
}
