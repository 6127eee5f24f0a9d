//! XLINK: what is late on one path is repeated on another, as far as the viewer needs it.
//!
//! Data is sent by ecf. The client reports how long its buffer lasts, dt; without news for two
//! seconds nothing is known, and nothing is repeated but tails. The time until the deadline of the
//! head stream counts as well, if that is less. Two thresholds gate the copies:
//!
//! ```text
//! dt > T2: none;  dt < T1: yes, before new data
//! T1 <= dt <= T2: if srtt + rttvar > dt for a path with data in flight
//! ```
//!
//! A path is overdue when its oldest packet in flight has waited for longer than srtt + 4 rttvar +
//! 25 ms, a probe timeout of RFC 9002. The link may have stopped, and then all that is in flight
//! there is late, not the oldest packets alone: all of it is repeated on a path that is not overdue,
//! the oldest first, each packet once. New data takes other paths meanwhile. That is sooner than the
//! failure detector moves anything, and goes on where that does not look: on paths on their way back
//! from a failure.
//!
//! As what stops is repeated, those paths may carry new data, too, while dt < T1: after a few
//! failures they are held back for seconds, in which one link alone would have to carry everything.
//!
//! Tails are repeated as by the other schedulers. Where something is known of the viewer they count, and have what
//! is above three quarters of the bucket: over links that stop they were two thirds of all copies.
//!
//! The budget is a bucket: a share of what is sent, and no more than a burst at once, which is about
//! what a stopped link holds. Reports come from outside: all they can do is to open that budget, and
//! to let paths be used that come back.

use std::time::Duration;
use std::time::Instant;

use super::ecf::Ecf;
use super::measure;
use super::opportunistic;
use super::tail;
use super::Ask;
use super::CopyOrder;
use super::Entry;
use super::Event;
use super::Moment;
use super::Pick;
use super::Scheduler;
use super::View;
use super::Which;
use crate::params::Param;
use crate::registry::PathId;
use crate::registry::PathState;

/// A report that is older says nothing.
const STALE: Duration = Duration::from_secs(2);

/// The share is counted in ten-thousandths.
const SHARE_ONE: u64 = 10_000;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "xlink",
    summary: "ecf, and what is late is repeated while the viewer's buffer is low",
    idea: "Video data that waits on a path without acknowledgments is sent on another as well, before \
           new data if the client reports that it will stall soon, and not at all while its buffer is \
           full.",
    source: "Zheng et al., XLINK, SIGCOMM 2021",
    rule: "dt = play time left as reported; dt < t1: repeat what is on an overdue path, before new data; \
           dt > t2: nothing; between: repeat if a path's srtt + rttvar > dt; overdue: the oldest packet \
           in flight is older than srtt + 4 rttvar + 25 ms; within the budget",
    use_when: "a player that reports its buffer watches over links that stop now and then",
    wrong: "clients that report nothing get no more than ecf; and a queue that grows within one round trip \
            looks like a link that stopped",
    deviations: &[
        "the thresholds are times; the paper has percentiles of what its clients report",
        "ecf carries the originals; the paper has min-rtt",
        "what is late follows from the acknowledgments of its path; the paper repeats all that is in \
         flight",
        "copies go before all new data or after it, the oldest first; the paper's go right after the data \
         of their own stream, and of a stream the frame first that the application marks",
        "the newest report counts, of audio as of video",
        "paths on their way back from a failure carry new data while dt < t1",
        "the budget is ours, and holds whatever is reported",
        "the deadline of a stream counts like the play time left",
        "tails are repeated, too; where something is known of the viewer, while the budget is three quarters full",
    ],
    params: &[
        Param::time(
            "t1",
            [0.0, 6.0, 3600.0],
            "play time left below which late data is repeated before new data",
        ),
        Param::time(
            "t2",
            [0.0, 8.0, 3600.0],
            "play time left above which nothing is repeated",
        ),
        Param::choice(
            "unknown",
            &["off", "on"],
            "whether late data is repeated while no report says anything",
        ),
        Param::number(
            "share",
            [0.0, 0.02, 1.0],
            "part of the bytes sent that may be copies",
        ),
        Param::packets(
            "burst",
            [0.0, 400.0, 100_000.0],
            "copies at once, however little was sent before; 400 are half a megabyte",
        ),
        tail::PARAM,
        opportunistic::PARAM,
    ],
    new: |settings| {
        let time = |name| Duration::from_secs_f64(settings.get(name));
        Box::new(Xlink {
            ecf: Ecf::default(),
            t1: time("t1"),
            t2: time("t2"),
            unknown: settings.word("unknown") == "on",
            share: (settings.get("share") * SHARE_ONE as f64).round() as u64,
            burst_packets: settings.get("burst") as u64,
            budget: None,
            gate: Gate::Off,
            allows_tail: true,
            wake: None,
        })
    },
};

/// The scheduler.
#[derive(Debug)]
struct Xlink {
    ecf: Ecf,
    t1: Duration,
    t2: Duration,

    /// Repeats while nothing is known of the viewer.
    unknown: bool,

    /// In ten-thousandths.
    share: u64,
    burst_packets: u64,
    budget: Option<Budget>,

    /// As it was when it was looked at last.
    gate: Gate,

