//! Which local addresses a client wants paths from, and when to act on it.
//!
//! A path is opened from every address. An address that goes away may be back
//! in a moment (roaming), so its path is abandoned only after a grace period.
//! Path IDs are never used twice, so failures are retried ever more slowly.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use crate::multipath::PathChange;
use crate::netwatch::LocalAddress;

/// Pause before a path that could not even be opened is tried again. Mostly
/// the handshake is not confirmed yet, or the peer's connection IDs are on
/// their way, and no path ID is lost by trying.
const OPEN_RETRY: Duration = Duration::from_millis(10);

/// Pause before a path that was abandoned is replaced, at the price of a path
/// ID.
const REPLACE_DELAY: Duration = Duration::from_millis(250);

/// Both pauses double with every failure in a row, up to this.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// How long the path of an address that is gone is kept.
const GONE_GRACE: Duration = Duration::from_secs(2);

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open a path from here.
    Open(LocalAddress),

    /// Abandon this path.
    Abandon(u64),
}

/// The wishes of one connection.
#[derive(Default)]
pub(crate) struct WantedPaths {
    entries: Vec<Entry>,
}

struct Entry {
    address: LocalAddress,
    path: Option<OpenPath>,
    /// Not opened before this.
    retry_at: Instant,
    failures: u32,
    gone_since: Option<Instant>,
}

struct OpenPath {
    local: SocketAddr,
    path_id: u64,
}

impl WantedPaths {
    /// The wishes of a connection that begins on path 0 from `local`, at
    /// `first`, and wants `others` too.
    pub fn new(
        first: LocalAddress,
        local: SocketAddr,
        others: Vec<LocalAddress>,
        now: Instant,
    ) -> WantedPaths {
        let mut wanted = WantedPaths::default();
        wanted.add(first, now);
        for address in others {
            wanted.add(address, now);
        }
        wanted.entries[0].path = Some(OpenPath { local, path_id: 0 });
        wanted
    }

    /// `address` can be used, possibly again.
    pub fn add(&mut self, address: LocalAddress, now: Instant) {
        match self.entries.iter_mut().find(|e| e.address == address) {
            Some(entry) => entry.gone_since = None,
            None => self.entries.push(Entry {
                address,
                path: None,
                retry_at: now,
                failures: 0,
                gone_since: None,
            }),
        }
    }

    /// `address` cannot be used any more. Returns the local address of the
    /// path that has just lost its link.
    pub fn remove(&mut self, address: &LocalAddress, now: Instant) -> Option<SocketAddr> {
        let i = self.entries.iter().position(|e| e.address == *address)?;
        let entry = &mut self.entries[i];
        match &entry.path {
            Some(path) => {
                entry.gone_since.get_or_insert(now);
                Some(path.local)
            }
            None => {
                self.entries.swap_remove(i);
                None
            }
        }
    }

    /// When [`WantedPaths::next_action`] next has something to say.
    pub fn deadline(&self) -> Option<Instant> {
        self.entries.iter().filter_map(Entry::deadline).min()
    }

    /// The next thing that is due. An [`Action::Open`] has to be answered with
    /// [`WantedPaths::opened`] or [`WantedPaths::failed`].
    pub fn next_action(&mut self, now: Instant) -> Option<Action> {
        let i = self
            .entries
            .iter()
            .position(|e| e.deadline().is_some_and(|at| at <= now))?;
        Some(match &self.entries[i].path {
            Some(path) => {
                let path_id = path.path_id;
                self.entries.swap_remove(i);
                Action::Abandon(path_id)
            }
            None => Action::Open(self.entries[i].address.clone()),
        })
    }

    /// The path from `address` exists now.
    pub fn opened(&mut self, address: &LocalAddress, local: SocketAddr, path_id: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.address == *address) {
            entry.path = Some(OpenPath { local, path_id });
        }
    }

    /// The path from `address` could not be opened.
    pub fn failed(&mut self, address: &LocalAddress, now: Instant) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.address == *address) {
            entry.retry_later(OPEN_RETRY, now);
        }
    }

    /// Takes note of what became of a path.
    pub fn on_change(&mut self, change: &PathChange, now: Instant) {
        let entry = self.entries.iter_mut().find(|e| {
            e.path.as_ref().is_some_and(|path| match change {
                PathChange::Opened { path_id, .. }
                | PathChange::Available { path_id, .. }
                | PathChange::Abandoned { path_id, .. } => path.path_id == *path_id,
                PathChange::Failed { local, .. } => path.local == *local,
            })
        });
        let Some(entry) = entry else {
            return;
        };

        match change {
            PathChange::Opened { .. } => {}
            PathChange::Available { .. } => entry.failures = 0,
            // The connection abandons a path that fails to validate.
            PathChange::Failed { .. } => {}
            PathChange::Abandoned { .. } => {
                entry.path = None;
                entry.retry_later(REPLACE_DELAY, now);
            }
        }
        // Nothing to wait for any more.
        self.entries
            .retain(|e| e.path.is_some() || e.gone_since.is_none());
    }
}

