//! What a decision costs: a scheduler's pick, an ack for the failure detector. Controllers: `benchmarks/controllers`.
//!
//! `ci/bench picks` runs the picks and compares them; `cargo bench -p mpq-decision --bench decision -- NAME` runs one.

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
use mpq_decision::registry::Status;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::Connection;
use mpq_decision::sched::HeadStream;
use mpq_decision::sched::Playback;
use mpq_decision::sched::QoeReport;
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

/// Nothing is known of the stream, and the best path has room.
fn schedulers(c: &mut Criterion) {
    let connection = Connection {
        unsent_bytes: 1 << 20,
        ..Connection::default()
    };
    picks(c, "pick", &paths(4), &connection, Instant::now());
}

/// All that schedulers look at is there: a stream of the middle urgency with an end and a deadline, others before and
/// after it, a viewer whose buffer is low. The best path is full, so that they compare, and the last one is a backup.
fn schedulers_with_a_stream(c: &mut Criterion) {
    let now = Instant::now();
    let mut paths = paths(4);
    for path in 0..4 {
        let path = paths.get_mut(PathId(path)).expect("added above");
        path.delivery_rate_bytes_per_sec = Some(1_000_000);
        path.pacing_rate_bytes_per_sec = Some(4_000_000);
        path.oldest_unacked_eliciting_sent = Some(now);
    }
    let full = paths.get_mut(PathId(0)).expect("added above");
    full.in_flight_bytes = full.cwnd_bytes;
    let backup = paths.get_mut(PathId(3)).expect("added above");
    backup.peer_status = Status::Backup;
    let mut unsent = [0; sched::URGENCIES];
    (unsent[1], unsent[3], unsent[5]) = (10_000, 200_000, 1 << 20);
    let connection = Connection {
        unsent_bytes: unsent.iter().sum(),
        unsent_by_urgency_bytes: unsent,
        flow_control_room_bytes: 1 << 24,
        send_buffer_room_bytes: 1 << 24,
        reassembly_room_bytes: 1 << 24,
        head: Some(HeadStream {
            key: StreamKey(0),
            urgency: 3,
            incremental: false,
            unsent_bytes: 200_000,
            unacked_bytes: 100_000,
            written_bytes: 300_000,
            fin: false,
            announced_bytes: Some(1_000_000),
            deadline: Some(now + Duration::from_millis(500)),
        }),
        sent_bytes: 1 << 24,
        playback: Some(Playback {
            report: QoeReport {
                buffered: Duration::from_millis(800),
                bitrate_bits_per_sec: 4_000_000,
                stalled: false,
            },
            at: now,
        }),
        ..Connection::default()
    };
    picks(c, "pick for a stream", &paths, &connection, now);
}

fn picks(c: &mut Criterion, name: &str, paths: &Registry, connection: &Connection, now: Instant) {
    let mut bench = c.benchmark_group(name);
    for entry in sched::SCHEDULERS {
        let ask = Ask::New {
            stream: StreamKey(0),
        };
        let mut scheduler = sched::by_name(entry.name).unwrap();
        bench.bench_function(BenchmarkId::new(entry.name, 4), |b| {
            b.iter(|| scheduler.pick(now, &View::new(black_box(paths), connection), &ask))
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

criterion_group!(benches, schedulers, schedulers_with_a_stream, health);
criterion_main!(benches);
