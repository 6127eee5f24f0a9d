//! The machinery that all controllers share, and how they degenerate on one path.

mod common;

use common::*;

use std::time::Duration;

use mpq_decision::cc;
use mpq_decision::cc::Group;
use mpq_decision::cc::Options;
use mpq_decision::registry::Rtt;
use mpq_decision::registry::SSTHRESH_UNSET;
use mpq_decision::PathId;

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = cc::by_name("vega").unwrap_err().to_string();
    let names: Vec<_> = cc::CONTROLLERS.iter().map(|entry| entry.name).collect();
    let expected = format!(
        "no congestion controller is called \"vega\"; use one of: {}",
        names.join(", ")
    );
    assert_eq!(error, expected);
}

#[test]
fn parameters_follow_the_name() {
    for valid in [
        "lia",
        "dc-ledbat:ret=10s,zeta=1",
        "hybla:rtt0=50ms",
        "coupled-cubic:variant=alpha1,f=linear",
        "mpmtp:balance=off",
    ] {
        assert!(cc::by_name(valid).is_ok(), "{valid}");
    }
    for (invalid, message) in [
        (
            "hybla:rho=3",
            "hybla has no parameter \"rho\"; use any of: \
             rtt0=25ms (1ms to 1s), rho_max=16 (1 to 16)",
        ),
        (
            "hybla:rtt0=25",
            "\"25\" is no value for rtt0 of hybla; use one like rtt0=25ms (1ms to 1s)",
        ),
        (
            "hybla:rtt0",
            "\"\" is no value for rtt0 of hybla; use one like rtt0=25ms (1ms to 1s)",
        ),
        (
            "mpmtp:balance=maybe",
            "\"maybe\" is no value for balance of mpmtp; use one like balance=on (or off)",
        ),
        (
            "hybla:rtt0=9ms,rtt0=9ms",
            "hybla got \"rtt0\" twice; give it once",
        ),
        (
            "lia:a=1",
            "lia has no parameter \"a\"; use any of: ack_packets=1 (1 to 16), re-entry=on (or off), \
             start=suss (or slow, train, rho), min-window=3 (2 to 16), ssthresh=0 (0 to 1000000)",
        ),
        (
            "sqrt:a=1",
            "sqrt has no parameter \"a\"; use any of: step=round (or ack)",
        ),
        (
            "sqrt:",
            "sqrt has no parameter \"\"; use any of: step=round (or ack)",
        ),
    ] {
        assert_eq!(cc::by_name(invalid).unwrap_err().to_string(), message);
    }
}

#[test]
fn every_entry_is_complete_and_its_defaults_are_in_range() {
    let mut names = std::collections::HashSet::new();
    for entry in cc::CONTROLLERS {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        for text in [
            entry.summary,
            entry.idea,
            entry.source,
            entry.formula,
            entry.use_when,
            entry.avoid_when,
        ] {
            assert!(text.len() > 3 && !text.contains("  "), "{}", entry.name);
        }
        for text in entry.deviations {
            assert!(text.len() > 3 && !text.contains("  "), "{}", entry.name);
        }
        for param in entry.params {
            // What is printed as the default can be written back.
            let printed = param.to_string();
            let default = printed.split(' ').next().unwrap();
            let text = format!("{}:{default}", entry.name);
            assert!(cc::by_name(&text).is_ok(), "{text}");
            assert!(!param.about.is_empty());
            assert!(param.min <= param.default && param.default <= param.max);
        }
    }
}

