//! `mpq tune`: which controller, path manager and buffer size for a pair of sites [MO].

mod lab;
mod live;
mod model;
mod plot;
mod regression;
mod search;
mod simulated;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;
use url::Url;

use crate::client::url::parse_url;
use crate::client::ClientArgs;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::USAGE;
use crate::report::write_json;
use lab::Ask;
use lab::Lab;
use lab::Measured;
use lab::Record;
use lab::What;
use model::Observation;
use search::Method;
use search::Result_;
use search::Space;

/// The paper's controllers, by their names here.
const CONTROLLERS: [&str; 6] = [
    "uncoupled-cubic",
    "olia",
    "hybla",
    "uncoupled-reno",
    "scalable",
    "vegas",
];

const MIB: f64 = (1 << 20) as f64;

/// A controller, a path manager and a buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Congestion controller.
    pub cc: String,
    /// Path manager: the policy of the client.
    pub paths: String,
    /// Buffer of both ends, in MiB.
    pub buffer_mib: f64,
}

impl Point {
    /// The buffer as options take it.
    pub fn buffer_bytes(&self) -> u64 {
        (self.buffer_mib * MIB).round() as u64
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}, {:.2} MiB", self.cc, self.paths, self.buffer_mib)
    }
}

/// Find controller, path manager and buffer size for a pair of sites
///
/// Measures throughputs, over the network or in virtual time, or takes those of results that are
/// there, and chooses as MPCOA does: the controller and the path manager of the highest throughput, and
/// the least buffer that keeps 93 % of it. What was measured is kept: the same command goes on where it
/// was interrupted.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq tune https://example.com/large.bin --dry-run\n",
    "  mpq tune https://example.com/large.bin --path wlan0 --path wwan0\n",
    "  mpq tune hybla=https://a.example:4433/f olia=https://a.example:4434/f\n",
    "  mpq tune experiments/scenarios/papers/mo-3.toml --time 20 --json=mo-3.json\n",
    "  mpq tune SCENARIO.toml --method published --time 30 --rounds 9\n",
    "  mpq tune out/sim/mo-1\n\n",
    "The controller is the sender's: for downloads it is the server's, and a client can only compare\n",
    "servers. --cc, --paths and --buffer are what is looked for, and not taken from the options.\n",
    "docs/mpq.md tells what the report says.",
))]
pub struct Args {
    /// A scenario; folders with results of `mpq sim`; or what to download, from one server for each
    /// controller as CC=URL
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,

    /// Flow of the scenario, or of the results [default: the first]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,

    /// Controllers to choose from, in scenarios [default: the paper's six]
    #[arg(long, value_name = "CC,CC...", value_delimiter = ',')]
    controllers: Option<Vec<String>>,

    /// Path managers to choose from, the simplest first [default: full-mesh and pcdc-quick, or pcdc
    /// where the method is published]
    #[arg(long, value_name = "NAME,NAME...", value_delimiter = ',')]
    managers: Option<Vec<String>>,

    /// Buffers to choose from, in MiB [default: 0.5 to 30 in steps of 0.5]
    #[arg(long, value_name = "MIB,MIB...", value_delimiter = ',', value_parser = mib)]
    buffers: Option<Vec<f64>>,

    /// A few measurements, or all of them and a model
    #[arg(long, value_enum, default_value_t = Method::Quick)]
    method: Method,

    /// How long each throughput is measured, in seconds [default: 10; published: 30]
    #[arg(long, value_name = "S", value_parser = seconds)]
    time: Option<f64>,

    /// Repetitions: of the choice and of what came next; with the method published of all
    /// [default: 3; published: 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,

    /// Seed of the first round, in scenarios
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Throughput that a smaller buffer may cost, of 1
    #[arg(long, value_name = "PART", default_value_t = 0.07, value_parser = part)]
    delta: f64,

    /// Folder for what is measured, and for index.html
    /// [default: out/tune/ and the target's name]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Only say what would be measured, and what it costs at most
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    client: ClientArgs,
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "write a number".to_owned())?;
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("{} to {}", range.start(), range.end())),
    }
}

