//! Queues by hand, and what is made of them.

use std::time::Duration;

use super::super::sbd_cubic;
use super::super::testing::ack;
use super::super::testing::paths;
use super::super::testing::settings;
use super::super::testing::Registry;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Two paths or more whose delays are given every 5 ms.
struct Bench {
    detector: Detector,
    paths: Registry,
    now: Instant,
    seed: u64,
}

impl Bench {
    fn new(list: &str, acts: u32, count: u64) -> Bench {
        let now = Instant::now() + Duration::from_secs(100);
        let rtts: Vec<(u64, u64)> = (0..count).map(|_| (10, 50)).collect();
        let mut bench = Bench {
            detector: Detector::new(&settings(&sbd_cubic::ENTRY, list), acts),
            paths: paths(&rtts),
            now,
            seed: 1,
        };
        for id in 0..count {
            bench.detector.add(now, PathId(id));
        }
        bench
    }

    /// Within [0, 1).
    fn random(&mut self) -> f64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.seed >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Path `id` measures a queueing delay, ms, beyond the 20 ms and the clock that it has anyway.
    fn delay(&mut self, id: u64, queue_ms: f64, act: Act) {
        let path = self.paths.get_mut(PathId(id)).unwrap();
        path.one_way_delay_micros = Some(-7_000_000 + 20_000 + (queue_ms * 1e3) as i64);
        let path = self.paths.get(PathId(id)).unwrap();
        let mut ack = ack(self.now);
        ack.newest_sent = self.now - 50 * MS;
        self.detector.on_ack(self.now, path, &ack, act);
    }

    /// Queues that wander, 4 ms up or down in some 100 ms: one for each of `of`, which names the
    /// queue of each path.
    fn run(&mut self, secs: f64, of: &[usize], act: impl Fn(f64, u64) -> Act) {
        let mut queues = vec![[10.0, 10.0]; of.len()];
        for step in 0..(secs * 200.0) as u64 {
            self.now += 5 * MS;
            if step % 20 == 0 {
                for queue in &mut queues {
                    *queue = [queue[1], 6.0 + 8.0 * self.random()];
                }
            }
            let part = (step % 20) as f64 / 20.0;
            for (id, queue) in of.iter().enumerate() {
                let [from, to] = queues[*queue];
                let id = id as u64;
                self.delay(id, from + part * (to - from), act(step as f64 / 200.0, id));
            }
        }
    }

    fn shared(&self, a: u64, b: u64) -> bool {
        self.detector.same_group(PathId(a), PathId(b))
    }
}

fn steady(_secs: f64, _id: u64) -> Act {
    Act::Steady
}

#[test]
fn one_queue_is_known_after_two_windows() {
    let mut bench = Bench::new("", 0, 2);
    // A window is 0.96 s, of which the first has 11 bins of 20 ms that nothing is known of.
    bench.run(1.9, &[0, 0], steady);
    assert!(!bench.shared(0, 1));
    assert_eq!(bench.detector.verdict(PathId(1)), None);
    bench.run(0.2, &[0, 0], steady);
    assert!(bench.shared(0, 1));
    assert_eq!(bench.detector.group(PathId(1)), PathId(0));
    assert_eq!(bench.detector.verdict(PathId(1)), Some(PathId(0)));
    assert_eq!(bench.detector.group_paths(PathId(1)), 2);
    assert!(!bench.detector.is_open(PathId(0), PathId(1)));
}

#[test]
fn two_queues_are_never_one_and_a_verdict_stays_until_the_other_is_reached() {
    let mut bench = Bench::new("", 0, 2);
    bench.run(60.0, &[0, 1], steady);
    assert!(!bench.shared(0, 1));
    assert_eq!(bench.detector.llr(PathId(0)), -MOST_ODDS);
    // From -6 to 4: five windows.
    bench.run(4.0, &[0, 0], steady);
    assert!(!bench.shared(0, 1));
    bench.run(2.0, &[0, 0], steady);
    assert!(bench.shared(0, 1));
    // And back.
    bench.run(6.5, &[0, 1], steady);
    assert!(!bench.shared(0, 1));
}

#[test]
fn queues_that_do_not_move_say_nothing() {
    let mut bench = Bench::new("", 0, 2);
    for step in 0..2000 {
        bench.now += 5 * MS;
        for id in 0..2 {
            bench.delay(id, 30.0 + f64::from(step % 2) * 0.2, Act::Steady);
        }
    }
    assert_eq!(bench.detector.llr(PathId(0)), 0.0);
    assert!(bench.detector.is_open(PathId(0), PathId(1)));
    // With less power asked for they do not either: what changes within a bin is none of a queue.
    assert!(!bench.shared(0, 1));
}

