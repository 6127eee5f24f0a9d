//! What only live MPDs have (ISO/IEC 23009-1, 5.3.1, Annex K; DASH-IF IOP for low latency).

use std::time::Duration;

use url::Url;

use super::date;
use super::error::{MpdError, Problem};
use super::xml::Element;

/// A live presentation's clock and wishes.
#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    /// When the media begins, since 1970-01-01T00:00:00Z.
    pub availability_start: Duration,
    /// How often the MPD is to be fetched again; `None`: it stays.
    pub update_period: Option<Duration>,
    /// How far behind the present playback should be.
    pub suggested_delay: Option<Duration>,
    /// The same, if a ServiceDescription says so.
    pub target_latency: Option<Duration>,
    /// Least and greatest playback rate of a ServiceDescription.
    pub playback_rate: Option<(f64, f64)>,
    /// How long segments stay; `None`: to the end.
    pub depth: Option<Duration>,
    /// Where the time is to be had, if in a way that is known here.
    pub clock: Option<Clock>,
    /// Where the next MPD is, if elsewhere.
    pub location: Option<Url>,
    /// Whether the end of the media is known.
    pub has_end: bool,
}

/// A UTCTiming.
#[derive(Debug, Clone, PartialEq)]
pub enum Clock {
    /// The time itself, since 1970-01-01T00:00:00Z, as of when the MPD was sent.
    Direct(Duration),
    /// A resource that has the time as text.
    Http(Url),
}

impl Live {
    /// From the attributes and children of the `MPD` element that came from `url`.
    pub(super) fn of(root: &Element, url: &Url, has_end: bool) -> Result<Live, MpdError> {
        const NAME: &str = "availabilityStartTime";
        let text = root
            .get(NAME)
            .ok_or_else(|| root.error(Problem::MissingAttribute(NAME)))?;
        let availability_start = date::parse(text)
            .ok_or_else(|| root.invalid(NAME, text, "a time such as 2026-01-31T12:00:00Z"))?;
        let service = root.first("ServiceDescription");
        let latency = service.and_then(|service| service.first("Latency"));
        let target_ms = match latency {
            Some(latency) => latency.number("target")?,
            None => None,
        };
        let rates = service.and_then(|service| service.first("PlaybackRate"));
        let bound = |name: &str, or: f64| {
            let text = rates.and_then(|rates| rates.get(name));
            let value = text.and_then(|text| text.trim().parse().ok());
            value
                .filter(|rate: &f64| (0.5..=2.0).contains(rate))
                .unwrap_or(or)
        };
        let location = match root.first("Location") {
            Some(at) => Some(super::resolve(at, "Location", url, at.text.trim())?),
            None => None,
        };
        Ok(Live {
            availability_start,
            update_period: super::length(root, "minimumUpdatePeriod")?,
            suggested_delay: super::length(root, "suggestedPresentationDelay")?,
            target_latency: target_ms.map(Duration::from_millis),
            playback_rate: rates.map(|_| (bound("min", 1.0).min(1.0), bound("max", 1.0).max(1.0))),
            depth: super::length(root, "timeShiftBufferDepth")?,
            clock: root.all("UTCTiming").find_map(|timing| clock(timing, url)),
            location,
            has_end,
        })
    }
}

/// The first way to the time that is known here; others are passed over, as the standard has it.
fn clock(timing: &Element, base: &Url) -> Option<Clock> {
    let value = timing.get("value")?.trim();
    match timing.get("schemeIdUri")? {
        "urn:mpeg:dash:utc:direct:2014" => date::parse(value).map(Clock::Direct),
        "urn:mpeg:dash:utc:http-xsdate:2014" | "urn:mpeg:dash:utc:http-iso:2014" => {
            // A list of alternatives, parted by spaces.
            let url = base.join(value.split_whitespace().next()?).ok()?;
            matches!(url.scheme(), "http" | "https").then_some(Clock::Http(url))
        }
        _ => None,
    }
}

/// The time that the resource of a [`Clock::Http`] says, since 1970-01-01T00:00:00Z.
pub fn read_clock(body: &[u8]) -> Option<Duration> {
    date::parse(std::str::from_utf8(body).ok()?)
}
