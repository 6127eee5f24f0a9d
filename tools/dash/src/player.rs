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

use std::time::{Duration, Instant};

use mpq_cmcd::{Cmcd, Object};
use url::Url;

use crate::abr::{should_abandon, Arrival, Decision, Download, Rule, Situation};
use crate::buffer::{Buffer, State};
use crate::isobmff::{check_start, CHECKED_BYTES};
use crate::mpd::{ByteRange, MediaKind, Presentation, Representation, Resource};
use crate::throughput::{Carried, Throughput};

/// Largest segment index that is kept in memory, bytes.
const MAX_INDEX_BYTES: u64 = 4 << 20;

/// What a player can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A media segment, counted from 0 over the whole presentation.
    Segment(u64),
}

/// A request to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// To report with.
    pub id: FetchId,
    /// What it is for.
    pub what: What,
    /// For which track.
    pub kind: MediaKind,
    /// The Representation's id.
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
    #[error("{url} failed {attempts} times, the last time because {reason}")]
    GaveUp {
        /// The resource.
        url: Url,
        /// How often it was asked for.
        attempts: u32,
        /// Why the last attempt failed.
        reason: String,
    },
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
    /// (Period, level) pairs whose init segment has arrived.
    initialised: Vec<(usize, usize)>,
    pending: Option<Pending>,
    /// To be sent again, not before this time.
    retry: Option<(Duration, Fetch)>,
    failures: u32,
    /// The rule wants to be asked again then.
    hold_until: Duration,
    is_complete: bool,
    /// Starvations up to its last request.
    told_starvations: usize,
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
        };
        Ok(Self {
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
        self.buffer.advance(self.on_clock(now));
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Instant) -> Result<Action, PlayerError> {
        let now = self.on_clock(now);
        self.buffer.advance(now);
        // The track that has less is served first.
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        order.sort_by_key(|&index| self.buffer.track_level(self.tracks[index].kind));
        let mut until: Option<Duration> = None;
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
            until = Some(now + self.buffer.level());
        }
        Ok(Action::Wait {
            until: until.map(|until| self.began + until),
        })
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
        if !track.initialised.contains(&(track.period, level)) {
            if let Some(init) = representation.init.clone() {
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
            playback_rate: 1.0,
        });
        match decision {
            Decision::Level(level) => Choice::Level(level.min(top)),
            Decision::Wait(wait) if is_playing => {
                let until = now + wait;
                self.tracks[index].hold_until = until;
                Choice::WaitUntil(until)
            }
            // Nothing plays, so waiting would not end: go on as before.
            Decision::Wait(_) => Choice::Level(track.last_level.unwrap_or(0).min(top)),
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
        resource: Resource,
    ) -> TrackAction {
        let id = FetchId(self.next_id);
        self.next_id += 1;
        let keep_bytes = match what {
            What::Init | What::Segment(_) => CHECKED_BYTES,
            What::Index => resource.range.map_or(MAX_INDEX_BYTES, |range| {
                range.byte_count().min(MAX_INDEX_BYTES)
            }) as usize,
        };
        let cmcd = self.cmcd(index, what);
        let next_object = self.next_object(index, what, &resource.url);
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
        };
        self.throughput.on_request(now);
        track.pending = Some(Pending {
            fetch: fetch.clone(),
            sent_at: now,
            carried: self.throughput.carried(),
            received_bytes: 0,
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
                What::Index => Object::Other,
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
    /// Worth calling for every read: it keeps the throughput estimate right while requests overlap,
    /// and lets a rule give up a download.
    pub fn on_progress(
        &mut self,
        now: Instant,
        id: FetchId,
        received_bytes: u64,
        total_bytes: Option<u64>,
    ) -> Result<Progress, PlayerError> {
        let now = self.on_clock(now);
        self.buffer.advance(now);
        let index = self.outstanding(id)?;
        self.count(index, received_bytes);
        let track = &self.tracks[index];
        let (Some(pending), Some(level), Some(total_bytes)) =
            (&track.pending, track.chosen, total_bytes)
        else {
            return Ok(Progress::Continue);
        };
        let is_candidate = track.kind == MediaKind::Video
            && matches!(pending.fetch.what, What::Segment(_))
            && self.rule.may_abandon();
        if !is_candidate {
            return Ok(Progress::Continue);
        }
        let instead = should_abandon(&Download {
            ladder_bps: &self.ladder(track),
            level,
            segment: self.segment_length(track),
            elapsed: now.saturating_sub(pending.sent_at),
            received_bytes,
            total_bytes,
        });
        let Some(instead) = instead else {
            return Ok(Progress::Continue);
        };
        self.wasted_bytes += received_bytes;
        self.throughput.on_end(now);
        let track = &mut self.tracks[index];
        track.pending = None;
        track.chosen = Some(instead);
        Ok(Progress::Abandon)
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
        let index = self.outstanding(id)?;
        self.count(index, body_bytes);
        let track = &self.tracks[index];
        let (Some(pending), Some(level)) = (&track.pending, track.chosen) else {
            return Err(PlayerError::NotOutstanding(id));
        };
        let what = pending.fetch.what;
        let checked = match what {
            What::Init | What::Segment(_) => {
                check_start(head, body_bytes).map_err(|error| error.to_string())
            }
            What::Index => {
                let (period, kind) = (track.period, track.kind);
                self.resolve_index(period, kind, level, head)
            }
        };
        if let Err(reason) = checked {
            return self.on_failed(now, id, &reason);
        }
        self.throughput.on_end(clock);
        let track = &mut self.tracks[index];
        track.failures = 0;
        let Some(pending) = track.pending.take() else {
            return Err(PlayerError::NotOutstanding(id));
        };
        match what {
            What::Init => track.initialised.push((track.period, level)),
            What::Index => {}
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

        let track = &mut self.tracks[index];
        track.last_level = Some(level);
        track.chosen = None;
        track.next += 1;
        track.next_in_period += 1;
        if track.next_in_period == count {
            track.next_in_period = 0;
            // The Period stays valid for a finished track.
            if track.period + 1 < self.presentation.periods.len() {
                track.period += 1;
            } else {
                track.is_complete = true;
            }
        }
        let is_last = track.is_complete;
        let media = (start, start + segment.duration);
        self.buffer.push(now, kind, media, is_last);
        if kind == MediaKind::Video {
            self.rule.on_segment(&Arrival {
                level,
                duration: segment.duration,
                took: now.saturating_sub(pending.sent_at),
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

    /// A request failed, `reason` completing "because ...". It is sent again after a pause; after
    /// the last attempt the session is over and the error says so.
    pub fn on_failed(
        &mut self,
        now: Instant,
        id: FetchId,
        reason: &str,
    ) -> Result<(), PlayerError> {
        let now = self.on_clock(now);
        self.buffer.advance(now);
        let index = self.outstanding(id)?;
        self.throughput.on_end(now);
        let track = &mut self.tracks[index];
        let Some(pending) = track.pending.take() else {
            return Err(PlayerError::NotOutstanding(id));
        };
        self.wasted_bytes += pending.received_bytes;
        track.failures += 1;
        if track.failures >= self.config.attempts {
            return Err(PlayerError::GaveUp {
                url: pending.fetch.url,
                attempts: track.failures,
                reason: reason.into(),
            });
        }
        let doubled = 1u32 << (track.failures - 1).min(10);
        let at = now + self.config.retry_delay * doubled;
        track.retry = Some((at, pending.fetch));
        Ok(())
    }

    /// The track with this request.
    fn outstanding(&self, id: FetchId) -> Result<usize, PlayerError> {
        let has = |track: &Track| matches!(&track.pending, Some(it) if it.fetch.id == id);
        let found = self.tracks.iter().position(has);
        found.ok_or(PlayerError::NotOutstanding(id))
    }

    /// Counts what is new of the bytes of a track's request.
    fn count(&mut self, index: usize, received_bytes: u64) {
        if let Some(pending) = &mut self.tracks[index].pending {
            let new = received_bytes.saturating_sub(pending.received_bytes);
            pending.received_bytes += new;
            self.received_bytes += new;
            self.throughput.on_bytes(new);
        }
    }

    fn on_clock(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
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
