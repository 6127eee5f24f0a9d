//! DYNAMIC, the default of dash.js 5: throughput while the buffer is short, BOLA once it is long,
//! and two rules that can only lower the level: insufficient buffer and switch history.

use std::collections::VecDeque;

use mpq_decision::params::{Param, Settings};

use super::bola::{Bola, MIN, TARGET};
use super::rate::{Rate, SAFETY};
use super::table::{Entry, ABANDON_ON};
use super::{rate_level, Arrival, Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "dynamic",
    summary: "throughput while the buffer is short, BOLA once it is long",
    idea: "Each of the two is used where it is good, and two more rules can only lower the level: \
           one against a buffer that would run dry, one against levels that were left too often.",
    source: "Spiteri, Sitaraman and Sparacio, From Theory to Practice, MMSys 2018; dash.js 5",
    rule: "BOLA from a buffer of `switch` on, throughput again below half of that; R <= 0.7 C B / \
           segment from the third segment on; not above a level that more than 7.5 % of 8 \
           decisions left downwards",
    use_when: "on-demand video, as in browsers: it is the default of dash.js",
    wrong: "with a buffer goal below `switch` it is the throughput rule alone",
    deviations: &[],
    params: &[
        Param::time(
            "switch",
            [1.0, 12.0, 120.0],
            "buffer from which BOLA decides, down to half of it; hybridSwitchBufferTime of dash.js",
        ),
        Param::number(
            "buffer-safety",
            [0.1, 0.7, 1.0],
            "share of the throughput that may be spent against the buffer at hand",
        ),
        MIN,
        TARGET,
        SAFETY,
        ABANDON_ON,
    ],
    new: |settings| Box::new(Dynamic::new(settings)),
};

/// First segments to which the insufficient-buffer rule does not apply.
const FIRST_SEGMENTS: u64 = 2;
/// Decisions remembered, and needed, to judge a level unstable.
const HISTORY: usize = 8;
/// Drops per decision that was no drop above which a level is unstable.
const UNSTABLE: f64 = 0.075;

/// Switches between throughput and BOLA by buffer level, with hysteresis.
#[derive(Debug, Clone)]
struct Dynamic {
    switch_s: f64,
    buffer_safety: f64,
    rate: Rate,
    bola: Bola,
    uses_bola: bool,
    has_used_bola: bool,
    decided: u64,
    /// The level before and after each of the last decisions.
    history: VecDeque<(usize, usize)>,
}

impl Dynamic {
    fn new(settings: &Settings) -> Self {
        Self {
            switch_s: settings.get("switch"),
            buffer_safety: settings.get("buffer-safety"),
            rate: Rate {
                safety: settings.get(SAFETY.name),
            },
            bola: Bola::new(settings),
            uses_bola: false,
            has_used_bola: false,
            decided: 0,
            history: VecDeque::new(),
        }
    }

    /// Highest level whose segment arrives before 0.7 of the buffer is gone: R <= 0.7 C B / tau, 0.7 being `buffer-safety`.
    fn buffer_limit(&self, situation: &Situation<'_>) -> usize {
        let (Some(throughput_bps), true) =
            (situation.throughput_bps, self.decided >= FIRST_SEGMENTS)
        else {
            return situation.top();
        };
        let segments = situation.buffer.as_secs_f64() / situation.segment.as_secs_f64();
        let budget_bps = self.buffer_safety * throughput_bps * segments;
        rate_level(situation.ladder_bps, budget_bps)
    }

    /// One below the lowest level that too many decisions had to leave downwards.
    fn history_limit(&self, top: usize) -> usize {
        let (mut drops, mut others) = (0u32, 0u32);
        for level in 0..=top {
            let dropped = |&&(from, to): &&(usize, usize)| from == level && to < level;
            let here = self.history.iter().filter(|(from, _)| *from == level);
            let dropped_here = here.clone().filter(dropped).count() as u32;
            drops += dropped_here;
            others += here.count() as u32 - dropped_here;
            let known = (drops + others) as usize >= HISTORY;
            if known && f64::from(drops) > UNSTABLE * f64::from(others) {
                return if dropped_here > 0 {
                    level.saturating_sub(1)
                } else {
                    level
                };
            }
        }
        top
    }
}

