//! The draft's state machine, one ACK to a round trip: states, gains and bounds by hand.

use std::time::Duration;

use super::super::testing::settings;
use super::super::testing::PathId;
use super::super::testing::Registry;
use super::super::Phase as Shown;
use super::*;
use crate::registry::Rtt;

const MSS: f64 = 1000.0;
const RTT: Duration = Duration::from_millis(100);
const DRAFT: &str = "losses=counted,look=off,regrow=off,probe-rtt=always,start=slow";

/// An engine, and what the path has done so far.
struct Bench {
    engine: Engine,
    rules: Rules,
    now: Instant,
    total: u64,
    rtt: Duration,
}

/// What is special about an ACK.
#[derive(Clone, Copy, Default)]
struct Special {
    limited: bool,
    in_flight: Option<f64>,
    from_idle: bool,
}

impl Bench {
    fn new(list: &str) -> Bench {
        let engine = Engine {
            cwnd: 10.0 * MSS,
            initial_cwnd: 10.0 * MSS,
            ..Engine::default()
        };
        Bench {
            engine,
            rules: Rules::new(&settings(&ENTRY, list)),
            now: Instant::now(),
            total: 0,
            rtt: RTT,
        }
    }

    /// A round trip in which so many packets per second are delivered, all in one ACK.
    fn round(&mut self, rate: f64, special: Special) {
        self.now += self.rtt;
        let prior = self.total;
        let acked = rate * MSS * self.rtt.as_secs_f64();
        self.total += acked as u64;
        let in_flight = special.in_flight.unwrap_or(self.engine.cwnd);
        let newest = Flight {
            tx_in_flight_bytes: if special.from_idle {
                1000
            } else {
                in_flight as u64
            },
            packet_bytes: 1000,
            lost_bytes: 0,
            app_limited: special.limited,
        };
        let sample = RateSample {
            total_bytes: self.total,
            prior_bytes: prior,
            interval: self.rtt,
            newest,
        };
        let seen = Seen {
            sent: self.now - self.rtt,
            mss: MSS,
            acked,
            in_flight,
            rtt: Some(self.rtt.as_secs_f64()),
            sample,
            rate: sample.bytes_per_sec(),
            limited: special.limited,
            ..testing::seen(self.now)
        };
        self.engine.on_ack(&self.rules, &seen);
    }

    fn rounds(&mut self, count: usize, rate: f64) {
        for _ in 0..count {
            self.round(rate, Special::default());
        }
    }

    /// Rounds with little in flight, until the phase is `phase`.
    fn until(&mut self, phase: Phase, rate: f64) {
        for _ in 0..200 {
            if self.engine.phase == phase {
                return;
            }
            let special = Special {
                in_flight: Some(0.5 * rate * MSS * self.rtt.as_secs_f64()),
                ..Special::default()
            };
            self.round(rate, special);
        }
        panic!("stays in {:?}", self.engine.phase);
    }

    /// `lost` of `in_flight` packets, each reported by itself.
    fn lose(&mut self, lost: u64, in_flight: u64) {
        for nth in 1..=lost {
            let loss = Loss {
                lost_bytes: 1000,
                lost_packets: 1,
                newest_lost_sent: self.now,
                persistent: false,
            };
            let flight = Flight {
                tx_in_flight_bytes: in_flight * 1000,
                lost_bytes: nth * 1000,
                packet_bytes: 1000,
                app_limited: false,
            };
            self.engine
                .on_loss(&self.rules, self.now, MSS, &loss, &flight);
        }
    }

    /// In Cruise, with 1000 packets per second: a BDP of 100.
    fn cruising(list: &str) -> Bench {
        let mut bench = Bench::new(list);
        bench.until(Phase::Cruise, 1000.0);
        bench
    }
}

#[track_caller]
fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * b.abs().max(1.0), "{a} is not {b}");
}

#[test]
fn startup_ends_after_three_rounds_without_growth() {
    let mut bench = Bench::new(DRAFT);
    for rate in [100.0, 200.0, 400.0, 800.0, 1000.0] {
        bench.rounds(1, rate);
        assert_eq!(bench.engine.full.count, 0);
    }
    close(bench.engine.pace.unwrap(), 0.99 * 2.77 * 1000.0 * MSS);
    bench.rounds(2, 1200.0);
    assert_eq!(
        (bench.engine.full.count, bench.engine.phase),
        (2, Phase::Startup)
    );
    bench.rounds(1, 1200.0);
    assert_eq!(bench.engine.phase, Phase::Drain);
    assert!(bench.engine.full.reached);
    close(bench.engine.pace.unwrap(), 0.99 * 0.5 * 1200.0 * MSS);
}

