//! The mean of ratios, and how sure it is.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean and spread of the logarithms of ratios, so that exchanging the two sides inverts everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogMean {
    /// Mean of the logarithms.
    pub(super) mean: f64,
    standard_error: f64,
    degrees_of_freedom: f64,
}

impl LogMean {
    /// Of ratios above zero, at least one.
    pub(super) fn of(ratios: &[f64]) -> Self {
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
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
fn t_quantile(confidence: f64, degrees_of_freedom: f64) -> f64 {
    let upper = 1.0 - (1.0 - confidence) / 2.0;
    // Degrees of freedom are at least 1 here; an infinite interval decides nothing, should they not be.
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
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
        }
    }
}
