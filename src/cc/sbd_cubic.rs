//! CUBIC by path, coupled over the paths that share a bottleneck.
//!
//! Each path runs RFC 9438. Paths of a group, which [`sbd`](super::sbd) finds, are the parts of one
//! CUBIC flow: a congestion event of one shrinks the windows of all, once in a round trip, and
//! each grows by its part of what one flow would: C and the Reno-friendly gain are scaled by s = x_r /
//! sum of the group's x. A path that is in no group is CUBIC.
//!
//! Windows that shrink each for its own losses, with C scaled by s^4 as in [`mpcubic`](super::mpcubic),
//! took 1.6 to 2.2 shares beside one CUBIC at a drop-tail queue, which seldom drops of all.
//!
//! | symbol | name here           | unit      | what it is                               |
//! |--------|---------------------|-----------|------------------------------------------|
//! | s      | `Share::part`       | 1         | the path's part of its group's rate      |
//! | x_r    | `Share`             | packets/s | smoothed w_r/rtt_r                       |
//!
//! CUBICs on equal links are in step. So a pair of paths whose delays move together is asked for proof:
//! one of them has its window at 0.7 for a round trip, every 1.1 s, until one queue or two are known.

use std::time::Duration;
use std::time::Instant;

use super::boxed;
use super::cubic;
use super::cubic::Gains;
use super::cubic::Growth;
use super::cubic::C;
use super::re_entry;
use super::sbd;
use super::sbd::Act;
use super::sbd::Detector;
use super::shares::Share;
use super::start;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Round;
use super::Settings;
use super::Trace;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "sbd-cubic",
    coupled: true,
    summary: "CUBIC by path, one flow where paths share a bottleneck",
    idea: "Paths whose queueing delays move together share a queue, and are one CUBIC flow there; \
           the others are a flow each.",
    source: "RFC 9438; detection and coupling are ours",
    formula: "W(t) = s C (t - K)^3 + W_max, s = x_r/sum x over the paths of its group; loss on any of \
              these: w_r = 0.7 w_r, once in a round trip",
    use_when: "paths may share a bottleneck or not, others there use CUBIC or Reno, and links lose \
               little at random",
    avoid_when: "links lose packets that no queue has dropped: each halts CUBIC, on its own path or not",
    deviations: &[
        "s holds from one loss to the next",
        "a path has 0.7 of its window for a round trip to see whether another's delay follows, where \
         their delays move together and nothing else told them apart",
    ],
    params: &[
        sbd::DETECT,
        sbd::POWER,
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(SbdCubic::new(settings)),
};

/// What is left of the window in a dip.
const DIP: f64 = 0.7;

/// From one dip of a connection to the next.
const DIP_INTERVAL: Duration = Duration::from_millis(1100);

/// A queue that is shorter cannot show a dip, s.
const DIP_QUEUE_SECS: f64 = 0.003;

/// Windows with a dip that have to say that two paths share: CUBICs on equal links are in step.
const ACTS: u32 = 2;

/// One path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    cubic: cubic::Flow,
    /// Of the epoch.
    gains: Gains,
    share: Share,
    dip: Option<Dip>,
    /// The last congestion event of its group that its window has shrunk for.
    shrunk: Option<Instant>,
}

/// A window that is held down to see whether another path's delay follows.
#[derive(Clone, Copy, Debug)]
struct Dip {
    until: Instant,
    saved_bytes: f64,
}

/// The controller.
#[derive(Debug)]
struct SbdCubic {
    detector: Detector,
    last_dip: Option<Instant>,
    /// The last congestion event of each group, by the least ID of its paths.
    events: PathMap<Option<Instant>>,
}

impl SbdCubic {
    fn new(settings: &Settings) -> Self {
        SbdCubic {
            detector: Detector::new(settings, ACTS),
            last_dip: None,
            events: PathMap::default(),
        }
    }
}

impl Flow {
    fn shrink(&mut self, now: Instant, path: &PathState) -> f64 {
        let before = self.dip.take().map(|dip| dip.saved_bytes);
        self.shrunk = Some(now);
        self.cubic
            .decrease(before.unwrap_or(path.cwnd_bytes as f64))
    }
}

