//! NewReno on each path by itself (RFC 9002, section 7.3; RFC 5681).
//!
//! One packet more per round trip, half the window after a loss. Paths share nothing, so n paths
//! through one bottleneck take n shares of it: the upper bound that coupled controllers avoid.
//!
//! | symbol | name here    | unit  | source   |
//! |--------|--------------|-------|----------|
//! | w      | `cwnd_bytes` | bytes | RFC 5681 |
//! | SMSS   | `mss_bytes`  | bytes | RFC 5681 |

use super::boxed;
use super::start;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use crate::registry::PathState;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "uncoupled-reno",
    coupled: false,
    summary: "NewReno on each path by itself",
    idea: "One packet more per round trip, half the window after a loss; paths share nothing.",
    source: "RFC 9002 section 7.3, RFC 5681",
    formula: "ack: w += 1/w; loss: w = w/2",
    use_when: "as the baseline that coupled controllers are measured against, or when the paths \
               surely share no bottleneck",
    avoid_when: "paths may share a bottleneck: n paths take n shares of it",
    deviations: &[],
    params: &[start::SSTHRESH],
    new: |_| boxed(Reno),
};

/// The fraction of the window kept after a loss (RFC 9002, kLossReductionFactor).
pub(super) const LOSS_REDUCTION_FACTOR: f64 = 0.5;

/// The controller.
#[derive(Debug)]
struct Reno;

/// w += 1/w per acked packet (RFC 5681, equation 3, with bytes acked):
/// in bytes, `acked * mss / cwnd`.
fn increase(cwnd_bytes: f64, mss_bytes: f64, acked_bytes: f64) -> f64 {
    acked_bytes * mss_bytes / cwnd_bytes
}

/// What `ack` adds to the window of `path`, in bytes.
pub(super) fn step(path: &PathState, ack: &Ack) -> f64 {
    increase(
        path.cwnd_bytes as f64,
        path.mss_bytes as f64,
        ack.acked_bytes as f64,
    )
}

/// The step of a controller that moves its window per round trip: none per ACK, but Reno's for a
/// path that has no RTT to speak of.
pub(super) fn step_without_rtt(path: &PathState, ack: &Ack) -> f64 {
    match path.rtt {
        Some(_) => 0.0,
        None => step(path, ack),
    }
}

/// What a loss leaves of the window of `path`, in bytes.
pub(super) fn half(path: &PathState) -> f64 {
    path.cwnd_bytes as f64 * LOSS_REDUCTION_FACTOR
}

impl Controller for Reno {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        step(own.path, ack)
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        half(own.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::super::CONTROLLERS;
    use super::*;

    #[test]
    fn a_full_window_of_acks_adds_one_packet() {
        // w = 20 packets of 1200; 20 packets acked: 20 * 1/20 = 1 packet.
        assert_eq!(increase(24_000.0, 1200.0, 24_000.0), 1200.0);
        // One packet acked: 1/20 packet = 60 bytes.
        assert_eq!(increase(24_000.0, 1200.0, 1200.0), 60.0);
    }

    #[test]
    fn a_path_by_itself() {
        close(super::super::testing::step(&ENTRY, &[(20, 100)]), 50.0);
    }

    #[test]
    fn who_halves() {
        for name in [
            "uncoupled-reno",
            "lia",
            "olia",
            "ewtcp",
            "fast",
            "mpfast",
            "vegas",
            "wvegas",
            "ledbat",
            "fledbat",
        ] {
            let entry = CONTROLLERS.iter().find(|entry| entry.name == name).unwrap();
            close(kept(entry, &[(20, 100)]), 10_000.0);
        }
    }

    #[test]
    fn who_grows_by_the_round_trip_if_there_is_one() {
        for name in ["fast", "mpfast", "vegas", "wvegas"] {
            let entry = CONTROLLERS.iter().find(|entry| entry.name == name).unwrap();
            close(super::super::testing::step(entry, &[(20, 100)]), 0.0);
            let (now, mut paths) = (Instant::now(), paths(&[(20, 100)]));
            paths.get_mut(PathId(0)).unwrap().rtt = None;
            let mut controller = entry.with_defaults();
            controller.on_path_added(now, PathId(0));
            close(controller.increase(now, &paths, PathId(0), &ack(now)), 50.0);
        }
    }
}
