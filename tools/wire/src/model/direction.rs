//! One direction of a link: queue, server, loss and delay in a row.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::codel::Codel;
use super::codel::Verdict;
use super::medium::Medium;
use super::queue::Limit;
use super::queue::Queue;
use super::server::Server;
use super::server::Service;
use super::Aqm;
use super::Change;
use super::LossModel;
use super::Nanos;
use super::QueueLimit;
use super::Reordering;
use super::Schedule;
use super::Seeds;
use super::Trace;
use super::ETHERNET_HEADER;
use crate::units::Rate;

/// What one direction of a link is like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionConfig {
    /// `None`: no limit, and then no queue either.
    pub rate: Option<Rate>,
    /// A rate that varies, in place of `rate`. Queue limits in BDP or time refer to its mean.
    pub trace: Option<Arc<Trace>>,
    /// One-way delay.
    pub delay: Duration,
    /// Up to this is added to each frame's delay, uniformly.
    pub jitter: Duration,
    pub reordering: Option<Reordering>,
    pub queue: QueueLimit,
    pub aqm: Aqm,
    /// Frames that find this much waiting are counted as marked (ECN), and are if their sender is
    /// capable of it.
    pub mark: Option<QueueLimit>,
    pub loss: LossModel,
    /// IP bytes of the longest packet that passes; `None`: any passes.
    pub mtu: Option<u64>,
    pub schedule: Schedule,
    /// Bytes added to each frame's IP bytes for rate and queue: 14 = Ethernet, 38 = on the wire.
    pub framing_overhead: u32,
}

impl DirectionConfig {
    /// The rate that queue limits refer to.
    pub(super) fn mean_rate(&self) -> Option<Rate> {
        let mean = self.trace.as_ref().map(|trace| trace.mean());
        mean.or(self.rate)
    }
}

/// What becomes of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its last bit leaves the queue's server at `departure` and reaches the other end at `due`.
    Deliver { departure: Nanos, due: Nanos },
    /// Lost by chance, after it was sent.
    Lost { departure: Nanos },
    /// The queue was full, or its management dropped it.
    QueueDrop,
    /// The link was down when it arrived, or went down before it was sent.
    Down,
    /// Longer than the MTU. Nobody is told, as where ICMP is filtered.
    TooLong,
}

/// A live change was refused because a [`Schedule`] decides about this direction: the model has
/// already told frames their fates by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleInForce;

impl fmt::Display for ScheduleInForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "this direction follows a schedule; start the link without one to change it live",
        )
    }
}

impl std::error::Error for ScheduleInForce {}

/// The state of one direction. Feed it every arriving frame in order.
#[derive(Clone, Debug)]
pub struct Direction {
    queue_limit: QueueLimit,
    rtt: Duration,
    framing_overhead: u64,
    queue: Option<Queue>,
    codel: Option<Codel>,
    mark: Option<Limit>,
    marks: u64,
    server: Server,
    medium: Medium,
    last_arrival: Nanos,
}

impl Direction {
    /// `rtt` is the link's own round trip, to which a queue limit in BDP refers by default.
    pub fn new(config: &DirectionConfig, rtt: Duration, seeds: &Seeds) -> Direction {
        let rate = config.mean_rate();
        Direction {
            queue_limit: config.queue,
            rtt,
            framing_overhead: u64::from(config.framing_overhead),
            queue: rate.map(|rate| Queue::new(config.queue.resolve(rate, rtt))),
            codel: Codel::new(config.aqm),
            mark: config
                .mark
                .zip(rate)
                .map(|(mark, rate)| mark.resolve(rate, rtt)),
            marks: 0,
            server: Server::new(config.rate, config.trace.clone(), config.schedule.events()),
            medium: Medium::new(config, seeds),
            last_arrival: 0,
        }
    }

    /// The fate of a frame of `frame_len` bytes (Ethernet header included, FCS not) that arrives at
    /// `arrival`. An arrival before the one before it counts as simultaneous with that one.
    pub fn offer(&mut self, arrival: Nanos, frame_len: u32) -> Fate {
        self.offer_with_ecn(arrival, frame_len, false).0
    }

    /// The same, and whether the frame is marked as congested, which only those are that are
    /// `ecn_capable` (RFC 3168, section 5).
    pub fn offer_with_ecn(
        &mut self,
        arrival: Nanos,
        frame_len: u32,
        ecn_capable: bool,
    ) -> (Fate, bool) {
        let mut is_marked = false;
        let fate = self.decide(arrival, frame_len, ecn_capable, &mut is_marked);
        (fate, is_marked)
    }

