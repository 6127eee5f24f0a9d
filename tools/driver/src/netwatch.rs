//! Which local addresses can carry a path, and how that changes.
//!
//! The addresses are read again every second. That needs no privilege, works
//! on every kernel, and finds an address that came while no event was read.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

/// How often the addresses are read.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Interfaces that lead to containers on this host rather than to a network.
const VIRTUAL_PREFIXES: [&str; 5] = ["docker", "br-", "virbr", "veth", "cni"];

/// A local address and the interface it is on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LocalAddress {
    /// The address to send from.
    pub ip: IpAddr,

    /// The interface to send through, where that matters.
    pub device: Option<String>,
}

/// A change found by [`Watch::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressChange {
    /// The address can be used from now on.
    Up(LocalAddress),

    /// The address, or the carrier of its interface, has gone.
    Down(LocalAddress),
}

/// One address of one interface, as the system reports it.
struct Listed {
    address: LocalAddress,
    flags: InterfaceFlags,
}

/// The addresses that can reach a remote host: interface up with a carrier,
/// global scope, no loopback, no container bridge.
pub fn usable_addresses() -> std::io::Result<Vec<LocalAddress>> {
    let mut addresses: Vec<_> = listed()?
        .into_iter()
        .filter(|l| is_usable(&l.address, l.flags))
        .map(|l| l.address)
        .collect();
    addresses.sort();
    addresses.dedup();
    Ok(addresses)
}

/// The addresses of the interface called `device`, usable or not.
pub fn addresses_of(device: &str) -> std::io::Result<Vec<LocalAddress>> {
    Ok(listed()?
        .into_iter()
        .map(|l| l.address)
        .filter(|a| a.device.as_deref() == Some(device) && !is_link_local(a.ip))
        .collect())
}

/// The interface that has the address `ip`, if one has.
pub fn device_of(ip: IpAddr) -> Option<String> {
    listed()
        .ok()?
        .into_iter()
        .find(|l| l.address.ip == ip)
        .and_then(|l| l.address.device)
}

fn listed() -> std::io::Result<Vec<Listed>> {
    Ok(getifaddrs()?
        .filter_map(|entry| {
            let storage = entry.address?;
            let ip = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
                (Some(v4), _) => IpAddr::V4(v4.ip()),
                (_, Some(v6)) => IpAddr::V6(v6.ip()),
                _ => return None,
            };

            Some(Listed {
                address: LocalAddress {
                    ip,
                    device: Some(entry.interface_name),
                },
                flags: entry.flags,
            })
        })
        .collect())
}

fn is_usable(address: &LocalAddress, flags: InterfaceFlags) -> bool {
    let device = address.device.as_deref().unwrap_or_default();

    flags.contains(InterfaceFlags::IFF_UP) &&
        // Carrier and operational state, as the kernel sums them up.
        flags.contains(InterfaceFlags::IFF_RUNNING) &&
        !flags.contains(InterfaceFlags::IFF_LOOPBACK) &&
        !is_link_local(address.ip) &&
        !address.ip.is_loopback() &&
        !VIRTUAL_PREFIXES.iter().any(|p| is_virtual(device, p))
}

/// Mininet and test namespaces name real links `<host>-eth0`; only the names
/// that container runtimes generate are skipped.
fn is_virtual(device: &str, prefix: &str) -> bool {
    device
        .strip_prefix(prefix)
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_hexdigit() || c == '-'))
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// The address the kernel would use to reach `peer`.
pub fn source_for(peer: SocketAddr) -> std::io::Result<IpAddr> {
    let any: SocketAddr = if peer.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0u16; 8], 0).into()
    };
    // Connecting a UDP socket looks the route up and sends nothing.
    let probe = std::net::UdpSocket::bind(any)?;
    probe.connect(peer)?;
    Ok(probe.local_addr()?.ip())
}

/// Follows the set of usable addresses.
pub struct Watch {
    known: Vec<LocalAddress>,
    next: Instant,
}

impl Watch {
    /// Starts from `known`, at `now`.
    pub fn new(known: Vec<LocalAddress>, now: Instant) -> Watch {
        Watch {
            known,
            next: now + INTERVAL,
        }
    }

    /// When [`Watch::poll`] next has something to do.
    pub fn deadline(&self) -> Instant {
        self.next
    }

    /// The changes since the last call, at most once per [`INTERVAL`].
    pub fn poll(&mut self, now: Instant) -> Vec<AddressChange> {
        if now < self.next {
            return Vec::new();
        }
        self.next = now + INTERVAL;

        match usable_addresses() {
            Ok(current) => self.update(current),
            Err(e) => {
                log::debug!("cannot list the addresses: {e}");
                Vec::new()
            }
        }
    }

    fn update(&mut self, current: Vec<LocalAddress>) -> Vec<AddressChange> {
        let gone = self
            .known
            .iter()
            .filter(|a| !current.contains(a))
            .cloned()
            .map(AddressChange::Down);
        let new = current
            .iter()
            .filter(|a| !self.known.contains(a))
            .cloned()
            .map(AddressChange::Up);
        let changes = gone.chain(new).collect();
        self.known = current;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str, device: &str) -> LocalAddress {
        LocalAddress {
            ip: ip.parse().unwrap(),
            device: Some(device.into()),
        }
    }

    #[test]
    fn only_addresses_that_lead_somewhere_are_usable() {
        let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let usable = |ip, device, flags| is_usable(&address(ip, device), flags);

        assert!(usable("192.0.2.1", "eth0", up));
        assert!(usable("2001:db8::1", "wlan0", up));
        assert!(usable("10.0.0.1", "veth-left", up), "a test's own link");
        assert!(
            !usable("192.0.2.1", "eth0", InterfaceFlags::IFF_UP),
            "no carrier"
        );
        assert!(!usable("192.0.2.1", "eth0", InterfaceFlags::IFF_RUNNING));
        assert!(!usable(
            "127.0.0.2",
            "lo",
            up | InterfaceFlags::IFF_LOOPBACK
        ));
        assert!(!usable("fe80::1", "eth0", up));
        assert!(!usable("169.254.1.1", "eth0", up));
        assert!(!usable("172.17.0.1", "docker0", up));
        assert!(!usable("172.18.0.1", "br-0a1b2c3d4e5f", up));
        assert!(!usable("10.1.1.1", "veth12ab34c", up));
    }

    #[test]
    fn changes_are_reported_once() {
        let a = address("192.0.2.1", "eth0");
        let b = address("198.51.100.1", "wlan0");
        let mut watch = Watch::new(vec![a.clone()], Instant::now());

        assert_eq!(
            watch.update(vec![a.clone(), b.clone()]),
            [AddressChange::Up(b.clone())]
        );
        assert_eq!(watch.update(vec![b.clone()]), [AddressChange::Down(a)]);
        assert_eq!(watch.update(vec![b]), []);
    }

    #[test]
    fn loopback_is_listed_with_its_interface() {
        assert_eq!(
            device_of("127.0.0.1".parse().unwrap()).as_deref(),
            Some("lo")
        );
        assert_eq!(device_of("203.0.113.77".parse().unwrap()), None);
    }
}
