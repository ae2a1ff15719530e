//! The overview: what was measured, what came out, and the heat map.

use serde::Serialize;

use crate::domain::{Cell, GroupSummary, Origin, Verdict};
use crate::site::SiteError;
use crate::site::charts::{self, COLOURS, Line};
use crate::site::format::{self, counted, fixed, plain, whole};
use crate::site::view::{self, Fact, Link, Page, Ratio, SHADES, Site};

/// Lines of a list of findings.
const FINDINGS: usize = 6;

#[derive(Serialize)]
struct View {
    heading: String,
    base: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    releases: Vec<Release>,
    findings: Vec<Comparison>,
    chart: Option<String>,
    /// Legend of the chart: index of the colour, name.
    keys: Vec<Key>,
    groups: Vec<GroupTable>,
    heat: HeatMap,
    gaps: Vec<Gap>,
}

#[derive(Serialize)]
struct Key {
    colour: usize,
    name: String,
}

#[derive(Serialize)]
struct Release {
    link: Link,
    build: String,
    is_base: bool,
}

/// One release against another.
#[derive(Serialize)]
struct Comparison {
    heading: String,
    summary: String,
    caveat: String,
    /// Whether its lines have intervals and verdicts, or only say what they rest on.
    judged: bool,
    slower: Vec<Finding>,
    faster: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    link: Link,
    group: String,
    ratio: Ratio,
    interval: String,
    /// The verdict, or what the difference rests on.
    grounds: String,
}

#[derive(Serialize)]
struct GroupTable {
    name: String,
    title: String,
    rows: Vec<GroupRow>,
}

#[derive(Serialize)]
struct GroupRow {
    link: Link,
    count: String,
    min: String,
    max: String,
    avg: String,
    median: Ratio,
    stdev: String,
}

#[derive(Serialize)]
struct HeatMap {
    releases: Vec<Link>,
    groups: Vec<HeatGroup>,
    /// Legend: class and lower or upper limit.
    legend: Vec<Ratio>,
    has_intervals: bool,
}

#[derive(Serialize)]
struct HeatGroup {
    name: String,
    title: String,
    rows: Vec<HeatRow>,
}

#[derive(Serialize)]
struct HeatRow {
    link: Link,
    cells: Vec<HeatCell>,
}

#[derive(Serialize)]
struct HeatCell {
    ratio: Ratio,
    /// Reason for a gap, or the interval and the verdict.
    note: String,
    failed: bool,
    /// Whether the verdict is that it changed.
    sure: bool,
}

/// A failed cell, spelled out for those who cannot hover.
#[derive(Serialize)]
struct Gap {
    bench: Link,
    release: Link,
    reason: String,
}

/// `index.html`.
pub(super) fn pages(site: &Site) -> Result<Vec<Page>, SiteError> {
    let heading = site.title();
    let lines = median_lines(site);
    let view = View {
        heading: heading.clone(),
        base: site.base_label().to_owned(),
        facts: facts(site),
        warnings: site.report.warnings.clone(),
        releases: releases(site),
        findings: findings(site),
        chart: median_chart(site, &lines)?,
        keys: lines
            .iter()
            .enumerate()
            .map(|(index, line)| Key { colour: index % COLOURS, name: line.name.clone() })
            .collect(),
        groups: group_tables(site),
        heat: heat_map(site),
        gaps: gaps(site),
    };
    let title = format!("{heading}: relative QPS of {}", microbenchmarks(site));
    let description = format!(
        "Throughput of {} on {}, relative to {}.",
        microbenchmarks(site),
        counted(site.targets().len(), "release", "releases"),
        site.base_label()
    );
    let page = Page::new("index.html", "index.html", title, description, &view)?;
    Ok(vec![page])
}

fn microbenchmarks(site: &Site) -> String {
    counted(site.report.rows.len(), "microbenchmark", "microbenchmarks")
}

