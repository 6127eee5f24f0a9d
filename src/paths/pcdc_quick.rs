//! PCDC in seconds, for video: T of one second, begun when what changed has taken effect, all paths
//! measured once; a path has to take a tenth of the throughput to be left out, as so short measurements
//! are no better than that. Who keeps the factors for the next connection from the same addresses
//! ([`Manager::recall`](super::Manager::recall)) measures nothing then.

use super::pcdc::params;
use super::pcdc::Pcdc;
use super::Entry;
use crate::params::Param;

/// The policy's name and maker.
pub const ENTRY: Entry = Entry {
    name: "pcdc-quick",
    summary: "pcdc for video: left out for a second each; with --session not again for a day from the same addresses",
    params: PARAMS,
    new: |settings| Box::new(Pcdc::new(settings)),
};

const PARAMS: &[Param] = &params([1.0, 0.5, 1.0, -0.1, 0.0], &["once", "each"]);
