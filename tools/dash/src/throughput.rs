//! Throughput of a connection, for the adaptation rules.
//!
//! Two EWMAs over the same samples, a fast and a slow one; the estimate is the smaller (dash.js 5,
//! half-lives 3 s and 8 s). Requests overlap, and a multipath connection spreads each over its
//! paths, so a sample is bytes of the whole connection over *busy time*: time in which at least one
//! request was outstanding.

use std::time::Duration;

/// Half-life of the fast average, seconds.
const FAST_HALF_LIFE_S: f64 = 3.0;
/// Half-life of the slow average, seconds.
const SLOW_HALF_LIFE_S: f64 = 8.0;
/// A sample below this is kept until more bytes join it: a few packets measure the round trip and
/// not the rate (shaka's limit).
const MIN_SAMPLE_BYTES: u64 = 16_000;

/// Estimates the rate of one connection. Times are on the session's clock and never go back.
#[derive(Debug, Clone, Default)]
pub struct Throughput {
    /// Requests outstanding.
    outstanding: usize,
    /// Up to when busy time has been counted; meaningful while something is outstanding.
    counted_until: Duration,
    /// Not yet part of a sample.
    pending_bytes: u64,
    pending_busy: Duration,
    /// Since the beginning of the session.
    total: Carried,
    fast: Ewma,
    slow: Ewma,
}

/// What a connection carried, and the busy time that it took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Carried {
    /// Bytes of bodies.
    pub bytes: u64,
    /// Time in which at least one request was outstanding.
    pub busy: Duration,
}

impl Carried {
    /// The rate since an earlier moment, bit/s; 0 if no busy time passed.
    pub fn rate_since(&self, earlier: &Carried) -> f64 {
        let seconds = self.busy.saturating_sub(earlier.busy).as_secs_f64();
        let bytes = self.bytes.saturating_sub(earlier.bytes);
        match seconds > 0.0 {
            true => bytes as f64 * 8.0 / seconds,
            false => 0.0,
        }
    }
}

impl Throughput {
    /// What was carried up to the last report.
    pub fn carried(&self) -> Carried {
        self.total
    }

    /// A request was sent.
    pub fn on_request(&mut self, now: Duration) {
        self.count_busy_time(now);
        self.outstanding += 1;
    }

    /// `bytes` more of some body arrived.
    pub fn on_bytes(&mut self, bytes: u64) {
        self.pending_bytes += bytes;
        self.total.bytes += bytes;
    }

    /// A request ended, whether well or not. Its bytes were reported before.
    pub fn on_end(&mut self, now: Duration) {
        self.count_busy_time(now);
        self.outstanding = self.outstanding.saturating_sub(1);
        if self.pending_bytes < MIN_SAMPLE_BYTES || self.pending_busy.is_zero() {
            return;
        }
        let seconds = self.pending_busy.as_secs_f64();
        let bps = self.pending_bytes as f64 * 8.0 / seconds;
        self.fast.add(seconds, bps, FAST_HALF_LIFE_S);
        self.slow.add(seconds, bps, SLOW_HALF_LIFE_S);
        self.pending_bytes = 0;
        self.pending_busy = Duration::ZERO;
    }

    /// A request that is out waits for what the server does not have yet: until
    /// [`Self::on_request`] for its next part that is no busy time.
    pub fn on_pause(&mut self, now: Duration) {
        self.count_busy_time(now);
        self.outstanding = self.outstanding.saturating_sub(1);
    }

    /// The estimate, bit/s; `None` before the first sample.
    pub fn estimate_bps(&self) -> Option<f64> {
        let fast = self.fast.value(FAST_HALF_LIFE_S)?;
        let slow = self.slow.value(SLOW_HALF_LIFE_S)?;
        Some(fast.min(slow))
    }

    fn count_busy_time(&mut self, now: Duration) {
        if self.outstanding > 0 {
            let passed = now.saturating_sub(self.counted_until);
            self.pending_busy += passed;
            self.total.busy += passed;
        }
        self.counted_until = self.counted_until.max(now);
    }
}

/// An average that starts at 0 and is corrected for that start.
#[derive(Debug, Clone, Default)]
struct Ewma {
    average: f64,
    weight_s: f64,
}

