//! The connections of an endpoint, and what leads to them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use quiche::ConnectionId;
use quiche::EcnCodepoint;
use quiche::Header;
use quiche::RecvInfo;
use slab::Slab;

use crate::cid::random_cid;
use crate::cid::EndpointKey;
use crate::cid::CID_BYTES;
use crate::conn_key::ConnKey;
use crate::connection::Conn;
use crate::error::CloseReason;
use crate::listener::destination_cid;
use crate::listener::Listener;
use crate::listener::Verdict;
use crate::multipath;
use crate::socket::Train;

/// Everything that a received datagram can touch.
pub(super) struct Table {
    pub(super) conns: Slab<Conn>,
    by_cid: HashMap<ConnectionId<'static>, usize>,
    /// The connection that owns a client's socket. A stateless reset names no
    /// connection ID of ours.
    pub(super) by_socket: HashMap<SocketAddr, ConnKey>,
    next_serial: u64,
    pub(super) listener: Option<Listener>,
    pub(super) key: EndpointKey,
    /// Connections to serve in this turn, each once.
    pub(super) dirty: Vec<ConnKey>,
    pub(super) deadlines: BinaryHeap<Reverse<(Instant, ConnKey)>>,
    /// Answers to datagrams of no connection.
    pub(super) replies: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
}

impl Table {
    /// Without connections.
    pub(super) fn new() -> Table {
        Table {
            conns: Slab::new(),
            by_cid: HashMap::new(),
            by_socket: HashMap::new(),
            next_serial: 0,
            listener: None,
            key: EndpointKey::random(),
            dirty: Vec::new(),
            deadlines: BinaryHeap::new(),
            replies: Vec::new(),
        }
    }

    pub(super) fn get_mut(&mut self, key: ConnKey) -> Option<&mut Conn> {
        self.conns.get_mut(key.index).filter(|conn| conn.key == key)
    }

    pub(super) fn mark_dirty(&mut self, key: ConnKey) {
        if let Some(conn) = self.get_mut(key) {
            if !conn.is_dirty {
                conn.is_dirty = true;
                self.dirty.push(key);
            }
        }
    }

    pub(super) fn insert(
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
            read_bytes: 0,
            is_waiting: false,
            held: None,
            queued_trains: 0,
            is_dirty: false,
            queued_deadline: None,
            handshake_deadline: None,
            handshake_timeout: Duration::ZERO,
            last_recv_error: None,
            is_given_up: false,
            verdict: None,
            returning: None,
            resumptions: Vec::new(),
        });
        key
    }

    pub(super) fn remove(&mut self, key: ConnKey) -> Conn {
        let conn = self.conns.remove(key.index);
        for cid in &conn.cids {
            self.by_cid.remove(cid);
        }
        conn
    }

    /// Gives `datagram` to its connection, with what it was marked with.
    pub(super) fn deliver(&mut self, datagram: &mut [u8], info: RecvInfo, ecn: EcnCodepoint) {
        let RecvInfo { from, to } = info;
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
        if let Err(e) = conn.quic.recv_with_ecn(datagram, info, ecn) {
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
            Verdict::Accept {
                quic,
                cids,
                returning,
                resumption,
            } => {
                let index = self.insert(*quic, from, &cids).index;
                let conn = &mut self.conns[index];
                conn.returning = returning;
                conn.resumptions = resumption.map(|outcome| (0, outcome)).into_iter().collect();
                Some(index)
            }
            Verdict::Reply(data) => {
                self.replies.push((to, from, data));
                None
            }
            Verdict::Drop => None,
        }
    }

    /// Keeps the peer supplied with connection IDs and forgets retired ones.
    pub(super) fn exchange_cids(&mut self, key: ConnKey) {
        let Table {
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
    pub(super) fn link_down(&mut self, train: &Train, error: io::Error) {
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
}
