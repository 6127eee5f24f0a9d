//! MCompound: Compound TCP coupled over the paths ("MCompound: hybrid multipath congestion control").
//!
//! Compound on each path, with the growth of both windows scaled by the path's share of the rate,
//! so that all paths together are one Compound flow.
//!
//! | symbol  | name here        | unit    | source                                      |
//! |---------|------------------|---------|---------------------------------------------|
//! | theta1  | `Thetas::theta1` | 1       | equation 13: s^(2-k), for dwnd              |
//! | theta2  | `Thetas::theta2` | 1       | equation 15: s^2, for cwnd                  |
//! | theta3  | `Thetas::theta3` | 1       | algorithm 1: s, for gamma                   |
//! | s_r     | [`Share`]       | 1       | rate_r / sum rate, rates smoothed by 7/8    |
//! | others  | as in [`compound`](super::compound) | | algorithm 1                       |
//!
//! Algorithm 1 as printed does not run; the readings taken here:
//! - It updates "every RTT", but its counters count ACKs. cwnd grows per ACK: the credit that gains
//!   theta2 per ACK and adds a packet at W is cwnd += theta2/W. dwnd and the thetas move per round trip.
//!   `limi <- 0` would discard the rest of the credit; the fraction is kept here.
//! - `dwnd <- alpha W^k theta1; dwnd += dwnd; dwnd = dwnd` lost its marks: an increment, added.
//! - The branch in which dwnd falls, and the packet that cwnd gains (theta2 here), are Compound's: the
//!   paper leaves phase 2 "untouched".
//! - total_rate accumulates without end as printed: the sum over the paths is taken anew.
//! - Text and equation disagree on whether the thetas sum to 1. With w_r = theta^(1/(2-k)) w (equation
//!   8) the sum of the windows is one flow's if sum theta1^(1/(2-k)) = 1, which equation 13 gives:
//!   theta1 = s^(2-k), and the s sum to 1.
//! - gamma is shared (theta3 gamma for each path), so the connection's backlog stays gamma packets.

use super::boxed;
use super::compound;
use super::compound::Rule;
use super::compound::Thetas;
use super::compound::PARAMS;
use super::re_entry;
use super::shares::Share;
use super::start;
use super::units::packets;
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
    name: "mcompound",
    coupled: true,
    summary: "MCompound: Compound TCP coupled over the paths",
    idea: "Compound on each path with growth scaled by the path's share of the rate, so that all \
           paths together are one Compound flow.",
    source: "MCompound: hybrid multipath congestion control, algorithm 1 and equations 13 and 15",
    formula: "s_r = x_r/sum x; ack: cwnd += s_r^2/W; per round trip: diff < s_r gamma: \
              dwnd += max(alpha W^k s_r^(2-k) - s_r^2, 0), else dwnd = max(dwnd - zeta diff, 0); \
              loss: W = (1 - b) W",
    use_when: "paths are fast and long and others on them use Compound or Reno",
    avoid_when: "RTTs vary for other reasons than queues, as on radio links",
    deviations: &[
        "algorithm 1 as printed does not run: cwnd grows per ACK, dwnd and the thetas move per \
         round trip, and total_rate is summed anew",
        "theta1 is s^(2-k) (equation 13), with which the windows sum to one flow's; the text \
         says that the thetas sum to 1",
        "the branch in which dwnd falls, and the packet that cwnd gains, are Compound's",
        "gamma is shared by theta3, so the connection's backlog stays gamma packets",
    ],
    params: &[
        PARAMS[0],
        PARAMS[1],
        PARAMS[2],
        PARAMS[3],
        PARAMS[4],
        PARAMS[5],
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(MCompound(Rule::new(settings))),
};

/// MCompound of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    compound: compound::Flow,
    thetas: Thetas,
    share: Share,
}

/// The controller.
#[derive(Debug)]
struct MCompound(Rule);

