//! BBR in the packet-level model, and with events that no network would send.

mod common;

use common::network::Network;
use common::network::Queue;
use common::random::Random;
use common::*;

use std::time::Duration;
use std::time::Instant;

use mpq_decision::cc::Ack;
use mpq_decision::cc::Flight;
use mpq_decision::cc::Loss;
use mpq_decision::cc::RateSample;
use mpq_decision::cc::Window;
use mpq_decision::registry::Rtt;
use mpq_decision::registry::SSTHRESH_UNSET;
use mpq_decision::PathId;

const NAME: &str = "uncoupled-bbr";

/// The share of 19 Mbit/s, less what is lost, that one flow carries in 30 s at 50 ms; a BDP is 100
/// packets.
fn share(controller: &str, loss: f64, queue: f64, seed: u64) -> f64 {
    let mut network = Network::new(seed);
    let link = network.link(2000.0, Queue::DropTail(queue), loss);
    let flow = network.flow(controller, &[(link, Duration::from_millis(50))]);
    network.run(Duration::from_secs(30));
    network.acked(flow, 0) / 60_000.0 / (1.0 - loss)
}

#[test]
fn fills_a_link_whatever_it_loses() {
    for (loss, queue) in [(0.0, 25.0), (0.0, 400.0), (0.01, 100.0), (0.03, 100.0)] {
        let share = share(NAME, loss, queue, 3);
        assert!(share > 0.95, "{loss} {queue}: {share}");
    }
}

#[test]
fn losses_that_are_counted_cost_what_the_draft_says() {
    // One round trip in five loses more than 2 of 100 packets at 1 %.
    let counted = share("uncoupled-bbr:losses=counted", 0.02, 100.0, 3);
    let judged = share(NAME, 0.02, 100.0, 3);
    assert!(judged > 1.3 * counted, "{judged} {counted}");
}

#[test]
fn keeps_the_queue_short() {
    let mut network = Network::new(5);
    let link = network.link(2000.0, Queue::DropTail(400.0), 0.0);
    network.flow(NAME, &[(link, Duration::from_millis(50))]);
    network.run(Duration::from_secs(5));
    let mut queued = 0.0;
    for _ in 0..200 {
        network.run(Duration::from_millis(53));
        queued += network.queued(link) / 200.0;
    }
    // A quarter of the BDP.
    assert!(queued < 25.0, "{queued}");
}

#[test]
fn two_flows_share_a_link() {
    let mut network = Network::new(7);
    let link = network.link(2000.0, Queue::DropTail(100.0), 0.0);
    let rtt = Duration::from_millis(50);
    let one = network.flow(NAME, &[(link, rtt)]);
    network.run(Duration::from_secs(1));
    let other = network.flow(NAME, &[(link, rtt)]);
    network.warm_up(Duration::from_secs(20));
    network.run(Duration::from_secs(60));
    let ratio = network.acked(one, 0) / network.acked(other, 0);
    assert!((0.6..1.6).contains(&ratio), "{ratio}");
}

/// Random events of two paths; what the controller shows after each.
fn random_events(
    name: &str,
    seed: u64,
    mut check: impl FnMut(&Sender, u64, &str),
) -> Vec<(u64, Option<u64>)> {
    let mut sender = Sender::new(name, &[20, 200]);
    let mut random = Random(seed);
    let mut shown = Vec::new();
    let mut totals = [0u64; 2];
    let mut number = |below: u64| (random.uniform() * below as f64) as u64;
    for _ in 0..4000 {
        sender.now += Duration::from_micros(number(50_000));
        let id = number(2);
        let limited = number(3) == 0;
        let flight = Flight {
            tx_in_flight_bytes: number(1 << 22),
            lost_bytes: number(1 << 16),
            packet_bytes: MSS,
            app_limited: limited,
        };
        let what = match number(20) {
            0 => {
                let loss = Loss {
                    lost_bytes: MSS,
                    lost_packets: 1 + number(50),
                    newest_lost_sent: sender.now - Duration::from_micros(number(1_000_000)),
                    persistent: number(40) == 0,
                };
                sender.group.on_rated_loss(
                    sender.now,
                    &mut sender.paths,
                    PathId(id),
                    &loss,
                    Some(&flight),
                );
                "loss"
            }
            1 => {
                sender.now += Duration::from_secs(number(8));
                "wait"
            }
            2 => {
                let path = sender.paths.get_mut(PathId(id)).unwrap();
                path.rtt = Some(Rtt::first(Duration::from_micros(number(1_000_000))));
                "rtt"
            }
            3 if number(10) == 0 => {
                sender
                    .group
                    .on_path_migrated(sender.now, &mut sender.paths, PathId(id));
                "migrated"
            }
            _ => {
                let acked = number(20) * MSS;
                let total = &mut totals[id as usize];
                *total += acked;
                let rate = RateSample {
                    total_bytes: *total,
                    prior_bytes: total.saturating_sub(number(1 << 20)),
                    interval: Duration::from_nanos(number(300_000_000)),
                    newest: flight,
                };
                let rtt = sender.paths.get(PathId(id)).unwrap().rtt;
                let ack = Ack {
                    acked_bytes: acked,
                    acked_packets: acked / MSS,
                    newest_sent: sender.now - Duration::from_millis(20),
                    in_flight_before_bytes: number(1 << 22),
                    rtt_sample: rtt.map(|rtt| rtt.latest),
                    app_limited: limited,
                };
                let rate = Some(&rate).filter(|_| number(10) > 0);
                sender
                    .group
                    .on_rated_ack(sender.now, &mut sender.paths, PathId(id), &ack, rate);
                if limited {
                    "limited"
                } else {
                    "ack"
                }
            }
        };
        check(&sender, id, what);
        let path = sender.paths.get(PathId(id)).unwrap();
        shown.push((path.cwnd_bytes, path.pacing_rate_bytes_per_sec));
    }
    shown
}

