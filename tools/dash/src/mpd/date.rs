//! `xs:dateTime`.

use std::time::Duration;

/// Parses `2026-11-23T19:46:13.5Z` and the same with an offset such as `+01:00`; without either it
/// is UTC, as players take it. Time since 1970-01-01T00:00:00Z; `None` for anything else, and for
/// what was before.
pub(super) fn parse(text: &str) -> Option<Duration> {
    let (date, time) = text.trim().split_once('T')?;
    let mut fields = date.splitn(3, '-').map(|field| number(field, 4));
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let (time, east_s) = zone(time)?;
    let mut fields = time.splitn(3, ':');
    let (hour, minute) = (number(fields.next()?, 2)?, number(fields.next()?, 2)?);
    let seconds = fields.next()?;
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let seconds: f64 = match seconds.bytes().all(is_plain) {
        true => seconds.parse().ok()?,
        false => return None,
    };
    let in_range = (1..=12).contains(&month) && (1..=31).contains(&day) && year >= 1970;
    if !in_range || hour > 24 || minute > 59 || !(0.0..61.0).contains(&seconds) {
        return None;
    }
    let whole = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 - east_s;
    let whole = Duration::from_secs(u64::try_from(whole).ok()?);
    // Nanoseconds would be lost in a sum of floats.
    whole.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// The time without its zone, and how far east of UTC that is, seconds.
fn zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let Some(at) = time.find(['+', '-']) else {
        return Some((time, 0));
    };
    let (hours, minutes) = time[at + 1..].split_once(':')?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let seconds = hours * 3_600 + minutes * 60;
    let east_s = if time[at..].starts_with('-') {
        -seconds
    } else {
        seconds
    };
    (hours <= 14 && minutes <= 59).then_some((&time[..at], east_s))
}

fn number(text: &str, most_digits: usize) -> Option<i64> {
    let is_number = (1..=most_digits).contains(&text.len());
    let is_number = is_number && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let since_march = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    365 * year + leap_days + (153 * since_march + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_by_hand() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0.0),
            ("1970-01-01T00:00:00", 0.0),
            ("1970-03-01T00:00:01.25Z", 59.0 * 86_400.0 + 1.25),
            // 30 years with 7 leap days; 2000 has one.
            ("2000-01-01T00:00:00Z", (30.0 * 365.0 + 7.0) * 86_400.0),
            (
                "2000-03-01T00:00:00Z",
                (30.0 * 365.0 + 7.0 + 60.0) * 86_400.0,
            ),
            ("2001-09-09T01:46:40Z", 1e9),
            ("2001-09-09T03:46:40+02:00", 1e9),
            ("2001-09-08T20:16:40-05:30", 1e9),
        ] {
            assert_eq!(
                parse(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "",
            "T",
            "2026-11-23",
            "2026-11-23T19:46Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-32T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "2026-11-23T19:46:13.5X",
            "2026-11-23T19:46:1e1Z",
            "-026-11-23T19:46:13Z",
            "2026-11-23T19:46:13+1",
            "99999-11-23T19:46:13Z",
            "2026-11-23T\u{e9}19:46:13Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
