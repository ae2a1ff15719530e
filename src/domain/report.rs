//! What is shown: cells, ratios and summaries. `analysis` computes these, `site` and `cli` draw them.

use serde::{Deserialize, Serialize};

use super::{Group, Microbenchmark, RateUnit, StatementPlan, SweepManifest, TargetId};

/// Everything that tables and pages show of one sweep, relative to one base.
#[derive(Debug, Clone)]
pub struct Report {
    /// The sweep.
    pub manifest: SweepManifest,
    /// Index into `manifest.targets` of the base.
    pub base: usize,
    /// The groups, in the order of the tables.
    pub groups: Vec<Group>,
    /// One row per microbenchmark, in run order (imported tables: in the tables' order).
    pub rows: Vec<ReportRow>,
    /// One entry per target, in the order of `manifest.targets`.
    pub summaries: Vec<TargetSummary>,
    /// What the base came to against itself, where the sweep measured it twice.
    pub blind: Option<Blind>,
    /// Things a reader must know before believing a ratio; already full sentences.
    pub warnings: Vec<String>,
}

/// The base's build against itself, judged as a target is: every difference is one of the machine and the method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blind {
    /// Microbenchmarks that both have.
    pub compared: usize,
    /// Names of those that were called faster or slower.
    pub false_verdicts: Vec<String>,
    /// Those whose 95 % interval leaves out 1, of those that have one; 5 in 100 are expected.
    pub missed: usize,
    /// How many have an interval.
    pub intervals: usize,
    /// Median over the microbenchmarks of the distance of the ratio from 1, as a share.
    pub median_distance: f64,
    /// The largest such distance, and whose it is.
    pub largest: (String, f64),
}

/// One microbenchmark over all targets.
#[derive(Debug, Clone)]
pub struct ReportRow {
    /// Row name.
    pub name: String,
    /// Group name.
    pub group: String,
    /// What its rate counts.
    pub unit: RateUnit,
    /// The definition; absent when an imported table names a row that the suite does not have.
    pub definition: Option<Microbenchmark>,
    /// One cell per target, in the order of `manifest.targets`.
    pub cells: Vec<Cell>,
}

/// One microbenchmark on one target over its launches.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Mean rate over launches in the row's unit; `None` when nothing was measured.
    pub rate: Option<f64>,
    /// Rate of each measured launch, in block order.
    pub launch_rates: Vec<f64>,
    /// Why there is no rate, if a slice failed.
    pub failure: Option<String>,
    /// Why its rate decides nothing: all of its slices are noisy.
    pub noisy: Option<String>,
    /// Rate relative to the base; `None` where either side is missing.
    pub relative: Option<RelativeQps>,
    /// CPU time of the backend per query relative to the base.
    pub cpu_cost: Option<RelativeCost>,
    /// Instructions of the backend per query relative to the base.
    pub instructions_cost: Option<RelativeCost>,
    /// CPU microseconds of the backend per query.
    pub backend_cpu_us_per_query: Option<f64>,
    /// CPU microseconds of the client per query.
    pub client_cpu_us_per_query: Option<f64>,
    /// WAL bytes per query.
    pub wal_bytes_per_query: Option<f64>,
    /// Buffers touched (hit or read) per query.
    pub buffers_per_query: Option<f64>,
    /// Context switches of the backend per query.
    pub switches_per_query: Option<f64>,
    /// Mean over launches of the median of event latency in microseconds.
    pub latency_us_p50: Option<f64>,
    /// Mean over launches of the 95th percentile of event latency in microseconds.
    pub latency_us_p95: Option<f64>,
    /// Mean over launches of the 99th percentile of event latency in microseconds.
    pub latency_us_p99: Option<f64>,
    /// The longest event of all launches in microseconds.
    pub latency_us_max: Option<f64>,
    /// Instructions of the backend in user space per query.
    pub instructions_per_query: Option<f64>,
    /// The same relative to the base.
    pub relative_instructions: Option<RelativeInstructions>,
    /// How each measured launch went, in block order.
    pub courses: Vec<Course>,
    /// Plans of the statements in the first block that has them.
    pub plans: Vec<StatementPlan>,
    /// Blocks in which a plan had another shape than that.
    pub replanned: Vec<u32>,
}

