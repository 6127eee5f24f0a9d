//! Congestion control, per path or coupled over the paths of a connection.
//!
//! [`Group`] is what the transport calls: it runs slow start, recovery periods and the limits that
//! every algorithm shares and asks a [`Controller`] for what differs: the increase in congestion
//! avoidance and the decrease after a loss, and for some a step per round trip or at a time.
//!
//! | file                  | what the controllers share                                      |
//! |-----------------------|-----------------------------------------------------------------|
//! | `group`               | when what is asked: [`Group`]                                    |
//! | `window`, `hystart`   | a path's slow start, recovery, limits, pacing                    |
//! | `careful_resume`      | a path that carried much before begins with more                 |
//! | `start`               | a path begins faster than by doubling, where there is room       |
//! | `re_entry`            | a slow start that an unlucky loss has ended goes on              |
//! | `flows`               | what a controller keeps of each path                             |
//! | `members`, `units`    | which paths are coupled, in packets and seconds                  |
//! | `shares`              | each path's share of the rate, and delta = share^m               |
//! | `delay`               | queueing delay, one-way or from round trips                      |
//! | `bottlenecks`         | which paths share one (DC-LEDBAT)                                |
//! | `sbd`                 | which paths share one, by delays that move together             |
//! | `binomial`            | SQRT, IIAD and their coupled forms                               |
//! | `counting`            | growth for each ACK, where ACKs are delayed                      |
//! | `model`               | what those that know rate and RTT of a path are told and answer   |
//! | `trace`               | what was decided                                                 |
//!
//! To add a controller: one file here, and one line in [`CONTROLLERS`].

mod binomial;
mod bottlenecks;
mod careful_resume;
mod counting;
mod delay;
mod flows;
mod group;
mod hystart;
mod members;
mod model;
mod re_entry;
mod sbd;
mod shares;
mod start;
#[cfg(test)]
mod testing;
mod trace;
mod units;
mod window;

use std::fmt;
use std::time::Duration;
use std::time::Instant;

pub use crate::params::InvalidChoice;
use crate::params::Listed;
pub use crate::params::Param;
pub use crate::params::Settings;
pub use crate::params::Unit;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;
pub use careful_resume::Saved;
use flows::boxed;
pub use flows::AnyController;
pub use flows::Own;
pub use group::Group;
pub use group::Options;
pub use group::Window;
pub use model::Control;
pub use model::Flight;
pub use model::RateSample;
pub use start::Start;
pub use trace::Phase;
pub use trace::Trace;

/// A controller that can be chosen by name, and all that `--help` and a manual say about it.
#[derive(Debug)]
pub struct Entry {
    /// The name in configuration files and on command lines.
    pub name: &'static str,
    /// Whether the paths of a connection share one decision; if not, each is treated by itself.
    pub coupled: bool,
    /// One line for `--help`.
    pub summary: &'static str,
    /// What it tries to do, in a sentence or two.
    pub idea: &'static str,
    /// The document that defines it.
    pub source: &'static str,
    /// Increase and decrease, in the symbols of the source; w in packets, times in seconds.
    pub formula: &'static str,
    /// When it is the right choice.
    pub use_when: &'static str,
    /// When it is not.
    pub avoid_when: &'static str,
    /// Where it departs from the source, or what it takes for what the source leaves open.
    pub deviations: &'static [&'static str],
    /// Its parameters; see [`Choice`].
    pub params: &'static [Param],
    /// Makes a fresh controller for one connection.
    pub new: fn(&Settings) -> Box<dyn AnyController>,
}

impl Entry {
    /// The controller with its parameters at their defaults, fresh for one connection.
    pub fn with_defaults(&self) -> Box<dyn AnyController> {
        (self.new)(&Settings::defaults(self.params))
    }

    /// The file that has it, from the project's root. It has the controller's name, less the
    /// "uncoupled-" that tells this from a controller of the transport's.
    pub fn file(&self) -> String {
        let name = self.name.strip_prefix("uncoupled-").unwrap_or(self.name);
        format!("src/cc/{}.rs", name.replace('-', "_"))
    }
}

impl Listed for Entry {
    const KIND: &'static str = "congestion controller";
    const TABLE: &'static [Entry] = CONTROLLERS;

