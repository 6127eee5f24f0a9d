//! Client and server over loopback, undisturbed and disturbed.

mod common;

use std::cell::Cell;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::CloseReason;
use mpq_driver::EndpointKey;
use mpq_driver::ListenOptions;
use mpq_driver::SendStats;
use mpq_driver::SocketOptions;
use mpq_driver::TransportSettings;
use mpq_driver::ETHERNET_DATAGRAM_BYTES;
use mpq_driver::MAX_DATAGRAM_BYTES;

fn server() -> TestServer {
    TestServer::start(ServerOptions::default())
}

/// What a server with such sockets sent for a download of 10 MB.
fn ten_megabytes_from(sockets: SocketOptions) -> SendStats {
    let mut server = TestServer::start(ServerOptions {
        sockets,
        ..Default::default()
    });
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 10_000_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 10_000_000);
    client.close().unwrap();
    server.join()
}

#[test]
fn ten_megabytes_arrive_intact() {
    for gso in [true, false] {
        let stats = ten_megabytes_from(SocketOptions {
            gso,
            max_datagram_bytes: ETHERNET_DATAGRAM_BYTES,
            ..Default::default()
        });
        assert!(stats.datagrams > 10_000_000 / 1472);
        if gso {
            assert!(
                stats.sends < stats.datagrams,
                "nothing was sent in a batch: {stats:?}"
            );
        } else {
            assert_eq!(stats.sends, stats.datagrams);
        }
    }
}

#[test]
fn jumbo_frames_where_the_interface_has_them() {
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
    let has_jumbo_frames = mtu.trim().parse::<usize>().unwrap() >= 9000;
    for max_datagram_bytes in [ETHERNET_DATAGRAM_BYTES, MAX_DATAGRAM_BYTES] {
        let stats = ten_megabytes_from(SocketOptions {
            max_datagram_bytes,
            ..Default::default()
        });
        let are_large = stats.datagrams < 10_000_000 / ETHERNET_DATAGRAM_BYTES as u64 / 2;
        let expected = has_jumbo_frames && max_datagram_bytes == MAX_DATAGRAM_BYTES;
        assert_eq!(are_large, expected, "{max_datagram_bytes}: {stats:?}");
    }
}

#[test]
fn fifty_connections_at_once() {
    let server = server();
    let mut client = client(TransportSettings::default());
    let outcomes: Vec<_> = (0..50u64)
        .map(|i| {
            let key = client.connect("localhost", server.address, None).unwrap();
            ask(&mut client, key, 100_000 + i)
        })
        .collect();
    finish(&mut client, &outcomes);
    for (outcome, i) in outcomes.iter().zip(0..) {
        assert_intact(outcome, 100_000 + i);
    }
    client.close().unwrap();
}

#[test]
fn many_requests_on_one_connection() {
    let server = server();
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    // More than the 100 streams that the server allows at a time.
    let outcomes: Vec<_> = (0..250).map(|i| ask(&mut client, key, i * 100)).collect();
    finish(&mut client, &outcomes);
    for (outcome, i) in outcomes.iter().zip(0..) {
        assert_intact(outcome, i * 100);
    }
    client.close().unwrap();
}

#[test]
fn a_slow_reader_gets_everything() {
    let server = server();
    let mut client = client(TransportSettings {
        max_data: 100_000,
        max_stream_data: 50_000,
        ..Default::default()
    });
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 1_000_000);
    let mut naps = 0;
    outcome.borrow_mut().on_body = Some(Box::new(move |_| {
        if naps < 20 {
            naps += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
    }));
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 1_000_000);
    client.close().unwrap();
}

/// A sink that has room for so many bytes at a time.
struct Narrow {
    inner: Collect,
    room: Rc<Cell<usize>>,
}

impl ResponseSink for Narrow {
    fn on_head(&mut self, head: &ResponseHead) -> ControlFlow<()> {
        self.inner.on_head(head)
    }

