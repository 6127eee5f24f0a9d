//! The smoothed share of each path in the connection's rate, by which several coupled controllers
//! scale their growth.
//!
//! If a single path's response is w ~ delta^(1/m), then scaling the increase of path r by
//! delta_r = (x_r / sum x_s)^m gives it the fraction x_r / sum x_s of a single flow's window, so
//! all paths together take what one flow would. m is 2 for Reno, SQRT and IIAD (k + l + 1), 2 - k
//! for Compound and 4 for CUBIC.

use super::members::members;
use super::members::Member;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::Registry;

/// The weight of a new rate in the smoothed one (MCompound, algorithm 1).
const SMOOTHING: f64 = 0.125;

/// The least delta: a path that carries nothing must still be able to find capacity.
const MIN_DELTA: f64 = 1e-3;

/// One path's rate and share, as of its last round trip.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// x_r smoothed, packets per second; `None` before the first round trip.
    rate: Option<f64>,
    share: f64,
}

/// The shares of all paths.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    paths: PathMap<Share>,
}

impl Shares {
    /// A path joins, or starts over: alone, until its first round trip ends.
    pub fn reset(&mut self, id: PathId) {
        let fresh = Share {
            rate: None,
            share: 1.0,
        };
        self.paths.insert(id, fresh);
    }

    /// A path leaves.
    pub fn remove(&mut self, id: PathId) {
        self.paths.remove(id);
    }

    /// A round trip of path `id` ended: x <- 7/8 x + 1/8 w/rtt, and its share anew.
    pub fn on_round(&mut self, paths: &Registry, id: PathId) {
        let Some(member) = paths.get(id).and_then(Member::new) else {
            return;
        };
        let Some(own) = self.paths.get_mut(id) else {
            return;
        };
        let rate = match own.rate {
            Some(rate) => rate + SMOOTHING * (member.rate() - rate),
            None => member.rate(),
        };
        own.rate = Some(rate);

        let smoothed = |id| self.paths.get(id).and_then(|share| share.rate);
        let sum: f64 = members(paths, id)
            .filter_map(|member| smoothed(member.path.id))
            .sum();
        if let Some(own) = self.paths.get_mut(id) {
            own.share = match sum > 0.0 {
                true => rate / sum,
                false => 1.0,
            };
        }
    }

    /// x_r / sum x_s; 1 for a path that is alone, or has not been measured.
    pub fn of(&self, id: PathId) -> f64 {
        self.paths.get(id).map_or(1.0, |share| share.share)
    }

    /// delta_r = (x_r / sum x_s)^m.
    pub fn delta(&self, id: PathId, m: i32) -> f64 {
        self.of(id).powi(m).max(MIN_DELTA)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn rates_are_smoothed_and_shared() {
        // Rates: 20/0.1 = 200 and 60/0.1 = 600 packets/s: shares 1/4 and 3/4.
        let mut paths = paths(&[(20, 100), (60, 100)]);
        let (a, b) = (PathId(0), PathId(1));
        let mut shares = Shares::default();
        shares.reset(a);
        shares.reset(b);
        close(shares.of(a), 1.0);
        shares.on_round(&paths, a);
        close(shares.of(a), 1.0); // the other is not measured yet
        shares.on_round(&paths, b);
        shares.on_round(&paths, a);
        close(shares.of(a), 0.25);
        close(shares.of(b), 0.75);
        // m = 2: 1/16; m = 4: 1/256.
        close(shares.delta(a, 2), 0.0625);
        close(shares.delta(a, 4), 0.00390625);
        // The window doubles: 200 + (400 - 200)/8 = 225; 225/825.
        paths.get_mut(a).unwrap().cwnd_bytes = 40 * MSS;
        shares.on_round(&paths, a);
        close(shares.of(a), 225.0 / 825.0);
        // The other leaves: alone again.
        shares.remove(b);
        paths.remove(b);
        shares.on_round(&paths, a);
        close(shares.of(a), 1.0);
    }

    #[test]
    fn delta_has_a_floor() {
        let paths = paths(&[(2, 100), (6000, 100)]);
        let mut shares = Shares::default();
        for id in [PathId(0), PathId(1), PathId(0)] {
            if shares.paths.get(id).is_none() {
                shares.reset(id);
            }
            shares.on_round(&paths, id);
        }
        close(shares.delta(PathId(0), 4), 1e-3);
    }
}
