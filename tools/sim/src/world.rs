//! One run: an event queue in virtual time, links, and the connections on them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::fs::File;
use std::hash::Hasher;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::multipath;
use mpq_driver::TransportSettings;
use mpq_wire::model;
use mpq_wire::model::Nanos;
use mpq_wire::model::Purpose;
use mpq_wire::model::Seeds;
use siphasher::sip::SipHasher13;

use crate::app;
use crate::decisions::Decisions;
use crate::failure::Failure;
use crate::host;
use crate::host::ClientAddress;
use crate::host::ClientEnd;
use crate::host::ConnectionState;
use crate::host::Host;
use crate::host::NEVER;
use crate::network::Network;
use crate::paths::ClientPaths;
use crate::scenario::End;
use crate::scenario::Flow;
use crate::scenario::Scenario;
use crate::scenario::Text;
use crate::scenario::Time;
use crate::scenario::Way;
use crate::scenario::What;
use crate::series::Series;
use crate::viewer;
use crate::viewer::Viewer;

/// Room for a datagram; larger than any that the connections send.
const SLOT: usize = 1500;

/// The code of a clean end on the wire: HTTP/3's H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;

/// The stream of an upload.
const UPLOAD: u64 = 0;

/// The streams of what goes the other way, of client and server.
const OTHER_WAY: [u64; 2] = [2, 3];

/// Events between two looks at the flag that ends a run early.
const EVENTS_A_LOOK: u64 = 4096;

/// Datagrams that a host may send at one moment: more than any window holds, and too few to fill the
/// memory with. A connection that goes beyond never comes to an end of sending.
const MOST_AT_ONCE: u32 = 1 << 18;

/// What a run needs besides the scenario.
pub struct Options<'a> {
    /// The folder that traces are relative to.
    pub folder: &'a Path,
    pub seed: u64,
    /// Where series and qlog go; without it neither is written.
    pub out: Option<&'a Path>,
    /// Whether to write qlog.
    pub qlog: bool,
    /// Ends the run early when set.
    pub stop: &'a AtomicBool,
    /// Simulated nanoseconds so far, for those who watch.
    pub progress: &'a AtomicU64,
    /// Whether to go on, up to the scenario's duration, until both ends of every connection have
    /// closed, in place of until every flow has ended.
    pub linger: bool,
    /// A run that takes more events fails: it turns on the spot. Some 10 are a packet's.
    pub most_events: u64,
}

/// What came out of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long it was.
    pub simulated: Duration,
    /// By their names in `docs/scenarios.md`.
    pub metrics: BTreeMap<String, f64>,
    /// Packets that were sent.
    pub packets: u64,
    /// Hash over time, sender, path and size of each.
    pub packet_log: u64,
}

impl Outcome {
    /// A run that could not begin.
    pub(crate) fn failed(reason: String) -> Outcome {
        Outcome {
            failure: Some(reason),
            simulated: Duration::ZERO,
            metrics: BTreeMap::new(),
            packets: 0,
            packet_log: 0,
        }
    }
}

/// What became of one connection.
#[derive(Debug)]
pub struct Ending {
    /// When its flow ended; `None` if it never did.
    pub ended: Option<Duration>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Whether the client ever opened another path than that of the handshake, which it can do once
    /// the handshake is confirmed.
    pub has_opened: bool,
    /// Whether client and server have closed, or never began.
    pub is_closed: [bool; 2],
}

/// A run that did not come to an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
    /// A file could not be written.
    #[error("cannot write to {0}: {1}")]
    Write(String, std::io::Error),
    /// The scenario or its files changed since they were checked.
    #[error("{0}")]
    Setup(String),
    /// It took more events than it may.
    #[error("more than {0} events, at {1:?} of simulated time")]
    Events(u64, Duration),
    /// A host had always one more datagram to send.
    #[error("more than {MOST_AT_ONCE} datagrams at once, at {0:?} of simulated time")]
    Sends(Duration),
}

/// Runs `scenario`, which is one case, to its end. The same scenario and seed give the same packets.
pub fn run(scenario: &Scenario, options: &Options) -> Result<Outcome, RunError> {
    run_closely(scenario, options).map(|(outcome, _)| outcome)
}

