//! One direction of a link whose queues are by flow.
//!
//! A frame's fate is known when its turn comes, not when it arrives as in [`Direction`](super::Direction):
//! who drives the link is told when its next turn is, and asks then. Nothing here runs in real time.

use std::collections::VecDeque;
use std::time::Duration;

use super::flow_queues::FlowQueues;
use super::medium::Chance;
use super::medium::Medium;
use super::queue::Limit;
use super::server::Server;
use super::server::Service;
use super::Change;
use super::DirectionConfig;
use super::Fate;
use super::Nanos;
use super::QueueLimit;
use super::Seeds;
use super::ETHERNET_HEADER;
use super::FULL_FRAME;

/// A frame whose fate is decided, with what came with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided<T> {
    pub item: T,
    pub fate: Fate,
    pub is_marked: bool,
}

/// What is being sent.
#[derive(Clone, Copy, Debug)]
struct Sending {
    size: u64,
    /// Its last bit leaves, or the link goes down.
    until: Nanos,
    is_cut: bool,
}

/// The state of one direction. Feed it every arriving frame in order, and ask it for its turns.
#[derive(Clone, Debug)]
pub struct FairDirection<T> {
    queue_limit: QueueLimit,
    rtt: Duration,
    framing_overhead: u64,
    queues: FlowQueues<(T, Chance)>,
    limit: Option<Limit>,
    sending: Option<Sending>,
    server: Server,
    medium: Medium,
    marks: u64,
    decided: VecDeque<Decided<T>>,
}

impl<T> FairDirection<T> {
    /// FQ-CoDel with `config.aqm` for each flow; `config.mark` has no meaning. `rtt` is the link's own
    /// round trip, to which a queue limit in BDP refers by default.
    pub fn new(config: &DirectionConfig, rtt: Duration, seeds: &Seeds) -> FairDirection<T> {
        let framing_overhead = u64::from(config.framing_overhead);
        let rate = config.mean_rate();
        FairDirection {
            queue_limit: config.queue,
            rtt,
            framing_overhead,
            // One full packet, as the RFC has it: 1514 bytes with the Ethernet header.
            queues: FlowQueues::new(config.aqm, FULL_FRAME + framing_overhead),
            limit: rate.map(|rate| config.queue.resolve(rate, rtt)),
            sending: None,
            server: Server::new(config.rate, config.trace.clone(), config.schedule.events()),
            medium: Medium::new(config, seeds),
            marks: 0,
            decided: VecDeque::new(),
        }
    }

    /// A frame of `flow` of `frame_len` bytes (Ethernet header included, FCS not) arrives at `now`. If the
    /// link was idle, returns when its next turn is.
    pub fn offer(
        &mut self,
        now: Nanos,
        flow: u64,
        frame_len: u32,
        ecn_capable: bool,
        item: T,
    ) -> Option<Nanos> {
        while let Some(change) = self.medium.next_change(now) {
            if let Change::Rate(rate) = change {
                // A buffer does not shrink with the rate.
                let limit = self.queue_limit.resolve(rate, self.rtt);
                self.limit.get_or_insert(limit);
            }
            self.medium.apply(change);
        }
        let ip_bytes = u64::from(frame_len.saturating_sub(ETHERNET_HEADER));
        let chance = match self.medium.admit(ip_bytes) {
            Ok(chance) => chance,
            Err(fate) => {
                self.decide(item, fate);
                return None;
            }
        };
        let size = ip_bytes + self.framing_overhead;
        self.queues
            .enqueue(now, flow, size, ecn_capable, (item, chance));
        while self.is_over_limit(now) {
            let Some((item, _)) = self.queues.drop_from_fattest() else {
                break;
            };
            self.decide(item, Fate::QueueDrop);
        }
        match self.sending {
            None => self.send_next(now),
            Some(_) => None,
        }
    }

