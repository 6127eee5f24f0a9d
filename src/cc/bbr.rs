//! BBRv3 on each path by itself (draft-ietf-ccwg-bbr), with five rules that can be switched off.
//!
//! What is known of a path is the rate at which it delivers and its least RTT; what may be in
//! flight and the pacing rate follow from these two. The draft's names are kept where there is a
//! place for them:
//!
//! | draft                          | here                     | unit    | file        |
//! |--------------------------------|--------------------------|---------|-------------|
//! | state                          | `Engine::phase`          |         | this one    |
//! | round_count, max_bw, extra_acked | `Rounds`, `MaxBw`, `Aggregation` | bytes/s, bytes | `filters` |
//! | full_bw, full_bw_count         | `FullBw`                 | bytes/s | `startup`   |
//! | bw_probe_wait, ack_phase       | `Cycle`                  | s       | `probe_bw`  |
//! | min_rtt, probe_rtt_min_delay   | `MinRtt`                 | s       | `probe_rtt` |
//! | inflight_longterm              | `Bounds::inflight_hi`    | bytes   | `bounds`    |
//! | bw_shortterm, inflight_shortterm | `Bounds::bw_lo`, `inflight_lo` | bytes/s, bytes | `bounds` |
//! | IsInflightTooHigh              | `Judge`                  |         | `losses`    |
//! | (ours: W_v, a rival's window)  | `Rival::window`          | bytes   | `rival`     |
//!
//! An ACK takes the steps of the draft's UpdateModelAndState and UpdateControlParameters, in that
//! order: [`Engine::on_ack`].

mod bounds;
mod filters;
mod losses;
mod opening;
mod probe_bw;
mod probe_rtt;
mod rival;
mod spurious;
mod startup;

use std::time::Duration;
use std::time::Instant;

use super::boxed;
use super::units::nanos;
use super::units::secs;
use super::units::Bounded;
use super::Ack;
use super::Control;
use super::Controller;
use super::Entry;
use super::Flight;
use super::Loss;
use super::Own;
use super::Param;
use super::RateSample;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;
use bounds::Bounds;
use filters::Aggregation;
use filters::MaxBw;
use filters::Rounds;
use losses::Judge;
use opening::Opening;
use probe_bw::Cycle;
use probe_rtt::MinRtt;
use rival::Law;
use rival::Rival;
use spurious::Before;
use startup::FullBw;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "uncoupled-bbr",
    coupled: false,
    summary: "BBRv3 on each path by itself: goes by rate and RTT, not by single losses",
    idea: "The rate at which a path delivers and its least RTT say how much may be in flight; \
           losses count when there are more of them than the path loses anyway.",
    source: "draft-ietf-ccwg-bbr (BBRv3), August 2026",
    formula: "pace = 0.99 gain min(max_bw, bw_lo), w = gain bw min_rtt + extra_acked, within \
              inflight_hi, inflight_lo and W_v; W_v += grow per round trip, W_v = keep W_v for \
              losses with a rival's queue; gains 2.77 (Startup), 0.5 (Drain), 0.9, 1, 1, up (Down, \
              Cruise, Refill, Up)",
    use_when: "links lose packets that nobody's queue has dropped, and the paths share no bottleneck",
    avoid_when: "paths share a bottleneck, of which each takes a flow's share",
    deviations: &[
        "losses=judged: they are held against what the path loses with an empty queue",
        "look=on: the first probe for bandwidth comes a second or ten round trips after Drain",
        "regrow=on: a probe that finds a fifth more twice, and no queue, becomes a Startup",
        "start=suss: the first Startup grows by more than 2 in a round trip that shows room",
        "probe-rtt=needed: an RTT within 1/32 of the least puts off ProbeRTT, not only a smaller one",
        "compete=aimd: while somebody else keeps a queue, no more is in flight than AIMD has there; \
         off by itself",
        "the draft alone has probe-rtt=always, losses=counted, look=off, regrow=off and start=slow",
        "a round trip that the application limits says whether the pipe is full if 1.25 full_bw min_rtt \
         was in flight",
        "losses of one ACK are judged together, and count as one range",
        "persistent congestion is an RTO that leaves four packets, and none of the model after 5 s without an ACK",
        "a spurious loss does not bring back the probe that it ended",
        "the window of extra_acked is 5 to 10 round trips; below a least RTT of 0.5 ms losses make it \
         smaller, and none is thought to be by chance",
    ],
    params: &PARAMS,
    new: |settings| boxed(Bbr(Rules::new(settings))),
};

