//! delta, which makes all paths together fair to one CUBIC flow (equations 22 to 30).
//!
//! In equilibrium (1-p) delta B alpha-/w- = p d w-, so p = delta B alpha-/(d w-^2) (equation
//! 26 prints w_T for w_r). CUBIC has [C(4-b)/(4b) (rtt/p)^3]^(1/4) (equation 28 lost the cube on p),
//! or Reno's sqrt(1.5/p) where that is more, and the sum of w-/rtt must be the best such path's (25).
//! Equation 29 has p, and with it w-^2, alpha- and B, inside the maximum. Solved for one delta of all
//! paths, as LIA's a is, it is the greater of
//! `max_s[d w-_s^2 (C(4-b)/(4b rtt_s))^(1/3)/(alpha-_s B_s)] / (sum w-_s/rtt_s)^(4/3)` and
//! `max_s[1.5 d (w-_s/rtt_s)^2/(alpha-_s B_s)] / (sum w-_s/rtt_s)^2`.
//! Equation 30 prints delta_r with the path's own w-^2, alpha- and B: then B cancels in the increase,
//! and every division between the paths is an equilibrium. It also prints RTT^2 inside the root; only
//! 1/RTT has the right dimension and gives one path CUBIC's window. The means are those of the last
//! complete loss epoch, or of several paths' epochs, smoothed: with the instantaneous alpha, delta
//! alpha would be constant and the curves would vanish. Paths of fewer than two epochs are in the sum
//! alone; without any other delta is 1/N. It lies within [0.01, 1] and plays no part in slow start.

use super::super::cubic;
use super::super::members::Member;

/// The bounds of delta.
const DELTA: [f64; 2] = [0.01, 1.0];

/// Reno's window is sqrt(this/p), the lower bound of CUBIC's.
const RENO: f64 = 1.5;

/// Loss epochs before delta means anything.
const MIN_EPOCHS: u32 = 2;

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

/// The part of a new loss epoch in the smoothed means, from which the greatest of several paths is
/// taken: that of single epochs is above what they have in the mean. A path alone has no greatest.
const EPOCH_PART: f64 = 0.25;

impl Means {
    fn smoothed(&self, new: &Means) -> Means {
        Means {
            w: self.w + EPOCH_PART * (new.w - self.w),
            alpha: self.alpha + EPOCH_PART * (new.alpha - self.alpha),
        }
    }
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
    last: Option<Means>,
    /// Of the complete ones, the last with [`EPOCH_PART`].
    smoothed: Option<Means>,
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
            let smoothed = self.smoothed.map_or(means, |old| old.smoothed(&means));
            self.smoothed = Some(smoothed);
            self.last = Some(means);
            self.complete = self.complete.saturating_add(1);
        }
    }

    fn means(&self, is_alone: bool) -> Option<Means> {
        match is_alone {
            true => self.last,
            false => self.smoothed,
        }
    }
}

/// What one path contributes to delta.
#[derive(Clone, Copy, Debug)]
struct Term {
    /// w-^2/(alpha- B): 1/p but for delta and d.
    square: f64,
    rtt: f64,
}

/// delta of paths whose rates are `sum` together, of the fraction `d` that is given up on a loss.
fn corrected(d: f64, terms: impl Iterator<Item = Term>, sum: f64) -> f64 {
    terms.fold(0.0, |delta: f64, term| {
        let cubic = d * term.square * cubic_factor(term.rtt) / sum.powf(4.0 / 3.0);
        let reno = RENO * d * term.square / (term.rtt * sum).powi(2);
        delta.max(cubic).max(reno)
    })
}

/// delta of all paths: `members` with their epochs and B, giving up the fraction `d` on a loss.
pub fn delta<'a>(
    d: f64,
    members: impl Iterator<Item = (Member<'a>, &'a Epochs, f64)> + Clone,
) -> f64 {
    let is_alone = members.clone().nth(1).is_none();
    // w-, or the window while there is none.
    let rate = |(member, epochs, _): (Member, &Epochs, f64)| {
        let w = epochs
            .means(is_alone)
            .map_or(member.window, |means| means.w);
        w / member.rtt
    };
    let sum: f64 = members.clone().map(rate).sum();
    let terms = members.clone().filter_map(|(member, epochs, balance)| {
        let means = epochs
            .means(is_alone)
            .filter(|_| epochs.complete >= MIN_EPOCHS)?;
        Some(Term {
            square: means.w * means.w / (means.alpha * balance),
            rtt: member.rtt,
        })
    });
    match terms.clone().next() {
        Some(_) => corrected(d, terms, sum).clamp(DELTA[0], DELTA[1]),
        None => 1.0 / f64::max(members.count() as f64, 1.0),
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
        let term = |w: f64, balance: f64| Term {
            square: w * w / (20.0 * balance),
            rtt: 0.1,
        };
        let delta = |terms: &[Term], sum| corrected(0.3, terms.iter().copied(), sum);
        let one = delta(&[term(w, 1.0)], w / 0.1);
        about(one * 20.0 / (0.3 * w * w), 1e-4, 1e-5);
        // Two equal paths: the sum doubles, so delta falls by 2^(4/3).
        let halves = delta(&[term(w, 1.0); 2], 2.0 * w / 0.1);
        about(halves, one / 2_f64.powf(4.0 / 3.0), 1e-9);
        // B of 1.5 and 0.5: the path of the lesser B could have had the most, alone.
        let moved = delta(&[term(w, 1.5), term(w, 0.5)], 2.0 * w / 0.1);
        about(moved, 2.0 * halves, 1e-9);
    }

    #[test]
    fn where_cubic_follows_reno_so_does_delta() {
        // rtt 0.02, alpha = B = 1, d = 0.5, p = 0.015: Reno has sqrt(1.5/0.015) = 10 packets, the
        // cubic law 1.0538 (0.02/0.015)^0.75 = 1.3. p = delta/(d w^2), so delta = 0.015 * 0.5 * 100.
        let term = Term {
            square: 100.0,
            rtt: 0.02,
        };
        about(corrected(0.5, [term].into_iter(), 500.0), 0.75, 1e-9);
    }

    #[test]
    fn a_new_epoch_counts_for_a_quarter() {
        let mut epochs = Epochs::default();
        // Nothing was acked: that is no epoch.
        epochs.on_loss();
        assert_eq!(epochs.complete, 0);
        assert!(epochs.means(true).is_none() && epochs.means(false).is_none());

        // The means are 100 and 4, then 200 and 8.
        for (w, alpha) in [(100.0, 4.0), (200.0, 8.0)] {
            epochs.on_ack(1.0, w - 30.0, alpha + 3.0);
            epochs.on_ack(3.0, w + 10.0, alpha - 1.0);
            epochs.on_loss();
        }
        assert_eq!(epochs.complete, 2);
        let of = |is_alone| epochs.means(is_alone).map(|means| (means.w, means.alpha));
        assert_eq!(of(true), Some((200.0, 8.0)));
        assert_eq!(of(false), Some((125.0, 5.0)));
    }
}
