//! Two connections with multipath in virtual time, one of which meets a peer that sends anything.
//!
//! The handshake is a real one. After it, an input is a list of operations: frames put into packets of
//! any path and address, real packets with bytes changed, time that passes, what applications do.
//! quiche's feature "fuzzing" leaves packets unencrypted, so what is put into them reaches the frames.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use quiche::Config;
use quiche::Connection;
use quiche::ConnectionId;
use quiche::RecvInfo;

/// Datagrams that a connection may send without being asked again. A window of 14,720 bytes on four
/// paths takes 50.
const MOST_DATAGRAMS: usize = 2_000;

/// Timeouts in a row, each later than the one before, until the connection closed: a probe each second,
/// for as long as the peer made the probe timeout.
const MOST_TIMEOUTS: usize = 100_000;

/// Timeouts in a row for which no time passes: who is late finds a few of a back-off due, one after the other.
const MOST_AT_ONCE: usize = 20;

/// Longer than any idle timeout, which is three probe timeouts if they are long (RFC 9000, section 10.1).
const LONG: Duration = Duration::from_secs(86_400);

/// 4-tuples and connection IDs that a connection may hold, whatever its peer does: a few of each path
/// ID that the limits allow.
const MOST_PATHS: usize = 64;
const MOST_CIDS: usize = 128;

const MAX_PATH_ID: u64 = 3;
const CID_BYTES: usize = 8;
const TAG_BYTES: usize = 16;
const DATAGRAM: usize = 1500;

/// Which end is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Client,
    Server,
}

struct Pair {
    client: Connection,
    server: Connection,
    target: Target,
    now: Instant,
    /// Numbers of the packets that are made up, above those of the handshake.
    next_pn: u32,
    next_cid: u64,
}

fn config(is_server: bool) -> Config {
    let mut config = Config::new(quiche::PROTOCOL_VERSION).expect("a configuration");
    if is_server {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../vendor/quiche/examples");
        config
            .load_cert_chain_from_pem_file(&format!("{folder}/cert.crt"))
            .expect("quiche's certificate");
        config
            .load_priv_key_from_pem_file(&format!("{folder}/cert.key"))
            .expect("quiche's key");
    }
    config.set_application_protos(&[b"fuzz"]).expect("a name");
    config.verify_peer(false);
    config.set_max_idle_timeout(30_000);
    config.set_initial_max_data(200_000);
    config.set_initial_max_stream_data_bidi_local(100_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    config.set_initial_max_stream_data_uni(100_000);
    config.set_initial_max_streams_bidi(8);
    config.set_initial_max_streams_uni(8);
    config.set_active_connection_id_limit(3);
    config
        .set_initial_max_path_id(MAX_PATH_ID)
        .expect("a path ID");
    config.enable_dgram(true, 16, 16);
    config.enable_timestamps(true);
    config.discover_pmtu(true);
    config.grease(false);
    config
}

thread_local! {
    static CONFIGS: RefCell<[Config; 2]> = RefCell::new([config(false), config(true)]);
}

fn client_address(path: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + path % 4], 4000 + u16::from(path / 4 % 4)))
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 443))
}

/// An input, read from its front.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> usize {
        usize::from(u16::from_be_bytes([self.byte(), self.byte()]))
    }

    fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        first
    }
}

/// Attacks `target` with the operations in `input`.
///
/// # Panics
///
/// If a connection panics, sends or times out without an end, or holds more state than it may.
pub fn attack(target: Target, input: &[u8]) {
    let start = Instant::now();
    quiche::clock::set(Some(start));
    quiche::rand::seed(Some(1));
    let mut pair = Pair::new(target, start);
    pair.handshake();
    let mut input = Input(input);
    while !input.0.is_empty() && !pair.target().is_closed() {
        pair.step(&mut input);
        pair.check();
    }
    pair.let_time_pass(LONG);
    assert!(
        pair.target().is_closed() || pair.target().is_draining(),
        "the idle timeout is over: {:?}",
        pair.target().path_stats().collect::<Vec<_>>()
    );
    quiche::clock::set(None);
}

