//! Queues by flow, served in turn: the scheduler of FQ-CoDel (RFC 8290, section 4).
//!
//! Each flow has a queue of its own, where the RFC hashes flows into 1,024 that some have to share. How
//! much may wait is for the caller to say.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use super::codel::Aqm;
use super::codel::Codel;
use super::codel::Verdict;
use super::Nanos;

/// A packet in its queue.
#[derive(Clone, Debug)]
struct Waiting<T> {
    arrival: Nanos,
    size: u64,
    ecn_capable: bool,
    item: T,
}

/// The queue of one flow.
#[derive(Clone, Debug)]
struct FlowQueue<T> {
    packets: VecDeque<Waiting<T>>,
    bytes: u64,
    /// Bytes that it may send before it is another one's turn.
    credits: i64,
    /// Whether it is in one of the lists.
    is_active: bool,
    codel: Option<Codel>,
}

impl<T> FlowQueue<T> {
    fn pop(&mut self) -> Option<Waiting<T>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.size;
        Some(packet)
    }
}

/// A packet whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next<T> {
    pub(super) item: T,
    pub(super) size: u64,
    /// Whether CoDel marks it.
    pub(super) is_marked: bool,
}

#[derive(Clone, Debug)]
pub(super) struct FlowQueues<T> {
    /// Of each flow's own queue.
    aqm: Aqm,
    /// What a flow may send in one turn.
    quantum: i64,
    /// Where the queue of a flow is.
    by_flow: BTreeMap<u64, usize>,
    queues: Vec<FlowQueue<T>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: u64,
    bytes: u64,
}

