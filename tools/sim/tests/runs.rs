//! Runs of small scenarios, judged by what theory says and by repetition.

mod common;

use std::path::Path;

use common::run;
use common::run_into;
use mpq_sim::world::Outcome;

const TWO_LINKS: &str = r#"
duration = "10 s"
[[link]]
name = "wifi"
rate = "30 Mbit/s"
rtt = "20 ms"
loss = "0.1 %"
[[link]]
name = "lte"
rate = "20 Mbit/s"
rtt = "50 ms"
jitter = "2 ms"
[[flow]]
name = "mp"
paths = ["wifi", "lte"]
cc = "olia"
[[flow]]
name = "bg"
paths = ["lte"]
count = 2
start_spread = "1 s"
"#;

#[test]
fn the_same_seed_gives_the_same_packets() {
    let (first, again, other) = (run(TWO_LINKS, 1), run(TWO_LINKS, 1), run(TWO_LINKS, 2));
    assert!(first.packets > 20_000, "{}", first.packets);
    assert_eq!(first, again);
    assert_ne!(first.packet_log, other.packet_log);
}

#[test]
fn one_flow_fills_one_link() {
    let outcome = run(
        r#"
        duration = "20 s"
        [[link]]
        name = "l"
        rate = "10 Mbit/s"
        rtt = "40 ms"
        [[flow]]
        name = "f"
        cc = "cubic"
        paths = ["l"]
        [[window]]
        name = "steady"
        from = "5 s"
        to = "20 s""#,
        1,
    );
    assert_eq!(outcome.failure, None);
    let metric = |name: &str| outcome.metrics[name];
    // A queue of one BDP keeps CUBIC's link busy. Headers: 28 bytes of IP and UDP, about 30 of QUIC.
    assert!(metric("window.steady.link.l.down.utilisation") > 0.99);
    assert!(metric("window.steady.flow.f.goodput_mbps") > 9.4);
    // 40 ms and at most 40 ms of queue, and what gathering adds.
    let srtt_ms = metric("window.steady.flow.f.path.l.mean_srtt_ms");
    assert!((55.0..81.0).contains(&srtt_ms), "{srtt_ms}");
    // Two round trips until the client has the server's certificate and all.
    let handshake_ms = metric("flow.f.handshake_ms");
    assert!((40.0..130.0).contains(&handshake_ms), "{handshake_ms}");
}

#[test]
fn a_transfer_ends_and_takes_the_time_that_the_links_need() {
    for direction in ["up", "down"] {
        let outcome = run(
            &format!(
                r#"
                duration = "60 s"
                [[link]]
                name = "a"
                rate = "20 Mbit/s"
                rtt = "20 ms"
                [[link]]
                name = "b"
                rate = "10 Mbit/s"
                rtt = "20 ms"
                [[flow]]
                name = "f"
                paths = ["a", "b"]
                direction = "{direction}"
                size = "10 MB""#
            ),
            1,
        );
        assert_eq!(outcome.failure, None, "{direction}");
        // 80 Mbit over 30 Mbit/s: 2.67 s, and headers, handshake and start-up.
        let seconds = outcome.metrics["flow.f.completion_s"];
        assert!((2.7..3.5).contains(&seconds), "{direction}: {seconds} s");
        assert_eq!(
            outcome.metrics["flow.f.delivered_bytes"], 1e7,
            "{direction}"
        );
        assert!(outcome.simulated.as_secs_f64() < 4.0);
    }
}

#[test]
fn requests_take_a_round_trip_and_their_bytes() {
    let outcome = run(
        r#"
        duration = "60 s"
        [[link]]
        name = "l"
        rate = "100 Mbit/s"
        rtt = "100 ms"
        [[flow]]
        name = "f"
        paths = ["l"]
        requests = { response = "1000 bytes", pause = "500 ms", count = 10 }"#,
        1,
    );
    assert_eq!(outcome.metrics["flow.f.completed"], 10.0);
    let seconds = outcome.metrics["flow.f.completion_s"];
    assert!((0.1..0.102).contains(&seconds), "{seconds} s");
    assert_eq!(outcome.metrics["flow.f.completion_last_s"], seconds);
}

