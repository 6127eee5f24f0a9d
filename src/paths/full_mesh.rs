//! Full mesh: a path between every local and every remote address of the same family.
//!
//! Within [`Limits`]; interfaces come before second addresses of the peer, so that with few paths
//! allowed they are as disjoint as they can be.

use std::time::Instant;

use super::opener::Opener;
use super::Action;
use super::Event;
use super::Limits;
use super::PathManager;
use crate::registry::Registry;

/// The manager.
#[derive(Debug)]
pub struct FullMesh {
    opener: Opener,
}

impl FullMesh {
    /// A manager that knows no address yet.
    pub fn new(limits: Limits) -> Self {
        FullMesh {
            opener: Opener::new(limits),
        }
    }
}

impl PathManager for FullMesh {
    fn on_event(
        &mut self,
        now: Instant,
        _paths: &Registry,
        event: &Event,
        actions: &mut Vec<Action>,
    ) {
        self.opener.on_event(now, event, actions);
        self.opener.tick(now, actions);
    }

    fn tick(&mut self, now: Instant, _paths: &Registry, actions: &mut Vec<Action>) {
        self.opener.tick(now, actions);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.opener.next_timer()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    /// A manager, its clock and what it asked for.
    struct Bench {
        manager: FullMesh,
        registry: Registry,
        start: Instant,
        now: Instant,
        next_id: u64,
    }

    fn local(if_index: u32, ip: &str) -> Local {
        Local {
            if_index,
            ip: ip.parse().unwrap(),
        }
    }

    fn address(local: Local, default_route: bool) -> Event {
        Event::LocalAddr(LocalAddr {
            local,
            up: true,
            default_route,
            metric: 100,
            metered: false,
        })
    }

    fn down(local: Local) -> Event {
        let gone = LocalAddr {
            local,
            up: false,
            default_route: false,
            metric: 100,
            metered: false,
        };
        Event::LocalAddr(gone)
    }

    fn pair(local: Local, remote: &str) -> Pair {
        Pair {
            local,
            remote: remote.parse().unwrap(),
        }
    }

    const SERVER: &str = "203.0.113.1:443";
    const SECOND: &str = "203.0.113.2:443";

    impl Bench {
        /// Confirmed on interface 1, with 20 path IDs left.
        fn new(locals: &[Local]) -> Self {
            let now = Instant::now();
            let manager = FullMesh::new(Limits::default());
            let mut bench = Bench {
                manager,
                registry: Registry::new(),
                start: now,
                now,
                next_id: 1,
            };
            for (at, local) in locals.iter().enumerate() {
                assert_eq!(bench.event(address(*local, at == 0)), []);
            }
            assert_eq!(bench.event(Event::PathIdsAvailable { unused: 20 }), []);
            bench
        }

        fn event(&mut self, event: Event) -> Vec<Action> {
            let mut actions = Vec::new();
            self.manager
                .on_event(self.now, &self.registry, &event, &mut actions);
            actions
        }

        fn confirm(&mut self, local: Local) -> Vec<Action> {
            self.event(Event::HandshakeConfirmed {
                path: PathId(0),
                pair: pair(local, SERVER),
            })
        }

        fn at(&mut self, ms: u32) -> Vec<Action> {
            self.now = self.start + MS * ms;
            let mut actions = Vec::new();
            self.manager.tick(self.now, &self.registry, &mut actions);
            actions
        }

        /// Opens and validates what was asked for.
        fn opened(&mut self, pair: Pair) -> Vec<Action> {
            let path = PathId(self.next_id);
            self.next_id += 1;
            let mut actions = self.event(Event::PathOpened { path, pair });
            actions.extend(self.event(Event::PathValidated { path }));
            actions
        }
    }

    #[test]
    fn interfaces_before_second_remotes() {
        let (a, b, c) = (
            local(1, "10.0.1.1"),
            local(2, "10.0.2.1"),
            local(3, "10.0.3.1"),
        );
        let mut bench = Bench::new(&[a, b, c]);
        let second = Event::RemoteAddr {
            addr: SECOND.parse().unwrap(),
            source: RemoteSource::Configured,
        };
        assert_eq!(bench.event(second), []);

        assert_eq!(bench.confirm(a), [Action::Open(pair(b, SERVER))]);
        // 100 ms apart, and the timer says so.
        assert_eq!(bench.opened(pair(b, SERVER)), []);
        assert_eq!(bench.manager.next_timer(), Some(bench.start + MS * 100));
        assert_eq!(bench.at(99), []);
        assert_eq!(bench.at(100), [Action::Open(pair(c, SERVER))]);
        bench.opened(pair(c, SERVER));
        // All interfaces have one: the second remote, by the default route.
        assert_eq!(bench.at(200), [Action::Open(pair(a, SECOND))]);
        bench.opened(pair(a, SECOND));
        // Four paths are the limit.
        assert_eq!(bench.at(60_000), []);
    }

    #[test]
    fn two_validations_at_a_time() {
        let locals: Vec<Local> = (1..=4).map(|n| local(n, &format!("10.0.{n}.1"))).collect();
        let mut bench = Bench::new(&locals);
        assert_eq!(
            bench.confirm(locals[0]),
            [Action::Open(pair(locals[1], SERVER))]
        );
        // Not answered yet: no second request.
        assert_eq!(bench.at(150), []);
        bench.event(Event::PathOpened {
            path: PathId(1),
            pair: pair(locals[1], SERVER),
        });
        assert_eq!(bench.at(250), []);
        bench.event(Event::PathOpened {
            path: PathId(2),
            pair: pair(locals[2], SERVER),
        });
        assert_eq!(bench.at(1000), []);
        let next = bench.event(Event::PathValidated { path: PathId(1) });
        assert_eq!(next, [Action::Open(pair(locals[3], SERVER))]);
    }

    #[test]
    fn like_is_paired_with_like() {
        let (four, six) = (local(1, "10.0.1.1"), local(2, "2001:db8::1"));
        let mut bench = Bench::new(&[four, six]);
        assert_eq!(bench.confirm(four), []);
        let v6 = "[2001:db8::443]:443";
        let event = Event::RemoteAddr {
            addr: v6.parse().unwrap(),
            source: RemoteSource::Resolved,
        };
        assert_eq!(bench.event(event), [Action::Open(pair(six, v6))]);
    }

    #[test]
    fn the_second_family_of_an_interface_waits_for_lack_of_others() {
        let (four, six) = (local(1, "10.0.1.1"), local(1, "2001:db8::1"));
        let other = local(2, "10.0.2.1");
        let v6 = "[2001:db8::443]:443";
        let v6_known = Event::RemoteAddr {
            addr: v6.parse().unwrap(),
            source: RemoteSource::Resolved,
        };

        let mut bench = Bench::new(&[four, six, other]);
        bench.event(v6_known);
        assert_eq!(bench.confirm(four), [Action::Open(pair(other, SERVER))]);
        bench.opened(pair(other, SERVER));
        assert_eq!(bench.at(5000), []);

        let mut alone = Bench::new(&[four, six]);
        alone.event(v6_known);
        assert_eq!(alone.confirm(four), [Action::Open(pair(six, v6))]);
    }

    #[test]
    fn a_new_interface_must_settle() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a]);
        assert_eq!(bench.confirm(a), []);
        bench.at(1000);
        assert_eq!(bench.event(address(b, false)), []);
        assert_eq!(bench.manager.next_timer(), Some(bench.start + MS * 1500));
        assert_eq!(bench.at(1499), []);
        assert_eq!(bench.at(1500), [Action::Open(pair(b, SERVER))]);
    }

    #[test]
    fn a_flapping_interface_must_be_quiet_for_a_minute() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a]);
        bench.confirm(a);
        for flap in 0..5 {
            bench.at(flap * 200);
            assert_eq!(bench.event(address(b, false)), []);
            bench.at(flap * 200 + 100);
            assert_eq!(bench.event(down(b)), []);
        }
        bench.at(1000);
        bench.event(address(b, false));
        assert_eq!(bench.at(60_999), []);
        assert_eq!(bench.at(61_000), [Action::Open(pair(b, SERVER))]);
    }

    #[test]
    fn failed_attempts_back_off() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a, b]);
        assert_eq!(bench.confirm(a), [Action::Open(pair(b, SERVER))]);
        // 1 s after the first failure, 2 s after the second, 4 s after the third.
        let mut time_ms = 0;
        for pause_ms in [1000, 2000, 4000] {
            assert_eq!(
                bench.event(Event::OpenFailed {
                    pair: pair(b, SERVER)
                }),
                []
            );
            assert_eq!(bench.at(time_ms + pause_ms - 1), []);
            assert_eq!(
                bench.at(time_ms + pause_ms),
                [Action::Open(pair(b, SERVER))]
            );
            time_ms += pause_ms;
        }
    }

    #[test]
    fn an_interface_that_comes_back_is_forgiven() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a, b]);
        bench.confirm(a);
        let mut time_ms = 0;
        for pause_ms in [1000, 2000, 4000, 8000, 16000] {
            bench.event(Event::OpenFailed {
                pair: pair(b, SERVER),
            });
            time_ms += pause_ms;
            assert_eq!(bench.at(time_ms).len(), 1);
        }
        // The next pause would be 32 s; the link comes back after 1 s and holds for 5 s.
        bench.event(Event::OpenFailed {
            pair: pair(b, SERVER),
        });
        bench.at(time_ms + 500);
        bench.event(down(b));
        bench.at(time_ms + 1000);
        bench.event(address(b, false));
        assert_eq!(bench.at(time_ms + 5999), []);
        assert_eq!(bench.at(time_ms + 6000), [Action::Open(pair(b, SERVER))]);
    }

    #[test]
    fn reopening_leaves_ids_for_roaming() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a, b]);
        bench.event(Event::PathIdsAvailable { unused: 2 });
        // A first attempt may use any ID, a second must leave two.
        assert_eq!(bench.confirm(a), [Action::Open(pair(b, SERVER))]);
        bench.event(Event::OpenFailed {
            pair: pair(b, SERVER),
        });
        assert_eq!(bench.at(60_000), []);
        let more = bench.event(Event::PathIdsAvailable { unused: 3 });
        assert_eq!(more, [Action::Open(pair(b, SERVER))]);
    }

    #[test]
    fn a_lost_address_has_two_seconds_of_grace() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a, b]);
        bench.confirm(a);
        bench.opened(pair(b, SERVER));
        bench.at(1000);
        bench.event(down(b));
        assert_eq!(bench.manager.next_timer(), Some(bench.start + MS * 3000));
        assert_eq!(bench.at(2999), []);
        let gone = Action::Abandon {
            path: PathId(1),
            reason: Reason::AddressGone,
        };
        assert_eq!(bench.at(3000), [gone]);
        // Asked for once.
        assert_eq!(bench.at(3001), []);
    }

    #[test]
    fn nothing_before_the_handshake_or_without_ids() {
        let (a, b) = (local(1, "10.0.1.1"), local(2, "10.0.2.1"));
        let mut bench = Bench::new(&[a, b]);
        assert_eq!(bench.at(5000), []);
        bench.event(Event::PathIdsAvailable { unused: 0 });
        assert_eq!(bench.confirm(a), []);
    }
}
