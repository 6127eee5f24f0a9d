//! Quality of experience of a session, from its video segments, stalls and buffer levels.
//!
//! | symbol | here | meaning |
//! |---|---|---|
//! | K | number of segments | |
//! | R_k | `bitrate_bps` | declared rate of segment k's level |
//! | T | `media` | length of the media |
//! | Ts | `startup` | MPD request to first frame |
//! | Tr | sum of `stalls` | time stalled, startup excluded |
//!
//! QoE_lin and QoE_log follow Yin et al. (SIGCOMM 2015): per session
//! `sum q(R_k) - lambda sum |q(R_(k+1)) - q(R_k)| - mu Tr - mu Ts`, here divided by K. Linear:
//! q = R in Mbit/s, lambda = 1, mu = the highest rate in Mbit/s. Logarithmic: q = ln(R / R_min),
//! lambda = 1, mu = 2.66 (Pensieve, SIGCOMM 2017). Compare only values of the same ladder.

use std::time::Duration;

use serde::Serialize;

use crate::buffer::Stall;
use crate::player::FetchedSegment;

/// A jump of this many levels is one that viewers notice.
const IMPACTFUL_LEVELS: usize = 2;
/// Spacing at which the buffer level is sampled for its percentiles.
const SAMPLE_SPACING: Duration = Duration::from_millis(100);
/// Weight of level changes.
const LAMBDA: f64 = 1.0;
/// Weight of stalled seconds in the logarithmic form.
const MU_LOG: f64 = 2.66;

/// What the figures are computed from.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Video segments in order.
    pub segments: &'a [FetchedSegment],
    /// Rates of the video levels, bit/s, ascending.
    pub ladder_bps: &'a [u64],
    /// Length of the media.
    pub media: Duration,
    /// MPD request to first frame.
    pub startup: Duration,
    /// Interruptions.
    pub stalls: &'a [Stall],
    /// Corners of the buffer level, see [`crate::buffer::Buffer::levels`].
    pub levels: &'a [(Duration, Duration)],
    /// Bytes of abandoned and failed downloads.
    pub wasted_bytes: u64,
}

/// The figures. Fractions are of 1, times in milliseconds; a figure of nothing is 0.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Qoe {
    /// Time stalled, startup excluded.
    pub stall_total_ms: f64,
    /// Mean length of a stall.
    pub stall_mean_ms: f64,
    /// Tr / (T + Tr).
    pub stall_ratio: f64,
    /// Mean rate over segments, bit/s.
    pub mean_bitrate_bps: f64,
    /// Share of media time at the top level.
    pub top_level_fraction: f64,
    /// Level changes between successive segments.
    pub switches: usize,
    /// Of these, to a higher level.
    pub switches_up: usize,
    /// Of these, to a lower level.
    pub switches_down: usize,
    /// Of these, over two levels or more.
    pub switches_impactful: usize,
    /// Mean |R_(k+1) - R_k| over all successive pairs, bit/s.
    pub switch_mean_bps: f64,
    /// Buffer level from the first frame to the last.
    pub buffer_ms: Percentiles,
    /// Request to last byte of video segments.
    pub segment_ms: Percentiles,
    /// Bytes of abandoned and failed downloads.
    pub wasted_bytes: u64,
    /// Linear form.
    pub qoe_lin: Weighted,
    /// Logarithmic form.
    pub qoe_log: Weighted,
}

/// A QoE value with the weights that give it meaning.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weighted {
    /// Per segment.
    pub per_segment: f64,
    /// Weight of level changes.
    pub lambda: f64,
    /// Weight of a stalled or starting second.
    pub mu: f64,
}

/// Nearest-rank percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Percentiles {
    /// 5 %.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
}

impl Percentiles {
    /// Of these values, in any order.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        values.sort_by(f64::total_cmp);
        let rank = |percent: usize| {
            let rank = (percent * values.len()).div_ceil(100);
            values[rank.max(1) - 1]
        };
        Self {
            p5: rank(5),
            p50: rank(50),
            p95: rank(95),
            p99: rank(99),
        }
    }
}

