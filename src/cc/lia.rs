//! Linked Increases (RFC 6356).
//!
//! The paths' increases are linked by one factor, a, chosen so that all paths together take what
//! one TCP would take on the best of them; no path grows faster than Reno would. Each path halves
//! by itself. With one path, a = 1 and LIA is Reno.
//!
//! | symbol      | name here        | unit    | source             |
//! |-------------|------------------|---------|--------------------|
//! | cwnd_i      | `window`         | packets | RFC 6356 section 3 |
//! | rtt_i       | `rtt`            | s       | RFC 6356 section 3 |
//! | cwnd_total  | `Sums::total`    | packets | RFC 6356 section 3 |
//! | alpha, a    | `a`              | 1       | RFC 6356 eq. 2     |
//!
//! The Coupled CUBIC paper calls alpha what is a cwnd_i/cwnd_total here (its equation 1), a number
//! for each path; this file keeps the RFC's, one number for the connection.
//!
//! Deviation: paths without an RTT sample, abandoned and failed ones are left out of the sums. A path
//! without an RTT sample grows as Reno.

use super::boxed;
use super::counting;
use super::counting::Counting;
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
    name: "lia",
    coupled: true,
    summary: "Linked Increases (RFC 6356): fair to one TCP at a shared bottleneck",
    idea: "One factor links the increases so that all paths together take what one TCP would take \
           on the best of them; each path halves by itself.",
    source: "RFC 6356",
    formula: "ack: w_r += min(a/w_T, 1/w_r), a = w_T max(w_s/rtt_s^2) / (sum w_s/rtt_s)^2; \
              loss: w_r = w_r/2",
    use_when: "in general: the safe standard",
    avoid_when:
        "a path is long and fast (Coupled CUBIC fills it), or congestion must leave the bad \
                 path entirely (OLIA, BALIA)",
    deviations: &[LEFT_OUT],
    params: &[
        counting::PARAM,
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |settings| boxed(Lia(Counting::new(settings))),
};

/// The controller; all else that it needs is in the registry.
#[derive(Debug)]
struct Lia(Counting);

/// What equation 2 takes from the paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// cwnd_total, packets.
    pub total: f64,
    /// max(cwnd_i / rtt_i^2), packets/s^2.
    best: f64,
    /// sum(cwnd_i / rtt_i), packets/s.
    rate: f64,
}

impl Sums {
    /// Of (window in packets, RTT in seconds), one for each path.
    pub fn of(paths: impl Iterator<Item = (f64, f64)>) -> Sums {
        let mut sums = Sums::default();
        for (window, rtt) in paths {
            sums.total += window;
            sums.best = sums.best.max(window / (rtt * rtt));
            sums.rate += window / rtt;
        }
        sums
    }

    fn of_members<'a>(members: impl Iterator<Item = Member<'a>>) -> Sums {
        Sums::of(members.map(|member| (member.window, member.rtt)))
    }

    /// alpha = cwnd_total * max(cwnd_i/rtt_i^2) / sum(cwnd_i/rtt_i)^2 (RFC 6356, equation 2).
    pub fn a(&self) -> f64 {
        self.total * self.best / (self.rate * self.rate)
    }

    /// alpha_r = w_r * max(w_s/rtt_s^2) / sum(w_s/rtt_s)^2 = a w_r / w_T, at most 1: the increase
    /// of path r over Reno's.
    pub fn share(&self, window: f64) -> f64 {
        (self.best / (self.rate * self.rate) * window).min(1.0)
    }
}

/// min(a/w_T, 1/w_r) packets for each acked packet (RFC 6356, equation 1).
fn increase(sums: &Sums, window: f64) -> f64 {
    (sums.a() / sums.total).min(1.0 / window)
}

