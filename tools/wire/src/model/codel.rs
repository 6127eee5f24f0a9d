//! CoDel, controlled delay (RFC 8289).

use std::time::Duration;

use super::Nanos;
use super::FULL_FRAME;

/// How a full or long queue decides what to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// Only the queue's limit drops.
    #[default]
    DropTail,
    /// CoDel, and the queue's limit.
    Codel {
        /// Sojourn time that is acceptable for ever.
        target: Duration,
        /// How long it may be exceeded before the first drop.
        interval: Duration,
        /// Whether who is capable of ECN is marked in place of dropped, as Linux's codel has it.
        ecn: bool,
    },
}

impl Aqm {
    /// CoDel with target 5 ms and interval 100 ms (RFC 8289, sections 4.2 and 4.3).
    pub const CODEL: Aqm = Aqm::Codel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: false,
    };

    /// The same, marking in place of dropping where that is possible.
    pub const CODEL_ECN: Aqm = Aqm::Codel {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        ecn: true,
    };
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passes,
    Marked,
    Dropped,
}

/// CoDel's state. It decides about each packet when that is taken from the queue (RFC 8289, section 5).
#[derive(Clone, Debug)]
pub(super) struct Codel {
    target: Nanos,
    interval: Nanos,
    ecn: bool,
    first_above: Option<Nanos>,
    drop_next: Nanos,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl Codel {
    pub(super) fn new(aqm: Aqm) -> Option<Codel> {
        match aqm {
            Aqm::DropTail => None,
            Aqm::Codel {
                target,
                interval,
                ecn,
            } => Some(Codel {
                target: target.as_nanos() as Nanos,
                interval: interval.as_nanos() as Nanos,
                ecn,
                first_above: None,
                drop_next: 0,
                count: 0,
                last_count: 0,
                is_dropping: false,
            }),
        }
    }

    /// What becomes of the packet that arrived at `arrival`, will be taken from the queue at `now`, and is
    /// `ecn_capable` or not; a full packet takes `full_packet` to send.
    ///
    /// RFC 8289 never drops while no more than one full packet waits behind; that needs arrivals of the
    /// future. In its place the target is at least the time that a full packet takes at the link's rate.
    pub(super) fn judge(
        &mut self,
        arrival: Nanos,
        now: Nanos,
        full_packet: Nanos,
        ecn_capable: bool,
    ) -> Verdict {
        let is_short = now - arrival < self.target.max(full_packet);
        self.verdict(is_short, now, ecn_capable)
    }

    /// The same of a packet that is taken from the queue now, where `behind` bytes wait behind it.
    pub(super) fn judge_queued(
        &mut self,
        arrival: Nanos,
        now: Nanos,
        behind: u64,
        ecn_capable: bool,
    ) -> Verdict {
        let is_short = now - arrival < self.target || behind <= FULL_FRAME;
        self.verdict(is_short, now, ecn_capable)
    }

    fn verdict(&mut self, is_short: bool, now: Nanos, ecn_capable: bool) -> Verdict {
        match self.drops(is_short, now) {
            false => Verdict::Passes,
            true if self.ecn && ecn_capable => Verdict::Marked,
            true => Verdict::Dropped,
        }
    }

    /// Whether the packet that is taken from the queue at `now` is dropped; `is_short`: the queue is as
    /// short as it should be.
    fn drops(&mut self, is_short: bool, now: Nanos) -> bool {
        let may_drop = self.is_long_for_long(is_short, now);
        if self.is_dropping {
            if !may_drop {
                self.is_dropping = false;
                return false;
            }
            if now < self.drop_next {
                return false;
            }
            self.count += 1;
            self.drop_next = self.control_law(self.drop_next);
            return true;
        }
        if !may_drop {
            return false;
        }
        self.is_dropping = true;
        // Where the last episode ended is a good place to begin, if it is not long ago.
        let delta = self.count - self.last_count;
        let is_recent = now.saturating_sub(self.drop_next) < 16 * self.interval;
        self.count = if delta > 1 && is_recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        true
    }

    fn is_long_for_long(&mut self, is_short: bool, now: Nanos) -> bool {
        if is_short {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + self.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    fn control_law(&self, from: Nanos) -> Nanos {
        from + (self.interval as f64 / f64::from(self.count).sqrt()) as Nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    /// Times at which packets are dropped when every one waited `sojourn`, one each millisecond.
    fn drops(sojourn: Nanos, until_ms: u64) -> Vec<u64> {
        let mut codel = Codel::new(Aqm::CODEL).unwrap();
        let times = (0..until_ms).filter(|ms| {
            let now = ms * MS + sojourn;
            codel.judge(now - sojourn, now, MS, false) == Verdict::Dropped
        });
        times.collect()
    }

    #[test]
    fn a_standing_queue_is_dropped_from_faster_and_faster() {
        // Above from the first packet on: first drop after 100 ms, and then the law of the square
        // root: 100 ms, 100 / sqrt 2 = 70.7 ms, 100 / sqrt 3 = 57.7 ms, 50 ms later.
        assert_eq!(drops(20 * MS, 390), [100, 200, 271, 329, 379]);
    }

    #[test]
    fn below_the_target_nothing_is_dropped() {
        assert!(drops(5 * MS - 1, 10_000).is_empty());
    }

    #[test]
    fn one_short_wait_ends_the_episode() {
        let mut codel = Codel::new(Aqm::CODEL).unwrap();
        let mut dropped = 0;
        for ms in 0..1000u64 {
            let sojourn = if ms % 50 == 0 { MS } else { 20 * MS };
            let now = ms * MS + 20 * MS;
            dropped += u32::from(codel.judge(now - sojourn, now, MS, false) == Verdict::Dropped);
        }
        assert_eq!(dropped, 0);
    }
}
