//! Which measurements lead to a choice: the paper's, which are all there are, or a few.

use std::collections::BTreeMap;

use super::lab::Ask;
use super::lab::Measured;
use super::lab::Record;
use super::lab::What;
use super::model;
use super::model::Chosen;
use super::model::Modelled;
use super::model::Observation;
use super::model::Quality;
use super::Point;
use crate::exit::Failure;
use crate::exit::USAGE;

/// What is to be chosen from, and how.
#[derive(Clone, Debug)]
pub struct Space {
    /// Congestion controllers.
    pub controllers: Vec<String>,
    /// Path managers, the simplest first.
    pub managers: Vec<String>,
    /// Buffers in MiB, from small to large.
    pub buffers_mib: Vec<f64>,
    /// How long each throughput is measured.
    pub seconds: f64,
    /// Repetitions.
    pub rounds: u32,
    /// Throughput that a smaller buffer may cost.
    pub delta: f64,
}

/// Path managers of which one is the simpler are alike within this.
const TIE: f64 = 0.01;

/// Of a throughput's time, for each path and once for all.
const QUICK_IMPACTS: f64 = 5.0;

/// Whether a path manager measures impact factors.
pub fn has_impacts(manager: &str) -> bool {
    manager
        .split(':')
        .next()
        .is_some_and(|name| name.starts_with("pcdc"))
}

impl Space {
    /// The least and the largest buffer.
    pub fn range(&self) -> [f64; 2] {
        let first = self.buffers_mib.first().copied();
        let last = self.buffers_mib.last().copied();
        [first.unwrap_or_default(), last.unwrap_or_default()]
    }

    fn ask(&self, cc: &str, paths: &str, buffer_mib: f64) -> Ask {
        Ask {
            what: What::Throughput,
            point: Point {
                cc: cc.into(),
                paths: paths.into(),
                buffer_mib,
            },
            seconds: self.seconds,
            round: 1,
            impacts: BTreeMap::new(),
        }
    }

    /// Throughputs to be measured at most, and the seconds that they take; impact factors apart.
    pub fn plan(&self, method: Method) -> (u64, f64) {
        let (controllers, managers) = (self.controllers.len(), self.managers.len());
        let buffers = self.buffers_mib.len();
        match method {
            Method::Published => {
                let n = (controllers * managers * buffers) as u64 * u64::from(self.rounds);
                (n, n as f64 * self.seconds)
            }
            Method::Quick => {
                let halvings = buffers.max(1).ilog2() + 1;
                let repeats = 2 * (self.rounds as usize - 1);
                let n = controllers + managers - 1 + 2 * halvings as usize + repeats;
                (n as u64, n as f64 * self.seconds)
            }
        }
    }
}

/// How a choice is come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A few measurements: the controllers, then path managers, then the buffer is halved
    Quick,
    /// The paper's: every controller, manager and buffer, and a regression
    Published,
}

/// A choice, and what led to it.
#[derive(Clone, Debug)]
pub struct Result_ {
    /// The choice.
    pub chosen: Chosen,
    /// The pair of controller and manager that came next, with its throughput.
    pub next: Option<(Point, f64)>,
    /// Repeated throughputs at the choice.
    pub at_choice: Vec<f64>,
    /// The same of what came next, with the largest buffer of both.
    pub at_next: Vec<f64>,
    /// Impact factors by controller.
    pub impacts: BTreeMap<String, BTreeMap<String, f64>>,
    /// Curves, where a model was fitted.
    pub curves: Vec<Modelled>,
    /// And how good it is.
    pub qualities: Vec<Quality>,
    /// What equation 11 chooses as it is printed.
    pub as_printed: Option<Point>,
}

/// Everything that was measured of throughputs.
pub fn observations(record: &Record<'_>, seconds: f64) -> Vec<Observation> {
    let used = record.used();
    used.filter(|(ask, _)| ask.what == What::Throughput && ask.seconds >= seconds)
        .map(|(ask, measured)| Observation {
            point: ask.point.clone(),
            mbps: measured.mbps,
        })
        .collect()
}

