//! How late frames left, in powers of two of a microsecond.

use serde::Serialize;

const BUCKETS: usize = 24;

/// Bucket 0 counts values below 1 us, bucket i values from 2^(i-1) us to below 2^i us; the last
/// bucket has no upper end.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lateness {
    pub count: u64,
    pub mean_us: f64,
    pub max_us: f64,
    /// Share of the frames that left more than 1 ms late. A run above 0.01 is not to be trusted.
    pub over_1ms: f64,
    pub buckets: [u64; BUCKETS],
    #[serde(skip)]
    total_ns: u128,
    #[serde(skip)]
    late_count: u64,
    #[serde(skip)]
    max_ns: u64,
}

impl Lateness {
    /// Counts one frame that left `late_ns` nanoseconds after its due time.
    pub fn record(&mut self, late_ns: u64) {
        self.count += 1;
        self.total_ns += u128::from(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
        self.late_count += u64::from(late_ns > 1_000_000);
        let microseconds = late_ns / 1000;
        let bucket = (u64::BITS - microseconds.leading_zeros()) as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += 1;
    }

    /// A copy with the derived fields filled in.
    pub fn summary(&self) -> Lateness {
        let count = self.count.max(1) as f64;
        Lateness {
            mean_us: self.total_ns as f64 / count / 1e3,
            max_us: self.max_ns as f64 / 1e3,
            over_1ms: self.late_count as f64 / count,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_and_summary() {
        let mut lateness = Lateness::default();
        for late_ns in [999, 1_000, 1_999, 2_000, 1_000_001, u64::MAX / 2] {
            lateness.record(late_ns);
        }
        assert_eq!(lateness.buckets[0], 1);
        assert_eq!(lateness.buckets[1], 2);
        assert_eq!(lateness.buckets[2], 1);
        assert_eq!(lateness.buckets[10], 1); // 1000 us: from 512 to below 1024
        assert_eq!(lateness.buckets[BUCKETS - 1], 1);
        let summary = lateness.summary();
        assert_eq!(summary.count, 6);
        assert_eq!(summary.over_1ms, 2.0 / 6.0);
    }
}
