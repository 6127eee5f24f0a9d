//! A request to an origin: by which way, and once more if it may be.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use http_body_util::BodyExt;
use http_body_util::Either;
use http_body_util::Empty;
use hyper::body::Body;
use hyper::body::Incoming;
use hyper::header;
use hyper::HeaderMap;
use hyper::Method;
use hyper::Request;
use hyper::StatusCode;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::delivery::Arriving;
use super::fallback::Fallback;
use super::fallback::Sender;
use super::pipe::Pipe;
use super::problem::Problem;
use super::status::Shared;
use super::upstream::Head;
use super::upstream::Lost;
use super::upstream::Refused;
use super::upstream::Server;
use super::upstream::Upstream;

/// How often a request is sent at most.
const TRIES: u32 = 3;

/// While TCP serves, HTTP/3 is tried again after this long, and then after twice as long each time.
const RETRY_AFTER: Duration = Duration::from_secs(30);
const RETRY_AFTER_MOST: Duration = Duration::from_secs(600);

/// How long a request's body is taken that nobody wants any more.
const LINGER: Duration = Duration::from_secs(5);

/// A request, as it can be sent more than once.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The origin's number.
    pub origin: usize,
    /// Its method.
    pub method: Method,
    /// Path and query at the origin.
    pub path: String,
    /// Fields for the origin.
    pub headers: HeaderMap,
}

/// How long is waited, and for what.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a response to begin, once all is sent.
    pub answer: Duration,
    /// For HTTP/3, before TCP is tried, too; `None`: it never is.
    pub fallback: Option<Duration>,
}

/// Every origin, and the ways to it.
pub struct Ways {
    upstream: Arc<Upstream>,
    origins: Vec<Origin>,
    patience: Patience,
    /// Who is told.
    pub status: Arc<Shared>,
}

/// An origin.
pub struct Origin {
    /// Where it is.
    pub server: Server,
    /// The value of `:authority`.
    pub authority: String,
    /// Addresses to use in place of those of its name.
    pub connect_to: Vec<SocketAddr>,
    /// The way over TCP.
    pub fallback: Fallback,
    /// When HTTP/3 is to be tried again, and how long to wait after that.
    pub again: Mutex<Option<(Instant, Duration)>>,
}

/// The way that a request takes.
enum Way {
    Quic,
    Tcp(Sender),
}

impl Ways {
    /// Ways over `upstream`, and beside it.
    pub fn new(
        upstream: Arc<Upstream>,
        origins: Vec<Origin>,
        patience: Patience,
        status: Arc<Shared>,
    ) -> Ways {
        Ways {
            upstream,
            origins,
            patience,
            status,
        }
    }

    /// Sends a request, with a body or without, and waits for the response to begin. Returns the protocol, too, as
    /// `Via` names it.
    ///
    /// # Errors
    /// What to answer instead.
    pub async fn fetch(
        self: &Arc<Self>,
        ask: &Ask,
        mut body: Option<Incoming>,
    ) -> Result<(Head, Arriving, &'static str), Problem> {
        // A message that ends before it begins has no body.
        body = body.filter(|body| !body.is_end_stream());
        let mut tries = 0;
        loop {
            let lost = match self.way(ask.origin).await? {
                Way::Quic => match self.over_quic(ask, &mut body).await {
                    Ok((head, arriving)) => return Ok((head, arriving, "3")),
                    Err(lost) => lost,
                },
                Way::Tcp(sender) => {
                    let version = sender.version();
                    match self.over_tcp(ask, &mut body, sender).await {
                        Ok((head, arriving)) => return Ok((head, arriving, version)),
                        Err(lost) => lost,
                    }
                }
            };
            tries += u32::from(lost.why != Lost::NotSent);
            let may_repeat = match lost.why {
                // Nothing was done about it.
                Lost::NotSent | Lost::Rejected => true,
                Lost::Connection(_) => ask.method.is_idempotent(),
                Lost::Response(_) => false,
            };
            if !may_repeat || lost.is_body_gone || tries == TRIES {
                return Err(lost.problem(ask));
            }
            if lost.why != Lost::NotSent {
                self.status.counters.retried.fetch_add(1, SeqCst);
            }
        }
    }