fn facts(site: &Site) -> Vec<Fact> {
    let manifest = &site.report.manifest;
    let mut facts = vec![Fact::new("Base", site.base_label())];
    match &manifest.origin {
        Origin::Measured { profile, protocol } => facts.extend([
            Fact::new("Suite", format!("{}, {}, profile {profile}", protocol.suite, microbenchmarks(site))),
            Fact::new("Rows", whole(protocol.rows)),
            Fact::new(
                "Seconds",
                format!(
                    "{} per read slice, {} per write slice",
                    plain(protocol.read_seconds),
                    plain(protocol.write_seconds)
                ),
            ),
        ]),
        Origin::Imported { files } => facts.extend([
            Fact::new("Imported from", files.join(", ")),
            Fact::new("Microbenchmarks", microbenchmarks(site)),
        ]),
    }
    facts.push(Fact::new("Launches", launches(site)));
    if let Some(host) = &manifest.host {
        let memory = fixed(host.memory_mib as f64 / 1024.0, 1);
        facts.push(Fact::new("Machine", format!("{}, {} CPUs, {memory} GiB, {}", host.cpu, host.cpus, host.os)));
    }
    let (created, updated) = (format::time(manifest.created_at), format::time(manifest.updated_at));
    facts.push(match manifest.origin {
        Origin::Measured { .. } => Fact::new("Measured", format!("{created} to {updated}")),
        Origin::Imported { .. } => Fact::new("Imported", created),
    });
    facts
}

/// How often each release was started, against how often it was to be.
fn launches(site: &Site) -> String {
    let wanted = site.report.manifest.launches as usize;
    match site.launches_per_cell() {
        (_, 0) => "not known: rates as published".to_owned(),
        (fewest, most) if fewest == most && most == wanted => format!("{most} per release"),
        (fewest, most) if fewest == most => format!("{most} of {wanted} wanted per release"),
        (fewest, most) => format!("{fewest} to {most} of {wanted} wanted per release, by microbenchmark"),
    }
}

fn releases(site: &Site) -> Vec<Release> {
    let release = |(index, target)| Release {
        link: site.release_link("", index),
        build: view::build_words(target),
        is_base: index == site.report.base,
    };
    site.targets().iter().enumerate().map(release).collect()
}

/// The newest release against the base and against its predecessor.
fn findings(site: &Site) -> Vec<Comparison> {
    let Some(newest) = site.targets().len().checked_sub(1) else {
        return Vec::new();
    };
    let base = site.report.base;
    let mut comparisons = Vec::new();
    if newest != base {
        comparisons.push(against_base(site, newest));
    }
    if let Some(previous) = newest.checked_sub(1).filter(|&previous| previous != base) {
        comparisons.push(against_previous(site, newest, previous));
    }
    comparisons
}

fn against_base(site: &Site, newest: usize) -> Comparison {
    let base = site.report.base;
    let findings = site.report.rows.iter().enumerate().filter_map(|(index, row)| {
        let relative = row.cells[newest].relative?;
        Some(Finding {
            link: site.bench_link("", index),
            group: row.group.clone(),
            ratio: Ratio::new(Some(relative.ratio)),
            interval: view::interval(Some(relative)),
            grounds: if relative.interval.is_some() {
                relative.words()
            } else {
                evidence(&row.cells[newest], &row.cells[base])
            },
        })
    });
    let findings: Vec<Finding> = findings.collect();
    let intervals = site.has_intervals();
    let summary = if intervals {
        let count = |verdict: Verdict| {
            let cells = site.report.rows.iter().filter_map(|row| row.cells[newest].relative);
            cells.filter(|relative| relative.verdict == verdict).count()
        };
        format!(
            "Of {}: {} faster, {} slower, {} without change, {} where these launches cannot tell.",
            counted(findings.len(), "ratio", "ratios"),
            count(Verdict::Improved),
            count(Verdict::Regressed),
            count(Verdict::Same),
            count(Verdict::Inconclusive)
        )
    } else {
        tally(&findings)
    };
    let caveat = if intervals { String::new() } else { without_interval(site) };
    Comparison { judged: intervals, ..comparison(site, newest, base, findings, summary, caveat) }
}

