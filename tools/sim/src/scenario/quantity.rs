//! Values that are written with a unit, and keep the text they were written as.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use mpq_wire::units;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;

/// A value of type `T` and the text that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Text<T> {
    text: String,
    /// What the text means.
    pub value: T,
}

impl<T: FromStr<Err = String>> FromStr for Text<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Text<T>, String> {
        Ok(Text {
            text: text.to_owned(),
            value: text.parse()?,
        })
    }
}

impl<T> fmt::Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<T> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<T: FromStr<Err = String>> serde::de::Visitor<'_> for Visitor<T> {
            type Value = Text<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity in quotes, with its unit, such as \"20 ms\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Text<T>, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Text<T>, E> {
                // What the parser says about a number without its unit is the best hint.
                self.visit_str(&number.to_string())
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Text<T>, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Visitor(PhantomData))
    }
}

impl<T> JsonSchema for Text<T> {
    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "a number and its unit" })
    }
}

/// A time: `"20 ms"`, `"1.5 s"`, `"250 us"`, `"2 min"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Duration);

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Time, String> {
        units::parse_duration(text).map(Time)
    }
}

/// A number of bytes: `"10 MB"`, `"16 MiB"`, `"1500 bytes"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        units::parse_size(text).map(Size)
    }
}

/// A number of packets: `"2 packets"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packets(pub u32);

impl FromStr for Packets {
    type Err = String;

    fn from_str(text: &str) -> Result<Packets, String> {
        let number = text
            .strip_suffix("packets")
            .or_else(|| text.strip_suffix("packet"));
        let number = number.and_then(|number| number.trim_end().parse().ok());
        number.filter(|n| *n > 0).map(Packets).ok_or_else(|| {
            format!("\"{text}\" is no number of packets: write one like \"20 packets\"")
        })
    }
}

/// A share: `"0.5 %"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        units::parse_probability(text).map(Share)
    }
}

/// Reads a name: letters, digits, `-` and `_`, a letter first.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !is_name {
        return Err(D::Error::custom(format!(
            "\"{name}\" is no name: use letters, digits, - and _, a letter first, for example \"wifi\""
        )));
    }
    Ok(name)
}
