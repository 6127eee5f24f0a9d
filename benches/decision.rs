//! What a decision costs: an ACK of one packet for each controller by number of paths, a scheduler's pick, an ack
//! for the failure detector.

use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use criterion::criterion_group;
use criterion::criterion_main;
use criterion::BenchmarkId;
use criterion::Criterion;
use mpq_decision::cc;
use mpq_decision::cc::Ack;
use mpq_decision::cc::Group;
use mpq_decision::cc::Loss;
use mpq_decision::cc::Options;
use mpq_decision::health::Monitor;
use mpq_decision::health::Params;
use mpq_decision::registry::Rtt;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::Connection;
use mpq_decision::sched::Scheduler;
use mpq_decision::sched::StreamKey;
use mpq_decision::sched::View;
use mpq_decision::PathId;
use mpq_decision::Registry;

const MSS: u64 = 1200;

/// Validated paths with RTTs of 20, 40, 60 ... ms and a window of 100 packets, half of it used.
fn paths(n: u64) -> Registry {
    let mut paths = Registry::new();
    for id in 0..n {
        let path = paths.add(PathId(id), MSS);
        path.validated = true;
        path.rtt = Some(Rtt::first(Duration::from_millis(20 * (id + 1))));
        path.cwnd_bytes = 100 * MSS;
        path.in_flight_bytes = 50 * MSS;
    }
    paths
}

fn controllers(c: &mut Criterion) {
    let mut bench = c.benchmark_group("ack");
    for entry in cc::CONTROLLERS {
        for n in [1, 2, 4, 8] {
            let now = Instant::now();
            let mut paths = paths(n);
            let mut group = Group::new(entry.with_defaults(), Options::default());
            for id in 0..n {
                let id = PathId(id);
                group.on_path_added(now, &mut paths, id, 100 * MSS);
                let loss = Loss {
                    lost_bytes: MSS,
                    lost_packets: 1,
                    newest_lost_sent: now,
                    persistent: false,
                };
                group.on_loss(now, &mut paths, id, &loss);
            }
            // In congestion avoidance, 200 ACKs to a round trip, a queue of 5 ms.
            let mut time = now + Duration::from_millis(100);
            let rtt = Duration::from_millis(20);
            let mut ack = Ack {
                acked_bytes: MSS,
                acked_packets: 1,
                newest_sent: time,
                in_flight_before_bytes: 1 << 40,
                rtt_sample: Some(rtt + Duration::from_millis(5)),
                app_limited: false,
            };
            bench.bench_function(BenchmarkId::new(entry.name, n), |b| {
                b.iter(|| {
                    time += rtt / 200;
                    ack.newest_sent = time - rtt;
                    group.on_ack(time, &mut paths, PathId(0), black_box(&ack))
                })
            });
        }
    }
    bench.finish();
}

fn schedulers(c: &mut Criterion) {
    let mut bench = c.benchmark_group("pick");
    for entry in sched::SCHEDULERS {
        let now = Instant::now();
        let paths = paths(4);
        let connection = Connection {
            unsent_bytes: 1 << 20,
            ..Connection::default()
        };
        let ask = Ask::New {
            stream: StreamKey(0),
        };
        let mut scheduler = (entry.new)();
        bench.bench_function(BenchmarkId::new(entry.name, 4), |b| {
            b.iter(|| scheduler.pick(now, &View::new(black_box(&paths), &connection), &ask))
        });
    }
    bench.finish();
}

fn health(c: &mut Criterion) {
    let start = Instant::now();
    let mut paths = paths(4);
    let mut monitor = Monitor::new(Params::default());
    for id in 0..4 {
        monitor.on_path_added(start, PathId(id));
    }
    let mut now = start;
    c.bench_function("health/sent, acked and timer/4", |b| {
        b.iter(|| {
            now += Duration::from_micros(100);
            monitor.on_sent_eliciting(now, PathId(0));
            monitor.on_ack_progress(now, &mut paths, PathId(0), now);
            monitor.next_timer(black_box(&paths))
        })
    });
}

criterion_group!(benches, controllers, schedulers, health);
criterion_main!(benches);
