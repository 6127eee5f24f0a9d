//! Whole sessions under virtual time.

mod support;

use std::time::{Duration, Instant};

use mpq_cmcd::{Cmcd, Object};
use mpq_dash::buffer::State;
use mpq_dash::mpd::MediaKind;
use mpq_dash::player::{Action, Config, Fetch, Player, PlayerError, What};
use mpq_dash::session::Report;
use support::{presentation, simulate, simulate_with, steady, Trace};

const LADDER: [u64; 5] = [300_000, 750_000, 1_200_000, 2_500_000, 5_000_000];
const RULES: [&str; 8] = [
    "rate",
    "bba0",
    "bola",
    "dynamic",
    "mpc",
    "mpc:abandon=on",
    "fixed:0",
    "fixed:4",
];

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn levels(player: &Player) -> Vec<usize> {
    player
        .segments()
        .iter()
        .map(|segment| segment.level)
        .collect()
}

fn dip() -> Trace {
    vec![(s(40), 8e6), (s(10), 2e6), (s(0), 8e6)]
}

/// Rates that change every 3 s in a fixed, irregular order.
fn jumpy() -> Trace {
    (0..60u64)
        .map(|k| (s(3), 300_000.0 * (1 + k * 37 % 23) as f64))
        .collect()
}

#[test]
fn media_stalls_and_startup_add_up_to_wall_time() {
    for rule in RULES {
        for trace in [steady(1.0e6), steady(20e6), dip(), jumpy()] {
            let (player, end) = simulate(presentation(&LADDER, 61), rule, &trace);
            let buffer = player.buffer();
            let stalled: Duration = buffer.stalls().iter().map(|stall| stall.duration).sum();
            // 61 s in 2 s segments: 31 of them, the last one of 1 s.
            let media: Duration = player.segments().iter().map(|it| it.duration).sum();
            assert_eq!((player.segments().len(), media), (31, s(61)), "{rule}");
            assert_eq!(media + stalled + buffer.startup().unwrap(), end, "{rule}");
            assert_eq!(buffer.ended_at(), Some(end), "{rule}");
        }
    }
}

#[test]
fn the_goal_is_18_s_and_30_s_at_the_top() {
    let most = |rule| {
        let (player, _) = simulate(presentation(&LADDER, 120), rule, &steady(50e6));
        player
            .buffer()
            .levels()
            .iter()
            .map(|&(_, level)| level)
            .max()
            .unwrap()
    };
    for (rule, goal) in [("fixed:0", 18), ("fixed:4", 30)] {
        let most = most(rule);
        assert!(most > s(goal) && most <= s(goal + 2), "{rule}: {most:?}");
    }
}

#[test]
fn the_same_trace_gives_the_same_levels() {
    for rule in RULES {
        let run = || levels(&simulate(presentation(&LADDER, 90), rule, &jumpy()).0);
        assert_eq!(run(), run(), "{rule}");
    }
}

#[test]
fn the_rate_rule_settles_below_nine_tenths() {
    // A 2 s segment of R bit/s takes 50 ms + 2 R / C beside 96 kbit/s of audio, so 3.5 Mbit/s, where
    // 0.9 C = 3.15, affords 2.5 Mbit/s and never 5; 20 Mbit/s affords the top.
    for (bps, settled) in [(3.5e6, 3), (20e6, 4), (1.1e6, 1), (0.2e6, 0)] {
        let (player, _) = simulate(presentation(&LADDER, 60), "rate", &steady(bps));
        let levels = levels(&player);
        assert_eq!(levels[0], 0, "nothing is known at first");
        assert!(
            levels[10..].iter().all(|&level| level == settled),
            "{bps}: {levels:?}"
        );
    }
}

