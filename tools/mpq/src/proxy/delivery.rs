//! A response's body on its way to the browser. If the connection breaks under it, the rest is asked for on another
//! one, where that is certain to be the rest of the same.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::task::ready;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::body::SizeHint;
use hyper::header;
use hyper::header::HeaderValue;
use hyper::HeaderMap;
use hyper::Method;
use hyper::StatusCode;

use super::forward::Ask;
use super::forward::Ways;
use super::upstream::H3Body;
use super::upstream::Head;

/// So many connections in a row may break without a byte of the rest.
const FRUITLESS: u32 = 3;

/// An empty body ends with its header, or soon after it.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A body as it comes from an origin.
pub enum Arriving {
    /// Over HTTP/3.
    H3(H3Body),
    /// Over TCP, from the origin with this number.
    Tcp(Incoming, usize, Arc<super::status::Shared>),
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self.get_mut() {
            Arriving::H3(body) => Pin::new(body)
                .poll_frame(context)
                .map_err(|lost| lost.to_string()),
            Arriving::Tcp(body, origin, status) => {
                let frame = ready!(Pin::new(body).poll_frame(context));
                if let Some(data) = frame.as_ref().and_then(|f| f.as_ref().ok()?.data_ref()) {
                    status.came_over_tcp(*origin, data.len());
                }
                Poll::Ready(frame.map(|frame| frame.map_err(|e| e.to_string())))
            }
        }
    }
}

/// What of an entity a response has, if another response can go on with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// The strong validator: a byte of this entity is the same in every response.
    etag: HeaderValue,
    /// Offset of the next byte.
    next: u64,
    /// Offset after the last.
    end: u64,
}

impl Part {
    /// That of the response `head` to a request by `method`.
    fn of(method: &Method, head: &Head) -> Option<Part> {
        let field = |name| head.headers.get(name)?.to_str().ok();
        let etag = head.headers.get(header::ETAG)?;
        let is_strong = etag.as_bytes().starts_with(b"\"");
        if method != Method::GET || !is_strong || field(header::ACCEPT_RANGES) == Some("none") {
            return None;
        }
        let (next, end) = match head.status {
            StatusCode::OK => (0, field(header::CONTENT_LENGTH)?.parse().ok()?),
            StatusCode::PARTIAL_CONTENT => content_range(field(header::CONTENT_RANGE)?)?,
            _ => return None,
        };
        Some(Part {
            etag: etag.clone(),
            next,
            end,
        })
    }

    /// Makes a request's fields ask for the rest.
    fn ask(&self, headers: &mut HeaderMap) {
        for name in [
            header::IF_MATCH,
            header::IF_NONE_MATCH,
            header::IF_MODIFIED_SINCE,
            header::IF_UNMODIFIED_SINCE,
        ] {
            headers.remove(name);
        }
        let range = format!("bytes={}-{}", self.next, self.end - 1);
        // Digits are always a value.
        if let Ok(range) = range.parse() {
            headers.insert(header::RANGE, range);
        }
        headers.insert(header::IF_RANGE, self.etag.clone());
    }

    /// Whether `head` begins exactly the rest of the same entity.
    fn is_rest(&self, head: &Head) -> bool {
        Part::of(&Method::GET, head).as_ref() == Some(self)
            && head.status == StatusCode::PARTIAL_CONTENT
    }
}

/// Offsets of the first byte and after the last one of `bytes 5-9/100`.
fn content_range(value: &str) -> Option<(u64, u64)> {
    let (range, _) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last.checked_add(1)?))
}

/// Asks for the rest of a body.
type GoingOn = Pin<Box<dyn Future<Output = Result<Arriving, String>> + Send>>;

/// A body that outlives the connection it began on.
pub struct Delivery {
    arriving: Arriving,
    part: Option<Part>,
    ask: Ask,
    ways: Arc<Ways>,
    going_on: Option<GoingOn>,
    fruitless: u32,
    /// Bytes that are still to come, if that is known.
    left: Option<u64>,
}

impl Delivery {
    /// The body of the response `head` to `ask`.
    pub fn new(head: &Head, arriving: Arriving, ask: Ask, ways: Arc<Ways>) -> Delivery {
        let length = head.headers.get(header::CONTENT_LENGTH);
        Delivery {
            part: Part::of(&ask.method, head),
            left: length.and_then(|length| length.to_str().ok()?.parse().ok()),
            arriving,
            ask,
            ways,
            going_on: None,
            fruitless: 0,
        }
    }

    /// Waits for the end of a body that is none: without it, the origin would see its response cancelled.
    pub async fn finish(self) {
        // Who sends a body where there is none is cancelled.
        let _ = tokio::time::timeout(END_TIMEOUT, self.collect()).await;
    }

