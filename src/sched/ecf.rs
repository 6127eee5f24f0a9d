//! ECF, earliest completion first: leaves a slow path alone where the end comes sooner without it.
//!
//! Min-RTT gives a slow path data as soon as the fast one is full, also when the end is near: then
//! the fast path falls idle and the transfer waits for the slow one. ECF first asks whether the
//! faster paths would have sent everything by the time the slow path needs for one flight. With k
//! the bytes to be sent, f the path of least RTT, s the open path that is asked about, F the paths
//! that are faster than s, x_F = max(k, sum of cwnd in F), x_s = max(k, cwnd_s),
//! delta = max(rttvar_f, rttvar_s), and beta = 1/4 for hysteresis, it waits for f if both hold:
//!
//! ```text
//! T_F < (1 + beta if waiting) (srtt_s + delta), T_F = (x_F + sum cwnd_i) / sum (cwnd_i / srtt_i)
//! (x_s / cwnd_s) srtt_s >= 2 srtt_f + delta
//! ```
//!
//! The first says that the faster ones are done sooner, the second that s is not done sooner anyhow.
//! With f alone in F, T_F is the paper's (1 + x_f / cwnd_f) srtt_f. s is each open path in turn, the
//! one that min-RTT would take first, until one is accepted.
//!
//! By urgency (RFC 9218): k is what is to be sent of the stream that asks, and of those that are
//! more urgent or take turns with it. While the stream has more than it could write, k has no end,
//! and ECF is min-RTT. But nothing goes to s if the faster paths can fill the receiver's window before
//! it is acknowledged, by the greatest rates r of the last ten seconds, which is BLEST's purpose:
//!
//! ```text
//! sum r_i (srtt_s + rttvar_s) > W - (packet + in flight on s)
//! ```
//!
//! What was lost waits for the path of least RTT if its acknowledgment comes sooner so, and anything
//! waits for that: an urgent stream, the end, or the window, by the two comparisons above with delta.
//! Else the slow path carries it, as new data of the stream comes after it: a path in slow start that
//! has to wait with it begins later by that time.
//!
//! A stream that is urgent or nearly done does not wait for the slow path to
//! come out even: x_F is k, and delta is none. What waits so leaves the slow path to the next
//! stream ([`Pick::Skip`]), if flow control has room for both.
//!
//! A path that is not validated yet has no RTT, and counts as one of kInitialRtt (RFC 9002).

use std::time::Instant;

use super::measure;
use super::measure::bytes_in_round_trip;
use super::measure::distance;
use super::measure::held;
use super::measure::is_open;
use super::measure::srtt;
use super::min_rtt;
use super::min_rtt::MinRtt;
use super::opportunistic;
use super::seen::Seen;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::params::Param;
use crate::registry::PathState;

/// Beta is counted in thousandths.
const THOUSAND: u128 = 1000;

/// Rates are counted in bytes in 2^40 nanoseconds.
const RATE_BITS: u32 = 40;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "ecf",
    summary: "min-rtt, but the next path is left alone if the end would come later with it",
    idea: "A slow path gets data only if the faster ones could not send all of it by the time the slow \
           one needs for a flight. What is asked about is the stream, with all that is more urgent; \
           streams that come later fill the slow path meanwhile.",
    source: "Lim, Nahum, Towsley and Gibbens, ECF, CoNEXT 2017; urgencies of RFC 9218",
    rule: "k = bytes to be sent of the stream and the more urgent ones; wait if (1 + k/cwnd_f) srtt_f < \
           (1 + beta) (srtt_s + delta) and k/cwnd_s srtt_s >= 2 srtt_f + delta; else send on s",
    use_when: "transfers have an end, and paths may be unlike",
    wrong: "it believes in srtt and window, so a path whose RTT just grew is avoided on old news, and \
            a window in slow start is taken for all that the path can carry",
    deviations: &[
        "all paths that are faster than s are counted together, and every open path is asked about, \
         so that with three paths the two fast ones share the end",
        "delta is the larger rttvar; the kernel has twice that",
        "a slow path gets nothing that could block the receiver's window for the faster ones",
        "k counts by stream and urgency; the paper has the connection's bytes",
        "a path whose pace lets out less than its window in a round trip counts with that",
        "a stream of urgency 0 or 1, or with little left, waits by the plain comparison of the times, \
         without delta, beta and the second condition",
        "what was lost waits for the path of least RTT only if the end or the window waits for it",
    ],
    params: &[
        Param::number(
            "beta",
            [0.0, 0.25, 4.0],
            "what a wait adds to the slow path's time, so that it is not given up at once; 1/4",
        ),
        Param::number(
            "urgent",
            [0.0, 1.0, 7.0],
            "urgency up to which streams never take a slower path than they need; ours",
        ),
        Param::packets(
            "short",
            [0.0, 54.0, 100_000.0],
            "the same for streams with so little left; 54 are 64 KiB; ours",
        ),
        Param::choice(
            "window",
            &["on", "off"],
            "whether a slow path is left alone that would block the receiver's window; ours",
        ),
        tail::PARAM,
        opportunistic::PARAM,
    ],
    new: |settings| {
        Box::new(Ecf {
            beta: (settings.get("beta") * THOUSAND as f64).round() as u128,
            urgent: settings.get("urgent") as u8,
            short_packets: settings.get("short") as u64,
            heeds_window: settings.word("window") == "on",
            ..Ecf::default()
        })
    },
};