#[test]
fn a_threshold_ends_the_first_slow_start() {
    // Ten packets at first, which double up to the threshold of 30, and again after a migration.
    let mut sender = Sender::new("lia:ssthresh=30,start=slow", &[50, 50]);
    let threshold = 30.0 * MSS as f64;
    for round in 0..2 {
        for _ in 0..40 {
            sender.ack(0, 1);
        }
        let window = sender.cwnd(0) as f64;
        assert!(
            (threshold..threshold + 2.0 * MSS as f64).contains(&window),
            "{round}: {window}"
        );
        let now = sender.now;
        sender
            .group
            .on_path_migrated(now, &mut sender.paths, PathId(0));
    }
    let options = |text: &str| text.parse::<cc::Choice>().unwrap().options();
    assert_eq!(options("lia").ssthresh_packets, 0);
    assert_eq!(options("wvegas").ssthresh_packets, 0);
    for name in ["uncoupled-reno", "uncoupled-cubic", "compound"]
        .into_iter()
        .chain(coupled_by_losses())
    {
        assert_eq!(options(&format!("{name}:ssthresh=30")).ssthresh_packets, 30);
    }
}

#[test]
fn the_timer_ends_what_no_ack_would() {
    // DC-LEDBAT empties its queue after 10 s, for 200 ms.
    let mut sender = Sender::new("dc-ledbat", &[50]);
    for _ in 0..5 {
        sender.ack(0, 10);
        sender.now += 51 * MS;
    }
    let before = sender.cwnd(0);
    assert_eq!(sender.group.next_timer(), None);
    sender.paths.get_mut(PathId(0)).unwrap().rtt = Some(Rtt::first(90 * MS));
    sender.now += Duration::from_secs(11);
    sender.ack(0, 1);
    assert_eq!(sender.cwnd(0), 10 * MSS);
    let due = sender.group.next_timer().unwrap();
    assert_eq!(due, sender.now + 200 * MS);
    sender.group.on_timer(due - MS, &mut sender.paths);
    assert_eq!(sender.cwnd(0), 10 * MSS);
    sender.group.on_timer(due, &mut sender.paths);
    assert_eq!(sender.cwnd(0), before);
    assert_eq!(sender.group.next_timer(), None);
}

#[test]
fn a_trace_shows_the_coupling() {
    let mut sender = Sender::new("lia", &[100, 100]);
    for id in [0, 1] {
        sender.ack(id, 10);
        sender.lose_and_recover(id);
    }
    sender.ack(0, 1);
    let trace = sender
        .group
        .trace(sender.now, &sender.paths, PathId(0))
        .unwrap();
    // Two equal windows: a = 1/2, but for what the last ACK added.
    let [("a", a)] = trace.values() else {
        panic!("{trace:?}")
    };
    assert!((a - 0.5).abs() < 0.01, "{a}");
    assert_eq!(trace.phase.name(), "congestion_avoidance");
    assert_eq!(trace.cwnd_bytes, sender.cwnd(0));
    assert_eq!(trace.min_rtt, Some(100 * MS));
    let nobody = sender.group.trace(sender.now, &sender.paths, PathId(7));
    assert!(nobody.is_none());
}

#[test]
fn slow_start_doubles_per_round() {
    // But for those that have none, those with one of their own, and models, which go by rates.
    let own = |name: &str| ["hybla", "vegas"].contains(&name);
    for entry in cc::CONTROLLERS {
        let controller = entry.with_defaults();
        if !controller.has_slow_start() || controller.is_model() || own(entry.name) {
            continue;
        }
        let mut sender = Sender::new(entry.name, &[50, 80]);
        sender.ack(0, 10);
        assert_eq!(sender.cwnd(0), 20 * MSS, "{}", entry.name);
        sender.ack(0, 20);
        assert_eq!(sender.cwnd(0), 40 * MSS, "{}", entry.name);
        assert_eq!(sender.cwnd(1), 10 * MSS, "{}", entry.name);
    }
}

#[test]
fn slow_start_stops_at_the_threshold() {
    let mut sender = Sender::new("uncoupled-reno", &[50]);
    sender.ack(0, 10);
    sender.lose(0, Duration::ZERO); // ssthresh = 10 packets
    sender.now += 51 * MS;
    sender.lose_as(0, Duration::ZERO, true); // ssthresh = 5, window 2
    assert_eq!(sender.cwnd(0), 2 * MSS);
    sender.now += 51 * MS;
    sender.ack(0, 2);
    assert_eq!(sender.cwnd(0), 4 * MSS);
    sender.ack(0, 4);
    assert_eq!(sender.cwnd(0), 5 * MSS);
}

