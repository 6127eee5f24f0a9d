//! The delay line: constant delay, jitter and reordering.

use std::str::FromStr;
use std::time::Duration;

use super::seed::Generator;
use super::Nanos;
use super::Purpose;
use super::Seeds;
use crate::units::parse_duration;
use crate::units::parse_probability;

/// Packets that are held back, so that later ones overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// How many of them.
    pub probability: f64,
    /// By how much.
    pub by: Duration,
}

impl FromStr for Reordering {
    type Err = String;

    /// `1% by 5ms`.
    fn from_str(text: &str) -> Result<Reordering, String> {
        let (probability, by) = text
            .split_once("by")
            .ok_or_else(|| format!("\"{text}\": write how many and how long, as in 1% by 5ms"))?;
        Ok(Reordering {
            probability: parse_probability(probability)?,
            by: parse_duration(by)?,
        })
    }
}

/// What a frame's delay is: drawn when it arrives, used when it leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    /// With jitter.
    delay: Nanos,
    /// By what it is held back on top.
    held: Option<Nanos>,
}

#[derive(Clone, Debug)]
pub(super) struct DelayLine {
    delay: Nanos,
    jitter: Nanos,
    reordering: Option<Reordering>,
    jitter_draws: Generator,
    reorder_draws: Generator,
    last_due: Nanos,
}

impl DelayLine {
    pub(super) fn new(
        delay: Duration,
        jitter: Duration,
        reordering: Option<Reordering>,
        seeds: &Seeds,
    ) -> DelayLine {
        DelayLine {
            delay: delay.as_nanos() as Nanos,
            jitter: jitter.as_nanos() as Nanos,
            reordering,
            jitter_draws: seeds.generator(Purpose::Jitter),
            reorder_draws: seeds.generator(Purpose::Reorder),
            last_due: 0,
        }
    }

    pub(super) fn set_delay(&mut self, delay: Nanos) {
        self.delay = delay;
    }

    /// Draws for the next frame, which arrives now.
    pub(super) fn draw(&mut self) -> Drawn {
        let jitter = (self.jitter_draws.unit() * self.jitter as f64) as Nanos;
        let draw = self.reorder_draws.unit();
        let held = self
            .reordering
            .filter(|reordering| draw < reordering.probability)
            .map(|reordering| reordering.by.as_nanos() as Nanos);
        Drawn {
            delay: self.delay + jitter,
            held,
        }
    }

    /// When the frame that left at `departure` arrives. Only a held one is overtaken.
    pub(super) fn due(&mut self, departure: Nanos, drawn: Drawn) -> Nanos {
        let due = departure.saturating_add(drawn.delay).max(self.last_due);
        match drawn.held {
            Some(held) => due.saturating_add(held),
            None => {
                self.last_due = due;
                due
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Way;
    use super::*;

    const MS: Nanos = 1_000_000;

    fn line(jitter_ms: u64, reordering: Option<&str>) -> DelayLine {
        let seeds = Seeds {
            master: 4,
            run: 0,
            link: "l".into(),
            way: Way::AToB,
        };
        DelayLine::new(
            Duration::from_millis(10),
            Duration::from_millis(jitter_ms),
            reordering.map(|text| text.parse().unwrap()),
            &seeds,
        )
    }

    #[test]
    fn jitter_is_uniform_where_frames_are_far_apart() {
        let mut line = line(8, None);
        let n = 10_000;
        let mut delays: Vec<f64> = (0..n)
            .map(|i| {
                let departure = i * 100 * MS;
                let drawn = line.draw();
                (line.due(departure, drawn) - departure) as f64 / MS as f64
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        // Kolmogorov-Smirnov against the uniform law on 10 to 18 ms; 1 % point: 1.63 / sqrt(n).
        let distance = delays
            .iter()
            .enumerate()
            .map(|(i, delay)| ((delay - 10.0) / 8.0 - i as f64 / n as f64).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.63 / (n as f64).sqrt(), "{distance}");
    }

    #[test]
    fn jitter_keeps_the_order() {
        let mut line = line(8, None);
        let mut last = 0;
        for i in 0..10_000 {
            let drawn = line.draw();
            let due = line.due(i * MS, drawn);
            assert!(due >= last);
            last = due;
        }
    }

    #[test]
    fn a_held_frame_is_overtaken_and_overtakes_none() {
        let mut line = line(0, Some("10% by 5ms"));
        let mut held = 0;
        for i in 0..10_000 {
            let drawn = line.draw();
            let due = line.due(i * MS, drawn);
            let late = due - i * MS - 10 * MS;
            assert!(late == 0 || late == 5 * MS);
            held += u32::from(late > 0);
        }
        // 1000 expected; 99 % interval 2.576 * sqrt(n p (1 - p)) = 77.
        assert!((923..=1077).contains(&held), "{held}");
    }

    #[test]
    fn reordering_as_text() {
        let reordering: Reordering = "1 % by 5 ms".parse().unwrap();
        assert_eq!(
            (reordering.probability, reordering.by),
            (0.01, Duration::from_millis(5))
        );
        assert!("1%".parse::<Reordering>().unwrap_err().contains("by 5ms"));
        assert!("1 by 5ms"
            .parse::<Reordering>()
            .unwrap_err()
            .contains("unit"));
    }
}
