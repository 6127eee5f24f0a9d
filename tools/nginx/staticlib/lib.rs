//! Nothing of its own: the archive carries the symbols that quiche's feature `ffi` exports.

pub use quiche;
