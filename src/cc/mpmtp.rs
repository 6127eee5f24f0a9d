//! MPMTP: multipath media transport protocol (MPMTP paper, section 3).
//!
//! The window climbs back to where the last loss was in a concave curve, searches beyond it in a
//! convex one, and goes over to a slow, linear one as soon as the RTT rises (`curve`). Two factors
//! couple the paths: B moves traffic to the less lossy ones (`balance`), delta makes all of them
//! together fair to one CUBIC flow (`fairness`). The files say how their equations were read.
//!
//! | symbol        | name here           | unit    | source                                       |
//! |---------------|---------------------|---------|----------------------------------------------|
//! | alpha_r       | `Curve::alpha`      | packets | equation 11: gained per round trip           |
//! | w_max         | `Curve::w_max`      | packets | window at the last loss                      |
//! | n             | `concave_alpha`     | packets | equation 12                                  |
//! | L, l1, l2     | `linear_factor`     | 1       | equations 13 to 15                           |
//! | B_r, b1, b2   | `balance`           | 1       | equations 17 to 21                           |
//! | delta         | `delta`             | 1       | equations 22 to 30, one for all paths        |
//! | k_ret         | `Rule::k_ret`       | 1       | retained on a loss; see below                |
//! | RTT_min       | `Curve::rtt_rise`   | s       | RTT at which its increment was detected      |
//! | RTT_max       | `Curve::rtt_loss`   | s       | RTT at the last loss                         |
//! | alpha-, w-bar | `Epochs`            | packets | means per acked packet of a loss epoch       |
//!
//! Increase: w += delta B L alpha/w per acked packet. Loss: w_max = w, w = k_ret w.
//!
//! *beta* is the retained fraction in the prose, in figure 10 and in equation 12, the decrease in
//! equation 11, its inverse in 26 and CUBIC's decrease in 28; no value is given. Here k_ret = 0.7 is
//! retained, d = 1 - k_ret is the decrease of equations 26 to 30, and b = 0.3 is CUBIC's in 28.

mod balance;
mod curve;
mod fairness;

use super::boxed;
use super::re_entry;
use super::reno;
use super::start;
use super::units::packets;
use super::units::secs;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;
use balance::balance;
use curve::Curve;
use curve::Rule;
use fairness::delta;
use fairness::Epochs;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "mpmtp",
    coupled: true,
    summary: "MPMTP: fast growth for media that slows down as soon as the RTT rises",
    idea: "A concave climb to the last loss, a convex search beyond, a linear creep once the RTT \
           rises; traffic moves to the less lossy path, and all paths are fair to one CUBIC flow.",
    source: "MPMTP: multipath media transport protocol, equations 11 to 30, corrected",
    formula:
        "ack: w += delta B L alpha/w; loss: w_max = w, w = k_ret w; alpha falls from k_ret w_max \
              to 1 as w climbs to w_max, then grows by 1 per round trip; L falls from 1 to 1/w as \
              the RTT rises",
    use_when: "video needs its rate soon and without bursts of loss",
    avoid_when: "RTTs vary for other reasons than queues, as on radio links: it creeps",
    deviations: &[
        "k_ret = 0.7 is retained on a loss and b = 0.3 is CUBIC's; the paper uses one beta in \
         four senses and gives no value",
        "the curves of the missing figures 11 and 12 follow equation 12; convex growth is \
         linear or doubles",
        "equations 13, 14, 17, 18, 20 and 21 are corrected so that L and B meet their stated \
         ends; B is at least 0.05",
        "an RTT increment is four samples above the minimum RTT by more than rise and its \
         rise_part-th part",
        "delta is solved anew from equations 25 to 29, one for all paths, with CUBIC's \
         Reno-friendly region and means over loss epochs: in equation 30 B cancels and RTT^2 has \
         the wrong dimension",
        "a loss forgets the RTT samples, and those of its recovery do not count",
    ],
    params: &[
        Param::choice(
            "balance",
            &["on", "off"],
            "whether B moves traffic between paths",
        ),
        Param::choice("fair", &["on", "off"], "whether delta couples the paths"),
        Param::number(
            "k_ret",
            [0.1, 0.7, 0.95],
            "fraction of the window kept on a loss",
        ),
        Param::choice(
            "convex",
            &["linear", "double"],
            "how alpha grows beyond w_max",
        ),
        Param::choice(
            "linear",
            &["frozen", "one"],
            "alpha once the RTT has risen: as it was, or 1",
        ),
        Param::time(
            "rise",
            [0.0001, 0.002, 1.0],
            "least RTT increment that counts",
        ),
        Param::number(
            "rise_part",
            [1.0, 8.0, 100.0],
            "and as a fraction of the minimum RTT: 1/8",
        ),
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(MpMtp::new(settings)),
};

