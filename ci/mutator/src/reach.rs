//! Which tests reach which places.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

use crate::run::Binary;
use crate::run::Run;

/// One test.
pub struct Test {
    pub name: String,
    pub takes: Duration,
}

/// All tests that reach anything, the quickest first.
pub struct Reach {
    pub tests: Vec<Test>,
    /// By place: the tests, as they stand above.
    places: BTreeMap<usize, Vec<usize>>,
}

impl Reach {
    /// Runs all tests without a mutant; `notes` is a file that is written and read.
    pub fn of(binary: &Binary, notes: &Path) -> Result<Reach> {
        if notes.exists() {
            fs::remove_file(notes)?;
        }
        let run = Run {
            notes: Some(notes),
            silence: Duration::from_secs(600),
            ..Run::default()
        };
        if let Some(failure) = binary.fails(&run)? {
            bail!("without a mutant: {failure:?}");
        }
        Reach::read(&fs::read_to_string(notes).context("no test reaches anything")?)
    }

    pub fn read(notes: &str) -> Result<Reach> {
        let mut lines = Vec::new();
        for line in notes.lines() {
            let mut columns = line.split('\t');
            let mut column = || columns.next().context("notes of the tests");
            let (name, micros, places) = (column()?, column()?.parse()?, column()?);
            // Threads of tests have no name.
            if !name.is_empty() {
                lines.push((Duration::from_micros(micros), name, places));
            }
        }
        lines.sort();
        let mut reach = Reach {
            tests: Vec::new(),
            places: BTreeMap::new(),
        };
        for (number, (takes, name, places)) in lines.into_iter().enumerate() {
            let name = name.to_owned();
            reach.tests.push(Test { name, takes });
            for place in places.split_whitespace() {
                let tests = reach.places.entry(place.parse()?).or_default();
                tests.push(number);
            }
        }
        Ok(reach)
    }

    /// The tests that reach a place, the quickest first.
    pub fn to(&self, place: usize) -> &[usize] {
        self.places.get(&place).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_test_comes_first() {
        let reach = Reach::read("slow\t900\t1 2\nquick\t30\t2 7\n\t5\t9\n").unwrap();
        let names = |place| -> Vec<&str> {
            let tests = reach.to(place).iter();
            tests.map(|test| reach.tests[*test].name.as_str()).collect()
        };
        assert_eq!(names(1), ["slow"]);
        assert_eq!(names(2), ["quick", "slow"]);
        assert_eq!(names(9), [""; 0]);
    }
}
