//! What a congestion controller derives its decisions from, by the symbols of its paper.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use mpq_driver::CcObserver;

/// Symbols with their values, in the controller's order.
type Shown = Vec<(&'static str, f64)>;

/// The latest of each path ID of a connection.
#[derive(Clone, Default)]
pub struct Decisions(Arc<Mutex<BTreeMap<u64, Shown>>>);

impl Decisions {
    /// Who is to be told what the controller of the connection decides.
    pub fn observer(&self) -> CcObserver {
        let latest = self.0.clone();
        CcObserver(Arc::new(move |decision| {
            let mut latest = latest.lock().expect("no panic while copying");
            let shown = latest.entry(decision.path_id).or_default();
            shown.clear();
            shown.extend_from_slice(decision.values);
        }))
    }

    /// What the controller showed of a path last; nothing if that ID was never opened.
    pub fn of(&self, path_id: u64) -> Shown {
        let latest = self.0.lock().expect("no panic while copying");
        latest.get(&path_id).cloned().unwrap_or_default()
    }
}
