//! Scalable TCP on each path by itself (Kelly 2003).
//!
//! A fixed fraction of the window is added per round trip, so that the time to recover from a loss
//! does not grow with the window. Below the window where Reno adds as much, it is Reno in its
//! increase.
//!
//! | symbol | name here | unit    | source                         |
//! |--------|-----------|---------|--------------------------------|
//! | a      | `a`       | packets | Kelly: 0.01 per acked packet   |
//! | b      | `b`       | 1       | Kelly: an eighth is given up   |
//!
//! The MPCOA paper describes it as halving until losses stop and then starting slowly; that is not
//! Kelly's algorithm, and not this one.

use super::boxed;
use super::units::packets;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Param;
use super::Settings;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "scalable",
    coupled: false,
    summary: "Scalable TCP on each path by itself: growth in proportion to the window",
    idea:
        "The window grows by a fixed fraction per round trip, so recovery takes the same time at \
           any speed.",
    source: "Kelly, Scalable TCP, ACM CCR 33(2), 2003",
    formula: "ack: w += max(a, 1/w), a = 0.01; loss: w = (1 - b) w, b = 1/8",
    use_when: "a path is fast and long and nobody else is on it",
    avoid_when: "flows share a bottleneck: two of them do not converge to equal shares",
    deviations: &[
        "where Reno would add more, it adds as much as Reno",
        "the MPCOA paper describes another algorithm, which halves until losses stop; this one \
         is Kelly's",
    ],
    params: &[
        Param::number(
            "a",
            [1e-4, 0.01, 1.0],
            "packets gained per acked packet; Kelly's 0.01, which Linux has as 1/100",
        ),
        Param::number(
            "b",
            [0.01, 0.125, 0.9],
            "fraction of the window given up on a loss; Kelly's 1/8",
        ),
    ],
    new: |settings| boxed(Scalable::new(settings)),
};

/// The controller.
#[derive(Debug)]
struct Scalable {
    a: f64,
    b: f64,
}

impl Scalable {
    fn new(settings: &Settings) -> Self {
        Scalable {
            a: settings.get("a"),
            b: settings.get("b"),
        }
    }
}

impl Controller for Scalable {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        ack.acked_bytes as f64 * self.a.max(1.0 / packets(own.path))
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        own.path.cwnd_bytes as f64 * (1.0 - self.b)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn growth_is_a_hundredth_of_a_large_window() {
        let now = Instant::now();
        // 400 packets > 100: 0.01 packets of 1000 bytes. 20 packets: Reno's 1/20.
        let paths = paths(&[(400, 50), (20, 50)]);
        let mut scalable = joined(Scalable::new(&settings(&ENTRY, "")), &paths);
        close(scalable.increase(now, &paths, PathId(0), &ack(now)), 10.0);
        close(scalable.increase(now, &paths, PathId(1), &ack(now)), 50.0);
        // 400 * 7/8 = 350 packets.
        close(scalable.decrease(now, &paths, PathId(0)), 350_000.0);
    }
}
