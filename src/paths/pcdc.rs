//! PCDC, "path characteristic, data characteristic": only paths that add to the throughput carry data,
//! the others stand by [MO sections 2.1 and 3].
//!
//! ```text
//!   all paths, for T -> without path 1, for T -> all, for T -> without path 2, for T -> ...
//!   omega_i = 1 - TP_-i / TP_0; at the end those with omega > 0 are used
//! ```
//!
//! Every path is open and stays so: one is left out by its status, and the best one that is not used
//! takes the place of a used one that does not work [MO, after algorithm 1]. Only time counts in which
//! the application wanted data, so that T is that of a transfer, not of a film's pauses. A path that
//! comes or goes begins the measurement under way anew, and one that was in doubt for half of it makes
//! it worthless: shorter doubts are a part of what a path does to the others. One whose factor is not
//! known is used.
//!
//! | symbol | name here    | unit    | source                                        |
//! |--------|--------------|---------|-----------------------------------------------|
//! | T      | `t`          | time    | how long each throughput is measured; 30 s    |
//! | Omega  | `omega`      | 1       | impact factor of a path, eq. 5                |
//! | TP     | `rate`       | bytes/s | what was delivered while data was wanted      |

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use super::impact;
use super::impact::Member;
use super::Entry;
use super::Pair;
use super::Policy;
use super::Sample;
use super::View;
use super::RULES;
use crate::params::Param;
use crate::params::Settings;
use crate::registry::PathId;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "pcdc",
    summary: "full-mesh, but paths that take throughput from the others stand by: each is left out for 30 s to see",
    params: PARAMS,
    new: |settings| Box::new(Pcdc::new(settings)),
};

/// As published.
const PARAMS: &[Param] = &params([30.0, 0.0, 1.0, 0.0, 0.0], &["each", "once"]);

/// The rules of all policies, and those of this one with the defaults `t`, `settle`, `rounds`, `least`
/// and `again`; the first of `baselines` is the default.
pub(super) const fn params(
    [t, settle, rounds, least, again]: [f64; 5],
    baselines: &'static [&'static str],
) -> [Param; 11] {
    [
        RULES[0],
        RULES[1],
        RULES[2],
        RULES[3],
        RULES[4],
        Param::time(
            "t",
            [0.1, t, 600.0],
            "how long each throughput is measured, of the time in which data is wanted",
        ),
        Param::time(
            "settle",
            [0.0, settle, 60.0],
            "what is not counted after a path was left out or taken back",
        ),
        Param::number(
            "rounds",
            [1.0, rounds, 9.0],
            "measurements of each path, the median of which counts",
        ),
        Param::number(
            "least",
            [-1.0, least, 0.5],
            "impact factor above which a path is used",
        ),
        Param::time(
            "again",
            [0.0, again, 86_400.0],
            "after how long all is measured anew; 0s: never",
        ),
        Param::choice(
            "baseline",
            baselines,
            "whether all paths are measured before each that is left out, or once a round",
        ),
    ]
}

/// How often it looks at what was delivered while it measures.
const TICK: Duration = Duration::from_millis(100);

/// Where a path runs, whatever our port and the interface's number.
type Ends = (IpAddr, SocketAddr);

/// What is known of a path, also after it went.
#[derive(Clone, Debug)]
struct Factor {
    ends: Ends,
    measured: Vec<f64>,
    omega: Option<f64>,
}

/// What is being measured.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    Rest,
    /// All of `set`.
    All {
        set: Vec<PathId>,
    },
    /// All of `set` but one.
    Without {
        set: Vec<PathId>,
        left_out: PathId,
        /// Bytes per second with all of them.
        all: f64,
    },
}

/// What was delivered in a phase.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    begin: Option<Instant>,
    last: Option<(Instant, Sample)>,
    wanted: Duration,
    /// The part of it in which a path that was to carry data was in doubt.
    doubted: Duration,
    bytes: u64,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Pcdc {
    t: Duration,
    settle: Duration,
    rounds: usize,
    least: f64,
    again: Option<Duration>,
    is_baseline_shared: bool,
    factors: Vec<Factor>,
    phase: Phase,
    tally: Tally,
    sample_at: Option<Instant>,
    measured_at: Option<Instant>,
}

impl Pcdc {
    pub(super) fn new(settings: &Settings) -> Pcdc {
        let time = |name| Duration::from_secs_f64(settings.get(name));
        let again = time("again");
        Pcdc {
            t: time("t"),
            settle: time("settle"),
            rounds: settings.get("rounds") as usize,
            least: settings.get("least"),
            again: (!again.is_zero()).then_some(again),
            is_baseline_shared: settings.word("baseline") == "once",
            factors: Vec::new(),
            phase: Phase::Rest,
            tally: Tally::default(),
            sample_at: None,
            measured_at: None,
        }
    }