#[test]
fn a_path_whose_queue_moves_alone_shares_with_none() {
    let mut bench = Bench::new("", 0, 2);
    for step in 0..1000 {
        bench.now += 5 * MS;
        let wave = 10.0 * (1.0 + (f64::from(step) / 20.0).sin());
        bench.delay(0, wave, Act::Steady);
        bench.delay(1, 0.0, Act::Steady);
    }
    assert!(bench.detector.llr(PathId(0)) <= -VERDICT);
}

#[test]
fn paths_that_begin_together_say_nothing() {
    let mut bench = Bench::new("", 0, 2);
    bench.run(5.0, &[0, 0], |_, _| Act::Starts);
    assert_eq!(bench.detector.llr(PathId(0)), 0.0);
    // One that begins beside another does.
    let mut bench = Bench::new("", 0, 2);
    bench.run(2.3, &[0, 0], |_, id| {
        [Act::Starts, Act::Steady][id as usize]
    });
    assert!(bench.shared(0, 1));
}

#[test]
fn paths_in_step_need_acts_of_one_alone() {
    let mut bench = Bench::new("", 2, 2);
    bench.run(8.0, &[0, 0], steady);
    assert!(!bench.shared(0, 1));
    assert!(bench.detector.needs_act(PathId(0)));
    // Acts of both at the same time prove nothing.
    bench.run(4.0, &[0, 0], |_, _| Act::Acts);
    assert!(!bench.shared(0, 1));
    bench.run(1.0, &[0, 0], |_, id| [Act::Acts, Act::Steady][id as usize]);
    assert!(!bench.shared(0, 1));
    bench.run(2.0, &[0, 0], |_, id| [Act::Acts, Act::Steady][id as usize]);
    assert!(bench.shared(0, 1));
    assert!(!bench.detector.needs_act(PathId(0)));
}

#[test]
fn groups_are_what_pairs_connect() {
    let mut bench = Bench::new("", 0, 4);
    bench.run(6.0, &[0, 1, 1, 0], steady);
    assert!(bench.shared(0, 3) && bench.shared(1, 2));
    assert!(!bench.shared(0, 1) && !bench.shared(2, 3));
    assert_eq!(
        [0, 1, 2, 3].map(|id| bench.detector.group(PathId(id)).0),
        [0, 1, 1, 0]
    );
    bench.now += MS;
    bench.detector.remove(bench.now, PathId(3));
    assert_eq!(bench.detector.group_paths(PathId(0)), 1);
    assert!(bench.shared(1, 2));
}

#[test]
fn a_path_that_starts_over_stays_in_its_group_and_one_that_comes_back_later_does_not() {
    let mut bench = Bench::new("", 0, 2);
    bench.run(3.0, &[0, 0], steady);
    let (now, id) = (bench.now, PathId(1));
    bench.detector.remove(now, id);
    bench.detector.add(now, id);
    assert!(bench.shared(0, 1));
    assert_eq!(bench.detector.llr(id), 0.0);
    bench.detector.remove(now, id);
    bench.detector.add(now + MS, id);
    assert!(!bench.shared(0, 1));
}

#[test]
fn words_for_all_and_none() {
    for (word, shared) in [("detect=all", true), ("detect=none", false)] {
        let mut bench = Bench::new(word, 0, 3);
        let verdict = shared.then_some(PathId(0));
        assert_eq!(bench.detector.verdict(PathId(2)), verdict);
        bench.run(3.0, &[0, 1, 1], steady);
        assert_eq!((bench.shared(0, 1), bench.shared(1, 2)), (shared, shared));
        assert!(!bench.detector.is_open(PathId(0), PathId(1)));
        assert!(!bench.detector.needs_act(PathId(0)));
    }
}

#[test]
fn clocks_do_not_matter() {
    // Another offset for each path: base delays differ by so much that lags are at their bound.
    for drift_per_sec in [0.0, 0.1] {
        let mut bench = Bench::new("", 0, 2);
        for step in 0..1000 {
            bench.now += 5 * MS;
            let secs = f64::from(step) / 200.0;
            let wave = 5.0 * (1.0 + (7.0 * secs).sin() * (3.0 * secs).cos());
            // 100 ppm are 0.1 ms in a second.
            bench.delay(0, wave + drift_per_sec * secs, Act::Steady);
            bench.delay(1, wave + drift_per_sec * secs, Act::Steady);
        }
        assert!(bench.shared(0, 1), "{drift_per_sec}");
    }
}

