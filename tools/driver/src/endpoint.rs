//! The event loop: sockets, connections and timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
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
use mpq_decision::paths::Action;
use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_decision::paths::Manager;
use mpq_decision::paths::OpenError;
use mpq_decision::paths::Pair;
use mpq_decision::PathId;
use quiche::ConnectionId;
use quiche::Header;
use quiche::RecvInfo;
use slab::Slab;

use crate::cid::random_cid;
use crate::cid::EndpointKey;
use crate::cid::CID_BYTES;
use crate::connection::Conn;
use crate::error::close_reason;
use crate::error::CloseReason;
use crate::listener::destination_cid;
use crate::listener::ListenOptions;
use crate::listener::Listener;
use crate::listener::Verdict;
use crate::multipath;
use crate::multipath::PathChange;
use crate::socket::BufferPool;
use crate::socket::RecvBuffer;
use crate::socket::SendStats;
use crate::socket::Sent;
use crate::socket::Socket;
use crate::socket::SocketOptions;
use crate::socket::Train;
use crate::timer::Timer;

const TIMER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
/// What somebody else reads.
const OTHER: Token = Token(usize::MAX - 2);

/// A connection makes no further datagrams while this many of its trains wait
/// for the kernel.
const MAX_QUEUED_TRAINS: usize = 4;

/// Trains one connection sends before others get a turn.
const TRAINS_PER_TURN: usize = 8;

/// Receive batches taken from one socket before others get a turn.
const BATCHES_PER_TURN: usize = 4;

/// Identifies a connection of an endpoint, and never another one later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnKey {
    index: usize,
    serial: u64,
}

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

    /// `conn` is over. Its key is not valid any more.
    fn on_closed(&mut self, conn: &mut Conn, reason: CloseReason);
}

/// Where and how to connect.
#[derive(Debug)]
pub struct ConnectOptions {
    /// The name the server's certificate must be for, also sent as SNI.
    pub server_name: Option<String>,

    /// Where the handshake runs.
    pub pair: Pair,

    /// Decides which further paths there are; knows the local addresses.
    pub manager: Manager,

    /// Give up if the handshake takes longer.
    pub handshake_timeout: Duration,

    /// The idle timeout, for error messages; the configuration sets it.
    pub idle_timeout: Duration,

    /// TLS session to resume, as an earlier connection gave it.
    pub session: Option<Vec<u8>>,
}

/// Sockets, connections and timers of one thread.
pub struct Endpoint {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    timer: Timer,
    recv_buffer: Option<RecvBuffer>,
    sockets: Sockets,
    core: Core,
    /// What somebody else reads became readable.
    has_news: bool,
}

struct Sockets {
    options: SocketOptions,
    slab: Slab<SocketEntry>,
    by_local: HashMap<SocketAddr, usize>,
    pool: BufferPool,
    /// Of sockets that are gone.
    closed_stats: SendStats,
}

struct SocketEntry {
    socket: Socket,
    /// The kernel may still have datagrams.
    is_readable: bool,
}