    fn decide(
        &mut self,
        arrival: Nanos,
        frame_len: u32,
        ecn_capable: bool,
        is_marked: &mut bool,
    ) -> Fate {
        let arrival = arrival.max(self.last_arrival);
        self.last_arrival = arrival;
        while let Some(change) = self.medium.next_change(arrival) {
            self.apply(change);
        }
        let ip_bytes = u64::from(frame_len.saturating_sub(ETHERNET_HEADER));
        let chance = match self.medium.admit(ip_bytes) {
            Ok(chance) => chance,
            Err(fate) => return fate,
        };
        let size = ip_bytes + self.framing_overhead;
        if let Some(queue) = &mut self.queue {
            if !queue.has_room(arrival, size) {
                return Fate::QueueDrop;
            }
            if self.mark.is_some_and(|mark| queue.is_beyond(mark)) {
                self.marks += 1;
                *is_marked = ecn_capable;
            }
            let begin = self.server.begins(arrival);
            let full_frame = self.server.full_frame_time();
            let codel = self.codel.as_mut();
            match codel.map(|codel| codel.judge(arrival, begin, full_frame, ecn_capable)) {
                None | Some(Verdict::Passes) => {}
                Some(Verdict::Marked) => {
                    self.marks += 1;
                    *is_marked = true;
                }
                Some(Verdict::Dropped) => {
                    queue.push(begin, size);
                    return Fate::QueueDrop;
                }
            }
        }
        let service = self.server.serve(arrival, size);
        let (Service::Sent(end) | Service::Cut(end)) = service;
        if let Some(queue) = &mut self.queue {
            queue.push(end, size);
        }
        match service {
            Service::Cut(_) => Fate::Down,
            Service::Sent(departure) => self.medium.pass(departure, chance),
        }
    }

    /// The bytes that wait or are being sent at `now`, which is not before the last arrival.
    pub fn queued_bytes(&self, now: Nanos) -> u64 {
        self.queue.as_ref().map_or(0, |queue| queue.bytes_at(now))
    }

    /// How many frames were marked so far.
    pub fn marks(&self) -> u64 {
        self.marks
    }

