//! Percent-encoding (RFC 3986, section 2).

/// Appends `text` to `out`; all but unreserved characters are encoded.
pub fn encode(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => {
                out.push('%');
                out.push(HEX[usize::from(byte >> 4)].into());
                out.push(HEX[usize::from(byte & 15)].into());
            }
        }
    }
}

/// Decodes `text` into `out` and returns what was written; `None` if it does not fit, or a `%` has no
/// two digits behind it.
pub fn decode<'a>(text: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut len = 0;
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => (digit(*high)? << 4 | digit(*low)?, behind),
            (b'%', _) => return None,
            _ => (first, behind),
        };
        *out.get_mut(len)? = byte;
        len += 1;
        rest = behind;
    }
    Some(&out[..len])
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_it_encodes() {
        let mut text = String::new();
        encode("bl=1,nor=\"a b~\u{e9}\"", &mut text);
        assert_eq!(text, "bl%3D1%2Cnor%3D%22a%20b~%C3%A9%22");
        let mut out = [0; 17];
        assert_eq!(
            decode(text.as_bytes(), &mut out).unwrap(),
            "bl=1,nor=\"a b~\u{e9}\"".as_bytes()
        );
        assert_eq!(decode(b"%3d%3D", &mut out).unwrap(), b"==");
    }

    #[test]
    fn refuses_what_is_cut_and_what_does_not_fit() {
        let mut out = [0; 3];
        for text in ["%", "%4", "ab%", "%zz", "%+1", "abcd", "%41%42%43%44"] {
            assert_eq!(decode(text.as_bytes(), &mut out), None, "{text}");
        }
        assert_eq!(decode(b"%41%42%43", &mut out).unwrap(), b"ABC");
    }
}
