//! How a path begins: faster than by doubling where its first packets say that there is room.
//!
//! Slow start doubles in a round trip (RFC 9002, section 7.3.1), so a path of 600 ms and 10 Mbit/s takes
//! 3.4 s from 10 packets to its BDP. The first packets tell more than that they arrived. Packets that
//! leave together arrive as far apart as the bottleneck sends them (Keshav 1991, Hoe 1996), and what
//! they do to the next round trip tells whether the bottleneck was busy. There are four ways:
//!
//! | `start` | until slow start ends                                                       |
//! |---------|------------------------------------------------------------------------------|
//! | `slow`  | a round trip doubles the window: RFC 9002 and RFC 9406, and every paper      |
//! | `suss`  | a round trip that shows room multiplies it by 4 or 8, up to r RTT            |
//! | `train` | once the first flight is acked the window jumps to r RTT / 2 (RFC 9959's way) |
//! | `rho`   | 2^rho in a round trip, rho = RTT / 25 ms within 1 and 3 (Hybla's)            |
//!
//! | symbol | name here    | unit    | what                                                       |
//! |--------|--------------|---------|------------------------------------------------------------|
//! | r      | `rate`       | bytes/s | the most that a train of eight packets was delivered at     |
//! | m      | `Rtt::min`   | s       | the path's least RTT                                        |
//! | F      | `flight_bytes` | bytes | acked in the round trip before this one                     |
//!
//! **r.** A train is eight packets or more that were sent within m/4 and acked by three ACKs or more after
//! the first one. r = bytes after the first ACK / max(time between first and last ACK, time between
//! sending them), as in delivery rate estimation. The first one has to arrive at half the rate at most
//! that it was sent at: else r would be the sender's. A receiver that acks all at once gives no r, nor
//! does a sender that has its data bit by bit, and then a path begins as with `slow`. A burst tells what the bottleneck can send, not what others
//! leave of it, and ACKs that arrive together make r too large. So r allows nothing by itself.
//!
//! **`suss`** is after SUSS (Arghavani et al., SIGCOMM 2024): a round trip may grow by more if slow start
//! would not end in the next one anyway. There that is told from the length of a train of ACKs and
//! from RTTs within 1/8 of the least; here packets are paced, so a train's length says nothing, and
//! the condition is, with eight RTT samples in the round trip:
//! - the window was at most r m / 2 when it began: doubled, it would still not fill the path;
//! - its least RTT is no more than m + F/2r. If others fill the bottleneck, nothing of F bytes drains:
//!   they lengthen the queue by F/r, and this round trip with it. Where it drained there was room. The
//!   bound is 1 ms at least, what timers do anyway, and less than what HyStart++ takes for a queue.
//!
//! The first round trip has nothing before it that could have drained; there the factor is 4, as in
//! the paper, and later 8. What was acked before the condition held is made up for at once, and paced
//! as slow start is, but no faster than r. No step goes beyond r m.
//!
//! **The end**, of all but `slow`. From r m on the window grows by half, not the whole, of what is acked,
//! and if then eight RTTs running show a queue slow start ends at once: two signs that agree need no
//! five rounds of conservative slow start (RFC 9406) to be sure. HyStart++ is there as before, and so
//! are losses. After doubling, half of the window is what fitted a round trip ago (RFC 5681, section
//! 3.1); after growth by half that is two thirds, so a loss that ends such a round leaves as much, which
//! is less than CUBIC's 0.7.

use std::time::Duration;
use std::time::Instant;

use super::hystart::rtt_thresh;
use super::hystart::N_RTT_SAMPLE;
use super::units::secs;
use super::Ack;
use super::Param;
use crate::registry::Rtt;

/// The parameter of every coupled controller that goes by losses
/// ([`Options::start`](super::Options::start)).
pub const PARAM: Param = Param::choice(
    "start",
    &["suss", "slow", "train", "rho"],
    "how a path begins: by rounds that quadruple while there is room, by doubling, by a jump, by its RTT",
);

/// The slow-start threshold that a path begins with, of controllers that go by losses
/// ([`Options::ssthresh_packets`](super::Options::ssthresh_packets)).
pub const SSTHRESH: Param = Param::packets(
    "ssthresh",
    [0.0, 0.0, 1e6],
    "slow-start threshold that a path begins with; 0 is none, as RFC 9002 has it",
);

