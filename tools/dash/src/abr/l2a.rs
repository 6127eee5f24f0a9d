//! L2A-LL: online convex optimisation of the level for low latency (Karagkioules, Mekuria,
//! Griffioen and Wagenaar, MMSys 2020; L2ARule of dash.js, by the same authors).
//!
//! | symbol | here | unit | meaning |
//! |---|---|---|---|
//! | w | `weights` | 1 | probability of each level; they sum to 1 |
//! | Q | `multiplier` | 1 | Lagrange multiplier: how far the buffer has been displaced |
//! | T | `horizon` | segments | in which it is to converge |
//! | VL | `T^0.99` | 1 | cautiousness |
//! | alpha | max(T, VL sqrt(T)) | 1 | step size |
//! | V | segment's length | s | |
//! | C | throughput of the last segment | bit/s | |
//! | p | playback rate | 1 | |
//!
//! For each segment, with s = -1 from the first level on with p R_i > C, else 1:
//! w_i += s V / (2 alpha) (Q + VL) p R_i / C, projected on the simplex;
//! Q = max(0, Q - V + V p (R w + R (w - w_before)) / C). The level is the one whose rate is nearest
//! to R w, going up by one at a time; if its rate is not below C, Q = react max(VL, Q).

use mpq_decision::params::{Param, Settings};

use super::rate::SAFETY;
use super::table::{Entry, ABANDON_LATE};
use super::{rate_level, Arrival, Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "l2a",
    summary: "learns online which level keeps latency low (L2A-LL)",
    idea: "Each level has a probability, which every segment moves along a gradient: up while the \
           throughput carries the level, down if it would drain the buffer. Nothing is foreseen, \
           and a buffer of a second is enough.",
    source: "Karagkioules, Mekuria, Griffioen and Wagenaar, Online Learning for Low-Latency \
             Adaptive Streaming, MMSys 2020; dash.js, L2ARule",
    rule:
        "throughput until the buffer is at `target`; then w_i += s V/(2 alpha) (Q + VL) p R_i/C, \
           s = -1 from the first p R_i > C on; w = projection on the simplex; Q = max(0, Q - V + V \
           p (R w + R dw)/C); m = argmin abs(R_m - R w), one up at most; R_m >= C: Q = react \
           max(VL, Q)",
    use_when: "live playback a few seconds behind, where buffers are too short for BOLA and MPC",
    wrong:
        "one slow segment is answered at once: with a long buffer it changes more than it has to",
    deviations: &[
        "rates and throughput have one unit in Q and where a level is stepped up to; dash.js 5 has \
         bit/s beside kbit/s there, which `units=mixed` does too: Q is then a thousand times as \
         large, so that a step leads to the highest level below the throughput, however far",
        "C is that of the connection while the segment was on its way, audio included",
        "a segment that was given up for a lower level is no step: the next level is one above the one that was decided on at most",
    ],
    params: &[
        Param::whole(
            "horizon",
            [1.0, 4.0, 100.0],
            "T: segments in which it is to converge; dash.js has 4",
        ),
        Param::number(
            "react",
            [1.0, 2.0, 10.0],
            "how much the multiplier grows after a level above the throughput; dash.js has 2",
        ),
        Param::time(
            "target",
            [0.1, 1.5, 30.0],
            "buffer from which learning replaces the throughput rule; dash.js has 1.5 s",
        ),
        Param::choice(
            "units",
            &["one", "mixed"],
            "of rates and throughput in Q: one, or bit/s by kbit/s as in dash.js 5, to compare with it",
        ),
        SAFETY,
        ABANDON_LATE,
    ],
    new: |settings| Box::new(L2a::new(settings)),
};

/// The rule.
#[derive(Debug)]
struct L2a {
    horizon: f64,
    react: f64,
    target_s: f64,
    safety: f64,
    /// By how much a rate is too large beside a throughput in Q.
    rate_factor: f64,
    /// Throughput of the last segment, bit/s; `None` once a decision used it.
    news_bps: Option<f64>,
    /// Empty before the start is over.
    weights: Vec<f64>,
    multiplier: f64,
    level: usize,
}

impl L2a {
    fn new(settings: &Settings) -> Self {
        Self {
            horizon: settings.get("horizon"),
            react: settings.get("react"),
            target_s: settings.get("target"),
            safety: settings.get(SAFETY.name),
            rate_factor: if settings.word("units") == "mixed" {
                1e3
            } else {
                1.0
            },
            news_bps: None,
            weights: Vec::new(),
            multiplier: 0.0,
            level: 0,
        }
    }

