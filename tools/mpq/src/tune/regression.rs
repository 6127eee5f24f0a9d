//! Ordinary least squares, with what tells how well it fits.

/// A model that was fitted.
#[derive(Clone, Debug)]
pub struct Fit {
    /// One for each column.
    pub coefficients: Vec<f64>,
    /// Share of the variance that the model explains.
    pub r_square: f64,
    /// Of each coefficient: how likely a t as large is if it were 0. 1 where nothing is left to tell.
    pub p_values: Vec<f64>,
    /// Standard deviation of what the model leaves over.
    pub residual: f64,
    /// R^-1 of the decomposition, for [`Fit::standard_error`].
    inverse: Vec<Vec<f64>>,
}

impl Fit {
    /// Fits `y` = `rows` x coefficients. `None` if the rows do not determine them.
    pub fn new(rows: &[Vec<f64>], y: &[f64]) -> Option<Fit> {
        let (n, k) = (rows.len(), rows.first()?.len());
        if n < k {
            return None;
        }
        let (r, qty) = triangle(rows, y)?;
        let inverse = inverse(&r);
        let coefficients = product(&inverse, &qty);
        let predicted = rows.iter().map(|row| dot(row, &coefficients));
        let left: f64 = predicted.zip(y).map(|(p, y)| (y - p).powi(2)).sum();
        let mean = y.iter().sum::<f64>() / n as f64;
        let all: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
        let freedom = (n - k) as f64;
        let residual = if n > k { (left / freedom).sqrt() } else { 0.0 };
        let p_value = |(coefficient, row): (&f64, &Vec<f64>)| {
            let error = residual * dot(row, row).sqrt();
            match (n > k, error > 0.0) {
                (false, _) => 1.0,
                (true, false) => 0.0,
                (true, true) => two_sided_p(coefficient / error, freedom),
            }
        };
        Some(Fit {
            r_square: if all > 0.0 { 1.0 - left / all } else { 1.0 },
            p_values: coefficients.iter().zip(&inverse).map(p_value).collect(),
            coefficients,
            residual,
            inverse,
        })
    }

    /// Of the mean that it predicts.
    pub fn standard_error(&self, row: &[f64]) -> f64 {
        // |R^-T x|, column by column of R^-1.
        let k = row.len();
        let part = |j: usize| (0..k).map(|i| self.inverse[i][j] * row[i]).sum::<f64>();
        self.residual * (0..k).map(|j| part(j).powi(2)).sum::<f64>().sqrt()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn product(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

/// R and Q'y by Gram and Schmidt's way, twice for the digits; `None` if columns depend on each other.
fn triangle(rows: &[Vec<f64>], y: &[f64]) -> Option<(Vec<Vec<f64>>, Vec<f64>)> {
    let k = rows[0].len();
    let mut r = vec![vec![0.0; k]; k];
    let mut q: Vec<Vec<f64>> = Vec::with_capacity(k);
    for j in 0..k {
        let mut column: Vec<f64> = rows.iter().map(|row| row[j]).collect();
        let before = dot(&column, &column).sqrt();
        for _ in 0..2 {
            for (i, base) in q.iter().enumerate() {
                let part = dot(base, &column);
                r[i][j] += part;
                for (c, b) in column.iter_mut().zip(base) {
                    *c -= part * b;
                }
            }
        }
        let length = dot(&column, &column).sqrt();
        if length <= 1e-9 * before || before == 0.0 {
            return None;
        }
        r[j][j] = length;
        q.push(column.into_iter().map(|c| c / length).collect());
    }
    let qty = q.iter().map(|base| dot(base, y)).collect();
    Some((r, qty))
}

/// Of an upper triangle.
fn inverse(r: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let k = r.len();
    let mut inverse = vec![vec![0.0; k]; k];
    for j in 0..k {
        inverse[j][j] = 1.0 / r[j][j];
        for i in (0..j).rev() {
            let sum: f64 = (i + 1..=j).map(|m| r[i][m] * inverse[m][j]).sum();
            inverse[i][j] = -sum / r[i][i];
        }
    }
    inverse
}

/// How likely Student's t with so many degrees of freedom is at least as far from 0.
fn two_sided_p(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// The regularized incomplete beta function, by Lentz's continued fraction.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    const TINY: f64 = 1e-300;
    let keep = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / keep(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for step in [even, odd] {
            d = 1.0 / keep(1.0 + step * d);
            c = keep(1.0 + step / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    let front = a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    front.exp() * fraction / a
}

/// Stirling's series, where it is good to 1e-12.
fn ln_gamma(x: f64) -> f64 {
    if x < 15.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let correction = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + correction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} {b}");
    }

    #[test]
    fn a_line_worked_by_hand() {
        // y = 1, 3, 4, 4 over x = 0..3: slope 1, intercept 1.5, residuals -0.5, 0.5, 0.5, -0.5.
        let rows: Vec<Vec<f64>> = (0..4).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = Fit::new(&rows, &[1.0, 3.0, 4.0, 4.0]).unwrap();
        close(fit.coefficients[0], 1.5);
        close(fit.coefficients[1], 1.0);
        close(fit.r_square, 1.0 - 1.0 / 6.0);
        close(fit.residual, 0.5f64.sqrt());
        // The slope's error is sqrt(0.5/5); t = 3.1623 with 2 degrees of freedom:
        // p = 1 - t/sqrt(t^2 + 2).
        close(fit.p_values[1], 1.0 - (10.0f64 / 12.0).sqrt());
        // Of the mean at x = 3: s sqrt(1/4 + 1.5^2/5).
        close(fit.standard_error(&[1.0, 3.0]), (0.5f64 * 0.7).sqrt());
    }

    #[test]
    fn students_t() {
        // From tables: 5 % at 2.228 with 10 degrees of freedom, 1 % at 63.657 with one.
        assert!((two_sided_p(2.228, 10.0) - 0.05).abs() < 1e-4);
        assert!((two_sided_p(63.657, 1.0) - 0.01).abs() < 1e-5);
        assert!((two_sided_p(-1.96, 1e6) - 0.05).abs() < 1e-4);
        close(two_sided_p(0.0, 5.0), 1.0);
    }

    #[test]
    fn what_is_not_determined_is_not_fitted() {
        assert!(Fit::new(&[], &[]).is_none());
        assert!(Fit::new(&[vec![1.0, 2.0]], &[1.0]).is_none());
        let doubled: Vec<Vec<f64>> = (0..5)
            .map(|x| vec![f64::from(x), f64::from(2 * x)])
            .collect();
        assert!(Fit::new(&doubled, &[0.0; 5]).is_none());
        // As many as there are coefficients: nothing is left over to tell by.
        let exact = Fit::new(&[vec![1.0, 0.0], vec![1.0, 1.0]], &[2.0, 5.0]).unwrap();
        assert_eq!(exact.p_values, [1.0, 1.0]);
    }
}
