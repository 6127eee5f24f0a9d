//! The scenario of a seed, and what it does to each path.

use std::fmt::Write;
use std::time::Duration;

use mpq_wire::model::Generator;
use mpq_wire::model::Purpose;
use mpq_wire::model::Seeds;
use mpq_wire::model::Way;

/// IP bytes that every path has to carry: QUIC's 1200 bytes of UDP payload, and the headers.
const LEAST_MTU: u64 = 1228;

/// How long the network is good at the end: enough for the largest transfer, over the slowest path,
/// after the longest pause between two probes.
const GOOD_FOR: Duration = Duration::from_secs(900);

/// Names of the paths, which are links of their own.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A path counts as working only while it loses less than this: with more, timeouts by bad luck are
/// too likely.
const LITTLE_LOSS: f64 = 0.05;

/// A drawn scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The seed that it is drawn from.
    pub seed: u64,
    /// The scenario, as TOML: `docs/scenarios.md`.
    pub text: String,
    /// The idle timeout of both ends.
    pub idle_timeout: Duration,
    /// From when on the network is good.
    pub good_from: Duration,
    /// When each path, in the flow's order, did not work: from, to.
    broken: Vec<Vec<(Duration, Duration)>>,
    /// When the NAT of each path forgot its mapping.
    rebound: Vec<Vec<Duration>>,
    /// Whether the client has much to send.
    is_upload: bool,
}

impl Plan {
    /// The scenario of `seed`. The same seed gives the same text.
    pub fn draw(seed: u64) -> Plan {
        Draw::new(seed).plan()
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        self.broken.len()
    }

    /// Whether the path of the handshake worked up to `to` without a break, from one address: there is
    /// no migration during a handshake (RFC 9000, section 9).
    pub fn handshake_path_worked(&self, to: Duration) -> bool {
        self.worked_all_the_time(0, Duration::ZERO, to) && self.rebound[0].iter().all(|at| *at > to)
    }

    /// Whether the path, by its place in the flow, worked from `from` to `to` without a break.
    ///
    /// A client that only receives has nothing to send to its NAT, which then lets nothing in, on a
    /// path that forgot its mapping.
    pub fn worked_all_the_time(&self, path: usize, from: Duration, to: Duration) -> bool {
        let is_shut = !self.is_upload && self.rebound[path].iter().any(|at| *at < to);
        let mut broken = self.broken[path].iter();
        !is_shut && !broken.any(|(begin, end)| *begin < to && from < *end)
    }
}

struct Draw {
    seed: u64,
    numbers: Generator,
    good_from_ms: u64,
    broken: Vec<Vec<(Duration, Duration)>>,
    rebound: Vec<Vec<Duration>>,
    is_upload: bool,
}

impl Draw {
    fn new(seed: u64) -> Draw {
        let seeds = Seeds {
            master: seed,
            run: 0,
            link: "chaos".into(),
            way: Way::AToB,
        };
        Draw {
            seed,
            numbers: seeds.generator(Purpose::Scenario),
            good_from_ms: 0,
            broken: Vec::new(),
            rebound: Vec::new(),
            is_upload: false,
        }
    }

    /// Whether something of probability `p` happens.
    fn happens(&mut self, p: f64) -> bool {
        self.numbers.unit() < p
    }

