//! Asks tests about one mutant after another.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Result;
use serde::Serialize;

use crate::list::Mutant;
use crate::memory::Memory;
use crate::run::Binary;
use crate::run::Failure;
use crate::run::Run;

/// What tests may take beyond ten times what they take by themselves: the machine may be busy.
pub const LEAST_LIMIT: Duration = Duration::from_secs(10);

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// A test fails.
    Noticed {
        /// Of these tests.
        by: String,
        /// Its name, but if the process dies.
        test: Option<String>,
    },
    DoesNotCompile,
    TooLong,
    /// It has no place, as in what is evaluated at compile time.
    Untried,
    Survived,
    /// Survived, as no test reaches its place.
    Unreached,
}

impl Outcome {
    pub fn of(failure: Failure, binary: &Binary) -> Outcome {
        match failure {
            Failure::Test(test) => Outcome::Noticed {
                by: binary.name.clone(),
                test,
            },
            Failure::TooLong => Outcome::TooLong,
        }
    }

    pub fn survives(&self) -> bool {
        matches!(self, Outcome::Survived | Outcome::Unreached)
    }
}

/// Runs all tests on all mutants, until the first that fails. By number: what became of it.
pub fn all(binaries: &[Binary], mutants: &[&Mutant]) -> Result<BTreeMap<usize, Outcome>> {
    let mut limits = Vec::new();
    for binary in binaries {
        let began = Instant::now();
        let run = Run {
            silence: Duration::from_secs(600),
            ..Run::default()
        };
        if let Some(failure) = binary.fails(&run)? {
            bail!("{}, without a mutant: {failure:?}", binary.name);
        }
        limits.push(LEAST_LIMIT.max(10 * began.elapsed()));
    }
    let memory = binaries.first().map(|binary| Memory::of(&binary.dir));
    let memory = memory.transpose()?;
    let mut outcomes = BTreeMap::new();
    for (count, mutant) in mutants.iter().enumerate() {
        let mut outcome = Outcome::Survived;
        let asked = |(binary, _): &(&Binary, &Duration)| mutant.file.starts_with(&binary.about);
        for (binary, limit) in binaries.iter().zip(&limits).filter(asked) {
            let run = Run {
                mutant: mutant.id,
                silence: *limit,
                ..Run::default()
            };
            if let Some(failure) = binary.fails(&run)? {
                outcome = Outcome::of(failure, binary);
                memory.iter().try_for_each(Memory::restore)?;
                break;
            }
        }
        if outcome == Outcome::Survived {
            eprintln!("survived: {}", mutant.name);
        }
        if (count + 1) % 100 == 0 {
            eprintln!("{} of {}", count + 1, mutants.len());
        }
        outcomes.insert(mutant.id, outcome);
    }
    Ok(outcomes)
}