impl<T> FlowQueues<T> {
    pub(super) fn new(aqm: Aqm, quantum: u64) -> FlowQueues<T> {
        FlowQueues {
            aqm,
            quantum: quantum as i64,
            by_flow: BTreeMap::new(),
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// How many packets wait.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a packet of `flow` that arrives at `now` (section 4.1).
    pub(super) fn enqueue(&mut self, now: Nanos, flow: u64, size: u64, ecn_capable: bool, item: T) {
        let index = *self.by_flow.entry(flow).or_insert(self.queues.len());
        if index == self.queues.len() {
            self.queues.push(FlowQueue {
                packets: VecDeque::new(),
                bytes: 0,
                credits: 0,
                is_active: false,
                codel: Codel::new(self.aqm),
            });
        }
        let queue = &mut self.queues[index];
        queue.packets.push_back(Waiting {
            arrival: now,
            size,
            ecn_capable,
            item,
        });
        queue.bytes += size;
        self.packets += 1;
        self.bytes += size;
        if !queue.is_active {
            queue.is_active = true;
            queue.credits = self.quantum;
            self.new.push_back(index);
        }
    }

    /// Drops the first packet of the queue with the most bytes, of several the one whose flow was
    /// there first (section 4.1).
    pub(super) fn drop_from_fattest(&mut self) -> Option<T> {
        let active = self.new.iter().chain(&self.old).copied();
        let fattest = active.max_by_key(|i| (self.queues[*i].bytes, std::cmp::Reverse(*i)))?;
        let packet = self.queues[fattest].pop()?;
        Some(self.count_out(packet).item)
    }

    /// The packet that is to be sent at `now`; `dropped` gets those that CoDel drops before it
    /// (section 4.2).
    pub(super) fn dequeue(&mut self, now: Nanos, mut dropped: impl FnMut(T)) -> Option<Next<T>> {
        loop {
            let (index, is_new) = match (self.new.front(), self.old.front()) {
                (Some(index), _) => (*index, true),
                (None, Some(index)) => (*index, false),
                (None, None) => return None,
            };
            let queue = &mut self.queues[index];
            // Zero is none left: a quantum of one full packet is one full packet a turn.
            if queue.credits <= 0 {
                queue.credits += self.quantum;
                self.move_to_old(is_new);
                continue;
            }
            let Some(packet) = queue.pop() else {
                if is_new {
                    // Not out of the lists, or a flow that comes again at once would always be new.
                    self.move_to_old(is_new);
                } else {
                    queue.is_active = false;
                    self.old.pop_front();
                }
                continue;
            };
            let behind = queue.bytes;
            let verdict = queue
                .codel
                .as_mut()
                .map(|codel| codel.judge_queued(packet.arrival, now, behind, packet.ecn_capable));
            let packet = self.count_out(packet);
            if verdict == Some(Verdict::Dropped) {
                dropped(packet.item);
                continue;
            }
            self.queues[index].credits -= packet.size as i64;
            return Some(Next {
                item: packet.item,
                size: packet.size,
                is_marked: verdict == Some(Verdict::Marked),
            });
        }
    }

    /// Takes all packets out, flow by flow.
    pub(super) fn drain(&mut self, mut gone: impl FnMut(T)) {
        (self.packets, self.bytes) = (0, 0);
        // The lists are left to `dequeue`, which finds their queues empty.
        for queue in &mut self.queues {
            queue.bytes = 0;
            queue.packets.drain(..).for_each(|packet| gone(packet.item));
        }
    }

    /// The first of the list goes to the end of the old ones.
    fn move_to_old(&mut self, is_new: bool) {
        let list = if is_new { &mut self.new } else { &mut self.old };
        let first = list.pop_front();
        self.old.extend(first);
    }

    fn count_out(&mut self, packet: Waiting<T>) -> Waiting<T> {
        self.packets -= 1;
        self.bytes -= packet.size;
        packet
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Nanos = 1_000_000;

    /// Packets are numbered within their flow.
    type Queues = FlowQueues<(char, u32)>;

    fn queues<T>(aqm: Aqm) -> FlowQueues<T> {
        FlowQueues::new(aqm, 1500)
    }

    fn add(queues: &mut Queues, flow: char, numbers: std::ops::RangeInclusive<u32>, size: u64) {
        for number in numbers {
            queues.enqueue(0, u64::from(flow), size, false, (flow, number));
        }
    }

    /// The next `count` packets, such as "A1 B1".
    fn take(queues: &mut Queues, count: usize) -> String {
        let next = |_| {
            let next = queues.dequeue(0, |_| panic!("nothing waits for long"))?;
            Some(format!("{}{}", next.item.0, next.item.1))
        };
        (0..count)
            .map_while(next)
            .collect::<Vec<String>>()
            .join(" ")
    }

    #[test]
    fn flows_take_turns_by_bytes() {
        let mut queues = queues(Aqm::CODEL);
        add(&mut queues, 'A', 1..=4, 1500);
        add(&mut queues, 'B', 1..=6, 500);
        assert_eq!((queues.packets(), queues.bytes()), (10, 9000));
        // One of 1500 bytes, three of 500; then only A is left.
        assert_eq!(take(&mut queues, 99), "A1 B1 B2 B3 A2 B4 B5 B6 A3 A4");
        assert_eq!((queues.packets(), queues.bytes()), (0, 0));
    }

    #[test]
    fn what_was_sent_beyond_a_turn_is_missing_in_the_next() {
        let mut queues = queues(Aqm::CODEL);
        add(&mut queues, 'A', 1..=6, 1000);
        add(&mut queues, 'B', 1..=4, 1500);
        // A: 1500 - 2 * 1000 = -500; + 1500 - 1000 = 0; + 1500 - 2 * 1000; and so on.
        assert_eq!(take(&mut queues, 99), "A1 A2 B1 A3 B2 A4 A5 B3 A6 B4");
    }

    #[test]
    fn a_sparse_flow_goes_first_but_not_twice() {
        let mut queues = queues(Aqm::CODEL);
        add(&mut queues, 'A', 1..=12, 400);
        // Four are its first turn, and make it an old one.
        assert_eq!(take(&mut queues, 6), "A1 A2 A3 A4 A5 A6");
        add(&mut queues, 'S', 1..=1, 100);
        // A has 1400 - 2 * 400 = 600 bytes of its turn left, and waits.
        assert_eq!(take(&mut queues, 2), "S1 A7");
        // S is among the old ones now: the rest of A's turn comes first.
        add(&mut queues, 'S', 2..=2, 100);
        assert_eq!(take(&mut queues, 3), "A8 S2 A9");
        // It left the lists when its turn came and nothing waited: it is new again.
        add(&mut queues, 'S', 3..=3, 100);
        assert_eq!(take(&mut queues, 99), "S3 A10 A11 A12");
    }

    #[test]
    fn the_fattest_queue_loses_its_first_packet() {
        let mut queues = queues(Aqm::CODEL);
        add(&mut queues, 'B', 1..=10, 200);
        add(&mut queues, 'A', 1..=3, 1500);
        let mut dropped = Vec::new();
        // 4500 bytes and 3000 against 2000; 1500 against 2000 and 1800; 1500 against 1600.
        dropped.extend((0..5).map_while(|_| queues.drop_from_fattest()));
        assert_eq!(dropped, [('A', 1), ('A', 2), ('B', 1), ('B', 2), ('B', 3)]);
        assert_eq!((queues.packets(), queues.bytes()), (8, 2900));
        assert_eq!(take(&mut queues, 2), "B4 B5");
        // Of two alike the flow that was there first.
        let mut queues: Queues = self::queues(Aqm::CODEL);
        add(&mut queues, 'B', 1..=1, 500);
        add(&mut queues, 'A', 1..=1, 500);
        assert_eq!(queues.drop_from_fattest(), Some(('B', 1)));
        assert_eq!(queues.drop_from_fattest(), Some(('A', 1)));
        assert_eq!(queues.drop_from_fattest(), None);
        assert_eq!(take(&mut queues, 9), "");
    }

    /// The milliseconds at which packets of a flow are dropped and marked that has 20 ms of queue, while
    /// another flow's go through at once: one of each arrives and one of each leaves each millisecond.
    fn hits(aqm: Aqm, ecn_capable: bool) -> (Vec<u64>, Vec<u64>) {
        let mut queues = queues(aqm);
        let (mut drops, mut marks) = (Vec::new(), Vec::new());
        for ms in 0..410 {
            let now = ms * MS;
            queues.enqueue(now, 1, 1500, ecn_capable, 1);
            if ms < 20 {
                continue;
            }
            queues.enqueue(now, 2, 1500, ecn_capable, 2);
            for _ in 0..2 {
                let next = queues.dequeue(now, |flow| {
                    assert_eq!(flow, 1);
                    drops.push(ms);
                });
                let next = next.expect("some wait");
                if next.is_marked {
                    assert_eq!(next.item, 1);
                    marks.push(ms);
                }
            }
        }
        (drops, marks)
    }

    #[test]
    fn codel_judges_each_flow_by_its_own_queue() {
        // 100 ms after the first one is 20 ms late, then 100, 100 / sqrt 2, 100 / sqrt 3, 50 ms later.
        let times = vec![120, 220, 291, 349, 399];
        assert_eq!(hits(Aqm::CODEL, true), (times.clone(), vec![]));
        assert_eq!(hits(Aqm::CODEL_ECN, false), (times.clone(), vec![]));
        assert_eq!(hits(Aqm::CODEL_ECN, true), (vec![], times));
        assert_eq!(hits(Aqm::DropTail, true), (vec![], vec![]));
    }

    #[test]
    fn a_flow_that_leaves_one_packet_behind_is_not_dropped_from() {
        // One arrives and one leaves each 10 ms, so that each waits for 10 ms or 20 ms.
        let drops = |waiting: u64| {
            let mut queues = queues(Aqm::CODEL);
            let mut drops = 0;
            (0..waiting).for_each(|_| queues.enqueue(0, 1, 1500, false, ()));
            for now in (10..1000).step_by(10).map(|ms| ms * MS) {
                queues.enqueue(now, 1, 1500, false, ());
                queues.dequeue(now, |()| drops += 1);
            }
            drops
        };
        assert_eq!(drops(1), 0);
        // The first drop leaves one packet behind.
        assert_eq!(drops(2), 1);
    }

    #[test]
    fn what_is_drained_is_gone_and_the_rest_goes_on() {
        let mut queues = queues(Aqm::CODEL);
        add(&mut queues, 'A', 1..=2, 1500);
        add(&mut queues, 'B', 1..=1, 1500);
        assert_eq!(take(&mut queues, 1), "A1");
        let mut all = Vec::new();
        queues.drain(|item| all.push(item));
        assert_eq!(all, [('A', 2), ('B', 1)]);
        assert_eq!((queues.packets(), queues.bytes()), (0, 0));
        add(&mut queues, 'A', 3..=4, 1500);
        assert_eq!(take(&mut queues, 9), "A3 A4");
    }

    proptest! {
        #[test]
        fn flows_that_always_have_packets_send_alike(
            sizes in prop::collection::vec((40u64..=1500, 40u64..=1500), 200),
        ) {
            let mut queues = queues(Aqm::CODEL);
            for (a, b) in sizes {
                queues.enqueue(0, 0, a, false, 0);
                queues.enqueue(0, 1, b, false, 1);
            }
            let mut sent = [0u64; 2];
            // Both have 200: none runs out.
            for _ in 0..100 {
                let next = queues.dequeue(0, drop).unwrap();
                sent[next.item] += next.size;
                prop_assert!(sent[0].abs_diff(sent[1]) <= 1500 + 2 * 1500);
            }
        }
    }
}