impl Controller for Lia {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        match own.path.rtt {
            Some(_) => {
                let sums = Sums::of_members(own.members());
                self.0.bytes(ack) * increase(&sums, packets(own.path))
            }
            None => self.0.counted(reno::step(own.path, ack)),
        }
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        reno::half(own.path)
    }

    fn trace(&self, paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        let a = match path.rtt {
            Some(_) => Sums::of_members(members(paths, path.id)).a(),
            None => 1.0,
        };
        trace.push("a", a);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    fn sums(list: &[(u64, u64)]) -> Sums {
        Sums::of_members(members(&paths(list), PathId(0)))
    }

    #[test]
    fn one_path_has_alpha_one() {
        // 10 * (10/0.1^2) / (10/0.1)^2 = 10 * 1000 / 10000 = 1.
        close(sums(&[(10, 100)]).a(), 1.0);
    }

    #[test]
    fn two_equal_paths_have_alpha_one_half() {
        // 20 * (10/0.01) / (10/0.1 + 10/0.1)^2 = 20 * 1000 / 40000 = 0.5.
        let sums = sums(&[(10, 100), (10, 100)]);
        close(sums.a(), 0.5);
        // alpha_r = a w_r/w_T = 0.5 * 10/20.
        close(sums.share(10.0), 0.25);
    }

    #[test]
    fn unequal_rtts() {
        // w = 20 and 10 packets, rtt = 0.2 and 0.1 s.
        // w/rtt^2 = 500 and 1000; w/rtt = 100 and 100; total 30.
        // alpha = 30 * 1000 / 200^2 = 0.75.
        let sums = sums(&[(20, 200), (10, 100)]);
        close(sums.a(), 0.75);
        // One packet acked on either path: 0.75/30 = 0.025 packets; Reno would give 0.05, 0.1.
        close(increase(&sums, 20.0), 0.025);
        close(increase(&sums, 10.0), 0.025);
    }

    #[test]
    fn never_faster_than_reno() {
        // w = 100 and 1 packets, rtt 0.1 and 0.01 s: w/rtt^2 = 10^4 and 10^4, w/rtt = 1000 and 100.
        // alpha = 101 * 10^4 / 1100^2 = 0.8347. Then alpha/total = 0.00826 < 1/100: coupled on both.
        close(sums(&[(100, 100), (1, 10)]).a(), 101.0 * 1e4 / 1.21e6);
        // w = 2 and 40, rtt 0.01 and 1 s: w/rtt^2 = 20000 and 40, w/rtt = 200 and 40.
        // alpha = 42 * 20000 / 57600 = 14.58; alpha/total = 0.347 > 1/40: Reno caps the large one.
        let capped = sums(&[(2, 10), (40, 1000)]);
        close(increase(&capped, 40.0), 0.025);
        close(capped.share(40.0), 1.0);
    }

    #[test]
    fn scaling_all_rtts_changes_no_step() {
        close(
            sums(&[(20, 200), (10, 100)]).a(),
            sums(&[(20, 20), (10, 10)]).a(),
        );
    }

    #[test]
    fn a_path_without_rtt_is_not_in_the_sums() {
        let mut paths = paths(&[(10, 100), (90, 100)]);
        paths.get_mut(PathId(1)).unwrap().rtt = None;
        let sums = Sums::of_members(members(&paths, PathId(0)));
        close(sums.a(), 1.0);
        close(sums.total, 10.0);
    }

    #[test]
    fn a_recovering_path_counts_with_its_threshold() {
        let mut paths = paths(&[(10, 100), (2, 100)]);
        let path = paths.get_mut(PathId(1)).unwrap();
        path.in_recovery = true;
        path.ssthresh_bytes = 10_000;
        close(Sums::of_members(members(&paths, PathId(0))).a(), 0.5);
    }

    #[test]
    fn steps_of_a_path() {
        // a/w_T = 0.025 packets for each acked one.
        close(step(&ENTRY, &[(20, 200), (10, 100)]), 25.0);
        shows(
            &joined(
                Lia(Counting::new(&Settings::defaults(ENTRY.params))),
                &paths(&[(20, 200), (10, 100)]),
            ),
            &paths(&[(20, 200), (10, 100)]),
            &[("a", 0.75)],
        );
    }
}
