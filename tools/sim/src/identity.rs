//! The servers' certificate.

use std::sync::OnceLock;

use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::hash::MessageDigest;
use boring::pkey::PKey;
use boring::pkey::Private;
use boring::rsa::Rsa;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::x509::X509Name;
use boring::x509::X509;

/// A key that guards nothing: it is here because to make one takes as long as a second of traffic.
const KEY: &[u8] = include_bytes!("server-key.der");

/// A self-signed RSA certificate and its key. ECDSA signatures vary in length, and with them the
/// handshake's packets; RSA's do not.
fn make() -> Result<(X509, PKey<Private>), ErrorStack> {
    let key = PKey::from_rsa(Rsa::private_key_from_der(KEY)?)?;
    let mut name = X509Name::builder()?;
    name.append_entry_by_text("CN", "mpq-sim")?;
    let name = name.build();
    let mut certificate = X509::builder()?;
    certificate.set_version(2)?;
    certificate.set_subject_name(&name)?;
    certificate.set_issuer_name(&name)?;
    certificate.set_pubkey(&key)?;
    certificate.set_not_before(&*Asn1Time::days_from_now(0)?)?;
    certificate.set_not_after(&*Asn1Time::days_from_now(365)?)?;
    certificate.sign(&key, MessageDigest::sha256())?;
    Ok((certificate.build(), key))
}

/// TLS for a server. All servers of the process share one identity.
pub fn server_tls() -> Result<SslContextBuilder, ErrorStack> {
    static IDENTITY: OnceLock<Result<(X509, PKey<Private>), ErrorStack>> = OnceLock::new();
    let (certificate, key) = IDENTITY.get_or_init(make).as_ref().map_err(Clone::clone)?;
    let mut tls = SslContextBuilder::new(SslMethod::tls())?;
    tls.set_certificate(certificate)?;
    tls.set_private_key(key)?;
    Ok(tls)
}

/// TLS for a client, which is to ask for no authority.
pub fn client_tls() -> Result<SslContextBuilder, ErrorStack> {
    SslContextBuilder::new(SslMethod::tls())
}