    /// VL.
    fn cautiousness(&self) -> f64 {
        self.horizon.powf(0.99)
    }

    /// By throughput; learning begins with the next segment once the buffer is long enough.
    fn start(&mut self, situation: &Situation<'_>) -> usize {
        let budget_bps = self.safety * situation.throughput_bps.unwrap_or(0.0);
        let level = rate_level(situation.ladder_bps, budget_bps);
        let is_long = situation.buffer.as_secs_f64() >= self.target_s;
        if is_long && situation.throughput_bps.is_some() && situation.last_level.is_some() {
            self.weights = vec![0.0; situation.ladder_bps.len()];
            self.weights[level] = 1.0;
            self.multiplier = self.cautiousness();
        }
        level
    }

    /// A step of the gradient with the throughput of a segment.
    fn learn(&mut self, situation: &Situation<'_>, throughput_bps: f64) -> usize {
        let rates: Vec<f64> = situation.ladder_bps.iter().map(|&bps| bps as f64).collect();
        let (pace, segment_s) = (situation.playback_rate, situation.segment.as_secs_f64());
        let vl = self.cautiousness();
        let alpha = self.horizon.max(vl * self.horizon.sqrt());
        let step = segment_s / (2.0 * alpha) * (self.multiplier + vl);
        let moved: Vec<f64> = rates
            .iter()
            .zip(&self.weights)
            .map(|(rate, weight)| {
                let load = pace * rate / throughput_bps;
                let sign = if load > 1.0 { -1.0 } else { 1.0 };
                weight + sign * step * load
            })
            .collect();
        let weights = on_simplex(&moved);
        let mean = |weights: &[f64]| -> f64 { rates.iter().zip(weights).map(|(r, w)| r * w).sum() };
        let (before_bps, mean_bps) = (mean(&self.weights), mean(&weights));
        let load = pace * self.rate_factor * (2.0 * mean_bps - before_bps) / throughput_bps;
        self.multiplier = (self.multiplier - segment_s + segment_s * load).max(0.0);
        self.weights = weights;

        let distance = |level: usize| (rates[level] - mean_bps).abs();
        let nearest = |best, level| match distance(level) < distance(best) {
            true => level,
            false => best,
        };
        let mut level = (0..rates.len()).fold(0, nearest);
        let last = self.level.min(situation.top());
        if level > last && self.rate_factor * rates[last + 1] <= throughput_bps {
            level = last + 1;
        }
        if rates[level] >= throughput_bps {
            self.multiplier = self.react * self.multiplier.max(vl);
        }
        level
    }
}

impl Rule for L2a {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if self.weights.len() != situation.ladder_bps.len() {
            self.weights.clear();
            self.level = self.start(situation);
        } else if let Some(throughput_bps) = self.news_bps.take() {
            self.level = self.learn(situation, throughput_bps);
        }
        self.news_bps = None;
        Decision::Level(self.level)
    }

    fn on_segment(&mut self, arrival: &Arrival) {
        // An outage is no division by zero.
        self.news_bps = arrival
            .throughput_bps
            .is_finite()
            .then(|| arrival.throughput_bps.max(1_000.0));
    }
}

