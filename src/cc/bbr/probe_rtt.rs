//! The least RTT, and ProbeRTT, which empties the queue to see it (draft, sections 5.3.4 and
//! 5.5.7).

use std::time::Duration;
use std::time::Instant;

use super::Engine;
use super::Phase;
use super::Rules;
use super::Seen;
use super::MIN_PACKETS;
use crate::cc::units::secs;
use crate::cc::units::Bounded;
use crate::registry::PathId;
use crate::registry::PathState;

/// MinRTTFilterLen.
const FILTER: Duration = Duration::from_secs(10);

/// ProbeRTTInterval.
const INTERVAL: Duration = Duration::from_secs(5);

/// ProbeRTTDuration.
const DURATION: Duration = Duration::from_millis(200);

/// probe-rtt=needed: what is above the least RTT by less than this part of it is as good as it.
const AS_GOOD: f64 = 1.0 / 32.0;

/// The least RTT of 10 s, and of 5 s.
#[derive(Clone, Debug)]
pub struct MinRtt {
    /// Infinite before the first sample.
    pub secs: f64,
    /// It holds until then, [`FILTER`] after it was seen.
    until: Option<Instant>,
    probe_secs: f64,
    /// Until then no smaller one is waited for, [`INTERVAL`] after it was seen.
    probe_until: Option<Instant>,
    /// No sample was as small for 5 s.
    pub expired: bool,
    way_back: Option<PathId>,
    /// When ProbeRTT may end; nothing before the flight is small enough.
    done: Option<Instant>,
    round_done: bool,
}

impl Default for MinRtt {
    fn default() -> Self {
        MinRtt {
            secs: f64::INFINITY,
            until: None,
            probe_secs: f64::INFINITY,
            probe_until: None,
            expired: false,
            way_back: None,
            done: None,
            round_done: false,
        }
    }
}

impl MinRtt {
    /// UpdateMinRTT. A queue that was as good as empty need not be emptied.
    pub fn update(&mut self, rules: &Rules, now: Instant, rtt: Option<f64>) {
        let is_over = |until: Option<Instant>| until.is_some_and(|until| now > until);
        self.expired = is_over(self.probe_until);
        if let Some(rtt) = rtt.filter(|rtt| *rtt < self.probe_secs || self.expired) {
            self.probe_secs = rtt;
            self.probe_until = Some(now + INTERVAL);
        } else if rules.seldom && rtt.is_some_and(|rtt| rtt <= (1.0 + AS_GOOD) * self.probe_secs) {
            self.probe_until = Some(now + INTERVAL);
        }
        if self.probe_secs < self.secs || is_over(self.until) {
            self.secs = self.probe_secs;
            self.until = self.probe_until.map(|until| until + (FILTER - INTERVAL));
        }
    }

    /// RTTs of two ways back do not compare.
    pub fn note_way_back(&mut self, now: Instant, path: &PathState) {
        let before = self.way_back.replace(path.way_back);
        let changed = before.is_some_and(|before| before != path.way_back);
        if let (true, Some(rtt)) = (changed, path.rtt) {
            self.secs = secs(rtt.min);
            self.probe_secs = self.secs;
            self.until = Some(now + FILTER);
            self.probe_until = Some(now + INTERVAL);
        }
    }
}

impl Engine {
    /// CheckProbeRTT.
    pub fn check_probe_rtt(&mut self, rules: &Rules, seen: &Seen) {
        // Who was idle has emptied the queue already.
        let was_idle = seen.sample.newest.is_from_idle() && seen.limited;
        if was_idle {
            self.aggregation.restart(seen.clock_nanos);
        }
        let expired = self.min_rtt.expired || self.orders.probe_rtt;
        if self.phase != Phase::ProbeRtt && expired && !was_idle {
            self.save_cwnd();
            self.phase = Phase::ProbeRtt;
            self.min_rtt.done = None;
            self.cycle.stop_samples();
            self.rounds.start();
        }
        if self.phase == Phase::ProbeRtt {
            self.handle_probe_rtt(rules, seen);
        }
    }

    fn handle_probe_rtt(&mut self, rules: &Rules, seen: &Seen) {
        self.ignore_samples(seen);
        match self.min_rtt.done {
            None if seen.in_flight <= self.probe_rtt_cwnd(seen.mss) => {
                self.min_rtt.done = Some(seen.now + DURATION);
                self.min_rtt.round_done = false;
                self.rounds.start();
            }
            Some(done) => {
                self.min_rtt.round_done |= self.rounds.started;
                if self.min_rtt.round_done && seen.now > done {
                    self.exit_probe_rtt(rules, seen);
                }
            }
            None => (),
        }
    }

