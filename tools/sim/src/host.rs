//! One end of a connection, and the connection that both make.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;

use mpq_decision::paths::Attempts;
use mpq_driver::TransportSettings;
use mpq_wire::model::Nanos;
use quiche::Connection;
use quiche::ConnectionId;

use crate::app::Received;
use crate::app::Sender;
use crate::decisions::Decisions;
use crate::delays::Delays;
use crate::failure::Failure;
use crate::identity;
use crate::network::Route;
use crate::paths::ClientPaths;
use crate::scenario::Flow;
use crate::scenario::MOST_PATHS;
use crate::viewer::Viewer;

/// Never.
pub const NEVER: Nanos = Nanos::MAX;

/// The address of an end of a connection on one of its paths, a client's as it is at first.
pub fn address(connection: usize, path: usize, is_client: bool) -> SocketAddr {
    match is_client {
        true => ClientAddress::FIRST.on(connection, path),
        false => on_path(connection, 10, 2 * path + 2, 4433),
    }
}

/// What tells a client's addresses on one path apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The first byte of the IP address.
    ip: u8,
    port: u16,
}

impl Default for ClientAddress {
    fn default() -> ClientAddress {
        ClientAddress::FIRST
    }
}

impl ClientAddress {
    const FIRST: ClientAddress = ClientAddress { ip: 10, port: 4000 };

    /// Which one this is.
    pub fn of(address: SocketAddr) -> ClientAddress {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.octets()[0],
            IpAddr::V6(_) => 0,
        };
        ClientAddress {
            ip,
            port: address.port(),
        }
    }

    /// The address itself.
    pub fn on(self, connection: usize, path: usize) -> SocketAddr {
        on_path(connection, self.ip, 2 * path + 1, self.port)
    }

    /// What tells a connection's flow on one path from all others, as the addresses and ports do on a link.
    pub fn flow(self, connection: usize, path: usize) -> u64 {
        (connection as u64) << 32
            | (path as u64) << 24
            | u64::from(self.ip) << 16
            | u64::from(self.port)
    }

    /// The one after this at a NAT that forgot its mapping.
    pub fn next_port(self) -> ClientAddress {
        ClientAddress {
            port: self.port.checked_add(1).unwrap_or(1024),
            ..self
        }
    }

    /// The one after this in another network.
    pub fn next_ip(self) -> ClientAddress {
        ClientAddress {
            ip: self.ip.checked_add(1).filter(|ip| *ip < 127).unwrap_or(1),
            ..self
        }
    }
}

fn on_path(connection: usize, first: u8, last: usize, port: u16) -> SocketAddr {
    let [.., high, low] = (connection as u32).to_be_bytes();
    let ip = Ipv4Addr::new(first, high, low, last as u8);
    SocketAddr::new(IpAddr::V4(ip), port)
}

/// Where a client is on one path.
#[derive(Clone, Copy, Debug)]
pub struct ClientEnd {
    /// Its own address, from which it sends.
    pub local: ClientAddress,
    /// The same as the server sees it, behind the NAT.
    pub public: ClientAddress,
    pub has_carrier: bool,
}

impl Default for ClientEnd {
    fn default() -> ClientEnd {
        ClientEnd {
            local: ClientAddress::FIRST,
            public: ClientAddress::FIRST,
            has_carrier: true,
        }
    }
}

/// The path that a datagram between these addresses takes; `None` if they belong to two.
pub fn path_between(from: SocketAddr, to: SocketAddr) -> Option<usize> {
    let path = path_of(from)?;
    (path_of(to) == Some(path)).then_some(path)
}

/// The path of an address that [`address`] made.
pub fn path_of(address: SocketAddr) -> Option<usize> {
    match address.ip() {
        IpAddr::V4(ip) => Some((usize::from(ip.octets()[3]).checked_sub(1)?) / 2),
        IpAddr::V6(_) => None,
    }
    .filter(|path| *path < MOST_PATHS)
}

/// What an end sent and received on a path so far; bytes are UDP payload.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
}

/// One end.
pub struct Host {
    pub quic: Connection,
    pub is_client: bool,
    /// The connection that it belongs to, or may once.
    pub connection: usize,
    /// The attempt at it, whose client and server it is one of.
    pub attempt: usize,
    /// A packet that is to leave later: its slot, its time and its path.
    pub held: Option<(u32, Nanos, usize)>,
    /// When it is to be served next, and the number of that event.
    pub wake_at: Nanos,
    /// When the connection's timer is due, as of the last turn.
    pub timer: Nanos,
    pub wake_number: u64,
    /// Times of its entries in the event queue, the next one last.
    pub queued: Vec<Nanos>,
    pub served_at: Option<Nanos>,
    /// Of an attempt that was not kept: a client that closes as soon as the server can be told.
    pub is_given_up: bool,
    /// Whether it has begun what it is to do once the handshake is over.
    pub has_begun: bool,
    pub sender: Sender,
    pub received: Received,
    pub last_recv_error: Option<quiche::Error>,
    pub traffic: [Traffic; MOST_PATHS],
    next_cid: u32,
}

impl Host {
    pub fn new(quic: Connection, is_client: bool, connection: usize, attempt: usize) -> Host {
        Host {
            quic,
            is_client,
            connection,
            attempt,
            held: None,
            wake_at: NEVER,
            timer: NEVER,
            wake_number: 0,
            queued: Vec::new(),
            served_at: None,
            is_given_up: false,
            has_begun: false,
            sender: Sender::default(),
            received: Received::default(),
            last_recv_error: None,
            traffic: Default::default(),
            next_cid: 1,
        }
    }

