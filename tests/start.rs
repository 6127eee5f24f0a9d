//! How a path begins (`start`).

mod common;

use common::network::Network;
use common::network::Queue;
use common::*;

use std::time::Duration;

use mpq_decision::cc;
use mpq_decision::cc::Start;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;
use proptest::prelude::*;

/// The controllers that have the parameter with all its words: BBR has two of them.
fn with_starts() -> impl Iterator<Item = &'static str> {
    with_param("start").filter(|name| !is_model(name))
}

fn is_model(name: &str) -> bool {
    cc::by_name(name).unwrap().is_model()
}

#[test]
fn every_coupled_controller_that_goes_by_losses_has_it() {
    let expected = coupled_by_losses();
    assert_eq!(with_starts().collect::<Vec<_>>(), expected);

    let start = |text: &str| text.parse::<cc::Choice>().unwrap().options().start;
    for name in expected {
        assert_eq!(start(name), Start::Suss);
        for (word, is) in [
            ("slow", Start::Slow),
            ("suss", Start::Suss),
            ("train", Start::Train),
            ("rho", Start::Rho),
        ] {
            assert_eq!(start(&format!("{name}:start={word}")), is);
        }
    }
    for name in with_param("start").filter(|name| is_model(name)) {
        assert_eq!(start(name), Start::Suss);
        assert_eq!(start(&format!("{name}:start=slow")), Start::Slow);
        assert!(format!("{name}:start=train").parse::<cc::Choice>().is_err());
    }
    assert_eq!(start("wvegas"), Start::Slow);
    assert_eq!(start("uncoupled-reno"), Start::Slow);
}

/// Packets acked on two idle links of 1000 and 2000 packets/s, 100 and 200 ms, within two seconds. The
/// model's senders pace their first flight, so that it tells nothing of the links.
fn begins(controller: &str) -> f64 {
    let mut network = Network::new(1);
    let near = network.link(1000.0, Queue::DropTail(200.0), 0.0);
    let far = network.link(2000.0, Queue::DropTail(400.0), 0.0);
    let flow = network.flow(controller, &[(near, 100 * MS), (far, 200 * MS)]);
    network.run(Duration::from_secs(2));
    network.acked_by(flow)
}

#[test]
fn a_sender_that_paces_its_first_flight_begins_no_slower() {
    for name in with_starts() {
        let slow = begins(&format!("{name}:start=slow"));
        for start in ["suss", "train"] {
            let other = begins(&format!("{name}:start={start}"));
            assert!(other >= 0.95 * slow, "{name} {start}: {other} and {slow}");
        }
    }
}

proptest! {
    #[test]
    fn a_round_trip_multiplies_by_eight_at_most(
        rounds in prop::collection::vec((1..40u32, 0..3000u64, 0..30u32), 1..8),
    ) {
        for start in ["slow", "suss", "rho"] {
            let mut sender = Sender::new(&format!("lia:start={start}"), &[50]);
            let most = if start == "slow" { 2 } else { 8 };
            for (acks, spacing_micros, queue_ms) in &rounds {
                let rtt = Rtt { min: 50 * MS, ..Rtt::first((50 + queue_ms) * MS) };
                sender.paths.get_mut(PathId(0)).unwrap().rtt = Some(rtt);
                sender.now += 120 * MS;
                let before = sender.cwnd(0);
                // No more than the window is acked.
                let acks = (*acks).min((before / MSS) as u32);
                for _ in 0..acks {
                    sender.now += Duration::from_micros(*spacing_micros).min(50 * MS / acks);
                    let least = sender.cwnd(0);
                    sender.ack(0, 1);
                    prop_assert!(sender.cwnd(0) >= least, "{start}: shrank");
                }
                prop_assert!(sender.cwnd(0) <= most * before, "{start}: {before} to {}", sender.cwnd(0));
            }
        }
    }
}
