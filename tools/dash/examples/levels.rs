//! Levels that a rule chooses over a link in virtual time, as JSON; the case is JSON on stdin.
//!
//! The link carries one request at a time, as that of `tools/nginx/tests/browser/rules.js` does for
//! dash.js: a round trip, then the body at the rate of the moment. Video only.

use std::io::Read;
use std::time::{Duration, Instant};

use mpq_dash::mpd::Presentation;
use mpq_dash::player::{Action, Config, Player};
use serde::Deserialize;
use url::Url;

#[derive(Deserialize)]
struct Case {
    rule: String,
    ladder_bps: Vec<u64>,
    segment_s: f64,
    segments: u64,
    rtt_s: f64,
    /// `[lasts_s, bit/s]` in turn; the last one for ever.
    trace: Vec<(f64, f64)>,
}

impl Case {
    fn presentation(&self) -> Result<Presentation, Box<dyn std::error::Error>> {
        let levels: String = self
            .ladder_bps
            .iter()
            .map(|bps| format!("<Representation id='{bps}' bandwidth='{bps}'/>"))
            .collect();
        let document = format!(
            "<MPD mediaPresentationDuration='PT{}S'><Period><AdaptationSet contentType='video'>\
             <SegmentTemplate timescale='1000' duration='{}' media='$RepresentationID$-$Number$'/>\
             {levels}</AdaptationSet></Period></MPD>",
            self.segments as f64 * self.segment_s,
            (self.segment_s * 1e3).round()
        );
        let url = Url::parse("https://example.org/a.mpd")?;
        Ok(Presentation::parse(document.as_bytes(), &url)?)
    }

    /// When a body of so many bits has come that begins to flow at `from`, both in seconds.
    fn end(&self, from: f64, mut bits: f64) -> f64 {
        let (mut at, mut end) = (from, 0.0);
        for (index, (lasts_s, bps)) in self.trace.iter().enumerate() {
            end = match index + 1 < self.trace.len() {
                true => end + lasts_s,
                false => f64::INFINITY,
            };
            if at >= end {
                continue;
            }
            let part = (end - at) * bps;
            if part >= bits {
                return at + bits / bps;
            }
            bits -= part;
            at = end;
        }
        at
    }

    fn levels(&self) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
        let began = Instant::now();
        // dash.js asks for what fits below its targets of 18 and 30 s.
        let goal = |target_s: f64| Duration::from_secs_f64(target_s - self.segment_s);
        let config = Config {
            buffer_goal: goal(18.0),
            buffer_goal_at_top: goal(30.0),
            ..Config::default()
        };
        let rule = mpq_dash::abr::by_name(&self.rule)?;
        let mut player = Player::new(self.presentation()?, rule, config, began)?;
        let mut now = 0.0;
        let at = |seconds: f64| began + Duration::from_secs_f64(seconds);
        loop {
            match player.next(at(now))? {
                Action::Fetch(fetch) => {
                    let bits = fetch.representation.parse::<f64>()? * self.segment_s;
                    let bytes = (bits / 8.0) as u64;
                    now += self.rtt_s;
                    player.on_progress(at(now), fetch.id, 0, Some(bytes))?;
                    now = self.end(now, bits);
                    let head = b"\0\0\0\x10styp\0\0\0\0\0\0\0\0";
                    player.on_done(at(now), fetch.id, bytes, head)?;
                }
                Action::Wait { until } => {
                    let until = until.ok_or("the player waits for nothing")?;
                    now = now.max((until - began).as_secs_f64());
                }
                Action::Done => break,
            }
        }
        Ok(player.segments().iter().map(|it| it.level).collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let cases: Vec<Case> = serde_json::from_str(&text)?;
    let levels: Result<Vec<_>, _> = cases.iter().map(Case::levels).collect();
    println!("{}", serde_json::to_string(&levels?)?);
    Ok(())
}
