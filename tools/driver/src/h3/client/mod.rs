//! An HTTP/3 client: any number of requests on any number of connections.

mod names;
mod race;
mod request;
mod session;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mio::Waker;
use mpq_decision::paths;
use mpq_decision::paths::Attempts;
use mpq_decision::paths::Local;
use mpq_decision::paths::Manager;
use mpq_decision::paths::Pair;
use mpq_decision::paths::RemoteSource;

use self::names::Names;
pub use self::race::Race;
pub use self::race::RaceError;
pub use self::request::Request;
pub use self::request::RequestError;
pub use self::request::RequestId;
pub use self::request::ResponseHead;
pub use self::request::ResponseSink;
use self::session::Session;
use self::session::Sessions;
use self::session::Waiting;
use crate::config;
use crate::endpoint::ConnectError;
use crate::facts::source_for;
use crate::facts::Facts;
use crate::facts::Selection;
pub use crate::h3::body::Body;
use crate::h3::CHUNK_BYTES;
use crate::h3::H3_NO_ERROR;
use crate::CloseReason;
use crate::ConfigError;
use crate::Conn;
use crate::ConnKey;
use crate::ConnectOptions;
use crate::Endpoint;
use crate::PathChange;
use crate::Resumption;
use crate::SendStats;
use crate::SocketOptions;
use crate::TransportSettings;

/// How the server's certificate is judged.
#[derive(Clone, Debug, Default)]
pub enum Verify {
    /// By the system's authorities and, if given, those of a PEM file.
    #[default]
    System,

    /// By the authorities of this PEM file, and the system's.
    Ca(String),

    /// It must be the certificate with this SHA-256 fingerprint.
    Pin([u8; 32]),

    /// Not at all.
    None,
}

/// A client's settings.
#[derive(Clone, Debug, Default)]
pub struct ClientSettings {
    /// Transport parameters and algorithms.
    pub transport: TransportSettings,
    /// Certificate checks.
    pub verify: Verify,
    /// Local addresses.
    pub locals: Selection,
    /// Which paths a connection has.
    pub paths: paths::Choice,
    /// Socket buffers and offload.
    pub sockets: SocketOptions,
}

/// HTTP/3 connections, driven by [`Client::poll`].
pub struct Client {
    endpoint: Endpoint,
    settings: ClientSettings,
    logs_keys: bool,
    /// Once a server beyond loopback is to be reached, or addresses are named.
    facts: Option<Facts>,
    /// Addresses of the server of each connection.
    remotes: HashMap<ConnKey, Vec<SocketAddr>>,
    sessions: Sessions,
    names: Names,
    next_request: u64,
}

impl Client {
    /// A client without connections.
    pub fn new(settings: ClientSettings) -> Result<Client, ClientError> {
        let pin = match settings.verify {
            Verify::Pin(fingerprint) => Some(fingerprint),
            _ => None,
        };
        // Finds wrong settings before anything else happens.
        configure(&settings, None)?;

        let endpoint = Endpoint::new(settings.sockets.clone())?;
        Ok(Client {
            names: Names::new(endpoint.waker()),
            endpoint,
            settings,
            logs_keys: false,
            facts: None,
            remotes: HashMap::new(),
            sessions: Sessions {
                pin,
                chunk: vec![0; CHUNK_BYTES],
                ..Default::default()
            },
            next_request: 0,
        })
    }

    /// Writes TLS secrets for debugging tools to the file that the environment
    /// variable `SSLKEYLOGFILE` names; connections made later do so.
    pub fn log_keys(&mut self) {
        self.logs_keys = true;
    }

