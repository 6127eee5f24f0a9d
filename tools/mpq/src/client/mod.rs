//! What every command that connects to a server shares: its options, its
//! connections, their paths, and how it is interrupted.

mod args;
pub mod connection;
mod over_tcp;
mod paths;
pub mod remembered;
pub mod response;
pub mod url;

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use ::url::Url;
use mpq_decision::paths::Pair;
use mpq_driver::h3::client::Body;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::Race;
use mpq_driver::h3::client::RaceError;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::RequestId;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::Conn;
use mpq_driver::ConnKey;
use mpq_driver::Resumption;

use crate::exit::code_of;
use crate::exit::describe;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::USAGE;
use crate::report::Carried;
use crate::report::ConnReport;
use crate::signals::StopRequests;

pub use args::ClientArgs;
pub use paths::PathLog;
use remembered::Remembered;
use remembered::Trust;

/// How often paths are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// What `early_data_reason` says of 0-RTT that the server took.
const EARLY_DATA_ACCEPTED: u32 = 2;

/// The connections of one run of a command.
pub struct Session<'a> {
    args: &'a ClientArgs,
    client: Client,
    stop: StopRequests,
    began: Instant,
    log: PathLog,
    next_sample: Instant,
    remembered: Option<Remembered>,
    trust: Trust,
    origins: Vec<Origin>,
}

/// A connection, and the server it is to.
struct Origin {
    key: ConnKey,
    pair: Pair,
    is_early: bool,
    report: ConnReport,
}

impl<'a> Session<'a> {
    /// A session without connections, where `what` is of interest. SIGINT and SIGTERM end it from now on.
    pub fn new(args: &'a ClientArgs, what: Carried) -> Result<Self, Failure> {
        let settings = args.settings()?;
        let trust = Trust::new(&settings.verify);
        // Says it better if a file of authorities is none.
        let client = Client::new(settings)?;
        let waker = client.waker();
        let stop = StopRequests::watch(move || waker.wake())
            .map_err(|e| Failure::new(LOCAL, format!("signals: {e}")))?;
        let began = Instant::now();
        Ok(Session {
            args,
            client,
            stop,
            began,
            log: PathLog::new(began, what),
            next_sample: began + SAMPLE_INTERVAL,
            remembered: match &args.session {
                Some(file) => Some(Remembered::read(file)?),
                None => None,
            },
            trust: trust?,
            origins: Vec::new(),
        })
    }

    /// When the session began; path samples count from here.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// What the paths have carried, as of the last sample.
    pub fn log(&self) -> &PathLog {
        &self.log
    }