/// theta1 = s^(2-k), theta2 = s^2, theta3 = s.
fn thetas(share: f64, k: f64) -> Thetas {
    Thetas {
        theta1: share.powf(2.0 - k),
        theta2: share * share,
        theta3: share,
    }
}

impl Controller for MCompound {
    type Flow = Flow;

    fn on_round(&mut self, own: Own<Flow>, round: &Round) -> Option<Change> {
        own.flow.share = Share::after_round(&own, |flow| &flow.share);
        let flow = own.flow;
        flow.thetas = thetas(flow.share.part(), self.0.k);
        flow.compound
            .on_round(&self.0, &flow.thetas, own.path, round)
    }

    /// cwnd += theta2/W per acked packet.
    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        ack.acked_bytes as f64 * own.flow.thetas.theta2 / packets(own.path)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.flow.compound.decrease(&self.0, packets(own.path)) * own.path.mss_bytes as f64
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        trace.push("theta1", flow.thetas.theta1);
        trace.push("theta2", flow.thetas.theta2);
        trace.push("theta3", flow.thetas.theta3);
        flow.compound.trace(trace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn equations_13_and_15() {
        // s = 1/16, k = 3/4: theta1 = 16^(-5/4) = 2^-5, theta2 = 2^-8, theta3 = 2^-4.
        let thetas = thetas(1.0 / 16.0, 0.75);
        close(thetas.theta1, 1.0 / 32.0);
        close(thetas.theta2, 1.0 / 256.0);
        close(thetas.theta3, 1.0 / 16.0);
        // theta1^(1/(2-k)) sums to 1 over the shares, theta1 does not: 2 * (1/2)^1.25 = 0.84.
        let half = super::thetas(0.5, 0.75);
        close(2.0 * half.theta1.powf(0.8), 1.0);
        assert!(2.0 * half.theta1 < 0.85);
    }

    #[test]
    fn algorithm_1() {
        // Two paths of 256 packets: s = 1/2 each. cwnd: (1/4)/256 packets per ack.
        let now = Instant::now();
        let paths = paths(&[(256, 100), (256, 100)]);
        let mut mcompound = Flows::new(MCompound(Rule::new(&Settings::defaults(PARAMS))));
        for id in [PathId(0), PathId(1)] {
            mcompound.on_path_added(now, id);
        }
        mcompound.on_round(now, &paths, PathId(0), &round(100));
        mcompound.on_round(now, &paths, PathId(1), &round(100));
        let step = mcompound.increase(now, &paths, PathId(1), &ack(now));
        close(step, 1000.0 * 0.25 / 256.0);
        // dwnd: 256^0.75/8 * 0.5^1.25 - 0.25 = 8 * 0.420448 - 0.25 = 3.113585 packets.
        let change = mcompound
            .on_round(now, &paths, PathId(1), &round(100))
            .unwrap();
        about(change.cwnd_bytes, 256_000.0 + 3_113.585, 1e-6);
        // gamma/2 = 15 packets queued suffice to stop it: 256 * 8/108 = 19 are more.
        let change = mcompound
            .on_round(now, &paths, PathId(1), &round(108))
            .unwrap();
        assert!(change.cwnd_bytes < 256_000.0);
    }

    #[test]
    fn a_loss_halves_and_what_is_shown() {
        let now = Instant::now();
        let paths = paths(&[(256, 100)]);
        let mut mcompound = joined(MCompound(Rule::new(&Settings::defaults(PARAMS))), &paths);
        mcompound.on_round(now, &paths, PathId(0), &round(100));
        // Alone: 256^0.75/8 - 1 = 7.
        let shown = |dwnd| {
            [
                ("theta1", 1.0),
                ("theta2", 1.0),
                ("theta3", 1.0),
                ("dwnd_packets", dwnd),
                ("diff_packets", 0.0),
            ]
        };
        shows(&mcompound, &paths, &shown(7.0));
        // (256 - 7)/2 of cwnd, and the rest of 128.
        close(mcompound.decrease(now, &paths, PathId(0)), 128_000.0);
        shows(&mcompound, &paths, &shown(3.5));
    }
}