/// A duration in milliseconds, to the microsecond.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1e3
}

/// Computes all figures.
pub fn qoe(input: &Input<'_>) -> Qoe {
    let segments = input.segments;
    let per_segment = |sum: f64| mean(sum, segments.len());
    let stalled: Duration = input.stalls.iter().map(|stall| stall.duration).sum();
    let (media_s, stalled_s) = (input.media.as_secs_f64(), stalled.as_secs_f64());
    let top = input.ladder_bps.len().saturating_sub(1);
    let at_top = segments.iter().filter(|segment| segment.level == top);
    let at_top_s: f64 = at_top.map(|segment| segment.duration.as_secs_f64()).sum();
    let fetched_s: f64 = segments
        .iter()
        .map(|segment| segment.duration.as_secs_f64())
        .sum();

    let pairs = || segments.windows(2).map(|pair| (&pair[0], &pair[1]));
    let count = |changes: &dyn Fn(usize, usize) -> bool| {
        pairs().filter(|(a, b)| changes(a.level, b.level)).count()
    };
    let bps_changes: f64 = pairs()
        .map(|(a, b)| a.bitrate_bps.abs_diff(b.bitrate_bps) as f64)
        .sum();

    let lowest_bps = input.ladder_bps.first().map_or(1.0, |&bps| bps as f64);
    let highest_mbps = input.ladder_bps.last().map_or(0.0, |&bps| bps as f64 / 1e6);
    let weighted = |quality: &dyn Fn(u64) -> f64, mu: f64| {
        let q = |segment: &FetchedSegment| quality(segment.bitrate_bps);
        let gained: f64 = segments.iter().map(q).sum();
        let changed: f64 = pairs().map(|(a, b)| (q(b) - q(a)).abs()).sum();
        let waited_s = stalled_s + input.startup.as_secs_f64();
        Weighted {
            per_segment: per_segment(gained - LAMBDA * changed - mu * waited_s),
            lambda: LAMBDA,
            mu,
        }
    };

    Qoe {
        stall_total_ms: ms(stalled),
        stall_mean_ms: mean(ms(stalled), input.stalls.len()),
        stall_ratio: share(stalled_s, media_s + stalled_s),
        mean_bitrate_bps: per_segment(segments.iter().map(|it| it.bitrate_bps as f64).sum()),
        top_level_fraction: share(at_top_s, fetched_s),
        switches: count(&|a, b| a != b),
        switches_up: count(&|a, b| b > a),
        switches_down: count(&|a, b| b < a),
        switches_impactful: count(&|a, b| a.abs_diff(b) >= IMPACTFUL_LEVELS),
        switch_mean_bps: mean(bps_changes, segments.len().saturating_sub(1)),
        buffer_ms: Percentiles::of(sampled(input.levels, input.startup)),
        segment_ms: Percentiles::of(segments.iter().map(|it| ms(it.end - it.start)).collect()),
        wasted_bytes: input.wasted_bytes,
        qoe_lin: weighted(&|bps| bps as f64 / 1e6, highest_mbps),
        qoe_log: weighted(&|bps| (bps as f64 / lowest_bps).ln(), MU_LOG),
    }
}

