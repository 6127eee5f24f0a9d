//! What the two ends of a connection send and read.
//!
//! A request is a stream of eight bytes: how many are wanted, [`ENDLESS`] for no end. What a
//! client tells the server besides follows: its [`Hints`]. The response is so many bytes on the same
//! stream. An upload is a stream of the data itself, and so is what a
//! flow sends the other way.

use std::sync::LazyLock;
use std::time::Duration;
use std::time::Instant;

use quiche::Connection;
use quiche::QoeReport;

/// A response without an end.
pub const ENDLESS: u64 = u64::MAX;

/// Bytes of a request without hints, and of one with them.
const REQUEST_BYTES: usize = 8;
const HINTED_BYTES: usize = REQUEST_BYTES + 9;

/// quiche's number for the first urgency of RFC 9218, as its HTTP/3 has it.
const FIRST_URGENCY: u8 = 124;

/// RFC 9218's.
const DEFAULT_URGENCY: u8 = 3;

/// A byte or a number that says nothing.
const UNSAID: u8 = u8::MAX;
const UNKNOWN: u32 = u32::MAX;

/// What a client tells the server of a request, as HTTP fields would. Times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// RFC 9218's, 0 to 7.
    pub urgency: Option<u8>,
    /// From the request's arrival until the response should be there.
    pub deadline_ms: Option<u32>,
    /// How long playback lasts with what the client has.
    pub buffered_ms: Option<u32>,
}

impl Hints {
    fn to_bytes(self) -> [u8; HINTED_BYTES - REQUEST_BYTES] {
        let mut bytes = [UNSAID; HINTED_BYTES - REQUEST_BYTES];
        bytes[0] = self.urgency.unwrap_or(UNSAID);
        bytes[1..5].copy_from_slice(&self.deadline_ms.unwrap_or(UNKNOWN).to_be_bytes());
        bytes[5..9].copy_from_slice(&self.buffered_ms.unwrap_or(UNKNOWN).to_be_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Hints> {
        let bytes: [u8; HINTED_BYTES - REQUEST_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
        Some(Hints {
            urgency: Some(bytes[0]).filter(|urgency| *urgency != UNSAID),
            deadline_ms: Some(number(1)).filter(|ms| *ms != UNKNOWN),
            buffered_ms: Some(number(5)).filter(|ms| *ms != UNKNOWN),
        })
    }

    /// What the server makes of them, before it writes the response.
    fn apply(self, quic: &mut Connection, stream: u64, bytes: u64, now: Instant) {
        // A stream that is gone needs no hints.
        if let Some(urgency) = self.urgency {
            let _ = quic.stream_priority(stream, FIRST_URGENCY + urgency.min(7), false);
        }
        if bytes != ENDLESS {
            let _ = quic.stream_announce(stream, bytes);
        }
        if let Some(ms) = self.deadline_ms {
            let deadline = now + Duration::from_millis(ms.into());
            let _ = quic.stream_deadline(stream, deadline);
        }
        if let Some(ms) = self.buffered_ms {
            quic.report_qoe(QoeReport {
                buffered: Duration::from_millis(ms.into()),
                ..QoeReport::default()
            });
        }
    }
}

/// Written and read at a time.
const CHUNK: usize = 64 << 10;

/// The content repeats after so many bytes: a prime, so that no buffer's or packet's size divides it.
const PERIOD: usize = 65_521;

/// How far apart the beginnings of streams lie in the content.
const STREAM_STEP: u64 = 4_099;

/// The content, with as much of its beginning again as a chunk needs.
static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    // The high byte of a Weyl sequence: neighbours differ.
    let byte = |i: usize| ((i as u32).wrapping_mul(0x9e37_79b9) >> 24) as u8;
    (0..PERIOD + CHUNK).map(|i| byte(i % PERIOD)).collect()
});

/// The `n` bytes, a chunk at most, that belong at `offset` of `stream`.
fn content(stream: u64, offset: u64, n: usize) -> &'static [u8] {
    let at = (offset.wrapping_add(stream * STREAM_STEP) % PERIOD as u64) as usize;
    &CONTENT[at..at + n]
}

/// A stream that is being written.
struct Outgoing {
    urgency: u8,
    stream: u64,
    offset: u64,
    left: u64,
}

/// The streams that an end is writing, the most urgent first, else in the order in which they began.
#[derive(Default)]
pub struct Sender {
    streams: Vec<Outgoing>,
}

impl Sender {
    /// Begins to write `bytes` on `stream`.
    pub fn start(&mut self, stream: u64, bytes: u64) {
        self.start_at(DEFAULT_URGENCY, stream, bytes);
    }

    /// The same for a stream of some urgency.
    fn start_at(&mut self, urgency: u8, stream: u64, bytes: u64) {
        let at = self.streams.partition_point(|out| out.urgency <= urgency);
        let out = Outgoing {
            urgency,
            stream,
            offset: 0,
            left: bytes,
        };
        self.streams.insert(at, out);
    }

    /// Writes as much as the connection takes.
    pub fn pump(&mut self, quic: &mut Connection) {
        self.streams.retain_mut(|out| loop {
            let n = out.left.min(CHUNK as u64) as usize;
            let is_last = n as u64 == out.left;
            let bytes = content(out.stream, out.offset, n);
            match quic.stream_send(out.stream, bytes, is_last) {
                Ok(written) => {
                    out.offset += written as u64;
                    if out.left != ENDLESS {
                        out.left -= written as u64;
                    }
                    if is_last && written == n {
                        break false;
                    }
                    if written < n {
                        break true;
                    }
                }
                Err(quiche::Error::Done) => break true,
                // The peer's limit on streams, which it may raise.
                Err(quiche::Error::StreamLimit) => break true,
                // The peer stopped the stream, or the connection is gone.
                Err(_) => break false,
            }
        });
    }
}

