//! One connection and the datagrams it is about to send.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Event;
use mpq_decision::paths::Manager;
use mpq_decision::paths::Pair;
use mpq_decision::paths::Unused;
use mpq_returning::Memory;
use mpq_returning::Refusal;
use mpq_returning::Returning;
use quiche::ConnectionId;

use crate::conn_key::ConnKey;
use crate::error::CloseReason;
use crate::h3::H3_NO_ERROR;
use crate::multipath;
use crate::socket::BufferPool;
use crate::socket::Train;
use crate::socket::MAX_TRAIN_BYTES;
use crate::MAX_DATAGRAM_BYTES;

/// Datagrams whose release time is no further ahead leave at once: less than
/// this, and the timer costs more than the precision gains.
const RELEASE_SLACK: Duration = Duration::from_micros(200);

/// What one path has carried so far.
#[derive(Clone, Debug)]
pub struct PathSnapshot {
    /// Path ID (RFC 10069).
    pub path_id: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// UDP payload received.
    pub recv_bytes: u64,
    /// UDP payload sent.
    pub sent_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Packets declared lost.
    pub lost: u64,
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Whether both ends have shown that they receive on it.
    pub is_validated: bool,
    /// What the failure detector believes.
    pub health: quiche::PathHealth,
    /// The least path ID of those that share the bottleneck of what we send, if that is known.
    pub bottleneck: Option<u64>,
    /// Whether what we send is marked as capable of ECN.
    pub ecn: quiche::EcnState,
    /// Packets we sent that were marked as congested.
    pub congested: u64,
    /// What it is for, as we want it.
    pub status: quiche::PathStatus,
    /// The same, as the peer wants it.
    pub peer_status: quiche::PathStatus,
}

/// A QUIC connection of an [`Endpoint`](crate::Endpoint).
pub struct Conn {
    /// The connection itself.
    pub quic: quiche::Connection,

    pub(crate) key: ConnKey,
    pub(crate) peer: SocketAddr,
    pub(crate) idle_timeout: Duration,

    /// Every connection ID that leads here.
    pub(crate) cids: Vec<ConnectionId<'static>>,

    /// Sockets that close with the connection (a client's).
    pub(crate) own_sockets: Vec<usize>,

    /// Decides which paths there are (clients only).
    pub(crate) manager: Option<Manager>,

    /// The manager knows whether the peer agreed to several paths.
    pub(crate) is_agreed: bool,

    /// Bytes of responses that the application was given.
    pub(crate) read_bytes: u64,

    /// The application waits for a response, or for what it sends to be taken.
    pub(crate) is_waiting: bool,

    /// A train that was begun but waits for its release time.
    pub(crate) held: Option<Train>,

    /// Trains of this connection in sockets' queues.
    pub(crate) queued_trains: usize,

    /// In the list of connections to serve.
    pub(crate) is_dirty: bool,

    /// The earliest entry for this connection in the deadline heap.
    pub(crate) queued_deadline: Option<Instant>,

    /// The handshake has to be complete by then.
    pub(crate) handshake_deadline: Option<Instant>,
    pub(crate) handshake_timeout: Duration,

    pub(crate) last_recv_error: Option<quiche::Error>,

    /// Nothing is wanted of it any more, and the peer is to know.
    pub(crate) is_given_up: bool,

    /// Set when the driver itself gives up.
    pub(crate) verdict: Option<CloseReason>,

    /// What is remembered of its paths (servers only).
    pub(crate) returning: Option<Box<Returning>>,

    /// What came of paths that the client's token might have been for, to be told.
    pub(crate) resumptions: Vec<(u64, Result<Memory, Refusal>)>,
}

impl Conn {
    /// Closes the connection as soon as the peer can be told: before something has come from there,
    /// quiche ends it without a word, and the server would keep its part until that times out.
    pub(crate) fn give_up(&mut self) {
        self.is_given_up = true;
    }

    /// Closes it after [`Conn::give_up`] if that is possible, and returns whether there is a close to
    /// send. What completes the handshake has to be sent before: without it the server cannot read
    /// the close.
    pub(crate) fn close_given_up(&mut self) -> bool {
        let is_due = self.is_given_up && self.quic.stats().recv > 0;
        // An error means that it is closing already.
        is_due && self.quic.close(true, H3_NO_ERROR, b"").is_ok()
    }

    /// The peer's address when the connection began.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The handle of this connection.
    pub fn key(&self) -> ConnKey {
        self.key
    }

    /// Whether both sides agreed on multipath.
    pub fn is_multipath(&self) -> bool {
        multipath::is_ready(&self.quic)
    }

    /// What each path has carried. Paths come in no particular order.
    pub fn paths(&self) -> Vec<PathSnapshot> {
        self.quic
            .path_stats()
            .map(|stats| PathSnapshot {
                path_id: stats.path_id,
                local: stats.local_addr,
                peer: stats.peer_addr,
                recv_bytes: stats.recv_bytes,
                sent_bytes: stats.sent_bytes,
                rtt: stats.rtt,
                lost: stats.lost as u64,
                cwnd_bytes: stats.cwnd as u64,
                is_validated: self
                    .quic
                    .is_path_validated(stats.local_addr, stats.peer_addr)
                    .unwrap_or(false),
                health: stats.health,
                bottleneck: stats.bottleneck,
                ecn: stats.ecn_state,
                congested: stats.ecn_ce_count,
                status: stats.status,
                peer_status: stats.peer_status,
            })
            .collect()
    }

