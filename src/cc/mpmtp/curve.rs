//! How fast one path grows: MPMTP's three profiles (equations 11 to 16).
//!
//! | profile | begins                                   | alpha                    | L        | ends                              |
//! |---------|------------------------------------------|--------------------------|----------|-----------------------------------|
//! | concave | by a loss; after linear, below w_max     | falls from k_ret w_max to 1 | 1     | at w_max: convex; RTT rises: linear |
//! | convex  | at first; at w_max; after linear above it | from 1, more each round | 1        | RTT rises: linear                 |
//! | linear  | RTT rises                                | as it was                | 1 to 1/w | a round without a rise            |
//!
//! A loss ends any of them, and w_max = w, w = k_ret w. The samples of before the loss, and of the
//! recovery after it, are forgotten: they are of the queue that overflowed, and would end the climb
//! before it began. In slow start, the rise ends that too.
//!
//! *Concave* (figure 11 is missing): alpha(w) = alpha_max - (w^2 - (k_ret w_max)^2)/n, alpha_max =
//! k_ret w_max. With equation 12's n it is alpha_max at k_ret w_max and alpha_min = 1 at w_max.
//!
//! *Convex* (figure 12 is missing): alpha starts at 1 and gains 1 per round trip, or doubles.
//!
//! *Linear.* Equation 13 lacks "- RTT_min", equation 14 prints RTT for RTT_max, and 1/w is assigned to
//! L_max twice. With L = l1/(l2 + RTT - RTT_min), L_max = 1 and L_min = 1/w: at RTT_min, l1/l2 = L_max;
//! at RTT_max, l1/(l2 + R) with R = RTT_max - RTT_min is R L_min L_max/(R L_min + R (L_max - L_min)) =
//! L_min. alpha is frozen on entry, or is 1: the text wants "the increasing parameter" to decrease
//! gradually, which alpha L does with either, and calls alpha = 1 "the linear increment". With alpha
//! frozen, growth goes from alpha down to alpha/w, which a concave climb that meets a queue enters
//! with tens of packets a round trip; with 1, from 1 to 1/w (`linear=one`). Before the first loss there is no RTT_max: L = 1.
//!
//! *An RTT increment* is not defined: here the least of the last four samples exceeds the minimum RTT
//! by more than max(`rise`, a `rise_part`th of it). A round trip below that ends the linear profile.

/// RTT samples whose least is the current RTT.
const RTT_FILTER: usize = 4;

/// alpha at window `w` on the way back to `w_max`: the concave law with equation 12's n.
fn concave_alpha(w: f64, w_max: f64, k_ret: f64) -> f64 {
    let alpha_max = k_ret * w_max;
    if alpha_max <= 1.0 {
        return 1.0;
    }
    let start = alpha_max * alpha_max;
    let n = (w_max * w_max - start) / (alpha_max - 1.0);
    (alpha_max - (w * w - start) / n).clamp(1.0, w.max(1.0))
}

/// L = l1/(l2 + RTT - RTT_min) (equations 13 to 15, corrected), within [1/w, 1].
fn linear_factor(rtt: f64, rtt_rise: f64, rtt_loss: f64, w: f64) -> f64 {
    let l_min = 1.0 / w.max(1.0);
    let range = rtt_loss - rtt_rise;
    if range <= 0.0 || l_min >= 1.0 {
        return l_min;
    }
    // l1 and l2 are the same, as L_max is 1.
    let l = range * l_min / (1.0 - l_min);
    (l / (l + (rtt - rtt_rise).max(0.0))).clamp(l_min, 1.0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Concave,
    Convex,
    Linear,
}

/// The constants.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub k_ret: f64,
    /// Convex growth doubles.
    pub double: bool,
    /// alpha is 1 in the linear profile.
    pub linear_one: bool,
    /// What the RTT must rise by, seconds, and as a fraction of the minimum.
    pub rise: f64,
    pub rise_part: f64,
}

/// One path.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    pub profile: Profile,
    /// 0 before the first loss.
    pub w_max: f64,
    pub alpha: f64,
    /// L.
    pub factor: f64,
    /// The last RTT samples, seconds.
    samples: [f64; RTT_FILTER],
    seen: usize,
    pub rtt_rise: f64,
    pub rtt_loss: Option<f64>,
    /// The RTT was above the threshold in this round.
    rose: bool,
}

impl Default for Curve {
    fn default() -> Self {
        Curve {
            profile: Profile::Convex,
            w_max: 0.0,
            alpha: 1.0,
            factor: 1.0,
            samples: [0.0; RTT_FILTER],
            seen: 0,
            rtt_rise: 0.0,
            rtt_loss: None,
            rose: false,
        }
    }
}

impl Curve {
    /// The least of the last samples; `None` before there are enough.
    fn rtt(&self) -> Option<f64> {
        (self.seen >= RTT_FILTER).then(|| self.samples.iter().copied().fold(f64::MAX, f64::min))
    }

    fn enter(&mut self, profile: Profile) {
        if profile == Profile::Convex {
            self.alpha = 1.0;
        }
        self.profile = profile;
        self.factor = 1.0;
    }

    /// An RTT sample; `base` is the minimum RTT, both in seconds.
    pub fn on_sample(&mut self, rule: &Rule, sample: f64, base: f64) {
        self.samples[self.seen % RTT_FILTER] = sample;
        self.seen += 1;

        let threshold = base + f64::max(rule.rise, base / rule.rise_part);
        let Some(current) = self.rtt() else { return };
        if current > threshold {
            self.rose = true;
            if self.profile != Profile::Linear {
                self.enter(Profile::Linear);
                if rule.linear_one {
                    self.alpha = 1.0;
                }
                self.rtt_rise = current;
            }
        }
    }

