//! Options that set transport parameters and algorithms, for every command.

use std::path::PathBuf;
use std::time::Duration;

use mpq_driver::SocketOptions;
use mpq_driver::TransportSettings;
use mpq_driver::MAX_DATAGRAM_BYTES;

use crate::cc_trace;
use crate::exit::Failure;
use crate::exit::LOCAL;

/// Less would hold a few packets only.
const LEAST_BUFFER: u64 = 16 << 10;

/// The names are quiche-client's and quiche-server's where they exist there.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Transport")]
pub struct TransportArgs {
    /// Congestion controller of what is sent, with its parameters if they are
    /// not to be the defaults: olia, dc-ledbat:ret=10s,zeta=1; `mpq cc`
    /// lists and explains them
    #[arg(
        long = "cc",
        alias = "cc-algorithm",
        value_name = "NAME[:KEY=VALUE,...]",
        default_value = mpq_driver::DEFAULT_CONTROLLER,
        value_parser = checked(quiche::check_cc_algorithm_name)
    )]
    cc: String,

    /// Write what the controller decides, and why, to FILE, as CSV
    #[arg(long, value_name = "FILE")]
    cc_trace: Option<PathBuf>,

    /// Packet scheduler; `mpq sched` lists them. With `:tail=off` after its name, idle paths do not
    /// repeat the end of what is sent
    #[arg(
        long = "sched",
        value_name = "NAME",
        default_value = "ecf",
        value_parser = checked(quiche::check_scheduler_name)
    )]
    sched: String,

    /// Write qlog of each connection into FOLDER, for qvis and others:
    /// client-CID.sqlog, server-CID.sqlog
    #[arg(long, value_name = "FOLDER")]
    qlog: Option<PathBuf>,

    /// Connection-wide flow control limit
    #[arg(long, value_name = "BYTES", default_value_t = 24 << 20)]
    max_data: u64,

    /// Flow control limit of each stream
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    max_stream_data: u64,

    /// Buffer of each connection here: both flow control limits, in place of the two above, and
    /// what is held at most to be sent, unsent or unacknowledged; `mpq tune` finds one
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(LEAST_BUFFER..),
          conflicts_with_all = ["max_data", "max_stream_data"])]
    buffer: Option<u64>,

    /// Close after so long without a packet
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    idle_timeout: u64,

    /// Highest path ID to allow; 0 leaves one path, see --no-multipath
    #[arg(long, value_name = "ID", default_value_t = 7)]
    max_path_id: u64,

    /// Do not offer multipath
    #[arg(long)]
    no_multipath: bool,

    /// Connection IDs to keep per path
    #[arg(long, value_name = "N", default_value_t = 4)]
    max_active_cids: u64,

    /// Largest UDP payload to look for on each path; the path MTU is found out, above 1472 where interfaces have jumbo
    /// frames
    #[arg(long, value_name = "BYTES", default_value_t = MAX_DATAGRAM_BYTES as u16,
          value_parser = clap::value_parser!(u16).range(1200..=MAX_DATAGRAM_BYTES as i64))]
    max_datagram: u16,

    /// Disable HyStart++
    #[arg(long)]
    disable_hystart: bool,

    /// Acknowledge each path on itself, also where another one is much quicker
    #[arg(long)]
    no_ack_detours: bool,

    /// Acknowledge at once, whatever the peer asks for, and ask it for nothing
    #[arg(long)]
    no_ack_frequency: bool,

    /// Do not mark datagrams as capable of ECN
    #[arg(long)]
    no_ecn: bool,

    /// Do not pace
    #[arg(long)]
    disable_pacing: bool,

    /// Do not send GREASE values
    #[arg(long)]
    no_grease: bool,

    /// QUIC version to use, in hexadecimal
    #[arg(long, value_name = "VERSION", default_value = "1", value_parser = hex)]
    wire_version: u32,
}

/// A parser that accepts what `check` does, and shows its reason if it does not.
fn checked(
    check: fn(&str) -> Result<(), quiche::InvalidAlgorithmName>,
) -> impl Fn(&str) -> Result<String, quiche::InvalidAlgorithmName> + Clone {
    move |text| check(text).map(|()| text.to_owned())
}

fn hex(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "must be a hexadecimal number".into())
}

impl TransportArgs {
    /// Controller and scheduler.
    pub fn algorithms(&self) -> String {
        format!("{} {}", self.cc, self.sched)
    }

    /// The same with a buffer of so many bytes.
    pub fn with_buffer(&self, bytes: u64) -> TransportArgs {
        TransportArgs {
            buffer: Some(bytes),
            ..self.clone()
        }
    }

    /// The same without multipath.
    pub fn without_multipath(&self) -> TransportArgs {
        TransportArgs {
            no_multipath: true,
            ..self.clone()
        }
    }

    /// Whether multipath is not offered.
    pub fn is_single_path(&self) -> bool {
        self.no_multipath
    }

    /// How sockets are set up for that.
    pub fn sockets(&self) -> SocketOptions {
        SocketOptions {
            max_datagram_bytes: self.max_datagram.into(),
            ..SocketOptions::default()
        }
    }

    /// The settings these options stand for. Creates the file of `--cc-trace` and the folder of `--qlog`.
    pub fn settings(&self) -> Result<TransportSettings, Failure> {
        if let Some(folder) = &self.qlog {
            std::fs::create_dir_all(folder).map_err(|e| {
                let folder = folder.display();
                Failure::new(LOCAL, format!("cannot write qlog into {folder}: {e}"))
            })?;
        }
        let cc_observer = match &self.cc_trace {
            Some(file) => Some(cc_trace::to_csv(file, &self.cc)?),
            None => None,
        };
        Ok(TransportSettings {
            congestion_controller: self.cc.clone(),
            cc_observer,
            scheduler: self.sched.clone(),
            max_data: self.buffer.unwrap_or(self.max_data),
            max_stream_data: self.buffer.unwrap_or(self.max_stream_data),
            max_send_buffer: self.buffer,
            idle_timeout: Duration::from_millis(self.idle_timeout),
            max_path_id: (!self.no_multipath).then_some(self.max_path_id),
            active_connection_id_limit: self.max_active_cids,
            max_datagram_bytes: self.max_datagram.into(),
            hystart: !self.disable_hystart,
            ack_detours: !self.no_ack_detours,
            ack_frequency: !self.no_ack_frequency,
            ecn: !self.no_ecn,
            pacing: !self.disable_pacing,
            grease: !self.no_grease,
            version: self.wire_version,
            qlog: self.qlog.clone(),
            ..Default::default()
        })
    }
}
