//! Reading.

use crate::percent;
use crate::Cmcd;
use crate::Object;
use crate::MAX_BYTES;
use crate::MAX_KBPS;
use crate::MAX_MS;

/// Digits of an Integer (RFC 8941, section 3.3.1).
const MAX_DIGITS: usize = 15;

impl Cmcd {
    /// Adds what `value` says, of whichever of the four header fields: a name counts in each of them.
    ///
    /// A value above [`MAX_BYTES`] says nothing. Returns whether anything was understood.
    pub fn read(&mut self, value: &[u8]) -> bool {
        if value.len() > MAX_BYTES {
            return false;
        }
        let mut has_any = false;
        let mut rest = value;
        while !rest.is_empty() {
            let (member, behind) = split(rest);
            rest = behind;
            has_any |= self.member(trim(member)).is_some();
        }
        has_any
    }

    /// Adds what the argument `CMCD` of a query says, the part of a URL behind its `?`. Returns whether
    /// anything was understood.
    pub fn read_query(&mut self, query: &[u8]) -> bool {
        let mut arguments = query.split(|&byte| byte == b'&');
        let argument = arguments.find_map(|argument| argument.strip_prefix(b"CMCD="));
        let mut buffer = [0; MAX_BYTES];
        argument
            .and_then(|argument| percent::decode(argument, &mut buffer))
            .is_some_and(|value| self.read(value))
    }

    /// `None` if the member is none of ours, or not what it has to be.
    fn member(&mut self, member: &[u8]) -> Option<()> {
        let (name, value) = match member.iter().position(|&byte| byte == b'=') {
            Some(at) => (&member[..at], Some(&member[at + 1..])),
            None => (member, None),
        };
        match name {
            b"bl" => self.buffer_ms = Some(integer(value?, MAX_MS)?),
            b"br" => self.bitrate_kbps = Some(integer(value?, MAX_KBPS)?),
            b"d" => self.duration_ms = Some(integer(value?, MAX_MS)?),
            b"dl" => self.deadline_ms = Some(integer(value?, MAX_MS)?),
            b"mtp" => self.throughput_kbps = Some(integer(value?, MAX_KBPS)?),
            b"tb" => self.top_bitrate_kbps = Some(integer(value?, MAX_KBPS)?),
            b"ot" => self.object = Some(object(value?)?),
            b"su" => self.is_startup = boolean(value)?,
            b"bs" => self.was_starved = boolean(value)?,
            _ => return None,
        }
        Some(())
    }
}

/// The first member and what is behind its comma. One in a string, or in an inner list as version 2
/// has them, ends nothing.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut is_string, mut is_escape, mut is_list) = (false, false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if is_escape => is_escape = false,
            b'\\' if is_string => is_escape = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'(' => is_list = true,
            b')' => is_list = false,
            b',' if !is_list => return (&text[..at], &text[at + 1..]),
            _ => {}
        }
    }
    (text, &[])
}

/// Without blanks and tabs around it.
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Digits only: none of what is read can be negative.
fn integer(text: &[u8], max: u64) -> Option<u64> {
    if text.is_empty() || text.len() > MAX_DIGITS {
        return None;
    }
    let mut value = 0;
    for &byte in text {
        if !byte.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u64::from(byte - b'0');
    }
    (value <= max).then_some(value)
}

/// Mostly the name alone.
fn boolean(value: Option<&[u8]>) -> Option<bool> {
    match value {
        None | Some(b"?1") => Some(true),
        Some(b"?0") => Some(false),
        Some(_) => None,
    }
}

