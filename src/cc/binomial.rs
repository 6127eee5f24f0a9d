//! Binomial congestion control (Bansal and Balakrishnan 2001), the machinery of SQRT, IIAD and
//! their coupled forms MPSQRT and MPIIAD.
//!
//! Per round trip w += alpha/w^k, so per acked packet w += alpha/w^(k+1); on a loss w -= b w^l.
//! In equilibrium alpha/w^k = p w b w^l, so with k + l = 1 the window is sqrt(alpha/(b p)), Reno's
//! law; SQRT and IIAD have alpha/b = 2, so sqrt(2/p).
//!
//! The MPMTP paper's equation 8 has the index of its equation 1, Reno's step per ACK, and so adds
//! alpha/w^k for each ACK; its text says that binomials increase more aggressively than AIMD, and its
//! table 1 has four and more times the losses. `step=ack` is that: w^(1-k) packets more in a round trip,
//! and w = alpha/(b p) in equilibrium.
//!
//! Coupled: the increase of path r is scaled by delta_r = (x_r / sum x_s)^m (m = k + l + 1 = 2, or
//! k + l = 1 with `step=ack`; see [`Share`]). The paper multiplies by a delta that it leaves undefined (equation 9); this one
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
use super::Param;
use super::Round;
use super::Settings;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The parameter of all four.
pub(super) const STEP: Param = Param::choice(
    "step",
    &["round", "ack"],
    "whether alpha/w^k is added per round trip, which gives Reno's law, or per acked packet, as printed",
);

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

    /// The same where alpha/w^k is meant for each acked packet.
    fn increase_per_ack(&self, w: f64) -> f64 {
        self.alpha / w.powf(self.k)
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
    per_ack: bool,
}

impl Binomial {
    /// Each path by itself; the settings have [`STEP`].
    pub fn uncoupled(rule: Rule, settings: &Settings) -> Self {
        Binomial {
            rule,
            coupled: false,
            per_ack: settings.word(STEP.name) == "ack",
        }
    }

    /// All paths together as one flow.
    pub fn coupled(rule: Rule, settings: &Settings) -> Self {
        Binomial {
            coupled: true,
            ..Binomial::uncoupled(rule, settings)
        }
    }

    /// The exponent m of delta: the window goes with p^(-1/m).
    fn exponent(&self) -> i32 {
        match self.per_ack {
            true => 1,
            false => 2,
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
        let w = packets(own.path);
        let step = match self.per_ack {
            true => self.rule.increase_per_ack(w),
            false => self.rule.increase(w),
        };
        ack.acked_bytes as f64 * own.flow.delta(self.exponent()) * step
    }

    fn decrease(&mut self, own: Own<Share>) -> f64 {
        match own.path.in_slow_start() {
            true => own.path.cwnd_bytes as f64 / 2.0,
            false => self.rule.decrease(packets(own.path)) * own.path.mss_bytes as f64,
        }
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, share: &Share, trace: &mut Trace) {
        if self.coupled {
            trace.push("delta", share.delta(self.exponent()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    fn round_steps() -> Settings {
        settings(&super::super::mpiiad::ENTRY, "step=round")
    }

    #[test]
    fn a_step_per_ack_is_w_times_as_large() {
        // SQRT at 16 packets: 1/sqrt(16) = 0.25 packets of 1000 bytes for an acked one, 4 in a round trip,
        // not 1/4. Coupled at half of the rate: delta = 1/2, not 1/4.
        let now = Instant::now();
        let paths = paths(&[(16, 100), (16, 100)]);
        let entry = &super::super::sqrt::ENTRY;
        let step = |controller: Binomial| {
            let mut controller = joined(controller, &paths);
            controller.on_round(now, &paths, PathId(0), &round(100));
            controller.on_round(now, &paths, PathId(1), &round(100));
            controller.on_round(now, &paths, PathId(0), &round(100));
            controller.increase(now, &paths, PathId(0), &ack(now))
        };
        let (ack, round) = (settings(entry, "step=ack"), settings(entry, ""));
        let sqrt = super::super::sqrt::SQRT;
        close(step(Binomial::uncoupled(sqrt, &ack)), 250.0);
        close(step(Binomial::uncoupled(sqrt, &round)), 250.0 / 16.0);
        close(step(Binomial::coupled(sqrt, &ack)), 125.0);
        close(step(Binomial::coupled(sqrt, &round)), 250.0 / 16.0 / 4.0);
    }

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
        let mut controller = joined(Binomial::uncoupled(rule, &round_steps()), &paths);
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
        let mut coupled = joined(Binomial::coupled(rule, &round_steps()), &paths);
        for id in [b, a] {
            coupled.on_round(now, &paths, id, &round(100));
        }
        let mut uncoupled = joined(Binomial::uncoupled(rule, &round_steps()), &paths);
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
            &joined(Binomial::coupled(rule, &round_steps()), &paths),
            &paths,
            &[("delta", 1.0)],
        );
        shows(
            &joined(Binomial::uncoupled(rule, &round_steps()), &paths),
            &paths,
            &[],
        );
    }
}
