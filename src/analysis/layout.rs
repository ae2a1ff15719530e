//! One microbenchmark over blocks and targets, and what its blocks say about each target.
//!
//! The logarithm of a value is the sum of an effect of its block, an effect of its target and a residual: a
//! two-way layout without interaction, fitted by least squares. The difference of two targets' effects is then
//! estimated inside blocks, and all targets together say how large residuals are. With two targets and complete
//! blocks this is the paired t interval.

use super::ratios::f_quantile;

/// A target whose own residuals exceed those of the others by an F ratio that chance brings about this seldom is
/// judged by its own alone. So often, because a noisy target that is overlooked borrows certainty it does not have,
/// while an equal one loses only degrees of freedom.
const NOISIER: f64 = 0.25;

/// At this chance its residuals do not count for the others either. So seldom, because leaving out what happens to be
/// large makes the rest look quieter than it is.
const APART: f64 = 0.01;

/// One microbenchmark: a value above zero, or none, per block and target. More is better.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    base: usize,
    targets: usize,
    blocks: Vec<Block>,
    /// The last block that nothing will be added to.
    closed: u32,
}

#[derive(Debug, Clone, PartialEq)]
struct Block {
    number: u32,
    values: Vec<Option<f64>>,
    logs: Vec<Option<f64>>,
}

/// A target's difference to the base, in logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// log(target / base).
    pub log: f64,
    /// Blocks that have both.
    pub common_blocks: u32,
    /// How sure it is, from two common blocks on.
    pub error: Option<ErrorOfDifference>,
}

/// How sure a difference is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorOfDifference {
    /// Standard error of the difference.
    pub standard_error: f64,
    /// Degrees of freedom of the residual variance that it is made from.
    pub freedom: f64,
    /// Whether all targets' residuals went in, or only those of this target and the base.
    pub pooled: bool,
}

impl Layout {
    /// Without blocks yet.
    #[must_use]
    pub const fn new(targets: usize, base: usize) -> Self {
        Self { base, targets, blocks: Vec::new(), closed: 0 }
    }

    /// Adds a block, later than all others; one value per target. Values that are not above zero are left out.
    pub fn push(&mut self, number: u32, values: Vec<Option<f64>>) {
        let values: Vec<Option<f64>> =
            values.into_iter().map(|value| value.filter(|value| value.is_finite() && *value > 0.0)).collect();
        let logs = values.iter().map(|value| value.map(f64::ln)).collect();
        self.blocks.push(Block { number, values, logs });
        self.closed = number;
    }

    /// Says which is the last block that nothing will be added to.
    pub(super) const fn close(&mut self, number: u32) {
        self.closed = number;
    }

    pub(super) const fn closed(&self) -> u32 {
        self.closed
    }

    pub(super) const fn base(&self) -> usize {
        self.base
    }

    pub(super) const fn targets(&self) -> usize {
        self.targets
    }