/// How a slice went, second by second.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Course {
    /// The block.
    pub block: u32,
    /// Queries completed in each full second of the measured stretches.
    pub queries_by_second: Vec<u32>,
    /// Checkpoints that began in the slice.
    pub checkpoints: Option<u64>,
    /// Automatic vacuums and analyzes in it.
    pub autovacuums: Option<u64>,
}

/// Instructions per query of a target / those of the base; below 1 is less work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeInstructions {
    /// Geometric mean of the ratios inside each block.
    pub ratio: f64,
    /// Whether the ratio is further from 1 than counts of equal servers are. Unknown for counts of the processor,
    /// which depend on all that the machine does.
    pub changed: Option<bool>,
}

impl Cell {
    /// Whether anything is known about it: a rate, or what its queries cost.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        self.rate.is_some() || self.instructions_per_query.is_some()
    }
}

/// What a comparison with the base is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Queries per second: more is better.
    Qps,
    /// CPU time of the backend per query: less is better.
    BackendCpu,
    /// Instructions of the backend per query: less is better.
    Instructions,
}

impl Metric {
    /// Whether a larger value is a worse one.
    #[must_use]
    pub const fn is_cost(self) -> bool {
        !matches!(self, Self::Qps)
    }
}

/// QPS(target) / QPS(base); above 1 is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeQps {
    /// Geometric mean of the ratios inside each block.
    pub ratio: f64,
    /// 95 % interval; `None` with fewer than two common blocks.
    pub interval: Option<(f64, f64)>,
    /// The answer.
    pub verdict: Verdict,
    /// How sure it is.
    pub certainty: Certainty,
}

/// cost(target) / cost(base) per query: **above 1 is dearer**, the other way round than [`RelativeQps`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeCost {
    /// Geometric mean of the ratios inside each block.
    pub cost_ratio: f64,
    /// 95 % interval; `None` with fewer than two common blocks.
    pub interval: Option<(f64, f64)>,
    /// The answer: `Improved` is cheaper, `Regressed` is dearer.
    pub verdict: Verdict,
    /// How sure it is.
    pub certainty: Certainty,
}

/// What stands behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Certainty {
    /// Whether launches later than those that showed the change show it alone.
    pub confirmed: bool,
    /// Whether a look showed a change that fresh launches have not confirmed yet; the verdict is
    /// `Inconclusive` until they do.
    pub flagged: bool,
    /// The largest change that the interval leaves possible, as a share of the base: 0.012 is 1.2 %.
    pub bound: Option<f64>,
    /// What would decide an open case.
    pub wanted: Option<LaunchesWanted>,
}

/// Launches that would decide.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LaunchesWanted {
    /// How many more per target.
    pub more: u32,
    /// The change that they would find if it is there, as a share of the base.
    pub settles: f64,
}

impl RelativeQps {
    /// The answer in words, without the interval: `slower by 3.1 %`, `no change larger than 1.2 %`.
    #[must_use]
    pub fn words(&self) -> String {
        words(self.ratio, self.verdict, &self.certainty, ["faster", "slower"])
    }
}

impl RelativeCost {
    /// The answer in words, without the interval: `dearer by 3.1 %`, `no change larger than 1.2 %`.
    #[must_use]
    pub fn words(&self) -> String {
        words(self.cost_ratio, self.verdict, &self.certainty, ["dearer", "cheaper"])
    }
}

/// `above` and `below` say what a ratio above and below 1 means.
fn words(ratio: f64, verdict: Verdict, certainty: &Certainty, [above, below]: [&str; 2]) -> String {
    let direction = if ratio > 1.0 { above } else { below };
    let change = format!("{direction} by {}", percent((ratio - 1.0).abs()));
    match verdict {
        Verdict::Improved | Verdict::Regressed if certainty.confirmed => change,
        Verdict::Improved | Verdict::Regressed => format!("{change}, not confirmed"),
        Verdict::Same => certainty
            .bound
            .map_or_else(|| "no change".to_owned(), |bound| format!("no change larger than {}", at_most(bound))),
        Verdict::Inconclusive if certainty.flagged => format!("perhaps {change}; fresh launches have to confirm it"),
        Verdict::Inconclusive => match (certainty.wanted, certainty.bound) {
            (Some(LaunchesWanted { more, settles }), _) => {
                let noun = if more == 1 { "launch" } else { "launches" };
                format!("cannot tell yet; about {more} more {noun} would settle {} %", settles * 100.0)
            }
            (None, Some(bound)) => format!("cannot tell; no change larger than {}", at_most(bound)),
            (None, None) => "cannot tell yet".to_owned(),
        },
    }
}

