//! MPCUBIC: CUBIC coupled over the paths (Le, Haw, Hong and Lee 2012; equation 10 of the MPMTP
//! paper).
//!
//! | symbol   | name here       | unit        | source                                   |
//! |----------|-----------------|-------------|------------------------------------------|
//! | delta_r  | `Share::delta`  | 1           | scales C; see below                      |
//! | C, K, b  | as in [`cubic`](super::cubic) | | K_r = cbrt(b W_max/(delta_r C))        |
//! | x_r      | [`Share`]      | packets/s   | smoothed w_r/rtt_r                       |
//!
//! The texts we have leave delta_r undefined. CUBIC's window is (C (4-b)/(4b))^(1/4) (rtt/p)^(3/4),
//! that is C^(1/4) but for constants, so delta_r = (x_r/sum x)^4 gives path r the fraction x_r/sum x
//! of one flow's window, and all paths together take what one flow would. In the region where
//! CUBIC follows Reno the window goes with the square root of the increase, so there it is scaled
//! by (x_r/sum x)^2. The original's fast recovery over several paths is left out: QUIC's recovery
//! already acknowledges each path by itself.
//!
//! delta holds for an epoch, from one loss to the next. As the window does not fall when the curve
//! does, a delta that follows the share at once would only ever push the window up: two paths took 1.3
//! shares of a common bottleneck with it.

use super::boxed;
use super::cubic;
use super::cubic::Gains;
use super::cubic::Growth;
use super::cubic::C;
use super::re_entry;
use super::shares::Share;
use super::start;
use super::Ack;
use super::Change;
use super::Controller;
use super::Entry;
use super::Own;
use super::Round;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "mpcubic",
    coupled: true,
    summary: "MPCUBIC: CUBIC coupled over the paths",
    idea: "CUBIC on each path with C scaled so that all paths together are one CUBIC flow.",
    source: "Le, Haw, Hong and Lee, IEEE Communications Letters 16(2), 2012; equation 10 of the \
             MPMTP paper; delta is ours",
    formula: "w_r(t) = delta_r C (t - K_r)^3 + W_max, K_r = cbrt(b W_max/(delta_r C)), \
              delta_r = (x_r/sum x)^4, x = w/rtt smoothed; loss: w_r = 0.7 w_r",
    use_when: "paths are fast and long, and others on them use CUBIC",
    avoid_when: "queues must stay short, or burst losses hurt: it overshoots as CUBIC does",
    deviations: &[
        "delta_r, which the texts leave undefined, is (x_r/sum x)^4: C scaled so makes all \
         paths one CUBIC flow; where CUBIC follows Reno it is (x_r/sum x)^2",
        "delta_r holds from one loss to the next",
        "the fast recovery over several paths is left out: QUIC acknowledges each path by \
         itself",
    ],
    params: &[
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |_| boxed(MpCubic),
};

/// The exponents of the share: CUBIC's and Reno's.
const M_CUBIC: i32 = 4;
const M_RENO: i32 = 2;

/// MPCUBIC of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    cubic: cubic::Flow,
    /// Of the epoch.
    gains: Gains,
    share: Share,
}

/// The controller.
#[derive(Debug)]
struct MpCubic;

fn gains(share: &Share) -> Gains {
    Gains {
        cubic: share.delta(M_CUBIC),
        friendly: share.delta(M_RENO),
    }
}

impl Controller for MpCubic {
    type Flow = Flow;

    fn on_round(&mut self, own: Own<Flow>, _round: &Round) -> Option<Change> {
        own.flow.share = Share::after_round(&own, |flow| &flow.share);
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let flow = own.flow;
        if !flow.cubic.in_epoch() {
            flow.gains = gains(&flow.share);
        }
        let growth = Growth::of(own.path, ack);
        flow.cubic.increase(own.now, &growth, flow.gains)
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        own.flow.cubic.decrease(own.path.cwnd_bytes as f64)
    }

    fn on_underused(&mut self, own: Own<Flow>) {
        own.flow.cubic.on_underused(own.now);
    }

