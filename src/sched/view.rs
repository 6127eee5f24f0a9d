//! What a scheduler sees: the paths of the best tier, and the connection's send state.

use std::time::Duration;
use std::time::Instant;

use super::way_out;
use super::Playback;
use super::StreamKey;
use crate::health::Health;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;
use crate::registry::Status;

/// Urgency levels of RFC 9218.
pub const URGENCIES: usize = 8;

/// How good a path is before any measurement counts: usable paths in order of preference.
///
/// A path that is only out of window or waits for its pacer stays in its tier, and so still hides
/// the tiers below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Wanted by both sides and delivering.
    Available,
    /// Backup by either side's wish, and delivering.
    Backup,
    /// Wanted, but suspected to have failed, or on its way back from a failure.
    DoubtfulAvailable,
    /// Backup, and doubtful.
    DoubtfulBackup,
    /// Wanted, but failed. Below the doubtful ones, or data just moved away would come back.
    FailedAvailable,
    /// Backup, and failed.
    FailedBackup,
}

impl PathState {
    /// The path's tier, or `None` while it cannot be used at all.
    pub fn tier(&self) -> Option<Tier> {
        if !self.takes_data() {
            return None;
        }
        let backup = self.peer_status == Status::Backup || self.local_status == Status::Backup;
        Some(match (self.health, backup) {
            (Health::Healthy, false) => Tier::Available,
            (Health::Healthy, true) => Tier::Backup,
            (Health::Suspect | Health::Recovering, false) => Tier::DoubtfulAvailable,
            (Health::Suspect | Health::Recovering, true) => Tier::DoubtfulBackup,
            (Health::Failed, false) => Tier::FailedAvailable,
            (Health::Failed, true) => Tier::FailedBackup,
        })
    }
}

/// A stream that has something to send: the head of the send order, or the next one after those
/// that were skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadStream {
    /// Which stream.
    pub key: StreamKey,
    /// Urgency, 0 (first) to 7 (RFC 9218).
    pub urgency: u8,
    /// Served in turns with others of its urgency (RFC 9218).
    pub incremental: bool,
    /// Bytes in the send buffer that are to be sent, for the first time or again.
    pub unsent_bytes: u64,
    /// Bytes from the first that was not acked to the last that was sent.
    pub unacked_bytes: u64,
    /// Bytes that the application wrote so far.
    pub written_bytes: u64,
    /// The application ended the stream.
    pub fin: bool,
    /// The whole length, where the application announced it; no less than what it wrote.
    pub announced_bytes: Option<u64>,
    /// When it should be delivered.
    pub deadline: Option<Instant>,
}

impl HeadStream {
    /// What the application will still write, as far as it is known.
    pub fn unwritten_bytes(&self) -> Option<u64> {
        if self.fin {
            return Some(0);
        }
        Some(self.announced_bytes?.saturating_sub(self.written_bytes))
    }
}

/// The connection's send state, kept by the transport as counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    /// k: bytes of streams and DATAGRAM frames that are ready to be sent, for the first time or
    /// again.
    pub unsent_bytes: u64,
    /// Those of streams by urgency.
    pub unsent_by_urgency_bytes: [u64; URGENCIES],
    /// What connection flow control still allows the application to write.
    pub flow_control_room_bytes: u64,
    /// What the application may write at once: what the send buffer takes, and flow control allows.
    pub send_buffer_room_bytes: u64,
    /// How much may wait behind a hole at the receiver: the peer's limit for the connection less
    /// what was acked in order, of all streams.
    pub reassembly_room_bytes: u64,
    /// The stream that is asked about. In other calls, the head of the send order if there is one.
    pub head: Option<HeadStream>,
    /// More will follow the bytes that are ready: the application wrote all it was allowed to, or
    /// has not ended the stream that is asked about, unless all that it announced is there.
    pub more_expected: bool,
    /// Bytes sent so far, of whatever kind.
    pub sent_bytes: u64,
    /// Bytes of them that were copies of stream data in flight on another path.
    pub copied_bytes: u64,
    /// What the client reported last about its playback.
    pub playback: Option<Playback>,
}

impl Connection {
    /// The bytes to be sent, without end if the application has more than it could write.
    pub fn unsent_or_more(&self) -> u64 {
        if self.more_expected {
            u64::MAX
        } else {
            self.unsent_bytes
        }
    }

