//! The files of a run: a row for each path, flow and link at each time.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Write;
use std::path::Path;

use super::Sample;
use super::Shown;
use crate::qoe;
use crate::scenario::Way;
use crate::world::RunError;
use crate::world::World;

/// The files of a run.
pub(super) struct Files {
    paths: BufWriter<File>,
    flows: BufWriter<File>,
    links: BufWriter<File>,
    /// If the controller of a flow is watched.
    decisions: Option<BufWriter<File>>,
    /// If the delays of a flow are asked for.
    delays: Option<BufWriter<File>>,
    /// If there are flows of requests.
    responses: Option<BufWriter<File>>,
    /// If there are DASH clients.
    qoe: Option<qoe::Files>,
}

impl Files {
    /// Writes what is known at the end only, and everything out.
    pub(super) fn end(&mut self, world: &World) -> io::Result<()> {
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
        if let Some(responses) = &mut self.responses {
            for state in &world.connections {
                for (i, [request, arrival]) in state.responses.iter().enumerate() {
                    let (request_s, arrival_s) = (*request as f64 / 1e9, *arrival as f64 / 1e9);
                    writeln!(
                        responses,
                        "{},{},{request_s:.6},{arrival_s:.6}",
                        state.name,
                        i + 1
                    )?;
                }
            }
            responses.flush()?;
        }
        let tables = [&mut self.paths, &mut self.flows, &mut self.links];
        let others = self.decisions.iter_mut().chain(&mut self.delays);
        for file in tables.into_iter().chain(others) {
            file.flush()?;
        }
        Ok(())
    }
}

pub(super) fn open(out: &Path, world: &World) -> Result<Files, RunError> {
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
    let has_requests = world.flows().any(|flow| flow.requests.is_some());
    let responses = match has_requests {
        true => Some(create(
            "responses.csv",
            "flow,response,request_s,arrival_s",
        )?),
        false => None,
    };
    let decisions = match is_watched {
        true => Some(create("decisions.csv", "time_s,flow,path,symbol,value")?),
        false => None,
    };
    let has_delays = world.flows().any(|flow| flow.delays.is_some());
    let delays = match has_delays {
        true => Some(create("delays.csv", "time_s,flow,path,delay_ms")?),
        false => None,
    };
    Ok(Files {
        qoe,
        responses,
        decisions,
        delays,
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
pub(super) fn write(
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
    if let Some(file) = &mut files.delays {
        write_delays(file, world)?;
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

/// A row for each packet whose delay was kept since the last ones were written.
fn write_delays(file: &mut BufWriter<File>, world: &World) -> io::Result<()> {
    for (i, state) in world.connections.iter().enumerate() {
        for arrival in state.delays.iter().flat_map(|delays| &delays.arrivals) {
            let (at, delay) = (arrival.at as f64 / 1e9, arrival.delay as f64 / 1e6);
            let path = &world.flow_of(i).paths[arrival.path].name;
            writeln!(file, "{at:.6},{},{path},{delay:.3}", state.name)?;
        }
    }
    Ok(())
}
