//! One-way delays of the packets that a data receiver gets, as the clock of the simulation has them.

use std::time::Duration;

use mpq_wire::model::Nanos;

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Nanos,
    pub path: usize,
    /// Since it left the sender.
    pub delay: Nanos,
}

/// Those of a connection that are not written yet.
pub struct Delays {
    /// The least time from one of a path to the next.
    apart: Nanos,
    /// Of each path, what comes before is left out.
    next: Vec<Nanos>,
    pub arrivals: Vec<Arrival>,
}

impl Delays {
    /// At most one packet of each of `paths` paths in `apart`.
    pub fn new(apart: Duration, paths: usize) -> Delays {
        Delays {
            apart: apart.as_nanos() as Nanos,
            next: vec![0; paths],
            arrivals: Vec::new(),
        }
    }

    /// A packet has arrived `at` that time which was `sent` at that.
    pub fn on_arrival(&mut self, at: Nanos, path: usize, sent: Nanos) {
        if at < self.next[path] {
            return;
        }
        self.next[path] = at + self.apart;
        let delay = at - sent;
        self.arrivals.push(Arrival { at, path, delay });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_path_in_a_millisecond() {
        const MS: Nanos = 1_000_000;
        let mut delays = Delays::new(Duration::from_millis(1), 2);
        // The second of path 0 comes 0.9 ms after the first, the third 1 ms after it.
        let arrivals = [(50, 0), (55, 1), (59, 0), (60, 0)];
        for (tenths, path) in arrivals {
            delays.on_arrival(tenths * MS / 10, path, MS);
        }
        let kept: Vec<_> = delays
            .arrivals
            .iter()
            .map(|arrival| (arrival.path, arrival.delay))
            .collect();
        assert_eq!(kept, [(0, 4 * MS), (1, 45 * MS / 10), (0, 5 * MS)]);
    }

    #[test]
    fn all_of_them() {
        let mut delays = Delays::new(Duration::ZERO, 1);
        delays.on_arrival(5, 0, 1);
        delays.on_arrival(5, 0, 2);
        assert_eq!(delays.arrivals.len(), 2);
    }
}
