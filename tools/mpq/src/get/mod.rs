//! `mpq get`: downloads over every path there is.

mod gaps;
mod output;
mod paths;
mod sink;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;

use mpq_driver::h3::client::Client;
use mpq_driver::h3::client::ClientSettings;
use mpq_driver::h3::client::Locals;
use mpq_driver::h3::client::Request;
use mpq_driver::h3::client::Verify;
use mpq_driver::ConnKey;
use mpq_driver::SocketOptions;
use url::Url;

use crate::exit::code_of;
use crate::exit::describe;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::USAGE;
use crate::identity::parse_fingerprint;
use crate::progress::Progress;
use crate::report::FileReport;
use crate::report::Report;
use crate::signals::StopRequests;
use crate::transport::TransportArgs;

use output::Output;
use output::Target;
use paths::parse_local;
use paths::PathLog;
use sink::Download;
use sink::DownloadSink;

/// How often progress is shown and paths are sampled.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Head start of one server address before the next is tried (RFC 8305).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

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

    /// Use only this local address or interface; the first is for the
    /// handshake [default: every usable one]
    #[arg(long = "path", value_name = "ADDR|IFNAME")]
    paths: Vec<String>,

    /// Write to this file or into this directory, "-" for standard output
    /// [default: the URL's last part, here]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Write a report to FILE [default: standard output]
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true,
          default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Only these bytes, both ends included
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_range)]
    range: Option<String>,

    /// Add a request header field
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE",
          value_parser = parse_header)]
    headers: Vec<(String, String)>,

    /// Show no progress and no notes
    #[arg(short, long)]
    quiet: bool,

    /// Do not check the server's certificate
    #[arg(long)]
    no_verify: bool,

    /// Accept exactly the certificate with this SHA-256 fingerprint
    #[arg(long, value_name = "SHA256", value_parser = parse_fingerprint,
          conflicts_with = "no_verify")]
    pin: Option<[u8; 32]>,

    /// Trust the certificate authorities in this file too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["no_verify", "pin"])]
    trust_origin_ca_pem: Option<String>,

    /// Connect to this address instead of the URL's
    #[arg(long, value_name = "ADDR:PORT")]
    connect_to: Option<SocketAddr>,

    /// Resume the TLS session in this file, and keep the new one there
    #[arg(long, value_name = "FILE")]
    session_file: Option<PathBuf>,

    /// Give up if the server does not complete the handshake
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    handshake_timeout: u64,

    #[command(flatten)]
    transport: TransportArgs,
}

fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    if url.scheme() != "https" || url.host().is_none() {
        return Err("must begin with https:// and a host".into());
    }
    Ok(url)
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

fn parse_header(text: &str) -> Result<(String, String), String> {
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
    client: Client,
    stop: StopRequests,
    began: Instant,
    files: Vec<Rc<RefCell<Download>>>,
    log: PathLog,
    progress: Progress,
    next_sample: Instant,
}

