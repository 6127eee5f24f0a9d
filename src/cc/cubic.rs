//! CUBIC on each path by itself (RFC 9438).
//!
//! The window is a cubic function of the time since the last reduction: steep at first, flat around
//! the window where the last loss was (W_max), steep again beyond. So its growth does not depend on
//! the RTT. Where Reno would be faster (small windows, short RTTs), it follows an estimate of Reno.
//!
//! | symbol        | name here                | unit        | source            |
//! |---------------|--------------------------|-------------|-------------------|
//! | C             | `C`                      | packets/s^3 | RFC 9438 section 5.1 |
//! | beta_cubic    | `BETA`                   | 1           | section 4.6; kept fraction |
//! | W_max         | `Flow::w_max_bytes`      | bytes       | section 4.1.2     |
//! | cwnd_prior    | `Flow::cwnd_prior_bytes` | bytes       | section 4.1.2     |
//! | K             | `k`                      | s           | equation 2        |
//! | t_epoch       | `Epoch::started`         | time        | section 4.1.2     |
//! | W_cubic(t)    | `w_cubic`                | packets     | equation 1        |
//! | W_est         | `Epoch::w_est_bytes`     | bytes       | equation 4        |
//! | alpha_cubic   | `ALPHA`                  | 1           | section 4.3       |
//!
//! [`Flow`] is the algorithm of one path, which the coupled relatives of CUBIC use too: they scale
//! C and alpha_cubic by their [`Gains`].
//!
//! State is in bytes, so that a change of the packet size does not shift it; the equations count
//! packets, as in the RFC. Time in which the window was not the limit does not count as growth time
//! (section 5.8).

use std::time::Duration;
use std::time::Instant;

use super::boxed;
use super::start;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "uncoupled-cubic",
    coupled: false,
    summary: "CUBIC on each path by itself",
    idea: "The window is a cubic function of the time since the last loss, flat around the window \
           where that was, so that growth does not depend on the RTT.",
    source: "RFC 9438",
    formula: "W(t) = C (t - K)^3 + W_max, K = cbrt((W_max - w_epoch)/C), C = 0.4; \
              ack: w += (W(t + rtt) - w)/w, or Reno's estimate where that is more; \
              loss: w = 0.7 w",
    use_when: "as the baseline of today's Internet, or when the paths surely share no bottleneck",
    avoid_when: "paths may share a bottleneck, or queues must stay short",
    deviations: &["time in which the window was not the limit is no growth time"],
    params: &[start::SSTHRESH],
    new: |_| boxed(Cubic),
};

/// Aggressiveness in the cubic region (RFC 9438, section 5.1).
pub(super) const C: f64 = 0.4;

/// The fraction of the window kept after a loss (RFC 9438, section 4.6).
pub(super) const BETA: f64 = 0.7;

/// alpha_cubic = 3 (1 - beta)/(1 + beta): with it and beta, Reno's average window (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The window grows by at most half per round trip (RFC 9438, section 4.2).
const MAX_GROWTH: f64 = 1.5;

/// CUBIC of one path between two losses.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When growth began, moved on by the time in which the window was not the limit.
    started: Instant,
    /// The last ACK seen.
    last_ack: Instant,
    /// The window at the start.
    cwnd_bytes: f64,
    /// What Reno's window would be.
    w_est_bytes: f64,
    k: CubeRoot,
}

/// A cube root, taken again only when what it is taken of changes: K is the same for all ACKs of an
/// epoch unless a coupling changes C, and the root would be the dearest part of an ACK.
#[derive(Clone, Copy, Debug, Default)]
struct CubeRoot {
    cube: f64,
    root: f64,
}

impl CubeRoot {
    fn of(&mut self, cube: f64) -> f64 {
        if cube != self.cube {
            *self = CubeRoot {
                cube,
                root: cube.cbrt(),
            };
        }
        self.root
    }
}

/// What a coupled relative multiplies the growth by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Gains {
    /// Of C.
    pub cubic: f64,
    /// Of alpha_cubic.
    pub friendly: f64,
}

impl Gains {
    /// Those of CUBIC itself.
    pub const NONE: Gains = Gains {
        cubic: 1.0,
        friendly: 1.0,
    };
}

/// Before the first epoch.
impl Default for Gains {
    fn default() -> Self {
        Gains::NONE
    }
}

