//! `mpq sim`: an experiment in virtual time.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;
use mpq_sim::campaign::Campaign;
use mpq_sim::campaign::Progress;
use mpq_sim::results::sha256;
use mpq_sim::results::CaseName;
use mpq_sim::results::Folder;
use mpq_sim::results::Origin;
use mpq_sim::results::Status;
use mpq_sim::results::Summary;
use mpq_sim::scenario::Document;
use mpq_sim::scenario::Scenario;
use serde::Serialize;

use crate::exit;
use crate::exit::Failure;
use crate::signals::StopRequests;

/// Run an experiment in virtual time: real connections over simulated links
///
/// Needs no root, and gives the same packets from the same seed. What is finished is kept: the same
/// command goes on where it was interrupted.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq sim experiments/scenarios/sim-two-links.toml\n",
    "  mpq sim SCENARIO.toml --out results --seeds 1,2,3,4,5\n",
    "  mpq sim SCENARIO.toml --set 'flow.mp.cc=olia' --qlog --out olia\n",
    "  mpq sim SCENARIO.toml --check\n",
    "  mpq sim SCENARIO.toml --check --json >runs.json\n",
    "  mpq sim --schema >scenario.schema.json\n\n",
    "docs/scenarios.md describes scenarios and results.",
))]
pub struct Args {
    /// The scenario
    #[arg(value_name = "SCENARIO.toml", required_unless_present = "schema")]
    scenario: Option<PathBuf>,

    /// Folder for the results [default: out/sim/ and the scenario's name]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Seeds in place of the scenario's own
    #[arg(long, value_name = "N,N...", value_delimiter = ',')]
    seeds: Option<Vec<u64>>,

    /// Change a key of the scenario, as its sweeps name keys; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,

    /// Runs at a time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Write qlog of both ends of every connection
    #[arg(long)]
    qlog: bool,

    /// Only check the scenario, and list its runs
    #[arg(long, conflicts_with = "schema")]
    check: bool,

    /// With --check: list the runs as JSON, each with its own scenario, for programs that run them
    #[arg(long, requires = "check")]
    json: bool,

    /// Only print the JSON schema of scenarios
    #[arg(long, conflicts_with = "scenario")]
    schema: bool,

    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("write KEY=VALUE, for example flow.mp.cc=olia")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Runs `mpq sim`.
pub fn run(args: Args) -> Result<(), Failure> {
    let Some(path) = &args.scenario else {
        let schema = schemars::schema_for!(Scenario);
        let text =
            serde_json::to_string_pretty(&schema).map_err(|e| Failure::new(exit::LOCAL, e))?;
        println!("{text}");
        return Ok(());
    };
    let document = Document::load(path, &args.set, args.seeds.as_deref())
        .map_err(|e| Failure::new(exit::USAGE, e))?;
    if args.json {
        let plan = Plan::new(&document, Origin::new(std::env::args().collect()));
        let text = serde_json::to_string_pretty(&plan).map_err(|e| Failure::new(exit::LOCAL, e))?;
        println!("{text}");
        return Ok(());
    }
    if args.check {
        for case in &document.cases {
            for seed in &case.scenario.seeds {
                println!("{} seed {seed}", case.label);
            }
        }
        return Ok(());
    }

    let out = args
        .out
        .unwrap_or_else(|| PathBuf::from("out/sim").join(&document.name));
    let local = |e: mpq_sim::results::ResultError| Failure::new(exit::LOCAL, e);
    let origin = Origin::new(std::env::args().collect());
    let folder = Folder::open(&out, &document, &origin).map_err(local)?;

    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let _watch = StopRequests::watch(move || {
        is_stopped.store(true, Ordering::Relaxed);
        Ok(())
    })
    .map_err(|e| Failure::new(exit::LOCAL, e))?;

    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let bar = bar(args.quiet);
    let campaigned = Campaign {
        document: &document,
        folder: &folder,
        origin: &origin,
        jobs: args.jobs.map_or(processors, usize::from),
        qlog: args.qlog,
        stop: &stop,
    }
    .run(&mut |progress| show(&bar, progress))
    .map_err(local)?;
    bar.finish_and_clear();

    if campaigned.is_interrupted {
        let hint = format!(
            "interrupted; {} runs are finished in {}, and the same command goes on from there",
            campaigned.summary.runs.len(),
            out.display()
        );
        return Err(Failure::new(exit::INTERRUPTED, hint));
    }
    print(&campaigned.summary);
    println!("\nResults: {}", out.display());
    verdict(&campaigned.summary)
}

/// What `--check --json` prints.
#[derive(Serialize)]
struct Plan<'a> {
    /// Command, commit, versions.
    #[serde(flatten)]
    origin: Origin,
    /// The scenario's name.
    scenario: &'a str,
    scenario_sha256: String,
    /// The file, with the changes of the command line.
    text: &'a str,
    question: &'a str,
    expected: &'a str,
    runs: Vec<PlannedRun>,
}

