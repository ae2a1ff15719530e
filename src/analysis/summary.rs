//! Group summaries by the article's rule, in decimal arithmetic.
//!
//! Published tables round each ratio to two decimals first and summarise the rounded ones. In binary
//! floating point the median (1.93 + 2.00) / 2 can print as 1.96; here it is 1.965, and prints 1.97.

use rust_decimal::{Decimal, MathematicalOps, RoundingStrategy};

use super::{Group, GroupSummary, ReportRow};

/// A ratio rounded half up to two decimals, as tables show it; `None` for what has no such form.
///
/// The number is taken at its shortest decimal form: 199 / 200 is 0.995 there and becomes 1.00,
/// although the closest double lies just below.
#[must_use]
pub fn two_decimals(ratio: f64) -> Option<Decimal> {
    let exact: Decimal = ratio.to_string().parse().ok()?;
    Some(half_up(exact))
}

fn half_up(number: Decimal) -> Decimal {
    let mut rounded = number.round_dp_with_strategy(2, RoundingStrategy::MidpointAwayFromZero);
    // Keeps the zeros of 1.00 and 1.10.
    rounded.rescale(2);
    rounded
}

/// Summaries of the target at `index` for every group that has a ratio.
pub(super) fn groups(groups: &[Group], rows: &[ReportRow], index: usize) -> Vec<GroupSummary> {
    let summary = |group: &Group| {
        let members = rows.iter().filter(|row| row.group == group.name);
        let ratios = members.filter_map(|row| two_decimals(row.cells[index].relative?.ratio)).collect();
        summarise(&group.name, ratios)
    };
    groups.iter().filter_map(summary).collect()
}

/// Summary of ratios that are already rounded; `None` without any.
fn summarise(group: &str, mut ratios: Vec<Decimal>) -> Option<GroupSummary> {
    ratios.sort_unstable();
    let (min, max) = (*ratios.first()?, *ratios.last()?);
    let count = Decimal::from(ratios.len());
    let mean = ratios.iter().sum::<Decimal>() / count;
    let median = (ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / Decimal::TWO;
    // Σ(r − mean)² / (n − 1) in one division, so that a deviation of exactly half a hundredth is one.
    let (sum, squares): (Decimal, Decimal) = (ratios.iter().sum(), ratios.iter().map(|ratio| ratio * ratio).sum());
    let variance = (count * squares - sum * sum).checked_div(count * (count - Decimal::ONE));
    Some(GroupSummary {
        group: group.to_owned(),
        count: ratios.len(),
        min: float(min),
        max: float(max),
        avg: float(mean),
        median: float(median),
        stdev: variance.and_then(|variance| variance.sqrt()).map(float),
    })
}

/// The double that prints like the rounded decimal.
fn float(number: Decimal) -> f64 {
    half_up(number).to_string().parse().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimals(texts: &[&str]) -> Vec<Decimal> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn halves_are_rounded_up_as_on_paper() {
        let text = |ratio: f64| two_decimals(ratio).unwrap().to_string();
        assert_eq!(text(199.0 / 200.0), "1.00");
        assert_eq!(text(1.005), "1.01");
        assert_eq!(text(1.0), "1.00");
        assert_eq!(text(20612.0 / 10672.0), "1.93");
        assert_eq!(two_decimals(f64::NAN), None);
        assert_eq!(two_decimals(f64::INFINITY), None);
    }

    #[test]
    fn the_median_of_the_published_writes_does_not_fall_to_1_96() {
        // The ten ratios of the article's writes group, 16.2 relative to 9.0.23.
        let ratios = ["1.93", "1.50", "1.28", "1.42", "3.41", "4.64", "2.15", "1.11", "2.00", "2.69"];
        let summary = summarise("writes", decimals(&ratios)).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (10, 1.11, 4.64));
        assert_eq!((summary.avg, summary.median, summary.stdev), (2.21, 1.97, Some(1.10)));
    }

    #[test]
    fn small_groups() {
        assert_eq!(summarise("g", Vec::new()), None);
        let one = summarise("g", decimals(&["0.80"])).unwrap();
        assert_eq!((one.min, one.median, one.stdev), (0.8, 0.8, None));
        let two = summarise("g", decimals(&["0.90", "1.10"])).unwrap();
        assert_eq!((two.avg, two.median, two.stdev), (1.0, 1.0, Some(0.14)));
    }

    proptest! {
        #[test]
        fn rounding_is_within_half_a_hundredth(ratio in 0.0001..1000.0f64) {
            let rounded = float(two_decimals(ratio).unwrap());
            prop_assert!((rounded - ratio).abs() <= 0.005 + 1e-9);
        }

        /// The pages compute summaries in whole hundredths; see `summarise` in `site/assets/answers.js`.
        #[test]
        fn a_summary_is_that_of_whole_numbers(hundredths in proptest::collection::vec(90i64..110, 2..12)) {
            let summary = summarise("g", hundredths.iter().map(|n| Decimal::new(*n, 2)).collect()).unwrap();
            let (count, sum) = (i64::try_from(hundredths.len()).unwrap(), hundredths.iter().sum::<i64>());
            let spread = count * hundredths.iter().map(|n| n * n).sum::<i64>() - sum * sum;
            let below = |deviation: i64| (2 * deviation - 1).pow(2) * count * (count - 1) <= 4 * spread;
            let stdev = (1..1000).take_while(|deviation| below(*deviation)).last().unwrap_or(0);
            prop_assert_eq!(two_decimals(summary.avg), Some(Decimal::new((2 * sum + count) / (2 * count), 2)));
            prop_assert_eq!(summary.stdev.and_then(two_decimals), Some(Decimal::new(stdev, 2)));
        }

        #[test]
        fn a_summary_lies_between_its_ends(hundredths in proptest::collection::vec(1i64..1000, 1..12)) {
            let summary = summarise("g", hundredths.iter().map(|n| Decimal::new(*n, 2)).collect()).unwrap();
            for middle in [summary.avg, summary.median] {
                prop_assert!(summary.min <= middle && middle <= summary.max);
            }
        }
    }
}