    /// The bytes to be sent of streams of this urgency and more urgent ones.
    pub fn unsent_up_to(&self, urgency: u8) -> u64 {
        let end = (usize::from(urgency) + 1).min(URGENCIES);
        self.unsent_by_urgency_bytes[..end].iter().sum()
    }
}

/// One moment of a connection, as a scheduler sees it. Costs a pass over the paths to make.
#[derive(Clone, Copy)]
pub struct View<'a> {
    registry: &'a Registry,
    tier: Option<Tier>,
    /// Bit i: the registry's i-th path is shown. From the 65th on, the tier says it.
    shown: u64,
    /// Acknowledgments of some path come back on another one.
    detours: bool,
    connection: &'a Connection,
}

/// The best tier of some paths, and which ones are in it; bits as in [`View`].
#[derive(Clone, Copy, Default)]
struct Best {
    tier: Option<Tier>,
    shown: u64,
}

impl Best {
    fn note(&mut self, at: usize, tier: Tier) {
        if self.tier.is_none_or(|best| tier < best) {
            (self.tier, self.shown) = (Some(tier), 0);
        }
        if self.tier == Some(tier) {
            self.shown |= 1u64.checked_shl(at as u32).unwrap_or(0);
        }
    }
}

impl<'a> View<'a> {
    /// Looks at the paths and finds the best tier. Paths that take early data are shown with it if
    /// theirs is no worse, but hide nothing that is known to work.
    pub fn new(registry: &'a Registry, connection: &'a Connection) -> Self {
        let (mut usable, mut early) = (Best::default(), Best::default());
        let mut detours = false;
        for (at, path) in registry.iter().enumerate() {
            detours |= path.way_back != path.id;
            let Some(tier) = path.tier() else { continue };
            match path.validated {
                true => usable.note(at, tier),
                false => early.note(at, tier),
            }
        }
        let mut best = match usable.tier {
            Some(_) => usable,
            None => early,
        };
        if early.tier.is_some() && early.tier <= best.tier {
            best.shown |= early.shown;
        }
        View {
            registry,
            tier: best.tier,
            shown: best.shown,
            detours,
            connection,
        }
    }

