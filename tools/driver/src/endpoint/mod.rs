//! The event loop: sockets, connections and timers.

mod connect;
mod deadlines;
mod paths;
mod sockets;
mod table;
mod turn;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mio::unix::SourceFd;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use mio::Waker;
use mpq_decision::paths::Event;
use mpq_returning::Memory;
use mpq_returning::Refusal;
use quiche::EcnCodepoint;
use quiche::RecvInfo;

pub use self::connect::ConnectError;
pub use self::connect::ConnectOptions;
use self::sockets::Sockets;
use self::table::Table;
use crate::conn_key::ConnKey;
use crate::connection::Conn;
use crate::error::CloseReason;
use crate::listener::ListenOptions;
use crate::listener::Listener;
use crate::multipath::PathChange;
use crate::socket::RecvBuffer;
use crate::socket::SendStats;
use crate::socket::SocketOptions;
use crate::socket::Train;
use crate::timer::Timer;

const TIMER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// What somebody else reads.
const OTHER: Token = Token(usize::MAX - 2);

/// Receive batches taken from one socket before others get a turn.
const BATCHES_PER_TURN: usize = 4;

/// What an application does with its connections.
///
/// All calls come from [`Endpoint::poll`].
pub trait App {
    /// Something happened on `conn`: packets came, a timer fired, or streams
    /// can be written again. Read and write streams here; what is written is
    /// sent when this returns.
    fn on_progress(&mut self, conn: &mut Conn);

    /// A path of `conn` came or went.
    fn on_path_change(&mut self, conn: &mut Conn, change: PathChange) {
        let _ = (conn, change);
    }

    /// The client of `conn` came with a token of an earlier connection: what its path `path_id` resumes with, or
    /// why it does not. Servers only.
    fn on_resumption(&mut self, conn: &mut Conn, path_id: u64, outcome: Result<Memory, Refusal>) {
        let _ = (conn, path_id, outcome);
    }

    /// `conn` is over. Its key is not valid any more.
    fn on_closed(&mut self, conn: &mut Conn, reason: CloseReason);
}

/// Sockets, connections and timers of one thread.
pub struct Endpoint {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    timer: Timer,
    recv_buffer: Option<RecvBuffer>,
    sockets: Sockets,
    table: Table,
    /// What somebody else reads became readable.
    has_news: bool,
}

impl Endpoint {
    /// An endpoint without sockets.
    pub fn new(options: SocketOptions) -> io::Result<Endpoint> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let timer = Timer::new()?;
        poll.registry()
            .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;

