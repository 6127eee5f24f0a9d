//! The emulated link.
//!
//! [`model`] decides what happens to each frame: a pure function from arrival times, sizes and a
//! seed to fates, with no I/O and no clock. The `mpq-wire` binary runs it in real time between two
//! network interfaces; a simulator runs it in virtual time.

pub mod histogram;
pub mod model;
pub mod units;