#[test]
fn a_dip_switches_down_without_a_stall() {
    // At the top the buffer is 30 s. The rate rule reacts to the dip itself; BOLA only once the
    // buffer has fallen to where the top level loses (15.1 s here), which 10 s do not suffice for.
    for (rule, seconds, switches_down) in [
        ("rate", 10, true),
        ("bola", 10, false),
        ("bola", 40, true),
        ("dynamic", 40, true),
    ] {
        let trace = vec![(s(40), 8e6), (s(seconds), 2e6), (s(0), 8e6)];
        let (player, _) = simulate(presentation(&LADDER, 160), rule, &trace);
        assert!(player.buffer().stalls().is_empty(), "{rule}");
        let segments = player.segments();
        let before = segments.iter().rfind(|it| it.end < s(40)).unwrap();
        assert_eq!(before.level, 4, "{rule}");
        let during = segments
            .iter()
            .filter(|it| it.end > s(40) && it.start < s(40 + seconds));
        let lowest = during.map(|it| it.level).min().unwrap();
        assert_eq!(
            lowest < 4,
            switches_down,
            "{rule} over {seconds} s: {lowest}"
        );
        assert_eq!(*levels(&player).last().unwrap(), 4, "{rule} comes back");
    }
}

#[test]
fn a_link_below_the_lowest_rate_stalls() {
    // 300 + 96 kbit/s of media over 200 kbit/s: playing must take about twice the media's time.
    let (player, end) = simulate(presentation(&LADDER, 40), "dynamic", &steady(200_000.0));
    assert!(player.buffer().stalls().len() > 5);
    assert!(end > s(79), "{end:?}");
}

#[test]
fn requests_tell_the_truth() {
    for (bps, stalls) in [(8e6, false), (200_000.0, true)] {
        let mut told = [0, 0];
        let mut fetches: Vec<Fetch> = Vec::new();
        let (player, _) = simulate_with(
            presentation(&LADDER, 40),
            "rate",
            &steady(bps),
            |player, fetch| {
                let (buffer, cmcd) = (player.buffer(), fetch.cmcd);
                let ahead = buffer.track_level(fetch.kind).as_millis() as u64;
                let is_awaited = buffer.awaits(fetch.kind);
                assert_eq!(cmcd.is_startup, is_awaited);
                let deadline_ms = if is_awaited { 0 } else { ahead };
                assert_eq!(cmcd.deadline_ms, Some(deadline_ms), "{fetch:?}");
                assert_eq!(
                    cmcd.throughput_kbps,
                    player.throughput_bps().map(|bps| (bps / 1e3) as u64)
                );
                if let What::Segment(_) = fetch.what {
                    assert_eq!(cmcd.buffer_ms, Some(ahead));
                    assert_eq!(cmcd.duration_ms, Some(2_000));
                    let bps: u64 = fetch.representation.parse().unwrap();
                    assert_eq!(cmcd.bitrate_kbps, Some(bps / 1000));
                }
                if cmcd.was_starved {
                    told[usize::from(fetch.kind == MediaKind::Audio)] += 1;
                    assert_ne!(buffer.state(), State::Startup);
                }
                fetches.push(fetch.clone());
            },
        );
        // Each time it stood is told once, by the track that it stood for.
        let buffer = player.buffer();
        assert_eq!(!buffer.stalls().is_empty(), stalls);
        let starvations = [MediaKind::Video, MediaKind::Audio].map(|kind| buffer.starvations(kind));
        assert!(starvations.iter().sum::<usize>() >= buffer.stalls().len());
        for (told, starvations) in told.into_iter().zip(starvations) {
            // The last one may have no request behind it.
            assert!(told <= starvations && told + 1 >= starvations);
        }

        let expected = Cmcd {
            deadline_ms: Some(0),
            is_startup: true,
            object: Some(Object::Init),
            ..Cmcd::default()
        };
        assert_eq!((fetches[0].what, fetches[0].cmcd), (What::Init, expected));
        assert_eq!(fetches[0].next_object.as_deref(), Some("300000-1"));
        let video = |fetch: &&Fetch| fetch.cmcd.object == Some(Object::Video);
        let segments: Vec<&Fetch> = fetches.iter().filter(video).collect();
        assert_eq!(segments[0].next_object.as_deref(), Some("300000-2"));
        assert_eq!(segments[0].cmcd.top_bitrate_kbps, Some(5000));
        assert_eq!(segments.last().unwrap().next_object, None);
    }
}

