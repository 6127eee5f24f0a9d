//! noq as a [`Peer`]: its own tokio runtime, and one UDP socket for all networks.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::sync::OnceLock;

use mpq_identity::Identity;
use noq::AckFrequencyConfig;
use noq::ClientConfig;
use noq::Connection;
use noq::ConnectionError;
use noq::Endpoint;
use noq::FourTuple;
use noq::PathError;
use noq::PathEvent;
use noq::PathId;
use noq::PathStatus;
use noq::RecvStream;
use noq::SendStream;
use noq::ServerConfig;
use noq::TransportConfig;
use noq_proto::crypto::rustls::QuicClientConfig;
use noq_proto::crypto::rustls::QuicServerConfig;
use noq_proto::PathAbandonReason;
use rustls::crypto::ring;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use rustls::quic::Suite;
use rustls::version::TLS13;
use rustls::CipherSuite;
use tokio::runtime::Runtime;
use tokio_stream::StreamExt;

use crate::pair::Options;
use crate::transfer::Incoming;
use crate::transfer::Outgoing;
use crate::Closed;
use crate::Event;
use crate::Journal;
use crate::OpenError;
use crate::PathReport;
use crate::Peer;
use crate::Request;
use crate::Transfer;
use crate::ALPN;
use crate::INITIAL_MAX_PATH_ID;
use crate::SERVER_NAME;
use crate::WINDOW_BYTES;

/// noq, as client or as server; stopped when dropped.
pub struct NoqPeer {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    runtime: Runtime,
}

#[derive(Default)]
struct Shared {
    /// A server has none until it hears from a client.
    connection: OnceLock<Connection>,
    journal: Journal,
}

impl NoqPeer {
    /// Waits for one client.
    pub fn listen(identity: &Identity, options: Options) -> io::Result<NoqPeer> {
        let config = server_config(identity, options.chacha20, transport(options.ack_frequency))?;

        let runtime = runtime()?;
        let _context = runtime.enter();
        let endpoint = Endpoint::server(config, (Ipv4Addr::UNSPECIFIED, 0).into())?;
        let shared = Arc::new(Shared::default());

        let (listener, accepted) = (endpoint.clone(), shared.clone());
        runtime.spawn(async move {
            let Some(incoming) = listener.accept().await else {
                return;
            };
            match incoming.await {
                Ok(connection) => accepted.on_connected(connection),
                Err(e) => accepted.journal.add(closed(e)),
            }
        });

        drop(_context);
        Ok(NoqPeer {
            endpoint,
            shared,
            runtime,
        })
    }

    /// Connects to a server over network 0.
    pub fn connect(
        server: SocketAddr,
        identity: &Identity,
        options: Options,
    ) -> io::Result<NoqPeer> {
        let transport = transport(options.ack_frequency);
        let config = client_config(identity.certificate(), options.chacha20, transport)?;

        let runtime = runtime()?;
        let shared = Arc::new(Shared::default());
        let connected = shared.clone();
        let endpoint = runtime.block_on(async move {
            let endpoint = Endpoint::client((Ipv4Addr::UNSPECIFIED, 0).into())?;
            let connection = endpoint
                .connect_with(config, server, SERVER_NAME)
                .map_err(io::Error::other)?
                .await?;
            connected.on_connected(connection);
            io::Result::Ok(endpoint)
        })?;

        Ok(NoqPeer {
            endpoint,
            shared,
            runtime,
        })
    }

    /// The peer's address on each network.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let port = self.endpoint.local_addr()?.port();
        let networks = [0, 1].map(crate::server_ip);
        Ok(networks.map(|ip| (ip, port).into()).to_vec())
    }

    fn connection(&self) -> &Connection {
        self.shared.connection.get().expect("a connection")
    }

    fn path(&self, path_id: u64) -> noq::Path {
        self.connection().path(id(path_id)).expect("an open path")
    }
}

impl Peer for NoqPeer {
    fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    fn is_multipath(&self) -> bool {
        let connection = self.shared.connection.get();
        connection.is_some_and(Connection::is_multipath_enabled)
    }