    /// Numbers of its blocks, in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.blocks.iter().map(|block| block.number)
    }

    /// The logarithm of a target's value in each block that has one.
    pub(super) fn logs(&self, target: usize) -> impl Iterator<Item = (u32, f64)> {
        self.blocks.iter().filter_map(move |block| Some((block.number, block.logs[target]?)))
    }

    /// log(target / base) of each block that has both.
    pub(super) fn block_differences(&self, target: usize) -> impl Iterator<Item = (u32, f64)> {
        let base = self.base;
        self.blocks.iter().filter_map(move |block| Some((block.number, block.logs[target]? - block.logs[base]?)))
    }

    /// Whether any block has both a value of this target, which is not the base, and one of the base.
    pub(super) fn is_compared(&self, target: usize) -> bool {
        target != self.base && self.block_differences(target).next().is_some()
    }

    /// The quotient of a target and the base where a single block has both: without a detour over logarithms.
    pub(super) fn single_ratio(&self, target: usize) -> Option<f64> {
        let mut both = self.blocks.iter().filter_map(|block| Some((block.values[target]?, block.values[self.base]?)));
        let (value, base) = both.next()?;
        both.next().is_none().then_some(value / base)
    }

    /// How much more a target scatters than the others; `None` for the base, and where there is nothing to compare.
    fn excess(&self, blocks: &[&[Option<f64>]], fit: &Fit, target: usize) -> Option<Excess> {
        // Two targets have nothing but their pair.
        if target == self.base || self.targets < 3 {
            return None;
        }
        let others = without(blocks, &|one| one == target, self.targets, self.base);
        let freedom = [fit.freedom - others.freedom, others.freedom];
        // Half a degree: these are whole numbers.
        if freedom.iter().any(|freedom| *freedom < 0.5) {
            return None;
        }
        let own = (fit.squares - others.squares).max(0.0) / freedom[0];
        Some(Excess { ratio: own / (others.squares / others.freedom), freedom })
    }

    /// A target's difference to the base over the blocks up to `until`, by these two alone.
    pub(super) fn paired(&self, target: usize, until: u32) -> Option<Difference> {
        let blocks: Vec<&[Option<f64>]> =
            (self.blocks.iter()).filter(|block| block.number <= until).map(|block| block.logs.as_slice()).collect();
        Pair::of(&blocks, target, self.base).difference()
    }

    /// Each target's difference to the base over the blocks after number `after` up to `until`; `None` where no
    /// block has both.
    #[must_use]
    pub fn differences(&self, after: u32, until: u32) -> Vec<Option<Difference>> {
        let blocks: Vec<&[Option<f64>]> = (self.blocks.iter())
            .filter(|block| block.number > after && block.number <= until)
            .map(|block| block.logs.as_slice())
            .collect();
        let fit = Fit::of(&blocks, self.targets, self.base);
        let pairs: Vec<Pair> = (0..self.targets).map(|target| Pair::of(&blocks, target, self.base)).collect();
        let ratios: Vec<Option<Excess>> = (0..self.targets).map(|target| self.excess(&blocks, &fit, target)).collect();
        let beyond = |chance| -> Vec<bool> {
            ratios.iter().map(|ratio| ratio.as_ref().is_some_and(|ratio| ratio.is_beyond(chance))).collect()
        };
        let (noisier, apart) = (beyond(NOISIER), beyond(APART));
        let without_apart =
            apart.contains(&true).then(|| without(&blocks, &|target| apart[target], self.targets, self.base));
        let fit = without_apart.as_ref().unwrap_or(&fit);
        let difference = |target: usize| {
            if target == self.base {
                return None;
            }
            if noisier[target] { pairs[target].difference() } else { fit.difference(target, &pairs[target]) }
        };
        (0..self.targets).map(difference).collect()
    }
}

/// What a target adds to the residuals of all others, beside those: with equal noise the quotient has an F
/// distribution, since the models are nested, also where blocks are incomplete.
struct Excess {
    ratio: f64,
    freedom: [f64; 2],
}

impl Excess {
    fn is_beyond(&self, chance: f64) -> bool {
        self.ratio > f_quantile(chance, self.freedom)
    }
}

/// The fit without the values of some targets.
fn without(blocks: &[&[Option<f64>]], left_out: &dyn Fn(usize) -> bool, targets: usize, base: usize) -> Fit {
    let kept: Vec<Vec<Option<f64>>> = (blocks.iter())
        .map(|logs| logs.iter().enumerate().map(|(target, log)| log.filter(|_| !left_out(target))).collect())
        .collect();
    Fit::of(&kept.iter().map(Vec::as_slice).collect::<Vec<_>>(), targets, base)
}

/// A target and the base in their common blocks.
struct Pair {
    count: f64,
    mean: f64,
    /// Residual sum of squares of the two alone: half the squares of the differences around their mean.
    squares: f64,
}

impl Pair {
    fn of(blocks: &[&[Option<f64>]], target: usize, base: usize) -> Self {
        let differences = || blocks.iter().filter_map(|logs| Some(logs[target]? - logs[base]?));
        let count = differences().count() as f64;
        let mean = differences().sum::<f64>() / count;
        let squares = differences().map(|difference| (difference - mean).powi(2)).sum::<f64>() / 2.0;
        Self { count, mean, squares }
    }

    fn freedom(&self) -> f64 {
        self.count - 1.0
    }

