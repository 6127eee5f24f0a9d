//! Media Presentation Descriptions: the subset of ISO/IEC 23009-1 that ffmpeg's dash muxer writes
//! and that on-demand and live content in the wild uses.
//!
//! Read: Periods, audio and video AdaptationSets, BaseURL at every level, SegmentTemplate with
//! `duration` or SegmentTimeline, SegmentList, SegmentBase with `indexRange`; of live ones what
//! [`Live`] has. Segment URLs are computed when asked for, so memory follows the size of the
//! document and not the number of segments it promises. Subtitles, thumbnails and AdaptationSets
//! with an EssentialProperty (trick modes, for instance) are passed over.

mod date;
mod duration;
mod error;
mod live;
mod segments;
mod template;
mod xml;

use std::fmt;
use std::time::Duration;

use url::Url;

pub use self::error::{ElementName, MpdError, Problem};
pub use self::live::{read_clock, Clock, Live};
use self::segments::{Budget, Media, Place};
use self::xml::Element;
use crate::isobmff::{self, SidxError};

/// Most BaseURLs of a Representation that are told apart.
const MAX_BASES: usize = 8;

/// A parsed MPD.
#[derive(Debug, Clone, PartialEq)]
pub struct Presentation {
    /// Where it came from; relative URLs were resolved against it.
    pub url: Url,
    /// Length of the media; a hundred years if it is live and its end is not known.
    pub duration: Duration,
    /// What only a live one has.
    pub live: Option<Live>,
    /// In order of their start; never empty.
    pub periods: Vec<Period>,
}

/// A stretch of the presentation with one set of encodings.
#[derive(Debug, Clone, PartialEq)]
pub struct Period {
    /// Start on the presentation's clock.
    pub start: Duration,
    /// Length.
    pub duration: Duration,
    /// Audio and video, in document order.
    pub adaptation_sets: Vec<AdaptationSet>,
}

impl Period {
    /// The first AdaptationSet of a kind, which is the default one.
    pub fn first(&self, kind: MediaKind) -> Option<&AdaptationSet> {
        self.adaptation_sets.iter().find(|set| set.kind == kind)
    }
}

/// What an AdaptationSet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
}

impl fmt::Display for MediaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Video => "video",
            Self::Audio => "audio",
        })
    }
}

/// Encodings of the same content, one of which plays at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptationSet {
    /// Audio or video.
    pub kind: MediaKind,
    /// BCP 47 language, if declared.
    pub lang: Option<String>,
    /// By ascending `bandwidth_bps`; never empty. All known segment counts are equal.
    pub representations: Vec<Representation>,
}

/// One encoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Representation {
    /// Its `id`.
    pub id: String,
    /// Declared rate, bit/s.
    pub bandwidth_bps: u64,
    /// Picture width, pixels.
    pub width: Option<u32>,
    /// Picture height, pixels.
    pub height: Option<u32>,
    /// Frames per second.
    pub frame_rate: Option<f64>,
    /// RFC 6381 codecs string.
    pub codecs: Option<String>,
    /// What a decoder needs before the first segment.
    pub init: Option<Resource>,
    /// So long before its end a segment may be asked for while it is being made;
    /// [`Duration::MAX`]: at any time.
    pub availability_offset: Duration,
    /// What its URLs are relative to, the preferred one first; never empty.
    pub bases: Vec<Url>,
    media: Media,
}

/// Something to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// Absolute `http` or `https` URL.
    pub url: Url,
    /// The part of it that is meant; `None` is all of it.
    pub range: Option<ByteRange>,
}

/// Bytes `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, inclusive; at least `first`.
    pub last: u64,
}

impl ByteRange {
    /// Parses `first-last`.
    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(Self { first, last })
    }

    /// Number of bytes.
    pub fn byte_count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// The value of an HTTP `Range` header: `bytes=0-99`.
impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bytes={}-{}", self.first, self.last)
    }
}

/// One media segment of a Representation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Counted from 0 within the Period.
    pub index: u64,
    /// Start on the Period's clock.
    pub start: Duration,
    /// Length of the media in it.
    pub duration: Duration,
    /// Where it is.
    pub resource: Resource,
}

