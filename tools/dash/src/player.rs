//! The player: what to fetch next, from what has arrived and what time it is.
//!
//! ```text
//! loop {
//!     match player.next(now)? {
//!         Action::Fetch(fetch) => send the request,
//!         Action::Wait { until } => wait for the network, or for this time,
//!         Action::Done => break,
//!     }
//!     // as the network reports: on_progress, then on_done or on_failed
//! }
//! ```
//!
//! Audio and video are fetched side by side, one request each. Fetching a track pauses while its
//! buffer is above the goal, so a buffer never exceeds the goal by more than one segment.
//!
//! A live presentation is asked for from where its present should be on screen, segment by segment
//! as they become available; the MPD again as often as it says, and the time where it says. A
//! segment that is made in chunks while it is sent joins the buffer chunk by chunk
//! ([`Player::on_chunks`]).

use std::fmt;
use std::time::{Duration, Instant};

use mpq_cmcd::{Cmcd, Object};
use url::Url;

use crate::abr::{should_abandon, Abandon, Arrival, Decision, Download, Pace, Rule, Situation};
use crate::buffer::{Buffer, State};
use crate::isobmff::{check_start, CHECKED_BYTES};
use crate::live::Edge;
use crate::mpd::{self, ByteRange, Clock, MediaKind, Presentation, Representation, Resource};
use crate::throughput::{Carried, Throughput};

/// Largest segment index that is kept in memory, bytes.
const MAX_INDEX_BYTES: u64 = 4 << 20;

/// Largest MPD that is taken, bytes.
pub const MAX_MPD_BYTES: usize = 16 << 20;

/// Largest answer to the question for the time, bytes.
const MAX_CLOCK_BYTES: usize = 64;

/// Segments of latency where nothing says how much it should be.
const TARGET_SEGMENTS: u32 = 3;

/// The same in chunks, where segments are sent while they are made.
const TARGET_CHUNKS: u32 = 4;

/// Least pause between two requests for the MPD.
const LEAST_UPDATE: Duration = Duration::from_secs(1);

/// Live playback is steered at least so often.
const STEER_EVERY: Duration = Duration::from_millis(100);

/// What a player can be told.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Fetching pauses above this much buffer; 18 s.
    pub buffer_goal: Duration,
    /// The same while the last video segment was of the top level; 30 s.
    pub buffer_goal_at_top: Duration,
    /// Level of the first video segment, from 0; `None` leaves it to the rule.
    pub start_level: Option<usize>,
    /// Whole segments of each track before playback starts; 1.
    pub startup_segments: usize,
    /// Whole segments of each track before playback resumes after a stall; 1.
    pub resume_segments: usize,
    /// How often a resource is asked for before the session fails; 3.
    pub attempts: u32,
    /// Pause before the second attempt, doubled for each further one; 500 ms.
    pub retry_delay: Duration,
    /// Highest audio rate that is chosen if there is one so low, bit/s; 128 kbit/s.
    pub audio_max_bps: u64,
    /// Time at the session's beginning, since 1970-01-01T00:00:00Z; live presentations need it.
    pub wall_clock: Option<Duration>,
    /// How far behind the present live playback should be; `None`: what the MPD says, else three
    /// segments, or four chunks where segments come in chunks.
    pub target_latency: Option<Duration>,
    /// Least and greatest playback rate with which live playback returns to the target; `None`:
    /// what the MPD says, else 0.95 and 1.05.
    pub playback_rate: Option<(f64, f64)>,
    /// Live playback that is further behind the target leaves out what is between; 12 s.
    pub max_drift: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer_goal: Duration::from_secs(18),
            buffer_goal_at_top: Duration::from_secs(30),
            start_level: None,
            startup_segments: 1,
            resume_segments: 1,
            attempts: 3,
            retry_delay: Duration::from_millis(500),
            audio_max_bps: 128_000,
            wall_clock: None,
            target_latency: None,
            playback_rate: None,
            max_drift: Duration::from_secs(12),
        }
    }
}

/// Names a request until it is done, failed or abandoned. Never reused within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FetchId(pub u64);

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The initialisation segment of a Representation.
    Init,
    /// Its segment index (`sidx`).
    Index,
    /// A media segment, counted from 0 over the whole session.
    Segment(u64),
    /// The MPD of a live presentation again.
    Manifest,
    /// The time, which a live presentation says where to get.
    Clock,
}

/// A request to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// To report with.
    pub id: FetchId,
    /// What it is for.
    pub what: What,
    /// For which track; video's also where it is for both.
    pub kind: MediaKind,
    /// The Representation's id; empty where it is for both.
    pub representation: String,
    /// Where it is.
    pub url: Url,
    /// For the `Range` header, if only a part is wanted.
    pub range: Option<ByteRange>,
    /// Bytes from the start of the body that [`Player::on_done`] wants to see; the rest can be
    /// dropped as it arrives.
    pub keep_bytes: usize,
    /// What the server may know of the playback at this moment.
    pub cmcd: Cmcd,
    /// What will be asked for next if the level stays, relative to `url`.
    pub next_object: Option<String>,
    /// BaseURLs below which it is; after a failure the next one is tried.
    pub bases: usize,
    /// Of a segment: media time of its start and its end.
    pub media: Option<(Duration, Duration)>,
    /// Of a segment that is sent while it is made: length of its chunks.
    pub chunk: Option<Duration>,
}

/// `segment 7 (video, representation 5000000)` and the like.
impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            What::Manifest => return f.write_str("the MPD"),
            What::Clock => return f.write_str("the time"),
            What::Init => f.write_str("the initialisation segment")?,
            What::Index => f.write_str("the segment index")?,
            What::Segment(index) => write!(f, "segment {index}")?,
        }
        write!(
            f,
            " ({}, representation {})",
            self.kind, self.representation
        )
    }
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send this request, then call [`Player::next`] again.
    Fetch(Box<Fetch>),
    /// Call [`Player::next`] again after the next report of an outstanding request, or at `until`.
    Wait {
        /// `None` when only a report can change anything.
        until: Option<Instant>,
    },
    /// Playback is over.
    Done,
}

