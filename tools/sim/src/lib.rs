//! Network experiments in virtual time.
//!
//! Real connections of the patched quiche over the link model of `mpq-wire`: no root, no noise, and
//! the same packets from the same seed. `docs/scenarios.md` describes scenario and result files.
//!
//! ```text
//! scenario  a file -> cases -> runs           campaign  all runs of a scenario, on all cores
//! network   links and routes                  results   files of a run and of a campaign
//! world     the event loop of one run         series    samples, windows, metrics
//! host      one end of a connection           accept    rules about metrics
//! paths     which paths a client has
//! app       what the ends send and read       viewer    a DASH client; qoe: what it saw
//! decisions what controllers show                  failure  why a flow failed
//! delays    of packets, one way
//! chaos     drawn scenarios in which everything goes wrong
//! ```

pub mod accept;
pub mod campaign;
pub mod chaos;
pub mod failure;
pub mod results;
pub mod scenario;
pub mod world;

mod app;
mod decisions;
mod delays;
mod host;
mod identity;
mod network;
mod paths;
mod qoe;
mod series;
mod viewer;
