//! A server with multipath, whose peer sends anything after the handshake.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpq_fuzz::pair::attack;
use mpq_fuzz::pair::Target;

fuzz_target!(|input: &[u8]| attack(Target::Server, input));