/// A run that is to be made.
#[derive(Serialize)]
struct PlannedRun {
    case: CaseName,
    seed: u64,
    /// Where its results belong, below the campaign's folder.
    folder: String,
    /// The scenario of this run alone, as TOML.
    text: String,
}

impl Plan<'_> {
    fn new(document: &Document, origin: Origin) -> Plan<'_> {
        let runs = document.cases.iter().flat_map(|case| {
            let seeds = case.scenario.seeds.iter();
            seeds.map(|seed| PlannedRun {
                case: CaseName::of(case),
                seed: *seed,
                folder: Folder::run_name(case, *seed),
                text: case.text_of_run(*seed),
            })
        });
        Plan {
            origin,
            scenario: &document.name,
            scenario_sha256: sha256(document.text.as_bytes()),
            text: &document.text,
            question: &document.scenario.question,
            expected: &document.scenario.expected,
            runs: runs.collect(),
        }
    }
}

fn bar(is_quiet: bool) -> ProgressBar {
    let target = if is_quiet || !std::io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} s, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(0), target);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    let (done, all) = progress.runs;
    let (so_far_s, total_s) = progress.simulated_s;
    bar.set_length(total_s as u64);
    bar.set_position(so_far_s as u64);
    bar.set_message(format!("{done}/{all} runs"));
}

/// Metrics of a flow that are printed.
const TOLD: [&str; 6] = [
    ".goodput_mbps",
    ".completion_s",
    ".startup_ms",
    ".stalls",
    ".stall_ms",
    ".mean_bitrate_mbps",
];

/// What each flow came to, and the rules.
fn print(summary: &Summary) {
    println!("{}\n", summary.question);
    for case in &summary.cases {
        println!("{} (n = {}, failed {})", case.case, case.n, case.failed);
        for (name, spread) in &case.metrics {
            let is_told = name.starts_with("flow.")
                && !name.contains(".path.")
                && TOLD.iter().any(|metric| name.ends_with(metric));
            if is_told {
                println!(
                    "  {name:<44} {:10.3}  {:.3} to {:.3}",
                    spread.median, spread.min, spread.max
                );
            }
        }
    }
    for rule in &summary.acceptance {
        let values: Vec<String> = rule.values.iter().map(|v| format!("{v:.4}")).collect();
        let why = rule.problem.clone().unwrap_or_else(|| values.join(", "));
        let word = if rule.holds { "holds" } else { "DOES NOT HOLD" };
        println!("{word}: {} in {}: {why}", rule.rule, rule.case);
    }
}

fn verdict(summary: &Summary) -> Result<(), Failure> {
    let failed: Vec<&str> = summary
        .runs
        .iter()
        .filter(|run| run.status == Status::Failed)
        .map(|run| run.folder.as_str())
        .collect();
    if let Some(first) = failed.first() {
        let message = format!(
            "{} of {} runs failed; the reason is in summary.json, the first is {first}",
            failed.len(),
            summary.runs.len()
        );
        return Err(Failure::new(exit::RUN, message));
    }
    let broken = summary.acceptance.iter().filter(|rule| !rule.holds).count();
    if broken > 0 {
        let message = format!("{broken} of {} rules do not hold", summary.acceptance.len());
        return Err(Failure::new(exit::RULE, message));
    }
    Ok(())
}
