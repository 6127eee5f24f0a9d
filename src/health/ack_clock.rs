//! How regularly acks come: where they come like a clock, a missing tick says a lot.

use std::time::Duration;
use std::time::Instant;

/// Acks that must have come within the window for the clock to run.
const MIN_ACKS: usize = 8;

/// The window in which they are looked for, in smoothed RTTs.
const WINDOW_RTTS: u32 = 2;

/// The clock runs only while no gap in the window exceeds this fraction of the RTT. A sender with
/// less than a BDP in flight gets its acks in clumps with long gaps between, and never qualifies.
const MAX_GAP_FRACTION: u32 = 4;

/// Weight of a new interval in the averages.
const EWMA: u32 = 8;

/// The ack clock of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct AckClock {
    /// The latest acks; `next` is the oldest of them.
    recent: [Option<Instant>; MIN_ACKS],
    next: usize,
    last: Option<Instant>,
    /// Mean interval, and mean deviation from it.
    gap: Duration,
    gap_deviation: Duration,
    /// The longest interval of this window and of the one before: covers at least one window.
    longest: [Duration; 2],
    window_started: Option<Instant>,
    live: bool,
}

impl AckClock {
    /// An ack came. `resumed` is when the first packet after the previous ack was sent: the time
    /// before it says nothing about the path.
    pub(super) fn on_ack(&mut self, now: Instant, srtt: Duration, resumed: Option<Instant>) {
        let window = srtt * WINDOW_RTTS;

        if let Some(last) = self.last {
            let from = last.max(resumed.unwrap_or(last));
            let interval = now.saturating_duration_since(from);
            self.average(interval);
            self.turn_window(now, window);
            self.longest[0] = self.longest[0].max(interval);
        }
        self.last = Some(now);

        self.recent[self.next] = Some(now);
        self.next = (self.next + 1) % MIN_ACKS;
        let enough = self.recent[self.next]
            .is_some_and(|oldest| now.saturating_duration_since(oldest) <= window);
        let longest = self.longest[0].max(self.longest[1]);
        self.live = enough && longest <= srtt / MAX_GAP_FRACTION;
    }

    /// gap + 4 gdev, or `None` while the clock does not run.
    pub(super) fn gap_bound(&self) -> Option<Duration> {
        self.live.then(|| self.gap + 4 * self.gap_deviation)
    }

    fn average(&mut self, interval: Duration) {
        if self.window_started.is_none() {
            self.gap = interval;
            self.gap_deviation = interval / 2;
            return;
        }
        let deviation = interval.abs_diff(self.gap);
        self.gap_deviation = (self.gap_deviation * (EWMA - 1) + deviation) / EWMA;
        self.gap = (self.gap * (EWMA - 1) + interval) / EWMA;
    }

    fn turn_window(&mut self, now: Instant, window: Duration) {
        let age = self
            .window_started
            .map(|started| now.saturating_duration_since(started));
        match age {
            Some(age) if age < window => return,
            Some(age) if age < 2 * window => self.longest = [Duration::ZERO, self.longest[0]],
            _ => self.longest = [Duration::ZERO; 2],
        }
        self.window_started = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Acks at the given times, in ms.
    fn clock(srtt_ms: u32, times_ms: impl IntoIterator<Item = u32>) -> AckClock {
        let start = Instant::now();
        let mut clock = AckClock::default();
        for time in times_ms {
            clock.on_ack(start + MS * time, MS * srtt_ms, None);
        }
        clock
    }

    #[test]
    fn regular_acks_make_a_clock() {
        // Every 2 ms: the first interval starts the averages at gap 2, gdev 1. Each further one
        // shrinks gdev by 1/8: after 6 more, gdev = (7/8)^6 = 0.4488 ms.
        let bound = clock(50, (0..16).step_by(2)).gap_bound().unwrap();
        let expected = 2.0 + 4.0 * 0.875_f64.powi(6);
        assert!(
            (bound.as_secs_f64() * 1e3 - expected).abs() < 1e-3,
            "{bound:?}"
        );
    }

    #[test]
    fn seven_acks_are_not_enough() {
        assert_eq!(clock(50, (0..14).step_by(2)).gap_bound(), None);
    }

    #[test]
    fn eight_acks_spread_too_far_are_not_a_clock() {
        // Every 15 ms: the oldest of 8 is 105 ms ago, two RTTs are 100 ms.
        assert_eq!(clock(50, (0..300).step_by(15)).gap_bound(), None);
    }

    #[test]
    fn clumps_are_not_a_clock() {
        // Ten acks 1 ms apart, then 41 ms of nothing, again and again: 41 > 50/4.
        let clumps = (0..6).flat_map(|round| (0..10).map(move |ack| round * 50 + ack));
        assert_eq!(clock(50, clumps).gap_bound(), None);
    }

    #[test]
    fn a_pause_is_forgotten_after_two_windows() {
        let before = 0..20;
        let after = 60..300;
        assert_eq!(clock(50, before.clone().chain(60..80)).gap_bound(), None);
        assert!(clock(50, before.chain(after)).gap_bound().is_some());
    }

    #[test]
    fn a_pause_of_the_sender_is_no_gap() {
        let start = Instant::now();
        let mut clock = clock(50, 0..10);
        let longest = clock.longest;
        // Nothing was sent for 10 s; then a packet, acked 3 ms later.
        let resumed = start + MS * 10_000;
        clock.on_ack(resumed + MS * 3, MS * 50, Some(resumed));
        assert!(clock.gap < MS * 4, "{:?} after {longest:?}", clock.gap);
    }

    #[test]
    fn a_window_is_two_round_trips() {
        // Every 10 ms, at most a quarter of 50 ms: seven intervals are 70 ms.
        assert!(clock(50, (0..300).step_by(10)).gap_bound().is_some());
    }

    #[test]
    fn the_longest_gaps_are_of_this_window_and_the_one_before() {
        let start = Instant::now();
        for (age_ms, longest) in [(99, [7, 5]), (100, [0, 7]), (199, [0, 7]), (200, [0, 0])] {
            let mut clock = AckClock {
                longest: [7 * MS, 5 * MS],
                window_started: Some(start),
                ..AckClock::default()
            };
            clock.turn_window(start + age_ms * MS, 100 * MS);
            assert_eq!(clock.longest, longest.map(|ms| ms * MS), "{age_ms}");
        }
    }
}
