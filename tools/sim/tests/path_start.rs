//! How a second path begins when its first packets are lost.

mod common;

use common::run;
use mpq_sim::world::Outcome;

/// More than the validation of a path and its repetitions come to.
const IN_USE_BYTES: f64 = 50_000.0;

/// Two links whose second one loses what `loss` says, and an endless download over both. The path
/// is opened when the handshake is confirmed, later than 40 ms.
fn two_links(loss: &str, rest: &str) -> String {
    format!(
        r#"
        [[link]]
        name = "wifi"
        rate = "30 Mbit/s"
        rtt = "20 ms"
        [[link]]
        name = "lte"
        rate = "20 Mbit/s"
        rtt = "50 ms"
        {loss}
        [[flow]]
        name = "f"
        paths = ["wifi", "lte"]
        cc = "uncoupled-cubic"
        {rest}"#
    )
}

/// All sets of one, two or three of the first eight packets.
fn loss_sets() -> Vec<String> {
    (1..256_u32)
        .filter(|set| set.count_ones() <= 3)
        .map(|set| {
            let numbers = (0..8).filter(|n| set & (1 << n) != 0);
            numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(",")
        })
        .collect()
}

/// Bytes that arrived on the second path by the end.
fn second_path_bytes(outcome: &Outcome, seconds: f64) -> f64 {
    outcome.metrics["flow.f.path.lte.goodput_mbps"] * 1e6 / 8.0 * seconds
}

/// The path is in use 1.5 s after it was opened, whatever was lost.
#[test]
fn any_three_of_the_first_packets_of_a_path_may_be_lost() {
    let sets = loss_sets();
    assert_eq!(sets.len(), 8 + 28 + 56);
    for set in sets {
        for loss in [
            format!("loss = 'packets:{set}'"),
            format!("up = {{ loss = 'packets:{set}' }}"),
            format!("down = {{ loss = 'packets:{set}' }}"),
        ] {
            let scenario = format!("duration = '1.54 s'\n{}", two_links(&loss, ""));
            let outcome = run(&scenario, 1);
            assert_eq!(outcome.failure, None);
            let bytes = second_path_bytes(&outcome, 1.54);
            assert!(bytes > IN_USE_BYTES, "{loss}: {bytes} bytes");
        }
    }
}

/// Two initial windows: what comes after the first was let out by acknowledgments of the path.
const ANSWERED_BYTES: f64 = 2.0 * 14_720.0;

/// Of so many connections, those whose second path stayed unused for 20 s.
fn unused(loss_percent: u32, seeds: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let loss = format!("loss = '{loss_percent} %'");
    let scenario = format!("duration = '20 s'\n{}", two_links(&loss, ""));
    let least = match loss_percent {
        0..=5 => IN_USE_BYTES,
        _ => ANSWERED_BYTES,
    };
    let mut all = Vec::new();
    let unused = seeds
        .filter(|seed| {
            let outcome = run(&scenario, *seed);
            assert_eq!(outcome.failure, None, "seed {seed}");
            let bytes = second_path_bytes(&outcome, 20.0);
            all.push(bytes as u64);
            bytes < least
        })
        .collect();
    all.sort_unstable();
    println!(
        "{loss_percent} %: {} runs, least {} bytes, median {}",
        all.len(),
        all[0],
        all[all.len() / 2]
    );
    unused
}

#[test]
fn a_lossy_path_is_used() {
    for loss_percent in [5, 20] {
        assert_eq!(unused(loss_percent, 1..=10), Vec::<u64>::new());
    }
}

/// The same with 1,000 seeds: `cargo test --release -p mpq-sim --test path_start -- --ignored`.
#[test]
#[ignore = "takes long; a_lossy_path_is_used has the first ten seeds"]
fn a_lossy_path_is_used_1000_times() {
    for loss_percent in [5, 20] {
        assert_eq!(unused(loss_percent, 1..=1000), Vec::<u64>::new());
    }
}

/// A sender that remembers a path resumes carefully (RFC 9959), but not if its RTT is another one now.
#[test]
fn a_known_path_begins_with_more() {
    let bytes = |known: &str| {
        let scenario = format!(
            r#"
            duration = "2 s"
            [[link]]
            name = "land"
            rate = "1 Mbit/s"
            rtt = "20 ms"
            [[link]]
            name = "sky"
            rate = "10 Mbit/s"
            rtt = "300 ms"
            [[flow]]
            name = "f"
            paths = ["land", {{ name = "sky" {known} }}]
            cc = "lia:start=slow"
            ack_detours = false
            "#
        );
        let outcome = run(&scenario, 1);
        assert_eq!(outcome.failure, None);
        outcome.metrics["flow.f.path.sky.goodput_mbps"] * 1e6 / 8.0 * 2.0
    };
    let cold = bytes("");
    let known = bytes(", known = { window = \"375 kB\", rtt = \"300 ms\" }");
    let other = bytes(", known = { window = \"375 kB\", rtt = \"700 ms\" }");
    assert!(known > 1.3 * cold, "{known} bytes, {cold} without");
    assert_eq!(other, cold);
}

/// A client that asks later does so when the second path is there: both begin together.
#[test]
fn a_first_request_waits_for_the_other_paths() {
    let bytes = |rest: &str, seconds: &str| {
        let scenario = format!("duration = '{seconds} s'\n{}", two_links("", rest));
        let outcome = run(&scenario, 1);
        assert_eq!(outcome.failure, None);
        outcome.metrics["flow.f.delivered_bytes"]
    };
    // The handshake takes 40 ms; with 500 ms more nothing comes for 540 ms and a round trip.
    assert!(bytes("", "0.5") > 100_000.0);
    assert_eq!(bytes("first_request = '500 ms'", "0.5"), 0.0);
    assert!(bytes("first_request = '500 ms'", "1.5") > 1_000_000.0);
}
