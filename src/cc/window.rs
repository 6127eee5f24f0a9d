//! What every window-based controller shares: slow start, recovery periods, the test whether the
//! window is what limits the sender, persistent congestion, the bounds, and the pacing rate.
//!
//! Sources: RFC 9002 section 7 throughout; HyStart++ (RFC 9406) in the first slow start; `re_entry` for
//! a slow start that an unlucky loss has ended.

use std::time::Duration;
use std::time::Instant;

use super::hystart::HyStart;
use super::hystart::Verdict;
use super::members::members;
use super::re_entry;
use super::re_entry::ReEntry;
use super::re_entry::Seen;
use super::trace::Trace;
use super::Ack;
use super::AnyController;
use super::Change;
use super::Loss;
use super::Round;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;
use crate::registry::Rtt;
use crate::registry::SSTHRESH_UNSET;

/// The smallest window, in packets (RFC 9002, section 7.2).
const MIN_WINDOW_PACKETS: f64 = 2.0;

/// The largest window: 64 GiB, more than 100 Gbit/s over 5 s. Bounds what bad input can do.
const MAX_WINDOW_BYTES: f64 = (1u64 << 36) as f64;

/// A sender that releases bursts may be this much below its window and still be limited by it:
/// one burst of 64 KiB (the largest UDP_SEGMENT batch), though no more than a quarter of the
/// window, and never less than four packets.
const BURST_BYTES: f64 = 65536.0;
const BURST_MIN_PACKETS: f64 = 4.0;

/// Pacing gains over cwnd/srtt. Slow start doubles per round, so it needs 2; RFC 9002 section 7.7
/// suggests 1.25 to fill the window despite timer error.
const PACING_GAIN_SLOW_START: f64 = 2.0;
const PACING_GAIN: f64 = 1.25;

/// RTTs below this are taken as this: they come from virtual time or a coarse clock.
pub(super) const MIN_RTT: Duration = Duration::from_micros(1);

/// Switches of the shared machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// End the first slow start by delay (RFC 9406), not only by loss.
    pub hystart: bool,
    /// Let a path whose slow start an unlucky loss has ended go on with it while it shows no queue,
    /// if another path is coupled with it. [`Choice::options`](super::Choice::options) knows
    /// whether the controller wants that.
    pub re_entry: bool,
}

/// What the RFCs ask for: HyStart++, and no re-entry.
impl Default for Options {
    fn default() -> Self {
        Options {
            hystart: true,
            re_entry: false,
        }
    }
}

/// What a path may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, or [`SSTHRESH_UNSET`].
    pub ssthresh_bytes: u64,
    /// Pacing rate; `None` before the first RTT sample: do not pace.
    pub pacing_rate_bytes_per_sec: Option<u64>,
}

/// The shared machinery's state of one path.
#[derive(Clone, Debug)]
struct PathWindow {
    /// The window with its fraction of a byte; the registry has it rounded down.
    cwnd_bytes: f64,
    /// `f64::INFINITY` until slow start first ends.
    ssthresh_bytes: f64,
    initial_bytes: f64,
    /// When the current or last recovery period began.
    recovery_started: Option<Instant>,
    /// A packet sent at or after this time ends the round when acked.
    round_started: Option<Instant>,
    /// Most bytes in flight seen in this round and in the one before.
    peak_in_flight_bytes: [u64; 2],
    /// The RTT samples of this round.
    samples: Samples,
    hystart: HyStart,
    re_entry: ReEntry,
}

/// RTT samples of one round.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    count: u32,
    sum: Duration,
    min: Duration,
}

impl Samples {
    fn add(&mut self, sample: Duration) {
        self.min = match self.count {
            0 => sample,
            _ => self.min.min(sample),
        };
        self.sum = self.sum.saturating_add(sample);
        self.count += 1;
    }

    fn seen(&self, path: &PathState) -> Seen {
        Seen {
            samples: self.count,
            least: self.min,
            base: path.rtt.map_or(Duration::ZERO, |rtt| rtt.min),
        }
    }
}

