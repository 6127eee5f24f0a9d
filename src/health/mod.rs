//! Path failure detection: suspects a silent path within tens of milliseconds, fails it over a
//! little later, and takes it back carefully.
//!
//! A probe timeout alone is too slow twice over: every new packet re-arms it, so a trickle of data
//! onto a dead path keeps it from ever firing, and a bloated queue makes it long. So this detector
//! watches *ack progress*: a growing queue delays acks but does not stop them.
//!
//! ```text
//!              silence > T_suspect                  silence > T_fail and the probe unanswered,
//!   HEALTHY ----------------------> SUSPECT ------> FAILED      or 2 PTOs, or the link is gone
//!      ^  ^ <---- ack progress -------|               |  ^
//!      |                                  probe acked |  | silence > P
//!      +------- hold time over, 2 probes acked --- RECOVERING
//! ```
//!
//! | quantity                | here                 | source                            |
//! |-------------------------|----------------------|-----------------------------------|
//! | P, PTO without back-off | `probe_timeout`      | RFC 9002, section 6.2.1           |
//! | silence                 | `Watch::silent_from` | time without ack progress         |
//! | gap, gdev               | `AckClock`           | EWMA 1/8 of ack intervals         |
//! | T_suspect               | `Watch::suspect_at`  | ours                              |
//! | T_fail                  | `Watch::fail_at`     | ours                              |
//! | hold                    | `Watch::hold`        | ours                              |
//!
//! Failing a path moves its data and touches no window: no loss is declared.

mod ack_clock;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use watch::Watch;

use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// Of a tick: more than any number of paths has needed.
const MAX_ROUNDS: u32 = 8;

/// What the detector believes about a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Delivering, or idle.
    #[default]
    Healthy,
    /// Silent for longer than it should be: used only when nothing better has room.
    Suspect,
    /// Potentially failed (RFC 7829): its data has moved, it is being probed.
    Failed,
    /// Answers probes again. May carry copies but no originals yet.
    Recovering,
}

/// The detector's constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// What the peer may delay an ack by (max_ack_delay; RFC 9000's default is 25 ms).
    pub max_ack_delay: Duration,
    /// No path with a live ack clock is suspected earlier. Wi-Fi scans silence a link for this long.
    pub min_suspect: Duration,
    /// Added to the usual ack interval before its absence means something.
    pub gap_margin: Duration,
    /// How much of the in-flight data may be copied when a path becomes suspect.
    pub hedge_bytes: u64,
    /// Consecutive probe timeouts that fail a path by themselves.
    pub failing_ptos: u32,
    /// Bounds of the longest interval between probes of a failed path while another one is healthy, which is 5 P
    /// between them, and never less than P.
    pub min_probe_interval: Duration,
    /// See [`Params::min_probe_interval`].
    pub max_probe_interval: Duration,
    /// The same while none is. It also holds for the last path, which is suspect for as long as it is silent: nothing
    /// moves until one of them answers.
    pub min_probe_interval_alone: Duration,
    /// See [`Params::min_probe_interval_alone`].
    pub max_probe_interval_alone: Duration,
    /// The shortest time over which a returning path must answer probes.
    pub min_return: Duration,
    /// The first hold time of a returning path, and its bound when failures repeat.
    pub min_hold: Duration,
    /// See [`Params::min_hold`].
    pub max_hold: Duration,
    /// A returning path is probed this often at least, if its RTT allows: no longer outage goes unseen.
    pub max_hold_interval: Duration,
    /// A path that fails within so many hold times of its return is held back for twice as long next time;
    /// each time that it works for so long, for half as long.
    pub worth_holds: u32,
    /// A failed path is given up after so long without an answer, while another one was healthy.
    pub give_up_after: Duration,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            max_ack_delay: Duration::from_millis(25),
            min_suspect: Duration::from_millis(75),
            gap_margin: Duration::from_millis(25),
            hedge_bytes: 64 * 1024,
            failing_ptos: 2,
            min_probe_interval: Duration::from_millis(500),
            max_probe_interval: Duration::from_secs(2),
            min_probe_interval_alone: Duration::from_millis(250),
            max_probe_interval_alone: Duration::from_secs(1),
            min_return: Duration::from_millis(50),
            min_hold: Duration::from_millis(200),
            max_hold: Duration::from_secs(10),
            max_hold_interval: Duration::from_millis(200),
            worth_holds: 5,
            give_up_after: Duration::from_secs(15),
        }
    }
}