/// MPMTP of one path.
#[derive(Clone, Copy, Debug)]
struct Flow {
    curve: Curve,
    /// B.
    balance: f64,
    delta: f64,
    epochs: Epochs,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            curve: Curve::default(),
            balance: 1.0,
            delta: 1.0,
            epochs: Epochs::default(),
        }
    }
}

/// The controller.
#[derive(Debug)]
struct MpMtp {
    rule: Rule,
    balance: bool,
    fair: bool,
}

impl MpMtp {
    fn new(settings: &Settings) -> Self {
        MpMtp {
            rule: Rule {
                k_ret: settings.get("k_ret"),
                double: settings.word("convex") == "double",
                linear_one: settings.word("linear") == "one",
                rise: settings.get("rise"),
                rise_part: settings.get("rise_part"),
            },
            balance: settings.word("balance") == "on",
            fair: settings.word("fair") == "on",
        }
    }
}

impl Controller for MpMtp {
    type Flow = Flow;

    fn on_sample(&mut self, own: Own<Flow>, ack: &Ack) {
        // Until recovery ends, what is acked was sent before the loss and met its queue.
        if own.path.in_recovery {
            return;
        }
        if let (Some(sample), Some(rtt)) = (ack.rtt_sample, own.path.rtt) {
            let (sample, base) = (secs(sample), secs(rtt.min));
            own.flow.curve.on_sample(&self.rule, sample, base);
        }
    }

