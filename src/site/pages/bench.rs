//! One page per microbenchmark: what it does, and how it went on every release.

use serde::Serialize;

use crate::domain::{Cell, Clock, Microbenchmark, Param, RateUnit, ReportRow, Statement, WireProtocol};
use crate::site::SiteError;
use crate::site::charts::{self, Point};
use crate::site::format::{self, decimals_for, fixed, whole};
use crate::site::view::{self, Fact, Link, Page, Ratio, Site};

#[derive(Serialize)]
struct View {
    name: String,
    why: String,
    facts: Vec<Fact>,
    statements: Vec<StatementView>,
    defined: bool,
    unit: &'static str,
    base: String,
    chart: Option<String>,
    chart_note: String,
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
struct StatementView {
    times: u32,
    sql: String,
    params: Vec<ParamView>,
}

#[derive(Serialize)]
struct ParamView {
    names: String,
    meaning: String,
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

const COLUMNS: [Column; 7] = [
    ("backend CPU µs/query", |cell| cell.backend_cpu_us_per_query),
    ("client CPU µs/query", |cell| cell.client_cpu_us_per_query),
    ("WAL bytes/query", |cell| cell.wal_bytes_per_query),
    ("buffers/query", |cell| cell.buffers_per_query),
    ("context switches/query", |cell| cell.switches_per_query),
    ("instructions/query", |cell| cell.instructions_per_query),
    ("p95 event latency µs", |cell| cell.latency_us_p95),
];

/// `bench/<slug>.html`.
pub(super) fn pages(site: &Site) -> Result<Vec<Page>, SiteError> {
    (0..site.report.rows.len()).map(|index| page(site, index)).collect()
}

fn page(site: &Site, index: usize) -> Result<Page, SiteError> {
    let row = &site.report.rows[index];
    let definition = row.definition.as_ref();
    let (columns, missing): (Vec<Column>, Vec<Column>) =
        COLUMNS.iter().partition(|(_, value)| row.cells.iter().any(|cell| value(cell).is_some()));
    let neighbour = |index: Option<usize>| {
        index.filter(|&index| index < site.report.rows.len()).map(|index| site.bench_link("../", index))
    };
    let view = View {
        name: row.name.clone(),
        why: definition.map(|definition| definition.why.clone()).unwrap_or_default(),
        facts: facts(site, row),
        statements: definition.map(|definition| statements(site, definition)).unwrap_or_default(),
        defined: definition.is_some(),
        unit: view::unit(row.unit),
        base: site.base_label().to_owned(),
        chart: chart(site, row)?,
        chart_note: chart_note(site, row),
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

fn facts(site: &Site, row: &ReportRow) -> Vec<Fact> {
    let title = site.report.groups.iter().find(|group| group.name == row.group).map(|group| group.title.as_str());
    let group = title.map_or_else(|| row.group.clone(), |title| format!("{}: {title}", row.group));
    let mut facts = vec![Fact::new("Group", group)];
    let rate = match row.unit {
        RateUnit::Qps => "queries per second (QPS), BEGIN and COMMIT counted",
        RateUnit::MegarowsPerSecond => "millions of table rows read per second (Mrows/s)",
    };
    if let Some(definition) = &row.definition {
        let protocol = match definition.protocol {
            WireProtocol::Prepared => "prepared: Bind, Describe, Execute, Sync; text parameters, binary results",
            WireProtocol::Simple => "simple: one Query message, values as literals",
        };
        facts.extend([
            Fact::new("Shape", definition.shape.clone()),
            Fact::new("Step", format!("{} in run order", definition.step)),
            Fact::new("Queries per event", queries_per_event(definition)),
            Fact::new("Protocol", protocol),
            Fact::new("Duration", duration(site, definition.clock)),
        ]);
        facts.extend(definition.range.map(|range| Fact::new("range", whole(range.into()))));
    }
    facts.push(Fact::new("Rate", rate));
    facts
}

fn queries_per_event(definition: &Microbenchmark) -> String {
    let count = definition.queries_per_event();
    let transaction = if definition.transaction { ", BEGIN and COMMIT included" } else { "" };
    format!("{count}{transaction}")
}

fn duration(site: &Site, clock: Clock) -> String {
    let Some(protocol) = site.protocol() else {
        return "as published".to_owned();
    };
    let seconds = |seconds: f64| {
        format!("{} s after {} s of warm-up", format::plain(seconds), format::plain(protocol.slice_warmup_seconds))
    };
    match clock {
        Clock::Once if protocol.scan_once => "one execution, no warm-up".to_owned(),
        Clock::Read | Clock::Once => seconds(protocol.read_seconds),
        Clock::Write => seconds(protocol.write_seconds),
    }
}

fn statements(site: &Site, definition: &Microbenchmark) -> Vec<StatementView> {
    let rows = site.protocol().map(|protocol| protocol.rows);
    let statement = |statement: &Statement| StatementView {
        times: statement.times,
        sql: shorten(&statement.sql),
        params: explain(&statement.params, rows),
    };
    definition.statements.iter().map(statement).collect()
}

/// Replaces the middle of a long list of placeholders: `$1, $2, …, $100`.
fn shorten(sql: &str) -> String {
    const LONGEST: usize = 6;
    let parts: Vec<&str> = sql.split(',').collect();
    // The first and the last of a list stand beside a parenthesis and are not counted here.
    let is_inner = |part: &&&str| {
        let digits = part.trim().strip_prefix('$');
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut short = Vec::new();
    let mut position = 0;
    while position < parts.len() {
        let run = parts[position..].iter().take_while(is_inner).count();
        if run > LONGEST {
            short.extend([parts[position], " …"]);
        } else {
            short.extend(&parts[position..position + run.max(1)]);
        }
        position += run.max(1);
    }
    short.join(",")
}

/// One line per run of placeholders with the same meaning.
fn explain(params: &[Param], rows: Option<u64>) -> Vec<ParamView> {
    let mut lines: Vec<ParamView> = Vec::new();
    let mut start = 0;
    while start < params.len() {
        let run = params[start..].windows(2).take_while(|pair| continues(pair[0], pair[1])).count() + 1;
        let (first, last) = (params[start], params[start + run - 1]);
        let names = if run == 1 { format!("${}", start + 1) } else { format!("${} … ${}", start + 1, start + run) };
        lines.push(ParamView { names, meaning: meaning(first, last, run, rows) });
        start += run;
    }
    lines
}

fn continues(one: Param, next: Param) -> bool {
    match (one, next) {
        (Param::Middle { index: one }, Param::Middle { index: next }) => next == one + 1,
        _ => one == next,
    }
}

fn meaning(first: Param, last: Param, run: usize, rows: Option<u64>) -> String {
    let each = if run > 1 { ", drawn anew for each" } else { "" };
    let size = rows.map_or_else(|| "table size".to_owned(), |rows| format!("{} (table size)", whole(rows)));
    match first {
        Param::Uniform { over, keep } => {
            let upper = over.map_or(size, whole);
            let kept = keep.map_or_else(String::new, |slot| format!(", kept as value {slot} for later in the event"));
            format!("uniform integer from 1 to {upper}{each}{kept} (int8)")
        }
        Param::Zipfian { exponent } => {
            format!("Zipfian integer from 1 to {size}, exponent {}{each} (int8)", format::plain(exponent))
        }
        Param::Middle { index } => {
            let to = if let Param::Middle { index: to } = last { to } else { index };
            let span = if to == index { index.to_string() } else { format!("{index} … {to}") };
            format!("the same on every event: table size / 2 + {span} (int8)")
        }
        Param::Offset { of, plus } if plus < 0 => format!("${of} − {} (int8)", whole(plus.unsigned_abs())),
        Param::Offset { of, plus } => format!("${of} + {} (int8)", whole(plus.unsigned_abs())),
        Param::Kept { slot } => format!("value {slot} kept earlier in the event (int8)"),
        Param::C => format!("fresh text for column c: ten groups of eleven digits, 119 characters{each} (varchar)"),
        Param::Pad => format!("fresh text for column pad: five groups of eleven digits, 59 characters{each} (varchar)"),
    }
}

fn chart(site: &Site, row: &ReportRow) -> Result<Option<String>, SiteError> {
    let base = site.paired_launches(&row.cells[site.report.base]);
    let point = |(index, cell): (usize, &Cell)| {
        let relative = view::relative(site, index, cell);
        let launches = site.paired_launches(cell).iter().zip(base).map(|(rate, base)| rate / base).collect::<Vec<_>>();
        Point {
            label: site.targets()[index].label.clone(),
            ratio: relative.map(|relative| relative.ratio),
            interval: relative.and_then(|relative| relative.interval),
            // A single launch is the ratio itself.
            launches: if launches.len() > 1 { launches } else { Vec::new() },
        }
    };
    let points: Vec<Point> = row.cells.iter().enumerate().map(point).collect();
    let title = format!("Relative QPS of {} over releases; {} is 1.00", row.name, site.base_label());
    charts::relative(&points, &title).map_err(|source| SiteError::Chart { chart: row.name.clone(), source })
}

/// What the marks of the chart mean, as far as they are there.
fn chart_note(site: &Site, row: &ReportRow) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(params: &[Param]) -> Vec<String> {
        explain(params, Some(1_000_000)).into_iter().map(|line| format!("{}: {}", line.names, line.meaning)).collect()
    }

    #[test]
    fn long_lists_are_shortened_and_short_ones_are_not() {
        let list = |count: usize| (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        assert_eq!(
            shorten(&format!("SELECT c FROM sbtest1 WHERE id IN ({})", list(100))),
            "SELECT c FROM sbtest1 WHERE id IN ($1, $2, …, $100)"
        );
        let short = "INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)";
        assert_eq!(shorten(short), short);
    }

    #[test]
    fn parameters_are_told_in_runs() {
        let uniform = Param::Uniform { over: None, keep: None };
        assert_eq!(
            lines(&[Param::C, uniform, uniform]),
            [
                "$1: fresh text for column c: ten groups of eleven digits, 119 characters (varchar)",
                "$2 … $3: uniform integer from 1 to 1,000,000 (table size), drawn anew for each (int8)",
            ]
        );
        assert_eq!(
            lines(&[Param::Middle { index: 1 }, Param::Middle { index: 2 }]),
            ["$1 … $2: the same on every event: table size / 2 + 1 … 2 (int8)"]
        );
        assert_eq!(
            lines(&[Param::Uniform { over: Some(1), keep: Some(0) }, Param::Offset { of: 1, plus: -99 }]),
            ["$1: uniform integer from 1 to 1, kept as value 0 for later in the event (int8)", "$2: $1 − 99 (int8)"]
        );
    }
}
