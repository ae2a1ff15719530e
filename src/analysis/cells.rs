//! Slices → cells and their ratios, as queries over one frame.

use std::collections::{BTreeMap, BTreeSet};

use polars::prelude::*;

use super::layout::Layout;
use super::verdict::{Design, Judged, JudgedRow, judge};
use super::{AnalysisError, Cell, Origin, RateUnit, RelativeQps, ReportRow, SliceRecord, SweepManifest, Verdict};
use crate::domain::{
    Certainty, Course, Measurement, Metric, Outcome, Pairs, Protocol, RelativeCost, StatementPlan, TargetId,
};

/// Numbers of a launch that a cell averages (of a maximum, it takes the largest); each is a column named like the cell's
/// field.
struct Statistic {
    name: &'static str,
    of: fn(&Measurement) -> Option<f64>,
    set: fn(&mut Cell, Option<f64>),
}

const STATISTICS: [Statistic; 10] = [
    Statistic {
        name: "backend_cpu_us_per_query",
        of: |m| per_query(m, m.backend_cpu_ns).map(|ns| ns / 1e3),
        set: |cell, mean| cell.backend_cpu_us_per_query = mean,
    },
    Statistic {
        name: "client_cpu_us_per_query",
        of: |m| per_query(m, m.client_cpu_ns).map(|ns| ns / 1e3),
        set: |cell, mean| cell.client_cpu_us_per_query = mean,
    },
    Statistic {
        name: "wal_bytes_per_query",
        of: |m| per_query(m, m.wal_bytes),
        set: |cell, mean| cell.wal_bytes_per_query = mean,
    },
    Statistic {
        name: "buffers_per_query",
        of: |m| per(m.buffers_queries, sum(m.buffers_hit, m.buffers_read)),
        set: |cell, mean| cell.buffers_per_query = mean,
    },
    Statistic {
        name: "switches_per_query",
        of: |m| per_query(m, sum(m.backend_voluntary_switches, m.backend_involuntary_switches)),
        set: |cell, mean| cell.switches_per_query = mean,
    },
    Statistic {
        name: "latency_us_p50",
        of: |m| m.published_rate.is_none().then_some(m.latency_us_p50),
        set: |cell, mean| cell.latency_us_p50 = mean,
    },
    Statistic {
        name: "latency_us_p95",
        of: |m| m.published_rate.is_none().then_some(m.latency_us_p95),
        set: |cell, mean| cell.latency_us_p95 = mean,
    },
    Statistic {
        name: "latency_us_p99",
        of: |m| m.published_rate.is_none().then_some(m.latency_us_p99),
        set: |cell, mean| cell.latency_us_p99 = mean,
    },
    Statistic {
        name: LARGEST,
        of: |m| m.published_rate.is_none().then_some(m.latency_us_max),
        set: |cell, largest| cell.latency_us_max = largest,
    },
    Statistic {
        name: "instructions_per_query",
        of: |m| per_query(m, m.instructions),
        set: |cell, mean| cell.instructions_per_query = mean,
    },
];

/// The one statistic of which the largest counts: the mean of maxima says nothing.
const LARGEST: &str = "latency_us_max";

/// The column that a metric's comparisons are made from.
const fn column(metric: Metric) -> &'static str {
    match metric {
        Metric::Qps => "rate",
        Metric::BackendCpu => "backend_cpu_us_per_query",
        Metric::Instructions => "instructions_per_query",
    }
}

fn per_query(measurement: &Measurement, count: Option<u64>) -> Option<f64> {
    per(measurement.queries, count)
}

fn per(queries: u64, count: Option<u64>) -> Option<f64> {
    count.filter(|_| queries > 0).map(|count| count as f64 / queries as f64)
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

/// The rate of a slice in the row's unit; `None` when the stretch has no length.
fn rate(measurement: &Measurement, unit: RateUnit, protocol: Option<&Protocol>) -> Option<f64> {
    let rate = measurement.published_rate.or_else(|| match unit {
        RateUnit::Qps => Some(measurement.qps()),
        // One execution reads the whole table.
        RateUnit::MegarowsPerSecond => {
            Some(measurement.events as f64 / measurement.seconds * protocol?.rows as f64 / 1e6)
        }
    });
    rate.filter(|rate| rate.is_finite())
}

/// A measured slice with its place in the report.
struct Sample<'a> {
    row: u32,
    target: u32,
    slice: &'a SliceRecord,
    measurement: &'a Measurement,
    rate: Option<f64>,
}

