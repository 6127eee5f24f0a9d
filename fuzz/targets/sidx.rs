//! Segment indexes and segment starts of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpq_dash::isobmff;

fuzz_target!(|input: (u64, &[u8])| {
    let (offset, bytes) = input;
    let _ = isobmff::check_start(bytes, offset);
    if let Ok(segments) = isobmff::sidx(bytes, offset, 1_000) {
        assert!(segments.len() * 12 <= bytes.len());
    }
});