#[test]
fn rounds_that_the_application_limits_do_not_end_startup() {
    // 100 packets/s and 100 ms: growth by a quarter shows with 12.5 packets in flight.
    for (in_flight, ends) in [(12_499.0, false), (12_501.0, true)] {
        let mut bench = Bench::new(DRAFT);
        let limited = Special {
            limited: true,
            in_flight: Some(in_flight),
            ..Special::default()
        };
        for _ in 0..3 {
            bench.round(100.0, limited);
            assert_eq!(bench.engine.phase, Phase::Startup);
        }
        for _ in 0..20 {
            bench.round(100.0, limited);
        }
        assert_eq!(bench.engine.full.reached, ends);
    }
}

#[test]
fn startup_ends_by_losses_in_a_second_round() {
    // 6 ranges of 100 packets; the draft wants a round trip in recovery before.
    let mut bench = Bench::new(DRAFT);
    bench.rounds(1, 500.0);
    for (packets, phase) in [(5, Phase::Startup), (5, Phase::Startup), (6, Phase::Drain)] {
        bench.lose(packets, 100);
        bench.round(
            1000.0,
            Special {
                limited: true,
                in_flight: Some(102.0 * MSS),
                ..Special::default()
            },
        );
        assert_eq!(bench.engine.phase, phase, "{packets}");
    }
    // max(BDP, what was delivered last) is 100, but 102 were in flight and lost nothing.
    close(bench.engine.bounds.inflight_hi, 102.0 * MSS);
}

#[test]
fn judged_losses_without_a_queue_do_not_end_startup() {
    let mut bench = Bench::new("");
    bench.rounds(1, 500.0);
    for _ in 0..4 {
        bench.lose(9, 100);
        bench.round(
            1000.0,
            Special {
                limited: true,
                ..Special::default()
            },
        );
    }
    assert_eq!(bench.engine.phase, Phase::Startup);
}

#[test]
fn drain_ends_with_the_queue_or_after_three_rounds() {
    let drained = |in_flight: f64| {
        let mut bench = Bench::new(DRAFT);
        while bench.engine.phase != Phase::Drain {
            bench.rounds(1, 1000.0);
        }
        let mut rounds = 0;
        while bench.engine.phase == Phase::Drain {
            bench.round(
                1000.0,
                Special {
                    in_flight: Some(in_flight * MSS),
                    ..Special::default()
                },
            );
            rounds += 1;
        }
        assert!(bench.engine.phase.is_probe_bw());
        rounds
    };
    assert_eq!(drained(100.0), 1);
    assert_eq!(drained(101.0), 4);
}

#[test]
fn a_cycle_of_probes() {
    let mut bench = Bench::cruising(DRAFT);
    let bdp = 100.0 * MSS;
    close(bench.engine.pace.unwrap(), 0.99 * 1000.0 * MSS);
    bench.until(Phase::Refill, 1000.0);
    close(bench.engine.pace.unwrap(), 0.99 * 1000.0 * MSS);
    bench.rounds(1, 1000.0);
    assert_eq!(bench.engine.phase, Phase::Up);
    close(bench.engine.pace.unwrap(), 0.99 * 1.25 * 1000.0 * MSS);
    // Up ends after three rounds that brought less than a quarter, the one it began with apart.
    bench.rounds(2, 1000.0);
    assert_eq!(bench.engine.phase, Phase::Up);
    close(bench.engine.target(2.25, MSS), 2.25 * bdp + 2.0 * MSS);
    bench.rounds(1, 1000.0);
    assert_eq!(bench.engine.phase, Phase::Down);
    close(bench.engine.pace.unwrap(), 0.99 * 0.9 * 1000.0 * MSS);
    // More than the BDP in flight keeps it there; the BDP does not.
    bench.round(
        1000.0,
        Special {
            in_flight: Some(bdp + MSS),
            ..Special::default()
        },
    );
    assert_eq!(bench.engine.phase, Phase::Down);
    bench.round(
        1000.0,
        Special {
            in_flight: Some(bdp),
            ..Special::default()
        },
    );
    assert_eq!(bench.engine.phase, Phase::Cruise);
    close(
        bench.engine.cwnd,
        2.0 * bdp + bench.engine.aggregation.extra(),
    );
}

#[test]
fn a_probe_is_due_after_two_to_three_seconds() {
    // Down that never ends goes to Refill.
    let mut bench = Bench::cruising("losses=counted,look=off,regrow=off");
    bench.until(Phase::Up, 1000.0);
    bench.until(Phase::Down, 1000.0);
    let began = bench.now;
    while bench.engine.phase == Phase::Down {
        bench.round(
            1000.0,
            Special {
                in_flight: Some(150.0 * MSS),
                ..Special::default()
            },
        );
    }
    assert_eq!(bench.engine.phase, Phase::Refill);
    let waited = (bench.now - began).as_secs_f64();
    assert!((2.0..=3.2).contains(&waited), "{waited}");
}

#[test]
fn small_flows_probe_as_often_as_reno_grows() {
    // A BDP of ten packets: after 10 rounds, or 9.
    let mut bench = Bench::new(DRAFT);
    bench.until(Phase::Cruise, 100.0);
    let first = bench.engine.rounds.count;
    bench.until(Phase::Refill, 100.0);
    let rounds = bench.engine.rounds.count - first;
    assert!((7..=10).contains(&rounds), "{rounds}");
}

