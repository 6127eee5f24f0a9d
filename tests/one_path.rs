//! On one path every coupled controller is the controller it extends, but for how it begins.

mod common;

use common::network::Network;
use common::network::Queue;
use common::random::Random;
use common::*;

use std::time::Duration;

use mpq_decision::cc;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;

/// Feeds both the same ACKs, losses and RTTs and compares the windows after each.
fn assert_same(coupled: &str, parent: &str, queue_ms: u32) {
    let separator = if coupled.contains(':') { ',' } else { ':' };
    let doubling = format!("{coupled}{separator}start=slow");
    let ours = match doubling.parse::<cc::Choice>() {
        Ok(_) => &doubling,
        Err(_) => coupled,
    };
    let mut senders = [Sender::new(ours, &[70]), Sender::new(parent, &[70])];
    let mut random = Random(11);
    for step in 0..5000 {
        let loses = random.happens(0.01);
        let rtt = MS * (70 + queue_ms * (step / 150 % 4));
        for sender in &mut senders {
            let path = sender.paths.get_mut(PathId(0)).unwrap();
            path.rtt = Some(Rtt {
                min: 70 * MS,
                ..Rtt::first(rtt)
            });
            sender.now += 3 * MS;
            match loses {
                true => sender.lose_and_recover(0),
                false => sender.ack(0, 1 + u64::from(step % 3)),
            }
        }
        let [coupled_cwnd, parent_cwnd] = [senders[0].cwnd(0), senders[1].cwnd(0)];
        // Fractions of a byte add up, where one of them keeps a window of its own.
        assert!(
            coupled_cwnd.abs_diff(parent_cwnd) <= 2 + parent_cwnd / 1000,
            "{coupled} at {step}: {coupled_cwnd} is not {parent_cwnd} of {parent}"
        );
    }
    let path = senders[0].paths.get(PathId(0)).unwrap();
    assert!(path.congestion_events > 10);
}

#[test]
fn relatives_of_reno() {
    for coupled in [
        "ewtcp",
        "ewtcp-printed",
        "coupled",
        "lia",
        "olia",
        "balia",
        "coupled-cubic:class=small",
    ] {
        assert_same(coupled, "uncoupled-reno", 0);
        assert_same(coupled, "uncoupled-reno", 8);
    }
}

#[test]
fn relatives_of_others() {
    for (coupled, parent) in [
        ("mpcubic", "uncoupled-cubic"),
        ("sbd-cubic", "uncoupled-cubic"),
        ("coupled-cubic:class=large", "uncoupled-cubic"),
        ("coupled-cubic:class=large,clock=plain", "uncoupled-cubic"),
        ("mpsqrt", "sqrt"),
        ("mpiiad", "iiad"),
        ("mpfast", "fast"),
        ("mcompound", "compound"),
        ("mcompound:w_low=0,gamma=10", "compound:w_low=0,gamma=10"),
        // Without a queue; with one, DC-LEDBAT takes the last sample and fLEDBAT the least of four.
    ] {
        assert_same(coupled, parent, 0);
        assert_same(coupled, parent, 8);
    }
    assert_same("dc-ledbat", "fledbat", 0);
}

#[test]
fn wvegas_keeps_its_total_in_the_queue_as_vegas_would() {
    // alpha = 10 of 10 for the only path; the window moves by a packet per round trip around it.
    for name in ["wvegas", "vegas:alpha=10,beta=10"] {
        let mut network = Network::new(1);
        let link = network.link(2000.0, Queue::DropTail(500.0), 0.0);
        network.flow(name, &[(link, 40 * MS)]);
        network.run(Duration::from_secs(30));
        for _ in 0..20 {
            network.run(Duration::from_secs(1));
            let queued = network.queued(link);
            assert!((8.0..=13.0).contains(&queued), "{name}: {queued} packets");
        }
    }
}

#[test]
fn fast_keeps_a_packets_in_the_queue() {
    for a in [10.0, 40.0] {
        let mut network = Network::new(1);
        let link = network.link(2000.0, Queue::DropTail(500.0), 0.0);
        network.flow(&format!("fast:a={a}"), &[(link, 40 * MS)]);
        network.run(Duration::from_secs(30));
        let queued = network.queued(link);
        assert!((queued - a).abs() < 0.1 * a + 1.0, "{queued} for {a}");
    }
}

#[test]
fn probing_costs_dc_ledbat_two_percent() {
    // The paper's table I: 97.8 % of fLEDBAT's throughput at 100 Mbit/s and 40 ms; the window is at
    // ten packets for 200 ms of every 10.2 s, that is 2 %, less what the queue covers.
    let throughput = |name: &str| {
        let mut network = Network::new(1);
        let link = network.link(8333.0, Queue::DropTail(4000.0), 0.0);
        let flow = network.flow(name, &[(link, 40 * MS)]);
        network.warm_up(Duration::from_secs(100));
        network.run(Duration::from_secs(100));
        network.acked_by(flow)
    };
    let ratio = throughput("dc-ledbat") / throughput("fledbat");
    println!("{ratio:.4}");
    assert!((0.97..0.995).contains(&ratio), "{ratio}");
}