    fn paths(&self) -> Vec<PathReport> {
        let Some(connection) = self.shared.connection.get() else {
            return Vec::new();
        };
        (0..=u64::from(INITIAL_MAX_PATH_ID))
            .filter(|path_id| connection.path(id(*path_id)).is_some())
            .filter_map(|path_id| Some((path_id, connection.path_stats(id(path_id))?)))
            .map(|(path_id, stats)| PathReport {
                path_id,
                sent_bytes: stats.udp_tx.bytes,
                received_bytes: stats.udp_rx.bytes,
                lost_packets: stats.lost_packets,
                details: format!("{stats:?}"),
            })
            .collect()
    }

    fn open_path(&self, network: u8, remote: SocketAddr) -> Result<u64, OpenError> {
        let local = IpAddr::V4(crate::client_ip(network));
        let tuple = FourTuple::new(remote, Some(local));
        let opening = self.connection().open_path(tuple, PathStatus::Available);

        if let Some(path_id) = opening.path_id() {
            return Ok(number(path_id));
        }
        match self.runtime.block_on(opening) {
            Err(PathError::RemoteCidsExhausted) => Err(OpenError::NotYet),
            Err(e) => Err(OpenError::Refused(e.to_string())),
            Ok(path) => Ok(number(path.id())),
        }
    }

    fn set_backup(&self, path_id: u64, backup: bool) {
        let status = if backup {
            PathStatus::Backup
        } else {
            PathStatus::Available
        };
        self.path(path_id).set_status(status).expect("an open path");
    }

    fn abandon(&self, path_id: u64) {
        let path = self.path(path_id);
        path.close().expect("a path that is not the last");
    }

    fn start(&self, request: Request) -> Transfer {
        let (done, transfer) = channel();
        let connection = self.connection().clone();
        self.runtime.spawn(async move {
            let result = request_transfer(&connection, request).await;
            done.send(result).ok();
        });
        Transfer(transfer)
    }

    fn update_keys(&self) -> bool {
        self.connection().force_key_update();
        true
    }

    fn close(&self, error_code: u32, reason: &str) {
        let connection = self.connection();
        connection.close(error_code.into(), reason.as_bytes());
    }

    fn acks_of_path_1(&self) -> Option<[u64; 2]> {
        None
    }

    fn path_acks(&self) -> u64 {
        self.connection().stats().frame_tx.path_acks
    }
}

impl Shared {
    /// Writes down what happens to the connection from now on, and serves it.
    fn on_connected(self: Arc<Self>, connection: Connection) {
        let (shared, mut events) = (self.clone(), connection.path_events());
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                shared.journal.add(match event {
                    Ok(event) => translate(event),
                    Err(lagged) => Event::Note(lagged.to_string()),
                });
            }
        });

        let (shared, ending) = (self.clone(), connection.clone());
        tokio::spawn(async move {
            let error = ending.closed().await;
            shared.journal.add(closed(error));
        });

        let server = connection.clone();
        tokio::spawn(async move {
            while let Ok((send, receive)) = server.accept_bi().await {
                let connection = server.clone();
                tokio::spawn(async move {
                    if let Err(e) = answer_transfer(send, receive).await {
                        // It then fails at the client too.
                        connection.close(1u32.into(), e.as_bytes());
                    }
                });
            }
        });

        self.connection.set(connection).expect("one connection");
    }
}

async fn request_transfer(connection: &Connection, request: Request) -> Result<(), String> {
    let (mut send, mut receive) = connection.open_bi().await.map_err(|e| e.to_string())?;

    let upload = async {
        write(&mut send, Outgoing::upload(request)).await?;
        send.finish().map_err(|e| e.to_string())
    };
    let download = async {
        let mut incoming = Incoming::download(request);
        read(&mut receive, &mut incoming).await?;
        incoming.finish()
    };
    tokio::try_join!(upload, download)?;
    Ok(())
}

async fn answer_transfer(mut send: SendStream, mut receive: RecvStream) -> Result<(), String> {
    let mut incoming = Incoming::upload();
    let request = read(&mut receive, &mut incoming).await?;
    let request = request.ok_or("the stream ends within the request")?;

    let download = write(&mut send, Outgoing::download(request));
    let upload = async {
        while read(&mut receive, &mut incoming).await?.is_some() {}
        incoming.finish()
    };
    tokio::try_join!(upload, download)?;
    // The end of the answer says that the request arrived unchanged.
    send.finish().map_err(|e| e.to_string())
}

