//! The patched quiche as a [`Peer`]: one thread, and a UDP socket on each
//! network.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::sync::mpsc::Sender;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::thread::JoinHandle;

use mio::net::UdpSocket;
use mio::Interest;
use mio::Poll;
use mio::Token;
use mio::Waker;
use mpq_identity::Identity;

use quiche::Config;
use quiche::Connection;
use quiche::ConnectionId;
use quiche::PathEvent;
use quiche::PathStatus;

use crate::ack_log::AckLog;
use crate::ack_log::Counts;
use crate::pair::Options;
use crate::transfer::Incoming;
use crate::transfer::Outgoing;
use crate::Closed;
use crate::Event;
use crate::Journal;
use crate::OpenError;
use crate::PathReport;
use crate::Peer;
use crate::Request;
use crate::Transfer;
use crate::ALPN;
use crate::APPLICATION_ABANDON_PATH;
use crate::INITIAL_MAX_PATH_ID;
use crate::SERVER_NAME;
use crate::WINDOW_BYTES;

const CID_BYTES: usize = 16;

/// Sockets, and so networks, of each peer.
const NETWORKS: u8 = 2;

const WAKER: Token = Token(NETWORKS as usize);

/// Datagrams taken from a socket before it is another one's turn.
const RECEIVE_BATCH: usize = 64;

/// quiche, as client or as server; stopped when dropped.
pub struct QuichePeer {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    journal: Journal,
    acks_of_path_1: Counts,
}

#[derive(Default)]
struct State {
    /// A server has none until it hears from a client.
    quic: Option<Connection>,
    streams: BTreeMap<u64, Stream>,
    next_stream: u64,
    closed: bool,
    stop: bool,
}

/// A stream of either role.
struct Stream {
    /// A server does not know what to send until it is asked.
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    sent: bool,
    received: bool,
    /// Who waits for the end, at the client.
    done: Option<Sender<Result<(), String>>>,
}

impl QuichePeer {
    /// Waits for one client.
    pub fn listen(identity: &Identity, options: Options) -> io::Result<QuichePeer> {
        let mut config = config(options);
        let files = identity.files()?;
        config
            .load_cert_chain_from_pem_file(path(&files.certificate))
            .map_err(io::Error::other)?;
        config
            .load_priv_key_from_pem_file(path(&files.key))
            .map_err(io::Error::other)?;

        QuichePeer::start(crate::server_ip, config, None)
    }

    /// Connects to a server over network 0.
    pub fn connect(
        server: SocketAddr,
        identity: &Identity,
        options: Options,
    ) -> io::Result<QuichePeer> {
        let mut config = config(options);
        let files = identity.files()?;
        config
            .load_verify_locations_from_file(path(&files.certificate))
            .map_err(io::Error::other)?;
        config.verify_peer(true);

        QuichePeer::start(crate::client_ip, config, Some(server))
    }

    fn start(
        ip: impl Fn(u8) -> std::net::Ipv4Addr,
        mut config: Config,
        server: Option<SocketAddr>,
    ) -> io::Result<QuichePeer> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut sockets = Vec::new();
        let mut addresses = Vec::new();

        for network in 0..NETWORKS {
            let mut socket = UdpSocket::bind(SocketAddr::from((ip(network), 0)))?;
            let token = Token(network.into());
            poll.registry()
                .register(&mut socket, token, Interest::READABLE)?;
            addresses.push(socket.local_addr()?);
            sockets.push(socket);
        }

        let mut state = State::default();
        if let Some(server) = server {
            let quic = quiche::connect(
                Some(SERVER_NAME),
                &new_cid(),
                addresses[0],
                server,
                &mut config,
            )
            .map_err(io::Error::other)?;
            state.quic = Some(quic);
        }

