//! Which losses are too many (draft, sections 5.3.1.3 and 5.5.10).
//!
//! The draft counts: more than theta = 2 % of what was in flight. A path that loses 1 % at random
//! loses more than that of 80 packets in one round trip of five. Judged losses are held against the
//! share p0 that the path loses while it shows no queue:
//!
//! p0 = (0.2 + lost)/(200 + sent) over what was acknowledged or found lost in Cruise without a
//! queue, decayed over 500 packets, at most `noise`; n packets may lose
//! (theta + p0) n + 3 sqrt((2 b - 1) p0 (1 - p0) n).
//!
//! b is how many packets are lost at a time, on average. Of bursts that come by chance and whose
//! lengths are geometric n packets lose p0 n with a variance of p0 n E\[L^2\]/b = p0 n (2 b - 1).
//!
//! A queue is what the least RTT of an eighth to a quarter of a round trip says, above the least
//! of all. Jitter in a queue that keeps order delays what is behind, too, and raises that: it has
//! to be eight times what the leasts of neighbouring parts differ by.
//!
//! That the path shows a queue at other times is asked for: a policer, which drops what is above
//! its rate without ever having one, is not thought to lose at random.

use std::time::Duration;
use std::time::Instant;

use super::Rules;
use super::Seen;
use super::SHORT_SECS;
use crate::cc::units::seconds;
use crate::cc::units::Bounded;

/// What p0 is taken from before anything is known: a clean path. With 1 % in place of that a flow took
/// 2.9 times what a Reno beside it got, in whose queue p0 is not learned.
const PRIOR_LOST: f64 = 0.2;
const PRIOR_SENT: f64 = 200.0;

/// Packets over which p0 forgets.
const MEMORY_PACKETS: f64 = 500.0;

/// A queue of this is one; below, it may be the clock or the link layer.
const LEAST_QUEUE_SECS: f64 = 0.001;

/// No more than this is no queue, however long it was at other times: CoDel drops from 5 ms on.
const NO_QUEUE_SECS: f64 = 0.002;

/// What the longest queue of late has to be for p0 to be learned.
const SHOWN_QUEUE_SECS: f64 = 0.002;

/// A queue is at least so many times what the least RTTs of neighbouring parts differ by.
const JITTERS: f64 = 8.0;

/// Gain of the smoothed difference of neighbouring parts.
const APART_GAIN: f64 = 1.0 / 16.0;

/// The longest queue is of the last 5 to 10 s.
const QUEUE_MEMORY: Duration = Duration::from_secs(5);

/// Startup ends by losses if there are so many ranges of them in a round trip.
const STARTUP_RANGES_COUNTED: u32 = 6;
const STARTUP_RANGES_JUDGED: u32 = 8;

/// Judged losses end Startup without a queue if they are a tenth.
const STARTUP_SHARE: f64 = 0.1;

/// What a round trip lost, and delivered, and what the path loses anyway.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    /// Packets of this round trip.
    lost: f64,
    acked: f64,
    ranges: u32,
    /// The longest queue in this round trip, s.
    queue: f64,
    /// Lost with a queue, packets.
    lost_queued: f64,
    near: Near,
    /// The least of what `near` said in this round trip, s.
    standing: f64,
    /// The longest queue, of this half of the memory and of the last.
    longest: [f64; 2],
    half_until: Option<Instant>,
    min_rtt: f64,
    /// Whether the round trip was all in Cruise.
    cruised: bool,
    /// The round trip before lost something, too.
    lossy: bool,
    /// The same of a round trip that just ended.
    last: Round,
    /// Whether the last ACK was one of Cruise, without a queue.
    learns: bool,
    /// What was seen then: packets, and how often some of them were lost at a time.
    noise_lost: f64,
    noise_sent: f64,
    noise_bursts: f64,
}

/// The least queue of late: a single packet may be late for other reasons.
#[derive(Clone, Debug, Default)]
struct Near {
    /// On the engine's clock.
    since: Option<u64>,
    /// Of this part of the round trip, and the last one; s.
    least: [f64; 2],
    /// By how much the leasts of two parts in a row differ, smoothed; s.
    apart: f64,
}

