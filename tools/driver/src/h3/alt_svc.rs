//! Further addresses of a server, as its responses name them: `alt-svc` (RFC 7838).
//!
//! An alternative service need not be the same host. A path to it is one more attempt that may
//! come to nothing, and no more than that: what answers has to know the connection's keys. So the
//! assurance that the RFC asks for (Section 2.1) is there, and nothing is kept (`ma`) that outlives the connection.

use std::net::IpAddr;
use std::net::SocketAddr;

/// Taken from one field; a server has no reason to name more.
const MAX_ALTERNATIVES: usize = 8;

/// The longest name of a host (RFC 1035, Section 2.3.4), in bytes.
const MAX_NAME_LEN: usize = 253;

/// Where a field says that the service is, too.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Alternative {
    /// At an address that may be tried.
    Address(SocketAddr),
    /// At the addresses of a host, of which [`may_be_tried`] says which.
    Host {
        /// Its name.
        name: String,
        /// The UDP port, not 0.
        port: u16,
    },
}

/// What the field's value names for HTTP/3 in a connection with `peer`. Without a host it is the
/// same one (RFC 7838, Section 3).
pub fn alternatives(value: &str, peer: SocketAddr) -> Vec<Alternative> {
    let mut found = Vec::new();
    for alternative in split(value, b',') {
        let service = split(alternative, b';').next().unwrap_or_default();
        let authority = service.trim().strip_prefix("h3=");
        let quoted = authority.and_then(|a| a.strip_prefix('"')?.strip_suffix('"'));
        let named = quoted.and_then(|authority| one(authority, peer));
        found.extend(named.filter(|named| !found.contains(named)));
        if found.len() == MAX_ALTERNATIVES {
            break;
        }
    }
    found
}

/// What an authority names, unless that must not be tried or is the peer itself.
fn one(authority: &str, peer: SocketAddr) -> Option<Alternative> {
    let (host, port) = authority.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let addr = if host.is_empty() {
        SocketAddr::new(peer.ip(), port)
    } else if let Ok(addr) = authority.parse() {
        addr
    } else {
        return is_name(host).then(|| Alternative::Host {
            name: host.to_ascii_lowercase(),
            port,
        });
    };
    (addr != peer && may_be_tried(addr, peer)).then_some(Alternative::Address(addr))
}

/// Whether `host` is a name that can be resolved, and not an address that cannot be read.
fn is_name(host: &str) -> bool {
    host.len() <= MAX_NAME_LEN
        && host.bytes().any(|b| b.is_ascii_alphabetic())
        && host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
}

/// Splits at `separator` outside of quoted strings.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return !quoted && c == char::from(separator),
        }
        false
    })
}

/// Whether datagrams may go to `addr` on the word of a server at `peer`: not into a network that is nearer to
/// us than the server is (request forgery, RFC 9000, Section 21.5).
pub fn may_be_tried(addr: SocketAddr, peer: SocketAddr) -> bool {
    reach(addr.ip()) >= reach(peer.ip())
}

/// How far away an address can be: this host, this link, a private network, anywhere. `None`: it is no one's.
fn reach(ip: IpAddr) -> Option<u8> {
    let ip = ip.to_canonical();
    if ip.is_unspecified() || ip.is_multicast() {
        return None;
    }
    if ip.is_loopback() {
        return Some(0);
    }
    Some(match ip {
        IpAddr::V4(ip) if ip.is_broadcast() => return None,
        IpAddr::V4(ip) if ip.is_link_local() => 1,
        // Those of carriers' NATs (RFC 6598), too.
        IpAddr::V4(ip)
            if ip.is_private() || (ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64) =>
        {
            2
        }
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 1,
        IpAddr::V6(ip) if ip.is_unique_local() => 2,
        _ => 3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(value: &str, peer: &str) -> Vec<String> {
        let found = alternatives(value, peer.parse().unwrap()).into_iter();
        let text = found.map(|alternative| match alternative {
            Alternative::Address(addr) => addr.to_string(),
            Alternative::Host { name, port } => format!("{name}, {port}"),
        });
        text.collect()
    }

    #[test]
    fn addresses_of_both_families() {
        let value = r#"h3="198.51.100.1:443"; ma=86400, h3="[2001:db8::1]:8443";persist=1"#;
        let both = ["198.51.100.1:443", "[2001:db8::1]:8443"];
        assert_eq!(named(value, "192.0.2.1:443"), both);
    }

    #[test]
    fn hosts_and_ports_of_the_same_host() {
        let value = r#"h3=":8443", h3="alt.Example.com:443", h3=":443", h3="a_b-1.example:1""#;
        let found = ["192.0.2.1:8443", "alt.example.com, 443", "a_b-1.example, 1"];
        assert_eq!(named(value, "192.0.2.1:443"), found);
        let found = ["[2001:db8::9]:8443", "alt.example.com, 443"];
        assert_eq!(named(value, "[2001:db8::9]:443")[..2], found);
    }

    #[test]
    fn what_names_nothing_is_left_out() {
        for value in [
            "clear",
            "",
            ",;=,\"",
            r#"h3=":443""#,
            r#"h3=":0", h3=":65536", h3=":", h3="443", h3="example.com""#,
            r#"h3="example.com:0""#,
            r#"h3="user@example.com:443", h3="exa%6dple.com:443", h3="a b:443""#,
            r#"h3="1.2.3:443", h3="[::g]:443", h3="[fe80::1%25eth0]:443", h3="fe80::1:443""#,
            r#"h3="198.51.100.1:0""#,
            r#"h3=198.51.100.1:443"#,
            r#"h2="198.51.100.1:443""#,
            r#"h3-29="198.51.100.1:443""#,
            r#"w="a,h3=\"198.51.100.1:443\"""#,
            r#"h3="224.0.0.1:443", h3="0.0.0.0:443", h3="255.255.255.255:443", h3="[ff02::1]:443""#,
        ] {
            assert!(named(value, "127.0.0.1:443").is_empty(), "{value}");
        }
    }

    #[test]
    fn no_server_leads_into_a_nearer_network() {
        let near = [
            "127.0.0.1",
            "10.0.0.1",
            "169.254.1.1",
            "100.64.0.1",
            "[::1]",
            "[fe80::1]",
            "[fd00::1]",
            "[::ffff:192.168.0.1]",
        ];
        for ip in near {
            let value = format!(r#"h3="{ip}:443""#);
            assert!(named(&value, "192.0.2.1:443").is_empty(), "{ip}");
        }
        assert_eq!(
            named(r#"h3="10.0.1.1:443""#, "10.0.0.1:443"),
            ["10.0.1.1:443"]
        );
        assert!(named(r#"h3="127.0.0.1:443""#, "10.0.0.1:443").is_empty());
        // Nor by the name of a host.
        let peer = "192.0.2.1:443".parse().unwrap();
        assert!(!may_be_tried("10.0.0.1:443".parse().unwrap(), peer));
    }

    #[test]
    fn only_so_many_are_taken() {
        let value: Vec<_> = (0..100)
            .map(|i| format!(r#"h3="198.51.100.{i}:443""#))
            .collect();
        assert_eq!(
            named(&value.join(", "), "192.0.2.1:443").len(),
            MAX_ALTERNATIVES
        );
    }
}
