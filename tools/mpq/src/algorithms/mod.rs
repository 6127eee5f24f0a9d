//! `mpq cc`, `mpq sched` and `mpq abr`: the algorithms that can be chosen, and what is known of them.

mod controller;
pub mod markdown;
mod page;
mod per_path;
mod rule;
mod scheduler;

use std::io::ErrorKind;
use std::io::Write;
use std::path::PathBuf;

use mpq_decision::UnknownName;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::report::write_json;

use controller::Controller;
use rule::Rule;
use scheduler::Scheduler;

/// List congestion controllers, or explain one
///
/// What is listed can be given to --cc of the other commands, and to the
/// directive quic_congestion_control of nginx.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq cc
  mpq cc dc-ledbat
  mpq cc olia --json=olia.json
  mpq cc --markdown parameters

Exit codes:
  0    success
  1    wrong usage, such as a name that no controller has
  6    local file: disk full, no permission")]
pub struct CcArgs {
    /// The controller to explain
    #[arg(value_name = "NAME", value_parser = known)]
    name: Option<Controller>,

    /// Write JSON to FILE, with all there is to say [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Print this part as Markdown, without quiche's own, as docs/ has it
    #[arg(long, value_name = "PART", conflicts_with_all = ["name", "json"])]
    markdown: Option<markdown::Part>,
}

/// List packet schedulers, or explain one
///
/// What is listed can be given to --sched of the other commands, and to the
/// directive quic_scheduler of nginx. A path that has nothing left to send may repeat
/// the end of what waits in the queue of another one, unless the name is followed
/// by :tail=off.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq sched
  mpq sched ecf
  mpq get --sched min-rtt https://example.com/a
  mpq serve videos --sched ecf:tail=off

Exit codes:
  0    success
  1    wrong usage, such as a name that no scheduler has
  6    local file: disk full, no permission")]
pub struct SchedArgs {
    /// The scheduler to explain
    #[arg(value_name = "NAME", value_parser = known_scheduler)]
    name: Option<Scheduler>,

    /// Write JSON to FILE, with all there is to say [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Print this part as Markdown, as docs/ has it
    #[arg(long, value_name = "PART", conflicts_with_all = ["name", "json"])]
    markdown: Option<markdown::SchedulerPart>,
}

/// List adaptation rules of the DASH player, or explain one
///
/// What is listed can be given to --abr of `mpq play`, and to `abr` of a flow
/// that plays DASH in a scenario.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq abr
  mpq abr mpc
  mpq play --abr mpc:horizon=3 https://example.com/stream.mpd

Exit codes:
  0    success
  1    wrong usage, such as a name that no rule has
  6    local file: disk full, no permission")]
pub struct AbrArgs {
    /// The rule to explain
    #[arg(value_name = "NAME", value_parser = known_rule)]
    name: Option<Rule>,

    /// Write JSON to FILE, with all there is to say [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Print this part as Markdown, as docs/ has it
    #[arg(long, value_name = "PART", conflicts_with_all = ["name", "json"])]
    markdown: Option<markdown::RulePart>,
}

fn known(name: &str) -> Result<Controller, UnknownName> {
    named(
        "congestion controller",
        controller::all,
        |one| one.name,
        name,
    )
}

fn known_scheduler(name: &str) -> Result<Scheduler, UnknownName> {
    named("scheduler", scheduler::all, |one| one.name, name)
}

fn known_rule(name: &str) -> Result<Rule, UnknownName> {
    named("adaptation rule", rule::all, |one| one.name, name)
}

/// The one with the name, or an error that lists all names.
fn named<T, I: Iterator<Item = T>>(
    kind: &'static str,
    all: impl Fn() -> I,
    name_of: impl Fn(&T) -> &'static str,
    name: &str,
) -> Result<T, UnknownName> {
    all()
        .find(|one| name_of(one) == name)
        .ok_or_else(|| UnknownName::new(kind, name, all().map(|one| name_of(&one))))
}

/// Runs `mpq cc`.
pub fn cc(args: &CcArgs) -> Result<(), Failure> {
    if let Some(part) = args.markdown {
        return print(&markdown::controllers(part));
    }
    match (&args.name, &args.json) {
        (Some(controller), Some(file)) => write_json(file, controller),
        (Some(controller), None) => print(&page::explain(controller)),
        (None, Some(file)) => write_json(file, &controller::all().collect::<Vec<_>>()),
        (None, None) => print(&page::controllers(&controller::all().collect::<Vec<_>>())),
    }
}

/// Runs `mpq sched`.
pub fn sched(args: &SchedArgs) -> Result<(), Failure> {
    if let Some(part) = args.markdown {
        return print(&markdown::schedulers(part));
    }
    match (&args.name, &args.json) {
        (Some(scheduler), Some(file)) => write_json(file, scheduler),
        (Some(scheduler), None) => print(&page::explain_scheduler(scheduler)),
        (None, Some(file)) => write_json(file, &scheduler::all().collect::<Vec<_>>()),
        (None, None) => print(&page::schedulers(&scheduler::all().collect::<Vec<_>>())),
    }
}

/// Runs `mpq abr`.
pub fn abr(args: &AbrArgs) -> Result<(), Failure> {
    if let Some(part) = args.markdown {
        return print(&markdown::rules(part));
    }
    match (&args.name, &args.json) {
        (Some(rule), Some(file)) => write_json(file, rule),
        (Some(rule), None) => print(&page::explain_rule(rule)),
        (None, Some(file)) => write_json(file, &rule::all().collect::<Vec<_>>()),
        (None, None) => print(&page::rules(&rule::all().collect::<Vec<_>>())),
    }
}

/// Writes to standard output, without styles if that is no terminal. A reader that has seen enough
/// is no failure.
fn print(text: &str) -> Result<(), Failure> {
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(Failure::new(LOCAL, e)),
        _ => Ok(()),
    }
}
