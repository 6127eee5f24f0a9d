//! Runs the tests on one mutant after another.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Result;
use serde::Serialize;

use crate::list::Mutant;

/// The name of the unit tests.
pub const UNIT: &str = "unit tests";

/// What tests may take beyond ten times what they take by themselves: the machine may be busy.
const LEAST_LIMIT: Duration = Duration::from_secs(10);

/// Kilobytes that the tests may allocate: some changes would take all there is.
const MEMORY_KB: u32 = 4_000_000;

/// Some tests.
pub struct Binary {
    pub name: String,
    /// How the names of the files begin that they are asked about.
    pub about: String,
    pub path: PathBuf,
    /// Where they run.
    pub dir: PathBuf,
}

/// What became of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// These tests failed.
    Noticed(String),
    DoesNotCompile,
    TooLong,
    /// It has no place, as in what is evaluated at compile time.
    Untried,
    Survived,
}

impl Binary {
    /// Whether the tests pass with the mutant; none if they take longer than the limit.
    fn passes(&self, mutant: usize, limit: Duration) -> Result<Option<bool>> {
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -v {MEMORY_KB}; exec \"$0\" --quiet"))
            .arg(&self.path)
            .current_dir(&self.dir)
            .env("MUTANT", mutant.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status.success()));
            }
            if began.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Puts back what property tests remember of failures, or those of one mutant would be asked of the next.
fn forget_failures(memory: &[(PathBuf, Vec<u8>)]) -> Result<()> {
    for (path, content) in memory {
        fs::write(path, content)?;
    }
    Ok(())
}

/// What they remember now.
fn remembered(dir: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut memory = Vec::new();
    for entry in fs::read_dir(dir.join("tests"))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|e| e == "proptest-regressions")
        {
            memory.push((path.clone(), fs::read(path)?));
        }
    }
    Ok(memory)
}

/// Runs all tests on all mutants, until the first that fails. By number: what became of it.
pub fn all(binaries: &[Binary], mutants: &[&Mutant]) -> Result<BTreeMap<usize, Outcome>> {
    let mut limits = Vec::new();
    for binary in binaries {
        let began = Instant::now();
        if binary.passes(0, Duration::from_secs(600))? != Some(true) {
            bail!("{} fail without a mutant", binary.name);
        }
        limits.push(LEAST_LIMIT.max(10 * began.elapsed()));
    }
    let memory = match binaries.first() {
        Some(binary) => remembered(&binary.dir)?,
        None => Vec::new(),
    };
    let mut outcomes = BTreeMap::new();
    for (count, mutant) in mutants.iter().enumerate() {
        let mut outcome = Outcome::Survived;
        let asked = |(binary, _): &(&Binary, &Duration)| mutant.file.starts_with(&binary.about);
        for (binary, limit) in binaries.iter().zip(&limits).filter(asked) {
            match binary.passes(mutant.id, *limit)? {
                Some(true) => continue,
                Some(false) => outcome = Outcome::Noticed(binary.name.clone()),
                None => outcome = Outcome::TooLong,
            }
            forget_failures(&memory)?;
            break;
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
