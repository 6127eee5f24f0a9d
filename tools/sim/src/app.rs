//! What the two ends of a connection send and read.
//!
//! A request is a stream of eight bytes: how many are wanted, [`ENDLESS`] for no end; and of what a
//! client tells the server besides, its [`Hints`]. The response is so many bytes on the same stream.
//! An upload is a stream of the data itself, and so is what a flow sends the other way.

use std::sync::LazyLock;
use std::time::Instant;

use mpq_cmcd::Cmcd;
use mpq_cmcd::Fields;
use mpq_driver::playback;
use quiche::Connection;

/// A response without an end.
pub const ENDLESS: u64 = u64::MAX;

/// A session's name for the server, as long as a real one.
const SESSION_ID: &str = "00000000-0000-4000-8000-000000000000";

/// Bytes of a request's number.
const NUMBER_BYTES: usize = 8;

/// quiche's number for the first urgency of RFC 9218, as its HTTP/3 has it.
const FIRST_URGENCY: u8 = 124;

/// RFC 9218's.
const DEFAULT_URGENCY: u8 = 3;

/// What a client tells the server of a request, as HTTP fields would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// RFC 9218's, 0 to 7.
    pub urgency: Option<u8>,
    /// What a player says of its playback (CTA-5004), which may be nothing.
    pub said: String,
}

