//! The files of a run and of a campaign: see `docs/scenarios.md`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use crate::accept::Metrics;
use crate::accept::Selection;
use crate::scenario::Case;
use crate::scenario::Document;
use crate::series::median;
use crate::world::Outcome;

/// A result that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// The file system refused.
    #[error("cannot write to {path}: {error}; choose another folder with --out")]
    Write {
        /// Where.
        path: String,
        /// Why.
        error: io::Error,
    },
    /// The folder belongs to another scenario.
    #[error(
        "{path} holds results of another scenario or another state of this one; \
         choose another folder with --out, or move that one away"
    )]
    OtherScenario {
        /// The folder.
        path: String,
    },
    /// A file of an earlier run is damaged.
    #[error("{path} is not a result of this program: {error}; move it away to run again")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        error: String,
    },
}

/// Which program made results, by what command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The command line.
    pub command: Vec<String>,
    /// Commit that the program was built from, with `-dirty` if the tree had changes.
    pub commit: String,
    /// SHA-256 over the patch series.
    pub patch_series: String,
    /// Versions of `mpq-sim`, of the quiche below the patches, and of the compiler.
    pub versions: BTreeMap<String, String>,
}

impl Origin {
    /// This program, called by `command`.
    pub fn new(command: Vec<String>) -> Origin {
        Origin {
            command,
            commit: env!("MPQ_COMMIT").into(),
            patch_series: env!("MPQ_PATCH_SERIES").into(),
            versions: BTreeMap::from([
                ("mpq-sim".into(), env!("CARGO_PKG_VERSION").into()),
                ("quiche".into(), env!("MPQ_QUICHE").into()),
                ("rustc".into(), env!("MPQ_RUSTC").into()),
            ]),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    #[serde(flatten)]
    origin: Origin,
    scenario: String,
    scenario_sha256: String,
}

#[derive(Serialize)]
struct RunManifest<'a> {
    #[serde(flatten)]
    origin: &'a Origin,
    scenario: &'a str,
    scenario_sha256: String,
    case: &'a str,
    seed: u64,
    wall_s: f64,
    packets: u64,
    packet_log: String,
}

/// Which case a run belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseName {
    /// `cc=lia`, or `base`.
    pub label: String,
    /// Of the `[[case]]`.
    pub name: Option<String>,
    /// What it sets.
    pub set: BTreeMap<String, serde_json::Value>,
}

