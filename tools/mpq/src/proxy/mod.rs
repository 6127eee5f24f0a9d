//! `mpq proxy`: origins over every path, for browsers and all other programs.
//!
//! ```text
//!   browser -- HTTP/1.1, HTTP/2 --> listen   loopback sockets; the library parses HTTP
//!                                     |
//!                                   guard    Host, Origin, methods: who may ask
//!                                     |
//!                       routes, fields, cookies   which origin, and its names for ours
//!                                     |
//!                                  forward   the way that works; once more if it may be
//!                                 /       \
//!                          upstream     fallback
//!              thread of the driver:     HTTP/2 over TCP
//!           HTTP/3 over several paths
//! ```
//!
//! A body goes through [`pipe`], a quarter of a megabyte at a time, and is held by flow control otherwise, both ways.

mod cookies;
mod delivery;
mod fallback;
mod fields;
mod forward;
mod guard;
mod listen;
mod metrics;
mod page;
mod pipe;
mod problem;
mod routes;
mod status;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::BodyExt;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header;
use hyper::Request;
use hyper::Response;
use hyper::StatusCode;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::sync::Notify;

use crate::client::url::authority;
use crate::client::url::host_name;
use crate::client::ClientArgs;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::USAGE;
use crate::report::write_json;
use crate::signals::StopRequests;

use delivery::Delivery;
use fallback::Fallback;
use fields::Ends;
use forward::Ask;
use forward::Origin;
use forward::Patience;
use forward::Ways;
use guard::Guard;
use listen::parse_listen;
use listen::Listeners;
use problem::Problem;
use routes::parse_target;
use routes::Routes;
use routes::Target;
use status::Shared;
use upstream::Server;
use upstream::Upstream;

/// Fetch an origin over every path at once, for browsers and other programs
///
/// Listens on this machine alone, and prints the address to open. What is
/// asked for there comes from ORIGIN over HTTP/3 on all paths, or, where
/// that does not work, over HTTP/2. A page at /.mpq/ shows the paths live.
/// Ends on SIGINT or SIGTERM: running responses may finish, a second signal
/// ends them too.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq proxy https://example.com/film/ --open\n",
    "  mpq proxy https://example.com --path wlan0 --path wwan0 --listen 127.0.0.1:9000\n",
    "  mpq proxy films=https://a.example /live=https://b.example/media/\n",
    "  curl http://127.0.0.1:8080/.mpq/status.json\n",
),
    // A browser's six connections to a host may all stand still, and leave room for others: of the connection's
    // window, half is certain, as it moves on when the other half is used up.
    mut_arg("max_stream_data", |arg| arg.default_value("4194304")),
    mut_arg("max_data", |arg| arg.default_value("67108864")))]
pub struct Args {
    /// What to fetch from: a URL that begins with https://, whose path is
    /// where --open begins. Several are told apart by their names, or by
    /// others (films=URL is http://films.localhost:8080/), or by paths
    /// (/live=URL is http://localhost:8080/live/)
    #[arg(required = true, value_name = "ORIGIN", value_parser = parse_target)]
    origins: Vec<Target>,

    /// Listen on this address of loopback; may be repeated [default: port 8080
    /// of 127.0.0.1 and ::1]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen)]
    listen: Vec<SocketAddr>,

    /// Open the first origin in the browser
    #[arg(long)]
    open: bool,

    /// Let pages of this other origin use the proxy, as its own server allows
    /// (CORS)
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// Speak TLS to browsers, with this certificate chain
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// Its private key
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Try HTTP/2 over TCP, too, if HTTP/3 is not there after this long
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    fallback_after: u64,

    /// Use HTTP/3 or nothing
    #[arg(long)]
    no_fallback: bool,

    /// Answer with status 504 if a response does not begin
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..))]
    answer_timeout: u64,

    /// Tell origins of this hop in the field Via; nginx does not compress then,
    /// unless it is told to
    #[arg(long)]
    via: bool,

    /// How long running responses may take after SIGINT or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,

    #[command(flatten)]
    client: ClientArgs,
}

type Body = UnsyncBoxBody<Bytes, String>;

