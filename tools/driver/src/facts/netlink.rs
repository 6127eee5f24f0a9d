//! What the kernel says of interfaces, addresses and routes, and that something changed, by netlink
//! (rtnetlink(7)). Needs no privilege.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::time::Duration;
use std::time::Instant;

use netlink_packet_core::NetlinkHeader;
use netlink_packet_core::NetlinkMessage;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_core::NLM_F_REQUEST;
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::address::AddressFlags;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::InfoKind;
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::link::LinkFlags;
use netlink_packet_route::link::LinkInfo;
use netlink_packet_route::link::LinkLayerType;
use netlink_packet_route::link::LinkMessage;
use netlink_packet_route::route::RouteAttribute;
use netlink_packet_route::route::RouteMessage;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::Socket;
use netlink_sys::SocketAddr;

use super::Interface;
use super::Listed;

/// How long the kernel may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Groups of rtnetlink(7): links, and addresses and routes of both families.
const GROUPS: [u32; 5] = [1, 5, 9, 7, 11];

/// Everything that has an address.
pub(super) fn list() -> io::Result<Vec<Listed>> {
    let mut interfaces: Vec<Interface> = Vec::new();
    dump(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        |message| {
            if let RouteNetlinkMessage::NewLink(link) = message {
                interfaces.push(interface(&link));
            }
        },
    )?;

    // Interface, family, metric.
    let mut defaults: Vec<(u32, bool, u32)> = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut route = RouteMessage::default();
        route.header.address_family = family;
        dump(RouteNetlinkMessage::GetRoute(route), |message| {
            if let RouteNetlinkMessage::NewRoute(route) = message {
                default_route(&route, &mut defaults);
            }
        })?;
    }

    let mut listed = Vec::new();
    dump(
        RouteNetlinkMessage::GetAddress(AddressMessage::default()),
        |message| {
            let RouteNetlinkMessage::NewAddress(address) = message else {
                return;
            };
            let known = interfaces.iter().find(|i| i.index == address.header.index);
            if let (Some(interface), Some(ip)) = (known, usable_ip(&address)) {
                let metrics = defaults.iter().filter(|(index, is_ipv4, _)| {
                    *index == interface.index && *is_ipv4 == ip.is_ipv4()
                });
                listed.push(Listed {
                    ip,
                    interface: interface.clone(),
                    metric: metrics.map(|(.., metric)| *metric).min(),
                });
            }
        },
    )?;
    Ok(listed)
}

fn interface(link: &LinkMessage) -> Interface {
    let mut interface = Interface {
        index: link.header.index,
        name: String::new(),
        is_up: link.header.flags.contains(LinkFlags::Up)
            // Carrier and operational state, as the kernel sums them up.
            && link.header.flags.contains(LinkFlags::Running),
        is_loopback: link.header.flags.contains(LinkFlags::Loopback),
        // What tun, WireGuard and most other tunnels of layer 3 have.
        is_tunnel: matches!(
            link.header.link_layer_type,
            LinkLayerType::None
                | LinkLayerType::Tunnel
                | LinkLayerType::Tunnel6
                | LinkLayerType::Sit
        ),
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::LinkInfo(infos) => {
                interface.is_tunnel |= infos.iter().any(|info| {
                    matches!(
                        info,
                        LinkInfo::Kind(
                            InfoKind::Tun | InfoKind::Wireguard | InfoKind::Xfrm | InfoKind::Vti
                        )
                    )
                });
            }
            _ => {}
        }
    }
    interface
}

fn default_route(route: &RouteMessage, defaults: &mut Vec<(u32, bool, u32)>) {
    if route.header.destination_prefix_length != 0 {
        return;
    }
    let is_ipv4 = route.header.address_family == AddressFamily::Inet;
    let mut index = None;
    let mut metric = 0;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(oif) => index = Some(*oif),
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::MultiPath(hops) => {
                defaults.extend(
                    hops.iter()
                        .map(|hop| (hop.interface_index, is_ipv4, metric)),
                );
            }
            _ => {}
        }
    }
    defaults.extend(index.map(|index| (index, is_ipv4, metric)));
}

/// The address, unless it is not ready or not to be used for what is new (RFC 4862).
fn usable_ip(address: &AddressMessage) -> Option<IpAddr> {
    let mut ip = None;
    let mut local = None;
    for attribute in &address.attributes {
        match attribute {
            // The peer's, where there is a local one.
            AddressAttribute::Address(address) => ip = Some(*address),
            AddressAttribute::Local(address) => local = Some(*address),
            AddressAttribute::Flags(flags) => {
                let not_ready =
                    AddressFlags::Tentative | AddressFlags::Dadfailed | AddressFlags::Deprecated;
                if flags.intersects(not_ready) {
                    return None;
                }
            }
            _ => {}
        }
    }
    local.or(ip)
}

/// Asks the kernel for all there is of a kind.
fn dump(request: RouteNetlinkMessage, mut each: impl FnMut(RouteNetlinkMessage)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_non_blocking(true)?;

    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_DUMP | NLM_F_REQUEST;
    header.sequence_number = 1;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;

    let deadline = Instant::now() + PATIENCE;
    loop {
        wait_readable(&socket, deadline)?;
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
            // Aligned to four bytes.
            let len = (message.header.length as usize).next_multiple_of(4).max(16);
            rest = rest.get(len..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(e) => return Err(e.to_io()),
                NetlinkPayload::InnerMessage(message) => each(message),
                _ => {}
            }
        }
    }
}

fn wait_readable(socket: &Socket, deadline: Instant) -> io::Result<()> {
    use nix::poll::poll;
    use nix::poll::PollFd;
    use nix::poll::PollFlags;
    use nix::poll::PollTimeout;
    use std::os::fd::AsFd;

    let left = deadline.saturating_duration_since(Instant::now());
    let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
    match poll(
        &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
        timeout,
    )? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Says that something changed, not what: it is read anew, so that nothing depends on no message
/// being lost.
pub(super) struct Subscription {
    socket: Socket,
}

impl Subscription {
    pub(super) fn new() -> io::Result<Subscription> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Subscription { socket })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Reads all that was said, so that the next word is heard.
    pub(super) fn drain(&self) {
        loop {
            match self.socket.recv_from_full() {
                Ok(_) => {}
                // Too much was said, and messages are lost.
                Err(e) if e.raw_os_error() == Some(nix::libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }
}
