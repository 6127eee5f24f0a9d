//! Common Media Client Data, version 1 (CTA-5004, September 2020): what a player tells a server with
//! each request.
//!
//! ```text
//! CMCD-Object: br=3000,d=2000,ot=v         or, sorted and percent-encoded, in the query:
//! CMCD-Request: bl=8000,dl=8000,mtp=12500  ?CMCD=bl%3D8000%2Cbr%3D3000%2Cbs%2Cd%3D2000%2C...
//! CMCD-Status: bs
//! ```
//!
//! The four fields are dictionaries much as those of RFC 8941, but names of a player's own may have
//! capitals, so a parser of that RFC would refuse the whole. Here each member counts by itself: what
//! is not understood is passed over, and the last of a name counts. Nothing is allocated for reading,
//! so that a server can do it with every request.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod percent;
mod read;
mod write;

pub use write::Fields;

/// What is longer is not read: a field's value, or the argument once it is decoded. All keys of
/// version 1, each at its longest, take less.
pub const MAX_BYTES: usize = 2048;

/// Times above this are not believed: a day, in milliseconds.
pub const MAX_MS: u64 = 86_400_000;

/// Rates above this are not believed: 1 Tbit/s, in kbit/s.
pub const MAX_KBPS: u64 = 1_000_000_000;

/// What is asked for (`ot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// `m`: an MPD or a playlist.
    Manifest,
    /// `a`
    Audio,
    /// `v`
    Video,
    /// `av`: both in one.
    AudioVideo,
    /// `i`: an initialisation segment.
    Init,
    /// `o`: something else.
    Other,
}

impl Object {
    const ALL: [(Object, &'static str); 6] = [
        (Object::Manifest, "m"),
        (Object::Audio, "a"),
        (Object::Video, "v"),
        (Object::AudioVideo, "av"),
        (Object::Init, "i"),
        (Object::Other, "o"),
    ];
}

/// What a request says of the playback that it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cmcd {
    /// `bl`: media of this kind that is there and not played, milliseconds.
    pub buffer_ms: Option<u64>,
    /// `br`: rate of the media that is asked for, kbit/s.
    pub bitrate_kbps: Option<u64>,
    /// `d`: its length in time, milliseconds.
    pub duration_ms: Option<u64>,
    /// `dl`: from the request until the first of it has to be there, milliseconds.
    pub deadline_ms: Option<u64>,
    /// `mtp`: what the player measures, kbit/s.
    pub throughput_kbps: Option<u64>,
    /// `tb`: the highest rate that it may choose, kbit/s.
    pub top_bitrate_kbps: Option<u64>,
    /// `ot`
    pub object: Option<Object>,
    /// `su`: playback stands and waits for this, at its start, after a jump or a stall.
    pub is_startup: bool,
    /// `bs`: the buffer ran dry since the request before.
    pub was_starved: bool,
}

impl Cmcd {
    /// Whether playback stands. One that ran dry and has something again goes on.
    pub fn is_stalled(&self) -> bool {
        self.is_startup || self.was_starved && self.buffered_ms() == 0
    }

    /// Whether something is said of the playback, and not only of what is asked for.
    pub fn has_playback(&self) -> bool {
        self.buffer_ms.is_some() || self.is_startup || self.was_starved
    }

    /// What is buffered, milliseconds: nothing, where a player that stands does not say.
    pub fn buffered_ms(&self) -> u64 {
        self.buffer_ms.unwrap_or(0)
    }

    /// The media's rate in bit/s, 0 if it is not known.
    pub fn bitrate_bits_per_sec(&self) -> u64 {
        self.bitrate_kbps.unwrap_or(0) * 1000
    }
}
