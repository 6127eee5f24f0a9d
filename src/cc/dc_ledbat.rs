//! DC-LEDBAT: dynamic coupled LEDBAT (Zhang et al., "Low Priority Congestion Control for Multipath
//! TCP").
//!
//! fLEDBAT on each path, and two things more: every now and then a path empties its queue to measure
//! the base delay (Probe-OWD), and paths whose queues fall together are taken to share a bottleneck
//! and are coupled there ([`bottlenecks`](super::bottlenecks)).
//!
//! | symbol      | name here         | unit    | source                                      |
//! |-------------|-------------------|---------|---------------------------------------------|
//! | baseOWD     | `Flow::base`      | us      | equation 1                                  |
//! | TS_baseOWD  | `Flow::base_seen` | time    | section IV-B                                |
//! | reT         | `ret`             | s       | 10 s                                        |
//! | TS_PO       | `Probe::started`  | time    | section IV-B                                |
//! | q           | `Flow::queueing`  | s       | equation 1                                  |
//! | delta, alpha, zeta | [`fledbat`](super::fledbat) | | equation 2                          |
//! | alpha_S, W_S| `Coupling`        | -       | equations 3 to 7                            |
//!
//! *The window in a set* (equation 3): w_i += alpha_S/W_S per acked packet. Equation 7 asks that
//! sum_i (alpha_S/W_S) w_i/rtt_i = 1/rtt_min, so alpha_S = W_S/(rtt_min sum w_i/rtt_i); the printed
//! equation 5 lacks the factor W_S. The step is 1/(rtt_min sum w_i/rtt_i): W_S cancels, and with
//! equal RTTs the set gains one packet per round trip. Above the target the multiplicative part is
//! fLEDBAT's.
//!
//! *Probe-OWD.* The window goes to the initial one (`init`, 10 packets as in the paper's kernel) for
//! 2 delta and then back. The paper does not say back, but its throughput of 97.8 % needs it: growing
//! anew takes minutes. A loss in the phase halves what is restored. A sample within `tolerance` of
//! the base counts as having seen it, so that flows that see a queue emptied by another do not probe
//! themselves.
//!
//! *The base delay* is the least of the last `periods` phases, and of what was seen between them, so
//! that a longer route is followed in the end. With one phase, as the paper may mean, a competitor
//! that never empties its queue is robbed: what it leaves in the queue (its window less the BDP) goes
//! into the base, and the excess over the target at which flows settle (equation 6) is below a
//! millisecond at 20 Mbit/s, so half a millisecond of error doubles a share. Ten phases are RFC
//! 6817's ten periods of base history.
//!
//! *Jitter* of reT is off: paths and flows that probe together empty their queue together, and see its
//! base. With 5 %, two paths against one fLEDBAT flow took 1.7 shares for one, as the base was missed.
//!
//! *The MD signal* is the first ACK above the target after the queueing delay was below it by more than
//! the margin. In equilibrium the delay hovers at the target and crosses it in every other round
//! trip; taken as signals, those crossings coincide on any two paths, and disjoint links were
//! coupled for half of a run.

use std::time::Duration;
use std::time::Instant;

