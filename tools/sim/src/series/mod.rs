//! What is measured: series as rows of files, and metrics of the whole run and of windows.

mod files;
mod metrics;

use std::collections::BTreeMap;
use std::path::Path;

use mpq_wire::model::Nanos;

use self::files::Files;
pub(crate) use self::metrics::median;
use self::metrics::quantile;
use crate::host;
use crate::network::LinkCounters;
use crate::qoe;
use crate::scenario::Scenario;
use crate::scenario::Way;
use crate::world::RunError;
use crate::world::World;

/// A path of a connection; counters are totals, of the end that sends the data and of the other.
#[derive(Clone, Copy, Debug, Default)]
struct PathSample {
    sent_packets: u64,
    sent_bytes: u64,
    lost_packets: u64,
    received_packets: u64,
    received_bytes: u64,
    /// Window in bytes and smoothed RTT in milliseconds, while the path exists.
    window: Option<(f64, f64)>,
}

#[derive(Clone, Debug, Default)]
struct ConnectionSample {
    delivered_bytes: u64,
    copied_bytes: u64,
    paths: Vec<PathSample>,
}

/// What the controller of a connection shows of a path.
#[derive(Clone, Copy, Debug)]
struct Shown {
    connection: usize,
    path: usize,
    symbol: &'static str,
    value: f64,
}

/// Everything at one time.
#[derive(Clone, Debug, Default)]
struct Sample {
    at: Nanos,
    connections: Vec<ConnectionSample>,
    links: Vec<(LinkCounters, u64)>,
}

/// Sums of samples, for means.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    max: f64,
    n: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.max = self.max.max(value);
        self.n += 1;
    }

    fn value(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum / self.n as f64)
    }
}

/// The whole run, or a window of it.
struct Span {
    /// `window.NAME.`, or nothing.
    prefix: String,
    from: Nanos,
    to: Nanos,
    begin: Sample,
    end: Sample,
    /// Window and RTT of each path of each connection.
    windows: Vec<Vec<(Mean, Mean)>>,
    queues: Vec<Mean>,
    /// What controllers show, by connection, path and symbol.
    shown: BTreeMap<(usize, usize, &'static str), Mean>,
}

pub(crate) struct Series {
    files: Option<Files>,
    out: String,
    last: Sample,
    spans: Vec<Span>,
    /// Losses of each path as last seen, and those of path IDs that are gone.
    lost: Vec<Vec<(u64, u64)>>,
    link_names: Vec<String>,
}

impl Series {
    pub(crate) fn new(
        scenario: &Scenario,
        out: Option<&Path>,
        world: &World,
    ) -> Result<Series, RunError> {
        let files = out.map(|out| files::open(out, world)).transpose()?;
        let paths: Vec<usize> = world.connections.iter().map(|c| c.routes.len()).collect();
        let period = scenario.sample.value.0.as_nanos() as Nanos;
        let rounded =
            |t: std::time::Duration| (t.as_nanos() as Nanos + period / 2) / period * period;
        let span = |prefix: String, from, to| Span {
            prefix,
            from,
            to,
            begin: Sample::default(),
            end: Sample::default(),
            windows: paths.iter().map(|n| vec![Default::default(); *n]).collect(),
            queues: vec![Mean::default(); world.network.directions.len()],
            shown: BTreeMap::new(),
        };
        let mut spans = vec![span(String::new(), 0, Nanos::MAX)];
        spans.extend(scenario.window.iter().map(|w| {
            let (from, to) = (rounded(w.from.value.0), rounded(w.to.value.0));
            span(format!("window.{}.", w.name), from, to)
        }));
        let way = |way| match way {
            Way::Up => "up",
            Way::Down => "down",
        };
        let link_names = world.network.directions.iter();
        let mut series = Series {
            files,
            out: out.map(|out| out.display().to_string()).unwrap_or_default(),
            last: Sample::default(),
            spans,
            lost: paths.iter().map(|n| vec![(0, 0); *n]).collect(),
            link_names: link_names
                .map(|l| format!("{}.{}", l.name, way(l.way)))
                .collect(),
        };
        let first = series.take(world);
        for span in series.spans.iter_mut().filter(|span| span.from == 0) {
            span.begin = first.clone();
        }
        series.last = first;
        Ok(series)
    }

    /// One row for everything, and what windows need of it.
    pub(crate) fn sample(&mut self, world: &mut World) -> Result<(), RunError> {
        let sample = self.take(world);
        let shown = shown(world);
        if let Some(files) = &mut self.files {
            files::write(files, world, &self.last, &sample, &shown)
                .map_err(|e| RunError::Write(self.out.clone(), e))?;
        }
        for state in &mut world.connections {
            if let Some(delays) = &mut state.delays {
                delays.arrivals.clear();
            }
        }
        for span in &mut self.spans {
            if sample.at == span.from {
                span.begin = sample.clone();
            }
            if sample.at <= span.from || sample.at > span.to {
                continue;
            }
            for (means, connection) in span.windows.iter_mut().zip(&sample.connections) {
                for ((cwnd, srtt), path) in means.iter_mut().zip(&connection.paths) {
                    if let Some((cwnd_bytes, srtt_ms)) = path.window {
                        cwnd.add(cwnd_bytes);
                        srtt.add(srtt_ms);
                    }
                }
            }
            for (mean, (_, queue)) in span.queues.iter_mut().zip(&sample.links) {
                mean.add(*queue as f64);
            }
            for one in &shown {
                let key = (one.connection, one.path, one.symbol);
                span.shown.entry(key).or_default().add(one.value);
            }
            span.end = sample.clone();
        }
        self.last = sample;
        Ok(())
    }

