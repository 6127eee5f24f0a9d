//! What DASH clients saw: rows of `dash.csv` and `segments.csv`, and metrics.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;

use mpq_dash::buffer::State;
use mpq_dash::player::Player;
use mpq_dash::session::Report;

/// Columns of `dash.csv`.
pub const DASH_HEADER: &str =
    "time_s,flow,state,played_s,buffer_s,level,bitrate_mbps,estimate_mbps,stalls,stall_ms";

/// Columns of `segments.csv`.
pub const SEGMENTS_HEADER: &str =
    "flow,segment,level,bitrate_mbps,bytes,request_s,arrival_s,buffer_s";

/// The files of a run with DASH clients.
pub struct Files {
    pub dash: BufWriter<File>,
    pub segments: BufWriter<File>,
}

/// The state of a client at `time_s`. Level and bitrate are those of the last segment.
pub fn write_row(
    file: &mut impl Write,
    time_s: f64,
    flow: &str,
    player: &Player,
) -> io::Result<()> {
    let buffer = player.buffer();
    let state = match buffer.state() {
        State::Startup => "startup",
        State::Playing => "playing",
        State::Stalled(_) => "stalled",
        State::Ended => "ended",
    };
    let stalls = buffer.stalls();
    let stall_ms: f64 = stalls
        .iter()
        .map(|stall| stall.duration.as_secs_f64() * 1e3)
        .sum();
    write!(
        file,
        "{time_s:.6},{flow},{state},{:.6},{:.6},",
        buffer.played().as_secs_f64(),
        buffer.level().as_secs_f64(),
    )?;
    match player.segments().last() {
        Some(last) => write!(file, "{},{},", last.level, last.bitrate_bps as f64 / 1e6)?,
        None => write!(file, ",,")?,
    }
    match player.throughput_bps() {
        Some(bps) => write!(file, "{:.6},", bps / 1e6)?,
        None => write!(file, ",")?,
    }
    writeln!(file, "{},{stall_ms:.3}", stalls.len())
}

/// The video segments that a client of which the flow began at `began_s` fetched.
pub fn write_segments(
    file: &mut impl Write,
    began_s: f64,
    flow: &str,
    player: &Player,
) -> io::Result<()> {
    for segment in player.segments() {
        writeln!(
            file,
            "{flow},{},{},{},{},{:.6},{:.6},{:.6}",
            segment.index,
            segment.level,
            segment.bitrate_bps as f64 / 1e6,
            segment.bytes,
            began_s + segment.start.as_secs_f64(),
            began_s + segment.end.as_secs_f64(),
            segment.buffer.as_secs_f64(),
        )?;
    }
    Ok(())
}

/// A client's figures, by their names in `docs/scenarios.md`.
pub fn metrics(player: &Player) -> Vec<(&'static str, f64)> {
    let report: Report<()> = Report::new(player, Vec::new());
    let buffer = player.buffer();
    let qoe = &report.qoe;
    let mut metrics = vec![
        ("played_s", buffer.played().as_secs_f64()),
        ("stalls", report.stalls as f64),
        ("stall_ms", report.stall_ms),
        ("segments", report.segments.len() as f64),
        ("switches", report.switches as f64),
        ("wasted_bytes", qoe.wasted_bytes as f64),
    ];
    if let Some(latency) = &report.latency {
        metrics.extend([
            ("latency_mean_ms", latency.mean_ms),
            ("latency_p95_ms", latency.p95_ms),
        ]);
    }
    metrics.extend(report.skipped_ms.map(|ms| ("skipped_ms", ms)));
    metrics.extend(report.startup_ms.map(|ms| ("startup_ms", ms)));
    if !report.segments.is_empty() {
        metrics.extend([
            ("mean_bitrate_mbps", report.mean_bitrate_bps / 1e6),
            ("top_level_share", qoe.top_level_fraction),
            ("median_buffer_s", qoe.buffer_ms.p50 / 1e3),
            ("qoe_lin", qoe.qoe_lin.per_segment),
            ("qoe_log", qoe.qoe_log.per_segment),
        ]);
    }
    metrics
}
