//! As much of ISO BMFF (ISO/IEC 14496-12) as a client without a decoder needs: is this a segment at
//! all, and what does a segment index say.

use std::time::Duration;

use crate::mpd::ByteRange;

/// Bytes of a body that [`check_start`] looks at.
pub const CHECKED_BYTES: usize = 16;

/// Boxes that may open an init or media segment (ISO/IEC 23009-1, 6.3 and ISO/IEC 14496-12, 8).
const OPENING_BOXES: [&[u8; 4]; 10] = [
    b"ftyp", b"styp", b"moov", b"moof", b"sidx", b"ssix", b"emsg", b"prft", b"free", b"mdat",
];

/// A body that is not ISO BMFF.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotIsoBmff {
    /// Shorter than one box header.
    #[error("{0} bytes are too few for an ISO BMFF box")]
    TooShort(u64),
    /// The first box is of another type, as it is in an HTML error page.
    #[error("it starts with {0:?}, not with an ISO BMFF box such as ftyp, styp, sidx or moof")]
    UnknownBox(String),
    /// The first box claims to be smaller than its header or larger than the body.
    #[error("its first box claims {claimed} bytes of a {body}-byte body")]
    BadSize {
        /// Size in the box header, bytes.
        claimed: u64,
        /// Length of the body, bytes.
        body: u64,
    },
}

/// Checks that a body of `body_bytes` bytes that begins with `head` is an ISO BMFF segment.
///
/// `head` is the first [`CHECKED_BYTES`] bytes, or the body if that is shorter.
pub fn check_start(head: &[u8], body_bytes: u64) -> Result<(), NotIsoBmff> {
    let Some((size, kind, header_bytes)) = box_header(head) else {
        return Err(NotIsoBmff::TooShort(body_bytes));
    };
    if !OPENING_BOXES.contains(&&kind) {
        let text = String::from_utf8_lossy(&head[..head.len().min(CHECKED_BYTES)]);
        return Err(NotIsoBmff::UnknownBox(text.into_owned()));
    }
    // Size 0 means "to the end of the body".
    if size != 0 && (size < header_bytes || size > body_bytes) {
        return Err(NotIsoBmff::BadSize {
            claimed: size,
            body: body_bytes,
        });
    }
    Ok(())
}

/// Size, type and header length of the first box.
fn box_header(bytes: &[u8]) -> Option<(u64, [u8; 4], u64)> {
    let mut fields = Fields(bytes);
    let size = fields.u32()?;
    let kind = fields.take::<4>()?;
    match size {
        1 => Some((fields.u64()?, kind, 16)),
        size => Some((size.into(), kind, 8)),
    }
}

/// A segment index that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SidxError {
    /// The bytes hold no complete `sidx` box.
    #[error("the index range holds no complete sidx box; check indexRange in the MPD")]
    Missing,
    /// The index points to further indexes.
    #[error("the sidx box refers to other sidx boxes, which is not supported")]
    Hierarchical,
    /// It lists nothing, too much, or sizes and times that do not fit.
    #[error("the sidx box is not plausible: {0}")]
    Implausible(&'static str),
}

/// Reads the `sidx` box that starts at byte `offset` of its file (ISO/IEC 14496-12, 8.16.3).
///
/// Returns range, start and duration of every subsegment, the first one starting at 0. At most
/// `limit` are accepted.
pub fn sidx(
    bytes: &[u8],
    offset: u64,
    limit: usize,
) -> Result<Vec<(ByteRange, Duration, Duration)>, SidxError> {
    let (size, kind, header_bytes) = box_header(bytes).ok_or(SidxError::Missing)?;
    let size_in_memory = usize::try_from(size).map_err(|_| SidxError::Missing)?;
    let body = bytes
        .get(header_bytes as usize..size_in_memory)
        .ok_or(SidxError::Missing)?;
    if &kind != b"sidx" {
        return Err(SidxError::Missing);
    }
    // The index range ends with the box, so media follows the box itself plus `first_offset`.
    read_entries(body, offset.checked_add(size), limit)
}