impl Representation {
    /// The first segment of the Period that does not end by `time` on the Period's clock, counted
    /// from 0; the last one if all do, 0 while the segments are not known.
    pub fn index_at(&self, time: Duration) -> u64 {
        self.media.index_at(time)
    }

    /// Length of the chunks in which segments are made and sent, if they can be asked for early:
    /// what is made of a segment when it becomes available.
    pub fn chunk(&self) -> Option<Duration> {
        let length = self.segment(0)?.duration;
        let offset = self.availability_offset;
        (!offset.is_zero() && offset < length).then(|| length - offset)
    }

    /// The same resource below another BaseURL: `attempt` counts through [`Self::bases`] and begins
    /// anew after the last. `url` itself if it is not below any of them.
    pub fn elsewhere(&self, url: &Url, attempt: usize) -> Url {
        let base = &self.bases[attempt % self.bases.len()];
        let below = |from: &Url| {
            let relative = from.make_relative(url)?;
            (!relative.starts_with("..")).then_some(relative)
        };
        let relative = self.bases.iter().find_map(below);
        relative
            .and_then(|relative| base.join(&relative).ok())
            .unwrap_or_else(|| url.clone())
    }

    /// Number of segments; `None` until [`Self::resolve_index`] when they are listed in the file.
    pub fn segment_count(&self) -> Option<u64> {
        self.media.count()
    }

    /// The segment with this index within the Period; `None` past the end or before the index is
    /// resolved.
    pub fn segment(&self, index: u64) -> Option<Segment> {
        self.media.segment(&self.id, self.bandwidth_bps, index)
    }

    /// The segment index to fetch and pass to [`Self::resolve_index`] first, if there is one.
    pub fn unresolved_index(&self) -> Option<Resource> {
        match &self.media {
            Media::Indexed { file, index } => Some(Resource {
                url: file.clone(),
                range: Some(*index),
            }),
            _ => None,
        }
    }

    /// Takes the bytes of [`Self::unresolved_index`]; afterwards the segments are known.
    ///
    /// Does nothing when there is no index to resolve.
    pub fn resolve_index(&mut self, bytes: &[u8]) -> Result<(), SidxError> {
        if let Media::Indexed { file, index } = &self.media {
            let segments = isobmff::sidx(bytes, index.first, segments::MAX_SEGMENTS as usize)?;
            self.media = Media::Ranges {
                file: file.clone(),
                segments,
            };
        }
        Ok(())
    }
}

impl Presentation {
    /// Parses an MPD that was fetched from `url`.
    ///
    /// Never panics, and uses memory proportional to the document, whatever its bytes. Errors name
    /// the line, the element and the problem.
    pub fn parse(document: &[u8], url: &Url) -> Result<Self, MpdError> {
        let root = xml::parse(document)?;
        let is_live = match root.get("type") {
            None | Some("static") => false,
            Some("dynamic") => true,
            Some(other) => return Err(root.invalid("type", other, "static or dynamic")),
        };
        let mut total = length(&root, "mediaPresentationDuration")?;
        let has_end = total.is_some() || !is_live;
        if !has_end {
            total = Some(duration::OPEN);
        }
        let live = match is_live {
            true => Some(Live::of(&root, url, has_end)?),
            false => None,
        };
        let bases = base_urls(&root, std::slice::from_ref(url))?;

        let elements: Vec<&Element> = root.all("Period").collect();
        let budget = Budget::new();
        let mut periods: Vec<Period> = Vec::with_capacity(elements.len());
        for (position, element) in elements.iter().enumerate() {
            if element.get("href").is_some() {
                return Err(element.error(Problem::Unsupported("a remote Period (xlink:href)")));
            }
            let previous_end = periods.last().map(|last| last.start + last.duration);
            let start = match length(element, "start")? {
                Some(start) => start,
                None => previous_end.unwrap_or_default(),
            };
            if previous_end.is_some_and(|end| start < end) {
                let text = element.get("start").unwrap_or_default();
                return Err(element.invalid("start", text, "a time after the previous Period"));
            }
            let next_start = match elements.get(position + 1) {
                Some(next) => length(next, "start")?,
                None => total,
            };
            let duration = length(element, "duration")?
                .or_else(|| next_start.and_then(|next| next.checked_sub(start)))
                .filter(|duration| !duration.is_zero());
            let Some(duration) = duration else {
                return Err(element.error(Problem::MissingAttribute(
                    if position + 1 == elements.len() {
                        "mediaPresentationDuration"
                    } else {
                        "duration"
                    },
                )));
            };
            let place = PeriodPlace {
                bases: &bases,
                offset: availability_offset(&root)?,
                budget: &budget,
                duration,
                is_open: !has_end && position + 1 == elements.len(),
            };
            periods.push(period(element, place, start)?);
        }
        let Some(last) = periods.last() else {
            return Err(root.error(Problem::MissingElement("<Period>")));
        };
        let duration = last.start + last.duration;
        if has_end && duration > duration::MAX_DURATION {
            return Err(root.error(Problem::TooLarge {
                what: "duration in seconds",
                limit: duration::MAX_DURATION.as_secs(),
            }));
        }
        Ok(Self {
            url: url.clone(),
            duration,
            live,
            periods,
        })
    }
}