fn against_previous(site: &Site, newest: usize, previous: usize) -> Comparison {
    let findings = site.report.rows.iter().enumerate().filter_map(|(index, row)| {
        let (cell, other) = (&row.cells[newest], &row.cells[previous]);
        let ratio = view::quotient(cell, other)?;
        Some(Finding {
            link: site.bench_link("", index),
            group: row.group.clone(),
            ratio: Ratio::new(Some(ratio)),
            interval: format::NONE.to_owned(),
            grounds: evidence(cell, other),
        })
    });
    let findings: Vec<Finding> = findings.collect();
    let summary = tally(&findings);
    let caveat = if site.has_intervals() {
        "Quotients of the ratios to the base. Intervals and verdicts exist against the base only, so these are \
         differences seen, not verdicts; make the predecessor the base to get them."
            .to_owned()
    } else {
        without_interval(site)
    };
    comparison(site, newest, previous, findings, summary, caveat)
}

/// How many ratios, as shown, lie on either side of the neutral range of the colour scale.
fn tally(findings: &[Finding]) -> String {
    let slower = findings.iter().filter(|finding| finding.ratio.class.starts_with('s')).count();
    let faster = findings.iter().filter(|finding| finding.ratio.class.starts_with('f')).count();
    format!(
        "Of {}: {faster} above 1.02, {slower} below 0.98, {} between.",
        counted(findings.len(), "ratio", "ratios"),
        findings.len() - faster - slower
    )
}

fn without_interval(site: &Site) -> String {
    match site.launches_per_cell() {
        (_, 0) => "Rates as published, without intervals: small differences may be noise.".to_owned(),
        (_, 1) => "With one launch per release there is no interval: every line is a difference seen in one launch, \
                   and another launch may not show it."
            .to_owned(),
        _ => {
            "No release shares two complete blocks with the base, so there is no interval, and fresh launches may not \
              show these differences."
                .to_owned()
        }
    }
}

/// What a difference rests on: the side with fewer launches.
fn evidence(cell: &Cell, other: &Cell) -> String {
    match cell.launch_rates.len().min(other.launch_rates.len()) {
        0 => "as published".to_owned(),
        1 => "difference seen in one launch".to_owned(),
        launches => format!("{launches} launches, no interval"),
    }
}

/// Picks the largest differences to both sides. What is shown as 1.00 is no finding.
fn comparison(
    site: &Site,
    newest: usize,
    other: usize,
    mut findings: Vec<Finding>,
    summary: String,
    caveat: String,
) -> Comparison {
    let ratio = |finding: &Finding| finding.ratio.value.unwrap_or(1.0);
    findings.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let split = findings.partition_point(|finding| format::two_decimals(ratio(finding)) < 1.0);
    let mut faster = findings.split_off(split);
    faster.retain(|finding| format::two_decimals(ratio(finding)) > 1.0);
    faster.reverse();
    findings.truncate(FINDINGS);
    faster.truncate(FINDINGS);
    let label = |index: usize| &site.targets()[index].label;
    let role = if other == site.report.base { "the base" } else { "its predecessor" };
    Comparison {
        heading: format!("{} against {}, {role}", label(newest), label(other)),
        summary,
        caveat,
        judged: false,
        slower: findings,
        faster,
    }
}

fn summary_of<'a>(site: &Site<'a>, target: usize, group: &str) -> Option<&'a GroupSummary> {
    site.report.summaries.get(target)?.groups.iter().find(|summary| summary.group == group)
}

