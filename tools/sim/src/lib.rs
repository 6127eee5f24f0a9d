//! Network experiments in virtual time.
//!
//! Real connections of the patched quiche over the link model of `mpq-wire`: no root, no noise, and
//! the same packets from the same seed. `docs/scenarios.md` describes scenario and result files.

pub mod accept;
pub mod scenario;
