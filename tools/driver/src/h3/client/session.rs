//! The requests of each connection, from the queue to the end of the response.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use mpq_decision::paths::Event;
use mpq_decision::paths::RemoteSource;
use quiche::h3;
use quiche::h3::Header;
use sha2::Digest;
use sha2::Sha256;

use super::names::Question;
use super::request::Request;
use super::request::RequestError;
use super::request::RequestId;
use super::request::ResponseHead;
use super::request::ResponseSink;
use crate::h3::alt_svc;
use crate::h3::alt_svc::Alternative;
use crate::h3::body::Body;
use crate::h3::body::Outgoing;
use crate::h3::body::WriteError;
use crate::h3::field;
use crate::h3::fields;
use crate::h3::H3_REQUEST_CANCELLED;
use crate::playback;
use crate::App;
use crate::CloseReason;
use crate::Conn;
use crate::ConnKey;
use crate::PathChange;

/// The host names of a server's alternatives that are resolved in a connection.
const MAX_HOSTS: usize = 8;

/// The server is not responsible for what was asked (RFC 9110, Section 15.5.20).
const MISDIRECTED_REQUEST: u16 = 421;

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) by_key: HashMap<ConnKey, Session>,
    pub(super) closed: HashMap<ConnKey, Arc<CloseReason>>,
    pub(super) path_changes: Vec<(ConnKey, PathChange)>,
    /// Hosts that servers named, to be resolved.
    pub(super) questions: Vec<Question>,
    pub(super) pin: Option<[u8; 32]>,
    pub(super) chunk: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Session {
    h3: Option<h3::Connection>,
    pub(super) waiting: VecDeque<Waiting>,
    streams: HashMap<u64, Stream>,
    /// Those of which the sink had no room.
    held: Vec<u64>,
    pub(super) cancelled: Vec<RequestId>,
    /// The server wants no further requests here.
    pub(super) is_leaving: bool,
    /// Hosts that the server named, and how many of them were taken from here.
    hosts: Vec<Alternative>,
    hosts_taken: usize,
}

pub(super) struct Waiting {
    pub(super) id: RequestId,
    pub(super) request: Request,
    /// With its length, if that is known.
    pub(super) body: Option<(Box<dyn Body>, Option<u64>)>,
    pub(super) sink: Box<dyn ResponseSink>,
}

struct Stream {
    id: RequestId,
    is_head: bool,
    /// The request's body, until all of it is sent.
    upload: Option<Outgoing>,
    sent: u64,
    sink: Box<dyn ResponseSink>,
    has_head: bool,
    expected: Option<u64>,
    got: u64,
}

impl App for Sessions {
    fn on_progress(&mut self, conn: &mut Conn) {
        let Some(session) = self.by_key.get_mut(&conn.key()) else {
            return;
        };
        if !conn.quic.is_established() && !conn.quic.is_in_early_data() || conn.quic.is_closed() {
            return;
        }

        if session.h3.is_none() {
            if let Some(pin) = &self.pin {
                let cert = conn.quic.peer_cert().unwrap_or_default();
                if Sha256::digest(cert).as_slice() != pin {
                    conn.reject_certificate("its fingerprint is not the pinned one");
                    return;
                }
            }
            match new_h3(conn) {
                Ok(h3) => session.h3 = Some(h3),
                Err(e) => {
                    log::debug!("cannot start HTTP/3: {e}");
                    return;
                }
            }
        }

        session.cancel(conn);
        session.send_requests(conn);
        session.receive(conn, &mut self.chunk);
        session.send_bodies(conn);
        conn.is_waiting = !session.streams.is_empty();
        self.questions.extend(session.questions(conn));
    }

    fn on_path_change(&mut self, conn: &mut Conn, change: PathChange) {
        self.path_changes.push((conn.key(), change));
    }

    fn on_closed(&mut self, conn: &mut Conn, reason: CloseReason) {
        let reason = Arc::new(reason);
        self.closed.insert(conn.key(), reason.clone());

        let Some(session) = self.by_key.remove(&conn.key()) else {
            return;
        };
        let waiting = session.waiting.into_iter().map(|w| w.sink);
        let running = session.streams.into_values().map(|s| s.sink);
        for mut sink in waiting.chain(running) {
            sink.on_end(Err(RequestError::Connection(reason.clone())));
        }
    }
}

