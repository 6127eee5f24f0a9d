//! Two links that can be broken, between a client and a server on loopback: link 0 is that of 127.0.0.1, link 1 that of
//! 127.0.0.2.

use std::sync::Arc;
use std::time::Duration;

use mpq_relay::Link;
use mpq_relay::LinkOptions;
use mpq_relay::Options;

/// Of each link. Slow enough that a transfer of megabytes can be disturbed in its middle, and that every processor
/// fills it.
const BYTES_PER_SECOND: u64 = 1_000_000;

/// Relays until dropped.
pub struct Relay(mpq_relay::Relay);

impl Relay {
    /// Two links to the server on `port`.
    pub fn start(port: u16) -> Relay {
        Relay::with_delay(port, Duration::ZERO)
    }

    /// The same, and a datagram travels for `delay`.
    pub fn with_delay(port: u16, delay: Duration) -> Relay {
        let options = Options {
            bind: ([127, 0, 0, 1], 0).into(),
            server: ([127, 0, 0, 1], port).into(),
            routes: Default::default(),
            link: LinkOptions {
                bytes_per_second: Some(BYTES_PER_SECOND),
                delay,
                ..LinkOptions::default()
            },
        };
        Relay(mpq_relay::Relay::start(options).unwrap())
    }

    /// For --connect-to.
    pub fn address(&self) -> String {
        self.0.address().to_string()
    }

    pub fn link(&self, index: u8) -> Arc<Link> {
        self.0.link([127, 0, 0, 1 + index].into())
    }
}