impl Ewma {
    fn add(&mut self, seconds: f64, value: f64, half_life_s: f64) {
        let keep = 0.5f64.powf(seconds / half_life_s);
        self.average = keep * self.average + (1.0 - keep) * value;
        self.weight_s += seconds;
    }

    fn value(&self, half_life_s: f64) -> Option<f64> {
        let filled = 1.0 - 0.5f64.powf(self.weight_s / half_life_s);
        (filled > 0.0).then(|| self.average / filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn request(throughput: &mut Throughput, from: f64, to: f64, bytes: u64) {
        throughput.on_request(s(from));
        throughput.on_bytes(bytes);
        throughput.on_end(s(to));
    }

    #[test]
    fn first_sample_is_the_estimate() {
        let mut throughput = Throughput::default();
        assert_eq!(throughput.estimate_bps(), None);
        request(&mut throughput, 1.0, 3.0, 1_000_000);
        assert!((throughput.estimate_bps().unwrap() - 4e6).abs() < 1.0);
    }

    #[test]
    fn fast_falls_first_and_slow_rises_last() {
        // 24 s at 8 Mbit/s, then 3 s at 2 Mbit/s.
        // fast: (0.5 * 8 * (1 - 2^-8) + 0.5 * 2) / (1 - 2^-9) = 4.984375 / 0.998046875 = 4.99413
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 24.0, 24_000_000);
        request(&mut throughput, 24.0, 27.0, 750_000);
        let down = throughput.estimate_bps().unwrap();
        assert!((down - 4.994_129e6).abs() < 10.0, "{down}");

        // The other way round the slow one is the smaller. k = 2^(-3/8) = 0.771105:
        // (2 k (1 - 2^-3) + 8 (1 - k)) / (1 - 2^(-27/8)) = (1.349434 + 1.831160) / 0.903612 = 3.519867
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 24.0, 6_000_000);
        request(&mut throughput, 24.0, 27.0, 3_000_000);
        let up = throughput.estimate_bps().unwrap();
        assert!((up - 3.519_867e6).abs() < 100.0, "{up}");
    }

    #[test]
    fn overlapping_requests_share_busy_time_and_idle_time_is_free() {
        // Video 0..2 s and audio 1..2 s, 500 kB together: 2 s busy, 2 Mbit/s. Then 10 s idle, then
        // 250 kB in 1 s: 2 Mbit/s again. Adding up request times would give less than 1.4 Mbit/s.
        let mut throughput = Throughput::default();
        throughput.on_request(s(0.0));
        throughput.on_request(s(1.0));
        throughput.on_bytes(500_000);
        throughput.on_end(s(2.0));
        throughput.on_end(s(2.0));
        request(&mut throughput, 12.0, 13.0, 250_000);
        let estimate = throughput.estimate_bps().unwrap();
        assert!((estimate - 2e6).abs() < 1.0, "{estimate}");
    }

    #[test]
    fn what_was_carried_since() {
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 1.0, 125_000);
        let before = throughput.carried();
        assert_eq!(throughput.carried().rate_since(&before), 0.0);
        throughput.on_request(s(5.0));
        request(&mut throughput, 6.0, 7.0, 125_000);
        throughput.on_bytes(125_000);
        throughput.on_end(s(9.0));
        // 250 kB in the four seconds from 5 to 9.
        assert_eq!(throughput.carried().rate_since(&before), 500_000.0);
    }

    #[test]
    fn a_request_that_waits_for_the_server_is_no_busy_time() {
        // 1 s of fetching, 3 s of waiting, 1 s of fetching: 500 kB in 2 s.
        let mut throughput = Throughput::default();
        throughput.on_request(s(0.0));
        throughput.on_bytes(250_000);
        throughput.on_pause(s(1.0));
        throughput.on_request(s(4.0));
        throughput.on_bytes(250_000);
        throughput.on_end(s(5.0));
        assert!((throughput.estimate_bps().unwrap() - 2e6).abs() < 1.0);
    }

    #[test]
    fn small_bodies_wait_for_more() {
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 0.1, 1_000);
        assert_eq!(throughput.estimate_bps(), None);
        request(&mut throughput, 1.0, 1.9, 24_000);
        // 25 kB in 1 s.
        assert!((throughput.estimate_bps().unwrap() - 200_000.0).abs() < 0.1);
    }
}
