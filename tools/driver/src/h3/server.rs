//! An HTTP/3 server: a [`Service`] answers, the loop carries.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mio::Waker;
use quiche::h3;
use quiche::h3::Header;

pub use crate::h3::body::Body;
use crate::h3::body::Outgoing;
use crate::h3::body::WriteError;
use crate::h3::field;
use crate::h3::playback;
use crate::h3::H3_INTERNAL_ERROR;
use crate::h3::H3_NO_ERROR;
use crate::App;
use crate::CloseReason;
use crate::Conn;
use crate::ConnKey;
use crate::Endpoint;
use crate::ListenOptions;
use crate::Memory;
use crate::PathChange;
use crate::PathSnapshot;
use crate::Refusal;
use crate::SendStats;
use crate::SocketOptions;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, as sent.
    pub method: String,
    /// Path and query, percent-encoded.
    pub path: String,
    /// Every header field, pseudo fields included.
    pub headers: Vec<Header>,
    /// The client's address when the connection began.
    pub peer: SocketAddr,
}

/// What to answer.
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header fields, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body; `None` ends the response after its header.
    pub body: Option<Box<dyn Body>>,
}

/// A response that is over.
#[derive(Debug)]
pub struct Finished<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// The status sent.
    pub status: u16,
    /// Bytes of body handed to the transport.
    pub body_bytes: u64,
    /// From the request's header to the client's last acknowledgement.
    pub duration: Duration,
    /// Whether the client has everything.
    pub is_complete: bool,
    /// Per path, the bytes the whole connection sent meanwhile.
    pub path_bytes: Vec<(PathSnapshot, u64)>,
    /// Stream bytes that the whole connection repeated on a path without new data meanwhile.
    pub copied_bytes: u64,
}

/// The application of a server.
pub trait Service {
    /// Answers `request`. Must not block for long: all connections wait.
    fn respond(&mut self, request: &Request) -> Response;

    /// A response is over, for a log.
    fn on_finished(&mut self, finished: &Finished) {
        let _ = finished;
    }

    /// A path of the connection from `peer` came or went.
    fn on_path_change(&mut self, peer: SocketAddr, change: PathChange) {
        let _ = (peer, change);
    }

    /// The client at `peer` came with a token of an earlier connection: what its path `path_id` resumes with, or
    /// why it does not.
    fn on_resumption(&mut self, peer: SocketAddr, path_id: u64, outcome: Result<Memory, Refusal>) {
        let _ = (peer, path_id, outcome);
    }

    /// A connection is over.
    fn on_closed(&mut self, peer: SocketAddr, reason: &CloseReason) {
        let _ = (peer, reason);
    }
}

/// HTTP/3 connections of a server, driven by [`Server::poll`].
pub struct Server<S> {
    endpoint: Endpoint,
    sessions: Sessions<S>,
}

struct Sessions<S> {
    service: S,
    by_key: HashMap<ConnKey, Session>,
    is_stopping: bool,
}

#[derive(Default)]
struct Session {
    h3: Option<h3::Connection>,
    exchanges: HashMap<u64, Exchange>,
    last_request: u64,
    is_goaway_sent: bool,
}

/// One request and its response.
struct Exchange {
    request: Request,
    began: Instant,
    sent_before: Vec<(u64, u64)>,
    copied_before: u64,
    status: u16,
    /// Taken once the transport has it.
    head: Option<Vec<Header>>,
    body: Option<Outgoing>,
    body_bytes: u64,
    is_fin_sent: bool,
}

impl<S: Service> Server<S> {
    /// A server with certificate and settings in `config`.
    pub fn new(
        config: quiche::Config,
        listen: ListenOptions,
        sockets: SocketOptions,
        service: S,
    ) -> io::Result<Server<S>> {
        let mut endpoint = Endpoint::new(sockets)?;
        endpoint.accept_with(config, listen);
        Ok(Server {
            endpoint,
            sessions: Sessions {
                service,
                by_key: HashMap::new(),
                is_stopping: false,
            },
        })
    }

    /// Listens on `local` too. Returns the address with the port in use.
    pub fn listen_on(&mut self, local: SocketAddr) -> io::Result<SocketAddr> {
        self.endpoint.listen_on(local)
    }

    /// Makes a running [`Server::poll`] return, from any thread.
    pub fn waker(&self) -> Arc<Waker> {
        self.endpoint.waker()
    }

    /// The application.
    pub fn service(&self) -> &S {
        &self.sessions.service
    }

