//! What is measured, and where: a measurement is asked for by its point, and what came of it is kept.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use super::Point;
use crate::exit::Failure;
use crate::exit::LOCAL;

/// Of the format of the file.
const VERSION: u32 = 1;

/// What to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The throughput at the point.
    Throughput,
    /// The impact factor of each path, without using it.
    Impacts,
}

/// A measurement that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// What.
    pub what: What,
    /// With what.
    pub point: Point,
    /// How long, each throughput of impact factors, too.
    pub seconds: f64,
    /// From 1; rounds differ in what is random.
    pub round: u32,
    /// Impact factors that are known, by path.
    pub impacts: BTreeMap<String, f64>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Data that the receiving application was given.
    pub mbps: f64,
    /// The same in bytes.
    pub bytes: u64,
    /// How long it took, on the network's clock.
    pub spent_s: f64,
    /// The longest smoothed RTT of a path.
    pub longest_rtt_s: f64,
    /// What each path carried.
    pub rates_mbps: BTreeMap<String, f64>,
    /// Impact factors, where they were asked for.
    pub impacts: BTreeMap<String, f64>,
}

/// Where it is measured.
pub trait Lab {
    /// Measures.
    ///
    /// # Errors
    /// With the code [`INTERRUPTED`](crate::exit::INTERRUPTED) if it was to stop.
    fn measure(&mut self, ask: &Ask) -> Result<Measured, Failure>;
}

#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    target: String,
}

#[derive(Clone, Serialize, Deserialize)]
struct Kept {
    ask: Ask,
    measured: Measured,
}

/// Told of each measurement before it is made, and with its result after it.
type OnProgress<'a> = Box<dyn FnMut(&Ask, Option<&Measured>) + 'a>;

/// Measurements, each made once: what is in the folder from an earlier run is taken from there.
pub struct Record<'a> {
    lab: Option<&'a mut dyn Lab>,
    file: Option<(PathBuf, File)>,
    kept: Vec<Kept>,
    /// Of those that this run needed.
    used: Vec<usize>,
    on_progress: OnProgress<'a>,
}

impl<'a> Record<'a> {
    /// The measurements of `target` in the file `measurements.jsonl` of `folder`, which need not exist.
    ///
    /// # Errors
    /// If the file cannot be read or written, or is about another target.
    pub fn open(
        folder: &Path,
        target: &str,
        lab: &'a mut dyn Lab,
        on_progress: impl FnMut(&Ask, Option<&Measured>) + 'a,
    ) -> Result<Record<'a>, Failure> {
        let path = folder.join("measurements.jsonl");
        let refuse = |e: &dyn std::fmt::Display| {
            Failure::new(LOCAL, format!("cannot use {}: {e}", path.display()))
        };
        fs::create_dir_all(folder).map_err(|e| refuse(&e))?;
        let mut kept = Vec::new();
        let mut is_new = true;
        // Of a run that ended in the middle of a line, that line is lost.
        let mut whole = 0;
        if let Ok(file) = File::open(&path) {
            let mut lines = BufReader::new(file);
            let mut line = String::new();
            while lines.read_line(&mut line).map_err(|e| refuse(&e))? > 0 && line.ends_with('\n') {
                if is_new {
                    let head: Head = serde_json::from_str(&line).map_err(|e| refuse(&e))?;
                    if head.version != VERSION || head.target != target {
                        let why = "it is about something else; choose another --out";
                        return Err(refuse(&why));
                    }
                    is_new = false;
                } else {
                    kept.push(serde_json::from_str(&line).map_err(|e| refuse(&e))?);
                }
                whole += line.len() as u64;
                line.clear();
            }
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let mut file = file.map_err(|e| refuse(&e))?;
        file.set_len(whole).map_err(|e| refuse(&e))?;
        if is_new {
            let head = Head {
                version: VERSION,
                target: target.to_owned(),
            };
            let text = serde_json::to_string(&head).map_err(|e| refuse(&e))?;
            writeln!(file, "{text}").map_err(|e| refuse(&e))?;
        }
        Ok(Record {
            lab: Some(lab),
            file: Some((path, file)),
            kept,
            used: Vec::new(),
            on_progress: Box::new(on_progress),
        })
    }