#[test]
fn one_congestion_event_per_recovery_period() {
    let mut sender = Sender::new("uncoupled-reno", &[50]);
    sender.ack(0, 10);
    sender.lose(0, 20 * MS);
    assert_eq!(sender.cwnd(0), 10 * MSS);
    // Sent before the period began: same event, also 40 ms later.
    sender.now += 40 * MS;
    sender.lose(0, 41 * MS);
    assert_eq!(sender.cwnd(0), 10 * MSS);
    // No growth for what was sent before either.
    sender.ack(0, 3);
    assert_eq!(sender.cwnd(0), 10 * MSS);
    // Sent after it: a new event.
    sender.lose(0, 39 * MS);
    assert_eq!(sender.cwnd(0), 5 * MSS);
    assert_eq!(sender.paths.get(PathId(0)).unwrap().congestion_events, 2);
}

#[test]
fn loss_intervals_are_counted_between_congestion_events() {
    let mut sender = Sender::new("olia", &[50]);
    sender.ack(0, 10);
    sender.lose_and_recover(0);
    sender.ack(0, 4);
    sender.ack(0, 3);
    let path = sender.paths.get(PathId(0)).unwrap();
    assert_eq!(path.acked_between_losses_bytes, 10 * MSS);
    assert_eq!(path.acked_since_loss_bytes, 7 * MSS);
    sender.lose(0, Duration::ZERO);
    let path = sender.paths.get(PathId(0)).unwrap();
    assert_eq!(path.acked_between_losses_bytes, 7 * MSS);
    assert_eq!(path.acked_since_loss_bytes, 0);
}

#[test]
fn an_underused_window_does_not_grow() {
    for entry in cc::CONTROLLERS {
        let mut sender = Sender::new(entry.name, &[50]);
        for _ in 0..10 {
            sender.ack(0, 50);
        }
        sender.lose_and_recover(0);
        // A quarter of the window in flight. The first two rounds still know the full flight.
        let path = sender.paths.get(PathId(0)).unwrap();
        let ack = cc::Ack {
            acked_bytes: MSS,
            acked_packets: 1,
            newest_sent: sender.now,
            in_flight_before_bytes: path.cwnd_bytes / 4,
            rtt_sample: None,
            app_limited: true,
        };
        let mut before = 0;
        for round in 0..50 {
            if round == 2 {
                before = sender.cwnd(0);
            }
            sender.now += 50 * MS;
            let ack = cc::Ack {
                newest_sent: sender.now,
                ..ack
            };
            sender
                .group
                .on_ack(sender.now, &mut sender.paths, PathId(0), &ack);
        }
        assert_eq!(sender.cwnd(0), before, "{}", entry.name);
    }
}

#[test]
fn persistent_congestion_leaves_the_least_window_and_half_the_threshold() {
    for (name, kept, least_packets) in [
        ("uncoupled-reno", 0.5, 2),
        ("lia", 0.5, 3),
        ("olia:min-window=2", 0.5, 2),
        ("uncoupled-cubic", 0.7, 2),
    ] {
        let mut sender = Sender::new(name, &[50]);
        sender.ack(0, 10);
        sender.lose_as(0, Duration::ZERO, true);
        let path = sender.paths.get(PathId(0)).unwrap();
        assert_eq!(path.cwnd_bytes, least_packets * MSS, "{name}");
        assert_eq!(path.ssthresh_bytes, (20.0 * kept) as u64 * MSS, "{name}");
        assert!(!path.in_recovery);
        assert!(path.in_slow_start());
    }
}