/// Tells the path manager the addresses that the server names, and adds the hosts to those that are
/// to be resolved.
fn learn_alternatives(hosts: &mut Vec<Alternative>, conn: &mut Conn, value: &str) {
    let Some(manager) = &mut conn.manager else {
        return;
    };
    for named in alt_svc::alternatives(value, conn.peer) {
        match named {
            Alternative::Address(addr) => {
                let source = RemoteSource::Named;
                manager.on_event(Instant::now(), Event::RemoteAddr { addr, source });
            }
            // Once each: responses repeat the field.
            host if hosts.len() < MAX_HOSTS && !hosts.contains(&host) => hosts.push(host),
            Alternative::Host { .. } => {}
        }
    }
}

fn new_h3(conn: &mut Conn) -> h3::Result<h3::Connection> {
    h3::Connection::with_transport(&mut conn.quic, &h3::Config::new()?)
}

impl Session {
    fn cancel(&mut self, conn: &mut Conn) {
        for id in std::mem::take(&mut self.cancelled) {
            if let Some(i) = self.waiting.iter().position(|w| w.id == id) {
                if let Some(mut waiting) = self.waiting.remove(i) {
                    waiting.sink.on_end(Err(RequestError::Cancelled));
                }
                continue;
            }

            let stream = self.streams.iter().find(|(_, s)| s.id == id);
            if let Some((&stream_id, _)) = stream {
                self.abort(conn, stream_id, RequestError::Cancelled);
            }
        }
    }

    fn send_requests(&mut self, conn: &mut Conn) {
        let Some(h3) = &mut self.h3 else {
            return;
        };

        while let Some(mut waiting) = self.waiting.pop_front() {
            // What changes something at the server is not for early data, which may be replayed (RFC 8470).
            if waiting.body.is_some() && conn.quic.is_in_early_data() {
                self.waiting.push_front(waiting);
                return;
            }
            let headers = waiting.request.to_headers();
            match h3.send_request(&mut conn.quic, &headers, waiting.body.is_none()) {
                Ok(stream_id) => {
                    let upload = waiting.body.map(|(body, length)| {
                        if let Some(length) = length {
                            playback::announce(&mut conn.quic, stream_id, length);
                        }
                        Outgoing::new(body)
                    });
                    self.streams.insert(
                        stream_id,
                        Stream {
                            id: waiting.id,
                            is_head: waiting.request.method == "HEAD",
                            upload,
                            sink: waiting.sink,
                            sent: 0,
                            has_head: false,
                            expected: None,
                            got: 0,
                        },
                    );
                }
                // No stream or no room for the header yet.
                Err(
                    h3::Error::StreamBlocked
                    | h3::Error::TransportError(quiche::Error::StreamLimit),
                ) => {
                    self.waiting.push_front(waiting);
                    return;
                }
                Err(e) => {
                    log::debug!("request refused by the HTTP/3 layer: {e}");
                    waiting
                        .sink
                        .on_end(Err(RequestError::Malformed("the request cannot be sent")));
                }
            }
        }
    }

    /// Gives the transport what it takes of the requests' bodies.
    fn send_bodies(&mut self, conn: &mut Conn) {
        let Some(h3) = &mut self.h3 else {
            return;
        };
        let mut unreadable = Vec::new();
        for (&id, stream) in &mut self.streams {
            let Some(upload) = &mut stream.upload else {
                continue;
            };
            match upload.write(conn, h3, id, &mut stream.sent) {
                Ok(false) => {}
                // If the server wants no more of it, the response says why.
                Ok(true) | Err(WriteError::Gone) => stream.upload = None,
                Err(WriteError::Body(e)) => unreadable.push((id, e)),
            }
        }
        for (id, e) in unreadable {
            self.abort(conn, id, RequestError::Body(Arc::new(e)));
        }
    }

    fn receive(&mut self, conn: &mut Conn, chunk: &mut [u8]) {
        for id in std::mem::take(&mut self.held) {
            self.on_data(conn, id, chunk);
        }
        loop {
            let Some(h3) = &mut self.h3 else {
                return;
            };
            match h3.poll(&mut conn.quic) {
                Ok((id, h3::Event::Headers { list, .. })) => self.on_headers(conn, id, list),
                Ok((id, h3::Event::Data)) => self.on_data(conn, id, chunk),
                Ok((id, h3::Event::Finished)) => self.on_finished(conn, id),
                Ok((id, h3::Event::Reset(code))) => self.end(id, Err(RequestError::Reset(code))),
                Ok((_, h3::Event::GoAway)) => self.is_leaving = true,
                Ok((_, h3::Event::PriorityUpdate)) => {}
                Err(h3::Error::Done) => return,
                // quiche closes the connection with the right code.
                Err(e) => {
                    log::debug!("HTTP/3: {e}");
                    return;
                }
            }
        }
    }

