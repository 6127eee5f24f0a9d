//! The pauses in what a download delivers: what a viewer would notice of a failing path.

use std::time::Duration;
use std::time::Instant;

/// Pauses at least this long are listed, not only the longest.
const NOTABLE: Duration = Duration::from_millis(50);

/// Times between deliveries of body bytes to the application.
#[derive(Debug, Default)]
pub struct Gaps {
    last: Option<Instant>,
    longest: Duration,
    notable: Vec<(Instant, Duration)>,
}

impl Gaps {
    /// Body bytes were delivered at `now`.
    pub fn delivered(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.saturating_duration_since(last);
            self.longest = self.longest.max(gap);
            if gap >= NOTABLE {
                self.notable.push((last, gap));
            }
        }
    }

    /// The longest time between two deliveries in a row; zero before the
    /// second one.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Every pause of 50 ms or more: when it began, in milliseconds since
    /// `origin`, and how many milliseconds it lasted.
    pub fn notable_ms(&self, origin: Instant) -> Vec<(u64, u64)> {
        let ms = |d: Duration| d.as_millis() as u64;
        self.notable
            .iter()
            .map(|&(at, gap)| (ms(at.saturating_duration_since(origin)), ms(gap)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_lie_between_deliveries() {
        let origin = Instant::now();
        let at = |ms| origin + Duration::from_millis(ms);
        let mut gaps = Gaps::default();

        // The wait for the first byte is not a pause.
        gaps.delivered(at(300));
        assert_eq!(gaps.longest(), Duration::ZERO);

        for ms in [310, 359, 409, 409, 609, 620] {
            gaps.delivered(at(ms));
        }
        assert_eq!(gaps.longest(), Duration::from_millis(200));
        // 49 ms are not notable, 50 are.
        assert_eq!(gaps.notable_ms(origin), [(359, 50), (409, 200)]);
    }
}