    fn factor(&self, view: &View<'_>, path: PathId) -> Option<&Factor> {
        let ends = ends(&view.pair(path)?);
        self.factors.iter().find(|factor| factor.ends == ends)
    }

    fn omega(&self, view: &View<'_>, path: PathId) -> Option<f64> {
        self.factor(view, path)?.omega
    }

    /// The path of `set` to be left out next: of those without a factor the one that was measured least.
    fn next(&self, view: &View<'_>, set: &[PathId]) -> Option<PathId> {
        let unknown = set.iter().copied();
        let unknown = unknown.filter(|path| self.omega(view, *path).is_none());
        unknown.min_by_key(|path| self.factor(view, *path).map_or(0, |f| f.measured.len()))
    }

    /// Whether a path carries data while `set` is measured: those that are not in it were left out
    /// before.
    fn takes_part(&self, view: &View<'_>, set: &[PathId], path: PathId) -> bool {
        set.contains(&path) || self.omega(view, path).is_none()
    }

    fn enter(&mut self, now: Instant, phase: Phase) {
        self.phase = phase;
        self.tally = Tally {
            begin: Some(now + self.settle),
            ..Tally::default()
        };
        self.sample_at = match self.phase {
            Phase::Rest => None,
            _ => Some(now + self.settle),
        };
    }

    /// What comes after a measurement of `all` bytes per second, if that still holds.
    fn go_on(&mut self, now: Instant, view: &View<'_>, set: Vec<PathId>, all: Option<f64>) {
        let phase = match (self.next(view, &set), all) {
            (Some(left_out), Some(all)) => Phase::Without { set, left_out, all },
            (Some(_), None) => Phase::All { set },
            (None, _) => {
                self.measured_at = Some(now);
                let there: Vec<Ends> = usable(view)
                    .into_iter()
                    .filter_map(|path| view.pair(path))
                    .map(|pair| ends(&pair))
                    .collect();
                // Networks that were left do not count as broken.
                self.factors.retain(|f| there.contains(&f.ends));
                Phase::Rest
            }
        };
        self.enter(now, phase);
    }

    fn note(&mut self, ends: Ends, omega: f64) {
        let rounds = self.rounds;
        let at = self.factors.iter().position(|f| f.ends == ends);
        let at = at.unwrap_or_else(|| {
            self.factors.push(Factor {
                ends,
                measured: Vec::new(),
                omega: None,
            });
            self.factors.len() - 1
        });
        let factor = &mut self.factors[at];
        factor.measured.push(omega);
        if factor.measured.len() >= rounds {
            factor.omega = impact::median(&factor.measured);
        }
    }

    /// The phase is over: so many bytes per second were delivered.
    fn finish(&mut self, now: Instant, view: &View<'_>, rate: f64) {
        match self.phase.clone() {
            Phase::Rest => {}
            Phase::All { set } => {
                let all = (rate > 0.0).then_some(rate);
                self.go_on(now, view, set, all);
            }
            Phase::Without { set, left_out, all } => {
                let omega = impact::omega(all, rate);
                if let Some((pair, omega)) = view.pair(left_out).zip(omega) {
                    self.note(ends(&pair), omega);
                }
                let measured = |p: &PathId| self.factor(view, *p).map_or(0, |f| f.measured.len());
                let first = set.iter().map(measured).min() == set.iter().map(measured).max();
                let all = (self.is_baseline_shared && !first).then_some(all);
                self.go_on(now, view, set, all);
            }
        }
    }
}

/// What may carry data, in doubt or not.
fn usable(view: &View<'_>) -> Vec<PathId> {
    let paths = view.paths();
    paths
        .filter(|path| view.is_usable(*path) && !view.stands_by(*path))
        .collect()
}

fn ends(pair: &Pair) -> Ends {
    (pair.local.ip, pair.remote)
}

