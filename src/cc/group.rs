//! A connection's congestion control: what the transport calls, and when a controller is asked.

use std::time::Instant;

use super::careful_resume::CarefulResume;
use super::careful_resume::Saved;
use super::careful_resume::Step;
use super::members::members;
use super::trace::Trace;
use super::window::PathWindow;
use super::window::Samples;
use super::Ack;
use super::AnyController;
use super::Control;
use super::Flight;
use super::Loss;
use super::RateSample;
use super::Round;
use super::Start;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// Switches of the shared machinery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// End the first slow start by delay (RFC 9406), not only by loss.
    pub hystart: bool,
    /// Let a path whose slow start an unlucky loss has ended go on with it while it shows no queue,
    /// if another path is coupled with it. [`Choice::options`](super::Choice::options) knows
    /// whether the controller wants that.
    pub re_entry: bool,
    /// The threshold at which a path's first slow start ends, in packets of its size as it begins;
    /// none of 0. [`Choice::options`](super::Choice::options) knows what the controller says.
    pub ssthresh_packets: u32,
    /// How paths begin, until their first slow start ends. [`Choice::options`](super::Choice::options)
    /// knows what the controller says.
    pub start: Start,
    /// The least window of a path, in packets, 2 or more. [`Choice::options`](super::Choice::options)
    /// knows what the controller says.
    pub min_window_packets: u32,
}

/// What the RFCs ask for: HyStart++, no re-entry, and a window that doubles without a threshold, of
/// two packets at least (RFC 9002, section 7.2).
impl Default for Options {
    fn default() -> Self {
        Options {
            hystart: true,
            re_entry: false,
            ssthresh_packets: 0,
            start: Start::Slow,
            min_window_packets: 2,
        }
    }
}

impl Options {
    /// The window of a path that begins.
    fn window(&self, mss_bytes: u64, initial_bytes: f64) -> PathWindow {
        let mut window = PathWindow::new(initial_bytes, self.min_window_packets);
        if self.ssthresh_packets > 0 {
            window.ssthresh_bytes = f64::from(self.ssthresh_packets) * mss_bytes as f64;
        }
        window
    }
}

/// What a path may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold, or [`SSTHRESH_UNSET`](crate::registry::SSTHRESH_UNSET).
    pub ssthresh_bytes: u64,
    /// Pacing rate; `None` before the first RTT sample: do not pace.
    pub pacing_rate_bytes_per_sec: Option<u64>,
}

/// The congestion control of one connection: all its paths and one [`Controller`](super::Controller).
///
/// The transport calls an `on_*` method for each event of a path and then reads the result from
/// the registry, or with [`Group::window`]. Before a call it brings its own fields of the registry
/// up to date (RTT above all). Calls for a path that was never added do nothing.
#[derive(Debug)]
pub struct Group {
    controller: Box<dyn AnyController>,
    is_model: bool,
    options: Options,
    paths: PathMap<PathWindow>,
}

/// A path's window and its registry entry. A path has both, or is unknown.
fn both<'w, 'p>(
    windows: &'w mut PathMap<PathWindow>,
    paths: &'p mut Registry,
    id: PathId,
) -> Option<(&'w mut PathWindow, &'p mut PathState)> {
    Some((windows.get_mut(id)?, paths.get_mut(id)?))
}

