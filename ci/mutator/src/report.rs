//! Writes down what became of the mutants.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use anyhow::Result;

use crate::ask::Outcome;
use crate::build::UNIT;
use crate::list::Mutant;

fn is_by_unit(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Noticed { by, .. } if by == UNIT)
}

/// Writes the files of results, and prints the table.
pub fn write(out: &Path, mutants: &[Mutant], outcomes: &BTreeMap<usize, Outcome>) -> Result<()> {
    let named: BTreeMap<&str, &Outcome> = mutants
        .iter()
        .map(|mutant| (mutant.name.as_str(), &outcomes[&mutant.id]))
        .collect();
    let write = |name: &str, text: String| {
        let path = out.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write("results.json", serde_json::to_string_pretty(&named)?)?;
    let those = |is_wanted: &dyn Fn(&Outcome) -> bool| -> String {
        let names = named.iter().filter(|(_, outcome)| is_wanted(outcome));
        names.map(|(name, _)| format!("{name}\n")).collect()
    };
    write("survived", those(&Outcome::survives))?;
    write("untried", those(&|outcome| *outcome == Outcome::Untried))?;
    write(
        "unit-survived",
        those(&|outcome| {
            let is_noticed = matches!(outcome, Outcome::Noticed { .. });
            outcome.survives() || is_noticed && !is_by_unit(outcome)
        }),
    )?;
    let table = table(mutants, outcomes);
    print!("{table}");
    write("table.md", table)
}

/// Counts by file, as Markdown.
fn table(mutants: &[Mutant], outcomes: &BTreeMap<usize, Outcome>) -> String {
    let mut rows: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    for mutant in mutants {
        let column = match &outcomes[&mutant.id] {
            Outcome::Noticed { .. } | Outcome::TooLong => 1,
            Outcome::DoesNotCompile => 2,
            Outcome::Untried => 3,
            Outcome::Survived | Outcome::Unreached => 4,
        };
        for row in [mutant.file.as_str(), "together"] {
            let row = rows.entry(row).or_default();
            row[0] += 1;
            row[column] += 1;
        }
    }
    let mut text = String::from(
        "| file | mutants | noticed | do not compile | not tried | survive |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    let together = rows.remove("together").unwrap_or_default();
    for (file, counts) in rows.iter().chain([(&"together", &together)]) {
        let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
        text += &format!("| {file} | {} |\n", counts.join(" | "));
    }
    text
}
