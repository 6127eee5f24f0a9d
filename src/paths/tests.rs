//! The manager with each policy, in virtual time.

use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use super::*;

mod pcdc;

const MS: Duration = Duration::from_millis(1);
const SERVER: &str = "203.0.113.1:443";
const SECOND: &str = "203.0.113.2:443";
const SERVER_V6: &str = "[2001:db8::443]:443";

/// A manager and a driver that does what it is told.
struct Bench {
    manager: Manager,
    start: Instant,
    now: Instant,
    next_id: u64,
    /// Whether paths that are opened are validated at once.
    answers: bool,
    /// Paths that carry nothing of their own.
    silent: &'static [u64],
    /// Whether data passes.
    is_used: bool,
    kept_alive: Vec<PathId>,
}

fn local(if_index: u32, ip: &str) -> Local {
    Local {
        if_index,
        ip: ip.parse().unwrap(),
    }
}

fn nth(n: u32) -> Local {
    local(n, &format!("10.0.{n}.1"))
}

fn pair(local: Local, remote: &str) -> Pair {
    Pair {
        local,
        remote: remote.parse().unwrap(),
    }
}

fn info(local: Local) -> LocalAddr {
    let name = format!("eth{}", local.if_index);
    LocalAddr {
        metric: Some(100 * local.if_index),
        ..LocalAddr::new(local, &name)
    }
}

fn remote(addr: &str, source: RemoteSource) -> Event {
    Event::RemoteAddr {
        addr: addr.parse().unwrap(),
        source,
    }
}

fn set(path: u64, status: Status) -> Action {
    Action::SetStatus {
        path: PathId(path),
        status,
    }
}

fn abandon(path: u64, reason: Reason) -> Action {
    Action::Abandon {
        path: PathId(path),
        reason,
    }
}

impl Bench {
    /// A connection that began on the first of `locals`, by the default route.
    fn new(choice: &str, locals: &[LocalAddr]) -> Self {
        let now = Instant::now();
        let mut bench = Bench {
            manager: Manager::new(&choice.parse().unwrap()),
            start: now,
            now,
            next_id: 1,
            answers: true,
            silent: &[],
            is_used: true,
            kept_alive: Vec::new(),
        };
        for local in locals {
            assert_eq!(bench.event(Event::LocalAddr(local.clone())), []);
        }
        let first = pair(locals[0].local, SERVER);
        bench.event(Event::Route {
            remote: first.remote,
            if_index: Some(first.local.if_index),
        });
        assert_eq!(bench.event(Event::Began { pair: first }), []);
        bench
    }

    fn with(choice: &str, n: u32) -> Self {
        let locals: Vec<_> = (1..=n).map(|n| info(nth(n))).collect();
        Bench::new(choice, &locals)
    }

    fn tell(&mut self, event: Event) {
        self.manager.on_event(self.now, event);
    }

    fn event(&mut self, event: Event) -> Vec<Action> {
        self.tell(event);
        self.actions()
    }

    /// What is to be done; it is done.
    fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.manager.next_action(self.now) {
            assert!(actions.len() < 100, "no end: {actions:?}");
            if action == Action::Traffic {
                let traffic = self.traffic();
                self.tell(Event::Traffic(traffic));
                continue;
            }
            actions.push(action);
            match action {
                Action::KeepAlive(path) => self.kept_alive.push(path),
                Action::Open(pair) => {
                    let path = PathId(self.next_id);
                    self.next_id += 1;
                    self.tell(Event::Opened { path, pair });
                    if self.answers {
                        self.tell(Event::Validated { path });
                    }
                }
                Action::Abandon { path, .. } => self.tell(gone(path.0, false)),
                _ => {}
            }
        }
        // A timer that is due and has nothing to say would spin.
        assert!(self.manager.next_timer().is_none_or(|at| at > self.now));
        actions
    }

    fn traffic(&self) -> Traffic {
        let passed = match self.is_used {
            true => (self.now - self.start).as_millis() as u64,
            false => 0,
        };
        let sent = |path: u64| match self.silent.contains(&path) {
            true => self.kept_alive.iter().filter(|p| p.0 == path).count() as u64,
            false => passed,
        };
        Traffic {
            read_bytes: passed,
            acked_bytes: 50 * self.kept_alive.len() as u64,
            sent_packets: (0..self.next_id)
                .map(|path| (PathId(path), sent(path)))
                .collect(),
        }
    }

    fn at(&mut self, ms: u32) -> Vec<Action> {
        self.now = self.start + MS * ms;
        self.actions()
    }

    /// Runs timers until `ms`, and returns what was done when.
    fn until(&mut self, ms: u32) -> Vec<(u128, Action)> {
        let end = self.start + MS * ms;
        let mut all = Vec::new();
        while let Some(at) = self.manager.next_timer().filter(|at| *at <= end) {
            self.now = at;
            let since = (at - self.start).as_millis();
            all.extend(self.actions().into_iter().map(|action| (since, action)));
        }
        self.now = end;
        all
    }

    fn why(&self) -> Vec<String> {
        let unused = self.manager.unused(self.now);
        unused.iter().map(Unused::to_string).collect()
    }
}

