//! What is kept of servers from one run to the next, in the file of `--session`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use mpq_decision::paths::Pair;
use mpq_driver::h3::client::Verify;
use mpq_driver::Resumption;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest;
use sha2::Sha256;

use crate::exit::Failure;
use crate::exit::LOCAL;

/// Of the format of the file.
const VERSION: u32 = 1;

const PIN: &str = "pin";
const NONE: &str = "none";

/// The file, read.
#[derive(Debug)]
pub struct Remembered {
    file: PathBuf,
    content: Content,
    is_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Content {
    version: u32,
    /// By name or address, and port.
    servers: BTreeMap<String, Entry>,
}

/// What is kept of one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Entry {
    /// Where the handshake ran.
    local: Option<IpAddr>,
    remote: Option<IpAddr>,
    /// Hexadecimal.
    tls_session: Option<String>,
    /// How the certificate behind that session was judged.
    trust: Option<String>,
    /// Hexadecimal; gone once a connection has begun with it.
    token: Option<String>,
    /// What was measured of paths, by the algorithms it was measured with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    impacts: BTreeMap<String, Impacts>,
}

/// Impact factors of paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Impacts {
    /// Seconds since 1970.
    measured_at: u64,
    /// Our address, the server's, and the factor.
    paths: Vec<(IpAddr, SocketAddr, f64)>,
}

/// Networks change: impact factors are measured anew after a day.
const IMPACTS_LAST_S: u64 = 24 * 3600;

/// How certificates are judged in this run.
#[derive(Clone, Debug)]
pub struct Trust(String);

impl Trust {
    /// As `verify` says.
    ///
    /// # Errors
    /// If its file cannot be read.
    pub fn new(verify: &Verify) -> Result<Trust, Failure> {
        Ok(Trust(match verify {
            Verify::System => "system".into(),
            Verify::Ca(file) => {
                let text = std::fs::read(file)
                    .map_err(|e| Failure::new(LOCAL, format!("cannot read {file}: {e}")))?;
                format!("ca {}", hex(&Sha256::digest(text)))
            }
            Verify::Pin(_) => PIN.into(),
            Verify::None => NONE.into(),
        }))
    }

    /// Whether a session of that judgement may be used. Who does not look need not care, and a pinned certificate is
    /// compared with that of the session.
    fn accepts(&self, kept: Option<&str>) -> bool {
        [PIN, NONE].contains(&self.0.as_str()) || kept == Some(&self.0)
    }
}