    /// The turn that was announced for `now`. Returns when the next one is, if there is one.
    pub fn turn(&mut self, now: Nanos) -> Option<Nanos> {
        let sent = self.sending.take()?;
        debug_assert_eq!(sent.until, now);
        if sent.is_cut {
            // What waits goes with what was being sent.
            let decided = &mut self.decided;
            self.queues.drain(|(item, _)| {
                decided.push_back(Decided {
                    item,
                    fate: Fate::Down,
                    is_marked: false,
                })
            });
        }
        self.send_next(now)
    }

    /// The next frame whose fate is decided.
    pub fn next_decided(&mut self) -> Option<Decided<T>> {
        self.decided.pop_front()
    }

    /// The bytes that wait or are being sent at `now`.
    pub fn queued_bytes(&self, now: Nanos) -> u64 {
        let sending = self.sending.filter(|sending| sending.until > now);
        self.queues.bytes() + sending.map_or(0, |sending| sending.size)
    }

    /// How many frames were marked so far.
    pub fn marks(&self) -> u64 {
        self.marks
    }

    /// Whether more waits and is being sent at `now` than may.
    fn is_over_limit(&self, now: Nanos) -> bool {
        let is_sending = self.sending.is_some_and(|sending| sending.until > now);
        match self.limit {
            None => false,
            Some(Limit::Packets(most)) => self.queues.packets() + u64::from(is_sending) > most,
            Some(Limit::Bytes(most)) => self.queued_bytes(now) > most,
        }
    }

    fn send_next(&mut self, now: Nanos) -> Option<Nanos> {
        let decided = &mut self.decided;
        let next = self.queues.dequeue(now, |(item, _)| {
            decided.push_back(Decided {
                item,
                fate: Fate::QueueDrop,
                is_marked: false,
            })
        })?;
        let (item, chance) = next.item;
        self.marks += u64::from(next.is_marked);
        let (until, fate) = match self.server.serve(now, next.size) {
            Service::Sent(end) => (end, self.medium.pass(end, chance)),
            Service::Cut(at) => (at, Fate::Down),
        };
        self.sending = Some(Sending {
            size: next.size,
            until,
            is_cut: fate == Fate::Down,
        });
        self.decided.push_back(Decided {
            item,
            fate,
            is_marked: next.is_marked,
        });
        Some(until)
    }

