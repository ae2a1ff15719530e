//! Steps in a series of numbers: where its level changes, and how sure that is. Numbers in, places out.
//!
//! The best division into segments of constant level, by least squares with a price for every change point (optimal
//! partitioning: Jackson et al., IEEE Signal Processing Letters 12, 2005). The price is in units of the noise, which is
//! estimated robustly and inflated where successive values resemble each other; it was counted out over simulated series
//! without a change, so that one in a thousand of them gets a change point (docs/methodology.md, "History").

/// Shortest series that is looked at.
const FEWEST: usize = 8;

/// Fewest values on either side of a change: one odd value, or two, are no change.
pub(super) const SEGMENT: usize = 3;

/// A value further than this from the median of its neighbours, in units of the noise, counts as one that far away.
const CLIP: f64 = 2.5;

/// Price of a change point, as the root of what it has to save, in units of the noise, in the search for the noise itself:
/// steps that are there must not count as noise.
const LIBERAL: f64 = 4.0;

/// Successive values are not taken to resemble each other more than this.
const MOST_CORRELATION: f64 = 0.7;

/// The price of a change point by length of the series, as the root of what it has to save, in units of the noise.
const PRICES: [(usize, f64); 8] =
    [(8, 6.6), (12, 6.2), (18, 5.8), (26, 5.45), (36, 5.2), (52, 5.05), (120, 5.1), (260, 5.4)];

/// A change of the level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Index of the first value after it.
    pub at: usize,
    /// Level between the change before it and this one.
    pub before: f64,
    /// Level from here to the next change.
    pub after: f64,
}

/// The changes of the level of a series, first to last. Values are expected to scatter evenly: logarithms of ratios.
#[must_use]
pub fn changes(values: &[f64]) -> Vec<Change> {
    if values.len() < FEWEST || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let Series { values, noise } = Series::new(values);
    if noise <= 0.0 {
        return Vec::new();
    }
    let price = price(values.len()) * noise;
    let bounds = divide(&values, price * price);
    let level = |from: usize, to: usize| mean(&values[from..to]);
    let change = |three: &[usize]| {
        let [from, at, to] = [three[0], three[1], three[2]];
        Change { at, before: level(from, at), after: level(at, to) }
    };
    bounds.windows(3).map(change).collect()
}

/// A series without outliers, and its noise.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// The values; those far from their neighbours are moved towards them.
    pub(super) values: Vec<f64>,
    /// Standard deviation of a value around its level, as it counts for means of many: more where successive values
    /// resemble each other. Above 0 unless all values are equal.
    pub(super) noise: f64,
}

impl Series {
    /// Cleans a series and estimates its noise.
    #[must_use]
    pub(super) fn new(values: &[f64]) -> Self {
        let short_term = short_term_noise(values);
        if short_term <= 0.0 {
            return Self { values: values.to_vec(), noise: 0.0 };
        }
        let values = clipped(values, CLIP * short_term);
        let price = LIBERAL * short_term;
        let bounds = divide(&values, price * price);
        let residuals: Vec<f64> = bounds
            .windows(2)
            .flat_map(|ends| {
                let segment = &values[ends[0]..ends[1]];
                let level = mean(segment);
                segment.iter().map(move |value| value - level)
            })
            .collect();
        let noise = long_term_noise(&residuals, bounds.len() - 1);
        Self { noise: noise.max(short_term / 2.0), values }
    }
}

/// The price for a series of a length, interpolated over the logarithm of the length.
fn price(length: usize) -> f64 {
    let after = PRICES.iter().position(|(known, _)| *known >= length);
    match after {
        None => PRICES[PRICES.len() - 1].1,
        Some(0) => PRICES[0].1,
        Some(index) => {
            let ((low, from), (high, to)) = (PRICES[index - 1], PRICES[index]);
            let share = (length as f64 / low as f64).ln() / (high as f64 / low as f64).ln();
            from + share * (to - from)
        }
    }
}

/// The noise from one value to the next: neither steps nor slow changes are in it, nor outliers.
fn short_term_noise(values: &[f64]) -> f64 {
    /// A normal deviate lies within this much of 0 half of the time.
    const HALF: f64 = 0.674_489_750_196_082;
    let mut differences: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let average = mean(&differences);
    let median = median(&mut differences);
    // More than half of the neighbours are equal: coarse numbers.
    let typical = if median > 0.0 { median } else { average };
    typical / HALF / std::f64::consts::SQRT_2
}

