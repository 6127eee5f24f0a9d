//! What the fuzz targets share.

pub mod nginx;
pub mod pair;
