//! `xs:duration` and media ticks.

use std::time::Duration;

/// Longest presentation accepted: 30 days.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(30 * 86_400);

/// What stands for the length of a live presentation without a known end: a hundred years.
pub(super) const OPEN: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses the `xs:duration` forms that have a fixed length: `PnDTnHnMnS`, seconds with a fraction.
///
/// `None` for anything else: a sign, years or months (whose length varies), no digits, or a value
/// above [`MAX_DURATION`].
pub(super) fn parse(text: &str) -> Option<Duration> {
    let rest = text.trim().strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((days, time)) if !time.is_empty() => (days, time),
        Some(_) => return None,
        None => (rest, ""),
    };
    let mut nanos: u128 = 0;
    let mut parts = 0;
    for (mut rest, units) in [(days, &[('D', 86_400u64)][..]), (time, &TIME_UNITS[..])] {
        for &(unit, seconds) in units {
            let Some((number, tail)) = rest.split_once(unit) else {
                continue;
            };
            nanos += u128::from(seconds) * nanos_of(number, unit == 'S')?;
            parts += 1;
            rest = tail;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    (parts > 0 && nanos <= MAX_DURATION.as_nanos()).then(|| Duration::from_nanos(nanos as u64))
}

const TIME_UNITS: [(char, u64); 3] = [('H', 3600), ('M', 60), ('S', 1)];

/// `number` times 10^9; digits after the ninth decimal are dropped.
fn nanos_of(number: &str, may_have_fraction: bool) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if may_have_fraction => (whole, fraction),
        Some(_) => return None,
        None => (number, "0"),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let mut nanos = 0u128;
    for index in 0..9 {
        let digit = fraction.as_bytes().get(index).map_or(0, |byte| byte - b'0');
        nanos = nanos * 10 + u128::from(digit);
    }
    Some(u128::from(whole) * 1_000_000_000 + nanos)
}

/// Media ticks as time; saturates at [`OPEN`].
pub(super) fn from_ticks(ticks: u128, timescale: u64) -> Duration {
    let nanos = ticks.saturating_mul(1_000_000_000) / u128::from(timescale.max(1));
    Duration::from_nanos(nanos.min(OPEN.as_nanos()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_with_a_fixed_length() {
        let cases = [
            ("PT12.0S", 12_000),
            ("PT0S", 0),
            ("PT9M56.458S", 596_458),
            ("P1DT1H1M1.001S", 90_061_001),
            ("PT0H10M", 600_000),
            ("P2D", 172_800_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("PT0.0000000019S"), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "P",
            "PT",
            "12",
            "-PT1S",
            "PT-1S",
            "P1Y",
            "P1M",
            "PT1.5M",
            "PT1S2M",
            "PT.5S",
            "PT1.S",
            "P1DT",
            "PT31D",
            "P31D",
            "PT99999999999999999999S",
            "PT1S ago",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn ticks_round_down_to_nanoseconds() {
        // 88064 / 44100 s = 1.996916099...
        assert_eq!(
            from_ticks(88_064, 44_100),
            Duration::from_nanos(1_996_916_099)
        );
        assert_eq!(from_ticks(u128::MAX, 1), OPEN);
    }
}
