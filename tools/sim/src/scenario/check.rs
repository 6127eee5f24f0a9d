//! What the types of a scenario cannot say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use mpq_wire::model::QueueLimit;
use mpq_wire::model::Trace;

use super::load::KeyPath;
use super::with_parameter;
use super::Aqm;
use super::Direction;
use super::End;
use super::Flow;
use super::Link;
use super::Scenario;
use super::Way;

/// More paths than this no connection opens.
pub(crate) const MOST_PATHS: usize = 8;

/// More connections than this have no addresses.
const MOST_CONNECTIONS: u64 = 10_000;

/// Where, and what.
type Problem = (KeyPath, String);

fn place(keys: &[&str]) -> KeyPath {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn in_table(table: &str, i: usize, key: &str) -> KeyPath {
    place(&[table, &i.to_string(), key])
}

fn ensure(holds: bool, keys: KeyPath, message: impl FnOnce() -> String) -> Result<(), Problem> {
    match holds {
        true => Ok(()),
        false => Err((keys, message())),
    }
}

/// Checks one case. `folder` is what traces are relative to.
pub(super) fn check(scenario: &Scenario, folder: &Path) -> Result<(), Problem> {
    ensure(
        !scenario.duration.value.0.is_zero(),
        place(&["duration"]),
        || "the duration must be above 0".into(),
    )?;
    ensure(
        scenario.sample.value.0.as_micros() >= 1000,
        place(&["sample"]),
        || "sample: at least \"1 ms\"".into(),
    )?;
    let seeds: BTreeSet<u64> = scenario.seeds.iter().copied().collect();
    ensure(
        !seeds.is_empty() && seeds.len() == scenario.seeds.len(),
        place(&["seeds"]),
        || "seeds: at least one, each once, for example [1, 2, 3]".into(),
    )?;
    ensure(!scenario.link.is_empty(), place(&["link"]), || {
        "no [[link]]".into()
    })?;
    ensure(!scenario.flow.is_empty(), place(&["flow"]), || {
        "no [[flow]]".into()
    })?;

    let mut names = BTreeSet::new();
    for (i, link) in scenario.link.iter().enumerate() {
        ensure(
            names.insert(&link.name),
            in_table("link", i, "name"),
            || format!("a link \"{}\" exists already", link.name),
        )?;
        check_link(link, i, folder)?;
    }
    for (i, path) in scenario.path.iter().enumerate() {
        ensure(
            names.insert(&path.name),
            in_table("path", i, "name"),
            || format!("a link or path \"{}\" exists already", path.name),
        )?;
        check_path(scenario, i)?;
    }
    let mut flow_names = BTreeSet::new();
    for (i, flow) in scenario.flow.iter().enumerate() {
        ensure(
            flow_names.insert(&flow.name),
            in_table("flow", i, "name"),
            || format!("a flow \"{}\" exists already", flow.name),
        )?;
        check_flow(scenario, flow, i)?;
    }
    let connections: u64 = scenario.flow.iter().map(|f| u64::from(f.count)).sum();
    ensure(connections <= MOST_CONNECTIONS, place(&["flow"]), || {
        format!("{connections} connections are more than {MOST_CONNECTIONS}")
    })?;
    for (i, window) in scenario.window.iter().enumerate() {
        let (from, to) = (window.from.value, window.to.value);
        ensure(
            from < to && to <= scenario.duration.value,
            in_table("window", i, "to"),
            || {
                format!(
                    "a window ends after it begins and within the duration, {}",
                    scenario.duration
                )
            },
        )?;
    }
    Ok(())
}

fn check_link(link: &Link, i: usize, folder: &Path) -> Result<(), Problem> {
    let at = |key| in_table("link", i, key);
    ensure(
        link.rtt.is_none() || link.delay.is_none(),
        at("delay"),
        || "rtt and delay say the same twice: keep one of them".into(),
    )?;
    for way in [Way::Up, Way::Down] {
        let own = link.direction(way);
        ensure(
            own.rate.is_none() || own.trace.is_none(),
            at("trace"),
            || "rate and trace: keep one of them".into(),
        )?;
        let bounded = own.rate.is_some() || own.trace.is_some();
        let queue = own
            .queue
            .as_ref()
            .map_or_else(QueueLimit::default, |q| q.value);
        let needs_rtt = matches!(queue, QueueLimit::Bdp { rtt: None, .. });
        ensure(
            !bounded || !needs_rtt || !link.round_trip().is_zero(),
            at("queue"),
            || {
                format!(
                    "link \"{}\": a queue in BDP needs a delay; give the link an rtt, or write \
                 \"1 BDP:rtt=20ms\" or \"50 packets\"",
                    link.name
                )
            },
        )?;
        ensure(own.ecn.is_none() || !own.is_fair(), at("ecn"), || {
            "ecn is of one queue, and fq-codel has one for each flow: use fq-codel-ecn".into()
        })?;
        if let Some(trace) = &own.trace {
            load_trace(trace, folder).map_err(|e| (at("trace"), e))?;
        }
    }
    Ok(())
}

/// Reads a trace: CSV by its name, else Mahimahi's format.
pub(crate) fn load_trace(file: &str, folder: &Path) -> Result<Arc<Trace>, String> {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).map_err(|e| {
        format!(
            "cannot read the trace {}: {e}; it is looked for beside the scenario",
            path.display()
        )
    })?;
    let is_csv = path
        .extension()
        .is_some_and(|ext| ext.eq_ignore_ascii_case("csv"));
    let trace = if is_csv {
        Trace::from_csv(&text)
    } else {
        Trace::from_mahimahi(&text)
    };
    trace
        .map(Arc::new)
        .map_err(|e| format!("the trace {}: {e}", path.display()))
}