#[test]
fn the_last_response_may_be_of_another_size() {
    let outcome = run(
        r#"
        duration = "60 s"
        [[link]]
        name = "l"
        rate = "100 Mbit/s"
        rtt = "100 ms"
        [[flow]]
        name = "f"
        paths = ["l"]
        requests = { response = "1000 bytes", pause = "500 ms", count = 10, last = "10 MB" }"#,
        1,
    );
    assert_eq!(outcome.metrics["flow.f.completed"], 10.0);
    assert_eq!(outcome.metrics["flow.f.delivered_bytes"], 9e3 + 1e7);
    assert!(outcome.metrics["flow.f.completion_s"] < 0.102);
    // 10 MB need 0.8 s of the link.
    let seconds = outcome.metrics["flow.f.completion_last_s"];
    assert!((0.9..2.5).contains(&seconds), "{seconds} s");
}

#[test]
fn a_dead_link_fails_a_single_path_and_not_a_multipath_connection() {
    let links = r#"
        duration = "120 s"
        [[link]]
        name = "a"
        rate = "10 Mbit/s"
        rtt = "20 ms"
        schedule = "down@2s"
        [[link]]
        name = "b"
        rate = "10 Mbit/s"
        rtt = "20 ms"
        [[flow]]
        name = "f"
        size = "10 MB"
        "#;
    let alone = run(&format!("{links} paths = ['a']"), 1);
    let why = alone.failure.expect("nothing comes over a dead link");
    assert!(why.starts_with("flow f: "), "{why}");
    let both = run(&format!("{links} paths = ['a', 'b']"), 1);
    assert_eq!(both.failure, None);
    // 80 Mbit: up to 2 s at 20 Mbit/s, the rest at 10.
    let seconds = both.metrics["flow.f.completion_s"];
    assert!((6.0..8.0).contains(&seconds), "{seconds} s");
}

#[test]
fn a_link_that_never_was_up_fails_the_handshake() {
    let outcome = run(
        r#"
        duration = "15 s"
        [[link]]
        name = "a"
        rate = "10 Mbit/s"
        rtt = "20 ms"
        schedule = "down@0s"
        [[flow]]
        name = "f"
        paths = ["a"]"#,
        1,
    );
    assert_eq!(
        outcome.failure.as_deref(),
        Some("flow f: no handshake within 10s")
    );
    assert_eq!(outcome.simulated.as_secs(), 10);
}

#[test]
fn a_graph_shares_its_bottleneck() {
    let outcome = run(
        r#"
        duration = "20 s"
        [[link]]
        name = "left"
        nodes = ["client", "r1"]
        delay = "1 ms"
        [[link]]
        name = "core"
        nodes = ["r2", "r1"]
        rtt = "30 ms"
        down = { rate = "100 Mbit/s" }
        up = { rate = "8 Mbit/s" }
        [[path]]
        name = "p"
        links = ["left", "core"]
        [[flow]]
        name = "a"
        paths = ["p"]
        [[flow]]
        name = "b"
        paths = ["p"]
        start = "1 s""#,
        1,
    );
    // The core is passed from its second node to its first on the way up: data that goes down
    // passes it from first to second, which is its `up`.
    let metric = |name: &str| outcome.metrics[name];
    assert!(metric("link.core.up.utilisation") > 0.9);
    assert!(metric("link.core.down.utilisation") < 0.1);
    assert!(metric("total.goodput_mbps") < 8.0);
    assert!(metric("total.jain") > 0.6);
}

/// Two links of 10 Mbit/s, 30 s, and windows of 5 s from 5 s on: `w5`, `w10` ...
fn two_paths(paths: &str, schedule_a: &str) -> Outcome {
    let windows: String = (5..30)
        .step_by(5)
        .map(|from| {
            let to = from + 5;
            format!("[[window]]\nname = 'w{from}'\nfrom = '{from} s'\nto = '{to} s'\n")
        })
        .collect();
    let outcome = run(
        &format!(
            r#"
            duration = "30 s"
            [[link]]
            name = "a"
            rate = "10 Mbit/s"
            rtt = "20 ms"
            {schedule_a}
            [[link]]
            name = "b"
            rate = "10 Mbit/s"
            rtt = "20 ms"
            [[flow]]
            name = "f"
            paths = {paths}
            {windows}"#
        ),
        1,
    );
    assert_eq!(outcome.failure, None);
    outcome
}