    fn decide(&mut self, item: T, fate: Fate) {
        self.decided.push_back(Decided {
            item,
            fate,
            is_marked: false,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Aqm;
    use super::super::Direction;
    use super::super::Trace;
    use super::super::Way;
    use super::*;

    const MS: Nanos = 1_000_000;

    fn seeds() -> Seeds {
        Seeds {
            master: 1,
            run: 0,
            link: "l".into(),
            way: Way::AToB,
        }
    }

    /// 12 Mbit/s, at which 1500 bytes take 1 ms.
    fn config(delay_ms: u64, queue: &str, schedule: &str) -> DirectionConfig {
        DirectionConfig {
            rate: "12mbit".parse().ok(),
            delay: Duration::from_millis(delay_ms),
            queue: queue.parse().unwrap(),
            aqm: Aqm::CODEL,
            schedule: match schedule {
                "" => Default::default(),
                text => text.parse().unwrap(),
            },
            ..DirectionConfig::default()
        }
    }

    fn link<T>(config: &DirectionConfig) -> FairDirection<T> {
        FairDirection::new(config, config.delay * 2, &seeds())
    }

    /// When a packet arrives, its flow, its IP bytes.
    type Arrival = (Nanos, char, u32);

    /// What becomes of packets, in the order in which that is decided. They are numbered as they arrive.
    fn fates(link: &mut FairDirection<usize>, arrivals: &[Arrival]) -> Vec<(usize, Fate)> {
        let (mut fates, mut next) = (Vec::new(), None);
        for (i, (at, flow, bytes)) in arrivals.iter().enumerate() {
            while let Some(turn) = next.filter(|turn| turn <= at) {
                next = link.turn(turn);
            }
            let first = link.offer(*at, u64::from(*flow), bytes + ETHERNET_HEADER, false, i);
            assert!(first.is_none() || next.is_none(), "two turns are to come");
            next = next.or(first);
        }
        while let Some(turn) = next {
            next = link.turn(turn);
        }
        while let Some(decided) = link.next_decided() {
            fates.push((decided.item, decided.fate));
        }
        fates
    }

    fn deliver(departure: Nanos, due: Nanos) -> Fate {
        Fate::Deliver { departure, due }
    }

    #[test]
    fn a_rate_that_changes_while_packets_wait_is_exact() {
        let mut link = link(&config(10, "100packets", "rate=6mbit@2.5ms"));
        let arrivals = [
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'A', 1500),
            (MS + 1, 'B', 1500),
        ];
        // B comes before the third of A; half of it goes at 12 Mbit/s, half at 6.
        let half = MS / 2;
        assert_eq!(
            fates(&mut link, &arrivals),
            [
                (0, deliver(MS, 11 * MS)),
                (1, deliver(2 * MS, 12 * MS)),
                (3, deliver(3 * MS + half, 13 * MS + half)),
                (2, deliver(5 * MS + half, 15 * MS + half)),
            ]
        );
    }

    #[test]
    fn a_trace_that_pauses_lets_packets_wait() {
        // 12 Mbit/s for 1 ms, nothing for 1 ms.
        let trace = Trace::from_csv("t,rate\n0,12\n0.001,0\n0.002,0\n").unwrap();
        let mut config = config(0, "100packets", "");
        config.rate = None;
        config.trace = Some(trace.into());
        let arrivals = [
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'A', 1500),
            (2 * MS, 'B', 750),
        ];
        assert_eq!(
            fates(&mut link(&config), &arrivals),
            [
                (0, deliver(MS, MS)),
                (1, deliver(3 * MS, 3 * MS)),
                (3, deliver(4 * MS + MS / 2, 4 * MS + MS / 2)),
                (2, deliver(6 * MS + MS / 2, 6 * MS + MS / 2)),
            ]
        );
    }

    #[test]
    fn an_outage_takes_all_that_waits() {
        let mut link = link(&config(10, "100packets", "down@2.5ms,up@20ms"));
        let arrivals = [
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'B', 1500),
            (2 * MS + 1, 'C', 1500),
            (10 * MS, 'D', 1500),
            (20 * MS, 'A', 1500),
        ];
        assert_eq!(
            fates(&mut link, &arrivals),
            [
                (0, deliver(MS, 11 * MS)),
                (3, deliver(2 * MS, 12 * MS)),
                (1, Fate::Down), // half sent when the link goes down
                (2, Fate::Down),
                (4, Fate::Down),
                (5, Fate::Down),
                (6, deliver(21 * MS, 31 * MS)),
            ]
        );
        assert_eq!(link.queued_bytes(21 * MS), 0);
    }

    #[test]
    fn an_outage_between_packets_is_not_noticed() {
        let mut link = link(&config(0, "100packets", "down@2ms,up@3ms"));
        assert_eq!(
            fates(&mut link, &[(0, 'A', 1500), (5 * MS, 'A', 1500)]),
            [(0, deliver(MS, MS)), (1, deliver(6 * MS, 6 * MS))]
        );
    }

    #[test]
    fn beyond_the_limit_the_fattest_queue_loses() {
        for queue in ["3packets", "4500bytes", "3ms"] {
            let mut link = link(&config(0, queue, ""));
            let arrivals = [
                (0, 'A', 1500), // is being sent, and counts
                (0, 'A', 1500),
                (0, 'A', 1500),
                (0, 'B', 200),
                (0, 'A', 1500),
            ];
            // B's packet makes room at the cost of the head of A's queue, and so does A's own last.
            assert_eq!(
                fates(&mut link, &arrivals),
                [
                    (0, deliver(MS, MS)),
                    (1, Fate::QueueDrop),
                    (2, Fate::QueueDrop),
                    (3, deliver(1_133_333, 1_133_333)),
                    (4, deliver(2_133_333, 2_133_333)),
                ],
                "{queue}"
            );
        }
    }