#[test]
fn the_pacing_rate_follows_window_and_rtt() {
    let rate = |sender: &Sender| {
        let window = sender.group.window(&sender.paths, PathId(0)).unwrap();
        window.pacing_rate_bytes_per_sec
    };
    let mut sender = Sender::new("uncoupled-reno", &[]);
    sender.join(PathId(0));
    assert_eq!(rate(&sender), None);
    let mut sender = Sender::new("uncoupled-reno", &[100]);
    sender.ack(0, 1);
    // Slow start: 2 * 13200 B / 0.1 s.
    assert_eq!(rate(&sender), Some(264_000));
    sender.lose(0, Duration::ZERO);
    // Then 1.25 * 6600 B / 0.1 s.
    assert_eq!(rate(&sender), Some(82_500));
}

#[test]
fn migration_starts_over() {
    let mut sender = Sender::new("uncoupled-cubic", &[50]);
    sender.ack(0, 10);
    sender.lose(0, Duration::ZERO);
    sender
        .group
        .on_path_migrated(sender.now, &mut sender.paths, PathId(0));
    let path = sender.paths.get(PathId(0)).unwrap();
    assert_eq!(path.cwnd_bytes, 10 * MSS);
    assert_eq!(path.ssthresh_bytes, SSTHRESH_UNSET);
    assert_eq!(
        (path.acked_since_loss_bytes, path.acked_between_losses_bytes),
        (0, 0)
    );
    assert!(!path.in_recovery);
}

#[test]
fn a_new_packet_size_moves_only_an_unused_initial_window() {
    let mut sender = Sender::new("uncoupled-reno", &[50, 50]);
    sender.ack(1, 10);
    for id in [0, 1] {
        sender.paths.get_mut(PathId(id)).unwrap().mss_bytes = 1400;
        sender
            .group
            .on_mss_changed(&mut sender.paths, PathId(id), 14_000);
    }
    assert_eq!(sender.cwnd(0), 14_000);
    assert_eq!(sender.cwnd(1), 20 * MSS);
    // The floor is two of the new packets.
    for _ in 0..10 {
        sender.lose_and_recover(1);
    }
    assert_eq!(sender.cwnd(1), 2800);
}

#[test]
fn a_path_that_closes_in_recovery_leaves_no_trace() {
    for entry in cc::CONTROLLERS {
        let mut sender = Sender::new(entry.name, &[50]);
        sender.ack(0, 10);
        sender.lose_and_recover(0);
        sender.join(PathId(1));
        sender.paths.get_mut(PathId(1)).unwrap().rtt = Some(Rtt::first(50 * MS));
        sender.ack(1, 10);
        sender.lose(1, Duration::ZERO);
        sender.leave(PathId(1));

        let mut alone = Sender::new(entry.name, &[50]);
        alone.ack(0, 10);
        alone.lose_and_recover(0);
        for _ in 0..100 {
            for sender in [&mut sender, &mut alone] {
                sender.now += MS;
                sender.ack(0, 1);
            }
        }
        assert_eq!(sender.cwnd(0), alone.cwnd(0), "{}", entry.name);
        // A late event of the closed path does nothing.
        sender.lose(1, Duration::ZERO);
        assert_eq!(sender.group.window(&sender.paths, PathId(1)), None);
    }
}

#[test]
fn only_coupled_controllers_look_at_other_paths() {
    // The same events on path 0, next to a path that is loaded and congested.
    for entry in cc::CONTROLLERS {
        let [alone, next_to_it] = [1, 2].map(|paths| {
            let mut sender = Sender::new(entry.name, &[50, 80][..paths]);
            sender.ack(0, 10);
            for id in 0..paths as u64 {
                sender.lose(id, Duration::ZERO);
            }
            sender.now += 81 * MS;
            let mut windows = vec![];
            for _ in 0..2000 {
                sender.now += 5 * MS;
                for id in 0..paths as u64 {
                    sender.ack(id, 1);
                }
                windows.push(sender.cwnd(0));
            }
            windows
        });
        assert!(entry.coupled || alone == next_to_it, "{}", entry.name);
        // The path next to it is enough to tell.
        assert!(entry.name != "lia" || alone != next_to_it);
    }
}

