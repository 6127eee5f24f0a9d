//! The queueing delay that LEDBAT and its relatives steer by (RFC 6817, section 3.4.2).
//!
//! One-way delays where the peer sends timestamps: their clock offset cancels in the difference
//! from the base. Else RTT samples less the peer's ACK delay, which also see the queue of the way
//! back. A path that changes from one to the other, or from one way back to another, starts its
//! measurement over.

use std::time::Duration;
use std::time::Instant;

use super::units::seconds_between;
use super::Ack;
use super::Param;
use super::Settings;
use crate::registry::PathId;
use crate::registry::PathState;

/// How many minima the base delay is the least of (RFC 6817, BASE_HISTORY).
const BASE_HISTORY: usize = 10;

/// The time that each of them covers.
const BASE_PERIOD: Duration = Duration::from_secs(60);

/// How many samples the current delay is the least of (RFC 6817, CURRENT_FILTER).
const CURRENT_FILTER: usize = 4;

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    OneWay,
    /// By this path back.
    RoundTrip(PathId),
}

/// The delay sample that an ACK gave, in microseconds from an unknown zero.
pub(super) fn sample(path: &PathState, ack: &Ack) -> Option<(Source, i64)> {
    if let Some(delay) = path.one_way_delay_micros {
        return Some((Source::OneWay, delay));
    }
    let delay = ack.rtt_sample?.saturating_sub(path.ack_delay);
    let micros = i64::try_from(delay.as_micros()).unwrap_or(i64::MAX);
    Some((Source::RoundTrip(path.way_back), micros))
}

/// The granularity of timestamps, for those of LEDBAT's relatives that a kernel of 1 ms had.
pub(super) const GRAIN: Param = Param::time(
    "grain",
    [0.0, 0.0, 0.1],
    "granularity of both ends' timestamps; 0 is as they come, 1ms as in TCP's of Linux 4.19",
);

/// Timestamps as two clocks would give them that tick every `micros`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grain {
    micros: i64,
    /// When the sender's clock ticks.
    epoch: Option<Instant>,
}

impl Grain {
    /// From [`GRAIN`].
    pub fn new(settings: &Settings) -> Grain {
        Grain {
            micros: (settings.get(GRAIN.name) * 1e6) as i64,
            epoch: None,
        }
    }

    /// The delay of a packet that was sent at `sent`: both its times are rounded down.
    pub fn seen(&mut self, sent: Instant, micros: i64) -> i64 {
        if self.micros <= 0 {
            return micros;
        }
        let epoch = *self.epoch.get_or_insert(sent);
        let since = sent.saturating_duration_since(epoch).as_micros();
        let phase = (since % self.micros as u128) as i64;
        let arrived = micros.saturating_add(phase);
        arrived.saturating_sub(arrived.rem_euclid(self.micros))
    }
}

/// The delay filter of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delay {
    source: Option<Source>,
    current: [i64; CURRENT_FILTER],
    samples: usize,
    /// Minima of periods, the current one first; `period` says when that began.
    base: [i64; BASE_HISTORY],
    periods: usize,
    period: Option<Instant>,
}

impl Delay {
    /// Takes the sample of an ACK, if it gave one, and returns it in microseconds.
    pub fn on_ack(
        &mut self,
        now: Instant,
        path: &PathState,
        ack: &Ack,
        grain: &mut Grain,
    ) -> Option<i64> {
        let (source, micros) = sample(path, ack)?;
        let micros = grain.seen(ack.newest_sent, micros);
        if self.source != Some(source) {
            *self = Delay {
                source: Some(source),
                ..Delay::default()
            };
        }
        self.current[self.samples % CURRENT_FILTER] = micros;
        self.samples += 1;

        let fresh = self
            .period
            .is_none_or(|began| now.saturating_duration_since(began) >= BASE_PERIOD);
        if fresh {
            self.base.rotate_right(1);
            self.base[0] = micros;
            self.periods = (self.periods + 1).min(BASE_HISTORY);
            self.period = Some(now);
        }
        self.base[0] = self.base[0].min(micros);
        Some(micros)
    }

    /// The least delay of the last minutes, in microseconds; `None` without a sample.
    pub fn base_micros(&self) -> Option<i64> {
        self.base[..self.periods].iter().min().copied()
    }

    /// The least of the last samples, in microseconds; `None` without a sample.
    pub fn current_micros(&self) -> Option<i64> {
        let filled = self.samples.min(CURRENT_FILTER);
        self.current[..filled].iter().min().copied()
    }

