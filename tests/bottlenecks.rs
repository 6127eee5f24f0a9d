//! Paths that share a bottleneck, as delays tell it, and what controllers make of it there: shares
//! beside one flow, queues, and probes of a group.

mod common;

use common::network::Network;
use common::network::Queue;
use common::MS;

use std::time::Duration;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[track_caller]
fn assert_within(what: &str, value: f64, [least, most]: [f64; 2]) {
    println!("{what}: {value:.3}");
    assert!(
        (least..=most).contains(&value),
        "{what}: {value} is not within {least} to {most}"
    );
}

#[test]
fn delays_that_move_together_couple_what_shares_a_queue_and_nothing_else() {
    for name in ["sbd-cubic", "sbd-bbr"] {
        for one_way in [false, true] {
            for rates in [[2000.0, 2000.0], [2000.0, 1000.0], [800.0, 800.0]] {
                let coupled_secs = |disjoint: bool| {
                    let mut network = Network::new(1);
                    let links = rates.map(|rate| network.link(rate, Queue::DropTail(100.0), 0.0));
                    let second = if disjoint { links[1] } else { links[0] };
                    let routes = [(links[0], 40 * MS), (second, 85 * MS)];
                    let flow = network.flow_that(name, &routes, one_way);
                    network.flow_that("uncoupled-cubic", &routes[..1], one_way);
                    network.warm_up(secs(10));
                    let mut coupled = 0;
                    for _ in 0..30 {
                        network.run(secs(1));
                        coupled += u32::from(network.shown(flow, 0, "set_paths") > 1.0);
                    }
                    coupled
                };
                let (shared, disjoint) = (coupled_secs(false), coupled_secs(true));
                println!("{name} {one_way} {rates:?}: {shared} and {disjoint} of 30 s");
                assert_eq!(disjoint, 0, "{name}, disjoint, {rates:?}");
                assert!(shared >= 27, "{name}: {shared} at {rates:?}");
            }
        }
    }
}

/// Goodput of two paths of `multipath` over that of one flow of `single` through one link with a queue of
/// its BDP.
fn share(multipath: &str, single: &str, rtt: Duration) -> f64 {
    let mut network = Network::new(1);
    let bdp = 2000.0 * rtt.as_secs_f64();
    let link = network.link(2000.0, Queue::DropTail(bdp), 0.0);
    let multipath = network.flow(multipath, &[(link, rtt), (link, rtt + 3 * MS)]);
    let single = network.flow(single, &[(link, rtt)]);
    network.warm_up(secs(20));
    network.run(secs(40));
    network.acked_by(multipath) / network.acked_by(single)
}

#[test]
fn two_paths_beside_one_flow_of_their_kind() {
    for (multipath, single, bounds) in [
        ("sbd-cubic", "uncoupled-cubic", [0.6, 1.4]),
        ("sbd-bbr:compete=off", "uncoupled-bbr", [0.6, 1.4]),
        ("sbd-bbr", "uncoupled-cubic", [0.6, 1.4]),
        ("sbd-bbr:compete=one-cubic", "uncoupled-cubic", [0.6, 1.4]),
        ("uncoupled-cubic", "uncoupled-cubic", [1.7, 3.5]),
    ] {
        // Nothing is drawn in this network, and one run is a matter of chance all the same: who probes
        // when a queue is full differs by a packet.
        let shares: Vec<f64> = (16..=60)
            .step_by(4)
            .map(|rtt| share(multipath, single, rtt * MS))
            .collect();
        let mean = shares.iter().map(|share| share.ln()).sum::<f64>() / shares.len() as f64;
        println!("{multipath}, {single}: {shares:.2?}");
        assert_within(&format!("{multipath}, {single}"), mean.exp(), bounds);
    }
}

#[test]
fn a_group_alone_keeps_the_queue_of_one_flow() {
    for paths in [1, 2, 4] {
        let mut network = Network::new(1);
        let link = network.link(2000.0, Queue::DropTail(320.0), 0.0);
        let routes: Vec<_> = (0..paths).map(|i| (link, (40 + i) * MS)).collect();
        let flow = network.flow("sbd-bbr", &routes);
        network.warm_up(secs(10));
        let mut queued = 0.0;
        for _ in 0..300 {
            network.run(Duration::from_millis(67));
            queued += network.queued(link) / 300.0;
        }
        println!(
            "{paths}: {} {}",
            queued,
            network.acked_by(flow) / 2000.0 / 20.1
        );
    }
}
