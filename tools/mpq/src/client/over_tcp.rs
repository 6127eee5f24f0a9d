//! Requests over HTTP/2 on one connection to each server, over TCP or MPTCP, with the same sinks as those over HTTP/3.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use ::url::Url;
use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::Empty;
use hyper::client::conn::http2::SendRequest;
use mpq_driver::h3::client::RequestError;
use mpq_driver::h3::client::ResponseHead;
use mpq_driver::h3::client::ResponseSink;
use mpq_driver::CloseReason;
use quiche::h3::Header;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::connection::Carrier;
use super::connection::Connection;
use super::connection::Ticket;
use super::connection::Transport;
use super::paths::PathSample;
use super::url;
use super::ClientArgs;
use super::PathLog;
use super::SAMPLE_INTERVAL;
use crate::exit::Failure;
use crate::exit::INTERRUPTED;
use crate::exit::LOCAL;
use crate::exit::NETWORK;
use crate::exit::TLS;
use crate::exit::USAGE;
use crate::report::Carried;
use crate::signals::StopRequests;
use crate::tcp::ConnectError;
use crate::tcp::Connector;
use crate::tcp::Http2;
use crate::tcp::Kernel;
use crate::tcp::Sender;
use crate::tcp::Socket;

/// What has arrived may wait here, in parts of at most 16 KiB, before flow control holds the server back.
const EVENTS: usize = 256;

/// The largest window of HTTP/2 (RFC 9113, section 6.9.1).
const MOST_WINDOW: u64 = (1 << 31) - 1;

/// HTTP/2's goodbye and TLS's.
const GOODBYE_TURNS: u32 = 8;

const NO_MPTCP: &str = "the server did not answer to MPTCP, or something on the way took it away";

/// The connections of one run of a command.
pub struct OverTcp<'a> {
    args: &'a ClientArgs,
    socket: Socket,
    runtime: Runtime,
    stop: StopRequests,
    wake: Arc<Notify>,
    began: Instant,
    log: PathLog,
    next_sample: Instant,
    /// A sample names a path by its connection's place here.
    links: Vec<Link>,
    /// One of them, as of the last sample.
    is_mptcp: bool,
    tell: mpsc::Sender<(u64, Event)>,
    events: mpsc::Receiver<(u64, Event)>,
    open: HashMap<u64, Open>,
    cancelled: Vec<u64>,
    next_request: u64,
}

/// A connection.
struct Link {
    origin: (String, u16),
    sender: SendRequest<Empty<Bytes>>,
    kernel: Kernel,
    /// Of its subflows, in the order in which they came.
    ends: Vec<(SocketAddr, SocketAddr)>,
}

/// A request that is under way.
struct Open {
    sink: Box<dyn ResponseSink>,
    task: AbortHandle,
    expected: Option<u64>,
    got: u64,
}

/// What arrives of a response.
enum Event {
    Head(ResponseHead),
    Body(Bytes),
    End(Result<(), RequestError>),
}

