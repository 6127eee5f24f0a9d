//! The playback buffer: what would be on screen if this client had one.
//!
//! Media plays in real time once every track has enough whole segments; it stalls when any
//! unfinished track runs dry and resumes at the same condition. Between events the state is a
//! straight line, so stalls are dated exactly, however rarely [`Buffer::advance`] is called.

use std::collections::VecDeque;
use std::time::Duration;

use crate::mpd::MediaKind;

/// Tolerance for segment times that were rounded in the MPD.
const ROUNDING: Duration = Duration::from_millis(1);

/// Where playback is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing has played yet.
    Startup,
    /// Time passes in the media.
    Playing,
    /// Ran dry and waits; since this time on the session's clock.
    Stalled(Duration),
    /// Everything has played.
    Ended,
}

/// An interruption of playback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// When it began, on the session's clock.
    pub start: Duration,
    /// How long it lasted (so far, if it still does).
    pub duration: Duration,
    /// Media time at which playback stood.
    pub media_time: Duration,
}

#[derive(Debug, Clone)]
struct Track {
    kind: MediaKind,
    /// Buffered segments not yet played to their end: media start and end.
    segments: VecDeque<(Duration, Duration)>,
    /// Media time up to which the track is buffered.
    until: Duration,
    is_complete: bool,
    /// How often playback stood for want of this track.
    starvations: usize,
}

/// Buffer of all tracks with one playhead. Times are on the session's clock and never go back.
#[derive(Debug, Clone)]
pub struct Buffer {
    tracks: Vec<Track>,
    startup_segments: usize,
    resume_segments: usize,
    state: State,
    now: Duration,
    playhead: Duration,
    /// How fast media time passes while it plays.
    rate: f64,
    /// Live: playback begins in the middle, and may leave out what came too late.
    is_live: bool,
    /// Media that was left out, what was before the beginning included.
    skipped: Duration,
    /// What was before the beginning.
    before: Duration,
    startup: Option<Duration>,
    ended_at: Option<Duration>,
    stalls: Vec<Stall>,
    levels: Vec<(Duration, Duration)>,
}

impl Buffer {
    /// An empty buffer for these tracks. Playback starts at `startup_segments` whole segments of
    /// each and resumes after a stall at `resume_segments`; both are at least 1.
    pub fn new(kinds: &[MediaKind], startup_segments: usize, resume_segments: usize) -> Self {
        let track = |&kind| Track {
            kind,
            segments: VecDeque::new(),
            until: Duration::ZERO,
            is_complete: false,
            starvations: 0,
        };
        Self {
            tracks: kinds.iter().map(track).collect(),
            startup_segments: startup_segments.max(1),
            resume_segments: resume_segments.max(1),
            state: State::Startup,
            now: Duration::ZERO,
            playhead: Duration::ZERO,
            rate: 1.0,
            is_live: false,
            skipped: Duration::ZERO,
            before: Duration::ZERO,
            startup: None,
            ended_at: None,
            stalls: Vec::new(),
            levels: vec![(Duration::ZERO, Duration::ZERO)],
        }
    }

    /// Where playback is, as of the last [`Self::advance`].
    pub fn state(&self) -> State {
        self.state
    }

    /// Media time of the playhead.
    pub fn playhead(&self) -> Duration {
        self.playhead
    }

    /// Media that was played.
    pub fn played(&self) -> Duration {
        self.playhead.saturating_sub(self.skipped)
    }

    /// Live: media that was left out since playback began.
    pub fn left_out(&self) -> Duration {
        self.skipped.saturating_sub(self.before)
    }

    /// How fast media time passes while it plays; 1 but for [`Self::set_rate`].
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// From now on media time passes this fast.
    pub fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// Before anything was pushed: playback is live and begins at this media time. From then on what
    /// is missing before buffered media is left out when playback begins or resumes.
    pub fn begin_live(&mut self, playhead: Duration) {
        self.is_live = true;
        self.skip_to(playhead);
    }

