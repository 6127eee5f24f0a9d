//! Giving up a download that would drain the buffer (AbandonRequestsRule of dash.js 5).

use std::time::Duration;

use super::rate::SAFETY;
use super::rate_level;

/// No verdict before this much of a download.
const GRACE: Duration = Duration::from_millis(500);
/// Projected time, as a multiple of the segment's length, above which a download is given up.
const MOST_SEGMENTS: f64 = 1.8;

/// Projected time of a chunk, as a multiple of the buffer, above which its segment is given up: the pace of a segment in
/// chunks is that of short times.
const MOST_BUFFERS: f64 = 1.5;

/// Marks of a pace are this far apart.
const MARK: Duration = Duration::from_millis(1000);

/// Which downloads are given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Abandon {
    /// None.
    Never,
    /// Those that take too long for their segment, as dash.js does.
    Slow,
    /// Those that would come when the buffer has run out.
    Late,
}

/// A download in progress.
#[derive(Debug, Clone, Copy)]
pub struct Download<'a> {
    /// Rates of the levels, bit/s, ascending.
    pub ladder_bps: &'a [u64],
    /// Level that is being fetched.
    pub level: usize,
    /// Length of the segment.
    pub segment: Duration,
    /// Pieces in which it plays: its chunks, or 1.
    pub pieces: u32,
    /// Of these, those that are in the buffer.
    pub held: u32,
    /// Since the request, without the time in which the server had no more.
    pub elapsed: Duration,
    /// Received so far.
    pub received_bytes: u64,
    /// Size of the body.
    pub total_bytes: u64,
    /// Received lately, bit/s.
    pub lately_bps: f64,
    /// Media in the buffer.
    pub buffer: Duration,
}

/// The lower level to fetch instead, if the download should be given up.
///
/// It should if it has run for 500 ms and a segment that its rate can sustain is smaller than what is still missing, and
/// - with [`Abandon::Slow`] the whole of it is projected to take more than 1.8 times the segment's length, at the rate since
///   the request;
/// - with [`Abandon::Late`] what is missing of it, or of its next chunk, is projected to take longer than the buffer lasts, 1.5
///   times as long with a chunk, at the rate of lately; the level is one that comes in time, if there is one.
pub fn should_abandon(which: Abandon, download: &Download<'_>) -> Option<usize> {
    if download.elapsed < GRACE || download.received_bytes == 0 {
        return None;
    }
    let missing = download.total_bytes.saturating_sub(download.received_bytes) as f64;
    let since_request = download.received_bytes as f64 * 8.0 / download.elapsed.as_secs_f64();
    let segment_s = download.segment.as_secs_f64();
    let (bps, is_behind) = match which {
        Abandon::Never => return None,
        Abandon::Slow => {
            let projected_s = download.total_bytes as f64 * 8.0 / since_request;
            (since_request, projected_s > MOST_SEGMENTS * segment_s)
        }
        Abandon::Late => {
            let (pieces, next) = (f64::from(download.pieces), f64::from(download.held + 1));
            let piece_s = segment_s / pieces;
            // When the next piece and the last one are due.
            let next_s = download.buffer.as_secs_f64();
            let last_s = next_s + (pieces - next) * piece_s;
            let until_next = download.total_bytes as f64 * next / pieces;
            let missing_of_next = until_next - download.received_bytes as f64;
            let most = if download.pieces > 1 {
                MOST_BUFFERS
            } else {
                1.0
            };
            let bps = download.lately_bps;
            let is_late = missing_of_next * 8.0 > most * bps * next_s;
            // Another level has to bring again what is in the buffer.
            let in_time = (next_s / (next * piece_s)).min(last_s / segment_s);
            (bps * in_time.min(1.0), is_late)
        }
    };
    if !is_behind {
        return None;
    }
    let level = rate_level(download.ladder_bps, SAFETY.default * bps);
    let instead = download.ladder_bps[level] as f64 * segment_s / 8.0;
    (level < download.level && missing > instead).then_some(level)
}

/// How fast a download was in its last one or two seconds. Times are since the request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    /// Time and bytes received by then, the older one first.
    marks: [(Duration, u64); 2],
}

impl Pace {
    /// So many bytes have come.
    pub(crate) fn on_bytes(&mut self, now: Duration, received_bytes: u64) {
        if now >= self.marks[1].0 + MARK {
            self.marks = [self.marks[1], (now, received_bytes)];
        }
    }