/// The parameters of a path's model.
pub(super) const PARAMS: [Param; 13] = [
    Param::choice(
        "losses",
        &["judged", "counted"],
        "against what the path loses anyway, or any above theta",
    ),
    Param::choice(
        "look",
        &["on", "off"],
        "probe early after Startup, in case it ended too soon",
    ),
    Param::choice(
        "regrow",
        &["on", "off"],
        "start anew when a probe finds much more without a queue",
    ),
    Param::choice(
        "probe-rtt",
        &["needed", "always"],
        "empty the queue only if nothing close to the least RTT was seen for 5 s, or whatever was",
    ),
    Param::choice(
        "start",
        &["suss", "slow"],
        "how a path begins: by rounds that quadruple while there is room, or by doubling",
    ),
    Param::number(
        "theta",
        [0.005, 0.02, 0.1],
        "share of lost packets that is too much; the draft's LossThresh",
    ),
    Param::number(
        "noise",
        [0.0, 0.05, 0.2],
        "most that a path may be thought to lose anyway",
    ),
    Param::number("up", [1.05, 1.25, 2.0], "pacing gain of ProbeBW_UP"),
    Param::number(
        "beta",
        [0.3, 0.7, 0.95],
        "share of rate and window kept after a round trip of losses",
    ),
    Param::time(
        "wait",
        [0.5, 2.0, 10.0],
        "least time between two probes; up to 1 s more",
    ),
    compete(&["off", "aimd", "one-cubic"]),
    Param::number(
        "keep",
        [0.3, 0.7, 0.95],
        "compete=aimd: share of the window kept after losses with a queue",
    ),
    Param::number(
        "grow",
        [0.1, 0.45, 4.0],
        "compete=aimd: packets by which the window grows in a round trip",
    ),
];

/// Which of [`PARAMS`] is `compete`, whose default is not the same for all.
pub(super) const COMPETE: usize = 10;

/// The parameter `compete`; the first word is its default.
pub(super) const fn compete(words: &'static [&'static str]) -> Param {
    Param::choice(
        "compete",
        words,
        "while a rival keeps a queue, have no more in flight than AIMD, or RFC 9438, has there",
    )
}

/// MinPipeCwnd, in packets.
const MIN_PACKETS: f64 = 4.0;

/// A path whose least RTT is below this has no link that bundles ACKs or loses packets by chance: what is acked at once
/// beyond the rate is what a busy host left in its socket's buffer, and what is lost was lost there. With windows for
/// that whatever was lost, 2 to 8 % of what nginx sent over loopback, and 20 % to a client without a processor of its
/// own, was lost.
const SHORT_SECS: f64 = 0.0005;

/// The draft's offload_budget is so many times its send_quantum.
const OFFLOAD_QUANTA: f64 = 3.0;

/// A model is of the last two cycles of probes, some five seconds; after a silence that was longer, nothing of it
/// holds.
const STALE: Duration = Duration::from_secs(5);

/// StartupPacingGain.
const STARTUP_GAIN: f64 = 2.77;

/// The controller; all it keeps is in the engines of its paths.
#[derive(Debug)]
struct Bbr(Rules);

/// The parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    judged: bool,
    look: bool,
    regrow: bool,
    seldom: bool,
    suss: bool,
    theta: f64,
    noise: f64,
    up: f64,
    beta: f64,
    wait_secs: f64,
    law: Law,
    keep: f64,
    grow: f64,
}

