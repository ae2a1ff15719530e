//! Any two releases side by side. The page itself has the newest release against the base; its script any other pair.

use serde::Serialize;

use super::Job;
use crate::domain::GroupSummary;
use crate::site::format::{self, counted, fixed};
use crate::site::view::{self, Link, Page, Ratio, Site};
use crate::site::{SiteError, answers};

#[derive(Serialize)]
struct View {
    base: String,
    target: String,
    groups: Vec<Group>,
    rows: Vec<Row>,
    data: String,
}

#[derive(Serialize)]
struct Group {
    name: String,
    count: usize,
    min: String,
    max: String,
    avg: String,
    median: Ratio,
    stdev: String,
}

#[derive(Serialize)]
struct Row {
    index: usize,
    link: Link,
    group: String,
    unit: &'static str,
    base_rate: String,
    target_rate: String,
    ratio: Ratio,
    interval: String,
    words: String,
}

/// `compare.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    vec![Box::new(move || page(site))]
}

fn page(site: &Site) -> Result<Page, SiteError> {
    let base = site.report.base;
    let target = other(site);
    let label = |target: usize| site.targets().get(target).map_or("", |target| &target.label).to_owned();
    let view = View {
        base: site.base_label().to_owned(),
        target: label(target),
        groups: groups(site, target),
        rows: rows(site, base, target),
        data: answers::json(site, true),
    };
    let description = format!(
        "Any two of {} side by side: rates, ratios, intervals and verdicts.",
        counted(site.targets().len(), "release", "releases")
    );
    Page::new("compare.html", "compare.html", "Compare two releases".to_owned(), description, &view)
}

/// What the base is compared with at first: the newest release, unless that is the base.
fn other(site: &Site) -> usize {
    let newest = site.targets().len().saturating_sub(1);
    if newest == site.report.base { 0 } else { newest }
}

fn groups(site: &Site, target: usize) -> Vec<Group> {
    let summaries = site.report.summaries.get(target).map(|summary| summary.groups.as_slice()).unwrap_or_default();
    let group = |summary: &GroupSummary| Group {
        name: summary.group.clone(),
        count: summary.count,
        min: fixed(summary.min, 2),
        max: fixed(summary.max, 2),
        avg: fixed(summary.avg, 2),
        median: Ratio::new(Some(summary.median)),
        stdev: summary.stdev.map_or_else(|| format::NONE.to_owned(), |stdev| fixed(stdev, 2)),
    };
    summaries.iter().map(group).collect()
}

fn rows(site: &Site, base: usize, target: usize) -> Vec<Row> {
    let row = |index: usize| {
        let row = &site.report.rows[index];
        let rate = |target: usize| {
            row.cells[target].rate.map_or_else(|| format::NONE.to_owned(), |rate| view::rate(rate, row.unit))
        };
        let relative = site.pairs.relative(base, index, target);
        Row {
            index,
            link: site.bench_link("", index),
            group: row.group.clone(),
            unit: view::unit(row.unit),
            base_rate: rate(base),
            target_rate: rate(target),
            ratio: Ratio::new(relative.map(|relative| relative.ratio)),
            interval: view::interval(relative),
            words: relative.map_or_else(|| view::gap(&row.cells[target]), |relative| relative.words()),
        }
    };
    view::by_group(site.report).into_iter().flat_map(|(_, _, rows)| rows).map(row).collect()
}
