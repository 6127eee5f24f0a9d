//! The connection IDs and the token that nginx's module reads from a datagram are those that quiche reads.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use mpq_fuzz::nginx::Guarded;
use mpq_fuzz::nginx::Read;
use mpq_fuzz::nginx::CID_BYTES;
use quiche::Header;
use quiche::Type;

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new());
}

fuzz_target!(|datagram: &[u8]| {
    if datagram.len() > 1 << 16 {
        return;
    }
    let read = MEMORY.with_borrow_mut(|memory| memory.read(datagram));
    let mut copy = datagram.to_vec();
    let header = Header::from_slice(&mut copy, CID_BYTES);
    let Read::Header {
        version,
        ty,
        dcid,
        scid,
        token,
    } = read
    else {
        return;
    };
    let Ok(header) = header else {
        // quiche reads more of a Retry, and the length of other packets.
        return;
    };
    let expected = match header.ty {
        Type::Initial => 1,
        Type::Retry => 2,
        Type::Handshake => 3,
        Type::ZeroRTT => 4,
        Type::Short => 5,
        Type::VersionNegotiation => 6,
    };
    assert_eq!(ty, expected);
    assert_eq!(dcid, header.dcid.to_vec());
    if header.ty != Type::Short {
        assert_eq!(version, header.version);
        assert_eq!(scid, header.scid.to_vec());
    }
    if header.ty == Type::Initial {
        assert_eq!(token, header.token.unwrap_or_default());
    }
});
