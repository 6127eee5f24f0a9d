//! The server's certificate, which the client checks.

use std::io::Write;

use rcgen::CertifiedKey;
use rcgen::KeyPair;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::PrivateKeyDer;
use tempfile::NamedTempFile;

/// The name in the certificate.
pub const SERVER_NAME: &str = "localhost";

/// A certificate signed by its own key.
pub struct Identity(CertifiedKey<KeyPair>);

impl Identity {
    pub fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed([SERVER_NAME.to_owned()]);
        Identity(made.expect("a key pair and a valid name"))
    }

    /// For rustls.
    pub fn certificate(&self) -> CertificateDer<'static> {
        self.0.cert.der().clone()
    }

    /// For rustls.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        let key = self.0.signing_key.serialize_der();
        PrivateKeyDer::try_from(key).expect("a key just made")
    }

    /// For quiche, which reads files.
    pub fn certificate_file(&self) -> NamedTempFile {
        temporary(&self.0.cert.pem())
    }

    /// For quiche, which reads files.
    pub fn key_file(&self) -> NamedTempFile {
        temporary(&self.0.signing_key.serialize_pem())
    }
}

impl Default for Identity {
    fn default() -> Identity {
        Identity::new()
    }
}

fn temporary(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("a temporary file");
    file
}