impl Rule for Dynamic {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let buffer_s = situation.buffer.as_secs_f64();
        let used_bola = self.uses_bola;
        // Half of it on the way back.
        let factor = if used_bola { 0.5 } else { 1.0 };
        self.uses_bola = buffer_s >= factor * self.switch_s;
        self.has_used_bola |= self.uses_bola;
        let decision = if self.uses_bola {
            self.bola.decide(situation)
        } else {
            self.rate.decide(situation)
        };
        let Decision::Level(wanted) = decision else {
            return decision;
        };
        let level = wanted
            .min(self.buffer_limit(situation))
            .min(self.history_limit(situation.top()));
        // Without an estimate nothing was decided.
        if situation.throughput_bps.is_some() {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            let last = situation.last_level.unwrap_or(0);
            self.history.push_back((last, level));
        }
        self.decided += 1;
        Decision::Level(level)
    }

    fn on_segment(&mut self, arrival: &Arrival) {
        if self.has_used_bola {
            self.bola.on_segment(arrival);
        }
    }

    fn on_stall(&mut self) {
        self.bola.on_stall();
    }
}

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::super::tests::{arrival, situation};
    use super::*;

    fn dynamic() -> Dynamic {
        Dynamic::new(choose("dynamic").unwrap().settings())
    }

    fn level(rule: &mut Dynamic, buffer_s: f64, throughput_bps: f64, last: usize) -> usize {
        match rule.decide(&situation(buffer_s, throughput_bps, last)) {
            Decision::Level(level) => level,
            Decision::Wait(wait) => panic!("waits {wait:?}"),
        }
    }

    #[test]
    fn throughput_below_12_s_bola_down_to_6_s() {
        let mut rule = dynamic();
        // 0.9 * 5 Mbit/s affords 4, though BOLA would say 2 at 9 s.
        assert_eq!(level(&mut rule, 9.0, 5e6, 2), 2);
        assert!(!rule.uses_bola);
        // From 12 s on BOLA decides, at first by throughput; from its second segment on by itself.
        for _ in 0..2 {
            assert_eq!(level(&mut rule, 12.0, 5e6, 2), 2);
            assert!(rule.uses_bola);
            rule.on_segment(&arrival(2, 5e6));
        }
        // At 9 s it still decides, and keeps 4 Mbit/s where throughput would say 2.
        assert_eq!(level(&mut rule, 9.0, 2.3e6, 2), 2);
        // Below 6 s throughput decides again.
        assert_eq!(level(&mut rule, 5.9, 2.3e6, 2), 1);
        assert!(!rule.uses_bola);
    }

    #[test]
    fn a_short_buffer_lowers_the_level() {
        let mut rule = dynamic();
        assert_eq!(level(&mut rule, 2.0, 5e6, 0), 2);
        assert_eq!(level(&mut rule, 2.0, 5e6, 2), 2);
        // From the third on: 0.7 * 5 Mbit/s * 2 s / 2 s = 3.5 Mbit/s.
        assert_eq!(level(&mut rule, 2.0, 5e6, 2), 1);
        // 0.7 * 5 * 0.5 / 2 = 0.875 Mbit/s: the lowest.
        assert_eq!(level(&mut rule, 0.5, 5e6, 2), 0);
    }

    #[test]
    fn a_level_left_too_often_is_avoided() {
        // Eight decisions at level 2, one of them a drop: 1 / 7 > 0.075.
        let mut rule = Dynamic {
            history: VecDeque::from([(2, 2); HISTORY]),
            ..dynamic()
        };
        assert_eq!(rule.history_limit(3), 3);
        rule.history[3] = (2, 1);
        assert_eq!(rule.history_limit(3), 1);
        // Seven are too few to judge.
        rule.history.pop_back();
        assert_eq!(rule.history_limit(3), 3);
    }
}
