//! A host's turn: timers, events, application, sending; and when the next one comes.

use mpq_wire::model::Nanos;

use super::lives::NO_ERROR;
use super::queue::Event;
use super::World;
use crate::failure::Failure;
use crate::host;
use crate::host::NEVER;

impl World<'_> {
    /// Makes sure that a host is served at `at`, or before.
    pub(super) fn wake(&mut self, host: usize, at: Nanos) {
        let Some(state) = self.hosts[host].as_mut().filter(|state| at < state.wake_at) else {
            return;
        };
        state.wake_at = at;
        state.wake_number = self.queue.next_number();
        self.queue_wake(host);
    }

    /// Queues a host's next wake, unless an event is queued that comes before it and will do so:
    /// timers move on with every packet, and few of them are ever due.
    fn queue_wake(&mut self, host: usize) {
        let Some(state) = &mut self.hosts[host] else {
            return;
        };
        let (at, number) = (state.wake_at, state.wake_number);
        if at < state.queued.last().copied().unwrap_or(NEVER) {
            state.queued.push(at);
            self.queue
                .push_numbered(at, number, Event::Wake(host as u32));
        }
    }

    /// A queued wake's time has come.
    pub(super) fn on_wake(&mut self, host: usize) {
        let Some(state) = &mut self.hosts[host] else {
            return;
        };
        state.queued.pop();
        if state.wake_at == self.now {
            self.serve(host);
        } else {
            self.queue_wake(host);
        }
    }

    /// Timers, events, application, sending; then the next time.
    pub(super) fn serve(&mut self, index: usize) {
        self.set_clock();
        let Some(mut host) = self.hosts[index].take() else {
            return;
        };
        host.wake_at = NEVER;
        host.served_at = Some(self.now);
        // What arrived since may have moved it, which shows at the end of this turn: no timer begins in the past.
        if host.timer <= self.now {
            host.quic.on_timeout();
        }
        let application = self.step(&mut host);
        self.send(index, &mut host);
        if host.is_given_up && host.quic.stats().recv > 0 {
            // After what completes the handshake, without which the server could not read it. An
            // error means that it is closing already.
            if host.quic.close(true, NO_ERROR, b"").is_ok() {
                self.send(index, &mut host);
            }
        }
        if host.quic.is_closed() {
            let connection = host.connection;
            let reason = mpq_driver::close_reason(
                &host.quic,
                host.last_recv_error,
                host::address(
                    connection,
                    self.attempts[host.attempt].path,
                    !host.is_client,
                ),
                host::settings(self.flow_of(connection)).idle_timeout,
            );
            let attempt = host.attempt;
            self.hosts[index] = Some(host);
            self.on_closed(connection, attempt, Failure::Closed(reason));
            return;
        }
        host.timer = host.quic.timeout_instant().map_or(NEVER, |at| {
            at.saturating_duration_since(self.base).as_nanos() as Nanos
        });
        // What is due within the gathering time leaves together.
        let release = host
            .held
            .map_or(NEVER, |(_, at, _)| at.saturating_sub(self.gather));
        let next = host.timer.min(release).min(application);
        self.hosts[index] = Some(host);
        if next < NEVER {
            // A timer that did not move would keep time from passing.
            self.wake(index, next.max(self.now + 1_000));
        }
    }
}
