//! Which way acknowledgments go back: a path's own, or a quicker one (RFC 10069, section 5.4).
//!
//! A window opens when its acknowledgments are back. Those of a satellite link that return over a
//! landline halve its round trip, and with it the time that a slow start takes.
//!
//! ```text
//!         own > 2 best, and 40 ms more,            own <= 1.25 best,
//!         srtt of best < own                       or srtt of best >= 2 own of before
//!   OWN ------------------------------------> DETOUR ------------------------------> BOTH
//!    ^                                          | the other path failed: at once      |
//!    +------------------------------------------+------------- an RTT later ----------+
//! ```
//!
//! own and best are the smallest RTTs: a queue is mostly one of the way there, in which the data
//! waits. What waits on the way back delays acknowledgments, but no smoothed RTT tells the two apart,
//! so a detour bears some of it before it ends.
//!
//! The receiver of data knows the RTTs of what it sends itself. They are lower where the peer's
//! acknowledgments take a detour, too: own = out + back by the best. What is more than twice the
//! best by itself is more than 1.5 times it then, so the detour ends below that.
//!
//! | bound                  | why                                                                  |
//! |------------------------|----------------------------------------------------------------------|
//! | one in 5 ms, three at  | these bytes are not the path's own, and no window holds them back;   |
//! | once after a pause     | but one for a whole flight tells its sender no rate                  |
//! | half of its window     | a path that is busy sending data has no room for them                |
//! | one in 40 ms both ways | a dead way back must not silence two paths, nor one that has few     |
//! | all both ways, if the  | most doubts are unfounded, and a change costs the sender a gap of    |
//! | other path is in doubt | the difference of the two ways, in which its window stays closed     |
//! | all both ways, at last | the same                                                             |

use std::time::Duration;
use std::time::Instant;

use crate::health::Health;
use crate::path_map::PathMap;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;
use crate::registry::Rtt;
use crate::registry::Status;

/// Acknowledgments of one path on another are this far apart in the long run. Those that find a
/// datagram under way ride along.
pub const SPACING: Duration = Duration::from_millis(5);

/// So many may go together after a pause: how a path begins is decided by the rate at which its first
/// flights are acknowledged, and one for each flight tells none. Four of a burst are a train of
/// [`start`](crate::cc), whose rate then lets windows overrun short queues.
pub const BURST: u32 = 3;

/// What a detour must save of the RTT to begin: many times what it may be held back.
const LEAST_GAIN: Duration = Duration::from_millis(40);

/// What it must save to go on.
const LEFT_GAIN: Duration = Duration::from_millis(10);

/// A path of this many times the best's RTT is worth a detour.
const BEGIN_RATIO: f64 = 2.0;

/// A detour ends where it is no longer this many times as much.
const END_RATIO: f64 = 1.25;

/// Or where the best's smoothed RTT is this many times what the path's was before.
const END_QUEUE: u32 = 2;

/// What goes both ways is this far apart at most, unless acknowledgments are.
const COPIED: Duration = Duration::from_millis(40);

/// The way of one path's acknowledgments.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// The other path that they take.
    via: PathId,
    /// The path's own RTT before.
    own: Duration,
    /// They take both until then, and their own afterwards.
    ends: Option<Instant>,
    /// The other path is in doubt: they take both meanwhile.
    doubted: bool,
    /// When the bucket of [`BURST`] is full again.
    full: Option<Instant>,
    /// When one took both last.
    copied: Instant,
    /// When the one that is due may go.
    release: Option<Instant>,
}

/// Which way the acknowledgments of each path take.
#[derive(Clone, Debug)]
pub struct Ways {
    ways: PathMap<Way>,
    spacing: Duration,
}

impl Ways {
    /// All take their own. `max_ack_delay` is what we told the peer that we hold them back at most.
    pub fn new(max_ack_delay: Duration) -> Self {
        Ways {
            ways: PathMap::default(),
            spacing: SPACING.min(max_ack_delay),
        }
    }

