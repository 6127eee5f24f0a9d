//! A packet-level model of senders that share links: no QUIC, no clock, no randomness but a seed.
//!
//! A path crosses one link with a rate and a queue; the rest of it is delay. Every packet is acked
//! by itself, in order. A packet is lost when one sent three later is acked, or when nothing was
//! acked for a long time. Senders have data without end, and pace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::cc;
use mpq_decision::cc::Ack;
use mpq_decision::cc::Flight;
use mpq_decision::cc::Group;
use mpq_decision::cc::Loss;
use mpq_decision::cc::RateSample;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;
use mpq_decision::Registry;

use super::random::Random;
use super::MSS;

/// A packet this many behind an acked one is lost.
const REORDERING: u64 = 3;

/// Nothing acked for this long: everything outstanding is lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What a full queue does, and before it is full.
#[derive(Clone, Copy, Debug)]
pub enum Queue {
    /// Takes this many packets.
    DropTail(f64),
    /// Drops at random beyond this many packets, one in fifty when there are ten times as many: all
    /// flows see the same loss probability.
    Random(f64),
}

struct Link {
    packets_per_sec: f64,
    queue: Queue,
    /// Probability that a packet is lost, whatever the queue.
    loss: f64,
    /// When the packets in the queue will have left.
    free: Duration,
}

impl Link {
    /// When a packet that arrives at `now` has crossed; `None` if it is lost.
    fn cross(&mut self, now: Duration, random: &mut Random) -> Option<Duration> {
        let waiting = self.free.saturating_sub(now).as_secs_f64() * self.packets_per_sec;
        let full = match self.queue {
            Queue::DropTail(limit) => waiting >= limit,
            Queue::Random(least) => random.happens(0.02 * (waiting / least - 1.0) / 9.0),
        };
        if full || random.happens(self.loss) {
            return None;
        }
        let time = Duration::from_secs_f64(1.0 / self.packets_per_sec);
        self.free = self.free.max(now) + time;
        Some(self.free)
    }
}

#[derive(Clone, Copy)]
struct Sent {
    number: u64,
    at: Duration,
    /// The sender's counts when it left, in packets, and its own among those in flight.
    delivered: u64,
    lost: u64,
    in_flight: u64,
    /// When the last one before was delivered, and that one was sent.
    delivered_at: Duration,
    first_sent: Duration,
}

impl Sent {
    /// What the transport tells of it, once `lost` packets are.
    fn flight(&self, lost: u64) -> Flight {
        Flight {
            tx_in_flight_bytes: self.in_flight * MSS,
            lost_bytes: (lost - self.lost) * MSS,
            packet_bytes: MSS,
            app_limited: false,
        }
    }
}

/// One path of one sender.
struct Path {
    link: usize,
    rtt: Duration,
    next: u64,
    outstanding: VecDeque<Sent>,
    last_progress: Duration,
    pacer: Duration,
    waits_for_pacer: bool,
    acked: u64,
    delivered: u64,
    lost: u64,
    delivered_at: Duration,
    first_sent: Duration,
    min_rtt: Duration,
    /// Lose the next packet that is sent.
    loses_next: bool,
}

struct Flow {
    group: Group,
    registry: Registry,
    paths: Vec<Path>,
    one_way: bool,
    /// A digest of all traces.
    digest: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Send {
        flow: usize,
        path: usize,
    },
    Ack {
        flow: usize,
        path: usize,
        number: u64,
        one_way_micros: i64,
    },
    Check {
        flow: usize,
        path: usize,
    },
}

/// Links and senders.
pub struct Network {
    start: Instant,
    now: Duration,
    links: Vec<Link>,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    order: u64,
    random: Random,
}

impl Network {
    pub fn new(seed: u64) -> Self {
        Network {
            start: Instant::now(),
            now: Duration::ZERO,
            links: Vec::new(),
            flows: Vec::new(),
            events: BinaryHeap::new(),
            order: 0,
            random: Random(seed),
        }
    }

    /// Adds a link and returns its number.
    pub fn link(&mut self, packets_per_sec: f64, queue: Queue, loss: f64) -> usize {
        self.links.push(Link {
            packets_per_sec,
            queue,
            loss,
            free: Duration::ZERO,
        });
        self.links.len() - 1
    }

