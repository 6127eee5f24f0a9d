//! URL templates: `$RepresentationID$`, `$Number%05d$`, `$Time$`, `$Bandwidth$`, `$$`
//! (ISO/IEC 23009-1, 5.3.9.4.4).

/// Widest `%0Nd` accepted; no u64 needs more.
const MAX_WIDTH: usize = 20;

/// A parsed template. Expanding it cannot fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    RepresentationId,
    /// The number and its minimum width, padded with zeros.
    Number(usize),
    Time(usize),
    Bandwidth(usize),
}

/// What a template's identifiers stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a> {
    pub representation_id: &'a str,
    pub bandwidth_bps: u64,
    pub number: u64,
    pub time: u64,
}

impl Template {
    /// `None` when an identifier is unknown, a format is not `%0Nd`, or a `$` stands alone.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let (identifier, tail) = after.split_once('$')?;
            push_text(&mut parts, before);
            match identifier {
                "" => push_text(&mut parts, "$"),
                "RepresentationID" => parts.push(Part::RepresentationId),
                _ => parts.push(number(identifier)?),
            }
            rest = tail;
        }
        push_text(&mut parts, rest);
        Some(Self(parts))
    }

    /// Whether the expansion differs from segment to segment.
    pub fn names_a_segment(&self) -> bool {
        let varies = |part: &Part| matches!(part, Part::Number(_) | Part::Time(_));
        self.0.iter().any(varies)
    }

    /// The template with every identifier replaced.
    pub fn expand(&self, values: Values<'_>) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for part in &self.0 {
            let (value, width) = match part {
                Part::Text(text) => {
                    out.push_str(text);
                    continue;
                }
                Part::RepresentationId => {
                    out.push_str(values.representation_id);
                    continue;
                }
                Part::Number(width) => (values.number, *width),
                Part::Time(width) => (values.time, *width),
                Part::Bandwidth(width) => (values.bandwidth_bps, *width),
            };
            // Writing to a String cannot fail.
            let _ = write!(out, "{value:0width$}");
        }
        out
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ if text.is_empty() => {}
        _ => parts.push(Part::Text(text.into())),
    }
}

fn number(identifier: &str) -> Option<Part> {
    let (name, width) = match identifier.split_once('%') {
        Some((name, format)) => (name, parse_width(format)?),
        None => (identifier, 1),
    };
    match name {
        "Number" => Some(Part::Number(width)),
        "Time" => Some(Part::Time(width)),
        "Bandwidth" => Some(Part::Bandwidth(width)),
        _ => None,
    }
}

/// The `N` of `0Nd`; `d` alone is width 1, as ffmpeg and dash.js accept it.
fn parse_width(format: &str) -> Option<usize> {
    let digits = format.strip_suffix('d')?;
    if digits.is_empty() {
        return Some(1);
    }
    let width = digits.strip_prefix('0')?;
    if width.is_empty() || !width.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    width.parse().ok().filter(|&width| width <= MAX_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'_> = Values {
        representation_id: "v3",
        bandwidth_bps: 750_000,
        number: 42,
        time: 1_024,
    };

    #[test]
    fn identifiers_and_widths() {
        let cases = [
            (
                "chunk-stream$RepresentationID$-$Number%05d$.m4s",
                "chunk-streamv3-00042.m4s",
            ),
            ("$Bandwidth$/$Time$.m4s", "750000/1024.m4s"),
            ("$$$Number$$$", "$42$"),
            ("$Number%d$", "42"),
            ("$Number%01d$", "42"),
            ("plain", "plain"),
            ("", ""),
        ];
        for (template, expanded) in cases {
            assert_eq!(
                Template::parse(template).unwrap().expand(VALUES),
                expanded,
                "{template}"
            );
        }
    }

    #[test]
    fn malformed_templates_are_refused() {
        for template in [
            "$",
            "a$Number",
            "$Numbers$",
            "$SubNumber$",
            "$Number%5d$",
            "$Number%05x$",
            "$Number%0999999999999d$",
            "$Number%0d$",
            "$RepresentationID%05d$",
            "$Number%0+5d$",
        ] {
            assert_eq!(Template::parse(template), None, "{template}");
        }
    }

    #[test]
    fn only_number_and_time_name_a_segment() {
        assert!(Template::parse("$Time$").unwrap().names_a_segment());
        assert!(!Template::parse("$Bandwidth$-$RepresentationID$")
            .unwrap()
            .names_a_segment());
    }
}
