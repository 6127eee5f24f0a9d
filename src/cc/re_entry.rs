//! Re-entry: a path whose slow start ended by an unlucky loss may go on with it.
//!
//! A packet that is lost in the first round trips, for whatever reason, ends slow start at a few
//! packets. One flow then needs a round trip for each packet more; coupled paths need several, as
//! together they grow like one flow: at 50 ms and 20 Mbit/s LIA takes 6 s to a tenth of an idle link,
//! OLIA longer. Slow start is not coupled (RFC 6356, section 3), and without the loss it would have
//! gone on until a queue showed.
//!
//! The rule is ours; the signs of a queue and their bounds are those of HyStart++ (RFC 9406).
//!
//! *Start*, when all of this holds:
//! - the slow start of the path ended by a loss, not by delay, and the eight RTT samples before it did
//!   not show a queue: a short one is full before a whole round trip has met it;
//! - since then no round trip showed a queue: least RTT of at least eight samples
//!   RttThresh(min_rtt) above min_rtt. One that does closes the matter for good: the path has found
//!   what it can carry;
//! - for `wait` round trips running, the window limited the sender, nothing was lost, and the least
//!   RTT, of however many samples, was below that bound. `wait` is 8 at first and twice the last
//!   one after each re-entry;
//! - another path takes part in the coupling: alone, a path is what its controller is by its source;
//! - no other path of the connection is in a re-entry: two may share a bottleneck.
//!
//! *Growth*: half of the acked bytes, 1.5 times in a round trip; none by an ACK whose own RTT is that
//! far above min_rtt, as its round trip will end the re-entry.
//!
//! *End*: a round trip that shows a queue, and the window stays; or one that the window did not
//! limit; or a loss, and the window shrinks as always.
//!
//! *Harm*: at most what the path would have done without the first loss. It adds half its window in a
//! round trip until packets meet a queue of RttThresh, and what it sends in the round trip until it
//! learns of that: less than the slow start of any flow that begins there. Where no queue ever shows (a policer, a very short queue, an AQM) losses are all
//! there is to see: a path then has no more than log2(rounds/8) re-entries, and loses by each as it
//! would by an ordinary congestion event.

use std::time::Duration;

use super::hystart::rtt_thresh;
use super::hystart::N_RTT_SAMPLE;
use super::Param;
use crate::registry::Rtt;

/// The parameter of every coupled controller that goes by losses
/// ([`Options::re_entry`](super::Options::re_entry)).
pub const PARAM: Param = Param::choice(
    "re-entry",
    &["on", "off"],
    "whether a path that an unlucky loss stopped in slow start goes on while it shows no queue",
);

/// Clean round trips before the first re-entry. At a drop-tail queue that losses have emptied, flows
/// in congestion avoidance need about as many to show again.
const FIRST_WAIT_ROUNDS: u32 = 8;

/// Growth for each acked byte.
const GROWTH: f64 = 0.5;

/// Growth for each byte that an ACK of this RTT acks.
pub fn growth(rtt: Option<Rtt>) -> f64 {
    let is_short = |rtt: Rtt| rtt.latest < bound(rtt.min);
    match rtt.is_some_and(is_short) {
        true => GROWTH,
        false => 0.0,
    }
}

/// An RTT from which on HyStart++ would take it for that of a queue.
pub(super) fn bound(base: Duration) -> Duration {
    base.saturating_add(rtt_thresh(base))
}

/// A round trip, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// RTT samples in it.
    pub samples: u32,
    /// The least of them; zero if there was none.
    pub least: Duration,
    /// min_rtt of the path (RFC 9002, section 5.2).
    pub base: Duration,
}

impl Seen {
    /// RTTs lie as far above the path's own as HyStart++ takes for a queue.
    fn is_long(&self) -> bool {
        self.least >= bound(self.base)
    }

    /// Enough of them to be sure.
    fn shows_queue(&self) -> bool {
        self.is_long() && self.samples >= N_RTT_SAMPLE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the slow start that the path began with.
    Begins,
    /// Its slow start ended by a loss, and no queue was seen since.
    Waits { clean_rounds: u32 },
    /// In a re-entry.
    Grows,
    /// A queue was seen.
    Closed,
}

/// The rule's state of one path.
#[derive(Clone, Copy, Debug)]
pub struct ReEntry {
    state: State,
    /// Clean round trips that the next re-entry takes.
    wait_rounds: u32,
}

impl Default for ReEntry {
    fn default() -> Self {
        ReEntry {
            state: State::Begins,
            wait_rounds: FIRST_WAIT_ROUNDS,
        }
    }
}

/// What becomes of the slow-start threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Stay,
    /// A re-entry may start, if other paths allow it; then call [`ReEntry::start`].
    Ready,
    /// The re-entry ends: the window is the threshold.
    End,
}

impl ReEntry {
    /// Whether the path is in a re-entry.
    pub fn grows(&self) -> bool {
        self.state == State::Grows
    }