fn check_path(scenario: &Scenario, i: usize) -> Result<(), Problem> {
    let path = &scenario.path[i];
    let at = || in_table("path", i, "links");
    ensure(!path.links.is_empty(), at(), || {
        "a path has at least one link".into()
    })?;
    for name in &path.links {
        ensure(scenario.link.iter().any(|l| l.name == *name), at(), || {
            format!(
                "there is no link \"{name}\"; links are {}",
                list(scenario.link.iter().map(|l| &l.name))
            )
        })?;
    }
    scenario.orient(path).map(drop).map_err(|e| (at(), e))
}

fn check_flow(scenario: &Scenario, flow: &Flow, i: usize) -> Result<(), Problem> {
    let at = |key| in_table("flow", i, key);
    ensure(
        !flow.paths.is_empty() && flow.paths.len() <= MOST_PATHS,
        at("paths"),
        || format!("a flow has 1 to {MOST_PATHS} paths"),
    )?;
    let known: Vec<&String> = scenario
        .link
        .iter()
        .map(|l| &l.name)
        .chain(scenario.path.iter().map(|p| &p.name))
        .collect();
    for (k, path) in flow.paths.iter().enumerate() {
        let name = &path.name;
        ensure(known.contains(&name), at("paths"), || {
            format!(
                "there is no path or link \"{name}\"; there are {}",
                list(known.iter().copied())
            )
        })?;
        let mut before = flow.paths[..k].iter();
        ensure(before.all(|p| p.name != *name), at("paths"), || {
            format!("\"{name}\" twice: give two paths over the same links a [[path]] each")
        })?;
    }
    check_path_times(scenario, flow).map_err(|e| (at("paths"), e))?;
    ensure(flow.count >= 1, at("count"), || "count: at least 1".into())?;
    if let Err(reason) = quiche::check_cc_algorithm_name(&flow.cc) {
        ensure(false, at("cc"), || reason.to_string())?;
    }
    for (key, parameter) in flow.cc_keys() {
        let with = with_parameter(&flow.cc, &parameter);
        if let Err(reason) = quiche::check_cc_algorithm_name(&with) {
            ensure(false, at(key), || {
                format!("{key} is {parameter} of a controller that has it: {reason}")
            })?;
        }
    }
    let cc_name = flow.cc.split(':').next().unwrap_or_default();
    let is_silent = cc_name
        .parse::<quiche::CongestionControlAlgorithm>()
        .is_ok();
    ensure(!(flow.cc_trace && is_silent), at("cc_trace"), || {
        format!("{cc_name} is quiche's own and shows nothing: choose another cc, such as lia")
    })?;
    if let Err(reason) = quiche::check_scheduler_name(&flow.scheduler) {
        ensure(false, at("scheduler"), || reason.to_string())?;
    }
    if let Err(reason) = flow.path_policy.parse::<mpq_decision::paths::Choice>() {
        ensure(false, at("path_policy"), || reason.to_string())?;
    }
    let kinds = [
        ("size", flow.size.is_some()),
        ("requests", flow.requests.is_some()),
        ("dash", flow.dash.is_some()),
    ];
    let given: Vec<&str> = kinds
        .iter()
        .filter(|(_, is)| *is)
        .map(|(k, _)| *k)
        .collect();
    ensure(
        given.len() <= 1,
        at(given.last().unwrap_or(&"size")),
        || format!("{} exclude each other: keep one", given.join(" and ")),
    )?;
    ensure(
        flow.direction == Way::Down || flow.requests.is_none(),
        at("direction"),
        || "requests go down only: the server sends the responses".into(),
    )?;
    ensure(
        flow.first_request.is_none() || (flow.direction == Way::Down && flow.dash.is_none()),
        at("first_request"),
        || "first_request is of a client that downloads: direction down, and no dash".into(),
    )?;
    ensure(
        flow.direction == Way::Down || flow.dash.is_none(),
        at("direction"),
        || "dash goes down only: the server sends the segments".into(),
    )?;
    if let Some(dash) = &flow.dash {
        dash.check().map_err(|(key, e)| {
            let mut place = at("dash");
            place.push(key.into());
            (place, e)
        })?;
    }
    ensure(
        flow.other_way.is_none() || flow.size.is_some() || flow.requests.is_some(),
        at("other_way"),
        || "other_way goes with size or requests, which have an end".into(),
    )?;
    ensure(
        flow.beside.is_none() || flow.requests.is_some(),
        at("beside"),
        || "beside goes with requests".into(),
    )?;
    let requests = flow.requests.as_ref();
    ensure(
        requests.is_none_or(|requests| requests.last.is_none() || requests.count.is_some()),
        at("requests"),
        || "last is of the last of a count".into(),
    )?;
    let asked = flow.requests.as_ref().and_then(|requests| requests.urgency);
    let beside = flow.beside.as_ref().and_then(|beside| beside.urgency);
    ensure(
        asked.into_iter().chain(beside).all(|urgency| urgency <= 7),
        at("requests"),
        || "urgency: 0, which is first, to 7".into(),
    )?;
    ensure(
        flow.idle_timeout.value.0.as_millis() > 0,
        at("idle_timeout"),
        || "idle_timeout: at least \"1 ms\"".into(),
    )?;
    for (k, event) in flow.event.iter().enumerate() {
        let at = |key: &str| place(&["flow", &i.to_string(), "event", &k.to_string(), key]);
        ensure(
            flow.paths.iter().any(|path| path.name == event.path),
            at("path"),
            || format!("the flow has no path \"{}\"", event.path),
        )?;
        ensure(
            event.by == End::Client || event.what.has_author(),
            at("by"),
            || "by is of abandon, backup and available: the rest is of the client's side".into(),
        )?;
    }
    ensure(
        flow.start.value < scenario.duration.value,
        at("start"),
        || format!("it starts after the end of the run, {}", scenario.duration),
    )?;
    let stop = flow.stop.as_ref().map(|stop| stop.value);
    ensure(
        stop.is_none_or(|stop| stop > flow.start.value),
        at("stop"),
        || "it stops before it starts".into(),
    )
}