    /// Leaves out what is before this media time.
    pub fn skip_to(&mut self, playhead: Duration) {
        self.skipped += playhead.saturating_sub(self.playhead);
        self.playhead = self.playhead.max(playhead);
        if self.played().is_zero() {
            self.before = self.skipped;
        }
    }

    /// When the first frame showed.
    pub fn startup(&self) -> Option<Duration> {
        self.startup
    }

    /// When the last frame had shown.
    pub fn ended_at(&self) -> Option<Duration> {
        self.ended_at
    }

    /// Interruptions so far, the current one included.
    pub fn stalls(&self) -> &[Stall] {
        &self.stalls
    }

    /// Corners of the buffer level over time: (session time, level). Straight lines between, except
    /// that two entries of one time are a step.
    pub fn levels(&self) -> &[(Duration, Duration)] {
        &self.levels
    }

    /// Media ahead of the playhead in every unfinished track; the rest of the media once all are
    /// finished.
    pub fn level(&self) -> Duration {
        let unfinished = self.tracks.iter().filter(|track| !track.is_complete);
        let until = unfinished
            .map(|track| track.until)
            .min()
            .or_else(|| self.tracks.iter().map(|track| track.until).max())
            .unwrap_or_default();
        until.saturating_sub(self.playhead)
    }

    /// Media time up to which a track is buffered.
    pub fn until(&self, kind: MediaKind) -> Duration {
        let track = self.tracks.iter().find(|track| track.kind == kind);
        track.map_or(Duration::ZERO, |track| track.until)
    }

    /// A track has no more than what was pushed.
    pub fn complete(&mut self, kind: MediaKind) {
        if let Some(track) = self.tracks.iter_mut().find(|track| track.kind == kind) {
            track.is_complete = true;
        }
    }

    /// Media of one track ahead of the playhead.
    pub fn track_level(&self, kind: MediaKind) -> Duration {
        self.tracks
            .iter()
            .find(|track| track.kind == kind)
            .map_or(Duration::ZERO, |track| {
                track.until.saturating_sub(self.playhead)
            })
    }

    /// How often playback stood for want of this track, startup not counted.
    pub fn starvations(&self, kind: MediaKind) -> usize {
        let track = self.tracks.iter().find(|track| track.kind == kind);
        track.map_or(0, |track| track.starvations)
    }