fn mib(text: &str) -> Result<f64, String> {
    number(text, 1.0 / 64.0..=4096.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.5..=3600.0)
}

fn part(text: &str) -> Result<f64, String> {
    number(text, 0.0..=0.9)
}

/// Where throughputs come from.
enum Target {
    Scenario(PathBuf),
    Folders(Vec<PathBuf>),
    Servers(Vec<(String, Url)>),
}

impl Target {
    fn of(words: &[String]) -> Result<Target, Failure> {
        let usage = |why: String| Failure::new(USAGE, why);
        let is_url = |word: &String| word.contains("://");
        if words.iter().all(is_url) {
            let server = |word: &String| {
                let (cc, url) = match word.split_once("=https://") {
                    Some((cc, _)) => (cc, &word[cc.len() + 1..]),
                    None => (live::OF_THE_SERVER, &word[..]),
                };
                let url = parse_url(url).map_err(|e| usage(format!("{word}: {e}")))?;
                Ok((cc.to_owned(), url))
            };
            let servers: Vec<_> = words.iter().map(server).collect::<Result<_, Failure>>()?;
            let twice = |i: usize| servers[..i].iter().any(|(cc, _)| *cc == servers[i].0);
            if (0..servers.len()).any(twice) {
                return Err(usage("name the controller of each server: CC=URL".into()));
            }
            return Ok(Target::Servers(servers));
        }
        let paths: Vec<PathBuf> = words.iter().map(PathBuf::from).collect();
        match paths.as_slice() {
            [file] if file.extension().is_some_and(|ending| ending == "toml") => {
                Ok(Target::Scenario(file.clone()))
            }
            folders if folders.iter().all(|folder| folder.is_dir()) => Ok(Target::Folders(paths)),
            _ => Err(usage(
                "one scenario, folders with results, or URLs: see `mpq tune --help`".into(),
            )),
        }
    }

