//! Giving up a download that would drain the buffer (AbandonRequestsRule of dash.js 5).

use std::time::Duration;

use super::rate::SAFETY;
use super::rate_level;

/// No verdict before this much of a download.
const GRACE: Duration = Duration::from_millis(500);
/// Projected time, as a multiple of the segment's length, above which a download is given up.
const MOST_SEGMENTS: f64 = 1.8;

/// A download in progress.
#[derive(Debug, Clone, Copy)]
pub struct Download<'a> {
    /// Rates of the levels, bit/s, ascending.
    pub ladder_bps: &'a [u64],
    /// Level that is being fetched.
    pub level: usize,
    /// Length of the segment.
    pub segment: Duration,
    /// Since the request.
    pub elapsed: Duration,
    /// Received so far.
    pub received_bytes: u64,
    /// Size of the body.
    pub total_bytes: u64,
}

/// The lower level to fetch instead, if the download should be given up.
///
/// It should if it has run for 500 ms, is projected to take more than 1.8 times the segment's
/// length, and a segment that its rate can sustain is smaller than what is still missing.
pub fn should_abandon(download: &Download<'_>) -> Option<usize> {
    if download.elapsed < GRACE || download.received_bytes == 0 {
        return None;
    }
    let bps = download.received_bytes as f64 * 8.0 / download.elapsed.as_secs_f64();
    let projected_s = download.total_bytes as f64 * 8.0 / bps;
    let segment_s = download.segment.as_secs_f64();
    if projected_s <= MOST_SEGMENTS * segment_s {
        return None;
    }
    let level = rate_level(download.ladder_bps, SAFETY.default * bps);
    let missing = download.total_bytes.saturating_sub(download.received_bytes) as f64;
    let instead = download.ladder_bps[level] as f64 * segment_s / 8.0;
    (level < download.level && missing > instead).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::super::tests::LADDER;
    use super::*;

    /// A 2 s segment of 4 Mbit/s, 1 MB.
    fn download(elapsed_ms: u64, received_bytes: u64) -> Download<'static> {
        Download {
            ladder_bps: &LADDER,
            level: 2,
            segment: Duration::from_secs(2),
            elapsed: Duration::from_millis(elapsed_ms),
            received_bytes,
            total_bytes: 1_000_000,
        }
    }

    #[test]
    fn verdicts_by_hand() {
        // 100 kB in 1 s: 0.8 Mbit/s, 10 s projected. Lowest level: 250 kB, 900 kB missing.
        assert_eq!(should_abandon(&download(1_000, 100_000)), Some(0));
        // Too early.
        assert_eq!(should_abandon(&download(499, 1_000)), None);
        // 300 kB in 1 s: 3.33 s projected, below 3.6 s.
        assert_eq!(should_abandon(&download(1_000, 300_000)), None);
        // 270 kB in 1 s: 2.16 Mbit/s, 3.7 s projected; 0.9 of it affords 1 Mbit/s.
        assert_eq!(should_abandon(&download(1_000, 270_000)), Some(0));
        // 800 kB in 4 s: 5 s projected, but 200 kB missing are less than 250 kB.
        assert_eq!(should_abandon(&download(4_000, 800_000)), None);
        // Nothing lower than the lowest.
        let lowest = Download {
            level: 0,
            ..download(1_000, 100_000)
        };
        assert_eq!(should_abandon(&lowest), None);
    }
}
