//! SQRT on each path by itself: binomial with k = l = 1/2 (Bansal and Balakrishnan 2001).
//!
//! Growth and decrease go with the square root of the window, so the rate changes gently. See
//! [`Binomial`] for the equations.

use super::binomial::Binomial;
use super::binomial::Rule;
use super::binomial::STEP;
use super::boxed;
use super::Entry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "sqrt",
    coupled: false,
    summary: "SQRT (binomial) on each path by itself: smaller steps than Reno",
    idea: "Steps in both directions go with the square root of the window: gentler than Reno, as fair.",
    source: "Bansal and Balakrishnan, INFOCOM 2001; equation 8 of the MPMTP paper",
    formula: "ack: w += 1/w^1.5; loss: w = w - sqrt(w)/2",
    use_when: "a media stream should see no sudden change of rate",
    avoid_when: "capacity changes fast, or queues are short: it gives way slowly",
    deviations: &[
        "a loss in slow start, or before two round trips after it lost nothing or had no queue, halves the window",
        "the increase is per round trip; as printed by the MPMTP paper, per ACK (step=ack), the \
         window does not follow sqrt(2/p)",
    ],
    params: &[STEP],
    new: |settings| boxed(Binomial::uncoupled(SQRT, settings)),
};

/// k = l = 1/2, alpha = 1, b = 1/2.
pub(super) const SQRT: Rule = Rule {
    k: 0.5,
    l: 0.5,
    alpha: 1.0,
    b: 0.5,
};

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn steps_go_with_the_square_root() {
        // w = 16: 1/16^1.5 = 1/64 packets per acked packet; 16 - 4/2 = 14 after a loss.
        close(SQRT.increase(16.0), 1.0 / 64.0);
        close(SQRT.decrease(16.0), 14.0);
        // A round trip of 16 packets adds 16/64 = 1/sqrt(16).
        close(16.0 * SQRT.increase(16.0), 0.25);
    }

    #[test]
    fn the_equilibrium_is_sqrt_of_two_over_p() {
        // p = 0.02: w = sqrt(2/0.02) = 10. Gain per packet (1 - p is taken as 1): 1/10^1.5;
        // loss per packet: 0.02 * sqrt(10)/2 = 0.01 * 10^0.5 = 10^-1.5. Equal.
        let (w, p) = (10.0, 0.02);
        close(SQRT.increase(w), p * (w - SQRT.decrease(w)));
    }
}
