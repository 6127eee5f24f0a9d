//! A client and a server that are connected.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use mpq_identity::Identity;
use mpq_relay::LinkOptions;
use mpq_relay::Relay;

use crate::noq_peer::NoqPeer;
use crate::quiche_peer::QuichePeer;
use crate::server_ip;
use crate::Event;
use crate::OpenError;
use crate::Peer;
use crate::Request;
use crate::APPLICATION_ABANDON_PATH;
use crate::SERVER_NAME;

/// How long a test may take: a hang is a failure, and slowness is none. On an idle machine none takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(180);

/// Who is client, and who is server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Roles {
    NoqClient,
    QuicheClient,
    /// noq with itself, to tell its limits from ours.
    NoqBoth,
}

/// Both sides of a connection. If a test fails, their stories are printed.
pub struct Pair {
    pub client: Box<dyn Peer>,
    pub server: Box<dyn Peer>,
    /// When the test has to be over.
    pub deadline: Instant,
    /// The server's address on each network, or that of the relay before it.
    addresses: Vec<SocketAddr>,
    relays: Vec<Relay>,
}

/// What a test needs to differ from the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// ChaCha20-Poly1305 instead of what the two agree on, which is AES-GCM.
    pub chacha20: bool,
    /// Whether quiche acknowledges a path on another one that is much quicker.
    pub ack_detours: bool,
    /// Whether both ask for fewer acknowledgments (draft-ietf-quic-ack-frequency).
    pub ack_frequency: bool,
    /// A relay on each network whose link is to differ from loopback.
    pub relays: [Option<LinkOptions>; 2],
}

impl Pair {
    /// Connects the two over network 0.
    pub fn connect(roles: Roles, options: Options) -> Pair {
        let deadline = Instant::now() + LIMIT;
        let identity = Identity::new([SERVER_NAME.to_owned()]).unwrap();

        let (server, mut addresses): (Box<dyn Peer>, _) = match roles {
            Roles::NoqClient => {
                let peer = QuichePeer::listen(&identity, options).unwrap();
                let addresses = peer.addresses().to_vec();
                (Box::new(peer), addresses)
            }
            Roles::QuicheClient | Roles::NoqBoth => {
                let peer = NoqPeer::listen(&identity, options).unwrap();
                let addresses = peer.addresses().unwrap();
                (Box::new(peer), addresses)
            }
        };

        let mut relays = Vec::new();
        for (network, link) in (0..).zip(options.relays) {
            let address = &mut addresses[usize::from(network)];
            if let Some(link) = link {
                let mut octets = server_ip(network).octets();
                octets[3] = 3;
                let relay = Relay::start(mpq_relay::Options {
                    bind: (octets, 0).into(),
                    server: *address,
                    routes: Default::default(),
                    link,
                })
                .unwrap();
                *address = relay.address();
                relays.push(relay);
            }
        }

        let client: Box<dyn Peer> = match roles {
            Roles::NoqClient | Roles::NoqBoth => {
                Box::new(NoqPeer::connect(addresses[0], &identity, options).unwrap())
            }
            Roles::QuicheClient => {
                Box::new(QuichePeer::connect(addresses[0], &identity, options).unwrap())
            }
        };

        let pair = Pair {
            client,
            server,
            deadline,
            addresses,
            relays,
        };
        pair.until("multipath on both sides", || {
            pair.client.is_multipath() && pair.server.is_multipath()
        });
        pair
    }

    /// Connects the two, and opens path 1 over network 1.
    pub fn with_two_paths(roles: Roles, options: Options) -> Pair {
        let pair = Pair::connect(roles, options);
        assert_eq!(pair.open_path(1), 1);
        pair
    }

    /// Opens a path over a network, and waits until both sides have validated it. Returns its path ID.
    pub fn open_path(&self, network: u8) -> u64 {
        let remote = self.addresses[usize::from(network)];
        let mut path_id = None;

        self.until("what a new path needs", || {
            path_id = match self.client.open_path(network, remote) {
                Ok(path_id) => Some(path_id),
                Err(OpenError::NotYet) => None,
                Err(OpenError::Refused(why)) => panic!("path not opened: {why}"),
            };
            path_id.is_some()
        });
        let path_id = path_id.unwrap();

        for peer in [&self.client, &self.server] {
            self.event(peer.as_ref(), Event::Available { path_id });
        }
        path_id
    }

    /// Carries a transfer to its end.
    pub fn transfer(&self, request: Request) {
        let transfer = self.client.start(request);
        transfer.wait(self.deadline).unwrap();
    }

    /// Waits for an event at one side.
    pub fn event(&self, peer: &dyn Peer, event: Event) {
        if let Err(e) = peer.journal().wait(self.deadline, |e| *e == event) {
            panic!("waiting for {event:?}: {e}");
        }
    }

    /// Waits until both sides have reported that `by` abandoned a path.
    pub fn abandoned(&self, path_id: u64, by: &dyn Peer) {
        for peer in [&self.client, &self.server] {
            let by_peer = !std::ptr::addr_eq(peer.as_ref(), by);
            let event = Event::Abandoned {
                path_id,
                error_code: Some(APPLICATION_ABANDON_PATH),
                by_peer,
            };
            self.event(peer.as_ref(), event);
        }
    }

    /// Waits until `condition` holds.
    pub fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        while !condition() {
            assert!(Instant::now() < self.deadline, "not in time: {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// How many datagrams the relays dropped.
    pub fn dropped(&self) -> u64 {
        self.relays.iter().map(Relay::dropped).sum()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for (role, peer) in [("client", &self.client), ("server", &self.server)] {
            eprintln!("{role}:\n{}", peer.journal());
            for path in peer.paths() {
                eprintln!("  {path:#?}");
            }
        }
    }
}
