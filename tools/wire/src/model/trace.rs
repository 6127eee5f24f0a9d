//! A rate that varies as recorded.

use std::sync::Arc;
use std::time::Duration;

use super::Nanos;
use super::FULL_FRAME;
use crate::units::Rate;

const MS: Nanos = 1_000_000;

/// Longer ones are mistakes.
const LONGEST: Nanos = 86_400_000 * MS;

/// Rates, each in force until the next; the whole is repeated for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Begin and bits per second, the first at 0.
    steps: Vec<(Nanos, u64)>,
    period: Nanos,
}

impl Trace {
    /// Mahimahi's format: for each opportunity to send 1500 bytes the millisecond at which it
    /// comes, in order. The last stamp is the period. The opportunities of a millisecond are spread
    /// evenly over it, ending at its stamp.
    pub fn from_mahimahi(text: &str) -> Result<Trace, String> {
        let mut steps: Vec<(Nanos, u64)> = Vec::new();
        let mut last = 0;
        let mut push = |from_ms: u64, packets: u64| {
            let rate = packets * FULL_FRAME * 8 * 1000;
            if steps.last().is_none_or(|(_, before)| *before != rate) {
                steps.push((from_ms * MS, rate));
            }
        };
        let (mut packets, mut current) = (0, 1);
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() {
                continue;
            }
            let at: u64 = line.trim().parse().map_err(|_| {
                format!(
                    "line {number}: \"{}\" is no time in whole milliseconds",
                    line.trim()
                )
            })?;
            if at < last {
                return Err(format!("line {number}: time {at} is before {last}"));
            }
            if at > LONGEST / MS {
                return Err(format!("line {number}: time {at} is after more than a day"));
            }
            last = at;
            // Stamp 0 belongs to the first millisecond as stamp 1 does.
            let at = at.max(1);
            if at > current {
                push(current - 1, packets);
                if at > current + 1 {
                    push(current, 0);
                }
                (current, packets) = (at, 0);
            }
            packets += 1;
        }
        if packets == 0 {
            return Err("the trace is empty".into());
        }
        push(current - 1, packets);
        Ok(Trace {
            steps,
            period: current * MS,
        })
    }

    /// Lines `seconds,Mbit/s` after a header line `t,rate`: each rate until the next line's time.
    /// The last line only ends the trace.
    pub fn from_csv(text: &str) -> Result<Trace, String> {
        let mut lines = (1..)
            .zip(text.lines())
            .filter(|(_, l)| !l.trim().is_empty());
        match lines.next() {
            Some((_, header)) if header.replace(' ', "") == "t,rate" => {}
            _ => return Err("line 1: the header \"t,rate\" is missing".into()),
        }
        let mut steps: Vec<(Nanos, u64)> = Vec::new();
        for (number, line) in lines {
            let bad = || format!("line {number}: \"{line}\" is not \"seconds,Mbit/s\"");
            let (t, rate) = line.split_once(',').ok_or_else(bad)?;
            let t: f64 = t.trim().parse().map_err(|_| bad())?;
            let rate: f64 = rate.trim().parse().map_err(|_| bad())?;
            if !(0.0..=LONGEST as f64 / 1e9).contains(&t) || !(0.0..=1e6).contains(&rate) {
                return Err(format!("line {number}: out of range"));
            }
            let at = (t * 1e9).round() as Nanos;
            match steps.last() {
                None if at != 0 => return Err(format!("line {number}: the first time is not 0")),
                Some((before, _)) if *before >= at => {
                    return Err(format!("line {number}: the time does not grow"))
                }
                _ => steps.push((at, (rate * 1e6).round() as u64)),
            }
        }
        let Some((period, _)) = steps.pop().filter(|_| !steps.is_empty()) else {
            return Err("the trace needs two lines at least: a rate and the end".into());
        };
        if steps.iter().all(|(_, rate)| *rate == 0) {
            return Err("all rates are 0".into());
        }
        Ok(Trace { steps, period })
    }

    /// How long the trace is before it is repeated.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// The bytes that it carries in `time` from its begin.
    pub fn bytes_in(&self, time: Duration) -> f64 {
        let whole = (time.as_nanos() / u128::from(self.period)) as f64;
        let rest = (time.as_nanos() % u128::from(self.period)) as Nanos;
        whole * self.bits_until(self.period) / 8.0 + self.bits_until(rest) / 8.0
    }

    /// The mean rate.
    pub fn mean(&self) -> Rate {
        let bits_per_second = self.bits_until(self.period) / (self.period as f64 / 1e9);
        Rate::from_bits_per_second((bits_per_second.round() as u64).max(1)).expect("at least 1")
    }

    fn bits_until(&self, end: Nanos) -> f64 {
        let ends = self.steps[1..].iter().map(|(at, _)| *at);
        self.steps
            .iter()
            .zip(ends.chain([self.period]))
            .map(|((from, rate), to)| to.min(end).saturating_sub(*from) as f64 / 1e9 * *rate as f64)
            .sum()
    }
}