impl Near {
    /// A sample of a queue; `part_secs` of time are remembered at least, and twice as much at most.
    fn add(&mut self, clock_nanos: u64, queue: f64, part_secs: f64) {
        let Some(since) = self.since else {
            self.since = Some(clock_nanos);
            self.least = [queue, f64::INFINITY];
            return;
        };
        let elapsed = seconds(clock_nanos.saturating_sub(since));
        if elapsed < part_secs {
            self.least[0] = self.least[0].at_most(queue);
            return;
        }
        let apart = (self.least[0] - self.least[1]).abs();
        if apart.is_finite() {
            self.apart += (apart - self.apart) * APART_GAIN;
        }
        let last = match elapsed < 2.0 * part_secs {
            true => self.least[0],
            false => f64::INFINITY,
        };
        self.least = [queue, last];
        self.since = Some(clock_nanos);
    }

    /// 0 before the first sample.
    fn get(&self) -> f64 {
        self.least[0].at_most(self.least[1])
    }
}

/// A round trip that ended.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    lost: f64,
    acked: f64,
    ranges: u32,
    queue: f64,
}

impl Judge {
    pub fn on_ack(&mut self, seen: &Seen, min_rtt: f64, cruises: bool) {
        let acked = seen.acked / seen.mss;
        self.acked += acked;
        self.cruised &= cruises;
        self.min_rtt = min_rtt;
        if self.half_until.is_none_or(|until| seen.now > until) {
            if self.half_until.is_some() {
                self.longest = [0.0, self.longest[0]];
            }
            self.half_until = Some(seen.now + QUEUE_MEMORY);
        }
        if let Some(rtt) = seen.rtt.filter(|_| min_rtt.is_finite()) {
            self.queue = self.queue.at_least(rtt - min_rtt);
            self.longest[0] = self.longest[0].at_least(rtt - min_rtt);
            self.near
                .add(seen.clock_nanos, rtt - min_rtt, min_rtt / 8.0);
            let near = self.near.get();
            self.standing = self.standing.at_most(near);
        }
        self.learns = cruises && self.has_no_queue();
        if self.learns {
            self.forget(acked);
            self.noise_sent += acked;
        }
        self.last = Round {
            lost: self.lost,
            acked: self.acked,
            ranges: self.ranges,
            queue: self.queue,
        };
    }

    /// After all that an ACK does: begins anew if it began a round trip.
    pub fn on_round(&mut self, started: bool) {
        if !started {
            return;
        }
        self.lossy = self.lost > 0.0;
        (self.lost, self.acked, self.ranges, self.queue) = (0.0, 0.0, 0, 0.0);
        self.lost_queued = 0.0;
        self.standing = f64::INFINITY;
        self.cruised = true;
    }

    pub fn on_loss(&mut self, packets: f64) {
        self.lost += packets;
        self.ranges += 1;
        if self.learns {
            self.forget(packets);
            self.noise_lost += packets;
            self.noise_sent += packets;
            self.noise_bursts += 1.0;
        }
        if self.sees_queue() {
            self.lost_queued += packets;
        }
    }

    /// The queue from which on losses are its making, s: half of the longest, within 2 and 4 ms, and
    /// more than jitter.
    fn queue_of_rivals(&self) -> f64 {
        let half = self.longest_queue() / 2.0;
        half.clamp(SHOWN_QUEUE_SECS, 2.0 * SHOWN_QUEUE_SECS)
            .at_least(JITTERS * self.near.apart)
    }

    /// Whether what is lost now is lost without a queue, on a path that shows one at other times.
    fn has_no_queue(&self) -> bool {
        if self.min_rtt < SHORT_SECS {
            return false;
        }
        let longest = self.longest_queue();
        let most = LEAST_QUEUE_SECS.at_least((longest / 4.0).at_most(NO_QUEUE_SECS));
        longest >= SHOWN_QUEUE_SECS && self.near.get() < most
    }

    /// So many packets more are known of.
    fn forget(&mut self, packets: f64) {
        let keep = (1.0 - packets / MEMORY_PACKETS).at_least(0.0);
        self.noise_lost *= keep;
        self.noise_sent *= keep;
        self.noise_bursts *= keep;
    }

    /// Whether there is one now.
    pub fn sees_queue(&self) -> bool {
        self.near.get() >= self.queue_of_rivals()
    }

    /// The least queue that the last ACKs show, s.
    pub fn queue_now(&self) -> f64 {
        self.near.get()
    }

    /// Another path of the connection acts: a queue may be its.
    pub fn spoil(&mut self) {
        self.standing = 0.0;
    }

    /// Whether the round trip that this ACK ends was all in Cruise, and never without a queue.
    pub fn cruised_with_queue(&self) -> bool {
        let least = self.standing;
        self.cruised && least.is_finite() && least >= self.queue_of_rivals()
    }

