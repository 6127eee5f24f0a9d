//! Opens paths within limits: what every manager that opens paths shares.
//!
//! Knows the addresses of both sides, the paths between them and the attempts that failed, and says
//! which pair to open next. The order is: interfaces with fewer paths first, then the one with the
//! default route, then the lower metric, then the remote address known first.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use super::Action;
use super::Event;
use super::Local;
use super::LocalAddr;
use super::Pair;
use super::Reason;
use super::RemoteSource;
use crate::path_map::PathMap;
use crate::registry::PathId;

/// The limits on opening paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Paths open at a time, the first included.
    pub max_paths: usize,
    /// Paths opened and not yet validated at a time.
    pub max_validations: usize,
    /// Time between two attempts.
    pub spacing: Duration,
    /// How long an interface must have been up. Filters flaps; going down acts at once.
    pub settle: Duration,
    /// An interface that went down more often than this within [`Limits::flap_window`] ...
    pub max_flaps: usize,
    /// ... must have been up for this long.
    pub flap_window: Duration,
    /// Pause after the first failed attempt on a pair; doubles with each further one.
    pub min_backoff: Duration,
    /// The longest such pause.
    pub max_backoff: Duration,
    /// An interface that came back for this long makes up for attempts that failed before.
    pub forgive_after: Duration,
    /// How long a lost address may take to return before its paths are abandoned.
    pub grace: Duration,
    /// Path IDs that a second attempt on a pair must leave unused: IDs are never reused, and roaming
    /// needs some.
    pub reserved_ids: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_paths: 4,
            max_validations: 2,
            spacing: Duration::from_millis(100),
            settle: Duration::from_millis(500),
            max_flaps: 4,
            flap_window: Duration::from_secs(60),
            min_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(60),
            forgive_after: Duration::from_secs(5),
            grace: Duration::from_secs(2),
            reserved_ids: 2,
        }
    }
}

/// A local address and its recent past.
#[derive(Clone, Debug)]
struct Address {
    info: LocalAddr,
    /// When it last went up or down.
    changed: Instant,
    /// It was there before the connection: nothing to wait for.
    settled: bool,
    /// When it went down, lately.
    flaps: Vec<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    pair: Pair,
    validated: bool,
    abandoning: bool,
}

/// Failed attempts on a pair, by interface and remote.
#[derive(Clone, Copy, Debug)]
struct Failures {
    if_index: u32,
    remote: SocketAddr,
    count: u32,
    last: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Opener {
    limits: Limits,
    confirmed: bool,
    unused_ids: u64,
    locals: Vec<Address>,
    /// In order of trust, then of appearance.
    remotes: Vec<(RemoteSource, SocketAddr)>,
    paths: PathMap<Open>,
    /// Asked for, and not yet answered by the driver.
    pending: Option<Pair>,
    last_attempt: Option<Instant>,
    failures: Vec<Failures>,
    next_timer: Option<Instant>,
}

impl Opener {
    pub(super) fn new(limits: Limits) -> Self {
        Opener {
            limits,
            confirmed: false,
            unused_ids: 0,
            locals: Vec::new(),
            remotes: Vec::new(),
            paths: PathMap::default(),
            pending: None,
            last_attempt: None,
            failures: Vec::new(),
            next_timer: None,
        }
    }

    pub(super) fn on_event(&mut self, now: Instant, event: &Event, actions: &mut Vec<Action>) {
        match *event {
            Event::HandshakeConfirmed { path, pair } => {
                self.confirmed = true;
                self.paths.insert(
                    path,
                    Open {
                        pair,
                        validated: true,
                        abandoning: false,
                    },
                );
                self.learn_remote(pair.remote, RemoteSource::Connection);
            }
            Event::LocalAddr(info) => self.learn_local(now, info),
            Event::RemoteAddr { addr, source } => self.learn_remote(addr, source),
            Event::PathOpened { path, pair } => {
                self.pending = None;
                self.unused_ids = self.unused_ids.saturating_sub(1);
                self.paths.insert(
                    path,
                    Open {
                        pair,
                        validated: false,
                        abandoning: false,
                    },
                );
            }
            Event::OpenFailed { pair } => {
                self.pending = None;
                self.note_failure(now, pair);
            }
            Event::PathValidated { path } => {
                if let Some(open) = self.paths.get_mut(path) {
                    open.validated = true;
                }
            }
            Event::PathFailed { path } => self.abandon(path, Reason::NotValidated, actions),
            Event::PathAbandoned { path } => {
                if let Some(open) = self.paths.remove(path) {
                    self.note_failure(now, open.pair);
                }
            }
            Event::PathIdsAvailable { unused } => self.unused_ids = unused,
            Event::PathPf { .. } | Event::PathRecovered { .. } => (),
            Event::AppPolicy { .. } | Event::Sample { .. } => (),
        }
    }

