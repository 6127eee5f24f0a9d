//! How a connection's handshake comes about: attempts over its paths, of which one is kept.

use std::time::Duration;

use mpq_decision::paths::Progress;
use mpq_decision::paths::Step;
use mpq_wire::model::Nanos;

use super::queue::Event;
use super::World;
use crate::decisions::Decisions;
use crate::failure::Failure;
use crate::host::Attempt;
use crate::host::Host;
use crate::host::NEVER;
use crate::paths::ClientPaths;

impl World<'_> {
    /// A connection begins.
    pub(super) fn start(&mut self, connection: usize) {
        let delay = self.flow_of(connection).attempt_delay.as_ref();
        let delay = delay.map(|delay| delay.value.0);
        let state = &mut self.connections[connection];
        if state.ended.is_none() {
            let (paths, ends) = (&mut state.paths, &state.ends);
            state.race = Some(paths.attempts(ends, self.base, self.now, delay));
            self.race(connection);
        }
    }

    /// It is time to look whether another attempt begins.
    pub(super) fn on_race_timer(&mut self, connection: usize) {
        self.connections[connection].race_timer = NEVER;
        self.race(connection);
    }

    /// Something became of an attempt.
    pub(super) fn note(&mut self, connection: usize, attempt: usize, progress: Progress) {
        let now = self.instant();
        let state = &mut self.connections[connection];
        if state.is_kept {
            return;
        }
        let number = state.attempts.iter().position(|one| *one == attempt);
        if let (Some(race), Some(number)) = (&mut state.race, number) {
            race.on_progress(now, number, progress);
        }
    }

    /// An end of an attempt has closed.
    pub(super) fn on_closed(&mut self, connection: usize, attempt: usize, failure: Failure) {
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return;
        }
        if state.is_kept {
            if state.attempt == attempt {
                self.finish(connection, Some(failure));
            }
            return;
        }
        // What the flow fails with if no other attempt succeeds.
        state.failure = Some(failure);
        self.note(connection, attempt, Progress::Failed);
        self.close(attempt);
        self.wake(2 * attempt, self.now);
        self.race(connection);
    }

    /// Does what the attempts at a connection want.
    pub(super) fn race(&mut self, connection: usize) {
        let now = self.instant();
        loop {
            let state = &mut self.connections[connection];
            if state.is_kept || state.ended.is_some() {
                return;
            }
            let Some(race) = &mut state.race else { return };
            match race.next_step(now) {
                Some(Step::Begin { attempt, pair }) => {
                    let path = ClientPaths::path_of(&pair);
                    self.begin(connection, attempt, path);
                }
                Some(Step::Keep { attempt }) => {
                    let attempt = state.attempts[attempt];
                    self.keep(connection, attempt);
                }
                Some(Step::GiveUp) => {
                    let failure = state.failure.take();
                    let timeout = self.handshake_timeout();
                    let failure = failure.unwrap_or(Failure::Handshake(timeout));
                    self.finish(connection, Some(failure));
                }
                None => {
                    let timer = race.next_timer().map_or(NEVER, |at| {
                        at.saturating_duration_since(self.base).as_nanos() as Nanos
                    });
                    if timer < state.race_timer {
                        state.race_timer = timer;
                        self.queue.push(timer, Event::Attempt(connection as u32));
                    }
                    return;
                }
            }
        }
    }

    /// Begins the attempt `number` at a connection.
    fn begin(&mut self, connection: usize, number: usize, path: usize) {
        self.set_clock();
        let has_trace = self.flow_of(connection).cc_trace;
        let state = &mut self.connections[connection];
        if number == state.attempts.len() {
            state.attempts.push(self.attempts.len());
            self.attempts.push(Attempt {
                connection,
                path,
                decisions: has_trace.then(Decisions::default),
            });
            self.hosts.extend([None, None]);
        }
        let attempt = state.attempts[number];
        self.attempts[attempt].path = path;
        let from = state.ends[path].local;
        match self.connect(attempt, true, from) {
            Ok(quic) => {
                let host = Host::new(quic, true, connection, attempt);
                self.hosts[2 * attempt] = Some(Box::new(host));
                self.serve(2 * attempt);
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// The connection is this attempt's; the others are closed, as soon as they have heard from the
    /// server: before that quiche ends them without a word.
    fn keep(&mut self, connection: usize, attempt: usize) {
        let now = self.base + Duration::from_nanos(self.now);
        let path = self.attempts[attempt].path;
        let state = &mut self.connections[connection];
        state.is_kept = true;
        state.attempt = attempt;
        state.failure = None;
        state.paths.begin(now, path, &state.ends[path]);
        for other in state.attempts.clone() {
            let host = self.hosts[2 * other].as_mut();
            if let Some(host) = host.filter(|_| other != attempt) {
                host.is_given_up = true;
            }
            self.wake(2 * other, self.now);
        }
    }
}
