//! The server's side of new connections: what to answer to a datagram that
//! belongs to none.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mpq_returning::since_epoch;
use mpq_returning::table;
use mpq_returning::Memory;
use mpq_returning::Refusal;
use mpq_returning::Returning;
use mpq_returning::TOKEN_BYTES;
use quiche::ConnectionId;
use quiche::Header;
use quiche::Type;

use crate::cid::fill_random;
use crate::cid::random_cid;
use crate::cid::EndpointKey;
use crate::cid::CID_BYTES;
use crate::qlog;
use crate::returning::Keeper;

/// Bytes of the token that ends a stateless reset.
const RESET_TOKEN_BYTES: usize = 16;

/// The shortest stateless reset that looks like a packet (RFC 9000, 10.3).
const MIN_RESET_BYTES: usize = 21;

/// How a server treats new connections.
#[derive(Clone)]
pub struct ListenOptions {
    /// Connections beyond this are refused.
    pub max_connections: usize,

    /// Make clients prove their address with a Retry packet first.
    pub retry: bool,

    /// Derives stateless reset and Retry tokens.
    pub key: EndpointKey,

    /// Remember for so long what was seen of clients' paths, in tokens that clients bring along, so that theirs resume
    /// carefully (RFC 9959). It takes a congestion controller of the decision layer.
    pub remember: Option<Duration>,

    /// Write qlog of each connection into this folder, which exists: `server-CID.sqlog`.
    pub qlog: Option<PathBuf>,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            max_connections: 10_000,
            retry: false,
            key: EndpointKey::random(),
            remember: None,
            qlog: None,
        }
    }
}

/// What to do with a datagram of no connection.
pub(crate) enum Verdict {
    /// A new connection, known under these connection IDs: our own and the one
    /// the client chose.
    Accept {
        quic: Box<quiche::Connection>,
        cids: [ConnectionId<'static>; 2],
        returning: Option<Box<Returning>>,
        /// Of its first path.
        resumption: Option<Result<Memory, Refusal>>,
    },

    /// Send this back.
    Reply(Vec<u8>),

    /// Nothing.
    Drop,
}

pub(crate) struct Listener {
    pub config: quiche::Config,
    pub options: ListenOptions,
    /// False once the server is stopping.
    pub is_accepting: bool,
    pub keeper: Option<Arc<Keeper>>,
}

impl Listener {
    pub fn new(config: quiche::Config, options: ListenOptions) -> Listener {
        let needs_tokens = options.retry || options.remember.is_some();
        let lifetime = options.remember.unwrap_or_default();
        let keeper = needs_tokens
            .then(|| Keeper::new(&options.key.derived(b"tokens"), table(), lifetime))
            .flatten()
            .map(Arc::new);
        Listener {
            config,
            options,
            is_accepting: true,
            keeper,
        }
    }

    /// Judges a datagram with header `header` that leads to no connection,
    /// while there are `connections`.
    pub fn judge(
        &mut self,
        header: &Header,
        datagram_bytes: usize,
        from: SocketAddr,
        to: SocketAddr,
        connections: usize,
    ) -> Verdict {
        match header.ty {
            Type::Short => self.reset(&header.dcid, datagram_bytes),
            _ if datagram_bytes < quiche::MIN_CLIENT_INITIAL_LEN => Verdict::Drop,
            _ if !quiche::version_is_supported(header.version) => {
                reply(|out| quiche::negotiate_version(&header.scid, &header.dcid, out))
            }
            Type::Initial => self.initial(header, from, to, connections),
            _ => Verdict::Drop,
        }
    }

    fn initial(
        &mut self,
        header: &Header,
        from: SocketAddr,
        to: SocketAddr,
        connections: usize,
    ) -> Verdict {
        if !self.is_accepting || connections >= self.options.max_connections {
            log::debug!("refusing a connection from {from}");
            return Verdict::Drop;
        }

        let key = &self.options.key;
        let token = header.token.as_deref().unwrap_or_default();
        let now = since_epoch();
        let keeper = self.keeper.as_deref();
        let earlier = keeper.and_then(|keeper| keeper.open(token, now));
        let is_verified = keeper
            .zip(earlier.as_ref())
            .is_some_and(|(keeper, earlier)| keeper.validates(earlier, from.ip()));

        let (scid, original_dcid) = if !self.options.retry || is_verified {
            (random_cid(), None)
        } else if token.is_empty() || token.len() == TOKEN_BYTES {
            // Without a token, or with one that says nothing of this address any more.
            let token = key.retry_token(from, &header.dcid, now);
            return reply(|out| {
                quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &random_cid(),
                    &token,
                    header.version,
                    out,
                )
            });
        } else {
            match key.check_retry_token(from, token, now) {
                // The client now uses the connection ID of our Retry packet.
                Some(original) => (header.dcid.clone(), Some(original)),
                None => return Verdict::Drop,
            }
        };