    fn on_body(&mut self, chunk: &[u8]) -> ControlFlow<()> {
        let left = self.room.get().checked_sub(chunk.len());
        self.room.set(left.expect("more than there is room for"));
        self.inner.on_body(chunk)
    }

    fn room(&self) -> usize {
        self.room.get()
    }

    fn on_end(&mut self, result: Result<(), RequestError>) {
        self.inner.on_end(result);
    }
}

#[test]
fn a_sink_without_room_holds_the_server_back_and_nobody_else() {
    const WINDOW: u64 = 100_000;
    let server = server();
    let mut client = client(TransportSettings {
        max_stream_data: WINDOW,
        ..Default::default()
    });
    let key = client.connect("localhost", server.address, None).unwrap();
    let (held, room) = (Shared::default(), Rc::new(Cell::new(1000)));
    let sink = Narrow {
        inner: Collect(held.clone()),
        room: room.clone(),
    };
    let request = Request {
        method: "GET".into(),
        authority: "localhost".into(),
        path: "/1000000".into(),
        headers: Vec::new(),
    };
    client.request(key, request, Box::new(sink));
    run(&mut client, |_| held.borrow().bytes == 1000);

    // Others go on, and of this one no more than its window has come.
    let other = ask(&mut client, key, 2_000_000);
    finish(&mut client, std::slice::from_ref(&other));
    assert_intact(&other, 2_000_000);
    assert_eq!(held.borrow().bytes, 1000);
    let paths = client.conn(key).unwrap().paths();
    let received: u64 = paths.iter().map(|path| path.recv_bytes).sum();
    assert!(received < 2_000_000 + 2 * WINDOW + 500_000, "{received}");

    while held.borrow().result.is_none() {
        room.set(30_000);
        client.resume(key);
        run(&mut client, |_| {
            room.get() < 30_000 || held.borrow().result.is_some()
        });
    }
    assert_intact(&held, 1_000_000);
    client.close().unwrap();
}

#[test]
fn clients_that_stop_reading_stay_within_the_budget() {
    let budget = quiche::SendBudget::new(1 << 20);
    let server = TestServer::start(ServerOptions {
        transport: TransportSettings {
            send_budget: Some(budget.clone()),
            ..Default::default()
        },
        ..Default::default()
    });

    // Each takes some of an endless body, and nothing more ever.
    let stuck: Vec<_> = (1..=40)
        .map(|n| {
            let mut client = client(TransportSettings::default());
            let key = client.connect("localhost", server.address, None).unwrap();
            let outcome = ask(&mut client, key, 1 << 40);
            run(&mut client, |_| outcome.borrow().bytes > 300_000);
            assert!(budget.held() <= budget.size(), "{budget:?} after {n}");
            (client, outcome)
        })
        .collect();
    assert!(budget.held() > budget.size() / 2, "{budget:?}");
    assert_eq!(budget.holders(), stuck.len());

    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 3_000_000);
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 3_000_000);
    assert!(budget.held() <= budget.size(), "{budget:?}");
    client.close().unwrap();
}

#[test]
fn a_cancelled_request_ends_and_the_connection_goes_on() {
    let server = server();
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let long = common::Shared::default();
    let id = client.request(
        key,
        mpq_driver::h3::client::Request {
            method: "GET".into(),
            authority: "localhost".into(),
            path: "/1000000000".into(),
            headers: Vec::new(),
        },
        Box::new(Collect(long.clone())),
    );
    run(&mut client, |_| long.borrow().bytes > 100_000);
    client.cancel(key, id);
    finish(&mut client, std::slice::from_ref(&long));
    assert!(matches!(
        long.borrow().result,
        Some(Err(RequestError::Cancelled))
    ));

    let next = ask(&mut client, key, 1000);
    finish(&mut client, std::slice::from_ref(&next));
    assert_intact(&next, 1000);
    client.close().unwrap();
}

