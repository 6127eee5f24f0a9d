//! Answers requests with files below a directory.

use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use mpq_driver::h3::field;
use mpq_driver::h3::server::Body;
use mpq_driver::h3::server::Finished;
use mpq_driver::h3::server::Request;
use mpq_driver::h3::server::Response;
use mpq_driver::h3::server::Service;
use mpq_driver::CloseReason;
use mpq_driver::Memory;
use mpq_driver::Refusal;
use percent_encoding::percent_decode_str;

use super::range;
use super::range::Range;

/// The files below a directory, and the access log.
pub struct Files {
    root: PathBuf,
    logs: bool,
    /// The server's addresses, as an `alt-svc` field names them.
    alt_svc: Option<String>,
}

impl Files {
    /// Serves `dir`; `logs` asks for a line per request. Where there are several `addresses`, responses name them, so
    /// that clients can open paths to each (RFC 7838).
    pub fn new(dir: &Path, logs: bool, addresses: &[SocketAddr]) -> io::Result<Files> {
        let root = dir.canonicalize()?;
        if !root.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let can_be_named = |a: &&SocketAddr| !a.ip().is_unspecified() && a.port() != 0;
        let named = addresses.iter().filter(can_be_named);
        let named: Vec<_> = named.map(|a| format!("h3=\"{a}\"")).collect();
        Ok(Files {
            root,
            logs,
            alt_svc: (named.len() > 1).then(|| named.join(", ")),
        })
    }

    /// The file that `path` (percent-encoded, perhaps with a query) names.
    /// Anything outside the directory does not exist, symbolic links included.
    fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        let not_found = || io::Error::from(io::ErrorKind::NotFound);

        let path = path.split(['?', '#']).next().unwrap_or_default();
        let path = percent_decode_str(path)
            .decode_utf8()
            .map_err(|_| not_found())?;
        let mut file = self.root.clone();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => return Err(not_found()),
                _ if part.contains('\0') => return Err(not_found()),
                _ => file.push(part),
            }
        }

        let mut file = file.canonicalize()?;
        if file.is_dir() {
            file = file.join("index.html").canonicalize()?;
        }
        if file.starts_with(&self.root) && file.is_file() {
            Ok(file)
        } else {
            Err(not_found())
        }
    }

    fn answer(&self, request: &Request) -> io::Result<Response> {
        let path = self.resolve(&request.path)?;
        let file = File::open(&path)?;
        let meta = file.metadata()?;
        let len = meta.len();

        let mime = mime_guess::from_path(&path).first_or_octet_stream();
        let etag = etag(&meta);
        let mut headers = vec![
            ("content-type", mime.to_string()),
            ("accept-ranges", "bytes".into()),
            ("etag", etag.clone()),
        ];
        if let Some(alt_svc) = &self.alt_svc {
            headers.push(("alt-svc", alt_svc.clone()));
        }
        if let Ok(modified) = meta.modified() {
            headers.push(("last-modified", httpdate::fmt_http_date(modified)));
        }

        let known = field(&request.headers, "if-none-match");
        if known.is_some_and(|list| matches_etag(list, &etag)) {
            return Ok(Response {
                status: 304,
                headers,
                body: None,
            });
        }

        let (status, first, count) = match range::parse(field(&request.headers, "range"), len) {
            Range::Whole => (200, 0, len),
            Range::Part { first, last } => {
                headers.push(("content-range", format!("bytes {first}-{last}/{len}")));
                (206, first, last - first + 1)
            }
            Range::Unsatisfiable => {
                headers.push(("content-range", format!("bytes */{len}")));
                headers.push(("content-length", "0".into()));
                return Ok(Response {
                    status: 416,
                    headers,
                    body: None,
                });
            }
        };
        headers.push(("content-length", count.to_string()));

        let has_body = request.method != "HEAD" && count > 0;
        let body = has_body.then(|| {
            Box::new(FileBody {
                file,
                offset: first,
                left: count,
            }) as Box<dyn Body>
        });
        Ok(Response {
            status,
            headers,
            body,
        })
    }
}

/// Changes whenever the file's length or time of modification does.
fn etag(meta: &Metadata) -> String {
    format!(
        "\"{:x}-{:x}-{:x}\"",
        meta.mtime(),
        meta.mtime_nsec(),
        meta.len()
    )
}