fn gone(path: u64, by_peer: bool) -> Event {
    Event::Abandoned {
        path: PathId(path),
        by_peer,
        error_code: 0x3e,
    }
}

#[test]
fn a_path_over_every_interface() {
    let mut bench = Bench::with("full-mesh", 3);
    bench.event(remote(SECOND, RemoteSource::Resolved));
    assert_eq!(bench.why()[0], "eth2: a path is being opened");

    let opened = [pair(nth(2), SERVER), pair(nth(3), SERVER)].map(Action::Open);
    assert_eq!(bench.event(Event::Confirmed), opened);
    assert_eq!(bench.until(600_000), []);
    assert_eq!(bench.why(), [""; 0]);
}

#[test]
fn further_addresses_if_asked_for() {
    let mut bench = Bench::with("full-mesh:per-interface=2,max=3", 2);
    bench.event(remote(SECOND, RemoteSource::Resolved));
    // Another interface first, then the other address by the default route.
    let opened = [pair(nth(2), SERVER), pair(nth(1), SECOND)].map(Action::Open);
    assert_eq!(bench.event(Event::Confirmed), opened);
    assert_eq!(bench.event(Event::LocalAddr(info(nth(3)))), []);
    assert_eq!(
        bench.why(),
        ["eth3: there are 3 paths already; max=N allows more"]
    );
}

#[test]
fn nothing_before_the_handshake_or_with_one_path() {
    let mut bench = Bench::with("full-mesh", 2);
    assert_eq!(bench.until(60_000), []);
    bench.tell(Event::SinglePath);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert_eq!(bench.why(), ["the server does not do multipath"]);
}

#[test]
fn one_interface() {
    let mut bench = Bench::with("full-mesh", 1);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert_eq!(bench.why(), ["no other interface leads to a network"]);
}

#[test]
fn an_interface_of_the_other_family() {
    let six = info(local(2, "2001:db8::1"));
    let mut bench = Bench::new("full-mesh", &[info(nth(1)), six.clone()]);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert_eq!(
        bench.why(),
        ["eth2: has IPv6 only, and the server is known by IPv4 addresses only"]
    );
    let open = Action::Open(pair(six.local, SERVER_V6));
    assert_eq!(
        bench.event(remote(SERVER_V6, RemoteSource::Resolved)),
        [open]
    );
}

#[test]
fn the_second_family_of_an_interface_is_the_same_link() {
    let six = info(local(1, "2001:db8::1"));
    let mut bench = Bench::new("full-mesh", &[info(nth(1)), six]);
    bench.event(remote(SERVER_V6, RemoteSource::Resolved));
    assert_eq!(bench.event(Event::Confirmed), []);
}

#[test]
fn an_interface_that_appears_joins_at_once() {
    let mut bench = Bench::with("full-mesh", 1);
    bench.event(Event::Confirmed);
    assert_eq!(bench.at(1000), []);
    let opened = bench.event(Event::LocalAddr(info(nth(2))));
    assert_eq!(opened, [Action::Open(pair(nth(2), SERVER))]);
}

#[test]
fn a_flapping_address_has_to_stay() {
    let mut bench = Bench::with("full-mesh", 1);
    bench.event(Event::Confirmed);
    let mut opened_at = Vec::new();
    for flap in 0..6 {
        let began = flap * 5_000;
        bench.at(began);
        let mut all = bench.event(Event::LocalAddr(info(nth(2))));
        if all.is_empty() {
            assert!(bench.why()[0].contains("too often"), "{:?}", bench.why());
        }
        let later = bench.until(began + 4_500);
        opened_at.push(later.first().map_or(0, |(at, _)| *at as u32 - began));
        all.extend(later.into_iter().map(|(_, action)| action));
        assert!(all.contains(&Action::Open(pair(nth(2), SERVER))), "{flap}");
        let path = PathId(bench.next_id - 1);
        assert_eq!(
            bench.event(Event::LocalGone(nth(2))),
            [Action::Suspend(path)]
        );
        bench.tell(gone(path.0, false));
    }
    // Three for nothing, then a second, two and four.
    assert_eq!(opened_at, [0, 0, 0, 0, 1000, 2000]);
}

