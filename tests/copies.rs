//! Which copies the schedulers order that copy more than tails, worked by hand.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::health::Health;
use mpq_decision::registry::Status;
use mpq_decision::sched::CopyOrder;
use mpq_decision::sched::Moment;
use mpq_decision::sched::Playback;
use mpq_decision::sched::QoeReport;
use mpq_decision::sched::Which;

const MOMENTS: [Moment; 2] = [Moment::BeforeNew, Moment::NothingNew];

#[test]
fn redundant_copies_everything_that_others_have() {
    let mut bench = Bench::new("redundant", &[(20, 30), (50, 7)]);
    assert!(bench.copies_first());
    for moment in MOMENTS {
        let order = CopyOrder {
            which: Which::Oldest,
            stream: None,
            ended: false,
            again: true,
            sent_after: None,
            sent_before: None,
            most_bytes: 7 * MSS,
        };
        assert_eq!(bench.copies(1, 0, moment), Some(order));
        assert_eq!(bench.copies(0, 1, moment).unwrap().most_bytes, 30 * MSS);
    }
    bench.path(1).in_flight_bytes = 100 * MSS - MSS + 1;
    assert_eq!(bench.copies(1, 0, Moment::BeforeNew), None);

    // Backup paths carry none, nor do those in doubt.
    bench.path(1).in_flight_bytes = 0;
    bench.path(1).peer_status = Status::Backup;
    assert_eq!(bench.copies(1, 0, Moment::BeforeNew), None);
    bench.path(1).peer_status = Status::Available;
    bench.path(1).health = Health::Suspect;
    assert_eq!(bench.copies(1, 0, Moment::BeforeNew), None);
}

/// RTTs of 20 and 100 ms, with deviations of 10 and 50 ms; the oldest packet on the second was sent
/// `age_ms` ago, and the viewer has so many milliseconds left.
fn xlink(params: &str, left_ms: Option<u32>, age_ms: u32) -> Bench {
    let mut bench = Bench::new(&format!("xlink:tail=off{params}"), &[(20, 50), (100, 50)]);
    bench.now += Duration::from_secs(10);
    let at = bench.now;
    bench.connection.playback = left_ms.map(|ms| Playback {
        report: QoeReport {
            buffered: MS * ms,
            bitrate_bits_per_sec: 0,
            stalled: false,
        },
        at,
    });
    bench.path(1).oldest_unacked_eliciting_sent = Some(at - MS * age_ms);
    bench.pick(NEW);
    bench
}

/// How old packets must be for a copy.
fn late_from_ms(bench: &mut Bench, moment: Moment) -> Option<u128> {
    let now = bench.now;
    let order = bench.copies(0, 1, moment)?;
    assert_eq!((order.which, order.again), (Which::Oldest, false));
    Some((now - order.sent_before?).as_millis())
}

#[test]
fn xlink_copies_by_what_the_viewer_has_left() {
    use Moment::*;

    // Late is what is older than 1.1 (100 + 4 x 50) ms. Below T1 = 1 s it goes before new data.
    let mut hungry = xlink("", Some(999), 5000);
    assert!(hungry.copies_first());
    for moment in MOMENTS {
        assert_eq!(late_from_ms(&mut hungry, moment), Some(330));
    }

    // Between the thresholds: while a round trip may take longer, 100 + 50 ms.
    let band = ",t1=100ms";
    for (left_ms, late) in [(149, Some(330)), (150, None), (4001, None)] {
        let mut bench = xlink(band, Some(left_ms), 5000);
        assert!(!bench.copies_first());
        assert_eq!(late_from_ms(&mut bench, BeforeNew), None, "{left_ms}");
        assert_eq!(late_from_ms(&mut bench, NothingNew), late, "{left_ms}");
    }
    // Above T2 nothing is copied, whatever the paths are like.
    let mut bench = xlink(",t1=0s,t2=120ms", Some(121), 5000);
    assert_eq!(late_from_ms(&mut bench, NothingNew), None);
}

