//! What this host says of its addresses, interfaces and routes, for the path manager.
//!
//! Read by netlink, which also tells when something changes; where that is not allowed, the
//! addresses are read again every second.

mod netlink;

use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Event;
use mpq_decision::paths::Local;
use mpq_decision::paths::LocalAddr;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::net::if_::InterfaceFlags;

use netlink::Subscription;

/// How often all is read again without news, and what nobody tells of (`rp_filter`) with them.
const POLL_WITHOUT_NEWS: Duration = Duration::from_secs(1);

/// See [`POLL_WITHOUT_NEWS`].
const POLL_WITH_NEWS: Duration = Duration::from_secs(5);

/// News come in bursts: an interface that comes up has a dozen.
const SETTLE: Duration = Duration::from_millis(20);

/// Interfaces that lead to containers on this host rather than to a network.
const VIRTUAL_PREFIXES: [&str; 5] = ["docker", "br-", "virbr", "veth", "cni"];

/// An interface.
#[derive(Clone, Debug)]
struct Interface {
    index: u32,
    name: String,
    /// Up, and with a carrier.
    is_up: bool,
    is_loopback: bool,
    is_tunnel: bool,
}

/// One address of one interface.
#[derive(Clone, Debug)]
struct Listed {
    ip: IpAddr,
    interface: Interface,
    /// Of the interface's default route of this family.
    metric: Option<u32>,
}

/// What the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// This address, wherever it is.
    Address(IpAddr),
    /// Every address of this interface, whenever it has one.
    Interface(String),
}

impl Named {
    /// An address, or else the name of an interface.
    pub fn parse(text: &str) -> Named {
        match text.parse() {
            Ok(ip) => Named::Address(ip),
            Err(_) => Named::Interface(text.to_owned()),
        }
    }

    fn is(&self, listed: &Listed) -> bool {
        match self {
            Named::Address(ip) => listed.ip == *ip,
            Named::Interface(name) => listed.interface.name == *name,
        }
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Named::Address(ip) => ip.fmt(f),
            Named::Interface(name) => f.write_str(name),
        }
    }
}

/// Which addresses are reported, and what the user says of them.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these, in the order of preference; empty means all that lead to a network.
    pub only: Vec<Named>,
    /// These cost money, besides those that the system knows.
    pub metered: Vec<Named>,
    /// These stand by.
    pub standby: Vec<Named>,
}

impl Selection {
    fn fact(&self, listed: &Listed) -> Option<LocalAddr> {
        let Interface {
            index,
            name,
            is_up,
            is_tunnel,
            ..
        } = &listed.interface;
        let named = self.only.iter().position(|named| named.is(listed));
        if named.is_none() && (!self.only.is_empty() || !leads_to_a_network(listed)) {
            return None;
        }
        if is_link_local(listed.ip) && !self.only.contains(&Named::Address(listed.ip)) {
            return None;
        }
        let is_any = |list: &[Named]| list.iter().any(|named| named.is(listed));
        let local = Local {
            if_index: *index,
            ip: listed.ip,
        };
        Some(LocalAddr {
            interface: name.clone(),
            up: *is_up,
            metric: listed.metric,
            tunnel: *is_tunnel,
            metered: is_any(&self.metered) || is_mobile(name),
            standby: is_any(&self.standby),
            named: named.map(|at| at as u32),
            strict_rp_filter: listed.ip.is_ipv4() && has_strict_rp_filter(name),
            ..LocalAddr::new(local, name)
        })
    }

    /// The facts of all that is selected, in a fixed order.
    fn facts(&self, listed: &[Listed]) -> Vec<LocalAddr> {
        let mut facts: Vec<_> = listed.iter().filter_map(|l| self.fact(l)).collect();
        // The kernel lets us send from all of 127.0.0.0/8, and lists one of them.
        for (at, named) in self.only.iter().enumerate() {
            if let Named::Address(ip) = named {
                if ip.is_loopback() && !facts.iter().any(|fact| fact.local.ip == *ip) {
                    let if_index = if_nametoindex("lo").unwrap_or(0);
                    let local = Local { if_index, ip: *ip };
                    facts.push(LocalAddr {
                        named: Some(at as u32),
                        standby: self.standby.contains(named),
                        metered: self.metered.contains(named),
                        ..LocalAddr::new(local, "lo")
                    });
                }
            }
        }
        facts.sort_by_key(|fact| (fact.named, fact.local));
        facts.dedup_by_key(|fact| fact.local);
        facts
    }
}

/// Everything that has an address, by netlink or else by getifaddrs(3), which knows no routes.
fn list() -> io::Result<Vec<Listed>> {
    netlink::list().or_else(|e| {
        log::debug!("no netlink ({e}): asking getifaddrs");
        list_without_netlink()
    })
}

