//! OTIAS's choices, worked by hand.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use mpq_decision::registry::Rtt;
use mpq_decision::sched::Pick;
use mpq_decision::PathId;

/// A full fast path of 10 ms and 25 kB, a slow one of 300 ms and 12 kB with room.
fn bench(unsent_bytes: u64) -> Bench {
    let mut bench = Bench::new("otias", &[(10, 0), (300, 0)]);
    for (id, cwnd_bytes, in_flight_bytes) in [(0, 25_000, 25_000), (1, 12_000, 0)] {
        let path = bench.path(id);
        path.cwnd_bytes = cwnd_bytes;
        path.in_flight_bytes = in_flight_bytes;
    }
    bench.connection.unsent_bytes = unsent_bytes;
    bench
}

/// A packet is there after 150 ms on the slow path; on the fast one (floor(k / 25000) + 1/2) 10 ms,
/// which is 145 ms below 375,000 bytes and 155 ms from there on.
#[test]
fn the_slow_path_is_for_what_the_fast_one_brings_later() {
    let wait = Pick::Wait {
        on: PathId(0),
        until: None,
    };
    assert_eq!(bench(1).pick(NEW), wait);
    assert_eq!(bench(374_999).pick(NEW), wait);
    assert_eq!(bench(375_000).sends_on(NEW), 1);

    let mut endless = bench(1);
    endless.connection.more_expected = true;
    assert_eq!(endless.sends_on(NEW), 1);
}

/// The same where the slow path's acknowledgments come back on the fast one, after 155 ms: of these, 150 are the way
/// out, and not half.
#[test]
fn the_way_out_is_as_long_whichever_way_acknowledgments_return() {
    let detour = |unsent_bytes| {
        let mut bench = bench(unsent_bytes);
        let slow = bench.path(1);
        slow.way_back = PathId(0);
        slow.rtt = Some(Rtt::first(155 * MS));
        bench
    };
    assert!(matches!(
        detour(1).pick(NEW),
        Pick::Wait { on: PathId(0), .. }
    ));
    assert!(matches!(
        detour(374_999).pick(NEW),
        Pick::Wait { on: PathId(0), .. }
    ));
    assert_eq!(detour(375_000).sends_on(NEW), 1);
}

/// 5 ms on the fast path with room; held for 140 ms by its pacer it is still the first.
#[test]
fn room_and_pacer_count() {
    let mut bench = bench(MSS);
    bench.path(0).in_flight_bytes = 0;
    assert_eq!(bench.sends_on(NEW), 0);
    bench.hold(0, 144);
    assert!(matches!(bench.pick(NEW), Pick::Wait { on, until: Some(_) } if on == PathId(0)));
    bench.hold(0, 146);
    assert_eq!(bench.sends_on(NEW), 1);
}

/// Of several open ones the first to arrive; what nobody acknowledges ends no wait.
#[test]
fn nothing_would_end_the_wait() {
    let mut bench = bench(1);
    bench.path(0).cwnd_bytes = 0;
    bench.path(0).in_flight_bytes = 0;
    assert_eq!(bench.sends_on(NEW), 1);
}
