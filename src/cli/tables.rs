//! Reports and comparisons as text: for terminals, Markdown, CSV and JSON. Nothing depends on colour.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table as TextTable, TableStyle};
use serde_json::{Value, json};

use super::exports;
use crate::analysis::{Comparison, two_decimals};
use crate::domain::{Certainty, GroupSummary, RateUnit, RelativeCost, Report, Verdict};

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns for people.
    #[default]
    Terminal,
    /// Tables to paste into a document.
    Markdown,
    /// One line per microbenchmark (and target), full precision.
    Csv,
    /// Everything, full precision.
    Json,
}

/// What stands where there is no number.
const NONE: &str = "–";

/// Two targets side by side: group summaries, then microbenchmarks, then what to know about them.
#[must_use]
pub fn comparison(comparison: &Comparison, format: Format) -> String {
    match format {
        Format::Json => format!("{:#}\n", json!(comparison)),
        Format::Csv => comparison_rows(comparison).csv(),
        Format::Terminal | Format::Markdown => {
            let mut page = Page::new(format);
            page.heading(&format!("{} relative to {} (above 1 is faster)", comparison.target, comparison.base));
            page.table(&summaries(&[("", &comparison.groups)]));
            page.table(&comparison_table(comparison));
            page.notes(&comparison.warnings);
            page.text
        }
    }
}

/// All targets of a sweep relative to its base: group summaries, then a matrix of relative rates,
/// then what to know about them.
pub fn report(report: &Report, format: Format) -> anyhow::Result<String> {
    Ok(match format {
        Format::Json => report_json(report),
        Format::Csv => exports::cells_csv(report)?,
        Format::Terminal | Format::Markdown => {
            let labels: Vec<&str> = report.manifest.targets.iter().map(|target| target.label.as_str()).collect();
            let others: Vec<(&str, &[GroupSummary])> = labels
                .iter()
                .zip(&report.summaries)
                .enumerate()
                .filter(|(index, _)| *index != report.base)
                .map(|(_, (label, summary))| (*label, summary.groups.as_slice()))
                .collect();
            let mut page = Page::new(format);
            page.heading(&format!("Relative to {} (above 1 is faster)", labels[report.base]));
            page.table(&summaries(&others));
            page.table(&matrix(report, &labels));
            page.table(&instructions(report, &labels));
            page.notes(&report.warnings);
            page.text
        }
    })
}

/// A list for people: every column is words.
pub(super) fn listing(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(header.len(), header);
    table.rows = rows;
    table.terminal()
}

/// A list as a Markdown table.
pub(super) fn markdown(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new(header.len(), header);
    table.rows = rows;
    table.markdown()
}

/// Cells as text, the first `words` columns left-aligned and the others right-aligned.
struct Table {
    words: usize,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(words: usize, header: &[&str]) -> Self {
        Self { words, header: header.iter().map(|text| (*text).to_owned()).collect(), rows: Vec::new() }
    }

    /// Columns two blanks apart under a dashed line.
    fn terminal(&self) -> String {
        let mut table = TextTable::new();
        table.force_no_tty();
        table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-')));
        table.set_header(&self.header).add_rows(&self.rows);
        for (index, column) in table.column_iter_mut().enumerate() {
            // The style puts a second blank between columns.
            column.set_padding((0, u16::from(index + 1 < self.header.len())));
            if index >= self.words {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
        lines.collect()
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = (0..self.header.len()).map(|index| if index < self.words { "---|" } else { "---:|" });
        let mut text = line(&self.header);
        let _ = writeln!(text, "|{}", rule.collect::<String>());
        text.extend(self.rows.iter().map(|row| line(row)));
        text
    }

    fn csv(&self) -> String {
        let field = |text: &String| {
            if text.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.clone()
            }
        };
        let line = |cells: &Vec<String>| cells.iter().map(field).collect::<Vec<_>>().join(",") + "\n";
        std::iter::once(&self.header).chain(&self.rows).map(line).collect()
    }
}

/// A text of headings, tables and notes.
struct Page {
    markdown: bool,
    text: String,
}

impl Page {
    fn new(format: Format) -> Self {
        Self { markdown: format == Format::Markdown, text: String::new() }
    }

    fn heading(&mut self, heading: &str) {
        let mark = if self.markdown { "## " } else { "" };
        let _ = writeln!(self.text, "{mark}{heading}");
    }

    fn table(&mut self, table: &Table) {
        if !table.rows.is_empty() {
            self.text.push('\n');
            self.text += &if self.markdown { table.markdown() } else { table.terminal() };
        }
    }