    /// The backup paths that better ones hide, for a scheduler that knows when they are needed all
    /// the same; `None` if they are shown anyhow, or there are none that deliver.
    pub fn backups(&self) -> Option<View<'a>> {
        if self.tier != Some(Tier::Available) {
            return None;
        }
        let mut shown = 0;
        for (at, path) in self.registry.iter().enumerate() {
            if path.tier() == Some(Tier::Backup) {
                shown |= 1u64.checked_shl(at as u32).unwrap_or(0);
            }
        }
        let view = View {
            tier: Some(Tier::Backup),
            shown,
            ..*self
        };
        view.paths().next().map(|_| view)
    }

    /// The view with those paths that answer probes again after a failure and are hidden by
    /// healthy ones, for a scheduler that repeats what is late there.
    pub fn with_returning(&self) -> View<'a> {
        let mut view = *self;
        if self.tier == Some(Tier::Available) {
            for (at, path) in self.registry.iter().enumerate() {
                if path.tier() == Some(Tier::DoubtfulAvailable) && path.health == Health::Recovering
                {
                    view.shown |= 1u64.checked_shl(at as u32).unwrap_or(0);
                }
            }
        }
        view
    }

    /// The view without the paths that `hides` names, unless that leaves none.
    pub(super) fn without(&self, hides: impl Fn(&PathState) -> bool) -> View<'a> {
        let mut view = *self;
        for (at, path) in self.registry.iter().enumerate() {
            if hides(path) {
                view.shown &= !1u64.checked_shl(at as u32).unwrap_or(0);
            }
        }
        match view.paths().next() {
            Some(_) => view,
            None => *self,
        }
    }

    /// The paths to choose from: those of the best tier and early ones, in path ID order.
    pub fn paths(&self) -> impl Iterator<Item = &'a PathState> + Clone {
        let (tier, shown) = (self.tier, self.shown);
        self.registry
            .iter()
            .enumerate()
            .filter(move |(at, path)| match shown.checked_shr(*at as u32) {
                Some(shown) => shown & 1 == 1,
                None => tier.is_some() && path.tier() == tier,
            })
            .map(|(_, path)| path)
    }

    /// A path to choose from, by ID; `None` for one that exists but is not shown.
    pub fn path(&self, id: PathId) -> Option<&'a PathState> {
        self.paths().find(|path| path.id == id)
    }

    /// A path that a scheduler may send on, by ID: one that is shown, one that comes back, or a backup
    /// path.
    pub fn usable(&self, id: PathId) -> Option<&'a PathState> {
        self.path(id)
            .or_else(|| self.with_returning().path(id))
            .or_else(|| self.backups().and_then(|backups| backups.path(id)))
    }

    /// Any path that still exists, shown or not: for looking at where data went.
    pub fn any_path(&self, id: PathId) -> Option<&'a PathState> {
        self.registry.get(id)
    }

    /// Whether acknowledgments of some path come back on another one.
    pub(super) fn has_detours(&self) -> bool {
        self.detours
    }

    /// How long what is sent on the path is under way to the peer; half of the smoothed RTT, unless more
    /// is known. `None` without an RTT sample.
    pub fn way_out(&self, path: &PathState) -> Option<Duration> {
        way_out::way_out(self, path)
    }

    /// The best tier, which [`View::paths`] shows; `None` if no path is usable.
    pub fn tier(&self) -> Option<Tier> {
        self.tier
    }

    /// The connection's send state.
    pub fn connection(&self) -> &'a Connection {
        self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(status: Status, health: Health) -> PathState {
        let mut path = PathState::new(PathId(0), 1200);
        path.validated = true;
        path.peer_status = status;
        path.health = health;
        path
    }

    #[test]
    fn order_of_tiers() {
        use Health::*;
        use Status::*;
        let order = [
            path(Available, Healthy),
            path(Backup, Healthy),
            path(Available, Suspect),
            path(Backup, Recovering),
            path(Available, Failed),
            path(Backup, Failed),
        ];
        for pair in order.windows(2) {
            assert!(pair[0].tier() < pair[1].tier(), "{pair:?}");
        }
    }

    #[test]
    fn either_side_can_make_a_path_backup() {
        let mut both = path(Status::Available, Health::Healthy);
        both.local_status = Status::Backup;
        assert_eq!(both.tier(), Some(Tier::Backup));
    }

    #[test]
    fn what_makes_a_path_unusable() {
        let good = path(Status::Available, Health::Healthy);
        assert!(good.is_usable());
        let mut early = good.clone();
        (early.validated, early.takes_early_data) = (false, true);
        assert_eq!(early.tier(), Some(Tier::Available));
        assert!(!early.is_usable());
        early.amplification_room_bytes = Some(0);
        assert_eq!(early.tier(), None);
        // What was sent there is watched nevertheless.
        assert!(early.is_open());

        let broken: [fn(&mut PathState); 5] = [
            |path| path.validated = false,
            |path| path.abandoned = true,
            |path| path.has_dcid = false,
            |path| path.mss_bytes = 1199,
            |path| path.amplification_room_bytes = Some(0),
        ];
        for break_it in broken {
            let mut path = good.clone();
            break_it(&mut path);
            assert_eq!(path.tier(), None);
        }
    }

    #[test]
    fn backups_can_be_used_beside_available_paths() {
        let mut registry = Registry::new();
        for id in 0..4 {
            registry.add(PathId(id), 1200).validated = true;
        }
        registry.get_mut(PathId(1)).unwrap().peer_status = Status::Backup;
        registry.get_mut(PathId(2)).unwrap().health = Health::Suspect;
        let connection = Connection::default();

        let view = View::new(&registry, &connection);
        let backups = view.backups().unwrap();
        let ids: Vec<u64> = backups.paths().map(|path| path.id.0).collect();
        assert_eq!((ids, backups.tier()), (vec![1], Some(Tier::Backup)));
        let usable = [0, 1, 2, 3].map(|id| view.usable(PathId(id)).is_some());
        assert_eq!(usable, [true, true, false, true]);

        // Where it is shown anyhow, or failed, there is none.
        registry.get_mut(PathId(1)).unwrap().health = Health::Failed;
        assert!(View::new(&registry, &connection).backups().is_none());
        registry.get_mut(PathId(1)).unwrap().health = Health::Healthy;
        for id in [0, 3] {
            registry.get_mut(PathId(id)).unwrap().health = Health::Suspect;
        }
        assert!(View::new(&registry, &connection).backups().is_none());
    }

    #[test]
    fn returning_paths_can_be_used_beside_healthy_ones() {
        let mut registry = Registry::new();
        for id in 0..4 {
            registry.add(PathId(id), 1200).validated = true;
        }
        registry.get_mut(PathId(1)).unwrap().health = Health::Recovering;
        registry.get_mut(PathId(2)).unwrap().health = Health::Suspect;
        let returning = registry.get_mut(PathId(3)).unwrap();
        (returning.health, returning.local_status) = (Health::Recovering, Status::Backup);
        let connection = Connection::default();
        let ids = |view: View| -> Vec<u64> { view.paths().map(|path| path.id.0).collect() };

        let view = View::new(&registry, &connection);
        assert_eq!(ids(view), [0]);
        assert_eq!(ids(view.with_returning()), [0, 1]);
        let usable = [0, 1, 2, 3].map(|id| view.usable(PathId(id)).is_some());
        assert_eq!(usable, [true, true, false, false]);

        // Nothing else is hidden where doubtful paths are all there is, or a backup path works.
        registry.get_mut(PathId(0)).unwrap().health = Health::Failed;
        let view = View::new(&registry, &connection);
        assert_eq!(ids(view.with_returning()), [1, 2]);
        registry.get_mut(PathId(3)).unwrap().health = Health::Healthy;
        let view = View::new(&registry, &connection);
        assert_eq!(ids(view.with_returning()), [3]);
    }

    #[test]
    fn some_paths_can_be_left_out() {
        let mut registry = Registry::new();
        for id in 0..3 {
            registry.add(PathId(id), 1200).validated = true;
        }
        let connection = Connection::default();
        let view = View::new(&registry, &connection);
        let without = |ids: &[u64]| -> Vec<u64> {
            let view = view.without(|path| ids.contains(&path.id.0));
            view.paths().map(|path| path.id.0).collect()
        };
        assert_eq!(without(&[]), [0, 1, 2]);
        assert_eq!(without(&[1]), [0, 2]);
        assert_eq!(without(&[0, 2]), [1]);
        assert_eq!(without(&[0, 1, 2]), [0, 1, 2]);
    }

    #[test]
    fn only_the_best_tier_is_shown() {
        let mut registry = Registry::new();
        for id in 0..3 {
            registry.add(PathId(id), 1200).validated = true;
        }
        registry.get_mut(PathId(1)).unwrap().peer_status = Status::Backup;
        let connection = Connection::default();

        let ids = |registry: &Registry| -> Vec<u64> {
            View::new(registry, &connection)
                .paths()
                .map(|path| path.id.0)
                .collect()
        };
        assert_eq!(ids(&registry), [0, 2]);
        registry.get_mut(PathId(0)).unwrap().health = Health::Suspect;
        assert_eq!(ids(&registry), [2]);
        registry.get_mut(PathId(2)).unwrap().health = Health::Failed;
        assert_eq!(ids(&registry), [1]);
        registry.get_mut(PathId(1)).unwrap().abandoned = true;
        assert_eq!(ids(&registry), [0]);
        registry.remove(PathId(0));
        registry.remove(PathId(2));
        let empty: [u64; 0] = [];
        assert_eq!(ids(&registry), empty);
    }

    #[test]
    fn a_path_that_takes_early_data_hides_no_other() {
        let mut registry = Registry::new();
        registry.add(PathId(0), 1200).validated = true;
        registry.add(PathId(1), 1200).takes_early_data = true;
        registry.add(PathId(2), 1200).validated = true;
        let connection = Connection::default();
        let ids = |registry: &Registry| -> Vec<u64> {
            let view = View::new(registry, &connection);
            view.paths().map(|path| path.id.0).collect()
        };

        assert_eq!(ids(&registry), [0, 1, 2]);
        for id in [0, 2] {
            registry.get_mut(PathId(id)).unwrap().health = Health::Suspect;
        }
        assert_eq!(ids(&registry), [0, 1, 2]);
        // But it does not come before better ones.
        registry.get_mut(PathId(1)).unwrap().health = Health::Failed;
        assert_eq!(ids(&registry), [0, 2]);
        // Alone it is better than nothing.
        registry.remove(PathId(0));
        registry.remove(PathId(2));
        assert_eq!(ids(&registry), [1]);
    }
}