    /// Gives the peer all the connection IDs that it has room for.
    pub fn supply_cids(&mut self) {
        let (attempt, is_client) = (self.attempt, self.is_client);
        let next = &mut self.next_cid;
        mpq_driver::multipath::supply_cids(&mut self.quic, || {
            let cid = cid(attempt, is_client, *next);
            *next += 1;
            // Nobody forges resets here; a token only has to be its own.
            let token = cid
                .iter()
                .fold(0, |token, byte| token << 8 | u128::from(*byte));
            (cid, token)
        });
    }
}

/// The `n`-th connection ID of an end of an attempt.
pub fn cid(attempt: usize, is_client: bool, n: u32) -> ConnectionId<'static> {
    let host = (attempt as u32) << 1 | u32::from(is_client);
    let bytes = [host.to_be_bytes(), n.to_be_bytes()].concat();
    ConnectionId::from_vec(bytes)
}

/// A client and a server, which are a connection if their handshake is kept, and else an attempt at
/// one. Those of attempt `i` are the hosts `2 i` and `2 i + 1`.
pub struct Attempt {
    /// The connection.
    pub connection: usize,
    /// The path of the handshake.
    pub path: usize,
    /// Of a flow whose sender's controller is watched.
    pub decisions: Option<Decisions>,
}

/// A flow's connection: what it is to do and what it did.
pub struct ConnectionState {
    pub name: String,
    /// Index of its flow.
    pub flow: usize,
    pub routes: Vec<Route>,
    /// When the next attempt begins.
    pub race: Option<Attempts>,
    /// When [`ConnectionState::race`] will be asked.
    pub race_timer: Nanos,
    /// The attempts so far, by their numbers among all.
    pub attempts: Vec<usize>,
    /// The attempt that the connection is; the first until one is kept.
    pub attempt: usize,
    pub is_kept: bool,
    /// Begin and, if it ended, end.
    pub start: Nanos,
    pub ended: Option<Nanos>,
    pub established: Option<Nanos>,
    /// Transfers or responses that came to their end.
    pub completed: u64,
    /// If they are to be written.
    pub delays: Option<Delays>,
    /// Seconds from request to last byte, for each of them.
    pub times: Vec<f64>,
    /// Of each response, when it was requested and when it was there.
    pub responses: Vec<[Nanos; 2]>,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// Whether the transfer of its direction, or all its responses, came to an end.
    pub is_main_done: bool,
    /// Whether the transfer of the other direction did, or there is none.
    pub is_other_done: bool,
    /// Which paths the client has.
    pub paths: ClientPaths,
    /// Where the client is on each path.
    pub ends: Vec<ClientEnd>,
    pub next_stream: u64,
    /// The request under way: its stream and its time.
    pub request: Option<(u64, Nanos)>,
    pub next_request: Nanos,
    /// Whether what goes on beside the requests was asked for.
    pub has_beside: bool,
    /// Of a flow that plays DASH.
    pub viewer: Option<Viewer>,
}

/// The transport settings of a flow's connections: the tools' own, and what the flow says.
pub fn settings(flow: &Flow) -> TransportSettings {
    let buffer = flow.buffer.as_ref().map(|size| size.value.0);
    let window = buffer.unwrap_or(flow.flow_control.value.0);
    TransportSettings {
        congestion_controller: flow.controller(),
        scheduler: flow.scheduler.clone(),
        max_data: window,
        max_stream_data: window,
        max_send_buffer: buffer,
        max_path_id: (flow.paths.len() > 1).then_some(2 * MOST_PATHS as u64),
        hystart: flow.hystart,
        ack_detours: flow.ack_detours,
        ack_frequency: flow.ack_frequency,
        ecn: flow.ecn,
        pacing: flow.pacing,
        // GREASE is there to find faults of others, and is noise here.
        grease: false,
        idle_timeout: flow.idle_timeout.value.0,
        ..TransportSettings::default()
    }
}

/// quiche's configuration for one end of a flow's connections.
pub fn configuration(flow: &Flow, is_client: bool) -> Result<quiche::Config, String> {
    let tls = match is_client {
        true => identity::client_tls(),
        false => identity::server_tls(),
    };
    let tls = tls.map_err(|e| format!("no TLS: {e}"))?;
    let mut config = settings(flow)
        .to_quiche_with_tls(tls)
        .map_err(|e| e.to_string())?;
    config.verify_peer(false);
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_their_path() {
        for connection in [0, 1, 255, 256, 9_999] {
            for path in 0..MOST_PATHS {
                let client = address(connection, path, true);
                let server = address(connection, path, false);
                assert_eq!(path_between(client, server), Some(path));
                assert_ne!(client, server);
            }
        }
        let mixed = path_between(address(1, 0, true), address(1, 1, false));
        assert_eq!(mixed, None);
        assert_eq!(path_of("192.0.2.200:1".parse().unwrap()), None);
    }

    #[test]
    fn a_client_that_moves_stays_on_its_path() {
        let (connection, path) = (300, 3);
        let first = ClientAddress::FIRST;
        let mut seen = vec![first];
        for _ in 0..100 {
            let last = *seen.last().unwrap();
            seen.extend([last.next_port(), last.next_ip()]);
        }
        for (i, address) in seen.iter().enumerate() {
            let full = address.on(connection, path);
            assert_eq!(ClientAddress::of(full), *address);
            assert_eq!(path_of(full), Some(path));
            assert!(!seen[..i].contains(address));
        }
    }

    #[test]
    fn connection_ids_are_all_different() {
        let mut seen = std::collections::BTreeSet::new();
        for connection in 0..100 {
            for is_client in [false, true] {
                for n in 0..10 {
                    assert!(seen.insert(cid(connection, is_client, n).to_vec()));
                }
            }
        }
    }
}