        let acks_of_path_1 = Counts::default();
        if let Some(quic) = &mut state.quic {
            log_acks(quic, &acks_of_path_1);
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            journal: Journal::default(),
            acks_of_path_1,
        });
        let mut driver = Driver {
            shared: shared.clone(),
            poll,
            sockets,
            addresses: addresses.clone(),
            config,
        };
        // So that a client's first flight does not wait for an event.
        waker.wake()?;
        let thread = std::thread::spawn(move || driver.run());

        Ok(QuichePeer {
            addresses,
            shared,
            waker,
            thread: Some(thread),
        })
    }

    /// The peer's address on each network.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Does something to the connection, which exists, and sends what follows.
    fn with<T>(&self, f: impl FnOnce(&mut Connection) -> T) -> T {
        let result = f(self.state().quic.as_mut().expect("a connection"));
        self.waker.wake().expect("the waker's eventfd");
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

impl Peer for QuichePeer {
    fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    fn is_multipath(&self) -> bool {
        let state = self.state();
        state.quic.as_ref().is_some_and(Connection::is_multipath)
    }

    fn paths(&self) -> Vec<PathReport> {
        let state = self.state();
        let Some(quic) = &state.quic else {
            return Vec::new();
        };
        quic.path_stats()
            .map(|stats| PathReport {
                path_id: stats.path_id,
                sent_bytes: stats.sent_bytes,
                received_bytes: stats.recv_bytes,
                lost_packets: stats.lost as u64,
                details: format!("{stats:?}"),
            })
            .collect()
    }

    fn open_path(&self, network: u8, remote: SocketAddr) -> Result<u64, OpenError> {
        let local = self.addresses[usize::from(network)];
        self.with(|quic| {
            // Until the handshake is confirmed, which quiche does not tell.
            if !quic.is_multipath() {
                return Err(OpenError::NotYet);
            }
            quic.open_path(local, remote).map_err(|e| match e {
                quiche::Error::OutOfIdentifiers | quiche::Error::Done => OpenError::NotYet,
                e => OpenError::Refused(e.to_string()),
            })
        })
    }

    fn set_backup(&self, path_id: u64, backup: bool) {
        let status = if backup {
            PathStatus::Backup
        } else {
            PathStatus::Available
        };
        self.with(|quic| quic.set_path_status(path_id, status))
            .expect("an open path");
    }

    fn abandon(&self, path_id: u64) {
        self.with(|quic| quic.abandon_path(path_id, APPLICATION_ABANDON_PATH))
            .expect("an open path that is not the last");
    }

    fn start(&self, request: Request) -> Transfer {
        let (done, transfer) = channel();
        let mut state = self.state();
        let id = state.next_stream;
        state.next_stream += 4;
        state.streams.insert(
            id,
            Stream {
                outgoing: Some(Outgoing::upload(request)),
                incoming: Incoming::download(request),
                sent: false,
                received: false,
                done: Some(done),
            },
        );
        drop(state);
        self.waker.wake().expect("the waker's eventfd");
        Transfer(transfer)
    }

    fn update_keys(&self) -> bool {
        false
    }

    fn close(&self, error_code: u32, reason: &str) {
        self.with(|quic| quic.close(true, error_code.into(), reason.as_bytes()))
            .expect("an open connection");
    }

    fn acks_of_path_1(&self) -> Option<[u64; 2]> {
        let counts = &self.shared.acks_of_path_1;
        Some([0, 1].map(|path: usize| counts[path].load(Relaxed)))
    }

    fn path_acks(&self) -> u64 {
        self.acks_of_path_1().into_iter().flatten().sum()
    }
}

impl Drop for QuichePeer {
    fn drop(&mut self) {
        // A thread that panicked has poisoned the lock, and stopped.
        if let Ok(mut state) = self.shared.state.lock() {
            state.stop = true;
        }
        self.waker.wake().ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// What the thread works with.
struct Driver {
    shared: Arc<Shared>,
    poll: Poll,
    sockets: Vec<UdpSocket>,
    addresses: Vec<SocketAddr>,
    config: Config,
}

impl Driver {
    fn run(&mut self) {
        let mut events = mio::Events::with_capacity(8);
        let mut timeout = None;
        let mut buf = vec![0; 65535];
        let shared = self.shared.clone();

        loop {
            match self.poll.poll(&mut events, timeout) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => panic!("poll: {e}"),
                _ => (),
            }

            let mut state = shared.state.lock().unwrap();
            if state.stop {
                return;
            }

            let more = self.receive(&mut state, &mut buf);
            let State {
                quic: Some(quic),
                streams,
                closed,
                ..
            } = &mut *state
            else {
                continue;
            };

            quic.on_timeout();
            supply_cids(quic);
            report(quic, closed, &shared.journal);
            serve(quic, streams, &mut buf);
            self.send(quic, &mut buf);

            // Sockets tell that they are readable once, not as long as they are.
            timeout = if more {
                Some(std::time::Duration::ZERO)
            } else {
                quic.timeout()
            };
        }
    }

    /// Returns whether a socket may have more.
    fn receive(&mut self, state: &mut State, buf: &mut [u8]) -> bool {
        let mut more = false;

        for (socket, &to) in self.sockets.iter().zip(&self.addresses) {
            let mut batch = 0..RECEIVE_BATCH;
            while batch.next().is_some() {
                // Errors are those of datagrams that were sent.
                let Ok((len, from)) = socket.recv_from(buf) else {
                    break;
                };
                let packet = &mut buf[..len];
                if state.quic.is_none() {
                    state.quic = accept(packet, to, from, &mut self.config);
                    if let Some(quic) = &mut state.quic {
                        log_acks(quic, &self.shared.acks_of_path_1);
                    }
                }
                if let Some(quic) = &mut state.quic {
                    if let Err(e) = quic.recv(packet, quiche::RecvInfo { from, to }) {
                        let note = format!("recv from {from}: {e}");
                        self.shared.journal.add(Event::Note(note));
                    }
                }
            }
            more |= batch.is_empty();
        }
        more
    }

    fn send(&self, quic: &mut Connection, buf: &mut [u8]) {
        loop {
            let (len, info) = match quic.send(buf) {
                Ok(v) => v,
                Err(quiche::Error::Done) => return,
                Err(e) => {
                    let note = format!("send: {e}");
                    self.shared.journal.add(Event::Note(note));
                    return;
                }
            };
            let from = self.addresses.iter().position(|a| *a == info.from);
            let socket = &self.sockets[from.expect("one of our addresses")];
            // A full socket buffer is a loss like any other.
            socket.send_to(&buf[..len], info.to).ok();
        }
    }
}

fn config(options: Options) -> Config {
    let mut config = Config::new(quiche::PROTOCOL_VERSION).expect("version 1");
    config
        .set_application_protos(&[ALPN])
        .expect("a short name");
    config.set_max_idle_timeout(10_000);
    config.set_initial_max_data(WINDOW_BYTES.into());
    config.set_max_connection_window(WINDOW_BYTES.into());
    config.set_initial_max_stream_data_bidi_local(WINDOW_BYTES.into());
    config.set_initial_max_stream_data_bidi_remote(WINDOW_BYTES.into());
    config.set_max_stream_window(WINDOW_BYTES.into());
    config.set_initial_max_streams_bidi(16);
    config.set_active_connection_id_limit(4);
    config.enable_ack_detours(options.ack_detours);
    config.enable_ack_frequency(options.ack_frequency);
    config
        .set_initial_max_path_id(INITIAL_MAX_PATH_ID.into())
        .expect("a small number");
    config
}

/// Counts where acknowledgments of path 1 go.
fn log_acks(quic: &mut Connection, counts: &Counts) {
    let log = Box::new(AckLog::new(counts.clone()));
    quic.set_qlog_with_level(log, String::new(), String::new(), quiche::QlogLevel::Core);
}

fn path(file: &Path) -> &str {
    file.to_str().expect("a path in UTF-8")
}

fn new_cid() -> ConnectionId<'static> {
    let mut cid = vec![0; CID_BYTES];
    getrandom::fill(&mut cid).expect("the system's random numbers");
    ConnectionId::from_vec(cid)
}

/// A connection for the first packet of a client.
fn accept(
    packet: &mut [u8],
    to: SocketAddr,
    from: SocketAddr,
    config: &mut Config,
) -> Option<Connection> {
    let header = quiche::Header::from_slice(packet, CID_BYTES).ok()?;
    (header.ty == quiche::Type::Initial)
        .then(|| quiche::accept(&new_cid(), None, to, from, config).ok())
        .flatten()
}

/// Gives the peer the connection IDs it can use.
fn supply_cids(quic: &mut Connection) {
    let lacking: Vec<u64> = quic.path_ids_lacking_scids().collect();
    for path_id in lacking {
        let token = u128::from_be_bytes(
            new_cid()
                .as_ref()
                .try_into()
                .expect("as many bytes as a token"),
        );
        quic.new_scid_on_path(path_id, &new_cid(), token, false)
            .expect("a path ID that lacks one");
    }
}

/// Writes down what happened to the paths and to the connection.
fn report(quic: &mut Connection, closed: &mut bool, journal: &Journal) {
    while let Some(event) = quic.path_event_next() {
        journal.add(match event {
            PathEvent::Available { path_id, .. } => Event::Available { path_id },
            PathEvent::Abandoned {
                path_id,
                error_code,
                by_peer,
            } => Event::Abandoned {
                path_id,
                error_code: Some(error_code),
                by_peer,
            },
            PathEvent::PeerStatus { path_id, status } => Event::PeerStatus {
                path_id,
                backup: status == PathStatus::Backup,
            },
            other => Event::Note(format!("{other:?}")),
        });
    }

    let ended = quic.is_draining() || quic.is_closed() || quic.local_error().is_some();
    if *closed || !ended {
        return;
    }
    *closed = true;

    let by_peer = quic.peer_error().is_some();
    let error = match quic.peer_error().or(quic.local_error()) {
        Some(error) => Closed {
            by_peer,
            by_application: error.is_app,
            error_code: error.error_code,
            reason: String::from_utf8_lossy(&error.reason).into_owned(),
        },
        None => Closed {
            by_peer,
            by_application: false,
            error_code: 0,
            reason: format!("timed out: {}", quic.is_timed_out()),
        },
    };
    journal.add(Event::Closed(error));
}

/// Carries all transfers on.
fn serve(quic: &mut Connection, streams: &mut BTreeMap<u64, Stream>, buf: &mut [u8]) {
    if quic.is_server() {
        for id in quic.readable() {
            streams.entry(id).or_insert_with(|| Stream {
                outgoing: None,
                incoming: Incoming::upload(),
                sent: false,
                received: false,
                done: None,
            });
        }
    }

    streams.retain(|&id, stream| {
        let result = stream.carry_on(quic, id, buf);
        if let Err(e) = &result {
            // Fails if it is closed already.
            quic.close(true, 1, e.as_bytes()).ok();
        }
        if result.is_ok() && !(stream.sent && stream.received) {
            return true;
        }
        if let Some(done) = &stream.done {
            done.send(result).ok();
        }
        false
    });
}

impl Stream {
    fn carry_on(&mut self, quic: &mut Connection, id: u64, buf: &mut [u8]) -> Result<(), String> {
        while !self.received {
            let (len, fin) = match quic.stream_recv(id, buf) {
                Ok(v) => v,
                // Not yet there, or not yet opened.
                Err(quiche::Error::Done | quiche::Error::InvalidStreamState(_)) => break,
                Err(e) => return Err(format!("stream {id}: {e}")),
            };
            if let Some(request) = self.incoming.push(&buf[..len])? {
                self.outgoing = Some(Outgoing::download(request));
            }
            if fin {
                self.incoming.finish()?;
                self.received = true;
            }
        }

        while let (false, Some(outgoing)) = (self.sent, &mut self.outgoing) {
            let room = quic.stream_capacity(id).unwrap_or(buf.len());
            let room = room.min(buf.len());
            let (len, last) = outgoing.peek(&mut buf[..room]);
            // The end of the answer says that the request arrived unchanged.
            let fin = last && (self.received || !quic.is_server());
            if len == 0 && !fin {
                break;
            }
            match quic.stream_send(id, &buf[..len], fin) {
                Ok(sent) => {
                    outgoing.advance(sent);
                    self.sent = fin && sent == len;
                }
                Err(quiche::Error::Done) => break,
                Err(e) => return Err(format!("stream {id}: {e}")),
            }
        }
        Ok(())
    }
}
