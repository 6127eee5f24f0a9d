//! The server's certificate: from files, or made on the spot.

use std::fmt::Write as _;
use std::path::Path;

use mpq_driver::config::load_identity;
use mpq_identity::Identity;
use sha2::Digest;
use sha2::Sha256;

use crate::exit::Failure;
use crate::exit::LOCAL;
use crate::exit::USAGE;

/// Puts the certificate of `files` (chain, key) into `config`.
pub fn from_files(config: &mut quiche::Config, cert: &Path, key: &Path) -> Result<(), Failure> {
    let text = |path: &Path| {
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| Failure::new(USAGE, format!("{}: not UTF-8", path.display())))
    };
    load_identity(config, &text(cert)?, &text(key)?).map_err(|e| Failure::new(LOCAL, e))
}

/// Makes a certificate for `names`, valid until the process ends in practice,
/// puts it into `config` and returns its SHA-256 fingerprint.
pub fn self_signed(config: &mut quiche::Config, names: Vec<String>) -> Result<String, Failure> {
    let fail =
        |e: &dyn std::fmt::Display| Failure::new(LOCAL, format!("cannot make a certificate: {e}"));

    let made = Identity::new(names).map_err(|e| fail(&e))?;
    let files = made.files().map_err(|e| fail(&e))?;
    from_files(config, &files.certificate, &files.key)?;

    Ok(to_hex(&Sha256::digest(made.certificate())))
}

/// Lower-case hexadecimal.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A SHA-256 fingerprint in hexadecimal, with or without colons.
pub fn parse_fingerprint(text: &str) -> Result<[u8; 32], String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let bytes: Option<Vec<u8>> = digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect();
    bytes
        .filter(|_| digits.len() == 64)
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| "must be 64 hexadecimal digits, colons allowed".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_survives_both_notations() {
        let bytes: [u8; 32] = std::array::from_fn(|i| i as u8 * 7);
        let plain = to_hex(&bytes);
        assert_eq!(parse_fingerprint(&plain), Ok(bytes));

        let colons: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(parse_fingerprint(&colons.join(":")), Ok(bytes));

        for bad in [
            "",
            "00",
            &plain[..62],
            &format!("{plain}00"),
            &"zz".repeat(32),
        ] {
            assert!(parse_fingerprint(bad).is_err(), "{bad}");
        }
    }
}
