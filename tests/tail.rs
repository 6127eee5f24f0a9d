//! Which copies of the tail are worth sending, with numbers worked by hand.

mod common;

use common::bench::Bench;
use common::MS;
use common::MSS;

use mpq_decision::health::Health;
use mpq_decision::registry::Status;
use mpq_decision::sched;

/// RTT 20 ms and nothing in flight; RTT 100 ms and 60 packets (72,000 bytes) in flight.
fn bench(name: &str) -> Bench {
    let mut bench = Bench::new(name, &[(20, 100), (100, 40)]);
    bench.connection.unsent_bytes = 0;
    bench
}

/// How long ago the oldest packet was sent that path 0 shall copy from path 1, in milliseconds.
fn age_ms(bench: &mut Bench) -> Option<u128> {
    let order = bench.duplicate(0, 1)?;
    Some((bench.now - order.sent_after?).as_millis())
}

/// A copy is acknowledged in 20 ms and must gain 5 ms; the original is, 100 ms after it was sent.
#[test]
fn what_the_other_path_delivers_sooner() {
    for name in ["min-rtt", "ecf"] {
        let mut bench = bench(name);
        assert_eq!(age_ms(&mut bench), Some(100 - 25));
        assert_eq!(bench.duplicate(1, 0), None);

        // The pacer's delay counts.
        bench.hold(0, 10);
        assert_eq!(age_ms(&mut bench), Some(100 - 35));
    }
}

/// With a viewer, tails have a quarter of the budget of `xlink`: 100 of 400 packets, and what comes in later.
#[test]
fn a_viewer_leaves_tails_a_quarter_of_the_budget() {
    for (name, left_ms, copied_packets, tails) in [
        ("xlink", Some(500), 100, true),
        ("xlink", Some(500), 101, false),
        ("xlink", Some(60_000), 100, true),
        ("xlink", Some(60_000), 101, false),
        ("xlink:burst=0", Some(500), 0, false),
        ("xlink", None, 101, true),
    ] {
        let mut bench = bench(name);
        bench.connection.playback = left_ms.map(|left_ms| sched::Playback {
            report: sched::QoeReport {
                buffered: MS * left_ms,
                bitrate_bits_per_sec: 0,
                stalled: false,
            },
            at: bench.now,
        });
        // For the other limit of tails, a twentieth.
        bench.connection.sent_bytes = 20 * copied_packets * MSS;
        bench.duplicate(0, 1);
        bench.connection.copied_bytes += copied_packets * MSS;
        assert_eq!(
            bench.duplicate(0, 1).is_some(),
            tails,
            "{name} {left_ms:?} {copied_packets}"
        );
    }
}

#[test]
fn nothing_is_gained_between_equal_paths() {
    let mut bench = Bench::new("min-rtt", &[(20, 100), (24, 40)]);
    assert_eq!(bench.duplicate(0, 1), None);

    // From 25 ms on it could be, for a packet that is sent right now.
    bench = Bench::new("min-rtt", &[(20, 100), (25, 40)]);
    assert_eq!(age_ms(&mut bench), Some(0));
    bench = Bench::new("min-rtt", &[(20, 100), (26, 40)]);
    assert_eq!(age_ms(&mut bench), Some(1));
}

/// 72,000 bytes at 240,000 bytes per second take 300 ms.
#[test]
fn the_queue_counts_where_samples_lag() {
    let mut bench = bench("min-rtt");
    bench.path(1).delivery_rate_bytes_per_sec = Some(240_000);
    assert_eq!(age_ms(&mut bench), Some(300 - 25));

    bench.path(1).rtt.as_mut().unwrap().latest = MS * 350;
    assert_eq!(age_ms(&mut bench), Some(350 - 25));

    let now = bench.now;
    bench.path(1).oldest_unacked_eliciting_sent = Some(now - MS * 400);
    assert_eq!(age_ms(&mut bench), Some(400 - 25));
}

/// A path whose latest RTT is more than a quarter above the least holds 1,200,000 bytes per second
/// times 20 ms, 20 packets, without a queue, and ten if its rate is unknown.
#[test]
fn a_copy_waits_in_no_queue() {
    let mut bench = bench("min-rtt");
    bench.path(0).in_flight_bytes = 50 * MSS;
    bench.path(0).rtt.as_mut().unwrap().latest = MS * 25;
    assert!(bench.duplicate(0, 1).is_some());

    bench.path(0).rtt.as_mut().unwrap().latest = MS * 26;
    for (rate, packets) in [(None, 10), (Some(1_000), 10), (Some(1_200_000), 20)] {
        bench.path(0).delivery_rate_bytes_per_sec = rate;
        bench.path(0).in_flight_bytes = (packets - 1) * MSS;
        assert!(bench.duplicate(0, 1).is_some(), "{rate:?}");
        bench.path(0).in_flight_bytes += 1;
        assert_eq!(bench.duplicate(0, 1), None, "{rate:?}");
    }
}

/// 64 KiB, and a twentieth of what was sent: here 24,000 bytes, so one packet more.
#[test]
fn copies_have_a_budget() {
    let mut bench = bench("min-rtt");
    bench.connection.copied_bytes = 64 * 1024 - MSS;
    assert!(bench.duplicate(0, 1).is_some());
    bench.connection.copied_bytes += 1;
    assert_eq!(bench.duplicate(0, 1), None);

    bench.connection.sent_bytes = 24_000;
    bench.connection.copied_bytes = 64 * 1024;
    assert!(bench.duplicate(0, 1).is_some());
    bench.connection.copied_bytes += 1;
    assert_eq!(bench.duplicate(0, 1), None);
}

#[test]
fn a_copy_needs_room_and_samples() {
    let mut full = bench("min-rtt");
    full.path(0).cwnd_bytes = MSS - 1;
    assert_eq!(full.duplicate(0, 1), None);

    for path in [0, 1] {
        let mut unknown = bench("min-rtt");
        unknown.path(path).rtt = None;
        assert_eq!(unknown.duplicate(0, 1), None);
    }
    assert_eq!(bench("min-rtt").duplicate(0, 7), None);
}

/// A backup path carries no copies while an available one works, but data that it has in flight
/// may be copied.
#[test]
fn a_backup_path_is_spared() {
    let mut bench = bench("min-rtt");
    bench.path(0).peer_status = Status::Backup;
    assert_eq!(bench.duplicate(0, 1), None);
    bench.path(1).health = Health::Suspect;
    assert!(bench.duplicate(0, 1).is_some());

    bench.path(0).peer_status = Status::Available;
    bench.path(1).peer_status = Status::Backup;
    assert!(bench.duplicate(0, 1).is_some());
}

#[test]
fn it_can_be_turned_off() {
    let has_tail = |entry: &&sched::Entry| entry.params.iter().any(|param| param.name == "tail");
    for name in sched::SCHEDULERS.iter().filter(has_tail).map(|e| e.name) {
        assert_eq!(bench(&format!("{name}:tail=off")).duplicate(0, 1), None);
        assert!(bench(&format!("{name}:tail=on")).duplicate(0, 1).is_some());
    }
    let error = |text| sched::by_name(text).err().unwrap().to_string();
    assert_eq!(
        error("ecf:tail=of"),
        "\"of\" is no value for tail of ecf; use one like tail=on (or off)"
    );
    let expected = "no scheduler is called \"efc\"; use one of: min-rtt, ecf";
    assert!(error("efc:tail=off").starts_with(expected));
}
