//! MPMTP: multipath media transport protocol (MPMTP paper, section 3).
//!
//! The window climbs back to where the last loss was in a concave curve, searches beyond it in a
//! convex one, and goes over to a slow, linear one as soon as the RTT rises. Two factors couple the
//! paths: B moves traffic to the less lossy ones, delta makes all of them together fair to one CUBIC
//! flow.
//!
//! | symbol        | name here           | unit    | source                                       |
//! |---------------|---------------------|---------|----------------------------------------------|
//! | alpha_r       | `Flow::alpha`       | packets | equation 11: gained per round trip           |
//! | w_max         | `Flow::w_max`       | packets | window at the last loss                      |
//! | n             | `concave_alpha`     | packets | equation 12                                  |
//! | L, l1, l2     | `linear_factor`     | 1       | equations 13 to 15                           |
//! | B_r, b1, b2   | `balance`           | 1       | equations 17 to 21                           |
//! | delta_r       | `fairness`          | 1       | equations 22 to 30                           |
//! | k_ret         | `MpMtp::k_ret`      | 1       | retained on a loss; see below                |
//! | RTT_min       | `Flow::rtt_rise`    | s       | RTT at which its increment was detected      |
//! | RTT_max       | `Flow::rtt_loss`    | s       | RTT at the last loss                         |
//! | alpha-, w-bar | `Epoch`             | packets | means per acked packet of a loss epoch       |
//!
//! Increase: w += delta B L alpha/w per acked packet. Loss: w_max = w, w = k_ret w.
//!
//! The text has errors and gaps; what is done about them:
//!
//! *beta* is the retained fraction in the prose, in figure 10 and in equation 12, the decrease in
//! equation 11, its inverse in 26 and CUBIC's decrease in 28; no value is given. Here k_ret = 0.7 is
//! retained, d = 1 - k_ret is the decrease of equations 26 to 30, and b = 0.3 is CUBIC's in 28.
//!
//! *Concave* (figure 11 is missing): alpha(w) = alpha_max - (w^2 - (k_ret w_max)^2)/n, alpha_max =
//! k_ret w_max. With equation 12's n it is alpha_max at k_ret w_max and alpha_min = 1 at w_max.
//!
//! *Convex* (figure 12 is missing): alpha starts at 1 and gains 1 per round trip, or doubles.
//!
//! *Linear.* Equation 13 lacks "- RTT_min", equation 14 prints RTT for RTT_max, and 1/w is assigned to
//! L_max twice. With L = l1/(l2 + RTT - RTT_min), L_max = 1 and L_min = 1/w: at RTT_min, l1/l2 = L_max;
//! at RTT_max, l1/(l2 + R) with R = RTT_max - RTT_min is R L_min L_max/(R L_min + R (L_max - L_min)) =
//! L_min. alpha is frozen on entry. Before the first loss there is no RTT_max: L = 1.
//!
//! *An RTT increment* is not defined: here the least of the last four samples exceeds the minimum RTT
//! by more than max(`rise`, a `rise_part`th of it). A round trip below that ends the linear profile.
//!
//! *B.* Equation 17 gives B_max to the lossiest path, against its purpose, 18 has p_max - p_min for
//! p_avg - p_min, and 17, 20 and 21 lack "- p_min". With B_hi = 1 + (p_avg - p_min)/p_avg at p_min,
//! B_lo = 1 - (p_max - p_avg)/p_avg at p_max and B = b1/(b2 + p - p_min) both ends are met, and for
//! two paths B sums to 2. For more it could be negative: the floor is 0.05.
//!
//! *delta.* In equilibrium (1-p) delta B alpha-/w- = p d w-, so p = delta B alpha-/(d w-^2) (equation
//! 26 prints w_T for w_r). CUBIC has [C(4-b)/(4b) (rtt/p)^3]^(1/4) (equation 28 lost the cube on p),
//! and the sum of w-/rtt must be the best CUBIC path's (25). Solved for delta,
//! `delta_r = d w-_r^2 max_s[(C(4-b)/(4b rtt_s))^(1/3)] / (alpha-_r B_r (sum w-_s/rtt_s)^(4/3))`.
//! Equation 30 prints RTT^2 inside the root; only 1/RTT has the right dimension and gives one path
//! CUBIC's window. The means are those of the last complete loss epoch: with the instantaneous alpha,
//! delta alpha would be constant and the curves would vanish. Before two epochs delta is 1/N. It lies
//! within [0.01, 1] and plays no part in slow start.
//!
//! p_r: 1/p_r is the longer of the packets acked since the last loss and those between the last two.

