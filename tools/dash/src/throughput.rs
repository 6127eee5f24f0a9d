//! Throughput of a connection, for the adaptation rules.
//!
//! Two EWMAs over the same samples, a fast and a slow one; the estimate is the smaller (dash.js 5,
//! half-lives 3 s and 8 s). Requests overlap, and a multipath connection spreads each over its
//! paths, so a sample is bytes of the whole connection over *busy time*: time in which at least one
//! response arrived. What passes from a request to the first byte while nothing arrives is *dead
//! time*. It does not count (dash.js: `useDeadTimeLatency`), unless more of it passed than of the
//! other: then bodies were too small to measure more than round trips, and the estimate is rather too
//! low than too high.

use std::time::Duration;

/// Half-life of the fast average, seconds.
const FAST_HALF_LIFE_S: f64 = 3.0;
/// Half-life of the slow average, seconds.
const SLOW_HALF_LIFE_S: f64 = 8.0;
/// Weight of a second in the averages, which so forget in two thirds of their half-lives: 0.0015 for
/// each millisecond in dash.js 5.
const WEIGHT: f64 = 1.5;
/// A sample below this is kept until more bytes join it: a few packets measure the round trip and
/// not the rate (shaka's limit).
const MIN_SAMPLE_BYTES: u64 = 16_000;

/// Estimates the rate of one connection. Times are on the session's clock and never go back.
#[derive(Debug, Clone, Default)]
pub struct Throughput {
    /// Requests outstanding.
    outstanding: usize,
    /// Responses of which something has come, and not all.
    arriving: usize,
    /// Up to when time has been counted; meaningful while something is outstanding.
    counted_until: Duration,
    /// Since the beginning of the session, and up to the last sample.
    total: Carried,
    sampled: Carried,
    fast: Ewma,
    slow: Ewma,
}

/// What a connection carried, and the time that it took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Carried {
    /// Bytes of bodies.
    bytes: u64,
    /// Of these, what came as the end of dead time.
    first_bytes: u64,
    busy: Duration,
    dead: Duration,
}

impl Carried {
    fn since(&self, earlier: &Carried) -> Carried {
        Carried {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            first_bytes: self.first_bytes.saturating_sub(earlier.first_bytes),
            busy: self.busy.saturating_sub(earlier.busy),
            dead: self.dead.saturating_sub(earlier.dead),
        }
    }

    /// Bits and the seconds that they took.
    fn measured(&self) -> (f64, f64) {
        match self.busy >= self.dead {
            true => {
                let bytes = self.bytes.saturating_sub(self.first_bytes);
                (bytes as f64 * 8.0, self.busy.as_secs_f64())
            }
            false => (
                self.bytes as f64 * 8.0,
                (self.busy + self.dead).as_secs_f64(),
            ),
        }
    }

