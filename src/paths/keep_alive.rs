//! Which paths have to send something, so that the NATs on their way do not forget them.
//!
//! A path may be silent in a connection that is not: it stands by, or the scheduler has no need of
//! it. A connection that nobody uses keeps no path alive, and ends at its idle timeout.

use std::time::Duration;
use std::time::Instant;

use super::Traffic;
use crate::path_map::PathMap;
use crate::registry::PathId;

/// Looks in an interval: a path sends again by so much of it too early, at most.
const LOOKS: u32 = 5;

/// Less than this is acknowledged on a path between two looks if it is kept alive, and no more.
const KEPT_ALIVE_BYTES: u64 = 100;

/// What was known of a path when it was last looked at.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sent_packets: u64,
    /// The last packet is not older than this.
    silent_since: Instant,
}

/// What it takes to keep the paths of a connection alive.
#[derive(Debug)]
pub(super) struct KeepAlive {
    interval: Duration,
    looked_at: Option<Instant>,
    /// An answer to a look is under way.
    is_asked: bool,
    /// As of that look.
    read_bytes: u64,
    acked_bytes: u64,
    /// Data passed since the look before it.
    is_in_use: bool,
    seen: PathMap<Seen>,
    /// Found silent, and not yet told to send.
    silent: Vec<PathId>,
}

impl KeepAlive {
    /// No path is to be silent for longer than `interval`.
    pub(super) fn new(interval: Duration) -> KeepAlive {
        KeepAlive {
            interval,
            looked_at: None,
            is_asked: false,
            read_bytes: 0,
            acked_bytes: 0,
            is_in_use: false,
            seen: PathMap::default(),
            silent: Vec::new(),
        }
    }

    /// When to ask for [`Traffic`] again, and whether to wake up for it: not while nobody uses the
    /// connection.
    pub(super) fn look_at(&self) -> Option<(Instant, bool)> {
        let looked_at = self.looked_at.filter(|_| !self.is_asked)?;
        Some((looked_at + self.interval / LOOKS, self.is_in_use))
    }

    /// [`Traffic`] is asked for.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    /// There are paths besides the first, from `now` on.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.looked_at.is_none() {
            self.looked_at = Some(now);
            self.is_in_use = true;
        }
    }

    /// What the paths have carried until `now`.
    pub(super) fn on_traffic(&mut self, now: Instant, traffic: &Traffic) {
        let before = self.looked_at.replace(now).unwrap_or(now);
        // After a pause, what has sent something is sending.
        let lately = now.checked_sub(self.interval / LOOKS);
        let before = lately.map_or(before, |lately| lately.max(before));
        let acked_bytes = traffic.acked_bytes.saturating_sub(self.acked_bytes);
        self.is_asked = false;
        let by_itself = KEPT_ALIVE_BYTES * traffic.sent_packets.len() as u64;
        self.is_in_use = traffic.read_bytes != self.read_bytes || acked_bytes >= by_itself;
        self.read_bytes = traffic.read_bytes;
        self.acked_bytes = traffic.acked_bytes;

        let mut seen = PathMap::default();
        for &(path, sent_packets) in &traffic.sent_packets {
            let known = self.seen.get(path);
            let is_silent = |known: &&Seen| known.sent_packets == sent_packets;
            let silent_since = known.filter(is_silent).map_or(before, |k| k.silent_since);
            seen.insert(
                path,
                Seen {
                    sent_packets,
                    silent_since,
                },
            );
        }
        self.seen = seen;

        let is_due =
            |seen: &Seen| now.saturating_duration_since(seen.silent_since) >= self.interval;
        let due = self.seen.iter().filter(|(_, seen)| is_due(seen));
        self.silent = match self.is_in_use {
            true => due.map(|(path, _)| path).collect(),
            false => Vec::new(),
        };
    }

    /// A path that is to send something, once for each that was found.
    pub(super) fn next(&mut self) -> Option<PathId> {
        self.silent.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    /// Looks whenever it is due until `until_s`, also without a timer; what sent when, in seconds.
    fn kept(until_s: u64, traffic_at: impl Fn(u64) -> Traffic) -> Vec<(u64, PathId)> {
        let start = Instant::now();
        let mut keep_alive = KeepAlive::new(25 * S);
        assert_eq!(keep_alive.look_at(), None);
        keep_alive.begin(start);
        let mut sent = Vec::new();
        while let Some((at, _)) = keep_alive.look_at() {
            let since_s = (at - start).as_secs();
            if since_s > until_s {
                break;
            }
            keep_alive.ask();
            assert_eq!(keep_alive.look_at(), None);
            let mut traffic = traffic_at(since_s);
            for (path, sent_packets) in &mut traffic.sent_packets {
                *sent_packets += sent.iter().filter(|(_, p)| p == path).count() as u64;
            }
            keep_alive.on_traffic(at, &traffic);
            sent.extend(std::iter::from_fn(|| keep_alive.next()).map(|path| (since_s, path)));
        }
        sent
    }

    /// Path 0 sent so many packets, path 1 none of its own.
    fn traffic(read_bytes: u64, acked_bytes: u64, sent_packets: u64) -> Traffic {
        Traffic {
            read_bytes,
            acked_bytes,
            sent_packets: vec![(PathId(0), sent_packets), (PathId(1), 7)],
        }
    }

    #[test]
    fn what_is_silent_sends_within_the_interval() {
        let sent = kept(80, |s| traffic(100 * s, 0, s));
        assert_eq!(sent, [25, 50, 75].map(|s| (s, PathId(1))));
        // Of an upload.
        assert_eq!(kept(80, |s| traffic(5, 1000 * s, s)), sent);
    }

    #[test]
    fn a_connection_that_nobody_uses_keeps_none() {
        // Keep-alives are acknowledged, too.
        assert_eq!(kept(600, |s| traffic(0, 20 * s, s)), []);
        // Of as many paths as there may be, all of which an application pings now and then.
        let many = |s: u64| Traffic {
            sent_packets: (0..64).map(|path| (PathId(path), 1)).collect(),
            ..traffic(0, 64 * 40 * (s / 5), s)
        };
        assert_eq!(kept(600, many), []);
        // Used for a minute.
        let sent = kept(600, |s| traffic(s.min(60), 0, s));
        assert_eq!(sent, [25, 50].map(|s| (s, PathId(1))));
        // And once more, by what both sent: as soon as it is seen.
        let sent = kept(620, |s| traffic(s.max(600), 0, s.max(600)));
        assert_eq!(sent, [(605, PathId(1))]);
    }
}
