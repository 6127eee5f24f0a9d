//! Links with queues by flow (`aqm = "fq-codel"`), with real connections.

mod common;

use common::run;
use mpq_sim::world::Outcome;

/// One link of 20 Mbit/s and 10 ms, which a Reno can fill behind CoDel, with room for 160 ms.
fn link(more: &str) -> String {
    format!(
        r#"
        duration = "30 s"
        [[link]]
        name = "l"
        rate = "20 Mbit/s"
        rtt = "10 ms"
        queue = "160 ms"
        {more}
        [[window]]
        name = "steady"
        from = "10 s"
        to = "30 s"
        "#
    )
}

fn flow(name: &str, cc: &str, more: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\npaths = [\"l\"]\ncc = \"{cc}\"\n{more}\n")
}

fn steady(outcome: &Outcome, metric: &str) -> f64 {
    assert_eq!(outcome.failure, None);
    outcome.metrics[&format!("window.steady.{metric}")]
}

#[test]
fn a_sparse_flow_does_not_wait_for_a_greedy_one() {
    let sparse = flow(
        "sparse",
        "cubic",
        r#"requests = { response = "1 kB", pause = "50 ms" }"#,
    );
    let greedy = flow("greedy", "reno", "");
    let rtt = |aqm: &str, flows: &str, of: &str| {
        let outcome = run(&(link(&format!("aqm = \"{aqm}\"")) + flows), 1);
        steady(&outcome, &format!("flow.{of}.path.l.mean_srtt_ms"))
    };
    let both = sparse.clone() + &greedy;
    let alone = rtt("fq-codel", &sparse, "sparse");
    let beside = rtt("fq-codel", &both, "sparse");
    let long = rtt("fq-codel", &both, "greedy");
    // At most the packet that is being sent, 0.6 ms, comes before it, in each direction.
    assert!((10.0..11.0).contains(&alone), "{alone}");
    assert!(beside < alone + 1.3, "{beside} {alone}");
    assert!(long > alone + 3.0, "{long}");
    // One queue for all is what it is spared.
    let single = rtt("droptail", &both, "sparse");
    assert!(single > alone + 30.0, "{single}");
}

#[test]
fn greedy_flows_get_the_same_whatever_their_controllers() {
    let shares = |aqm: &str| {
        let flows = flow("bbr", "bbr2_gcongestion", "") + &flow("reno", "reno", "");
        let outcome = run(&(link(&format!("aqm = \"{aqm}\"")) + &flows), 1);
        assert!(steady(&outcome, "link.l.down.utilisation") > 0.99);
        steady(&outcome, "flow.bbr.goodput_mbps") / steady(&outcome, "flow.reno.goodput_mbps")
    };
    let fair = shares("fq-codel");
    assert!((0.97..1.03).contains(&fair), "{fair}");
    let single = shares("codel");
    assert!(!(0.6..1.6).contains(&single), "{single}");
}

#[test]
fn who_is_capable_is_marked_in_its_own_queue() {
    let flows = flow("capable", "reno", "ecn = true") + &flow("other", "reno", "");
    let counts = |aqm: &str| {
        let outcome = run(&(link(&format!("aqm = \"{aqm}\"")) + &flows), 1);
        [
            steady(&outcome, "link.l.down.marks"),
            steady(&outcome, "flow.capable.lost_packets"),
            steady(&outcome, "flow.other.lost_packets"),
        ]
    };
    let [marks, capable, other] = counts("fq-codel-ecn");
    assert!(marks > 0.0 && capable == 0.0 && other > 0.0);
    let [marks, capable, other] = counts("fq-codel");
    assert!(marks == 0.0 && capable > 0.0 && other > 0.0);
}

#[test]
fn whatever_befalls_the_link_the_same_seed_gives_the_same_packets() {
    let text = link(
        r#"
        aqm = "fq-codel"
        loss = "0.2 %"
        jitter = "2 ms"
        reorder = "1 % by 5 ms"
        duplicate = "1 %"
        mtu = "1400 bytes"
        schedule = "rate=3mbit@2s,rate=20mbit@4s,delay=30ms@5s,down@7s,up@8s"
        outages = "100 ms to 300 ms after 3 s to 5 s""#,
    ) + r#"
        [[path]]
        name = "m"
        links = ["l"]
        [[flow]]
        name = "f"
        paths = ["l", "m"]
        size = "20 MB"
        [[flow]]
        name = "g"
        paths = ["l"]
        cc = "reno"
        count = 2
        start_spread = "1 s"
        [[flow.event]]
        at = "3 s"
        path = "l"
        what = "rebind"
        "#;
    let (first, again, other) = (run(&text, 1), run(&text, 1), run(&text, 2));
    assert_eq!(first.failure, None);
    assert_eq!(first.metrics["flow.f.completed"], 1.0);
    assert!(first.metrics["link.l.down.queue_drops"] > 0.0);
    assert!(first.metrics["link.l.down.losses"] > 0.0);
    assert_eq!(first, again);
    assert_ne!(first.packet_log, other.packet_log);
}

#[test]
fn a_trace_drives_it_too() {
    let folder = std::env::temp_dir().join(format!("mpq-fair-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let trace = folder.join("t.csv");
    std::fs::write(&trace, "t,rate\n0,20\n1,10\n1.5,30\n2,20\n").unwrap();
    let trace = format!("trace = \"{}\"", trace.display());
    let text = link(r#"aqm = "fq-codel""#).replace("rate = \"20 Mbit/s\"", &trace);
    let flows = flow("f", "bbr2_gcongestion", "") + &flow("g", "reno", "");
    let outcome = run(&(text + &flows), 1);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(steady(&outcome, "link.l.down.utilisation") > 0.95);
    let ratio = steady(&outcome, "flow.f.goodput_mbps") / steady(&outcome, "flow.g.goodput_mbps");
    assert!((0.85..1.18).contains(&ratio), "{ratio}");
}

#[test]
fn one_flow_alone_has_what_codel_lets_it() {
    let metrics = |aqm: &str, metric: &str| {
        let outcome = run(
            &(link(&format!("aqm = \"{aqm}\"")) + &flow("f", "reno", "")),
            1,
        );
        steady(&outcome, metric)
    };
    for metric in ["flow.f.path.l.mean_srtt_ms", "link.l.down.queue_drops"] {
        let (fair, single) = (metrics("fq-codel", metric), metrics("codel", metric));
        assert!(
            (0.9..1.1).contains(&(fair / single)),
            "{metric}: {fair} {single}"
        );
    }
}
