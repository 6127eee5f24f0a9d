//! Coupled CUBIC (Lee et al. 2023): CUBIC on the paths with a large bandwidth-delay product, LIA on
//! the others, coupled by what Reno's windows would be.
//!
//! A large path runs CUBIC on a *virtual* window W_C and sends with f(alpha1) W_C. In the others'
//! coupling it appears with VR, the window that Reno would have at the same loss rate, or with VL,
//! what LIA would have. A small path is LIA.
//!
//! | symbol  | name here        | unit    | source                                           |
//! |---------|------------------|---------|--------------------------------------------------|
//! | W_C     | `Flow::virtual_bytes` | bytes | equation 9; CUBIC's own window                |
//! | VR      | `virtual_reno`   | packets | equation 10                                      |
//! | VL      | f VR             | packets | section 3.2                                      |
//! | alpha1  | `Flow::alpha`    | 1       | equation 1 on a large path, VR for large windows |
//! | alpha2  | `Flow::alpha`    | 1       | equation 1 on a small path, VL for large windows |
//! | f       | `Flow::f`        | 1       | figure 3, table 2                                |
//!
//! Where the paper leaves something open (the text we have lacks equation 10 and all tables):
//!
//! *beta.* Equations 4 and 9 use the decrease fraction b = 0.3, the only value for which the printed
//! constant 1.054 = (C (4-b)/(4b))^(1/4) comes out; the text calls it 0.7, the retained fraction.
//!
//! *Equation 10.* Reno has sqrt(3/(2p)), CUBIC W_C = 1.054 (rtt/p)^(3/4); without p, VR =
//! sqrt(3/2) 1.054^(-2/3) W_C^(2/3)/sqrt(rtt) = 1.183 W_C^(2/3)/sqrt(rtt), at most W_C.
//!
//! *Large or small.* CUBIC exceeds Reno where W_C > VR, that is W > 1.183^3/rtt^1.5 = 1.654/rtt^1.5
//! packets: 52 at 100 ms, 585 at 20 ms. A path is large when twice its BDP is above that, and small
//! again below half of it; a window that crosses it in slow start makes a path large at once.
//!
//! *f.* Table 2 says that the windows differ "by the square root of alpha" and then to "multiply by
//! alpha". AIMD with increase alpha has sqrt(2 alpha/p), so the root is right; `f=linear` is the other.
//! f is smoothed by 7/8 and moves at most 5 % per round trip.
//!
//! *The virtual window's clock.* Multiplying an unmodified CUBIC by f does not give f times a CUBIC
//! flow: with f W_C packets sent per round trip instead of W_C, losses are fewer. An epoch T lasts
//! until a packet is lost, f W_C T/rtt = 1/p, and with a cubic constant C' the window is
//! C'^(1/4) (rtt/(f p))^(3/4) but for constants, so the sent window is f^(1/4) times CUBIC's:
//! for two equal large paths (alpha1 = 1/4, f = 1/2) 0.84 each, together 1.68 flows at a common
//! bottleneck, which breaks the paper's own goal, and VR is too large as well. With
//! C' = f^3 C the virtual window is what CUBIC would have at the same p, equation 10 holds, and two
//! paths are one flow. Likewise Reno's estimate in CUBIC: gain a per round trip against f p W_C^2 b
//! gives W_C ~ sqrt(a/(f p)), so a is scaled by f. `clock=plain` is the unmodified machine. Only where
//! alpha1 = 1 are the two the same. In the paper's experiments it is about 0.7 (VR of some 1100 packets
//! at 150 ms beside 50 packets at 30 ms): there `matched` has f^3 = 0.6 of C.

use std::time::Instant;

