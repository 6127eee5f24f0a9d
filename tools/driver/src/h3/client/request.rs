//! A request, and what comes of it.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use quiche::h3::Header;

use crate::CloseReason;

/// The header of a request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD`, or with a body `PUT` or `POST`.
    pub method: String,
    /// Host and, unless it is 443, port.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// Further header fields, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Request {
    pub(super) fn to_headers(&self) -> Vec<Header> {
        let mut headers = vec![
            Header::new(b":method", self.method.as_bytes()),
            Header::new(b":scheme", b"https"),
            Header::new(b":authority", self.authority.as_bytes()),
            Header::new(b":path", self.path.as_bytes()),
        ];
        let has_agent = self.headers.iter().any(|(name, _)| name == "user-agent");
        if !has_agent {
            headers.push(Header::new(
                b"user-agent",
                concat!("mpq/", env!("CARGO_PKG_VERSION")).as_bytes(),
            ));
        }
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())),
        );
        headers
    }
}

/// The beginning of a response.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// Status code.
    pub status: u16,
    /// Header fields.
    pub headers: Vec<Header>,
    /// `content-length`, if there is a valid one.
    pub content_length: Option<u64>,
}

/// Takes a response as it arrives. Returning [`ControlFlow::Break`] cancels
/// the request.
pub trait ResponseSink {
    /// The final (not 1xx) status and header fields.
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()>;

    /// The next bytes of the body.
    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()>;

    /// How many bytes of body are wanted now. The others wait in the transport, where flow control
    /// holds the server back, until [`Client::resume`](super::Client::resume).
    fn room(&self) -> usize {
        usize::MAX
    }

    /// What comes after the body (RFC 9110, section 6.5).
    fn on_trailers(&mut self, trailers: &[Header]) {
        let _ = trailers;
    }

    /// The response is complete, or will never be. Called exactly once.
    fn on_end(&mut self, result: Result<(), RequestError>);
}

/// Why a response is not complete.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// Cancelled on this side.
    #[error("cancelled")]
    Cancelled,

    /// The server gave up on the stream.
    #[error("the server aborted the response (code {0:#x})")]
    Reset(u64),

    /// The body ended early or late.
    #[error("the body has {got} bytes, but {expected} were announced")]
    Truncated {
        /// Bytes received.
        got: u64,
        /// Value of `content-length`.
        expected: u64,
    },

    /// The request's body cannot be read.
    #[error("{0}")]
    Body(Arc<io::Error>),

    /// The response is not valid HTTP/3.
    #[error("the response is malformed: {0}")]
    Malformed(&'static str),

    /// The connection is over.
    #[error("{0}")]
    Connection(Arc<CloseReason>),
}

/// Identifies a request of a [`Client`](super::Client).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub(super) u64);
