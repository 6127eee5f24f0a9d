//! The line that tells how a session goes.

use std::io::IsTerminal;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressStyle;
use mpq_dash::buffer::State;
use mpq_dash::live::Edge;
use mpq_dash::player::Player;

use crate::client::PathLog;

/// Pause between lines where they cannot be overwritten.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// The time that the paths' shares are of, on a terminal.
const SHARE_WINDOW: Duration = Duration::from_secs(2);

/// A line on stderr: rewritten on a terminal, repeated every few seconds
/// elsewhere.
pub enum Status {
    /// Nothing is shown.
    Quiet,
    /// Rewritten in place.
    Terminal(ProgressBar),
    /// The next line is due then.
    Lines(Instant),
}

impl Status {
    /// A line, unless `is_quiet`.
    pub fn new(is_quiet: bool) -> Status {
        if is_quiet {
            return Status::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Status::Lines(Instant::now() + LINE_INTERVAL);
        }
        let style = ProgressStyle::with_template("{wide_msg}");
        let line = ProgressBar::new_spinner();
        line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Status::Terminal(line)
    }

    /// Shows where `player` is and what the paths carry, if that is due.
    pub fn show(&mut self, player: &Player, paths: &PathLog) {
        match self {
            Status::Quiet => {}
            Status::Terminal(line) => {
                line.set_message(text(player, &paths.received_within(SHARE_WINDOW)));
            }
            Status::Lines(due) => {
                let now = Instant::now();
                if now >= *due {
                    *due = now + LINE_INTERVAL;
                    eprintln!("{}", text(player, &paths.received_within(LINE_INTERVAL)));
                }
            }
        }
    }

    /// Takes a line on a terminal away.
    pub fn clear(&self) {
        if let Status::Terminal(line) = self {
            line.finish_and_clear();
        }
    }
}

fn text(player: &Player, received: &[(u64, u64)]) -> String {
    let buffer = player.buffer();
    let state = match buffer.state() {
        State::Startup => "starting",
        State::Playing => "playing",
        State::Stalled(_) => "stalled",
        State::Ended => "ended",
    };
    let level = match player.segments().last() {
        Some(last) => format!(
            "level {}/{} {:.2} Mbit/s",
            last.level + 1,
            player.ladder_bps().len(),
            last.bitrate_bps as f64 / 1e6
        ),
        None => "no level yet".into(),
    };
    let throughput = match player.throughput_bps() {
        Some(bps) => format!("throughput {:.2} Mbit/s", bps / 1e6),
        None => "throughput unknown".into(),
    };
    let all: u64 = received.iter().map(|(_, bytes)| bytes).sum();
    let shares: Vec<String> = received
        .iter()
        .map(|(path_id, bytes)| format!("{path_id}={}%", bytes * 100 / all.max(1)))
        .collect();
    let place = match player.edge().map(Edge::last) {
        None => {
            let whole = clock(player.presentation().duration);
            format!("{}/{whole}", clock(buffer.playhead()))
        }
        Some(None) => "live".into(),
        Some(Some(latency)) => format!("live {:.1} s behind", latency.as_secs_f64()),
    };
    format!(
        "{state} {place} buffer {:.1} s, {level}, {throughput}, paths {}",
        buffer.level().as_secs_f64(),
        shares.join(" ")
    )
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known() {
        let mpd = "<MPD mediaPresentationDuration='PT75S'><Period><AdaptationSet \
                   contentType='video'><SegmentTemplate duration='5' media='$Number$'/>\
                   <Representation id='a' bandwidth='1000'/></AdaptationSet></Period></MPD>";
        let url = url::Url::parse("https://example.org/a.mpd").unwrap();
        let presentation = mpq_dash::mpd::Presentation::parse(mpd.as_bytes(), &url).unwrap();
        let rule = mpq_dash::abr::by_name("rate").unwrap();
        let player = Player::new(presentation, rule, Default::default(), Instant::now()).unwrap();
        assert_eq!(
            text(&player, &[(0, 750), (2, 250)]),
            "starting 0:00/1:15 buffer 0.0 s, no level yet, throughput unknown, \
             paths 0=75% 2=25%"
        );
        // Nothing received is no reason to divide by it.
        assert!(text(&player, &[(0, 0)]).ends_with("paths 0=0%"));
    }
}
