//! BOLA: Lyapunov optimisation of utility against buffer (Spiteri, Urgaonkar, Sitaraman, INFOCOM
//! 2016), in the form of dash.js: buffer in seconds, BOLA-O against oscillation, and a placeholder
//! buffer that bridges the start.
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | u_m | `utility` | ln(R_m / R_1) + 1 |
//! | gp | `gp` | (u_M - 1) / (Bt / 10 - 1) |
//! | Vp | `vp` | 10 / gp, seconds |
//! | Bt | `target_s` | max(18, 10 + 2 M), seconds |
//!
//! The level is argmax (Vp (u_m - 1 + gp) - B) / R_m, with the placeholder in B. Above Vp (u_m + gp)
//! the buffer is full enough for a level, and the rule waits; at the top level the buffer goal
//! decides instead. The placeholder grows by time that no download took, decays with each segment,
//! is never so large that the last segment's level would have waited, and is lost in a stall.

use std::time::Duration;

use mpq_decision::params::{Param, Settings};

use super::rate::SAFETY;
use super::table::{Entry, ABANDON};
use super::{rate_level, Arrival, Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "bola",
    summary: "the buffer decides, by Lyapunov optimisation of utility",
    idea:
        "Each level has a utility, and the buffer a price; the level is the one that yields most \
           for each bit. Throughput counts only at the start and against steps up that it could \
           not sustain (BOLA-O).",
    source: "Spiteri, Urgaonkar and Sitaraman, BOLA, INFOCOM 2016; dash.js 5, BolaRule",
    rule:
        "u_m = ln(R_m/R_1) + 1, Bt = max(target, min + 2 s M); gp = (u_M - 1) / (Bt/min - 1), Vp \
           = min/gp; m = argmax (Vp (u_m - 1 + gp) - B) / R_m; while B > Vp (u_m + gp), wait",
    use_when: "the buffer may grow to 20 s and more, and the throughput is hard to foresee",
    wrong: "with a buffer of a few seconds, as live playback has, it stays at the lowest levels",
    deviations: &["the placeholder buffer does not grow by delays that the player did not cause"],
    params: &[MIN, TARGET, SAFETY, ABANDON],
    new: |settings| Box::new(Bola::new(settings)),
};

/// Buffer at which the lowest level stops being the best.
pub(super) const MIN: Param = Param::time(
    "min",
    [1.0, 10.0, 60.0],
    "buffer below which BOLA fetches without a pause and the lowest level may be best; dash.js has 10 s",
);

/// Smallest buffer target.
pub(super) const TARGET: Param = Param::time(
    "target",
    [2.0, 18.0, 300.0],
    "buffer at which the top level is best, if that is more than min and 2 s for each level",
);

/// Buffer target per level of the ladder, seconds.
const BUFFER_PER_LEVEL_S: f64 = 2.0;
/// What is left of the placeholder after each segment.
const PLACEHOLDER_DECAY: f64 = 0.99;
/// Puts the placeholder past the tie between two levels, seconds.
const TIE_MARGIN_S: f64 = 1e-6;
/// Waits below this are rounding.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Buffer-based, with throughput only at the start and against steps up that it could not sustain.
#[derive(Debug, Clone)]
pub(super) struct Bola {
    minimum_s: f64,
    least_target_s: f64,
    safety: f64,
    /// Past the start, where throughput decides.
    is_steady: bool,
    /// Buffer that is not there but would be, had the start been at this level; seconds.
    placeholder_s: f64,
    /// Whether a segment came since the first decision.
    has_segment: bool,
    /// Decided on before a wait.
    held: Option<usize>,
    /// Of the last decision, or of the segment that came since.
    level: usize,
    /// Ladder of the last decision, bit/s.
    ladder_bps: Vec<u64>,
}

impl Bola {
    /// With `min`, `target` and `safety` of these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            minimum_s: settings.get(MIN.name),
            least_target_s: settings.get(TARGET.name),
            safety: settings.get(SAFETY.name),
            is_steady: false,
            placeholder_s: 0.0,
            has_segment: false,
            held: None,
            level: 0,
            ladder_bps: Vec::new(),
        }
    }

    /// `None` when all levels have one rate, so that there is nothing to choose.
    fn curve<'a>(&self, ladder_bps: &'a [u64]) -> Option<Curve<'a>> {
        if ladder_bps.is_empty() {
            return None;
        }
        let per_level_s = BUFFER_PER_LEVEL_S * ladder_bps.len() as f64;
        let target_s = self.least_target_s.max(self.minimum_s + per_level_s);
        let mut curve = Curve {
            ladder_bps,
            gp: 0.0,
            vp: 0.0,
        };
        let range = curve.utility(ladder_bps.len() - 1) - 1.0;
        curve.gp = range / (target_s / self.minimum_s - 1.0);
        curve.vp = self.minimum_s / curve.gp;
        (range > 0.0).then_some(curve)
    }
}

