//! Clients that come back to a server that asks for their address.

mod common;

use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;
use std::time::Instant;

use common::*;
use mpq_driver::facts::Named;
use mpq_driver::facts::Selection;
use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Verify;
use mpq_driver::ListenOptions;
use mpq_driver::TransportSettings;

fn address(last: u8) -> IpAddr {
    [127, 0, 0, last].into()
}

/// What the server sends first to a client at `from` that begins with `token`.
fn first_answer(server: SocketAddr, from: IpAddr, token: &[u8]) -> quiche::Type {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let local = socket.local_addr().unwrap();
    let scid = quiche::ConnectionId::from_ref(&[7; 8]);
    let mut config = TransportSettings::default().to_quiche().unwrap();
    let mut quic = quiche::connect(Some("localhost"), &scid, local, server, &mut config).unwrap();
    if !token.is_empty() {
        quic.set_token(token).unwrap();
    }
    let mut buf = [0; 1500];
    let (len, _) = quic.send(&mut buf).unwrap();
    socket.send_to(&buf[..len], server).unwrap();
    let len = socket.recv(&mut buf).unwrap();
    quiche::Header::from_slice(&mut buf[..len], 8).unwrap().ty
}

#[test]
fn a_token_stands_for_every_address_that_the_connection_had() {
    for remember in [None, Some(Duration::from_secs(60))] {
        let mut server = TestServer::start(ServerOptions {
            options: ListenOptions {
                retry: true,
                remember,
                ..Default::default()
            },
            ..Default::default()
        });
        let mut client = Client::new(ClientSettings {
            verify: Verify::None,
            locals: Selection {
                only: [1, 2].map(|last| Named::Address(address(last))).into(),
                ..Default::default()
            },
            ..Default::default()
        })
        .unwrap();
        let key = client.connect("localhost", server.address, None).unwrap();

        // The server tells of the second address once it is validated.
        let end = Instant::now() + LIMIT;
        let token = loop {
            assert!(
                Instant::now() < end,
                "the second address stands for nothing"
            );
            client.poll(Some(Duration::from_millis(50))).unwrap();
            let conn = client.conn(key).unwrap();
            let token = conn.quic.next_token().unwrap_or_default().to_vec();
            if first_answer(server.address, address(2), &token) == quiche::Type::Initial {
                break token;
            }
        };
        let answer = |last, token: &[u8]| first_answer(server.address, address(last), token);
        assert_eq!(answer(1, &token), quiche::Type::Initial);
        assert_eq!(answer(3, &token), quiche::Type::Retry);
        assert_eq!(answer(1, &[]), quiche::Type::Retry);
        // As one of a server with another key, which is as good as none.
        let mut other = token;
        other[0] ^= 1;
        assert_eq!(answer(1, &other), quiche::Type::Retry);
        client.close().unwrap();
        // It would wait for those that were answered and said nothing.
        server.vanish();
    }
}
