//! The rules that all policies share: which pairs of addresses are possible, when to try them, and
//! when to give a path up.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use super::handshake;
use super::keep_alive::KeepAlive;
use super::Action;
use super::Attempts;
use super::Candidate;
use super::Choice;
use super::Event;
use super::Local;
use super::LocalAddr;
use super::Metered;
use super::OpenError;
use super::Pair;
use super::Policy;
use super::Reason;
use super::RemoteSource;
use super::Rules;
use super::Unused;
use super::Why;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::Status;

/// Pause before what could not even be opened is tried again, doubled each time: mostly the
/// handshake is not confirmed, or Connection IDs are under way. No path ID is lost by trying.
const OPEN_RETRY: Duration = Duration::from_millis(10);

/// The longest such pause.
const OPEN_RETRY_MAX: Duration = Duration::from_secs(1);

/// Pause before a path that was abandoned is replaced, doubled each time: path IDs are never used
/// again.
const REPLACE_AFTER: Duration = Duration::from_millis(250);

/// The longest such pause.
const REPLACE_AFTER_MAX: Duration = Duration::from_secs(60);

/// A path that worked for so long has its end counted as the first one.
const FORGIVEN_AFTER: Duration = Duration::from_secs(5);

/// How long the path of an address that is gone is kept: it may come back (roaming).
const GONE_GRACE: Duration = Duration::from_secs(2);

/// Pause before a path is abandoned again that the connection could not do without.
const ABANDON_RETRY: Duration = Duration::from_secs(1);

/// An address that went more often than this within [`FLAP_WINDOW`] has to stay for a second before
/// it is used, then two, four, up to the window.
const FREE_FLAPS: usize = 3;

/// See [`FREE_FLAPS`].
const FLAP_WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are gone and still remembered.
const MAX_REMEMBERED: usize = 64;

/// Addresses of the peer that are known; the peer itself may name as many as it likes.
const MAX_REMOTES: usize = 32;

/// How much a local address is preferred: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    named: u32,
    standby: bool,
    beside_default_route: bool,
    metric: u32,
    if_index: u32,
}

/// Paths over addresses of one group count together: those of an interface, or those that one word
/// of the user stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Interface(u32),
    Named(u32),
}

#[derive(Clone, Debug)]
struct Address {
    info: LocalAddr,
    /// When it came or went.
    changed: Instant,
    /// When it went, lately.
    flaps: Vec<Instant>,
    /// The application does not want it.
    left: bool,
}

impl Address {
    fn is_up(&self) -> bool {
        self.info.up && !self.left
    }

    fn group(&self) -> Group {
        match self.info.named {
            Some(n) => Group::Named(n),
            None => Group::Interface(self.info.local.if_index),
        }
    }