    /// With so many received by now, bit/s.
    pub(crate) fn bps(&self, now: Duration, received_bytes: u64) -> f64 {
        let (at, bytes) = self.marks[0];
        let bits = received_bytes.saturating_sub(bytes) as f64 * 8.0;
        bits / now.saturating_sub(at).as_secs_f64().max(1e-3)
    }
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
            pieces: 1,
            held: 0,
            elapsed: Duration::from_millis(elapsed_ms),
            received_bytes,
            lately_bps: 1e6,
            buffer: Duration::from_secs(6),
            total_bytes: 1_000_000,
        }
    }

    #[test]
    fn verdicts_by_hand() {
        // 100 kB in 1 s: 0.8 Mbit/s, 10 s projected. Lowest level: 250 kB, 900 kB missing.
        assert_eq!(
            should_abandon(Abandon::Slow, &download(1_000, 100_000)),
            Some(0)
        );
        // Too early.
        assert_eq!(should_abandon(Abandon::Slow, &download(499, 1_000)), None);
        // 300 kB in 1 s: 3.33 s projected, below 3.6 s.
        assert_eq!(
            should_abandon(Abandon::Slow, &download(1_000, 300_000)),
            None
        );
        // 270 kB in 1 s: 2.16 Mbit/s, 3.7 s projected; 0.9 of it affords 1 Mbit/s.
        assert_eq!(
            should_abandon(Abandon::Slow, &download(1_000, 270_000)),
            Some(0)
        );
        // 800 kB in 4 s: 5 s projected, but 200 kB missing are less than 250 kB.
        assert_eq!(
            should_abandon(Abandon::Slow, &download(4_000, 800_000)),
            None
        );
        // Nothing lower than the lowest.
        let lowest = Download {
            level: 0,
            ..download(1_000, 100_000)
        };
        assert_eq!(should_abandon(Abandon::Slow, &lowest), None);
    }

    #[test]
    fn late_is_what_the_buffer_does_not_outlast() {
        let late = |lately_bps, buffer_ms| {
            let download = Download {
                lately_bps,
                buffer: Duration::from_millis(buffer_ms),
                ..download(1_000, 400_000)
            };
            should_abandon(Abandon::Late, &download)
        };
        // 600 kB missing at 1 Mbit/s: 4.8 s; 0.9 Mbit/s afford the lowest level, 250 kB.
        assert_eq!(late(1e6, 4_800), None);
        assert_eq!(late(1e6, 4_799), Some(0));
        // 2.4 s at 2 Mbit/s, which afford no more than 1.8; 1.6 s at 3, which afford 2 Mbit/s, 500 kB.
        assert_eq!((late(2e6, 2_399), late(3e6, 1_599)), (Some(0), Some(1)));
        // Nothing came lately.
        assert_eq!(late(0.0, 10_000), Some(0));
        // Too early, or of nothing is known how fast it is.
        assert_eq!(should_abandon(Abandon::Late, &download(499, 1_000)), None);
        assert_eq!(should_abandon(Abandon::Late, &download(1_000, 0)), None);
        assert_eq!(
            should_abandon(Abandon::Never, &download(1_000, 1_000)),
            None
        );
    }

    #[test]
    fn late_is_the_next_chunk_in_chunks() {
        // 4 chunks of 250 kB, of which one is held; of the next 50 kB have come.
        let late = |lately_bps, buffer_ms| {
            let download = Download {
                lately_bps,
                buffer: Duration::from_millis(buffer_ms),
                pieces: 4,
                held: 1,
                ..download(1_000, 300_000)
            };
            should_abandon(Abandon::Late, &download)
        };
        // 200 kB at 1 Mbit/s: 1.6 s, 1.5 times 1.0667 s. Two chunks of the lowest level: 1 Mbit/s in 1.066 s, too much, but there
        // is no lower one.
        assert_eq!(late(1e6, 1_067), None);
        assert_eq!(late(1e6, 1_066), Some(0));
        // At 3 Mbit/s 0.533 s, 1.5 times 0.355 s: 2.7 Mbit/s for 0.35 of a second that has to be there twice afford 0.945.
        assert_eq!((late(3e6, 356), late(3e6, 350)), (None, Some(0)));
        // Nothing is in the buffer.
        assert_eq!(late(3e6, 0), Some(0));
    }

    #[test]
    fn a_pace_is_of_two_seconds_at_most() {
        let ms = Duration::from_millis;
        let mut pace = Pace::default();
        // 100 kB in 0.4 s.
        pace.on_bytes(ms(400), 100_000);
        assert_eq!(pace.bps(ms(400), 100_000), 2e6);
        // Marks at 1 and 2 s: from 1 s on.
        pace.on_bytes(ms(1_000), 125_000);
        assert_eq!(pace.bps(ms(1_600), 200_000), 200_000.0 * 8.0 / 1.6);
        pace.on_bytes(ms(2_000), 225_000);
        assert_eq!(pace.bps(ms(2_200), 275_000), 150_000.0 * 8.0 / 1.2);
        pace.on_bytes(ms(3_000), 300_000);
        assert_eq!(pace.bps(ms(3_000), 300_000), 75_000.0 * 8.0 / 1.0);
    }
}
