//! A key and a certificate signed by it, made on the spot.

use std::io;
use std::path::PathBuf;

use rcgen::CertifiedKey;
use rcgen::KeyPair;
use tempfile::TempDir;

/// Why no certificate could be made.
pub use rcgen::Error;

/// A key and its certificate, which lasts longer than anybody will use it.
pub struct Identity(CertifiedKey<KeyPair>);

impl Identity {
    /// For these names and addresses.
    pub fn new(names: impl Into<Vec<String>>) -> Result<Identity, Error> {
        rcgen::generate_simple_self_signed(names).map(Identity)
    }

    /// The certificate in DER.
    pub fn certificate(&self) -> &[u8] {
        self.0.cert.der()
    }

    /// The key in DER (PKCS #8).
    pub fn key(&self) -> Vec<u8> {
        self.0.signing_key.serialize_der()
    }

    /// Both as PEM: quiche reads that from files only.
    pub fn files(&self) -> io::Result<Files> {
        let folder = tempfile::tempdir()?;
        let write = |name: &str, pem: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).map(|()| path)
        };
        Ok(Files {
            certificate: write("cert.pem", self.0.cert.pem())?,
            key: write("key.pem", self.0.signing_key.serialize_pem())?,
            _folder: folder,
        })
    }
}

/// Where key and certificate are; gone when dropped.
pub struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    _folder: TempDir,
}