/// Everything that a received datagram can touch.
struct Core {
    conns: Slab<Conn>,
    by_cid: HashMap<ConnectionId<'static>, usize>,
    /// The connection that owns a client's socket. A stateless reset names no
    /// connection ID of ours.
    by_socket: HashMap<SocketAddr, ConnKey>,
    next_serial: u64,
    listener: Option<Listener>,
    key: EndpointKey,
    /// Connections to serve in this turn, each once.
    dirty: Vec<ConnKey>,
    deadlines: BinaryHeap<Reverse<(Instant, ConnKey)>>,
    /// Answers to datagrams of no connection.
    replies: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
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
            sockets: Sockets {
                options,
                slab: Slab::new(),
                by_local: HashMap::new(),
                pool: BufferPool::default(),
                closed_stats: SendStats::default(),
            },
            core: Core {
                conns: Slab::new(),
                by_cid: HashMap::new(),
                by_socket: HashMap::new(),
                next_serial: 0,
                listener: None,
                key: EndpointKey::random(),
                dirty: Vec::new(),
                deadlines: BinaryHeap::new(),
                replies: Vec::new(),
            },
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
        self.core.key = options.key.clone();
        self.core.listener = Some(Listener {
            config,
            options,
            is_accepting: true,
        });
    }

    /// Accepts no further connections. The existing ones go on.
    pub fn stop_accepting(&mut self) {
        if let Some(listener) = &mut self.core.listener {
            listener.is_accepting = false;
        }
    }

    /// Begins a connection. The outcome comes through [`App`].
    pub fn connect(
        &mut self,
        options: ConnectOptions,
        config: &mut quiche::Config,
    ) -> Result<ConnKey, ConnectError> {
        let Pair {
            local: Local { ip, .. },
            remote: peer,
        } = options.pair;
        let mut manager = options.manager;
        let socket = self
            .bind((ip, 0).into(), device(&manager, &options.pair.local))
            .map_err(|error| ConnectError::Bind {
                local: ip.to_string(),
                error,
            })?;
        let local = self.sockets.slab[socket].socket.local();

        let scid = random_cid();
        let connected = quiche::connect(options.server_name.as_deref(), &scid, local, peer, config)
            .and_then(|mut quic| {
                if let Some(session) = &options.session {
                    quic.set_session(session)?;
                }
                Ok(quic)
            });
        let quic = match connected {
            Ok(quic) => quic,
            Err(e) => {
                self.unbind(socket);
                return Err(e.into());
            }
        };

        let now = Instant::now();
        let key = self.core.insert(quic, peer, &[scid]);
        self.core.by_socket.insert(local, key);
        let conn = &mut self.core.conns[key.index];
        conn.own_sockets.push(socket);
        conn.idle_timeout = options.idle_timeout;
        conn.handshake_timeout = options.handshake_timeout;
        conn.handshake_deadline = Some(now + options.handshake_timeout);
        manager.on_event(now, Event::Began { pair: options.pair });
        conn.manager = Some(manager);
        self.core.mark_dirty(key);
        Ok(key)
    }

    /// The connection `key`, unless it is over. It is served in the next
    /// [`Endpoint::poll`], so streams may be written.
    pub fn conn_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.core.mark_dirty(key);
        self.core.get_mut(key)
    }

    /// The connection `key`, to look at.
    pub fn conn(&self, key: ConnKey) -> Option<&Conn> {
        self.core
            .conns
            .get(key.index)
            .filter(|conn| conn.key == key)
    }

    /// Every connection there is.
    pub fn conn_keys(&self) -> Vec<ConnKey> {
        self.core.conns.iter().map(|(_, conn)| conn.key).collect()
    }

    /// How many connections there are, closing ones included.
    pub fn conn_count(&self) -> usize {
        self.core.conns.len()
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
            .core
            .get_mut(key)
            .and_then(|conn| conn.manager.as_mut())
        {
            manager.on_event(Instant::now(), event);
            self.core.mark_dirty(key);
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

    fn bind(&mut self, local: SocketAddr, device: Option<&str>) -> io::Result<usize> {
        let socket = Socket::bind(local, device, &self.sockets.options)?;
        let entry = self.sockets.slab.vacant_entry();
        let index = entry.key();

        // Edge-triggered, so interest in writing costs nothing while there is
        // always room.
        self.poll.registry().register(
            &mut SourceFd(&socket.as_raw_fd()),
            Token(index),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        self.sockets.by_local.insert(socket.local(), index);
        entry.insert(SocketEntry {
            socket,
            is_readable: false,
        });
        Ok(index)
    }

    fn unbind(&mut self, index: usize) {
        let entry = self.sockets.slab.remove(index);
        self.sockets.closed_stats = self.sockets.closed_stats + entry.socket.stats;
        let local = entry.socket.local();
        self.sockets.by_local.remove(&local);
        self.core.by_socket.remove(&local);
        let fd = entry.socket.as_raw_fd();
        if let Err(e) = self.poll.registry().deregister(&mut SourceFd(&fd)) {
            log::debug!("cannot stop polling a socket: {e}");
        }
    }

    fn wait(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        let now = Instant::now();
        let limit = max_wait.map(|wait| now + wait);
        let deadline = self.core.next_deadline().into_iter().chain(limit).min();

        let is_busy = !self.core.dirty.is_empty()
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
                        self.sockets.send_queued(index, &mut self.core);
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
                    .recv(&mut buffer, |datagram, from, to| {
                        self.core.deliver(datagram, from, to)
                    })
                    .unwrap_or_else(|e| {
                        log::debug!("receiving failed: {e}");
                        false
                    });
            }
        }
        self.recv_buffer = Some(buffer);

        for (from, to, data) in std::mem::take(&mut self.core.replies) {
            let mut buf = self.sockets.pool.take();
            buf[..data.len()].copy_from_slice(&data);
            let train = Train {
                // Belongs to no connection.
                conn: ConnKey {
                    index: usize::MAX,
                    serial: u64::MAX,
                },
                from,
                to,
                segment_bytes: data.len(),
                release: Instant::now(),
                buf,
                start: 0,
                end: data.len(),
            };
            self.sockets.send(train, &mut self.core);
        }
    }

    fn fire_timers(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((at, key))) = self.core.deadlines.peek() {
            if at > now {
                break;
            }
            self.core.deadlines.pop();

            let Some(conn) = self.core.get_mut(key) else {
                continue;
            };
            conn.queued_deadline = None;
            if conn.quic.timeout_instant().is_some_and(|at| at <= now) {
                conn.quic.on_timeout();
            }
            if conn.handshake_deadline.is_some_and(|at| at <= now)
                && !conn.quic.is_established()
                && conn.verdict.is_none()
            {
                conn.verdict = Some(CloseReason::HandshakeTimeout {
                    peer: conn.peer,
                    after: conn.handshake_timeout,
                });
            }
            self.core.mark_dirty(key);
        }
    }

    /// Lets the application and the send loop at every connection that has
    /// something to do.
    fn serve(&mut self, app: &mut impl App) {
        for key in std::mem::take(&mut self.core.dirty) {
            let Some(conn) = self.core.get_mut(key) else {
                continue;
            };
            conn.is_dirty = false;

            while let Some(event) = conn.quic.path_event_next() {
                if let Some(manager) = &mut conn.manager {
                    if let Some(fact) = multipath::fact(&event) {
                        manager.on_event(Instant::now(), fact);
                    }
                }
                if let Some(change) = multipath::on_event(&mut conn.quic, event) {
                    app.on_path_change(conn, change);
                }
            }
            if conn.quic.is_established() {
                conn.handshake_deadline = None;
                conn.tell_agreed();
            }
            app.on_progress(conn);

            self.core.exchange_cids(key);
            self.manage_paths(key);
            self.send(key);
            self.finish(key, app);
        }
    }

    /// Does what the path manager wants.
    fn manage_paths(&mut self, key: ConnKey) {
        let now = Instant::now();
        while let Some(conn) = self.core.get_mut(key) {
            let action = conn.manager.as_mut().and_then(|m| m.next_action(now));
            let event = match action {
                None => return,
                Some(Action::Open(pair)) => match self.open_path(key, pair) {
                    Ok(path) => Event::Opened { path, pair },
                    Err(error) => {
                        log::debug!("no path from {} yet: {error:?}", pair.local.ip);
                        Event::OpenFailed { pair, error }
                    }
                },
                Some(action) => match multipath::carry_out(&mut conn.quic, action) {
                    Some(event) => event,
                    None => continue,
                },
            };
            if let Some(manager) = self.core.conns[key.index].manager.as_mut() {
                manager.on_event(now, event);
            }
        }
    }

    fn open_path(&mut self, key: ConnKey, pair: Pair) -> Result<PathId, OpenError> {
        let conn = &self.core.conns[key.index];
        let device = conn.manager.as_ref().and_then(|m| device(m, &pair.local));
        let device = device.map(str::to_owned);
        let index = self
            .bind((pair.local.ip, 0).into(), device.as_deref())
            .map_err(|error| {
                OpenError::Socket(format!("cannot send from {}: {error}", pair.local.ip))
            })?;
        let local = self.sockets.slab[index].socket.local();

        let conn = &mut self.core.conns[key.index];
        match multipath::open_path(&mut conn.quic, local, pair.remote) {
            Ok(path_id) => {
                log::debug!("opened path {path_id} from {local} to {}", pair.remote);
                conn.own_sockets.push(index);
                self.core.by_socket.insert(local, key);
                Ok(PathId(path_id))
            }
            Err(e) => {
                self.unbind(index);
                Err(multipath::open_error(e))
            }
        }
    }

    /// Sends what the connection has, within its turn.
    fn send(&mut self, key: ConnKey) {
        let now = Instant::now();

        for _ in 0..TRAINS_PER_TURN {
            let sockets = &mut self.sockets;
            let Some(conn) = self.core.get_mut(key) else {
                return;
            };
            if conn.queued_trains >= MAX_QUEUED_TRAINS {
                // Goes on when the kernel has taken one.
                return;
            }

            let Sockets {
                slab,
                by_local,
                pool,
                ..
            } = sockets;
            let train = conn.next_train(now, pool, |local, segment_bytes| {
                socket_for(by_local, local)
                    .map_or(1, |i| slab[i].socket.max_segments(segment_bytes))
            });
            match train {
                Some(train) => sockets.send(train, &mut self.core),
                None => return,
            }
        }

        self.core.mark_dirty(key);
    }

    /// Removes the connection if it is over, or sets its next deadline.
    fn finish(&mut self, key: ConnKey, app: &mut impl App) {
        let Some(conn) = self.core.get_mut(key) else {
            return;
        };

        if conn.verdict.is_some() && !conn.quic.is_closed() {
            // Tell the peer, in case it hears us after all.
            let _ = conn.quic.close(false, 0, b"giving up");
            self.send(key);
        }

        let Some(conn) = self.core.get_mut(key) else {
            return;
        };
        if conn.verdict.is_none() && !conn.quic.is_closed() {
            self.core.set_deadline(key);
            return;
        }

        let mut conn = self.core.remove(key);
        for index in std::mem::take(&mut conn.own_sockets) {
            self.unbind(index);
        }
        let reason = conn.verdict.take().unwrap_or_else(|| {
            close_reason(
                &conn.quic,
                conn.last_recv_error,
                conn.peer,
                conn.idle_timeout,
            )
        });
        app.on_closed(&mut conn, reason);
    }
}

