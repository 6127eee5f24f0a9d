//! quiche's C API as an archive for nginx, and a guard around what works on a connection: a panic in there is the end
//! of that connection, not of the worker with all others.
//!
//! What has panicked is not touched again: it is closed for nginx, and its memory is never freed, since nobody knows
//! what it looks like inside.

mod cache;
mod cmcd;
mod returning;

use std::cell::Cell;
use std::cell::RefCell;
use std::ffi::c_int;
use std::ffi::c_void;
use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;

pub use quiche;

#[global_allocator]
static ALLOCATOR: cache::Cached = cache::Cached;

/// As `QUICHE_ERR_INVALID_STATE` and `QUICHE_ERR_DONE` of `quiche.h`.
const INVALID_STATE: isize = -6;
const DONE: isize = -1;

/// A `quiche_conn`, `quiche_recv_info` and so on: nothing here looks inside.
type Opaque = *mut c_void;

thread_local! {
    /// Whether there is any in `BROKEN`, for a look at each call.
    static ANY_BROKEN: Cell<bool> = const { Cell::new(false) };
    /// Connections that have panicked and are not closed yet.
    static BROKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn is_broken(conn: Opaque) -> bool {
    ANY_BROKEN.get() && BROKEN.with_borrow(|broken| broken.contains(&(conn as usize)))
}

fn forget(conn: Opaque) {
    BROKEN.with_borrow_mut(|broken| {
        broken.retain(|other| *other != conn as usize);
        ANY_BROKEN.set(!broken.is_empty());
    });
}

/// What `call` returns, or `failed` if it panics, or anything did for this connection before.
fn guard<R>(conn: Opaque, failed: R, call: impl FnOnce() -> R) -> R {
    if is_broken(conn) {
        return failed;
    }

    // The payload is not dropped: that may panic too.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        BROKEN.with_borrow_mut(|broken| broken.push(conn as usize));
        ANY_BROKEN.set(true);
        failed
    })
}

/// Defines `ngx_quic_guarded_NAME()` for `quiche_NAME()` of quiche's C API, with what it returns after a panic.
macro_rules! guarded {
    ($($guarded:ident = $name:ident($($arg:ident: $type:ty),*) -> $ret:ty, $failed:expr;)*) => {
        extern "C-unwind" {
            $(fn $name(conn: Opaque $(, $arg: $type)*) -> $ret;)*
        }

        $(
            /// As its namesake in `quiche.h`, with the same arguments.
            ///
            /// # Safety
            ///
            /// What quiche asks for.
            #[no_mangle]
            pub unsafe extern "C" fn $guarded(conn: Opaque $(, $arg: $type)*) -> $ret {
                guard(conn, $failed, || unsafe { $name(conn $(, $arg)*) })
            }
        )*
    };
}

guarded! {
    ngx_quic_guarded_conn_recv = quiche_conn_recv(buf: *mut u8, len: usize, info: Opaque) -> isize, INVALID_STATE;
    ngx_quic_guarded_conn_send = quiche_conn_send(out: *mut u8, len: usize, info: Opaque) -> isize, DONE;
    ngx_quic_guarded_conn_send_train = quiche_conn_send_train(out: *mut u8, len: usize) -> isize, DONE;
    ngx_quic_guarded_conn_on_timeout = quiche_conn_on_timeout() -> (), ();
    // So that its timer expires, and finds that it is closed.
    ngx_quic_guarded_conn_timeout_as_nanos = quiche_conn_timeout_as_nanos() -> u64, 0;
    ngx_quic_guarded_conn_is_closed = quiche_conn_is_closed() -> bool, true;
    ngx_quic_guarded_conn_close = quiche_conn_close(app: bool, error: u64, reason: *const u8, len: usize) -> c_int,
        DONE as c_int;
    ngx_quic_guarded_conn_path_stats = quiche_conn_path_stats(index: usize, out: Opaque) -> c_int, DONE as c_int;
    ngx_quic_guarded_conn_stream_recv =
        quiche_conn_stream_recv(stream: u64, out: *mut u8, len: usize, fin: *mut bool, error: *mut u64) -> isize,
        INVALID_STATE;
    ngx_quic_guarded_conn_stream_send =
        quiche_conn_stream_send(stream: u64, buf: *const u8, len: usize, fin: bool, error: *mut u64) -> isize,
        INVALID_STATE;
    ngx_quic_guarded_conn_stream_send_with =
        quiche_conn_stream_send_with(stream: u64, len: usize, fin: bool, fill: Opaque, argp: Opaque, error: *mut u64) -> isize,
        INVALID_STATE;
    ngx_quic_guarded_conn_report_qoe = quiche_conn_report_qoe(buffered_ms: u64, bitrate: u64, stalled: bool) -> c_int,
        INVALID_STATE as c_int;
    ngx_quic_guarded_conn_stream_deadline = quiche_conn_stream_deadline(stream: u64, within_ms: u64) -> c_int,
        INVALID_STATE as c_int;
    ngx_quic_guarded_conn_stream_announce = quiche_conn_stream_announce(stream: u64, length: u64) -> c_int,
        INVALID_STATE as c_int;
    ngx_quic_guarded_conn_stream_shutdown = quiche_conn_stream_shutdown(stream: u64, direction: c_int, error: u64) -> c_int,
        INVALID_STATE as c_int;
}

