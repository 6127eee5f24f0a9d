//! The handshake by the better path: attempts over the paths of a flow, of which one is kept.

mod common;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;

use common::run;
use mpq_sim::scenario::Document;
use mpq_sim::world;
use mpq_sim::world::Ending;
use mpq_sim::world::Outcome;

/// A slow link first, and a fast one.
fn scenario(of_flow: &str) -> String {
    format!(
        r#"
        duration = "100 s"
        [[link]]
        name = "far"
        rate = "10 Mbit/s"
        rtt = "300 ms"
        [[link]]
        name = "near"
        rate = "10 Mbit/s"
        rtt = "12 ms"
        [[flow]]
        name = "f"
        paths = ["far", "near"]
        size = "1 MB"
        {of_flow}"#
    )
}

fn metric(outcome: &Outcome, name: &str) -> f64 {
    assert_eq!(outcome.failure, None);
    outcome.metrics[&format!("flow.f.{name}")]
}

/// The same, until both ends of everything have closed.
fn run_on(text: &str) -> (Outcome, Ending) {
    let text = format!("question = 'q'\nexpected = 'e'\n{text}");
    let document = Document::parse(Path::new("x.toml"), text, &[], None).unwrap();
    let options = world::Options {
        folder: Path::new("."),
        seed: 1,
        out: None,
        qlog: false,
        stop: &AtomicBool::new(false),
        progress: &AtomicU64::new(0),
        linger: true,
        most_events: u64::MAX,
    };
    let (outcome, mut endings) = world::run_closely(&document.cases[0].scenario, &options).unwrap();
    (outcome, endings.remove(0))
}

#[test]
fn the_better_path_has_the_handshake_after_the_delay() {
    let alone = run(&scenario(""), 1);
    assert_eq!(metric(&alone, "attempts"), 1.0);
    assert!(metric(&alone, "handshake_ms") > 300.0);
    for (delay_ms, attempts) in [(20, 2.0), (100, 2.0), (1000, 1.0)] {
        let outcome = run(&scenario(&format!("attempt_delay = '{delay_ms} ms'")), 1);
        assert_eq!(metric(&outcome, "attempts"), attempts);
        let handshake_ms = metric(&outcome, "handshake_ms");
        let wanted_ms = if attempts > 1.0 {
            delay_ms as f64 + 12.0
        } else {
            300.0
        };
        // And what three datagrams take at 10 Mbit/s.
        let bounds = wanted_ms..wanted_ms + 8.0;
        assert!(bounds.contains(&handshake_ms), "{delay_ms}: {handshake_ms}");
        // Both paths carry.
        assert!(metric(&outcome, "path.near.share") > 0.1);
        let gain_s = metric(&alone, "completion_s") - metric(&outcome, "completion_s");
        assert!(gain_s > 0.1 || attempts == 1.0, "{delay_ms}: {gain_s}");
    }
}

/// Whoever answers within the delay is alone: an attempt costs nothing then.
#[test]
fn a_path_that_answers_in_time_has_no_rival() {
    let text = scenario("attempt_delay = '20 ms'").replace("300 ms", "15 ms");
    let outcome = run(&text, 1);
    assert_eq!(metric(&outcome, "attempts"), 1.0);
    let without = run(&scenario("").replace("300 ms", "15 ms"), 1);
    assert_eq!(outcome.packet_log, without.packet_log);
}

/// What the attempt that lost costs: a first flight each way and a close; nothing stays of it.
#[test]
fn the_other_attempt_ends_and_costs_a_flight() {
    let (outcome, ending) = run_on(&scenario("attempt_delay = '20 ms'"));
    assert_eq!(metric(&outcome, "attempts"), 2.0);
    assert_eq!(ending.is_closed, [true, true]);
    // Long before an idle timeout, which is 60 s here.
    assert!(
        outcome.simulated.as_secs_f64() < 20.0,
        "{:?}",
        outcome.simulated
    );
}

#[test]
fn a_dead_first_path_costs_the_delay() {
    let dead =
        scenario("attempt_delay = '20 ms'").replace("\"300 ms\"", "\"300 ms\"\nloss = \"100 %\"");
    let outcome = run(&dead, 1);
    assert!(metric(&outcome, "handshake_ms") < 45.0);
    assert_eq!(metric(&outcome, "path.near.share"), 1.0);
}

/// A path that stands by, or comes later, is not raced.
#[test]
fn what_stands_by_waits_for_the_delay_of_rfc_8305() {
    for (near, handshake_ms) in [
        ("{ name = \"near\", backup = true }", 250.0 + 12.0),
        ("{ name = \"near\", start = \"5 s\" }", 300.0),
    ] {
        let text = scenario("attempt_delay = '20 ms'").replace("\"near\"]", &format!("{near}]"));
        let outcome = run(&text, 1);
        let took_ms = metric(&outcome, "handshake_ms");
        let bounds = handshake_ms..handshake_ms + 8.0;
        assert!(bounds.contains(&took_ms), "{near}: {took_ms}");
    }
}