impl Rules {
    /// The most that a path may be thought to lose anyway.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    pub fn new(settings: &Settings) -> Rules {
        Rules {
            judged: settings.word("losses") == "judged",
            look: settings.word("look") == "on",
            regrow: settings.word("regrow") == "on",
            seldom: settings.word("probe-rtt") == "needed",
            suss: settings.word("start") == "suss",
            theta: settings.get("theta"),
            noise: settings.get("noise"),
            up: settings.get("up"),
            beta: settings.get("beta"),
            wait_secs: settings.get("wait"),
            law: match settings.word("compete") {
                "one-cubic" => Law::Cubic,
                "off" => Law::Off,
                _ => Law::Aimd,
            },
            keep: settings.get("keep"),
            grow: settings.get("grow"),
        }
    }
}

/// The states of the draft's section 5.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Phase {
    pub fn is_probe_bw(self) -> bool {
        matches!(
            self,
            Phase::Down | Phase::Cruise | Phase::Refill | Phase::Up
        )
    }

    /// IsProbingBW: it sends more than it is known to get through.
    pub fn is_probing(self) -> bool {
        matches!(self, Phase::Startup | Phase::Refill | Phase::Up)
    }

    /// It looks for the path's capacity for the first time, or anew.
    pub fn is_starting(self) -> bool {
        matches!(self, Phase::Startup | Phase::Drain)
    }

    fn pacing_gain(self, rules: &Rules) -> f64 {
        match self {
            Phase::Startup => STARTUP_GAIN,
            Phase::Drain => 0.5,
            Phase::Down => 0.9,
            Phase::Cruise | Phase::Refill | Phase::ProbeRtt => 1.0,
            Phase::Up => rules.up,
        }
    }

    fn cwnd_gain(self) -> f64 {
        match self {
            Phase::Up => 2.25,
            Phase::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }
}

/// What one ACK says, in bytes and seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    now: Instant,
    /// The same since the path's first ACK.
    clock_nanos: u64,
    /// When the newest acked packet left.
    sent: Instant,
    mss: f64,
    /// rs.newly_acked.
    acked: f64,
    /// C.inflight, after the ACK.
    in_flight: f64,
    rtt: Option<f64>,
    sample: RateSample,
    /// rs.delivery_rate, if it is a measure.
    rate: Option<f64>,
    /// rs.is_app_limited, or it says nothing for another reason.
    limited: bool,
    /// C.is_cwnd_limited, in this round trip or the last one.
    cwnd_limited: bool,
}

/// What a coupling asks of a path's model; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Orders {
    /// Probe for bandwidth now.
    pub probe: bool,
    /// Do not, unless [`Orders::probe`] says so.
    pub hold: bool,
    /// Let another path's probe end first, but not for ever.
    pub yields: bool,
    /// End the probe.
    pub end_probe: bool,
    /// Empty the queue now.
    pub probe_rtt: bool,
    /// Packets that others have in flight who probe with this path: it waits for as many round trips
    /// as all of them together.
    pub others_packets: f64,
    /// What is taken off the rate: 0.1 leaves 0.9 of it.
    pub less: f64,
    /// The RTT by which what is above the BDP is measured, s; 0 is the least RTT of the path.
    pub queue_rtt: f64,
    /// What others of its group have of the group's rate.
    pub others_share: f64,
    /// When the virtual window of another one of its group was the limit last.
    pub bound_at: Option<Instant>,
    /// Another path, which may share with this one, makes a queue.
    pub others_act: bool,
    /// The group gave way to a rival then, and this path has not yet.
    pub cut: Option<Instant>,
}

/// What is known of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    pub phase: Phase,
    rounds: Rounds,
    max_bw: MaxBw,
    aggregation: Aggregation,
    full: FullBw,
    cycle: Cycle,
    min_rtt: MinRtt,
    bounds: Bounds,
    judge: Judge,
    rival: Rival,
    /// min(max_bw, bw_lo), bytes/s.
    bw: f64,
    cwnd: f64,
    /// The last window that neither recovery nor ProbeRTT held down.
    prior_cwnd: f64,
    initial_cwnd: f64,
    pace: Option<f64>,
    /// Before the first Startup has ended, or lost a packet.
    opening: Option<Opening>,
    in_recovery: bool,
    /// What the last congestion event found, while it may turn out to have been none.
    before: Option<Before>,
    /// When the first ACK came.
    began: Option<Instant>,
    /// When the last ACK came.
    acked_at: Option<Instant>,
    /// Most bytes in flight, in this round trip and in the last one.
    peak: [f64; 2],
    /// Samples of packets that were sent between these deliveries say nothing about the rate.
    ignored: [u64; 2],
    /// Packets that left before so much was delivered went at a rate that was taken back.
    taken_back: u64,
    pub orders: Orders,
}

