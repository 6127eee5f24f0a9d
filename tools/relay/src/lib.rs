//! A middlebox for tests on loopback: it carries UDP datagrams between clients and a server, those of each client
//! address over a link of its own.
//!
//! A test that needs two paths gives each a rate. Over loopback alone, how much the first path carries before the
//! second is open depends on the processor.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use mio::net::UdpSocket;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use mio::Waker;

/// Others are flows' indices.
const FRONT: Token = Token(usize::MAX - 1);
const WAKE: Token = Token(usize::MAX - 2);

/// What a link does to each of its directions.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions {
    /// UDP payload; without it, a link is as fast as the machine.
    pub bytes_per_second: Option<u64>,
    /// UDP payload that waits for the link at most; what comes then is dropped. Only a link with a rate has a queue.
    pub queue_bytes: u64,
    /// How long a datagram travels, after the queue.
    pub delay: Duration,
    /// Of so many datagrams, one is dropped.
    pub drop_one_in: Option<u64>,
}

impl Default for LinkOptions {
    fn default() -> LinkOptions {
        LinkOptions {
            bytes_per_second: None,
            // More than one datagram of the largest size.
            queue_bytes: 100_000,
            delay: Duration::ZERO,
            drop_one_in: None,
        }
    }
}

/// Between whom a [`Relay`] stands.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where clients send to; port 0 is any free one.
    pub bind: SocketAddr,
    pub server: SocketAddr,
    /// Client addresses whose datagrams go to another address of the server.
    pub routes: HashMap<IpAddr, SocketAddr>,
    pub link: LinkOptions,
}

/// The link of one client address. It works until a field says otherwise.
pub struct Link {
    options: LinkOptions,
    is_down: AtomicBool,
    is_mute: AtomicBool,
    max_datagram: AtomicUsize,
    rebinds: AtomicBool,
    delay_us: AtomicU64,
    /// Bytes a second; 0 is as fast as the machine.
    rate: AtomicU64,
    up: Direction,
    down: Direction,
    too_large: AtomicU64,
}

/// What one direction of a link has done so far.
#[derive(Default)]
struct Direction {
    /// When the last datagram will have left the queue.
    free_at: Mutex<Option<Instant>>,
    arrived: AtomicU64,
    delivered_bytes: AtomicU64,
    dropped: AtomicU64,
}

impl Link {
    fn new(options: LinkOptions) -> Link {
        Link {
            options,
            is_down: AtomicBool::new(false),
            is_mute: AtomicBool::new(false),
            max_datagram: AtomicUsize::new(usize::MAX),
            rebinds: AtomicBool::new(false),
            delay_us: AtomicU64::new(options.delay.as_micros() as u64),
            rate: AtomicU64::new(options.bytes_per_second.unwrap_or(0)),
            up: Direction::default(),
            down: Direction::default(),
            too_large: AtomicU64::new(0),
        }
    }