use std::time::Duration;

use super::boxed;
use super::cubic;
use super::members::packets;
use super::members::secs;
use super::members::Member;
use super::re_entry;
use super::reno;
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
        "delta is solved anew from equations 25 to 28, with means over loss epochs; equation \
         30's RTT^2 has the wrong dimension",
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
    ],
    new: |settings| boxed(MpMtp::new(settings)),
};

/// The bounds of delta, and the floor of B.
const DELTA: [f64; 2] = [0.01, 1.0];
const MIN_BALANCE: f64 = 0.05;

/// Loss epochs before delta means anything.
const MIN_EPOCHS: u32 = 2;

/// RTT samples whose least is the current RTT.
const RTT_FILTER: usize = 4;

/// alpha at window `w` on the way back to `w_max`: the concave law with equation 12's n.
fn concave_alpha(w: f64, w_max: f64, k_ret: f64) -> f64 {
    let alpha_max = k_ret * w_max;
    if alpha_max <= 1.0 {
        return 1.0;
    }
    let start = alpha_max * alpha_max;
    let n = (w_max * w_max - start) / (alpha_max - 1.0);
    (alpha_max - (w * w - start) / n).clamp(1.0, w.max(1.0))
}

/// L = l1/(l2 + RTT - RTT_min) (equations 13 to 15, corrected), within [1/w, 1].
fn linear_factor(rtt: f64, rtt_rise: f64, rtt_loss: f64, w: f64) -> f64 {
    let (l_max, l_min) = (1.0, 1.0 / w.max(1.0));
    let range = rtt_loss - rtt_rise;
    if range <= 0.0 || l_min >= l_max {
        return l_min;
    }
    let l1 = range * l_min * l_max / (l_max - l_min);
    let l2 = range * l_min / (l_max - l_min);
    (l1 / (l2 + (rtt - rtt_rise).max(0.0))).clamp(l_min, l_max)
}

/// The loss rates that B compares.
#[derive(Clone, Copy, Debug)]
struct LossRates {
    min: f64,
    max: f64,
    mean: f64,
}

/// B of a path with loss rate `p` (equations 17 to 21, corrected).
fn balance(p: f64, rates: &LossRates) -> f64 {
    let range = rates.max - rates.min;
    let b_hi = 1.0 + (rates.mean - rates.min) / rates.mean;
    let b_lo = (1.0 - (rates.max - rates.mean) / rates.mean).max(MIN_BALANCE);
    if range <= 0.0 || b_hi <= b_lo {
        return 1.0;
    }
    let b1 = range * b_hi * b_lo / (b_hi - b_lo);
    let b2 = range * b_lo / (b_hi - b_lo);
    (b1 / (b2 + p - rates.min)).max(MIN_BALANCE)
}

/// delta of a path (equations 25 to 30, corrected): `best` is max_s[(C(4-b)/(4b rtt_s))^(1/3)],
/// `sum` is sum(w-_s/rtt_s).
fn fairness(d: f64, mean: &Means, balance: f64, best: f64, sum: f64) -> f64 {
    d * mean.w * mean.w * best / (mean.alpha * balance * sum.powf(4.0 / 3.0))
}

/// (C (4-b)/(4b rtt))^(1/3): CUBIC's rate is this^(3/4) p^(-3/4).
fn cubic_factor(rtt: f64) -> f64 {
    let b = 1.0 - cubic::BETA;
    (cubic::C * (4.0 - b) / (4.0 * b * rtt)).cbrt()
}

/// 1/p_r: packets between losses.
fn loss_interval(path: &PathState) -> f64 {
    let bytes = path
        .acked_since_loss_bytes
        .max(path.acked_between_losses_bytes);
    (bytes as f64 / path.mss_bytes as f64).max(1.0)
}

/// Means over the acked packets of a loss epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    w: f64,
    /// Of alpha L.
    alpha: f64,
}

