//! What is shown: cells, ratios and summaries. `analysis` computes these, `site` and `cli` draw them.

use serde::Serialize;

use super::{Group, Microbenchmark, RateUnit, SweepManifest, TargetId};

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
    /// Things a reader must know before believing a ratio; already full sentences.
    pub warnings: Vec<String>,
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
    /// Rate relative to the base; `None` where either side is missing.
    pub relative: Option<RelativeQps>,
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
    /// Mean over launches of the 95th percentile of event latency in microseconds.
    pub latency_us_p95: Option<f64>,
    /// Instructions of the backend in user space per query.
    pub instructions_per_query: Option<f64>,
    /// The same relative to the base.
    pub relative_instructions: Option<RelativeInstructions>,
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

/// QPS(target) / QPS(base); above 1 is faster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RelativeQps {
    /// Geometric mean of the ratios inside each block.
    pub ratio: f64,
    /// 95 % interval; `None` with fewer than two common blocks.
    pub interval: Option<(f64, f64)>,
    /// The answer.
    pub verdict: Verdict,
}

/// The three-way answer, and the honest fourth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