    fn notes(&mut self, notes: &[String]) {
        for (index, note) in notes.iter().enumerate() {
            let start = if index == 0 { "\n" } else { "" };
            let mark = if self.markdown { "- " } else { "note: " };
            let _ = writeln!(self.text, "{start}{mark}{note}");
        }
    }
}

/// Group summaries; with several targets, one line per group and target.
fn summaries(targets: &[(&str, &[GroupSummary])]) -> Table {
    let mut order: Vec<&str> = Vec::new();
    for group in targets.iter().flat_map(|(_, groups)| *groups) {
        if !order.contains(&group.group.as_str()) {
            order.push(&group.group);
        }
    }
    let named = !matches!(targets, [("", _)]);
    let mut header = vec!["group"];
    header.extend(named.then_some("release"));
    let words = header.len();
    header.extend(["count", "min", "max", "avg", "median", "stdev"]);
    let mut table = Table::new(words, &header);
    for name in order {
        for (label, groups) in targets {
            let Some(group) = groups.iter().find(|group| group.group == name) else { continue };
            let mut row = vec![name.to_owned()];
            row.extend(named.then(|| (*label).to_owned()));
            row.push(group.count.to_string());
            row.extend([group.min, group.max, group.avg, group.median].map(|number| format!("{number:.2}")));
            row.push(group.stdev.map_or_else(|| NONE.to_owned(), |number| format!("{number:.2}")));
            table.rows.push(row);
        }
    }
    table
}

fn comparison_table(comparison: &Comparison) -> Table {
    // With one launch per release there is neither interval nor verdict to show.
    let judged = comparison.microbenchmarks.iter().any(|row| row.interval.is_some());
    let mut header = vec!["microbenchmark", "group", &comparison.base, &comparison.target, "relative"];
    if judged {
        header.extend(["95 % interval", "verdict"]);
    }
    let mut table = Table::new(2, &header);
    for row in &comparison.microbenchmarks {
        let rate = |rate: Option<f64>| rate.map_or_else(|| NONE.to_owned(), |rate| rate_text(rate, row.unit));
        let mut cells = vec![row.name.clone(), row.group.clone(), rate(row.base_qps), rate(row.target_qps)];
        cells.push(ratio_text(row.relative_qps));
        if judged {
            cells.push(row.interval.map_or_else(|| NONE.to_owned(), interval_text));
            cells.push(row.words.clone().unwrap_or_else(|| NONE.to_owned()));
        }
        table.rows.push(cells);
    }
    table
}

fn matrix(report: &Report, labels: &[&str]) -> Table {
    let header: Vec<&str> = ["microbenchmark"].into_iter().chain(labels.iter().copied()).collect();
    let mut table = Table::new(1, &header);
    for row in &report.rows {
        let ratios = row.cells.iter().map(|cell| ratio_text(cell.relative.map(|relative| relative.ratio)));
        table.rows.push(std::iter::once(row.name.clone()).chain(ratios).collect());
    }
    table
}

/// Columns of what stands behind a verdict, and of the costs per query relative to the base (above 1 is dearer).
const EVIDENCE: [&str; 5] =
    ["confirmed", "largest_change", "launches_wanted", "backend_cpu_cost_ratio", "instructions_cost_ratio"];

/// Their values.
fn evidence(
    certainty: Option<Certainty>,
    cpu: Option<RelativeCost>,
    instructions: Option<RelativeCost>,
) -> [String; EVIDENCE.len()] {
    let wanted = certainty.and_then(|certainty| certainty.wanted);
    [
        certainty.map(|certainty| certainty.confirmed.to_string()).unwrap_or_default(),
        full(certainty.and_then(|certainty| certainty.bound)),
        wanted.map(|wanted| wanted.more.to_string()).unwrap_or_default(),
        full(cpu.map(|cost| cost.cost_ratio)),
        full(instructions.map(|cost| cost.cost_ratio)),
    ]
}

fn comparison_rows(comparison: &Comparison) -> Table {
    let mut table = Table::new(
        0,
        &[
            "microbenchmark",
            "group",
            "unit",
            "base",
            "target",
            "base_qps",
            "target_qps",
            "relative_qps",
            "interval_low",
            "interval_high",
            "verdict",
        ]
        .into_iter()
        .chain(EVIDENCE)
        .collect::<Vec<_>>(),
    );
    for row in &comparison.microbenchmarks {
        let mut cells = vec![row.name.clone(), row.group.clone(), unit_word(row.unit).to_owned()];
        cells.extend([comparison.base.clone(), comparison.target.clone()]);
        cells.extend([row.base_qps, row.target_qps, row.relative_qps].map(full));
        cells.extend([row.interval.map(|(low, _)| low), row.interval.map(|(_, high)| high)].map(full));
        cells.push(row.verdict.map_or("", verdict_word).to_owned());
        cells.extend(evidence(row.certainty, row.cpu_cost, row.instructions_cost));
        table.rows.push(cells);
    }
    table
}

/// Everything in a report, nested, at full precision.
pub(super) fn report_json(report: &Report) -> String {
    format!("{:#}\n", report_value(report))
}

fn report_value(report: &Report) -> Value {
    let targets = &report.manifest.targets;
    let label = |index: usize| targets[index].label.as_str();
    let groups: Vec<Value> = (report.summaries.iter().enumerate())
        .map(|(index, summary)| json!({ "target": label(index), "groups": summary.groups }))
        .collect();
    let cells = |row: &crate::domain::ReportRow| -> Vec<Value> {
        let cell = |(index, cell): (usize, &crate::domain::Cell)| {
            json!({
                "target": label(index),
                "qps": cell.rate,
                "launch_qps": cell.launch_rates,
                "relative_qps": cell.relative.map(|relative| relative.ratio),
                "interval": cell.relative.and_then(|relative| relative.interval),
                "verdict": cell.relative.map(|relative| relative.verdict),
                "certainty": cell.relative.map(|relative| relative.certainty),
                "words": cell.relative.filter(|_| index != report.base).map(|relative| relative.words()),
                "failure": cell.failure,
                "noisy": cell.noisy,
                "cpu_cost": cell.cpu_cost,
                "instructions_cost": cell.instructions_cost,
                "backend_cpu_us_per_query": cell.backend_cpu_us_per_query,
                "client_cpu_us_per_query": cell.client_cpu_us_per_query,
                "wal_bytes_per_query": cell.wal_bytes_per_query,
                "buffers_per_query": cell.buffers_per_query,
                "switches_per_query": cell.switches_per_query,
                "latency_us_p50": cell.latency_us_p50,
                "latency_us_p95": cell.latency_us_p95,
                "latency_us_p99": cell.latency_us_p99,
                "latency_us_max": cell.latency_us_max,
                "instructions_per_query": cell.instructions_per_query,
                "relative_instructions": cell.relative_instructions.map(|relative| relative.ratio),
                "instructions_changed": cell.relative_instructions.and_then(|relative| relative.changed),
            })
        };
        row.cells.iter().enumerate().map(cell).collect()
    };
    let microbenchmarks: Vec<Value> = (report.rows.iter())
        .map(|row| json!({ "name": row.name, "group": row.group, "unit": row.unit, "cells": cells(row) }))
        .collect();
    let names: Vec<Value> = (targets.iter())
        .map(|target| json!({ "id": target.id, "label": target.label, "version": target.version }))
        .collect();
    json!({
        "sweep": report.manifest.id,
        "base": label(report.base),
        "targets": names,
        "groups": groups,
        "microbenchmarks": microbenchmarks,
        "warnings": report.warnings,
    })
}

/// Instructions per query relative to the base, with four digits; a star marks a change.
fn instructions(report: &Report, labels: &[&str]) -> Table {
    let mut table = Table::new(1, &["instructions per query"]);
    table.header.extend(labels.iter().map(|label| (*label).to_owned()));
    for row in &report.rows {
        let text = |(index, cell): (usize, &crate::domain::Cell)| match cell.relative_instructions {
            None => NONE.to_owned(),
            // The base's own number says how large the others' are.
            Some(_) if index == report.base => cell.instructions_per_query.map_or(String::new(), |n| format!("{n:.0}")),
            Some(relative) => {
                let star = if relative.changed == Some(true) { "*" } else { "" };
                format!("{:.4}{star}", relative.ratio)
            }
        };
        if row.cells.iter().any(|cell| cell.relative_instructions.is_some()) {
            let mut cells = vec![row.name.clone()];
            cells.extend(row.cells.iter().enumerate().map(text));
            table.rows.push(cells);
        }
    }
    table
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.and_then(two_decimals).map_or_else(|| NONE.to_owned(), |ratio| ratio.to_string())
}

/// Three digits: an interval is often narrower than a hundredth.
fn interval_text((low, high): (f64, f64)) -> String {
    format!("{low:.3} .. {high:.3}")
}

/// A rate with about four digits.
fn rate_text(rate: f64, unit: RateUnit) -> String {
    match unit {
        RateUnit::MegarowsPerSecond if rate < 100.0 => format!("{rate:.3}"),
        RateUnit::Qps if rate < 10.0 && rate.fract() > 0.0 => format!("{rate:.2}"),
        RateUnit::Qps if rate < 1000.0 && rate.fract() > 0.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// Shortest form that reads back as the same number; empty without one.
fn full(number: Option<f64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

pub(super) const fn unit_word(unit: RateUnit) -> &'static str {
    match unit {
        RateUnit::Qps => "qps",
        RateUnit::MegarowsPerSecond => "mrows/s",
    }
}

pub(super) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "improved",
        Verdict::Regressed => "regressed",
        Verdict::Same => "same",
        Verdict::Inconclusive => "inconclusive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::ComparedMicrobenchmark;

    fn compared() -> Comparison {
        let row = |name: &str, base, target, unit, judged: Option<((f64, f64), Verdict)>| ComparedMicrobenchmark {
            name: name.to_owned(),
            group: "range-2".to_owned(),
            base_qps: base,
            target_qps: target,
            relative_qps: base.and_then(|base| Some(target? / base)),
            unit,
            verdict: judged.map(|(_, verdict)| verdict),
            interval: judged.map(|(interval, _)| interval),
            certainty: judged.map(|_| Certainty::default()),
            words: judged.map(|_| "faster by 22.0 %, not confirmed".to_owned()),
            cpu_cost: None,
            instructions_cost: None,
        };
        let scan = Some(((1.19, 1.2424), Verdict::Improved));
        Comparison {
            base: "9.0.23".to_owned(),
            target: "18.0 x10b".to_owned(),
            groups: vec![GroupSummary {
                group: "range-2".to_owned(),
                count: 1,
                min: 1.2,
                max: 1.22,
                avg: 1.22,
                median: 1.22,
                stdev: None,
            }],
            microbenchmarks: vec![
                row("read-only_range=10", Some(21378.4), Some(21271.508), RateUnit::Qps, None),
                row("scan_range=100", Some(1.31), Some(1.593), RateUnit::MegarowsPerSecond, scan),
                row("delete_range=100", Some(145.0), None, RateUnit::Qps, None),
            ],
            warnings: vec!["Mind \"this\", please.".to_owned()],
        }
    }

    #[test]
    fn the_terminal_form_is_aligned() {
        let expected = "\
18.0 x10b relative to 9.0.23 (above 1 is faster)

group    count   min   max   avg  median  stdev
-----------------------------------------------
range-2      1  1.20  1.22  1.22    1.22      –

microbenchmark      group    9.0.23  18.0 x10b  relative   95 % interval                          verdict
---------------------------------------------------------------------------------------------------------
read-only_range=10  range-2   21378      21272      1.00               –                                –
scan_range=100      range-2   1.310      1.593      1.22  1.190 .. 1.242  faster by 22.0 %, not confirmed
delete_range=100    range-2     145          –         –               –                                –

note: Mind \"this\", please.
";
        let text = comparison(&compared(), Format::Terminal);
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn markdown_has_rules_that_align() {
        let text = comparison(&compared(), Format::Markdown);
        assert!(text.starts_with("## 18.0 x10b relative to 9.0.23"), "{text}");
        assert!(text.contains("\n| group | count | min |"), "{text}");
        assert!(text.contains("\n|---|---:|---:|---:|---:|---:|---:|\n"), "{text}");
        assert!(text.contains(
            "\n| scan_range=100 | range-2 | 1.310 | 1.593 | 1.22 | 1.190 .. 1.242 | faster by 22.0 %, not confirmed |\n"
        ));
        assert!(text.ends_with("\n- Mind \"this\", please.\n"), "{text}");
    }

    #[test]
    fn verdicts_are_shown_only_where_there_are_any() {
        let mut compared = compared();
        compared.microbenchmarks[1].interval = None;
        let text = comparison(&compared, Format::Terminal);
        assert!(!text.contains("verdict") && !text.contains("interval"), "{text}");
    }

    #[test]
    fn csv_keeps_full_precision_and_quotes() {
        let mut compared = compared();
        compared.target = "18.0, \"b\"".to_owned();
        let text = comparison(&compared, Format::Csv);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1], "read-only_range=10,range-2,qps,9.0.23,\"18.0, \"\"b\"\"\",21378.4,21271.508,0.995,,,,,,,,",
            "{text}"
        );
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn json_has_the_documented_keys() {
        let text = comparison(&compared(), Format::Json);
        let value: Value = serde_json::from_str(&text).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&value), "base target groups microbenchmarks warnings");
        assert_eq!(keys(&value["groups"][0]), "group count min max avg median stdev");
        assert_eq!(
            keys(&value["microbenchmarks"][0]),
            "name group base_qps target_qps relative_qps unit verdict interval certainty words cpu_cost instructions_cost"
        );
        assert_eq!(value["microbenchmarks"][0]["relative_qps"], json!(0.995));
        assert_eq!(value["microbenchmarks"][1]["verdict"], json!("improved"));
        assert_eq!(value["microbenchmarks"][2]["target_qps"], Value::Null);
    }

    #[test]
    fn rates_show_about_four_digits() {
        let qps = |rate| rate_text(rate, RateUnit::Qps);
        assert_eq!([qps(7.0), qps(7.256), qps(145.26), qps(21477.8)], ["7", "7.26", "145.3", "21478"]);
        let scan = |rate| rate_text(rate, RateUnit::MegarowsPerSecond);
        assert_eq!([scan(1.31), scan(2606.0)], ["1.310", "2606"]);
    }
}
