//! One request of the player, from the head of its response to its end.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use mpq_dash::isobmff::ChunkCounter;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;

use crate::client::response::check_head;
use crate::client::response::failure_of;
use crate::exit::Failure;

/// What has arrived of a response.
#[derive(Default)]
pub struct Response {
    /// Bytes of body so far.
    pub bytes: u64,
    /// Length of the body, once known.
    pub expected: Option<u64>,
    /// Chunks of a segment that are there as a whole.
    pub chunks: ChunkCounter,
    /// The start of the body.
    pub head: Vec<u8>,
    /// How it ended, once it has.
    pub end: Option<Result<(), Failure>>,
    keep_bytes: usize,
    wants_range: bool,
}

impl Response {
    /// The response to a request, of a part if `wants_range`, before anything
    /// of it has come. `keep_bytes` of its start are kept.
    pub fn new(keep_bytes: usize, wants_range: bool) -> Rc<RefCell<Response>> {
        Rc::new(RefCell::new(Response {
            keep_bytes,
            wants_range,
            ..Default::default()
        }))
    }
}

/// Hands a response to its [`Response`].
pub struct Sink(pub Rc<RefCell<Response>>);

impl ResponseSink for Sink {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        let mut response = self.0.borrow_mut();
        match check_head(head, response.wants_range) {
            Ok(()) => {
                response.expected = head.content_length;
                ControlFlow::Continue(())
            }
            Err(failure) => {
                response.end = Some(Err(failure));
                ControlFlow::Break(())
            }
        }
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        let mut response = self.0.borrow_mut();
        response.bytes += chunk.len() as u64;
        response.chunks.feed(chunk);
        let room = response.keep_bytes - response.head.len();
        response
            .head
            .extend_from_slice(&chunk[..chunk.len().min(room)]);
        ControlFlow::Continue(())
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        // The first cause is the one to report.
        self.0
            .borrow_mut()
            .end
            .get_or_insert(result.map_err(failure_of));
    }
}