use super::bottlenecks::Bottlenecks;
use super::bottlenecks::Signal;
use super::boxed;
use super::delay::sample;
use super::delay::Grain;
use super::delay::Source;
use super::delay::GRAIN;
use super::fledbat;
use super::fledbat::Guard;
use super::fledbat::Rule;
use super::ledbat::TARGET;
use super::members::Member;
use super::reno;
use super::units::packets;
use super::units::seconds_between;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "dc-ledbat",
    coupled: true,
    summary: "DC-LEDBAT: background transfers over several paths, coupled where they share a queue",
    idea: "fLEDBAT on each path, which empties its queue every 10 s to measure the base delay; \
           paths whose queues fall together are coupled as one flow.",
    source: "Zhang et al., Low Priority Congestion Control for Multipath TCP, equations 1 to 7",
    formula: "ack: w_i += alpha/(rtt_min sum w_s/rtt_s) over the paths of a bottleneck, and zeta \
              D/target more if D = target - q < 0; loss: w_i = w_i/2",
    use_when: "backups and updates over several paths, next to other background transfers",
    avoid_when: "the transfer is urgent, or the RTT is far above the target of 100 ms",
    deviations: &[
        "the step in a set is 1/(rtt_min sum w/rtt), which equation 7 asks for; the printed \
         equation 5 lacks the factor W_S",
        "after Probe-OWD the window returns to what it was; the paper does not say so, but its \
         throughput needs it",
        "the base delay is the least of ten Probe-OWD phases; periods=1 is the paper's reading",
        "the MD signal is the first ACK above the target after the delay was below it by the \
         margin; both margins are ours",
        "reT does not vary: paths that probe together see the base; jitter changes that",
    ],
    params: &[
        TARGET,
        fledbat::ALPHA,
        fledbat::ZETA,
        fledbat::INIT,
        fledbat::SLOW_START,
        GRAIN,
        Param::time(
            "ret",
            [1.0, 10.0, 3600.0],
            "longest time without seeing the base delay",
        ),
        Param::number(
            "jitter",
            [0.0, 0.0, 0.5],
            "how much that time varies, as a fraction; none in the paper",
        ),
        Param::time(
            "tolerance",
            [0.0, 0.001, 0.1],
            "how near a sample must come to the base delay",
        ),
        Param::number(
            "periods",
            [1.0, 10.0, 32.0],
            "Probe-OWD phases whose least delay is the base; 1 in the paper",
        ),
        Param::time(
            "margin",
            [0.0, 0.002, 1.0],
            "least fall of a queueing delay that counts",
        ),
        Param::number(
            "margin_part",
            [0.0, 0.05, 1.0],
            "and as a fraction of the delay",
        ),
    ],
    new: |settings| boxed(DcLedbat::new(settings)),
};

/// The most periods that the base delay can come from.
const MAX_PERIODS: usize = 32;

/// RTTs for which q may exceed the target before it counts as congestion.
const CONGESTED_RTTS: u32 = 2;

/// A number within [-1, 1) that differs from path to path and from phase to phase.
fn spread(id: PathId, probes: u64) -> f64 {
    // Multiples of the golden ratio spread evenly, whatever the IDs are.
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = id.0.wrapping_add(probes.wrapping_mul(3)).wrapping_add(1);
    let fraction = (mixed.wrapping_mul(GOLDEN) >> 11) as f64 / (1u64 << 53) as f64;
    2.0 * fraction - 1.0
}

/// Probe-OWD.
#[derive(Clone, Copy, Debug)]
struct Probe {
    started: Instant,
    /// What to restore.
    saved_bytes: f64,
}

/// The other paths of the set, as of the last round trip.
#[derive(Clone, Copy, Debug, Default)]
struct Coupling {
    /// Their number.
    others: usize,
    /// Their sum of w/rtt, packets per second, and of w.
    rate: f64,
    window: f64,
    /// Their least RTT, seconds.
    min_rtt: f64,
}

impl Coupling {
    /// alpha_S (equation 5 with its missing factor), for alpha = 1.
    fn alpha_s(&self, own: &Member) -> f64 {
        (self.window + own.window) * self.step(own)
    }

    /// alpha_S/W_S = 1/(rtt_min sum w/rtt), packets for each acked packet; only with others.
    fn step(&self, own: &Member) -> f64 {
        let min_rtt = self.min_rtt.min(own.rtt);
        1.0 / (min_rtt * (self.rate + own.rate()))
    }
}

/// One path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    guard: Guard,
    grain: Grain,
    source: Option<Source>,
    /// The latest delay, and the least of the last periods.
    current: i64,
    base: i64,
    /// The least delay of each period, from one Probe-OWD phase to the next; this one first.
    minima: [i64; MAX_PERIODS],
    /// Periods before this one.
    ended: usize,
    /// `None` before the first sample.
    base_seen: Option<Instant>,
    probe: Option<Probe>,
    /// Probe-OWD phases so far.
    probes: u64,
    /// q has exceeded the target since.
    above: Option<Instant>,
    /// q was below the target by more than the margin since the last MD signal.
    was_low: bool,
    coupling: Coupling,
}

