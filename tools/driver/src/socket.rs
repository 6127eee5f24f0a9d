//! One UDP socket, with segmentation offload and a queue for the datagrams
//! that the kernel does not take yet.

use std::collections::VecDeque;
use std::io;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;

use quiche::EcnCodepoint;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSockRef;
use quinn_udp::UdpSocketState;
use socket2::Domain;
use socket2::Protocol;
use socket2::Socket as RawSocket;
use socket2::Type;

use crate::conn_key::ConnKey;
use crate::MAX_DATAGRAM_BYTES;

/// The largest UDP payload one `sendmsg` with segmentation offload may carry.
pub(crate) const MAX_TRAIN_BYTES: usize = 65_507;

/// The kernel's limit of segments in one GSO send (`UDP_MAX_SEGMENTS`).
const MAX_TRAIN_SEGMENTS: usize = 64;

/// How many messages one `recvmmsg` may return.
const RECV_BATCH: usize = quinn_udp::BATCH_SIZE;

/// Room for one message of coalesced datagrams.
const RECV_MESSAGE_BYTES: usize = 65_536;

static SMALL_BUFFER_REPORTED: AtomicBool = AtomicBool::new(false);

/// How a socket is set up.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// Asked for as `SO_SNDBUF` and `SO_RCVBUF`, in bytes.
    pub buffer_bytes: usize,

    /// Use segmentation offload where the kernel has it.
    pub gso: bool,

    /// The largest UDP payload that is looked for where the MTU of an interface
    /// has room for it, in bytes, at most [`MAX_DATAGRAM_BYTES`].
    pub max_datagram_bytes: usize,
}

impl Default for SocketOptions {
    fn default() -> Self {
        SocketOptions {
            buffer_bytes: 8 << 20,
            gso: true,
            max_datagram_bytes: MAX_DATAGRAM_BYTES,
        }
    }
}

/// Datagrams of equal size (the last may be shorter) from one connection, to
/// one peer address, through one socket.
#[derive(Debug)]
pub(crate) struct Train {
    pub conn: ConnKey,
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub segment_bytes: usize,
    /// What its datagrams are marked with.
    pub ecn: EcnCodepoint,
    /// When the first datagram may leave.
    pub release: Instant,
    /// The datagrams are `buf[start..end]`.
    pub buf: Vec<u8>,
    pub start: usize,
    pub end: usize,
}

/// How sending has gone, over all sockets of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendStats {
    /// Calls that handed datagrams to the kernel.
    pub sends: u64,

    /// Datagrams handed to the kernel.
    pub datagrams: u64,

    /// Times the kernel had no room and datagrams had to wait.
    pub blocked: u64,
}

impl std::ops::Add for SendStats {
    type Output = SendStats;

    fn add(self, other: SendStats) -> SendStats {
        SendStats {
            sends: self.sends + other.sends,
            datagrams: self.datagrams + other.datagrams,
            blocked: self.blocked + other.blocked,
        }
    }
}

/// What became of a train handed to the socket.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The kernel has all of it.
    All(Train),

    /// The kernel is full; the train waits in the socket's queue.
    Queued,

    /// The local address or the route is gone. The train is not sent.
    LinkDown(Train, io::Error),
}

/// A bound, non-blocking UDP socket.
pub(crate) struct Socket {
    io: RawSocket,
    state: UdpSocketState,
    local: SocketAddr,
    device: Option<String>,
    gso: bool,
    /// Datagrams that met EAGAIN, oldest first.
    queue: VecDeque<Train>,
    send_error_reported: bool,
    pub stats: SendStats,
}

