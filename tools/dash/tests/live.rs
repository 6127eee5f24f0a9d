//! Live sessions in virtual time: a server that makes segments as time passes, and a link.

use std::time::{Duration, Instant};

use mpq_dash::mpd::{MediaKind, Presentation};
use mpq_dash::player::{Action, Config, Fetch, FetchId, Player, Progress, What};
use url::Url;

const TICK: Duration = Duration::from_millis(5);
const SEGMENT: Duration = Duration::from_secs(2);
const LADDER: [u64; 3] = [500_000, 1_000_000, 2_000_000];
const MEDIA_HEAD: &[u8] = b"\0\0\0\x10styp\0\0\0\0\0\0\0\0";

fn s(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// What there is to see, and how it comes.
struct Case {
    /// On the MPD element and below it.
    attributes: String,
    children: &'static str,
    /// Media made before the session begins.
    joined_at: Duration,
    /// Segments are sent in chunks of this length while they are made.
    chunk: Option<Duration>,
    /// Bit/s from these times on.
    rates: Vec<(f64, f64)>,
    config: Config,
    rule: &'static str,
    /// The session is stopped then.
    until: Duration,
    /// The local clock is so much ahead of the server's.
    clock_error: Duration,
    /// Or behind it.
    clock_lag: Duration,
    /// The first request for this segment fails when so many of its bytes have come.
    fails: Option<(u64, u64)>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            attributes: String::new(),
            children: "",
            joined_at: s(61.3),
            chunk: None,
            rates: vec![(0.0, 8e6)],
            config: Config::default(),
            rule: "rate",
            until: s(60.0),
            clock_error: Duration::ZERO,
            clock_lag: Duration::ZERO,
            fails: None,
        }
    }
}

/// The media began at 1,000,000 s.
const START: Duration = Duration::from_secs(1_000_000);

impl Case {
    fn mpd(&self) -> String {
        let offset = self.chunk.map_or(String::new(), |chunk| {
            let offset = (SEGMENT - chunk).as_secs_f64();
            format!("availabilityTimeOffset='{offset}'")
        });
        let levels: String = LADDER
            .iter()
            .map(|bps| format!("<Representation id='{bps}' bandwidth='{bps}'/>"))
            .collect();
        format!(
            "<MPD type='dynamic' availabilityStartTime='1970-01-12T13:46:40Z' {}>{}<Period>\
             <AdaptationSet contentType='video'><SegmentTemplate duration='2' {offset} \
             initialization='init-$RepresentationID$' media='$Number$'/>{levels}\
             </AdaptationSet></Period></MPD>",
            self.attributes, self.children
        )
    }

    fn parse(&self) -> Presentation {
        let url = Url::parse("https://example.org/a.mpd").unwrap();
        Presentation::parse(self.mpd().as_bytes(), &url).unwrap()
    }

    /// Bytes of a body that the server has at this time of the session, of all.
    fn made(&self, fetch: &Fetch, now: Duration) -> (u64, u64) {
        let What::Segment(_) = fetch.what else {
            return (800, 800);
        };
        let number: u64 = fetch.url.path()[1..].parse().unwrap();
        let total = fetch.representation.parse::<u64>().unwrap() * 2 / 8;
        let start = SEGMENT * (number - 1) as u32;
        let made = (self.joined_at + now).saturating_sub(start);
        let made = match self.chunk {
            Some(chunk) => chunk * (made.as_nanos() / chunk.as_nanos()) as u32,
            None if made < SEGMENT => panic!("{} is asked for too early", fetch.url),
            None => SEGMENT,
        };
        assert!(!made.is_zero(), "{} is asked for too early", fetch.url);
        let share = made.min(SEGMENT).as_secs_f64() / SEGMENT.as_secs_f64();
        ((total as f64 * share) as u64, total)
    }

    fn play(&self) -> Player {
        self.play_with(|_| ())
    }

