//! What the live page, its JSON and the metrics show: paths, origins, requests, and what happened.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::ConnKey;
use mpq_driver::PathSnapshot;
use quiche::PathHealth;
use quiche::PathStatus;
use serde::Serialize;

/// How often paths are looked at.
pub const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Samples that are kept of each path: a minute.
const HISTORY: usize = 120;

/// Events that are kept.
const EVENTS: usize = 50;

/// What both sides write and the page reads.
pub struct Shared {
    began: Instant,
    /// Controller and scheduler of what is sent.
    algorithms: String,
    is_quiet: bool,
    /// Requests.
    pub counters: Counters,
    state: Mutex<State>,
}

/// Numbers of requests since the start.
#[derive(Default)]
pub struct Counters {
    /// Begun.
    pub requests: AtomicU64,
    /// Of them, over by now.
    pub finished: AtomicU64,
    /// Answered by the proxy itself, as the origin could not be reached (5xx).
    pub failed: AtomicU64,
    /// Not let in (4xx of the proxy).
    pub refused: AtomicU64,
    /// Sent once more, as the connection was lost before the response.
    pub retried: AtomicU64,
    /// Responses that went on over another connection.
    pub resumed: AtomicU64,
}

#[derive(Default)]
struct State {
    origins: Vec<OriginState>,
    events: VecDeque<Event>,
}

#[derive(Default)]
struct OriginState {
    url: String,
    addresses: Vec<String>,
    link: Link,
    is_multipath: Option<bool>,
    why: Option<String>,
    connections: u64,
    lost: u64,
    paths: Vec<PathState>,
    unused: Vec<String>,
    /// Body bytes that came over TCP.
    tcp_bytes: u64,
}

/// How an origin is reached.
#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Nobody has asked for it lately.
    #[default]
    Idle,
    /// A handshake is under way.
    Connecting,
    /// By HTTP/3.
    Connected,
    /// By HTTP/2 or HTTP/1.1, over TCP.
    Fallback,
    /// Not at all.
    Unreachable,
}

/// A path as the transport has it.
pub struct Sampled {
    /// Its connection.
    pub conn: ConnKey,
    /// The name of its interface, if that is known.
    pub interface: Option<String>,
    /// Somebody let it stand by.
    pub is_paused: bool,
    /// Its figures.
    pub path: PathSnapshot,
}

/// All connections' paths between two addresses.
struct PathState {
    local: IpAddr,
    peer: SocketAddr,
    conn: ConnKey,
    last: PathReport,
    /// Of connections before this one.
    base: [u64; 3],
    history: VecDeque<Sample>,
    seen_at: Instant,
    /// The state that the user knows of.
    told: &'static str,
}

/// Milliseconds since the start, and bytes received and sent by then.
type Sample = (u64, u64, u64);

/// What the page shows of a path.
#[derive(Clone, Serialize, Debug)]
pub struct PathReport {
    /// Path ID (RFC 10069) in the present connection.
    pub id: u64,
    /// Our address.
    pub local: String,
    /// Of our address.
    pub interface: Option<String>,
    /// The origin's address and port.
    pub peer: String,
    /// `opening`, `carries`, `backup`, `paused`, `suspect`, `failed`, `recovering` or `gone`.
    pub state: &'static str,
    /// Somebody let it stand by.
    pub is_paused: bool,
    /// Smoothed round-trip time.
    pub rtt_ms: f64,
    /// Congestion window of what we send.
    pub cwnd_bytes: u64,
    /// Packets we sent that were declared lost.
    pub lost_packets: u64,
    /// UDP payload received, over all connections.
    pub recv_bytes: u64,
    /// UDP payload sent, over all connections.
    pub sent_bytes: u64,
    /// Received in the last two seconds.
    pub recv_bps: f64,
    /// Sent in the last two seconds.
    pub sent_bps: f64,
    /// Of what all paths of the origin received in the last two seconds.
    pub share: f64,
    /// Milliseconds since the start, and bytes received and sent by then.
    pub history: Vec<Sample>,
}

