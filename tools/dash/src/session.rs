//! The result file of a session.

use serde::Serialize;

use crate::live::{Edge, Latency};
use crate::player::Player;
use crate::qoe::{self, ms, Input, Qoe};

/// Everything about a finished session; `P` is what the caller knows about each network path.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report<P> {
    /// URL of the MPD.
    pub mpd: String,
    /// MPD request to first frame; `null` if nothing played.
    pub startup_ms: Option<f64>,
    /// Number of stalls.
    pub stalls: usize,
    /// Time stalled, startup excluded.
    pub stall_ms: f64,
    /// Mean rate over video segments, bit/s.
    pub mean_bitrate_bps: f64,
    /// Changes of video level.
    pub switches: usize,
    /// The other figures.
    pub qoe: Qoe,
    /// Live: how far playback was behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Live: media that was left out because it came too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped_ms: Option<f64>,
    /// Video segments.
    pub segments: Vec<SegmentReport>,
    /// Corners of the buffer level: time and level, milliseconds.
    pub buffer: Vec<(f64, f64)>,
    /// Network paths.
    pub paths: Vec<P>,
}

/// One video segment. Times are milliseconds since the MPD was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SegmentReport {
    /// From 0.
    pub index: u64,
    /// Representation id.
    pub rep: String,
    /// Declared rate, bit/s.
    pub bitrate_bps: u64,
    /// Request.
    pub start_ms: f64,
    /// Last byte.
    pub end_ms: f64,
    /// Size.
    pub bytes: u64,
    /// Buffer level right after.
    pub buffer_ms: f64,
}

impl<P> Report<P> {
    /// The report of `player`, finished or not, with what the caller knows about its paths.
    pub fn new(player: &Player, paths: Vec<P>) -> Self {
        let buffer = player.buffer();
        let ladder_bps = player.ladder_bps();
        let qoe = qoe::qoe(&Input {
            segments: player.segments(),
            ladder_bps: &ladder_bps,
            media: match player.edge() {
                Some(_) => buffer.played(),
                None => player.presentation().duration,
            },
            startup: buffer.startup().unwrap_or_default(),
            stalls: buffer.stalls(),
            levels: buffer.levels(),
            wasted_bytes: player.wasted_bytes(),
        });
        let segments = player.segments().iter().map(|segment| SegmentReport {
            index: segment.index,
            rep: segment.representation.clone(),
            bitrate_bps: segment.bitrate_bps,
            start_ms: ms(segment.start),
            end_ms: ms(segment.end),
            bytes: segment.bytes,
            buffer_ms: ms(segment.buffer),
        });
        Self {
            mpd: player.presentation().url.to_string(),
            startup_ms: buffer.startup().map(ms),
            stalls: buffer.stalls().len(),
            stall_ms: qoe.stall_total_ms,
            mean_bitrate_bps: qoe.mean_bitrate_bps,
            switches: qoe.switches,
            latency: player.edge().and_then(Edge::figures),
            skipped_ms: player.edge().map(|_| ms(buffer.left_out())),
            segments: segments.collect(),
            buffer: buffer
                .levels()
                .iter()
                .map(|&(time, level)| (ms(time), ms(level)))
                .collect(),
            paths,
            qoe,
        }
    }
}
