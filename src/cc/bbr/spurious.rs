//! What losses did to the model is taken back if nothing was lost, only late (the draft's
//! SaveStateUponLoss, HandleSpuriousLossDetection). A probe that losses ended is not gone on with, as
//! the draft has it: the next one comes soon enough, and a group's are in turn.

use super::Engine;
use super::Phase;
use crate::cc::units::Bounded;

/// What a congestion event found.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    phase: Phase,
    bw_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
    window: f64,
}

impl Engine {
    /// SaveStateUponLoss, as a congestion event begins.
    pub fn save_upon_loss(&mut self) {
        self.before = Some(Before {
            phase: self.phase,
            bw_lo: self.bounds.bw_lo,
            inflight_lo: self.bounds.inflight_lo,
            inflight_hi: self.bounds.inflight_hi,
            window: self.rival.window,
        });
    }

    /// HandleSpuriousLossDetection: all that the last congestion event was about has arrived.
    pub fn on_spurious(&mut self) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.bounds.forget_losses();
        self.bounds.bw_lo = self.bounds.bw_lo.at_least(before.bw_lo);
        self.bounds.inflight_lo = self.bounds.inflight_lo.at_least(before.inflight_lo);
        self.bounds.inflight_hi = self.bounds.inflight_hi.at_least(before.inflight_hi);
        self.rival.window = self.rival.window.at_least(before.window);
        match self.phase {
            Phase::ProbeRtt => {}
            _ if before.phase == Phase::Startup => self.enter_startup(),
            _ => self.full.reset(0.0),
        }
    }
}
