//! What client and server share: sockets and random numbers, which quiche leaves to the application,
//! and what is served.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::ops::Range;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use quiche::{Connection, ConnectionId, RecvInfo};

/// The length of all Connection IDs here, in bytes. Short headers do not tell it.
pub const CID_LEN: usize = 16;

/// A datagram, and which way it came.
pub type Datagram = (Vec<u8>, RecvInfo);

/// UDP sockets, each with a thread that reads it. An event loop (mio, tokio) does as well.
pub struct Net {
    sockets: HashMap<SocketAddr, UdpSocket>,
    sender: SyncSender<Datagram>,
    datagrams: Receiver<Datagram>,
}

impl Default for Net {
    fn default() -> Net {
        // When it is full, datagrams wait in the kernel.
        let (sender, datagrams) = sync_channel(256);
        Net {
            sockets: HashMap::new(),
            sender,
            datagrams,
        }
    }
}

impl Net {
    /// Opens a socket, and returns its address: quiche wants to know the port too.
    pub fn bind(&mut self, addr: impl ToSocketAddrs) -> io::Result<SocketAddr> {
        let socket = UdpSocket::bind(addr)?;
        let (reader, to) = (socket.try_clone()?, socket.local_addr()?);
        let sender = self.sender.clone();
        thread::spawn(move || loop {
            let mut buf = vec![0; 65_535];
            match reader.recv_from(&mut buf) {
                Ok((len, from)) => {
                    buf.truncate(len);
                    if sender.send((buf, RecvInfo { from, to })).is_err() {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return eprintln!("{to}: {e}"),
            }
        });
        self.sockets.insert(to, socket);
        Ok(to)
    }

    /// Sends what there is to send, each datagram from the address that quiche says.
    pub fn flush(&self, conn: &mut Connection) -> quiche::Result<()> {
        let mut buf = [0; 1_350];
        loop {
            let (len, info) = match conn.send(&mut buf) {
                Err(quiche::Error::Done) => return Ok(()),
                other => other?,
            };
            let socket = self
                .sockets
                .get(&info.from)
                .ok_or(io::ErrorKind::NotFound.into());
            if let Err(e) = socket.and_then(|s| s.send_to(&buf[..len], info.to)) {
                eprintln!("{}: {e}", info.from);
                // What this path carried moves to the others at once.
                conn.report_link_down(info.from);
            }
        }
    }

    /// Waits for a datagram; returns it with those behind it, or none if the time is over.
    pub fn recv(&self, timeout: Option<Duration>) -> Vec<Datagram> {
        let first = self
            .datagrams
            .recv_timeout(timeout.unwrap_or(Duration::MAX));
        first
            .into_iter()
            .chain(self.datagrams.try_iter().take(63))
            .collect()
    }
}

/// A new Connection ID. It must not be guessed, nor repeated.
pub fn new_cid() -> Result<ConnectionId<'static>, getrandom::Error> {
    Ok(ConnectionId::from_vec(random::<CID_LEN>()?.to_vec()))
}

/// The token with which this host resets a connection that it has forgotten. Nobody may guess it.
pub fn new_token() -> Result<u128, getrandom::Error> {
    random().map(u128::from_be_bytes)
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    getrandom::getrandom(&mut bytes)?;
    Ok(bytes)
}

/// The bytes that are served, from an offset on: each says where it stands.
pub fn content(offset: u64) -> impl Iterator<Item = u8> {
    (offset..).map(|i| (i % 251) as u8)
}

/// What a client wants, which is a number of bytes, and how far it is answered. On stream 0.
#[derive(Default)]
pub struct Request {
    text: Vec<u8>,
    /// The offsets still to be written.
    left: Option<Range<u64>>,
}

impl Request {
    /// Reads what has come, and writes what there is room for.
    pub fn answer(&mut self, conn: &mut Connection) -> Result<(), Box<dyn Error>> {
        let mut buf = [0; 64];
        while conn.stream_readable(0) {
            let (len, is_end) = conn.stream_recv(0, &mut buf)?;
            self.text.extend(&buf[..len]);
            if is_end {
                self.left = Some(0..std::str::from_utf8(&self.text)?.parse()?);
            }
        }

        while let Some(left) = &mut self.left {
            let room = (conn.stream_capacity(0)? as u64).min(left.end - left.start);
            let is_end = left.start + room == left.end;
            if room == 0 && !is_end {
                break; // the window is full; acknowledgments and the client make room
            }
            let bytes: Vec<u8> = content(left.start).take(room as usize).collect();
            left.start += conn.stream_send(0, &bytes, is_end)? as u64;
            if is_end && left.is_empty() {
                self.left = None;
            }
        }
        Ok(())
    }
}
