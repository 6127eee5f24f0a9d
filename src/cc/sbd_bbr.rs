//! BBRv3 by path, one flow where paths share a bottleneck.
//!
//! Each path has the model of [`bbr`](super::bbr). [`sbd`](super::sbd) finds groups of paths that
//! share a queue. A path that probes alone, with a share s of a link, sees its rate grow by 1.25/(1 +
//! 0.25 s), and n small ones that probe at different times grow like n small flows. So the paths of
//! a group
//!
//! - probe at the same time ([`Clock`]): one of them, the leader, decides when, and waits for as many
//!   round trips as a flow of all their windows would. Losses that end the probe of one end it for all.
//!   Every third probe is the leader's alone, as delays of those who probe together move together
//!   whether they share a queue or not;
//! - have together no more than what they deliver together: rates are maxima, of different times.
//!   kappa = B / sum of max_bw, within [0.85, 1], with B the most that was delivered by all in two
//!   round trips, of two cycles;
//! - empty the queue at the same time (ProbeRTT): one that goes on has the others' part meanwhile,
//!   and takes it for its own;
//! - give way to a rival together: what one loses with a queue cuts all their virtual windows, which
//!   grow by their shares of one flow's (`compete`);
//! - measure what may be queued by the mean of their RTTs, weighted by rate;
//! - have what the best of them has when they become one: rates and bounds are scaled by the greatest
//!   of the rates over their sum. The next probe is as late as any, as who probes first finds what
//!   that leaves.
//!
//! While it is not known of two paths, one of them probes at a time: the other waits for it, for two seconds at most.

use std::time::Duration;
use std::time::Instant;

use super::bbr;
use super::bbr::Engine;
use super::bbr::Orders;
use super::bbr::Phase;
use super::bbr::Rules;
use super::boxed;
use super::sbd;
use super::sbd::Act;
use super::sbd::Detector;
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
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "sbd-bbr",
    coupled: true,
    summary: "BBRv3 by path, one flow where paths share a bottleneck",
    idea:
        "Paths whose queueing delays move together share a queue, and probe as one BBR flow there; \
           the others are a flow each.",
    source: "draft-ietf-ccwg-bbr (BBRv3), August 2026; detection and coupling are ours",
    formula:
        "as uncoupled-bbr, with bw = kappa min(max_bw, bw_lo), w = bw min_rtt + (gain - 1) bw \
              mean rtt; kappa = B/sum max_bw within [0.85, 1]; Refill and Up at the same time; \
              join: bw = bw max bw/sum bw",
    use_when:
        "paths may share a bottleneck or not, and links may lose packets that no queue has dropped",
    avoid_when:
        "others at the bottleneck are quiche's BBRv2 with short queues, to whom it leaves too little",
    deviations: &[
        "those of uncoupled-bbr",
        "a path alone is uncoupled-bbr:compete=aimd",
        "rates, RTTs, the probing clock and what is given up for a rival are of the group: each path \
         judges its own losses",
    ],
    params: &PARAMS,
    new: |settings| boxed(SbdBbr::new(settings)),
};

const PARAMS: [Param; bbr::PARAMS.len() + 2] = {
    let mut all = [sbd::DETECT; bbr::PARAMS.len() + 2];
    all[1] = sbd::POWER;
    let mut i = 0;
    while i < bbr::PARAMS.len() {
        all[i + 2] = bbr::PARAMS[i];
        i += 1;
    }
    all[2 + bbr::COMPETE] = bbr::compete(&["aimd", "one-cubic", "off"]);
    all
};

/// The least kappa: 0.85 x 1.25 is above 1, so that a probe finds what there is.
const LEAST_KAPPA: f64 = 0.85;

/// Every so many probes of a group the leader's is its own: whoever shares its queue sees it, too.
const SOLO_EVERY: u64 = 3;

/// A group whose leader has not probed for so long beyond the longest wait is probed by any path.
const LEADER_LATE: Duration = Duration::from_secs(4);

/// Two round trips are this long at least.
const LEAST_ROUNDS: Duration = Duration::from_millis(20);

/// The controller.
#[derive(Debug)]
struct SbdBbr {
    rules: Rules,
    detector: Detector,
    /// Of groups, by the least ID of their paths, and of paths alone.
    clocks: PathMap<Clock>,
    memberships: PathMap<Membership>,
    /// What `regroup` works with.
    changes: PathMap<f64>,
    /// Counts changes of phases and of groups.
    turns: u64,
}

/// Of a path in a group.
#[derive(Clone, Copy, Debug)]
struct Membership {
    group: PathId,
    /// What to scale the path's rate by at its next event.
    kept: f64,
}

/// When the paths of a group probe.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// Counts probes.
    probe: u64,
    /// The probe that is over for all.
    ended: u64,
    /// Counts the times that the queue was emptied.
    probe_rtt: u64,
    /// When the last one began.
    since: Option<Instant>,
    /// When one of them gave way to a rival last.
    cut: Option<Instant>,
    /// In which what all deliver is counted.
    round: Option<Round>,
    /// The most that was delivered, bytes/s, in this cycle and the last one.
    delivered: [f64; 2],
}

