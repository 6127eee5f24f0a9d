//! The path policies that the tools have, in scenarios.

mod common;

use common::event;
use common::run;
use common::took_s;
use common::two_links;

/// Seconds that a transfer takes over two links with this policy.
fn transfer_s(policy: &str, size: &str, events: &[(String, &str)]) -> f64 {
    let events: String = events.iter().map(|(at, what)| event(at, what)).collect();
    let links = two_links("");
    let outcome = run(
        &format!(
            r#"
            duration = "120 s"
            {links}
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
    took_s(&outcome)
}

#[test]
fn a_policy_says_how_many_paths_carry() {
    for (policy, bounds) in [
        ("full-mesh", 2.5..4.0),
        ("full-mesh:max=1", 5.0..7.0),
        ("backup", 5.0..7.0),
        ("default-first", 5.0..7.0),
    ] {
        let took = transfer_s(policy, "5 MB", &[]);
        assert!(bounds.contains(&took), "{policy}: {took}");
    }
}

#[test]
fn every_policy_survives_the_end_of_a_link() {
    let lost = [("1 s".to_owned(), "carrier-lost")];
    for policy in ["full-mesh", "backup", "default-first"] {
        let took = transfer_s(policy, "5 MB", &lost);
        assert!(took < 8.0, "{policy}: {took}");
    }
}

#[test]
fn twenty_addresses_in_one_transfer() {
    let moves: Vec<_> = (1..=20)
        .map(|n| (format!("{} ms", 400 * n), "new-address"))
        .collect();
    // The other link alone would take 20 s.
    let took = transfer_s("full-mesh", "20 MB", &moves);
    assert!(took < 16.0, "{took}");
    // With one path at a time, the connection goes on from where it is.
    let took = transfer_s("full-mesh:max=1", "5 MB", &moves);
    assert!(took < 20.0, "{took}");
}