/// What serves requests.
pub struct Proxy {
    guard: Guard,
    ways: Arc<Ways>,
    upstream: Arc<Upstream>,
    status: Arc<Shared>,
    says_via: bool,
}

/// Runs `mpq proxy`.
pub fn run(args: Args) -> Result<(), Failure> {
    let routes = Routes::new(args.origins.clone()).map_err(|e| Failure::new(USAGE, e))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(LOCAL, e))?;
    let result = runtime.block_on(serve(&args, routes));
    // A resolver may still be asked.
    runtime.shutdown_background();
    result
}

async fn serve(args: &Args, routes: Routes) -> Result<(), Failure> {
    let tls = args.cert.as_deref().zip(args.key.as_deref());
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listeners = Listeners::bind(&args.listen, tls).await?;
    let addresses = listeners.addresses();
    let port = addresses.first().map_or(0, SocketAddr::port);

    let count = routes.targets().len();
    let starts: Vec<String> = (0..count).map(|i| routes.start(i, scheme, port)).collect();
    let named = starts.iter().enumerate();
    let named = named.map(|(i, start)| (routes.origin(i), vec![start.clone()]));
    let status = Arc::new(Shared::new(
        named.collect(),
        args.client.transport.algorithms(),
        args.client.quiet,
    ));
    let urls = || routes.targets().iter().map(|target| &target.url);
    let servers: Vec<Server> = urls()
        .map(|url| Server {
            host: host_name(url),
            port: url.port().unwrap_or(443),
        })
        .collect();
    let upstream = Arc::new(Upstream::start(&args.client, &servers, status.clone())?);
    let settings = args.client.settings()?;
    let origins = servers.into_iter().zip(urls()).map(|(server, url)| Origin {
        authority: authority(url),
        connect_to: args.client.connect_to.clone(),
        fallback: Fallback::new(
            server.host.clone(),
            settings.verify.clone(),
            args.client.only.clone(),
        ),
        again: Mutex::new(None),
        server,
    });
    let patience = Patience {
        answer: Duration::from_secs(args.answer_timeout),
        fallback: (!args.no_fallback).then_some(Duration::from_millis(args.fallback_after)),
    };
    let ways = Ways::new(
        upstream.clone(),
        origins.collect(),
        patience,
        status.clone(),
    );
    let lines: Vec<String> = starts
        .iter()
        .enumerate()
        .map(|(i, start)| format!("{start} is {}", routes.origin(i)))
        .collect();
    let proxy = Arc::new(Proxy {
        guard: Guard {
            routes,
            scheme,
            allowed_origins: args.allow_origin.clone(),
        },
        ways: Arc::new(ways),
        upstream: upstream.clone(),
        status: status.clone(),
        says_via: args.via,
    });

    let notify = Arc::new(Notify::new());
    let woken = notify.clone();
    let stop = StopRequests::watch(move || {
        woken.notify_one();
        Ok(())
    })
    .map_err(|e| Failure::new(LOCAL, format!("signals: {e}")))?;
    for address in &addresses {
        eprintln!("listening on {scheme}://{address}");
    }
    if !args.client.quiet {
        for line in lines {
            eprintln!("{line}");
        }
        let page = page::url(&format!("{scheme}://localhost:{port}"));
        eprintln!("{page} shows the paths");
    }
    if args.open {
        open(&starts[0], &status);
    }

    let graceful = GracefulShutdown::new();
    tokio::select! {
        () = listeners.serve(proxy.clone(), &graceful) => {}
        () = notify.notified() => {}
        () = ended(&upstream) => return Err(Failure::new(LOCAL, "the connections' thread failed")),
    }
    if !args.client.quiet {
        eprintln!("stopping; running responses may finish, interrupt again to end them");
    }
    let again = async {
        while stop.count() < 2 {
            notify.notified().await;
        }
    };
    tokio::select! {
        () = graceful.shutdown() => {}
        () = again => {}
        () = tokio::time::sleep(Duration::from_secs(args.grace)) => {}
    }
    let report = status.report();
    upstream.stop();
    match &args.client.json {
        Some(target) => write_json(target, &report),
        None => Ok(()),
    }
}

