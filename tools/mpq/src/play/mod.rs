//! `mpq play`: a DASH session without a screen.

mod cmcd;
mod fetch;
mod status;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use mpq_cmcd::Cmcd;
use mpq_cmcd::Object;
use mpq_dash::abr;
use mpq_dash::mpd::Presentation;
use mpq_dash::player;
use mpq_dash::player::Action;
use mpq_dash::player::Fetch;
use mpq_dash::player::Player;
use mpq_dash::player::PlayerError;
use mpq_dash::player::Progress;
use mpq_dash::player::What;
use mpq_dash::player::MAX_MPD_BYTES;
use serde::Serialize;
use url::Url;

use crate::client::connection;
use crate::client::connection::Carrier;
use crate::client::connection::Connection;
use crate::client::connection::Ticket;
use crate::client::connection::Transport;
use crate::client::url::origin;
use crate::client::url::parse_url;
use crate::client::ClientArgs;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::NETWORK;
use crate::exit::TRUNCATED;
use crate::report::print_paths;
use crate::report::write_json;
use crate::report::Carried;
use crate::report::PathReport;

use cmcd::Mode;
use cmcd::Teller;
use fetch::Response;
use fetch::Sink;
use status::Status;

/// A server that cannot be reached costs the time of a handshake each time.
const UNREACHABLE_FOR: Duration = Duration::from_secs(30);

/// Play a DASH presentation in real time, without a screen
///
/// Fetches the segments of an MPD as a player does, on every path at once, and
/// reports startup, stalls and bitrates; of a live one the latency, too. Startup counts from the
/// start of the command, so it includes the handshake. The report of --json
/// is also written when the session fails or is interrupted: it then covers
/// what was played, and the exit code is not 0.
#[derive(clap::Args, Debug)]
#[command(after_help = concat!(
    "Examples:\n",
    "  mpq play https://example.com/movie/stream.mpd\n",
    "  mpq play --path wlan0 --path wwan0 --cc lia --abr bola --json=run.json \\\n",
    "      https://example.com/movie/stream.mpd\n",
    "  mpq play --no-verify --abr fixed:0 https://10.0.0.1:4433/stream.mpd\n",
    "  mpq play --transport mptcp --json=mptcp.json https://example.com/movie/stream.mpd\n",
))]
pub struct Args {
    /// The MPD to play; https only
    #[arg(value_name = "MPD_URL", value_parser = parse_url)]
    mpd: Url,

    /// What carries the session, with all else alike. Of the options under
    /// "Transport" below, those of the windows and --idle-timeout are for TCP,
    /// too; it goes out by the first --path that leads to the server. Which
    /// subflows MPTCP has is the kernel's decision: see `ip mptcp`
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Transport::H3Multipath)]
    transport: Transport,

    /// Adaptation rule, and its parameters: mpc, rate:safety=0.8, fixed:LEVEL
    /// with 0 the lowest; `mpq abr` lists them
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", default_value = "rate",
          value_parser = parse_rule)]
    abr: String,

    /// Fetching pauses above this much buffer
    #[arg(long, value_name = "SECONDS", default_value_t = 18,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    buffer_goal: u64,

    /// The same while the last segment was of the top level; at least
    /// --buffer-goal
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    buffer_goal_at_top: u64,

    /// Live: how far behind the present playback should be [default: what the
    /// MPD says, else three segments, or four chunks]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    target_latency: Option<Duration>,

    /// Live: least and greatest playback rate with which playback returns to
    /// that latency, such as 0.95..1.1; 1..1 for none [default: what the MPD
    /// says, else 0.95..1.05]
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_rates)]
    playback_rate: Option<(f64, f64)>,

    /// Stop after this time, as if it were the end; for live presentations
    /// without one
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    stop_after: Option<Duration>,

    /// Level of the first segment, 0 the lowest [default: the rule's choice]
    #[arg(long, value_name = "LEVEL")]
    start_level: Option<usize>,

    /// Requests for one segment before the session fails
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=100))]
    attempts: u32,

    /// How the server hears of buffer, deadline and stalls with each request
    /// (Common Media Client Data, CTA-5004)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Mode::Header)]
    cmcd: Mode,

    #[command(flatten)]
    client: ClientArgs,
}