/// The median of each group that has any, over all releases.
fn median_lines(site: &Site) -> Vec<Line> {
    let line = |(name, _, _): (String, String, Vec<usize>)| {
        let median = |target| summary_of(site, target, &name).map(|summary| summary.median);
        Line { values: (0..site.targets().len()).map(median).collect(), name: name.clone() }
    };
    let lines = view::by_group(site.report).into_iter().map(line);
    lines.filter(|line| line.values.iter().any(Option::is_some)).collect()
}

fn median_chart(site: &Site, lines: &[Line]) -> Result<Option<String>, SiteError> {
    let labels: Vec<String> = site.targets().iter().map(|target| target.label.clone()).collect();
    let title = format!("Median relative QPS of each group over releases; {} is 1.00", site.base_label());
    charts::lines(lines, &labels, &title).map_err(|source| SiteError::Chart { chart: title, source })
}

fn group_tables(site: &Site) -> Vec<GroupTable> {
    let table = |(name, title, _): (String, String, Vec<usize>)| {
        let row = |target: usize| {
            let summary = summary_of(site, target, &name)?;
            Some(GroupRow {
                link: site.release_link("", target),
                count: summary.count.to_string(),
                min: fixed(summary.min, 2),
                max: fixed(summary.max, 2),
                avg: fixed(summary.avg, 2),
                median: Ratio::new(Some(summary.median)),
                stdev: summary.stdev.map_or_else(|| format::NONE.to_owned(), |stdev| fixed(stdev, 2)),
            })
        };
        let rows = (0..site.targets().len()).filter(|&target| target != site.report.base).filter_map(row).collect();
        GroupTable { name: name.clone(), title, rows }
    };
    view::by_group(site.report).into_iter().map(table).filter(|table| !table.rows.is_empty()).collect()
}

fn heat_map(site: &Site) -> HeatMap {
    let cell = |(target, cell): (usize, &Cell)| HeatCell {
        ratio: Ratio::new(cell.relative.map(|relative| relative.ratio)),
        note: heat_note(site, target, cell),
        failed: cell.rate.is_none() && cell.failure.is_some(),
        sure: cell.relative.is_some_and(|r| matches!(r.verdict, Verdict::Improved | Verdict::Regressed)),
    };
    let row = |index: usize| HeatRow {
        link: site.bench_link("", index),
        cells: site.report.rows[index].cells.iter().enumerate().map(cell).collect(),
    };
    let group = |(name, title, rows): (String, String, Vec<usize>)| HeatGroup {
        name,
        title,
        rows: rows.into_iter().map(row).collect(),
    };
    HeatMap {
        releases: (0..site.targets().len()).map(|index| site.release_link("", index)).collect(),
        groups: view::by_group(site.report).into_iter().map(group).collect(),
        legend: legend(),
        has_intervals: site.has_intervals(),
    }
}

fn heat_note(site: &Site, target: usize, cell: &Cell) -> String {
    match view::relative(site, target, cell) {
        Some(relative) if relative.interval.is_some() => {
            format!("{}, 95 % interval {}", relative.words(), view::interval(Some(relative)))
        }
        Some(_) => String::new(),
        None if cell.rate.is_some() => "the base has no rate here".to_owned(),
        None => view::gap(cell),
    }
}

/// A swatch per colour, labelled with the mildest ratio that gets it.
fn legend() -> Vec<Ratio> {
    let hundredth = 0.01;
    let slower = SHADES.iter().rev().map(|limit| limit - hundredth);
    let faster = SHADES.iter().map(|limit| format::two_decimals(1.0 / limit) + hundredth);
    slower.chain([1.0]).chain(faster).map(|ratio| Ratio::new(Some(ratio))).collect()
}

fn gaps(site: &Site) -> Vec<Gap> {
    let rows = site.report.rows.iter().enumerate();
    rows.flat_map(|(index, row)| {
        row.cells.iter().enumerate().filter_map(move |(target, cell)| {
            Some(Gap {
                bench: site.bench_link("", index),
                release: site.release_link("", target),
                reason: cell.failure.clone().or_else(|| cell.noisy.clone())?,
            })
        })
    })
    .collect()
}