#[test]
fn a_probe_that_loses_too_much_sets_inflight_hi() {
    let mut bench = Bench::cruising(DRAFT);
    bench.until(Phase::Up, 1000.0);
    // 2 of 100 may be lost.
    bench.lose(2, 100);
    assert_eq!(bench.engine.phase, Phase::Up);
    assert!(!bench.engine.lost_too_much());
    bench.lose(3, 100);
    assert_eq!(bench.engine.phase, Phase::Down);
    assert!(bench.engine.lost_too_much());
    // 99 in flight before the packet, 2 lost of them: 99 + (1.98 - 2)/0.98.
    let hi = (99.0 + (0.02 * 99.0 - 2.0) / 0.98) * MSS;
    close(bench.engine.bounds.inflight_hi, hi);
    // Once per probe.
    bench.lose(50, 60);
    close(bench.engine.bounds.inflight_hi, hi);
    bench.until(Phase::Cruise, 1000.0);
    close(bench.engine.cwnd, 0.85 * hi);
}

#[test]
fn losses_between_probes_lower_rate_and_flight_for_now() {
    let mut bench = Bench::cruising(DRAFT);
    bench.rounds(2, 1000.0);
    bench.rounds(1, 500.0);
    let cwnd = bench.engine.cwnd;
    bench.lose(1, 100);
    bench.rounds(2, 500.0);
    close(bench.engine.bounds.bw_lo, 0.7 * 1000.0 * MSS);
    close(bench.engine.bounds.inflight_lo, 0.7 * cwnd);
    close(bench.engine.pace.unwrap(), 0.99 * 0.7 * 1000.0 * MSS);
    // Until the next probe.
    bench.until(Phase::Refill, 500.0);
    assert!(bench.engine.bounds.bw_lo.is_infinite());
}

#[test]
fn judged_losses_between_probes() {
    let lowered = |lost: u64| {
        let mut bench = Bench::cruising("");
        bench.rounds(2, 1000.0);
        bench.lose(lost, 100);
        bench.rounds(2, 1000.0);
        bench.engine.bounds.bw_lo.is_finite()
    };
    // p0 is 0.001 at most, as nothing was lost while it cruised: of 100 packets 2.1 + 0.9 may be lost.
    assert!(!lowered(2));
    assert!(lowered(4));
}

#[test]
fn probe_rtt_after_five_seconds() {
    let mut bench = Bench::cruising(DRAFT);
    // What is above the least RTT refreshes nothing.
    bench.rtt = RTT + Duration::from_millis(1);
    let began = bench.now;
    bench.until(Phase::ProbeRtt, 1000.0);
    assert!(bench.now - began <= Duration::from_millis(5_200));
    bench.until(Phase::Cruise, 1000.0);
    assert!(bench.engine.bounds.bw_lo.is_infinite());
    // The rate it saw with half a BDP in flight is no rate of the path.
    close(bench.engine.max_bw.get(), 1000.0 * MSS);
}

#[test]
fn probe_rtt_halves_the_flight() {
    let mut bench = Bench::cruising(DRAFT);
    bench.rtt = RTT + Duration::from_millis(1);
    bench.until(Phase::ProbeRtt, 1000.0);
    let bdp = bench.engine.bdp(1.0);
    close(bench.engine.cwnd, 0.5 * bdp);
}

#[test]
fn who_was_idle_need_not_probe_the_rtt() {
    let mut bench = Bench::cruising(DRAFT);
    bench.rtt = RTT + Duration::from_millis(1);
    bench.now += Duration::from_secs(6);
    bench.round(
        10.0,
        Special {
            limited: true,
            from_idle: true,
            ..Special::default()
        },
    );
    assert_ne!(bench.engine.phase, Phase::ProbeRtt);
}

#[test]
fn an_rtt_as_good_as_the_least_puts_off_probe_rtt() {
    for (micros, probes) in [(3_000, false), (3_300, true)] {
        let mut bench = Bench::cruising("");
        bench.rtt = RTT + Duration::from_micros(micros);
        let began = bench.now;
        let mut probed = false;
        while bench.now - began < Duration::from_secs(9) {
            bench.rounds(1, 1000.0);
            probed |= bench.engine.phase == Phase::ProbeRtt;
        }
        assert_eq!(probed, probes, "{micros}");
    }
}

#[test]
fn limited_samples_never_lower_the_rate() {
    let mut bench = Bench::cruising(DRAFT);
    for _ in 0..200 {
        bench.round(
            10.0,
            Special {
                limited: true,
                in_flight: Some(MSS),
                ..Special::default()
            },
        );
        assert!(bench.engine.max_bw.get() >= 1000.0 * MSS);
    }
    // But they raise it.
    bench.round(
        2000.0,
        Special {
            limited: true,
            ..Special::default()
        },
    );
    close(bench.engine.max_bw.get(), 2000.0 * MSS);
}