    /// `on_fetch` hears of each request.
    fn play_with(&self, mut on_fetch: impl FnMut(&Fetch)) -> Player {
        let began = Instant::now();
        let config = Config {
            wall_clock: Some(START + self.joined_at + self.clock_error - self.clock_lag),
            ..self.config.clone()
        };
        let rule = mpq_dash::abr::by_name(self.rule).unwrap();
        let mut player = Player::new(self.parse(), rule, config, began).unwrap();
        let mut open: Vec<(Fetch, f64, Duration)> = Vec::new();
        let mut fails = self.fails;
        let mut now = Duration::ZERO;
        while now < self.until {
            loop {
                match player.next(began + now).unwrap() {
                    Action::Fetch(fetch) => {
                        on_fetch(&fetch);
                        // A round trip of 20 ms.
                        open.push((*fetch, 0.0, now + s(0.02)));
                    }
                    Action::Wait { .. } => break,
                    Action::Done => return player,
                }
            }
            let rate = self.rates.iter().rfind(|(from, _)| s(*from) <= now);
            let bytes = rate.unwrap().1 / 8.0 * TICK.as_secs_f64();
            let mut ended: Vec<FetchId> = Vec::new();
            for (fetch, received, _) in open.iter_mut().filter(|it| it.2 <= now) {
                let (made, total) = self.made(fetch, now);
                *received = (*received + bytes).min(made as f64);
                if player
                    .on_progress(began + now, fetch.id, *received as u64, Some(total))
                    .unwrap()
                    == Progress::Abandon
                {
                    ended.push(fetch.id);
                    continue;
                }
                let is_lost = |&mut (segment, bytes): &mut (u64, u64)| {
                    fetch.url.path() == format!("/{segment}") && *received >= bytes as f64
                };
                if fails.take_if(is_lost).is_some() {
                    ended.push(fetch.id);
                    player
                        .on_failed(began + now, fetch.id, "it was reset")
                        .unwrap();
                    continue;
                }
                if let (Some(chunk), What::Segment(_)) = (self.chunk, fetch.what) {
                    let chunks = SEGMENT.as_nanos() / chunk.as_nanos();
                    let complete = *received as u64 * chunks as u64 / total;
                    player.on_chunks(began + now, fetch.id, complete).unwrap();
                }
                if *received >= total as f64 {
                    ended.push(fetch.id);
                    let mpd = self.mpd();
                    // Half a round trip ago.
                    let at = START + self.joined_at + now - s(0.01);
                    let at = format!("1970-01-12T{}Z", clock(at));
                    let head = match fetch.what {
                        What::Manifest => mpd.as_bytes(),
                        What::Clock => at.as_bytes(),
                        _ => MEDIA_HEAD,
                    };
                    let size = head.len().max(total as usize) as u64;
                    player.on_done(began + now, fetch.id, size, head).unwrap();
                }
            }
            open.retain(|(fetch, ..)| !ended.contains(&fetch.id));
            now += TICK;
        }
        player.advance(began + now);
        player
    }
}

/// The time of a day that began 12 * 86,400 s into the epoch's first month.
fn clock(at: Duration) -> String {
    let of_day = at - Duration::from_secs(11 * 86_400);
    let seconds = of_day.as_secs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let rest = of_day.as_secs_f64() - (seconds / 60 * 60) as f64;
    format!("{hours:02}:{minutes:02}:{rest:09.6}")
}

fn latency_ms(player: &Player) -> (f64, f64, f64) {
    let figures = player.edge().unwrap().figures().unwrap();
    (figures.target_ms, figures.mean_ms, figures.p95_ms)
}

#[test]
fn segments_are_asked_for_when_they_are_there_and_shown_when_they_should_be() {
    let case = Case {
        attributes: "suggestedPresentationDelay='PT6S'".into(),
        ..Case::default()
    };
    let player = case.play();
    assert!(player.buffer().stalls().is_empty());
    // 61.3 - 6 = 55.3 s is in the 28th segment, 54..56 s.
    let first = player.segments().first().unwrap();
    assert_eq!(first.index, 0);
    let (target, mean, p95) = latency_ms(&player);
    assert_eq!(target, 6_000.0);
    assert!(
        (mean - 6_000.0).abs() < 5.0 && p95 < 6_010.0,
        "{mean} {p95}"
    );
    // At the end 121.3 s are made: 120 s in whole segments, and 115.3 s are shown.
    assert_eq!(player.buffer().until(MediaKind::Video), s(120.0));
    let shown = player.buffer().playhead().as_secs_f64();
    assert!((shown - 115.3).abs() < 0.02, "{shown}");
    // 8 Mbit/s in each of the later ones' fetch times affords 2 Mbit/s.
    assert!(player.segments()[3..]
        .iter()
        .all(|segment| segment.level == 2));
}

#[test]
fn the_target_is_the_callers_then_the_mpds_then_three_segments() {
    let target = |attributes: &str, children, given: Option<f64>| {
        let case = Case {
            attributes: attributes.into(),
            children,
            config: Config {
                target_latency: given.map(s),
                ..Config::default()
            },
            until: s(10.0),
            ..Case::default()
        };
        latency_ms(&case.play()).0
    };
    const SERVICE: &str = "<ServiceDescription><Latency target='4500'/></ServiceDescription>";
    let delay = "suggestedPresentationDelay='PT8S'";
    assert_eq!(target(delay, SERVICE, Some(5.0)), 5_000.0);
    assert_eq!(target(delay, SERVICE, None), 4_500.0);
    assert_eq!(target(delay, "", None), 8_000.0);
    assert_eq!(target("", "", None), 6_000.0);
}