#[test]
fn dynamic_abandons_what_would_take_too_long() {
    // 20 Mbit/s, then 0.5 Mbit/s at once: the segment under way at 5 Mbit/s would take 20 s.
    let trace = vec![(Duration::from_millis(12_020), 20e6), (s(0), 500_000.0)];
    let run = |rule| {
        simulate(
            presentation(&[300_000, 5_000_000, 20_000_000], 60),
            rule,
            &trace,
        )
        .0
    };
    let player = run("dynamic");
    assert!(player.wasted_bytes() > 0);
    assert_eq!(run("rate:abandon=off").wasted_bytes(), 0);
    let used: u64 = player.segments().iter().map(|segment| segment.bytes).sum();
    // Audio: 30 segments of 24 kB and their init; video: two or three init segments.
    let rest = player.received_bytes() - used - player.wasted_bytes() - 30 * 24_000;
    assert!(
        rest.is_multiple_of(support::INIT_BYTES) && rest <= 4 * support::INIT_BYTES,
        "{rest}"
    );
}

#[test]
fn the_report_has_the_agreed_shape() {
    let (player, _) = simulate(presentation(&LADDER, 20), "rate", &steady(5e6));
    let paths = vec![serde_json::json!({"path_id": 0, "bytes": 1})];
    let report = serde_json::to_value(Report::new(&player, paths)).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(
        keys(&report),
        [
            "buffer",
            "mean_bitrate_bps",
            "mpd",
            "paths",
            "qoe",
            "segments",
            "stall_ms",
            "stalls",
            "startup_ms",
            "switches"
        ]
    );
    let first = &report["segments"][0];
    assert_eq!(
        keys(first),
        [
            "bitrate_bps",
            "buffer_ms",
            "bytes",
            "end_ms",
            "index",
            "rep",
            "start_ms"
        ]
    );
    assert_eq!(
        (&first["rep"], &first["bytes"]),
        (&"300000".into(), &75_000.into())
    );
    // Init segments: 50 ms, then 800 B each at half of 5 Mbit/s, 2.56 ms. Next round trip: 50 ms, at
    // 102.56 ms. Audio, 24 kB at half rate: 76.8 ms, at 179.36 ms. Video has 600 - 192 = 408 kbit
    // left; 250 kbit of them alone until the next audio segment flows at 229.36 ms, the other
    // 158 kbit at half rate in 63.2 ms.
    let startup_ms = report["startup_ms"].as_f64().unwrap();
    assert!((startup_ms - 292.56).abs() < 0.01, "{startup_ms}");
    assert_eq!(report["paths"][0]["path_id"], 0);
    assert_eq!(report["buffer"][0], serde_json::json!([0.0, 0.0]));
}

fn new_player() -> (Player, Instant) {
    let began = Instant::now();
    let rule = mpq_dash::abr::by_name("rate").unwrap();
    let player = Player::new(presentation(&LADDER, 20), rule, Config::default(), began).unwrap();
    (player, began)
}

