//! What a window says about two paths.
//!
//! Delays of both, without their mean and slope, over the bins k in which both have samples:
//!
//! - cov, their covariance, is S if both saw the same queue, and 0 if each saw its own. It is the
//!   greatest of those lags that their base delays allow.
//! - S = (g_a + g_b)/2 with g the covariance of a path's delays with themselves one bin later, which
//!   is the variance without what changes from packet to packet: jitter.
//!
//! In 1173 windows of 64 drawn topologies (`experiments/detect.py`, seed 1) cov/S was 0.95 or more in
//! 98 % of those with one queue, and 0.84 or less in 98 % of those of two links with any cross traffic.
//! So the odds turn at 0.85, and steeply: (cov/S - 0.85)/0.05. The likelihood ratio of two Gaussians
//! about S and 0 turns at half of S, where two links are too often. A window may be unlucky, so that
//! it counts for no more than `MOST`.

use super::track::Track;
use super::track::WINDOW;

/// Fewer bins with samples of both say nothing.
const LEAST_BINS: usize = 20;

/// cov/S that speaks for neither, and how far from it a window counts for 1.
const EVEN: f64 = 0.85;
const SLOPE: f64 = 0.05;

/// What one window counts for at most.
const MOST: f64 = 2.0;

/// Delays without mean and slope, in seconds.
struct Flat {
    delays: [[f64; WINDOW]; 2],
    /// The bin of each, from the window's first.
    at: [usize; WINDOW],
    len: usize,
}

impl Flat {
    fn new(a: &Track, b: &Track, end: i64, lag: i64) -> Flat {
        let mut flat = Flat {
            delays: [[0.0; WINDOW]; 2],
            at: [0; WINDOW],
            len: 0,
        };
        for bin in 0..WINDOW {
            let index = end - WINDOW as i64 + bin as i64;
            if let (Some(of_a), Some(of_b)) = (a.mean(index), b.mean(index + lag)) {
                flat.delays[0][flat.len] = of_a;
                flat.delays[1][flat.len] = of_b;
                flat.at[flat.len] = bin;
                flat.len += 1;
            }
        }
        if flat.len >= LEAST_BINS {
            flat.flatten();
        }
        flat
    }

    /// Takes the line of least squares away.
    fn flatten(&mut self) {
        let (at, n) = (&self.at[..self.len], self.len as f64);
        let mean_at = at.iter().sum::<usize>() as f64 / n;
        let spread: f64 = at.iter().map(|at| (*at as f64 - mean_at).powi(2)).sum();
        for delays in &mut self.delays {
            let delays = &mut delays[..self.len];
            let mean = delays.iter().sum::<f64>() / n;
            let with_time = |(delay, at): (&f64, &usize)| (delay - mean) * (*at as f64 - mean_at);
            let slope = delays.iter().zip(at).map(with_time).sum::<f64>() / spread;
            for (delay, at) in delays.iter_mut().zip(at) {
                *delay -= mean + slope * (*at as f64 - mean_at);
            }
        }
    }

    fn covariance(&self, i: usize, j: usize) -> f64 {
        let (a, b) = (&self.delays[i][..self.len], &self.delays[j][..self.len]);
        a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / self.len as f64
    }

    /// The covariance of a path's delays with those one bin later.
    fn next(&self, i: usize) -> f64 {
        let (mut sum, mut count) = (0.0, 0);
        for k in 1..self.len {
            if self.at[k] == self.at[k - 1] + 1 {
                sum += self.delays[i][k] * self.delays[i][k - 1];
                count += 1;
            }
        }
        match count {
            0 => 0.0,
            count => (sum / f64::from(count)).max(0.0),
        }
    }
}

/// The log likelihood ratio of one queue against two; 0 if the window does not say.
pub fn weigh(a: &Track, b: &Track, end: i64, power_secs: f64) -> f64 {
    if a.both_start(b, end) {
        return 0.0;
    }
    let flats = a.lags(b).map(|lag| Flat::new(a, b, end, lag));
    let known = flats.filter(|flat| flat.len >= LEAST_BINS);
    let best = known.max_by(|x, y| x.covariance(0, 1).total_cmp(&y.covariance(0, 1)));
    let Some(flat) = best else { return 0.0 };

    let expected = (flat.next(0) + flat.next(1)) / 2.0;
    if expected < power_secs * power_secs {
        return 0.0;
    }
    let llr = (flat.covariance(0, 1) / expected - EVEN) / SLOPE;
    llr.clamp(-MOST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(at: &[usize], delays: [&[f64]; 2]) -> Flat {
        let mut flat = Flat {
            delays: [[0.0; WINDOW]; 2],
            at: [0; WINDOW],
            len: at.len(),
        };
        flat.at[..at.len()].copy_from_slice(at);
        for (to, from) in flat.delays.iter_mut().zip(delays) {
            to[..at.len()].copy_from_slice(from);
        }
        flat
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} is not {b}");
    }

    #[test]
    fn mean_and_slope_are_taken_away() {
        // 3 + 2k, and 1 - k/2 with 1, -1, -1, 1 added, which has neither about k = 0, 1, 2, 3.
        let lines = [[3.0, 5.0, 7.0, 9.0], [2.0, -0.5, -1.0, 0.5]];
        let mut flat = flat(&[0, 1, 2, 3], [&lines[0], &lines[1]]);
        flat.flatten();
        for (k, residual) in [1.0, -1.0, -1.0, 1.0].into_iter().enumerate() {
            close(flat.delays[0][k], 0.0);
            close(flat.delays[1][k], residual);
        }
        // Bins that are missing count by their time.
        let mut flat = self::flat(&[2, 3, 7], [&[4.0, 6.0, 14.0], &[1.0, 1.0, 1.0]]);
        flat.flatten();
        for k in 0..3 {
            close(flat.delays[0][k], 0.0);
            close(flat.delays[1][k], 0.0);
        }
    }

    #[test]
    fn covariances_by_hand() {
        let flat = flat(
            &[0, 1, 2, 4, 5],
            [&[1.0, 2.0, 3.0, 4.0, -1.0], &[2.0, 0.0, 1.0, -1.0, 2.0]],
        );
        // (2 + 0 + 3 - 4 - 2)/5, and (1 + 4 + 9 + 16 + 1)/5.
        close(flat.covariance(0, 1), -0.2);
        close(flat.covariance(0, 0), 6.2);
        // Of those that follow each other: (2 + 6 - 4)/3, and (0 + 0 - 2)/3, which is less than nothing.
        close(flat.next(0), 4.0 / 3.0);
        close(flat.next(1), 0.0);
        close(self::flat(&[0, 2, 4], [&[1.0; 3], &[1.0; 3]]).next(0), 0.0);
    }
}
