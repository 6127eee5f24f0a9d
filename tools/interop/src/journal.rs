//! What happened on one side, in order, for waiting and for failure messages.

use std::fmt;
use std::sync::Condvar;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

/// What both implementations report, in the words of RFC 10069.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A path was validated.
    Available { path_id: u64 },
    /// A path was abandoned. The code is not known if noq did it by itself.
    Abandoned {
        path_id: u64,
        error_code: Option<u64>,
        by_peer: bool,
    },
    /// The peer's status of a path.
    PeerStatus { path_id: u64, backup: bool },
    /// The connection is closed.
    Closed(Closed),
    /// Something else, in the implementation's own words.
    Note(String),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub by_peer: bool,
    /// Whether `error_code` is the application's; else it is the transport's.
    pub by_application: bool,
    pub error_code: u64,
    pub reason: String,
}

/// The events of one side.
pub struct Journal {
    started: Instant,
    entries: Mutex<Vec<(Duration, Event)>>,
    changed: Condvar,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal {
            started: Instant::now(),
            entries: Mutex::default(),
            changed: Condvar::new(),
        }
    }
}

impl Journal {
    pub(crate) fn add(&self, event: Event) {
        let at = self.started.elapsed();
        self.entries.lock().unwrap().push((at, event));
        self.changed.notify_all();
    }

    /// How many events there are so far that `wanted` accepts.
    pub fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        let entries = self.entries.lock().unwrap();
        entries.iter().filter(|(_, e)| wanted(e)).count()
    }

    /// Waits for the first event, past or future, that `wanted` accepts. A
    /// connection that closes instead is an error.
    pub fn wait(
        &self,
        deadline: Instant,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Event, String> {
        let mut entries = self.entries.lock().unwrap();
        loop {
            if let Some((_, event)) = entries.iter().find(|(_, e)| wanted(e)) {
                return Ok(event.clone());
            }
            if let Some((_, Event::Closed(closed))) = entries.last() {
                return Err(format!("the connection closed: {closed:?}"));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("it did not happen in time".into());
            }
            entries = self.changed.wait_timeout(entries, left).unwrap().0;
        }
    }
}

impl fmt::Display for Journal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (at, event) in self.entries.lock().unwrap().iter() {
            writeln!(f, "  {:8.3} s {event:?}", at.as_secs_f64())?;
        }
        Ok(())
    }
}
