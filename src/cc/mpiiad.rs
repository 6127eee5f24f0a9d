//! MPIIAD: IIAD coupled over the paths (Le et al. 2010-11; equation 9 of the MPMTP paper).
//!
//! See [`Binomial`] for the equations and for the choice of delta.

use super::binomial::Binomial;
use super::binomial::STEP;
use super::boxed;
use super::iiad::IIAD;
use super::re_entry;
use super::start;
use super::Entry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "mpiiad",
    coupled: true,
    summary: "IIAD coupled over the paths",
    idea: "IIAD whose growth on each path is scaled so that all paths together are one IIAD flow.",
    source: "Le et al.; equation 9 of the MPMTP paper; delta is ours",
    formula: "ack: w_r += 2 delta_r/w_r^2, delta_r = (x_r/sum x_s)^2, x = w/rtt smoothed; loss: w_r = w_r - 1",
    use_when: "a media stream over steady paths that may share a bottleneck",
    avoid_when: "capacity changes at all",
    deviations: &[
        "a loss in slow start, or before two round trips after it lost nothing or had no queue, halves the window",
        "delta_r, which the paper leaves undefined, is (x_r/sum x)^2: all paths together are \
         one flow; the decrease is IIAD's",
        "the increase is per round trip, as that of IIAD",
    ],
    params: &[STEP, re_entry::PARAM, start::PARAM, start::MIN_WINDOW, start::SSTHRESH],
    new: |settings| boxed(Binomial::coupled(IIAD, settings)),
};

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn two_equal_paths_have_half_the_window_each() {
        // delta = 1/4: gain per packet 2/(4 w^2) = loss p, so w = sqrt(1/(2p)) = sqrt(2/p)/2.
        // p = 0.005: one flow has 20 packets, each path 10.
        let (w, p) = (10.0, 0.005);
        close(0.25 * IIAD.increase(w), p * (w - IIAD.decrease(w)));
    }
}
