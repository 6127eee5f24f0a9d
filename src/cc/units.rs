//! From the registry's bytes, durations and microseconds to the papers' packets and seconds.

use std::time::Duration;

use crate::registry::PathState;

/// RTTs below this are taken as this: they come from virtual time or a coarse clock.
const MIN_RTT: Duration = Duration::from_micros(1);

/// An RTT in seconds, never zero.
pub fn secs(rtt: Duration) -> f64 {
    rtt.max(MIN_RTT).as_secs_f64()
}

/// A time of less than 500 years.
pub fn nanos(duration: Duration) -> u64 {
    duration.as_secs() * 1_000_000_000 + u64::from(duration.subsec_nanos())
}

/// Nanoseconds in seconds.
pub fn seconds(nanos: u64) -> f64 {
    // Below 2^63, which converts in one instruction.
    nanos as i64 as f64 / 1e9
}

/// `later - earlier` in seconds, not negative; both in microseconds.
pub fn seconds_between(earlier: i64, later: i64) -> f64 {
    later.saturating_sub(earlier).max(0) as f64 * 1e-6
}

/// The window of a path in packets.
pub fn packets(path: &PathState) -> f64 {
    packets_of(path.cwnd_bytes, path)
}

/// So many bytes in packets of the path.
pub fn packets_of(bytes: u64, path: &PathState) -> f64 {
    bytes as f64 / path.mss_bytes as f64
}

/// Bounds of numbers of which none is NaN: `max` and `min` of `f64` ask for that each time.
pub trait Bounded {
    /// The greater of the two.
    fn at_least(self, least: f64) -> f64;

    /// The lesser of the two.
    fn at_most(self, most: f64) -> f64;
}

impl Bounded for f64 {
    #[inline(always)]
    fn at_least(self, least: f64) -> f64 {
        if self < least {
            least
        } else {
            self
        }
    }

    #[inline(always)]
    fn at_most(self, most: f64) -> f64 {
        if self > most {
            most
        } else {
            self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::PathId;

    #[test]
    fn no_rtt_is_zero_and_no_wait_negative() {
        assert_eq!(secs(Duration::ZERO), 1e-6);
        assert_eq!(secs(Duration::from_millis(50)), 0.05);
        assert_eq!(seconds_between(5, 3), 0.0);
        assert_eq!(seconds_between(-500_000, 500_000), 1.0);
    }

    #[test]
    fn a_time_there_and_back() {
        let time = Duration::new(3, 20_000_000);
        assert_eq!(nanos(time), 3_020_000_000);
        assert_eq!(seconds(nanos(time)), 3.02);
    }

    #[test]
    fn packets_are_of_the_path() {
        let mut path = PathState::new(PathId(0), 1200);
        path.cwnd_bytes = 24_000;
        assert_eq!(packets(&path), 20.0);
    }
}