impl Flow {
    fn queueing(&self) -> f64 {
        match self.base_seen {
            Some(_) => seconds_between(self.base, self.current),
            None => 0.0,
        }
    }

    /// A Probe-OWD phase ended, and with it a period: the base is the least of the last `periods`.
    fn end_period(&mut self, now: Instant, periods: usize) {
        let Some(least) = self.base_micros() else {
            return;
        };
        self.ended = (self.ended + 1).min(periods - 1);
        self.minima.rotate_right(1);
        self.minima[0] = i64::MAX;
        self.base = least;
        self.base_seen = Some(now);
    }

    /// The least delay of this period and those before.
    fn base_micros(&self) -> Option<i64> {
        self.base_seen?;
        self.minima[..=self.ended].iter().min().copied()
    }

    fn on_delay(&mut self, now: Instant, source: Source, micros: i64, tolerance_micros: i64) {
        if self.source != Some(source) {
            self.source = Some(source);
            self.base_seen = None;
            self.minima = [i64::MAX; MAX_PERIODS];
            self.ended = 0;
        }
        self.current = micros;
        self.minima[0] = self.minima[0].min(micros);
        if self.base_seen.is_none() || micros < self.base {
            self.base = micros;
        }
        if self.base_seen.is_none() || micros <= self.base.saturating_add(tolerance_micros) {
            self.base_seen = Some(now);
        }
    }
}

/// The controller.
#[derive(Debug)]
struct DcLedbat {
    rule: Rule,
    init: f64,
    slow_start: bool,
    grain: Grain,
    ret: Duration,
    jitter: f64,
    tolerance_micros: i64,
    periods: usize,
    bottlenecks: Bottlenecks,
}

impl DcLedbat {
    fn new(settings: &Settings) -> Self {
        DcLedbat {
            rule: Rule::new(settings),
            init: settings.get("init"),
            slow_start: settings.word(fledbat::SLOW_START.name) == "on",
            grain: Grain::new(settings),
            ret: Duration::from_secs_f64(settings.get("ret")),
            jitter: settings.get("jitter"),
            tolerance_micros: (settings.get("tolerance") * 1e6) as i64,
            periods: settings.get("periods") as usize,
            bottlenecks: Bottlenecks::new(settings.get("margin"), settings.get("margin_part")),
        }
    }

    /// How long Probe-OWD lasts: 2 delta.
    fn probe_time(&self) -> Duration {
        Duration::from_secs_f64(2.0 * self.rule.target)
    }

    /// The paths that share the bottleneck of this one, but itself.
    fn coupling(&self, own: &Own<Flow>) -> Coupling {
        let id = own.path.id;
        let mut coupling = Coupling {
            min_rtt: f64::MAX,
            ..Coupling::default()
        };
        for member in own.members() {
            if member.path.id != id && self.bottlenecks.same_set(id, member.path.id) {
                coupling.others += 1;
                coupling.rate += member.rate();
                coupling.window += member.window;
                coupling.min_rtt = coupling.min_rtt.min(member.rtt);
            }
        }
        coupling
    }
}

impl Controller for DcLedbat {
    type Flow = Flow;

    fn on_path_added(&mut self, _now: Instant, id: PathId) -> Flow {
        self.bottlenecks.add(id);
        Flow {
            grain: self.grain,
            ..Flow::default()
        }
    }

    fn on_path_closed(&mut self, _now: Instant, id: PathId) {
        self.bottlenecks.remove(id);
    }

    fn initial_window_packets(&self) -> Option<f64> {
        Some(self.init)
    }

    fn has_slow_start(&self) -> bool {
        self.slow_start
    }

    fn reads_one_way_delay(&self) -> bool {
        true
    }