    #[test]
    fn what_waits_and_what_is_sent_is_queued() {
        let mut link = link::<()>(&config(0, "100packets", ""));
        assert_eq!(link.offer(0, 1, 1514, false, ()), Some(MS));
        assert_eq!(link.offer(0, 2, 1014, false, ()), None);
        assert_eq!(link.queued_bytes(MS - 1), 2500);
        assert_eq!(link.queued_bytes(MS), 1000);
        assert_eq!(link.turn(MS), Some(MS + 666_666));
        assert_eq!(link.queued_bytes(MS), 1000);
        assert_eq!(link.turn(MS + 666_666), None);
        assert_eq!(link.queued_bytes(MS + 666_666), 0);
    }

    #[test]
    fn chance_is_that_of_the_arrival() {
        // The second that arrives is lost, and takes its time, though it leaves third.
        let mut config = config(10, "100packets", "delay=1ms@1.5ms,mtu=1400bytes@5ms");
        config.loss = "packets:1".parse().unwrap();
        let arrivals = [
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'A', 1500),
            (0, 'B', 1500),
            (2 * MS - 1, 'C', 1500),
            (6 * MS, 'C', 1500),
        ];
        assert_eq!(
            fates(&mut link(&config), &arrivals),
            [
                (0, deliver(MS, 11 * MS)),
                (3, deliver(2 * MS, 12 * MS)),
                // A shorter delay does not reorder; who came before it was shorter has the longer.
                (4, deliver(3 * MS, 12 * MS)),
                (1, Fate::Lost { departure: 4 * MS }),
                (2, deliver(5 * MS, 15 * MS)),
                (5, Fate::TooLong),
            ]
        );
    }

    #[test]
    fn a_sparse_flow_waits_for_one_packet_beside_a_long_queue() {
        // A offers 1 % more than the rate, with room for 200 ms; B a packet each 10 ms.
        let a = (0..5000).map(|i| (i * 990_000, 'A', 1500));
        let b = (0..500).map(|i| (i * 10 * MS + 1, 'B', 1500));
        let mut arrivals: Vec<Arrival> = a.chain(b).collect();
        arrivals.sort();
        for (index, fate) in fates(&mut link(&config(0, "200ms", "")), &arrivals) {
            let (arrival, flow, _) = arrivals[index];
            if flow == 'B' {
                let Fate::Deliver { due, .. } = fate else {
                    panic!("{fate:?}")
                };
                // What is being sent, and its own time.
                assert!(due - arrival <= 2 * MS);
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_busy_as_a_single_queue_is_and_keeps_each_flow_in_order(
            packets in prop::collection::vec((0u64..2_000_000, 0u8..5), 1..90),
        ) {
            // Less than 100 ms of packets: CoDel drops nothing.
            let config = config(0, "100packets", "");
            let mut now = 0;
            let arrivals: Vec<Arrival> = packets
                .into_iter()
                .map(|(gap, flow)| { now += gap; (now, char::from(b'A' + flow), 1500) })
                .collect();
            let mut single = Direction::new(&DirectionConfig { aqm: Aqm::DropTail, ..config.clone() }, config.delay * 2, &seeds());
            let expected: Vec<Fate> = arrivals.iter().map(|(at, ..)| single.offer(*at, 1514)).collect();
            let got = fates(&mut link(&config), &arrivals);
            let in_time: Vec<Fate> = got.iter().map(|(_, fate)| *fate).collect();
            prop_assert_eq!(in_time, expected);
            let mut last = [None; 5];
            for (index, _) in got {
                let flow = arrivals[index].1 as usize - 'A' as usize;
                prop_assert!(last[flow] < Some(index));
                last[flow] = Some(index);
            }
        }
    }
}