    /// Something of path `own` has to be acknowledged, after everything before it was.
    ///
    /// What is wrong with the path itself does not end a detour: a receiver has few samples of it, and
    /// the data that arrives needs its acknowledgments.
    pub fn on_wanted(&mut self, now: Instant, paths: &Registry, own: PathId) {
        let Some(path) = paths.get(own) else {
            return;
        };
        match self.ways.get_mut(own) {
            Some(way) => {
                let via = paths.get(way.via).filter(|via| is_bearable(via));
                let over = way.ends.is_some_and(|ends| ends <= now);
                let Some(via) = via.filter(|_| !over) else {
                    self.ways.remove(own);
                    return;
                };
                way.ends = match (goes_on(path, via, way.own), way.ends) {
                    (true, _) => None,
                    (false, Some(ends)) => Some(ends),
                    (false, None) => {
                        Some(now + path.rtt.map_or(Duration::ZERO, |rtt| rtt.smoothed))
                    }
                };
                way.doubted = via.health == Health::Suspect;
                let burst = (BURST - 1) * self.spacing;
                way.release = way
                    .full
                    .filter(|full| *full > now + burst)
                    .map(|full| full - burst);
            }
            None => {
                if let Some((own_rtt, via)) = better(paths, path) {
                    let way = Way {
                        via,
                        own: own_rtt,
                        ends: None,
                        doubted: false,
                        full: None,
                        copied: now,
                        release: None,
                    };
                    self.ways.insert(own, way);
                }
            }
        }
    }

    /// The other path that the acknowledgments of path `own` take; `None` if it is their own.
    pub fn via(&self, paths: &Registry, own: PathId) -> Option<PathId> {
        let via = self.ways.get(own)?.via;
        paths.get(via).filter(|path| is_bearable(path))?;
        Some(via)
    }

    /// When an acknowledgment of path `own` may go that waits; at once if `None`.
    pub fn release(&self, own: PathId) -> Option<Instant> {
        self.ways.get(own)?.release
    }

    /// Time passed: what waited until `now` may go.
    pub fn on_timer(&mut self, now: Instant) {
        for (_, way) in self.ways.iter_mut() {
            way.release = way.release.filter(|release| *release > now);
        }
    }

    /// An acknowledgment of path `own` took another path. Returns whether its own is to have it, too.
    pub fn on_sent(&mut self, now: Instant, own: PathId) -> bool {
        let Some(way) = self.ways.get_mut(own) else {
            return false;
        };
        // What rode along was not held back, and does not hold back more than one would.
        let full = way.full.map_or(now, |full| full.max(now)) + self.spacing;
        way.full = Some(full.min(now + BURST * self.spacing));
        way.release = None;
        let both = way.doubted || way.ends.is_some() || now - way.copied >= COPIED;
        if both {
            way.copied = now;
        }
        both
    }

    /// A path left.
    pub fn on_path_closed(&mut self, id: PathId) {
        self.ways.remove(id);
    }
}

/// Whether a path is beyond doubt, and nobody wants it to be spared.
fn is_working(path: &PathState) -> bool {
    path.health == Health::Healthy && is_bearable(path)
}

/// Whether a path may work, and nobody wants it to be spared.
fn is_bearable(path: &PathState) -> bool {
    path.is_usable()
        && matches!(path.health, Health::Healthy | Health::Suspect)
        && path.local_status == Status::Available
        && path.peer_status == Status::Available
}

/// Whether the path's window is no more than half full.
fn has_room(path: &PathState) -> bool {
    path.in_flight_bytes <= path.cwnd_bytes / 2
}

/// own > ratio best, and by `gain` at least.
fn is_longer(own: Rtt, best: Rtt, ratio: f64, gain: Duration) -> bool {
    own.min > best.min.mul_f64(ratio) && own.min - best.min >= gain
}

fn goes_on(own: &PathState, via: &PathState, own_before: Duration) -> bool {
    let longer = |(own, best): (Rtt, Rtt)| {
        is_longer(own, best, END_RATIO, LEFT_GAIN) && best.smoothed < END_QUEUE * own_before
    };
    has_room(via) && own.rtt.zip(via.rtt).is_some_and(longer)
}