fn read_entries(
    body: &[u8],
    anchor: Option<u64>,
    limit: usize,
) -> Result<Vec<(ByteRange, Duration, Duration)>, SidxError> {
    let mut fields = Fields(body);
    let mut header = || {
        let version = fields.take::<4>()?[0];
        let _reference_id = fields.u32()?;
        let timescale = fields.u32()?;
        let (_earliest, first_offset) = match version {
            0 => (u64::from(fields.u32()?), u64::from(fields.u32()?)),
            _ => (fields.u64()?, fields.u64()?),
        };
        let _reserved = fields.take::<2>()?;
        let count = u16::from_be_bytes(fields.take::<2>()?);
        Some((timescale, first_offset, usize::from(count)))
    };
    let (timescale, first_offset, count) = header().ok_or(SidxError::Missing)?;
    if timescale == 0 || count == 0 || count > limit {
        return Err(SidxError::Implausible("no time scale or no segments"));
    }
    let mut first = anchor
        .and_then(|anchor| anchor.checked_add(first_offset))
        .ok_or(SidxError::Implausible("offsets overflow"))?;
    let seconds = |ticks: u64| {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(timescale);
        // 65535 entries of 2^32 ticks stay below 2^48 seconds.
        Duration::new(
            (nanos / 1_000_000_000) as u64,
            (nanos % 1_000_000_000) as u32,
        )
    };
    let mut ticks = 0u64;
    let mut entries = Vec::new();
    for _ in 0..count {
        let mut entry = || {
            let reference = fields.u32()?;
            let duration = fields.u32()?;
            let _sap = fields.u32()?;
            Some((reference, duration))
        };
        let (reference, duration) = entry().ok_or(SidxError::Missing)?;
        if reference >> 31 == 1 {
            return Err(SidxError::Hierarchical);
        }
        if reference == 0 || duration == 0 {
            return Err(SidxError::Implausible("an empty segment"));
        }
        let next = first
            .checked_add(reference.into())
            .ok_or(SidxError::Implausible("offsets overflow"))?;
        let range = ByteRange {
            first,
            last: next - 1,
        };
        let start = seconds(ticks);
        ticks += u64::from(duration);
        entries.push((range, start, seconds(ticks) - start));
        first = next;
    }
    Ok(entries)
}

/// Reads big-endian fields off the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// Counts the chunks of a CMAF segment as its bytes come: each ends with an `mdat` box.
#[derive(Debug, Clone, Default)]
pub struct ChunkCounter {
    header: Vec<u8>,
    /// Of the box whose header is known.
    left_bytes: u64,
    is_mdat: bool,
    chunks: u64,
}

