//! What a flow wants of its connection: downloads, uploads, videos.

use std::time::Duration;

use mpq_decision::paths::Progress;
use mpq_driver::multipath;
use mpq_wire::model::Nanos;

use super::World;
use crate::app;
use crate::failure::Failure;
use crate::host;
use crate::host::Host;
use crate::host::NEVER;
use crate::scenario::Flow;
use crate::scenario::Requests;
use crate::scenario::Way;
use crate::viewer;

/// The stream of an upload.
const UPLOAD: u64 = 0;

/// The streams of what goes the other way, of client and server.
const OTHER_WAY: [u64; 2] = [2, 3];

/// Lets the sender's path resume from what it remembers, if it does.
fn resume(flow: &Flow, host: &mut Host, path_id: u64, path: Option<usize>) {
    let known = path.and_then(|path| flow.paths.get(path)?.known.as_ref());
    let is_sender = host.is_client == (flow.direction == Way::Up);
    if let Some(known) = known.filter(|_| is_sender) {
        // A path that is gone already needs no window.
        let (window, rtt) = (known.window.value.0, known.rtt.value.0);
        let _ = host.quic.resume_path(path_id, window, rtt);
    }
}

impl World<'_> {
    /// What the host's own events and its application want. Returns when they want to be asked again.
    pub(super) fn step(&mut self, host: &mut Host) -> Nanos {
        let connection = host.connection;
        let flow = self.flow_of(connection);
        let now = self.base + Duration::from_nanos(self.now);
        while let Some(event) = host.quic.path_event_next() {
            if host.is_client {
                self.connections[connection].paths.on_event(now, &event);
            }
            let change = multipath::on_event(&mut host.quic, event);
            if let Some(multipath::PathChange::Opened { path_id, peer, .. }) = change {
                resume(flow, host, path_id, host::path_of(peer));
            }
        }
        if !host.quic.is_established() || host.is_given_up {
            return NEVER;
        }
        host.supply_cids();
        if host.is_client {
            self.note(connection, host.attempt, Progress::Established);
            self.race(connection);
        }
        let state = &mut self.connections[connection];
        if state.ended.is_some() || !(state.is_kept && state.attempt == host.attempt) {
            return NEVER;
        }
        let mut next = NEVER;
        if host.is_client {
            if state.established.is_none() {
                let lead = flow.first_request.as_ref();
                let lead = lead.map_or(Duration::ZERO, |lead| lead.value.0);
                state.next_request = self.now + lead.as_nanos() as Nanos;
                state.established = Some(self.now);
            }
            let is_waiting = match &state.viewer {
                Some(viewer) => viewer.is_waiting(),
                None => state.request.is_some() || state.has_beside || !state.is_other_done,
            };
            let (paths, ends) = (&mut state.paths, &state.ends);
            let clock = (self.base, self.now);
            next = paths.step(
                &mut host.quic,
                ends,
                clock,
                (host.received.bytes, is_waiting),
            );
        }
        if !host.has_begun {
            host.has_begun = true;
            resume(flow, host, 0, Some(self.attempts[host.attempt].path));
            let is_receiver = host.is_client == (flow.direction == Way::Down);
            if let Some(size) = flow.other_way.as_ref().filter(|_| is_receiver) {
                let stream = OTHER_WAY[usize::from(!host.is_client)];
                host.sender.start(stream, size.value.0);
            }
        }
        match (host.is_client, flow.direction) {
            (true, Way::Down) => {
                let viewer = &mut state.viewer;
                let on_data = |stream, bytes| {
                    if let Some(viewer) = viewer {
                        viewer.on_data(stream, bytes);
                    }
                };
                app::read(
                    &mut host.quic,
                    &mut self.scratch,
                    &mut host.received,
                    on_data,
                );
                next = next.min(match flow.dash {
                    Some(_) => self.step_viewer(host),
                    None => self.step_client(host),
                });
                host.sender.pump(&mut host.quic, self.now);
            }
            (true, Way::Up) => {
                if state.request.is_none() {
                    let bytes = flow.size.as_ref().map_or(app::ENDLESS, |size| size.value.0);
                    host.sender.start(UPLOAD, bytes);
                    state.request = Some((UPLOAD, self.now));
                }
                host.sender.pump(&mut host.quic, self.now);
                let received = &mut host.received;
                app::read(&mut host.quic, &mut self.scratch, received, |_, _| ());
                self.take_uploads(host);
            }
            (false, Way::Down) => {
                let (received, sender) = (&mut host.received, &mut host.sender);
                app::serve(&mut host.quic, &mut self.scratch, received, sender, now);
                let more_at = host.sender.pump(&mut host.quic, self.now);
                next = next.min(more_at.unwrap_or(NEVER));
                self.take_uploads(host);
            }
            (false, Way::Up) => {
                let received = &mut host.received;
                app::read(&mut host.quic, &mut self.scratch, received, |_, _| ());
                host.sender.pump(&mut host.quic, self.now);
                self.take_uploads(host);
            }
        }
        self.judge(host);
        next
    }

    /// Takes note of streams that came to their end and are no responses.
    fn take_uploads(&mut self, host: &mut Host) {
        let flow = self.flow_of(host.connection);
        let state = &mut self.connections[host.connection];
        for (stream, bytes) in std::mem::take(&mut host.received.finished) {
            let is_main = stream == UPLOAD;
            let wanted = if is_main { &flow.size } else { &flow.other_way };
            if let Some(wanted) = wanted.as_ref().map(|size| size.value.0) {
                if bytes != wanted {
                    let failure = Failure::Length {
                        stream,
                        bytes,
                        wanted,
                    };
                    return self.end(host, Some(failure));
                }
            }
            match is_main {
                true => {
                    state.is_main_done = true;
                    state.completed = 1;
                    state.times.push((self.now - state.start) as f64 / 1e9);
                }
                false => state.is_other_done = true,
            }
        }
    }

    /// Ends the connection of a host if what it read is wrong, or if all is there.
    fn judge(&mut self, host: &mut Host) {
        let state = &self.connections[host.connection];
        if state.ended.is_some() {
            return;
        }
        if let Some((stream, offset)) = host.received.wrong {
            self.end(host, Some(Failure::Wrong { stream, offset }));
        } else if state.is_main_done && state.is_other_done {
            self.end(host, None);
        }
    }

    /// The downloading client: sends requests, counts responses.
    fn step_client(&mut self, host: &mut Host) -> Nanos {
        let flow = self.flow_of(host.connection);
        let state = &mut self.connections[host.connection];
        let (count, pause) = match (&flow.requests, &flow.size) {
            (Some(r), _) => (r.count, r.pause.value.0),
            (None, Some(_)) => (Some(1), Duration::ZERO),
            (None, None) => (None, Duration::ZERO),
        };
        let bytes_after = |completed| match (&flow.requests, &flow.size) {
            (Some(requests), _) => requests.bytes_after(completed),
            (None, Some(size)) => size.value.0,
            (None, None) => app::ENDLESS,
        };
        for (stream, length) in std::mem::take(&mut host.received.finished) {
            let Some((_, began)) = state.request.take_if(|(under_way, _)| *under_way == stream)
            else {
                continue;
            };
            let bytes = bytes_after(state.completed);
            if length != bytes && bytes != app::ENDLESS {
                let failure = Failure::Length {
                    stream,
                    bytes: length,
                    wanted: bytes,
                };
                self.end(host, Some(failure));
                return NEVER;
            }
            // A transfer's time includes the handshake, a response's does not.
            let from = if flow.requests.is_some() {
                began
            } else {
                state.start
            };
            state.times.push((self.now - from) as f64 / 1e9);
            if flow.requests.is_some() {
                state.responses.push([began, self.now]);
            }
            state.completed += 1;
            state.next_request = self.now + pause.as_nanos() as Nanos;
        }
        if count.is_some_and(|count| state.completed >= count) {
            state.is_main_done = true;
            return NEVER;
        }
        if let Some(beside) = flow.beside.as_ref().filter(|_| !state.has_beside) {
            // The limit on streams is above one.
            let hints = beside.hints();
            let (quic, sender, stream) = (&mut host.quic, &mut host.sender, state.next_stream);
            if app::request(quic, sender, stream, app::ENDLESS, &hints).is_ok() {
                state.has_beside = true;
                state.next_stream += 4;
                state.next_request = self.now + beside.lead.value.0.as_nanos() as Nanos;
            }
        }
        if state.request.is_some() {
            return NEVER;
        }
        if state.next_request > self.now {
            return state.next_request;
        }
        let hints = flow
            .requests
            .as_ref()
            .map(Requests::hints)
            .unwrap_or_default();
        let (quic, sender, stream) = (&mut host.quic, &mut host.sender, state.next_stream);
        let bytes = bytes_after(state.completed);
        match app::request(quic, sender, stream, bytes, &hints) {
            Ok(()) => {
                state.request = Some((state.next_stream, self.now));
                state.next_stream += 4;
                NEVER
            }
            // The peer's limit on streams: it grows with what comes from the peer.
            Err(_) => NEVER,
        }
    }

    /// The DASH client.
    fn step_viewer(&mut self, host: &mut Host) -> Nanos {
        let now = self.instant();
        let state = &mut self.connections[host.connection];
        // Which streams ended follows from their sizes.
        host.received.finished.clear();
        let Some(viewer) = &mut state.viewer else {
            return NEVER;
        };
        match viewer.step(
            &mut host.quic,
            &mut host.sender,
            &mut state.next_stream,
            now,
        ) {
            Ok(viewer::Next::At(at)) => at.saturating_duration_since(self.base).as_nanos() as Nanos,
            Ok(viewer::Next::Over) => {
                state.completed = 1;
                state.is_main_done = true;
                NEVER
            }
            Err(e) => {
                self.end(host, Some(Failure::Player(e.to_string())));
                NEVER
            }
        }
    }

    /// Lets the buffers of all who still watch play up to now.
    pub(super) fn advance_viewers(&mut self) {
        let now = self.instant();
        let connections = self.connections.iter_mut();
        for state in connections.filter(|state| state.ended.is_none()) {
            if let Some(viewer) = &mut state.viewer {
                viewer.advance(now);
            }
        }
    }
}
