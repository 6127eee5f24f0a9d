//! Which frames the channel loses.

use std::str::FromStr;
use std::sync::Arc;

use super::seed::Generator;
use super::seed::Purpose;
use super::seed::Seeds;
use crate::units::parse_probability;

/// A law of random loss. All fields are probabilities from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    #[default]
    None,
    /// Every frame is lost with probability `p`, on its own.
    Bernoulli { p: f64 },
    /// Gilbert 1960, Elliott 1963: a channel with a good and a bad state. Before each frame it goes
    /// bad with probability `p` and good with probability `r`; a frame passes the good state with
    /// probability `k` and the bad one with `h`. Gilbert's simple model is h = 0, k = 1: then
    /// the loss is p / (p + r) and the mean burst 1 / r frames.
    GilbertElliott { p: f64, r: f64, h: f64, k: f64 },
    /// The frames with these indices are lost, in ascending order; the first frame has index 0.
    Packets(Arc<[u64]>),
}

impl LossModel {
    /// The share of frames lost in the long run.
    pub fn expected_loss(&self) -> f64 {
        match *self {
            LossModel::None | LossModel::Packets(_) => 0.0,
            LossModel::Bernoulli { p } => p,
            LossModel::GilbertElliott { p, r, h, k } => ((1.0 - k) * r + (1.0 - h) * p) / (p + r),
        }
    }
}

impl FromStr for LossModel {
    type Err = String;

    /// `none`, `0.5%`, `gilbert:p=0.25%,r=50%`, `gilbert-elliott:p=1%,r=20%,h=10%,k=99.9%`,
    /// `packets:3,17`.
    fn from_str(text: &str) -> Result<LossModel, String> {
        let text = text.trim();
        let (law, parameters) = match text.split_once(':') {
            Some((law, parameters)) => (law, parameters),
            None if text == "none" => return Ok(LossModel::None),
            None if text.starts_with(|c: char| c.is_ascii_alphabetic()) => (text, ""),
            None => {
                let p = parse_probability(text)?;
                return Ok(if p == 0.0 {
                    LossModel::None
                } else {
                    LossModel::Bernoulli { p }
                });
            }
        };
        if law == "packets" {
            let indices = parameters.split(',').map(|index| {
                let hint = format!("\"{text}\": write indices from 0 on, for example packets:3,17");
                index.trim().parse().map_err(|_| hint)
            });
            let mut indices = indices.collect::<Result<Vec<u64>, String>>()?;
            indices.sort_unstable();
            return Ok(LossModel::Packets(indices.into()));
        }
        let names: &[&str] = match law {
            "gilbert" => &["p", "r"],
            "gilbert-elliott" => &["p", "r", "h", "k"],
            _ => {
                return Err(format!(
                "\"{text}\": unknown loss law; use none, a percentage such as 0.5%, packets:3,17, \
                     gilbert:p=..,r=.. or gilbert-elliott:p=..,r=..,h=..,k=.."
            ))
            }
        };
        let mut values = vec![None; names.len()];
        for parameter in parameters.split(',').filter(|part| !part.is_empty()) {
            let known = parameter.split_once('=').and_then(|(name, value)| {
                Some((names.iter().position(|n| *n == name.trim())?, value))
            });
            let Some((at, value)) = known else {
                return Err(format!("\"{parameter}\": {law} takes {}", names.join(", ")));
            };
            values[at] = Some(parse_probability(value)?);
        }
        let value = |at: usize| {
            values[at].ok_or_else(|| format!("\"{text}\": {law} needs {}=..%", names[at]))
        };
        let (p, r) = (value(0)?, value(1)?);
        if p + r == 0.0 {
            return Err(format!(
                "\"{text}\": p and r are both 0, so the channel never changes state"
            ));
        }
        let (h, k) = if names.len() == 4 {
            (value(2)?, value(3)?)
        } else {
            (0.0, 1.0)
        };
        Ok(LossModel::GilbertElliott { p, r, h, k })
    }
}

/// A loss law with its generators: one draw of each per frame, whatever the law.
#[derive(Clone, Debug)]
pub struct Loss {
    model: LossModel,
    draws: Generator,
    states: Generator,
    bad: bool,
    /// Frames so far.
    index: u64,
}

impl Loss {
    /// The channel starts in a state drawn from its long-run distribution.
    pub fn new(model: LossModel, seeds: &Seeds) -> Loss {
        let mut states = seeds.generator(Purpose::LossState);
        let start = states.unit();
        let mut loss = Loss {
            model,
            draws: seeds.generator(Purpose::LossDraw),
            states,
            bad: false,
            index: 0,
        };
        if let LossModel::GilbertElliott { p, r, .. } = loss.model {
            loss.bad = start < p / (p + r);
        }
        loss
    }

    /// Puts another law in force from the next frame on. A Gilbert-Elliott channel keeps its state.
    pub fn set_model(&mut self, model: LossModel) {
        self.model = model;
    }

