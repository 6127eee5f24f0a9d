//! The file `UPSTREAM`: which published crate the patches are for.

use std::path::Path;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;

/// Contents of `UPSTREAM`: `Key: value` lines, kept as they are except where [`Upstream::set`] changes one.
#[derive(Clone, Debug)]
pub struct Upstream {
    lines: Vec<String>,
}

impl Upstream {
    /// Reads `UPSTREAM` and checks that the keys the tool relies on are there.
    pub fn load(path: &Path) -> Result<Upstream> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;

        Upstream::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    fn parse(text: &str) -> Result<Upstream> {
        let upstream = Upstream {
            lines: text.lines().map(String::from).collect(),
        };

        for key in ["Name", "Version", "Checksum", "License"] {
            if upstream.get(key).is_none_or(str::is_empty) {
                bail!("the line `{key}: ...` is missing");
            }
        }

        let checksum = upstream.checksum();

        if checksum.len() != 64 || !checksum.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!("`Checksum: {checksum}` is not a SHA-256 in hexadecimal");
        }

        Ok(upstream)
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|l| value_of(l, key))
    }

    /// Name of the crate.
    pub fn name(&self) -> &str {
        self.get("Name").unwrap_or_default()
    }

    /// The exact version of the crate.
    pub fn version(&self) -> &str {
        self.get("Version").unwrap_or_default()
    }

    /// SHA-256 of the `.crate` file, as the package registry states it.
    pub fn checksum(&self) -> &str {
        self.get("Checksum").unwrap_or_default()
    }

    /// Sets `key` to `value`, in place if the key is there already.
    pub fn set(&mut self, key: &str, value: &str) {
        let line = format!("{key}: {value}");

        match self.lines.iter_mut().find(|l| value_of(l, key).is_some()) {
            Some(old) => *old = line,
            None => self.lines.push(line),
        }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        self.lines.iter().map(|l| format!("{l}\n")).collect()
    }
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (k, v) = line.split_once(':')?;
    (k == key).then(|| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(checksum: &str) -> String {
        format!("# base\nName: q\nVersion: 1.2.3\nChecksum: {checksum}\nLicense: BSD-2-Clause\n")
    }

    #[test]
    fn reads_and_replaces_in_place() {
        let mut upstream = Upstream::parse(&text(&"0a".repeat(32))).unwrap();
        assert_eq!(upstream.name(), "q");
        assert_eq!(upstream.version(), "1.2.3");

        upstream.set("Version", "2.0.0");
        upstream.set("Revision", "abc");
        assert_eq!(
            upstream.to_text(),
            text(&"0a".repeat(32)).replace("1.2.3", "2.0.0") + "Revision: abc\n"
        );
    }

    #[test]
    fn refuses_missing_keys_and_bad_checksums() {
        let err = Upstream::parse("Name: q\n").unwrap_err().to_string();
        assert!(err.contains("`Version: ...` is missing"), "{err}");

        let err = Upstream::parse(&text("0a0a")).unwrap_err().to_string();
        assert!(err.contains("not a SHA-256"), "{err}");
    }
}
