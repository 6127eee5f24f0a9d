//! The proxy as a process, and the least of an HTTP/1.1 client, which reads as slowly as it likes.

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;

use super::LIMIT;
use super::MPQ;

/// `mpq proxy`; killed when dropped.
pub struct Proxy {
    pub child: Child,
    pub port: u16,
    log: Arc<Mutex<String>>,
}

impl Proxy {
    /// For these origins, with these options.
    pub fn start(args: &[&str]) -> Proxy {
        let mut child = Command::new(MPQ)
            .args(["proxy", "--listen", "127.0.0.1:0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let port = loop {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no proxy");
            if line.starts_with("listening on") {
                break line.trim().rsplit(':').next().unwrap().parse().unwrap();
            }
        };
        let log = Arc::new(Mutex::new(String::new()));
        let rest = log.clone();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut rest = rest.lock().unwrap();
                rest.push_str(&line);
                rest.push('\n');
            }
        });
        Proxy { child, port, log }
    }

    /// What it has said since it listens.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Sends a request, whose Host is this proxy's address unless `fields` have one; the answer's head is read.
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            head += &format!("Host: 127.0.0.1:{}\r\n", self.port);
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all((head + "\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        Answer::read(stream)
    }

    /// A GET without more.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], b"")
    }

    /// `/.mpq/status.json`.
    pub fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.get("/.mpq/status.json").body()).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer whose body is read when it is asked for.
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
}

impl Answer {
    /// Reads a head; an interim one (1xx) is passed over.
    pub fn read(stream: TcpStream) -> Answer {
        let mut stream = BufReader::with_capacity(4096, stream);
        loop {
            let mut line = || {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                line.trim_end().to_owned()
            };
            let first = line();
            let status = first.split(' ').nth(1).expect("no answer").parse().unwrap();
            let mut fields = Vec::new();
            loop {
                let line = line();
                let Some((name, value)) = line.split_once(':') else {
                    break;
                };
                fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            if status >= 200 {
                return Answer {
                    status,
                    fields,
                    stream,
                };
            }
        }
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The next bytes of the body, as they are sent.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut taken = vec![0; bytes];
        self.stream.read_exact(&mut taken).unwrap();
        taken
    }

    /// The rest of the body, which ends with the connection; chunks are put together.
    pub fn body(mut self) -> Vec<u8> {
        let mut all = Vec::new();
        self.stream.read_to_end(&mut all).unwrap();
        if self.field("transfer-encoding") != Some("chunked") {
            return all;
        }
        let (mut rest, mut body) = (all.as_slice(), Vec::new());
        loop {
            let end = rest
                .windows(2)
                .position(|w| w == b"\r\n")
                .expect("no chunk");
            let size = std::str::from_utf8(&rest[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            if size == 0 {
                return body;
            }
            body.extend_from_slice(&rest[end + 2..][..size]);
            rest = &rest[end + 2 + size + 2..];
        }
    }

    pub fn text(self) -> String {
        String::from_utf8(self.body()).unwrap()
    }
}
