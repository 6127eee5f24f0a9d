//! What a request's header says of the client's playback (CTA-5004), and a response's of its length.

use std::time::Instant;

use mpq_cmcd::Cmcd;
use quiche::h3::Header;
use quiche::h3::NameValue;

use crate::h3::field;
use crate::playback;

/// What a request says: in its header fields, or else in its query.
fn said(headers: &[Header]) -> Option<Cmcd> {
    let mut cmcd = Cmcd::default();
    let mut has_any = false;
    for header in headers {
        if let b"cmcd-object" | b"cmcd-request" | b"cmcd-status" = header.name() {
            has_any |= cmcd.read(header.value());
        }
    }
    if !has_any {
        let (_, query) = field(headers, ":path")?.split_once('?')?;
        has_any = cmcd.read_query(query.as_bytes());
    }
    has_any.then_some(cmcd)
}

/// Tells the scheduler what the request on `stream` says.
pub fn report(quic: &mut quiche::Connection, stream: u64, headers: &[Header]) {
    if let Some(cmcd) = said(headers) {
        log::debug!("stream {stream}: {cmcd:?}");
        playback::report(quic, stream, &cmcd, Instant::now());
    }
}

/// Tells the scheduler how long the body on `stream` will be, if its header says.
pub fn announce(quic: &mut quiche::Connection, stream: u64, headers: &[(&'static str, String)]) {
    let length = headers.iter().find(|(name, _)| *name == "content-length");
    if let Some(length) = length.and_then(|(_, value)| value.parse().ok()) {
        playback::announce(quic, stream, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Vec<Header> {
        let header = |(name, value): &(&str, &str)| Header::new(name.as_bytes(), value.as_bytes());
        fields.iter().map(header).collect()
    }

    #[test]
    fn fields_add_up_and_come_before_the_query() {
        let path = (":path", "/1.m4s?x=y&CMCD=bl%3D500%2Cdl%3D700");
        let of_query = said(&headers(&[path])).unwrap();
        assert_eq!(of_query.buffer_ms, Some(500));
        assert_eq!(of_query.deadline_ms, Some(700));

        let fields = [
            path,
            ("cmcd-object", "br=3000,ot=v"),
            ("cmcd-request", "bl=100"),
            ("cmcd-status", "bs"),
        ];
        let said_by_both = said(&headers(&fields)).unwrap();
        assert_eq!(said_by_both.buffer_ms, Some(100));
        assert_eq!(said_by_both.bitrate_kbps, Some(3000));
        assert_eq!(said_by_both.deadline_ms, None);
        assert!(said_by_both.was_starved);
    }

    #[test]
    fn others_say_nothing() {
        for fields in [
            &[(":path", "/1.m4s")][..],
            &[(":path", "/1.m4s?CMCD="), ("cmcd-session", "sid=\"x\"")],
            &[("cmcd-request", "com.example-x=1"), ("x-request", "bl=1")],
            &[],
        ] {
            assert_eq!(said(&headers(fields)), None, "{fields:?}");
        }
    }
}