/// The nearest point with coordinates of at least 0 that sum to 1 (Chen and Ye, arXiv 1101.6081).
fn on_simplex(point: &[f64]) -> Vec<f64> {
    let mut sorted = point.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut shift = 0.0;
    for (i, value) in sorted.iter().enumerate() {
        sum += value;
        shift = (sum - 1.0) / (i + 1) as f64;
        if sorted.get(i + 1).is_some_and(|next| shift >= *next) {
            break;
        }
    }
    point.iter().map(|value| (value - shift).max(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::choose;
    use super::super::tests::{arrival, rule, situation};
    use super::*;

    fn l2a(text: &str) -> L2a {
        L2a::new(choose(text).unwrap().settings())
    }

    #[test]
    fn projections_by_hand() {
        let close = |point: &[f64], expected: &[f64]| {
            for (a, b) in on_simplex(point).iter().zip(expected) {
                assert!((a - b).abs() < 1e-12, "{point:?}: {a} is not {b}");
            }
        };
        close(&[0.2, 0.8], &[0.2, 0.8]);
        // 1.2 + 0.8 - 1 = 1, halved.
        close(&[1.2, 0.8], &[0.7, 0.3]);
        close(&[3.0, 0.5], &[1.0, 0.0]);
        close(&[0.0, 0.0, 0.0], &[1.0 / 3.0; 3]);
        close(&[-5.0], &[1.0]);
    }

    #[test]
    fn the_start_goes_by_throughput() {
        let mut rule = l2a("l2a");
        // 0.9 * 5 Mbit/s affords 4.
        assert_eq!(rule.decide(&situation(1.0, 5e6, 0)), Decision::Level(2));
        assert!(rule.weights.is_empty());
        assert_eq!(rule.decide(&situation(1.5, 5e6, 2)), Decision::Level(2));
        assert_eq!(rule.weights, [0.0, 0.0, 1.0, 0.0]);
        assert!((rule.multiplier - 4f64.powf(0.99)).abs() < 1e-12);
    }

    #[test]
    fn a_step_by_hand() {
        // T = 1: VL = 1, alpha = 1. At level 1 with Q = 1, V = 2, C = 4 Mbit/s: the step is
        // 2 / 2 * (1 + 1) = 2; loads are 0.25, 0.5, 1, 2 and 2 is above 1: the point is
        // 0.5, 1 + 1, 2, -4; shifted by (2 + 2 - 1) / 2 = 1.5: w = 0, 0.5, 0.5, 0.
        let mut rule = l2a("l2a:horizon=1");
        assert_eq!(rule.decide(&situation(2.0, 3e6, 1)), Decision::Level(1));
        rule.on_segment(&arrival(1, 4e6));
        // R w = 3; the distances of 2 and 4 are equal, the lower one is taken.
        assert_eq!(rule.decide(&situation(2.0, 3e6, 1)), Decision::Level(1));
        for (weight, expected) in rule.weights.iter().zip([0.0, 0.5, 0.5, 0.0]) {
            assert!((weight - expected).abs() < 1e-12, "{:?}", rule.weights);
        }
        // Q = 1 - 2 + 2 (2 * 3 - 2) / 4 = 1.
        assert!((rule.multiplier - 1.0).abs() < 1e-12, "{}", rule.multiplier);
        // Nothing new came, so nothing is learnt.
        let weights = rule.weights.clone();
        assert_eq!(rule.decide(&situation(2.0, 9e6, 1)), Decision::Level(1));
        assert_eq!(rule.weights, weights);
    }

    #[test]
    fn mixed_units_by_hand() {
        let mut rule = l2a("l2a:horizon=1,units=mixed");
        rule.decide(&situation(2.0, 3e6, 1));
        rule.on_segment(&arrival(1, 4e6));
        rule.decide(&situation(2.0, 3e6, 1));
        // Q = 1 - 2 + 2 * 1000 (2 * 3 - 2) / 4 = 1999.
        assert!(
            (rule.multiplier - 1999.0).abs() < 1e-9,
            "{}",
            rule.multiplier
        );
    }

    #[test]
    fn a_level_that_the_throughput_does_not_carry_is_left_at_once() {
        let mut rule = rule("l2a");
        rule.decide(&situation(3.0, 9.5e6, 3));
        rule.on_segment(&arrival(3, 1.5e6));
        let Decision::Level(level) = rule.decide(&situation(2.0, 3e6, 3)) else {
            panic!("it never waits")
        };
        assert!(level < 3, "{level}");
    }

    #[test]
    fn a_lower_level_in_place_of_one_that_was_given_up_is_no_step() {
        let mut rule = rule("l2a");
        assert_eq!(rule.decide(&situation(3.0, 9.5e6, 2)), Decision::Level(3));
        // One up from level 0 would be level 1.
        rule.on_segment(&arrival(0, 9.5e6));
        assert_eq!(rule.decide(&situation(3.0, 9.5e6, 0)), Decision::Level(3));
    }

    proptest! {
        #[test]
        fn a_projection_is_a_distribution(point in prop::collection::vec(-1e3f64..1e3, 1..12)) {
            let weights = on_simplex(&point);
            prop_assert!(weights.iter().all(|weight| (0.0..=1.0 + 1e-9).contains(weight)));
            prop_assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }

        #[test]
        fn steady_throughput_is_never_exceeded_for_long(mbps in 1.2f64..30.0) {
            let mut rule = rule("l2a");
            let mut level = 0;
            let mut above = 0;
            for _ in 0..60 {
                let Decision::Level(next) = rule.decide(&situation(3.0, mbps * 1e6, level)) else {
                    panic!("it never waits")
                };
                level = next;
                rule.on_segment(&arrival(level, mbps * 1e6));
                above += usize::from(super::super::tests::LADDER[level] as f64 > mbps * 1e6);
            }
            prop_assert!(above <= 30, "{above} of 60 above {mbps} Mbit/s");
        }
    }
}
