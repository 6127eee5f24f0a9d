//! Which segments a Representation has: SegmentTemplate, SegmentList, SegmentBase and their
//! inheritance from AdaptationSet and Period (ISO/IEC 23009-1, 5.3.9).

use std::cell::Cell;
use std::time::Duration;

use url::Url;

use super::duration::from_ticks;
use super::error::{MpdError, Problem};
use super::template::{Template, Values};
use super::xml::Element;
use super::{ByteRange, Resource, Segment};

/// Most segments accepted for one Representation.
pub(super) const MAX_SEGMENTS: u64 = 1_000_000;

/// Most memory for what Representations copy or inherit, bytes. A long list or URL on an
/// AdaptationSet counts once for every Representation below it.
const MAX_EXPANDED_BYTES: usize = 64 << 20;

/// Most Representations in a document. Each looks through the elements it may inherit from, so this
/// bounds time as well.
const MAX_REPRESENTATIONS: usize = 1_000;

/// What a document may still use up.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: Cell<usize>,
    representations: Cell<usize>,
}

impl Budget {
    pub fn new() -> Self {
        Self {
            bytes: Cell::new(MAX_EXPANDED_BYTES),
            representations: Cell::new(MAX_REPRESENTATIONS),
        }
    }

    /// Takes one Representation with `bytes` of its own.
    pub fn charge_representation(&self, element: &Element, bytes: usize) -> Result<(), MpdError> {
        let left = self.representations.get().checked_sub(1).ok_or_else(|| {
            element.error(Problem::TooLarge {
                what: "number of representations",
                limit: MAX_REPRESENTATIONS as u64,
            })
        })?;
        self.representations.set(left);
        self.charge(element, bytes)
    }

    /// Takes `bytes` for something that `element` is about to hold.
    pub fn charge(&self, element: &Element, bytes: usize) -> Result<(), MpdError> {
        let left = self.bytes.get().checked_sub(bytes).ok_or_else(|| {
            element.error(Problem::TooLarge {
                what: "memory for segment lists in bytes",
                limit: MAX_EXPANDED_BYTES as u64,
            })
        })?;
        self.bytes.set(left);
        Ok(())
    }
}

/// The Representation whose segments are asked for.
pub(super) struct Place<'a> {
    /// From the Representation outwards to the Period.
    pub levels: [&'a Element; 3],
    /// Its resolved BaseURL.
    pub base: &'a Url,
    /// Length of the Period.
    pub period: Duration,
    /// A live one without a known end, which has segments without a number.
    pub is_open: bool,
    pub id: &'a str,
    pub bandwidth_bps: u64,
    pub budget: &'a Budget,
}

/// When the segments of a Representation start and how long they last.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Timing {
    /// Equal durations, the last one cut at the end of the Period.
    Equal {
        ticks: u64,
        timescale: u64,
        count: u64,
        period: Duration,
    },
    /// A SegmentTimeline, run by run, so memory follows the document and not its promises.
    Timeline {
        runs: Vec<Run>,
        timescale: u64,
        /// `presentationTimeOffset`: the media time at the start of the Period, ticks.
        offset: u64,
    },
}

/// One `S` element.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    first_index: u64,
    count: u64,
    time: u64,
    ticks: u64,
}

/// Start and duration of a segment, and its media time in ticks for `$Time$`.
struct When {
    start: Duration,
    duration: Duration,
    time: u64,
}

impl Timing {
    pub fn count(&self) -> u64 {
        match self {
            Self::Equal { count, .. } => *count,
            Self::Timeline { runs, .. } => runs.last().map_or(0, |run| run.first_index + run.count),
        }
    }