    /// Changes the direction at `now`, for frames that arrive from now on: what was accepted before
    /// keeps its times. After [`Change::Down`] the caller must itself discard the frames whose
    /// departure is later than `now`, because their fate was told already.
    pub fn change(&mut self, now: Nanos, change: Change) -> Result<(), ScheduleInForce> {
        if self.medium.has_schedule() {
            return Err(ScheduleInForce);
        }
        let is_down = change == Change::Down;
        self.server.apply(change.clone());
        self.apply(change);
        if is_down {
            self.server.abandon_backlog(now);
            if let Some(queue) = &mut self.queue {
                queue.clear();
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        if let Change::Rate(rate) = change {
            // A buffer does not shrink with the rate: a limit in BDP or ms keeps the bytes it had.
            let limit = self.queue_limit.resolve(rate, self.rtt);
            self.queue.get_or_insert_with(|| Queue::new(limit));
        }
        self.medium.apply(change);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Event;
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

    fn config(rate: &str, delay_ms: u64, queue: &str) -> DirectionConfig {
        DirectionConfig {
            rate: Some(rate.parse().unwrap()),
            delay: Duration::from_millis(delay_ms),
            queue: queue.parse().unwrap(),
            ..DirectionConfig::default()
        }
    }

    fn direction(config: &DirectionConfig) -> Direction {
        Direction::new(config, config.delay * 2, &seeds())
    }

    fn deliver(departure: Nanos, due: Nanos) -> Fate {
        Fate::Deliver { departure, due }
    }

    #[test]
    fn departure_and_due_worked_by_hand() {
        // 1500 IP bytes at 12 Mbit/s take 1 ms.
        let mut link = direction(&config("12mbit", 10, "100packets"));
        assert_eq!(link.offer(0, 1514), deliver(MS, 11 * MS));
        assert_eq!(link.offer(0, 1514), deliver(2 * MS, 12 * MS));
        assert_eq!(
            link.offer(5 * MS, 764),
            deliver(5 * MS + MS / 2, 15 * MS + MS / 2)
        );
    }

    #[test]
    fn what_is_longer_than_the_mtu_vanishes() {
        let mut config = config("12mbit", 0, "100packets");
        config.mtu = Some(1500);
        config.schedule = "mtu=1300bytes@10ms,mtu=1500bytes@20ms".parse().unwrap();
        let mut link = direction(&config);
        assert_eq!(link.offer(0, 1515), Fate::TooLong);
        // It took nothing of the rate.
        assert_eq!(link.offer(0, 1514), deliver(MS, MS));
        assert_eq!(link.offer(10 * MS, 1315), Fate::TooLong);
        assert!(matches!(link.offer(10 * MS, 1314), Fate::Deliver { .. }));
        assert!(matches!(link.offer(20 * MS, 1514), Fate::Deliver { .. }));
    }

    #[test]
    fn framing_overhead_is_charged() {
        let mut config = config("12mbit", 0, "100packets");
        config.framing_overhead = 38;
        // 1500 + 38 bytes: 12,304 bits at 12 Mbit/s.
        assert_eq!(
            direction(&config).offer(0, 1514),
            deliver(1_025_333, 1_025_333)
        );
    }

    #[test]
    fn drop_tail_is_exact_in_packets_and_in_bytes() {
        for queue in ["3packets", "4500bytes", "3ms"] {
            let mut link = direction(&config("12mbit", 0, queue));
            for sent in 1..=3 {
                assert_eq!(
                    link.offer(0, 1514),
                    deliver(sent * MS, sent * MS),
                    "{queue}"
                );
            }
            assert_eq!(link.offer(0, 1514), Fate::QueueDrop, "{queue}");
            assert_eq!(link.offer(MS - 1, 1514), Fate::QueueDrop, "{queue}");
            // The first frame's last bit leaves at 1 ms: room for one more.
            assert_eq!(link.offer(MS, 1514), deliver(4 * MS, 4 * MS), "{queue}");
            assert_eq!(link.offer(MS, 1514), Fate::QueueDrop, "{queue}");
        }
        // A byte queue takes a small frame where a full one does not fit.
        let mut link = direction(&config("12mbit", 0, "1600bytes"));
        assert_eq!(link.offer(0, 1514), deliver(MS, MS));
        assert_eq!(link.offer(0, 1514), Fate::QueueDrop);
        assert!(matches!(link.offer(0, 114), Fate::Deliver { .. }));
        assert_eq!(link.offer(0, 15), Fate::QueueDrop);
    }

    #[test]
    fn overload_gives_the_rate_and_a_delay_of_limit_over_rate() {
        // 24 Mbit/s of full frames offered for 10 s to 12 Mbit/s with a queue of 30,000 bytes.
        let mut link = direction(&config("12mbit", 10, "1bdp"));
        let (mut delivered_bits, mut longest) = (0u64, 0);
        for arrival in (0..10_000 * MS).step_by(MS as usize / 2) {
            if let Fate::Deliver { departure, due } = link.offer(arrival, 1514) {
                if departure <= 10_000 * MS {
                    delivered_bits += 12_000;
                }
                longest = longest.max(due - arrival);
            }
        }
        assert_eq!(delivered_bits, 120_000_000);
        // 10 ms of delay + 30,000 * 8 / 12 Mbit/s = 20 ms in queue and server.
        assert_eq!(longest, 30 * MS);
    }

    #[test]
    fn codel_keeps_the_wait_near_its_target() {
        // 12 Mbit/s, offered 1 % more, with a queue of 200 ms: drop-tail fills it, CoDel does not.
        let longest_wait = |aqm| {
            let mut config = config("12mbit", 0, "200ms");
            config.aqm = aqm;
            let mut link = direction(&config);
            let waits = (0..30_000u64).filter_map(|i| {
                let arrival = i * 990_000;
                match link.offer(arrival, 1514) {
                    Fate::Deliver { due, .. } if arrival > 20_000 * MS => Some(due - arrival),
                    _ => None,
                }
            });
            waits.max().unwrap()
        };
        assert!(longest_wait(Aqm::DropTail) > 195 * MS);
        assert!(longest_wait(Aqm::CODEL) < 30 * MS);
    }

    #[test]
    fn who_is_capable_is_marked() {
        let mut config = config("12mbit", 0, "100packets");
        config.mark = Some("3packets".parse().unwrap());
        let mut link = direction(&config);
        let marked: Vec<bool> = (0..8)
            .map(|i| link.offer_with_ecn(0, 1514, i != 5).1)
            .collect();
        // Of ten at once the fourth finds three; the sixth is not capable.
        assert_eq!(marked, [false, false, false, true, true, false, true, true]);
        assert_eq!(link.marks(), 5);
    }

    #[test]
    fn codel_marks_who_is_capable_in_place_of_dropping() {
        let fates = |aqm: Aqm, ecn_capable: bool| {
            let mut config = config("12mbit", 0, "1000packets");
            config.aqm = aqm;
            let mut link = direction(&config);
            // 100 packets at once, and then one for each that leaves: all wait for 100 ms.
            let arrivals = (0..100).map(|_| 0).chain((0..400).map(|ms| ms * MS));
            let fates: Vec<(Fate, bool)> = arrivals
                .map(|at| link.offer_with_ecn(at, 1514, ecn_capable))
                .collect();
            let drops = fates.iter().filter(|(fate, _)| *fate == Fate::QueueDrop);
            let marks = fates.iter().filter(|(_, is_marked)| *is_marked);
            let counts = (drops.count(), marks.count());
            assert_eq!(link.marks(), counts.1 as u64);
            counts
        };
        let (drops, marks) = fates(Aqm::CODEL_ECN, true);
        assert!(drops == 0 && marks > 3, "{drops} {marks}");
        let (drops, marks) = fates(Aqm::CODEL_ECN, false);
        assert!(drops > 3 && marks == 0, "{drops} {marks}");
        assert_eq!(fates(Aqm::CODEL, true), (drops, 0));
    }

    #[test]
    fn marks_count_what_finds_a_queue() {
        let mut config = config("12mbit", 0, "10packets");
        config.mark = Some("3packets".parse().unwrap());
        let mut link = direction(&config);
        for _ in 0..12 {
            link.offer(0, 1514);
        }
        // Frames 4 to 10 found 3 or more; two found no room.
        assert_eq!(link.marks(), 7);
        assert_eq!(link.queued_bytes(0), 15_000);
        assert_eq!(link.queued_bytes(3 * MS), 10_500);
    }

    #[test]
    fn below_the_rate_nothing_is_dropped() {
        let mut link = direction(&config("12mbit", 10, "2packets"));
        for i in 0..10_000 {
            assert!(matches!(link.offer(i * MS, 1514), Fate::Deliver { .. }));
        }
    }

    #[test]
    fn a_lost_frame_uses_the_rate() {
        let mut config = config("12mbit", 0, "100packets");
        config.loss = LossModel::Bernoulli { p: 1.0 };
        let mut link = direction(&config);
        assert_eq!(link.offer(0, 1514), Fate::Lost { departure: MS });
        assert_eq!(link.offer(0, 1514), Fate::Lost { departure: 2 * MS });
    }

    #[test]
    fn the_loss_sequence_depends_on_the_frame_index_only() {
        let mut slow = config("1mbit", 0, "1packet");
        slow.loss = LossModel::Bernoulli { p: 0.2 };
        let fast = DirectionConfig {
            rate: None,
            ..slow.clone()
        };
        let (mut slow, mut fast) = (direction(&slow), direction(&fast));
        let mut dropped = 0;
        for i in 0..2000 {
            let unqueued = fast.offer(i * 8 * MS, 1514);
            match slow.offer(i * 8 * MS, 1514) {
                Fate::QueueDrop => dropped += 1,
                fate => assert_eq!(
                    matches!(fate, Fate::Lost { .. }),
                    matches!(unqueued, Fate::Lost { .. })
                ),
            }
        }
        assert!(dropped > 500, "the slow queue dropped only {dropped}");
    }

    #[test]
    fn a_scheduled_outage_is_silent_and_ends() {
        let mut config = config("12mbit", 10, "100packets");
        config.schedule = "down@2.5ms,up@20ms".parse().unwrap();
        let mut link = direction(&config);
        assert_eq!(link.offer(0, 1514), deliver(MS, 11 * MS));
        assert_eq!(link.offer(0, 1514), deliver(2 * MS, 12 * MS));
        assert_eq!(link.offer(0, 1514), Fate::Down); // half sent when the link goes down
        assert_eq!(link.offer(10 * MS, 1514), Fate::Down);
        assert_eq!(link.offer(20 * MS, 1514), deliver(21 * MS, 31 * MS));
        assert_eq!(link.change(21 * MS, Change::Down), Err(ScheduleInForce));
    }

    #[test]
    fn a_shorter_delay_does_not_reorder() {
        let mut config = config("12mbit", 10, "100packets");
        config.schedule = "delay=1ms@2ms".parse().unwrap();
        let mut link = direction(&config);
        assert_eq!(link.offer(0, 1514), deliver(MS, 11 * MS));
        assert_eq!(link.offer(2 * MS, 1514), deliver(3 * MS, 11 * MS));
        assert_eq!(link.offer(20 * MS, 1514), deliver(21 * MS, 22 * MS));
    }

    #[test]
    fn live_changes() {
        let mut link = direction(&config("12mbit", 0, "2packets"));
        link.offer(0, 1514);
        link.offer(0, 1514);
        link.change(MS / 2, Change::Down).unwrap();
        assert_eq!(link.offer(MS, 1514), Fate::Down);
        link.change(2 * MS, Change::Up).unwrap();
        // The backlog was abandoned, so the server is free at once.
        assert_eq!(link.offer(2 * MS, 1514), deliver(3 * MS, 3 * MS));
        link.change(2 * MS, Change::Rate("6mbit".parse().unwrap()))
            .unwrap();
        assert_eq!(link.offer(2 * MS, 1514), deliver(5 * MS, 5 * MS));
        assert_eq!(link.offer(2 * MS, 1514), Fate::QueueDrop);
        link.change(9 * MS, Change::Loss(LossModel::Bernoulli { p: 1.0 }))
            .unwrap();
        assert_eq!(link.offer(9 * MS, 1514), Fate::Lost { departure: 11 * MS });
    }

    /// The same queue and server by brute force: every frame of the past is looked at again, and
    /// time is counted in units of 1 / rate of a nanosecond so that nothing is ever rounded.
    fn brute_force(frames: &[(Nanos, u32)], rate: u128, limit: u64) -> Vec<Option<u128>> {
        let mut ends: Vec<Option<u128>> = Vec::new();
        for (i, (arrival, len)) in frames.iter().enumerate() {
            let arrival = u128::from(*arrival) * rate;
            let waiting: u64 = (0..i)
                .filter(|j| ends[*j].is_some_and(|end| end / rate * rate > arrival))
                .map(|j| u64::from(frames[j].1 - ETHERNET_HEADER))
                .sum();
            let size = u64::from(len - ETHERNET_HEADER);
            ends.push((waiting + size <= limit).then(|| {
                let free = ends.iter().flatten().max().copied().unwrap_or(0);
                free.max(arrival) + u128::from(size) * 8_000_000_000
            }));
        }
        ends
    }

    proptest! {
        #[test]
        fn queue_and_server_agree_with_brute_force(
            gaps in prop::collection::vec((0u64..3_000_000, 60u32..=1514), 1..200),
            rate in 1_000_000u64..50_000_000,
            limit in 1500u64..20_000,
        ) {
            let mut now = 0;
            let frames: Vec<(Nanos, u32)> = gaps
                .into_iter()
                .map(|(gap, len)| { now += gap; (now, len) })
                .collect();
            let config = DirectionConfig {
                rate: Rate::from_bits_per_second(rate),
                queue: QueueLimit::Bytes(limit),
                ..DirectionConfig::default()
            };
            let mut link = direction(&config);
            let expected = brute_force(&frames, u128::from(rate), limit);
            for ((arrival, len), end) in frames.into_iter().zip(expected) {
                let fate = link.offer(arrival, len);
                match end {
                    None => prop_assert_eq!(fate, Fate::QueueDrop),
                    Some(end) => {
                        let departure = (end / u128::from(rate)) as Nanos;
                        // An idle server forgets a part of a nanosecond: at most one of difference.
                        match fate {
                            Fate::Deliver { departure: got, .. } => prop_assert!(got.abs_diff(departure) <= 1),
                            other => prop_assert!(false, "{:?} where departure {} was expected", other, departure),
                        }
                    },
                }
            }
        }

        #[test]
        fn fates_repeat_and_keep_order(
            gaps in prop::collection::vec((0u64..3_000_000, 14u32..=1514), 1..300),
            p in 0.0f64..1.0,
            master in any::<u64>(),
            times in prop::collection::vec(0u64..300_000_000, 2),
        ) {
            let config = DirectionConfig {
                rate: "5mbit".parse().ok(),
                delay: Duration::from_millis(7),
                loss: LossModel::Bernoulli { p },
                schedule: Schedule::new(vec![
                    Event { at: times[0], change: Change::Down },
                    Event { at: times[0].saturating_add(times[1]), change: Change::Up },
                ]),
                ..DirectionConfig::default()
            };
            let seeds = Seeds { master, ..seeds() };
            let mut one = Direction::new(&config, config.delay * 2, &seeds);
            let mut two = one.clone();
            let (mut now, mut last_due) = (0, 0);
            for (gap, len) in gaps {
                now += gap;
                let fate = one.offer(now, len);
                prop_assert_eq!(fate, two.offer(now, len));
                if let Fate::Deliver { departure, due } = fate {
                    prop_assert!(now <= departure && departure + 7 * MS <= due && last_due <= due);
                    prop_assert!(!(times[0] < departure && now < times[0]), "sent across the outage");
                    last_due = due;
                }
            }
        }
    }
}
