//! The options of every command that connects to a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mpq_decision::paths;
use mpq_decision::paths::LEAST_DELAY;
use mpq_decision::paths::LINK_DELAY;
use mpq_driver::facts::Named;
use mpq_driver::facts::Selection;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Verify;

use crate::exit::Failure;
use crate::identity::parse_fingerprint;
use crate::transport::TransportArgs;

/// Paths, TLS, transport, and how much is said.
#[derive(clap::Args, Clone, Debug)]
pub struct ClientArgs {
    /// Use only this local address or interface, whenever it is there; the
    /// first is for the handshake [default: every usable one]
    #[arg(long = "path", value_name = "ADDR|IFNAME", value_parser = named)]
    pub only: Vec<Named>,

    /// Which paths to open, and what for; `mpq paths` lists the policies
    #[arg(
        long = "paths",
        value_name = "NAME[:KEY=VALUE,...]",
        default_value = "full-mesh"
    )]
    pub policy: paths::Choice,

    /// This address or interface costs money (the system knows of modems)
    #[arg(long, value_name = "ADDR|IFNAME", value_parser = named)]
    pub metered: Vec<Named>,

    /// Use this address or interface only while nothing else works
    #[arg(long, value_name = "ADDR|IFNAME", value_parser = named)]
    pub standby: Vec<Named>,

    /// Try the next interface that carries data, too, for the handshake after
    /// this long without an answer; the first that succeeds is kept. What
    /// stands by, and other addresses of the server, after 250 ms or, if that
    /// is longer, the same
    #[arg(long, value_name = "MS", default_value_t = LINK_DELAY.as_millis() as u64,
          value_parser = clap::value_parser!(u64).range(LEAST_DELAY.as_millis() as u64..=60_000))]
    pub attempt_delay: u64,

    /// Write a report to FILE [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    pub json: Option<PathBuf>,

    /// Show no progress and no notes
    #[arg(short, long)]
    pub quiet: bool,

    /// Do not check the server's certificate
    #[arg(long)]
    pub no_verify: bool,

    /// Accept exactly the certificate with this SHA-256 fingerprint
    #[arg(long, value_name = "SHA256", value_parser = parse_fingerprint,
          conflicts_with = "no_verify")]
    pub pin: Option<[u8; 32]>,

    /// Trust the certificate authorities in this file too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_verify", "pin"])]
    pub trust_origin_ca_pem: Option<String>,

    /// Connect to this address instead of the URL's; if repeated, they are
    /// tried as the addresses of a name are
    #[arg(long, value_name = "ADDR:PORT")]
    pub connect_to: Vec<SocketAddr>,

    /// Begin with what FILE keeps of earlier runs, and keep there what this one
    /// leaves: TLS sessions, and what servers remember of the paths
    #[arg(long, value_name = "FILE", alias = "session-file")]
    pub session: Option<PathBuf>,

    /// Wait for the handshake before a request, also where --session would
    /// let it go with the first packets (0-RTT)
    #[arg(long)]
    pub no_early_data: bool,

    /// Give up if the server does not complete the handshake
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub handshake_timeout: u64,

    #[command(flatten)]
    pub transport: TransportArgs,
}

fn named(text: &str) -> Result<Named, std::convert::Infallible> {
    Ok(Named::parse(text))
}

impl ClientArgs {
    /// What impact factors of paths depend on besides the networks.
    pub fn measured_with(&self) -> String {
        format!(
            "{} {}",
            self.policy.entry().name,
            self.transport.algorithms()
        )
    }

    /// The same with another path policy, and with a buffer of so many bytes.
    pub fn tuned(&self, policy: paths::Choice, buffer_bytes: u64) -> ClientArgs {
        ClientArgs {
            policy,
            transport: self.transport.with_buffer(buffer_bytes),
            ..self.clone()
        }
    }

    /// The same without multipath.
    pub fn single_path(&self) -> ClientArgs {
        ClientArgs {
            transport: self.transport.without_multipath(),
            ..self.clone()
        }
    }

    /// Whether multipath is not wanted.
    pub fn is_single_path(&self) -> bool {
        self.transport.is_single_path()
    }

    /// The settings these options stand for.
    pub fn settings(&self) -> Result<ClientSettings, Failure> {
        let locals = Selection {
            only: self.only.clone(),
            metered: self.metered.clone(),
            standby: self.standby.clone(),
        };
        let verify = match (&self.pin, &self.trust_origin_ca_pem) {
            (Some(pin), _) => Verify::Pin(*pin),
            (None, Some(file)) => Verify::Ca(file.clone()),
            (None, None) if self.no_verify => Verify::None,
            (None, None) => Verify::System,
        };
        let mut transport = self.transport.settings()?;
        transport.early_data = self.session.is_some() && !self.no_early_data;
        transport.handshake_timeout = Duration::from_millis(self.handshake_timeout);
        Ok(ClientSettings {
            transport,
            verify,
            locals,
            paths: self.policy,
            sockets: self.transport.sockets(),
        })
    }
}
