//! Transport settings of every tool, in one place.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;

use crate::multipath;

/// Error from quiche while settings are turned into its configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no such congestion controller or scheduler, or the controller does not take these
    /// parameters; the text lists what there is.
    #[error(transparent)]
    Algorithm(#[from] quiche::InvalidAlgorithmName),

    /// A certificate, key or CA file could not be used.
    #[error("cannot load {what} from {file}: not a readable PEM file of that kind")]
    File {
        /// What the file should have held.
        what: &'static str,
        /// Its name as given.
        file: String,
    },

    /// Anything else quiche refuses.
    #[error("quiche refuses the configuration: {0}")]
    Quiche(#[from] quiche::Error),
}

/// A function that is told what the decision layer's controllers decide, on
/// all connections; see [`quiche::Config::set_cc_observer`].
#[derive(Clone)]
pub struct CcObserver(pub Arc<dyn Fn(&quiche::CcDecision) + Send + Sync>);

impl fmt::Debug for CcObserver {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("CcObserver")
    }
}

/// What controls congestion if nothing else is said: fast where links lose, and one flow where paths
/// share a bottleneck (docs/controllers.md).
pub const DEFAULT_CONTROLLER: &str = "sbd-bbr";

/// What this endpoint announces and how it behaves on the transport level.
#[derive(Clone, Debug)]
pub struct TransportSettings {
    /// Congestion controller, by quiche's or the decision layer's name; parameters may follow it,
    /// as in `dc-ledbat:ret=10s,zeta=1`.
    pub congestion_controller: String,

    /// Who is told what the controller decides.
    pub cc_observer: Option<CcObserver>,

    /// Packet scheduler, by the decision layer's name.
    pub scheduler: String,

    /// `initial_max_data`, and the ceiling of its automatic growth, in bytes.
    pub max_data: u64,

    /// `initial_max_stream_data_*`, and the ceiling of its growth, in bytes.
    pub max_stream_data: u64,

    /// Streams the peer may open, each direction type.
    pub max_streams: u64,

    /// `max_idle_timeout`.
    pub idle_timeout: Duration,

    /// `max_ack_delay`.
    pub max_ack_delay: Duration,

    /// A connection attempt fails if it is not complete by then.
    pub handshake_timeout: Duration,

    /// `initial_max_path_id`: path IDs `0..=` this may exist (RFC 10069).
    /// `None` leaves multipath off.
    pub max_path_id: Option<u64>,

    /// `active_connection_id_limit`, per path ID.
    pub active_connection_id_limit: u64,

    /// The largest UDP payload that is looked for on each path, in bytes. No
    /// more than [`crate::ETHERNET_DATAGRAM_BYTES`]: for larger ones see
    /// [`crate::SocketOptions::max_datagram_bytes`].
    pub max_datagram_bytes: usize,

    /// HyStart++ in slow start.
    pub hystart: bool,

    /// Let acknowledgments of a path take another one that brings them back much sooner.
    pub ack_detours: bool,

    /// Acknowledge as rarely as the peer asks, and ask it for no more acknowledgments than are of use
    /// (draft-ietf-quic-ack-frequency).
    pub ack_frequency: bool,

    /// Mark datagrams as ECN-capable on paths where marks arrive, and react to those that say
    /// congestion (RFC 9000, section 13.4).
    pub ecn: bool,

    /// Send GREASE values.
    pub grease: bool,

    /// Let sending be paced.
    pub pacing: bool,

    /// What each connection holds at most to send it, unsent or unacknowledged, in bytes.
    pub max_send_buffer: Option<u64>,

    /// What all connections with these settings share for the data they hold to send it, unsent or
    /// unacknowledged.
    pub send_budget: Option<Arc<quiche::SendBudget>>,

    /// The QUIC version to use.
    pub version: u32,

    /// Accept and offer 0-RTT.
    pub early_data: bool,

    /// Write qlog of each connection of a client into this folder; a server is told by
    /// [`ListenOptions`](crate::ListenOptions).
    pub qlog: Option<PathBuf>,
}

impl Default for TransportSettings {
    fn default() -> Self {
        TransportSettings {
            congestion_controller: DEFAULT_CONTROLLER.into(),
            cc_observer: None,
            scheduler: "ecf".into(),
            max_data: 24 << 20,
            max_stream_data: 16 << 20,
            max_streams: 100,
            idle_timeout: Duration::from_secs(30),
            max_ack_delay: Duration::from_millis(25),
            handshake_timeout: Duration::from_secs(10),
            max_path_id: Some(7),
            active_connection_id_limit: 4,
            max_datagram_bytes: crate::ETHERNET_DATAGRAM_BYTES,
            hystart: true,
            ack_detours: true,
            ack_frequency: true,
            ecn: true,
            grease: true,
            pacing: true,
            max_send_buffer: None,
            send_budget: None,
            version: quiche::PROTOCOL_VERSION,
            early_data: false,
            qlog: None,
        }
    }
}

impl TransportSettings {
    /// The quiche configuration for these settings, for HTTP/3, without
    /// certificates.
    pub fn to_quiche(&self) -> Result<quiche::Config, ConfigError> {
        self.apply(quiche::Config::new(self.version)?)
    }

    /// Like [`TransportSettings::to_quiche`], for a client whose server's
    /// certificate must be for the address `ip`.
    ///
    /// quiche itself can only check host names.
    pub(crate) fn to_quiche_for_ip(&self, ip: IpAddr) -> Result<quiche::Config, ConfigError> {
        let tls = SslContextBuilder::new(SslMethod::tls())
            .and_then(|mut tls| {
                tls.set_default_verify_paths()?;
                tls.cert_store_mut().verify_param_mut().set_ip(ip)?;
                Ok(tls)
            })
            .map_err(|_| quiche::Error::TlsFail)?;
        self.to_quiche_with_tls(tls)
    }

