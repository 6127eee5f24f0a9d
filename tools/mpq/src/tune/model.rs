//! MPCOA's model of throughput over buffer size, and what it chooses [MO equations 1 and 8 to 12].
//!
//! tp = a_cc + b_cc bs + c bs^2 for each path manager; the quadratic term is shared by its controllers,
//! as in equations 13 to 15. The paper prints the terms of each controller twice, as D and as D^2, which
//! is the same for 0 and 1.

use super::regression::Fit;
use super::Point;

/// Least R^2 of a model that is accepted [MO step 6]; the paper accepts 0.80 for SRL-HU.
pub const LEAST_R_SQUARE: f64 = 0.9;

/// Largest p of a model that is accepted.
pub const LARGEST_P: f64 = 0.05;

/// A throughput that was measured, in Mbit/s, with a buffer of so many MiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// With what.
    pub point: Point,
    /// Mbit/s.
    pub mbps: f64,
}

/// tp = a + b bs + c bs^2, Mbit/s over MiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve(pub [f64; 3]);

impl Curve {
    /// Throughput with a buffer.
    pub fn at(&self, mib: f64) -> f64 {
        let [a, b, c] = self.0;
        a + b * mib + c * mib * mib
    }

    /// The buffer of the highest throughput within the range, and that throughput.
    pub fn highest(&self, range: [f64; 2]) -> (f64, f64) {
        let [_, b, c] = self.0;
        let mut candidates = vec![range[0], range[1]];
        if c < 0.0 {
            candidates.push((-b / (2.0 * c)).clamp(range[0], range[1]));
        }
        let best = candidates.into_iter().map(|mib| (mib, self.at(mib)));
        // Of equal throughputs the smaller buffer.
        best.fold((range[1], f64::NEG_INFINITY), |a, b| {
            if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) {
                b
            } else {
                a
            }
        })
    }

    /// The least buffer within the range with at least `mbps` [eq. 10]; `None` if no buffer has it.
    pub fn least_with(&self, mbps: f64, range: [f64; 2]) -> Option<f64> {
        if self.at(range[0]) >= mbps {
            return Some(range[0]);
        }
        let [a, b, c] = self.0;
        // Without the difference of b and the root, of which nothing is left where c is tiny.
        let root = (b * b - 4.0 * c * (a - mbps)).sqrt();
        let q = -(b + root.copysign(b)) / 2.0;
        let roots = [q / c, (a - mbps) / q];
        let within = roots
            .into_iter()
            .filter(|mib| *mib >= range[0] && *mib <= range[1]);
        within.min_by(f64::total_cmp)
    }
}

/// The curve of one controller with one path manager.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// Congestion controller.
    pub cc: String,
    /// Path manager.
    pub paths: String,
    /// Its curve.
    pub curve: Curve,
}

/// The model of one path manager.
#[derive(Clone, Debug)]
pub struct Quality {
    /// Path manager.
    pub paths: String,
    /// Observations.
    pub n: usize,
    /// See [`Fit::r_square`].
    pub r_square: f64,
    /// The largest p of the terms of the buffer size, which is what the model is for.
    pub p: f64,
    fit: Fit,
    controllers: Vec<String>,
}

impl Quality {
    /// Whether it is good enough by the paper's own limits.
    pub fn is_accepted(&self) -> bool {
        self.r_square >= LEAST_R_SQUARE && self.p <= LARGEST_P
    }

    /// The standard error of the mean that it predicts.
    pub fn standard_error(&self, cc: &str, mib: f64) -> f64 {
        self.fit.standard_error(&row(&self.controllers, cc, mib))
    }
}

/// Terms: a of each controller, b of each, c.
fn row(controllers: &[String], cc: &str, mib: f64) -> Vec<f64> {
    let is = |name: &String| f64::from(u8::from(name == cc));
    let constant = controllers.iter().map(is);
    let linear = controllers.iter().map(|name| is(name) * mib);
    constant.chain(linear).chain([mib * mib]).collect()
}

