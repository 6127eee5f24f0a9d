//! The path policies that the tools have, in scenarios.

mod common;

use common::event;
use common::run;
use common::took_s;
use common::two_links;
use mpq_sim::world::Outcome;

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

/// A path that blocks the buffer: a slow one that is far away, and a scheduler that does not mind.
fn with_a_path_that_hurts(cc: &str, policy: &str, impacts: Option<[f64; 3]>) -> Outcome {
    let [a, b, far] = [0, 1, 2].map(|path| match impacts {
        Some(impacts) => format!(", impact = {:?}", impacts[path]),
        None => String::new(),
    });
    let links = two_links("");
    run(
        &format!(
            r#"
            duration = "14 s"
            {links}
            [[link]]
            name = "far"
            rate = "0.2 Mbit/s"
            rtt = "800 ms"
            queue = "1 s"
            [[flow]]
            name = "f"
            paths = [{{ name = "a"{a} }}, {{ name = "b"{b} }}, {{ name = "far"{far} }}]
            path_policy = "{policy}"
            cc = "{cc}"
            scheduler = "round-robin"
            buffer = "100 kB"
            [[window]]
            name = "later"
            from = "8 s"
            to = "14 s""#
        ),
        1,
    )
}

#[test]
fn a_path_that_takes_throughput_is_left_out() {
    let later = |outcome: &Outcome| outcome.metrics["window.later.flow.f.goodput_mbps"];
    let impact = |outcome: &Outcome| {
        let name = |path| format!("flow.f.path.{path}.impact");
        ["a", "b", "far"].map(|path| outcome.metrics.get(&name(path)).copied())
    };
    // With the latter each path is in the way of the others.
    for (cc, brings) in [("olia", true), ("sbd-bbr", false)] {
        let all = with_a_path_that_hurts(cc, "full-mesh", None);
        assert_eq!(impact(&all), [None; 3]);
        let quick = with_a_path_that_hurts(cc, "pcdc-quick", None);
        let [a, b, far] = impact(&quick).map(Option::unwrap);
        assert_eq!(brings, a > 0.0 && b > 0.0, "{cc} {a} {b}");
        assert!(far < -0.5 && far < a.min(b), "{cc} {a} {b} {far}");
        assert!(later(&quick) > 1.5 * later(&all), "{quick:?} {all:?}");
        // It is open all the same.
        assert!(quick.metrics["window.later.flow.f.path.far.sent_packets"] < 20.0);
        assert_eq!(quick.failure, None);

        // As an earlier connection found it, nothing has to be measured.
        let known = with_a_path_that_hurts(cc, "pcdc:t=600s", Some([0.9, 0.8, -0.9]));
        assert_eq!(impact(&known)[2], Some(-0.9));
        assert!(later(&known) > 1.5 * later(&all));
    }
}

#[test]
fn a_buffer_bounds_what_is_under_way() {
    let goodput = |buffer: &str| {
        let outcome = run(
            &format!(
                r#"
                duration = "5 s"
                [[link]]
                name = "a"
                rate = "20 Mbit/s"
                rtt = "100 ms"
                [[flow]]
                name = "f"
                paths = ["a"]
                {buffer}"#
            ),
            1,
        );
        outcome.metrics["flow.f.goodput_mbps"]
    };
    // 50 kB in each round trip of 100 ms at most; half of it, as the receiver lets more be sent when it
    // has read half.
    let small = goodput("buffer = '50 kB'");
    assert!((1.5..4.1).contains(&small), "{small}");
    assert!(goodput("buffer = '1 MB'") > 14.0);
    assert!(goodput("") > 14.0);
}

/// Copies are no goodput: what both paths carried counts once for the flow, and is told of beside it.
#[test]
fn copies_are_not_goodput() {
    let links = two_links("");
    let flow = |paths: &str, scheduler: &str| {
        let text = format!(
            "duration = '30 s'\n{links}\n[[flow]]\nname = 'f'\npaths = {paths}\nsize = '5 MB'\nscheduler = '{scheduler}'\n"
        );
        run(&text, 1)
    };
    let alone = flow("['a']", "redundant");
    let twice = flow("['a', 'b']", "redundant");
    let once = flow("['a', 'b']", "min-rtt:tail=off");

    // 5 MB at 8 Mbit/s, however many paths carry them; what one loses the other has sooner.
    let goodput = |outcome: &Outcome| outcome.metrics["flow.f.goodput_mbps"];
    let ratio = goodput(&twice) / goodput(&alone);
    assert!((0.95..1.2).contains(&ratio), "{ratio}");
    let ratio = goodput(&once) / goodput(&alone);
    assert!(ratio > 1.7, "{ratio}");
    for (outcome, copied) in [
        (&alone, 0.0..=0.0),
        (&once, 0.0..=0.0),
        (&twice, 4.5e6..=5.5e6),
    ] {
        assert_eq!(outcome.metrics["flow.f.delivered_bytes"], 5e6);
        let bytes = outcome.metrics["flow.f.copied_bytes"];
        assert!(copied.contains(&bytes), "{bytes}");
    }
    // A path's own is what it carried.
    for path in ["a", "b"] {
        let carried = twice.metrics[&format!("flow.f.path.{path}.sent_bytes")];
        assert!(carried > 4.5e6, "{path}: {carried}");
    }
}

/// Nor are they to a path manager that measures: an upload that every path carries as a whole loses nothing with a path.
#[test]
fn copies_are_no_reason_to_keep_a_path() {
    let impact_of_b = |scheduler: &str| {
        let links = two_links("");
        let outcome = run(
            &format!(
                r#"
                duration = "14 s"
                {links}
                [[flow]]
                name = "f"
                paths = ["a", "b"]
                path_policy = "pcdc-quick"
                direction = "up"
                scheduler = "{scheduler}""#
            ),
            1,
        );
        outcome.metrics["flow.f.path.b.impact"]
    };
    let both = impact_of_b("min-rtt");
    assert!(both > 0.35, "{both}");
    let redundant = impact_of_b("redundant");
    assert!(redundant < 0.15, "{redundant}");
}
