//! The thread that has the QUIC connections.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Pair;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::Race;
use mpq_driver::h3::client::RaceError;
use mpq_driver::h3::client::RequestId;
use mpq_driver::CloseReason;
use mpq_driver::ConnKey;
use mpq_driver::Resumption;
use quiche::PathStatus;
use tokio::sync::oneshot;

use super::exchange::Nudge;
use super::exchange::Sink;
use super::exchange::Upload;
use super::Command;
use super::Line;
use super::Lost;
use super::Outgoing;
use super::Refused;
use super::Server;
use crate::client::remembered::Remembered;
use crate::client::remembered::Trust;
use crate::client::ClientArgs;
use crate::exit::describe;
use crate::exit::Failure;
use crate::exit::NETWORK;
use crate::exit::TLS;
use crate::proxy::status::Sampled;
use crate::proxy::status::Shared;
use crate::proxy::status::SAMPLE_INTERVAL;
use crate::report::UnusedPath;

/// A connection that nobody asks for anything is kept for so long: the film is paused, the page is read.
const KEPT: Duration = Duration::from_secs(300);

/// The longest silence on a connection that is kept: NATs forget, too.
const MAX_SILENCE: Duration = Duration::from_secs(15);

/// Nothing to do at all: then it waits for commands.
const ASLEEP: Duration = Duration::from_secs(60);

pub(super) struct Worker {
    args: ClientArgs,
    client: Client,
    line: Line,
    origins: Vec<Origin>,
    is_up: Arc<[AtomicBool]>,
    status: Arc<Shared>,
    /// Requests under way.
    running: HashMap<u64, (ConnKey, RequestId)>,
    paused: BTreeSet<IpAddr>,
    next_sample: Instant,
    remembered: Option<Remembered>,
    trust: Trust,
}

struct Origin {
    host: String,
    server: String,
    race: Option<Race>,
    conn: Option<Live>,
    /// Those that the server wants to leave, and their last responses.
    leaving: Vec<ConnKey>,
    waiting: Vec<oneshot::Sender<Result<(), Refused>>>,
    /// For the next connection.
    resumption: Resumption,
}

struct Live {
    key: ConnKey,
    pair: Pair,
    nudge: Arc<Nudge>,
    used_at: Instant,
    ping_at: Instant,
}

impl Worker {
    pub(super) fn new(
        args: ClientArgs,
        servers: &[Server],
        is_up: Arc<[AtomicBool]>,
        status: Arc<Shared>,
        commands: mpsc::Sender<Command>,
    ) -> Result<Worker, Failure> {
        let mut settings = args.settings()?;
        // A browser's request may be one that must not be sent again by somebody else.
        settings.transport.early_data = false;
        let trust = Trust::new(&settings.verify);
        let client = Client::new(settings)?;
        let waker = client.waker();
        let wake = Arc::new(move || {
            // The thread may just be ending.
            let _ = waker.wake();
        });
        let remembered = match &args.session {
            Some(file) => Some(Remembered::read(file)?),
            None => None,
        };
        let trust = trust?;
        let origins = servers.iter().map(|server| {
            let name = format!("{}:{}", server.host, server.port);
            let kept = remembered.as_ref();
            Origin {
                host: server.host.clone(),
                race: None,
                conn: None,
                leaving: Vec::new(),
                waiting: Vec::new(),
                resumption: kept
                    .map(|kept| kept.resumption(&name, &trust))
                    .unwrap_or_default(),
                server: name,
            }
        });
        Ok(Worker {
            origins: origins.collect(),
            args,
            client,
            line: Line { commands, wake },
            is_up,
            status,
            running: HashMap::new(),
            paused: BTreeSet::new(),
            next_sample: Instant::now(),
            remembered,
            trust,
        })
    }