use super::boxed;
use super::counting;
use super::counting::Counting;
use super::cubic;
use super::cubic::Gains;
use super::cubic::Growth;
use super::lia::Sums;
use super::members::Member;
use super::re_entry;
use super::reno;
use super::start;
use super::units::packets;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "coupled-cubic",
    coupled: true,
    summary: "Coupled CUBIC: fills long fast paths as CUBIC, is LIA on the others",
    idea:
        "CUBIC on the paths with a large bandwidth-delay product, LIA on the others; large paths \
           take part in the coupling with the window that Reno, or LIA, would have there.",
    source: "Lee, Kim, Kwon and Han, Coupled CUBIC Congestion Control for MPTCP, 2023",
    formula: "large: w = f(alpha1) W_C, W_C as CUBIC; VR = 1.183 W_C^(2/3)/sqrt(rtt), VL = f VR; \
              small: ack: w += alpha2/w; loss: w = w/2",
    use_when: "one path is long and fast and another is not, where LIA leaves the first one empty",
    avoid_when: "all paths are small: it is LIA then",
    deviations: &[
        "b is the decrease fraction 0.3, with which the printed 1.054 comes out; the text calls \
         it 0.7",
        "equation 10, which our text lacks, is VR = 1.183 W_C^(2/3)/sqrt(rtt), at most W_C",
        "a path is large when twice its BDP is above 1.654/rtt^1.5 packets, and small again \
         below half of it",
        "f is the root of alpha1, as the windows of AIMD differ by it; f=linear is the other \
         reading",
        "the virtual window's C is scaled by f^3, or two equal paths take 1.68 flows; \
         clock=plain leaves it",
    ],
    params: &[
        Param::choice(
            "variant",
            &["alpha2", "alpha1"],
            "small paths see the large ones as LIA's windows (alpha2) or as Reno's (alpha1)",
        ),
        Param::choice("f", &["sqrt", "linear"], "how the window depends on alpha1"),
        Param::choice(
            "clock",
            &["matched", "plain"],
            "whether the virtual window grows as one that is sent in full would",
        ),
        Param::choice(
            "class",
            &["auto", "large", "small"],
            "which paths run CUBIC; all or none instead of the large ones",
        ),
        counting::PARAM,
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(CoupledCubic::new(settings)),
};

/// sqrt(3/2) (C (4-b)/(4b))^(-1/6): VR = this W_C^(2/3)/sqrt(rtt). 1.183.
fn reno_factor() -> f64 {
    let b = 1.0 - cubic::BETA;
    1.5_f64.sqrt() * (cubic::C * (4.0 - b) / (4.0 * b)).powf(-1.0 / 6.0)
}

/// Equation 10: VR in packets, of a virtual window of `w_c` packets.
fn virtual_reno(w_c: f64, rtt: f64) -> f64 {
    (reno_factor() * w_c.cbrt().powi(2) / rtt.sqrt()).min(w_c)
}

/// The window in packets where CUBIC and Reno have the same: 1.654/rtt^1.5.
fn boundary(rtt: f64) -> f64 {
    (reno_factor() / rtt.sqrt()).powi(3)
}

/// f moves this much of the way per round trip, and at most by this fraction.
const F_SMOOTHING: f64 = 0.125;
const F_MAX_CHANGE: f64 = 0.05;

/// f after a round trip.
fn smoothed(f: f64, wanted: f64) -> f64 {
    let next = f + F_SMOOTHING * (wanted - f);
    next.clamp(f * (1.0 - F_MAX_CHANGE), f * (1.0 + F_MAX_CHANGE))
}

/// How fast the largest rate seen is forgotten, per round trip.
const PEAK_DECAY: f64 = 1.0 / 64.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Auto,
    Large,
    Small,
}

/// One path.
#[derive(Clone, Copy, Debug)]
struct Flow {
    large: bool,
    cubic: cubic::Flow,
    /// W_C; `None` while the window is in slow start or the path is small.
    virtual_bytes: Option<f64>,
    /// alpha1 on a large path, alpha2 on a small one.
    alpha: f64,
    f: f64,
    /// The largest rate lately, packets per second.
    peak_rate: f64,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            large: false,
            cubic: cubic::Flow::default(),
            virtual_bytes: None,
            alpha: 1.0,
            f: 1.0,
            peak_rate: 0.0,
        }
    }
}

impl Flow {
    /// VR of the path, packets.
    fn virtual_reno(&self, member: &Member) -> f64 {
        let w_c = match self.virtual_bytes {
            Some(bytes) => bytes / member.path.mss_bytes as f64,
            None => member.window / self.f,
        };
        virtual_reno(w_c, member.rtt)
    }

    /// W_C, which starts where the window is.
    fn virtual_bytes(&mut self, path: &PathState) -> f64 {
        let actual_bytes = path.cwnd_bytes as f64;
        *self.virtual_bytes.get_or_insert(actual_bytes / self.f)
    }

