//! What the two ends of a connection send and read.
//!
//! A request is a stream of eight bytes: how many are wanted, [`ENDLESS`] for no end. The response
//! is so many bytes on the same stream. An upload is a stream of the data itself.

use quiche::Connection;

/// A response without an end.
pub const ENDLESS: u64 = u64::MAX;

/// Bytes of a request.
const REQUEST_BYTES: usize = 8;

/// Written and read at a time.
const CHUNK: usize = 64 << 10;

static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// A stream that is being written.
struct Outgoing {
    stream: u64,
    left: u64,
}

/// The streams that an end is writing, in the order in which they began.
#[derive(Default)]
pub struct Sender {
    streams: Vec<Outgoing>,
}

impl Sender {
    /// Begins to write `bytes` on `stream`.
    pub fn start(&mut self, stream: u64, bytes: u64) {
        self.streams.push(Outgoing {
            stream,
            left: bytes,
        });
    }

    /// Writes as much as the connection takes.
    pub fn pump(&mut self, quic: &mut Connection) {
        self.streams.retain_mut(|out| loop {
            let n = out.left.min(CHUNK as u64) as usize;
            let is_last = n as u64 == out.left;
            match quic.stream_send(out.stream, &ZEROS[..n], is_last) {
                Ok(written) => {
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
    /// Streams that came to their end.
    pub finished: Vec<u64>,
}

/// Sends a request for `bytes` on a stream of its own.
pub fn request(quic: &mut Connection, stream: u64, bytes: u64) -> quiche::Result<()> {
    quic.stream_send(stream, &bytes.to_be_bytes(), true)
        .map(drop)
}

/// Reads everything that is there into `received`. `on_data` hears of each stream's bytes.
pub fn read(
    quic: &mut Connection,
    scratch: &mut Vec<u8>,
    received: &mut Received,
    mut on_data: impl FnMut(u64, usize),
) {
    scratch.resize(CHUNK, 0);
    while let Some(stream) = quic.stream_readable_next() {
        while let Ok((n, fin)) = quic.stream_recv(stream, scratch) {
            received.bytes += n as u64;
            on_data(stream, n);
            if fin {
                received.finished.push(stream);
                break;
            }
        }
    }
}

/// Reads requests, and begins the responses.
pub fn serve(quic: &mut Connection, sender: &mut Sender) {
    while let Some(stream) = quic.stream_readable_next() {
        let mut request = [0; REQUEST_BYTES + 1];
        // A request fits in every first packet, so it comes in one piece.
        if let Ok((REQUEST_BYTES, _)) = quic.stream_recv(stream, &mut request) {
            let bytes = request[..REQUEST_BYTES].try_into().expect("eight bytes");
            sender.start(stream, u64::from_be_bytes(bytes));
        }
    }
}