async fn write(send: &mut SendStream, mut outgoing: Outgoing) -> Result<(), String> {
    let mut buf = vec![0; 65536];
    loop {
        let (len, last) = outgoing.peek(&mut buf);
        send.write_all(&buf[..len])
            .await
            .map_err(|e| e.to_string())?;
        outgoing.advance(len);
        if last {
            return Ok(());
        }
    }
}

/// Reads up to the end of the request, or of the stream.
async fn read(
    receive: &mut RecvStream,
    incoming: &mut Incoming,
) -> Result<Option<Request>, String> {
    let mut buf = vec![0; 65536];
    while let Some(len) = receive.read(&mut buf).await.map_err(|e| e.to_string())? {
        if let Some(request) = incoming.push(&buf[..len])? {
            return Ok(Some(request));
        }
    }
    Ok(None)
}

fn translate(event: PathEvent) -> Event {
    match event {
        PathEvent::Established { id, .. } => Event::Available {
            path_id: number(id),
        },
        PathEvent::Abandoned { id, reason, .. } => {
            let (error_code, by_peer) = match reason {
                PathAbandonReason::ApplicationClosed { error_code } => (Some(error_code), false),
                PathAbandonReason::RemoteAbandoned { error_code } => (Some(error_code), true),
                _ => (None, false),
            };
            Event::Abandoned {
                path_id: number(id),
                error_code: error_code.map(Into::into),
                by_peer,
            }
        }
        PathEvent::RemoteStatus { id, status, .. } => Event::PeerStatus {
            path_id: number(id),
            backup: status == PathStatus::Backup,
        },
        other => Event::Note(format!("{other:?}")),
    }
}

fn closed(error: ConnectionError) -> Event {
    let (by_peer, by_application, error_code, reason) = match &error {
        ConnectionError::ApplicationClosed(close) => {
            (true, true, close.error_code.into(), text(&close.reason))
        }
        ConnectionError::ConnectionClosed(close) => {
            (true, false, close.error_code.into(), text(&close.reason))
        }
        ConnectionError::TransportError(e) => (false, false, e.code.into(), e.reason.clone()),
        other => (false, false, 0, other.to_string()),
    };
    Event::Closed(Closed {
        by_peer,
        by_application,
        error_code,
        reason,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn id(path_id: u64) -> PathId {
    PathId::from(u32::try_from(path_id).expect("a path ID"))
}

/// noq has no other way to tell it.
fn number(path_id: PathId) -> u64 {
    path_id.to_string().parse().expect("a number")
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
}

fn transport(ack_frequency: bool) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_multipath_paths(INITIAL_MAX_PATH_ID + 1)
        .receive_window(WINDOW_BYTES.into())
        .stream_receive_window(WINDOW_BYTES.into());
    if ack_frequency {
        let mut wanted = AckFrequencyConfig::default();
        wanted.ack_eliciting_threshold(10_u32.into());
        config.ack_frequency_config(Some(wanted));
    }
    Arc::new(config)
}

/// Of a server with this identity, for [`ALPN`].
pub fn server_config(
    identity: &Identity,
    chacha20: bool,
    transport: Arc<TransportConfig>,
) -> io::Result<ServerConfig> {
    let key = PrivateKeyDer::try_from(identity.key()).map_err(io::Error::other)?;
    let certificate = CertificateDer::from(identity.certificate().to_vec());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider(chacha20))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .map_err(io::Error::other)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];

    let tls =
        QuicServerConfig::with_initial(Arc::new(tls), initial_suite()).map_err(io::Error::other)?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport);
    Ok(config)
}

/// Of a client that trusts this certificate (DER) only, for [`ALPN`].
pub fn client_config(
    certificate: &[u8],
    chacha20: bool,
    transport: Arc<TransportConfig>,
) -> io::Result<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from(certificate.to_vec()))
        .map_err(io::Error::other)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(chacha20))
        .with_protocol_versions(&[&TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];

    let tls =
        QuicClientConfig::with_initial(Arc::new(tls), initial_suite()).map_err(io::Error::other)?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport);
    Ok(config)
}

fn provider(chacha20: bool) -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|suite| {
        let is_chacha20 = suite.suite() == CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;
        is_chacha20 == chacha20
    });
    Arc::new(provider)
}

/// Initial packets are always protected by AES-128-GCM.
fn initial_suite() -> Suite {
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let suite = suite.tls13().expect("a suite of TLS 1.3");
    suite.quic_suite().expect("a suite for QUIC")
}
