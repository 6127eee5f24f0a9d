//! What a scenario file says. `docs/scenarios.md` is the page for its authors.

mod check;
mod dash;
mod flow_event;
mod flow_path;
mod load;
mod outages;
mod quantity;

use std::collections::BTreeMap;

use mpq_cmcd::Cmcd;
use mpq_wire::model::LossModel;
use mpq_wire::model::QueueLimit;
use mpq_wire::model::Reordering;
use mpq_wire::model::Schedule;
use mpq_wire::units::Rate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

use crate::accept::Rule;
use crate::accept::Selection;
use crate::app;
use crate::app::Hints;

pub(crate) use check::load_trace;
pub(crate) use check::MOST_PATHS;
pub use dash::Dash;
pub use flow_event::End;
pub use flow_event::FlowEvent;
pub use flow_event::What;
pub use flow_path::FlowPath;
pub use load::Case;
pub use load::Document;
pub use load::ScenarioError;
pub use outages::Outages;
pub use quantity::Packets;
pub use quantity::Share;
pub use quantity::Size;
pub use quantity::Text;
pub use quantity::Time;

/// One experiment: a question, links, paths, flows, and what is to be varied and judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What the experiment is to find out, in words.
    pub question: String,
    /// What is expected, in words.
    pub expected: String,
    /// Where it comes from, such as `CC-1, [CC] Fig. 5`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Assumptions and scalings that a reader of the results must know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// Simulated time; a run ends earlier when every flow with an end has ended.
    pub duration: Text<Time>,
    /// One run for each seed.
    #[serde(default = "one_seed")]
    pub seeds: Vec<u64>,
    /// Time between two rows of the series.
    #[serde(default = "default_sample")]
    pub sample: Text<Time>,
    /// How long an endpoint lets arrivals gather before it handles them together.
    #[serde(default = "default_gather")]
    pub gather: Text<Time>,
    /// Links, each with a rate, a delay and a queue in both directions.
    pub link: Vec<Link>,
    /// Ways from client to server over several links. A link is a path of its own name too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<Path>,
    /// Connections and what they carry.
    pub flow: Vec<Flow>,
    /// Spans of time for which metrics are given as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub window: Vec<Window>,
    /// Keys and the values that each of them takes: every combination is a case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Vec<serde_json::Value>>")]
    pub sweep: BTreeMap<String, Vec<toml::Value>>,
    /// Named sets of changes; every one is combined with every combination of the sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub case: Vec<NamedCase>,
    /// Rules that the medians over all seeds have to keep, in every case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accept: Vec<Acceptance>,
}

/// Declares a table with the keys of a link's direction, after keys of its own.
macro_rules! with_direction_keys {
    ($(#[$meta:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Rate, such as "30 Mbit/s". Without it, and without a trace, there is no limit.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub rate: Option<Text<Rate>>,
            /// File with a rate that varies, beside the scenario: CSV with the columns `t,rate`
            /// (s, Mbit/s) if its name ends in .csv, else Mahimahi's format. It is repeated.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub trace: Option<String>,
            /// One-way delay, such as "10 ms".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub delay: Option<Text<Time>>,
            /// Up to this is added to the delay of each packet, uniformly; packets keep their order.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub jitter: Option<Text<Time>>,
            /// What waits at most: "1 BDP" (the default), "50 packets", "30 kB" or "100 ms".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub queue: Option<Text<QueueLimit>>,
            /// How the queue decides what to drop; "droptail" by default.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub aqm: Option<Aqm>,
            /// Packets that find this much waiting are counted as marked: "30 packets", "10 ms".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub ecn: Option<Text<QueueLimit>>,
            /// "0.5 %", "gilbert:p=..%,r=..%", "gilbert-elliott:p=..%,r=..%,h=..%,k=..%", or
            /// "packets:3,17", which counts from 0.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub loss: Option<Text<LossModel>>,
            /// Which packets are held back and overtaken: "1 % by 5 ms".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub reorder: Option<Text<Reordering>>,
            /// The share of packets that arrive twice.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub duplicate: Option<Text<Share>>,
            /// The longest IP packet that passes, such as "1300 bytes"; longer ones are lost without a word.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub mtu: Option<Text<Size>>,
            /// Events: "down@2s,up@12s,rate=2 Mbit/s@20s,delay=30ms@25s,loss=1%@30s,mtu=1300bytes@40s".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub schedule: Option<Text<Schedule>>,
        }
    };
}

