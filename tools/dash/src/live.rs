//! Live playback: where the present is, how far behind it playback should be, and how it gets there.
//!
//! | symbol | here | unit | meaning |
//! |---|---|---|---|
//! | l | `latency` | s | present of the media less the playhead |
//! | l* | `target` | s | what it should be |
//! | r | `rate` | 1 | r = 1 - c + 2 c / (1 + exp(-5 (l - l*))), as in dash.js |
//! | c | `rates` | 1 | r_max - 1 while l > l*, else 1 - r_min |
//!
//! Playback is not sped up while less than half of l* is buffered: that would only end in a stall.

use std::time::Duration;

use crate::qoe::{ms, Percentiles};

/// What is this near to the target stays as it is.
const CLOSE_S: f64 = 0.01;

/// Steepness of the curve, 1/s.
const STEEPNESS: f64 = 5.0;

/// Least time between two samples of the latency.
const SAMPLE_SPACING: Duration = Duration::from_millis(100);

/// The present of a live presentation, and a session's distance to it.
#[derive(Debug, Clone)]
pub struct Edge {
    /// Media time at the session's time 0, ns; negative if the media begins later.
    began_ns: i128,
    target: Duration,
    rates: (f64, f64),
    /// Session time and latency.
    samples: Vec<(Duration, Duration)>,
}

/// Latency of a live session while it played or stalled, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Latency {
    /// What it should have been.
    pub target_ms: f64,
    /// Mean over time.
    pub mean_ms: f64,
    /// 95 % of the time it was at most this.
    pub p95_ms: f64,
}

impl Edge {
    /// `wall` is the time of the session's time 0 and `start` that of the media's, both since
    /// 1970-01-01T00:00:00Z; `rates` are the least and the greatest playback rate.
    pub fn new(wall: Duration, start: Duration, target: Duration, rates: (f64, f64)) -> Edge {
        Edge {
            began_ns: wall.as_nanos() as i128 - start.as_nanos() as i128,
            target,
            rates,
            samples: Vec::new(),
        }
    }

    /// The clock was wrong: it was `right` at session time `now`.
    pub fn set_clock(&mut self, now: Duration, right: Duration, start: Duration) {
        let wall_ns = right.as_nanos() as i128 - now.as_nanos() as i128;
        self.began_ns = wall_ns - start.as_nanos() as i128;
    }

    /// How far behind the present playback should be.
    pub fn target(&self) -> Duration {
        self.target
    }

    /// The media time that is made at session time `now`; 0 before the media begins.
    pub fn media(&self, now: Duration) -> Duration {
        let ns = self.began_ns + now.as_nanos() as i128;
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }

    /// The session time at which the present is at this media time; 0 if that was before.
    pub fn time_of(&self, media: Duration) -> Duration {
        Duration::from_nanos(u64::try_from(self.time_of_ns(media).max(0)).unwrap_or(u64::MAX))
    }

    /// The same in nanoseconds, negative if it was before.
    pub fn time_of_ns(&self, media: Duration) -> i128 {
        media.as_nanos() as i128 - self.began_ns
    }

    /// The media time that should be on screen at session time `now`.
    pub fn wanted(&self, now: Duration) -> Duration {
        self.media(now).saturating_sub(self.target)
    }

    /// How far `playhead` is behind.
    pub fn latency(&self, now: Duration, playhead: Duration) -> Duration {
        self.media(now).saturating_sub(playhead)
    }

    /// How fast to play with this much in the buffer.
    pub fn rate(&self, now: Duration, playhead: Duration, buffer: Duration) -> f64 {
        let behind_s = self.latency(now, playhead).as_secs_f64() - self.target.as_secs_f64();
        if behind_s.abs() < CLOSE_S || (behind_s > 0.0 && buffer < self.target / 2) {
            return 1.0;
        }
        let (least, most) = self.rates;
        let span = if behind_s > 0.0 {
            most - 1.0
        } else {
            1.0 - least
        };
        1.0 - span + 2.0 * span / (1.0 + (-STEEPNESS * behind_s).exp())
    }

    /// Takes note of the latency, for [`Self::figures`].
    pub fn observe(&mut self, now: Duration, playhead: Duration) {
        let is_due = |&(last, _): &(Duration, Duration)| now >= last + SAMPLE_SPACING;
        if self.samples.last().is_none_or(is_due) {
            let latency = self.latency(now, playhead);
            self.samples.push((now, latency));
        }
    }