struct Search<'r, 'a> {
    space: &'r Space,
    record: &'r mut Record<'a>,
    /// How long each throughput of an impact factor is measured.
    impacts_s: f64,
    impacts: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Search<'_, '_> {
    /// Impact factors of a controller, with the largest buffer.
    fn impacts(&mut self, cc: &str, paths: &str) -> Result<BTreeMap<String, f64>, Failure> {
        if !has_impacts(paths) {
            return Ok(BTreeMap::new());
        }
        if let Some(known) = self.impacts.get(cc) {
            return Ok(known.clone());
        }
        let mut ask = self.space.ask(cc, paths, self.space.range()[1]);
        ask.what = What::Impacts;
        ask.seconds = self.impacts_s;
        let found = self.record.ask(ask)?.impacts;
        self.impacts.insert(cc.to_owned(), found.clone());
        Ok(found)
    }

    fn throughput(&mut self, point: &Point, seconds: f64, round: u32) -> Result<Measured, Failure> {
        let mut ask = self.space.ask(&point.cc, &point.paths, point.buffer_mib);
        ask.impacts = self.impacts(&point.cc, &point.paths)?;
        ask.seconds = seconds;
        ask.round = round;
        self.record.ask(ask)
    }

    fn rounds(&mut self, point: &Point) -> Result<Vec<f64>, Failure> {
        let seconds = self.space.seconds;
        (1..=self.space.rounds)
            .map(|round| Ok(self.throughput(point, seconds, round)?.mbps))
            .collect()
    }
}

/// The paper's algorithm 1.
///
/// # Errors
/// If a measurement fails, or they determine no model.
pub fn published(space: &Space, record: &mut Record<'_>) -> Result<Result_, Failure> {
    let mut search = Search {
        space,
        record,
        impacts_s: space.seconds,
        impacts: BTreeMap::new(),
    };
    let mut observations = Vec::new();
    for cc in &space.controllers {
        for paths in &space.managers {
            for buffer_mib in &space.buffers_mib {
                let point = Point {
                    cc: cc.clone(),
                    paths: paths.clone(),
                    buffer_mib: *buffer_mib,
                };
                let rounds = search.rounds(&point)?;
                // The mean of the runs is a sampling point [MO section 4].
                let mbps = rounds.iter().sum::<f64>() / rounds.len() as f64;
                observations.push(Observation { point, mbps });
            }
        }
    }
    let impacts = search.impacts;
    from_observations(space, &observations, impacts)
}

/// What the model makes of throughputs that are there.
///
/// # Errors
/// If they determine no model.
pub fn from_observations(
    space: &Space,
    observations: &[Observation],
    impacts: BTreeMap<String, BTreeMap<String, f64>>,
) -> Result<Result_, Failure> {
    let (curves, qualities) = model::fit(observations);
    let range = space.range();
    let chosen = model::choose(&curves, &space.managers, range, space.delta, TIE);
    let chosen = chosen.ok_or_else(|| {
        let why = "too few measurements for a model: three buffers at least for each path manager";
        Failure::new(USAGE, why)
    })?;
    let is_other = |of: &&Modelled| of.cc != chosen.point.cc || of.paths != chosen.point.paths;
    let others = curves.iter().filter(is_other).map(|of| {
        let (buffer_mib, mbps) = of.curve.highest(range);
        let point = Point {
            cc: of.cc.clone(),
            paths: of.paths.clone(),
            buffer_mib,
        };
        (point, mbps)
    });
    let next = others.max_by(|a, b| a.1.total_cmp(&b.1));
    Ok(Result_ {
        as_printed: model::choose_as_printed(&curves, range, space.delta),
        chosen,
        next,
        at_choice: Vec::new(),
        at_next: Vec::new(),
        impacts,
        curves,
        qualities,
    })
}

/// A few measurements in the order in which they matter: the controller is chosen first, over the
/// simplest manager with the largest buffer, then the manager, then the least buffer that keeps 1 - delta
/// of the best throughput seen.
///
/// # Errors
/// If a measurement fails.
pub fn quick(space: &Space, record: &mut Record<'_>) -> Result<Result_, Failure> {
    let mut search = Search {
        space,
        record,
        impacts_s: space.seconds / QUICK_IMPACTS,
        impacts: BTreeMap::new(),
    };
    let [_, largest] = space.range();
    let of = |cc: &str, paths: &str| Point {
        cc: cc.into(),
        paths: paths.into(),
        buffer_mib: largest,
    };
    let simplest = &space.managers[0];

    // A shorter race before would choose by how controllers start: 40 of 50 pairs instead of 45.
    let mut seen: Vec<(Point, f64)> = Vec::new();
    for cc in &space.controllers {
        let point = of(cc, simplest);
        let mbps = search.throughput(&point, space.seconds, 1)?.mbps;
        seen.push((point, mbps));
    }
    let best = |seen: &[(Point, f64)]| {
        let best = seen.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        best.expect("one at least was measured").clone()
    };
    let cc = best(&seen).0.cc;
    for paths in &space.managers[1..] {
        let point = of(&cc, paths);
        let found = search.impacts(&cc, paths)?;
        // With every path in use it is the same as the simplest.
        if has_impacts(paths) && !found.values().any(|omega| *omega <= least_impact(paths)) {
            continue;
        }
        let mbps = search.throughput(&point, space.seconds, 1)?.mbps;
        seen.push((point, mbps));
    }
    // A manager that is not the simplest has to be worth it.
    let (mut winner, mut highest) = best(&seen);
    if let Some((point, mbps)) = seen
        .iter()
        .find(|(point, _)| point.cc == winner.cc && point.paths == *simplest)
        .filter(|(_, mbps)| *mbps >= (1.0 - TIE) * highest)
    {
        (winner, highest) = (point.clone(), *mbps);
    }
    let next = seen
        .iter()
        .filter(|(point, _)| point.cc != winner.cc || point.paths != winner.paths)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .cloned();

    // The largest index that is too small, and the smallest that is enough.
    let buffers = &space.buffers_mib;
    let mut measured = vec![(largest, highest)];
    let mut mbps_at = |index: usize, search: &mut Search<'_, '_>| -> Result<f64, Failure> {
        let point = Point {
            buffer_mib: buffers[index],
            ..winner.clone()
        };
        let mbps = search.throughput(&point, space.seconds, 1)?.mbps;
        measured.push((buffers[index], mbps));
        Ok(mbps)
    };
    let (mut too_small, mut enough) = (None, buffers.len() - 1);
    while enough > 0 {
        let half = buffers[enough] / 2.0;
        let index = buffers[..enough].iter().rposition(|mib| *mib <= half);
        let index = index.unwrap_or(0);
        let mbps = mbps_at(index, &mut search)?;
        // Smaller buffers may be better ones: queues on the way are shorter.
        highest = highest.max(mbps);
        if mbps < (1.0 - space.delta) * highest {
            too_small = Some(index);
            break;
        }
        enough = index;
    }
    while let Some(low) = too_small.filter(|low| enough - low > 1) {
        let index = (low + enough) / 2;
        let mbps = mbps_at(index, &mut search)?;
        highest = highest.max(mbps);
        match mbps >= (1.0 - space.delta) * highest {
            true => enough = index,
            false => too_small = Some(index),
        }
    }
    let least = (1.0 - space.delta) * highest;
    let good = measured.iter().filter(|(_, mbps)| *mbps >= least);
    let (mib, mbps) = *good
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("the best one is good");
    let (highest_mib, _) = *measured
        .iter()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .expect("one at least was measured");
    let chosen = Chosen {
        point: Point {
            buffer_mib: mib,
            ..winner
        },
        mbps,
        highest_mbps: highest,
        highest_mib,
    };
    let at_choice = search.rounds(&chosen.point)?;
    let at_next = match &next {
        Some((point, _)) => search.rounds(point)?,
        None => Vec::new(),
    };
    let impacts = search.impacts;
    Ok(Result_ {
        chosen,
        next,
        at_choice,
        at_next,
        impacts,
        curves: Vec::new(),
        qualities: Vec::new(),
        as_printed: None,
    })
}

/// The impact factor from which a manager leaves a path out.
fn least_impact(manager: &str) -> f64 {
    let choice: Result<mpq_decision::paths::Choice, _> = manager.parse();
    let settings = choice.ok().filter(|choice| choice.settings().has("least"));
    settings.map_or(0.0, |choice| choice.settings().get("least"))
}

#[cfg(test)]
mod tests {
    use super::super::lab::Lab;
    use super::*;

