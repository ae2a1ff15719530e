//! Is it significant, and is it big enough to matter? Two questions, one verdict.

use super::ratios::LogMean;
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
    let logs = LogMean::of(ratios);
    let mean = logs.mean;
    let half_width = |confidence: f64| logs.half_width(confidence);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
