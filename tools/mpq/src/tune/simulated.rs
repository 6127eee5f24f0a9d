//! Measurements in virtual time: a scenario's network, and one of its flows.

use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use mpq_decision::paths::Choice;
use mpq_sim::scenario::Document;
use mpq_sim::world;
use mpq_sim::world::RunError;

use super::lab::Ask;
use super::lab::Lab;
use super::lab::Measured;
use super::lab::What;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::USAGE;
use crate::signals::StopRequests;

/// A scenario to measure in.
pub struct Simulated {
    file: PathBuf,
    flow: String,
    paths: Vec<String>,
    seed: u64,
    stop: Arc<AtomicBool>,
}

impl Simulated {
    /// Reads the scenario; `flow` is its first one if it is not given. The first round has this `seed`. SIGINT and SIGTERM end
    /// measurements from now on.
    ///
    /// # Errors
    /// If the file is no scenario, or has no such flow of several paths.
    pub fn new(file: &Path, flow: Option<&str>, seed: u64) -> Result<Simulated, Failure> {
        let usage = |e: &dyn std::fmt::Display| Failure::new(USAGE, e);
        let document = Document::plain(file, &[]).map_err(|e| usage(&e))?;
        let flows = &document.scenario.flow;
        let found = match flow {
            Some(name) => flows.iter().find(|flow| flow.name == name),
            None => flows.first(),
        };
        let Some(flow) = found else {
            return Err(usage(&format!("{} has no such flow", file.display())));
        };
        let paths: Vec<String> = flow.paths.iter().map(|path| path.name.clone()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = stop.clone();
        StopRequests::watch(move || {
            is_stopped.store(true, Ordering::Relaxed);
            Ok(())
        })
        .map_err(|e| Failure::new(LOCAL, format!("signals: {e}")))?;
        Ok(Simulated {
            file: file.to_owned(),
            flow: flow.name.clone(),
            paths,
            seed,
            stop,
        })
    }

    /// What the measurements are about, for the folder that keeps them.
    ///
    /// # Errors
    /// If the scenario cannot be read.
    pub fn target(&self) -> Result<String, Failure> {
        let document = Document::plain(&self.file, &[]).map_err(|e| Failure::new(USAGE, e))?;
        let hash = mpq_sim::results::sha256(document.text.as_bytes());
        Ok(format!("{} {hash} seed {}", self.flow, self.seed))
    }

    /// The name of the flow.
    pub fn flow(&self) -> &str {
        &self.flow
    }

    /// How many paths it has.
    pub fn path_count(&self) -> usize {
        self.paths.len()
    }

    /// How long it takes until the impact factors of all paths are known: with all and without one for
    /// each, or all once; and a handshake, and a part of it again if a path is late.
    fn impacts_s(&self, ask: &Ask) -> f64 {
        let choice: Option<Choice> = ask.point.paths.parse().ok();
        let settings = choice.as_ref().map(Choice::settings);
        let settings = settings.filter(|settings| settings.has("baseline"));
        let (settle_s, is_shared) = settings.map_or((0.0, false), |settings| {
            (settings.get("settle"), settings.word("baseline") == "once")
        });
        let n = self.paths.len();
        let phases = if is_shared { n + 1 } else { 2 * n };
        2.0 + 1.1 * phases as f64 * (ask.seconds + settle_s)
    }

    /// The scenario with what a measurement changes.
    fn changes(&self, ask: &Ask) -> Vec<(String, String)> {
        let key = |name: &str| format!("flow.{}.{name}", self.flow);
        let text = |text: &str| format!("\"{text}\"");
        let all_s = match ask.what {
            What::Throughput => ask.seconds,
            What::Impacts => self.impacts_s(ask),
        };
        let policy = match (ask.what, ask.point.paths.contains(':')) {
            (What::Impacts, false) => format!("{}:t={}s", ask.point.paths, ask.seconds),
            _ => ask.point.paths.clone(),
        };
        let mut changes = vec![
            ("duration".into(), text(&format!("{all_s} s"))),
            (key("cc"), text(&ask.point.cc)),
            (key("path_policy"), text(&policy)),
            (
                key("buffer"),
                text(&format!("{} bytes", ask.point.buffer_bytes())),
            ),
        ];
        if !ask.impacts.is_empty() {
            changes.extend(
                ask.impacts.iter().map(|(path, omega)| {
                    (key(&format!("paths.{path}.impact")), format!("{omega:?}"))
                }),
            );
        }
        changes
    }
}

impl Lab for Simulated {
    fn measure(&mut self, ask: &Ask) -> Result<Measured, Failure> {
        let document =
            Document::plain(&self.file, &self.changes(ask)).map_err(|e| Failure::new(USAGE, e))?;
        let scenario = &document.cases[0].scenario;
        let options = world::Options {
            folder: &document.folder,
            seed: self.seed + u64::from(ask.round) - 1,
            out: None,
            qlog: false,
            stop: &self.stop,
            progress: &AtomicU64::new(0),
            linger: false,
            most_events: u64::MAX,
        };
        let outcome = world::run(scenario, &options).map_err(|error| match error {
            RunError::Interrupted => Failure::new(INTERRUPTED, "interrupted"),
            error => Failure::new(LOCAL, error),
        })?;
        if let Some(why) = outcome.failure {
            return Err(Failure::new(NETWORK, why));
        }
        let metric = |name: &str| {
            let name = format!("flow.{}.{name}", self.flow);
            outcome.metrics.get(&name).copied()
        };
        let of_paths = |name: &str| {
            let values = self.paths.iter().filter_map(|path| {
                let value = metric(&format!("path.{path}.{name}"))?;
                Some((path.clone(), value))
            });
            values.collect::<std::collections::BTreeMap<_, _>>()
        };
        let srtt_ms = of_paths("mean_srtt_ms").into_values();
        Ok(Measured {
            mbps: metric("goodput_mbps").unwrap_or_default(),
            bytes: metric("delivered_bytes").unwrap_or_default() as u64,
            spent_s: outcome.simulated.as_secs_f64(),
            longest_rtt_s: srtt_ms.fold(0.0, f64::max) / 1e3,
            rates_mbps: of_paths("goodput_mbps"),
            impacts: match ask.what {
                What::Impacts => of_paths("impact"),
                What::Throughput => Default::default(),
            },
        })
    }
}
