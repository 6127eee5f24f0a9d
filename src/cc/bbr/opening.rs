//! The first Startup in the way of [`start`](super::super::start)'s `suss`; the draft has nothing of it.
//!
//! Startup doubles in a round trip, as slow start does, so it takes as long to fill a path. A round
//! trip that shows room multiplies the window by 4 or 8 instead, up to r m, and is paced so that it
//! leaves within one. What shows room is told there. Beyond r m, after a loss, and in a Startup that a
//! probe began, the draft's own growth is all there is. Its own way to end it stays: three round trips in
//! which the rate does not grow, or too many losses.

use std::time::Instant;

use super::Engine;
use super::Phase;
use crate::cc::start::Begin;
use crate::cc::start::Growth;
use crate::cc::start::LongRun;
use crate::cc::start::Seen;
use crate::cc::start::Start;
use crate::cc::units::Bounded;
use crate::cc::window::pacing_rate;
use crate::cc::window::Samples;
use crate::cc::window::PACING_GAIN_SLOW_START;
use crate::cc::Ack;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Rtt;

/// What the first Startup of a path has shown.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    begin: Begin,
    /// Of the round trip that goes on.
    samples: Samples,
    run: LongRun,
    way_back: Option<PathId>,
}

impl Opening {
    /// What an ACK says about growth, with the window `cwnd` before it; `ended` if it ended a round
    /// trip.
    fn growth(
        &mut self,
        now: Instant,
        ack: &Ack,
        path: &PathState,
        rtt: Rtt,
        (cwnd, ended): (f64, bool),
    ) -> Growth {
        let before = self.way_back.replace(path.way_back);
        if before.is_some_and(|way| way != path.way_back) {
            self.begin.on_way_back();
            self.run = LongRun::default();
            self.samples = Samples::default();
        }
        if ended {
            self.begin.on_round(cwnd);
            self.samples = Samples::default();
        }
        if let Some(sample) = ack.rtt_sample {
            self.samples.add(sample);
            self.run.add(sample, &rtt);
        }
        self.begin.on_ack(now, ack, Some(rtt));
        let seen = Seen {
            samples: self.samples.count,
            least: self.samples.min,
            queue: self.run.shows_queue(),
        };
        self.begin.growth(Start::Suss, cwnd, &seen, Some(rtt))
    }
}

