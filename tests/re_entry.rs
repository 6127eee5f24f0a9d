//! A path whose slow start an unlucky loss ended goes on with it while it shows no queue.

mod common;

use common::network::Network;
use common::network::Queue;
use common::*;

use std::time::Duration;

use mpq_decision::cc;
use mpq_decision::health::Health;
use mpq_decision::registry::Rtt;
use mpq_decision::registry::SSTHRESH_UNSET;
use mpq_decision::PathId;
use proptest::prelude::*;

/// The controllers that have the rule.
fn with_the_rule() -> impl Iterator<Item = &'static str> {
    with_param("re-entry")
}

/// Two paths of 50 ms, each of which lost a packet of its first window: 5 packets each.
fn unlucky(controller: &str) -> Sender {
    let mut sender = Sender::new(controller, &[50, 50]);
    for id in [0, 1] {
        sender.lose(id, Duration::ZERO);
    }
    sender
}

/// Ends a round trip of path `id` by the ACK of a packet that was sent after it began.
fn round(sender: &mut Sender, id: u64, packets: u64) {
    sender.now += 51 * MS;
    sender.ack(id, packets);
}

fn in_slow_start(sender: &Sender, id: u64) -> bool {
    sender.paths.get(PathId(id)).unwrap().in_slow_start()
}

/// Round trips of path `id` until it is in a re-entry, at most 100.
fn rounds_to_re_entry(sender: &mut Sender, id: u64) -> Option<u32> {
    (1..=100).find(|_| {
        round(sender, id, 1);
        in_slow_start(sender, id)
    })
}

#[test]
fn every_coupled_controller_that_goes_by_losses_has_it() {
    let expected = coupled_by_losses();
    assert_eq!(with_the_rule().collect::<Vec<_>>(), expected);

    let re_entry = |text: &str| text.parse::<cc::Choice>().unwrap().options().re_entry;
    for name in expected {
        assert!(re_entry(name));
        assert!(!re_entry(&format!("{name}:re-entry=off")));
    }
    assert!(!re_entry("wvegas"));
    assert!(!re_entry("uncoupled-reno"));
}

#[test]
fn it_begins_after_eight_clean_rounds_and_grows_by_half() {
    // The first ACK begins a round; the ninth ends the eighth.
    for name in with_the_rule() {
        let mut sender = unlucky(name);
        assert_eq!(rounds_to_re_entry(&mut sender, 1), Some(9), "{name}");
        let path = sender.paths.get(PathId(1)).unwrap();
        assert_eq!(path.ssthresh_bytes, SSTHRESH_UNSET);
        // 2 packets acked: one more. Pacing is that of slow start, 2 cwnd/srtt.
        let before = sender.cwnd(1);
        sender.ack(1, 2);
        assert_eq!(sender.cwnd(1), before + MSS, "{name}");
        let rate = 2 * sender.cwnd(1) * 1000 / 50;
        let path = sender.paths.get(PathId(1)).unwrap();
        assert!(path.pacing_rate_bytes_per_sec.unwrap().abs_diff(rate) < 100);
    }
}

#[test]
fn off_means_never() {
    for name in with_the_rule() {
        let mut sender = unlucky(&format!("{name}:re-entry=off"));
        assert_eq!(rounds_to_re_entry(&mut sender, 1), None, "{name}");
    }
}

#[test]
fn a_path_alone_is_what_its_source_says() {
    // Alone, or next to one that failed, was abandoned, or has no RTT sample yet.
    let spoil: [fn(&mut Sender); 4] = [
        |sender| sender.leave(PathId(0)),
        |sender| sender.paths.get_mut(PathId(0)).unwrap().health = Health::Failed,
        |sender| sender.paths.get_mut(PathId(0)).unwrap().abandoned = true,
        |sender| sender.paths.get_mut(PathId(0)).unwrap().rtt = None,
    ];
    for spoil in spoil {
        let mut sender = unlucky("lia");
        spoil(&mut sender);
        assert_eq!(rounds_to_re_entry(&mut sender, 1), None);
        // What it waited counts as soon as there is another path.
        sender.join(PathId(0));
        sender.paths.get_mut(PathId(0)).unwrap().rtt = Some(Rtt::first(50 * MS));
        assert_eq!(rounds_to_re_entry(&mut sender, 1), Some(1));
    }
}

