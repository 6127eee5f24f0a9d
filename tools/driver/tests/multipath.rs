//! Several paths over loopback, whose addresses 127.0.0.0/8 are all local.

mod common;

use std::net::IpAddr;

use common::*;
use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_driver::facts::Named;
use mpq_driver::facts::Selection;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Verify;
use mpq_driver::PathChange;

fn address(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

fn client(locals: &[IpAddr]) -> Client {
    Client::new(ClientSettings {
        verify: Verify::None,
        locals: Selection {
            only: locals.iter().copied().map(Named::Address).collect(),
            ..Default::default()
        },
        ..Default::default()
    })
    .unwrap()
}

/// Polls until a path change matches.
fn wait_for(client: &mut Client, wanted: impl Fn(&PathChange) -> bool) {
    let end = std::time::Instant::now() + LIMIT;
    loop {
        assert!(std::time::Instant::now() < end, "timed out");
        client
            .poll(Some(std::time::Duration::from_millis(50)))
            .unwrap();
        if client.take_path_changes().iter().any(|(_, c)| wanted(c)) {
            return;
        }
    }
}

#[test]
fn every_local_address_gets_a_path() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = client(&[address(1), address(2), address(3)]);
    let key = client.connect("localhost", server.address, None).unwrap();
    let mut missing = vec![1, 2];
    let end = std::time::Instant::now() + LIMIT;
    while !missing.is_empty() {
        assert!(std::time::Instant::now() < end, "never: {missing:?}");
        client
            .poll(Some(std::time::Duration::from_millis(50)))
            .unwrap();
        for (_, change) in client.take_path_changes() {
            if let PathChange::Available { path_id, .. } = change {
                missing.retain(|id| *id != path_id);
            }
        }
    }

    let mut ips: Vec<_> = client
        .conn(key)
        .unwrap()
        .paths()
        .iter()
        .map(|path| path.local.ip())
        .collect();
    ips.sort();
    assert_eq!(ips, [address(1), address(2), address(3)]);
    assert_eq!(client.conn(key).unwrap().unused_paths(), []);

    let outcome = ask(&mut client, key, 10_000_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 10_000_000);
    client.close().unwrap();
}

#[test]
fn a_download_survives_the_loss_of_its_first_address() {
    let server = TestServer::start(ServerOptions::default());
    let mut client = client(&[address(1), address(2)]);
    let key = client.connect("localhost", server.address, None).unwrap();
    wait_for(&mut client, |change| {
        matches!(change, PathChange::Available { path_id: 1, .. })
    });

    let outcome = ask(&mut client, key, 100_000_000);
    run(&mut client, |_| outcome.borrow().bytes > 1_000_000);
    let if_index = nix::net::if_::if_nametoindex("lo").unwrap();
    let ip = address(1);
    client.tell(key, Event::LocalGone(Local { if_index, ip }));
    wait_for(&mut client, |change| {
        matches!(change, PathChange::Abandoned { path_id: 0, .. })
    });
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 100_000_000);

    // What comes after the abandon can only have used the second path.
    let second = |client: &Client| {
        let paths = client.conn(key).unwrap().paths();
        paths.iter().find(|p| p.path_id == 1).unwrap().recv_bytes
    };
    let before = second(&client);
    let next = ask(&mut client, key, 1_000_000);
    finish(&mut client, std::slice::from_ref(&next));
    assert_intact(&next, 1_000_000);
    assert!(second(&client) - before > 1_000_000);
    client.close().unwrap();
}

/// A host as the server names it: by a name that has to be resolved, by an address, or itself.
#[test]
fn an_alternative_of_the_server_gets_a_path() {
    for host in ["localhost", "127.0.0.1", ""] {
        let server = TestServer::start(ServerOptions {
            alternative_at: Some(host),
            ..Default::default()
        });
        let mut client = Client::new(ClientSettings {
            verify: Verify::None,
            locals: Selection {
                only: vec![Named::Address(address(1))],
                ..Default::default()
            },
            paths: "full-mesh:per-interface=2".parse().unwrap(),
            ..Default::default()
        })
        .unwrap();
        let key = client.connect("localhost", server.address, None).unwrap();
        let outcome = ask(&mut client, key, 1000);
        wait_for(&mut client, |change| {
            matches!(change, PathChange::Available { path_id: 1, .. })
        });
        finish(&mut client, std::slice::from_ref(&outcome));
        assert_intact(&outcome, 1000);

        let paths = client.conn(key).unwrap().paths();
        assert_eq!(paths.len(), 2, "{host}");
        assert_eq!(paths[0].peer, server.address);
        assert_eq!(paths[1].peer.ip(), address(1));
        assert_ne!(paths[1].peer.port(), server.address.port(), "{host}");
        client.close().unwrap();
    }
}