    fn name(&self) -> String {
        let stem = |path: &PathBuf| {
            let stem = path.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        };
        match self {
            Target::Scenario(file) => stem(file),
            Target::Folders(folders) => stem(&folders[0]),
            Target::Servers(servers) => {
                let (_, url) = &servers[0];
                let host = url.host_str().unwrap_or_default();
                let host = host.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
                format!("{host}-{}", url.port().unwrap_or(443))
            }
        }
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was measured.
    pub target: String,
    /// How the choice was made.
    pub method: Option<Method>,
    /// OCC.
    pub cc: String,
    /// OPM.
    pub paths: String,
    /// OBS.
    pub buffer_mib: f64,
    /// The same in bytes.
    pub buffer_bytes: u64,
    /// OTP, in Mbit/s.
    pub mbps: f64,
    /// The highest throughput that was seen or modelled.
    pub highest_mbps: f64,
    /// The buffer that it takes.
    pub highest_mib: f64,
    /// Throughput that the smaller buffer may cost.
    pub delta: f64,
    /// Buffers that were chosen from.
    pub range_mib: [f64; 2],
    /// Equation 1.
    pub traditional_mib: f64,
    /// The choice's part of that.
    pub of_traditional: f64,
    /// Longest RTT and sum of the rates, which are in it.
    pub longest_rtt_s: f64,
    /// See above.
    pub rates_mbps: f64,
    /// Repeated throughputs at the choice, in Mbit/s.
    pub at_choice: Vec<f64>,
    /// Controller and manager that came next, and their throughputs.
    pub next: Option<Next>,
    /// Impact factors of paths, by controller.
    pub impacts: BTreeMap<String, BTreeMap<String, f64>>,
    /// Models, by path manager.
    pub models: Vec<ModelReport>,
    /// What equation 11 chooses as it is printed.
    pub as_printed: Option<Point>,
    /// What the measurements took.
    pub cost: Cost,
    /// Throughputs that were measured.
    pub measurements: Vec<MeasurementReport>,
    /// Lines for configurations.
    pub configuration: BTreeMap<&'static str, Vec<String>>,
}

/// What came next to the choice.
#[derive(Debug, Serialize)]
pub struct Next {
    /// Which, with its best buffer.
    pub point: Point,
    /// Its throughput.
    pub mbps: f64,
    /// Repeated.
    pub repeated: Vec<f64>,
    /// Whether the repeated throughputs of both do not overlap.
    pub is_told_apart: bool,
}

/// A model's quality.
#[derive(Debug, Serialize)]
pub struct ModelReport {
    paths: String,
    n: usize,
    r_square: f64,
    p: f64,
    is_accepted: bool,
    /// a, b and c of tp = a + b bs + c bs^2, by controller.
    curves: BTreeMap<String, [f64; 3]>,
    /// Standard error of OTP, of the manager that was chosen.
    standard_error_mbps: Option<f64>,
}

/// What tuning took.
#[derive(Debug, Default, Serialize)]
pub struct Cost {
    /// Measurements of throughputs and of impact factors.
    pub measurements: u64,
    /// Seconds, on the network's clock.
    pub seconds: f64,
    /// Bytes of data that were moved for it.
    pub bytes: u64,
}

/// A throughput.
#[derive(Debug, Serialize)]
pub struct MeasurementReport {
    #[serde(flatten)]
    point: Point,
    seconds: f64,
    round: u32,
    mbps: f64,
}

/// Runs `mpq tune`.
pub fn run(args: &Args) -> Result<(), Failure> {
    let target = Target::of(&args.targets)?;
    let out = match &args.out {
        Some(out) => out.clone(),
        None => Path::new("out/tune").join(target.name()),
    };
    match &target {
        Target::Folders(folders) => {
            let flow = args.flow.as_deref();
            let (observations, longest_rtt_s, rates_mbps) = of_folders(folders, flow)?;
            let space = space_of(args, &observations);
            let result = search::from_observations(&space, &observations, BTreeMap::new())?;
            let report = report(
                &target.name(),
                None,
                &space,
                &result,
                longest_rtt_s,
                rates_mbps,
            );
            finish(args, &out, report, &observations, &result)
        }
        Target::Scenario(file) => {
            let mut lab = simulated::Simulated::new(file, args.flow.as_deref(), args.seed)?;
            let space = space(args, None)?;
            if args.dry_run {
                return dry_run(args, &target.name(), &space, Some(lab.path_count()));
            }
            let name = format!("{} of {}", lab.flow(), target.name());
            let about = lab.target()?;
            tune(args, &out, &name, &about, &space, &mut lab)
        }
        Target::Servers(servers) => {
            let controllers = servers.iter().map(|(cc, _)| cc.clone()).collect();
            let space = space(args, Some(controllers))?;
            if args.dry_run {
                return dry_run(args, &target.name(), &space, None);
            }
            let about: Vec<String> = servers
                .iter()
                .map(|(cc, url)| format!("{cc}={url}"))
                .collect();
            let mut lab = live::Live::new(&args.client, servers);
            tune(
                args,
                &out,
                &target.name(),
                &about.join(" "),
                &space,
                &mut lab,
            )
        }
    }
}

fn space(args: &Args, controllers: Option<Vec<String>>) -> Result<Space, Failure> {
    let usage = |why: &dyn std::fmt::Display| Failure::new(USAGE, why);
    let is_published = args.method == Method::Published;
    let pcdc = if is_published { "pcdc" } else { "pcdc-quick" };
    let managers = args.managers.clone();
    let managers = managers.unwrap_or_else(|| ["full-mesh", pcdc].map(str::to_owned).to_vec());
    for manager in &managers {
        manager
            .parse::<mpq_decision::paths::Choice>()
            .map_err(|e| usage(&e))?;
    }
    let controllers = match controllers {
        Some(named) => named,
        None => {
            let all = CONTROLLERS.map(str::to_owned).to_vec();
            let all = args.controllers.clone().unwrap_or(all);
            for cc in &all {
                quiche::check_cc_algorithm_name(cc).map_err(|e| usage(&e))?;
            }
            all
        }
    };
    let default = || (1..=60).map(|n| 0.5 * f64::from(n)).collect();
    let mut buffers_mib: Vec<f64> = args.buffers.clone().unwrap_or_else(default);
    buffers_mib.sort_by(f64::total_cmp);
    buffers_mib.dedup();
    Ok(Space {
        controllers,
        managers,
        buffers_mib,
        seconds: args.time.unwrap_or(if is_published { 30.0 } else { 10.0 }),
        rounds: args.rounds.unwrap_or(if is_published { 9 } else { 3 }),
        delta: args.delta,
    })
}

/// What results that are there allow to choose from.
fn space_of(args: &Args, observations: &[Observation]) -> Space {
    let mut managers: Vec<String> = Vec::new();
    let mut buffers_mib: Vec<f64> = Vec::new();
    for Observation { point, .. } in observations {
        if !managers.contains(&point.paths) {
            managers.push(point.paths.clone());
        }
        buffers_mib.push(point.buffer_mib);
    }
    // Those that measure nothing are the simpler ones.
    managers.sort_by_key(|manager| search::has_impacts(manager));
    buffers_mib.sort_by(f64::total_cmp);
    buffers_mib.dedup();
    Space {
        controllers: Vec::new(),
        managers,
        buffers_mib,
        seconds: 0.0,
        rounds: 1,
        delta: args.delta,
    }
}

/// What tuning would measure; `paths` are those of the scenario.
fn dry_run(args: &Args, target: &str, space: &Space, paths: Option<usize>) -> Result<(), Failure> {
    let (n, seconds) = space.plan(args.method);
    let measuring = space
        .managers
        .iter()
        .filter(|m| search::has_impacts(m))
        .count();
    let of_impacts = match args.method {
        Method::Published => measuring * space.controllers.len(),
        Method::Quick => measuring,
    };
    let range = space.range();
    println!("{target}: nothing was sent");
    println!("controllers   {}", space.controllers.join(", "));
    println!("managers      {}", space.managers.join(", "));
    println!(
        "buffers       {} from {} to {} MiB",
        space.buffers_mib.len(),
        range[0],
        range[1]
    );
    println!("throughputs   {n} at most, {seconds:.0} s in all");
    if of_impacts > 0 {
        let each = paths.map_or("twice for each path".into(), |paths| {
            let seconds = match args.method {
                Method::Published => 2.0 * paths as f64 * space.seconds,
                Method::Quick => (paths + 1) as f64 * (space.seconds / 5.0 + 0.5),
            };
            format!("{seconds:.0} s each")
        });
        println!("impact        of all paths, {of_impacts} times at most, {each}");
    }
    println!(
        "bytes         what the network carries in that time: 125 kB a second for each Mbit/s"
    );
    Ok(())
}

fn tune(
    args: &Args,
    out: &Path,
    name: &str,
    about: &str,
    space: &Space,
    lab: &mut dyn Lab,
) -> Result<(), Failure> {
    let most = space.plan(args.method).0;
    let mut n = 0;
    let is_quiet = args.client.quiet;
    let on_progress = |ask: &Ask, measured: Option<&Measured>| {
        let Some(measured) = measured.filter(|_| !is_quiet) else {
            return;
        };
        match ask.what {
            What::Throughput => {
                n += 1;
                let (point, mbps) = (&ask.point, measured.mbps);
                eprintln!(
                    "{n:>4} of at most {most}: {point}, {:.1} s: {mbps:.2} Mbit/s",
                    ask.seconds
                );
            }
            What::Impacts => {
                let factors = measured.impacts.iter();
                let factors: Vec<_> = factors.map(|(p, o)| format!("{p} {o:+.3}")).collect();
                eprintln!("     impact with {}: {}", ask.point.cc, factors.join(", "));
            }
        }
    };
    let mut record = Record::open(out, about, lab, on_progress)?;
    let result = match args.method {
        Method::Quick => search::quick(space, &mut record),
        Method::Published => search::published(space, &mut record),
    };
    let result = result.map_err(|failure| match failure.code {
        crate::exit::INTERRUPTED => Failure::new(
            failure.code,
            format!(
                "interrupted; what was measured is in {}, and the same command goes on from there",
                out.display()
            ),
        ),
        _ => failure,
    })?;

    let longest = record
        .used()
        .map(|(_, m)| m.longest_rtt_s)
        .fold(0.0, f64::max);
    let mut fastest: BTreeMap<String, f64> = BTreeMap::new();
    for (path, mbps) in record.used().flat_map(|(_, m)| &m.rates_mbps) {
        let most = fastest.entry(path.clone()).or_default();
        *most = most.max(*mbps);
    }
    let rates = fastest.values().sum();
    let mut report = report(name, Some(args.method), space, &result, longest, rates);
    for (ask, measured) in record.used() {
        report.cost.measurements += 1;
        report.cost.seconds += measured.spent_s;
        report.cost.bytes += measured.bytes;
        if ask.what == What::Throughput {
            report.measurements.push(MeasurementReport {
                point: ask.point.clone(),
                seconds: ask.seconds,
                round: ask.round,
                mbps: measured.mbps,
            });
        }
    }
    let observations = search::observations(&record, space.seconds);
    finish(args, out, report, &observations, &result)
}

fn report(
    target: &str,
    method: Option<Method>,
    space: &Space,
    result: &Result_,
    longest_rtt_s: f64,
    rates_mbps: f64,
) -> Report {
    let chosen = &result.chosen;
    let traditional_mib = model::traditional_mib(longest_rtt_s, rates_mbps);
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let models = result.qualities.iter().map(|quality| {
        let of = result.curves.iter().filter(|of| of.paths == quality.paths);
        let is_chosen = quality.paths == chosen.point.paths;
        let error = || quality.standard_error(&chosen.point.cc, chosen.point.buffer_mib);
        ModelReport {
            paths: quality.paths.clone(),
            n: quality.n,
            r_square: quality.r_square,
            p: quality.p,
            is_accepted: quality.is_accepted(),
            curves: of.map(|of| (of.cc.clone(), of.curve.0)).collect(),
            standard_error_mbps: is_chosen.then(error),
        }
    });
    Report {
        target: target.to_owned(),
        method,
        cc: chosen.point.cc.clone(),
        paths: chosen.point.paths.clone(),
        buffer_mib: chosen.point.buffer_mib,
        buffer_bytes: chosen.point.buffer_bytes(),
        mbps: chosen.mbps,
        highest_mbps: chosen.highest_mbps,
        highest_mib: chosen.highest_mib,
        delta: space.delta,
        range_mib: space.range(),
        traditional_mib,
        of_traditional: chosen.point.buffer_mib / traditional_mib,
        longest_rtt_s,
        rates_mbps,
        at_choice: result.at_choice.clone(),
        next: result.next.as_ref().map(|(point, mbps)| Next {
            point: point.clone(),
            mbps: *mbps,
            repeated: result.at_next.clone(),
            is_told_apart: result.at_choice.len() > 1
                && least(&result.at_choice) > most(&result.at_next),
        }),
        impacts: result.impacts.clone(),
        models: models.collect(),
        as_printed: result.as_printed.clone(),
        cost: Cost::default(),
        measurements: Vec::new(),
        configuration: configuration(&chosen.point),
    }
}

/// The choice as options and configuration files have it.
fn configuration(point: &Point) -> BTreeMap<&'static str, Vec<String>> {
    let bytes = point.buffer_bytes();
    let (cc, paths) = (&point.cc, &point.paths);
    let is_known = cc != live::OF_THE_SERVER;
    let cc_option = if is_known {
        format!(" --cc {cc}")
    } else {
        String::new()
    };
    let mut nginx = vec![
        format!("quic_send_buffer {bytes};"),
        format!("quic_receive_window {bytes};"),
    ];
    let mut scenario = vec![
        format!("path_policy = \"{paths}\""),
        format!("buffer = \"{bytes} bytes\""),
    ];
    if is_known {
        nginx.insert(0, format!("quic_congestion_control {cc};"));
        scenario.insert(0, format!("cc = \"{cc}\""));
    }
    BTreeMap::from([
        (
            "client",
            vec![format!("mpq get --paths {paths} --buffer {bytes} URL")],
        ),
        (
            "upload",
            vec![format!(
                "mpq put{cc_option} --paths {paths} --buffer {bytes} FILE URL"
            )],
        ),
        (
            "server",
            vec![format!("mpq serve{cc_option} --buffer {bytes}")],
        ),
        ("nginx", nginx),
        ("scenario", scenario),
    ])
}

