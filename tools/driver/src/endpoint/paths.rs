//! Does what a connection's path manager wants.

use std::time::Instant;

use mpq_decision::paths::Action;
use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_decision::paths::Manager;
use mpq_decision::paths::OpenError;
use mpq_decision::paths::Pair;
use mpq_decision::PathId;

use super::Endpoint;
use crate::conn_key::ConnKey;
use crate::multipath;

impl Endpoint {
    /// Does what the path manager wants.
    pub(super) fn manage_paths(&mut self, key: ConnKey) {
        let now = Instant::now();
        while let Some(conn) = self.table.get_mut(key) {
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
                Some(action) => {
                    let (read_bytes, is_waiting) = (conn.read_bytes, conn.is_waiting);
                    let quic = &mut conn.quic;
                    match multipath::carry_out(quic, action, read_bytes, is_waiting) {
                        Some(event) => event,
                        None => continue,
                    }
                }
            };
            if let Some(manager) = self.table.conns[key.index].manager.as_mut() {
                manager.on_event(now, event);
            }
        }
    }

    fn open_path(&mut self, key: ConnKey, pair: Pair) -> Result<PathId, OpenError> {
        let conn = &self.table.conns[key.index];
        let device = conn.manager.as_ref().and_then(|m| device(m, &pair.local));
        let device = device.map(str::to_owned);
        let index = self
            .bind((pair.local.ip, 0).into(), device.as_deref())
            .map_err(|error| {
                OpenError::Socket(format!("cannot send from {}: {error}", pair.local.ip))
            })?;
        let local = self.sockets.slab[index].socket.local();

        let conn = &mut self.table.conns[key.index];
        match multipath::open_path(&mut conn.quic, local, pair.remote) {
            Ok(path_id) => {
                log::debug!("opened path {path_id} from {local} to {}", pair.remote);
                conn.own_sockets.push(index);
                self.table.by_socket.insert(local, key);
                Ok(PathId(path_id))
            }
            Err(e) => {
                self.unbind(index);
                Err(multipath::open_error(e))
            }
        }
    }
}

/// The interface to bind a socket to. Loopback is one whatever the address.
pub(super) fn device<'a>(manager: &'a Manager, local: &Local) -> Option<&'a str> {
    manager.interface(local).filter(|_| !local.ip.is_loopback())
}
