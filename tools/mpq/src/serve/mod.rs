//! `mpq serve`: static files over HTTP/3.

mod files;
mod range;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::server::Server;
use mpq_driver::ListenOptions;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::identity;
use crate::signals::StopRequests;
use crate::transport::TransportArgs;

use files::Files;

/// Serve the files of a directory over HTTP/3, multipath on
///
/// Ends on SIGINT or SIGTERM: running downloads may finish, a second signal
/// ends them too.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq serve public\n",
    "  mpq serve public --listen 10.0.0.1:443 --listen 10.0.1.1:443 \\\n",
    "      --cert chain.pem --key key.pem --cc olia\n",
    "  mpq serve backups --cc dc-ledbat:target=50ms,zeta=0.5\n",
))]
pub struct Args {
    /// The directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Listen on this address; may be repeated, and responses then name all of them to clients [default:
    /// port 4433 of every address]. [::] is every IPv6 address, without those of IPv4
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Vec<SocketAddr>,

    /// Certificate chain [default: a new self-signed certificate]
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// Private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Name or address in the self-signed certificate
    #[arg(
        long,
        value_name = "NAME",
        default_value = "localhost",
        conflicts_with = "cert"
    )]
    name: Vec<String>,

    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_connections: usize,

    /// Bytes of responses to hold for all clients together, unsent or
    /// unacknowledged. One alone may hold a quarter; the more there are, the
    /// less each
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    send_budget: usize,

    /// Make clients prove their address first
    #[arg(long)]
    retry: bool,

    /// Remember for so long what was seen of clients' paths, in tokens that
    /// they keep (`mpq get --session`): the next time a path begins with half
    /// of the window it had. Needs a --cc of `mpq cc`
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    remember: Option<u64>,

    /// Answer requests that come with a client's first packets (0-RTT), which
    /// anybody can send again
    #[arg(long)]
    early_data: bool,

    /// How long running downloads may take after SIGINT or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    grace: u64,

    /// Write no access log
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    transport: TransportArgs,
}

/// Runs `mpq serve`.
pub fn run(args: Args) -> Result<(), Failure> {
    let files = Files::new(&args.dir, !args.quiet, &args.listen)
        .map_err(|e| Failure::new(LOCAL, format!("cannot serve {}: {e}", args.dir.display())))?;

    let mut settings = args.transport.settings()?;
    settings.early_data = args.early_data;
    if args.remember.is_some()
        && !mpq_decision::cc::resumes_carefully(&settings.congestion_controller)
    {
        return Err(Failure::new(
            crate::exit::USAGE,
            format!(
                "--remember does not work with --cc {}, which resumes no window; lia, olia and others do",
                settings.congestion_controller
            ),
        ));
    }
    let budget = quiche::SendBudget::new(args.send_budget);
    settings.send_budget = Some(budget.clone());
    let mut config = settings
        .to_quiche()
        .map_err(|e| Failure::new(crate::exit::USAGE, e))?;
    match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => identity::from_files(&mut config, cert, key)?,
        _ => {
            let fingerprint = identity::self_signed(&mut config, args.name.clone())?;
            eprintln!("certificate (self-signed) SHA-256 {fingerprint}");
        }
    }

    let fail = |e: std::io::Error| Failure::new(LOCAL, e);
    let mut server = Server::new(
        config,
        ListenOptions {
            max_connections: args.max_connections,
            retry: args.retry,
            remember: args.remember.map(Duration::from_secs),
            qlog: settings.qlog,
            ..Default::default()
        },
        args.transport.sockets(),
        files,
    )
    .map_err(fail)?;
    listen(&mut server, &args.listen)?;

    let waker = server.waker();
    let stop = StopRequests::watch(move || waker.wake()).map_err(fail)?;
    let mut most_held = 0;
    while stop.count() == 0 {
        server.poll(None).map_err(fail)?;
        most_held = most_held.max(budget.held());
    }

    eprintln!("stopping; running downloads may finish, interrupt again to end them");
    server.stop();
    let deadline = Instant::now() + Duration::from_secs(args.grace);
    while !server.is_stopped() {
        let left = deadline.saturating_duration_since(Instant::now());
        if stop.count() > 1 || left.is_zero() {
            break;
        }
        server.poll(Some(left)).map_err(fail)?;
        most_held = most_held.max(budget.held());
    }
    if !args.quiet {
        eprintln!("held {most_held} of {} bytes at most", budget.size());
    }
    server.abort().map_err(fail)
}

fn listen(server: &mut Server<Files>, addresses: &[SocketAddr]) -> Result<(), Failure> {
    let any_v4: SocketAddr = ([0, 0, 0, 0], 4433).into();
    let any_v6: SocketAddr = ([0u16; 8], 4433).into();
    let fail = |address: SocketAddr, e: std::io::Error| {
        Failure::new(
            NETWORK,
            format!("cannot listen on {address}: {e}; choose another with --listen"),
        )
    };

    let mut listen_on = |address: SocketAddr| {
        server
            .listen_on(address)
            .map(|bound| eprintln!("listening on {bound}"))
    };
    if addresses.is_empty() {
        listen_on(any_v4).map_err(|e| fail(any_v4, e))?;
        // Not every host has IPv6.
        if let Err(e) = listen_on(any_v6) {
            log::info!("not listening on {any_v6}: {e}");
        }
    }
    for &address in addresses {
        listen_on(address).map_err(|e| fail(address, e))?;
    }
    Ok(())
}