    /// When it has been there for long enough.
    fn settled_at(&self) -> Instant {
        let excess = self.flaps.len().saturating_sub(FREE_FLAPS);
        match excess {
            0 => self.changed,
            n => self.changed + Duration::from_secs(1 << (n - 1).min(6)).min(FLAP_WINDOW),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Open {
    pair: Pair,
    validated_at: Option<Instant>,
    doubted: bool,
    suspended: bool,
    abandoning: bool,
    /// Not abandoned before this, as that was refused.
    stays_until: Option<Instant>,
    status: Status,
}

#[derive(Clone, Debug)]
enum Cause {
    NotOpened(OpenError),
    NoAnswer,
    ByPeer(u64),
}

/// Attempts on a pair that came to nothing, in a row.
#[derive(Clone, Debug)]
struct Failures {
    pair: Pair,
    /// Paths that were opened and are gone.
    lost: u32,
    /// Paths that could not be opened, since the last that was.
    not_opened: u32,
    retry_at: Instant,
    cause: Cause,
}

/// What is known.
#[derive(Debug)]
struct State {
    rules: Rules,
    confirmed: bool,
    single: bool,
    locals: Vec<Address>,
    /// In order of trust, then of appearance.
    remotes: Vec<(RemoteSource, SocketAddr)>,
    routes: Vec<(SocketAddr, Option<u32>)>,
    first: Option<Pair>,
    paths: PathMap<Open>,
    /// Asked for, and not yet answered by the driver.
    pending: Option<Pair>,
    failures: Vec<Failures>,
}

/// What a policy sees.
#[derive(Clone, Copy, Debug)]
pub struct View<'a>(&'a State);

impl View<'_> {
    /// The most preferred path that is validated, not in doubt, and whose address is there.
    pub fn best_working(&self) -> Option<PathId> {
        let working = self.0.paths.iter().filter(|(_, open)| self.0.works(open));
        working
            .min_by_key(|(id, open)| (self.0.rank_of(&open.pair), *id))
            .map(|(id, _)| id)
    }

    /// Whether a path over `pair` would be preferred to `path`.
    pub fn is_better(&self, pair: &Pair, path: PathId) -> bool {
        let open = self.0.paths.get(path);
        open.is_some_and(|open| self.0.rank_of(pair) < self.0.rank_of(&open.pair))
    }

    /// Whether `path` is preferred to `other`.
    pub fn is_better_path(&self, path: PathId, other: PathId) -> bool {
        let open = self.0.paths.get(path);
        open.is_some_and(|open| self.is_better(&open.pair, other))
    }

    /// Whether the path was validated.
    pub fn is_validated(&self, path: PathId) -> bool {
        let open = self.0.paths.get(path);
        open.is_some_and(|open| open.validated_at.is_some())
    }

    /// The open paths, but for those that are being abandoned, by their IDs.
    pub fn paths(&self) -> impl Iterator<Item = PathId> + '_ {
        let staying = self.0.paths.iter().filter(|(_, open)| !open.abandoning);
        staying.map(|(path, _)| path)
    }

    /// Where the path runs.
    pub fn pair(&self, path: PathId) -> Option<Pair> {
        self.0.paths.get(path).map(|open| open.pair)
    }

    /// Whether the path is validated, not in doubt, and its address there.
    pub fn works(&self, path: PathId) -> bool {
        self.0
            .paths
            .get(path)
            .is_some_and(|open| self.0.works(open))
    }

    /// Whether the path is validated and its address there, whether or not it is in doubt.
    pub fn is_usable(&self, path: PathId) -> bool {
        let open = self.0.paths.get(path);
        open.is_some_and(|open| open.validated_at.is_some() && self.0.is_up(&open.pair))
    }

    /// Whether the path stands by whatever the policy, because of its interface.
    pub fn stands_by(&self, path: PathId) -> bool {
        let address = self.pair(path).and_then(|pair| self.0.address(&pair.local));
        address.is_some_and(|address| self.0.is_standby(&address.info))
    }

    /// Where the connection began.
    pub fn first_pair(&self) -> Option<Pair> {
        self.0.first
    }
}

impl State {
    fn address(&self, local: &Local) -> Option<&Address> {
        self.locals.iter().find(|a| a.info.local == *local)
    }

    fn is_up(&self, pair: &Pair) -> bool {
        self.address(&pair.local).is_some_and(Address::is_up)
    }

    fn works(&self, open: &Open) -> bool {
        open.validated_at.is_some() && !open.doubted && !open.abandoning && self.is_up(&open.pair)
    }

    /// Whether its paths stand by.
    fn is_standby(&self, info: &LocalAddr) -> bool {
        info.standby || (info.metered && self.rules.metered == Metered::Backup)
    }

    fn rank(&self, info: &LocalAddr) -> Rank {
        let is_default = self
            .routes
            .iter()
            .any(|(_, if_index)| *if_index == Some(info.local.if_index));
        Rank {
            named: info.named.unwrap_or(u32::MAX),
            standby: self.is_standby(info),
            beside_default_route: !is_default,
            metric: info.metric.unwrap_or(u32::MAX),
            if_index: info.local.if_index,
        }
    }

    fn rank_of(&self, pair: &Pair) -> Option<Rank> {
        self.address(&pair.local).map(|a| self.rank(&a.info))
    }