/// What [`Hints::said`] is: the values of the fields that `mpq play` sends, in one.
pub fn said(cmcd: Cmcd, next_object: Option<&str>) -> String {
    let fields = Fields {
        cmcd,
        session_id: SESSION_ID,
        next_object,
    };
    let values: Vec<String> = fields
        .headers()
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    values.join(",")
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
    /// What is left of a request; else it is content.
    request: Vec<u8>,
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
            request: Vec::new(),
            offset: 0,
            left: bytes,
        };
        self.streams.insert(at, out);
    }

    /// Goes on with a request of which the connection took a part.
    fn finish(&mut self, stream: u64, request: Vec<u8>) {
        let out = Outgoing {
            urgency: 0,
            stream,
            left: request.len() as u64,
            offset: 0,
            request,
        };
        self.streams.insert(0, out);
    }

    /// Writes as much as the connection takes.
    pub fn pump(&mut self, quic: &mut Connection) {
        self.streams.retain_mut(|out| loop {
            let n = out.left.min(CHUNK as u64) as usize;
            let is_last = n as u64 == out.left;
            let bytes = match &out.request[..] {
                [] => content(out.stream, out.offset, n),
                request => &request[out.offset as usize..],
            };
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
    /// Requests that have not come to their end, by stream.
    requests: Vec<(u64, Vec<u8>)>,
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

/// Sends a request for `bytes` on a stream of its own, with hints if there are any; `sender` sends
/// what the connection does not take yet.
pub fn request(
    quic: &mut Connection,
    sender: &mut Sender,
    stream: u64,
    bytes: u64,
    hints: &Hints,
) -> quiche::Result<()> {
    let urgency = [hints.urgency.unwrap_or(DEFAULT_URGENCY)];
    let request = [&bytes.to_be_bytes(), &urgency[..], hints.said.as_bytes()].concat();
    let written = quic.stream_send(stream, &request, true)?;
    if written < request.len() {
        sender.finish(stream, request[written..].to_vec());
    }
    Ok(())
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

/// Reads requests that have come at `now`, and begins the responses; reads what else the client sends.
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
        let Some(request) = read_request(quic, stream, scratch, &mut received.requests) else {
            continue;
        };
        let Some((number, hints)) = request.split_first_chunk::<NUMBER_BYTES>() else {
            continue;
        };
        let Some((&urgency, said)) = hints.split_first() else {
            continue;
        };
        let bytes = u64::from_be_bytes(*number);
        if urgency != DEFAULT_URGENCY {
            // A stream that is gone needs no urgency.
            let _ = quic.stream_priority(stream, FIRST_URGENCY + urgency.min(7), false);
        }
        let mut cmcd = Cmcd::default();
        if cmcd.read(said) {
            playback::report(quic, stream, &cmcd, now);
        }
        if bytes != ENDLESS {
            playback::announce(quic, stream, bytes);
        }
        sender.start_at(urgency, stream, bytes);
    }
}

/// A request once it is there as a whole.
fn read_request(
    quic: &mut Connection,
    stream: u64,
    scratch: &mut Vec<u8>,
    requests: &mut Vec<(u64, Vec<u8>)>,
) -> Option<Vec<u8>> {
    scratch.resize(CHUNK, 0);
    while let Ok((n, fin)) = quic.stream_recv(stream, scratch) {
        let before = requests.iter().position(|(id, _)| *id == stream);
        let mut request = before.map_or_else(Vec::new, |at| requests.swap_remove(at).1);
        request.extend_from_slice(&scratch[..n]);
        if fin {
            return Some(request);
        }
        requests.push((stream, request));
    }
    None
}

#[cfg(test)]
mod tests {
    use quiche::test_utils::Pipe;

    use super::*;
    use crate::identity;

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
    fn content_that_is_shifted_or_of_another_stream_is_wrong() {
        for (stream, offset) in [(4, 1), (4, 1200), (4, 65_536), (0, 0), (8, 0), (2, 0)] {
            let mut received = Received::default();
            received.take(4, content(stream, offset, 100), false);
            assert!(received.wrong.is_some(), "{stream} {offset}");
        }
    }

    /// Two connected ends; the server lets the client send so many bytes.
    fn connected(max_data: u64) -> Pipe {
        let settings = mpq_driver::TransportSettings::default();
        let config = |tls: Result<_, _>| {
            let mut config = settings.to_quiche_with_tls(tls.unwrap()).unwrap();
            config.verify_peer(false);
            config
        };
        let mut client = config(identity::client_tls());
        let mut server = config(identity::server_tls());
        server.set_initial_max_data(max_data);
        let mut pipe = Pipe::with_client_and_server_config(&mut client, &mut server).unwrap();
        pipe.handshake().unwrap();
        pipe
    }

    /// What flow control holds back of a request follows when it may (chaos, seed 11855).
    #[test]
    fn a_request_that_does_not_fit() {
        let mut pipe = connected(4);
        let (mut received, mut sender) = (Received::default(), Sender::default());
        let hints = Hints {
            urgency: Some(2),
            said: "bl=2000".into(),
        };
        request(&mut pipe.client, &mut sender, 0, 1000, &hints).unwrap();
        let (mut scratch, mut responses) = (Vec::new(), Sender::default());
        for _ in 0..20 {
            sender.pump(&mut pipe.client);
            pipe.advance().unwrap();
            let (quic, now) = (&mut pipe.server, Instant::now());
            serve(quic, &mut scratch, &mut received, &mut responses, now);
        }
        assert!(sender.streams.is_empty());
        let response = &responses.streams[0];
        assert_eq!((response.urgency, response.stream), (2, 0));
        assert_eq!(response.left, 1000);
    }

    /// A request is served once all of it is there, whatever a player says with it.
    #[test]
    fn a_request_in_pieces() {
        let mut pipe = connected(1 << 20);
        let (mut received, mut sender) = (Received::default(), Sender::default());
        let said = "bl=2000,dl=86400000,bs,nor=\"2.m4s\"".as_bytes();
        let whole = [&1000u64.to_be_bytes()[..], &[DEFAULT_URGENCY], said].concat();
        for (piece, fin) in [
            (&whole[..5], false),
            (&whole[5..20], false),
            (&whole[20..], true),
        ] {
            assert!(sender.streams.is_empty());
            pipe.client.stream_send(0, piece, fin).unwrap();
            pipe.advance().unwrap();
            let mut scratch = Vec::new();
            let now = Instant::now();
            serve(
                &mut pipe.server,
                &mut scratch,
                &mut received,
                &mut sender,
                now,
            );
        }
        assert_eq!(
            (sender.streams[0].stream, sender.streams[0].left),
            (0, 1000)
        );
        assert!(received.requests.is_empty());
    }
}