fn finish(
    args: &Args,
    out: &Path,
    report: Report,
    observations: &[Observation],
    result: &Result_,
) -> Result<(), Failure> {
    let text = text(&report);
    let svg = plot::svg(observations, &result.curves, &report);
    let page = plot::page(&svg, &report, &text);
    let file = out.join("index.html");
    fs::create_dir_all(out)
        .and_then(|()| fs::write(&file, page))
        .map_err(|e| Failure::new(LOCAL, format!("cannot write {}: {e}", file.display())))?;
    match &args.client.json {
        Some(json) => {
            write_json(json, &report)?;
            if json.as_os_str() != "-" {
                print!("{text}");
            }
        }
        None => print!("{text}"),
    }
    if !args.client.quiet {
        eprintln!("drawn in {}", file.display());
    }
    Ok(())
}

/// What is printed.
fn text(report: &Report) -> String {
    let mut out = String::new();
    let list = |values: &[f64]| {
        let values: Vec<String> = values.iter().map(|v| format!("{v:.2}")).collect();
        values.join(", ")
    };
    let _ = writeln!(
        out,
        "{}: {}, {}, {:.2} MiB: {:.2} Mbit/s",
        report.target, report.cc, report.paths, report.buffer_mib, report.mbps
    );
    let _ = writeln!(
        out,
        "  highest          {:.2} Mbit/s with {:.2} MiB; the choice may cost {:.0} % of it",
        report.highest_mbps,
        report.highest_mib,
        100.0 * report.delta
    );
    let _ = writeln!(
        out,
        "  equation 1       {:.2} MiB: (3 x {:.3} s + RTO) x {:.2} Mbit/s; the choice is {:.1} % of it",
        report.traditional_mib,
        report.longest_rtt_s,
        report.rates_mbps,
        100.0 * report.of_traditional
    );
    if !report.at_choice.is_empty() {
        let _ = writeln!(out, "  repeated         {} Mbit/s", list(&report.at_choice));
    }
    if let Some(next) = &report.next {
        let how = match (next.repeated.len() > 1, next.is_told_apart) {
            (false, _) => "",
            (true, true) => "; all are below those of the choice",
            (true, false) => {
                "; they overlap with those of the choice or exceed them: either will do"
            }
        };
        let point = &next.point;
        let _ = writeln!(
            out,
            "  next             {point}: {:.2} Mbit/s{how}",
            next.mbps
        );
        if next.repeated.len() > 1 {
            let _ = writeln!(
                out,
                "                   repeated {} Mbit/s",
                list(&next.repeated)
            );
        }
    }
    for (cc, impacts) in &report.impacts {
        let factors = impacts
            .iter()
            .map(|(path, omega)| format!("{path} {omega:+.3}"));
        let _ = writeln!(
            out,
            "  impact, {cc}  {}",
            factors.collect::<Vec<_>>().join(", ")
        );
    }
    for model in &report.models {
        let judged = match model.is_accepted {
            true => "accepted",
            false => "not accepted, R^2 has to be 0.90 and p 0.05: do not rely on it",
        };
        let error = model.standard_error_mbps;
        let error = error.map_or(String::new(), |e| {
            format!(", the throughput within {:.2}", 2.0 * e)
        });
        let _ = writeln!(
            out,
            "  model, {}  R^2 {:.3}, p {:.2e}, n {}{error}: {judged}",
            model.paths, model.r_square, model.p, model.n
        );
        for (cc, [a, b, c]) in &model.curves {
            let _ = writeln!(out, "    {cc:<16} tp = {a:.3} {b:+.3} bs {c:+.4} bs^2");
        }
    }
    if let Some(point) = &report.as_printed {
        let _ = writeln!(
            out,
            "  equation 11      as printed, the least of all pairs: {point}"
        );
    }
    let cost = &report.cost;
    if cost.measurements > 0 {
        let _ = writeln!(
            out,
            "  cost             {} measurements, {:.0} s, {:.1} MB",
            cost.measurements,
            cost.seconds,
            cost.bytes as f64 / 1e6
        );
    }
    for (what, lines) in &report.configuration {
        for line in lines {
            let _ = writeln!(out, "  {what:<16} {line}");
        }
    }
    out
}

