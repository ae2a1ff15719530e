//! Which of many steps is it? A Bayesian search along a chain of builds whose two ends differ. Pure.
//!
//! A chain has positions 0 to n; the rate changes at one *step*, from a position to the next one. Every launch gives the
//! logarithm of a rate, which is the block's own level, plus the effect where its position lies at or behind the step,
//! plus the launch's own deviation. Of the three unknowns that are of no interest, level and effect have flat priors and
//! the deviations' variance a weak inverse-gamma one, so that all of them are integrated away in closed form
//! (the normal linear model; Gelman et al., *Bayesian Data Analysis*, chapter 14): what remains is the probability of
//! each step. Nothing is decided on the way: a launch that misleads is outvoted by later ones.

use std::collections::BTreeSet;
use std::f64::consts::{LN_2, PI};
use std::ops::Range;

/// What is assumed of the standard deviation of a launch before any is seen, as a share of the rate.
const PRIOR_SPREAD: f64 = 0.006;

/// How many launches that assumption counts for.
const PRIOR_LAUNCHES: f64 = 2.0;

/// Launch counts that are weighed against each other when the next position is chosen.
const HORIZON: [u32; 5] = [1, 2, 3, 5, 8];

/// How much heavier a second of building weighs than one of measuring. Greedily, bits per second would move on to the next
/// build while the last one is half settled; if that was the wrong way, the builds made on it are lost. At this weight
/// simulated searches for 2 % need 5 % more time, and hardly ever a sixteenth build.
const BUILD_WEIGHT: f64 = 6.0;

/// Launches that tell less than this, in bits, are not worth making.
const LEAST_INFORMATION: f64 = 1e-4;

/// The rate of one launch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The pass in which it was measured. Only launches of one block are compared with each other.
    pub block: u32,
    /// Its place on the chain.
    pub position: usize,
    /// Natural logarithm of the rate.
    pub log_rate: f64,
}

/// A chain of builds, and what is known beforehand.
#[derive(Debug, Clone)]
pub struct Search {
    /// Prior probability of each step; step `i` leads from position `i` to position `i + 1`.
    prior: Vec<f64>,
    /// Positions that cannot be measured.
    skipped: BTreeSet<usize>,
}

/// What the launches so far say.
#[derive(Debug, Clone, PartialEq)]
pub struct Posterior {
    /// Probability of each step.
    pub steps: Vec<f64>,
    /// Mean of the effect: natural logarithm of the rate behind the step relative to the one before.
    pub effect: f64,
    /// Its standard deviation.
    pub effect_sd: f64,
    /// Standard deviation of a launch, as a share of the rate.
    pub spread: f64,
}

/// What measuring a position costs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Until its build is there.
    pub build: f64,
    /// One launch of it, together with one of an end to compare with.
    pub launch: f64,
}

/// The position to measure next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// Place on the chain.
    pub position: usize,
    /// How many launches the choice reckons with. After each, look again.
    pub launches: u32,
    /// What they are expected to tell, in bits.
    pub bits: f64,
}

/// Launches of one chain compared inside their blocks, and what adds up over them.
#[derive(Debug, Default, Clone, Copy)]
struct Sums {
    /// Squares of the rates' deviations from their block's mean.
    rates: f64,
    /// Products of these with the deviations of what the step would predict.
    products: f64,
    /// Squares of the latter.
    predicted: f64,
}

impl Search {
    /// A search along `weights.len()` steps, with a weight for each: 0 for one that cannot be it, and otherwise only the
    /// quotients matter. `None` when there is no step that can be it.
    #[must_use]
    pub fn new(weights: &[f64]) -> Option<Self> {
        let sum: f64 = weights.iter().sum();
        let is_weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        (weights.iter().all(is_weight) && sum > 0.0)
            .then(|| Self { prior: weights.iter().map(|weight| weight / sum).collect(), skipped: BTreeSet::new() })
    }

    /// Position of the far end.
    #[must_use]
    pub fn end(&self) -> usize {
        self.prior.len()
    }

    /// Leaves a position out: it has no build.
    pub fn skip(&mut self, position: usize) {
        self.skipped.insert(position);
    }