impl<'a> OverTcp<'a> {
    /// A session without a connection. SIGINT and SIGTERM end it from now on.
    pub fn new(args: &'a ClientArgs, socket: Socket) -> Result<OverTcp<'a>, Failure> {
        if args.session.is_some() {
            return Err(Failure::new(
                USAGE,
                "--session keeps sessions of HTTP/3 only; leave it out with --transport tcp or mptcp",
            ));
        }
        // Says it if the options contradict each other.
        args.settings()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let wake = Arc::new(Notify::new());
        let waker = wake.clone();
        let stop = StopRequests::watch(move || {
            waker.notify_one();
            Ok(())
        });
        let began = Instant::now();
        let (tell, events) = mpsc::channel(EVENTS);
        let fail = |e: io::Error| Failure::new(LOCAL, e);
        Ok(OverTcp {
            args,
            socket,
            runtime: runtime.map_err(fail)?,
            stop: stop.map_err(fail)?,
            wake,
            began,
            log: PathLog::new(began, Carried::Received),
            next_sample: began + SAMPLE_INTERVAL,
            links: Vec::new(),
            is_mptcp: false,
            tell,
            events,
            open: HashMap::new(),
            cancelled: Vec::new(),
            next_request: 0,
        })
    }

    fn connector(&self, host: String) -> Result<Connector, Failure> {
        let settings = self.args.settings()?;
        let transport = settings.transport;
        let window = |bytes: u64| bytes.min(MOST_WINDOW) as u32;
        // As HTTP/3 does it: asked for after a third, given up after the whole of it.
        let ping_after = transport.idle_timeout / 3;
        Ok(Connector {
            host,
            verify: settings.verify,
            locals: self.args.only.clone(),
            socket: self.socket,
            timeout: transport.handshake_timeout,
            http2: Http2 {
                windows_bytes: Some((
                    window(transport.max_stream_data),
                    window(transport.max_data),
                )),
                ping_after,
                ping_timeout: transport.idle_timeout - ping_after,
                pings_while_idle: true,
            },
        })
    }

    /// Says what a connection is that has just been made.
    fn note(&self, is_mptcp: bool) {
        if self.args.quiet || self.socket != Socket::Mptcp {
            return;
        }
        if !is_mptcp {
            eprintln!(
                "mpq: note: this is plain TCP over one path: {NO_MPTCP}; nginx needs `listen ... multipath`"
            );
        } else if self.args.only.len() > 1 {
            eprintln!(
                "mpq: note: MPTCP begins on the first --path; for the others the kernel needs \
                 `ip mptcp endpoint add ADDRESS dev IFNAME subflow`"
            );
        }
    }

    fn sample(&mut self) {
        let mut is_mptcp = None;
        for (index, link) in self.links.iter_mut().enumerate() {
            // The connection may just be ending.
            let Ok(flows) = link.kernel.flows() else {
                continue;
            };
            *is_mptcp.get_or_insert(false) |= link.kernel.is_mptcp();
            for flow in flows {
                let ends = (flow.local, flow.peer);
                let known = link.ends.iter().position(|other| *other == ends);
                let path_id = known.unwrap_or_else(|| {
                    link.ends.push(ends);
                    link.ends.len() - 1
                });
                self.log.record(
                    (index, path_id as u64),
                    PathSample {
                        local: flow.local,
                        peer: flow.peer,
                        recv_bytes: flow.recv_bytes,
                        sent_bytes: flow.sent_bytes,
                        rtt: flow.rtt,
                        lost: flow.resent,
                        ecn: None,
                        bottleneck: None,
                        impact: None,
                    },
                );
            }
        }
        self.is_mptcp = is_mptcp.unwrap_or(self.is_mptcp);
    }

    /// The connection to the server of `url` that takes requests.
    fn link(&self, url: &Url) -> Option<&Link> {
        let origin = url::origin(url);
        let mut links = self.links.iter();
        links.find(|link| link.origin == origin && !link.sender.is_closed())
    }

    /// Connects to the server of `url`.
    fn connect(&mut self, url: &Url) -> Result<SendRequest<Empty<Bytes>>, Failure> {
        let remotes = match self.args.connect_to.as_slice() {
            [] => url::resolve(url)?,
            given => given.to_vec(),
        };
        let connector = self.connector(url::host_name(url))?;
        let connected = self.runtime.block_on(async {
            tokio::select! {
                connected = connector.connect(&remotes) => Some(connected),
                () = self.wake.notified() => None,
            }
        });
        let connected = connected.ok_or_else(|| Failure::new(INTERRUPTED, "interrupted"))?;
        let connected = connected.map_err(|e| match e {
            ConnectError::NoMptcp(_) => Failure::new(LOCAL, e),
            ConnectError::Tls { .. } => Failure::new(TLS, e),
            ConnectError::Certificate { .. } => Failure::new(
                TLS,
                format!(
                    "{e}; trust its issuer with --trust-origin-ca-pem FILE, the certificate itself with --pin SHA256, \
                     or nothing with --no-verify"
                ),
            ),
            _ => Failure::new(NETWORK, e),
        })?;
        let Sender::Http2(sender) = connected.sender else {
            return Err(Failure::new(
                NETWORK,
                "the server speaks no HTTP/2 over TCP; nginx does with `http2 on;` beside `listen ... ssl`",
            ));
        };
        let is_mptcp = connected.kernel.is_mptcp();
        self.is_mptcp |= is_mptcp;
        self.note(is_mptcp);
        self.links.push(Link {
            origin: url::origin(url),
            sender: sender.clone(),
            kernel: connected.kernel,
            ends: Vec::new(),
        });
        Ok(sender)
    }

    fn deliver(&mut self, id: u64, event: Event) {
        // Of a cancelled request, something may be left.
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let wants = match event {
            Event::Head(head) => {
                open.expected = head.content_length;
                open.sink.on_head(&head)
            }
            Event::Body(bytes) => {
                open.got += bytes.len() as u64;
                open.sink.on_body(&bytes)
            }
            Event::End(result) => {
                let (got, expected) = (open.got, open.expected.unwrap_or(open.got));
                let whole = match got == expected {
                    true => Ok(()),
                    false => Err(RequestError::Truncated { got, expected }),
                };
                open.sink.on_end(result.and(whole));
                self.open.remove(&id);
                return;
            }
        };
        if wants.is_break() {
            self.end(id);
        }
    }

    /// Lets go of a request: without its body, the stream is reset.
    fn end(&mut self, id: u64) {
        if let Some(mut open) = self.open.remove(&id) {
            open.task.abort();
            open.sink.on_end(Err(RequestError::Cancelled));
        }
    }
}

impl Connection for OverTcp<'_> {
    fn began(&self) -> Instant {
        self.began
    }