/// Answer to [`Player::on_progress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Keep receiving.
    Continue,
    /// Cancel the request; the player has forgotten it and will ask for a lower level.
    Abandon,
}

/// Why a session cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlayerError {
    /// Some Period has no video.
    #[error("period {0} of the MPD has no video; this player needs video throughout")]
    NoVideo(usize),
    /// Audio in some Periods only.
    #[error("only some periods of the MPD have audio; this player needs it in all or none")]
    AudioComesAndGoes,
    /// All attempts failed.
    #[error("{what}, {url}, failed {attempts} times, the last time because {reason}")]
    GaveUp {
        /// What it was for, as a reader would call it.
        what: String,
        /// The resource.
        url: Box<Url>,
        /// How often it was asked for.
        attempts: u32,
        /// Why the last attempt failed.
        reason: String,
    },
    /// Live, and the caller did not say what time it is.
    #[error("a live presentation needs to know the time")]
    NoClock,
    /// A Representation's segments do not match those of the others, or have no URL.
    #[error("representation {id:?} has no segment {index} where another has one")]
    Unaligned {
        /// The Representation.
        id: String,
        /// The segment within its Period.
        index: u64,
    },
    /// A report about a request that is not outstanding: a bug in the caller.
    #[error("no request {} is outstanding", .0 .0)]
    NotOutstanding(FetchId),
}

/// One fetched video segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedSegment {
    /// Over the whole presentation, from 0.
    pub index: u64,
    /// Level in its Period's ladder, from 0.
    pub level: usize,
    /// Representation id.
    pub representation: String,
    /// Declared rate of the Representation, bit/s.
    pub bitrate_bps: u64,
    /// Media in it.
    pub duration: Duration,
    /// Request, on the session's clock.
    pub start: Duration,
    /// Last byte, on the session's clock.
    pub end: Duration,
    /// Size of the body.
    pub bytes: u64,
    /// Buffer level right after.
    pub buffer: Duration,
}

#[derive(Debug)]
struct Pending {
    fetch: Fetch,
    sent_at: Duration,
    /// What the connection had carried until then.
    carried: Carried,
    received_bytes: u64,
    pace: Pace,
    /// Whether something of the response came.
    has_begun: bool,
    /// Chunks of a segment under way that came.
    chunks: u64,
    /// The next chunk is not there yet; it will be at this time.
    paused_until: Option<Duration>,
    /// For how long chunks that were not there yet have been waited for.
    paused: Duration,
}

impl Pending {
    /// Since the request, without the time in which the server had nothing to send.
    fn busy(&self, now: Duration) -> Duration {
        now.saturating_sub(self.sent_at + self.paused)
    }

    /// Waits for a chunk that will have been made at `until`.
    fn pause(&mut self, now: Duration, until: Duration, throughput: &mut Throughput) {
        self.paused_until = Some(until);
        self.paused += until.saturating_sub(now);
        throughput.on_pause(now, true);
    }

    /// The wait, if it waits, is over `at` that time, which may be earlier than expected.
    fn resume(&mut self, at: Duration, throughput: &mut Throughput) {
        if let Some(until) = self.paused_until.take() {
            self.paused = self.paused.saturating_sub(until.saturating_sub(at));
            throughput.on_request(at);
            throughput.on_begin(at, 0);
        }
    }
}

/// A request that belongs to no track.
#[derive(Debug)]
struct Side {
    id: FetchId,
    what: What,
    sent_at: Duration,
    received_bytes: u64,
}

/// What only a live session has.
#[derive(Debug)]
struct LiveState {
    edge: Edge,
    /// Whether the tracks are where playback is to begin.
    is_placed: bool,
    /// Whether the time is what the presentation's own clock says, or as good as it gets.
    is_clock_set: bool,
    side: Option<Side>,
    update_at: Option<Duration>,
    failures: u32,
}

#[derive(Debug)]
struct Track {
    kind: MediaKind,
    period: usize,
    /// Next segment, within the Period and over all.
    next_in_period: u64,
    next: u64,
    /// Chosen for the next segment, until it has arrived.
    chosen: Option<usize>,
    last_level: Option<usize>,
    /// Init segments that have arrived.
    initialised: Vec<Resource>,
    pending: Option<Pending>,
    /// To be sent again, not before this time.
    retry: Option<(Duration, Fetch)>,
    failures: u32,
    /// The rule wants to be asked again then.
    hold_until: Duration,
    is_complete: bool,
    /// Starvations up to its last request.
    told_starvations: usize,
    /// The last segment came, or the rule was asked, whichever was later.
    idle_since: Duration,
    /// Which of the BaseURLs is asked: the one that answered last.
    base: usize,
}

/// A playing session. All times it is given must not go back.
#[derive(Debug)]
pub struct Player {
    presentation: Presentation,
    config: Config,
    rule: Box<dyn Rule>,
    began: Instant,
    throughput: Throughput,
    buffer: Buffer,
    tracks: Vec<Track>,
    next_id: u64,
    segments: Vec<FetchedSegment>,
    received_bytes: u64,
    wasted_bytes: u64,
    /// Of video, that the rule heard of.
    starvations: usize,
    live: Option<LiveState>,
}

impl Player {
    /// A session over `presentation` that began at `began`, when the MPD was asked for.
    pub fn new(
        presentation: Presentation,
        rule: Box<dyn Rule>,
        config: Config,
        began: Instant,
    ) -> Result<Self, PlayerError> {
        let mut with_audio = 0;
        for (index, period) in presentation.periods.iter().enumerate() {
            if period.first(MediaKind::Video).is_none() {
                return Err(PlayerError::NoVideo(index));
            }
            with_audio += usize::from(period.first(MediaKind::Audio).is_some());
        }
        let kinds = match with_audio {
            0 => &[MediaKind::Video][..],
            all if all == presentation.periods.len() => &[MediaKind::Video, MediaKind::Audio],
            _ => return Err(PlayerError::AudioComesAndGoes),
        };
        let track = |&kind| Track {
            kind,
            period: 0,
            next_in_period: 0,
            next: 0,
            chosen: None,
            last_level: None,
            initialised: Vec::new(),
            pending: None,
            retry: None,
            failures: 0,
            hold_until: Duration::ZERO,
            is_complete: false,
            told_starvations: 0,
            idle_since: Duration::ZERO,
            base: 0,
        };
        let live = match &presentation.live {
            None => None,
            Some(_) => Some(Self::live_state(&presentation, &config)?),
        };
        Ok(Self {
            live,
            starvations: 0,
            tracks: kinds.iter().map(track).collect(),
            buffer: Buffer::new(kinds, config.startup_segments, config.resume_segments),
            presentation,
            config,
            rule,
            began,
            throughput: Throughput::default(),
            next_id: 0,
            segments: Vec::new(),
            received_bytes: 0,
            wasted_bytes: 0,
        })
    }

