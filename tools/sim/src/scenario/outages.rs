//! Outages of a link, drawn from the seed of the run.

use std::str::FromStr;
use std::time::Duration;

use mpq_wire::model::Change;
use mpq_wire::model::Event;
use mpq_wire::model::Nanos;
use mpq_wire::model::Purpose;
use mpq_wire::model::Schedule;
use mpq_wire::model::Seeds;
use mpq_wire::units;

/// Outages of a link: how long each lasts, and how long the link was up before it, both uniform between two times.
#[derive(Clone, Debug, PartialEq)]
pub struct Outages {
    down: [Duration; 2],
    up: [Duration; 2],
}

impl FromStr for Outages {
    type Err = String;

    /// `200 ms to 800 ms after 3 s to 7 s`.
    fn from_str(text: &str) -> Result<Outages, String> {
        let hint = || format!("\"{text}\": expected for example 200 ms to 800 ms after 3 s to 7 s");
        let span = |text: &str| -> Result<[Duration; 2], String> {
            let (least, most) = text.split_once(" to ").ok_or_else(hint)?;
            let span = [units::parse_duration(least)?, units::parse_duration(most)?];
            match span[0] <= span[1] && !span[1].is_zero() {
                true => Ok(span),
                false => Err(format!("\"{text}\": the longer time comes second")),
            }
        };
        let (down, up) = text.split_once(" after ").ok_or_else(hint)?;
        Ok(Outages {
            down: span(down)?,
            up: span(up)?,
        })
    }
}

impl Outages {
    /// The outages of the link that `seeds` names, up to `end`, added to what happens to it anyhow.
    pub(crate) fn add_to(&self, schedule: &Schedule, end: Duration, seeds: &Seeds) -> Schedule {
        let mut draws = seeds.generator(Purpose::Outage);
        let mut draw = |[least, most]: [Duration; 2]| {
            let span = (most - least).as_nanos() as f64;
            least + Duration::from_nanos((draws.unit() * span) as u64)
        };
        let mut events = schedule.events().to_vec();
        let mut at = Duration::ZERO;
        while at < end {
            for (change, span) in [(Change::Down, self.up), (Change::Up, self.down)] {
                at += draw(span);
                let at = at.as_nanos() as Nanos;
                events.push(Event { at, change });
            }
        }
        Schedule::new(events)
    }
}

#[cfg(test)]
mod tests {
    use mpq_wire::model::Way;

    use super::*;

    fn drawn(link: &str, master: u64) -> Vec<Event> {
        let outages: Outages = "200 ms to 800 ms after 3 s to 7 s".parse().unwrap();
        let seeds = Seeds {
            master,
            run: 0,
            link: link.into(),
            way: Way::AToB,
        };
        let before = "rate=2mbit@1s".parse().unwrap();
        let schedule = outages.add_to(&before, Duration::from_secs(1000), &seeds);
        schedule.events().to_vec()
    }

    #[test]
    fn outages_are_as_long_and_as_far_apart_as_they_say() {
        let events = drawn("wifi", 1);
        assert_eq!(events[0].at, 1_000_000_000);
        let mut before = 0;
        let mut spans = [vec![], vec![]];
        for (i, event) in events[1..].iter().enumerate() {
            let expected = [Change::Down, Change::Up];
            assert_eq!(event.change, expected[i % 2]);
            spans[i % 2].push((event.at - before) as f64 / 1e9);
            before = event.at;
        }
        // Some 1000/5.5 of each: the mean of a uniform span has a standard error of 2 % of its width.
        for (span, (least, most)) in spans.iter().zip([(3.0, 7.0), (0.2, 0.8)]) {
            assert!(span.len() > 170, "{}", span.len());
            assert!(span.iter().all(|s| (least..=most).contains(s)), "{span:?}");
            let mean = span.iter().sum::<f64>() / span.len() as f64;
            assert!((mean - (least + most) / 2.0).abs() < 0.1 * (most - least));
        }
        assert!(before > 1_000_000_000_000);
    }

    #[test]
    fn every_link_and_seed_has_its_own() {
        assert_eq!(drawn("wifi", 1), drawn("wifi", 1));
        assert_ne!(drawn("wifi", 1), drawn("wifi", 2));
        assert_ne!(drawn("wifi", 1), drawn("lte", 1));
    }

    #[test]
    fn what_is_wrong_is_refused_with_a_hint() {
        for (text, hint) in [
            ("200 ms", "expected for example"),
            ("200 ms after 3 s to 7 s", "expected for example"),
            ("800 ms to 200 ms after 3 s to 7 s", "comes second"),
            ("0 s to 0 s after 3 s to 7 s", "comes second"),
            ("200 to 800 ms after 3 s to 7 s", "unit is missing"),
        ] {
            let error = text.parse::<Outages>().unwrap_err();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
