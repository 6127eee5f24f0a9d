use super::*;

const FFMPEG_NUMBER: &str = include_str!("../../tests/fixtures/ffmpeg-number.mpd");
const FFMPEG_TIMELINE: &str = include_str!("../../tests/fixtures/ffmpeg-timeline.mpd");
const FFMPEG_SINGLE_FILE: &str = include_str!("../../tests/fixtures/ffmpeg-single-file.mpd");

fn parse(document: &str) -> Result<Presentation, MpdError> {
    let url = Url::parse("https://example.org/media/clip/out.mpd").unwrap();
    Presentation::parse(document.as_bytes(), &url)
}

/// An MPD of 10 s with one video AdaptationSet.
fn with_set(inside: &str) -> String {
    format!(
        "<MPD mediaPresentationDuration=\"PT10S\"><Period>\n\
         <AdaptationSet contentType=\"video\">\n{inside}\n</AdaptationSet></Period></MPD>"
    )
}

/// An MPD of 10 s with one Representation that holds `inside`.
fn with_representation(inside: &str) -> String {
    with_set(&format!(
        "<Representation id=\"v\" bandwidth=\"1000\">\n{inside}\n</Representation>"
    ))
}

fn only(presentation: &Presentation) -> &Representation {
    &presentation.periods[0].adaptation_sets[0].representations[0]
}

