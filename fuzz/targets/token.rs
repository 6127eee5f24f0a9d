//! Address tokens of the driver's server: those that it gave are taken, and none with a bit changed.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mpq_driver::EndpointKey;

fuzz_target!(|input: (u64, u8, u8, &[u8])| {
    let (seconds, at, mask, bytes) = input;
    let key = EndpointKey::from_bytes([7; 32]);
    let peer = SocketAddr::from(([192, 0, 2, 1], 4000));
    let now = Duration::from_secs(seconds);

    // Made up.
    let _ = key.check_retry_token(peer, bytes, now);

    let odcid = &bytes[..bytes.len().min(20)];
    let mut token = key.retry_token(peer, odcid, now);
    let original = key.check_retry_token(peer, &token, now);
    assert_eq!(original.as_deref(), Some(odcid));

    let at = usize::from(at) % token.len();
    token[at] ^= mask;
    let taken = key.check_retry_token(peer, &token, now);
    assert_eq!(taken.is_some(), mask == 0);
});