    fn name(&self) -> &'static str {
        self.name
    }

    fn params(&self) -> &'static [Param] {
        self.params
    }
}

/// A controller from [`CONTROLLERS`] and its parameters: `lia`, `dc-ledbat:ret=10s,zeta=1`.
pub type Choice = crate::params::Choice<Entry>;

impl Choice {
    /// What the shared machinery does for it, besides what the transport decides.
    pub fn options(&self) -> Options {
        let re_entry = re_entry::PARAM.name;
        let start = start::PARAM.name;
        let ssthresh = start::SSTHRESH.name;
        let min_window = start::MIN_WINDOW.name;
        Options {
            start: match self.settings().has(start) {
                true => Start::named(self.settings().word(start)),
                false => Start::Slow,
            },
            re_entry: self.settings().has(re_entry) && self.settings().word(re_entry) == "on",
            ssthresh_packets: match self.settings().has(ssthresh) {
                true => self.settings().get(ssthresh) as u32,
                false => 0,
            },
            min_window_packets: match self.settings().has(min_window) {
                true => self.settings().get(min_window) as u32,
                false => Options::default().min_window_packets,
            },
            ..Options::default()
        }
    }

    /// A fresh controller, for one connection. Put it into a [`Group`] with [`Choice::options`].
    pub fn controller(&self) -> Box<dyn AnyController> {
        (self.entry().new)(self.settings())
    }
}

table_of_files! {
    /// Every controller there is: first those that treat each path by itself, then the coupled ones.
    pub const CONTROLLERS: &[Entry] = [
        reno,
        cubic,
        hybla,
        scalable,
        vegas,
        compound,
        fast,
        ledbat,
        fledbat,
        sqrt,
        iiad,
        bbr,
        ewtcp,
        ewtcp_printed,
        coupled,
        lia,
        olia,
        balia,
        wvegas,
        mpcubic,
        mpsqrt,
        mpiiad,
        mpfast,
        coupled_cubic,
        mcompound,
        mpmtp,
        dc_ledbat,
        sbd_cubic,
        sbd_bbr,
    ];
}

/// The controller that `text` describes, fresh for one connection; see [`Choice`].
///
/// # Errors
/// [`InvalidChoice`] lists what would be accepted.
pub fn by_name(text: &str) -> Result<Box<dyn AnyController>, InvalidChoice> {
    Ok(text.parse::<Choice>()?.controller())
}

/// Whether a path of the controller of this name, with its parameters, can resume carefully
/// (RFC 9959): if it begins by slow start. quiche's own controllers are none of these.
pub fn resumes_carefully(text: &str) -> bool {
    by_name(text).is_ok_and(|controller| controller.has_slow_start() && !controller.is_model())
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

/// A round trip of one path that just ended: a packet sent after it began was acked.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// RTT samples in the round.
    pub samples: u32,
    /// The least of them; zero if there was none.
    pub min_rtt: Duration,
    /// Their mean; zero if there was none.
    pub mean_rtt: Duration,
    /// The window limits the sender and the path does not recover, so the window may grow.
    pub limited: bool,
}

/// A window that a controller sets at once, instead of letting it grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The window.
    pub cwnd_bytes: f64,
    /// The slow-start threshold, if it changes too.
    pub ssthresh_bytes: Option<f64>,
}

/// What tells one congestion control algorithm from another.
///
/// All windows and increments are in bytes. A controller reads any path through [`Own`] but answers
/// only for its own path, the one that the event is about. [`Group`] bounds whatever it answers.
///
/// An ACK calls `on_sample`, then `on_round` if it ended a round trip, then `on_time`, and last
/// one of `increase`, `slow_start_gain` and `on_underused`; in recovery none of those three.
///
/// Where all that a `decrease` answered turns out not to be lost, what the controller kept of the path
/// is what it was before, and so is the window; no controller need know of it.
///
/// One that [`is_model`](Controller::is_model) is asked `on_model` and `on_lost` in place of all
/// that, in every phase: window and rate follow from what it knows of the path.
pub trait Controller: fmt::Debug + Send + Sync {
    /// What it keeps of one path.
    type Flow: fmt::Debug + Default + Clone + Send + Sync;