#[test]
fn a_lost_address_has_two_seconds_of_grace() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    bench.at(1000);
    assert_eq!(
        bench.event(Event::LocalGone(nth(2))),
        [Action::Suspend(PathId(1))]
    );
    assert_eq!(bench.why(), ["eth2: is down, or has no carrier"]);
    assert_eq!(bench.at(2999), []);
    assert_eq!(bench.at(3000), [abandon(1, Reason::AddressGone)]);
    assert_eq!(bench.until(60_000), []);
    // Back after that, it is a new path.
    let opened = bench.event(Event::LocalAddr(info(nth(2))));
    assert_eq!(opened, [Action::Open(pair(nth(2), SERVER))]);
}

#[test]
fn an_address_that_returns_in_time_keeps_its_path() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    bench.event(Event::LocalGone(nth(2)));
    bench.at(1999);
    assert_eq!(bench.event(Event::LocalAddr(info(nth(2)))), []);
    assert_eq!(bench.until(60_000), []);
    // The next time counts anew.
    assert_eq!(
        bench.event(Event::LocalGone(nth(2))),
        [Action::Suspend(PathId(1))]
    );
}

#[test]
fn the_last_path_is_not_given_up() {
    let mut bench = Bench::with("full-mesh", 1);
    bench.event(Event::Confirmed);
    assert_eq!(
        bench.event(Event::LocalGone(nth(1))),
        [Action::Suspend(PathId(0))]
    );
    assert_eq!(bench.until(60_000), []);
    // Another network: the new path first, then the end of the old one.
    let roamed = local(1, "192.168.7.7");
    bench.answers = false;
    let opened = bench.event(Event::LocalAddr(info(roamed)));
    assert_eq!(opened, [Action::Open(pair(roamed, SERVER))]);
    assert_eq!(
        bench.event(Event::Validated { path: PathId(1) }),
        [abandon(0, Reason::AddressGone)]
    );
}

#[test]
fn a_path_that_cannot_be_abandoned_yet() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    bench.tell(Event::LocalGone(nth(2)));
    let path = PathId(1);
    assert_eq!(bench.at(0), [Action::Suspend(path)]);
    bench.now += MS * 2000;
    let gone = Action::Abandon {
        path,
        reason: Reason::AddressGone,
    };
    assert_eq!(bench.manager.next_action(bench.now), Some(gone));
    assert_eq!(bench.event(Event::AbandonRefused { path }), []);
    assert_eq!(bench.manager.next_timer(), Some(bench.now + MS * 1000));
    assert_eq!(bench.at(3000), [gone]);
}

#[test]
fn roaming_twenty_times() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    let mut here = nth(1);
    for n in 1..=20 {
        bench.at(n * 3_000);
        bench.event(Event::LocalGone(here));
        bench.at(n * 3_000 + 500);
        here = local(1, &format!("192.168.{n}.9"));
        let opened = bench.event(Event::LocalAddr(info(here)));
        assert_eq!(opened, [Action::Open(pair(here, SERVER))], "{n}");
    }
    bench.until(70_000);
    let remembered = bench.manager.state_size();
    assert_eq!(remembered, (22, 2, 0), "addresses, paths and failures");
    bench.until(200_000);
    bench.event(Event::LocalGone(nth(9)));
    assert_eq!(bench.manager.state_size(), (2, 2, 0));
}

#[test]
fn networks_that_never_answer_are_forgotten() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.answers = false;
    bench.event(Event::Confirmed);
    for n in 1..=20 {
        let here = local(3, &format!("192.168.{n}.9"));
        bench.event(Event::LocalAddr(info(here)));
        bench.event(gone(bench.next_id - 1, false));
        bench.event(Event::LocalGone(here));
    }
    assert_eq!(bench.manager.state_size().2, 20);
    bench.until(120_000);
    bench.event(Event::LocalGone(nth(9)));
    assert_eq!(bench.manager.state_size().2, 0);
}

#[test]
fn what_cannot_be_opened_is_tried_again() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.tell(Event::Confirmed);
    let pair = pair(nth(2), SERVER);
    let fail = |bench: &mut Bench, error| {
        let action = bench.manager.next_action(bench.now);
        assert_eq!(action, Some(Action::Open(pair)));
        bench.event(Event::OpenFailed { pair, error })
    };
    // 10 ms, doubled up to a second; without losing a path ID there is no reason for more.
    for pause_ms in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
        assert_eq!(fail(&mut bench, OpenError::NoPathIds), []);
        assert_eq!(bench.manager.next_timer(), Some(bench.now + MS * pause_ms));
        bench.now += MS * pause_ms;
    }
    assert_eq!(fail(&mut bench, OpenError::NoPathIds), []);
    assert_eq!(
        bench.why(),
        ["eth2: the server allows no further path for now"]
    );
    // Or as soon as there is news.
    assert_eq!(bench.event(Event::PathIdsAvailable), [Action::Open(pair)]);
    assert_eq!(bench.manager.state_size().2, 0);
}

