//! Connection IDs and the secrets derived from this endpoint's key.

use std::net::SocketAddr;
use std::time::Duration;

use hmac::Hmac;
use hmac::Mac;
use quiche::ConnectionId;
use sha2::Sha256;

/// Length of every connection ID made here, in bytes. Every packet carries
/// one, and 64 random bits are enough to never meet twice in one endpoint.
pub(crate) const CID_BYTES: usize = 8;

/// How long a Retry token is good for, in seconds.
const RETRY_LIFETIME_SECONDS: u64 = 10;

const MAC_BYTES: usize = 16;

/// A key from which stateless reset and Retry tokens are derived, so that
/// neither has to be stored.
#[derive(Clone)]
pub struct EndpointKey([u8; 32]);

impl EndpointKey {
    /// A fresh random key.
    pub fn random() -> EndpointKey {
        let mut key = [0; 32];
        fill_random(&mut key);
        EndpointKey(key)
    }

    /// A key kept across restarts, so that peers of the previous process can
    /// be reset.
    pub fn from_bytes(key: [u8; 32]) -> EndpointKey {
        EndpointKey(key)
    }

    /// The stateless reset token of `cid` (RFC 9000, section 10.3.2).
    pub(crate) fn reset_token(&self, cid: &[u8]) -> u128 {
        u128::from_be_bytes(self.mac(&[b"reset", cid]))
    }

    /// A Retry token that binds the client's address to the connection ID it
    /// first used (RFC 9000, section 8.1.2). `now` is since the Unix epoch.
    pub fn retry_token(&self, peer: SocketAddr, original_dcid: &[u8], now: Duration) -> Vec<u8> {
        let time = now.as_secs().to_be_bytes();
        let mac = self.retry_mac(peer, original_dcid, time);
        [&time[..], &mac[..], original_dcid].concat()
    }

    /// The original connection ID in `token`, if the token is ours, fresh and
    /// was given to `peer`.
    pub fn check_retry_token(
        &self,
        peer: SocketAddr,
        token: &[u8],
        now: Duration,
    ) -> Option<ConnectionId<'static>> {
        let (time, rest) = token.split_first_chunk::<8>()?;
        let (mac, original_dcid) = rest.split_first_chunk::<MAC_BYTES>()?;

        if original_dcid.len() > quiche::MAX_CONN_ID_LEN
            || self.retry_mac(peer, original_dcid, *time) != *mac
        {
            return None;
        }

        let age = now.as_secs().checked_sub(u64::from_be_bytes(*time))?;
        (age <= RETRY_LIFETIME_SECONDS).then(|| ConnectionId::from_vec(original_dcid.to_vec()))
    }

    fn retry_mac(&self, peer: SocketAddr, original_dcid: &[u8], time: [u8; 8]) -> [u8; MAC_BYTES] {
        let address = peer.to_string();
        self.mac(&[b"retry", &time, address.as_bytes(), b"|", original_dcid])
    }

    /// A key for something else.
    pub(crate) fn derived(&self, label: &[u8]) -> [u8; 32] {
        let halves = [b"1", b"2"].map(|half| self.mac(&[b"derived", half, label]));
        let mut key = [0; 32];
        key.copy_from_slice(&halves.concat());
        key
    }

    fn mac(&self, parts: &[&[u8]]) -> [u8; MAC_BYTES] {
        // HMAC takes a key of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| unreachable!("HMAC takes any key"));
        for part in parts {
            mac.update(part);
        }

        let mut out = [0; MAC_BYTES];
        out.copy_from_slice(&mac.finalize().into_bytes()[..MAC_BYTES]);
        out
    }
}

/// A fresh random connection ID.
pub(crate) fn random_cid() -> ConnectionId<'static> {
    let mut cid = vec![0; CID_BYTES];
    fill_random(&mut cid);
    ConnectionId::from_vec(cid)
}

/// Fills `buf` from the system's generator.
///
/// # Panics
///
/// If the system has no random numbers, which nothing here could survive.
pub(crate) fn fill_random(buf: &mut [u8]) {
    getrandom::fill(buf).expect("the system has no random numbers");
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn a_retry_token_is_good_for_its_owner_and_for_a_while() {
        let key = EndpointKey::random();
        let peer: SocketAddr = "192.0.2.1:4433".parse().unwrap();
        let token = key.retry_token(peer, b"original", NOW);

        let check = |peer, token: &[u8], seconds| {
            key.check_retry_token(peer, token, Duration::from_secs(seconds))
        };
        assert_eq!(check(peer, &token, 1_010).unwrap().as_ref(), b"original");
        assert!(check(peer, &token, 1_011).is_none(), "too old");
        assert!(check(peer, &token, 999).is_none(), "from the future");
        assert!(check("192.0.2.1:4434".parse().unwrap(), &token, 1_000).is_none());
        for i in 0..token.len() {
            let mut forged = token.clone();
            forged[i] ^= 1;
            assert!(check(peer, &forged, 1_000).is_none(), "byte {i}");
        }
        for len in 0..24 {
            assert!(check(peer, &token[..len], 1_000).is_none());
        }
    }

    #[test]
    fn reset_tokens_depend_on_the_key_and_the_connection_id() {
        let key = EndpointKey::from_bytes([7; 32]);
        let token = key.reset_token(b"a");
        assert_eq!(token, EndpointKey::from_bytes([7; 32]).reset_token(b"a"));
        assert_ne!(token, key.reset_token(b"b"));
        assert_ne!(token, EndpointKey::from_bytes([8; 32]).reset_token(b"a"));
    }
}
