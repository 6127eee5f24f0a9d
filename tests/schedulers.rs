//! What every scheduler does when there is little to choose: one path, a dying one, one without RTT,
//! full windows, pacers, and reports of somebody who lies.

mod common;

use common::bench::again;
use common::bench::opportunistic;
use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::health::Health;
use mpq_decision::registry::Rtt;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::Event;
use mpq_decision::sched::Moment;
use mpq_decision::sched::Pick;
use mpq_decision::sched::Playback;
use mpq_decision::sched::QoeReport;
use mpq_decision::sched::Why;
use mpq_decision::PathId;

fn names() -> impl Iterator<Item = &'static str> {
    sched::SCHEDULERS.iter().map(|entry| entry.name)
}

/// Each as it is, and, where there is such a thing, with what blocks flow control repeated.
fn variants() -> Vec<String> {
    let bare = names().map(str::to_owned);
    bare.chain(opportunistic()).collect()
}

#[test]
fn one_path_is_used_as_if_there_were_no_scheduler() {
    for name in &variants() {
        let bench = || Bench::new(name, &[(50, 30)]);
        assert_eq!(bench().sends_on(NEW), 0, "{name}");

        // The last bytes, with more to follow or not.
        for more_expected in [false, true] {
            let mut last = bench();
            last.connection.unsent_bytes = 1;
            last.connection.more_expected = more_expected;
            assert_eq!(last.sends_on(NEW), 0, "{name}");
        }

        let mut full = bench();
        full.path(0).in_flight_bytes = 100 * MSS;
        let on = PathId(0);
        assert_eq!(full.pick(NEW), Pick::Wait { on, until: None }, "{name}");

        let mut paced = bench();
        paced.hold(0, 3);
        let until = Some(paced.now + 3 * MS);
        assert_eq!(paced.pick(NEW), Pick::Wait { on, until }, "{name}");

        // In doubt, too, and when it was lost there.
        for health in [Health::Suspect, Health::Failed, Health::Recovering] {
            let mut doubtful = bench();
            doubtful.path(0).health = health;
            assert_eq!(doubtful.sends_on(NEW), 0, "{name}");
            assert_eq!(doubtful.sends_on(again(0, Why::Pto)), 0, "{name}");
        }
        for moment in [Moment::BeforeNew, Moment::NothingNew] {
            assert_eq!(bench().copies(0, 7, moment), None, "{name}");
        }
    }
}

#[test]
fn a_dying_path_gets_nothing_and_what_it_had_goes_elsewhere() {
    for name in &variants() {
        // The least RTT, the larger window, and the last pick.
        let mut bench = Bench::new(name, &[(10, 90), (50, 9)]);
        bench.pick(NEW);
        for health in [Health::Suspect, Health::Failed, Health::Recovering] {
            bench.path(0).health = health;
            for ask in [NEW, again(0, Why::Moved), again(0, Why::Pto)] {
                assert_eq!(bench.sends_on(ask), 1, "{name}");
            }
            for moment in [Moment::BeforeNew, Moment::NothingNew] {
                assert_eq!(bench.copies(0, 1, moment), None, "{name}: a copy on it");
            }
        }
        // Without room elsewhere it is waited for, not for the dying one.
        bench.path(1).in_flight_bytes = 100 * MSS;
        let wait = bench.pick(NEW);
        let on = PathId(1);
        assert_eq!(wait, Pick::Wait { on, until: None }, "{name}");

        // It is back.
        bench.path(0).health = Health::Healthy;
        assert_eq!(bench.sends_on(NEW), 0, "{name}");
        bench.path(0).abandoned = true;
        bench.path(1).abandoned = true;
        assert_eq!(bench.pick(NEW), Pick::None, "{name}");
    }
}

#[test]
fn a_path_without_an_rtt_is_probed_and_nothing_waits_for_it() {
    for name in &variants() {
        let mut bench = Bench::new(name, &[(20, 50), (0, 100)]);
        bench.path(1).rtt = None;
        // A probing burst in two picks at most; it can take part without a sample.
        let first = [0, 1].map(|_| {
            bench.connection.sent_bytes += 8 * MSS;
            bench.sends_on(NEW)
        });
        assert!(first.contains(&1), "{name}: {first:?}");

        // The measured one is full.
        bench.path(0).in_flight_bytes = 100 * MSS;
        bench.path(1).in_flight_bytes = 2 * MSS;
        assert_eq!(bench.sends_on(NEW), 1, "{name}");
        // Both are.
        bench.path(1).in_flight_bytes = 100 * MSS;
        assert!(matches!(bench.pick(NEW), Pick::Wait { .. }), "{name}");
        // Neither is measured.
        bench.path(0).rtt = None;
        bench.path(1).in_flight_bytes = 0;
        assert_eq!(bench.sends_on(NEW), 1, "{name}");
    }
}

#[test]
fn full_windows_wait_for_an_ack() {
    for name in &variants() {
        let mut bench = Bench::new(name, &[(20, 0), (50, 0), (90, 0)]);
        for ask in [NEW, again(0, Why::Lost), Ask::Datagram { len_bytes: 800 }] {
            match bench.pick(ask) {
                Pick::Wait { until: None, .. } => (),
                other => panic!("{name}: {other:?}"),
            }
        }
        // Any ack will do, without an end in sight.
        bench.connection.reassembly_room_bytes = 1 << 24;
        bench.path(2).in_flight_bytes -= MSS;
        bench.connection.more_expected = true;
        assert_eq!(bench.sends_on(NEW), 2, "{name}");
    }
}