    /// An RTT increment ends slow start.
    fn on_time(&mut self, own: Own<Flow>) -> Option<Change> {
        let leaves = own.path.in_slow_start() && own.flow.curve.ends_slow_start();
        leaves.then_some(Change {
            cwnd_bytes: own.path.cwnd_bytes as f64,
            ssthresh_bytes: Some(own.path.cwnd_bytes as f64),
        })
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        own.path.rtt?;
        if self.balance {
            own.flow.balance = balance(own.path, own.members());
        }
        own.flow.curve.on_round(&self.rule, packets(own.path));
        if self.fair {
            let all = own
                .flows()
                .map(|(member, flow)| (member, &flow.epochs, flow.balance));
            own.flow.delta = delta(1.0 - self.rule.k_ret, all);
        }
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let (path, flow) = (own.path, own.flow);
        if path.rtt.is_none() {
            return reno::step(path, ack);
        }
        let (w, mss) = (packets(path), path.mss_bytes as f64);
        let alpha = flow.curve.growth(&self.rule, w);
        flow.epochs.on_ack(ack.acked_bytes as f64 / mss, w, alpha);
        // No more than slow start, however large alpha is for a small window.
        ack.acked_bytes as f64 * (flow.delta * flow.balance * alpha / w).min(1.0)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.flow.curve.on_loss(&self.rule, packets(own.path));
        own.flow.epochs.on_loss();
        self.rule.k_ret * own.path.cwnd_bytes as f64
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        let curve = &flow.curve;
        trace.push("profile", f64::from(curve.profile as u8));
        trace.push("alpha", curve.alpha);
        trace.push("l", curve.factor);
        trace.push("b", flow.balance);
        trace.push("delta", flow.delta);
        trace.push("w_max_packets", curve.w_max);
        trace.push("rtt_rise_secs", curve.rtt_rise);
        trace.push("rtt_loss_secs", curve.rtt_loss.unwrap_or(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::curve::Profile;
    use super::*;
    use crate::registry::Rtt;
    use crate::registry::SSTHRESH_UNSET;
    use std::time::Duration;

    fn joined(text: &str) -> Flows<MpMtp> {
        let mut mpmtp = Flows::new(MpMtp::new(&settings(&ENTRY, text)));
        mpmtp.on_path_added(Instant::now(), PathId(0));
        mpmtp
    }

    fn sample(mpmtp: &mut Flows<MpMtp>, paths: &Registry, rtt_ms: u64, times: usize) {
        let now = Instant::now();
        let ack = Ack {
            rtt_sample: Some(Duration::from_millis(rtt_ms)),
            ..ack(now)
        };
        for _ in 0..times {
            mpmtp.on_sample(now, paths, PathId(0), &ack);
        }
    }

    #[test]
    fn the_profiles_follow_window_and_rtt() {
        let now = Instant::now();
        let id = PathId(0);
        let mut list = paths(&[(100, 100)]);
        let mut mpmtp = joined("fair=off");
        let profile = |mpmtp: &Flows<MpMtp>| mpmtp.flows.get(id).unwrap().curve.profile;

        sample(&mut mpmtp, &list, 100, 4);
        close(mpmtp.decrease(now, &list, id), 70_000.0);
        assert_eq!(profile(&mpmtp), Profile::Concave);
        // At 70 packets alpha = 70: a packet per ack.
        list.get_mut(id).unwrap().cwnd_bytes = 70_000;
        close(mpmtp.increase(now, &list, id, &ack(now)), 1000.0);

        // At w_max: convex, alpha = 1, 2, 3.
        list.get_mut(id).unwrap().cwnd_bytes = 100_000;
        close(mpmtp.increase(now, &list, id, &ack(now)), 10.0);
        assert_eq!(profile(&mpmtp), Profile::Convex);
        mpmtp.on_round(now, &list, id, &round(100));
        mpmtp.on_round(now, &list, id, &round(100));
        close(mpmtp.increase(now, &list, id, &ack(now)), 30.0);

        // Threshold: 100 + max(2, 100/8) = 112.5 ms. At 112 nothing, at 113 linear.
        sample(&mut mpmtp, &list, 112, 4);
        assert_eq!(profile(&mpmtp), Profile::Convex);
        sample(&mut mpmtp, &list, 113, 4);
        assert_eq!(profile(&mpmtp), Profile::Linear);
        // The last loss was at 100 ms: L = L_min = 1/100, alpha stays 3: 3/100/100 packets.
        close(mpmtp.increase(now, &list, id, &ack(now)), 0.3);

        // A round trip with a rise, then one without: convex again, from 1.
        mpmtp.on_round(now, &list, id, &round(113));
        assert_eq!(profile(&mpmtp), Profile::Linear);
        sample(&mut mpmtp, &list, 100, 4);
        mpmtp.on_round(now, &list, id, &round(100));
        assert_eq!(profile(&mpmtp), Profile::Convex);
        close(mpmtp.increase(now, &list, id, &ack(now)), 10.0);
    }

    #[test]
    fn linear_growth_begins_with_alpha_as_it_was_or_with_1() {
        let now = Instant::now();
        let id = PathId(0);
        for (text, gained) in [("fair=off", 1000.0), ("fair=off,linear=one", 1000.0 / 70.0)] {
            let mut list = paths(&[(100, 100)]);
            let mut mpmtp = joined(text);
            // A loss at 160 ms and 100 packets: 70 are left, alpha = 70.
            sample(&mut mpmtp, &list, 160, 4);
            mpmtp.decrease(now, &list, id);
            list.get_mut(id).unwrap().cwnd_bytes = 70_000;
            // The rise at 130 ms: L = 1 there. 70/70 packets of 1000 bytes for an acked one; 1/70.
            sample(&mut mpmtp, &list, 130, 4);
            let step = mpmtp.increase(now, &list, id, &ack(now));
            about(step, gained, 1e-6);
        }
    }

    #[test]
    fn an_rtt_increment_ends_slow_start() {
        let now = Instant::now();
        let mut list = paths(&[(40, 100)]);
        list.get_mut(PathId(0)).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        let mut mpmtp = joined("fair=off");
        sample(&mut mpmtp, &list, 100, 4);
        assert_eq!(mpmtp.on_time(now, &list, PathId(0)), None);
        sample(&mut mpmtp, &list, 120, 4);
        let change = mpmtp.on_time(now, &list, PathId(0)).unwrap();
        close(change.ssthresh_bytes.unwrap(), 40_000.0);
        // Linear with alpha = 1 and no RTT of a loss yet: Reno's 1/40.
        close(mpmtp.increase(now, &list, PathId(0), &ack(now)), 25.0);
    }

    #[test]
    fn delta_waits_for_two_epochs() {
        let now = Instant::now();
        let id = PathId(0);
        let list = paths(&[(100, 100), (100, 100)]);
        let mut mpmtp = joined("fair=on");
        mpmtp.on_path_added(now, PathId(1));
        for _ in 0..2 {
            mpmtp.on_round(now, &list, id, &round(100));
            close(mpmtp.flows.get(id).unwrap().delta, 0.5);
            mpmtp.increase(now, &list, id, &ack(now));
            mpmtp.decrease(now, &list, id);
        }
        mpmtp.on_round(now, &list, id, &round(100));
        // First epoch convex with alpha 1 + 1 = 2 (a round came first), second concave at w = w_max,
        // which enters convex: alpha = 1. w- = 100, alpha- = 2 - 1/4 = 1.75:
        // 0.3 * 10^4/1.75 * (0.4 * 3.7/1.2/0.1)^(1/3) / (2000)^(4/3) = 1714.3 * 2.3104/25198 = 0.15718.
        about(mpmtp.flows.get(id).unwrap().delta, 0.15718, 1e-3);
    }

    /// Two loss epochs at the window that path `id` has, growing by one packet per round trip.
    fn two_epochs(mpmtp: &mut Flows<MpMtp>, paths: &Registry, id: PathId) {
        let now = Instant::now();
        for _ in 0..2 {
            mpmtp.increase(now, paths, id, &ack(now));
            mpmtp.decrease(now, paths, id);
        }
        mpmtp.increase(now, paths, id, &ack(now));
    }

    #[test]
    fn one_delta_for_all_paths_lets_b_act() {
        let now = Instant::now();
        let (a, b) = (PathId(0), PathId(1));
        let mut list = paths(&[(100, 100), (100, 100)]);
        let mut mpmtp = joined("fair=on");
        mpmtp.on_path_added(now, b);
        for id in [a, b] {
            two_epochs(&mut mpmtp, &list, id);
        }
        // p = 0.01 and 0.03: B = 1.5 and 0.5.
        list.get_mut(a).unwrap().acked_between_losses_bytes = 100_000;
        list.get_mut(b).unwrap().acked_since_loss_bytes = 33_333;
        for id in [b, a, b] {
            mpmtp.on_round(now, &list, id, &round(100));
        }
        // w- = 100, alpha- = 1 on both. The best single flow is on b, where B is least:
        // 0.3 * 10^4/(1 * 0.5) * (0.4 * 3.7/1.2/0.1)^(1/3) / 2000^(4/3) = 6000 * 2.3104/25198 = 0.5501.
        for id in [a, b] {
            about(mpmtp.flows.get(id).unwrap().delta, 0.5501, 1e-3);
        }
        // What is gained differs by B alone: 1.5 to 0.5 at the same alpha.
        for id in [a, b] {
            mpmtp.flows.get_mut(id).unwrap().curve.alpha = 1.0;
        }
        let gained = [a, b].map(|id| mpmtp.increase(now, &list, id, &ack(now)));
        about(gained[0] / gained[1], 3.0, 1e-3);
    }

    #[test]
    fn delta_follows_reno_where_cubic_does() {
        let now = Instant::now();
        let id = PathId(0);
        let list = paths(&[(10, 20)]);
        let mut mpmtp = joined("fair=on");
        two_epochs(&mut mpmtp, &list, id);
        mpmtp.on_round(now, &list, id, &round(20));
        // The cubic law: 0.3 * 100 * (1.23333/0.02)^(1/3) / 500^(4/3) = 30 * 3.951/3968 = 0.0299.
        // Reno's sqrt(1.5/p) is above it: 1.5 * 0.3 * (500/500)^2 / (1 * 1) = 0.45.
        about(mpmtp.flows.get(id).unwrap().delta, 0.45, 1e-3);
    }

    #[test]
    fn the_queue_of_before_a_loss_does_not_end_the_climb() {
        let now = Instant::now();
        let id = PathId(0);
        let mut list = paths(&[(100, 100)]);
        let mut mpmtp = joined("fair=off");
        let profile = |mpmtp: &Flows<MpMtp>| mpmtp.flows.get(id).unwrap().curve.profile;
        sample(&mut mpmtp, &list, 100, 4);
        // The queue fills until a packet is lost at 180 ms.
        sample(&mut mpmtp, &list, 180, 4);
        assert_eq!(profile(&mpmtp), Profile::Linear);
        mpmtp.decrease(now, &list, id);
        about(
            mpmtp.flows.get(id).unwrap().curve.rtt_loss.unwrap(),
            0.18,
            1e-9,
        );

        // Until recovery ends, ACKs are of packets that were sent before the loss.
        list.get_mut(id).unwrap().in_recovery = true;
        sample(&mut mpmtp, &list, 180, 8);
        assert_eq!(profile(&mpmtp), Profile::Concave);
        // After it, four new samples are what counts: 100 ms, then 140 ms.
        list.get_mut(id).unwrap().in_recovery = false;
        sample(&mut mpmtp, &list, 140, 3);
        sample(&mut mpmtp, &list, 100, 1);
        assert_eq!(profile(&mpmtp), Profile::Concave);
        sample(&mut mpmtp, &list, 140, 4);
        assert_eq!(profile(&mpmtp), Profile::Linear);
    }

    #[test]
    fn b_moves_traffic_to_the_less_lossy_path() {
        let now = Instant::now();
        let mut list = paths(&[(100, 100), (100, 100)]);
        // 100 and 33.3 packets between losses: p = 0.01 and 0.03.
        list.get_mut(PathId(0)).unwrap().acked_between_losses_bytes = 100_000;
        list.get_mut(PathId(1)).unwrap().acked_since_loss_bytes = 33_333;
        list.get_mut(PathId(1)).unwrap().rtt = Some(Rtt::first(Duration::from_millis(50)));
        for (text, b) in [("fair=off", 1.5), ("fair=off,balance=off", 1.0)] {
            let mut mpmtp = joined(text);
            mpmtp.on_round(now, &list, PathId(0), &round(100));
            about(mpmtp.flows.get(PathId(0)).unwrap().balance, b, 1e-4);
            // alpha = 2 after a round trip: B * 2/100 packets of 1000 bytes.
            let gained = mpmtp.increase(now, &list, PathId(0), &ack(now));
            about(gained, 20.0 * b, 1e-4);
        }
    }

    #[test]
    fn what_it_shows() {
        let now = Instant::now();
        let list = paths(&[(100, 100)]);
        let mut mpmtp = joined("fair=off");
        sample(&mut mpmtp, &list, 160, 4);
        mpmtp.decrease(now, &list, PathId(0));
        let expected = [
            ("profile", 0.0),
            ("alpha", 70.0),
            ("l", 1.0),
            ("b", 1.0),
            ("delta", 1.0),
            ("w_max_packets", 100.0),
            ("rtt_rise_secs", 0.16),
            ("rtt_loss_secs", 0.16),
        ];
        shows(&mpmtp, &list, &expected);
    }
}