impl CaseName {
    /// The name of `case`.
    pub fn of(case: &Case) -> CaseName {
        let json = |value: &toml::Value| serde_json::to_value(value).unwrap_or_default();
        CaseName {
            label: case.label.clone(),
            name: case.name.clone(),
            set: case.set.iter().map(|(k, v)| (k.clone(), json(v))).collect(),
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Everything happened that was to happen.
    Ok,
    /// A connection failed.
    Failed,
}

/// `summary.json` of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// How it went.
    pub status: Status,
    /// Why it failed.
    pub reason: Option<String>,
    /// Its case.
    pub case: CaseName,
    /// Its seed.
    pub seed: u64,
    /// How long the simulated time was.
    pub simulated_s: f64,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
}

/// A campaign's folder.
pub struct Folder {
    path: PathBuf,
}

fn write(path: &Path, text: &str) -> Result<(), ResultError> {
    fs::write(path, text).map_err(|error| ResultError::Write {
        path: path.display().to_string(),
        error,
    })
}

fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).expect("numbers and strings are JSON") + "\n"
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Folder {
    /// Makes the folder, or takes one that has results of the same scenario.
    pub fn open(path: &Path, document: &Document, origin: &Origin) -> Result<Folder, ResultError> {
        let refuse = |error| ResultError::Write {
            path: path.display().to_string(),
            error,
        };
        let is_used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        let manifest_path = path.join("manifest.json");
        if is_used {
            let text =
                fs::read_to_string(&manifest_path).map_err(|_| ResultError::OtherScenario {
                    path: path.display().to_string(),
                })?;
            let damaged = |e: serde_json::Error| ResultError::Damaged {
                path: manifest_path.display().to_string(),
                error: e.to_string(),
            };
            let manifest: Manifest = serde_json::from_str(&text).map_err(damaged)?;
            if manifest.scenario_sha256 != sha256(document.text.as_bytes()) {
                return Err(ResultError::OtherScenario {
                    path: path.display().to_string(),
                });
            }
            return Ok(Folder {
                path: path.to_owned(),
            });
        }
        fs::create_dir_all(path.join("runs")).map_err(refuse)?;
        write(&path.join("scenario.toml"), &document.text)?;
        let manifest = Manifest {
            origin: origin.clone(),
            scenario: document.name.clone(),
            scenario_sha256: sha256(document.text.as_bytes()),
        };
        // Last, because it says that the folder is whole.
        write(&manifest_path, &json(&manifest))?;
        Ok(Folder {
            path: path.to_owned(),
        })
    }

    /// Where a run is, below the folder of its campaign.
    pub fn run_name(case: &Case, seed: u64) -> String {
        format!("runs/{}/seed-{seed}", case.folder())
    }

    /// The summary of a run that is finished.
    pub fn finished(&self, case: &Case, seed: u64) -> Result<Option<RunSummary>, ResultError> {
        let path = self
            .path
            .join(Folder::run_name(case, seed))
            .join("summary.json");
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|e| ResultError::Damaged {
                path: path.display().to_string(),
                error: e.to_string(),
            })
    }

    /// An empty folder for a run under way. What an interrupted run left there is removed.
    pub fn begin(&self, case: &Case, seed: u64) -> Result<PathBuf, ResultError> {
        let path = self.path.join("runs").join(case.folder());
        let partial = path.join(format!(".seed-{seed}.partial"));
        let refuse = |error| ResultError::Write {
            path: partial.display().to_string(),
            error,
        };
        match fs::remove_dir_all(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refuse(error)),
            _ => fs::create_dir_all(&partial).map_err(refuse)?,
        }
        Ok(partial)
    }

    /// Completes the folder of a run, and gives it its name.
    pub fn finish(
        &self,
        document: &Document,
        case: &Case,
        seed: u64,
        outcome: &Outcome,
        origin: &Origin,
        wall_s: f64,
    ) -> Result<RunSummary, ResultError> {
        let run = self.path.join(Folder::run_name(case, seed));
        let partial = run.with_file_name(format!(".seed-{seed}.partial"));
        let text = case.text_of_run(seed);
        write(&partial.join("scenario.toml"), &text)?;
        let manifest = RunManifest {
            origin,
            scenario: &document.name,
            scenario_sha256: sha256(document.text.as_bytes()),
            case: &case.label,
            seed,
            wall_s,
            packets: outcome.packets,
            packet_log: format!("{:016x}", outcome.packet_log),
        };
        write(&partial.join("manifest.json"), &json(&manifest))?;
        let summary = RunSummary {
            status: match outcome.failure {
                None => Status::Ok,
                Some(_) => Status::Failed,
            },
            reason: outcome.failure.clone(),
            case: CaseName::of(case),
            seed,
            simulated_s: outcome.simulated.as_secs_f64(),
            metrics: outcome.metrics.clone(),
        };
        write(&partial.join("summary.json"), &json(&summary))?;
        fs::rename(&partial, &run).map_err(|error| ResultError::Write {
            path: run.display().to_string(),
            error,
        })?;
        Ok(summary)
    }

    /// Writes the summary of all runs so far, and returns it.
    pub fn summarise(
        &self,
        document: &Document,
        runs: &[(usize, RunSummary)],
    ) -> Result<Summary, ResultError> {
        let summary = Summary::new(document, runs);
        write(&self.path.join("summary.json"), &json(&summary))?;
        Ok(summary)
    }
}

/// A run, in the campaign's summary.
#[derive(Clone, Debug, Serialize)]
pub struct RunEntry {
    /// Label of its case.
    pub case: String,
    /// What that sets.
    pub set: BTreeMap<String, serde_json::Value>,
    /// Its seed.
    pub seed: u64,
    /// How it went.
    pub status: Status,
    /// Why it failed.
    pub reason: Option<String>,
    /// Where it is.
    pub folder: String,
    /// Its metrics.
    pub metrics: BTreeMap<String, f64>,
}

/// A metric over the seeds of a case.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle value.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Of how many.
    pub n: usize,
}

/// All runs of a case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseSummary {
    /// Its label.
    pub case: String,
    /// What it sets.
    pub set: BTreeMap<String, serde_json::Value>,
    /// Runs.
    pub n: usize,
    /// Those that failed; they are not in the metrics.
    pub failed: usize,
    /// Metrics over the others.
    pub metrics: BTreeMap<String, Spread>,
}

/// A rule's outcome in one case.
#[derive(Clone, Debug, Serialize)]
pub struct AcceptanceResult {
    /// The rule.
    pub rule: String,
    /// What was published.
    pub paper: Option<String>,
    /// Label of the case.
    pub case: String,
    /// Whether it holds.
    pub holds: bool,
    /// The values compared.
    pub values: Vec<f64>,
    /// Why there are none.
    pub problem: Option<String>,
}