    /// A network that is a formula.
    struct Formula {
        n: u64,
        seconds: f64,
    }

    impl Lab for Formula {
        fn measure(&mut self, ask: &Ask) -> Result<Measured, Failure> {
            self.n += 1;
            self.seconds += ask.seconds;
            if ask.what == What::Impacts {
                let worst = if ask.point.cc == "hybla" { -0.5 } else { 0.1 };
                let impacts = BTreeMap::from([("a".into(), 0.6), ("b".into(), worst)]);
                return Ok(Measured {
                    impacts,
                    ..Measured::default()
                });
            }
            let highest = match &*ask.point.cc {
                "hybla" => 50.0,
                "olia" => 45.0,
                _ => 30.0,
            };
            let gain = if has_impacts(&ask.point.paths) && ask.point.cc == "hybla" {
                1.5
            } else {
                1.0
            };
            // Rises to its highest at 8 MiB, and falls a little to 30.
            let bs = ask.point.buffer_mib;
            let shape = if bs < 8.0 {
                bs / 8.0
            } else {
                1.0 - (bs - 8.0) / 200.0
            };
            Ok(Measured {
                mbps: highest * gain * shape,
                ..Measured::default()
            })
        }
    }

    fn space(managers: &[&str]) -> Space {
        Space {
            controllers: ["uncoupled-cubic", "olia", "hybla", "vegas"]
                .map(str::to_owned)
                .to_vec(),
            managers: managers.iter().map(|m| (*m).to_owned()).collect(),
            buffers_mib: (1..=60).map(|n| 0.5 * f64::from(n)).collect(),
            seconds: 10.0,
            rounds: 3,
            delta: 0.07,
        }
    }

