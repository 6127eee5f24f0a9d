//! A flow that plays DASH: the presentation, the player's settings, and the MPD that follows.

use std::time::Duration;

use mpq_dash::mpd::Presentation;
use mpq_dash::player;
use mpq_wire::units::Rate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;
use url::Url;

use super::text;
use super::Size;
use super::Text;
use super::Time;

/// A presentation of segments whose sizes are rate times length, and the client that plays it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dash {
    /// Rates of the video levels, the lowest first.
    pub video: Vec<Text<Rate>>,
    /// Rate of the audio; without it there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audio: Option<Text<Rate>>,
    /// Length of a segment; the last one is what is left.
    pub segment: Text<Time>,
    /// Length of the whole; live: of what is made from the run's beginning on.
    pub length: Text<Time>,
    /// Whether it is made as it is played: segments become available at their end. At the run's
    /// beginning thirty of them have been made.
    #[serde(default)]
    pub live: bool,
    /// Live: segments are sent while they are made, in chunks of this length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Text<Time>>,
    /// Live: how far behind the present playback should be; without it three segments, or four
    /// chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_latency: Option<Text<Time>>,
    /// Live: least and greatest playback rate with which playback returns to that latency.
    #[serde(default = "default_rates")]
    pub playback_rate: [f64; 2],
    /// Adaptation rule, by the name that `mpq play --abr` takes.
    #[serde(default = "default_abr")]
    pub abr: String,
    /// Fetching pauses above this much buffer.
    #[serde(default = "default_goal")]
    pub buffer_goal: Text<Time>,
    /// The same while the last segment was of the top level: 30 s, or `buffer_goal` if that is
    /// more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_goal_at_top: Option<Text<Time>>,
    /// Level of the first segment, 0 the lowest; without it the rule chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_level: Option<usize>,
    /// Segments of each track before playback starts.
    #[serde(default = "one_segment")]
    pub startup_segments: usize,
    /// Segments of each track before playback goes on after a stall.
    #[serde(default = "one_segment")]
    pub resume_segments: usize,
    /// Whether requests tell the server of buffer, deadline and stalls, as `mpq play --cmcd header`
    /// does.
    #[serde(default)]
    pub cmcd: bool,
    /// Size of the MPD, which is asked for first.
    #[serde(default = "default_mpd")]
    pub mpd: Text<Size>,
    /// Size of an initialisation segment, which comes before the first segment of each level.
    #[serde(default = "default_init")]
    pub init: Text<Size>,
}

/// Segments of a live presentation that have been made when the run begins.
const MADE_SEGMENTS: u32 = 30;

/// What `mpq play` has where it is not told.
fn goal_at_top() -> Duration {
    player::Config::default().buffer_goal_at_top
}

impl Dash {
    /// The presentation, by way of an MPD as a packager would write it.
    pub(crate) fn presentation(&self) -> Result<Presentation, String> {
        let offset = self.chunk.as_ref().map_or_else(String::new, |chunk| {
            let offset = self.segment.value.0.saturating_sub(chunk.value.0);
            let (seconds, ns) = (offset.as_secs(), offset.subsec_nanos());
            format!(" availabilityTimeOffset=\"{seconds}.{ns:09}\"")
        });
        let template = format!(
            "<SegmentTemplate timescale=\"1000000000\" duration=\"{}\"{offset} \
             initialization=\"$RepresentationID$-init.mp4\" \
             media=\"$RepresentationID$-$Number$.m4s\"/>",
            self.segment.value.0.as_nanos()
        );
        let set = |kind: &str, rates: &[Text<Rate>]| {
            let representations: String = rates
                .iter()
                .map(|rate| rate.value.bits_per_second())
                .map(|bps| format!("<Representation id=\"{kind}-{bps}\" bandwidth=\"{bps}\"/>"))
                .collect();
            format!(
                "<AdaptationSet contentType=\"{kind}\">{template}{representations}</AdaptationSet>"
            )
        };
        let audio = self.audio.as_ref().map(std::slice::from_ref);
        let (length, kind) = match self.live {
            true => (
                self.length.value.0 + self.made(),
                " type=\"dynamic\" availabilityStartTime=\"1970-01-01T00:00:00Z\"",
            ),
            false => (self.length.value.0, ""),
        };
        let document = format!(
            "<MPD{kind} mediaPresentationDuration=\"PT{}.{:09}S\"><Period>{}{}</Period></MPD>",
            length.as_secs(),
            length.subsec_nanos(),
            set("video", &self.video),
            audio.map_or_else(String::new, |rates| set("audio", rates)),
        );
        let url = Url::parse("https://server/stream.mpd").map_err(|e| e.to_string())?;
        Presentation::parse(document.as_bytes(), &url).map_err(|e| e.to_string())
    }