fn parse_rule(text: &str) -> Result<String, abr::InvalidChoice> {
    abr::choose(text).map(|_| text.to_owned())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .filter(|seconds| (0.1..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "seconds from 0.1 to 86400".into())
}

fn parse_rates(text: &str) -> Result<(f64, f64), String> {
    let bounds = text.split_once("..");
    let bounds = bounds.and_then(|(min, max)| Some((min.parse().ok()?, max.parse().ok()?)));
    bounds
        .filter(|(min, max)| (0.5..=1.0).contains(min) && (1.0..=2.0).contains(max))
        .ok_or_else(|| "MIN..MAX with MIN from 0.5 to 1 and MAX from 1 to 2".into())
}

impl Args {
    /// `began`: of the session.
    fn config(&self, began: Instant) -> player::Config {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        player::Config {
            buffer_goal: Duration::from_secs(self.buffer_goal),
            buffer_goal_at_top: Duration::from_secs(self.buffer_goal.max(self.buffer_goal_at_top)),
            start_level: self.start_level,
            attempts: self.attempts,
            wall_clock: since
                .ok()
                .map(|since| since.saturating_sub(began.elapsed())),
            target_latency: self.target_latency,
            playback_rate: self.playback_rate,
            ..Default::default()
        }
    }
}

/// Runs `mpq play`.
pub fn run(args: Args) -> Result<(), Failure> {
    let client = match args.transport {
        Transport::H3 => args.client.single_path(),
        _ => args.client.clone(),
    };
    let mut connection = connection::by(args.transport, &client)?;
    let mut player = None;
    let result = play(&args, connection.as_mut(), &mut player);
    connection.close();
    let reported = match &player {
        Some(player) => report(&args, connection.as_ref(), player),
        None => Ok(()),
    };
    result.and(reported)
}

/// Plays to the end. `player` is left as far as it came.
fn play(
    args: &Args,
    connection: &mut dyn Connection,
    player: &mut Option<Player>,
) -> Result<(), Failure> {
    let teller = Teller::new(args.cmcd)?;
    let document = fetch_mpd(&args.mpd, connection, &teller)?;
    let malformed =
        |e: &dyn std::fmt::Display| Failure::new(TRUNCATED, format!("{}: {e}", args.mpd));
    let presentation = Presentation::parse(&document, &args.mpd).map_err(|e| malformed(&e))?;
    let rule = abr::by_name(&args.abr).map_err(|e| malformed(&e))?;
    let began = connection.began();
    let new =
        Player::new(presentation, rule, args.config(began), began).map_err(|e| malformed(&e))?;

    let mut status = Status::new(args.client.quiet);
    let result = Playback {
        player: player.insert(new),
        connection,
        teller: &teller,
        status: &mut status,
        open: Vec::new(),
        unreachable: Vec::new(),
        stop_at: args.stop_after.map(|time| began + time),
    }
    .run();
    status.clear();
    result
}

fn fetch_mpd(
    url: &Url,
    connection: &mut dyn Connection,
    teller: &Teller,
) -> Result<Vec<u8>, Failure> {
    let response = Response::new(MAX_MPD_BYTES, false);
    let cmcd = Cmcd {
        object: Some(Object::Manifest),
        is_startup: true,
        ..Cmcd::default()
    };
    let (told_url, headers) = teller.tell(url, cmcd, None);
    connection.get(&told_url, headers, Box::new(Sink(response.clone())))?;
    loop {
        if response.borrow().bytes > MAX_MPD_BYTES as u64 {
            return Err(Failure::new(
                TRUNCATED,
                format!("{url}: larger than {MAX_MPD_BYTES} bytes; is this really an MPD?"),
            ));
        }
        let end = response.borrow_mut().end.take();
        if let Some(end) = end {
            end.map_err(|failure| failure.about(url))?;
            return Ok(response.take().head);
        }
        connection.step(None)?;
    }
}

/// A request that is under way.
struct Open {
    fetch: Fetch,
    request: Ticket,
    response: Rc<RefCell<Response>>,
}

/// A player and the connections that feed it.
struct Playback<'a> {
    player: &'a mut Player,
    connection: &'a mut dyn Connection,
    teller: &'a Teller,
    status: &'a mut Status,
    open: Vec<Open>,
    /// Servers to which there was no connection, why, and until when they are not tried again if others will do.
    unreachable: Vec<((String, u16), String, Instant)>,
    stop_at: Option<Instant>,
}

