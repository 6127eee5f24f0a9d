//! How connections begin and end.

use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;
use std::time::Instant;

use mpq_wire::model;
use mpq_wire::model::Nanos;
use mpq_wire::model::Purpose;
use mpq_wire::model::Seeds;

use super::RunError;
use super::World;
use crate::decisions::Decisions;
use crate::delays::Delays;
use crate::failure::Failure;
use crate::host;
use crate::host::Attempt;
use crate::host::ClientAddress;
use crate::host::ClientEnd;
use crate::host::ConnectionState;
use crate::host::Host;
use crate::host::NEVER;
use crate::network::Network;
use crate::paths::ClientPaths;
use crate::scenario::Scenario;
use crate::scenario::Way;
use crate::viewer::Viewer;

/// The code of a clean end on the wire: HTTP/3's H3_NO_ERROR.
pub(super) const NO_ERROR: u64 = 0x100;

/// The connections of all flows, before they begin.
pub(super) fn states(
    scenario: &Scenario,
    seed: u64,
    base: Instant,
) -> Result<(Vec<ConnectionState>, Vec<Attempt>), RunError> {
    let mut connections = Vec::new();
    let mut attempts = Vec::new();
    for (index, flow) in scenario.flow.iter().enumerate() {
        let routes = flow.paths.iter().map(|path| {
            let route = Network::route(scenario, &path.name)?;
            Ok(route.of_family(path.ipv6))
        });
        let routes: Vec<_> = routes.collect::<Result<_, _>>().map_err(RunError::Setup)?;
        let mut draws = Seeds {
            master: seed,
            run: 0,
            link: flow.name.clone(),
            way: model::Way::AToB,
        }
        .generator(Purpose::Start);
        for i in 1..=flow.count {
            let name = match flow.count {
                1 => flow.name.clone(),
                _ => format!("{}-{i}", flow.name),
            };
            let spread = flow
                .start_spread
                .as_ref()
                .map_or(Duration::ZERO, |s| s.value.0);
            let late = spread.mul_f64(draws.unit());
            let start = flow.start.value.0 + late;
            let viewer = flow.dash.as_ref();
            let viewer = viewer.map(|dash| Viewer::new(dash, base, start));
            let delays = flow.delays.as_ref();
            let delays = delays.map(|apart| Delays::new(apart.value.0, flow.paths.len()));
            let first = attempts.len();
            attempts.push(Attempt {
                connection: connections.len(),
                path: 0,
                decisions: flow.cc_trace.then(Decisions::default),
            });
            connections.push(ConnectionState {
                name,
                flow: index,
                race: None,
                race_timer: NEVER,
                attempts: vec![first],
                attempt: first,
                is_kept: false,
                paths: ClientPaths::new(flow, connections.len()),
                ends: vec![ClientEnd::default(); flow.paths.len()],
                routes: routes.clone(),
                start: start.as_nanos() as Nanos,
                ended: None,
                established: None,
                completed: 0,
                times: Vec::new(),
                responses: Vec::new(),
                failure: None,
                delays,
                is_main_done: false,
                is_other_done: flow.other_way.is_none(),
                next_stream: 0,
                request: None,
                next_request: 0,
                has_beside: false,
                viewer: viewer.transpose().map_err(RunError::Setup)?,
            });
        }
    }
    Ok((connections, attempts))
}

impl World<'_> {
    /// An attempt's client or server, with its qlog if that is asked for. The client is at `client`.
    pub(super) fn connect(
        &self,
        attempt: usize,
        is_client: bool,
        client: ClientAddress,
    ) -> Result<quiche::Connection, RunError> {
        let failed = |e: quiche::Error| RunError::Setup(format!("no connection: {e}"));
        let Attempt {
            connection,
            path,
            ref decisions,
        } = self.attempts[attempt];
        let flow = self.flow_of(connection);
        let mut config = host::configuration(flow, is_client).map_err(RunError::Setup)?;
        let is_sender = is_client == (flow.direction == Way::Up);
        if let Some(decisions) = decisions.as_ref().filter(|_| is_sender) {
            config.set_cc_observer(Some(decisions.observer().0));
        }
        let scid = host::cid(attempt, is_client, 0);
        let client = client.on(connection, path);
        let server = host::address(connection, path, false);
        let mut quic = match is_client {
            true => quiche::connect(None, &scid, client, server, &mut config),
            false => quiche::accept(&scid, None, server, client, &mut config),
        }
        .map_err(failed)?;
        if let Some(out) = self.options.out.filter(|_| self.options.qlog) {
            let side = if is_client { "client" } else { "server" };
            let state = &self.connections[connection];
            let number = state.attempts.iter().position(|one| *one == attempt);
            let name = match number {
                Some(n) if n > 0 => &format!("{}-attempt-{}", state.name, n + 1),
                _ => &state.name,
            };
            let path = out.join(format!("{name}-{side}.sqlog"));
            let file =
                File::create(&path).map_err(|e| RunError::Write(path.display().to_string(), e))?;
            quic.set_qlog(Box::new(BufWriter::new(file)), name.clone(), side.into());
        }
        Ok(quic)
    }

    /// Ends the connection of a host that has all it wants, or that cannot go on.
    pub(super) fn end(&mut self, host: &mut Host, failure: Option<Failure>) {
        let state = &mut self.connections[host.connection];
        state.ended = Some(self.now);
        state.failure = failure;
        self.ended += 1;
        let _ = host.quic.close(true, NO_ERROR, b"");
    }

    /// Closes an attempt's client.
    pub(super) fn close(&mut self, attempt: usize) {
        if let Some(host) = self.hosts[2 * attempt].as_mut() {
            // Done means that it is closing already.
            let _ = host.quic.close(true, NO_ERROR, b"");
        }
    }

    /// Ends a connection, with the reason if it failed.
    pub(super) fn finish(&mut self, connection: usize, failure: Option<Failure>) {
        let now = self.instant();
        let state = &mut self.connections[connection];
        if state.ended.is_some() {
            return;
        }
        if let Some(viewer) = &mut state.viewer {
            viewer.advance(now);
        }
        state.ended = Some(self.now);
        self.ended += 1;
        let is_clean = failure.is_none();
        state.failure = failure;
        self.set_clock();
        if is_clean {
            for attempt in self.connections[connection].attempts.clone() {
                self.close(attempt);
                self.serve(2 * attempt);
            }
        }
    }
}