/// The least window of a path, of coupled controllers that go by losses
/// ([`Options::min_window_packets`](super::Options::min_window_packets)).
///
/// A path that others outweigh by far grows by nothing that counts, so that one loss leaves it at
/// its least for good. Two packets carried 72 % of a link whose BDP is less than two of them
/// (docs/beyond.md, the client that returns): acknowledgments are not back at once. BBR keeps four.
pub const MIN_WINDOW: Param = Param::packets(
    "min-window",
    [2.0, 3.0, 16.0],
    "the least window of a path; 2 is that of RFC 9002",
);

/// How paths begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// By doubling in each round trip.
    #[default]
    Slow,
    /// By more than that in a round trip that shows room.
    Suss,
    /// By a jump to half of what the first flight's train measured.
    Train,
    /// By more than that on paths of a long RTT.
    Rho,
}

impl Start {
    /// The way that `word` of [`PARAM`] names.
    pub(super) fn named(word: &str) -> Start {
        match word {
            "suss" => Start::Suss,
            "train" => Start::Train,
            "rho" => Start::Rho,
            _ => Start::Slow,
        }
    }
}

/// Packets after the first ACK that make a train, and ACKs.
const TRAIN_PACKETS: u64 = N_RTT_SAMPLE as u64;
const TRAIN_ACKS: u32 = 3;

/// The first train that counts was acked in so many times the time that it took to send it.
const LEAST_SPREAD: u32 = 2;

/// A train was sent within this part of the least RTT.
const TRAIN_PART: u32 = 4;

/// What a round trip that shows room multiplies the window by: the first one, and later ones.
const FIRST_FACTOR: f64 = 4.0;
const FACTOR: f64 = 8.0;

/// Part of r m up to which a round trip may begin and grow by that.
const ROOM: f64 = 0.5;

/// Least bound of the RTT by which a flight has drained.
const LEAST_DRAIN: Duration = Duration::from_millis(1);

/// Part of the acked bytes by which the window grows from r m on.
const GROWTH_BEYOND: f64 = 0.5;

/// Part of r m that `train` jumps to, and the most of it: so many initial windows times rho 2^rho.
const JUMP: f64 = 0.5;
const JUMP_INITIAL_WINDOWS: f64 = 8.0;
const JUMP_MOST_RHO: f64 = 4.0;

/// The RTT of Hybla's reference path in seconds, and the most that `rho` makes of it.
const RTT0: f64 = 0.025;
const MOST_RHO: f64 = 3.0;

/// RTT samples running that show a queue, as HyStart++ takes it for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongRun(u32);

impl LongRun {
    /// Takes the RTT sample of an ACK.
    pub fn add(&mut self, sample: Duration, rtt: &Rtt) {
        match sample >= rtt.min.saturating_add(rtt_thresh(rtt.min)) {
            true => self.0 = self.0.saturating_add(1),
            false => self.0 = 0,
        }
    }

    /// Enough of them to be sure.
    pub fn shows_queue(&self) -> bool {
        self.0 >= N_RTT_SAMPLE
    }
}

/// ACKs of packets that were sent together.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// When the first ACK arrived, and when its newest packet was sent.
    acked: Instant,
    sent: Instant,
    /// What later ones acked.
    bytes: u64,
    packets: u64,
    acks: u32,
}

/// What slow start does with the bytes of an ACK.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// Grow by so many times the acked bytes, and by `extra_bytes`, but by more than the acked bytes
    /// only up to `up_to_bytes`.
    By {
        /// Times the acked bytes.
        factor: f64,
        /// What was acked earlier in the round trip is made up for.
        extra_bytes: f64,
        /// The window.
        up_to_bytes: f64,
    },
    /// Slow start ends.
    Leave,
}

impl Growth {
    /// As RFC 9002 has it.
    const DOUBLE: Growth = Growth::by(1.0);

    /// By so many times the acked bytes.
    pub const fn by(factor: f64) -> Growth {
        Growth::By {
            factor,
            extra_bytes: 0.0,
            up_to_bytes: f64::INFINITY,
        }
    }
}