impl PathWindow {
    fn new(initial_bytes: f64) -> Self {
        PathWindow {
            cwnd_bytes: initial_bytes,
            ssthresh_bytes: f64::INFINITY,
            initial_bytes,
            recovery_started: None,
            round_started: None,
            peak_in_flight_bytes: [0; 2],
            samples: Samples::default(),
            hystart: HyStart::default(),
            re_entry: ReEntry::default(),
        }
    }

    fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// Was the packet sent before the current recovery period, or in the moment it began?
    fn sent_before_recovery(&self, sent: Instant) -> bool {
        self.recovery_started.is_some_and(|started| sent <= started)
    }

    /// Counts the ACK into its round, and returns the RTT samples of a round that it ended.
    fn note_round(&mut self, now: Instant, ack: &Ack) -> Option<Samples> {
        let mut ended = None;
        if self
            .round_started
            .is_none_or(|started| ack.newest_sent >= started)
        {
            let first = self.round_started.replace(now).is_none();
            let samples = std::mem::take(&mut self.samples);
            ended = (!first).then_some(samples);
            self.peak_in_flight_bytes = [0, self.peak_in_flight_bytes[0]];
            self.hystart.on_round();
        }
        let peak = &mut self.peak_in_flight_bytes[0];
        *peak = (*peak).max(ack.in_flight_before_bytes);
        if let Some(sample) = ack.rtt_sample {
            self.samples.add(sample);
        }
        ended
    }

    /// RFC 9002, section 7.8: an underused window must not grow.
    ///
    /// The peak of two rounds is compared, not the flight of the moment: several ACKs are often
    /// read before the sender runs again, and only the first of them sees a full window.
    fn is_limited(&self, mss_bytes: f64, app_limited: bool) -> bool {
        let [this_round, last_round] = self.peak_in_flight_bytes;
        let peak_bytes = this_round.max(last_round) as f64;
        let burst_bytes = BURST_BYTES
            .min(self.cwnd_bytes / 4.0)
            .max(BURST_MIN_PACKETS * mss_bytes);

        // A paced slow start runs up to half a window behind its own doubling.
        let slack_bytes = match self.in_slow_start() && !app_limited {
            true => burst_bytes.max(self.cwnd_bytes / 2.0),
            false => burst_bytes,
        };
        peak_bytes + slack_bytes >= self.cwnd_bytes
    }

    /// Grows by the acked bytes times `gain`, up to the threshold (RFC 9002, section 7.3.1).
    fn slow_start(&mut self, ack: &Ack, gain: f64, hystart: bool, rtt: Option<Rtt>) {
        let first = self.ssthresh_bytes.is_infinite();
        let verdict = match self.re_entry.grows() {
            true => Verdict::Grow(re_entry::growth(rtt)),
            false if hystart && first => self.hystart.on_ack(ack.rtt_sample),
            false => Verdict::Grow(1.0),
        };
        match verdict {
            Verdict::Grow(fraction) => {
                let grown = self.cwnd_bytes + ack.acked_bytes as f64 * fraction * gain;
                self.cwnd_bytes = grown.min(self.ssthresh_bytes);
            }
            Verdict::Leave => self.ssthresh_bytes = self.cwnd_bytes,
        }
    }

    /// Shows the rule of re-entries a round trip that `ended`, and then the one that goes on; true
    /// if a re-entry may start.
    fn watch(&mut self, path: &PathState, ended: Option<&Samples>, limited: bool) -> bool {
        let in_slow_start = self.in_slow_start();
        let mut verdict = re_entry::Verdict::Stay;
        if let Some(samples) = ended {
            let seen = samples.seen(path);
            verdict = self.re_entry.on_round(&seen, limited, in_slow_start);
        }
        if verdict == re_entry::Verdict::Stay {
            verdict = self.re_entry.on_sample(&self.samples.seen(path));
        }
        if verdict == re_entry::Verdict::End {
            self.stay_in_avoidance();
        }
        verdict == re_entry::Verdict::Ready
    }

