//! One path under watch: its timers and the equations behind them.

use std::time::Duration;
use std::time::Instant;

use super::ack_clock::AckClock;
use super::Health;
use super::Params;
use crate::registry::PathState;
use crate::registry::INITIAL_RTT;

/// kGranularity (RFC 9002, section 6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// Packets that must be in flight for missing acks to mean anything.
const CLOCKED_PACKETS: u64 = 4;

/// Acked probes that a returning path must show.
const RETURN_PROBES: u32 = 2;

/// Between the probes of a silent path, in P: a probe arms the transport's timer anew, and of that the first three
/// timeouts, of 1, 2 and 4 P, send data again, and find out what is too large.
const SILENT_PTOS: u32 = 5;

/// A failure longer than this many P makes the old RTT estimate worthless.
const RTT_RESTART: u32 = 3;

/// The smoothed RTT, or what stands in for it.
pub(super) fn srtt(path: &PathState) -> Duration {
    path.rtt.map_or(INITIAL_RTT, |rtt| rtt.smoothed)
}

/// Whether missing acks mean something.
fn is_busy(path: &PathState) -> bool {
    path.in_flight_bytes >= CLOCKED_PACKETS * path.mss_bytes
}

/// P = srtt + max(4 rttvar, 1 ms) + max_ack_delay (RFC 9002, section 6.2.1), without back-off.
pub(super) fn probe_timeout(path: &PathState, params: &Params) -> Duration {
    let var = path.rtt.map_or(INITIAL_RTT / 2, |rtt| rtt.var);
    srtt(path) + (4 * var).max(GRANULARITY) + params.max_ack_delay
}

/// T_suspect where the ack clock runs: min(P, max(75 ms, 3 max_ack_delay, gap + 4 gdev + 25 ms)).
fn suspect_after(p: Duration, gap_bound: Duration, params: &Params) -> Duration {
    let floor = params.min_suspect.max(3 * params.max_ack_delay);
    p.min(floor.max(gap_bound + params.gap_margin))
}

/// How long a suspect's probe may take: min(P, srtt_best + max_ack_delay), srtt_best being the RTT
/// of the best other path.
fn probe_allowance(p: Duration, srtt_best: Duration, params: &Params) -> Duration {
    p.min(srtt_best + params.max_ack_delay)
}

/// What is known about one path.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    pub(super) health: Health,
    /// When `health` was entered.
    pub(super) since: Instant,
    /// When packets of the path were last newly acked.
    pub(super) last_progress: Instant,
    /// What was in flight then, and still not acked.
    pub(super) awaited_bytes: u64,
    /// The oldest eliciting packet sent since then.
    pub(super) sent_since_progress: Option<Instant>,
    pub(super) clock: AckClock,
    /// P when it became suspect.
    suspect_p: Duration,
    /// The system said that nothing can leave by the path.
    pub(super) link_down: bool,
    /// Consecutive probe timeouts.
    pub(super) pto_count: u32,
    /// When a path that is not healthy is probed next; `None` once it was given up. A suspect path
    /// is probed again only if there is no other.
    pub(super) next_probe: Option<Instant>,
    /// The probe interval that follows.
    probe_interval: Duration,
    /// P when it was probed first.
    probe_p: Duration,
    /// Whether the last probe of a recovering path was not answered.
    pub(super) is_unanswered: bool,
    /// How long probes of a failed path were waited for while another one was healthy.
    pub(super) waited: Duration,
    /// Probes answered in this recovery.
    pub(super) acked_probes: u32,
    /// When the last probe left, or probing began.
    probed_at: Instant,
    /// The longest that an answer of this recovery took.
    slowest_answer: Duration,
    /// When the last failure began; P when the path worked last; how long the failure lasted.
    failed_at: Instant,
    failed_p: Duration,
    failed_for: Duration,
    /// The last failure came soon after the path had come back.
    flapped: bool,
    /// When it last failed while it carried data, more was in flight than is lost by chance.
    was_busy: bool,
    /// When the path last came back from a failure.
    returned_at: Option<Instant>,
    /// How long a recovering path is held back.
    pub(super) hold: Duration,
}

impl Watch {
    pub(super) fn new(now: Instant, params: &Params) -> Self {
        Watch {
            health: Health::Healthy,
            since: now,
            last_progress: now,
            awaited_bytes: 0,
            sent_since_progress: None,
            clock: AckClock::default(),
            suspect_p: Duration::ZERO,
            link_down: false,
            pto_count: 0,
            next_probe: None,
            probe_interval: Duration::ZERO,
            probe_p: Duration::ZERO,
            is_unanswered: false,
            waited: Duration::ZERO,
            acked_probes: 0,
            probed_at: now,
            slowest_answer: Duration::ZERO,
            failed_at: now,
            failed_p: Duration::ZERO,
            failed_for: Duration::ZERO,
            flapped: false,
            was_busy: false,
            returned_at: None,
            hold: params.min_hold,
        }
    }

