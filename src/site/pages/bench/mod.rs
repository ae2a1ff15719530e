//! One page per microbenchmark: what it does, and how it went on every release.

mod definition;
mod figures;
mod plans;

use serde::Serialize;

use super::Job;
use crate::domain::{Cell, ReportRow};
use crate::site::SiteError;
use crate::site::format::{self, decimals_for, fixed};
use crate::site::multiples::{self, Multiples};
use crate::site::view::{self, Fact, Link, Page, Ratio, Site};
use definition::StatementView;
use figures::Figure;
use plans::StatementPlans;

#[derive(Serialize)]
struct View {
    name: String,
    why: String,
    facts: Vec<Fact>,
    statements: Vec<StatementView>,
    defined: bool,
    command: Option<String>,
    unit: &'static str,
    base: String,
    rates: Vec<Figure>,
    costs: Vec<Figure>,
    latencies: Option<Figure>,
    multiples: Option<Multiples>,
    multiples_note: String,
    plans: Vec<StatementPlans>,
    /// The file with the numbers of every slice.
    slices: Option<Link>,
    has_intervals: bool,
    has_launches: bool,
    columns: Vec<&'static str>,
    rows: Vec<Row>,
    missing: Vec<&'static str>,
    /// The page of its history.
    history: Option<Link>,
    previous: Option<Link>,
    next: Option<Link>,
}

#[derive(Serialize)]
struct Row {
    link: Link,
    build: String,
    rate: String,
    rate_value: Option<f64>,
    ratio: Ratio,
    interval: String,
    verdict: String,
    launches: usize,
    is_base: bool,
    /// Why there is no rate.
    gap: Option<String>,
    counters: Vec<Counter>,
}

#[derive(Serialize)]
struct Counter {
    text: String,
    value: Option<f64>,
}

/// A counter column: head, and where its values are.
type Column = (&'static str, fn(&Cell) -> Option<f64>);

const COLUMNS: [Column; 10] = [
    ("backend CPU µs/query", |cell| cell.backend_cpu_us_per_query),
    ("client CPU µs/query", |cell| cell.client_cpu_us_per_query),
    ("WAL bytes/query", |cell| cell.wal_bytes_per_query),
    ("buffers/query", |cell| cell.buffers_per_query),
    ("context switches/query", |cell| cell.switches_per_query),
    ("instructions/query", |cell| cell.instructions_per_query),
    ("p50 latency µs", |cell| cell.latency_us_p50),
    ("p95 latency µs", |cell| cell.latency_us_p95),
    ("p99 latency µs", |cell| cell.latency_us_p99),
    ("max latency µs", |cell| cell.latency_us_max),
];

/// `bench/<slug>.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    (0..site.report.rows.len()).map(|index| -> Job<'a> { Box::new(move || page(site, index)) }).collect()
}

fn page(site: &Site, index: usize) -> Result<Page, SiteError> {
    let row = &site.report.rows[index];
    let definition = row.definition.as_ref();
    let (columns, missing): (Vec<Column>, Vec<Column>) =
        COLUMNS.iter().partition(|(_, value)| row.cells.iter().any(|cell| value(cell).is_some()));
    let neighbour = |index: Option<usize>| {
        index.filter(|&index| index < site.report.rows.len()).map(|index| site.bench_link("../", index))
    };
    let labels: Vec<&str> = site.targets().iter().map(|target| target.label.as_str()).collect();
    let multiples = multiples::of(&row.cells, &labels);
    let view = View {
        name: row.name.clone(),
        why: definition.map(|definition| definition.why.clone()).unwrap_or_default(),
        facts: definition::facts(site, row),
        statements: definition.map(|definition| definition::statements(site, definition)).unwrap_or_default(),
        defined: definition.is_some(),
        command: definition::command(site, row),
        unit: view::unit(row.unit),
        base: site.base_label().to_owned(),
        rates: figures::rates(site, row)?,
        costs: figures::costs(site, row)?,
        latencies: figures::latencies(site, row)?,
        multiples_note: multiples.as_ref().map(Multiples::note).unwrap_or_default(),
        multiples,
        plans: plans::of(site, row),
        slices: site.download_link("../", "slices.parquet"),
        has_intervals: row.cells.iter().any(|cell| cell.relative.is_some_and(|r| r.interval.is_some())),
        has_launches: row.cells.iter().any(|cell| !cell.launch_rates.is_empty()),
        rows: rows(site, row, &columns),
        columns: columns.iter().map(|column| column.0).collect(),
        missing: missing.iter().map(|column| column.0).collect(),
        history: site.names.bench_path(&row.name).map(|path| Link::new(format!("../{path}"), "Week by week")),
        previous: neighbour(index.checked_sub(1)),
        next: neighbour(Some(index + 1)),
    };
    let title = row.name.clone();
    let description = format!("{} on {}, relative to {}.", row.name, site.title(), site.base_label());
    let mut page = Page::new(&site.bench_path(index), "bench.html", title, description, &view)?;
    page.crumbs = vec![Link::new("../index.html#heat-map", "Microbenchmarks")];
    page.feed = site.names.bench_feed(&row.name);
    Ok(page)
}

fn rows(site: &Site, row: &ReportRow, columns: &[Column]) -> Vec<Row> {
    let decimals: Vec<u32> =
        columns.iter().map(|(_, value)| decimals_for(row.cells.iter().filter_map(value))).collect();
    let line = |(index, cell): (usize, &Cell)| Row {
        link: site.release_link("../", index),
        build: view::build_words(&site.targets()[index]),
        rate: cell.rate.map_or_else(|| format::NONE.to_owned(), |rate| view::rate(rate, row.unit)),
        rate_value: cell.rate,
        ratio: Ratio::new(cell.relative.map(|relative| relative.ratio)),
        interval: view::interval(view::relative(site, index, cell)),
        verdict: view::cell_verdict(site, index, cell.relative),
        launches: cell.launch_rates.len(),
        is_base: index == site.report.base,
        gap: if cell.rate.is_none() { Some(view::gap(cell)) } else { None },
        counters: columns.iter().zip(&decimals).map(|(column, &decimals)| counter(column.1(cell), decimals)).collect(),
    };
    row.cells.iter().enumerate().map(line).collect()
}

fn counter(value: Option<f64>, decimals: u32) -> Counter {
    Counter { text: value.map_or_else(|| format::NONE.to_owned(), |value| fixed(value, decimals)), value }
}