impl ChunkCounter {
    /// Chunks that are there as a whole.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Takes the next bytes of the body. What is no box is one without an end.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left_bytes == 0 {
                let (first, rest) = bytes.split_at(1);
                self.header.extend(first);
                bytes = rest;
                self.read_header();
                continue;
            }
            let now = self.left_bytes.min(bytes.len() as u64);
            self.left_bytes -= now;
            bytes = &bytes[now as usize..];
            self.chunks += u64::from(self.left_bytes == 0 && self.is_mdat);
        }
    }

    /// Takes a header that is there as a whole.
    fn read_header(&mut self) {
        let Some((short, kind)) = self.header.first_chunk::<8>().map(|it| it.split_at(4)) else {
            return;
        };
        let is_mdat = kind == b"mdat";
        let short = short
            .iter()
            .fold(0, |size, byte| size << 8 | u64::from(*byte));
        let size = match (short, self.header.get(8..16)) {
            (1, None) => return,
            (1, Some(long)) => long
                .iter()
                .fold(0, |size, byte| size << 8 | u64::from(*byte)),
            _ => short,
        };
        let body = size.checked_sub(self.header.len() as u64);
        self.is_mdat = is_mdat;
        self.header.clear();
        match body {
            Some(0) => self.chunks += u64::from(is_mdat),
            Some(bytes) => self.left_bytes = bytes,
            None => self.left_bytes = u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_told_from_error_pages() {
        assert_eq!(check_start(b"\0\0\0\x18stypmsdh\0\0\0\0", 24), Ok(()));
        assert_eq!(check_start(b"\0\0\0\0mdat", 1_000_000), Ok(()));
        assert_eq!(
            check_start(b"\0\0\0\x01mdat\0\0\0\0\0\0\x10\0", 4096),
            Ok(())
        );
        assert_eq!(check_start(b"<htm", 4), Err(NotIsoBmff::TooShort(4)));
        assert!(matches!(
            check_start(b"<!DOCTYPE html><", 500),
            Err(NotIsoBmff::UnknownBox(text)) if text.starts_with("<!DOCTYPE")
        ));
        assert_eq!(
            check_start(b"\0\0\0\x18stypmsdh\0\0\0\0", 20),
            Err(NotIsoBmff::BadSize {
                claimed: 24,
                body: 20
            })
        );
        assert_eq!(
            check_start(b"\0\0\0\x07styp", 20),
            Err(NotIsoBmff::BadSize {
                claimed: 7,
                body: 20
            })
        );
    }

    /// Version 0, time scale 1000, first_offset 10, two segments of 500 and 300 bytes, 2 s and 1.5 s.
    fn example() -> Vec<u8> {
        let mut bytes = vec![];
        bytes.extend(56u32.to_be_bytes());
        bytes.extend(b"sidx");
        for field in [
            0,
            1,
            1000,
            0,
            10,
            2,
            500,
            2000,
            0x9000_0000,
            300,
            1500,
            0x9000_0000u32,
        ] {
            bytes.extend(field.to_be_bytes());
        }
        bytes
    }

    #[test]
    fn sidx_by_hand() {
        // Box at 800, 56 bytes long: media from 800 + 56 + 10 = 866.
        let ms = Duration::from_millis;
        assert_eq!(
            sidx(&example(), 800, 100).unwrap(),
            [
                (
                    ByteRange {
                        first: 866,
                        last: 1365
                    },
                    ms(0),
                    ms(2000)
                ),
                (
                    ByteRange {
                        first: 1366,
                        last: 1665
                    },
                    ms(2000),
                    ms(1500)
                ),
            ]
        );
    }

    #[test]
    fn broken_indexes_are_refused() {
        let good = example();
        for cut in 0..good.len() {
            assert_eq!(
                sidx(&good[..cut], 0, 100),
                Err(SidxError::Missing),
                "cut at {cut}"
            );
        }
        assert!(matches!(sidx(&good, 0, 1), Err(SidxError::Implausible(_))));
        assert!(matches!(
            sidx(&good, u64::MAX - 20, 9),
            Err(SidxError::Implausible(_))
        ));
        let mut nested = good.clone();
        nested[32] |= 0x80;
        assert_eq!(sidx(&nested, 0, 100), Err(SidxError::Hierarchical));
        let mut other = good;
        other[4..8].copy_from_slice(b"moof");
        assert_eq!(sidx(&other, 0, 100), Err(SidxError::Missing));
    }

    #[test]
    fn chunks_are_counted_however_their_bytes_come() {
        let boxed = |kind: &[u8; 4], body: usize| {
            let mut bytes = (body as u32 + 8).to_be_bytes().to_vec();
            bytes.extend(kind);
            bytes.resize(body + 8, 0x5a);
            bytes
        };
        let mut long = [&1u32.to_be_bytes()[..], b"mdat", &20u64.to_be_bytes()].concat();
        long.extend([0; 4]);
        let body = [
            boxed(b"styp", 16),
            boxed(b"moof", 100),
            boxed(b"mdat", 500),
            boxed(b"moof", 90),
            long,
            boxed(b"mdat", 0),
        ]
        .concat();
        let ends = [24 + 108 + 508, 24 + 108 + 508 + 98 + 20, body.len()];
        for piece in [1, 3, 7, 200, body.len()] {
            let mut counter = ChunkCounter::default();
            let mut at = 0;
            for bytes in body.chunks(piece) {
                counter.feed(bytes);
                at += bytes.len();
                let whole = ends.iter().filter(|end| **end <= at).count() as u64;
                assert_eq!(counter.chunks(), whole, "{at} in pieces of {piece}");
            }
        }
        // Sizes that cannot be are no reason to count on.
        for wrong in [&b"\0\0\0\x02mdat"[..], b"\0\0\0\0mdat"] {
            let mut counter = ChunkCounter::default();
            counter.feed(&[wrong, &[0; 100]].concat());
            assert_eq!(counter.chunks(), 0);
        }
    }
}
