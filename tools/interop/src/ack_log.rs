//! Counts from a qlog which paths carry the acknowledgments of path 1.

use std::io;
use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Packets with a PATH_ACK of path 1, by the path that they were sent on.
pub type Counts = Arc<[AtomicU64; 2]>;

/// Takes a qlog, an event a line.
pub struct AckLog {
    counts: Counts,
    line: Vec<u8>,
}

impl AckLog {
    pub fn new(counts: Counts) -> AckLog {
        AckLog {
            counts,
            line: Vec::new(),
        }
    }
}

impl Write for AckLog {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        for &byte in buf {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            if let Some(path) = path_that_acks_path_1(&String::from_utf8_lossy(&self.line)) {
                self.counts[path].fetch_add(1, Relaxed);
            }
            self.line.clear();
        }
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The path on which a packet was sent that acknowledges packets of path 1. The qlog crate does not know PATH_ACK
/// (0x3e, 0x3f with ECN counts) and shows its bytes, of which the second is the path ID.
fn path_that_acks_path_1(event: &str) -> Option<usize> {
    let is_it = event.contains("\"quic:packet_sent\"")
        && ["3e01", "3f01"]
            .iter()
            .any(|frame| event.contains(&format!("\"data\":\"{frame}")));
    let paths = ["\"tuple\":\"p0\"", "\"tuple\":\"p1\""];
    paths
        .iter()
        .position(|path| event.contains(path))
        .filter(|_| is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_of_path_1_are_told_from_the_rest() {
        let counts = Counts::default();
        let mut log = AckLog::new(counts.clone());
        let event = |name: &str, path: u8, data: &str| {
            format!(
                "\u{1e}{{\"time\":1.5,\"name\":\"quic:{name}\",\"tuple\":\"p{path}\",\
                 \"data\":{{\"frames\":[{{\"raw\":{{\"data\":\"{data}\"}}}}]}}}}\n"
            )
        };
        for text in [
            event("packet_sent", 0, "3e0105"),
            event("packet_sent", 1, "3f0105"),
            event("packet_sent", 1, "3e0105"),
            event("packet_sent", 0, "3e0001"),
            event("packet_received", 0, "3e0105"),
        ] {
            let (a, b) = text.split_at(20);
            log.write_all(a.as_bytes()).unwrap();
            log.write_all(b.as_bytes()).unwrap();
        }
        assert_eq!([0, 1].map(|path: usize| counts[path].load(Relaxed)), [1, 2]);
    }
}