    pub(super) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Works until it is told to stop.
    pub(super) fn run(&mut self, orders: &mpsc::Receiver<Command>) {
        loop {
            self.look_at_connections();
            while let Ok(command) = orders.try_recv() {
                match command {
                    Command::Connect {
                        origin,
                        remotes,
                        reply,
                    } => self.connect(origin, &remotes, reply),
                    Command::Send(outgoing) => self.send(*outgoing),
                    Command::Cancel(id) => {
                        if let Some((key, request)) = self.running.remove(&id) {
                            self.client.cancel(key, request);
                        }
                    }
                    Command::Resume(nudge) => {
                        nudge.is_under_way.store(false, SeqCst);
                        self.client.resume(nudge.key);
                    }
                    Command::Pause { local, is_paused } => self.pause(local, is_paused),
                    Command::Stop => return self.stop(),
                }
            }
            self.look_at_connections();
            self.sample();
            self.keep_alive();
            let wait = self
                .next_deadline()
                .saturating_duration_since(Instant::now());
            if let Err(e) = self.client.poll(Some(wait)) {
                self.status.say(format!("polling failed: {e}"));
                return;
            }
        }
    }

    /// Brings races forward, and finds out which connections are over.
    fn look_at_connections(&mut self) {
        for index in 0..self.origins.len() {
            if let Some(mut race) = self.origins[index].race.take() {
                match race.step(&mut self.client) {
                    Ok(None) => self.origins[index].race = Some(race),
                    Ok(Some((key, pair))) => self.connected(index, key, pair),
                    Err(error) => {
                        let refused = refused(error);
                        self.refuse(index, refused);
                    }
                }
            }

            for key in self.origins[index].keys() {
                let Some(reason) = self.client.close_reason(key) else {
                    continue;
                };
                // Nobody misses one that was idle.
                if self.running.values().any(|(of, _)| *of == key) {
                    self.status.lost(index, &describe(&reason));
                }
                self.client.forget(key);
                self.origins[index].leaving.retain(|other| *other != key);
                self.give_up(index, key);
            }
            let live = self.origins[index].conn.as_ref().map(|live| live.key);
            if let Some(key) = live.filter(|key| self.client.is_leaving(*key)) {
                self.origins[index].leaving.push(key);
                self.give_up(index, key);
            }
        }
    }

    /// Makes no further requests on the connection `key`.
    fn give_up(&mut self, index: usize, key: ConnKey) {
        let origin = &mut self.origins[index];
        if origin.conn.as_ref().is_some_and(|live| live.key == key) {
            origin.conn = None;
            self.is_up[index].store(false, SeqCst);
            self.status.idle(index);
        }
    }

    fn connect(
        &mut self,
        index: usize,
        remotes: &[SocketAddr],
        reply: oneshot::Sender<Result<(), Refused>>,
    ) {
        let origin = &mut self.origins[index];
        if origin.conn.is_some() {
            // Who asked may have gone.
            let _ = reply.send(Ok(()));
            return;
        }
        origin.waiting.push(reply);
        if origin.race.is_some() {
            return;
        }
        let delay = Duration::from_millis(self.args.attempt_delay);
        let resumption = Resumption {
            session: origin.resumption.session.clone(),
            // Good once.
            token: origin.resumption.token.take(),
        };
        if let Some(remembered) = &mut self.remembered {
            remembered.token_is_used(&origin.server);
        }
        self.status.connecting(index);
        let race = Race::begin(&mut self.client, &origin.host, remotes, delay, resumption);
        match (race, self.missing()) {
            (_, Some(missing)) => self.refuse(index, missing),
            (Ok(race), None) => self.origins[index].race = Some(race),
            (Err(error), None) => self.refuse(index, refused(RaceError::Client(error))),
        }
    }

    /// What to say if nothing of what `--path` names is there.
    fn missing(&self) -> Option<Refused> {
        let missing = self.client.facts()?.missing().map(ToString::to_string);
        let missing: Vec<String> = missing.collect();
        let is_all = missing.len() == self.args.only.len() && !missing.is_empty();
        is_all.then(|| Refused {
            why: format!(
                "--path {}: neither an address nor an interface with one; see `ip address`",
                missing.join(", ")
            ),
            is_tls: false,
            is_silence: false,
        })
    }

