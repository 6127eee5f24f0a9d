//! The folder `quiche-patches/`: UPSTREAM, series and the patch files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use anyhow::Result;
use sha2::Digest;
use sha2::Sha256;

use crate::patch::Message;
use crate::readme;
use crate::series::Series;
use crate::upstream::Upstream;

/// The patch queue as it is on disk.
#[derive(Clone, Debug)]
pub struct Queue {
    pub dir: PathBuf,
    pub upstream: Upstream,
    pub series: Series,
    /// The text of `series`.
    pub series_text: String,
    /// Every `*.patch` in the folder by file name, listed in `series` or not.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Queue {
    /// Reads the folder.
    pub fn load(dir: &Path) -> Result<Queue> {
        let upstream = Upstream::load(&dir.join("UPSTREAM"))?;
        let series_path = dir.join("series");
        let series_text = fs::read_to_string(&series_path)
            .with_context(|| format!("cannot read {}", series_path.display()))?;
        let series =
            Series::parse(&series_text).with_context(|| format!("in {}", series_path.display()))?;
        let mut files = BTreeMap::new();

        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();

            if name.ends_with(".patch") {
                files.insert(name, fs::read(entry.path())?);
            }
        }

        Ok(Queue {
            dir: dir.to_path_buf(),
            upstream,
            series,
            series_text,
            files,
        })
    }

    /// Names and contents of the listed patches, in order.
    pub fn patches(&self) -> Result<Vec<(&str, &[u8])>> {
        self.series
            .patches()
            .map(|name| {
                let bytes = self
                    .files
                    .get(name)
                    .with_context(|| format!("series lists {name}, but there is no such file"))?;

                Ok((name, bytes.as_slice()))
            })
            .collect()
    }

    /// Hash of everything that decides what `vendor/quiche` looks like.
    pub fn hash(&self) -> Result<String> {
        let mut hash = Sha256::new();

        hash.update(self.upstream.to_text());
        hash.update(&self.series_text);

        for (name, bytes) in self.patches()? {
            hash.update(format!("\n{name} {}\n", bytes.len()));
            hash.update(bytes);
        }

        Ok(format!("{:x}", hash.finalize()))
    }

    /// What is wrong with the folder before any patch is applied.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        let listed: Vec<_> = self.series.patches().collect();

        for name in &listed {
            let Some(bytes) = self.files.get(*name) else {
                complaints.push(format!("{name}: listed in series, but not there"));
                continue;
            };

            match Message::from_patch(bytes) {
                Ok(message) => {
                    complaints.extend(message.complaints().iter().map(|c| format!("{name}: {c}")))
                }

                Err(e) => complaints.push(format!("{name}: {e}")),
            }
        }

        complaints.extend(self.readme_complaints());

        for name in self.files.keys() {
            if !listed.contains(&name.as_str()) {
                complaints.push(format!(
                    "{name}: not listed in series; add it there or delete it"
                ));
            }
        }

        complaints
    }
    /// What is wrong with README.md, if there is one, and with the pull requests that it leads to.
    fn readme_complaints(&self) -> Vec<String> {
        let Ok(text) = fs::read_to_string(self.dir.join("README.md")) else {
            return Vec::new();
        };

        let entries: Vec<_> = self
            .series
            .patches()
            .filter_map(|file| {
                let message = Message::from_patch(self.files.get(file)?).ok()?;
                let status = message.trailer("Upstream-Status").unwrap_or_default();

                Some(readme::Entry {
                    file,
                    status: status.to_string(),
                    subject: message.subject,
                })
            })
            .collect();

        let mut complaints = readme::complaints(&text, &entries);
        complaints.extend(readme::upstream_complaints(
            &self.dir.join("upstream"),
            &entries,
        ));
        complaints
    }
}
