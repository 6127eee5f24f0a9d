//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use mpq_wire::model::DirectionConfig;
use mpq_wire::model::LossModel;
use mpq_wire::model::QueueLimit;
use mpq_wire::model::Schedule;
use mpq_wire::units::parse_duration;
use mpq_wire::units::Rate;

const EXAMPLES: &str = "\
Every quantity carries its unit. Rate and queue count IP bytes: the Ethernet frame without its
14-byte header and FCS, plus --framing-overhead.

Examples:
  # 12 Mbit/s, RTT 20 ms, a queue of one bandwidth-delay product, both directions alike
  mpq-wire --a veth0 --b veth1 --rate 12mbit --delay 10ms --queue 1bdp

  # An LTE-like link: slow upstream, deep queue, bursty loss downstream, repeatable
  mpq-wire --a veth0 --b veth1 --delay 25ms --queue 500ms --rate 20mbit --seed 7 \\
      --a-to-b 'rate=5mbit' --b-to-a 'loss=gilbert:p=0.25%,r=50%'

  # A queue that marks what finds 5 ms of it, where senders are capable of ECN
  mpq-wire --a veth0 --b veth1 --rate 20mbit --delay 20ms --queue 4bdp --mark 5ms

  # Silent from second 2 to second 12
  mpq-wire --a veth0 --b veth1 --rate 12mbit --delay 10ms --schedule 'down@2s,up@12s'

  # Live changes: one command a line on standard input, answered on standard output;
  # the link ends with the input
  (sleep 5; echo down; sleep 2; echo up; echo 'b-to-a rate 2mbit'; sleep 5) |
      mpq-wire --a veth0 --b veth1 --rate 12mbit --delay 10ms --control

Commands of --control: [a-to-b|b-to-a] down | up | rate RATE | delay TIME | loss LAW; stats; quit.
SIGUSR1 writes the counters at once; SIGINT and SIGTERM write them and end the link.";

/// An emulated link between two network interfaces: rate, delay, drop-tail queue, loss, outages.
///
/// Moves whole Ethernet frames between the interfaces A and B. Turn segmentation, receive and
/// checksum offloads off on the hosts' interfaces, or large sends are lost (see the counters
/// `oversize` and `unfinished_checksum`).
#[derive(Parser)]
#[command(name = "mpq-wire", version, after_help = EXAMPLES)]
pub struct Cli {
    /// Interface at the link's A end
    #[arg(long, value_name = "INTERFACE")]
    pub a: String,
    /// Interface at the link's B end
    #[arg(long, value_name = "INTERFACE")]
    pub b: String,
    /// Rate, such as 12mbit; without it the link is as fast as the machine
    #[arg(long)]
    rate: Option<Rate>,
    /// One-way delay, such as 10ms
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0ms")]
    delay: Duration,
    /// Drop-tail queue: 1bdp, 1.5bdp:rtt=20ms, 50packets, 30kb, 100ms
    #[arg(long, value_name = "LIMIT", default_value = "1bdp")]
    queue: QueueLimit,
    /// Packets that find so much waiting are marked as congested if their sender is capable of ECN
    #[arg(long, value_name = "LIMIT")]
    mark: Option<QueueLimit>,
    /// none, 0.5%, gilbert:p=..%,r=..% or gilbert-elliott:p=..%,r=..%,h=..%,k=..%
    #[arg(long, value_name = "LAW", default_value = "none")]
    loss: LossModel,
    /// Events: down@2s,up@12s,rate=2mbit@20s,delay=30ms@25s,loss=1%@30s,mtu=1300bytes@40s
    #[arg(long, value_name = "EVENTS")]
    schedule: Option<Schedule>,
    /// Bytes charged for each frame beyond its IP bytes: 14 = Ethernet, 38 = on the wire
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    framing_overhead: u32,
    /// What differs from A to B, such as 'rate=5mbit delay=30ms'
    #[arg(long, value_name = "SETTINGS")]
    a_to_b: Option<String>,
    /// What differs from B to A
    #[arg(long, value_name = "SETTINGS")]
    b_to_a: Option<String>,
    /// Master seed of all random draws
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of this run in a series; goes into the seeds
    #[arg(long, default_value_t = 0)]
    pub run: u64,
    /// Name of the link; goes into the seeds and the report
    #[arg(long, default_value = "link")]
    pub name: String,
    /// Write the counters to this file on exit and on SIGUSR1; standard error without it
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Read commands from standard input; end when it ends
    #[arg(long)]
    pub control: bool,
    /// Least time between two wake-ups while frames are in flight
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "100us")]
    pub tick: Duration,
    /// SCHED_FIFO priority, 1 to 99; 0 = normal scheduling
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub priority: u8,
}