#[test]
fn a_backup_path_carries_data_only_while_the_other_is_down() {
    let outcome = two_paths(
        "['a', { name = 'b', backup = true }]",
        "schedule = 'down@9.5s,up@20s'",
    );
    let share = |window: &str| outcome.metrics[&format!("window.{window}.flow.f.path.b.share")];
    // Acknowledgements of its probes are all that comes on it.
    assert!(share("w5") < 0.15, "{}", share("w5"));
    assert!(share("w10") > 0.99, "{}", share("w10"));
    assert!(share("w15") > 0.99, "{}", share("w15"));
    assert!(share("w25") < 0.01, "{}", share("w25"));
    let goodput = outcome.metrics["window.w10.flow.f.goodput_mbps"];
    assert!(goodput > 8.5, "{goodput} Mbit/s");
}

#[test]
fn the_first_path_may_be_the_backup() {
    let outcome = two_paths("[{ name = 'a', backup = true }, 'b']", "");
    let share = outcome.metrics["window.w5.flow.f.path.a.share"];
    assert!(share < 0.01, "{share}");
}

#[test]
fn paths_join_and_leave_at_their_times() {
    let outcome = two_paths(
        "[{ name = 'a', stop = '20 s' }, { name = 'b', start = '10 s' }]",
        "",
    );
    let sent = |window: &str, path: &str| {
        outcome.metrics[&format!("window.{window}.flow.f.path.{path}.sent_packets")]
    };
    assert_eq!(sent("w5", "b"), 0.0);
    assert!(sent("w10", "a") > 1000.0 && sent("w10", "b") > 1000.0);
    assert!(sent("w20", "b") > 1000.0);
    assert_eq!(sent("w25", "a"), 0.0);
    // One link, both, both, the other.
    for (window, least, most) in [("w5", 9.0, 9.8), ("w15", 18.0, 19.6), ("w25", 9.0, 9.8)] {
        let goodput = outcome.metrics[&format!("window.{window}.flow.f.goodput_mbps")];
        assert!((least..most).contains(&goodput), "{window}: {goodput}");
    }
}

/// LIA over one link, as `NAME-1` and `NAME-2`, with or without its controller's values.
fn watched(cc_trace: bool, out: Option<&Path>) -> Outcome {
    let text = format!(
        r#"
        duration = "4 s"
        sample = "500 ms"
        [[link]]
        name = "l"
        rate = "5 Mbit/s"
        rtt = "40 ms"
        [[flow]]
        name = "f"
        paths = ["l"]
        cc = "lia"
        count = 2
        cc_trace = {cc_trace}
        [[window]]
        name = "late"
        from = "2 s"
        to = "4 s""#
    );
    run_into(&text, 1, out)
}

#[test]
fn what_a_controller_shows_is_a_series_and_a_mean() {
    let out = tempfile::tempdir().unwrap();
    let outcome = watched(true, Some(out.path()));
    // On one path LIA's a is w (w/rtt^2)/(w/rtt)^2 = 1, at all times.
    for name in [
        "flow.f-1.path.l.cc.a",
        "window.late.flow.f-2.path.l.cc.a",
        "flow.f.path.l.cc.a",
    ] {
        assert!((outcome.metrics[name] - 1.0).abs() < 1e-9, "{name}");
    }
    let text = std::fs::read_to_string(out.path().join("decisions.csv")).unwrap();
    let (header, rows) = text.split_once('\n').unwrap();
    assert_eq!(header, "time_s,flow,path,symbol,value");
    // One for each of 8 samples of each connection.
    assert_eq!(rows.lines().count(), 16);
    let row: Vec<&str> = rows.lines().next().unwrap().split(',').collect();
    assert_eq!(row[..4], ["0.500000", "f-1", "l", "a"]);
    assert!((row[4].parse::<f64>().unwrap() - 1.0).abs() < 1e-9);

    // Watching changes nothing, and who does not ask gets nothing.
    let out = tempfile::tempdir().unwrap();
    let other = watched(false, Some(out.path()));
    assert_eq!(other.packet_log, outcome.packet_log);
    assert!(!other.metrics.keys().any(|name| name.contains(".cc.")));
    assert!(!out.path().join("decisions.csv").exists());
}

