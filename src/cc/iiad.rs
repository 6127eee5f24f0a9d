//! IIAD on each path by itself: binomial with k = 1, l = 0 (Bansal and Balakrishnan 2001).
//!
//! Inverse increase, additive decrease: the larger the window, the slower the growth, and a loss
//! costs one packet. The MPMTP paper's condition that the decrease be below 1 is loose: b is 1 here.
//! See [`Binomial`] for the equations.

use super::binomial::Binomial;
use super::binomial::Rule;
use super::binomial::STEP;
use super::boxed;
use super::Entry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "iiad",
    coupled: false,
    summary: "IIAD (binomial) on each path by itself: one packet less per loss",
    idea: "The window grows inversely to itself, and a loss costs one packet: the smoothest rate.",
    source: "Bansal and Balakrishnan, INFOCOM 2001; equation 8 of the MPMTP paper",
    formula: "ack: w += 2/w^2; loss: w = w - 1",
    use_when: "a media stream on a steady path should see no sudden change of rate",
    avoid_when:
        "capacity changes at all: after a drop it loses a packet per round trip until it fits",
    deviations: &[
        "a loss in slow start, or before two round trips after it lost nothing or had no queue, halves the window",
        "b is 1, though the MPMTP paper wants a decrease below 1",
        "the increase is per round trip, as that of SQRT",
    ],
    params: &[STEP],
    new: |settings| boxed(Binomial::uncoupled(IIAD, settings)),
};

/// k = 1, l = 0, alpha = 2, b = 1.
pub(super) const IIAD: Rule = Rule {
    k: 1.0,
    l: 0.0,
    alpha: 2.0,
    b: 1.0,
};

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn inverse_increase_additive_decrease() {
        // w = 10: 2/100 packets per acked packet, 0.2 per round trip; one packet less per loss.
        close(IIAD.increase(10.0), 0.02);
        close(IIAD.decrease(10.0), 9.0);
    }

    #[test]
    fn the_equilibrium_is_sqrt_of_two_over_p() {
        // p = 0.02: w = 10. Gain per packet 2/100 = 0.02; loss per packet 0.02 * 1.
        close(IIAD.increase(10.0), 0.02 * (10.0 - IIAD.decrease(10.0)));
    }
}
