//! What the shared machinery asks a controller, and what it does with the answer.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use super::super::boxed;
use super::super::testing::*;
use super::super::Change;
use super::super::Controller;
use super::super::Own;
use super::*;
use crate::registry::Rtt;
use crate::registry::SSTHRESH_UNSET;

const MS: Duration = Duration::from_millis(1);
const ID: PathId = PathId(0);

/// Remembers the round trips that it is told of, and answers as it is told.
#[derive(Clone, Debug, Default)]
struct Told {
    rounds: Arc<Mutex<Vec<Round>>>,
    change: Option<Change>,
    initial_packets: Option<f64>,
}

impl Controller for Told {
    type Flow = ();

    fn initial_window_packets(&self) -> Option<f64> {
        self.initial_packets
    }

    fn on_round(&mut self, _own: Own<()>, round: &Round) -> Option<Change> {
        self.rounds.lock().unwrap().push(*round);
        self.change
    }

    fn increase(&mut self, _own: Own<()>, _ack: &Ack) -> f64 {
        0.0
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        own.path.cwnd_bytes as f64 / 2.0
    }
}

/// One path of 100 ms that begins with ten packets of 1000 bytes.
struct Bench {
    group: Group,
    paths: Registry,
    now: Instant,
}

impl Bench {
    fn new(controller: Box<dyn AnyController>, start: Start) -> Self {
        let options = Options {
            start,
            ..Options::default()
        };
        let mut bench = Bench {
            group: Group::new(controller, options),
            paths: paths(&[(10, 100)]),
            now: Instant::now(),
        };
        let (group, now) = (&mut bench.group, bench.now);
        group.on_path_added(now, &mut bench.paths, ID, 10_000);
        bench
    }

    fn told(told: &Told) -> Self {
        Bench::new(boxed(told.clone()), Start::Slow)
    }

    /// A packet that left at `sent_ms` is acked now, with so much in flight.
    fn ack(&mut self, sent: Instant, rtt_ms: u32, in_flight_before_bytes: u64) {
        let ack = Ack {
            in_flight_before_bytes,
            rtt_sample: Some(rtt_ms * MS),
            ..ack(sent)
        };
        self.group.on_ack(self.now, &mut self.paths, ID, &ack);
    }

    fn lose(&mut self, sent: Instant) {
        let loss = Loss {
            lost_bytes: MSS,
            lost_packets: 1,
            newest_lost_sent: sent,
            persistent: false,
        };
        self.group.on_loss(self.now, &mut self.paths, ID, &loss);
    }

    fn path(&self) -> &PathState {
        self.paths.get(ID).unwrap()
    }
}

#[test]
fn a_controller_may_want_less_to_begin_with() {
    for (packets, cwnd_bytes) in [(None, 10_000), (Some(4.0), 4_000), (Some(40.0), 10_000)] {
        let told = Told {
            initial_packets: packets,
            ..Told::default()
        };
        assert_eq!(Bench::told(&told).path().cwnd_bytes, cwnd_bytes);
    }
}

#[test]
fn what_a_controller_is_told_of_a_round_trip() {
    for (in_flight, loses, limited) in [
        (10_000, false, true),
        (10_000, true, false),
        (1_000, false, false),
    ] {
        let told = Told::default();
        let mut bench = Bench::told(&told);
        let sent = bench.now;
        bench.now += 100 * MS;
        bench.ack(sent, 100, in_flight);
        bench.ack(sent, 200, in_flight);
        let sent = bench.now;
        if loses {
            // The packet that ends the round trip left before it.
            bench.lose(sent);
        }
        bench.now += 100 * MS;
        bench.ack(sent, 300, in_flight);
        let rounds = told.rounds.lock().unwrap();
        let [round] = rounds[..] else {
            panic!("{rounds:?}")
        };
        assert_eq!((round.samples, round.limited), (2, limited));
        assert_eq!((round.min_rtt, round.mean_rtt), (100 * MS, 150 * MS));
    }
}

#[test]
fn a_change_is_not_made_in_recovery() {
    for (loses, cwnd_bytes) in [(false, 8_000), (true, 5_000)] {
        let told = Told {
            change: Some(Change {
                cwnd_bytes: 8_000.0,
                ssthresh_bytes: Some(7_000.0),
            }),
            ..Told::default()
        };
        let mut bench = Bench::told(&told);
        let sent = bench.now;
        bench.ack(sent, 100, 1_000);
        bench.now += 100 * MS;
        if loses {
            bench.lose(bench.now);
        }
        bench.ack(bench.now, 100, 1_000);
        assert_eq!(bench.path().cwnd_bytes, cwnd_bytes);
    }
}

