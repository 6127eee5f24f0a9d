//! Mutation testing of one crate, with one build for all mutants.
//!
//! cargo-mutants names the changes, and compiles each by itself: seconds each, where the tests take
//! milliseconds. Here all are put into the source at once, each behind a number ([`switch`]); those
//! that do not compile are taken out ([`build`]), and the tests are asked about each number: all of them
//! ([`ask`]), or, where there are many, those that reach its place ([`ask_reaching`]).

mod ask;
mod ask_reaching;
mod build;
mod list;
mod memory;
mod reach;
mod report;
mod run;
mod switch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;

use ask::Outcome;
use list::Mutant;

/// Tries the mutants that `cargo mutants --list --json` names, in a copy of the crate.
#[derive(Parser)]
struct Options {
    /// The copy of the crate; its sources are changed.
    #[arg(long)]
    dir: PathBuf,

    /// The features that it is built with.
    #[arg(long, default_value = "")]
    features: String,

    /// The list.
    #[arg(long)]
    list: PathBuf,

    /// Where the results go: `results.json`, `survived`, `untried`, `unit-survived`, `table.md`.
    #[arg(long)]
    out: PathBuf,

    /// `PREFIX=NAME,NAME`: integration tests to ask, in this order, about what the unit tests let pass in
    /// files whose names begin so.
    #[arg(long = "tests", value_parser = about)]
    tests: Vec<(String, Vec<String>)>,

    /// Asks about each change only those unit tests that reach it, about so many changes at a time.
    #[arg(long, value_name = "JOBS", conflicts_with = "tests")]
    reaching: Option<usize>,

    /// Seconds that the tests of one change may take together, with `--reaching`.
    #[arg(long, default_value_t = 60, requires = "reaching")]
    most: u64,

    /// Unit tests with this in their names are not asked.
    #[arg(long)]
    skip: Vec<String>,
}

fn about(text: &str) -> Result<(String, Vec<String>)> {
    let (prefix, names) = text.split_once('=').context("no `=`")?;
    Ok((
        prefix.to_owned(),
        names.split(',').map(str::to_owned).collect(),
    ))
}

fn main() -> Result<()> {
    let options = Options::parse();
    let mutants = list::read(&options.list)?;
    let sources = switch::sources(&options.dir, &mutants)?;
    let places: BTreeMap<usize, usize> = sources.iter().flat_map(switch::Source::placed).collect();

    let of = build::Crate {
        dir: &options.dir,
        features: &options.features,
    };
    let broken = build::until_it_compiles(&of, &sources)?;
    let tried: Vec<&Mutant> = mutants
        .iter()
        .filter(|mutant| places.contains_key(&mutant.id) && !broken.contains(&mutant.id))
        .collect();
    let mut outcomes = match options.reaching {
        None => ask::all(&build::tests(&of, &options.asked(&mutants))?, &tried)?,
        Some(jobs) => {
            let mut unit = build::tests(&of, &[])?.remove(0);
            unit.args = options
                .skip
                .iter()
                .flat_map(|part| ["--skip".to_owned(), part.clone()])
                .collect();
            let tried: Vec<_> = tried
                .into_iter()
                .map(|mutant| (mutant, places[&mutant.id]))
                .collect();
            let most = Duration::from_secs(options.most);
            ask_reaching::all(&unit, &tried, &options.out.join("reach"), jobs, most)?
        }
    };
    for mutant in &mutants {
        let otherwise = match broken.contains(&mutant.id) {
            true => Outcome::DoesNotCompile,
            false => Outcome::Untried,
        };
        outcomes.entry(mutant.id).or_insert(otherwise);
    }
    report::write(&options.out, &mutants, &outcomes)
}

impl Options {
    /// The integration tests that any of the mutants is asked of.
    fn asked(&self, mutants: &[Mutant]) -> Vec<(String, Vec<String>)> {
        let is_asked = |(prefix, _): &&(String, Vec<String>)| {
            let mut files = mutants.iter().map(|mutant| &mutant.file);
            files.any(|file| file.starts_with(prefix.as_str()))
        };
        self.tests.iter().filter(is_asked).cloned().collect()
    }
}
