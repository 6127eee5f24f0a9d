//! What a controller keeps of each path, in one place: a [`Controller`] is handed the state of the
//! path that an event is about, and looks nothing up.

use std::fmt;
use std::time::Instant;

use super::members::is_member;
use super::members::members;
use super::members::Member;
use super::Ack;
use super::Change;
use super::Control;
use super::Controller;
use super::Flight;
use super::Loss;
use super::RateSample;
use super::Round;
use super::Trace;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// The path that an event is about.
#[derive(Debug)]
pub struct Own<'a, F> {
    /// When the event happens.
    pub now: Instant,
    /// What is known about the path.
    pub path: &'a PathState,
    /// What the controller keeps of it.
    pub flow: &'a mut F,
    /// All paths of the connection.
    pub paths: &'a Registry,
    /// What the controller keeps of the others: those of smaller IDs, and those of larger ones.
    others: [&'a [(PathId, F)]; 2],
}

impl<'a, F> Own<'a, F> {
    /// For tests of what a controller does with it.
    #[cfg(test)]
    pub(super) fn new(
        now: Instant,
        path: &'a PathState,
        flow: &'a mut F,
        paths: &'a Registry,
        others: [&'a [(PathId, F)]; 2],
    ) -> Self {
        Own {
            now,
            path,
            flow,
            paths,
            others,
        }
    }

    /// The paths that this one is coupled with, itself among them, in path ID order; see `members`.
    pub fn members(&self) -> impl Iterator<Item = Member<'a>> + Clone {
        members(self.paths, self.path.id)
    }

    /// The same with what the controller keeps of each.
    pub fn flows(&self) -> impl Iterator<Item = (Member<'a>, &F)> + Clone {
        self.members()
            .filter_map(|member| Some((member, self.flow_of(member.path.id)?)))
    }

    /// The paths that this one is coupled with, without it, in path ID order.
    pub fn others(&self) -> impl Iterator<Item = (&'a PathState, &F)> + Clone {
        let [before, after] = self.others;
        before.iter().chain(after).filter_map(|(id, flow)| {
            let path = self.paths.get(*id)?;
            is_member(path).then_some((path, flow))
        })
    }

    fn flow_of(&self, id: PathId) -> Option<&F> {
        if id == self.path.id {
            return Some(self.flow);
        }
        let [before, after] = self.others;
        let mut others = before.iter().chain(after);
        others.find(|(other, _)| *other == id).map(|(_, flow)| flow)
    }
}

/// A [`Controller`], whatever it keeps of a path, as a [`Group`](super::Group) has it: events name
/// a path by its ID. Those of a path that was never added do nothing.
pub trait AnyController: fmt::Debug + Send + Sync {
    /// A path joined. Its registry entry and first window are in place.
    fn on_path_added(&mut self, now: Instant, id: PathId);
    /// A path left; its registry entry may still be there.
    fn on_path_closed(&mut self, now: Instant, id: PathId);
    /// The path starts over.
    fn on_path_reset(&mut self, now: Instant, id: PathId);
    /// [`Controller::initial_window_packets`].
    fn initial_window_packets(&self) -> Option<f64>;
    /// [`Controller::has_slow_start`].
    fn has_slow_start(&self) -> bool;
    /// [`Controller::reads_one_way_delay`].
    fn reads_one_way_delay(&self) -> bool;
    /// [`Controller::is_model`].
    fn is_model(&self) -> bool;
    /// [`Controller::on_model`].
    fn on_model(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) -> Option<Control>;
    /// [`Controller::on_lost`].
    fn on_lost(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        loss: &Loss,
        flight: Option<&Flight>,
    ) -> Option<Control>;
    /// [`Controller::slow_start_gain`].
    fn slow_start_gain(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64;
    /// [`Controller::on_sample`].
    fn on_sample(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack);
    /// [`Controller::on_round`].
    fn on_round(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        round: &Round,
    ) -> Option<Change>;
    /// [`Controller::next_timer`].
    fn next_timer(&self) -> Option<Instant>;
    /// [`Controller::on_time`].
    fn on_time(&mut self, now: Instant, paths: &Registry, id: PathId) -> Option<Change>;
    /// [`Controller::increase`].
    fn increase(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64;
    /// [`Controller::decrease`].
    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64;
    /// Takes back what the last `decrease` has changed of what is kept of the path.
    fn undo(&mut self, id: PathId);
    /// [`Controller::on_spurious`].
    fn on_spurious(&mut self, id: PathId);
    /// [`Controller::on_underused`].
    fn on_underused(&mut self, now: Instant, paths: &Registry, id: PathId);
    /// [`Controller::bottleneck`].
    fn bottleneck(&self, id: PathId) -> Option<PathId>;
    /// [`Controller::trace`].
    fn trace(&self, paths: &Registry, id: PathId, trace: &mut Trace);
}

/// A controller, and what it keeps of each path.
#[derive(Debug)]
pub struct Flows<C: Controller> {
    pub controller: C,
    pub flows: PathMap<C::Flow>,
    /// What was kept before the last decrease.
    before: PathMap<C::Flow>,
}

/// `controller` with no path yet, for an [`Entry`](super::Entry).
pub(super) fn boxed<C: Controller + 'static>(controller: C) -> Box<dyn AnyController> {
    Box::new(Flows::new(controller))
}

impl<C: Controller> Flows<C> {
    pub fn new(controller: C) -> Self {
        Flows {
            controller,
            flows: PathMap::default(),
            before: PathMap::default(),
        }
    }