/// `summary.json` of a campaign.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The scenario's name.
    pub scenario: String,
    /// As the scenario says.
    pub question: String,
    /// As the scenario says.
    pub expected: String,
    /// As the scenario says.
    pub source: Option<String>,
    /// As the scenario says.
    pub notes: Option<String>,
    /// Every run that is finished.
    pub runs: Vec<RunEntry>,
    /// Every case.
    pub cases: Vec<CaseSummary>,
    /// Every rule in every case that it is for.
    pub acceptance: Vec<AcceptanceResult>,
}

impl Summary {
    fn new(document: &Document, runs: &[(usize, RunSummary)]) -> Summary {
        let scenario = &document.scenario;
        let cases: Vec<CaseSummary> = document
            .cases
            .iter()
            .enumerate()
            .map(|(i, case)| {
                let of_case = runs.iter().filter(|(k, _)| *k == i);
                let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
                let (mut n, mut failed) = (0, 0);
                for (_, run) in of_case {
                    n += 1;
                    if run.status == Status::Failed {
                        failed += 1;
                        continue;
                    }
                    for (name, value) in &run.metrics {
                        values.entry(name).or_default().push(*value);
                    }
                }
                let spreads = values.into_iter().filter_map(|(name, values)| {
                    let spread = Spread {
                        median: median(&values)?,
                        min: values.iter().copied().fold(f64::INFINITY, f64::min),
                        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        n: values.len(),
                    };
                    Some((name.clone(), spread))
                });
                CaseSummary {
                    case: case.label.clone(),
                    set: CaseName::of(case).set,
                    n,
                    failed,
                    metrics: spreads.collect(),
                }
            })
            .collect();
        let mut acceptance = Vec::new();
        for rule in &scenario.accept {
            let is_for = |case: &Case| {
                rule.cases
                    .as_ref()
                    .is_none_or(|selection| case.matches(&selection.value))
            };
            for at in (0..cases.len()).filter(|i| is_for(&document.cases[*i])) {
                let medians = Medians {
                    document,
                    cases: &cases,
                    at,
                };
                let outcome = rule.rule.value.evaluate(&medians);
                acceptance.push(AcceptanceResult {
                    rule: rule.rule.to_string(),
                    paper: rule.paper.clone(),
                    case: cases[at].case.clone(),
                    holds: outcome.as_ref().is_ok_and(|verdict| verdict.holds),
                    values: outcome.as_ref().map_or(vec![], |v| v.values.clone()),
                    problem: outcome.err(),
                });
            }
        }
        Summary {
            scenario: document.name.clone(),
            question: scenario.question.clone(),
            expected: scenario.expected.clone(),
            source: scenario.source.clone(),
            notes: scenario.notes.clone(),
            runs: runs
                .iter()
                .map(|(i, run)| RunEntry {
                    case: run.case.label.clone(),
                    set: run.case.set.clone(),
                    seed: run.seed,
                    status: run.status,
                    reason: run.reason.clone(),
                    folder: Folder::run_name(&document.cases[*i], run.seed),
                    metrics: run.metrics.clone(),
                })
                .collect(),
            cases,
            acceptance,
        }
    }
}

/// The medians of a case, and of those that differ from it as a rule says.
struct Medians<'a> {
    document: &'a Document,
    cases: &'a [CaseSummary],
    at: usize,
}

impl Metrics for Medians<'_> {
    fn value(&self, metric: &str, other: Option<&Selection>) -> Result<f64, String> {
        let case = match other {
            None => self.at,
            Some(selection) => self
                .find(selection)
                .ok_or_else(|| format!("there is no case {selection} beside this one"))?,
        };
        self.cases[case]
            .metrics
            .get(metric)
            .map(|spread| spread.median)
            .ok_or_else(|| format!("the case {} has no metric {metric}", self.cases[case].case))
    }
}

impl Medians<'_> {
    /// The case with the values of `selection` and in everything else those of this case.
    fn find(&self, selection: &Selection) -> Option<usize> {
        let here = &self.document.cases[self.at];
        let is_selected = |full: &str| {
            let last = full.rsplit('.').next();
            let mut keys = selection.0.iter().map(|(key, _)| key.as_str());
            keys.any(|key| key == full || Some(key) == last)
        };
        let names_case = selection.0.iter().any(|(key, _)| key == "case");
        let sweep = &self.document.scenario.sweep;
        let is_swept = |full: &str| {
            sweep
                .keys()
                .any(|keys| keys.split(',').any(|k| k.trim() == full))
        };
        self.document.cases.iter().position(|case| {
            // What a named case sets goes with its name.
            let same_rest = (names_case || case.name == here.name)
                && case.set.iter().all(|(key, value)| {
                    is_selected(key)
                        || here.set.get(key) == Some(value)
                        || names_case && !is_swept(key)
                });
            same_rest && case.matches(selection)
        })
    }
}
