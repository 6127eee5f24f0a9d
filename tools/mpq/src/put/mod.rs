//! `mpq put`: uploads over every path there is.

mod body;

use std::cell::RefCell;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;

use url::Url;

use crate::client::request;
use crate::client::url::parse_url;
use crate::client::ClientArgs;
use crate::client::Session;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::USAGE;
use crate::progress::Progress;
use crate::report::print_paths;
use crate::report::write_json;
use crate::report::Carried;
use crate::report::PutReport;

use body::FileBody;
use body::Upload;
use body::UploadSink;

/// Upload files over HTTP/3, on every path at once
///
/// The server has to take them: `mpq serve` does not, nginx does with its
/// module dav ("dav_methods PUT;").
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq put film.mp4 https://example.com/upload/\n",
    "  mpq put --path wlan0 --path wwan0 --cc olia film.mp4 https://example.com/films/1\n",
    "  mpq put --method POST -H content-type:text/csv a.csv https://example.com/api\n",
))]
pub struct Args {
    /// What to upload
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Where to; files keep their names under a URL that ends with a slash
    #[arg(value_name = "URL", value_parser = parse_url)]
    url: Url,

    /// PUT or POST
    #[arg(long, value_name = "METHOD", default_value = "PUT", value_parser = ["PUT", "POST"])]
    method: String,

    /// Add a request header field
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE",
          value_parser = crate::get::parse_header)]
    headers: Vec<(String, String)>,

    #[command(flatten)]
    client: ClientArgs,
}

/// Runs `mpq put`.
pub fn run(args: Args) -> Result<(), Failure> {
    // Every file is opened before any connection is made: a wrong name costs no traffic.
    let mut bodies = Vec::new();
    for file in &args.files {
        let url = target(&args.url, file, args.files.len() > 1)?;
        bodies.push((url, FileBody::open(file)?));
    }

    let mut session = Session::new(&args.client, Carried::Sent)?;
    let mut progress = Progress::new(args.client.quiet);
    let mut uploads = Vec::new();
    let result = upload(&args, bodies, &mut session, &mut progress, &mut uploads);
    progress.clear();
    session.close();

    if result.is_ok() || matches!(&result, Err(failure) if failure.code == INTERRUPTED) {
        report(&args, &session, &uploads)?;
    }
    result?;
    first_failure(&uploads)
}

/// The URL of a file.
fn target(url: &Url, file: &Path, several: bool) -> Result<Url, Failure> {
    if !url.path().ends_with('/') {
        return match several {
            false => Ok(url.clone()),
            true => Err(Failure::new(
                USAGE,
                "several files need a URL that ends with a slash",
            )),
        };
    }
    let name = file.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        let shown = file.display();
        Failure::new(
            USAGE,
            format!("{shown} has no name that a URL can end with"),
        )
    })?;
    let mut url = url.clone();
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(name);
    }
    Ok(url)
}

/// Starts every upload and waits for the last answer.
fn upload(
    args: &Args,
    bodies: Vec<(Url, FileBody)>,
    session: &mut Session,
    progress: &mut Progress,
    uploads: &mut Vec<Rc<RefCell<Upload>>>,
) -> Result<(), Failure> {
    let key = session.connect(&args.url)?;
    for (url, body) in bodies {
        let length = body.length();
        let upload = Rc::new(RefCell::new(Upload::new(url.as_str(), length)));
        uploads.push(upload.clone());
        let body = Box::new(body.counted_by(upload.clone()));
        let sink = Box::new(UploadSink(upload));
        let request = request(&args.method, &url, args.headers.clone());
        session.send(key, request, body, length, sink);
    }

    while uploads.iter().any(|upload| !upload.borrow().is_over()) {
        if session.step(None)? {
            show(session, progress, uploads);
        }
    }
    session.sample();
    show(session, progress, uploads);
    Ok(())
}

fn show(session: &Session, progress: &mut Progress, uploads: &[Rc<RefCell<Upload>>]) {
    session.log().show(progress);
    let sent = uploads
        .iter()
        .map(|upload| upload.borrow().read_bytes)
        .sum();
    let length = uploads.iter().map(|upload| upload.borrow().length).sum();
    progress.set_total(sent, Some(length));
}

fn report(args: &Args, session: &Session, uploads: &[Rc<RefCell<Upload>>]) -> Result<(), Failure> {
    let seconds = session.began().elapsed().as_secs_f64();
    let files: Vec<_> = uploads
        .iter()
        .filter_map(|upload| upload.borrow().report())
        .collect();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    let report = PutReport {
        files,
        seconds,
        goodput_bps: bytes as f64 * 8.0 / seconds,
        paths: session.log().reports(),
        unused_paths: session.log().unused(),
    };
    if !args.client.quiet && !report.files.is_empty() {
        eprintln!(
            "{bytes} bytes in {seconds:.2} s, {:.2} Mbit/s",
            report.goodput_bps / 1e6
        );
        print_paths(&report.paths, &report.unused_paths, Carried::Sent);
    }
    match &args.client.json {
        Some(target) => write_json(target, &report),
        None => Ok(()),
    }
}

/// Reports every file that failed; the first gives the exit code.
fn first_failure(uploads: &[Rc<RefCell<Upload>>]) -> Result<(), Failure> {
    let mut first = Ok(());
    for upload in uploads {
        let upload = upload.borrow();
        let Some(failure) = upload.failure() else {
            continue;
        };
        if let Some(message) = &failure.message {
            eprintln!("mpq: {}: {message}", upload.url);
        }
        first = first.and(Err(Failure {
            code: failure.code,
            message: None,
        }));
    }
    first
}

fn unreadable(file: &Path, e: impl std::fmt::Display) -> Failure {
    Failure::new(LOCAL, format!("cannot read {}: {e}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_where_a_slash_is() {
        let url = |text| parse_url(text).unwrap();
        let to = |text, file, several| {
            let target = target(&url(text), Path::new(file), several);
            target.map(|url| url.to_string()).map_err(|e| e.code)
        };
        for several in [false, true] {
            assert_eq!(
                to("https://a.example/up/", "/tmp/one two?.mp4", several),
                Ok("https://a.example/up/one%20two%3F.mp4".into())
            );
        }
        let to_root = to("https://a.example", "b", false);
        assert_eq!(to_root, Ok("https://a.example/b".into()));
        let as_named = to("https://a.example/up/x?y=z", "b", false);
        assert_eq!(as_named, Ok("https://a.example/up/x?y=z".into()));
        assert_eq!(to("https://a.example/x", "b", true), Err(USAGE));
        assert_eq!(to("https://a.example/", "..", true), Err(USAGE));
    }
}