impl Clock {
    fn begin(&mut self, now: Instant) {
        self.probe += 1;
        self.since = Some(now);
        self.delivered = [0.0, self.delivered[0]];
    }

    fn delivered(&self) -> f64 {
        self.delivered[0].at_least(self.delivered[1])
    }

    /// Whether the latest probe is of the path alone that began it.
    fn is_solo(&self) -> bool {
        self.probe > 0 && self.probe.is_multiple_of(SOLO_EVERY)
    }
}

/// Two round trips.
#[derive(Clone, Copy, Debug)]
struct Round {
    since: Instant,
    /// The earliest end.
    least_end: Instant,
    /// Bytes.
    delivered: f64,
}

impl Round {
    fn new(now: Instant) -> Round {
        Round {
            since: now,
            least_end: now + LEAST_ROUNDS,
            delivered: 0.0,
        }
    }
}

/// One path.
#[derive(Clone, Debug, Default)]
struct Flow {
    engine: Engine,
    /// The probe of the group that it has begun last.
    probe: u64,
    probe_rtt: u64,
    /// Bytes that were delivered by its last ACK.
    total: u64,
    /// Whether it is alone in its group, and as of which turn, with which other paths. Its orders are
    /// the same until the next.
    is_alone: bool,
    turn: (u64, u64),
}

impl SbdBbr {
    fn new(settings: &Settings) -> Self {
        SbdBbr {
            rules: Rules::new(settings),
            detector: Detector::new(settings, 0),
            clocks: PathMap::default(),
            memberships: PathMap::default(),
            changes: PathMap::default(),
            // Before the first, flows know nothing.
            turns: 1,
        }
    }

    /// Groups changed. Those that became one have what the best of them had: each path keeps the
    /// greatest of their rates over the sum.
    fn regroup(&mut self, own: &Own<Flow>) {
        self.turns += 1;
        let (detector, was) = (&self.detector, &self.memberships);
        let rates = |in_sum: &dyn Fn(PathId) -> bool| -> f64 {
            let flows = own.flows().filter(|(member, _)| in_sum(member.path.id));
            flows.map(|(_, flow)| flow.engine.max_bw()).sum()
        };
        let was_with = |a: PathId, b: PathId| match (was.get(a), was.get(b)) {
            (Some(a), Some(b)) => a.group == b.group,
            _ => false,
        };
        let kept = |id: PathId| {
            let now = own.flows().map(|(member, _)| member.path.id);
            let now = now.filter(|other| detector.same_group(id, *other));
            let parts = now.map(|part| {
                rates(&|other| was_with(part, other) && detector.same_group(part, other))
            });
            let all = rates(&|other| detector.same_group(id, other));
            let most = parts.reduce(f64::max).unwrap_or(all);
            if all > 0.0 {
                most / all
            } else {
                1.0
            }
        };
        for (member, _) in own.flows() {
            let id = member.path.id;
            if let Some(flow) = self.changes.get_mut(id) {
                *flow = kept(id);
            }
        }
        for (id, membership) in self.memberships.iter_mut() {
            membership.group = detector.group(id);
            membership.kept *= self.changes.get(id).copied().unwrap_or(1.0);
        }
    }

    /// What the group asks of a path. Where it is stored as it is made, nothing waits for a copy.
    #[inline(always)]
    fn orders(detector: &Detector, clock: &Clock, group: PathId, own: &Own<Flow>) -> Orders {
        let (id, flow) = (own.path.id, &*own.flow);
        let mut orders = Orders::default();
        let mut leader = id;
        let (mut is_alone, mut another_probes) = (true, false);
        let own_bw = flow.engine.max_bw();
        let mut bw = own_bw;
        let mut weighted = own_bw * flow.engine.min_rtt().unwrap_or(0.0);
        for (path, other) in own.others() {
            let phase = other.engine.phase;
            if detector.group(path.id) != group {
                // Of two of which it is not known yet whether they share one probes at a time, and may
                // make a queue for the other.
                let probes = matches!(phase, Phase::Refill | Phase::Up);
                if (probes || makes_queue(phase, false)) && detector.is_open(id, path.id) {
                    another_probes |= probes;
                    orders.others_act |= makes_queue(phase, false);
                }
                continue;
            }
            is_alone = false;
            let (rate, min_rtt) = (other.engine.max_bw(), other.engine.min_rtt().unwrap_or(0.0));
            bw += rate;
            weighted += rate * min_rtt;
            orders.others_act |= makes_queue(phase, true);
            orders.others_packets += rate * min_rtt / path.mss_bytes as f64;
            orders.bound_at = orders.bound_at.max(other.engine.bound_at());
            if !phase.is_starting() {
                leader = leader.min(path.id);
            }
        }
        if is_alone {
            orders.yields = another_probes;
            return orders;
        }
        if bw > 0.0 {
            orders.queue_rtt = weighted / bw;
            orders.others_share = 1.0 - own_bw / bw;
        }
        if clock.delivered() > 0.0 {
            orders.less = 1.0 - (clock.delivered() / bw).clamp(LEAST_KAPPA, 1.0);
        }
        let late = |since| own.now.saturating_duration_since(since) > LEADER_LATE;
        let is_under_way = clock.ended < clock.probe && !clock.is_solo();
        orders.probe = clock.probe > flow.probe && is_under_way;
        orders.hold = leader != id && !clock.since.is_some_and(late);
        orders.probe_rtt = clock.probe_rtt > flow.probe_rtt && !flow.engine.phase.is_starting();
        // What happened before it was a member is none of its business.
        let recent = 2.0 * flow.engine.min_rtt().unwrap_or(0.0);
        let is_recent = |cut| own.now.saturating_duration_since(cut).as_secs_f64() <= recent;
        let is_new = clock.cut > flow.engine.gave_way();
        orders.cut = clock.cut.filter(|cut| is_new && is_recent(*cut));
        orders.end_probe = clock.ended >= flow.probe && flow.probe > 0;
        orders
    }

