//! The server: sends one frame at a time at the link's rate, exactly.

use std::sync::Arc;

use super::trace::Cursor;
use super::Change;
use super::Event;
use super::Nanos;
use super::Trace;
use super::FULL_FRAME;
use crate::units::Rate;

const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// When a frame's service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Its last bit left at this time.
    Sent(Nanos),
    /// The link went down at this time, before the last bit left.
    Cut(Nanos),
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    /// Bits per second; 0 stops the service for as long as it lasts.
    rate: Option<u64>,
    /// Where further changes of the rate come from.
    trace: Option<Cursor>,
    up: bool,
    /// When the last frame's service ends.
    free_at: Nanos,
    /// Work that did not fill a whole nanosecond, in nanobits. Carried within a busy period, so no
    /// rounding error builds up.
    carry: u128,
    /// Changes of rate and of up or down, still to come in the server's own time.
    events: Vec<Event>,
    next_event: usize,
}

impl Server {
    /// `rate` `None` sends in no time; a trace takes its place.
    pub(super) fn new(rate: Option<Rate>, trace: Option<Arc<Trace>>, schedule: &[Event]) -> Server {
        let events = schedule
            .iter()
            .filter(|event| matches!(event.change, Change::Rate(_) | Change::Down | Change::Up))
            .cloned()
            .collect();
        let mut trace = trace.map(Cursor::new);
        let rate = trace
            .as_mut()
            .map(Cursor::step)
            .or(rate.map(Rate::bits_per_second));
        Server {
            rate,
            trace,
            up: true,
            free_at: 0,
            carry: 0,
            events,
            next_event: 0,
        }
    }

    /// When a frame that arrives at `arrival` begins to be served.
    pub(super) fn begins(&self, arrival: Nanos) -> Nanos {
        arrival.max(self.free_at)
    }

    /// How long a full-size frame takes at the present rate.
    pub(super) fn full_frame_time(&self) -> Nanos {
        match self.rate {
            None | Some(0) => 0,
            Some(rate) => (u128::from(FULL_FRAME) * NANOBITS_PER_BYTE / u128::from(rate)) as Nanos,
        }
    }

    /// Serves the next frame, of `size` bytes, which arrived at `arrival`.
    pub(super) fn serve(&mut self, arrival: Nanos, size: u64) -> Service {
        if arrival > self.free_at {
            self.free_at = arrival;
            self.carry = 0;
        }
        while self.next_change().is_some_and(|at| at <= self.free_at) {
            self.pass_change();
        }
        if !self.up {
            return Service::Cut(self.free_at);
        }
        let mut work = u128::from(size) * NANOBITS_PER_BYTE + self.carry;
        loop {
            let Some(rate) = self.rate else {
                self.carry = 0;
                return Service::Sent(self.free_at);
            };
            let rate = u128::from(rate);
            let takes = work.checked_div(rate).unwrap_or(u128::MAX);
            let end = self
                .free_at
                .saturating_add(u64::try_from(takes).unwrap_or(u64::MAX));
            let Some(at) = self.next_change().filter(|at| *at < end) else {
                self.free_at = end;
                self.carry = work.checked_rem(rate).unwrap_or(0);
                return Service::Sent(end);
            };
            work -= u128::from(at - self.free_at) * rate;
            self.free_at = at;
            self.pass_change();
            if !self.up {
                return Service::Cut(self.free_at);
            }
        }
    }

    /// When the schedule or the trace next changes something.
    fn next_change(&self) -> Option<Nanos> {
        let event = self.events.get(self.next_event).map(|event| event.at);
        let trace = self.trace.as_ref().map(Cursor::at);
        event.into_iter().chain(trace).min()
    }

    /// Lets the next change happen; of two at once the schedule's comes last.
    fn pass_change(&mut self) {
        let event_at = self.events.get(self.next_event).map(|event| event.at);
        match &mut self.trace {
            Some(trace) if event_at.is_none_or(|at| trace.at() <= at) => {
                self.rate = Some(trace.step());
            }
            _ => {
                let change = self.events[self.next_event].change.clone();
                self.next_event += 1;
                self.apply(change);
            }
        }
    }

