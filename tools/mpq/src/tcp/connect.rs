//! From addresses to a connection that takes requests.

use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;

use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use bytes::Bytes;
use hyper::body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::client::conn::http2;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use mpq_driver::facts::Named;
use mpq_driver::h3::client::Verify;
use sha2::Digest;
use sha2::Sha256;
use tokio::net::TcpStream;
use tokio_boring::SslStream;

use super::kernel::Kernel;
use super::kernel::Socket;

/// An HTTP/2 connection is asked whether it lives after this long without a word, and given up after this long again.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// Settings of HTTP/2 connections.
#[derive(Clone, Copy, Debug)]
pub struct Http2 {
    /// What the server may send ahead: on a stream, and on all of them. hyper's own if nothing is said.
    pub windows_bytes: Option<(u32, u32)>,
    /// The server is asked whether it lives after this long without a word.
    pub ping_after: Duration,
    /// The connection is given up if it has not answered after this long.
    pub ping_timeout: Duration,
    /// Also while nothing is asked for.
    pub pings_while_idle: bool,
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            windows_bytes: None,
            ping_after: PING_INTERVAL,
            ping_timeout: PING_INTERVAL,
            pings_while_idle: false,
        }
    }
}

/// How to reach one origin.
pub struct Connector {
    /// Its name, or address, in its certificate.
    pub host: String,
    /// How that is judged.
    pub verify: Verify,
    /// Where to go out, if the user says so.
    pub locals: Vec<Named>,
    /// TCP or MPTCP.
    pub socket: Socket,
    /// For each address, TCP and TLS together.
    pub timeout: Duration,
    /// If the server takes HTTP/2.
    pub http2: Http2,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its name says nothing.
    #[error("the server has no address")]
    NoAddress,
    /// The kernel makes no MPTCP sockets.
    #[error(
        "this kernel refuses MPTCP sockets ({0}): it needs Linux 5.6 or newer with CONFIG_MPTCP, and \
         `sysctl net.mptcp.enabled=1`; --transport tcp does without"
    )]
    NoMptcp(io::Error),
    /// What is named is of another address family.
    #[error("none of --path leads to {0}")]
    NoWay(SocketAddr),
    /// The kernel or the server refused.
    #[error("{remote} cannot be reached over {over}: {error}")]
    Unreachable {
        /// The server's address.
        remote: SocketAddr,
        /// TCP or MPTCP.
        over: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
    /// Nothing for [`Connector::timeout`].
    #[error("no answer from {remote} over {over}")]
    Timeout {
        /// The server's address.
        remote: SocketAddr,
        /// TCP or MPTCP.
        over: &'static str,
    },
    /// The handshake failed, or that of HTTP/2 after it.
    #[error("TLS with {remote} over TCP failed: {why}")]
    Tls {
        /// The server's address.
        remote: SocketAddr,
        /// In a few words.
        why: String,
    },
    /// The certificate was refused.
    #[error("TLS with {remote} over TCP failed: {why}")]
    Certificate {
        /// The server's address.
        remote: SocketAddr,
        /// In a few words.
        why: String,
    },
}

/// A connection that takes a request with a body `B`.
pub enum Sender<B> {
    /// It takes others, too.
    Http2(http2::SendRequest<B>),
    /// It is for this one.
    Http1(http1::SendRequest<B>),
}

/// A new connection.
pub struct Connected<B> {
    /// Takes the requests.
    pub sender: Sender<B>,
    /// Tells what they cost.
    pub kernel: Kernel,
}