    fn live_state(presentation: &Presentation, config: &Config) -> Result<LiveState, PlayerError> {
        let (Some(live), Some(wall)) = (&presentation.live, config.wall_clock) else {
            return Err(PlayerError::NoClock);
        };
        let last = presentation.periods.last();
        let video = last.and_then(|period| period.first(MediaKind::Video));
        let video = video.and_then(|set| set.representations.first());
        let by_length = video.map_or(Duration::ZERO, |video| match video.chunk() {
            Some(chunk) => chunk * TARGET_CHUNKS,
            None => first_length(video) * TARGET_SEGMENTS,
        });
        let target = config.target_latency.or(live.target_latency);
        let target = target.or(live.suggested_delay).unwrap_or(by_length);
        let rates = config.playback_rate.or(live.playback_rate);
        let rates = rates.unwrap_or((0.95, 1.05));
        let start = live.availability_start;
        let mut edge = Edge::new(wall, start, target, rates);
        if let Some(Clock::Direct(time)) = live.clock {
            // As good as the time that the MPD took to come.
            edge = Edge::new(time, start, target, rates);
        }
        Ok(LiveState {
            edge,
            is_placed: false,
            is_clock_set: !matches!(live.clock, Some(Clock::Http(_))),
            side: None,
            update_at: live.update_period.map(|period| period.max(LEAST_UPDATE)),
            failures: 0,
        })
    }

    /// The present of a live presentation, and how far playback is behind.
    pub fn edge(&self) -> Option<&Edge> {
        self.live.as_ref().map(|live| &live.edge)
    }

    /// The presentation; indexes that were fetched are resolved in it.
    pub fn presentation(&self) -> &Presentation {
        &self.presentation
    }

    /// Buffer level, stalls and startup so far.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Video segments so far, in order.
    pub fn segments(&self) -> &[FetchedSegment] {
        &self.segments
    }

    /// The connection's estimated throughput, bit/s.
    pub fn throughput_bps(&self) -> Option<f64> {
        self.throughput.estimate_bps()
    }

    /// Body bytes received so far, of audio and video, wasted ones included.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Bytes of downloads that were abandoned or failed.
    pub fn wasted_bytes(&self) -> u64 {
        self.wasted_bytes
    }

    /// Rates of the video levels in the Period that is being fetched, bit/s, ascending.
    pub fn ladder_bps(&self) -> Vec<u64> {
        self.ladder(&self.tracks[0])
    }

    fn ladder(&self, track: &Track) -> Vec<u64> {
        self.representations(track)
            .iter()
            .map(|representation| representation.bandwidth_bps)
            .collect()
    }

    fn representations(&self, track: &Track) -> &[Representation] {
        self.presentation.periods[track.period]
            .first(track.kind)
            .map_or(&[], |set| &set.representations)
    }

    /// Lets the buffer play up to `now`, for those who look at it between requests.
    pub fn advance(&mut self, now: Instant) {
        self.pass(self.on_clock(now));
    }

