//! A headless DASH player core.
//!
//! Nothing here does I/O or reads a clock: the caller fetches what [`player::Player`] asks for and
//! passes time in, so a session runs the same over a real connection and under virtual time.
//!
//! ```text
//! bytes of the MPD -> mpd -> player -> Fetch { url, range } -> the caller's connection
//!                             |  ^                                  |
//!             abr <- throughput  +--- on_progress, on_done, on_failed
//!                             |
//!                        buffer (startup, stalls) -> qoe -> session::Report
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod abr;
pub mod buffer;
pub mod isobmff;
pub mod live;
pub mod mpd;
pub mod player;
pub mod qoe;
pub mod session;
pub mod throughput;
