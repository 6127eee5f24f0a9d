//! Moves bytes through one QUIC stream over two UDP sockets on loopback and
//! prints as JSON what that took. It is built against two versions of quiche,
//! so it uses only what both have, but for `--trains`, which ours alone has.
//!
//! Both ends are in one thread and take turns, so that there is no waiting:
//! wall time is CPU time, but for what else the machine does.

use std::io::ErrorKind;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use nix::sys::resource::getrusage;
use nix::sys::resource::UsageWho;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;

const DATAGRAM_BYTES: usize = 1350;

/// What one `sendmsg` may carry, and as much as the stream is ahead.
const TRAIN_BYTES: usize = 48 * DATAGRAM_BYTES;

const WINDOW_BYTES: u64 = 16 << 20;

/// The first stream that a server may open by itself.
const STREAM: u64 = 3;

/// Nothing may be lost or late here, so a stall is an error.
const STALL: Duration = Duration::from_secs(5);

struct End {
    quic: quiche::Connection,
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    train: Vec<u8>,
    message: Vec<u8>,
    datagrams: u64,
    trains: bool,
}

/// Writes more datagrams like the last one; returns how many bytes they take.
#[cfg(feature = "trains")]
fn send_train(quic: &mut quiche::Connection, out: &mut [u8]) -> usize {
    quic.send_train(out).unwrap_or(0)
}

#[cfg(not(feature = "trains"))]
fn send_train(_: &mut quiche::Connection, _: &mut [u8]) -> usize {
    0
}

impl End {
    fn new(quic: quiche::Connection, socket: UdpSocket, trains: bool) -> anyhow::Result<End> {
        Ok(End {
            quic,
            state: UdpSocketState::new((&socket).into())?,
            local: socket.local_addr()?,
            socket,
            train: vec![0; TRAIN_BYTES],
            message: vec![0; 1 << 16],
            datagrams: 0,
            trains,
        })
    }

    /// Sends one train; returns whether there was anything to send.
    fn send(&mut self) -> anyhow::Result<bool> {
        let (mut end, mut segment, mut to) = (0, None, self.local);
        while end + DATAGRAM_BYTES <= self.train.len() {
            let slot = &mut self.train[end..end + DATAGRAM_BYTES];
            let (len, info) = match self.quic.send(slot) {
                Ok(sent) => sent,
                Err(quiche::Error::Done) => break,
                Err(e) => return Err(e.into()),
            };
            to = info.to;
            end += len;
            self.datagrams += 1;
            // Only the last datagram of a train may be shorter than the first.
            if len < *segment.get_or_insert(len) {
                break;
            }
            if self.trains {
                let more = send_train(&mut self.quic, &mut self.train[end..]);
                end += more;
                self.datagrams += more.div_ceil(len) as u64;
                if more % len != 0 {
                    break;
                }
            }
        }
        let Some(segment) = segment else {
            return Ok(false);
        };

        self.state.send(
            (&self.socket).into(),
            &Transmit {
                destination: to,
                ecn: None,
                contents: &self.train[..end],
                segment_size: (end > segment).then_some(segment),
                src_ip: None,
            },
        )?;
        Ok(true)
    }

    /// Takes all that has arrived; returns whether that was anything.
    fn recv(&mut self) -> anyhow::Result<bool> {
        let mut any = false;
        loop {
            let mut meta = [RecvMeta::default()];
            let received = self.state.recv(
                (&self.socket).into(),
                &mut [IoSliceMut::new(&mut self.message)],
                &mut meta,
            );
            match received {
                Ok(_) => any = true,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(e) => return Err(e.into()),
            }

            let [meta] = meta;
            let info = quiche::RecvInfo {
                from: meta.addr,
                to: self.local,
            };
            for datagram in self.message[..meta.len].chunks_mut(meta.stride.max(1)) {
                self.quic.recv(datagram, info)?;
            }
        }
    }
}

fn config() -> anyhow::Result<quiche::Config> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"loopback"])?;
    config.verify_peer(false);
    config.set_max_idle_timeout(10_000);
    config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
    config.set_max_recv_udp_payload_size(DATAGRAM_BYTES);
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(WINDOW_BYTES);
    config.set_max_connection_window(WINDOW_BYTES);
    config.set_max_stream_window(WINDOW_BYTES);
    config.set_initial_max_streams_uni(1);
    Ok(config)
}

