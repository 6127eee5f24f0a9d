//! The window of one path, as every controller shares it: slow start, recovery periods, the test
//! whether the window is what limits the sender, the bounds, and the pacing rate.
//!
//! Sources: RFC 9002 section 7 throughout; HyStart++ (RFC 9406) in the first slow start; `re_entry` for
//! a slow start that an unlucky loss has ended, `start` for how it begins.

use std::time::Duration;
use std::time::Instant;

use super::careful_resume::CarefulResume;
use super::careful_resume::Saved;
use super::careful_resume::Step;
use super::hystart::HyStart;
use super::hystart::Verdict;
use super::re_entry;
use super::re_entry::ReEntry;
use super::re_entry::Seen;
use super::start;
use super::start::Begin;
use super::start::Growth;
use super::start::LongRun;
use super::start::Start;
use super::units::secs;
use super::Ack;
use super::Change;
use super::Control;
use super::Options;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Rtt;
use crate::registry::SSTHRESH_UNSET;

/// The largest window: 64 GiB, more than 100 Gbit/s over 5 s. Bounds what bad input can do.
const MAX_WINDOW_BYTES: f64 = (1u64 << 36) as f64;

/// A sender that releases bursts may be this much below its window and still be limited by it:
/// one burst of 64 KiB (the largest UDP_SEGMENT batch), though no more than a quarter of the
/// window, and never less than four packets.
const BURST_BYTES: f64 = 65536.0;
const BURST_MIN_PACKETS: f64 = 4.0;

/// A change of the way back changes a window by this factor at most.
const MAX_WAY_RATIO: f64 = 4.0;

/// Pacing gains over cwnd/srtt. Slow start doubles per round, so it needs 2; RFC 9002 section 7.7
/// suggests 1.25 to fill the window despite timer error.
pub(super) const PACING_GAIN_SLOW_START: f64 = 2.0;
const PACING_GAIN: f64 = 1.25;

/// The shared machinery's state of one path.
#[derive(Clone, Debug)]
pub(super) struct PathWindow {
    /// The window with its fraction of a byte; the registry has it rounded down.
    pub cwnd_bytes: f64,
    /// `f64::INFINITY` until slow start first ends.
    pub ssthresh_bytes: f64,
    pub initial_bytes: f64,
    min_packets: f64,
    /// When the current or last recovery period began.
    pub recovery_started: Option<Instant>,
    /// A packet sent at or after this time ends the round when acked.
    round_started: Option<Instant>,
    /// Most bytes in flight seen in this round and in the one before.
    peak_in_flight_bytes: [u64; 2],
    /// The RTT samples of this round.
    samples: Samples,
    /// The way back that the samples are of, and its least RTT.
    way_back: Option<(PathId, Duration)>,
    hystart: HyStart,
    pub re_entry: ReEntry,
    /// Of a path that is known from before.
    pub resume: Option<CarefulResume>,
    /// What its first packets have shown.
    pub begin: Begin,
    long_run: LongRun,
    /// The rate that a model wants, bytes per second.
    model_rate: Option<f64>,
    /// What was before the last congestion event, as long as it may turn out to be none.
    before: Option<Before>,
}

/// What a congestion event changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    cwnd_bytes: f64,
    ssthresh_bytes: f64,
    recovery_started: Option<Instant>,
    re_entry: ReEntry,
    begin: Begin,
    resume: Option<CarefulResume>,
    acked_since_loss_bytes: u64,
    acked_between_losses_bytes: u64,
}

/// RTT samples of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    pub count: u32,
    pub sum: Duration,
    pub min: Duration,
}

