//! Machine-readable reports.

use std::io::Write;
use std::path::Path;

use mpq_decision::paths::Unused;
use mpq_decision::paths::Why;
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

/// Which of the bytes that a path carried are of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// To us.
    Received,
    /// From us.
    Sent,
}

impl Carried {
    /// So many of a path's.
    pub fn bytes(self, path: &PathReport) -> u64 {
        match self {
            Carried::Received => path.recv_bytes,
            Carried::Sent => path.sent_bytes,
        }
    }
}

/// Tells the user what every path carried, and why there are no others.
pub fn print_paths(paths: &[PathReport], unused: &[UnusedPath], what: Carried) {
    for path in paths {
        let impact = path
            .impact
            .map_or(String::new(), |omega| format!(", impact {omega:+.2}"));
        eprintln!(
            "  path {} {} -> {}: {} bytes, rtt {:.1} ms{impact}",
            path.path_id,
            path.local,
            path.peer,
            what.bytes(path),
            path.rtt_ms
        );
    }
    for unused in unused.iter().filter(|unused| unused.is_remarkable) {
        eprintln!("  {unused}");
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
    /// Every connection.
    pub connections: Vec<ConnReport>,
    /// Every path of every connection.
    pub paths: Vec<PathReport>,
    /// Why there were no others at the end.
    pub unused_paths: Vec<UnusedPath>,
}

/// Everything about one run of `mpq put`.
#[derive(Serialize, Debug)]
pub struct PutReport {
    /// One entry per file that the server took.
    pub files: Vec<PutFileReport>,
    /// From the start to the last answer.
    pub seconds: f64,
    /// Body bytes of these files, in bits per second.
    pub goodput_bps: f64,
    /// Every path of the connection.
    pub paths: Vec<PathReport>,
    /// Why there were no others at the end.
    pub unused_paths: Vec<UnusedPath>,
}

/// One uploaded file.
#[derive(Serialize, Debug)]
pub struct PutFileReport {
    /// Where to.
    pub url: String,
    /// Length of the body.
    pub bytes: u64,
    /// From the request to the answer.
    pub seconds: f64,
    /// The answer's status.
    pub status: u16,
}

/// How a connection began.
#[derive(Serialize, Debug, Clone)]
pub struct ConnReport {
    /// Name or address, and port.
    pub server: String,
    /// Whether it went on with the TLS session of an earlier one.
    pub resumed: bool,
    /// "accepted" or "rejected", if requests went with the first packets.
    pub early_data: Option<&'static str>,
}

/// An interface without a path.
#[derive(Serialize, Debug, Clone, PartialEq, Eq)]
pub struct UnusedPath {
    /// Its name; nothing if it is about the connection as a whole.
    pub interface: Option<String>,
    /// Why, in a sentence that begins with the interface.
    pub why: String,
    /// Worth a line although nobody asked: a host with one interface is nothing special.
    #[serde(skip)]
    is_remarkable: bool,
    #[serde(skip)]
    kind: std::mem::Discriminant<Why>,
}

impl UnusedPath {
    /// Whether it says the same but for times.
    pub fn is_like(&self, other: &UnusedPath) -> bool {
        self.interface == other.interface && self.kind == other.kind
    }
}

impl From<&Unused> for UnusedPath {
    fn from(unused: &Unused) -> UnusedPath {
        UnusedPath {
            interface: unused.interface.clone(),
            why: unused.to_string(),
            is_remarkable: !matches!(
                unused.why,
                Why::NoOtherInterface | Why::Down | Why::UnderWay
            ),
            kind: std::mem::discriminant(&unused.why),
        }
    }
}

impl std::fmt::Display for UnusedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interface {
            Some(_) => write!(f, "no path over {}", self.why),
            None => write!(f, "one path: {}", self.why),
        }
    }
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

/// Explicit congestion notification of a path (RFC 9000, section 13.4).
#[derive(Serialize, Debug, Clone, Copy)]
pub struct EcnReport {
    /// Packets are marked as capable if `testing` or `capable`: the marks arrive. They do not arrive, or the peer does not
    /// report them: `failed`. `waiting`: nothing is known of the path yet. `off`: not wanted, or the controller would not react.
    pub state: &'static str,
    /// Packets that were marked as congested.
    pub congested: u64,
}

impl EcnReport {
    /// With the field's words for `state`.
    pub fn new(state: quiche::EcnState, congested: u64) -> EcnReport {
        let state = match state {
            quiche::EcnState::Off => "off",
            quiche::EcnState::Waiting => "waiting",
            quiche::EcnState::Testing => "testing",
            quiche::EcnState::Capable => "capable",
            quiche::EcnState::Failed => "failed",
        };
        EcnReport { state, congested }
    }
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
    /// Of what we sent over QUIC; null over TCP.
    pub ecn: Option<EcnReport>,
    /// The least path ID of those that share the bottleneck of what we send, its own if it shares it
    /// with none; null while that is not known, as when the other end sends what there is.
    pub bottleneck: Option<u64>,
    /// Share of the throughput that goes away with the path, if the path policy measured it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impact: Option<f64>,
    /// Milliseconds since the start, and bytes received by then, or by `mpq put` sent.
    pub samples: Vec<(u64, u64)>,
}
