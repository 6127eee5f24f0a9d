//! What a decision costs: a scheduler's pick, an ack for the failure detector. Controllers: `benchmarks/controllers`.

use std::hint::black_box;
use std::time::Duration;
use std::time::Instant;

use criterion::criterion_group;
use criterion::criterion_main;
use criterion::BenchmarkId;
use criterion::Criterion;
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
        let mut scheduler = sched::by_name(entry.name).unwrap();
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

criterion_group!(benches, schedulers, health);
criterion_main!(benches);