#[test]
fn bundles_that_a_host_lost_are_smaller() {
    // In Cruise and in a probe, where no link is.
    for (min_rtt, phase, left) in [
        (0.0004, Phase::Cruise, 35e3),
        (0.0004, Phase::Up, 35e3),
        (0.0006, Phase::Cruise, 50e3),
    ] {
        let rules = Rules::new(&settings(&ENTRY, ""));
        let mut engine = Engine {
            phase,
            ..Engine::default()
        };
        engine.min_rtt.secs = min_rtt;
        engine.aggregation.set_extra(50e3);
        let mut seen = seen(Instant::now(), min_rtt);
        // 10 of 110 packets.
        seen.sample.total_bytes = 100_000;
        engine.bounds.note_delivery(&seen);
        engine.bounds.lose(10.0);
        engine.adapt_lower_bounds(&rules, &seen);
        close(engine.aggregation.extra(), left);
    }
}

#[test]
fn what_losses_did_is_taken_back_if_there_were_none() {
    let mut bench = Bench::cruising("");
    let engine = &mut bench.engine;
    (engine.bounds.bw_lo, engine.bounds.inflight_lo) = (f64::INFINITY, f64::INFINITY);
    (engine.bounds.inflight_hi, engine.rival.window) = (200e3, 150e3);
    engine.save_upon_loss();
    // Once for an event.
    for is_taken_back in [true, false] {
        (engine.bounds.bw_lo, engine.bounds.inflight_lo) = (7e5, 7e4);
        (engine.bounds.inflight_hi, engine.rival.window) = (140e3, 75e3);
        engine.on_spurious();
        let bounds = &engine.bounds;
        let now = [
            bounds.bw_lo,
            bounds.inflight_lo,
            bounds.inflight_hi,
            engine.rival.window,
        ];
        match is_taken_back {
            true => assert_eq!(now, [f64::INFINITY, f64::INFINITY, 200e3, 150e3]),
            false => assert_eq!(now, [7e5, 7e4, 140e3, 75e3]),
        }
        assert_eq!(engine.phase, Phase::Cruise);
    }
}

#[test]
fn startup_goes_on_if_nothing_was_lost() {
    let mut bench = Bench::new(DRAFT);
    bench.rounds(1, 500.0);
    bench.engine.save_upon_loss();
    for _ in 0..3 {
        bench.lose(6, 100);
        let limited = Special {
            limited: true,
            ..Special::default()
        };
        bench.round(1000.0, limited);
    }
    assert_eq!(bench.engine.phase, Phase::Drain);
    bench.engine.on_spurious();
    assert_eq!(bench.engine.phase, Phase::Startup);
    assert!(!bench.engine.full.reached && bench.engine.bounds.inflight_hi.is_infinite());
}

#[test]
fn look_brings_the_first_probe_forward() {
    let first_probe = |list: &str| {
        let mut bench = Bench::cruising(list);
        let began = bench.now;
        bench.until(Phase::Up, 1000.0);
        (bench.now - began).as_secs_f64()
    };
    assert!(first_probe("") <= 1.3);
    assert!(first_probe("look=off") > 2.0);
}

#[test]
fn a_probe_that_finds_much_more_starts_anew() {
    let found = |list: &str, queue: Duration| {
        let mut bench = Bench::cruising(list);
        bench.until(Phase::Up, 1000.0);
        bench.rtt = RTT + queue;
        bench.rounds(1, 1230.0);
        bench.rounds(1, 1510.0);
        bench.engine.phase
    };
    assert_eq!(found("", Duration::ZERO), Phase::Startup);
    assert_eq!(found("regrow=off", Duration::ZERO), Phase::Up);
    assert_eq!(found("", Duration::from_millis(13)), Phase::Up);
}

#[test]
fn the_share_that_is_lost_anyway() {
    let judge = Judge::default();
    close(judge.p0(0.05), 0.001);
    assert_eq!(judge.p0(0.0), 0.0);
    let rules = |list| Rules::new(&settings(&ENTRY, list));
    // (0.02 + 0.001) 100 + 3 sqrt(0.001 * 0.999 * 100).
    let bound = 2.1 + 3.0 * 0.0999_f64.sqrt();
    close(judge.bound(&rules(""), 100.0), bound);
    close(judge.bound(&rules("losses=counted"), 100.0), 2.0);
    assert!(!judge.too_many(&rules(""), 3.0, 100.0));
    assert!(judge.too_many(&rules(""), 4.0, 100.0));
}