    fn on_sample(&mut self, own: Own<Flow>, ack: &Ack) {
        let (now, id, flow) = (own.now, own.path.id, own.flow);
        let (Some((source, micros)), Some(rtt)) = (sample(own.path, ack), own.path.rtt) else {
            return;
        };
        let micros = flow.grain.seen(ack.newest_sent, micros);
        flow.on_delay(now, source, micros, self.tolerance_micros);

        let (q, srtt) = (flow.queueing(), rtt.smoothed);
        if q <= self.rule.target {
            flow.above = None;
            flow.was_low |= self.bottlenecks.is_fall(self.rule.target, q);
            self.bottlenecks.on_queueing(now, id, q, srtt, false);
            return;
        }
        let was_low = std::mem::take(&mut flow.was_low);
        let above = *flow.above.get_or_insert(now);
        if now.saturating_duration_since(above) > srtt.saturating_mul(CONGESTED_RTTS) {
            self.bottlenecks.on_congestion(now, id, srtt);
        }
        // A queue that hovers at the target crosses it all the time, which means nothing.
        if was_low && flow.probe.is_none() {
            self.bottlenecks
                .on_signal(now, id, Signal::MultiplicativeDecrease);
        }
        self.bottlenecks.on_queueing(now, id, q, srtt, true);
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        own.flow.coupling = self.coupling(&own);
        own.flow.guard.on_round(packets(own.path));
        None
    }

    fn next_timer(&self, flows: &PathMap<Flow>) -> Option<Instant> {
        let time = self.probe_time();
        flows
            .iter()
            .filter_map(|(_, flow)| flow.probe?.started.checked_add(time))
            .min()
    }

