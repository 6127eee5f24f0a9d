//! The path manager of a client in a scenario: the same as in the tools, told of the scenario's
//! addresses.
//!
//! Each path of a flow is an interface with one address; the server has an address of its own on
//! each. The manager knows of those of the first path, of IPv4, and of IPv6 if a path is of that
//! family: it chooses families, the network carries whatever it is offered.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Action;
use mpq_decision::paths::Attempts;
use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_decision::paths::LocalAddr;
use mpq_decision::paths::Manager;
use mpq_decision::paths::Pair;
use mpq_decision::paths::RemoteSource;
use mpq_decision::paths::LINK_DELAY;
use mpq_decision::PathId;
use mpq_driver::multipath;
use mpq_wire::model::Nanos;
use quiche::Connection;
use quiche::PathEvent;

use crate::host;
use crate::host::ClientEnd;
use crate::host::NEVER;
use crate::scenario::Flow;
use crate::scenario::FlowPath;

/// What a flow's client wants of its paths.
pub struct ClientPaths {
    manager: Manager,
    connection: usize,
    interfaces: Vec<FlowPath>,
    /// They count as named by the user, so that rules for interfaces do not hold.
    are_named: bool,
    /// Tunnels that are there, the newest last.
    tunnels: Vec<usize>,
    /// When the client begins and stops to want a path.
    plan: Vec<(Nanos, usize, bool)>,
    /// The manager knows whether the server agreed to several paths.
    is_agreed: bool,
    /// Path IDs in use, with their paths.
    open: Vec<(u64, usize)>,
    has_opened: bool,
    /// Impact factors that an earlier connection found.
    recalled: Vec<(usize, f64)>,
}

impl ClientPaths {
    /// Of a connection that has not begun.
    ///
    /// # Panics
    /// If the flow's path policy was not checked.
    pub fn new(flow: &Flow, connection: usize) -> ClientPaths {
        let choice = flow.path_policy.parse().expect("a policy that was checked");
        let mut plan = Vec::new();
        for (path, of_flow) in flow.paths.iter().enumerate() {
            let nanos = |time: Duration| time.as_nanos() as Nanos;
            let start = of_flow.start.as_ref().map_or(0, |at| nanos(at.value.0));
            plan.push((start, path, true));
            plan.extend(
                of_flow
                    .stop
                    .iter()
                    .map(|at| (nanos(at.value.0), path, false)),
            );
        }
        plan.sort_unstable();
        ClientPaths {
            manager: Manager::new(&choice),
            connection,
            interfaces: flow.paths.clone(),
            are_named: !flow.paths.iter().any(|path| path.metered || path.tunnel),
            tunnels: Vec::new(),
            plan,
            is_agreed: false,
            open: Vec::new(),
            has_opened: false,
            recalled: flow
                .paths
                .iter()
                .enumerate()
                .filter_map(|(path, of_flow)| Some((path, of_flow.impact?)))
                .collect(),
        }
    }

    /// The attempts at the handshake, over the paths that there are at `base + at`; over the first
    /// only without a delay, or if there is none.
    pub fn attempts(
        &mut self,
        ends: &[ClientEnd],
        base: Instant,
        at: Nanos,
        link_delay: Option<Duration>,
    ) -> Attempts {
        self.follow_plan(ends, base, at);
        let mut pairs = match link_delay {
            Some(_) => self.manager.handshake_pairs(&self.remotes()),
            None => Vec::new(),
        };
        if pairs.is_empty() {
            pairs.push(self.pair(0, &ends[0]));
        }
        self.manager
            .attempts(&pairs, link_delay.unwrap_or(LINK_DELAY))
    }

    /// The path of a pair of addresses that the manager named.
    pub fn path_of(pair: &Pair) -> usize {
        pair.local.if_index as usize - 1
    }

    /// The handshake is complete, over this path.
    pub fn begin(&mut self, now: Instant, path: usize, end: &ClientEnd) {
        let pair = self.pair(path, end);
        for (path, omega) in std::mem::take(&mut self.recalled) {
            let known = self.pair(path, &ClientEnd::default());
            self.manager.recall(known.local.ip, known.remote, omega);
        }
        self.manager.on_event(now, Event::Began { pair });
        for addr in self.remotes() {
            let source = RemoteSource::Resolved;
            self.manager
                .on_event(now, Event::RemoteAddr { addr, source });
        }
        self.open.push((0, path));
    }

    /// The client begins and stops to want paths.
    fn follow_plan(&mut self, ends: &[ClientEnd], base: Instant, at: Nanos) {
        let now = base + Duration::from_nanos(at);
        while let Some((_, path, comes)) = self.plan.first().copied().filter(|(t, ..)| *t <= at) {
            self.plan.remove(0);
            match comes {
                true => self.come(now, path, &ends[path]),
                false => self.leave(now, path, &ends[path]),
            }
        }
    }

    /// The paths whose impact factors are known, with those.
    pub fn impacts(&self) -> Vec<(usize, f64)> {
        let impacts = self.manager.impacts().into_iter();
        impacts
            .map(|(_, pair, omega)| (ClientPaths::path_of(&pair), omega))
            .collect()
    }

    /// Path IDs in use, with their paths.
    pub fn open(&self) -> &[(u64, usize)] {
        &self.open
    }

