//! Asks about each mutant those unit tests that reach it, where all of them would take too long.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::ask::Outcome;
use crate::ask::LEAST_LIMIT;
use crate::list::Mutant;
use crate::reach::Reach;
use crate::run::Binary;
use crate::run::Run;

/// What the first tests that are asked may take together; each time that they pass, more may.
const FIRST_BATCH: Duration = Duration::from_millis(40);
const GROWTH: u32 = 4;

/// How many tests are kept in mind because they noticed something: they notice more of its kind.
const RECENT: usize = 12;

/// What the threads share.
struct Shared<'a> {
    binary: &'a Binary,
    reach: Reach,
    /// The mutants still to be tried, each with its place.
    queue: Mutex<VecDeque<(&'a Mutant, usize)>>,
    /// The tests that noticed something last.
    recent: Mutex<VecDeque<usize>>,
    most: Duration,
    outcomes: Mutex<BTreeMap<usize, Outcome>>,
}

/// Tries all mutants, each with its place, `jobs` at a time. By number: what became of it. What all tests that are
/// asked about one take together is at `most` so much: the few that take longest are left out where many reach it.
pub fn all(
    binary: &Binary,
    mutants: &[(&Mutant, usize)],
    notes: &Path,
    jobs: usize,
    most: Duration,
) -> Result<BTreeMap<usize, Outcome>> {
    let shared = Shared {
        binary,
        reach: Reach::of(binary, notes)?,
        queue: Mutex::new(mutants.iter().copied().collect()),
        recent: Mutex::default(),
        most,
        outcomes: Mutex::default(),
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| shared.work())).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect::<Result<()>>()
    })?;
    Ok(shared.outcomes.into_inner().unwrap())
}

impl Shared<'_> {
    fn work(&self) -> Result<()> {
        loop {
            let Some((mutant, place)) = self.queue.lock().unwrap().pop_front() else {
                return Ok(());
            };
            let outcome = self.outcome(mutant.id, self.reach.to(place))?;
            if outcome.survives() {
                eprintln!("{outcome:?}: {}", mutant.name);
            }
            let mut outcomes = self.outcomes.lock().unwrap();
            outcomes.insert(mutant.id, outcome);
            if outcomes.len().is_multiple_of(100) {
                eprintln!("{} tried", outcomes.len());
            }
        }
    }

    fn outcome(&self, mutant: usize, tests: &[usize]) -> Result<Outcome> {
        if tests.is_empty() {
            return Ok(Outcome::Unreached);
        }
        let recent = self.recent.lock().unwrap().clone();
        for batch in batches(&self.reach, tests, &recent, self.most) {
            let names = batch.iter().map(|test| &*self.reach.tests[*test].name);
            let takes = batch.iter().map(|test| self.reach.tests[*test].takes);
            let run = Run {
                mutant,
                tests: names.collect(),
                silence: LEAST_LIMIT + 10 * takes.max().unwrap_or_default(),
                notes: None,
            };
            if let Some(failure) = self.binary.fails(&run)? {
                let outcome = Outcome::of(failure, self.binary);
                if let Outcome::Noticed { test: Some(by), .. } = &outcome {
                    let is_it = |test: &&usize| self.reach.tests[**test].name == *by;
                    self.remember(batch.iter().copied().find(|test| is_it(&test)));
                }
                return Ok(outcome);
            }
        }
        Ok(Outcome::Survived)
    }

    fn remember(&self, test: Option<usize>) {
        let mut recent = self.recent.lock().unwrap();
        recent.retain(|other| Some(*other) != test);
        recent.extend(test);
        if recent.len() > RECENT {
            recent.pop_front();
        }
    }
}

/// Splits the tests, which are sorted by time: those that noticed something last and are quick, then the
/// others, more each time.
fn batches(
    reach: &Reach,
    tests: &[usize],
    recent: &VecDeque<usize>,
    most: Duration,
) -> Vec<Vec<usize>> {
    let takes = |test: &usize| reach.tests[*test].takes;
    let is_first = |test: &usize| recent.contains(test) && takes(test) <= FIRST_BATCH;
    let (first, others): (Vec<usize>, Vec<usize>) = tests.iter().partition(|test| is_first(test));
    let mut batches = vec![first];
    let mut together = Duration::ZERO;
    let mut left = Duration::ZERO;
    let mut room = FIRST_BATCH;
    for test in others {
        together += takes(&test);
        if together > most && batches.len() > 1 {
            break;
        }
        if left < takes(&test) {
            batches.push(Vec::new());
            left = room;
            room *= GROWTH;
        }
        left = left.saturating_sub(takes(&test));
        batches.last_mut().unwrap().push(test);
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_noticed_something_is_asked_first_and_then_more_each_time() {
        let lines: Vec<String> = (0..9).map(|test| format!("t{test}\t30000\t1\n")).collect();
        let reach = Reach::read(&lines.concat()).unwrap();
        let recent = VecDeque::from([4, 77]);
        let all = batches(&reach, reach.to(1), &recent, Duration::from_secs(60));
        assert_eq!(all, [vec![4], vec![0], vec![1, 2, 3, 5, 6], vec![7, 8]]);

        let some = batches(&reach, reach.to(1), &recent, Duration::from_millis(100));
        assert_eq!(some, [vec![4], vec![0], vec![1, 2]]);
    }
}
