//! When each attempt at the handshake begins, and which one the connection is.
//!
//! An attempt is a handshake over one pair of addresses, a connection of its own until one is kept:
//! RFC 10069 opens paths once the handshake is confirmed, so the first one cannot be tried over two
//! links in one connection. The others are closed at once, with all that the server keeps of them.
//!
//! Links that the policy uses side by side are raced: it does not matter which of them the
//! handshake took, so the next begins after [`LINK_DELAY`], and the first that succeeds is kept. All
//! else is for links and addresses that do not work: what is tried after [`ADDRESS_DELAY`] is kept
//! only if the ones before it, which are preferred, do not succeed soon.
//!
//! | symbol | name here | unit | source |
//! |--------|-----------|------|--------|
//! | Connection Attempt Delay | [`ADDRESS_DELAY`] | s | RFC 8305, Section 5: 250 ms recommended |
//! | its minimum | [`LEAST_DELAY`] | s | RFC 8305, Section 5: 10 ms |

use std::time::Duration;
use std::time::Instant;

use super::Pair;

/// Until another address is tried, or a link that stands by: the Connection Attempt Delay that RFC
/// 8305 recommends (Section 5).
pub const ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// Until another link is tried that carries data side by side with the ones before it.
pub const LINK_DELAY: Duration = Duration::from_millis(20);

/// No attempt begins sooner after another one (RFC 8305, Section 5).
pub const LEAST_DELAY: Duration = Duration::from_millis(10);

/// How long a preferred attempt that has heard from the server is waited for although another one
/// has succeeded: a slow machine is no reason to leave a link.
const PATIENCE: Duration = Duration::from_secs(1);

/// A pair of addresses to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The addresses.
    pub pair: Pair,
    /// It is the first pair of a link that carries data side by side with those of the ones before.
    pub races: bool,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin the next attempt. The first has the number 0.
    Begin {
        /// Its number.
        attempt: usize,
        /// Where.
        pair: Pair,
    },
    /// The connection is this attempt's; close the others.
    Keep {
        /// Its number.
        attempt: usize,
    },
    /// All have failed.
    GiveUp,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A packet of the server has come.
    Heard,
    /// The handshake is complete.
    Established,
    /// It is over.
    Failed,
}

#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    heard: Option<Instant>,
    established: Option<Instant>,
    has_failed: bool,
}

impl Begun {
    fn is_promising(&self) -> bool {
        self.heard.is_some() && !self.has_failed
    }
}

/// Decides when each attempt begins and which one is kept.
///
/// Sans I/O, as the [`Manager`](super::Manager) is: progress and the time go in, steps come out.
#[derive(Clone, Debug)]
pub struct Attempts {
    candidates: Vec<Candidate>,
    link_delay: Duration,
    begun: Vec<Begun>,
    /// When the last one began or failed, from which the next one's delay counts.
    last: Option<(Instant, bool)>,
    is_over: bool,
}

impl Attempts {
    /// Attempts at `candidates`, the preferred first. The next link that is raced begins after
    /// `link_delay`, all else after [`ADDRESS_DELAY`] or, if that is longer, the same.
    pub fn new(candidates: Vec<Candidate>, link_delay: Duration) -> Attempts {
        Attempts {
            candidates,
            link_delay,
            begun: Vec::new(),
            last: None,
            is_over: false,
        }
    }

    /// All pairs, in the order in which they are tried.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How many have begun.
    pub fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Something became of an attempt. [`Attempts::next_step`] has to be asked then.
    pub fn on_progress(&mut self, now: Instant, attempt: usize, progress: Progress) {
        let Some(begun) = self.begun.get_mut(attempt) else {
            return;
        };
        match progress {
            Progress::Heard => {
                begun.heard.get_or_insert(now);
            }
            Progress::Established => {
                begun.heard.get_or_insert(now);
                begun.established.get_or_insert(now);
            }
            Progress::Failed if !begun.has_failed => {
                begun.has_failed = true;
                self.last = Some((now, true));
            }
            Progress::Failed => {}
        }
    }

    /// What to do now; asked until there is nothing.
    pub fn next_step(&mut self, now: Instant) -> Option<Step> {
        if self.is_over {
            return None;
        }
        if let Some((at, attempt)) = self.success() {
            self.is_over = at <= now;
            return self.is_over.then_some(Step::Keep { attempt });
        }
        match self.due() {
            Some(at) if at.is_none_or(|at| at <= now) => {
                let attempt = self.begun.len();
                self.begun.push(Begun::default());
                self.last = Some((now, false));
                let pair = self.candidates[attempt].pair;
                Some(Step::Begin { attempt, pair })
            }
            None if self.begun.iter().all(|begun| begun.has_failed) => {
                self.is_over = true;
                Some(Step::GiveUp)
            }
            _ => None,
        }
    }

