//! What the end of a path costs: the data that was on its way moves to another one, and path IDs come and go. Time per
//! byte, and per path, has to stay the same however much there is and was.
//!
//! `cargo bench -p mpq-sim --bench paths`

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use criterion::criterion_group;
use criterion::criterion_main;
use criterion::BatchSize;
use criterion::BenchmarkId;
use criterion::Criterion;
use criterion::Throughput;
use quiche::test_utils::Pipe;
use quiche::ConnectionId;
use quiche::PathEvent;
use quiche::PathStatus;

const PAYLOAD: usize = 1350;

const MB: usize = 1_000_000;

/// The certificate that quiche's own tests use.
const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vendor/quiche/examples");

/// A client and a server with a spare connection ID for each path ID, in virtual time.
struct Pair {
    pipe: Pipe,
    now: Instant,
    cids: u64,
}

impl Pair {
    fn new(window_packets: usize) -> Pair {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config
            .load_cert_chain_from_pem_file(&format!("{CERTIFICATES}/cert.crt"))
            .unwrap();
        config
            .load_priv_key_from_pem_file(&format!("{CERTIFICATES}/cert.key"))
            .unwrap();
        config.set_application_protos(&[b"bench"]).unwrap();
        config.verify_peer(false);
        config.set_initial_max_path_id(7).unwrap();
        config.set_active_connection_id_limit(4);
        config.set_initial_max_data(1 << 30);
        config.set_initial_max_stream_data_bidi_local(1 << 30);
        config.set_initial_max_stream_data_bidi_remote(1 << 30);
        config.set_initial_max_streams_bidi(1);
        config.set_max_send_udp_payload_size(PAYLOAD);
        config.set_max_recv_udp_payload_size(PAYLOAD);
        config.set_initial_congestion_window_packets(window_packets);
        config.enable_pacing(false);
        config.set_cc_algorithm_name("uncoupled-cubic").unwrap();

        let now = Instant::now();
        quiche::clock::set(Some(now));
        let mut pair = Pair {
            pipe: Pipe::with_config(&mut config).unwrap(),
            now,
            cids: 0,
        };
        pair.pipe.handshake().unwrap();
        pair.settle();
        pair
    }

    /// Lets both ends say all that they have to say now.
    fn settle(&mut self) {
        for conn in [&mut self.pipe.client, &mut self.pipe.server] {
            let lacking: Vec<u64> = conn.path_ids_lacking_scids().collect();
            for path_id in lacking {
                self.cids += 1;
                let mut cid = [0; 16];
                cid[..8].copy_from_slice(&self.cids.to_be_bytes());
                let cid = ConnectionId::from_ref(&cid);
                let token = u128::from(self.cids);
                conn.new_scid_on_path(path_id, &cid, token, false).unwrap();
            }
        }
        self.pipe.advance().unwrap();
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        quiche::clock::set(Some(self.now));
        for conn in [&mut self.pipe.client, &mut self.pipe.server] {
            if conn.timeout_instant().is_some_and(|at| at <= self.now) {
                conn.on_timeout();
            }
        }
        self.settle();
    }

    /// A round trip of 1 ms: what the server has to send, and what the client says to that.
    fn exchange(&mut self) {
        self.now += Duration::from_millis(1);
        quiche::clock::set(Some(self.now));
        let Pipe { client, server, .. } = &mut self.pipe;
        deliver(self.now, server, client);
        deliver(self.now, client, server);
    }

    fn open(&mut self, port: u16) -> u64 {
        let local = SocketAddr::from(([127, 0, 0, 2], port));
        let path_id = loop {
            match self.pipe.client.open_path(local, Pipe::server_addr()) {
                Ok(path_id) => break path_id,
                // Those of closed paths are free again when late packets no longer matter.
                Err(_) => self.wait(Duration::from_millis(100)),
            }
        };
        self.wait(Duration::from_millis(1));
        while let Some(event) = self.pipe.client.path_event_next() {
            assert!(!matches!(event, PathEvent::FailedValidation(..)));
        }
        while self.pipe.server.path_event_next().is_some() {}
        path_id
    }
}

/// Gives the peer all that `from` has to send now.
fn deliver(now: Instant, from: &mut quiche::Connection, peer: &mut quiche::Connection) {
    if from.timeout_instant().is_some_and(|at| at <= now) {
        from.on_timeout();
    }
    let mut packet = [0; PAYLOAD];
    while let Ok((len, info)) = from.send(&mut packet) {
        let info = quiche::RecvInfo {
            from: info.from,
            to: info.to,
        };
        peer.recv(&mut packet[..len], info).unwrap();
    }
}