    /// How sending has gone so far.
    pub fn send_stats(&self) -> SendStats {
        self.endpoint.send_stats()
    }

    /// How many connections there are.
    pub fn conn_count(&self) -> usize {
        self.endpoint.conn_count()
    }

    /// Waits for something to happen, at most `max_wait`, and deals with it.
    pub fn poll(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        self.endpoint.poll(max_wait, &mut self.sessions)
    }

    /// Takes no new connections and requests, and closes each connection when
    /// its running responses have arrived. Keep polling until
    /// [`Server::is_stopped`].
    pub fn stop(&mut self) {
        self.endpoint.stop_accepting();
        self.sessions.is_stopping = true;
        // Lets every connection send its GOAWAY.
        for key in self.endpoint.conn_keys() {
            self.endpoint.conn_mut(key);
        }
    }

    /// Whether no response is running any more and every client was told.
    pub fn is_stopped(&self) -> bool {
        self.endpoint.conn_keys().into_iter().all(|key| {
            self.endpoint
                .conn(key)
                .is_none_or(|conn| conn.quic.is_draining())
        })
    }

    /// Closes every connection now.
    pub fn abort(&mut self) -> io::Result<()> {
        for key in self.endpoint.conn_keys() {
            if let Some(conn) = self.endpoint.conn_mut(key) {
                // Done means that it is closing already.
                let _ = conn.quic.close(true, H3_NO_ERROR, b"server stopped");
            }
        }
        self.poll(Some(Duration::ZERO))
    }
}

impl<S: Service> App for Sessions<S> {
    fn on_progress(&mut self, conn: &mut Conn) {
        let session = self.by_key.entry(conn.key()).or_default();
        if !conn.quic.is_established() && !conn.quic.is_in_early_data() || conn.quic.is_closed() {
            return;
        }

        if session.h3.is_none() {
            let h3 = h3::Config::new()
                .and_then(|config| h3::Connection::with_transport(&mut conn.quic, &config));
            match h3 {
                Ok(h3) => session.h3 = Some(h3),
                Err(e) => {
                    log::debug!("cannot start HTTP/3: {e}");
                    return;
                }
            }
        }

        session.receive(conn, &mut self.service);
        for id in conn.quic.writable() {
            session.write(conn, id);
        }
        session.retire(conn, &mut self.service);
        if self.is_stopping {
            session.stop(conn);
        }
    }

    fn on_path_change(&mut self, conn: &mut Conn, change: PathChange) {
        self.service.on_path_change(conn.peer(), change);
    }

    fn on_resumption(&mut self, conn: &mut Conn, path_id: u64, outcome: Result<Memory, Refusal>) {
        self.service.on_resumption(conn.peer(), path_id, outcome);
    }

    fn on_closed(&mut self, conn: &mut Conn, reason: CloseReason) {
        if let Some(session) = self.by_key.remove(&conn.key()) {
            // A client that has it all may close before its acknowledgment arrives.
            let is_content = matches!(
                &reason,
                CloseReason::ByPeer {
                    app: true,
                    code: H3_NO_ERROR,
                    ..
                }
            );
            for exchange in session.exchanges.values() {
                let is_complete = exchange.is_fin_sent && is_content;
                self.service
                    .on_finished(&exchange.finished(conn, is_complete));
            }
        }
        self.service.on_closed(conn.peer(), &reason);
    }
}

impl Session {
    fn receive(&mut self, conn: &mut Conn, service: &mut impl Service) {
        loop {
            let Some(h3) = &mut self.h3 else {
                return;
            };
            match h3.poll(&mut conn.quic) {
                Ok((id, h3::Event::Headers { list, .. })) => {
                    self.last_request = self.last_request.max(id);
                    self.begin(conn, id, list, service);
                    self.write(conn, id);
                }
                Ok((id, h3::Event::Data)) => {
                    // No method here has a request body of any use.
                    let mut waste = [0; 4096];
                    while h3.recv_body(&mut conn.quic, id, &mut waste).is_ok() {}
                }
                Ok((id, h3::Event::Reset(_))) => self.drop_body(conn, id),
                Ok(_) => {}
                Err(h3::Error::Done) => return,
                Err(e) => {
                    log::debug!("HTTP/3 from {}: {e}", conn.peer());
                    return;
                }
            }
        }
    }

