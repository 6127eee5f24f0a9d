//! Changes of a link at set times.

use std::str::FromStr;

use super::LossModel;
use super::Nanos;
use crate::units::parse_duration;
use crate::units::parse_size;
use crate::units::Rate;

/// One change of a direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Silence: frames that arrive, wait or are being sent are dropped, and no carrier change shows.
    /// What has left the server is still delivered.
    Down,
    Up,
    Rate(Rate),
    /// One-way delay in nanoseconds, for frames that arrive from now on.
    Delay(Nanos),
    Loss(LossModel),
    /// IP bytes of the longest packet that passes.
    Mtu(u64),
}

impl FromStr for Change {
    type Err = String;

    /// `down`, `up`, `rate 2mbit`, `delay 30ms`, `loss 1%`, `mtu 1300bytes`.
    fn from_str(text: &str) -> Result<Change, String> {
        let (verb, value) = text
            .trim()
            .split_once([' ', '='])
            .unwrap_or((text.trim(), ""));
        let value = value.trim();
        match verb {
            "down" | "up" if !value.is_empty() => Err(format!("\"{text}\": {verb} takes no value")),
            "down" => Ok(Change::Down),
            "up" => Ok(Change::Up),
            "rate" => value.parse().map(Change::Rate),
            "delay" => parse_duration(value).map(|delay| Change::Delay(delay.as_nanos() as Nanos)),
            "loss" => value.parse().map(Change::Loss),
            "mtu" => parse_size(value).map(Change::Mtu),
            _ => Err(format!(
                "\"{text}\": expected down, up, rate=2mbit, delay=30ms, loss=1% or mtu=1300bytes"
            )),
        }
    }
}

/// A change and when it happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub at: Nanos,
    pub change: Change,
}

/// Events in the order of their times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule(Vec<Event>);

impl Schedule {
    /// Takes events in any order; events of one instant keep the order given.
    pub fn new(mut events: Vec<Event>) -> Schedule {
        events.sort_by_key(|event| event.at);
        Schedule(events)
    }

    pub fn events(&self) -> &[Event] {
        &self.0
    }
}

impl FromStr for Schedule {
    type Err = String;

    /// `down@2s,up@12s,rate=2mbit@20s`. Commas separate events, so Gilbert laws do not fit here.
    fn from_str(text: &str) -> Result<Schedule, String> {
        let events = text.split(',').map(|event| {
            let (change, at) = event
                .split_once('@')
                .ok_or_else(|| format!("\"{event}\": say when, for example down@2s"))?;
            Ok(Event {
                at: parse_duration(at)?.as_nanos() as Nanos,
                change: change.parse()?,
            })
        });
        events.collect::<Result<_, String>>().map(Schedule::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sorted() {
        let schedule: Schedule = "up@12s,down@2s,rate=2mbit@20s".parse().unwrap();
        let times: Vec<Nanos> = schedule.events().iter().map(|event| event.at).collect();
        assert_eq!(times, [2_000_000_000, 12_000_000_000, 20_000_000_000]);
        assert_eq!(
            schedule.events()[2].change,
            Change::Rate("2mbit".parse().unwrap())
        );
    }

    #[test]
    fn bad_events_are_refused_with_a_hint() {
        for (text, hint) in [
            ("down", "say when"),
            ("down@2", "unit is missing"),
            ("sideways@2s", "expected down"),
            ("down=3@2s", "takes no value"),
            ("rate=2@3s", "unit is missing"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
