//! The window of one path by itself, with numbers worked by hand.

use super::super::testing::*;
use super::*;

const MS: Duration = Duration::from_millis(1);

/// Of packets of 1000 bytes, 100 ms.
fn path() -> PathState {
    paths(&[(80, 100)]).get(PathId(0)).unwrap().clone()
}

fn window(cwnd_bytes: f64, ssthresh_bytes: f64) -> PathWindow {
    PathWindow {
        cwnd_bytes,
        ssthresh_bytes,
        ..PathWindow::new(10_000.0, 2)
    }
}

/// A packet acked that left at `sent`, of `in_flight` bytes, after 100 ms.
fn acked(sent: Instant, in_flight: u64) -> Ack {
    Ack {
        in_flight_before_bytes: in_flight,
        rtt_sample: Some(100 * MS),
        ..ack(sent)
    }
}

/// After a first flight of 10 packets, acked one in a millisecond: r = 1 MB/s, r m = 100,000 bytes.
fn begun(start: Start) -> PathWindow {
    let sent = Instant::now();
    let mut window = PathWindow::new(10_000.0, 2);
    for packet in 0..10 {
        let now = sent + (100 + packet) * MS;
        window.note_round(now, &acked(sent, 10_000), path().rtt, start);
    }
    window
}

fn options(start: Start) -> Options {
    Options {
        start,
        ..Options::default()
    }
}

#[test]
fn what_is_remembered_is_what_was_used() {
    let observed = |ssthresh_bytes, flights: [u64; 2]| {
        let mut window = window(80_000.0, ssthresh_bytes);
        let mut now = Instant::now();
        for in_flight in flights {
            window.note_round(now + MS, &acked(now, in_flight), path().rtt, Start::Slow);
            now += 100 * MS;
        }
        window.observed(&path())
    };
    let saved = |cwnd_bytes| {
        Some(Saved {
            cwnd_bytes,
            rtt: 100 * MS,
        })
    };
    assert_eq!(observed(70_000.0, [60_000, 50_000]), saved(60_000));
    assert_eq!(observed(70_000.0, [50_000, 60_000]), saved(60_000));
    assert_eq!(observed(70_000.0, [90_000, 50_000]), saved(80_000));
    // Still in slow start; less than four initial windows.
    assert_eq!(observed(80_001.0, [60_000, 50_000]), None);
    assert_eq!(observed(70_000.0, [39_999, 10_000]), None);
}

/// The window and threshold after the RTT went from one to the other by another way back.
fn after_another_way(window: &mut PathWindow, before_ms: u64, after_ms: u64) -> (f64, f64) {
    let mut path = path();
    for (way_back, rtt_ms) in [(0, before_ms), (1, after_ms)] {
        path.way_back = PathId(way_back);
        path.rtt = Some(Rtt::first(Duration::from_millis(rtt_ms)));
        window.note_way_back(&path);
    }
    (window.cwnd_bytes, window.ssthresh_bytes)
}

#[test]
fn another_way_back_keeps_the_rate() {
    let after = |ssthresh_bytes, before_ms, after_ms| {
        let mut window = window(80_000.0, ssthresh_bytes);
        after_another_way(&mut window, before_ms, after_ms)
    };
    // In congestion avoidance: half of the window for half of the RTT, at most by a factor of four.
    assert_eq!(after(60_000.0, 600, 300), (40_000.0, 40_000.0));
    assert_eq!(after(60_000.0, 600, 20), (20_000.0, 20_000.0));
    // Twice of it, and four times, by slow start.
    assert_eq!(after(60_000.0, 300, 600), (80_000.0, 160_000.0));
    assert_eq!(after(60_000.0, 20, 600), (80_000.0, 320_000.0));
    // In slow start the threshold follows, down to the window.
    assert_eq!(after(100_000.0, 300, 600), (80_000.0, 200_000.0));
    assert_eq!(after(200_000.0, 600, 300), (80_000.0, 100_000.0));
    assert_eq!(after(100_000.0, 600, 300), (80_000.0, 80_000.0));
}

#[test]
fn the_same_way_back_changes_nothing_and_another_forgets_the_samples() {
    let mut window = begun(Start::Suss);
    assert_eq!(window.samples.count, 10);
    let mut path = path();
    for rtt_ms in [100, 600] {
        path.rtt = Some(Rtt::first(rtt_ms * MS));
        window.note_way_back(&path);
    }
    assert_eq!(window.samples.count, 10);
    path.way_back = PathId(7);
    window.note_way_back(&path);
    assert_eq!(window.samples.count, 0);
}

