//! A DASH presentation of boxes that hold filler instead of media.

use std::path::Path;

/// Video levels, in bit/s.
pub const LADDER_BPS: [u64; 3] = [200_000, 600_000, 1_800_000];

const AUDIO_BPS: u64 = 64_000;

/// Writes `movie.mpd` and its segments of one second into `dir`.
pub fn write(dir: &Path, seconds: u64) {
    let representation = |bps: u64| format!("<Representation id=\"{bps}\" bandwidth=\"{bps}\"/>");
    let video: String = LADDER_BPS.into_iter().map(representation).collect();
    let template = "<SegmentTemplate timescale=\"1000\" duration=\"1000\" startNumber=\"1\" \
                    initialization=\"init-$RepresentationID$.mp4\" \
                    media=\"seg-$RepresentationID$-$Number$.m4s\"/>";
    let mpd = format!(
        "<?xml version=\"1.0\"?>\n\
         <MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" \
         mediaPresentationDuration=\"PT{seconds}S\"><Period>\n\
         <AdaptationSet contentType=\"video\">{template}{video}</AdaptationSet>\n\
         <AdaptationSet contentType=\"audio\">{template}{}</AdaptationSet>\n\
         </Period></MPD>\n",
        representation(AUDIO_BPS)
    );
    std::fs::write(dir.join("movie.mpd"), mpd).unwrap();

    for bps in LADDER_BPS.into_iter().chain([AUDIO_BPS]) {
        let init = [mp4_box(b"ftyp", 16), mp4_box(b"moov", 600)].concat();
        std::fs::write(dir.join(format!("init-{bps}.mp4")), init).unwrap();
        let segment = [
            mp4_box(b"styp", 16),
            mp4_box(b"moof", 100),
            mp4_box(b"mdat", bps as usize / 8),
        ]
        .concat();
        for number in 1..=seconds {
            std::fs::write(dir.join(format!("seg-{bps}-{number}.m4s")), &segment).unwrap();
        }
    }
}

fn mp4_box(kind: &[u8; 4], body_bytes: usize) -> Vec<u8> {
    let mut bytes = (body_bytes as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(kind);
    bytes.resize(body_bytes + 8, 0x5a);
    bytes
}
