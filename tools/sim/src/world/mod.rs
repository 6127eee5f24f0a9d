//! One run: an event queue in virtual time, links, and the connections on them.

mod application;
mod attempts;
mod changes;
mod flow_queues;
mod lives;
mod outcome;
mod packets;
mod queue;
mod transit;
mod turn;

use std::hash::Hasher;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::TransportSettings;
use mpq_wire::model::Nanos;
use siphasher::sip::SipHasher13;

pub use self::outcome::Ending;
pub use self::outcome::Outcome;
pub use self::outcome::RunError;
use self::packets::Pool;
use self::queue::Event;
use self::queue::Queue;
use crate::failure::Failure;
use crate::host::Attempt;
use crate::host::ConnectionState;
use crate::host::Host;
use crate::network::Network;
use crate::scenario::Flow;
use crate::scenario::Scenario;
use crate::scenario::Text;
use crate::scenario::Time;
use crate::series::Series;

/// Events between two looks at the flag that ends a run early.
const EVENTS_A_LOOK: u64 = 4096;

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

pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    options: &'a Options<'a>,
    base: Instant,
    pub(crate) now: Nanos,
    end: Nanos,
    gather: Nanos,
    /// One line for each direction of a link, and one for what enters the network.
    queue: Queue,
    sends_endlessly: bool,
    pub(crate) network: Network,
    /// Client and server of each attempt in turn, from when they exist.
    pub(crate) hosts: Vec<Option<Box<Host>>>,
    /// Those that connections begin with, and then others.
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) connections: Vec<ConnectionState>,
    pool: Pool,
    scratch: Vec<u8>,
    /// Connections that came to their end.
    ended: usize,
    /// What ends the run.
    error: Option<RunError>,
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
        let (connections, attempts) = lives::states(scenario, options.seed, base)?;
        Ok(World {
            scenario,
            options,
            base,
            now: 0,
            end: scenario.duration.value.0.as_nanos() as Nanos,
            gather: scenario.gather.value.0.as_nanos() as Nanos,
            queue: Queue::new(network.directions.len() + 1),
            sends_endlessly: false,
            network,
            hosts: (0..2 * attempts.len()).map(|_| None).collect(),
            attempts,
            connections,
            pool: Pool::default(),
            scratch: Vec::new(),
            ended: 0,
            error: None,
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
            self.queue.push(start, Event::Start(i as u32));
            let deadline = start + self.handshake_timeout().as_nanos() as Nanos;
            self.queue
                .push(deadline, Event::HandshakeDeadline(i as u32));
            if let Some(stop) = &self.flow_of(i).stop {
                self.queue
                    .push(stop.value.0.as_nanos() as Nanos, Event::Stop(i as u32));
            }
            for (k, event) in self.flow_of(i).event.iter().enumerate() {
                self.queue
                    .push(nanos(&event.at), Event::Change(i as u32, k as u32));
            }
        }
        let mut series = Series::new(self.scenario, self.options.out, &self)?;
        let sample = self.scenario.sample.value.0.as_nanos() as Nanos;
        self.queue.push(sample, Event::Sample);

        while let Some((at, event)) = self.queue.pop() {
            if at > self.end {
                self.now = self.end;
                break;
            }
            self.now = at;
            if self.sends_endlessly {
                return Err(RunError::Sends(Duration::from_nanos(at)));
            }
            let count = self.queue.next_number();
            if count > self.options.most_events {
                return Err(RunError::Events(
                    self.options.most_events,
                    Duration::from_nanos(at),
                ));
            }
            if count.is_multiple_of(EVENTS_A_LOOK) {
                if self.options.stop.load(Ordering::Relaxed) {
                    return Err(RunError::Interrupted);
                }
                self.options.progress.store(at, Ordering::Relaxed);
            }
            match event {
                Event::Line(line) => {
                    let slot = self.queue.advance(line as usize);
                    self.arrive(slot)?;
                }
                Event::Arrive(slot) => self.arrive(slot)?,
                Event::Turn(link) => self.turn(link as usize),
                Event::Wake(host) => self.on_wake(host as usize),
                Event::Start(connection) => self.start(connection as usize),
                Event::Attempt(connection) => self.on_race_timer(connection as usize),
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
                    series.sample(&mut self)?;
                    self.queue.push(at + sample, Event::Sample);
                }
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.ended == self.connections.len() && !(self.options.linger && self.is_alive()) {
                break;
            }
        }
        self.advance_viewers();
        let metrics = series.finish(&mut self)?;
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
        let hosts = self.hosts;
        let endings = self.connections.into_iter().map(|state| Ending {
            ended: state.ended.map(Duration::from_nanos),
            failure: state.failure,
            has_opened: state.paths.has_opened(),
            is_closed: [0, 1].map(|end| {
                let mut all = state
                    .attempts
                    .iter()
                    .map(|attempt| &hosts[2 * attempt + end]);
                all.all(is_closed)
            }),
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

    fn instant(&self) -> Instant {
        self.base + Duration::from_nanos(self.now)
    }

    fn set_clock(&self) -> Instant {
        let now = self.instant();
        quiche::clock::set(Some(now));
        now
    }
}

/// Whether a host has closed, or never was.
fn is_closed(host: &Option<Box<Host>>) -> bool {
    host.as_ref().is_none_or(|host| host.quic.is_closed())
}

fn nanos(time: &Text<Time>) -> Nanos {
    time.value.0.as_nanos() as Nanos
}