    /// The first segment that does not end by `time` on the Period's clock, or the last one.
    fn index_at(&self, time: Duration) -> u64 {
        let ticks_in = |timescale: u64| {
            let ticks = time.as_nanos() * u128::from(timescale) / 1_000_000_000;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        let last = self.count().saturating_sub(1);
        let index = match self {
            Self::Equal {
                ticks, timescale, ..
            } => ticks_in(*timescale) / ticks,
            Self::Timeline {
                runs,
                timescale,
                offset,
            } => {
                let tick = ticks_in(*timescale).saturating_add(*offset);
                let next = runs.partition_point(|run| run.time <= tick);
                match next.checked_sub(1) {
                    None => 0,
                    Some(at) => {
                        let within = ((tick - runs[at].time) / runs[at].ticks).min(runs[at].count);
                        runs[at].first_index + within
                    }
                }
            }
        };
        index.min(last)
    }

    fn when(&self, index: u64) -> Option<When> {
        if index >= self.count() {
            return None;
        }
        let (first_tick, ticks, timescale, end_limit, time) = match self {
            Self::Equal {
                ticks,
                timescale,
                count,
                period,
            } => {
                let first_tick = u128::from(index) * u128::from(*ticks);
                let limit = (index + 1 == *count).then_some(*period);
                (first_tick, *ticks, *timescale, limit, first_tick as u64)
            }
            Self::Timeline {
                runs,
                timescale,
                offset,
            } => {
                let run = &runs[runs.partition_point(|run| run.first_index <= index) - 1];
                // Cannot overflow: `timeline` checked the end of every run.
                let time = run.time + (index - run.first_index) * run.ticks;
                let first_tick = u128::from(time.saturating_sub(*offset));
                (first_tick, run.ticks, *timescale, None, time)
            }
        };
        let start = from_ticks(first_tick, timescale);
        let mut end = from_ticks(first_tick + u128::from(ticks), timescale);
        if let Some(limit) = end_limit {
            end = end.min(limit);
        }
        Some(When {
            start,
            duration: end.saturating_sub(start),
            time,
        })
    }
}

/// Where the media of a Representation is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Media {
    /// One URL per segment, from a template.
    Template {
        base: Url,
        template: Template,
        first_number: u64,
        timing: Timing,
    },
    /// One resource per segment, listed.
    List {
        resources: Vec<Resource>,
        timing: Timing,
    },
    /// One file with a segment index (`sidx`) that has to be fetched first.
    Indexed { file: Url, index: ByteRange },
    /// One file whose index is known: range, start and duration of every segment.
    Ranges {
        file: Url,
        segments: Vec<(ByteRange, Duration, Duration)>,
    },
}

impl Media {
    pub fn count(&self) -> Option<u64> {
        match self {
            Self::Template { timing, .. } | Self::List { timing, .. } => Some(timing.count()),
            Self::Indexed { .. } => None,
            Self::Ranges { segments, .. } => Some(segments.len() as u64),
        }
    }

    /// See [`super::Representation::index_at`].
    pub fn index_at(&self, time: Duration) -> u64 {
        match self {
            Self::Template { timing, .. } | Self::List { timing, .. } => timing.index_at(time),
            Self::Indexed { .. } => 0,
            Self::Ranges { segments, .. } => {
                let index = segments.partition_point(|(_, start, length)| *start + *length <= time);
                (index as u64).min(segments.len().saturating_sub(1) as u64)
            }
        }
    }

    pub fn segment(&self, id: &str, bandwidth_bps: u64, index: u64) -> Option<Segment> {
        let (resource, start, duration) = match self {
            Self::Template {
                base,
                template,
                first_number,
                timing,
            } => {
                let when = timing.when(index)?;
                let url = base
                    .join(&template.expand(Values {
                        representation_id: id,
                        bandwidth_bps,
                        number: first_number + index,
                        time: when.time,
                    }))
                    .ok()?;
                (Resource { url, range: None }, when.start, when.duration)
            }
            Self::List { resources, timing } => {
                let when = timing.when(index)?;
                let resource = resources.get(usize::try_from(index).ok()?)?.clone();
                (resource, when.start, when.duration)
            }
            Self::Indexed { .. } => return None,
            Self::Ranges { file, segments } => {
                let &(range, start, duration) = segments.get(usize::try_from(index).ok()?)?;
                let resource = Resource {
                    url: file.clone(),
                    range: Some(range),
                };
                (resource, start, duration)
            }
        };
        Some(Segment {
            index,
            start,
            duration,
            resource,
        })
    }
}

/// The elements of one addressing scheme from Representation out to Period. An attribute of an
/// inner one overrides that of an outer one.
struct Inherited<'a> {
    chain: Vec<&'a Element>,
}

