//! The path policies that the tools have, in scenarios.

mod common;

use common::run;

/// Seconds that 5 MB take over two links of 8 Mbit/s: 2.5 s together, 5 s over one of them.
fn took_s(policy: &str, size: &str, events: &[(String, &str)]) -> f64 {
    let events: String = events
        .iter()
        .map(|(at, what)| {
            format!("[[flow.event]]\nat = \"{at}\"\npath = \"a\"\nwhat = \"{what}\"\n")
        })
        .collect();
    let outcome = run(
        &format!(
            r#"
            duration = "120 s"
            [[link]]
            name = "a"
            rate = "8 Mbit/s"
            rtt = "20 ms"
            [[link]]
            name = "b"
            rate = "8 Mbit/s"
            rtt = "40 ms"
            [[flow]]
            name = "f"
            paths = ["a", "b"]
            path_policy = "{policy}"
            size = "{size}"
            {events}"#
        ),
        1,
    );
    assert_eq!(outcome.failure, None, "{policy}");
    assert_eq!(outcome.metrics["flow.f.completed"], 1.0, "{policy}");
    outcome.metrics["flow.f.completion_s"]
}

#[test]
fn a_policy_says_how_many_paths_carry() {
    for (policy, bounds) in [
        ("full-mesh", 2.5..4.0),
        ("full-mesh:max=1", 5.0..7.0),
        ("backup", 5.0..7.0),
        ("default-first", 5.0..7.0),
    ] {
        let took = took_s(policy, "5 MB", &[]);
        assert!(bounds.contains(&took), "{policy}: {took}");
    }
}

#[test]
fn every_policy_survives_the_end_of_a_link() {
    let lost = [("1 s".to_owned(), "carrier-lost")];
    for policy in ["full-mesh", "backup", "default-first"] {
        let took = took_s(policy, "5 MB", &lost);
        assert!(took < 8.0, "{policy}: {took}");
    }
}

#[test]
fn twenty_addresses_in_one_transfer() {
    let moves: Vec<_> = (1..=20)
        .map(|n| (format!("{} ms", 400 * n), "new-address"))
        .collect();
    // The other link alone would take 20 s.
    let took = took_s("full-mesh", "20 MB", &moves);
    assert!(took < 16.0, "{took}");
    // With one path at a time, the connection goes on from where it is.
    let took = took_s("full-mesh:max=1", "5 MB", &moves);
    assert!(took < 20.0, "{took}");
}
