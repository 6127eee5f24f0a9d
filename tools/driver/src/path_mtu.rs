//! What the interfaces carry at once: where it is more than Ethernet does, paths are asked for it.

use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;

use rustix::net::sockopt;
use socket2::Domain;
use socket2::Protocol;
use socket2::Socket;
use socket2::Type;

/// What IP and UDP put before a payload, in bytes.
fn header_bytes(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// The largest UDP payload that the kernel sends from `local` to `peer` in one piece, in bytes, by the route it knows
/// (`ip(7)`, `IP_MTU`). A socket of its own finds out, as only a connected one has a route. `device` is what the path's
/// socket is bound to.
pub(crate) fn largest_payload(
    local: IpAddr,
    peer: SocketAddr,
    device: Option<&str>,
) -> io::Result<usize> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
    if let Some(device) = device {
        // Where that is not allowed, source addresses select the route for the path, too.
        let _ = socket.bind_device(Some(device.as_bytes()));
    }
    socket.bind(&SocketAddr::new(local, 0).into())?;
    socket.connect(&peer.into())?;
    let mtu = match peer {
        SocketAddr::V4(_) => sockopt::ip_mtu(&socket)?,
        SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket)?,
    };
    Ok((mtu as usize).saturating_sub(header_bytes(peer.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::UdpSocket;

    #[test]
    fn as_large_as_the_interface_says() {
        // The MTU of loopback is not the same everywhere.
        let mtu: usize = std::fs::read_to_string("/sys/class/net/lo/mtu")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        for (ip, headers) in [("127.0.0.1", 28), ("::1", 48)] {
            let ip: IpAddr = ip.parse().unwrap();
            // A machine without IPv6 has no such address.
            let Ok(peer) = UdpSocket::bind((ip, 0)) else {
                assert!(ip.is_ipv6());
                continue;
            };
            let peer = peer.local_addr().unwrap();
            let most = mtu - headers;
            // An IPv4 packet has 65,535 bytes at most, one less than the usual MTU.
            let bytes = largest_payload(ip, peer, None).unwrap();
            assert!((most - 1..=most).contains(&bytes), "{ip}: {bytes} of {mtu}");
        }
    }

    #[test]
    fn no_such_address() {
        let (local, peer) = ("192.0.2.1", "127.0.0.1:1");
        assert!(largest_payload(local.parse().unwrap(), peer.parse().unwrap(), None).is_err());
    }
}
