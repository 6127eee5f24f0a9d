//! What a path has shown in the last seconds: the range of its RTT, and the most it delivered.
//!
//! The delivery rate of the moment is no measure of what a path can carry: while the receiver's
//! window is blocked by another path, it carries next to nothing.

use std::time::Duration;
use std::time::Instant;

use super::measure;
use super::View;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;

/// Half of the time for which it is remembered.
const SPAN: Duration = Duration::from_secs(5);

/// Of each path.
#[derive(Debug, Default)]
pub(super) struct Seen {
    paths: PathMap<Range>,
}

/// Of this span and the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    began: Instant,
    now: Extremes,
    before: Extremes,
}

#[derive(Clone, Copy, Debug)]
struct Extremes {
    least_rtt: Duration,
    most_rtt: Duration,
    most_rate: u64,
}

impl Extremes {
    fn join(self, other: Extremes) -> Extremes {
        Extremes {
            least_rtt: self.least_rtt.min(other.least_rtt),
            most_rtt: self.most_rtt.max(other.most_rtt),
            most_rate: self.most_rate.max(other.most_rate),
        }
    }
}

impl Seen {
    /// Looks at all paths that are shown.
    pub(super) fn look(&mut self, now: Instant, view: &View) {
        for path in view.paths() {
            let Some(rtt) = path.rtt else { continue };
            let sample = Extremes {
                least_rtt: rtt.smoothed,
                most_rtt: rtt.smoothed,
                most_rate: measure::rate_bytes_per_sec(path).unwrap_or(0),
            };
            match self.paths.get_mut(path.id) {
                Some(range) => range.see(now, sample),
                None => {
                    self.paths.insert(path.id, Range::new(now, sample));
                }
            }
        }
    }

    /// What a path has shown.
    pub(super) fn of(&self, id: PathId) -> Option<&Range> {
        self.paths.get(id)
    }

    /// The rate that the path can carry, bytes per second.
    pub(super) fn rate(&self, path: &PathState) -> u64 {
        self.of(path.id).map_or(0, |range| range.joined().most_rate)
    }
}

impl Range {
    fn new(now: Instant, sample: Extremes) -> Self {
        Range {
            began: now,
            now: sample,
            before: sample,
        }
    }

    fn see(&mut self, now: Instant, sample: Extremes) {
        if now.saturating_duration_since(self.began) >= SPAN {
            (self.began, self.before, self.now) = (now, self.now, sample);
        }
        self.now = self.now.join(sample);
    }

    fn joined(&self) -> Extremes {
        self.now.join(self.before)
    }

    /// The least smoothed RTT.
    pub(super) fn least_rtt(&self) -> Duration {
        self.joined().least_rtt
    }

    /// The greatest smoothed RTT.
    pub(super) fn most_rtt(&self) -> Duration {
        self.joined().most_rtt
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A range of RTTs, in milliseconds.
    pub(in super::super) fn range(least_ms: u64, most_ms: u64) -> Range {
        let sample = Extremes {
            least_rtt: Duration::from_millis(least_ms),
            most_rtt: Duration::from_millis(most_ms),
            most_rate: 0,
        };
        Range::new(Instant::now(), sample)
    }

    #[test]
    fn an_episode_is_forgotten() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let sample = |ms, most_rate| Extremes {
            least_rtt: Duration::from_millis(ms),
            most_rtt: Duration::from_millis(ms),
            most_rate,
        };
        let mut range = Range::new(start, sample(100, 5));
        let shown = |range: &Range| {
            let all = range.joined();
            let [least, most] = [all.least_rtt, all.most_rtt].map(|rtt| rtt.as_millis());
            (least, most, all.most_rate)
        };
        range.see(at(1000), sample(900, 9));
        range.see(at(9000), sample(110, 4));
        assert_eq!(shown(&range), (100, 900, 9));
        range.see(at(14_000), sample(120, 3));
        assert_eq!(shown(&range), (110, 120, 4));
    }
}
