//! Binomial congestion control (Bansal and Balakrishnan 2001), the machinery of SQRT, IIAD and
//! their coupled forms MPSQRT and MPIIAD.
//!
//! Per round trip w += alpha/w^k, so per acked packet w += alpha/w^(k+1); on a loss w -= b w^l.
//! In equilibrium alpha/w^k = p w b w^l, so with k + l = 1 the window is sqrt(alpha/(b p)), Reno's
//! law; SQRT and IIAD have alpha/b = 2, so sqrt(2/p). The MPMTP paper writes Reno's increase per
//! ACK (alpha/w) and the binomial one with w^k in the same equation (8); only the reading per round
//! trip gives that law.
//!
//! Coupled: the increase of path r is scaled by delta_r = (x_r / sum x_s)^2 (m = k + l + 1 = 2, see
//! [`Share`]). The paper multiplies by a delta that it leaves undefined (equation 9); this one
//! makes all paths together take what one flow would. The decrease is unchanged.
//!
//! These steps are for congestion avoidance. A loss in slow start halves the window (RFC 9002,
//! section 7.3.2): it has doubled within the last round trip, and what fits is a packet per loss, or a
//! root, away by hundreds of losses.

use super::shares::Share;
use super::units::packets;
use super::Ack;
use super::Change;
use super::Controller;
use super::Own;
use super::Round;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The exponent m of delta: k + l + 1.
const M: i32 = 2;

/// The constants of one algorithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub k: f64,
    pub l: f64,
    pub alpha: f64,
    pub b: f64,
}

impl Rule {
    /// alpha / w^(k+1) packets for each acked packet.
    pub fn increase(&self, w: f64) -> f64 {
        self.alpha / w.powf(self.k + 1.0)
    }

    /// w - b w^l.
    pub fn decrease(&self, w: f64) -> f64 {
        w - self.b * w.powf(self.l)
    }
}

/// The controller.
#[derive(Debug)]
pub(super) struct Binomial {
    rule: Rule,
    coupled: bool,
}

impl Binomial {
    /// Each path by itself.
    pub fn uncoupled(rule: Rule) -> Self {
        Binomial {
            rule,
            coupled: false,
        }
    }

    /// All paths together as one flow.
    pub fn coupled(rule: Rule) -> Self {
        Binomial {
            rule,
            coupled: true,
        }
    }
}

impl Controller for Binomial {
    /// Stays 1 when each path is by itself.
    type Flow = Share;

    fn on_round(&mut self, own: Own<Share>, _round: &Round) -> Option<Change> {
        if self.coupled {
            *own.flow = Share::after_round(&own, |share| share);
        }
        None
    }

    fn increase(&mut self, own: Own<Share>, ack: &Ack) -> f64 {
        ack.acked_bytes as f64 * own.flow.delta(M) * self.rule.increase(packets(own.path))
    }

    fn decrease(&mut self, own: Own<Share>) -> f64 {
        match own.path.in_slow_start() {
            true => own.path.cwnd_bytes as f64 / 2.0,
            false => self.rule.decrease(packets(own.path)) * own.path.mss_bytes as f64,
        }
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, share: &Share, trace: &mut Trace) {
        if self.coupled {
            trace.push("delta", share.delta(M));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    #[test]
    fn a_loss_in_slow_start_halves_the_window() {
        // k = 1, l = 0, b = 1: 64 packets become 32 in slow start, 63 after it.
        let rule = Rule {
            k: 1.0,
            l: 0.0,
            alpha: 2.0,
            b: 1.0,
        };
        let (now, id) = (Instant::now(), PathId(0));
        let mut paths = paths(&[(64, 100)]);
        let mut controller = joined(Binomial::uncoupled(rule), &paths);
        close(controller.decrease(now, &paths, id), 63_000.0);
        paths.get_mut(id).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        close(controller.decrease(now, &paths, id), 32_000.0);
    }

    #[test]
    fn the_coupled_form_scales_the_increase_only() {
        // Rates 16/0.1 and 48/0.1: share 1/4, delta 1/16. k = 1, alpha = 2: 2/16^2 = 1/128 packets
        // = 7.8125 bytes uncoupled, a sixteenth of it coupled.
        let rule = Rule {
            k: 1.0,
            l: 0.0,
            alpha: 2.0,
            b: 1.0,
        };
        let now = Instant::now();
        let paths = paths(&[(16, 100), (48, 100)]);
        let (a, b) = (PathId(0), PathId(1));
        let mut coupled = joined(Binomial::coupled(rule), &paths);
        for id in [b, a] {
            coupled.on_round(now, &paths, id, &round(100));
        }
        let mut uncoupled = joined(Binomial::uncoupled(rule), &paths);
        close(uncoupled.increase(now, &paths, a, &ack(now)), 7.8125);
        close(coupled.increase(now, &paths, a, &ack(now)), 7.8125 / 16.0);
        close(uncoupled.decrease(now, &paths, a), 15_000.0);
        close(coupled.decrease(now, &paths, a), 15_000.0);
    }

    #[test]
    fn what_is_shown() {
        let rule = Rule {
            k: 1.0,
            l: 0.0,
            alpha: 2.0,
            b: 1.0,
        };
        let paths = paths(&[(16, 100)]);
        shows(
            &joined(Binomial::coupled(rule), &paths),
            &paths,
            &[("delta", 1.0)],
        );
        shows(&joined(Binomial::uncoupled(rule), &paths), &paths, &[]);
    }
}
