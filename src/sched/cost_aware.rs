//! Cost-aware, after MP-DASH: metered paths carry data only when a deadline needs them.
//!
//! A metered path is one with backup status. The paths without one, p, are always used. Those with
//! one are used as well when p would not bring the S bytes of the head stream before its deadline,
//! of which the part alpha is planned for:
//!
//! ```text
//! off if rate_p alpha (D - now) > S
//! ```
//!
//! rate_p is taken low: of the sum of the delivery rates, the smoothed mean less the smoothed
//! deviation. On at once; off after three ticks of 50 ms in which the rule said so. Without a
//! deadline the metered paths are spared, as backup paths are by the other schedulers.

use std::time::Duration;
use std::time::Instant;

use super::ecf::Ecf;
use super::measure;
use super::min_rtt::MinRtt;
use super::opportunistic;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::params::Param;

/// The time between two looks at the rule, and samples of the rate.
const TICK: Duration = Duration::from_millis(50);

/// Ticks for which the rule must say "off".
const PATIENCE: u32 = 3;

/// Samples that the smoothed rate consists of, about.
const SAMPLES: u64 = 8;

/// Alpha is counted in thousandths.
const THOUSAND: u64 = 1000;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "cost-aware",
    summary: "backup paths help out when the others would miss a deadline",
    idea: "Paths with backup status cost money or power. They carry data only while the others, at the \
           rate that they are sure to have, would not bring what has a deadline in time.",
    source: "Han, Qian, Ji and Gopalakrishnan, MP-DASH, CoNEXT 2016",
    rule: "backup paths off if rate_p alpha (D - now) > S, for three ticks of 50 ms, else on; free \
           paths as ecf has them, and what they have no room for goes to backup paths that are on",
    use_when: "one of the paths is metered, and the application names deadlines",
    wrong: "who adapts to the rate that comes sees that of the free paths alone, and asks for less than \
            both could bring",
    deviations: &[
        "the rate is the mean less the mean deviation of eight samples; the paper forecasts",
        "free paths have the first word even where a metered one has the least RTT",
        "without a deadline nothing is sent on backup paths; in the paper, everything is",
    ],
    params: &[
        Param::number(
            "alpha",
            [0.1, 0.9, 1.0],
            "part of the time until the deadline that is planned for; below 1 in the paper",
        ),
        Param::choice(
            "without-deadline",
            &["spare", "use"],
            "what becomes of backup paths while nothing has a deadline",
        ),
        tail::PARAM,
        opportunistic::PARAM,
    ],
    new: |settings| {
        Box::new(CostAware {
            ecf: Ecf::default(),
            min_rtt: MinRtt::default(),
            alpha: (settings.get("alpha") * THOUSAND as f64).round() as u64,
            spares: settings.word("without-deadline") == "spare",
            rate: Rate::default(),
            sampled: None,
            on: false,
            spared_ticks: 0,
        })
    },
};

/// The scheduler.
#[derive(Debug)]
struct CostAware {
    /// For the free paths.
    ecf: Ecf,

    /// For the backup paths.
    min_rtt: MinRtt,

    /// In thousandths.
    alpha: u64,

    /// Without a deadline, backup paths are left alone.
    spares: bool,

    /// What the paths that are not backup deliver together.
    rate: Rate,

    /// When that was sampled last.
    sampled: Option<Instant>,

    /// Backup paths are used.
    on: bool,

    /// Ticks for which they have not been needed.
    spared_ticks: u32,
}

/// A rate's smoothed mean and mean deviation, bytes per second.
#[derive(Debug, Default)]
struct Rate {
    estimate: Option<(u64, u64)>,
}

impl Rate {
    fn sample(&mut self, rate: u64) {
        self.estimate = Some(match self.estimate {
            None => (rate, rate / 2),
            Some((mean, deviation)) => {
                let smooth = |old: u64, new: u64| old - old / SAMPLES + new / SAMPLES;
                (smooth(mean, rate), smooth(deviation, mean.abs_diff(rate)))
            }
        });
    }

    /// What can be counted on; nothing before the first sample.
    fn low(&self) -> u64 {
        let (mean, deviation) = self.estimate.unwrap_or((0, 0));
        mean.saturating_sub(deviation)
    }
}

impl CostAware {
    /// Whether the free paths alone are too slow; `None` without a deadline.
    fn is_late(&self, now: Instant, view: &View) -> Option<bool> {
        let head = view.connection().head.as_ref()?;
        let left = head.deadline?.saturating_duration_since(now);
        let bytes = measure::bytes_in(left, self.rate.low());
        let planned = u128::from(bytes) * u128::from(self.alpha) / u128::from(THOUSAND);
        let rest = head.unsent_bytes + head.unwritten_bytes().unwrap_or(0);
        Some(planned <= u128::from(rest))
    }

    /// Decides anew, once a tick.
    fn tick(&mut self, now: Instant, view: &View) {
        let due = self
            .sampled
            .is_none_or(|at| now.saturating_duration_since(at) >= TICK);
        if due {
            self.sampled = Some(now);
            let rates = view.paths().filter_map(measure::rate_bytes_per_sec);
            self.rate.sample(rates.fold(0, u64::saturating_add));
        }
        match self.is_late(now, view).unwrap_or(!self.spares) {
            true => (self.on, self.spared_ticks) = (true, 0),
            false if due && self.on => {
                self.spared_ticks += 1;
                self.on = self.spared_ticks < PATIENCE;
            }
            false => (),
        }
    }
}

impl Scheduler for CostAware {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        let pick = self.ecf.pick(now, view, ask);
        let Some(backups) = view.backups() else {
            return pick;
        };
        self.tick(now, view);
        if let (true, Pick::Wait { on, until }) = (self.on, pick) {
            return match self.min_rtt.pick(now, &backups, ask) {
                Pick::Wait { until: other, .. } => Pick::Wait {
                    on,
                    until: until.into_iter().chain(other).min(),
                },
                Pick::Skip | Pick::None => pick,
                send => send,
            };
        }
        pick
    }
}