#[test]
fn news_of_path_ids_does_not_hurry_what_the_server_abandoned() {
    let mut bench = Bench::with("full-mesh", 2);
    let open = Action::Open(pair(nth(2), SERVER));
    assert_eq!(bench.event(Event::Confirmed), [open]);
    assert_eq!(bench.event(gone(1, true)), []);
    assert_eq!(bench.at(100), []);
    assert_eq!(bench.event(Event::PathIdsAvailable), []);
    // When its time has come, there are no path IDs; then there are.
    bench.now = bench.start + MS * 250;
    assert_eq!(bench.manager.next_action(bench.now), Some(open));
    let error = OpenError::NoPathIds;
    let failed = Event::OpenFailed {
        pair: pair(nth(2), SERVER),
        error,
    };
    assert_eq!(bench.event(failed), []);
    assert_eq!(bench.event(Event::PathIdsAvailable), [open]);
}

#[test]
fn addresses_are_remembered_for_a_minute_and_only_so_many() {
    let visit = |bench: &mut Bench, n: u32| {
        let here = local(3, &format!("192.168.{}.{}", n / 250, n % 250));
        bench.tell(Event::LocalAddr(info(here)));
        bench.tell(Event::LocalGone(here));
        bench.actions();
    };
    let mut bench = Bench::with("full-mesh", 1);
    for n in 0..100 {
        visit(&mut bench, n);
        let remembered = bench.manager.state_size().0;
        assert_eq!(remembered, (n as usize + 2).min(64), "{n}");
    }

    // Of few, those that came a minute ago; what is there stays, whether it has a path or not.
    let mut bench = Bench::with("full-mesh", 2);
    visit(&mut bench, 1);
    bench.at(60_000);
    visit(&mut bench, 2);
    assert_eq!(bench.manager.state_size().0, 4);
    bench.at(60_001);
    visit(&mut bench, 3);
    assert_eq!(bench.manager.state_size().0, 4);
}

#[test]
fn a_flap_counts_for_a_minute() {
    let mut bench = Bench::with("full-mesh", 1);
    bench.event(Event::Confirmed);
    let open = Action::Open(pair(nth(2), SERVER));
    for ms in [0, 20_000, 40_000, 60_000] {
        bench.at(ms);
        assert_eq!(bench.event(Event::LocalAddr(info(nth(2)))), [open], "{ms}");
        let path = bench.next_id - 1;
        bench.event(Event::LocalGone(nth(2)));
        bench.tell(gone(path, false));
    }
    // The fourth within a minute; of the first one, that is over.
    bench.at(79_999);
    assert_eq!(bench.event(Event::LocalAddr(info(nth(2)))), [open]);
}

#[test]
fn the_route_to_each_address_of_the_server_counts() {
    let mut manager = Manager::new(&Choice::default());
    let now = Instant::now();
    for n in [1, 2] {
        manager.on_event(now, Event::LocalAddr(info(nth(n))));
    }
    let remotes = [SERVER.parse().unwrap()];
    let first = |manager: &Manager| manager.handshake_pairs(&remotes)[0].local;
    let route = |remote: &str, if_index| Event::Route {
        remote: remote.parse().unwrap(),
        if_index,
    };
    assert_eq!(first(&manager), nth(1));
    manager.on_event(now, route(SERVER, Some(2)));
    manager.on_event(now, route(SECOND, None));
    assert_eq!(first(&manager), nth(2));
    // The newest of each.
    manager.on_event(now, route(SERVER, None));
    assert_eq!(first(&manager), nth(1));
}

#[test]
fn the_handshake_stays_in_the_tunnel_unless_that_leads_nowhere() {
    let tunnel = LocalAddr {
        tunnel: true,
        ..info(local(7, "10.8.0.2"))
    };
    let six = info(local(2, "2001:db8:2::1"));
    let mut manager = Manager::new(&Choice::default());
    let now = Instant::now();
    for address in [tunnel.clone(), info(nth(1)), six.clone()] {
        manager.on_event(now, Event::LocalAddr(address));
    }
    manager.on_event(
        now,
        Event::Route {
            remote: SERVER.parse().unwrap(),
            if_index: Some(7),
        },
    );
    let pairs = |remote: &str| manager.handshake_pairs(&[remote.parse().unwrap()]);
    assert_eq!(pairs(SERVER), [pair(tunnel.local, SERVER)]);
    assert_eq!(pairs(SERVER_V6), [pair(six.local, SERVER_V6)]);
}