    /// The way to an origin that works now.
    async fn way(self: &Arc<Self>, index: usize) -> Result<Way, Problem> {
        if self.upstream.is_up(index) {
            return Ok(Way::Quic);
        }
        let origin = &self.origins[index];
        let patience = self.patience.fallback;
        if let Some(sender) = patience.and_then(|_| origin.fallback.present()) {
            self.try_quic_again(index);
            return Ok(Way::Tcp(sender));
        }

        let remotes = origin.resolve().await?;
        let quic = self.upstream.connect(index, remotes.clone());
        let Some(patience) = patience else {
            return quic
                .await
                .map(|()| Way::Quic)
                .map_err(|refused| unreachable(origin, &refused, None));
        };
        tokio::pin!(quic);
        let mut refused = match timeout(patience, &mut quic).await {
            Ok(Ok(())) => return Ok(Way::Quic),
            Ok(Err(refused)) if refused.is_tls => return Err(unreachable(origin, &refused, None)),
            Ok(Err(refused)) => Some(refused),
            Err(_) => None,
        };
        let tcp = origin.fallback.connect(&remotes);
        tokio::pin!(tcp);
        let mut failed: Option<String> = None;
        loop {
            if let (Some(refused), Some(failed)) = (&refused, &failed) {
                return Err(unreachable(origin, refused, Some(failed)));
            }
            tokio::select! {
                sender = &mut tcp, if failed.is_none() => match sender {
                    Ok(sender) => {
                        self.status.fell_back(index, sender.protocol());
                        let mut again = origin.again();
                        let next = Instant::now() + RETRY_AFTER;
                        again.get_or_insert((next, RETRY_AFTER));
                        return Ok(Way::Tcp(sender));
                    }
                    Err(why) => failed = Some(why),
                },
                connected = &mut quic, if refused.is_none() => match connected {
                    Ok(()) => return Ok(Way::Quic),
                    Err(why) => refused = Some(why),
                },
            }
        }
    }

    /// Tries HTTP/3 while TCP serves, now and then.
    fn try_quic_again(self: &Arc<Self>, index: usize) {
        let now = Instant::now();
        {
            let mut again = self.origins[index].again();
            let (at, pause) = again.unwrap_or((now, RETRY_AFTER));
            if now < at {
                return;
            }
            *again = Some((now + pause, (pause * 2).min(RETRY_AFTER_MOST)));
        }
        let ways = self.clone();
        tokio::spawn(async move {
            let origin = &ways.origins[index];
            let Ok(remotes) = origin.resolve().await else {
                return;
            };
            if ways.upstream.connect(index, remotes).await.is_ok() {
                *origin.again() = None;
            }
        });
    }

    async fn over_quic(
        &self,
        ask: &Ask,
        body: &mut Option<Incoming>,
    ) -> Result<(Head, Arriving), Failed> {
        let fail = |why| Failed {
            why,
            is_body_gone: false,
            is_late: false,
        };
        let mut headers = ask.headers.clone();
        let length = body.as_ref().map(|body| body.size_hint().exact());
        if length.is_some() {
            // The transport says it.
            headers.remove(header::CONTENT_LENGTH);
        }
        let request = mpq_driver::h3::client::Request {
            method: ask.method.to_string(),
            authority: self.origins[ask.origin].authority.clone(),
            path: ask.path.clone(),
            headers: texts(&headers)
                .map_err(|name| fail(Lost::Response(format!("the field {name} is not UTF-8"))))?,
        };
        let sent = self.upstream.send(ask.origin, request, length);
        let pump = sent
            .upload
            .zip(body.take())
            .map(|(pipe, body)| tokio::spawn(pump(body, pipe)));

        let is_upload = pump.is_some();
        let answer = async {
            let gone = |_| Err(Lost::Connection("the proxy is stopping".into()));
            sent.head.await.unwrap_or_else(gone)
        };
        // An upload takes as long as it takes.
        let answered = match is_upload {
            true => Ok(answer.await),
            false => timeout(self.patience.answer, answer).await,
        };
        match answered {
            Ok(Ok(head)) => {
                // An answer that came before anything was taken.
                if let Some(pump) = pump {
                    tokio::spawn(async {
                        if let Some(body) = untouched(pump).await {
                            drain(body).await;
                        }
                    });
                }
                Ok((head, Arriving::H3(sent.body)))
            }
            Ok(Err(why)) => {
                let is_body_gone = match pump {
                    None => false,
                    Some(pump) => {
                        *body = untouched(pump).await;
                        body.is_none()
                    }
                };
                Err(Failed {
                    why,
                    is_body_gone,
                    is_late: false,
                })
            }
            Err(_) => Err(Failed {
                is_late: true,
                ..fail(Lost::Response(format!(
                    "the origin did not answer within {} s",
                    self.patience.answer.as_secs()
                )))
            }),
        }
    }