    /// What the launches say. Both ends have to be among them, in one block; before that the answer is the prior.
    #[must_use]
    pub fn posterior(&self, observations: &[Observation]) -> Posterior {
        let mut measured: Vec<usize> = observations.iter().map(|one| one.position).collect();
        measured.sort_unstable();
        measured.dedup();
        let blocks = blocks(observations);
        let contrasts: usize = blocks.iter().map(|block| block.len() - 1).sum();
        // Flat priors of the effect and of the levels take one observation each.
        let freedom = contrasts.saturating_sub(1) as f64;
        let prior_shape = PRIOR_LAUNCHES / 2.0;
        let shape = prior_shape + freedom / 2.0;
        let scale = |residual: f64| prior_shape * PRIOR_SPREAD.powi(2) + residual / 2.0;

        let mut steps = vec![0.0; self.prior.len()];
        let mut fits = Vec::new();
        // Steps between two neighbouring measured positions predict the same.
        for pair in measured.windows(2) {
            let sums = sums(&blocks, pair[1]);
            if sums.predicted <= 0.0 {
                continue;
            }
            let effect = sums.products / sums.predicted;
            let residual = (sums.rates - effect * sums.products).max(0.0);
            let variance = scale(residual) / shape;
            let weight = -0.5 * sums.predicted.ln() - shape * scale(residual).ln();
            fits.push((pair[0]..pair[1], weight, effect, variance, variance / sums.predicted));
        }
        let greatest = fits.iter().map(|fit| fit.1).fold(f64::NEG_INFINITY, f64::max);
        if fits.is_empty() || measured.first() != Some(&0) || measured.last() != Some(&self.end()) {
            return Posterior {
                steps: self.prior.clone(),
                effect: 0.0,
                effect_sd: f64::INFINITY,
                spread: PRIOR_SPREAD,
            };
        }
        let (mut total, mut effect, mut square, mut variance) = (0.0, 0.0, 0.0, 0.0);
        for (range, weight, mean, launch, of_mean) in fits {
            let likelihood = (weight - greatest).exp();
            let mut mass = 0.0;
            for step in range {
                steps[step] = self.prior[step] * likelihood;
                mass += steps[step];
            }
            total += mass;
            effect += mass * mean;
            square += mass * (mean * mean + of_mean);
            variance += mass * launch;
        }
        for step in &mut steps {
            *step /= total;
        }
        let effect = effect / total;
        let effect_sd = (square / total - effect * effect).max(0.0).sqrt();
        Posterior { steps, effect, effect_sd, spread: (variance / total).sqrt() }
    }

    /// The steps that no further launch can tell apart: those between two neighbouring positions that can be measured.
    fn inseparable(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut begin = 0;
        (1..=self.end()).filter(|position| *position == self.end() || !self.skipped.contains(position)).map(
            move |position| {
                let range = begin..position;
                begin = position;
                range
            },
        )
    }

    /// The answer, once one is more probable than `confidence`: a step, or where builds are missing the shortest list of
    /// neighbouring steps that can be had.
    #[must_use]
    pub fn answer(&self, posterior: &Posterior, confidence: f64) -> Option<Range<usize>> {
        self.inseparable().find(|range| posterior.steps[range.clone()].iter().sum::<f64>() >= confidence)
    }

    /// The position whose launches tell the most per second of all that it costs. `None` when no launch tells anything
    /// more. A position whose build costs nothing can be preferred to a better placed one that has to be compiled.
    #[must_use]
    pub fn next(&self, posterior: &Posterior, cost: impl Fn(usize) -> Cost) -> Option<Next> {
        let separation = posterior.effect.abs() / (posterior.spread * 2.0_f64.sqrt());
        let mut best: Option<(f64, Next)> = None;
        for (position, behind) in self.candidates(posterior, &cost) {
            let Cost { build, launch } = cost(position);
            for launches in HORIZON {
                let bits = information(behind, separation * f64::from(launches).sqrt());
                let rate = bits / (BUILD_WEIGHT * build + launch * f64::from(launches));
                if bits >= LEAST_INFORMATION && best.as_ref().is_none_or(|(other, _)| rate > *other) {
                    best = Some((rate, Next { position, launches, bits }));
                }
            }
        }
        best.map(|(_, next)| next)
    }