/// Types that we do not tell apart are [`Object::Other`].
fn object(token: &[u8]) -> Option<Object> {
    let known = Object::ALL
        .iter()
        .find(|(_, name)| name.as_bytes() == token);
    match (known, token) {
        (Some((object, _)), _) => Some(*object),
        (None, b"c" | b"tt" | b"k") => Some(Object::Other),
        (None, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Cmcd {
        let mut cmcd = Cmcd::default();
        cmcd.read(value.as_bytes());
        cmcd
    }

    #[test]
    fn fields_of_a_request() {
        let mut cmcd = Cmcd::default();
        for value in [
            "br=3200,d=4004,ot=v,tb=6000",
            "bl=21300,dl=18500,mtp=48100,su",
            "bs,rtp=15000",
            "sid=\"6e2fb550-c457-11e9-bb97-0800200c9a66\"",
        ] {
            assert_eq!(cmcd.read(value.as_bytes()), !value.starts_with("sid"));
        }
        let expected = Cmcd {
            buffer_ms: Some(21_300),
            bitrate_kbps: Some(3200),
            duration_ms: Some(4004),
            deadline_ms: Some(18_500),
            throughput_kbps: Some(48_100),
            top_bitrate_kbps: Some(6000),
            object: Some(Object::Video),
            is_startup: true,
            was_starved: true,
        };
        assert_eq!(cmcd, expected);
        assert_eq!(cmcd.bitrate_bits_per_sec(), 3_200_000);
    }

    #[test]
    fn argument_of_a_query() {
        for query in [
            "CMCD=bl%3D21300%2Csid%3D%22a%2Cbl%3D1%22",
            "a=b&CMCD=bl=21300&CMCD=bl=1",
            "&&CMCD=bl%3d21300&",
        ] {
            let mut cmcd = Cmcd::default();
            assert!(cmcd.read_query(query.as_bytes()), "{query}");
            assert_eq!(cmcd, read("bl=21300"), "{query}");
        }
        for query in [
            "",
            "CMCD",
            "CMCD=",
            "cmcd=bl=1",
            "xCMCD=bl=1",
            "a=CMCD=bl=1",
            "CMCD=bl%3D1%2",
        ] {
            let mut cmcd = Cmcd::default();
            assert!(!cmcd.read_query(query.as_bytes()), "{query}");
            assert_eq!(cmcd, Cmcd::default(), "{query}");
        }
    }

    /// One member that is wrong, or of somebody else, takes nothing from the others.
    #[test]
    fn what_is_not_understood_is_passed_over() {
        for other in [
            "com.example-myKey=500",
            "Com.Example-X",
            "dl=(1000 2000;v, 3)",
            "cid=\"a,b\\\",dl=7\"",
            "dl=-1",
            "dl=1.5",
            "dl",
            "dl=",
            "dl=1x",
            "dl=\"1\"",
            "dl=86400001",
            "mtp=1000000001",
            "dl=1000000000000000000000",
            "ot=x",
            "su=1",
            "bs=?2",
            "=5",
            ",,",
            "\u{e9}=1",
        ] {
            for value in [format!("{other},bl=5"), format!("bl=5 ,\t{other}")] {
                assert_eq!(read(&value), read("bl=5"), "{value}");
            }
        }
        // The last one counts; a string without an end takes all behind it.
        assert_eq!(read("bl=1,bl=5"), read("bl=5"));
        assert_eq!(read("bl=5,cid=\"x,bl=6"), read("bl=5"));
        assert_eq!(read("bl=86400000").buffer_ms, Some(MAX_MS));
        assert_eq!(read("su=?1,bs=?0"), read("su"));
        assert_eq!(read("ot=tt").object, Some(Object::Other));
    }

    #[test]
    fn what_is_too_long_says_nothing() {
        let long = |bytes: usize| format!("bl=5,cid=\"{}\"", "x".repeat(bytes - 11));
        assert_eq!(long(MAX_BYTES).len(), MAX_BYTES);
        assert_eq!(read(&long(MAX_BYTES)), read("bl=5"));
        assert_eq!(read(&long(MAX_BYTES + 1)), Cmcd::default());
        let query = |bytes| format!("CMCD={}", long(bytes));
        let mut cmcd = Cmcd::default();
        assert!(!cmcd.read_query(query(MAX_BYTES + 1).as_bytes()));
        assert!(cmcd.read_query(query(MAX_BYTES).as_bytes()));
    }

    #[test]
    fn playback_is_what_a_scheduler_acts_on() {
        assert!(!read("br=1,d=2,dl=3,mtp=4,ot=v").has_playback());
        assert!(read("bl=0").has_playback() && !read("bl=0").is_stalled());
        for stalled in ["su", "bs", "bl=0,bs", "bl=100,su"] {
            assert!(read(stalled).has_playback() && read(stalled).is_stalled());
        }
        assert!(!read("bl=100,bs").is_stalled());
    }
}
