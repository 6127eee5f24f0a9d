//! `mpq`: multipath QUIC from the command line.

mod algorithms;
mod cc_trace;
mod chaos;
mod client;
mod exit;
mod get;
mod identity;
mod paths;
mod play;
mod progress;
mod proxy;
mod put;
mod report;
mod serve;
mod signals;
mod sim;
mod tcp;
mod transport;
mod tune;

use clap::Parser;
use clap::Subcommand;

#[derive(Parser)]
#[command(
    version,
    about = "Multipath QUIC from the command line",
    after_help = exit::HELP
)]
struct Cli {
    /// Say more on stderr: -v for what happens, -vv for packets
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Get(Box<get::Args>),
    Put(Box<put::Args>),
    Play(Box<play::Args>),
    Serve(Box<serve::Args>),
    Proxy(Box<proxy::Args>),
    Cc(algorithms::CcArgs),
    Sched(algorithms::SchedArgs),
    Abr(algorithms::AbrArgs),
    Paths(paths::Args),
    Sim(Box<sim::Args>),
    Tune(Box<tune::Args>),
    Chaos(chaos::Args),
}

fn main() -> std::process::ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|e| {
        // clap's own code for wrong usage is 2.
        let code = if e.use_stderr() { exit::USAGE } else { 0 };
        let _ = e.print();
        std::process::exit(code.into());
    });

    let level = match cli.verbose {
        0 => "warn",
        1 => "mpq=info,mpq_driver=debug,warn",
        _ => "trace",
    };
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or(level))
        .format_target(false)
        .format_timestamp_micros()
        .init();

    let result = match cli.command {
        Command::Get(args) => get::run(*args),
        Command::Put(args) => put::run(*args),
        Command::Play(args) => play::run(*args),
        Command::Serve(args) => serve::run(*args),
        Command::Proxy(args) => proxy::run(*args),
        Command::Cc(args) => algorithms::cc(&args),
        Command::Sched(args) => algorithms::sched(&args),
        Command::Abr(args) => algorithms::abr(&args),
        Command::Paths(args) => paths::run(&args),
        Command::Sim(args) => sim::run(*args),
        Command::Tune(args) => tune::run(&args),
        Command::Chaos(args) => chaos::run(&args),
    };
    match result {
        Ok(()) => 0.into(),
        Err(failure) => {
            if let Some(message) = &failure.message {
                eprintln!("mpq: {message}");
            }
            failure.code.into()
        }
    }
}
