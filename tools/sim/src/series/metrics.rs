//! Metrics: what the samples of a run or of a window come to.

use std::collections::BTreeMap;

use super::Series;
use super::Span;
use crate::scenario::Way;
use crate::world::World;

impl Series {
    pub(super) fn span_metrics(
        &self,
        span: &Span,
        world: &World,
        metrics: &mut BTreeMap<String, f64>,
    ) {
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
                let links = match world.flow_of(i).direction {
                    Way::Up => &route.up,
                    Way::Down => &route.down,
                };
                if let Some(capacity) = world.network.route_capacity(links, from, to) {
                    let packets = b.received_packets - a.received_packets;
                    let ip_bytes = bytes + packets * route.header_bytes();
                    put("utilisation", ratio(ip_bytes as f64, capacity));
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

/// The least value that at least so large a part of the values does not exceed.
pub(crate) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (part * values.len() as f64).ceil() as usize;
    values.get(rank.max(1) - 1).copied()
}

pub(super) fn group(metrics: &mut BTreeMap<String, f64>, flow: &str, count: u32) {
    group_with(metrics, "", flow, count);
}

/// Metrics of all connections of a flow together.
pub(super) fn group_with(
    metrics: &mut BTreeMap<String, f64>,
    prefix: &str,
    flow: &str,
    count: u32,
) {
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
    fn quantiles_by_hand() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(quantile(&values, 0.99), Some(198.0));
        assert_eq!(quantile(&values, 0.95), Some(190.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
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
