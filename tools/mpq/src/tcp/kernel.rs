//! TCP and MPTCP sockets, and what the kernel tells of their connections (tcp(7); linux/mptcp.h, Linux 5.16).

use std::ffi::c_int;
use std::io;
use std::mem::size_of;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use socket2::Domain;
use socket2::Protocol;
use socket2::SockRef;
use socket2::Type;
use tokio::net::TcpSocket;
use tokio::net::TcpStream;

const SOL_MPTCP: c_int = 284;
const MPTCP_INFO: c_int = 1;
const MPTCP_TCPINFO: c_int = 2;
const MPTCP_SUBFLOW_ADDRS: c_int = 3;

/// `MPTCP_INFO_FLAG_FALLBACK` of `mptcpi_flags`.
const FLAG_FALLBACK: u32 = 1;

/// Bytes of `struct mptcp_subflow_data`.
const SUBFLOW_HEAD_BYTES: usize = 16;
/// Bytes of `struct mptcp_subflow_addrs`: two `sockaddr_storage`.
const SUBFLOW_ADDRS_BYTES: usize = 256;
/// Bytes of `struct tcp_info` that are read here; `tcpi_bytes_sent` is the last of them.
const TCP_INFO_BYTES: usize = 208;
/// More than any limit of the kernel's path manager.
const MOST_SUBFLOWS: usize = 16;

/// What sockets are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// TCP.
    Tcp,
    /// MPTCP version 1 (RFC 8684), which becomes TCP if the server does not answer to it.
    Mptcp,
}

impl Socket {
    /// Its protocol, as it is told.
    pub fn name(self) -> &'static str {
        match self {
            Socket::Tcp => "TCP",
            Socket::Mptcp => "MPTCP",
        }
    }

    /// A new one that can connect to `remote`.
    pub fn open(self, remote: SocketAddr) -> io::Result<TcpSocket> {
        let protocol = match self {
            Socket::Tcp => Protocol::TCP,
            Socket::Mptcp => Protocol::MPTCP,
        };
        let socket =
            socket2::Socket::new(Domain::for_address(remote), Type::STREAM, Some(protocol))?;
        socket.set_nonblocking(true)?;
        Ok(TcpSocket::from_std_stream(socket.into()))
    }
}

/// What a TCP connection, or a subflow of an MPTCP connection, has carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// TCP payload.
    pub recv_bytes: u64,
    /// TCP payload, repeated bytes included.
    pub sent_bytes: u64,
    /// Smoothed.
    pub rtt: Duration,
    /// Segments of ours that were sent again.
    pub resent: u64,
}

/// The kernel's side of a connection.
pub struct Kernel(socket2::Socket);

impl Kernel {
    /// Of this connection, which stays open as long as this is there.
    pub fn of(stream: &TcpStream) -> io::Result<Kernel> {
        SockRef::from(stream).try_clone().map(Kernel)
    }

    /// Whether both hosts do MPTCP on it: a connection that became plain TCP has no such option.
    pub fn is_mptcp(&self) -> bool {
        let mut info = [0; 16];
        let flags = self.option(SOL_MPTCP, MPTCP_INFO, &mut info);
        flags.is_ok_and(|length| length >= 12 && u32_at(&info, 8) & FLAG_FALLBACK == 0)
    }

    /// Its subflows, or the one of plain TCP.
    pub fn flows(&self) -> io::Result<Vec<Flow>> {
        match self.is_mptcp() {
            true => self.subflows(),
            false => {
                let mut info = [0; TCP_INFO_BYTES];
                self.option(libc::IPPROTO_TCP, libc::TCP_INFO, &mut info)?;
                let ends = |address: socket2::SockAddr| address.as_socket();
                let ends = (ends(self.0.local_addr()?), ends(self.0.peer_addr()?));
                let (Some(local), Some(peer)) = ends else {
                    return Err(io::ErrorKind::Unsupported.into());
                };
                Ok(vec![flow(local, peer, &info)])
            }
        }
    }

    fn subflows(&self) -> io::Result<Vec<Flow>> {
        let ends = self.of_each_subflow(MPTCP_SUBFLOW_ADDRS, SUBFLOW_ADDRS_BYTES)?;
        let infos = self.of_each_subflow(MPTCP_TCPINFO, TCP_INFO_BYTES)?;
        // One may have come or gone between the two calls.
        if ends.len() != infos.len() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let flows = ends.iter().zip(&infos).filter_map(|(ends, info)| {
            let (local, peer) = ends.split_at(SUBFLOW_ADDRS_BYTES / 2);
            Some(flow(address(local)?, address(peer)?, info))
        });
        Ok(flows.collect())
    }

