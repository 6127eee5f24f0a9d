//! SIGINT and SIGTERM as a counter that wakes the event loop.

use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// How often the process was asked to stop.
#[derive(Clone)]
pub struct StopRequests(Arc<AtomicUsize>);

impl StopRequests {
    /// Catches the signals from now on and calls `wake` after each.
    pub fn watch(wake: impl Fn() -> io::Result<()> + Send + 'static) -> io::Result<StopRequests> {
        let count = Arc::new(AtomicUsize::new(0));
        let mut signals = Signals::new([SIGINT, SIGTERM])?;

        let seen = count.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for _ in signals.forever() {
                    seen.fetch_add(1, Ordering::SeqCst);
                    // The loop may just be ending.
                    let _ = wake();
                }
            })?;
        Ok(StopRequests(count))
    }

    /// Signals so far.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
