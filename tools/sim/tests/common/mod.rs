//! Runs of scenarios that tests write down.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;

use mpq_sim::scenario::Document;
use mpq_sim::world;
use mpq_sim::world::Outcome;

/// One run of a scenario, given without its question. Series go to `out`.
pub fn run_into(text: &str, seed: u64, out: Option<&Path>) -> Outcome {
    let text = format!("question = 'q'\nexpected = 'e'\n{text}");
    let document = Document::parse(Path::new("x.toml"), text, &[], None).unwrap();
    let options = world::Options {
        folder: Path::new("."),
        seed,
        out,
        qlog: false,
        stop: &AtomicBool::new(false),
        progress: &AtomicU64::new(0),
        linger: false,
        most_events: u64::MAX,
    };
    world::run(&document.cases[0].scenario, &options).unwrap()
}

/// The same without series.
pub fn run(text: &str, seed: u64) -> Outcome {
    run_into(text, seed, None)
}