/// What the transport is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send one PING on the path, whatever its window (a PATH_CHALLENGE if its address changed).
    ProbeNow,
    /// The path is suspect: copy the oldest unacked data to another path with room.
    Suspect {
        /// At most this many bytes.
        hedge_bytes: u64,
    },
    /// The suspicion ended.
    Cleared {
        /// The ack was for a packet sent before it began: the path was only slow.
        spurious: bool,
    },
    /// The path failed: make all its in-flight data eligible on the other paths.
    Fail,
    /// The path answers probes; copies may go there.
    Recovering,
    /// The path carries data again.
    Recovered {
        /// Start the RTT estimate anew (RFC 9002, section 5.2); else double rttvar.
        rtt_restart: bool,
    },
    /// Abandon the path (PATH_UNSTABLE_OR_POOR).
    GiveUp,
}

/// The failure detector of one connection.
///
/// Events go in through `on_*` and [`Monitor::tick`]; the registry's `health` is written at once and
/// what the transport is to do comes out of [`Monitor::next_action`]. It works on the set of paths
/// because it never fails the last usable one, nor all of them at once.
#[derive(Debug)]
pub struct Monitor {
    params: Params,
    watches: PathMap<Watch>,
    actions: VecDeque<(PathId, Action)>,
}

impl Monitor {
    /// A detector without paths.
    pub fn new(params: Params) -> Self {
        Monitor {
            params,
            watches: PathMap::default(),
            actions: VecDeque::new(),
        }
    }

    /// Takes the peer's max_ack_delay into account, once it is known.
    pub fn set_max_ack_delay(&mut self, max_ack_delay: Duration) {
        self.params.max_ack_delay = max_ack_delay;
    }

    /// The next thing to do, until `None`.
    pub fn next_action(&mut self) -> Option<(PathId, Action)> {
        self.actions.pop_front()
    }

    /// Starts to watch a path.
    pub fn on_path_added(&mut self, now: Instant, id: PathId) {
        self.watches.insert(id, Watch::new(now, &self.params));
    }

    /// Stops to watch a path.
    pub fn on_path_closed(&mut self, id: PathId) {
        self.watches.remove(id);
        self.actions.retain(|(other, _)| *other != id);
    }

    /// An ack-eliciting packet left on the path.
    pub fn on_sent_eliciting(&mut self, now: Instant, id: PathId) {
        if let Some(watch) = self.watches.get_mut(id) {
            watch.sent_since_progress.get_or_insert(now);
        }
    }

    /// Packets of the path were newly acked, the newest of them sent at `newest_sent`. The registry
    /// no longer counts them.
    pub fn on_ack_progress(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        newest_sent: Instant,
    ) {
        self.on_progress(now, paths, id, newest_sent, true);
    }

    /// The same, where the acknowledgment came on another path. A late one says that the path worked when
    /// they left, and nothing of whether it does now.
    pub fn on_ack_elsewhere(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        newest_sent: Instant,
    ) {
        let in_time = self
            .watches
            .get(id)
            .is_some_and(|watch| watch.is_in_time(now, newest_sent));
        self.on_progress(now, paths, id, newest_sent, in_time);
    }

    /// `works` is whether it does now.
    fn on_progress(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        newest_sent: Instant,
        works: bool,
    ) {
        let (Some(watch), Some(path)) = (self.watches.get_mut(id), paths.get_mut(id)) else {
            return;
        };
        watch
            .clock
            .on_ack(now, watch::srtt(path), watch.sent_since_progress);
        watch.last_progress = now;
        watch.awaited_bytes = path.in_flight_bytes;
        watch.sent_since_progress = None;
        watch.pto_count = 0;

        match watch.health {
            Health::Healthy => (),
            Health::Suspect if works => {
                let spurious = newest_sent < watch.since;
                watch.link_down = false;
                watch.next_probe = None;
                watch.enter(now, Health::Healthy);
                self.actions.push_back((id, Action::Cleared { spurious }));
            }
            Health::Suspect => (),
            Health::Failed if newest_sent >= watch.since => {
                watch.recover(now, path, newest_sent, &self.params);
                self.actions.push_back((id, Action::Recovering));
            }
            // A late ack of what was sent before the failure: the data arrived, the path may be dead.
            Health::Failed => (),
            Health::Recovering if works => watch.answered(now, path, newest_sent, &self.params),
            Health::Recovering => (),
        }
        path.health = watch.health;
    }

