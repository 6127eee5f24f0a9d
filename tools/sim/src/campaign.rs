//! All runs of a scenario, on several threads. What is finished is not run again.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::results::Folder;
use crate::results::Origin;
use crate::results::ResultError;
use crate::results::RunSummary;
use crate::results::Summary;
use crate::scenario::Document;
use crate::world;
use crate::world::RunError;

/// How often the observer hears of progress.
const TICK: Duration = Duration::from_millis(200);

/// How far a campaign is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs that are finished, and all.
    pub runs: (usize, usize),
    /// Of those that are to be run now: simulated seconds so far, and in all at most.
    pub simulated_s: (f64, f64),
}

/// How to run a scenario.
pub struct Campaign<'a> {
    /// The scenario.
    pub document: &'a Document,
    /// Where results go.
    pub folder: &'a Folder,
    /// What the manifests say.
    pub origin: &'a Origin,
    /// Threads.
    pub jobs: usize,
    /// Whether to write qlog.
    pub qlog: bool,
    /// Ends it early when set.
    pub stop: &'a AtomicBool,
}

/// What a campaign came to.
pub struct Campaigned {
    /// Over all runs that are finished.
    pub summary: Summary,
    /// Whether some are not.
    pub is_interrupted: bool,
}

impl Campaign<'_> {
    /// Runs what is not finished yet. `observe` is called five times a second.
    pub fn run(&self, observe: &mut dyn FnMut(Progress)) -> Result<Campaigned, ResultError> {
        let cases = &self.document.cases;
        let all: Vec<(usize, u64)> = (0..cases.len())
            .flat_map(|case| {
                cases[case]
                    .scenario
                    .seeds
                    .iter()
                    .map(move |seed| (case, *seed))
            })
            .collect();
        let mut done: Vec<(usize, RunSummary)> = Vec::new();
        let mut left = Vec::new();
        for (case, seed) in &all {
            match self.folder.finished(&cases[*case], *seed)? {
                Some(summary) => done.push((*case, summary)),
                None => left.push((*case, *seed)),
            }
        }
        let length_s = |case: usize| cases[case].scenario.duration.value.0.as_secs_f64();
        let total_s: f64 = left.iter().map(|(case, _)| length_s(*case)).sum();

        let next = AtomicUsize::new(0);
        let finished_ns = AtomicU64::new(0);
        let failed = AtomicBool::new(false);
        let results = Mutex::new(Ok(Vec::new()));
        let jobs = self.jobs.clamp(1, left.len().max(1));
        let under_way: Vec<AtomicU64> = (0..jobs).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            let threads: Vec<_> = under_way
                .iter()
                .map(|progress| {
                    let (left, next, results) = (&left, &next, &results);
                    let (finished_ns, failed) = (&finished_ns, &failed);
                    scope.spawn(move || loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some((case, seed)) = left.get(i).copied() else {
                            return;
                        };
                        if self.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                            return;
                        }
                        let result = self.one(case, seed, progress);
                        progress.store(0, Ordering::Relaxed);
                        finished_ns.fetch_add((length_s(case) * 1e9) as u64, Ordering::Relaxed);
                        let mut results = results.lock().unwrap_or_else(|e| e.into_inner());
                        match (result, results.as_mut()) {
                            (Ok(Some(summary)), Ok(done)) => done.push((case, summary)),
                            (Ok(None), _) => return,
                            (Err(error), _) => {
                                failed.store(true, Ordering::Relaxed);
                                *results = Err(error);
                                return;
                            }
                            (Ok(Some(_)), Err(_)) => {}
                        }
                    })
                })
                .collect();
            let told = || {
                let now_ns: u64 = under_way.iter().map(|p| p.load(Ordering::Relaxed)).sum();
                let so_far = finished_ns.load(Ordering::Relaxed) + now_ns;
                let results = results.lock().unwrap_or_else(|e| e.into_inner());
                let new = results.as_ref().map_or(0, |done: &Vec<_>| done.len());
                Progress {
                    runs: (done.len() + new, all.len()),
                    simulated_s: (so_far as f64 / 1e9, total_s),
                }
            };
            let mut last = Instant::now();
            while threads.iter().any(|thread| !thread.is_finished()) {
                thread::sleep(Duration::from_millis(10));
                if last.elapsed() >= TICK {
                    last = Instant::now();
                    observe(told());
                }
            }
            observe(told());
        });
        let new: Result<Vec<(usize, RunSummary)>, ResultError> =
            results.into_inner().unwrap_or_else(|e| e.into_inner());
        done.extend(new?);
        // In the order of the scenario, whoever was first.
        done.sort_by_key(|(case, run)| {
            let seeds = &cases[*case].scenario.seeds;
            (*case, seeds.iter().position(|seed| *seed == run.seed))
        });
        Ok(Campaigned {
            is_interrupted: done.len() < all.len(),
            summary: self.folder.summarise(self.document, &done)?,
        })
    }

    /// One run; `None` if it was interrupted.
    fn one(
        &self,
        case: usize,
        seed: u64,
        progress: &AtomicU64,
    ) -> Result<Option<RunSummary>, ResultError> {
        let case = &self.document.cases[case];
        let out = self.folder.begin(case, seed)?;
        let began = Instant::now();
        let options = world::Options {
            folder: &self.document.folder,
            seed,
            out: Some(&out),
            qlog: self.qlog,
            stop: self.stop,
            progress,
            linger: false,
            most_events: u64::MAX,
        };
        let outcome = match world::run(&case.scenario, &options) {
            Ok(outcome) => outcome,
            Err(RunError::Interrupted) => return Ok(None),
            Err(RunError::Write(path, error)) => return Err(ResultError::Write { path, error }),
            // A trace that vanished, say: this run cannot be, others may.
            Err(error @ (RunError::Setup(_) | RunError::Events(..) | RunError::Sends(_))) => {
                world::Outcome::failed(error.to_string())
            }
        };
        let wall_s = began.elapsed().as_secs_f64();
        self.folder
            .finish(self.document, case, seed, &outcome, self.origin, wall_s)
            .map(Some)
    }
}
