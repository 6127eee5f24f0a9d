//! The way to an origin where HTTP/3 does not work: HTTP/2, or HTTP/1.1, over TLS and TCP, on one path.

use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Duration;

use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use bytes::Bytes;
use http_body_util::Either;
use http_body_util::Empty;
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
use tokio::net::TcpSocket;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// For each address, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP/2 connection is asked whether it lives after this long without a word, and given up after this long again.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// What is sent: nothing, or what the browser sends.
pub type RequestBody = Either<Empty<Bytes>, Incoming>;

/// Connections over TCP to one origin.
pub struct Fallback {
    host: String,
    verify: Verify,
    /// Where to go out, if the user says so.
    locals: Vec<Named>,
    /// One HTTP/2 connection serves all requests.
    shared: Mutex<Option<http2::SendRequest<RequestBody>>>,
}

/// A connection that takes a request.
pub enum Sender {
    /// It takes others, too.
    Http2(http2::SendRequest<RequestBody>),
    /// It is for this one.
    Http1(http1::SendRequest<RequestBody>),
}

impl Fallback {
    /// To the server that is `host` in its certificate.
    pub fn new(host: String, verify: Verify, locals: Vec<Named>) -> Fallback {
        Fallback {
            host,
            verify,
            locals,
            shared: Mutex::new(None),
        }
    }

    /// The connection that there is, if it can be used and nobody is just making one.
    pub fn present(&self) -> Option<Sender> {
        let shared = self.shared.try_lock().ok()?;
        let sender = shared.as_ref().filter(|sender| !sender.is_closed());
        sender.cloned().map(Sender::Http2)
    }

    /// A connection to one of these addresses.
    ///
    /// # Errors
    /// Why there is none, in a line.
    pub async fn connect(&self, remotes: &[SocketAddr]) -> Result<Sender, String> {
        let mut shared = self.shared.lock().await;
        if let Some(sender) = shared.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Sender::Http2(sender.clone()));
        }
        let mut last = String::from("the server has no address");
        for remote in remotes {
            let attempt = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_to(*remote));
            match attempt.await {
                Ok(Ok(sender)) => {
                    if let Sender::Http2(sender) = &sender {
                        *shared = Some(sender.clone());
                    }
                    return Ok(sender);
                }
                Ok(Err(why)) => last = why,
                Err(_) => last = format!("no answer from {remote} over TCP"),
            }
        }
        Err(last)
    }

    async fn connect_to(&self, remote: SocketAddr) -> Result<Sender, String> {
        let tcp = self.open(remote).await?;
        // Best effort: it only makes small requests quicker.
        let _ = tcp.set_nodelay(true);

        let fail = |e: &dyn std::fmt::Display| format!("TLS with {remote} over TCP failed: {e}");
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
        let tls = tokio_boring::connect(config, &self.host, tcp)
            .await
            .map_err(|e| fail(&e))?;
        if let Verify::Pin(pin) = &self.verify {
            let certificate = tls.ssl().peer_certificate();
            let der = certificate.and_then(|certificate| certificate.to_der().ok());
            if der.is_none_or(|der| Sha256::digest(der).as_slice() != pin) {
                return Err(fail(&"its certificate is not the pinned one"));
            }
        }

        let is_http2 = tls.ssl().selected_alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(tls);
        if is_http2 {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_INTERVAL)
                .handshake(io)
                .await
                .map_err(|e| fail(&e))?;
            tokio::spawn(async move {
                if let Err(e) = connection.await {
                    log::info!("HTTP/2 over TCP: {e}");
                }
            });
            return Ok(Sender::Http2(sender));
        }
        let (sender, connection) = http1::handshake(io).await.map_err(|e| fail(&e))?;
        tokio::spawn(async move {
            if let Err(e) = connection.await {
                log::info!("HTTP/1.1 over TCP: {e}");
            }
        });
        Ok(Sender::Http1(sender))
    }

    /// TCP from the first of the addresses and interfaces named that gets there.
    async fn open(&self, remote: SocketAddr) -> Result<TcpStream, String> {
        let fail = |e: std::io::Error| format!("{remote} cannot be reached over TCP: {e}");
        if self.locals.is_empty() {
            return TcpStream::connect(remote).await.map_err(fail);
        }
        let mut last = format!("none of --path leads to {remote}");
        for local in &self.locals {
            let socket = match remote {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            };
            let socket = socket.map_err(fail)?;
            let bound = match local {
                Named::Address(ip) if ip.is_ipv4() != remote.is_ipv4() => continue,
                Named::Address(ip) => socket.bind(SocketAddr::new(IpAddr::clone(ip), 0)),
                Named::Interface(name) => socket.bind_device(Some(name.as_bytes())),
            };
            match bound {
                Err(e) => last = fail(e),
                Ok(()) => match socket.connect(remote).await {
                    Ok(stream) => return Ok(stream),
                    Err(e) => last = fail(e),
                },
            }
        }
        Err(last)
    }
}

impl Sender {
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

    /// Sends a request to `authority`.
    ///
    /// # Errors
    /// What became of the connection.
    pub async fn send(
        self,
        mut request: Request<RequestBody>,
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
