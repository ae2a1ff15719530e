//! The charts of a microbenchmark's page, each with what its marks mean and the file that it was drawn from.

use serde::Serialize;

use crate::domain::{Cell, RateUnit, ReportRow};
use crate::site::SiteError;
use crate::site::charts::{self, Alternative, Line, Point, Size};
use crate::site::format::{self, decimals_for, fixed};
use crate::site::view::{self, Link, Site};

/// A chart with its words.
#[derive(Serialize)]
pub(super) struct Figure {
    heading: &'static str,
    svg: String,
    note: String,
    /// Names of the lines, in the order of their colours; empty for a single one.
    keys: Vec<&'static str>,
    /// The download that has its numbers.
    data: Option<Link>,
}

/// Where the values of a line are.
type Value = fn(&Cell) -> Option<f64>;

/// What a query costs: heading of the chart, unit, and where the values are.
const COSTS: [(&str, &str, Value); 3] = [
    ("CPU time of the backend per query", "µs", |cell| cell.backend_cpu_us_per_query),
    ("WAL per query", "bytes", |cell| cell.wal_bytes_per_query),
    ("Buffers per query", "buffers", |cell| cell.buffers_per_query),
];

/// Percentiles of one chart: name and where the values are.
const PERCENTILES: [(&str, Value); 3] =
    [("p50", |cell| cell.latency_us_p50), ("p95", |cell| cell.latency_us_p95), ("p99", |cell| cell.latency_us_p99)];

/// Relative and absolute rates over releases.
pub(super) fn rates(site: &Site, row: &ReportRow) -> Result<Vec<Figure>, SiteError> {
    Ok([relative(site, row)?, absolute(site, row)?].into_iter().flatten().collect())
}

fn failed(row: &ReportRow) -> impl Fn(charts_rs::Error) -> SiteError {
    |source| SiteError::Chart { chart: row.name.clone(), source }
}

fn relative(site: &Site, row: &ReportRow) -> Result<Option<Figure>, SiteError> {
    let base = site.paired_launches(&row.cells[site.report.base]);
    let point = |(index, cell): (usize, &Cell)| {
        let relative = view::relative(site, index, cell);
        let launches = site.paired_launches(cell).iter().zip(base).map(|(rate, base)| rate / base).collect::<Vec<_>>();
        Point {
            label: site.targets()[index].label.clone(),
            value: relative.map(|relative| relative.ratio),
            interval: relative.and_then(|relative| relative.interval),
            // A single launch is the ratio itself.
            launches: if launches.len() > 1 { launches } else { Vec::new() },
        }
    };
    let points: Vec<Point> = row.cells.iter().enumerate().map(point).collect();
    let title = format!("Relative QPS of {} over releases; {} is 1.00", row.name, site.base_label());
    let text = Alternative { title: &title, description: &description(&points, |ratio| fixed(ratio, 2)) };
    let svg = charts::relative(&points, text).map_err(failed(row))?;
    Ok(svg.map(|svg| Figure {
        heading: "Relative rate",
        svg,
        note: relative_note(site, row),
        keys: Vec::new(),
        data: site.download_link("../", "report.csv"),
    }))
}

/// What the marks of the chart mean, as far as they are there.
fn relative_note(site: &Site, row: &ReportRow) -> String {
    let mut note = format!("Line: relative QPS; {} is 1.00.", site.base_label());
    if row.cells.iter().any(|cell| cell.relative.is_some_and(|relative| relative.interval.is_some())) {
        note.push_str(" Whiskers: 95 % intervals.");
    }
    let paired = |cell: &Cell| site.paired_launches(cell).len() > 1;
    if paired(&row.cells[site.report.base]) && row.cells.iter().any(paired) {
        note.push_str(" Grey points: each launch relative to the base's launch in the same block");
        let partial = |cell: &Cell| cell.rate.is_some() && !paired(cell);
        note.push_str(if row.cells.iter().any(partial) { " (not for releases that lack a launch)." } else { "." });
    }
    if row.cells.iter().any(|cell| cell.relative.is_none()) {
        note.push_str(" Gaps: no ratio.");
    }
    note
}