/// Fills the cells of `rows` from the slices, relative to the target at `base`. Returns the layouts of the rates,
/// which warnings are made from as well.
pub(super) fn fill(
    rows: &mut [ReportRow],
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    base: usize,
) -> Result<Vec<Layout>, AnalysisError> {
    let samples = samples(rows, manifest, slices);
    let launches = launches(&samples)?;
    fill_means(rows, &launches)?;
    fill_courses(rows, samples);
    let size = (rows.len(), manifest.targets.len());
    for metric in [Metric::Qps, Metric::BackendCpu, Metric::Instructions] {
        answer(rows, &launches, metric, base, manifest, slices)?;
    }
    fill_base(rows, base);
    decide_nothing_by_noise(rows, base);
    Ok(layouts(&launches, Metric::Qps, size, base)?)
}

/// The answers about rates relative to each target in turn; `rows` is left with those of the last.
pub(super) fn pairs(
    rows: &mut [ReportRow],
    manifest: &SweepManifest,
    slices: &[SliceRecord],
) -> Result<Pairs, AnalysisError> {
    let samples = samples(rows, manifest, slices);
    let launches = launches(&samples)?;
    fill_means(rows, &launches)?;
    let mut answers = Vec::new();
    for base in 0..manifest.targets.len() {
        rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.relative = None);
        answer(rows, &launches, Metric::Qps, base, manifest, slices)?;
        fill_base(rows, base);
        decide_nothing_by_noise(rows, base);
        answers.push(rows.iter().map(|row| row.cells.iter().map(|cell| cell.relative).collect()).collect());
    }
    Ok(Pairs::new(answers))
}

/// Judges one metric relative to the target at `base` and puts the answers into their cells.
fn answer(
    rows: &mut [ReportRow],
    launches: &DataFrame,
    metric: Metric,
    base: usize,
    manifest: &SweepManifest,
    slices: &[SliceRecord],
) -> Result<(), AnalysisError> {
    if let Origin::Imported { .. } = manifest.origin {
        for (row, target, layout, judged) in judge_printed(launches, metric, base)? {
            set(rows, row, target, metric, Some(judged), layout.single_ratio(1));
        }
        return Ok(());
    }
    let size = (rows.len(), manifest.targets.len());
    let layouts = closed_layouts(launches, metric, size, base, manifest, rows, slices)?;
    for (row, judged) in judge(&layouts, design(manifest)).iter().enumerate() {
        for (target, judged) in judged.comparisons.iter().enumerate() {
            set(rows, row, target, metric, *judged, layouts[row].single_ratio(target));
        }
    }
    Ok(())
}

/// How far the rows have come, judged by their rates; where nothing was timed, by their instructions.
pub(super) fn standing(
    rows: &mut [ReportRow],
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    base: usize,
    design: Design,
) -> Result<Vec<JudgedRow>, AnalysisError> {
    let samples = samples(rows, manifest, slices);
    let launches = launches(&samples)?;
    let timed = samples.iter().any(|sample| sample.rate.is_some());
    let metric = if timed { Metric::Qps } else { Metric::Instructions };
    let size = (rows.len(), manifest.targets.len());
    Ok(judge(&closed_layouts(&launches, metric, size, base, manifest, rows, slices)?, design))
}

fn design(manifest: &SweepManifest) -> Design {
    manifest.stopping.map_or(Design::Fixed, Design::Sequential)
}