    /// No silence is needed to know that the path is gone.
    pub(super) fn fails_at_once(&self, params: &Params) -> bool {
        self.link_down || self.pto_count >= params.failing_ptos
    }

    /// When the silence began, while anything waits for an ack.
    fn silent_from(&self, path: &PathState) -> Option<Instant> {
        path.oldest_unacked_eliciting_sent?;
        // Its own probe does not make the silence shorter of what was under way by then.
        if self.awaited_bytes >= CLOCKED_PACKETS * path.mss_bytes {
            return Some(self.last_progress);
        }
        Some(
            self.last_progress
                .max(self.sent_since_progress.unwrap_or(self.last_progress)),
        )
    }

    /// When a healthy path becomes suspect, if no ack comes.
    pub(super) fn suspect_at(&self, path: &PathState, params: &Params) -> Option<Instant> {
        let from = self.silent_from(path)?;
        let sent = path.oldest_unacked_eliciting_sent?;
        let p = probe_timeout(path, params);

        let Some(gap_bound) = self.clock.gap_bound().filter(|_| is_busy(path)) else {
            return Some(from + p);
        };
        // A gap counts from when the oldest packet's ack could be back: a sender that resumes is
        // not silent.
        let min_rtt = path.rtt.map_or(Duration::ZERO, |rtt| rtt.min);
        let gap_from = from.max(sent + min_rtt);
        Some((from + p).min(gap_from + suspect_after(p, gap_bound, params)))
    }

    /// When a suspect path fails, if no ack comes: at silence max(P, 75 ms) + the probe's time, and
    /// not before the probe, sent when suspicion began, had that time.
    pub(super) fn fail_at(
        &self,
        path: &PathState,
        srtt_best: Duration,
        params: &Params,
    ) -> Option<Instant> {
        let from = self.silent_from(path)?;
        let p = probe_timeout(path, params);
        let allowance = probe_allowance(p, srtt_best, params);
        Some((from + p.max(params.min_suspect) + allowance).max(self.since + allowance))
    }

    /// When a recovering path is taken back; not while a probe is unanswered.
    pub(super) fn return_at(&self, path: &PathState, params: &Params) -> Option<Instant> {
        let answered = self.acked_probes >= RETURN_PROBES && !self.is_unanswered;
        answered.then_some(self.hold_ends(path, params))
    }

    fn hold_ends(&self, path: &PathState, params: &Params) -> Instant {
        self.since + self.hold.max(srtt(path)).max(params.min_return)
    }

    pub(super) fn enter(&mut self, now: Instant, health: Health) {
        self.health = health;
        self.since = now;
    }

    /// Suspects the path, which is probed at once.
    pub(super) fn suspect(&mut self, now: Instant, path: &PathState, params: &Params) {
        let p = probe_timeout(path, params);
        self.enter(now, Health::Suspect);
        self.suspect_p = p;
        self.is_unanswered = false;
        self.schedule_probes(now, p);
    }

    /// Whether an acknowledgment that came on another path, of what was `sent` then, says that this one works
    /// now: where it took no longer than P, or is the answer to a probe.
    pub(super) fn is_in_time(&self, now: Instant, sent: Instant) -> bool {
        match self.health {
            Health::Suspect => {
                sent >= self.since || now.saturating_duration_since(sent) <= self.suspect_p
            }
            Health::Recovering => !self.is_unanswered || sent >= self.probed_at,
            Health::Healthy | Health::Failed => true,
        }
    }

    /// The next probe is due in P, and the others in 2P, 4P and so on after it.
    fn schedule_probes(&mut self, now: Instant, p: Duration) {
        self.next_probe = Some(now + p);
        self.probe_interval = 2 * p;
        self.probe_p = p;
        self.probed_at = now;
    }

    /// The longest pause between two probes. `alone` is whether no other path is healthy.
    fn max_probe_interval(&self, alone: bool, params: &Params) -> Duration {
        let (min, max) = match alone {
            true => (
                params.min_probe_interval_alone,
                params.max_probe_interval_alone,
            ),
            false => (params.min_probe_interval, params.max_probe_interval),
        };
        (SILENT_PTOS * self.probe_p)
            .clamp(min, max)
            .max(self.probe_p)
    }

