//! B, which moves traffic to the less lossy paths (equations 17 to 21).
//!
//! Equation 17 gives B_max to the lossiest path, against its purpose, 18 has p_max - p_min for
//! p_avg - p_min, and 17, 20 and 21 lack "- p_min". With B_hi = 1 + (p_avg - p_min)/p_avg at p_min,
//! B_lo = 1 - (p_max - p_avg)/p_avg at p_max and B = b1/(b2 + p - p_min) both ends are met, and for
//! two paths B sums to 2. For more it could be negative: the floor is 0.05.
//!
//! p_r: 1/p_r is the longer of the packets acked since the last loss and those between the last two.

use super::super::members::Member;
use super::super::units::packets_of;
use crate::registry::PathState;

/// The floor of B.
const MIN_BALANCE: f64 = 0.05;

/// The loss rates that B compares.
#[derive(Clone, Copy, Debug)]
struct LossRates {
    min: f64,
    max: f64,
    mean: f64,
}

/// B of a path with loss rate `p` (equations 17 to 21, corrected).
fn corrected(p: f64, rates: &LossRates) -> f64 {
    let range = rates.max - rates.min;
    let b_hi = 1.0 + (rates.mean - rates.min) / rates.mean;
    let b_lo = (1.0 - (rates.max - rates.mean) / rates.mean).max(MIN_BALANCE);
    if range <= 0.0 {
        return 1.0;
    }
    let b1 = range * b_hi * b_lo / (b_hi - b_lo);
    let b2 = range * b_lo / (b_hi - b_lo);
    (b1 / (b2 + p - rates.min)).max(MIN_BALANCE)
}

/// 1/p_r: packets between losses.
fn loss_interval(path: &PathState) -> f64 {
    let bytes = path
        .acked_since_loss_bytes
        .max(path.acked_between_losses_bytes);
    packets_of(bytes, path).max(1.0)
}

/// B of `own` among `members`; 1 for a path that is alone.
pub fn balance<'a>(own: &PathState, members: impl Iterator<Item = Member<'a>>) -> f64 {
    let mut rates = LossRates {
        min: f64::MAX,
        max: 0.0,
        mean: 0.0,
    };
    let mut count = 0.0;
    for member in members {
        let p = 1.0 / loss_interval(member.path);
        rates.min = rates.min.min(p);
        rates.max = rates.max.max(p);
        rates.mean += p;
        count += 1.0;
    }
    rates.mean /= count;
    corrected(1.0 / loss_interval(own), &rates)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::*;
    use super::*;
    use crate::registry::PathId;

    #[test]
    fn equations_17_to_21() {
        // p = 0.01 and 0.03: mean 0.02. B_hi = 1 + 0.01/0.02 = 1.5, B_lo = 1 - 0.01/0.02 = 0.5.
        let rates = LossRates {
            min: 0.01,
            max: 0.03,
            mean: 0.02,
        };
        close(corrected(0.01, &rates), 1.5);
        close(corrected(0.03, &rates), 0.5);
        // Between: b1 = 0.02 * 0.75/1 = 0.015, b2 = 0.02 * 0.5/1 = 0.01; 0.015/(0.01 + 0.01) = 0.75.
        close(corrected(0.02, &rates), 0.75);
        // Equal paths: 1. Three paths, one very lossy: mean 0.034, B_lo = 1 - 0.066/0.034 < 0: floor.
        let equal = LossRates {
            min: 0.02,
            max: 0.02,
            mean: 0.02,
        };
        close(corrected(0.02, &equal), 1.0);
        let steep = LossRates {
            min: 0.001,
            max: 0.1,
            mean: 0.034,
        };
        close(corrected(0.1, &steep), 0.05);
    }

    #[test]
    fn three_paths() {
        let mut list = paths(&[(100, 100), (100, 100), (100, 100)]);
        // p = 0.01, 0.02, 0.03: mean 0.02, B as for 0.01 and 0.03 alone.
        for (id, bytes) in [(0, 100_000), (1, 50_000), (2, 33_333)] {
            list.get_mut(PathId(id)).unwrap().acked_between_losses_bytes = bytes;
        }
        let b = |id| {
            let members = list.iter().filter_map(Member::new);
            balance(list.get(PathId(id)).unwrap(), members)
        };
        for (id, expected) in [(0, 1.5), (1, 0.75), (2, 0.5)] {
            about(b(id), expected, 1e-4);
        }
    }
}
