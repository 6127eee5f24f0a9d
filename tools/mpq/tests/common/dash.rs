//! A DASH presentation of boxes that hold filler instead of media.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

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

/// Live: publishes segments of half a second into `dir` as they are made, and after each the MPD
/// `live.mpd` with the newest eight, until the returned flag is set. Two seconds are there already. The clock that it names
/// cannot be had.
pub fn publish(dir: &Path) -> (Arc<AtomicBool>, JoinHandle<()>) {
    const BPS: u64 = LADDER_BPS[0];
    const MS: u64 = 500;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // A whole second, as the MPD says it in seconds.
    let began = Duration::from_secs(now().as_secs() - 2);
    let dir = dir.to_owned();
    let put = move |name: &str, content: &[u8]| {
        // All of it or nothing.
        std::fs::write(dir.join("part"), content).unwrap();
        std::fs::rename(dir.join("part"), dir.join(name)).unwrap();
    };
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let init = [mp4_box(b"ftyp", 16), mp4_box(b"moov", 600)].concat();
    put("live-init.mp4", &init);
    let publish = move |number: u64| {
        let segment = [
            mp4_box(b"styp", 16),
            mp4_box(b"moof", 100),
            mp4_box(b"mdat", (BPS * MS / 8_000) as usize),
        ];
        put(&format!("live-{}.m4s", number * MS), &segment.concat());
        let first = number.saturating_sub(7);
        let mpd = format!(
            "<MPD type=\"dynamic\" availabilityStartTime=\"{}\" minimumUpdatePeriod=\"PT0.5S\">\
             <Period><AdaptationSet contentType=\"video\"><SegmentTemplate timescale=\"1000\" \
             initialization=\"live-init.mp4\" media=\"live-$Time$.m4s\"><SegmentTimeline>\
             <S t=\"{}\" d=\"{MS}\" r=\"{}\"/></SegmentTimeline></SegmentTemplate>\
             <Representation id=\"v\" bandwidth=\"{BPS}\"/></AdaptationSet></Period>\
             <UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:http-iso:2014\" value=\"http://time.invalid/\"/></MPD>",
            utc(began),
            first * MS,
            number - first
        );
        put("live.mpd", mpd.as_bytes());
    };
    publish(0);
    let thread = std::thread::spawn(move || {
        for number in 1.. {
            let end = began + Duration::from_millis((number + 1) * MS);
            std::thread::sleep(end.saturating_sub(now()));
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            publish(number);
        }
    });
    (stop, thread)
}

/// A time since 1970 as `date` writes it.
fn utc(time: Duration) -> String {
    let output = Command::new("date")
        .args([
            "-u",
            "-d",
            &format!("@{}", time.as_secs()),
            "+%Y-%m-%dT%H:%M:%SZ",
        ])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn mp4_box(kind: &[u8; 4], body_bytes: usize) -> Vec<u8> {
    let mut bytes = (body_bytes as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(kind);
    bytes.resize(body_bytes + 8, 0x5a);
    bytes
}