    /// Like [`TransportSettings::to_quiche`], for a client that asks no
    /// certificate authority. Reading those of the system takes longer than
    /// the rest of the setup together.
    pub(crate) fn to_quiche_without_authorities(&self) -> Result<quiche::Config, ConfigError> {
        let tls = SslContextBuilder::new(SslMethod::tls()).map_err(|_| quiche::Error::TlsFail)?;
        self.to_quiche_with_tls(tls)
    }

    /// Like [`TransportSettings::to_quiche`], with certificate and trust as in
    /// `tls`.
    pub fn to_quiche_with_tls(
        &self,
        tls: SslContextBuilder,
    ) -> Result<quiche::Config, ConfigError> {
        self.apply(quiche::Config::with_boring_ssl_ctx_builder(
            self.version,
            tls,
        )?)
    }

    fn apply(&self, mut config: quiche::Config) -> Result<quiche::Config, ConfigError> {
        config.set_application_protos(quiche::h3::APPLICATION_PROTOCOL)?;
        quiche::check_cc_algorithm_name(&self.congestion_controller)?;
        config.set_cc_algorithm_name(&self.congestion_controller)?;
        config.set_cc_observer(self.cc_observer.clone().map(|observer| observer.0));
        config.set_max_idle_timeout(self.idle_timeout.as_millis() as u64);
        config.set_max_ack_delay(self.max_ack_delay.as_millis() as u64);
        config.set_max_recv_udp_payload_size(65_527);
        config.set_max_send_udp_payload_size(
            self.max_datagram_bytes.min(crate::ETHERNET_DATAGRAM_BYTES),
        );
        // Each path starts with 1200 bytes and finds out what it carries; what is larger still is a matter of its
        // interface (`SocketOptions::max_datagram_bytes`).
        config.discover_pmtu(true);
        config.set_initial_max_data(self.max_data);
        config.set_initial_max_stream_data_bidi_local(self.max_stream_data);
        config.set_initial_max_stream_data_bidi_remote(self.max_stream_data);
        config.set_initial_max_stream_data_uni(self.max_stream_data);
        config.set_max_connection_window(self.max_data);
        config.set_max_stream_window(self.max_stream_data);
        config.set_initial_max_streams_bidi(self.max_streams);
        config.set_initial_max_streams_uni(self.max_streams);
        config.set_active_connection_id_limit(self.active_connection_id_limit);
        config.enable_hystart(self.hystart);
        // For peers that measure the delays of what they send us.
        config.enable_timestamps(true);
        config.enable_ack_frequency(self.ack_frequency);
        config.enable_ecn(self.ecn);
        config.enable_pacing(self.pacing);
        if let Some(bytes) = self.max_send_buffer {
            config.set_max_send_buffer(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        if let Some(budget) = &self.send_budget {
            config.set_send_budget(budget);
        }
        config.grease(self.grease);
        if self.early_data {
            config.enable_early_data();
        }
        multipath::configure(&mut config, self)?;

        Ok(config)
    }
}

/// Makes `config` a server's: certificate chain and private key, PEM files.
pub fn load_identity(
    config: &mut quiche::Config,
    cert: &str,
    key: &str,
) -> Result<(), ConfigError> {
    config
        .load_cert_chain_from_pem_file(cert)
        .map_err(|_| ConfigError::File {
            what: "a certificate chain",
            file: cert.into(),
        })?;
    config
        .load_priv_key_from_pem_file(key)
        .map_err(|_| ConfigError::File {
            what: "a private key",
            file: key.into(),
        })
}

/// Adds the CA certificates of a PEM file to those trusted.
pub fn trust_ca(config: &mut quiche::Config, file: &str) -> Result<(), ConfigError> {
    config
        .load_verify_locations_from_file(file)
        .map_err(|_| ConfigError::File {
            what: "CA certificates",
            file: file.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(controller: &str, scheduler: &str) -> String {
        let settings = TransportSettings {
            congestion_controller: controller.into(),
            scheduler: scheduler.into(),
            ..Default::default()
        };
        settings.to_quiche().err().unwrap().to_string()
    }

    #[test]
    fn an_unknown_algorithm_lists_those_that_exist() {
        let e = error("warp", "ecf");
        assert!(
            e.starts_with("no congestion controller is called \"warp\"; use one of: reno, cubic, ")
        );
        assert!(e.contains(" olia,"), "{e}");
        let e = error("olia", "warp");
        assert!(
            e.starts_with("no scheduler is called \"warp\"; use one of: "),
            "{e}"
        );
    }

    #[test]
    fn a_controller_may_have_parameters() {
        let settings = TransportSettings {
            congestion_controller: "dc-ledbat:ret=10s,zeta=1".into(),
            ..Default::default()
        };
        assert!(settings.to_quiche().is_ok());
        assert_eq!(
            error("vegas:alpha=2ms", "ecf"),
            "\"2ms\" is no value for alpha of vegas; use one like alpha=2 (0.5 to 1000)"
        );
    }

    #[test]
    fn a_missing_certificate_is_named_in_the_error() {
        let mut config = TransportSettings::default().to_quiche().unwrap();
        let e = load_identity(&mut config, "/nonexistent.crt", "x").unwrap_err();
        assert!(e.to_string().contains("/nonexistent.crt"), "{e}");
    }
}
