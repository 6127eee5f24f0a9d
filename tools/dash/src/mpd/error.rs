//! Why an MPD was refused, and where in the document.

use std::fmt;

/// An MPD that cannot be used: the line, the element and the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MPD line {line}, {element}: {problem}")]
pub struct MpdError {
    /// 1-based line of the element (0 when the document as a whole is meant).
    pub line: u32,
    /// The element as a reader would look for it, e.g. `<Representation id="3">`.
    pub element: ElementName,
    /// What is wrong.
    pub problem: Problem,
}

/// How an element is called in messages: its tag, and its id where it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementName {
    /// Tag without namespace prefix.
    pub tag: String,
    /// The `id` attribute.
    pub id: Option<String>,
}

impl fmt::Display for ElementName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "<{} id={id:?}>", self.tag),
            None => write!(f, "<{}>", self.tag),
        }
    }
}

/// What is wrong with an MPD.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not well-formed XML, or not UTF-8.
    #[error("not well-formed XML: {0}")]
    Xml(String),
    /// The root element is something else (an HTML error page, for instance).
    #[error("the root element is not <MPD>; is this URL really a DASH manifest?")]
    NotAnMpd,
    /// A required attribute is absent here and on every element it could be inherited from.
    #[error("attribute `{0}` is missing")]
    MissingAttribute(&'static str),
    /// A required child element is absent.
    #[error("{0} is missing")]
    MissingElement(&'static str),
    /// An attribute or text has a value that does not parse.
    #[error("`{name}` is {value:?}, expected {expected}")]
    Invalid {
        /// The attribute, or the element whose text it is.
        name: &'static str,
        /// The value found, cut to a readable length.
        value: String,
        /// The form that would have been accepted.
        expected: &'static str,
    },
    /// A legal feature that this player does not have.
    #[error("{0} is not supported; use an MPD without it")]
    Unsupported(&'static str),
    /// A limit that protects against hostile documents was passed.
    #[error("{what} exceeds the limit of {limit}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit, in the unit `what` names.
        limit: u64,
    },
    /// Representations of one AdaptationSet that cannot replace each other segment by segment.
    #[error("representations have {0} and {1} segments, so a player cannot switch between them")]
    Unaligned(u64, u64),
}
