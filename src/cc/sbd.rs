//! Which paths share a bottleneck, by what happens to their delays (`detect=auto`).
//!
//! A queue delays all that pass it by the same milliseconds, so queueing delays of paths that share
//! one move together, and by as much. Delays of a path are gathered in bins of 20 ms by the time of
//! arrival, which is one clock for all paths where the peer sends timestamps ([`track`]). Windows of
//! 48 bins say how likely it is that two paths saw the same queue ([`evidence`]).
//!
//! | symbol | name here          | unit    | what it is                                          |
//! |--------|--------------------|---------|-----------------------------------------------------|
//! | llr    | `Pair::llr`        | ln odds | that they share; within `MOST_ODDS`                  |
//! | join   | `VERDICT`          | ln odds | believed to share from there on; not to, from its negative on |
//!
//! Disjoint paths of one connection can be in step, equal links with equal windows above all. Where a
//! controller's paths are ([`Detector::acts`]), a pair is not believed to share before so many windows
//! spoke for it in which one path alone acted: shrank its queue by intent ([`Detector::needs_act`]).
//! Paths that begin together rise together, and nothing is concluded from that.
//!
//! Groups are what such pairs connect.

mod evidence;
mod track;

use std::time::Duration;
use std::time::Instant;

use super::delay::sample;
use super::delay::Source;
use super::Ack;
use super::Param;
use super::Settings;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use evidence::weigh;
pub(super) use track::Act;
use track::Acting;
use track::Track;
use track::BIN;
use track::WINDOW;

/// How the paths that share a bottleneck are found.
pub const DETECT: Param = Param::choice(
    "detect",
    &["auto", "all", "none"],
    "by delays that move together; all paths are one group, or none is in one",
);

/// Where it takes queues from.
pub const POWER: Param = Param::time(
    "power",
    [1e-4, 5e-4, 2e-2],
    "how far a queueing delay has to move to say anything; standard deviation",
);

/// A verdict is reached here: Wald's bound for errors of 2 %.
const VERDICT: f64 = 4.0;

/// The most that is remembered of either.
const MOST_ODDS: f64 = 6.0;

/// Of a pair that is believed to share, one acts alone now and then to see. Who does not follow counts
/// for so much.
const SOLO_WEIGHT: f64 = 2.0;

/// What is left of the odds after a minute without a window that says anything is half.
const HALF_LIFE_SECS: f64 = 60.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Auto,
    All,
    None,
}

/// Two paths, `a` before `b` in ID order.
#[derive(Clone, Copy, Debug)]
struct Pair {
    paths: [PathId; 2],
    /// The bin after the last of the window that is weighed next.
    end: Option<i64>,
    llr: f64,
    /// Windows in a row that spoke for sharing, in which one of them alone acted.
    acts: u32,
    shared: bool,
    /// Either verdict was reached.
    decided: bool,
}

impl Pair {
    fn add(&mut self, llr: f64, secs: f64, acting: Acting, acts: u32) {
        let weight = match acting {
            // Delays of a group that acts together move together, whatever its paths share.
            Acting::Both if self.shared && llr > 0.0 => 0.0,
            Acting::One if self.shared && llr < 0.0 => SOLO_WEIGHT,
            _ => 1.0,
        };
        match weight * llr == 0.0 {
            true => self.llr *= (-secs / HALF_LIFE_SECS).exp2(),
            false => self.llr = (self.llr + weight * llr).clamp(-MOST_ODDS, MOST_ODDS),
        }
        self.acts = match acting == Acting::One && llr > 1.0 {
            _ if llr < 0.0 => 0,
            true => self.acts + 1,
            false => self.acts,
        };
        if self.llr >= VERDICT && self.acts >= acts {
            (self.shared, self.decided) = (true, true);
        } else if self.llr <= -VERDICT {
            (self.shared, self.decided) = (false, true);
        }
    }
}

/// The paths of a connection, and which of them share a bottleneck.
#[derive(Debug)]
pub(super) struct Detector {
    mode: Mode,
    /// Paths may be in step without sharing: one of them has to act alone so often before they are
    /// believed to share.
    acts: u32,
    power_secs: f64,
    epoch: Option<Instant>,
    tracks: PathMap<Track>,
    pairs: Vec<Pair>,
    /// The path that left last, and its pairs.
    left_at: Option<(Instant, PathId)>,
    left: Vec<Pair>,
    /// The least path ID of the group that a path is in.
    groups: PathMap<PathId>,
    turns: u64,
}

