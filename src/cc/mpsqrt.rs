//! MPSQRT: SQRT coupled over the paths (Le et al. 2010-11; equation 9 of the MPMTP paper).
//!
//! See [`Binomial`] for the equations and for the choice of delta.

use super::binomial::Binomial;
use super::binomial::STEP;
use super::boxed;
use super::re_entry;
use super::sqrt::SQRT;
use super::start;
use super::Entry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "mpsqrt",
    coupled: true,
    summary: "SQRT coupled over the paths",
    idea: "SQRT whose growth on each path is scaled so that all paths together are one SQRT flow.",
    source: "Le et al.; equation 9 of the MPMTP paper; delta is ours",
    formula: "ack: w_r += delta_r/w_r^1.5, delta_r = (x_r/sum x_s)^2, x = w/rtt smoothed; loss: w_r = w_r - sqrt(w_r)/2",
    use_when: "a media stream over paths that may share a bottleneck should see no sudden change of rate",
    avoid_when: "capacity changes fast: it gives way slowly",
    deviations: &[
        "a loss in slow start, or before two round trips after it lost nothing or had no queue, halves the window",
        "delta_r, which the paper leaves undefined, is (x_r/sum x)^2: all paths together are \
         one flow; the decrease is SQRT's",
        "the increase is per round trip, as that of SQRT",
    ],
    params: &[STEP, re_entry::PARAM, start::PARAM, start::MIN_WINDOW, start::SSTHRESH],
    new: |settings| boxed(Binomial::coupled(SQRT, settings)),
};

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn two_equal_paths_have_half_the_window_each() {
        // delta = 1/4: gain per packet 1/(4 w^1.5) = loss p sqrt(w)/2, so w = sqrt(2/p)/2.
        // p = 0.005: one flow has 20 packets, each path 10.
        let (w, p) = (10.0, 0.005);
        close(0.25 * SQRT.increase(w), p * (w - SQRT.decrease(w)));
    }
}
