//! Mutation testing of one crate, with one build for all mutants.
//!
//! cargo-mutants names the changes, and compiles each by itself: seconds each, where the tests take
//! milliseconds. Here all are put into the source at once, each behind a number ([`switch`]); those
//! that do not compile are taken out ([`build`]), and the tests run once for each number ([`run`]).

mod build;
mod list;
mod run;
mod switch;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use clap::Parser;

use list::Mutant;
use run::Outcome;

/// Tries the mutants that `cargo mutants --list --json` names, in a copy of the crate.
#[derive(Parser)]
struct Options {
    /// The copy of the crate; its sources are changed.
    #[arg(long)]
    dir: PathBuf,

    /// The list.
    #[arg(long)]
    list: PathBuf,

    /// Where the results go: `results.json`, `survived`, `untried`, `table.md`.
    #[arg(long)]
    out: PathBuf,

    /// `PREFIX=NAME,NAME`: integration tests to ask, in this order, about what the unit tests let pass in
    /// files whose names begin so.
    #[arg(long = "tests", value_parser = about)]
    tests: Vec<(String, Vec<String>)>,
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
    let placed: BTreeSet<usize> = sources.iter().flat_map(switch::Source::placed).collect();

    let broken = build::until_it_compiles(&options.dir, &sources)?;
    let asked = |(prefix, _): &&(String, Vec<String>)| {
        mutants
            .iter()
            .any(|mutant| mutant.file.starts_with(prefix.as_str()))
    };
    let tests: Vec<_> = options.tests.iter().filter(asked).cloned().collect();
    let binaries = build::tests(&options.dir, &tests)?;
    let tried: Vec<&Mutant> = mutants
        .iter()
        .filter(|mutant| placed.contains(&mutant.id) && !broken.contains(&mutant.id))
        .collect();
    let mut outcomes = run::all(&binaries, &tried)?;
    for mutant in &mutants {
        let otherwise = match broken.contains(&mutant.id) {
            true => Outcome::DoesNotCompile,
            false => Outcome::Untried,
        };
        outcomes.entry(mutant.id).or_insert(otherwise);
    }
    report(&options, &mutants, &outcomes)
}

/// Writes the files of results, and prints the table.
fn report(
    options: &Options,
    mutants: &[Mutant],
    outcomes: &BTreeMap<usize, Outcome>,
) -> Result<()> {
    let named: BTreeMap<&str, &Outcome> = mutants
        .iter()
        .map(|mutant| (mutant.name.as_str(), &outcomes[&mutant.id]))
        .collect();
    let write = |name: &str, text: String| {
        let path = options.out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write("results.json", serde_json::to_string_pretty(&named)?)?;
    let those = |wanted: &[Outcome]| -> String {
        let names = named.iter().filter(|(_, outcome)| wanted.contains(outcome));
        names.map(|(name, _)| format!("{name}\n")).collect()
    };
    write("survived", those(&[Outcome::Survived]))?;
    write("untried", those(&[Outcome::Untried]))?;
    write("unit-survived", {
        let by_unit =
            |outcome: &Outcome| matches!(outcome, Outcome::Noticed(by) if by == run::UNIT);
        let names = named.iter().filter(|(_, outcome)| {
            ***outcome == Outcome::Survived
                || matches!(outcome, Outcome::Noticed(_)) && !by_unit(outcome)
        });
        names.map(|(name, _)| format!("{name}\n")).collect()
    })?;
    let table = table(mutants, outcomes);
    print!("{table}");
    write("table.md", table)
}

/// Counts by file, as Markdown.
fn table(mutants: &[Mutant], outcomes: &BTreeMap<usize, Outcome>) -> String {
    let mut rows: BTreeMap<&str, [usize; 7]> = BTreeMap::new();
    for mutant in mutants {
        let column = match &outcomes[&mutant.id] {
            Outcome::Noticed(by) if by == run::UNIT => 1,
            Outcome::Noticed(_) => 2,
            Outcome::DoesNotCompile => 3,
            Outcome::TooLong => 4,
            Outcome::Untried => 5,
            Outcome::Survived => 6,
        };
        for row in [mutant.file.as_str(), "together"] {
            let row = rows.entry(row).or_default();
            row[0] += 1;
            row[column] += 1;
        }
    }
    let mut text = String::from(
        "| file | mutants | noticed by unit tests | by `tests/` | do not compile | run for ever | not tried | survive |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    let together = rows.remove("together").unwrap_or_default();
    for (file, counts) in rows.iter().chain([(&"together", &together)]) {
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        text += &format!("| {file} | {} |\n", counts.join(" | "));
    }
    text
}