/// The same, with what became of each connection.
pub fn run_closely(
    scenario: &Scenario,
    options: &Options,
) -> Result<(Outcome, Vec<Ending>), RunError> {
    let base = Instant::now();
    let _reset = Reset;
    quiche::clock::set(Some(base));
    quiche::rand::seed(Some(options.seed));
    World::new(scenario, options, base)?.run()
}

/// Gives the thread back its clock and its random numbers.
struct Reset;

impl Drop for Reset {
    fn drop(&mut self) {
        quiche::clock::set(None);
        quiche::rand::seed(None);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The first packet of this line comes to its end.
    Line(u32),
    /// The packet in this slot, which overtook others, comes to the end of a link.
    Arrive(u32),
    /// A host is to be served.
    Wake(u32),
    /// A connection begins.
    Start(u32),
    /// A connection ends.
    Stop(u32),
    /// This one of its flow's events comes to a connection.
    Change(u32, u32),
    /// A connection has to be established by now.
    HandshakeDeadline(u32),
    Sample,
}

/// A datagram under way, without its bytes.
#[derive(Clone, Copy, Default)]
struct Packet {
    len: u16,
    /// Links passed.
    hop: u8,
    path: u8,
    /// The host that sent it.
    from: u32,
    /// Whence or whither at the client's side.
    client: ClientAddress,
}

/// Slots for packets, which are used again and again.
#[derive(Default)]
struct Pool {
    /// Apart from the bytes, because links look at nothing else and the bytes of thousands do not
    /// fit into a cache.
    packets: Vec<Packet>,
    bufs: Vec<[u8; SLOT]>,
    free: Vec<u32>,
}

impl Pool {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            self.bufs.push([0; SLOT]);
            (self.packets.len() - 1) as u32
        })
    }

    /// A slot with the same packet.
    fn copy(&mut self, slot: u32) -> u32 {
        let copy = self.take();
        self.packets[copy as usize] = self.packets[slot as usize];
        self.bufs[copy as usize] = self.bufs[slot as usize];
        copy
    }
}

/// Packets in the order in which they come to an end: of the direction of a link, or of the way from
/// a host to its first link. Only the first of them is in the event queue.
#[derive(Default)]
struct Line(VecDeque<(Nanos, u64, u32)>);

pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    base: Instant,
    pub(crate) now: Nanos,
    end: Nanos,
    gather: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    event_count: u64,
    sends_endlessly: bool,
    pub(crate) network: Network,
    /// One for each direction of a link, and one for what enters the network.
    lines: Vec<Line>,
    /// Client and server of each connection in turn, from when they exist.
    pub(crate) hosts: Vec<Option<Box<Host>>>,
    pub(crate) connections: Vec<ConnectionState>,
    pool: Pool,
    scratch: Vec<u8>,
    /// Connections that came to their end.
    ended: usize,
    packets: u64,
    log: SipHasher13,
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        options: &'a Options<'a>,
        base: Instant,
    ) -> Result<World<'a>, RunError> {
        let network =
            Network::new(scenario, options.folder, options.seed).map_err(RunError::Setup)?;
        let mut connections = Vec::new();
        for (index, flow) in scenario.flow.iter().enumerate() {
            let names = flow.paths.iter().map(|path| &path.name);
            let routes = names.map(|name| Network::route(scenario, name));
            let routes: Vec<_> = routes.collect::<Result<_, _>>().map_err(RunError::Setup)?;
            let mut draws = Seeds {
                master: options.seed,
                run: 0,
                link: flow.name.clone(),
                way: model::Way::AToB,
            }
            .generator(Purpose::Start);
            for i in 1..=flow.count {
                let name = match flow.count {
                    1 => flow.name.clone(),
                    _ => format!("{}-{i}", flow.name),
                };
                let spread = flow
                    .start_spread
                    .as_ref()
                    .map_or(Duration::ZERO, |s| s.value.0);
                let late = spread.mul_f64(draws.unit());
                let start = flow.start.value.0 + late;
                let viewer = flow.dash.as_ref();
                let viewer = viewer.map(|dash| Viewer::new(dash, base + start));
                connections.push(ConnectionState {
                    name,
                    flow: index,
                    paths: ClientPaths::new(flow, connections.len(), base + start),
                    ends: vec![ClientEnd::default(); flow.paths.len()],
                    routes: routes.clone(),
                    start: start.as_nanos() as Nanos,
                    ended: None,
                    established: None,
                    completed: 0,
                    times: Vec::new(),
                    failure: None,
                    is_main_done: false,
                    is_other_done: flow.other_way.is_none(),
                    next_stream: 0,
                    request: None,
                    next_request: 0,
                    viewer: viewer.transpose().map_err(RunError::Setup)?,
                    decisions: flow.cc_trace.then(Decisions::default),
                });
            }
        }
        Ok(World {
            scenario,
            options,
            base,
            now: 0,
            end: scenario.duration.value.0.as_nanos() as Nanos,
            gather: scenario.gather.value.0.as_nanos() as Nanos,
            events: BinaryHeap::new(),
            event_count: 0,
            sends_endlessly: false,
            lines: (0..=network.directions.len())
                .map(|_| Line::default())
                .collect(),
            network,
            hosts: (0..2 * connections.len()).map(|_| None).collect(),
            connections,
            pool: Pool::default(),
            scratch: Vec::new(),
            ended: 0,
            packets: 0,
            log: SipHasher13::new(),
        })
    }

    pub(crate) fn flow_of(&self, connection: usize) -> &'a Flow {
        &self.scenario.flow[self.connections[connection].flow]
    }

    pub(crate) fn flow_of_state(&self, state: &ConnectionState) -> &'a Flow {
        &self.scenario.flow[state.flow]
    }

    pub(crate) fn flows(&self) -> impl Iterator<Item = &'a Flow> {
        self.scenario.flow.iter()
    }

    fn run(mut self) -> Result<(Outcome, Vec<Ending>), RunError> {
        for i in 0..self.connections.len() {
            let start = self.connections[i].start;
            self.push(start, Event::Start(i as u32));
            let deadline = start + self.handshake_timeout().as_nanos() as Nanos;
            self.push(deadline, Event::HandshakeDeadline(i as u32));
            if let Some(stop) = &self.flow_of(i).stop {
                self.push(stop.value.0.as_nanos() as Nanos, Event::Stop(i as u32));
            }
            for (k, event) in self.flow_of(i).event.iter().enumerate() {
                self.push(nanos(&event.at), Event::Change(i as u32, k as u32));
            }
        }
        let mut series = Series::new(self.scenario, self.options.out, &self)?;
        let sample = self.scenario.sample.value.0.as_nanos() as Nanos;
        self.push(sample, Event::Sample);

        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > self.end {
                self.now = self.end;
                break;
            }
            self.now = at;
            if self.sends_endlessly {
                return Err(RunError::Sends(Duration::from_nanos(at)));
            }
            self.event_count += 1;
            if self.event_count > self.options.most_events {
                return Err(RunError::Events(
                    self.options.most_events,
                    Duration::from_nanos(at),
                ));
            }
            if self.event_count.is_multiple_of(EVENTS_A_LOOK) {
                if self.options.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                self.options.progress.store(at, Ordering::Relaxed);
            }
            match event {
                Event::Line(line) => {
                    let slot = self.advance(line as usize);
                    self.arrive(slot)?;
                }
                Event::Arrive(slot) => self.arrive(slot)?,
                Event::Wake(host) => self.on_wake(host as usize),
                Event::Start(connection) => self.start(connection as usize)?,
                Event::Stop(connection) => self.finish(connection as usize, None),
                Event::HandshakeDeadline(connection) => {
                    let connection = connection as usize;
                    if self.connections[connection].established.is_none() {
                        let timeout = self.handshake_timeout();
                        self.finish(connection, Some(Failure::Handshake(timeout)));
                    }
                }
                Event::Change(connection, k) => self.change(connection as usize, k as usize),
                Event::Sample => {
                    self.advance_viewers();
                    series.sample(&self)?;
                    self.push(at + sample, Event::Sample);
                }
            }
            if self.ended == self.connections.len() && !(self.options.linger && self.is_alive()) {
                break;
            }
        }
        self.advance_viewers();
        let metrics = series.finish(&self)?;
        let failures: Vec<String> = self
            .connections
            .iter()
            .filter_map(|c| {
                c.failure
                    .as_ref()
                    .map(|why| format!("flow {}: {why}", c.name))
            })
            .collect();
        let outcome = Outcome {
            failure: (!failures.is_empty()).then(|| failures.join("; ")),
            simulated: Duration::from_nanos(self.now),
            metrics,
            packets: self.packets,
            packet_log: self.log.finish(),
        };
        let hosts = self.hosts.chunks(2);
        let is_closed: Vec<[bool; 2]> = hosts
            .map(|ends| [0, 1].map(|i| is_closed(&ends[i])))
            .collect();
        let endings = self.connections.into_iter().zip(is_closed);
        let endings = endings.map(|(state, is_closed)| Ending {
            ended: state.ended.map(Duration::from_nanos),
            failure: state.failure,
            has_opened: state.paths.has_opened(),
            is_closed,
        });
        Ok((outcome, endings.collect()))
    }

    /// Whether an end of a connection has not closed.
    fn is_alive(&self) -> bool {
        !self.hosts.iter().all(is_closed)
    }

    /// As the tools have it.
    fn handshake_timeout(&self) -> Duration {
        TransportSettings::default().handshake_timeout
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.event_count += 1;
        self.events.push(Reverse((at, self.event_count, event)));
    }

    /// Lets the packet in `slot` come to the end of a line at `at`.
    fn line_up(&mut self, line: usize, at: Nanos, slot: u32) {
        let waiting = &mut self.lines[line].0;
        if waiting.back().is_some_and(|(last, ..)| at < *last) {
            return self.push(at, Event::Arrive(slot));
        }
        self.event_count += 1;
        if waiting.is_empty() {
            let event = Event::Line(line as u32);
            self.events.push(Reverse((at, self.event_count, event)));
        }
        waiting.push_back((at, self.event_count, slot));
    }

    /// Takes the first packet of a line, whose time it is.
    fn advance(&mut self, line: usize) -> u32 {
        let waiting = &mut self.lines[line].0;
        let (_, _, slot) = waiting.pop_front().expect("its event was there");
        if let Some((at, number, _)) = waiting.front() {
            // With the number that it had from the start, as if it had been queued then.
            let event = Event::Line(line as u32);
            self.events.push(Reverse((*at, *number, event)));
        }
        slot
    }

    fn instant(&self) -> Instant {
        self.base + Duration::from_nanos(self.now)
    }

    fn set_clock(&self) -> Instant {
        let now = self.instant();
        quiche::clock::set(Some(now));
        now
    }

    /// Lets the buffers of all who still watch play up to now.
    fn advance_viewers(&mut self) {
        let now = self.instant();
        let connections = self.connections.iter_mut();
        for state in connections.filter(|state| state.ended.is_none()) {
            if let Some(viewer) = &mut state.viewer {
                viewer.advance(now);
            }
        }
    }

    fn start(&mut self, connection: usize) -> Result<(), RunError> {
        self.set_clock();
        let from = self.connections[connection].ends[0].local;
        let quic = self.connect(connection, true, from)?;
        self.hosts[2 * connection] = Some(Box::new(Host::new(quic, true, connection)));
        self.serve(2 * connection);
        Ok(())
    }

    /// A connection's client or server, with its qlog if that is asked for. The client is at `client`.
    fn connect(
        &self,
        connection: usize,
        is_client: bool,
        client: ClientAddress,
    ) -> Result<quiche::Connection, RunError> {
        let failed = |e: quiche::Error| RunError::Setup(format!("no connection: {e}"));
        let flow = self.flow_of(connection);
        let mut config = host::configuration(flow, is_client).map_err(RunError::Setup)?;
        let is_sender = is_client == (flow.direction == Way::Up);
        let decisions = self.connections[connection].decisions.as_ref();
        if let Some(decisions) = decisions.filter(|_| is_sender) {
            config.set_cc_observer(Some(decisions.observer().0));
        }
        let scid = host::cid(connection, is_client, 0);
        let client = client.on(connection, 0);
        let server = host::address(connection, 0, false);
        let mut quic = match is_client {
            true => quiche::connect(None, &scid, client, server, &mut config),
            false => quiche::accept(&scid, None, server, client, &mut config),
        }
        .map_err(failed)?;
        if let Some(out) = self.options.out.filter(|_| self.options.qlog) {
            let side = if is_client { "client" } else { "server" };
            let name = &self.connections[connection].name;
            let path = out.join(format!("{name}-{side}.sqlog"));
            let file =
                File::create(&path).map_err(|e| RunError::Write(path.display().to_string(), e))?;
            quic.set_qlog(Box::new(BufWriter::new(file)), name.clone(), side.into());
        }
        Ok(quic)
    }

    /// Sends the packet in `slot` into its next link, or hands it over.
    fn arrive(&mut self, slot: u32) -> Result<(), RunError> {
        let packet = &mut self.pool.packets[slot as usize];
        let (from, path, hop, len) = (
            packet.from as usize,
            usize::from(packet.path),
            usize::from(packet.hop),
            usize::from(packet.len),
        );
        packet.hop += 1;
        let connection = from / 2;
        let route = &self.connections[connection].routes[path];
        let links = match from.is_multiple_of(2) {
            true => &route.up,
            false => &route.down,
        };
        let Some(link) = links.get(hop) else {
            return self.deliver(slot, from ^ 1);
        };
        let direction = &mut self.network.directions[*link];
        match direction.offer(self.now, len) {
            Some(due) => {
                let copy = direction.is_duplicated().then(|| self.pool.copy(slot));
                let link = *link;
                self.line_up(link, due, slot);
                if let Some(copy) = copy {
                    self.line_up(link, due, copy);
                }
            }
            None => self.pool.free.push(slot),
        }
        Ok(())
    }

    fn deliver(&mut self, slot: u32, to: usize) -> Result<(), RunError> {
        self.set_clock();
        let connection = to / 2;
        let is_client = to.is_multiple_of(2);
        let packet = self.pool.packets[slot as usize];
        let (path, len) = (usize::from(packet.path), usize::from(packet.len));
        let end = self.connections[connection].ends[path];
        // The NAT knows no other address, and without a carrier nothing comes in.
        if is_client && !(end.has_carrier && packet.client == end.public) {
            self.pool.free.push(slot);
            return Ok(());
        }
        if self.hosts[to].is_none() {
            let quic = self.connect(connection, is_client, packet.client)?;
            self.hosts[to] = Some(Box::new(Host::new(quic, is_client, connection)));
        }
        let host = self.hosts[to].as_mut().expect("was made");
        let server = host::address(connection, path, false);
        let info = match is_client {
            true => quiche::RecvInfo {
                from: server,
                to: end.local.on(connection, path),
            },
            false => quiche::RecvInfo {
                from: packet.client.on(connection, path),
                to: server,
            },
        };
        let traffic = &mut host.traffic[path];
        traffic.received_packets += 1;
        traffic.received_bytes += len as u64;
        if let Err(e) = host
            .quic
            .recv(&mut self.pool.bufs[slot as usize][..len], info)
        {
            if e != quiche::Error::Done {
                host.last_recv_error = Some(e);
            }
        }
        self.pool.free.push(slot);
        let at = host
            .served_at
            .map_or(self.now, |served| self.now.max(served + self.gather));
        self.wake(to, at);
        Ok(())
    }

    /// Makes sure that a host is served at `at`, or before.
    fn wake(&mut self, host: usize, at: Nanos) {
        let Some(state) = self.hosts[host].as_mut().filter(|state| at < state.wake_at) else {
            return;
        };
        self.event_count += 1;
        state.wake_at = at;
        state.wake_number = self.event_count;
        self.queue_wake(host);
    }

    /// Queues a host's next wake, unless an event is queued that comes before it and will do so:
    /// timers move on with every packet, and few of them are ever due.
    fn queue_wake(&mut self, host: usize) {
        let Some(state) = &mut self.hosts[host] else {
            return;
        };
        let (at, number) = (state.wake_at, state.wake_number);
        if at < state.queued.last().copied().unwrap_or(NEVER) {
            state.queued.push(at);
            self.events
                .push(Reverse((at, number, Event::Wake(host as u32))));
        }
    }

    /// A queued wake's time has come.
    fn on_wake(&mut self, host: usize) {
        let Some(state) = &mut self.hosts[host] else {
            return;
        };
        state.queued.pop();
        if state.wake_at == self.now {
            self.serve(host);
        } else {
            self.queue_wake(host);
        }
    }

    /// Timers, events, application, sending; then the next time.
    fn serve(&mut self, index: usize) {
        let now = self.set_clock();
        let Some(mut host) = self.hosts[index].take() else {
            return;
        };
        host.wake_at = NEVER;
        host.served_at = Some(self.now);
        if host.quic.timeout_instant().is_some_and(|at| at <= now) {
            host.quic.on_timeout();
        }
        let application = self.step(&mut host);
        self.send(index, &mut host);
        if host.quic.is_closed() {
            let connection = host.connection;
            let reason = mpq_driver::close_reason(
                &host.quic,
                host.last_recv_error,
                host::address(connection, 0, !host.is_client),
                host::settings(self.flow_of(connection)).idle_timeout,
            );
            self.hosts[index] = Some(host);
            if self.connections[connection].ended.is_none() {
                self.finish(connection, Some(Failure::Closed(reason)));
            }
            return;
        }
        let timer = host.quic.timeout_instant().map_or(NEVER, |at| {
            at.saturating_duration_since(self.base).as_nanos() as Nanos
        });
        // What is due within the gathering time leaves together.
        let release = host
            .held
            .map_or(NEVER, |(_, at, _)| at.saturating_sub(self.gather));
        let next = timer.min(release).min(application);
        self.hosts[index] = Some(host);
        if next < NEVER {
            // A timer that did not move would keep time from passing.
            self.wake(index, next.max(self.now + 1_000));
        }
    }

    /// What the host's own events and its application want. Returns when they want to be asked again.
    fn step(&mut self, host: &mut Host) -> Nanos {
        let connection = host.connection;
        let flow = self.flow_of(connection);
        let now = self.base + Duration::from_nanos(self.now);
        while let Some(event) = host.quic.path_event_next() {
            if host.is_client {
                self.connections[connection].paths.on_event(now, &event);
            }
            let _ = multipath::on_event(&mut host.quic, event);
        }
        if !host.quic.is_established() {
            return NEVER;
        }
        host.supply_cids();
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return NEVER;
        }
        let mut next = NEVER;
        if host.is_client {
            state.established.get_or_insert(self.now);
            let (paths, ends) = (&mut state.paths, &state.ends);
            next = paths.step(&mut host.quic, ends, self.base, self.now);
        }
        if !host.has_begun {
            host.has_begun = true;
            let is_receiver = host.is_client == (flow.direction == Way::Down);
            if let Some(size) = flow.other_way.as_ref().filter(|_| is_receiver) {
                let stream = OTHER_WAY[usize::from(!host.is_client)];
                host.sender.start(stream, size.value.0);
            }
        }
        match (host.is_client, flow.direction) {
            (true, Way::Down) => {
                let viewer = &mut state.viewer;
                let on_data = |stream, bytes| {
                    if let Some(viewer) = viewer {
                        viewer.on_data(stream, bytes);
                    }
                };
                app::read(
                    &mut host.quic,
                    &mut self.scratch,
                    &mut host.received,
                    on_data,
                );
                next = next.min(match flow.dash {
                    Some(_) => self.step_viewer(host),
                    None => self.step_client(host),
                });
                host.sender.pump(&mut host.quic);
            }
            (true, Way::Up) => {
                if state.request.is_none() {
                    let bytes = flow.size.as_ref().map_or(app::ENDLESS, |size| size.value.0);
                    host.sender.start(UPLOAD, bytes);
                    state.request = Some((UPLOAD, self.now));
                }
                host.sender.pump(&mut host.quic);
                let received = &mut host.received;
                app::read(&mut host.quic, &mut self.scratch, received, |_, _| ());
                self.take_uploads(host);
            }
            (false, Way::Down) => {
                let (received, sender) = (&mut host.received, &mut host.sender);
                app::serve(&mut host.quic, &mut self.scratch, received, sender);
                host.sender.pump(&mut host.quic);
                self.take_uploads(host);
            }
            (false, Way::Up) => {
                let received = &mut host.received;
                app::read(&mut host.quic, &mut self.scratch, received, |_, _| ());
                host.sender.pump(&mut host.quic);
                self.take_uploads(host);
            }
        }
        self.judge(host);
        next
    }

    /// Takes note of streams that came to their end and are no responses.
    fn take_uploads(&mut self, host: &mut Host) {
        let flow = self.flow_of(host.connection);
        let state = &mut self.connections[host.connection];
        for (stream, bytes) in std::mem::take(&mut host.received.finished) {
            let is_main = stream == UPLOAD;
            let wanted = if is_main { &flow.size } else { &flow.other_way };
            if let Some(wanted) = wanted.as_ref().map(|size| size.value.0) {
                if bytes != wanted {
                    let failure = Failure::Length {
                        stream,
                        bytes,
                        wanted,
                    };
                    return self.end(host, Some(failure));
                }
            }
            match is_main {
                true => {
                    state.is_main_done = true;
                    state.completed = 1;
                    state.times.push((self.now - state.start) as f64 / 1e9);
                }
                false => state.is_other_done = true,
            }
        }
    }

    /// Ends the connection of a host if what it read is wrong, or if all is there.
    fn judge(&mut self, host: &mut Host) {
        let state = &self.connections[host.connection];
        if state.ended.is_some() {
            return;
        }
        if let Some((stream, offset)) = host.received.wrong {
            self.end(host, Some(Failure::Wrong { stream, offset }));
        } else if state.is_main_done && state.is_other_done {
            self.end(host, None);
        }
    }

    /// The downloading client: sends requests, counts responses.
    fn step_client(&mut self, host: &mut Host) -> Nanos {
        let flow = self.flow_of(host.connection);
        let state = &mut self.connections[host.connection];
        let (bytes, count, pause) = match (&flow.requests, &flow.size) {
            (Some(r), _) => (r.response.value.0, r.count, r.pause.value.0),
            (None, Some(size)) => (size.value.0, Some(1), Duration::ZERO),
            (None, None) => (app::ENDLESS, None, Duration::ZERO),
        };
        for (stream, length) in std::mem::take(&mut host.received.finished) {
            let Some((_, began)) = state.request.take_if(|(under_way, _)| *under_way == stream)
            else {
                continue;
            };
            if length != bytes && bytes != app::ENDLESS {
                let failure = Failure::Length {
                    stream,
                    bytes: length,
                    wanted: bytes,
                };
                self.end(host, Some(failure));
                return NEVER;
            }
            // A transfer's time includes the handshake, a response's does not.
            let from = if flow.requests.is_some() {
                began
            } else {
                state.start
            };
            state.times.push((self.now - from) as f64 / 1e9);
            state.completed += 1;
            state.next_request = self.now + pause.as_nanos() as Nanos;
        }
        if count.is_some_and(|count| state.completed >= count) {
            state.is_main_done = true;
            return NEVER;
        }
        if state.request.is_some() {
            return NEVER;
        }
        if state.next_request > self.now {
            return state.next_request;
        }
        match app::request(&mut host.quic, state.next_stream, bytes) {
            Ok(()) => {
                state.request = Some((state.next_stream, self.now));
                state.next_stream += 4;
                NEVER
            }
            // The peer's limit on streams: it grows with what comes from the peer.
            Err(_) => NEVER,
        }
    }

    /// The DASH client.
    fn step_viewer(&mut self, host: &mut Host) -> Nanos {
        let now = self.instant();
        let state = &mut self.connections[host.connection];
        // Which streams ended follows from their sizes.
        host.received.finished.clear();
        let Some(viewer) = &mut state.viewer else {
            return NEVER;
        };
        match viewer.step(&mut host.quic, &mut state.next_stream, now) {
            Ok(viewer::Next::At(at)) => at.saturating_duration_since(self.base).as_nanos() as Nanos,
            Ok(viewer::Next::Over) => {
                state.completed = 1;
                state.is_main_done = true;
                NEVER
            }
            Err(e) => {
                self.end(host, Some(Failure::Player(e.to_string())));
                NEVER
            }
        }
    }

    /// Ends the connection of a host that has all it wants, or that cannot go on.
    fn end(&mut self, host: &mut Host, failure: Option<Failure>) {
        let state = &mut self.connections[host.connection];
        state.ended = Some(self.now);
        state.failure = failure;
        self.ended += 1;
        let _ = host.quic.close(true, NO_ERROR, b"");
    }

    /// The `k`-th event of its flow comes to a connection.
    fn change(&mut self, connection: usize, k: usize) {
        let flow = self.flow_of(connection);
        let event = &flow.event[k];
        let Some(path) = flow.paths.iter().position(|path| path.name == event.path) else {
            return;
        };
        let index = 2 * connection + usize::from(event.by == End::Server);
        let at = self.base + Duration::from_nanos(self.now);
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return;
        }
        if event.what == What::Rebind {
            let end = &mut state.ends[path];
            end.public = end.public.next_port();
            return;
        }
        self.set_clock();
        let Some(mut host) = self.hosts[index].take() else {
            return;
        };
        let state = &mut self.connections[connection];
        match event.what {
            What::Rebind => {}
            What::CarrierLost => {
                state.ends[path].has_carrier = false;
                state.paths.go(at, path, &state.ends[path]);
            }
            What::CarrierBack => {
                state.ends[path].has_carrier = true;
                state.paths.come(at, path, &state.ends[path]);
            }
            What::NewAddress => {
                state.paths.go(at, path, &state.ends[path]);
                let end = &mut state.ends[path];
                end.local = end.local.next_ip();
                end.public = end.local;
                end.has_carrier = true;
                state.paths.come(at, path, end);
            }
            What::Open => state.paths.come(at, path, &state.ends[path]),
            What::Abandon if host.is_client => state.paths.leave(at, path, &state.ends[path]),
            What::Abandon => {
                if let Some(id) = path_id(&host, path) {
                    let _ = multipath::leave(&mut host.quic, id);
                }
            }
            What::Backup | What::Available => {
                if let Some(id) = path_id(&host, path) {
                    let is_backup = event.what == What::Backup;
                    // It may be on its way out.
                    let _ = multipath::set_status(&mut host.quic, id, is_backup);
                }
            }
        }
        self.hosts[index] = Some(host);
        self.serve(index);
    }

    /// Sends what may be sent, and keeps one packet that is to leave later.
    fn send(&mut self, index: usize, host: &mut Host) {
        let due = self.now + self.gather;
        for sent in 0u32.. {
            if sent > MOST_AT_ONCE {
                self.sends_endlessly = true;
                return;
            }
            let (slot, path) = match host.held.take() {
                Some((slot, at, path)) if at > due => {
                    host.held = Some((slot, at, path));
                    return;
                }
                Some((slot, _, path)) => (slot, path),
                None => {
                    let slot = self.pool.take();
                    let buf = &mut self.pool.bufs[slot as usize];
                    let Ok((len, info)) = host.quic.send(buf) else {
                        self.pool.free.push(slot);
                        return;
                    };
                    let Some(path) = host::path_between(info.from, info.to) else {
                        // No link joins addresses of two paths.
                        self.pool.free.push(slot);
                        continue;
                    };
                    let client = if host.is_client { info.from } else { info.to };
                    self.pool.packets[slot as usize] = Packet {
                        len: len as u16,
                        hop: 0,
                        path: path as u8,
                        from: index as u32,
                        client: ClientAddress::of(client),
                    };
                    let at = info.at.saturating_duration_since(self.base).as_nanos() as Nanos;
                    if at > due {
                        host.held = Some((slot, at, path));
                        return;
                    }
                    (slot, path)
                }
            };
            let packet = &mut self.pool.packets[slot as usize];
            let len = packet.len;
            if host.is_client {
                let end = &self.connections[host.connection].ends[path];
                // Nothing leaves from an address that is gone.
                if !(end.has_carrier && packet.client == end.local) {
                    self.pool.free.push(slot);
                    continue;
                }
                packet.client = end.public;
            }
            let traffic = &mut host.traffic[path];
            traffic.sent_packets += 1;
            traffic.sent_bytes += u64::from(len);
            self.packets += 1;
            self.log.write_u64(self.now);
            self.log
                .write_u64((index as u64) << 32 | (path as u64) << 16 | u64::from(len));
            self.line_up(self.network.directions.len(), self.now, slot);
        }
    }

    /// Ends a connection, with the reason if it failed.
    fn finish(&mut self, connection: usize, failure: Option<Failure>) {
        let now = self.instant();
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return;
        }
        if let Some(viewer) = &mut state.viewer {
            viewer.advance(now);
        }
        state.ended = Some(self.now);
        self.ended += 1;
        let is_clean = failure.is_none();
        state.failure = failure;
        self.set_clock();
        let client = 2 * connection;
        if let Some(host) = self.hosts[client].as_mut().filter(|_| is_clean) {
            let _ = host.quic.close(true, NO_ERROR, b"");
            self.serve(client);
        }
    }
}

/// Whether a host has closed, or never was.
fn is_closed(host: &Option<Box<Host>>) -> bool {
    host.as_ref().is_none_or(|host| host.quic.is_closed())
}

/// The ID under which a host uses a path now.
fn path_id(host: &Host, path: usize) -> Option<u64> {
    let mut all = host.quic.path_stats();
    let stats = all.find(|stats| stats.active && host::path_of(stats.local_addr) == Some(path));
    stats.map(|stats| stats.path_id)
}

fn nanos(time: &Text<Time>) -> Nanos {
    time.value.0.as_nanos() as Nanos
}