with_direction_keys! {
    /// What one direction of a link has of its own.
    #[derive(Default)]
    Direction {}
}

with_direction_keys! {
    /// One link. What stands at its top holds for both directions.
    Link {
        /// Its name, which is also that of the path over this link alone.
        #[serde(deserialize_with = "quantity::name")]
        pub name: String,
        /// Round-trip time, half of which is each direction's delay: in place of `delay`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rtt: Option<Text<Time>>,
        /// When it stops, both ways and without a word, drawn from the seed: "200 ms to 800 ms after 3 s to 7 s".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub outages: Option<Text<Outages>>,
        /// The two nodes that it joins, for links of a graph.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub nodes: Option<[String; 2]>,
        /// What differs from client to server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub up: Option<Direction>,
        /// What differs from server to client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub down: Option<Direction>,
    }
}

/// How a queue decides what to drop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aqm {
    /// What finds the queue full.
    #[default]
    Droptail,
    /// CoDel (RFC 8289), target 5 ms, interval 100 ms.
    Codel,
    /// The same, which marks packets that are capable of ECN in place of dropping them.
    CodelEcn,
    /// FQ-CoDel (RFC 8290): a queue for each flow, served in turn, with CoDel on each.
    FqCodel,
    /// The same, which marks packets that are capable of ECN in place of dropping them.
    FqCodelEcn,
}

/// A way from client to server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Path {
    /// Its name, other than any link's.
    #[serde(deserialize_with = "quantity::name")]
    pub name: String,
    /// The links on the way, the client's first.
    pub links: Vec<String>,
}