#[test]
fn what_is_remembered_of_a_path() {
    let mut bench = Bench::new(boxed(Told::default()), Start::Slow);
    assert_eq!(bench.group.observed(&bench.paths, ID), None);
    let window = bench.group.paths.get_mut(ID).unwrap();
    (window.cwnd_bytes, window.ssthresh_bytes) = (80_000.0, 80_000.0);
    bench.now += MS;
    bench.ack(bench.now, 100, 80_000);
    let saved = Saved {
        cwnd_bytes: 80_000,
        rtt: 100 * MS,
    };
    assert_eq!(bench.group.observed(&bench.paths, ID), Some(saved));
}

#[test]
fn a_path_that_begins_jumps_once_its_first_flight_is_measured() {
    // Ten packets, acked one in a millisecond: 1 MB/s, and half of that in 100 ms.
    for (start, has_slow_start, jumps) in [
        (Start::Train, true, true),
        (Start::Slow, true, false),
        (Start::Train, false, false),
    ] {
        let name = if has_slow_start {
            "lia"
        } else {
            "ledbat:init=10"
        };
        let mut bench = Bench::new(super::super::by_name(name).unwrap(), start);
        let sent = bench.now;
        for packet in 0..10 {
            bench.now = sent + (100 + packet) * MS;
            bench.ack(sent, 100, 10_000);
        }
        let window = bench.group.paths.get(ID).unwrap();
        assert_eq!(window.resume.is_some(), jumps, "{start:?} {name}");
        assert_eq!(bench.path().cwnd_bytes >= 50_000, jumps, "{start:?} {name}");
    }
}

#[test]
fn a_window_falls_to_two_packets_and_no_further() {
    let mut bench = Bench::told(&Told::default());
    for cwnd_bytes in [5_000, 2_500, 2_000, 2_000] {
        bench.lose(bench.now);
        bench.now += MS;
        assert_eq!(bench.path().cwnd_bytes, cwnd_bytes);
        assert_eq!(bench.path().ssthresh_bytes, cwnd_bytes);
    }
    assert_ne!(bench.path().ssthresh_bytes, SSTHRESH_UNSET);
    assert_eq!(
        bench.path().rtt.map(|rtt| rtt.min),
        Some(Rtt::first(100 * MS).min)
    );
}

#[test]
fn what_is_always_in_flight() {
    for (name, least_packets) in [
        ("lia", 3),
        ("coupled-cubic", 3),
        ("olia:min-window=2", 2),
        ("balia:min-window=16", 16),
        ("uncoupled-reno", 2),
    ] {
        let choice: super::super::Choice = name.parse().unwrap();
        let mut group = Group::new(choice.controller(), choice.options());
        let mut paths = paths(&[(10, 100)]);
        let mut now = Instant::now();
        group.on_path_added(now, &mut paths, ID, 10_000);
        for _ in 0..10 {
            let loss = Loss {
                lost_bytes: MSS,
                lost_packets: 1,
                newest_lost_sent: now,
                persistent: false,
            };
            group.on_loss(now, &mut paths, ID, &loss);
            now += MS;
        }
        let cwnd_bytes = paths.get(ID).unwrap().cwnd_bytes;
        assert_eq!(cwnd_bytes, least_packets * MSS, "{name}");
    }
}

#[test]
fn who_resumes() {
    let saved = Saved {
        cwnd_bytes: 400_000,
        rtt: 100 * MS,
    };
    // Slow start, and a window that has not changed.
    for (name, cwnd_bytes, resumes) in [
        ("lia", 10_000.0, true),
        ("lia", 10_001.0, false),
        ("ledbat:init=10", 10_000.0, false),
    ] {
        let mut bench = Bench::new(super::super::by_name(name).unwrap(), Start::Slow);
        bench.group.paths.get_mut(ID).unwrap().cwnd_bytes = cwnd_bytes;
        bench.group.resume(ID, saved);
        let window = bench.group.paths.get(ID).unwrap();
        assert_eq!(window.resume.is_some(), resumes, "{name} {cwnd_bytes}");
    }
}

#[test]
fn only_round_trips_that_fill_the_window_lead_to_a_re_entry() {
    for (in_flight, grows) in [(40_000, true), (1_000, false)] {
        let mut bench = Bench::told(&Told::default());
        bench.group.options.re_entry = true;
        bench.paths.add(PathId(1), MSS).rtt = Some(Rtt::first(100 * MS));
        let now = bench.now;
        let group = &mut bench.group;
        group.on_path_added(now, &mut bench.paths, PathId(1), 10_000);
        group.paths.get_mut(ID).unwrap().cwnd_bytes = 80_000.0;
        bench.paths.get_mut(ID).unwrap().cwnd_bytes = 80_000;
        bench.lose(bench.now);
        let grew = (0..100).any(|_| {
            bench.now += 100 * MS;
            let sent = bench.now;
            bench.now += 100 * MS;
            bench.ack(sent, 100, in_flight);
            bench.group.paths.get(ID).unwrap().re_entry.grows()
        });
        assert_eq!(grew, grows, "{in_flight}");
    }
}