/// The scheduler.
#[derive(Debug)]
pub(super) struct Ecf {
    min_rtt: MinRtt,

    /// In thousandths.
    beta: u128,
    urgent: u8,
    short_packets: u64,
    heeds_window: bool,
    seen: Seen,

    /// The last decision was to wait.
    waiting: bool,

    /// When the pacer lets a stream go that was skipped.
    wake: Option<Instant>,
}

impl Default for Ecf {
    fn default() -> Self {
        Ecf {
            min_rtt: MinRtt::default(),
            beta: THOUSAND / 4,
            urgent: 1,
            short_packets: 54,
            heeds_window: true,
            seen: Seen::default(),
            waiting: false,
            wake: None,
        }
    }
}

/// What is to be sent before the stream that asks is done.
struct Demand {
    bytes: u64,
    /// It shall not wait for a slow path.
    hasty: bool,
    /// Streams that come after it have data as well.
    has_others: bool,
}

/// RTT until something sent now is acked, in nanoseconds.
fn nanos(path: &PathState, now: Instant) -> u128 {
    srtt(path).saturating_add(held(path, now)).as_nanos()
}

/// The paths that are faster than one: sums over them.
#[derive(Default)]
struct Faster {
    /// What they carry in a round trip of each.
    window_bytes: u128,

    /// Bytes in 2^40 nanoseconds.
    rate: u128,
}

impl Faster {
    fn than(slow: &PathState, now: Instant, view: &View) -> Self {
        let mut faster = Faster::default();
        for path in view.paths().filter(|path| path.rtt.is_some()) {
            if distance(view, path) < distance(view, slow) {
                let window = u128::from(bytes_in_round_trip(path));
                faster.window_bytes += window;
                faster.rate += (window << RATE_BITS) / nanos(path, now).max(1);
            }
        }
        faster
    }

    /// T_F for so many bytes, in nanoseconds.
    fn done(&self, bytes: u128) -> u128 {
        ((bytes + self.window_bytes) << RATE_BITS) / self.rate
    }
}

impl Ecf {
    /// What the stream that asks needs, [`u64::MAX`] without an end in sight.
    fn demand(&self, view: &View, mss_bytes: u64) -> Demand {
        let connection = view.connection();
        let Some(head) = &connection.head else {
            return Demand {
                bytes: connection.unsent_or_more(),
                hasty: false,
                has_others: false,
            };
        };
        let unwritten = head.unwritten_bytes().unwrap_or(u64::MAX);
        let more_urgent = match head.urgency {
            0 => 0,
            urgency => connection.unsent_up_to(urgency - 1),
        };
        // Of the stream, and of those that it takes turns with.
        let ready = match head.incremental {
            true => connection.unsent_up_to(head.urgency).max(head.unsent_bytes),
            false => more_urgent.saturating_add(head.unsent_bytes),
        };
        let rest = head.unsent_bytes.saturating_add(unwritten);
        Demand {
            bytes: ready.saturating_add(unwritten),
            hasty: head.urgency <= self.urgent || rest <= self.short_packets * mss_bytes,
            has_others: connection.unsent_bytes > ready,
        }
    }