/// One connection, or `count` alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name.
    #[serde(deserialize_with = "quantity::name")]
    pub name: String,
    /// Paths or links by their names, or tables such as `{ name = "lte", backup = true }`. The
    /// handshake goes over the first, unless there is an `attempt_delay`; with several it is a
    /// multipath connection, with one it is not.
    pub paths: Vec<FlowPath>,
    /// Congestion controller, by the name that `mpq get --cc` takes.
    #[serde(default = "default_cc")]
    pub cc: String,
    /// Packet scheduler, by the name that `mpq get --sched` takes.
    #[serde(default = "default_scheduler")]
    pub scheduler: String,
    /// Path policy, by the name that `mpq get --paths` takes.
    #[serde(
        default = "default_path_policy",
        skip_serializing_if = "is_default_path_policy"
    )]
    pub path_policy: String,
    /// How long the handshake is tried over one path before it is tried over the next, too, as
    /// `mpq get --attempt-delay` has it. Without it, over the first path only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_delay: Option<Text<Time>>,
    /// Which way the data goes.
    #[serde(default)]
    pub direction: Way,
    /// When the client sends its first packet.
    #[serde(default = "zero_time")]
    pub start: Text<Time>,
    /// Each of the `count` connections starts up to this later, at random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_spread: Option<Text<Time>>,
    /// When it ends, whatever it was doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Text<Time>>,
    /// How many connections like this; with 2 and more they are called NAME-1, NAME-2 ...
    #[serde(default = "one")]
    pub count: u32,
    /// Flow control window of connection and stream.
    #[serde(default = "default_flow_control")]
    pub flow_control: Text<Size>,
    /// Buffer of both ends: what the sender holds at most, unsent or unacknowledged, and, in place of
    /// `flow_control`, what the receiver lets it send ahead. Without it only the windows bound what
    /// the sender holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Text<Size>>,
    /// Slow start ends by HyStart++ where it sees the queue grow.
    #[serde(default = "yes")]
    pub hystart: bool,
    /// Acknowledgments of a path may take another one that brings them back much sooner, both ways.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub ack_detours: bool,
    /// Coupled controllers may let a path go on that an unlucky loss stopped in slow start. False
    /// is `re-entry=off` for those of `cc` that have it.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub re_entry: bool,
    /// Paths of coupled controllers may begin faster than by doubling, and keep three packets once they
    /// are outweighed. False is `start=slow` and `min-window=2` for those of `cc` that have them.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub fast_start: bool,
    /// Slow-start threshold that each path begins with: `ssthresh` of `cc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<Text<Packets>>,
    /// Packets of an ACK that the controller counts once, as Linux' do where receivers delay ACKs:
    /// `ack_packets` of `cc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_packets: Option<Text<Packets>>,
    /// Granularity of the timestamps that delays are measured by: `grain` of `cc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<Text<Time>>,
    /// How long after the handshake the client asks for the first time, so that other paths are
    /// there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_request: Option<Text<Time>>,
    /// What the sender's congestion controller derives its decisions from becomes a series and
    /// metrics.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cc_trace: bool,
    /// One-way delays of the packets that the data's receiver gets become a series, of at most one packet of
    /// each path in so much time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Text<Time>>,
    /// A transfer of this size the other way at the same time. The flow ends when both have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_way: Option<Text<Size>>,
    /// Ends acknowledge as rarely as the other one asks (draft-ietf-quic-ack-frequency), as `mpq` does.
    /// Without it, which is the default here, whatever arrives by itself is acknowledged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ack_frequency: bool,
    /// Both ends mark what they send as capable of ECN, where that turns out to work, and react to marks,
    /// as those of `mpq` do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ecn: bool,
    /// Both ends pace what they send. Without it, what a window has room for leaves at once.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub pacing: bool,
    /// The idle timeout of both ends.
    #[serde(default = "default_idle_timeout")]
    pub idle_timeout: Text<Time>,
    /// What happens to its paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event: Vec<FlowEvent>,
    /// A transfer of this size. Neither this nor `requests` nor `dash`: a transfer without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Text<Size>>,
    /// Requests and responses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// Beside the requests, a response without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// A DASH client, whose flow ends when all is played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dash: Option<Dash>,
}

/// Which way a flow's data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// From client to server.
    Up,
    /// From server to client.
    #[default]
    Down,
}

/// Responses of one size, each asked for on a stream of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Bytes of a response.
    pub response: Text<Size>,
    /// From the end of one response to the next request.
    #[serde(default = "zero_time")]
    pub pause: Text<Time>,
    /// How many; without it they go on until the flow's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// With `count`: bytes of the last response, if they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Text<Size>>,
    /// Urgency of RFC 9218, 0 (first) to 7, which the request asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<u8>,
    /// When the client wants to have the response, from when its request arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Text<Time>>,
    /// What the client reports with each request: how long playback lasts with what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffered: Option<Text<Time>>,
}

impl Requests {
    /// Bytes of the response that comes after `completed` others.
    pub(crate) fn bytes_after(&self, completed: u64) -> u64 {
        let is_last = self.count == Some(completed + 1);
        let last = self.last.as_ref().filter(|_| is_last);
        last.unwrap_or(&self.response).value.0
    }

    /// What a request says besides its size.
    pub(crate) fn hints(&self) -> Hints {
        let cmcd = Cmcd {
            deadline_ms: self.deadline.as_ref().map(millis),
            buffer_ms: self.buffered.as_ref().map(millis),
            ..Cmcd::default()
        };
        Hints {
            urgency: self.urgency,
            said: match cmcd == Cmcd::default() {
                true => String::new(),
                false => app::said(cmcd, None),
            },
            release: None,
        }
    }
}

