//! The handshake over several pairs of addresses, of which one is kept.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use mpq_decision::paths::Attempts;
use mpq_decision::paths::Pair;
use mpq_decision::paths::Progress;
use mpq_decision::paths::Step;

use super::Client;
use super::ClientError;
use crate::CloseReason;
use crate::ConnKey;
use crate::Resumption;

/// Attempts at one connection. Make requests on the one that is kept, when it is: what an attempt
/// carries is lost with it. The others are closed as soon as the server has answered them, and ended
/// without a word if it does not within the time of a handshake.
///
/// Only the first attempt resumes a TLS session, so that what it would send as 0-RTT data goes out
/// once, and no observer of two networks sees one ticket twice (RFC 8446, appendix C.4).
#[derive(Debug)]
pub struct Race {
    server_name: String,
    remotes: Vec<SocketAddr>,
    resumption: Option<Resumption>,
    attempts: Attempts,
    /// What begun attempts are; `None` for one that could not even begin.
    keys: Vec<Option<ConnKey>>,
    failure: Option<RaceError>,
}

impl Race {
    /// Attempts at a connection to the server at `remotes`, in the resolver's order, whose
    /// certificate must be for `server_name`. The next link that the path policy uses beside the
    /// ones before is tried after `link_delay`, everything else after 250 ms or, if that is longer,
    /// the same. `resumption` is what an earlier connection left.
    ///
    /// # Errors
    /// If there is no way to the server.
    pub fn begin(
        client: &mut Client,
        server_name: &str,
        remotes: &[SocketAddr],
        link_delay: Duration,
        resumption: Resumption,
    ) -> Result<Race, ClientError> {
        Ok(Race {
            server_name: server_name.to_owned(),
            remotes: remotes.to_vec(),
            resumption: Some(resumption),
            attempts: client.attempts(remotes, link_delay)?,
            keys: Vec::new(),
            failure: None,
        })
    }

    /// Begins and closes attempts; the one that is kept, with its addresses, if one is. To be called before every
    /// [`Client::poll`], which is to return at [`Race::next_timer`].
    ///
    /// # Errors
    /// Why the last attempt failed, once all have.
    pub fn step(&mut self, client: &mut Client) -> Result<Option<(ConnKey, Pair)>, RaceError> {
        let now = Instant::now();
        for attempt in 0..self.keys.len() {
            let Some(key) = self.keys[attempt] else {
                continue;
            };
            if let Some(reason) = client.close_reason(key) {
                self.keys[attempt] = None;
                self.fail(now, attempt, RaceError::Closed(reason));
                continue;
            }
            let Some(conn) = client.conn(key) else {
                continue;
            };
            let progress = match conn.quic.is_established() {
                true => Progress::Established,
                false if conn.quic.stats().recv > 0 => Progress::Heard,
                false => continue,
            };
            self.attempts.on_progress(now, attempt, progress);
        }
        while let Some(step) = self.attempts.next_step(now) {
            match step {
                Step::Begin { attempt, pair } => {
                    log::debug!("trying {} from {}", pair.remote, pair.local.ip);
                    let resumption = self.resumption.take();
                    let begun =
                        client.connect_over(&self.server_name, pair, &self.remotes, resumption);
                    self.keys.push(begun.as_ref().ok().copied());
                    if let Err(error) = begun {
                        self.fail(now, attempt, RaceError::Client(error));
                    }
                }
                Step::Keep { attempt } => {
                    for (other, key) in self.keys.iter().enumerate() {
                        let conn = key.and_then(|key| client.conn_mut(key));
                        if let Some(conn) = conn.filter(|_| other != attempt) {
                            conn.give_up();
                        }
                    }
                    return Ok(self.begun_at(attempt));
                }
                Step::GiveUp => return Err(self.failure.take().unwrap_or(RaceError::NoAddress)),
            }
        }
        Ok(None)
    }

    /// When [`Race::step`] has to be called at the latest.
    pub fn next_timer(&self) -> Option<Instant> {
        self.attempts.next_timer()
    }

    /// The attempt with this number, the first of which is 0, and its addresses, if it goes on.
    pub fn begun_at(&self, attempt: usize) -> Option<(ConnKey, Pair)> {
        let candidate = self.attempts.candidates().get(attempt)?;
        Some(((*self.keys.get(attempt)?)?, candidate.pair))
    }

    /// How many attempts have begun.
    pub fn begun(&self) -> usize {
        self.attempts.begun()
    }

    fn fail(&mut self, now: Instant, attempt: usize, failure: RaceError) {
        self.attempts.on_progress(now, attempt, Progress::Failed);
        self.failure = Some(failure);
    }
}

/// Why no attempt succeeded: the last one's reason.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// It could not even begin.
    #[error(transparent)]
    Client(#[from] ClientError),

    /// It ended.
    #[error("{0}")]
    Closed(Arc<CloseReason>),

    /// There was nothing to try.
    #[error("the server has no address")]
    NoAddress,
}