fn absolute(site: &Site, row: &ReportRow) -> Result<Option<Figure>, SiteError> {
    let point = |(index, cell): (usize, &Cell)| Point {
        label: site.targets()[index].label.clone(),
        value: cell.rate,
        interval: None,
        launches: if cell.launch_rates.len() > 1 { cell.launch_rates.clone() } else { Vec::new() },
    };
    let points: Vec<Point> = row.cells.iter().enumerate().map(point).collect();
    let title = format!("{} of {} over releases", view::unit(row.unit), row.name);
    let text = Alternative { title: &title, description: &description(&points, |rate| view::rate(rate, row.unit)) };
    let svg = charts::values(&points, Size::Full, text).map_err(failed(row))?;
    let what = match row.unit {
        RateUnit::Qps => "queries per second",
        RateUnit::MegarowsPerSecond => "millions of rows per second",
    };
    let mut note = format!("Line: {what}, mean over launches.");
    if points.iter().any(|point| !point.launches.is_empty()) {
        note.push_str(" Grey points: each launch.");
    }
    if points.iter().any(|point| point.value.is_none()) {
        note.push_str(" Gaps: no rate.");
    }
    note.push_str(" The axis need not begin at zero.");
    let data = site.download_link("../", "report.json");
    Ok(svg.map(|svg| Figure { heading: "Rate", svg, note, keys: Vec::new(), data }))
}

/// One chart for each cost that any release has.
pub(super) fn costs(site: &Site, row: &ReportRow) -> Result<Vec<Figure>, SiteError> {
    let mut figures = Vec::new();
    for (heading, unit, value) in COSTS {
        let point = |(index, cell): (usize, &Cell)| Point {
            label: site.targets()[index].label.clone(),
            value: value(cell),
            ..Point::default()
        };
        let points: Vec<Point> = row.cells.iter().enumerate().map(point).collect();
        let decimals = decimals_for(points.iter().filter_map(|point| point.value));
        let title = format!("{heading} of {} over releases, in {unit}", row.name);
        let text = Alternative { title: &title, description: &description(&points, |value| fixed(value, decimals)) };
        let svg = charts::values(&points, Size::Half, text).map_err(failed(row))?;
        figures.extend(svg.map(|svg| Figure {
            heading,
            svg,
            note: format!("In {unit}, mean over launches. The axis need not begin at zero."),
            keys: Vec::new(),
            data: site.download_link("../", "report.json"),
        }));
    }
    Ok(figures)
}

/// Percentiles of the latency of events.
pub(super) fn latencies(site: &Site, row: &ReportRow) -> Result<Option<Figure>, SiteError> {
    let lines: Vec<Line> = PERCENTILES
        .iter()
        .map(|(name, value)| Line { name: (*name).to_owned(), values: row.cells.iter().map(value).collect() })
        .collect();
    let labels: Vec<String> = site.targets().iter().map(|target| target.label.clone()).collect();
    let title = format!("Latency of events of {} over releases, in µs", row.name);
    let descriptions = lines.iter().map(|line| {
        let decimals = decimals_for(line.values.iter().flatten().copied());
        format!("{}: {}", line.name, listed(&labels, &line.values, |value| fixed(value, decimals)))
    });
    let description = descriptions.collect::<Vec<_>>().join(". ");
    let text = Alternative { title: &title, description: &description };
    let svg = charts::value_lines(&lines, &labels, text).map_err(failed(row))?;
    Ok(svg.map(|svg| Figure {
        heading: "Latency",
        svg,
        note: "Percentiles of the latency of events in µs, mean over launches.".to_owned(),
        keys: PERCENTILES.iter().map(|(name, _)| *name).collect(),
        data: site.download_link("../", "report.json"),
    }))
}

fn description(points: &[Point], text: impl Fn(f64) -> String) -> String {
    let labels: Vec<String> = points.iter().map(|point| point.label.clone()).collect();
    listed(&labels, &points.iter().map(|point| point.value).collect::<Vec<_>>(), text)
}

/// `16.14 1.00, 17.10 0.98, 18.4 –`
fn listed(labels: &[String], values: &[Option<f64>], text: impl Fn(f64) -> String) -> String {
    let one = |(label, value): (&String, &Option<f64>)| {
        format!("{label} {}", value.map_or_else(|| format::NONE.to_owned(), &text))
    };
    labels.iter().zip(values).map(one).collect::<Vec<_>>().join(", ")
}