fn mean(sum: f64, count: usize) -> f64 {
    if count == 0 {
        0.0
    } else {
        sum / count as f64
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 {
        part / whole
    } else {
        0.0
    }
}

/// Buffer levels, or other lengths, in milliseconds at even spacing, from `start` to the last corner.
pub(crate) fn sampled(levels: &[(Duration, Duration)], start: Duration) -> Vec<f64> {
    let Some(&(end, _)) = levels.last() else {
        return Vec::new();
    };
    let mut samples = Vec::new();
    let mut time = start;
    while time <= end {
        // The last corner at or before `time`, and the line from there to the next one.
        let next = levels.partition_point(|&(corner, _)| corner <= time);
        let (from, level) = levels[next.max(1) - 1];
        let level = match levels.get(next) {
            Some(&(to, next_level)) if to > from => {
                let part = (time.saturating_sub(from)).as_secs_f64() / (to - from).as_secs_f64();
                ms(level) + part * (ms(next_level) - ms(level))
            }
            _ => ms(level),
        };
        samples.push(level);
        time += SAMPLE_SPACING;
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const LADDER: [u64; 3] = [1_000_000, 2_000_000, 4_000_000];

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn segment(index: u64, level: usize, end: u64) -> FetchedSegment {
        FetchedSegment {
            index,
            level,
            representation: level.to_string(),
            bitrate_bps: LADDER[level],
            duration: s(2),
            start: s(index),
            end: s(end),
            bytes: 1,
            buffer: s(2),
        }
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    /// Four segments of 2 s at 1, 4, 2, 2 Mbit/s; startup 1 s; one stall of 2 s.
    #[test]
    fn a_session_by_hand() {
        let segments = [
            segment(0, 0, 1),
            segment(1, 2, 3),
            segment(2, 1, 5),
            segment(3, 1, 7),
        ];
        let stall = Stall {
            start: s(3),
            duration: s(2),
            media_time: s(2),
        };
        let result = qoe(&Input {
            segments: &segments,
            ladder_bps: &LADDER,
            media: s(8),
            startup: s(1),
            stalls: &[stall],
            levels: &[(s(0), s(0)), (s(1), s(0)), (s(1), s(2)), (s(3), s(0))],
            wasted_bytes: 7,
        });
        close(result.stall_total_ms, 2000.0);
        close(result.stall_mean_ms, 2000.0);
        close(result.stall_ratio, 0.2); // 2 / (8 + 2)
        close(result.mean_bitrate_bps, 2.25e6); // (1 + 4 + 2 + 2) / 4
        close(result.top_level_fraction, 0.25);
        assert_eq!(
            (result.switches, result.switches_up, result.switches_down),
            (2, 1, 1)
        );
        assert_eq!(result.switches_impactful, 1);
        close(result.switch_mean_bps, 5e6 / 3.0); // (3 + 2 + 0) / 3
        assert_eq!(result.wasted_bytes, 7);
        // (9 - (3 + 2) - 4 * 2 - 4 * 1) / 4 = -2
        close(result.qoe_lin.per_segment, -2.0);
        close(result.qoe_lin.mu, 4.0);
        // q = 0, ln 4, ln 2, ln 2: sum 4 ln 2, changes 2 ln 2 + ln 2; (ln 2 - 2.66 * 3) / 4
        close(result.qoe_log.per_segment, (2f64.ln() - 7.98) / 4.0);
        // Completion: 1, 2, 3, 4 s. Buffer: from 2 s to 0 over 2 s in 21 samples, so the median,
        // the 11th, is 1 s.
        assert_eq!(result.segment_ms.p50, 2000.0);
        assert_eq!(result.segment_ms.p99, 4000.0);
        close(result.buffer_ms.p50, 1000.0);
        close(result.buffer_ms.p5, 100.0);
    }

    #[test]
    fn nothing_played_gives_zeros() {
        let result = qoe(&Input {
            segments: &[],
            ladder_bps: &[],
            media: s(0),
            startup: s(0),
            stalls: &[],
            levels: &[],
            wasted_bytes: 0,
        });
        assert_eq!(result.stall_ratio, 0.0);
        assert_eq!(result.qoe_lin.per_segment, 0.0);
        assert_eq!(result.buffer_ms, Percentiles::default());
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let values = (1..=200).rev().map(f64::from).collect();
        let expected = Percentiles {
            p5: 10.0,
            p50: 100.0,
            p95: 190.0,
            p99: 198.0,
        };
        assert_eq!(Percentiles::of(values), expected);
    }
}
