//! Links between sockets of this process.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;
use std::time::Instant;

use mpq_relay::LinkOptions;
use mpq_relay::Options;
use mpq_relay::Relay;

/// What comes, comes within this.
const LIMIT: Duration = Duration::from_secs(60);

fn socket(last: u8) -> UdpSocket {
    let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket
}

/// A relay to the socket that is returned too.
fn relay(link: LinkOptions) -> (Relay, UdpSocket) {
    let server = socket(1);
    let relay = Relay::start(Options {
        bind: ([127, 0, 0, 9], 0).into(),
        server: server.local_addr().unwrap(),
        routes: Default::default(),
        link,
    });
    (relay.unwrap(), server)
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buf = [0; 65536];
    let (len, from) = socket.recv_from(&mut buf).unwrap();
    (buf[..len].to_vec(), from)
}

#[test]
fn each_client_address_has_a_link_of_its_own() {
    let (relay, server) = relay(LinkOptions::default());
    for last in [2, 3] {
        let client = socket(last);
        client.send_to(&[last; 100], relay.address()).unwrap();
        let (data, from) = receive(&server);
        assert_eq!(data, [last; 100]);
        assert_eq!(from.ip(), client.local_addr().unwrap().ip());
        server.send_to(&[last; 200], from).unwrap();
        assert_eq!(receive(&client), (vec![last; 200], relay.address()));
        let link = relay.link(from.ip());
        assert_eq!((link.delivered_up(), link.delivered()), (100, 200));
    }
    assert_eq!(relay.links().len(), 2);
}

#[test]
fn a_route_leads_to_another_server() {
    let (one, other) = (socket(1), socket(2));
    let client = socket(3);
    let relay = Relay::start(Options {
        bind: ([127, 0, 0, 9], 0).into(),
        server: one.local_addr().unwrap(),
        routes: [([127, 0, 0, 3].into(), other.local_addr().unwrap())].into(),
        link: LinkOptions::default(),
    })
    .unwrap();
    client.send_to(b"there", relay.address()).unwrap();
    assert_eq!(receive(&other).0, b"there");
}

#[test]
fn a_rate_is_kept_and_a_full_queue_drops() {
    let (relay, server) = relay(LinkOptions {
        bytes_per_second: Some(10_000),
        queue_bytes: 5_000,
        ..LinkOptions::default()
    });
    let client = socket(2);
    let link = relay.link(client.local_addr().unwrap().ip());
    let began = Instant::now();
    for _ in 0..40 {
        client.send_to(&[0; 1000], relay.address()).unwrap();
    }
    let mut arrived = 0;
    while arrived == 0 || arrived + link.dropped() < 40 {
        receive(&server);
        arrived += 1;
        // 100 ms each.
        assert!(began.elapsed() >= Duration::from_millis(100) * arrived as u32);
    }
    assert!(arrived >= 5, "{arrived}");
    assert!(link.dropped() > 0);
}

#[test]
fn a_delay_is_kept() {
    let (relay, server) = relay(LinkOptions {
        delay: Duration::from_millis(30),
        ..LinkOptions::default()
    });
    let began = Instant::now();
    socket(2).send_to(b"late", relay.address()).unwrap();
    receive(&server);
    assert!(began.elapsed() >= Duration::from_millis(30));
}

#[test]
fn one_in_so_many_is_dropped() {
    let (relay, server) = relay(LinkOptions {
        drop_one_in: Some(3),
        ..LinkOptions::default()
    });
    let client = socket(2);
    // The last one arrives, and so all before it have been looked at.
    for n in 1..=31 {
        client.send_to(&[n], relay.address()).unwrap();
    }
    let arrived: Vec<u8> = (0..21).map(|_| receive(&server).0[0]).collect();
    assert_eq!(arrived, (1..=31).filter(|n| n % 3 != 0).collect::<Vec<_>>());
    assert_eq!(relay.dropped(), 10);
}

#[test]
fn a_link_goes_down_and_gets_a_new_port() {
    let (relay, server) = relay(LinkOptions::default());
    let client = socket(2);
    let link = relay.link(client.local_addr().unwrap().ip());
    let send = |data: &[u8]| client.send_to(data, relay.address()).unwrap();

    send(b"first");
    let (_, before) = receive(&server);
    link.set_max_datagram(10);
    send(b"more than ten bytes");
    link.rebind();
    send(b"second");
    let (data, after) = receive(&server);
    assert_eq!(data, b"second");
    assert_ne!(before.port(), after.port());
    assert!(!link.is_rebinding());
    assert_eq!(link.too_large(), 1);

    link.set_down(true);
    server.send_to(b"lost", after).unwrap();
    let end = Instant::now() + LIMIT;
    while link.dropped() == 0 {
        assert!(Instant::now() < end, "it passes");
    }
    link.set_down(false);
    server.send_to(b"found", after).unwrap();
    assert_eq!(receive(&client).0, b"found");
}

#[test]
fn a_mute_link_carries_what_goes_to_the_server() {
    let (relay, server) = relay(LinkOptions::default());
    let client = socket(2);
    let link = relay.link(client.local_addr().unwrap().ip());
    link.set_mute(true);
    client.send_to(b"up", relay.address()).unwrap();
    let (data, from) = receive(&server);
    assert_eq!(data, b"up");
    server.send_to(b"lost", from).unwrap();
    let end = Instant::now() + LIMIT;
    while link.dropped() == 0 {
        assert!(Instant::now() < end, "nothing is dropped");
        std::thread::yield_now();
    }
    link.set_mute(false);
    server.send_to(b"down", from).unwrap();
    assert_eq!(receive(&client).0, b"down");
}