extern "C-unwind" {
    fn quiche_conn_free(conn: Opaque);
}

/// Whether a call for this connection has panicked.
#[no_mangle]
pub extern "C" fn ngx_quic_conn_has_panicked(conn: Opaque) -> bool {
    is_broken(conn)
}

/// As `quiche_conn_free()`, but one that has panicked stays in memory.
///
/// # Safety
///
/// What quiche asks for.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_guarded_conn_free(conn: Opaque) {
    guard(conn, (), || unsafe { quiche_conn_free(conn) });
    forget(conn);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_ends_one_connection() {
        let (mut one, mut other) = (1u8, 2u8);
        let one = &mut one as *mut u8 as Opaque;
        let other = &mut other as *mut u8 as Opaque;

        assert_eq!(guard(one, INVALID_STATE, || 7), 7);
        assert_eq!(
            guard(one, INVALID_STATE, || panic!("as a bug would")),
            INVALID_STATE
        );
        assert!(ngx_quic_conn_has_panicked(one));
        // It is not called any more, and looks closed. (Nothing is behind the pointer.)
        assert_eq!(guard(one, DONE, || unreachable!()), DONE);
        assert!(unsafe { ngx_quic_guarded_conn_is_closed(one) });
        assert_eq!(unsafe { ngx_quic_guarded_conn_timeout_as_nanos(one) }, 0);
        assert_eq!(
            unsafe {
                ngx_quic_guarded_conn_recv(one, std::ptr::null_mut(), 0, std::ptr::null_mut())
            },
            -6
        );

        assert!(!ngx_quic_conn_has_panicked(other));
        assert_eq!(guard(other, DONE, || 8), 8);

        // Another one may get the same address.
        unsafe { ngx_quic_guarded_conn_free(one) };
        assert!(!ngx_quic_conn_has_panicked(one));
        assert_eq!(guard(one, DONE, || 9), 9);
    }

    #[test]
    fn panic_inside_quiche_is_caught() {
        // Real code of the C API: its own check of the length panics, before anything is touched.
        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        let addr = "127.0.0.1:4433".parse().unwrap();
        let id = quiche::ConnectionId::from_ref(&[1; 20]);
        let conn: quiche::Connection = quiche::accept(&id, None, addr, addr, &mut config).unwrap();
        let conn = Box::into_raw(Box::new(conn)) as Opaque;

        let mut info = [0u64; 64];
        let info = info.as_mut_ptr() as Opaque;
        assert!(!unsafe { ngx_quic_guarded_conn_is_closed(conn) });
        assert_eq!(
            unsafe { ngx_quic_guarded_conn_recv(conn, std::ptr::null_mut(), usize::MAX, info) },
            INVALID_STATE
        );
        assert!(unsafe { ngx_quic_guarded_conn_is_closed(conn) });
        unsafe { ngx_quic_guarded_conn_free(conn) };
    }
}
