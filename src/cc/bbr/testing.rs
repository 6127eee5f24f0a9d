//! What the tests of this folder share.

use std::sync::LazyLock;
use std::time::Duration;
use std::time::Instant;

use super::Rules;
use super::Seen;
use super::ENTRY;
use crate::cc::testing::settings;
use crate::cc::units::nanos;
use crate::cc::RateSample;

/// Before any test began.
static EPOCH: LazyLock<Instant> = LazyLock::new(|| Instant::now() - Duration::from_secs(3600));

/// The rules of `uncoupled-bbr` with these parameters.
pub fn rules(list: &str) -> Rules {
    Rules::new(&settings(&ENTRY, list))
}

/// An ACK at `now` for a packet of 1000 bytes that has just left: no RTT, no rate, a full window.
pub fn seen(now: Instant) -> Seen {
    Seen {
        now,
        clock_nanos: nanos(now.saturating_duration_since(*EPOCH)),
        sent: now,
        mss: 1000.0,
        acked: 1000.0,
        in_flight: 0.0,
        rtt: None,
        sample: RateSample::default(),
        rate: None,
        limited: false,
        cwnd_limited: true,
    }
}
