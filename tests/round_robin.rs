//! Round robin's shares, worked by hand.

mod common;

use common::bench::Bench;
use common::bench::NEW;
use common::MSS;

use mpq_decision::sched::Pick;

/// What each of `n` paths carries of so many packets, when each burst is used up and acknowledged.
fn packets(bench: &mut Bench, n: usize, packets: u64) -> Vec<u64> {
    let mut carried = vec![0; n];
    let mut left = packets;
    while left > 0 {
        let Pick::Send {
            path,
            quantum_bytes,
        } = bench.pick(NEW)
        else {
            panic!("no path");
        };
        let burst = (quantum_bytes / MSS).clamp(1, left);
        bench.connection.sent_bytes += burst * MSS;
        carried[path.0 as usize] += burst;
        left -= burst;
    }
    carried
}

#[test]
fn equal_shares_whatever_the_rtt() {
    let mut bench = Bench::new("round-robin", &[(10, 100), (300, 100)]);
    assert_eq!(packets(&mut bench, 2, 800), [400, 400]);
}

#[test]
fn shares_by_weight() {
    let mut bench = Bench::new("round-robin:w0=3", &[(10, 100), (300, 100)]);
    assert_eq!(packets(&mut bench, 2, 800), [600, 200]);
    // A hundredth of the largest: one packet in 101.
    let mut bench = Bench::new("round-robin:w1=0.01", &[(10, 100), (10, 100)]);
    let shares = packets(&mut bench, 2, 1010);
    assert!((9..=11).contains(&shares[1]), "{shares:?}");
    // The fourth weight is that of all further paths.
    let mut bench = Bench::new("round-robin:w3=2", &[(10, 100); 5]);
    assert_eq!(packets(&mut bench, 5, 700), [100, 100, 100, 200, 200]);
}

/// 20 and 100 packets in 100 ms and 50 ms: 200 and 2,000 in a second.
#[test]
fn shares_by_rate() {
    let mut bench = Bench::new("round-robin:by=rate", &[(100, 20), (50, 100)]);
    bench.path(0).cwnd_bytes = 20 * MSS;
    bench.path(0).in_flight_bytes = 0;
    let shares = packets(&mut bench, 2, 1100);
    assert!((95..=105).contains(&shares[0]), "{shares:?}");
}

/// A path that was full for long has one quantum of eight packets to catch up, not all it missed.
#[test]
fn missed_turns_are_gone() {
    let mut bench = Bench::new("round-robin", &[(10, 100), (10, 100)]);
    packets(&mut bench, 2, 80);
    bench.path(1).in_flight_bytes = 100 * MSS;
    assert_eq!(packets(&mut bench, 2, 400), [400, 0]);
    bench.path(1).in_flight_bytes = 0;
    let shares = packets(&mut bench, 2, 80);
    assert!((40..=56).contains(&shares[1]), "{shares:?}");
}

/// The burst ends early, at an ack: the turn goes on.
#[test]
fn a_turn_lasts_for_its_quantum() {
    let mut bench = Bench::new("round-robin", &[(10, 100), (300, 100)]);
    let mut order = Vec::new();
    for _ in 0..32 {
        order.push(bench.sends_on(NEW));
        bench.connection.sent_bytes += MSS;
    }
    let turns: Vec<usize> = order.chunk_by(|a, b| a == b).map(<[u64]>::len).collect();
    assert!(turns.iter().all(|turn| *turn <= 9), "{order:?}");
    assert_eq!(order.iter().filter(|path| **path == 0).count(), 16);
}