    /// Whether the path is large, by what it carried lately.
    fn classify(&mut self, member: &Member) {
        let rate = match member.path.delivery_rate_bytes_per_sec {
            Some(bytes_per_sec) => bytes_per_sec as f64 / member.path.mss_bytes as f64,
            None => packets(member.path) / member.rtt,
        };
        self.peak_rate = rate.max(self.peak_rate * (1.0 - PEAK_DECAY));

        let boundary = boundary(member.base());
        if member.path.in_slow_start() {
            self.large |= packets(member.path) > boundary;
            return;
        }
        let twice_bdp = 2.0 * self.peak_rate * member.base();
        self.large = match self.large {
            true => twice_bdp > boundary / 2.0,
            false => twice_bdp > boundary,
        };
    }
}

/// The controller.
#[derive(Debug)]
struct CoupledCubic {
    /// VL, not VR, in the coupling of small paths.
    alpha2: bool,
    f_linear: bool,
    matched: bool,
    class: Class,
    /// Of the small paths' ACKs; CUBIC goes by time.
    counting: Counting,
}

impl CoupledCubic {
    fn new(settings: &Settings) -> Self {
        CoupledCubic {
            alpha2: settings.word("variant") == "alpha2",
            f_linear: settings.word("f") == "linear",
            matched: settings.word("clock") == "matched",
            class: match settings.word("class") {
                "large" => Class::Large,
                "small" => Class::Small,
                _ => Class::Auto,
            },
            counting: Counting::new(settings),
        }
    }

    fn f(&self, alpha: f64) -> f64 {
        match self.f_linear {
            true => alpha,
            false => alpha.sqrt(),
        }
    }

    /// The window with which `member`, whose state is `flow`, takes part in the coupling of `own`,
    /// packets.
    fn coupling_window(&self, own: &Flow, member: &Member, flow: &Flow) -> f64 {
        if !flow.large {
            return member.window;
        }
        let vr = flow.virtual_reno(member);
        match !own.large && self.alpha2 {
            true => flow.f * vr,
            false => vr,
        }
    }

    /// Equation 1 for the path, which is `member`.
    fn alpha(&self, own: &Own<Flow>, member: &Member) -> f64 {
        let windows = own
            .flows()
            .map(|(member, flow)| (self.coupling_window(own.flow, &member, flow), member.rtt));
        Sums::of(windows).share(self.coupling_window(own.flow, member, own.flow))
    }

    fn gains(&self, f: f64) -> Gains {
        match self.matched {
            true => Gains {
                cubic: f.powi(3),
                friendly: f,
            },
            false => Gains::NONE,
        }
    }
}

impl Controller for CoupledCubic {
    type Flow = Flow;

    fn on_path_added(&mut self, _now: Instant, _id: PathId) -> Flow {
        Flow {
            large: self.class == Class::Large,
            ..Flow::default()
        }
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        let member = Member::new(own.path)?;
        if self.class == Class::Auto {
            own.flow.classify(&member);
        }
        if !own.flow.large || own.path.in_slow_start() {
            own.flow.virtual_bytes = None;
        }

        let alpha = self.alpha(&own, &member);
        let wanted = self.f(alpha);
        own.flow.alpha = alpha;
        own.flow.f = match own.flow.virtual_bytes {
            Some(_) => smoothed(own.flow.f, wanted),
            // Not in use yet: W_C starts from the window and this.
            None => wanted,
        };
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let (path, flow) = (own.path, own.flow);
        if !flow.large || path.rtt.is_none() {
            return self.counting.counted(flow.alpha * reno::step(path, ack));
        }

        let virtual_bytes = flow.virtual_bytes(path);
        // A round trip acks f W_C; the virtual window grows as if all of W_C had been acked.
        let growth = Growth {
            cwnd_bytes: virtual_bytes,
            acked_bytes: ack.acked_bytes as f64 / flow.f,
            ..Growth::of(path, ack)
        };
        let gained_bytes = flow.cubic.increase(own.now, &growth, self.gains(flow.f));
        // What the shared bound would cut off the window must not pile up here.
        let virtual_bytes = (virtual_bytes + gained_bytes).min(MAX_VIRTUAL_BYTES);
        flow.virtual_bytes = Some(virtual_bytes);
        flow.f * virtual_bytes - path.cwnd_bytes as f64
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        let (path, flow) = (own.path, own.flow);
        if !flow.large {
            return reno::half(path);
        }
        let virtual_bytes = flow.virtual_bytes(path);
        let kept_bytes = flow.cubic.decrease(virtual_bytes);
        let floor_bytes = 2.0 * path.mss_bytes as f64;
        flow.virtual_bytes = Some(kept_bytes.max(floor_bytes));
        flow.f * kept_bytes
    }

