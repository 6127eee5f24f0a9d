//! HTTP/3 over the driver: [`client`] and [`server`].

mod alt_svc;
mod body;
pub mod client;
mod playback;
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
pub fn field<'a>(headers: &'a [Header], name: &'a str) -> Option<&'a str> {
    fields(headers, name).next()
}

/// The values of all header fields `name` (lower case) that are text.
fn fields<'a>(headers: &'a [Header], name: &'a str) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |h| h.name() == name.as_bytes())
        .filter_map(|h| std::str::from_utf8(h.value()).ok())
}
