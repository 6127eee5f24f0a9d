//! Bodies on their way out: of responses, and of requests.

use std::io;

use quiche::h3;

use crate::h3::CHUNK_BYTES;
use crate::Conn;

/// A body is read a page at a time at least, also if the stream has room for a packet only.
const LEAST_READ_BYTES: usize = 4096;

/// Supplies a body piece by piece.
pub trait Body {
    /// Fills `buf` from the front and returns how much, 0 at the end. [`io::ErrorKind::WouldBlock`]:
    /// there is nothing yet; a client is told by [`resume`](super::client::Client::resume) when there is.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;
}

impl<T: AsRef<[u8]>> Body for io::Cursor<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }
}

/// Why a body is not sent to its end.
pub(super) enum WriteError {
    /// The peer stopped reading.
    Gone,
    /// The body cannot be read.
    Body(io::Error),
}

/// A body, and how far it is.
pub(super) struct Outgoing {
    body: Box<dyn Body>,
    /// Read from the body and not yet taken by the transport.
    chunk: Vec<u8>,
    chunk_start: usize,
}

impl Outgoing {
    pub(super) fn new(body: Box<dyn Body>) -> Outgoing {
        Outgoing {
            body,
            chunk: Vec::new(),
            chunk_start: 0,
        }
    }

    /// Gives the transport what it takes for stream `id`, counts that in `sent_bytes`, and returns whether it was all.
    pub(super) fn write(
        &mut self,
        conn: &mut Conn,
        h3: &mut h3::Connection,
        id: u64,
        sent_bytes: &mut u64,
    ) -> Result<bool, WriteError> {
        loop {
            if self.chunk_start == self.chunk.len() {
                // No more than the stream takes: what waits here is in nobody's budget.
                let room = conn
                    .quic
                    .stream_capacity(id)
                    .map_err(|_| WriteError::Gone)?;
                self.chunk
                    .resize(room.clamp(LEAST_READ_BYTES, CHUNK_BYTES), 0);
                self.chunk_start = 0;
                let len = match self.body.read(&mut self.chunk) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        self.chunk = Vec::new();
                        return Ok(false);
                    }
                    read => read.map_err(WriteError::Body)?,
                };
                self.chunk.truncate(len);
            }

            let rest = &self.chunk[self.chunk_start..];
            let is_last = rest.is_empty();
            match h3.send_body(&mut conn.quic, id, rest, is_last) {
                Ok(_) if is_last => return Ok(true),
                Ok(len) => {
                    self.chunk_start += len;
                    *sent_bytes += len as u64;
                }
                Err(h3::Error::Done) => {
                    self.chunk.drain(..std::mem::take(&mut self.chunk_start));
                    self.chunk.shrink_to(LEAST_READ_BYTES);
                    return Ok(false);
                }
                Err(_) => return Err(WriteError::Gone),
            }
        }
    }
}