    /// Probe-OWD begins and ends.
    fn on_time(&mut self, own: Own<Flow>) -> Option<Change> {
        let (now, path, flow) = (own.now, own.path, own.flow);
        let set = |cwnd_bytes| {
            Some(Change {
                cwnd_bytes,
                ssthresh_bytes: None,
            })
        };
        if let Some(probe) = flow.probe {
            if now.saturating_duration_since(probe.started) < self.probe_time() {
                return None;
            }
            flow.probe = None;
            flow.end_period(now, self.periods);
            return set(probe.saved_bytes.max(path.cwnd_bytes as f64));
        }
        if self.slow_start {
            let left = fledbat::leaves_slow_start(path, flow.queueing(), self.rule.target);
            if left.is_some() {
                return left;
            }
        }
        let jitter = self.jitter * spread(path.id, flow.probes);
        let ret = self.ret.mul_f64(1.0 + jitter);
        if now.saturating_duration_since(flow.base_seen?) <= ret {
            return None;
        }
        let saved_bytes = path.cwnd_bytes as f64;
        flow.probes += 1;
        flow.probe = Some(Probe {
            started: now,
            saved_bytes,
        });
        self.bottlenecks.on_signal(now, path.id, Signal::Probe);
        let cwnd_bytes = saved_bytes.min(self.init * path.mss_bytes as f64);
        // A slow start that has gone on until now is over, or it would grow in the phase.
        let ssthresh_bytes = (self.slow_start && path.in_slow_start()).then_some(cwnd_bytes);
        Some(Change {
            cwnd_bytes,
            ssthresh_bytes,
        })
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let (path, flow) = (own.path, own.flow);
        let Some(own) = Member::new(path) else {
            return reno::step(path, ack);
        };
        if flow.probe.is_some() {
            return 0.0;
        }
        let (w, mss) = (own.window, path.mss_bytes as f64);
        let gain = match flow.coupling.others {
            0 => self.rule.alpha / w,
            _ => self.rule.alpha * flow.coupling.step(&own),
        };
        let step = self.rule.step(gain, flow.queueing());
        flow.guard.guarded(step, ack.acked_bytes as f64 / mss, w) * mss
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        if let Some(probe) = &mut own.flow.probe {
            probe.saved_bytes *= reno::LOSS_REDUCTION_FACTOR;
        }
        let rtt = own.path.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed);
        self.bottlenecks.on_congestion(own.now, own.path.id, rtt);
        reno::half(own.path)
    }

    fn bottleneck(&self, id: PathId) -> Option<PathId> {
        self.bottlenecks.verdict(id)
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        let own = Member::new(path);
        let alpha_s = match (flow.coupling.others, own) {
            (0, _) | (_, None) => 1.0,
            (_, Some(own)) => flow.coupling.alpha_s(&own),
        };
        let base_secs = flow.base_seen.map_or(0.0, |_| flow.base as f64 * 1e-6);
        trace.push("q_secs", flow.queueing());
        trace.push("base_secs", base_secs);
        trace.push("probing", if flow.probe.is_some() { 1.0 } else { 0.0 });
        trace.push("set_paths", (flow.coupling.others + 1) as f64);
        trace.push("alpha_s", alpha_s);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn joined(n: u64) -> Flows<DcLedbat> {
        let mut controller = Flows::new(DcLedbat::new(&Settings::defaults(ENTRY.params)));
        for id in 0..n {
            controller.on_path_added(Instant::now(), PathId(id));
        }
        controller
    }

    fn delay(
        controller: &mut Flows<DcLedbat>,
        now: Instant,
        paths: &mut Registry,
        id: u64,
        ms: i64,
    ) {
        paths.get_mut(PathId(id)).unwrap().one_way_delay_micros = Some(ms * 1000);
        controller.on_sample(now, paths, PathId(id), &ack(now));
    }

    #[test]
    fn equation_5_with_its_factor() {
        // w = 20 and 10, rtt 0.1 and 0.05: sum w/rtt = 400, rtt_min 0.05, W_S = 30.
        // alpha_S = 30/(0.05 * 400) = 1.5; step 1/20 = 0.05.
        let paths = paths(&[(20, 100), (10, 50)]);
        let own = Member::new(paths.get(PathId(0)).unwrap()).unwrap();
        let coupling = Coupling {
            others: 1,
            rate: 200.0,
            window: 10.0,
            min_rtt: 0.05,
        };
        close(coupling.alpha_s(&own), 1.5);
        close(coupling.step(&own), 0.05);
        // Equation 7: sum over the paths of step * w/rtt = 0.05 * 400 = 20 = 1/rtt_min.
        close(coupling.step(&own) * 400.0, 1.0 / 0.05);
    }

    #[test]
    fn equal_rtts_gain_a_packet_per_round_trip_together() {
        // w = 20 and 20 at 0.1: alpha_S = 40/(0.1 * 400) = 1; 40 acks of 1/40 each.
        let paths = paths(&[(20, 100), (20, 100)]);
        let own = Member::new(paths.get(PathId(0)).unwrap()).unwrap();
        let coupling = Coupling {
            others: 1,
            rate: 200.0,
            window: 20.0,
            min_rtt: 0.1,
        };
        close(coupling.alpha_s(&own), 1.0);
        close(coupling.step(&own), 1.0 / 40.0);
    }

    #[test]
    fn what_parameters_say() {
        let of = |list: &str| DcLedbat::new(&settings(&ENTRY, list));
        assert!(of("slow-start=on").has_slow_start() && !of("slow-start=off").has_slow_start());
        let now = Instant::now();
        for (list, queue) in [("", 0.027), ("grain=10ms", 0.02)] {
            let mut paths = paths(&[(20, 100)]);
            let mut controller = Flows::new(of(list));
            controller.on_path_added(now, PathId(0));
            for ms in [0, 27, 27, 27, 27] {
                delay(&mut controller, now, &mut paths, 0, ms);
            }
            close(controller.flows.get(PathId(0)).unwrap().queueing(), queue);
        }
    }

    #[test]
    fn only_a_slow_start_of_its_own_ends_with_a_probe() {
        for (list, ssthresh) in [("", None), ("slow-start=on", Some(10_000.0))] {
            let now = Instant::now();
            let mut paths = paths(&[(20, 100)]);
            paths.get_mut(PathId(0)).unwrap().ssthresh_bytes = crate::registry::SSTHRESH_UNSET;
            let mut controller = Flows::new(DcLedbat::new(&settings(&ENTRY, list)));
            controller.on_path_added(now, PathId(0));
            delay(&mut controller, now, &mut paths, 0, 0);
            delay(&mut controller, now, &mut paths, 0, 20);
            let late = now + Duration::from_secs(60);
            let change = controller.on_time(late, &paths, PathId(0)).unwrap();
            assert_eq!(change.ssthresh_bytes, ssthresh);
        }
    }

    #[test]
    fn one_path_is_fledbat() {
        // q = 0: 1/20 packets; q = 110 ms: 0.05 + (-0.01/0.1) = -0.05 packets of 1000 bytes.
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        let mut controller = joined(1);
        controller.on_round(now, &paths, PathId(0), &round(100));
        delay(&mut controller, now, &mut paths, 0, 0);
        close(controller.increase(now, &paths, PathId(0), &ack(now)), 50.0);
        delay(&mut controller, now, &mut paths, 0, 110);
        close(
            controller.increase(now, &paths, PathId(0), &ack(now)),
            -50.0,
        );
    }

    #[test]
    fn the_base_delay_is_probed_and_the_window_comes_back() {
        let start = Instant::now();
        let id = PathId(0);
        let mut paths = paths(&[(300, 100)]);
        let mut controller = joined(1);
        controller.controller.periods = 1;
        delay(&mut controller, start, &mut paths, 0, 20);
        controller.flows.get_mut(id).unwrap().minima[0] = i64::MAX; // a period ago
                                                                    // 10 s with a queue of 80 ms: not yet; then 10 packets.
        delay(&mut controller, start + 9000 * MS, &mut paths, 0, 100);
        assert_eq!(controller.on_time(start + 10_000 * MS, &paths, id), None);
        let begun = start + 10_001 * MS;
        let change = controller.on_time(begun, &paths, id).unwrap();
        close(change.cwnd_bytes, 10_000.0);
        assert_eq!(controller.next_timer(), Some(begun + 200 * MS));

        // The route became longer: 35 ms is the least of the phase, and the base after it.
        paths.get_mut(id).unwrap().cwnd_bytes = 10_000;
        delay(&mut controller, begun + 100 * MS, &mut paths, 0, 60);
        delay(&mut controller, begun + 150 * MS, &mut paths, 0, 35);
        close(controller.increase(begun, &paths, id, &ack(begun)), 0.0);
        assert_eq!(controller.on_time(begun + 199 * MS, &paths, id), None);
        let change = controller.on_time(begun + 200 * MS, &paths, id).unwrap();
        close(change.cwnd_bytes, 300_000.0);
        close(controller.flows.get(id).unwrap().queueing(), 0.0);
        assert_eq!(controller.flows.get(id).unwrap().base, 35_000);
        assert_eq!(controller.next_timer(), None);
    }

    #[test]
    fn a_loss_in_the_phase_halves_what_comes_back() {
        let start = Instant::now();
        let id = PathId(0);
        let mut paths = paths(&[(300, 100)]);
        let mut controller = joined(1);
        delay(&mut controller, start, &mut paths, 0, 20);
        let begun = start + 11_000 * MS;
        controller.on_time(begun, &paths, id).unwrap();
        paths.get_mut(id).unwrap().cwnd_bytes = 10_000;
        close(controller.decrease(begun + 50 * MS, &paths, id), 5_000.0);
        let change = controller.on_time(begun + 200 * MS, &paths, id).unwrap();
        close(change.cwnd_bytes, 150_000.0);
    }

    #[test]
    fn jitter_is_within_its_bounds_and_differs() {
        let mut seen: Vec<_> = (0..4)
            .flat_map(|id| (0..50).map(move |probes| spread(PathId(id), probes)))
            .collect();
        assert!(seen.iter().all(|spread| (-1.0..1.0).contains(spread)));
        close(spread(PathId(3), 9), spread(PathId(3), 9));
        seen.sort_by(f64::total_cmp);
        assert!(seen[20] < -0.5 && seen[180] > 0.5);
        assert!(spread(PathId(0), 0) != spread(PathId(1), 0));
    }

    #[test]
    fn the_base_is_the_least_of_the_last_periods() {
        // Phases that see 20, 35, 30 ms; of two periods the least is 20, then 20, then 30.
        let now = Instant::now();
        let mut flow = Flow::default();
        let mut bases = Vec::new();
        for micros in [20_000, 35_000, 30_000] {
            flow.on_delay(now, Source::OneWay, micros, 1000);
            flow.end_period(now, 2);
            bases.push(flow.base);
        }
        assert_eq!(bases, [20_000, 20_000, 30_000]);
    }

    #[test]
    fn a_sample_near_the_base_postpones_the_probe() {
        let start = Instant::now();
        let mut paths = paths(&[(300, 100)]);
        let mut controller = joined(1);
        delay(&mut controller, start, &mut paths, 0, 20);
        delay(&mut controller, start + 8000 * MS, &mut paths, 0, 21);
        let later = start + 17_000 * MS;
        assert_eq!(controller.on_time(later, &paths, PathId(0)), None);
        assert!(controller
            .on_time(later + 1001 * MS, &paths, PathId(0))
            .is_some());
    }

    /// Two paths that are believed to share a bottleneck, after a round trip of the first.
    fn coupled(now: Instant, paths: &Registry) -> Flows<DcLedbat> {
        let mut controller = joined(2);
        let bottlenecks = &mut controller.controller.bottlenecks;
        for turn in 0..2 {
            let at = now + turn * 1000 * MS;
            for id in [PathId(0), PathId(1)] {
                bottlenecks.on_queueing(at, id, 0.05, 100 * MS, false);
            }
            for id in [PathId(0), PathId(1)] {
                bottlenecks.on_signal(at, id, Signal::MultiplicativeDecrease);
            }
        }
        controller.on_round(now, paths, PathId(0), &round(100));
        controller
    }

    #[test]
    fn coupled_paths_grow_as_one() {
        // w/rtt = 400 and 200, the least RTT 50 ms: 1/(0.05 600) = 1/30 packets for each acked one.
        let now = Instant::now();
        let paths = paths(&[(40, 100), (10, 50)]);
        let mut controller = coupled(now, &paths);
        let gained = controller.increase(now, &paths, PathId(0), &ack(now));
        close(gained, 1000.0 / 30.0);
        // alpha_S = W_S/30.
        let shown = [
            ("q_secs", 0.0),
            ("base_secs", 0.0),
            ("probing", 0.0),
            ("set_paths", 2.0),
            ("alpha_s", 50.0 / 30.0),
        ];
        shows(&controller, &paths, &shown);
        // Once the other one has left, it is 1/40.
        controller.on_path_closed(now, PathId(1));
        controller.on_round(now, &paths, PathId(0), &round(100));
        let gained = controller.increase(now, &paths, PathId(0), &ack(now));
        close(gained, 25.0);
    }

    #[test]
    fn a_third_path_counts_too() {
        let now = Instant::now();
        let two = paths(&[(40, 100), (10, 50)]);
        let mut controller = coupled(now, &two);
        let three = paths(&[(40, 100), (10, 50), (30, 200)]);
        controller.on_path_added(now, PathId(2));
        for turn in 2..4 {
            let at = now + turn * 1000 * MS;
            let bottlenecks = &mut controller.controller.bottlenecks;
            for id in [PathId(1), PathId(2)] {
                bottlenecks.on_queueing(at, id, 0.05, 100 * MS, false);
            }
            for id in [PathId(1), PathId(2)] {
                bottlenecks.on_signal(at, id, Signal::MultiplicativeDecrease);
            }
        }
        controller.on_round(now, &three, PathId(0), &round(100));
        let coupling = controller.flows.get(PathId(0)).unwrap().coupling;
        assert_eq!(coupling.others, 2);
        close(coupling.rate, 350.0);
        close(coupling.window, 40.0);
        close(coupling.min_rtt, 0.05);
    }

    #[test]
    fn what_the_transport_is_told() {
        let dc_ledbat = ENTRY.with_defaults();
        assert_eq!(dc_ledbat.initial_window_packets(), Some(10.0));
        assert!(!dc_ledbat.has_slow_start() && dc_ledbat.reads_one_way_delay());
    }

    #[test]
    fn crossing_the_target_from_below_is_a_signal() {
        // Twice together: one set. A queue that stays above it crosses it once.
        for (falls, set) in [(true, true), (false, false)] {
            let now = Instant::now();
            let mut paths = paths(&[(20, 100), (20, 100)]);
            let mut controller = joined(2);
            for (at, ms) in [(0, 0), (10, 110), (20, 0), (30, 110), (40, 112), (50, 111)] {
                for id in [0, 1] {
                    let ms = if falls || at == 0 { ms } else { 110 };
                    delay(&mut controller, now + at * MS, &mut paths, id, ms);
                }
            }
            let bottlenecks = &controller.controller.bottlenecks;
            assert_eq!(bottlenecks.same_set(PathId(0), PathId(1)), set, "{falls}");
        }
    }

    #[test]
    fn two_round_trips_above_the_target_are_congestion() {
        // What is congested proves nothing: decreases together do not make a set.
        for (ms, congested) in [(200, false), (201, true)] {
            let now = Instant::now();
            let mut paths = paths(&[(20, 100), (20, 100)]);
            let mut controller = joined(2);
            for id in [0, 1] {
                delay(&mut controller, now, &mut paths, id, 0);
            }
            let above = now + 10 * MS;
            for at in [above, above + ms * MS] {
                delay(&mut controller, at, &mut paths, 1, 110);
            }
            let bottlenecks = &mut controller.controller.bottlenecks;
            for id in [0, 1, 0, 1] {
                let at = above + (ms + 1) * MS;
                bottlenecks.on_signal(at, PathId(id), Signal::MultiplicativeDecrease);
            }
            let set = bottlenecks.same_set(PathId(0), PathId(1));
            assert_eq!(set, !congested, "{ms}");
        }
    }

    #[test]
    fn jitter_moves_the_probe() {
        let start = Instant::now();
        let paths = &mut paths(&[(300, 100)]);
        let mut controller = joined(1);
        controller.controller.jitter = 0.5;
        delay(&mut controller, start, paths, 0, 20);
        let due = start + Duration::from_secs(10).mul_f64(1.0 + 0.5 * spread(PathId(0), 0));
        assert!((due - start).abs_diff(Duration::from_secs(10)) > 500 * MS);
        assert_eq!(controller.on_time(due - MS, paths, PathId(0)), None);
        assert!(controller.on_time(due + MS, paths, PathId(0)).is_some());
        assert_eq!(controller.flows.get(PathId(0)).unwrap().probes, 1);
    }

    #[test]
    fn a_lower_delay_is_the_base_at_once() {
        let now = Instant::now();
        let mut flow = Flow::default();
        for (micros, queueing) in [(50_000, 0.0), (20_000, 0.0), (60_000, 0.04)] {
            flow.on_delay(now, Source::OneWay, micros, 1000);
            close(flow.queueing(), queueing);
        }
    }

    #[test]
    fn what_is_shown_of_a_path_by_itself() {
        let now = Instant::now();
        let mut paths = paths(&[(20, 100)]);
        let mut controller = joined(1);
        for ms in [20, 50] {
            delay(&mut controller, now, &mut paths, 0, ms);
        }
        let shown = [
            ("q_secs", 0.03),
            ("base_secs", 0.02),
            ("probing", 0.0),
            ("set_paths", 1.0),
            ("alpha_s", 1.0),
        ];
        shows(&controller, &paths, &shown);
    }
}
