//! The mean of ratios, and how sure it is; quantiles and tails of the distributions that decide.

use std::cell::RefCell;
use std::collections::HashMap;

use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// Mean and spread of the logarithms of ratios, so that exchanging the two sides inverts everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogMean {
    /// Mean of the logarithms.
    pub(super) mean: f64,
    /// Its standard error; needs two ratios.
    pub(super) standard_error: f64,
    /// Number of ratios less one.
    pub(super) degrees_of_freedom: f64,
}

impl LogMean {
    /// Of ratios above zero, at least one.
    pub(super) fn of(ratios: &[f64]) -> Self {
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        Self::of_logs(&logs)
    }

    /// Of logarithms, at least one.
    pub(super) fn of_logs(logs: &[f64]) -> Self {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { mean, standard_error: (variance / count).sqrt(), degrees_of_freedom: count - 1.0 }
    }

    /// How far the two-sided t interval of this confidence reaches from the mean; needs two ratios.
    pub(super) fn half_width(&self, confidence: f64) -> f64 {
        t_quantile(confidence, self.degrees_of_freedom) * self.standard_error
    }
}

/// The t value that a two-sided interval of this confidence reaches to.
pub(super) fn t_quantile(confidence: f64, degrees_of_freedom: f64) -> f64 {
    let upper = 1.0 - (1.0 - confidence) / 2.0;
    remembered(confidence, [degrees_of_freedom, 0.0], || {
        // Degrees of freedom are at least 1 here; an infinite interval decides nothing, should they not be.
        StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
    })
}

/// The chance that a t value is above `t`.
pub(super) fn t_tail(t: f64, degrees_of_freedom: f64) -> f64 {
    if t == f64::INFINITY {
        return 0.0;
    }
    // No certainty without a distribution.
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(1.0, |distribution| distribution.sf(t))
}

/// The F value that is exceeded with this chance.
pub(super) fn f_quantile(chance: f64, degrees_of_freedom: [f64; 2]) -> f64 {
    remembered(chance, degrees_of_freedom, || {
        let [numerator, denominator] = degrees_of_freedom;
        FisherSnedecor::new(numerator, denominator).map_or(f64::INFINITY, |f| f.inverse_cdf(1.0 - chance))
    })
}

/// Quantiles take a search each, and a report asks for the same few thousands of times.
fn remembered(level: f64, degrees_of_freedom: [f64; 2], compute: impl FnOnce() -> f64) -> f64 {
    thread_local! {
        static QUANTILES: RefCell<HashMap<[u64; 3], f64>> = RefCell::default();
    }
    let [one, other] = degrees_of_freedom;
    let key = [level.to_bits(), one.to_bits(), other.to_bits()];
    QUANTILES.with_borrow_mut(|known| *known.entry(key).or_insert_with(compute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook 1.3.6.7.2; the last by tan(π (p − ½)), exact for one degree of freedom.
        let bonferroni = 1.0 - 0.05 / 42.0;
        let exact = (std::f64::consts::PI * (0.5 - 0.05 / 84.0)).tan();
        for (confidence, freedom, expected) in
            [(0.95, 1.0, 12.706), (0.95, 2.0, 4.303), (0.95, 4.0, 2.776), (0.99, 9.0, 3.250), (bonferroni, 1.0, exact)]
        {
            let t = t_quantile(confidence, freedom);
            assert!((t / expected - 1.0).abs() < 2e-4, "{confidence} {freedom}: {t} instead of {expected}");
            let tail = t_tail(expected, freedom);
            assert!((tail * 2.0 / (1.0 - confidence) - 1.0).abs() < 2e-3, "{confidence} {freedom}: {tail}");
        }
        assert!(t_tail(f64::INFINITY, 3.0) == 0.0);
    }

    #[test]
    fn f_quantiles_are_those_of_the_tables() {
        // NIST/SEMATECH e-Handbook 1.3.6.7.3: upper critical values at 10 % and 5 %.
        for (chance, freedom, expected) in [
            (0.10, [4.0, 4.0], 4.107),
            (0.05, [4.0, 8.0], 3.838),
            (0.05, [1.0, 10.0], 4.965),
            (0.05, [9.0, 20.0], 2.393),
        ] {
            let f = f_quantile(chance, freedom);
            assert!((f / expected - 1.0).abs() < 1e-3, "{chance} {freedom:?}: {f} instead of {expected}");
        }
    }
}
