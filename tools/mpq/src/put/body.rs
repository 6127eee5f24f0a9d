//! One upload: a file that is read as the connection takes it, and what the server says to it.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::io::IoSliceMut;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::client::Body;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;

use crate::client::response::check_head;
use crate::client::response::failure_of;
use crate::exit::Failure;
use crate::report::PutFileReport;

use super::unreadable;

/// A file as a request's body.
pub struct FileBody {
    file: File,
    name: String,
    length: u64,
    left: u64,
    upload: Option<Rc<RefCell<Upload>>>,
}

impl FileBody {
    /// The file at `path`, which must have a length.
    pub fn open(path: &Path) -> Result<FileBody, Failure> {
        let file = File::open(path).map_err(|e| unreadable(path, e))?;
        let about = file.metadata().map_err(|e| unreadable(path, e))?;
        if !about.is_file() {
            return Err(unreadable(path, "it is not a file"));
        }
        Ok(FileBody {
            file,
            name: path.display().to_string(),
            length: about.len(),
            left: about.len(),
            upload: None,
        })
    }

    /// Bytes that are sent.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The same, and `upload` knows how much was read.
    pub fn counted_by(mut self, upload: Rc<RefCell<Upload>>) -> FileBody {
        self.upload = Some(upload);
        self
    }
}

impl FileBody {
    /// Takes account of what was read, where there was something to read.
    fn account(&mut self, read: io::Result<usize>) -> io::Result<usize> {
        let about = |why: String| io::Error::other(format!("cannot read {}: {why}", self.name));
        let n = match read {
            Ok(0) => return Err(about("it became shorter".into())),
            Ok(n) => n,
            Err(e) => return Err(about(e.to_string())),
        };
        self.left = self.left.saturating_sub(n as u64);
        if let Some(upload) = &self.upload {
            upload.borrow_mut().read_bytes += n as u64;
        }
        Ok(n)
    }
}

impl Body for FileBody {
    /// What the file had when it was opened: `content-length` says so much.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let wanted = self.left.min(buf.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.file.read(&mut buf[..wanted]);
        self.account(read)
    }

    fn left(&self) -> Option<u64> {
        Some(self.left)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut]) -> io::Result<usize> {
        let read = self.file.read_vectored(bufs);
        self.account(read)
    }
}

/// The state of one upload.
pub struct Upload {
    /// Where to.
    pub url: String,
    /// Length of the file.
    pub length: u64,
    /// Bytes that the connection took so far.
    pub read_bytes: u64,
    began: Instant,
    status: u16,
    result: Option<Result<Duration, Failure>>,
}

impl Upload {
    /// An upload of `length` bytes that begins now.
    pub fn new(url: &str, length: u64) -> Upload {
        Upload {
            url: url.into(),
            length,
            read_bytes: 0,
            began: Instant::now(),
            status: 0,
            result: None,
        }
    }

    /// Whether the server's answer is there, or will never be.
    pub fn is_over(&self) -> bool {
        self.result.is_some()
    }

    /// What went wrong, if anything.
    pub fn failure(&self) -> Option<&Failure> {
        self.result.as_ref()?.as_ref().err()
    }

    /// The entry of the report, for what the server took.
    pub fn report(&self) -> Option<PutFileReport> {
        let duration = self.result.as_ref()?.as_ref().ok()?;
        Some(PutFileReport {
            url: self.url.clone(),
            bytes: self.length,
            seconds: duration.as_secs_f64(),
            status: self.status,
        })
    }

    fn end(&mut self, result: Result<Duration, Failure>) {
        // The first cause is the one to report.
        self.result.get_or_insert(result);
    }
}

/// Hands the server's answer to its [`Upload`].
pub struct UploadSink(pub Rc<RefCell<Upload>>);

impl ResponseSink for UploadSink {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        let mut upload = self.0.borrow_mut();
        upload.status = head.status;
        match check_head(head, false) {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                upload.end(Err(failure));
                ControlFlow::Break(())
            }
        }
    }

    fn on_body(&mut self, _chunk: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        let mut upload = self.0.borrow_mut();
        let result = match result {
            Ok(()) => Ok(upload.began.elapsed()),
            Err(e) => Err(failure_of(e)),
        };
        upload.end(result);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_sent_as_long_as_it_was() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 1000]).unwrap();
        let upload = Rc::new(RefCell::new(Upload::new("https://a.example/b", 1000)));
        let body = FileBody::open(file.path()).unwrap();
        let mut body = body.counted_by(upload.clone());
        file.write_all(&[8; 1000]).unwrap();

        let mut buf = [0; 600];
        assert_eq!(body.read(&mut buf).unwrap(), 600);
        assert_eq!(body.read(&mut buf).unwrap(), 400);
        assert_eq!(body.read(&mut buf).unwrap(), 0);
        assert_eq!(upload.borrow().read_bytes, 1000);
    }

    #[test]
    fn a_file_that_became_shorter_is_an_error() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 1000]).unwrap();
        let mut body = FileBody::open(file.path()).unwrap();
        file.as_file().set_len(300).unwrap();

        let mut buf = [0; 600];
        assert_eq!(body.read(&mut buf).unwrap(), 300);
        let error = body.read(&mut buf).unwrap_err().to_string();
        assert!(error.ends_with("it became shorter"), "{error}");
        assert!(FileBody::open(Path::new("/")).is_err());
    }
}