    /// The connection `key`, unless it is over. It is served in the next
    /// [`Session::step`].
    pub fn conn_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.client.conn_mut(key)
    }

    /// Whether the connection `key` is not over.
    pub fn has(&self, key: ConnKey) -> bool {
        self.client.conn(key).is_some()
    }

    /// Connects to the server of `url`, racing its addresses and ours.
    pub fn connect(&mut self, url: &Url) -> Result<ConnKey, Failure> {
        let remotes = match self.args.connect_to.as_slice() {
            [] => url::resolve(url)?,
            given => given.to_vec(),
        };
        let host = url::host_name(url);
        let server = format!("{host}:{}", url.port().unwrap_or(443));
        let resumption = self
            .remembered
            .as_ref()
            .map(|remembered| remembered.resumption(&server, &self.trust))
            .unwrap_or_default();

        let delay = Duration::from_millis(self.args.attempt_delay);
        let race = Race::begin(&mut self.client, &host, &remotes, delay, resumption);
        self.check_named()?;
        let mut race = race?;
        let mut has_begun = false;
        loop {
            match race.step(&mut self.client) {
                Ok(None) => {}
                Ok(Some((winner, pair))) => {
                    self.note_single_path(winner);
                    self.follow(server, winner, pair, false);
                    return Ok(winner);
                }
                Err(RaceError::Client(error)) => return Err(error.into()),
                Err(RaceError::Closed(reason)) => {
                    return Err(Failure::new(code_of(&reason), describe(&reason)))
                }
                Err(error) => return Err(Failure::new(NETWORK, format!("{host}: {error}"))),
            }
            if let Some((key, pair)) = race.begun_at(0).filter(|_| !has_begun) {
                has_begun = true;
                if let Some(remembered) = &mut self.remembered {
                    remembered.token_is_used(&server);
                }
                if self.goes_early(&server, key, &pair)? {
                    self.follow(server, key, pair, true);
                    return Ok(key);
                }
            }
            self.step(race.next_timer())?;
        }
    }

    /// Whether the request can go with the first packets: where everything is as it was the last time, no other
    /// address needs to be tried.
    fn goes_early(&mut self, server: &str, key: ConnKey, pair: &Pair) -> Result<bool, Failure> {
        let remembered = self.remembered.as_ref();
        if !remembered.is_some_and(|remembered| remembered.is_same_network(server, pair)) {
            return Ok(false);
        }
        self.step(Some(Instant::now()))?;
        let conn = self.client.conn(key);
        Ok(conn.is_some_and(|conn| conn.quic.is_in_early_data()))
    }

    fn follow(&mut self, server: String, key: ConnKey, pair: Pair, is_early: bool) {
        self.log.follow(key);
        if let Some(remembered) = &self.remembered {
            let with = self.args.measured_with();
            for (local, remote, omega) in remembered.impacts(&server, &with, now_s()) {
                self.client.recall(key, *local, *remote, *omega);
            }
        }
        self.origins.push(Origin {
            key,
            pair,
            is_early,
            report: ConnReport {
                server,
                resumed: false,
                early_data: None,
            },
        });
    }

    /// What is to be said of each connection.
    pub fn connections(&self) -> Vec<ConnReport> {
        self.origins
            .iter()
            .map(|origin| origin.report.clone())
            .collect()
    }

    /// What the user named may come later, but not all of it.
    fn check_named(&self) -> Result<(), Failure> {
        let Some(facts) = self.client.facts() else {
            return Ok(());
        };
        let missing: Vec<String> = facts.missing().map(ToString::to_string).collect();
        if missing.len() == self.args.only.len() && !missing.is_empty() {
            let missing = missing.join(", ");
            return Err(Failure::new(
                USAGE,
                format!(
                    "--path {missing}: neither an address nor an interface with one; \
                     see `ip address`"
                ),
            ));
        }
        if !self.args.quiet {
            for name in missing {
                eprintln!("mpq: note: {name} has no address here yet; it is used when it has");
            }
        }
        Ok(())
    }

    fn note_single_path(&self, key: ConnKey) {
        if self.args.only.len() < 2 || self.args.quiet || self.args.is_single_path() {
            return;
        }
        let Some(conn) = self.client.conn(key) else {
            return;
        };
        if !conn.is_multipath() {
            eprintln!("mpq: note: the server does not do multipath; using one path");
        } else if conn.quic.max_path_id() == Some(0) {
            eprintln!("mpq: note: the server allows no further path; using one path");
        }
    }

    /// Asks for `url` on the connection `key`, with further header fields.
    pub fn get(
        &mut self,
        key: ConnKey,
        url: &Url,
        headers: Vec<(String, String)>,
        sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        self.client.request(key, request("GET", url, headers), sink)
    }

    /// Sends `request` with a body of `length` bytes on the connection `key`.
    pub fn send(
        &mut self,
        key: ConnKey,
        request: Request,
        body: Box<dyn Body>,
        length: u64,
        sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        let client = &mut self.client;
        client.request_with_body(key, request, body, length, sink)
    }

    /// Tells the path manager of a connection an impact factor that an earlier one found.
    pub fn recall(&mut self, key: ConnKey, local: IpAddr, remote: SocketAddr, omega: f64) {
        self.client.recall(key, local, remote, omega);
    }

    /// Cancels a request; its sink is told in the next [`Session::step`].
    pub fn cancel(&mut self, key: ConnKey, id: RequestId) {
        self.client.cancel(key, id);
    }

    /// Lets the connections work until something happens, at most until
    /// `until` or the next sample of the paths. Returns whether one was taken.
    pub fn step(&mut self, until: Option<Instant>) -> Result<bool, Failure> {
        let limit = until.map_or(self.next_sample, |until| until.min(self.next_sample));
        self.client
            .poll(Some(limit.saturating_duration_since(Instant::now())))
            .map_err(|e| Failure::new(LOCAL, format!("polling failed: {e}")))?;

        if self.stop.count() > 0 {
            return Err(Failure::new(INTERRUPTED, "interrupted"));
        }
        let is_due = Instant::now() >= self.next_sample;
        if is_due {
            self.sample();
            self.next_sample = Instant::now() + SAMPLE_INTERVAL;
        }
        Ok(is_due)
    }

    /// Samples the paths now.
    pub fn sample(&mut self) {
        self.log.sample(&self.client);
        for origin in &mut self.origins {
            let conn = self.client.conn(origin.key);
            if let Some(conn) = conn.filter(|conn| conn.quic.is_established()) {
                origin.report.resumed = conn.quic.is_resumed();
                origin.report.early_data =
                    origin
                        .is_early
                        .then(|| match conn.quic.early_data_reason() {
                            EARLY_DATA_ACCEPTED => "accepted",
                            _ => "rejected",
                        });
            }
        }
    }

    /// Ends the connections, and keeps what they leave if that is asked for.
    pub fn close(&mut self) {
        self.remember();
        // A server that is not told waits for its idle timeout, no more.
        let _ = self.client.close();
    }

    fn remember(&mut self) {
        let Some(remembered) = &mut self.remembered else {
            return;
        };
        for origin in &self.origins {
            let conn = self.client.conn(origin.key);
            if let Some(conn) = conn.filter(|conn| conn.quic.is_established()) {
                let left = Resumption {
                    session: conn.quic.session().map(<[u8]>::to_vec),
                    token: conn.quic.next_token().map(<[u8]>::to_vec),
                };
                let server = &origin.report.server;
                remembered.keep(server, &origin.pair, &self.trust, &left);
                let impacts = conn.impacts().into_iter();
                let impacts = impacts.map(|(_, pair, omega)| (pair.local.ip, pair.remote, omega));
                let with = self.args.measured_with();
                remembered.keep_impacts(server, &with, now_s(), impacts.collect());
            }
        }
        if let Err(failure) = remembered.write() {
            // The files are there, whatever becomes of the next run.
            eprintln!("mpq: {}", failure.message.unwrap_or_default());
        }
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// The header of a request for `url`.
pub fn request(method: &str, url: &Url, headers: Vec<(String, String)>) -> Request {
    Request {
        method: method.into(),
        authority: url::authority(url),
        path: url::path_and_query(url),
        headers,
    }
}
