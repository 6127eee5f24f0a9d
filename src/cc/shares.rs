//! The smoothed share of each path in the connection's rate, by which several coupled controllers
//! scale their growth.
//!
//! If a single path's response is w ~ delta^(1/m), then scaling the increase of path r by
//! delta_r = (x_r / sum x_s)^m gives it the fraction x_r / sum x_s of a single flow's window, so
//! all paths together take what one flow would. m is 2 for Reno, SQRT and IIAD (k + l + 1), 2 - k
//! for Compound and 4 for CUBIC.

use super::members::Member;
use super::Own;
use crate::registry::PathId;

/// The weight of a new rate in the smoothed one (MCompound, algorithm 1).
const SMOOTHING: f64 = 0.125;

/// The least delta: a path that carries nothing must still be able to find capacity.
const MIN_DELTA: f64 = 1e-3;

/// One path's rate and share, as of its last round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// x_r smoothed, packets per second; `None` before the first round trip.
    rate: Option<f64>,
    part: f64,
}

/// A path that is alone, or has not been measured.
impl Default for Share {
    fn default() -> Self {
        Share {
            rate: None,
            part: 1.0,
        }
    }
}

impl Share {
    /// The share after a round trip: x <- 7/8 x + 1/8 w/rtt, and its part of the sum. `share` says
    /// where a flow has its share.
    pub fn after_round<F>(own: &Own<F>, share: fn(&F) -> &Share) -> Share {
        Share::in_group(own, share, |_| true)
    }

    /// The same, of the sum over those paths for which `in_group` holds; it has to for the path itself.
    pub fn in_group<F>(
        own: &Own<F>,
        share: fn(&F) -> &Share,
        in_group: impl Fn(PathId) -> bool,
    ) -> Share {
        let before = share(own.flow);
        let Some(member) = Member::new(own.path) else {
            return *before;
        };
        let rate = match before.rate {
            Some(rate) => rate + SMOOTHING * (member.rate() - rate),
            None => member.rate(),
        };
        let rates = own
            .flows()
            .filter(|(member, _)| in_group(member.path.id))
            .filter_map(|(member, flow)| match member.path.id == own.path.id {
                true => Some(rate),
                false => share(flow).rate,
            });
        let sum: f64 = rates.sum();
        Share {
            rate: Some(rate),
            part: match sum > 0.0 {
                true => rate / sum,
                false => 1.0,
            },
        }
    }

    /// x_r / sum x_s; 1 for a path that is alone, or has not been measured.
    pub fn part(&self) -> f64 {
        self.part
    }

    /// delta_r = (x_r / sum x_s)^m.
    pub fn delta(&self, m: i32) -> f64 {
        self.part.powi(m).max(MIN_DELTA)
    }
}

#[cfg(test)]
mod tests {
    use super::super::binomial::Binomial;
    use super::super::iiad::IIAD;
    use super::super::testing::*;
    use super::*;

    /// A controller that has nothing but shares.
    fn shares(paths: &Registry) -> Flows<Binomial> {
        let settings = settings(&super::super::mpiiad::ENTRY, "");
        joined(Binomial::coupled(IIAD, &settings), paths)
    }

    fn share(shares: &Flows<Binomial>, id: u64) -> Share {
        shares.flows.get(PathId(id)).unwrap().share
    }

    #[test]
    fn rates_are_smoothed_and_shared() {
        // Rates: 20/0.1 = 200 and 60/0.1 = 600 packets/s: shares 1/4 and 3/4.
        let now = Instant::now();
        let mut paths = paths(&[(20, 100), (60, 100)]);
        let (a, b) = (PathId(0), PathId(1));
        let mut shares = shares(&paths);
        close(share(&shares, 0).part(), 1.0);
        shares.on_round(now, &paths, a, &round(100));
        close(share(&shares, 0).part(), 1.0); // the other is not measured yet
        shares.on_round(now, &paths, b, &round(100));
        shares.on_round(now, &paths, a, &round(100));
        close(share(&shares, 0).part(), 0.25);
        close(share(&shares, 1).part(), 0.75);
        // m = 2: 1/16; m = 4: 1/256.
        close(share(&shares, 0).delta(2), 0.0625);
        close(share(&shares, 0).delta(4), 0.00390625);
        // The window doubles: 200 + (400 - 200)/8 = 225; 225/825.
        paths.get_mut(a).unwrap().cwnd_bytes = 40 * MSS;
        shares.on_round(now, &paths, a, &round(100));
        close(share(&shares, 0).part(), 225.0 / 825.0);
        // The other leaves: alone again.
        shares.on_path_closed(now, b);
        paths.remove(b);
        shares.on_round(now, &paths, a, &round(100));
        close(share(&shares, 0).part(), 1.0);
    }

    #[test]
    fn delta_has_a_floor() {
        let now = Instant::now();
        let paths = paths(&[(2, 100), (6000, 100)]);
        let mut shares = shares(&paths);
        for id in [PathId(0), PathId(1), PathId(0)] {
            shares.on_round(now, &paths, id, &round(100));
        }
        close(share(&shares, 0).delta(4), 1e-3);
    }
}
