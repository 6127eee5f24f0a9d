//! One random generator per purpose, all derived from one master seed.

use std::hash::Hasher;

use rand_xoshiro::rand_core::RngCore;
use rand_xoshiro::rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use siphasher::sip::SipHasher13;

/// Which of a link's two directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    AToB,
    BToA,
}

/// What a generator is for. Each purpose has its own, so switching one on shifts no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Is this frame lost?
    LossDraw,
    /// Does the channel change between its good and its bad state?
    LossState,
    /// How much is added to this frame's delay?
    Jitter,
    /// Is this frame held back?
    Reorder,
    /// When does this flow start?
    Start,
    /// Does this frame arrive twice?
    Duplicate,
    /// What is a drawn scenario like?
    Scenario,
    /// When does this link stop?
    Outage,
}

/// Where the seeds of one direction of one link in one run come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds {
    pub master: u64,
    /// Number of the run in a series.
    pub run: u64,
    /// Name of the link.
    pub link: String,
    pub way: Way,
}

impl Seeds {
    /// The generator for `purpose`: xoshiro256++ seeded by SipHash-1-3 of
    /// (run, link, way, purpose) keyed with the master seed.
    pub fn generator(&self, purpose: Purpose) -> Generator {
        let mut hasher = SipHasher13::new_with_keys(self.master, 0);
        hasher.write(&self.run.to_le_bytes());
        hasher.write(&(self.link.len() as u64).to_le_bytes());
        hasher.write(self.link.as_bytes());
        hasher.write(&[
            match self.way {
                Way::AToB => 0,
                Way::BToA => 1,
            },
            match purpose {
                Purpose::LossDraw => 0,
                Purpose::LossState => 1,
                Purpose::Jitter => 2,
                Purpose::Reorder => 3,
                Purpose::Start => 4,
                Purpose::Duplicate => 5,
                Purpose::Scenario => 6,
                Purpose::Outage => 7,
            },
        ]);
        Generator(Xoshiro256PlusPlus::seed_from_u64(hasher.finish()))
    }
}

/// A stream of numbers in [0, 1).
#[derive(Clone, Debug)]
pub struct Generator(Xoshiro256PlusPlus);

impl Generator {
    /// The next number: 53 random bits, all that an `f64` below 1 holds.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(master: u64, run: u64, link: &str, way: Way) -> Seeds {
        Seeds {
            master,
            run,
            link: link.into(),
            way,
        }
    }

    fn first(seeds: Seeds, purpose: Purpose) -> f64 {
        seeds.generator(purpose).unit()
    }

    #[test]
    fn every_part_of_the_name_gives_another_stream() {
        let base = first(seeds(1, 0, "wifi", Way::AToB), Purpose::LossDraw);
        assert_eq!(
            base,
            first(seeds(1, 0, "wifi", Way::AToB), Purpose::LossDraw)
        );
        for other in [
            first(seeds(2, 0, "wifi", Way::AToB), Purpose::LossDraw),
            first(seeds(1, 1, "wifi", Way::AToB), Purpose::LossDraw),
            first(seeds(1, 0, "lte", Way::AToB), Purpose::LossDraw),
            first(seeds(1, 0, "wifi", Way::BToA), Purpose::LossDraw),
            first(seeds(1, 0, "wifi", Way::AToB), Purpose::LossState),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn numbers_lie_in_the_unit_interval_with_mean_one_half() {
        let mut generator = seeds(7, 0, "l", Way::AToB).generator(Purpose::LossDraw);
        let n = 100_000;
        let sum: f64 = (0..n)
            .map(|_| generator.unit())
            .inspect(|u| assert!((0.0..1.0).contains(u)))
            .sum();
        // Standard error of the mean is sqrt(1/12/n) = 0.0009; four of them.
        assert!((sum / n as f64 - 0.5).abs() < 0.0037);
    }
}