impl Socket {
    /// Binds to `local` and, if given, to the interface `device`.
    ///
    /// Binding to a device needs privileges on older kernels; where the kernel
    /// refuses, the source address alone has to select the route.
    pub fn bind(
        local: SocketAddr,
        device: Option<&str>,
        options: &SocketOptions,
    ) -> io::Result<Socket> {
        let io = RawSocket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;

        if local.is_ipv6() {
            // Otherwise a wildcard socket would take the IPv4 one's port.
            io.set_only_v6(true)?;
        }

        if let Some(device) = device {
            if let Err(e) = io.bind_device(Some(device.as_bytes())) {
                log::info!(
                    "cannot bind {local} to interface {device}: {e}; \
                     relying on source-address routing"
                );
            }
        }

        grow_buffers(&io, options.buffer_bytes);
        io.bind(&local.into())?;

        let state = UdpSocketState::new(UdpSockRef::from(&io))?;
        let local = io
            .local_addr()?
            .as_socket()
            .ok_or(io::ErrorKind::AddrNotAvailable)?;

        Ok(Socket {
            io,
            state,
            local,
            device: device.map(str::to_owned),
            gso: options.gso,
            queue: VecDeque::new(),
            send_error_reported: false,
            stats: SendStats::default(),
        })
    }

    /// The bound address, with the port the kernel chose.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The interface that it was to be bound to.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Whether the socket takes datagrams for every local address.
    pub fn is_wildcard(&self) -> bool {
        self.local.ip().is_unspecified()
    }

    /// How many datagrams of `segment_bytes` one train may hold.
    pub fn max_segments(&self, segment_bytes: usize) -> usize {
        if !self.gso {
            return 1;
        }

        self.state
            .max_gso_segments()
            .min(MAX_TRAIN_SEGMENTS)
            .min(MAX_TRAIN_BYTES / segment_bytes.max(1))
            .max(1)
    }

    /// Whether datagrams wait for the kernel.
    pub fn is_blocked(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends `train`, or queues it behind those that already wait.
    pub fn send(&mut self, mut train: Train) -> Sent {
        if self.is_blocked() {
            self.queue.push_back(train);
            return Sent::Queued;
        }

        match self.try_send(&mut train) {
            Ok(()) => Sent::All(train),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.queue.push_back(train);
                Sent::Queued
            }
            Err(e) => Sent::LinkDown(train, e),
        }
    }

    /// Sends the oldest queued train.
    ///
    /// `None` means that the queue is empty or the kernel still full.
    pub fn send_queued(&mut self) -> Option<Sent> {
        let mut train = self.queue.pop_front()?;
        match self.try_send(&mut train) {
            Ok(()) => Some(Sent::All(train)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.queue.push_front(train);
                None
            }
            Err(e) => Some(Sent::LinkDown(train, e)),
        }
    }

    /// On `WouldBlock`, `train` keeps only what has not been sent. Any other
    /// error returned means that the link is down.
    fn try_send(&mut self, train: &mut Train) -> io::Result<()> {
        let src_ip: Option<IpAddr> = self.is_wildcard().then_some(train.from.ip());

        while train.start < train.end {
            let room = self.max_segments(train.segment_bytes);
            let len = (room * train.segment_bytes).min(train.end - train.start);
            let transmit = Transmit {
                destination: train.to,
                ecn: marked_with(train.ecn),
                contents: &train.buf[train.start..train.start + len],
                segment_size: (len > train.segment_bytes).then_some(train.segment_bytes),
                src_ip,
            };

            match self.state.try_send(UdpSockRef::from(&self.io), &transmit) {
                Ok(()) => {
                    self.stats.sends += 1;
                    self.stats.datagrams += len.div_ceil(train.segment_bytes) as u64;
                    train.start += len;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.stats.blocked += 1;
                    return Err(e);
                }
                // quinn-udp has just turned segmentation off: again, singly.
                Err(_)
                    if len > train.segment_bytes
                        && self.max_segments(train.segment_bytes) < room => {}
                Err(e) if is_link_down(&e) => return Err(e),
                Err(e) => {
                    // The rest (EMSGSIZE for a path MTU probe, EPERM from a
                    // firewall, ENOBUFS) is a loss like any other to QUIC.
                    if !self.send_error_reported && e.raw_os_error() != Some(nix::libc::EMSGSIZE) {
                        self.send_error_reported = true;
                        log::warn!(
                            "cannot send from {} to {}: {e}; treated as loss",
                            train.from,
                            train.to
                        );
                    }
                    train.start += len;
                }
            }
        }

        Ok(())
    }