    /// `bytes` of what an option says of each subflow.
    fn of_each_subflow(&self, name: c_int, bytes: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut buffer = vec![0; SUBFLOW_HEAD_BYTES + MOST_SUBFLOWS * bytes];
        // size_subflow_data, and size_user: the other two are the kernel's.
        buffer[..4].copy_from_slice(&(SUBFLOW_HEAD_BYTES as u32).to_ne_bytes());
        buffer[12..16].copy_from_slice(&(bytes as u32).to_ne_bytes());
        self.option(SOL_MPTCP, name, &mut buffer)?;
        let count = (u32_at(&buffer, 4) as usize).min(MOST_SUBFLOWS);
        let rows = buffer[SUBFLOW_HEAD_BYTES..].chunks_exact(bytes);
        Ok(rows.take(count).map(<[u8]>::to_vec).collect())
    }

    /// Reads a socket option into `value`, and returns how much it has.
    fn option(&self, level: c_int, name: c_int, value: &mut [u8]) -> io::Result<usize> {
        let mut length = value.len() as libc::socklen_t;
        // SAFETY: the kernel writes `length` bytes at most, which is what `value` has.
        let done = unsafe {
            let value = value.as_mut_ptr().cast();
            libc::getsockopt(self.0.as_raw_fd(), level, name, value, &mut length)
        };
        match done {
            0 => Ok(length as usize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// From a `struct tcp_info`.
fn flow(local: SocketAddr, peer: SocketAddr, info: &[u8]) -> Flow {
    Flow {
        local,
        peer,
        recv_bytes: u64_at(info, 128),
        sent_bytes: u64_at(info, 200),
        rtt: Duration::from_micros(u32_at(info, 68).into()),
        resent: u32_at(info, 100).into(),
    }
}

/// From a `sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes([bytes[0], bytes[1]]);
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip = match family.into() {
        libc::AF_INET => IpAddr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?),
        libc::AF_INET6 => IpAddr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; size_of::<u32>()];
    word.copy_from_slice(&bytes[at..at + size_of::<u32>()]);
    u32::from_ne_bytes(word)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; size_of::<u64>()];
    word.copy_from_slice(&bytes[at..at + size_of::<u64>()]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Read;
    use std::io::Write;
    use std::net::TcpListener;

    /// A connection of this kind to a listener of plain TCP that sends 5000 bytes, and the listener's end.
    fn connected(kind: Socket) -> io::Result<(Kernel, SocketAddr, std::net::TcpStream)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let remote = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let stream = runtime.block_on(async { kind.open(remote)?.connect(remote).await })?;
        let kernel = Kernel::of(&stream)?;
        let mut stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        let (mut served, _) = listener.accept()?;
        served.write_all(&[7; 5000])?;
        stream.write_all(&[1; 3])?;
        stream.read_exact(&mut [0; 5000])?;
        Ok((kernel, remote, served))
    }

    #[test]
    fn the_kernel_says_what_a_connection_has_carried() {
        let (kernel, remote, _served) = connected(Socket::Tcp).unwrap();
        assert!(!kernel.is_mptcp());
        let flows = kernel.flows().unwrap();
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].peer, remote);
        assert_eq!((flows[0].recv_bytes, flows[0].sent_bytes), (5000, 3));
        assert!(flows[0].rtt > Duration::ZERO);
    }

    #[test]
    fn who_does_not_answer_to_mptcp_is_found_out() {
        match connected(Socket::Mptcp) {
            Ok((kernel, remote, _served)) => {
                assert!(!kernel.is_mptcp());
                assert_eq!(kernel.flows().unwrap()[0].peer, remote);
            }
            // A kernel without it says so at once.
            Err(e) => assert!(
                !std::fs::read_to_string("/proc/sys/net/mptcp/enabled")
                    .is_ok_and(|value| value.trim() == "1"),
                "{e}"
            ),
        }
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        for text in ["192.0.2.7:4433", "[2001:db8::7]:443"] {
            let expected: SocketAddr = text.parse().unwrap();
            let written = socket2::SockAddr::from(expected);
            // SAFETY: a socket address is that many bytes.
            let bytes = unsafe {
                let length = written.len() as usize;
                std::slice::from_raw_parts(written.as_ptr().cast::<u8>(), length)
            };
            assert_eq!(address(bytes), Some(expected));
        }
        assert_eq!(address(&[0; 128]), None);
    }
}
