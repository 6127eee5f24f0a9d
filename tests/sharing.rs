//! Coupled controllers at a common bottleneck, over disjoint paths, and twice the same run.

mod common;

use common::network::Network;
use common::network::Queue;
use common::MS;

use std::time::Duration;

use mpq_decision::cc;

/// The throughput of two paths of `multipath` over that of one flow of `single`, through one link
/// that drops at random, which gives all of them the same loss probability.
fn share(multipath: &str, single: &str, packets_per_sec: f64, rtt: Duration) -> f64 {
    let (mut ours, mut theirs) = (0.0, 0.0);
    for seed in 1..=6 {
        let mut network = Network::new(seed);
        let bdp = packets_per_sec * rtt.as_secs_f64();
        let link = network.link(packets_per_sec, Queue::Random(bdp / 10.0), 0.0);
        // RTTs that differ a little, so that nothing is in step.
        let (a, b) = (rtt, rtt + MS);
        let multipath = network.flow(multipath, &[(link, a), (link, b)]);
        let single = network.flow(single, &[(link, a)]);
        network.warm_up(Duration::from_secs(200));
        network.run(Duration::from_secs(400));
        ours += network.acked_by(multipath);
        theirs += network.acked_by(single);
    }
    ours / theirs
}

#[test]
fn print_all() {
    for (name, single) in [
        ("mpcubic", "uncoupled-cubic"),
        ("coupled-cubic:class=large", "uncoupled-cubic"),
        ("mpmtp", "uncoupled-cubic"),
    ] {
        println!("{name}/{single} {:.3}", share(name, single, 5000.0, 100 * MS));
    }
    for (name, single) in [
        ("wvegas", "wvegas"),
        ("wvegas", "vegas:alpha=10,beta=10"),
        ("mpfast", "fast"),
        ("vegas", "vegas"),
        ("fledbat", "fledbat"),
        ("dc-ledbat", "dc-ledbat"),
        ("dc-ledbat", "fledbat"),
    ] {
        let mut network = Network::new(1);
        let link = network.link(2000.0, Queue::DropTail(1000.0), 0.0);
        let a = network.flow(name, &[(link, 40 * MS), (link, 41 * MS)]);
        let b = network.flow(single, &[(link, 40 * MS)]);
        network.warm_up(Duration::from_secs(60));
        let mut coupled = 0.0; let mut bases = vec![];
        for t in 0..180 { network.run(Duration::from_secs(1)); if name=="dc-ledbat" { coupled += network.shown(a,0,"set_paths")-1.0; if t%10==0 {bases.push((network.shown(a,0,"base_secs"),network.shown(a,1,"base_secs"), network.queued(link))); } } }
        if name=="dc-ledbat" { println!("coupled {coupled} {bases:?}"); }
        println!("{name}/{single} {:.3} queued {:.0} util {:.3}", network.acked_by(a) / network.acked_by(b), network.queued(link), (network.acked_by(a)+network.acked_by(b))/180.0/2000.0);
        for (f, n) in [(a,2),(b,1)] { for p in 0..n { if name.contains("ledbat") && (f==a && name=="dc-ledbat" || f==b && single=="dc-ledbat") { println!("  flow {f} path {p} acked {} base {:.4}", network.acked(f,p), network.shown(f,p,"base_secs")); } else { println!("  flow {f} path {p} acked {}", network.acked(f,p)); } } }
        if name == "dc-ledbat" { println!("set {}", network.shown(a, 0, "set_paths")); }
    }
    let _ = cc::CONTROLLERS;
}

#[test]
fn shift_all() {
    for name in ["coupled", "olia", "balia", "lia", "ewtcp", "uncoupled-reno"] {
        let mut good = 0.0; let mut all = 0.0;
        for seed in 1..=3 {
            let mut network = Network::new(seed);
            let a = network.link(1e6, Queue::DropTail(1e6), 1e-4);
            let b = network.link(1e6, Queue::DropTail(1e6), 1e-3);
            let flow = network.flow(name, &[(a, 100*MS), (b, 100*MS)]);
            network.warm_up(Duration::from_secs(60));
            network.run(Duration::from_secs(400));
            good += network.acked(flow, 0);
            all += network.acked_by(flow);
        }
        println!("{name} good share {:.3}", good/all);
    }
}
