//! The sockets of an endpoint, and what leaves through them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::unix::SourceFd;
use mio::Interest;
use mio::Token;
use slab::Slab;

use super::table::Table;
use super::Endpoint;
use crate::connection::Conn;
use crate::path_mtu;
use crate::socket::BufferPool;
use crate::socket::SendStats;
use crate::socket::Sent;
use crate::socket::Socket;
use crate::socket::SocketOptions;
use crate::socket::Train;
use crate::ETHERNET_DATAGRAM_BYTES;
use crate::MAX_DATAGRAM_BYTES;

pub(super) struct Sockets {
    options: SocketOptions,
    pub(super) slab: Slab<SocketEntry>,
    pub(super) by_local: HashMap<SocketAddr, usize>,
    pub(super) pool: BufferPool,
    /// Of sockets that are gone.
    pub(super) closed_stats: SendStats,
}

pub(super) struct SocketEntry {
    pub(super) socket: Socket,
    /// The kernel may still have datagrams.
    pub(super) is_readable: bool,
}

impl Sockets {
    /// None yet.
    pub(super) fn new(options: SocketOptions) -> Sockets {
        Sockets {
            options,
            slab: Slab::new(),
            by_local: HashMap::new(),
            pool: BufferPool::default(),
            closed_stats: SendStats::default(),
        }
    }

    /// Hands `train` to its socket.
    pub(super) fn send(&mut self, train: Train, table: &mut Table) {
        let Some(index) = socket_for(&self.by_local, train.from) else {
            log::debug!("no socket for {} any more", train.from);
            self.pool.put(train.buf);
            return;
        };

        let conn = train.conn;
        match self.slab[index].socket.send(train) {
            Sent::All(train) => self.pool.put(train.buf),
            Sent::Queued => {
                if let Some(conn) = table.get_mut(conn) {
                    conn.queued_trains += 1;
                }
            }
            Sent::LinkDown(train, error) => {
                table.link_down(&train, error);
                self.pool.put(train.buf);
            }
        }
    }

    /// Has the path from `local` to `peer` asked for datagrams that are larger than those of Ethernet, where its
    /// interface and the peer have room for them.
    pub(super) fn look_for_large_datagrams(
        &self,
        conn: &mut Conn,
        local: SocketAddr,
        peer: SocketAddr,
    ) {
        let accepted = conn.quic.peer_transport_params();
        let accepted = accepted.map_or(0, |params| params.max_udp_payload_size);
        let most = self.options.max_datagram_bytes.min(MAX_DATAGRAM_BYTES);
        if most.min(accepted as usize) <= ETHERNET_DATAGRAM_BYTES {
            return;
        }
        let device =
            socket_for(&self.by_local, local).and_then(|index| self.slab[index].socket.device());
        match path_mtu::largest_payload(local.ip(), peer, device) {
            Ok(bytes) if bytes > ETHERNET_DATAGRAM_BYTES => {
                let _ = conn.quic.probe_larger_pmtu(local, peer, bytes.min(most));
            }
            Ok(_) => {}
            Err(e) => log::debug!("the MTU from {local} to {peer} is not known: {e}"),
        }
    }

    /// The kernel has room again.
    pub(super) fn send_queued(&mut self, index: usize, table: &mut Table) {
        while let Some(sent) = self.slab[index].socket.send_queued() {
            let train = match sent {
                Sent::All(train) => train,
                Sent::LinkDown(train, error) => {
                    table.link_down(&train, error);
                    train
                }
                Sent::Queued => return,
            };
            if let Some(conn) = table.get_mut(train.conn) {
                conn.queued_trains -= 1;
                table.mark_dirty(train.conn);
            }
            self.pool.put(train.buf);
        }
    }
}

impl Endpoint {
    pub(super) fn bind(&mut self, local: SocketAddr, device: Option<&str>) -> io::Result<usize> {
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

    pub(super) fn unbind(&mut self, index: usize) {
        let entry = self.sockets.slab.remove(index);
        self.sockets.closed_stats = self.sockets.closed_stats + entry.socket.stats;
        let local = entry.socket.local();
        self.sockets.by_local.remove(&local);
        self.table.by_socket.remove(&local);
        let fd = entry.socket.as_raw_fd();
        if let Err(e) = self.poll.registry().deregister(&mut SourceFd(&fd)) {
            log::debug!("cannot stop polling a socket: {e}");
        }
    }
}

/// The socket that sends from `local`: its own, or a wildcard one.
pub(super) fn socket_for(
    by_local: &HashMap<SocketAddr, usize>,
    local: SocketAddr,
) -> Option<usize> {
    let any: SocketAddr = match local {
        SocketAddr::V4(_) => ([0, 0, 0, 0], local.port()).into(),
        SocketAddr::V6(_) => ([0u16; 8], local.port()).into(),
    };
    by_local.get(&local).or_else(|| by_local.get(&any)).copied()
}