    /// Positions worth weighing, each with the probability that it lies behind the step: all that cost no build, and of
    /// the others the one that divides the rest most evenly.
    fn candidates(&self, posterior: &Posterior, cost: &impl Fn(usize) -> Cost) -> Vec<(usize, f64)> {
        let mut behind = 0.0;
        let mut ready = Vec::new();
        let mut even: Option<(usize, f64)> = None;
        for position in 1..self.end() {
            behind += posterior.steps[position - 1];
            // A step that cannot be it leads to the same server.
            if self.skipped.contains(&position) || self.prior[position - 1] <= 0.0 {
                continue;
            }
            if cost(position).build <= 0.0 {
                ready.push((position, behind));
            } else if even.is_none_or(|(_, other)| (behind - 0.5).abs() < (other - 0.5).abs()) {
                even = Some((position, behind));
            }
        }
        ready.extend(even);
        ready
    }
}

impl Posterior {
    /// The most probable step with its probability.
    #[must_use]
    pub fn best(&self) -> (usize, f64) {
        let better = |best: (usize, f64), (step, &p): (usize, &f64)| if p > best.1 { (step, p) } else { best };
        self.steps.iter().enumerate().fold((0, 0.0), better)
    }

    /// The smallest set of steps that holds the right one with probability `level`, most probable first.
    #[must_use]
    pub fn credible(&self, level: f64) -> Vec<(usize, f64)> {
        let mut steps: Vec<(usize, f64)> = self.steps.iter().copied().enumerate().filter(|(_, p)| *p > 0.0).collect();
        steps.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let mut sum = 0.0;
        let wanted = steps.iter().take_while(|(_, p)| {
            let is_wanted = sum < level;
            sum += p;
            is_wanted
        });
        let count = wanted.count();
        steps.truncate(count);
        steps
    }

    /// What is still to be found out, in bits.
    #[must_use]
    pub fn entropy(&self) -> f64 {
        self.steps.iter().filter(|p| **p > 0.0).map(|p| -p * p.log2()).sum()
    }
}

/// Observations by block, of blocks that compare at least two launches.
fn blocks(observations: &[Observation]) -> Vec<Vec<Observation>> {
    let mut sorted = observations.to_vec();
    sorted.sort_by_key(|one| one.block);
    sorted.chunk_by(|a, b| a.block == b.block).filter(|block| block.len() > 1).map(<[_]>::to_vec).collect()
}

/// The sums if the positions from `first` on were those behind the step.
fn sums(blocks: &[Vec<Observation>], first: usize) -> Sums {
    let mut sums = Sums::default();
    for block in blocks {
        let size = block.len() as f64;
        let level = block.iter().map(|one| one.log_rate).sum::<f64>() / size;
        let share = block.iter().filter(|one| one.position >= first).count() as f64 / size;
        for one in block {
            let (rate, predicted) = (one.log_rate - level, f64::from(u8::from(one.position >= first)) - share);
            sums.rates += rate * rate;
            sums.products += rate * predicted;
            sums.predicted += predicted * predicted;
        }
    }
    sums
}