    /// Open paths that count: not those on their way out.
    fn open(&self) -> impl Iterator<Item = &Open> + '_ {
        let open = self.paths.iter().map(|(_, open)| open);
        open.filter(|open| !open.abandoning && self.is_up(&open.pair))
    }

    fn group_of(&self, pair: &Pair) -> Option<Group> {
        self.address(&pair.local).map(Address::group)
    }

    fn paths_in(&self, group: Group) -> usize {
        self.open()
            .filter(|open| self.group_of(&open.pair) == Some(group))
            .count()
    }

    /// The tunnel that the kernel sends through, unless ways around it are allowed.
    fn tunnel(&self) -> Option<&LocalAddr> {
        if self.rules.around_tunnel {
            return None;
        }
        let holds_route = |info: &&LocalAddr| {
            let index = Some(info.local.if_index);
            self.routes.iter().any(|(_, if_index)| *if_index == index)
        };
        let mut infos = self.locals.iter().map(|a| &a.info);
        infos.find(|info| info.tunnel && holds_route(info))
    }

    /// Why the address is not used at all, if so.
    fn refusal(&self, address: &Address) -> Option<Why> {
        let info = &address.info;
        if !address.is_up() {
            return Some(Why::Down);
        }
        if info.named.is_none() {
            match self.tunnel() {
                Some(tunnel) if tunnel.local.if_index != info.local.if_index => {
                    let name = tunnel.interface.clone();
                    return Some(Why::Tunnel { name });
                }
                None if info.tunnel && !self.rules.around_tunnel => return Some(Why::OverAnother),
                _ => {}
            }
            let is_free = |a: &Address| a.is_up() && !a.info.metered;
            if info.metered
                && self.rules.metered == Metered::Never
                && self.locals.iter().any(is_free)
            {
                return Some(Why::Metered);
            }
        }
        None
    }

    fn learn(&mut self, now: Instant, info: LocalAddr) {
        let known = self.locals.iter_mut().find(|a| a.info.local == info.local);
        let Some(address) = known else {
            self.locals.push(Address {
                info,
                changed: now,
                flaps: Vec::new(),
                left: false,
            });
            return;
        };
        let was_up = address.is_up();
        address.left = false;
        address.info = info;
        if address.is_up() == was_up {
            return;
        }
        address.changed = now;
        match was_up {
            true => note_flap(address, now),
            false => {
                let local = address.info.local;
                self.failures.retain(|f| f.pair.local != local);
                for (_, open) in self.paths.iter_mut() {
                    if open.pair.local == local {
                        open.suspended = false;
                    }
                }
            }
        }
    }

    fn leave(&mut self, now: Instant, local: Local) {
        if let Some(address) = self.locals.iter_mut().find(|a| a.info.local == local) {
            address.left = true;
            address.changed = now;
        }
    }

    fn lose(&mut self, now: Instant, local: Local) {
        if let Some(address) = self.locals.iter_mut().find(|a| a.info.local == local) {
            if address.is_up() {
                address.changed = now;
                note_flap(address, now);
            }
            address.info.up = false;
        }
        self.forget_old(now);
    }

    /// Forgets addresses that are gone for long, and have no paths.
    fn forget_old(&mut self, now: Instant) {
        let paths = &self.paths;
        let mut excess = self.locals.len().saturating_sub(MAX_REMEMBERED);
        self.locals.retain(|a| {
            let in_use = paths
                .iter()
                .any(|(_, open)| open.pair.local == a.info.local);
            let is_old = now.saturating_duration_since(a.changed) > FLAP_WINDOW;
            if a.is_up() || in_use || !(is_old || excess > 0) {
                return true;
            }
            excess = excess.saturating_sub(1);
            false
        });
        let locals = &self.locals;
        self.failures
            .retain(|f| locals.iter().any(|a| a.info.local == f.pair.local));
    }

    fn learn_remote(&mut self, addr: SocketAddr, source: RemoteSource) {
        match self.remotes.iter_mut().find(|(_, known)| *known == addr) {
            Some((known, _)) => *known = source.min(*known),
            None => self.remotes.push((source, addr)),
        }
        self.remotes.sort_by_key(|(source, _)| *source);
        self.remotes.truncate(MAX_REMOTES);
    }

    fn fail(&mut self, now: Instant, pair: Pair, cause: Cause) {
        let at = self.failures.iter().position(|f| f.pair == pair);
        let at = at.unwrap_or_else(|| {
            self.failures.push(Failures {
                pair,
                lost: 0,
                not_opened: 0,
                retry_at: now,
                cause: cause.clone(),
            });
            self.failures.len() - 1
        });
        let failures = &mut self.failures[at];
        let (count, first, most) = match cause {
            Cause::NotOpened(_) => (&mut failures.not_opened, OPEN_RETRY, OPEN_RETRY_MAX),
            _ => (&mut failures.lost, REPLACE_AFTER, REPLACE_AFTER_MAX),
        };
        failures.retry_at = now + (first * (1 << (*count).min(13))).min(most);
        *count = count.saturating_add(1);
        failures.cause = cause;
    }

    /// What kept paths from being opened is over.
    fn retry_opening(&mut self, now: Instant) {
        self.failures.retain_mut(|f| {
            if f.not_opened > 0 {
                f.not_opened = 0;
                f.retry_at = now;
            }
            f.lost > 0
        });
    }

    /// When `pair` may be opened, or why it shall not be; `None` if there is a path already.
    fn due(
        &self,
        policy: &dyn Policy,
        address: &Address,
        pair: &Pair,
    ) -> Option<Result<Instant, Why>> {
        if self.paths_in(address.group()) >= policy.per_interface(&self.rules) {
            return None;
        }
        if let Some(why) = self.refusal(address) {
            return Some(Err(why));
        }
        if !policy.repeats_pairs() && self.open().any(|open| open.pair == *pair) {
            return None;
        }
        if let Err(why) = policy.wants(&View(self), pair) {
            return Some(Err(Why::Policy(why)));
        }
        let settled_at = address.settled_at();
        let failures = self.failures.iter().find(|f| f.pair == *pair);
        Some(Ok(match failures {
            Some(failures) => failures.retry_at.max(settled_at),
            None => settled_at,
        }))
    }

    /// All pairs with their address, whether or not they may be opened.
    fn pairs(&self) -> impl Iterator<Item = (&Address, usize, Pair)> + '_ {
        self.locals.iter().flat_map(move |address| {
            let local = address.info.local;
            let remotes = self.remotes.iter().enumerate();
            let pairs = remotes.map(move |(at, (_, remote))| {
                let pair = Pair {
                    local,
                    remote: *remote,
                };
                (address, at, pair)
            });
            pairs.filter(|(.., pair)| pair.is_possible())
        })
    }

    /// The pair to open next and when: the best of those that are due, else the one due first.
    fn next_pair(&self, policy: &dyn Policy, now: Instant) -> Option<(Instant, Pair)> {
        let candidates = self.pairs().filter_map(|(address, at, pair)| {
            let due = self.due(policy, address, &pair)?.ok()?.max(now);
            let group = self.paths_in(address.group());
            Some((due, (group, self.rank(&address.info), at), pair))
        });
        candidates
            .min_by_key(|(due, preference, _)| (*due, *preference))
            .map(|(due, _, pair)| (due, pair))
    }
}