    /// Adds a sender with one path for each (link, RTT without queue), which starts now.
    pub fn flow(&mut self, controller: &str, routes: &[(usize, Duration)]) -> usize {
        self.flow_that(controller, routes, false)
    }

    /// The same, with timestamps from the receiver if `one_way`.
    pub fn flow_that(
        &mut self,
        controller: &str,
        routes: &[(usize, Duration)],
        one_way: bool,
    ) -> usize {
        let choice: cc::Choice = controller.parse().unwrap();
        let mut flow = Flow {
            group: Group::new(choice.controller(), choice.options()),
            registry: Registry::new(),
            paths: Vec::new(),
            one_way,
            digest: 0,
        };
        let index = self.flows.len();
        for (path, (link, rtt)) in routes.iter().enumerate() {
            let id = PathId(path as u64);
            flow.registry.add(id, MSS).validated = true;
            let now = self.start + self.now;
            flow.group
                .on_path_added(now, &mut flow.registry, id, 10 * MSS);
            flow.paths.push(Path {
                link: *link,
                rtt: *rtt,
                next: 0,
                outstanding: VecDeque::new(),
                last_progress: self.now,
                pacer: self.now,
                waits_for_pacer: false,
                acked: 0,
                delivered: 0,
                lost: 0,
                delivered_at: self.now,
                first_sent: self.now,
                min_rtt: Duration::MAX,
                loses_next: false,
            });
        }
        self.flows.push(flow);
        for path in 0..routes.len() {
            self.handshake(index, path);
            self.schedule(self.now, Event::Check { flow: index, path });
        }
        index
    }

    /// A packet that nothing delayed: minimum RTT and base delay are known from the start, so that
    /// runs show how flows share, not what a late one takes for an empty path.
    fn handshake(&mut self, flow: usize, path: usize) {
        let sent = Sent {
            number: 0,
            at: self.now,
            delivered: 0,
            lost: 0,
            in_flight: 1,
            delivered_at: self.now,
            first_sent: self.now,
        };
        let Path { link, rtt, .. } = self.flows[flow].paths[path];
        let crossing = Duration::from_secs_f64(1.0 / self.links[link].packets_per_sec);
        let one_way = one_way_micros(crossing + rtt / 2);
        self.measure(flow, path, crossing + rtt, one_way);
        self.tell(flow, path, &sent, 0, 0, crossing + rtt);
    }

    fn schedule(&mut self, at: Duration, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    /// Lets time pass, and forgets what was acked before.
    pub fn warm_up(&mut self, time: Duration) {
        self.run(time);
        for path in self.flows.iter_mut().flat_map(|flow| &mut flow.paths) {
            path.acked = 0;
        }
    }

    /// Lets time pass.
    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(Reverse((at, ..))) = self.events.peek() {
            if *at > until {
                break;
            }
            let Some(Reverse((at, _, event))) = self.events.pop() else {
                break;
            };
            self.now = at;
            match event {
                Event::Send { flow, path } => {
                    self.flows[flow].paths[path].waits_for_pacer = false;
                    self.send(flow, path);
                }
                Event::Ack {
                    flow,
                    path,
                    number,
                    one_way_micros,
                } => {
                    self.ack(flow, path, number, one_way_micros);
                    self.send(flow, path);
                }
                Event::Check { flow, path } => {
                    self.check(flow, path);
                    self.send(flow, path);
                    self.schedule(at + TIMEOUT / 4, Event::Check { flow, path });
                }
            }
        }
        self.now = until;
    }

    /// Packets acked on a path of a sender since the warm-up.
    pub fn acked(&self, flow: usize, path: usize) -> f64 {
        self.flows[flow].paths[path].acked as f64
    }

    /// Packets acked on all paths of a sender since the warm-up.
    pub fn acked_by(&self, flow: usize) -> f64 {
        let paths = 0..self.flows[flow].paths.len();
        paths.map(|path| self.acked(flow, path)).sum()
    }

