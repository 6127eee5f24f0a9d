//! HTTP/3 over the driver: [`client`] and [`server`].

pub mod client;
pub mod server;

use quiche::h3::Header;
use quiche::h3::NameValue;

/// Error code of a connection closed without an error (RFC 9114, 8.1).
pub const H3_NO_ERROR: u64 = 0x100;

/// Error code of a request that the client does not want any more.
pub const H3_REQUEST_CANCELLED: u64 = 0x10c;

/// Error code of a response that the server cannot finish.
pub const H3_INTERNAL_ERROR: u64 = 0x102;

/// How much of a body is moved at a time, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// The value of the header field `name` (lower case), if it is there and text.
pub fn field<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|h| h.name() == name.as_bytes())
        .and_then(|h| std::str::from_utf8(h.value()).ok())
}