    /// How long packets wait in the queue, in seconds; none without a sample.
    pub fn queueing(&self) -> f64 {
        match (self.current_micros(), self.base_micros()) {
            (Some(current), Some(base)) => seconds_between(base, current),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    /// Feeds one-way delays of an unknown offset and returns the queueing delay after each.
    fn feed(delay: &mut Delay, now: Instant, micros: &[i64]) -> Vec<f64> {
        let mut paths = paths(&[(10, 100)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        micros
            .iter()
            .map(|micros| {
                path.one_way_delay_micros = Some(*micros);
                delay.on_ack(now, path, &ack(now), &mut Grain::default());
                delay.queueing()
            })
            .collect()
    }

    #[test]
    fn an_offset_cancels() {
        let now = Instant::now();
        let expected = [0.0, 0.0, 0.0, 0.0, 0.03];
        for offset in [0, -5_000_000, 1_700_000_000_000_000] {
            let mut delay = Delay::default();
            // 20 ms, then a queue of 30 ms: it shows once 20 is out of the filter of four.
            let samples = [20_000, 50_000, 50_000, 50_000, 50_000].map(|sample| sample + offset);
            for (seen, expected) in feed(&mut delay, now, &samples).iter().zip(expected) {
                close(*seen, expected);
            }
        }
    }

    #[test]
    fn clocks_that_tick_round_both_times_down() {
        let start = Instant::now();
        let sent = |micros| start + Duration::from_micros(micros);
        let mut grain = Grain {
            micros: 1000,
            epoch: None,
        };
        // Sent at 0 and 0.9 ms, both 20.3 ms on the way: from tick 0 to 20, and from 0 to 21.
        assert_eq!(grain.seen(sent(0), 20_300), 20_000);
        assert_eq!(grain.seen(sent(900), 20_300), 21_000);
        // At 5.5 ms, to a clock that is 7 ms behind: 25.8 - 7 = 18.8 ms; ticks 5 and 18.
        assert_eq!(grain.seen(sent(5500), 13_300), 13_000);
        assert_eq!(grain.seen(sent(5500), -300), 0);
        assert_eq!(grain.seen(sent(5500), -700), -1000);
        assert_eq!(Grain::default().seen(sent(900), 20_300), 20_300);
    }

    #[test]
    fn the_base_is_forgotten_after_ten_minutes() {
        let start = Instant::now();
        let mut delay = Delay::default();
        feed(&mut delay, start, &[20_000; 4]);
        // The path became longer: 80 ms. For ten periods that looks like a queue of 60 ms.
        for minute in 1..=9 {
            let now = start + BASE_PERIOD * minute;
            close(*feed(&mut delay, now, &[80_000; 4]).last().unwrap(), 0.06);
        }
        let now = start + BASE_PERIOD * 10;
        close(*feed(&mut delay, now, &[80_000; 4]).last().unwrap(), 0.0);
    }

    #[test]
    fn without_timestamps_the_round_trip_less_the_ack_delay() {
        let now = Instant::now();
        let mut paths = paths(&[(10, 100)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        let mut delay = Delay::default();
        for (rtt_ms, ack_delay_ms) in [(40, 0), (90, 25), (90, 25), (90, 25), (90, 25)] {
            path.ack_delay = Duration::from_millis(ack_delay_ms);
            let ack = Ack {
                rtt_sample: Some(Duration::from_millis(rtt_ms)),
                ..ack(now)
            };
            delay.on_ack(now, path, &ack, &mut Grain::default());
        }
        // 90 - 25 - 40 = 25 ms.
        close(delay.queueing(), 0.025);
        // Timestamps appear: another scale, so nothing of the old one counts.
        path.one_way_delay_micros = Some(-700);
        delay.on_ack(now, path, &ack(now), &mut Grain::default());
        close(delay.queueing(), 0.0);
    }

    #[test]
    fn another_way_back_has_a_base_of_its_own() {
        let now = Instant::now();
        let mut paths = paths(&[(10, 100)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        let mut delay = Delay::default();
        // 600 ms by itself, 310 by path 1, and again: never a queue.
        for (way, rtt_ms) in [(0, 600), (1, 310), (0, 600)] {
            path.way_back = PathId(way);
            for _ in 0..CURRENT_FILTER {
                let ack = Ack {
                    rtt_sample: Some(Duration::from_millis(rtt_ms)),
                    ..ack(now)
                };
                delay.on_ack(now, path, &ack, &mut Grain::default());
                close(delay.queueing(), 0.0);
            }
        }
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut delay = Delay::default();
        let seen = feed(
            &mut delay,
            Instant::now(),
            &[i64::MIN, i64::MAX, 0, i64::MAX],
        );
        assert!(seen.iter().all(|q| q.is_finite() && *q >= 0.0));
        close(seconds_between(i64::MIN, i64::MAX), i64::MAX as f64 * 1e-6);
    }
}