/// Something that happened.
#[derive(Clone, Serialize, Debug)]
pub struct Event {
    /// Since the start.
    pub ms: u64,
    /// What.
    pub text: String,
}

/// What the page shows of an origin.
#[derive(Serialize, Debug)]
pub struct OriginReport {
    /// `https://HOST[:PORT]`.
    pub origin: String,
    /// Where browsers find it.
    pub addresses: Vec<String>,
    /// How it is reached.
    pub link: Link,
    /// Whether the server agreed to several paths, once it was asked.
    pub multipath: Option<bool>,
    /// Why it is not reached as it should be.
    pub why: Option<String>,
    /// QUIC connections so far.
    pub connections: u64,
    /// Of them, broken under way.
    pub lost_connections: u64,
    /// Body bytes that came over TCP.
    pub tcp_bytes: u64,
    /// Every path of the last minute.
    pub paths: Vec<PathReport>,
    /// Why there are no others.
    pub unused: Vec<String>,
}

/// Numbers of requests.
#[derive(Serialize, Debug)]
pub struct RequestReport {
    /// Begun.
    pub total: u64,
    /// Begun and not over.
    pub running: u64,
    /// Answered with an error of the proxy's own, as the origin could not be reached.
    pub failed: u64,
    /// Not let in.
    pub refused: u64,
    /// Sent once more.
    pub retried: u64,
    /// Responses that went on over another connection.
    pub resumed: u64,
}

/// Everything, as `/.mpq/status.json` has it.
#[derive(Serialize, Debug)]
pub struct Report {
    /// Milliseconds since the start.
    pub now_ms: u64,
    /// Congestion controller of what is sent.
    pub controller: String,
    /// Packet scheduler of what is sent.
    pub scheduler: String,
    /// Requests since the start.
    pub requests: RequestReport,
    /// Every origin, in the order given.
    pub origins: Vec<OriginReport>,
    /// The last of what happened, oldest first.
    pub events: Vec<Event>,
}

