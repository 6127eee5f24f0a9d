//! How a client's connection begins.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_decision::paths::Manager;
use mpq_decision::paths::Pair;

use super::paths::device;
use super::Endpoint;
use crate::cid::random_cid;
use crate::conn_key::ConnKey;
use crate::qlog;
use crate::returning::Resumption;

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

    /// What an earlier connection to the server has left.
    pub resumption: Resumption,

    /// Write qlog into this folder, which exists: `client-CID.sqlog`.
    pub qlog: Option<PathBuf>,
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

impl Endpoint {
    /// Begins a connection. The outcome comes through [`App`](super::App).
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
        let mut begin = |resumption: &Resumption| {
            let mut quic =
                quiche::connect(options.server_name.as_deref(), &scid, local, peer, config)?;
            if let Some(folder) = &options.qlog {
                qlog::begin(&mut quic, &scid, folder);
            }
            if let Some(token) = &resumption.token {
                quic.set_token(token)?;
            }
            if let Some(session) = &resumption.session {
                quic.set_session(session)?;
            }
            Ok(quic)
        };
        // What was kept may be of another version, and is a help only.
        let connected = begin(&options.resumption).or_else(|e: quiche::Error| {
            log::debug!("beginning anew with {peer}: {e}");
            begin(&Resumption::default())
        });
        let quic = match connected {
            Ok(quic) => quic,
            Err(e) => {
                self.unbind(socket);
                return Err(e.into());
            }
        };

        let now = Instant::now();
        let key = self.table.insert(quic, peer, &[scid]);
        self.table.by_socket.insert(local, key);
        let conn = &mut self.table.conns[key.index];
        conn.own_sockets.push(socket);
        conn.idle_timeout = options.idle_timeout;
        conn.handshake_timeout = options.handshake_timeout;
        conn.handshake_deadline = Some(now + options.handshake_timeout);
        manager.on_event(now, Event::Began { pair: options.pair });
        conn.manager = Some(manager);
        self.table.mark_dirty(key);
        Ok(key)
    }
}
