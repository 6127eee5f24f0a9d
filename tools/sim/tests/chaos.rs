//! Connections in the worst of networks: a part of what `mpq chaos` runs.

use std::sync::atomic::AtomicBool;

use mpq_sim::chaos;
use mpq_sim::chaos::Plan;
use mpq_sim::chaos::Verdict;

/// Seeds that run here: about a minute of one processor.
const SEEDS: std::ops::Range<u64> = 0..400;

fn run(seed: u64) -> Verdict {
    chaos::run(seed, None, &AtomicBool::new(false)).expect("nobody stops it")
}

#[test]
fn the_same_seed_gives_the_same_connection() {
    for seed in [3, 4, 6] {
        assert_eq!(Plan::draw(seed), Plan::draw(seed));
        let (first, again) = (run(seed), run(seed));
        assert!(first.packets > 10, "{first:?}");
        assert_eq!(first, again);
    }
    assert_ne!(Plan::draw(3).text, Plan::draw(4).text);
}

#[test]
fn every_transfer_is_whole_or_the_network_says_why() {
    let failed: Vec<String> = SEEDS
        .map(run)
        .filter(|verdict| !verdict.cause.is_allowed())
        .map(|v| format!("mpq chaos --seed {}: {}: {}", v.seed, v.cause, v.detail))
        .collect();
    assert!(
        failed.is_empty(),
        "{} of {}:\n{}",
        failed.len(),
        SEEDS.end - SEEDS.start,
        failed.join("\n")
    );
}

#[test]
fn most_transfers_are_whole() {
    // A plan that lets nothing through shows nothing.
    let whole = (0..50).map(run).filter(|v| v.cause == chaos::Cause::Whole);
    let n = whole.count();
    assert!(n >= 30, "{n} of 50");
}