#[test]
fn pacers_end_the_wait_for_them() {
    for name in &variants() {
        let mut bench = Bench::new(name, &[(20, 9), (50, 9)]);
        bench.hold(0, 2);
        bench.hold(1, 5);
        match bench.pick(NEW) {
            Pick::Wait {
                until: Some(until), ..
            } => assert!(until > bench.now && until <= bench.now + 5 * MS, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        bench.now += 5 * MS;
        assert!(matches!(bench.pick(NEW), Pick::Send { .. }), "{name}");
    }
}

/// Reports of somebody who lies: they change no pick, and copies no further than the budget of
/// those that look at them: 2 % of what was sent, and 400 packets.
#[test]
fn no_report_opens_more_than_the_budget() {
    // A day.
    assert_eq!(sched::MAX_BUFFERED, Duration::from_secs(86_400));
    let lies = [
        (Duration::ZERO, 0, true),
        (Duration::ZERO, u64::MAX, false),
        (Duration::MAX, u64::MAX, true),
        (sched::MAX_BUFFERED, 0, false),
        (MS, 1, false),
    ];
    for name in names() {
        for (buffered, bitrate_bits_per_sec, stalled) in lies {
            let mut bench = Bench::new(&calm(name), &[(20, 50), (400, 50)]);
            let mut honest = Bench::new(name, &[(20, 50), (400, 50)]);
            let report = QoeReport {
                buffered,
                bitrate_bits_per_sec,
                stalled,
            };
            let mut ordered = 0;
            for step in 0..2000_u64 {
                bench.now += 7 * MS;
                honest.now = bench.now;
                // Some in the future, some of a second ago.
                let at = bench.now + MS * 20 * (step % 3) as u32 - MS * 500;
                bench.connection.playback = Some(Playback { report, at });
                bench.event(&Event::Qoe(report));
                let oldest = bench.now - Duration::from_secs(1);
                for id in [0, 1] {
                    bench.path(id).oldest_unacked_eliciting_sent = Some(oldest);
                    honest.path(id).oldest_unacked_eliciting_sent = Some(oldest);
                }
                assert_eq!(bench.pick(NEW), honest.pick(NEW), "{name}");
                bench.connection.sent_bytes += 10 * MSS;
                honest.connection.sent_bytes = bench.connection.sent_bytes;

                for moment in [Moment::BeforeNew, Moment::NothingNew] {
                    let Some(order) = bench.copies(0, 1, moment) else {
                        continue;
                    };
                    let bytes = order.most_bytes.min(20 * MSS);
                    ordered += bytes;
                    bench.connection.copied_bytes += bytes;
                }
            }
            let most = 400 * MSS + bench.connection.sent_bytes / 50;
            assert!(ordered <= most || name == "redundant", "{name}: {ordered}");
            if let Some(wake) = bench.next_wake() {
                assert!(wake > bench.now, "{name}");
            }
        }
    }
}

/// Without copies of the tail, which have a budget of their own.
fn calm(name: &str) -> String {
    let entry = sched::SCHEDULERS.iter().find(|entry| entry.name == name);
    match entry.unwrap().params.iter().any(|p| p.name == "tail") {
        true => format!("{name}:tail=off"),
        false => name.to_owned(),
    }
}

/// A path of 10 ms and one of 20 ms that are both at hand, much to send: both are used, by everyone.
#[test]
fn much_data_fills_all_paths() {
    for name in &variants() {
        let mut bench = Bench::new(name, &[(10, 100), (20, 100)]);
        bench.connection.more_expected = true;
        bench.connection.reassembly_room_bytes = 1 << 24;
        let mut sent = [0; 2];
        for _ in 0..400 {
            let Pick::Send {
                path,
                quantum_bytes,
            } = bench.pick(NEW)
            else {
                break;
            };
            let bytes = quantum_bytes.min(10 * MSS);
            sent[path.0 as usize] += bytes;
            bench.path(path.0).in_flight_bytes += bytes;
            bench.connection.sent_bytes += bytes;
        }
        assert_eq!(sent, [100 * MSS; 2], "{name}");
    }
}

/// A sample that no clock has: nothing overflows.
#[test]
fn no_arithmetic_ends() {
    for name in &variants() {
        let mut bench = Bench::new(name, &[(10, 0), (20, 100)]);
        for (id, rtt) in [(0, Duration::MAX), (1, Duration::MAX)] {
            let path = bench.path(id);
            path.rtt = Some(Rtt {
                var: Duration::MAX,
                ..Rtt::first(rtt)
            });
            path.cwnd_bytes = u64::MAX;
            path.ssthresh_bytes = u64::MAX;
            path.delivery_rate_bytes_per_sec = Some(u64::MAX);
        }
        bench.path(0).in_flight_bytes = u64::MAX;
        bench.connection.unsent_bytes = u64::MAX - 1;
        bench.connection.sent_bytes = u64::MAX;
        bench.connection.reassembly_room_bytes = u64::MAX;
        bench.pick(NEW);
        bench.path(1).rtt = Some(Rtt::first(Duration::ZERO));
        bench.pick(NEW);
        for moment in [Moment::BeforeNew, Moment::NothingNew] {
            bench.copies(1, 0, moment);
        }
    }
}
