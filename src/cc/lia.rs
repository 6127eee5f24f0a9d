//! Linked Increases (RFC 6356).
//!
//! The paths' increases are linked by one factor, a, chosen so that all paths together take what
//! one TCP would take on the best of them; no path grows faster than Reno would. Each path halves
//! by itself. With one path, a = 1 and LIA is Reno.
//!
//! | symbol      | name here        | unit  | source             |
//! |-------------|------------------|-------|--------------------|
//! | cwnd_i      | `window_bytes`   | bytes | RFC 6356 section 3 |
//! | rtt_i       | `rtt.smoothed`   | s     | RFC 6356 section 3 |
//! | cwnd_total  | `Sums::total`    | bytes | RFC 6356 section 3 |
//! | alpha, a    | `alpha`          | 1     | RFC 6356 eq. 2     |
//!
//! Deviation: paths without an RTT sample are left out of the sums, and such a path grows as Reno.

use std::time::Instant;

use super::reno;
use super::window::MIN_RTT;
use super::Ack;
use super::Controller;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The controller; all it needs is in the registry.
#[derive(Debug)]
pub struct Lia;

/// What equation 2 takes from the paths.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// cwnd_total, bytes.
    total: f64,
    /// max(cwnd_i / rtt_i^2), bytes/s^2.
    best: f64,
    /// sum(cwnd_i / rtt_i), bytes/s.
    rate: f64,
}

impl Sums {
    fn of(paths: &Registry) -> Sums {
        let mut sums = Sums::default();
        for path in paths.iter() {
            let Some(rtt) = path.rtt else { continue };
            let rtt = rtt.smoothed.max(MIN_RTT).as_secs_f64();
            let window = window_bytes(path);
            sums.total += window;
            sums.best = sums.best.max(window / (rtt * rtt));
            sums.rate += window / rtt;
        }
        sums
    }
}

/// cwnd_i, or ssthresh_i while the path recovers (RFC 6356, section 3).
fn window_bytes(path: &PathState) -> f64 {
    match path.in_recovery {
        true => path.ssthresh_bytes as f64,
        false => path.cwnd_bytes as f64,
    }
}

/// alpha = cwnd_total * max(cwnd_i/rtt_i^2) / sum(cwnd_i/rtt_i)^2 (RFC 6356, equation 2).
fn alpha(sums: &Sums) -> f64 {
    sums.total * sums.best / (sums.rate * sums.rate)
}

/// min(alpha * acked * mss / cwnd_total, acked * mss / cwnd_i) (RFC 6356, equation 1).
fn increase(
    alpha: f64,
    total_bytes: f64,
    cwnd_bytes: f64,
    mss_bytes: f64,
    acked_bytes: f64,
) -> f64 {
    let coupled = alpha * acked_bytes * mss_bytes / total_bytes;
    coupled.min(reno::increase(cwnd_bytes, mss_bytes, acked_bytes))
}

impl Controller for Lia {
    fn increase(&mut self, _now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64 {
        let Some(path) = paths.get(id) else {
            return 0.0;
        };
        let cwnd_bytes = path.cwnd_bytes as f64;
        let mss_bytes = path.mss_bytes as f64;
        let acked_bytes = ack.acked_bytes as f64;

        if path.rtt.is_none() {
            return reno::increase(cwnd_bytes, mss_bytes, acked_bytes);
        }
        let sums = Sums::of(paths);
        increase(alpha(&sums), sums.total, cwnd_bytes, mss_bytes, acked_bytes)
    }

    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64 {
        reno::Reno.decrease(now, paths, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Rtt;
    use std::time::Duration;

    /// Paths of (packets, RTT in ms), 1000 bytes a packet.
    fn paths(list: &[(u64, u64)]) -> Registry {
        let mut paths = Registry::new();
        for (id, (packets, rtt_ms)) in list.iter().enumerate() {
            let path = paths.add(PathId(id as u64), 1000);
            path.cwnd_bytes = packets * 1000;
            path.rtt = Some(Rtt::first(Duration::from_millis(*rtt_ms)));
        }
        paths
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-9 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn one_path_has_alpha_one() {
        // 10 * (10/0.1^2) / (10/0.1)^2 = 10 * 1000 / 10000 = 1.
        close(alpha(&Sums::of(&paths(&[(10, 100)]))), 1.0);
    }

    #[test]
    fn two_equal_paths_have_alpha_one_half() {
        // 20 * (10/0.01) / (10/0.1 + 10/0.1)^2 = 20 * 1000 / 40000 = 0.5.
        close(alpha(&Sums::of(&paths(&[(10, 100), (10, 100)]))), 0.5);
    }

    #[test]
    fn unequal_rtts() {
        // w = 20 and 10 packets, rtt = 0.2 and 0.1 s.
        // w/rtt^2 = 500 and 1000; w/rtt = 100 and 100; total 30.
        // alpha = 30 * 1000 / 200^2 = 0.75.
        let paths = paths(&[(20, 200), (10, 100)]);
        let sums = Sums::of(&paths);
        close(alpha(&sums), 0.75);
        // One packet acked on either path: 0.75 * 1/30 packets = 25 bytes; Reno would give 50, 100.
        close(
            increase(alpha(&sums), sums.total, 20_000.0, 1000.0, 1000.0),
            25.0,
        );
        close(
            increase(alpha(&sums), sums.total, 10_000.0, 1000.0, 1000.0),
            25.0,
        );
    }

    #[test]
    fn never_faster_than_reno() {
        // w = 100 and 1 packets, rtt 0.1 and 0.01 s: w/rtt^2 = 10^4 and 10^4, w/rtt = 1000 and 100.
        // alpha = 101 * 10^4 / 1100^2 = 0.8347. Then alpha/total = 0.00826 < 1/100: coupled on both.
        let coupled = paths(&[(100, 100), (1, 10)]);
        let sums = Sums::of(&coupled);
        close(alpha(&sums), 101.0 * 1e4 / 1.21e6);
        // w = 2 and 40, rtt 0.01 and 1 s: w/rtt^2 = 20000 and 40, w/rtt = 200 and 40.
        // alpha = 42 * 20000 / 57600 = 14.58; alpha/total = 0.347 > 1/40: Reno caps the large one.
        let capped = paths(&[(2, 10), (40, 1000)]);
        let sums = Sums::of(&capped);
        close(
            increase(alpha(&sums), sums.total, 40_000.0, 1000.0, 1000.0),
            25.0,
        );
    }

    #[test]
    fn scaling_all_rtts_changes_no_step() {
        let slow = Sums::of(&paths(&[(20, 200), (10, 100)]));
        let fast = Sums::of(&paths(&[(20, 20), (10, 10)]));
        close(alpha(&slow), alpha(&fast));
    }

    #[test]
    fn a_path_without_rtt_is_not_in_the_sums() {
        let mut paths = paths(&[(10, 100), (90, 100)]);
        paths.get_mut(PathId(1)).unwrap().rtt = None;
        let sums = Sums::of(&paths);
        close(alpha(&sums), 1.0);
        close(sums.total, 10_000.0);
    }

    #[test]
    fn a_recovering_path_counts_with_its_threshold() {
        let mut paths = paths(&[(10, 100), (2, 100)]);
        let path = paths.get_mut(PathId(1)).unwrap();
        path.in_recovery = true;
        path.ssthresh_bytes = 10_000;
        close(alpha(&Sums::of(&paths)), 0.5);
    }
}
