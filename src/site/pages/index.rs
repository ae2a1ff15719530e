//! The overview: what was measured, what came out, and the heat map.

use serde::Serialize;

use super::Job;
use crate::domain::{Cell, GroupSummary, Origin, RelativeQps, Verdict};
use crate::site::changes::{Changes, changes};
use crate::site::charts::{self, COLOURS, Line};
use crate::site::format::{self, counted, fixed, plain, whole};
use crate::site::heat::{HeatMap, heat_map};
use crate::site::view::{self, Fact, Link, Page, Ratio, Site};
use crate::site::{SiteError, answers};

/// Lines of a list of findings.
const FINDINGS: usize = 6;

#[derive(Serialize)]
struct View {
    heading: String,
    base: String,
    facts: Vec<Fact>,
    warnings: Vec<String>,
    releases: Vec<Release>,
    changes: Option<Changes>,
    findings: Vec<Comparison>,
    chart: Option<String>,
    /// Legend of the chart: index of the colour, name.
    keys: Vec<Key>,
    groups: Vec<GroupTable>,
    heat: HeatMap,
    gaps: Vec<Gap>,
    data: String,
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

/// A failed cell, spelled out for those who cannot hover.
#[derive(Serialize)]
struct Gap {
    bench: Link,
    release: Link,
    reason: String,
}

/// `index.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    vec![Box::new(move || page(site))]
}

fn page(site: &Site) -> Result<Page, SiteError> {
    let heading = site.title();
    let lines = median_lines(site);
    let view = View {
        heading: heading.clone(),
        base: site.base_label().to_owned(),
        facts: facts(site),
        warnings: site.report.warnings.clone(),
        releases: releases(site),
        changes: changes(site),
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
        data: answers::json(site, false),
    };
    let title = format!("{heading}: relative QPS");
    let description = format!(
        "Throughput of {} on {}, relative to {}.",
        microbenchmarks(site),
        counted(site.targets().len(), "release", "releases"),
        site.base_label()
    );
    Page::new("index.html", "index.html", title, description, &view)
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
    let previous = newest.checked_sub(1).filter(|&previous| previous != base);
    [Some(base).filter(|&base| base != newest), previous]
        .into_iter()
        .flatten()
        .map(|other| against(site, newest, other))
        .collect()
}

fn against(site: &Site, newest: usize, other: usize) -> Comparison {
    let answers: Vec<(usize, RelativeQps)> =
        (0..site.report.rows.len()).filter_map(|row| Some((row, site.pairs.relative(other, row, newest)?))).collect();
    let judged = answers.iter().any(|(_, relative)| relative.interval.is_some());
    let finding = |(index, relative): &(usize, RelativeQps)| {
        let row = &site.report.rows[*index];
        Finding {
            link: site.bench_link("", *index),
            group: row.group.clone(),
            ratio: Ratio::new(Some(relative.ratio)),
            interval: view::interval(Some(*relative)),
            grounds: if judged { relative.words() } else { evidence(&row.cells[newest], &row.cells[other]) },
        }
    };
    let findings: Vec<Finding> = answers.iter().map(finding).collect();
    let summary = if judged { verdicts(&answers) } else { tally(&findings) };
    let caveat = if judged { String::new() } else { without_interval(site) };
    Comparison { judged, ..comparison(site, newest, other, findings, summary, caveat) }
}

/// How many ratios have which verdict.
fn verdicts(answers: &[(usize, RelativeQps)]) -> String {
    let count = |verdict: Verdict| answers.iter().filter(|(_, relative)| relative.verdict == verdict).count();
    format!(
        "Of {}: {} faster, {} slower, {} without change, {} where these launches cannot tell.",
        counted(answers.len(), "ratio", "ratios"),
        count(Verdict::Improved),
        count(Verdict::Regressed),
        count(Verdict::Same),
        count(Verdict::Inconclusive)
    )
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
    // A group that has no ratio to this base may have some to another.
    let groups = if site.targets().len() > 1 { view::by_group(site.report) } else { Vec::new() };
    groups.into_iter().map(table).collect()
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