fn paths(representation: &Representation) -> Vec<String> {
    (0..representation.segment_count().unwrap())
        .map(|index| {
            representation
                .segment(index)
                .unwrap()
                .resource
                .url
                .path()
                .to_owned()
        })
        .collect()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn ffmpeg_with_numbers() {
    let presentation = parse(FFMPEG_NUMBER).unwrap();
    assert_eq!(presentation.duration, ms(12_000));
    let period = &presentation.periods[0];
    let video = period.first(MediaKind::Video).unwrap();
    let rates: Vec<u64> = video
        .representations
        .iter()
        .map(|it| it.bandwidth_bps)
        .collect();
    assert_eq!(rates, [150_000, 300_000, 750_000, 1_200_000, 2_500_000]);
    let top = &video.representations[4];
    assert_eq!(
        (top.width, top.height, top.frame_rate),
        (Some(1280), Some(720), Some(24.0))
    );
    assert_eq!(top.codecs.as_deref(), Some("avc1.42c01f"));
    assert_eq!(
        top.init.as_ref().unwrap().url.as_str(),
        "https://example.org/media/clip/init-stream4.m4s"
    );
    assert_eq!(top.segment_count(), Some(6));
    let last = top.segment(5).unwrap();
    assert_eq!((last.start, last.duration), (ms(10_000), ms(2_000)));
    assert_eq!(
        last.resource.url.as_str(),
        "https://example.org/media/clip/chunk-stream4-00006.m4s"
    );
    assert_eq!(top.segment(6), None);
    assert_eq!(
        period
            .first(MediaKind::Audio)
            .unwrap()
            .representations
            .len(),
        1
    );
}

#[test]
fn ffmpeg_with_a_timeline() {
    let presentation = parse(FFMPEG_TIMELINE).unwrap();
    let video = presentation.periods[0].first(MediaKind::Video).unwrap();
    let third = video.representations[0].segment(2).unwrap();
    assert_eq!((third.start, third.duration), (ms(4_000), ms(2_000)));

    // <S t=0 d=88064> <S d=89088> <S d=88064 r=2> <S d=87856> at 44100: the third starts at
    // 177152 / 44100 s = 4.017052154 s, the sixth ends at 529200 / 44100 = 12 s.
    let audio = &presentation.periods[0]
        .first(MediaKind::Audio)
        .unwrap()
        .representations[0];
    assert_eq!(audio.segment_count(), Some(6));
    assert_eq!(
        audio.segment(2).unwrap().start,
        Duration::from_nanos(4_017_052_154)
    );
    let last = audio.segment(5).unwrap();
    assert_eq!(last.start + last.duration, ms(12_000));
}

#[test]
fn ffmpeg_single_file() {
    let presentation = parse(FFMPEG_SINGLE_FILE).unwrap();
    let lowest = &presentation.periods[0]
        .first(MediaKind::Video)
        .unwrap()
        .representations[0];
    let init = lowest.init.as_ref().unwrap();
    assert_eq!(init.url.path(), "/media/clip/out-stream0.mp4");
    assert_eq!(init.range.unwrap().to_string(), "bytes=0-825");
    let second = lowest.segment(1).unwrap();
    assert_eq!(
        second.resource.range,
        Some(ByteRange {
            first: 44_368,
            last: 86_854
        })
    );
    assert_eq!(second.resource.range.unwrap().byte_count(), 42_487);
    assert_eq!(second.start, ms(2_000));
}

#[test]
fn attributes_are_inherited_one_by_one_and_base_urls_nest() {
    let presentation = parse(
        "<MPD mediaPresentationDuration='PT10S'><BaseURL>https://cdn.example/a/</BaseURL><Period>\
         <BaseURL>p/</BaseURL><SegmentTemplate timescale='10' startNumber='7'/>\
         <AdaptationSet mimeType='video/mp4' width='640'><BaseURL>s/</BaseURL>\
         <SegmentTemplate duration='40' media='$RepresentationID$/$Number$-$Time$.m4s'/>\
         <Representation id='hi' bandwidth='2000' width='1280'><BaseURL> r/ </BaseURL></Representation>\
         <Representation id='lo' bandwidth='1000'><SegmentTemplate startNumber='0'/></Representation>\
         </AdaptationSet></Period></MPD>",
    )
    .unwrap();
    let set = &presentation.periods[0].adaptation_sets[0];
    // Sorted by rate; 10 s of 4 s segments make three, the last one of 2 s.
    assert_eq!(
        paths(&set.representations[0]),
        [
            "/a/p/s/lo/0-0.m4s",
            "/a/p/s/lo/1-40.m4s",
            "/a/p/s/lo/2-80.m4s"
        ]
    );
    assert_eq!(paths(&set.representations[1])[0], "/a/p/s/r/hi/7-0.m4s");
    assert_eq!(set.representations[0].width, Some(640));
    assert_eq!(set.representations[1].width, Some(1280));
    assert_eq!(
        set.representations[0].segment(2).unwrap().duration,
        ms(2_000)
    );
}

#[test]
fn timelines_repeat_jump_and_run_to_the_end() {
    // Offset 100: starts at 0, 1 s; then r=-1 from 2 s to the next t at 5 s gives 3 of 1 s; then
    // r=-1 from 5 s to the end of the Period at 10 s gives ceil(5 / 2) = 3.
    let presentation = parse(&with_representation(
        "<SegmentTemplate timescale='100' media='$Time$.m4s' presentationTimeOffset='100'>\
         <SegmentTimeline><S t='100' d='100' r='1'/><S d='100' r='-1'/>\
         <S t='600' d='200' r='-1'/></SegmentTimeline></SegmentTemplate>",
    ))
    .unwrap();
    let representation = only(&presentation);
    let starts: Vec<u64> = (0..8)
        .map(|index| representation.segment(index).unwrap().start.as_secs())
        .collect();
    assert_eq!(starts, [0, 1, 2, 3, 4, 5, 7, 9]);
    assert_eq!(representation.segment_count(), Some(8));
    assert_eq!(paths(representation)[6], "/media/clip/800.m4s");
}

#[test]
fn segment_base_needs_its_index_first() {
    let presentation = parse(&with_representation(
        "<BaseURL>v.mp4</BaseURL><SegmentBase indexRange='800-855'/>",
    ))
    .unwrap();
    let mut representation = only(&presentation).clone();
    assert_eq!(representation.segment_count(), None);
    assert_eq!(
        representation.init.as_ref().unwrap().range,
        Some(ByteRange {
            first: 0,
            last: 799
        })
    );
    let index = representation.unresolved_index().unwrap();
    assert_eq!(index.range.unwrap().to_string(), "bytes=800-855");

    assert!(representation.resolve_index(b"<html>404</html>").is_err());
    // One segment of 1000 bytes and 10 s.
    let mut sidx = 44u32.to_be_bytes().to_vec();
    sidx.extend(b"sidx");
    for field in [0, 1, 1, 0, 0, 1, 1000, 10, 0u32] {
        sidx.extend(field.to_be_bytes());
    }
    representation.resolve_index(&sidx).unwrap();
    let segment = representation.segment(0).unwrap();
    assert_eq!(
        segment.resource.range,
        Some(ByteRange {
            first: 844,
            last: 1843
        })
    );
    assert_eq!(segment.duration, ms(10_000));
    assert_eq!(representation.unresolved_index(), None);
}

#[test]
fn one_file_without_addressing_is_one_segment() {
    let presentation = parse(&with_representation("<BaseURL>all.mp4</BaseURL>")).unwrap();
    assert_eq!(paths(only(&presentation)), ["/media/clip/all.mp4"]);
    assert_eq!(only(&presentation).segment(0).unwrap().duration, ms(10_000));
}

#[test]
fn periods_follow_each_other() {
    let set = "<AdaptationSet contentType='video'><SegmentTemplate media='$Number$' duration='2'/>\
               <Representation id='v' bandwidth='1'/></AdaptationSet>";
    let presentation = parse(&format!(
        "<MPD mediaPresentationDuration='PT10S'><Period duration='PT4S'>{set}</Period>\
         <Period>{set}</Period></MPD>"
    ))
    .unwrap();
    let spans: Vec<_> = presentation
        .periods
        .iter()
        .map(|period| (period.start.as_secs(), period.duration.as_secs()))
        .collect();
    assert_eq!(spans, [(0, 4), (4, 6)]);
}

#[test]
fn subtitles_and_trick_modes_are_passed_over() {
    let presentation = parse(&with_set(
        "<SegmentTemplate media='$Number$' duration='2'/><Representation id='v' bandwidth='1'/>\
         </AdaptationSet><AdaptationSet contentType='text'><Representation/></AdaptationSet>\
         <AdaptationSet contentType='video'><EssentialProperty schemeIdUri='trickmode'/>",
    ))
    .unwrap();
    assert_eq!(presentation.periods[0].adaptation_sets.len(), 1);
}

#[test]
fn errors_say_where_and_what() {
    let template =
        |attributes: &str| with_representation(&format!("<SegmentTemplate {attributes}/>"));
    let timeline = |entries: &str| {
        with_representation(&format!(
            "<SegmentTemplate media='$Time$'><SegmentTimeline>\n{entries}</SegmentTimeline></SegmentTemplate>"
        ))
    };
    let cases = [
        (String::new(), "not <MPD>"),
        ("not xml at all".into(), "not <MPD>"),
        ("<html><body>404</body></html>".into(), "not <MPD>"),
        ("<MPD>".into(), "ends inside an element"),
        ("<MPD></Period>".into(), "not well-formed"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><MPD/>".into(), "document type declaration"),
        ("<MPD a='&unknown;'/>".into(), "not well-formed"),
        ("<MPD type='dynamic'/>".into(), "availabilityStartTime"),
        ("<MPD type='later'/>".into(), "static or dynamic"),
        ("<MPD type='odd'/>".into(), "`type` is \"odd\""),
        ("<MPD/>".into(), "<Period> is missing"),
        ("<MPD>\n<Period/></MPD>".into(), "line 2, <Period>: attribute `mediaPresentationDuration`"),
        ("<MPD mediaPresentationDuration='PT1Y'/>".into(), "xs:duration"),
        ("<MPD mediaPresentationDuration='PT1S'><Period href='x'/></MPD>".into(), "remote Period"),
        ("<MPD mediaPresentationDuration='PT1S'><Period/></MPD>".into(), "audio or video"),
        (with_set(""), "line 2, <AdaptationSet>: <Representation> is missing"),
        (with_set("<Representation bandwidth='1'/>"), "attribute `id` is missing"),
        (with_set("<Representation id='v'/>"), "<Representation id=\"v\">: attribute `bandwidth`"),
        (with_set("<Representation id='v' bandwidth='fast'/>"), "`bandwidth` is \"fast\""),
        (with_set("<Representation id='v' bandwidth='0'/>"), "positive"),
        (template("duration='2'"), "line 4, <SegmentTemplate>: attribute `media` is missing"),
        (template("media='$Number$'"), "attribute `duration` is missing"),
        (template("media='$Nummer$' duration='2'"), "`media` is \"$Nummer$\""),
        (template("media='same' duration='2'"), "$Number$ or $Time$"),
        (template("media='$Number$' duration='0'"), "`duration` is \"0\""),
        (template("media='$Number$' duration='1' timescale='0'"), "`timescale` is \"0\""),
        (template("media='$Number$' duration='1' timescale='4000000000'"), "number of segments exceeds"),
        (template("media='$Number$' duration='1' startNumber='99999999999'"), "startNumber exceeds"),
        (template("media='//$Number$/a' duration='1' startNumber='4294967295'"), "URL for every segment"),
        (template("media='file:///$Number$' duration='2' initialization='file:///x'"), "http or https"),
        (timeline("<S t='0'/>"), "line 5, <S>: attribute `d` is missing"),
        (timeline("<S d='0'/>"), "positive"),
        (timeline("<S d='1' r='x'/>"), "`r` is \"x\""),
        (timeline("<S d='1' r='99999999999'/>"), "number of segments exceeds"),
        (timeline("<S d='18446744073709551615' r='1'/>"), "segment time in ticks"),
        (timeline("<S t='5' d='1'/><S t='4' d='1'/>"), "after the previous S"),
        (timeline("<S d='1' r='-1'/><S d='1'/>"), "attribute `t` is missing"),
        (timeline(""), "at least one segment"),
        (with_representation("<SegmentList duration='2'/>"), "<SegmentURL> is missing"),
        (with_representation("<SegmentBase indexRange='9-3'/>"), "bytes first-last"),
        (
            with_set(
                "<Representation id='a' bandwidth='1'><SegmentTemplate media='$Number$' duration='2'/>\
                 </Representation><Representation id='b' bandwidth='2'>\
                 <SegmentTemplate media='$Number$' duration='3'/></Representation>",
            ),
            "5 and 4 segments",
        ),
        (format!("<MPD>{}", "<a>".repeat(100)), "nesting depth"),
        (
            format!("<MPD {}/>", (0..100).map(|n| format!("a{n}='' ")).collect::<String>()),
            "number of attributes",
        ),
    ];
    for (document, expected) in cases {
        let error = parse(&document).expect_err(&document).to_string();
        assert!(
            error.contains(expected),
            "{document}\n  gave: {error}\n  not: {expected}"
        );
    }
}

#[test]
fn inherited_lists_have_a_budget() {
    // 3000 S elements, 32 bytes each, inherited by 1000 Representations: 96 MB.
    let document = with_set(&format!(
        "<SegmentTemplate media='$Time$'><SegmentTimeline>{}</SegmentTimeline></SegmentTemplate>{}",
        "<S d='1'/>".repeat(3_000),
        "<Representation id='v' bandwidth='1'/>".repeat(1_000),
    ));
    let error = parse(&document).unwrap_err();
    assert!(
        matches!(error.problem, Problem::TooLarge { limit, .. } if limit == 64 << 20),
        "{error}"
    );
}

const LIVE: &str = "<MPD type='dynamic' availabilityStartTime='2001-09-09T01:46:40Z'\n\
     minimumUpdatePeriod='PT2S' suggestedPresentationDelay='PT6S' timeShiftBufferDepth='PT1M'>\n\
     <Location>https://example.org/live/next.mpd</Location>\n\
     <ServiceDescription><Latency target='3500'/><PlaybackRate min='0.96' max='1.04'/>\n\
     </ServiceDescription><Period id='p' start='PT0S'><AdaptationSet contentType='video'>\n\
     <SegmentTemplate timescale='1000' duration='2000' startNumber='7' media='$Number$'\n\
      availabilityTimeOffset='1.5'/><Representation id='v' bandwidth='1000'/>\n\
     </AdaptationSet></Period>\n\
     <UTCTiming schemeIdUri='urn:mpeg:dash:utc:ntp:2014' value='ntp.example'/>\n\
     <UTCTiming schemeIdUri='urn:mpeg:dash:utc:http-iso:2014' value='/time /other'/></MPD>";

#[test]
fn live_without_an_end() {
    let presentation = parse(LIVE).unwrap();
    let live = presentation.live.as_ref().unwrap();
    assert_eq!(live.availability_start, Duration::from_secs(1_000_000_000));
    assert_eq!(live.update_period, Some(ms(2_000)));
    assert_eq!(live.suggested_delay, Some(ms(6_000)));
    assert_eq!(live.target_latency, Some(ms(3_500)));
    assert_eq!(live.depth, Some(ms(60_000)));
    assert_eq!(live.playback_rate, Some((0.96, 1.04)));
    assert!(!live.has_end);
    let url = |text| Url::parse(text).unwrap();
    assert_eq!(
        live.clock,
        Some(Clock::Http(url("https://example.org/time")))
    );
    assert_eq!(
        live.location,
        Some(url("https://example.org/live/next.mpd"))
    );

    // Fifty years on, the segments are still there: 2 s each, from number 7.
    let representation = only(&presentation);
    assert_eq!(representation.availability_offset, ms(1_500));
    let years = Duration::from_secs(50 * 365 * 86_400);
    let index = representation.index_at(years + ms(1));
    assert_eq!(index, years.as_secs() / 2);
    let segment = representation.segment(index).unwrap();
    assert_eq!((segment.start, segment.duration), (years, ms(2_000)));
    let path = format!("/media/clip/{}", index + 7);
    assert_eq!(segment.resource.url.path(), path);
}

#[test]
fn live_needs_to_say_when_it_began() {
    let without = LIVE.replace("availabilityStartTime='2001-09-09T01:46:40Z'", "");
    let error = parse(&without).unwrap_err().to_string();
    assert!(error.contains("availabilityStartTime"), "{error}");
    let wrong = LIVE.replace("01:46:40Z", "noon");
    let error = parse(&wrong).unwrap_err().to_string();
    assert!(error.contains("2001-09-09Tnoon"), "{error}");
    let ended = LIVE.replace(
        "minimumUpdatePeriod='PT2S'",
        "mediaPresentationDuration='PT20S'",
    );
    let ended = parse(&ended).unwrap();
    assert!(ended.live.as_ref().unwrap().has_end);
    assert_eq!(only(&ended).segment_count(), Some(10));
    for (offset, expected) in [("INF", Duration::MAX), ("0", Duration::ZERO)] {
        let offset = LIVE.replace("'1.5'", &format!("'{offset}'"));
        assert_eq!(only(&parse(&offset).unwrap()).availability_offset, expected);
    }
    for wrong in ["-1", "soon", "nan", "1e300"] {
        assert!(parse(&LIVE.replace("'1.5'", &format!("'{wrong}'"))).is_err());
    }
}

#[test]
fn times_lead_to_segments() {
    let timeline = parse(&with_representation(
        "<SegmentTemplate media='$Time$' timescale='10' presentationTimeOffset='100'>\n\
         <SegmentTimeline><S t='100' d='20' r='1'/><S t='160' d='40'/></SegmentTimeline>\n\
         </SegmentTemplate>",
    ))
    .unwrap();
    // 0..2, 2..4, and after a gap 6..10 s.
    for (at_ms, index) in [
        (0, 0),
        (1_999, 0),
        (2_000, 1),
        (4_500, 2),
        (6_000, 2),
        (99_000, 2),
    ] {
        assert_eq!(only(&timeline).index_at(ms(at_ms)), index, "{at_ms} ms");
    }
    let equal = parse(&with_representation(
        "<SegmentTemplate media='$Number$' duration='4'/>",
    ))
    .unwrap();
    for (at_ms, index) in [(0, 0), (3_999, 0), (4_000, 1), (9_000, 2), (11_000, 2)] {
        assert_eq!(only(&equal).index_at(ms(at_ms)), index, "{at_ms} ms");
    }
}

#[test]
fn several_base_urls_are_alternatives() {
    let document = "<MPD mediaPresentationDuration='PT4S'>\
        <BaseURL>https://a.example/x/</BaseURL><BaseURL>/y/</BaseURL><Period>\
        <AdaptationSet contentType='video'><BaseURL>video/</BaseURL>\
        <Representation id='v' bandwidth='1000'>\
        <SegmentTemplate media='$Number$.m4s' duration='2' initialization='init'/>\
        </Representation></AdaptationSet></Period></MPD>";
    let presentation = parse(document).unwrap();
    let representation = only(&presentation);
    let bases: Vec<_> = representation.bases.iter().map(Url::as_str).collect();
    assert_eq!(
        bases,
        ["https://a.example/x/video/", "https://example.org/y/video/"]
    );
    let first = representation.segment(1).unwrap().resource.url;
    assert_eq!(first.as_str(), "https://a.example/x/video/2.m4s");
    let elsewhere = |attempt| representation.elsewhere(&first, attempt).to_string();
    assert_eq!(elsewhere(0), "https://a.example/x/video/2.m4s");
    assert_eq!(elsewhere(1), "https://example.org/y/video/2.m4s");
    assert_eq!(elsewhere(2), elsewhere(0));
    // From there on to the next, and what is below none of them stays.
    let second = representation.elsewhere(&first, 1);
    assert_eq!(representation.elsewhere(&second, 2), first);
    let other = Url::parse("https://c.example/2.m4s").unwrap();
    assert_eq!(representation.elsewhere(&other, 1), other);
}
