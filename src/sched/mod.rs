//! Packet schedulers: which path carries the next packet.
//!
//! The transport asks [`Scheduler::pick`] once per burst and gets one path, for a number of bytes,
//! or a reason to wait. A scheduler sees the paths through a [`View`], which shows only the best
//! non-empty [`Tier`]: failed and backup paths do not exist for it while better ones do.
//!
//! It may order copies, too ([`Scheduler::duplicate`]): what is in flight on one path is sent on
//! another one as well, and the first acknowledgment of either settles both. What happens besides
//! it hears of as an [`Event`], if it wants to ([`Scheduler::listens`]).
//!
//! The transport keeps a scheduler that errs from doing harm. A path that the view does not show, or
//! one without room, is not used. While nothing is in flight anywhere, so that no acknowledgment
//! will come, nobody waits but for a pacer: the path of least RTT is used, and counted as forced. A
//! wait has no longest time beside that. It is for a path with packets in flight, which an ack, the loss
//! detection or the failure detector ends; and a slow path that would block a small receiver's window
//! is left alone as long as the window is small, which is what ECF and BLEST are for.
//!
//! To add a scheduler: one file here, and one line in [`SCHEDULERS`].

mod measure;
mod opportunistic;
mod seen;
mod tail;
#[cfg(test)]
mod tests;
mod view;
mod way_out;

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
    /// The path that carried it failed, is suspected to have failed, or was abandoned.
    Moved,
}

/// What the transport wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// New data of a stream.
    New {
        /// The stream, which [`Connection::head`] describes.
        stream: StreamKey,
    },
    /// Data sent before.
    Retransmit {
        /// The stream it belongs to, which [`Connection::head`] describes.
        stream: StreamKey,
        /// The path on which it was lost, or waits in vain. Of several the last one.
        from: PathId,
        /// Every path on which data of the stream was lost or waited in vain, since the stream had
        /// nothing left to repeat and all it had repeated was acknowledged.
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
        /// The answer holds for this many bytes, for what was asked and other streams of the same
        /// urgency, unless an ack, loss, timer or data of another kind or urgency comes first.
        /// Keeps GSO batches on one path.
        quantum_bytes: u64,
    },
    /// Send nothing now, because `on` is worth waiting for.
    Wait {
        /// The path whose ack, or whose pacer, ends the wait.
        on: PathId,
        /// The latest time to ask again; `None` when only an ack ends the wait.
        until: Option<Instant>,
    },
    /// This stream shall not use the paths open now; ask for the next stream of the send order.
    ///
    /// After [`MAX_SKIPS`] of them, or when there is no other stream, it means to wait for an ack,
    /// and so it does as long as connection flow control leaves less than the paths' windows: what
    /// the next streams send may not keep the peer from reading on. Each ack offers the stream
    /// again.
    Skip,
    /// No path can be used at all.
    None,
}

/// How many streams may be skipped for one that is sent.
pub const MAX_SKIPS: usize = 4;

/// When a scheduler is asked for copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// There is data to be sent, which waits for the copy. Only for schedulers that
    /// [want it](Scheduler::copies_first).
    BeforeNew,
    /// There is none: the application has written nothing more, or flow control does not let it.
    NothingNew,
}

/// In which order packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// What was sent first.
    Oldest,
    /// What was sent last.
    Newest,
}

/// An order to send copies of stream data in flight on another path.
///
/// It is carried out packet by packet as long as the path that copies has room, and ends with
/// [`most_bytes`](CopyOrder::most_bytes), with the next ack, loss or timer, or when nothing is left
/// that may be copied. Never copied are packets that carry copies, data that was acked, and data
/// that is to be sent again anyhow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyOrder {
    /// Which packet comes first.
    pub which: Which,
    /// Only data of this stream.
    pub stream: Option<StreamKey>,
    /// Only data of streams that the application has ended. In the order of sending, the first
    /// packet with other data ends the search.
    pub ended: bool,
    /// Also what another path has copied before, so that each path carries everything. Otherwise
    /// each packet is copied once.
    pub again: bool,
    /// Not of packets sent at this time or before: they arrive sooner than their copies would.
    pub sent_after: Option<Instant>,
    /// Not of packets sent at this time or later: they are not late.
    pub sent_before: Option<Instant>,
    /// Ask again after so many bytes. The last packet may go beyond it.
    pub most_bytes: u64,
}

/// What a client reports about its playback. A hint of somebody who need not be honest: it may
/// change how much is copied, within bounds, and the order of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QoeReport {
    /// The time that the media received and not played lasts: XLINK's play time left. At most
    /// [`MAX_BUFFERED`].
    pub buffered: Duration,
    /// Bits per second of the media; 0 if unknown.
    pub bitrate_bits_per_sec: u64,
    /// Playback stands still.
    pub stalled: bool,
}

/// No report says more of [`QoeReport::buffered`].
pub const MAX_BUFFERED: Duration = Duration::from_secs(24 * 60 * 60);

/// The newest [`QoeReport`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Playback {
    /// What it says.
    pub report: QoeReport,
    /// When it came.
    pub at: Instant,
}

impl Playback {
    /// The play time left, if playback went on since the report.
    pub fn left(&self, now: Instant) -> Duration {
        let age = match self.report.stalled {
            true => Duration::ZERO,
            false => now.saturating_duration_since(self.at),
        };
        self.report.buffered.saturating_sub(age)
    }
}