    /// Takes note of what the group did to the path, and of what the path does to its group.
    #[inline]
    fn after(clock: &mut Clock, own: &mut Own<Flow>, before: Phase) {
        let (now, phase) = (own.now, own.flow.engine.phase);
        if phase == Phase::Refill && before != Phase::Refill {
            let is_over = clock.ended >= clock.probe || clock.is_solo();
            if own.flow.probe >= clock.probe || is_over {
                clock.begin(now);
            }
            own.flow.probe = clock.probe;
        }
        // Whoever finds much more by itself calls the others.
        if phase == Phase::Startup && before == Phase::Up && clock.is_solo() {
            clock.begin(now);
            own.flow.probe = clock.probe;
        }
        if phase == Phase::ProbeRtt && before != Phase::ProbeRtt {
            // One that begins without being told to tells the others.
            clock.probe_rtt += u64::from(own.flow.probe_rtt >= clock.probe_rtt);
            own.flow.probe_rtt = clock.probe_rtt;
        }
        if own.flow.engine.gave_way() > clock.cut {
            clock.cut = own.flow.engine.gave_way();
            clock.ended = clock.probe;
        }
        let ends = before == Phase::Up && phase != Phase::Up;
        if ends && own.flow.engine.lost_too_much() && own.flow.probe == clock.probe {
            clock.ended = clock.probe;
        }
    }

    /// What the group delivered in two round trips, if they ended. A rate of one ACK's packets more or
    /// less is a greater error the shorter the time.
    #[inline]
    fn note_rate(
        detector: &Detector,
        clock: &mut Clock,
        group: PathId,
        own: &mut Own<Flow>,
        total: u64,
    ) {
        let acked = total.saturating_sub(std::mem::replace(&mut own.flow.total, total)) as f64;
        let Some(round) = &mut clock.round else {
            clock.round = Some(Round::new(own.now));
            return;
        };
        round.delivered += acked;
        if own.now < round.least_end {
            return;
        }
        let secs = own.now.saturating_duration_since(round.since).as_secs_f64();
        let rounds = |flow: &Flow| secs >= 2.0 * flow.engine.min_rtt().unwrap_or(0.0);
        let in_group = |path: &PathState| detector.group(path.id) == group;
        if rounds(own.flow) && (own.others()).all(|(path, flow)| !in_group(path) || rounds(flow)) {
            clock.delivered[0] = clock.delivered[0].at_least(round.delivered / secs);
            clock.round = Some(Round::new(own.now));
        }
    }
}

/// Whether a path in this phase makes a queue for another one. Those of a group leave Up together, so
/// that what others drain, this one does too.
fn makes_queue(phase: Phase, in_group: bool) -> bool {
    match phase {
        Phase::Startup | Phase::Drain | Phase::Up => true,
        Phase::Down => !in_group,
        Phase::Cruise | Phase::Refill | Phase::ProbeRtt => false,
    }
}

fn doing(phase: Phase) -> Act {
    match phase {
        Phase::Startup => Act::Starts,
        Phase::Drain | Phase::Up | Phase::ProbeRtt => Act::Acts,
        Phase::Down | Phase::Cruise | Phase::Refill => Act::Steady,
    }
}

impl Controller for SbdBbr {
    type Flow = Flow;

    fn on_path_added(&mut self, now: Instant, id: PathId) -> Flow {
        self.detector.add(now, id);
        self.clocks.insert(id, Clock::default());
        let alone = Membership {
            group: id,
            kept: 1.0,
        };
        self.memberships.insert(id, alone);
        self.changes.insert(id, 1.0);
        Flow::default()
    }