/// Moves values that are further than `distance` from the median of the five around them to that distance. A run of
/// three or more that lie elsewhere stays as it is.
fn clipped(values: &[f64], distance: f64) -> Vec<f64> {
    const WINDOW: usize = 5;
    let last = values.len().saturating_sub(WINDOW);
    let clip = |(index, value): (usize, &f64)| {
        let from = index.saturating_sub(WINDOW / 2).min(last);
        let mut window = values[from..values.len().min(from + WINDOW)].to_vec();
        let middle = median(&mut window);
        value.clamp(middle - distance, middle + distance)
    };
    values.iter().enumerate().map(clip).collect()
}

/// Standard deviation of the residuals around `levels` levels, times what successive likeness adds to the scatter of means.
fn long_term_noise(residuals: &[f64], levels: usize) -> f64 {
    let freedom = (residuals.len() - levels) as f64;
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    // Taking the levels out makes successive residuals look less alike than they are (Kendall 1954).
    let bias = 2.0 * levels as f64 / residuals.len() as f64;
    let correlation = (products / squares + bias).clamp(0.0, MOST_CORRELATION);
    (squares / freedom * (1.0 + correlation) / (1.0 - correlation)).sqrt()
}

/// Ends of the segments of the best division, 0 and the length included: the sum of squares around the segments' means,
/// plus `price` per change point, is smallest.
fn divide(values: &[f64], price: f64) -> Vec<usize> {
    let count = values.len();
    let center = mean(values);
    let mut sums = vec![(0.0, 0.0); count + 1];
    for (index, value) in values.iter().enumerate() {
        let value = value - center;
        sums[index + 1] = (sums[index].0 + value, sums[index].1 + value * value);
    }
    let cost = |from: usize, to: usize| {
        let (sum, squares) = (sums[to].0 - sums[from].0, sums[to].1 - sums[from].1);
        squares - sum * sum / (to - from) as f64
    };
    let mut best = vec![(f64::INFINITY, 0); count + 1];
    best[0].0 = -price;
    for to in SEGMENT..=count {
        for from in (0..=to - SEGMENT).filter(|from| *from == 0 || *from >= SEGMENT) {
            let total = best[from].0 + price + cost(from, to);
            if total < best[to].0 {
                best[to] = (total, from);
            }
        }
    }
    let mut bounds = vec![count];
    let mut to = count;
    while to > 0 {
        to = best[to].1;
        bounds.push(to);
    }
    bounds.reverse();
    bounds
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Sorts the values; of an even number of them the mean of the middle two.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A little noise that is the same every time, about evenly in −1 … 1.
    fn noise(index: usize) -> f64 {
        2.0 * ((index as f64 * 12.9898).sin() * 43_758.545_3).fract().abs() - 1.0
    }

    fn series(levels: &[(usize, f64)]) -> Vec<f64> {
        let level = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        level.enumerate().map(|(index, level)| level + noise(index)).collect()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let places = |values: &[f64]| changes(values).iter().map(|change| change.at).collect::<Vec<_>>();
        assert_eq!(places(&series(&[(52, 0.0)])), Vec::<usize>::new());
        assert_eq!(places(&series(&[(26, 0.0), (26, 4.0)])), [26]);
        // Down and up again, which a single look at both halves would miss.
        assert_eq!(places(&series(&[(40, 0.0), (8, -5.0), (40, 0.0)])), [40, 48]);
        assert_eq!(places(&series(&[(30, 0.0), (30, 4.0), (30, 8.0)])), [30, 60]);
        // The newest three values of a year.
        assert_eq!(places(&series(&[(49, 0.0), (3, 8.0)])), [49]);
    }

    #[test]
    fn one_or_two_odd_values_are_no_change() {
        let mut values = series(&[(52, 0.0)]);
        values[20] = 50.0;
        values[40] = -50.0;
        values[41] = -60.0;
        assert_eq!(changes(&values), []);
    }

    #[test]
    fn levels_are_those_between_the_changes() {
        let found = changes(&series(&[(30, 1.0), (30, 5.0)]));
        let [Change { before, after, .. }] = found[..] else { panic!("{found:?}") };
        assert!((before - 1.0).abs() < 0.3 && (after - 5.0).abs() < 0.3, "{found:?}");
    }

    #[test]
    fn what_has_no_noise_or_no_length_has_no_change() {
        assert_eq!(changes(&[]), []);
        assert_eq!(changes(&[1.0; 7]), []);
        assert_eq!(changes(&[0.1; 100]), []);
        assert_eq!(changes(&[0.0, f64::NAN, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), []);
        // Exact numbers that do change.
        let exact: Vec<f64> = (0..20).map(|index| f64::from(u8::from(index >= 10))).collect();
        assert_eq!(changes(&exact).len(), 1);
    }
}
