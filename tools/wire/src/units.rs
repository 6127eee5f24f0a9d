//! Quantities as people write them: a number and a unit. A bare number is an error.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A link rate in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits_per_second`, or `None` for zero: a link that carries nothing is `down`.
    pub const fn from_bits_per_second(bits_per_second: u64) -> Option<Rate> {
        if bits_per_second == 0 {
            None
        } else {
            Some(Rate(bits_per_second))
        }
    }

    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// The bytes this rate carries in `time`, rounded down.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = u128::from(self.0) * time.as_nanos() / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Mbit/s", self.0 as f64 / 1e6)
    }
}

impl FromStr for Rate {
    type Err = String;

    /// `12mbit`, `1.5gbit`, `800kbit`, `9600bit`, each also with `/s`.
    fn from_str(text: &str) -> Result<Rate, String> {
        let bits = quantity(
            text,
            &[
                ("bit", 1.0),
                ("kbit", 1e3),
                ("mbit", 1e6),
                ("gbit", 1e9),
                ("bit/s", 1.0),
                ("kbit/s", 1e3),
                ("mbit/s", 1e6),
                ("gbit/s", 1e9),
            ],
            "12mbit",
        )?;
        Rate::from_bits_per_second(bits.round() as u64).ok_or_else(|| {
            format!("\"{text}\": a rate is at least 1bit; to stop a link use \"down\"")
        })
    }
}

/// `10ms`, `1.5s`, `250us`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = quantity(
        text,
        &[
            ("ns", 1e-9),
            ("us", 1e-6),
            ("ms", 1e-3),
            ("s", 1.0),
            ("min", 60.0),
        ],
        "10ms",
    )?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("\"{text}\": the time is too long"))
}

/// `0.5%`: a probability from 0 to 1, written in per cent.
pub fn parse_probability(text: &str) -> Result<f64, String> {
    let probability = quantity(text, &[("%", 0.01)], "0.5%")?;
    if probability > 1.0 {
        return Err(format!("\"{text}\": a probability is at most 100%"));
    }
    Ok(probability)
}

/// A number of bytes: `10MB` (10^6), `16MiB` (2^20), `1500bytes`. At least 1.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let units = [
        ("bytes", 1.0),
        ("kb", 1e3),
        ("mb", 1e6),
        ("gb", 1e9),
        ("kib", 1024.0),
        ("mib", 1_048_576.0),
        ("gib", 1_073_741_824.0),
    ];
    match quantity(text, &units, "10MB")?.round() {
        bytes if bytes < 1.0 => Err(format!("\"{text}\": a size is at least 1 byte")),
        bytes if bytes > (1u64 << 53) as f64 => Err(format!("\"{text}\": the size is too large")),
        bytes => Ok(bytes as u64),
    }
}

/// Splits `text` into number and unit, and scales by the unit. Units match in any case.
pub(crate) fn quantity(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
    let value: f64 = number.parse().map_err(|_| {
        format!(
            "\"{text}\": expected a number and a unit ({}), for example \"{example}\"",
            names.join(", ")
        )
    })?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(format!(
            "\"{text}\": the unit is missing; write one of {} after the number, for example \"{example}\"",
            names.join(", ")
        ));
    }
    units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, scale)| value * scale)
        .ok_or_else(|| {
            format!(
                "\"{text}\": unknown unit \"{unit}\"; use one of {}, for example \"{example}\"",
                names.join(", ")
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_scale_by_their_unit() {
        assert_eq!(
            "12mbit".parse::<Rate>().unwrap().bits_per_second(),
            12_000_000
        );
        assert_eq!(
            "1.5 Gbit".parse::<Rate>().unwrap().bits_per_second(),
            1_500_000_000
        );
        assert_eq!(parse_duration("10ms").unwrap(), Duration::from_millis(10));
        assert_eq!(parse_duration("0.25s").unwrap(), Duration::from_millis(250));
        assert_eq!(parse_probability("2%").unwrap(), 0.02);
        assert_eq!("30 Mbit/s".parse::<Rate>(), "30mbit".parse());
        assert_eq!(parse_size("10 MB"), Ok(10_000_000));
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
    }

    #[test]
    fn a_missing_or_wrong_unit_says_what_to_write() {
        let missing = "12".parse::<Rate>().unwrap_err();
        assert!(
            missing.contains("unit is missing") && missing.contains("12mbit"),
            "{missing}"
        );
        let wrong = parse_duration("10mbit").unwrap_err();
        assert!(
            wrong.contains("unknown unit \"mbit\"") && wrong.contains("10ms"),
            "{wrong}"
        );
        assert!(parse_probability("0.5").unwrap_err().contains("0.5%"));
        assert!(parse_probability("101%").is_err());
        assert!("0mbit".parse::<Rate>().unwrap_err().contains("down"));
        assert!(parse_size("10").unwrap_err().contains("10MB"));
        assert!(parse_size("0.1 bytes").unwrap_err().contains("at least 1"));
        for bad in [
            "",
            "ms",
            "-3ms",
            "1.2.3ms",
            "1e400s",
            "99999999999999999999s",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn bytes_in_a_time() {
        // 12 Mbit/s * 20 ms = 240,000 bits = 30,000 bytes.
        assert_eq!(
            "12mbit"
                .parse::<Rate>()
                .unwrap()
                .bytes_in(Duration::from_millis(20)),
            30_000
        );
    }
}
