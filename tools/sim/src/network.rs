//! Links and the ways through them.

use std::path::Path as FilePath;
use std::time::Duration;

use mpq_wire::model;
use mpq_wire::model::Change;
use mpq_wire::model::Direction;
use mpq_wire::model::DirectionConfig;
use mpq_wire::model::FairDirection;
use mpq_wire::model::Fate;
use mpq_wire::model::Generator;
use mpq_wire::model::Nanos;
use mpq_wire::model::Purpose;
use mpq_wire::model::Seeds;
use mpq_wire::model::ETHERNET_HEADER;
use quiche::EcnCodepoint;

use crate::scenario::load_trace;
use crate::scenario::Aqm;
use crate::scenario::Link;
use crate::scenario::Path;
use crate::scenario::Scenario;
use crate::scenario::Way;

/// IPv4 and UDP headers, which rate and queue of a link see besides the datagram, in bytes.
const HEADER_BYTES: u64 = 28;

/// The same with IPv6.
const HEADER_BYTES_IPV6: u64 = 48;

impl Link {
    /// One-way delay.
    pub(crate) fn delay(&self, way: Way) -> Duration {
        let own = self.direction(way).delay.map(|delay| delay.value.0);
        let half = self.rtt.as_ref().map(|rtt| rtt.value.0 / 2);
        own.or(half).unwrap_or_default()
    }

    /// Delay there and back.
    pub(crate) fn round_trip(&self) -> Duration {
        self.delay(Way::Up) + self.delay(Way::Down)
    }
}

impl Scenario {
    /// The links of a path, the client's first: index, and whether data that goes up passes it from
    /// its first node to its second. An error says where the path does not hang together.
    pub(crate) fn orient(&self, path: &Path) -> Result<Vec<(usize, bool)>, String> {
        let find = |name: &String| {
            let index = self.link.iter().position(|link| link.name == *name);
            index.ok_or_else(|| format!("there is no link \"{name}\""))
        };
        let links = path
            .links
            .iter()
            .map(find)
            .collect::<Result<Vec<usize>, String>>()?;
        let ends = |i: usize| self.link[links[i]].nodes.as_ref();
        let mut oriented = Vec::with_capacity(links.len());
        // Where the last link led to.
        let mut at: Option<&String> = None;
        for (i, link) in links.iter().enumerate() {
            let Some([a, b]) = ends(i) else {
                oriented.push((*link, true));
                at = None;
                continue;
            };
            let forward = match (at, links.get(i + 1).and_then(|_| ends(i + 1))) {
                (Some(at), _) if at == a => true,
                (Some(at), _) if at == b => false,
                (Some(at), _) => {
                    return Err(format!(
                        "link \"{}\" does not begin at \"{at}\", where the one before it ends",
                        path.links[i]
                    ))
                }
                (None, Some(next)) if next.contains(b) => true,
                (None, Some(next)) if next.contains(a) => false,
                (None, _) => true,
            };
            at = Some(if forward { b } else { a });
            oriented.push((*link, forward));
        }
        Ok(oriented)
    }

    /// The path of a name, which may be a link's.
    fn path_named(&self, name: &str) -> Path {
        let path = self.path.iter().find(|path| path.name == name).cloned();
        path.unwrap_or_else(|| Path {
            name: name.to_owned(),
            links: vec![name.to_owned()],
        })
    }
}

/// What went through a link's direction so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCounters {
    /// IP bytes that reached the other end, or will.
    pub delivered_bytes: u64,
    /// Packets that found no room, or that queue management dropped.
    pub queue_drops: u64,
    /// Packets lost by chance, because the link was down, or because they were longer than its MTU.
    pub losses: u64,
    /// Packets that were marked, or would have been had their sender been capable.
    pub marks: u64,
}

impl LinkCounters {
    /// Counts a packet's fate; returns when it comes out, if it does.
    fn count(&mut self, fate: Fate, ip_bytes: u64) -> Option<Nanos> {
        match fate {
            Fate::Deliver { due, .. } => {
                self.delivered_bytes += ip_bytes;
                Some(due)
            }
            Fate::QueueDrop => {
                self.queue_drops += 1;
                None
            }
            Fate::Lost { .. } | Fate::Down | Fate::TooLong => {
                self.losses += 1;
                None
            }
        }
    }
}

/// How a direction of a link serves packets.
enum Model {
    /// In the order of their arrivals: the fate of each is known then.
    Single(Direction),
    /// By flow, held by their slots.
    Fair(FairDirection<Held>),
}

/// A packet in a queue by flow.
#[derive(Clone, Copy)]
struct Held {
    slot: u32,
    ip_bytes: u64,
}