#[test]
fn no_rtt_sample_is_no_obstacle() {
    // Models cannot do without.
    let windows = |entry: &&cc::Entry| !entry.with_defaults().is_model();
    for entry in cc::CONTROLLERS.iter().filter(windows) {
        let mut sender = Sender::new(entry.name, &[50]);
        sender.join(PathId(1));
        sender.ack(1, 10);
        sender.lose(1, Duration::ZERO);
        sender.now += 51 * MS;
        let before = sender.cwnd(1);
        sender.ack(1, 1);
        assert!(sender.cwnd(1) > before, "{}", entry.name);
        assert!(sender.cwnd(1) < before + MSS, "{}", entry.name);
    }
}

#[test]
fn coupled_paths_together_grow_like_one() {
    // Two paths of 10 packets and equal RTT, in congestion avoidance. A round of 20 acks in all:
    // Reno adds a packet to each; LIA alpha = 1/2 adds 20 * 0.5/20 = 0.5 packets in all;
    // OLIA's first term is 10/20^2 = 1/40 per ack, again 0.5 in all.
    for (name, sum) in [("uncoupled-reno", 2.0), ("lia", 0.5), ("olia", 0.5)] {
        let mut sender = Sender::new(name, &[50, 50]);
        for id in [0, 1] {
            sender.ack(id, 10);
            sender.lose(id, Duration::ZERO);
        }
        sender.now += 51 * MS;
        for _ in 0..10 {
            sender.ack(0, 1);
            sender.ack(1, 1);
        }
        let grown = sender.cwnd_packets(0) + sender.cwnd_packets(1) - 20.0;
        assert!(
            (grown - sum).abs() < 0.05 * sum,
            "{name}: {grown} is not {sum}"
        );
    }
}

#[test]
fn hystart_leaves_slow_start_when_the_rtt_grows() {
    for (hystart, leaves) in [(true, true), (false, false)] {
        let mut sender = Sender::new("uncoupled-reno", &[100]);
        sender.group = cc::Group::new(
            cc::by_name("uncoupled-reno").unwrap(),
            cc::Options {
                hystart,
                ..cc::Options::default()
            },
        );
        sender
            .group
            .on_path_added(sender.now, &mut sender.paths, PathId(0), 10 * MSS);
        // Ten acks per round; each round's RTT is 20 ms longer than the one before.
        for round in 0..10 {
            let rtt = MS * (100 + 20 * round);
            sender.paths.get_mut(PathId(0)).unwrap().rtt = Some(Rtt::first(rtt));
            sender.now += rtt;
            for _ in 0..10 {
                sender.ack(0, 1);
            }
        }
        let path = sender.paths.get(PathId(0)).unwrap();
        assert_eq!(path.ssthresh_bytes != SSTHRESH_UNSET, leaves);
        assert_eq!(path.congestion_events, 0);
    }
}

#[test]
fn controllers_that_measure_one_way_delays_ask_for_timestamps() {
    let names: Vec<_> = cc::CONTROLLERS
        .iter()
        .filter(|entry| Group::new(entry.with_defaults(), Options::default()).reads_one_way_delay())
        .map(|entry| entry.name)
        .collect();
    assert_eq!(
        names,
        ["ledbat", "fledbat", "dc-ledbat", "sbd-cubic", "sbd-bbr"]
    );
}

#[test]
fn every_controller_is_in_its_file() {
    for entry in cc::CONTROLLERS {
        let file = format!("{}/{}", env!("CARGO_MANIFEST_DIR"), entry.file());
        let source = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(
            source.contains(&format!("name: \"{}\"", entry.name)),
            "{file}"
        );
    }
}
