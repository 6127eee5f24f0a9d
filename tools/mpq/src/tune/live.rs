//! Measurements over the network: downloads from a server that is there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::ConnKey;
use url::Url;

use super::lab::Ask;
use super::lab::Lab;
use super::lab::Measured;
use super::lab::What;
use crate::client::response::check_head;
use crate::client::response::failure_of;
use crate::client::ClientArgs;
use crate::client::Session;
use crate::exit::Failure;
use crate::exit::USAGE;
use crate::report::Carried;

/// The name of the controller of a server that does not say which it has.
pub const OF_THE_SERVER: &str = "server's";

/// Servers to measure, by their controllers.
pub struct Live<'a> {
    args: &'a ClientArgs,
    servers: &'a [(String, Url)],
}

impl<'a> Live<'a> {
    /// Downloads from these.
    pub fn new(args: &'a ClientArgs, servers: &'a [(String, Url)]) -> Live<'a> {
        Live { args, servers }
    }
}

/// What came of a request.
#[derive(Default)]
struct Got {
    bytes: Cell<u64>,
    is_over: Cell<bool>,
    failure: Cell<Option<Failure>>,
}

struct Sink(Rc<Got>);

impl ResponseSink for Sink {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        match check_head(head, false) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                self.0.failure.set(Some(failure));
                ControlFlow::Break(())
            }
        }
    }

    fn on_body(&mut self, data: &[u8]) -> ControlFlow<()> {
        self.0.bytes.set(self.0.bytes.get() + data.len() as u64);
        ControlFlow::Continue(())
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        self.0.is_over.set(true);
        if let Err(error) = result {
            let before = self.0.failure.take();
            self.0
                .failure
                .set(Some(before.unwrap_or_else(|| failure_of(error))));
        }
    }
}

/// A path, as it is called from one connection to the next.
fn name(local: std::net::IpAddr, remote: std::net::SocketAddr) -> String {
    format!("{local}>{remote}")
}

/// The addresses of a path that [`name`] called so.
fn ends(name: &str) -> Option<(std::net::IpAddr, std::net::SocketAddr)> {
    let (local, remote) = name.split_once('>')?;
    Some((local.parse().ok()?, remote.parse().ok()?))
}

impl Live<'_> {
    /// Whether the impact factors of all paths are known.
    fn is_measured(session: &mut Session<'_>, key: ConnKey) -> bool {
        session.conn_mut(key).is_some_and(|conn| {
            let paths = conn.paths().len();
            paths > 1 && conn.impacts().len() == paths
        })
    }
}

impl Lab for Live<'_> {
    fn measure(&mut self, ask: &Ask) -> Result<Measured, Failure> {
        let server = self.servers.iter().find(|(cc, _)| *cc == ask.point.cc);
        let Some((_, url)) = server else {
            let why = format!("no server with {} was named", ask.point.cc);
            return Err(Failure::new(USAGE, why));
        };
        let policy = match (ask.what, ask.point.paths.contains(':')) {
            (What::Impacts, false) => format!("{}:t={}s", ask.point.paths, ask.seconds),
            _ => ask.point.paths.clone(),
        };
        let policy = policy.parse().map_err(|e| Failure::new(USAGE, e))?;
        let args = self.args.tuned(policy, ask.point.buffer_bytes());
        let mut session = Session::new(&args, Carried::Received)?;
        let key = session.connect(url)?;
        for (path, omega) in &ask.impacts {
            if let Some((local, remote)) = ends(path) {
                session.recall(key, local, remote, *omega);
            }
        }
        let began = Instant::now();
        let wanted = Duration::from_secs_f64(ask.seconds);
        // With all and without one, for each of the most paths that there may be.
        let deadline = match ask.what {
            What::Throughput => began + wanted,
            What::Impacts => began + (wanted + Duration::from_millis(500)) * 20,
        };
        let mut bytes = 0;
        let mut got = Rc::new(Got::default());
        session.get(key, url, Vec::new(), Box::new(Sink(got.clone())));
        while Instant::now() < deadline {
            session.step(Some(deadline))?;
            if got.is_over.get() {
                if let Some(failure) = got.failure.take() {
                    return Err(failure.about(url));
                }
                // A file that is shorter than the measurement is asked for again.
                bytes += got.bytes.get();
                got = Rc::new(Got::default());
                session.get(key, url, Vec::new(), Box::new(Sink(got.clone())));
            }
            if ask.what == What::Impacts && Live::is_measured(&mut session, key) {
                break;
            }
        }
        let spent_s = began.elapsed().as_secs_f64();
        bytes += got.bytes.get();
        session.sample();
        let mut rates_mbps: BTreeMap<String, f64> = BTreeMap::new();
        for path in session.log().reports() {
            let rate = path.recv_bytes as f64 * 8.0 / 1e6 / spent_s;
            *rates_mbps
                .entry(format!("{} {}", path.path_id, path.local))
                .or_default() += rate;
        }
        let rtts = session
            .log()
            .reports()
            .into_iter()
            .map(|path| path.rtt_ms / 1e3);
        let longest_rtt_s = rtts.fold(0.0, f64::max);
        let impacts = session.conn_mut(key).map(|conn| conn.impacts());
        let impacts = impacts
            .filter(|_| ask.what == What::Impacts)
            .unwrap_or_default();
        session.close();
        Ok(Measured {
            mbps: bytes as f64 * 8.0 / 1e6 / spent_s,
            bytes,
            spent_s,
            longest_rtt_s,
            rates_mbps,
            impacts: impacts
                .into_iter()
                .map(|(_, pair, omega)| (name(pair.local.ip, pair.remote), omega))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_called_by_their_addresses() {
        for (local, remote) in [
            ("10.0.0.1", "192.0.2.1:443"),
            ("2001:db8::1", "[2001:db8::2]:4433"),
        ] {
            let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
            assert_eq!(ends(&name(local, remote)), Some((local, remote)));
        }
        assert_eq!(ends("u-c"), None);
    }
}