    /// The last row, and all metrics.
    pub(crate) fn finish(mut self, world: &mut World) -> Result<BTreeMap<String, f64>, RunError> {
        if world.now > self.last.at {
            self.sample(world)?;
        }
        if let Some(files) = &mut self.files {
            files
                .end(world)
                .map_err(|e| RunError::Write(self.out.clone(), e))?;
        }
        let mut metrics = BTreeMap::new();
        for span in &self.spans {
            // A run that ended before the window did has no such metrics.
            if !span.prefix.is_empty() && span.end.at < span.to {
                continue;
            }
            self.span_metrics(span, world, &mut metrics);
        }
        for connection in &world.connections {
            let name = |metric: &str| format!("flow.{}.{metric}", connection.name);
            let flow = &world.flow_of_state(connection);
            metrics.insert(name("completed"), connection.completed as f64);
            metrics.insert(name("attempts"), connection.attempts.len() as f64);
            for (path, omega) in connection.paths.impacts() {
                let path = &flow.paths[path].name;
                metrics.insert(name(&format!("path.{path}.impact")), omega);
            }
            if let Some(at) = connection.established {
                metrics.insert(name("handshake_ms"), (at - connection.start) as f64 / 1e6);
            }
            if flow.size.is_some() || flow.requests.is_some() {
                if let Some(median) = median(&connection.times) {
                    metrics.insert(name("completion_s"), median);
                }
                for (metric, part) in [("completion_p95_s", 0.95), ("completion_p99_s", 0.99)] {
                    let value = quantile(&connection.times, part);
                    metrics.extend(value.map(|value| (name(metric), value)));
                }
                let last = connection.times.last().filter(|_| flow.requests.is_some());
                if let Some(&last) = last {
                    metrics.insert(name("completion_last_s"), last);
                }
            }
            if let Some(viewer) = &connection.viewer {
                let seen = qoe::metrics(viewer.player()).into_iter();
                metrics.extend(seen.map(|(metric, value)| (name(metric), value)));
            }
        }
        for flow in world.flows().filter(|flow| flow.count > 1) {
            metrics::group(&mut metrics, &flow.name, flow.count);
            for window in &self.spans[1..] {
                metrics::group_with(&mut metrics, &window.prefix, &flow.name, flow.count);
            }
        }
        Ok(metrics)
    }

    fn take(&mut self, world: &World) -> Sample {
        let connections = world.connections.iter().enumerate().map(|(i, state)| {
            let ends = |attempt: usize| {
                let (client, server) = (&world.hosts[2 * attempt], &world.hosts[2 * attempt + 1]);
                match world.flow_of(i).direction {
                    Way::Up => (client, server),
                    Way::Down => (server, client),
                }
            };
            let (sender, receiver) = ends(state.attempt);
            let mut paths = vec![PathSample::default(); state.routes.len()];
            // Attempts that were not kept are what the flow sent, too.
            for (sender, receiver) in state.attempts.iter().map(|attempt| ends(*attempt)) {
                for (k, path) in paths.iter_mut().enumerate() {
                    if let Some(sender) = sender {
                        path.sent_packets += sender.traffic[k].sent_packets;
                        path.sent_bytes += sender.traffic[k].sent_bytes;
                    }
                    if let Some(receiver) = receiver {
                        path.received_packets += receiver.traffic[k].received_packets;
                        path.received_bytes += receiver.traffic[k].received_bytes;
                    }
                }
            }
            for stats in sender.iter().flat_map(|sender| sender.quic.path_stats()) {
                let Some(path) = host::path_of(stats.local_addr).and_then(|k| paths.get_mut(k))
                else {
                    continue;
                };
                path.lost_packets += stats.lost as u64;
                if state.ended.is_none() {
                    path.window = Some((stats.cwnd as f64, stats.rtt.as_secs_f64() * 1e3));
                }
            }
            for (path, (seen, gone)) in paths.iter_mut().zip(&mut self.lost[i]) {
                // A path ID that is abandoned takes its count with it.
                if path.lost_packets < *seen {
                    *gone += *seen - path.lost_packets;
                }
                *seen = path.lost_packets;
                path.lost_packets += *gone;
            }
            ConnectionSample {
                delivered_bytes: receiver.as_ref().map_or(0, |host| host.received.bytes),
                copied_bytes: sender
                    .as_ref()
                    .map_or(0, |host| host.quic.stats().stream_copied_bytes),
                paths,
            }
        });
        let connections = connections.collect();
        let links = world.network.directions.iter();
        Sample {
            at: world.now,
            connections,
            links: links.map(|link| link.state(world.now)).collect(),
        }
    }
}

/// What the controllers that are watched show of the paths that exist.
fn shown(world: &World) -> Vec<Shown> {
    let mut all = Vec::new();
    for (connection, state) in world.connections.iter().enumerate() {
        let decisions = world.attempts[state.attempt].decisions.as_ref();
        let Some(decisions) = decisions.filter(|_| state.ended.is_none()) else {
            continue;
        };
        for &(path_id, path) in state.paths.open() {
            let values = decisions.of(path_id).into_iter();
            all.extend(values.map(|(symbol, value)| Shown {
                connection,
                path,
                symbol,
                value,
            }));
        }
    }
    all
}