/// Something a scheduler may want to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// Packets of a path were acked.
    Acked {
        /// The path.
        path: PathId,
        /// How many bytes, of packets that were in flight.
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
    /// Packets declared lost were acked after all.
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
    /// Nothing is left to be sent.
    AppLimited,
    /// There is something again.
    Resumed,
    /// A stream's last byte is in the send buffer.
    StreamEnd {
        /// The stream.
        stream: StreamKey,
    },
    /// All of a stream was acked.
    StreamAcked {
        /// The stream.
        stream: StreamKey,
    },
    /// Flow control stops the stream, or the connection if `None`, with more to be written.
    FlowBlocked {
        /// The stream.
        stream: Option<StreamKey>,
    },
    /// The client reported its playback.
    Qoe(QoeReport),
    /// The application announced the length of a stream, or when it must be there.
    Segment {
        /// The stream.
        stream: StreamKey,
        /// Its length, if announced.
        announced_bytes: Option<u64>,
        /// When it must be there, if there is such a time.
        deadline: Option<Instant>,
    },
    /// A copy was acked. Lost ones are not told of.
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

    /// What path `spare` shall repeat of what path `from` has in flight, now or as soon as its
    /// pacer allows. Asked for each two paths, with or without room, `spare` one that the view
    /// shows. By default nothing; copies of the tail are not a scheduler's business
    /// ([`Chosen`]).
    fn duplicate(
        &mut self,
        _now: Instant,
        _view: &View,
        _spare: PathId,
        _from: PathId,
        _moment: Moment,
    ) -> Option<CopyOrder> {
        None
    }

    /// Whether to be asked for copies while there is other data to be sent
    /// ([`Moment::BeforeNew`]), at the moment.
    fn copies_first(&self) -> bool {
        false
    }

    /// Whether the tail may be copied where the scheduler orders nothing, at the moment; asked after
    /// [`Scheduler::duplicate`].
    fn copies_tail(&self) -> bool {
        true
    }

    /// Whether to be told of events, always.
    fn listens(&self) -> bool {
        false
    }

    /// Something happened.
    fn on_event(&mut self, _now: Instant, _view: &View, _event: &Event) {}

    /// When the scheduler wants to be asked again without any event; joins the connection's timer.
    /// Read after each pick, question for copies and event; a time that has passed is none.
    fn next_wake(&self) -> Option<Instant> {
        None
    }
}

/// A scheduler that can be chosen by name, and all that `--help` and a manual say about it.
#[derive(Debug)]
pub struct Entry {
    /// The name in configuration files and on command lines.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// What it tries to do, in a sentence or two.
    pub idea: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// When it sends where, in the symbols of the source, steps parted by "; ".
    pub rule: &'static str,
    /// When it is the right choice.
    pub use_when: &'static str,
    /// What it gets wrong.
    pub wrong: &'static str,
    /// Where it departs from the source, or what it takes for what the source leaves open.
    pub deviations: &'static [&'static str],
    /// Its parameters; see [`Choice`].
    pub params: &'static [Param],
    /// Makes a fresh scheduler for one connection.
    pub new: fn(&Settings) -> Box<dyn Scheduler>,
}

impl Entry {
    /// The file that has it, from the project's root.
    pub fn file(&self) -> String {
        format!("src/sched/{}.rs", self.name.replace('-', "_"))
    }
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
        blest,
        otias,
        round_robin,
        cost_aware,
        redundant,
        xlink,
    ];
}

/// A scheduler from [`SCHEDULERS`] and its parameters: `min-rtt`, `ecf:tail=off`.
pub type Choice = crate::params::Choice<Entry>;

impl Choice {
    /// A fresh scheduler, for one connection.
    pub fn scheduler(&self) -> Chosen {
        let is_on = |param: Param| {
            self.settings().has(param.name) && self.settings().word(param.name) == "on"
        };
        let scheduler = (self.entry().new)(self.settings());
        Chosen {
            listens: scheduler.listens(),
            scheduler,
            opportunistic: is_on(opportunistic::PARAM),
            tail: is_on(tail::PARAM),
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

/// A scheduler, as a [`Choice`] wants it: with copies of the tail and of what blocks flow control, or
/// without.
#[derive(Debug)]
pub struct Chosen {
    scheduler: Box<dyn Scheduler>,
    /// Whether the scheduler is told of events.
    listens: bool,
    /// Whether what blocks flow control is copied where the scheduler orders nothing.
    opportunistic: bool,
    /// Whether the tail is copied where the scheduler orders nothing.
    tail: bool,
}

/// A scheduler from elsewhere, without copies of the tail.
impl From<Box<dyn Scheduler>> for Chosen {
    fn from(scheduler: Box<dyn Scheduler>) -> Self {
        Chosen {
            listens: scheduler.listens(),
            scheduler,
            opportunistic: false,
            tail: false,
        }
    }
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
        moment: Moment,
    ) -> Option<CopyOrder> {
        let order = self.scheduler.duplicate(now, view, spare, from, moment);
        if order.is_some() || moment == Moment::BeforeNew {
            return order;
        }
        let opportunistic = || opportunistic::copy(now, view, spare, from);
        let tail = || tail::copy(now, view, spare, from);
        let blocking = self.opportunistic.then(opportunistic).flatten();
        let copies_tail = self.tail && self.scheduler.copies_tail();
        blocking.or_else(|| copies_tail.then(tail).flatten())
    }

    fn copies_first(&self) -> bool {
        self.scheduler.copies_first()
    }

    fn listens(&self) -> bool {
        self.listens
    }

    fn on_event(&mut self, now: Instant, view: &View, event: &Event) {
        self.scheduler.on_event(now, view, event);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.scheduler.next_wake()
    }
}