/// The RTT samples of the round trip that goes on.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// How many.
    pub samples: u32,
    /// The least of them.
    pub least: Duration,
    /// The last ones show a queue.
    pub queue: bool,
}

/// What is known of a path that begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Begin {
    train: Option<Train>,
    rate: Option<f64>,
    jumped: bool,
    /// Window when the round trip began; 0 in the first one.
    round_cwnd_bytes: f64,
    /// Acked in this round trip, by the newest ACK, and in the round trip before.
    acked_bytes: f64,
    newest_bytes: f64,
    flight_bytes: Option<f64>,
    /// The round trip shows room.
    fast: Option<f64>,
}

impl Begin {
    /// A round trip ended while the window was `cwnd_bytes`.
    pub fn on_round(&mut self, cwnd_bytes: f64) {
        self.round_cwnd_bytes = cwnd_bytes;
        self.flight_bytes = Some(self.acked_bytes);
        self.acked_bytes = 0.0;
        self.fast = None;
    }

    /// Acknowledgments take another way back: the round trip that goes on, and its train, do not
    /// compare with what comes. The rate stays.
    pub fn on_way_back(&mut self) {
        *self = Begin {
            rate: self.rate,
            jumped: self.jumped,
            round_cwnd_bytes: self.round_cwnd_bytes,
            ..Begin::default()
        };
    }

    /// Packets were acked.
    pub fn on_ack(&mut self, now: Instant, ack: &Ack, rtt: Option<Rtt>) {
        self.newest_bytes = ack.acked_bytes as f64;
        self.acked_bytes += self.newest_bytes;
        let least = rtt.map_or(Duration::ZERO, |rtt| rtt.min);
        let first = Train {
            acked: now,
            sent: ack.newest_sent,
            bytes: 0,
            packets: 0,
            acks: 0,
        };
        let Some(train) = &mut self.train else {
            self.train = Some(first);
            return;
        };
        let sent_span = ack.newest_sent.saturating_duration_since(train.sent);
        if sent_span > least / TRAIN_PART {
            *train = first;
            return;
        }
        train.bytes = train.bytes.saturating_add(ack.acked_bytes);
        train.packets = train.packets.saturating_add(ack.acked_packets);
        train.acks += 1;
        if train.packets >= TRAIN_PACKETS && train.acks >= TRAIN_ACKS {
            let acked_span = now.saturating_duration_since(train.acked);
            let span = acked_span.max(sent_span);
            // One that arrives as it was sent says that the path carries as much, not how much.
            let spread = acked_span >= LEAST_SPREAD * sent_span;
            // ACKs that were read together tell nothing.
            if !span.is_zero() && (spread || self.rate.is_some()) {
                let rate = train.bytes as f64 / secs(span);
                self.rate = Some(self.rate.map_or(rate, |most| most.max(rate)));
            }
            *train = first;
        }
    }

    /// r m in bytes.
    fn pipe_bytes(&self, rtt: &Rtt) -> Option<f64> {
        Some(self.rate? * secs(rtt.min))
    }

    /// The window to jump to from `cwnd_bytes`, once.
    pub fn jump(&mut self, cwnd_bytes: f64, initial_bytes: f64, rtt: &Rtt) -> Option<f64> {
        let pipe_bytes = self.pipe_bytes(rtt).filter(|_| !self.jumped)?;
        self.jumped = true;
        let rho = (secs(rtt.min) / RTT0).clamp(1.0, JUMP_MOST_RHO);
        let most_windows = (rho * rho.exp2()).max(JUMP_INITIAL_WINDOWS);
        let to_bytes = (JUMP * pipe_bytes).min(most_windows * initial_bytes);
        (to_bytes > cwnd_bytes).then_some(to_bytes)
    }

    /// The pacing rate in bytes per second: `fast`, but no faster than r, except as the window needs
    /// to leave within a round trip.
    pub fn paced(&self, fast: u64, needed: u64) -> u64 {
        let most = self.rate.map_or(u64::MAX, |rate| needed.max(rate as u64));
        fast.min(most)
    }

