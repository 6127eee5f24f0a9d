//! Packet schedulers: which path carries the next packet.
//!
//! The transport asks [`Scheduler::pick`] once per burst and gets one path, for a number of bytes,
//! or a reason to wait. A scheduler sees the paths through a [`View`], which shows only the best
//! non-empty [`Tier`]: failed and backup paths do not exist for it while better ones do.
//!
//! To add a scheduler: one file here, and one line in [`SCHEDULERS`].

mod tail;
mod view;

use std::fmt;
use std::time::Duration;
use std::time::Instant;

use crate::health::Health;
use crate::registry::PathId;

pub use crate::params::InvalidChoice;
use crate::params::Listed;
use crate::params::Param;
use crate::params::Settings;
pub use view::Connection;
pub use view::HeadStream;
pub use view::Tier;
pub use view::View;
pub use view::URGENCIES;

/// The longest burst a pick may be good for: one UDP_SEGMENT batch.
pub const MAX_QUANTUM_BYTES: u64 = 64 * 1024;

/// A stream, by its QUIC stream ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey(pub u64);

/// A few path IDs, held inline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSet {
    ids: [Option<PathId>; PathSet::CAPACITY],
}

impl PathSet {
    /// How many paths the set can hold.
    pub const CAPACITY: usize = 8;

    /// Adds a path. When the set is full it forgets the oldest, so that it errs towards trying a
    /// path again.
    pub fn insert(&mut self, id: PathId) {
        if self.contains(id) {
            return;
        }
        match self.ids.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(id),
            None => {
                self.ids.rotate_left(1);
                self.ids[PathSet::CAPACITY - 1] = Some(id);
            }
        }
    }

    /// Whether the path is in the set.
    pub fn contains(&self, id: PathId) -> bool {
        self.ids.contains(&Some(id))
    }
}

/// Why data is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was declared lost.
    Lost,
    /// A probe timeout made it eligible on another path.
    Pto,
    /// The path that carried it failed.
    Moved,
}

/// What the transport wants to send.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// New data of a stream.
    New {
        /// The stream at the head of the send order.
        stream: StreamKey,
    },
    /// Data sent before.
    Retransmit {
        /// The stream it belongs to.
        stream: StreamKey,
        /// The path that carried it last.
        from: PathId,
        /// Every path that carried it.
        tried: PathSet,
        /// Why it is sent again.
        why: Why,
    },
    /// A DATAGRAM frame, which cannot be split.
    Datagram {
        /// Its length.
        len_bytes: u32,
    },
}

/// The answer to an [`Ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Send on `path`.
    Send {
        /// The path.
        path: PathId,
        /// The answer holds for this many bytes, unless an ack, loss, timer or stream change comes
        /// first. Keeps GSO batches on one path.
        quantum_bytes: u64,
    },
    /// Send nothing now, because `on` is worth waiting for.
    Wait {
        /// The path whose ack, or whose pacer, ends the wait.
        on: PathId,
        /// The latest time to ask again; `None` when only an ack ends the wait.
        until: Option<Instant>,
    },
    /// This stream shall not use the paths open now; ask for the next stream.
    Skip,
    /// No path can be used at all.
    None,
}

/// An order to send a copy of stream data in flight on another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOrder {
    /// Not of packets sent at this time or before: they arrive sooner than their copies would.
    pub sent_after: Instant,
}

/// What a client reports about its playback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QoeReport {
    /// Media bytes received and not played.
    pub cached_bytes: u64,
    /// Media frames received and not played.
    pub cached_frames: u64,
    /// Bits per second of the media.
    pub bitrate_bits_per_sec: u64,
    /// Frames per second of the media.
    pub frames_per_sec: f64,
}