    fn trace(&self, _paths: &Registry, path: &PathState, flow: &Flow, trace: &mut Trace) {
        let delta = flow.gains.cubic;
        trace.push("delta", delta);
        flow.cubic.trace(path.mss_bytes as f64, C * delta, trace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::cubic::k;
    use super::super::cubic::w_cubic;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn equation_10() {
        // delta = 1/16 (two equal paths): K = cbrt(0.3 * 36/(0.4/16)) = cbrt(432) = 7.5595 s, which is
        // cbrt(16) times CUBIC's 3 s. At t = 0 the curve starts at 0.7 * 36 all the same.
        let c = C / 16.0;
        let k = k(c, 36.0, 25.2);
        close(k, 432.0_f64.cbrt());
        close(w_cubic(c, 0.0, k, 36.0), 25.2);
        // One second on: 36 - 0.025 * 6.5595^3 = 36 - 7.0561.
        about(w_cubic(c, 1.0, k, 36.0), 28.944, 1e-4);
    }

    #[test]
    fn two_equal_paths_have_a_sixteenth_of_c() {
        let now = Instant::now();
        let paths = paths(&[(40, 100), (40, 100)]);
        let mut mpcubic = Flows::new(MpCubic);
        for id in [PathId(0), PathId(1)] {
            mpcubic.on_path_added(now, id);
        }
        for id in [PathId(0), PathId(1)] {
            mpcubic.on_round(now, &paths, id, &round(100));
        }
        let gains = gains(&mpcubic.flows.get(PathId(1)).unwrap().share);
        close(gains.cubic, 1.0 / 16.0);
        close(gains.friendly, 1.0 / 4.0);
        // (1/16)^(1/4) = 1/2: half of one flow's window each.
        close(gains.cubic.powf(0.25), 0.5);
    }

    /// Two paths of 36 packets and 100 ms after a round trip, and a loss on the first.
    fn after_a_loss(now: Instant) -> (Registry, Flows<MpCubic>) {
        let mut paths = paths(&[(36, 100), (36, 100)]);
        let mut mpcubic = joined(MpCubic, &paths);
        for id in [PathId(1), PathId(0)] {
            mpcubic.on_round(now, &paths, id, &round(100));
        }
        close(mpcubic.decrease(now, &paths, PathId(0)), 25_200.0);
        paths.get_mut(PathId(0)).unwrap().cwnd_bytes = 25_200;
        (paths, mpcubic)
    }

    #[test]
    fn the_share_holds_until_the_next_loss() {
        let now = Instant::now();
        let (mut paths, mut mpcubic) = after_a_loss(now);
        // Reno's estimate: a quarter of alpha_cubic = 0.9/1.7.
        let gained = mpcubic.increase(now, &paths, PathId(0), &ack(now));
        close(gained, 0.25 * 0.9 / 1.7 / 25.2 * 1000.0);
        // K = cbrt(10.8 16/0.4) = cbrt(432).
        let k_secs = 432.0_f64.cbrt();
        let shown = [
            ("delta", 1.0 / 16.0),
            ("w_max_packets", 36.0),
            ("k_secs", k_secs),
        ];
        shows(&mpcubic, &paths, &shown);
        paths.get_mut(PathId(0)).unwrap().cwnd_bytes = 72_000;
        mpcubic.on_round(now, &paths, PathId(0), &round(100));
        mpcubic.increase(now, &paths, PathId(0), &ack(now));
        shows(&mpcubic, &paths, &shown);
        mpcubic.decrease(now, &paths, PathId(0));
        mpcubic.increase(now, &paths, PathId(0), &ack(now));
        assert_ne!(
            mpcubic.flows.get(PathId(0)).unwrap().gains.cubic,
            1.0 / 16.0
        );
    }

    #[test]
    fn idle_time_is_no_growth_time() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_secs(30);
        let gained = |idle: bool| {
            let (paths, mut mpcubic) = after_a_loss(now);
            mpcubic.increase(now, &paths, PathId(0), &ack(now));
            if idle {
                mpcubic.on_underused(later, &paths, PathId(0));
            }
            mpcubic.increase(later, &paths, PathId(0), &ack(now))
        };
        assert!(gained(true) < gained(false) / 10.0);
    }
}