/// What a link says of a packet that arrives.
pub enum Offered {
    /// It comes out then.
    Due(Nanos),
    /// It never comes out.
    Gone,
    /// It waits in the queue of its flow, unless [`LinkDirection::next_decided`] says otherwise. With a
    /// time: the link was idle, and its next [`LinkDirection::turn`] is then.
    Waits(Option<Nanos>),
}

/// What became of a packet that waited.
pub struct Decided {
    pub slot: u32,
    /// When it comes out; `None`: never.
    pub due: Option<Nanos>,
    /// Whether congestion is to be marked.
    pub is_marked: bool,
}

/// One direction of a link.
pub struct LinkDirection {
    pub name: String,
    pub way: Way,
    pub counters: LinkCounters,
    model: Model,
    config: DirectionConfig,
    /// The share of packets that arrive twice.
    duplicate: f64,
    duplicate_draws: Generator,
}

impl LinkDirection {
    /// A packet of `flow` of `ip_bytes`, held in `slot`, arrives at `now`. If congestion is to be marked
    /// at once, `ecn` says so then.
    pub fn offer(
        &mut self,
        now: Nanos,
        flow: u64,
        ip_bytes: u64,
        slot: u32,
        ecn: &mut EcnCodepoint,
    ) -> Offered {
        let frame_len = ip_bytes as u32 + ETHERNET_HEADER;
        let is_capable = *ecn != EcnCodepoint::NotEct;
        let model = match &mut self.model {
            Model::Single(model) => model,
            Model::Fair(model) => {
                let held = Held { slot, ip_bytes };
                return Offered::Waits(model.offer(now, flow, frame_len, is_capable, held));
            }
        };
        let (fate, is_marked) = model.offer_with_ecn(now, frame_len, is_capable);
        if is_marked {
            *ecn = EcnCodepoint::Ce;
        }
        self.counters
            .count(fate, ip_bytes)
            .map_or(Offered::Gone, Offered::Due)
    }

    /// The turn of a link with queues by flow that was announced for `now`. Returns when the next one is.
    pub fn turn(&mut self, now: Nanos) -> Option<Nanos> {
        match &mut self.model {
            Model::Single(_) => None,
            Model::Fair(model) => model.turn(now),
        }
    }

    /// The next packet of a queue by flow whose fate is decided.
    pub fn next_decided(&mut self) -> Option<Decided> {
        let Model::Fair(model) = &mut self.model else {
            return None;
        };
        let decided = model.next_decided()?;
        let Held { slot, ip_bytes } = decided.item;
        Some(Decided {
            slot,
            due: self.counters.count(decided.fate, ip_bytes),
            is_marked: decided.is_marked,
        })
    }

    /// Whether the packet that was just let through arrives twice.
    pub fn is_duplicated(&mut self) -> bool {
        self.duplicate > 0.0 && self.duplicate_draws.unit() < self.duplicate
    }

    /// The counters at `now`, and the bytes that wait.
    pub fn state(&self, now: Nanos) -> (LinkCounters, u64) {
        let (marks, queued_bytes) = match &self.model {
            Model::Single(model) => (model.marks(), model.queued_bytes(now)),
            Model::Fair(model) => (model.marks(), model.queued_bytes(now)),
        };
        let counters = LinkCounters {
            marks,
            ..self.counters
        };
        (counters, queued_bytes)
    }

    /// The IP bytes that the link can carry from `from` to `to`; `None` without a limit.
    pub fn capacity_bytes(&self, from: Nanos, to: Nanos) -> Option<f64> {
        let mut is_up = true;
        let mut at = 0;
        let mut total = 0.0;
        let mut rate = self.config.rate.map(|rate| rate.bits_per_second());
        let mut trace = self.config.trace.as_deref();
        let bytes = |rate: Option<u64>, trace: Option<&model::Trace>, a: Nanos, b: Nanos| {
            let (a, b) = (a.clamp(from, to), b.clamp(from, to));
            match (trace, rate) {
                (Some(trace), _) => {
                    let until = |t| trace.bytes_in(Duration::from_nanos(t));
                    Some(until(b) - until(a))
                }
                (None, Some(rate)) => Some((b - a) as f64 / 8e9 * rate as f64),
                (None, None) => None,
            }
        };
        for event in self.config.schedule.events() {
            if is_up {
                total += bytes(rate, trace, at, event.at)?;
            }
            at = event.at;
            match &event.change {
                Change::Down => is_up = false,
                Change::Up => is_up = true,
                Change::Rate(new) => (rate, trace) = (Some(new.bits_per_second()), None),
                Change::Delay(_) | Change::Loss(_) | Change::Mtu(_) => {}
            }
        }
        if is_up {
            total += bytes(rate, trace, at, to)?;
        }
        Some(total)
    }
}

