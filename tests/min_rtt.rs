//! Min-RTT's choices, case by case.

mod common;

use common::bench::again;
use common::bench::Bench;
use common::bench::NEW;
use common::MS;
use common::MSS;

use std::time::Duration;

use mpq_decision::health::Health;
use mpq_decision::registry::Rtt;
use mpq_decision::registry::Status;
use mpq_decision::sched;
use mpq_decision::sched::Ask;
use mpq_decision::sched::PathSet;
use mpq_decision::sched::Pick;
use mpq_decision::sched::Why;
use mpq_decision::PathId;

fn bench(list: &[(u32, u64)]) -> Bench {
    Bench::new("min-rtt", list)
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = sched::by_name("max-rtt").err().unwrap();
    let expected = "no scheduler is called \"max-rtt\"; use one of: min-rtt, ecf";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn least_rtt_with_room() {
    assert_eq!(bench(&[(50, 9), (20, 1), (90, 90)]).sends_on(NEW), 1);
}

/// 60 ms, of which acknowledgments take 10 on a path of 20 ms, are 50 out, and further than 45 out and 45 back.
#[test]
fn paths_are_as_far_as_the_way_out() {
    let mut bench = bench(&[(20, 0), (60, 9), (90, 9)]);
    assert_eq!(bench.sends_on(NEW), 1);
    bench.path(1).way_back = PathId(0);
    assert_eq!(bench.sends_on(NEW), 2);
}

/// However many paths there are.
#[test]
fn a_70th_path_is_one_like_any_other() {
    for best in [0, 63, 64, 65, 69] {
        let mut list = vec![(50, 9); 70];
        list[best] = (20, 9);
        assert_eq!(bench(&list).sends_on(NEW), best as u64);

        // Unusable ones are not shown, wherever they are.
        list[best] = (20, 0);
        assert_ne!(bench(&list).sends_on(NEW), best as u64);
    }
}

#[test]
fn a_full_path_spills_to_the_next() {
    assert_eq!(bench(&[(50, 9), (20, 0), (90, 90)]).sends_on(NEW), 0);
}

#[test]
fn all_full_waits_for_the_fastest() {
    let mut bench = self::bench(&[(50, 0), (20, 0)]);
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(1),
            until: None
        }
    );
}

#[test]
fn a_last_short_packet_needs_only_its_own_room() {
    let mut bench = self::bench(&[(20, 0)]);
    bench.path(0).in_flight_bytes -= 100;
    bench.connection.unsent_bytes = 101;
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until: None
        }
    );
    bench.connection.unsent_bytes = 100;
    assert_eq!(bench.sends_on(NEW), 0);
}

#[test]
fn no_path_no_pick() {
    let mut bench = self::bench(&[(50, 9)]);
    bench.path(0).validated = false;
    assert_eq!(bench.pick(NEW), Pick::None);
}

#[test]
fn ties_go_by_room_then_last_pick_then_id() {
    // The band: 20 + max(1, 20/16 = 1.25) = 21.25 ms. 21 is equal, 22 is not.
    assert_eq!(bench(&[(20, 5), (21, 6)]).sends_on(NEW), 1);
    assert_eq!(bench(&[(20, 5), (22, 6)]).sends_on(NEW), 0);
    // Small RTTs: the band is 1 ms.
    assert_eq!(bench(&[(2, 5), (3, 6)]).sends_on(NEW), 1);
    // Equal room: the lower ID, unless the other was picked last.
    assert_eq!(bench(&[(20, 5), (20, 5)]).sends_on(NEW), 0);
    let mut stays = bench(&[(20, 5), (20, 6)]);
    assert_eq!(stays.sends_on(NEW), 1);
    stays.path(1).in_flight_bytes += MSS;
    assert_eq!(stays.sends_on(NEW), 1);
}

#[test]
fn the_quantum_is_bounded() {
    // Room 100 packets = 120000 bytes: one batch of 64 KiB.
    let mut bench = self::bench(&[(20, 100)]);
    assert_eq!(
        bench.pick(NEW),
        Pick::Send {
            path: PathId(0),
            quantum_bytes: 65536
        }
    );
    // Room 10 packets.
    let mut bench = self::bench(&[(20, 10)]);
    assert_eq!(
        bench.pick(NEW),
        Pick::Send {
            path: PathId(0),
            quantum_bytes: 12000
        }
    );
    // Less left than a window: two packets, then think again.
    bench.connection.unsent_bytes = 119_999;
    assert_eq!(
        bench.pick(NEW),
        Pick::Send {
            path: PathId(0),
            quantum_bytes: 2400
        }
    );
}

#[test]
fn a_paced_path_is_worth_its_lead() {
    // 30 ms ahead of the other: worth 30 ms, not 31, for what fits its room of 9 packets.
    let mut bench = self::bench(&[(20, 9), (50, 9)]);
    bench.connection.unsent_bytes = 9 * MSS;
    bench.hold(0, 30);
    let until = bench.path(0).pacing_release;
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until
        }
    );
    bench.hold(0, 31);
    assert_eq!(bench.sends_on(NEW), 1);
    // The other is paced too, or full: wait for the fast one.
    bench.hold(1, 1);
    assert!(matches!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until: Some(_)
        }
    ));
    bench.path(1).pacing_release = None;
    bench.path(1).in_flight_bytes = 100 * MSS;
    assert!(matches!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(0),
            until: Some(_)
        }
    ));
    // Released now.
    bench.hold(0, 0);
    assert_eq!(bench.sends_on(NEW), 0);
}