impl Connector {
    /// A connection to the first of these addresses that answers.
    ///
    /// # Errors
    /// Why the last of them did not.
    pub async fn connect<B>(&self, remotes: &[SocketAddr]) -> Result<Connected<B>, ConnectError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut last = ConnectError::NoAddress;
        for &remote in remotes {
            match tokio::time::timeout(self.timeout, self.connect_to(remote)).await {
                Ok(Err(e @ (ConnectError::NoMptcp(_) | ConnectError::Certificate { .. }))) => {
                    return Err(e)
                }
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(e)) => last = e,
                Err(_) => {
                    last = ConnectError::Timeout {
                        remote,
                        over: self.socket.name(),
                    }
                }
            }
        }
        Err(last)
    }

    async fn connect_to<B>(&self, remote: SocketAddr) -> Result<Connected<B>, ConnectError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let tcp = self.open(remote).await?;
        // Best effort: it only makes small requests quicker.
        let _ = tcp.set_nodelay(true);
        let kernel = Kernel::of(&tcp).map_err(|e| self.unreachable(remote, e))?;

        let tls = self.encrypt(remote, tcp).await?;
        let is_http2 = tls.ssl().selected_alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(tls);
        let fail = |e: hyper::Error| ConnectError::Tls {
            remote,
            why: e.to_string(),
        };
        let sender = if is_http2 {
            let mut http2 = http2::Builder::new(TokioExecutor::new());
            http2
                .timer(TokioTimer::new())
                .keep_alive_interval(self.http2.ping_after)
                .keep_alive_timeout(self.http2.ping_timeout)
                .keep_alive_while_idle(self.http2.pings_while_idle);
            if let Some((stream, connection)) = self.http2.windows_bytes {
                http2
                    .initial_stream_window_size(stream)
                    .initial_connection_window_size(connection);
            }
            let (sender, connection) = http2.handshake(io).await.map_err(fail)?;
            tokio::spawn(async move {
                if let Err(e) = connection.await {
                    log::info!("HTTP/2 over TCP: {e}");
                }
            });
            Sender::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(fail)?;
            tokio::spawn(async move {
                if let Err(e) = connection.await {
                    log::info!("HTTP/1.1 over TCP: {e}");
                }
            });
            Sender::Http1(sender)
        };
        Ok(Connected { sender, kernel })
    }

    async fn encrypt(
        &self,
        remote: SocketAddr,
        tcp: TcpStream,
    ) -> Result<SslStream<TcpStream>, ConnectError> {
        let fail = |e: &dyn std::fmt::Display| ConnectError::Tls {
            remote,
            why: e.to_string(),
        };
        let mut connector = SslConnector::builder(SslMethod::tls()).map_err(|e| fail(&e))?;
        match &self.verify {
            Verify::System => {}
            Verify::Ca(file) => connector.set_ca_file(file).map_err(|e| fail(&e))?,
            Verify::Pin(_) | Verify::None => connector.set_verify(SslVerifyMode::NONE),
        }
        connector
            .set_alpn_protos(b"\x02h2\x08http/1.1")
            .map_err(|e| fail(&e))?;
        let config = connector.build().configure().map_err(|e| fail(&e))?;
        let tls = tokio_boring::connect(config, &self.host, tcp).await;
        let tls = tls.map_err(|e| match e.ssl().map(|ssl| ssl.verify_result()) {
            Some(Err(refused)) => ConnectError::Certificate {
                remote,
                why: refused.to_string(),
            },
            _ => fail(&e),
        })?;
        if let Verify::Pin(pin) = &self.verify {
            let certificate = tls.ssl().peer_certificate();
            let der = certificate.and_then(|certificate| certificate.to_der().ok());
            if der.is_none_or(|der| Sha256::digest(der).as_slice() != pin) {
                return Err(ConnectError::Certificate {
                    remote,
                    why: "its certificate is not the pinned one".into(),
                });
            }
        }
        Ok(tls)
    }

    /// TCP from the first of the addresses and interfaces named that gets there.
    async fn open(&self, remote: SocketAddr) -> Result<TcpStream, ConnectError> {
        let new = || {
            self.socket.open(remote).map_err(|e| match self.socket {
                Socket::Mptcp => ConnectError::NoMptcp(e),
                Socket::Tcp => self.unreachable(remote, e),
            })
        };
        if self.locals.is_empty() {
            let connected = new()?.connect(remote).await;
            return connected.map_err(|e| self.unreachable(remote, e));
        }
        let mut last = ConnectError::NoWay(remote);
        for local in &self.locals {
            let socket = new()?;
            let bound = match local {
                Named::Address(ip) if ip.is_ipv4() != remote.is_ipv4() => continue,
                Named::Address(ip) => socket.bind(SocketAddr::new(IpAddr::clone(ip), 0)),
                Named::Interface(name) => socket.bind_device(Some(name.as_bytes())),
            };
            match bound {
                Err(e) => last = self.unreachable(remote, e),
                Ok(()) => match socket.connect(remote).await {
                    Ok(stream) => return Ok(stream),
                    Err(e) => last = self.unreachable(remote, e),
                },
            }
        }
        Err(last)
    }

    fn unreachable(&self, remote: SocketAddr, error: io::Error) -> ConnectError {
        ConnectError::Unreachable {
            remote,
            over: self.socket.name(),
            error,
        }
    }
}

impl<B> Sender<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// The protocol, as it is told.
    pub fn protocol(&self) -> &'static str {
        match self {
            Sender::Http2(_) => "HTTP/2",
            Sender::Http1(_) => "HTTP/1.1",
        }
    }

    /// The protocol, as `Via` names it.
    pub fn version(&self) -> &'static str {
        match self {
            Sender::Http2(_) => "2.0",
            Sender::Http1(_) => "1.1",
        }
    }

    /// Sends a request, of which the URI is a path, to `authority`.
    ///
    /// # Errors
    /// What became of the connection.
    pub async fn send(
        self,
        mut request: Request<B>,
        authority: &str,
    ) -> Result<Response<Incoming>, String> {
        let path = request.uri().clone();
        match self {
            Sender::Http2(mut sender) => {
                let uri = format!("https://{authority}{path}");
                *request.uri_mut() = uri.parse().map_err(|_| format!("{uri} is no URL"))?;
                *request.version_mut() = hyper::Version::HTTP_2;
                sender.ready().await.map_err(|e| e.to_string())?;
                sender.send_request(request).await
            }
            Sender::Http1(mut sender) => {
                let host = authority.parse().map_err(|_| "no host".to_string())?;
                request.headers_mut().insert(hyper::header::HOST, host);
                sender.ready().await.map_err(|e| e.to_string())?;
                sender.send_request(request).await
            }
        }
        .map_err(|e| e.to_string())
    }
}