impl SbdCubic {
    /// What a congestion event of the path's group leaves of its window, if it has not shrunk since
    /// a round trip before that.
    fn shrinks(&self, flow: &mut Flow, now: Instant, path: &PathState) -> Option<f64> {
        let event = (*self.events.get(self.detector.group(path.id))?)?;
        if path.in_recovery || self.detector.group_paths(path.id) < 2 {
            return None;
        }
        let before = event.checked_sub(path.rtt?.smoothed)?;
        let is_done = flow.shrunk.is_some_and(|shrunk| shrunk >= before);
        (!is_done).then(|| flow.shrink(now, path))
    }
}

/// Windows that shrink together have to grow by their parts of what one flow would.
fn gains(share: &Share) -> Gains {
    Gains {
        cubic: share.delta(1),
        friendly: share.delta(1),
    }
}

/// Losses are of the queue's making, whoever fills it: what is left of a window then is no act.
fn doing(path: &PathState, flow: &Flow) -> Act {
    if path.in_slow_start() {
        Act::Starts
    } else if flow.dip.is_some() {
        Act::Acts
    } else {
        Act::Steady
    }
}

impl Controller for SbdCubic {
    type Flow = Flow;

    fn on_path_added(&mut self, now: Instant, id: PathId) -> Flow {
        self.detector.add(now, id);
        self.events.insert(id, None);
        Flow::default()
    }

    fn on_path_closed(&mut self, now: Instant, id: PathId) {
        self.detector.remove(now, id);
        self.events.remove(id);
    }

    fn reads_one_way_delay(&self) -> bool {
        true
    }

    fn on_sample(&mut self, own: Own<Flow>, ack: &Ack) {
        let doing = doing(own.path, own.flow);
        self.detector.on_ack(own.now, own.path, ack, doing);
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        let (detector, id) = (&self.detector, own.path.id);
        let in_group = |other| detector.same_group(id, other);
        own.flow.share = Share::in_group(&own, |flow| &flow.share, in_group);
        None
    }

    fn next_timer(&self, flows: &PathMap<Flow>) -> Option<Instant> {
        flows
            .iter()
            .filter_map(|(_, flow)| Some(flow.dip?.until))
            .min()
    }