impl Rule for Bola {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        if self.ladder_bps != situation.ladder_bps {
            self.ladder_bps = situation.ladder_bps.to_vec();
            self.held = None;
        }
        let Some(curve) = self.curve(situation.ladder_bps) else {
            return Decision::Level(0);
        };
        if let Some(level) = self.held.take() {
            return Decision::Level(level);
        }
        let buffer_s = situation.buffer.as_secs_f64();
        let top = situation.top();
        let last = situation.last_level.unwrap_or(0).min(top);
        let Some(throughput_bps) = situation.throughput_bps else {
            return Decision::Level(last);
        };
        let sustainable = rate_level(situation.ladder_bps, self.safety * throughput_bps);
        if !self.is_steady {
            self.placeholder_s =
                (curve.least_buffer_s(sustainable) + TIE_MARGIN_S - buffer_s).max(0.0);
            self.is_steady = self.has_segment && situation.buffer >= situation.segment;
            self.level = sustainable;
            return Decision::Level(sustainable);
        }

        self.placeholder_s += situation.idle.as_secs_f64();
        let effective_s = buffer_s + self.placeholder_s;
        let mut level = curve.best_level(effective_s);
        let before = self.level.min(top);
        if level > before && level > sustainable {
            level = sustainable.max(before);
        }
        self.level = level;
        let excess_s = (effective_s - curve.most_buffer_s(level)).max(0.0);
        let from_placeholder_s = excess_s.min(self.placeholder_s);
        self.placeholder_s -= from_placeholder_s;
        let wait = Duration::from_secs_f64(excess_s - from_placeholder_s);
        if level < top && wait >= LEAST_WAIT {
            self.held = Some(level);
            return Decision::Wait(wait);
        }
        Decision::Level(level)
    }

    fn on_segment(&mut self, arrival: &Arrival) {
        self.level = arrival.level;
        self.has_segment = true;
        // A player that does not play cannot wait, and has fetched another.
        self.held = None;
        let most_s = self.curve(&self.ladder_bps).and_then(|curve| {
            let is_known = arrival.level < self.ladder_bps.len();
            is_known.then(|| curve.most_buffer_s(arrival.level))
        });
        if let Some(most_s) = most_s {
            let asked_s = (arrival.buffer + arrival.took).as_secs_f64();
            self.placeholder_s *= PLACEHOLDER_DECAY;
            self.placeholder_s = self.placeholder_s.min((most_s - asked_s).max(0.0));
        }
    }

    fn on_stall(&mut self) {
        // What is not there did not help.
        if self.is_steady {
            self.placeholder_s = 0.0;
        }
    }
}

/// Utilities and control parameters of a ladder.
struct Curve<'a> {
    ladder_bps: &'a [u64],
    gp: f64,
    vp: f64,
}

