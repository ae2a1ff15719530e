//! What a machine can tell: the noise between equal servers, and which planted slowdowns are found.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use statrs::distribution::{Beta, ContinuousCDF, StudentsT};

use super::{CONFIDENCE, INSTRUCTIONS_THRESHOLD, Origin, SliceRecord, SweepManifest, Target, TargetId};
use crate::domain::{Brake, Measurement};

/// Chance of finding the smallest detectable change.
pub const POWER: f64 = 0.9;

/// Comparisons that a sweep of the whole suite makes of one target.
pub const SWEEP_COMPARISONS: u32 = 42;

/// What is compared. All three are costs per query: above the base's is slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// Time of the client per query, the inverse of QPS.
    Time,
    /// CPU time of the backend per query.
    BackendCpu,
    /// Instructions of the backend per query.
    Instructions,
}

/// One target with a known difference to the base, on one microbenchmark.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Row name.
    pub microbenchmark: String,
    /// The target's label.
    pub target: String,
    /// What was planted, as a share of the base's cost: 0 for the same build again.
    pub planted: f64,
    /// What was found, as a share of the base's cost.
    pub measured: f64,
    /// Its 95 % interval; none for instructions, whose noise is no matter of launches.
    pub interval: Option<(f64, f64)>,
    /// Whether a difference is called, with all trials of this cost looked at together.
    pub detected: bool,
}

/// The trials of one cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostTest {
    /// Which cost.
    pub cost: Cost,
    /// Standard deviation of the ratio of two launches of equal servers, one entry per microbenchmark. For instructions
    /// the difference of the two counts.
    pub noise: Vec<f64>,
    /// The trials: by microbenchmark, then in the order of the targets.
    pub trials: Vec<Trial>,
}

/// What a self-test found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SelfTest {
    /// Launches of each target that all targets have.
    pub launches: u32,
    /// The costs that were measured.
    pub costs: Vec<CostTest>,
}

/// A number of cases out of so many, with the interval of the share behind it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    /// Cases.
    pub cases: u32,
    /// Out of how many.
    pub of: u32,
    /// 95 % interval of the share (Clopper and Pearson, Biometrika 26, 1934).
    pub interval: (f64, f64),
}

impl SelfTest {
    /// How often a difference was called between equal servers.
    #[must_use]
    pub fn false_alarms(&self) -> Share {
        let null = self.costs.iter().flat_map(|cost| &cost.trials).filter(|trial| trial.planted == 0.0);
        let (mut cases, mut of) = (0, 0);
        for trial in null {
            of += 1;
            cases += u32::from(trial.detected);
        }
        Share { cases, of, interval: clopper_pearson(cases, of) }
    }
}

impl CostTest {
    /// The middle of the noise of all microbenchmarks.
    #[must_use]
    pub fn median_noise(&self) -> Option<f64> {
        let mut sorted = self.noise.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
    }

    /// The smallest change that `launches` of each side would find with a chance of [`POWER`], were it one of
    /// `comparisons`. Computed from the measured noise, not measured. Two launches are the least. Of instructions more
    /// launches find no less: it is the threshold and the largest difference that was seen between equal servers.
    #[must_use]
    pub fn detectable(&self, launches: u32, comparisons: u32) -> Option<f64> {
        if self.cost == Cost::Instructions {
            // A change has to pass the threshold although noise takes from it.
            let noise = self.noise.iter().copied().reduce(f64::max)?;
            return Some(INSTRUCTIONS_THRESHOLD + noise);
        }
        let noise = self.median_noise()?;
        let freedom = f64::from(launches.checked_sub(1).filter(|freedom| *freedom > 0)?);
        let alarm = t_quantile(1.0 - (1.0 - CONFIDENCE) / f64::from(comparisons.max(1)) / 2.0, freedom);
        Some((alarm + t_quantile(POWER, freedom)) * noise / f64::from(launches).sqrt())
    }
}

/// Compares every target with the base. Targets with a brake are slower by what the brake says; others are the base's
/// build again.
#[must_use]
pub fn self_test(manifest: &SweepManifest, slices: &[SliceRecord]) -> SelfTest {
    let costs = [Cost::Time, Cost::BackendCpu, Cost::Instructions];
    let tables = costs.map(|cost| table(cost, slices));
    let launches = tables[0].values().map(|blocks| complete(blocks, &timed(manifest)).len()).min().unwrap_or(0);
    let tests = costs.into_iter().zip(&tables).filter_map(|(cost, table)| cost_test(cost, table, manifest));
    SelfTest { launches: u32::try_from(launches).unwrap_or(u32::MAX), costs: tests.collect() }
}

/// Logarithms of costs per query, by target, of one block.
type Block<'a> = BTreeMap<&'a TargetId, f64>;

/// Blocks by microbenchmark.
type Table<'a> = BTreeMap<&'a str, BTreeMap<u32, Block<'a>>>;