#[test]
fn a_peer_that_vanishes_is_an_idle_timeout() {
    let mut server = server();
    let mut client = client(TransportSettings {
        idle_timeout: Duration::from_secs(3),
        ..Default::default()
    });
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 1_000_000_000);
    // Where nothing comes for so long of itself, the end is the same.
    run(&mut client, |_| {
        outcome.borrow().bytes > 100_000 || outcome.borrow().result.is_some()
    });
    server.vanish();
    finish(&mut client, std::slice::from_ref(&outcome));
    match &outcome.borrow().result {
        Some(Err(RequestError::Connection(reason))) => assert!(
            matches!(**reason, CloseReason::IdleTimeout { .. }),
            "{reason:?}"
        ),
        other => panic!("{other:?}"),
    };
}

#[test]
fn a_restarted_server_resets_connections_it_does_not_know() {
    let key = EndpointKey::from_bytes([1; 32]);
    let options = || ListenOptions {
        key: key.clone(),
        ..Default::default()
    };
    let mut first = TestServer::start(ServerOptions {
        options: options(),
        ..Default::default()
    });
    let mut client = client(TransportSettings::default());
    let conn = client.connect("localhost", first.address, None).unwrap();
    let outcome = ask(&mut client, conn, 1_000_000_000);
    run(&mut client, |_| outcome.borrow().bytes > 100_000);
    first.vanish();

    let _second = TestServer::start(ServerOptions {
        listen: Some(first.address),
        options: options(),
        ..Default::default()
    });
    // The client has nothing to send by itself while it waits for data.
    client
        .conn_mut(conn)
        .unwrap()
        .quic
        .send_ack_eliciting()
        .unwrap();
    finish(&mut client, std::slice::from_ref(&outcome));
    let reason = client.close_reason(conn).unwrap();
    assert!(matches!(*reason, CloseReason::Reset), "{reason:?}");
}

#[test]
fn nobody_there_is_a_handshake_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut client = client(TransportSettings {
        handshake_timeout: Duration::from_millis(300),
        ..Default::default()
    });
    let peer = silent.local_addr().unwrap();
    let key = client.connect("localhost", peer, None).unwrap();
    let outcome = ask(&mut client, key, 1);
    finish(&mut client, &[outcome]);
    match &*client.close_reason(key).unwrap() {
        CloseReason::HandshakeTimeout { peer: p, after } => {
            assert_eq!(*p, peer);
            assert_eq!(*after, Duration::from_millis(300));
        }
        other => panic!("{other:?}"),
    }

    // A request on a dead connection is told at once.
    let late = ask(&mut client, key, 1);
    assert!(matches!(
        late.borrow().result,
        Some(Err(RequestError::Connection(_)))
    ));
}

#[test]
fn an_unknown_authority_is_a_certificate_error() {
    let server = server();
    let mut client = Client::new(ClientSettings::default()).unwrap();
    let key = client.connect("localhost", server.address, None).unwrap();
    run(&mut client, |client| client.close_reason(key).is_some());
    let reason = client.close_reason(key).unwrap();
    assert!(matches!(*reason, CloseReason::Certificate(_)), "{reason:?}");
}

