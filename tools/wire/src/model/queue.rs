//! The drop-tail queue in front of the server.

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::Duration;

use super::Nanos;
use super::FULL_FRAME;
use crate::units::parse_duration;
use crate::units::quantity;
use crate::units::Rate;

/// How much a queue holds, as people state it. The frame being sent counts as queued until its last
/// bit has left, so the longest time a frame spends in queue and server is `limit * 8 / rate`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueLimit {
    Packets(u64),
    Bytes(u64),
    /// A multiple of rate x RTT; the RTT is the link's own where none is stated.
    Bdp {
        multiple: f64,
        rtt: Option<Duration>,
    },
    /// The bytes that the rate carries in this time.
    Time(Duration),
}

impl Default for QueueLimit {
    fn default() -> QueueLimit {
        QueueLimit::Bdp {
            multiple: 1.0,
            rtt: None,
        }
    }
}

impl QueueLimit {
    /// The limit in packets or bytes for a link of `rate` and `rtt`. BDP and time limits are at least
    /// one full-size frame, as a queue that holds none would pass nothing.
    pub(super) fn resolve(self, rate: Rate, rtt: Duration) -> Limit {
        match self {
            QueueLimit::Packets(packets) => Limit::Packets(packets),
            QueueLimit::Bytes(bytes) => Limit::Bytes(bytes),
            QueueLimit::Bdp {
                multiple,
                rtt: stated,
            } => {
                let bdp = rate.bytes_in(stated.unwrap_or(rtt)) as f64;
                Limit::Bytes(((bdp * multiple).round() as u64).max(FULL_FRAME))
            }
            QueueLimit::Time(time) => Limit::Bytes(rate.bytes_in(time).max(FULL_FRAME)),
        }
    }
}

impl FromStr for QueueLimit {
    type Err = String;

    /// `50packets`, `30000bytes` (also `30kb`), `1bdp`, `1.5bdp:rtt=20ms`, `100ms`.
    fn from_str(text: &str) -> Result<QueueLimit, String> {
        let (size, rtt) = match text.split_once(':') {
            None => (text, None),
            Some((size, option)) => match option.trim().strip_prefix("rtt=") {
                Some(rtt) => (size, Some(parse_duration(rtt)?)),
                None => {
                    return Err(format!(
                        "\"{text}\": after the colon write rtt=, for example 1bdp:rtt=20ms"
                    ))
                }
            },
        };
        if size.trim().to_ascii_lowercase().ends_with("bdp") {
            let multiple = quantity(size, &[("bdp", 1.0)], "1bdp")?;
            if multiple <= 0.0 {
                return Err(format!(
                    "\"{text}\": the multiple of the BDP must be above 0"
                ));
            }
            return Ok(QueueLimit::Bdp { multiple, rtt });
        }
        if rtt.is_some() {
            return Err(format!("\"{text}\": rtt= goes with bdp only"));
        }
        let unit_start = size
            .find(|c: char| c.is_ascii_alphabetic())
            .unwrap_or(size.len());
        match size[unit_start..].trim().to_ascii_lowercase().as_str() {
            "packets" | "packet" => match quantity(size, &[("packets", 1.0), ("packet", 1.0)], "50packets")? {
                packets if packets >= 1.0 => Ok(QueueLimit::Packets(packets as u64)),
                _ => Err(format!("\"{text}\": a queue holds at least 1packet")),
            },
            "bytes" | "kb" | "mb" => {
                let bytes = quantity(size, &[("bytes", 1.0), ("kb", 1e3), ("mb", 1e6)], "30kb")?;
                if bytes < FULL_FRAME as f64 {
                    return Err(format!("\"{text}\" holds no full-size packet: use at least {FULL_FRAME}bytes"));
                }
                Ok(QueueLimit::Bytes(bytes as u64))
            },
            "" => Err(format!(
                "\"{text}\": the unit is missing; write packets, bytes, kb, mb, bdp or ms after the number, \
                 for example \"1bdp\" or \"50packets\""
            )),
            _ => match parse_duration(size) {
                Ok(time) if time.is_zero() => Err(format!("\"{text}\": the time must be above 0")),
                Ok(time) => Ok(QueueLimit::Time(time)),
                Err(_) => Err(format!(
                    "\"{text}\": unknown unit; use packets, bytes, kb, mb, bdp or ms, for example \"1bdp\""
                )),
            },
        }
    }
}

/// A queue limit for one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Packets(u64),
    Bytes(u64),
}

/// The frames accepted and not yet sent.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    limit: Limit,
    bytes: u64,
    frames: VecDeque<(Nanos, u64)>,
}

impl Queue {
    pub(super) fn new(limit: Limit) -> Queue {
        Queue {
            limit,
            bytes: 0,
            frames: VecDeque::new(),
        }
    }

    /// Whether a frame of `size` bytes that arrives at `now` finds room.
    pub(super) fn has_room(&mut self, now: Nanos, size: u64) -> bool {
        while self
            .frames
            .front()
            .is_some_and(|(departure, _)| *departure <= now)
        {
            let (_, gone) = self.frames.pop_front().expect("front exists");
            self.bytes -= gone;
        }
        match self.limit {
            Limit::Packets(packets) => (self.frames.len() as u64) < packets,
            Limit::Bytes(bytes) => self.bytes + size <= bytes,
        }
    }

    /// The bytes that wait or are being sent at `now`.
    pub(super) fn bytes_at(&self, now: Nanos) -> u64 {
        let gone = self
            .frames
            .iter()
            .take_while(|(departure, _)| *departure <= now);
        self.bytes - gone.map(|(_, size)| size).sum::<u64>()
    }

    /// Whether as much waits as `limit` says, after [`Queue::has_room`] at the same time.
    pub(super) fn is_beyond(&self, limit: Limit) -> bool {
        match limit {
            Limit::Packets(packets) => self.frames.len() as u64 >= packets,
            Limit::Bytes(bytes) => self.bytes >= bytes,
        }
    }

    /// Adds a frame of `size` bytes whose last bit leaves at `departure`.
    pub(super) fn push(&mut self, departure: Nanos, size: u64) {
        self.bytes += size;
        self.frames.push_back((departure, size));
    }

    pub(super) fn clear(&mut self) {
        self.bytes = 0;
        self.frames.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_as_people_state_them() {
        let rate: Rate = "12mbit".parse().unwrap();
        let rtt = Duration::from_millis(20);
        let bytes = |text: &str| text.parse::<QueueLimit>().unwrap().resolve(rate, rtt);
        assert_eq!(bytes("1bdp"), Limit::Bytes(30_000)); // 12 Mbit/s * 20 ms / 8
        assert_eq!(bytes("0.5bdp:rtt=100ms"), Limit::Bytes(75_000));
        assert_eq!(bytes("100ms"), Limit::Bytes(150_000));
        assert_eq!(bytes("30kb"), Limit::Bytes(30_000));
        assert_eq!(bytes("50packets"), Limit::Packets(50));
        assert_eq!(bytes("0.001bdp"), Limit::Bytes(FULL_FRAME));
    }

    #[test]
    fn bad_limits_are_refused_with_a_hint() {
        for (text, hint) in [
            ("50", "unit is missing"),
            ("50mbit", "unknown unit"),
            ("300bytes", "at least 1500bytes"),
            ("0packets", "at least 1packet"),
            ("0bdp", "above 0"),
            ("1bdp:delay=3ms", "rtt="),
            ("50packets:rtt=20ms", "bdp only"),
        ] {
            let error = text.parse::<QueueLimit>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
