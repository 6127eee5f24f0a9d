//! Congestion control, per path or coupled over the paths of a connection.
//!
//! [`Group`] is what the transport calls: it runs slow start, recovery periods and the limits that
//! every algorithm shares and asks a [`Controller`] for the two things that differ,
//! the increase in congestion avoidance and the decrease after a loss.
//!
//! To add a controller: one file here, one line in [`CONTROLLERS`].

mod cubic;
mod hystart;
mod lia;
mod olia;
mod reno;
mod window;

use std::fmt;
use std::time::Duration;
use std::time::Instant;

use crate::registry::PathId;
use crate::registry::Registry;
use crate::UnknownName;

pub use window::Group;
pub use window::Options;
pub use window::Window;

/// A controller that can be chosen by name.
pub struct Entry {
    /// The name in configuration files and on command lines.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Makes a fresh controller for one connection.
    pub new: fn() -> Box<dyn Controller>,
}

/// Every controller there is.
pub const CONTROLLERS: &[Entry] = &[
    Entry {
        name: "uncoupled-reno",
        summary: "NewReno on each path by itself",
        new: || Box::new(reno::Reno),
    },
    Entry {
        name: "uncoupled-cubic",
        summary: "CUBIC on each path by itself",
        new: || Box::<cubic::Cubic>::default(),
    },
    Entry {
        name: "lia",
        summary: "Linked Increases (RFC 6356): fair to one TCP at a shared bottleneck",
        new: || Box::new(lia::Lia),
    },
    Entry {
        name: "olia",
        summary: "Opportunistic Linked Increases: LIA made Pareto-optimal",
        new: || Box::new(olia::Olia),
    },
];

/// The controller called `name`, fresh for one connection.
///
/// # Errors
/// [`UnknownName`] lists the names that exist.
pub fn by_name(name: &str) -> Result<Box<dyn Controller>, UnknownName> {
    match CONTROLLERS.iter().find(|entry| entry.name == name) {
        Some(entry) => Ok((entry.new)()),
        None => {
            let valid = CONTROLLERS.iter().map(|entry| entry.name);
            Err(UnknownName::new("congestion controller", name, valid))
        }
    }
}

/// Packets of one path newly acknowledged by one ACK.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Newly acked bytes that counted as in flight.
    pub acked_bytes: u64,
    /// Newly acked packets that counted as in flight.
    pub acked_packets: u64,
    /// When the newest of them was sent.
    pub newest_sent: Instant,
    /// Bytes in flight on the path just before this ACK.
    pub in_flight_before_bytes: u64,
    /// The RTT sample that this ACK gave, if it gave one.
    pub rtt_sample: Option<Duration>,
    /// The sender had run out of data while the window had room.
    pub app_limited: bool,
}

/// Packets of one path newly declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// Bytes declared lost.
    pub lost_bytes: u64,
    /// Packets declared lost.
    pub lost_packets: u64,
    /// When the newest of them was sent.
    pub newest_lost_sent: Instant,
    /// The losses establish persistent congestion (RFC 9002, section 7.6).
    pub persistent: bool,
}

/// What tells one congestion control algorithm from another.
///
/// All windows and increments are in bytes. A controller reads any path through the registry but
/// answers only for the path it is asked about. [`Group`] bounds whatever it answers.
pub trait Controller: fmt::Debug + Send + Sync {
    /// A path joined. Its registry entry and first window are in place.
    fn on_path_added(&mut self, _now: Instant, _id: PathId) {}

    /// A path left; its registry entry may still be there.
    fn on_path_closed(&mut self, _now: Instant, _id: PathId) {}

    /// The path starts over: its 4-tuple changed, congestion was persistent, or it came back from
    /// a failure. Nothing learned about its capacity holds.
    fn on_path_reset(&mut self, _now: Instant, _id: PathId) {}

    /// How much the window of path `id` grows for `ack`, in bytes; may be negative.
    ///
    /// Called in congestion avoidance only: not in slow start, not in recovery, and not while
    /// something other than the window limits the sender.
    fn increase(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64;

    /// The window of path `id` after a congestion event, in bytes; also its new slow-start
    /// threshold. Called at most once per recovery period.
    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64;

    /// An ACK arrived while the window was not what limited the sender, so nothing may grow.
    fn on_underused(&mut self, _now: Instant, _id: PathId) {}
}