#[test]
fn chunks_make_a_latency_possible_that_segments_do_not() {
    let latency = |chunk, target| {
        let case = Case {
            chunk,
            config: Config {
                target_latency: Some(s(target)),
                ..Config::default()
            },
            ..Case::default()
        };
        let player = case.play();
        (latency_ms(&player), player.buffer().stalls().len())
    };
    // Segments of 2 s are whole 2 s after their first frame; with the time to fetch one (0.5 s for
    // the top, at 8 Mbit/s) nothing below 2.5 s can be held.
    let ((_, mean, _), stalls) = latency(None, 1.0);
    assert!(mean > 2_000.0 && stalls > 0, "{mean} ms, {stalls} stalls");
    let ((_, mean, p95), stalls) = latency(Some(s(0.2)), 1.0);
    assert_eq!(stalls, 0);
    assert!(
        (mean - 1_000.0).abs() < 50.0 && p95 < 1_100.0,
        "{mean} {p95}"
    );
}

#[test]
fn chunks_do_not_make_the_throughput_that_of_the_encoder() {
    // What is made at 2 Mbit/s comes at no more; without pauses that would be the estimate.
    let case = Case {
        chunk: Some(s(0.5)),
        rates: vec![(0.0, 20e6)],
        ..Case::default()
    };
    let player = case.play();
    let estimate = player.throughput_bps().unwrap();
    // A chunk of 0.5 s at 20 Mbit/s takes ten ticks.
    assert!((8e6..=23e6).contains(&estimate), "{estimate}");
    assert!(player.segments()[4..]
        .iter()
        .all(|segment| segment.level == 2));
}

#[test]
fn a_chunk_that_is_there_before_its_time_counts_with_the_time_that_it_took() {
    let case = Case {
        chunk: Some(s(0.5)),
        rates: vec![(0.0, 20e6)],
        clock_lag: s(0.2),
        ..Case::default()
    };
    let estimate = case.play().throughput_bps().unwrap();
    assert!((8e6..=23e6).contains(&estimate), "{estimate}");
}

#[test]
fn a_segment_in_chunks_that_fails_is_asked_for_again_and_counts_once() {
    let startup = |fails| {
        let case = Case {
            chunk: Some(s(0.5)),
            fails,
            config: Config {
                target_latency: Some(s(3.0)),
                start_level: Some(2),
                startup_segments: 6,
                ..Config::default()
            },
            until: s(10.0),
            ..Case::default()
        };
        let mut asked = 0;
        let player = case.play_with(|fetch| asked += usize::from(fetch.url.path() == "/30"));
        (player.buffer().startup().unwrap(), asked, player)
    };
    // From 58.3 s 3 s need seven chunks of 0.125 s at 8 Mbit/s, in two segments, and the initialization
    // segment: three round trips of 20 ms.
    let (without, asked, _) = startup(None);
    assert!(without.abs_diff(s(0.935)) < s(0.03), "{without:?}");
    assert_eq!(asked, 1);
    // Two chunks and a half again, 0.315 s, after a pause of 0.5 s and another round trip.
    let (with, asked, player) = startup(Some((30, 315_000)));
    assert_eq!((asked, player.wasted_bytes()), (2, 315_000));
    let later = with - without;
    assert!(later.abs_diff(s(0.835)) < s(0.03), "{later:?}");
    assert_eq!(player.buffer().stalls().len(), 0);
}

#[test]
fn a_segment_in_chunks_is_given_up_when_the_next_chunk_would_be_late() {
    let play = |rule| {
        let case = Case {
            rule,
            chunk: Some(s(0.5)),
            // Of the segment that was asked for at 19.2 s two chunks have come.
            rates: vec![(0.0, 8e6), (19.8, 3e5), (26.0, 8e6)],
            config: Config {
                target_latency: Some(s(3.0)),
                playback_rate: Some((1.0, 1.0)),
                ..Config::default()
            },
            until: s(40.0),
            ..Case::default()
        };
        let mut asked = Vec::new();
        let player = case.play_with(|fetch| {
            if matches!(fetch.what, What::Segment(_)) {
                asked.push(fetch.url.path()[1..].parse::<u64>().unwrap());
            }
        });
        let stalls = player.buffer().stalls().iter();
        let stalled = stalls.map(|stall| stall.duration).sum::<Duration>();
        let shown = player.buffer().played() + player.buffer().startup().unwrap() + stalled;
        assert!(shown.abs_diff(s(40.0)) < s(0.02), "{shown:?}");
        (stalled.as_secs_f64(), asked, player)
    };
    let (stalled_s, asked, player) = play("rate");
    let twice: Vec<u64> = asked
        .windows(2)
        .filter(|two| two[0] == two[1])
        .map(|two| two[0])
        .collect();
    assert_eq!(twice.first(), Some(&41));
    let levels: Vec<usize> = player
        .segments()
        .iter()
        .map(|segment| segment.level)
        .collect();
    assert_eq!(levels[10..12], [2, 0], "{levels:?}");
    let (without_s, ..) = play("rate:abandon=off");
    assert!(stalled_s < without_s - 0.4, "{stalled_s} s, {without_s} s");
}