    /// The paired t interval's ingredients.
    fn difference(&self) -> Option<Difference> {
        let error = (self.count > 1.5).then(|| ErrorOfDifference {
            standard_error: (2.0 * self.squares / self.freedom() / self.count).sqrt(),
            freedom: self.freedom(),
            pooled: false,
        });
        (self.count > 0.5).then_some(Difference { log: self.mean, common_blocks: self.common_blocks(), error })
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of blocks")]
    fn common_blocks(&self) -> u32 {
        self.count as u32
    }
}

/// The least-squares fit of block and target effects.
struct Fit {
    /// Effect of each target less that of the base; `None` for targets that no chain of blocks links to it.
    effects: Vec<Option<f64>>,
    /// Variance of that, as a multiple of the residual variance.
    factors: Vec<f64>,
    /// Residual sum of squares.
    squares: f64,
    freedom: f64,
}

impl Fit {
    fn of(blocks: &[&[Option<f64>]], targets: usize, base: usize) -> Self {
        // A block with one value says nothing about differences.
        let blocks: Vec<&[Option<f64>]> =
            blocks.iter().copied().filter(|logs| logs.iter().flatten().count() > 1).collect();
        let complete = blocks.iter().all(|logs| logs.iter().zip(blocks[0]).all(|(a, b)| a.is_some() == b.is_some()));
        let (effects, factors, components) =
            if complete { complete_effects(&blocks, targets) } else { linked_effects(&blocks, targets, base) };
        let (mut squares, mut values) = (0.0, 0.0);
        for logs in &blocks {
            let rest = || logs.iter().zip(&effects).filter_map(|(log, effect)| Some(log.as_ref()? - effect.as_ref()?));
            let count = rest().count() as f64;
            let mean = rest().sum::<f64>() / count;
            squares += rest().map(|rest| (rest - mean).powi(2)).sum::<f64>();
            values += count;
        }
        let present = effects.iter().flatten().count() as f64;
        let freedom = values - blocks.len() as f64 - present + components.iter().copied().max().unwrap_or(0) as f64;
        let linked = |target: usize| components[target] > 0 && components[target] == components[base];
        let of_base = effects[base].unwrap_or(0.0);
        let relative = |(target, effect): (usize, &Option<f64>)| effect.map(|e| e - of_base).filter(|_| linked(target));
        Self { effects: effects.iter().enumerate().map(relative).collect(), factors, squares, freedom }
    }

