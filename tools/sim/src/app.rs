//! What the two ends of a connection send and read.
//!
//! A request is a stream of eight bytes: how many are wanted, [`ENDLESS`] for no end; and of what a
//! client tells the server besides, its [`Hints`]; for what is made while it is sent also when which
//! part is there, its [`Release`]. The response is so many bytes on the same stream.
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
    /// When the server has which part of the response; `None`: all of it at once.
    pub release: Option<Release>,
}

/// A response that is made while it is sent, in chunks of equal size at equal spacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// When the first chunk is there, ns of the run; negative if that was before.
    pub first_ns: i64,
    /// Between two chunks, ns.
    pub every_ns: u64,
    /// How many there are, at least 1.
    pub chunks: u64,
}

/// With the urgency of a request: what follows is its [`Release`].
const HAS_RELEASE: u8 = 0x80;

impl Release {
    const BYTES: usize = 24;

    fn to_bytes(self) -> Vec<u8> {
        let fields = [self.first_ns as u64, self.every_ns, self.chunks];
        fields
            .iter()
            .flat_map(|field| field.to_be_bytes())
            .collect()
    }

    fn read(bytes: &[u8; Self::BYTES]) -> Option<Release> {
        let mut fields = bytes.chunks_exact(8).map(|field| {
            field
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        });
        let release = Release {
            first_ns: fields.next()? as i64,
            every_ns: fields.next()?,
            chunks: fields.next()?,
        };
        (release.every_ns > 0 && release.chunks > 0).then_some(release)
    }

    /// Bytes of so many chunks of a response.
    fn size_of(&self, chunks: u64, total: u64) -> u64 {
        let part = u128::from(total) * u128::from(chunks.min(self.chunks));
        (part / u128::from(self.chunks)) as u64
    }

    /// Bytes of a response that are there, and when there are more.
    fn by(&self, now_ns: u64, total: u64) -> (u64, Option<u64>) {
        let passed_ns = i128::from(now_ns) - i128::from(self.first_ns);
        let chunks = match u64::try_from(passed_ns) {
            Err(_) => 0,
            Ok(passed) => (passed / self.every_ns + 1).min(self.chunks),
        };
        // What is still to come comes after now, so it is not negative.
        let next_ns = i128::from(self.first_ns) + i128::from(chunks) * i128::from(self.every_ns);
        let next = u64::try_from(next_ns).ok().filter(|_| chunks < self.chunks);
        (self.size_of(chunks, total), next)
    }

    /// Chunks that are whole in the first `received` bytes of a response.
    pub fn whole_in(&self, received: u64, total: u64) -> u64 {
        (1..=self.chunks)
            .rev()
            .find(|chunks| self.size_of(*chunks, total) <= received)
            .unwrap_or(0)
    }
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
    release: Option<Release>,
}

/// The streams that an end is writing, the most urgent first, else in the order in which they began.
#[derive(Default)]
pub struct Sender {
    streams: Vec<Outgoing>,
}

impl Sender {
    /// Begins to write `bytes` on `stream`.
    pub fn start(&mut self, stream: u64, bytes: u64) {
        self.start_at(DEFAULT_URGENCY, stream, bytes, None);
    }

    /// The same for a stream of some urgency, and of which not all may be there.
    fn start_at(&mut self, urgency: u8, stream: u64, bytes: u64, release: Option<Release>) {
        let at = self.streams.partition_point(|out| out.urgency <= urgency);
        let out = Outgoing {
            urgency,
            stream,
            request: Vec::new(),
            offset: 0,
            left: bytes,
            release,
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
            release: None,
        };
        self.streams.insert(0, out);
    }

    /// Writes as much as the connection takes at `now_ns` of the run. Returns when there is more that
    /// is not there yet.
    pub fn pump(&mut self, quic: &mut Connection, now_ns: u64) -> Option<u64> {
        let mut more_at: Option<u64> = None;
        self.streams.retain_mut(|out| loop {
            let there = match &out.release {
                None => out.left,
                Some(release) => {
                    let (there, next) = release.by(now_ns, out.offset + out.left);
                    if let Some(next) = next {
                        more_at = Some(more_at.map_or(next, |at| at.min(next)));
                    }
                    there.saturating_sub(out.offset)
                }
            };
            if there == 0 && out.left > 0 {
                break true;
            }
            let n = there.min(CHUNK as u64) as usize;
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
        more_at
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
    let mut urgency = vec![hints.urgency.unwrap_or(DEFAULT_URGENCY)];
    if let Some(release) = hints.release {
        urgency[0] |= HAS_RELEASE;
        urgency.extend(release.to_bytes());
    }
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
        let Some((&urgency, mut said)) = hints.split_first() else {
            continue;
        };
        let mut release = None;
        if urgency & HAS_RELEASE != 0 {
            let Some((fields, rest)) = said.split_first_chunk() else {
                continue;
            };
            (release, said) = (Release::read(fields), rest);
        }
        let urgency = urgency & !HAS_RELEASE;
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
        sender.start_at(urgency, stream, bytes, release);
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
            release: None,
        };
        request(&mut pipe.client, &mut sender, 0, 1000, &hints).unwrap();
        let (mut scratch, mut responses) = (Vec::new(), Sender::default());
        for _ in 0..20 {
            sender.pump(&mut pipe.client, 0);
            pipe.advance().unwrap();
            let (quic, now) = (&mut pipe.server, Instant::now());
            serve(quic, &mut scratch, &mut received, &mut responses, now);
        }
        assert!(sender.streams.is_empty());
        let response = &responses.streams[0];
        assert_eq!((response.urgency, response.stream), (2, 0));
        assert_eq!(response.left, 1000);
    }

    /// What is made while it is sent goes out chunk by chunk, in time.
    #[test]
    fn a_response_that_is_made_while_it_is_sent() {
        let mut pipe = connected(1 << 20);
        let release = Release {
            first_ns: 1_000,
            every_ns: 500,
            chunks: 4,
        };
        let hints = Hints {
            release: Some(release),
            ..Hints::default()
        };
        let (mut sender, mut responses) = (Sender::default(), Sender::default());
        let (mut asked, mut answered) = (Received::default(), Received::default());
        request(&mut pipe.client, &mut sender, 0, 1_002, &hints).unwrap();
        pipe.advance().unwrap();
        let mut scratch = Vec::new();
        let now = Instant::now();
        serve(
            &mut pipe.server,
            &mut scratch,
            &mut asked,
            &mut responses,
            now,
        );
        // Quarters of 1002, rounded down.
        for (now_ns, bytes, next) in [
            (0, 0, Some(1_000)),
            (999, 0, Some(1_000)),
            (1_000, 250, Some(1_500)),
            (2_100, 751, Some(2_500)),
            (2_500, 1_002, None),
        ] {
            assert_eq!(responses.pump(&mut pipe.server, now_ns), next, "{now_ns}");
            pipe.advance().unwrap();
            read(&mut pipe.client, &mut scratch, &mut answered, |_, _| ());
            assert_eq!(answered.bytes, bytes, "{now_ns}");
        }
        assert_eq!(answered.finished, [(0, 1_002)]);
        // Half of it was there before the run.
        let early = Release {
            first_ns: -600,
            ..release
        };
        assert_eq!(early.by(0, 1_002), (501, Some(400)));
        for (received, chunks) in [(0, 0), (249, 0), (250, 1), (751, 3), (1_001, 3), (1_002, 4)] {
            assert_eq!(release.whole_in(received, 1_002), chunks, "{received}");
        }
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
