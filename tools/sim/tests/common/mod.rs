//! Runs of scenarios that tests write down.

// Every test program has its own copy, and none uses all of it.
#![allow(dead_code)]

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

/// Links "a" and "b" of 8 Mbit/s, on which 5 MB take 2.5 s together and 5 s alone. `of_a` is what else the first one has.
pub fn two_links(of_a: &str) -> String {
    format!(
        r#"
        [[link]]
        name = "a"
        rate = "8 Mbit/s"
        rtt = "20 ms"
        {of_a}
        [[link]]
        name = "b"
        rate = "8 Mbit/s"
        rtt = "40 ms""#
    )
}

/// An event of path "a" of the flow that comes before.
pub fn event(at: &str, what: &str) -> String {
    format!("[[flow.event]]\nat = \"{at}\"\npath = \"a\"\nwhat = \"{what}\"\n")
}

/// Seconds that the one transfer of flow "f" took, which has to have ended.
pub fn took_s(outcome: &Outcome) -> f64 {
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.metrics["flow.f.completed"], 1.0);
    outcome.metrics["flow.f.completion_s"]
}