/// A server that has so many bytes in flight on path ID 0, and path ID 1 for when that ends.
fn in_flight(bytes: usize) -> Pair {
    let mut pair = Pair::new(bytes / 1000);
    let spare = pair.open(1);
    for conn in [&mut pair.pipe.client, &mut pair.pipe.server] {
        conn.set_path_status(spare, PathStatus::Backup).unwrap();
    }
    pair.pipe.client.stream_send(0, b"?", true).unwrap();
    pair.settle();

    let server = &mut pair.pipe.server;
    let (data, mut packet) = (vec![0; MB], [0; PAYLOAD]);
    let mut sent = 0;
    while sent < bytes {
        sent += server
            .stream_send(0, &data[..data.len().min(bytes - sent)], false)
            .unwrap();
        while server.send(&mut packet).is_ok() {}
    }
    let on_its_way: usize = server.path_stats().map(|s| s.sent_bytes as usize).sum();
    assert!(on_its_way > bytes);
    pair
}

/// All that was in flight goes out again on the other path.
fn fail_over(pair: &mut Pair) -> usize {
    let server = &mut pair.pipe.server;
    server.abandon_path(0, 0).unwrap();
    let (mut packet, mut sent) = ([0; PAYLOAD], 0);
    while let Ok((len, _)) = server.send(&mut packet) {
        sent += len;
    }
    sent
}

fn failure(c: &mut Criterion) {
    let mut bench = c.benchmark_group("failure");
    bench.sample_size(10);
    for megabytes in [4, 8, 16, 32, 64] {
        let bytes = megabytes * MB;
        assert!(
            fail_over(&mut in_flight(bytes)) > bytes,
            "not all of {megabytes} MB moved"
        );
        bench.throughput(Throughput::Bytes(bytes as u64));
        bench.bench_function(
            BenchmarkId::from_parameter(format!("{megabytes} MB")),
            |b| b.iter_batched_ref(|| in_flight(bytes), fail_over, BatchSize::PerIteration),
        );
    }
}

fn churn(c: &mut Criterion) {
    let mut bench = c.benchmark_group("a path opened and abandoned");
    for before in [10, 100, 1000] {
        let mut pair = Pair::new(10);
        let mut port = 0;
        let mut one = |pair: &mut Pair| {
            port = port % 60_000 + 1;
            let path_id = pair.open(port);
            pair.pipe.client.abandon_path(path_id, 0).unwrap();
            pair.wait(Duration::from_millis(1));
        };
        for _ in 0..before {
            one(&mut pair);
        }
        bench.bench_function(
            BenchmarkId::from_parameter(format!("after {before} others")),
            |b| b.iter(|| one(&mut pair)),
        );
    }
}

/// Packets on path ID 0, both ways, while there are so many paths in all: data one way, acknowledgments the other.
fn beside(c: &mut Criterion) {
    let mut bench = c.benchmark_group("1 MB on one path");
    bench.throughput(Throughput::Bytes(MB as u64));
    for paths in [1, 2, 4, 8] {
        let mut pair = Pair::new(2 * MB / PAYLOAD);
        for port in 1..paths {
            let spare = pair.open(port);
            for conn in [&mut pair.pipe.client, &mut pair.pipe.server] {
                conn.set_path_status(spare, PathStatus::Backup).unwrap();
            }
        }
        pair.pipe.client.stream_send(0, b"?", true).unwrap();
        pair.settle();
        let (data, mut read) = (vec![0; MB], vec![0; MB]);
        let mut one = |pair: &mut Pair| {
            assert_eq!(pair.pipe.server.stream_send(0, &data, false), Ok(MB));
            let mut got = 0;
            while got < MB {
                pair.exchange();
                while let Ok((len, _)) = pair.pipe.client.stream_recv(0, &mut read) {
                    got += len;
                }
            }
        };
        for _ in 0..20 {
            one(&mut pair);
        }
        bench.bench_function(BenchmarkId::from_parameter(format!("of {paths}")), |b| {
            b.iter(|| one(&mut pair))
        });
        let idle: Vec<_> = pair
            .pipe
            .server
            .path_stats()
            .filter(|path| path.path_id != 0)
            .collect();
        assert_eq!(idle.len(), usize::from(paths) - 1);
        assert!(
            idle.iter()
                .map(|path| path.sent_bytes as usize)
                .sum::<usize>()
                < MB
        );
    }
}

criterion_group!(benches, failure, churn, beside);
criterion_main!(benches);