/// Whether the `If-None-Match` field `list` has `etag`.
fn matches_etag(list: &str, etag: &str) -> bool {
    list.split(',').map(str::trim).any(|candidate| {
        candidate == "*" || candidate.strip_prefix("W/").unwrap_or(candidate) == etag
    })
}

/// A short text response.
fn plain(status: u16, text: &'static str) -> Response {
    Response {
        status,
        headers: vec![
            ("content-type", "text/plain; charset=utf-8".into()),
            ("content-length", text.len().to_string()),
        ],
        body: Some(Box::new(io::Cursor::new(text))),
    }
}

impl Service for Files {
    fn respond(&mut self, request: &Request) -> Response {
        if request.method != "GET" && request.method != "HEAD" {
            let mut response = plain(405, "method not allowed\n");
            response.headers.push(("allow", "GET, HEAD".into()));
            return response;
        }

        let mut response = match self.answer(request) {
            Ok(response) => response,
            Err(e) => match e.kind() {
                io::ErrorKind::PermissionDenied => plain(403, "forbidden\n"),
                io::ErrorKind::NotFound
                | io::ErrorKind::NotADirectory
                | io::ErrorKind::InvalidFilename => plain(404, "not found\n"),
                _ => {
                    log::error!("{}: {e}", request.path);
                    plain(500, "the file cannot be read\n")
                }
            },
        };
        if request.method == "HEAD" {
            response.body = None;
        }
        response
    }

    fn on_finished(&mut self, finished: &Finished) {
        if !self.logs {
            return;
        }

        let total: u64 = finished.path_bytes.iter().map(|(_, b)| b).sum();
        let shares: Vec<String> = finished
            .path_bytes
            .iter()
            .map(|(path, bytes)| {
                let percent = bytes * 100 / total.max(1);
                format!("{}={percent}%", path.path_id)
            })
            .collect();
        let copied = match finished.copied_bytes {
            0 => String::new(),
            bytes => format!(", {bytes} bytes twice"),
        };
        eprintln!(
            "{} {} {:?} {} {} bytes {:.3} s {} paths {}{copied}",
            httpdate::fmt_http_date(SystemTime::now()),
            finished.request.peer,
            format_args!("{} {}", finished.request.method, finished.request.path).to_string(),
            finished.status,
            finished.body_bytes,
            finished.duration.as_secs_f64(),
            if finished.is_complete {
                "complete"
            } else {
                "aborted"
            },
            shares.join(" ")
        );
    }

    fn on_resumption(&mut self, peer: SocketAddr, path_id: u64, outcome: Result<Memory, Refusal>) {
        if !self.logs {
            return;
        }
        let time = httpdate::fmt_http_date(SystemTime::now());
        match outcome {
            Ok(Memory {
                window_bytes,
                rtt,
                age,
            }) => eprintln!(
                "{time} {peer} path {path_id} resumes: {window_bytes} bytes in {:.1} ms, {} s ago",
                rtt.as_secs_f64() * 1e3,
                age.as_secs()
            ),
            Err(refusal) => eprintln!("{time} {peer} path {path_id} begins anew: {refusal}"),
        }
    }

    fn on_closed(&mut self, peer: SocketAddr, reason: &CloseReason) {
        log::debug!("{peer}: {reason}");
    }
}

/// A part of a file, read as the stream takes it.
struct FileBody {
    file: File,
    offset: u64,
    left: u64,
}