        Ok(Endpoint {
            poll,
            events: Events::with_capacity(256),
            waker,
            timer,
            recv_buffer: Some(RecvBuffer::new()),
            sockets: Sockets::new(options),
            table: Table::new(),
            has_news: false,
        })
    }

    /// Makes a running [`Endpoint::poll`] return, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.waker.clone()
    }

    /// Accepts connections on `local`; port 0 lets the kernel choose. Returns
    /// the bound address. Wildcard addresses answer from the address that the
    /// client used.
    pub fn listen_on(&mut self, local: SocketAddr) -> io::Result<SocketAddr> {
        let index = self.bind(local, None)?;
        Ok(self.sockets.slab[index].socket.local())
    }

    /// Starts accepting connections, with certificate and settings in `config`.
    pub fn accept_with(&mut self, config: quiche::Config, options: ListenOptions) {
        self.table.key = options.key.clone();
        self.table.listener = Some(Listener::new(config, options));
    }

    /// Accepts no further connections. The existing ones go on.
    pub fn stop_accepting(&mut self) {
        if let Some(listener) = &mut self.table.listener {
            listener.is_accepting = false;
        }
    }

    /// The connection `key`, unless it is over. It is served in the next
    /// [`Endpoint::poll`], so streams may be written.
    pub fn conn_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.table.mark_dirty(key);
        self.table.get_mut(key)
    }

    /// The connection `key`, to look at.
    pub fn conn(&self, key: ConnKey) -> Option<&Conn> {
        self.table
            .conns
            .get(key.index)
            .filter(|conn| conn.key == key)
    }

    /// Every connection there is.
    pub fn conn_keys(&self) -> Vec<ConnKey> {
        self.table.conns.iter().map(|(_, conn)| conn.key).collect()
    }

    /// How many connections there are, closing ones included.
    pub fn conn_count(&self) -> usize {
        self.table.conns.len()
    }

    /// How sending has gone so far, closed sockets included.
    pub fn send_stats(&self) -> SendStats {
        self.sockets
            .slab
            .iter()
            .fold(self.sockets.closed_stats, |sum, (_, entry)| {
                sum + entry.socket.stats
            })
    }

    /// Tells the path manager of the client connection `key` something.
    pub fn tell(&mut self, key: ConnKey, event: Event) {
        if let Some(manager) = self
            .table
            .get_mut(key)
            .and_then(|conn| conn.manager.as_mut())
        {
            manager.on_event(Instant::now(), event);
            self.table.mark_dirty(key);
        }
    }

    /// Makes [`Endpoint::poll`] return when `fd`, which is not one of its own, becomes readable;
    /// [`Endpoint::take_news`] says that it did.
    pub fn watch(&mut self, fd: RawFd) -> io::Result<()> {
        self.poll
            .registry()
            .register(&mut SourceFd(&fd), OTHER, Interest::READABLE)
    }

    /// Whether what is watched became readable since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Waits for something to happen, at most `max_wait`, and deals with it.
    pub fn poll(&mut self, max_wait: Option<Duration>, app: &mut impl App) -> io::Result<()> {
        self.wait(max_wait)?;
        self.receive();
        self.fire_timers();
        self.serve(app);
        Ok(())
    }

    fn wait(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        let now = Instant::now();
        let limit = max_wait.map(|wait| now + wait);
        let deadline = self.table.next_deadline().into_iter().chain(limit).min();

        let is_busy = !self.table.dirty.is_empty()
            || self.sockets.slab.iter().any(|(_, s)| s.is_readable)
            || deadline.is_some_and(|at| at <= now);
        let timeout = if is_busy {
            Some(Duration::ZERO)
        } else {
            self.timer.set(deadline, now)?;
            None
        };

        match self.poll.poll(&mut self.events, timeout) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            result => result?,
        }

        for event in &self.events {
            match event.token() {
                TIMER => self.timer.fired(),
                WAKER => {}
                OTHER => self.has_news = true,
                Token(index) => {
                    // The socket may have been closed since.
                    let Some(entry) = self.sockets.slab.get_mut(index) else {
                        continue;
                    };
                    entry.is_readable |= event.is_readable();
                    if event.is_writable() {
                        self.sockets.send_queued(index, &mut self.table);
                    }
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self) {
        let Some(mut buffer) = self.recv_buffer.take() else {
            return;
        };

        for (_, entry) in &mut self.sockets.slab {
            for _ in 0..BATCHES_PER_TURN {
                if !entry.is_readable {
                    break;
                }
                entry.is_readable = entry
                    .socket
                    .recv(&mut buffer, |datagram, from, to, ecn| {
                        self.table.deliver(datagram, RecvInfo { from, to }, ecn)
                    })
                    .unwrap_or_else(|e| {
                        log::debug!("receiving failed: {e}");
                        false
                    });
            }
        }
        self.recv_buffer = Some(buffer);

        for (from, to, data) in std::mem::take(&mut self.table.replies) {
            let mut buf = self.sockets.pool.take();
            buf[..data.len()].copy_from_slice(&data);
            let train = Train {
                conn: ConnKey::NONE,
                from,
                to,
                segment_bytes: data.len(),
                ecn: EcnCodepoint::NotEct,
                release: Instant::now(),
                buf,
                start: 0,
                end: data.len(),
            };
            self.sockets.send(train, &mut self.table);
        }
    }
}
