//! MPFAST: FAST coupled over the paths. A reconstruction: the MCompound paper cites MPFAST without
//! defining it, and figures should say so.
//!
//! FAST holds A packets in the queue of each path; here they are shared in proportion to the rate,
//! A_r = A x_r/sum x, at least two, so that the connection keeps A in all, and paths where packets
//! wait lose both rate and the right to queue. Rates are smoothed by 7/8 per round trip.
//!
//! | symbol | name here | unit    | source                       |
//! |--------|-----------|---------|------------------------------|
//! | A_r    | `share`   | packets | ours; at least 2             |
//! | x_r    | [`Shares`]| packets/s | smoothed w_r/rtt_r         |

use std::time::Instant;

use super::fast;
use super::fast::Rule;
use super::reno;
use super::shares::Shares;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathId;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "mpfast",
    coupled: true,
    summary: "MPFAST (a reconstruction): FAST with its queued packets shared by the paths",
    idea:
        "FAST on each path; the packets kept in queues are a total for the connection, shared in \
           proportion to the paths' rates.",
    source: "cited, not defined, by the MCompound paper; this coupling is ours",
    formula:
        "A_r = max(A x_r/sum x, 2); per round trip: w = min(2w, (1-g) w + g (base/rtt w + A_r)); \
              loss: w = w/2",
    use_when: "paths are fast and long and all on them are delay-based",
    avoid_when: "a loss-based flow shares a bottleneck: it takes nearly all",
    deviations: &[
        "a reconstruction: the MCompound paper cites MPFAST and does not define it, and figures \
         should say so",
        "A_r is A x_r/sum x, at least two packets, with rates smoothed by 7/8 per round trip",
    ],
    params: fast::PARAMS,
    new: |settings| Box::new(MpFast::new(settings)),
};

/// The least A_r: with less, the queue is too short to be measured.
const MIN_A: f64 = 2.0;

/// The controller.
#[derive(Debug)]
struct MpFast {
    rule: Rule,
    shares: Shares,
}

impl MpFast {
    fn new(settings: &Settings) -> Self {
        MpFast {
            rule: Rule::new(settings),
            shares: Shares::default(),
        }
    }

    /// The rule of one path, with its A_r.
    fn share(&self, id: PathId) -> Rule {
        Rule {
            a: (self.rule.a * self.shares.of(id)).max(MIN_A),
            ..self.rule
        }
    }
}

impl Controller for MpFast {
    fn on_path_added(&mut self, _now: Instant, id: PathId) {
        self.shares.reset(id);
    }

    fn on_path_closed(&mut self, _now: Instant, id: PathId) {
        self.shares.remove(id);
    }

    fn on_path_reset(&mut self, _now: Instant, id: PathId) {
        self.shares.reset(id);
    }

    fn on_round(
        &mut self,
        _now: Instant,
        paths: &Registry,
        id: PathId,
        round: &Round,
    ) -> Option<Change> {
        self.shares.on_round(paths, id);
        self.share(id).on_round(paths.get(id)?, round)
    }

    fn increase(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64 {
        reno::increase_without_rtt(now, paths, id, ack)
    }

    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64 {
        reno::Reno.decrease(now, paths, id)
    }

    fn trace(&self, _paths: &Registry, id: PathId, trace: &mut Trace) {
        trace.push("a_packets", self.share(id).a);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_queue_is_shared_by_rate() {
        // Rates 30/0.1 and 90/0.1: shares 1/4 and 3/4 of A = 20: 5 and 15.
        let now = Instant::now();
        let paths = paths(&[(30, 100), (90, 100)]);
        let mut mpfast = MpFast::new(&Settings::defaults(ENTRY.params));
        for id in [PathId(0), PathId(1)] {
            mpfast.on_path_added(now, id);
        }
        mpfast.on_round(now, &paths, PathId(0), &round(100));
        mpfast.on_round(now, &paths, PathId(1), &round(100));
        // base/rtt = 1, w = 30: (30 + 30 + 5)/2 = 32.5.
        let change = mpfast
            .on_round(now, &paths, PathId(0), &round(100))
            .unwrap();
        close(mpfast.share(PathId(0)).a, 5.0);
        close(mpfast.share(PathId(1)).a, 15.0);
        close(change.cwnd_bytes, 32_500.0);
    }

    #[test]
    fn a_path_may_always_queue_two_packets() {
        let now = Instant::now();
        let paths = paths(&[(2, 100), (98, 100)]);
        let mut mpfast = MpFast::new(&Settings::defaults(ENTRY.params));
        for id in [PathId(0), PathId(1)] {
            mpfast.on_path_added(now, id);
        }
        mpfast.on_round(now, &paths, PathId(1), &round(100));
        mpfast.on_round(now, &paths, PathId(0), &round(100));
        close(mpfast.share(PathId(0)).a, 2.0);
    }
}
