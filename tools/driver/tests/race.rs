//! The handshake over two links, on loopback, with a link of its own for each address of the client.

mod common;

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use common::*;
use mpq_driver::facts::Named;
use mpq_driver::facts::Selection;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Race;
use mpq_driver::h3::client::Verify;
use mpq_driver::ConnKey;
use mpq_driver::Resumption;
use mpq_driver::TransportSettings;
use mpq_relay::LinkOptions;
use mpq_relay::Options;
use mpq_relay::Relay;

/// The Connection Attempt Delay of these tests.
const DELAY: Duration = Duration::from_millis(20);

/// One way over a link that is slow: a busy machine is not.
const SLOW: Duration = Duration::from_millis(1500);

fn address(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn client(policy: &str) -> Client {
    Client::new(ClientSettings {
        transport: TransportSettings {
            early_data: true,
            handshake_timeout: LIMIT,
            ..Default::default()
        },
        verify: Verify::None,
        locals: Selection {
            only: [1, 2].map(|last| Named::Address(address(last))).into(),
            ..Default::default()
        },
        paths: policy.parse().unwrap(),
        ..Default::default()
    })
    .unwrap()
}

/// A server, and two links to it.
fn net() -> (TestServer, Relay) {
    let server = TestServer::start(ServerOptions {
        transport: TransportSettings {
            early_data: true,
            ..Default::default()
        },
        ..Default::default()
    });
    let relay = Relay::start(Options {
        bind: ([127, 0, 0, 1], 0).into(),
        server: server.address,
        routes: Default::default(),
        link: LinkOptions::default(),
    });
    (server, relay.unwrap())
}

/// The connection that is kept, and how many attempts there were.
fn race(client: &mut Client, relay: &Relay, session: Option<Vec<u8>>) -> (ConnKey, usize) {
    let remotes = [relay.address()];
    let resumption = Resumption {
        session,
        token: None,
    };
    let mut race = Race::begin(client, "localhost", &remotes, DELAY, resumption).unwrap();
    let end = Instant::now() + LIMIT;
    loop {
        if let Some((key, _)) = race.step(client).unwrap() {
            return (key, race.begun());
        }
        assert!(Instant::now() < end, "timed out");
        let wait = race.next_timer().map_or(DELAY, |at| {
            at.saturating_duration_since(Instant::now()).min(DELAY)
        });
        client.poll(Some(wait)).unwrap();
    }
}

/// Our addresses of the paths of a connection, by path ID.
fn paths(client: &Client, key: ConnKey) -> Vec<(u64, IpAddr)> {
    let paths = client.conn(key).unwrap().paths();
    let mut all: Vec<_> = paths.iter().map(|p| (p.path_id, p.local.ip())).collect();
    all.sort();
    all
}

/// The connection count of the server becomes `wanted`.
fn wait_for_connections(client: &mut Client, server: &TestServer, wanted: usize) {
    run(client, |_| {
        server.connections[0].load(Ordering::SeqCst) == wanted
    });
}

#[test]
fn the_faster_link_has_the_handshake_and_the_other_the_second_path() {
    let (_server, relay) = net();
    relay.link(address(1)).set_delay(SLOW);
    let mut client = client("full-mesh");
    let began = Instant::now();
    let (key, attempts) = race(&mut client, &relay, None);
    assert!(began.elapsed() < 2 * SLOW, "{:?}", began.elapsed());
    assert_eq!(attempts, 2);
    assert_eq!(paths(&client, key), [(0, address(2))]);

    run(&mut client, |client| paths(client, key).len() == 2);
    assert_eq!(paths(&client, key), [(0, address(2)), (1, address(1))]);
    run(&mut client, |client| {
        let paths = client.conn(key).unwrap().paths();
        paths.iter().all(|path| path.recv_bytes > 0)
    });
    let outcome = ask(&mut client, key, 1_000_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 1_000_000);
    client.close().unwrap();
}

#[test]
fn the_server_keeps_nothing_of_the_other_attempt() {
    let (server, relay) = net();
    // Both come to the server, and the second is the faster one.
    relay.link(address(1)).set_delay(Duration::from_millis(300));
    let mut client = client("full-mesh");
    let (key, attempts) = race(&mut client, &relay, None);
    assert_eq!((attempts, paths(&client, key)[0].1), (2, address(2)));
    let kept = Instant::now();
    run(&mut client, |_| {
        server.connections[1].load(Ordering::SeqCst) == 2
    });
    wait_for_connections(&mut client, &server, 1);
    // It was told, and did not wait for its idle timeout.
    let idle = TransportSettings::default().idle_timeout;
    assert!(kept.elapsed() < idle, "{:?}", kept.elapsed());
    let outcome = ask(&mut client, key, 100_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 100_000);
    client.close().unwrap();
}

#[test]
fn a_dead_first_link_costs_the_delay() {
    let (_server, relay) = net();
    relay.link(address(1)).set_down(true);
    for policy in ["full-mesh", "backup"] {
        let mut client = client(policy);
        let (key, attempts) = race(&mut client, &relay, None);
        assert_eq!(attempts, 2, "{policy}");
        assert_eq!(paths(&client, key)[0], (0, address(2)), "{policy}");
        client.close().unwrap();
    }
}

/// Where one link carries and the other stands by, the first is not left because it is slow.
#[test]
fn a_policy_of_one_link_at_a_time_prefers_the_first() {
    let (server, relay) = net();
    relay.link(address(1)).set_delay(Duration::from_millis(200));
    relay.link(address(2)).set_delay(Duration::from_millis(300));
    let mut client = client("backup");
    let (key, attempts) = race(&mut client, &relay, None);
    assert_eq!((attempts, paths(&client, key)[0].1), (2, address(1)));
    run(&mut client, |_| {
        server.connections[1].load(Ordering::SeqCst) == 2
    });
    wait_for_connections(&mut client, &server, 1);
    client.close().unwrap();
}

/// One attempt resumes: 0-RTT data could go out there only, and it is not sent twice.
#[test]
fn only_the_first_attempt_resumes() {
    let (_server, relay) = net();
    let mut client = client("full-mesh");
    relay.link(address(2)).set_down(true);
    let (key, _) = race(&mut client, &relay, None);
    run(&mut client, |client| {
        client.conn(key).unwrap().quic.session().is_some()
    });
    let session = client.conn(key).unwrap().quic.session().unwrap().to_vec();
    for (slow, is_resumed) in [(2, true), (1, false)] {
        for last in [1, 2] {
            relay.link(address(last)).set_down(false);
            let delay = if last == slow { SLOW } else { Duration::ZERO };
            relay.link(address(last)).set_delay(delay);
        }
        let (key, _) = race(&mut client, &relay, Some(session.clone()));
        let conn = client.conn(key).unwrap();
        assert_eq!(conn.paths()[0].local.ip(), address(3 - slow));
        assert_eq!(conn.quic.is_resumed(), is_resumed, "slow: {slow}");
        let outcome = ask(&mut client, key, 10_000);
        finish(&mut client, std::slice::from_ref(&outcome));
        assert_intact(&outcome, 10_000);
    }
    client.close().unwrap();
}