    /// Lets time pass up to `now`.
    pub fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        match self.state {
            State::Playing => self.play(passed),
            State::Stalled(since) => {
                if let Some(stall) = self.stalls.last_mut() {
                    stall.duration = (self.now + passed).saturating_sub(since);
                }
            }
            State::Startup | State::Ended => {}
        }
        self.now += passed;
        let playhead = self.playhead;
        for track in &mut self.tracks {
            while track
                .segments
                .front()
                .is_some_and(|&(_, end)| end <= playhead)
            {
                track.segments.pop_front();
            }
        }
    }

    fn play(&mut self, passed: Duration) {
        // As it is at a rate of 1, without rounding.
        let (as_media, as_time) = match self.rate == 1.0 {
            true => (passed, self.level()),
            false => (passed.mul_f64(self.rate), self.level().div_f64(self.rate)),
        };
        let left = self.level();
        let is_complete = self.tracks.iter().all(|track| track.is_complete);
        // At exactly zero the next segment may still arrive in the same instant.
        if passed < as_time || (passed == as_time && !is_complete) {
            self.playhead += as_media.min(left);
            return;
        }
        let dry_at = self.now + as_time;
        self.playhead += left;
        self.levels.push((dry_at, Duration::ZERO));
        if is_complete {
            self.state = State::Ended;
            self.ended_at = Some(dry_at);
        } else {
            self.state = State::Stalled(dry_at);
            let playhead = self.playhead;
            let dry = |track: &&mut Track| !track.is_complete && track.until <= playhead;
            for track in self.tracks.iter_mut().filter(dry) {
                track.starvations += 1;
            }
            self.stalls.push(Stall {
                start: dry_at,
                duration: passed - as_time,
                media_time: self.playhead,
            });
        }
    }

    /// A segment with this media start and end is complete; `is_last` if the track has no more.
    /// Starts or resumes playback when that is enough.
    pub fn push(
        &mut self,
        now: Duration,
        kind: MediaKind,
        (start, end): (Duration, Duration),
        is_last: bool,
    ) {
        self.advance(now);
        self.levels.push((self.now, self.level()));
        let is_after_gap = self.is_live && start > self.until(kind) + ROUNDING;
        if is_after_gap && self.startup.is_some() {
            // What is before a gap would only be late.
            self.skip_to(start);
        }
        if let Some(track) = self.tracks.iter_mut().find(|track| track.kind == kind) {
            track.segments.push_back((start, end));
            track.until = track.until.max(end);
            track.is_complete |= is_last;
        }
        let is_waiting = self.tracks.iter().any(|track| self.is_awaited(track));
        if !is_waiting && matches!(self.state, State::Startup | State::Stalled(_)) {
            if self.is_live {
                self.skip_gap();
            }
            self.startup.get_or_insert(self.now);
            self.state = State::Playing;
        }
        self.levels.push((self.now, self.level()));
    }

    /// To where all tracks have media.
    fn skip_gap(&mut self) {
        let playhead = self.playhead;
        let ahead = |track: &Track| {
            let mut segments = track.segments.iter();
            segments
                .find(|&&(_, end)| end > playhead)
                .map(|&(start, _)| start)
        };
        if let Some(first) = self.tracks.iter().filter_map(ahead).max() {
            self.skip_to(first);
        }
    }

    /// Whether playback stands until more of this track arrives.
    pub fn awaits(&self, kind: MediaKind) -> bool {
        let mut tracks = self.tracks.iter().filter(|track| track.kind == kind);
        tracks.any(|track| self.is_awaited(track))
    }

    /// Whether a track lacks the whole segments from the playhead on that playback waits for.
    fn is_awaited(&self, track: &Track) -> bool {
        let needed = match self.state {
            State::Startup => self.startup_segments,
            State::Stalled(_) => self.resume_segments,
            State::Playing | State::Ended => return false,
        };
        if self.is_live {
            // It may begin in the middle of a segment, and then waits for as much as a whole one.
            let Some(&(start, end)) = track.segments.back() else {
                return !track.is_complete;
            };
            let ahead = track.until.saturating_sub(self.playhead);
            return !track.is_complete && ahead + ROUNDING < (end - start) * needed as u32;
        }
        let whole = |&&(start, _): &&(Duration, Duration)| start + ROUNDING >= self.playhead;
        !track.is_complete && track.segments.iter().filter(whole).count() < needed
    }
}

#[cfg(test)]
mod tests {
    use super::MediaKind::{Audio, Video};
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn segment(index: u64) -> (Duration, Duration) {
        (s(2 * index), s(2 * index + 2))
    }

