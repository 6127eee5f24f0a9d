//! What every command that connects to a server shares: its options, its
//! connections, their paths, and how it is interrupted.

mod args;
mod paths;
pub mod response;
pub mod url;

use std::time::Duration;
use std::time::Instant;

use ::url::Url;
use mpq_driver::h3::client::Body;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::Race;
use mpq_driver::h3::client::RaceError;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::RequestId;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::Conn;
use mpq_driver::ConnKey;

use crate::exit::code_of;
use crate::exit::describe;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::USAGE;
use crate::report::Carried;
use crate::signals::StopRequests;

pub use args::ClientArgs;
pub use paths::PathLog;

/// How often paths are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// The connections of one run of a command.
pub struct Session<'a> {
    args: &'a ClientArgs,
    client: Client,
    stop: StopRequests,
    began: Instant,
    log: PathLog,
    next_sample: Instant,
}

impl<'a> Session<'a> {
    /// A session without connections, where `what` is of interest. SIGINT and SIGTERM end it from now on.
    pub fn new(args: &'a ClientArgs, what: Carried) -> Result<Self, Failure> {
        let client = Client::new(args.settings()?)?;
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

    /// Connects to the server of `url`, racing its addresses and ours.
    pub fn connect(&mut self, url: &Url) -> Result<ConnKey, Failure> {
        let remotes = match self.args.connect_to.as_slice() {
            [] => url::resolve(url)?,
            given => given.to_vec(),
        };
        let host = url::host_name(url);
        let resumed = self
            .args
            .session_file
            .as_ref()
            .and_then(|file| std::fs::read(file).ok());

        let delay = Duration::from_millis(self.args.attempt_delay);
        let race = Race::begin(&mut self.client, &host, &remotes, delay, resumed);
        self.check_named()?;
        let mut race = race?;
        loop {
            match race.step(&mut self.client) {
                Ok(None) => {}
                Ok(Some(winner)) => {
                    self.log.follow(winner);
                    self.note_single_path(winner);
                    return Ok(winner);
                }
                Err(RaceError::Client(error)) => return Err(error.into()),
                Err(RaceError::Closed(reason)) => {
                    return Err(Failure::new(code_of(&reason), describe(&reason)))
                }
                Err(error) => return Err(Failure::new(NETWORK, format!("{host}: {error}"))),
            }
            self.step(race.next_timer())?;
        }
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
        if self.args.only.len() < 2 || self.args.quiet {
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
    }

    /// Ends the connections, and keeps the TLS session if that is asked for.
    pub fn close(&mut self) {
        self.keep_tls_session();
        // A server that is not told waits for its idle timeout, no more.
        let _ = self.client.close();
    }

    fn keep_tls_session(&self) {
        let Some(file) = &self.args.session_file else {
            return;
        };
        let session = self
            .log
            .keys()
            .filter_map(|key| self.client.conn(key))
            .find_map(|conn| conn.quic.session());
        if let Some(session) = session {
            if let Err(e) = std::fs::write(file, session) {
                eprintln!("mpq: cannot write {}: {e}", file.display());
            }
        }
    }
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