/// What an ACK means to CUBIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    pub srtt: Duration,
    pub cwnd_bytes: f64,
    pub mss_bytes: f64,
    pub acked_bytes: f64,
}

impl Growth {
    /// What `ack` means on `path`.
    pub fn of(path: &PathState, ack: &Ack) -> Growth {
        Growth {
            srtt: path.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed),
            cwnd_bytes: path.cwnd_bytes as f64,
            mss_bytes: path.mss_bytes as f64,
            acked_bytes: ack.acked_bytes as f64,
        }
    }
}

/// CUBIC of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// The window around which growth is flat; 0 before the first loss.
    w_max_bytes: f64,
    /// The window just before the last reduction; 0 before the first loss.
    cwnd_prior_bytes: f64,
    /// `None` in slow start and in recovery.
    epoch: Option<Epoch>,
}

/// The controller.
#[derive(Debug)]
struct Cubic;

/// K = cbrt((W_max - cwnd_epoch) / C) (RFC 9438, equation 2); 0 when there is nothing to regain.
pub(super) fn k(c: f64, w_max: f64, cwnd_epoch: f64) -> f64 {
    k_cubed(c, w_max, cwnd_epoch).cbrt()
}

fn k_cubed(c: f64, w_max: f64, cwnd_epoch: f64) -> f64 {
    (w_max - cwnd_epoch).max(0.0) / c
}

/// W_cubic(t) = C (t - K)^3 + W_max (RFC 9438, equation 1).
pub(super) fn w_cubic(c: f64, t: f64, k: f64, w_max: f64) -> f64 {
    c * (t - k).powi(3) + w_max
}

/// target = W_cubic(t + RTT) within [cwnd, 1.5 cwnd] (RFC 9438, section 4.2).
fn target(w_cubic: f64, cwnd: f64) -> f64 {
    w_cubic.clamp(cwnd, MAX_GROWTH * cwnd)
}

/// W_max after a loss, by fast convergence (RFC 9438, section 4.7): a flow that lost before it
/// regained its last maximum gives up some more room.
fn w_max_after_loss(cwnd: f64, w_max: f64) -> f64 {
    match cwnd < w_max {
        true => cwnd * (1.0 + BETA) / 2.0,
        false => cwnd,
    }
}

impl Flow {
    /// The change of the window in bytes (RFC 9438, sections 4.2 to 4.5).
    pub fn increase(&mut self, now: Instant, growth: &Growth, gains: Gains) -> f64 {
        let Growth {
            srtt,
            cwnd_bytes,
            mss_bytes,
            acked_bytes,
        } = *growth;
        let epoch = self.epoch.get_or_insert(Epoch {
            started: now,
            last_ack: now,
            cwnd_bytes,
            w_est_bytes: cwnd_bytes,
            k: CubeRoot::default(),
        });
        epoch.last_ack = now;
        let c = C * gains.cubic;

        let w_max = self.w_max_bytes.max(epoch.cwnd_bytes) / mss_bytes;
        let k = epoch.k.of(k_cubed(c, w_max, epoch.cwnd_bytes / mss_bytes));
        let t = now.saturating_duration_since(epoch.started);

        // W_est += alpha_cubic * acked / cwnd packets (equation 4).
        let alpha = match epoch.w_est_bytes < self.cwnd_prior_bytes {
            true => ALPHA,
            false => 1.0,
        };
        epoch.w_est_bytes += gains.friendly * alpha * mss_bytes * acked_bytes / cwnd_bytes;

        if w_cubic(c, t.as_secs_f64(), k, w_max) * mss_bytes < epoch.w_est_bytes {
            return (epoch.w_est_bytes - cwnd_bytes).max(0.0);
        }
        let ahead = w_cubic(c, (t + srtt).as_secs_f64(), k, w_max) * mss_bytes;
        let missing_bytes = target(ahead, cwnd_bytes) - cwnd_bytes;
        missing_bytes * (acked_bytes / cwnd_bytes).min(1.0)
    }

    /// Between two losses, in congestion avoidance.
    pub fn in_epoch(&self) -> bool {
        self.epoch.is_some()
    }

    /// The window after a loss, in bytes (RFC 9438, sections 4.6 and 4.7).
    pub fn decrease(&mut self, cwnd_bytes: f64) -> f64 {
        self.w_max_bytes = w_max_after_loss(cwnd_bytes, self.w_max_bytes);
        self.cwnd_prior_bytes = cwnd_bytes;
        self.epoch = None;
        cwnd_bytes * BETA
    }