    /// Whether the RTT has risen before anything was lost, which ends slow start.
    pub fn ends_slow_start(&self) -> bool {
        self.profile == Profile::Linear && self.w_max == 0.0
    }

    /// A round trip ended at a window of `w` packets.
    pub fn on_round(&mut self, rule: &Rule, w: f64) {
        match self.profile {
            Profile::Linear if !self.rose => self.enter(match w < self.w_max {
                true => Profile::Concave,
                false => Profile::Convex,
            }),
            Profile::Convex if rule.double => self.alpha = (2.0 * self.alpha).min(w),
            Profile::Convex => self.alpha = (self.alpha + 1.0).min(w),
            _ => (),
        }
        self.rose = false;
    }

    /// alpha L at a window of `w` packets: gained per round trip.
    pub fn growth(&mut self, rule: &Rule, w: f64) -> f64 {
        match self.profile {
            Profile::Concave if w < self.w_max => {
                self.alpha = concave_alpha(w, self.w_max, rule.k_ret);
            }
            Profile::Concave => self.enter(Profile::Convex),
            Profile::Convex => (),
            Profile::Linear => {
                self.factor = match (self.rtt(), self.rtt_loss) {
                    (Some(rtt), Some(loss)) => linear_factor(rtt, self.rtt_rise, loss, w),
                    _ => 1.0,
                };
            }
        }
        self.alpha * self.factor
    }

    /// A loss at a window of `w` packets.
    pub fn on_loss(&mut self, rule: &Rule, w: f64) {
        self.w_max = w;
        self.rtt_loss = self.rtt();
        self.seen = 0;
        self.rose = false;
        self.enter(Profile::Concave);
        self.alpha = concave_alpha(rule.k_ret * w, w, rule.k_ret);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::*;
    use super::*;

    #[test]
    fn equation_12_and_the_concave_law() {
        // w_max = 100, k_ret = 0.7: alpha_max = 70, n = (10000 - 4900)/69 = 73.913.
        close(concave_alpha(70.0, 100.0, 0.7), 70.0);
        close(concave_alpha(100.0, 100.0, 0.7), 1.0);
        // w = 85: 70 - (7225 - 4900)/73.913 = 70 - 31.456 = 38.544.
        about(concave_alpha(85.0, 100.0, 0.7), 38.544, 1e-4);
        // Beyond its ends, and for tiny windows, it stays within [1, w].
        close(concave_alpha(150.0, 100.0, 0.7), 1.0);
        close(concave_alpha(50.0, 100.0, 0.7), 50.0);
        close(concave_alpha(1.0, 1.2, 0.7), 1.0);
    }

    #[test]
    fn equations_13_to_15() {
        // w = 50: L_min = 0.02. RTT 110 to 150 ms: range 0.04, l1 = 0.04 * 0.02/0.98 = l2.
        close(linear_factor(0.110, 0.110, 0.150, 50.0), 1.0);
        close(linear_factor(0.150, 0.110, 0.150, 50.0), 0.02);
        // Half-way: l1/(l1 + 0.02) = 0.00081633/0.02081633 = 0.0392157.
        about(linear_factor(0.130, 0.110, 0.150, 50.0), 0.039_215_7, 1e-5);
        // Beyond the RTT of the loss, and where that was no higher: L_min.
        close(linear_factor(0.500, 0.110, 0.150, 50.0), 0.02);
        close(linear_factor(0.110, 0.110, 0.105, 50.0), 0.02);
    }

    const RULE: Rule = Rule {
        k_ret: 0.7,
        double: false,
        linear_one: false,
        rise: 0.002,
        rise_part: 8.0,
    };

    fn sampled(curve: &mut Curve, rtt: f64) {
        for _ in 0..RTT_FILTER {
            curve.on_sample(&RULE, rtt, 0.5);
        }
    }

    #[test]
    fn a_rise_is_more_than_an_eighth() {
        let mut curve = Curve::default();
        // 0.5 s + 0.5/8 s.
        sampled(&mut curve, 0.5625);
        assert_eq!(curve.profile, Profile::Convex);
        sampled(&mut curve, 0.563);
        assert_eq!(curve.profile, Profile::Linear);
    }

    #[test]
    fn after_linear_growth_w_max_decides() {
        for (w, profile) in [
            (99.0, Profile::Concave),
            (100.0, Profile::Convex),
            (101.0, Profile::Convex),
        ] {
            let mut curve = Curve::default();
            curve.on_loss(&RULE, 100.0);
            sampled(&mut curve, 0.6);
            curve.on_round(&RULE, w);
            assert_eq!(curve.profile, Profile::Linear);
            curve.on_round(&RULE, w);
            assert_eq!(curve.profile, profile, "{w}");
        }
    }

    #[test]
    fn convex_growth_gains_one_a_round_or_doubles() {
        for (double, after) in [(false, [2.0, 3.0, 4.0, 5.0]), (true, [2.0, 4.0, 8.0, 10.0])] {
            let mut curve = Curve::default();
            let rule = Rule { double, ..RULE };
            for alpha in after {
                curve.on_round(&rule, 10.0);
                close(curve.growth(&rule, 10.0), alpha);
            }
        }
    }
}
