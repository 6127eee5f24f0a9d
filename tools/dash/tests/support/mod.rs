//! A link in virtual time, after Sabre's model: constant-rate periods, one round trip per request,
//! and the rate shared equally by the bodies that are arriving.

use std::time::{Duration, Instant};

use mpq_dash::mpd::{MediaKind, Presentation};
use mpq_dash::player::{Action, Config, Fetch, FetchId, Player, Progress, What};
use url::Url;

/// `(lasts, bit/s)` in turn; the last one lasts for ever.
pub type Trace = Vec<(Duration, f64)>;

pub const INIT_BYTES: u64 = 800;
const RTT: Duration = Duration::from_millis(50);
/// How often a body reports progress.
const TICK: Duration = Duration::from_millis(100);

pub fn steady(bps: f64) -> Trace {
    vec![(Duration::ZERO, bps)]
}

/// Video at these rates and audio at 96 kbit/s, in 2 s segments with `$Number$`.
pub fn presentation(rates_bps: &[u64], seconds: u64) -> Presentation {
    let template = "<SegmentTemplate duration='2' initialization='$RepresentationID$-init' \
                    media='$RepresentationID$-$Number$'/>";
    let video: String = rates_bps
        .iter()
        .map(|bps| format!("<Representation id='{bps}' bandwidth='{bps}'/>"))
        .collect();
    let document = format!(
        "<MPD mediaPresentationDuration='PT{seconds}S'><Period>\
         <AdaptationSet contentType='video'>{template}{video}</AdaptationSet>\
         <AdaptationSet contentType='audio'>{template}<Representation id='96000' bandwidth='96000'/>\
         </AdaptationSet></Period></MPD>"
    );
    let url = Url::parse("https://example.org/a.mpd").unwrap();
    Presentation::parse(document.as_bytes(), &url).unwrap()
}

struct Body {
    id: FetchId,
    flows_from: Duration,
    total_bytes: u64,
    left_bits: f64,
}

fn rate_at(trace: &Trace, now: Duration) -> (f64, Option<Duration>) {
    let mut end = Duration::ZERO;
    for &(lasts, bps) in &trace[..trace.len() - 1] {
        end += lasts;
        if now < end {
            return (bps, Some(end));
        }
    }
    (trace[trace.len() - 1].1, None)
}

/// Bytes of a body: the declared rate times the segment's length.
fn size(fetch: &Fetch) -> u64 {
    match fetch.what {
        What::Segment(_) => fetch.representation.parse::<u64>().unwrap() * 2 / 8,
        _ => INIT_BYTES,
    }
}

/// Plays a presentation over a trace to its end and returns the player and that end.
pub fn simulate(presentation: Presentation, rule: &str, trace: &Trace) -> (Player, Duration) {
    simulate_with(presentation, rule, trace, |_, _| ())
}

/// The same, and `on_fetch` hears of each request.
pub fn simulate_with(
    presentation: Presentation,
    rule: &str,
    trace: &Trace,
    mut on_fetch: impl FnMut(&Player, &Fetch),
) -> (Player, Duration) {
    let began = Instant::now();
    let rule = mpq_dash::abr::by_name(rule).unwrap();
    let mut player = Player::new(presentation, rule, Config::default(), began).unwrap();
    let goal_and_segment = Duration::from_secs(30 + 2);
    let mut now = Duration::ZERO;
    let mut bodies: Vec<Body> = Vec::new();
    for _ in 0..1_000_000 {
        let until = match player.next(began + now).unwrap() {
            Action::Done => return (player, now),
            Action::Fetch(fetch) => {
                on_fetch(&player, &fetch);
                let total_bytes = size(&fetch);
                bodies.push(Body {
                    id: fetch.id,
                    flows_from: now + RTT,
                    total_bytes,
                    left_bits: total_bytes as f64 * 8.0,
                });
                continue;
            }
            Action::Wait { until } => until.map(|until| until - began),
        };
        for kind in [MediaKind::Video, MediaKind::Audio] {
            assert!(
                player.buffer().track_level(kind) <= goal_and_segment,
                "{kind} above the goal"
            );
        }

        // To the next thing that happens: a tick, a deadline, a new rate, a first or last byte.
        let (bps, rate_ends) = rate_at(trace, now);
        let flowing = bodies.iter().filter(|body| body.flows_from <= now).count();
        let share_bps = bps / flowing.max(1) as f64;
        let mut next = [until, rate_ends].into_iter().flatten().min();
        for body in &bodies {
            let event = if body.flows_from > now {
                body.flows_from
            } else {
                let left = Duration::from_secs_f64(body.left_bits / share_bps);
                now + left.max(Duration::from_nanos(1)).min(TICK)
            };
            next = Some(next.map_or(event, |next| next.min(event)));
        }
        let next = next.expect("the player waits for nothing").max(now);
        let bits = share_bps * (next - now).as_secs_f64();
        for body in bodies.iter_mut().filter(|body| body.flows_from <= now) {
            body.left_bits -= bits;
        }
        now = next;

        // All that arrived is reported before anything that follows from it.
        let mut abandoned = Vec::new();
        for body in bodies.iter().filter(|body| body.flows_from <= now) {
            let received = body.total_bytes - (body.left_bits.max(0.0) / 8.0) as u64;
            let total = Some(body.total_bytes);
            if received < body.total_bytes
                && player
                    .on_progress(began + now, body.id, received, total)
                    .unwrap()
                    == Progress::Abandon
            {
                abandoned.push(body.id);
            }
        }
        bodies.retain(|body| !abandoned.contains(&body.id));
        bodies.retain(|body| {
            // A tenth of a bit is rounding.
            let is_done = body.left_bits < 0.1;
            if is_done {
                let head = b"\0\0\0\x10styp\0\0\0\0\0\0\0\0";
                player
                    .on_done(began + now, body.id, body.total_bytes, head)
                    .unwrap();
            }
            !is_done
        });
    }
    panic!("the session does not end");
}
