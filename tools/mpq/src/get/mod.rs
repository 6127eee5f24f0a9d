//! `mpq get`: downloads over every path there is.

mod gaps;
mod output;
mod sink;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use mpq_driver::ConnKey;
use url::Url;

use crate::client::url::origin;
use crate::client::url::parse_url;
use crate::client::ClientArgs;
use crate::client::Session;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::USAGE;
use crate::progress::Progress;
use crate::report::print_paths;
use crate::report::write_json;
use crate::report::Carried;
use crate::report::FileReport;
use crate::report::Report;

use output::Output;
use output::Target;
use sink::Download;
use sink::DownloadSink;

/// Download files over HTTP/3, on every path at once
///
/// A file appears under its name only when it is complete; until then it is
/// called NAME.part, and an existing NAME.part is begun again. An existing
/// NAME is replaced.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq get https://example.com/video.mp4\n",
    "  mpq get --path wlan0 --path 192.0.2.7 --cc olia https://example.com/a\n",
    "  mpq get --pin 5f3a... --json=run.json -o /dev/null https://10.0.0.1:4433/a\n",
))]
pub struct Args {
    /// What to download; https only
    #[arg(required = true, value_name = "URL", value_parser = parse_url)]
    urls: Vec<Url>,

    /// Write to this file or into this directory, "-" for standard output
    /// [default: the URL's last part, here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Only these bytes, both ends included
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range)]
    range: Option<String>,

    /// Add a request header field
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE",
          value_parser = parse_header)]
    headers: Vec<(String, String)>,

    #[command(flatten)]
    client: ClientArgs,
}

fn parse_range(text: &str) -> Result<String, String> {
    let valid = text.split_once('-').is_some_and(|(first, last)| {
        let (a, b) = (first.parse::<u64>(), last.parse::<u64>());
        match (a, b) {
            (Ok(a), Ok(b)) => a <= b,
            (Ok(_), Err(_)) => last.is_empty(),
            (Err(_), Ok(n)) => first.is_empty() && n > 0,
            _ => false,
        }
    });
    if valid {
        Ok(format!("bytes={text}"))
    } else {
        Err("must be FIRST-LAST, FIRST- or -COUNT".into())
    }
}

/// A header field of `--header`: its name in lower case, and its value.
pub fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("must be NAME:VALUE")?;
    if name.is_empty() || name.starts_with(':') {
        return Err("must be NAME:VALUE".into());
    }
    Ok((name.to_ascii_lowercase(), value.trim().into()))
}

/// Runs `mpq get`.
pub fn run(args: Args) -> Result<(), Failure> {
    Run::new(&args)?.run()
}

struct Run<'a> {
    args: &'a Args,
    session: Session<'a>,
    files: Vec<Rc<RefCell<Download>>>,
    progress: Progress,
}

impl<'a> Run<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let to_stdout = args.output.as_deref() == Some("-".as_ref());
        if to_stdout && args.client.json.as_deref() == Some("-".as_ref()) {
            return Err(Failure::new(
                USAGE,
                "standard output cannot take both the file and the report; \
                 use --json=FILE",
            ));
        }
        Ok(Run {
            args,
            session: Session::new(&args.client, Carried::Received)?,
            files: Vec::new(),
            progress: Progress::new(args.client.quiet),
        })
    }

    fn run(mut self) -> Result<(), Failure> {
        let result = self.download();
        self.progress.clear();
        self.session.close();

        let seconds = self.session.began().elapsed().as_secs_f64();
        if let Err(failure) = result {
            // The paths carried what they carried until then.
            if failure.code == INTERRUPTED {
                self.report(seconds)?;
            }
            return Err(failure);
        }
        self.report(seconds)?;
        self.first_failure()
    }

    /// Starts every download and waits for the last.
    fn download(&mut self) -> Result<(), Failure> {
        // Every output is opened before any connection is made: a wrong name
        // costs no traffic.
        for url in &self.args.urls {
            let several = self.args.urls.len() > 1;
            let target = Target::choose(self.args.output.as_deref(), url, several)?;
            let output = Output::open(target)?;
            self.files.push(Rc::new(RefCell::new(Download::new(
                url.as_str(),
                output,
                self.args.client.json.is_some(),
                self.args.range.is_some(),
            ))));
        }

        let mut by_origin: BTreeMap<(String, u16), ConnKey> = BTreeMap::new();
        for i in 0..self.files.len() {
            let url = &self.args.urls[i];
            let origin = origin(url);
            let key = match by_origin.get(&origin) {
                Some(&key) => key,
                None => {
                    let key = self.session.connect(url)?;
                    by_origin.insert(origin, key);
                    key
                }
            };
            let mut headers = self.args.headers.clone();
            if let Some(range) = &self.args.range {
                headers.push(("range".into(), range.clone()));
            }
            let file = self.files[i].clone();
            file.borrow_mut().began = Instant::now();
            self.session
                .get(key, url, headers, Box::new(DownloadSink(file)));
        }

        while self.files.iter().any(|file| !file.borrow().is_over()) {
            if self.session.step(None)? {
                self.show();
            }
        }
        self.session.sample();
        self.show();
        Ok(())
    }

    fn show(&mut self) {
        self.session.log().show(&mut self.progress);

        let (mut bytes, mut expected) = (0, Some(0));
        for file in &self.files {
            let file = file.borrow();
            bytes += file.bytes;
            expected = expected.zip(file.expected).map(|(sum, bytes)| sum + bytes);
        }
        self.progress.set_total(bytes, expected);
    }

    fn report(&self, seconds: f64) -> Result<(), Failure> {
        let files: Vec<FileReport> = self
            .files
            .iter()
            .filter_map(|file| file.borrow().report())
            .collect();
        let bytes: u64 = self.files.iter().map(|file| file.borrow().bytes).sum();
        let report = Report {
            files,
            seconds,
            goodput_bps: bytes as f64 * 8.0 / seconds,
            connections: self.session.connections(),
            paths: self.session.log().reports(),
            unused_paths: self.session.log().unused(),
        };

        if !self.args.client.quiet && !report.files.is_empty() {
            eprintln!(
                "{bytes} bytes in {seconds:.2} s, {:.2} Mbit/s",
                report.goodput_bps / 1e6
            );
            print_paths(&report.paths, &report.unused_paths, Carried::Received);
        }

        match &self.args.client.json {
            Some(target) => write_json(target, &report),
            None => Ok(()),
        }
    }

    /// Reports every file that failed; the first gives the exit code.
    fn first_failure(&self) -> Result<(), Failure> {
        let mut first = Ok(());
        for file in &self.files {
            let file = file.borrow();
            if let Some(failure) = file.failure() {
                if let Some(message) = &failure.message {
                    eprintln!("mpq: {}: {message}", file.url);
                }
                if first.is_ok() {
                    first = Err(Failure {
                        code: failure.code,
                        message: None,
                    });
                }
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked_before_any_traffic() {
        for good in ["0-0", "5-9", "5-", "-7"] {
            assert_eq!(parse_range(good), Ok(format!("bytes={good}")));
        }
        for bad in ["", "-", "9-5", "a-b", "-0", "1-2,3-4", "1-x"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