#[test]
fn odds_of_a_pair_by_hand() {
    let paths = [PathId(0), PathId(1)];
    let mut pair = Pair {
        paths,
        end: None,
        llr: 0.0,
        acts: 0,
        shared: false,
        decided: false,
    };
    // Evidence adds up within its bounds, and half of it is left after a minute that says nothing.
    pair.add(2.5, 1.0, Acting::One, 2);
    pair.add(1.5, 1.0, Acting::None, 2);
    assert_eq!((pair.llr, pair.acts, pair.shared), (4.0, 1, false));
    pair.add(0.0, 60.0, Acting::None, 2);
    assert_eq!(pair.llr, 2.0);
    pair.add(9.0, 1.0, Acting::One, 2);
    assert_eq!((pair.llr, pair.acts, pair.shared), (6.0, 2, true));
    // What speaks against it ends the row, and the verdict stays until the other is reached.
    pair.add(-7.0, 1.0, Acting::None, 2);
    assert_eq!((pair.llr, pair.acts, pair.shared), (-1.0, 0, true));
    // Those of a group are in step when both act, which says nothing.
    pair.add(3.5, 1.0, Acting::None, 2);
    pair.add(1.5, 0.0, Acting::Both, 2);
    assert_eq!(pair.llr, 2.5);
    pair.add(1.5, 60.0, Acting::Both, 2);
    assert_eq!(pair.llr, 1.25);
    pair.add(1.25, 1.0, Acting::One, 2);
    assert_eq!(pair.llr, 2.5);
    // Who does not follow one that acts alone counts twice.
    pair.add(-1.25, 1.0, Acting::Both, 2);
    assert_eq!(pair.llr, 1.25);
    pair.add(-2.0, 1.0, Acting::One, 2);
    assert_eq!((pair.llr, pair.shared), (-2.75, true));
    pair.add(-2.0, 1.0, Acting::One, 2);
    assert_eq!((pair.llr, pair.shared, pair.decided), (-6.0, false, true));
    // Of others what is in step counts.
    pair.add(2.0, 1.0, Acting::Both, 2);
    assert_eq!(pair.llr, -4.0);
    pair.add(-1.0, 1.0, Acting::One, 2);
    assert_eq!(pair.llr, -5.0);
    // An act counts where the window says more than 1.
    pair.add(1.0, 1.0, Acting::One, 2);
    assert_eq!(pair.acts, 0);
    pair.add(1.1, 1.0, Acting::One, 2);
    assert_eq!(pair.acts, 1);
}

#[test]
fn who_has_to_act_by_hand() {
    let mut bench = Bench::new("", 2, 3);
    let mut needs = |llr: f64, acts: u32, shared: bool| {
        let pair = &mut bench.detector.pairs[0];
        (pair.llr, pair.acts, pair.shared) = (llr, acts, shared);
        [0, 1, 2].map(|id| bench.detector.needs_act(PathId(id)))
    };
    // The first pair is that of paths 0 and 1; half of the odds of a verdict are 2.
    assert_eq!(needs(2.0, 1, false), [true, true, false]);
    assert_eq!(needs(1.9, 1, false), [false; 3]);
    assert_eq!(needs(1.9, 2, false), [false; 3]);
    assert_eq!(needs(2.0, 2, false), [false; 3]);
    assert_eq!(needs(2.0, 1, true), [false; 3]);
}

#[test]
fn the_queue_of_a_path() {
    // Whatever the peer's clock says: 12 ms are 12 ms of 2 h, too.
    for clock_ms in [-7_000_000, -7_000, 0, 7_000, 7_200_000] {
        let mut bench = Bench::new("", 0, 2);
        for queue_ms in [0, 12, 12, 12, 12, 12, 12, 12, 12] {
            bench.now += 5 * MS;
            bench.delay(0, (clock_ms + queue_ms) as f64, Act::Steady);
        }
        let queue_secs = bench.detector.queue_secs(PathId(0));
        assert!(
            (queue_secs - 0.012).abs() < 1e-6,
            "{clock_ms}: {queue_secs}"
        );
        assert_eq!(bench.detector.queue_secs(PathId(1)), 0.0);
        assert_eq!(bench.detector.queue_secs(PathId(7)), 0.0);
    }
}