impl Remembered {
    /// Reads `file`, which need not exist.
    ///
    /// # Errors
    /// If it cannot be read, or is something else: it would be overwritten.
    pub fn read(file: &Path) -> Result<Remembered, Failure> {
        let content = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text)
                .ok()
                .filter(|content: &Content| content.version == VERSION)
                .ok_or_else(|| {
                    let file = file.display();
                    Failure::new(LOCAL, format!("{file} is no file of --session; remove it"))
                })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Content {
                version: VERSION,
                servers: BTreeMap::new(),
            },
            Err(e) => {
                let file = file.display();
                return Err(Failure::new(LOCAL, format!("cannot read {file}: {e}")));
            }
        };
        Ok(Remembered {
            file: file.to_owned(),
            content,
            is_changed: false,
        })
    }

    /// What the next connection to `server` begins with. Its certificate is not seen again: a session is one of a
    /// server whose certificate was judged as `trust` says.
    pub fn resumption(&self, server: &str, trust: &Trust) -> Resumption {
        let entry = self.content.servers.get(server);
        let bytes = |hex: Option<&String>| hex.and_then(|hex| unhex(hex));
        let trusted = entry.filter(|entry| trust.accepts(entry.trust.as_deref()));
        Resumption {
            session: bytes(trusted.and_then(|entry| entry.tls_session.as_ref())),
            token: bytes(entry.and_then(|entry| entry.token.as_ref())),
        }
    }

    /// Whether the handshake with `server` ran over the same addresses the last time.
    pub fn is_same_network(&self, server: &str, pair: &Pair) -> bool {
        self.content.servers.get(server).is_some_and(|entry| {
            entry.local == Some(pair.local.ip) && entry.remote == Some(pair.remote.ip())
        })
    }

    /// The impact factors that were found with these algorithms less than a day before `now_s`: our
    /// address, the server's, and the factor.
    pub fn impacts(&self, server: &str, with: &str, now_s: u64) -> &[(IpAddr, SocketAddr, f64)] {
        let entry = self.content.servers.get(server);
        let impacts = entry.and_then(|entry| entry.impacts.get(with));
        let fresh = impacts.filter(|impacts| {
            let age_s = now_s.checked_sub(impacts.measured_at);
            age_s.is_some_and(|age_s| age_s < IMPACTS_LAST_S)
        });
        fresh.map_or(&[], |impacts| &impacts.paths)
    }

    /// Keeps the impact factors of a connection's paths, unless they are those it began with.
    pub fn keep_impacts(
        &mut self,
        server: &str,
        with: &str,
        now_s: u64,
        mut paths: Vec<(IpAddr, SocketAddr, f64)>,
    ) {
        let known = self.impacts(server, with, now_s);
        if paths.iter().all(|path| known.contains(path)) {
            return;
        }
        // Other networks than those of this connection.
        let is_new = |ends: &&(IpAddr, SocketAddr, f64)| {
            !paths
                .iter()
                .any(|path| (path.0, path.1) == (ends.0, ends.1))
        };
        let others: Vec<_> = known.iter().filter(is_new).copied().collect();
        paths.extend(others);
        let entry = self.content.servers.entry(server.to_owned()).or_default();
        let impacts = Impacts {
            measured_at: now_s,
            paths,
        };
        entry.impacts.insert(with.to_owned(), impacts);
        self.is_changed = true;
    }

    /// A connection has begun with the token, which no other may use.
    pub fn token_is_used(&mut self, server: &str) {
        if let Some(entry) = self.content.servers.get_mut(server) {
            self.is_changed |= entry.token.take().is_some();
        }
    }

    /// Keeps what a connection leaves; what it does not leave remains as it was.
    pub fn keep(&mut self, server: &str, pair: &Pair, trust: &Trust, left: &Resumption) {
        let entry = self.content.servers.entry(server.to_owned()).or_default();
        entry.local = Some(pair.local.ip);
        entry.remote = Some(pair.remote.ip());
        if let Some(session) = &left.session {
            entry.tls_session = Some(hex(session));
            entry.trust = Some(trust.0.clone());
        }
        if let Some(token) = &left.token {
            entry.token = Some(hex(token));
        }
        self.is_changed = true;
    }

    /// Writes the file, for its owner alone: what is in it decrypts what is sent with it.
    pub fn write(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        let folder = match self.file.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let write = || -> std::io::Result<()> {
            let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut temporary, &self.content)?;
            temporary.write_all(b"\n")?;
            temporary.persist(&self.file)?;
            Ok(())
        };
        write()
            .map_err(|e| Failure::new(LOCAL, format!("cannot write {}: {e}", self.file.display())))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|c| c.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    use mpq_decision::paths::Local;

    fn pair(local: &str) -> Pair {
        let ip = local.parse().unwrap();
        Pair {
            local: Local { if_index: 0, ip },
            remote: "192.0.2.1:443".parse().unwrap(),
        }
    }

    #[test]
    fn a_token_is_for_one_connection_and_each_server_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("session");
        let none = Trust::new(&Verify::None).unwrap();
        let mut first = Remembered::read(&file).unwrap();
        let left = Resumption {
            session: Some(vec![1, 0xff]),
            token: Some(vec![2; 3]),
        };
        first.keep("a:443", &pair("10.0.0.1"), &none, &left);
        first.write().unwrap();

        let mut second = Remembered::read(&file).unwrap();
        assert_eq!(second.resumption("a:443", &none).session, left.session);
        assert_eq!(second.resumption("a:443", &none).token, left.token);
        assert_eq!(second.resumption("b:443", &none).session, None);
        assert!(second.is_same_network("a:443", &pair("10.0.0.1")));
        assert!(!second.is_same_network("a:443", &pair("10.0.0.2")));
        second.token_is_used("a:443");
        // A connection that brings nothing new.
        second.keep("a:443", &pair("10.0.0.1"), &none, &Resumption::default());
        second.write().unwrap();

        let third = Remembered::read(&file).unwrap();
        assert_eq!(third.resumption("a:443", &none).session, left.session);
        assert_eq!(third.resumption("a:443", &none).token, None);
    }

    #[test]
    fn a_session_is_worth_what_its_certificate_was() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(other.path(), "another authority").unwrap();
        let ca = |file: &tempfile::NamedTempFile| Verify::Ca(file.path().display().to_string());
        let [none, pin, system, first, second] = [
            Verify::None,
            Verify::Pin([1; 32]),
            Verify::System,
            ca(&file),
            ca(&other),
        ]
        .map(|verify| Trust::new(&verify).unwrap());
        for trust in [&none, &pin] {
            for kept in [&none, &pin, &system, &first] {
                assert!(trust.accepts(Some(&kept.0)), "{trust:?} {kept:?}");
            }
        }
        for trust in [&system, &first] {
            for kept in [&none, &pin, &second] {
                assert!(!trust.accepts(Some(&kept.0)), "{trust:?} {kept:?}");
            }
            assert!(!trust.accepts(None));
            assert!(trust.accepts(Some(&trust.0)));
        }
        assert!(!system.accepts(Some(&first.0)) && !first.accepts(Some(&system.0)));
    }

    #[test]
    fn impact_factors_last_a_day_in_their_networks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("session");
        let remote: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let path = |ip: &str, omega| (ip.parse().unwrap(), remote, omega);
        let mut first = Remembered::read(&file).unwrap();
        let (wifi, lte) = (path("10.0.0.1", 0.7), path("10.1.0.1", -0.2));
        first.keep_impacts("a:443", "pcdc cubic", 1000, vec![wifi, lte]);
        first.write().unwrap();

        let mut second = Remembered::read(&file).unwrap();
        let day = 24 * 3600;
        assert_eq!(
            second.impacts("a:443", "pcdc cubic", 1000 + day - 1),
            [wifi, lte]
        );
        for (server, with, now_s) in [
            ("a:443", "pcdc cubic", 1000 + day),
            ("a:443", "pcdc olia", 1000),
            ("b:443", "pcdc cubic", 1000),
            // A clock that was put back.
            ("a:443", "pcdc cubic", 999),
        ] {
            assert_eq!(second.impacts(server, with, now_s), []);
        }
        // What it began with is not new.
        second.keep_impacts("a:443", "pcdc cubic", 2000, vec![lte]);
        assert!(!second.is_changed);
        // In another Wi-Fi network.
        let other = path("172.16.0.1", 0.4);
        second.keep_impacts("a:443", "pcdc cubic", 2000, vec![other, lte]);
        assert_eq!(
            second.impacts("a:443", "pcdc cubic", 2000),
            [other, lte, wifi]
        );
    }

    #[test]
    fn another_file_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes");
        for text in ["notes", "{\"version\": 2, \"servers\": {}}"] {
            std::fs::write(&file, text).unwrap();
            let failure = Remembered::read(&file).unwrap_err();
            assert!(failure.message.unwrap().contains("remove it"));
        }
        for odd in ["0", "0g", "é0"] {
            assert_eq!(unhex(odd), None, "{odd}");
        }
    }
}
