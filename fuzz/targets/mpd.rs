//! MPDs of any bytes. Good seeds: `tests/fixtures/*.mpd`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpq_dash::mpd::Presentation;
use url::Url;

fuzz_target!(|document: &[u8]| {
    let url = Url::parse("https://example.org/a/b.mpd").expect("a URL");
    let Ok(presentation) = Presentation::parse(document, &url) else {
        return;
    };
    for set in presentation
        .periods
        .iter()
        .flat_map(|period| &period.adaptation_sets)
    {
        for representation in &set.representations {
            let Some(count) = representation.segment_count() else {
                continue;
            };
            for index in [0, 1, count / 2, count - 1] {
                let segment = representation.segment(index);
                assert!(index < count || segment.is_none());
            }
        }
    }
});
