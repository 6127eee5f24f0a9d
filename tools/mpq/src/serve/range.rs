//! The `Range` header field (RFC 9110, section 14), single byte ranges only.

/// What a `Range` field asks of a representation.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Range {
    /// All of it: no range, or one this server may ignore.
    Whole,
    /// The bytes `first..=last`.
    Part {
        /// First byte.
        first: u64,
        /// Last byte, included.
        last: u64,
    },
    /// Nothing of it exists.
    Unsatisfiable,
}

/// The part of `len` bytes that `value` asks for.
pub fn parse(value: Option<&str>, len: u64) -> Range {
    let Some(spec) = value.and_then(|v| v.strip_prefix("bytes=")) else {
        return Range::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else {
        return Range::Whole;
    };

    match (
        first.is_empty(),
        number(first),
        last.is_empty(),
        number(last),
    ) {
        // The last bytes.
        (true, _, false, Some(count)) => {
            if count == 0 || len == 0 {
                Range::Unsatisfiable
            } else {
                Range::Part {
                    first: len.saturating_sub(count),
                    last: len - 1,
                }
            }
        }
        (false, Some(first), true, _) => part(first, u64::MAX, len),
        (false, Some(first), false, Some(last)) if first <= last => part(first, last, len),
        // Several ranges, or nonsense: both may be ignored.
        _ => Range::Whole,
    }
}

fn part(first: u64, last: u64, len: u64) -> Range {
    if first >= len {
        return Range::Unsatisfiable;
    }
    Range::Part {
        first,
        last: last.min(len - 1),
    }
}

/// Digits only: `str::parse` would take a sign too.
fn number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ten_bytes() {
        let part = |first, last| Range::Part { first, last };
        for (value, range) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=2-5", part(2, 5)),
            ("bytes=2-", part(2, 9)),
            ("bytes=2-99", part(2, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-30", part(0, 9)),
            ("bytes=9-9", part(9, 9)),
            ("bytes=10-", Range::Unsatisfiable),
            ("bytes=-0", Range::Unsatisfiable),
            ("bytes=5-2", Range::Whole),
            ("bytes=0-1,3-4", Range::Whole),
            ("bytes=+1-2", Range::Whole),
            ("bytes=", Range::Whole),
            ("bytes=-", Range::Whole),
            ("bytes=99999999999999999999-", Range::Whole),
            ("lines=1-2", Range::Whole),
        ] {
            assert_eq!(parse(Some(value), 10), range, "{value}");
        }
        assert_eq!(parse(None, 10), Range::Whole);
        assert_eq!(parse(Some("bytes=0-"), 0), Range::Unsatisfiable);
        assert_eq!(parse(Some("bytes=-1"), 0), Range::Unsatisfiable);
    }
}
