//! Links that can be broken, between a client and a server on loopback.
//!
//! The client's address decides over which link a datagram goes: link 0 is that
//! of 127.0.0.1, link 1 that of 127.0.0.2.

use std::collections::HashMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Of each link, towards the client. Slow enough that a transfer of megabytes
/// can be disturbed in its middle.
const BYTES_PER_SECOND: u64 = 2_000_000;

/// How long a thread takes to see that it has to end.
const TICK: Duration = Duration::from_millis(50);

/// One link. It works until a field says otherwise.
pub struct Link {
    /// Drops everything, both ways.
    pub is_down: AtomicBool,
    /// Drops datagrams with more UDP payload than this, both ways.
    pub max_datagram: AtomicUsize,
    /// Set: the server sees a new port from the next datagram on.
    pub rebinds: AtomicBool,
    /// Delivered to the client.
    pub delivered_bytes: AtomicU64,
    /// Dropped for their size.
    pub too_large: AtomicU64,
}

impl Link {
    fn new() -> Link {
        Link {
            is_down: AtomicBool::new(false),
            max_datagram: AtomicUsize::new(usize::MAX),
            rebinds: AtomicBool::new(false),
            delivered_bytes: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
        }
    }

    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, SeqCst);
    }

    pub fn delivered(&self) -> u64 {
        self.delivered_bytes.load(SeqCst)
    }

    fn lets_through(&self, bytes: usize) -> bool {
        let fits = bytes <= self.max_datagram.load(SeqCst);
        if !fits {
            self.too_large.fetch_add(1, SeqCst);
        }
        fits && !self.is_down.load(SeqCst)
    }
}

/// Relays until dropped.
pub struct Relay {
    address: SocketAddr,
    links: [Arc<Link>; 2],
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Two links to the server on `port`.
    pub fn start(port: u16) -> Relay {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(TICK)).unwrap();
        let address = socket.local_addr().unwrap();
        let links = [Arc::new(Link::new()), Arc::new(Link::new())];
        let is_over = Arc::new(AtomicBool::new(false));
        let up = Up {
            socket: Arc::new(socket),
            server: ([127, 0, 0, 1], port).into(),
            links: links.clone(),
            is_over: is_over.clone(),
        };
        Relay {
            address,
            links,
            is_over,
            thread: Some(std::thread::spawn(move || up.run())),
        }
    }

    /// For --connect-to.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    pub fn link(&self, index: usize) -> &Link {
        &self.links[index]
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// From the clients to the server.
struct Up {
    socket: Arc<UdpSocket>,
    server: SocketAddr,
    links: [Arc<Link>; 2],
    is_over: Arc<AtomicBool>,
}

/// What the server sees of one client address.
struct Flow {
    socket: Arc<UdpSocket>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Up {
    fn run(self) {
        let mut flows: HashMap<SocketAddr, Flow> = HashMap::new();
        let mut old: Vec<Flow> = Vec::new();
        let mut buf = vec![0; 65536];
        while !self.is_over.load(SeqCst) {
            let Ok((len, client)) = self.socket.recv_from(&mut buf) else {
                continue;
            };
            let link = &self.links[usize::from(client.ip() != IpAddr::from([127, 0, 0, 1]))];
            if link.rebinds.swap(false, SeqCst) {
                old.extend(flows.remove(&client).inspect(Flow::end));
            }
            let flow = flows
                .entry(client)
                .or_insert_with(|| self.flow(client, link.clone()));
            if link.lets_through(len) {
                // A server that is gone is what some tests are about.
                let _ = flow.socket.send_to(&buf[..len], self.server);
            }
        }
        for flow in flows.into_values().chain(old) {
            flow.end();
            let _ = flow.thread.join();
        }
    }

    fn flow(&self, client: SocketAddr, link: Arc<Link>) -> Flow {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.set_read_timeout(Some(TICK)).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = {
            let (from, to) = (socket.clone(), self.socket.clone());
            let is_over = is_over.clone();
            std::thread::spawn(move || down(&from, &to, client, &link, &is_over))
        };
        Flow {
            socket,
            is_over,
            thread,
        }
    }
}

impl Flow {
    fn end(&self) {
        self.is_over.store(true, SeqCst);
    }
}

/// From the server to one client address, at the link's rate. The socket's
/// buffer is the queue.
fn down(from: &UdpSocket, to: &UdpSocket, client: SocketAddr, link: &Link, is_over: &AtomicBool) {
    let mut buf = vec![0; 65536];
    while !is_over.load(SeqCst) {
        let Ok(len) = from.recv(&mut buf) else {
            continue;
        };
        if !link.lets_through(len) {
            continue;
        }
        std::thread::sleep(Duration::from_micros(
            len as u64 * 1_000_000 / BYTES_PER_SECOND,
        ));
        if to.send_to(&buf[..len], client).is_ok() {
            link.delivered_bytes.fetch_add(len as u64, SeqCst);
        }
    }
}
