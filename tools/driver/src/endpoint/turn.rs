//! A connection's turn: application, paths, sending; and its end.

use std::time::Instant;

use quiche::PathEvent;

use super::sockets::socket_for;
use super::sockets::Sockets;
use super::App;
use super::Endpoint;
use crate::conn_key::ConnKey;
use crate::connection::Conn;
use crate::error::close_reason;
use crate::multipath;
use crate::returning::Keeper;

/// A connection makes no further datagrams while this many of its trains wait
/// for the kernel.
const MAX_QUEUED_TRAINS: usize = 4;

/// Trains one connection sends before others get a turn.
const TRAINS_PER_TURN: usize = 8;

impl Endpoint {
    /// Lets the application and the send loop at every connection that has
    /// something to do.
    pub(super) fn serve(&mut self, app: &mut impl App) {
        let listener = self.table.listener.as_ref();
        let tells_addresses = listener.is_some_and(|listener| listener.options.retry);
        let keeper = listener.and_then(|listener| listener.keeper.clone());
        for key in std::mem::take(&mut self.table.dirty) {
            let Some(conn) = self.table.get_mut(key) else {
                continue;
            };
            conn.is_dirty = false;

            let sockets = &self.sockets;
            while let Some(event) = conn.quic.path_event_next() {
                if let PathEvent::Opened { local, peer, .. } = event {
                    sockets.look_for_large_datagrams(conn, local, peer);
                }
                if let Some(keeper) = &keeper {
                    resume(keeper, conn, &event);
                }
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
                if conn.tell_agreed() {
                    let first = conn.quic.path_stats().next();
                    if let Some((local, peer)) = first.map(|p| (p.local_addr, p.peer_addr)) {
                        sockets.look_for_large_datagrams(conn, local, peer);
                    }
                }
            }
            if let (Some(keeper), Some(returning)) = (&keeper, &mut conn.returning) {
                returning.tell(keeper, &mut conn.quic, tells_addresses);
                for (path_id, outcome) in std::mem::take(&mut conn.resumptions) {
                    app.on_resumption(conn, path_id, outcome);
                }
            }
            if !conn.is_given_up {
                app.on_progress(conn);
            }

            self.table.exchange_cids(key);
            self.manage_paths(key);
            self.send(key);
            if self.table.get_mut(key).is_some_and(Conn::close_given_up) {
                self.send(key);
            }
            self.finish(key, app);
        }
    }

    /// Sends what the connection has, within its turn.
    fn send(&mut self, key: ConnKey) {
        let now = Instant::now();

        for _ in 0..TRAINS_PER_TURN {
            let sockets = &mut self.sockets;
            let Some(conn) = self.table.get_mut(key) else {
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
                Some(train) => sockets.send(train, &mut self.table),
                None => return,
            }
        }

        self.table.mark_dirty(key);
    }

    /// Removes the connection if it is over, or sets its next deadline.
    fn finish(&mut self, key: ConnKey, app: &mut impl App) {
        let Some(conn) = self.table.get_mut(key) else {
            return;
        };

        if conn.verdict.is_some() && !conn.quic.is_closed() {
            // Tell the peer, in case it hears us after all.
            let _ = conn.quic.close(false, 0, b"giving up");
            self.send(key);
        }

        let Some(conn) = self.table.get_mut(key) else {
            return;
        };
        if conn.verdict.is_none() && !conn.quic.is_closed() {
            self.table.set_deadline(key);
            return;
        }

        let mut conn = self.table.remove(key);
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

/// Lets a client's new path begin with what its token says.
fn resume(keeper: &Keeper, conn: &mut Conn, event: &PathEvent) {
    let Some(returning) = &mut conn.returning else {
        return;
    };
    match event {
        PathEvent::Opened {
            path_id,
            local,
            peer,
        } => {
            let (peer, local) = (peer.ip(), local.ip());
            let outcome = returning.begin_path(keeper, &mut conn.quic, *path_id, peer, local);
            conn.resumptions
                .extend(outcome.map(|outcome| (*path_id, outcome)));
        }
        PathEvent::Available { .. } => returning.path_validated(),
        _ => {}
    }
}