    /// The rate since an earlier moment, bit/s; 0 if no time passed.
    pub fn rate_since(&self, earlier: &Carried) -> f64 {
        let (bits, seconds) = self.since(earlier).measured();
        match seconds > 0.0 {
            true => bits / seconds,
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
        self.count_time(now);
        self.outstanding += 1;
    }

    /// The first of its response came, with so many bytes of the body; they are also reported by
    /// [`Self::on_bytes`].
    pub fn on_begin(&mut self, now: Duration, bytes: u64) {
        self.count_time(now);
        if self.arriving == 0 {
            self.total.first_bytes += bytes;
        }
        self.arriving += 1;
    }

    /// `bytes` more of some body arrived.
    pub fn on_bytes(&mut self, bytes: u64) {
        self.total.bytes += bytes;
    }

    /// A request ended, whether well or not, and whether its response had begun. Its bytes were
    /// reported before.
    pub fn on_end(&mut self, now: Duration, had_begun: bool) {
        self.on_pause(now, had_begun);
        let new = self.total.since(&self.sampled);
        let (bits, seconds) = new.measured();
        if new.bytes < MIN_SAMPLE_BYTES || seconds == 0.0 {
            return;
        }
        let bps = bits / seconds;
        self.fast.add(WEIGHT * seconds, bps, FAST_HALF_LIFE_S);
        self.slow.add(WEIGHT * seconds, bps, SLOW_HALF_LIFE_S);
        self.sampled = self.total;
    }

    /// A request that is out waits for what the server does not have yet: until
    /// [`Self::on_request`] for its next part that is neither busy nor dead time.
    pub fn on_pause(&mut self, now: Duration, had_begun: bool) {
        self.count_time(now);
        self.outstanding = self.outstanding.saturating_sub(1);
        self.arriving = self.arriving.saturating_sub(usize::from(had_begun));
    }

    /// The estimate, bit/s; `None` before the first sample.
    pub fn estimate_bps(&self) -> Option<f64> {
        let fast = self.fast.value(FAST_HALF_LIFE_S)?;
        let slow = self.slow.value(SLOW_HALF_LIFE_S)?;
        Some(fast.min(slow))
    }

    fn count_time(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.counted_until);
        match (self.outstanding, self.arriving) {
            (0, _) => {}
            (_, 0) => self.total.dead += passed,
            _ => self.total.busy += passed,
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
        throughput.on_end(s(to), false);
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
        // 16 s at 8 Mbit/s, then 2 s at 2 Mbit/s: in weights 24 and 3 s.
        // fast: (0.5 * 8 * (1 - 2^-8) + 0.5 * 2) / (1 - 2^-9) = 4.984375 / 0.998046875 = 4.99413
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 16.0, 16_000_000);
        request(&mut throughput, 16.0, 18.0, 500_000);
        let down = throughput.estimate_bps().unwrap();
        assert!((down - 4.994_129e6).abs() < 10.0, "{down}");

        // The other way round the slow one is the smaller. k = 2^(-3/8) = 0.771105:
        // (2 k (1 - 2^-3) + 8 (1 - k)) / (1 - 2^(-27/8)) = (1.349434 + 1.831160) / 0.903612 = 3.519867
        let mut throughput = Throughput::default();
        request(&mut throughput, 0.0, 16.0, 4_000_000);
        request(&mut throughput, 16.0, 18.0, 2_000_000);
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
        throughput.on_end(s(2.0), false);
        throughput.on_end(s(2.0), false);
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
        throughput.on_end(s(9.0), false);
        // 250 kB in the four seconds from 5 to 9.
        assert_eq!(throughput.carried().rate_since(&before), 500_000.0);
    }

    #[test]
    fn a_request_that_waits_for_the_server_is_no_busy_time() {
        // 1 s of fetching, 3 s of waiting, 1 s of fetching: 500 kB in 2 s.
        let mut throughput = Throughput::default();
        throughput.on_request(s(0.0));
        throughput.on_bytes(250_000);
        throughput.on_pause(s(1.0), false);
        throughput.on_request(s(4.0));
        throughput.on_bytes(250_000);
        throughput.on_end(s(5.0), false);
        assert!((throughput.estimate_bps().unwrap() - 2e6).abs() < 1.0);
    }

    #[test]
    fn round_trips_are_dead_time_unless_there_is_little_else() {
        let fetched = |first: f64, end: f64| {
            let mut throughput = Throughput::default();
            throughput.on_request(s(0.0));
            throughput.on_begin(s(first), 1_000);
            throughput.on_bytes(1_000);
            throughput.on_bytes(250_000);
            throughput.on_end(s(end), true);
            throughput.estimate_bps().unwrap()
        };
        // 250 kB in the second after the first byte.
        assert!((fetched(0.2, 1.2) - 2e6).abs() < 0.1);
        // Twice as fast, but 0.9 s for the first byte: 251 kB in 1.4 s.
        assert!((fetched(0.9, 1.4) - 251_000.0 * 8.0 / 1.4).abs() < 0.1);
        // All at once.
        assert!((fetched(0.5, 0.5) - 251_000.0 * 8.0 / 0.5).abs() < 0.1);
        // Another response fills the wait for the first byte: 500 kB in 2 s.
        let mut throughput = Throughput::default();
        throughput.on_request(s(0.0));
        throughput.on_begin(s(0.0), 0);
        throughput.on_request(s(0.5));
        throughput.on_bytes(500_000);
        throughput.on_begin(s(1.5), 1_000);
        throughput.on_end(s(2.0), true);
        throughput.on_end(s(2.0), true);
        assert!((throughput.estimate_bps().unwrap() - 2e6).abs() < 0.1);
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
