//! Links that hold packets in queues by flow until it is their turn.

use mpq_wire::model::Nanos;
use quiche::EcnCodepoint;

use super::queue::Event;
use super::World;

impl World<'_> {
    /// A link has sent a packet, and takes the next one.
    pub(super) fn turn(&mut self, link: usize) {
        let next = self.network.directions[link].turn(self.now);
        self.settle(link, next);
    }

    /// Does with packets what a link has decided, and lets it have its next turn.
    pub(super) fn settle(&mut self, link: usize, next: Option<Nanos>) {
        let direction = &mut self.network.directions[link];
        while let Some(decided) = direction.next_decided() {
            let slot = decided.slot;
            let Some(due) = decided.due else {
                self.pool.free.push(slot);
                continue;
            };
            if decided.is_marked {
                self.pool.packets[slot as usize].ecn = EcnCodepoint::Ce;
            }
            let copy = direction.is_duplicated().then(|| self.pool.copy(slot));
            self.queue.line_up(link, due, slot);
            if let Some(copy) = copy {
                self.queue.line_up(link, due, copy);
            }
        }
        if let Some(at) = next {
            self.queue.push(at, Event::Turn(link as u32));
        }
    }
}