/// A flow over 5 Mbit/s and 30 ms one way, the way back of which is longer, with `lines`.
fn delayed(direction: &str, lines: &str, out: &Path) -> Outcome {
    let text = format!(
        r#"
        duration = "3 s"
        [[link]]
        name = "l"
        rate = "5 Mbit/s"
        delay = "30 ms"
        queue = "40 ms"
        down = {{ delay = "50 ms" }}
        [[flow]]
        name = "f"
        paths = ["l"]
        direction = "{direction}"
        {lines}"#
    );
    run_into(&text, 1, Some(out))
}

#[test]
fn one_way_delays_are_a_series() {
    let rows = |direction, apart| {
        let out = tempfile::tempdir().unwrap();
        let outcome = delayed(direction, &format!("delays = \"{apart}\""), out.path());
        let text = std::fs::read_to_string(out.path().join("delays.csv")).unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        assert_eq!(header, "time_s,flow,path,delay_ms");
        let rows = rows.lines().map(|row| {
            let row: Vec<&str> = row.split(',').collect();
            assert_eq!(row[1..3], ["f", "l"]);
            (row[0].parse().unwrap(), row[3].parse().unwrap())
        });
        (outcome, rows.collect::<Vec<(f64, f64)>>())
    };
    // Propagation, and at most the queue: of the data's way only.
    for (direction, delay) in [("up", 30.0), ("down", 50.0)] {
        let (_, rows) = rows(direction, "0 ms");
        let delays = || rows.iter().map(|row| row.1);
        let (least, most) = (delays().fold(1e9, f64::min), delays().fold(0.0, f64::max));
        assert!(
            (delay..delay + 5.0).contains(&least),
            "{direction}: {least}"
        );
        assert!(
            (delay + 30.0..delay + 42.0).contains(&most),
            "{direction}: {most}"
        );
    }
    // 5 Mbit/s are a packet each 2 ms; every packet has a row, or one in 50 ms.
    let (outcome, all) = rows("down", "0 ms");
    let sent = outcome.metrics["flow.f.sent_packets"];
    assert!(
        (0.85 * sent..=sent).contains(&(all.len() as f64)),
        "{sent}, {}",
        all.len()
    );
    let (other, some) = rows("down", "50 ms");
    assert!((40..=60).contains(&some.len()), "{}", some.len());
    assert!(some.windows(2).all(|two| two[1].0 - two[0].0 > 0.049_999));
    // Measuring changes nothing, and who does not ask gets nothing.
    let out = tempfile::tempdir().unwrap();
    let without = delayed("down", "", out.path());
    assert_eq!(
        [outcome.packet_log, other.packet_log],
        [without.packet_log; 2]
    );
    assert!(!out.path().join("delays.csv").exists());
}

/// Bytes that wait at most while a flow's slow start fills a link of 10 Mbit/s and 100 ms.
fn most_queued_bytes(pacing: bool) -> f64 {
    let outcome = run(
        &format!(
            r#"
            duration = "2 s"
            sample = "1 ms"
            [[link]]
            name = "l"
            rate = "10 Mbit/s"
            rtt = "100 ms"
            queue = "10 BDP"
            [[flow]]
            name = "f"
            paths = ["l"]
            cc = "uncoupled-reno"
            fast_start = false
            hystart = false
            pacing = {pacing}
            [[window]]
            name = "later"
            from = "250 ms"
            to = "500 ms""#
        ),
        1,
    );
    assert_eq!(outcome.failure, None);
    outcome.metrics["window.later.link.l.down.max_queue_bytes"]
}

#[test]
fn what_is_not_paced_leaves_at_once() {
    // Slow start, in the round trip before the link of 83 packets is full: four packets for each ACK of two, so that half
    // a window of 80 waits, 60 kB; paced, it is spread over the round trip.
    let (paced, at_once) = (most_queued_bytes(true), most_queued_bytes(false));
    assert!(paced < 40_000.0, "{paced}");
    assert!(at_once > 48_000.0, "{at_once}");
}