#[test]
fn the_handshake_takes_families_in_turn() {
    let mut manager = Manager::new(&Choice::default());
    let now = Instant::now();
    let six = local(1, "2001:db8::1");
    for address in [nth(1), six] {
        manager.on_event(now, Event::LocalAddr(info(address)));
    }
    let second = "[2001:db8::444]:443";
    let remotes = [SERVER_V6, second, SERVER].map(|a| a.parse().unwrap());
    let expected = [
        pair(six, SERVER_V6),
        pair(nth(1), SERVER),
        pair(six, second),
    ];
    assert_eq!(manager.handshake_pairs(&remotes), expected);
}

#[test]
fn the_name_of_an_interface() {
    let mut bench = Bench::with("full-mesh", 1);
    assert_eq!(bench.manager.interface(&nth(1)), Some("eth1"));
    assert_eq!(bench.manager.interface(&nth(2)), None);
    bench.event(Event::LocalAddr(LocalAddr::new(nth(2), "")));
    assert_eq!(bench.manager.interface(&nth(2)), None);
}

#[test]
fn a_second_interface_that_is_down_is_one() {
    let down = LocalAddr {
        up: false,
        ..info(nth(2))
    };
    let mut bench = Bench::new("full-mesh", &[info(nth(1)), down]);
    bench.event(Event::Confirmed);
    assert_eq!(bench.why(), ["eth2: is down, or has no carrier"]);
}

#[test]
fn default_first_keeps_what_is_not_validated_yet() {
    let mut bench = Bench::with("default-first", 2);
    bench.answers = false;
    bench.event(Event::Confirmed);
    bench.tell(Event::Validated { path: PathId(0) });
    let doubt = |doubted| Event::Doubt {
        path: PathId(0),
        doubted,
    };
    assert_eq!(
        bench.event(doubt(true)),
        [Action::Open(pair(nth(2), SERVER))]
    );
    // The first works again while the second one is being validated.
    assert_eq!(bench.event(doubt(false)), []);
    let validated = Event::Validated { path: PathId(1) };
    assert_eq!(bench.event(validated), [abandon(1, Reason::NotWanted)]);
}

#[test]
fn what_does_not_answer_is_tried_ever_more_slowly() {
    let mut bench = Bench::with("full-mesh:keep-alive=0s", 2);
    bench.answers = false;
    assert_eq!(
        bench.event(Event::Confirmed),
        [Action::Open(pair(nth(2), SERVER))]
    );
    for pause_ms in [
        250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000,
    ] {
        let path = bench.next_id - 1;
        assert_eq!(bench.event(gone(path, false)), []);
        assert_eq!(bench.manager.next_timer(), Some(bench.now + MS * pause_ms));
        bench.now += MS * pause_ms;
        assert_eq!(bench.actions(), [Action::Open(pair(nth(2), SERVER))]);
    }
    assert_eq!(
        bench.why(),
        ["eth2: no answer from the server, 10 times; another attempt is under way"]
    );
    bench.event(gone(bench.next_id - 1, false));
    let why = bench.why();
    assert_eq!(
        why,
        ["eth2: no answer from the server, 11 times; next attempt in 60.0 s"]
    );

    // The kernel may be why.
    let strict = LocalAddr {
        strict_rp_filter: true,
        ..info(nth(2))
    };
    bench.event(Event::LocalAddr(strict));
    assert!(bench.why()[0].contains("Set net.ipv4.conf.eth2.rp_filter to 2"));

    // A link that comes back is a new start.
    bench.event(Event::LocalGone(nth(2)));
    let opened = bench.event(Event::LocalAddr(info(nth(2))));
    assert_eq!(opened, [Action::Open(pair(nth(2), SERVER))]);
}

#[test]
fn a_path_that_the_server_abandons_is_replaced() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    let open = Action::Open(pair(nth(2), SERVER));
    // It is validated, and abandoned at once: ever more slowly.
    let mut path = 1;
    for (began, pause) in [(0, 250), (250, 500), (750, 1000)] {
        assert_eq!(bench.at(began).len(), usize::from(began > 0));
        bench.event(gone(path, true));
        assert!(bench.why()[0].contains("abandoned the path (code 0x3e)"));
        assert_eq!(bench.manager.next_timer(), Some(bench.now + MS * pause));
        path += 1;
    }
    assert_eq!(bench.at(1750), [open]);
    // It worked for a while.
    bench.at(6750);
    bench.event(gone(path, true));
    assert_eq!(bench.at(7000), [open]);
    // Path 0 is no exception.
    bench.event(gone(0, true));
    assert_eq!(bench.at(7250), [Action::Open(pair(nth(1), SERVER))]);
}

