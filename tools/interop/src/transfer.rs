//! What the two sides say to each other.
//!
//! The client opens a bidirectional stream and sends a [`Request`] and as many
//! bytes as that says; the server sends the bytes that the request asks for, at
//! the same time. Both ends check every byte.

/// How much a transfer carries, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// From the client to the server.
    pub upload_bytes: u64,
    /// From the server to the client.
    pub download_bytes: u64,
}

const REQUEST_BYTES: usize = 16;

impl Request {
    fn encode(&self) -> [u8; REQUEST_BYTES] {
        let upload = u128::from(self.upload_bytes) << 64;
        (upload | u128::from(self.download_bytes)).to_be_bytes()
    }

    fn decode(buf: [u8; REQUEST_BYTES]) -> Request {
        let both = u128::from_be_bytes(buf);
        Request {
            upload_bytes: (both >> 64) as u64,
            download_bytes: both as u64,
        }
    }
}

/// The byte at `offset` of every transfer: without a short period, so that lost,
/// doubled or swapped data shows.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// One direction of a transfer, at its sender.
pub struct Outgoing {
    head: Vec<u8>,
    body_bytes: u64,
    offset: u64,
}

impl Outgoing {
    /// What a client sends.
    pub fn upload(request: Request) -> Outgoing {
        Outgoing {
            head: request.encode().to_vec(),
            body_bytes: request.upload_bytes,
            offset: 0,
        }
    }

    /// What a server answers.
    pub fn download(request: Request) -> Outgoing {
        Outgoing {
            head: Vec::new(),
            body_bytes: request.download_bytes,
            offset: 0,
        }
    }

    /// Copies the next bytes to `buf`, and returns how many, and whether they are
    /// the last.
    pub fn peek(&self, buf: &mut [u8]) -> (usize, bool) {
        let head = self.head.len() as u64;
        let left = head + self.body_bytes - self.offset;
        let len = left.min(buf.len() as u64);
        for (byte, at) in buf.iter_mut().zip(self.offset..self.offset + len) {
            *byte = match at.checked_sub(head) {
                Some(offset) => byte_at(offset),
                None => self.head[at as usize],
            };
        }
        (len as usize, len == left)
    }

    /// Drops the next `len` bytes, which were sent.
    pub fn advance(&mut self, len: usize) {
        self.offset += len as u64;
    }
}

/// One direction of a transfer, at its receiver.
pub struct Incoming {
    head: Vec<u8>,
    body_bytes: Option<u64>,
    offset: u64,
}

impl Incoming {
    /// What a server receives.
    pub fn upload() -> Incoming {
        Incoming {
            head: Vec::new(),
            body_bytes: None,
            offset: 0,
        }
    }

    /// What a client receives.
    pub fn download(request: Request) -> Incoming {
        Incoming {
            head: Vec::new(),
            body_bytes: Some(request.download_bytes),
            offset: 0,
        }
    }

    /// Checks what was received next. At a server, returns the request once it
    /// is complete.
    pub fn push(&mut self, mut data: &[u8]) -> Result<Option<Request>, String> {
        let mut request = None;

        if self.body_bytes.is_none() {
            let (head, body) = data.split_at(data.len().min(REQUEST_BYTES - self.head.len()));
            self.head.extend_from_slice(head);
            data = body;

            if let Ok(head) = self.head.as_slice().try_into() {
                let decoded = Request::decode(head);
                self.body_bytes = Some(decoded.upload_bytes);
                request = Some(decoded);
            }
        }

        for byte in data {
            if *byte != byte_at(self.offset) {
                return Err(format!("wrong byte at offset {}", self.offset));
            }
            self.offset += 1;
        }
        Ok(request)
    }

    /// Checks that the end is where it should be.
    pub fn finish(&self) -> Result<(), String> {
        if self.body_bytes != Some(self.offset) {
            return Err(format!(
                "the stream ends after {} of {:?} bytes",
                self.offset, self.body_bytes
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request {
        upload_bytes: 1000,
        download_bytes: 3,
    };

    /// Sends everything in pieces of `len` bytes; the last but one byte changed
    /// if `spoil`.
    fn relay(
        mut from: Outgoing,
        to: &mut Incoming,
        len: usize,
        spoil: bool,
    ) -> Result<Option<Request>, String> {
        let mut request = None;
        loop {
            let mut buf = vec![0; len];
            let (n, last) = from.peek(&mut buf);
            from.advance(n);
            if last && spoil {
                buf[n - 1] ^= 1;
            }
            request = to.push(&buf[..n])?.or(request);
            if last {
                return Ok(request);
            }
        }
    }

    #[test]
    fn both_directions() {
        for len in [1, 7, 16, 17, 5000] {
            let mut upload = Incoming::upload();
            let request = relay(Outgoing::upload(REQUEST), &mut upload, len, false);
            assert_eq!(request, Ok(Some(REQUEST)));
            assert_eq!(upload.finish(), Ok(()));

            let mut download = Incoming::download(REQUEST);
            relay(Outgoing::download(REQUEST), &mut download, len, false).unwrap();
            assert_eq!(download.finish(), Ok(()));
        }
    }

    #[test]
    fn damage_is_found() {
        let mut upload = Incoming::upload();
        let result = relay(Outgoing::upload(REQUEST), &mut upload, 100, true);
        assert_eq!(result, Err("wrong byte at offset 999".into()));

        let mut download = Incoming::download(REQUEST);
        download.push(&[byte_at(0)]).unwrap();
        assert!(download.finish().is_err());
    }
}
