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
//! | x_r    | [`Share`]| packets/s | smoothed w_r/rtt_r         |

use super::boxed;
use super::fast;
use super::fast::Rule;
use super::reno;
use super::shares::Share;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Round;
use super::Trace;
use crate::registry::PathState;
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
    new: |settings| boxed(MpFast(Rule::new(settings))),
};

/// The least A_r: with less, the queue is too short to be measured.
const MIN_A: f64 = 2.0;

/// The controller.
#[derive(Debug)]
struct MpFast(Rule);

impl MpFast {
    /// The rule of one path, with its A_r.
    fn of(&self, share: &Share) -> Rule {
        Rule {
            a: (self.0.a * share.part()).max(MIN_A),
            ..self.0
        }
    }
}

impl Controller for MpFast {
    type Flow = Share;

    fn on_round(&mut self, own: Own<Share>, round: &Round) -> Option<Change> {
        *own.flow = Share::after_round(&own, |share| share);
        self.of(own.flow).on_round(own.path, round)
    }

    fn increase(&mut self, own: Own<Self::Flow>, ack: &Ack) -> f64 {
        reno::step_without_rtt(own.path, ack)
    }

    fn decrease(&mut self, own: Own<Self::Flow>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, share: &Share, trace: &mut Trace) {
        trace.push("a_packets", self.of(share).a);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn of(mpfast: &Flows<MpFast>, id: u64) -> Rule {
        mpfast.controller.of(mpfast.flows.get(PathId(id)).unwrap())
    }

    #[test]
    fn the_queue_is_shared_by_rate() {
        // Rates 30/0.1 and 90/0.1: shares 1/4 and 3/4 of A = 20: 5 and 15.
        let now = Instant::now();
        let paths = paths(&[(30, 100), (90, 100)]);
        let mut mpfast = Flows::new(MpFast(Rule::new(&Settings::defaults(ENTRY.params))));
        for id in [PathId(0), PathId(1)] {
            mpfast.on_path_added(now, id);
        }
        mpfast.on_round(now, &paths, PathId(0), &round(100));
        mpfast.on_round(now, &paths, PathId(1), &round(100));
        // base/rtt = 1, w = 30: (30 + 30 + 5)/2 = 32.5.
        let change = mpfast
            .on_round(now, &paths, PathId(0), &round(100))
            .unwrap();
        close(of(&mpfast, 0).a, 5.0);
        close(of(&mpfast, 1).a, 15.0);
        close(change.cwnd_bytes, 32_500.0);
    }

    #[test]
    fn a_path_may_always_queue_two_packets() {
        let now = Instant::now();
        let paths = paths(&[(2, 100), (98, 100)]);
        let mut mpfast = Flows::new(MpFast(Rule::new(&Settings::defaults(ENTRY.params))));
        for id in [PathId(0), PathId(1)] {
            mpfast.on_path_added(now, id);
        }
        mpfast.on_round(now, &paths, PathId(1), &round(100));
        mpfast.on_round(now, &paths, PathId(0), &round(100));
        close(of(&mpfast, 0).a, 2.0);
    }

    #[test]
    fn what_is_shown() {
        // Alone: all of A.
        let paths = paths(&[(30, 100)]);
        let rule = Rule::new(&Settings::defaults(ENTRY.params));
        shows(
            &joined(MpFast(rule), &paths),
            &paths,
            &[("a_packets", 20.0)],
        );
    }
}