    /// Abandons paths whose address stays away and opens the next pair, if one is due.
    pub(super) fn tick(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.next_timer = None;
        self.abandon_gone(now, actions);

        let open = self
            .paths
            .iter()
            .filter(|(_, open)| !open.abandoning)
            .count();
        let validating = self
            .paths
            .iter()
            .filter(|(_, open)| !open.validated)
            .count();
        let full = open >= self.limits.max_paths || validating >= self.limits.max_validations;
        if !self.confirmed || self.pending.is_some() || self.unused_ids == 0 || full {
            return;
        }

        let Some((due, pair)) = self.next_pair(now) else {
            return;
        };
        let spaced = self
            .last_attempt
            .map_or(now, |last| last + self.limits.spacing);
        match due.max(spaced) {
            due if due <= now => {
                self.pending = Some(pair);
                self.last_attempt = Some(now);
                actions.push(Action::Open(pair));
            }
            due => self.wake_at(due),
        }
    }

    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.next_timer
    }

    /// What is known of the local address under a path.
    pub(super) fn local_of(&self, path: PathId) -> Option<&LocalAddr> {
        let pair = self.paths.get(path)?.pair;
        let address = self
            .locals
            .iter()
            .find(|address| address.info.local == pair.local);
        address.map(|address| &address.info)
    }

