//! What moves all microbenchmarks alike: a target that is faster or slower throughout, and a base whose own rate
//! changes while the sweep goes on. Neither is a change of one statement.

use super::layout::Layout;
use super::ratios::{LogMean, t_quantile, t_tail};
use super::verdict::CONFIDENCE;

/// Fewer microbenchmarks than this have too little in common to tell a shift of all of them from their own changes.
const FEWEST_ROWS: usize = 8;

/// Smaller shifts are not worth a warning.
const WORTH_SAYING: f64 = 0.005;

/// How far, as a share of the shift, the quartiles of a uniform one may be from its middle.
const UNEVEN: f64 = 1.0 / 3.0;

/// Blocks from which on a base may be said to drift.
const FEWEST_BLOCKS: usize = 5;

/// The chance to warn of a shift of any target, or of a drift, that is none.
const ALARM_ERROR: f64 = 0.01;

/// A change of speed that many microbenchmarks share, as a ratio with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// New rate / old rate.
    pub ratio: f64,
    /// Its t interval over blocks.
    pub interval: (f64, f64),
}

/// How the base's own rate went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Drift {
    /// Steadily, by this much from the first block to the last.
    Trend(Shift),
    /// At once, in the block of this number.
    Step(Shift, u32),
}

/// A shift of nearly all microbenchmarks of a target by about the same, if there is one. `targets` are looked at
/// together.
#[must_use]
pub fn common_shift(rows: &[Layout], target: usize, targets: usize) -> Option<Shift> {
    let changes: Vec<f64> =
        rows.iter().filter_map(|row| mean(row.block_differences(target).map(|(_, log)| log))).collect();
    if changes.len() < FEWEST_ROWS {
        return None;
    }
    // The launch is the unit, since all slices of a launch share its luck.
    let blocks = by_block(rows.iter().flat_map(|row| row.block_differences(target)), FEWEST_ROWS, median);
    if blocks.len() < 2 {
        return None;
    }
    let logs: Vec<f64> = blocks.iter().map(|(_, log)| *log).collect();
    let shift = LogMean::of_logs(&logs);
    let sure = shift.half_width(1.0 - ALARM_ERROR / targets.max(1) as f64);
    let size = shift.mean.abs();
    // Uniform: the middle half of all microbenchmarks lies within a third of the shift around it.
    let is_near = |share| (quantile(&changes, share) - shift.mean).abs() <= size * UNEVEN;
    let uniform = is_near(0.25) && is_near(0.75);
    (size - sure > 0.0 && size >= WORTH_SAYING && uniform).then(|| Shift::new(shift.mean, shift.half_width(CONFIDENCE)))
}

/// A trend or a step of the base's own rate over the blocks, over all microbenchmarks, if chance hardly makes one.
#[must_use]
pub fn drift(rows: &[Layout]) -> Option<Drift> {
    let centred = rows.iter().filter_map(|row| {
        let mean = mean(row.logs(row.base()).map(|(_, log)| log))?;
        Some(row.logs(row.base()).map(move |(number, log)| (number, log - mean)))
    });
    let series = by_block(centred.flatten(), 1, |logs| logs.iter().sum::<f64>() / logs.len() as f64);
    if series.len() < FEWEST_BLOCKS {
        return None;
    }
    let (trend, step) = (trend(&series), step(&series));
    let likelier = if step.1 < trend.1 { step } else { trend };
    let (drift, p) = likelier;
    let (Drift::Trend(shift) | Drift::Step(shift, _)) = drift;
    (p < ALARM_ERROR && (shift.ratio - 1.0).abs() >= WORTH_SAYING).then_some(drift)
}

impl Shift {
    fn new(log: f64, reach: f64) -> Self {
        Self { ratio: log.exp(), interval: ((log - reach).exp(), (log + reach).exp()) }
    }
}

/// The least-squares line through the series, and the chance of such a slope without one.
fn trend(series: &[(u32, f64)]) -> (Drift, f64) {
    let count = series.len() as f64;
    let xs = || series.iter().map(|(number, _)| f64::from(*number));
    let (mean_x, mean_y) = (xs().sum::<f64>() / count, series.iter().map(|(_, y)| y).sum::<f64>() / count);
    let squares_x = xs().map(|x| (x - mean_x).powi(2)).sum::<f64>();
    let slope = xs().zip(series).map(|(x, (_, y))| (x - mean_x) * (y - mean_y)).sum::<f64>() / squares_x;
    let rest = xs().zip(series).map(|(x, (_, y))| (y - mean_y - slope * (x - mean_x)).powi(2)).sum::<f64>();
    let freedom = count - 2.0;
    let span = f64::from(series[series.len() - 1].0 - series[0].0);
    let error = (rest / freedom / squares_x).sqrt() * span;
    let log = slope * span;
    let shift = Shift::new(log, t_quantile(CONFIDENCE, freedom) * error);
    (Drift::Trend(shift), two_sided(log, error, freedom))
}