impl Pair {
    fn new(target: Target, now: Instant) -> Pair {
        let (a, b) = (client_address(0), server_address());
        let cid = |n: u8| ConnectionId::from_vec(vec![n; CID_BYTES]);
        let (client, server) = CONFIGS.with_borrow_mut(|[client, server]| {
            (
                quiche::connect(None, &cid(0xc0), a, b, client).expect("a client"),
                quiche::accept(&cid(0x50), None, b, a, server).expect("a server"),
            )
        });
        Pair {
            client,
            server,
            target,
            now,
            next_pn: 10_000,
            next_cid: 1,
        }
    }

    fn target(&mut self) -> &mut Connection {
        match self.target {
            Target::Client => &mut self.client,
            Target::Server => &mut self.server,
        }
    }

    fn peer(&mut self) -> &mut Connection {
        match self.target {
            Target::Client => &mut self.server,
            Target::Server => &mut self.client,
        }
    }

    fn handshake(&mut self) {
        for _ in 0..20 {
            self.exchange();
            self.supply_cids();
        }
        assert!(self.client.is_multipath() && self.server.is_multipath());
        let opened = self.client.open_path(client_address(1), server_address());
        assert_eq!(opened, Ok(1));
        for _ in 0..10 {
            self.exchange();
            self.supply_cids();
        }
    }

    fn supply_cids(&mut self) {
        for is_client in [true, false] {
            let next = &mut self.next_cid;
            let quic = match is_client {
                true => &mut self.client,
                false => &mut self.server,
            };
            mpq_driver::multipath::supply_cids(quic, || {
                *next += 1;
                let bytes = (*next << 1 | u64::from(is_client)).to_be_bytes();
                (ConnectionId::from_vec(bytes.to_vec()), u128::from(*next))
            });
            while quic.retired_scid_next().is_some() {}
        }
    }

    /// What both want to send arrives.
    fn exchange(&mut self) {
        self.now += Duration::from_millis(5);
        quiche::clock::set(Some(self.now));
        for from_client in [true, false] {
            for (mut bytes, info) in self.flight(from_client) {
                let to = match from_client {
                    true => &mut self.server,
                    false => &mut self.client,
                };
                // Nobody's word is to be trusted here.
                let _ = to.recv(&mut bytes, info);
            }
        }
        self.events();
    }

    /// What one of them wants to send now.
    fn flight(&mut self, from_client: bool) -> Vec<(Vec<u8>, RecvInfo)> {
        let from = match from_client {
            true => &mut self.client,
            false => &mut self.server,
        };
        let mut datagrams = Vec::new();
        let mut out = [0; DATAGRAM];
        let mut train = [0; 4 * DATAGRAM];
        while let Ok((len, info)) = from.send(&mut out) {
            let info = RecvInfo {
                from: info.from,
                to: info.to,
            };
            datagrams.push((out[..len].to_vec(), info));
            let more = from.send_train(&mut train).unwrap_or(0);
            let others = train[..more].chunks(len);
            datagrams.extend(others.map(|datagram| (datagram.to_vec(), info)));
            assert!(datagrams.len() < MOST_DATAGRAMS, "it sends without an end");
        }
        datagrams
    }

    fn events(&mut self) {
        for quic in [&mut self.client, &mut self.server] {
            while let Some(event) = quic.path_event_next() {
                mpq_driver::multipath::on_event(quic, event);
            }
        }
    }

