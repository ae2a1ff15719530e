//! The data behind a report as tables, and the files that a site offers.

use anyhow::Context as _;

use super::tables;
use crate::domain::{
    Answer, Cell, History, HistoryWeek, Line as Followed, RelativeQps, Report, ReportRow, Series, SliceRecord,
    SweepManifest, Table, TableColumn, Target, Values, WeekTarget,
};
use crate::site::{Download, Schema, SchemaColumn};
use crate::store::columns;

/// One line of the table of cells.
struct Line<'a> {
    report: &'a Report,
    row: &'a ReportRow,
    target: &'a Target,
    cell: &'a Cell,
}

impl Line<'_> {
    fn relative(&self) -> Option<RelativeQps> {
        self.cell.relative
    }
}

/// How a column of the table of cells gets its values.
enum Get {
    Text(fn(&Line<'_>) -> Option<String>),
    Real(fn(&Line<'_>) -> Option<f64>),
    Count(fn(&Line<'_>) -> Option<u64>),
    Truth(fn(&Line<'_>) -> Option<bool>),
}

use Get::{Count, Real, Text, Truth};

/// Name, meaning and values of the columns of the table of cells.
const CELLS: [(&str, &str, Get); 31] = [
    ("microbenchmark", "its name", Text(|line| Some(line.row.name.clone()))),
    ("group", "its group", Text(|line| Some(line.row.group.clone()))),
    (
        "unit",
        "what qps counts: qps, or mrows/s for scan",
        Text(|line| Some(tables::unit_word(line.row.unit).to_owned())),
    ),
    (
        "base",
        "label of the release that is divided by",
        Text(|line| Some(line.report.manifest.targets[line.report.base].label.clone())),
    ),
    ("target", "label of the release", Text(|line| Some(line.target.label.clone()))),
    ("launches", "launches that were measured", Count(|line| Some(line.cell.launch_rates.len() as u64))),
    ("qps", "mean rate over launches, in unit; absent when nothing was measured", Real(|line| line.cell.rate)),
    (
        "relative_qps",
        "geometric mean over blocks of the rate divided by the base's; above 1 is faster",
        Real(|line| line.relative().map(|relative| relative.ratio)),
    ),
    (
        "interval_low",
        "lower end of the 95 % interval of relative_qps; absent with fewer than two common blocks",
        Real(|line| line.relative()?.interval.map(|(low, _)| low)),
    ),
    (
        "interval_high",
        "upper end of the 95 % interval of relative_qps",
        Real(|line| line.relative()?.interval.map(|(_, high)| high)),
    ),
    (
        "verdict",
        "improved, regressed, same (shown, not assumed) or inconclusive",
        Text(|line| line.relative().map(|relative| tables::verdict_word(relative.verdict).to_owned())),
    ),
    (
        "failure",
        "why there is no rate, or why it decides nothing",
        Text(|line| line.cell.failure.clone().or_else(|| line.cell.noisy.clone())),
    ),
    (
        "confirmed",
        "whether launches later than those that showed the change show it alone",
        Truth(|line| line.relative().map(|relative| relative.certainty.confirmed)),
    ),
    (
        "largest_change",
        "largest change that the interval leaves possible, as a share of the base: 0.012 is 1.2 %",
        Real(|line| line.relative()?.certainty.bound),
    ),
    (
        "launches_wanted",
        "how many more launches per release would decide an open case",
        Count(|line| line.relative()?.certainty.wanted.map(|wanted| wanted.more.into())),
    ),
    (
        "backend_cpu_cost_ratio",
        "CPU time of the backend per query divided by the base's; above 1 is dearer",
        Real(|line| line.cell.cpu_cost.map(|cost| cost.cost_ratio)),
    ),
    (
        "instructions_cost_ratio",
        "instructions of the backend per query divided by the base's; above 1 is dearer",
        Real(|line| line.cell.instructions_cost.map(|cost| cost.cost_ratio)),
    ),
    (
        "backend_cpu_cost_low",
        "lower end of the 95 % interval of backend_cpu_cost_ratio",
        Real(|line| line.cell.cpu_cost?.interval.map(|(low, _)| low)),
    ),
    (
        "backend_cpu_cost_high",
        "upper end of the 95 % interval of backend_cpu_cost_ratio",
        Real(|line| line.cell.cpu_cost?.interval.map(|(_, high)| high)),
    ),
    (
        "backend_cpu_verdict",
        "improved (cheaper), regressed (dearer), same or inconclusive",
        Text(|line| line.cell.cpu_cost.map(|cost| tables::verdict_word(cost.verdict).to_owned())),
    ),
    (
        "backend_cpu_us_per_query",
        "CPU time of the backend per query, microseconds",
        Real(|line| line.cell.backend_cpu_us_per_query),
    ),
    (
        "client_cpu_us_per_query",
        "CPU time of the client per query, microseconds",
        Real(|line| line.cell.client_cpu_us_per_query),
    ),
    ("wal_bytes_per_query", "WAL written per query, bytes", Real(|line| line.cell.wal_bytes_per_query)),
    (
        "buffers_per_query",
        "buffers that were touched (found or read) per query",
        Real(|line| line.cell.buffers_per_query),
    ),
    ("switches_per_query", "context switches of the backend per query", Real(|line| line.cell.switches_per_query)),
    (
        "latency_us_p95",
        "mean over launches of the 95th percentile of the latency of events, microseconds",
        Real(|line| line.cell.latency_us_p95),
    ),
    (
        "instructions_per_query",
        "instructions of the backend in user space per query",
        Real(|line| line.cell.instructions_per_query),
    ),
    (
        "instructions_changed",
        "whether the instructions differ from the base's by more than counts of equal servers do",
        Truth(|line| line.cell.relative_instructions?.changed),
    ),
    ("target_id", "id of the target in the manifest", Text(|line| Some(line.target.id.0.clone()))),
    ("version", "version of PostgreSQL", Text(|line| Some(line.target.version.to_string()))),
    ("sweep", "id of the sweep", Text(|line| Some(line.report.manifest.id.clone()))),
];

/// The cells of a report, one row per microbenchmark and target.
pub(super) fn cells(report: &Report) -> Table {
    let targets = &report.manifest.targets;
    let mut lines = Vec::with_capacity(report.rows.len() * targets.len());
    for row in &report.rows {
        lines.extend(targets.iter().zip(&row.cells).map(|(target, cell)| Line { report, row, target, cell }));
    }
    let values = |get: &Get| match get {
        Text(of) => Values::Text(lines.iter().map(of).collect()),
        Real(of) => Values::Real(lines.iter().map(of).collect()),
        Count(of) => Values::Count(lines.iter().map(of).collect()),
        Truth(of) => Values::Truth(lines.iter().map(of).collect()),
    };
    let columns = CELLS.iter().map(|(name, meaning, get)| TableColumn { name, meaning, values: values(get) });
    Table {
        name: "cells".to_owned(),
        about: "One microbenchmark on one release over its launches, relative to the base.".to_owned(),
        columns: columns.collect(),
    }
}

/// A cell in one week.
struct Past<'a> {
    series: usize,
    week: &'a HistoryWeek,
    microbenchmark: &'a str,
    target: &'a WeekTarget,
    answer: Answer,
}

/// Every cell of a history in every week, one row each.
fn history(history: &History) -> Table {
    let rows: Vec<Past<'_>> = history.series.iter().enumerate().flat_map(past_cells).collect();
    let text = |of: fn(&Past<'_>) -> String| Values::Text(rows.iter().map(|row| Some(of(row))).collect());
    let real = |of: fn(&Past<'_>) -> Option<f64>| Values::Real(rows.iter().map(of).collect());
    let column = |name, meaning, values| TableColumn { name, meaning, values };
    let columns = vec![
        column(
            "series",
            "sweeps that can be compared share a number; 0 has the newest week",
            Values::Count(rows.iter().map(|row| Some(row.series as u64)).collect()),
        ),
        column("week", "week of ISO 8601", text(|row| row.week.week.to_string())),
        column("microbenchmark", "its name", text(|row| row.microbenchmark.to_owned())),
        column("target", "id of the target in the manifest", text(|row| row.target.id.0.clone())),
        column(
            "relative_qps",
            "geometric mean over blocks of the rate divided by the anchor's; above 1 is faster",
            real(|row| Some(row.answer.ratio)),
        ),
        column("interval_low", "lower end of its 95 % interval", real(|row| row.answer.interval.map(|it| it.0))),
        column("interval_high", "upper end of its 95 % interval", real(|row| row.answer.interval.map(|it| it.1))),
        column(
            "verdict",
            "improved, regressed, same or inconclusive, in its own sweep",
            text(|row| tables::verdict_word(row.answer.verdict).to_owned()),
        ),
        column(
            "confirmed",
            "whether later launches showed the change alone",
            Values::Truth(rows.iter().map(|row| Some(row.answer.confirmed)).collect()),
        ),
    ];
    let about = "One microbenchmark on one release in one week, relative to the anchor of the week.";
    Table { name: "history".to_owned(), about: about.to_owned(), columns }
}

/// Every week of a history, one row for each series that has it.
fn weeks(history: &History) -> Table {
    let series = history.series.iter().enumerate();
    let rows: Vec<(usize, &HistoryWeek)> =
        series.flat_map(|(number, series)| series.weeks.iter().map(move |week| (number, week))).collect();
    let text = |of: fn(&HistoryWeek) -> String| Values::Text(rows.iter().map(|(_, week)| Some(of(week))).collect());
    let count =
        |of: fn(&HistoryWeek) -> usize| Values::Count(rows.iter().map(|(_, week)| Some(of(week) as u64)).collect());
    let column = |name, meaning, values| TableColumn { name, meaning, values };
    let number = Values::Count(rows.iter().map(|(number, _)| Some(*number as u64)).collect());
    let columns = vec![
        column("series", "sweeps that can be compared share a number; 0 has the newest week", number),
        column("week", "week of ISO 8601", text(|week| week.week.to_string())),
        column("sweep", "id of the sweep", text(|week| week.sweep.clone())),
        column("updated_at", "when it was last worked on, RFC 3339, UTC", text(|week| week.updated_at.to_string())),
        column("regtrack", "version of regtrack that did", text(|week| week.regtrack.clone())),
        column("kernel", "kernel of the machine; empty where it is not known", text(|week| week.kernel.clone())),
        column("targets", "releases that were measured", count(|week| week.targets.len())),
        column("cells", "cells with a ratio", count(|week| week.cells)),
        column("gaps", "cells without one", count(|week| week.gaps)),
    ];
    Table {
        name: "weeks".to_owned(),
        about: "One week of a series of sweeps that can be compared.".to_owned(),
        columns,
    }
}

/// The cells of a series; those of a major repeat what its releases have.
fn past_cells((number, series): (usize, &Series)) -> impl Iterator<Item = Past<'_>> {
    let of_releases = series.tracks.iter().filter(|track| matches!(series.lines[track.line], Followed::Target(_)));
    of_releases.flat_map(move |track| {
        track.points.iter().map(move |point| {
            let week = &series.weeks[point.week];
            Past {
                series: number,
                week,
                microbenchmark: &series.microbenchmarks[track.microbenchmark],
                target: &week.targets[point.target],
                answer: point.answer,
            }
        })
    })
}

/// What a site of `report` offers, and the columns of it.
pub(super) fn downloads(
    report: &Report,
    past: Option<&History>,
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    parquet: Vec<u8>,
) -> anyhow::Result<(Vec<Download>, Vec<Schema>)> {
    let (cells, slices) = (cells(report), columns::slices_table(slices));
    let mut downloads = table_files(&cells)?;
    downloads.push(download(
        "slices.parquet",
        "Slices as Parquet",
        "Every slice with all its counters, rates by second and latency histogram",
        parquet,
    ));
    downloads.extend(text_files(&slices)?);
    downloads.push(download(
        "report.json",
        "Report as JSON",
        "Group summaries, rates, ratios, intervals, verdicts and warnings, nested",
        tables::report_json(report).into_bytes(),
    ));
    downloads.push(download(
        "manifest.json",
        "Manifest",
        "Protocol, builds, settings and machine of the sweep",
        serde_json::to_vec_pretty(manifest).context("could not encode the manifest")?,
    ));
    let mut nested = schema(&slices);
    let only_in_parquet = |(name, kind, meaning): (&str, &str, &str)| SchemaColumn {
        name: name.to_owned(),
        kind: kind.to_owned(),
        meaning: format!("{meaning}; in slices.parquet only"),
    };
    nested.columns.extend(columns::NESTED.map(only_in_parquet));
    let mut schemas = vec![schema(&cells), nested];
    for table in past.map(|past| [weeks(past), history(past)]).into_iter().flatten() {
        downloads.extend(table_files(&table)?);
        schemas.push(schema(&table));
    }
    Ok((downloads, schemas))
}

/// A table as Parquet, CSV and JSON.
fn table_files(table: &Table) -> anyhow::Result<Vec<Download>> {
    let parquet = columns::table_to_parquet(table).with_context(|| format!("could not encode '{}'", table.name))?;
    let title = format!("{} as Parquet", capitalised(&table.name));
    let mut files =
        vec![download(&format!("{}.parquet", table.name), &title, table.about.trim_end_matches('.'), parquet)];
    files.extend(text_files(table)?);
    Ok(files)
}

/// A table as CSV and JSON.
fn text_files(table: &Table) -> anyhow::Result<[Download; 2]> {
    let csv = columns::table_to_csv(table).with_context(|| format!("could not encode '{}'", table.name))?;
    let (name, about) = (capitalised(&table.name), table.about.trim_end_matches('.'));
    Ok([
        download(&format!("{}.csv", table.name), &format!("{name} as CSV"), about, csv),
        download(&format!("{}.json", table.name), &format!("{name} as JSON"), about, columns::table_to_json(table)),
    ])
}

fn capitalised(name: &str) -> String {
    let (first, rest) = name.split_at(name.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

fn download(file_name: &str, title: &str, description: &str, bytes: Vec<u8>) -> Download {
    Download { file_name: file_name.to_owned(), title: title.to_owned(), description: description.to_owned(), bytes }
}

fn schema(table: &Table) -> Schema {
    let column = |column: &TableColumn| SchemaColumn {
        name: column.name.to_owned(),
        kind: column.values.kind().to_owned(),
        meaning: column.meaning.to_owned(),
    };
    Schema {
        table: table.name.clone(),
        about: table.about.clone(),
        columns: table.columns.iter().map(column).collect(),
    }
}

/// The table of cells as CSV.
pub(super) fn cells_csv(report: &Report) -> anyhow::Result<String> {
    let csv = columns::table_to_csv(&cells(report)).context("could not write the table of cells")?;
    String::from_utf8(csv).context("the table of cells is not UTF-8")
}
