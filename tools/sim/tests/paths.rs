//! The path policies that the tools have, in scenarios.

mod common;

use common::event;
use common::run;
use common::took_s;
use common::two_links;
use mpq_sim::world::Outcome;

/// A flow over two links, which succeeds.
fn over_two_links(paths: &str, policy: &str, more: &str) -> Outcome {
    let links = two_links("");
    let outcome = run(
        &format!(
            r#"
            duration = "120 s"
            {links}
            [[flow]]
            name = "f"
            paths = {paths}
            path_policy = "{policy}"
            {more}"#
        ),
        1,
    );
    assert_eq!(outcome.failure, None, "{policy}");
    outcome
}

/// Seconds that a transfer takes over two links with this policy.
fn transfer_s(policy: &str, size: &str, events: &[(String, &str)]) -> f64 {
    let events: String = events.iter().map(|(at, what)| event(at, what)).collect();
    let more = format!("size = '{size}'\n{events}");
    took_s(&over_two_links(r#"["a", "b"]"#, policy, &more))
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
    for cc in ["olia", "sbd-bbr"] {
        let all = with_a_path_that_hurts(cc, "full-mesh", None);
        assert_eq!(impact(&all), [None; 3]);
        let quick = with_a_path_that_hurts(cc, "pcdc-quick", None);
        let [a, b, far] = impact(&quick).map(Option::unwrap);
        assert!(a > 0.0 && b > 0.0, "{cc} {a} {b}");
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

/// What passes on each path of a transfer, in packets that the server sends.
fn packets(paths: &str, policy: &str, more: &str) -> [f64; 2] {
    let outcome = over_two_links(paths, policy, &format!("size = '3 MB'\n{more}"));
    ["a", "b"].map(|path| outcome.metrics[&format!("flow.f.path.{path}.sent_packets")])
}

#[test]
fn a_metered_interface_stands_by_unless_the_rule_says_otherwise() {
    let paths = r#"["a", { name = "b", metered = true }]"#;
    let lost = event("1 s", "carrier-lost");
    let [a, b] = packets(paths, "full-mesh", "");
    assert!(a > 1000.0 && b < 30.0, "{a} {b}");
    // It is open, and takes over.
    let [_, b] = packets(paths, "full-mesh", &lost);
    assert!(b > 500.0, "{b}");
    let [a, b] = packets(paths, "full-mesh:metered=use", "");
    assert!(a > 500.0 && b > 500.0, "{a} {b}");
    let [_, b] = packets(paths, "full-mesh:metered=never", "");
    assert_eq!(b, 0.0);
    // Better than nothing.
    let [_, b] = packets(paths, "full-mesh:metered=never", &lost);
    assert!(b > 500.0, "{b}");
}

#[test]
fn nothing_goes_around_a_tunnel() {
    let paths = r#"[{ name = "a", tunnel = true }, "b"]"#;
    let [a, b] = packets(paths, "full-mesh", "");
    assert!(a > 1000.0 && b == 0.0, "{a} {b}");
    let [a, b] = packets(paths, "full-mesh:tunnel=around", "");
    assert!(a > 500.0 && b > 500.0, "{a} {b}");
    // It ends: the other interface is used again.
    let [_, b] = packets(paths, "full-mesh", &event("1 s", "carrier-lost"));
    assert!(b > 500.0, "{b}");
    // One that comes later takes over.
    let paths = r#"["a", { name = "b", tunnel = true, start = "1 s" }]"#;
    let [a, b] = packets(paths, "full-mesh", "");
    assert!(a < 1200.0 && b > 1200.0, "{a} {b}");
}

#[test]
fn each_path_is_of_its_family() {
    let paths = r#"["a", { name = "b", ipv6 = true }]"#;
    let [a, b] = packets(paths, "full-mesh", "");
    assert!(a > 500.0 && b > 500.0, "{a} {b}");
    let moves = event("1 s", "new-address");
    let [a, b] = packets(r#"[{ name = "a", ipv6 = true }, "b"]"#, "full-mesh", &moves);
    assert!(a > 500.0 && b > 500.0, "{a} {b}");

    // Its headers are longer by 20 bytes.
    let links = two_links("");
    let bytes = |table: &str| {
        let flow = format!("[[flow]]\nname = 'f'\npaths = [{table}, 'b']\npath_policy = 'full-mesh:max=1'\nsize = '1 MB'");
        let outcome = run(&format!("duration = '30 s'\n{links}\n{flow}"), 1);
        let sent = outcome.metrics["flow.f.path.a.sent_packets"];
        (outcome.metrics["link.a.down.delivered_bytes"], sent)
    };
    let (ipv4, sent) = bytes("'a'");
    let (ipv6, _) = bytes("{ name = 'a', ipv6 = true }");
    let longer = (ipv6 - ipv4) / sent;
    assert!((18.0..22.0).contains(&longer), "{longer}");
}

/// Packets that the server sends on a path that stands by, as the other is enough.
fn packets_of_silent_path(policy: &str, pause: &str, count: u32) -> f64 {
    let requests =
        format!("requests = {{ response = '10 kB', pause = '{pause}', count = {count} }}");
    let paths = r#"["a", { name = "b", backup = true }]"#;
    over_two_links(paths, policy, &requests).metrics["flow.f.path.b.sent_packets"]
}

#[test]
fn a_silent_path_is_kept_alive_while_the_connection_is_used() {
    // For 40 s.
    let never = packets_of_silent_path("full-mesh:keep-alive=0s", "1 s", 40);
    let used = packets_of_silent_path("full-mesh:keep-alive=2s", "1 s", 40);
    assert!((15.0..25.0).contains(&(used - never)), "{used} {never}");
    // Not during the pauses of 38 s, which are longer than what follows each response.
    let paused = packets_of_silent_path("full-mesh:keep-alive=2s", "38 s", 2);
    assert!((0.0..5.0).contains(&(paused - never)), "{paused} {never}");
}