    /// What a loss leaves of a window that grew to `cwnd_bytes` beyond r m: what fitted before.
    pub fn fitted(&self, start: Start, cwnd_bytes: f64, rtt: Option<Rtt>) -> Option<f64> {
        let pipe_bytes = self.pipe_bytes(&rtt.filter(|_| start != Start::Slow)?)?;
        (cwnd_bytes >= pipe_bytes).then_some(cwnd_bytes / (1.0 + GROWTH_BEYOND))
    }

    /// What slow start does with an ACK while the window is `cwnd_bytes`.
    pub fn growth(
        &mut self,
        start: Start,
        cwnd_bytes: f64,
        seen: &Seen,
        rtt: Option<Rtt>,
    ) -> Growth {
        let Some(rtt) = rtt.filter(|_| start != Start::Slow) else {
            return Growth::DOUBLE;
        };
        let Some(pipe_bytes) = self.pipe_bytes(&rtt) else {
            return match start {
                Start::Rho => Growth::by(rho_growth(&rtt)),
                _ => Growth::DOUBLE,
            };
        };
        if cwnd_bytes >= pipe_bytes {
            return match seen.queue {
                true => Growth::Leave,
                false => Growth::by(GROWTH_BEYOND),
            };
        }
        match start {
            Start::Rho => Growth::by(rho_growth(&rtt)),
            Start::Suss => self.suss_growth(pipe_bytes, seen, &rtt),
            _ => Growth::DOUBLE,
        }
    }

    fn suss_growth(&mut self, pipe_bytes: f64, seen: &Seen, rtt: &Rtt) -> Growth {
        let mut extra_bytes = 0.0;
        if self.fast.is_none()
            && seen.samples >= N_RTT_SAMPLE
            && self.round_cwnd_bytes <= ROOM * pipe_bytes
            && seen.least <= rtt.min.saturating_add(self.drain_bound(rtt))
        {
            let factor = match self.flight_bytes {
                None => FIRST_FACTOR,
                Some(_) => FACTOR,
            };
            self.fast = Some(factor);
            extra_bytes = (factor - 2.0) * (self.acked_bytes - self.newest_bytes);
        }
        match self.fast {
            Some(factor) => Growth::By {
                factor: factor - 1.0,
                extra_bytes,
                up_to_bytes: pipe_bytes,
            },
            None => Growth::DOUBLE,
        }
    }

    /// How much longer than m a round trip is at most if the flight before it has drained.
    fn drain_bound(&self, rtt: &Rtt) -> Duration {
        let queue = rtt_thresh(rtt.min).saturating_sub(Duration::from_nanos(1));
        match (self.flight_bytes, self.rate) {
            (Some(flight_bytes), Some(rate)) => {
                let half = Duration::try_from_secs_f64(flight_bytes / (2.0 * rate));
                half.unwrap_or(queue).max(LEAST_DRAIN).min(queue)
            }
            _ => queue,
        }
    }
}

