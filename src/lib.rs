//! The decision layer.