    fn exit_probe_rtt(&mut self, rules: &Rules, seen: &Seen) {
        self.min_rtt.probe_until = Some(seen.now + INTERVAL);
        self.restore_cwnd();
        self.bounds.reset_short();
        if self.full.reached {
            self.start_down(rules, seen);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }

    /// ProbeRTTCwnd.
    pub fn probe_rtt_cwnd(&self, mss: f64) -> f64 {
        let gain = Phase::ProbeRtt.cwnd_gain();
        self.bdp(gain).at_least(MIN_PACKETS * mss)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::super::testing::rules;
    use super::*;
    use crate::cc::testing::paths;
    use crate::cc::Flight;
    use crate::cc::RateSample;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn only_less_is_a_new_least_rtt() {
        let (rules, start) = (rules("probe-rtt=always"), Instant::now());
        let mut least = MinRtt::default();
        for (ms, rtt, expired) in [
            (0, 0.100, false),
            (3_000, 0.100, false),
            (5_000, 0.100, false),
            (5_001, 0.100, true),
            (5_002, 0.100, false),
        ] {
            least.update(&rules, start + ms * MS, Some(rtt));
            assert_eq!(least.expired, expired, "{ms}");
        }
    }

    #[test]
    fn another_way_back_is_another_least_rtt() {
        let now = Instant::now();
        let mut paths = paths(&[(10, 100), (10, 40)]);
        let path = paths.get_mut(PathId(0)).unwrap();
        let mut least = MinRtt::default();
        least.note_way_back(now, path);
        assert!(least.secs.is_infinite());
        least.secs = 0.08;
        least.note_way_back(now, path);
        assert_eq!(least.secs, 0.08);
        path.way_back = PathId(1);
        least.note_way_back(now, path);
        assert_eq!((least.secs, least.probe_secs), (0.1, 0.1));
        assert_eq!(
            (least.until, least.probe_until),
            (Some(now + FILTER), Some(now + INTERVAL))
        );
    }

    /// 1 MB/s and 0.1 s: half of the BDP are 50 kB.
    fn engine() -> Engine {
        let mut engine = Engine {
            phase: Phase::Cruise,
            bw: 1e6,
            cwnd: 200e3,
            ..Engine::default()
        };
        engine.min_rtt.secs = 0.1;
        engine.min_rtt.expired = true;
        engine.full.reached = true;
        engine
    }

    fn seen(now: Instant, in_flight: f64) -> Seen {
        Seen {
            in_flight,
            rtt: Some(0.1),
            sample: RateSample {
                newest: Flight {
                    tx_in_flight_bytes: 50_000,
                    packet_bytes: 1000,
                    ..Flight::default()
                },
                ..RateSample::default()
            },
            ..testing::seen(now)
        }
    }

    #[test]
    fn the_queue_is_emptied_for_200_ms_and_a_round_trip() {
        let (rules, start) = (rules(""), Instant::now());
        let mut engine = engine();
        assert_eq!(engine.probe_rtt_cwnd(1000.0), 50e3);
        // Not before so little is in flight.
        engine.check_probe_rtt(&rules, &seen(start, 50_001.0));
        assert_eq!((engine.phase, engine.min_rtt.done), (Phase::ProbeRtt, None));
        engine.check_probe_rtt(&rules, &seen(start, 50_000.0));
        assert_eq!(engine.min_rtt.done, Some(start + 200 * MS));
        // The time alone is not enough, nor the round trip.
        engine.rounds.started = false;
        engine.check_probe_rtt(&rules, &seen(start + 300 * MS, 50e3));
        assert_eq!(engine.phase, Phase::ProbeRtt);
        engine.rounds.started = true;
        engine.check_probe_rtt(&rules, &seen(start + 200 * MS, 50e3));
        assert_eq!(engine.phase, Phase::ProbeRtt);
        engine.rounds.started = false;
        engine.check_probe_rtt(&rules, &seen(start + 201 * MS, 50e3));
        assert_eq!(engine.phase, Phase::Cruise);
    }

    #[test]
    fn who_was_idle_has_emptied_it() {
        let (rules, now) = (rules(""), Instant::now());
        for (alone, limited, phase) in [
            (true, true, Phase::Cruise),
            (true, false, Phase::ProbeRtt),
            (false, true, Phase::ProbeRtt),
        ] {
            let mut engine = engine();
            let mut seen = seen(now, 100e3);
            if alone {
                seen.sample.newest.tx_in_flight_bytes = 1000;
            }
            seen.limited = limited;
            engine.check_probe_rtt(&rules, &seen);
            assert_eq!(engine.phase, phase, "{alone} {limited}");
        }
    }

    #[test]
    fn four_packets_are_in_flight_at_least() {
        let mut engine = engine();
        engine.bw = 10e3;
        assert_eq!(engine.probe_rtt_cwnd(1000.0), 4e3);
    }
}
