//! What an emulated link does to frames, as a pure function of arrival times, sizes and a seed.
//!
//! ```text
//! frame -> up? -> queue (drop-tail, CoDel) -> server (rate) -> loss -> delay (jitter) -> due
//! ```
//!
//! With queues by flow ([`FairDirection`]) a frame waits in its flow's queue until its turn comes, which
//! later arrivals decide, too.
//!
//! - The server sends one frame at a time: `departure = max(server free, arrival) + 8 * size / rate`.
//! - Loss comes after the server, so a lost frame has used its share of the rate, as a frame
//!   corrupted on the air does and as netem behind a shaper behaves.
//! - Frames overtake each other within a direction only where reordering is asked for.
//! - One number is drawn per arriving frame and purpose whatever the frame's fate, so the loss
//!   sequence depends on the frame's index and on nothing else.
//!
//! Rate, queue and counters see a frame's *charged size*: by default its IP bytes, that is the
//! Ethernet frame without its 14-byte header (and without FCS, which AF_PACKET never shows), plus
//! a configured framing overhead (0 = IP, 14 = Ethernet, 38 = on the wire).

mod codel;
mod delay;
mod direction;
mod fair;
mod flow_queues;
mod loss;
mod medium;
mod queue;
mod schedule;
mod seed;
mod server;
mod trace;

pub use codel::Aqm;
pub use delay::Reordering;
pub use direction::Direction;
pub use direction::DirectionConfig;
pub use direction::Fate;
pub use direction::ScheduleInForce;
pub use fair::Decided;
pub use fair::FairDirection;
pub use loss::Loss;
pub use loss::LossModel;
pub use queue::QueueLimit;
pub use schedule::Change;
pub use schedule::Event;
pub use schedule::Schedule;
pub use seed::Generator;
pub use seed::Purpose;
pub use seed::Seeds;
pub use seed::Way;
pub use trace::Trace;

/// Nanoseconds since the link came up.
pub type Nanos = u64;

/// Length of the Ethernet header that the charged size leaves out, in bytes.
pub const ETHERNET_HEADER: u32 = 14;

/// Charged size of a full Ethernet frame (MTU 1500, framing overhead 0), in bytes.
pub const FULL_FRAME: u64 = 1500;
