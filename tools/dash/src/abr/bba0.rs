//! BBA-0: the buffer alone decides (Huang et al., SIGCOMM 2014, section 4).
//!
//! `f(B)` is the lowest rate up to a reservoir, the highest beyond reservoir + cushion, and linear
//! between. The level moves only when `f(B)` reaches the next rate up or down.

use super::{Decision, Rule, Situation};

/// Reservoir, as a share of the buffer: 90 s of 240 s.
const RESERVOIR: f64 = 0.375;
/// Cushion, as a share of the buffer: 126 s of 240 s.
const CUSHION: f64 = 0.525;

/// The buffer's size is taken to be the player's buffer goal.
#[derive(Debug, Clone, Copy)]
pub struct Bba0;

impl Rule for Bba0 {
    fn name(&self) -> String {
        "bba0".into()
    }

    fn decide(&mut self, situation: &Situation<'_>) -> Decision {
        let ladder = situation.ladder_bps;
        let top = situation.top();
        let goal_s = situation.buffer_goal.as_secs_f64();
        let (reservoir_s, cushion_s) = (RESERVOIR * goal_s, CUSHION * goal_s);
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
    use super::super::tests::situation;
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
            let decision = Bba0.decide(&situation(buffer_s, 0.0, last));
            assert_eq!(decision, Decision::Level(level), "{buffer_s} s from {last}");
        }
    }
}