/// The way of a path: directions by index, in the order that data passes them.
#[derive(Clone, Debug, Default)]
pub struct Route {
    pub up: Vec<usize>,
    pub down: Vec<usize>,
    is_ipv6: bool,
}

impl Route {
    /// The same for packets of IPv6, or of IPv4.
    pub fn of_family(self, is_ipv6: bool) -> Route {
        Route { is_ipv6, ..self }
    }

    /// IP and UDP headers of each packet, in bytes.
    pub fn header_bytes(&self) -> u64 {
        match self.is_ipv6 {
            true => HEADER_BYTES_IPV6,
            false => HEADER_BYTES,
        }
    }
}

/// All links, both directions of each in turn.
pub struct Network {
    pub directions: Vec<LinkDirection>,
}

impl Network {
    /// The links of `scenario`, whose random draws follow from `seed`.
    pub fn new(scenario: &Scenario, folder: &FilePath, seed: u64) -> Result<Network, String> {
        let mut directions = Vec::new();
        for link in &scenario.link {
            for way in [Way::Up, Way::Down] {
                let mut config = config(link, way, folder)?;
                let seeds = Seeds {
                    master: seed,
                    run: 0,
                    link: link.name.clone(),
                    way: match way {
                        Way::Up => model::Way::AToB,
                        Way::Down => model::Way::BToA,
                    },
                };
                if let Some(outages) = &link.outages {
                    // The link stops both ways at once.
                    let way = model::Way::AToB;
                    let seeds = Seeds {
                        way,
                        ..seeds.clone()
                    };
                    let end = scenario.duration.value.0;
                    config.schedule = outages.value.add_to(&config.schedule, end, &seeds);
                }
                directions.push(LinkDirection {
                    name: link.name.clone(),
                    way,
                    counters: LinkCounters::default(),
                    model: match link.direction(way).is_fair() {
                        true => Model::Fair(FairDirection::new(&config, link.round_trip(), &seeds)),
                        false => Model::Single(Direction::new(&config, link.round_trip(), &seeds)),
                    },
                    config,
                    duplicate: link
                        .direction(way)
                        .duplicate
                        .map_or(0.0, |share| share.value.0),
                    duplicate_draws: seeds.generator(Purpose::Duplicate),
                });
            }
        }
        Ok(Network { directions })
    }

    /// The way of the path or link called `name`.
    pub fn route(scenario: &Scenario, name: &str) -> Result<Route, String> {
        let links = scenario.orient(&scenario.path_named(name))?;
        let direction =
            |(link, forward): &(usize, bool), up: bool| 2 * link + usize::from(*forward != up);
        Ok(Route {
            up: links.iter().map(|link| direction(link, true)).collect(),
            down: links
                .iter()
                .rev()
                .map(|link| direction(link, false))
                .collect(),
            is_ipv6: false,
        })
    }

    /// The bytes that the slowest link of a way can carry from `from` to `to`.
    pub fn route_capacity(&self, route: &[usize], from: Nanos, to: Nanos) -> Option<f64> {
        let capacities = route
            .iter()
            .filter_map(|i| self.directions[*i].capacity_bytes(from, to));
        capacities.reduce(f64::min)
    }
}

fn config(link: &Link, way: Way, folder: &FilePath) -> Result<DirectionConfig, String> {
    let own = link.direction(way);
    let trace = own.trace.as_ref().map(|file| load_trace(file, folder));
    Ok(DirectionConfig {
        rate: own.rate.map(|rate| rate.value),
        trace: trace.transpose()?,
        delay: link.delay(way),
        jitter: own.jitter.map(|jitter| jitter.value.0).unwrap_or_default(),
        reordering: own.reorder.map(|reorder| reorder.value),
        queue: own.queue.map(|queue| queue.value).unwrap_or_default(),
        aqm: match own.aqm.unwrap_or_default() {
            Aqm::Droptail => model::Aqm::DropTail,
            Aqm::Codel | Aqm::FqCodel => model::Aqm::CODEL,
            Aqm::CodelEcn | Aqm::FqCodelEcn => model::Aqm::CODEL_ECN,
        },
        mark: own.ecn.map(|ecn| ecn.value),
        loss: own.loss.map(|loss| loss.value).unwrap_or_default(),
        mtu: own.mtu.map(|mtu| mtu.value.0),
        schedule: own
            .schedule
            .map(|schedule| schedule.value)
            .unwrap_or_default(),
        framing_overhead: 0,
    })
}
