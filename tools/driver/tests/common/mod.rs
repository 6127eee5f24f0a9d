//! A server in its own thread, and a client that collects bodies.

// Not every test file uses all of it.
#![allow(dead_code)]

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::config::load_identity;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::h3::client::Verify;
use mpq_driver::h3::server::Body;
use mpq_driver::h3::server::Request as ServerRequest;
use mpq_driver::h3::server::Response;
use mpq_driver::h3::server::Server;
use mpq_driver::h3::server::Service;
use mpq_driver::ConnKey;
use mpq_driver::ListenOptions;
use mpq_driver::SendStats;
use mpq_driver::SocketOptions;
use mpq_driver::TransportSettings;
use mpq_identity::Identity;

/// No step may take longer; a hang is a failure, and slowness is none: on an idle machine no step takes a tenth of this.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The byte at `offset` of every body: a pattern without a short period, so
/// that lost, doubled or swapped data shows.
pub fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Answers `/N` with N bytes.
#[derive(Default)]
pub struct Pattern {
    /// The value of `alt-svc`, once it is known.
    alternative: Arc<OnceLock<String>>,
}

struct PatternBody {
    offset: u64,
    end: u64,
}

impl Body for PatternBody {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = (self.end - self.offset).min(buf.len() as u64) as usize;
        for (i, byte) in buf[..len].iter_mut().enumerate() {
            *byte = byte_at(self.offset + i as u64);
        }
        self.offset += len as u64;
        Ok(len)
    }
}

impl Service for Pattern {
    fn respond(&mut self, request: &ServerRequest) -> Response {
        let end: u64 = request.path[1..].parse().unwrap();
        let alternative = self.alternative.get().cloned();
        let alternative = alternative.map(|value| ("alt-svc", value));
        let length = ("content-length", end.to_string());
        Response {
            status: 200,
            headers: [length].into_iter().chain(alternative).collect(),
            body: Some(Box::new(PatternBody { offset: 0, end })),
        }
    }
}

/// How the test server differs from the default.
#[derive(Default)]
pub struct ServerOptions {
    pub listen: Option<SocketAddr>,
    pub transport: TransportSettings,
    pub options: ListenOptions,
    pub sockets: SocketOptions,
    /// A second port is listened on, which responses name as an alternative of this host.
    pub alternative_at: Option<&'static str>,
}

/// A running server; stopped when dropped.
pub struct TestServer {
    pub address: SocketAddr,
    /// Connections there are, closing ones included, and the most there were.
    pub connections: Arc<[AtomicUsize; 2]>,
    vanish: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    waker: Arc<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<SendStats>>,
}

impl TestServer {
    pub fn start(options: ServerOptions) -> TestServer {
        let identity = Identity::new(["localhost".into()]).unwrap();
        let files = identity.files().unwrap();
        let [cert, key] = [&files.certificate, &files.key].map(|file| file.to_str().unwrap());

        let mut config = options.transport.to_quiche().unwrap();
        load_identity(&mut config, cert, key).unwrap();

        let vanish = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(AtomicBool::new(false));
        let (gone, stopping) = (vanish.clone(), stop.clone());
        let connections = Arc::new([0, 0].map(AtomicUsize::new));
        let count = connections.clone();
        let alternative = Arc::new(OnceLock::new());
        let pattern = Pattern {
            alternative: alternative.clone(),
        };
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut server =
                Server::new(config, options.options, options.sockets, pattern).unwrap();
            let any = ([127, 0, 0, 1], 0).into();
            let address = server.listen_on(options.listen.unwrap_or(any)).unwrap();
            if let Some(host) = options.alternative_at {
                let port = server.listen_on(any).unwrap().port();
                alternative.set(format!("h3=\"{host}:{port}\"")).unwrap();
            }
            tell.send((address, server.waker())).unwrap();

            while !stopping.load(Ordering::SeqCst) {
                server.poll(None).unwrap();
                count[0].store(server.conn_count(), Ordering::SeqCst);
                count[1].fetch_max(server.conn_count(), Ordering::SeqCst);
                if gone.load(Ordering::SeqCst) {
                    return server.send_stats();
                }
            }
            server.stop();
            let end = Instant::now() + LIMIT;
            while !server.is_stopped() && Instant::now() < end {
                server.poll(Some(Duration::from_millis(100))).unwrap();
            }
            assert!(server.is_stopped(), "the server did not stop");
            server.send_stats()
        });
        let (address, waker) = told.recv().unwrap();

        TestServer {
            address,
            connections,
            vanish,
            stop,
            waker: Arc::new(move || waker.wake().unwrap()),
            thread: Some(thread),
        }
    }

    /// The server's process dies without a word.
    pub fn vanish(&mut self) {
        self.vanish.store(true, Ordering::SeqCst);
        self.join();
    }

    /// Asks the server to stop; running responses may finish.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        (self.waker)();
    }

    /// Stops the server and returns how its sending went.
    pub fn join(&mut self) -> SendStats {
        self.stop();
        self.thread
            .take()
            .map(|thread| thread.join().expect("the server thread panicked"))
            .unwrap_or_default()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}

