//! What a server's scheduler can know beside the network: how a client's playback goes, until when it needs a response,
//! and how long that will be.

use std::time::Duration;
use std::time::Instant;

use mpq_cmcd::Cmcd;
use quiche::QoeReport;

/// Passes on what the request on `stream` said when it came at `now`. Of a connection's requests the newest counts.
pub fn report(quic: &mut quiche::Connection, stream: u64, cmcd: &Cmcd, now: Instant) {
    if cmcd.has_playback() {
        quic.report_qoe(QoeReport {
            buffered: Duration::from_millis(cmcd.buffered_ms()),
            bitrate_bits_per_sec: cmcd.bitrate_bits_per_sec(),
            stalled: cmcd.is_stalled(),
        });
    }
    if let Some(ms) = cmcd.deadline_ms {
        // A client may have stopped the stream already.
        let _ = quic.stream_deadline(stream, now + Duration::from_millis(ms));
    }
}

/// Passes on that `length` bytes will be written on `stream`.
pub fn announce(quic: &mut quiche::Connection, stream: u64, length: u64) {
    // As above.
    let _ = quic.stream_announce(stream, length);
}
