//! Is it significant, and is it big enough to matter? Two questions, one verdict.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{RelativeQps, Verdict};

/// Changes up to this share of the base's rate don't matter in practice.
pub const THRESHOLD: f64 = 0.01;

/// Confidence of the intervals that are shown.
pub const CONFIDENCE: f64 = 0.95;

/// The relative rate from the ratios of independent blocks (at least one, all above zero), as one of
/// `comparisons` that are looked at together.
///
/// The interval is a t interval on the logarithms, so that exchanging base and target inverts it. A
/// change is only called one if the interval clears the threshold at the Bonferroni level: a report
/// of 42 equal pairs then has a 5 % chance of one false alarm, instead of two alarms on average.
pub(super) fn relative(ratios: &[f64], comparisons: usize) -> RelativeQps {
    if let [ratio] = ratios {
        // Exactly target / base: no detour over logarithms.
        return RelativeQps { ratio: *ratio, interval: None, verdict: Verdict::Inconclusive };
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let standard_error = (variance / count).sqrt();

    let half_width = |confidence: f64| t_quantile(confidence, count - 1.0) * standard_error;
    let shown = half_width(CONFIDENCE);
    let adjusted = half_width(1.0 - (1.0 - CONFIDENCE) / comparisons.max(1) as f64);
    let threshold = THRESHOLD.ln_1p();
    let verdict = if mean - adjusted > threshold {
        Verdict::Improved
    } else if mean + adjusted < -threshold {
        Verdict::Regressed
    } else if mean - shown > -threshold && mean + shown < threshold {
        Verdict::Same
    } else {
        Verdict::Inconclusive
    };
    RelativeQps { ratio: mean.exp(), interval: Some(((mean - shown).exp(), (mean + shown).exp())), verdict }
}

/// The t value that a two-sided interval of this confidence reaches to.
fn t_quantile(confidence: f64, degrees_of_freedom: f64) -> f64 {
    let upper = 1.0 - (1.0 - confidence) / 2.0;
    // Degrees of freedom are at least 1 here; an infinite interval decides nothing, should they not be.
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(upper))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn one_block_decides_nothing() {
        let relative = relative(&[0.5], 42);
        assert_eq!((relative.ratio.to_bits(), relative.interval), (0.5f64.to_bits(), None));
        assert_eq!(relative.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn the_interval_is_that_of_a_worked_example() {
        // ln 0.90, ln 0.92, ln 0.88: mean −0.105525, sd 0.022226, half width 4.302653 · sd / √3 = 0.055213.
        let relative = relative(&[0.90, 0.92, 0.88], 1);
        assert!((relative.ratio - 0.899_852).abs() < 1e-6, "{}", relative.ratio);
        let (low, high) = relative.interval.unwrap();
        assert!((low - 0.851_515).abs() < 1e-5 && (high - 0.950_933).abs() < 1e-5, "{low} {high}");
        assert_eq!(relative.verdict, Verdict::Regressed);
    }

    #[test]
    fn significance_and_magnitude_both_decide() {
        let verdict = |ratios: &[f64], comparisons| relative(ratios, comparisons).verdict;
        assert_eq!(verdict(&[1.05, 1.051, 1.05, 1.049], 42), Verdict::Improved);
        assert_eq!(verdict(&[1.005, 1.0051, 1.005, 1.0049], 42), Verdict::Same, "significant, but too small to matter");
        assert_eq!(verdict(&[1.2, 0.9, 1.1, 1.0], 42), Verdict::Inconclusive);
        assert_eq!(verdict(&[1.03, 1.05, 1.04], 1), Verdict::Improved);
        assert_eq!(verdict(&[1.03, 1.05, 1.04], 42), Verdict::Inconclusive, "one of 42 has to be clearer");
    }

    proptest! {
        #[test]
        fn exchanging_base_and_target_mirrors_the_answer(
            ratios in proptest::collection::vec(0.5..2.0f64, 2..8),
            comparisons in 1usize..60,
        ) {
            let there = relative(&ratios, comparisons);
            let back = relative(&ratios.iter().map(|ratio| 1.0 / ratio).collect::<Vec<_>>(), comparisons);
            let (low, high) = there.interval.unwrap();
            let (back_low, back_high) = back.interval.unwrap();
            prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
            prop_assert!((low * back_high - 1.0).abs() < 1e-9 && (high * back_low - 1.0).abs() < 1e-9);
            prop_assert!(low <= there.ratio && there.ratio <= high);
            let mirrored = match back.verdict {
                Verdict::Improved => Verdict::Regressed,
                Verdict::Regressed => Verdict::Improved,
                other => other,
            };
            prop_assert_eq!(there.verdict, mirrored);
        }
    }
}