#[test]
fn the_application_leaves() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.event(Event::Confirmed);
    assert_eq!(
        bench.event(Event::Leave(nth(2))),
        [abandon(1, Reason::NotWanted)]
    );
    assert_eq!(bench.until(60_000), []);
    let back = bench.event(Event::LocalAddr(info(nth(2))));
    assert_eq!(back, [Action::Open(pair(nth(2), SERVER))]);
}

#[test]
fn never_around_a_tunnel_unless_asked() {
    let tunnel = LocalAddr {
        tunnel: true,
        ..info(local(7, "10.8.0.2"))
    };
    let lte = info(nth(2));
    let mut bench = Bench::new("full-mesh", &[tunnel.clone(), info(nth(1)), lte.clone()]);
    assert_eq!(bench.event(Event::Confirmed), []);
    let why = bench.why();
    assert!(why[0].starts_with("eth1: the default route leads into the tunnel eth7;"));
    assert!(why[1].starts_with("eth2: "), "{why:?}");

    let mut bench = Bench::new("full-mesh:tunnel=around", &[tunnel.clone(), lte.clone()]);
    assert_eq!(bench.event(Event::Confirmed).len(), 1);

    // Or by name.
    let named = |n, info: &LocalAddr| LocalAddr {
        named: Some(n),
        ..info.clone()
    };
    let mut bench = Bench::new("full-mesh", &[named(0, &tunnel), named(1, &lte)]);
    assert_eq!(bench.event(Event::Confirmed).len(), 1);

    // One that does not hold the route is a second way over the same link.
    let mut bench = Bench::new("full-mesh", &[info(nth(1)), tunnel]);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert!(bench.why()[0].contains("is a tunnel over another interface"));
}

#[test]
fn a_tunnel_that_comes_later_takes_all() {
    let tunnel = LocalAddr {
        tunnel: true,
        ..info(local(7, "10.8.0.2"))
    };
    let into = |if_index| Event::Route {
        remote: SERVER.parse().unwrap(),
        if_index: Some(if_index),
    };
    for choice in ["full-mesh", "full-mesh:tunnel=around"] {
        let mut bench = Bench::with(choice, 2);
        assert_eq!(bench.event(Event::Confirmed).len(), 1);
        bench.answers = false;
        let opened = bench.event(Event::LocalAddr(tunnel.clone()));
        let opened = [opened, bench.event(into(7))].concat();
        assert_eq!(opened, [Action::Open(pair(tunnel.local, SERVER))]);
        // Nothing is given up for a tunnel that does not work.
        assert_eq!(bench.at(5000), []);
        let actions = bench.event(Event::Validated { path: PathId(2) });
        match choice {
            "full-mesh" => assert_eq!(actions, [0, 1].map(|id| abandon(id, Reason::NotWanted))),
            _ => assert_eq!(actions, []),
        }
    }

    // Of what was named, nothing is given up.
    let named = LocalAddr {
        named: Some(0),
        ..info(nth(1))
    };
    let mut bench = Bench::new("full-mesh", &[named]);
    bench.event(Event::Confirmed);
    bench.event(Event::LocalAddr(tunnel.clone()));
    assert_eq!(
        bench.event(into(7)),
        [Action::Open(pair(tunnel.local, SERVER))]
    );
    assert_eq!(bench.at(100), []);
}

#[test]
fn metered_interfaces() {
    let metered = LocalAddr {
        metered: true,
        ..info(nth(2))
    };
    let locals = [info(nth(1)), metered];
    let open = Action::Open(pair(nth(2), SERVER));

    // The default: it stands by, and NATs are reminded of it.
    let mut bench = Bench::new("full-mesh", &locals);
    bench.silent = &[1];
    assert_eq!(
        bench.event(Event::Confirmed),
        [open, set(1, Status::Backup)]
    );
    let kept = Action::KeepAlive(PathId(1));
    assert_eq!(bench.until(60_000), [(25_000, kept), (50_000, kept)]);
    // Until there is nothing else.
    assert_eq!(bench.event(gone(0, true)), [set(1, Status::Available)]);

    let mut bench = Bench::new("full-mesh:metered=use", &locals);
    assert_eq!(bench.event(Event::Confirmed), [open]);
    assert_eq!(bench.until(60_000), []);

    let mut bench = Bench::new("full-mesh:metered=never", &locals);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert!(bench.why()[0].contains("is metered"));
    // Better than nothing.
    assert_eq!(
        bench.event(Event::LocalGone(nth(1))),
        [Action::Suspend(PathId(0)), open]
    );
}