impl Policy for Pcdc {
    fn wants(&self, _view: &View<'_>, _pair: &Pair) -> Result<(), &'static str> {
        Ok(())
    }

    fn carries(&self, view: &View<'_>, path: PathId) -> bool {
        match &self.phase {
            Phase::All { set } => self.takes_part(view, set, path),
            Phase::Without { set, left_out, .. } => {
                *left_out != path && self.takes_part(view, set, path)
            }
            Phase::Rest => {
                let open: Vec<PathId> = view.paths().collect();
                let mut members: Vec<Member> = open
                    .iter()
                    .map(|path| Member {
                        omega: self.omega(view, *path),
                        works: view.works(*path) && !view.stands_by(*path),
                    })
                    .collect();
                // Those that were used and are gone are to be replaced, too.
                let is_open = |factor: &&Factor| {
                    let mut pairs = open.iter().filter_map(|path| view.pair(*path));
                    pairs.any(|pair| ends(&pair) == factor.ends)
                };
                let gone = self.factors.iter().filter(|f| !is_open(f));
                let gone = gone.filter(|f| f.omega.is_some());
                members.extend(gone.map(|factor| Member {
                    omega: factor.omega,
                    works: false,
                }));
                let chosen = impact::chosen(&members, self.least);
                let at = open.iter().position(|other| *other == path);
                at.is_none_or(|at| chosen[at])
            }
        }
    }

    fn races(&self) -> bool {
        true
    }

    fn look(&mut self, now: Instant, view: &View<'_>) {
        let usable = usable(view);
        let set: Vec<PathId> = match &self.phase {
            Phase::All { set } | Phase::Without { set, .. } => {
                let of = usable.into_iter();
                of.filter(|path| self.takes_part(view, set, *path))
                    .collect()
            }
            // What was left out before this measurement stays so.
            Phase::Rest => {
                let is_used = |omega: f64| omega > self.least;
                let of = usable.into_iter();
                of.filter(|path| self.omega(view, *path).is_none_or(is_used))
                    .collect()
            }
        };
        match &self.phase {
            Phase::All { set: old } | Phase::Without { set: old, .. } if *old != set => {
                self.enter(now, Phase::Rest);
            }
            Phase::All { .. } | Phase::Without { .. } => return,
            Phase::Rest => {}
        }
        let is_due = |at: Instant, again: Duration| now.saturating_duration_since(at) >= again;
        if let Some((at, again)) = self.measured_at.zip(self.again) {
            if is_due(at, again) {
                self.factors.clear();
                self.measured_at = None;
            }
        }
        if set.len() >= 2 && self.next(view, &set).is_some() {
            self.enter(now, Phase::All { set });
        }
    }

    fn sample_at(&self) -> Option<Instant> {
        self.sample_at
    }

    fn on_sample(&mut self, now: Instant, view: &View<'_>, sample: Sample) {
        let is_in_doubt = match &self.phase {
            Phase::Rest => return,
            Phase::All { set } => set.iter().any(|path| !view.works(*path)),
            Phase::Without { set, left_out, .. } => {
                let mut carriers = set.iter().filter(|path| *path != left_out);
                carriers.any(|path| !view.works(*path))
            }
        };
        self.sample_at = Some(now + TICK);
        let tally = &mut self.tally;
        let begun = tally.begin.is_some_and(|begin| begin <= now);
        let last = tally.last.replace((now, sample));
        let Some((then, before)) = last.filter(|_| begun) else {
            return;
        };
        if !(before.is_wanted && sample.is_wanted) {
            return;
        }
        let elapsed = now.saturating_duration_since(then);
        tally.wanted += elapsed;
        if is_in_doubt {
            tally.doubted += elapsed;
        }
        let bytes = sample.delivered_bytes;
        tally.bytes += bytes.saturating_sub(before.delivered_bytes);
        let (wanted, doubted) = (tally.wanted, tally.doubted);
        if wanted < self.t {
            return;
        }
        if 2 * doubted >= wanted {
            if let Phase::All { set } | Phase::Without { set, .. } = self.phase.clone() {
                self.enter(now, Phase::All { set });
            }
            return;
        }
        let rate = tally.bytes as f64 / wanted.as_secs_f64();
        self.finish(now, view, rate);
    }

    fn look_at(&self) -> Option<Instant> {
        let at = self.measured_at.filter(|_| self.phase == Phase::Rest)?;
        Some(at + self.again?)
    }

    fn recall(&mut self, local: IpAddr, remote: SocketAddr, omega: f64) {
        self.factors.retain(|f| f.ends != (local, remote));
        self.factors.push(Factor {
            ends: (local, remote),
            measured: vec![omega],
            omega: Some(omega),
        });
        // What is being measured begins anew, without this path if it is to be left out.
        self.phase = Phase::Rest;
        self.sample_at = None;
    }

    fn impact(&self, view: &View<'_>, path: PathId) -> Option<f64> {
        self.omega(view, path)
    }
}
