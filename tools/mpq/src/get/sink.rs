//! One download: what the connection delivers, written and counted.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use sha2::Digest;
use sha2::Sha256;

use crate::client::response::check_head;
use crate::client::response::failure_of;
use crate::exit::Failure;
use crate::identity::to_hex;
use crate::report::FileReport;

use super::gaps::Gaps;
use super::output::Output;

/// The state of one download, shared with its sink.
pub struct Download {
    /// As given.
    pub url: String,
    /// When the request was made.
    pub began: Instant,
    /// Bytes of body so far.
    pub bytes: u64,
    /// Length of the body, once known.
    pub expected: Option<u64>,
    output: Option<Output>,
    digest: Option<Sha256>,
    sha256: String,
    wants_range: bool,
    gaps: Gaps,
    result: Option<Result<Duration, Failure>>,
}

impl Download {
    /// A download of `url` into `output`; `hashes` asks for a digest,
    /// `wants_range` says that a part was requested.
    pub fn new(url: &str, output: Output, hashes: bool, wants_range: bool) -> Download {
        Download {
            url: url.into(),
            began: Instant::now(),
            bytes: 0,
            expected: None,
            output: Some(output),
            digest: hashes.then(Sha256::new),
            sha256: String::new(),
            wants_range,
            gaps: Gaps::default(),
            result: None,
        }
    }

    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.result.is_some()
    }

    /// What went wrong, if anything.
    pub fn failure(&self) -> Option<&Failure> {
        self.result.as_ref()?.as_ref().err()
    }

    /// The entry of the report, for a complete download.
    pub fn report(&self) -> Option<FileReport> {
        let duration = self.result.as_ref()?.as_ref().ok()?;
        Some(FileReport {
            url: self.url.clone(),
            bytes: self.bytes,
            seconds: duration.as_secs_f64(),
            sha256: self.sha256.clone(),
            longest_gap_ms: self.gaps.longest().as_secs_f64() * 1e3,
            gaps: self.gaps.notable_ms(self.began),
        })
    }

    fn start(&mut self, head: &ResponseHead) -> Result<(), Failure> {
        check_head(head, self.wants_range)?;
        self.expected = head.content_length;
        Ok(())
    }

    fn take(&mut self, chunk: &[u8]) -> Result<(), Failure> {
        if let Some(output) = &mut self.output {
            output.write(chunk)?;
        }
        if let Some(digest) = &mut self.digest {
            digest.update(chunk);
        }
        self.bytes += chunk.len() as u64;
        self.gaps.delivered(Instant::now());
        Ok(())
    }

    fn complete(&mut self) -> Result<(), Failure> {
        if let Some(digest) = self.digest.take() {
            self.sha256 = to_hex(&digest.finalize());
        }
        match &mut self.output {
            Some(output) => output.finish(),
            None => Ok(()),
        }
    }

    fn fail(&mut self, failure: Failure) -> ControlFlow<()> {
        // The first cause is the one to report.
        if self.result.is_none() {
            self.result = Some(Err(failure));
        }
        self.output = None;
        ControlFlow::Break(())
    }
}

/// Hands a response to its [`Download`].
pub struct DownloadSink(pub Rc<RefCell<Download>>);

impl ResponseSink for DownloadSink {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        let mut download = self.0.borrow_mut();
        match download.start(head) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => download.fail(failure),
        }
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        let mut download = self.0.borrow_mut();
        match download.take(chunk) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => download.fail(failure),
        }
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        let mut download = self.0.borrow_mut();
        let failure = match result {
            Ok(()) => match download.complete() {
                Ok(()) => {
                    let duration = download.began.elapsed();
                    download.result.get_or_insert(Ok(duration));
                    download.output = None;
                    return;
                }
                Err(failure) => failure,
            },
            Err(e) => failure_of(e),
        };
        let _ = download.fail(failure);
    }
}