fn table(cost: Cost, slices: &[SliceRecord]) -> Table<'_> {
    let mut table = Table::new();
    for slice in slices.iter().filter(|slice| slice.is_counting() == (cost == Cost::Instructions)) {
        let Some(per_query) = slice.outcome.measurement().and_then(|measurement| cost.per_query(measurement)) else {
            continue;
        };
        let blocks = table.entry(slice.microbenchmark.as_str()).or_default();
        blocks.entry(slice.block).or_default().insert(&slice.target, per_query.ln());
    }
    table
}

impl Cost {
    /// Nanoseconds or instructions per query, above zero.
    fn per_query(self, measurement: &Measurement) -> Option<f64> {
        let whole = match self {
            Self::Time => measurement.seconds * 1e9,
            Self::BackendCpu => measurement.backend_cpu_ns? as f64,
            Self::Instructions => measurement.instructions? as f64,
        };
        let per_query = whole / measurement.queries as f64;
        (per_query.is_finite() && per_query > 0.0).then_some(per_query)
    }

    /// What a brake adds to a query, in the unit of this cost; `None` when the cost is not planted in that unit.
    /// One message is one query.
    fn planted(self, brake: Option<Brake>) -> Option<f64> {
        match (self, brake) {
            (_, None) => Some(0.0),
            (Self::Time | Self::BackendCpu, Some(Brake::Nanoseconds(ns))) => Some(ns as f64),
            (Self::Instructions, Some(Brake::Loops(loops))) => Some((loops * Brake::INSTRUCTIONS_PER_LOOP) as f64),
            _ => None,
        }
    }
}

/// The targets of the timed launches.
fn timed(manifest: &SweepManifest) -> Vec<&TargetId> {
    let timed = |target: &&Target| Cost::Time.planted(target.brake).is_some();
    manifest.targets.iter().filter(timed).map(|target| &target.id).collect()
}

/// The blocks in which all of `targets` were measured.
fn complete<'a>(blocks: &'a BTreeMap<u32, Block<'a>>, targets: &[&TargetId]) -> Vec<&'a Block<'a>> {
    blocks.values().filter(|block| targets.iter().all(|target| block.contains_key(target))).collect()
}

fn cost_test(cost: Cost, table: &Table<'_>, manifest: &SweepManifest) -> Option<CostTest> {
    let targets: Vec<(&Target, f64)> = manifest
        .targets
        .iter()
        .filter_map(|target| Some((target, cost.planted(target.brake)?)))
        .filter(|(target, _)| table.values().any(|blocks| blocks.values().any(|block| block.contains_key(&target.id))))
        .collect();
    let (base, others): (Vec<_>, Vec<_>) = targets.into_iter().partition(|(target, _)| target.id == manifest.base);
    let (base, _) = *base.first()?;
    let names = match &manifest.origin {
        Origin::Measured { protocol, .. } => &protocol.microbenchmarks,
        Origin::Imported { .. } => return None,
    };
    let comparisons = others.len() * names.iter().filter(|name| table.contains_key(name.as_str())).count();
    let mut test = CostTest { cost, noise: Vec::new(), trials: Vec::new() };
    for name in names {
        let Some(blocks) = table.get(name.as_str()) else { continue };
        let ids: Vec<&TargetId> =
            std::iter::once(&base.id).chain(others.iter().map(|(target, _)| &target.id)).collect();
        let blocks = complete(blocks, &ids);
        let Some(fit) = Fit::of(&blocks, &ids) else { continue };
        let of_base = fit.means[0].exp();
        for ((target, planted), mean) in others.iter().zip(&fit.means[1..]) {
            let difference = mean - fit.means[0];
            let (interval, detected) = match cost {
                Cost::Instructions => (None, difference.abs() > INSTRUCTIONS_THRESHOLD),
                _ => fit.verdict(difference, comparisons),
            };
            test.trials.push(Trial {
                microbenchmark: name.clone(),
                target: target.label.clone(),
                planted: planted / of_base,
                measured: difference.exp_m1(),
                interval: interval.map(|(low, high)| (low.exp_m1(), high.exp_m1())),
                detected,
            });
        }
        match cost {
            Cost::Instructions => {
                let null = others.iter().zip(&fit.means[1..]).filter(|((_, planted), _)| *planted == 0.0);
                test.noise.extend(null.map(|(_, mean)| (mean - fit.means[0]).abs()));
            }
            _ => test.noise.extend(fit.residual.map(|residual| residual * std::f64::consts::SQRT_2)),
        }
    }
    Some(test)
}

/// Complete blocks fitted by log(cost) = block + target + residual.
struct Fit {
    /// Mean of each target over the blocks.
    means: Vec<f64>,
    /// Standard deviation of a launch about its block and its target, from two blocks on.
    residual: Option<f64>,
    freedom: f64,
    blocks: f64,
}

