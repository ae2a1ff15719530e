//! Slices → cells and their ratios, as queries over one frame.

use polars::prelude::*;

use super::{
    AnalysisError, Cell, Origin, RateUnit, RelativeQps, ReportRow, SliceRecord, SweepManifest, Verdict, verdict,
};
use crate::domain::{Measurement, Outcome, Protocol};

/// Numbers of a launch that a cell averages; each is a column named like the cell's field.
struct Statistic {
    name: &'static str,
    of: fn(&Measurement) -> Option<f64>,
    set: fn(&mut Cell, Option<f64>),
}

const STATISTICS: [Statistic; 6] = [
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
        name: "latency_us_p95",
        of: |m| m.published_rate.is_none().then_some(m.latency_us_p95),
        set: |cell, mean| cell.latency_us_p95 = mean,
    },
];

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
    rate: f64,
}

/// Fills the cells of `rows` from the slices, relative to the target at `base`.
pub(super) fn fill(
    rows: &mut [ReportRow],
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    base: usize,
) -> Result<(), AnalysisError> {
    let samples = samples(rows, manifest, slices);
    let launches = launches(&samples)?;
    fill_means(rows, &launches)?;
    let ratios = block_ratios(&launches, base)?;
    fill_relative(rows, &ratios, base)?;
    Ok(())
}

/// Places the measured slices; notes the reasons of those that failed.
fn samples<'a>(rows: &mut [ReportRow], manifest: &SweepManifest, slices: &'a [SliceRecord]) -> Vec<Sample<'a>> {
    let protocol = match &manifest.origin {
        Origin::Measured { protocol, .. } => Some(&**protocol),
        Origin::Imported { .. } => None,
    };
    let mut samples = Vec::new();
    for slice in slices.iter().filter(|slice| !slice.is_counting()) {
        let row = rows.iter().position(|row| row.name == slice.microbenchmark);
        let target = manifest.targets.iter().position(|target| target.id == slice.target);
        let (Some(row), Some(target)) = (row, target) else { continue };
        match &slice.outcome {
            Outcome::Failed(reason) => rows[row].cells[target].failure = Some(reason.clone()),
            Outcome::Measured(measurement) => {
                let Some(rate) = rate(measurement, rows[row].unit, protocol) else { continue };
                samples.push(Sample { row: index(row), target: index(target), slice, measurement, rate });
            }
        }
    }
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
    let mut means: Vec<Expr> = numbers().map(|name| col(name).mean()).collect();
    means.push(col("rate").alias("rates"));
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
        // Another block's measurement is an answer; the failure stays in the warnings.
        cell.failure = None;
        cell.rate = rate.get(line);
        cell.launch_rates = numbers_of(rates, line)?;
        for statistic in &STATISTICS {
            (statistic.set)(cell, cells.column(statistic.name)?.f64()?.get(line));
        }
    }
    Ok(())
}

/// The ratios to the base inside each block, as a list per row and target in block order. A pair of
/// launches that was printed in several imported tables counts once.
fn block_ratios(launches: &DataFrame, base: usize) -> PolarsResult<DataFrame> {
    let positive = launches.clone().lazy().filter(col("rate").gt(lit(0.0)));
    let bases = positive.clone().filter(col("target").eq(lit(index(base)))).select([
        col("row"),
        col("block"),
        col("rate").alias("base_rate"),
        col("launch").alias("base_launch"),
    ]);
    let keys = [col("row"), col("block")];
    let in_order = SortMultipleOptions::default().with_maintain_order(true);
    positive
        .join(bases, &keys, &keys, JoinArgs::new(JoinType::Inner))
        .with_column((col("rate") / col("base_rate")).alias("ratio"))
        .sort(["row", "target", "block"], in_order)
        .group_by_stable([col("row"), col("target"), col("launch"), col("base_launch")])
        .agg([col("ratio").first()])
        .group_by_stable([col("row"), col("target")])
        .agg([col("ratio")])
        .collect()
}

fn fill_relative(rows: &mut [ReportRow], ratios: &DataFrame, base: usize) -> PolarsResult<()> {
    let (row, target) = (ratios.column("row")?.u32()?, ratios.column("target")?.u32()?);
    let lists = ratios.column("ratio")?.list()?;
    let lists: Vec<Vec<f64>> = (0..ratios.height()).map(|line| numbers_of(lists, line)).collect::<Result<_, _>>()?;
    // The verdicts on one target are one family: those rows that can have a verdict at all.
    let family = |of: Option<u32>| {
        lists.iter().enumerate().filter(|(line, list)| target.get(*line) == of && list.len() > 1).count()
    };
    for (line, list) in lists.iter().enumerate() {
        let (row, target) = (row.get(line), target.get(line));
        let Some(cell) = cell(rows, row, target) else { continue };
        cell.relative = Some(if target == Some(index(base)) {
            // By definition, not by measurement.
            RelativeQps { ratio: 1.0, interval: None, verdict: Verdict::Same }
        } else {
            verdict::relative(list, family(target))
        });
    }
    Ok(())
}

fn cell(rows: &mut [ReportRow], row: Option<u32>, target: Option<u32>) -> Option<&mut Cell> {
    rows.get_mut(row? as usize)?.cells.get_mut(target? as usize)
}

fn numbers_of(lists: &ListChunked, line: usize) -> PolarsResult<Vec<f64>> {
    let Some(list) = lists.get_as_series(line) else { return Ok(Vec::new()) };
    Ok(list.f64()?.iter().flatten().collect())
}