    /// When [`Attempts::next_step`] has to be asked at the latest.
    pub fn next_timer(&self) -> Option<Instant> {
        match self.success() {
            _ if self.is_over => None,
            Some((at, _)) => Some(at),
            None => self.due().flatten(),
        }
    }

    /// The attempt to keep, and when.
    fn success(&self) -> Option<(Instant, usize)> {
        let begun = self.begun.iter().enumerate();
        let established = begun.filter(|(_, begun)| !begun.has_failed);
        let established = established.filter_map(|(i, begun)| Some((begun.established?, i)));
        let (at, first) = established.min()?;
        let is_behind = self.begun[..first].iter().any(Begun::is_promising);
        match is_behind && !self.candidates[first].races {
            // What is preferred may succeed in that time.
            true => {
                let preferred = self.begun[..first].iter().enumerate();
                let preferred = preferred.filter(|(_, begun)| !begun.has_failed);
                let mut preferred =
                    preferred.filter_map(|(i, begun)| Some((begun.established?, i)));
                Some(preferred.next().unwrap_or((at + PATIENCE, first)))
            }
            false => Some((at, first)),
        }
    }

    /// When the next attempt begins; `Some(None)`: at once. `None`: there is no other.
    fn due(&self) -> Option<Option<Instant>> {
        let next = self.candidates.get(self.begun.len())?;
        let Some((last, has_failed)) = self.last else {
            return Some(None);
        };
        if has_failed {
            return Some(None);
        }
        let delay = match next.races {
            true => self.link_delay,
            false => self.link_delay.max(ADDRESS_DELAY),
        };
        // Who has heard from the server is about to succeed.
        let promising = self.begun.iter().filter(|begun| begun.is_promising());
        let heard = promising.filter_map(|begun| begun.heard).max();
        let held_back = heard.map(|at| at + ADDRESS_DELAY);
        Some(Some(
            held_back.map_or(last + delay, |at| at.max(last + delay)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Local;
    use super::*;

    const D: Duration = Duration::from_millis(50);

    fn pair(link: u8) -> Pair {
        Pair {
            local: Local {
                if_index: u32::from(link),
                ip: [192, 0, 2, link].into(),
            },
            remote: ([198, 51, 100, 1], 443).into(),
        }
    }

    /// Attempts over links, of which some race, and the time 0.
    fn attempts(races: &[bool]) -> (Attempts, Instant) {
        let links = races.iter().zip(1..);
        let candidates = links.map(|(races, link)| Candidate {
            pair: pair(link),
            races: *races,
        });
        (Attempts::new(candidates.collect(), D), Instant::now())
    }

    fn begin(attempt: usize) -> Option<Step> {
        let pair = pair(attempt as u8 + 1);
        Some(Step::Begin { attempt, pair })
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn links_that_race_begin_after_the_short_delay() {
        let (mut attempts, t) = attempts(&[true, true, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        assert_eq!(attempts.next_step(t), None);
        assert_eq!(attempts.next_timer(), Some(t + D));
        assert_eq!(attempts.next_step(t + D - ms(1)), None);
        assert_eq!(attempts.next_step(t + D), begin(1));
        // A late driver delays those after it, too.
        assert_eq!(attempts.next_step(t + D * 3), begin(2));
        assert_eq!(attempts.next_step(t + D * 9), None);
        assert_eq!((attempts.next_timer(), attempts.begun()), (None, 3));
    }

    #[test]
    fn the_first_of_a_race_is_kept_at_once() {
        let (mut attempts, t) = attempts(&[true, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        assert_eq!(attempts.next_step(t + D), begin(1));
        attempts.on_progress(t + ms(60), 0, Progress::Heard);
        attempts.on_progress(t + ms(61), 1, Progress::Established);
        attempts.on_progress(t + ms(62), 0, Progress::Established);
        let keep = Some(Step::Keep { attempt: 1 });
        assert_eq!(attempts.next_step(t + ms(62)), keep);
        assert_eq!(attempts.next_step(t + ms(62)), None);
        assert_eq!(attempts.next_timer(), None);
    }

    #[test]
    fn whoever_answers_within_the_delay_is_alone() {
        let (mut attempts, t) = attempts(&[true, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        attempts.on_progress(t + ms(40), 0, Progress::Heard);
        assert_eq!(attempts.next_step(t + D), None);
        // But not for ever: it may die after its first packet.
        assert_eq!(attempts.next_timer(), Some(t + ms(40) + ADDRESS_DELAY));
        assert_eq!(attempts.next_step(t + ms(290)), begin(1));
        attempts.on_progress(t + ms(300), 0, Progress::Established);
        assert_eq!(
            attempts.next_step(t + ms(300)),
            Some(Step::Keep { attempt: 0 })
        );
    }

    #[test]
    fn other_addresses_begin_after_the_delay_of_rfc_8305() {
        let (mut attempts, t) = attempts(&[true, false, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        assert_eq!(attempts.next_step(t + D), None);
        assert_eq!(attempts.next_timer(), Some(t + ADDRESS_DELAY));
        assert_eq!(attempts.next_step(t + ADDRESS_DELAY), begin(1));
        assert_eq!(attempts.next_timer(), Some(t + ADDRESS_DELAY + D));
    }

    #[test]
    fn a_preferred_address_that_answered_is_waited_for() {
        for succeeds in [false, true] {
            let (mut attempts, t) = attempts(&[true, false]);
            assert_eq!(attempts.next_step(t), begin(0));
            assert_eq!(attempts.next_step(t + ms(250)), begin(1));
            attempts.on_progress(t + ms(260), 0, Progress::Heard);
            attempts.on_progress(t + ms(270), 1, Progress::Established);
            assert_eq!(attempts.next_step(t + ms(300)), None);
            assert_eq!(attempts.next_timer(), Some(t + ms(270) + PATIENCE));
            if succeeds {
                attempts.on_progress(t + ms(400), 0, Progress::Established);
                let keep = Some(Step::Keep { attempt: 0 });
                assert_eq!(attempts.next_step(t + ms(400)), keep);
            } else {
                let keep = Some(Step::Keep { attempt: 1 });
                assert_eq!(attempts.next_step(t + ms(1_270)), keep);
            }
        }
    }

    #[test]
    fn an_address_without_an_answer_is_not_waited_for() {
        let (mut attempts, t) = attempts(&[true, false]);
        assert_eq!(attempts.next_step(t), begin(0));
        assert_eq!(attempts.next_step(t + ms(250)), begin(1));
        attempts.on_progress(t + ms(270), 1, Progress::Established);
        let keep = Some(Step::Keep { attempt: 1 });
        assert_eq!(attempts.next_step(t + ms(270)), keep);
    }

    #[test]
    fn a_failure_begins_the_next_at_once_and_the_last_one_ends_it() {
        let (mut attempts, t) = attempts(&[true, false, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        attempts.on_progress(t + ms(1), 0, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(1)), begin(1));
        assert_eq!(attempts.next_step(t + ms(1)), None);
        attempts.on_progress(t + ms(2), 1, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(2)), begin(2));
        assert_eq!(attempts.next_step(t + ms(2)), None);
        // Once more about what is over changes nothing.
        attempts.on_progress(t + ms(3), 1, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(3)), None);
        attempts.on_progress(t + ms(9), 2, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(9)), Some(Step::GiveUp));
        assert_eq!(attempts.next_step(t + ms(9)), None);
    }

    #[test]
    fn an_attempt_that_succeeded_and_failed_is_not_kept() {
        let (mut attempts, t) = attempts(&[true, true]);
        assert_eq!(attempts.next_step(t), begin(0));
        assert_eq!(attempts.next_step(t + D), begin(1));
        attempts.on_progress(t + ms(60), 0, Progress::Established);
        attempts.on_progress(t + ms(60), 0, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(60)), None);
        attempts.on_progress(t + ms(90), 1, Progress::Established);
        let keep = Some(Step::Keep { attempt: 1 });
        assert_eq!(attempts.next_step(t + ms(90)), keep);
    }

    #[test]
    fn nobody_to_try() {
        let (mut attempts, t) = attempts(&[]);
        assert_eq!(attempts.next_step(t), Some(Step::GiveUp));
    }

    #[test]
    fn who_fails_twice_does_not_hurry_the_next_but_one() {
        let (mut attempts, t) = attempts(&[true, false, true]);
        assert_eq!(attempts.candidates().len(), 3);
        assert_eq!(attempts.candidates()[1].pair, pair(2));
        attempts.next_step(t);
        attempts.on_progress(t + ms(1), 0, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(1)), begin(1));
        attempts.on_progress(t + ms(2), 0, Progress::Failed);
        assert_eq!(attempts.next_step(t + ms(2)), None);
        assert_eq!(attempts.next_timer(), Some(t + ms(1) + D));
    }

    #[test]
    fn the_delay_after_the_last_one_holds_though_another_has_heard() {
        let (mut attempts, t) = attempts(&[true, true, true]);
        attempts.next_step(t);
        attempts.on_progress(t + ms(40), 0, Progress::Heard);
        assert_eq!(attempts.next_step(t + ms(290)), begin(1));
        assert_eq!(attempts.next_timer(), Some(t + ms(290) + D));
    }
}