/// What an end read.
#[derive(Default)]
pub struct Received {
    /// Stream bytes, requests not counted.
    pub bytes: u64,
    /// Streams that came to their end, with their lengths.
    pub finished: Vec<(u64, u64)>,
    /// The first byte that is not what was sent: stream and offset.
    pub wrong: Option<(u64, u64)>,
    /// How far each stream that goes on was read.
    offsets: Vec<(u64, u64)>,
}

impl Received {
    /// Compares `bytes`, the next of `stream`, with what was sent.
    fn take(&mut self, stream: u64, bytes: &[u8], is_end: bool) {
        self.bytes += bytes.len() as u64;
        let i = match self.offsets.iter().position(|(id, _)| *id == stream) {
            Some(i) => i,
            None => {
                self.offsets.push((stream, 0));
                self.offsets.len() - 1
            }
        };
        let offset = &mut self.offsets[i].1;
        let sent = content(stream, *offset, bytes.len());
        if bytes != sent && self.wrong.is_none() {
            let same = bytes.iter().zip(sent).take_while(|(a, b)| a == b);
            self.wrong = Some((stream, *offset + same.count() as u64));
        }
        *offset += bytes.len() as u64;
        if is_end {
            let end = self.offsets.swap_remove(i);
            self.finished.push(end);
        }
    }
}

/// Sends a request for `bytes` on a stream of its own, with hints if there are any.
pub fn request(
    quic: &mut Connection,
    stream: u64,
    bytes: u64,
    hints: Option<Hints>,
) -> quiche::Result<()> {
    let mut request = [0; HINTED_BYTES];
    request[..REQUEST_BYTES].copy_from_slice(&bytes.to_be_bytes());
    let length = match hints {
        Some(hints) => {
            request[REQUEST_BYTES..].copy_from_slice(&hints.to_bytes());
            HINTED_BYTES
        }
        None => REQUEST_BYTES,
    };
    quic.stream_send(stream, &request[..length], true).map(drop)
}

/// Reads everything that is there into `received`. `on_data` hears of each stream's bytes.
pub fn read(
    quic: &mut Connection,
    scratch: &mut Vec<u8>,
    received: &mut Received,
    mut on_data: impl FnMut(u64, usize),
) {
    while let Some(stream) = quic.stream_readable_next() {
        read_stream(quic, stream, scratch, received, &mut on_data);
    }
}

fn read_stream(
    quic: &mut Connection,
    stream: u64,
    scratch: &mut Vec<u8>,
    received: &mut Received,
    on_data: &mut impl FnMut(u64, usize),
) {
    scratch.resize(CHUNK, 0);
    while let Ok((n, fin)) = quic.stream_recv(stream, scratch) {
        received.take(stream, &scratch[..n], fin);
        on_data(stream, n);
        if fin {
            break;
        }
    }
}

/// Reads requests, and begins the responses; reads what else the client sends.
pub fn serve(
    quic: &mut Connection,
    scratch: &mut Vec<u8>,
    received: &mut Received,
    sender: &mut Sender,
    now: Instant,
) {
    while let Some(stream) = quic.stream_readable_next() {
        let is_bidirectional = stream & 2 == 0;
        if !is_bidirectional {
            read_stream(quic, stream, scratch, received, &mut |_, _| ());
            continue;
        }
        let mut request = [0; HINTED_BYTES + 1];
        // A request fits in every first packet, so it comes in one piece.
        if let Ok((length @ (REQUEST_BYTES | HINTED_BYTES), _)) =
            quic.stream_recv(stream, &mut request)
        {
            let (bytes, hints) = request[..length].split_at(REQUEST_BYTES);
            let bytes = u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
            let hints = Hints::from_bytes(hints);
            if let Some(hints) = hints {
                hints.apply(quic, stream, bytes, now);
            }
            let urgency = hints.and_then(|hints| hints.urgency);
            sender.start_at(urgency.unwrap_or(DEFAULT_URGENCY), stream, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_found_and_named() {
        let mut received = Received::default();
        received.take(4, content(4, 0, 1000), false);
        received.take(0, content(0, 0, 10), true);
        assert_eq!((received.wrong, received.bytes), (None, 1010));
        assert_eq!(received.finished, [(0, 10)]);

        let mut bytes = content(4, 1000, 500).to_vec();
        bytes[123] ^= 1;
        received.take(4, &bytes, true);
        assert_eq!(received.wrong, Some((4, 1123)));
        assert_eq!(received.finished, [(0, 10), (4, 1500)]);
    }

    #[test]
    fn hints_come_back_as_they_were() {
        let none = Hints::default();
        let some = Hints {
            urgency: Some(5),
            deadline_ms: Some(2000),
            buffered_ms: Some(0),
        };
        for hints in [none, some] {
            assert_eq!(Hints::from_bytes(&hints.to_bytes()), Some(hints));
        }
        assert_eq!(Hints::from_bytes(&[]), None);
    }

    #[test]
    fn content_that_is_shifted_or_of_another_stream_is_wrong() {
        for (stream, offset) in [(4, 1), (4, 1200), (4, 65_536), (0, 0), (8, 0), (2, 0)] {
            let mut received = Received::default();
            received.take(4, content(stream, offset, 100), false);
            assert!(received.wrong.is_some(), "{stream} {offset}");
        }
    }
}