#[test]
fn window_and_rate_stay_within_bounds() {
    for seed in 1..80 {
        let mut before = [0.0; 2];
        let name = [NAME, "sbd-bbr"][seed as usize % 2];
        random_events(name, seed, |sender, id, what| {
            let path = sender.paths.get(PathId(id)).unwrap();
            assert!(path.cwnd_bytes >= 2 * MSS, "{what}: {path:?}");
            assert!(path.cwnd_bytes <= 1 << 36, "{what}: {path:?}");
            assert!(path.pacing_rate_bytes_per_sec.is_none_or(|rate| rate > 0));
            assert_eq!(sender.group.next_timer(), None);
            let trace = sender.group.trace(sender.now, &sender.paths, PathId(id));
            let trace = trace.unwrap();
            for (name, value) in trace.values() {
                let least = if *name == "shared_llr" { -6.0 } else { 0.0 };
                assert!(
                    value.is_finite() && *value >= least,
                    "{what}: {name} {value}"
                );
            }
            // What the application limits raises the rate, or leaves it, but where a cycle ended.
            let max_bw = trace.values().iter().find(|(name, _)| *name == "max_bw");
            let max_bw = max_bw.unwrap().1;
            if what == "limited" && name == NAME {
                assert!(max_bw >= before[id as usize], "{max_bw}");
            }
            before[id as usize] = max_bw;
        });
    }
}

#[test]
fn the_same_events_have_the_same_outcome() {
    assert_eq!(
        random_events("sbd-bbr", 9, |_, _, _| ()),
        random_events("sbd-bbr", 9, |_, _, _| ())
    );
}

#[test]
fn paths_that_share_with_none_are_uncoupled() {
    assert_eq!(
        random_events("sbd-bbr:detect=none", 7, |_, _, _| ()),
        random_events(NAME, 7, |_, _, _| ())
    );
    // And so is a path alone, whatever is asked for.
    for name in ["sbd-bbr", "sbd-bbr:detect=all"] {
        assert_eq!(share(name, 0.01, 100.0, 4), share(NAME, 0.01, 100.0, 4));
    }
}