impl Sockets {
    /// Hands `train` to its socket.
    fn send(&mut self, train: Train, core: &mut Core) {
        let Some(index) = socket_for(&self.by_local, train.from) else {
            log::debug!("no socket for {} any more", train.from);
            self.pool.put(train.buf);
            return;
        };

        let conn = train.conn;
        match self.slab[index].socket.send(train) {
            Sent::All(train) => self.pool.put(train.buf),
            Sent::Queued => {
                if let Some(conn) = core.get_mut(conn) {
                    conn.queued_trains += 1;
                }
            }
            Sent::LinkDown(train, error) => {
                core.link_down(&train, error);
                self.pool.put(train.buf);
            }
        }
    }

    /// The kernel has room again.
    fn send_queued(&mut self, index: usize, core: &mut Core) {
        while let Some(sent) = self.slab[index].socket.send_queued() {
            let train = match sent {
                Sent::All(train) => train,
                Sent::LinkDown(train, error) => {
                    core.link_down(&train, error);
                    train
                }
                Sent::Queued => return,
            };
            if let Some(conn) = core.get_mut(train.conn) {
                conn.queued_trains -= 1;
                core.mark_dirty(train.conn);
            }
            self.pool.put(train.buf);
        }
    }
}

impl Core {
    fn get_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.conns.get_mut(key.index).filter(|conn| conn.key == key)
    }

    fn mark_dirty(&mut self, key: ConnKey) {
        if let Some(conn) = self.get_mut(key) {
            if !conn.is_dirty {
                conn.is_dirty = true;
                self.dirty.push(key);
            }
        }
    }

    fn insert(
        &mut self,
        quic: quiche::Connection,
        peer: SocketAddr,
        cids: &[ConnectionId<'static>],
    ) -> ConnKey {
        let entry = self.conns.vacant_entry();
        let key = ConnKey {
            index: entry.key(),
            serial: self.next_serial,
        };
        self.next_serial += 1;

        for cid in cids {
            self.by_cid.insert(cid.clone(), key.index);
        }
        entry.insert(Conn {
            quic,
            key,
            peer,
            idle_timeout: Duration::ZERO,
            cids: cids.to_vec(),
            own_sockets: Vec::new(),
            manager: None,
            is_agreed: false,
            held: None,
            queued_trains: 0,
            is_dirty: false,
            queued_deadline: None,
            handshake_deadline: None,
            handshake_timeout: Duration::ZERO,
            last_recv_error: None,
            verdict: None,
        });
        key
    }

    fn remove(&mut self, key: ConnKey) -> Conn {
        let conn = self.conns.remove(key.index);
        for cid in &conn.cids {
            self.by_cid.remove(cid);
        }
        conn
    }

    /// Gives `datagram` to its connection.
    fn deliver(&mut self, datagram: &mut [u8], from: SocketAddr, to: SocketAddr) {
        let Some(cid) = destination_cid(datagram) else {
            return;
        };

        // The lookup borrows the bytes; a map of owned keys cannot say so.
        let by_cid: &HashMap<ConnectionId<'_>, usize> = &self.by_cid;
        let index = match by_cid.get(&ConnectionId::from_ref(cid)) {
            Some(&index) => index,
            None => match self.adopt(datagram, from, to) {
                Some(index) => index,
                None => return,
            },
        };

        let conn = &mut self.conns[index];
        let key = conn.key;
        if let Err(e) = conn.quic.recv(datagram, RecvInfo { from, to }) {
            if e != quiche::Error::Done {
                log::debug!("packet from {from}: {e}");
                conn.last_recv_error = Some(e);
            }
        }
        self.mark_dirty(key);
    }

    /// A datagram whose connection ID is unknown: the index of the connection
    /// that it begins or, at a client, may reset.
    fn adopt(&mut self, datagram: &mut [u8], from: SocketAddr, to: SocketAddr) -> Option<usize> {
        let Some(listener) = &mut self.listener else {
            let owner = *self.by_socket.get(&to)?;
            return self.get_mut(owner).map(|conn| conn.key.index);
        };
        let header = Header::from_slice(datagram, CID_BYTES).ok()?;

        match listener.judge(&header, datagram.len(), from, to, self.conns.len()) {
            Verdict::Accept { quic, cids } => Some(self.insert(*quic, from, &cids).index),
            Verdict::Reply(data) => {
                self.replies.push((to, from, data));
                None
            }
            Verdict::Drop => None,
        }
    }

    /// Keeps the peer supplied with connection IDs and forgets retired ones.
    fn exchange_cids(&mut self, key: ConnKey) {
        let Core {
            conns,
            by_cid,
            key: endpoint_key,
            ..
        } = self;
        let Some(conn) = conns.get_mut(key.index) else {
            return;
        };

        while let Some(cid) = conn.quic.retired_scid_next() {
            by_cid.remove(&cid);
            conn.cids.retain(|known| *known != cid);
        }

        if conn.quic.is_established() && !conn.quic.is_closed() {
            let cids = &mut conn.cids;
            multipath::supply_cids(&mut conn.quic, || {
                let cid = random_cid();
                let token = endpoint_key.reset_token(&cid);
                by_cid.insert(cid.clone(), key.index);
                cids.push(cid.clone());
                (cid, token)
            });
        }
    }

    /// `train` could not leave because its local address or route is gone.
    fn link_down(&mut self, train: &Train, error: io::Error) {
        let Some(conn) = self.get_mut(train.conn) else {
            return;
        };
        log::debug!("cannot send from {}: {error}", train.from);

        if !conn.quic.is_established() && !conn.quic.is_server() {
            conn.verdict = Some(CloseReason::Unreachable {
                peer: train.to,
                error,
            });
        } else {
            multipath::link_down(&mut conn.quic, train.from);
        }
        self.mark_dirty(train.conn);
    }

    fn set_deadline(&mut self, key: ConnKey) {
        let Some(conn) = self.get_mut(key) else {
            return;
        };
        let Some(deadline) = conn.deadline() else {
            return;
        };
        // A later deadline is found when the earlier entry comes up.
        if conn.queued_deadline.is_none_or(|queued| deadline < queued) {
            conn.queued_deadline = Some(deadline);
            self.deadlines.push(Reverse((deadline, key)));
        }
    }

    /// The earliest deadline of any connection, dropping entries of dead ones.
    fn next_deadline(&mut self) -> Option<Instant> {
        while let Some(&Reverse((at, key))) = self.deadlines.peek() {
            match self.get_mut(key) {
                Some(conn) if conn.queued_deadline == Some(at) => return Some(at),
                _ => {
                    self.deadlines.pop();
                }
            }
        }
        None
    }
}

