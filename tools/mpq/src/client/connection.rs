//! What a player needs of its connection, whatever the transport is.

use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use clap::ValueEnum;
use mpq_driver::h3::client::RequestId;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::ConnKey;
use serde::Serialize;
use url::Url;

use super::over_tcp::OverTcp;
use super::url::origin;
use super::ClientArgs;
use super::PathLog;
use super::Session;
use crate::exit::Failure;
use crate::report::Carried;
use crate::tcp::Socket;

/// A NAT may forget a path that is silent for longer (RFC 9000, section
/// 10.1.2, names 30 seconds; this leaves room for a loss).
const MAX_SILENCE: Duration = Duration::from_secs(15);

/// What carries the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// HTTP/3 on every path at once
    H3Multipath,
    /// HTTP/3 over one path
    H3,
    /// HTTP/2 over TLS over TCP
    Tcp,
    /// HTTP/2 over TLS over the kernel's Multipath TCP
    Mptcp,
}

impl Transport {
    /// As it is told.
    pub fn name(self) -> &'static str {
        match self {
            Transport::H3Multipath => "HTTP/3 multipath",
            Transport::H3 => "HTTP/3 over one path",
            Transport::Tcp => "TCP",
            Transport::Mptcp => "MPTCP",
        }
    }
}

/// What was asked for, and what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Carrier {
    /// By `--transport`.
    pub asked: Transport,
    /// With this server.
    pub used: Transport,
    /// Why that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// Names a request of a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The connections of a session: one to each server that it needs.
pub trait Connection {
    /// When the session began; path samples count from here.
    fn began(&self) -> Instant;

    /// Asks for `url`, with further header fields. Where there is no connection to its server, one is made first; meanwhile
    /// the others go on.
    ///
    /// # Errors
    /// Why there is no connection.
    fn get(
        &mut self,
        url: &Url,
        headers: Vec<(String, String)>,
        sink: Box<dyn ResponseSink>,
    ) -> Result<Ticket, Failure>;

    /// Cancels a request; its sink is told in the next [`Connection::step`].
    fn cancel(&mut self, request: Ticket);

    /// Lets the connections work until something happens, at most until `until` or the next sample of the paths. Returns
    /// whether one was taken.
    fn step(&mut self, until: Option<Instant>) -> Result<bool, Failure>;

    /// Keeps the connection of the last request while it has nothing to do. Returns when it has to be called again.
    fn keep_alive(&mut self) -> Option<Instant>;

    /// Whether there is a connection to the server of `url`.
    fn is_open(&self, url: &Url) -> bool;

    /// What carries them.
    fn carrier(&self) -> Carrier;

    /// What their paths have carried, as of the last sample.
    fn log(&self) -> &PathLog;

    /// Ends them, after a last sample.
    fn close(&mut self);
}

/// Connections by `transport`, none of them made yet.
///
/// # Errors
/// Where options or the system do not allow it.
pub fn by(transport: Transport, args: &ClientArgs) -> Result<Box<dyn Connection + '_>, Failure> {
    Ok(match transport {
        Transport::H3Multipath | Transport::H3 => Box::new(OverQuic {
            session: Session::new(args, Carried::Received)?,
            connections: HashMap::new(),
            last: None,
            requests: Vec::new(),
            ping_at: Instant::now(),
            asked: transport,
            is_multipath: false,
        }),
        Transport::Tcp => Box::new(OverTcp::new(args, Socket::Tcp)?),
        Transport::Mptcp => Box::new(OverTcp::new(args, Socket::Mptcp)?),
    })
}

/// HTTP/3, over one path or several.
struct OverQuic<'a> {
    session: Session<'a>,
    /// By origin.
    connections: HashMap<(String, u16), ConnKey>,
    /// Of the last request.
    last: Option<ConnKey>,
    /// A ticket is a place in it.
    requests: Vec<(ConnKey, RequestId)>,
    ping_at: Instant,
    asked: Transport,
    is_multipath: bool,
}

impl OverQuic<'_> {
    fn key(&self, url: &Url) -> Option<ConnKey> {
        let key = self.connections.get(&origin(url)).copied();
        key.filter(|key| self.session.has(*key))
    }
}

impl Connection for OverQuic<'_> {
    fn began(&self) -> Instant {
        self.session.began()
    }

    fn get(
        &mut self,
        url: &Url,
        headers: Vec<(String, String)>,
        sink: Box<dyn ResponseSink>,
    ) -> Result<Ticket, Failure> {
        let key = match self.key(url) {
            Some(key) => key,
            None => {
                let key = self.session.connect(url)?;
                self.connections.insert(origin(url), key);
                key
            }
        };
        self.last = Some(key);
        let request = self.session.get(key, url, headers, sink);
        self.requests.push((key, request));
        Ok(Ticket(self.requests.len() as u64 - 1))
    }

    fn cancel(&mut self, request: Ticket) {
        let (key, request) = self.requests[request.0 as usize];
        self.session.cancel(key, request);
    }

    fn step(&mut self, until: Option<Instant>) -> Result<bool, Failure> {
        let is_due = self.session.step(until)?;
        let conn = self.last.and_then(|key| self.session.conn_mut(key));
        self.is_multipath |= conn.is_some_and(|conn| conn.is_multipath());
        Ok(is_due)
    }

    fn keep_alive(&mut self) -> Option<Instant> {
        let now = Instant::now();
        if now < self.ping_at {
            return Some(self.ping_at);
        }
        let conn = self.session.conn_mut(self.last?)?;
        conn.keep_alive();
        let pause = conn.idle_timeout().map_or(MAX_SILENCE, |t| t / 3);
        self.ping_at = now + pause.min(MAX_SILENCE);
        Some(self.ping_at)
    }

    fn is_open(&self, url: &Url) -> bool {
        self.key(url).is_some()
    }

    fn carrier(&self) -> Carrier {
        let (used, why) = match (self.asked, self.is_multipath) {
            (Transport::H3Multipath, false) => {
                (Transport::H3, Some("multipath was not negotiated"))
            }
            (asked, _) => (asked, None),
        };
        Carrier {
            asked: self.asked,
            used,
            why,
        }
    }

    fn log(&self) -> &PathLog {
        self.session.log()
    }

    fn close(&mut self) {
        self.session.sample();
        self.session.close();
    }
}
