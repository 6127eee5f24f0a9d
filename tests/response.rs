//! Mean windows under random loss against the published response functions, within 20 %.
//!
//! The model: a path of fixed RTT that loses each packet with probability p, whatever the rate. The
//! sender keeps its window full. The seeds are fixed, so the result is too.

mod common;

use common::*;

use mpq_decision::PathId;

/// A small generator (SplitMix64), so that the runs do not depend on a library's version.
struct Random(u64);

impl Random {
    fn happens(&mut self, probability: f64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64 <= probability
    }
}

/// The mean window in packets over time, after the first tenth of the run. One ack or loss per
/// step; a window of w packets takes w steps per RTT.
fn mean_window(controller: &str, rtt_ms: u32, loss: f64, packets: u64) -> f64 {
    let mut sender = Sender::new(controller, &[rtt_ms]);
    let mut random = Random(7);
    // Loses once early on: the response functions describe congestion avoidance.
    sender.lose_and_recover(0);

    let (mut area, mut time) = (0.0, 0.0);
    for packet in 0..packets {
        let window = sender.cwnd_packets(0);
        let step = MS * rtt_ms / window as u32;
        sender.now += step;
        match random.happens(loss) {
            // Detected an RTT after it was sent, as acks are.
            true => sender.lose(0, MS * rtt_ms),
            false => sender.ack(0, 1),
        }
        if packet > packets / 10 {
            area += window * step.as_secs_f64();
            time += step.as_secs_f64();
        }
    }
    assert!(sender.paths.get(PathId(0)).unwrap().congestion_events > 100);
    area / time
}

fn assert_within_20_percent(window: f64, expected: f64) {
    let ratio = window / expected;
    assert!(
        (0.8..=1.2).contains(&ratio),
        "mean window {window}, expected {expected}"
    );
}

#[test]
fn reno_follows_the_square_root_law() {
    // w = sqrt(3/(2p)): 12.2, 38.7, 122.5 packets (RFC 5681; saw-tooth without delayed acks).
    for (loss, packets) in [(1e-2, 200_000), (1e-3, 1_000_000), (1e-4, 4_000_000)] {
        let window = mean_window("uncoupled-reno", 100, loss, packets);
        assert_within_20_percent(window, (1.5 / loss).sqrt());
    }
}

#[test]
fn cubic_follows_rfc_9438() {
    // w = 1.054 (rtt/p)^(3/4) where that exceeds Reno's: RFC 9438, section 5, equation 6.
    // At 100 ms: 187 packets for p = 1e-4; at 200 ms 316; for p = 1e-3 at 100 ms Reno's 38.
    for (rtt_ms, loss, packets, expected) in [
        (100, 1e-3, 1_000_000, 38.7),
        (100, 1e-4, 4_000_000, 1.054 * 1e3_f64.powf(0.75)),
        (200, 1e-4, 4_000_000, 1.054 * 2e3_f64.powf(0.75)),
    ] {
        let window = mean_window("uncoupled-cubic", rtt_ms, loss, packets);
        assert_within_20_percent(window, expected);
    }
}
