//! Paths for tests, and a tiny model of a sender: no network, no randomness of its own.

#![allow(dead_code)] // Each test file uses its part.

pub mod bench;
pub mod network;
pub mod random;

use std::time::Duration;
use std::time::Instant;

use mpq_decision::cc;
use mpq_decision::cc::Ack;
use mpq_decision::cc::Group;
use mpq_decision::cc::Loss;
use mpq_decision::cc::Options;
use mpq_decision::registry::Rtt;
use mpq_decision::PathId;
use mpq_decision::Registry;

/// The controllers that have a parameter.
pub fn with_param(param: &str) -> impl Iterator<Item = &'static str> + '_ {
    let with = cc::CONTROLLERS
        .iter()
        .filter(move |entry| entry.params.iter().any(|has| has.name == param));
    with.map(|entry| entry.name)
}

/// The coupled controllers that go by losses.
pub fn coupled_by_losses() -> Vec<&'static str> {
    let by_delay = ["wvegas", "mpfast", "dc-ledbat", "sbd-bbr"];
    let entries = cc::CONTROLLERS.iter();
    let coupled = entries.filter(|entry| entry.coupled && !by_delay.contains(&entry.name));
    coupled.map(|entry| entry.name).collect()
}

pub const MSS: u64 = 1200;
pub const MS: Duration = Duration::from_millis(1);

/// A group, its registry and a clock.
pub struct Sender {
    pub group: Group,
    pub paths: Registry,
    pub now: Instant,
}

impl Sender {
    /// Paths of the given RTTs (ms) with an initial window of ten packets.
    pub fn new(controller: &str, rtts_ms: &[u32]) -> Self {
        let choice: cc::Choice = controller.parse().unwrap();
        let options = Options {
            hystart: false,
            ..choice.options()
        };
        let mut sender = Sender {
            group: Group::new(choice.controller(), options),
            paths: Registry::new(),
            now: Instant::now(),
        };
        for (id, rtt_ms) in rtts_ms.iter().enumerate() {
            let id = PathId(id as u64);
            sender.join(id);
            sender.paths.get_mut(id).unwrap().rtt = Some(Rtt::first(MS * *rtt_ms));
        }
        sender
    }

    pub fn join(&mut self, id: PathId) {
        self.paths.add(id, MSS).validated = true;
        self.group
            .on_path_added(self.now, &mut self.paths, id, 10 * MSS);
    }

    pub fn leave(&mut self, id: PathId) {
        self.group.on_path_closed(self.now, id);
        self.paths.remove(id);
    }

    pub fn cwnd(&self, id: u64) -> u64 {
        self.paths.get(PathId(id)).unwrap().cwnd_bytes
    }

    pub fn cwnd_packets(&self, id: u64) -> f64 {
        self.cwnd(id) as f64 / MSS as f64
    }

    /// Acks `packets` sent one RTT ago by a sender that keeps the window full.
    pub fn ack(&mut self, id: u64, packets: u64) {
        let id = PathId(id);
        let path = self.paths.get(id).unwrap();
        let rtt = path.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed);
        let ack = Ack {
            acked_bytes: packets * path.mss_bytes,
            acked_packets: packets,
            newest_sent: self.now - rtt,
            in_flight_before_bytes: path.cwnd_bytes,
            rtt_sample: path.rtt.map(|rtt| rtt.latest),
            app_limited: false,
        };
        self.group.on_ack(self.now, &mut self.paths, id, &ack);
    }

    /// Loses one packet that was sent `age` ago.
    pub fn lose(&mut self, id: u64, age: Duration) {
        self.lose_as(id, age, false);
    }

    pub fn lose_as(&mut self, id: u64, age: Duration, persistent: bool) {
        let loss = Loss {
            lost_bytes: MSS,
            lost_packets: 1,
            newest_lost_sent: self.now - age,
            persistent,
        };
        self.group
            .on_loss(self.now, &mut self.paths, PathId(id), &loss);
    }

    /// Loses a packet sent this moment, and lets a round trip pass, so that growth goes on.
    pub fn lose_and_recover(&mut self, id: u64) {
        self.lose(id, Duration::ZERO);
        let rtt = self.paths.get(PathId(id)).unwrap().rtt.unwrap().smoothed;
        self.now += rtt + MS;
    }
}