#[test]
fn a_round_trip_of_losses_is_one_congestion_event() {
    let mut sender = Sender::new(NAME, &[50]);
    assert!(sender.group.is_model());
    assert!(!Sender::new("lia", &[50]).group.is_model());
    let id = PathId(0);
    let began = sender.now;
    let lose_as = |sender: &mut Sender, sent: Instant, persistent: bool| {
        let loss = Loss {
            lost_bytes: MSS,
            lost_packets: 1,
            newest_lost_sent: sent,
            persistent,
        };
        let (now, flight) = (sender.now, Flight::default());
        (sender.group).on_rated_loss(now, &mut sender.paths, id, &loss, Some(&flight));
    };
    let lose = |sender: &mut Sender, sent: Instant| lose_as(sender, sent, false);
    let ack = |sender: &mut Sender, sent: Instant| {
        let ack = Ack {
            acked_bytes: MSS,
            acked_packets: 1,
            newest_sent: sent,
            in_flight_before_bytes: 10 * MSS,
            rtt_sample: Some(50 * MS),
            app_limited: false,
        };
        let now = sender.now;
        (sender.group).on_rated_ack(now, &mut sender.paths, id, &ack, None);
    };
    let shown = |sender: &Sender| {
        let path = sender.paths.get(id).unwrap();
        (path.congestion_events, path.in_recovery)
    };
    assert_eq!(shown(&sender), (0, false));
    sender.now += 60 * MS;
    lose(&mut sender, began + 5 * MS);
    assert_eq!(shown(&sender), (1, true));
    // Of what had left before that loss was known, losses are the same event, and ACKs end nothing.
    sender.now += MS;
    lose(&mut sender, began + 10 * MS);
    ack(&mut sender, began + 11 * MS);
    assert_eq!(shown(&sender), (1, true));
    ack(&mut sender, began + 61 * MS);
    assert_eq!(shown(&sender), (1, false));
    // Nor does an ACK begin one.
    ack(&mut sender, began + 12 * MS);
    assert_eq!(shown(&sender), (1, false));
    lose(&mut sender, began + 61 * MS);
    assert_eq!(shown(&sender), (2, true));
    // Persistent congestion is another, whenever its packets left.
    lose_as(&mut sender, began + 12 * MS, true);
    assert_eq!(shown(&sender), (3, true));
}

/// The draft, on the window in loss recovery, of an RTO: the model holds, and the window is back once something
/// that was sent since is acked.
#[test]
fn a_silence_leaves_four_packets_for_a_round_trip() {
    let (before, silent, after) = silence(4_900 * MS);
    assert!((4 * MSS..=5 * MSS).contains(&silent.cwnd_bytes));
    assert_eq!(
        silent.pacing_rate_bytes_per_sec,
        before.pacing_rate_bytes_per_sec
    );
    assert!(after.cwnd_bytes >= before.cwnd_bytes);
}

/// Its model is of the last five seconds.
#[test]
fn after_a_long_silence_the_rate_is_looked_for_anew() {
    let (_, silent, after) = silence(5_100 * MS);
    for window in [silent, after] {
        assert!((4 * MSS..=9 * MSS).contains(&window.cwnd_bytes));
        assert_eq!(window.ssthresh_bytes, SSTHRESH_UNSET);
    }
}

/// The windows before nothing is acked for so long, after the ACK of a probe then, and a round trip later.
fn silence(lasts: Duration) -> (Window, Window, Window) {
    let mut sender = Sender::new(NAME, &[50]);
    let id = PathId(0);
    let mut total = 0;
    let mut ack = |sender: &mut Sender, packets: u64, sent: Instant| {
        total += packets * MSS;
        let rate = RateSample {
            total_bytes: total,
            prior_bytes: total - packets * MSS,
            interval: 50 * MS,
            newest: Flight {
                tx_in_flight_bytes: packets * MSS,
                packet_bytes: MSS,
                ..Flight::default()
            },
        };
        let ack = Ack {
            acked_bytes: packets * MSS,
            acked_packets: packets,
            newest_sent: sent,
            in_flight_before_bytes: 2 * packets * MSS,
            rtt_sample: Some(50 * MS),
            app_limited: packets < 100,
        };
        (sender.group).on_rated_ack(sender.now, &mut sender.paths, id, &ack, Some(&rate));
    };
    let window = |sender: &Sender| sender.group.window(&sender.paths, id).unwrap();
    // 100 packets in each round trip: Startup ends.
    for _ in 0..12 {
        sender.now += 50 * MS;
        let sent = sender.now - 50 * MS;
        ack(&mut sender, 100, sent);
    }
    let before = window(&sender);
    assert!(before.ssthresh_bytes < SSTHRESH_UNSET && before.cwnd_bytes > 100 * MSS);
    // All of a window and a probe after it are lost, of which the next probe tells.
    let last = sender.now;
    sender.now += lasts;
    let loss = Loss {
        lost_bytes: 200 * MSS,
        lost_packets: 200,
        newest_lost_sent: last + 500 * MS,
        persistent: true,
    };
    let probe = sender.now - 50 * MS;
    let (now, flight) = (sender.now, Flight::default());
    (sender.group).on_rated_loss(now, &mut sender.paths, id, &loss, Some(&flight));
    ack(&mut sender, 1, probe);
    let silent = window(&sender);
    sender.now += 50 * MS;
    ack(&mut sender, 4, now + MS);
    (before, silent, window(&sender))
}
