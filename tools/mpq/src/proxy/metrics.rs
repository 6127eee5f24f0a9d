//! The figures of the page in the text format that Prometheus reads (version 0.0.4).

use std::fmt::Write;

use super::status::Link;
use super::status::OriginReport;
use super::status::PathReport;
use super::status::Report;

/// Name, kind and explanation of a metric, and what it is of a `T`.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

const OF_PATHS: [Metric<PathReport>; 6] = [
    (
        "mpq_proxy_path_received_bytes_total",
        "counter",
        "UDP payload received on the path.",
        |path| path.recv_bytes as f64,
    ),
    (
        "mpq_proxy_path_sent_bytes_total",
        "counter",
        "UDP payload sent on the path.",
        |path| path.sent_bytes as f64,
    ),
    (
        "mpq_proxy_path_lost_packets_total",
        "counter",
        "Packets sent on the path and declared lost.",
        |path| path.lost_packets as f64,
    ),
    (
        "mpq_proxy_path_rtt_seconds",
        "gauge",
        "Smoothed round-trip time.",
        |path| path.rtt_ms / 1e3,
    ),
    (
        "mpq_proxy_path_window_bytes",
        "gauge",
        "Congestion window of what is sent on the path.",
        |path| path.cwnd_bytes as f64,
    ),
    (
        "mpq_proxy_path_carries",
        "gauge",
        "1 while the path may carry data.",
        |path| f64::from(u8::from(path.state == "carries")),
    ),
];

const OF_ORIGINS: [Metric<OriginReport>; 4] = [
    (
        "mpq_proxy_connected",
        "gauge",
        "1 while there is an HTTP/3 connection to the origin.",
        |origin| f64::from(u8::from(origin.link == Link::Connected)),
    ),
    (
        "mpq_proxy_connections_total",
        "counter",
        "HTTP/3 connections to the origin.",
        |origin| origin.connections as f64,
    ),
    (
        "mpq_proxy_lost_connections_total",
        "counter",
        "Of them, broken under way.",
        |origin| origin.lost_connections as f64,
    ),
    (
        "mpq_proxy_tcp_received_bytes_total",
        "counter",
        "Bytes of bodies that came over TCP, where HTTP/3 did not work.",
        |origin| origin.tcp_bytes as f64,
    ),
];

/// The page of metrics.
pub fn page(report: &Report) -> String {
    let mut page = String::new();
    let requests = &report.requests;
    for (name, kind, help, value) in [
        (
            "mpq_proxy_requests_total",
            "counter",
            "Requests, without those for the proxy's own pages.",
            requests.total,
        ),
        (
            "mpq_proxy_requests_running",
            "gauge",
            "Requests under way.",
            requests.running,
        ),
        (
            "mpq_proxy_requests_failed_total",
            "counter",
            "Requests answered with an error of the proxy's own, as the origin could not be reached.",
            requests.failed,
        ),
        (
            "mpq_proxy_requests_refused_total",
            "counter",
            "Requests that were not let in.",
            requests.refused,
        ),
        (
            "mpq_proxy_requests_retried_total",
            "counter",
            "Requests that were sent once more.",
            requests.retried,
        ),
        (
            "mpq_proxy_responses_resumed_total",
            "counter",
            "Responses that went on over another connection.",
            requests.resumed,
        ),
    ] {
        begin(&mut page, name, kind, help);
        line(&mut page, name, "", value as f64);
    }
    for (name, kind, help, value) in OF_ORIGINS {
        begin(&mut page, name, kind, help);
        for origin in &report.origins {
            let labels = format!("{{origin=\"{}\"}}", label(&origin.origin));
            line(&mut page, name, &labels, value(origin));
        }
    }
    for (name, kind, help, value) in OF_PATHS {
        begin(&mut page, name, kind, help);
        for origin in &report.origins {
            for path in &origin.paths {
                let labels = format!(
                    "{{origin=\"{}\",local=\"{}\",interface=\"{}\",peer=\"{}\"}}",
                    label(&origin.origin),
                    label(&path.local),
                    label(path.interface.as_deref().unwrap_or_default()),
                    label(&path.peer)
                );
                line(&mut page, name, &labels, value(path));
            }
        }
    }
    page
}

fn begin(page: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(page: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(page, "{name}{labels} {value}");
}

/// A label's value, which must not end before it does.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The names of all metrics.
#[cfg(test)]
pub fn names(page: &str) -> Vec<&str> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types.filter_map(|line| line.split(' ').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::status::Shared;
    use super::*;

    #[test]
    fn every_metric_has_a_help_and_stands_in_the_docs() {
        let origin = ("https://a.example".into(), vec![]);
        let page = page(&Shared::new(vec![origin], String::new(), true).report());
        assert!(page.contains("mpq_proxy_requests_total 0\n"), "{page}");
        assert!(page.contains("mpq_proxy_connected{origin=\"https://a.example\"} 0\n"));
        let names = names(&page);
        assert_eq!(names.len(), 6 + OF_ORIGINS.len() + OF_PATHS.len());
        let docs = include_str!("../../../../docs/proxy.md");
        for name in names {
            assert!(page.contains(&format!("# HELP {name} ")));
            assert!(
                docs.contains(&format!("`{name}`")),
                "{name} is not in docs/proxy.md"
            );
        }
    }

    #[test]
    fn labels_stay_in_their_quotes() {
        assert_eq!(label("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
