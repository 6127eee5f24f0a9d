//! Bodies on their way out: of responses, and of requests.

use std::io;
use std::io::IoSliceMut;

use quiche::h3;

use crate::h3::CHUNK_BYTES;
use crate::Conn;

/// A body is read a page at a time at least, also if the stream has room for a packet only.
const LEAST_READ_BYTES: usize = 4096;

/// The type and the length of a DATA frame have so many bytes at most.
const MOST_OVERHEAD_BYTES: usize = 16;

/// Supplies a body piece by piece.
pub trait Body {
    /// Fills `buf` from the front and returns how much, 0 at the end. [`io::ErrorKind::WouldBlock`]:
    /// there is nothing yet; a client is told by [`resume`](super::client::Client::resume) when there is.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// How many bytes are left, if all of them are there: they are read straight into the buffers that they are sent
    /// from. `None` if that is not known, or there may be nothing yet.
    fn left(&self) -> Option<u64> {
        None
    }

    /// As [`read`](Body::read), into several buffers, the first of which is not empty.
    fn read_vectored(&mut self, bufs: &mut [IoSliceMut]) -> io::Result<usize> {
        self.read(&mut bufs[0])
    }
}

impl<T: AsRef<[u8]>> Body for io::Cursor<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        io::Read::read(self, buf)
    }

    fn left(&self) -> Option<u64> {
        Some((self.get_ref().as_ref().len() as u64).saturating_sub(self.position()))
    }
}

/// Fills all of `bufs`.
fn fill(body: &mut dyn Body, mut bufs: &mut [IoSliceMut]) -> io::Result<()> {
    while !bufs.is_empty() {
        match body.read_vectored(bufs) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => IoSliceMut::advance_slices(&mut bufs, len),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
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

    /// Has up to `len` of the `left` bytes of the body read into the buffers that they are sent from, for which the stream
    /// has room, and returns whether that was all.
    fn write_directly(
        &mut self,
        conn: &mut Conn,
        h3: &mut h3::Connection,
        id: u64,
        len: usize,
        left: u64,
        sent_bytes: &mut u64,
    ) -> Result<bool, WriteError> {
        let mut failed = None;
        let is_last = len as u64 == left;
        let sent = h3.send_body_with(&mut conn.quic, id, len, is_last, |bufs| {
            fill(&mut *self.body, bufs).map_err(|e| {
                let kind = e.kind();
                failed = Some(e);
                kind.into()
            })
        });
        if let Some(e) = failed {
            return Err(WriteError::Body(e));
        }
        let sent = sent.map_err(|_| WriteError::Gone)?;
        *sent_bytes += sent as u64;
        Ok(is_last && sent == len)
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

                if let Some(left) = self.body.left() {
                    let len = left.min(CHUNK_BYTES as u64) as usize;
                    // A page at least, or the rest.
                    if room >= len.min(LEAST_READ_BYTES) + MOST_OVERHEAD_BYTES {
                        if self.write_directly(conn, h3, id, len, left, sent_bytes)? {
                            return Ok(true);
                        }
                        continue;
                    }
                }
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
