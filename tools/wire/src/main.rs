//! `mpq-wire`: an emulated link between two network interfaces, for kernels without netem.

mod cli;
mod control;
mod ecn;
mod forward;
mod port;
mod report;
mod system;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use mpq_wire::model::Direction;
use mpq_wire::model::Seeds;
use mpq_wire::model::Way;

use crate::cli::Cli;
use crate::control::Control;
use crate::forward::Lane;
use crate::forward::Wire;
use crate::port::Port;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mpq-wire: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<()> {
    let (a_to_b, b_to_a) = cli.directions().map_err(anyhow::Error::msg)?;
    let rtt = a_to_b.delay + b_to_a.delay;
    let least_delay = a_to_b.delay.min(b_to_a.delay);

    // Signals first: one that arrives while the sockets are set up must not be missed.
    let signals = system::Signals::block().context("cannot block signals")?;
    let (rx_a, tx_a) = Port::open_pair(&cli.a)?;
    let (rx_b, tx_b) = Port::open_pair(&cli.b)?;
    system::least_timer_slack();
    let realtime = system::become_realtime(cli.priority);
    if let Err(error) = &realtime {
        eprintln!("mpq-wire: normal scheduling, so expect late frames on a busy machine: {error}");
    }

    let lane = |rx, tx, config, way| {
        let seeds = Seeds {
            master: cli.seed,
            run: cli.run,
            link: cli.name.clone(),
            way,
        };
        Lane::new(
            rx,
            tx,
            Direction::new(config, rtt, &seeds),
            forward::ring_slots(config, rtt),
        )
    };
    let lanes = [
        lane(rx_a, tx_b, &a_to_b, Way::AToB),
        lane(rx_b, tx_a, &b_to_a, Way::BToA),
    ];
    let control = if cli.control {
        Control::stdin()?
    } else {
        Control::none()
    };
    let mut wire = Wire::new(lanes, least_delay, cli.tick, control, signals)?;
    writeln!(std::io::stdout(), "ready")?;
    wire.run(|wire| report::write(cli, realtime.is_ok(), wire))?;
    report::write(cli, realtime.is_ok(), &mut wire)
}
