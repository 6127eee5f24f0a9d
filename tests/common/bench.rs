//! A scheduler in front of paths whose state the test sets.

use std::time::Instant;

use mpq_decision::registry::Rtt;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::Chosen;
use mpq_decision::sched::Connection;
use mpq_decision::sched::CopyOrder;
use mpq_decision::sched::Event;
use mpq_decision::sched::Moment;
use mpq_decision::sched::PathSet;
use mpq_decision::sched::Pick;
use mpq_decision::sched::Scheduler;
use mpq_decision::sched::StreamKey;
use mpq_decision::sched::View;
use mpq_decision::sched::Why;
use mpq_decision::PathId;
use mpq_decision::PathState;
use mpq_decision::Registry;

use super::MS;
use super::MSS;

/// All schedulers that can repeat what blocks flow control, told to.
pub fn opportunistic() -> impl Iterator<Item = String> {
    sched::SCHEDULERS
        .iter()
        .filter(|entry| entry.params.iter().any(|p| p.name == "opportunistic"))
        .map(|entry| format!("{}:opportunistic=on", entry.name))
}

pub const NEW: Ask = Ask::New {
    stream: StreamKey(0),
};

/// Paths of (RTT in ms, room in packets), window 100 packets; much to send.
pub struct Bench {
    scheduler: Chosen,
    pub paths: Registry,
    pub connection: Connection,
    pub now: Instant,
}

impl Bench {
    /// The scheduler called `name`.
    pub fn new(name: &str, list: &[(u32, u64)]) -> Self {
        let mut paths = Registry::new();
        for (id, (rtt_ms, room)) in list.iter().enumerate() {
            let path = paths.add(PathId(id as u64), MSS);
            path.validated = true;
            path.rtt = Some(Rtt::first(MS * *rtt_ms));
            path.cwnd_bytes = 100 * MSS;
            path.in_flight_bytes = (100 - room) * MSS;
        }
        let connection = Connection {
            unsent_bytes: 1 << 24,
            reassembly_room_bytes: 1 << 40,
            ..Connection::default()
        };
        let scheduler = sched::by_name(name).unwrap();
        Bench {
            scheduler,
            paths,
            connection,
            now: Instant::now(),
        }
    }

    pub fn path(&mut self, id: u64) -> &mut PathState {
        self.paths.get_mut(PathId(id)).unwrap()
    }

    pub fn hold(&mut self, id: u64, ms: u32) {
        self.path(id).pacing_release = Some(self.now + MS * ms);
    }

    pub fn pick(&mut self, ask: Ask) -> Pick {
        self.scheduler
            .pick(self.now, &View::new(&self.paths, &self.connection), &ask)
    }

    /// Whether path `spare` shall carry copies of what `from` has in flight.
    pub fn duplicate(&mut self, spare: u64, from: u64) -> Option<CopyOrder> {
        self.copies(spare, from, Moment::NothingNew)
    }

    /// The same at either moment.
    pub fn copies(&mut self, spare: u64, from: u64, moment: Moment) -> Option<CopyOrder> {
        let view = View::new(&self.paths, &self.connection);
        self.scheduler
            .duplicate(self.now, &view, PathId(spare), PathId(from), moment)
    }

    pub fn copies_first(&self) -> bool {
        self.scheduler.copies_first()
    }

    pub fn next_wake(&self) -> Option<Instant> {
        self.scheduler.next_wake()
    }

    pub fn event(&mut self, event: &Event) {
        let view = View::new(&self.paths, &self.connection);
        self.scheduler.on_event(self.now, &view, event);
    }

    /// Whether new data waits for path 0; else it goes to path 1.
    pub fn waits(&mut self) -> bool {
        match self.pick(NEW) {
            Pick::Wait { on, .. } => {
                assert_eq!(on, PathId(0));
                true
            }
            Pick::Send { path, .. } => {
                assert_eq!(path, PathId(1));
                false
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn sends_on(&mut self, ask: Ask) -> u64 {
        match self.pick(ask) {
            Pick::Send { path, .. } => path.0,
            other => panic!("{other:?}"),
        }
    }
}

/// Data that path `from` lost, or carried in vain.
pub fn again(from: u64, why: Why) -> Ask {
    let mut tried = PathSet::default();
    tried.insert(PathId(from));
    Ask::Retransmit {
        stream: StreamKey(0),
        from: PathId(from),
        tried,
        why,
    }
}