    /// Drops everything, both ways, also what waits; or no longer.
    pub fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, SeqCst);
    }

    /// Drops what comes from the server, until told otherwise: the server hears the client, and the client nothing.
    pub fn set_mute(&self, is_mute: bool) {
        self.is_mute.store(is_mute, SeqCst);
    }

    /// Drops datagrams with more UDP payload than this, both ways.
    pub fn set_max_datagram(&self, bytes: usize) {
        self.max_datagram.store(bytes, SeqCst);
    }

    /// How long each datagram travels from now on, both ways.
    pub fn set_delay(&self, delay: Duration) {
        self.delay_us.store(delay.as_micros() as u64, SeqCst);
    }

    /// What each direction carries from now on.
    pub fn set_rate(&self, bytes_per_second: u64) {
        self.rate.store(bytes_per_second, SeqCst);
    }

    /// The server sees a new port from the client's next datagram on.
    pub fn rebind(&self) {
        self.rebinds.store(true, SeqCst);
    }

    /// Whether a [`rebind`](Link::rebind) is still to come.
    pub fn is_rebinding(&self) -> bool {
        self.rebinds.load(SeqCst)
    }

    /// UDP payload delivered to the client.
    pub fn delivered(&self) -> u64 {
        self.down.delivered_bytes.load(SeqCst)
    }

    /// UDP payload delivered to the server.
    pub fn delivered_up(&self) -> u64 {
        self.up.delivered_bytes.load(SeqCst)
    }

    /// Datagrams dropped by `drop_one_in`, a full queue or while the link was down, both ways.
    pub fn dropped(&self) -> u64 {
        self.up.dropped.load(SeqCst) + self.down.dropped.load(SeqCst)
    }

    /// Datagrams dropped for their size.
    pub fn too_large(&self) -> u64 {
        self.too_large.load(SeqCst)
    }

    fn direction(&self, is_up: bool) -> &Direction {
        if is_up {
            &self.up
        } else {
            &self.down
        }
    }

    /// When a datagram that comes now is delivered, or None if it is not.
    fn admit(&self, is_up: bool, bytes: usize) -> Option<Instant> {
        let direction = self.direction(is_up);
        if bytes > self.max_datagram.load(SeqCst) {
            self.too_large.fetch_add(1, SeqCst);
            return None;
        }
        if self.is_down.load(SeqCst) || !is_up && self.is_mute.load(SeqCst) {
            direction.dropped.fetch_add(1, SeqCst);
            return None;
        }
        let count = direction.arrived.fetch_add(1, SeqCst) + 1;
        let now = Instant::now();
        let mut sent_at = now;
        let mut is_dropped = self
            .options
            .drop_one_in
            .is_some_and(|n| count.is_multiple_of(n));
        let rate = self.rate.load(SeqCst);
        if !is_dropped && rate > 0 {
            let takes = |bytes: u64| Duration::from_nanos(bytes * 1_000_000_000 / rate);
            let mut free_at = direction.free_at.lock().unwrap();
            let begins = free_at.map_or(now, |at| at.max(now));
            sent_at = begins + takes(bytes as u64);
            is_dropped = sent_at - now > takes(self.options.queue_bytes);
            if !is_dropped {
                *free_at = Some(sent_at);
            }
        }
        if is_dropped {
            direction.dropped.fetch_add(1, SeqCst);
            return None;
        }
        Some(sent_at + Duration::from_micros(self.delay_us.load(SeqCst)))
    }
}

/// A datagram on its way.
struct Held {
    data: Vec<u8>,
    flow: usize,
    is_up: bool,
}

/// Relays until dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    options: Options,
    links: Mutex<HashMap<IpAddr, Arc<Link>>>,
    is_over: AtomicBool,
}

