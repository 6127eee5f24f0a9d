//! The relay as a program, for tests that are not Rust.

use std::collections::HashMap;
use std::io::BufRead;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use mpq_relay::LinkOptions;
use mpq_relay::Options;
use mpq_relay::Relay;

/// Carries UDP datagrams between clients and a server on this machine, those of each client address over a link of
/// its own. Prints the address that clients send to.
///
/// On standard input, the line "stats" asks for a line of JSON: for each client address "up_bytes" and "down_bytes"
/// delivered, and "dropped" datagrams. "cut CLIENT" lets nothing more through for that client address, and
/// "rate CLIENT N" and "delay CLIENT N" give its link N bytes a second, and a way of N ms. The relay ends when standard
/// input does.
#[derive(Parser)]
#[command(name = "mpq-relay")]
struct Arguments {
    /// Where clients send to; port 0 is any free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    bind: SocketAddr,

    /// Where their datagrams go
    #[arg(long, value_name = "ADDRESS:PORT")]
    server: SocketAddr,

    /// Another address of the server, for datagrams from a client address; may be repeated
    #[arg(long, value_name = "CLIENT=ADDRESS:PORT", value_parser = route)]
    route: Vec<(IpAddr, SocketAddr)>,

    /// UDP payload that a link carries, bytes a second in each direction; without it, as fast as the machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,

    /// UDP payload that waits for a link with a rate at most, bytes
    #[arg(long, value_name = "N", default_value_t = LinkOptions::default().queue_bytes)]
    queue: u64,

    /// How long a datagram travels, ms
    #[arg(long, value_name = "N", default_value_t = 0)]
    delay: u64,
}

fn route(text: &str) -> Result<(IpAddr, SocketAddr), String> {
    let (client, server) = text.split_once('=').ok_or("use CLIENT=ADDRESS:PORT")?;
    let client = client
        .parse()
        .map_err(|_| format!("{client} is no address"))?;
    let server = server
        .parse()
        .map_err(|_| format!("{server} is no address with a port"))?;
    Ok((client, server))
}

fn stats(relay: &Relay) -> serde_json::Value {
    let links = relay.links().into_iter().map(|(client, link)| {
        let figures = serde_json::json!({
            "up_bytes": link.delivered_up(),
            "down_bytes": link.delivered(),
            "dropped": link.dropped(),
        });
        (client.to_string(), figures)
    });
    links.collect::<serde_json::Map<_, _>>().into()
}

/// Does what a line says of a link.
fn command(relay: &Relay, line: &str) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    let (name, client) = (words.next()?, words.next()?.parse().ok()?);
    match name {
        "cut" => relay.link(client).set_down(true),
        "rate" => relay.link(client).set_rate(words.next()?.parse().ok()?),
        "delay" => {
            let delay = Duration::from_millis(words.next()?.parse().ok()?);
            relay.link(client).set_delay(delay);
        }
        _ => return None,
    }
    Some(())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let relay = Relay::start(Options {
        bind: arguments.bind,
        server: arguments.server,
        routes: arguments.route.into_iter().collect::<HashMap<_, _>>(),
        link: LinkOptions {
            bytes_per_second: arguments.rate,
            queue_bytes: arguments.queue,
            delay: Duration::from_millis(arguments.delay),
            drop_one_in: None,
        },
    });
    let relay = match relay {
        Ok(relay) => relay,
        Err(e) => {
            eprintln!("mpq-relay: cannot bind {}: {e}", arguments.bind);
            return ExitCode::FAILURE;
        }
    };
    println!("{}", relay.address());
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.trim() {
            "stats" => println!("{}", stats(&relay)),
            other => {
                if command(&relay, other).is_none() {
                    eprintln!("mpq-relay: unknown command: {other}");
                }
            }
        }
    }
    ExitCode::SUCCESS
}