impl Curve<'_> {
    fn utility(&self, level: usize) -> f64 {
        (self.ladder_bps[level] as f64 / self.ladder_bps[0] as f64).ln() + 1.0
    }

    fn best_level(&self, buffer_s: f64) -> usize {
        let score = |level: usize| {
            let worth_s = self.vp * (self.utility(level) - 1.0 + self.gp);
            (worth_s - buffer_s) / self.ladder_bps[level] as f64
        };
        // The higher of equals, as dash.js has it.
        (1..self.ladder_bps.len()).fold(0, |best, level| {
            if score(level) >= score(best) {
                level
            } else {
                best
            }
        })
    }

    /// Buffer above which a level is waited with, seconds.
    fn most_buffer_s(&self, level: usize) -> f64 {
        self.vp * (self.utility(level) + self.gp)
    }

    /// Buffer that the start makes up for a level: Vp more than where it begins to beat all lower
    /// ones, seconds.
    fn least_buffer_s(&self, level: usize) -> f64 {
        let rate = self.ladder_bps[level] as f64;
        let utility = self.utility(level);
        (0..level)
            .filter(|&lower| self.ladder_bps[lower] < self.ladder_bps[level])
            .map(|lower| {
                let lower_rate = self.ladder_bps[lower] as f64;
                let lower_utility = self.utility(lower);
                let step = (rate * lower_utility - lower_rate * utility) / (rate - lower_rate);
                self.vp * (self.gp + step)
            })
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::super::tests::{arrival, situation, LADDER};
    use super::*;

    /// Ladder 1, 2, 4, 8: u = 1, 1.6931, 2.3863, 3.0794. Bt = max(18, 18) = 18, gp = 2.0794 / 0.8
    /// = 2.5993, Vp = 3.8472 s. Scores are zero at b = Vp (u - 1 + gp) = 10, 12.667, 15.333, 18 s, and
    /// level m beats m - 1 from 2 b_(m-1) - b_m = 7.333, 10, 12.667 s. Waits begin at b + Vp.
    fn steady(level: usize) -> Bola {
        Bola {
            is_steady: true,
            level,
            ..bola("bola")
        }
    }

    fn bola(text: &str) -> Bola {
        Bola::new(choose(text).unwrap().settings())
    }

    #[test]
    fn parameters_by_hand() {
        let rule = bola("bola");
        let curve = rule.curve(&LADDER).unwrap();
        assert!((curve.gp - 2.5993).abs() < 1e-4);
        assert!((curve.vp - 3.8472).abs() < 1e-4);
        for (level, most, least) in [
            (0, 13.8472, 0.0),
            (1, 16.5138, 11.1805),
            (2, 19.1805, 13.8472),
            (3, 21.8472, 16.5138),
        ] {
            assert!(
                (curve.most_buffer_s(level) - most).abs() < 1e-3,
                "most of {level}"
            );
            assert!(
                (curve.least_buffer_s(level) - least).abs() < 1e-3,
                "least of {level}"
            );
        }
    }

    #[test]
    fn steady_decisions_by_hand() {
        let cases = [
            (5.0, 9e6, 0, Decision::Level(0)),
            (7.4, 9e6, 0, Decision::Level(1)),
            (10.1, 9e6, 1, Decision::Level(2)),
            (12.7, 9e6, 2, Decision::Level(3)),
            // 0.9 * 3 Mbit/s sustains 2: no step above level 1 ...
            (12.0, 3e6, 1, Decision::Level(1)),
            // ... but a level already reached is kept.
            (12.0, 3e6, 2, Decision::Level(2)),
            // At the top the buffer goal decides.
            (25.0, 9e6, 3, Decision::Level(3)),
        ];
        for (buffer_s, throughput_bps, last, decision) in cases {
            let given = steady(last).decide(&situation(buffer_s, throughput_bps, last));
            assert_eq!(
                given, decision,
                "{buffer_s} s, {throughput_bps}, from {last}"
            );
        }
    }

    #[test]
    fn waits_when_the_level_has_buffer_enough() {
        // Held at level 1, which is waited with above 16.5138 s: 18 s means 1.4862 s.
        let mut rule = steady(1);
        let Decision::Wait(wait) = rule.decide(&situation(18.0, 3e6, 1)) else {
            panic!("no wait");
        };
        assert!((wait.as_secs_f64() - 1.4862).abs() < 1e-3, "{wait:?}");
        // After that it is fetched, whatever else there is.
        assert_eq!(rule.decide(&situation(5.0, 9e6, 1)), Decision::Level(1));
    }

    #[test]
    fn the_start_goes_by_throughput_and_leaves_a_placeholder() {
        let mut bola = bola("bola");
        let mut at = situation(0.0, 5e6, 0);
        at.last_level = None;
        // 0.9 * 5 Mbit/s sustains 4, which wins from 10 s on; Vp more is made up.
        assert_eq!(bola.decide(&at), Decision::Level(2));
        assert!((bola.placeholder_s - 13.8472).abs() < 1e-3);
        bola.on_segment(&Arrival {
            buffer: Duration::ZERO,
            took: Duration::from_millis(1_600),
            ..arrival(2, 5e6)
        });
        assert!((bola.placeholder_s - 0.99 * 13.8472).abs() < 1e-3);
        // With 4 s buffered the placeholder is 9.8472 s, and BOLA stays where throughput put it.
        assert_eq!(bola.decide(&situation(4.0, 5e6, 2)), Decision::Level(2));
        assert!((bola.placeholder_s - 9.8472).abs() < 1e-3);
        assert!(bola.is_steady);
        // A pause that no download took does not count as drained buffer.
        bola.on_segment(&arrival(2, 5e6));
        let paused = Situation {
            idle: Duration::from_secs(2),
            ..situation(2.0, 9e6, 2)
        };
        // 2 + 0.99 * 9.8472 + 2 s are above 12.667 s, and would not be without the pause.
        assert_eq!(bola.decide(&paused), Decision::Level(3));
        assert!((bola.placeholder_s - 11.7487).abs() < 1e-3);
        // 0.99 of that, less what would have let level 3 wait: 21.8472 - 20 - 1 s.
        bola.on_segment(&Arrival {
            buffer: Duration::from_secs(20),
            took: Duration::from_secs(1),
            ..arrival(3, 9e6)
        });
        assert!((bola.placeholder_s - 0.8472).abs() < 1e-3);
        bola.on_stall();
        assert_eq!(bola.placeholder_s, 0.0);
    }
}
