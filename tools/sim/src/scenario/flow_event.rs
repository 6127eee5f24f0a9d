//! What happens to a flow's paths outside of the links: NAT, carrier, addresses, decisions of either end.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::Serialize;

use super::Text;
use super::Time;

/// One event of one path, such as `{ at = "2 s", path = "wifi", what = "rebind" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowEvent {
    /// When.
    pub at: Text<Time>,
    /// Which of the flow's paths.
    pub path: String,
    /// What happens.
    pub what: What,
    /// Who does it: of `abandon`, `backup` and `available`.
    #[serde(default, skip_serializing_if = "End::is_client")]
    pub by: End,
}

/// What can happen to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The NAT before the client forgets its mapping: what the client sends comes from another
    /// port, and what is sent to the old one is lost. Nobody is told.
    Rebind,
    /// The client's interface loses its carrier: nothing passes, and the client is told. It
    /// abandons the path if that lasts (as `mpq get` does).
    CarrierLost,
    /// The carrier is back. The client opens a path again if it abandoned the one there was.
    CarrierBack,
    /// The client's address is another one from now on, as after roaming: it is told, opens a path
    /// from the new address, and abandons that of the old one a little later.
    NewAddress,
    /// The path is abandoned, if it is not the last. After the server does so, the client opens
    /// another in its place.
    Abandon,
    /// The client opens it again, if it abandoned it.
    Open,
    /// PATH_STATUS_BACKUP.
    Backup,
    /// PATH_STATUS_AVAILABLE.
    Available,
}

impl What {
    /// Whether either end may do it.
    pub fn has_author(self) -> bool {
        matches!(self, What::Abandon | What::Backup | What::Available)
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The client.
    #[default]
    Client,
    /// The server.
    Server,
}

impl End {
    fn is_client(&self) -> bool {
        *self == End::Client
    }
}