/// Whether the times at which paths join and leave leave a connection.
fn check_path_times(scenario: &Scenario, flow: &Flow) -> Result<(), String> {
    let Some((first, others)) = flow.paths.split_first() else {
        return Ok(());
    };
    if others.is_empty() && !first.is_plain() {
        return Err(format!(
            "\"{}\" is the only path: its table says nothing; the flow may have start and stop",
            first.name
        ));
    }
    if first.start.is_some() {
        return Err(format!(
            "the handshake goes over \"{}\": give the flow a start, or put another path first",
            first.name
        ));
    }
    if !others.is_empty() && flow.paths.iter().all(|path| path.stop.is_some()) {
        return Err("every path stops: leave one without, and give the flow a stop".into());
    }
    for path in &flow.paths {
        let start = path.start.as_ref().map(|start| start.value);
        let stop = path.stop.as_ref().map(|stop| stop.value);
        if start.is_some_and(|start| start >= scenario.duration.value) {
            let duration = &scenario.duration;
            return Err(format!(
                "\"{}\" starts after the end of the run, {duration}",
                path.name
            ));
        }
        if stop.is_some_and(|stop| stop <= start.unwrap_or(flow.start.value)) {
            return Err(format!("\"{}\" stops before it starts", path.name));
        }
    }
    Ok(())
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    names.join(", ")
}

impl Direction {
    /// Whether it has queues by flow.
    pub(crate) fn is_fair(&self) -> bool {
        matches!(self.aqm, Some(Aqm::FqCodel | Aqm::FqCodelEcn))
    }
}

impl Link {
    /// What the link is like in one direction, with what it says for both worked in.
    pub(crate) fn direction(&self, way: Way) -> Direction {
        let own = match way {
            Way::Up => self.up.clone(),
            Way::Down => self.down.clone(),
        }
        .unwrap_or_default();
        let is_bounded = own.rate.is_some() || own.trace.is_some();
        Direction {
            rate: own.rate.or(self.rate.clone().filter(|_| !is_bounded)),
            trace: own.trace.or(self.trace.clone().filter(|_| !is_bounded)),
            delay: own.delay.or(self.delay.clone()),
            jitter: own.jitter.or(self.jitter.clone()),
            queue: own.queue.or(self.queue.clone()),
            aqm: own.aqm.or(self.aqm),
            ecn: own.ecn.or(self.ecn.clone()),
            loss: own.loss.or(self.loss.clone()),
            reorder: own.reorder.or(self.reorder.clone()),
            duplicate: own.duplicate.or(self.duplicate.clone()),
            mtu: own.mtu.or(self.mtu.clone()),
            schedule: own.schedule.or(self.schedule.clone()),
        }
    }
}