/// Fits a model to the observations of each path manager [eq. 8]. Managers whose observations do not
/// determine one are left out.
pub fn fit(observations: &[Observation]) -> (Vec<Modelled>, Vec<Quality>) {
    let names = |of: fn(&Point) -> &String| -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for observation in observations {
            let name = of(&observation.point);
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        all
    };
    let (mut curves, mut qualities) = (Vec::new(), Vec::new());
    for paths in names(|point| &point.paths) {
        let of = observations.iter().filter(|o| o.point.paths == paths);
        let of: Vec<&Observation> = of.collect();
        let mut controllers = names(|point| &point.cc);
        controllers.retain(|cc| of.iter().any(|o| o.point.cc == *cc));
        let rows: Vec<Vec<f64>> = of
            .iter()
            .map(|o| row(&controllers, &o.point.cc, o.point.buffer_mib))
            .collect();
        let y: Vec<f64> = of.iter().map(|o| o.mbps).collect();
        let Some(fit) = Fit::new(&rows, &y) else {
            continue;
        };
        let k = controllers.len();
        for (i, cc) in controllers.iter().enumerate() {
            let [a, b, c] = [i, k + i, 2 * k].map(|at| fit.coefficients[at]);
            curves.push(Modelled {
                cc: cc.clone(),
                paths: paths.clone(),
                curve: Curve([a, b, c]),
            });
        }
        // The terms of the buffer, of which one at least has to tell.
        let p = fit.p_values[k..].iter().copied().fold(1.0, f64::min);
        qualities.push(Quality {
            paths,
            n: of.len(),
            r_square: fit.r_square,
            p,
            fit,
            controllers,
        });
    }
    (curves, qualities)
}

/// What equations 9 to 12 choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Controller, path manager and buffer size OCC, OPM and OBS.
    pub point: Point,
    /// The model's throughput there, OTP.
    pub mbps: f64,
    /// The highest throughput of all.
    pub highest_mbps: f64,
    /// The buffer that it takes.
    pub highest_mib: f64,
}

/// Of controllers and path managers those of the highest throughput, of buffers the least that keeps
/// 1 - `delta` of it. Managers that differ by less than `tie` of it are alike, and the first of
/// `managers` is taken: the simpler one [MO section 5.3].
///
/// Equation 11 as printed takes the least buffer of all pairs, also of a poor one; the paper's own
/// results are these.
pub fn choose(
    curves: &[Modelled],
    managers: &[String],
    range: [f64; 2],
    delta: f64,
    tie: f64,
) -> Option<Chosen> {
    let highest = |of: &Modelled| of.curve.highest(range);
    let best = curves
        .iter()
        .max_by(|a, b| highest(a).1.total_cmp(&highest(b).1))?;
    let least = (1.0 - tie) * highest(best).1;
    let preference = |of: &&Modelled| managers.iter().position(|name| *name == of.paths);
    let alike = curves
        .iter()
        .filter(|of| of.cc == best.cc && highest(of).1 >= least);
    let best = alike.min_by_key(|of| preference(of).unwrap_or(usize::MAX))?;
    let (highest_mib, highest_mbps) = highest(best);
    let mib = best.curve.least_with((1.0 - delta) * highest_mbps, range);
    let mib = mib.unwrap_or(highest_mib);
    Some(Chosen {
        point: Point {
            cc: best.cc.clone(),
            paths: best.paths.clone(),
            buffer_mib: mib,
        },
        mbps: best.curve.at(mib),
        highest_mbps,
        highest_mib,
    })
}

/// The least of all pairs' buffers, as equation 11 is printed.
pub fn choose_as_printed(curves: &[Modelled], range: [f64; 2], delta: f64) -> Option<Point> {
    let points = curves.iter().filter_map(|of| {
        let highest = of.curve.highest(range).1;
        let buffer_mib = of.curve.least_with((1.0 - delta) * highest, range)?;
        Some(Point {
            cc: of.cc.clone(),
            paths: of.paths.clone(),
            buffer_mib,
        })
    });
    points.min_by(|a, b| a.buffer_mib.total_cmp(&b.buffer_mib))
}

