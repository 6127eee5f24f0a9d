//! `mpq chaos`: connections in the worst of networks, in virtual time.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;
use mpq_sim::chaos;
use mpq_sim::chaos::Cause;
use mpq_sim::chaos::Plan;
use mpq_sim::chaos::Verdict;
use serde::Serialize;

use crate::exit;
use crate::exit::Failure;
use crate::report::write_json;
use crate::signals::StopRequests;

/// Seeds of one cause that are printed.
const TOLD: usize = 5;

/// Run connections in the worst of networks, in virtual time
///
/// Each seed draws a scenario: 2 to 4 paths with loss, outages, reordering, duplication, MTU drops,
/// NAT rebinding, lost carriers, changing addresses and delays, paths abandoned and ranked by either
/// end, and transfers in either direction or both. The transfer has to come through byte for byte, or
/// to end for a reason that the network explains: a timeout, no path left. Everything else fails: a
/// hang, a wrong byte, a protocol error, a timeout although a path worked, a panic. The same seed gives
/// the same packets.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq chaos                               seeds 0 to 999
  mpq chaos --seeds 1000..2000 --jobs 1
  mpq chaos --seed 4711 --qlog out        one seed again, with qlog of both ends in out/
  mpq chaos --seed 4711 --print >x.toml   its scenario, for mpq sim and an editor

Exit codes:
  0    every connection came through, or ended for a reason of the network
  1    wrong usage
  6    local file: disk full, no permission
  7    some did not
  130  interrupted")]
pub struct Args {
    /// One seed, with its whole story
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,

    /// Seeds from the first up to, and without, the last
    #[arg(long, value_name = "N..M", value_parser = range, default_value = "0..1000")]
    seeds: Range<u64>,

    /// Only print the scenario of --seed
    #[arg(long, requires = "seed")]
    print: bool,

    /// Write qlog of both ends of --seed into this folder
    #[arg(long, value_name = "FOLDER", requires = "seed")]
    qlog: Option<PathBuf>,

    /// Runs at a time [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,

    /// Write counts and failures as JSON to FILE [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// No progress
    #[arg(short, long)]
    quiet: bool,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let hint = "write first and last, for example 0..1000";
    let (from, to) = text.split_once("..").ok_or(hint)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| hint.to_owned());
    let seeds = number(from)?..number(to)?;
    match seeds.is_empty() {
        true => Err(format!("there is no seed in {text}: {hint}")),
        false => Ok(seeds),
    }
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report {
    /// Seeds that ran.
    n: u64,
    /// Of them, how many ended in each way.
    outcomes: Vec<Count>,
    /// Those that must not be.
    failures: Vec<Failed>,
    /// Packets that both ends sent.
    packets: u64,
    /// Processor time is not in it: seconds on the clock.
    wall_s: f64,
}

#[derive(Serialize)]
struct Count {
    cause: String,
    allowed: bool,
    n: u64,
}

#[derive(Serialize)]
struct Failed {
    seed: u64,
    cause: String,
    detail: String,
}

