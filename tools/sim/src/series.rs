//! What is measured: series as rows of files, and metrics of the whole run and of windows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;

use mpq_wire::model::Nanos;

use crate::host;
use crate::network::LinkCounters;
use crate::network::HEADER_BYTES;
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

/// The files of a run.
struct Files {
    paths: BufWriter<File>,
    flows: BufWriter<File>,
    links: BufWriter<File>,
    /// If the controller of a flow is watched.
    decisions: Option<BufWriter<File>>,
    /// If there are DASH clients.
    qoe: Option<qoe::Files>,
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
        let files = out.map(|out| open(out, world)).transpose()?;
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
    pub(crate) fn sample(&mut self, world: &World) -> Result<(), RunError> {
        let sample = self.take(world);
        let shown = shown(world);
        if let Some(files) = &mut self.files {
            write(files, world, &self.last, &sample, &shown)
                .map_err(|e| RunError::Write(self.out.clone(), e))?;
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
    pub(crate) fn finish(mut self, world: &World) -> Result<BTreeMap<String, f64>, RunError> {
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
            if let Some(at) = connection.established {
                metrics.insert(name("handshake_ms"), (at - connection.start) as f64 / 1e6);
            }
            if flow.size.is_some() || flow.requests.is_some() {
                if let Some(median) = median(&connection.times) {
                    metrics.insert(name("completion_s"), median);
                }
            }
            if let Some(viewer) = &connection.viewer {
                let seen = qoe::metrics(viewer.player()).into_iter();
                metrics.extend(seen.map(|(metric, value)| (name(metric), value)));
            }
        }
        for flow in world.flows().filter(|flow| flow.count > 1) {
            group(&mut metrics, &flow.name, flow.count);
            for window in &self.spans[1..] {
                group_with(&mut metrics, &window.prefix, &flow.name, flow.count);
            }
        }
        Ok(metrics)
    }

    fn take(&mut self, world: &World) -> Sample {
        let connections = world.connections.iter().enumerate().map(|(i, state)| {
            let (client, server) = (&world.hosts[2 * i], &world.hosts[2 * i + 1]);
            let (sender, receiver) = match world.flow_of(i).direction {
                Way::Up => (client, server),
                Way::Down => (server, client),
            };
            let mut paths = vec![PathSample::default(); state.routes.len()];
            for (k, path) in paths.iter_mut().enumerate() {
                if let Some(sender) = sender {
                    path.sent_packets = sender.traffic[k].sent_packets;
                    path.sent_bytes = sender.traffic[k].sent_bytes;
                }
                if let Some(receiver) = receiver {
                    path.received_packets = receiver.traffic[k].received_packets;
                    path.received_bytes = receiver.traffic[k].received_bytes;
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

    fn span_metrics(&self, span: &Span, world: &World, metrics: &mut BTreeMap<String, f64>) {
        let (begin, end) = (&span.begin, &span.end);
        let mut goodputs = Vec::new();
        let mut total_bytes = 0;
        for (i, state) in world.connections.iter().enumerate() {
            let (a, b) = (&begin.connections[i], &end.connections[i]);
            // The whole run counts from the flow's start to its end, a window in full.
            let (from, to) = match span.prefix.is_empty() {
                true => (state.start.min(end.at), state.ended.unwrap_or(end.at)),
                false => (span.from, span.to),
            };
            let seconds = (to - from) as f64 / 1e9;
            let mbps = |bytes: u64| match seconds > 0.0 {
                true => bytes as f64 * 8.0 / 1e6 / seconds,
                false => 0.0,
            };
            let delivered = b.delivered_bytes - a.delivered_bytes;
            total_bytes += delivered;
            goodputs.push(mbps(delivered));
            let mut put = |metric: &str, value: f64| {
                metrics.insert(
                    format!("{}flow.{}.{metric}", span.prefix, state.name),
                    value,
                );
            };
            put("goodput_mbps", mbps(delivered));
            put("delivered_bytes", delivered as f64);
            put("copied_bytes", (b.copied_bytes - a.copied_bytes) as f64);
            let received: u64 = b.paths.iter().map(|p| p.received_bytes).sum::<u64>()
                - a.paths.iter().map(|p| p.received_bytes).sum::<u64>();
            let (mut sent, mut lost) = (0, 0);
            for (k, (a, b)) in a.paths.iter().zip(&b.paths).enumerate() {
                let name = &world.flow_of(i).paths[k].name;
                let mut put =
                    |metric: &str, value: f64| put(&format!("path.{name}.{metric}"), value);
                let path_sent = b.sent_packets - a.sent_packets;
                let path_lost = b.lost_packets - a.lost_packets;
                let bytes = b.received_bytes - a.received_bytes;
                sent += path_sent;
                lost += path_lost;
                put("goodput_mbps", mbps(bytes));
                put("sent_bytes", (b.sent_bytes - a.sent_bytes) as f64);
                put("sent_packets", path_sent as f64);
                put("lost_packets", path_lost as f64);
                put("loss", ratio(path_lost as f64, path_sent as f64));
                put("share", ratio(bytes as f64, received as f64));
                let (cwnd, srtt) = &span.windows[i][k];
                if let (Some(cwnd), Some(srtt)) = (cwnd.value(), srtt.value()) {
                    put("mean_cwnd_bytes", cwnd);
                    put("mean_srtt_ms", srtt);
                }
                let route = &state.routes[k];
                let route = match world.flow_of(i).direction {
                    Way::Up => &route.up,
                    Way::Down => &route.down,
                };
                if let Some(capacity) = world.network.route_capacity(route, from, to) {
                    let packets = b.received_packets - a.received_packets;
                    put(
                        "utilisation",
                        ratio((bytes + packets * HEADER_BYTES) as f64, capacity),
                    );
                }
            }
            put("sent_packets", sent as f64);
            put("lost_packets", lost as f64);
            put("loss", ratio(lost as f64, sent as f64));
        }
        for ((connection, path, symbol), mean) in &span.shown {
            let state = &world.connections[*connection];
            let path = &world.flow_of(*connection).paths[*path].name;
            let name = format!("{}flow.{}.path.{path}.cc.{symbol}", span.prefix, state.name);
            metrics.extend(mean.value().map(|value| (name, value)));
        }
        for (i, name) in self.link_names.iter().enumerate() {
            let ((a, _), (b, _)) = (begin.links[i], end.links[i]);
            let mut put = |metric: &str, value: f64| {
                metrics.insert(format!("{}link.{name}.{metric}", span.prefix), value);
            };
            let delivered = (b.delivered_bytes - a.delivered_bytes) as f64;
            put("delivered_bytes", delivered);
            put("queue_drops", (b.queue_drops - a.queue_drops) as f64);
            put("losses", (b.losses - a.losses) as f64);
            put("marks", (b.marks - a.marks) as f64);
            put("max_queue_bytes", span.queues[i].max);
            if let Some(mean) = span.queues[i].value() {
                put("mean_queue_bytes", mean);
            }
            let capacity = world.network.directions[i].capacity_bytes(begin.at, end.at);
            if let Some(capacity) = capacity {
                put("utilisation", ratio(delivered, capacity));
            }
        }
        let mut put = |metric: &str, value: f64| {
            metrics.insert(format!("{}total.{metric}", span.prefix), value);
        };
        let seconds = (end.at - begin.at) as f64 / 1e9;
        put("delivered_bytes", total_bytes as f64);
        put(
            "goodput_mbps",
            ratio(total_bytes as f64 * 8.0 / 1e6, seconds),
        );
        put("jain", jain(&goodputs));
    }
}

/// What the controllers that are watched show of the paths that exist.
fn shown(world: &World) -> Vec<Shown> {
    let mut all = Vec::new();
    for (connection, state) in world.connections.iter().enumerate() {
        let Some(decisions) = state.decisions.as_ref().filter(|_| state.ended.is_none()) else {
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

/// Jain's fairness index (1984): 1 if all are equal, 1/n if one has everything.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|v| v * v).sum();
    ratio(sum * sum, values.len() as f64 * squares)
}

/// `a / b`, and 0 where there is nothing to compare with.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 {
        a / b
    } else {
        0.0
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        n if n.is_multiple_of(2) => Some((values[half - 1] + values[half]) / 2.0),
        _ => Some(values[half]),
    }
}

fn group(metrics: &mut BTreeMap<String, f64>, flow: &str, count: u32) {
    group_with(metrics, "", flow, count);
}

/// Metrics of all connections of a flow together.
fn group_with(metrics: &mut BTreeMap<String, f64>, prefix: &str, flow: &str, count: u32) {
    const SUMS: [&str; 7] = [
        "goodput_mbps",
        "delivered_bytes",
        "copied_bytes",
        "sent_bytes",
        "sent_packets",
        "lost_packets",
        "completed",
    ];
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for i in 1..=count {
        let start = format!("{prefix}flow.{flow}-{i}.");
        for (key, value) in metrics.range(start.clone()..) {
            let Some(metric) = key.strip_prefix(&start) else {
                break;
            };
            all.entry(metric.to_owned()).or_default().push(*value);
        }
    }
    if let Some(goodputs) = all.get("goodput_mbps") {
        metrics.insert(format!("{prefix}flow.{flow}.jain"), jain(goodputs));
    }
    for (metric, values) in all {
        let sum: f64 = values.iter().sum();
        let is_sum = SUMS.iter().any(|s| metric.rsplit('.').next() == Some(s));
        let value = if is_sum {
            sum
        } else {
            sum / values.len() as f64
        };
        metrics.insert(format!("{prefix}flow.{flow}.{metric}"), value);
    }
}

impl Files {
    /// Writes what is known at the end only, and everything out.
    fn end(&mut self, world: &World) -> io::Result<()> {
        if let Some(qoe) = &mut self.qoe {
            for state in &world.connections {
                if let Some(viewer) = &state.viewer {
                    let began_s = state.start as f64 / 1e9;
                    qoe::write_segments(&mut qoe.segments, began_s, &state.name, viewer.player())?;
                }
            }
            qoe.dash.flush()?;
            qoe.segments.flush()?;
        }
        let tables = [&mut self.paths, &mut self.flows, &mut self.links];
        for file in tables.into_iter().chain(&mut self.decisions) {
            file.flush()?;
        }
        Ok(())
    }
}

fn open(out: &Path, world: &World) -> Result<Files, RunError> {
    let has_dash = world.flows().any(|flow| flow.dash.is_some());
    let is_watched = world.flows().any(|flow| flow.cc_trace);
    let create = |name: &str, header: &str| {
        let path = out.join(name);
        let create = || -> io::Result<BufWriter<File>> {
            let mut file = BufWriter::new(File::create(&path)?);
            writeln!(file, "{header}")?;
            Ok(file)
        };
        create().map_err(|e| RunError::Write(path.display().to_string(), e))
    };
    let qoe = match has_dash {
        true => Some(qoe::Files {
            dash: create("dash.csv", qoe::DASH_HEADER)?,
            segments: create("segments.csv", qoe::SEGMENTS_HEADER)?,
        }),
        false => None,
    };
    let decisions = match is_watched {
        true => Some(create("decisions.csv", "time_s,flow,path,symbol,value")?),
        false => None,
    };
    Ok(Files {
        qoe,
        decisions,
        paths: create(
            "paths.csv",
            "time_s,flow,path,goodput_mbps,sent_bytes,received_bytes,lost_packets,sent_packets,\
             cwnd_bytes,srtt_ms",
        )?,
        flows: create("flows.csv", "time_s,flow,goodput_mbps,delivered_bytes")?,
        links: create(
            "links.csv",
            "time_s,link,direction,delivered_bytes,queue_bytes,queue_drops,losses,marks",
        )?,
    })
}

/// One row for each path, flow and link, of what came since `last`, and for each value of `shown`.
fn write(
    files: &mut Files,
    world: &World,
    last: &Sample,
    now: &Sample,
    shown: &[Shown],
) -> io::Result<()> {
    let time = now.at as f64 / 1e9;
    let seconds = (now.at - last.at) as f64 / 1e9;
    let mbps = |bytes: u64| bytes as f64 * 8.0 / 1e6 / seconds;
    for (i, state) in world.connections.iter().enumerate() {
        if state.start > now.at || state.ended.is_some_and(|ended| ended < last.at) {
            continue;
        }
        let (a, b) = (&last.connections[i], &now.connections[i]);
        let delivered = b.delivered_bytes - a.delivered_bytes;
        let goodput = mbps(delivered);
        writeln!(
            files.flows,
            "{time:.6},{},{goodput:.6},{delivered}",
            state.name
        )?;
        if let (Some(qoe), Some(viewer)) = (&mut files.qoe, &state.viewer) {
            qoe::write_row(&mut qoe.dash, time, &state.name, viewer.player())?;
        }
        for (k, (a, b)) in a.paths.iter().zip(&b.paths).enumerate() {
            let received = b.received_bytes - a.received_bytes;
            write!(
                files.paths,
                "{time:.6},{},{},{:.6},{},{received},{},{},",
                state.name,
                world.flow_of(i).paths[k].name,
                mbps(received),
                b.sent_bytes - a.sent_bytes,
                b.lost_packets - a.lost_packets,
                b.sent_packets - a.sent_packets,
            )?;
            match b.window {
                Some((cwnd, srtt)) => writeln!(files.paths, "{cwnd},{srtt:.3}")?,
                None => writeln!(files.paths, ",")?,
            }
        }
    }
    if let Some(decisions) = &mut files.decisions {
        for one in shown {
            let name = &world.connections[one.connection].name;
            let path = &world.flow_of(one.connection).paths[one.path].name;
            let (symbol, value) = (one.symbol, one.value);
            writeln!(decisions, "{time:.6},{name},{path},{symbol},{value}")?;
        }
    }
    for (i, link) in world.network.directions.iter().enumerate() {
        let ((a, _), (b, queue)) = (last.links[i], now.links[i]);
        let way = match link.way {
            Way::Up => "up",
            Way::Down => "down",
        };
        writeln!(
            files.links,
            "{time:.6},{},{way},{},{queue},{},{},{}",
            link.name,
            b.delivered_bytes - a.delivered_bytes,
            b.queue_drops - a.queue_drops,
            b.losses - a.losses,
            b.marks - a.marks,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_by_hand() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), 0.25);
        // (1 + 3)^2 / (2 * (1 + 9))
        assert_eq!(jain(&[1.0, 3.0]), 0.8);
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0]), Some(3.0));
    }

    #[test]
    fn a_group_has_sums_means_and_jain() {
        let mut metrics = BTreeMap::from([
            ("flow.bg-1.goodput_mbps".to_owned(), 1.0),
            ("flow.bg-1.loss".to_owned(), 0.1),
            ("flow.bg-2.goodput_mbps".to_owned(), 3.0),
            ("flow.bg-2.loss".to_owned(), 0.3),
            ("flow.bg-20.loss".to_owned(), 0.9),
        ]);
        group(&mut metrics, "bg", 2);
        assert_eq!(metrics["flow.bg.goodput_mbps"], 4.0);
        assert_eq!(metrics["flow.bg.loss"], 0.2);
        assert_eq!(metrics["flow.bg.jain"], 0.8);
    }
}