    /// A probe timeout fired on the path, the `count`-th in a row.
    pub fn on_pto(&mut self, now: Instant, paths: &mut Registry, id: PathId, count: u32) {
        if let Some(watch) = self.watches.get_mut(id) {
            watch.pto_count = count;
            self.tick(now, paths);
        }
    }

    /// The system says that nothing can leave by the path: carrier lost, address or route gone.
    pub fn on_link_down(&mut self, now: Instant, paths: &mut Registry, id: PathId) {
        if let Some(watch) = self.watches.get_mut(id) {
            watch.link_down = true;
            self.tick(now, paths);
        }
    }

    /// Lets time pass. Due at [`Monitor::next_timer`], which is later than `now` afterwards; calling it earlier does
    /// no harm.
    pub fn tick(&mut self, now: Instant, paths: &mut Registry) {
        // What happens to one path makes things due on others: one that relapses may leave another one alone.
        for _ in 0..MAX_ROUNDS {
            self.tick_once(now, paths);
            if self.next_timer(paths).is_none_or(|at| at > now) {
                break;
            }
        }
    }

    fn tick_once(&mut self, now: Instant, paths: &mut Registry) {
        self.suspect(now, paths);
        while let Some(id) = self.next_to_fail(now, paths) {
            self.fail(now, paths, id);
        }
        self.probe_alone(now, paths);
        self.probe_failed(now, paths);
        self.drive_recovering(now, paths);
    }

    /// When [`Monitor::tick`] must be called at the latest.
    pub fn next_timer(&self, paths: &Registry) -> Option<Instant> {
        let open = paths.iter().filter(|path| path.is_open());
        open.filter_map(|path| self.timer_of(paths, path)).min()
    }

    fn timer_of(&self, paths: &Registry, path: &PathState) -> Option<Instant> {
        let watch = self.watches.get(path.id)?;
        let params = &self.params;
        match watch.health {
            Health::Healthy => watch.suspect_at(path, params),
            Health::Suspect => match srtt_of_best_other(paths, path.id) {
                Some(srtt_best) => watch.fail_at(path, srtt_best, params),
                None => watch.probe_due(true, params),
            },
            Health::Failed => watch.probe_due(!any_other_healthy(paths, path.id), params),
            Health::Recovering => {
                let probe = watch.next_probe?;
                Some(
                    watch
                        .return_at(path, params)
                        .map_or(probe, |at| at.min(probe)),
                )
            }
        }
    }

    fn suspect(&mut self, now: Instant, paths: &mut Registry) {
        let hedge_bytes = self.params.hedge_bytes;
        for (id, watch) in self.watches.iter_mut() {
            let Some(path) = paths.get_mut(id).filter(|path| path.is_open()) else {
                continue;
            };
            let silent = watch
                .suspect_at(path, &self.params)
                .is_some_and(|at| at <= now);
            if watch.health == Health::Healthy && (silent || watch.fails_at_once(&self.params)) {
                watch.suspect(now, path, &self.params);
                path.health = watch.health;
                self.actions
                    .push_back((id, Action::Suspect { hedge_bytes }));
                self.actions.push_back((id, Action::ProbeNow));
            }
        }
    }