/// A group with `name` whose path has left slow start at 36 packets.
fn avoids(name: &str) -> Bench {
    let choice: super::super::Choice = name.parse().unwrap();
    let mut bench = Bench::new(choice.controller(), Start::Slow);
    let window = bench.group.paths.get_mut(ID).unwrap();
    (window.cwnd_bytes, window.ssthresh_bytes) = (36_000.0, 36_000.0);
    window.publish(bench.paths.get_mut(ID).unwrap(), true);
    bench
}

impl Bench {
    /// The window and its threshold, in packets.
    fn packets(&self) -> (u64, u64) {
        (
            self.path().cwnd_bytes / MSS,
            self.path().ssthresh_bytes / MSS,
        )
    }

    fn shown(&self, name: &str) -> f64 {
        let trace = self.group.trace(self.now, &self.paths, ID).unwrap();
        let value = trace.values().iter().find(|(other, _)| *other == name);
        value.unwrap().1
    }
}

/// RFC 9438, section 4.9.1: window, threshold and W_max are what they were.
#[test]
fn losses_that_were_none_are_taken_back() {
    let mut bench = avoids("uncoupled-cubic");
    let sent = bench.now;
    bench.now += 100 * MS;
    bench.lose(sent);
    assert_eq!(bench.packets(), (25, 25));
    close(bench.shown("w_max_packets"), 36.0);
    assert!(bench.path().in_recovery);

    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(bench.packets(), (36, 36));
    close(bench.shown("w_max_packets"), 0.0);
    assert!(!bench.path().in_recovery);

    // Nothing is left to be taken back, and the next loss counts, whenever its packet left.
    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(bench.packets(), (36, 36));
    bench.lose(sent);
    assert_eq!(bench.packets(), (25, 25));
    // Less than before, as there is no second event within a round trip.
    bench.lose(sent);
    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(bench.packets(), (36, 36));
}

#[test]
fn a_models_recovery_ends_if_nothing_was_lost() {
    for name in ["uncoupled-bbr", "sbd-bbr"] {
        let mut bench = Bench::new(super::super::by_name(name).unwrap(), Start::Slow);
        let loss = Loss {
            lost_bytes: MSS,
            lost_packets: 1,
            newest_lost_sent: bench.now,
            persistent: false,
        };
        let (now, paths) = (bench.now, &mut bench.paths);
        bench.group.on_rated_loss(now, paths, ID, &loss, None);
        assert!(bench.path().in_recovery);
        bench.group.on_spurious_congestion(&mut bench.paths, ID);
        assert!(!bench.path().in_recovery, "{name}");
    }
}

#[test]
fn slow_start_goes_on_if_nothing_was_lost() {
    let mut bench = Bench::new(super::super::by_name("lia").unwrap(), Start::Slow);
    let sent = bench.now;
    bench.now += 100 * MS;
    bench.lose(sent);
    assert_eq!(bench.packets(), (5, 5));
    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(bench.path().cwnd_bytes, 10_000);
    assert_eq!(bench.path().ssthresh_bytes, SSTHRESH_UNSET);
    bench.ack(sent, 100, 10_000);
    assert_eq!(bench.path().cwnd_bytes, 11_000);
}

/// What OLIA and re-entry go by: the bytes since the last loss, and whether it was unlucky.
#[test]
fn bytes_between_losses_are_those_between_real_ones() {
    let mut bench = avoids("olia");
    let sent = bench.now;
    bench.now += 100 * MS;
    bench.ack(sent, 100, 36_000);
    bench.lose(sent);
    bench.now += MS;
    bench.ack(sent, 100, 36_000);
    let counted = |bench: &Bench| {
        let path = bench.path();
        (path.acked_between_losses_bytes, path.acked_since_loss_bytes)
    };
    assert_eq!(counted(&bench), (MSS, MSS));
    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(counted(&bench), (0, 2 * MSS));
}

#[test]
fn persistent_congestion_is_not_taken_back() {
    let mut bench = avoids("uncoupled-reno");
    bench.now += 100 * MS;
    bench.lose(bench.now - 50 * MS);
    let loss = Loss {
        lost_bytes: MSS,
        lost_packets: 1,
        newest_lost_sent: bench.now - 50 * MS,
        persistent: true,
    };
    bench.group.on_loss(bench.now, &mut bench.paths, ID, &loss);
    let before = bench.packets();
    assert!(before.0 <= 10);
    bench.group.on_spurious_congestion(&mut bench.paths, ID);
    assert_eq!(bench.packets(), before);
}