    fn difference(&self, target: usize, pair: &Pair) -> Option<Difference> {
        // Ratios are taken inside blocks: without a common block there is none.
        let log = self.effects[target].filter(|_| pair.count > 0.5)?;
        if pair.count < 1.5 {
            return Some(Difference { log: pair.mean, common_blocks: 1, error: None });
        }
        let variance = self.squares / self.freedom * self.factors[target];
        let error = ErrorOfDifference { standard_error: variance.sqrt(), freedom: self.freedom, pooled: true };
        Some(Difference { log, common_blocks: pair.common_blocks(), error: Some(error) })
    }
}

/// Effects, factors of variance, and the component that each target belongs to, from 1; 0 for absent ones.
type Effects = (Vec<Option<f64>>, Vec<f64>, Vec<usize>);

/// All blocks have the same targets: effects are plain means.
fn complete_effects(blocks: &[&[Option<f64>]], targets: usize) -> Effects {
    let count = blocks.len() as f64;
    let effect = |target: usize| {
        let sum: Option<f64> = blocks.iter().map(|logs| logs[target]).sum();
        sum.filter(|_| !blocks.is_empty()).map(|sum| sum / count)
    };
    let effects: Vec<Option<f64>> = (0..targets).map(effect).collect();
    let components = effects.iter().map(|effect| usize::from(effect.is_some())).collect();
    (effects, vec![2.0 / count; targets], components)
}

/// Blocks lack some targets: the normal equations, with the block effects eliminated. Each component of targets
/// that blocks link gets one target, the base where it belongs, whose effect is zero.
fn linked_effects(blocks: &[&[Option<f64>]], targets: usize, base: usize) -> Effects {
    let components = components(blocks, targets);
    let is_ground = |target: usize| {
        let own = components[target];
        let first = components.iter().position(|component| *component == own);
        own == 0 || if own == components[base] { target == base } else { first == Some(target) }
    };
    let free: Vec<usize> = (0..targets).filter(|target| !is_ground(*target)).collect();
    let mut matrix = vec![vec![0.0; free.len()]; free.len()];
    let mut right = vec![0.0; free.len()];
    for logs in blocks {
        let count = logs.iter().flatten().count() as f64;
        let mean = logs.iter().flatten().sum::<f64>() / count;
        for (row, target) in free.iter().enumerate() {
            let Some(log) = logs[*target] else { continue };
            right[row] += log - mean;
            for (column, other) in free.iter().enumerate() {
                if logs[*other].is_some() {
                    matrix[row][column] += f64::from(u8::from(row == column)) - 1.0 / count;
                }
            }
        }
    }
    let inverse = inverse(matrix);
    let mut effects: Vec<Option<f64>> = components.iter().map(|component| (*component > 0).then_some(0.0)).collect();
    let mut factors = vec![f64::INFINITY; targets];
    for (row, target) in free.iter().enumerate() {
        effects[*target] = Some(inverse[row].iter().zip(&right).map(|(factor, right)| factor * right).sum());
        factors[*target] = inverse[row][row];
    }
    (effects, factors, components)
}

/// Numbers the sets of targets that chains of blocks link.
fn components(blocks: &[&[Option<f64>]], targets: usize) -> Vec<usize> {
    let mut labels: Vec<usize> = (1..=targets).collect();
    let mut seen = vec![false; targets];
    for logs in blocks {
        let present: Vec<usize> = (0..targets).filter(|target| logs[*target].is_some()).collect();
        for target in &present {
            seen[*target] = true;
            let (from, to) = (labels[*target], labels[present[0]]);
            labels.iter_mut().filter(|label| **label == from).for_each(|label| *label = to);
        }
    }
    let mut order: Vec<usize> = Vec::new();
    let number = |(label, seen): (usize, bool)| {
        if !seen {
            return 0;
        }
        order.iter().position(|known| *known == label).map_or_else(
            || {
                order.push(label);
                order.len()
            },
            |position| position + 1,
        )
    };
    labels.into_iter().zip(seen).map(number).collect()
}

/// Gauss and Jordan without pivoting, which the normal equations do not need: they are positive definite.
fn inverse(mut matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let size = matrix.len();
    let mut inverse: Vec<Vec<f64>> =
        (0..size).map(|row| (0..size).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for pivot in 0..size {
        let scale = 1.0 / matrix[pivot][pivot];
        for side in [&mut matrix, &mut inverse] {
            side[pivot].iter_mut().for_each(|value| *value *= scale);
        }
        let (lead, lead_inverse) = (matrix[pivot].clone(), inverse[pivot].clone());
        for row in (0..size).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            matrix[row].iter_mut().zip(&lead).for_each(|(value, lead)| *value -= factor * lead);
            inverse[row].iter_mut().zip(&lead_inverse).for_each(|(value, lead)| *value -= factor * lead);
        }
    }
    inverse
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "degrees of freedom are whole numbers")]
mod tests {
    use proptest::prelude::*;

    use super::super::ratios::{LogMean, t_quantile};
    use super::*;

    fn layout(base: usize, blocks: &[&[Option<f64>]]) -> Layout {
        let mut layout = Layout::new(blocks[0].len(), base);
        for (number, values) in (1..).zip(blocks) {
            layout.push(number, values.to_vec());
        }
        layout
    }

    /// D. C. Montgomery, Design and Analysis of Experiments, the catalyst experiment (balanced incomplete blocks):
    /// residual sum of squares 3.25 with 5 degrees of freedom; adjusted effects −9/8, −7/8, −4/8 and 20/8; standard
    /// error of a difference √(2 · 3 · 0.65 / (2 · 4)).
    #[test]
    fn incomplete_blocks_are_those_of_a_textbook() {
        let rows = [
            [Some(73.0), None, Some(73.0), Some(75.0)],
            [Some(74.0), Some(75.0), Some(75.0), None],
            [None, Some(67.0), Some(68.0), Some(72.0)],
            [Some(71.0), Some(72.0), None, Some(75.0)],
        ];
        let blocks: Vec<Vec<Option<f64>>> =
            rows.iter().map(|row| row.iter().map(|y: &Option<f64>| y.map(f64::exp)).collect()).collect();
        // Without the question whether a target is noisier, which the book does not ask.
        let logs: Vec<Vec<Option<f64>>> =
            blocks.iter().map(|row| row.iter().map(|v| v.map(f64::ln)).collect()).collect();
        let logs: Vec<&[Option<f64>]> = logs.iter().map(Vec::as_slice).collect();
        let fit = Fit::of(&logs, 4, 0);
        for (target, expected) in [(1, 2.0 / 8.0), (2, 5.0 / 8.0), (3, 29.0 / 8.0)] {
            let difference = fit.difference(target, &Pair::of(&logs, target, 0)).unwrap();
            let error = difference.error.unwrap();
            assert!((difference.log - expected).abs() < 1e-9, "{difference:?}");
            assert!((error.standard_error - (0.65f64 * 6.0 / 8.0).sqrt()).abs() < 1e-9, "{error:?}");
            assert!(error.freedom == 5.0 && error.pooled && difference.common_blocks == 2);
        }
    }

