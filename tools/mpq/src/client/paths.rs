//! The paths of a run: which to use, and what they carried.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::client::Client;
use mpq_driver::ConnKey;

use crate::progress::PathKey;
use crate::progress::Progress;
use crate::report::Carried;
use crate::report::EcnReport;
use crate::report::PathReport;
use crate::report::UnusedPath;

/// A path at a moment; counters since its beginning.
pub struct PathSample {
    /// Our end.
    pub local: SocketAddr,
    /// The server's.
    pub peer: SocketAddr,
    /// Payload received, of UDP or TCP.
    pub recv_bytes: u64,
    /// Payload sent.
    pub sent_bytes: u64,
    /// Smoothed.
    pub rtt: Duration,
    /// What was lost of what we sent: packets, or segments that were sent again.
    pub lost: u64,
    /// See [`PathReport::ecn`].
    pub ecn: Option<EcnReport>,
    /// See [`PathReport::bottleneck`].
    pub bottleneck: Option<u64>,
    /// See [`PathReport::impact`].
    pub impact: Option<f64>,
}

/// Samples of every path of the connections followed.
pub struct PathLog {
    began: Instant,
    what: Carried,
    conns: Vec<ConnKey>,
    paths: BTreeMap<PathKey, PathReport>,
    /// Of the last sample of each connection.
    unused: BTreeMap<usize, Vec<UnusedPath>>,
}

impl PathLog {
    /// An empty log; samples count `what` from `began` on.
    pub fn new(began: Instant, what: Carried) -> PathLog {
        PathLog {
            began,
            what,
            conns: Vec::new(),
            paths: BTreeMap::new(),
            unused: BTreeMap::new(),
        }
    }

    /// Logs the paths of `key` from now on.
    pub fn follow(&mut self, key: ConnKey) {
        self.conns.push(key);
    }

    /// Takes a sample of every path.
    pub fn sample(&mut self, client: &Client) {
        for i in 0..self.conns.len() {
            let key = self.conns[i];
            let Some(conn) = client.conn(key) else {
                continue;
            };
            let unused: Vec<_> = conn.unused_paths().iter().map(UnusedPath::from).collect();
            let before = self.unused.insert(i, unused.clone()).unwrap_or_default();
            for unused in unused
                .iter()
                .filter(|unused| !before.iter().any(|b| b.is_like(unused)))
            {
                log::info!("{unused}");
            }
            let impacts = conn.impacts();
            for path in conn.paths() {
                let known = impacts.iter().find(|(id, ..)| *id == path.path_id);
                self.record(
                    (i, path.path_id),
                    PathSample {
                        local: path.local,
                        peer: path.peer,
                        recv_bytes: path.recv_bytes,
                        sent_bytes: path.sent_bytes,
                        rtt: path.rtt,
                        lost: path.lost,
                        ecn: Some(EcnReport::new(path.ecn, path.congested)),
                        bottleneck: path.bottleneck,
                        impact: known.map(|(.., omega)| *omega),
                    },
                );
            }
        }
    }

    /// Keeps what was seen of a path now.
    pub fn record(&mut self, key: PathKey, seen: PathSample) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let report = self.paths.entry(key).or_insert_with(|| PathReport {
            path_id: key.1,
            local: String::new(),
            peer: String::new(),
            recv_bytes: 0,
            sent_bytes: 0,
            rtt_ms: 0.0,
            lost: 0,
            ecn: None,
            bottleneck: None,
            impact: None,
            samples: Vec::new(),
        });
        report.local = seen.local.to_string();
        report.peer = seen.peer.to_string();
        report.recv_bytes = seen.recv_bytes;
        report.sent_bytes = seen.sent_bytes;
        report.rtt_ms = seen.rtt.as_secs_f64() * 1e3;
        report.lost = seen.lost;
        report.ecn = seen.ecn;
        report.bottleneck = seen.bottleneck;
        report.impact = seen.impact;
        report.samples.push((now_ms, self.what.bytes(report)));
    }

    /// Brings the bars up to date.
    pub fn show(&self, progress: &mut Progress) {
        let all = self.paths.values().map(|path| self.what.bytes(path)).sum();
        for (key, path) in &self.paths {
            let name = format!("path {} {}", path.path_id, path.local);
            progress.set_path(*key, &name, self.what.bytes(path), all);
        }
    }

    /// Path ID, and bytes received in the last `window`, of every path.
    pub fn received_within(&self, window: Duration) -> Vec<(u64, u64)> {
        let now = self.began.elapsed();
        let start_ms = now.saturating_sub(window).as_millis() as u64;
        self.paths
            .values()
            .map(|path| {
                let later = path.samples.partition_point(|&(ms, _)| ms < start_ms);
                let before = match later {
                    // A path that is younger than the window.
                    0 => 0,
                    _ => path.samples[later - 1].1,
                };
                (path.path_id, path.recv_bytes - before)
            })
            .collect()
    }

    /// Why there was no path from where there was none, as of the last sample.
    pub fn unused(&self) -> Vec<UnusedPath> {
        self.unused.values().flatten().cloned().collect()
    }

    /// What every path carried.
    pub fn reports(&self) -> Vec<PathReport> {
        self.paths.values().cloned().collect()
    }
}