    fn on_path_closed(&mut self, now: Instant, id: PathId) {
        self.detector.remove(now, id);
        self.clocks.remove(id);
        self.memberships.remove(id);
        self.changes.remove(id);
    }

    fn reads_one_way_delay(&self) -> bool {
        true
    }

    fn is_model(&self) -> bool {
        true
    }

    fn on_model(
        &mut self,
        mut own: Own<Flow>,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) -> Option<Control> {
        let (now, path) = (own.now, own.path);
        let before = own.flow.engine.phase;
        if self.detector.on_ack(now, path, ack, doing(before)) {
            self.regroup(&own);
        }
        let group = self.detector.group(path.id);
        let Some(clock) = self.clocks.get_mut(group) else {
            own.flow.engine.orders = Orders::default();
            return own.flow.engine.model(&self.rules, now, path, ack, rate);
        };
        // Health and first RTTs change unseen; paths that come and go are turns.
        let others = own
            .others()
            .fold(0, |all, (other, _)| all | 1 << (other.id.0 % 64));
        let turn = (self.turns + self.detector.turns(), others);
        let is_new_turn = std::mem::replace(&mut own.flow.turn, turn) != turn;
        if is_new_turn {
            if let Some(membership) = self.memberships.get_mut(path.id) {
                let kept = std::mem::replace(&mut membership.kept, 1.0);
                if kept < 1.0 {
                    own.flow.engine.scale(&self.rules, now, kept);
                    own.flow.probe = clock.probe;
                    own.flow.probe_rtt = clock.probe_rtt;
                }
            }
            own.flow.is_alone = self.detector.group_paths(path.id) == 1;
        }
        if is_new_turn || !own.flow.is_alone {
            own.flow.engine.orders = Self::orders(&self.detector, clock, group, &own);
        }
        debug_assert_eq!(
            own.flow.engine.orders,
            Self::orders(&self.detector, clock, group, &own)
        );
        let control = own.flow.engine.model(&self.rules, now, path, ack, rate);
        self.turns += u64::from(own.flow.engine.phase != before);
        Self::after(clock, &mut own, before);
        if let Some(rate) = rate {
            Self::note_rate(&self.detector, clock, group, &mut own, rate.total_bytes);
        }
        control
    }

    fn on_lost(
        &mut self,
        mut own: Own<Flow>,
        loss: &Loss,
        flight: Option<&Flight>,
    ) -> Option<Control> {
        let before = own.flow.engine.phase;
        let (now, path) = (own.now, own.path);
        let group = self.detector.group(path.id);
        let clock = self.clocks.get_mut(group);
        if let Some(clock) = &clock {
            own.flow.engine.orders.cut = Self::orders(&self.detector, clock, group, &own).cut;
        }
        let control = own.flow.engine.lost(&self.rules, now, path, loss, flight);
        self.turns += u64::from(own.flow.engine.phase != before);
        if let Some(clock) = clock {
            Self::after(clock, &mut own, before);
        }
        control
    }

    fn on_spurious(&mut self, flow: &mut Flow) {
        flow.engine.on_spurious();
    }

    /// Never asked of a model.
    fn increase(&mut self, _own: Own<Flow>, _ack: &Ack) -> f64 {
        0.0
    }

