//! EWTCP with the weight as the MPMTP paper prints it, a = 1/sqrt(N); `ewtcp` says what follows of it.

use super::boxed;
use super::ewtcp::Ewtcp;
use super::ewtcp::UNCOUNTED;
use super::re_entry;
use super::start;
use super::Entry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "ewtcp-printed",
    coupled: true,
    summary: "EWTCP with the weight as printed, 1/sqrt(N): takes N^(3/4) shares",
    idea: "EWTCP with the weight that the MPMTP paper prints, to compare with its figures.",
    source: "equation 2 of the MPMTP paper",
    formula: "ack: w_r += a/w_r, a = 1/sqrt(N); loss: w_r = w_r/2",
    use_when: "a published figure is to be redrawn",
    avoid_when: "otherwise: two paths take 1.68 shares of a common bottleneck",
    deviations: &[
        "none on purpose: the printed weight is not fair, ewtcp has the corrected one",
        UNCOUNTED,
    ],
    params: &[
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |_| boxed(Ewtcp(|paths| 1.0 / paths.sqrt())),
};

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_printed_weight_is_one_over_the_root_of_n() {
        // N = 4: 1/2.
        close(step(&ENTRY, &[(20, 50)]), 50.0);
        close(step(&ENTRY, &[(20, 50), (9, 10), (9, 10), (9, 10)]), 25.0);
    }
}