impl Group {
    /// A group without paths, driven by `controller` (see [`by_name`](super::by_name)).
    pub fn new(controller: Box<dyn AnyController>, options: Options) -> Self {
        Group {
            is_model: controller.is_model(),
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
        let initial_bytes = self.initial_bytes(path.mss_bytes, initial_window_bytes);
        let mut window = self.options.window(path.mss_bytes, initial_bytes);
        window.publish(path, self.controller.has_slow_start());
        self.paths.insert(id, window);
        self.controller.on_path_added(now, id);
    }

    /// Lets a path that has sent little yet resume carefully from what was [observed](Self::observed)
    /// on it before (RFC 9959). The caller knows that it is the same path: the same two networks, and
    /// nobody else begins with the same memory. Without slow start, for a model, or once the window has
    /// changed, nothing happens.
    pub fn resume(&mut self, id: PathId, saved: Saved) {
        let may = self.controller.has_slow_start() && !self.is_model;
        if let Some(window) = self.paths.get_mut(id).filter(|_| may) {
            if window.cwnd_bytes == window.initial_bytes {
                window.resume = Some(CarefulResume::new(saved, window.initial_bytes));
            }
        }
    }

    /// What to remember of a path for a later connection, if it carried enough to know.
    pub fn observed(&self, paths: &Registry, id: PathId) -> Option<Saved> {
        self.paths.get(id)?.observed(paths.get(id)?)
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

    /// Packets of the path were acked. For a model see [`Group::on_rated_ack`].
    pub fn on_ack(&mut self, now: Instant, paths: &mut Registry, id: PathId, ack: &Ack) {
        if self.is_model {
            return self.on_model_ack(now, paths, id, ack, None);
        }
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        let controller = &mut self.controller;

        path.acked_since_loss_bytes = path.acked_since_loss_bytes.saturating_add(ack.acked_bytes);
        path.in_recovery &= window.sent_before_recovery(ack.newest_sent);
        let (in_recovery, mss_bytes) = (path.in_recovery, path.mss_bytes as f64);
        window.note_way_back(path);
        let ended = window.note_round(now, ack, path.rtt, self.options.start);
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
        let (start, cwnd_bytes) = (self.options.start, window.cwnd_bytes);
        let has_slow_start = controller.has_slow_start();
        let rtt = paths.get(id).and_then(|path| path.rtt);
        let step = match &mut window.resume {
            Some(resume) => resume.on_ack(now, ack, cwnd_bytes, limited),
            // In no slow start it has none to jump in.
            None => window.jump(start, now, limited, rtt),
        };
        match step {
            Step::Free | Step::Hold => (),
            Step::Set(bytes) => window.cwnd_bytes = bytes,
            Step::Threshold(bytes) => window.ssthresh_bytes = bytes,
        }
        if !in_recovery && step == Step::Free {
            if !limited {
                controller.on_underused(now, paths, id);
            } else if window.in_slow_start() && has_slow_start {
                let gain = controller.slow_start_gain(now, paths, id);
                window.slow_start(ack, gain, &self.options, rtt);
            } else {
                window.cwnd_bytes += controller.increase(now, paths, id, ack);
                window.stay_in_avoidance();
            }
        }

        if let Some(path) = paths.get_mut(id) {
            window.publish(path, has_slow_start);
        }
    }

    /// [`Group::on_ack`] with what the ACK says about the path's rate, for a controller that
    /// [`is_model`](Group::is_model); the others need none.
    pub fn on_rated_ack(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) {
        match self.is_model {
            true => self.on_model_ack(now, paths, id, ack, rate),
            false => self.on_ack(now, paths, id, ack),
        }
    }

    /// Not inlined, so that the others pay one comparison for it.
    #[inline(never)]
    fn on_model_ack(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) {
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        path.acked_since_loss_bytes = path.acked_since_loss_bytes.saturating_add(ack.acked_bytes);
        path.in_recovery &= window.sent_before_recovery(ack.newest_sent);
        window.note_flight(now, ack);
        let control = self.controller.on_model(now, paths, id, ack, rate);
        self.control(paths, id, control);
    }

    /// [`Group::on_loss`] with what was known when the newest lost packet was sent.
    pub fn on_rated_loss(
        &mut self,
        now: Instant,
        paths: &mut Registry,
        id: PathId,
        loss: &Loss,
        flight: Option<&Flight>,
    ) {
        if !self.is_model {
            return self.on_loss(now, paths, id, loss);
        }
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        if loss.persistent || !window.sent_before_recovery(loss.newest_lost_sent) {
            window.begin_recovery(now, path);
            path.in_recovery = true;
        }
        let control = self.controller.on_lost(now, paths, id, loss, flight);
        self.control(paths, id, control);
    }

    /// Whether window and rate of the paths follow from a model, which needs the rates of
    /// [`Group::on_rated_ack`].
    pub fn is_model(&self) -> bool {
        self.is_model
    }

    /// Gives path `id` what a model answered.
    fn control(&mut self, paths: &mut Registry, id: PathId, control: Option<Control>) {
        if let Some((window, path)) = both(&mut self.paths, paths, id) {
            if let Some(control) = control {
                window.control(control);
            }
            window.publish(path, true);
        }
    }

    /// Ends the re-entry of path `id`, or begins one; `re_entry` has the rule.
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

    /// Packets of the path were declared lost. For a model see [`Group::on_rated_loss`].
    pub fn on_loss(&mut self, now: Instant, paths: &mut Registry, id: PathId, loss: &Loss) {
        if self.is_model {
            return self.on_rated_loss(now, paths, id, loss, None);
        }
        self.on_congestion(now, paths, id, loss.newest_lost_sent);

        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        if loss.persistent {
            // RFC 9002, section 7.6.2. The threshold is the one the congestion event just set.
            window.cwnd_bytes = 0.0;
            window.recovery_started = None;
            window.forget_before();
            window.re_entry.on_reset();
            window.resume = None;
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
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        if window.sent_before_recovery(newest_sent) {
            return;
        }

        window.begin_recovery(now, path);
        let fitted_bytes = window.note_congestion(self.options.start, path.rtt);

        let mut kept_bytes = self.controller.decrease(now, paths, id);
        kept_bytes = kept_bytes.max(fitted_bytes.unwrap_or(0.0));
        if let Some(most_bytes) = window.resume.as_mut().and_then(|r| r.on_congestion(now)) {
            kept_bytes = kept_bytes.min(most_bytes);
        }
        // What calls this publishes the window, which bounds it.
        window.cwnd_bytes = kept_bytes.min(window.cwnd_bytes);
        window.ssthresh_bytes = window.cwnd_bytes;
        if let Some(path) = paths.get_mut(id) {
            path.in_recovery = true;
        }
    }

    /// All that the path's last congestion event was about has been acknowledged after all: it was
    /// reordered, not lost. Window and threshold are what they were, or larger (RFC 9438, section
    /// 4.9.1), and so is what the controller keeps of the path. Where a controller has changed other
    /// paths too, those stay as they are. A model's window follows with the next ACK.
    pub fn on_spurious_congestion(&mut self, paths: &mut Registry, id: PathId) {
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };
        if self.is_model {
            path.in_recovery = false;
            self.controller.on_spurious(id);
        } else if window.take_back(path) {
            self.controller.undo(id);
            window.publish(path, self.controller.has_slow_start());
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

    /// The bottleneck of path `id`, named by the least ID of the paths that are believed to pass
    /// it; `None` while nothing is known, of a path alone, and if the controller does not look.
    pub fn bottleneck(&self, id: PathId) -> Option<PathId> {
        self.controller.bottleneck(id)
    }

    /// The path's largest datagram changed, and the registry has the new size.
    pub fn on_mss_changed(&mut self, paths: &mut Registry, id: PathId, initial_window_bytes: u64) {
        let Some(mss_bytes) = paths.get(id).map(|path| path.mss_bytes) else {
            return;
        };
        let initial_bytes = self.initial_bytes(mss_bytes, initial_window_bytes);
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
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
        let Some((window, path)) = both(&mut self.paths, paths, id) else {
            return;
        };

        *window = self.options.window(path.mss_bytes, window.initial_bytes);
        path.in_recovery = false;
        path.acked_since_loss_bytes = 0;
        path.acked_between_losses_bytes = 0;
        window.publish(path, self.controller.has_slow_start());
        self.controller.on_path_reset(now, id);
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

#[cfg(test)]
mod tests;