    fn on_underused(&mut self, own: Own<Flow>) {
        own.flow.cubic.on_underused(own.now);
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        let vr = Member::new(path).map_or(0.0, |member| flow.virtual_reno(&member));
        let w_c_packets = flow.virtual_bytes.unwrap_or(0.0) / path.mss_bytes as f64;
        trace.push("large", if flow.large { 1.0 } else { 0.0 });
        trace.push("alpha", flow.alpha);
        trace.push("f", flow.f);
        trace.push("w_c_packets", w_c_packets);
        trace.push("vr_packets", vr);
        trace.push("vl_packets", flow.f * vr);
    }
}

/// As much as any window may be.
const MAX_VIRTUAL_BYTES: f64 = (1u64 << 36) as f64;

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn with(text: &str) -> CoupledCubic {
        CoupledCubic::new(&settings(&ENTRY, text))
    }

    fn all_of(text: &str, paths: &Registry) -> Flows<CoupledCubic> {
        joined(with(text), paths)
    }

    #[test]
    fn equation_9_has_the_printed_constant_with_b_of_0_3() {
        // (0.4 * 3.7/1.2)^(1/4) = 1.23333^(1/4) = 1.0538; with 0.7: (0.4 * 3.3/2.8)^(1/4) = 0.829.
        let b = 1.0 - cubic::BETA;
        about((0.4 * (4.0 - b) / (4.0 * b)).powf(0.25), 1.054, 1e-3);
        about((0.4_f64 * 3.3 / 2.8).powf(0.25), 0.829, 1e-3);
    }

    #[test]
    fn equation_10_gives_renos_window_at_the_same_loss_rate() {
        // rtt 0.1, p = 1e-6: W_C = 1.0538 * 1e5^0.75 = 5926; Reno sqrt(1.5e6) = 1224.7.
        about(reno_factor(), 1.183, 1e-3);
        let w_c = 1.233_333_f64.powf(0.25) * 1e5_f64.powf(0.75);
        about(w_c, 5926.0, 1e-3);
        about(virtual_reno(w_c, 0.1), 1224.7, 1e-3);
        // Never above W_C: 20 packets at 100 ms would be 1.183 * 7.368/0.3162 = 27.6.
        close(virtual_reno(20.0, 0.1), 20.0);
    }

    #[test]
    fn the_boundary_is_where_both_responses_meet() {
        // 1.6543/0.1^1.5 = 52.3; 1.6543/0.02^1.5 = 584.9.
        about(boundary(0.1), 52.3, 2e-3);
        about(boundary(0.02), 584.9, 2e-3);
        about(virtual_reno(boundary(0.1), 0.1), boundary(0.1), 1e-9);
    }

    #[test]
    fn the_papers_testbed_is_classified_as_the_paper_does() {
        // 500 Mbit/s * 100 ms = 4167 packets of 1500 bytes: twice that is above 52. 100 Mbit/s *
        // 20 ms = 167: twice that is below 585.
        let paths = paths(&[(4167, 100), (167, 20)]);
        let mut controller = all_of("", &paths);
        for id in [PathId(0), PathId(1)] {
            controller.on_round(Instant::now(), &paths, id, &round(100));
        }
        assert!(controller.flows.get(PathId(0)).unwrap().large);
        assert!(!controller.flows.get(PathId(1)).unwrap().large);
    }

    #[test]
    fn the_class_has_hysteresis() {
        // Boundary at 100 ms: 52.3. Twice the BDP of 27 packets is 54: large. 14: 28 > 26: stays.
        // 13: 26 < 26.2: small. 20: 40 < 52: stays small.
        let now = Instant::now();
        let mut list = paths(&[(2, 100)]);
        let mut controller = all_of("", &list);
        for (packets, large) in [(27, true), (14, true), (13, false), (20, false), (27, true)] {
            list.get_mut(PathId(0)).unwrap().cwnd_bytes = packets * MSS;
            controller.flows.get_mut(PathId(0)).unwrap().peak_rate = 0.0;
            controller.on_round(now, &list, PathId(0), &round(100));
            assert_eq!(
                controller.flows.get(PathId(0)).unwrap().large,
                large,
                "{packets}"
            );
        }
    }

    #[test]
    fn two_equal_large_paths_have_half_each() {
        // VR equal: alpha1 = w * (w/rtt^2)/(2w/rtt)^2 = 1/4, f = 1/2, and C is scaled by 1/8.
        let now = Instant::now();
        let paths = paths(&[(1000, 100), (1000, 100)]);
        let mut controller = all_of("class=large", &paths);
        for turn in 0..100 {
            controller.on_round(now, &paths, PathId(turn % 2), &round(100));
        }
        let flow = *controller.flows.get(PathId(0)).unwrap();
        close(flow.alpha, 0.25);
        close(flow.f, 0.5);
        close(controller.controller.gains(flow.f).cubic, 0.125);
        close(controller.controller.gains(flow.f).friendly, 0.5);
        // A loss at W_C = 1000/0.5 = 2000: 1400, so 700 are sent.
        close(controller.decrease(now, &paths, PathId(0)), 700_000.0);
        close(flow_w_c(&controller), 1400.0);
        // f=linear: f = 1/4.
        close(with("f=linear").f(0.25), 0.25);
        close(with("clock=plain").gains(0.5).cubic, 1.0);
    }

    #[test]
    fn the_virtual_window_grows_as_if_it_were_sent() {
        // f = 1/2, W_C = 36, w = 18. A loss: W_C = 25.2, w = 12.6. One packet acked of w stands for two
        // of W_C: Reno's estimate gains 2 f a_c/25.2 = a_c/25.2 = 0.0210084 packets, and w half of it.
        let now = Instant::now();
        let mut paths = paths(&[(18, 100)]);
        let mut controller = all_of("class=large", &paths);
        controller.flows.get_mut(PathId(0)).unwrap().f = 0.5;
        close(controller.decrease(now, &paths, PathId(0)), 12_600.0);
        paths.get_mut(PathId(0)).unwrap().cwnd_bytes = 12_600;
        let gained = controller.increase(now, &paths, PathId(0), &ack(now));
        about(gained, 0.9 / 1.7 / 25.2 / 2.0 * 1000.0, 1e-6);
    }

    fn flow_w_c(controller: &Flows<CoupledCubic>) -> f64 {
        let flow = controller.flows.get(PathId(0)).unwrap();
        flow.virtual_bytes.unwrap() / MSS as f64
    }

    #[test]
    fn a_small_path_sees_a_large_one_as_reno_or_as_lia() {
        // Path 0 large: f = 0.5, W_C = 1000 at 100 ms, VR = 1.1828 * 100/0.31623 = 374.0,
        // VL = 187.0. Path 1 small: 50 packets at 20 ms, w/rtt = 2500, w/rtt^2 = 125000.
        let paths = paths(&[(500, 100), (50, 20)]);
        let now = Instant::now();
        let alpha_of = |variant: &str| {
            let mut controller = all_of(&format!("class=large,{variant}"), &paths);
            let large = controller.flows.get_mut(PathId(0)).unwrap();
            large.f = 0.5;
            large.virtual_bytes = Some(1_000_000.0);
            let small = controller.flows.get_mut(PathId(1)).unwrap();
            small.large = false;
            controller.on_round(now, &paths, PathId(1), &round(20));
            controller.flows.get(PathId(1)).unwrap().alpha
        };
        // alpha1: 50 * 125000/(3740 + 2500)^2 = 6.25e6/3.894e7 = 0.1605.
        about(alpha_of("variant=alpha1"), 0.1605, 1e-3);
        // alpha2: 6.25e6/(1870 + 2500)^2 = 6.25e6/1.910e7 = 0.3273: the small path grows faster.
        about(alpha_of("variant=alpha2"), 0.3273, 1e-3);
    }

    #[test]
    fn f_moves_by_five_percent_at_most() {
        // 1 -> 0.5: an eighth of the way is 0.9375, but 0.95. 0.5 -> 0.52: 0.5025.
        close(smoothed(1.0, 0.5), 0.95);
        close(smoothed(0.5, 0.52), 0.5025);
        close(smoothed(0.5, 1.0), 0.525);
    }

    #[test]
    fn what_the_peak_of_the_rate_says() {
        // Boundary at 100 ms: 52.3. By the delivery rate: 2 * 27 packets are above it, 2 * 26 are not.
        let now = Instant::now();
        let mut list = paths(&[(2, 100)]);
        for (bytes_per_sec, large) in [(270_000, true), (260_000, false)] {
            list.get_mut(PathId(0)).unwrap().delivery_rate_bytes_per_sec = Some(bytes_per_sec);
            let mut controller = all_of("", &list);
            controller.on_round(now, &list, PathId(0), &round(100));
            assert_eq!(controller.flows.get(PathId(0)).unwrap().large, large);
        }
        // A peak of 640 packets/s loses 1/64 in a round trip: 630.
        let mut controller = all_of("", &list);
        controller.flows.get_mut(PathId(0)).unwrap().peak_rate = 640.0;
        controller.on_round(now, &list, PathId(0), &round(100));
        close(controller.flows.get(PathId(0)).unwrap().peak_rate, 630.0);
    }

    #[test]
    fn slow_start_makes_a_path_large_by_its_window() {
        let now = Instant::now();
        for (packets, before, large) in [(53, false, true), (52, false, false), (20, true, true)] {
            let mut list = paths(&[(packets, 100)]);
            let path = list.get_mut(PathId(0)).unwrap();
            path.ssthresh_bytes = crate::registry::SSTHRESH_UNSET;
            let mut controller = all_of("", &list);
            let flow = controller.flows.get_mut(PathId(0)).unwrap();
            (flow.large, flow.virtual_bytes) = (before, Some(9e3));
            controller.on_round(now, &list, PathId(0), &round(100));
            let flow = controller.flows.get(PathId(0)).unwrap();
            assert_eq!(flow.large, large, "{packets}");
            // W_C starts anew after it.
            assert_eq!(flow.virtual_bytes, None);
        }
        // And goes on in congestion avoidance, on a large path.
        for (class, virtual_bytes) in [("large", Some(9e3)), ("small", None)] {
            let list = paths(&[(20, 100)]);
            let mut controller = all_of(&format!("class={class}"), &list);
            controller.flows.get_mut(PathId(0)).unwrap().virtual_bytes = Some(9e3);
            controller.on_round(now, &list, PathId(0), &round(100));
            let flow = controller.flows.get(PathId(0)).unwrap();
            assert_eq!(flow.virtual_bytes, virtual_bytes, "{class}");
        }
    }

    #[test]
    fn a_large_path_without_rtt_grows_by_alpha() {
        // 20 packets: 1000/20 bytes, and a quarter of that.
        let now = Instant::now();
        let mut list = paths(&[(20, 100)]);
        list.get_mut(PathId(0)).unwrap().rtt = None;
        let mut controller = all_of("class=large", &list);
        controller.flows.get_mut(PathId(0)).unwrap().alpha = 0.25;
        close(controller.increase(now, &list, PathId(0), &ack(now)), 12.5);
    }

    #[test]
    fn the_virtual_window_is_two_packets_at_least() {
        // 0.7 of 2.5 packets are 1.75.
        let now = Instant::now();
        let list = paths(&[(2, 100)]);
        let mut controller = all_of("class=large", &list);
        controller.flows.get_mut(PathId(0)).unwrap().virtual_bytes = Some(2_500.0);
        close(controller.decrease(now, &list, PathId(0)), 1_750.0);
        close(flow_w_c(&controller), 2.0);
    }

    #[test]
    fn idle_time_is_no_growth_time() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(30);
        let gained = |idle: bool| {
            let mut list = paths(&[(36, 100)]);
            let mut controller = all_of("class=large", &list);
            let kept = controller.decrease(now, &list, PathId(0));
            list.get_mut(PathId(0)).unwrap().cwnd_bytes = kept as u64;
            controller.increase(now, &list, PathId(0), &ack(now));
            if idle {
                controller.on_underused(later, &list, PathId(0));
            }
            controller.increase(later, &list, PathId(0), &ack(now))
        };
        assert!(gained(true) < gained(false) / 10.0);
    }

    #[test]
    fn what_is_shown() {
        // f = 1/2, W_C = 1000 packets at 100 ms: VR = 1.183 1000^(2/3)/sqrt(0.1), VL half of it.
        let list = paths(&[(500, 100)]);
        let mut controller = all_of("class=large", &list);
        let flow = controller.flows.get_mut(PathId(0)).unwrap();
        (flow.alpha, flow.f) = (0.25, 0.5);
        let vr = reno_factor() * 100.0 / 0.1_f64.sqrt();
        let shown = |w_c_packets| {
            [
                ("large", 1.0),
                ("alpha", 0.25),
                ("f", 0.5),
                ("w_c_packets", w_c_packets),
                ("vr_packets", vr),
                ("vl_packets", vr / 2.0),
            ]
        };
        // Not yet in use, it is taken for w/f.
        shows(&controller, &list, &shown(0.0));
        let flow = controller.flows.get_mut(PathId(0)).unwrap();
        flow.virtual_bytes = Some(1e6);
        shows(&controller, &list, &shown(1000.0));
    }
}