/// A bound in percent; never rounded down, so that it stays one.
fn at_most(share: f64) -> String {
    percent((share * 1000.0).ceil() / 1000.0)
}

/// A share of the base in percent with one decimal.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(ratio: f64, verdict: Verdict, certainty: Certainty) -> RelativeQps {
        RelativeQps { ratio, interval: None, verdict, certainty }
    }

    #[test]
    fn answers_have_a_size_a_bound_or_a_way_on() {
        let confirmed = Certainty { confirmed: true, ..Certainty::default() };
        let bound = Certainty { bound: Some(0.0112), ..Certainty::default() };
        let flagged = Certainty { flagged: true, ..Certainty::default() };
        let wanted = |more| Certainty { wanted: Some(LaunchesWanted { more, settles: 0.02 }), ..Certainty::default() };
        for (ratio, verdict, certainty, words) in [
            (0.969, Verdict::Regressed, confirmed, "slower by 3.1 %"),
            (1.25, Verdict::Improved, Certainty::default(), "faster by 25.0 %, not confirmed"),
            (1.001, Verdict::Same, bound, "no change larger than 1.2 %"),
            (0.97, Verdict::Inconclusive, flagged, "perhaps slower by 3.0 %; fresh launches have to confirm it"),
            (0.97, Verdict::Inconclusive, wanted(9), "cannot tell yet; about 9 more launches would settle 2 %"),
            (0.97, Verdict::Inconclusive, wanted(1), "cannot tell yet; about 1 more launch would settle 2 %"),
            (0.99, Verdict::Inconclusive, bound, "cannot tell; no change larger than 1.2 %"),
            (0.97, Verdict::Inconclusive, Certainty::default(), "cannot tell yet"),
        ] {
            assert_eq!(relative(ratio, verdict, certainty).words(), words);
        }
        let cost = RelativeCost { cost_ratio: 1.04, interval: None, verdict: Verdict::Regressed, certainty: confirmed };
        assert_eq!(cost.words(), "dearer by 4.0 %");
    }
}

/// The three-way answer, and the honest fourth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The interval lies above the threshold.
    Improved,
    /// The interval lies below the threshold.
    Regressed,
    /// The interval lies inside the threshold on both sides: shown, not assumed.
    Same,
    /// Too few launches or too wide an interval.
    Inconclusive,
}

/// The answers of a sweep relative to each of its targets in turn, as the reports on those bases have them.
///
/// An answer relative to another base does not follow from two answers relative to this one: the interval of a
/// quotient needs the blocks, and the verdict all comparisons with the same base.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs {
    /// By base, row and target, in the order of the report.
    answers: Vec<Vec<Vec<Option<RelativeQps>>>>,
}

impl Pairs {
    /// Of answers by base, row and target.
    #[must_use]
    pub const fn new(answers: Vec<Vec<Vec<Option<RelativeQps>>>>) -> Self {
        Self { answers }
    }

    /// Rate of `target` relative to that of `base` on a row; `None` where either side is missing.
    #[must_use]
    pub fn relative(&self, base: usize, row: usize, target: usize) -> Option<RelativeQps> {
        *self.answers.get(base)?.get(row)?.get(target)?
    }
}

/// Group summaries of one target relative to the base.
#[derive(Debug, Clone)]
pub struct TargetSummary {
    /// The target.
    pub target: TargetId,
    /// One entry per group that has at least one ratio, in suite order.
    pub groups: Vec<GroupSummary>,
}

/// Summary of relative QPS over the microbenchmarks of one group, by the article's rule: ratios
/// rounded to two decimals first, then these statistics rounded half up to two decimals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Group name.
    pub group: String,
    /// Microbenchmarks that have a ratio.
    pub count: usize,
    /// Smallest ratio.
    pub min: f64,
    /// Largest ratio.
    pub max: f64,
    /// Mean.
    pub avg: f64,
    /// Median; mean of the middle two for an even count.
    pub median: f64,
    /// Sample standard deviation (n − 1); `None` for a single ratio.
    pub stdev: Option<f64>,
}