    /// Begins to go on over another connection, if that can be.
    fn go_on(&mut self, why: String) -> Result<(), String> {
        let Some(part) = self.part.clone().filter(|part| part.next < part.end) else {
            return Err(why);
        };
        if self.fruitless == FRUITLESS {
            return Err(why);
        }
        self.fruitless += 1;
        let (ways, mut ask) = (self.ways.clone(), self.ask.clone());
        part.ask(&mut ask.headers);
        self.going_on = Some(Box::pin(async move {
            let (head, arriving, _) = ways
                .fetch(&ask, None)
                .await
                .map_err(|problem| format!("{why}; then {problem}"))?;
            if !part.is_rest(&head) {
                return Err(format!("{why}; the origin has no rest of it"));
            }
            ways.status.counters.resumed.fetch_add(1, SeqCst);
            Ok(arriving)
        }));
        Ok(())
    }
}

impl Body for Delivery {
    type Data = Bytes;
    type Error = String;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        let this = self.get_mut();
        loop {
            if let Some(going_on) = &mut this.going_on {
                let arriving = ready!(going_on.as_mut().poll(context));
                this.going_on = None;
                match arriving {
                    Ok(arriving) => this.arriving = arriving,
                    Err(why) => return Poll::Ready(Some(Err(why))),
                }
            }
            match ready!(Pin::new(&mut this.arriving).poll_frame(context)) {
                Some(Err(why)) => {
                    if let Err(why) = this.go_on(why) {
                        log::info!("{}: {why}", this.ask.path);
                        return Poll::Ready(Some(Err(why)));
                    }
                }
                other => {
                    let data = other.as_ref().and_then(|f| f.as_ref().ok()?.data_ref());
                    let bytes = data.map_or(0, |data| data.len() as u64);
                    this.left = this.left.map(|left| left.saturating_sub(bytes));
                    if let (Some(part), 1..) = (&mut this.part, bytes) {
                        part.next += bytes;
                        this.fruitless = 0;
                    }
                    return Poll::Ready(other);
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &[(&'static str, &str)]) -> Head {
        let fields = fields.iter().map(|(name, value)| {
            let name = header::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        Head {
            status: StatusCode::from_u16(status).unwrap(),
            headers: fields.collect(),
        }
    }

    fn part(head: &Head) -> Option<(u64, u64)> {
        Part::of(&Method::GET, head).map(|part| (part.next, part.end))
    }

    #[test]
    fn only_what_a_strong_validator_names_goes_on() {
        let whole = |etag| head(200, &[("etag", etag), ("content-length", "100")]);
        assert_eq!(part(&whole("\"a\"")), Some((0, 100)));
        assert_eq!(part(&whole("W/\"a\"")), None);
        assert_eq!(Part::of(&Method::POST, &whole("\"a\"")), None);
        assert_eq!(part(&head(200, &[("content-length", "100")])), None);
        assert_eq!(part(&head(200, &[("etag", "\"a\"")])), None);
        let etag = ("etag", "\"a\"");
        let range = |value| part(&head(206, &[etag, ("content-range", value)]));
        assert_eq!(range("bytes 5-9/100"), Some((5, 10)));
        assert_eq!(range("bytes 5-9/*"), Some((5, 10)));
        for bad in ["bytes 9-5/100", "bytes */100", "lines 1-2/3", "bytes 1-/3"] {
            assert_eq!(range(bad), None, "{bad}");
        }
        let none = ("accept-ranges", "none");
        assert_eq!(
            part(&head(200, &[etag, none, ("content-length", "9")])),
            None
        );
        assert_eq!(part(&head(404, &[etag, ("content-length", "9")])), None);
    }

    #[test]
    fn the_rest_is_asked_for_and_recognised() {
        let begun = head(200, &[("etag", "\"a\""), ("content-length", "100")]);
        let mut part = Part::of(&Method::GET, &begun).unwrap();
        part.next = 40;
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"b\""));
        headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-"));
        part.ask(&mut headers);
        assert_eq!(headers[header::RANGE], "bytes=40-99");
        assert_eq!(headers[header::IF_RANGE], "\"a\"");
        assert_eq!(headers.len(), 2);

        let rest = |status, etag, range| head(status, &[("etag", etag), ("content-range", range)]);
        assert!(part.is_rest(&rest(206, "\"a\"", "bytes 40-99/100")));
        assert!(!part.is_rest(&rest(206, "\"b\"", "bytes 40-99/100")));
        assert!(!part.is_rest(&rest(206, "\"a\"", "bytes 41-99/100")));
        assert!(!part.is_rest(&rest(206, "\"a\"", "bytes 40-98/100")));
        let fields = [("etag", "\"a\""), ("content-length", "100")];
        assert!(!part.is_rest(&head(200, &fields)), "from the beginning");
    }
}