/// Resolves if the thread of the connections ends by itself.
async fn ended(upstream: &Upstream) {
    while upstream.is_running() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Shows a page in the user's browser.
fn open(url: &str, status: &Shared) {
    let opener = std::process::Command::new("xdg-open")
        .arg(url)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    match opener {
        // It ends when it has told the browser.
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
        Err(e) => status.say(format!("cannot open a browser (xdg-open: {e}); open {url}")),
    }
}

/// Counts a request as running as long as it is there.
struct Running(Arc<Shared>);

impl Running {
    fn begin(status: &Arc<Shared>) -> Running {
        status.counters.requests.fetch_add(1, SeqCst);
        Running(status.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.counters.finished.fetch_add(1, SeqCst);
    }
}

impl Proxy {
    /// Answers a request.
    pub async fn serve(&self, request: Request<Incoming>) -> Response<Body> {
        // Who looks at the figures does not change them.
        let is_counted = !page::is_ours(request.uri().path());
        let running = is_counted.then(|| Running::begin(&self.status));
        let (parts, body) = request.into_parts();
        let fields = parts.headers.clone();
        let answered = self.answer(parts, body).await;
        let response = answered.unwrap_or_else(|problem| {
            let counters = &self.status.counters;
            let counter = match problem.status {
                StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => &counters.failed,
                _ => &counters.refused,
            };
            counter.fetch_add(1, SeqCst);
            log::info!("{}: {problem}", problem.status);
            whole(problem.answer(&fields))
        });
        response.map(|body| {
            // Until its last byte is taken.
            body.map_frame(move |frame| {
                let _ = &running;
                frame
            })
            .boxed_unsync()
        })
    }

    async fn answer(
        &self,
        mut parts: hyper::http::request::Parts,
        body: Incoming,
    ) -> Result<Response<Body>, Problem> {
        let admitted = self.guard.check(&parts)?;
        if page::is_ours(parts.uri.path()) {
            let answer = page::answer(&parts, &admitted, &self.status, &self.upstream);
            return Ok(whole(answer));
        }
        let routes = &self.guard.routes;
        let route = routes.find(admitted.host, parts.uri.path());
        let Some(route) = route else {
            return Err(nowhere(routes, &admitted.own_origin));
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        if path == route.prefix {
            // Relative links of the page begin with it.
            return Ok(whole(slash(&format!("{}{path}/", admitted.own_origin))));
        }
        let origin = routes.origin(route.index);
        let ends = Ends {
            own: &admitted.own_origin,
            origin: &origin,
            route,
            is_shared: admitted.host == routes::Host::Shared,
        };
        fields::to_origin(&mut parts.headers, &ends, self.says_via);
        let ask = Ask {
            origin: route.index,
            path: route.to_origin(path),
            method: parts.method,
            headers: parts.headers,
        };
        log::info!("{} {} for {origin}", ask.method, parts.uri.path());

        let (mut head, arriving, via) = self.ways.fetch(&ask, Some(body)).await?;
        let is_empty = ask.method == hyper::Method::HEAD
            || head.status == StatusCode::NO_CONTENT
            || head.status == StatusCode::NOT_MODIFIED;
        let delivery = Delivery::new(&head, arriving, ask, self.ways.clone());
        fields::to_browser(&mut head.headers, &ends, via);
        let body = match is_empty {
            // The length is that of another response.
            true => {
                tokio::spawn(delivery.finish());
                Full::default().map_err(|e| match e {}).boxed_unsync()
            }
            false => delivery.boxed_unsync(),
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// No origin is at this path.
fn nowhere(routes: &Routes, own_origin: &str) -> Problem {
    let authority = own_origin.split_once("://").map_or("", |(_, rest)| rest);
    let port = authority
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok());
    let scheme = own_origin.split(':').next().unwrap_or("http");
    let starts = (0..routes.targets().len()).map(|i| routes.start(i, scheme, port.unwrap_or(80)));
    Problem::new(
        StatusCode::NOT_FOUND,
        "no origin is here",
        format!("They are at {}.", starts.collect::<Vec<_>>().join(", ")),
    )
}

fn slash(to: &str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    if let Ok(to) = to.parse() {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn whole(response: Response<Bytes>) -> Response<Body> {
    response.map(|body| Full::new(body).map_err(|e| match e {}).boxed_unsync())
}
