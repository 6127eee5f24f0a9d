//! The counters as JSON.

use std::fs;

use anyhow::Context;
use mpq_wire::histogram::Lateness;
use serde::Serialize;

use crate::cli::Cli;
use crate::forward::Counters;
use crate::forward::Lane;
use crate::forward::Wire;

#[derive(Serialize)]
struct Report<'a> {
    link: &'a str,
    seed: u64,
    run: u64,
    /// Whether the wire ran with real-time priority.
    realtime: bool,
    seconds: f64,
    #[serde(flatten)]
    directions: Directions,
}

/// Both directions' counters.
#[derive(Serialize)]
pub struct Directions {
    a_to_b: DirectionReport,
    b_to_a: DirectionReport,
}

#[derive(Serialize)]
struct DirectionReport {
    #[serde(flatten)]
    counters: Counters,
    lateness: Lateness,
}

impl Directions {
    pub fn of(wire: &mut Wire) -> Directions {
        let one = |lane: &mut Lane| DirectionReport {
            counters: lane.totals().clone(),
            lateness: lane.lateness.summary(),
        };
        let [a_to_b, b_to_a] = &mut wire.lanes;
        Directions {
            a_to_b: one(a_to_b),
            b_to_a: one(b_to_a),
        }
    }
}

/// Writes the report to the file of `--json`, or to standard error.
pub fn write(cli: &Cli, realtime: bool, wire: &mut Wire) -> anyhow::Result<()> {
    let report = Report {
        link: &cli.name,
        seed: cli.seed,
        run: cli.run,
        realtime,
        seconds: wire.now() as f64 / 1e9,
        directions: Directions::of(wire),
    };
    let text = serde_json::to_string_pretty(&report)?;
    match &cli.json {
        None => eprintln!("{text}"),
        Some(path) => fs::write(path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}