    #[test]
    fn starts_stalls_resumes_and_ends_at_the_right_times() {
        let mut buffer = Buffer::new(&[Video, Audio], 1, 1);
        buffer.push(s(1), Video, segment(0), false);
        assert_eq!(buffer.state(), State::Startup);
        buffer.push(s(3), Audio, segment(0), false);
        assert_eq!(
            (buffer.state(), buffer.startup()),
            (State::Playing, Some(s(3)))
        );
        assert_eq!(buffer.level(), s(2));
        // Audio alone goes on: video runs dry at 5 s. Video 1 comes at 9 s, the last one at 10 s.
        buffer.push(s(4), Audio, segment(1), false);
        assert_eq!((buffer.level(), buffer.track_level(Audio)), (s(1), s(3)));
        buffer.advance(s(7));
        assert_eq!(buffer.state(), State::Stalled(s(5)));
        assert_eq!(buffer.stalls()[0].duration, s(2));
        assert_eq!([Video, Audio].map(|kind| buffer.starvations(kind)), [1, 0]);
        buffer.push(s(9), Video, segment(1), false);
        assert_eq!(buffer.state(), State::Playing);
        let stall = Stall {
            start: s(5),
            duration: s(4),
            media_time: s(2),
        };
        assert_eq!(buffer.stalls(), [stall]);
        buffer.push(s(10), Video, segment(2), true);
        buffer.push(s(10), Audio, segment(2), true);
        buffer.advance(s(100));
        // 6 s of media, 4 s stalled, 3 s startup.
        assert_eq!(buffer.ended_at(), Some(s(13)));
        assert_eq!((buffer.state(), buffer.playhead()), (State::Ended, s(6)));
    }

    #[test]
    fn a_segment_that_arrives_as_the_last_one_ends_is_no_stall() {
        let mut buffer = Buffer::new(&[Video], 1, 1);
        buffer.push(s(0), Video, segment(0), false);
        buffer.push(s(2), Video, segment(1), true);
        buffer.advance(s(4));
        assert_eq!(buffer.stalls(), []);
        assert_eq!(buffer.ended_at(), Some(s(4)));
    }

    #[test]
    fn half_a_segment_is_not_enough_to_resume() {
        let mut buffer = Buffer::new(&[Video, Audio], 1, 1);
        buffer.push(s(0), Video, segment(0), false);
        buffer.push(s(0), Audio, (s(0), s(3)), false);
        buffer.advance(s(4));
        // Playhead at 2 s: audio reaches to 3 s, which is less than a segment.
        buffer.push(s(5), Video, segment(1), false);
        assert_eq!(buffer.state(), State::Stalled(s(2)));
        buffer.push(s(6), Audio, (s(3), s(6)), false);
        assert_eq!(buffer.state(), State::Playing);
    }

    #[test]
    fn live_begins_in_the_middle_catches_up_and_leaves_out_gaps() {
        let mut buffer = Buffer::new(&[Video], 1, 1);
        buffer.begin_live(s(101));
        buffer.push(s(1), Video, segment(50), false);
        assert_eq!(buffer.startup(), None, "half a segment is too little");
        buffer.push(s(1), Video, segment(51), false);
        assert_eq!((buffer.startup(), buffer.playhead()), (Some(s(1)), s(101)));
        // Three seconds of media, at a quarter more: dry at 1 + 2.4 s.
        buffer.set_rate(1.25);
        buffer.advance(s(3));
        assert_eq!(buffer.playhead(), Duration::from_millis(103_500));
        buffer.advance(s(5));
        assert_eq!(buffer.stalls()[0].start, Duration::from_millis(3_400));
        assert_eq!(buffer.stalls()[0].duration, Duration::from_millis(1_600));
        // 104 to 120 never comes.
        buffer.push(s(6), Video, segment(60), false);
        assert_eq!(
            (buffer.state(), buffer.playhead()),
            (State::Playing, s(120))
        );
        buffer.set_rate(1.0);
        buffer.advance(s(7));
        assert_eq!(buffer.played(), s(4));
    }

    #[test]
    fn thresholds_are_parameters() {
        let mut buffer = Buffer::new(&[Video], 2, 2);
        buffer.push(s(1), Video, segment(0), false);
        assert_eq!(buffer.state(), State::Startup);
        buffer.push(s(2), Video, segment(1), false);
        assert_eq!(buffer.startup(), Some(s(2)));
        buffer.push(s(8), Video, segment(2), false);
        assert_eq!(buffer.state(), State::Stalled(s(6)));
        // Fewer than two remain: the last one is enough.
        buffer.push(s(9), Video, segment(3), true);
        assert_eq!(buffer.state(), State::Playing);
    }
}
