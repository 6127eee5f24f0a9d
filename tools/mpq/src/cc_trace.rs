//! `--cc-trace`: what the congestion controller decides, as a table.
//!
//! One row for each event of each path: when (seconds since the command began),
//! connection (its first connection ID), path, controller, event, phase, window,
//! slow-start threshold (empty until it is set), RTTs (empty before the first
//! sample), then what the decision comes from, by the symbols of the
//! controller's paper.

use std::fs::File;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::CcObserver;
use quiche::CcDecision;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::USAGE;

/// The columns that every controller has.
const COLUMNS: [&str; 10] = [
    "time_s",
    "connection",
    "path_id",
    "controller",
    "event",
    "phase",
    "cwnd_bytes",
    "ssthresh_bytes",
    "srtt_us",
    "min_rtt_us",
];

/// An observer that writes to `file` what the controller described by `cc`
/// decides.
///
/// # Errors
/// The file cannot be created, or the controller is one of quiche's own, which
/// tell nothing.
pub fn to_csv(file: &Path, cc: &str) -> Result<CcObserver, Failure> {
    let name = cc.split(':').next().unwrap_or_default();
    if name.parse::<quiche::CongestionControlAlgorithm>().is_ok() {
        return Err(Failure::new(
            USAGE,
            format!(
                "--cc-trace has nothing to tell about {name}, which is quiche's own; \
                 choose another controller, such as --cc uncoupled-cubic or --cc lia"
            ),
        ));
    }
    let table = csv::Writer::from_path(file)
        .map_err(|e| Failure::new(LOCAL, format!("cannot create {}: {e}", file.display())))?;
    let table = Mutex::new(Table {
        file: file.to_owned(),
        began: Instant::now(),
        has_header: false,
        rows: Some(table),
    });
    Ok(CcObserver(Arc::new(move |decision| {
        table
            .lock()
            .expect("no panic while writing")
            .write(decision);
    })))
}

struct Table {
    file: PathBuf,
    began: Instant,
    has_header: bool,
    /// `None` once a row could not be written.
    rows: Option<csv::Writer<File>>,
}

impl Table {
    fn write(&mut self, decision: &CcDecision) {
        let Some(rows) = &mut self.rows else {
            return;
        };
        if let Err(e) = write_row(rows, self.began, !self.has_header, decision) {
            self.fail(e);
        }
        self.has_header = true;
    }

    fn fail(&mut self, e: csv::Error) {
        self.rows = None;
        eprintln!("mpq: cannot write {}: {e}", self.file.display());
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(Err(e)) = self.rows.as_mut().map(|rows| rows.flush()) {
            self.fail(e.into());
        }
    }
}

fn write_row(
    rows: &mut csv::Writer<File>,
    began: Instant,
    is_first: bool,
    decision: &CcDecision,
) -> csv::Result<()> {
    if is_first {
        // A controller shows the same values every time.
        let names = decision.values.iter().map(|(name, _)| *name);
        rows.write_record(COLUMNS.into_iter().chain(names))?;
    }
    let time = decision.time.saturating_duration_since(began);
    let micros = |time: Option<Duration>| time.map(|time| time.as_micros());
    let known = |number: Option<u128>| number.map_or(String::new(), |number| number.to_string());
    let fields = [
        format!("{:.6}", time.as_secs_f64()),
        decision.connection.to_owned(),
        decision.path_id.to_string(),
        decision.controller.to_owned(),
        decision.event.name().to_owned(),
        decision.phase.to_owned(),
        decision.cwnd_bytes.to_string(),
        known(decision.ssthresh_bytes.map(u128::from)),
        known(micros(decision.smoothed_rtt)),
        known(micros(decision.min_rtt)),
    ];
    let values = decision.values.iter().map(|(_, value)| value.to_string());
    rows.write_record(fields.into_iter().chain(values))
}
