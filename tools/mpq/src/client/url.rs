//! https URLs, and what HTTP/3 and DNS want to know of them.

use std::net::SocketAddr;
use std::net::ToSocketAddrs;

use url::Url;

use crate::exit::Failure;
use crate::exit::NETWORK;

/// An https URL with a host.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|e| e.to_string())?;
    if url.scheme() != "https" || url.host().is_none() {
        return Err("must begin with https:// and a host".into());
    }
    Ok(url)
}

/// Host and port: what a connection is for.
pub fn origin(url: &Url) -> (String, u16) {
    (host_name(url), url.port().unwrap_or(443))
}

/// The host without the brackets of an IPv6 address.
pub fn host_name(url: &Url) -> String {
    url.host_str()
        .unwrap_or_default()
        .trim_matches(|c| c == '[' || c == ']')
        .to_owned()
}

/// The value of `:authority`.
pub fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// The value of `:path`.
pub fn path_and_query(url: &Url) -> String {
    match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    }
}

/// Every address of the URL's host.
pub fn resolve(url: &Url) -> Result<Vec<SocketAddr>, Failure> {
    let origin = origin(url);
    origin
        .clone()
        .to_socket_addrs()
        .map(Iterator::collect)
        .map_err(|e| Failure::new(NETWORK, format!("cannot resolve {}: {e}", origin.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_url_keeps_its_brackets_only_in_the_authority() {
        let url = parse_url("https://[2001:db8::1]:4433/a?b=c").unwrap();
        assert_eq!(origin(&url), ("2001:db8::1".into(), 4433));
        assert_eq!(authority(&url), "[2001:db8::1]:4433");
        assert_eq!(path_and_query(&url), "/a?b=c");
        assert!(parse_url("http://example.com/").is_err());
        assert!(parse_url("example.com").is_err());
    }
}