    /// The paths that are validated and not being abandoned.
    pub(super) fn validated(&self) -> impl Iterator<Item = PathId> + '_ {
        let ready = |open: &Open| open.validated && !open.abandoning;
        self.paths
            .iter()
            .filter(move |(_, open)| ready(open))
            .map(|(id, _)| id)
    }

    fn learn_local(&mut self, now: Instant, info: LocalAddr) {
        let known = self
            .locals
            .iter_mut()
            .find(|address| address.info.local == info.local);
        let Some(address) = known else {
            let settled = !self.confirmed;
            self.locals.push(Address {
                info,
                changed: now,
                settled,
                flaps: Vec::new(),
            });
            return;
        };
        if address.info.up != info.up {
            address.changed = now;
            address.settled = false;
            if !info.up {
                let window = self.limits.flap_window;
                address
                    .flaps
                    .retain(|at| now.saturating_duration_since(*at) < window);
                address.flaps.push(now);
            }
        }
        address.info = info;
    }

    fn learn_remote(&mut self, addr: SocketAddr, source: RemoteSource) {
        if !self.remotes.iter().any(|(_, known)| *known == addr) {
            self.remotes.push((source, addr));
            self.remotes.sort_by_key(|(source, _)| *source);
        }
    }

    fn note_failure(&mut self, now: Instant, pair: Pair) {
        let (if_index, remote) = (pair.local.if_index, pair.remote);
        let same =
            |failures: &&mut Failures| failures.if_index == if_index && failures.remote == remote;
        match self.failures.iter_mut().find(same) {
            Some(failures) => {
                failures.count = failures.count.saturating_add(1);
                failures.last = now;
            }
            None => self.failures.push(Failures {
                if_index,
                remote,
                count: 1,
                last: now,
            }),
        }
    }

    fn abandon(&mut self, path: PathId, reason: Reason, actions: &mut Vec<Action>) {
        if let Some(open) = self.paths.get_mut(path).filter(|open| !open.abandoning) {
            open.abandoning = true;
            actions.push(Action::Abandon { path, reason });
        }
    }

    fn abandon_gone(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for at in 0..self.locals.len() {
            let Address { info, changed, .. } = self.locals[at];
            let deadline = changed + self.limits.grace;
            if info.up {
                continue;
            }
            let on_it: Vec<PathId> = self.paths_on(info.local).collect();
            for path in on_it {
                match deadline <= now {
                    true => self.abandon(path, Reason::AddressGone, actions),
                    false => self.wake_at(deadline),
                }
            }
        }
    }

    fn paths_on(&self, local: Local) -> impl Iterator<Item = PathId> + '_ {
        let open = self.paths.iter().filter(|(_, open)| !open.abandoning);
        open.filter(move |(_, open)| open.pair.local == local)
            .map(|(id, _)| id)
    }

    fn wake_at(&mut self, at: Instant) {
        self.next_timer = Some(self.next_timer.map_or(at, |timer| timer.min(at)));
    }

    /// The pair to open next and when: the best of those that are due, else the one due first.
    fn next_pair(&self, now: Instant) -> Option<(Instant, Pair)> {
        let mut best = None;
        for address in self.locals.iter().filter(|address| address.info.up) {
            for (rank, (_, remote)) in self.remotes.iter().enumerate() {
                let pair = Pair {
                    local: address.info.local,
                    remote: *remote,
                };
                let Some(due) = self.due(address, pair) else {
                    continue;
                };
                let info = &address.info;
                let preference = (
                    self.paths_over(pair),
                    !info.default_route,
                    info.metric,
                    rank,
                    info.local,
                );
                let key = (due.max(now), preference);
                if best.as_ref().is_none_or(|(least, _)| key < *least) {
                    best = Some((key, pair));
                }
            }
        }
        best.map(|((due, _), pair)| (due, pair))
    }

    /// Paths over the pair's interface.
    fn paths_over(&self, pair: Pair) -> usize {
        let same = |open: &Open| open.pair.local.if_index == pair.local.if_index;
        self.paths.iter().filter(|(_, open)| same(open)).count()
    }

    /// When the pair may be opened, or `None` if it shall not be.
    fn due(&self, address: &Address, pair: Pair) -> Option<Instant> {
        let limits = &self.limits;
        let is_open = self.paths.iter().any(|(_, open)| open.pair == pair);
        if is_open || pair.local.ip.is_ipv4() != pair.remote.is_ipv4() {
            return None;
        }
        if self.second_family(pair) {
            return None;
        }

        let settle = match (address.settled, address.flaps.len() > limits.max_flaps) {
            (true, _) => Duration::ZERO,
            (false, false) => limits.settle,
            (false, true) => limits.flap_window,
        };
        let settled_at = address.changed + settle;

        let same = |failures: &&Failures| {
            failures.if_index == pair.local.if_index && failures.remote == pair.remote
        };
        let Some(failures) = self.failures.iter().find(same) else {
            return Some(settled_at);
        };
        if self.unused_ids <= limits.reserved_ids {
            return None;
        }
        let retry_at = failures.last + self.backoff(failures.count);
        let forgiven_at = match failures.last < address.changed {
            true => address.changed + limits.forgive_after,
            false => retry_at,
        };
        Some(settled_at.max(retry_at.min(forgiven_at)))
    }

    /// Both families over one interface are one access link: the second family is used only where
    /// there is no other interface to use instead.
    fn second_family(&self, pair: Pair) -> bool {
        let up = |address: &&Address| address.info.up;
        let other_interface =
            |address: &Address| address.info.local.if_index != pair.local.if_index;
        let other_family = |open: &Open| {
            open.pair.local.if_index == pair.local.if_index
                && open.pair.remote.is_ipv4() != pair.remote.is_ipv4()
        };
        self.locals.iter().filter(up).any(other_interface)
            && self.paths.iter().any(|(_, open)| other_family(open))
    }

    /// 1, 2, 4 ... 60 s.
    fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(16);
        (self.limits.min_backoff * (1 << doublings)).min(self.limits.max_backoff)
    }
}
