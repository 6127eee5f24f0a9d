//! What property tests remember of failures.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;

/// The files, with what they had in them.
pub struct Memory(Vec<(PathBuf, Vec<u8>)>);

impl Memory {
    /// What is remembered now.
    pub fn of(dir: &Path) -> Result<Memory> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir.join("tests"))? {
            let path = entry?.path();
            if path
                .extension()
                .is_some_and(|e| e == "proptest-regressions")
            {
                files.push((path.clone(), fs::read(path)?));
            }
        }
        Ok(Memory(files))
    }

    /// Puts it back, or the failures of one mutant would be asked of the next.
    pub fn restore(&self) -> Result<()> {
        for (path, content) in &self.0 {
            fs::write(path, content)?;
        }
        Ok(())
    }
}