impl Relay {
    /// Relays between `options.server` and whoever sends to [`Relay::address`].
    pub fn start(options: Options) -> io::Result<Relay> {
        let poll = Poll::new()?;
        let mut front = UdpSocket::bind(options.bind)?;
        poll.registry()
            .register(&mut front, FRONT, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let address = front.local_addr()?;
        let shared = Arc::new(Shared {
            options,
            links: Mutex::new(HashMap::new()),
            is_over: AtomicBool::new(false),
        });
        let carrier = Carrier {
            poll,
            front,
            shared: shared.clone(),
            flows: Vec::new(),
            by_client: HashMap::new(),
            waiting: BTreeMap::new(),
            count: 0,
        };
        Ok(Relay {
            address,
            shared,
            waker,
            thread: Some(std::thread::spawn(move || carrier.run())),
        })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link of a client address, whether or not it has been seen yet.
    pub fn link(&self, client: IpAddr) -> Arc<Link> {
        self.shared.link(client)
    }

    /// The links so far, by client address.
    pub fn links(&self) -> Vec<(IpAddr, Arc<Link>)> {
        let links = self.shared.links.lock().unwrap();
        let mut all: Vec<_> = links.iter().map(|(ip, link)| (*ip, link.clone())).collect();
        all.sort_by_key(|(ip, _)| *ip);
        all
    }

    /// The sum of all links' [`Link::dropped`].
    pub fn dropped(&self) -> u64 {
        self.links().iter().map(|(_, link)| link.dropped()).sum()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        if let (Ok(()), Some(thread)) = (self.waker.wake(), self.thread.take()) {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn link(&self, client: IpAddr) -> Arc<Link> {
        let mut links = self.links.lock().unwrap();
        let link = links
            .entry(client)
            .or_insert_with(|| Arc::new(Link::new(self.options.link)));
        link.clone()
    }

    fn server_of(&self, client: IpAddr) -> SocketAddr {
        let route = self.options.routes.get(&client);
        route.copied().unwrap_or(self.options.server)
    }
}

/// What the server sees of one client address and port. An old one stays, for what is late.
struct Flow {
    client: SocketAddr,
    link: Arc<Link>,
    back: UdpSocket,
}

/// The thread of a relay.
struct Carrier {
    poll: Poll,
    front: UdpSocket,
    shared: Arc<Shared>,
    flows: Vec<Flow>,
    /// The flow that a client's datagrams belong to.
    by_client: HashMap<SocketAddr, usize>,
    /// By when they leave, then in the order in which they came.
    waiting: BTreeMap<(Instant, u64), Held>,
    count: u64,
}

impl Carrier {
    fn run(mut self) {
        let mut events = Events::with_capacity(64);
        while !self.shared.is_over.load(SeqCst) {
            let next = self.waiting.first_key_value().map(|((at, _), _)| *at);
            let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, timeout) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => panic!("cannot poll: {e}"),
                _ => (),
            }
            for event in &events {
                match event.token() {
                    WAKE => (),
                    FRONT => self.receive_from_clients(),
                    Token(flow) => self.receive_from_server(flow),
                }
            }
            self.deliver();
        }
    }

    fn receive_from_clients(&mut self) {
        let mut buf = [0; 65536];
        loop {
            let (len, client) = match self.front.recv_from(&mut buf) {
                Ok(datagram) => datagram,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // Of a datagram that was sent: its client is gone.
                Err(_) => continue,
            };
            let link = self.shared.link(client.ip());
            if link.rebinds.swap(false, SeqCst) {
                self.by_client.remove(&client);
            }
            let flow = match self.by_client.get(&client) {
                Some(flow) => *flow,
                None => self.add_flow(client, link),
            };
            self.admit(flow, true, &buf[..len]);
        }
    }

    fn receive_from_server(&mut self, flow: usize) {
        let mut buf = [0; 65536];
        loop {
            match self.flows[flow].back.recv(&mut buf) {
                Ok(len) => self.admit(flow, false, &buf[..len]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A server that is gone is what some tests are about.
                Err(_) => continue,
            }
        }
    }

    fn add_flow(&mut self, client: SocketAddr, link: Arc<Link>) -> usize {
        // As from the client: the server sees its address, with another port.
        let from = SocketAddr::new(client.ip(), 0);
        let mut back = UdpSocket::bind(from).expect("clients are on this machine");
        back.connect(self.shared.server_of(client.ip()))
            .expect("the server's address is on this machine");
        let flow = self.flows.len();
        self.poll
            .registry()
            .register(&mut back, Token(flow), Interest::READABLE)
            .expect("one more socket");
        self.flows.push(Flow { client, link, back });
        self.by_client.insert(client, flow);
        flow
    }

    fn admit(&mut self, flow: usize, is_up: bool, data: &[u8]) {
        let link = &self.flows[flow].link;
        if let Some(leaves) = link.admit(is_up, data.len()) {
            self.count += 1;
            let held = Held {
                data: data.to_vec(),
                flow,
                is_up,
            };
            self.waiting.insert((leaves, self.count), held);
        }
        // Whoever sends without an end must not hold up what is due.
        self.deliver();
    }

    /// Sends all that is due.
    fn deliver(&mut self) {
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > Instant::now() {
                return;
            }
            let held = first.remove();
            let Flow { client, link, back } = &self.flows[held.flow];
            if link.is_down.load(SeqCst) {
                let dropped = &link.direction(held.is_up).dropped;
                dropped.fetch_add(1, SeqCst);
                continue;
            }
            // Before it is sent: whoever has it finds it counted.
            let (bytes, len) = (
                &link.direction(held.is_up).delivered_bytes,
                held.data.len() as u64,
            );
            bytes.fetch_add(len, SeqCst);
            let sent = if held.is_up {
                back.send(&held.data)
            } else {
                self.front.send_to(&held.data, *client)
            };
            // A loss, as on any network.
            if sent.is_err() {
                bytes.fetch_sub(len, SeqCst);
            }
        }
    }
}