    /// Receives one batch into `buf` and calls `each` with every datagram, the
    /// sender's address, the local address it was sent to and what it was
    /// marked with.
    ///
    /// Returns false once the kernel has nothing more.
    pub fn recv(
        &self,
        buf: &mut RecvBuffer,
        mut each: impl FnMut(&mut [u8], SocketAddr, SocketAddr, EcnCodepoint),
    ) -> io::Result<bool> {
        let mut slices: [IoSliceMut; RECV_BATCH] = {
            let mut chunks = buf.data.chunks_exact_mut(RECV_MESSAGE_BYTES);
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()))
        };

        let n = match self
            .state
            .recv(UdpSockRef::from(&self.io), &mut slices, &mut buf.meta)
        {
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                return Ok(false);
            }
            Err(e) => return Err(e),
        };

        for (meta, message) in buf.meta.iter().zip(slices.iter_mut()).take(n) {
            let mut to = self.local;
            if let (true, Some(ip)) = (self.is_wildcard(), meta.dst_ip) {
                to.set_ip(ip);
            }

            for datagram in message[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(datagram, meta.addr, to, seen(meta.ecn));
            }
        }

        Ok(true)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.io.as_raw_fd()
    }
}

fn marked_with(ecn: EcnCodepoint) -> Option<quinn_udp::EcnCodepoint> {
    quinn_udp::EcnCodepoint::from_bits(ecn as u8)
}

fn seen(ecn: Option<quinn_udp::EcnCodepoint>) -> EcnCodepoint {
    EcnCodepoint::from_bits(ecn.map_or(0, |ecn| ecn as u8))
}

/// Memory for one batch of received messages, shared by all sockets.
pub(crate) struct RecvBuffer {
    data: Vec<u8>,
    meta: [RecvMeta; RECV_BATCH],
}

impl RecvBuffer {
    pub fn new() -> RecvBuffer {
        RecvBuffer {
            data: vec![0; RECV_BATCH * RECV_MESSAGE_BYTES],
            meta: [RecvMeta::default(); RECV_BATCH],
        }
    }
}

/// Buffers of trains, kept for reuse.
#[derive(Default)]
pub(crate) struct BufferPool(Vec<Vec<u8>>);

impl BufferPool {
    const MAX_SPARE: usize = 64;

    /// A train, and room for the datagram that turns out not to belong to it.
    const BUFFER_BYTES: usize = MAX_TRAIN_BYTES + MAX_DATAGRAM_BYTES;

    pub fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; Self::BUFFER_BYTES])
    }

    pub fn put(&mut self, buf: Vec<u8>) {
        if self.0.len() < Self::MAX_SPARE {
            self.0.push(buf);
        }
    }
}

/// Errors that mean the local address or its route has gone. EINVAL is what Linux says about a source address that
/// the host does not have any more; for a train it may mean something else, but trains are tried again singly.
fn is_link_down(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(
            nix::libc::ENETUNREACH
                | nix::libc::EHOSTUNREACH
                | nix::libc::EADDRNOTAVAIL
                | nix::libc::EINVAL
                | nix::libc::ENODEV
                | nix::libc::ENETDOWN
        )
    )
}

