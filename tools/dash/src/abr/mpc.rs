//! Robust MPC: the levels of the next segments are planned together, with a throughput that is
//! foreseen too low rather than too high (Yin, Jindal, Sekar and Sinopoli, SIGCOMM 2015).
//!
//! | symbol | here | unit | meaning |
//! |---|---|---|---|
//! | C_hat | `harmonic_mean_bps` | bit/s | harmonic mean of the last segments' throughputs |
//! | err | `worst_error` | 1 | largest abs(C_hat - C) / C of the last segments |
//! | C_low | `foreseen_bps` | bit/s | C_hat / (1 + err) |
//! | N | `horizon` | segments | that are planned |
//! | B_k | `buffer_s` | s | buffer when segment k is asked for |
//! | lambda | `change` | 1 | weight of a change of rate |
//! | mu | `stall` | highest rates / s | weight of a stalled second |
//!
//! The plan maximises sum q(R_k) - lambda sum abs(q(R_k) - q(R_k-1)) - mu sum (d_k / C_low - B_k)+,
//! with q the identity in Mbit/s and B_k+1 = min((B_k - d_k / C_low)+ + L, B_max). Its first level
//! is the answer.
//!
//! Plans that reach the same level at the same step are compared: one that has less buffer and no
//! more QoE can never become better than the other, so it is dropped. What is left is exact and
//! far from levels^N.

use std::collections::VecDeque;

use mpq_decision::params::{Param, Settings};

use super::table::{Entry, ABANDON};
use super::{Arrival, Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "mpc",
    summary: "plans the next segments with a throughput foreseen too low (RobustMPC)",
    idea:
        "The level that is best for the next segment may be wrong for those after it, so several \
           are planned together. The throughput is taken to be as much lower than foreseen as it \
           was at worst of late.",
    source: "Yin, Jindal, Sekar and Sinopoli, A Control-Theoretic Approach for Dynamic Adaptive \
             Video Streaming over HTTP, SIGCOMM 2015",
    rule: "C_hat = harmonic mean of the last `window` throughputs; C_low = C_hat / (1 + max \
           abs(C_hat - C)/C of the last `window`); R = argmax over `horizon` segments of sum R - \
           change sum abs(R_k - R_k-1) - stall R_max sum (d_k/C_low - B_k)+; only the first of \
           them is fetched, then it plans anew",
    use_when: "QoE of bitrate, changes and stalls together is what counts",
    wrong: "on a link whose throughput jumps, one bad forecast keeps it low for `window` segments",
    deviations: &[
        "sizes are rate times length, as the MPD does not tell them",
        "the lowest level until something was measured; the time of startup is not planned",
        "B_max is the player's buffer goal",
        "the weight of a stall is the ladder's highest rate (the paper's balanced 3000 kbit/s for \
         a ladder that ends there)",
    ],
    params: &[
        Param::whole(
            "horizon",
            [1.0, 5.0, 8.0],
            "segments that are planned; the paper's 5",
        ),
        Param::whole(
            "window",
            [1.0, 5.0, 50.0],
            "segments whose throughputs and errors count; the paper's 5",
        ),
        Param::number(
            "change",
            [0.0, 1.0, 100.0],
            "lambda: what a change by 1 Mbit/s costs, in segments at 1 Mbit/s",
        ),
        Param::number(
            "stall",
            [0.0, 1.0, 1000.0],
            "mu: what a stalled second costs, in segments at the highest rate",
        ),
        Param::choice(
            "robust",
            &["on", "off"],
            "off: C_low = C_hat, the paper's plain MPC",
        ),
        ABANDON,
    ],
    new: |settings| Box::new(Mpc::new(settings)),
};

/// The rule.
#[derive(Debug)]
struct Mpc {
    horizon: usize,
    window: usize,
    change: f64,
    stall: f64,
    is_robust: bool,
    /// Throughput of each of the last segments, bit/s.
    measured_bps: VecDeque<f64>,
    /// How wrong the forecast of each of them was, relative to what was measured.
    errors: VecDeque<f64>,
}

impl Mpc {
    fn new(settings: &Settings) -> Self {
        Self {
            horizon: settings.get("horizon") as usize,
            window: settings.get("window") as usize,
            change: settings.get("change"),
            stall: settings.get("stall"),
            is_robust: settings.word("robust") == "on",
            measured_bps: VecDeque::new(),
            errors: VecDeque::new(),
        }
    }