#[test]
fn through_the_seam() {
    let now = Instant::now();
    let mut paths = Registry::new();
    let path = paths.add(PathId(0), 1000);
    path.cwnd_bytes = 10_000;
    path.rtt = Some(Rtt::first(RTT));
    let mut bbr = ENTRY.with_defaults();
    bbr.on_path_added(now, PathId(0));
    let ack = Ack {
        acked_bytes: 10_000,
        acked_packets: 10,
        newest_sent: now,
        in_flight_before_bytes: 10_000,
        rtt_sample: Some(RTT),
        app_limited: false,
    };
    // Nothing is known without a sample.
    assert_eq!(bbr.on_model(now, &paths, PathId(0), &ack, None), None);
    let sample = RateSample {
        total_bytes: 10_000,
        prior_bytes: 0,
        interval: RTT,
        newest: Flight::default(),
    };
    let control = bbr.on_model(now, &paths, PathId(0), &ack, Some(&sample));
    let control = control.unwrap();
    // 10,000 bytes in 100 ms; the window grows by what was acked.
    close(control.pacing_rate_bytes_per_sec.unwrap(), 2.77 * 100_000.0);
    assert_eq!((control.cwnd_bytes, control.starts), (20_000.0, true));
    assert_eq!(Shown::SlowStart.name(), "slow_start");
}

#[test]
fn a_rate_that_was_taken_back_does_not_return_with_what_was_in_flight() {
    let mut bench = Bench::new("");
    for _ in 0..8 {
        bench.round(1000.0, Special::default());
    }
    let before = bench.engine.max_bw();
    bench.engine.scale(&bench.rules, bench.now, 0.5);
    // It left ten packets before that.
    bench.total -= 10_000;
    bench.round(1000.0, Special::default());
    assert_eq!(bench.engine.max_bw(), 0.5 * before);
    bench.round(1000.0, Special::default());
    assert!(bench.engine.max_bw() > 0.9 * before);
}

/// In Cruise with a queue of 20 ms that goes on, which makes a rival; the wait is long.
fn beside_a_rival(list: &str) -> Bench {
    let law = match list.contains("compete") {
        true => "",
        false => "compete=aimd,",
    };
    let list = format!("wait=10s,look=off,{law}{list}");
    let mut bench = Bench::cruising(list.trim_end_matches(','));
    bench.rtt = RTT + Duration::from_millis(20);
    bench.rounds(5, 1000.0);
    assert_eq!(bench.engine.phase, Phase::Cruise);
    bench
}

#[test]
fn a_loss_with_a_rivals_queue_cuts_what_may_be_in_flight() {
    let mut bench = beside_a_rival("keep=0.5");
    bench.engine.peak = [100.0 * MSS, 90.0 * MSS];
    // 0.1 % of 70 packets are 0.07, and three deviations 0.79: one loss is more.
    bench.lose(1, 70);
    close(bench.engine.rival.window, 50.0 * MSS);
    // What left before is of the same event.
    bench.lose(5, 70);
    close(bench.engine.rival.window, 50.0 * MSS);
    // An ACK of what left before does not let it grow, and the window heeds it.
    bench.now -= bench.rtt;
    bench.round(1000.0, Special::default());
    close(bench.engine.cwnd, 50.0 * MSS);
}

#[test]
fn a_loss_that_the_path_has_anyway_cuts_nothing() {
    // 0.1 % of 100 packets are 0.1, and three deviations 0.95: one loss is no more than that, two are.
    let mut bench = beside_a_rival("keep=0.5");
    bench.engine.peak = [100.0 * MSS, 90.0 * MSS];
    bench.lose(1, 100);
    assert!(bench.engine.rival.window.is_infinite());
    bench.lose(1, 100);
    close(bench.engine.rival.window, 50.0 * MSS);
}

#[test]
fn the_virtual_window_grows_by_packets_in_a_round_trip() {
    let mut bench = beside_a_rival("grow=0.6,keep=0.5");
    bench.engine.peak = [100.0 * MSS, 0.0];
    bench.lose(1, 70);
    bench.now += Duration::from_millis(1);
    bench.round(100.0, Special::default());
    // 12 packets are acked of a window of 50: 0.6 * 12/50 of a packet.
    close(bench.engine.rival.window, (50.0 + 0.6 * 12.0 / 50.0) * MSS);
    assert_eq!(bench.engine.bound_at(), Some(bench.now));
    // Of a group of which it has a quarter, a quarter.
    bench.engine.orders.others_share = 0.75;
    let before = bench.engine.rival.window;
    bench.round(100.0, Special::default());
    let step = 0.25 * 0.6 * 12.0 * MSS * MSS / before;
    close(bench.engine.rival.window, before + step);
}

#[test]
fn losses_without_a_rivals_queue_cut_nothing() {
    // No queue; a queue that is there only while another path of the connection acts; not wanted.
    let mut alone = Bench::cruising("compete=aimd");
    alone.rounds(3, 1000.0);
    alone.lose(3, 100);
    assert!(alone.engine.rival.window.is_infinite());
    let mut ours = Bench::cruising("wait=10s,look=off,compete=aimd");
    ours.engine.orders.others_act = true;
    ours.rtt = RTT + Duration::from_millis(20);
    ours.rounds(5, 1000.0);
    ours.lose(3, 100);
    assert!(ours.engine.rival.window.is_infinite());
    let mut off = beside_a_rival("compete=off");
    off.lose(3, 100);
    assert!(off.engine.rival.window.is_infinite());
    // A queue of more than three round trips: twice the BDP is little there.
    let mut deep = beside_a_rival("");
    deep.rtt = 4 * RTT + Duration::from_millis(1);
    deep.rounds(3, 1000.0);
    deep.lose(3, 100);
    assert!(deep.engine.rival.window.is_infinite());
}

