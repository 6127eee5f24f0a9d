//! delta, which makes all paths together fair to one CUBIC flow (equations 22 to 30).
//!
//! In equilibrium (1-p) delta B alpha-/w- = p d w-, so p = delta B alpha-/(d w-^2) (equation
//! 26 prints w_T for w_r). CUBIC has [C(4-b)/(4b) (rtt/p)^3]^(1/4) (equation 28 lost the cube on p),
//! and the sum of w-/rtt must be the best CUBIC path's (25). Solved for delta,
//! `delta_r = d w-_r^2 max_s[(C(4-b)/(4b rtt_s))^(1/3)] / (alpha-_r B_r (sum w-_s/rtt_s)^(4/3))`.
//! Equation 30 prints RTT^2 inside the root; only 1/RTT has the right dimension and gives one path
//! CUBIC's window. The means are those of the last complete loss epoch: with the instantaneous alpha,
//! delta alpha would be constant and the curves would vanish. Before two epochs delta is 1/N. It lies
//! within [0.01, 1] and plays no part in slow start.

use super::super::cubic;
use super::super::members::Member;

/// The bounds of delta.
const DELTA: [f64; 2] = [0.01, 1.0];

/// Loss epochs before delta means anything.
const MIN_EPOCHS: u32 = 2;

/// delta of a path (equations 25 to 30, corrected): `best` is max_s[(C(4-b)/(4b rtt_s))^(1/3)],
/// `sum` is sum(w-_s/rtt_s).
fn corrected(d: f64, mean: &Means, balance: f64, best: f64, sum: f64) -> f64 {
    d * mean.w * mean.w * best / (mean.alpha * balance * sum.powf(4.0 / 3.0))
}

/// (C (4-b)/(4b rtt))^(1/3): CUBIC's rate is this^(3/4) p^(-3/4).
fn cubic_factor(rtt: f64) -> f64 {
    let b = 1.0 - cubic::BETA;
    (cubic::C * (4.0 - b) / (4.0 * b * rtt)).cbrt()
}

/// Means over the acked packets of a loss epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Means {
    w: f64,
    /// Of alpha L.
    alpha: f64,
}

/// The sums of a loss epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    acked: f64,
    w: f64,
    alpha: f64,
}

impl Epoch {
    fn add(&mut self, acked: f64, w: f64, alpha: f64) {
        self.acked += acked;
        self.w += acked * w;
        self.alpha += acked * alpha;
    }

    fn means(&self) -> Option<Means> {
        (self.acked > 0.0).then(|| Means {
            w: self.w / self.acked,
            alpha: self.alpha / self.acked,
        })
    }
}

/// The loss epochs of one path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epochs {
    current: Epoch,
    /// Of the last complete one.
    means: Option<Means>,
    complete: u32,
}

impl Epochs {
    /// So many packets were acked at window `w`, which grows by `alpha` packets per round trip.
    pub fn on_ack(&mut self, acked: f64, w: f64, alpha: f64) {
        self.current.add(acked, w, alpha);
    }

    /// A loss ends the epoch, if anything was acked in it.
    pub fn on_loss(&mut self) {
        if let Some(means) = std::mem::take(&mut self.current).means() {
            self.means = Some(means);
            self.complete = self.complete.saturating_add(1);
        }
    }

    /// w-, or the window while there is none.
    fn mean_window(&self, member: &Member) -> f64 {
        self.means.map_or(member.window, |means| means.w)
    }
}

/// delta of the path that has the epochs `own` and the B `balance`, and gives up the fraction `d` on a
/// loss; `members` are all paths with their epochs.
pub fn delta<'a>(
    own: &Epochs,
    balance: f64,
    d: f64,
    members: impl Iterator<Item = (Member<'a>, &'a Epochs)>,
) -> f64 {
    let (mut best, mut sum, mut count) = (0.0_f64, 0.0, 0.0);
    for (member, epochs) in members {
        best = best.max(cubic_factor(member.rtt));
        sum += epochs.mean_window(&member) / member.rtt;
        count += 1.0;
    }
    match own.means.filter(|_| own.complete >= MIN_EPOCHS) {
        Some(means) => corrected(d, &means, balance, best, sum).clamp(DELTA[0], DELTA[1]),
        None => 1.0 / f64::max(count, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::*;
    use super::*;

    #[test]
    fn equations_26_to_30_give_one_path_cubics_window() {
        // Equilibrium: p = delta B alpha/(d w^2). Take rtt 0.1, alpha = 20, B = 1, d = 0.3, and w =
        // 187.4, CUBIC's at p = 1e-4 (1.05382 * (0.1/1e-4)^0.75 = 1.05382 * 177.83 = 187.4).
        let w = 1.233_333_f64.powf(0.25) * 1000_f64.powf(0.75);
        let means = Means { w, alpha: 20.0 };
        let delta = corrected(0.3, &means, 1.0, cubic_factor(0.1), w / 0.1);
        let p = delta * 20.0 / (0.3 * w * w);
        about(p, 1e-4, 1e-5);
        // B = 1.5 alone must not change the window: delta B stays.
        let moved = corrected(0.3, &means, 1.5, cubic_factor(0.1), w / 0.1);
        about(moved * 1.5, delta, 1e-9);
        // Two equal paths: the sum doubles, so delta falls by 2^(4/3).
        let halves = corrected(0.3, &means, 1.0, cubic_factor(0.1), 2.0 * w / 0.1);
        about(halves, delta / 2_f64.powf(4.0 / 3.0), 1e-9);
    }
}