    fn apply(&mut self, change: Change) {
        let slow_start = self.in_slow_start();
        self.cwnd_bytes = change.cwnd_bytes;
        match change.ssthresh_bytes {
            Some(ssthresh_bytes) => self.ssthresh_bytes = ssthresh_bytes,
            None if !slow_start => self.stay_in_avoidance(),
            None => (),
        }
    }

    /// A window that shrinks without a congestion event does not fall back into slow start.
    fn stay_in_avoidance(&mut self) {
        self.ssthresh_bytes = self.ssthresh_bytes.min(self.cwnd_bytes);
    }

    /// Keeps the window within its bounds, whatever a controller answered, and shows it.
    fn publish(&mut self, path: &mut PathState, slow_start: bool) {
        let floor = MIN_WINDOW_PACKETS * path.mss_bytes as f64;
        self.cwnd_bytes = bounded(self.cwnd_bytes, floor);
        if self.ssthresh_bytes.is_finite() {
            self.ssthresh_bytes = bounded(self.ssthresh_bytes, floor);
        }
        if !slow_start {
            self.ssthresh_bytes = self.ssthresh_bytes.min(self.cwnd_bytes);
        }

        path.cwnd_bytes = self.cwnd_bytes as u64;
        path.ssthresh_bytes = match self.ssthresh_bytes.is_infinite() {
            true => SSTHRESH_UNSET,
            false => self.ssthresh_bytes as u64,
        };
        path.pacing_rate_bytes_per_sec = path
            .rtt
            .map(|rtt| pacing_rate(self.cwnd_bytes, rtt.smoothed, self.in_slow_start()));
    }
}

/// The window within [`floor`, 64 GiB]; not-a-number becomes the floor.
fn bounded(window_bytes: f64, floor: f64) -> f64 {
    window_bytes.max(floor).min(MAX_WINDOW_BYTES.max(floor))
}

/// RFC 9002, section 7.7: rate = N * cwnd / smoothed_rtt, bytes per second.
fn pacing_rate(cwnd_bytes: f64, srtt: Duration, slow_start: bool) -> u64 {
    let gain = match slow_start {
        true => PACING_GAIN_SLOW_START,
        false => PACING_GAIN,
    };
    (gain * cwnd_bytes / srtt.max(MIN_RTT).as_secs_f64()) as u64
}

/// The congestion control of one connection: all its paths and one [`Controller`](super::Controller).
///
/// The transport calls an `on_*` method for each event of a path and then reads the result from
/// the registry, or with [`Group::window`]. Before a call it brings its own fields of the registry
/// up to date (RTT above all). Calls for a path that was never added do nothing.
#[derive(Debug)]
pub struct Group {
    controller: Box<dyn AnyController>,
    options: Options,
    paths: PathMap<PathWindow>,
}

impl Group {
    /// A group without paths, driven by `controller` (see [`by_name`](super::by_name)).
    pub fn new(controller: Box<dyn AnyController>, options: Options) -> Self {
        Group {
            controller,
            options,
            paths: PathMap::default(),
        }
    }

    /// Whether the controller measures by one-way delays, for which the peer must send timestamps.
    pub fn reads_one_way_delay(&self) -> bool {
        self.controller.reads_one_way_delay()
    }

    /// A path joined, with its registry entry already made. Its window starts at
    /// `initial_window_bytes`, ten packets by RFC 9002 section 7.2, or less if the controller says.
    pub fn on_path_added(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        initial_window_bytes: u64,
    ) {
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        let mut window = PathWindow::new(self.initial_bytes(path.mss_bytes, initial_window_bytes));
        window.publish(path, self.controller.has_slow_start());
        self.paths.insert(id, window);
        self.controller.on_path_added(now, id);
    }

    fn initial_bytes(&self, mss_bytes: u64, offered_bytes: u64) -> f64 {
        let offered_bytes = offered_bytes as f64;
        match self.controller.initial_window_packets() {
            Some(packets) => offered_bytes.min(packets * mss_bytes as f64),
            None => offered_bytes,
        }
    }

    /// A path left. Its registry entry must go with it, or the others stay coupled to it.
    pub fn on_path_closed(&mut self, now: Instant, id: PathId) {
        if self.paths.remove(id).is_some() {
            self.controller.on_path_closed(now, id);
        }
    }