    /// C_hat.
    fn harmonic_mean_bps(&self) -> Option<f64> {
        let inverses: f64 = self.measured_bps.iter().map(|bps| 1.0 / bps).sum();
        (inverses > 0.0).then(|| self.measured_bps.len() as f64 / inverses)
    }

    /// C_low.
    fn foreseen_bps(&self) -> Option<f64> {
        let worst_error = match self.is_robust {
            true => self.errors.iter().copied().fold(0.0, f64::max),
            false => 0.0,
        };
        Some(self.harmonic_mean_bps()? / (1.0 + worst_error))
    }

    fn remember(queue: &mut VecDeque<f64>, value: f64, window: usize) {
        queue.push_back(value);
        if queue.len() > window {
            queue.pop_front();
        }
    }
}

impl Rule for Mpc {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let Some(throughput_bps) = self.foreseen_bps() else {
            return Decision::Level(0);
        };
        let mbps = |bps: &u64| *bps as f64 / 1e6;
        let rates_mbps: Vec<f64> = situation.ladder_bps.iter().map(mbps).collect();
        let segment_s = situation.segment.as_secs_f64();
        let plan = Plan {
            segment_s,
            goal_s: situation.buffer_goal.as_secs_f64(),
            fetch_s: rates_mbps
                .iter()
                .map(|rate| rate * 1e6 * segment_s / throughput_bps)
                .collect(),
            change: self.change,
            stall_mbps: self.stall * rates_mbps[situation.top()],
            rates_mbps,
        };
        let buffer_s = situation.buffer.as_secs_f64();
        Decision::Level(plan.first(buffer_s, situation.last_level, self.horizon))
    }

    fn on_segment(&mut self, arrival: &Arrival) {
        if !(arrival.throughput_bps.is_finite() && arrival.throughput_bps > 0.0) {
            return;
        }
        if let Some(foreseen_bps) = self.harmonic_mean_bps() {
            let error = (foreseen_bps - arrival.throughput_bps).abs() / arrival.throughput_bps;
            Self::remember(&mut self.errors, error, self.window);
        }
        Self::remember(&mut self.measured_bps, arrival.throughput_bps, self.window);
    }
}

/// What is the same for all segments of a plan.
#[derive(Debug)]
struct Plan {
    rates_mbps: Vec<f64>,
    /// Time to fetch a segment of each level.
    fetch_s: Vec<f64>,
    segment_s: f64,
    goal_s: f64,
    change: f64,
    /// What a stalled second costs.
    stall_mbps: f64,
}

/// The beginning of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reached {
    qoe: f64,
    buffer_s: f64,
    /// Level of its first segment.
    first: usize,
}

impl Plan {
    /// What becomes of a beginning with one more segment.
    fn step(&self, from: Reached, last: Option<usize>, level: usize) -> Reached {
        let rate = self.rates_mbps[level];
        let change = last.map_or(0.0, |last| (rate - self.rates_mbps[last]).abs());
        let stalled_s = (self.fetch_s[level] - from.buffer_s).max(0.0);
        let left_s = (from.buffer_s - self.fetch_s[level]).max(0.0);
        Reached {
            qoe: from.qoe + rate - self.change * change - self.stall_mbps * stalled_s,
            buffer_s: (left_s + self.segment_s).min(self.goal_s.max(self.segment_s)),
            first: from.first,
        }
    }

    /// The first level of the best plan; the lowest of equals.
    fn first(&self, buffer_s: f64, last: Option<usize>, horizon: usize) -> usize {
        let levels = self.rates_mbps.len();
        let last = last.map(|last| last.min(levels - 1));
        let start = |first| Reached {
            qoe: 0.0,
            buffer_s,
            first,
        };
        // By the level of the last segment so far.
        let mut reached: Vec<Vec<Reached>> = (0..levels)
            .map(|level| vec![self.step(start(level), last, level)])
            .collect();
        for _ in 1..horizon {
            reached = (0..levels)
                .map(|level| {
                    let from = reached.iter().enumerate();
                    let all = from.flat_map(|(last, beginnings)| {
                        let steps = beginnings.iter();
                        steps.map(move |&from| self.step(from, Some(last), level))
                    });
                    undominated(all.collect())
                })
                .collect();
        }
        let best = |best: Reached, it: Reached| match it.qoe.total_cmp(&best.qoe) {
            std::cmp::Ordering::Greater => it,
            std::cmp::Ordering::Equal if it.first < best.first => it,
            _ => best,
        };
        let all = reached.into_iter().flatten();
        all.reduce(best).map_or(0, |best| best.first)
    }
}