    /// Whether the client ever opened another path than that of the handshake.
    pub fn has_opened(&self) -> bool {
        self.has_opened
    }

    fn local(&self, path: usize, end: &ClientEnd) -> Local {
        let ip = end.local.on(self.connection, path).ip();
        Local {
            if_index: path as u32 + 1,
            ip: family(ip, self.interfaces[path].ipv6),
        }
    }

    /// A path's addresses, as the manager knows them.
    fn pair(&self, path: usize, end: &ClientEnd) -> Pair {
        Pair {
            local: self.local(path, end),
            remote: self.remote(self.interfaces[path].ipv6),
        }
    }

    fn remote(&self, is_ipv6: bool) -> SocketAddr {
        let mut remote = host::address(self.connection, 0, false);
        remote.set_ip(family(remote.ip(), is_ipv6));
        remote
    }

    /// Both of a server whose clients are of both families.
    fn remotes(&self) -> Vec<SocketAddr> {
        let has = |is_ipv6: &bool| self.interfaces.iter().any(|path| path.ipv6 == *is_ipv6);
        let families = [false, true].into_iter().filter(has);
        families.map(|is_ipv6| self.remote(is_ipv6)).collect()
    }

    /// The client may use its address on a path.
    pub fn come(&mut self, now: Instant, path: usize, end: &ClientEnd) {
        let of_flow = &self.interfaces[path];
        let nth = path as u32;
        let info = LocalAddr {
            up: end.has_carrier,
            standby: of_flow.backup,
            metered: of_flow.metered,
            tunnel: of_flow.tunnel,
            named: self.are_named.then_some(nth),
            metric: Some(nth),
            ..LocalAddr::new(self.local(path, end), &of_flow.name)
        };
        self.tunnels.retain(|tunnel| *tunnel != path);
        if info.tunnel && info.up {
            self.tunnels.push(path);
        }
        self.manager.on_event(now, Event::LocalAddr(info));
        self.route(now);
    }

    /// The address of the client on a path, or its carrier, is gone.
    pub fn go(&mut self, now: Instant, path: usize, end: &ClientEnd) {
        let local = self.local(path, end);
        self.manager.on_event(now, Event::LocalGone(local));
        self.tunnels.retain(|tunnel| *tunnel != path);
        self.route(now);
    }

    /// What the system would do with a packet for the server.
    fn route(&mut self, now: Instant) {
        if !self.interfaces.iter().any(|path| path.tunnel) {
            return;
        }
        let if_index = self.tunnels.last().map(|path| *path as u32 + 1);
        for remote in self.remotes() {
            self.manager
                .on_event(now, Event::Route { remote, if_index });
        }
    }

    /// The client does not want the path any more.
    pub fn leave(&mut self, now: Instant, path: usize, end: &ClientEnd) {
        let local = self.local(path, end);
        self.manager.on_event(now, Event::Leave(local));
    }

    /// Something became of a path.
    pub fn on_event(&mut self, now: Instant, event: &PathEvent) {
        if let PathEvent::Abandoned { path_id, .. } = event {
            self.open.retain(|(id, _)| id != path_id);
        }
        if let Some(fact) = multipath::fact(event) {
            self.manager.on_event(now, fact);
        }
    }

    /// Does what is due at `base + at`; the client has read so many bytes, and `is_waiting` for more
    /// or for what it sends. Returns when there is more to do.
    pub fn step(
        &mut self,
        quic: &mut Connection,
        ends: &[ClientEnd],
        (base, at): (Instant, Nanos),
        (read_bytes, is_waiting): (u64, bool),
    ) -> Nanos {
        let now = base + Duration::from_nanos(at);
        self.follow_plan(ends, base, at);
        if quic.is_established() && !std::mem::replace(&mut self.is_agreed, true) {
            let event = match quic.is_multipath() {
                true => Event::Confirmed,
                false => Event::SinglePath,
            };
            self.manager.on_event(now, event);
        }
        while let Some(action) = self.manager.next_action(now) {
            let Action::Open(pair) = action else {
                if let Some(event) = multipath::carry_out(quic, action, read_bytes, is_waiting) {
                    self.manager.on_event(now, event);
                }
                continue;
            };
            let path = ClientPaths::path_of(&pair);
            let local = ends[path].local.on(self.connection, path);
            let remote = host::address(self.connection, path, false);
            let event = match multipath::open_path(quic, local, remote) {
                Ok(id) => {
                    self.open.push((id, path));
                    self.has_opened = true;
                    let path = PathId(id);
                    Event::Opened { path, pair }
                }
                Err(error) => Event::OpenFailed {
                    pair,
                    error: multipath::open_error(error),
                },
            };
            self.manager.on_event(now, event);
        }
        let timer = self.manager.next_timer();
        let timer = timer.map_or(NEVER, |t| {
            t.saturating_duration_since(base).as_nanos() as Nanos
        });
        self.plan.first().map_or(timer, |(t, ..)| timer.min(*t))
    }
}

/// An address of the network as one of the family that its path is of.
fn family(ip: IpAddr, is_ipv6: bool) -> IpAddr {
    match ip {
        IpAddr::V4(ip) if is_ipv6 => IpAddr::V6(ip.to_ipv6_compatible()),
        _ => ip,
    }
}