impl Playback<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            self.report_progress()?;
            self.report_ends()?;
            let Some(until) = self.start_fetches()? else {
                return Ok(());
            };
            if self.stop_at.is_some_and(|at| at <= Instant::now()) {
                return Ok(());
            }
            let ping_at = self.connection.keep_alive();
            let until = until.into_iter().chain(ping_at).chain(self.stop_at).min();
            if self.connection.step(until)? {
                self.status.show(self.player, self.connection.log());
            }
        }
    }

    /// Tells the player of all that has come, before any end: the estimate of
    /// the throughput has to see requests that overlap.
    fn report_progress(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        let mut abandoned = Vec::new();
        for open in &self.open {
            let response = open.response.borrow();
            let progress = self
                .player
                .on_progress(now, open.fetch.id, response.bytes, response.expected)
                .map_err(|e| failure(TRUNCATED, e))?;
            if open.fetch.chunk.is_some() && progress == Progress::Continue {
                self.player
                    .on_chunks(now, open.fetch.id, response.chunks.chunks())
                    .map_err(|e| failure(TRUNCATED, e))?;
            }
            if progress == Progress::Abandon {
                log::info!(
                    "giving up {}, {}, for a lower level",
                    open.fetch,
                    open.fetch.url
                );
                abandoned.push(open.fetch.id);
                self.connection.cancel(open.request);
            }
        }
        self.open.retain(|open| !abandoned.contains(&open.fetch.id));
        Ok(())
    }

    fn report_ends(&mut self) -> Result<(), Failure> {
        let (ended, open): (Vec<Open>, Vec<Open>) = self
            .open
            .drain(..)
            .partition(|open| open.response.borrow().end.is_some());
        self.open = open;

        for Open {
            fetch, response, ..
        } in ended
        {
            let now = Instant::now();
            let response = response.take();
            match response.end {
                Some(Err(cause)) => {
                    if is_needed(&fetch) && !self.connection.is_open(&fetch.url) {
                        return Err(cause);
                    }
                    let reason = cause.message.unwrap_or_default();
                    log::info!("{fetch}, {}: {reason}", fetch.url);
                    self.player
                        .on_failed(now, fetch.id, &reason)
                        .map_err(|e| failure(cause.code, e))?;
                }
                _ => self
                    .player
                    .on_done(now, fetch.id, response.bytes, &response.head)
                    .map_err(|e| failure(TRUNCATED, e))?,
            }
        }
        Ok(())
    }

    /// Starts what the player wants now. Returns when to ask it again, or
    /// `None` at the end of the session.
    fn start_fetches(&mut self) -> Result<Option<Option<Instant>>, Failure> {
        loop {
            let action = self
                .player
                .next(Instant::now())
                .map_err(|e| failure(TRUNCATED, e))?;
            match action {
                Action::Fetch(fetch) => self.start(*fetch)?,
                Action::Wait { until } => return Ok(Some(until)),
                Action::Done => return Ok(None),
            }
        }
    }

    fn start(&mut self, fetch: Fetch) -> Result<(), Failure> {
        if fetch.url.scheme() != "https" {
            let problem = format!("the MPD refers to {}, which is not https", fetch.url);
            return self.could_not_start(&fetch, Failure::new(TRUNCATED, problem));
        }
        let server = origin(&fetch.url);
        self.unreachable
            .retain(|(.., until)| *until > Instant::now());
        let known = self.unreachable.iter().find(|(of, ..)| *of == server);
        if let Some((_, reason, _)) = known.filter(|_| !is_needed(&fetch)) {
            let cause = Failure::new(NETWORK, reason.clone());
            return self.could_not_start(&fetch, cause);
        }
        let next = fetch.next_object.as_deref();
        let (url, mut headers) = self.teller.tell(&fetch.url, fetch.cmcd, next);
        let range = fetch.range.map(|range| ("range".into(), range.to_string()));
        let response = Response::new(fetch.keep_bytes, range.is_some());
        headers.extend(range);
        let sink = Box::new(Sink(response.clone()));
        let request = match self.connection.get(&url, headers, sink) {
            Ok(request) => request,
            Err(cause) => {
                let reason = cause.message.clone().unwrap_or_default();
                self.unreachable
                    .push((server, reason, Instant::now() + UNREACHABLE_FOR));
                return self.could_not_start(&fetch, cause);
            }
        };
        self.open.push(Open {
            fetch,
            request,
            response,
        });
        Ok(())
    }

    /// There is no connection to the server of `fetch`: another one may be as good.
    fn could_not_start(&mut self, fetch: &Fetch, cause: Failure) -> Result<(), Failure> {
        if is_needed(fetch) || cause.code == INTERRUPTED {
            return Err(cause.about(&fetch.url));
        }
        let reason = cause.message.unwrap_or_default();
        log::info!("{fetch}, {}: {reason}", fetch.url);
        self.player
            .on_failed(Instant::now(), fetch.id, &reason)
            .map_err(|e| failure(cause.code, e))
    }
}

