//! Machine-readable reports.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::exit::Failure;
use crate::exit::LOCAL;

/// Writes `report` to the file `target`, or to standard output if that is "-".
pub fn write_json(target: &Path, report: &impl Serialize) -> Result<(), Failure> {
    let json = serde_json::to_string(report).map_err(|e| Failure::new(LOCAL, e))? + "\n";
    let written = if target.as_os_str() == "-" {
        std::io::stdout().write_all(json.as_bytes())
    } else {
        std::fs::write(target, json)
    };
    written.map_err(|e| Failure::new(LOCAL, format!("cannot write {}: {e}", target.display())))
}

/// Tells the user what every path carried.
pub fn print_paths(paths: &[PathReport]) {
    for path in paths {
        eprintln!(
            "  path {} {} -> {}: {} bytes, rtt {:.1} ms",
            path.path_id, path.local, path.peer, path.recv_bytes, path.rtt_ms
        );
    }
}

/// Everything about one run of `mpq get`.
#[derive(Serialize, Debug)]
pub struct Report {
    /// One entry per URL, in the order given.
    pub files: Vec<FileReport>,
    /// From the start to the last byte.
    pub seconds: f64,
    /// Body bytes of all files, in bits per second.
    pub goodput_bps: f64,
    /// Every path of every connection.
    pub paths: Vec<PathReport>,
}

/// One downloaded file.
#[derive(Serialize, Debug)]
pub struct FileReport {
    /// As given.
    pub url: String,
    /// Length of the body.
    pub bytes: u64,
    /// From request to last byte.
    pub seconds: f64,
    /// Digest of the body, hexadecimal.
    pub sha256: String,
    /// The longest time between two deliveries of body bytes, in order, to the
    /// application.
    pub longest_gap_ms: f64,
    /// Every such time of 50 ms or more: when it began, in milliseconds since
    /// the request, and how many it lasted.
    pub gaps: Vec<(u64, u64)>,
}

/// One path.
#[derive(Serialize, Debug, Clone)]
pub struct PathReport {
    /// Path ID (RFC 10069).
    pub path_id: u64,
    /// Our address and port.
    pub local: String,
    /// The server's address and port.
    pub peer: String,
    /// UDP payload received.
    pub recv_bytes: u64,
    /// UDP payload sent.
    pub sent_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Packets we sent that were declared lost.
    pub lost: u64,
    /// Milliseconds since the start, and bytes received by then.
    pub samples: Vec<(u64, u64)>,
}
