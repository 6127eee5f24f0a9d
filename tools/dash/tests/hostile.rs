//! Hostile MPDs: whatever the bytes, no panic, and memory that follows their number.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use mpq_dash::isobmff;
use mpq_dash::mpd::Presentation;
use proptest::prelude::*;
use url::Url;

/// Bytes per byte of document: a tree of the smallest elements is this much larger.
const MEMORY_FACTOR: usize = 128;
/// And what inherited lists may add, see the budget in `mpd::segments`.
const MEMORY_BASE: usize = 160 << 20;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

/// Counts what the current thread holds.
struct Counting;

// SAFETY: passes every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Threads that are ending have no counter any more.
        let _ = LIVE.try_with(|live| {
            live.set(live.get() + layout.size());
            let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
        });
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(layout.size())));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Parses, and asks for segments as a player would. Returns the peak of memory held.
fn exercise(document: &[u8]) -> usize {
    let url = Url::parse("https://example.org/a/b.mpd").unwrap();
    let before = LIVE.get();
    PEAK.set(before);
    if let Ok(presentation) = Presentation::parse(document, &url) {
        for set in presentation
            .periods
            .iter()
            .flat_map(|period| &period.adaptation_sets)
        {
            for representation in set.representations.iter().take(10) {
                let count = representation.segment_count().unwrap_or(0);
                for index in [0, 1, count / 2, count.saturating_sub(1), count, u64::MAX] {
                    let segment = representation.segment(index);
                    assert!(index < count || segment.is_none());
                }
            }
        }
    }
    PEAK.get() - before
}

const FIXTURES: [&str; 3] = [
    include_str!("fixtures/ffmpeg-number.mpd"),
    include_str!("fixtures/ffmpeg-timeline.mpd"),
    include_str!("fixtures/ffmpeg-single-file.mpd"),
];

/// Values that sit on edges of what the parser computes with.
const NASTY: [&str; 14] = [
    "0",
    "-1",
    "1",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
    "PT720H",
    "PT0.000000001S",
    "$Number%020d$",
    "$$",
    "//$Time$",
    "0-18446744073709551615",
    "&#x10FFFF;",
    "",
];

/// Replaces the value of the `which`-th attribute.
fn with_attribute(document: &str, which: usize, value: &str) -> String {
    let quotes: Vec<usize> = document.match_indices('"').map(|(at, _)| at).collect();
    let pair = which % (quotes.len() / 2) * 2;
    format!(
        "{}{value}{}",
        &document[..=quotes[pair]],
        &document[quotes[pair + 1]..]
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(document in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert!(exercise(&document) < 1 << 20);
    }

    #[test]
    fn any_markup(document in "(<(MPD|Period|S|AdaptationSet|/MPD|!--|\\?|!\\[CDATA\\[)( [a-z:]{1,4}=['\"]?[a-zA-Z0-9$&;-]{0,5}['\"]?)?/?>?){0,40}") {
        prop_assert!(exercise(document.as_bytes()) < 1 << 20);
    }

    #[test]
    fn mutated_bytes(
        fixture in 0..FIXTURES.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<Option<prop::sample::Index>>(),
    ) {
        let mut document = FIXTURES[fixture].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(document.len());
            document[at] = byte;
        }
        if let Some(cut) = cut {
            document.truncate(cut.index(document.len()));
        }
        prop_assert!(exercise(&document) < 1 << 20);
    }

    #[test]
    fn mutated_values(
        fixture in 0..FIXTURES.len(),
        changes in proptest::collection::vec((any::<usize>(), 0..NASTY.len()), 1..6),
    ) {
        let mut document = FIXTURES[fixture].to_owned();
        for (which, value) in changes {
            document = with_attribute(&document, which, NASTY[value]);
        }
        prop_assert!(exercise(document.as_bytes()) < 2 << 20);
    }

    #[test]
    fn any_index(bytes in proptest::collection::vec(any::<u8>(), 0..200), offset in any::<u64>()) {
        let mut sidx = (bytes.len() as u32 + 8).to_be_bytes().to_vec();
        sidx.extend(b"sidx");
        sidx.extend(&bytes);
        if let Ok(segments) = isobmff::sidx(&sidx, offset, 1_000) {
            prop_assert!(segments.len() <= bytes.len() / 12);
        }
        let _ = isobmff::check_start(&bytes, offset);
    }
}

#[test]
fn amplification_is_bounded() {
    let set = |inside: String| {
        format!(
            "<MPD mediaPresentationDuration='PT10S'><Period><AdaptationSet contentType='video'>\
             {inside}</AdaptationSet></Period></MPD>"
        )
    };
    let representations = |count| "<Representation id='v' bandwidth='1'/>".repeat(count);
    let long = "x".repeat(1 << 20);
    let documents = [
        // Promises: a million segments, and more.
        set(format!("<SegmentTemplate media='$Number$' duration='1' timescale='100000'/>{}", representations(1))),
        set(format!("<SegmentTemplate media='$Time$'><SegmentTimeline><S d='1' r='999998'/></SegmentTimeline></SegmentTemplate>{}", representations(1_000))),
        // Long inherited URLs, templates and lists.
        set(format!("<BaseURL>{long}</BaseURL>{}", representations(5_000))),
        set(format!("<SegmentTemplate media='{long}$Number$' duration='1'/>{}", representations(5_000))),
        set(format!("<BaseURL>{long}</BaseURL><SegmentList duration='1'>{}</SegmentList>{}", "<SegmentURL/>".repeat(5_000), representations(5_000))),
        set(format!("<SegmentTemplate media='$Time$'><SegmentTimeline>{}</SegmentTimeline></SegmentTemplate>{}", "<S d='1'/>".repeat(100_000), representations(10_000))),
        // Many, deep, wide.
        format!("<MPD>{}", "<Period>".repeat(500_000)),
        format!("<MPD>{}", "<S/>".repeat(500_000)),
        format!("<MPD>{}", "<a>".repeat(500_000)),
        format!("<MPD {}/>", "a='' ".repeat(500_000)),
        set(representations(100_000)),
    ];
    for document in documents {
        let peak = exercise(document.as_bytes());
        let limit = MEMORY_BASE + MEMORY_FACTOR * document.len();
        let start = &document[..document.len().min(120)];
        assert!(peak < limit, "{peak} bytes of {limit} for {start}");
        eprintln!(
            "{:>6} kB for {:>6} kB of {start:.100}",
            peak >> 10,
            document.len() >> 10
        );
    }
}