#[test]
fn failures_are_retried_and_then_told() {
    let (mut player, began) = new_player();
    let Action::Fetch(first) = player.next(began).unwrap() else {
        panic!()
    };
    let Action::Fetch(_audio) = player.next(began).unwrap() else {
        panic!()
    };
    assert_eq!(player.next(began).unwrap(), Action::Wait { until: None });

    player
        .on_failed(began, first.id, "the stream was reset")
        .unwrap();
    // 500 ms, then 1 s.
    let at = began + Duration::from_millis(500);
    assert_eq!(
        player.next(began).unwrap(),
        Action::Wait { until: Some(at) }
    );
    let Action::Fetch(second) = player.next(at).unwrap() else {
        panic!()
    };
    assert_eq!((&second.url, second.what), (&first.url, What::Init));
    assert_ne!(second.id, first.id);
    // A report about the old request is a bug of the caller, not a crash.
    assert_eq!(
        player.on_failed(at, first.id, "late"),
        Err(PlayerError::NotOutstanding(first.id))
    );

    // An error page counts as a failure as well.
    player
        .on_done(at, second.id, 60, b"<html>404 Not Found</html>")
        .unwrap();
    let at = at + s(1);
    let Action::Fetch(third) = player.next(at).unwrap() else {
        panic!()
    };
    let error = player
        .on_done(at, third.id, 60, b"<html>404 Not Found</html>")
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the initialisation segment (video, representation 300000)"),
        "{text}"
    );
    assert!(
        text.contains("failed 3 times") && text.contains("300000-init"),
        "{text}"
    );
    assert!(text.contains("<html>404"), "{text}");
}

#[test]
fn a_long_startup_threshold_overrides_the_goal() {
    let began = Instant::now();
    let config = Config {
        startup_segments: 12,
        ..Config::default()
    };
    let rule = mpq_dash::abr::by_name("fixed:0").unwrap();
    let mut player = Player::new(presentation(&LADDER, 40), rule, config, began).unwrap();
    let mut at = began;
    // Everything arrives in no time, yet one after the other.
    for _ in 0..2_000 {
        match player.next(at).unwrap() {
            Action::Fetch(fetch) => {
                player
                    .on_done(at, fetch.id, 16, b"\0\0\0\x10styp\0\0\0\0\0\0\0\0")
                    .unwrap();
            }
            Action::Wait { until } => at = until.expect("waits for nothing"),
            Action::Done => break,
        }
    }
    assert_eq!(player.buffer().startup(), Some(Duration::ZERO));
    assert_eq!(player.buffer().ended_at(), Some(s(40)));
}

#[test]
fn an_index_is_fetched_between_init_and_media() {
    let url = url::Url::parse("https://example.org/a.mpd").unwrap();
    let document =
        b"<MPD mediaPresentationDuration='PT4S'><Period><AdaptationSet contentType='video'>\
        <Representation id='v' bandwidth='1000'><BaseURL>v.mp4</BaseURL>\
        <SegmentBase indexRange='100-155'/></Representation></AdaptationSet></Period></MPD>";
    let presentation = mpq_dash::mpd::Presentation::parse(document, &url).unwrap();
    let began = Instant::now();
    let rule = mpq_dash::abr::by_name("rate").unwrap();
    let mut player = Player::new(presentation, rule, Config::default(), began).unwrap();

    // Two segments of 500 and 300 bytes, 2 s each.
    let mut sidx = b"\0\0\0\x38sidx".to_vec();
    for field in [0, 1, 1, 0, 0, 2, 500, 2, 0, 300, 2, 0u32] {
        sidx.extend(field.to_be_bytes());
    }
    let mut seen = Vec::new();
    while let Action::Fetch(fetch) = player.next(began).unwrap() {
        seen.push((fetch.what, fetch.range.unwrap().to_string()));
        let head: &[u8] = match fetch.what {
            What::Index => &sidx,
            _ => b"\0\0\0\x10ftyp\0\0\0\0\0\0\0\0",
        };
        let bytes = fetch.range.unwrap().byte_count();
        player.on_done(began, fetch.id, bytes, head).unwrap();
    }
    let expected = [
        (What::Init, "bytes=0-99"),
        (What::Index, "bytes=100-155"),
        (What::Segment(0), "bytes=156-655"),
        (What::Segment(1), "bytes=656-955"),
    ];
    assert_eq!(seen, expected.map(|(what, range)| (what, range.to_owned())));
    assert_eq!(player.next(began + s(4)).unwrap(), Action::Done);
}