    fn connected(&mut self, index: usize, key: ConnKey, pair: Pair) {
        let now = Instant::now();
        let origin = &mut self.origins[index];
        origin.conn = Some(Live {
            key,
            pair,
            nudge: Nudge::new(key, self.line.clone()),
            used_at: now,
            ping_at: now + MAX_SILENCE,
        });
        let is_multipath = self.client.conn(key).is_some_and(|conn| {
            conn.is_multipath() && conn.quic.max_path_id().is_none_or(|max| max > 0)
        });
        self.status.connected(index, is_multipath);
        self.next_sample = now;
        self.is_up[index].store(true, SeqCst);
        for reply in std::mem::take(&mut origin.waiting) {
            // Who asked may have gone.
            let _ = reply.send(Ok(()));
        }
    }

    fn refuse(&mut self, index: usize, refused: Refused) {
        self.status.refused(index, &refused.why);
        for reply in std::mem::take(&mut self.origins[index].waiting) {
            // Who asked may have gone.
            let _ = reply.send(Err(refused.clone()));
        }
    }

    fn send(&mut self, outgoing: Outgoing) {
        let Some(live) = &mut self.origins[outgoing.origin].conn else {
            // Who asked may have gone.
            let _ = outgoing.head.send(Err(Lost::NotSent));
            outgoing.body.end(Err(Lost::NotSent));
            if let Some((pipe, _)) = outgoing.upload {
                pipe.abandon();
            }
            return;
        };
        live.used_at = Instant::now();
        let key = live.key;
        let transport = Waker::from(live.nudge.clone());
        let sink = Box::new(Sink {
            head: Some(outgoing.head),
            body: outgoing.body,
            trailers: None,
            transport: transport.clone(),
        });
        let request = match outgoing.upload {
            None => self.client.request(key, outgoing.request, sink),
            Some((pipe, length)) => {
                let body = Box::new(Upload { pipe, transport });
                let (client, request) = (&mut self.client, outgoing.request);
                match length {
                    Some(length) => client.request_with_body(key, request, body, length, sink),
                    None => client.request_with_stream(key, request, body, sink),
                }
            }
        };
        self.running.insert(outgoing.id, (key, request));
    }

    fn pause(&mut self, local: IpAddr, is_paused: bool) {
        match is_paused {
            true => self.paused.insert(local),
            false => self.paused.remove(&local),
        };
        let status = match is_paused {
            true => PathStatus::Backup,
            false => PathStatus::Available,
        };
        for index in 0..self.origins.len() {
            for key in self.origins[index].keys() {
                self.set_status(key, local, status);
            }
        }
        self.next_sample = Instant::now();
    }

    fn set_status(&mut self, key: ConnKey, local: IpAddr, status: PathStatus) {
        let Some(conn) = self.client.conn_mut(key) else {
            return;
        };
        let paths = conn.paths().into_iter();
        let paths = paths.filter(|path| path.local.ip() == local && path.status != status);
        for path in paths.collect::<Vec<_>>() {
            // It may be on its way out.
            if let Err(e) = conn.quic.set_path_status(path.path_id, status) {
                log::debug!("path {}: {e}", path.path_id);
            }
        }
    }

