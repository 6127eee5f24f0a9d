//! One request over HTTP/3, between a task and the thread that owns the connections.

use std::io;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use std::task::Wake;
use std::task::Waker;

use bytes::Bytes;
use hyper::body::Frame;
use hyper::header::HeaderName;
use hyper::header::HeaderValue;
use hyper::HeaderMap;
use hyper::StatusCode;
use mpq_driver::h3::client::Body;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::ConnKey;
use quiche::h3::Header;
use quiche::h3::NameValue;
use tokio::sync::oneshot;

use super::Command;
use super::Line;
use crate::exit::describe;
use crate::proxy::pipe::Item;
use crate::proxy::pipe::Pipe;

/// The server did nothing about the request (RFC 9114, section 8.1).
const H3_REQUEST_REJECTED: u64 = 0x10b;

/// The beginning of a response.
#[derive(Debug)]
pub struct Head {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub headers: HeaderMap,
}

/// Why a response is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There was no connection any more when the request came to be sent.
    NotSent,
    /// The server refused to look at it.
    Rejected,
    /// The connection is over.
    Connection(String),
    /// Something is wrong with this response.
    Response(String),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lost::NotSent => f.write_str("there is no connection"),
            Lost::Rejected => f.write_str("the server took no further requests"),
            Lost::Connection(why) | Lost::Response(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Lost {}

impl From<RequestError> for Lost {
    fn from(error: RequestError) -> Lost {
        match error {
            RequestError::Connection(reason) => Lost::Connection(describe(&reason)),
            RequestError::Reset(H3_REQUEST_REJECTED) => Lost::Rejected,
            other => Lost::Response(other.to_string()),
        }
    }
}

/// Has the transport ask the sinks and bodies of a connection again.
pub(super) struct Nudge {
    pub(super) key: ConnKey,
    pub(super) is_under_way: AtomicBool,
    line: Line,
}

impl Nudge {
    pub(super) fn new(key: ConnKey, line: Line) -> Arc<Nudge> {
        Arc::new(Nudge {
            key,
            is_under_way: AtomicBool::new(false),
            line,
        })
    }
}

impl Wake for Nudge {
    fn wake(self: Arc<Self>) {
        if !self.is_under_way.swap(true, SeqCst) {
            self.line.clone().send(Command::Resume(self));
        }
    }
}

/// Takes a response in the transport's thread.
pub(super) struct Sink {
    pub(super) head: Option<oneshot::Sender<Result<Head, Lost>>>,
    pub(super) body: Arc<Pipe<Lost>>,
    pub(super) trailers: Option<HeaderMap>,
    pub(super) transport: Waker,
}

impl ResponseSink for Sink {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        let converted = StatusCode::from_u16(head.status)
            .ok()
            .zip(fields(&head.headers))
            .map(|(status, headers)| Head { status, headers })
            .ok_or_else(|| Lost::Response("a header field of the response is not valid".into()));
        let is_good = converted.is_ok();
        let head = self.head.take();
        let is_wanted = head.is_some_and(|head| head.send(converted).is_ok());
        match is_good && is_wanted {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        match self.body.push(Bytes::copy_from_slice(chunk)) {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn room(&self) -> usize {
        self.body.room(&self.transport)
    }

    fn on_trailers(&mut self, trailers: &[Header]) {
        self.trailers = fields(trailers).filter(|trailers| !trailers.is_empty());
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        let end = result.map(|()| self.trailers.take()).map_err(Lost::from);
        if let (Some(head), Err(lost)) = (self.head.take(), &end) {
            // Who asked may have gone.
            let _ = head.send(Err(lost.clone()));
        }
        self.body.end(end);
    }
}

/// Fields as the HTTP side has them; `None` if one is not valid.
fn fields(headers: &[Header]) -> Option<HeaderMap> {
    let regular = headers.iter().filter(|h| !h.name().starts_with(b":"));
    regular
        .map(|h| {
            let name = HeaderName::from_bytes(h.name()).ok()?;
            Some((name, HeaderValue::from_bytes(h.value()).ok()?))
        })
        .collect()
}

/// A request's body in the transport's thread.
pub(super) struct Upload {
    pub(super) pipe: Arc<Pipe<String>>,
    pub(super) transport: Waker,
}

impl Body for Upload {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(&self.transport, buf)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.pipe.abandon();
    }
}

/// Whoever drops it wants no more of the request.
pub struct Ticket {
    pub(super) id: u64,
    pub(super) line: Line,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.line.send(Command::Cancel(self.id));
    }
}

/// The body of a response.
pub struct H3Body {
    pub(super) pipe: Arc<Pipe<Lost>>,
    pub(super) ticket: Option<Ticket>,
}

impl hyper::body::Body for H3Body {
    type Data = Bytes;
    type Error = Lost;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Lost>>> {
        if self.ticket.is_none() {
            return Poll::Ready(None);
        }
        let item = self.pipe.poll_next(context.waker(), usize::MAX);
        item.map(|item| match item {
            Item::Bytes(bytes) => Some(Ok(Frame::data(bytes))),
            Item::End(end) => {
                self.ticket = None;
                match end {
                    Ok(None) => None,
                    Ok(Some(trailers)) => Some(Ok(Frame::trailers(trailers))),
                    Err(lost) => Some(Err(lost)),
                }
            }
        })
    }
}

impl Drop for H3Body {
    fn drop(&mut self) {
        self.pipe.abandon();
    }
}