    /// Applies a change to what the server does next. Going down, at `free_at`, ends the service.
    pub(super) fn apply(&mut self, change: Change) {
        match change {
            Change::Rate(rate) => self.rate = Some(rate.bits_per_second()),
            Change::Down => {
                self.up = false;
                self.carry = 0;
            }
            Change::Up => self.up = true,
            Change::Delay(_) | Change::Loss(_) | Change::Mtu(_) => {}
        }
    }

    /// Drops what is not yet sent at `now`.
    pub(super) fn abandon_backlog(&mut self, now: Nanos) {
        self.free_at = self.free_at.min(now);
        self.carry = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Schedule;
    use super::*;

    fn server(rate: &str, schedule: &str) -> Server {
        let schedule: Schedule = match schedule {
            "" => Schedule::default(),
            text => text.parse().unwrap(),
        };
        Server::new(Some(rate.parse().unwrap()), None, schedule.events())
    }

    #[test]
    fn a_trace_is_followed_and_repeated() {
        // 12 Mbit/s for 1 ms, nothing for 1 ms: a full frame in every 2 ms.
        let trace = Trace::from_csv("t,rate\n0,12\n0.001,0\n0.002,0\n").unwrap();
        let mut server = Server::new(None, Some(Arc::new(trace.clone())), &[]);
        assert_eq!(server.serve(0, 1500), Service::Sent(1_000_000));
        assert_eq!(server.serve(0, 750), Service::Sent(2_500_000));
        assert_eq!(server.serve(0, 1500), Service::Sent(4_500_000));
        // One second of saturation carries what the trace says.
        let mut server = Server::new(None, Some(Arc::new(trace.clone())), &[]);
        let mut bytes = 0.0;
        while let Service::Sent(end) = server.serve(0, 1500) {
            if end > 1_000_000_000 {
                break;
            }
            bytes += 1500.0;
        }
        let second = std::time::Duration::from_secs(1);
        assert_eq!(bytes, trace.bytes_in(second));
    }

    #[test]
    fn one_frame_takes_8_size_over_rate() {
        // 1500 bytes at 12 Mbit/s: 1 ms.
        let mut server = server("12mbit", "");
        assert_eq!(server.serve(5, 1500), Service::Sent(1_000_005));
        assert_eq!(server.serve(6, 1500), Service::Sent(2_000_005));
        assert_eq!(server.serve(9_000_000, 1500), Service::Sent(10_000_000));
    }

    #[test]
    fn rounding_does_not_build_up() {
        // 1000 bytes at 7 Mbit/s take 1,142,857 + 1/7 ns; 7000 of them exactly 8 s.
        let mut server = server("7mbit", "");
        let last = (0..7000).map(|_| server.serve(0, 1000)).last();
        assert_eq!(last, Some(Service::Sent(8_000_000_000)));
    }

    #[test]
    fn a_rate_change_in_mid_frame_is_exact() {
        // 1500 bytes = 12,000 bits: 0.5 ms at 12 Mbit/s sends 6,000, the rest takes 3 ms at 2 Mbit/s.
        let mut server = server("12mbit", "rate=2mbit@0.5ms");
        assert_eq!(server.serve(0, 1500), Service::Sent(3_500_000));
    }

    #[test]
    fn going_down_cuts_what_is_not_sent() {
        let mut server = server("12mbit", "down@1.5ms,up@4ms");
        assert_eq!(server.serve(0, 1500), Service::Sent(1_000_000));
        assert_eq!(server.serve(0, 1500), Service::Cut(1_500_000));
        assert_eq!(server.serve(1_000_000, 1500), Service::Cut(1_500_000));
        assert_eq!(server.serve(4_000_000, 1500), Service::Sent(5_000_000));
    }
}