/// What the parts of a Period have from outside.
#[derive(Clone, Copy)]
struct PeriodPlace<'a> {
    bases: &'a [Url],
    /// availabilityTimeOffset so far.
    offset: Duration,
    budget: &'a Budget,
    duration: Duration,
    /// A live one without a known end.
    is_open: bool,
}

fn period(
    element: &Element,
    outside: PeriodPlace<'_>,
    start: Duration,
) -> Result<Period, MpdError> {
    let place = PeriodPlace {
        bases: &base_urls(element, outside.bases)?,
        offset: outside.offset.saturating_add(availability_offset(element)?),
        ..outside
    };
    let mut adaptation_sets = Vec::new();
    for set in element.all("AdaptationSet") {
        let Some(kind) = kind(set) else {
            continue;
        };
        // 5.8.4.8: an EssentialProperty that is not understood makes its parent unusable.
        if set.first("EssentialProperty").is_some() {
            continue;
        }
        adaptation_sets.push(adaptation_set([set, element], kind, place)?);
    }
    if adaptation_sets.is_empty() {
        return Err(element.error(Problem::MissingElement("an audio or video <AdaptationSet>")));
    }
    Ok(Period {
        start,
        duration: place.duration,
        adaptation_sets,
    })
}

/// From contentType, else mimeType, here or on a part of the set.
fn kind(set: &Element) -> Option<MediaKind> {
    let parts = || set.all("ContentComponent").chain(set.all("Representation"));
    let declared = |name| {
        set.get(name)
            .or_else(|| parts().find_map(|part| part.get(name)))
    };
    let text = declared("contentType").or_else(|| declared("mimeType"))?;
    match text.split('/').next() {
        Some("video") => Some(MediaKind::Video),
        Some("audio") => Some(MediaKind::Audio),
        _ => None,
    }
}

/// `levels` runs from the AdaptationSet outwards.
fn adaptation_set(
    levels: [&Element; 2],
    kind: MediaKind,
    outside: PeriodPlace<'_>,
) -> Result<AdaptationSet, MpdError> {
    let [set, period] = levels;
    let place = PeriodPlace {
        bases: &base_urls(set, outside.bases)?,
        offset: outside.offset.saturating_add(availability_offset(set)?),
        ..outside
    };
    let mut known = None;
    let mut representations: Vec<Representation> = Vec::new();
    for element in set.all("Representation") {
        if element.first("EssentialProperty").is_some() {
            continue;
        }
        let representation = representation([element, set, period], place)?;
        if let Some(count) = representation.segment_count() {
            let known = *known.get_or_insert(count);
            if count != known {
                return Err(element.error(Problem::Unaligned(known, count)));
            }
        }
        representations.push(representation);
    }
    if representations.is_empty() {
        return Err(set.error(Problem::MissingElement("<Representation>")));
    }
    representations.sort_by_key(|representation| representation.bandwidth_bps);
    Ok(AdaptationSet {
        kind,
        lang: set.get("lang").map(Into::into),
        representations,
    })
}