#[test]
fn xlink_heeds_deadlines_and_the_age_of_reports() {
    // Unknown: none, unless it is chosen so.
    for (params, late) in [("", None), (",unknown=on", Some(330))] {
        let mut bench = xlink(params, None, 5000);
        assert_eq!(late_from_ms(&mut bench, Moment::NothingNew), late);
    }
    // A second passes: of 1.9 s, 0.9 are left. After 2 s the report says nothing.
    let mut bench = xlink("", Some(1900), 5000);
    assert!(!bench.copies_first());
    bench.now += 1000 * MS;
    bench.pick(NEW);
    assert!(bench.copies_first());
    bench.now += 1001 * MS;
    bench.pick(NEW);
    assert!(!bench.copies_first());
    assert_eq!(late_from_ms(&mut bench, Moment::NothingNew), None);
}

#[test]
fn xlink_wakes_when_something_is_late() {
    let mut bench = xlink("", Some(500), 10);
    assert_eq!(late_from_ms(&mut bench, Moment::NothingNew), None);
    assert_eq!(bench.next_wake(), Some(bench.now + 320 * MS));
    bench.now += 320 * MS;
    assert!(late_from_ms(&mut bench, Moment::NothingNew).is_some());
    assert_eq!(bench.next_wake(), None);
}

/// 54 packets at first, then 5 % of what is sent, or 15 % while the viewer has less than T1.
#[test]
fn xlink_has_a_budget() {
    let most = |bench: &mut Bench| {
        let order = bench.copies(0, 1, Moment::NothingNew);
        order.map_or(0, |order| order.most_bytes)
    };
    for (left_ms, percent) in [(120, 5), (50, 15)] {
        let mut bench = xlink(",t1=100ms", Some(left_ms), 5000);
        bench.path(0).in_flight_bytes = 0;
        assert_eq!(most(&mut bench), 54 * MSS);
        bench.connection.copied_bytes += 54 * MSS;
        assert_eq!(most(&mut bench), 0);
        bench.connection.sent_bytes += 100 * 2 * MSS / percent - 100;
        assert_eq!(most(&mut bench) / MSS, 1);
        bench.connection.sent_bytes += 200;
        assert_eq!(most(&mut bench) / MSS, 2);
        // However long it was not used.
        bench.connection.sent_bytes += 1 << 30;
        assert_eq!(most(&mut bench), 54 * MSS);
    }
}

/// Flow control stops the application, and the oldest packet is on the slower path.
fn blocked(params: &str, rtts_ms: [u32; 2]) -> Bench {
    let [fast, slow] = rtts_ms;
    let mut bench = Bench::new(
        &format!("min-rtt:tail=off{params}"),
        &[(fast, 50), (slow, 50)],
    );
    bench.connection.unsent_bytes = 0;
    bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 10 * MS);
    bench.path(1).oldest_unacked_eliciting_sent = Some(bench.now - 30 * MS);
    bench
}

#[test]
fn what_blocks_the_window_is_repeated_if_asked_for() {
    let on = ",opportunistic=on";
    assert_eq!(blocked("", [20, 81]).copies(0, 1, MOMENTS[1]), None);

    // 4 x 20 < 81: what q has had for less than 61 ms.
    let mut bench = blocked(on, [20, 81]);
    let order = bench.copies(0, 1, Moment::NothingNew).unwrap();
    assert_eq!((order.which, order.most_bytes), (Which::Oldest, MSS));
    assert_eq!(order.sent_after, Some(bench.now - 61 * MS));
    assert_eq!(bench.copies(0, 1, Moment::BeforeNew), None);
    assert_eq!(bench.copies(1, 0, Moment::NothingNew), None);
    assert_eq!(blocked(on, [20, 80]).copies(0, 1, MOMENTS[1]), None);

    // Or its window is down to four packets.
    for (packets, copies) in [(4, true), (5, false)] {
        let mut bench = blocked(on, [20, 80]);
        bench.path(1).cwnd_bytes = packets * MSS;
        assert_eq!(bench.copies(0, 1, MOMENTS[1]).is_some(), copies);
    }

    // The application may write, or the oldest is elsewhere, or there is no room.
    let breaks: [fn(&mut Bench); 3] = [
        |bench| bench.connection.flow_control_room_bytes = MSS,
        |bench| bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 31 * MS),
        |bench| bench.path(0).in_flight_bytes = 100 * MSS,
    ];
    for break_it in breaks {
        let mut bench = blocked(on, [20, 81]);
        break_it(&mut bench);
        assert_eq!(bench.copies(0, 1, MOMENTS[1]), None);
    }
}