/// The likeliest block for a step, and the chance of one like it anywhere (Bonferroni over the blocks).
fn step(series: &[(u32, f64)]) -> (Drift, f64) {
    let freedom = series.len() as f64 - 2.0;
    let places = 2..=series.len() - 2;
    let tried = places.clone().count() as f64;
    let at = |place: usize| {
        let (before, after) = series.split_at(place);
        let of = |part: &[(u32, f64)]| {
            let mean = part.iter().map(|(_, y)| y).sum::<f64>() / part.len() as f64;
            (mean, part.iter().map(|(_, y)| (y - mean).powi(2)).sum::<f64>())
        };
        let ((one, rest), (other, other_rest)) = (of(before), of(after));
        let shares = 1.0 / before.len() as f64 + 1.0 / after.len() as f64;
        let error = ((rest + other_rest) / freedom * shares).sqrt();
        let shift = Shift::new(other - one, t_quantile(CONFIDENCE, freedom) * error);
        (Drift::Step(shift, after[0].0), (two_sided(other - one, error, freedom) * tried).min(1.0))
    };
    let first = at(2);
    places.map(at).fold(first, |best, next| if next.1 < best.1 { next } else { best })
}

fn two_sided(log: f64, error: f64, freedom: f64) -> f64 {
    // Without any scatter there is no distribution to compare with; a series of equal numbers has no drift.
    if log == 0.0 { 1.0 } else { 2.0 * t_tail(log.abs() / error, freedom) }
}

/// The centre of each block that has at least `fewest` values, in block order.
fn by_block(
    values: impl Iterator<Item = (u32, f64)>,
    fewest: usize,
    centre: impl Fn(&[f64]) -> f64,
) -> Vec<(u32, f64)> {
    let mut blocks = std::collections::BTreeMap::<u32, Vec<f64>>::new();
    for (number, value) in values {
        blocks.entry(number).or_default().push(value);
    }
    blocks.retain(|_, values| values.len() >= fewest);
    blocks.into_iter().map(|(number, values)| (number, centre(&values))).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Between the neighbours in proportion; needs one value.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the list")]
    let below = place as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudo-random number in −1 … 1 that depends on its inputs only.
    fn noise(row: usize, block: u32, target: usize) -> f64 {
        // The finalizer of splitmix64.
        let mut mixed = (row as u64 * 1000 + u64::from(block)) * 10 + target as u64 + 0x9e37_79b9_7f4a_7c15;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed % 20_001) as f64 / 10_000.0 - 1.0
    }

    /// Rows of two targets with 1 % of noise; `log` is added to a row's logarithm in a block on a target.
    fn rows(blocks: u32, log: impl Fn(usize, u32, usize) -> f64) -> Vec<Layout> {
        let row = |row: usize| {
            let mut layout = Layout::new(2, 0);
            for block in 1..=blocks {
                let value = |target| Some((0.01 * noise(row, block, target) + log(row, block, target)).exp());
                layout.push(block, vec![value(0), value(1)]);
            }
            layout
        };
        (0..20).map(row).collect()
    }

    #[test]
    fn a_shift_of_everything_is_told_from_changes_of_some() {
        let shift = common_shift(&rows(5, |_, _, target| if target == 1 { -0.03 } else { 0.0 }), 1, 1).unwrap();
        let (low, high) = shift.interval;
        assert!((shift.ratio - 0.97).abs() < 0.005 && low < shift.ratio && shift.ratio < high, "{shift:?}");
        assert!(low < (-0.03f64).exp() && (-0.03f64).exp() < high, "{shift:?}");
        let some = rows(5, |row, _, target| if target == 1 && row < 8 { -0.2 } else { 0.0 });
        assert_eq!(common_shift(&some, 1, 1), None);
        let unequal = rows(5, |row, _, target| if target == 1 { -0.01 * row as f64 } else { 0.0 });
        assert_eq!(common_shift(&unequal, 1, 1), None, "the same direction is not the same size");
        assert_eq!(common_shift(&rows(5, |_, _, _| 0.0), 1, 1), None);
        assert_eq!(common_shift(&rows(1, |_, _, target| target as f64), 1, 1), None, "one launch may be luck");
    }

    #[test]
    fn a_base_that_drifts_or_steps_is_noticed() {
        let base = |of: &dyn Fn(u32) -> f64| drift(&rows(8, |_, block, _| of(block)));
        let Some(Drift::Trend(trend)) = base(&|block| -0.01 * f64::from(block)) else { panic!("no trend") };
        assert!((trend.ratio - (-0.07f64).exp()).abs() < 0.01, "{trend:?}");
        let Some(Drift::Step(step, at)) = base(&|block| if block >= 4 { 0.05 } else { 0.0 }) else { panic!("no step") };
        assert!(at == 4 && (step.ratio - 0.05f64.exp()).abs() < 0.01, "{step:?}");
        assert_eq!(base(&|_| 0.0), None);
        assert_eq!(drift(&rows(4, |_, block, _| f64::from(block))), None, "too few blocks to tell");
    }
}