impl Entry {
    fn deadline(&self) -> Option<Instant> {
        match (&self.path, self.gone_since) {
            (Some(_), Some(gone)) => Some(gone + GONE_GRACE),
            (Some(_), None) => None,
            (None, _) => Some(self.retry_at),
        }
    }

    fn retry_later(&mut self, pause: Duration, now: Instant) {
        let pause = pause * (1 << self.failures.min(13));
        self.retry_at = now + pause.min(RETRY_MAX);
        self.failures += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> LocalAddress {
        LocalAddress {
            ip: [192, 0, 2, last].into(),
            device: None,
        }
    }

    fn socket(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 1000).into()
    }

    fn abandoned(path_id: u64) -> PathChange {
        PathChange::Abandoned {
            path_id,
            error_code: 0,
            by_peer: true,
        }
    }

    /// Paths 0 and 1 from the first two of three addresses.
    fn two_paths(now: Instant) -> WantedPaths {
        let mut wanted = WantedPaths::new(address(1), socket(1), vec![address(2), address(1)], now);
        assert_eq!(wanted.next_action(now), Some(Action::Open(address(2))));
        wanted.opened(&address(2), socket(2), 1);
        assert_eq!(wanted.next_action(now), None);
        assert_eq!(wanted.deadline(), None);
        wanted
    }

    #[test]
    fn a_failure_is_retried_ever_more_slowly() {
        let mut now = Instant::now();
        let mut wanted = two_paths(now);
        wanted.add(address(3), now);

        for pause_ms in [
            10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 60_000, 60_000,
        ] {
            assert_eq!(wanted.next_action(now), Some(Action::Open(address(3))));
            wanted.failed(&address(3), now);
            let pause = Duration::from_millis(pause_ms);
            assert_eq!(wanted.deadline(), Some(now + pause));
            now += pause - Duration::from_millis(1);
            assert_eq!(wanted.next_action(now), None);
            now += Duration::from_millis(1);
        }
    }

    #[test]
    fn an_abandoned_path_is_opened_again() {
        let now = Instant::now();
        let mut wanted = two_paths(now);
        // Path 0 is no exception.
        wanted.on_change(&abandoned(0), now);
        wanted.on_change(&abandoned(7), now);
        assert_eq!(wanted.next_action(now), None);

        let later = now + REPLACE_DELAY;
        assert_eq!(wanted.next_action(later), Some(Action::Open(address(1))));
        wanted.opened(&address(1), socket(1), 2);
        // It works, so the next failure is a first one again.
        wanted.on_change(
            &PathChange::Available {
                path_id: 2,
                local: socket(1),
                peer: socket(9),
            },
            later,
        );
        wanted.on_change(&abandoned(2), later);
        assert_eq!(wanted.deadline(), Some(later + REPLACE_DELAY));
    }

    #[test]
    fn an_address_that_returns_in_time_keeps_its_path() {
        let now = Instant::now();
        let mut wanted = two_paths(now);
        assert_eq!(wanted.remove(&address(2), now), Some(socket(2)));
        assert_eq!(wanted.deadline(), Some(now + GONE_GRACE));
        wanted.add(address(2), now + GONE_GRACE / 2);
        assert_eq!(wanted.deadline(), None);
    }

    #[test]
    fn an_address_that_stays_away_loses_its_path() {
        let now = Instant::now();
        let mut wanted = two_paths(now);
        wanted.remove(&address(2), now);
        let later = now + GONE_GRACE;
        assert_eq!(wanted.next_action(later), Some(Action::Abandon(1)));
        assert_eq!(wanted.next_action(later), None);

        // Back after that, it is a new address.
        wanted.add(address(2), later);
        assert_eq!(wanted.next_action(later), Some(Action::Open(address(2))));

        // Gone before it was opened, there is nothing to do.
        assert_eq!(wanted.remove(&address(2), later), None);
        assert_eq!(wanted.next_action(later), None);
    }

    #[test]
    fn a_path_that_dies_with_its_address_is_not_opened_again() {
        let now = Instant::now();
        let mut wanted = two_paths(now);
        wanted.remove(&address(2), now);
        wanted.on_change(&abandoned(1), now);
        assert_eq!(wanted.deadline(), None);
    }
}