/// Places the measured slices; notes the reasons of those that failed. Noisy ones are left out where the cell has
/// clean ones; where it has none they stand in, and the cell says so.
fn samples<'a>(rows: &mut [ReportRow], manifest: &SweepManifest, slices: &'a [SliceRecord]) -> Vec<Sample<'a>> {
    let protocol = match &manifest.origin {
        Origin::Measured { protocol, .. } => Some(&**protocol),
        Origin::Imported { .. } => None,
    };
    let (mut samples, mut noisy) = (Vec::new(), Vec::new());
    for slice in slices.iter().filter(|slice| !slice.is_counting()) {
        let row = rows.iter().position(|row| row.name == slice.microbenchmark);
        let target = manifest.targets.iter().position(|target| target.id == slice.target);
        let (Some(row), Some(target)) = (row, target) else { continue };
        let cell = &mut rows[row].cells[target];
        match &slice.outcome {
            Outcome::Failed(reason) => cell.failure = Some(reason.clone()),
            Outcome::Measured(measurement) => {
                if let Some(reason) = measurement.noise.first() {
                    cell.noisy.get_or_insert_with(|| format!("all of its slices are noisy: {reason}"));
                }
                let rate = rate(measurement, rows[row].unit, protocol);
                let sample = Sample { row: index(row), target: index(target), slice, measurement, rate };
                if measurement.noise.is_empty() { &mut samples } else { &mut noisy }.push(sample);
            }
        }
    }
    for sample in &samples {
        rows[sample.row as usize].cells[sample.target as usize].noisy = None;
    }
    samples.extend(
        noisy.into_iter().filter(|sample| rows[sample.row as usize].cells[sample.target as usize].noisy.is_some()),
    );
    samples
}

fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// One line per row, target and block, in block order.
fn launches(samples: &[Sample<'_>]) -> PolarsResult<DataFrame> {
    let mut columns = vec![
        Column::new("row".into(), samples.iter().map(|sample| sample.row).collect::<Vec<_>>()),
        Column::new("target".into(), samples.iter().map(|sample| sample.target).collect::<Vec<_>>()),
        Column::new("block".into(), samples.iter().map(|sample| sample.slice.block).collect::<Vec<_>>()),
        Column::new("launch".into(), samples.iter().map(|sample| sample.slice.launch.as_str()).collect::<Vec<_>>()),
        Column::new("rate".into(), samples.iter().map(|sample| sample.rate).collect::<Vec<_>>()),
    ];
    for statistic in &STATISTICS {
        let values: Vec<Option<f64>> = samples.iter().map(|sample| (statistic.of)(sample.measurement)).collect();
        columns.push(Column::new(statistic.name.into(), values));
    }
    let in_order = SortMultipleOptions::default().with_maintain_order(true);
    DataFrame::new(samples.len(), columns)?.lazy().sort(["row", "target", "block"], in_order).collect()
}

/// Means over launches. A launch that was printed in several imported tables counts once.
fn fill_means(rows: &mut [ReportRow], launches: &DataFrame) -> PolarsResult<()> {
    let numbers = || std::iter::once("rate").chain(STATISTICS.iter().map(|statistic| statistic.name));
    let firsts: Vec<Expr> = numbers().map(|name| col(name).first()).collect();
    let together = |name: &str| if name == LARGEST { col(name).max() } else { col(name).mean() };
    let mut means: Vec<Expr> = numbers().map(together).collect();
    means.push(col("rate").drop_nulls().alias("rates"));
    let cells = launches
        .clone()
        .lazy()
        .group_by_stable([col("row"), col("target"), col("launch")])
        .agg(firsts)
        .group_by_stable([col("row"), col("target")])
        .agg(means)
        .collect()?;
    let (row, target) = (cells.column("row")?.u32()?, cells.column("target")?.u32()?);
    let (rate, rates) = (cells.column("rate")?.f64()?, cells.column("rates")?.list()?);
    for line in 0..cells.height() {
        let Some(cell) = cell(rows, row.get(line), target.get(line)) else { continue };
        // Another block's measurement is an answer; what went wrong stays in the warnings.
        cell.failure = None;
        cell.rate = rate.get(line);
        cell.launch_rates = numbers_of(rates, line)?;
        for statistic in &STATISTICS {
            (statistic.set)(cell, cells.column(statistic.name)?.f64()?.get(line));
        }
    }
    Ok(())
}

/// What is not averaged: how each launch went, and how its server meant to run the statements.
fn fill_courses(rows: &mut [ReportRow], mut samples: Vec<Sample<'_>>) {
    samples.sort_by_key(|sample| sample.slice.block);
    for Sample { row, target, slice, measurement, .. } in samples {
        let Some(cell) = cell(rows, Some(row), Some(target)) else { continue };
        if measurement.published_rate.is_none() {
            cell.courses.push(Course {
                block: slice.block,
                queries_by_second: measurement.queries_by_second.clone(),
                checkpoints: measurement.checkpoints,
                autovacuums: measurement.autovacuums,
            });
        }
        if cell.plans.is_empty() {
            cell.plans.clone_from(&measurement.plans);
        } else if !measurement.plans.is_empty() && shapes(&cell.plans) != shapes(&measurement.plans) {
            cell.replanned.push(slice.block);
        }
    }
}

fn shapes(plans: &[StatementPlan]) -> Vec<(usize, Vec<String>)> {
    plans.iter().map(|plan| (plan.statement, plan.plan.lines())).collect()
}

/// Row, target, block and value of a metric, in that order; more is better, and costs are turned over.
fn values(launches: &DataFrame, metric: Metric) -> PolarsResult<DataFrame> {
    let value = if metric.is_cost() { lit(1.0) / col(column(metric)) } else { col(column(metric)) };
    launches
        .clone()
        .lazy()
        .filter(col(column(metric)).gt(lit(0.0)))
        .select([col("row"), col("target"), col("block"), col("launch"), value.alias("value")])
        .collect()
}

/// One layout per row, of rows × targets.
fn layouts(
    launches: &DataFrame,
    metric: Metric,
    (rows, targets): (usize, usize),
    base: usize,
) -> PolarsResult<Vec<Layout>> {
    let in_order = SortMultipleOptions::default().with_maintain_order(true);
    let blocks = values(launches, metric)?
        .lazy()
        .sort(["row", "block"], in_order)
        .group_by_stable([col("row"), col("block")])
        .agg([col("target"), col("value")])
        .collect()?;
    let (row, block) = (blocks.column("row")?.u32()?, blocks.column("block")?.u32()?);
    let (target, value) = (blocks.column("target")?.list()?, blocks.column("value")?.list()?);
    let mut layouts = vec![Layout::new(targets, base); rows];
    for line in 0..blocks.height() {
        let (Some(row), Some(block)) = (row.get(line), block.get(line)) else { continue };
        let mut in_block = vec![None; targets];
        if let Some(places) = target.get_as_series(line) {
            for (place, value) in places.u32()?.iter().flatten().zip(numbers_of(value, line)?) {
                in_block[place as usize] = Some(value);
            }
        }
        layouts[row as usize].push(block, in_block);
    }
    Ok(layouts)
}

/// Layouts that know which blocks are over.
fn closed_layouts(
    launches: &DataFrame,
    metric: Metric,
    size: (usize, usize),
    base: usize,
    manifest: &SweepManifest,
    rows: &[ReportRow],
    slices: &[SliceRecord],
) -> PolarsResult<Vec<Layout>> {
    let mut layouts = layouts(launches, metric, size, base)?;
    let wanted = |slice: &&SliceRecord| manifest.targets.iter().any(|target| target.id == slice.target);
    let mut records: BTreeMap<&str, BTreeMap<u32, BTreeSet<&TargetId>>> = BTreeMap::new();
    for slice in slices.iter().filter(wanted) {
        let row = records.entry(slice.microbenchmark.as_str()).or_default();
        row.entry(slice.block).or_default().insert(&slice.target);
    }
    for (row, layout) in rows.iter().zip(&mut layouts) {
        layout.close(records.get(row.name.as_str()).map_or(0, last_closed));
    }
    Ok(layouts)
}

/// The last block that no slice will be added to. All earlier ones are over when a block has begun; the latest is
/// when it has everything that the one before it has, failures too.
fn last_closed(blocks: &BTreeMap<u32, BTreeSet<&TargetId>>) -> u32 {
    let mut latest = blocks.iter().rev();
    let Some((block, targets)) = latest.next() else { return 0 };
    match latest.next() {
        Some((_, before)) if !before.is_subset(targets) => block - 1,
        _ => *block,
    }
}

/// Judges an imported sweep. Each pair of printed launches counts once, in however many tables it stands, and there
/// is no noise that columns printed at different times would share: pairs are judged each by itself.
fn judge_printed(
    launches: &DataFrame,
    metric: Metric,
    base: usize,
) -> PolarsResult<Vec<(usize, usize, Layout, Judged)>> {
    let values = values(launches, metric)?;
    let bases = values.clone().lazy().filter(col("target").eq(lit(index(base)))).select([
        col("row"),
        col("block"),
        col("value").alias("base_value"),
        col("launch").alias("base_launch"),
    ]);
    let keys = [col("row"), col("block")];
    let in_order = SortMultipleOptions::default().with_maintain_order(true);
    let pairs = values
        .lazy()
        .filter(col("target").neq(lit(index(base))))
        .join(bases, &keys, &keys, JoinArgs::new(JoinType::Inner))
        .sort(["row", "target", "block"], in_order)
        .group_by_stable([col("row"), col("target"), col("launch"), col("base_launch")])
        .agg([col("value").first(), col("base_value").first()])
        .group_by_stable([col("row"), col("target")])
        .agg([col("value"), col("base_value")])
        .collect()?;
    let (row, target) = (pairs.column("row")?.u32()?, pairs.column("target")?.u32()?);
    let (value, base_value) = (pairs.column("value")?.list()?, pairs.column("base_value")?.list()?);
    let (mut places, mut layouts) = (Vec::new(), Vec::new());
    for line in 0..pairs.height() {
        let (Some(row), Some(target)) = (row.get(line), target.get(line)) else { continue };
        let mut layout = Layout::new(2, 0);
        for ((number, value), base) in (1..).zip(numbers_of(value, line)?).zip(numbers_of(base_value, line)?) {
            layout.push(number, vec![Some(base), Some(value)]);
        }
        places.push((row as usize, target as usize));
        layouts.push(layout);
    }
    let judged = judge(&layouts, Design::Fixed).into_iter().filter_map(|row| row.comparisons[1]);
    Ok(places
        .into_iter()
        .zip(layouts)
        .zip(judged)
        .map(|(((row, target), layout), judged)| (row, target, layout, judged))
        .collect())
}

/// Puts an answer into its cell; `single` is the ratio where it needs no logarithms.
fn set(rows: &mut [ReportRow], row: usize, target: usize, metric: Metric, judged: Option<Judged>, single: Option<f64>) {
    let (Some(judged), Some(row)) = (judged, rows.get_mut(row)) else { return };
    let cell = &mut row.cells[target];
    let (verdict, certainty) = (judged.verdict, judged.certainty);
    let ratio = single.unwrap_or_else(|| judged.log.exp());
    let interval = judged.interval.map(|(low, high)| (low.exp(), high.exp()));
    if metric == Metric::Qps {
        cell.relative = Some(RelativeQps { ratio, interval, verdict, certainty });
        return;
    }
    // What costs less is better: values were turned over.
    let interval = interval.map(|(low, high)| (1.0 / high, 1.0 / low));
    let cost = Some(RelativeCost { cost_ratio: 1.0 / ratio, interval, verdict, certainty });
    match metric {
        Metric::Instructions => cell.instructions_cost = cost,
        Metric::BackendCpu | Metric::Qps => cell.cpu_cost = cost,
    }
}

/// A ratio of which one side has noisy slices only is shown, and is no answer.
fn decide_nothing_by_noise(rows: &mut [ReportRow], base: usize) {
    for row in rows {
        let is_base_noisy = row.cells[base].noisy.is_some();
        let others = row.cells.iter_mut().enumerate().filter(|(index, _)| *index != base).map(|(_, cell)| cell);
        for cell in others.filter(|cell| is_base_noisy || cell.noisy.is_some()) {
            if let Some(relative) = &mut cell.relative {
                (relative.verdict, relative.certainty) = (Verdict::Inconclusive, Certainty::default());
            }
            if let Some(cost) = &mut cell.cpu_cost {
                (cost.verdict, cost.certainty) = (Verdict::Inconclusive, Certainty::default());
            }
        }
    }
}

/// The base relative to itself: by definition, not by measurement.
fn fill_base(rows: &mut [ReportRow], base: usize) {
    let (interval, verdict, certainty) = (None, Verdict::Same, Certainty::default());
    for cell in rows.iter_mut().map(|row| &mut row.cells[base]) {
        if cell.rate.is_some_and(|rate| rate > 0.0) {
            cell.relative = Some(RelativeQps { ratio: 1.0, interval, verdict, certainty });
        }
    }
}

fn cell(rows: &mut [ReportRow], row: Option<u32>, target: Option<u32>) -> Option<&mut Cell> {
    rows.get_mut(row? as usize)?.cells.get_mut(target? as usize)
}

fn numbers_of(lists: &ListChunked, line: usize) -> PolarsResult<Vec<f64>> {
    let Some(list) = lists.get_as_series(line) else { return Ok(Vec::new()) };
    Ok(list.f64()?.iter().flatten().collect())
}
