//! What pages say of controllers, beyond the tables that `tools/mpq/tests/algorithms.rs` compares.

use mpq_decision::cc::CONTROLLERS;

const PAGE: &str = include_str!("../docs/controllers.md");

/// Whether `text` has `word` as code.
fn names(text: &str, word: &str) -> bool {
    text.contains(&format!("`{word}`"))
}

#[test]
fn every_controller_is_in_its_file() {
    for entry in CONTROLLERS {
        let file = format!("{}/{}", env!("CARGO_MANIFEST_DIR"), entry.file());
        let source = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            source.contains(&format!("name: \"{}\"", entry.name)),
            "{file}"
        );
    }
}

#[test]
fn every_coupled_controller_is_among_the_readings() {
    let (_, readings) = PAGE.split_once("## Where sources are ambiguous").unwrap();
    let (readings, _) = readings.split_once("## Add one").unwrap();
    for entry in CONTROLLERS.iter().filter(|entry| entry.coupled) {
        assert!(names(readings, entry.name), "{}", entry.name);
    }
}