/// The sums of a loss epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    acked: f64,
    w: f64,
    alpha: f64,
}

impl Epoch {
    fn add(&mut self, acked: f64, w: f64, alpha: f64) {
        self.acked += acked;
        self.w += acked * w;
        self.alpha += acked * alpha;
    }

    fn means(&self) -> Option<Means> {
        (self.acked > 0.0).then(|| Means {
            w: self.w / self.acked,
            alpha: self.alpha / self.acked,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Concave,
    Convex,
    Linear,
}

/// MPMTP of one path.
#[derive(Clone, Copy, Debug)]
struct Flow {
    profile: Profile,
    /// 0 before the first loss.
    w_max: f64,
    alpha: f64,
    factor: f64,
    balance: f64,
    delta: f64,
    /// The last RTT samples, seconds.
    samples: [f64; RTT_FILTER],
    seen: usize,
    rtt_rise: f64,
    rtt_loss: Option<f64>,
    /// The RTT was above the threshold in this round.
    rose: bool,
    epoch: Epoch,
    means: Option<Means>,
    epochs: u32,
}

impl Default for Flow {
    fn default() -> Self {
        Flow {
            profile: Profile::Convex,
            w_max: 0.0,
            alpha: 1.0,
            factor: 1.0,
            balance: 1.0,
            delta: 1.0,
            samples: [0.0; RTT_FILTER],
            seen: 0,
            rtt_rise: 0.0,
            rtt_loss: None,
            rose: false,
            epoch: Epoch::default(),
            means: None,
            epochs: 0,
        }
    }
}

impl Flow {
    /// The least of the last samples; `None` before there are enough.
    fn rtt(&self) -> Option<f64> {
        (self.seen >= RTT_FILTER).then(|| self.samples.iter().copied().fold(f64::MAX, f64::min))
    }

    /// w-, or the window while there is none.
    fn mean_window(&self, member: &Member) -> f64 {
        self.means.map_or(member.window, |means| means.w)
    }

    fn enter(&mut self, profile: Profile) {
        if profile == Profile::Convex {
            self.alpha = 1.0;
        }
        self.profile = profile;
        self.factor = 1.0;
    }

    /// A round trip ended at window `w`; `double`: convex growth doubles.
    fn on_round(&mut self, w: f64, double: bool) {
        match self.profile {
            Profile::Linear if !self.rose => self.leave_linear(w),
            Profile::Convex if double => self.alpha = (2.0 * self.alpha).min(w),
            Profile::Convex => self.alpha = (self.alpha + 1.0).min(w),
            _ => (),
        }
        self.rose = false;
    }

    /// Back from the linear profile to the curve that fits the window.
    fn leave_linear(&mut self, w: f64) {
        self.enter(match w < self.w_max {
            true => Profile::Concave,
            false => Profile::Convex,
        });
    }
}

/// The controller.
#[derive(Debug)]
struct MpMtp {
    balance: bool,
    fair: bool,
    k_ret: f64,
    double: bool,
    rise: Duration,
    rise_part: f64,
}

impl MpMtp {
    fn new(settings: &Settings) -> Self {
        MpMtp {
            balance: settings.word("balance") == "on",
            fair: settings.word("fair") == "on",
            k_ret: settings.get("k_ret"),
            double: settings.word("convex") == "double",
            rise: Duration::from_secs_f64(settings.get("rise")),
            rise_part: settings.get("rise_part"),
        }
    }

    /// B of the path.
    fn balance(&self, own: &Own<Flow>) -> f64 {
        let mut rates = LossRates {
            min: f64::MAX,
            max: 0.0,
            mean: 0.0,
        };
        let mut count = 0.0;
        for member in own.members() {
            let p = 1.0 / loss_interval(member.path);
            rates.min = rates.min.min(p);
            rates.max = rates.max.max(p);
            rates.mean += p;
            count += 1.0;
        }
        if !self.balance || count < 2.0 {
            return 1.0;
        }
        rates.mean /= count;
        balance(1.0 / loss_interval(own.path), &rates)
    }

    /// delta of the path.
    fn fairness(&self, own: &Own<Flow>) -> f64 {
        if !self.fair {
            return 1.0;
        }
        let (mut best, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
        for (member, flow) in own.flows() {
            best = best.max(cubic_factor(member.rtt));
            sum += flow.mean_window(&member) / member.rtt;
            count += 1.0;
        }
        let flow = &*own.flow;
        match flow.means.filter(|_| flow.epochs >= MIN_EPOCHS) {
            Some(means) => {
                let delta = fairness(1.0 - self.k_ret, &means, flow.balance, best, sum);
                delta.clamp(DELTA[0], DELTA[1])
            }
            None => 1.0 / f64::max(count, 1.0),
        }
    }
}

impl Controller for MpMtp {
    type Flow = Flow;

    fn on_sample(&mut self, own: Own<Flow>, ack: &Ack) {
        let (Some(sample), Some(rtt)) = (ack.rtt_sample, own.path.rtt) else {
            return;
        };
        let flow = own.flow;
        flow.samples[flow.seen % RTT_FILTER] = secs(sample);
        flow.seen += 1;

        let base = secs(rtt.min);
        let threshold = base + f64::max(self.rise.as_secs_f64(), base / self.rise_part);
        let Some(current) = flow.rtt() else { return };
        if current > threshold {
            flow.rose = true;
            if flow.profile != Profile::Linear {
                flow.enter(Profile::Linear);
                flow.rtt_rise = current;
            }
        }
    }

    /// An RTT increment ends slow start.
    fn on_time(&mut self, own: Own<Flow>) -> Option<Change> {
        let (path, flow) = (own.path, own.flow);
        let leaves = path.in_slow_start() && flow.profile == Profile::Linear && flow.w_max == 0.0;
        leaves.then_some(Change {
            cwnd_bytes: path.cwnd_bytes as f64,
            ssthresh_bytes: Some(path.cwnd_bytes as f64),
        })
    }

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        own.path.rtt?;
        own.flow.balance = self.balance(&own);
        own.flow.on_round(packets(own.path), self.double);
        own.flow.delta = self.fairness(&own);
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let (path, flow) = (own.path, own.flow);
        if path.rtt.is_none() {
            return reno::step(path, ack);
        }
        let w = packets(path);
        match flow.profile {
            Profile::Concave if w < flow.w_max => {
                flow.alpha = concave_alpha(w, flow.w_max, self.k_ret);
            }
            Profile::Concave => flow.enter(Profile::Convex),
            Profile::Convex => (),
            Profile::Linear => {
                flow.factor = match (flow.rtt(), flow.rtt_loss) {
                    (Some(rtt), Some(loss)) => linear_factor(rtt, flow.rtt_rise, loss, w),
                    _ => 1.0,
                };
            }
        }
        let alpha = flow.alpha * flow.factor;
        let mss = path.mss_bytes as f64;
        flow.epoch.add(ack.acked_bytes as f64 / mss, w, alpha);
        ack.acked_bytes as f64 * flow.delta * flow.balance * alpha / w
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        let (w, flow) = (packets(own.path), own.flow);
        flow.w_max = w;
        flow.rtt_loss = flow.rtt();
        flow.enter(Profile::Concave);
        flow.alpha = concave_alpha(self.k_ret * w, w, self.k_ret);
        if let Some(means) = std::mem::take(&mut flow.epoch).means() {
            flow.means = Some(means);
            flow.epochs = flow.epochs.saturating_add(1);
        }
        self.k_ret * own.path.cwnd_bytes as f64
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        trace.push("profile", f64::from(flow.profile as u8));
        trace.push("alpha", flow.alpha);
        trace.push("l", flow.factor);
        trace.push("b", flow.balance);
        trace.push("delta", flow.delta);
        trace.push("w_max_packets", flow.w_max);
        trace.push("rtt_rise_secs", flow.rtt_rise);
        trace.push("rtt_loss_secs", flow.rtt_loss.unwrap_or(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::Rtt;
    use crate::registry::SSTHRESH_UNSET;

    #[test]
    fn equation_12_and_the_concave_law() {
        // w_max = 100, k_ret = 0.7: alpha_max = 70, n = (10000 - 4900)/69 = 73.913.
        close(concave_alpha(70.0, 100.0, 0.7), 70.0);
        close(concave_alpha(100.0, 100.0, 0.7), 1.0);
        // w = 85: 70 - (7225 - 4900)/73.913 = 70 - 31.456 = 38.544.
        about(concave_alpha(85.0, 100.0, 0.7), 38.544, 1e-4);
        // Beyond its ends, and for tiny windows, it stays within [1, w].
        close(concave_alpha(150.0, 100.0, 0.7), 1.0);
        close(concave_alpha(50.0, 100.0, 0.7), 50.0);
        close(concave_alpha(1.0, 1.2, 0.7), 1.0);
    }

    #[test]
    fn equations_13_to_15() {
        // w = 50: L_min = 0.02. RTT 110 to 150 ms: range 0.04, l1 = 0.04 * 0.02/0.98 = l2.
        close(linear_factor(0.110, 0.110, 0.150, 50.0), 1.0);
        close(linear_factor(0.150, 0.110, 0.150, 50.0), 0.02);
        // Half-way: l1/(l1 + 0.02) = 0.00081633/0.02081633 = 0.0392157.
        about(linear_factor(0.130, 0.110, 0.150, 50.0), 0.039_215_7, 1e-5);
        // Beyond the RTT of the loss, and where that was no higher: L_min.
        close(linear_factor(0.500, 0.110, 0.150, 50.0), 0.02);
        close(linear_factor(0.110, 0.110, 0.105, 50.0), 0.02);
    }

    #[test]
    fn equations_17_to_21() {
        // p = 0.01 and 0.03: mean 0.02. B_hi = 1 + 0.01/0.02 = 1.5, B_lo = 1 - 0.01/0.02 = 0.5.
        let rates = LossRates {
            min: 0.01,
            max: 0.03,
            mean: 0.02,
        };
        close(balance(0.01, &rates), 1.5);
        close(balance(0.03, &rates), 0.5);
        // Between: b1 = 0.02 * 0.75/1 = 0.015, b2 = 0.02 * 0.5/1 = 0.01; 0.015/(0.01 + 0.01) = 0.75.
        close(balance(0.02, &rates), 0.75);
        // Equal paths: 1. Three paths, one very lossy: mean 0.034, B_lo = 1 - 0.066/0.034 < 0: floor.
        let equal = LossRates {
            min: 0.02,
            max: 0.02,
            mean: 0.02,
        };
        close(balance(0.02, &equal), 1.0);
        let steep = LossRates {
            min: 0.001,
            max: 0.1,
            mean: 0.034,
        };
        close(balance(0.1, &steep), 0.05);
    }

    #[test]
    fn equations_26_to_30_give_one_path_cubics_window() {
        // Equilibrium: p = delta B alpha/(d w^2). Take rtt 0.1, alpha = 20, B = 1, d = 0.3, and w =
        // 187.4, CUBIC's at p = 1e-4 (1.05382 * (0.1/1e-4)^0.75 = 1.05382 * 177.83 = 187.4).
        let w = 1.233_333_f64.powf(0.25) * 1000_f64.powf(0.75);
        let means = Means { w, alpha: 20.0 };
        let delta = fairness(0.3, &means, 1.0, cubic_factor(0.1), w / 0.1);
        let p = delta * 20.0 / (0.3 * w * w);
        about(p, 1e-4, 1e-5);
        // B = 1.5 alone must not change the window: delta B stays.
        let moved = fairness(0.3, &means, 1.5, cubic_factor(0.1), w / 0.1);
        about(moved * 1.5, delta, 1e-9);
        // Two equal paths: the sum doubles, so delta falls by 2^(4/3).
        let halves = fairness(0.3, &means, 1.0, cubic_factor(0.1), 2.0 * w / 0.1);
        about(halves, delta / 2_f64.powf(4.0 / 3.0), 1e-9);
    }

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
        let profile = |mpmtp: &Flows<MpMtp>| mpmtp.flows.get(id).unwrap().profile;

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
        // which enters convex: alpha = 1. w- = 100, alpha- = 1:
        // 0.3 * 10^4 * (0.4 * 3.7/1.2/0.1)^(1/3) / (2000)^(4/3) = 3000 * 2.3104/25198 = 0.27507.
        about(mpmtp.flows.get(id).unwrap().delta, 0.27507, 1e-3);
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
}