#[test]
fn the_first_round_trip_quadruples() {
    // 9,000 bytes were acked before this ACK: three times its bytes, and twice those. Not more, as
    // no round trip came before it.
    let mut window = begun(Start::Suss);
    let now = Instant::now();
    window.slow_start(&acked(now, 10_000), 1.0, &options(Start::Suss), path().rtt);
    close(window.cwnd_bytes, 31_000.0);
    // The next one ends it, and grows by more: 7 times its bytes and 6 times what came before it.
    let rtt = path().rtt;
    let sent = now + Duration::from_secs(1);
    for packet in 0..8 {
        window.note_round(
            sent + (100 + packet) * MS,
            &acked(sent, 31_000),
            rtt,
            Start::Suss,
        );
    }
    window.slow_start(&acked(sent, 31_000), 1.0, &options(Start::Suss), rtt);
    close(window.cwnd_bytes, 31_000.0 + 7_000.0 + 42_000.0);
}

#[test]
fn only_a_start_that_measures_is_paced_by_what_it_measured() {
    // 80,000 bytes at 100 ms: 1.6 MB/s with the gain of slow start, but r = 1 MB/s.
    for (start, rate) in [(Start::Slow, 1_600_000), (Start::Suss, 1_000_000)] {
        let mut window = begun(start);
        window.cwnd_bytes = 80_000.0;
        let mut path = path();
        window.publish(&mut path, true);
        assert_eq!(path.pacing_rate_bytes_per_sec, Some(rate));
    }
    // Nor after slow start: 1.25 times 100,000 bytes in 100 ms. Nor in a re-entry.
    let mut window = begun(Start::Suss);
    (window.cwnd_bytes, window.ssthresh_bytes) = (100_000.0, 90_000.0);
    let mut path = path();
    window.publish(&mut path, true);
    assert_eq!(path.pacing_rate_bytes_per_sec, Some(1_250_000));
    window.ssthresh_bytes = f64::INFINITY;
    window.re_entry.start();
    window.publish(&mut path, true);
    assert_eq!(path.pacing_rate_bytes_per_sec, Some(2_000_000));
}

#[test]
fn who_jumps() {
    // Half of r m = 100,000 bytes.
    let now = Instant::now();
    let jump =
        |window: &mut PathWindow, start, limited| window.jump(start, now, limited, path().rtt);
    let mut window = begun(Start::Train);
    assert_eq!(jump(&mut window, Start::Suss, true), Step::Free);
    assert_eq!(jump(&mut window, Start::Train, false), Step::Free);
    let mut left = begun(Start::Train);
    left.ssthresh_bytes = 90_000.0;
    assert_eq!(jump(&mut left, Start::Train, true), Step::Free);
    assert!(window.resume.is_none() && left.resume.is_none());
    assert_eq!(jump(&mut window, Start::Train, true), Step::Set(50_000.0));
    assert!(window.resume.unwrap().is_unvalidated());
}

#[test]
fn a_loss_is_unlucky_in_a_slow_start_without_a_queue() {
    // Eight samples of 100 + 12.5 ms are a queue.
    for (ssthresh_bytes, sample_ms, may_grow_again) in [
        (f64::INFINITY, 100, true),
        (f64::INFINITY, 113, false),
        (5_000.0, 100, false),
    ] {
        let mut window = window(10_000.0, ssthresh_bytes);
        let now = Instant::now();
        for _ in 0..8 {
            let ack = Ack {
                rtt_sample: Some(sample_ms * MS),
                ..ack(now)
            };
            window.note_round(now, &ack, path().rtt, Start::Slow);
        }
        window.note_congestion(Start::Slow, path().rtt);
        // What is closed stays closed, and waits for no clean round trips.
        let clean = re_entry::Seen {
            samples: 10,
            least: 100 * MS,
            base: 100 * MS,
        };
        let ready = (0..1000)
            .any(|_| window.re_entry.on_round(&clean, true, false) == re_entry::Verdict::Ready);
        assert_eq!(ready, may_grow_again, "{ssthresh_bytes} {sample_ms}");
    }
}