impl<'a> Run<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let to_stdout = args.output.as_deref() == Some("-".as_ref());
        if to_stdout && args.json.as_deref() == Some("-".as_ref()) {
            return Err(Failure::new(
                USAGE,
                "standard output cannot take both the file and the report; \
                 use --json=FILE",
            ));
        }

        let locals = if args.paths.is_empty() {
            Locals::Auto
        } else {
            let mut locals = Vec::new();
            for text in &args.paths {
                locals.extend(parse_local(text)?);
            }
            Locals::Fixed(locals)
        };
        let verify = match (&args.pin, &args.trust_origin_ca_pem) {
            (Some(pin), _) => Verify::Pin(*pin),
            (None, Some(file)) => Verify::Ca(file.clone()),
            (None, None) if args.no_verify => Verify::None,
            (None, None) => Verify::System,
        };
        let mut transport = args.transport.settings();
        transport.handshake_timeout =
            Duration::from_millis(args.handshake_timeout);
        let client = Client::new(ClientSettings {
            transport,
            verify,
            locals,
            sockets: SocketOptions::default(),
        })?;

        let waker = client.waker();
        let stop = StopRequests::watch(move || waker.wake())
            .map_err(|e| Failure::new(LOCAL, format!("signals: {e}")))?;
        let began = Instant::now();
        Ok(Run {
            args,
            client,
            stop,
            began,
            files: Vec::new(),
            log: PathLog::new(began),
            progress: Progress::new(args.quiet),
            next_sample: began + SAMPLE_INTERVAL,
        })
    }

    fn run(mut self) -> Result<(), Failure> {
        let result = self.download();
        self.progress.clear();
        self.keep_session();
        // A server that is not told waits for its idle timeout, no more.
        let _ = self.client.close();
        result?;

        let seconds = self.began.elapsed().as_secs_f64();
        self.report(seconds)?;
        self.first_failure()
    }

    /// Starts every download and waits for the last.
    fn download(&mut self) -> Result<(), Failure> {
        // Every output is opened before any connection is made: a wrong name
        // costs no traffic.
        for url in &self.args.urls {
            let several = self.args.urls.len() > 1;
            let target =
                Target::choose(self.args.output.as_deref(), url, several)?;
            let output = Output::open(target)?;
            self.files.push(Rc::new(RefCell::new(Download::new(
                url.as_str(),
                output,
                self.args.json.is_some(),
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
                    let key = self.connect(url)?;
                    by_origin.insert(origin, key);
                    key
                },
            };
            let mut headers = self.args.headers.clone();
            if let Some(range) = &self.args.range {
                headers.push(("range".into(), range.clone()));
            }
            let file = self.files[i].clone();
            file.borrow_mut().began = Instant::now();
            self.client.request(
                key,
                Request {
                    method: "GET".into(),
                    authority: authority(url),
                    path: path_and_query(url),
                    headers,
                },
                Box::new(DownloadSink(file)),
            );
        }

        while self.files.iter().any(|file| !file.borrow().is_over()) {
            self.step()?;
        }
        self.sample();
        Ok(())
    }

    /// Connects to the server of `url`, racing its addresses.
    fn connect(&mut self, url: &Url) -> Result<ConnKey, Failure> {
        let mut addresses = match self.args.connect_to {
            Some(address) => vec![address],
            None => resolve(url)?,
        }
        .into_iter();
        let host = host_name(url);
        let session = self
            .args
            .session_file
            .as_ref()
            .and_then(|file| std::fs::read(file).ok());

        let mut attempts: Vec<ConnKey> = Vec::new();
        let mut next_attempt = Instant::now();
        let mut failure = None;
        loop {
            attempts.retain(|&key| match self.client.close_reason(key) {
                Some(reason) => {
                    failure = Some(Failure::new(
                        code_of(&reason),
                        describe(&reason),
                    ));
                    next_attempt = Instant::now();
                    false
                },
                None => true,
            });

            if Instant::now() >= next_attempt {
                if let Some(address) = addresses.next() {
                    match self.client.connect(&host, address, session.clone()) {
                        Ok(key) => attempts.push(key),
                        Err(e) => {
                            failure = Some(e.into());
                            continue;
                        },
                    }
                    next_attempt = Instant::now() + ATTEMPT_DELAY;
                }
            }
            if attempts.is_empty() && addresses.len() == 0 {
                return Err(failure.unwrap_or_else(|| {
                    Failure::new(NETWORK, format!("{host} has no address"))
                }));
            }

            let winner = attempts.iter().copied().find(|&key| {
                self.client
                    .conn(key)
                    .is_some_and(|conn| conn.quic.is_established())
            });
            if let Some(winner) = winner {
                for key in attempts.into_iter().filter(|&key| key != winner) {
                    if let Some(conn) = self.client.conn_mut(key) {
                        // Done means that it is closing already.
                        let _ = conn.quic.close(true, 0x100, b"");
                    }
                }
                self.log.follow(winner);
                self.note_single_path(winner);
                return Ok(winner);
            }
            self.step()?;
        }
    }

    fn note_single_path(&self, key: ConnKey) {
        let wants_more = self.args.paths.len() > 1;
        let is_multipath =
            self.client.conn(key).is_some_and(|conn| conn.is_multipath());
        if wants_more && !is_multipath && !self.args.quiet {
            eprintln!(
                "mpq: note: the server does not do multipath; using one path"
            );
        }
    }

    /// Lets the client work for a while.
    fn step(&mut self) -> Result<(), Failure> {
        let wait = self.next_sample.saturating_duration_since(Instant::now());
        self.client
            .poll(Some(wait))
            .map_err(|e| Failure::new(LOCAL, format!("polling failed: {e}")))?;

        if self.stop.count() > 0 {
            return Err(Failure::new(INTERRUPTED, "interrupted"));
        }
        if Instant::now() >= self.next_sample {
            self.sample();
            self.next_sample = Instant::now() + SAMPLE_INTERVAL;
        }
        Ok(())
    }

    fn sample(&mut self) {
        self.log.sample(&self.client);
        self.log.show(&mut self.progress);

        let (mut bytes, mut expected) = (0, Some(0));
        for file in &self.files {
            let file = file.borrow();
            bytes += file.bytes;
            expected = expected
                .zip(file.expected)
                .map(|(sum, bytes)| sum + bytes);
        }
        self.progress.set_total(bytes, expected);
    }

    fn keep_session(&self) {
        let Some(file) = &self.args.session_file else {
            return;
        };
        let session = self
            .log
            .keys()
            .filter_map(|key| self.client.conn(key))
            .find_map(|conn| conn.quic.session());
        if let Some(session) = session {
            if let Err(e) = std::fs::write(file, session) {
                eprintln!("mpq: cannot write {}: {e}", file.display());
            }
        }
    }

    fn report(&self, seconds: f64) -> Result<(), Failure> {
        let files: Vec<FileReport> = self
            .files
            .iter()
            .filter_map(|file| file.borrow().report())
            .collect();
        let bytes: u64 =
            self.files.iter().map(|file| file.borrow().bytes).sum();
        let report = Report {
            files,
            seconds,
            goodput_bps: bytes as f64 * 8.0 / seconds,
            paths: self.log.reports(),
        };

        if !self.args.quiet && !report.files.is_empty() {
            eprintln!(
                "{bytes} bytes in {seconds:.2} s, {:.2} Mbit/s",
                report.goodput_bps / 1e6
            );
            for path in &report.paths {
                eprintln!(
                    "  path {} {} -> {}: {} bytes, rtt {:.1} ms",
                    path.path_id,
                    path.local,
                    path.peer,
                    path.recv_bytes,
                    path.rtt_ms
                );
            }
        }

        let Some(target) = &self.args.json else {
            return Ok(());
        };
        let json = serde_json::to_string(&report)
            .map_err(|e| Failure::new(LOCAL, e))? +
            "\n";
        let written = if target.as_os_str() == "-" {
            use std::io::Write;
            std::io::stdout().write_all(json.as_bytes())
        } else {
            std::fs::write(target, json)
        };
        written.map_err(|e| {
            Failure::new(
                LOCAL,
                format!("cannot write {}: {e}", target.display()),
            )
        })
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

fn origin(url: &Url) -> (String, u16) {
    (host_name(url), url.port().unwrap_or(443))
}

/// The host without the brackets of an IPv6 address.
fn host_name(url: &Url) -> String {
    url.host_str()
        .unwrap_or_default()
        .trim_matches(|c| c == '[' || c == ']')
        .to_owned()
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Failure> {
    let origin = origin(url);
    origin
        .clone()
        .to_socket_addrs()
        .map(Iterator::collect)
        .map_err(|e| {
            Failure::new(NETWORK, format!("cannot resolve {}: {e}", origin.0))
        })
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

    #[test]
    fn an_ipv6_url_keeps_its_brackets_only_in_the_authority() {
        let url = parse_url("https://[2001:db8::1]:4433/a?b=c").unwrap();
        assert_eq!(origin(&url), ("2001:db8::1".into(), 4433));
        assert_eq!(authority(&url), "[2001:db8::1]:4433");
        assert_eq!(path_and_query(&url), "/a?b=c");
        assert!(parse_url("http://example.com/").is_err());
        assert!(parse_url("example.com").is_err());
    }
}
