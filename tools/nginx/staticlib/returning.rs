//! Clients that come back, for nginx's module: what `mpq serve` does with them, behind C.

use std::ffi::c_char;
use std::ffi::c_int;
use std::ffi::CStr;
use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::slice;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mpq_returning::since_epoch;
use mpq_returning::Refusal;

use crate::guard;
use crate::Opaque;

/// Of one server of the configuration; the table is that of all workers.
pub type Keeper = mpq_returning::Keeper<&'static [AtomicU64]>;

/// Of one connection.
pub type Returning = mpq_returning::Returning;

/// `NGX_QUIC_RESUME_...` of `ngx_event_quic_connection.h`.
const NO_TOKEN: c_int = 0;
const RESUMED: c_int = 1;
const UNKNOWN: c_int = 2;
const EXPIRED: c_int = 3;
const USED: c_int = 4;

/// Bytes of a token, and entries of a table, for a check on the other side.
#[export_name = "ngx_quic_keeper_sizes"]
pub static KEEPER_SIZES: [usize; 2] = [mpq_returning::TOKEN_BYTES, mpq_returning::SLOTS];

/// NULL if the system has no cryptography. `key` has 32 bytes; what is in tokens is good for `lifetime` seconds.
///
/// # Safety
///
/// `table` has `SLOTS` zeroed entries, remains for ever, and is changed here alone, by whatever process.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_keeper_new(
    key: *const u8,
    table: *mut u64,
    lifetime: u64,
) -> *mut Keeper {
    let key: [u8; 32] = unsafe { *key.cast() };
    let table: &'static [AtomicU64] =
        unsafe { slice::from_raw_parts(table.cast(), mpq_returning::SLOTS) };
    let keeper = Keeper::new(&key, table, Duration::from_secs(lifetime));
    keeper.map_or(std::ptr::null_mut(), |keeper| {
        Box::into_raw(Box::new(keeper))
    })
}

/// # Safety
///
/// From [`ngx_quic_keeper_new`], and not used any more; or NULL.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_keeper_free(keeper: *mut Keeper) {
    if !keeper.is_null() {
        drop(unsafe { Box::from_raw(keeper) });
    }
}

/// 1 if the token shows that its client was reached at `peer` lately, 0 if it does not, -1 if it is not of ours.
///
/// # Safety
///
/// `token` has `len` bytes, `peer` 16.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_keeper_judge(
    keeper: &Keeper,
    token: *const u8,
    len: usize,
    peer: *const u8,
) -> c_int {
    let (token, peer) = unsafe { (slice::from_raw_parts(token, len), ip(peer)) };
    match keeper.open(token, since_epoch()) {
        Some(token) => keeper.validates(&token, peer).into(),
        None => -1,
    }
}

/// Of a client that came with this token; `len` 0 is none.
///
/// # Safety
///
/// `token` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_returning_new(
    keeper: &Keeper,
    token: *const u8,
    len: usize,
) -> *mut Returning {
    let token = match len {
        0 => None,
        _ => keeper.open(unsafe { slice::from_raw_parts(token, len) }, since_epoch()),
    };
    Box::into_raw(Box::new(Returning::new(token)))
}

/// # Safety
///
/// From [`ngx_quic_returning_new`], and not used any more; or NULL.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_returning_free(returning: *mut Returning) {
    if !returning.is_null() {
        drop(unsafe { Box::from_raw(returning) });
    }
}

/// A path begins. Returns what came of it.
///
/// # Safety
///
/// `conn` is a `quiche_conn`, and addresses have 16 bytes.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_returning_begin_path(
    returning: &mut Returning,
    keeper: &Keeper,
    conn: Opaque,
    path_id: u64,
    peer: *const u8,
    local: *const u8,
) -> c_int {
    let (peer, local) = unsafe { (ip(peer), ip(local)) };
    guard(conn, NO_TOKEN, || {
        let quic = unsafe { &mut *conn.cast::<quiche::Connection>() };
        match returning.begin_path(keeper, quic, path_id, peer, local) {
            None => NO_TOKEN,
            Some(Ok(_)) => RESUMED,
            Some(Err(Refusal::Unknown)) => UNKNOWN,
            Some(Err(Refusal::Expired)) => EXPIRED,
            Some(Err(Refusal::Used)) => USED,
        }
    })
}

/// A path was validated.
#[no_mangle]
pub extern "C" fn ngx_quic_returning_path_validated(returning: &mut Returning) {
    returning.path_validated();
}

/// Sends the client a token if there is something to tell, and returns of how many paths it says the windows; -1 if it
/// sent none.
///
/// # Safety
///
/// `conn` is a `quiche_conn`.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_returning_tell(
    returning: &mut Returning,
    keeper: &Keeper,
    conn: Opaque,
    tells_addresses: c_int,
) -> c_int {
    guard(conn, -1, || {
        let quic = unsafe { &mut *conn.cast::<quiche::Connection>() };
        let told = returning.tell(keeper, quic, tells_addresses != 0);
        told.map_or(-1, |paths| paths as c_int)
    })
}

/// Whether a congestion controller can begin with a remembered window: quiche's own cannot, nor models.
///
/// # Safety
///
/// `name` ends with a zero byte.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_can_resume(name: *const c_char) -> c_int {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    mpq_decision::cc::resumes_carefully(&name).into()
}

/// IPv4 addresses are mapped ones.
unsafe fn ip(bytes: *const u8) -> IpAddr {
    let bytes: [u8; 16] = unsafe { *bytes.cast() };
    Ipv6Addr::from(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_can_resume() {
        for (name, can) in [
            (c"cubic", 0),
            (c"bbr2_gcongestion", 0),
            (c"olia", 1),
            (c"coupled-cubic:variant=alpha1", 1),
            (c"dc-ledbat:ret=10s", 0),
            (c"uncoupled-bbr", 0),
        ] {
            assert_eq!(unsafe { ngx_quic_can_resume(name.as_ptr()) }, can);
        }
    }

    #[test]
    fn token_of_somebody_else_is_none() {
        let table = Box::leak(vec![0; mpq_returning::SLOTS].into_boxed_slice());
        let keeper = unsafe { ngx_quic_keeper_new([1; 32].as_ptr(), table.as_mut_ptr(), 60) };
        let token = [7; mpq_returning::TOKEN_BYTES];
        let judged = unsafe {
            ngx_quic_keeper_judge(&*keeper, token.as_ptr(), token.len(), [0; 16].as_ptr())
        };
        assert_eq!(judged, -1);
        unsafe { ngx_quic_keeper_free(keeper) };
    }
}
