//! ECF's choices, with the numbers of the paper's inequality worked by hand.

mod common;

use common::bench::again;
use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::registry::Rtt;
use mpq_decision::sched::Ask;
use mpq_decision::sched::HeadStream;
use mpq_decision::sched::PathSet;
use mpq_decision::sched::Pick;
use mpq_decision::sched::StreamKey;
use mpq_decision::sched::Why;
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
    bench.waits()
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

/// What a model's window has room for beyond its pace, it does not send in a round trip.
#[test]
fn a_path_carries_no_more_than_its_pace() {
    // 1.25 MB/s are 12500 bytes in 10 ms: (1 + k / 12500) 10 < 300 up to k = 362500.
    for (pace, most) in [(1_250_000, 362_500), (5_000_000, 725_000)] {
        let paced = || {
            let mut bench = bench();
            bench.path(0).pacing_rate_bytes_per_sec = Some(pace);
            bench
        };
        assert!(waits(&mut paced(), most - 1), "{pace}");
        assert!(!waits(&mut paced(), most), "{pace}");
    }
    // Of the slow path in the second line: 240 kB/s are 6000 bytes in 25 ms, so that 12000 take it two
    // flights of 25 ms, which is no sooner than 2 x 10 + delta up to a delta of 30 ms.
    for (delta_ms, wait) in [(6, true), (30, true), (31, false)] {
        let mut bench = self::bench();
        let slow = bench.path(1);
        slow.pacing_rate_bytes_per_sec = Some(240_000);
        slow.rtt = Some(Rtt {
            var: Duration::ZERO,
            ..Rtt::first(25 * MS)
        });
        bench.path(0).rtt.as_mut().unwrap().var = delta_ms * MS;
        assert_eq!(waits(&mut bench, 12_000), wait, "{delta_ms} ms");
    }
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

/// Three paths of 20, 50 and 200 ms; the first two carry 25,000/20 + 62,500/50 = 2,500 bytes in a
/// millisecond, after windows of 87,500: (k + 87,500)/2,500 < 200 up to k = 412,500. The first alone
/// would be left for the third from k = 225,000 on.
#[test]
fn the_faster_paths_share_the_end() {
    let bench = || {
        let mut bench = Bench::new("ecf", &[(20, 0), (50, 0), (200, 0)]);
        for (id, cwnd_bytes) in [(0, 25_000), (1, 62_500), (2, 12_000)] {
            let path = bench.path(id);
            path.rtt.as_mut().unwrap().var = Duration::ZERO;
            path.cwnd_bytes = cwnd_bytes;
            path.in_flight_bytes = if id == 2 { 0 } else { cwnd_bytes };
        }
        bench
    };
    for (unsent, wait) in [(1, true), (412_499, true), (412_500, false)] {
        let mut bench = bench();
        bench.connection.unsent_bytes = unsent;
        let waits = matches!(bench.pick(NEW), Pick::Wait { on, .. } if on == PathId(0));
        assert_eq!(waits, wait, "{unsent}");
    }
    // The second has room, and is used.
    let mut bench = bench();
    bench.path(1).in_flight_bytes = 0;
    bench.connection.unsent_bytes = 224_999;
    assert_eq!(bench.sends_on(NEW), 1);
}

/// Where min-RTT's choice would not be done in time, a slower path with a larger window may: 10
/// packets of 1,200 bytes take 5 flights of 30 ms with two packets, and one of 35 ms with 100.
#[test]
fn every_open_path_is_asked_about() {
    let mut bench = Bench::new("ecf", &[(20, 0), (30, 0), (35, 0)]);
    for (id, cwnd, in_flight) in [(0, 100, 100), (1, 2, 0), (2, 100, 0)] {
        let path = bench.path(id);
        path.rtt.as_mut().unwrap().var = Duration::ZERO;
        (path.cwnd_bytes, path.in_flight_bytes) = (cwnd * MSS, in_flight * MSS);
    }
    // (1 + 1) 20 < 30 does not hold: the second path is taken at once.
    bench.connection.unsent_bytes = 10 * MSS;
    assert_eq!(bench.sends_on(NEW), 1);
    // With delta = 12 ms: 40 < 42, and 5 x 30 >= 40 + 12, but 35 < 52.
    bench.path(0).rtt.as_mut().unwrap().var = 12 * MS;
    assert_eq!(bench.sends_on(NEW), 2);
}

/// The stream that asks, of 100 kB that are not sent yet, and 900 kB of others after it.
fn head(urgency: u8, incremental: bool) -> Bench {
    let mut bench = bench();
    let connection = &mut bench.connection;
    connection.unsent_bytes = 1_000_000;
    connection.unsent_by_urgency_bytes[usize::from(urgency)] = 100_000;
    connection.unsent_by_urgency_bytes[7] += 900_000;
    connection.head = Some(HeadStream {
        key: StreamKey(0),
        urgency,
        incremental,
        unsent_bytes: 100_000,
        unacked_bytes: 0,
        written_bytes: 100_000,
        fin: true,
        announced_bytes: None,
        deadline: None,
    });
    bench
}

#[test]
fn a_stream_waits_and_the_next_one_is_asked_for() {
    // (1 + 100/25) 10 < 300; all of the connection's bytes would not wait.
    assert_eq!(head(3, false).pick(NEW), Pick::Skip);
    let mut all = bench();
    assert!(!waits(&mut all, 1_000_000));

    // In turns with 900 kB of the same urgency.
    let mut turns = head(7, true);
    assert_eq!(turns.sends_on(NEW), 1);
    // Before them, by its ID.
    assert_eq!(head(7, false).pick(NEW), Pick::Skip);

    // Nobody else has anything to send.
    let mut alone = head(3, false);
    alone.connection.unsent_by_urgency_bytes[7] = 0;
    alone.connection.unsent_bytes = 100_000;
    assert!(matches!(alone.pick(NEW), Pick::Wait { .. }));
}

#[test]
fn what_is_more_urgent_counts_as_well() {
    let mut bench = head(3, false);
    bench.connection.unsent_by_urgency_bytes[1] = 624_999;
    assert_eq!(bench.pick(NEW), Pick::Skip);
    let mut bench = head(3, false);
    bench.connection.unsent_by_urgency_bytes[1] = 625_000;
    bench.connection.unsent_bytes += 625_000;
    assert_eq!(bench.sends_on(NEW), 1);
}

#[test]
fn an_announced_end_is_an_end() {
    let announced = |bytes| {
        let mut bench = head(3, false);
        bench.connection.more_expected = true;
        let head = bench.connection.head.as_mut().unwrap();
        head.fin = false;
        head.announced_bytes = bytes;
        bench
    };
    assert_eq!(announced(None).sends_on(NEW), 1);
    // 100,000 are written: 100,000 + 624,999 to be sent.
    assert_eq!(announced(Some(724_999)).pick(NEW), Pick::Skip);
    assert_eq!(announced(Some(725_000)).sends_on(NEW), 1);
}

/// Urgent streams, and those with little left, wait if k / 25,000 + 1 round trips of 10 ms are
/// less than one of the slow path: for 34 ms up to 60,000 bytes. The plain rule has 2 round trips
/// at least, and 34 >= 2 x 10 + delta to hold.
#[test]
fn urgent_and_short_streams_never_take_the_slower_way() {
    let bench = |urgency, unsent_bytes: u64| {
        let mut bench = head(urgency, false);
        bench.path(1).rtt.as_mut().unwrap().smoothed = 34 * MS;
        let connection = &mut bench.connection;
        let head = connection.head.as_mut().unwrap();
        head.unsent_bytes = unsent_bytes;
        connection.unsent_by_urgency_bytes[usize::from(urgency)] = unsent_bytes;
        bench
    };
    for urgency in [0, 1] {
        assert_eq!(bench(urgency, 59_999).pick(NEW), Pick::Skip);
        assert_eq!(bench(urgency, 60_000).sends_on(NEW), 1);
    }
    // 54 packets are left of it, or more.
    assert_eq!(bench(3, 54 * MSS - 5_000).pick(NEW), Pick::Skip);
    let mut long = bench(3, 54 * MSS - 5_000);
    long.connection.head.as_mut().unwrap().fin = false;
    long.connection.head.as_mut().unwrap().announced_bytes = Some(100_000 + 5_001);
    assert_eq!(long.sends_on(NEW), 1);
}

/// The pacer wakes what was skipped.
#[test]
fn a_skipped_stream_is_offered_again() {
    let mut bench = head(3, false);
    assert_eq!((bench.pick(NEW), bench.next_wake()), (Pick::Skip, None));
    bench.path(0).in_flight_bytes -= MSS;
    bench.hold(0, 4);
    bench.connection.unsent_by_urgency_bytes[3] = 20_000;
    bench.connection.head.as_mut().unwrap().unsent_bytes = 20_000;
    let release = Some(bench.now + 4 * MS);
    match bench.pick(NEW) {
        Pick::Skip => assert_eq!(bench.next_wake(), release),
        Pick::Wait { until, .. } => assert_eq!(until, release),
        other => panic!("{other:?}"),
    }
    // No longer than it waits.
    bench.path(0).pacing_release = None;
    assert_eq!((bench.sends_on(NEW), bench.next_wake()), (0, None));
}

/// An equal path with more room is taken, not waited beside.
#[test]
fn no_wait_for_a_path_that_is_open() {
    let mut bench = Bench::new("ecf", &[(20, 10), (21, 50)]);
    bench.connection.unsent_bytes = 1;
    assert_eq!(bench.sends_on(NEW), 1);
}

/// 25 kB in 10 ms are 750 kB in 300, which a window has to have beside nine packets on the slow path
/// and the next one.
#[test]
fn a_small_window_is_not_blocked() {
    let bench = |name| {
        let mut bench = Bench::new(name, &[(10, 0), (300, 0)]);
        for (id, cwnd_bytes, in_flight_bytes) in [(0, 25_000, 25_000), (1, 12_000, 9 * MSS)] {
            let path = bench.path(id);
            path.rtt.as_mut().unwrap().var = Duration::ZERO;
            path.cwnd_bytes = cwnd_bytes;
            path.in_flight_bytes = in_flight_bytes;
        }
        bench.connection.more_expected = true;
        bench
    };
    let needs = 750_000 + 10 * MSS;
    for (window, name, waits) in [
        (needs - 1, "ecf", true),
        (needs, "ecf", false),
        (needs - 1, "ecf:window=off", false),
    ] {
        let mut bench = bench(name);
        bench.connection.reassembly_room_bytes = window;
        let pick = bench.pick(NEW);
        assert_eq!(matches!(pick, Pick::Wait { .. }), waits, "{name}");
    }
}

/// The fast path has 29,000 bytes in flight of a window that was cut to 20,000: it has room for a
/// packet of 1,200 after 10,200/20,000 of 10 ms, and the acknowledgment comes 10 ms later.
#[test]
fn what_was_lost_waits_for_the_fast_path() {
    for name in ["ecf", "blest"] {
        let pick = |slow_us: u64, from: u64, why| {
            let mut bench = Bench::new(name, &[(10, 0), (20, 50)]);
            // The end is near.
            bench.connection.unsent_bytes = 10_000;
            bench.path(0).cwnd_bytes = 20_000;
            bench.path(0).in_flight_bytes = 29_000;
            bench.path(1).rtt = Some(Rtt::first(Duration::from_micros(slow_us)));
            let mut tried = PathSet::default();
            tried.insert(PathId(from));
            bench.pick(Ask::Retransmit {
                stream: StreamKey(0),
                from: PathId(from),
                tried,
                why,
            })
        };
        let wait = Pick::Wait {
            on: PathId(0),
            until: None,
        };
        assert_eq!(pick(15_101, 0, Why::Lost), wait, "{name}");
        assert!(matches!(pick(15_100, 0, Why::Lost), Pick::Send { .. }));
        assert!(matches!(pick(300_000, 0, Why::Moved), Pick::Send { .. }));
        // Of what the slow path lost there may be more than the fast one carries in long.
        assert!(matches!(pick(300_000, 1, Why::Lost), Pick::Send { .. }));
    }
}

/// A fast path that cannot take what it lost, of 20,000 bytes in 10 ms, and a slow one of 20 ms.
#[test]
fn what_was_lost_waits_only_if_something_waits_for_it() {
    let waits = |params: &str, unsent_bytes, window, urgency: Option<u8>| {
        let mut bench = Bench::new(&format!("ecf{params}"), &[(10, 0), (20, 50)]);
        bench.connection.unsent_bytes = unsent_bytes;
        bench.connection.reassembly_room_bytes = window;
        bench.connection.head = urgency.map(|urgency| HeadStream {
            key: StreamKey(0),
            urgency,
            incremental: false,
            unsent_bytes,
            unacked_bytes: 0,
            written_bytes: unsent_bytes,
            fin: true,
            announced_bytes: None,
            deadline: None,
        });
        bench.path(0).cwnd_bytes = 20_000;
        bench.path(0).in_flight_bytes = 29_000;
        bench.path(1).rtt.as_mut().unwrap().var = Duration::ZERO;
        matches!(bench.pick(again(0, Why::Lost)), Pick::Wait { .. })
    };
    let endless = 1 << 40;
    // The end: (k + 20,000) / 2 MB/s < 20 ms.
    assert!(waits("", 19_999, endless, None));
    assert!(!waits("", 20_000, endless, None));
    // The window: 2 MB/s fill 40,000 bytes in 20 ms, and 50 packets and this one are held.
    let held = 51 * MSS;
    assert!(waits("", 1 << 24, held + 39_999, None));
    assert!(!waits("", 1 << 24, held + 40_000, None));
    assert!(!waits(":window=off", 1 << 24, held + 39_999, None));
    // A stream of urgency 1 misses it whatever there is to come.
    assert!(waits("", 1 << 24, endless, Some(1)));
    assert!(!waits("", 1 << 24, endless, Some(2)));
}