    /// A congestion event, in slow start or not.
    pub fn on_congestion(&mut self, in_slow_start: bool) {
        self.state = match self.state {
            State::Begins if !in_slow_start => State::Closed,
            State::Closed => State::Closed,
            _ => State::Waits { clean_rounds: 0 },
        };
    }

    /// What the path has shown no longer holds, as after persistent congestion. How
    /// long it has to wait for the next re-entry does.
    pub fn on_reset(&mut self) {
        if self.state == State::Closed {
            self.state = State::Waits { clean_rounds: 0 };
        }
    }

    /// A round trip ended. `limited`: the window limited the sender and the path did not recover.
    pub fn on_round(&mut self, seen: &Seen, limited: bool, in_slow_start: bool) -> Verdict {
        match &mut self.state {
            State::Begins | State::Closed => (),
            State::Waits { .. } if seen.shows_queue() => self.state = State::Closed,
            State::Waits { clean_rounds } => {
                let clean = limited && !in_slow_start && seen.samples > 0 && !seen.is_long();
                *clean_rounds = if clean { *clean_rounds + 1 } else { 0 };
                if *clean_rounds >= self.wait_rounds {
                    return Verdict::Ready;
                }
            }
            State::Grows if !limited || !in_slow_start || seen.is_long() => return self.end(seen),
            State::Grows => (),
        }
        Verdict::Stay
    }

    /// A round trip goes on: a re-entry ends as soon as it shows a queue.
    pub fn on_sample(&mut self, seen: &Seen) -> Verdict {
        match self.grows() && seen.shows_queue() {
            true => self.end(seen),
            false => Verdict::Stay,
        }
    }

    fn end(&mut self, seen: &Seen) -> Verdict {
        self.state = match seen.shows_queue() {
            true => State::Closed,
            false => State::Waits { clean_rounds: 0 },
        };
        Verdict::End
    }