impl Cli {
    /// What the two directions are like: A to B, B to A.
    pub fn directions(&self) -> Result<(DirectionConfig, DirectionConfig), String> {
        let common = DirectionConfig {
            rate: self.rate,
            delay: self.delay,
            queue: self.queue,
            mark: self.mark,
            loss: self.loss.clone(),
            schedule: self.schedule.clone().unwrap_or_default(),
            framing_overhead: self.framing_overhead,
            ..DirectionConfig::default()
        };
        Ok((
            override_with(&common, "--a-to-b", self.a_to_b.as_deref())?,
            override_with(&common, "--b-to-a", self.b_to_a.as_deref())?,
        ))
    }
}

fn override_with(
    common: &DirectionConfig,
    option: &str,
    settings: Option<&str>,
) -> Result<DirectionConfig, String> {
    let mut config = common.clone();
    for setting in settings.unwrap_or_default().split_whitespace() {
        let in_context = |error: String| format!("{option}: {error}");
        let (key, value) = setting.split_once('=').ok_or_else(|| {
            in_context(format!(
                "\"{setting}\": write key=value, for example rate=5mbit"
            ))
        })?;
        match key {
            "rate" => config.rate = Some(value.parse().map_err(in_context)?),
            "delay" => config.delay = parse_duration(value).map_err(in_context)?,
            "queue" => config.queue = value.parse().map_err(in_context)?,
            "mark" => config.mark = Some(value.parse().map_err(in_context)?),
            "loss" => config.loss = value.parse().map_err(in_context)?,
            "schedule" => config.schedule = value.parse().map_err(in_context)?,
            _ => {
                return Err(in_context(format!(
                    "unknown setting \"{key}\"; use rate, delay, queue, mark, loss or schedule"
                )))
            }
        }
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &str) -> Result<Cli, clap::Error> {
        let fixed = ["mpq-wire", "--a", "x", "--b", "y"];
        Cli::try_parse_from(
            fixed
                .into_iter()
                .chain(arguments.split(' ').filter(|a| !a.is_empty())),
        )
    }

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_direction_can_differ() {
        let mut cli = parse("--rate 12mbit --delay 10ms").unwrap();
        cli.a_to_b = Some("rate=5mbit loss=1%".into());
        let (a_to_b, b_to_a) = cli.directions().unwrap();
        assert_eq!(a_to_b.rate, "5mbit".parse().ok());
        assert_eq!(a_to_b.loss, LossModel::Bernoulli { p: 0.01 });
        assert_eq!(a_to_b.delay, Duration::from_millis(10));
        assert_eq!(b_to_a.rate, "12mbit".parse().ok());
        assert_eq!(b_to_a.loss, LossModel::None);
        cli.a_to_b = Some("speed=5mbit".into());
        assert!(cli
            .directions()
            .unwrap_err()
            .contains("--a-to-b: unknown setting \"speed\""));
    }

    #[test]
    fn a_missing_unit_is_an_error_with_a_hint() {
        for arguments in [
            "--rate 12",
            "--delay 10",
            "--queue 50",
            "--loss 0.5",
            "--schedule down@2",
        ] {
            let error = parse(arguments).err().expect(arguments).to_string();
            assert!(error.contains("unit is missing"), "{error}");
        }
    }
}