    /// Whether more was lost with a queue, of so many packets, than the path loses anyway.
    pub fn gives_way(&self, rules: &Rules, packets: f64) -> bool {
        let p0 = self.p0(rules.noise);
        self.lost_queued > p0 * packets + self.by_chance(p0, packets)
    }

    fn longest_queue(&self) -> f64 {
        self.longest[0].at_least(self.longest[1])
    }

    /// The longest queue in the round trip that goes on, or just ended; s.
    pub fn queue_secs(&self) -> f64 {
        self.last.queue
    }

    /// Whether the path shows a queue that a sender makes, not a clock.
    pub fn shows_queue(&self) -> bool {
        self.last.queue > 0.004_f64.at_least(self.min_rtt / 8.0)
    }

    /// The share that the path loses anyway.
    pub fn p0(&self, noise: f64) -> f64 {
        ((PRIOR_LOST + self.noise_lost) / (PRIOR_SENT + self.noise_sent)).at_most(noise)
    }

    /// The most of `packets` that may be lost without being too many.
    pub fn bound(&self, rules: &Rules, packets: f64) -> f64 {
        let p0 = match rules.judged {
            true => self.p0(rules.noise),
            false => 0.0,
        };
        (rules.theta + p0) * packets + self.by_chance(p0, packets)
    }

    /// By how many more of `packets` than `p0` of them may be lost by chance: three standard deviations.
    fn by_chance(&self, p0: f64, packets: f64) -> f64 {
        let at_a_time = (PRIOR_LOST + self.noise_lost) / (PRIOR_LOST + self.noise_bursts);
        let variance = (2.0 * at_a_time.at_least(1.0) - 1.0) * p0 * (1.0 - p0) * packets;
        3.0 * variance.sqrt()
    }

    /// IsInflightTooHigh, in packets.
    pub fn too_many(&self, rules: &Rules, lost: f64, packets: f64) -> bool {
        // Most ACKs are of nothing lost, and the bound costs a root.
        lost > 0.0 && lost > self.bound(rules, packets)
    }

