//! What a client's request says of its playback, for nginx's module: one parser for all servers here.

use std::ffi::c_int;
use std::slice;

use mpq_cmcd::Cmcd;

/// `ngx_quic_playback_t` of `ngx_event_quic.h`; -1 where nothing is said.
#[repr(C)]
pub struct Playback {
    buffer_ms: i64,
    bitrate_kbps: i64,
    deadline_ms: i64,
    throughput_kbps: i64,
    is_startup: c_int,
    was_starved: c_int,
}

impl Playback {
    fn to_cmcd(&self) -> Cmcd {
        let said = |value: i64| u64::try_from(value).ok();
        Cmcd {
            buffer_ms: said(self.buffer_ms),
            bitrate_kbps: said(self.bitrate_kbps),
            deadline_ms: said(self.deadline_ms),
            throughput_kbps: said(self.throughput_kbps),
            is_startup: self.is_startup != 0,
            was_starved: self.was_starved != 0,
            ..Cmcd::default()
        }
    }

    fn of(cmcd: &Cmcd) -> Playback {
        // All are far below the largest.
        let or_none = |value: Option<u64>| value.map_or(-1, |value| value as i64);
        Playback {
            buffer_ms: or_none(cmcd.buffer_ms),
            bitrate_kbps: or_none(cmcd.bitrate_kbps),
            deadline_ms: or_none(cmcd.deadline_ms),
            throughput_kbps: or_none(cmcd.throughput_kbps),
            is_startup: cmcd.is_startup.into(),
            was_starved: cmcd.was_starved.into(),
        }
    }
}

/// Adds what the value of a header field says to `playback`, or with `is_query` what the argument `CMCD` of a query
/// does. Returns whether anything was understood.
///
/// # Safety
///
/// `playback` is valid, and `text` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn ngx_quic_read_cmcd(
    playback: *mut Playback,
    text: *const u8,
    len: usize,
    is_query: c_int,
) -> c_int {
    if text.is_null() {
        return 0;
    }
    let (playback, text) = unsafe { (&mut *playback, slice::from_raw_parts(text, len)) };
    let mut cmcd = playback.to_cmcd();
    let has_any = match is_query {
        0 => cmcd.read(text),
        _ => cmcd.read_query(text),
    };
    *playback = Playback::of(&cmcd);
    has_any.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_add_up() {
        let mut playback = Playback::of(&Cmcd::default());
        assert_eq!((playback.buffer_ms, playback.is_startup), (-1, 0));
        let mut read = |text: &str, is_query| unsafe {
            ngx_quic_read_cmcd(&mut playback, text.as_ptr(), text.len(), is_query)
        };
        assert_eq!(read("br=3000,ot=v", 0), 1);
        assert_eq!(read("sid=\"x\"", 0), 0);
        assert_eq!(read("bl=100,dl=0,mtp=500", 0), 1);
        assert_eq!(read("t=1&CMCD=bs%2Csu", 1), 1);
        assert_eq!(
            unsafe { ngx_quic_read_cmcd(&mut playback, std::ptr::null(), 0, 0) },
            0
        );
        assert_eq!((playback.buffer_ms, playback.bitrate_kbps), (100, 3000));
        assert_eq!((playback.deadline_ms, playback.throughput_kbps), (0, 500));
        assert_eq!((playback.is_startup, playback.was_starved), (1, 1));
    }
}