/// Runs `mpq chaos`.
pub fn run(args: &Args) -> Result<(), Failure> {
    let local = |e: std::io::Error| Failure::new(exit::LOCAL, e);
    if let (Some(seed), true) = (args.seed, args.print) {
        print!("{}", Plan::draw(seed).text);
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let is_stopped = stop.clone();
    let _watch = StopRequests::watch(move || {
        is_stopped.store(true, Ordering::Relaxed);
        Ok(())
    })
    .map_err(local)?;
    let interrupted = || Failure::new(exit::INTERRUPTED, "interrupted");

    if let Some(seed) = args.seed {
        if let Some(folder) = &args.qlog {
            fs::create_dir_all(folder).map_err(|e| local(e).about(folder.display()))?;
        }
        let verdict = chaos::run(seed, args.qlog.as_deref(), &stop).ok_or_else(interrupted)?;
        println!(
            "seed {seed}: {}: {}; {:.3} s, {} packets, log {:016x}",
            verdict.cause, verdict.detail, verdict.ended_s, verdict.packets, verdict.packet_log
        );
        return match verdict.cause.is_allowed() {
            true => Ok(()),
            false => Err(Failure {
                code: exit::RUN,
                message: None,
            }),
        };
    }

    let began = Instant::now();
    let verdicts = run_all(args, &stop);
    let is_short = (verdicts.len() as u64) < args.seeds.end - args.seeds.start;
    let report = Report::new(&verdicts, began.elapsed());
    match &args.json {
        Some(file) => write_json(file, &report)?,
        None => print(&report, &verdicts),
    }
    if is_short {
        return Err(interrupted());
    }
    if report.failures.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} of {} connections failed; mpq chaos --seed N --qlog FOLDER shows one again",
        report.failures.len(),
        report.n
    );
    Err(Failure::new(exit::RUN, message))
}

/// The verdicts in the order of their seeds, fewer than asked for after an interruption.
fn run_all(args: &Args, stop: &AtomicBool) -> Vec<Verdict> {
    let processors = thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = args.jobs.map_or(processors, usize::from);
    let bar = bar(args.quiet, args.seeds.end - args.seeds.start);
    let next = AtomicU64::new(args.seeds.start);
    let mut verdicts = Vec::new();
    // Panics are verdicts, and reported with the others.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= args.seeds.end {
                    return;
                }
                let Some(verdict) = chaos::run(seed, None, stop) else {
                    return;
                };
                if sender.send(verdict).is_err() {
                    return;
                }
            });
        }
        drop(sender);
        let mut failed = 0u64;
        for verdict in receiver {
            failed += u64::from(!verdict.cause.is_allowed());
            bar.inc(1);
            bar.set_message(format!("{failed} failed"));
            verdicts.push(verdict);
        }
    });
    std::panic::set_hook(hook);
    bar.finish_and_clear();
    verdicts.sort_by_key(|verdict| verdict.seed);
    verdicts
}

fn bar(is_quiet: bool, seeds: u64) -> ProgressBar {
    let target = if is_quiet || !std::io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} seeds, {eta} left");
    let bar = ProgressBar::with_draw_target(Some(seeds), target);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

impl Report {
    fn new(verdicts: &[Verdict], wall: Duration) -> Report {
        let mut counts: BTreeMap<&Cause, u64> = BTreeMap::new();
        for verdict in verdicts {
            *counts.entry(&verdict.cause).or_default() += 1;
        }
        let failed = verdicts.iter().filter(|v| !v.cause.is_allowed());
        Report {
            n: verdicts.len() as u64,
            outcomes: counts
                .into_iter()
                .map(|(cause, n)| Count {
                    cause: cause.to_string(),
                    allowed: cause.is_allowed(),
                    n,
                })
                .collect(),
            failures: failed
                .map(|v| Failed {
                    seed: v.seed,
                    cause: v.cause.to_string(),
                    detail: v.detail.clone(),
                })
                .collect(),
            packets: verdicts.iter().map(|v| v.packets).sum(),
            wall_s: wall.as_secs_f64(),
        }
    }
}

/// The outcomes, each failing one with the first of its seeds.
fn print(report: &Report, verdicts: &[Verdict]) {
    println!("{:>7}  outcome", "n");
    for count in &report.outcomes {
        let mark = if count.allowed { "" } else { "  FAILED" };
        println!("{:>7}  {}{mark}", count.n, count.cause);
        let of_cause = verdicts
            .iter()
            .filter(|v| !count.allowed && v.cause.to_string() == count.cause);
        for verdict in of_cause.take(TOLD) {
            println!("{:>7}  - --seed {}: {}", "", verdict.seed, verdict.detail);
        }
    }
    println!(
        "n = {}, {} failed; {} packets, {:.1} s",
        report.n,
        report.failures.len(),
        report.packets,
        report.wall_s
    );
}
