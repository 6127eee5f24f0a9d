//! TCP Hybla on each path by itself (Caini and Firrincieli 2004).
//!
//! Reno's throughput falls with the RTT. Hybla multiplies its growth so that a path of any RTT
//! fills as fast as a reference path of 25 ms would, which is meant for satellite links.
//!
//! | symbol | name here | unit | source                                        |
//! |--------|-----------|------|-----------------------------------------------|
//! | rho    | `rho`     | 1    | rtt / rtt0, not below 1                       |
//! | rtt0   | `rtt0`    | s    | RTT of the reference path                     |
//!
//! rho comes from the minimum RTT, so that a queue does not make the path look longer and Hybla
//! more aggressive. The initial window and the threshold are not multiplied by rho. Growth is
//! steep (rho^2 packets per round trip), so rho is capped and pacing should be on.

use super::boxed;
use super::reno;
use super::units::secs;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "hybla",
    coupled: false,
    summary: "Hybla on each path by itself: long paths grow as fast as short ones",
    idea: "Growth is multiplied so that a path of any RTT fills as fast as one of 25 ms.",
    source: "Caini and Firrincieli, TCP Hybla, 2004",
    formula: "rho = max(rtt_min/rtt0, 1); slow start: w += 2^rho - 1 per ack; ack: w += rho^2/w; \
              loss: w = w/2",
    use_when: "a path has a long RTT that is not a queue, as by satellite, and losses are not \
               congestion",
    avoid_when: "the path has others on it, or small buffers: it overshoots and starves both",
    deviations: &[
        "rho comes from the minimum RTT, so that a queue does not speed it up, and is capped",
        "the initial window and the threshold are not multiplied by rho",
    ],
    params: &[
        Param::time(
            "rtt0",
            [0.001, 0.025, 1.0],
            "RTT of the reference path; 25 ms in the paper and in Linux",
        ),
        Param::number(
            "rho_max",
            [1.0, 16.0, 16.0],
            "cap of rho; 16 as in Linux's slow start",
        ),
    ],
    new: |settings| boxed(Hybla::new(settings)),
};

/// The controller; all it needs is in the registry.
#[derive(Debug)]
struct Hybla {
    rtt0: f64,
    rho_max: f64,
}

impl Hybla {
    fn new(settings: &Settings) -> Self {
        Hybla {
            rtt0: settings.get("rtt0"),
            rho_max: settings.get("rho_max"),
        }
    }

    /// rho = rtt_min/rtt0 within [1, rho_max]; 1 without an RTT sample.
    fn rho(&self, path: &PathState) -> f64 {
        path.rtt.map_or(1.0, |rtt| {
            (secs(rtt.min) / self.rtt0).clamp(1.0, self.rho_max)
        })
    }
}

impl Controller for Hybla {
    type Flow = ();

    fn slow_start_gain(&mut self, own: Own<()>) -> f64 {
        self.rho(own.path).exp2() - 1.0
    }

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        self.rho(own.path).powi(2) * reno::step(own.path, ack)
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, _paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        trace.push("rho", self.rho(path));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn hybla(paths: &Registry) -> Flows<Hybla> {
        joined(Hybla::new(&settings(&ENTRY, "")), paths)
    }

    #[test]
    fn a_path_of_the_reference_rtt_or_less_is_reno() {
        let now = Instant::now();
        for rtt_ms in [5, 25] {
            let paths = paths(&[(20, rtt_ms)]);
            close(hybla(&paths).slow_start_gain(now, &paths, PathId(0)), 1.0);
            close(
                hybla(&paths).increase(now, &paths, PathId(0), &ack(now)),
                50.0,
            );
        }
    }

    #[test]
    fn a_long_path_grows_by_rho() {
        // rtt 100 ms: rho = 100/25 = 4. Slow start 2^4 - 1 = 15 packets per ack;
        // avoidance 4^2/20 = 0.8 packets of 1000 bytes.
        let now = Instant::now();
        let paths = paths(&[(20, 100)]);
        close(hybla(&paths).slow_start_gain(now, &paths, PathId(0)), 15.0);
        close(
            hybla(&paths).increase(now, &paths, PathId(0), &ack(now)),
            800.0,
        );
        close(hybla(&paths).decrease(now, &paths, PathId(0)), 10_000.0);
    }

    fn rho(paths: &Registry) -> f64 {
        hybla(paths).controller.rho(paths.get(PathId(0)).unwrap())
    }

    #[test]
    fn rho_is_capped_and_needs_a_sample() {
        let mut paths = paths(&[(20, 10_000)]);
        close(rho(&paths), 16.0);
        paths.get_mut(PathId(0)).unwrap().rtt = None;
        close(rho(&paths), 1.0);
    }

    #[test]
    fn what_is_shown() {
        // rho = 100 ms/25 ms.
        let paths = paths(&[(20, 100)]);
        shows(&hybla(&paths), &paths, &[("rho", 4.0)]);
    }
}