    #[test]
    fn a_target_that_is_noisier_counts_for_itself_only() {
        let noisy = [0.2, -0.3, 0.25, -0.15, 0.3, -0.3];
        let quiet = [0.01, -0.02, 0.005, 0.01, -0.015, 0.01];
        let blocks: Vec<Vec<Option<f64>>> = (0..6)
            .map(|block| {
                let logs = [0.0, quiet[block], quiet[5 - block], noisy[block]];
                logs.iter().map(|log: &f64| Some(log.exp())).collect()
            })
            .collect();
        let layout = layout(0, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let differences = layout.differences(0, 6);
        let error = |target: usize| differences[target].unwrap().error.unwrap();
        assert!((error(3).pooled, error(3).freedom) == (false, 5.0), "{:?}", error(3));
        assert!(error(1).pooled && error(1).freedom == 10.0, "{:?}", error(1));
        assert!(error(1).standard_error < 0.02, "{:?}", error(1));
        let ratios: Vec<f64> = noisy.iter().map(|log| log.exp()).collect();
        let paired = LogMean::of(&ratios).half_width(0.95);
        assert!((t_quantile(0.95, error(3).freedom) * error(3).standard_error - paired).abs() < 1e-9);
    }

    #[test]
    fn what_is_linked_by_other_targets_alone_has_no_ratio() {
        let (one, two) = (Some(1.0), Some(2.0));
        let layout = layout(0, &[&[one, two, None], &[one, two, None], &[None, one, two], &[None, two, one]]);
        let differences = layout.differences(0, 4);
        assert!(differences[1].is_some() && differences[2].is_none(), "{differences:?}");
        assert!(layout.is_compared(1) && !layout.is_compared(2) && !layout.is_compared(0));
        assert_eq!(layout.differences(1, 2)[1].unwrap().common_blocks, 1);
        assert!(layout.differences(2, 4).iter().all(Option::is_none));
    }

    proptest! {
        /// Two targets and complete blocks: the paired t interval.
        #[test]
        fn two_targets_are_a_pair(ratios in proptest::collection::vec((0.5..2.0f64, 1.0..1e6f64), 2..9)) {
            let blocks: Vec<Vec<Option<f64>>> =
                ratios.iter().map(|(ratio, rate)| vec![Some(ratio * rate), Some(*rate)]).collect();
            let layout = layout(1, &blocks.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let difference = layout.differences(0, u32::MAX)[0].unwrap();
            let error = difference.error.unwrap();
            let paired = LogMean::of(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>());
            prop_assert!((difference.log - paired.mean).abs() < 1e-9);
            prop_assert!((error.standard_error - paired.standard_error).abs() < 1e-9);
            prop_assert!((error.freedom - paired.degrees_of_freedom).abs() < 1e-9);
        }

        /// The general solution and the short cut for complete blocks agree.
        #[test]
        fn complete_blocks_need_no_equations(logs in proptest::collection::vec(proptest::array::uniform4(-1.0..1.0f64), 2..7)) {
            let blocks: Vec<Vec<Option<f64>>> = logs.iter().map(|logs| logs.iter().copied().map(Some).collect()).collect();
            let blocks: Vec<&[Option<f64>]> = blocks.iter().map(Vec::as_slice).collect();
            let (short, short_factors, _) = complete_effects(&blocks, 4);
            let (general, factors, components) = linked_effects(&blocks, 4, 2);
            prop_assert_eq!(components, [1; 4]);
            for target in [0, 1, 3] {
                let of = |effects: &[Option<f64>]| effects[target].unwrap() - effects[2].unwrap();
                prop_assert!((of(&short) - of(&general)).abs() < 1e-9);
                prop_assert!((short_factors[target] - factors[target]).abs() < 1e-9);
            }
        }
    }
}