impl Detector {
    /// From [`DETECT`] and [`POWER`]; `acts` as in [`Detector::acts`].
    pub fn new(settings: &Settings, acts: u32) -> Self {
        Detector {
            acts,
            mode: match settings.word(DETECT.name) {
                "all" => Mode::All,
                "none" => Mode::None,
                _ => Mode::Auto,
            },
            power_secs: settings.get(POWER.name),
            epoch: None,
            tracks: PathMap::default(),
            pairs: Vec::new(),
            left_at: None,
            left: Vec::new(),
            groups: PathMap::default(),
            turns: 0,
        }
    }

    /// Counts what may change answers: paths that come and go, and pairs that are weighed.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// A path joins. One that left at the same time starts over: what was believed of it stays,
    /// without the evidence.
    pub fn add(&mut self, now: Instant, id: PathId) {
        let starts_over = self.left_at == Some((now, id));
        self.remove_pairs(id);
        for (other, _) in self.groups.iter().filter(|(other, _)| *other != id) {
            let paths = [id.min(other), id.max(other)];
            let before = self.left.iter().find(|pair| pair.paths == paths);
            let shared = starts_over && before.is_some_and(|pair| pair.shared);
            self.pairs.push(Pair {
                paths,
                end: None,
                llr: 0.0,
                acts: 0,
                shared,
                decided: shared,
            });
        }
        self.groups.insert(id, id);
        self.tracks.remove(id);
        // Of a path alone nothing is kept: a kilobyte for each connection.
        if !self.pairs.is_empty() {
            for (id, _) in self.groups.iter() {
                if self.tracks.get(id).is_none() {
                    self.tracks.insert(id, Track::default());
                }
            }
        }
        self.connect();
    }

    /// A path leaves.
    pub fn remove(&mut self, now: Instant, id: PathId) {
        self.tracks.remove(id);
        self.groups.remove(id);
        self.left_at = Some((now, id));
        self.left.clear();
        self.left
            .extend(self.pairs.iter().filter(|pair| pair.paths.contains(&id)));
        self.remove_pairs(id);
        self.connect();
    }

    fn remove_pairs(&mut self, id: PathId) {
        self.turns += 1;
        self.pairs.retain(|pair| !pair.paths.contains(&id));
    }

    /// The queueing delay of a path of late, s.
    pub fn queue_secs(&self, id: PathId) -> f64 {
        self.tracks.get(id).map_or(0.0, Track::queue_secs)
    }

    /// Whether two paths are believed to share a bottleneck; a path does with itself.
    pub fn same_group(&self, a: PathId, b: PathId) -> bool {
        a == b || self.groups.get(a).is_some() && self.groups.get(a) == self.groups.get(b)
    }

    /// The group of a path: the least ID of its paths, which may be its own.
    pub fn group(&self, id: PathId) -> PathId {
        self.groups.get(id).copied().unwrap_or(id)
    }

    /// The same, if there is a verdict on whether the path shares with any other.
    pub fn verdict(&self, id: PathId) -> Option<PathId> {
        let of_path = |pair: &&Pair| pair.paths.contains(&id);
        let known = match self.mode {
            Mode::Auto => self.pairs.iter().filter(of_path).any(|pair| pair.decided),
            Mode::All => self.group_paths(id) > 1,
            Mode::None => false,
        };
        known.then(|| self.group(id))
    }

    /// How many paths are in the group of `id`, itself among them.
    pub fn group_paths(&self, id: PathId) -> usize {
        let others = self.groups.iter().map(|(other, _)| other);
        others.filter(|other| self.same_group(id, *other)).count()
    }

    /// Whether it is not known yet of two paths.
    pub fn is_open(&self, a: PathId, b: PathId) -> bool {
        self.mode == Mode::Auto && self.pair(a, b).is_some_and(|pair| !pair.decided)
    }