    /// The latency now.
    pub fn last(&self) -> Option<Duration> {
        self.samples.last().map(|&(_, latency)| latency)
    }

    /// The latency's figures; `None` before anything played.
    pub fn figures(&self) -> Option<Latency> {
        let (&(start, _), &(end, last)) = (self.samples.first()?, self.samples.last()?);
        let area: f64 = self
            .samples
            .windows(2)
            .map(|pair| {
                let seconds = (pair[1].0 - pair[0].0).as_secs_f64();
                seconds * (ms(pair[0].1) + ms(pair[1].1)) / 2.0
            })
            .sum();
        let seconds = (end - start).as_secs_f64();
        Some(Latency {
            target_ms: ms(self.target),
            mean_ms: if seconds > 0.0 {
                area / seconds
            } else {
                ms(last)
            },
            p95_ms: Percentiles::of(crate::qoe::sampled(&self.samples, start)).p95,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// The media began 100 s before the session.
    fn edge() -> Edge {
        Edge::new(at(1_100.0), at(1_000.0), at(3.0), (0.96, 1.08))
    }

    #[test]
    fn the_present_moves_with_the_clock() {
        let mut edge = edge();
        assert_eq!(
            (edge.media(at(5.0)), edge.wanted(at(5.0))),
            (at(105.0), at(102.0))
        );
        assert_eq!(
            (edge.time_of(at(105.0)), edge.time_of(at(7.0))),
            (at(5.0), at(0.0))
        );
        assert_eq!(edge.latency(at(5.0), at(101.5)), at(3.5));
        // It was 1,107 and not 1,105.
        edge.set_clock(at(5.0), at(1_107.0), at(1_000.0));
        assert_eq!(edge.media(at(5.0)), at(107.0));
        // Media that begins later is at 0 until then.
        let later = Edge::new(at(90.0), at(100.0), at(3.0), (1.0, 1.0));
        assert_eq!(
            (later.media(at(4.0)), later.media(at(12.0))),
            (at(0.0), at(2.0))
        );
        assert_eq!(later.time_of(at(0.0)), at(10.0));
    }

    #[test]
    fn rates_by_hand() {
        let edge = edge();
        let rate = |latency, buffer| edge.rate(at(0.0), at(100.0 - latency), at(buffer));
        assert_eq!(rate(3.0, 3.0), 1.0);
        // 1 - 0.08 + 0.16 / (1 + e^-0.5) = 0.92 + 0.16 * 0.622459.
        assert!(
            (rate(3.1, 3.0) - 1.019_593).abs() < 1e-6,
            "{}",
            rate(3.1, 3.0)
        );
        // 1 - 0.04 + 0.08 / (1 + e^0.5) = 0.96 + 0.08 * 0.377541.
        assert!(
            (rate(2.9, 3.0) - 0.990_203).abs() < 1e-6,
            "{}",
            rate(2.9, 3.0)
        );
        assert!((rate(60.0, 3.0) - 1.08).abs() < 1e-9);
        assert!((rate(0.0, 3.0) - 0.96).abs() < 1e-6);
        // Less than 1.5 s in the buffer: no faster, but slower.
        assert_eq!(rate(60.0, 1.4), 1.0);
        assert!(rate(1.0, 0.5) < 0.97);
    }

    #[test]
    fn figures_by_hand() {
        let mut edge = edge();
        assert_eq!(edge.figures(), None);
        // 3 s for 10 s, then up to 5 s within 2 s, and 5 s for 8 s.
        for (time, latency) in [(0.0, 3.0), (10.0, 3.0), (12.0, 5.0), (20.0, 5.0)] {
            edge.observe(at(time), at(100.0 + time - latency));
        }
        // Too soon after the one before.
        edge.observe(at(20.05), at(0.0));
        let figures = edge.figures().unwrap();
        // (30 + 8 + 40) / 20.
        assert!((figures.mean_ms - 3_900.0).abs() < 1e-6, "{figures:?}");
        assert_eq!((figures.p95_ms, figures.target_ms), (5_000.0, 3_000.0));
    }
}