/// Whatever a path is for; not where its address is gone, nor in a connection that nobody uses.
#[test]
fn a_silent_path_is_kept_alive_while_the_connection_is_used() {
    let mut bench = Bench::with("full-mesh", 3);
    bench.silent = &[2];
    bench.event(Event::Confirmed);
    let kept = Action::KeepAlive(PathId(2));
    assert_eq!(bench.until(60_000), [(25_000, kept), (50_000, kept)]);

    bench.event(Event::LocalGone(nth(3)));
    assert_eq!(bench.until(61_000), []);
    bench.event(Event::LocalAddr(info(nth(3))));
    assert_eq!(bench.until(90_000), [(75_000, kept)]);

    bench.is_used = false;
    bench.until(100_000);
    assert_eq!(bench.until(600_000), []);
    // Nobody wakes up for it.
    assert_eq!(bench.manager.next_timer(), None);
    // Used again, in turns of the driver: as soon as that is seen.
    bench.is_used = true;
    assert_eq!(bench.at(601_000), [kept]);

    let mut bench = Bench::with("full-mesh:keep-alive=0s", 2);
    bench.event(Event::Confirmed);
    assert_eq!(bench.until(60_000), []);
}

#[test]
fn who_measures_no_impact_shows_none() {
    for policy in ["full-mesh", "backup", "default-first", "ndiffports"] {
        let mut bench = Bench::with(policy, 2);
        bench.event(Event::Confirmed);
        assert_eq!(bench.manager.impacts(), [], "{policy}");
    }
}

#[test]
fn backup_changes_the_carrier_on_failure_and_back() {
    let mut bench = Bench::with("backup:keep-alive=0s", 2);
    let opened = [Action::Open(pair(nth(2), SERVER)), set(1, Status::Backup)];
    assert_eq!(bench.event(Event::Confirmed), opened);
    let doubt = |path, doubted| Event::Doubt {
        path: PathId(path),
        doubted,
    };
    assert_eq!(
        bench.event(doubt(0, true)),
        [set(0, Status::Backup), set(1, Status::Available)]
    );
    assert_eq!(
        bench.event(doubt(0, false)),
        [set(0, Status::Available), set(1, Status::Backup)]
    );
    // If all are in doubt, all may carry.
    bench.event(doubt(0, true));
    assert_eq!(bench.event(doubt(1, true)), [set(0, Status::Available)]);
}

#[test]
fn default_first_opens_when_it_has_to() {
    let mut bench = Bench::with("default-first", 3);
    assert_eq!(bench.event(Event::Confirmed), []);
    assert_eq!(
        bench.why()[0],
        "eth2: is opened when the path in use does not work"
    );
    let doubt = |path, doubted| Event::Doubt {
        path: PathId(path),
        doubted,
    };
    // One is enough, and the first is kept: it may come back.
    assert_eq!(
        bench.event(doubt(0, true)),
        [Action::Open(pair(nth(2), SERVER))]
    );
    assert_eq!(bench.until(60_000), []);
    assert_eq!(
        bench.event(doubt(0, false)),
        [abandon(1, Reason::NotWanted)]
    );

    // The default goes, and returns.
    assert_eq!(
        bench.event(Event::LocalGone(nth(1))),
        [
            Action::Suspend(PathId(0)),
            Action::Open(pair(nth(2), SERVER))
        ]
    );
    assert_eq!(bench.at(63_000), [abandon(0, Reason::AddressGone)]);
    assert_eq!(
        bench.event(Event::LocalAddr(info(nth(1)))),
        [
            Action::Open(pair(nth(1), SERVER)),
            abandon(2, Reason::NotWanted)
        ]
    );
}

#[test]
fn ndiffports() {
    let mut bench = Bench::with("ndiffports", 2);
    bench.event(remote(SECOND, RemoteSource::Resolved));
    assert_eq!(
        bench.event(Event::Confirmed),
        [Action::Open(pair(nth(1), SERVER))]
    );
    assert!(bench.why()[0].contains("first path's addresses only"));
    let mut bench = Bench::with("ndiffports:per-interface=4", 1);
    let opened = [Action::Open(pair(nth(1), SERVER)); 3];
    assert_eq!(bench.event(Event::Confirmed), opened);
    assert_eq!(bench.why(), [""; 0]);
}