    /// The packets that wait on a link.
    pub fn queued(&self, link: usize) -> f64 {
        let link = &self.links[link];
        link.free.saturating_sub(self.now).as_secs_f64() * link.packets_per_sec
    }

    /// The value that the controller of a sender shows by `name`.
    pub fn shown(&self, flow: usize, path: usize, name: &str) -> f64 {
        let (now, id) = (self.start + self.now, PathId(path as u64));
        let flow = &self.flows[flow];
        let trace = flow.group.trace(now, &flow.registry, id).unwrap();
        let found = trace.values().iter().find(|(other, _)| *other == name);
        found.unwrap_or_else(|| panic!("no {name} in {trace:?}")).1
    }

    /// Loses the next packet that a sender sends on a path.
    pub fn lose_next(&mut self, flow: usize, path: usize) {
        self.flows[flow].paths[path].loses_next = true;
    }

    /// A digest of everything that all senders' controllers showed.
    pub fn digest(&self) -> Vec<u64> {
        self.flows.iter().map(|flow| flow.digest).collect()
    }

    /// Sends what window and pacer allow.
    fn send(&mut self, flow_index: usize, path_index: usize) {
        let now = self.now;
        let flow = &mut self.flows[flow_index];
        let path = &mut flow.paths[path_index];
        let state = flow.registry.get(PathId(path_index as u64)).unwrap();
        let (cwnd_bytes, rate) = (state.cwnd_bytes, state.pacing_rate_bytes_per_sec);
        let mut scheduled = Vec::new();
        while (path.outstanding.len() as u64 + 1) * MSS <= cwnd_bytes {
            if path.pacer > now {
                if !path.waits_for_pacer {
                    path.waits_for_pacer = true;
                    let event = Event::Send {
                        flow: flow_index,
                        path: path_index,
                    };
                    scheduled.push((path.pacer, event));
                }
                break;
            }
            if let Some(rate) = rate.filter(|rate| *rate > 0) {
                let gap = Duration::from_secs_f64(MSS as f64 / rate as f64);
                path.pacer = path.pacer.max(now) + gap;
            }
            let number = path.next;
            path.next += 1;
            if path.outstanding.is_empty() {
                path.last_progress = now;
                path.delivered_at = now;
                path.first_sent = now;
            }
            path.outstanding.push_back(Sent {
                number,
                at: now,
                delivered: path.delivered,
                lost: path.lost,
                in_flight: path.outstanding.len() as u64 + 1,
                delivered_at: path.delivered_at,
                first_sent: path.first_sent,
            });
            let crossed = self.links[path.link].cross(now, &mut self.random);
            let lost = std::mem::take(&mut path.loses_next);
            if let Some(crossed) = crossed.filter(|_| !lost) {
                let one_way = one_way_micros(crossed + path.rtt / 2 - now);
                let event = Event::Ack {
                    flow: flow_index,
                    path: path_index,
                    number,
                    one_way_micros: one_way,
                };
                scheduled.push((crossed + path.rtt, event));
            }
        }
        for (at, event) in scheduled {
            self.schedule(at, event);
        }
    }

    fn ack(&mut self, flow_index: usize, path_index: usize, number: u64, one_way_micros: i64) {
        let now = self.now;
        let flow = &mut self.flows[flow_index];
        let path = &mut flow.paths[path_index];
        let in_flight = path.outstanding.len() as u64;
        let at = path
            .outstanding
            .iter()
            .position(|sent| sent.number == number);
        let Some(sent) = at.and_then(|at| path.outstanding.remove(at)) else {
            return; // Declared lost before.
        };
        path.last_progress = now;
        path.acked += 1;

        let mut lost = 0;
        let mut newest_lost = None;
        path.delivered += 1;
        path.delivered_at = now;
        path.first_sent = sent.at;
        path.min_rtt = path.min_rtt.min(now - sent.at);
        while let Some(first) = path.outstanding.front() {
            if first.number + REORDERING > number {
                break;
            }
            newest_lost = Some(*first);
            path.lost += 1;
            lost += 1;
            path.outstanding.pop_front();
        }

        let sample = now - sent.at;
        self.measure(flow_index, path_index, sample, one_way_micros);
        if let Some(newest) = newest_lost {
            self.lose(flow_index, path_index, lost, &newest);
        }
        self.tell(flow_index, path_index, &sent, 1, in_flight, sample);
    }