impl Body for FileBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let want = self.left.min(buf.len() as u64) as usize;
        if want == 0 {
            return Ok(0);
        }

        let len = self.file.read_at(&mut buf[..want], self.offset)?;
        if len == 0 {
            // Shorter than announced: the client must not take it for whole.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += len as u64;
        self.left -= len as u64;
        Ok(len)
    }

    fn left(&self) -> Option<u64> {
        Some(self.left)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut]) -> io::Result<usize> {
        let len = rustix::io::preadv(&self.file, bufs, self.offset)?;
        self.offset += len as u64;
        self.left = self.left.saturating_sub(len as u64);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, range: Option<&str>) -> Request {
        let headers = range
            .map(|value| quiche::h3::Header::new(b"range", value.as_bytes()))
            .into_iter()
            .collect();
        Request {
            method: method.into(),
            path: path.into(),
            headers,
            peer: "192.0.2.1:1".parse().unwrap(),
        }
    }

    fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        response
            .headers
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, value)| value.as_str())
    }

    fn body(response: Response) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buf = [0; 3];
        if let Some(mut body) = response.body {
            loop {
                match body.read(&mut buf).unwrap() {
                    0 => break,
                    len => all.extend_from_slice(&buf[..len]),
                }
            }
        }
        all
    }

    fn served() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(root.join("empty")).unwrap();
        std::fs::write(root.join("ten.txt"), b"0123456789").unwrap();
        std::fs::write(root.join("a b.mp4"), b"video").unwrap();
        std::fs::write(root.join("sub/index.html"), b"<p>").unwrap();
        std::fs::write(dir.path().join("secret"), b"secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("link")).unwrap();
        let files = Files::new(&root, false, &[]).unwrap();
        (dir, files)
    }

    #[test]
    fn several_addresses_are_named() {
        let (dir, mut files) = served();
        let name = |files: &mut Files| {
            let response = files.respond(&request("GET", "/ten.txt", None));
            header(&response, "alt-svc").map(str::to_owned)
        };
        assert_eq!(name(&mut files), None);

        let root = dir.path().join("root");
        let with = |addresses: &[&str]| {
            let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
            name(&mut Files::new(&root, false, &addresses).unwrap())
        };
        assert_eq!(with(&["192.0.2.1:443"]), None);
        assert_eq!(with(&["0.0.0.0:443", "192.0.2.1:443"]), None);
        assert_eq!(
            with(&["192.0.2.1:443", "[2001:db8::1]:443"]).unwrap(),
            r#"h3="192.0.2.1:443", h3="[2001:db8::1]:443""#
        );
    }

    #[test]
    fn files_come_with_their_type_and_length() {
        let (_dir, mut files) = served();

        let response = files.respond(&request("GET", "/ten.txt?x=y", None));
        assert_eq!(response.status, 200);
        assert_eq!(header(&response, "content-type"), Some("text/plain"));
        assert_eq!(header(&response, "content-length"), Some("10"));
        assert_eq!(header(&response, "accept-ranges"), Some("bytes"));
        assert_eq!(body(response), b"0123456789");

        let response = files.respond(&request("GET", "/a%20b.mp4", None));
        assert_eq!(header(&response, "content-type"), Some("video/mp4"));
        let response = files.respond(&request("GET", "/sub/", None));
        assert_eq!(body(response), b"<p>");

        let response = files.respond(&request("HEAD", "/ten.txt", None));
        assert_eq!(header(&response, "content-length"), Some("10"));
        assert!(body(response).is_empty());
        assert_eq!(files.respond(&request("PUT", "/ten.txt", None)).status, 405);
    }

    #[test]
    fn ranges_are_cut_out() {
        let (_dir, mut files) = served();
        let mut get = |range| files.respond(&request("GET", "/ten.txt", range));

        let response = get(Some("bytes=2-8"));
        assert_eq!(response.status, 206);
        assert_eq!(header(&response, "content-range"), Some("bytes 2-8/10"));
        assert_eq!(header(&response, "content-length"), Some("7"));
        assert_eq!(body(response), b"2345678");

        let response = get(Some("bytes=10-"));
        assert_eq!(response.status, 416);
        assert_eq!(header(&response, "content-range"), Some("bytes */10"));
    }

    #[test]
    fn nothing_outside_the_directory_exists() {
        let (_dir, mut files) = served();
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/sub/..%2f..%2fsecret",
            "/link",
            "/..",
            "//..//secret",
            "/empty/",
            "/none",
            "/ten.txt/x",
            "/%00",
            "/%ff",
        ] {
            let status = files.respond(&request("GET", path, None)).status;
            assert_eq!(status, 404, "{path}");
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_and_not_an_end() {
        let (dir, mut files) = served();
        let response = files.respond(&request("GET", "/ten.txt", None));
        std::fs::write(dir.path().join("root/ten.txt"), b"012").unwrap();

        let mut body = response.body.unwrap();
        let mut buf = [0; 8];
        assert_eq!(body.read(&mut buf).unwrap(), 3);
        assert!(body.read(&mut buf).is_err());
    }

    #[test]
    fn an_etag_in_the_list_matches() {
        assert!(matches_etag("\"a\", W/\"b\"", "\"b\""));
        assert!(matches_etag("*", "\"b\""));
        assert!(!matches_etag("\"a\"", "\"b\""));
    }
}
