//! ECF's choices, with the numbers of the paper's inequality worked by hand.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::registry::Rtt;
use mpq_decision::sched::Pick;
use mpq_decision::PathId;

/// A full fast path of 10 ms and 25 kB, a slow one of 300 ms and 12 kB with room, no variation.
fn bench() -> Bench {
    let mut bench = Bench::new("ecf", &[(10, 0), (300, 0)]);
    for (id, ms, cwnd_bytes, in_flight_bytes) in [(0, 10, 25_000, 25_000), (1, 300, 12_000, 0)] {
        let path = bench.path(id);
        path.rtt = Some(Rtt {
            var: Duration::ZERO,
            ..Rtt::first(ms * MS)
        });
        path.cwnd_bytes = cwnd_bytes;
        path.in_flight_bytes = in_flight_bytes;
    }
    bench
}

fn waits(bench: &mut Bench, unsent_bytes: u64) -> bool {
    bench.connection.unsent_bytes = unsent_bytes;
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

#[test]
fn waits_while_the_fast_path_is_done_sooner() {
    // (1 + k / 25000) 10 < 300 up to k = 725000.
    assert!(waits(&mut bench(), 724_999));
    assert!(!waits(&mut bench(), 725_000));
    // A window's worth at least: (1 + 1) 10 < 300.
    assert!(waits(&mut bench(), 1));
}

#[test]
fn waiting_is_sticky() {
    // Once it waits, (1 + k / 25000) 10 < (1 + 1/4) 300 up to k = 912500.
    let mut bench = bench();
    assert!(waits(&mut bench, 724_999));
    assert!(waits(&mut bench, 912_499));
    assert!(!waits(&mut bench, 912_500));
    assert!(!waits(&mut bench, 725_000));
    assert!(waits(&mut bench, 724_999));
}

#[test]
fn variation_counts_for_the_slow_path_in_the_first_line_and_against_it_in_the_second() {
    // delta = max(0, 50): (1 + k / 25000) 10 < 350 up to k = 850000.
    let mut bench = bench();
    bench.path(1).rtt.as_mut().unwrap().var = 50 * MS;
    assert!(!waits(&mut bench, 850_000));
    assert!(waits(&mut bench, 849_999));

    // Two windows of 10 ms against one flight of 25 ms, and (1 + 1) 10 < 25 + delta. The second
    // line: 25 >= 2 x 10 + delta up to a delta of 5 ms.
    for (delta_ms, wait) in [(5, true), (6, false)] {
        let mut bench = self::bench();
        bench.path(1).rtt = Some(Rtt {
            var: Duration::ZERO,
            ..Rtt::first(25 * MS)
        });
        bench.path(0).rtt.as_mut().unwrap().var = delta_ms * MS;
        assert_eq!(waits(&mut bench, 12_000), wait, "{delta_ms} ms");
    }
}

#[test]
fn the_pacer_of_the_fast_path_counts() {
    // Held for 90 ms: (1 + k / 25000) 100 < 300 up to k = 50000.
    let mut bench = bench();
    bench.hold(0, 90);
    assert!(waits(&mut bench, 49_999));
    bench = self::bench();
    bench.hold(0, 90);
    assert!(!waits(&mut bench, 50_000));
}

#[test]
fn without_an_end_in_sight_it_is_min_rtt() {
    let mut bench = bench();
    bench.connection.more_expected = true;
    assert!(!waits(&mut bench, 1));
}

#[test]
fn nothing_would_end_the_wait() {
    // The fast path's window is too small for a packet, and nothing is under way.
    let mut bench = bench();
    bench.path(0).cwnd_bytes = MSS - 1;
    bench.path(0).in_flight_bytes = 0;
    assert!(!waits(&mut bench, 724_999));
}

#[test]
fn an_unmeasured_path_gets_its_probe() {
    let mut bench = bench();
    bench.path(1).rtt = None;
    assert!(!waits(&mut bench, 1));
}

#[test]
fn no_arithmetic_ends() {
    let mut bench = bench();
    for id in 0..2 {
        bench.path(id).rtt.as_mut().unwrap().smoothed = Duration::MAX;
        bench.path(id).rtt.as_mut().unwrap().var = Duration::MAX;
        bench.path(id).cwnd_bytes = u64::MAX;
    }
    bench.path(0).in_flight_bytes = u64::MAX;
    bench.connection.unsent_bytes = u64::MAX - 1;
    bench.pick(NEW);
}