impl Fit {
    fn of(blocks: &[&Block<'_>], targets: &[&TargetId]) -> Option<Self> {
        if blocks.is_empty() {
            return None;
        }
        let (rows, columns) = (blocks.len() as f64, targets.len() as f64);
        let means: Vec<f64> =
            targets.iter().map(|target| blocks.iter().map(|block| block[*target]).sum::<f64>() / rows).collect();
        let grand = means.iter().sum::<f64>() / columns;
        let mut squares = 0.0;
        for block in blocks {
            let of_block = targets.iter().map(|target| block[*target]).sum::<f64>() / columns;
            let residuals = targets.iter().zip(&means).map(|(target, mean)| block[*target] - of_block - mean + grand);
            squares += residuals.map(|residual| residual * residual).sum::<f64>();
        }
        let freedom = (rows - 1.0) * (columns - 1.0);
        let residual = (freedom > 0.0).then(|| (squares / freedom).sqrt());
        Some(Self { means, residual, freedom, blocks: rows })
    }

    /// The 95 % interval of a difference of two targets, and whether it differs from zero as one of `comparisons`.
    fn verdict(&self, difference: f64, comparisons: usize) -> (Option<(f64, f64)>, bool) {
        let Some(residual) = self.residual else { return (None, false) };
        let error = residual * (2.0 / self.blocks).sqrt();
        let half = |level: f64| t_quantile(1.0 - level / 2.0, self.freedom) * error;
        let shown = half(1.0 - CONFIDENCE);
        let called = difference.abs() > half((1.0 - CONFIDENCE) / comparisons.max(1) as f64);
        (Some((difference - shown, difference + shown)), called)
    }
}

fn t_quantile(below: f64, freedom: f64) -> f64 {
    // An infinite interval decides nothing, should there be no degree of freedom.
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(below))
}

fn clopper_pearson(cases: u32, of: u32) -> (f64, f64) {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let quantile = |a: u32, b: u32, below: f64, limit: f64| {
        Beta::new(f64::from(a), f64::from(b)).map_or(limit, |beta| beta.inverse_cdf(below))
    };
    let others = of - cases;
    let low = if cases == 0 { 0.0 } else { quantile(cases, others + 1, tail, 0.0) };
    let high = if others == 0 { 1.0 } else { quantile(cases + 1, others, 1.0 - tail, 1.0) };
    (low, high)
}

/// Microbenchmarks that a self-test's trials are about, each once, in their order.
#[must_use]
pub fn tried(test: &SelfTest) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let names = test.costs.iter().flat_map(|cost| &cost.trials).map(|trial| trial.microbenchmark.as_str());
    names.filter(|name| seen.insert(*name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_interval_of_the_tables() {
        // Rule of three's exact form: 1 − 0.025^(1/10); and the two-sided interval of 3 of 10.
        let (low, high) = clopper_pearson(0, 10);
        assert!(low == 0.0 && (high - (1.0 - 0.025f64.powf(0.1))).abs() < 1e-6, "{high}");
        let (low, high) = clopper_pearson(3, 10);
        assert!((low - 0.0667).abs() < 1e-3 && (high - 0.6525).abs() < 1e-3, "{low} {high}");
        assert_eq!(clopper_pearson(0, 0), (0.0, 1.0));
    }

    #[test]
    fn two_targets_give_the_paired_t_interval() {
        let ids = [TargetId("a".to_owned()), TargetId("b".to_owned())];
        let blocks: Vec<Block<'_>> = [0.10, 0.12, 0.08]
            .iter()
            .enumerate()
            .map(|(number, difference)| {
                let drift = number as f64;
                BTreeMap::from([(&ids[0], drift), (&ids[1], drift + difference)])
            })
            .collect();
        let fit = Fit::of(&blocks.iter().collect::<Vec<_>>(), &[&ids[0], &ids[1]]).unwrap();
        let difference = fit.means[1] - fit.means[0];
        // Differences 0.10, 0.12, 0.08: mean 0.10, sd 0.02, half width 4.302653 · 0.02 / √3.
        let (interval, called) = fit.verdict(difference, 1);
        let (low, high) = interval.unwrap();
        assert!((difference - 0.1).abs() < 1e-12);
        assert!((high - low - 2.0 * 4.302_653 * 0.02 / 3f64.sqrt()).abs() < 1e-6, "{low} {high}");
        assert!(called);
        assert!(!fit.verdict(difference, 1000).1, "one of many has to be clearer");
        assert!((fit.residual.unwrap() * std::f64::consts::SQRT_2 - 0.02).abs() < 1e-12);
    }

    #[test]
    fn more_launches_find_less() {
        let test = CostTest { cost: Cost::BackendCpu, noise: vec![0.03, 0.01, 0.012], trials: Vec::new() };
        assert_eq!(test.median_noise(), Some(0.012));
        let of = |launches| test.detectable(launches, 1).unwrap();
        // (t(0.975, 9) + t(0.9, 9)) · 0.012 / √10 = (2.262 + 1.383) · 0.003795
        assert!((of(10) - 0.013_832).abs() < 1e-5, "{}", of(10));
        assert!(of(5) > of(10) && test.detectable(10, 42).unwrap() > of(10));
        assert_eq!(test.detectable(1, 1), None);
        let counts = CostTest { cost: Cost::Instructions, noise: vec![0.0001, 0.0003], trials: Vec::new() };
        assert!((counts.detectable(2, 42).unwrap() - INSTRUCTIONS_THRESHOLD - 0.0003).abs() < 1e-12);
    }
}