#[test]
fn a_rival_is_forgotten_three_seconds_after_its_queue() {
    let mut bench = beside_a_rival("");
    bench.lose(1, 70);
    assert!(bench.engine.rival.window.is_finite());
    bench.rtt = RTT;
    bench.rounds(25, 300.0);
    assert!(bench.engine.rival.window.is_finite());
    bench.rounds(10, 300.0);
    assert!(bench.engine.rival.window.is_infinite());
}

#[test]
fn one_cubic_is_cut_by_its_own_beta() {
    let mut bench = beside_a_rival("compete=one-cubic,keep=0.5");
    bench.engine.peak = [100.0 * MSS, 0.0];
    bench.lose(1, 70);
    close(bench.engine.rival.window, 70.0 * MSS);
}

/// An ACK of one packet, with an RTT in seconds.
fn seen(now: Instant, rtt: f64) -> Seen {
    Seen {
        rtt: Some(rtt),
        ..testing::seen(now)
    }
}

#[test]
fn as_many_losses_as_the_path_has_anyway_are_not_a_rivals() {
    let mut judge = Judge::default();
    let rules = Rules::new(&settings(&ENTRY, ""));
    // p0 = 0.001: of 75 packets 0.075 + 3 sqrt(0.0749) = 0.896, of 100 0.1 + 3 sqrt(0.0999) = 1.048.
    assert!(!judge.gives_way(&rules, 75.0));
    let mut bench = Bench::new("");
    bench.rtt = RTT + Duration::from_millis(20);
    for _ in 0..3 {
        bench.now += RTT;
        judge.on_ack(&seen(bench.now, 0.12), 0.1, true);
    }
    judge.on_loss(1.0);
    assert!(judge.gives_way(&rules, 75.0));
    assert!(!judge.gives_way(&rules, 100.0));
    // Half of 20 ms is more than the 4 ms that are a queue, 3 ms are none.
    for (queue, sees) in [(0.0041, true), (0.003, false)] {
        for _ in 0..3 {
            bench.now += RTT;
            judge.on_ack(&seen(bench.now, 0.1 + queue), 0.1, true);
        }
        assert_eq!(judge.sees_queue(), sees, "{queue}");
    }
}

#[test]
fn one_late_packet_is_no_queue() {
    let mut judge = Judge::default();
    let mut now = Instant::now();
    let mut see = |judge: &mut Judge, rtt: f64| {
        now += Duration::from_millis(5);
        judge.on_ack(&seen(now, rtt), 0.1, true);
    };
    // The least of the last 12.5 to 25 ms counts.
    for rtt in [0.1, 0.11, 0.11, 0.1, 0.13] {
        see(&mut judge, rtt);
    }
    close(judge.queue_now(), 0.0);
    for _ in 0..6 {
        see(&mut judge, 0.11);
    }
    close(judge.queue_now(), 0.01);
}

#[test]
fn what_may_be_in_flight_by_hand() {
    let mut engine = Engine {
        initial_cwnd: 9_000.0,
        ..Engine::default()
    };
    // The initial window as long as there is no RTT, or no rate.
    engine.bw = 1e6;
    close(engine.bdp(2.0), 9_000.0);
    engine.min_rtt.secs = 0.1;
    engine.bw = 0.0;
    close(engine.bdp(2.0), 9_000.0);
    // 1 MB/s and 0.1 s: 100 kB.
    engine.bw = 1e6;
    for (gain, bytes) in [(0.5, 50e3), (1.0, 100e3), (2.0, 200e3)] {
        close(engine.bdp(gain), bytes);
    }
    // What is above the BDP is by the group's RTT: 100 kB and 1.0 or 1.25 times 1 MB/s 0.04 s.
    engine.orders.queue_rtt = 0.04;
    for (gain, bytes) in [(0.5, 50e3), (1.0, 100e3), (2.0, 140e3), (2.25, 150e3)] {
        close(engine.bdp(gain), bytes);
    }
    // 0.05 s of 1 MB/s; at least three times a millisecond of the pace or 64 KiB, and four packets; two more in Up.
    close(engine.target(0.5, MSS), 50e3);
    engine.pace = Some(20e6);
    close(engine.target(0.5, MSS), 60e3);
    engine.pace = Some(80e6);
    close(engine.target(0.5, MSS), 196_608.0);
    engine.phase = Phase::Up;
    close(engine.target(1.0, MSS), 198_608.0);
    engine.pace = Some(20e6);
    close(engine.target(2.25, MSS), 152e3);
    engine.bw = 1.0;
    engine.pace = Some(1.0);
    close(engine.target(1.0, MSS), 6e3);
    engine.phase = Phase::Cruise;
    close(engine.target(1.0, MSS), 4e3);
}