fn millis(time: &Text<Time>) -> u64 {
    time.value.0.as_millis().try_into().unwrap_or(u64::MAX)
}

/// A response without end beside the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Beside {
    /// Urgency of RFC 9218, 0 (first) to 7, which the request asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<u8>,
    /// How long it is alone.
    #[serde(default = "zero_time")]
    pub lead: Text<Time>,
}

impl Beside {
    /// What its request says besides its size.
    pub(crate) fn hints(&self) -> Hints {
        Hints {
            urgency: self.urgency,
            ..Hints::default()
        }
    }
}

/// A span of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its name.
    #[serde(deserialize_with = "quantity::name")]
    pub name: String,
    /// Its begin.
    pub from: Text<Time>,
    /// Its end.
    pub to: Text<Time>,
}

/// One case: keys and their values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedCase {
    /// Its name.
    #[serde(deserialize_with = "quantity::name")]
    pub name: String,
    /// What it sets, by the same keys as `sweep`.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub set: BTreeMap<String, toml::Value>,
}

/// A rule that is to hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// Such as "flow.mp.path.p1.utilisation <= 0.3".
    pub rule: Text<Rule>,
    /// What the paper says, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    /// The cases that it is for, such as "cc=lia"; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<Text<Selection>>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

impl Flow {
    /// `cc` as the transport takes it: with `re_entry` and `fast_start` where it has them, and with
    /// the keys that set parameters of it.
    pub fn controller(&self) -> String {
        let mut cc = self.cc.clone();
        for (wanted, off) in [
            (self.re_entry, "re-entry=off"),
            (self.fast_start, "start=slow"),
            (self.fast_start, "min-window=2"),
        ] {
            let without = with_parameter(&cc, off);
            if !wanted && quiche::check_cc_algorithm_name(&without).is_ok() {
                cc = without;
            }
        }
        for (_, parameter) in self.cc_keys() {
            cc = with_parameter(&cc, &parameter);
        }
        cc
    }

    /// The keys that set a parameter of `cc`, with what they set.
    pub(crate) fn cc_keys(&self) -> Vec<(&'static str, String)> {
        let packets = |n: &Text<Packets>| n.value.0.to_string();
        let micros = |time: &Text<Time>| format!("{}us", time.value.0.as_micros());
        let keys = [
            ("ssthresh", "ssthresh", self.ssthresh.as_ref().map(packets)),
            (
                "ack_packets",
                "ack_packets",
                self.ack_packets.as_ref().map(packets),
            ),
            ("timestamps", "grain", self.timestamps.as_ref().map(micros)),
        ];
        keys.into_iter()
            .filter_map(|(key, parameter, value)| Some((key, format!("{parameter}={}", value?))))
            .collect()
    }
}

/// A controller's name, maybe with parameters, and one more.
pub(crate) fn with_parameter(cc: &str, parameter: &str) -> String {
    let separator = if cc.contains(':') { ',' } else { ':' };
    format!("{cc}{separator}{parameter}")
}

fn one_seed() -> Vec<u64> {
    vec![1]
}

fn text<T: std::str::FromStr<Err = String>>(text: &str) -> Text<T> {
    text.parse().expect("a constant of this file")
}

fn zero_time() -> Text<Time> {
    text("0 s")
}

fn default_sample() -> Text<Time> {
    text("100 ms")
}

fn default_gather() -> Text<Time> {
    text("100 us")
}

fn default_flow_control() -> Text<Size> {
    text("64 MB")
}

fn default_idle_timeout() -> Text<Time> {
    text("60 s")
}

fn default_cc() -> String {
    mpq_driver::TransportSettings::default().congestion_controller
}

fn default_path_policy() -> String {
    mpq_decision::paths::POLICIES[0].name.to_owned()
}

fn is_default_path_policy(policy: &String) -> bool {
    *policy == default_path_policy()
}

fn default_scheduler() -> String {
    mpq_driver::TransportSettings::default().scheduler
}
