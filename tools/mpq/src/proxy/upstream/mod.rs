//! The way to the origins: a thread that has the QUIC connections, and what tasks of the HTTP side ask it for.

mod exchange;
mod worker;

use std::net::IpAddr;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::Arc;
use std::thread::JoinHandle;

use mpq_driver::h3::client::Request;
use tokio::sync::oneshot;

use self::exchange::Nudge;
use self::worker::Worker;
use crate::client::ClientArgs;
use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::proxy::pipe::Pipe;
use crate::proxy::status::Shared;

pub use exchange::H3Body;
pub use exchange::Head;
pub use exchange::Lost;
pub use exchange::Ticket;

/// What the thread is asked to do.
enum Command {
    /// Have a connection to an origin at these addresses, and say so.
    Connect {
        origin: usize,
        remotes: Vec<SocketAddr>,
        reply: oneshot::Sender<Result<(), Refused>>,
    },
    /// Send a request.
    Send(Box<Outgoing>),
    /// The request with this number is not wanted any more.
    Cancel(u64),
    /// Something has room again, or something to send.
    Resume(Arc<Nudge>),
    /// Let the paths from an address stand by, or carry data again.
    Pause { local: IpAddr, is_paused: bool },
    /// Close all connections, and end.
    Stop,
}

/// A request, and where its response goes.
struct Outgoing {
    id: u64,
    origin: usize,
    request: Request,
    upload: Option<(Arc<Pipe<String>>, Option<u64>)>,
    head: oneshot::Sender<Result<Head, Lost>>,
    body: Arc<Pipe<Lost>>,
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub struct Refused {
    /// In a line.
    pub why: String,
    /// The server was there, and its certificate or TLS was not what it has to be: another way does not mend that.
    pub is_tls: bool,
    /// Nothing came back at all.
    pub is_silence: bool,
}

/// Commands to the thread.
#[derive(Clone)]
struct Line {
    commands: mpsc::Sender<Command>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Line {
    /// Whether there is somebody to read it.
    fn send(&self, command: Command) -> bool {
        let is_there = self.commands.send(command).is_ok();
        (self.wake)();
        is_there
    }
}

/// An origin, as the thread has to know it.
#[derive(Clone, Debug)]
pub struct Server {
    /// Name or address, which its certificate must be for.
    pub host: String,
    /// UDP and TCP port.
    pub port: u16,
}

/// The connections to all origins.
pub struct Upstream {
    line: Line,
    is_up: Arc<[AtomicBool]>,
    next_id: AtomicU64,
    thread: JoinHandle<()>,
}

/// What came of sending a request.
pub struct Sent {
    /// Resolves once the response begins, or never will.
    pub head: oneshot::Receiver<Result<Head, Lost>>,
    /// Of the response.
    pub body: H3Body,
    /// Where the request's body is to go, if it has one.
    pub upload: Option<Arc<Pipe<String>>>,
}

impl Upstream {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the settings are wrong, or the system refuses something basic.
    pub fn start(
        args: &ClientArgs,
        servers: &[Server],
        status: Arc<Shared>,
    ) -> Result<Upstream, Failure> {
        let (commands, orders) = mpsc::channel();
        let (begun, beginning) = mpsc::channel();
        let is_up: Arc<[AtomicBool]> = servers.iter().map(|_| AtomicBool::new(false)).collect();
        let (args, servers, up) = (args.clone(), servers.to_vec(), is_up.clone());
        let back = commands.clone();
        let thread = std::thread::Builder::new()
            .name("quic".into())
            .spawn(move || {
                // Sinks are not for other threads, so the connections are made here.
                match Worker::new(args, &servers, up, status, back) {
                    Ok(mut worker) => {
                        if begun.send(Ok(worker.line())).is_ok() {
                            worker.run(&orders);
                        }
                    }
                    // The other end waits for this.
                    Err(failure) => drop(begun.send(Err(failure))),
                }
            })
            .map_err(|e| Failure::new(LOCAL, e))?;
        let line = beginning
            .recv()
            .map_err(|_| Failure::new(LOCAL, "the thread of the connections ended"))??;
        Ok(Upstream {
            line,
            is_up,
            next_id: AtomicU64::new(0),
            thread,
        })
    }

    /// Whether there is a connection to an origin, as far as is known.
    pub fn is_up(&self, origin: usize) -> bool {
        self.is_up[origin].load(SeqCst)
    }

    /// Waits for a connection to an origin at `remotes`, which is made if there is none.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(&self, origin: usize, remotes: Vec<SocketAddr>) -> Result<(), Refused> {
        let (reply, answer) = oneshot::channel();
        self.line.send(Command::Connect {
            origin,
            remotes,
            reply,
        });
        answer.await.unwrap_or_else(|_| {
            Err(Refused {
                why: "the proxy is stopping".into(),
                is_tls: false,
                is_silence: false,
            })
        })
    }

    /// Sends a request over the connection to an origin. `length`: it has a body, perhaps of a known length.
    pub fn send(&self, origin: usize, request: Request, length: Option<Option<u64>>) -> Sent {
        let id = self.next_id.fetch_add(1, SeqCst);
        let (tell, head) = oneshot::channel();
        let body = Arc::new(Pipe::new());
        let upload = length.map(|length| (Arc::new(Pipe::new()), length));
        let pipe = upload.as_ref().map(|(pipe, _)| pipe.clone());
        self.line.send(Command::Send(Box::new(Outgoing {
            id,
            origin,
            request,
            upload,
            head: tell,
            body: body.clone(),
        })));
        let ticket = Ticket {
            id,
            line: self.line.clone(),
        };
        Sent {
            head,
            body: H3Body {
                pipe: body,
                ticket: Some(ticket),
            },
            upload: pipe,
        }
    }

    /// Lets the paths from `local` stand by, or carry data again.
    pub fn pause(&self, local: IpAddr, is_paused: bool) {
        self.line.send(Command::Pause { local, is_paused });
    }

    /// Whether the thread still runs; it ends by itself only if the system fails it.
    pub fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Closes all connections and waits for the thread.
    pub fn stop(&self) {
        self.line.send(Command::Stop);
        while self.is_running() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}
