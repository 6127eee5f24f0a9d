//! One end of the link: AF_PACKET sockets on one interface.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;

use anyhow::Context;

use crate::system::check;
use crate::system::timespec_ns;

/// Frames moved by one system call.
pub const BATCH: usize = 64;

/// Bytes of a slot: one Ethernet frame, with room for tags.
pub const SLOT: usize = 2048;

const RECEIVE_BUFFER: libc::c_int = 64 << 20;
const CONTROL: usize = 128;

/// A raw packet socket bound to an interface.
pub struct Port {
    fd: OwnedFd,
}

impl Port {
    /// Opens a socket that receives what arrives at `interface` and one that sends through it.
    pub fn open_pair(interface: &str) -> anyhow::Result<(Port, Port)> {
        let name = CString::new(interface).context("an interface name holds no NUL byte")?;
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            anyhow::bail!("no interface \"{interface}\" here; `ip link` lists those of this network namespace");
        }
        let index = index as libc::c_int;
        let receive = Port::open_receiver(index).with_context(|| {
            format!("cannot receive on {interface}; packet sockets need root or CAP_NET_RAW and CAP_NET_ADMIN")
        })?;
        let send =
            Port::open_sender(index).with_context(|| format!("cannot send on {interface}"))?;
        Ok((receive, send))
    }

    fn open_receiver(index: libc::c_int) -> io::Result<Port> {
        // Protocol 0 until bound, or frames of every interface would queue up meanwhile.
        let port = Port::socket()?;
        port.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        port.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1i32)?;
        port.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        // Beyond the system limit where we may, up to it where we may not.
        port.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_BUFFER)
            .or_else(|_| port.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &RECEIVE_BUFFER))?;
        let mut promiscuous: libc::packet_mreq = unsafe { mem::zeroed() };
        promiscuous.mr_ifindex = index;
        promiscuous.mr_type = libc::PACKET_MR_PROMISC as u16;
        port.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)?;
        port.bind(index, libc::ETH_P_ALL as u16)?;
        Ok(port)
    }

    fn open_sender(index: libc::c_int) -> io::Result<Port> {
        let port = Port::socket()?;
        port.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        port.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &RECEIVE_BUFFER)
            .or_else(|_| port.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &RECEIVE_BUFFER))?;
        port.bind(index, 0)?;
        Ok(port)
    }

    fn socket() -> io::Result<Port> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        Ok(Port {
            fd: unsafe { OwnedFd::from_raw_fd(fd) },
        })
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
        let size = mem::size_of::<T>() as libc::socklen_t;
        let value = std::ptr::from_ref(value).cast();
        check(unsafe { libc::setsockopt(self.fd(), level, option, value, size) }).map(drop)
    }

    fn bind(&self, index: libc::c_int, protocol: u16) -> io::Result<()> {
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol.to_be();
        address.sll_ifindex = index;
        let size = mem::size_of_val(&address) as libc::socklen_t;
        check(unsafe { libc::bind(self.fd(), (&raw const address).cast(), size) }).map(drop)
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Frames the kernel dropped for lack of socket buffer since the last call.
    pub fn take_socket_drops(&self) -> u64 {
        let mut statistics: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut size = mem::size_of_val(&statistics) as libc::socklen_t;
        let pointer = (&raw mut statistics).cast();
        let option = libc::PACKET_STATISTICS;
        match check(unsafe {
            libc::getsockopt(self.fd(), libc::SOL_PACKET, option, pointer, &mut size)
        }) {
            Ok(_) => u64::from(statistics.tp_drops),
            Err(_) => 0,
        }
    }
}

/// One received frame.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes of the frame; more than [`SLOT`] if it did not fit.
    pub len: usize,
    /// The kernel's arrival time in nanoseconds of `CLOCK_REALTIME`, where it gave one.
    pub arrival_ns: Option<u64>,
    /// The sender left the checksum to hardware that does not exist here.
    pub unfinished_checksum: bool,
}

/// Aligned room for the control messages of one frame.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct ControlBuffer([u8; CONTROL]);

/// The arrays that `recvmmsg` and `sendmmsg` want, allocated once.
pub struct Batch {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    controls: Vec<ControlBuffer>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch {
            headers: vec![unsafe { mem::zeroed() }; BATCH],
            vectors: vec![unsafe { mem::zeroed() }; BATCH],
            controls: vec![ControlBuffer([0; CONTROL]); BATCH],
        }
    }

    /// Receives frames into the given slots of `ring`, at most [`BATCH`]; returns how many. They
    /// are described by [`Batch::received`].
    pub fn receive(&mut self, port: &Port, ring: &mut [u8], slots: &[u32]) -> io::Result<usize> {
        let n = slots.len().min(BATCH);
        for (i, slot) in slots[..n].iter().enumerate() {
            let frame = &mut ring[*slot as usize * SLOT..][..SLOT];
            self.vectors[i] = libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: SLOT,
            };
            let header = &mut self.headers[i].msg_hdr;
            header.msg_iov = &mut self.vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // MSG_TRUNC: report the true length of a frame that does not fit.
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let headers = self.headers.as_mut_ptr();
        match check(unsafe {
            libc::recvmmsg(port.fd(), headers, n as _, flags as _, std::ptr::null_mut())
        }) {
            Ok(count) => Ok(count as usize),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The `i`-th frame of the last [`Batch::receive`].
    pub fn received(&self, i: usize) -> Received {
        let header = &self.headers[i];
        let mut frame = Received {
            len: header.msg_len as usize,
            arrival_ns: None,
            unfinished_checksum: false,
        };
        // The kernel wrote the control messages and their length; each payload is copied out whole.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(&header.msg_hdr);
            while !message.is_null() {
                match ((*message).cmsg_level, (*message).cmsg_type) {
                    (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                        let time: libc::timespec =
                            std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                        frame.arrival_ns = Some(timespec_ns(&time));
                    }
                    (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                        let data: libc::tpacket_auxdata =
                            std::ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                        frame.unfinished_checksum =
                            data.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
                    }
                    _ => {}
                }
                message = libc::CMSG_NXTHDR(&header.msg_hdr, message);
            }
        }
        frame
    }

    /// Sends the frames (slot, length) from `ring`, at most [`BATCH`]; returns how many went. An
    /// error belongs to the first frame.
    pub fn send(
        &mut self,
        port: &Port,
        ring: &mut [u8],
        frames: impl Iterator<Item = (u32, usize)>,
    ) -> io::Result<usize> {
        let mut n = 0;
        for (slot, len) in frames.take(BATCH) {
            let frame = &mut ring[slot as usize * SLOT..][..len];
            self.vectors[n] = libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: len,
            };
            let header = &mut self.headers[n].msg_hdr;
            header.msg_iov = &mut self.vectors[n];
            header.msg_iovlen = 1;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            n += 1;
        }
        let headers = self.headers.as_mut_ptr();
        check(unsafe { libc::sendmmsg(port.fd(), headers, n as _, libc::MSG_DONTWAIT as _) })
            .map(|count| count as usize)
    }
}
