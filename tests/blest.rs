//! BLEST's choices, worked by hand.

mod common;

use common::bench::Bench;
use common::MS;
use common::MSS;

use mpq_decision::sched::Event;

/// A full fast path of 10 ms and 20 packets that delivers 10 Mbit/s, a slow one of 300 ms with room.
fn bench() -> Bench {
    let mut bench = Bench::new("blest", &[(10, 0), (300, 100)]);
    let fast = bench.path(0);
    fast.cwnd_bytes = 20 * MSS;
    fast.ssthresh_bytes = 10 * MSS;
    fast.in_flight_bytes = 20 * MSS;
    fast.delivery_rate_bytes_per_sec = Some(1_250_000);
    bench
}

fn waits(bench: &mut Bench, window_bytes: u64) -> bool {
    bench.connection.reassembly_room_bytes = window_bytes;
    bench.waits()
}

#[test]
fn the_window_is_kept_for_what_the_fast_path_can_send() {
    // Reno would send 1,302,000 bytes in 31 round trips, 10 Mbit/s carry 375,000 in 300 ms: 1.2 times
    // that, and the packet.
    let needs = 450_000 + MSS;
    assert!(waits(&mut bench(), needs - 1));
    assert!(!waits(&mut bench(), needs));

    // Nine packets are on the slow path already.
    let mut more = bench();
    more.path(1).in_flight_bytes = 9 * MSS;
    assert!(waits(&mut more, needs + 9 * MSS - 1));
    assert!(!waits(&mut more, needs + 9 * MSS));
}

/// A path that delivers 100 times that is bounded by its window: 1,085 packets, times 1.2.
#[test]
fn growth_is_renos_where_the_rate_allows() {
    let mut bench = bench();
    bench.path(0).delivery_rate_bytes_per_sec = Some(125_000_000);
    assert!(waits(&mut bench, 1_562_400 + MSS - 1));
    bench = self::bench();
    bench.path(0).delivery_rate_bytes_per_sec = Some(125_000_000);
    assert!(!waits(&mut bench, 1_562_400 + MSS));
}

/// 1.2 falls by 0.01 in each round trip of the fast path, to 1 at least, and rises by 0.04 if the
/// window was blocked by the slow path.
#[test]
fn lambda_follows_what_became_of_it() {
    let mut bench = bench();
    let steps = |bench: &mut Bench, n: u32| {
        for _ in 0..n {
            bench.now += 10 * MS;
            waits(bench, 1 << 24);
        }
    };
    waits(&mut bench, 1 << 24);
    steps(&mut bench, 20);
    assert!(waits(&mut bench, 375_000 + MSS - 1));
    assert!(!waits(&mut bench, 375_000 + MSS));

    // The window is blocked, but the oldest packet is on the fast path: the slow one is innocent.
    let blocked = Event::FlowBlocked { stream: None };
    bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 200 * MS);
    bench.path(1).oldest_unacked_eliciting_sent = Some(bench.now - 100 * MS);
    bench.event(&blocked);
    steps(&mut bench, 1);
    assert!(!waits(&mut bench, 375_000 + MSS));

    // 1.04 then.
    bench.path(0).oldest_unacked_eliciting_sent = None;
    bench.event(&blocked);
    steps(&mut bench, 1);
    assert!(waits(&mut bench, 390_000 + MSS - 1));
    assert!(!waits(&mut bench, 390_000 + MSS));
}

#[test]
fn nothing_would_end_the_wait() {
    let mut bench = bench();
    bench.path(0).cwnd_bytes = MSS - 1;
    bench.path(0).in_flight_bytes = 0;
    assert!(!waits(&mut bench, 0));
}