    /// The odds that `id` shares with the path that it most likely shares with; 0 if it is alone.
    pub fn llr(&self, id: PathId) -> f64 {
        let pairs = self.pairs.iter().filter(|pair| pair.paths.contains(&id));
        pairs.map(|pair| pair.llr).reduce(f64::max).unwrap_or(0.0)
    }

    fn pair(&self, a: PathId, b: PathId) -> Option<&Pair> {
        let paths = [a.min(b), a.max(b)];
        self.pairs.iter().find(|pair| pair.paths == paths)
    }

    /// Whether delays say that `id` shares with another, but neither of the two acted alone.
    pub fn needs_act(&self, id: PathId) -> bool {
        let waits =
            |pair: &Pair| !pair.shared && pair.acts < self.acts && pair.llr >= VERDICT / 2.0;
        self.mode == Mode::Auto
            && (self.pairs.iter()).any(|pair| pair.paths.contains(&id) && waits(pair))
    }

    /// What an ACK says about the delay of `path`, which does `act`. True if groups changed.
    pub fn on_ack(&mut self, now: Instant, path: &PathState, ack: &Ack, act: Act) -> bool {
        if self.mode != Mode::Auto || self.pairs.is_empty() {
            return false;
        }
        let Some((source, micros)) = sample(path, ack) else {
            return false;
        };
        let epoch = *self.epoch.get_or_insert(now);
        let since = |time: Instant| {
            // Not as_micros(), which counts in 128 bits.
            let micros = |duration: Duration| {
                duration.as_secs() as i64 * 1_000_000 + i64::from(duration.subsec_micros())
            };
            match time.checked_duration_since(epoch) {
                Some(since) => micros(since),
                None => -micros(epoch.saturating_duration_since(time)),
            }
        };
        let arrived = match source {
            Source::OneWay => since(ack.newest_sent).saturating_add(micros),
            Source::RoundTrip(_) => since(now),
        };
        let Some(track) = self.tracks.get_mut(path.id) else {
            return false;
        };
        match track.add(source, arrived, micros, act) {
            true => self.weigh(path.id),
            false => false,
        }
    }

    /// Weighs the windows that are complete, now that path `id` has a new bin.
    fn weigh(&mut self, id: PathId) -> bool {
        let mut changed = false;
        for pair in &mut self.pairs {
            if !pair.paths.contains(&id) {
                continue;
            }
            let [a, b] = pair.paths;
            let (Some(a), Some(b)) = (self.tracks.get(a), self.tracks.get(b)) else {
                continue;
            };
            let Some(known) = a.known_with(b) else {
                continue;
            };
            let end = match pair.end {
                // What was not weighed in time is gone.
                Some(end) if known < end + WINDOW as i64 => end,
                _ => known + WINDOW as i64,
            };
            pair.end = Some(end);
            if known < end {
                continue;
            }
            self.turns += 1;
            pair.end = Some(end + WINDOW as i64);
            let was_shared = pair.shared;
            let llr = weigh(a, b, end, self.power_secs);
            let secs = (BIN * WINDOW as u32).as_secs_f64();
            pair.add(llr, secs, a.acting(b, end), self.acts);
            changed |= pair.shared != was_shared;
        }
        if changed {
            self.connect();
        }
        changed
    }

    /// The connected components of the shared pairs.
    fn connect(&mut self) {
        let all = self.mode == Mode::All;
        let first = self.groups.iter().next().map(|(id, _)| id);
        for (id, group) in self.groups.iter_mut() {
            *group = first.filter(|_| all).unwrap_or(id);
        }
        // Each turn joins two groups, or is the last.
        loop {
            let groups = &self.groups;
            let mut shared = self.pairs.iter().filter(|pair| pair.shared);
            let joins = shared.find_map(|pair| {
                let [a, b] = pair.paths.map(|id| groups.get(id).copied());
                (a != b).then_some((a?.min(b?), a?.max(b?)))
            });
            let Some((kept, joined)) = joins else { return };
            for (_, group) in self.groups.iter_mut() {
                if *group == joined {
                    *group = kept;
                }
            }
        }
    }
}

/// How long an act has to last to be seen.
pub(super) const ACT_TIME: Duration = Duration::from_millis(60);

#[cfg(test)]
mod tests;