    /// Lets time pass for all that depends on it.
    fn pass(&mut self, now: Duration) {
        self.buffer.advance(now);
        for track in &mut self.tracks {
            if let Some(pending) = &mut track.pending {
                if let Some(at) = pending.paused_until.filter(|at| *at <= now) {
                    pending.resume(at, &mut self.throughput);
                }
            }
        }
        let Some(live) = &mut self.live else {
            return;
        };
        let state = self.buffer.state();
        if self.buffer.startup().is_some() && state != State::Ended {
            let playhead = self.buffer.playhead();
            live.edge.observe(now, playhead);
            let rate = live.edge.rate(now, playhead, self.buffer.level());
            self.buffer.set_rate(rate);
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Instant) -> Result<Action, PlayerError> {
        let now = self.on_clock(now);
        self.pass(now);
        let mut until: Option<Duration> = None;
        if self.live.is_some() {
            match self.next_of_live(now) {
                TrackAction::Fetch(fetch) => return Ok(Action::Fetch(fetch)),
                TrackAction::WaitUntil(time) => until = Some(time),
                TrackAction::Nothing => return Ok(Action::Wait { until: None }),
            }
        }
        // The track that has less is served first.
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        order.sort_by_key(|&index| self.buffer.track_level(self.tracks[index].kind));
        for index in order {
            match self.next_of_track(index, now)? {
                TrackAction::Fetch(fetch) => return Ok(Action::Fetch(fetch)),
                TrackAction::WaitUntil(time) => {
                    until = Some(until.map_or(time, |until| until.min(time)));
                }
                TrackAction::Nothing => {}
            }
        }
        if self.tracks.iter().all(|track| track.is_complete) {
            if self.buffer.state() == State::Ended {
                return Ok(Action::Done);
            }
            let left = self.buffer.level().div_f64(self.buffer.rate());
            let left = if self.buffer.rate() == 1.0 {
                self.buffer.level()
            } else {
                left
            };
            until = Some(until.map_or(now + left, |until| until.min(now + left)));
        }
        Ok(Action::Wait {
            until: until.map(|until| self.began + until),
        })
    }

    /// What a live session needs besides segments: the time, a place to begin, and the MPD again.
    /// `Nothing` if no segment can be asked for before a report.
    fn next_of_live(&mut self, now: Duration) -> TrackAction {
        let (Some(live), Some(mpd)) = (&self.live, &self.presentation.live) else {
            return TrackAction::WaitUntil(now);
        };
        if !live.is_clock_set {
            return match (&live.side, &mpd.clock) {
                (None, Some(Clock::Http(url))) => {
                    let url = url.clone();
                    self.send_aside(now, What::Clock, url, MAX_CLOCK_BYTES)
                }
                _ => TrackAction::Nothing,
            };
        }
        if !live.is_placed {
            let begin = live.edge.wanted(now);
            self.buffer.begin_live(begin);
            for index in 0..self.tracks.len() {
                self.place(index, begin);
            }
        }
        let url = self.mpd_url();
        let Some(live) = &mut self.live else {
            return TrackAction::Nothing;
        };
        live.is_placed = true;
        match (live.update_at, &live.side) {
            (Some(at), None) if at <= now => {
                self.send_aside(now, What::Manifest, url, MAX_MPD_BYTES)
            }
            (Some(at), None) => TrackAction::WaitUntil(at.min(now + STEER_EVERY)),
            _ => TrackAction::WaitUntil(now + STEER_EVERY),
        }
    }

    /// Where the next MPD is.
    fn mpd_url(&self) -> Url {
        let live = self.presentation.live.as_ref();
        let elsewhere = live.and_then(|live| live.location.as_ref());
        elsewhere.unwrap_or(&self.presentation.url).clone()
    }

    fn send_aside(
        &mut self,
        now: Duration,
        what: What,
        url: Url,
        keep_bytes: usize,
    ) -> TrackAction {
        let id = FetchId(self.next_id);
        self.next_id += 1;
        if let Some(live) = &mut self.live {
            live.side = Some(Side {
                id,
                what,
                sent_at: now,
                received_bytes: 0,
            });
        }
        let object = match what {
            What::Manifest => Object::Manifest,
            _ => Object::Other,
        };
        TrackAction::Fetch(Box::new(Fetch {
            id,
            what,
            kind: MediaKind::Video,
            representation: String::new(),
            url,
            range: None,
            keep_bytes,
            cmcd: Cmcd {
                object: Some(object),
                ..Cmcd::default()
            },
            next_object: None,
            bases: 1,
            media: None,
            chunk: None,
        }))
    }

    /// Makes the segment at this media time a track's next one.
    fn place(&mut self, index: usize, media: Duration) {
        let kind = self.tracks[index].kind;
        let periods = &self.presentation.periods;
        let period = periods.iter().rposition(|period| period.start <= media);
        let period = period.unwrap_or(0);
        let within = media.saturating_sub(periods[period].start);
        let first = periods[period].first(kind);
        let first = first.and_then(|set| set.representations.first());
        let next_in_period = first.map_or(0, |first| first.index_at(within));
        let levels = first.map_or(0, |_| self.levels(period, kind));
        let track = &mut self.tracks[index];
        track.period = period;
        track.next_in_period = next_in_period;
        track.chosen = track.chosen.filter(|level| *level < levels);
    }

    fn levels(&self, period: usize, kind: MediaKind) -> usize {
        let set = self.presentation.periods[period].first(kind);
        set.map_or(0, |set| set.representations.len())
    }

    /// Media time of the start and the end of a track's next segment; `None` if the MPD does not
    /// have it yet.
    fn next_media(&self, track: &Track) -> Option<(Duration, Duration)> {
        let period = &self.presentation.periods[track.period];
        let mut levels = self.representations(track).iter();
        let segment = levels.find_map(|level| level.segment(track.next_in_period))?;
        let start = period.start + segment.start;
        Some((start, start + segment.duration))
    }

    /// Takes the place of the MPD that came before.
    fn update(&mut self, presentation: Presentation) {
        // Where each track goes on: at the start of its next segment, or where it ends.
        let places: Vec<Duration> = self
            .tracks
            .iter()
            .map(|track| match self.next_media(track) {
                Some((start, _)) => start,
                None => self.buffer.until(track.kind),
            })
            .collect();
        self.presentation = presentation;
        for (index, place) in places.into_iter().enumerate() {
            // Times are rounded to the MPD's ticks.
            self.place(index, place + Duration::from_millis(2));
            let track = &self.tracks[index];
            // Segments that are listed so far may all have come.
            let is_behind = self
                .next_media(track)
                .is_some_and(|(_, end)| end <= place + Duration::from_millis(2));
            let is_last = track.period + 1 == self.presentation.periods.len();
            let has_end = self
                .presentation
                .live
                .as_ref()
                .is_none_or(|live| live.has_end);
            let track = &mut self.tracks[index];
            if is_behind {
                track.next_in_period += 1;
                if is_last && has_end && track.pending.is_none() {
                    track.is_complete = true;
                    let kind = track.kind;
                    self.buffer.complete(kind);
                }
            }
        }
    }

    /// When a live track's next segment can be asked for, if not now. `None` while the MPD does not
    /// have it.
    fn available_at(&self, track: &Track) -> Option<Duration> {
        let Some(live) = &self.live else {
            return Some(Duration::ZERO);
        };
        let (_, end) = self.next_media(track)?;
        let representations = self.representations(track);
        let offset = representations
            .iter()
            .map(|it| it.availability_offset)
            .min();
        // Never later than its end: what is there early for one level may not be for another.
        Some(
            live.edge
                .time_of(end.saturating_sub(offset.unwrap_or_default())),
        )
    }

    /// Leaves out what live playback is too far behind for.
    fn catch_up(&mut self, index: usize, now: Duration) {
        let Some(live) = &self.live else {
            return;
        };
        let wanted = live.edge.wanted(now);
        let track = &self.tracks[index];
        let is_late = self
            .next_media(track)
            .is_some_and(|(_, end)| end + self.config.max_drift < wanted);
        if is_late && track.chosen.is_none() {
            self.place(index, wanted);
        }
    }

    fn next_of_track(&mut self, index: usize, now: Duration) -> Result<TrackAction, PlayerError> {
        let track = &mut self.tracks[index];
        if track.is_complete || track.pending.is_some() {
            return Ok(TrackAction::Nothing);
        }
        if let Some((at, fetch)) = track.retry.take() {
            if now < at {
                track.retry = Some((at, fetch));
                return Ok(TrackAction::WaitUntil(at));
            }
            return Ok(self.send(
                index,
                now,
                fetch.what,
                fetch.representation,
                Resource {
                    url: fetch.url,
                    range: fetch.range,
                },
            ));
        }
        self.catch_up(index, now);
        let track = &self.tracks[index];
        if self.live.is_some() {
            match self.available_at(track) {
                // With the next MPD.
                None => return Ok(TrackAction::Nothing),
                Some(at) if at > now => return Ok(TrackAction::WaitUntil(at)),
                Some(_) => {}
            }
        }
        let level = match track.chosen {
            Some(level) => level,
            None => match self.choose(index, now) {
                Choice::Level(level) => level,
                Choice::WaitUntil(time) => return Ok(TrackAction::WaitUntil(time)),
                Choice::Nothing => return Ok(TrackAction::Nothing),
            },
        };
        let track = &mut self.tracks[index];
        track.chosen = Some(level);

        let track = &self.tracks[index];
        let representation = &self.representations(track)[level];
        let id = representation.id.clone();
        if let Some(init) = &representation.init {
            if !track.initialised.contains(init) {
                let init = init.clone();
                return Ok(self.send(index, now, What::Init, id, init));
            }
        }
        if let Some(sidx) = representation.unresolved_index() {
            return Ok(self.send(index, now, What::Index, id, sidx));
        }
        let Some(segment) = representation.segment(track.next_in_period) else {
            return Err(PlayerError::Unaligned {
                id,
                index: track.next_in_period,
            });
        };
        let what = What::Segment(track.next);
        Ok(self.send(index, now, what, id, segment.resource))
    }

    /// The level of a track's next segment, or why not yet.
    fn choose(&mut self, index: usize, now: Duration) -> Choice {
        let track = &self.tracks[index];
        let ladder_bps = self.ladder(track);
        let is_playing = self.buffer.state() == State::Playing;
        let video = &self.tracks[0];
        let top = self.representations(video).len() - 1;
        let goal = if video.last_level.is_some_and(|last| last >= top) {
            self.config.buffer_goal_at_top
        } else {
            self.config.buffer_goal
        };
        let excess = self.buffer.track_level(track.kind).saturating_sub(goal);
        if !excess.is_zero() && !self.buffer.awaits(track.kind) {
            // A buffer that does not drain waits for the other track instead.
            return match is_playing {
                true => Choice::WaitUntil(now + excess),
                false => Choice::Nothing,
            };
        }
        if track.kind == MediaKind::Audio {
            let affordable = ladder_bps.partition_point(|&bps| bps <= self.config.audio_max_bps);
            return Choice::Level(affordable.saturating_sub(1));
        }
        if is_playing && now < track.hold_until {
            return Choice::WaitUntil(track.hold_until);
        }
        if let (None, Some(level)) = (track.last_level, self.config.start_level) {
            return Choice::Level(level.min(top));
        }
        let decision = self.rule.decide(&Situation {
            segment: self.segment_length(track),
            ladder_bps: &ladder_bps,
            buffer: self.buffer.level(),
            buffer_goal: self.config.buffer_goal,
            throughput_bps: self.throughput.estimate_bps(),
            last_level: track.last_level,
            idle: now.saturating_sub(track.idle_since),
            playback_rate: self.buffer.rate(),
        });
        let last_level = track.last_level;
        self.tracks[index].idle_since = now;
        match decision {
            Decision::Level(level) => Choice::Level(level.min(top)),
            Decision::Wait(wait) if is_playing => {
                let until = now + wait;
                self.tracks[index].hold_until = until;
                Choice::WaitUntil(until)
            }
            // Nothing plays, so waiting would not end: go on as before.
            Decision::Wait(_) => Choice::Level(last_level.unwrap_or(0).min(top)),
        }
    }

    /// Length of a track's next segment, from any Representation whose segments are known.
    fn segment_length(&self, track: &Track) -> Duration {
        self.representations(track)
            .iter()
            .find_map(|representation| representation.segment(track.next_in_period))
            .map_or(Duration::from_secs(2), |segment| segment.duration)
    }

    fn send(
        &mut self,
        index: usize,
        now: Duration,
        what: What,
        representation: String,
        mut resource: Resource,
    ) -> TrackAction {
        let track = &self.tracks[index];
        let level = track
            .chosen
            .and_then(|level| self.representations(track).get(level));
        let bases = level.map_or(1, |level| level.bases.len());
        if let Some(level) = level.filter(|level| level.bases.len() > 1) {
            resource.url = level.elsewhere(&resource.url, track.base);
        }
        let id = FetchId(self.next_id);
        self.next_id += 1;
        let keep_bytes = match what {
            What::Init | What::Segment(_) => CHECKED_BYTES,
            What::Index => resource.range.map_or(MAX_INDEX_BYTES, |range| {
                range.byte_count().min(MAX_INDEX_BYTES)
            }) as usize,
            What::Manifest => MAX_MPD_BYTES,
            What::Clock => MAX_CLOCK_BYTES,
        };
        let cmcd = self.cmcd(index, what);
        let next_object = self.next_object(index, what, &resource.url);
        let track = &self.tracks[index];
        let (media, chunk) = match (what, track.chosen) {
            (What::Segment(_), Some(level)) => {
                let chunk = self.live.as_ref();
                let chunk = chunk.and_then(|_| self.representations(track)[level].chunk());
                (self.next_media(track), chunk)
            }
            _ => (None, None),
        };
        let track = &mut self.tracks[index];
        track.told_starvations = self.buffer.starvations(track.kind);
        let fetch = Fetch {
            id,
            what,
            kind: track.kind,
            representation,
            url: resource.url,
            range: resource.range,
            keep_bytes,
            cmcd,
            next_object,
            bases,
            media,
            chunk,
        };
        self.throughput.on_request(now);
        track.pending = Some(Pending {
            fetch: fetch.clone(),
            sent_at: now,
            carried: self.throughput.carried(),
            received_bytes: 0,
            pace: Pace::default(),
            has_begun: false,
            chunks: 0,
            paused_until: None,
            paused: Duration::ZERO,
        });
        TrackAction::Fetch(Box::new(fetch))
    }

    /// What a track's request may say.
    fn cmcd(&self, index: usize, what: What) -> Cmcd {
        let ms = |time: Duration| u64::try_from(time.as_millis()).ok();
        let track = &self.tracks[index];
        let representations = self.representations(track);
        let is_awaited = self.buffer.awaits(track.kind);
        let ahead = self.buffer.track_level(track.kind);
        let mut cmcd = Cmcd {
            // What playback waits for is late already.
            deadline_ms: ms(if is_awaited { Duration::ZERO } else { ahead }),
            throughput_kbps: self.throughput.estimate_bps().map(|bps| (bps / 1e3) as u64),
            is_startup: is_awaited,
            was_starved: self.buffer.starvations(track.kind) > track.told_starvations,
            object: Some(match what {
                What::Segment(_) if track.kind == MediaKind::Audio => Object::Audio,
                What::Segment(_) => Object::Video,
                What::Init => Object::Init,
                What::Index | What::Manifest | What::Clock => Object::Other,
            }),
            ..Cmcd::default()
        };
        let level = track.chosen.and_then(|level| representations.get(level));
        if let (What::Segment(_), Some(level)) = (what, level) {
            let to_kbps = |bps: u64| bps.div_ceil(1000);
            let top = representations.last();
            cmcd.buffer_ms = ms(ahead);
            cmcd.bitrate_kbps = Some(to_kbps(level.bandwidth_bps));
            cmcd.top_bitrate_kbps = top.map(|top| to_kbps(top.bandwidth_bps));
            cmcd.duration_ms = level
                .segment(track.next_in_period)
                .and_then(|segment| ms(segment.duration));
        }
        cmcd
    }

    /// Where the segment after what is at `url` is, unless that is the same file.
    fn next_object(&self, index: usize, what: What, url: &Url) -> Option<String> {
        let track = &self.tracks[index];
        let level = self.representations(track).get(track.chosen?)?;
        let is_segment = matches!(what, What::Segment(_));
        let next = level.segment(track.next_in_period + u64::from(is_segment))?;
        let relative = url.make_relative(&next.resource.url)?;
        (!relative.is_empty()).then_some(relative)
    }

    /// `received_bytes` of a body have arrived so far, of `total_bytes` if that is known.
    ///
    /// The first call with bytes or a total is the beginning of the response. Worth calling for every
    /// read: it keeps the throughput estimate right while requests overlap,
    /// and lets a rule give up a download.
    pub fn on_progress(
        &mut self,
        now: Instant,
        id: FetchId,
        received_bytes: u64,
        total_bytes: Option<u64>,
    ) -> Result<Progress, PlayerError> {
        let now = self.on_clock(now);
        self.pass(now);
        if let Some(side) = self.side(id) {
            let new = received_bytes.saturating_sub(side.received_bytes);
            side.received_bytes += new;
            self.received_bytes += new;
            return Ok(Progress::Continue);
        }
        let index = self.outstanding(id)?;
        if received_bytes > 0 || total_bytes.is_some() {
            self.count(index, now, received_bytes);
        }
        let track = &self.tracks[index];
        let (Some(pending), Some(level), Some(total_bytes)) =
            (&track.pending, track.chosen, total_bytes)
        else {
            return Ok(Progress::Continue);
        };
        let which = self.rule.abandons();
        let is_candidate = track.kind == MediaKind::Video
            && matches!(pending.fetch.what, What::Segment(_))
            && pending.paused_until.is_none()
            && which != Abandon::Never;
        if !is_candidate {
            return Ok(Progress::Continue);
        }
        let (pieces, held) = self.pieces(track, level);
        if which == Abandon::Slow && pieces > 1 {
            // The rate since the request says nothing of a segment that is sent while it is made.
            return Ok(Progress::Continue);
        }
        let busy = pending.busy(now);
        let download = Download {
            ladder_bps: &self.ladder(track),
            level,
            segment: self.segment_length(track),
            pieces,
            held,
            elapsed: busy,
            received_bytes,
            total_bytes,
            lately_bps: pending.pace.bps(busy, received_bytes),
            buffer: self.buffer.level(),
        };
        let instead = should_abandon(which, &download);
        let Some(instead) = instead else {
            return Ok(Progress::Continue);
        };
        self.wasted_bytes += received_bytes;
        self.end_of_request(index, now);
        let track = &mut self.tracks[index];
        track.pending = None;
        track.chosen = Some(instead);
        Ok(Progress::Abandon)
    }

    /// Of the segment that a track fetches: the pieces in which it plays, and how many of these are in the buffer.
    fn pieces(&self, track: &Track, level: usize) -> (u32, u32) {
        let chunk = self.live.as_ref();
        let chunk = chunk.and_then(|_| self.representations(track)[level].chunk());
        let (Some(chunk), Some((start, end))) = (chunk, self.next_media(track)) else {
            return (1, 0);
        };
        let chunk_ns = chunk.as_nanos().max(1);
        let pieces = (end - start).as_nanos().div_ceil(chunk_ns).max(1);
        let held = self.buffer.until(track.kind).saturating_sub(start);
        let held = (held.as_nanos() / chunk_ns).min(pieces - 1);
        (pieces as u32, held as u32)
    }

    /// `chunks` chunks of a segment under way are there as a whole, counted from its beginning.
    ///
    /// Does nothing for anything but segments that are sent while they are made. Call it after
    /// [`Self::on_progress`].
    pub fn on_chunks(&mut self, now: Instant, id: FetchId, chunks: u64) -> Result<(), PlayerError> {
        let now = self.on_clock(now);
        self.pass(now);
        if self.side(id).is_some() {
            return Ok(());
        }
        let index = self.outstanding(id)?;
        let track = &self.tracks[index];
        let (Some(pending), Some(level), Some(live)) = (&track.pending, track.chosen, &self.live)
        else {
            return Ok(());
        };
        let chunk = self.representations(track)[level].chunk();
        let (Some(chunk), Some((start, end)), What::Segment(_)) =
            (chunk, self.next_media(track), pending.fetch.what)
        else {
            return Ok(());
        };
        let most = u64::from(self.pieces(track, level).0);
        let chunks = chunks.min(most);
        if chunks <= pending.chunks || chunks == most {
            // The last one comes with the end.
            return Ok(());
        }
        let until = |chunks: u64| start + chunk * chunks as u32;
        // The next one is there when its end is made.
        let next_at = live.edge.time_of(until(chunks + 1).min(end));
        let kind = track.kind;
        // Another level's were there before, if that was given up.
        let from = start.max(self.buffer.until(kind));
        if let Some(pending) = &mut self.tracks[index].pending {
            pending.chunks = chunks;
            if next_at > now {
                pending.pause(now, next_at, &mut self.throughput);
            }
        }
        if until(chunks) > from {
            self.push(now, kind, (from, until(chunks)), false);
        }
        Ok(())
    }

    /// Media for the buffer. When live playback begins it begins where it should be, if that is
    /// there.
    fn push(&mut self, now: Duration, kind: MediaKind, media: (Duration, Duration), is_last: bool) {
        let had_begun = self.buffer.startup().is_some();
        self.buffer.push(now, kind, media, is_last);
        if let (Some(live), false, true) =
            (&mut self.live, had_begun, self.buffer.startup().is_some())
        {
            let wanted = live.edge.wanted(now);
            if wanted < self.buffer.playhead() + self.buffer.level() {
                self.buffer.skip_to(wanted);
            }
            live.edge.observe(now, self.buffer.playhead());
        }
    }

    /// The answer to a request that belongs to no track.
    fn on_side_done(&mut self, now: Duration, side: Side, head: &[u8]) -> Result<(), PlayerError> {
        let outcome = match side.what {
            What::Clock => self.set_clock(now, &side, head),
            _ => Presentation::parse(head, &self.presentation.url)
                .map_err(|error| error.to_string())
                .and_then(|next| match self.is_successor(&next) {
                    true => {
                        self.update(next);
                        Ok(())
                    }
                    false => Err("its audio and video are not those of the MPD before".into()),
                }),
        };
        match outcome {
            Ok(()) => {
                let period = self.presentation.live.as_ref();
                let period = period.and_then(|live| live.update_period);
                if let Some(live) = &mut self.live {
                    live.failures = 0;
                    live.update_at = period.map(|period| side.sent_at + period.max(LEAST_UPDATE));
                }
                Ok(())
            }
            Err(reason) => self.on_side_failed(now, &side, &reason),
        }
    }

    fn set_clock(&mut self, now: Duration, side: &Side, head: &[u8]) -> Result<(), String> {
        let time = mpd::read_clock(head).ok_or("it does not say a time")?;
        let start = self.presentation.live.as_ref();
        let start = start.map_or(Duration::ZERO, |live| live.availability_start);
        if let Some(live) = &mut self.live {
            // It was so late half way between question and answer.
            let half = now.saturating_sub(side.sent_at) / 2;
            live.edge.set_clock(now, time + half, start);
            live.is_clock_set = true;
        }
        Ok(())
    }

    /// Whether the tracks can go on in another MPD.
    fn is_successor(&self, next: &Presentation) -> bool {
        let has = |kind| {
            next.periods
                .iter()
                .all(|period| period.first(kind).is_some())
        };
        self.tracks.iter().all(|track| has(track.kind))
    }

    /// The time is taken from the local clock instead; the MPD is asked for again.
    fn on_side_failed(
        &mut self,
        now: Duration,
        side: &Side,
        reason: &str,
    ) -> Result<(), PlayerError> {
        let url = self.mpd_url();
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        if side.what == What::Clock {
            live.is_clock_set = true;
            return Ok(());
        }
        live.failures += 1;
        if live.failures >= self.config.attempts {
            return Err(PlayerError::GaveUp {
                what: "the MPD".into(),
                url: Box::new(url),
                attempts: live.failures,
                reason: reason.into(),
            });
        }
        live.update_at = Some(now + LEAST_UPDATE);
        Ok(())
    }

    /// The request aside with this id.
    fn side(&mut self, id: FetchId) -> Option<&mut Side> {
        self.live
            .as_mut()?
            .side
            .as_mut()
            .filter(|side| side.id == id)
    }

    fn take_side(&mut self, id: FetchId) -> Option<Side> {
        self.live.as_mut()?.side.take_if(|side| side.id == id)
    }

    /// A body of `body_bytes` bytes is complete. `head` is its start, at least as long as
    /// [`Fetch::keep_bytes`] or the body.
    ///
    /// A body that is not what was asked for counts as a failure: see [`Self::on_failed`].
    pub fn on_done(
        &mut self,
        now: Instant,
        id: FetchId,
        body_bytes: u64,
        head: &[u8],
    ) -> Result<(), PlayerError> {
        let clock = self.on_clock(now);
        self.pass(clock);
        if let Some(side) = self.take_side(id) {
            self.received_bytes += body_bytes.saturating_sub(side.received_bytes);
            return self.on_side_done(clock, side, head);
        }
        let index = self.outstanding(id)?;
        self.count(index, clock, body_bytes);
        let track = &self.tracks[index];
        let (Some(pending), Some(level)) = (&track.pending, track.chosen) else {
            return Err(PlayerError::NotOutstanding(id));
        };
        let what = pending.fetch.what;
        let checked = match what {
            What::Init | What::Segment(_) => {
                check_start(head, body_bytes).map_err(|error| error.to_string())
            }
            What::Manifest | What::Clock => Ok(()),
            What::Index => {
                let (period, kind) = (track.period, track.kind);
                self.resolve_index(period, kind, level, head)
            }
        };
        if let Err(reason) = checked {
            return self.on_failed(now, id, &reason);
        }
        self.end_of_request(index, clock);
        let track = &mut self.tracks[index];
        track.failures = 0;
        let Some(pending) = track.pending.take() else {
            return Err(PlayerError::NotOutstanding(id));
        };
        match what {
            What::Init => self.on_init(index, level),
            What::Index | What::Manifest | What::Clock => {}
            What::Segment(_) => self.on_segment(clock, index, level, pending)?,
        }
        Ok(())
    }

    fn resolve_index(
        &mut self,
        period: usize,
        kind: MediaKind,
        level: usize,
        bytes: &[u8],
    ) -> Result<(), String> {
        let sets = &mut self.presentation.periods[period].adaptation_sets;
        let set = sets.iter_mut().find(|set| set.kind == kind);
        match set.and_then(|set| set.representations.get_mut(level)) {
            Some(representation) => representation
                .resolve_index(bytes)
                .map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn on_init(&mut self, index: usize, level: usize) {
        let track = &self.tracks[index];
        if let Some(init) = self.representations(track)[level].init.clone() {
            self.tracks[index].initialised.push(init);
        }
    }

    fn on_segment(
        &mut self,
        now: Duration,
        index: usize,
        level: usize,
        pending: Pending,
    ) -> Result<(), PlayerError> {
        let track = &self.tracks[index];
        let (kind, global_index) = (track.kind, track.next);
        let period_start = self.presentation.periods[track.period].start;
        let representation = &self.representations(track)[level];
        let (Some(segment), Some(count)) = (
            representation.segment(track.next_in_period),
            representation.segment_count(),
        ) else {
            return Err(PlayerError::Unaligned {
                id: representation.id.clone(),
                index: track.next_in_period,
            });
        };
        let bitrate_bps = representation.bandwidth_bps;
        let start = period_start + segment.start;
        // What came in chunks is in the buffer already.
        let from = match representation.chunk() {
            Some(_) => start.max(self.buffer.until(kind)),
            None => start,
        };
        let has_end = self
            .presentation
            .live
            .as_ref()
            .is_none_or(|live| live.has_end);

        let track = &mut self.tracks[index];
        track.last_level = Some(level);
        track.chosen = None;
        track.next += 1;
        track.next_in_period += 1;
        // A live MPD without an end has more later.
        let is_last_period = track.period + 1 == self.presentation.periods.len();
        if track.next_in_period == count && (has_end || !is_last_period) {
            // The Period stays valid for a finished track.
            track.is_complete = is_last_period;
            track.next_in_period = 0;
            track.period += usize::from(!is_last_period);
        }
        let is_last = track.is_complete;
        track.idle_since = now;
        let buffer = self.buffer.level();
        self.push(now, kind, (from, start + segment.duration), is_last);
        if kind == MediaKind::Video {
            let starvations = self.buffer.starvations(kind);
            if std::mem::replace(&mut self.starvations, starvations) < starvations {
                self.rule.on_stall();
            }
            self.rule.on_segment(&Arrival {
                level,
                duration: segment.duration,
                took: now.saturating_sub(pending.sent_at),
                buffer,
                throughput_bps: self.throughput.carried().rate_since(&pending.carried),
            });
            self.segments.push(FetchedSegment {
                index: global_index,
                level,
                representation: pending.fetch.representation,
                bitrate_bps,
                duration: segment.duration,
                start: pending.sent_at,
                end: now,
                bytes: pending.received_bytes,
                buffer: self.buffer.level(),
            });
        }
        Ok(())
    }

    /// A request failed, `reason` completing "because ...". It is sent again: at once to another
    /// BaseURL that was not asked yet, else after a pause. After the last attempt the session is
    /// over and the error says so.
    pub fn on_failed(
        &mut self,
        now: Instant,
        id: FetchId,
        reason: &str,
    ) -> Result<(), PlayerError> {
        let now = self.on_clock(now);
        self.pass(now);
        if let Some(side) = self.take_side(id) {
            return self.on_side_failed(now, &side, reason);
        }
        let index = self.outstanding(id)?;
        self.end_of_request(index, now);
        let track = &mut self.tracks[index];
        let Some(pending) = track.pending.take() else {
            return Err(PlayerError::NotOutstanding(id));
        };
        self.wasted_bytes += pending.received_bytes;
        track.failures += 1;
        track.base += 1;
        let others = u32::try_from(pending.fetch.bases).unwrap_or(u32::MAX);
        if track.failures >= self.config.attempts.max(others) {
            return Err(PlayerError::GaveUp {
                what: pending.fetch.to_string(),
                url: Box::new(pending.fetch.url),
                attempts: track.failures,
                reason: reason.into(),
            });
        }
        let rounds = track.failures / others.max(1);
        let at = match track.failures < others {
            true => now,
            false => now + self.config.retry_delay * (1u32 << (rounds - 1).min(10)),
        };
        track.retry = Some((at, pending.fetch));
        Ok(())
    }

    /// The throughput hears that a track's request is over.
    fn end_of_request(&mut self, index: usize, now: Duration) {
        if let Some(pending) = &mut self.tracks[index].pending {
            pending.resume(now, &mut self.throughput);
            self.throughput.on_end(now, pending.has_begun);
        }
    }

    /// The track with this request.
    fn outstanding(&self, id: FetchId) -> Result<usize, PlayerError> {
        let has = |track: &Track| matches!(&track.pending, Some(it) if it.fetch.id == id);
        let found = self.tracks.iter().position(has);
        found.ok_or(PlayerError::NotOutstanding(id))
    }

    /// Counts what is new of the bytes of a track's request.
    fn count(&mut self, index: usize, now: Duration, received_bytes: u64) {
        if let Some(pending) = &mut self.tracks[index].pending {
            let new = received_bytes.saturating_sub(pending.received_bytes);
            if new > 0 {
                pending.resume(now, &mut self.throughput);
            }
            if !std::mem::replace(&mut pending.has_begun, true) {
                self.throughput.on_begin(now, new);
            }
            pending.received_bytes += new;
            pending
                .pace
                .on_bytes(pending.busy(now), pending.received_bytes);
            self.received_bytes += new;
            self.throughput.on_bytes(new);
        }
    }

    fn on_clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

/// Length of a Representation's first segment.
fn first_length(representation: &Representation) -> Duration {
    representation
        .segment(0)
        .map_or(Duration::from_secs(2), |segment| segment.duration)
}

/// Of a level for a track's next segment.
enum Choice {
    Level(usize),
    WaitUntil(Duration),
    /// Only a report can change anything.
    Nothing,
}

enum TrackAction {
    Fetch(Box<Fetch>),
    WaitUntil(Duration),
    Nothing,
}
