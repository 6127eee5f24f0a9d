//! Backup: one path carries the data, the others are open, validated, and stand by.
//!
//! The carrying path is the best one that has not failed: an unmetered interface before a metered
//! one, then the default route, the lower metric, the lower path ID. A scheduler switches by itself
//! the moment the carrying path is in doubt (see [`Tier`](crate::sched::Tier)); the status that this
//! manager sets follows, so that the peer switches too.

use std::time::Instant;

use super::opener::Opener;
use super::Action;
use super::Event;
use super::Limits;
use super::PathManager;
use crate::health::Health;
use crate::registry::PathId;
use crate::registry::Registry;
use crate::registry::Status;

/// The manager.
#[derive(Debug)]
pub struct Backup {
    opener: Opener,
}

impl Backup {
    /// A manager that knows no address yet.
    pub fn new(limits: Limits) -> Self {
        Backup {
            opener: Opener::new(limits),
        }
    }

    /// The path that shall carry the data.
    fn carrier(&self, paths: &Registry) -> Option<PathId> {
        let preference = |id: PathId| {
            let path = paths.get(id).filter(|path| path.is_usable())?;
            let out = matches!(path.health, Health::Failed | Health::Recovering);
            let local = self.opener.local_of(id);
            let cost = local.map(|local| (local.metered, !local.default_route, local.metric));
            Some((out, cost.is_none(), cost, id))
        };
        self.opener
            .validated()
            .filter_map(preference)
            .min()
            .map(|(.., id)| id)
    }

    fn set_statuses(&self, paths: &Registry, actions: &mut Vec<Action>) {
        let Some(carrier) = self.carrier(paths) else {
            return;
        };
        for path in self.opener.validated().filter_map(|id| paths.get(id)) {
            let status = match path.id == carrier {
                true => Status::Available,
                false => Status::Backup,
            };
            if path.local_status != status {
                actions.push(Action::SetStatus {
                    path: path.id,
                    status,
                });
            }
        }
    }
}

impl PathManager for Backup {
    fn on_event(
        &mut self,
        now: Instant,
        paths: &Registry,
        event: &Event,
        actions: &mut Vec<Action>,
    ) {
        self.opener.on_event(now, event, actions);
        self.tick(now, paths, actions);
    }

    fn tick(&mut self, now: Instant, paths: &Registry, actions: &mut Vec<Action>) {
        self.opener.tick(now, actions);
        self.set_statuses(paths, actions);
    }

    fn next_timer(&self) -> Option<Instant> {
        self.opener.next_timer()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn local(if_index: u32) -> Local {
        Local {
            if_index,
            ip: format!("10.0.{if_index}.1").parse().unwrap(),
        }
    }

    fn pair(if_index: u32) -> Pair {
        Pair {
            local: local(if_index),
            remote: "203.0.113.1:443".parse().unwrap(),
        }
    }

    fn address(if_index: u32, metered: bool) -> Event {
        let local = local(if_index);
        let default_route = if_index == 1;
        Event::LocalAddr(LocalAddr {
            local,
            up: true,
            default_route,
            metric: 0,
            metered,
        })
    }

    fn apply(registry: &mut Registry, actions: &[Action]) {
        for action in actions {
            if let Action::SetStatus { path, status } = action {
                registry.get_mut(*path).unwrap().local_status = *status;
            }
        }
    }

    #[test]
    fn the_carrier_changes_on_failure_and_back_on_return() {
        let now = Instant::now();
        let mut registry = Registry::new();
        let mut manager = Backup::new(Limits::default());
        for id in 0..2 {
            registry.add(PathId(id), 1200).validated = true;
        }
        let mut step = |registry: &Registry, event: Event| {
            let mut actions = Vec::new();
            manager.on_event(now, registry, &event, &mut actions);
            actions
        };
        let set = |path, status| Action::SetStatus {
            path: PathId(path),
            status,
        };

        step(&registry, address(1, false));
        step(&registry, address(2, true));
        step(
            &registry,
            Event::HandshakeConfirmed {
                path: PathId(0),
                pair: pair(1),
            },
        );
        let none = step(
            &registry,
            Event::PathOpened {
                path: PathId(1),
                pair: pair(2),
            },
        );
        assert_eq!(none, []);
        let standby = step(&registry, Event::PathValidated { path: PathId(1) });
        assert_eq!(standby, [set(1, Status::Backup)]);
        apply(&mut registry, &standby);

        registry.get_mut(PathId(0)).unwrap().health = Health::Failed;
        let swapped = step(&registry, Event::PathPf { path: PathId(0) });
        assert_eq!(swapped, [set(0, Status::Backup), set(1, Status::Available)]);
        apply(&mut registry, &swapped);

        // Recovering is not back yet: the hold time is the failure detector's.
        registry.get_mut(PathId(0)).unwrap().health = Health::Recovering;
        assert_eq!(step(&registry, Event::PathPf { path: PathId(0) }), []);
        registry.get_mut(PathId(0)).unwrap().health = Health::Healthy;
        let back = step(&registry, Event::PathRecovered { path: PathId(0) });
        assert_eq!(back, [set(0, Status::Available), set(1, Status::Backup)]);
    }
}
