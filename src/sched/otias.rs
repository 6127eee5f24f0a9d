//! OTIAS: each packet where it is estimated to arrive first.
//!
//! A path of which the window is full sends q bytes more after floor(q / cwnd) round trips, and they
//! arrive by its way out later, for which the paper has half a round trip:
//!
//! ```text
//! T_i(q) = floor(max(0, q - room_i) / cwnd_i) srtt_i + out_i
//! ```
//!
//! The paper gives every packet to the path of least T at once, which then has it in a queue of its
//! own. Here what is unsent waits in one queue, so that none of it is stranded on a path that dies:
//! of the paths that can take a packet now, s has the least T(packet), and it gets the packet unless
//! all that is unsent, k, would be there earlier over some other path:
//!
//! ```text
//! send on s if T_s(packet) <= min over all i of T_i(k), else wait
//! ```

use std::time::Duration;
use std::time::Instant;

use super::measure;
use super::measure::held;
use super::measure::is_open;
use super::measure::need_bytes;
use super::min_rtt;
use super::min_rtt::MinRtt;
use super::opportunistic;
use super::tail;
use super::Ask;
use super::Entry;
use super::Pick;
use super::Scheduler;
use super::View;
use crate::registry::PathState;

/// The entry in [`SCHEDULERS`](super::SCHEDULERS).
pub const ENTRY: Entry = Entry {
    name: "otias",
    summary: "the path on which a packet is estimated to arrive first",
    idea: "A path's arrival time is half its RTT, and a whole one for each window that has to go \
           before. A slow path gets a packet only if the faster ones would not have sent all by then.",
    source: "Yang, Wang and Amer, OTIAS, AINA Workshops 2014",
    rule: "T_i(q) = floor((q - room_i)/cwnd_i) srtt_i + out_i; send on the open path of least \
           T(packet) if that is at most the least T(all unsent), else wait",
    use_when: "a baseline for experiments with schedulers that estimate arrival times",
    wrong: "it takes the window of now for that of the round trips to come, so in slow start it leaves \
            a fast path too early, and half the RTT for the way there while nothing tells the two ways apart",
    deviations: &[
        "out_i is the way there: half of srtt_i, as in the paper, unless timestamps or acknowledgments \
         that come back on another path tell more",
        "no queue for each path: what is unsent is the queue that every path would have, and the \
         pacer's delay is added to T",
        "a path without an RTT sample is treated as by min-rtt",
    ],
    params: &[tail::PARAM, opportunistic::PARAM],
    new: |_| Box::<Otias>::default(),
};

/// The scheduler.
#[derive(Debug, Default)]
struct Otias {
    min_rtt: MinRtt,
}

/// When the last of `bytes` arrives if the path carries them all.
fn arrival(path: &PathState, now: Instant, view: &View, bytes: u64) -> Option<Duration> {
    let srtt = path.rtt?.smoothed;
    let windows = bytes.saturating_sub(path.room_bytes()) / path.cwnd_bytes.max(1);
    let nanos = srtt.as_nanos().saturating_mul(u128::from(windows));
    let before = Duration::from_nanos(nanos.try_into().unwrap_or(u64::MAX));
    let out = view.way_out(path)?;
    Some(before.saturating_add(out).saturating_add(held(path, now)))
}

impl Scheduler for Otias {
    fn pick(&mut self, now: Instant, view: &View, ask: &Ask) -> Pick {
        let is_new = matches!(ask, Ask::New { .. });
        if !is_new || view.paths().any(|path| path.rtt.is_none()) {
            return self.min_rtt.pick(now, view, ask);
        }

        let first = |path: &'_ PathState| arrival(path, now, view, need_bytes(path, view, ask));
        let open = view
            .paths()
            .filter(|path| is_open(path, now, view, ask))
            .filter_map(|path| Some((first(path)?, path)));
        let unsent = view.connection().unsent_or_more();
        let all = view
            .paths()
            .filter_map(|path| Some((arrival(path, now, view, unsent)?, path)));
        let (Some((at, best)), Some((all_at, other))) = (
            open.min_by_key(|(at, path)| (*at, path.id)),
            all.min_by_key(|(at, path)| (*at, path.id)),
        ) else {
            return measure::wait(now, view, ask);
        };

        let release = other.pacing_release.filter(|release| *release > now);
        let can_wait = other.in_flight_bytes > 0 || release.is_some();
        if at > all_at && other.id != best.id && can_wait {
            return Pick::Wait {
                on: other.id,
                until: release,
            };
        }
        min_rtt::burst(best, view, ask)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Connection;
    use super::*;
    use crate::registry::PathId;
    use crate::registry::Registry;
    use crate::registry::Rtt;

    #[test]
    fn when_the_last_of_them_arrives() {
        // 100 ms, ten packets of which four are in flight: six go at once, then ten in a round trip.
        let now = Instant::now();
        let mut paths = Registry::new();
        let path = paths.add(PathId(0), 1200);
        path.validated = true;
        path.rtt = Some(Rtt::first(Duration::from_millis(100)));
        path.cwnd_bytes = 12_000;
        path.in_flight_bytes = 4_800;
        let at = |paths: &Registry, packets: u64| {
            let connection = Connection::default();
            let view = View::new(paths, &connection);
            let path = view.path(PathId(0)).unwrap();
            arrival(path, now, &view, packets * 1200).unwrap()
        };
        for (packets, ms) in [(1, 50), (6, 50), (15, 50), (16, 150), (26, 250)] {
            assert_eq!(at(&paths, packets), Duration::from_millis(ms), "{packets}");
        }
        let path = paths.get_mut(PathId(0)).unwrap();
        path.pacing_release = Some(now + Duration::from_millis(7));
        assert_eq!(at(&paths, 16), Duration::from_millis(157));
    }
}