    fn on_headers(&mut self, conn: &mut Conn, id: u64, headers: Vec<Header>) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.has_head {
            stream.sink.on_trailers(&headers);
            return;
        }

        let status = field(&headers, ":status").and_then(|s| s.parse().ok());
        let status: u16 = match status {
            Some(100..=199) => return,
            Some(status) => status,
            None => {
                let e = RequestError::Malformed("no valid status");
                self.abort(conn, id, e);
                return;
            }
        };

        // Not with this status (RFC 7838, Section 6).
        if status != MISDIRECTED_REQUEST {
            for value in fields(&headers, "alt-svc") {
                learn_alternatives(&mut self.hosts, conn, value);
            }
        }

        let content_length = field(&headers, "content-length").and_then(|v| v.parse().ok());
        stream.has_head = true;
        let has_body = !stream.is_head && status != 304;
        stream.expected = content_length.filter(|_| has_body);
        let head = ResponseHead {
            status,
            headers,
            content_length,
        };
        if stream.sink.on_head(&head).is_break() {
            self.abort(conn, id, RequestError::Cancelled);
        }
    }

    /// What has to be resolved since the last call.
    fn questions<'a>(&'a mut self, conn: &'a Conn) -> impl Iterator<Item = Question> + 'a {
        let new = &self.hosts[self.hosts_taken..];
        self.hosts_taken = self.hosts.len();
        new.iter().filter_map(|host| match host {
            Alternative::Host { name, port } => Some(Question {
                key: conn.key(),
                peer: conn.peer,
                name: name.clone(),
                port: *port,
            }),
            Alternative::Address(_) => None,
        })
    }

    fn on_data(&mut self, conn: &mut Conn, id: u64, chunk: &mut [u8]) {
        let Some(h3) = &mut self.h3 else {
            return;
        };

        loop {
            let stream = self.streams.get(&id);
            let room = stream.map_or(usize::MAX, |stream| stream.sink.room());
            if room == 0 {
                if !self.held.contains(&id) {
                    self.held.push(id);
                }
                return;
            }
            let room = room.min(chunk.len());
            let len = match h3.recv_body(&mut conn.quic, id, &mut chunk[..room]) {
                Ok(len) => len,
                // Found out here if it came while the rest of the body waited.
                Err(h3::Error::TransportError(quiche::Error::StreamReset(code))) => {
                    self.end(id, Err(RequestError::Reset(code)));
                    return;
                }
                Err(_) => return,
            };
            // Bytes of a cancelled request only have to be taken away.
            let Some(stream) = self.streams.get_mut(&id) else {
                continue;
            };
            stream.got += len as u64;
            conn.read_bytes += len as u64;
            if stream.sink.on_body(&chunk[..len]).is_break() {
                self.abort(conn, id, RequestError::Cancelled);
                return;
            }
        }
    }

    fn on_finished(&mut self, conn: &mut Conn, id: u64) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        if stream.upload.is_some() {
            // An answer that did not wait for the end (RFC 9114, section 4.1).
            let write = quiche::Shutdown::Write;
            let _ = conn.quic.stream_shutdown(id, write, H3_REQUEST_CANCELLED);
        }
        let result = match stream.expected {
            _ if !stream.has_head => Err(RequestError::Malformed("no header")),
            Some(expected) if expected != stream.got => Err(RequestError::Truncated {
                got: stream.got,
                expected,
            }),
            _ => Ok(()),
        };
        self.end(id, result);
    }

    fn abort(&mut self, conn: &mut Conn, id: u64, error: RequestError) {
        // The stream may be over on either side already.
        for direction in [quiche::Shutdown::Read, quiche::Shutdown::Write] {
            let _ = conn
                .quic
                .stream_shutdown(id, direction, H3_REQUEST_CANCELLED);
        }
        self.end(id, Err(error));
    }

    fn end(&mut self, id: u64, result: Result<(), RequestError>) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.sink.on_end(result);
        }
    }
}