/// Something a scheduler may want to know.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Packets of a path were acked.
    Acked {
        /// The path.
        path: PathId,
        /// How many bytes.
        bytes: u64,
        /// When the newest was sent.
        newest_sent: Instant,
        /// The RTT sample, if there was one.
        rtt: Option<Duration>,
    },
    /// Packets of a path were declared lost.
    Lost {
        /// The path.
        path: PathId,
        /// How many bytes.
        bytes: u64,
    },
    /// A probe timeout of a path.
    Pto {
        /// The path.
        path: PathId,
        /// How many in a row.
        count: u32,
    },
    /// A packet declared lost was acked after all.
    Spurious {
        /// The path.
        path: PathId,
    },
    /// A path's health changed.
    PathState {
        /// The path.
        path: PathId,
        /// What it was.
        old: Health,
        /// What it is.
        new: Health,
    },
    /// A path's peer or local status changed.
    Status {
        /// The path.
        path: PathId,
    },
    /// The application has no more data for now.
    AppLimited,
    /// The application has data again.
    Resumed,
    /// A stream's last byte is in the send buffer.
    StreamEnd {
        /// The stream.
        stream: StreamKey,
    },
    /// A stream's last byte was acked.
    StreamAcked {
        /// The stream.
        stream: StreamKey,
    },
    /// Flow control stops the stream, or the connection if `None`.
    FlowBlocked {
        /// The stream.
        stream: Option<StreamKey>,
    },
    /// The client reported its playback.
    Qoe(QoeReport),
    /// The application announced a segment of a stream.
    Segment {
        /// The stream.
        stream: StreamKey,
        /// Its length.
        len: u64,
        /// When it must be there.
        deadline: Instant,
    },
    /// A copy was resolved.
    CopyResult {
        /// How many bytes.
        bytes: u64,
        /// The copy was acked before the original.
        useful: bool,
    },
}

/// Chooses the path of each burst. A pure state machine: the time is an argument.
pub trait Scheduler: fmt::Debug + Send + Sync {
    /// Where to send what `ask` names. Never a path that the view does not show, or one without
    /// room.
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick;

    /// Whether to send on `spare`, now or as soon as its pacer allows, a copy of what was sent last
    /// on `from`. Asked when no new data is left. By default: if it will be acknowledged sooner.
    fn duplicate(
        &mut self,
        now: Instant,
        view: &View,
        spare: PathId,
        from: PathId,
    ) -> Option<CopyOrder> {
        tail::copy(now, view, spare, from)
    }

    /// Something happened.
    fn on_event(&mut self, _now: Instant, _view: &View, _event: &Event) {}

    /// When the scheduler wants to be asked again without any event; joins the connection's timer.
    fn next_wake(&self) -> Option<Instant> {
        None
    }
}

/// A scheduler that can be chosen by name.
#[derive(Debug)]
pub struct Entry {
    /// The name in configuration files and on command lines.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// Its parameters; see [`Choice`].
    pub params: &'static [Param],
    /// Makes a fresh scheduler for one connection.
    pub new: fn(&Settings) -> Box<dyn Scheduler>,
}

impl Listed for Entry {
    const KIND: &'static str = "scheduler";
    const TABLE: &'static [Entry] = SCHEDULERS;

    fn name(&self) -> &'static str {
        self.name
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

table_of_files! {
    /// Every scheduler there is; the first is the default.
    pub const SCHEDULERS: &[Entry] = [
        min_rtt,
        ecf,
    ];
}

/// A scheduler from [`SCHEDULERS`] and its parameters: `min-rtt`, `ecf:tail=off`.
pub type Choice = crate::params::Choice<Entry>;

impl Choice {
    /// A fresh scheduler, for one connection.
    pub fn scheduler(&self) -> Chosen {
        let tail = tail::PARAM.name;
        Chosen {
            scheduler: (self.entry().new)(self.settings()),
            tail: self.settings().has(tail) && self.settings().word(tail) == "on",
        }
    }
}

impl Default for Choice {
    fn default() -> Self {
        Choice::defaults(&SCHEDULERS[0])
    }
}

/// The scheduler that `text` describes, fresh for one connection; see [`Choice`].
///
/// # Errors
/// [`InvalidChoice`] lists what would be accepted.
pub fn by_name(text: &str) -> Result<Chosen, InvalidChoice> {
    Ok(text.parse::<Choice>()?.scheduler())
}

/// A scheduler, as a [`Choice`] wants it.
#[derive(Debug)]
pub struct Chosen {
    scheduler: Box<dyn Scheduler>,
    /// Whether it may order copies of the tail.
    tail: bool,
}

impl Scheduler for Chosen {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        self.scheduler.pick(now, view, ask)
    }

    fn duplicate(
        &mut self,
        now: Instant,
        view: &View,
        spare: PathId,
        from: PathId,
    ) -> Option<CopyOrder> {
        match self.tail {
            true => self.scheduler.duplicate(now, view, spare, from),
            false => None,
        }
    }

    fn on_event(&mut self, now: Instant, view: &View, event: &Event) {
        self.scheduler.on_event(now, view, event);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.scheduler.next_wake()
    }
}
