//! How long the way out of each path is: what a packet takes to the peer, without what its
//! acknowledgment takes back.
//!
//! An RTT is the way out of a path and the way back of the one that its acknowledgments take. With
//! all on their own paths, half of it has to do for the way out. Where those of a path p come back
//! on q, the way back is q's:
//!
//! ```text
//! back(q) = min_q / 2            q's own come back on q itself
//! back(q) = min_q - back(r)      they come back on r: as long as q's way out, when that is idle
//! out(p)  = srtt_p - back(way back of p)
//! ```
//!
//! min, as data waits in queues on the way out, which the acknowledgments on the way back do not
//! meet. Of paths that share a way back, the ways out differ by what their RTTs do, whatever back is.
//!
//! One-way delays of a peer that sends timestamps differ by as much as the ways out do, too: the
//! offset of the clocks is the same for all paths. The path of least RTT is believed to be as long in
//! both directions then, and the others are compared with it.

use std::time::Duration;

use super::measure::srtt;
use super::View;
use crate::registry::PathId;
use crate::registry::PathState;

/// So many times an acknowledgment's way is followed: a chain of paths has no more sense, and what a peer
/// does need not end.
const MAX_STEPS: u32 = 2;

/// The way back of acknowledgments that take path `id`; `None` if there is no such path, or no sample.
fn back(view: &View, id: PathId, steps: u32) -> Option<Duration> {
    let path = view.any_path(id)?;
    let least = path.rtt?.min;
    if path.way_back == id || steps == 0 {
        return Some(least / 2);
    }
    let other = back(view, path.way_back, steps - 1)?;
    Some(least.saturating_sub(other))
}

/// By one-way delays: the way out of the path of least RTT, and how much longer this one is.
fn by_timestamps(view: &View, path: &PathState) -> Option<Duration> {
    let delay = path.one_way_delay_micros?;
    let measured = view
        .paths()
        .filter(|path| path.way_back == path.id && path.rtt.is_some());
    let fast = measured.min_by_key(|path| (srtt(path), path.id))?;
    let longer = delay.checked_sub(fast.one_way_delay_micros?)?;
    let difference = Duration::from_micros(longer.unsigned_abs());
    let out = fast.rtt?.smoothed / 2;
    Some(match longer >= 0 {
        true => out.saturating_add(difference),
        false => out.saturating_sub(difference),
    })
}

/// By RTTs alone, which change less from one moment to the next than one-way delays.
pub(super) fn by_round_trips(view: &View, path: &PathState) -> Option<Duration> {
    let rtt = path.rtt?;
    if !view.has_detours() {
        return Some(rtt.smoothed / 2);
    }
    // A path that has left says nothing.
    Some(match back(view, path.way_back, MAX_STEPS) {
        Some(back) => rtt.smoothed.saturating_sub(back),
        None => rtt.smoothed / 2,
    })
}

/// See [`View::way_out`].
pub(super) fn way_out(view: &View, path: &PathState) -> Option<Duration> {
    let most = path.rtt?.smoothed;
    match by_timestamps(view, path) {
        Some(out) => Some(out.min(most)),
        None => by_round_trips(view, path),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Connection;
    use super::*;
    use crate::registry::Registry;
    use crate::registry::Rtt;

    const MS: Duration = Duration::from_millis(1);

    /// Paths of these smoothed and smallest RTTs in ms, and these ways back.
    fn paths(paths: &[([u32; 2], u64)]) -> Registry {
        let mut registry = Registry::new();
        for (id, ([smoothed_ms, min_ms], way_back)) in (0..).zip(paths) {
            let path = registry.add(PathId(id), 1200);
            path.validated = true;
            path.way_back = PathId(*way_back);
            path.rtt = Some(Rtt {
                smoothed: MS * *smoothed_ms,
                min: MS * *min_ms,
                ..Rtt::first(MS * *smoothed_ms)
            });
        }
        registry
    }

    fn ways_ms(registry: &Registry) -> Vec<f64> {
        let connection = Connection::default();
        let view = View::new(registry, &connection);
        let out = |path| view.way_out(path).unwrap();
        registry
            .iter()
            .map(|path| out(path).as_secs_f64() * 1e3)
            .collect()
    }

    #[test]
    fn half_where_each_takes_its_own() {
        assert_eq!(
            ways_ms(&paths(&[([20, 10], 0), ([600, 600], 1)])),
            [10.0, 300.0]
        );
    }

    #[test]
    fn the_rest_where_it_is_another_ones() {
        // 310 ms by a landline of 20 ms.
        let idle = [([20, 20], 0), ([310, 310], 0)];
        assert_eq!(ways_ms(&paths(&idle)), [10.0, 300.0]);
        // A queue of 400 ms on the landline is one of its way out.
        let busy = [([420, 20], 0), ([310, 310], 0)];
        assert_eq!(ways_ms(&paths(&busy)), [410.0, 300.0]);
        // And one of the other path, of that.
        let queue = [([20, 20], 0), ([350, 310], 0)];
        assert_eq!(ways_ms(&paths(&queue)), [10.0, 340.0]);
    }

    #[test]
    fn ways_of_ways() {
        // 20 ms; 100 ms by it: 60; 600 ms by that: 350.
        let chain = [([20, 20], 0), ([60, 60], 0), ([350, 350], 1)];
        assert_eq!(ways_ms(&paths(&chain)), [10.0, 50.0, 300.0]);
        // A peer that leads in circles.
        for path in ways_ms(&paths(&[([20, 20], 1), ([60, 60], 0)])) {
            assert!((0.0..=60.0).contains(&path), "{path}");
        }
        // The way back has left.
        let mut left = paths(&[([20, 20], 0), ([310, 310], 0)]);
        left.remove(PathId(0));
        assert_eq!(ways_ms(&left), [155.0]);
    }

    #[test]
    fn timestamps_tell_the_difference() {
        // 20 ms, and 200 ms of which 150 are out; the peer's clock is 2 s behind.
        let mut unlike = paths(&[([20, 20], 0), ([200, 200], 1)]);
        let delays = [Some(-1_990_000), Some(-1_850_000)];
        for (id, delay) in (0..).zip(delays) {
            unlike.get_mut(PathId(id)).unwrap().one_way_delay_micros = delay;
        }
        assert_eq!(ways_ms(&unlike), [10.0, 150.0]);
        unlike.get_mut(PathId(0)).unwrap().one_way_delay_micros = None;
        assert_eq!(ways_ms(&unlike), [10.0, 100.0]);
        // Half of an RTT is the way out of paths that are acknowledged by themselves only: 100 ms, and 60 ms
        // by its way back, of which 10 are out.
        let mut detour = paths(&[([100, 100], 0), ([60, 60], 0)]);
        for (id, delay) in (0..).zip([Some(50_000), Some(10_000)]) {
            detour.get_mut(PathId(id)).unwrap().one_way_delay_micros = delay;
        }
        assert_eq!(ways_ms(&detour), [50.0, 10.0]);
        // No more than there and back, whatever a peer claims.
        for (id, delay) in [(0, 0), (1, i64::MAX)] {
            unlike.get_mut(PathId(id)).unwrap().one_way_delay_micros = Some(delay);
        }
        assert_eq!(ways_ms(&unlike), [10.0, 200.0]);
    }
}