    fn get(
        &mut self,
        url: &Url,
        headers: Vec<(String, String)>,
        sink: Box<dyn ResponseSink>,
    ) -> Result<Ticket, Failure> {
        let sender = match self.link(url) {
            Some(link) => link.sender.clone(),
            None => self.connect(url)?,
        };
        let id = self.next_request;
        self.next_request += 1;
        let request = request(url, headers);
        let tell = self.tell.clone();
        let task = self.runtime.spawn(async move {
            let result = match request {
                Ok(request) => exchange(sender, request, id, &tell).await,
                Err(e) => Err(broken(e)),
            };
            // Whoever asked may have gone.
            let _ = tell.send((id, Event::End(result))).await;
        });
        let open = Open {
            sink,
            task: task.abort_handle(),
            expected: None,
            got: 0,
        };
        self.open.insert(id, open);
        Ok(Ticket(id))
    }

    fn cancel(&mut self, request: Ticket) {
        self.cancelled.push(request.0);
        self.wake.notify_one();
    }

    fn step(&mut self, until: Option<Instant>) -> Result<bool, Failure> {
        for id in std::mem::take(&mut self.cancelled) {
            self.end(id);
        }
        let limit = until.map_or(self.next_sample, |until| until.min(self.next_sample));
        let mut event = self.runtime.block_on(async {
            tokio::select! {
                event = self.events.recv() => event,
                () = self.wake.notified() => None,
                () = tokio::time::sleep_until(limit.into()) => None,
            }
        });
        while let Some((id, what)) = event {
            self.deliver(id, what);
            event = self.events.try_recv().ok();
        }

        if self.stop.count() > 0 {
            return Err(Failure::new(INTERRUPTED, "interrupted"));
        }
        let is_due = Instant::now() >= self.next_sample;
        if is_due {
            self.sample();
            self.next_sample = Instant::now() + SAMPLE_INTERVAL;
        }
        Ok(is_due)
    }