/// Equation 1, in MiB: (3 max RTT + max RTO) x the sum of all rates. RTO as Linux has it, at least 200 ms
/// above the RTT and a second in all, which is what the paper's numbers are.
pub fn traditional_mib(longest_rtt_s: f64, rates_mbps: f64) -> f64 {
    let rto_s = (longest_rtt_s + 0.2).max(1.0);
    (3.0 * longest_rtt_s + rto_s) * rates_mbps * 1e6 / 8.0 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: [f64; 2] = [0.5, 30.0];

    /// [MO] table 4: site, controller, FullMesh, PCDC; printed FullMesh of OLIA over UiT-HAW has 0.004.
    const TABLE_4: [(&str, &str, [f64; 3], [f64; 3]); 18] = [
        ("SRL-HU", "cubic", [3.49, 4.85, -0.15], [6.31, 5.45, -0.17]),
        ("SRL-HU", "olia", [7.01, 5.26, -0.15], [2.41, 6.51, -0.17]),
        ("SRL-HU", "hybla", [5.91, 5.00, -0.15], [24.49, 6.16, -0.17]),
        ("SRL-HU", "reno", [4.47, 4.59, -0.15], [3.49, 5.30, -0.17]),
        (
            "SRL-HU",
            "scalable",
            [3.49, 4.85, -0.15],
            [1.99, 5.64, -0.17],
        ),
        ("SRL-HU", "vegas", [4.67, 4.63, -0.15], [0.47, 5.38, -0.17]),
        (
            "UNIS-HiN",
            "cubic",
            [171.62, 11.08, -0.29],
            [200.82, 9.63, -0.27],
        ),
        (
            "UNIS-HiN",
            "olia",
            [102.04, 13.16, -0.29],
            [118.6, 12.25, -0.27],
        ),
        (
            "UNIS-HiN",
            "hybla",
            [109.0, 13.48, -0.29],
            [159.5, 11.42, -0.27],
        ),
        (
            "UNIS-HiN",
            "reno",
            [111.74, 13.54, -0.29],
            [138.3, 12.17, -0.27],
        ),
        (
            "UNIS-HiN",
            "scalable",
            [130.48, 12.95, -0.29],
            [178.56, 10.74, -0.27],
        ),
        (
            "UNIS-HiN",
            "vegas",
            [55.28, 9.85, -0.29],
            [66.8, 7.77, -0.27],
        ),
        ("UiT-HAW", "cubic", [0.763, 0.002, 0.0], [0.764, 0.002, 0.0]),
        ("UiT-HAW", "olia", [0.675, 0.004, 0.0], [0.68, 0.003, 0.0]),
        ("UiT-HAW", "hybla", [0.795, 0.002, 0.0], [0.796, 0.002, 0.0]),
        ("UiT-HAW", "reno", [0.753, 0.002, 0.0], [0.754, 0.002, 0.0]),
        (
            "UiT-HAW",
            "scalable",
            [0.807, 0.002, 0.0],
            [0.808, 0.002, 0.0],
        ),
        ("UiT-HAW", "vegas", [0.743, 0.002, 0.0], [0.744, 0.002, 0.0]),
    ];

    fn managers() -> Vec<String> {
        ["full-mesh", "pcdc"].map(str::to_owned).to_vec()
    }

    fn published(site: &str) -> Vec<Modelled> {
        let rows = TABLE_4.iter().filter(|row| row.0 == site);
        let modelled = rows.flat_map(|(_, cc, full_mesh, pcdc)| {
            [("full-mesh", full_mesh), ("pcdc", pcdc)].map(|(paths, curve)| Modelled {
                cc: (*cc).to_owned(),
                paths: paths.to_owned(),
                curve: Curve(*curve),
            })
        });
        modelled.collect()
    }

    /// To the digits that are printed.
    fn near(ours: f64, printed: f64, digits: f64) {
        assert!((ours - printed).abs() <= digits, "{ours} {printed}");
    }

    #[test]
    fn the_papers_three_solutions() {
        let solve = |site| choose(&published(site), &managers(), RANGE, 0.07, 0.01).unwrap();

        let srl = solve("SRL-HU");
        assert_eq!((&*srl.point.cc, &*srl.point.paths), ("hybla", "pcdc"));
        near(srl.highest_mbps, 80.27, 0.03);
        near(srl.highest_mib, 18.12, 0.01);
        near(srl.point.buffer_mib, 12.36, 0.01);
        near(srl.mbps, 74.65, 0.03);

        let unis = solve("UNIS-HiN");
        assert_eq!((&*unis.point.cc, &*unis.point.paths), ("cubic", "pcdc"));
        near(unis.highest_mbps, 286.73, 0.05);
        near(unis.highest_mib, 17.83, 0.01);
        near(unis.point.buffer_mib, 9.22, 0.35);
        near(unis.mbps, 266.66, 0.05);

        // Alike with both: the simpler one.
        let uit = solve("UiT-HAW");
        assert_eq!(
            (&*uit.point.cc, &*uit.point.paths),
            ("scalable", "full-mesh")
        );
        near(uit.highest_mbps, 0.87, 0.005);
        assert_eq!((uit.highest_mib, uit.point.buffer_mib), (30.0, 0.5));
        near(uit.mbps, 0.81, 0.005);
    }

    #[test]
    fn equation_11_as_printed_may_take_a_poor_pair() {
        let point = choose_as_printed(&published("UNIS-HiN"), RANGE, 0.07).unwrap();
        let best = choose(&published("UNIS-HiN"), &managers(), RANGE, 0.07, 0.01).unwrap();
        assert!(point.buffer_mib <= best.point.buffer_mib);
        let poor = choose_as_printed(&published("UiT-HAW"), RANGE, 0.07).unwrap();
        assert_eq!(poor.buffer_mib, 0.5);
        assert_ne!(poor.cc, "scalable");
    }

    /// The measurements that a curve would have given bring it back, and the choice.
    #[test]
    fn a_sweep_is_modelled() {
        let mut observations = Vec::new();
        for modelled in published("SRL-HU") {
            for step in 1..=60 {
                let buffer_mib = 0.5 * f64::from(step);
                // Alternating, so that something is left over.
                let noise = if step % 2 == 0 { 0.5 } else { -0.5 };
                observations.push(Observation {
                    point: Point {
                        cc: modelled.cc.clone(),
                        paths: modelled.paths.clone(),
                        buffer_mib,
                    },
                    mbps: modelled.curve.at(buffer_mib) + noise,
                });
            }
        }
        let (curves, qualities) = fit(&observations);
        assert_eq!((curves.len(), qualities.len()), (12, 2));
        assert!(qualities.iter().all(Quality::is_accepted), "{qualities:?}");
        assert_eq!(qualities[0].n, 360);
        let error = qualities[1].standard_error("hybla", 12.0);
        assert!(error > 0.01 && error < 0.2, "{error}");
        let chosen = choose(&curves, &managers(), RANGE, 0.07, 0.01).unwrap();
        assert_eq!((&*chosen.point.cc, &*chosen.point.paths), ("hybla", "pcdc"));
        near(chosen.point.buffer_mib, 12.36, 0.2);

        // Noise alone is no model.
        for (i, observation) in observations.iter_mut().enumerate() {
            observation.mbps = (i as u32).wrapping_mul(0x9e37_79b9) as f64 / 4e9;
        }
        assert!(!fit(&observations).1.iter().any(Quality::is_accepted));
    }

    #[test]
    fn the_traditional_size() {
        // Table 5 with the sums of rates that its results imply.
        near(traditional_mib(1.8, 373.0), 329.0, 1.0);
        near(traditional_mib(0.02, 427.0), 54.0, 0.1);
        near(traditional_mib(1.8, 1.38), 1.22, 0.01);
    }

    #[test]
    fn curves_that_only_fall_or_rise() {
        let falls = Curve([10.0, -0.1, 0.0]);
        assert_eq!(falls.highest(RANGE).0, 0.5);
        assert_eq!(falls.least_with(9.0, RANGE), Some(0.5));
        let rises = Curve([1.0, 1.0, 0.0]);
        assert_eq!(rises.highest(RANGE), (30.0, 31.0));
        assert_eq!(rises.least_with(21.0, RANGE), Some(20.0));
        assert_eq!(rises.least_with(40.0, RANGE), None);
    }
}