#[test]
fn a_window_by_hand() {
    let rules = Rules::new(&settings(&ENTRY, ""));
    // 1 MB/s and 0.1 s, in Cruise: 200 kB.
    let engine = |cwnd: f64, reached: bool| {
        let mut engine = Engine {
            phase: Phase::Cruise,
            bw: 1e6,
            cwnd,
            initial_cwnd: 10e3,
            ..Engine::default()
        };
        engine.min_rtt.secs = 0.1;
        engine.full.reached = reached;
        engine
    };
    let after = |mut engine: Engine, total: u64| {
        let mut seen = seen(Instant::now(), 0.1);
        (seen.sample.total_bytes, seen.acked) = (total, 5e3);
        engine.set_cwnd(&seen);
        engine.cwnd
    };
    let late = 1_000_000;
    // By what was acked, and no more than that once the rate is known.
    close(after(engine(100e3, true), late), 105e3);
    close(after(engine(198e3, true), late), 200e3);
    // Before, beyond it by the ACK that crosses it, or in the initial window.
    close(after(engine(198e3, false), late), 203e3);
    close(after(engine(200e3, false), late), 200e3);
    close(after(engine(200e3, false), 9_999), 205e3);
    close(after(engine(200e3, false), 10_000), 200e3);
    // Four packets, whatever bounds say.
    let mut low = engine(100e3, true);
    low.bounds.inflight_lo = 1.0;
    close(after(low, late), 4e3);
    let mut low = engine(100e3, true);
    low.rival.window = 30e3;
    close(after(low, late), 30e3);
    // 50 kB in bundles are in flight besides twice 100 kB.
    let mut bundled = engine(300e3, true);
    bundled.aggregation.set_extra(50e3);
    close(after(bundled, late), 250e3);

    // The pace: 0.99 of gain and rate; lower only once the rate is known, and never none.
    let pace = |bw: f64, reached: bool| {
        let mut engine = engine(100e3, reached);
        (engine.bw, engine.pace) = (bw, Some(500e3));
        engine.set_pace(&rules);
        engine.pace.unwrap()
    };
    close(pace(1e6, false), 990e3);
    close(pace(0.4e6, false), 500e3);
    close(pace(0.4e6, true), 396e3);
    close(pace(0.0, true), 500e3);
}

#[test]
fn what_a_recovery_held_down_is_restored() {
    let rules = Rules::new(&settings(&ENTRY, ""));
    let mut engine = Engine::default();
    // The last window that neither recovery nor ProbeRTT held down.
    (engine.cwnd, engine.phase) = (80e3, Phase::Cruise);
    engine.save_cwnd();
    close(engine.prior_cwnd, 80e3);
    engine.cwnd = 60e3;
    for (in_recovery, phase, prior) in [
        (true, Phase::Cruise, 80e3),
        (false, Phase::ProbeRtt, 80e3),
        (false, Phase::Cruise, 60e3),
    ] {
        (engine.in_recovery, engine.phase) = (in_recovery, phase);
        engine.save_cwnd();
        close(engine.prior_cwnd, prior);
    }
    for (cwnd, restored) in [(50e3, 60e3), (70e3, 70e3)] {
        engine.cwnd = cwnd;
        engine.restore_cwnd();
        close(engine.cwnd, restored);
    }

    // The same as losses and ACKs tell it: saved at the first loss, restored when all is over.
    let mut bench = Bench::cruising("");
    let mut paths = Registry::new();
    let path = paths.add(PathId(0), MSS as u64);
    path.rtt = Some(Rtt::first(RTT));
    path.in_recovery = true;
    let (now, before) = (bench.now, bench.engine.cwnd);
    let loss = Loss {
        lost_bytes: 1000,
        lost_packets: 1,
        newest_lost_sent: now,
        persistent: false,
    };
    let flight = Flight::default();
    bench.engine.bounds.bw_lo = 9e5;
    for cwnd in [before, 60e3] {
        bench.engine.cwnd = cwnd;
        bench.engine.lost(&rules, now, path, &loss, Some(&flight));
        close(bench.engine.prior_cwnd, before);
        // The second loss is of the same event.
        bench.engine.bounds.bw_lo = 7e5;
    }
    let mut late = bench.engine.clone();
    late.on_spurious();
    close(late.bounds.bw_lo, 9e5);
    bench.engine.bounds.bw_lo = f64::INFINITY;
    bench.engine.cwnd = 60e3;
    let ack = Ack {
        acked_bytes: 1000,
        acked_packets: 1,
        newest_sent: now,
        in_flight_before_bytes: 60_000,
        rtt_sample: Some(RTT),
        app_limited: false,
    };
    let sample = RateSample {
        total_bytes: bench.total,
        prior_bytes: bench.total - 1000,
        interval: RTT,
        newest: flight,
    };
    for (in_recovery, cwnd) in [(true, 61e3), (true, 62e3), (false, before)] {
        path.in_recovery = in_recovery;
        let control = bench.engine.model(&rules, now, path, &ack, Some(&sample));
        let control = control.unwrap().cwnd_bytes;
        assert!((control - cwnd).abs() < 1_100.0, "{control} for {cwnd}");
    }
}

