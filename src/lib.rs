//! The decision layer of a multipath QUIC sender: how fast each path may send, which path carries
//! the next packet, which path has failed, and which paths exist.
//!
//! ```text
//!            tools, nginx, simulator
//!                      |
//!               patched quiche            sockets, packets, timers, the clock
//!                      |
//!   +------------ this crate -------------+
//!   |  cc      sched      health    paths |   events and `now` in, decisions out
//!   |     \      |          |      /      |
//!   |            registry                 |   what is known about each path
//!   +-------------------------------------+
//! ```
//!
//! Arrows point down only: nothing here knows quiche, a socket or a clock. Every part is a pure
//! state machine that takes the time as an argument ([`std::time::Instant`]) and reads the other
//! paths through the [`Registry`], so the same code runs in a unit test, in a simulator and on a
//! real network, and the same events always give the same decisions.
//!
//! - [`registry`]: one entry per path ID, and who writes which field.
//! - [`params`]: controllers and schedulers by name, with parameters.
//! - [`cc`]: congestion control. [`cc::Group`] is what the transport calls; one controller per file.
//! - [`sched`]: packet schedulers behind the [`sched::Scheduler`] trait; one scheduler per file.
//! - [`acks`]: which way acknowledgments go back.
//! - [`health`]: finds a path that stopped delivering, well before a probe timeout would.
//! - [`paths`]: path managers, which open and close paths.
//!
//! Units: bytes, packets only where a name says so, [`std::time::Duration`], bytes per second.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

/// A table of algorithms, one line for each: the module `x` is the file `x.rs`, and its `ENTRY` is
/// what the table says of it.
macro_rules! table_of_files {
    ($(#[$doc:meta])* pub const $table:ident: &[$entry:ty] = [$($module:ident,)+];) => {
        $(mod $module;)+

        $(#[$doc])*
        pub const $table: &[$entry] = &[$($module::ENTRY),+];
    };
}

pub mod acks;
pub mod cc;
pub mod health;
pub mod params;
mod path_map;
pub mod paths;
pub mod registry;
pub mod sched;

pub use path_map::PathMap;
pub use registry::PathId;
pub use registry::PathState;
pub use registry::Registry;

use std::fmt;

/// A name that is in none of our lists, with the names that are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    valid: Vec<&'static str>,
}

impl UnknownName {
    /// The error for `name`, which is no `kind`; `valid` are the names that are.
    pub fn new(kind: &'static str, name: &str, valid: impl Iterator<Item = &'static str>) -> Self {
        UnknownName {
            kind,
            name: name.to_owned(),
            valid: valid.collect(),
        }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "no {} is called \"{}\"; use one of: {}",
            self.kind,
            self.name,
            self.valid.join(", ")
        )
    }
}

impl std::error::Error for UnknownName {}
