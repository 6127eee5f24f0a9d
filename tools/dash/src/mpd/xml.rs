//! The part of an XML document that MPDs need, as a small tree with hard limits.
//!
//! Elements this player has no use for are skipped while reading, so they cost no memory.
//! Document type declarations are refused, so there are no entities to expand.

use quick_xml::events::{BytesStart, Event};
use quick_xml::Reader;

use super::error::{ElementName, MpdError, Problem};

/// Largest document accepted, bytes.
pub(super) const MAX_DOCUMENT_BYTES: usize = 8 << 20;
/// Most elements kept.
const MAX_ELEMENTS: usize = 200_000;
/// Deepest nesting, skipped elements included.
const MAX_DEPTH: usize = 32;
/// Most attributes on one element.
const MAX_ATTRIBUTES: usize = 64;
/// Longest attribute value or text quoted in an error, characters.
const MAX_QUOTED_CHARS: usize = 60;

/// Elements that are kept.
const KNOWN: [&str; 19] = [
    "MPD",
    "BaseURL",
    "Period",
    "AdaptationSet",
    "ContentComponent",
    "EssentialProperty",
    "Representation",
    "SegmentTemplate",
    "SegmentList",
    "SegmentBase",
    "SegmentTimeline",
    "S",
    "Initialization",
    "SegmentURL",
    "UTCTiming",
    "ServiceDescription",
    "Latency",
    "PlaybackRate",
    "Location",
];

/// One element with what it holds.
#[derive(Debug)]
pub(super) struct Element {
    pub tag: &'static str,
    pub line: u32,
    attributes: Vec<(Box<str>, Box<str>)>,
    pub children: Vec<Element>,
    pub text: String,
}

impl Element {
    /// Value of the attribute with this local name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(key, _)| &**key == name)
            .map(|(_, value)| &**value)
    }

    /// Children with this tag.
    pub fn all<'a>(&'a self, tag: &'static str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.tag == tag)
    }

    /// First child with this tag.
    pub fn first(&self, tag: &'static str) -> Option<&Element> {
        self.all(tag).next()
    }

    /// `problem`, located at this element.
    pub fn error(&self, problem: Problem) -> MpdError {
        MpdError {
            line: self.line,
            element: ElementName {
                tag: self.tag.into(),
                id: self.get("id").map(shorten),
            },
            problem,
        }
    }

    /// "`name` is `value`, expected ...", located at this element.
    pub fn invalid(&self, name: &'static str, value: &str, expected: &'static str) -> MpdError {
        self.error(Problem::Invalid {
            name,
            value: shorten(value),
            expected,
        })
    }

    /// The attribute as an unsigned number, if it is there.
    pub fn number(&self, name: &'static str) -> Result<Option<u64>, MpdError> {
        self.get(name)
            .map(|value| {
                value
                    .trim()
                    .parse()
                    .map_err(|_| self.invalid(name, value, "an unsigned integer"))
            })
            .transpose()
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into(),
    }
}

fn document_error(line: u32, problem: Problem) -> MpdError {
    MpdError {
        line,
        element: ElementName {
            tag: "MPD".into(),
            id: None,
        },
        problem,
    }
}

/// Counts lines up to a growing position, each byte once.
struct LineCounter<'a> {
    document: &'a str,
    position: usize,
    line: u32,
}

impl LineCounter<'_> {
    fn advance_to(&mut self, position: usize) -> u32 {
        let position = position.clamp(self.position, self.document.len());
        let passed = &self.document.as_bytes()[self.position..position];
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count() as u32;
        self.position = position;
        self.line
    }
}