impl<'a> Inherited<'a> {
    /// `levels` runs from the Representation outwards.
    fn of(levels: &[&'a Element], tag: &'static str) -> Option<Self> {
        let chain: Vec<_> = levels.iter().filter_map(|level| level.first(tag)).collect();
        (!chain.is_empty()).then_some(Self { chain })
    }

    fn inner(&self) -> &'a Element {
        self.chain[0]
    }

    fn get(&self, name: &str) -> Option<(&'a Element, &'a str)> {
        self.chain
            .iter()
            .find_map(|element| element.get(name).map(|value| (*element, value)))
    }

    fn number(&self, name: &'static str) -> Result<Option<u64>, MpdError> {
        for element in &self.chain {
            if let Some(value) = element.number(name)? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    fn child(&self, tag: &'static str) -> Option<&'a Element> {
        self.chain.iter().find_map(|element| element.first(tag))
    }

    fn timescale(&self) -> Result<u64, MpdError> {
        match self.number("timescale")? {
            Some(0) => Err(self.inner().invalid("timescale", "0", "a positive integer")),
            scale => Ok(scale.unwrap_or(1)),
        }
    }

    /// Timing from `SegmentTimeline` or `duration`; `listed` is the length of a SegmentList.
    fn timing(&self, place: &Place<'_>, listed: Option<u64>) -> Result<Timing, MpdError> {
        let timescale = self.timescale()?;
        let period = place.period;
        if let Some(timeline) = self.child("SegmentTimeline") {
            let offset = self.number("presentationTimeOffset")?.unwrap_or(0);
            let end = (period.as_nanos() * u128::from(timescale))
                .div_ceil(1_000_000_000)
                .saturating_add(u128::from(offset));
            let bytes = timeline.children.len() * size_of::<Run>();
            place.budget.charge(timeline, bytes)?;
            return Ok(Timing::Timeline {
                runs: runs(timeline, end, place.is_open)?,
                timescale,
                offset,
            });
        }
        let (ticks, count) = match (self.number("duration")?, listed) {
            (Some(0), _) => {
                return Err(self.inner().invalid("duration", "0", "a positive integer"));
            }
            (Some(ticks), listed) => {
                // A rest below 1 ms is rounding in the document, not a segment.
                let nanos = period.as_nanos().saturating_sub(1_000_000);
                let segment = u128::from(ticks) * 1_000_000_000;
                let fitting = (nanos * u128::from(timescale)).div_ceil(segment).max(1);
                let fitting = u64::try_from(fitting).unwrap_or(u64::MAX);
                (ticks, listed.map_or(fitting, |listed| listed.min(fitting)))
            }
            // One listed segment needs no duration: it is the whole Period.
            (None, Some(1)) => {
                let ticks = period.as_nanos() * u128::from(timescale) / 1_000_000_000;
                (u64::try_from(ticks).unwrap_or(u64::MAX), 1)
            }
            (None, _) => {
                return Err(self.inner().error(Problem::MissingAttribute("duration")));
            }
        };
        let count = match (self.number("endNumber")?, self.first_number()?) {
            (Some(last), first) if last < first => 0,
            (Some(last), first) => count.min((last - first).saturating_add(1)),
            (None, _) => count,
        };
        check_count(self.inner(), count, place.is_open)?;
        Ok(Timing::Equal {
            ticks,
            timescale,
            count,
            period,
        })
    }

    fn first_number(&self) -> Result<u64, MpdError> {
        let number = self.number("startNumber")?.unwrap_or(1);
        if number > u64::from(u32::MAX) {
            return Err(self.inner().error(Problem::TooLarge {
                what: "startNumber",
                limit: u32::MAX.into(),
            }));
        }
        Ok(number)
    }
}

/// A Period without an end promises segments without a number, which cost nothing.
fn check_count(element: &Element, count: u64, is_open: bool) -> Result<(), MpdError> {
    match count {
        0 => Err(element.error(Problem::MissingElement("at least one segment"))),
        _ if count > MAX_SEGMENTS && !is_open => Err(element.error(Problem::TooLarge {
            what: "number of segments",
            limit: MAX_SEGMENTS,
        })),
        _ => Ok(()),
    }
}

/// The runs of a SegmentTimeline; `period_end` closes a last `S` with a negative `r`, in ticks.
fn runs(timeline: &Element, period_end: u128, is_open: bool) -> Result<Vec<Run>, MpdError> {
    let entries: Vec<&Element> = timeline.all("S").collect();
    let mut runs: Vec<Run> = Vec::with_capacity(entries.len());
    let (mut next_time, mut next_index) = (0u64, 0u64);
    for (position, entry) in entries.iter().enumerate() {
        let ticks = match entry.number("d")? {
            None => return Err(entry.error(Problem::MissingAttribute("d"))),
            Some(0) => return Err(entry.invalid("d", "0", "a positive integer")),
            Some(ticks) => ticks,
        };
        let time = entry.number("t")?.unwrap_or(next_time);
        if runs.last().is_some_and(|last| time < last.time) {
            return Err(entry.invalid("t", &time.to_string(), "a time after the previous S"));
        }
        let repeat: i64 = match entry.get("r") {
            None => 0,
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| entry.invalid("r", text, "an integer"))?,
        };
        let count = match u64::try_from(repeat) {
            Ok(repeat) => repeat.saturating_add(1),
            // Negative: repeat until the next S that says its time, or the end of the Period.
            Err(_) => {
                let end = match entries.get(position + 1) {
                    None => period_end,
                    Some(next) => match next.number("t")? {
                        Some(time) => u128::from(time),
                        None => return Err(next.error(Problem::MissingAttribute("t"))),
                    },
                };
                let span = end.saturating_sub(u128::from(time));
                u64::try_from(span.div_ceil(u128::from(ticks))).unwrap_or(u64::MAX)
            }
        };
        check_count(entry, next_index.saturating_add(count), is_open)?;
        let end = count
            .checked_mul(ticks)
            .and_then(|span| span.checked_add(time));
        let Some(end) = end else {
            return Err(entry.error(Problem::TooLarge {
                what: "segment time in ticks",
                limit: u64::MAX,
            }));
        };
        if count > 0 {
            runs.push(Run {
                first_index: next_index,
                count,
                time,
                ticks,
            });
        }
        next_index += count;
        next_time = end;
    }
    check_count(timeline, next_index, is_open)?;
    Ok(runs)
}

/// `availabilityTimeOffset` of a BaseURL or an addressing scheme; [`Duration::MAX`] for `INF`.
pub(super) fn availability_offset(element: &Element) -> Result<Duration, MpdError> {
    const NAME: &str = "availabilityTimeOffset";
    const FORM: &str = "seconds of at least 0, or INF";
    let Some(text) = element.get(NAME) else {
        return Ok(Duration::ZERO);
    };
    match text.trim() {
        "INF" => Ok(Duration::MAX),
        text => text
            .parse()
            .ok()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .ok_or_else(|| element.invalid(NAME, text, FORM)),
    }
}

/// Init segment and media of a Representation, and what its addressing scheme adds to the
/// availabilityTimeOffset.
pub(super) fn of_representation(
    place: &Place<'_>,
) -> Result<(Option<Resource>, Media, Duration), MpdError> {
    let levels = &place.levels;
    // The scheme named closest to the Representation counts.
    let scheme = levels.iter().find_map(|level| {
        ["SegmentTemplate", "SegmentList", "SegmentBase"]
            .into_iter()
            .find(|tag| level.first(tag).is_some())
    });
    let inherited = scheme.and_then(|tag| Inherited::of(levels, tag));
    let (init, media) = match (scheme, &inherited) {
        (Some("SegmentTemplate"), Some(it)) => template(it, place)?,
        (Some("SegmentList"), Some(it)) => list(it, place)?,
        (Some("SegmentBase"), Some(it)) => single_file(it, place)?,
        _ => (None, whole_file(place)),
    };
    // A template may name a host that is no host; find out now rather than in mid-play.
    if let Some(count) = media.count() {
        for index in [0, count - 1] {
            if media
                .segment(place.id, place.bandwidth_bps, index)
                .is_none()
            {
                let at = inherited.as_ref().map_or(levels[0], |it| it.inner());
                return Err(at.invalid("media", place.id, "a URL for every segment"));
            }
        }
    }
    let holder = inherited
        .as_ref()
        .and_then(|it| it.get("availabilityTimeOffset"));
    let offset = holder.map_or(Ok(Duration::ZERO), |(element, _)| {
        availability_offset(element)
    })?;
    Ok((init, media, offset))
}

fn template(it: &Inherited<'_>, place: &Place<'_>) -> Result<(Option<Resource>, Media), MpdError> {
    const FORM: &str = "a template of $RepresentationID$, $Number$, $Time$, $Bandwidth$ and $$";
    let (element, text) = it
        .get("media")
        .ok_or_else(|| it.inner().error(Problem::MissingAttribute("media")))?;
    place.budget.charge(element, text.len())?;
    let media = Template::parse(text).ok_or_else(|| element.invalid("media", text, FORM))?;
    let first_number = it.first_number()?;
    let timing = it.timing(place, None)?;
    if !media.names_a_segment() && timing.count() > 1 {
        return Err(element.invalid("media", text, "$Number$ or $Time$ in it"));
    }
    let init = match it.get("initialization") {
        None => None,
        Some((element, text)) => {
            let init = Template::parse(text)
                .filter(|template| !template.names_a_segment())
                .ok_or_else(|| element.invalid("initialization", text, FORM))?;
            let text = init.expand(Values {
                representation_id: place.id,
                bandwidth_bps: place.bandwidth_bps,
                number: 0,
                time: 0,
            });
            let url = super::resolve(element, "initialization", place.base, &text)?;
            Some(Resource { url, range: None })
        }
    };
    Ok((
        init,
        Media::Template {
            base: place.base.clone(),
            template: media,
            first_number,
            timing,
        },
    ))
}

fn list(it: &Inherited<'_>, place: &Place<'_>) -> Result<(Option<Resource>, Media), MpdError> {
    let holder = it
        .chain
        .iter()
        .find(|element| element.first("SegmentURL").is_some())
        .ok_or_else(|| it.inner().error(Problem::MissingElement("<SegmentURL>")))?;
    let mut resources = Vec::new();
    for entry in holder.all("SegmentURL") {
        resources.push(resource(entry, "media", "mediaRange", place)?);
    }
    let timing = it.timing(place, Some(resources.len() as u64))?;
    if timing.count() > resources.len() as u64 {
        return Err(it
            .inner()
            .error(Problem::MissingElement("a <SegmentURL> for every S")));
    }
    let init = it
        .child("Initialization")
        .map(|init| resource(init, "sourceURL", "range", place))
        .transpose()?;
    Ok((init, Media::List { resources, timing }))
}

fn single_file(
    it: &Inherited<'_>,
    place: &Place<'_>,
) -> Result<(Option<Resource>, Media), MpdError> {
    let init = it
        .child("Initialization")
        .map(|init| resource(init, "sourceURL", "range", place))
        .transpose()?;
    let Some((element, text)) = it.get("indexRange") else {
        return Ok((init, whole_file(place)));
    };
    let index = ByteRange::parse(text)
        .ok_or_else(|| element.invalid("indexRange", text, "bytes first-last"))?;
    // Without an Initialization the header is whatever precedes the index.
    let init = init.or_else(|| {
        let last = index.first.checked_sub(1)?;
        Some(Resource {
            url: place.base.clone(),
            range: Some(ByteRange { first: 0, last }),
        })
    });
    Ok((
        init,
        Media::Indexed {
            file: place.base.clone(),
            index,
        },
    ))
}

fn whole_file(place: &Place<'_>) -> Media {
    let period = place.period;
    Media::List {
        resources: vec![Resource {
            url: place.base.clone(),
            range: None,
        }],
        timing: Timing::Equal {
            ticks: period.as_nanos() as u64,
            timescale: 1_000_000_000,
            count: 1,
            period,
        },
    }
}

fn resource(
    element: &Element,
    url_name: &'static str,
    range_name: &'static str,
    place: &Place<'_>,
) -> Result<Resource, MpdError> {
    let reference = element.get(url_name);
    let url_bytes = place.base.as_str().len() + reference.map_or(0, str::len);
    place
        .budget
        .charge(element, size_of::<Resource>() + url_bytes)?;
    let url = match reference {
        Some(text) => super::resolve(element, url_name, place.base, text)?,
        None => place.base.clone(),
    };
    let range = element
        .get(range_name)
        .map(|text| {
            ByteRange::parse(text)
                .ok_or_else(|| element.invalid(range_name, text, "bytes first-last"))
        })
        .transpose()?;
    Ok(Resource { url, range })
}
