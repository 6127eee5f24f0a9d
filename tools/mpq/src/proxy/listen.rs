//! Loopback sockets, and HTTP on them.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use boring::ssl::select_next_proto;
use boring::ssl::AlpnError;
use boring::ssl::SslAcceptor;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use hyper::service::service_fn;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::server::graceful::Watcher;
use tokio::net::TcpListener;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Proxy;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::USAGE;

/// Browsers use six a host; one that takes all must not take others' memory.
const MAX_CONNECTIONS: usize = 512;

/// Of a request, together; a larger one is answered with status 431.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// Fields of a request.
const MAX_FIELDS: usize = 200;

/// Requests at a time on an HTTP/2 connection.
const MAX_STREAMS: u32 = 100;

/// What an HTTP/2 stream to a slow browser holds.
const STREAM_BUFFER_BYTES: usize = 256 << 10;

/// A header has to be complete by then.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// TLS has to be agreed by then.
const TLS_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the proxy listens.
pub struct Listeners {
    sockets: Vec<TcpListener>,
    tls: Option<SslAcceptor>,
}

/// An address on loopback.
///
/// # Errors
/// If it is another one.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "must be an address and a port, as in 127.0.0.1:8080")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("must be on loopback: who reaches the proxy uses your networks".into()),
    }
}

impl Listeners {
    /// Binds `addresses`, or what they default to, for TLS with a certificate chain and a key if they are given.
    ///
    /// # Errors
    /// If an address is taken, or a file is not what it should be.
    pub async fn bind(
        addresses: &[SocketAddr],
        tls: Option<(&Path, &Path)>,
    ) -> Result<Listeners, Failure> {
        let fail = |address: &SocketAddr, e: io::Error| {
            Failure::new(
                NETWORK,
                format!("cannot listen on {address}: {e}; choose another with --listen"),
            )
        };
        let default = SocketAddr::from(([127, 0, 0, 1], 8080));
        let mut sockets = Vec::new();
        for address in addresses {
            let bound = TcpListener::bind(address).await;
            sockets.push(bound.map_err(|e| fail(address, e))?);
        }
        if sockets.is_empty() {
            let bound = TcpListener::bind(default).await;
            sockets.push(bound.map_err(|e| fail(&default, e))?);
            // Browsers try it first for `localhost`. Not every host has it.
            let six = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), default.port());
            match TcpListener::bind(six).await {
                Ok(socket) => sockets.push(socket),
                Err(e) => log::info!("not listening on {six}: {e}"),
            }
        }
        Ok(Listeners {
            sockets,
            tls: match tls {
                None => None,
                Some((cert, key)) => Some(acceptor(cert, key)?),
            },
        })
    }

    /// The addresses, as bound.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.sockets.iter().map(TcpListener::local_addr);
        bound.filter_map(Result::ok).collect()
    }

    /// Serves all that connect, as long as it is polled.
    pub async fn serve(self, proxy: Arc<Proxy>, graceful: &GracefulShutdown) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let (found, mut streams) = mpsc::channel(1);
        let loops = self.sockets.into_iter();
        let loops = loops.map(|socket| tokio::spawn(accept(socket, room.clone(), found.clone())));
        let _loops = Accepting(loops.collect());
        while let Some((stream, permit)) = streams.recv().await {
            let (proxy, tls, graceful) = (proxy.clone(), self.tls.clone(), graceful.watcher());
            tokio::spawn(async move {
                serve(stream, tls, proxy, graceful).await;
                drop(permit);
            });
        }
    }
}

/// Tasks that end with it.
struct Accepting(Vec<JoinHandle<()>>);

impl Drop for Accepting {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

/// Passes on what connects to a socket, while there is room.
async fn accept(
    socket: TcpListener,
    room: Arc<Semaphore>,
    found: mpsc::Sender<(TcpStream, OwnedSemaphorePermit)>,
) {
    // It is never closed.
    while let Ok(permit) = room.clone().acquire_owned().await {
        match socket.accept().await {
            Ok((stream, _)) => {
                if found.send((stream, permit)).await.is_err() {
                    return;
                }
            }
            Err(e) => {
                // Out of files: others have to close theirs.
                log::warn!("accepting: {e}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, tls: Option<SslAcceptor>, proxy: Arc<Proxy>, graceful: Watcher) {
    // Best effort.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let proxy = proxy.clone();
        async move { Ok::<_, Infallible>(proxy.serve(request).await) }
    });
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_HEADER_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES as u32)
        .max_send_buf_size(STREAM_BUFFER_BYTES);
    let result = match tls {
        None => {
            let connection = http.serve_connection(TokioIo::new(stream), service);
            graceful.watch(connection.into_owned()).await
        }
        Some(tls) => {
            let handshake = tokio::time::timeout(TLS_TIMEOUT, tokio_boring::accept(&tls, stream));
            let Ok(Ok(stream)) = handshake.await else {
                log::info!("a browser did not agree on TLS");
                return;
            };
            let connection = http.serve_connection(TokioIo::new(stream), service);
            graceful.watch(connection.into_owned()).await
        }
    };
    if let Err(e) = result {
        log::info!("a connection of a browser: {e}");
    }
}

fn acceptor(cert: &Path, key: &Path) -> Result<SslAcceptor, Failure> {
    let fail = |e: boring::error::ErrorStack| Failure::new(LOCAL, e);
    let mut tls = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).map_err(fail)?;
    tls.set_certificate_chain_file(cert)
        .map_err(|e| Failure::new(USAGE, format!("{}: {e}", cert.display())))?;
    tls.set_private_key_file(key, SslFiletype::PEM)
        .map_err(|e| Failure::new(USAGE, format!("{}: {e}", key.display())))?;
    tls.set_alpn_select_callback(|_, offered| {
        select_next_proto(b"\x02h2\x08http/1.1", offered).ok_or(AlpnError::NOACK)
    });
    Ok(tls.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback() {
        for good in ["127.0.0.1:8080", "127.9.9.9:0", "[::1]:1"] {
            assert!(parse_listen(good).is_ok(), "{good}");
        }
        for bad in [
            "0.0.0.0:8080",
            "[::]:1",
            "192.0.2.1:1",
            "localhost:1",
            "8080",
        ] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
    }
}
