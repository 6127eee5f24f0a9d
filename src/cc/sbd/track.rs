//! The delays of one path, in bins by the time of arrival.

use std::time::Duration;

use crate::cc::delay::Source;

/// The time that a bin covers.
pub const BIN: Duration = Duration::from_millis(20);

/// Bins of a window.
pub const WINDOW: usize = 48;

/// Bins that are kept: a window, what the other path may be behind, and the lags.
const KEPT: i64 = 128;

/// Acts are seen some time later, and by others at their ends.
const SPREAD: i64 = 4;

/// The longest lag between two paths.
const MOST_LAG: i64 = 10;

/// What a path does to its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Act {
    /// Nothing but to send.
    #[default]
    Steady,
    /// It fills or drains its queue by intent.
    Acts,
    /// It looks for its capacity for the first time.
    Starts,
}

/// Which of two paths act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acting {
    /// Neither.
    None,
    /// One of them alone.
    One,
    /// Both.
    Both,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Of the delays less `Track::zero`, microseconds.
    sum: f32,
    samples: u16,
    act: Act,
}

/// The delays of a path.
#[derive(Debug)]
pub struct Track {
    source: Option<Source>,
    /// What delays are counted from, so that they are small numbers.
    zero: i64,
    /// The least delay, microseconds.
    base: i64,
    /// The bin that fills, counted in [`BIN`]s of the clock of arrivals.
    newest: i64,
    /// Bins before this one know nothing.
    oldest: i64,
    bins: [Bin; KEPT as usize],
}

impl Default for Track {
    fn default() -> Self {
        Track {
            source: None,
            zero: 0,
            base: 0,
            newest: 0,
            oldest: 0,
            bins: [Bin::default(); KEPT as usize],
        }
    }
}

impl Track {
    /// Takes a delay; true if it is the first of a bin.
    pub fn add(&mut self, source: Source, arrived_micros: i64, micros: i64, act: Act) -> bool {
        // Most samples are of the bin that fills, which is told without a division.
        let bin_micros = BIN.as_micros() as i64;
        let into = arrived_micros.wrapping_sub(self.newest.wrapping_mul(bin_micros));
        let index = match (0..bin_micros).contains(&into) {
            true => self.newest,
            false => arrived_micros.div_euclid(bin_micros),
        };
        if self.source != Some(source) {
            *self = Track {
                source: Some(source),
                zero: micros,
                base: micros,
                newest: index,
                oldest: index,
                ..Track::default()
            };
        }
        // ACKs may overtake each other.
        if index <= self.newest - KEPT {
            return false;
        }
        self.base = self.base.min(micros);
        let is_new = index > self.newest;
        if is_new {
            let from = (self.newest + 1).max(index - KEPT + 1);
            for missed in from..=index {
                *self.bin_mut(missed) = Bin::default();
            }
            self.newest = index;
        }
        let delay = micros.saturating_sub(self.zero) as f32;
        let bin = self.bin_mut(index);
        bin.sum += delay;
        bin.samples = bin.samples.saturating_add(1);
        if bin.act != Act::Starts {
            bin.act = match act {
                Act::Steady => bin.act,
                other => other,
            };
        }
        is_new
    }

    fn bin_mut(&mut self, index: i64) -> &mut Bin {
        &mut self.bins[index.rem_euclid(KEPT) as usize]
    }

    fn bin(&self, index: i64) -> Option<&Bin> {
        let is_kept = index >= self.oldest && index > self.newest - KEPT && index < self.newest;
        is_kept.then(|| &self.bins[index.rem_euclid(KEPT) as usize])
    }

    /// The mean delay in a bin, in seconds from an unknown zero.
    pub fn mean(&self, index: i64) -> Option<f64> {
        let bin = self.bin(index).filter(|bin| bin.samples > 0)?;
        Some(f64::from(bin.sum) * 1e-6 / f64::from(bin.samples))
    }

    /// The delay in the last bin that is complete, above the least; s.
    pub fn queue_secs(&self) -> f64 {
        let base = self.base.saturating_sub(self.zero) as f64 * 1e-6;
        self.mean(self.newest - 1).map_or(0.0, |mean| mean - base)
    }

    /// By how many bins the same queue may show later on `other` than here: its delays lie before
    /// it, or behind it, or some of each.
    pub fn lags(&self, other: &Track) -> std::ops::RangeInclusive<i64> {
        let micros = other.base.saturating_sub(self.base);
        let bins = (micros as f64 / BIN.as_micros() as f64).round() as i64;
        let bins = bins.clamp(-MOST_LAG, MOST_LAG);
        bins.min(0) - 1..=bins.max(0) + 1
    }

    /// The bin up to which both are known, with room for the lags; nothing if they do not compare.
    pub fn known_with(&self, other: &Track) -> Option<i64> {
        let is_one_way = |track: &Track| track.source.map(|source| source == Source::OneWay);
        let comparable = is_one_way(self)? == is_one_way(other)?;
        comparable.then(|| self.newest.min(other.newest) - MOST_LAG - 1)
    }

    /// Whether it does `act` in the window that ends before `end`, or some bins around.
    fn does(&self, end: i64, acts: &[Act]) -> bool {
        let bins = end - WINDOW as i64 - SPREAD..end + SPREAD;
        bins.filter_map(|index| self.bin(index))
            .any(|bin| acts.contains(&bin.act))
    }