/// The interface to bind a socket to. Loopback is one whatever the address.
fn device<'a>(manager: &'a Manager, local: &Local) -> Option<&'a str> {
    manager.interface(local).filter(|_| !local.ip.is_loopback())
}

/// The socket that sends from `local`: its own, or a wildcard one.
fn socket_for(by_local: &HashMap<SocketAddr, usize>, local: SocketAddr) -> Option<usize> {
    let any: SocketAddr = match local {
        SocketAddr::V4(_) => ([0, 0, 0, 0], local.port()).into(),
        SocketAddr::V6(_) => ([0u16; 8], local.port()).into(),
    };
    by_local.get(&local).or_else(|| by_local.get(&any)).copied()
}

/// Why a connection attempt could not even begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No route to the server.
    #[error("{peer} is unreachable: {error}")]
    NoRoute {
        /// The server's address.
        peer: SocketAddr,
        /// What the kernel said.
        error: io::Error,
    },

    /// The local addresses to be used are of another family than the server's, or there are none.
    #[error("none of the local addresses to be used is of the same family as one of the server's")]
    OtherFamily,

    /// The local address cannot be used.
    #[error("cannot send from {local}: {error}")]
    Bind {
        /// The address as given.
        local: String,
        /// What the kernel said.
        error: io::Error,
    },

    /// quiche refused.
    #[error("cannot start a connection: {0}")]
    Quiche(#[from] quiche::Error),
}