/// A server's configuration with a certificate made on the spot.
fn server_config() -> anyhow::Result<quiche::Config> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let dir = tempfile::tempdir()?;
    let mut config = config()?;

    // quiche reads PEM from files only.
    let write = |name: &str, pem: String| -> anyhow::Result<String> {
        let file = dir.path().join(name);
        std::fs::write(&file, pem)?;
        file.into_os_string()
            .into_string()
            .ok()
            .context("the temporary directory's name is not UTF-8")
    };
    config.load_cert_chain_from_pem_file(&write("cert.pem", made.cert.pem())?)?;
    config.load_priv_key_from_pem_file(&write("key.pem", made.signing_key.serialize_pem())?)?;
    Ok(config)
}

/// Two connections that know each other, before the handshake.
fn pair(trains: bool) -> anyhow::Result<(End, End)> {
    let client = UdpSocket::bind("127.0.0.1:0")?;
    let server = UdpSocket::bind("127.0.0.1:0")?;
    for socket in [&client, &server] {
        socket.set_nonblocking(true)?;
    }
    let (c, s) = (client.local_addr()?, server.local_addr()?);

    let cid = |byte| quiche::ConnectionId::from_vec(vec![byte; 16]);
    let client_quic = quiche::connect(None, &cid(1), c, s, &mut config()?)?;
    let server_quic = quiche::accept(&cid(2), None, s, c, &mut server_config()?)?;
    Ok((
        End::new(client_quic, client, trains)?,
        End::new(server_quic, server, trains)?,
    ))
}

/// User and system time of this process.
fn cpu_time() -> anyhow::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let micros = |t: nix::sys::time::TimeVal| {
        Duration::from_micros((t.tv_sec() * 1_000_000 + t.tv_usec()) as u64)
    };
    Ok(micros(usage.user_time()) + micros(usage.system_time()))
}

/// Lets both ends send, receive and time out once.
fn turn(server: &mut End, client: &mut End) -> anyhow::Result<bool> {
    let mut any = false;
    for end in [&mut *server, &mut *client] {
        if end
            .quic
            .timeout_instant()
            .is_some_and(|at| at <= Instant::now())
        {
            end.quic.on_timeout();
        }
    }
    any |= server.send()?;
    any |= client.recv()?;
    any |= client.send()?;
    any |= server.recv()?;
    Ok(any)
}

fn run(bytes: u64, trains: bool) -> anyhow::Result<()> {
    let (mut client, mut server) = pair(trains)?;
    let begun = Instant::now();
    while !server.quic.is_established() || !client.quic.is_established() {
        turn(&mut server, &mut client)?;
        ensure!(begun.elapsed() < STALL, "the handshake does not end");
    }

    let data = vec![0x5a; TRAIN_BYTES];
    let mut chunk = vec![0; 1 << 16];
    let (mut ahead, mut written, mut read) = (0, 0, 0);
    let (started, cpu_before) = (Instant::now(), cpu_time()?);
    let mut moved_at = started;
    while read < bytes {
        if ahead == 0 && written < bytes {
            let len = (bytes - written).min(data.len() as u64) as usize;
            match server.quic.stream_send(STREAM, &data[..len], false) {
                Ok(n) => {
                    written += n as u64;
                    ahead += n;
                }
                Err(quiche::Error::Done) => {}
                Err(e) => return Err(e.into()),
            }
        }
        let any = turn(&mut server, &mut client)?;

        let mut got = 0;
        while let Ok((n, _)) = client.quic.stream_recv(STREAM, &mut chunk) {
            got += n;
        }
        read += got as u64;
        ahead = ahead.saturating_sub(got);
        if any || got > 0 {
            moved_at = Instant::now();
        } else if moved_at.elapsed() > STALL {
            bail!("stalled after {read} of {bytes} bytes");
        }
    }
    let (seconds, cpu) = (started.elapsed(), cpu_time()? - cpu_before);

    println!(
        "{{\"bytes\": {read}, \"seconds\": {:.6}, \"cpu_seconds\": {:.6}, \
         \"datagrams\": {}, \"lost\": {}}}",
        seconds.as_secs_f64(),
        cpu.as_secs_f64(),
        server.datagrams,
        server.quic.stats().lost,
    );
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let usage = "usage: loopback BYTES [--trains]";
    let mut words = std::env::args().skip(1);
    let bytes = words.next().and_then(|text| text.parse().ok());
    let trains = match words.next().as_deref() {
        None => false,
        Some("--trains") if cfg!(feature = "trains") => true,
        Some("--trains") => bail!("this quiche writes no trains"),
        Some(_) => bail!(usage),
    };
    run(bytes.context(usage)?, trains)
}