    /// Packets of the path were acked.
    pub fn on_ack(&mut self, now: Instant, paths: &mut Registry, id: PathId, ack: &Ack) {
        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        let controller = &mut self.controller;

        path.acked_since_loss_bytes = path.acked_since_loss_bytes.saturating_add(ack.acked_bytes);
        path.in_recovery &= window.sent_before_recovery(ack.newest_sent);
        let (in_recovery, mss_bytes) = (path.in_recovery, path.mss_bytes as f64);
        let ended = window.note_round(now, ack);
        let limited = window.is_limited(mss_bytes, ack.app_limited);

        controller.on_sample(now, paths, id, ack);
        if let Some(samples) = &ended {
            let round = Round {
                samples: samples.count,
                min_rtt: samples.min,
                mean_rtt: samples.sum / samples.count.max(1),
                limited: limited && !in_recovery,
            };
            let change = controller.on_round(now, paths, id, &round);
            if let Some(change) = change.filter(|_| !in_recovery) {
                let before_bytes = window.cwnd_bytes;
                window.apply(change);
                if !limited {
                    window.cwnd_bytes = window.cwnd_bytes.min(before_bytes);
                }
            }
        }
        if let Some(change) = controller.on_time(now, paths, id) {
            window.apply(change);
        }
        if self.options.re_entry {
            self.watch(paths, id, ended.as_ref(), limited && !in_recovery);
        }

        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let controller = &mut self.controller;
        if !in_recovery {
            if !limited {
                controller.on_underused(now, paths, id);
            } else if window.in_slow_start() && controller.has_slow_start() {
                let gain = controller.slow_start_gain(now, paths, id);
                let rtt = paths.get(id).and_then(|path| path.rtt);
                window.slow_start(ack, gain, self.options.hystart, rtt);
            } else {
                window.cwnd_bytes += controller.increase(now, paths, id, ack);
                window.stay_in_avoidance();
            }
        }

        if let Some(path) = paths.get_mut(id) {
            window.publish(path, controller.has_slow_start());
        }
    }

    /// Ends the re-entry of path `id`, or begins one; see [`re_entry`].
    fn watch(&mut self, paths: &Registry, id: PathId, ended: Option<&Samples>, limited: bool) {
        let (Some(window), Some(path)) = (self.paths.get_mut(id), paths.get(id)) else {
            return;
        };
        if !window.watch(path, ended, limited) {
            return;
        }
        let coupled = members(paths, id).any(|member| member.path.id != id);
        let another_grows = self.paths.iter().any(|(_, window)| window.re_entry.grows());
        if let (true, false, Some(window)) = (coupled, another_grows, self.paths.get_mut(id)) {
            window.re_entry.start();
            window.ssthresh_bytes = f64::INFINITY;
        }
    }

    /// Packets of the path were declared lost.
    pub fn on_loss(&mut self, now: Instant, paths: &mut Registry, id: PathId, loss: &Loss) {
        self.on_congestion(now, paths, id, loss.newest_lost_sent);

        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        if loss.persistent {
            // RFC 9002, section 7.6.2. The threshold is the one the congestion event just set.
            window.cwnd_bytes = 0.0;
            window.recovery_started = None;
            window.re_entry.on_reset();
            path.in_recovery = false;
            self.controller.on_path_reset(now, id);
        }
        window.publish(path, self.controller.has_slow_start());
    }

    /// One congestion event per recovery period (RFC 9002, section 7.3.2).
    fn on_congestion(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        newest_sent: Instant,
    ) {
        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        if window.sent_before_recovery(newest_sent) {
            return;
        }

        path.congestion_events += 1;
        path.acked_between_losses_bytes = std::mem::take(&mut path.acked_since_loss_bytes);
        window.recovery_started = Some(now);
        window.re_entry.on_congestion(window.in_slow_start());

        let floor = MIN_WINDOW_PACKETS * path.mss_bytes as f64;
        let kept_bytes = self.controller.decrease(now, paths, id);
        window.cwnd_bytes = bounded(kept_bytes.min(window.cwnd_bytes), floor);
        window.ssthresh_bytes = window.cwnd_bytes;
        if let Some(path) = paths.get_mut(id) {
            path.in_recovery = true;
        }
    }