/// `levels` runs from the Representation outwards.
fn representation(
    levels: [&Element; 3],
    outside: PeriodPlace<'_>,
) -> Result<Representation, MpdError> {
    let [element, set, _] = levels;
    let id = element
        .get("id")
        .ok_or_else(|| element.error(Problem::MissingAttribute("id")))?;
    let bandwidth_bps = match element.number("bandwidth")? {
        None => return Err(element.error(Problem::MissingAttribute("bandwidth"))),
        Some(0) => return Err(element.invalid("bandwidth", "0", "a positive integer")),
        Some(bandwidth) => bandwidth,
    };
    let pixels = |name| -> Result<Option<u32>, MpdError> {
        for level in [element, set] {
            if let Some(value) = level.number(name)? {
                let value = u32::try_from(value)
                    .map_err(|_| level.invalid(name, &value.to_string(), "a picture size"))?;
                return Ok(Some(value));
            }
        }
        Ok(None)
    };
    let inherited = |name| element.get(name).or_else(|| set.get(name));
    let frame_rate = match inherited("frameRate") {
        None => None,
        Some(text) => Some(
            frame_rate(text)
                .ok_or_else(|| element.invalid("frameRate", text, "a number or a fraction"))?,
        ),
    };
    let bases = base_urls(element, outside.bases)?;
    let base = &bases[0];
    let codecs = inherited("codecs");
    let base_bytes: usize = bases.iter().map(|base| base.as_str().len()).sum();
    let strings = base.as_str().len() + base_bytes + id.len() + codecs.map_or(0, str::len);
    let offset = outside.offset.saturating_add(availability_offset(element)?);
    outside
        .budget
        .charge_representation(element, size_of::<Representation>() + strings)?;
    let (init, media, own_offset) = segments::of_representation(&Place {
        levels,
        base,
        period: outside.duration,
        is_open: outside.is_open,
        id,
        bandwidth_bps,
        budget: outside.budget,
    })?;
    Ok(Representation {
        id: id.into(),
        bandwidth_bps,
        width: pixels("width")?,
        height: pixels("height")?,
        frame_rate,
        codecs: codecs.map(Into::into),
        init,
        availability_offset: offset.saturating_add(own_offset),
        bases,
        media,
    })
}

/// `24`, `29.97` or `30000/1001`.
fn frame_rate(text: &str) -> Option<f64> {
    let (numerator, denominator) = text.trim().split_once('/').unwrap_or((text.trim(), "1"));
    let rate = numerator.parse::<f64>().ok()? / denominator.parse::<f64>().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// An `xs:duration` attribute.
fn length(element: &Element, name: &'static str) -> Result<Option<Duration>, MpdError> {
    const FORM: &str = "an xs:duration such as PT1M30.5S, at most 30 days";
    element
        .get(name)
        .map(|text| duration::parse(text).ok_or_else(|| element.invalid(name, text, FORM)))
        .transpose()
}

/// `bases`, or each of the element's own BaseURLs resolved against each of them, the preferred one
/// first.
fn base_urls(element: &Element, bases: &[Url]) -> Result<Vec<Url>, MpdError> {
    let mut all = Vec::new();
    for own in element.all("BaseURL") {
        for base in bases {
            let url = resolve(own, "BaseURL", base, own.text.trim())?;
            if all.len() < MAX_BASES && !all.contains(&url) {
                all.push(url);
            }
        }
    }
    match all.is_empty() {
        true => Ok(bases.to_vec()),
        false => Ok(all),
    }
}

/// What the element's first BaseURL adds to the availabilityTimeOffset.
fn availability_offset(element: &Element) -> Result<Duration, MpdError> {
    match element.first("BaseURL") {
        Some(base) => segments::availability_offset(base),
        None => Ok(Duration::ZERO),
    }
}

/// A URL reference resolved against `base`; only HTTP can be fetched.
fn resolve(
    element: &Element,
    name: &'static str,
    base: &Url,
    reference: &str,
) -> Result<Url, MpdError> {
    base.join(reference)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| element.invalid(name, reference, "an http or https URL"))
}

#[cfg(test)]
mod tests;
