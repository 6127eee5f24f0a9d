//! A flow's DASH client: the player of `mpq-dash`, on streams that carry bodies of the right sizes.

use std::time::Duration;
use std::time::Instant;

use mpq_cmcd::Cmcd;
use mpq_cmcd::Object;
use mpq_dash::abr;
use mpq_dash::mpd::Representation;
use mpq_dash::player::Action;
use mpq_dash::player::Fetch;
use mpq_dash::player::FetchId;
use mpq_dash::player::Player;
use mpq_dash::player::PlayerError;
use mpq_dash::player::Progress;
use quiche::Connection;
use quiche::Shutdown;

use crate::app;
use crate::app::Hints;
use crate::app::Release;
use crate::app::Sender;
use crate::scenario::Dash;

/// Pause between packets that keep a connection which waits for the buffer to drain, as in
/// `mpq play`.
const PING_EVERY: Duration = Duration::from_secs(15);

/// HTTP/3's H3_REQUEST_CANCELLED.
const REQUEST_CANCELLED: u64 = 0x10c;

/// The start of every body, for the player's check: one `mdat` box up to its end.
const BODY_HEAD: [u8; 16] = *b"\0\0\0\0mdat\0\0\0\0\0\0\0\0";

/// As many as the player looks at.
const LEAST_BODY_BYTES: u64 = BODY_HEAD.len() as u64;

/// A request and what has come of its response.
struct Request {
    /// `None`: the MPD, which comes before the player asks for anything.
    fetch: Option<FetchId>,
    /// `None` until the peer's limit on streams lets it out.
    stream: Option<u64>,
    /// What goes with it.
    said: String,
    /// Of a segment that is sent while it is made.
    release: Option<Release>,
    total_bytes: u64,
    received_bytes: u64,
    /// Whether something came that the player was not told of.
    has_news: bool,
}

impl Request {
    fn new(fetch: Option<FetchId>, said: String, total_bytes: u64) -> Request {
        Request {
            fetch,
            stream: None,
            said,
            release: None,
            total_bytes,
            received_bytes: 0,
            has_news: false,
        }
    }
}

/// What a request says of the playback.
fn said(is_telling: bool, cmcd: Cmcd, next_object: Option<&str>) -> String {
    match is_telling {
        true => app::said(cmcd, next_object),
        false => String::new(),
    }
}

/// What follows from [`Viewer::step`].
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Step again then, and whenever something came.
    At(Instant),
    /// All is played.
    Over,
}

/// A DASH client.
pub struct Viewer {
    player: Player,
    /// From the run's beginning to the flow's.
    start: Duration,
    /// In the order in which they were made.
    requests: Vec<Request>,
    init_bytes: u64,
    /// Whether the server hears of the playback.
    is_telling: bool,
    has_mpd: bool,
    /// When the player is to be asked again, besides after the end of a response.
    ask_at: Option<Instant>,
    ping_at: Instant,
}

impl Viewer {
    /// A client that begins `start` after the run's beginning at `base`.
    pub fn new(dash: &Dash, base: Instant, start: Duration) -> Result<Viewer, String> {
        let rule = abr::by_name(&dash.abr).map_err(|e| e.to_string())?;
        let began = base + start;
        let player = Player::new(dash.presentation()?, rule, dash.player_config(start), began)
            .map_err(|e| e.to_string())?;
        let mpd = Cmcd {
            object: Some(Object::Manifest),
            is_startup: true,
            ..Cmcd::default()
        };
        let said = said(dash.cmcd, mpd, None);
        Ok(Viewer {
            player,
            start,
            requests: vec![Request::new(None, said, dash.mpd.value.0)],
            is_telling: dash.cmcd,
            init_bytes: dash.init.value.0,
            has_mpd: false,
            ask_at: None,
            ping_at: began + PING_EVERY,
        })
    }