    /// Whether the faster paths can fill the receiver's window before something sent on `slow` is
    /// acknowledged.
    fn blocks(&self, slow: &PathState, view: &View) -> bool {
        let Some(rtt) = slow.rtt else {
            return false;
        };
        let held = slow.in_flight_bytes.saturating_add(slow.mss_bytes);
        let window = view.connection().reassembly_room_bytes;
        let faster = view
            .paths()
            .filter(|path| distance(view, path) < distance(view, slow));
        let rate = faster.fold(0, |sum: u64, path| sum.saturating_add(self.seen.rate(path)));
        let time = rtt.smoothed.saturating_add(rtt.var);
        measure::bytes_in(time, rate) > window.saturating_sub(held)
    }

    /// Whether anything waits for what was lost: the stream is urgent, or the faster paths fill the
    /// window or come to the end before something sent on `slow` is acknowledged.
    fn is_missed(&self, now: Instant, slow: &PathState, view: &View) -> bool {
        let Some(rtt) = slow.rtt else {
            return false;
        };
        let demand = self.demand(view, slow.mss_bytes);
        let faster = Faster::than(slow, now, view);
        if demand.hasty || faster.rate == 0 || self.heeds_window && self.blocks(slow, view) {
            return true;
        }
        let time = rtt.smoothed.saturating_add(rtt.var).as_nanos();
        faster.done(demand.bytes.into()) < time
    }

    /// Whether what is to be sent is done sooner if the path `slow` is left alone.
    fn waits(
        &mut self,
        now: Instant,
        fast: &PathState,
        slow: &PathState,
        view: &View,
        demand: &Demand,
    ) -> bool {
        let (Some(rtt_f), Some(rtt_s)) = (fast.rtt, measure::rtt_or_initial(slow)) else {
            return false;
        };
        let faster = Faster::than(slow, now, view);
        if faster.rate == 0 {
            return false;
        }
        if self.heeds_window && self.blocks(slow, view) {
            return true;
        }
        let k = u128::from(demand.bytes);
        let srtt_s = rtt_s.smoothed.saturating_add(held(slow, now)).as_nanos();
        if demand.hasty {
            return faster.done(k) < srtt_s;
        }

        let delta = rtt_f.var.max(rtt_s.var).as_nanos();
        let patience = THOUSAND + if self.waiting { self.beta } else { 0 };
        let window_s = u128::from(bytes_in_round_trip(slow));
        let fast_is_sooner = faster.done(k.max(faster.window_bytes))
            < patience.saturating_mul(srtt_s + delta) / THOUSAND;
        let slow_is_no_sooner = k.max(window_s).saturating_mul(srtt_s)
            >= window_s.saturating_mul(2 * nanos(fast, now) + delta);

        let waits = fast_is_sooner && slow_is_no_sooner;
        if waits || !fast_is_sooner {
            self.waiting = waits;
        }
        waits
    }
}

impl Scheduler for Ecf {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        self.wake = None;
        let pick = self.min_rtt.pick(now, view, ask);
        let Pick::Send { path, .. } = pick else {
            return pick;
        };
        if self.heeds_window {
            self.seen.look(now, view);
        }
        if !matches!(ask, Ask::New { .. }) {
            let wait = measure::wait_with_loss(now, view, ask, path);
            let is_missed = |slow| self.is_missed(now, slow, view);
            return match wait.zip(view.path(path)) {
                Some((wait, slow)) if is_missed(slow) => wait,
                _ => pick,
            };
        }
        let measured = view.paths().filter(|path| path.rtt.is_some());
        let fast = measured.clone().min_by_key(|path| distance(view, path));
        let (Some(fast), Some(mut slow)) = (fast, view.path(path)) else {
            return pick;
        };
        let demand = self.demand(view, fast.mss_bytes);
        let release = fast.pacing_release.filter(|release| *release > now);
        // Something must end the wait: an ack, or the pacer. One with room has been passed over for
        // an equal one.
        if is_open(fast, now, view, ask) || fast.in_flight_bytes == 0 && release.is_none() {
            return pick;
        }
        while fast.id != slow.id && self.waits(now, fast, slow, view, &demand) {
            let key = |path: &PathState| (distance(view, path), path.id);
            let slower = measured
                .clone()
                .filter(|path| key(path) > key(slow) && is_open(path, now, view, ask))
                .min_by_key(|path| key(path));
            slow = match slower {
                Some(path) => path,
                None if demand.has_others => {
                    self.wake = release;
                    return Pick::Skip;
                }
                None => {
                    return Pick::Wait {
                        on: fast.id,
                        until: release,
                    }
                }
            };
        }
        match slow.id == path {
            true => pick,
            false => min_rtt::burst(slow, view, ask),
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake
    }
}
