//! EWTCP: equally weighted TCP (Honda et al. 2009).
//!
//! Each path is Reno with its growth weighted by a constant, so that all N paths together take
//! what one flow would if they share a bottleneck. Traffic is not moved between paths.
//!
//! | symbol | name here | unit    | source                        |
//! |--------|-----------|---------|-------------------------------|
//! | a      | `weight`  | packets | Honda; gained per round trip  |
//! | N      | `paths`   | -       | paths with an RTT sample      |
//!
//! Which weight? In equilibrium a/w = p w/2, so w_r = sqrt(2a/p), and N equal paths have
//! N sqrt(2a/p), which is one flow's sqrt(2/p) if and only if a = 1/N^2. The MPMTP paper, and others,
//! print a = 1/sqrt(N): that gives N sqrt(1/sqrt(N)) = N^(3/4) flows, 1.68 for two paths. `ewtcp`
//! has the former, `ewtcp-printed` the latter.

use super::boxed;
use super::members::members;
use super::members::Member;
use super::re_entry;
use super::reno;
use super::start;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "ewtcp",
    coupled: true,
    summary: "EWTCP: equally weighted Reno on each path, together one flow",
    idea: "Growth on each of N paths is weighted by 1/N^2, so that together they take one flow's \
           share of a common bottleneck.",
    source: "Honda et al., PFLDNeT 2009; equation 2 of the MPMTP paper, with the weight corrected",
    formula: "ack: w_r += a/w_r, a = 1/N^2; loss: w_r = w_r/2",
    use_when: "as a baseline that is fair at a shared bottleneck and shifts no traffic",
    avoid_when: "paths differ: it takes 1/N of a flow on each, however good or bad it is",
    deviations: &[
        "a is 1/N^2, with which N paths are one flow; the printed 1/sqrt(N) makes them N^(3/4) \
         flows",
        UNCOUNTED,
    ],
    params: &[
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |_| boxed(Ewtcp(|paths| 1.0 / (paths * paths))),
};

/// What N leaves out.
pub(super) const UNCOUNTED: &str =
    "paths without an RTT sample, failed and abandoned ones are not in N";

/// The controller: the weight of each path, by the number of paths.
#[derive(Debug)]
pub(super) struct Ewtcp(pub fn(f64) -> f64);

impl Ewtcp {
    fn weight<'a>(&self, members: impl Iterator<Item = Member<'a>>) -> f64 {
        (self.0)(members.count().max(1) as f64)
    }
}

impl Controller for Ewtcp {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        self.weight(own.members()) * reno::step(own.path, ack)
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        trace.push("a", self.weight(members(paths, path.id)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_weight_is_one_over_n_squared() {
        // 20 packets: Reno adds 1/20 packet = 50 bytes. N = 1, 2, 4: times 1, 1/4, 1/16.
        close(step(&ENTRY, &[(20, 50)]), 50.0);
        close(step(&ENTRY, &[(20, 50), (9, 10)]), 12.5);
        close(step(&ENTRY, &[(20, 50), (9, 10), (9, 10), (9, 10)]), 3.125);
    }

    #[test]
    fn a_path_without_rtt_does_not_count() {
        let now = Instant::now();
        let mut paths = paths(&[(20, 50), (20, 50)]);
        paths.get_mut(PathId(1)).unwrap().rtt = None;
        let mut ewtcp = ENTRY.with_defaults();
        ewtcp.on_path_added(now, PathId(0));
        close(ewtcp.increase(now, &paths, PathId(0), &ack(now)), 50.0);
    }

    #[test]
    fn what_is_shown() {
        let paths = paths(&[(20, 50), (9, 10)]);
        let ewtcp = joined(Ewtcp(|paths| 1.0 / paths), &paths);
        shows(&ewtcp, &paths, &[("a", 0.5)]);
    }
}