impl Samples {
    pub fn add(&mut self, sample: Duration) {
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
    pub fn new(initial_bytes: f64, min_packets: u32) -> Self {
        PathWindow {
            cwnd_bytes: initial_bytes,
            ssthresh_bytes: f64::INFINITY,
            initial_bytes,
            min_packets: f64::from(min_packets),
            recovery_started: None,
            round_started: None,
            peak_in_flight_bytes: [0; 2],
            samples: Samples::default(),
            way_back: None,
            hystart: HyStart::default(),
            re_entry: ReEntry::default(),
            resume: None,
            begin: Begin::default(),
            long_run: LongRun::default(),
            model_rate: None,
            before: None,
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd_bytes < self.ssthresh_bytes
    }

    /// What is worth remembering of the path: the window as far as it was used, once slow start has
    /// ended (RFC 9959, section 4.1).
    pub fn observed(&self, path: &PathState) -> Option<Saved> {
        let used_bytes = self.peak_in_flight_bytes[0].max(self.peak_in_flight_bytes[1]);
        let saved = Saved {
            cwnd_bytes: used_bytes.min(path.cwnd_bytes),
            rtt: path.rtt?.min,
        };
        let is_known = !self.in_slow_start() && saved.is_worth(self.initial_bytes);
        is_known.then_some(saved)
    }

    /// Was the packet sent before the current recovery period, or in the moment it began?
    pub fn sent_before_recovery(&self, sent: Instant) -> bool {
        self.recovery_started.is_some_and(|started| sent <= started)
    }

    /// Acknowledgments take another way back, and the RTT is another. Samples do not compare with
    /// those before, and the rate that the path had needs another window: a smaller one at once, a
    /// larger one by slow start.
    pub fn note_way_back(&mut self, path: &PathState) {
        let Some(rtt) = path.rtt else {
            return;
        };
        let before = self.way_back.replace((path.way_back, rtt.min));
        let Some((_, min)) = before.filter(|(way, _)| *way != path.way_back) else {
            return;
        };
        self.samples = Samples::default();
        self.hystart = HyStart::default();
        self.long_run = LongRun::default();
        self.begin.on_way_back();

        let ratio = secs(rtt.min) / secs(min).max(1e-6);
        let ratio = ratio.clamp(1.0 / MAX_WAY_RATIO, MAX_WAY_RATIO);
        if self.in_slow_start() {
            self.ssthresh_bytes = (ratio * self.ssthresh_bytes).max(self.cwnd_bytes);
        } else if ratio < 1.0 {
            self.cwnd_bytes *= ratio;
            self.ssthresh_bytes = self.cwnd_bytes;
        } else {
            self.ssthresh_bytes = ratio * self.cwnd_bytes;
        }
    }

    /// Counts the flight before the ACK into its round. Returns whether it ends one, and whether that
    /// is more than the time before the first.
    pub fn note_flight(&mut self, now: Instant, ack: &Ack) -> [bool; 2] {
        let started = self.round_started;
        let ends = started.is_none_or(|started| ack.newest_sent >= started);
        if ends {
            self.round_started = Some(now);
            self.peak_in_flight_bytes = [0, self.peak_in_flight_bytes[0]];
        }
        let peak = &mut self.peak_in_flight_bytes[0];
        *peak = (*peak).max(ack.in_flight_before_bytes);
        [ends, started.is_some()]
    }

    /// Counts the ACK into its round, and returns the RTT samples of a round that it ended.
    pub fn note_round(
        &mut self,
        now: Instant,
        ack: &Ack,
        rtt: Option<Rtt>,
        start: Start,
    ) -> Option<Samples> {
        let mut ended = None;
        if let [true, is_round] = self.note_flight(now, ack) {
            let samples = std::mem::take(&mut self.samples);
            ended = is_round.then_some(samples);
            self.hystart.on_round();
            if is_round {
                self.begin.on_round(self.cwnd_bytes);
            }
        }
        if let Some(sample) = ack.rtt_sample {
            self.samples.add(sample);
            if let Some(rtt) = &rtt {
                self.long_run.add(sample, rtt);
            }
        }
        if start != Start::Slow && self.begins() {
            self.begin.on_ack(now, ack, rtt);
        }
        ended
    }

    /// In the slow start that the path began with.
    fn begins(&self) -> bool {
        self.ssthresh_bytes.is_infinite() && !self.re_entry.grows()
    }

    /// Lets a path that begins jump, if that is how it does.
    pub fn jump(&mut self, start: Start, now: Instant, limited: bool, rtt: Option<Rtt>) -> Step {
        if start != Start::Train || !limited || !self.begins() {
            return Step::Free;
        }
        let Some(rtt) = rtt else {
            return Step::Free;
        };
        match self.begin.jump(self.cwnd_bytes, self.initial_bytes, &rtt) {
            Some(to_bytes) => {
                let from_bytes = self.cwnd_bytes;
                self.resume = Some(CarefulResume::jumped(now, from_bytes, rtt.min));
                Step::Set(to_bytes)
            }
            None => Step::Free,
        }
    }

    /// A congestion event begins: what was before it is kept, and the path says so.
    pub fn begin_recovery(&mut self, now: Instant, path: &mut PathState) {
        self.before = Some(Before {
            cwnd_bytes: self.cwnd_bytes,
            ssthresh_bytes: self.ssthresh_bytes,
            recovery_started: self.recovery_started,
            re_entry: self.re_entry,
            begin: self.begin,
            resume: self.resume,
            acked_since_loss_bytes: path.acked_since_loss_bytes,
            acked_between_losses_bytes: path.acked_between_losses_bytes,
        });
        self.recovery_started = Some(now);
        path.congestion_events += 1;
        path.acked_between_losses_bytes = std::mem::take(&mut path.acked_since_loss_bytes);
    }

    /// What the last congestion event was about was not lost: all is as before, but for what was
    /// learned since. False if there is nothing to take back.
    pub fn take_back(&mut self, path: &mut PathState) -> bool {
        let Some(before) = self.before.take() else {
            return false;
        };
        self.cwnd_bytes = self.cwnd_bytes.max(before.cwnd_bytes);
        self.ssthresh_bytes = self.ssthresh_bytes.max(before.ssthresh_bytes);
        self.recovery_started = before.recovery_started;
        self.re_entry = before.re_entry;
        self.begin = before.begin;
        self.resume = before.resume;
        path.in_recovery = false;
        path.acked_between_losses_bytes = before.acked_between_losses_bytes;
        path.acked_since_loss_bytes = path
            .acked_since_loss_bytes
            .saturating_add(before.acked_since_loss_bytes);
        true
    }

    /// What was before the last congestion event is no more of use.
    pub fn forget_before(&mut self) {
        self.before = None;
    }

    /// What a congestion event says about how the path began. Returns a window that is left at least, if its first slow start
    /// grew too little for half to be what fitted.
    pub fn note_congestion(&mut self, start: Start, rtt: Option<Rtt>) -> Option<f64> {
        let fitted_bytes = match self.begins() {
            true => self.begin.fitted(start, self.cwnd_bytes, rtt),
            false => None,
        };
        let unlucky = self.in_slow_start() && !self.long_run.shows_queue();
        self.re_entry.on_congestion(unlucky);
        fitted_bytes
    }

    /// RFC 9002, section 7.8: an underused window must not grow.
    ///
    /// The peak of two rounds is compared, not the flight of the moment: several ACKs are often
    /// read before the sender runs again, and only the first of them sees a full window.
    pub fn is_limited(&self, mss_bytes: f64, app_limited: bool) -> bool {
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
    pub fn slow_start(&mut self, ack: &Ack, gain: f64, options: &Options, rtt: Option<Rtt>) {
        let begins = self.begins();
        let verdict = match self.re_entry.grows() {
            true => Verdict::Grow(re_entry::growth(rtt)),
            false if options.hystart && begins => self.hystart.on_ack(ack.rtt_sample),
            false => Verdict::Grow(1.0),
        };
        let growth = match begins {
            true => self.begin.growth(
                options.start,
                self.cwnd_bytes,
                &self.seen(options.hystart),
                rtt,
            ),
            false => Growth::by(1.0),
        };
        match (verdict, growth) {
            (
                Verdict::Grow(fraction),
                Growth::By {
                    factor,
                    extra_bytes,
                    up_to_bytes,
                },
            ) => {
                let acked_bytes = ack.acked_bytes as f64 * fraction * gain;
                let plain = self.cwnd_bytes + acked_bytes * factor.min(1.0);
                let fast = self.cwnd_bytes + acked_bytes * factor + extra_bytes * fraction;
                let grown = fast.min(up_to_bytes).max(plain);
                self.cwnd_bytes = grown.min(self.ssthresh_bytes);
            }
            (Verdict::Leave, _) | (_, Growth::Leave) => self.ssthresh_bytes = self.cwnd_bytes,
        }
    }

    /// The round trip that goes on, as far as it is known.
    fn seen(&self, hystart: bool) -> start::Seen {
        start::Seen {
            samples: self.samples.count,
            least: self.samples.min,
            queue: hystart && self.long_run.shows_queue(),
        }
    }

    /// Shows the rule of re-entries a round trip that `ended`, and then the one that goes on; true
    /// if a re-entry may start.
    pub fn watch(&mut self, path: &PathState, ended: Option<&Samples>, limited: bool) -> bool {
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

    pub fn apply(&mut self, change: Change) {
        let slow_start = self.in_slow_start();
        self.cwnd_bytes = change.cwnd_bytes;
        match change.ssthresh_bytes {
            Some(ssthresh_bytes) => self.ssthresh_bytes = ssthresh_bytes,
            None if !slow_start => self.stay_in_avoidance(),
            None => (),
        }
    }

    /// Takes over what a model wants.
    pub fn control(&mut self, control: Control) {
        self.cwnd_bytes = control.cwnd_bytes;
        self.ssthresh_bytes = match control.starts {
            true => f64::INFINITY,
            false => control.cwnd_bytes,
        };
        self.model_rate = control.pacing_rate_bytes_per_sec;
    }

    /// A window that shrinks without a congestion event does not fall back into slow start.
    pub fn stay_in_avoidance(&mut self) {
        self.ssthresh_bytes = self.ssthresh_bytes.min(self.cwnd_bytes);
    }

    /// Keeps the window within its bounds, whatever a controller answered, and shows it, with the rate
    /// that a model wants or else the one that follows from the window.
    pub fn publish(&mut self, path: &mut PathState, slow_start: bool) {
        let floor = self.min_packets * path.mss_bytes as f64;
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
        if let Some(rate) = self.model_rate {
            path.pacing_rate_bytes_per_sec = Some(bounded(rate, 1.0) as u64);
            return;
        }
        let gain = match self.in_slow_start() {
            _ if self.resume.is_some_and(|resume| resume.is_unvalidated()) => 1.0,
            true => PACING_GAIN_SLOW_START,
            false => PACING_GAIN,
        };
        path.pacing_rate_bytes_per_sec = path.rtt.map(|rtt| {
            let rate = |gain| pacing_rate(self.cwnd_bytes, rtt.smoothed, gain);
            match self.begins() {
                true => self.begin.paced(rate(gain), rate(1.0)),
                false => rate(gain),
            }
        });
    }
}

/// The window within [`floor`, 64 GiB]; not-a-number becomes the floor.
pub(super) fn bounded(window_bytes: f64, floor: f64) -> f64 {
    window_bytes.max(floor).min(MAX_WINDOW_BYTES.max(floor))
}

/// RFC 9002, section 7.7: rate = N * cwnd / smoothed_rtt, bytes per second.
pub(super) fn pacing_rate(cwnd_bytes: f64, srtt: Duration, gain: f64) -> u64 {
    (gain * cwnd_bytes / secs(srtt)) as u64
}

#[cfg(test)]
mod tests;
