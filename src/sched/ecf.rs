//! ECF, earliest completion first (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP Path Scheduler to
//! Manage Heterogeneous Paths", CoNEXT 2017).
//!
//! Min-RTT gives a slow path data as soon as the fast one is full, also when the end is near: then
//! the fast path falls idle and the transfer waits for the slow one. ECF first asks whether the
//! fast path would have sent everything by the time the slow path needs for one flight. With k the
//! bytes not sent yet, f the path of least RTT, s the one that min-RTT would spill to,
//! x_f = max(k, cwnd_f), x_s = max(k, cwnd_s), delta = max(rttvar_f, rttvar_s), and beta = 1/4 for
//! hysteresis, it waits for f if both hold:
//!
//! ```text
//! (1 + x_f / cwnd_f) srtt_f < (1 + beta if waiting) (srtt_s + delta)
//! (x_s / cwnd_s) srtt_s >= 2 srtt_f + delta
//! ```
//!
//! The first says that f is done sooner, the second that s is not done sooner anyhow. While the
//! application has more than it could write, k has no end, and ECF is min-RTT.
//!
//! A path that is not validated yet has no RTT, and counts as one of kInitialRtt (RFC 9002).
//!
//! What it gets wrong: it believes in srtt and window, so a path whose RTT just grew is avoided on
//! old news.

use std::time::Duration;
use std::time::Instant;

use super::min_rtt::MinRtt;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::registry::PathState;
use crate::registry::Rtt;
use crate::registry::INITIAL_RTT;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "ecf",
    summary: "min-rtt, but the next path is left alone if the end would come later with it",
    source: "Lim, Nahum, Towsley and Gibbens, ECF, CoNEXT 2017",
    params: &[tail::PARAM],
    new: |_| Box::<Ecf>::default(),
};

/// The scheduler.
#[derive(Debug, Default)]
struct Ecf {
    min_rtt: MinRtt,

    /// The last decision was to wait.
    waiting: bool,
}

/// What the comparison needs of a path: its window, its RTT until something sent now is acked, and
/// the RTT's variation.
fn figures(path: &PathState, now: Instant) -> Option<(u128, u128, u128)> {
    let early = || (!path.validated).then(|| Rtt::first(INITIAL_RTT));
    let rtt = path.rtt.or_else(early)?;
    let held = path.pacing_release.map_or(Duration::ZERO, |release| {
        release.saturating_duration_since(now)
    });
    let nanos = rtt.smoothed.saturating_add(held).as_nanos();
    Some((path.cwnd_bytes.max(1).into(), nanos, rtt.var.as_nanos()))
}

impl Ecf {
    /// Whether what is unsent is done sooner if the path `slow` is left alone.
    fn waits(&mut self, now: Instant, fast: &PathState, slow: &PathState, view: &View) -> bool {
        let (Some((cwnd_f, srtt_f, var_f)), Some((cwnd_s, srtt_s, var_s))) =
            (figures(fast, now), figures(slow, now))
        else {
            return false;
        };
        let k = u128::from(view.connection().unsent_bytes);
        let delta = var_f.max(var_s);

        // Both sides of the first line times 4 cwnd_f, of the second times cwnd_s. Saturating: no
        // real window and RTT come near.
        let (x_f, x_s) = (k.max(cwnd_f), k.max(cwnd_s));
        let done_f = (4 * (cwnd_f + x_f)).saturating_mul(srtt_f);
        let patience = 4 + u128::from(self.waiting);
        let fast_is_sooner = done_f < (patience * cwnd_f).saturating_mul(srtt_s + delta);
        let slow_is_no_sooner =
            x_s.saturating_mul(srtt_s) >= cwnd_s.saturating_mul(2 * srtt_f + delta);

        let waits = fast_is_sooner && slow_is_no_sooner;
        if waits || !fast_is_sooner {
            self.waiting = waits;
        }
        waits
    }
}

impl Scheduler for Ecf {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        let pick = self.min_rtt.pick(now, view, ask);
        let (Ask::New { .. }, Pick::Send { path, .. }) = (ask, pick) else {
            return pick;
        };
        if view.connection().more_expected {
            self.waiting = false;
            return pick;
        }
        let measured = view.paths().filter(|path| path.rtt.is_some());
        let fast = measured.min_by_key(|path| path.rtt.map(|rtt| rtt.smoothed));
        let (Some(fast), Some(slow)) = (fast, view.path(path)) else {
            return pick;
        };
        let release = fast.pacing_release.filter(|release| *release > now);
        // Something must end the wait: an ack, or the pacer.
        let can_wait = fast.in_flight_bytes > 0 || release.is_some();
        if fast.id != slow.id && can_wait && self.waits(now, fast, slow, view) {
            return Pick::Wait {
                on: fast.id,
                until: release,
            };
        }
        pick
    }
}