#[test]
fn a_group_takes_off_the_rate() {
    let mut bench = Bench::cruising("");
    close(bench.engine.bw, 1e6);
    bench.engine.orders.less = 0.1;
    bench.rounds(1, 1000.0);
    close(bench.engine.bw, 0.9e6);
}

#[test]
fn samples_that_are_ignored_by_hand() {
    let mut engine = Engine::default();
    let mut seen = seen(Instant::now(), 0.1);
    let ignored = |engine: &Engine, expected: [(u64, bool); 4]| {
        for (prior, is_ignored) in expected {
            assert_eq!(engine.is_ignored(prior), is_ignored, "{prior}");
        }
    };
    // 500 bytes are in flight: what leaves until they are delivered.
    (seen.sample.total_bytes, seen.in_flight) = (1000, 500.0);
    engine.ignore_samples(&seen);
    ignored(
        &engine,
        [(999, false), (1000, true), (1499, true), (1500, false)],
    );
    // Again before that, or just then: without a gap.
    seen.sample.total_bytes = 1200;
    engine.ignore_samples(&seen);
    ignored(
        &engine,
        [(999, false), (1000, true), (1699, true), (1700, false)],
    );
    seen.sample.total_bytes = 1700;
    engine.ignore_samples(&seen);
    ignored(
        &engine,
        [(999, false), (1000, true), (2199, true), (2200, false)],
    );
    // And later.
    seen.sample.total_bytes = 2201;
    engine.ignore_samples(&seen);
    ignored(
        &engine,
        [(2199, false), (2200, false), (2201, true), (2701, false)],
    );
}

#[test]
fn the_most_that_is_lost_anyway_is_a_parameter() {
    assert_eq!(Rules::new(&settings(&ENTRY, "")).noise(), 0.05);
    assert_eq!(Rules::new(&settings(&ENTRY, "noise=0.1")).noise(), 0.1);
}

#[test]
fn phases_and_what_they_are() {
    let all = [
        (Phase::Startup, [false, true, true]),
        (Phase::Drain, [false, false, true]),
        (Phase::Down, [true, false, false]),
        (Phase::Cruise, [true, false, false]),
        (Phase::Refill, [true, true, false]),
        (Phase::Up, [true, true, false]),
        (Phase::ProbeRtt, [false, false, false]),
    ];
    for (phase, expected) in all {
        let is = [phase.is_probe_bw(), phase.is_probing(), phase.is_starting()];
        assert_eq!(is, expected, "{phase:?}");
    }
}

#[test]
fn a_path_that_joins_a_group_keeps_its_part() {
    let bench = Bench::cruising("");
    let now = bench.now;
    let scaled = |engine: &mut Engine, rules: &Rules| {
        engine.bounds.inflight_hi = 240e3;
        engine.bounds.bw_lo = 800e3;
        engine.bounds.inflight_lo = 160e3;
        (engine.bw, engine.cwnd, engine.prior_cwnd) = (800e3, 120e3, 180e3);
        engine.rival.window = 200e3;
        let was = engine.max_bw();
        engine.scale(rules, now, 0.25);
        close(engine.max_bw(), 0.25 * was);
        close(engine.bw, 200e3);
        close(engine.bounds.inflight_hi, 60e3);
        close(engine.cwnd, 30e3);
        close(engine.prior_cwnd, 45e3);
        close(engine.rival.window, 50e3);
        assert_eq!(engine.taken_back, engine.rounds.total());
    };
    // Who probes leaves that to others.
    let mut engine = bench.engine.clone();
    engine.phase = Phase::Up;
    scaled(&mut engine, &bench.rules);
    assert_eq!(engine.phase, Phase::Down);
    // Who empties the queue, or has not found its rate yet, goes on.
    for (phase, reached) in [(Phase::ProbeRtt, true), (Phase::Startup, false)] {
        let mut engine = bench.engine.clone();
        (engine.phase, engine.full.reached) = (phase, reached);
        scaled(&mut engine, &bench.rules);
        assert_eq!(engine.phase, phase);
        close(engine.bounds.bw_lo, 200e3);
        close(engine.bounds.inflight_lo, 40e3);
    }
}

#[test]
fn a_probe_that_meets_no_queue_has_the_whole_rate() {
    for (phase, queue_ms, less) in [
        (Phase::Up, 0, 0.0),
        (Phase::Up, 30, 0.1),
        (Phase::Cruise, 0, 0.1),
        (Phase::Cruise, 30, 0.1),
    ] {
        let mut engine = Engine {
            phase,
            ..Engine::default()
        };
        engine.orders.less = 0.1;
        let mut seen = testing::seen(Instant::now());
        seen.rtt = Some(RTT.as_secs_f64() + f64::from(queue_ms) * 1e-3);
        engine.judge.on_ack(&seen, RTT.as_secs_f64(), false);
        assert_eq!(engine.less(), less, "{phase:?}, {queue_ms} ms");
    }
}