    async fn over_tcp(
        &self,
        ask: &Ask,
        body: &mut Option<Incoming>,
        sender: Sender,
    ) -> Result<(Head, Arriving), Failed> {
        let is_body_gone = body.is_some();
        let is_upload = body.is_some();
        let body = match body.take() {
            Some(body) => Either::Right(body),
            None => Either::Left(Empty::new()),
        };
        let fail = |why, is_late| Failed {
            why,
            is_body_gone,
            is_late,
        };
        let request = Request::builder()
            .method(ask.method.clone())
            .uri(ask.path.as_str())
            .body(body);
        let mut request = request.map_err(|e| fail(Lost::Response(e.to_string()), false))?;
        *request.headers_mut() = ask.headers.clone();
        let answer = sender.send(request, &self.origins[ask.origin].authority);
        let answered = match is_upload {
            true => Ok(answer.await),
            false => timeout(self.patience.answer, answer).await,
        };
        match answered {
            Ok(Ok(response)) => {
                let (parts, incoming) = response.into_parts();
                let head = Head {
                    status: parts.status,
                    headers: parts.headers,
                };
                let arriving = Arriving::Tcp(incoming, ask.origin, self.status.clone());
                Ok((head, arriving))
            }
            Ok(Err(e)) => Err(fail(Lost::Connection(e), false)),
            Err(_) => Err(fail(
                Lost::Response("the origin did not answer in time".into()),
                true,
            )),
        }
    }
}

impl Origin {
    fn again(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Duration)>> {
        // Nothing panics with it.
        self.again
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, Problem> {
        if !self.connect_to.is_empty() {
            return Ok(self.connect_to.clone());
        }
        let Server { host, port } = &self.server;
        let found = tokio::net::lookup_host((host.as_str(), *port)).await;
        found.map(Iterator::collect).map_err(|e| {
            Problem::bad_gateway(
                format!("cannot resolve {host}: {e}"),
                "Look whether the name is right, and whether this machine is online.",
            )
        })
    }
}

/// A request that got no answer.
struct Failed {
    why: Lost,
    /// Some of its body was sent, and cannot be again.
    is_body_gone: bool,
    is_late: bool,
}

impl Failed {
    fn problem(self, ask: &Ask) -> Problem {
        let status = match self.is_late {
            true => StatusCode::GATEWAY_TIMEOUT,
            false => StatusCode::BAD_GATEWAY,
        };
        let way_out = match self.why {
            _ if self.is_late => "Try again; --answer-timeout lets it wait longer.",
            Lost::Connection(_) if ask.method.is_idempotent() && !self.is_body_gone => {
                "Several attempts failed alike. Look at /.mpq/ which paths work, and try again."
            }
            Lost::Connection(_) => {
                "The origin may have got the request, so it is not sent again by itself. Look whether it had an \
                 effect before you repeat it."
            }
            _ => "Try again; if it remains so, the origin has an error.",
        };
        Problem::new(status, self.why.to_string(), way_out)
    }
}

/// Where an origin cannot be reached at all.
fn unreachable(origin: &Origin, refused: &Refused, over_tcp: Option<&str>) -> Problem {
    let what = match over_tcp {
        Some(tcp) => format!("{} (HTTP/3); {tcp}", refused.why),
        None => refused.why.clone(),
    };
    let host = &origin.server.host;
    if refused.is_tls {
        return Problem::bad_gateway(
            what,
            format!("This is not the {host} that is expected, or its certificate is not good."),
        );
    }
    let status = match refused.is_silence {
        true => StatusCode::GATEWAY_TIMEOUT,
        false => StatusCode::BAD_GATEWAY,
    };
    Problem::new(
        status,
        what,
        format!("Look whether {host} runs and this machine is online, then try again."),
    )
}

/// Moves a browser's body to the transport, which says when it takes some. Returns the body if it wanted nothing.
async fn pump(mut body: Incoming, pipe: Arc<Pipe<String>>) -> Option<Incoming> {
    let wanted = || std::future::poll_fn(|context| pipe.poll_wanted(context.waker()));
    wanted().await;
    if !pipe.is_open() {
        return Some(body);
    }
    loop {
        match body.frame().await {
            None => {
                pipe.end(Ok(None));
                return None;
            }
            Some(Err(e)) => {
                pipe.end(Err(format!("the browser broke off: {e}")));
                return None;
            }
            Some(Ok(frame)) => {
                // Nobody sends trailers after a request's body.
                if let Ok(data) = frame.into_data() {
                    if !pipe.push(data) {
                        drain(body).await;
                        return None;
                    }
                }
            }
        }
        wanted().await;
    }
}

/// Takes away what a browser still sends that has its answer: closed in its face, the connection would be reset, and
/// the answer lost with it (RFC 9112, section 9.6).
async fn drain(mut body: Incoming) {
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    // Who goes on for so long does not read answers.
    let _ = timeout(LINGER, all).await;
}

/// The body, if the transport took nothing of it.
async fn untouched(pump: JoinHandle<Option<Incoming>>) -> Option<Incoming> {
    pump.await.ok().flatten()
}

/// Fields as the transport takes them; the name of one that is not UTF-8 otherwise.
fn texts(headers: &HeaderMap) -> Result<Vec<(String, String)>, String> {
    let fields = headers.iter().map(|(name, value)| {
        let text = std::str::from_utf8(value.as_bytes());
        let text = text.map_err(|_| name.to_string())?;
        Ok((name.to_string(), text.to_owned()))
    });
    fields.collect()
}
