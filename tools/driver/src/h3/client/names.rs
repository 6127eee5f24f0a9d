//! Names of hosts that servers give as alternatives, resolved beside the event loop.

use std::io;
use std::net::SocketAddr;
use std::net::ToSocketAddrs;
use std::sync::mpsc::channel;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::Arc;

use mio::Waker;

use crate::h3::alt_svc::may_be_tried;
use crate::ConnKey;

/// A connection's question.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) key: ConnKey,
    /// Where its first path leads.
    pub(super) peer: SocketAddr,
    pub(super) name: String,
    pub(super) port: u16,
}

/// Asks the system's resolver, which blocks.
pub(super) struct Names {
    waker: Arc<Waker>,
    answers: Receiver<(ConnKey, SocketAddr)>,
    answer: Sender<(ConnKey, SocketAddr)>,
}

impl Names {
    /// `waker` is woken when there is an answer.
    pub(super) fn new(waker: Arc<Waker>) -> Names {
        let (answer, answers) = channel();
        Names {
            waker,
            answers,
            answer,
        }
    }

    /// Resolves a name in a thread of its own, which ends with that.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub(super) fn ask(&self, question: Question) -> io::Result<()> {
        let (answer, waker) = (self.answer.clone(), self.waker.clone());
        let thread = std::thread::Builder::new().name("resolver".into());
        thread.spawn(move || {
            let Question {
                key,
                peer,
                name,
                port,
            } = question;
            match (name.as_str(), port).to_socket_addrs() {
                Ok(found) => {
                    for addr in found.filter(|addr| *addr != peer && may_be_tried(*addr, peer)) {
                        // Fails if the client is gone.
                        let _ = answer.send((key, addr));
                    }
                    let _ = waker.wake();
                }
                Err(e) => log::debug!("cannot resolve the alternative {name}: {e}"),
            }
        })?;
        Ok(())
    }

    /// The next address that was found and may be tried.
    pub(super) fn next(&self) -> Option<(ConnKey, SocketAddr)> {
        self.answers.try_recv().ok()
    }
}
