//! Which copies the schedulers order that copy more than tails, worked by hand.

mod common;

use common::bench::again;
use common::bench::opportunistic;
use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::health::Health;
use mpq_decision::registry::Status;
use mpq_decision::sched;
use mpq_decision::sched::CopyOrder;
use mpq_decision::sched::Moment;
use mpq_decision::sched::Pick;
use mpq_decision::sched::Playback;
use mpq_decision::sched::QoeReport;
use mpq_decision::sched::Which;
use mpq_decision::sched::Why;
use mpq_decision::PathId;

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

/// What was lost is older than all that could be copied.
#[test]
fn redundant_mends_before_it_copies() {
    let mut bench = Bench::new("redundant", &[(20, 30), (50, 7)]);
    for (ask, copies) in [(again(0, Why::Lost), false), (NEW, true)] {
        bench.pick(ask);
        assert_eq!(bench.copies(0, 1, Moment::BeforeNew).is_some(), copies);
        assert!(bench.copies(0, 1, Moment::NothingNew).is_some());
    }
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

/// What the second path has in flight is overdue from 100 + 4 x 50 + 25 ms on.
const OVERDUE_MS: u32 = 325;

/// Whether the first path repeats what the second has in flight: all of it.
fn repeats(bench: &mut Bench, moment: Moment) -> bool {
    let order = bench.copies(0, 1, moment);
    if let Some(order) = order {
        let all = CopyOrder {
            which: Which::Oldest,
            stream: None,
            ended: false,
            again: false,
            sent_after: None,
            sent_before: None,
            most_bytes: 50 * MSS,
        };
        assert_eq!(order, all);
    }
    order.is_some()
}

#[test]
fn xlink_copies_by_what_the_viewer_has_left() {
    use Moment::*;

    // Below T1 = 1 s it goes before new data.
    for (age_ms, late) in [(OVERDUE_MS, true), (OVERDUE_MS - 1, false)] {
        let mut hungry = xlink(",t1=1s", Some(999), age_ms);
        assert!(hungry.copies_first());
        for moment in MOMENTS {
            assert_eq!(repeats(&mut hungry, moment), late);
        }
    }

    // Between the thresholds: while a round trip may take longer, 100 + 50 ms.
    let band = ",t1=100ms,t2=4s";
    for (left_ms, late) in [(149, true), (150, false), (4001, false)] {
        let mut bench = xlink(band, Some(left_ms), 5000);
        assert!(!bench.copies_first());
        assert!(!repeats(&mut bench, BeforeNew), "{left_ms}");
        assert_eq!(repeats(&mut bench, NothingNew), late, "{left_ms}");
    }
    // Above T2 nothing is copied, whatever the paths are like.
    let mut bench = xlink(",t1=0s,t2=120ms", Some(121), 5000);
    assert!(!repeats(&mut bench, NothingNew));
}

#[test]
fn xlink_heeds_deadlines_and_the_age_of_reports() {
    // Unknown: none, unless it is chosen so.
    for (params, late) in [("", false), (",unknown=on", true)] {
        let mut bench = xlink(params, None, 5000);
        assert_eq!(repeats(&mut bench, Moment::NothingNew), late);
    }
    // A second passes: of 1.9 s, 0.9 are left. After 2 s the report says nothing.
    let mut bench = xlink(",t1=1s", Some(1900), 5000);
    assert!(!bench.copies_first());
    bench.now += 1000 * MS;
    bench.pick(NEW);
    assert!(bench.copies_first());
    bench.now += 1001 * MS;
    bench.pick(NEW);
    assert!(!bench.copies_first());
    assert!(!repeats(&mut bench, Moment::NothingNew));
}

#[test]
fn xlink_wakes_when_something_is_late() {
    let mut bench = xlink("", Some(500), 10);
    assert!(!repeats(&mut bench, Moment::NothingNew));
    assert_eq!(bench.next_wake(), Some(bench.now + (OVERDUE_MS - 10) * MS));
    bench.now += (OVERDUE_MS - 10) * MS;
    assert!(repeats(&mut bench, Moment::NothingNew));
    assert_eq!(bench.next_wake(), None);
}

/// Who is overdue, too, repeats nothing; nor does who has no room, or was never measured.
#[test]
fn xlink_repeats_on_paths_that_work() {
    let breaks: [fn(&mut Bench); 3] = [
        |bench| bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 85 * MS),
        |bench| bench.path(0).in_flight_bytes = 99 * MSS + 1,
        |bench| bench.path(0).rtt = None,
    ];
    for break_it in breaks {
        let mut bench = xlink("", Some(500), 5000);
        break_it(&mut bench);
        assert!(!repeats(&mut bench, Moment::BeforeNew));
    }
    // 20 + 4 x 10 + 25 ms.
    let mut bench = xlink("", Some(500), 5000);
    bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 84 * MS);
    assert!(repeats(&mut bench, Moment::BeforeNew));
}