/// Bins and windows as they are counted: each window follows the one before, without a gap, as long
/// as ACKs come.
#[test]
fn windows_by_hand() {
    let mut bench = Bench::new("", 0, 2);
    let mut ends = Vec::new();
    let mut step = |bench: &mut Bench, bins: i64| {
        for _ in 0..4 * bins {
            bench.now += 5 * MS;
            for id in 0..2 {
                bench.delay(id, 10.0, Act::Steady);
            }
            let (pair, tracks) = (&bench.detector.pairs[0], &bench.detector.tracks);
            let [a, b] = [0, 1].map(|id| tracks.get(PathId(id)).unwrap());
            let known = a.known_with(b).unwrap();
            if pair.end != ends.last().map(|(end, _)| *end) {
                ends.push((pair.end.unwrap(), known));
            }
        }
    };
    step(&mut bench, 200);
    // From the first bin that both know, as many as are in a window; weighed when known.
    let width = WINDOW as i64;
    for pair in ends.windows(2) {
        let ((before, _), (end, known)) = (pair[0], pair[1]);
        assert_eq!((end, known), (before + width, before));
    }
    assert_eq!(ends.len(), 5);
    // The first bin is -351, and the first that is known 11 before it, for the lags.
    assert_eq!(ends[0].0, -351 - 11 + width);

    // A path that was silent: the window is weighed as long as the next one is not over, too.
    for (late, next) in [(width - 1, width), (width, 2 * width), (70, 70 + width)] {
        let mut bench = Bench::new("", 0, 2);
        let epoch = bench.now;
        let mut arrives = |id: u64, bin: i64| {
            // 30 ms less 7 s after it was sent, 50 ms before its ACK.
            let micros = 7_020_000 + 20_000 * bin + 1_000;
            bench.now = epoch + Duration::from_micros(micros.try_into().unwrap());
            bench.delay(id, 10.0, Act::Steady);
            bench.detector.pairs[0].end
        };
        let first = -351;
        let end = (first..first + 80)
            .flat_map(|bin| [0, 1].map(|id| (id, bin)))
            .fold(None, |_, (id, bin)| arrives(id, bin))
            .unwrap();
        // The other one has its bins already when this one comes back.
        let back = end + late + 11;
        for bin in first + 80..back + 2 {
            arrives(0, bin);
        }
        assert_eq!(arrives(1, back), Some(end + next), "{late}");
    }
}

#[test]
fn a_minute_of_silence_halves_the_odds() {
    let mut bench = Bench::new("", 0, 2);
    bench.run(10.0, &[0, 0], steady);
    let before = bench.detector.llr(PathId(0));
    // 25 windows of 0.96 s say nothing.
    for _ in 0..200 * 24 {
        bench.now += 5 * MS;
        for id in 0..2 {
            bench.delay(id, 10.0, Act::Steady);
        }
    }
    let (left, windows) = (bench.detector.llr(PathId(0)) / before, 24.0 / 0.96);
    let expected = (-windows * 0.96 / HALF_LIFE_SECS).exp2();
    // The first may say something yet.
    assert!((left / expected - 1.0).abs() < 0.03, "{left} {expected}");
}

#[test]
fn arrivals_are_counted_from_the_first_ack() {
    let mut bench = Bench::new("", 0, 2);
    for id in 0..2 {
        bench.delay(id, 0.0, Act::Steady);
    }
    // Sent 50 ms before, with 20 ms less 7 s of delay: 7.03 s before, in bin -352 of 20 ms; known are those
    // 11 before it and earlier ones.
    let [a, b] = [0, 1].map(|id| bench.detector.tracks.get(PathId(id)).unwrap());
    assert_eq!(a.known_with(b), Some(-352 - 11));
}

#[test]
fn a_path_alone_keeps_no_delays() {
    let mut detector = Detector::new(&settings(&sbd_cubic::ENTRY, ""), 1);
    let now = Instant::now();
    let kept = |detector: &Detector| detector.tracks.len();
    detector.add(now, PathId(0));
    assert_eq!(kept(&detector), 0);
    detector.add(now, PathId(3));
    assert_eq!(kept(&detector), 2);
    detector.remove(now, PathId(0));
    assert_eq!(kept(&detector), 1);
    detector.add(now, PathId(5));
    assert_eq!(kept(&detector), 2);
}
