//! The window of a path whose acknowledgments take another way back: the rate stays.

mod common;

use common::*;

use std::time::Duration;

use mpq_decision::registry::Rtt;
use mpq_decision::PathId;

const SKY: PathId = PathId(1);

/// A landline of 20 ms and a satellite of 600.
fn sender(controller: &str) -> Sender {
    Sender::new(controller, &[20, 600])
}

/// Acknowledges a packet of the satellite that came back by path `way`.
fn ack_by(sender: &mut Sender, way: u64, rtt_ms: u32) {
    let path = sender.paths.get_mut(SKY).unwrap();
    path.way_back = PathId(way);
    path.rtt = Some(Rtt::first(MS * rtt_ms));
    sender.now += MS;
    sender.ack(SKY.0, 1);
}

#[test]
fn a_shorter_way_needs_less_in_flight_and_a_longer_one_more() {
    let mut sender = sender("lia");
    while sender.cwnd_packets(SKY.0) < 100.0 {
        ack_by(&mut sender, 1, 600);
    }
    sender.lose_and_recover(SKY.0);
    ack_by(&mut sender, 1, 600);
    // Half of 100 packets: 50 in 600 ms are 25.8 in 310 ms.
    assert!((50.0..50.1).contains(&sender.cwnd_packets(SKY.0)));
    ack_by(&mut sender, 0, 310);
    let near = sender.cwnd_packets(SKY.0);
    assert!((25.8..26.0).contains(&near), "{near}");

    // And back: not at once, but as in slow start, to 600/310 times as much.
    ack_by(&mut sender, 1, 600);
    assert!(sender.paths.get(SKY).unwrap().in_slow_start());
    assert!((near + 0.9..near + 1.1).contains(&sender.cwnd_packets(SKY.0)));
    for _ in 0..100 {
        ack_by(&mut sender, 1, 600);
    }
    let far = sender.cwnd_packets(SKY.0);
    assert!((near * 1.93..near * 1.93 + 4.0).contains(&far), "{far}");
    assert!(!sender.paths.get(SKY).unwrap().in_slow_start());
}

#[test]
fn slow_start_goes_on() {
    let mut sender = sender("lia");
    for n in 0..40 {
        // The second half by the landline: doubled twice, as without a change.
        let (way, rtt_ms) = if n < 20 { (1, 600) } else { (0, 310) };
        ack_by(&mut sender, way, rtt_ms);
    }
    assert_eq!(sender.cwnd(SKY.0), 50 * MSS);
    assert!(sender.paths.get(SKY).unwrap().in_slow_start());
}

/// Ways that take turns neither shrink nor blow up what a path may send.
#[test]
fn ways_that_take_turns() {
    for mix in [[600, 310], [600, 1], [1, 600]] {
        let mut sender = sender("lia");
        sender.lose(SKY.0, Duration::ZERO);
        let before = sender.cwnd_packets(SKY.0);
        for n in 0..100 {
            ack_by(&mut sender, [1, 0][n % 2], mix[n % 2]);
        }
        // One packet for each acknowledgment is what slow start grows by.
        let after = sender.cwnd_packets(SKY.0);
        assert!((2.0..before + 100.0).contains(&after), "{mix:?}: {after}");
    }
}