    /// What `event` does with path `id`.
    fn with<T>(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        event: impl FnOnce(&mut C, Own<C::Flow>) -> T,
    ) -> Option<T> {
        let path = paths.get(id)?;
        let (before, flow, after) = self.flows.split(id)?;
        let own = Own {
            now,
            path,
            flow,
            paths,
            others: [before, after],
        };
        Some(event(&mut self.controller, own))
    }
}

impl<C: Controller> AnyController for Flows<C> {
    fn on_path_added(&mut self, now: Instant, id: PathId) {
        let flow = self.controller.on_path_added(now, id);
        // A model is asked for no decrease.
        if !self.controller.is_model() {
            self.before.insert(id, flow.clone());
        }
        self.flows.insert(id, flow);
    }

    fn on_path_closed(&mut self, now: Instant, id: PathId) {
        self.flows.remove(id);
        self.before.remove(id);
        self.controller.on_path_closed(now, id);
    }

    fn on_path_reset(&mut self, now: Instant, id: PathId) {
        self.controller.on_path_closed(now, id);
        self.on_path_added(now, id);
    }

    fn initial_window_packets(&self) -> Option<f64> {
        self.controller.initial_window_packets()
    }

    fn has_slow_start(&self) -> bool {
        self.controller.has_slow_start()
    }

    fn reads_one_way_delay(&self) -> bool {
        self.controller.reads_one_way_delay()
    }

    fn bottleneck(&self, id: PathId) -> Option<PathId> {
        self.controller.bottleneck(id)
    }

    fn is_model(&self) -> bool {
        self.controller.is_model()
    }

    fn on_model(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        ack: &Ack,
        rate: Option<&RateSample>,
    ) -> Option<Control> {
        self.with(now, paths, id, |controller, own| {
            controller.on_model(own, ack, rate)
        })?
    }

    fn on_lost(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        loss: &Loss,
        flight: Option<&Flight>,
    ) -> Option<Control> {
        self.with(now, paths, id, |controller, own| {
            controller.on_lost(own, loss, flight)
        })?
    }

    fn slow_start_gain(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64 {
        self.with(now, paths, id, |controller, own| {
            controller.slow_start_gain(own)
        })
        .unwrap_or(1.0)
    }

    fn on_sample(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) {
        self.with(now, paths, id, |controller, own| {
            controller.on_sample(own, ack)
        });
    }

    fn on_round(
        &mut self,
        now: Instant,
        paths: &Registry,
        id: PathId,
        round: &Round,
    ) -> Option<Change> {
        self.with(now, paths, id, |controller, own| {
            controller.on_round(own, round)
        })?
    }

    fn next_timer(&self) -> Option<Instant> {
        self.controller.next_timer(&self.flows)
    }

    fn on_time(&mut self, now: Instant, paths: &Registry, id: PathId) -> Option<Change> {
        self.with(now, paths, id, |controller, own| controller.on_time(own))?
    }

    fn increase(&mut self, now: Instant, paths: &Registry, id: PathId, ack: &Ack) -> f64 {
        self.with(now, paths, id, |controller, own| {
            controller.increase(own, ack)
        })
        .unwrap_or(0.0)
    }

    fn decrease(&mut self, now: Instant, paths: &Registry, id: PathId) -> f64 {
        if let (Some(flow), Some(before)) = (self.flows.get(id), self.before.get_mut(id)) {
            before.clone_from(flow);
        }
        self.with(now, paths, id, |controller, own| controller.decrease(own))
            .unwrap_or(0.0)
    }

    fn undo(&mut self, id: PathId) {
        if let (Some(flow), Some(before)) = (self.flows.get_mut(id), self.before.get(id)) {
            flow.clone_from(before);
        }
    }

    fn on_spurious(&mut self, id: PathId) {
        if let Some(flow) = self.flows.get_mut(id) {
            self.controller.on_spurious(flow);
        }
    }

    fn on_underused(&mut self, now: Instant, paths: &Registry, id: PathId) {
        self.with(now, paths, id, |controller, own| {
            controller.on_underused(own)
        });
    }

    fn trace(&self, paths: &Registry, id: PathId, trace: &mut Trace) {
        if let (Some(path), Some(flow)) = (paths.get(id), self.flows.get(id)) {
            self.controller.trace(paths, path, flow, trace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cubic;
    use super::super::testing::*;
    use super::*;

    #[test]
    fn a_path_that_starts_over_has_learned_nothing_and_one_that_left_is_unknown() {
        let now = Instant::now();
        let paths = paths(&[(36, 100)]);
        let mut cubic = cubic::ENTRY.with_defaults();
        close(cubic.decrease(now, &paths, PathId(0)), 0.0);
        cubic.on_path_added(now, PathId(0));
        close(cubic.decrease(now, &paths, PathId(0)), 25_200.0);
        let shown = |w_max_packets| [("w_max_packets", w_max_packets), ("k_secs", 0.0)];
        shows(&*cubic, &paths, &shown(36.0));
        cubic.on_path_reset(now, PathId(0));
        shows(&*cubic, &paths, &shown(0.0));
        cubic.on_path_closed(now, PathId(0));
        shows(&*cubic, &paths, &[]);
        close(cubic.decrease(now, &paths, PathId(0)), 0.0);
    }
}