fn note_flap(address: &mut Address, now: Instant) {
    address
        .flaps
        .retain(|at| now.saturating_duration_since(*at) < FLAP_WINDOW);
    address.flaps.push(now);
}

/// Decides which paths one connection has.
///
/// Sans I/O: events and the time go in, actions come out, and the same events give the same actions.
#[derive(Debug)]
pub struct Manager {
    policy: Box<dyn Policy>,
    state: State,
    /// Something happened since [`Manager::next_action`] had nothing to say.
    is_dirty: bool,
    /// An [`Action::Sample`] is not answered yet.
    is_sampling: bool,
    keep_alive: Option<KeepAlive>,
    timer: Option<Instant>,
}

impl Manager {
    /// A manager that knows no address yet.
    pub fn new(choice: &Choice) -> Manager {
        let rules = choice.rules();
        Manager {
            policy: choice.policy(),
            keep_alive: rules.keep_alive.map(KeepAlive::new),
            state: State {
                rules,
                confirmed: false,
                single: false,
                locals: Vec::new(),
                remotes: Vec::new(),
                routes: Vec::new(),
                first: None,
                paths: PathMap::default(),
                pending: None,
                failures: Vec::new(),
            },
            is_dirty: false,
            is_sampling: false,
            timer: None,
        }
    }