impl Engine {
    /// UpdateOnACK, with the order of the draft's section 5.2.3.
    fn on_ack(&mut self, rules: &Rules, seen: &Seen) {
        self.bounds.note_delivery(seen);
        self.rounds.update(&seen.sample);
        if self.rounds.started {
            self.peak = [0.0, self.peak[0]];
        }
        let is_valid = seen.sample.prior_bytes >= self.taken_back;
        let rate = seen.rate.filter(|_| is_valid);
        self.max_bw.update(rate, seen.limited);
        self.judge
            .on_ack(seen, self.min_rtt.secs, self.phase == Phase::Cruise);
        self.adapt_lower_bounds(rules, seen);
        self.update_rival(rules, seen);
        self.aggregation.update(
            seen,
            self.bw,
            self.cwnd,
            self.rounds.count,
            self.full.reached,
        );
        self.full
            .check(seen, self.rounds.started, self.min_rtt.secs);
        self.check_startup_done(rules, seen);
        self.check_drain_done(rules, seen);
        self.update_cycle(rules, seen);
        self.min_rtt.update(rules, seen.now, seen.rtt);
        self.check_probe_rtt(rules, seen);
        self.bounds.advance_delivery(seen);
        self.judge.on_round(self.rounds.started);
        self.bw = self.max_bw.get().at_most(self.bounds.bw_lo) * (1.0 - self.less());
        self.set_pace(rules);
        self.set_cwnd(seen);
    }

    /// What is taken off the rate for a group. While rates grow, what all deliver together is of before:
    /// it left a probe 1.06 of the rate, and a group needed seven seconds for a link that was five times
    /// as fast again.
    fn less(&self) -> f64 {
        match self.phase {
            Phase::Up if !self.judge.shows_queue() => 0.0,
            _ => self.orders.less,
        }
    }

    /// Packets that leave from now on until all that is in flight is delivered say nothing.
    fn ignore_samples(&mut self, seen: &Seen) {
        let total = seen.sample.total_bytes;
        if total > self.ignored[1] {
            self.ignored[0] = total;
        }
        self.ignored[1] = total + seen.in_flight as u64;
    }

    fn is_ignored(&self, prior_bytes: u64) -> bool {
        (self.ignored[0]..self.ignored[1]).contains(&prior_bytes)
    }

    /// The BDP times `gain`; the initial window while there is no RTT or no rate.
    fn bdp(&self, gain: f64) -> f64 {
        match self.min_rtt.secs.is_finite() && self.bw > 0.0 {
            true if gain > 1.0 && self.orders.queue_rtt > 0.0 => {
                self.bw * (self.min_rtt.secs + (gain - 1.0) * self.orders.queue_rtt)
            }
            true => gain * self.bw * self.min_rtt.secs,
            false => self.initial_cwnd,
        }
    }

    /// The draft's Inflight(gain), with its QuantizationBudget.
    fn target(&self, gain: f64, mss: f64) -> f64 {
        self.quantized(self.bdp(gain), mss)
    }

    /// The draft's send_quantum, but for its least of two packets: MinPipeCwnd is the least window here.
    fn quantum(&self) -> f64 {
        (self.pace.unwrap_or(0.0) * 1e-3).at_most(65_536.0)
    }

    fn quantized(&self, bytes: f64, mss: f64) -> f64 {
        let probe = match self.phase {
            Phase::Up => 2.0 * mss,
            _ => 0.0,
        };
        bytes
            .at_least(OFFLOAD_QUANTA * self.quantum())
            .at_least(MIN_PACKETS * mss)
            + probe
    }