/// New data avoids what is overdue, as long as another path is not, whether that has room or not.
#[test]
fn xlink_avoids_overdue_paths() {
    for left_ms in [Some(500), Some(5000), None] {
        let mut bench = xlink("", left_ms, 0);
        bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 84 * MS);
        assert_eq!(bench.sends_on(NEW), 0);
        bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 85 * MS);
        assert_eq!(bench.sends_on(NEW), 1);
        bench.path(1).in_flight_bytes = 100 * MSS;
        let waits = Pick::Wait {
            on: PathId(1),
            until: None,
        };
        assert_eq!(bench.pick(NEW), waits);
        // All are.
        bench.path(1).oldest_unacked_eliciting_sent = Some(bench.now - MS * OVERDUE_MS);
        assert_eq!(bench.sends_on(NEW), 0);
    }
}

/// A path on its way back carries new data while the viewer is about to stall.
#[test]
fn xlink_uses_paths_on_their_way_back() {
    for (left_ms, path) in [(999, 0), (1000, 1)] {
        let mut bench = xlink(",t1=1s", Some(left_ms), 0);
        bench.path(0).health = Health::Recovering;
        assert_eq!(bench.sends_on(NEW), path, "{left_ms}");
        for other in [Health::Suspect, Health::Failed] {
            bench.path(0).health = other;
            assert_eq!(bench.sends_on(NEW), 1);
        }
        bench.path(0).health = Health::Recovering;
        bench.path(0).peer_status = Status::Backup;
        assert_eq!(bench.sends_on(NEW), 1);
    }
}

/// 400 packets at first, then 2 % of what is sent.
#[test]
fn xlink_has_a_budget() {
    let most = |bench: &mut Bench| {
        let order = bench.copies(0, 1, Moment::NothingNew);
        order.map_or(0, |order| order.most_bytes)
    };
    let mut bench = xlink("", Some(500), 5000);
    bench.path(0).cwnd_bytes = 1000 * MSS;
    bench.path(0).in_flight_bytes = 0;
    assert_eq!(most(&mut bench), 400 * MSS);
    bench.connection.copied_bytes += 400 * MSS;
    assert_eq!(most(&mut bench), 0);
    bench.connection.sent_bytes += 50 * 2 * MSS - 50;
    assert_eq!(most(&mut bench) / MSS, 1);
    bench.connection.sent_bytes += 100;
    assert_eq!(most(&mut bench) / MSS, 2);
    // However long it was not used.
    bench.connection.sent_bytes += 1 << 30;
    assert_eq!(most(&mut bench), 400 * MSS);
}

/// Flow control stops the application, and the oldest packet is on the slower path.
fn blocked(name: &str, rtts_ms: [u32; 2]) -> Bench {
    let [fast, slow] = rtts_ms;
    let mut bench = Bench::new(&format!("{name},tail=off"), &[(fast, 50), (slow, 50)]);
    bench.connection.unsent_bytes = 0;
    bench.path(0).oldest_unacked_eliciting_sent = Some(bench.now - 10 * MS);
    bench.path(1).oldest_unacked_eliciting_sent = Some(bench.now - 30 * MS);
    bench
}

#[test]
fn what_blocks_the_window_is_repeated_if_asked_for() {
    let mut names = 0;
    for on in &opportunistic().collect::<Vec<_>>() {
        names += 1;
        is_repeated(on);
        let off = on.replace("=on", "=off");
        assert_eq!(blocked(&off, [20, 81]).copies(0, 1, MOMENTS[1]), None);
    }
    // All but `redundant`, where each path carries everything in any case.
    assert_eq!(names, sched::SCHEDULERS.len() - 1);
}

fn is_repeated(on: &str) {
    // 4 x 20 < 81: what q has had for less than 61 ms.
    let mut bench = blocked(on, [20, 81]);
    let order = bench.copies(0, 1, Moment::NothingNew).expect(on);
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

    // The application may write, or the oldest is elsewhere, there is no room, or nothing is known of how
    // far either is.
    let breaks: [fn(&mut Bench); 5] = [
        |bench| bench.path(0).rtt = None,
        |bench| bench.path(1).rtt = None,
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
