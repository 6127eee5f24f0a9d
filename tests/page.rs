//! docs/controllers.md against the list of controllers.

use mpq_decision::cc::CONTROLLERS;

const PAGE: &str = include_str!("../docs/controllers.md");

/// The cells of the rows of all tables.
fn rows() -> impl Iterator<Item = Vec<&'static str>> {
    PAGE.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The rows of the table of controllers: name, scope, what it does, source.
fn controllers() -> Vec<Vec<&'static str>> {
    rows()
        .filter(|row| row.len() == 4 && row[0] != "name")
        .collect()
}

/// The rows of the table of parameters: controllers, default, unit, range, meaning.
fn parameters() -> Vec<Vec<&'static str>> {
    rows()
        .filter(|row| row.len() == 5 && row[0] != "controller")
        .collect()
}

/// Whether `text` has `word` as code.
fn names(text: &str, word: &str) -> bool {
    text.contains(&format!("`{word}`"))
}

#[test]
fn every_controller_has_a_row_and_a_file() {
    let table = controllers();
    assert_eq!(table.len(), CONTROLLERS.len());
    for entry in CONTROLLERS {
        let row = table.iter().find(|row| names(row[0], entry.name));
        let row = row.unwrap_or_else(|| panic!("no row for {}", entry.name));
        let scope = if entry.coupled { "coupled" } else { "each" };
        assert_eq!(row[1], scope, "{}", entry.name);

        let (_, link) = row[0].split_once("](../").expect("a link");
        let file = format!(
            "{}/{}",
            env!("CARGO_MANIFEST_DIR"),
            link.trim_end_matches(')')
        );
        let source = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            source.contains(&format!("name: \"{}\"", entry.name)),
            "{file}"
        );
    }
}

#[test]
fn every_parameter_has_a_row() {
    let table = parameters();
    let mut named = 0;
    for entry in CONTROLLERS {
        for param in entry.params {
            let default = format!("{}={}", param.name, param.default_text());
            let range = param.range_text();
            let unit = param.unit.to_string();
            let found = table.iter().any(|row| {
                names(row[0], entry.name)
                    && names(row[1], &default)
                    && row[2..] == [unit.as_str(), range.as_str(), param.about]
            });
            assert!(found, "no row for {param} of {}", entry.name);
            named += 1;
        }
    }
    // And no row for one that is gone.
    let cells: usize = table.iter().map(|row| row[0].split(", ").count()).sum();
    assert_eq!(cells, named);
}

#[test]
fn every_coupled_controller_is_among_the_readings() {
    let (_, readings) = PAGE.split_once("## Where sources are ambiguous").unwrap();
    let (readings, _) = readings.split_once("## Add one").unwrap();
    for entry in CONTROLLERS.iter().filter(|entry| entry.coupled) {
        assert!(names(readings, entry.name), "{}", entry.name);
    }
}