/// A place in a trace.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    trace: Arc<Trace>,
    next: usize,
    begun: Nanos,
}

impl Cursor {
    pub(super) fn new(trace: Arc<Trace>) -> Cursor {
        Cursor {
            trace,
            next: 0,
            begun: 0,
        }
    }

    /// When the rate next changes.
    pub(super) fn at(&self) -> Nanos {
        self.begun.saturating_add(self.trace.steps[self.next].0)
    }

    /// Goes past the next change, and returns the rate from there on in bits per second.
    pub(super) fn step(&mut self) -> u64 {
        let (_, rate) = self.trace.steps[self.next];
        self.next += 1;
        if self.next == self.trace.steps.len() {
            self.next = 0;
            self.begun = self.begun.saturating_add(self.trace.period);
        }
        rate
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mahimahi_by_hand() {
        // Two packets in the first millisecond, none in the second, one in the third; 3 ms in all.
        let trace = Trace::from_mahimahi("1\n1\n3\n").unwrap();
        assert_eq!(
            trace.steps,
            [(0, 24_000_000), (MS, 0), (2 * MS, 12_000_000)]
        );
        assert_eq!(trace.period(), Duration::from_millis(3));
        assert_eq!(trace.bytes_in(Duration::from_millis(3)), 4500.0);
        assert_eq!(
            trace.bytes_in(Duration::from_micros(6500)),
            4500.0 * 2.0 + 1500.0
        );
        assert_eq!(trace.mean().bits_per_second(), 12_000_000);
    }

    #[test]
    fn csv_by_hand() {
        let trace = Trace::from_csv("t,rate\n0,10\n1.5,0\n2,0\n").unwrap();
        assert_eq!(trace.steps, [(0, 10_000_000), (1_500_000_000, 0)]);
        assert_eq!(trace.mean().bits_per_second(), 7_500_000);
    }

    #[test]
    fn bad_traces_are_refused_with_the_line() {
        for (text, hint) in [
            ("", "empty"),
            ("1\nx\n", "line 2: \"x\""),
            ("5\n4\n", "line 2: time 4 is before 5"),
        ] {
            let error = Trace::from_mahimahi(text).unwrap_err();
            assert!(error.contains(hint), "{text:?}: {error}");
        }
        for (text, hint) in [
            ("0,1\n1,1\n", "header"),
            ("t,rate\n0,1\n", "two lines"),
            ("t,rate\n1,1\n2,1\n", "line 2: the first time is not 0"),
            ("t,rate\n0,1\n0,2\n", "line 3: the time does not grow"),
            ("t,rate\n0,-1\n1,0\n", "line 2: out of range"),
            ("t,rate\n0,0\n1,0\n", "all rates are 0"),
        ] {
            let error = Trace::from_csv(text).unwrap_err();
            assert!(error.contains(hint), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9,.\nte-]{0,80}") {
            let _ = Trace::from_mahimahi(&text);
            let _ = Trace::from_csv(&format!("t,rate\n{text}"));
        }
    }
}
