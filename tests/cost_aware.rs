//! When metered paths help out, worked by hand.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use mpq_decision::health::Health;
use mpq_decision::registry::Status;
use mpq_decision::sched::HeadStream;
use mpq_decision::sched::Moment;
use mpq_decision::sched::Pick;
use mpq_decision::sched::StreamKey;
use mpq_decision::PathId;

/// A full free path that delivers 8 Mbit/s, and a backup path with room. 900 kB shall be there in
/// two seconds.
fn bench(name: &str) -> Bench {
    let mut bench = Bench::new(name, &[(20, 0), (40, 100)]);
    bench.path(0).delivery_rate_bytes_per_sec = Some(1_000_000);
    bench.path(1).peer_status = Status::Backup;
    bench.connection.head = Some(HeadStream {
        key: StreamKey(0),
        urgency: 3,
        incremental: true,
        unsent_bytes: 900_000,
        unacked_bytes: 0,
        written_bytes: 900_000,
        fin: true,
        announced_bytes: None,
        deadline: Some(bench.now + 2000 * MS),
    });
    bench.connection.unsent_bytes = 900_000;
    bench.connection.unsent_by_urgency_bytes[3] = 900_000;
    bench
}

fn is_spared(bench: &mut Bench) -> bool {
    match bench.pick(NEW) {
        Pick::Wait { on, .. } => {
            assert_eq!(on, PathId(0));
            true
        }
        Pick::Send { path, .. } => {
            assert_eq!(path, PathId(1));
            false
        }
        other => panic!("{other:?}"),
    }
}

fn left(bench: &mut Bench, bytes: u64) {
    bench.connection.head.as_mut().unwrap().unsent_bytes = bytes;
}

/// After one sample half of it is sure: 500 kB/s x 0.9 x 2 s.
#[test]
fn only_the_deadline_brings_the_metered_path_in() {
    let mut bench = bench("cost-aware");
    left(&mut bench, 899_999);
    assert!(is_spared(&mut bench));
    left(&mut bench, 900_000);
    assert!(!is_spared(&mut bench));

    let mut all = self::bench("cost-aware:alpha=1");
    left(&mut all, 999_999);
    assert!(is_spared(&mut all));
    left(&mut all, 1_000_000);
    assert!(!is_spared(&mut all));
}

/// Samples that agree let the deviation fall to nothing: 1 MB/s x 0.9 x 1 s.
#[test]
fn a_steady_rate_is_trusted() {
    let mut bench = bench("cost-aware");
    left(&mut bench, 1);
    for _ in 0..100 {
        bench.now += 50 * MS;
        bench.connection.head.as_mut().unwrap().deadline = Some(bench.now + 1000 * MS);
        is_spared(&mut bench);
    }
    for (bytes, spared) in [(899_000, true), (900_001, false)] {
        left(&mut bench, bytes);
        bench.connection.head.as_mut().unwrap().deadline = Some(bench.now + 1000 * MS);
        assert_eq!(is_spared(&mut bench), spared, "{bytes}");
    }
}

/// On at once, off after three ticks of 50 ms.
#[test]
fn it_does_not_flap() {
    let mut bench = bench("cost-aware");
    assert!(!is_spared(&mut bench));
    left(&mut bench, 1);
    let mut spared = Vec::new();
    for _ in 0..8 {
        spared.push(is_spared(&mut bench));
        bench.now += 25 * MS;
    }
    assert_eq!(spared.iter().filter(|spared| !**spared).count(), 6);
    assert!(spared[6]);
}

#[test]
fn what_is_announced_counts() {
    let mut bench = bench("cost-aware");
    left(&mut bench, 100_000);
    assert!(is_spared(&mut bench));
    let head = bench.connection.head.as_mut().unwrap();
    (head.fin, head.announced_bytes) = (false, Some(1_700_000));
    assert!(!is_spared(&mut bench));
}

#[test]
fn without_a_deadline_it_is_as_it_was_chosen() {
    for (name, spared) in [
        ("cost-aware", true),
        ("cost-aware:without-deadline=use", false),
    ] {
        let mut bench = bench(name);
        bench.connection.head.as_mut().unwrap().deadline = None;
        assert_eq!(is_spared(&mut bench), spared, "{name}");
        bench.connection.head = None;
        assert_eq!(is_spared(&mut bench), spared, "{name}");
    }
}

#[test]
fn free_paths_come_first_and_a_dead_one_leaves_the_metered_one() {
    // Needed, of less RTT, and yet second.
    let mut bench = bench("cost-aware");
    bench.path(0).in_flight_bytes = 0;
    bench.path(1).rtt.as_mut().unwrap().smoothed = 5 * MS;
    assert_eq!(bench.sends_on(NEW), 0);
    // Copies stay off it.
    assert_eq!(bench.copies(1, 0, Moment::NothingNew), None);

    left(&mut bench, 1);
    bench.path(0).health = Health::Failed;
    assert_eq!(bench.sends_on(NEW), 1);

    // Neither has room: the pacer that is free first ends the wait.
    let mut bench = self::bench("cost-aware");
    bench.hold(1, 7);
    let until = Some(bench.now + 7 * MS);
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until
        }
    );
    bench.path(0).in_flight_bytes = 99 * MSS;
    bench.hold(0, 3);
    let until = Some(bench.now + 3 * MS);
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until
        }
    );
}
