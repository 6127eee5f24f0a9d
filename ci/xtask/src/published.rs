//! Fetches the published crate, verifies it and unpacks it.

use std::fs;
use std::path::Component;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use sha2::Digest;
use sha2::Sha256;

use crate::upstream::Upstream;

/// Where `.crate` files come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Cargo's download cache, filled by cargo itself when the file is not there yet.
    Cargo,
    /// A folder of `.crate` files, for work without a network and for tests.
    Folder(PathBuf),
}

/// A `.crate` file in memory.
pub struct Package {
    bytes: Vec<u8>,
    /// `name-version`: the folder that every entry of the archive is in.
    stem: String,
}

impl Source {
    /// The crate that `upstream` names; its checksum is the one `upstream` states.
    pub fn fetch(&self, upstream: &Upstream) -> Result<Package> {
        let (name, version) = (upstream.name(), upstream.version());
        let stem = format!("{name}-{version}");
        let expected = upstream.checksum();

        let bytes = match self {
            Source::Folder(folder) => read_crate(folder, &stem)?,

            Source::Cargo => match find_in_cache(&stem, expected)? {
                Some(bytes) => bytes,

                None => {
                    eprintln!("fetching {name} {version} with cargo");
                    let stated = cargo_fetch(name, version)?;

                    // Says which of the two is wrong better than "not found".
                    if stated != expected {
                        bail!(mismatch(&stem, &stated, expected));
                    }

                    find_in_cache(&stem, expected)?.with_context(|| {
                        format!(
                            "cargo fetched {stem} but no {stem}.crate is in {}: \
                             put the file in a folder and pass --crates FOLDER",
                            cache_root().display()
                        )
                    })?
                }
            },
        };

        let actual = sha256(&bytes);

        if actual != expected {
            bail!(mismatch(&stem, &actual, expected));
        }

        Ok(Package { bytes, stem })
    }

    /// The SHA-256 that the source states for a version not yet in `UPSTREAM`.
    pub fn checksum(&self, name: &str, version: &str) -> Result<String> {
        match self {
            Source::Cargo => cargo_fetch(name, version),

            Source::Folder(folder) => {
                Ok(sha256(&read_crate(folder, &format!("{name}-{version}"))?))
            }
        }
    }
}

impl Package {
    /// Unpacks the crate's files into `into`, an empty folder.
    pub fn unpack(&self, into: &Path) -> Result<()> {
        let gz = flate2::read::GzDecoder::new(&self.bytes[..]);
        let mut archive = tar::Archive::new(gz);

        // Old modification times would hide changed files from cargo.
        archive.set_preserve_mtime(false);

        for entry in archive.entries()? {
            let mut entry = entry.context("the .crate file is damaged")?;
            let path = entry.path()?.into_owned();

            let inside = path
                .strip_prefix(&self.stem)
                .ok()
                .filter(|p| p.components().all(|c| matches!(c, Component::Normal(_))))
                .with_context(|| {
                    format!(
                        "the .crate file holds `{}`, which is not inside `{}/`",
                        path.display(),
                        self.stem
                    )
                })?;

            let kind = entry.header().entry_type();

            if !kind.is_file() && !kind.is_dir() {
                bail!(
                    "the .crate file holds `{}`, neither file nor folder",
                    path.display()
                );
            }

            let target = into.join(inside);

            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }

            entry
                .unpack(&target)
                .with_context(|| format!("cannot write {}", target.display()))?;
        }

        Ok(())
    }
}

/// The upstream commit that the unpacked crate in `dir` was published from, if it says so.
pub fn revision(dir: &Path) -> Option<String> {
    let text = fs::read_to_string(dir.join(".cargo_vcs_info.json")).ok()?;
    let json: serde_json::Value = serde_json::from_str(&text).ok()?;

    Some(json["git"]["sha1"].as_str()?.to_string())
}

/// SHA-256 in lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn mismatch(stem: &str, actual: &str, expected: &str) -> String {
    format!(
        "the checksum of {stem}.crate is\n  {actual}, but UPSTREAM says\n  \
         {expected}\nThe file is not the one the patches were made for; \
         `cargo xtask quiche bump VERSION` moves them to another version."
    )
}

fn read_crate(folder: &Path, stem: &str) -> Result<Vec<u8>> {
    let path = folder.join(format!("{stem}.crate"));

    fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
}

fn cache_root() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| Path::new(&h).join(".cargo")));

    home.unwrap_or_default().join("registry/cache")
}

/// Looks for the file in every registry's part of cargo's cache.
fn find_in_cache(stem: &str, checksum: &str) -> Result<Option<Vec<u8>>> {
    let Ok(registries) = fs::read_dir(cache_root()) else {
        return Ok(None);
    };

    for registry in registries {
        let path = registry?.path().join(format!("{stem}.crate"));

        if let Ok(bytes) = fs::read(&path) {
            if sha256(&bytes) == checksum {
                return Ok(Some(bytes));
            }
        }
    }

    Ok(None)
}

/// Makes cargo download the crate and returns the checksum from the registry's
/// index. A throw-away project asks for it, so cargo's own configuration
/// (mirrors, proxies, credentials) is in force.
fn cargo_fetch(name: &str, version: &str) -> Result<String> {
    let project = tempfile::tempdir()?;

    // Without default features, as only the crate itself is wanted.
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [lib]\npath = \"lib.rs\"\n[workspace]\n[dependencies]\n\
         {name} = {{ version = \"={version}\", default-features = false }}\n"
    );

    fs::write(project.path().join("Cargo.toml"), manifest)?;
    fs::write(project.path().join("lib.rs"), "")?;

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .arg("fetch")
        .current_dir(project.path())
        .status()
        .context("cannot run cargo")?;

    if !status.success() {
        bail!(
            "cargo cannot fetch {name} {version}, and says why above.\n\
             Check the version and the network, or pass --crates FOLDER \
             with {name}-{version}.crate in it."
        );
    }

    let lock: toml::Table = fs::read_to_string(project.path().join("Cargo.lock"))?.parse()?;

    lock["package"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"].as_str() == Some(name))
        .and_then(|p| p.get("checksum")?.as_str())
        .map(String::from)
        .with_context(|| format!("cargo's lockfile has no checksum for {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(entry: &str, kind: tar::EntryType) -> Package {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(
            Vec::new(),
            flate2::Compression::fast(),
        ));

        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..entry.len()].copy_from_slice(entry.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(2);
        header.set_cksum();
        builder.append(&header, &b"x\n"[..]).unwrap();

        Package {
            bytes: builder.into_inner().unwrap().finish().unwrap(),
            stem: "q-1.0.0".into(),
        }
    }

    #[test]
    fn unpacks_without_the_outer_folder() {
        let dir = tempfile::tempdir().unwrap();
        package("q-1.0.0/src/a.rs", tar::EntryType::Regular)
            .unpack(dir.path())
            .unwrap();
        assert_eq!(fs::read(dir.path().join("src/a.rs")).unwrap(), b"x\n");
    }

    #[test]
    fn refuses_entries_outside_and_links() {
        for (entry, kind) in [
            ("q-1.0.0/../a", tar::EntryType::Regular),
            ("other/a", tar::EntryType::Regular),
            ("q-1.0.0/a", tar::EntryType::Symlink),
        ] {
            let outer = tempfile::tempdir().unwrap();
            let dir = outer.path().join("in");
            fs::create_dir(&dir).unwrap();
            assert!(package(entry, kind).unpack(&dir).is_err(), "{entry}");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
            assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
        }
    }
}