    /// When [`Group::on_timer`] is due; `None` if no controller waits for anything.
    pub fn next_timer(&self) -> Option<Instant> {
        self.controller.next_timer()
    }

    /// Time passed. ACKs tell the controller the time too, so this matters only where a decision
    /// must not wait for the next one.
    pub fn on_timer(&mut self, now: Instant, paths: &mut Registry) {
        for (id, window) in self.paths.iter_mut() {
            if let Some(change) = self.controller.on_time(now, paths, id) {
                window.apply(change);
            }
            if let Some(path) = paths.get_mut(id) {
                window.publish(path, self.controller.has_slow_start());
            }
        }
    }

    /// The state of path `id` and what the controller makes of it, or `None` if the path is not
    /// in the group. Allocates nothing; call it after an event, for a log.
    pub fn trace(&self, now: Instant, paths: &Registry, id: PathId) -> Option<Trace> {
        self.paths.get(id)?;
        let mut trace = Trace::new(now, paths.get(id)?);
        self.controller.trace(paths, id, &mut trace);
        Some(trace)
    }

    /// The path's largest datagram changed, and the registry has the new size.
    pub fn on_mss_changed(&mut self, paths: &mut Registry, id: PathId, initial_window_bytes: u64) {
        let Some(path) = paths.get_mut(id) else {
            return;
        };
        let initial_bytes = self.initial_bytes(path.mss_bytes, initial_window_bytes);
        let Some(window) = self.paths.get_mut(id) else {
            return;
        };

        // RFC 9002, section 7.2: the initial window is recalculated, a used one is not.
        if window.cwnd_bytes == window.initial_bytes {
            window.cwnd_bytes = initial_bytes;
        }
        window.initial_bytes = initial_bytes;
        window.publish(path, self.controller.has_slow_start());
    }

    /// The path's 4-tuple changed to one not known to share the old one's bottleneck: the window
    /// starts over (RFC 9000, section 9.4). The transport resets the RTT itself.
    pub fn on_path_migrated(&mut self, now: Instant, paths: &mut Registry, id: PathId) {
        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };

        *window = PathWindow::new(window.initial_bytes);
        path.in_recovery = false;
        path.acked_since_loss_bytes = 0;
        path.acked_between_losses_bytes = 0;
        window.publish(path, self.controller.has_slow_start());
        self.controller.on_path_reset(now, id);
    }

    /// The path carries data again after a failure: it restarts at most at the initial window and
    /// keeps its threshold, so that slow start finds the old rate quickly if it is still there.
    pub fn on_path_recovered(&mut self, now: Instant, paths: &mut Registry, id: PathId) {
        let Some(window) = self.paths.get_mut(id) else {
            return;
        };
        let Some(path) = paths.get_mut(id) else {
            return;
        };

        window.cwnd_bytes = window.cwnd_bytes.min(window.initial_bytes);
        window.re_entry.on_reset();
        window.publish(path, self.controller.has_slow_start());
        self.controller.on_path_reset(now, id);
    }

    /// The RTT estimate changed other than by an ACK that reached [`Group::on_ack`]: brings the
    /// pacing rate up to date.
    pub fn on_rtt_changed(&mut self, paths: &mut Registry, id: PathId) {
        if let (Some(window), Some(path)) = (self.paths.get_mut(id), paths.get_mut(id)) {
            window.publish(path, self.controller.has_slow_start());
        }
    }

    /// What path `id` may send, or `None` if it is not in the group.
    pub fn window(&self, paths: &Registry, id: PathId) -> Option<Window> {
        self.paths.get(id)?;
        let path = paths.get(id)?;
        Some(Window {
            cwnd_bytes: path.cwnd_bytes,
            ssthresh_bytes: path.ssthresh_bytes,
            pacing_rate_bytes_per_sec: path.pacing_rate_bytes_per_sec,
        })
    }
}