    /// From `low` to `high`, both included.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.numbers.unit() * (high - low + 1) as f64) as u64
    }

    /// The same with as many draws in each decade.
    fn between_log(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = ((low as f64).ln(), (high as f64).ln());
        (low + self.numbers.unit() * (high - low)).exp().round() as u64
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.between(0, all.len() as u64 - 1) as usize]
    }

    /// Per mille of loss: small ones are more frequent.
    fn loss_permille(&mut self) -> u64 {
        let unit = self.numbers.unit();
        (unit * unit * 300.0).round() as u64
    }

    /// A moment before the network is good.
    fn moment_ms(&mut self) -> u64 {
        self.between(0, self.good_from_ms)
    }

    fn break_path(&mut self, path: usize, from_ms: u64, to_ms: u64) {
        let span = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
        self.broken[path].push(span);
    }

    fn plan(mut self) -> Plan {
        let paths = self.between(2, NAMES.len() as u64) as usize;
        self.broken = vec![Vec::new(); paths];
        self.rebound = vec![Vec::new(); paths];
        self.good_from_ms = self.between_log(1_000, 20_000);
        let idle_timeout_ms = self.between_log(5_000, 30_000);
        let good_from = Duration::from_millis(self.good_from_ms);
        let idle_timeout = Duration::from_millis(idle_timeout_ms);
        let duration_ms = self.good_from_ms + idle_timeout_ms + GOOD_FOR.as_millis() as u64;

        let mut text = format!(
            "question = \"Chaos, seed {}: is the transfer whole, or does the network give the reason?\"\n\
             expected = \"The network is bad for {} ms and good from then on.\"\n\
             duration = \"{duration_ms} ms\"\n\
             sample = \"10 s\"\n\
             seeds = [{}]\n",
            self.seed, self.good_from_ms, self.seed,
        );
        let outages = self.common_outages();
        for path in 0..paths {
            self.link(&mut text, path, &outages);
        }
        self.flow(&mut text, paths, idle_timeout_ms);
        Plan {
            seed: self.seed,
            text,
            idle_timeout,
            good_from,
            broken: self.broken,
            rebound: self.rebound,
            is_upload: self.is_upload,
        }
    }

    /// Times at which all links are down.
    fn common_outages(&mut self) -> Vec<(u64, u64)> {
        let mut outages = Vec::new();
        if self.happens(0.2) {
            let from = self.moment_ms();
            let length = self.between_log(50, 15_000);
            outages.push((from, (from + length).min(self.good_from_ms)));
        }
        outages
    }

    fn link(&mut self, text: &mut String, path: usize, outages: &[(u64, u64)]) {
        let rate_kbps = self.between_log(500, 100_000);
        let rtt_ms = self.between_log(2, 600);
        let queue = match self.between(0, 3) {
            0 => "1 BDP".to_owned(),
            1 => format!("{} packets", self.between(4, 100)),
            2 => format!("{} ms", self.between(20, 500)),
            _ => "2 BDP:rtt=50ms".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[link]]\nname = \"{}\"\nrate = \"{rate_kbps} kbit/s\"\nqueue = \"{queue}\"\n",
            NAMES[path],
        );
        if self.happens(0.2) {
            let up_ms = self.between(1, rtt_ms);
            let _ = writeln!(text, "up = {{ delay = \"{up_ms} ms\" }}");
            let _ = writeln!(text, "delay = \"{rtt_ms} ms\"");
        } else {
            let _ = writeln!(text, "rtt = \"{rtt_ms} ms\"");
        }
        if self.happens(0.3) {
            let _ = writeln!(
                text,
                "jitter = \"{} ms\"",
                self.between(1, rtt_ms.max(2) / 2)
            );
        }
        if self.happens(0.4) {
            let share = self.between(1, 100);
            let by_ms = self.between(1, 2 * rtt_ms);
            let _ = writeln!(text, "reorder = \"{}% by {by_ms}ms\"", percent(share));
        }
        if self.happens(0.3) {
            let share = self.between(1, 100);
            let _ = writeln!(text, "duplicate = \"{}%\"", percent(share));
        }
        self.loss(text, path);
        self.schedule(text, path, rtt_ms, outages);
    }

    fn loss(&mut self, text: &mut String, path: usize) {
        let until_ms = self.good_from_ms;
        match self.between(0, 9) {
            0..=3 => {}
            4 => {
                let p = self.between(1, 20);
                let r = self.between(100, 500);
                self.break_path(path, 0, until_ms);
                let _ = writeln!(
                    text,
                    "loss = \"gilbert:p={}%,r={}%\"",
                    percent(p),
                    percent(r)
                );
            }
            _ => {
                let loss = self.loss_permille();
                if loss as f64 / 1000.0 >= LITTLE_LOSS {
                    self.break_path(path, 0, until_ms);
                }
                let _ = writeln!(text, "loss = \"{}%\"", percent(loss));
            }
        }
    }

    /// What changes on a link, in both directions alike, up to the moment when it is good.
    fn schedule(&mut self, text: &mut String, path: usize, rtt_ms: u64, common: &[(u64, u64)]) {
        let end_ms = self.good_from_ms;
        let mut events: Vec<(u64, String)> = Vec::new();
        let mut outages = common.to_vec();
        if self.happens(0.4) {
            for _ in 0..self.between(1, 3) {
                let from = self.moment_ms();
                let length = self.between_log(20, 10_000);
                outages.push((from, (from + length).min(end_ms)));
            }
        }
        // Overlapping ones would end at the first end.
        outages.sort_unstable();
        let mut free_from = 0;
        for (from, to) in outages {
            if from < free_from || from >= to {
                continue;
            }
            events.push((from, "down".into()));
            events.push((to, "up".into()));
            self.break_path(path, from, to);
            free_from = to + 1;
        }
        if self.happens(0.4) {
            for _ in 0..self.between(1, 4) {
                let delay_ms = self.between_log(1, 800);
                events.push((self.moment_ms(), format!("delay={delay_ms}ms")));
            }
            events.push((end_ms, format!("delay={}ms", rtt_ms.div_ceil(2))));
        }
        if self.happens(0.25) {
            for _ in 0..self.between(1, 3) {
                let rate_kbps = self.between_log(100, 100_000);
                events.push((self.moment_ms(), format!("rate={rate_kbps}kbit")));
            }
            events.push((end_ms, "rate=2mbit".into()));
        }
        if self.happens(0.25) {
            for _ in 0..self.between(1, 3) {
                let at = self.moment_ms();
                let loss = self.loss_permille();
                self.break_path(path, at, end_ms);
                events.push((at, format!("loss={}%", percent(loss))));
            }
        }
        events.push((end_ms, "loss=0%".into()));
        self.mtu(&mut events, text, path);
        events.sort_by_key(|(at, _)| *at);
        let events: Vec<String> = events
            .iter()
            .map(|(at, what)| format!("{what}@{at}ms"))
            .collect();
        let _ = writeln!(text, "schedule = \"{}\"", events.join(","));
    }

    /// The MTU of a link, and how it drops. It may stay low, but not below what QUIC needs.
    fn mtu(&mut self, events: &mut Vec<(u64, String)>, text: &mut String, path: usize) {
        let end_ms = self.good_from_ms;
        if self.happens(0.2) {
            let mtu = self.between(LEAST_MTU, 1500);
            let _ = writeln!(text, "mtu = \"{mtu} bytes\"");
        }
        if !self.happens(0.25) {
            return;
        }
        let at = self.moment_ms();
        let mtu = match self.happens(0.3) {
            // Full packets vanish, acknowledgments pass.
            true => self.between(100, LEAST_MTU - 1),
            false => self.between(LEAST_MTU, 1500),
        };
        events.push((at, format!("mtu={mtu}bytes")));
        if mtu < LEAST_MTU {
            self.break_path(path, at, end_ms);
        }
        if mtu < LEAST_MTU || self.happens(0.5) {
            events.push((end_ms, "mtu=1500bytes".into()));
        }
    }

    /// Any of them, as it is or with what it may copy turned round.
    fn scheduler(&mut self) -> String {
        let mut names: Vec<String> = quiche::schedulers()
            .flat_map(|(name, _)| {
                ["", ":tail=off", ":opportunistic=on"].map(|rest| format!("{name}{rest}"))
            })
            .filter(|name| quiche::check_scheduler_name(name).is_ok())
            .collect();
        names.sort();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.one_of(&names).to_owned()
    }

    fn flow(&mut self, text: &mut String, paths: usize, idle_timeout_ms: u64) {
        let controllers: Vec<&str> = quiche::cc_algorithms().map(|(name, _)| name).collect();
        let cc = self.one_of(&controllers);
        let scheduler = self.scheduler();
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"f\"\ncc = \"{cc}\"\nscheduler = \"{scheduler}\"\n\
             idle_timeout = \"{idle_timeout_ms} ms\"\n",
        );
        let names: Vec<String> = (0..paths).map(|path| self.flow_path(path)).collect();
        let _ = writeln!(text, "paths = [{}]", names.join(", "));
        if self.happens(0.2) {
            let _ = writeln!(text, "ack_detours = false");
        }
        if self.happens(0.3) {
            let window = self.between_log(20_000, 2_000_000);
            let _ = writeln!(text, "flow_control = \"{window} bytes\"");
        }
        let size = self.between_log(1_000, 3_000_000);
        match self.between(0, 9) {
            0..=4 => {
                let _ = writeln!(text, "size = \"{size} bytes\"");
            }
            5..=7 => {
                self.is_upload = true;
                let _ = write!(text, "direction = \"up\"\nsize = \"{size} bytes\"\n");
            }
            _ => {
                let count = self.between(2, 20);
                let pause_ms = self.between_log(1, 4_000);
                let response = (size / count).max(1);
                let _ = writeln!(
                    text,
                    "requests = {{ response = \"{response} bytes\", pause = \"{pause_ms} ms\", count = {count} }}"
                );
            }
        }
        if self.happens(0.4) {
            let other = self.between_log(1, 500_000);
            let _ = writeln!(text, "other_way = \"{other} bytes\"");
        }
        if self.happens(0.75) {
            for _ in 0..self.between_log(1, 15) {
                self.event(text, paths);
            }
        }
    }

    fn flow_path(&mut self, path: usize) -> String {
        let name = NAMES[path];
        let is_backup = self.happens(0.15);
        let is_late = path > 0 && self.happens(0.15);
        if !is_backup && !is_late {
            return format!("\"{name}\"");
        }
        let mut table = format!("{{ name = \"{name}\"");
        if is_backup {
            table.push_str(", backup = true");
        }
        if is_late {
            let at = self.moment_ms();
            self.break_path(path, 0, at);
            let _ = write!(table, ", start = \"{at} ms\"");
        }
        table.push_str(" }");
        table
    }

    /// Something that happens to a path of the flow, and the end of it.
    fn event(&mut self, text: &mut String, paths: usize) {
        let path = self.between(0, paths as u64 - 1) as usize;
        let at = self.moment_ms();
        let end_ms = self.good_from_ms;
        let forever_ms = u64::from(u32::MAX);
        let by = self.one_of(&["client", "server"]);
        match self.between(0, 11) {
            0..=3 => {
                self.tell(text, at, path, "rebind", "client");
                self.rebound[path].push(Duration::from_millis(at));
            }
            4 | 5 => {
                let back = (at + self.between_log(10, 10_000)).min(end_ms);
                self.tell(text, at, path, "carrier-lost", "client");
                self.tell(text, back, path, "carrier-back", "client");
                self.break_path(path, at, back + 2_000);
            }
            6 | 7 => {
                self.tell(text, at, path, "new-address", "client");
                self.break_path(path, at, at + 2_000);
            }
            8 | 9 => {
                self.tell(text, at, path, "abandon", by);
                match by {
                    "client" => {
                        if self.happens(0.7) {
                            let back = (at + self.between_log(1, 5_000)).min(end_ms);
                            self.tell(text, back, path, "open", "client");
                        }
                        self.break_path(path, at, forever_ms);
                    }
                    // The client waits longer after every failure.
                    _ => self.break_path(path, at, end_ms + 60_000),
                }
            }
            10 => self.tell(text, at, path, "backup", by),
            _ => self.tell(text, at, path, "available", by),
        }
    }

    fn tell(&mut self, text: &mut String, at_ms: u64, path: usize, what: &str, by: &str) {
        let _ = write!(
            text,
            "[[flow.event]]\nat = \"{at_ms} ms\"\npath = \"{}\"\nwhat = \"{what}\"\n",
            NAMES[path],
        );
        if by == "server" {
            text.push_str("by = \"server\"\n");
        }
    }
}

/// Per mille as percent, exactly.
fn percent(permille: u64) -> String {
    format!("{}.{}", permille / 10, permille % 10)
}