#[test]
fn a_stall_is_caught_up_with_by_playing_faster_within_bounds() {
    let play = |rates: (f64, f64)| {
        let case = Case {
            chunk: Some(s(0.5)),
            // Nothing for four seconds.
            rates: vec![(0.0, 8e6), (20.0, 1.0), (24.0, 8e6)],
            config: Config {
                target_latency: Some(s(3.0)),
                playback_rate: Some(rates),
                ..Config::default()
            },
            until: s(80.0),
            ..Case::default()
        };
        let player = case.play();
        assert_eq!(player.buffer().stalls().len(), 1);
        player.edge().unwrap().last().unwrap().as_secs_f64()
    };
    let (still, fast) = (play((1.0, 1.0)), play((0.95, 1.1)));
    assert!(still > 3.8, "{still} s");
    assert!((fast - 3.0).abs() < 0.05, "{fast} s");
}

#[test]
fn who_is_too_far_behind_leaves_media_out() {
    let play = |max_drift| {
        let case = Case {
            rates: vec![(0.0, 8e6), (20.0, 1.0), (50.0, 8e6)],
            config: Config {
                max_drift: s(max_drift),
                playback_rate: Some((1.0, 1.0)),
                ..Config::default()
            },
            until: s(90.0),
            ..Case::default()
        };
        case.play()
    };
    let player = play(12.0);
    let skipped = player.buffer().left_out().as_secs_f64();
    assert!(skipped > 15.0, "{skipped}");
    let latency = player.edge().unwrap().last().unwrap().as_secs_f64();
    assert!(latency < 9.0, "{latency}");
    let played = player.buffer().played().as_secs_f64();
    let stalled = player.buffer().stalls()[0].duration.as_secs_f64();
    let startup = player.buffer().startup().unwrap().as_secs_f64();
    assert!((played + stalled + startup - 90.0).abs() < 0.02);
    assert_eq!(play(1_000.0).buffer().left_out(), Duration::ZERO);
}

#[test]
fn the_mpd_is_asked_for_as_often_as_it_says_and_nothing_is_fetched_twice() {
    let case = Case {
        attributes: "minimumUpdatePeriod='PT5S' suggestedPresentationDelay='PT6S'".into(),
        ..Case::default()
    };
    let (mut updates, mut urls) = (0, Vec::new());
    let player = case.play_with(|fetch| match fetch.what {
        What::Manifest => updates += 1,
        _ => urls.push(fetch.url.to_string()),
    });
    assert!((11..=12).contains(&updates), "{updates}");
    let count = urls.len();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), count);
    assert!(player.buffer().stalls().is_empty());
    // The same segments as without updates.
    let without = Case {
        attributes: "suggestedPresentationDelay='PT6S'".into(),
        ..Case::default()
    };
    assert_eq!(player.segments().len(), without.play().segments().len());
}

#[test]
fn the_presentations_clock_counts() {
    const CLOCK: &str = "<UTCTiming schemeIdUri='urn:mpeg:dash:utc:http-iso:2014' value='/now'/>";
    let case = |children| Case {
        children,
        clock_error: s(1.5),
        config: Config {
            target_latency: Some(s(6.0)),
            ..Config::default()
        },
        ..Case::default()
    };
    let mut asked = 0;
    let player = case(CLOCK).play_with(|fetch| asked += usize::from(fetch.what == What::Clock));
    assert_eq!(asked, 1);
    // 121.3 s are made at the end, and 115.3 s of it should be shown.
    let shown = player.buffer().playhead().as_secs_f64();
    assert!((shown - 115.3).abs() < 0.03, "{shown}");
    // Without it the session asks for segments that are not there.
    let wrong = std::panic::catch_unwind(|| case("").play());
    assert!(wrong.is_err());
}

#[test]
fn a_live_presentation_with_an_end_is_played_to_its_end() {
    let case = Case {
        attributes: "mediaPresentationDuration='PT1M30S' suggestedPresentationDelay='PT6S'".into(),
        ..Case::default()
    };
    let player = case.play();
    let ended = player.buffer().ended_at().unwrap().as_secs_f64();
    // 90 s are shown at 96 s, which is 34.7 s after 61.3 s.
    assert!((ended - 34.7).abs() < 0.02, "{ended}");
}

#[test]
fn without_a_clock_there_is_no_live() {
    let rule = mpq_dash::abr::by_name("rate").unwrap();
    let error = Player::new(
        Case::default().parse(),
        rule,
        Config::default(),
        Instant::now(),
    );
    assert!(error.unwrap_err().to_string().contains("time"));
}
