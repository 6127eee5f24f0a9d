//! What a player says of itself, as header fields and as a query: within limits whatever comes, and read again as it is
//! written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpq_cmcd::Cmcd;
use mpq_cmcd::Fields;
use mpq_cmcd::MAX_KBPS;
use mpq_cmcd::MAX_MS;

fuzz_target!(|input: &[u8]| {
    let mut of_query = Cmcd::default();
    of_query.read_query(input);
    let mut cmcd = of_query;
    cmcd.read(input);

    for cmcd in [of_query, cmcd] {
        for ms in [cmcd.buffer_ms, cmcd.duration_ms, cmcd.deadline_ms] {
            assert!(ms.unwrap_or(0) <= MAX_MS);
        }
        for kbps in [
            cmcd.bitrate_kbps,
            cmcd.throughput_kbps,
            cmcd.top_bitrate_kbps,
        ] {
            assert!(kbps.unwrap_or(0) <= MAX_KBPS);
        }

        // Some are rounded when they are written for the first time.
        let session_id = String::from_utf8_lossy(&input[..input.len().min(64)]);
        let again = |cmcd| {
            let fields = Fields {
                cmcd,
                session_id: &session_id,
                next_object: Some(&session_id),
            };
            let mut of_headers = Cmcd::default();
            for (_, value) in fields.headers() {
                of_headers.read(value.as_bytes());
            }
            let mut of_query = Cmcd::default();
            of_query.read_query(fields.argument().as_bytes());
            assert_eq!(of_headers, of_query);
            of_headers
        };
        let rounded = again(cmcd);
        assert_eq!(again(rounded), rounded);
    }
});