/// Reads a document into its root element.
pub(super) fn parse(document: &[u8]) -> Result<Element, MpdError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(document_error(
            0,
            Problem::TooLarge {
                what: "document size in bytes",
                limit: MAX_DOCUMENT_BYTES as u64,
            },
        ));
    }
    let document = std::str::from_utf8(document)
        .map_err(|error| document_error(0, Problem::Xml(error.to_string())))?;
    let document = document.trim_start_matches('\u{feff}');

    let mut reader = Reader::from_str(document);
    let mut lines = LineCounter {
        document,
        position: 0,
        line: 1,
    };
    // Open elements from the root down; `skipped` counts open elements below a skipped one.
    let mut open: Vec<Element> = Vec::new();
    let mut skipped = 0usize;
    let mut kept = 0usize;
    loop {
        let before = reader.buffer_position() as usize;
        let event = reader.read_event();
        // Text before a tag is part of the previous event, so a tag starts at `before`.
        let line = lines.advance_to(before);
        let event = event
            .map_err(|error| document_error(line, Problem::Xml(shorten(&error.to_string()))))?;
        let (start, is_empty) = match event {
            Event::Start(start) => (start, false),
            Event::Empty(start) => (start, true),
            Event::End(_) => {
                if skipped > 0 {
                    skipped -= 1;
                    continue;
                }
                let Some(done) = open.pop() else {
                    return Err(document_error(line, Problem::Xml("stray end tag".into())));
                };
                match open.last_mut() {
                    Some(parent) => parent.children.push(done),
                    None => return Ok(done),
                }
                continue;
            }
            Event::Text(text) => {
                add_text(&mut open, skipped, &text.into_inner());
                continue;
            }
            Event::CData(text) => {
                add_text(&mut open, skipped, &text.into_inner());
                continue;
            }
            Event::GeneralRef(reference) => {
                let name = reference.into_inner();
                let text = quick_xml::escape::unescape(&format!("&{name};"))
                    .map_err(|error| document_error(line, Problem::Xml(error.to_string())))?
                    .into_owned();
                add_text(&mut open, skipped, &text);
                continue;
            }
            Event::DocType(_) => {
                return Err(document_error(
                    line,
                    Problem::Unsupported("a document type declaration"),
                ));
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            Event::Eof => {
                return Err(document_error(
                    line,
                    if open.is_empty() {
                        Problem::NotAnMpd
                    } else {
                        Problem::Xml("the document ends inside an element".into())
                    },
                ));
            }
        };

        if open.len() + skipped >= MAX_DEPTH {
            return Err(document_error(
                line,
                Problem::TooLarge {
                    what: "nesting depth",
                    limit: MAX_DEPTH as u64,
                },
            ));
        }
        let name = start.local_name();
        let tag = KNOWN.iter().find(|known| **known == name.as_ref());
        if open.is_empty() && tag != Some(&"MPD") {
            return Err(document_error(line, Problem::NotAnMpd));
        }
        let Some(tag) = tag.filter(|_| skipped == 0) else {
            if !is_empty {
                skipped += 1;
            }
            continue;
        };
        kept += 1;
        if kept > MAX_ELEMENTS {
            return Err(document_error(
                line,
                Problem::TooLarge {
                    what: "number of elements",
                    limit: MAX_ELEMENTS as u64,
                },
            ));
        }
        let element = element(tag, line, &start)?;
        if !is_empty {
            open.push(element);
        } else if let Some(parent) = open.last_mut() {
            parent.children.push(element);
        } else {
            return Ok(element);
        }
    }
}

fn add_text(open: &mut [Element], skipped: usize, text: &str) {
    if let (Some(element), 0) = (open.last_mut(), skipped) {
        // Only these have text; the rest is indentation.
        if matches!(element.tag, "BaseURL" | "Location") {
            element.text.push_str(text);
        }
    }
}

fn element(tag: &'static str, line: u32, start: &BytesStart<'_>) -> Result<Element, MpdError> {
    let mut element = Element {
        tag,
        line,
        attributes: Vec::new(),
        children: Vec::new(),
        text: String::new(),
    };
    // The duplicate check of quick-xml is quadratic; ours runs on a bounded list.
    for attribute in start.attributes().with_checks(false) {
        let attribute =
            attribute.map_err(|error| element.error(Problem::Xml(error.to_string())))?;
        let value = attribute
            .normalized_value(quick_xml::XmlVersion::Implicit1_0)
            .map_err(|error| element.error(Problem::Xml(shorten(&error.to_string()))))?;
        let key = attribute.key.local_name();
        if element.attributes.len() == MAX_ATTRIBUTES {
            return Err(element.error(Problem::TooLarge {
                what: "number of attributes",
                limit: MAX_ATTRIBUTES as u64,
            }));
        }
        // Namespaces are dropped, so two attributes may share a local name: the first one counts.
        if element.get(key.as_ref()).is_none() {
            element
                .attributes
                .push((key.as_ref().into(), value.as_ref().into()));
        }
    }
    Ok(element)
}
