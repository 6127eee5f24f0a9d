//! What the unit tests of controllers share.

use std::time::Duration;
pub use std::time::Instant;

pub use super::flows::Flows;
use super::Ack;
pub use super::AnyController;
use super::Choice;
use super::Controller;
use super::Entry;
use super::Round;
pub use super::Settings;
use super::Trace;
pub use crate::registry::PathId;
pub use crate::registry::Registry;
use crate::registry::Rtt;

pub const MSS: u64 = 1000;

/// The settings that `list` gives a controller, `key=value,key=value` or nothing.
pub fn settings(entry: &Entry, list: &str) -> Settings {
    let text = match list {
        "" => entry.name.to_owned(),
        _ => format!("{}:{list}", entry.name),
    };
    *text.parse::<Choice>().unwrap().settings()
}

/// Paths of (packets, RTT in ms), 1000 bytes a packet, in congestion avoidance.
pub fn paths(list: &[(u64, u64)]) -> Registry {
    let mut paths = Registry::new();
    for (id, (packets, rtt_ms)) in list.iter().enumerate() {
        let path = paths.add(PathId(id as u64), MSS);
        path.cwnd_bytes = packets * MSS;
        path.ssthresh_bytes = path.cwnd_bytes;
        path.rtt = Some(Rtt::first(Duration::from_millis(*rtt_ms)));
    }
    paths
}

/// `controller` with all of `paths`.
pub fn joined<C: Controller>(controller: C, paths: &Registry) -> Flows<C> {
    let mut flows = Flows::new(controller);
    for path in paths.iter() {
        flows.on_path_added(Instant::now(), path.id);
    }
    flows
}

/// One packet acked of a full window.
pub fn ack(now: Instant) -> Ack {
    Ack {
        acked_bytes: MSS,
        acked_packets: 1,
        newest_sent: now,
        in_flight_before_bytes: 1 << 40,
        rtt_sample: None,
        app_limited: false,
    }
}

/// A round trip of ten samples, all of the same RTT.
pub fn round(rtt_ms: u64) -> Round {
    Round {
        samples: 10,
        min_rtt: Duration::from_millis(rtt_ms),
        mean_rtt: Duration::from_millis(rtt_ms),
        limited: true,
    }
}

/// What one acked packet adds to the window of the first of `list`, in bytes.
pub fn step(entry: &Entry, list: &[(u64, u64)]) -> f64 {
    let (now, paths) = (Instant::now(), paths(list));
    let mut controller = entry.with_defaults();
    controller.on_path_added(now, PathId(0));
    controller.increase(now, &paths, PathId(0), &ack(now))
}

/// What a loss leaves of the window of the first of `list`, in bytes.
pub fn kept(entry: &Entry, list: &[(u64, u64)]) -> f64 {
    let (now, paths) = (Instant::now(), paths(list));
    let mut controller = entry.with_defaults();
    controller.on_path_added(now, PathId(0));
    controller.decrease(now, &paths, PathId(0))
}

/// That the controller shows these values of the first path, in this order.
#[track_caller]
pub fn shows(controller: &dyn AnyController, paths: &Registry, expected: &[(&str, f64)]) {
    let mut trace = Trace::new(Instant::now(), paths.get(PathId(0)).unwrap());
    controller.trace(paths, PathId(0), &mut trace);
    let names = |values: &[(&'static str, f64)]| -> Vec<&str> {
        values.iter().map(|(name, _)| *name).collect()
    };
    let expected_names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(names(trace.values()), expected_names);
    for ((name, value), (_, expected)) in trace.values().iter().zip(expected) {
        let near = (value - expected).abs() <= 1e-9 * expected.abs().max(1e-3);
        assert!(near, "{name}: {value} is not {expected}");
    }
}

/// Equal but for rounding.
#[track_caller]
pub fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * b.abs().max(1e-3), "{a} is not {b}");
}

/// Equal to the precision of a constant printed in a paper.
#[track_caller]
pub fn about(a: f64, b: f64, relative: f64) {
    assert!((a - b).abs() <= relative * b.abs(), "{a} is not {b}");
}