    /// CheckStartupHighLoss, at the end of a round trip; `flat` are those that brought no growth.
    pub fn ends_startup(&self, rules: &Rules, flat: u32) -> bool {
        let Round {
            lost,
            acked,
            ranges,
            ..
        } = self.last;
        let sent = lost + acked;
        // A round trip in recovery is over.
        if !self.lossy || !self.too_many(rules, lost, sent) {
            return false;
        }
        match rules.judged {
            false => ranges >= STARTUP_RANGES_COUNTED,
            true => {
                ranges >= STARTUP_RANGES_JUDGED
                    && flat > 0
                    && (self.shows_queue() || lost > STARTUP_SHARE * sent)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::super::testing::rules;
    use super::*;

    #[test]
    fn the_least_queue_of_two_parts() {
        let mut near = Near::default();
        assert_eq!((near.get(), near.apart), (0.0, 0.0));
        // ms, queue, and the least of late; parts of 100 ms.
        // A sixteenth of what neighbouring parts differ by is added to fifteen of what they did.
        for (ms, queue, least, apart) in [
            (0, 0.010, 0.010, 0.0),
            (0, 0.009, 0.009, 0.0),
            (50, 0.008, 0.008, 0.0),
            (99, 0.009, 0.008, 0.0),
            (100, 0.024, 0.008, 0.0),
            (150, 0.030, 0.008, 0.0),
            // 24 ms after 8.
            (299, 0.050, 0.024, 0.001),
            // 50 ms after 24: 15/16 of 1 ms, and 26/16.
            (399, 0.060, 0.050, 0.0025625),
            // Silent for two parts: nothing of before counts. 60 ms after 50: 15/16 of 2.5625 ms, and 10/16.
            (600, 0.070, 0.070, 0.00302734375),
            (650, 0.065, 0.065, 0.00302734375),
            // No part came before the last one: nothing to compare it with.
            (700, 0.010, 0.010, 0.00302734375),
        ] {
            near.add(ms * 1_000_000, queue, 0.1);
            assert_eq!(near.get(), least, "{ms}");
            close(near.apart, apart);
        }
    }

    fn seen(now: Instant, rtt: f64, acked: f64) -> Seen {
        Seen {
            acked: acked * 1000.0,
            rtt: Some(rtt),
            ..testing::seen(now)
        }
    }

    #[track_caller]
    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn a_round_trip_is_counted() {
        let start = Instant::now();
        let mut judge = Judge::default();
        judge.on_ack(&seen(start, 0.100, 2.0), 0.1, true);
        judge.on_loss(3.0);
        judge.on_loss(1.0);
        judge.on_ack(&seen(start, 0.112, 5.0), 0.1, true);
        judge.on_round(false);
        let last = &judge.last;
        assert_eq!((last.lost, last.acked, last.ranges), (4.0, 7.0, 2));
        close(judge.queue_secs(), 0.012);
        assert!(!judge.lossy);
        judge.on_round(true);
        assert!(judge.lossy);
        judge.on_ack(&seen(start, 0.103, 1.0), 0.1, true);
        let last = &judge.last;
        assert_eq!((last.lost, last.acked, last.ranges), (0.0, 1.0, 0));
        judge.on_round(true);
        assert!(!judge.lossy);
        judge.on_ack(&seen(start, 0.103, 1.0), 0.1, true);
        close(judge.queue_secs(), 0.003);
        // The longest queue is of this half of the memory and of the last: 5 s each.
        close(judge.longest_queue(), 0.012);
        for (ms, longest) in [
            (5_000, 0.012),
            (5_001, 0.012),
            (10_001, 0.012),
            (10_002, 0.003),
        ] {
            let now = start + Duration::from_millis(ms);
            judge.on_ack(&seen(now, 0.103, 1.0), 0.1, true);
            close(judge.longest_queue(), longest);
        }
    }

    #[test]
    fn what_the_path_loses_anyway_by_hand() {
        // The longest queue, that of late, and whether the path cruises; whether p0 is learned. A queue is one
        // from a quarter of the longest on, within 1 and 2 ms.
        for (longest, queue, cruises, learns) in [
            (0.008, 0.0019, true, true),
            (0.008, 0.0021, true, false),
            (0.008, 0.0019, false, false),
            (0.080, 0.0019, true, true),
            (0.080, 0.0021, true, false),
            (0.006, 0.0014, true, true),
            (0.006, 0.0016, true, false),
            (0.002, 0.0009, true, true),
            (0.002, 0.0011, true, false),
            (0.0019, 0.0, true, false),
        ] {
            let mut judge = Judge {
                longest: [0.0, longest],
                near: settled(queue),
                ..Judge::default()
            };
            let now = Instant::now();
            judge.on_ack(&seen(now, 0.1 + queue, 98.0), 0.1, cruises);
            judge.on_loss(2.0);
            // Of 2 packets more a 250th is forgotten: (0.2 + 2)/(200 + 97.608 + 2).
            let expected = if learns { 2.2 / 299.608 } else { 0.001 };
            close(judge.p0(0.05), expected);
            // Neither an ACK in a probe nor what was lost after it counts.
            judge.on_ack(&seen(now, 0.1 + queue, 50.0), 0.1, false);
            judge.on_loss(5.0);
            close(judge.p0(0.05), expected);
            if learns {
                // Of 50 packets more a tenth is forgotten: (0.2 + 1.8)/(200 + 89.6472 + 50).
                judge.on_ack(&seen(now, 0.1 + queue, 50.0), 0.1, true);
                close(judge.p0(0.05), 2.0 / 339.6472);
            }
        }
    }

    #[test]
    fn nothing_is_lost_by_chance_where_no_link_is() {
        for (min_rtt, learns) in [(0.0006, true), (0.0004, false)] {
            let mut judge = Judge {
                longest: [0.0, 0.008],
                near: settled(0.0),
                ..Judge::default()
            };
            judge.on_ack(&seen(Instant::now(), min_rtt, 98.0), min_rtt, true);
            assert_eq!(judge.learns, learns);
        }
    }

    /// A queue that has been there for long.
    fn settled(queue: f64) -> Near {
        Near {
            since: Some(testing::seen(Instant::now()).clock_nanos),
            least: [queue, queue],
            apart: 0.0,
        }
    }

    #[test]
    fn bursts_lose_more_by_chance() {
        // 21 of 420 packets are 0.05; with 4.2 at a time, which is 21 in 5 bursts, 7.4 times the variance.
        let judge = |bursts| Judge {
            noise_lost: 20.8,
            noise_sent: 220.0,
            noise_bursts: bursts,
            ..Judge::default()
        };
        let deviation = (0.05_f64 * 0.95 * 100.0).sqrt();
        for (bursts, factor) in [(20.8, 1.0_f64), (4.8, 7.4), (30.0, 1.0)] {
            close(judge(bursts).p0(0.2), 0.05);
            let more = 3.0 * deviation * factor.sqrt();
            close(judge(bursts).by_chance(0.05, 100.0), more);
            close(judge(bursts).bound(&rules("noise=0.2"), 100.0), 7.0 + more);
        }
        // Nothing is known of a new path: one at a time, whatever p0 is.
        close(Judge::default().by_chance(0.05, 100.0), 3.0 * deviation);
    }

    #[test]
    fn whose_queue_it_is_and_who_gives_way() {
        let mut judge = Judge::default();
        // The longest, what neighbours differ by, and what is a rival's.
        for (longest, apart, least) in [
            (0.002, 0.0, 0.002),
            (0.006, 0.0, 0.003),
            (0.006, 0.0003, 0.003),
            (0.006, 0.0004, 0.0032),
            (0.020, 0.0, 0.004),
            (0.020, 0.003, 0.024),
        ] {
            judge.longest = [longest, 0.0];
            judge.near.apart = apart;
            close(judge.queue_of_rivals(), least);
        }
        let rules = rules("noise=0.2");
        // p0 = 0.001 and 75 packets: 0.075 + 3 sqrt(0.001 0.999 75) = 0.8962.
        for (lost_queued, gives_way) in [(0.896, false), (0.897, true)] {
            judge.lost_queued = lost_queued;
            assert_eq!(judge.gives_way(&rules, 75.0), gives_way);
        }
        // p0 = 20.2/400 and 100 packets, one lost at a time: 5.05 + 3 sqrt(0.0505 0.9495 100) = 11.619.
        (judge.noise_lost, judge.noise_sent) = (20.0, 200.0);
        judge.noise_bursts = 20.0;
        for (lost_queued, gives_way) in [(11.61, false), (11.63, true)] {
            judge.lost_queued = lost_queued;
            assert_eq!(judge.gives_way(&rules, 100.0), gives_way);
        }
    }

    #[test]
    fn jitter_is_nobodys_queue() {
        // Queues of 6 ms and more, in parts of 12.5 ms, that differ by so much more.
        for (other, is_rival) in [
            (0.006, true),
            (0.0066, true),
            (0.007, false),
            (0.010, false),
        ] {
            let mut judge = Judge::default();
            let mut now = Instant::now();
            for part in 0..100 {
                now += Duration::from_micros(12_500);
                let queue = [0.006, other][part % 2];
                judge.on_ack(&seen(now, 0.1 + queue, 1.0), 0.1, true);
                judge.on_round(part == 80);
            }
            assert_eq!(judge.sees_queue(), is_rival, "{other}");
            assert_eq!(judge.cruised_with_queue(), is_rival, "{other}");
        }
    }

    #[test]
    fn losses_that_end_startup_by_hand() {
        let ends = |list: &str, [lost, acked, queue]: [f64; 3], ranges: u32, lossy, flat| {
            let judge = Judge {
                last: Round {
                    lost,
                    acked,
                    ranges,
                    queue,
                },
                min_rtt: 0.08,
                lossy,
                ..Judge::default()
            };
            judge.ends_startup(&rules(list), flat)
        };
        let counted = "losses=counted";
        assert!(ends(counted, [6.0, 94.0, 0.0], 6, true, 0));
        assert!(!ends(counted, [6.0, 94.0, 0.0], 5, true, 0));
        assert!(!ends(counted, [6.0, 94.0, 0.0], 6, false, 0));
        assert!(!ends(counted, [2.0, 98.0, 0.0], 6, true, 0));
        // A queue of more than an eighth of 80 ms, or a tenth of what was sent; eight ranges, no growth.
        let queued = [8.0, 92.0, 0.0101];
        assert!(ends("", queued, 8, true, 1));
        assert!(!ends("", queued, 7, true, 1));
        assert!(!ends("", queued, 8, true, 0));
        assert!(!ends("", queued, 8, false, 1));
        assert!(!ends("", [8.0, 92.0, 0.01], 8, true, 1));
        assert!(!ends("", [3.0, 97.0, 0.0101], 8, true, 1));
        assert!(ends("", [11.0, 89.0, 0.0], 8, true, 1));
        assert!(!ends("", [10.0, 90.0, 0.0], 8, true, 1));
        // 4 ms at least are no queue.
        let judge = |queue| Judge {
            last: Round {
                queue,
                ..Round::default()
            },
            min_rtt: 0.01,
            ..Judge::default()
        };
        assert!(judge(0.0041).shows_queue() && !judge(0.004).shows_queue());
    }
}