    fn begin(
        &mut self,
        conn: &mut Conn,
        id: u64,
        headers: Vec<Header>,
        service: &mut impl Service,
    ) {
        if self.exchanges.contains_key(&id) {
            // Trailers.
            return;
        }

        let text = |name| field(&headers, name).unwrap_or_default().to_string();
        let request = Request {
            method: text(":method"),
            path: text(":path"),
            peer: conn.peer(),
            headers,
        };
        playback::report(&mut conn.quic, id, &request.headers);
        let response = service.respond(&request);
        if response.body.is_some() {
            playback::announce(&mut conn.quic, id, &response.headers);
        }

        let mut head = vec![Header::new(
            b":status",
            response.status.to_string().as_bytes(),
        )];
        head.extend(
            response
                .headers
                .iter()
                .map(|(name, value)| Header::new(name.as_bytes(), value.as_bytes())),
        );
        self.exchanges.insert(
            id,
            Exchange {
                request,
                began: Instant::now(),
                sent_before: conn
                    .paths()
                    .iter()
                    .map(|p| (p.path_id, p.sent_bytes))
                    .collect(),
                copied_before: conn.copied_bytes(),
                status: response.status,
                head: Some(head),
                body: response.body.map(Outgoing::new),
                body_bytes: 0,
                is_fin_sent: false,
            },
        );
    }

    /// Writes what the transport takes of the response on stream `id`.
    fn write(&mut self, conn: &mut Conn, id: u64) {
        let (Some(h3), Some(exchange)) = (&mut self.h3, self.exchanges.get_mut(&id)) else {
            return;
        };
        match exchange.write(conn, h3, id) {
            Ok(()) => {}
            Err(WriteError::Gone) => self.drop_body(conn, id),
            Err(WriteError::Body(e)) => {
                log::error!("{}: {e}", exchange.request.path);
                let _ = conn
                    .quic
                    .stream_shutdown(id, quiche::Shutdown::Write, H3_INTERNAL_ERROR);
                self.drop_body(conn, id);
            }
        }
    }

    /// The client does not want the response on stream `id` any more, or
    /// cannot have it.
    fn drop_body(&mut self, conn: &mut Conn, id: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.body = None;
        }
        // Frees the stream if the client has only stopped reading.
        let _ = conn
            .quic
            .stream_shutdown(id, quiche::Shutdown::Write, H3_NO_ERROR);
    }

    /// Reports the responses whose streams are over.
    fn retire(&mut self, conn: &mut Conn, service: &mut impl Service) {
        self.exchanges.retain(|&id, exchange| {
            // quiche forgets a stream once everything is acknowledged.
            let is_over = matches!(
                conn.quic.stream_capacity(id),
                Err(quiche::Error::InvalidStreamState(_))
            );
            if is_over {
                let is_complete = exchange.is_fin_sent;
                service.on_finished(&exchange.finished(conn, is_complete));
            }
            !is_over
        });
    }

    fn stop(&mut self, conn: &mut Conn) {
        if let (Some(h3), false) = (&mut self.h3, self.is_goaway_sent) {
            let limit = self.last_request;
            self.is_goaway_sent = h3.send_goaway(&mut conn.quic, limit).is_ok();
        }
        if self.exchanges.is_empty() {
            let _ = conn.quic.close(true, H3_NO_ERROR, b"server stopping");
        }
    }
}

impl Exchange {
    fn write(
        &mut self,
        conn: &mut Conn,
        h3: &mut h3::Connection,
        id: u64,
    ) -> Result<(), WriteError> {
        if let Some(head) = &self.head {
            let is_last = self.body.is_none();
            match h3.send_response(&mut conn.quic, id, head, is_last) {
                Ok(()) => {
                    self.head = None;
                    self.is_fin_sent = is_last;
                }
                Err(h3::Error::StreamBlocked) => return Ok(()),
                Err(_) => return Err(WriteError::Gone),
            }
        }

        if let Some(body) = &mut self.body {
            self.is_fin_sent = body.write(conn, h3, id, &mut self.body_bytes)?;
        }
        if self.is_fin_sent {
            self.body = None;
        }
        Ok(())
    }

    fn finished(&self, conn: &Conn, is_complete: bool) -> Finished<'_> {
        let before: HashMap<u64, u64> = self.sent_before.iter().copied().collect();
        Finished {
            request: &self.request,
            status: self.status,
            body_bytes: self.body_bytes,
            duration: self.began.elapsed(),
            is_complete,
            path_bytes: conn
                .paths()
                .into_iter()
                .map(|path| {
                    let start = before.get(&path.path_id).copied();
                    let sent = path.sent_bytes.saturating_sub(start.unwrap_or(0));
                    (path, sent)
                })
                .collect(),
            copied_bytes: conn.copied_bytes() - self.copied_before,
        }
    }
}