    /// Whether the next frame is lost.
    pub fn next_is_lost(&mut self) -> bool {
        let (draw, change) = (self.draws.unit(), self.states.unit());
        let index = self.index;
        self.index += 1;
        match self.model {
            LossModel::Packets(ref indices) => indices.binary_search(&index).is_ok(),
            LossModel::None => false,
            LossModel::Bernoulli { p } => draw < p,
            LossModel::GilbertElliott { p, r, h, k } => {
                if change < if self.bad { r } else { p } {
                    self.bad = !self.bad;
                }
                draw >= if self.bad { h } else { k }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::seed::Way;
    use super::*;

    fn sequence(model: LossModel, master: u64, n: usize) -> Vec<bool> {
        let seeds = Seeds {
            master,
            run: 0,
            link: "l".into(),
            way: Way::AToB,
        };
        let mut loss = Loss::new(model, &seeds);
        (0..n).map(|_| loss.next_is_lost()).collect()
    }

    fn burst_lengths(lost: &[bool]) -> Vec<usize> {
        lost.chunk_by(|a, b| a == b)
            .filter(|run| run[0])
            .map(<[bool]>::len)
            .collect()
    }

    #[test]
    fn bernoulli_counts_lie_in_the_99_percent_binomial_interval() {
        let n = 200_000;
        for (p, master) in [(0.005, 1), (0.02, 2), (0.3, 3)] {
            let lost = sequence(LossModel::Bernoulli { p }, master, n);
            let count = lost.iter().filter(|l| **l).count() as f64;
            let mean = n as f64 * p;
            let half_width = 2.576 * (mean * (1.0 - p)).sqrt();
            assert!((count - mean).abs() <= half_width, "p {p}: {count} of {n}");
        }
    }

    #[test]
    fn gilbert_loss_and_mean_burst() {
        // p = 0.01, r = 0.25: loss 1/26, mean burst 4 frames.
        let (p, r, n) = (0.01, 0.25, 1_000_000);
        let model: LossModel = "gilbert:p=1%,r=25%".parse().unwrap();
        assert_eq!(
            model,
            LossModel::GilbertElliott {
                p,
                r,
                h: 0.0,
                k: 1.0
            }
        );
        let lost = sequence(model, 11, n);
        let share = lost.iter().filter(|l| **l).count() as f64 / n as f64;
        assert!((share / (p / (p + r)) - 1.0).abs() < 0.05, "loss {share}");
        let bursts = burst_lengths(&lost);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        // About 9600 geometric bursts with deviation sqrt(1-r)/r = 3.46: 2.576 standard errors = 0.09.
        assert!((mean - 1.0 / r).abs() < 0.095, "mean burst {mean}");
    }

    #[test]
    fn gilbert_bursts_follow_the_geometric_law() {
        let r = 0.5;
        let lost = sequence(
            LossModel::GilbertElliott {
                p: 0.02,
                r,
                h: 0.0,
                k: 1.0,
            },
            5,
            1_000_000,
        );
        let bursts = burst_lengths(&lost);
        // Lengths 1..=6 and "7 or more": 7 classes, 6 degrees of freedom, 1 % point 16.81.
        let mut seen = [0f64; 7];
        for length in &bursts {
            seen[(length - 1).min(6)] += 1.0;
        }
        let n = bursts.len() as f64;
        let chi_square: f64 = seen
            .iter()
            .enumerate()
            .map(|(i, observed)| {
                let tail = (1.0 - r).powi(i as i32);
                let expected = n * if i < 6 { tail * r } else { tail };
                (observed - expected).powi(2) / expected
            })
            .sum();
        assert!(chi_square < 16.81, "chi-square {chi_square}");
    }

    #[test]
    fn gilbert_elliott_loss() {
        let model: LossModel = "gilbert-elliott:p=2%,r=20%,h=30%,k=99%".parse().unwrap();
        // (0.01 * 0.2 + 0.7 * 0.02) / 0.22 = 0.016 / 0.22
        assert!((model.expected_loss() - 0.016 / 0.22).abs() < 1e-12);
        let lost = sequence(model.clone(), 3, 1_000_000);
        let share = lost.iter().filter(|l| **l).count() as f64 / 1e6;
        assert!(
            (share / model.expected_loss() - 1.0).abs() < 0.05,
            "loss {share}"
        );
    }

    #[test]
    fn a_change_of_law_does_not_shift_the_draws() {
        let p = LossModel::Bernoulli { p: 0.1 };
        let steady = sequence(p.clone(), 9, 1000);
        let seeds = Seeds {
            master: 9,
            run: 0,
            link: "l".into(),
            way: Way::AToB,
        };
        let mut loss = Loss::new(LossModel::None, &seeds);
        assert!((0..500).all(|_| !loss.next_is_lost()));
        loss.set_model(p);
        let after: Vec<bool> = (500..1000).map(|_| loss.next_is_lost()).collect();
        assert_eq!(after, steady[500..]);
    }

    #[test]
    fn listed_packets_are_lost_and_no_others() {
        let lost = sequence("packets:5,0,3".parse().unwrap(), 1, 8);
        let indices: Vec<usize> = (0..8).filter(|i| lost[*i]).collect();
        assert_eq!(indices, [0, 3, 5]);
    }

    #[test]
    fn bad_text_is_refused_with_a_hint() {
        for (text, hint) in [
            ("0.5", "unit is missing"),
            ("gilbert", "needs p="),
            ("gilbert:p=1%", "needs r="),
            ("gilbert:p=1%,q=2%", "takes p, r"),
            ("gilbert:p=0%,r=0%", "never changes"),
            ("burst", "unknown loss law"),
            ("packets", "packets:3,17"),
            ("packets:a", "packets:3,17"),
        ] {
            let error = text.parse::<LossModel>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
        assert_eq!("0%".parse(), Ok(LossModel::None));
        assert_eq!("none".parse(), Ok(LossModel::None));
    }
}