    fn set_pace(&mut self, rules: &Rules) {
        let rate = 0.99 * self.phase.pacing_gain(rules) * self.bw;
        if rate > 0.0 && (self.full.reached || rate > self.pace.unwrap_or(0.0)) {
            self.pace = Some(rate);
        }
    }

    fn set_cwnd(&mut self, seen: &Seen) {
        let most = self.bdp(self.phase.cwnd_gain()) + self.aggregation.extra();
        let most = self.quantized(most, seen.mss);
        let begins = (seen.sample.total_bytes as f64) < self.initial_cwnd;
        if self.full.reached {
            self.cwnd = (self.cwnd + seen.acked).at_most(most);
        } else if self.cwnd < most || begins {
            self.cwnd += seen.acked;
        }
        let floor = MIN_PACKETS * seen.mss;
        self.cwnd = self.cwnd.at_least(floor);
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.at_most(self.probe_rtt_cwnd(seen.mss));
        }
        let cap = self.bounds.cap(self.phase, seen.mss);
        let cap = cap.at_most(self.rival.window);
        self.cwnd = self.cwnd.at_most(cap.at_least(floor));
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = match self.in_recovery || self.phase == Phase::ProbeRtt {
            true => self.prior_cwnd.at_least(self.cwnd),
            false => self.cwnd,
        };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.at_least(self.prior_cwnd);
    }

    fn control(&self) -> Control {
        Control {
            cwnd_bytes: self.cwnd,
            pacing_rate_bytes_per_sec: self.pace,
            starts: self.phase == Phase::Startup,
        }
    }

    /// The path as it stands before the first ACK.
    fn begin(&mut self, rules: &Rules, path: &PathState) {
        if self.cwnd == 0.0 {
            self.cwnd = path.cwnd_bytes as f64;
            self.initial_cwnd = self.cwnd;
            self.opening = rules.suss.then(Opening::default);
        }
        if let (None, Some(rtt)) = (self.pace, path.rtt) {
            self.pace = Some(STARTUP_GAIN * self.cwnd / secs(rtt.smoothed));
        }
    }

    fn see(&mut self, now: Instant, path: &PathState, ack: &Ack, sample: &RateSample) -> Seen {
        let mss = path.mss_bytes as f64;
        let before = ack.in_flight_before_bytes as f64;
        self.peak[0] = self.peak[0].at_least(before);
        let began = *self.began.get_or_insert(now);
        Seen {
            now,
            clock_nanos: nanos(now.saturating_duration_since(began)),
            sent: ack.newest_sent,
            mss,
            acked: ack.acked_bytes as f64,
            in_flight: (before - ack.acked_bytes as f64).at_least(0.0),
            rtt: ack.rtt_sample.map(secs),
            sample: *sample,
            rate: sample.bytes_per_sec(),
            limited: sample.newest.app_limited || self.is_ignored(sample.prior_bytes),
            // Two packets are a burst of the pacer.
            cwnd_limited: self.peak[0].at_least(self.peak[1]) + 2.0 * mss >= self.cwnd,
        }
    }

    /// What an ACK makes of it.
    pub fn model(
        &mut self,
        rules: &Rules,
        now: Instant,
        path: &PathState,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) -> Option<Control> {
        self.begin(rules, path);
        self.acked_at = Some(now);
        let sample = rate?;
        self.min_rtt.note_way_back(now, path);
        let seen = self.see(now, path, ack, sample);
        let recovered = self.in_recovery && !path.in_recovery;
        self.in_recovery = path.in_recovery;
        if recovered {
            self.restore_cwnd();
        }
        let cwnd = self.cwnd;
        self.on_ack(rules, &seen);
        self.open_faster(now, path, ack, cwnd);
        Some(self.control())
    }

    /// What losses make of it.
    pub fn lost(
        &mut self,
        rules: &Rules,
        now: Instant,
        path: &PathState,
        loss: &Loss,
        flight: Option<&Flight>,
    ) -> Option<Control> {
        self.begin(rules, path);
        self.opening = None;
        if !self.in_recovery {
            self.save_cwnd();
            self.save_upon_loss();
            self.in_recovery = path.in_recovery;
        }
        let mss = path.mss_bytes as f64;
        if loss.persistent {
            self.before = None;
            // What was lost in a silence says little about how much the path loses.
            self.cwnd = self.cwnd.at_most(MIN_PACKETS * mss);
            let acked_at = self.acked_at.unwrap_or(now);
            if now.saturating_duration_since(acked_at) > STALE {
                *self = Engine {
                    cwnd: self.cwnd,
                    initial_cwnd: self.cwnd,
                    in_recovery: true,
                    orders: self.orders,
                    ..Engine::default()
                };
            }
            return Some(self.control());
        }
        if let Some(cut) = self.orders.cut.take() {
            self.rival.see(now);
            self.give_way(rules, now, cut, mss);
        }
        self.on_loss(rules, now, mss, loss, flight?);
        Some(self.control())
    }

    /// The greatest rate of late, bytes/s.
    pub fn max_bw(&self) -> f64 {
        self.max_bw.get()
    }

    /// The least RTT; nothing before the first sample.
    pub fn min_rtt(&self) -> Option<f64> {
        Some(self.min_rtt.secs).filter(|secs| secs.is_finite())
    }

    /// When it gave way to a rival last.
    pub fn gave_way(&self) -> Option<Instant> {
        self.rival.cut_at
    }

    /// When its virtual window was the limit last.
    pub fn bound_at(&self) -> Option<Instant> {
        self.rival.bound_at
    }

    /// Whether its last probe was ended by losses.
    pub fn lost_too_much(&self) -> bool {
        self.cycle.was_too_high
    }

    /// As after a probe that losses ended.
    #[cfg(test)]
    pub fn has_lost_too_much(&mut self) {
        self.cycle.was_too_high = true;
    }

    /// Takes the path for one that has this part of its rate. The next probe is as late as any, so that
    /// others find what is left first.
    pub fn scale(&mut self, rules: &Rules, now: Instant, part: f64) {
        self.taken_back = self.rounds.total();
        self.max_bw.scale(part);
        self.bounds.inflight_hi *= part;
        self.bounds.bw_lo *= part;
        self.bounds.inflight_lo *= part;
        self.bw *= part;
        self.cwnd *= part;
        self.prior_cwnd *= part;
        self.rival.window *= part;
        if self.full.reached && self.phase != Phase::ProbeRtt {
            self.leave_up(rules, now);
        }
    }

    /// Shows what is known of the path.
    pub fn show(&self, noise: f64, trace: &mut Trace) {
        // A bound that is not there is shown as 0.
        let shown = |bound: f64| if bound.is_finite() { bound } else { 0.0 };
        trace.push("phase", self.phase as u8 as f64);
        trace.push("max_bw", self.max_bw.get());
        trace.push("bw", self.bw);
        trace.push("min_rtt_s", shown(self.min_rtt.secs));
        trace.push("inflight_hi", shown(self.bounds.inflight_hi));
        trace.push("inflight_lo", shown(self.bounds.inflight_lo));
        trace.push("p0", self.judge.p0(noise));
        trace.push("queue_s", self.judge.queue_secs());
        trace.push("w_v", shown(self.rival.window));
    }
}

impl Controller for Bbr {
    type Flow = Engine;

    fn is_model(&self) -> bool {
        true
    }

    fn on_model(
        &mut self,
        own: Own<Engine>,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) -> Option<Control> {
        own.flow.model(&self.0, own.now, own.path, ack, rate)
    }

    fn on_lost(
        &mut self,
        own: Own<Engine>,
        loss: &Loss,
        flight: Option<&Flight>,
    ) -> Option<Control> {
        own.flow.lost(&self.0, own.now, own.path, loss, flight)
    }

    fn on_spurious(&mut self, engine: &mut Engine) {
        engine.on_spurious();
    }

    /// Never asked of a model.
    fn increase(&mut self, _own: Own<Engine>, _ack: &Ack) -> f64 {
        0.0
    }

    /// Never asked of a model.
    fn decrease(&mut self, own: Own<Engine>) -> f64 {
        own.path.cwnd_bytes as f64
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, engine: &Engine, trace: &mut Trace) {
        engine.show(self.0.noise, trace);
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
