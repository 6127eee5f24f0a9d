//! Servers, directories and relays for the tests of the command.

// Every test program has its own copy, and none uses all of it.
#![allow(dead_code)]

pub mod dash;
pub mod http;
pub mod netns;
pub mod relay;
pub mod tcp;

use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use sha2::Digest;
use sha2::Sha256;
use tempfile::TempDir;

pub const MPQ: &str = env!("CARGO_BIN_EXE_mpq");

/// The arguments for two paths over loopback.
pub const TWO_PATHS: [&str; 6] = [
    "--path",
    "127.0.0.1",
    "--path",
    "127.0.0.2",
    // The first has the handshake, however busy the machine is.
    "--attempt-delay",
    "60000",
];

/// No step may take longer; a hang is a failure, and slowness is none: on an idle machine no step takes a tenth of this.
pub const LIMIT: Duration = Duration::from_secs(180);

pub struct Server {
    pub child: Child,
    pub port: u16,
    pub fingerprint: String,
    log: Arc<Mutex<String>>,
    stderr: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub fn start(dir: &Path, options: &[&str]) -> Server {
        Server::start_in(None, dir, "127.0.0.1:0", options)
    }

    /// In a network namespace, if one is named.
    pub fn start_in(space: Option<&str>, dir: &Path, listen: &str, options: &[&str]) -> Server {
        let mut command = match space {
            // `ip netns exec` becomes the command, so the child's id is right.
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space, MPQ]);
                command
            }
            None => Command::new(MPQ),
        };
        let mut child = command
            .arg("serve")
            .arg(dir)
            .args(["--listen", listen])
            .args(options)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();

        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut port, mut fingerprint) = (None, String::new());
        while port.is_none() {
            let mut line = String::new();
            assert!(lines.read_line(&mut line).unwrap() > 0, "no server");
            let last = line.trim().rsplit(' ').next().unwrap().to_owned();
            if line.contains("SHA-256") {
                fingerprint = last;
            } else if line.starts_with("listening on") {
                port = last.rsplit(':').next().unwrap().parse().ok();
            }
        }
        let log = Arc::new(Mutex::new(String::new()));
        let rest = log.clone();
        let stderr = std::thread::spawn(move || {
            for line in lines.lines() {
                let mut rest = rest.lock().unwrap();
                rest.push_str(&line.unwrap());
                rest.push('\n');
            }
        });
        Server {
            child,
            port: port.unwrap(),
            fingerprint,
            log,
            stderr: Some(stderr),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}/{path}", self.port)
    }

    /// What it has said since it listens.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits until it has answered `count` requests whose line in the log contains `what`.
    pub fn until_answered(&self, what: &str, count: usize) {
        until(&format!("{count} answers to {what}"), || {
            self.log()
                .lines()
                .filter(|line| line.contains(what))
                .count()
                >= count
        });
    }

    /// Waits for the end; the exit code and what the log said.
    pub fn wait(mut self) -> (i32, String) {
        let code = wait(&mut self.child);
        self.stderr.take().unwrap().join().unwrap();
        (code, self.log())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

pub fn wait(child: &mut Child) -> i32 {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().expect("killed by a signal");
        }
        assert!(Instant::now() < end, "still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A directory to serve, with a file, and one to download into.
pub struct Dirs {
    _root: TempDir,
    pub www: PathBuf,
    pub cwd: PathBuf,
}

pub fn dirs(file_bytes: usize) -> (Dirs, Vec<u8>) {
    let root = tempfile::tempdir().unwrap();
    let (www, cwd) = (root.path().join("www"), root.path().join("cwd"));
    std::fs::create_dir(&www).unwrap();
    std::fs::create_dir(&cwd).unwrap();
    let data: Vec<u8> = (0..file_bytes as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    std::fs::write(www.join("file.bin"), &data).unwrap();
    (
        Dirs {
            _root: root,
            www,
            cwd,
        },
        data,
    )
}

impl Dirs {
    pub fn get(&self, args: &[&str]) -> Command {
        self.command("get", args)
    }

    pub fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new(MPQ);
        command.arg(name).args(args).current_dir(&self.cwd);
        command
    }

    /// Serves far more than anybody downloads, as "huge"; sparse, so it costs no disk.
    pub fn add_huge(&self) {
        std::fs::File::create(self.www.join("huge"))
            .unwrap()
            .set_len(1 << 36)
            .unwrap();
    }

    /// Names in the download directory.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.cwd)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The digest of `data` as reports write it.
pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Samples `[ms, bytes]` of a path are 100 ms apart, but for the last: never closer, and some as close as that.
pub fn assert_sampled(samples: &[serde_json::Value]) {
    let ms: Vec<u64> = samples.iter().map(|s| s[0].as_u64().unwrap()).collect();
    let gaps = ms[..ms.len() - 1].windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps.min().expect("three samples and more");
    assert!((90..200).contains(&least), "{least} ms in {ms:?}");
}

/// Runs to the end, which has to come within [`LIMIT`].
pub fn run(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    finish(child.unwrap())
}

/// Waits for the end, which has to come within [`LIMIT`].
pub fn finish(mut child: Child) -> Output {
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || read_all(&mut stdout));
    let err = std::thread::spawn(move || read_all(&mut stderr));
    let end = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            let said = String::from_utf8_lossy(&err.join().unwrap()).into_owned();
            panic!("still running after {LIMIT:?}; it said: {said}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Output {
        status,
        stdout: out.join().unwrap(),
        stderr: err.join().unwrap(),
    }
}

fn read_all(pipe: &mut Option<impl Read>) -> Vec<u8> {
    let mut all = Vec::new();
    if let Some(pipe) = pipe {
        pipe.read_to_end(&mut all).unwrap();
    }
    all
}

/// Waits until `is_true`, within [`LIMIT`].
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_true() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes that came over all paths of a report.
pub fn received(report: &serde_json::Value) -> u64 {
    let paths = report["paths"].as_array().unwrap();
    paths
        .iter()
        .map(|p| p["recv_bytes"].as_u64().unwrap())
        .sum()
}

/// The report that a command wrote to `name`.
pub fn json(dirs: &Dirs, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(dirs.cwd.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The events of the only qlog in `folder` of a client or a server, in their order.
pub fn qlog(folder: &Path, side: &str) -> Vec<serde_json::Value> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_wanted = |file: &PathBuf| {
        file.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with(side)
    };
    let file = files.find(is_wanted).expect("a qlog");
    let text = std::fs::read_to_string(file).unwrap();
    // JSON text sequences (RFC 7464); the first record is the header.
    let records = text.split('\x1e').filter(|record| !record.is_empty());
    let parsed = records.map(|record| serde_json::from_str(record).unwrap());
    parsed.skip(1).collect()
}
