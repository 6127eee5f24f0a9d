//! Further addresses of a server, as its responses name them: `alt-svc` (RFC 7838).
//!
//! An alternative service need not be the same host. A path to it is one more attempt that may
//! come to nothing, and no more than that: what answers has to know the connection's keys.

use std::net::IpAddr;
use std::net::SocketAddr;

/// Taken from one field; a server has no reason to name more.
const MAX_ADDRESSES: usize = 8;

/// The addresses that the field's value names for HTTP/3, and that may be tried in a connection with `peer`. Names
/// of hosts are left out: they would have to be resolved.
pub fn addresses(value: &str, peer: SocketAddr) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for alternative in split(value, b',') {
        let service = split(alternative, b';').next().unwrap_or_default();
        let Some(authority) = service.trim().strip_prefix("h3=") else {
            continue;
        };
        let Some(authority) = authority
            .strip_prefix('"')
            .and_then(|a| a.strip_suffix('"'))
        else {
            continue;
        };
        if let Ok(addr) = authority.parse::<SocketAddr>() {
            if addr.port() != 0 && is_as_public(addr.ip(), peer.ip()) && !found.contains(&addr) {
                found.push(addr);
            }
        }
        if found.len() == MAX_ADDRESSES {
            break;
        }
    }
    found
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

/// Whether datagrams may go to `ip` on the word of a server at `peer`: not into a network that is nearer to
/// us than the server is (request forgery, RFC 9000, Section 21.5).
fn is_as_public(ip: IpAddr, peer: IpAddr) -> bool {
    reach(ip) >= reach(peer)
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
        let found = addresses(value, peer.parse().unwrap());
        found.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn addresses_of_both_families() {
        let value = r#"h3="198.51.100.1:443"; ma=86400, h3="[2001:db8::1]:8443";persist=1"#;
        let both = ["198.51.100.1:443", "[2001:db8::1]:8443"];
        assert_eq!(named(value, "192.0.2.1:443"), both);
    }

    #[test]
    fn what_names_no_address_is_left_out() {
        for value in [
            "clear",
            "",
            ",;=,\"",
            r#"h3=":443""#,
            r#"h3="example.com:443""#,
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
    }

    #[test]
    fn only_so_many_are_taken() {
        let value: Vec<_> = (0..100)
            .map(|i| format!(r#"h3="198.51.100.{i}:443""#))
            .collect();
        assert_eq!(
            named(&value.join(", "), "192.0.2.1:443").len(),
            MAX_ADDRESSES
        );
    }
}
