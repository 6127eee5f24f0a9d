//! What a server remembers of the paths of one connection: it looks at them while the connection lasts, and sends the
//! client tokens.

use std::net::IpAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use quiche::Connection;

use crate::Keeper;
use crate::Memory;
use crate::Path;
use crate::Refusal;
use crate::Token;

/// How often paths are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Between tokens that say the same paths with other windows.
const TOKEN_INTERVAL: Duration = Duration::from_secs(1);

/// What did not change is told again after this at the latest, as what is told grows old.
const MOST_SILENCE: Duration = Duration::from_secs(60);

/// What is remembered of the paths of one connection of a server.
#[derive(Default)]
pub struct Returning {
    token: Option<Token>,
    paths: Vec<Known>,
    /// Windows by path ID, and how many addresses, as the client was told last.
    told: Vec<(u64, u64)>,
    told_addresses: usize,
    told_at: Option<Instant>,
    told_token: Option<Vec<u8>>,
    next_look: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Known {
    path_id: u64,
    /// The client's address, and ours. A path that gets others is another one.
    pair: (IpAddr, IpAddr),
    memory: Memory,
    since: Instant,
    /// It was in the token, and this connection has seen too little to say it itself.
    is_inherited: bool,
}

impl Returning {
    /// Of a client that came with this token, if it did.
    pub fn new(token: Option<Token>) -> Returning {
        Returning {
            token,
            ..Default::default()
        }
    }

    /// A path begins: 0 with the connection, others when quiche says that they were opened. Returns what it resumes
    /// with, or why it does not; nothing if the client has no token, or windows are not remembered.
    pub fn begin_path<S: AsRef<[AtomicU64]>>(
        &mut self,
        keeper: &Keeper<S>,
        quic: &mut Connection,
        path_id: u64,
        peer: IpAddr,
        local: IpAddr,
    ) -> Option<Result<Memory, Refusal>> {
        let token = self.token.as_ref().filter(|_| !keeper.lifetime.is_zero())?;
        let taken = keeper.take(token, peer, local);
        if let Ok(memory) = taken {
            // A path that is gone already needs no window.
            quic.resume_path(path_id, memory.window_bytes, memory.rtt)
                .ok()?;
            self.paths.push(Known {
                path_id,
                pair: (peer, local),
                memory,
                since: Instant::now(),
                is_inherited: true,
            });
        }
        Some(taken)
    }

    /// A path was validated: its address may be worth telling.
    pub fn path_validated(&mut self) {
        self.next_look = None;
    }

    /// Sends the client a token if there is something to tell, with `tells_addresses` also if that is only where it was
    /// reached. Called as often as one likes. Returns what the token that was sent says: the windows of how many paths.
    pub fn tell<S: AsRef<[AtomicU64]>>(
        &mut self,
        keeper: &Keeper<S>,
        quic: &mut Connection,
        tells_addresses: bool,
    ) -> Option<usize> {
        let now = Instant::now();
        if self.next_look.is_some_and(|at| now < at) || !quic.is_established() {
            return None;
        }
        self.next_look = Some(now + LOOK_INTERVAL);

        let paths = self.look(keeper, quic, now);
        let is_new_address = tells_addresses && paths.len() > self.told_addresses;
        if !is_new_address && !self.is_worth_telling(keeper.lifetime, &paths, now) {
            return None;
        }
        let seen: Vec<Path> = paths.iter().map(|(_, path)| *path).collect();
        let token = keeper
            .token(&seen, self.told_token.as_deref(), since_epoch())
            .filter(|token| quic.send_new_token(token).is_ok())?;
        self.told_token = Some(token);
        self.told = windows(&paths).collect();
        self.told_addresses = paths.len();
        self.told_at = Some(now);
        Some(self.told.len())
    }

    /// The validated paths with what is known of them, by path ID.
    fn look<S: AsRef<[AtomicU64]>>(
        &mut self,
        keeper: &Keeper<S>,
        quic: &Connection,
        now: Instant,
    ) -> Vec<(u64, Path)> {
        let mut paths = Vec::new();
        let before = std::mem::take(&mut self.paths);
        for stats in quic.path_stats() {
            let path_id = stats.path_id;
            let pair = (stats.peer_addr.ip(), stats.local_addr.ip());
            let known = before
                .iter()
                .find(|known| known.path_id == path_id && known.pair == pair)
                .copied();
            let is_validated = quic.is_path_validated(stats.local_addr, stats.peer_addr);
            if !stats.active || !is_validated.unwrap_or(false) {
                self.paths.extend(known);
                continue;
            }
            let observed = quic.observed_path(path_id);
            let is_inherited = known.is_some_and(|known| known.is_inherited);
            let known = if is_inherited && observed.is_none() && stats.lost > 0 {
                keeper.forget(pair.0, pair.1);
                None
            } else {
                Known::updated(known, path_id, pair, observed, stats.cwnd as u64, now)
            };
            self.paths.extend(known);

            let memory = known
                .filter(|known| !known.is_inherited || stats.sent_bytes > known.memory.window_bytes)
                .map(|known| Memory {
                    age: known.memory.age + now.saturating_duration_since(known.since),
                    ..known.memory
                });
            let (peer, local) = pair;
            paths.push((
                path_id,
                Path {
                    peer,
                    local,
                    memory,
                },
            ));
        }
        paths
    }