    /// What it keeps of a path that joins or starts over: its 4-tuple changed, or congestion was
    /// persistent, so that nothing learned about its capacity holds. Of the latter a model hears by
    /// `on_lost` alone. The path's registry entry and first window are in place.
    fn on_path_added(&mut self, _now: Instant, _id: PathId) -> Self::Flow {
        Self::Flow::default()
    }

    /// A path left, or is about to start over; its registry entry may still be there.
    fn on_path_closed(&mut self, _now: Instant, _id: PathId) {}

    /// The window a path begins with, in packets, if less than the transport's.
    fn initial_window_packets(&self) -> Option<f64> {
        None
    }

    /// Whether there is a slow start; if not, `increase` is asked from the first ACK on.
    fn has_slow_start(&self) -> bool {
        true
    }

    /// Whether it measures by [`one_way_delay_micros`], so that the transport should ask the peer
    /// for timestamps.
    ///
    /// [`one_way_delay_micros`]: crate::registry::PathState::one_way_delay_micros
    fn reads_one_way_delay(&self) -> bool {
        false
    }

    /// How much the window grows in slow start for each acked byte.
    fn slow_start_gain(&mut self, _own: Own<Self::Flow>) -> f64 {
        1.0
    }

    /// An ACK arrived, in whatever phase: the place to take measurements.
    fn on_sample(&mut self, _own: Own<Self::Flow>, _ack: &Ack) {}

    /// A round trip ended, in whatever phase. A change is not made in recovery, and no growth
    /// while the window does not limit the sender.
    fn on_round(&mut self, _own: Own<Self::Flow>, _round: &Round) -> Option<Change> {
        None
    }

    /// When `on_time` must be called at the latest; `flows` is what it keeps of all paths.
    fn next_timer(&self, _flows: &PathMap<Self::Flow>) -> Option<Instant> {
        None
    }

    /// Time passed: called with each ACK of the path, and when the timer fires. A change is made
    /// in any phase.
    fn on_time(&mut self, _own: Own<Self::Flow>) -> Option<Change> {
        None
    }

    /// How much the window grows for `ack`, in bytes; may be negative.
    ///
    /// Called in congestion avoidance only: not in slow start, not in recovery, and not while
    /// something other than the window limits the sender.
    fn increase(&mut self, own: Own<Self::Flow>, ack: &Ack) -> f64;

    /// The window after a congestion event, in bytes; also the new slow-start threshold. Called at
    /// most once per recovery period; the window never grows by it.
    fn decrease(&mut self, own: Own<Self::Flow>) -> f64;

    /// Whether window and pacing rate follow from a model of the path, rather than growing by ACKs
    /// and shrinking by losses.
    fn is_model(&self) -> bool {
        false
    }

    /// An ACK arrived, with what it says about the path's rate, if that is known: what a model
    /// makes of it. `None` leaves window and rate as they are.
    fn on_model(
        &mut self,
        _own: Own<Self::Flow>,
        _ack: &Ack,
        _rate: Option<&RateSample>,
    ) -> Option<Control> {
        None
    }

    /// Packets were declared lost, with what was known when the newest of them was sent. Models
    /// hear of every loss, not of the first one in a round trip alone, and before the ACK that
    /// told of it. Persistent congestion is theirs to answer.
    fn on_lost(
        &mut self,
        _own: Own<Self::Flow>,
        _loss: &Loss,
        _flight: Option<&Flight>,
    ) -> Option<Control> {
        None
    }

    /// All that the last congestion event was about has arrived after all: a model takes back what it
    /// made of it. Of all others the window, the threshold and `Flow` are what they were.
    fn on_spurious(&mut self, _flow: &mut Self::Flow) {}

    /// An ACK arrived while the window was not what limited the sender, so nothing may grow.
    fn on_underused(&mut self, _own: Own<Self::Flow>) {}

    /// The bottleneck of a path, named by the least ID of the paths that are believed to pass it;
    /// `None` while nothing is known, or by a controller that does not look.
    fn bottleneck(&self, _id: PathId) -> Option<PathId> {
        None
    }

    /// Shows the values that decide on `path`, by the source's symbols: always the same names.
    fn trace(&self, _paths: &Registry, _path: &PathState, _flow: &Self::Flow, _trace: &mut Trace) {}
}