/// Bits that a reading tells about a question with two answers, of which one has probability `p`: the readings are
/// normal, and the answers `separation` standard deviations apart. The mutual information, by the trapezoidal rule.
fn information(p: f64, separation: f64) -> f64 {
    const POINTS: u32 = 48;
    const TAIL: f64 = 5.0;
    if p <= 0.0 || p >= 1.0 || separation <= 0.0 {
        return 0.0;
    }
    // Farther apart than this nothing more can be told.
    let separation = separation.min(12.0);
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
    let width = (separation + 2.0 * TAIL) / f64::from(POINTS);
    let term = |share: f64, density: f64, mixture: f64| {
        if share * density > 0.0 { share * density * (density / mixture).ln() } else { 0.0 }
    };
    let at = |point: u32| {
        let x = -TAIL + width * f64::from(point);
        let (before, behind) = (density(x), density(x - separation));
        let mixture = (1.0 - p) * before + p * behind;
        term(1.0 - p, before, mixture) + term(p, behind, mixture)
    };
    ((0..=POINTS).map(at).sum::<f64>() * width / LN_2).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(rows: &[(u32, usize, f64)]) -> Vec<Observation> {
        rows.iter().map(|&(block, position, log_rate)| Observation { block, position, log_rate }).collect()
    }

    #[test]
    fn information_has_its_known_limits() {
        assert!(information(0.5, 0.0).abs() < 1e-9);
        assert!((information(0.5, 10.0) - 1.0).abs() < 1e-4);
        let entropy = -(0.1 * 0.1_f64.log2() + 0.9 * 0.9_f64.log2());
        assert!((information(0.1, 12.0) - entropy).abs() < 1e-3);
        // A binary-input Gaussian channel at one standard deviation on each side: 0.4859 bits.
        assert!((information(0.5, 2.0) - 0.4859).abs() < 1e-3, "{}", information(0.5, 2.0));
        assert!((information(0.3, 1.5) - information(0.7, 1.5)).abs() < 1e-3);
    }

    #[test]
    fn without_both_ends_nothing_is_known() {
        let search = Search::new(&[1.0, 1.0, 2.0]).unwrap();
        for rows in [&[][..], &[(1, 0, 0.0), (1, 1, 0.1)], &[(1, 0, 0.0), (2, 3, 0.1)]] {
            assert_eq!(search.posterior(&observe(rows)).steps, [0.25, 0.25, 0.5], "{rows:?}");
        }
    }

    #[test]
    fn a_position_at_the_old_level_clears_the_steps_up_to_it() {
        let search = Search::new(&[1.0; 4]).unwrap();
        let mut rows = Vec::new();
        for block in 0..6 {
            let jitter = f64::from(block) * 1e-4;
            rows.extend([(block, 0, 1.0 + jitter), (block, 2, 1.001 - jitter), (block, 4, 0.95 + jitter)]);
        }
        let posterior = search.posterior(&observe(&rows));
        assert!(posterior.steps[0] < 1e-3 && posterior.steps[1] < 1e-3, "{posterior:?}");
        assert!((posterior.steps[2] - 0.5).abs() < 1e-3);
        assert!((posterior.effect + 0.05).abs() < 0.002, "{posterior:?}");
        assert!(posterior.effect_sd < 0.004);
    }

    #[test]
    fn a_level_that_moves_from_block_to_block_does_no_harm() {
        let search = Search::new(&[1.0; 2]).unwrap();
        let rows = |level: fn(u32) -> f64| {
            let rows = (0..4).flat_map(|b| [(b, 0, level(b)), (b, 1, level(b) - 0.03), (b, 2, level(b) - 0.031)]);
            observe(&rows.collect::<Vec<_>>())
        };
        let (still, moving) =
            (search.posterior(&rows(|_| 0.0)), search.posterior(&rows(|block| f64::from(block) * 0.1)));
        assert!((still.steps[0] - moving.steps[0]).abs() < 1e-9);
        assert!(still.steps[0] > 0.99, "{still:?}");
    }

    #[test]
    fn skipped_positions_leave_a_list_of_steps() {
        let mut search = Search::new(&[1.0; 4]).unwrap();
        search.skip(2);
        let rows: Vec<_> = (0..6).flat_map(|b| [(b, 0, 0.0), (b, 1, 0.0), (b, 3, 0.1), (b, 4, 0.1)]).collect();
        let posterior = search.posterior(&observe(&rows));
        assert_eq!(search.answer(&posterior, 0.95), Some(1..3));
        assert_eq!(posterior.credible(0.95).len(), 2);
        let cost = |_| Cost { build: 0.0, launch: 1.0 };
        assert!(search.next(&posterior, cost).is_none_or(|next| next.position != 2));
    }

    #[test]
    fn steps_without_weight_are_never_it_and_never_measured() {
        assert!(Search::new(&[0.0, 0.0]).is_none());
        assert!(Search::new(&[]).is_none());
        let search = Search::new(&[1.0, 0.0, 0.0, 1.0]).unwrap();
        let posterior = search.posterior(&observe(&[(0, 0, 0.0), (0, 4, 0.1), (1, 0, 0.0), (1, 4, 0.1)]));
        assert_eq!(posterior.steps, [0.5, 0.0, 0.0, 0.5]);
        let next = search.next(&posterior, |_| Cost { build: 60.0, launch: 10.0 }).unwrap();
        assert_eq!(next.position, 1, "positions 2 and 3 are the same server");
    }

    #[test]
    fn the_first_choice_is_the_middle_unless_another_build_is_there() {
        let search = Search::new(&[1.0; 100]).unwrap();
        let rows: Vec<_> = (0..4).flat_map(|block| [(block, 0, 0.0), (block, 100, 0.03)]).collect();
        let posterior = search.posterior(&observe(&rows));
        let dear = |_| Cost { build: 200.0, launch: 10.0 };
        assert_eq!(search.next(&posterior, dear).unwrap().position, 50);
        let cheap = |position| Cost { build: if position == 40 { 0.0 } else { 200.0 }, launch: 10.0 };
        assert_eq!(search.next(&posterior, cheap).unwrap().position, 40);
    }
}