/// The path of least RTT, if that is worth a detour, with the RTT of the path itself.
fn better(paths: &Registry, own: &PathState) -> Option<(Duration, PathId)> {
    let (rtt, _) = own.rtt.zip(is_working(own).then_some(()))?;
    let others = paths
        .iter()
        .filter(|path| path.id != own.id && is_working(path) && has_room(path));
    let (best, id) = others
        .filter_map(|path| Some((path.rtt?, path.id)))
        .min_by_key(|(rtt, id)| (rtt.smoothed, *id))?;
    let is_worth_it = is_longer(rtt, best, BEGIN_RATIO, LEAST_GAIN) && best.smoothed < rtt.min;
    is_worth_it.then_some((rtt.min, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const LAND: PathId = PathId(0);
    const SKY: PathId = PathId(1);

    /// Paths of these RTTs in ms, idle, with windows of ten packets.
    fn paths(rtts_ms: &[u32]) -> Registry {
        let mut paths = Registry::new();
        for (id, rtt_ms) in (0..).zip(rtts_ms) {
            let path = paths.add(PathId(id), 1200);
            path.validated = true;
            path.cwnd_bytes = 12_000;
            path.rtt = Some(Rtt::first(MS * *rtt_ms));
        }
        paths
    }

    fn set_rtt(paths: &mut Registry, id: PathId, rtt_ms: u32) {
        paths.get_mut(id).unwrap().rtt = Some(Rtt::first(MS * rtt_ms));
    }

    /// A queue, in front of a path whose least RTT is known.
    fn bloat(paths: &mut Registry, id: PathId, rtt_ms: u32) {
        let rtt = &mut paths.get_mut(id).unwrap().rtt;
        rtt.as_mut().unwrap().smoothed = MS * rtt_ms;
    }

    fn ways() -> Ways {
        Ways::new(25 * MS)
    }

    /// The way of the satellite's next acknowledgment.
    fn next(ways: &mut Ways, now: Instant, paths: &Registry) -> Option<PathId> {
        ways.on_wanted(now, paths, SKY);
        ways.via(paths, SKY)
    }

    #[test]
    fn a_detour_must_be_worth_it() {
        let now = Instant::now();
        for (land, sky, via) in [
            (20, 600, Some(LAND)),
            (20, 60, Some(LAND)),
            // Not twice as much; less than 40 ms more; unlike links of one room.
            (300, 600, None),
            (10, 49, None),
            (1, 10, None),
        ] {
            assert_eq!(next(&mut ways(), now, &paths(&[land, sky])), via);
        }
        // Nor is the quick one's sent over the slow one.
        let mut ways = ways();
        let paths = paths(&[20, 600]);
        ways.on_wanted(now, &paths, LAND);
        assert_eq!(ways.via(&paths, LAND), None);
    }

    #[test]
    fn the_quickest_of_several() {
        let paths = paths(&[50, 600, 20]);
        assert_eq!(next(&mut ways(), Instant::now(), &paths), Some(PathId(2)));
    }

    #[test]
    fn no_detour_without_samples_or_by_a_path_that_has_other_things_to_do() {
        let now = Instant::now();
        let spoil: [fn(&mut Registry); 7] = [
            |paths| paths.get_mut(SKY).unwrap().rtt = None,
            |paths| paths.get_mut(LAND).unwrap().rtt = None,
            |paths| paths.get_mut(LAND).unwrap().health = Health::Suspect,
            |paths| paths.get_mut(LAND).unwrap().health = Health::Recovering,
            |paths| paths.get_mut(LAND).unwrap().local_status = Status::Backup,
            |paths| paths.get_mut(LAND).unwrap().peer_status = Status::Backup,
            |paths| paths.get_mut(LAND).unwrap().in_flight_bytes = 6_001,
        ];
        for spoil in spoil {
            let mut paths = paths(&[20, 600]);
            spoil(&mut paths);
            assert_eq!(next(&mut ways(), now, &paths), None);
        }
    }

    #[test]
    fn the_peers_detours_do_not_end_ours() {
        let now = Instant::now();
        // Just worth it, by ratio and by gain: the peer's detours take half of the difference away.
        for (land, sky, by_detour) in [(100, 201, 150), (30, 70, 50)] {
            let mut ways = ways();
            let mut paths = paths(&[land, sky]);
            assert_eq!(next(&mut ways, now, &paths), Some(LAND));
            set_rtt(&mut paths, SKY, by_detour);
            assert_eq!(next(&mut ways, now, &paths), Some(LAND));
            assert_eq!(ways.ways.get(SKY).unwrap().ends, None);
        }
    }

    #[test]
    fn both_ways_for_a_round_trip_before_it_ends() {
        let now = Instant::now();
        let mut ways = ways();
        let mut paths = paths(&[20, 600]);
        next(&mut ways, now, &paths);
        assert!(!ways.on_sent(now, SKY));

        bloat(&mut paths, LAND, 1199);
        assert_eq!(next(&mut ways, now, &paths), Some(LAND));
        assert!(!ways.on_sent(now, SKY));
        bloat(&mut paths, LAND, 1200);
        assert_eq!(next(&mut ways, now, &paths), Some(LAND));
        assert!(ways.on_sent(now, SKY) && ways.on_sent(now, SKY));
        // It would go on if the landline's queue were gone.
        bloat(&mut paths, LAND, 100);
        next(&mut ways, now, &paths);
        assert!(!ways.on_sent(now, SKY));

        set_rtt(&mut paths, LAND, 500);
        assert_eq!(next(&mut ways, now, &paths), Some(LAND));
        assert_eq!(next(&mut ways, now + 599 * MS, &paths), Some(LAND));
        assert_eq!(next(&mut ways, now + 600 * MS, &paths), None);
        // Nor does another begin before the queue is less than what it would save.
        set_rtt(&mut paths, LAND, 20);
        bloat(&mut paths, LAND, 600);
        assert_eq!(next(&mut ways, now + 600 * MS, &paths), None);
        bloat(&mut paths, LAND, 599);
        assert_eq!(next(&mut ways, now + 600 * MS, &paths), Some(LAND));
    }

    #[test]
    fn both_ways_while_the_other_path_is_in_doubt() {
        let now = Instant::now();
        let mut ways = ways();
        let mut paths = paths(&[20, 600]);
        for (health, both) in [
            (Health::Healthy, false),
            (Health::Suspect, true),
            (Health::Suspect, true),
            (Health::Healthy, false),
        ] {
            paths.get_mut(LAND).unwrap().health = health;
            assert_eq!(next(&mut ways, now, &paths), Some(LAND));
            assert_eq!(ways.on_sent(now, SKY), both);
        }
    }

    #[test]
    fn the_way_stays_whatever_is_believed_of_the_path_itself() {
        let now = Instant::now();
        let mut ways = ways();
        let mut paths = paths(&[20, 600]);
        next(&mut ways, now, &paths);
        for health in [Health::Suspect, Health::Failed, Health::Recovering] {
            paths.get_mut(SKY).unwrap().health = health;
            assert_eq!(next(&mut ways, now, &paths), Some(LAND));
            // But none begins.
            assert_eq!(next(&mut self::ways(), now, &paths), None);
        }
    }

    #[test]
    fn a_failed_path_is_left_at_once() {
        let now = Instant::now();
        let mut ways = ways();
        let mut paths = paths(&[20, 600]);
        next(&mut ways, now, &paths);
        paths.get_mut(LAND).unwrap().health = Health::Failed;
        // Also what is due already.
        assert_eq!(ways.via(&paths, SKY), None);
        assert_eq!(next(&mut ways, now, &paths), None);
    }

    #[test]
    fn three_at_once_then_one_in_five_milliseconds() {
        let start = Instant::now();
        let paths = paths(&[20, 600]);
        let mut ways = ways();
        let send_burst = |ways: &mut Ways, now: Instant, count: u32| {
            for _ in 0..count {
                next(ways, now, &paths);
                assert_eq!(ways.release(SKY), None);
                ways.on_sent(now, SKY);
            }
            next(ways, now, &paths);
            assert_eq!(ways.release(SKY), Some(now + SPACING));
        };
        send_burst(&mut ways, start, 3);
        let mut now = start;
        for _ in 0..16 {
            now += SPACING;
            next(&mut ways, now - MS, &paths);
            assert_eq!(ways.release(SKY), Some(now));
            ways.on_timer(now - MS);
            assert_eq!(ways.release(SKY), Some(now));
            ways.on_timer(now);
            assert_eq!(ways.release(SKY), None);
            send_burst(&mut ways, now, 1);
        }
        // What was not used comes back, one in 5 ms and three at most.
        send_burst(&mut ways, now + 2 * SPACING, 2);
        send_burst(&mut ways, now + 1000 * SPACING, 3);
        // Those that rode along, and waited for nothing, make the next one wait no longer.
        let mut now = now + 2000 * SPACING;
        for _ in 0..1000 {
            ways.on_sent(now, SKY);
        }
        next(&mut ways, now, &paths);
        assert_eq!(ways.release(SKY), Some(now + SPACING));
        now += 3 * SPACING;
        send_burst(&mut ways, now, 3);
        // Who promised to hold nothing back does not.
        assert_eq!(Ways::new(Duration::ZERO).spacing, Duration::ZERO);
    }

    #[test]
    fn one_in_forty_milliseconds_goes_both_ways() {
        let start = Instant::now();
        let paths = paths(&[20, 600]);
        let mut ways = ways();
        // Those that are further apart all do.
        for (ms, both) in [
            (0, false),
            (39, false),
            (40, true),
            (41, false),
            (79, false),
            (80, true),
            (200, true),
            (240, true),
        ] {
            let now = start + ms * MS;
            next(&mut ways, now, &paths);
            assert_eq!(ways.on_sent(now, SKY), both, "{ms}");
        }
    }

    #[test]
    fn half_a_window_is_room() {
        let mut paths = paths(&[20, 600]);
        paths.get_mut(LAND).unwrap().in_flight_bytes = 6_000;
        assert_eq!(next(&mut ways(), Instant::now(), &paths), Some(LAND));
    }

    #[test]
    fn a_path_that_closes_has_no_detour() {
        let mut ways = ways();
        let paths = paths(&[20, 600]);
        next(&mut ways, Instant::now(), &paths);
        ways.on_path_closed(SKY);
        assert_eq!(ways.via(&paths, SKY), None);
    }
}