#[test]
fn a_success_clears_the_failures_before_it() {
    let (mut player, began) = new_player();
    let mut at = began;
    let mut sent = std::collections::HashMap::new();
    let mut wasted = 0;
    // Every resource fails twice and then arrives: never three times in a row.
    while player.buffer().ended_at().is_none() {
        match player.next(at).unwrap() {
            Action::Fetch(fetch) => {
                let attempts = sent.entry(fetch.url.clone()).or_insert(0);
                *attempts += 1;
                if *attempts == 3 {
                    let head = b"\0\0\0\x10styp\0\0\0\0\0\0\0\0";
                    player.on_done(at, fetch.id, 16, head).unwrap();
                } else {
                    wasted += 10;
                    player.on_progress(at, fetch.id, 10, Some(16)).unwrap();
                    player
                        .on_failed(at, fetch.id, "the stream was reset")
                        .unwrap();
                }
            }
            Action::Wait { until } => at = until.expect("waits for nothing"),
            Action::Done => break,
        }
    }
    assert_eq!(player.segments().len(), 10);
    assert_eq!(player.wasted_bytes(), wasted);
}

#[test]
fn another_base_url_is_asked_at_once_and_kept() {
    let document = b"<MPD mediaPresentationDuration='PT20S'><BaseURL>/a/</BaseURL><BaseURL>/b/</BaseURL>\
        <Period><AdaptationSet contentType='video'><SegmentTemplate duration='2' media='$Number$' \
        initialization='init'/><Representation id='v' bandwidth='1000'/></AdaptationSet></Period></MPD>";
    let url = url::Url::parse("https://example.org/a.mpd").unwrap();
    let parsed = || mpq_dash::mpd::Presentation::parse(document, &url).unwrap();
    let play = |fails: &dyn Fn(&str, usize) -> bool| {
        let began = Instant::now();
        let rule = mpq_dash::abr::by_name("fixed").unwrap();
        let mut player = Player::new(parsed(), rule, Config::default(), began).unwrap();
        let (mut at, mut asked) = (began, Vec::new());
        loop {
            match player.next(at).unwrap() {
                Action::Fetch(fetch) => {
                    asked.push((at - began, fetch.url.path().to_owned()));
                    let result = match fails(fetch.url.path(), asked.len()) {
                        true => player.on_failed(at, fetch.id, "404"),
                        false => {
                            player.on_done(at, fetch.id, 16, b"\0\0\0\x10styp\0\0\0\0\0\0\0\0")
                        }
                    };
                    if let Err(error) = result {
                        return (asked, Some(error.to_string()));
                    }
                }
                Action::Wait { until } => at = until.expect("waits for nothing"),
                Action::Done => return (asked, None),
            }
        }
    };
    // The first server is gone from the third request on.
    let (asked, error) = play(&|path, request| path.starts_with("/a/") && request > 2);
    assert_eq!(error, None);
    let paths: Vec<_> = asked.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(
        paths[..6],
        ["/a/init", "/a/1", "/a/2", "/b/2", "/b/3", "/b/4"]
    );
    assert_eq!(asked[2].0, asked[3].0);
    // Where nobody has it, each is asked in turn, with a pause after each round.
    let (asked, error) = play(&|path, _| path.ends_with("/1"));
    let paths: Vec<_> = asked.iter().map(|(_, path)| path.as_str()).collect();
    assert_eq!(paths, ["/a/init", "/a/1", "/b/1", "/a/1"]);
    assert_eq!(asked[3].0 - asked[2].0, Duration::from_millis(500));
    let error = error.unwrap();
    assert!(
        error.contains("segment 0 (video, representation v)") && error.contains("/a/1"),
        "{error}"
    );
}
