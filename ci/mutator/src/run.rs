//! Runs tests with a mutant.

use std::io::BufRead;
use std::io::BufReader;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// Kilobytes that the tests may allocate: some changes would take all there is.
const MEMORY_KB: u32 = 4_000_000;

/// Some tests.
pub struct Binary {
    pub name: String,
    /// How the names of the files begin that they are asked about.
    pub about: String,
    pub path: PathBuf,
    /// Where they run.
    pub dir: PathBuf,
    /// What they are told besides.
    pub args: Vec<String>,
}

/// What is to be run.
#[derive(Default)]
pub struct Run<'a> {
    /// 0 for none.
    pub mutant: usize,
    /// All, if there are none.
    pub tests: Vec<&'a str>,
    /// How long no test may end before it is taken for one that never does.
    pub silence: Duration,
    /// Where the tests say what they reach.
    pub notes: Option<&'a Path>,
}

/// How tests fail.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// The first that fails; none if the process dies.
    Test(Option<String>),
    TooLong,
}

impl Binary {
    /// Whether the tests fail; they are ended at the first that does.
    pub fn fails(&self, run: &Run) -> Result<Option<Failure>> {
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg(format!("ulimit -v {MEMORY_KB}; exec \"$0\" \"$@\""))
            .arg(&self.path)
            .args(&self.args)
            .args(&run.tests)
            .current_dir(&self.dir)
            .env("MUTANT", run.mutant.to_string())
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        if !run.tests.is_empty() {
            command.arg("--exact");
        }
        if let Some(notes) = run.notes {
            command.env("MUTANT_REACHED", std::path::absolute(notes)?);
        }
        let mut child = command.spawn()?;
        let output = child.stdout.take().into_iter();
        let (sender, lines) = mpsc::channel();
        // Ends with the process.
        thread::spawn(move || {
            let lines =
                output.flat_map(|output| BufReader::new(output).lines().map_while(Result::ok));
            let _ = lines.map(|line| sender.send(line)).find(Result::is_err);
        });
        let failure = loop {
            match lines.recv_timeout(run.silence) {
                Ok(line) => {
                    if let Some(test) = line.strip_suffix(" ... FAILED") {
                        let test = test.strip_prefix("test ").unwrap_or(test);
                        break Some(Failure::Test(Some(test.to_owned())));
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => break Some(Failure::TooLong),
                Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            }
        };
        if failure.is_some() {
            child.kill()?;
        }
        let status = child.wait()?;
        Ok(match failure {
            None if !status.success() => Some(Failure::Test(None)),
            failure => failure,
        })
    }
}