        self.config
            .set_stateless_reset_token(Some(key.reset_token(&scid)));
        match quiche::accept(&scid, original_dcid.as_ref(), to, from, &mut self.config) {
            Ok(mut quic) => {
                if let Some(folder) = &self.options.qlog {
                    qlog::begin(&mut quic, &scid, folder);
                }
                if is_verified {
                    // An error on clients only.
                    let _ = quic.set_peer_address_verified();
                }
                let mut returning = keeper.map(|_| Box::new(Returning::new(earlier)));
                let (peer, local) = (from.ip(), to.ip());
                let resumption = keeper
                    .zip(returning.as_mut())
                    .and_then(|(keeper, new)| new.begin_path(keeper, &mut quic, 0, peer, local));
                Verdict::Accept {
                    quic: Box::new(quic),
                    cids: [scid.into_owned(), header.dcid.clone().into_owned()],
                    returning,
                    resumption,
                }
            }
            Err(e) => {
                log::warn!("cannot accept a connection from {from}: {e}");
                Verdict::Drop
            }
        }
    }

    /// A stateless reset (RFC 9000, section 10.3) in answer to a packet of
    /// `datagram_bytes`, always shorter than it, so that two endpoints without
    /// state cannot keep each other busy.
    fn reset(&self, dcid: &[u8], datagram_bytes: usize) -> Verdict {
        if datagram_bytes <= MIN_RESET_BYTES {
            return Verdict::Drop;
        }

        let len = (datagram_bytes - 1).min(2 * MIN_RESET_BYTES);
        let mut out = vec![0; len];
        let (noise, token) = out.split_at_mut(len - RESET_TOKEN_BYTES);
        fill_random(noise);
        // Short header form with the fixed bit.
        noise[0] = noise[0] & 0x3f | 0x40;
        token.copy_from_slice(&self.options.key.reset_token(dcid).to_be_bytes());
        Verdict::Reply(out)
    }
}

fn reply(write: impl FnOnce(&mut [u8]) -> quiche::Result<usize>) -> Verdict {
    let mut out = vec![0; quiche::MIN_CLIENT_INITIAL_LEN];
    match write(&mut out) {
        Ok(len) => {
            out.truncate(len);
            Verdict::Reply(out)
        }
        Err(_) => Verdict::Drop,
    }
}

/// The destination connection ID of `datagram`, without parsing the rest.
pub(crate) fn destination_cid(datagram: &[u8]) -> Option<&[u8]> {
    const LONG_FORM: u8 = 0x80;
    if datagram.first()? & LONG_FORM == 0 {
        return datagram.get(1..1 + CID_BYTES);
    }

    // Form and version, then the length of the connection ID.
    let len = usize::from(*datagram.get(5)?);
    datagram.get(6..6 + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::TransportSettings;

    fn listener() -> Listener {
        let config = TransportSettings::default().to_quiche().unwrap();
        Listener::new(config, ListenOptions::default())
    }

    #[test]
    fn a_reset_is_shorter_than_its_cause_and_ends_with_the_token() {
        let listener = listener();
        let cid = [9; CID_BYTES];
        let token = listener.options.key.reset_token(&cid).to_be_bytes();

        for len in 0..100 {
            match listener.reset(&cid, len) {
                Verdict::Reply(out) => {
                    assert!(out.len() < len && out.len() >= MIN_RESET_BYTES);
                    assert_eq!(out[0] & 0xc0, 0x40);
                    assert!(out.ends_with(&token));
                }
                Verdict::Drop => assert!(len <= MIN_RESET_BYTES),
                Verdict::Accept { .. } => unreachable!(),
            }
        }
    }

    #[test]
    fn a_destination_cid_is_found_or_the_datagram_is_short() {
        let mut short = vec![0x40];
        short.extend([5; CID_BYTES]);
        assert_eq!(destination_cid(&short), Some(&[5; CID_BYTES][..]));
        assert_eq!(destination_cid(&short[..CID_BYTES]), None);

        let long = [0xc0, 0, 0, 0, 1, 3, 7, 8, 9, 0];
        assert_eq!(destination_cid(&long), Some(&[7, 8, 9][..]));
        assert_eq!(destination_cid(&long[..8]), None);
        assert_eq!(destination_cid(&[]), None);
    }
}