/// What the summaries of results in folders say of throughputs, the longest RTT and the paths' rates.
fn of_folders(
    folders: &[PathBuf],
    flow: Option<&str>,
) -> Result<(Vec<Observation>, f64, f64), Failure> {
    #[derive(Deserialize)]
    struct Summary {
        runs: Vec<Run>,
    }
    #[derive(Deserialize)]
    struct Run {
        set: BTreeMap<String, serde_json::Value>,
        status: String,
        metrics: BTreeMap<String, f64>,
    }
    let mut observations = Vec::new();
    let (mut longest_rtt_s, mut fastest) = (0.0f64, BTreeMap::<String, f64>::new());
    for folder in folders {
        let file = folder.join("summary.json");
        let refuse =
            |e: &dyn std::fmt::Display| Failure::new(USAGE, format!("{}: {e}", file.display()));
        let text = fs::read_to_string(&file).map_err(|e| refuse(&e))?;
        let summary: Summary = serde_json::from_str(&text).map_err(|e| refuse(&e))?;
        for run in summary.runs.iter().filter(|run| run.status == "ok") {
            let first = run.metrics.keys().find_map(|key| {
                let rest = key.strip_prefix("flow.")?;
                rest.strip_suffix(".goodput_mbps")
                    .filter(|name| !name.contains('.'))
            });
            let Some(flow) = flow.or(first) else {
                continue;
            };
            let word = |keys: &[&str]| {
                let full = keys.iter().map(|key| format!("flow.{flow}.{key}"));
                let value = full.filter_map(|key| run.set.get(&key)).next();
                value.and_then(|value| Some(value.as_str()?.to_owned()))
            };
            let (Some(cc), Some(buffer)) = (word(&["cc"]), word(&["buffer", "flow_control"]))
            else {
                continue;
            };
            let size: mpq_sim::scenario::Size = buffer.parse().map_err(|e| refuse(&e))?;
            let metric = |name: &str| run.metrics.get(&format!("flow.{flow}.{name}")).copied();
            let Some(mbps) = metric("goodput_mbps") else {
                continue;
            };
            observations.push(Observation {
                point: Point {
                    cc,
                    paths: word(&["path_policy"]).unwrap_or_else(|| "full-mesh".into()),
                    buffer_mib: size.0 as f64 / MIB,
                },
                mbps,
            });
            for (key, value) in &run.metrics {
                let Some(of_path) = key.strip_prefix(&format!("flow.{flow}.path.")) else {
                    continue;
                };
                if of_path.ends_with(".mean_srtt_ms") {
                    longest_rtt_s = longest_rtt_s.max(value / 1e3);
                } else if of_path.ends_with(".goodput_mbps") {
                    let most = fastest.entry(of_path.to_owned()).or_default();
                    *most = most.max(*value);
                }
            }
        }
    }
    if observations.is_empty() {
        let why = "no run says what flow.NAME.cc and flow.NAME.buffer or flow_control it had";
        return Err(Failure::new(USAGE, why));
    }
    Ok((observations, longest_rtt_s, fastest.values().sum()))
}