    fn is_worth_telling(&self, lifetime: Duration, paths: &[(u64, Path)], now: Instant) -> bool {
        if lifetime.is_zero() || windows(paths).next().is_none() {
            return false;
        }
        let Some(told_at) = self.told_at else {
            return true;
        };
        let silence = now.saturating_duration_since(told_at);
        let most_silence = MOST_SILENCE.min(lifetime / 4);
        let mut changes = windows(paths).map(|(path_id, window)| {
            match self.told.iter().find(|(told, _)| *told == path_id) {
                // A quarter more or less.
                Some((_, told)) => silence >= TOKEN_INTERVAL && 4 * window.abs_diff(*told) > *told,
                None => true,
            }
        });
        silence >= most_silence || changes.any(|is_change| is_change)
    }
}

impl Known {
    /// What is known after another look. Who sends less for a while does not know less, but who had to reduce the
    /// window does (RFC 9959, section 4.1).
    fn updated(
        before: Option<Known>,
        path_id: u64,
        pair: (IpAddr, IpAddr),
        observed: Option<(u64, Duration)>,
        cwnd_bytes: u64,
        now: Instant,
    ) -> Option<Known> {
        match (before, observed) {
            (before, Some((window_bytes, rtt))) => {
                let own = before.filter(|known| !known.is_inherited);
                let before_bytes = own.map_or(0, |known| known.memory.window_bytes.min(cwnd_bytes));
                Some(Known {
                    path_id,
                    pair,
                    memory: Memory {
                        window_bytes: window_bytes.max(before_bytes),
                        rtt,
                        age: Duration::ZERO,
                    },
                    since: now,
                    is_inherited: false,
                })
            }
            (Some(mut known), None) => {
                if !known.is_inherited {
                    known.memory.window_bytes = known.memory.window_bytes.min(cwnd_bytes);
                }
                Some(known)
            }
            (None, None) => None,
        }
    }
}

fn windows(paths: &[(u64, Path)]) -> impl Iterator<Item = (u64, u64)> + '_ {
    paths
        .iter()
        .filter_map(|(path_id, path)| Some((*path_id, path.memory?.window_bytes)))
}

/// The time that tokens count in.
pub fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn own(window_bytes: u64, now: Instant) -> Option<Known> {
        updated(None, Some((window_bytes, RTT)), u64::MAX, now)
    }

    fn updated(
        before: Option<Known>,
        observed: Option<(u64, Duration)>,
        cwnd_bytes: u64,
        now: Instant,
    ) -> Option<Known> {
        let address = IpAddr::from([192, 0, 2, 1]);
        Known::updated(before, 0, (address, address), observed, cwnd_bytes, now)
    }

    #[test]
    fn who_sends_less_for_a_while_does_not_know_less() {
        let now = Instant::now();
        let known = updated(own(400_000, now), Some((20_000, RTT)), 500_000, now);
        assert_eq!(known.unwrap().memory.window_bytes, 400_000);
        // A window that was reduced, whether or not slow start begins again.
        for observed in [Some((20_000, RTT)), None] {
            let known = updated(own(400_000, now), observed, 100_000, now);
            assert_eq!(known.unwrap().memory.window_bytes, 100_000);
        }
        let known = updated(own(400_000, now), Some((600_000, RTT)), 700_000, now);
        assert_eq!(known.unwrap().memory.window_bytes, 600_000);
    }

    #[test]
    fn what_is_inherited_counts_until_something_is_seen() {
        let now = Instant::now();
        let inherited = || {
            let mut known = own(400_000, now).unwrap();
            known.is_inherited = true;
            known.memory.age = Duration::from_secs(7);
            Some(known)
        };
        let known = updated(inherited(), None, 15_000, now).unwrap();
        assert_eq!(known.memory.window_bytes, 400_000);
        assert_eq!(known.memory.age, Duration::from_secs(7));
        let known = updated(inherited(), Some((90_000, RTT)), 500_000, now).unwrap();
        assert_eq!(known.memory.window_bytes, 90_000);
        assert_eq!(known.memory.age, Duration::ZERO);
        assert!(!known.is_inherited);
    }
}