#[test]
fn what_a_paced_window_cannot_take_goes_elsewhere_at_once() {
    let mut bench = self::bench(&[(20, 9), (50, 9)]);
    bench.hold(0, 1);
    bench.connection.unsent_bytes = 9 * MSS;
    assert!(matches!(bench.pick(NEW), Pick::Wait { .. }));
    bench.connection.unsent_bytes = 9 * MSS + 1;
    assert_eq!(bench.sends_on(NEW), 1);
    bench.connection.unsent_bytes = 1;
    bench.connection.more_expected = true;
    assert_eq!(bench.sends_on(NEW), 1);
}

#[test]
fn a_new_path_is_probed_by_two_packets_and_then_comes_last() {
    let mut bench = self::bench(&[(20, 50), (0, 100)]);
    bench.path(1).rtt = None;
    assert_eq!(
        bench.pick(NEW),
        Pick::Send {
            path: PathId(1),
            quantum_bytes: 2400
        }
    );
    bench.path(1).in_flight_bytes = 1200;
    assert_eq!(
        bench.pick(NEW),
        Pick::Send {
            path: PathId(1),
            quantum_bytes: 1200
        }
    );
    bench.path(1).in_flight_bytes = 2400;
    assert_eq!(bench.sends_on(NEW), 0);
    // A retransmission is no probe.
    bench.path(1).in_flight_bytes = 0;
    assert_eq!(bench.sends_on(again(0, Why::Lost)), 0);
    // When the measured path is full, the new one is better than nothing.
    bench.path(1).in_flight_bytes = 2400;
    bench.path(0).in_flight_bytes = 100 * MSS;
    assert_eq!(bench.sends_on(NEW), 1);
}

#[test]
fn lower_tiers_are_not_seen() {
    let mut bench = self::bench(&[(20, 9), (50, 9)]);
    bench.path(0).peer_status = Status::Backup;
    assert_eq!(bench.sends_on(NEW), 1);
    // Not even while the better path is full.
    bench.path(1).in_flight_bytes = 100 * MSS;
    assert_eq!(
        bench.pick(NEW),
        Pick::Wait {
            on: PathId(1),
            until: None
        }
    );
    bench.path(1).health = Health::Suspect;
    assert_eq!(bench.sends_on(NEW), 0);
}

#[test]
fn a_dead_path_with_a_good_old_rtt_does_not_win() {
    let mut bench = self::bench(&[(5, 90), (300, 9)]);
    bench.path(0).health = Health::Failed;
    bench.path(1).health = Health::Suspect;
    assert_eq!(bench.sends_on(NEW), 1);
}

#[test]
fn retransmissions() {
    // Lost on a healthy path: the least RTT, the same if it is that.
    assert_eq!(bench(&[(20, 9), (50, 9)]).sends_on(again(0, Why::Lost)), 0);
    // For a probe timeout or a move: elsewhere, if there is an elsewhere.
    for why in [Why::Pto, Why::Moved] {
        assert_eq!(bench(&[(20, 9), (50, 9)]).sends_on(again(0, why)), 1);
        assert_eq!(bench(&[(20, 9), (50, 0)]).sends_on(again(0, why)), 0);
        assert_eq!(bench(&[(20, 9)]).sends_on(again(0, why)), 0);
    }
    // All paths in doubt: lost data goes elsewhere too.
    let mut doubtful = bench(&[(20, 9), (50, 9)]);
    for id in [0, 1] {
        doubtful.path(id).health = Health::Suspect;
    }
    assert_eq!(doubtful.sends_on(again(0, Why::Lost)), 1);
}

#[test]
fn a_datagram_needs_room_for_all_of_it() {
    let mut bench = self::bench(&[(20, 0), (50, 9)]);
    bench.path(0).in_flight_bytes -= 500;
    assert_eq!(bench.sends_on(Ask::Datagram { len_bytes: 501 }), 1);
    let short = bench.pick(Ask::Datagram { len_bytes: 500 });
    assert_eq!(
        short,
        Pick::Send {
            path: PathId(0),
            quantum_bytes: 500
        }
    );
}

#[test]
fn a_path_set_forgets_the_oldest_when_full() {
    let mut set = PathSet::default();
    for id in 0..9 {
        set.insert(PathId(id));
        set.insert(PathId(id));
    }
    assert!(!set.contains(PathId(0)));
    assert!((1..9).all(|id| set.contains(PathId(id))));
}

#[test]
fn rtt_noise_within_the_band_does_not_move_a_batch() {
    // Equal room after each burst is refilled: the pick stays while the RTTs jitter by 1 ms.
    let mut bench = self::bench(&[(40, 20), (40, 20)]);
    let first = bench.sends_on(NEW);
    for jitter_us in [900, 0, 400, 1000, 100] {
        let rtt = Rtt::first(40 * MS + Duration::from_micros(jitter_us));
        bench.path(first).rtt = Some(rtt);
        assert_eq!(bench.sends_on(NEW), first);
    }
}
