//! A middlebox on one network: carries datagrams between client and server, late,
//! and not all of them.

use std::io;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use crate::server_ip;

/// What a relay does to each direction.
#[derive(Clone, Copy, Debug)]
pub struct Impairment {
    /// How long a datagram is held.
    pub delay: Duration,
    /// Of so many datagrams, one is dropped.
    pub drop_one_in: Option<u64>,
}

/// A running relay; stopped when dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    impairment: Impairment,
    client: Mutex<Option<SocketAddr>>,
    dropped: AtomicU64,
    stop: AtomicBool,
}

/// A datagram, and when it leaves.
type Held = (Instant, Vec<u8>);

impl Relay {
    /// Relays to `server` what comes to [`Relay::address`] on a network, and its
    /// answers back.
    pub fn new(network: u8, server: SocketAddr, impairment: Impairment) -> io::Result<Relay> {
        let mut octets = server_ip(network).octets();
        octets[3] = 3;
        let front = UdpSocket::bind(SocketAddr::from((octets, 0)))?;
        let back = UdpSocket::bind(SocketAddr::from((octets, 0)))?;
        back.connect(server)?;
        let address = front.local_addr()?;

        let shared = Arc::new(Shared {
            impairment,
            client: Mutex::new(None),
            dropped: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let mut threads = Vec::new();

        let (held, leaving) = channel();
        let (socket, up) = (front.try_clone()?, shared.clone());
        threads.push(std::thread::spawn(move || {
            up.receive(&socket, held, |from| {
                *up.client.lock().unwrap() = Some(from);
            });
        }));
        let socket = back.try_clone()?;
        threads.push(std::thread::spawn(move || {
            send(leaving, |datagram| socket.send(datagram));
        }));

        let (held, leaving) = channel();
        let down = shared.clone();
        threads.push(std::thread::spawn(move || {
            down.receive(&back, held, |_| ());
        }));
        let down = shared.clone();
        threads.push(std::thread::spawn(move || {
            send(leaving, |datagram| match *down.client.lock().unwrap() {
                Some(client) => front.send_to(datagram, client),
                None => Ok(0),
            });
        }));

        Ok(Relay {
            address,
            shared,
            threads,
        })
    }

    /// Where clients send to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many datagrams were dropped so far, in both directions.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Receives one direction until told to stop. Errors are those of datagrams
    /// that were sent.
    fn receive(&self, socket: &UdpSocket, held: Sender<Held>, seen_from: impl Fn(SocketAddr)) {
        let mut buf = [0; 65535];
        let mut count = 0;
        socket
            .set_read_timeout(Some(Duration::from_millis(20)))
            .expect("a timeout above zero");

        while !self.stop.load(Ordering::Relaxed) {
            let Ok((len, from)) = socket.recv_from(&mut buf) else {
                continue;
            };
            seen_from(from);
            count += 1;
            if self.impairment.drop_one_in.is_some_and(|n| count % n == 0) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let leaves = Instant::now() + self.impairment.delay;
            // Its receiver ends after this.
            held.send((leaves, buf[..len].to_vec())).ok();
        }
    }
}

/// Sends one direction until there will be nothing more.
fn send(leaving: Receiver<Held>, socket: impl Fn(&[u8]) -> io::Result<usize>) {
    for (at, datagram) in leaving {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        // A loss, as on any network.
        socket(&datagram).ok();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}