    /// Why there is no path from each interface that has none (clients only).
    pub fn unused_paths(&self) -> Vec<Unused> {
        let manager = self.manager.as_ref();
        manager.map_or_else(Vec::new, |manager| manager.unused(Instant::now()))
    }

    /// The impact factors of the paths, as far as the path manager knows them (clients only).
    pub fn impacts(&self) -> Vec<(u64, Pair, f64)> {
        let impacts = self.manager.as_ref().map(Manager::impacts);
        let impacts = impacts.unwrap_or_default().into_iter();
        impacts
            .map(|(path, pair, omega)| (path.0, pair, omega))
            .collect()
    }

    /// Stream bytes that were repeated on a path without new data, while another one had them in
    /// flight.
    pub fn copied_bytes(&self) -> u64 {
        self.quic.stats().stream_copied_bytes
    }

    /// The idle timeout of a client's connection, the smaller one of both
    /// sides'; `None` if neither has one.
    pub fn idle_timeout(&self) -> Option<Duration> {
        let theirs = self
            .quic
            .peer_transport_params()
            .map_or(0, |params| params.max_idle_timeout);
        [self.idle_timeout, Duration::from_millis(theirs)]
            .into_iter()
            .filter(|timeout| !timeout.is_zero())
            .min()
    }

    /// Sends something that the peer acknowledges on every path, so that
    /// neither an idle timeout nor a NAT on the way forgets one.
    pub fn keep_alive(&mut self) {
        multipath::keep_alive(&mut self.quic);
    }

    /// Tells the path manager, once, whether the peer agreed to several paths. Returns whether this was when.
    pub(crate) fn tell_agreed(&mut self) -> bool {
        if std::mem::replace(&mut self.is_agreed, true) {
            return false;
        }
        let event = match self.is_multipath() {
            true => Event::Confirmed,
            false => Event::SinglePath,
        };
        if let Some(manager) = &mut self.manager {
            manager.on_event(Instant::now(), event);
        }
        true
    }

    /// Ends the connection because the peer's certificate is not the one
    /// wanted.
    pub fn reject_certificate(&mut self, why: &'static str) {
        self.verdict = Some(CloseReason::Certificate(why));
    }

    /// When the connection next needs to be served, if no packet comes.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let release = self.held.as_ref().map(|train| train.release);
        let path_action = self.manager.as_ref().and_then(Manager::next_timer);
        [
            self.quic.timeout_instant(),
            release,
            path_action,
            self.handshake_deadline,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The next train whose time has come, in a buffer from `pool`.
    ///
    /// `max_segments` says how many datagrams of a size fit in one train on a
    /// local address.
    pub(crate) fn next_train(
        &mut self,
        now: Instant,
        pool: &mut BufferPool,
        max_segments: impl Fn(SocketAddr, usize) -> usize,
    ) -> Option<Train> {
        let due = now + RELEASE_SLACK;
        let mut train = match self.held.take() {
            Some(train) if train.release > due => {
                self.held = Some(train);
                return None;
            }
            Some(train) => train,
            None => {
                let mut buf = pool.take();
                let Ok((len, info)) = self.quic.send(&mut buf[..MAX_DATAGRAM_BYTES]) else {
                    pool.put(buf);
                    return None;
                };
                let train = self.begin_train(buf, len, &info);
                if train.release > due {
                    self.held = Some(train);
                    return None;
                }
                train
            }
        };

        let room = max_segments(train.from, train.segment_bytes);
        let mut segments = 1;
        while segments < room && train.end + train.segment_bytes <= MAX_TRAIN_BYTES {
            let most = (room - segments) * train.segment_bytes;
            let end = (train.end + most).min(MAX_TRAIN_BYTES);
            if let Ok(len) = self.quic.send_train(&mut train.buf[train.end..end]) {
                train.end += len;
                segments += len.div_ceil(train.segment_bytes);
                if len % train.segment_bytes != 0 {
                    break;
                }
                continue;
            }

            let tail = &mut train.buf[train.end..train.end + MAX_DATAGRAM_BYTES];
            let Ok((len, info)) = self.quic.send(tail) else {
                break;
            };

            let fits = info.from == train.from
                && info.to == train.to
                && info.ecn == train.ecn
                && len <= train.segment_bytes
                && info.at <= due;
            if !fits {
                let mut buf = pool.take();
                buf[..len].copy_from_slice(&tail[..len]);
                self.held = Some(self.begin_train(buf, len, &info));
                break;
            }

            train.end += len;
            segments += 1;
            if len < train.segment_bytes {
                break;
            }
        }

        Some(train)
    }

    fn begin_train(&self, buf: Vec<u8>, len: usize, info: &quiche::SendInfo) -> Train {
        Train {
            conn: self.key,
            from: info.from,
            to: info.to,
            segment_bytes: len,
            ecn: info.ecn,
            release: info.at,
            buf,
            start: 0,
            end: len,
        }
    }
}