    fn keep_alive(&mut self) -> Option<Instant> {
        // hyper does.
        None
    }

    fn is_open(&self, url: &Url) -> bool {
        self.link(url).is_some()
    }

    fn carrier(&self) -> Carrier {
        let asked = match self.socket {
            Socket::Tcp => Transport::Tcp,
            Socket::Mptcp => Transport::Mptcp,
        };
        let (used, why) = match (asked, self.is_mptcp) {
            (Transport::Mptcp, false) => (Transport::Tcp, Some(NO_MPTCP)),
            (asked, _) => (asked, None),
        };
        Carrier { asked, used, why }
    }

    fn log(&self) -> &PathLog {
        &self.log
    }

    fn close(&mut self) {
        self.sample();
        self.links.clear();
        for (_, open) in self.open.drain() {
            open.task.abort();
        }
        // The connection's task has its turns to say goodbye; a server that is not told finds out.
        self.runtime.block_on(async {
            for _ in 0..GOODBYE_TURNS {
                tokio::task::yield_now().await;
            }
        });
    }
}

fn request(
    url: &Url,
    headers: Vec<(String, String)>,
) -> Result<hyper::Request<Empty<Bytes>>, hyper::http::Error> {
    let mut request = hyper::Request::builder()
        .uri(format!(
            "https://{}{}",
            url::authority(url),
            url::path_and_query(url)
        ))
        .version(hyper::Version::HTTP_2)
        .header("user-agent", concat!("mpq/", env!("CARGO_PKG_VERSION")));
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(Empty::new())
}

/// Sends a request and tells of its response, all but the end.
async fn exchange(
    mut sender: SendRequest<Empty<Bytes>>,
    request: hyper::Request<Empty<Bytes>>,
    id: u64,
    tell: &mpsc::Sender<(u64, Event)>,
) -> Result<(), RequestError> {
    sender.ready().await.map_err(ended)?;
    let (head, mut body) = sender
        .send_request(request)
        .await
        .map_err(ended)?
        .into_parts();
    let length = head.headers.get(hyper::header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    let headers = head.headers.iter();
    let headers = headers.map(|(name, value)| Header::new(name.as_ref(), value.as_bytes()));
    let head = ResponseHead {
        status: head.status.as_u16(),
        headers: headers.collect(),
        content_length: length,
    };
    // Whoever asked may have gone.
    let _ = tell.send((id, Event::Head(head))).await;
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.map_err(ended)?.into_data() {
            let _ = tell.send((id, Event::Body(bytes))).await;
        }
    }
    Ok(())
}

/// Why a response is not complete, by hyper.
fn ended(e: hyper::Error) -> RequestError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&e);
    while let Some(error) = cause {
        let h2 = error.downcast_ref::<h2::Error>();
        if let Some(code) = h2.filter(|h2| h2.is_reset()).and_then(h2::Error::reason) {
            return RequestError::Reset(u32::from(code).into());
        }
        if error.source().is_none() {
            // The outermost says least.
            return match e.is_timeout() {
                true => broken("the server has not answered for --idle-timeout"),
                false => broken(error.to_string()),
            };
        }
        cause = error.source();
    }
    broken(e)
}

fn broken(e: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RequestError {
    RequestError::Connection(Arc::new(CloseReason::Broken(io::Error::other(e))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_the_same_as_over_http3() {
        let url = Url::parse("https://[2001:db8::1]:4433/a%20b?c=d").unwrap();
        let headers = vec![("range".to_owned(), "bytes=0-9".to_owned())];
        let request = request(&url, headers).unwrap();
        assert_eq!(request.uri().authority().unwrap(), "[2001:db8::1]:4433");
        assert_eq!(request.uri().path_and_query().unwrap(), "/a%20b?c=d");
        assert_eq!(request.headers()["range"], "bytes=0-9");
        assert!(request.headers().contains_key("user-agent"));
    }
}