fn list_without_netlink() -> io::Result<Vec<Listed>> {
    let listed = getifaddrs()?.filter_map(|entry| {
        let storage = entry.address?;
        let ip = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => return None,
        };
        let both = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        Some(Listed {
            ip,
            interface: Interface {
                index: if_nametoindex(entry.interface_name.as_str()).unwrap_or(0),
                name: entry.interface_name,
                is_up: entry.flags.contains(both),
                is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
                is_tunnel: entry.flags.contains(InterfaceFlags::IFF_POINTOPOINT),
            },
            metric: None,
        })
    });
    Ok(listed.collect())
}

fn leads_to_a_network(listed: &Listed) -> bool {
    let name = &listed.interface.name;
    !listed.interface.is_loopback
        && !listed.ip.is_loopback()
        && !is_link_local(listed.ip)
        && !VIRTUAL_PREFIXES.iter().any(|p| is_virtual(name, p))
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

/// Whether the kernel says that the interface is a mobile modem.
fn is_mobile(interface: &str) -> bool {
    std::fs::read_to_string(format!("/sys/class/net/{interface}/uevent"))
        .is_ok_and(|text| text.lines().any(|line| line == "DEVTYPE=wwan"))
}

/// Whether the kernel drops what comes in on the interface from where it would not send to by it
/// (RFC 3704; the stricter of the settings of the interface and of all holds).
fn has_strict_rp_filter(interface: &str) -> bool {
    let value = |name: &str| -> u8 {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    };
    value(interface).max(value("all")) == 1
}

/// The address the kernel would use to reach `peer`.
pub fn source_for(peer: SocketAddr) -> io::Result<IpAddr> {
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

/// Follows what is selected.
pub struct Facts {
    selection: Selection,
    subscription: Option<Subscription>,
    known: Vec<LocalAddr>,
    /// Of all addresses, to find routes.
    listed: Vec<Listed>,
    next: Instant,
}

impl Facts {
    /// Reads what there is, at `now`.
    ///
    /// # Errors
    /// If the system tells nothing of its interfaces.
    pub fn new(selection: Selection, now: Instant) -> io::Result<Facts> {
        let subscription = Subscription::new()
            .map_err(|e| log::debug!("no news by netlink ({e}): looking every second"))
            .ok();
        let listed = list()?;
        let mut facts = Facts {
            known: selection.facts(&listed),
            selection,
            subscription,
            listed,
            next: now,
        };
        facts.next = now + facts.pause();
        Ok(facts)
    }

    /// What is readable when there is news, if anything tells.
    pub fn fd(&self) -> Option<RawFd> {
        self.subscription.as_ref().map(Subscription::fd)
    }

    /// What is known now.
    pub fn addresses(&self) -> &[LocalAddr] {
        &self.known
    }

    /// What the user named and is not there.
    pub fn missing(&self) -> impl Iterator<Item = &Named> + '_ {
        self.selection
            .only
            .iter()
            .enumerate()
            .filter_map(|(at, named)| {
                let is_there = self.known.iter().any(|fact| fact.named == Some(at as u32));
                (!is_there).then_some(named)
            })
    }

    /// By which interface the kernel sends to `remote`.
    pub fn route(&self, remote: SocketAddr) -> Event {
        Event::Route {
            remote,
            if_index: self.interface_to(remote),
        }
    }

    /// The index of the interface by which the kernel sends to `remote`.
    pub fn interface_to(&self, remote: SocketAddr) -> Option<u32> {
        self.source(remote).map(|listed| listed.interface.index)
    }

    /// The address that the kernel sends from to `remote`, if it is none of those that lead to a
    /// network, as with a container on this host.
    pub fn other_source(&self, remote: SocketAddr) -> Option<LocalAddr> {
        let listed = self.source(remote)?;
        let local = Local {
            if_index: listed.interface.index,
            ip: listed.ip,
        };
        let is_new = self.selection.only.is_empty() && self.known.iter().all(|k| k.local != local);
        is_new.then(|| LocalAddr::new(local, &listed.interface.name))
    }

    fn source(&self, remote: SocketAddr) -> Option<&Listed> {
        let ip = source_for(remote).ok()?;
        self.listed.iter().find(|listed| listed.ip == ip)
    }

    /// When [`Facts::poll`] next has something to do without news.
    pub fn deadline(&self) -> Instant {
        self.next
    }

    /// The changes since the last call, if there may be any; `has_news` if [`Facts::fd`] became
    /// readable.
    pub fn poll(&mut self, now: Instant, has_news: bool) -> Vec<Event> {
        if let Some(subscription) = self.subscription.as_ref().filter(|_| has_news) {
            subscription.drain();
            self.next = self.next.min(now + SETTLE);
        }
        if now < self.next {
            return Vec::new();
        }
        self.next = now + self.pause();

        match list() {
            Ok(listed) => {
                self.listed = listed;
                self.update(self.selection.facts(&self.listed))
            }
            Err(e) => {
                log::debug!("cannot list the addresses: {e}");
                Vec::new()
            }
        }
    }

    fn pause(&self) -> Duration {
        match self.subscription {
            Some(_) => POLL_WITH_NEWS,
            None => POLL_WITHOUT_NEWS,
        }
    }

    fn update(&mut self, current: Vec<LocalAddr>) -> Vec<Event> {
        let is_there = |fact: &&LocalAddr| current.iter().any(|c| c.local == fact.local);
        let gone = self.known.iter().filter(|fact| !is_there(fact));
        let gone = gone.map(|fact| Event::LocalGone(fact.local));
        let new = current.iter().filter(|fact| !self.known.contains(fact));
        let new = new.map(|fact| Event::LocalAddr(fact.clone()));
        let changes = gone.chain(new).collect();
        self.known = current;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(ip: &str, device: &str) -> Listed {
        Listed {
            ip: ip.parse().unwrap(),
            interface: Interface {
                index: u32::from(device.as_bytes()[0]),
                name: device.into(),
                is_up: true,
                is_loopback: device == "lo",
                is_tunnel: false,
            },
            metric: None,
        }
    }

    fn facts(selection: Selection) -> Facts {
        Facts {
            selection,
            subscription: None,
            known: Vec::new(),
            listed: Vec::new(),
            next: Instant::now(),
        }
    }

    #[test]
    fn only_addresses_that_lead_somewhere_are_reported() {
        let all = Selection::default();
        let is_reported = |ip, device| all.fact(&listed(ip, device)).is_some();

        assert!(is_reported("192.0.2.1", "eth0"));
        assert!(is_reported("2001:db8::1", "wlan0"));
        assert!(is_reported("10.0.0.1", "veth-left"), "a test's own link");
        assert!(!is_reported("127.0.0.1", "lo"));
        assert!(!is_reported("fe80::1", "eth0"));
        assert!(!is_reported("169.254.1.1", "eth0"));
        assert!(!is_reported("172.17.0.1", "docker0"));
        assert!(!is_reported("172.18.0.1", "br-0a1b2c3d4e5f"));
        assert!(!is_reported("10.1.1.1", "veth12ab34c"));
    }

    #[test]
    fn what_is_named_is_reported_in_that_order() {
        let selection = Selection {
            only: ["wlan0", "127.0.0.9", "docker0"].map(Named::parse).into(),
            metered: vec![Named::parse("wlan0")],
            standby: vec![Named::parse("127.0.0.9")],
        };
        let all = [
            listed("192.0.2.1", "eth0"),
            listed("172.17.0.1", "docker0"),
            listed("198.51.100.1", "wlan0"),
            listed("2001:db8::1", "wlan0"),
            listed("fe80::1", "wlan0"),
        ];
        let facts = selection.facts(&all);
        let got: Vec<_> = facts
            .iter()
            .map(|f| (f.local.ip.to_string(), f.named, f.metered, f.standby))
            .collect();
        let want = [
            ("198.51.100.1", Some(0), true, false),
            ("2001:db8::1", Some(0), true, false),
            ("127.0.0.9", Some(1), false, true),
            ("172.17.0.1", Some(2), false, false),
        ]
        .map(|(ip, named, metered, standby)| (ip.to_owned(), named, metered, standby));
        assert_eq!(got, want);
    }

    #[test]
    fn changes_are_reported_once() {
        let mut facts = facts(Selection::default());
        let a = LocalAddr::new(
            Local {
                if_index: 1,
                ip: [192, 0, 2, 1].into(),
            },
            "eth0",
        );
        let b = LocalAddr::new(
            Local {
                if_index: 2,
                ip: [192, 0, 3, 1].into(),
            },
            "wlan0",
        );
        let down = LocalAddr {
            up: false,
            ..b.clone()
        };

        let both = vec![a.clone(), b.clone()];
        assert_eq!(facts.update(vec![a.clone()]), [Event::LocalAddr(a.clone())]);
        assert_eq!(facts.update(both), [Event::LocalAddr(b)]);
        assert_eq!(
            facts.update(vec![down.clone()]),
            [Event::LocalGone(a.local), Event::LocalAddr(down.clone())]
        );
        assert_eq!(facts.update(vec![down]), []);
    }

    #[test]
    fn netlink_and_getifaddrs_agree() {
        let addresses = |listed: Vec<Listed>| -> Vec<_> {
            let mut all: Vec<_> = listed
                .into_iter()
                // Those of IPv6 may be tentative for a moment.
                .filter(|l| l.ip.is_ipv4())
                .map(|l| (l.ip, l.interface.index, l.interface.name, l.interface.is_up))
                .collect();
            all.sort();
            all
        };
        let by_netlink = addresses(netlink::list().unwrap());
        assert!(by_netlink
            .iter()
            .any(|(ip, _, name, _)| ip.is_loopback() && name == "lo"));
        assert_eq!(by_netlink, addresses(list_without_netlink().unwrap()));
    }
}