    /// Time in which the window was not the limit is no growth time (RFC 9438, section 5.8).
    pub fn on_underused(&mut self, now: Instant) {
        if let Some(epoch) = self.epoch.as_mut() {
            epoch.started += now.saturating_duration_since(epoch.last_ack);
            epoch.last_ack = now;
        }
    }

    /// Shows W_max and K, in packets and seconds.
    pub fn trace(&self, mss_bytes: f64, c: f64, trace: &mut Trace) {
        let w_max = self.w_max_bytes / mss_bytes;
        let k = self
            .epoch
            .map_or(0.0, |epoch| k(c, w_max, epoch.cwnd_bytes / mss_bytes));
        trace.push("w_max_packets", w_max);
        trace.push("k_secs", k);
    }
}

impl Controller for Cubic {
    type Flow = Flow;

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        own.flow
            .increase(own.now, &Growth::of(own.path, ack), Gains::NONE)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.flow.decrease(own.path.cwnd_bytes as f64)
    }

    fn on_underused(&mut self, own: Own<Flow>) {
        own.flow.on_underused(own.now);
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        flow.trace(path.mss_bytes as f64, C, trace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    const MSS: f64 = 1000.0;

    #[test]
    fn k_of_a_whole_cube_root() {
        // W_max = 90, cwnd_epoch = 63 = 0.7 * 90: 27 / 0.4 = 67.5, K = 4.0716...
        close(k(C, 90.0, 63.0), 67.5_f64.cbrt());
        // W_max = 36, 0.7 * 36 = 25.2: 10.8 / 0.4 = 27, K = 3 s exactly.
        close(k(C, 36.0, 25.2), 3.0);
        // Already beyond W_max: no plateau to reach.
        assert_eq!(k(C, 30.0, 40.0), 0.0);
    }

    #[test]
    fn a_cube_root_follows_what_it_is_of() {
        let mut root = CubeRoot::default();
        assert_eq!(
            [0.0, 27.0, 27.0, 8.0, 0.0].map(|cube| root.of(cube)),
            [0.0, 3.0, 3.0, 2.0, 0.0]
        );
    }

    #[test]
    fn window_over_time() {
        // W_max = 36, K = 3: W(0) = 36 - 0.4 * 27 = 25.2, W(1) = 36 - 0.4 * 8 = 32.8,
        // W(3) = 36, W(5) = 36 + 0.4 * 8 = 39.2.
        close(w_cubic(C, 0.0, 3.0, 36.0), 25.2);
        close(w_cubic(C, 1.0, 3.0, 36.0), 32.8);
        close(w_cubic(C, 3.0, 3.0, 36.0), 36.0);
        close(w_cubic(C, 5.0, 3.0, 36.0), 39.2);
    }

    #[test]
    fn alpha_makes_up_for_beta() {
        // 3 * 0.3 / 1.7 = 0.529411...
        close(ALPHA, 0.9 / 1.7);
    }

    #[test]
    fn target_is_bounded() {
        assert_eq!(target(50.0, 100.0), 100.0);
        assert_eq!(target(120.0, 100.0), 120.0);
        assert_eq!(target(900.0, 100.0), 150.0);
    }

    #[test]
    fn fast_convergence_releases_room() {
        // Lost at 80 before regaining 100: W_max = 80 * 1.7 / 2 = 68. Lost beyond: W_max = cwnd.
        close(w_max_after_loss(80.0, 100.0), 68.0);
        close(w_max_after_loss(120.0, 100.0), 120.0);
    }

    #[test]
    fn one_round_trip_after_a_loss() {
        // Lost at 36 packets: 25.2 left, K = 3 s. The first ACK sets t = 0; with srtt = 1 s the
        // target is W(1) = 32.8, so one packet acked adds (32.8 - 25.2)/25.2 = 0.301587 packets.
        // Reno's estimate is 25.2 + 0.529411/25.2 = 25.221 > W(0) = 25.2: Reno is ahead at first.
        let now = Instant::now();
        let mut flow = Flow::default();
        close(flow.decrease(36.0 * MSS), 25.2 * MSS);
        let growth = Growth {
            srtt: Duration::from_secs(1),
            cwnd_bytes: 25.2 * MSS,
            mss_bytes: MSS,
            acked_bytes: MSS,
        };
        let first = flow.increase(now, &growth, Gains::NONE);
        close(first, ALPHA / 25.2 * MSS);
        // One second on, W(1) = 32.8 is beyond the estimate, W(2) = 36 - 0.4 = 35.6 the target:
        // (35.6 - 25.2)/25.2 = 0.412698 packets.
        let later = now + Duration::from_secs(1);
        let second = flow.increase(later, &growth, Gains::NONE);
        close(second, 10.4 / 25.2 * MSS);
    }

    #[test]
    fn gains_scale_both_kinds_of_growth() {
        // C/8 = 0.05: K = cbrt(10.8/0.05) = 6 s. The first ACK follows Reno's estimate, at half of
        // alpha_cubic. A second on, W(1) = 36 - 0.05 * 125 = 29.75 is beyond it, and W(2) = 36 -
        // 0.05 * 64 = 32.8 the target: (32.8 - 25.2)/25.2 packets.
        let now = Instant::now();
        let gains = Gains {
            cubic: 0.125,
            friendly: 0.5,
        };
        let mut flow = Flow::default();
        flow.decrease(36.0 * MSS);
        let growth = Growth {
            srtt: Duration::from_secs(1),
            cwnd_bytes: 25.2 * MSS,
            mss_bytes: MSS,
            acked_bytes: MSS,
        };
        let first = flow.increase(now, &growth, gains);
        close(first, 0.5 * ALPHA / 25.2 * MSS);
        let second = flow.increase(now + Duration::from_secs(1), &growth, gains);
        close(second, 7.6 / 25.2 * MSS);
    }

    #[test]
    fn an_idle_time_is_no_growth_time() {
        let now = Instant::now();
        let id = PathId(0);
        let mut paths = Registry::new();
        paths.add(id, 1000).cwnd_bytes = 25_200;
        let mut cubic = Flows::new(Cubic);
        cubic.on_path_added(now, id);
        cubic.flows.get_mut(id).unwrap().w_max_bytes = 36_000.0;

        let ack = Ack {
            acked_bytes: 1000,
            acked_packets: 1,
            newest_sent: now,
            in_flight_before_bytes: 25_200,
            rtt_sample: None,
            app_limited: false,
        };
        cubic.increase(now, &paths, id, &ack);
        cubic.on_underused(now + Duration::from_secs(7), &paths, id);
        let epoch = cubic.flows.get(id).unwrap().epoch.unwrap();
        assert_eq!(epoch.started, now + Duration::from_secs(7));
    }

    #[test]
    fn the_bounds_of_the_regions() {
        // A window that is just what was lost from is no step back.
        close(w_max_after_loss(100.0, 100.0), 100.0);
        // 20 packets were lost from, and are there again: Reno's own step, not alpha's.
        let growth = Growth {
            srtt: Duration::from_secs(1),
            cwnd_bytes: 20.0 * MSS,
            mss_bytes: MSS,
            acked_bytes: MSS,
        };
        let mut flow = Flow {
            cwnd_prior_bytes: 20.0 * MSS,
            ..Flow::default()
        };
        close(flow.increase(Instant::now(), &growth, Gains::NONE), 50.0);
        // A curve that is no lower than Reno's estimate is followed: W(1) = 20 + 0.4.
        let none = Gains {
            cubic: 1.0,
            friendly: 0.0,
        };
        let gained = Flow::default().increase(Instant::now(), &growth, none);
        close(gained, 0.4 / 20.0 * MSS);
    }

    #[test]
    fn what_a_path_keeps_and_shows() {
        let now = Instant::now();
        let mut paths = paths(&[(36, 100)]);
        let mut cubic = joined(Cubic, &paths);
        shows(&cubic, &paths, &[("w_max_packets", 0.0), ("k_secs", 0.0)]);
        close(cubic.decrease(now, &paths, PathId(0)), 25_200.0);
        shows(&cubic, &paths, &[("w_max_packets", 36.0), ("k_secs", 0.0)]);
        paths.get_mut(PathId(0)).unwrap().cwnd_bytes = 25_200;
        cubic.increase(now, &paths, PathId(0), &ack(now));
        // cbrt(10.8/0.4) = 3.
        shows(&cubic, &paths, &[("w_max_packets", 36.0), ("k_secs", 3.0)]);
    }
}
