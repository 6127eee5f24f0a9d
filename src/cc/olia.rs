//! Opportunistic Linked Increases (Khalili et al., "MPTCP is not Pareto-optimal", CoNEXT 2012;
//! draft-khalili-mptcp-congestion-control-05).
//!
//! The first term of the increase is the Kelly-Voice optimum, which alone would move everything to
//! the best paths and then flap. The second, alpha, moves a little window from the paths with the
//! largest windows (M) to the best paths that do not have them yet (B \ M), so that capacity that
//! becomes free is found at once. With one path, M = B, alpha = 0 and OLIA is Reno.
//!
//! | symbol  | name here            | unit      | source                                     |
//! |---------|----------------------|-----------|--------------------------------------------|
//! | w_r     | `packets`            | packets   | draft section 2.1                          |
//! | rtt_r   | `Member::rtt`        | s         | draft section 2.1                          |
//! | l_r     | `loss_interval_bytes`| bytes     | draft section 2.1: max(l1_r, l2_r)         |
//! | M       | `Sets::max_window`   | -         | draft section 2.2: max_w_paths             |
//! | B       | `Sets::best`         | -         | draft section 2.2: best_paths              |
//! | alpha_r | `alpha`              | packets   | draft section 2.2                          |
//! | N       | `Sets::paths`        | -         | paths with an RTT sample                   |
//!
//! Deviations: paths without an RTT sample, abandoned and failed ones are in no sum and no set; a path
//! without an RTT sample grows as Reno.
//! Windows tie in M when they agree in whole packets, as in a sender that counts packets. A loss
//! interval ends at a congestion event, not at each lost packet. The smallest window is two
//! packets, not one. Slow start is left alone (the draft sets ssthresh to one packet when N > 1).

use super::boxed;
use super::counting;
use super::counting::Counting;
use super::members::members;
use super::members::Member;
use super::members::LEFT_OUT;
use super::re_entry;
use super::reno;
use super::start;
use super::units::packets;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "olia",
    coupled: true,
    summary: "Opportunistic Linked Increases: LIA made Pareto-optimal",
    idea:
        "Shifts traffic to the best paths as the Kelly-Voice optimum does, and keeps a little on \
           the others so that free capacity is found at once.",
    source: "Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05",
    formula: "ack: w_r += (w_r/rtt_r^2)/(sum w_s/rtt_s)^2 + alpha_r/w_r; loss: w_r = w_r/2",
    use_when: "paths differ in congestion, and others should not pay for what we do not gain",
    avoid_when: "loss rates change fast: OLIA answers a change more slowly than BALIA",
    deviations: &[
        "windows tie when they agree in whole packets; a loss interval ends at a congestion \
         event, not at each lost packet",
        "slow start is left alone, where the draft sets ssthresh to one packet; the smallest \
         window is `min-window`",
        LEFT_OUT,
    ],
    params: &[
        counting::PARAM,
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(Olia(Counting::new(settings))),
};

/// The controller; all else that it needs is in the registry.
#[derive(Debug)]
struct Olia(Counting);

/// l_r = max(bytes acked between the last two losses, bytes acked since the last).
fn loss_interval_bytes(path: &PathState) -> u64 {
    path.acked_between_losses_bytes
        .max(path.acked_since_loss_bytes)
}

/// l_r / rtt_r^2: orders the paths by the rate a TCP would get there.
fn quality(member: &Member) -> f64 {
    loss_interval_bytes(member.path) as f64 / (member.rtt * member.rtt)
}

fn whole_packets(path: &PathState) -> u64 {
    path.cwnd_bytes / path.mss_bytes
}

/// The sets M and B, as what decides membership, and their sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sets {
    /// N.
    paths: u32,
    /// The largest window, packets: a path is in M if it has it.
    max_window: u64,
    /// The greatest quality: a path is in B if it has it.
    best: f64,
    /// |M|.
    max_window_paths: u32,
    /// |B \ M|.
    best_without_max_window: u32,
}