#[test]
fn one_path_at_a_time() {
    let mut sender = unlucky("lia");
    assert_eq!(rounds_to_re_entry(&mut sender, 1), Some(9));
    assert_eq!(rounds_to_re_entry(&mut sender, 0), None);
    // A loss ends the one, and the other may.
    sender.lose(1, Duration::ZERO);
    assert_eq!(rounds_to_re_entry(&mut sender, 0), Some(1));
    // So does the end of its path.
    assert_eq!(rounds_to_re_entry(&mut sender, 1), None);
    sender.leave(PathId(0));
    sender.join(PathId(2));
    sender.paths.get_mut(PathId(2)).unwrap().rtt = Some(Rtt::first(50 * MS));
    assert_eq!(rounds_to_re_entry(&mut sender, 1), Some(1));
}

#[test]
fn a_queue_ends_it_and_the_window_stays() {
    let mut sender = unlucky("lia");
    rounds_to_re_entry(&mut sender, 1);
    // 57 ms is above 50 + 50/8: seven samples of a round decide nothing, the eighth does.
    sender.paths.get_mut(PathId(1)).unwrap().rtt = Some(Rtt {
        min: 50 * MS,
        ..Rtt::first(57 * MS)
    });
    sender.now += 60 * MS;
    for _ in 1..8 {
        sender.ack(1, 1);
        assert!(in_slow_start(&sender, 1));
    }
    let before = sender.cwnd(1);
    sender.ack(1, 1);
    assert!(!in_slow_start(&sender, 1));
    let path = sender.paths.get(PathId(1)).unwrap();
    assert_eq!(path.ssthresh_bytes, before);
    assert_eq!(rounds_to_re_entry(&mut sender, 1), None);
}

#[test]
fn a_loss_in_it_is_an_ordinary_one() {
    let mut sender = unlucky("lia");
    rounds_to_re_entry(&mut sender, 1);
    round(&mut sender, 1, 40);
    let before = sender.cwnd(1);
    sender.lose(1, Duration::ZERO);
    assert_eq!(sender.cwnd(1), before / 2);
    assert!(!in_slow_start(&sender, 1));
    // Sixteen clean rounds next.
    assert_eq!(rounds_to_re_entry(&mut sender, 1), Some(16));
}

#[test]
fn persistent_congestion_opens_it_again() {
    let mut sender = unlucky("lia");
    let long = Some(Rtt {
        min: 50 * MS,
        ..Rtt::first(57 * MS)
    });
    let short = Some(Rtt::first(50 * MS));
    sender.paths.get_mut(PathId(1)).unwrap().rtt = long;
    round(&mut sender, 1, 1);
    for _ in 0..8 {
        sender.ack(1, 1);
    }
    round(&mut sender, 1, 1);
    sender.paths.get_mut(PathId(1)).unwrap().rtt = short;
    assert_eq!(rounds_to_re_entry(&mut sender, 1), None);
    sender.lose_as(1, Duration::ZERO, true);
    assert!(rounds_to_re_entry(&mut sender, 1).is_some());
}

/// The part of an idle link of 2000 packets/s and 40 ms that the second path has in the third second,
/// if the next packet it sends after 20 ms is lost.
fn part_of_the_second_link(controller: &str, lossy: bool) -> f64 {
    let mut network = Network::new(1);
    let wide = network.link(2500.0, Queue::DropTail(50.0), 0.0);
    let narrow = network.link(2000.0, Queue::DropTail(80.0), 0.0);
    let flow = network.flow(controller, &[(wide, 20 * MS), (narrow, 40 * MS)]);
    network.run(Duration::from_millis(20));
    if lossy {
        network.lose_next(flow, 1);
    }
    network.warm_up(Duration::from_millis(1980));
    network.run(Duration::from_secs(1));
    network.acked(flow, 1) / 2000.0
}

#[test]
fn an_unlucky_path_fills_its_link() {
    for name in with_the_rule() {
        // COUPLED keeps to the path of fewer losses, whatever its slow start.
        if name == "coupled" {
            continue;
        }
        let with = part_of_the_second_link(name, true);
        let without = part_of_the_second_link(&format!("{name}:re-entry=off"), true);
        println!("{name}: {with:.3}, off {without:.3}");
        assert!(with >= 0.9, "{name}: {with}");
        assert!(with >= without, "{name}: {with} and {without}");
    }
    // It is the loss that costs it, and the rule that mends it.
    assert!(part_of_the_second_link("lia:re-entry=off", true) < 0.6);
    assert!(part_of_the_second_link("lia:re-entry=off", false) > 0.9);
}

