//! What one acknowledged packet costs in each controller, by number of paths, and in quiche's own Reno and CUBIC:
//! in congestion avoidance, 200 acknowledgments to a round trip of 20 ms, a window of 100 packets that is in use.
//!
//! `ci/bench controllers` runs this and compares; `cargo bench -p mpq-bench-controllers -- NAME` runs one.

use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use criterion::criterion_group;
use criterion::criterion_main;
use criterion::BenchmarkId;
use criterion::Criterion;
use mpq_decision::cc;
use mpq_decision::cc::Ack;
use mpq_decision::cc::Flight;
use mpq_decision::cc::Group;
use mpq_decision::cc::Loss;
use mpq_decision::cc::Options;
use mpq_decision::cc::RateSample;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;
use mpq_decision::Registry;
use quiche::AckBench;

const MSS: u64 = 1200;

const RTT: Duration = Duration::from_millis(20);

/// Between two acknowledgments.
const STEP: Duration = RTT.checked_div(200).unwrap();

/// Validated paths with RTTs of 20, 40, 60 ... ms.
fn registry(paths: u64) -> Registry {
    let mut registry = Registry::new();
    for id in 0..paths {
        let path = registry.add(PathId(id), MSS);
        path.validated = true;
        path.rtt = Some(Rtt::first(RTT * (id as u32 + 1)));
        path.in_flight_bytes = 50 * MSS;
    }
    registry
}

fn ours(c: &mut Criterion) {
    let mut bench = c.benchmark_group("ack");
    for entry in cc::CONTROLLERS {
        for paths in [1, 2, 4, 8] {
            let now = Instant::now();
            let mut registry = registry(paths);
            let mut group = Group::new(entry.with_defaults(), Options::default());
            for id in (0..paths).map(PathId) {
                group.on_path_added(now, &mut registry, id, 100 * MSS);
                // Ends slow start.
                let loss = Loss {
                    lost_bytes: MSS,
                    lost_packets: 1,
                    newest_lost_sent: now,
                    persistent: false,
                };
                group.on_loss(now, &mut registry, id, &loss);
            }
            let mut time = now + 5 * RTT;
            let mut ack = Ack {
                acked_bytes: MSS,
                acked_packets: 1,
                newest_sent: time,
                in_flight_before_bytes: 1 << 40,
                // A queue of 5 ms, for those that look at delay.
                rtt_sample: Some(RTT + Duration::from_millis(5)),
                app_limited: false,
            };
            // For models: 200 packets in a round trip.
            let mut rate = RateSample {
                total_bytes: 200 * MSS,
                prior_bytes: 0,
                interval: RTT,
                newest: Flight {
                    tx_in_flight_bytes: 200 * MSS,
                    packet_bytes: MSS,
                    ..Flight::default()
                },
            };
            bench.bench_function(BenchmarkId::new(entry.name, paths), |b| {
                b.iter(|| {
                    time += STEP;
                    ack.newest_sent = time - RTT;
                    rate.total_bytes += MSS;
                    rate.prior_bytes += MSS;
                    let (ack, rate) = (black_box(&ack), black_box(&rate));
                    match group.is_model() {
                        true => group.on_rated_ack(time, &mut registry, PathId(0), ack, Some(rate)),
                        false => group.on_ack(time, &mut registry, PathId(0), ack),
                    }
                })
            });
        }
    }
    bench.finish();
}

fn quiches(c: &mut Criterion) {
    let mut bench = c.benchmark_group("quiche");
    for name in ["reno", "cubic"] {
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).expect("version 1");
        config.set_cc_algorithm_name(name).expect("quiche's own");
        let mut sender = AckBench::new(&config).expect("a name with windows");
        bench.bench_function(BenchmarkId::new(name, 1), |b| {
            b.iter(|| sender.ack(black_box(STEP)))
        });
    }
    bench.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .without_plots();
    targets = quiches, ours
}
criterion_main!(benches);