impl Shared {
    /// For origins with these URLs, found at these addresses, and a controller and a scheduler. Says what happens on standard error unless `is_quiet`.
    pub fn new(origins: Vec<(String, Vec<String>)>, algorithms: String, is_quiet: bool) -> Shared {
        let origins = origins.into_iter().map(|(url, addresses)| OriginState {
            url,
            addresses,
            ..Default::default()
        });
        Shared {
            began: Instant::now(),
            algorithms,
            is_quiet,
            counters: Counters::default(),
            state: Mutex::new(State {
                origins: origins.collect(),
                events: VecDeque::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Figures are good whatever happened to who wrote them.
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// Tells the user, on standard error and on the page.
    pub fn say(&self, text: impl Into<String>) {
        let text = text.into();
        if !self.is_quiet {
            eprintln!("mpq: {text}");
        }
        let ms = self.ms();
        let events = &mut self.lock().events;
        events.push_back(Event { ms, text });
        if events.len() > EVENTS {
            events.pop_front();
        }
    }

    /// A handshake with an origin begins.
    pub fn connecting(&self, index: usize) {
        let origin = &mut self.lock().origins[index];
        if origin.link != Link::Fallback {
            origin.link = Link::Connecting;
        }
    }

    /// There is a QUIC connection.
    pub fn connected(&self, index: usize, is_multipath: bool) {
        let mut state = self.lock();
        let origin = &mut state.origins[index];
        origin.connections += 1;
        origin.link = Link::Connected;
        origin.is_multipath = Some(is_multipath);
        let is_first = origin.connections == 1;
        let url = origin.url.clone();
        let one_path = "the server does not do multipath; using one path";
        origin.why = (!is_multipath).then(|| one_path.into());
        drop(state);
        match (is_multipath, is_first) {
            (true, true) => self.say(format!("connected to {url} by HTTP/3, multipath")),
            (true, false) => self.say(format!("connected to {url} again")),
            (false, _) => self.say(format!("connected to {url} by HTTP/3; {one_path}")),
        }
    }

    /// Nobody needs the connection that there was, or the next request makes another one.
    pub fn idle(&self, index: usize) {
        self.lock().origins[index].link = Link::Idle;
    }

    /// A QUIC connection is over while something was under way.
    pub fn lost(&self, index: usize, why: &str) {
        let mut state = self.lock();
        let origin = &mut state.origins[index];
        origin.lost += 1;
        let url = origin.url.clone();
        drop(state);
        self.say(format!("the connection to {url} is lost: {why}"));
    }

    /// There is no QUIC connection.
    pub fn refused(&self, index: usize, why: &str) {
        let mut state = self.lock();
        let origin = &mut state.origins[index];
        let is_news = origin.why.as_deref() != Some(why);
        origin.why = Some(why.into());
        if origin.link != Link::Fallback {
            origin.link = Link::Unreachable;
        }
        let url = origin.url.clone();
        drop(state);
        if is_news {
            self.say(format!("no HTTP/3 with {url}: {why}"));
        }
    }

    /// An origin is reached over TCP instead, by this protocol.
    pub fn fell_back(&self, index: usize, protocol: &str) {
        let mut state = self.lock();
        let origin = &mut state.origins[index];
        let is_news = origin.link != Link::Fallback;
        origin.link = Link::Fallback;
        let url = origin.url.clone();
        drop(state);
        if is_news {
            self.say(format!(
                "using {protocol} over TCP for {url}, one path, until HTTP/3 works"
            ));
        }
    }

    /// So many bytes of bodies came over TCP.
    pub fn came_over_tcp(&self, index: usize, bytes: usize) {
        self.lock().origins[index].tcp_bytes += bytes as u64;
    }

    /// The paths of an origin as they are now, and why there are no others.
    pub fn sample(&self, index: usize, sampled: Vec<Sampled>, unused: Vec<String>) {
        let now = Instant::now();
        let ms = self.ms();
        let mut said = Vec::new();
        let mut state = self.lock();
        let origin = &mut state.origins[index];
        origin.unused = unused;
        for sampled in &sampled {
            let (local, peer) = (sampled.path.local.ip(), sampled.path.peer);
            let same = |path: &&mut PathState| path.local == local && path.peer == peer;
            match origin.paths.iter_mut().find(same) {
                Some(path) => path.update(sampled, now),
                None => origin.paths.push(PathState::new(sampled, now)),
            }
        }
        for path in &mut origin.paths {
            if path.seen_at != now {
                path.last.state = "gone";
            }
            let [recv, sent] = [path.last.recv_bytes, path.last.sent_bytes];
            path.history.push_back((ms, recv, sent));
            if path.history.len() > HISTORY {
                path.history.pop_front();
            }
            said.extend(path.news());
        }
        let lasts = SAMPLE_INTERVAL * HISTORY as u32;
        origin.paths.retain(|path| now - path.seen_at < lasts);
        drop(state);
        for text in said {
            self.say(text);
        }
    }

    /// Whether the figures of paths change although there is no connection: they run out.
    pub fn is_changing(&self) -> bool {
        let state = self.lock();
        state.origins.iter().any(|origin| !origin.paths.is_empty())
    }

    /// Everything.
    pub fn report(&self) -> Report {
        let count = |counter: &AtomicU64| counter.load(SeqCst);
        let counters = &self.counters;
        let finished = count(&counters.finished);
        let total = count(&counters.requests);
        let requests = RequestReport {
            total,
            running: total.saturating_sub(finished),
            failed: count(&counters.failed),
            refused: count(&counters.refused),
            retried: count(&counters.retried),
            resumed: count(&counters.resumed),
        };
        let (controller, scheduler) = self.algorithms.split_once(' ').unwrap_or_default();
        let state = self.lock();
        Report {
            now_ms: self.ms(),
            controller: controller.into(),
            scheduler: scheduler.into(),
            requests,
            origins: state.origins.iter().map(OriginState::report).collect(),
            events: state.events.iter().cloned().collect(),
        }
    }
}

impl OriginState {
    fn report(&self) -> OriginReport {
        let mut paths: Vec<PathReport> = self.paths.iter().map(PathState::report).collect();
        let all: f64 = paths.iter().map(|path| path.recv_bps).sum();
        for path in &mut paths {
            path.share = if all > 0.0 { path.recv_bps / all } else { 0.0 };
        }
        OriginReport {
            origin: self.url.clone(),
            addresses: self.addresses.clone(),
            link: self.link,
            multipath: self.is_multipath,
            why: self.why.clone(),
            connections: self.connections,
            lost_connections: self.lost,
            tcp_bytes: self.tcp_bytes,
            paths,
            unused: self.unused.clone(),
        }
    }
}

impl PathState {
    fn new(sampled: &Sampled, now: Instant) -> PathState {
        let path = &sampled.path;
        let mut state = PathState {
            local: path.local.ip(),
            peer: path.peer,
            conn: sampled.conn,
            last: PathReport {
                id: path.path_id,
                local: path.local.ip().to_string(),
                interface: None,
                peer: path.peer.to_string(),
                state: "opening",
                is_paused: false,
                rtt_ms: 0.0,
                cwnd_bytes: 0,
                lost_packets: 0,
                recv_bytes: 0,
                sent_bytes: 0,
                recv_bps: 0.0,
                sent_bps: 0.0,
                share: 0.0,
                history: Vec::new(),
            },
            base: [0; 3],
            history: VecDeque::new(),
            seen_at: now,
            told: "",
        };
        state.update(sampled, now);
        state
    }

    fn update(&mut self, sampled: &Sampled, now: Instant) {
        let path = &sampled.path;
        let last = &mut self.last;
        if (self.conn, last.id) != (sampled.conn, path.path_id) {
            // Of several at a time between two addresses, the newest counts from what the others had.
            self.base = [last.recv_bytes, last.sent_bytes, last.lost_packets];
            self.conn = sampled.conn;
        }
        last.id = path.path_id;
        last.interface = sampled.interface.clone().or(last.interface.take());
        last.is_paused = sampled.is_paused;
        last.rtt_ms = path.rtt.as_secs_f64() * 1e3;
        last.cwnd_bytes = path.cwnd_bytes;
        last.recv_bytes = self.base[0] + path.recv_bytes;
        last.sent_bytes = self.base[1] + path.sent_bytes;
        last.lost_packets = self.base[2] + path.lost;
        self.seen_at = now;
        last.history = Vec::new();
        last.state = state_of(sampled);
    }

    /// What to say of a change since the last sample.
    fn news(&mut self) -> Option<String> {
        let name = match &self.last.interface {
            Some(interface) => format!("{interface} ({})", self.local),
            None => self.local.to_string(),
        };
        let now = self.last.state;
        let before = std::mem::replace(&mut self.told, now);
        let what = match (before, now) {
            (before, now) if before == now => return None,
            (_, "carries") => "carries data",
            (_, "failed") => "has failed; its data takes the other paths",
            (_, "paused") => "is paused",
            (_, "gone") => "is gone",
            _ => return None,
        };
        Some(format!("path over {name} {what}"))
    }

    fn report(&self) -> PathReport {
        let mut report = self.last.clone();
        report.history = self.history.iter().copied().collect();
        let end = report.history.last().copied().unwrap_or_default();
        let begin = report
            .history
            .iter()
            .rev()
            .find(|(ms, ..)| end.0 - ms >= 2000)
            .or(report.history.first())
            .copied()
            .unwrap_or_default();
        let seconds = (end.0 - begin.0) as f64 / 1e3;
        if seconds > 0.0 {
            report.recv_bps = (end.1 - begin.1) as f64 * 8.0 / seconds;
            report.sent_bps = (end.2 - begin.2) as f64 * 8.0 / seconds;
        }
        report
    }
}

fn state_of(sampled: &Sampled) -> &'static str {
    let path = &sampled.path;
    match path.health {
        PathHealth::Suspect => "suspect",
        PathHealth::Failed => "failed",
        PathHealth::Recovering => "recovering",
        PathHealth::Healthy if !path.is_validated => "opening",
        PathHealth::Healthy if sampled.is_paused => "paused",
        PathHealth::Healthy if path.status == PathStatus::Backup => "backup",
        PathHealth::Healthy if path.peer_status == PathStatus::Backup => "backup",
        PathHealth::Healthy => "carries",
    }
}