/// What happens to a path in a round trip.
#[derive(Clone, Copy, Debug)]
enum Trip {
    Clean,
    Queue,
    Loss,
    Persistent,
    Underused,
}

fn trip() -> impl Strategy<Value = (u64, Trip)> {
    let what = prop_oneof![
        60 => Just(Trip::Clean),
        1 => Just(Trip::Queue),
        2 => Just(Trip::Loss),
        1 => Just(Trip::Persistent),
        2 => Just(Trip::Underused),
    ];
    (0..3u64, what)
}

proptest! {
    #[test]
    fn re_entries_are_few_and_gentle(trips in prop::collection::vec(trip(), 1..400)) {
        for name in with_the_rule() {
            let mut sender = Sender::new(name, &[50, 50, 50]);
            let mut plain = Sender::new(&format!("{name}:re-entry=off"), &[50, 50, 50]);
            for id in 0..3 {
                sender.lose(id, Duration::ZERO);
                plain.lose(id, Duration::ZERO);
            }
            let (mut rounds, mut entries, mut inside) = ([0_u64; 3], [0_u32; 3], [false; 3]);
            for (id, trip) in &trips {
                let (id, index) = (*id, *id as usize);
                rounds[index] += 1;
                for sender in [&mut sender, &mut plain] {
                    let before = sender.cwnd(id);
                    let path = sender.paths.get_mut(PathId(id)).unwrap();
                    let rtt = if matches!(trip, Trip::Queue) { 60 } else { 50 };
                    path.rtt = Some(Rtt { min: 50 * MS, ..Rtt::first(rtt * MS) });
                    sender.now += 61 * MS;
                    match trip {
                        Trip::Clean => sender.ack(id, 2),
                        Trip::Queue => (0..9).for_each(|_| sender.ack(id, 1)),
                        Trip::Loss => sender.lose(id, MS),
                        Trip::Persistent => sender.lose_as(id, MS, true),
                        Trip::Underused => {
                            for _ in 0..3 {
                                sender.now += 61 * MS;
                                let ack = cc::Ack {
                                    acked_bytes: MSS,
                                    acked_packets: 1,
                                    newest_sent: sender.now - 60 * MS,
                                    in_flight_before_bytes: MSS,
                                    rtt_sample: Some(50 * MS),
                                    app_limited: true,
                                };
                                let Sender { group, paths, now } = sender;
                                group.on_ack(*now, paths, PathId(id), &ack);
                            }
                        }
                    }
                    // Never more than slow start adds; MCompound's delay window adds w^k / 8 packets
                    // in a round trip, k = 3/4.
                    let acked = match trip {
                        Trip::Queue => 9,
                        Trip::Underused => 3,
                        _ => 2,
                    };
                    let delay_window = match name {
                        "mcompound" => (before as f64 / MSS as f64).powf(0.75) / 8.0,
                        _ => 0.0,
                    };
                    let most = before + (acked + delay_window.ceil() as u64) * MSS;
                    // Coupled CUBIC's f rises at once when another path loses, and the
                    // window with it.
                    let follows_f = name == "coupled-cubic"
                        && sender.paths.get(PathId(id)).unwrap().ssthresh_bytes != SSTHRESH_UNSET;
                    prop_assert!(follows_f || sender.cwnd(id) <= most, "{name}: {trip:?}");
                    if let Trip::Loss | Trip::Persistent = trip {
                        prop_assert!(sender.cwnd(id) <= before, "{name}: grew by a loss");
                    }
                }
                // All paths lost a packet: without a threshold they are in a re-entry.
                let grows = |sender: &Sender, id| {
                    sender.paths.get(PathId(id)).unwrap().ssthresh_bytes == SSTHRESH_UNSET
                };
                prop_assert!((0..3).all(|id| !grows(&plain, id)), "{name}: off");
                let now_inside = [0, 1, 2].map(|id| grows(&sender, id));
                prop_assert!(now_inside.iter().filter(|grows| **grows).count() <= 1, "{name}: two at once");
                if now_inside[index] && !inside[index] {
                    entries[index] += 1;
                    // 8, 16, 32 ... clean rounds before each; an underused trip is three of them.
                    prop_assert!(3 * rounds[index] >= 8 * ((1 << entries[index]) - 1), "{name}: {entries:?} in {rounds:?}");
                }
                if let Trip::Loss | Trip::Persistent | Trip::Queue = trip {
                    prop_assert!(!now_inside[index], "{name}: goes on after {trip:?}");
                }
                inside = now_inside;
            }
        }
    }
}
