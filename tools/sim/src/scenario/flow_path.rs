//! One of a flow's paths: a name, or a table that says more.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::MapAccess;
use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;

use super::Size;
use super::Text;
use super::Time;

/// A path that a flow uses, written as its name or as
/// `{ name = "lte", backup = true, start = "5 s", stop = "20 s" }`.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowPath {
    /// Of a path or a link.
    pub name: String,
    /// Whether the client asks for it to be used only while no other path works (RFC 10069,
    /// PATH_STATUS_BACKUP).
    pub backup: bool,
    /// Whether its interface costs money: what it is for then is a rule of `path_policy`.
    pub metered: bool,
    /// Whether its interface is a tunnel that takes the default route while it is there.
    pub tunnel: bool,
    /// Whether its interface has an IPv6 address and none of IPv4.
    pub ipv6: bool,
    /// When the client opens it; as early as possible without.
    pub start: Option<Text<Time>>,
    /// When the client abandons it.
    pub stop: Option<Text<Time>>,
    /// What the sender remembers of it from an earlier connection.
    pub known: Option<Known>,
    /// Its impact factor, as the client's path policy found it in an earlier connection.
    pub impact: Option<f64>,
}

/// What a sender remembers of a path (RFC 9959).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The window that carried data.
    pub window: Text<Size>,
    /// The least RTT.
    pub rtt: Text<Time>,
}

/// A path that a flow uses, and how.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Name of a path or a link.
    name: String,
    /// It is to be used only while no other path works.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    backup: bool,
    /// Its interface costs money: what it is for then is a rule of `path_policy`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    metered: bool,
    /// Its interface is a tunnel that takes the default route while it is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    tunnel: bool,
    /// Its interface has an IPv6 address and none of IPv4.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ipv6: bool,
    /// When the client opens it; as early as possible without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Text<Time>>,
    /// When the client abandons it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop: Option<Text<Time>>,
    /// What the sender remembers of it from an earlier connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    known: Option<Known>,
    /// Its impact factor, as the client's path policy found it in an earlier connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    impact: Option<f64>,
}

impl FlowPath {
    /// Whether it says no more than a name does.
    pub(super) fn is_plain(&self) -> bool {
        !self.backup
            && !self.metered
            && !self.tunnel
            && !self.ipv6
            && self.start.is_none()
            && self.stop.is_none()
            && self.known.is_none()
            && self.impact.is_none()
    }
}

impl Serialize for FlowPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_plain() {
            return serializer.serialize_str(&self.name);
        }
        let table = Table {
            name: self.name.clone(),
            backup: self.backup,
            metered: self.metered,
            tunnel: self.tunnel,
            ipv6: self.ipv6,
            start: self.start.clone(),
            stop: self.stop.clone(),
            known: self.known.clone(),
            impact: self.impact,
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FlowPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FlowPath, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = FlowPath;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name, or a table such as { name = \"lte\", backup = true }")
            }

            fn visit_str<E>(self, name: &str) -> Result<FlowPath, E> {
                Ok(FlowPath {
                    name: name.to_owned(),
                    backup: false,
                    metered: false,
                    tunnel: false,
                    ipv6: false,
                    start: None,
                    stop: None,
                    known: None,
                    impact: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FlowPath, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(FlowPath {
                    name: table.name,
                    backup: table.backup,
                    metered: table.metered,
                    tunnel: table.tunnel,
                    ipv6: table.ipv6,
                    start: table.start,
                    stop: table.stop,
                    known: table.known,
                    impact: table.impact,
                })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for FlowPath {
    fn schema_name() -> Cow<'static, str> {
        "FlowPath".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let table = generator.subschema_for::<Table>();
        schemars::json_schema!({
            "description": "a path's name, or a table with the name and how it is used",
            "anyOf": [{ "type": "string" }, table],
        })
    }
}