#[test]
fn the_handshake_avoids_what_failed() {
    let mut manager = Manager::new(&Choice::default());
    let now = Instant::now();
    let six = local(1, "2001:db8::1");
    for address in [nth(1), six, nth(2), nth(3)] {
        manager.on_event(now, Event::LocalAddr(info(address)));
    }
    let remotes: Vec<SocketAddr> = [SERVER_V6, SERVER].map(|a| a.parse().unwrap()).into();
    manager.on_event(
        now,
        Event::Route {
            remote: remotes[0],
            if_index: Some(1),
        },
    );
    let order = manager.handshake_pairs(&remotes);
    let wanted = [
        pair(six, SERVER_V6),
        // Another interface and another family.
        pair(nth(2), SERVER),
        pair(nth(3), SERVER),
        pair(nth(1), SERVER),
    ];
    assert_eq!(order, wanted);
    // Nothing of the family: the list is empty, and the driver asks the kernel.
    let six_only = [remotes[0]];
    manager.on_event(now, Event::LocalGone(six));
    assert_eq!(manager.handshake_pairs(&six_only), []);
}

#[test]
fn named_addresses_count_by_name() {
    // Two addresses of one interface, each named, and one interface with two families.
    let named = |n, address: Local| LocalAddr {
        named: Some(n),
        ..info(address)
    };
    let locals = [
        named(0, local(1, "127.0.0.1")),
        named(1, local(1, "127.0.0.2")),
        named(2, nth(2)),
        named(2, local(2, "2001:db8::2")),
    ];
    let mut bench = Bench::new("full-mesh", &locals);
    bench.event(remote(SERVER_V6, RemoteSource::Resolved));
    let opened = [locals[1].local, locals[2].local].map(|local| Action::Open(pair(local, SERVER)));
    assert_eq!(bench.event(Event::Confirmed), opened);
}

#[test]
fn an_address_that_the_server_names_gives_the_other_family_a_path() {
    let six = info(local(2, "2001:db8:2::1"));
    let mut bench = Bench::new("full-mesh", &[info(nth(1)), six.clone()]);
    assert_eq!(bench.event(Event::Confirmed), []);
    let actions = bench.event(remote(SERVER_V6, RemoteSource::Named));
    assert_eq!(actions, [Action::Open(pair(six.local, SERVER_V6))]);
}

#[test]
fn a_server_that_names_addresses_without_end_is_not_remembered_whole() {
    let mut bench = Bench::with("full-mesh", 2);
    bench.answers = false;
    bench.event(Event::Confirmed);
    for n in 0..10_000 {
        let addr = format!("198.51.{}.{}:{}", n % 250, n / 250, 1 + n);
        bench.tell(remote(&addr, RemoteSource::Named));
    }
    assert!(format!("{:?}", bench.manager).matches("Named").count() <= 32);
    // And what was known before is known still.
    assert!(format!("{:?}", bench.manager).contains(&format!("Connection, {SERVER}")));
}

#[test]
fn who_races_in_the_handshake() {
    let metered = LocalAddr {
        metered: true,
        ..info(nth(3))
    };
    let pairs = [
        pair(nth(1), SERVER),
        pair(nth(1), SECOND),
        pair(nth(2), SERVER),
        pair(nth(3), SERVER),
        pair(nth(9), SERVER),
    ];
    // The first of each link that is used side by side with others, if the policy does that.
    for (policy, races) in [
        ("full-mesh", [true, false, true, false, false]),
        ("backup", [false; 5]),
    ] {
        let locals = [info(nth(1)), info(nth(2)), metered.clone()];
        let attempts = Bench::new(policy, &locals).manager.attempts(&pairs, MS);
        let candidates = attempts.candidates().iter();
        let raced: Vec<bool> = candidates.map(|candidate| candidate.races).collect();
        assert_eq!(raced, races, "{policy}");
    }
}

#[test]
fn two_paths_over_one_interface_need_no_other() {
    let mut bench = Bench::with("ndiffports:per-interface=2", 1);
    bench.event(Event::Confirmed);
    assert_eq!(bench.why(), [""; 0]);
}

#[test]
fn the_reason_nearest_to_a_path_is_shown() {
    // The server has no IPv6 address, and does not answer over IPv4.
    let locals = [info(nth(1)), info(local(2, "2001:db8::2")), info(nth(2))];
    let mut bench = Bench::new("full-mesh", &locals);
    bench.answers = false;
    bench.event(Event::Confirmed);
    bench.event(gone(1, false));
    assert_eq!(
        bench.why(),
        ["eth2: no answer from the server, 1 time; next attempt in 0.2 s"]
    );
}
