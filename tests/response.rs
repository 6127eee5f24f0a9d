//! Mean windows under random loss against the published response functions, within 20 %.
//!
//! The model: a path of fixed RTT that loses each packet with probability p, whatever the rate. The
//! sender keeps its window full. The seeds are fixed, so the result is too.

mod common;

use common::random::Random;
use common::*;

use mpq_decision::PathId;

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

#[test]
fn sqrt_and_iiad_follow_their_law() {
    // 14.1, 44.7 and 141.4 packets.
    for name in ["sqrt", "iiad"] {
        for (loss, packets) in [(1e-2, 400_000), (1e-3, 2_000_000), (1e-4, 6_000_000)] {
            let window = mean_window(name, 100, loss, packets);
            assert_within_20_percent(window, (2.0 / loss).sqrt());
        }
    }
}

/// Equation 6 of the MCompound paper: packets per epoch over round trips per epoch (3 and 2).
fn compound_window(loss: f64) -> f64 {
    let (alpha, k, b): (f64, f64, f64) = (0.125, 0.75, 0.5);
    let lost_at =
        (alpha * (2.0 - k) / loss / (1.0 - (1.0 - b).powf(2.0 - k))).powf(1.0 / (2.0 - k));
    let rounds = lost_at.powf(1.0 - k) * (1.0 - (1.0 - b).powf(1.0 - k)) / (alpha * (1.0 - k));
    1.0 / loss / rounds
}

#[test]
fn compound_follows_equation_6() {
    // p = 1e-3: lost at (0.15625/5.7955e-4)^0.8 = 88.0 packets, 15.6 rounds: 64.1 packets.
    assert!((compound_window(1e-3) - 64.1).abs() < 0.1);
    for (loss, packets) in [(1e-3, 1_000_000), (1e-4, 4_000_000)] {
        let window = mean_window("compound:w_low=0", 100, loss, packets);
        assert_within_20_percent(window, compound_window(loss));
    }
    // p = 1e-2: below 16 packets alpha W^k < 1, so it is Reno.
    let window = mean_window("compound", 100, 1e-2, 200_000);
    assert_within_20_percent(window, 150_f64.sqrt());
}

#[test]
fn scalable_follows_kelly() {
    // Above 100 packets: a w per round trip, b w per loss: w = a/(b p): 0.08/1e-4 = 800.
    let window = mean_window("scalable", 100, 1e-4, 4_000_000);
    assert_within_20_percent(window, 0.08 / 1e-4);
}

#[test]
fn hybla_multiplies_reno_by_rho() {
    // rtt = 100 ms: rho = 4, rho^2 = 16 times the increase, so 4 times the window, in rate as on 25 ms.
    for (loss, packets) in [(1e-2, 400_000), (1e-3, 2_000_000)] {
        let window = mean_window("hybla", 100, loss, packets);
        assert_within_20_percent(window, 4.0 * (1.5 / loss).sqrt());
    }
}

#[test]
fn mpmtp_on_one_path_has_cubics_window() {
    for (loss, packets) in [(1e-3, 1_000_000), (1e-4, 4_000_000)] {
        let window = mean_window("mpmtp", 100, loss, packets);
        println!("{loss}: {window} of {}", 1.054 * (0.1 / loss).powf(0.75));
        assert_within_20_percent(window, 1.054 * (0.1 / loss).powf(0.75));
    }
}
