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
//! root, away by hundreds of losses. So does one after it, until [`CLEAN_ROUNDS`] round trips running
//! lost nothing, or showed no queue: slow start may have ended by delay with a window that was too large
//! already, and a packet less in each round trip of losses would starve others for half a minute.

use super::re_entry;
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

/// So many round trips without a loss, or without a queue that losses could come from, say that what slow
/// start left fits: the first one ends before losses of the packets that it began with can be known.
const CLEAN_ROUNDS: u8 = 2;

/// What is kept of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    /// Stays 1 when each path is by itself.
    pub share: Share,
    /// Such round trips running since slow start, up to [`CLEAN_ROUNDS`], where it stays.
    clean_rounds: u8,
}

impl Flow {
    /// After a round trip of the path.
    fn note_round(&mut self, path: &PathState, round: &Round) {
        let queue = path
            .rtt
            .is_none_or(|rtt| round.min_rtt >= re_entry::bound(rtt.min));
        self.clean_rounds = match self.clean_rounds {
            CLEAN_ROUNDS => CLEAN_ROUNDS,
            _ if path.in_slow_start() || path.in_recovery && queue => 0,
            rounds => rounds + 1,
        };
    }

    fn fits(&self) -> bool {
        self.clean_rounds == CLEAN_ROUNDS
    }
}

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
    type Flow = Flow;

    fn on_round(&mut self, own: Own<Flow>, round: &Round) -> Option<Change> {
        own.flow.note_round(own.path, round);
        if self.coupled {
            own.flow.share = Share::after_round(&own, |flow| &flow.share);
        }
        None
    }

    fn increase(&mut self, own: Own<Flow>, ack: &Ack) -> f64 {
        let w = packets(own.path);
        let step = match self.per_ack {
            true => self.rule.increase_per_ack(w),
            false => self.rule.increase(w),
        };
        ack.acked_bytes as f64 * own.flow.share.delta(self.exponent()) * step
    }

    fn decrease(&mut self, own: Own<Flow>) -> f64 {
        match own.flow.fits() && !own.path.in_slow_start() {
            false => own.path.cwnd_bytes as f64 / 2.0,
            true => self.rule.decrease(packets(own.path)) * own.path.mss_bytes as f64,
        }
    }

    fn trace(&self, _paths: &Registry, _path: &PathState, flow: &Flow, trace: &mut Trace) {
        if self.coupled {
            trace.push("delta", flow.share.delta(self.exponent()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::registry::SSTHRESH_UNSET;

    fn clean_rounds(controller: &mut Flows<Binomial>, paths: &Registry, id: PathId) {
        for _ in 0..CLEAN_ROUNDS {
            controller.on_round(Instant::now(), paths, id, &round(100));
        }
    }

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
        clean_rounds(&mut controller, &paths, id);
        close(controller.decrease(now, &paths, id), 63_000.0);
        paths.get_mut(id).unwrap().ssthresh_bytes = SSTHRESH_UNSET;
        close(controller.decrease(now, &paths, id), 32_000.0);
    }

    #[test]
    fn so_does_one_after_it_until_two_round_trips_are_clean() {
        let (now, id) = (Instant::now(), PathId(0));
        let mut paths = paths(&[(64, 100)]);
        let iiad = super::super::iiad::IIAD;
        let mut controller = joined(Binomial::uncoupled(iiad, &round_steps()), &paths);
        let mut another = joined(Binomial::uncoupled(iiad, &round_steps()), &paths);
        // Of a path of 100 ms, at least.
        let mut after = |controller: &mut Flows<Binomial>, in_recovery, rtt_ms| {
            paths.get_mut(id).unwrap().in_recovery = in_recovery;
            controller.on_round(now, &paths, id, &round(rtt_ms));
            controller.decrease(now, &paths, id)
        };
        // One clean round trip, then one of losses with a queue: both count anew.
        close(after(&mut controller, false, 150), 32_000.0);
        close(after(&mut controller, true, 150), 32_000.0);
        close(after(&mut controller, false, 150), 32_000.0);
        close(after(&mut controller, false, 150), 63_000.0);
        // From then on a loss is one, however many there are.
        close(after(&mut controller, true, 150), 63_000.0);

        // Nor do losses on an empty path say that the window is too large.
        close(after(&mut another, true, 100), 32_000.0);
        close(after(&mut another, true, 100), 63_000.0);
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
        for id in [b, a, a] {
            coupled.on_round(now, &paths, id, &round(100));
        }
        let mut uncoupled = joined(Binomial::uncoupled(rule, &round_steps()), &paths);
        clean_rounds(&mut uncoupled, &paths, a);
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