    /// The measurement, made now or before.
    ///
    /// # Errors
    /// If it cannot be made or kept.
    pub fn ask(&mut self, ask: Ask) -> Result<Measured, Failure> {
        let at = match self.kept.iter().position(|kept| kept.ask == ask) {
            Some(at) => at,
            None => {
                (self.on_progress)(&ask, None);
                let Some(lab) = &mut self.lab else {
                    return Err(Failure::new(LOCAL, "this was not measured"));
                };
                let measured = lab.measure(&ask)?;
                let kept = Kept { ask, measured };
                if let Some((path, file)) = &mut self.file {
                    let text = serde_json::to_string(&kept).map_err(|e| Failure::new(LOCAL, e))?;
                    writeln!(file, "{text}").map_err(|e| {
                        Failure::new(LOCAL, format!("cannot write {}: {e}", path.display()))
                    })?;
                }
                self.kept.push(kept);
                self.kept.len() - 1
            }
        };
        if !self.used.contains(&at) {
            self.used.push(at);
            let Kept { ask, measured } = &self.kept[at];
            (self.on_progress)(ask, Some(measured));
        }
        Ok(self.kept[at].measured.clone())
    }

    /// What was asked for so far, and what came of it.
    pub fn used(&self) -> impl Iterator<Item = (&Ask, &Measured)> + use<'_, 'a> {
        let kept = self.used.iter().map(|at| &self.kept[*at]);
        kept.map(|kept| (&kept.ask, &kept.measured))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter(u32);

    impl Lab for Counter {
        fn measure(&mut self, ask: &Ask) -> Result<Measured, Failure> {
            self.0 += 1;
            if ask.round > 2 {
                return Err(Failure::new(crate::exit::INTERRUPTED, "interrupted"));
            }
            Ok(Measured {
                mbps: 0.1 + f64::from(ask.round),
                ..Measured::default()
            })
        }
    }

    fn ask(round: u32) -> Ask {
        Ask {
            what: What::Throughput,
            point: Point {
                cc: "cubic".into(),
                paths: "full-mesh".into(),
                buffer_mib: 0.5,
            },
            seconds: 10.0,
            round,
            impacts: BTreeMap::from([("a".into(), -0.25)]),
        }
    }

    #[test]
    fn an_interrupted_run_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Counter(0);
        {
            let mut record = Record::open(folder.path(), "x", &mut first, |_, _| ()).unwrap();
            assert_eq!(record.ask(ask(1)).unwrap().mbps, 1.1);
            assert_eq!(record.ask(ask(1)).unwrap().mbps, 1.1);
            record.ask(ask(2)).unwrap();
            assert_eq!(
                record.ask(ask(3)).unwrap_err().code,
                crate::exit::INTERRUPTED
            );
        }
        assert_eq!(first.0, 3);
        // The last line was being written.
        let file = folder.path().join("measurements.jsonl");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, &text[..text.len() - 5]).unwrap();

        let mut second = Counter(0);
        let mut told = Vec::new();
        {
            let on_progress = |ask: &Ask, m: Option<&Measured>| told.push((ask.round, m.is_some()));
            let mut record = Record::open(folder.path(), "x", &mut second, on_progress).unwrap();
            assert_eq!(record.ask(ask(1)).unwrap().mbps, 1.1);
            assert_eq!(record.ask(ask(2)).unwrap().mbps, 2.1);
            assert_eq!(record.used().count(), 2);
        }
        assert_eq!(second.0, 1);
        assert_eq!(told, [(1, true), (2, false), (2, true)]);
        let mut third = Counter(0);
        let record = Record::open(folder.path(), "y", &mut third, |_, _| ());
        assert!(record.err().unwrap().message.unwrap().contains("--out"));
    }
}
