//! `mpq cc` and `mpq sched`: the algorithms that can be chosen, and what is known of them.

mod controller;
mod page;
mod per_path;

use std::io::ErrorKind;
use std::io::Write;
use std::path::PathBuf;

use mpq_decision::UnknownName;
use serde::Serialize;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::report::write_json;

use controller::Controller;

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
}

/// List packet schedulers
///
/// What is listed can be given to --sched of the other commands, and to the
/// directive quic_scheduler of nginx. A path that has nothing left to send may repeat
/// the end of what waits in the queue of another one, unless the name is followed
/// by :tail=off.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  mpq sched
  mpq get --sched min-rtt https://example.com/a
  mpq serve videos --sched ecf:tail=off")]
pub struct SchedArgs {
    /// Write JSON to FILE [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// A scheduler in `mpq sched --json`.
#[derive(Serialize)]
struct Scheduler {
    name: &'static str,
    summary: &'static str,
}

fn known(name: &str) -> Result<Controller, UnknownName> {
    let mut all = controller::all();
    all.find(|controller| controller.name == name)
        .ok_or_else(|| {
            let valid = controller::all().map(|controller| controller.name);
            UnknownName::new("congestion controller", name, valid)
        })
}

/// Runs `mpq cc`.
pub fn cc(args: &CcArgs) -> Result<(), Failure> {
    match (&args.name, &args.json) {
        (Some(controller), Some(file)) => write_json(file, controller),
        (Some(controller), None) => print(&page::explain(controller)),
        (None, Some(file)) => write_json(file, &controller::all().collect::<Vec<_>>()),
        (None, None) => print(&page::controllers(&controller::all().collect::<Vec<_>>())),
    }
}

/// Runs `mpq sched`.
pub fn sched(args: &SchedArgs) -> Result<(), Failure> {
    let all = quiche::schedulers();
    match &args.json {
        Some(file) => {
            let all = all.map(|(name, summary)| Scheduler { name, summary });
            write_json(file, &all.collect::<Vec<_>>())
        }
        None => print(&page::schedulers(&all.collect::<Vec<_>>())),
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