    /// Something happened. [`Manager::next_action`] has to be asked until it has nothing more.
    pub fn on_event(&mut self, now: Instant, event: Event) {
        self.is_dirty = true;
        let state = &mut self.state;
        match event {
            Event::LocalAddr(info) => state.learn(now, info),
            Event::LocalGone(local) => state.lose(now, local),
            Event::Leave(local) => state.leave(now, local),
            Event::RemoteAddr { addr, source } => state.learn_remote(addr, source),
            Event::Route { remote, if_index } => {
                state.routes.retain(|(known, _)| *known != remote);
                state.routes.push((remote, if_index));
            }
            Event::Began { pair } => {
                if state.address(&pair.local).is_none() {
                    state.learn(now, LocalAddr::new(pair.local, ""));
                }
                state.learn_remote(pair.remote, RemoteSource::Connection);
                state.first = Some(pair);
                let first = open(pair, Some(now));
                state.paths.insert(PathId(0), first);
            }
            Event::Confirmed => state.confirmed = true,
            Event::SinglePath => state.single = true,
            Event::PathIdsAvailable => state.retry_opening(now),
            Event::Opened { path, pair } => {
                state.pending = None;
                state.retry_opening(now);
                state.paths.insert(path, open(pair, None));
                if let Some(keep_alive) = &mut self.keep_alive {
                    keep_alive.begin(now);
                }
            }
            Event::OpenFailed { pair, error } => {
                state.pending = None;
                state.fail(now, pair, Cause::NotOpened(error));
            }
            Event::Validated { path } => {
                if let Some(open) = state.paths.get_mut(path) {
                    open.validated_at.get_or_insert(now);
                }
            }
            Event::Doubt { path, doubted } => {
                if let Some(open) = state.paths.get_mut(path) {
                    open.doubted = doubted;
                }
            }
            Event::AbandonRefused { path } => {
                if let Some(open) = state.paths.get_mut(path) {
                    open.abandoning = false;
                    open.stays_until = Some(now + ABANDON_RETRY);
                }
            }
            Event::Sample(sample) => {
                self.is_sampling = false;
                self.policy.on_sample(now, &View(state), sample);
            }
            Event::Traffic(traffic) => {
                if let Some(keep_alive) = &mut self.keep_alive {
                    keep_alive.on_traffic(now, &traffic);
                }
            }
            Event::Abandoned {
                path,
                by_peer,
                error_code,
            } => {
                let Some(open) = state.paths.remove(path) else {
                    return;
                };
                let worked = |at| now.saturating_duration_since(at) >= FORGIVEN_AFTER;
                if open.validated_at.is_some_and(worked) {
                    state.failures.retain(|f| f.pair != open.pair);
                }
                if !open.abandoning {
                    let cause = match by_peer {
                        true => Cause::ByPeer(error_code),
                        false => Cause::NoAnswer,
                    };
                    state.fail(now, open.pair, cause);
                }
            }
        }
    }

    /// When [`Manager::next_action`] has to be asked at the latest.
    pub fn next_timer(&self) -> Option<Instant> {
        self.timer
    }

    /// The next thing to do; asked again after each, until there is nothing.
    pub fn next_action(&mut self, now: Instant) -> Option<Action> {
        let look_at = self.keep_alive.as_ref().and_then(KeepAlive::look_at);
        let look_at = look_at.map(|(at, _)| at);
        if !self.is_dirty
            && [self.timer, look_at]
                .into_iter()
                .flatten()
                .all(|at| at > now)
        {
            return None;
        }
        self.is_dirty = true;
        self.timer = None;
        self.policy.look(now, &View(&self.state));
        if let Some(at) = self.policy.look_at() {
            self.wake_at(at);
        }
        let action = self
            .suspend()
            .or_else(|| self.abandon(now))
            .or_else(|| self.set_status())
            .or_else(|| self.keep_alive(now))
            .or_else(|| self.open(now))
            .or_else(|| self.sample(now));
        self.is_dirty = action.is_some();
        action
    }