    /// A dip begins and ends, and what another path of the group lost takes its part here.
    fn on_time(&mut self, own: Own<Flow>) -> Option<Change> {
        if let Some(cwnd_bytes) = self.shrinks(&mut *own.flow, own.now, own.path) {
            return Some(Change {
                cwnd_bytes,
                ssthresh_bytes: Some(cwnd_bytes),
            });
        }
        let (now, path, flow) = (own.now, own.path, own.flow);
        let set = |cwnd_bytes| {
            Some(Change {
                cwnd_bytes,
                ssthresh_bytes: None,
            })
        };
        if let Some(dip) = flow.dip {
            if now < dip.until {
                return None;
            }
            flow.dip = None;
            // A loss has its own idea of the window.
            if path.in_recovery {
                return None;
            }
            return set(dip.saved_bytes.max(path.cwnd_bytes as f64));
        }
        if path.in_recovery || path.in_slow_start() || !self.detector.needs_act(path.id) {
            return None;
        }
        let is_early = |last| now.saturating_duration_since(last) < DIP_INTERVAL;
        if self.last_dip.is_some_and(is_early) {
            return None;
        }
        if self.detector.queue_secs(path.id) < DIP_QUEUE_SECS {
            return None;
        }
        self.last_dip = Some(now);
        let saved_bytes = path.cwnd_bytes as f64;
        flow.dip = Some(Dip {
            until: now + path.rtt?.smoothed.max(sbd::ACT_TIME),
            saved_bytes,
        });
        set(DIP * saved_bytes)
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let flow = own.flow;
        // The path does not show yet what this ACK has made of its window.
        if flow.dip.is_some() || flow.shrunk == Some(own.now) {
            return 0.0;
        }
        if !flow.cubic.in_epoch() {
            flow.gains = gains(&flow.share);
        }
        let growth = Growth::of(own.path, ack);
        flow.cubic.increase(own.now, &growth, flow.gains)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        let (now, path, flow) = (own.now, own.path, own.flow);
        let rtt = path.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed);
        let is_late = |shrunk| now.saturating_duration_since(shrunk) < rtt;
        // One flow shrinks once in a round trip.
        if self.detector.group_paths(path.id) > 1 && flow.shrunk.is_some_and(is_late) {
            return path.cwnd_bytes as f64;
        }
        if let Some(event) = self.events.get_mut(self.detector.group(path.id)) {
            *event = Some(now);
        }
        flow.shrink(now, path)
    }

    fn on_underused(&mut self, own: Own<Flow>) {
        own.flow.cubic.on_underused(own.now);
    }

    fn bottleneck(&self, id: PathId) -> Option<PathId> {
        self.detector.verdict(id)
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        let delta = flow.gains.cubic;
        trace.push("delta", delta);
        flow.cubic.trace(path.mss_bytes as f64, C * delta, trace);
        trace.push("set_paths", self.detector.group_paths(path.id) as f64);
        trace.push("shared_llr", self.detector.llr(path.id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    const MS: Duration = Duration::from_millis(1);

    fn two(list: &str, paths: &Registry) -> Flows<SbdCubic> {
        joined(SbdCubic::new(&settings(&ENTRY, list)), paths)
    }

    #[test]
    fn a_loss_on_one_shrinks_all_once() {
        let now = Instant::now() + Duration::from_secs(9);
        let mut paths = paths(&[(100, 50), (40, 100)]);
        let mut controller = two("detect=all", &paths);
        close(controller.decrease(now, &paths, PathId(0)), 70_000.0);
        // The other one at its next ACK, once.
        let next = now + 5 * MS;
        let change = controller.on_time(next, &paths, PathId(1)).unwrap();
        close(change.cwnd_bytes, 28_000.0);
        assert_eq!(change.ssthresh_bytes, Some(change.cwnd_bytes));
        assert_eq!(controller.on_time(next, &paths, PathId(1)), None);
        assert_eq!(controller.on_time(next, &paths, PathId(0)), None);
        close(
            controller.increase(next, &paths, PathId(1), &ack(next)),
            0.0,
        );
        // What it loses itself in that round trip is of the same event.
        paths.get_mut(PathId(1)).unwrap().cwnd_bytes = 28_000;
        let own = controller.decrease(now + 90 * MS, &paths, PathId(1));
        close(own, 28_000.0);
        let later = controller.decrease(now + 110 * MS, &paths, PathId(1));
        close(later, 19_600.0);
    }

    #[test]
    fn paths_that_share_with_none_are_cubic() {
        let now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(100, 50), (40, 100)]);
        let mut controller = two("detect=none", &paths);
        close(controller.decrease(now, &paths, PathId(0)), 70_000.0);
        assert_eq!(controller.on_time(now + 5 * MS, &paths, PathId(1)), None);
        for id in [PathId(0), PathId(1), PathId(0)] {
            controller.on_round(now, &paths, id, &round(100));
        }
        let part = |id: u64| controller.flows.get(PathId(id)).unwrap().share.part();
        close(part(0), 1.0);
        close(part(1), 1.0);
    }

    #[test]
    fn a_group_grows_as_one_flow() {
        // 100 packets in 50 ms and 40 in 100 ms: 2000/s and 400/s, 5/6 and 1/6 of C.
        let now = Instant::now();
        let paths = paths(&[(100, 50), (40, 100)]);
        let mut controller = two("detect=all", &paths);
        for id in [PathId(0), PathId(1), PathId(0)] {
            controller.on_round(now, &paths, id, &round(100));
        }
        for (id, part) in [(0, 5.0 / 6.0), (1, 1.0 / 6.0)] {
            let gains = gains(&controller.flows.get(PathId(id)).unwrap().share);
            close(gains.cubic, part);
            close(gains.friendly, part);
        }
    }

    #[test]
    fn what_is_shown() {
        let paths = paths(&[(10, 100), (10, 100)]);
        shows(
            &two("detect=all", &paths),
            &paths,
            &[
                ("delta", 1.0),
                ("w_max_packets", 0.0),
                ("k_secs", 0.0),
                ("set_paths", 2.0),
                ("shared_llr", 0.0),
            ],
        );
    }

    /// Delays of both that move together, up to 15 ms of queue, for so many steps of 5 ms.
    fn in_step(
        controller: &mut Flows<SbdCubic>,
        paths: &mut Registry,
        now: &mut Instant,
        steps: u32,
    ) {
        for step in 0..steps {
            *now += 5 * MS;
            let wave = 10e3 + 5e3 * (f64::from(step) / 9.0).sin() * (f64::from(step) / 20.0).cos();
            for id in 0..2 {
                let path = paths.get_mut(PathId(id)).unwrap();
                path.one_way_delay_micros = Some(wave as i64);
                controller.on_sample(*now, paths, PathId(id), &ack(*now));
            }
        }
    }

    #[test]
    fn a_dip_by_hand() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let mut paths = paths(&[(100, 80), (40, 50)]);
        let (a, b) = (PathId(0), PathId(1));
        let mut controller = two("", &paths);
        in_step(&mut controller, &mut paths, &mut now, 600);
        assert_eq!(controller.next_timer(), None);
        // Not while it recovers, nor in slow start.
        let path = paths.get_mut(a).unwrap();
        path.in_recovery = true;
        assert_eq!(controller.on_time(now, &paths, a), None);
        let path = paths.get_mut(a).unwrap();
        (path.in_recovery, path.ssthresh_bytes) = (false, SSTHRESH_UNSET);
        assert_eq!(controller.on_time(now, &paths, a), None);
        paths.get_mut(a).unwrap().ssthresh_bytes = 1000;
        // Seven tenths of 100 packets for a round trip of 80 ms; the window does not grow then.
        let dip = Change {
            cwnd_bytes: 70_000.0,
            ssthresh_bytes: None,
        };
        assert_eq!(controller.on_time(now, &paths, a), Some(dip));
        assert_eq!(controller.next_timer(), Some(now + 80 * MS));
        paths.get_mut(a).unwrap().cwnd_bytes = 70_000;
        close(controller.increase(now, &paths, a, &ack(now)), 0.0);
        assert!(controller.increase(now, &paths, b, &ack(now)) > 0.0);
        assert_eq!(controller.on_time(now + 79 * MS, &paths, a), None);
        let after = controller.on_time(now + 80 * MS, &paths, a).unwrap();
        close(after.cwnd_bytes, 100_000.0);
        assert_eq!(
            (after.ssthresh_bytes, controller.next_timer()),
            (None, None)
        );
        paths.get_mut(a).unwrap().cwnd_bytes = 100_000;
        // One in 1.1 s, whichever path it is, of 60 ms at least.
        assert_eq!(controller.on_time(now + 1099 * MS, &paths, b), None);
        let later = now + 1100 * MS;
        close(
            controller.on_time(later, &paths, b).unwrap().cwnd_bytes,
            28_000.0,
        );
        assert_eq!(controller.next_timer(), Some(later + 60 * MS));
        // What it loses meanwhile shrinks what it had before, and ends the dip.
        paths.get_mut(b).unwrap().cwnd_bytes = 28_000;
        close(
            controller.decrease(later + 10 * MS, &paths, b),
            0.7 * 40_000.0,
        );
        assert_eq!(controller.next_timer(), None);
    }

    #[test]
    fn who_recovers_when_a_dip_ends_keeps_its_window() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let mut paths = paths(&[(100, 80), (40, 50)]);
        let mut controller = two("", &paths);
        in_step(&mut controller, &mut paths, &mut now, 600);
        assert!(controller.on_time(now, &paths, PathId(0)).is_some());
        paths.get_mut(PathId(0)).unwrap().in_recovery = true;
        let ends = now + 80 * MS;
        assert_eq!(controller.on_time(ends, &paths, PathId(0)), None);
        assert_eq!(controller.next_timer(), None);
    }

    #[test]
    fn no_dip_where_no_queue_would_show_it() {
        let mut now = Instant::now() + Duration::from_secs(9);
        let mut paths = paths(&[(100, 80), (40, 50)]);
        let mut controller = two("", &paths);
        in_step(&mut controller, &mut paths, &mut now, 600);
        // 5 ms are the least so far; 2 ms above it in a bin that is complete.
        for _ in 0..9 {
            now += 5 * MS;
            let path = paths.get_mut(PathId(0)).unwrap();
            path.one_way_delay_micros = Some(7_000);
            controller.on_sample(now, &paths, PathId(0), &ack(now));
        }
        assert_eq!(controller.on_time(now, &paths, PathId(0)), None);
        assert!(controller.on_time(now, &paths, PathId(1)).is_some());
    }

    #[test]
    fn what_a_path_does() {
        let mut paths = paths(&[(100, 80)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        let dips = Flow {
            dip: Some(Dip {
                until: Instant::now(),
                saved_bytes: 1.0,
            }),
            ..Flow::default()
        };
        assert_eq!(doing(path, &Flow::default()), Act::Steady);
        assert_eq!(doing(path, &dips), Act::Acts);
        path.ssthresh_bytes = SSTHRESH_UNSET;
        assert_eq!(doing(path, &dips), Act::Starts);
    }

    #[test]
    fn who_shrinks_with_others() {
        let now = Instant::now() + Duration::from_secs(9);
        let mut paths = paths(&[(100, 50), (40, 100), (10, 80)]);
        let mut controller = two("detect=all", &paths);
        controller.decrease(now, &paths, PathId(0));
        let next = now + 5 * MS;
        // Not who recovers already.
        paths.get_mut(PathId(1)).unwrap().in_recovery = true;
        assert_eq!(controller.on_time(next, &paths, PathId(1)), None);
        let third = controller.on_time(next, &paths, PathId(2)).unwrap();
        close(third.cwnd_bytes, 7_000.0);
        // What it lost a round trip ago is another event.
        close(
            controller.decrease(next + 79 * MS, &paths, PathId(2)),
            10_000.0,
        );
        close(
            controller.decrease(next + 80 * MS, &paths, PathId(2)),
            7_000.0,
        );
        // A path that is gone is in no group.
        controller.on_path_closed(now, PathId(2));
        controller.on_path_closed(now, PathId(1));
        assert_eq!(controller.controller.detector.group_paths(PathId(0)), 1);
        // Alone, each event that it is told of counts.
        for ms in [200, 210] {
            let kept = controller.decrease(now + ms * MS, &paths, PathId(0));
            close(kept, 70_000.0);
        }
    }

    #[test]
    fn a_part_holds_for_an_epoch() {
        let now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(100, 50), (40, 100)]);
        let mut controller = two("detect=all", &paths);
        let gain = |controller: &mut Flows<SbdCubic>, ms: u32| {
            controller.increase(now + ms * MS, &paths, PathId(0), &ack(now));
            controller.flows.get(PathId(0)).unwrap().gains.cubic
        };
        controller.decrease(now, &paths, PathId(0));
        close(gain(&mut controller, 10), 1.0);
        for id in [PathId(0), PathId(1), PathId(0)] {
            controller.on_round(now, &paths, id, &round(100));
        }
        close(gain(&mut controller, 20), 1.0);
        controller.decrease(now + 60 * MS, &paths, PathId(0));
        close(gain(&mut controller, 70), 5.0 / 6.0);
        // From 70 packets to 100: K is the cube root of 30/(0.4 5/6).
        let mut paths = paths;
        controller.decrease(now + 200 * MS, &paths, PathId(0));
        paths.get_mut(PathId(0)).unwrap().cwnd_bytes = 70_000;
        controller.increase(now + 300 * MS, &paths, PathId(0), &ack(now));
        let expected = [
            ("delta", 5.0 / 6.0),
            ("w_max_packets", 100.0),
            ("k_secs", 90_f64.cbrt()),
            ("set_paths", 2.0),
            ("shared_llr", 0.0),
        ];
        shows(&controller, &paths, &expected);
    }

    #[test]
    fn time_without_data_is_not_counted() {
        let now = Instant::now() + Duration::from_secs(9);
        let paths = paths(&[(100, 50)]);
        let grown = |idle: bool| {
            let mut controller = two("", &paths);
            controller.decrease(now, &paths, PathId(0));
            controller.increase(now + 100 * MS, &paths, PathId(0), &ack(now));
            if idle {
                controller.on_underused(now + 5000 * MS, &paths, PathId(0));
            }
            controller.increase(now + 5000 * MS, &paths, PathId(0), &ack(now))
        };
        assert!(grown(true) < grown(false));
    }
}
