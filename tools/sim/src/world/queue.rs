//! Events to come, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::VecDeque;

use mpq_wire::model::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The first packet of this line comes to its end.
    Line(u32),
    /// The packet in this slot, which overtook others, comes to the end of a link.
    Arrive(u32),
    /// A host is to be served.
    Wake(u32),
    /// A connection begins.
    Start(u32),
    /// A connection may try another path for its handshake.
    Attempt(u32),
    /// A connection ends.
    Stop(u32),
    /// This one of its flow's events comes to a connection.
    Change(u32, u32),
    /// A connection has to be established by now.
    HandshakeDeadline(u32),
    Sample,
    /// A link with queues by flow has sent a packet.
    Turn(u32),
}

/// Packets in the order in which they come to an end: of the direction of a link, or of the way from
/// a host to its first link. Only the first of them is in the event queue.
#[derive(Default)]
struct Line(VecDeque<(Nanos, u64, u32)>);

/// Events and lines; of two events at one time, the one with the lower number comes first.
pub(super) struct Queue {
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    lines: Vec<Line>,
    count: u64,
}

impl Queue {
    /// An empty one with so many lines.
    pub(super) fn new(lines: usize) -> Queue {
        Queue {
            events: BinaryHeap::new(),
            lines: (0..lines).map(|_| Line::default()).collect(),
            count: 0,
        }
    }

    /// The number of the next event, which is also how many there were.
    pub(super) fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn pop(&mut self) -> Option<(Nanos, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }

    pub(super) fn push(&mut self, at: Nanos, event: Event) {
        let number = self.next_number();
        self.push_numbered(at, number, event);
    }

    /// Queues an event that got its number earlier.
    pub(super) fn push_numbered(&mut self, at: Nanos, number: u64, event: Event) {
        self.events.push(Reverse((at, number, event)));
    }

    /// Lets the packet in `slot` come to the end of a line at `at`.
    pub(super) fn line_up(&mut self, line: usize, at: Nanos, slot: u32) {
        let waiting = &mut self.lines[line].0;
        if waiting.back().is_some_and(|(last, ..)| at < *last) {
            return self.push(at, Event::Arrive(slot));
        }
        self.count += 1;
        if waiting.is_empty() {
            let event = Event::Line(line as u32);
            self.events.push(Reverse((at, self.count, event)));
        }
        waiting.push_back((at, self.count, slot));
    }

    /// Takes the first packet of a line, whose time it is.
    pub(super) fn advance(&mut self, line: usize) -> u32 {
        let waiting = &mut self.lines[line].0;
        let (_, _, slot) = waiting.pop_front().expect("its event was there");
        if let Some((at, number, _)) = waiting.front() {
            // With the number that it had from the start, as if it had been queued then.
            let event = Event::Line(line as u32);
            self.events.push(Reverse((*at, *number, event)));
        }
        slot
    }
}