    /// Looks at every path, and keeps what the next connection can use.
    fn sample(&mut self) {
        let now = Instant::now();
        if now < self.next_sample {
            return;
        }
        self.next_sample = now + SAMPLE_INTERVAL;
        // Changes are seen in the paths themselves.
        self.client.take_path_changes();

        for index in 0..self.origins.len() {
            let keys = self.origins[index].keys();
            // Paths that came since.
            for local in self.paused.clone() {
                for key in &keys {
                    self.set_status(*key, local, PathStatus::Backup);
                }
            }
            let facts = self.client.facts();
            let interface = |ip: IpAddr| {
                let known = facts?.addresses().iter().find(|a| a.local.ip == ip)?;
                Some(known.interface.clone())
            };
            let mut sampled = Vec::new();
            let mut unused = Vec::new();
            for key in keys {
                let Some(conn) = self.client.conn(key) else {
                    continue;
                };
                let paths = conn.paths().into_iter().map(|path| Sampled {
                    conn: key,
                    interface: interface(path.local.ip()),
                    is_paused: self.paused.contains(&path.local.ip()),
                    path,
                });
                sampled.extend(paths);
                let reasons = conn.unused_paths();
                unused = reasons
                    .iter()
                    .map(UnusedPath::from)
                    .map(|unused| unused.to_string())
                    .collect();
            }
            self.status.sample(index, sampled, unused);

            let live = self.origins[index].conn.as_ref();
            if let Some(conn) = live.and_then(|live| self.client.conn(live.key)) {
                let left = Resumption {
                    session: conn.quic.session().map(<[u8]>::to_vec),
                    token: conn.quic.next_token().map(<[u8]>::to_vec),
                };
                self.origins[index].resumption = left;
            }
        }
    }

    /// Keeps connections that somebody may want soon.
    fn keep_alive(&mut self) {
        let now = Instant::now();
        for origin in &mut self.origins {
            let Some(live) = &mut origin.conn else {
                continue;
            };
            let is_busy = self.running.values().any(|(key, _)| *key == live.key);
            if is_busy {
                live.used_at = now;
            }
            if now < live.ping_at || now >= live.used_at + KEPT {
                continue;
            }
            if let Some(conn) = self.client.conn_mut(live.key) {
                conn.keep_alive();
                let pause = conn.idle_timeout().map_or(MAX_SILENCE, |idle| idle / 3);
                live.ping_at = now + pause.min(MAX_SILENCE);
            }
        }
    }

    fn next_deadline(&self) -> Instant {
        let now = Instant::now();
        let races = self.origins.iter().filter_map(|origin| {
            let race = origin.race.as_ref()?;
            // A race without a timer waits for packets, and for handshakes to fail.
            Some(race.next_timer().unwrap_or(now + SAMPLE_INTERVAL))
        });
        let pings = self.origins.iter().filter_map(|origin| {
            let live = origin.conn.as_ref()?;
            (now < live.used_at + KEPT).then_some(live.ping_at)
        });
        let is_shown =
            self.origins.iter().any(|origin| origin.conn.is_some()) || self.status.is_changing();
        let sample = is_shown.then_some(self.next_sample);
        let next = races.chain(pings).chain(sample).min();
        next.unwrap_or(now + ASLEEP)
    }

    fn stop(&mut self) {
        if let Some(remembered) = &mut self.remembered {
            for origin in &self.origins {
                if let Some(live) = &origin.conn {
                    remembered.keep(&origin.server, &live.pair, &self.trust, &origin.resumption);
                }
            }
            if let Err(failure) = remembered.write() {
                self.status.say(failure.message.unwrap_or_default());
            }
        }
        // A server that is not told waits for its idle timeout, no more.
        let _ = self.client.close();
    }
}

impl Origin {
    fn keys(&self) -> Vec<ConnKey> {
        let live = self.conn.iter().map(|live| live.key);
        live.chain(self.leaving.iter().copied()).collect()
    }
}

/// What a race ended with, as it is told.
fn refused(error: RaceError) -> Refused {
    let is_silence = matches!(
        &error,
        RaceError::Closed(reason) if matches!(**reason, CloseReason::HandshakeTimeout { .. })
    );
    let failure = match error {
        RaceError::Client(error) => Failure::from(error),
        RaceError::Closed(reason) => Failure::new(crate::exit::code_of(&reason), describe(&reason)),
        error => Failure::new(NETWORK, error),
    };
    Refused {
        is_tls: failure.code == TLS,
        why: failure.message.unwrap_or_default(),
        is_silence,
    }
}
