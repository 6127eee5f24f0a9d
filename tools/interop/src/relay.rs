//! A middlebox on one network: carries datagrams between client and server, and
//! drops some.

use std::io;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::server_ip;

/// A running relay; stopped when dropped.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    client: Mutex<Option<SocketAddr>>,
    dropped: AtomicU64,
    stop: AtomicBool,
}

impl Relay {
    /// Relays to `server` what comes to [`Relay::address`] on a network, and its
    /// answers back. Of each direction it drops one datagram in `drop_one_in`.
    pub fn new(network: u8, server: SocketAddr, drop_one_in: u64) -> io::Result<Relay> {
        let mut octets = server_ip(network).octets();
        octets[3] = 3;
        let front = UdpSocket::bind(SocketAddr::from((octets, 0)))?;
        let back = UdpSocket::bind(SocketAddr::from((octets, 0)))?;
        back.connect(server)?;
        let address = front.local_addr()?;

        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        }
        let (front2, back2) = (front.try_clone()?, back.try_clone()?);

        let shared = Arc::new(Shared::default());
        let (up, down) = (shared.clone(), shared.clone());
        let threads = vec![
            std::thread::spawn(move || {
                up.run(&front, drop_one_in, |datagram, from| {
                    *up.client.lock().unwrap() = Some(from);
                    back.send(datagram)
                })
            }),
            std::thread::spawn(move || {
                down.run(&back2, drop_one_in, |datagram, _| {
                    match *down.client.lock().unwrap() {
                        Some(client) => front2.send_to(datagram, client),
                        None => Ok(0),
                    }
                })
            }),
        ];

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
    /// Carries one direction until told to stop. An error of a socket is the loss
    /// of a datagram, as on any network.
    fn run(
        &self,
        from: &UdpSocket,
        drop_one_in: u64,
        forward: impl Fn(&[u8], SocketAddr) -> io::Result<usize>,
    ) {
        let mut buf = [0; 65535];
        let mut seen = 0;

        while !self.stop.load(Ordering::Relaxed) {
            let Ok((len, sender)) = from.recv_from(&mut buf) else {
                continue;
            };
            seen += 1;
            if seen % drop_one_in == 0 || forward(&buf[..len], sender).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
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