    /// Never asked of a model.
    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.path.cwnd_bytes as f64
    }

    fn bottleneck(&self, id: PathId) -> Option<PathId> {
        self.detector.verdict(id)
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        flow.engine.show(self.rules.noise(), trace);
        trace.push("set_paths", self.detector.group_paths(path.id) as f64);
        trace.push("shared_llr", self.detector.llr(path.id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::CONTROLLERS;
    use super::*;
    use crate::health::Health;

    /// One ACK of a packet that was sent a round trip ago, at `rate` bytes/s.
    fn rated(total: u64, rate: f64) -> RateSample {
        RateSample {
            total_bytes: total,
            prior_bytes: total.saturating_sub((rate * 0.05) as u64),
            interval: Duration::from_millis(50),
            newest: Flight {
                tx_in_flight_bytes: 50_000,
                packet_bytes: MSS,
                ..Flight::default()
            },
        }
    }

    #[test]
    fn who_joins_has_what_the_best_has() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 50), (50, 50)]);
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=all")), &paths);
        // They were apart so far.
        for (id, membership) in all.controller.memberships.iter_mut() {
            membership.group = id;
        }
        let rates = [1e6, 3e6, 2e6];
        let mut totals = [0; 3];
        for _ in 0..4 {
            now += Duration::from_millis(50);
            for id in 0..3 {
                totals[id] += (rates[id] * 0.05) as u64;
                let ack = Ack {
                    rtt_sample: Some(Duration::from_millis(50)),
                    acked_bytes: 50_000,
                    ..ack(now)
                };
                let rate = rated(totals[id], rates[id]);
                all.on_model(now, &paths, PathId(id as u64), &ack, Some(&rate));
            }
        }
        let (before, flow, after) = all.flows.split(PathId(1)).unwrap();
        let path = paths.get(PathId(1)).unwrap();
        let own = Own::new(now, path, flow, &paths, [before, after]);
        all.controller.regroup(&own);
        for (_, membership) in all.controller.memberships.iter() {
            close(membership.kept, 0.5);
            assert_eq!(membership.group, PathId(0));
        }
        // Once only: they are one group now.
        all.controller.regroup(&own);
        for (_, membership) in all.controller.memberships.iter() {
            close(membership.kept, 0.5);
        }
    }

    #[test]
    fn who_joins_takes_its_part_at_its_next_ack() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        for (kept, part) in [(0.5, 0.5), (1.0, 1.0), (1.5, 1.0)] {
            let mut all = three(8, &paths, &mut now);
            let before = flow(&mut all, 1).engine.max_bw();
            let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
            (clock.probe, clock.probe_rtt, clock.ended) = (5, 3, 5);
            let membership = all.controller.memberships.get_mut(PathId(1)).unwrap();
            membership.kept = kept;
            all.controller.turns += 1;
            // No rate is measured by it.
            let nothing = RateSample::default();
            all.on_model(now, &paths, PathId(1), &ack(now), Some(&nothing));
            close(flow(&mut all, 1).engine.max_bw(), part * before);
            // It counts for one that was in all probes so far.
            let counts = (flow(&mut all, 1).probe, flow(&mut all, 1).probe_rtt);
            assert_eq!(counts == (5, 3), kept < 1.0, "{counts:?}");
            let membership = all.controller.memberships.get(PathId(1)).unwrap();
            close(membership.kept, 1.0);
        }
    }

    #[test]
    fn what_one_gives_up_all_do() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 50)]);
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=all")), &paths);
        let (rates, mut totals) = ([1e6, 3e6], [0; 2]);
        for _ in 0..4 {
            now += Duration::from_millis(50);
            for id in 0..2 {
                totals[id] += (rates[id] * 0.05) as u64;
                let ack = Ack {
                    rtt_sample: Some(Duration::from_millis(50)),
                    ..ack(now)
                };
                let rate = rated(totals[id], rates[id]);
                all.on_model(now, &paths, PathId(id as u64), &ack, Some(&rate));
            }
        }
        let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
        clock.cut = Some(now);
        let (before, flow, after) = all.flows.split(PathId(1)).unwrap();
        let path = paths.get(PathId(1)).unwrap();
        let mut own = Own::new(now, path, flow, &paths, [before, after]);
        let orders = orders_of(&all.controller, &own);
        assert_eq!(orders.cut, Some(now));
        // It has 3 of 4 MB/s.
        close(orders.others_share, 0.25);
        // Two round trips later it is over, for who comes then.
        own.now += Duration::from_millis(101);
        assert_eq!(orders_of(&all.controller, &own).cut, None);
    }

    /// Three paths in one group that deliver 1, 3 and 2 MB/s with least RTTs of 50, 100 and 50 ms, after
    /// so many round trips.
    fn three(rounds: usize, paths: &Registry, now: &mut Instant) -> Flows<SbdBbr> {
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=all")), paths);
        let mut totals = [0; 3];
        for _ in 0..rounds {
            *now += Duration::from_millis(50);
            for (id, rate, rtt_ms) in [(0, 1e6, 50), (1, 3e6, 100), (2, 2e6, 50)] {
                totals[id] += (rate * 0.05) as u64;
                let ack = Ack {
                    rtt_sample: Some(Duration::from_millis(rtt_ms)),
                    in_flight_before_bytes: 50_000,
                    ..ack(*now)
                };
                let rate = rated(totals[id], rate);
                all.on_model(*now, paths, PathId(id as u64), &ack, Some(&rate));
            }
        }
        all
    }

    /// What is asked of path `id` of these.
    fn clock_of(all: &mut SbdBbr, id: PathId) -> (&Detector, &mut Clock, PathId) {
        let group = all.detector.group(id);
        let clock = all.clocks.get_mut(group).unwrap();
        (&all.detector, clock, group)
    }

    fn orders_of(all: &SbdBbr, own: &Own<Flow>) -> Orders {
        let group = all.detector.group(own.path.id);
        let clock = all.clocks.get(group).unwrap();
        SbdBbr::orders(&all.detector, clock, group, own)
    }

    fn orders(all: &mut Flows<SbdBbr>, paths: &Registry, now: Instant, id: u64) -> Orders {
        let (before, flow, after) = all.flows.split(PathId(id)).unwrap();
        let path = paths.get(PathId(id)).unwrap();
        let own = Own::new(now, path, flow, paths, [before, after]);
        orders_of(&all.controller, &own)
    }

    fn flow(all: &mut Flows<SbdBbr>, id: u64) -> &mut Flow {
        all.flows.get_mut(PathId(id)).unwrap()
    }

    #[test]
    fn what_a_group_asks_by_hand() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        let mut all = three(4, &paths, &mut now);
        // What delivered the group together is not known.
        let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
        clock.delivered = [0.0, 0.0];
        for id in 0..3 {
            flow(&mut all, id).engine.phase = Phase::Startup;
        }
        let asked = orders(&mut all, &paths, now, 1);
        // 1 MB/s 50 ms and 2 MB/s 50 ms of others in flight; the mean RTT is 0.45 MB / 6 MB/s.
        close(asked.others_packets, 150.0);
        close(asked.queue_rtt, 0.075);
        close(asked.others_share, 0.5);
        close(asked.less, 0.0);
        // All of them are in Startup.
        assert!(
            !asked.hold && !asked.yields && !asked.probe && !asked.probe_rtt && !asked.end_probe
        );
        assert!(asked.others_act);
        // They delivered 5.4 of 6 MB/s in this cycle or in the last one, and no more than 15 % are taken off.
        for (delivered, less) in [
            ([5.4e6, 1e6], 0.1),
            ([1e6, 5.4e6], 0.1),
            ([3e6, 1e6], 0.15),
            ([7e6, 0.0], 0.0),
        ] {
            all.controller.clocks.get_mut(PathId(0)).unwrap().delivered = delivered;
            close(orders(&mut all, &paths, now, 1).less, less);
        }
    }

    #[test]
    fn a_group_that_knows_no_rate_asks_nothing() {
        let now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100)]);
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=all")), &paths);
        let asked = orders(&mut all, &paths, now, 0);
        for number in [
            asked.others_packets,
            asked.queue_rtt,
            asked.others_share,
            asked.less,
        ] {
            assert_eq!(number, 0.0);
        }
        let (before, flow, after) = all.flows.split(PathId(0)).unwrap();
        let path = paths.get(PathId(0)).unwrap();
        let own = Own::new(now, path, flow, &paths, [before, after]);
        all.controller.regroup(&own);
        for (_, membership) in all.controller.memberships.iter() {
            assert_eq!(membership.kept, 1.0);
        }
    }

    #[test]
    fn who_leads_and_when_others_probe() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        let mut all = three(4, &paths, &mut now);
        for id in 0..3 {
            flow(&mut all, id).engine.phase = Phase::Cruise;
        }
        let ask = |all: &mut Flows<SbdBbr>, now| [0, 1, 2].map(|id| orders(all, &paths, now, id));
        // The least of those that have found their rate leads, and the others hold.
        let held = |asked: [Orders; 3]| asked.map(|orders| orders.hold);
        assert_eq!(held(ask(&mut all, now)), [false, true, true]);
        flow(&mut all, 0).engine.phase = Phase::Drain;
        assert_eq!(held(ask(&mut all, now)), [false, false, true]);
        flow(&mut all, 0).engine.phase = Phase::Cruise;
        // One that failed, or is abandoned, leads nobody.
        for leave in [
            (|path| path.health = Health::Failed) as fn(&mut PathState),
            |path| path.abandoned = true,
        ] {
            let mut paths = self::paths(&[(50, 50), (50, 100), (50, 50)]);
            leave(paths.get_mut(PathId(0)).unwrap());
            assert!(!orders(&mut all, &paths, now, 1).hold);
            close(orders(&mut all, &paths, now, 1).others_share, 0.4);
        }
        // Unless the leader is late: 4 s after the last probe.
        all.controller.clocks.get_mut(PathId(0)).unwrap().since = Some(now);
        let late = now + LEADER_LATE;
        assert_eq!(held(ask(&mut all, late)), [false, true, true]);
        let later = late + Duration::from_millis(1);
        assert_eq!(held(ask(&mut all, later)), [false; 3]);

        // A probe that has begun is begun by all who have not, until it is over for all.
        let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
        (clock.probe, clock.ended) = (2, 1);
        flow(&mut all, 0).probe = 2;
        flow(&mut all, 1).probe = 1;
        let asked = ask(&mut all, now);
        assert_eq!(asked.map(|orders| orders.probe), [false, true, true]);
        // The one before it is over for who is in it yet.
        assert_eq!(asked.map(|orders| orders.end_probe), [false, true, false]);
        all.controller.clocks.get_mut(PathId(0)).unwrap().ended = 2;
        let asked = ask(&mut all, now);
        assert_eq!(asked.map(|orders| orders.probe), [false; 3]);
        assert_eq!(asked.map(|orders| orders.end_probe), [true, true, false]);

        // The third is of who began it alone, and whoever begins next begins the fourth.
        let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
        (clock.probe, clock.ended) = (3, 2);
        flow(&mut all, 0).probe = 3;
        let asked = ask(&mut all, now);
        assert_eq!(asked.map(|orders| orders.probe), [false; 3]);
        all.controller.clocks.get_mut(PathId(0)).unwrap().probe = 4;
        let asked = ask(&mut all, now);
        assert_eq!(asked.map(|orders| orders.probe), [true; 3]);

        // The queue is emptied by all together, but for who begins.
        all.controller.clocks.get_mut(PathId(0)).unwrap().probe_rtt = 1;
        flow(&mut all, 0).probe_rtt = 1;
        flow(&mut all, 2).engine.phase = Phase::Startup;
        let asked = ask(&mut all, now);
        assert_eq!(asked.map(|orders| orders.probe_rtt), [false, true, false]);
    }

    #[test]
    fn who_makes_a_queue_for_another() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        let mut all = three(4, &paths, &mut now);
        for (phase, acts) in [
            (Phase::Startup, true),
            (Phase::Drain, true),
            (Phase::Up, true),
            (Phase::Down, false),
            (Phase::Cruise, false),
            (Phase::Refill, false),
            (Phase::ProbeRtt, false),
        ] {
            for id in 0..3 {
                flow(&mut all, id).engine.phase = Phase::Cruise;
            }
            flow(&mut all, 2).engine.phase = phase;
            let of = |all: &mut Flows<SbdBbr>, id| orders(all, &paths, now, id).others_act;
            assert_eq!(
                (of(&mut all, 0), of(&mut all, 2)),
                (acts, false),
                "{phase:?}"
            );
        }

        // Of two of whom it is not known yet whether they share: one at a time.
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "")), &paths);
        for (phase, probes, acts) in [
            (Phase::Refill, true, false),
            (Phase::Up, true, true),
            (Phase::Down, false, true),
            (Phase::Cruise, false, false),
        ] {
            for id in 0..3 {
                flow(&mut all, id).engine.phase = Phase::Cruise;
            }
            flow(&mut all, 2).engine.phase = phase;
            let asked = orders(&mut all, &paths, now, 0);
            assert_eq!(
                (asked.yields, asked.others_act),
                (probes, acts),
                "{phase:?}"
            );
            assert!(!orders(&mut all, &paths, now, 2).yields);
        }
        // Known to share with none: as if alone.
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=none")), &paths);
        for id in 0..3 {
            flow(&mut all, id).engine.phase = Phase::Up;
        }
        let asked = orders(&mut all, &paths, now, 0);
        assert!(!asked.hold && !asked.yields && !asked.others_act);
        close(asked.others_packets, 0.0);
    }

    #[test]
    fn what_a_path_does_to_its_group() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        let mut all = three(4, &paths, &mut now);
        let after = |all: &mut Flows<SbdBbr>, id: u64, before_phase: Phase, phase: Phase| {
            flow(all, id).engine.phase = phase;
            let (before, flow, after) = all.flows.split(PathId(id)).unwrap();
            let path = paths.get(PathId(id)).unwrap();
            let mut own = Own::new(now, path, flow, &paths, [before, after]);
            {
                let (_, clock, _) = clock_of(&mut all.controller, own.path.id);
                SbdBbr::after(clock, &mut own, before_phase)
            };
            let clock = *all.controller.clocks.get(PathId(0)).unwrap();
            (clock, own.flow.probe, own.flow.probe_rtt)
        };
        all.controller.clocks.get_mut(PathId(0)).unwrap().delivered = [3.0, 2.0];
        // The first to probe begins, and the others join.
        let (clock, probe, _) = after(&mut all, 1, Phase::Cruise, Phase::Refill);
        assert_eq!((clock.probe, probe, clock.since), (1, 1, Some(now)));
        assert_eq!(clock.delivered, [0.0, 3.0]);
        let (clock, probe, _) = after(&mut all, 0, Phase::Cruise, Phase::Refill);
        assert_eq!((clock.probe, probe), (1, 1));
        // Nothing begins as long as it goes on.
        let (clock, probe, _) = after(&mut all, 0, Phase::Refill, Phase::Refill);
        assert_eq!((clock.probe, probe), (1, 1));
        // Once it is over, who has not been in it begins another one.
        all.controller.clocks.get_mut(PathId(0)).unwrap().ended = 1;
        let (clock, probe, _) = after(&mut all, 2, Phase::Down, Phase::Refill);
        assert_eq!((clock.probe, probe, clock.ended), (2, 2, 1));
        // So does one that was in it already, over or not.
        let (clock, probe, _) = after(&mut all, 2, Phase::Down, Phase::Refill);
        assert_eq!((clock.probe, probe), (3, 3));
        // The third is its own. If that finds much more it calls the others, which are called anyway to
        // the fourth.
        for _ in 0..2 {
            let (clock, probe, _) = after(&mut all, 2, Phase::Up, Phase::Startup);
            assert_eq!((clock.probe, probe), (4, 4));
        }
        // Whoever begins while that goes on begins the fourth, too.
        all.controller.clocks.get_mut(PathId(0)).unwrap().probe = 3;
        let (clock, probe, _) = after(&mut all, 0, Phase::Cruise, Phase::Refill);
        assert_eq!((clock.probe, probe), (4, 4));

        // Losses that end the probe of one end it for all, if it is that probe.
        let end = |all: &mut Flows<SbdBbr>, loses: bool, own_probe: u64, to: Phase| {
            let clock = all.controller.clocks.get_mut(PathId(0)).unwrap();
            (clock.probe, clock.ended) = (3, 1);
            flow(all, 1).engine = Engine::default();
            if loses {
                flow(all, 1).engine.has_lost_too_much();
            }
            flow(all, 1).probe = own_probe;
            let (clock, ..) = after(all, 1, Phase::Up, to);
            clock.ended
        };
        assert_eq!(end(&mut all, true, 3, Phase::Down), 3);
        assert_eq!(end(&mut all, true, 2, Phase::Down), 1);
        assert_eq!(end(&mut all, false, 3, Phase::Down), 1);
        assert_eq!(end(&mut all, true, 3, Phase::Up), 1);

        // The same of emptying the queue, which who is told to does not tell again.
        let (clock, _, probe_rtt) = after(&mut all, 2, Phase::Cruise, Phase::ProbeRtt);
        assert_eq!((clock.probe_rtt, probe_rtt), (1, 1));
        let (clock, _, probe_rtt) = after(&mut all, 2, Phase::ProbeRtt, Phase::ProbeRtt);
        assert_eq!((clock.probe_rtt, probe_rtt), (1, 1));
        let (clock, _, probe_rtt) = after(&mut all, 1, Phase::Cruise, Phase::ProbeRtt);
        assert_eq!((clock.probe_rtt, probe_rtt), (1, 1));
    }

    #[test]
    fn what_a_group_delivers_by_hand() {
        let now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(50, 50), (50, 100), (50, 50)]);
        let mut begun = now;
        let mut all = three(4, &paths, &mut begun);
        *all.controller.clocks.get_mut(PathId(0)).unwrap() = Clock::default();
        let note = |all: &mut Flows<SbdBbr>, id: u64, ms: u64, acked: u64| {
            let (before, flow, after) = all.flows.split(PathId(id)).unwrap();
            let path = paths.get(PathId(id)).unwrap();
            let now = begun + Duration::from_millis(ms);
            let mut own = Own::new(now, path, flow, &paths, [before, after]);
            let total = own.flow.total + acked;
            {
                let (detector, clock, group) = clock_of(&mut all.controller, own.path.id);
                SbdBbr::note_rate(detector, clock, group, &mut own, total)
            };
            all.controller.clocks.get(PathId(0)).unwrap().delivered
        };
        // Two of the longest round trips: 200 ms. What the first ACK brings left before.
        assert_eq!(note(&mut all, 0, 0, 9_000), [0.0, 0.0]);
        assert_eq!(note(&mut all, 1, 100, 300_000), [0.0, 0.0]);
        assert_eq!(note(&mut all, 2, 199, 200_000), [0.0, 0.0]);
        let [delivered, _] = note(&mut all, 0, 200, 100_000);
        close(delivered, 600_000.0 / 0.2);
        // The greatest stays.
        note(&mut all, 0, 300, 1_000);
        let [delivered, _] = note(&mut all, 1, 400, 1_000);
        close(delivered, 3e6);
        let [delivered, _] = note(&mut all, 1, 700, 1_200_000);
        close(delivered, 4e6);
    }

    #[test]
    fn what_a_path_does_to_its_queue() {
        for (phase, act) in [
            (Phase::Startup, Act::Starts),
            (Phase::Drain, Act::Acts),
            (Phase::Up, Act::Acts),
            (Phase::ProbeRtt, Act::Acts),
            (Phase::Down, Act::Steady),
            (Phase::Cruise, Act::Steady),
            (Phase::Refill, Act::Steady),
        ] {
            assert_eq!(doing(phase), act, "{phase:?}");
        }
    }

    #[test]
    fn a_path_that_is_gone_is_in_no_group() {
        let now = Instant::now();
        let paths = paths(&[(50, 50), (50, 50)]);
        let mut all = joined(SbdBbr::new(&settings(&ENTRY, "detect=all")), &paths);
        assert_eq!(all.controller.detector.group_paths(PathId(0)), 2);
        all.on_path_closed(now, PathId(1));
        assert_eq!(all.controller.detector.group_paths(PathId(0)), 1);
        assert!(all.controller.clocks.get(PathId(1)).is_none());
        assert!(all.controller.memberships.get(PathId(1)).is_none());
        assert!(all.controller.reads_one_way_delay());
    }

    #[test]
    fn the_parameters_of_the_model_are_those_of_bbr() {
        let find = |name: &str| CONTROLLERS.iter().find(|entry| entry.name == name).unwrap();
        let (ours, theirs) = (find("sbd-bbr").params, find("uncoupled-bbr").params);
        for (ours, theirs) in ours[2..].iter().zip(theirs) {
            assert_eq!(ours.name, theirs.name);
            assert_eq!(ours == theirs, ours.name != "compete", "{}", ours.name);
        }
        assert_eq!(ours.len(), theirs.len() + 2);
    }
}