impl Sets {
    fn of<'a>(paths: impl Iterator<Item = Member<'a>> + Clone) -> Sets {
        let mut sets = Sets::default();
        for member in paths.clone() {
            sets.paths += 1;
            sets.max_window = sets.max_window.max(whole_packets(member.path));
            sets.best = sets.best.max(quality(&member));
        }
        for member in paths {
            match (sets.in_max_window(&member), sets.in_best(&member)) {
                (true, _) => sets.max_window_paths += 1,
                (false, true) => sets.best_without_max_window += 1,
                (false, false) => (),
            }
        }
        sets
    }

    fn in_max_window(&self, member: &Member) -> bool {
        whole_packets(member.path) == self.max_window
    }

    fn in_best(&self, member: &Member) -> bool {
        quality(member) == self.best
    }

    /// alpha_r = 1/(N |B\M|) in B\M; -1/(N |M|) in M if B\M is not empty; else 0
    /// (draft section 2.2).
    fn alpha(&self, member: &Member) -> f64 {
        if self.best_without_max_window == 0 {
            return 0.0;
        }
        match (self.in_max_window(member), self.in_best(member)) {
            (true, _) => -1.0 / f64::from(self.paths * self.max_window_paths),
            (false, true) => 1.0 / f64::from(self.paths * self.best_without_max_window),
            (false, false) => 0.0,
        }
    }
}

/// sum(w_s / rtt_s), packets per second.
fn sum_rate<'a>(paths: impl Iterator<Item = Member<'a>>) -> f64 {
    paths.map(|member| packets(member.path) / member.rtt).sum()
}

/// (w_r/rtt_r^2) / sum(w_s/rtt_s)^2 + alpha_r/w_r, packets per acked packet (draft section 2.2).
fn increase(window_packets: f64, rtt_secs: f64, sum_rate: f64, alpha: f64) -> f64 {
    window_packets / (rtt_secs * rtt_secs) / (sum_rate * sum_rate) + alpha / window_packets
}