#[test]
fn garbage_disturbs_neither_side() {
    let server = server();
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let outcome = ask(&mut client, key, 5_000_000);
    run(&mut client, |_| outcome.borrow().bytes > 0);
    let local = client.conn(key).unwrap().paths()[0].local;

    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut state = 1u64;
    for i in 0..2000usize {
        let mut datagram: Vec<u8> = (0..i % 1400)
            .map(|_| {
                // xorshift64: varied, and the same in every run.
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        // Every third looks like an Initial packet of version 1, every third
        // like one of an unknown version.
        if i % 3 < 2 && datagram.len() > 60 {
            let version = if i % 3 == 0 { 1 } else { 0x0a1a_2a3au32 };
            datagram[0] = 0xc0 | datagram[0] & 0x0f;
            datagram[1..5].copy_from_slice(&version.to_be_bytes());
            datagram[5] = 16;
            datagram[22] = 16;
        }
        let to = if i % 2 == 0 { server.address } else { local };
        noise.send_to(&datagram, to).unwrap();
        if i % 50 == 0 {
            client.poll(Some(Duration::ZERO)).unwrap();
        }
    }
    finish(&mut client, std::slice::from_ref(&outcome));
    assert_intact(&outcome, 5_000_000);
    client.close().unwrap();
}

#[test]
fn retry_and_version_negotiation_lead_to_a_connection() {
    let server = TestServer::start(ServerOptions {
        options: ListenOptions {
            retry: true,
            ..Default::default()
        },
        ..Default::default()
    });
    for version in [quiche::PROTOCOL_VERSION, 0xbaba_baba] {
        let mut client = client(TransportSettings {
            version,
            ..Default::default()
        });
        let key = client.connect("localhost", server.address, None).unwrap();
        let outcome = ask(&mut client, key, 10_000);
        finish(&mut client, std::slice::from_ref(&outcome));
        assert_intact(&outcome, 10_000);
        client.close().unwrap();
    }
}

#[test]
fn a_wildcard_server_answers_from_the_address_it_was_asked_at() {
    let server = TestServer::start(ServerOptions {
        listen: Some("0.0.0.0:0".parse().unwrap()),
        ..Default::default()
    });
    for last in [1, 2, 200] {
        let peer: SocketAddr = ([127, 0, 0, last], server.address.port()).into();
        let mut client = client(TransportSettings::default());
        let key = client.connect("localhost", peer, None).unwrap();
        let outcome = ask(&mut client, key, 100_000);
        finish(&mut client, std::slice::from_ref(&outcome));
        assert_intact(&outcome, 100_000);
        assert_eq!(client.conn(key).unwrap().paths()[0].peer, peer);
        client.close().unwrap();
    }
}

#[test]
fn connections_beyond_the_limit_are_refused() {
    let server = TestServer::start(ServerOptions {
        options: ListenOptions {
            max_connections: 1,
            ..Default::default()
        },
        ..Default::default()
    });
    let mut served = client(TransportSettings::default());
    let first = served.connect("localhost", server.address, None).unwrap();
    let a = ask(&mut served, first, 1000);
    finish(&mut served, &[a]);
    let mut refused = client(TransportSettings {
        handshake_timeout: Duration::from_millis(500),
        ..Default::default()
    });
    let second = refused.connect("localhost", server.address, None).unwrap();
    let b = ask(&mut refused, second, 1000);
    finish(&mut refused, &[b]);
    assert!(matches!(
        *refused.close_reason(second).unwrap(),
        CloseReason::HandshakeTimeout { .. }
    ));
    // The first one's is not taken away, and goes on.
    let more = ask(&mut served, first, 1000);
    finish(&mut served, std::slice::from_ref(&more));
    assert_intact(&more, 1000);
    served.close().unwrap();
}

#[test]
fn stopping_lets_running_responses_finish() {
    let mut server = server();
    let mut client = client(TransportSettings::default());
    let key = client.connect("localhost", server.address, None).unwrap();
    let running = ask(&mut client, key, 20_000_000);
    run(&mut client, |_| running.borrow().bytes > 100_000);
    server.stop();
    finish(&mut client, std::slice::from_ref(&running));
    assert_intact(&running, 20_000_000);

    run(&mut client, |client| client.close_reason(key).is_some());
    let reason = client.close_reason(key).unwrap();
    assert!(reason.is_clean(), "{reason:?}");
    assert!(
        matches!(&*reason, CloseReason::ByPeer { app: true, code: 0x100, reason }
            if reason == "server stopping"),
        "{reason:?}"
    );
    server.join();
}