/// Whether there is nothing to go on with if there is no connection to the server of `fetch`: no other server that has it,
/// and no clock of our own in place of its.
fn is_needed(fetch: &Fetch) -> bool {
    fetch.bases == 1 && fetch.what != What::Clock
}

fn failure(code: u8, error: PlayerError) -> Failure {
    Failure::new(code, error)
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    session: mpq_dash::session::Report<PathReport>,
    transport: Carrier,
}

fn report(args: &Args, connection: &dyn Connection, player: &Player) -> Result<(), Failure> {
    let log = connection.log();
    let transport = connection.carrier();
    let report = mpq_dash::session::Report::new(player, log.reports());
    if !args.client.quiet {
        let whole = match player.edge() {
            Some(_) => String::new(),
            None => format!(" of {:.1}", player.presentation().duration.as_secs_f64()),
        };
        let latency = report.latency.map_or(String::new(), |latency| {
            let (target, mean, p95) = (latency.target_ms, latency.mean_ms, latency.p95_ms);
            format!(", {mean:.0} ms behind the present (95 %: {p95:.0}, target {target:.0})")
        });
        eprintln!(
            "played {:.1}{whole} s: startup {:.0} ms, {} stalls of {:.0} ms in all, mean \
             {:.2} Mbit/s, {} switches{latency}",
            player.buffer().played().as_secs_f64(),
            report.startup_ms.unwrap_or_default(),
            report.stalls,
            report.stall_ms,
            report.mean_bitrate_bps / 1e6,
            report.switches
        );
        if let Some(why) = transport.why {
            eprintln!(
                "  over {}, not {}: {why}",
                transport.used.name(),
                transport.asked.name()
            );
        }
        print_paths(&report.paths, &log.unused(), Carried::Received);
    }
    match &args.client.json {
        Some(target) => write_json(
            target,
            &Report {
                session: report,
                transport,
            },
        ),
        None => Ok(()),
    }
}
