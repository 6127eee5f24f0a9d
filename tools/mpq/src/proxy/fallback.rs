//! The way to an origin where HTTP/3 does not work: HTTP/2, or HTTP/1.1, over TLS and TCP, on one path.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use mpq_driver::facts::Named;
use mpq_driver::h3::client::Verify;
use tokio::sync::Mutex;

use crate::tcp;
use crate::tcp::Connector;
use crate::tcp::Http2;
use crate::tcp::Socket;

/// For each address, TCP and TLS together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is sent: nothing, or what the browser sends.
pub type RequestBody = Either<Empty<Bytes>, Incoming>;

/// A connection that takes a request.
pub type Sender = tcp::Sender<RequestBody>;

/// Connections over TCP to one origin.
pub struct Fallback {
    connector: Connector,
    /// One HTTP/2 connection serves all requests.
    shared: Mutex<Option<http2::SendRequest<RequestBody>>>,
}

impl Fallback {
    /// To the server that is `host` in its certificate.
    pub fn new(host: String, verify: Verify, locals: Vec<Named>) -> Fallback {
        Fallback {
            connector: Connector {
                host,
                verify,
                locals,
                socket: Socket::Tcp,
                timeout: CONNECT_TIMEOUT,
                http2: Http2::default(),
            },
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
        let connected = self.connector.connect(remotes).await;
        let sender = connected.map_err(|e| e.to_string())?.sender;
        if let Sender::Http2(sender) = &sender {
            *shared = Some(sender.clone());
        }
        Ok(sender)
    }
}