/// Those that no other one has both more QoE and more buffer than; of equals that which begins lowest.
fn undominated(mut all: Vec<Reached>) -> Vec<Reached> {
    let order = |a: &Reached, b: &Reached| {
        let by_buffer = b.buffer_s.total_cmp(&a.buffer_s);
        by_buffer
            .then(b.qoe.total_cmp(&a.qoe))
            .then(a.first.cmp(&b.first))
    };
    all.sort_unstable_by(order);
    let mut best_qoe = f64::NEG_INFINITY;
    all.retain(|it| {
        let is_better = it.qoe > best_qoe;
        best_qoe = best_qoe.max(it.qoe);
        is_better
    });
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::choose;
    use super::super::tests::{arrival, situation};
    use super::*;

    fn mpc(text: &str) -> Mpc {
        Mpc::new(choose(text).unwrap().settings())
    }

    fn after(text: &str, throughputs_mbps: &[f64]) -> Mpc {
        let mut rule = mpc(text);
        for mbps in throughputs_mbps {
            rule.on_segment(&arrival(0, mbps * 1e6));
        }
        rule
    }

    #[test]
    fn forecast_by_hand() {
        assert_eq!(mpc("mpc").foreseen_bps(), None);
        // One segment: no forecast was there that could have been wrong.
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b, "{a} is not {b}");
        close(after("mpc", &[4.0]).foreseen_bps().unwrap(), 4e6);
        // 4, 2: foreseen 4 for 2, an error of 1. C_hat = 2/(1/4 + 1/2) = 8/3; C_low = 4/3.
        close(after("mpc", &[4.0, 2.0]).foreseen_bps().unwrap(), 4e6 / 3.0);
        // Then 8: foreseen 8/3, an error of 2/3, less than 1. C_hat = 3/(1/4 + 1/2 + 1/8) = 24/7.
        let rule = after("mpc", &[4.0, 2.0, 8.0]);
        close(rule.foreseen_bps().unwrap(), 12e6 / 7.0);
        let plain = after("mpc:robust=off", &[4.0, 2.0, 8.0]);
        close(plain.foreseen_bps().unwrap(), 24e6 / 7.0);
        // Five right ones later the errors are forgotten: the sixth of 8 Mbit/s is the fifth error.
        let rule = after(
            "mpc",
            &[4.0, 2.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0],
        );
        close(rule.foreseen_bps().unwrap(), 8e6);
    }

    #[test]
    fn one_segment_by_hand() {
        // Horizon 1 at 4 Mbit/s, 2 s segments: fetching takes 0.5, 1, 2, 4 s. From level 1 with 1 s
        // of buffer, q - |change| - 8 * stall: 1 - 1 = 0; 2; 4 - 2 - 8 = -6; 8 - 6 - 24 = -22.
        let level = |text: &str, buffer_s, last| {
            after(text, &[4.0]).decide(&situation(buffer_s, 0.0, last))
        };
        assert_eq!(level("mpc:horizon=1", 1.0, 1), Decision::Level(1));
        // With 4 s: 0; 2; 4 - 2 = 2; 8 - 6 = 2. All equal but the lowest: the lower one.
        assert_eq!(level("mpc:horizon=1", 4.0, 1), Decision::Level(1));
        // A change costs half: 0.5; 2; 3; 5.
        assert_eq!(
            level("mpc:horizon=1,change=0.5", 4.0, 1),
            Decision::Level(3)
        );
        // With 3.9 s the top stalls for 0.1 s: 5 - 0.8 = 4.2; for 2.1 s less than 3.
        assert_eq!(
            level("mpc:horizon=1,change=0.5", 3.9, 1),
            Decision::Level(3)
        );
        assert_eq!(
            level("mpc:horizon=1,change=0.5", 3.7, 1),
            Decision::Level(2)
        );
        assert_eq!(
            level("mpc:horizon=1,change=0.5,stall=0", 0.0, 1),
            Decision::Level(3)
        );
    }

    #[test]
    fn two_segments_by_hand() {
        // As above with 4 s of buffer at change=0.5 and N = 2. Level 3 leaves 0 + 2 s; then 3 again
        // stalls 2 s: 5 + 8 - 16 < 0; 2: 5 + 4 - 2 = 7. Level 2 leaves 2 + 2 s, then 3: 3 + 8 - 2 = 9;
        // 2: 3 + 4 = 7. So the first is 2, where one segment alone would say 3.
        let decide = |text| after(text, &[4.0]).decide(&situation(4.0, 0.0, 1));
        assert_eq!(decide("mpc:horizon=1,change=0.5"), Decision::Level(3));
        assert_eq!(decide("mpc:horizon=2,change=0.5"), Decision::Level(2));
    }

    #[test]
    fn ten_levels_and_eight_segments_cost_little() {
        let ladder: Vec<u64> = (0..10).map(|i| 300_000 << i).collect();
        let mut most = 0;
        for tenth in 1..100 {
            let mbps: Vec<f64> = ladder.iter().map(|bps| *bps as f64 / 1e6).collect();
            let plan = Plan {
                fetch_s: mbps.iter().map(|rate| rate / f64::from(tenth)).collect(),
                segment_s: 2.0,
                goal_s: 18.0,
                change: 1.0,
                stall_mbps: mbps[9],
                rates_mbps: mbps,
            };
            let mut reached = vec![
                vec![Reached {
                    qoe: 0.0,
                    buffer_s: 9.0,
                    first: 0
                }];
                10
            ];
            for _ in 0..8 {
                reached = (0..10)
                    .map(|level| {
                        let all = reached.iter().enumerate().flat_map(|(last, from)| {
                            from.iter()
                                .map(|&it| plan.step(it, Some(last), level))
                                .collect::<Vec<_>>()
                        });
                        undominated(all.collect())
                    })
                    .collect();
                most = most.max(reached.iter().map(Vec::len).sum());
            }
        }
        // Of 10^8 plans.
        assert!(most < 3_000, "{most} beginnings");
    }

    /// The best QoE of all plans that begin with `level`.
    fn exhaustive(plan: &Plan, from: Reached, last: Option<usize>, left: usize) -> f64 {
        if left == 0 {
            return from.qoe;
        }
        let levels = 0..plan.rates_mbps.len();
        levels
            .map(|level| exhaustive(plan, plan.step(from, last, level), Some(level), left - 1))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_first_level_is_that_of_the_best_plan(
            steps in prop::collection::vec(0.1f64..4.0, 1..5),
            buffer_s in 0.0f64..20.0,
            mbps in 0.1f64..20.0,
            (change, stall) in (0.0f64..3.0, 0.0f64..10.0),
            last in prop::option::of(0usize..5),
            horizon in 1usize..5,
        ) {
            let rates_mbps: Vec<f64> = steps.iter().scan(0.0, |sum, step| {
                *sum += step;
                Some(*sum)
            }).collect();
            let plan = Plan {
                fetch_s: rates_mbps.iter().map(|rate| 2.0 * rate / mbps).collect(),
                segment_s: 2.0,
                goal_s: 18.0,
                change,
                stall_mbps: stall,
                rates_mbps,
            };
            let first = plan.first(buffer_s, last, horizon);
            let last = last.map(|last| last.min(plan.rates_mbps.len() - 1));
            let qoe = |level| {
                let start = Reached { qoe: 0.0, buffer_s, first: level };
                exhaustive(&plan, plan.step(start, last, level), Some(level), horizon - 1)
            };
            let best = (0..plan.rates_mbps.len()).map(qoe).fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(qoe(first) >= best - 1e-9, "{} of {best}", qoe(first));
        }

        #[test]
        fn more_of_everything_never_lowers_a_single_choice(
            mbps in 0.1f64..20.0,
            more in 1.0f64..4.0,
            buffer_s in 0.0f64..18.0,
            last in 0usize..4,
        ) {
            // With one segment to plan, more throughput lowers no level.
            let decide = |mbps: f64| {
                let mut rule = after("mpc:horizon=1", &[mbps]);
                rule.decide(&situation(buffer_s, 0.0, last))
            };
            let (Decision::Level(less), Decision::Level(more)) = (decide(mbps), decide(more * mbps))
            else { panic!("it never waits") };
            prop_assert!(more >= less);
        }
    }

    #[test]
    fn hostile_measurements_change_nothing() {
        let mut rule = mpc("mpc");
        for throughput_bps in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            rule.on_segment(&Arrival {
                level: 0,
                duration: Duration::from_secs(2),
                took: Duration::ZERO,
                buffer: Duration::ZERO,
                throughput_bps,
            });
        }
        assert_eq!(rule.foreseen_bps(), None);
    }
}
