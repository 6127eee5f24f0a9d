//! Writing, for players of recorded DASH.

use std::fmt::Write;

use crate::percent;
use crate::Cmcd;
use crate::Object;

/// What a player sends with a request.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// Of the playback.
    pub cmcd: Cmcd,
    /// `sid`: names the session; a UUID, a new one each time.
    pub session_id: &'a str,
    /// `nor`: what will be asked for next, relative to what is asked for now.
    pub next_object: Option<&'a str>,
}

/// The header field that a key belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Object,
    Request,
    Session,
    Status,
}

impl Fields<'_> {
    /// The header fields, name (in lower case) and value.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let members = self.members();
        [
            (Field::Object, "cmcd-object"),
            (Field::Request, "cmcd-request"),
            (Field::Session, "cmcd-session"),
            (Field::Status, "cmcd-status"),
        ]
        .into_iter()
        .map(|(field, name)| {
            let of_field = members.iter().filter(|(_, of)| *of == field);
            (name, joined(of_field.map(|(member, _)| member)))
        })
        .filter(|(_, value)| !value.is_empty())
        .collect()
    }

    /// The argument of a query, encoded: `CMCD=...`.
    pub fn argument(&self) -> String {
        let mut argument = String::from("CMCD=");
        let members = self.members();
        percent::encode(
            &joined(members.iter().map(|(member, _)| member)),
            &mut argument,
        );
        argument
    }

    /// Sorted by name, as the standard wants them in both places.
    fn members(&self) -> Vec<(String, Field)> {
        let Cmcd {
            buffer_ms,
            bitrate_kbps,
            duration_ms,
            deadline_ms,
            throughput_kbps,
            top_bitrate_kbps,
            object,
            is_startup,
            was_starved,
        } = self.cmcd;

        let mut members = Vec::new();
        let mut number = |name: &str, field, value: Option<u64>| {
            members.extend(value.map(|value| (format!("{name}={value}"), field)));
        };
        number("bl", Field::Request, buffer_ms.map(to_hundreds));
        number("br", Field::Object, bitrate_kbps);
        number("d", Field::Object, duration_ms);
        number("dl", Field::Request, deadline_ms.map(to_hundreds));
        number("mtp", Field::Request, throughput_kbps.map(to_hundreds));
        number("tb", Field::Object, top_bitrate_kbps);
        for (name, field, is_set) in [
            ("bs", Field::Status, was_starved),
            ("su", Field::Request, is_startup),
        ] {
            members.extend(is_set.then(|| (name.to_owned(), field)));
        }
        let token = |object| Object::ALL.iter().find(|(other, _)| *other == object);
        if let Some((_, token)) = object.and_then(token) {
            members.push((format!("ot={token}"), Field::Object));
        }
        // DASH, on demand.
        members.push(("sf=d".into(), Field::Session));
        members.push(("st=v".into(), Field::Session));
        members.push((string("sid", self.session_id), Field::Session));
        if let Some(next) = self.next_object {
            // It has to be encoded within its string.
            let mut encoded = String::new();
            percent::encode(next, &mut encoded);
            members.push((string("nor", &encoded), Field::Request));
        }
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members
    }
}

/// As `bl`, `dl` and `mtp` are to be rounded.
fn to_hundreds(value: u64) -> u64 {
    value.saturating_add(50) / 100 * 100
}

fn string(name: &str, text: &str) -> String {
    let mut member = format!("{name}=\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            member.push('\\');
        }
        member.push(character);
    }
    member.push('"');
    member
}

fn joined<'a>(members: impl Iterator<Item = &'a String>) -> String {
    let mut value = String::new();
    for (i, member) in members.enumerate() {
        let comma = if i > 0 { "," } else { "" };
        // Writing to a String does not fail.
        let _ = write!(value, "{comma}{member}");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "6e2fb550-c457-11e9-bb97-0800200c9a66";

    fn playing() -> Fields<'static> {
        Fields {
            cmcd: Cmcd {
                buffer_ms: Some(8_049),
                bitrate_kbps: Some(3000),
                duration_ms: Some(2002),
                deadline_ms: Some(8_050),
                throughput_kbps: Some(12_499),
                top_bitrate_kbps: Some(6000),
                object: Some(Object::Video),
                ..Default::default()
            },
            session_id: SESSION,
            next_object: Some("v 2.m4s"),
        }
    }

    #[test]
    fn headers_of_a_segment() {
        assert_eq!(
            playing().headers(),
            [
                ("cmcd-object", "br=3000,d=2002,ot=v,tb=6000".into()),
                (
                    "cmcd-request",
                    "bl=8000,dl=8100,mtp=12500,nor=\"v%202.m4s\"".into()
                ),
                ("cmcd-session", format!("sf=d,sid=\"{SESSION}\",st=v")),
            ]
        );
    }

    #[test]
    fn what_is_not_so_is_not_sent() {
        let mut fields = Fields {
            cmcd: Cmcd::default(),
            session_id: "a\"b\\",
            next_object: None,
        };
        let session = ("cmcd-session", r#"sf=d,sid="a\"b\\",st=v"#.to_owned());
        assert_eq!(fields.headers(), std::slice::from_ref(&session));
        fields.cmcd.is_startup = true;
        fields.cmcd.was_starved = true;
        assert_eq!(
            fields.headers(),
            [
                ("cmcd-request", "su".into()),
                session,
                ("cmcd-status", "bs".into())
            ]
        );
    }

    #[test]
    fn argument_is_sorted_and_encoded() {
        let fields = Fields {
            cmcd: Cmcd {
                buffer_ms: Some(100),
                was_starved: true,
                object: Some(Object::Init),
                ..Default::default()
            },
            session_id: "x",
            next_object: None,
        };
        assert_eq!(
            fields.argument(),
            "CMCD=bl%3D100%2Cbs%2Cot%3Di%2Csf%3Dd%2Csid%3D%22x%22%2Cst%3Dv"
        );
    }
}