    /// Which of the two act in the window that ends before `end`.
    pub fn acting(&self, other: &Track, end: i64) -> Acting {
        let acts = |track: &Track| track.does(end, &[Act::Acts, Act::Starts]);
        match (acts(self), acts(other)) {
            (false, false) => Acting::None,
            (true, true) => Acting::Both,
            _ => Acting::One,
        }
    }

    /// Whether both begin in the window.
    pub fn both_start(&self, other: &Track, end: i64) -> bool {
        self.does(end, &[Act::Starts]) && other.does(end, &[Act::Starts])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1000;

    fn steady(track: &mut Track, bin: i64, micros: i64) -> bool {
        track.add(Source::OneWay, 20 * MS * bin, micros, Act::Steady)
    }

    #[test]
    fn bins_by_hand() {
        let mut track = Track::default();
        // The first sample begins bin 0; others of it bring no new one.
        assert!(!steady(&mut track, 0, 5 * MS));
        assert!(!track.add(Source::OneWay, 20 * MS - 1, 7 * MS, Act::Steady));
        assert_eq!(track.mean(0), None);
        assert!(steady(&mut track, 1, 9 * MS));
        // From the first delay: 0 and 2 ms.
        assert_eq!(track.mean(0), Some(0.001));
        assert_eq!((track.mean(-1), track.mean(1)), (None, None));
        // Above the least, 5 ms.
        assert_eq!(track.queue_secs(), 0.001);
        // One that was overtaken counts where it belongs, unless that is too long ago.
        assert!(!track.add(Source::OneWay, 10 * MS, 9 * MS, Act::Steady));
        assert_eq!(track.mean(0), Some(0.002));
        assert!(steady(&mut track, KEPT - 1, 5 * MS));
        assert!(!track.add(Source::OneWay, 10 * MS, 9 * MS, Act::Steady));
        assert_eq!(track.mean(0), Some(0.0025));
        assert!(steady(&mut track, KEPT, 5 * MS));
        assert!(!steady(&mut track, 0, 9 * MS));
        assert_eq!(track.mean(0), None);
        // Bins without samples between, and none of before.
        assert_eq!((track.mean(2), track.mean(KEPT - 1)), (None, Some(0.0)));
        assert!(steady(&mut track, 10 * KEPT, 5 * MS));
        assert!((9 * KEPT..10 * KEPT).all(|bin| track.mean(bin).is_none()));
        // Another source is another clock.
        assert!(!track.add(
            Source::RoundTrip(crate::registry::PathId(0)),
            7,
            1,
            Act::Steady
        ));
        assert_eq!((track.newest, track.zero, track.base), (0, 1, 1));
    }

    #[test]
    fn lags_by_hand() {
        let of = |base: i64| Track {
            base,
            ..Track::default()
        };
        for (base, other, lags) in [
            (0, 100 * MS, -1..=6),
            (100 * MS, 0, -6..=1),
            (0, 9 * MS, -1..=1),
            (0, 11 * MS, -1..=2),
            (0, 900 * MS, -1..=11),
            (900 * MS, 0, -11..=1),
        ] {
            assert_eq!(of(base).lags(&of(other)), lags);
        }
    }

    #[test]
    fn what_is_known_of_two() {
        let at = |source: Option<Source>, newest: i64| Track {
            source,
            newest,
            ..Track::default()
        };
        let (one_way, rtt) = (
            Some(Source::OneWay),
            Some(Source::RoundTrip(crate::registry::PathId(0))),
        );
        assert_eq!(at(one_way, 90).known_with(&at(one_way, 70)), Some(59));
        assert_eq!(at(rtt, 50).known_with(&at(rtt, 70)), Some(39));
        assert_eq!(at(one_way, 90).known_with(&at(rtt, 70)), None);
        assert_eq!(at(one_way, 90).known_with(&at(None, 70)), None);
    }

    #[test]
    fn acts_are_seen_some_bins_around() {
        let with = |bin: i64, act: Act| {
            let mut track = Track::default();
            for other in 0..120 {
                let act = if other == bin { act } else { Act::Steady };
                track.add(Source::OneWay, 20 * MS * other, 0, act);
            }
            track
        };
        let none = with(0, Act::Steady);
        // The window of 48 bins before bin 100, and four before and after it.
        for (bin, one, both) in [
            (47, Acting::None, Acting::None),
            (48, Acting::One, Acting::Both),
            (103, Acting::One, Acting::Both),
            (104, Acting::None, Acting::None),
        ] {
            let track = with(bin, Act::Acts);
            assert_eq!(track.acting(&none, 100), one, "{bin}");
            assert_eq!(none.acting(&track, 100), one, "{bin}");
            assert_eq!(track.acting(&track, 100), both, "{bin}");
        }
        let starts = with(60, Act::Starts);
        assert!(starts.both_start(&with(70, Act::Starts), 100));
        assert!(!starts.both_start(&none, 100) && !none.both_start(&starts, 100));
        assert!(!starts.both_start(&with(60, Act::Acts), 100));
        assert_eq!(starts.acting(&none, 100), Acting::One);
        // In a bin the greater of acts counts, in any order.
        for acts in [[Act::Starts, Act::Acts], [Act::Acts, Act::Starts]] {
            let mut track = Track::default();
            for act in acts.into_iter().chain([Act::Steady]) {
                track.add(Source::OneWay, 0, 0, act);
            }
            assert_eq!(track.bins[0].act, Act::Starts);
        }
    }
}