impl Engine {
    /// Grows by more than Startup does, from `cwnd`, which the window was before the ACK.
    pub fn open_faster(&mut self, now: Instant, path: &PathState, ack: &Ack, cwnd: f64) {
        if self.phase != Phase::Startup {
            self.opening = None;
        }
        let (Some(opening), Some(rtt)) = (&mut self.opening, path.rtt) else {
            return;
        };
        let ended = self.rounds.started && self.rounds.count > 1;
        let growth = opening.growth(now, ack, path, rtt, (cwnd, ended));
        let Growth::By {
            factor,
            extra_bytes,
            up_to_bytes,
        } = growth
        else {
            return;
        };
        let fast = (cwnd + factor * ack.acked_bytes as f64 + extra_bytes).at_most(up_to_bytes);
        if factor <= 1.0 || ack.app_limited || fast <= self.cwnd {
            return;
        }
        self.cwnd = fast;
        // As slow start is paced, but no slower than the window leaves in a round trip.
        let rate = |gain| pacing_rate(fast, rtt.smoothed, gain);
        let paced = opening.begin.paced(rate(PACING_GAIN_SLOW_START), rate(1.0)) as f64;
        self.pace = Some(self.pace.map_or(paced, |pace| pace.at_least(paced)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Rules;
    use super::super::ENTRY;
    use super::*;
    use crate::cc::testing::settings;
    use crate::cc::Flight;
    use crate::cc::Loss;
    use crate::cc::RateSample;
    use crate::registry::Registry;

    const MS: Duration = Duration::from_millis(1);

    /// 10 packets of 1000 bytes, 8 Mbit/s or a packet in 1 ms, 100 ms: r m = 100,000 bytes.
    struct Bench {
        engine: Engine,
        rules: Rules,
        paths: Registry,
        start: Instant,
        total: u64,
        app_limited: bool,
    }

    impl Bench {
        fn new(list: &str) -> Bench {
            let mut paths = Registry::new();
            let path = paths.add(PathId(0), 1000);
            path.cwnd_bytes = 10_000;
            path.rtt = Some(Rtt::first(100 * MS));
            Bench {
                engine: Engine::default(),
                rules: Rules::new(&settings(&ENTRY, list)),
                paths,
                start: Instant::now(),
                total: 0,
                app_limited: false,
            }
        }

        /// The first flight's packets are acked one by one, 1 ms apart, the first after 100 ms.
        fn first_flight(&mut self, packets: u32) {
            for n in 0..packets {
                self.ack(Duration::ZERO, 100 * MS + n * MS, 100 * MS, 0);
            }
        }

        /// A packet that was sent at `sent`, when `prior` bytes had been delivered, is acked.
        fn ack(&mut self, sent: Duration, at: Duration, rtt: Duration, prior: u64) {
            self.total += 1000;
            let ack = Ack {
                acked_bytes: 1000,
                acked_packets: 1,
                newest_sent: self.start + sent,
                in_flight_before_bytes: 10_000,
                rtt_sample: Some(rtt),
                app_limited: self.app_limited,
            };
            let sample = RateSample {
                total_bytes: self.total,
                prior_bytes: prior,
                interval: at - sent,
                newest: Flight::default(),
            };
            let path = self.paths.get(PathId(0)).unwrap();
            self.engine
                .model(&self.rules, self.start + at, path, &ack, Some(&sample));
        }

        /// The window in packets, and the rate at which it is paced in packets per second.
        fn shown(&self) -> (f64, f64) {
            let pace = self.engine.pace.unwrap();
            (self.engine.cwnd / 1000.0, (pace / 1000.0).round())
        }
    }

    #[test]
    fn a_first_flight_that_shows_room_quadruples_the_window() {
        let mut bench = Bench::new("");
        // Eight packets after the first make a train; until then each one that is acked adds one.
        bench.first_flight(8);
        assert_eq!(bench.shown().0, 18.0);
        // 4 for each of the nine, and once more for the tenth; 2 windows in a round trip.
        let mut bench = Bench::new("");
        bench.first_flight(9);
        assert_eq!(bench.shown(), (37.0, 740.0));
        let mut bench = Bench::new("");
        bench.first_flight(10);
        assert_eq!(bench.shown(), (40.0, 800.0));

        let mut bench = Bench::new("start=slow");
        bench.first_flight(10);
        // 2.77 windows in the first round trip, which had no rate yet.
        assert_eq!(bench.shown(), (20.0, 277.0));
    }

    #[test]
    fn no_further_than_the_train_says_and_no_faster() {
        let mut bench = Bench::new("");
        bench.first_flight(10);
        // Packets that left after the first acks, when not half of the pipe was full: 8 for each once
        // eight of them have shown that the first flight had drained.
        for n in 0..25 {
            bench.ack(100 * MS, 205 * MS + n * MS, 100 * MS, 10_000);
            match n {
                6 => assert_eq!(bench.shown().0, 40.0),
                7 => assert_eq!(bench.shown().0, 40.0 + 7.0 + 6.0 * 7.0),
                _ => (),
            }
        }
        let (window, pace) = bench.shown();
        assert_eq!(window, 100.0);
        assert_eq!(pace, 1000.0);
        // It began with more than half of it, so the next round trip does not.
        let before = bench.engine.cwnd;
        bench.ack(210 * MS, 310 * MS, 100 * MS, 35_000);
        assert!(bench.engine.cwnd <= before + 1000.0);
    }

    #[test]
    fn a_queue_leaves_the_draft_its_growth() {
        let mut bench = Bench::new("");
        for n in 0..10 {
            bench.ack(Duration::ZERO, 120 * MS + n * MS, 120 * MS, 0);
        }
        assert_eq!(bench.shown().0, 20.0);
    }

    #[test]
    fn nor_does_it_open_faster_without_data_or_after_a_loss() {
        let mut bench = Bench::new("");
        bench.app_limited = true;
        bench.first_flight(10);
        assert_eq!(bench.shown().0, 20.0);

        let mut bench = Bench::new("");
        bench.first_flight(5);
        let loss = Loss {
            newest_lost_sent: bench.start,
            lost_bytes: 1000,
            lost_packets: 1,
            persistent: false,
        };
        let path = bench.paths.get(PathId(0)).unwrap();
        bench.engine.lost(
            &bench.rules,
            bench.start + 106 * MS,
            path,
            &loss,
            Some(&Flight::default()),
        );
        assert!(bench.engine.opening.is_none());
    }

    #[test]
    fn another_way_back_begins_another_round_trip() {
        let mut bench = Bench::new("");
        bench.first_flight(8);
        bench.paths.get_mut(PathId(0)).unwrap().way_back = PathId(1);
        // The ninth is the first of a train, and of the samples.
        bench.ack(Duration::ZERO, 108 * MS, 100 * MS, 0);
        assert_eq!(bench.shown().0, 19.0);
        assert_eq!(bench.engine.opening.as_ref().unwrap().samples.count, 1);
    }

    #[test]
    fn it_ends_with_startup() {
        let mut bench = Bench::new("");
        bench.first_flight(3);
        assert!(bench.engine.opening.is_some());
        bench.engine.phase = Phase::Drain;
        bench.ack(Duration::ZERO, 104 * MS, 100 * MS, 0);
        assert!(bench.engine.opening.is_none());
    }
}