/// Growth for each acked byte at which a round trip multiplies the window by 2^rho.
fn rho_growth(rtt: &Rtt) -> f64 {
    (secs(rtt.min) / RTT0).clamp(1.0, MOST_RHO).exp2() - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// 10 packets of 1000 bytes, 8 Mbit/s or a packet in 1 ms, 100 ms: r m = 100,000 bytes.
    fn rtt() -> Rtt {
        Rtt::first(100 * MS)
    }

    fn ack(packets: u64, sent: Instant) -> Ack {
        Ack {
            acked_bytes: 1000 * packets,
            acked_packets: packets,
            newest_sent: sent,
            in_flight_before_bytes: 10_000,
            rtt_sample: Some(100 * MS),
            app_limited: false,
        }
    }

    /// ACKs of `packets`, one a millisecond from `from` on, of packets sent at `sent`.
    fn acks(begin: &mut Begin, packets: u64, from: Instant, sent: Instant) {
        for packet in 0..packets {
            begin.on_ack(from + packet as u32 * MS, &ack(1, sent), Some(rtt()));
        }
    }

    /// After its first flight of 10,000 bytes.
    fn begun() -> Begin {
        let t = Instant::now();
        let mut begin = Begin::default();
        acks(&mut begin, 10, t + 100 * MS, t);
        begin
    }

    fn seen(samples: u32, least_micros: u64) -> Seen {
        Seen {
            samples,
            least: Duration::from_micros(least_micros),
            queue: false,
        }
    }

    fn growth(begin: &mut Begin, start: Start, cwnd_bytes: f64, seen: Seen) -> Growth {
        begin.growth(start, cwnd_bytes, &seen, Some(rtt()))
    }

    #[test]
    fn a_train_measures_the_bottleneck() {
        // Eight packets after the first ACK in 8 ms: 1000 bytes in 1 ms.
        let begin = begun();
        assert_eq!(begin.rate, Some(1e6));
        assert_eq!(begin.pipe_bytes(&rtt()), Some(100_000.0));
    }

    #[test]
    fn what_is_no_train_measures_nothing() {
        let t = Instant::now();
        // One ACK for all, or two: nothing lies between them that could be trusted.
        let mut begin = Begin::default();
        begin.on_ack(t + 100 * MS, &ack(10, t), Some(rtt()));
        assert_eq!(begin.rate, None);
        begin.on_ack(t + 101 * MS, &ack(5, t), Some(rtt()));
        begin.on_ack(t + 102 * MS, &ack(5, t), Some(rtt()));
        assert_eq!(begin.rate, None);
        // Seven packets after the first ACK.
        let mut begin = Begin::default();
        acks(&mut begin, 8, t + 100 * MS, t);
        assert_eq!(begin.rate, None);
        // Packets sent more than m/4 = 25 ms after the first of them.
        let mut begin = Begin::default();
        acks(&mut begin, 5, t + 100 * MS, t);
        acks(&mut begin, 5, t + 126 * MS, t + 26 * MS);
        assert_eq!(begin.rate, None);
        // All ACKs in one moment.
        let mut begin = Begin::default();
        for _ in 0..10 {
            begin.on_ack(t + 100 * MS, &ack(1, t), Some(rtt()));
        }
        assert_eq!(begin.rate, None);
    }

    #[test]
    fn a_train_that_was_sent_slowly_tells_that_there_is_more() {
        let t = Instant::now() + Duration::from_secs(1);
        // Packets sent 500 us apart and acked 1 ms apart are the first that count,
        for (sent_micros, acked_micros, rate) in [
            (500, 1000, Some(1e6)),
            (501, 1000, None),
            (1000, 1000, None),
            (2000, 1000, None),
        ] {
            let mut begin = Begin::default();
            for packet in 0..9 {
                let sent = t + packet * Duration::from_micros(sent_micros);
                let acked = t + 100 * MS + packet * Duration::from_micros(acked_micros);
                begin.on_ack(acked, &ack(1, sent), Some(rtt()));
            }
            assert_eq!(begin.rate, rate, "{sent_micros}");
        }
        // later ones too if they are faster: sent in 4 ms and acked in 4, 2 MB/s; or in 2, held up.
        for acked_micros in [500, 250] {
            let mut begin = begun();
            begin.train = None;
            for packet in 0..9 {
                let sent = t + packet * Duration::from_micros(500);
                let acked = t + 100 * MS + packet * Duration::from_micros(acked_micros);
                begin.on_ack(acked, &ack(1, sent), Some(rtt()));
            }
            assert_eq!(begin.rate, Some(2e6));
        }
    }

    #[test]
    fn the_fastest_train_counts() {
        let mut begin = begun();
        let t = Instant::now() + Duration::from_secs(1);
        for (spacing, rate) in [(2 * MS, 1e6), (MS / 2, 2e6)] {
            for packet in 0..9 {
                begin.on_ack(t + packet * spacing, &ack(1, t), Some(rtt()));
            }
            assert_eq!(begin.rate, Some(rate));
            // The next train begins anew.
            begin.train = None;
        }
    }

    #[test]
    fn the_first_round_quadruples_and_makes_up_for_what_was_acked() {
        let mut begin = begun();
        // Seven samples decide nothing.
        assert_eq!(
            growth(&mut begin, Start::Suss, 20_000.0, seen(7, 100_000)),
            Growth::DOUBLE
        );
        // 9,000 bytes were acked before: they should have added 27,000, not 9,000.
        let first = growth(&mut begin, Start::Suss, 20_000.0, seen(8, 100_000));
        let fast = |extra_bytes| Growth::By {
            factor: 3.0,
            extra_bytes,
            up_to_bytes: 100_000.0,
        };
        assert_eq!(first, fast(18_000.0));
        // Only once in a round trip.
        let more = growth(&mut begin, Start::Suss, 40_000.0, seen(9, 100_000));
        assert_eq!(more, fast(0.0));
    }

    #[test]
    fn later_rounds_need_a_queue_that_drained() {
        // F/2r = 10,000 bytes / 2 MB/s = 5 ms.
        for (least_micros, is_fast) in [(100_000, true), (105_000, true), (105_001, false)] {
            let mut begin = begun();
            begin.on_round(40_000.0);
            begin.acked_bytes = 8_000.0;
            let growth = growth(&mut begin, Start::Suss, 48_000.0, seen(8, least_micros));
            let fast = Growth::By {
                factor: 7.0,
                extra_bytes: 42_000.0,
                up_to_bytes: 100_000.0,
            };
            let expected = if is_fast { fast } else { Growth::DOUBLE };
            assert_eq!(growth, expected, "{least_micros}");
        }
    }

    #[test]
    fn the_bound_of_a_drained_queue() {
        let bound = |flight_bytes| {
            let mut begin = begun();
            begin.acked_bytes = flight_bytes;
            begin.on_round(40_000.0);
            begin.drain_bound(&rtt())
        };
        assert_eq!(bound(10_000.0), 5 * MS);
        // What a timer may do.
        assert_eq!(bound(1_000.0), MS);
        // Less than HyStart++'s 100/8 = 12.5 ms.
        assert_eq!(bound(80_000.0), Duration::from_nanos(12_499_999));
    }

    #[test]
    fn a_round_that_began_beyond_half_of_the_pipe_doubles() {
        for (cwnd_bytes, is_fast) in [(50_000.0, true), (50_001.0, false)] {
            let mut begin = begun();
            begin.on_round(cwnd_bytes);
            let growth = growth(&mut begin, Start::Suss, 60_000.0, seen(8, 100_000));
            assert_eq!(growth != Growth::DOUBLE, is_fast);
        }
    }

    #[test]
    fn beyond_the_pipe_growth_halves_and_a_queue_ends_it() {
        for start in [Start::Suss, Start::Train, Start::Rho] {
            let mut begin = begun();
            let seen = seen(8, 100_000);
            assert_eq!(
                growth(&mut begin, start, 100_000.0, seen),
                Growth::by(GROWTH_BEYOND)
            );
            let queue = Seen {
                queue: true,
                ..seen
            };
            assert_eq!(growth(&mut begin, start, 100_000.0, queue), Growth::Leave);
            // Below it a queue is HyStart++'s matter.
            assert_ne!(growth(&mut begin, start, 99_999.0, queue), Growth::Leave);
        }
        let mut begin = begun();
        let queue = Seen {
            queue: true,
            ..seen(8, 120_000)
        };
        assert_eq!(
            growth(&mut begin, Start::Slow, 200_000.0, queue),
            Growth::DOUBLE
        );
    }

    #[test]
    fn a_loss_beyond_the_pipe_leaves_two_thirds() {
        let fitted = |start, cwnd_bytes| begun().fitted(start, cwnd_bytes, Some(rtt()));
        assert_eq!(fitted(Start::Suss, 120_000.0), Some(80_000.0));
        assert_eq!(fitted(Start::Suss, 99_999.0), None);
        assert_eq!(fitted(Start::Slow, 120_000.0), None);
        assert_eq!(
            Begin::default().fitted(Start::Suss, 120_000.0, Some(rtt())),
            None
        );
    }

    #[test]
    fn packets_leave_no_faster_than_the_bottleneck_sends_them() {
        // r = 1 MB/s.
        assert_eq!(begun().paced(1_800_000, 900_000), 1_000_000);
        assert_eq!(begun().paced(800_000, 400_000), 800_000);
        assert_eq!(begun().paced(2_400_000, 1_200_000), 1_200_000);
        assert_eq!(Begin::default().paced(1_800_000, 900_000), 1_800_000);
    }

    #[test]
    fn nothing_measured_is_slow_start() {
        let mut begin = Begin::default();
        for start in [Start::Slow, Start::Suss, Start::Train] {
            assert_eq!(
                growth(&mut begin, start, 20_000.0, seen(8, 100_000)),
                Growth::DOUBLE
            );
        }
        let seen = seen(8, 100_000);
        assert_eq!(
            begun().growth(Start::Suss, 20_000.0, &seen, None),
            Growth::DOUBLE
        );
    }

    #[test]
    fn a_long_path_grows_as_a_short_one() {
        // 2^rho - 1 for each acked byte: rho 1 at 25 ms and less, 2 at 50 ms, 3 at 75 ms and more.
        for (rtt_ms, factor) in [(10, 1.0), (25, 1.0), (50, 3.0), (75, 7.0), (600, 7.0)] {
            let rtt = Rtt::first(rtt_ms * MS);
            assert!((rho_growth(&rtt) - factor).abs() < 1e-9, "{rtt_ms}");
        }
    }

    #[test]
    fn one_jump_to_half_of_the_pipe() {
        let mut begin = begun();
        assert_eq!(begin.jump(20_000.0, 10_000.0, &rtt()), Some(50_000.0));
        assert_eq!(begin.jump(20_000.0, 10_000.0, &rtt()), None);
        // Not below the window that is there.
        assert_eq!(begun().jump(50_000.0, 10_000.0, &rtt()), None);
        // At 25 ms eight initial windows at most, at 100 ms 4 x 2^4 = 64.
        let mut begin = begun();
        begin.rate = Some(1e9);
        let most = begin.jump(20_000.0, 10_000.0, &Rtt::first(25 * MS));
        assert_eq!(most, Some(80_000.0));
        begin.jumped = false;
        assert_eq!(begin.jump(20_000.0, 10_000.0, &rtt()), Some(640_000.0));
    }

    #[test]
    fn eight_long_samples_running_show_a_queue() {
        // 100/8 = 12.5 ms.
        let (long, short) = (
            Duration::from_micros(112_500),
            Duration::from_micros(112_499),
        );
        let mut run = LongRun::default();
        for _ in 0..7 {
            run.add(long, &rtt());
        }
        assert!(!run.shows_queue());
        run.add(short, &rtt());
        for _ in 0..7 {
            run.add(long, &rtt());
        }
        assert!(!run.shows_queue());
        run.add(long, &rtt());
        assert!(run.shows_queue());
    }

    #[test]
    fn names_of_the_ways_to_begin() {
        let ways = ["suss", "slow", "train", "rho"].map(Start::named);
        assert_eq!(ways, [Start::Suss, Start::Slow, Start::Train, Start::Rho]);
    }

    #[test]
    fn a_train_ends_a_quarter_of_the_rtt_after_it_began() {
        // m/4 = 25 ms. Five packets, and four sent so much later: eight after the first ACK, in 103 ms.
        let t = Instant::now();
        for (later_ms, rate) in [(25, Some(8_000.0 / 0.103)), (26, None)] {
            let mut begin = Begin::default();
            acks(&mut begin, 5, t + 100 * MS, t);
            acks(&mut begin, 4, t + 200 * MS, t + later_ms * MS);
            assert_eq!(begin.rate, rate, "{later_ms}");
        }
    }

    #[test]
    fn another_way_back_leaves_the_rate() {
        let mut begin = begun();
        begin.jumped = true;
        begin.on_round(40_000.0);
        acks(&mut begin, 3, Instant::now(), Instant::now());
        begin.fast = Some(FACTOR);
        begin.on_way_back();
        assert_eq!((begin.rate, begin.jumped), (Some(1e6), true));
        assert_eq!(begin.round_cwnd_bytes, 40_000.0);
        assert!(begin.train.is_none() && begin.fast.is_none());
        assert_eq!((begin.acked_bytes, begin.flight_bytes), (0.0, None));
    }

    #[test]
    fn a_path_grows_by_its_rtt_before_and_after_it_is_measured() {
        // 100 ms: rho = 3, 2^3 - 1.
        let seen = seen(8, 100_000);
        for mut begin in [Begin::default(), begun()] {
            assert_eq!(
                growth(&mut begin, Start::Rho, 20_000.0, seen),
                Growth::by(7.0)
            );
        }
        assert_eq!(
            growth(&mut begun(), Start::Train, 20_000.0, seen),
            Growth::DOUBLE
        );
    }
}