    fn step(&mut self, input: &mut Input) {
        let is_peer_client = self.target == Target::Server;
        match input.byte() % 12 {
            // Frames, in a packet of the peer's.
            0..=3 => {
                let (cid, address) = (input.byte(), input.byte());
                let len = input.number() % 1_200;
                let frames = input.bytes(len);
                self.inject(cid, address, frames);
            }
            // A real packet with some bytes changed.
            4 => {
                let changes: Vec<(usize, u8)> = (0..1 + input.byte() % 4)
                    .map(|_| (input.number(), input.byte()))
                    .collect();
                for (mut bytes, info) in self.flight(is_peer_client) {
                    for (at, mask) in &changes {
                        let at = at % bytes.len();
                        bytes[at] ^= mask;
                    }
                    let _ = self.target().recv(&mut bytes, info);
                }
            }
            // Any bytes, in a datagram.
            5 => {
                let address = input.byte();
                let len = input.number() % DATAGRAM;
                let mut bytes = input.bytes(len).to_vec();
                let info = self.info(address);
                let _ = self.target().recv(&mut bytes, info);
            }
            6 => {
                let pause = Duration::from_millis(input.number() as u64);
                self.let_time_pass(pause);
            }
            7 => self.exchange(),
            // The peer hears nothing.
            8 => drop(self.flight(!is_peer_client)),
            9 => {
                let (stream, len) = (u64::from(input.byte() % 32), input.number() % 20_000);
                let is_last = len % 2 == 0;
                let quic = match input.byte() % 2 {
                    0 => self.target(),
                    _ => self.peer(),
                };
                let _ = quic.stream_send(stream, &vec![7; len], is_last);
            }
            10 => {
                let mut buf = [0; 4096];
                let quic = self.target();
                while let Some(stream) = quic.stream_readable_next() {
                    while quic
                        .stream_recv(stream, &mut buf)
                        .is_ok_and(|(_, fin)| !fin)
                    {}
                }
                while quic.dgram_recv(&mut buf).is_ok() {}
            }
            _ => self.manage_paths(input),
        }
        self.events();
        self.supply_cids();
    }

    fn manage_paths(&mut self, input: &mut Input) {
        let (what, path) = (input.byte(), input.byte());
        let path_id = u64::from(path % 8);
        match what % 5 {
            0 => {
                let local = client_address(path);
                let _ = self.client.open_path(local, server_address());
            }
            1 => {
                let _ = self.target().abandon_path(path_id, 0);
            }
            2 => {
                let _ = mpq_driver::multipath::set_status(self.target(), path_id, path & 8 != 0);
            }
            3 => {
                let _ = self
                    .target()
                    .retire_dcid_on_path(path_id, u64::from(path / 8));
            }
            _ => self.target().report_link_down(client_address(path)),
        }
    }

    fn info(&self, address: u8) -> RecvInfo {
        match self.target {
            Target::Server => RecvInfo {
                from: client_address(address),
                to: server_address(),
            },
            Target::Client => RecvInfo {
                from: server_address(),
                to: client_address(address),
            },
        }
    }

    /// Lets the target receive a packet with these frames, to one of its connection IDs.
    fn inject(&mut self, cid: u8, address: u8, frames: &[u8]) {
        let cids: Vec<Vec<u8>> = self.target().source_ids().map(|id| id.to_vec()).collect();
        let Some(cid) = cids.get(usize::from(cid) % cids.len().max(1)) else {
            return;
        };
        self.next_pn += 1;
        // Short header, fixed bit, a packet number of four bytes; no header protection.
        let mut packet = vec![0x43];
        packet.extend_from_slice(cid);
        packet.extend_from_slice(&self.next_pn.to_be_bytes());
        packet.extend_from_slice(frames);
        packet.extend_from_slice(&[0; TAG_BYTES]);
        let info = self.info(address);
        let _ = self.target().recv(&mut packet, info);
    }

    fn let_time_pass(&mut self, pause: Duration) {
        let until = self.now + pause;
        let mut at_once = 0;
        for n in 0.. {
            assert!(n < MOST_TIMEOUTS, "it times out without an end");
            let Some(at) = self.target().timeout_instant().filter(|at| *at <= until) else {
                break;
            };
            at_once = if at > self.now { 0 } else { at_once + 1 };
            assert!(
                at_once < MOST_AT_ONCE,
                "due at once again and again: {:?}",
                self.target().path_stats().collect::<Vec<_>>()
            );
            self.now = self.now.max(at);
            quiche::clock::set(Some(self.now));
            self.target().on_timeout();
            // What it sends is lost.
            drop(self.flight(self.target == Target::Client));
        }
        self.now = self.now.max(until);
        quiche::clock::set(Some(self.now));
    }

    fn check(&mut self) {
        drop(self.flight(self.target == Target::Client));
        let target = self.target();
        let (paths, cids) = (target.path_stats().count(), target.source_ids().count());
        assert!(paths <= MOST_PATHS, "{paths} 4-tuples");
        assert!(cids <= MOST_CIDS, "{cids} connection IDs");
    }
}