    /// Makes a running [`Client::poll`] return, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.endpoint.waker()
    }

    /// Begins a connection to the server at `peer`, whose certificate must be
    /// for `server_name`, a host name or an IP address. Requests may be made at once. `resumption` is
    /// what an earlier connection to it has left.
    pub fn connect(
        &mut self,
        server_name: &str,
        peer: SocketAddr,
        resumption: Option<Resumption>,
    ) -> Result<ConnKey, ClientError> {
        let pairs = self.handshake_pairs(&[peer])?;
        self.connect_over(server_name, pairs[0], &[peer], resumption)
    }

    /// Where a handshake with the server at `remotes`, in the resolver's order,
    /// may run. [`Race`] tries them one after the other.
    ///
    /// # Errors
    /// If there is no way to any of them. There is at least one pair otherwise.
    pub fn handshake_pairs(&mut self, remotes: &[SocketAddr]) -> Result<Vec<Pair>, ClientError> {
        let manager = self.manager(remotes)?;
        self.pairs_of(&manager, remotes)
    }

    /// The attempts at a handshake with the server at `remotes`; `link_delay` is that of
    /// [`Race::begin`].
    fn attempts(
        &mut self,
        remotes: &[SocketAddr],
        link_delay: Duration,
    ) -> Result<Attempts, ClientError> {
        let manager = self.manager(remotes)?;
        let pairs = self.pairs_of(&manager, remotes)?;
        Ok(manager.attempts(&pairs, link_delay))
    }

    fn pairs_of(
        &self,
        manager: &Manager,
        remotes: &[SocketAddr],
    ) -> Result<Vec<Pair>, ClientError> {
        let mut pairs = manager.handshake_pairs(remotes);
        if !pairs.is_empty() {
            return Ok(pairs);
        }

        if !self.settings.locals.only.is_empty() {
            return Err(ConnectError::OtherFamily.into());
        }

        // Nothing that is known leads there: as the kernel likes.
        let mut error = None;
        for &remote in remotes {
            match source_for(remote) {
                Ok(ip) => pairs.push(Pair {
                    local: Local { if_index: 0, ip },
                    remote,
                }),
                Err(e) => {
                    error = Some(ConnectError::NoRoute {
                        peer: remote,
                        error: e,
                    })
                }
            }
        }
        match error {
            Some(error) if pairs.is_empty() => Err(error.into()),
            _ => Ok(pairs),
        }
    }

    /// A path manager that knows the addresses of this host and of the server.
    fn manager(&mut self, remotes: &[SocketAddr]) -> Result<Manager, ClientError> {
        let now = Instant::now();
        let mut manager = Manager::new(&self.settings.paths);
        // Nothing but loopback reaches loopback.
        let is_local = remotes.iter().all(|remote| remote.ip().is_loopback());
        if is_local && self.settings.locals.only.is_empty() {
            return Ok(manager);
        }

        let facts = match &mut self.facts {
            Some(facts) => facts,
            None => {
                let facts = Facts::new(self.settings.locals.clone(), now)?;
                if let Some(fd) = facts.fd() {
                    self.endpoint.watch(fd)?;
                }
                self.facts.insert(facts)
            }
        };
        for address in facts.addresses() {
            manager.on_event(now, paths::Event::LocalAddr(address.clone()));
        }
        for &addr in remotes {
            let source = facts.other_source(addr).map(paths::Event::LocalAddr);
            for event in source.into_iter().chain([facts.route(addr)]) {
                manager.on_event(now, event);
            }
        }
        Ok(manager)
    }

    /// What is known of this host's addresses; `None` before the first
    /// connection, and as long as none needs it.
    pub fn facts(&self) -> Option<&Facts> {
        self.facts.as_ref()
    }

    /// The same as [`Client::connect`], but where the handshake runs is given,
    /// and all addresses of the server that are known.
    pub fn connect_over(
        &mut self,
        server_name: &str,
        pair: Pair,
        remotes: &[SocketAddr],
        resumption: Option<Resumption>,
    ) -> Result<ConnKey, ClientError> {
        let mut manager = self.manager(remotes)?;
        for &addr in remotes {
            let source = RemoteSource::Resolved;
            manager.on_event(Instant::now(), paths::Event::RemoteAddr { addr, source });
        }

        let ip = server_name.parse::<IpAddr>().ok();
        let mut config = configure(&self.settings, ip)?;
        if self.logs_keys {
            config.log_keys();
        }

        let transport = &self.settings.transport;
        let key = self.endpoint.connect(
            ConnectOptions {
                // SNI is for names only (RFC 6066, section 3).
                server_name: ip.is_none().then(|| server_name.into()),
                pair,
                manager,
                handshake_timeout: transport.handshake_timeout,
                idle_timeout: transport.idle_timeout,
                resumption: resumption.unwrap_or_default(),
                qlog: transport.qlog.clone(),
            },
            &mut config,
        )?;
        self.sessions.by_key.insert(key, Session::default());
        self.remotes.insert(key, remotes.to_vec());
        Ok(key)
    }

    /// Sends `request` on the connection `key` as soon as possible. If the
    /// connection is over, `sink` is told at once.
    pub fn request(
        &mut self,
        key: ConnKey,
        request: Request,
        sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        self.enqueue(key, request, None, sink)
    }

    /// The same with a body of `length` bytes, which is also the value of `content-length`. A request
    /// with a body is not sent as early data.
    pub fn request_with_body(
        &mut self,
        key: ConnKey,
        mut request: Request,
        body: Box<dyn Body>,
        length: u64,
        sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        let field = ("content-length".into(), length.to_string());
        request.headers.push(field);
        self.enqueue(key, request, Some((body, Some(length))), sink)
    }

    /// The same with a body of which nobody knows the length.
    pub fn request_with_stream(
        &mut self,
        key: ConnKey,
        request: Request,
        body: Box<dyn Body>,
        sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        self.enqueue(key, request, Some((body, None)), sink)
    }

    /// Asks sinks and bodies of the connection `key` again that had no room, or nothing to send.
    pub fn resume(&mut self, key: ConnKey) {
        self.endpoint.conn_mut(key);
    }

    fn enqueue(
        &mut self,
        key: ConnKey,
        request: Request,
        body: Option<(Box<dyn Body>, Option<u64>)>,
        mut sink: Box<dyn ResponseSink>,
    ) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;

        match self.sessions.by_key.get_mut(&key) {
            Some(session) => {
                session.waiting.push_back(Waiting {
                    id,
                    request,
                    body,
                    sink,
                });
                self.endpoint.conn_mut(key);
            }
            None => {
                let reason = self.sessions.closed.get(&key).cloned();
                let reason = reason.unwrap_or_else(|| {
                    Arc::new(CloseReason::ByUs {
                        app: true,
                        code: H3_NO_ERROR,
                        reason: String::new(),
                    })
                });
                sink.on_end(Err(RequestError::Connection(reason)));
            }
        }
        id
    }

    /// Cancels a request; its sink is told in the next [`Client::poll`]. Has
    /// no effect on a request that is over.
    pub fn cancel(&mut self, key: ConnKey, id: RequestId) {
        if let Some(session) = self.sessions.by_key.get_mut(&key) {
            session.cancelled.push(id);
            self.endpoint.conn_mut(key);
        }
    }

    /// The connection `key`, unless it is over.
    pub fn conn(&self, key: ConnKey) -> Option<&Conn> {
        self.endpoint.conn(key)
    }

    /// The connection `key`, to change it.
    pub fn conn_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.endpoint.conn_mut(key)
    }

    /// Tells the path manager of the connection `key` something. What the system
    /// knows of addresses it is told anyway.
    pub fn tell(&mut self, key: ConnKey, event: paths::Event) {
        self.endpoint.tell(key, event);
    }

    /// Tells the path manager of the connection `key` an impact factor that an earlier one found.
    pub fn recall(&mut self, key: ConnKey, local: IpAddr, remote: SocketAddr, omega: f64) {
        let conn = self.endpoint.conn_mut(key);
        if let Some(manager) = conn.and_then(|conn| conn.manager.as_mut()) {
            manager.recall(local, remote, omega);
        }
    }

    /// Why the connection `key` is over, if it is.
    pub fn close_reason(&self, key: ConnKey) -> Option<Arc<CloseReason>> {
        self.sessions.closed.get(&key).cloned()
    }

    /// Whether the server of the connection `key` takes no further requests on it (GOAWAY).
    pub fn is_leaving(&self, key: ConnKey) -> bool {
        let session = self.sessions.by_key.get(&key);
        session.is_some_and(|session| session.is_leaving)
    }

    /// Lets go of the reason why the connection `key` is over, which is kept otherwise.
    pub fn forget(&mut self, key: ConnKey) {
        self.sessions.closed.remove(&key);
        self.remotes.remove(&key);
    }

    /// How sending has gone so far.
    pub fn send_stats(&self) -> SendStats {
        self.endpoint.send_stats()
    }

    /// The path changes since the last call, oldest first.
    pub fn take_path_changes(&mut self) -> Vec<(ConnKey, PathChange)> {
        std::mem::take(&mut self.sessions.path_changes)
    }

    /// Waits for something to happen, at most `max_wait`, and deals with it:
    /// sinks are called from here.
    pub fn poll(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        let now = Instant::now();
        let until_facts = self
            .facts
            .as_ref()
            .map(|facts| facts.deadline().saturating_duration_since(now));
        let max_wait = max_wait.into_iter().chain(until_facts).min();

        self.endpoint.poll(max_wait, &mut self.sessions)?;
        self.resolve_alternatives();
        self.look_at_facts();
        Ok(())
    }

    /// Has the hosts resolved that servers named, and passes on what was found.
    fn resolve_alternatives(&mut self) {
        for question in std::mem::take(&mut self.sessions.questions) {
            if let Err(e) = self.names.ask(question) {
                log::debug!("cannot resolve an alternative: {e}");
            }
        }
        while let Some((key, addr)) = self.names.next() {
            let source = RemoteSource::Named;
            self.endpoint
                .tell(key, paths::Event::RemoteAddr { addr, source });
        }
    }

    /// Passes on what became different with this host's addresses and routes.
    fn look_at_facts(&mut self) {
        let Some(facts) = &mut self.facts else {
            return;
        };
        let changes = facts.poll(Instant::now(), self.endpoint.take_news());
        if changes.is_empty() {
            return;
        }
        self.remotes
            .retain(|key, _| self.endpoint.conn(*key).is_some());
        for (&key, remotes) in &self.remotes {
            let routes = remotes.iter().map(|remote| facts.route(*remote));
            for event in changes.iter().cloned().chain(routes) {
                self.endpoint.tell(key, event);
            }
        }
    }

    /// Closes every connection, tells the servers, and does not wait for them.
    pub fn close(&mut self) -> io::Result<()> {
        for key in self.endpoint.conn_keys() {
            if let Some(conn) = self.endpoint.conn_mut(key) {
                // Done means that it is closing already.
                let _ = conn.quic.close(true, H3_NO_ERROR, b"");
            }
        }
        self.endpoint.poll(Some(Duration::ZERO), &mut self.sessions)
    }
}

/// The configuration of a connection to a server known by name or by `ip`.
fn configure(settings: &ClientSettings, ip: Option<IpAddr>) -> Result<quiche::Config, ConfigError> {
    let transport = &settings.transport;
    let mut config = match (&settings.verify, ip) {
        (Verify::Pin(_) | Verify::None, _) => transport.to_quiche_without_authorities()?,
        (_, Some(ip)) => transport.to_quiche_for_ip(ip)?,
        (_, None) => transport.to_quiche()?,
    };
    match &settings.verify {
        Verify::System => config.verify_peer(true),
        Verify::Ca(file) => {
            config::trust_ca(&mut config, file)?;
            config.verify_peer(true);
        }
        Verify::Pin(_) | Verify::None => config.verify_peer(false),
    }
    // Servers open no requests.
    config.set_initial_max_streams_bidi(0);
    Ok(config)
}

/// Why a client cannot start, or not connect.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The settings are wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// The connection cannot even begin.
    #[error(transparent)]
    Connect(#[from] ConnectError),

    /// The system refuses something basic.
    #[error("cannot set up the event loop: {0}")]
    Io(#[from] io::Error),
}