    /// The pairs to try for the handshake, in their order: see [`handshake`].
    ///
    /// `remotes` are in the resolver's order. What the rules exclude comes back only if nothing else
    /// is there.
    pub fn handshake_pairs(&self, remotes: &[SocketAddr]) -> Vec<Pair> {
        let state = &self.state;
        let up = state.locals.iter().filter(|a| a.is_up());
        let ranked = up.clone().filter(|a| state.refusal(a).is_none());
        let ranked: Vec<_> = ranked
            .map(|a| (state.rank(&a.info), a.info.local))
            .collect();
        let order = handshake::order(&ranked, remotes);
        if !order.is_empty() {
            return order;
        }
        let all: Vec<_> = up.map(|a| (state.rank(&a.info), a.info.local)).collect();
        handshake::order(&all, remotes)
    }

    /// Attempts at the handshake over `pairs`, which [`Manager::handshake_pairs`] gave or the driver
    /// found; `link_delay` is for links that the policy uses side by side.
    pub fn attempts(&self, pairs: &[Pair], link_delay: Duration) -> Attempts {
        let state = &self.state;
        let mut seen: Vec<Group> = Vec::new();
        let candidates = pairs.iter().map(|&pair| {
            let address = state.address(&pair.local);
            let is_new = address.is_some_and(|a| !seen.contains(&a.group()));
            seen.extend(address.map(Address::group));
            let is_in_use = address.is_some_and(|a| !state.is_standby(&a.info));
            let races = is_new && is_in_use && self.policy.races();
            Candidate { pair, races }
        });
        Attempts::new(candidates.collect(), link_delay)
    }

    /// An earlier connection found the impact factor `omega` between these addresses.
    pub fn recall(&mut self, local: IpAddr, remote: SocketAddr, omega: f64) {
        self.policy.recall(local, remote, omega);
        self.is_dirty = true;
    }

    /// The impact factors of the open paths, as far as they are known.
    pub fn impacts(&self) -> Vec<(PathId, Pair, f64)> {
        let view = View(&self.state);
        let impact = |path| Some((path, view.pair(path)?, self.policy.impact(&view, path)?));
        view.paths().filter_map(impact).collect()
    }

    /// The interface of a local address, if it is known.
    pub fn interface(&self, local: &Local) -> Option<&str> {
        let address = self.state.address(local)?;
        Some(&address.info.interface)
            .filter(|name| !name.is_empty())
            .map(String::as_str)
    }

    /// Why there is no path from each interface that has none. Empty if all have.
    pub fn unused(&self, now: Instant) -> Vec<Unused> {
        let state = &self.state;
        if state.single {
            return vec![Unused {
                interface: None,
                why: Why::SinglePath,
            }];
        }

        let mut unused: Vec<Unused> = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        for address in &state.locals {
            let group = address.group();
            if groups.contains(&group) {
                continue;
            }
            groups.push(group);
            let mut open = state.open().filter(|open| open.validated_at.is_some());
            if open.any(|open| state.group_of(&open.pair) == Some(group)) {
                continue;
            }
            let members = state.locals.iter().filter(|a| a.group() == group);
            let whys = members.map(|a| self.why_unused(now, a));
            // What comes soonest, or else speaks least against it.
            if let Some(why) = whys.min_by_key(severity) {
                unused.push(Unused {
                    interface: Some(address.info.interface.clone()),
                    why,
                });
            }
        }
        if groups.len() < 2 && state.open().count() < 2 {
            unused.push(Unused {
                interface: None,
                why: Why::NoOtherInterface,
            });
        }
        unused
    }

    /// How many addresses, paths and pairs that failed are remembered.
    #[cfg(test)]
    pub(super) fn state_size(&self) -> (usize, usize, usize) {
        let state = &self.state;
        (state.locals.len(), state.paths.len(), state.failures.len())
    }

