//! BALIA: balanced linked adaptation (Peng, Walid, Hwang and Low 2016;
//! draft-walid-mptcp-congestion-control-04).
//!
//! Between LIA, which is friendly but slow to leave a congested path, and OLIA, which leaves it but
//! answers slowly.
//!
//! | symbol      | name here      | unit      | source            |
//! |-------------|----------------|-----------|-------------------|
//! | x_r         | `Member::rate` | packets/s | draft section 3   |
//! | alpha_r     | `Rates::alpha` | 1         | max(x_s)/x_r; A_r in the entry  |
//! | sum x_k     | `Rates::sum`   | packets/s | draft section 3   |

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
    name: "balia",
    coupled: true,
    summary: "BALIA: balance between LIA's friendliness and OLIA's shift",
    idea: "Increase and decrease depend on how far a path's rate is below the best path's, which \
           balances friendliness against how fast it responds.",
    source: "Peng, Walid, Hwang and Low, IEEE/ACM Transactions on Networking 24(1), 2016; \
             draft-walid-mptcp-congestion-control-04",
    formula:
        "x = w/rtt, A_r = max(x_s)/x_r; ack: w_r += x_r/rtt_r / (sum x_s)^2 (1+A_r)/2 (4+A_r)/5; \
              loss: w_r -= w_r/2 min(A_r, 3/2)",
    use_when: "paths differ in congestion and it changes",
    avoid_when: "a path is long and fast: in growth it is Reno's kin",
    deviations: &[LEFT_OUT],
    params: &[
        re_entry::PARAM,
        start::PARAM,
        start::MIN_WINDOW,
        start::SSTHRESH,
    ],
    new: |_| boxed(Balia),
};

/// The most of w/2 that a loss takes.
const MAX_DECREASE: f64 = 1.5;

/// The controller; all it needs is in the registry.
#[derive(Debug)]
struct Balia;

/// The rates of all paths, packets per second.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    sum: f64,
    max: f64,
}

impl Rates {
    fn of<'a>(members: impl Iterator<Item = Member<'a>>) -> Rates {
        members.fold(Rates::default(), |rates, member| Rates {
            sum: rates.sum + member.rate(),
            max: rates.max.max(member.rate()),
        })
    }

    fn alpha(&self, member: &Member) -> f64 {
        self.max / member.rate()
    }

    /// x_r/rtt_r / (sum x)^2 * (1 + A)/2 * (4 + A)/5, packets for each acked packet.
    fn increase(&self, member: &Member) -> f64 {
        let alpha = self.alpha(member);
        let kelly_voice = member.rate() / member.rtt / (self.sum * self.sum);
        kelly_voice * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
    }
}

/// w - w/2 min(A, 3/2).
fn decrease(w: f64, alpha: f64) -> f64 {
    w - w / 2.0 * alpha.min(MAX_DECREASE)
}

impl Controller for Balia {
    type Flow = ();

    fn increase(&mut self, own: Own<()>, ack: &Ack) -> f64 {
        match Member::new(own.path) {
            Some(member) => ack.acked_bytes as f64 * Rates::of(own.members()).increase(&member),
            None => reno::step(own.path, ack),
        }
    }

    fn decrease(&mut self, own: Own<()>) -> f64 {
        match Member::new(own.path) {
            Some(member) => {
                let alpha = Rates::of(own.members()).alpha(&member);
                decrease(packets(own.path), alpha) * own.path.mss_bytes as f64
            }
            None => reno::half(own.path),
        }
    }

    fn trace(&self, paths: &Registry, path: &PathState, _flow: &(), trace: &mut Trace) {
        let rates = Rates::of(members(paths, path.id));
        let alpha = Member::new(path).map_or(1.0, |member| rates.alpha(&member));
        trace.push("alpha", alpha);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;

    #[test]
    fn one_path_is_reno() {
        // A = 1: both factors are 1; (20/0.1)/0.1 / 200^2 = 2000/40000 = 1/20. Loss: half.
        let now = Instant::now();
        let paths = paths(&[(20, 100)]);
        let mut balia = joined(Balia, &paths);
        close(balia.increase(now, &paths, PathId(0), &ack(now)), 50.0);
        close(balia.decrease(now, &paths, PathId(0)), 10_000.0);
    }

    #[test]
    fn a_slower_path_gains_and_loses_more() {
        // w = 40 and 10, rtt 0.1: x = 400 and 100, sum 500, A = 1 and 4.
        // Path 0: 400/0.1/250000 = 0.016. Path 1: 100/0.1/250000 = 0.004 * 5/2 * 8/5 = 0.016.
        let now = Instant::now();
        let paths = paths(&[(40, 100), (10, 100)]);
        let mut balia = joined(Balia, &paths);
        close(balia.increase(now, &paths, PathId(0), &ack(now)), 16.0);
        close(balia.increase(now, &paths, PathId(1), &ack(now)), 16.0);
        // Loss: 40 - 20; 10 - 5 * min(4, 1.5) = 2.5.
        close(balia.decrease(now, &paths, PathId(0)), 20_000.0);
        close(balia.decrease(now, &paths, PathId(1)), 2_500.0);
        // A = 1.25 is below the cap: 10 - 5 * 1.25 = 3.75.
        close(decrease(10.0, 1.25), 3.75);
    }

    #[test]
    fn what_is_shown() {
        // x = 100 and 400: A = 4.
        let paths = paths(&[(10, 100), (40, 100)]);
        shows(&joined(Balia, &paths), &paths, &[("alpha", 4.0)]);
    }
}