    /// The suspect path to fail first: one whose link is gone, else the one silent for longest. The
    /// last path that has not failed is never one of them, so when all are silent, the one with the
    /// latest progress stays.
    fn next_to_fail(&self, now: Instant, paths: &Registry) -> Option<PathId> {
        let due = |path: &PathState| {
            let watch = self.watches.get(path.id)?;
            let srtt_best = srtt_of_best_other(paths, path.id)?;
            let silent = watch
                .fail_at(path, srtt_best, &self.params)
                .is_some_and(|at| at <= now);
            let due = watch.health == Health::Suspect && path.is_open();
            (due && (silent || watch.fails_at_once(&self.params))).then_some((
                !watch.link_down,
                watch.last_progress,
                path.id,
            ))
        };
        paths.iter().filter_map(due).min().map(|(.., id)| id)
    }

    fn fail(&mut self, now: Instant, paths: &mut Registry, id: PathId) {
        if let (Some(watch), Some(path)) = (self.watches.get_mut(id), paths.get_mut(id)) {
            watch.fail(now, path, &self.params);
            path.health = watch.health;
            // Moving everything makes a hedge or a probe not yet fetched pointless.
            self.actions.retain(|(other, _)| *other != id);
            self.actions.push_back((id, Action::Fail));
        }
    }

    /// The last path does not fail, but is probed like one that did. The transport's own probes
    /// back off without a bound that is of use here.
    fn probe_alone(&mut self, now: Instant, paths: &Registry) {
        for (id, watch) in self.watches.iter_mut() {
            let open = paths.get(id).is_some_and(PathState::is_open);
            let due = watch.health == Health::Suspect
                && watch
                    .probe_due(true, &self.params)
                    .is_some_and(|at| at <= now)
                && open
                && srtt_of_best_other(paths, id).is_none();
            if due {
                watch.probe_silent(now, true, &self.params);
                self.actions.push_back((id, Action::ProbeNow));
            }
        }
    }

    fn probe_failed(&mut self, now: Instant, paths: &Registry) {
        for (id, watch) in self.watches.iter_mut() {
            let open = paths.get(id).is_some_and(PathState::is_open);
            if watch.health != Health::Failed || !open {
                continue;
            }
            let alone = !any_other_healthy(paths, id);
            let Some(next_probe) = watch.probe_due(alone, &self.params) else {
                continue;
            };
            if next_probe > now {
                continue;
            }
            if !alone && watch.waited >= self.params.give_up_after {
                watch.next_probe = None;
                self.actions.push_back((id, Action::GiveUp));
            } else {
                watch.probe_silent(now, alone, &self.params);
                self.actions.push_back((id, Action::ProbeNow));
            }
        }
    }

    fn drive_recovering(&mut self, now: Instant, paths: &mut Registry) {
        for (id, watch) in self.watches.iter_mut() {
            // The others may have failed while this one was coming back.
            let alone = srtt_of_best_other(paths, id).is_none();
            let Some(path) = paths.get_mut(id).filter(|path| path.is_open()) else {
                continue;
            };
            if watch.health != Health::Recovering {
                continue;
            }
            let probe_due = watch.next_probe.is_some_and(|at| at <= now);
            let relapsed = watch.link_down || (probe_due && watch.is_unanswered);
            if relapsed && alone {
                watch.suspect(now, path, &self.params);
                self.actions.push_back((id, Action::ProbeNow));
            } else if relapsed {
                watch.fail(now, path, &self.params);
                self.actions.push_back((id, Action::Fail));
            } else if watch
                .return_at(path, &self.params)
                .is_some_and(|at| at <= now)
            {
                let rtt_restart = watch.take_back(now);
                self.actions
                    .push_back((id, Action::Recovered { rtt_restart }));
            } else if probe_due {
                watch.probe_recovering(now, path, &self.params);
                self.actions.push_back((id, Action::ProbeNow));
            }
            path.health = watch.health;
        }
    }
}

/// The least smoothed RTT of the other usable paths that have not failed; `None` if there is none.
fn srtt_of_best_other(paths: &Registry, id: PathId) -> Option<Duration> {
    let others = paths
        .iter()
        .filter(|path| path.id != id && path.is_usable());
    others
        .filter(|path| path.health != Health::Failed)
        .map(watch::srtt)
        .min()
}

fn any_other_healthy(paths: &Registry, id: PathId) -> bool {
    paths
        .iter()
        .any(|path| path.id != id && path.is_usable() && path.health == Health::Healthy)
}
