//! The paths that are coupled, in the units of the papers: packets and seconds.

use super::units::packets_of;
use super::units::secs;
use crate::health::Health;
use crate::registry::PathId;
use crate::registry::PathState;
use crate::registry::Registry;

/// One path that takes part in the coupling.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its registry entry.
    pub path: &'a PathState,
    /// w_r: the window in packets; while the path recovers, the threshold it recovers to
    /// (RFC 6356, section 3).
    pub window: f64,
    /// rtt_r: the smoothed RTT in seconds.
    pub rtt: f64,
}

impl<'a> Member<'a> {
    /// The path as a member; `None` without an RTT sample.
    pub fn new(path: &'a PathState) -> Option<Member<'a>> {
        let window_bytes = match path.in_recovery {
            true => path.ssthresh_bytes,
            false => path.cwnd_bytes,
        };
        Some(Member {
            path,
            window: packets_of(window_bytes, path),
            rtt: secs(path.rtt?.smoothed),
        })
    }

    /// base_r: the minimum RTT in seconds.
    pub fn base(&self) -> f64 {
        self.path.rtt.map_or(self.rtt, |rtt| secs(rtt.min))
    }

    /// x_r = w_r / rtt_r, packets per second.
    pub fn rate(&self) -> f64 {
        self.window / self.rtt
    }
}

/// What most controllers that use [`members`] say of it in their entries.
pub const LEFT_OUT: &str = "paths without an RTT sample, failed and abandoned ones are in no sum; \
                            a path without an RTT sample grows as Reno";

/// The paths that path `id` is coupled with, itself among them: those with an RTT sample that are
/// neither abandoned nor failed, so that a dead path's last window slows nobody down. Path `id`
/// counts even then: its own step must be finite.
pub fn members(paths: &Registry, id: PathId) -> impl Iterator<Item = Member<'_>> + Clone {
    paths
        .iter()
        .filter(move |path| path.id == id || is_member(path))
        .filter_map(Member::new)
}

/// Whether others are coupled with the path.
pub fn is_member(path: &PathState) -> bool {
    path.rtt.is_some() && !path.abandoned && path.health != Health::Failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Rtt;
    use std::time::Duration;

    #[test]
    fn a_dead_path_is_no_member_for_others() {
        let mut paths = Registry::new();
        for id in 0..4 {
            let path = paths.add(PathId(id), 1000);
            path.cwnd_bytes = 10_000;
            path.rtt = Some(Rtt::first(Duration::from_millis(100)));
        }
        paths.get_mut(PathId(1)).unwrap().health = Health::Failed;
        paths.get_mut(PathId(2)).unwrap().abandoned = true;
        paths.get_mut(PathId(3)).unwrap().rtt = None;
        let seen = |id| -> Vec<u64> {
            members(&paths, PathId(id))
                .map(|member| member.path.id.0)
                .collect()
        };
        assert_eq!(seen(0), [0]);
        assert_eq!(seen(1), [0, 1]);
        assert_eq!(seen(3), [0]);
    }

    #[test]
    fn units() {
        let mut paths = Registry::new();
        let path = paths.add(PathId(0), 1200);
        path.cwnd_bytes = 24_000;
        path.rtt = Some(Rtt::first(Duration::from_millis(50)));
        let member = Member::new(path).unwrap();
        // 24000/1200 = 20 packets; 20 / 0.05 s = 400 packets per second.
        assert_eq!(
            (member.window, member.rtt, member.rate()),
            (20.0, 0.05, 400.0)
        );
        path.in_recovery = true;
        path.ssthresh_bytes = 12_000;
        assert_eq!(Member::new(path).unwrap().window, 10.0);
    }
}