    fn why_unused(&self, now: Instant, address: &Address) -> Why {
        let state = &self.state;
        // One that is being validated, and may have failed to be before.
        if let Some(open) = state
            .open()
            .find(|open| open.pair.local == address.info.local)
        {
            let failures = state.failures.iter().find(|f| f.pair == open.pair);
            return failures.map_or(Why::UnderWay, |failures| {
                self.why_failed(address, failures, Duration::ZERO)
            });
        }
        let mut best = None;
        let pairs = state
            .pairs()
            .filter(|(a, ..)| a.info.local == address.info.local);
        for (_, _, pair) in pairs {
            let why = match state.due(&*self.policy, address, &pair) {
                None => continue,
                Some(Err(why)) => why,
                Some(Ok(due)) => {
                    let failures = state.failures.iter().find(|f| f.pair == pair);
                    let next = due.saturating_duration_since(now);
                    match failures {
                        Some(failures) => self.why_failed(address, failures, next),
                        None if state.open().count() >= state.rules.max_paths => {
                            Why::MaxPaths(state.rules.max_paths)
                        }
                        None if next > Duration::ZERO => Why::Flapping(next),
                        None => Why::UnderWay,
                    }
                }
            };
            best = match best {
                Some(other) if severity(&other) <= severity(&why) => Some(other),
                _ => Some(why),
            };
        }
        best.unwrap_or_else(|| {
            let is_ipv4 = address.info.local.ip.is_ipv4();
            match state.refusal(address) {
                Some(why) => why,
                None => Why::Family { is_ipv4 },
            }
        })
    }

    fn why_failed(&self, address: &Address, failures: &Failures, next: Duration) -> Why {
        match &failures.cause {
            Cause::NotOpened(OpenError::NotYet) => Why::UnderWay,
            Cause::NotOpened(OpenError::NoPathIds) => Why::NoPathIds,
            Cause::NotOpened(OpenError::Refused) => Why::Refused,
            Cause::NotOpened(OpenError::Socket(error)) => Why::Socket(error.clone()),
            Cause::NoAnswer => Why::NoAnswer {
                failures: failures.lost,
                next,
                strict_rp_filter: address.info.strict_rp_filter,
                has_route: address.info.metric.is_some(),
            },
            Cause::ByPeer(error_code) => Why::AbandonedByPeer {
                error_code: *error_code,
                next,
            },
        }
    }

    fn wake_at(&mut self, at: Instant) {
        self.timer = Some(self.timer.map_or(at, |timer| timer.min(at)));
    }

    /// What is in flight on paths whose address is gone goes to others.
    fn suspend(&mut self) -> Option<Action> {
        let state = &self.state;
        let gone = |open: &Open| {
            let address = state.address(&open.pair.local);
            !open.suspended && !open.abandoning && address.is_some_and(|a| !a.info.up)
        };
        let (path, _) = state.paths.iter().find(|(_, open)| gone(open))?;
        self.state.paths.get_mut(path)?.suspended = true;
        Some(Action::Suspend(path))
    }

    /// Gives up paths whose address stays away, and those that are not wanted any more, as long as
    /// another one works.
    fn abandon(&mut self, now: Instant) -> Option<Action> {
        let mut found = None;
        let mut next = None;
        let state = &self.state;
        // Of a tunnel that came later: what went beside it is to go through it now.
        let goes_around =
            |address: &Address| matches!(state.refusal(address), Some(Why::Tunnel { .. }));
        let tunnel_works = state.paths.iter().any(|(_, open)| {
            let address = state.address(&open.pair.local);
            state.works(open) && address.is_some_and(|a| !goes_around(a))
        });
        for (path, open) in state.paths.iter().filter(|(_, open)| !open.abandoning) {
            let mut others = state.paths.iter().filter(|(other, _)| *other != path);
            if !others.any(|(_, other)| {
                other.validated_at.is_some() && !other.abandoning && state.is_up(&other.pair)
            }) {
                continue;
            }
            let Some(address) = state.address(&open.pair.local) else {
                continue;
            };
            let (due, reason) = match (address.left, address.info.up) {
                (true, _) => (now, Reason::NotWanted),
                (_, false) => (address.changed + GONE_GRACE, Reason::AddressGone),
                _ if goes_around(address) && tunnel_works => (now, Reason::NotWanted),
                _ if !self.policy.keeps(&View(state), path) => (now, Reason::NotWanted),
                _ => continue,
            };
            let due = open.stays_until.map_or(due, |at| due.max(at));
            if due <= now {
                found = Some((path, reason));
                break;
            }
            next = next.into_iter().chain([due]).min();
        }
        if let Some(at) = next {
            self.wake_at(at);
        }
        let (path, reason) = found?;
        self.state.paths.get_mut(path)?.abandoning = true;
        Some(Action::Abandon { path, reason })
    }