    /// The re-entry begins.
    pub fn start(&mut self) {
        self.state = State::Grows;
        self.wait_rounds = self.wait_rounds.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A round trip on a path of 50 ms, where 50/8 = 6.25 ms more are a queue.
    fn seen(samples: u32, least_micros: u64) -> Seen {
        Seen {
            samples,
            least: Duration::from_micros(least_micros),
            base: 50 * MS,
        }
    }

    fn clean() -> Seen {
        seen(10, 52_000)
    }

    /// A path that lost a packet in its slow start.
    fn unlucky() -> ReEntry {
        let mut rule = ReEntry::default();
        rule.on_congestion(true);
        rule
    }

    /// Clean round trips in congestion avoidance until a re-entry may start, at most 1000.
    fn rounds_to_ready(rule: &mut ReEntry) -> Option<u32> {
        (1..=1000).find(|_| rule.on_round(&clean(), true, false) == Verdict::Ready)
    }

    fn growing() -> ReEntry {
        let mut rule = unlucky();
        assert_eq!(rounds_to_ready(&mut rule), Some(8));
        rule.start();
        assert!(rule.grows());
        rule
    }

    #[test]
    fn the_eighth_clean_round_allows_it() {
        let mut rule = unlucky();
        assert_eq!(rounds_to_ready(&mut rule), Some(8));
        // Another path may be in one now: the ninth will do as well.
        assert!(!rule.grows());
        assert_eq!(rounds_to_ready(&mut rule), Some(1));
    }

    #[test]
    fn rounds_of_slow_start_before_the_loss_change_nothing() {
        let mut rule = ReEntry::default();
        for _ in 0..3 {
            assert_eq!(rule.on_round(&clean(), true, true), Verdict::Stay);
        }
        rule.on_congestion(true);
        assert_eq!(rounds_to_ready(&mut rule), Some(8));
    }

    #[test]
    fn a_slow_start_that_goes_on_or_ended_by_delay_allows_none() {
        let mut rule = ReEntry::default();
        for _ in 0..100 {
            assert_eq!(rule.on_round(&clean(), true, true), Verdict::Stay);
        }
        assert_eq!(rounds_to_ready(&mut rule), None);
        // A loss before the round in which HyStart++ ended it is over.
        let mut rule = ReEntry::default();
        rule.on_congestion(false);
        assert_eq!(rounds_to_ready(&mut rule), None);
        // Nor does a later loss change that.
        rule.on_congestion(true);
        assert_eq!(rounds_to_ready(&mut rule), None);
    }

    #[test]
    fn a_round_that_is_not_clean_starts_the_count_over() {
        let spoil: [fn(&mut ReEntry); 5] = [
            |rule| rule.on_congestion(false),
            // Not limited by the window, or in recovery.
            |rule| assert_eq!(rule.on_round(&clean(), false, false), Verdict::Stay),
            // Slow start up to a threshold, after persistent congestion.
            |rule| assert_eq!(rule.on_round(&clean(), true, true), Verdict::Stay),
            // Nothing measured.
            |rule| assert_eq!(rule.on_round(&seen(0, 0), true, false), Verdict::Stay),
            // Too few samples to be sure of the queue.
            |rule| assert_eq!(rule.on_round(&seen(7, 56_250), true, false), Verdict::Stay),
        ];
        for spoil in spoil {
            let mut rule = unlucky();
            for _ in 0..7 {
                assert_eq!(rule.on_round(&clean(), true, false), Verdict::Stay);
            }
            spoil(&mut rule);
            assert_eq!(rounds_to_ready(&mut rule), Some(8));
        }
    }

    #[test]
    fn a_queue_that_was_seen_allows_none() {
        // One sample, or an RTT below 56.25 ms, are no queue.
        for (samples, least_micros, rounds) in [
            (1, 52_000, Some(7)),
            (8, 56_249, Some(7)),
            (8, 56_250, None),
        ] {
            let mut rule = unlucky();
            rule.on_round(&seen(samples, least_micros), true, false);
            assert_eq!(
                rounds_to_ready(&mut rule),
                rounds,
                "{samples} {least_micros}"
            );
        }
        // In recovery too: there the queue that slow start filled is seen.
        let mut rule = unlucky();
        rule.on_round(&seen(8, 56_250), false, false);
        assert_eq!(rounds_to_ready(&mut rule), None);
    }

    #[test]
    fn the_bound_of_a_queue_is_that_of_hystart() {
        // An eighth of min_rtt, but 4 ms at least and 16 ms at most.
        for (base_ms, queue_ms) in [(8, 4), (80, 10), (800, 16)] {
            let seen = |least| Seen {
                samples: 8,
                least,
                base: MS * base_ms,
            };
            assert!(seen(MS * (base_ms + queue_ms)).shows_queue());
            assert!(!seen(MS * (base_ms + queue_ms) - Duration::from_micros(1)).shows_queue());
        }
    }

    #[test]
    fn an_ack_that_met_a_queue_grows_nothing() {
        let growth_at = |latest_micros| {
            growth(Some(Rtt {
                min: 50 * MS,
                ..Rtt::first(Duration::from_micros(latest_micros))
            }))
        };
        assert_eq!(growth_at(50_000), 0.5);
        assert_eq!(growth_at(56_249), 0.5);
        assert_eq!(growth_at(56_250), 0.0);
        assert_eq!(growth(None), 0.0);
    }

    #[test]
    fn growth_goes_on_while_rounds_are_short() {
        let mut rule = growing();
        for _ in 0..100 {
            assert_eq!(rule.on_sample(&seen(8, 56_249)), Verdict::Stay);
            assert_eq!(rule.on_round(&clean(), true, true), Verdict::Stay);
            assert!(rule.grows());
        }
    }

    #[test]
    fn a_queue_ends_it_for_good() {
        // In the middle of the round.
        let mut rule = growing();
        assert_eq!(rule.on_sample(&seen(7, 56_250)), Verdict::Stay);
        assert_eq!(rule.on_sample(&seen(8, 56_250)), Verdict::End);
        assert!(!rule.grows());
        assert_eq!(rounds_to_ready(&mut rule), None);
        // At its end.
        let mut rule = growing();
        assert_eq!(rule.on_round(&seen(8, 56_250), true, true), Verdict::End);
        assert_eq!(rounds_to_ready(&mut rule), None);
        // A sample ends nothing where nothing grows.
        assert_eq!(unlucky().on_sample(&seen(8, 56_250)), Verdict::Stay);
    }

    #[test]
    fn what_ends_it_without_a_queue_doubles_the_wait() {
        let end: [fn(&mut ReEntry); 4] = [
            |rule| rule.on_congestion(true),
            |rule| assert_eq!(rule.on_round(&clean(), false, true), Verdict::End),
            // The controller set a threshold of its own.
            |rule| assert_eq!(rule.on_round(&clean(), true, false), Verdict::End),
            // A long round of few samples.
            |rule| assert_eq!(rule.on_round(&seen(7, 56_250), true, true), Verdict::End),
        ];
        for end in end {
            let mut rule = growing();
            end(&mut rule);
            assert!(!rule.grows());
            assert_eq!(rounds_to_ready(&mut rule), Some(16));
            rule.start();
            rule.on_congestion(true);
            assert_eq!(rounds_to_ready(&mut rule), Some(32));
        }
    }

    #[test]
    fn a_path_that_starts_over_may_be_unlucky_again() {
        let mut rule = growing();
        rule.on_sample(&seen(8, 60_000));
        rule.on_reset();
        // But it does not forget how long it has to wait.
        assert_eq!(rounds_to_ready(&mut rule), Some(16));
        // A path that never left its slow start is not concerned.
        let mut rule = ReEntry::default();
        rule.on_reset();
        assert_eq!(rule.on_round(&clean(), true, true), Verdict::Stay);
        assert_eq!(rounds_to_ready(&mut rule), None);
    }
}