impl Controller for Olia {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        let Some(member) = Member::new(own.path) else {
            return reno::step(own.path, ack);
        };
        let alpha = Sets::of(own.members()).alpha(&member);
        let sum_rate = sum_rate(own.members());
        let per_packet = increase(packets(own.path), member.rtt, sum_rate, alpha);
        // Packets per packet is bytes per byte.
        self.0.bytes(ack) * per_packet
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        let member = Member::new(path);
        let sets = Sets::of(members(paths, path.id));
        let is = |known: bool| if known { 1.0 } else { 0.0 };
        trace.push("alpha", member.map_or(0.0, |member| sets.alpha(&member)));
        trace.push(
            "in_b",
            is(member.is_some_and(|member| sets.in_best(&member))),
        );
        trace.push(
            "in_m",
            is(member.is_some_and(|member| sets.in_max_window(&member))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::Rtt;
    use std::time::Duration;

    /// Paths of (packets, RTT in ms, loss interval in bytes), 1000 bytes a packet.
    fn paths(list: &[(u64, u64, u64)]) -> Registry {
        let mut paths = Registry::new();
        for (id, (packets, rtt_ms, interval)) in list.iter().enumerate() {
            let path = paths.add(PathId(id as u64), 1000);
            path.cwnd_bytes = packets * 1000;
            path.rtt = Some(Rtt::first(Duration::from_millis(*rtt_ms)));
            path.acked_since_loss_bytes = *interval;
        }
        paths
    }

    fn alphas(paths: &Registry) -> Vec<f64> {
        let all = members(paths, PathId(0));
        let sets = Sets::of(all.clone());
        all.map(|member| sets.alpha(&member)).collect()
    }

    #[test]
    fn one_path_is_reno() {
        let paths = paths(&[(10, 100, 5000)]);
        assert_eq!(alphas(&paths), [0.0]);
        // (10/0.01) / (10/0.1)^2 = 1000/10000 = 1/10.
        close(
            increase(10.0, 0.1, sum_rate(members(&paths, PathId(0))), 0.0),
            0.1,
        );
    }

    #[test]
    fn the_best_path_with_a_small_window_takes_from_the_largest() {
        // Path 0 has the window, path 1 the longer loss interval: N = 2, |M| = |B\M| = 1.
        assert_eq!(
            alphas(&paths(&[(20, 100, 1000), (5, 100, 9000)])),
            [-0.5, 0.5]
        );
        // The best path has the window already: nothing to move.
        assert_eq!(
            alphas(&paths(&[(20, 100, 9000), (5, 100, 1000)])),
            [0.0, 0.0]
        );
    }

    #[test]
    fn ties_share_alpha() {
        // M = {0, 1}, B = {2, 3}, N = 4: -1/(4*2) each and +1/(4*2) each.
        let tied = paths(&[(20, 100, 10), (20, 100, 20), (5, 100, 90), (7, 100, 90)]);
        assert_eq!(alphas(&tied), [-0.125, -0.125, 0.125, 0.125]);
        // B = {0, 2}, M = {0, 1}: B\M = {2} gets 1/3, the two in M -1/6 each.
        let overlap = paths(&[(20, 100, 90), (20, 100, 20), (5, 100, 90)]);
        assert_eq!(alphas(&overlap), [-1.0 / 6.0, -1.0 / 6.0, 1.0 / 3.0]);
        // Windows tie by whole packets.
        let mut nearly = paths(&[(20, 100, 10), (20, 100, 20), (5, 100, 90)]);
        nearly.get_mut(PathId(1)).unwrap().cwnd_bytes += 999;
        assert_eq!(Sets::of(members(&nearly, PathId(0))).max_window_paths, 2);
    }

    #[test]
    fn alphas_sum_to_zero() {
        for (a, b, c) in [(1, 2, 3), (3, 2, 1), (2, 2, 1), (1, 1, 1), (9, 1, 9)] {
            let paths = paths(&[(a, 20, c * 700), (b, 30, b * 900), (c, 50, a * 800)]);
            close(alphas(&paths).iter().sum(), 0.0);
        }
    }

    #[test]
    fn the_increase_can_be_negative() {
        // w = (20, 4), rtt = 0.1 both, alpha = -1/2 on the first:
        // (20/0.01) / (240)^2 - 0.5/20 = 0.034722 - 0.025 = 0.009722.
        close(increase(20.0, 0.1, 240.0, -0.5), 2000.0 / 57600.0 - 0.025);
        // rtt 0.4 on the first, 0.1 on the second: sum = 50 + 40 = 90;
        // (20/0.16)/8100 - 0.025 = 0.015432 - 0.025 < 0.
        close(increase(20.0, 0.4, 90.0, -0.5), 125.0 / 8100.0 - 0.025);
        assert!(increase(20.0, 0.4, 90.0, -0.5) < 0.0);
    }

    #[test]
    fn the_loss_interval_is_the_longer_one() {
        let mut paths = paths(&[(10, 100, 3000)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        assert_eq!(loss_interval_bytes(path), 3000);
        path.acked_between_losses_bytes = 8000;
        assert_eq!(loss_interval_bytes(path), 8000);
    }

    #[test]
    fn a_path_without_rtt_is_in_no_set() {
        let mut paths = paths(&[(20, 100, 1000), (50, 100, 9000)]);
        paths.get_mut(PathId(1)).unwrap().rtt = None;
        let sets = Sets::of(members(&paths, PathId(0)));
        assert_eq!(
            (sets.paths, sets.max_window, sets.max_window_paths),
            (1, 20, 1)
        );
        assert_eq!(alphas(&paths)[0], 0.0);
        close(sum_rate(members(&paths, PathId(0))), 200.0);
    }

    #[test]
    fn scaling_all_rtts_changes_no_step() {
        let slow = paths(&[(20, 200, 1000), (10, 100, 4000)]);
        let fast = paths(&[(20, 20, 1000), (10, 10, 4000)]);
        assert_eq!(alphas(&slow), alphas(&fast));
        close(
            increase(20.0, 0.2, sum_rate(members(&slow, PathId(0))), -0.5),
            increase(20.0, 0.02, sum_rate(members(&fast, PathId(0))), -0.5),
        );
    }

    #[test]
    fn quality_is_the_loss_interval_over_the_rtt_squared() {
        // 3000/0.2^2 = 75,000 is less than 1000/0.1^2 = 100,000.
        let paths = paths(&[(20, 200, 3000), (20, 100, 1000)]);
        let all: Vec<f64> = members(&paths, PathId(0))
            .map(|member| quality(&member))
            .collect();
        close(all[0], 75_000.0);
        close(all[1], 100_000.0);
    }

    #[test]
    fn steps_of_a_path() {
        // alpha = -1/2: 2000/57600 - 0.025 packets for each acked one, as below.
        let now = Instant::now();
        let paths = paths(&[(20, 100, 1000), (4, 100, 9000)]);
        let mut olia = joined(
            Olia(Counting::new(&Settings::defaults(ENTRY.params))),
            &paths,
        );
        let step = 1000.0 * (2000.0 / 57600.0 - 0.025);
        close(olia.increase(now, &paths, PathId(0), &ack(now)), step);
        shows(
            &olia,
            &paths,
            &[("alpha", -0.5), ("in_b", 0.0), ("in_m", 1.0)],
        );
    }
}