    /// When a silent path is probed next. One put off while others were healthy is not, once they no longer are.
    pub(super) fn probe_due(&self, alone: bool, params: &Params) -> Option<Instant> {
        let next_probe = self.next_probe?;
        Some(match alone {
            true => next_probe.min(self.probed_at + self.max_probe_interval(alone, params)),
            false => next_probe,
        })
    }

    /// Fails the path.
    pub(super) fn fail(&mut self, now: Instant, path: &PathState, params: &Params) {
        let p = probe_timeout(path, params);
        let worked_for = match (self.health, self.returned_at) {
            (Health::Recovering, _) => Some(Duration::ZERO),
            (_, returned_at) => returned_at.map(|at| now.saturating_duration_since(at)),
        };
        self.flapped = worked_for.is_some_and(|worked| worked < params.worth_holds * self.hold);
        self.wear_off(worked_for.unwrap_or(Duration::MAX), params);
        if self.health != Health::Recovering {
            self.was_busy = is_busy(path);
            self.failed_p = p;
        }
        self.enter(now, Health::Failed);
        self.clock = AckClock::default();
        self.failed_at = now;
        self.schedule_probes(now, p);
        self.is_unanswered = false;
        self.waited = Duration::ZERO;
    }

    /// Shortens the hold time by what the path has worked since it came back.
    fn wear_off(&mut self, mut worked_for: Duration, params: &Params) {
        while self.hold > params.min_hold && worked_for >= params.worth_holds * self.hold {
            worked_for -= params.worth_holds * self.hold;
            self.hold = (self.hold / 2).max(params.min_hold);
        }
    }

    /// A probe of a silent path goes out: intervals P, 2P, 4P and so on, up to the longest.
    ///
    /// The wait for one while no path works does not count against this one: it may be everything that is down.
    pub(super) fn probe_silent(&mut self, now: Instant, alone: bool, params: &Params) {
        let max = self.max_probe_interval(alone, params);
        if !alone {
            self.waited += now.saturating_duration_since(self.probed_at);
        }
        self.probed_at = now;
        self.next_probe = Some(now + self.probe_interval.min(max));
        self.probe_interval = (2 * self.probe_interval).min(max);
    }

    /// A failed path answered. Outages soon after a return lengthen the time for which it is held back; where the first probe
    /// or the second is answered and little was in flight, packets were merely lost.
    ///
    /// `sent` is when what was answered had left.
    pub(super) fn recover(
        &mut self,
        now: Instant,
        path: &PathState,
        sent: Instant,
        params: &Params,
    ) {
        self.enter(now, Health::Recovering);
        self.failed_for = now.saturating_duration_since(self.failed_at);
        if self.flapped && (self.link_down || self.was_busy || self.failed_long()) {
            self.hold = (2 * self.hold).min(params.max_hold);
        }
        self.link_down = false;
        self.acked_probes = 0;
        self.is_unanswered = false;
        self.slowest_answer = Duration::ZERO;
        self.answered(now, path, sent, params);
    }

    /// A recovering path answered what it had `sent` then.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        path: &PathState,
        sent: Instant,
        params: &Params,
    ) {
        self.acked_probes += 1;
        self.is_unanswered = false;
        self.slowest_answer = self.slowest_answer.max(now.saturating_duration_since(sent));
        let pause = srtt(path).max(params.min_return);
        // The last answer comes when the hold time ends, so that no dead path is taken back.
        let last = self
            .hold_ends(path, params)
            .checked_sub(srtt(path))
            .filter(|last| *last > now);
        self.next_probe = Some(match last {
            Some(last) => (now
                + pause
                    .max(self.hold / 4)
                    .min(params.max_hold_interval.max(pause)))
            .min(last),
            None => now + pause,
        });
    }

    fn failed_long(&self) -> bool {
        self.failed_for > RTT_RESTART * self.failed_p
    }

    /// A probe of a recovering path goes out.
    ///
    /// It has P to be answered, but no longer than answers took lately: a sample from the end of an outage
    /// makes P as long as the outage, and the next one would fit between a probe and its answer.
    pub(super) fn probe_recovering(&mut self, now: Instant, path: &PathState, params: &Params) {
        let lately = self
            .failed_p
            .max(2 * self.slowest_answer + params.max_ack_delay);
        self.is_unanswered = true;
        self.probed_at = now;
        self.next_probe = Some(now + probe_timeout(path, params).min(lately));
    }

    /// A recovering path carries data again. Returns whether its RTT must start anew.
    pub(super) fn take_back(&mut self, now: Instant) -> bool {
        self.enter(now, Health::Healthy);
        self.returned_at = Some(now);
        self.next_probe = None;
        self.failed_long()
    }
}