    /// Live: length of what has been made when the run begins.
    fn made(&self) -> Duration {
        self.segment.value.0 * MADE_SEGMENTS
    }

    /// What the player of a flow that begins `start` after the run is told.
    pub(crate) fn player_config(&self, start: Duration) -> player::Config {
        let goal = self.buffer_goal.value.0;
        let at_top = self.buffer_goal_at_top.as_ref();
        player::Config {
            buffer_goal: goal,
            buffer_goal_at_top: at_top.map_or(goal.max(goal_at_top()), |goal| goal.value.0),
            start_level: self.start_level,
            startup_segments: self.startup_segments,
            resume_segments: self.resume_segments,
            wall_clock: self.live.then(|| self.made() + start),
            target_latency: self.target_latency.as_ref().map(|latency| latency.value.0),
            playback_rate: Some((self.playback_rate[0], self.playback_rate[1])),
            ..player::Config::default()
        }
    }

    /// What the types cannot say: the key and the problem.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let ensure = |holds: bool, key, message: &str| match holds {
            true => Ok(()),
            false => Err((key, message.to_owned())),
        };
        let is_ladder = self
            .video
            .windows(2)
            .all(|pair| pair[0].value < pair[1].value);
        ensure(
            !self.video.is_empty() && is_ladder,
            "video",
            "video: one rate for each level, the lowest first, for example \
             [\"1 Mbit/s\", \"3 Mbit/s\"]",
        )?;
        for (key, time) in [
            ("segment", &self.segment),
            ("length", &self.length),
            ("buffer_goal", &self.buffer_goal),
        ] {
            let message = format!("{key}: at least \"1 ms\"");
            ensure(time.value.0 >= Duration::from_millis(1), key, &message)?;
        }
        ensure(
            self.live || (self.chunk.is_none() && self.target_latency.is_none()),
            "live",
            "chunk and target_latency: for live = true only",
        )?;
        if let Some(chunk) = self.chunk.as_ref().map(|chunk| chunk.value.0.as_nanos()) {
            let segment = self.segment.value.0.as_nanos();
            ensure(
                chunk >= 1_000_000 && chunk < segment && segment.is_multiple_of(chunk),
                "chunk",
                "chunk: at least \"1 ms\", less than segment, and segment a multiple of it",
            )?;
        }
        let latency = self.target_latency.as_ref();
        ensure(
            latency.is_none_or(|latency| {
                (Duration::from_millis(1)..=self.made()).contains(&latency.value.0)
            }),
            "target_latency",
            "target_latency: from \"1 ms\" to 30 segments",
        )?;
        let [least, most] = self.playback_rate;
        ensure(
            (0.5..=1.0).contains(&least) && (1.0..=2.0).contains(&most),
            "playback_rate",
            "playback_rate: [MIN, MAX], MIN from 0.5 to 1 and MAX from 1 to 2",
        )?;
        let at_top = self.buffer_goal_at_top.as_ref();
        ensure(
            at_top.is_none_or(|goal| goal.value >= self.buffer_goal.value),
            "buffer_goal_at_top",
            "buffer_goal_at_top: at least buffer_goal",
        )?;
        ensure(
            self.start_level
                .is_none_or(|level| level < self.video.len()),
            "start_level",
            "start_level: there is no such level; 0 is the lowest",
        )?;
        for (key, segments) in [
            ("startup_segments", self.startup_segments),
            ("resume_segments", self.resume_segments),
        ] {
            ensure(segments >= 1, key, &format!("{key}: at least 1"))?;
        }
        mpq_dash::abr::choose(&self.abr).map_err(|e| ("abr", e.to_string()))?;
        self.presentation().map(drop).map_err(|e| ("length", e))
    }
}

fn default_abr() -> String {
    "rate".into()
}

fn default_goal() -> Text<Time> {
    text("18 s")
}

fn default_rates() -> [f64; 2] {
    [0.95, 1.05]
}

fn one_segment() -> usize {
    1
}

fn default_mpd() -> Text<Size> {
    text("2 kB")
}

fn default_init() -> Text<Size> {
    text("1 kB")
}