/// What came of one request.
#[derive(Default)]
pub struct Outcome {
    pub status: u16,
    pub bytes: u64,
    /// Offset of the first wrong byte.
    pub wrong_at: Option<u64>,
    pub result: Option<Result<(), RequestError>>,
    /// Called with the bytes so far.
    pub on_body: Option<Box<dyn FnMut(u64)>>,
}

pub type Shared = Rc<RefCell<Outcome>>;

pub struct Collect(pub Shared);

impl ResponseSink for Collect {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        self.0.borrow_mut().status = head.status;
        ControlFlow::Continue(())
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        let mut outcome = self.0.borrow_mut();
        let start = outcome.bytes;
        let wrong = chunk
            .iter()
            .zip(start..)
            .find(|(byte, offset)| **byte != byte_at(*offset));
        if let Some((_, offset)) = wrong {
            outcome.wrong_at.get_or_insert(offset);
        }
        outcome.bytes += chunk.len() as u64;
        let bytes = outcome.bytes;
        if let Some(on_body) = &mut outcome.on_body {
            on_body(bytes);
        }
        ControlFlow::Continue(())
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        let mut outcome = self.0.borrow_mut();
        assert!(outcome.result.is_none(), "on_end came twice");
        outcome.result = Some(result);
    }
}

pub fn client(transport: TransportSettings) -> Client {
    Client::new(ClientSettings {
        transport,
        verify: Verify::None,
        ..Default::default()
    })
    .unwrap()
}

/// Asks for `bytes` on the connection `key`.
pub fn ask(client: &mut Client, key: ConnKey, bytes: u64) -> Shared {
    let outcome = Shared::default();
    client.request(
        key,
        Request {
            method: "GET".into(),
            authority: "localhost".into(),
            path: format!("/{bytes}"),
            headers: Vec::new(),
        },
        Box::new(Collect(outcome.clone())),
    );
    outcome
}

/// Polls until `is_done`.
pub fn run(client: &mut Client, mut is_done: impl FnMut(&Client) -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_done(client) {
        assert!(Instant::now() < end, "timed out");
        client.poll(Some(Duration::from_millis(50))).unwrap();
    }
}

/// Polls until every outcome is there.
pub fn finish(client: &mut Client, outcomes: &[Shared]) {
    run(client, |_| {
        outcomes.iter().all(|o| o.borrow().result.is_some())
    });
}

/// The outcome is `bytes` intact bytes.
pub fn assert_intact(outcome: &Shared, bytes: u64) {
    let outcome = outcome.borrow();
    assert!(
        matches!(outcome.result, Some(Ok(()))),
        "{:?} after {} bytes",
        outcome.result,
        outcome.bytes
    );
    assert_eq!(outcome.status, 200);
    assert_eq!(outcome.bytes, bytes);
    assert_eq!(outcome.wrong_at, None);
}