#[test]
fn how_far_below_its_window_a_limited_sender_may_be() {
    let limited = |cwnd_bytes, ssthresh_bytes, app_limited, peak_bytes| {
        let mut window = window(cwnd_bytes, ssthresh_bytes);
        window.peak_in_flight_bytes = [0, peak_bytes];
        window.is_limited(1000.0, app_limited)
    };
    // In congestion avoidance: four packets, a quarter of the window, 64 KiB.
    for (cwnd_bytes, slack_bytes) in [
        (10_000.0, 4_000),
        (101_000.0, 25_250),
        (1_000_000.0, 65_536),
    ] {
        let full = cwnd_bytes as u64;
        assert!(limited(cwnd_bytes, 5_000.0, false, full - slack_bytes));
        assert!(!limited(cwnd_bytes, 5_000.0, false, full - slack_bytes - 1));
        // In slow start half of it, unless the application has no more.
        let half = full / 2;
        assert!(limited(cwnd_bytes, 2e6, false, full - half));
        assert!(!limited(cwnd_bytes, 2e6, false, full - half - 1));
        assert!(limited(cwnd_bytes, 2e6, true, full - slack_bytes));
        assert!(!limited(cwnd_bytes, 2e6, true, full - slack_bytes - 1));
    }
}

#[test]
fn slow_start_grows_by_what_is_asked() {
    let grown = |gain, ssthresh_bytes| {
        let mut window = window(20_000.0, ssthresh_bytes);
        let ack = acked(Instant::now(), 20_000);
        window.slow_start(&ack, gain, &options(Start::Slow), path().rtt);
        window.cwnd_bytes
    };
    close(grown(1.0, f64::INFINITY), 21_000.0);
    close(grown(0.25, f64::INFINITY), 20_250.0);
    close(grown(0.25, 90_000.0), 20_250.0);
    close(grown(1.0, 20_400.0), 20_400.0);
}

#[test]
fn the_end_of_growth_by_what_was_measured() {
    // From r m = 100,000 bytes on by half of what is acked; just below it, no less than by doubling.
    let grown = |cwnd_bytes| {
        let mut window = begun(Start::Suss);
        window.cwnd_bytes = cwnd_bytes;
        window.slow_start(
            &acked(Instant::now(), 100_000),
            1.0,
            &options(Start::Suss),
            path().rtt,
        );
        window.cwnd_bytes
    };
    close(grown(100_000.0), 100_500.0);
    close(grown(99_500.0), 100_500.0);
    // A queue ends it, if delays may.
    for (hystart, leaves) in [(true, true), (false, false)] {
        let mut window = begun(Start::Suss);
        window.cwnd_bytes = 100_000.0;
        let rtt = path().rtt.unwrap();
        for _ in 0..8 {
            window.long_run.add(113 * MS, &rtt);
        }
        let options = Options {
            hystart,
            ..options(Start::Suss)
        };
        window.slow_start(&acked(Instant::now(), 100_000), 1.0, &options, Some(rtt));
        assert_eq!(!window.in_slow_start(), leaves);
    }
}

#[test]
fn a_window_that_is_set_stays_in_its_phase() {
    let change = Change {
        cwnd_bytes: 40_000.0,
        ssthresh_bytes: None,
    };
    for (ssthresh_bytes, after_bytes) in [(70_000.0, 40_000.0), (200_000.0, 200_000.0)] {
        let mut window = window(80_000.0, ssthresh_bytes);
        window.apply(change);
        assert_eq!(window.ssthresh_bytes, after_bytes);
    }
    let mut window = window(80_000.0, 70_000.0);
    window.apply(Change {
        ssthresh_bytes: Some(60_000.0),
        ..change
    });
    assert_eq!(
        (window.cwnd_bytes, window.ssthresh_bytes),
        (40_000.0, 60_000.0)
    );
}

#[test]
fn a_jump_is_paced_in_a_round_trip() {
    // 50,000 bytes in 100 ms, without slow start's gain of 2.
    let mut window = begun(Start::Train);
    window.jump(Start::Train, Instant::now(), true, path().rtt);
    window.cwnd_bytes = 50_000.0;
    let mut path = path();
    window.publish(&mut path, true);
    assert_eq!(path.pacing_rate_bytes_per_sec, Some(500_000));
}