    /// What it has played and fetched.
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Whether a response is under way.
    pub fn is_waiting(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Lets the buffer play up to `now`.
    pub fn advance(&mut self, now: Instant) {
        self.player.advance(now);
    }

    /// `bytes` came on `stream`.
    pub fn on_data(&mut self, stream: u64, bytes: usize) {
        let mut requests = self.requests.iter_mut();
        if let Some(request) = requests.find(|request| request.stream == Some(stream)) {
            request.received_bytes += bytes as u64;
            request.has_news = true;
        }
    }

    /// Tells the player what came, and sends what it asks for, on streams from `next_stream` on.
    pub fn step(
        &mut self,
        quic: &mut Connection,
        sender: &mut Sender,
        next_stream: &mut u64,
        now: Instant,
    ) -> Result<Next, PlayerError> {
        self.report_progress(quic, now)?;
        let has_ended = self.report_ends(now)?;
        if self.has_mpd && (has_ended || self.ask_at.is_some_and(|at| at <= now)) {
            loop {
                match self.player.next(now)? {
                    Action::Fetch(fetch) => {
                        let total_bytes = self.size(&fetch);
                        let next = fetch.next_object.as_deref();
                        let said = said(self.is_telling, fetch.cmcd, next);
                        let mut request = Request::new(Some(fetch.id), said, total_bytes);
                        request.release = self.release(&fetch);
                        self.requests.push(request);
                    }
                    Action::Wait { until } => {
                        self.ask_at = until;
                        break;
                    }
                    Action::Done => return Ok(Next::Over),
                }
            }
        }
        for request in self.requests.iter_mut().filter(|r| r.stream.is_none()) {
            // Credit for streams comes in packets, after which there is another step.
            let hints = Hints {
                urgency: None,
                said: request.said.clone(),
                release: request.release,
            };
            if app::request(quic, sender, *next_stream, request.total_bytes, &hints).is_err() {
                break;
            }
            request.stream = Some(*next_stream);
            *next_stream += 4;
        }
        if self.ping_at <= now {
            mpq_driver::multipath::keep_alive(quic);
            self.ping_at = now + PING_EVERY;
        }
        let ask_at = self.ask_at.unwrap_or(self.ping_at);
        Ok(Next::At(ask_at.min(self.ping_at)))
    }

    /// Before any end is reported: the estimate of the throughput has to see requests that overlap.
    /// Cancels what the player gives up.
    fn report_progress(&mut self, quic: &mut Connection, now: Instant) -> Result<(), PlayerError> {
        let mut i = 0;
        while let Some(request) = self.requests.get_mut(i) {
            i += 1;
            let (true, Some(fetch)) = (request.has_news, request.fetch) else {
                continue;
            };
            request.has_news = false;
            let total = Some(request.total_bytes);
            let progress = self
                .player
                .on_progress(now, fetch, request.received_bytes, total)?;
            if progress == Progress::Abandon {
                if let Some(stream) = request.stream {
                    // It may have come to its end already.
                    let _ = quic.stream_shutdown(stream, Shutdown::Read, REQUEST_CANCELLED);
                }
                i -= 1;
                self.requests.remove(i);
                self.ask_at = Some(now);
            } else if let Some(release) = request.release {
                let chunks = release.whole_in(request.received_bytes, request.total_bytes);
                self.player.on_chunks(now, fetch, chunks)?;
            }
        }
        Ok(())
    }

    /// Returns whether there was an end.
    fn report_ends(&mut self, now: Instant) -> Result<bool, PlayerError> {
        let mut has_ended = false;
        let mut i = 0;
        while let Some(request) = self.requests.get(i) {
            if request.received_bytes < request.total_bytes {
                i += 1;
                continue;
            }
            has_ended = true;
            let request = self.requests.remove(i);
            match request.fetch {
                None => self.has_mpd = true,
                Some(fetch) => self
                    .player
                    .on_done(now, fetch, request.total_bytes, &BODY_HEAD)?,
            }
        }
        Ok(has_ended)
    }

    /// When the server has which part of a segment that is sent while it is made.
    fn release(&self, fetch: &Fetch) -> Option<Release> {
        let (edge, chunk, (start, end)) = (self.player.edge()?, fetch.chunk?, fetch.media?);
        let chunks = (end - start).as_nanos().div_ceil(chunk.as_nanos().max(1));
        let first_ns = self.start.as_nanos() as i128 + edge.time_of_ns(start + chunk);
        Some(Release {
            first_ns: i64::try_from(first_ns).ok()?,
            every_ns: u64::try_from(chunk.as_nanos()).ok()?,
            chunks: u64::try_from(chunks).ok()?,
        })
    }

    /// The size of a body: a segment's is its rate times its length.
    fn size(&self, fetch: &Fetch) -> u64 {
        let Some((start, end)) = fetch.media else {
            return self.init_bytes;
        };
        let periods = self.player.presentation().periods.iter();
        let mut levels = periods
            .filter_map(|period| period.first(fetch.kind))
            .flat_map(|set| &set.representations);
        let level = levels.find(|level| level.id == fetch.representation);
        let bytes = |level: &Representation| {
            let bits = u128::from(level.bandwidth_bps) * (end - start).as_nanos() / 1_000_000_000;
            u64::try_from(bits / 8).ok()
        };
        level
            .and_then(bytes)
            .unwrap_or_default()
            .max(LEAST_BODY_BYTES)
    }
}
