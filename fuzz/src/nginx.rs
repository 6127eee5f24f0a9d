//! What nginx's module reads from the first bytes of a datagram, in its own C (see `build.rs`).

use std::ffi::c_int;
use std::ffi::c_void;
use std::ptr;
use std::slice;

/// Length of the connection IDs that the module issues, in bytes.
pub const CID_BYTES: usize = 20;

/// The module's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// A header.
    Header {
        version: u32,
        /// By quiche's numbers.
        ty: u32,
        dcid: Vec<u8>,
        scid: Vec<u8>,
        token: Vec<u8>,
    },
    /// A version that quiche does not support.
    OtherVersion,
    /// No header.
    Malformed,
}

#[repr(C)]
struct CHeader {
    rc: isize,
    version: u32,
    ty: u32,
    dcid: *const u8,
    dcid_len: usize,
    scid: *const u8,
    scid_len: usize,
    token: *const u8,
    token_len: usize,
}

extern "C" {
    fn harness_parse_header(data: *mut u8, len: usize, out: *mut CHeader);
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(at: *mut c_void, len: usize, prot: c_int) -> c_int;
}

/// For the C code.
#[no_mangle]
extern "C" fn quiche_version_is_supported(version: u32) -> c_int {
    c_int::from(quiche::version_is_supported(version))
}

/// Memory right before a page that must not be touched: who reads beyond the end is caught.
pub struct Guarded {
    end: *mut u8,
}

/// Larger than any input.
const ROOM: usize = 1 << 20;

impl Guarded {
    /// Maps it.
    ///
    /// # Panics
    ///
    /// If there is no memory.
    pub fn new() -> Guarded {
        const PROT_NONE: c_int = 0;
        const PROT_READ_WRITE: c_int = 3;
        const PRIVATE_ANONYMOUS: c_int = 0x22;
        const PAGE: usize = 1 << 16;
        // SAFETY: a fresh mapping, whose last pages only this function knows.
        unsafe {
            let all = mmap(
                ptr::null_mut(),
                ROOM + PAGE,
                PROT_READ_WRITE,
                PRIVATE_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(all as isize, -1, "no memory");
            let end = all.cast::<u8>().add(ROOM);
            assert_eq!(mprotect(end.cast(), PAGE, PROT_NONE), 0);
            Guarded { end }
        }
    }

    /// Lets the module read the header of `datagram`, as nginx does before it looks for a connection.
    pub fn read(&mut self, datagram: &[u8]) -> Read {
        assert!(datagram.len() <= ROOM);
        // SAFETY: the copy ends where the mapping does; the pointers that come back point into it or into
        // the harness's own header, and are copied before the next call.
        unsafe {
            let data = self.end.sub(datagram.len());
            ptr::copy_nonoverlapping(datagram.as_ptr(), data, datagram.len());
            let mut header = std::mem::zeroed::<CHeader>();
            harness_parse_header(data, datagram.len(), &mut header);
            let copy = |at: *const u8, len: usize| match len {
                0 => Vec::new(),
                _ => slice::from_raw_parts(at, len).to_vec(),
            };
            match header.rc {
                0 => Read::Header {
                    version: header.version,
                    ty: header.ty,
                    dcid: copy(header.dcid, header.dcid_len),
                    scid: copy(header.scid, header.scid_len),
                    token: copy(header.token, header.token_len),
                },
                -6 => Read::OtherVersion,
                _ => Read::Malformed,
            }
        }
    }
}

impl Default for Guarded {
    fn default() -> Guarded {
        Guarded::new()
    }
}
