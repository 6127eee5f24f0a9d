//! COUPLED, the fully coupled controller (Kelly and Voice 2005, Han et al. 2006; equation 3 of the
//! MPMTP paper).
//!
//! Increase and decrease both go with the total window, so the total behaves as one Reno flow, and
//! all traffic moves to the least lossy path. Between equal paths it flaps: nothing holds a split.
//!
//! | symbol | name here | unit    | source                |
//! |--------|-----------|---------|-----------------------|
//! | w_r    | `packets` | packets | equation 3            |
//! | w_T    | `total`   | packets | sum of all windows    |
//!
//! Deviation: a window does not fall below `min-window`, three packets, where the paper has one.

use super::boxed;
use super::members::members;
use super::members::Member;
use super::members::LEFT_OUT;
use super::re_entry;
use super::reno;
use super::start;
use super::units::packets;
use super::Ack;
use super::Controller;
use super::Entry;
use super::Own;
use super::Trace;
use crate::registry::PathState;
use crate::registry::Registry;

/// The entry in [`CONTROLLERS`](super::CONTROLLERS).
pub const ENTRY: Entry = Entry {
    name: "coupled",
    coupled: true,
    summary: "COUPLED: all traffic on the least lossy path",
    idea: "The sum of all windows behaves as one Reno flow, and moves to the least lossy path.",
    source: "Kelly and Voice, ACM CCR 35(2), 2005; equation 3 of the MPMTP paper",
    formula: "ack: w_r += 1/w_T; loss: w_r = max(w_r - w_T/2, 2)",
    use_when: "as the theoretical extreme of moving traffic, to compare with",
    avoid_when: "otherwise: it flaps between equal paths, and finds a path that became better late",
    deviations: &[
        "a window keeps `min-window` packets, where the paper keeps one",
        LEFT_OUT,
    ],
    params: &[
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |_| boxed(Coupled),
};

/// The controller; all it needs is in the registry.
#[derive(Debug)]
struct Coupled;

/// w_T: the windows of all paths.
fn total<'a>(members: impl Iterator<Item = Member<'a>>) -> f64 {
    members.map(|member| member.window).sum()
}

impl Controller for Coupled {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        match own.path.rtt {
            Some(_) => ack.acked_bytes as f64 / total(own.members()),
            None => reno::step(own.path, ack),
        }
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        match own.path.rtt {
            Some(_) => (packets(own.path) - total(own.members()) / 2.0) * own.path.mss_bytes as f64,
            None => reno::half(own.path),
        }
    }

    fn trace(&self, paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        trace.push("w_total_packets", total(members(paths, path.id)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn both_steps_go_with_the_total() {
        // w = 30 and 10: w_T = 40. An ACK on either adds 1/40 packet = 25 bytes.
        let now = Instant::now();
        let paths = paths(&[(30, 50), (10, 20)]);
        let mut coupled = joined(Coupled, &paths);
        close(coupled.increase(now, &paths, PathId(0), &ack(now)), 25.0);
        close(coupled.increase(now, &paths, PathId(1), &ack(now)), 25.0);
        // A loss takes 20 packets: 30 -> 10; 10 -> -10, which the floor makes two packets.
        close(coupled.decrease(now, &paths, PathId(0)), 10_000.0);
        close(coupled.decrease(now, &paths, PathId(1)), -10_000.0);
    }

    #[test]
    fn what_is_shown() {
        let paths = paths(&[(10, 100), (40, 100)]);
        shows(
            &joined(Coupled, &paths),
            &paths,
            &[("w_total_packets", 50.0)],
        );
    }
}
