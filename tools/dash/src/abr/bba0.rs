//! BBA-0: the buffer alone decides (Huang et al., SIGCOMM 2014, section 4).
//!
//! `f(B)` is the lowest rate up to a reservoir, the highest beyond reservoir + cushion, and linear
//! between. The level moves only when `f(B)` reaches the next rate up or down.

use mpq_decision::params::Param;

use super::table::{Entry, ABANDON};
use super::{Decision, Rule, Situation};

/// The entry in [`RULES`](super::RULES).
pub const ENTRY: Entry = Entry {
    name: "bba0",
    summary: "the buffer alone decides, along a straight line",
    idea: "A buffer that grows says that the network carries more than the level, so no estimate of \
           the throughput is needed.",
    source: "Huang et al., A Buffer-Based Approach to Rate Adaptation, SIGCOMM 2014, section 4",
    rule: "f(B) = R_min up to the reservoir, R_max beyond reservoir + cushion, linear between; up \
           when f(B) >= the next rate: the highest rate below f(B); down when f(B) <= the rate \
           below: the lowest rate above f(B)",
    use_when: "throughput varies too much to be estimated, and the buffer is long",
    wrong: "it begins at the lowest level and climbs only as the buffer fills",
    deviations: &["the buffer's size is the player's buffer goal, not 240 s"],
    params: &[
        Param::number(
            "reservoir",
            [0.05, 0.375, 0.8],
            "share of the buffer goal below which the lowest level is fetched; the paper's 90 of 240 s",
        ),
        Param::number(
            "cushion",
            [0.05, 0.525, 0.95],
            "share of the buffer goal over which the rate rises; the paper's 126 of 240 s",
        ),
        ABANDON,
    ],
    new: |settings| {
        Box::new(Bba0 {
            reservoir: settings.get("reservoir"),
            cushion: settings.get("cushion"),
        })
    },
};

/// The buffer's size is taken to be the player's buffer goal.
#[derive(Debug, Clone, Copy)]
struct Bba0 {
    reservoir: f64,
    cushion: f64,
}

impl Rule for Bba0 {
    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let ladder = situation.ladder_bps;
        let top = situation.top();
        let goal_s = situation.buffer_goal.as_secs_f64();
        let (reservoir_s, cushion_s) = (self.reservoir * goal_s, self.cushion * goal_s);
        let buffer_s = situation.buffer.as_secs_f64();
        if buffer_s <= reservoir_s {
            return Decision::Level(0);
        }
        if buffer_s >= reservoir_s + cushion_s {
            return Decision::Level(top);
        }
        let (lowest, highest) = (ladder[0] as f64, ladder[top] as f64);
        let f = lowest + (highest - lowest) * (buffer_s - reservoir_s) / cushion_s;

        let last = situation.last_level.unwrap_or(0).min(top);
        let up = (last + 1).min(top);
        let down = last.saturating_sub(1);
        let level = if last < top && f >= ladder[up] as f64 {
            // The highest rate below f.
            ladder.partition_point(|&bps| (bps as f64) < f) - 1
        } else if last > 0 && f <= ladder[down] as f64 {
            // The lowest rate above f.
            ladder.partition_point(|&bps| bps as f64 <= f)
        } else {
            last
        };
        Decision::Level(level)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{rule, situation};
    use super::*;

    /// Goal 18 s: reservoir 6.75 s, cushion 9.45 s, so f(B) = 1 + 7 (B - 6.75) / 9.45 Mbit/s.
    #[test]
    fn map_and_hysteresis() {
        let cases = [
            (6.75, 3, 0),  // reservoir: lowest, whatever was
            (16.21, 0, 3), // beyond the cushion: highest
            (10.0, 0, 1),  // f = 3.407: at or above 2, highest rate below f is 2
            (10.9, 0, 2),  // f = 4.074: highest rate below f is 4
            (10.0, 1, 1),  // f = 3.407 is between 1 and 4: keep
            (10.0, 2, 2),  // f = 3.407 is above 2: keep 4
            (8.0, 2, 1),   // f = 1.926 is below 2: lowest rate above f is 2
            (10.0, 3, 2),  // f = 3.407 is below 4: lowest rate above f is 4
            (16.1, 3, 3),  // f = 7.926: above 4, keep 8
        ];
        for (buffer_s, last, level) in cases {
            let decision = rule("bba0").decide(&situation(buffer_s, 0.0, last));
            assert_eq!(decision, Decision::Level(level), "{buffer_s} s from {last}");
        }
    }
}