    fn set_status(&mut self) -> Option<Action> {
        let state = &self.state;
        let view = View(state);
        let is_carrier = |path: PathId, open: &Open| {
            let address = state.address(&open.pair.local);
            self.policy.carries(&view, path) && !address.is_some_and(|a| state.is_standby(&a.info))
        };
        let staying = || state.paths.iter().filter(|(_, open)| !open.abandoning);
        let validated = || staying().filter(|(_, open)| open.validated_at.is_some());
        // If none is to carry data, all do.
        let has_carrier = validated().any(|(path, open)| is_carrier(path, open));
        // Also before it is validated, so that the peer knows before it sends there.
        let (path, status) = staying().find_map(|(path, open)| {
            let status = match is_carrier(path, open) || !has_carrier {
                true => Status::Available,
                false => Status::Backup,
            };
            (open.status != status).then_some((path, status))
        })?;
        let open = self.state.paths.get_mut(path)?;
        open.status = status;
        Some(Action::SetStatus { path, status })
    }

    fn keep_alive(&mut self, now: Instant) -> Option<Action> {
        let keep_alive = self.keep_alive.as_mut()?;
        let state = &self.state;
        let is_kept = |path: &PathId| {
            let open = state.paths.get(*path);
            open.is_some_and(|open| !open.abandoning && state.is_up(&open.pair))
        };
        if let Some(path) = std::iter::from_fn(|| keep_alive.next()).find(is_kept) {
            return Some(Action::KeepAlive(path));
        }
        let (at, is_timer) = keep_alive.look_at()?;
        if at <= now {
            keep_alive.ask();
            return Some(Action::Traffic);
        }
        if is_timer {
            self.wake_at(at);
        }
        None
    }

    fn open(&mut self, now: Instant) -> Option<Action> {
        let state = &self.state;
        let is_full = state.open().count() >= state.rules.max_paths;
        if !state.confirmed || state.single || state.pending.is_some() || is_full {
            return None;
        }
        let (due, pair) = state.next_pair(&*self.policy, now)?;
        if due > now {
            self.wake_at(due);
            return None;
        }
        self.state.pending = Some(pair);
        Some(Action::Open(pair))
    }

    fn sample(&mut self, now: Instant) -> Option<Action> {
        let due = self.policy.sample_at().filter(|_| !self.is_sampling)?;
        if due > now {
            self.wake_at(due);
            return None;
        }
        self.is_sampling = true;
        Some(Action::Sample)
    }
}

fn open(pair: Pair, validated_at: Option<Instant>) -> Open {
    Open {
        pair,
        validated_at,
        doubted: false,
        suspended: false,
        abandoning: false,
        stays_until: None,
        status: Status::Available,
    }
}

/// The order of reasons of one interface, what is nearest to a path first.
fn severity(why: &Why) -> u8 {
    match why {
        Why::UnderWay => 0,
        Why::NoAnswer { .. } | Why::AbandonedByPeer { .. } => 1,
        Why::NoPathIds | Why::Refused | Why::Socket(_) => 2,
        Why::Flapping(_) => 3,
        Why::MaxPaths(_) | Why::Policy(_) => 4,
        Why::Metered | Why::Tunnel { .. } | Why::OverAnother => 5,
        Why::Down => 6,
        Why::Family { .. } => 7,
        Why::SinglePath | Why::NoOtherInterface => 8,
    }
}
