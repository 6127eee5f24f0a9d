//! A download from noq to noq over several paths, as a program: `experiments/rivals.py` runs it on emulated links.

use std::error::Error;
use std::fs;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mpq_identity::Identity;
use mpq_interop::noq_peer;
use mpq_interop::SERVER_NAME;
use noq::congestion::Bbr3Config;
use noq::congestion::CubicConfig;
use noq::congestion::NewRenoConfig;
use noq::Connection;
use noq::Endpoint;
use noq::FourTuple;
use noq::PathError;
use noq::PathStatus;
use noq::TransportConfig;

const USAGE: &str = "\
A download from noq to noq over several paths

usage: noq-bulk serve ADDR:PORT --certificate FILE [--cc cubic|new-reno|bbr3]
       noq-bulk get ADDR:PORT --certificate FILE --bytes N [--path LOCAL]...

serve writes its certificate to FILE, says \"ready\", and sends each client as much as it asks for, on one stream.
get begins on the path that the system routes it over, opens one more from each LOCAL address as soon as the server
allows it, and prints JSON: seconds from before the handshake to the last byte, bytes, and what each path received.
All of noq's settings but the controller and the number of paths are its defaults.

examples:
  noq-bulk serve 10.1.0.2:4433 --certificate /tmp/noq.der
  noq-bulk get 10.1.0.2:4433 --certificate /tmp/noq.der --path 10.2.0.1 --bytes 20971520";

/// As many paths as a client may open.
const MAX_PATHS: u32 = 4;

/// How long a client waits for the server to allow a path.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Default)]
struct Arguments {
    verb: String,
    address: Option<SocketAddr>,
    certificate: Option<String>,
    cc: String,
    bytes: u64,
    paths: Vec<IpAddr>,
}

fn parse(words: impl IntoIterator<Item = String>) -> Result<Arguments, Failure> {
    let mut words = words.into_iter();
    let mut arguments = Arguments {
        verb: words.next().unwrap_or_default(),
        cc: "cubic".to_owned(),
        ..Arguments::default()
    };
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            arguments.address = Some(word.parse()?);
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        match word.as_str() {
            "--certificate" => arguments.certificate = Some(value),
            "--cc" => arguments.cc = value,
            "--bytes" => arguments.bytes = value.parse()?,
            "--path" => arguments.paths.push(value.parse()?),
            _ => return Err(format!("{word} is unknown; --help tells what there is").into()),
        }
    }
    Ok(arguments)
}

fn transport(cc: &str) -> Result<Arc<TransportConfig>, Failure> {
    let mut config = TransportConfig::default();
    config.max_concurrent_multipath_paths(MAX_PATHS);
    match cc {
        "cubic" => config.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "new-reno" => config.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        "bbr3" => config.congestion_controller_factory(Arc::new(Bbr3Config::default())),
        _ => return Err(format!("{cc}: noq has cubic, new-reno and bbr3").into()),
    };
    Ok(Arc::new(config))
}

async fn serve(address: SocketAddr, certificate: &str, cc: &str) -> Result<(), Failure> {
    let identity = Identity::new([SERVER_NAME.to_owned()])?;
    let config = noq_peer::server_config(&identity, false, transport(cc)?)?;
    let endpoint = Endpoint::server(config, address)?;
    fs::write(certificate, identity.certificate())?;
    println!("ready");
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = answer(incoming).await {
                eprintln!("noq-bulk: {error}");
            }
        });
    }
    Ok(())
}

/// Sends what the client asks for: the number of bytes is all that its stream says.
async fn answer(incoming: noq::Incoming) -> Result<(), Failure> {
    let connection = incoming.await?;
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut number = [0; 8];
    receive.read_exact(&mut number).await?;
    let mut left = u64::from_be_bytes(number);
    let data = vec![0; 65536];
    while left > 0 {
        let len = left.min(65536) as usize;
        send.write_all(&data[..len]).await?;
        left -= len as u64;
    }
    send.finish()?;
    connection.closed().await;
    Ok(())
}

async fn get(
    server: SocketAddr,
    certificate: &str,
    bytes: u64,
    paths: &[IpAddr],
) -> Result<(), Failure> {
    let config = noq_peer::client_config(&fs::read(certificate)?, false, transport("cubic")?)?;
    // One socket for all paths: noq says with each packet from which address it goes, and the system routes by that.
    let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let began = Instant::now();
    let connection = endpoint.connect_with(config, server, SERVER_NAME)?.await?;

    let opening = tokio::spawn(open_paths(connection.clone(), server, paths.to_vec()));
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&bytes.to_be_bytes()).await?;
    send.finish()?;
    let (mut buf, mut received) = (vec![0; 65536], 0);
    while let Some(len) = receive.read(&mut buf).await? {
        received += len as u64;
    }
    let seconds = began.elapsed().as_secs_f64();
    opening.abort();

    let of_paths: Vec<String> = (0..MAX_PATHS)
        .filter_map(|id| connection.path_stats(id.into()))
        .map(|stats| stats.udp_rx.bytes.to_string())
        .collect();
    println!(
        "{{\"seconds\": {seconds:.6}, \"bytes\": {received}, \"of_paths\": [{}]}}",
        of_paths.join(", ")
    );
    connection.close(0_u32.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

async fn open_paths(connection: Connection, server: SocketAddr, locals: Vec<IpAddr>) {
    for local in locals {
        let until = Instant::now() + OPEN_LIMIT;
        loop {
            let tuple = FourTuple::new(server, Some(local));
            match connection.open_path(tuple, PathStatus::Available).await {
                // What a new path needs comes with the first packets after the handshake.
                Err(PathError::RemoteCidsExhausted) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => {
                    eprintln!("noq-bulk: no path from {local}: {error}");
                    break;
                }
                Ok(_) => break,
            }
        }
    }
}

async fn run() -> Result<(), Failure> {
    let arguments = parse(std::env::args().skip(1))?;
    let address = arguments.address.ok_or("an ADDR:PORT is missing");
    let certificate = arguments.certificate.ok_or("--certificate is missing");
    match arguments.verb.as_str() {
        "serve" => serve(address?, &certificate?, &arguments.cc).await,
        "get" => get(address?, &certificate?, arguments.bytes, &arguments.paths).await,
        _ => {
            println!("{USAGE}");
            Ok(())
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("noq-bulk: {error}");
            ExitCode::FAILURE
        }
    }
}