    /// Whether tails may be repeated.
    allows_tail: bool,

    /// When the next path will be overdue.
    wake: Option<Instant>,
}

/// What may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    /// Nothing.
    Off,
    /// What is late, after new data.
    Band,
    /// What is late, before new data.
    Urgent,
}

/// What is left of the budget, and what it was counted from.
#[derive(Debug)]
struct Budget {
    left_bytes: u64,
    sent_bytes: u64,
    copied_bytes: u64,
}

impl Xlink {
    /// How long playback lasts with what the viewer has, or until the stream must be there.
    fn play_time_left(now: Instant, view: &View) -> Option<Duration> {
        let connection = view.connection();
        let reported = connection
            .playback
            .filter(|playback| now.saturating_duration_since(playback.at) <= STALE)
            .map(|playback| playback.left(now));
        let deadline = connection.head.and_then(|head| head.deadline);
        let deadline = deadline.map(|deadline| deadline.saturating_duration_since(now));
        reported.into_iter().chain(deadline).min()
    }

    /// Looks at what the viewer has. Returns whether anything is known of one.
    fn look(&mut self, now: Instant, view: &View) -> bool {
        let left = Self::play_time_left(now, view);
        self.gate = match left {
            Some(left) => self.gate_at(left, view),
            None if self.unknown => Gate::Band,
            None => Gate::Off,
        };
        left.is_some()
    }

    fn gate_at(&self, left: Duration, view: &View) -> Gate {
        if left < self.t1 {
            return Gate::Urgent;
        }
        let lasts_longer = |path: &PathState| {
            let rtt = path.rtt.filter(|_| path.in_flight_bytes > 0);
            rtt.is_some_and(|rtt| rtt.smoothed.saturating_add(rtt.var) > left)
        };
        match left <= self.t2 && view.paths().any(lasts_longer) {
            true => Gate::Band,
            false => Gate::Off,
        }
    }

    /// What may still be copied.
    fn budget_bytes(&mut self, view: &View, mss_bytes: u64) -> u64 {
        let connection = view.connection();
        let burst = self.burst_packets * mss_bytes;
        let budget = self.budget.get_or_insert(Budget {
            left_bytes: burst,
            sent_bytes: connection.sent_bytes,
            copied_bytes: connection.copied_bytes,
        });
        let sent = connection.sent_bytes.saturating_sub(budget.sent_bytes);
        let copied = connection.copied_bytes.saturating_sub(budget.copied_bytes);
        let earned = u128::from(sent) * u128::from(self.share) / u128::from(SHARE_ONE);
        // What is too little to earn a byte counts the next time.
        if earned > 0 {
            budget.sent_bytes = connection.sent_bytes;
        }
        budget.copied_bytes = connection.copied_bytes;
        budget.left_bytes = budget
            .left_bytes
            .saturating_add(earned.try_into().unwrap_or(u64::MAX))
            .min(burst)
            .saturating_sub(copied);
        budget.left_bytes
    }
}

impl Scheduler for Xlink {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        self.look(now, view);
        let view = match self.gate {
            Gate::Off | Gate::Band => *view,
            Gate::Urgent => view.with_returning(),
        };
        let view = view.without(|path| measure::is_overdue(path, now));
        self.ecf.pick(now, &view, ask)
    }

    fn duplicate(
        &mut self,
        now: Instant,
        view: &View,
        spare: PathId,
        from: PathId,
        moment: Moment,
    ) -> Option<CopyOrder> {
        self.wake = self.wake.filter(|wake| *wake > now);
        let knows_viewer = self.look(now, view);
        self.allows_tail = true;
        if !knows_viewer && self.gate == Gate::Off {
            return None;
        }
        let (spare, from) = (view.path(spare)?, view.any_path(from)?);
        let budget_bytes = self.budget_bytes(view, spare.mss_bytes);
        if knows_viewer {
            let kept_bytes = self.burst_packets * spare.mss_bytes / 4 * 3;
            self.allows_tail = budget_bytes >= kept_bytes.max(spare.mss_bytes);
        }
        if self.gate == Gate::Off || (self.gate == Gate::Band && moment == Moment::BeforeNew) {
            return None;
        }
        let overdue_at = measure::overdue_at(from)?;
        if overdue_at > now {
            self.wake = Some(self.wake.map_or(overdue_at, |wake| wake.min(overdue_at)));
            return None;
        }
        if budget_bytes < spare.mss_bytes
            || spare.room_bytes() < spare.mss_bytes
            || spare.rtt.is_none()
            || measure::is_overdue(spare, now)
        {
            return None;
        }
        Some(CopyOrder {
            which: Which::Oldest,
            stream: None,
            ended: false,
            again: false,
            sent_after: None,
            sent_before: None,
            most_bytes: budget_bytes.min(spare.room_bytes()),
        })
    }

    fn copies_first(&self) -> bool {
        self.gate == Gate::Urgent
    }

    fn copies_tail(&self) -> bool {
        self.allows_tail
    }

    fn listens(&self) -> bool {
        true
    }

    fn on_event(&mut self, now: Instant, view: &View, event: &Event) {
        if let Event::Qoe(_) | Event::Acked { .. } = event {
            self.look(now, view);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake.into_iter().chain(self.ecf.next_wake()).min()
    }
}