    fn run(space: &Space, method: Method) -> (Result_, u64, f64) {
        let folder = tempfile::tempdir().unwrap();
        let mut lab = Formula { n: 0, seconds: 0.0 };
        let result = {
            let mut record = Record::open(folder.path(), "x", &mut lab, |_, _| ()).unwrap();
            match method {
                Method::Quick => quick(space, &mut record).unwrap(),
                Method::Published => published(space, &mut record).unwrap(),
            }
        };
        (result, lab.n, lab.seconds)
    }

    #[test]
    fn quick_finds_the_choice_with_a_few() {
        let space = space(&["full-mesh", "pcdc"]);
        let (result, n, seconds) = run(&space, Method::Quick);
        let Chosen { point, mbps, .. } = result.chosen;
        assert_eq!((&*point.cc, &*point.paths), ("hybla", "pcdc"));
        // 0.93 of 75 at 8 MiB is at 7.44 MiB; the grid has 7.5.
        assert_eq!(point.buffer_mib, 7.5);
        assert!((mbps - 75.0 * 7.5 / 8.0).abs() < 1e-9);
        let (most, most_s) = space.plan(Method::Quick);
        // And once the impact factors.
        assert!(
            n <= most + 1 && seconds <= most_s + 10.0,
            "{n} {most} {seconds} {most_s}"
        );
        let all = space.plan(Method::Published).1;
        assert!(seconds < 0.1 * all, "{seconds} {all}");
        assert_eq!(result.next.unwrap().0.paths, "full-mesh");
    }

    #[test]
    fn a_manager_that_leaves_nothing_out_is_not_measured() {
        let mut space = space(&["full-mesh", "pcdc"]);
        space.controllers = vec!["olia".into()];
        let (result, ..) = run(&space, Method::Quick);
        assert_eq!(result.chosen.point.paths, "full-mesh");
        assert_eq!(result.impacts["olia"]["b"], 0.1);
        assert!(result.next.is_none());
    }

    #[test]
    fn published_measures_all() {
        let mut space = space(&["full-mesh", "pcdc"]);
        space.rounds = 1;
        let (result, n, _) = run(&space, Method::Published);
        assert_eq!(n, 4 * 2 * 60 + 4);
        let point = result.chosen.point;
        assert_eq!((&*point.cc, &*point.paths), ("hybla", "pcdc"));
        assert_eq!(result.qualities.len(), 2);
        assert!(result.as_printed.is_some());
    }

    #[test]
    fn one_buffer_is_kept() {
        let mut space = space(&["full-mesh"]);
        space.buffers_mib = vec![4.0];
        let (result, ..) = run(&space, Method::Quick);
        assert_eq!(result.chosen.point.buffer_mib, 4.0);
    }
}
