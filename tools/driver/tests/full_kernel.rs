//! The kernel has no room for datagrams: nothing is lost, nothing spins.
//!
//! Loopback alone never fills a socket's buffer, so this test shapes it, in a
//! network namespace of its own. That takes root.

mod common;

use std::process::Command;

use common::*;
use mpq_driver::SocketOptions;
use mpq_driver::TransportSettings;
use nix::sched::unshare;
use nix::sched::CloneFlags;

fn sh(command: &str) {
    let status = Command::new("sh").args(["-c", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

#[test]
#[ignore = "needs root: ci/test net"]
fn netns_a_full_send_buffer_delays_and_loses_nothing() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    // Slower than a sender on any machine, and a queue longer than the socket's
    // buffer: the buffer is what overflows.
    sh("ip link set lo mtu 1500 up");
    sh("tc qdisc add dev lo root tbf rate 8mbit burst 15k limit 20mb");

    // Children of this thread share its namespace.
    let mut server = TestServer::start(ServerOptions {
        sockets: SocketOptions {
            buffer_bytes: 20_000,
            ..Default::default()
        },
        // One that paces by a model of the link would hardly ever fill the buffer.
        transport: TransportSettings {
            congestion_controller: "cubic".into(),
            ..Default::default()
        },
        ..Default::default()
    });
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 2_000_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 2_000_000);
    client.close().unwrap();

    let stats = server.join();
    assert!(stats.blocked > 10, "the buffer was never full: {stats:?}");
    // Spinning would ask again and again per datagram.
    assert!(stats.blocked < stats.datagrams, "{stats:?}");
}
