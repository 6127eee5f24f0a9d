//! Origins with TLS over TCP, in the test's own process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::task::Context;
use std::task::Poll;

use boring::ssl::SslAcceptor;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use hyper::body::Body;
use hyper::body::Bytes;
use hyper::body::Frame;
use hyper::body::Incoming;
use hyper::body::SizeHint;
use hyper::service::service_fn;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use mpq_identity::Identity;

use super::sha256;

/// ALPN of HTTP/2 alone.
pub const H2: &[u8] = b"\x02h2";

/// An origin; it is gone when this is dropped.
pub struct Origin {
    pub address: SocketAddr,
    pub fingerprint: String,
    /// Connections so far.
    pub connections: Arc<AtomicUsize>,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Origin {
    /// Has `answer` answer to whoever connects to `listener` and takes one of `protocols`.
    pub fn start<B>(
        listener: TcpListener,
        protocols: &'static [u8],
        answer: impl Fn(Request<Incoming>) -> Response<B> + Clone + Send + 'static,
    ) -> Origin
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let identity = Identity::new(["localhost".into()]).unwrap();
        let fingerprint = sha256(identity.certificate());
        let files = identity.files().unwrap();
        let mut tls = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        tls.set_certificate_chain_file(&files.certificate).unwrap();
        tls.set_private_key_file(&files.key, SslFiletype::PEM)
            .unwrap();
        tls.set_alpn_select_callback(|_, offered| {
            boring::ssl::select_next_proto(protocols, offered).ok_or(boring::ssl::AlpnError::NOACK)
        });
        let tls = tls.build();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = connections.clone();
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let socket = tokio::net::TcpListener::from_std(listener).unwrap();
                loop {
                    let stream = tokio::select! {
                        accepted = socket.accept() => accepted.unwrap().0,
                        _ = &mut stopped => return,
                    };
                    count.fetch_add(1, Ordering::SeqCst);
                    let (tls, answer) = (tls.clone(), answer.clone());
                    tokio::spawn(async move {
                        // Who refuses the certificate has gone.
                        let Ok(stream) = tokio_boring::accept(&tls, stream).await else {
                            return;
                        };
                        let service = service_fn(move |request| {
                            let response = answer(request);
                            async { Ok::<_, Infallible>(response) }
                        });
                        let http =
                            hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                        // The client may have gone.
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Origin {
            address,
            fingerprint,
            connections,
            _stop: stop,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.address)
    }
}

/// Where a plain origin listens.
pub fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// The body of a file, of which only the first `comes` bytes ever come.
pub struct FileBody {
    content: Bytes,
    comes: usize,
    is_sent: bool,
    /// Counts those that were let go before their end.
    dropped: Arc<AtomicUsize>,
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if !self.is_sent {
            self.is_sent = true;
            return Poll::Ready(Some(Ok(Frame::data(self.content.slice(..self.comes)))));
        }
        match self.comes == self.content.len() {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.content.len() as u64)
    }
}

impl Drop for FileBody {
    fn drop(&mut self) {
        if self.comes < self.content.len() {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A request.
pub struct AskedFor {
    pub path: String,
    pub fields: hyper::HeaderMap,
    /// [`Asked::dropped`] when it came.
    pub dropped: usize,
}

/// What was asked of an origin with files, and what came of it.
#[derive(Clone, Default)]
pub struct Asked {
    /// Each request.
    pub requests: Arc<Mutex<Vec<AskedFor>>>,
    /// Bodies that were stuck, and that nobody waited for any more.
    pub dropped: Arc<AtomicUsize>,
}

impl Asked {
    /// An answer from the files in `folder`. Of the first response whose path contains `stuck` only a tenth comes.
    pub fn files(
        &self,
        folder: &Path,
        stuck: Option<&'static str>,
    ) -> impl Fn(Request<Incoming>) -> Response<FileBody> + Clone + Send + 'static {
        let (asked, folder) = (self.clone(), folder.to_owned());
        let stuck = Arc::new(Mutex::new(stuck));
        move |request| {
            let path = request.uri().path().to_owned();
            asked.requests.lock().unwrap().push(AskedFor {
                path: path.clone(),
                fields: request.headers().clone(),
                dropped: asked.dropped.load(Ordering::SeqCst),
            });
            let content = std::fs::read(folder.join(path.trim_start_matches('/')));
            let status = if content.is_ok() { 200 } else { 404 };
            let content = Bytes::from(content.unwrap_or_default());
            let mut stuck = stuck.lock().unwrap();
            let sticks = stuck.is_some_and(|part| path.contains(part));
            if sticks {
                *stuck = None;
            }
            let comes = content.len() / if sticks { 10 } else { 1 };
            let body = FileBody {
                content,
                comes,
                is_sent: false,
                dropped: asked.dropped.clone(),
            };
            Response::builder().status(status).body(body).unwrap()
        }
    }
}
