//! What names a connection.

/// Identifies a connection of an endpoint, and never another one later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnKey {
    pub(crate) index: usize,
    pub(crate) serial: u64,
}

impl ConnKey {
    /// Of no connection.
    pub(crate) const NONE: ConnKey = ConnKey {
        index: usize::MAX,
        serial: u64::MAX,
    };
}