    /// What the transport writes into the registry.
    fn measure(&mut self, flow: usize, path: usize, sample: Duration, one_way_micros: i64) {
        let flow = &mut self.flows[flow];
        let in_flight = flow.paths[path].outstanding.len() as u64;
        let state = flow.registry.get_mut(PathId(path as u64)).unwrap();
        state.in_flight_bytes = in_flight * MSS;
        state.one_way_delay_micros = flow.one_way.then_some(one_way_micros);
        state.rtt = Some(match state.rtt {
            None => Rtt::first(sample),
            Some(rtt) => Rtt {
                smoothed: (rtt.smoothed * 7 + sample) / 8,
                var: (rtt.var * 3 + rtt.smoothed.abs_diff(sample)) / 4,
                latest: sample,
                min: rtt.min.min(sample),
            },
        });
    }

    fn tell(
        &mut self,
        flow: usize,
        path: usize,
        sent: &Sent,
        packets: u64,
        in_flight: u64,
        sample: Duration,
    ) {
        let flow = &mut self.flows[flow];
        let id = PathId(path as u64);
        let ack = Ack {
            acked_bytes: packets * MSS,
            acked_packets: packets,
            newest_sent: self.start + sent.at,
            in_flight_before_bytes: in_flight * MSS,
            rtt_sample: Some(sample),
            app_limited: false,
        };
        let moment = self.start + self.now;
        let path = &flow.paths[path];
        let spans = (self.now - sent.delivered_at).max(sent.at - sent.first_sent);
        let rate = RateSample {
            total_bytes: path.delivered * MSS,
            prior_bytes: sent.delivered * MSS,
            interval: match spans >= path.min_rtt {
                true => spans,
                false => Duration::ZERO,
            },
            newest: sent.flight(path.lost),
        };
        let rate = Some(rate).filter(|_| packets > 0);
        flow.group
            .on_rated_ack(moment, &mut flow.registry, id, &ack, rate.as_ref());
        if flow.group.next_timer().is_some_and(|due| due <= moment) {
            flow.group.on_timer(moment, &mut flow.registry);
        }
        flow.note(moment, id);
    }

    fn lose(&mut self, flow: usize, path: usize, lost: u64, newest: &Sent) {
        let flow = &mut self.flows[flow];
        let id = PathId(path as u64);
        let loss = Loss {
            lost_bytes: lost * MSS,
            lost_packets: lost,
            newest_lost_sent: self.start + newest.at,
            persistent: false,
        };
        let moment = self.start + self.now;
        let flight = newest.flight(flow.paths[path].lost);
        flow.group
            .on_rated_loss(moment, &mut flow.registry, id, &loss, Some(&flight));
        flow.note(moment, id);
    }

    /// Gives up on what was sent if nothing comes back.
    fn check(&mut self, flow: usize, path: usize) {
        let state = &mut self.flows[flow].paths[path];
        if self.now - state.last_progress < TIMEOUT + 2 * state.rtt {
            return;
        }
        let lost = state.outstanding.len() as u64;
        state.last_progress = self.now;
        let newest = state.outstanding.back().copied();
        state.lost += lost;
        state.outstanding.clear();
        if let Some(newest) = newest {
            self.lose(flow, path, lost, &newest);
        }
    }
}

/// A one-way delay by two clocks that are an hour apart.
fn one_way_micros(delay: Duration) -> i64 {
    delay.as_micros() as i64 - 3_600_000_000
}

impl Flow {
    /// Adds the trace of a path to the digest.
    fn note(&mut self, now: Instant, id: PathId) {
        let Some(trace) = self.group.trace(now, &self.registry, id) else {
            return;
        };
        let numbers = [trace.path.0, trace.cwnd_bytes, trace.ssthresh_bytes];
        let values = trace.values().iter().map(|(_, value)| value.to_bits());
        for number in numbers.into_iter().chain(values) {
            self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
