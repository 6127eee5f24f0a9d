//! Progress bars: one per path, and the total.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use indicatif::MultiProgress;
use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// Identifies a path among all connections.
pub type PathKey = (usize, u64);

/// Bars on stderr, or nothing if that is not a terminal.
pub struct Progress {
    bars: MultiProgress,
    total: ProgressBar,
    paths: BTreeMap<PathKey, ProgressBar>,
}

impl Progress {
    /// Bars, unless `is_quiet`.
    pub fn new(is_quiet: bool) -> Progress {
        let target = if is_quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bars = MultiProgress::with_draw_target(target);
        let total = bars.add(ProgressBar::no_length());
        total.set_style(style(
            "{prefix:>32} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
        ));
        total.set_prefix("total");
        Progress {
            bars,
            total,
            paths: BTreeMap::new(),
        }
    }

    /// `bytes` of bodies have arrived, out of `expected` if that is known.
    pub fn set_total(&self, bytes: u64, expected: Option<u64>) {
        if let Some(expected) = expected {
            self.total.set_length(expected);
        }
        self.total.set_position(bytes);
    }

    /// The path `key`, called `name`, has received `bytes` of the `all` bytes
    /// that came over any path.
    pub fn set_path(&mut self, key: PathKey, name: &str, bytes: u64, all: u64) {
        let bar = self.paths.entry(key).or_insert_with(|| {
            let bar = self.bars.insert_before(&self.total, ProgressBar::new(all));
            bar.set_style(style("{prefix:>32} {wide_bar} {bytes} {bytes_per_sec}"));
            bar.set_prefix(name.to_owned());
            bar
        });
        bar.set_length(all);
        bar.set_position(bytes);
    }

    /// Takes the bars away.
    pub fn clear(&self) {
        // Only a terminal that has gone can fail here.
        let _ = self.bars.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
