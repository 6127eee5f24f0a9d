//! Frames: what can be parsed is written and parsed again, and has to be the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((first, frames)) = input.split_first() else {
        return;
    };
    let ty = match first % 4 {
        0 => quiche::Type::Initial,
        1 => quiche::Type::Handshake,
        2 => quiche::Type::ZeroRTT,
        _ => quiche::Type::Short,
    };
    quiche::test_utils::reencode_frames(frames, ty);
});