/// Asks for `bytes` of buffer both ways and says so, once, if the kernel gives
/// less than half of it.
fn grow_buffers(io: &RawSocket, bytes: usize) {
    for (name, set, get) in [
        (
            "rmem_max",
            io.set_recv_buffer_size(bytes),
            io.recv_buffer_size(),
        ),
        (
            "wmem_max",
            io.set_send_buffer_size(bytes),
            io.send_buffer_size(),
        ),
    ] {
        // The kernel reports twice what it was given, for its own overhead.
        let given = match set.and(get) {
            Ok(doubled) => doubled / 2,
            Err(_) => 0,
        };

        if given < bytes / 2 && !SMALL_BUFFER_REPORTED.swap(true, Ordering::Relaxed) {
            log::info!(
                "the kernel gives a socket buffer of {given} bytes, {bytes} \
                 were asked for; raise it with: sysctl -w net.core.{name}={bytes}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    fn pair(options: &SocketOptions) -> (Socket, Socket) {
        let any = "127.0.0.1:0".parse().unwrap();
        (
            Socket::bind(any, None, options).unwrap(),
            Socket::bind(any, None, &SocketOptions::default()).unwrap(),
        )
    }

    fn train(from: SocketAddr, to: SocketAddr, segment_bytes: usize, data: &[u8]) -> Train {
        Train {
            conn: ConnKey::default(),
            from,
            to,
            segment_bytes,
            ecn: EcnCodepoint::NotEct,
            release: Instant::now(),
            buf: data.to_vec(),
            start: 0,
            end: data.len(),
        }
    }

    /// Receives until `count` datagrams have come or five seconds have passed.
    fn receive(socket: &Socket, count: usize) -> Vec<Vec<u8>> {
        let mut buf = RecvBuffer::new();
        let mut got = Vec::new();
        let end = Instant::now() + Duration::from_secs(5);
        while got.len() < count && Instant::now() < end {
            socket
                .recv(&mut buf, |datagram, _, to, _| {
                    assert_eq!(to, socket.local());
                    got.push(datagram.to_vec());
                })
                .unwrap();
        }
        got
    }

    #[test]
    fn a_train_arrives_as_its_datagrams() {
        for gso in [true, false] {
            let (mut a, b) = pair(&SocketOptions {
                gso,
                ..Default::default()
            });

            // 10 segments of 1000 bytes and one of 17.
            let data: Vec<u8> = (0..10_017u32).map(|i| (i / 1000) as u8).collect();
            let sent = a.send(train(a.local(), b.local(), 1000, &data));
            assert!(matches!(sent, Sent::All(_)));

            let got = receive(&b, 11);
            assert_eq!(got.len(), 11);
            for (i, datagram) in got.iter().enumerate() {
                assert_eq!(datagram.len(), if i < 10 { 1000 } else { 17 });
                assert!(datagram.iter().all(|&byte| byte == i as u8));
            }
        }
    }

    #[test]
    fn marks_arrive() {
        let options = SocketOptions::default();
        for local in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no such address.
            let Ok(mut a) = Socket::bind(local.parse().unwrap(), None, &options) else {
                assert!(local.starts_with('['));
                continue;
            };
            let b = Socket::bind(local.parse().unwrap(), None, &options).unwrap();
            let all = [
                EcnCodepoint::NotEct,
                EcnCodepoint::Ect0,
                EcnCodepoint::Ce,
                EcnCodepoint::Ect1,
            ];
            for ecn in all {
                // Three segments, which the kernel may join again.
                let data = [7; 3000];
                a.send(Train {
                    ecn,
                    ..train(a.local(), b.local(), 1000, &data)
                });
                let mut seen = Vec::new();
                let mut buf = RecvBuffer::new();
                let end = Instant::now() + Duration::from_secs(5);
                while seen.len() < 3 && Instant::now() < end {
                    b.recv(&mut buf, |_, _, _, ecn| seen.push(ecn)).unwrap();
                }
                assert_eq!(seen, [ecn; 3], "{local}");
            }
        }
    }

    #[test]
    fn a_wildcard_socket_reports_and_uses_the_right_address() {
        let options = SocketOptions::default();
        let mut server = Socket::bind("0.0.0.0:0".parse().unwrap(), None, &options).unwrap();
        let mut client = Socket::bind("127.0.0.1:0".parse().unwrap(), None, &options).unwrap();
        let to: SocketAddr = ([127, 0, 0, 77], server.local().port()).into();

        client.send(train(client.local(), to, 5, b"hello"));

        let mut seen = None;
        let mut buf = RecvBuffer::new();
        while seen.is_none() {
            server
                .recv(&mut buf, |_, from, to, _| seen = Some((from, to)))
                .unwrap();
        }
        assert_eq!(seen, Some((client.local(), to)));

        server.send(train(to, client.local(), 2, b"ok"));
        let mut from = None;
        while from.is_none() {
            client.recv(&mut buf, |_, f, _, _| from = Some(f)).unwrap();
        }
        assert_eq!(from, Some(to));
    }

    #[test]
    fn only_a_lost_route_or_address_is_a_dead_link() {
        for (errno, dead) in [
            (nix::libc::ENETUNREACH, true),
            (nix::libc::EADDRNOTAVAIL, true),
            (nix::libc::EINVAL, true),
            (nix::libc::EMSGSIZE, false),
            (nix::libc::EPERM, false),
            (nix::libc::EAGAIN, false),
        ] {
            assert_eq!(is_link_down(&io::Error::from_raw_os_error(errno)), dead);
        }
    }

    /// In a namespace of its own, which takes root: with an address that the test can take away.
    #[test]
    fn a_removed_address_is_a_dead_link() {
        use nix::sched::CloneFlags;

        fn ip(arguments: &str) {
            let status = std::process::Command::new("ip")
                .args(arguments.split(' '))
                .status()
                .unwrap();
            assert!(status.success(), "ip {arguments}");
        }

        if let Err(e) = nix::sched::unshare(CloneFlags::CLONE_NEWNET) {
            eprintln!("skipped: needs a network namespace: {e}");
            return;
        }
        ip("link set lo up");
        ip("addr add 192.0.2.1/32 dev lo");
        ip("-6 addr add 2001:db8::1/128 dev lo nodad");

        // A socket that is bound to an IPv6 address goes on without it.
        for (bound, address, removed, peer) in [
            (
                "192.0.2.1:0",
                "192.0.2.1",
                "addr del 192.0.2.1/32 dev lo",
                "127.0.0.1:9",
            ),
            (
                "0.0.0.0:0",
                "192.0.2.1",
                "addr del 192.0.2.1/32 dev lo",
                "127.0.0.1:9",
            ),
            (
                "[::]:0",
                "2001:db8::1",
                "-6 addr del 2001:db8::1/128 dev lo",
                "[::1]:9",
            ),
        ] {
            for gso in [true, false] {
                let mut socket = Socket::bind(
                    bound.parse().unwrap(),
                    None,
                    &SocketOptions {
                        gso,
                        ..Default::default()
                    },
                )
                .unwrap();
                let peer = peer.parse().unwrap();
                let from = SocketAddr::new(address.parse().unwrap(), socket.local().port());
                let sent = socket.send(train(from, peer, 1000, &[0; 3000]));
                assert!(matches!(sent, Sent::All(_)), "{sent:?}");

                ip(removed);
                let sent = socket.send(train(from, peer, 1000, &[0; 3000]));
                assert!(
                    matches!(sent, Sent::LinkDown(..)),
                    "{bound}, gso {gso}: {sent:?}"
                );
                // Else an IPv6 address is of no use until the kernel found the time to mark it as such.
                let nodad = if removed.starts_with("-6") {
                    " nodad"
                } else {
                    ""
                };
                ip(&(removed.replace(" del ", " add ") + nodad));
            }
        }
    }

    #[test]
    fn a_full_kernel_buffer_queues_and_loses_nothing() {
        let (mut a, b) = pair(&SocketOptions {
            // The kernel's floor, a few datagrams.
            buffer_bytes: 1,
            gso: false,
            ..Default::default()
        });
        let mut queued = 0;
        let mut sent = 0;
        // Nobody reads meanwhile, but loopback delivers at once, so EAGAIN is
        // forced by marking the socket as blocked.
        a.queue
            .push_back(train(a.local(), b.local(), 100, &[0; 100]));
        for i in 1..20u8 {
            match a.send(train(a.local(), b.local(), 100, &[i; 100])) {
                Sent::Queued => queued += 1,
                other => panic!("overtook the queue: {other:?}"),
            }
        }
        while let Some(Sent::All(_)) = a.send_queued() {
            sent += 1;
        }
        assert_eq!((queued, sent), (19, 20));
        let got = receive(&b, 20);
        assert!(got.iter().map(|d| d[0]).eq(0..20), "order is kept");
    }
}
