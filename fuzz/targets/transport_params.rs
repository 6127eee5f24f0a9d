//! Transport parameters, of clients and of servers: parsed, written, parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for is_server in [false, true] {
        quiche::test_utils::reencode_transport_params(input, is_server);
    }
});
