//! One page per release: where its build came from, how it was configured, and all of its rates.

use serde::Serialize;

use crate::domain::{Build, Provenance, ReportRow, Target};
use crate::site::SiteError;
use crate::site::format::{self, fixed};
use crate::site::view::{self, Fact, Link, Page, Ratio, Site};

#[derive(Serialize)]
struct View {
    label: String,
    is_base: bool,
    base: String,
    /// Label of the release before this one.
    predecessor: Option<String>,
    facts: Vec<Fact>,
    settings: Vec<Setting>,
    groups: Vec<Group>,
    has_intervals: bool,
    rows: Vec<Row>,
    previous: Option<Link>,
    next: Option<Link>,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    value: String,
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
    /// Place in the run order; absent for rows without definition.
    step: Option<u32>,
    link: Link,
    group: String,
    rate: String,
    rate_value: Option<f64>,
    /// Shown beside a rate that is not in QPS.
    unit: Option<&'static str>,
    ratio: Ratio,
    interval: String,
    verdict: String,
    against_previous: Ratio,
    gap: Option<String>,
}

/// `release/<slug>.html`.
pub(super) fn pages(site: &Site) -> Result<Vec<Page>, SiteError> {
    (0..site.targets().len()).map(|index| page(site, index)).collect()
}

fn page(site: &Site, index: usize) -> Result<Page, SiteError> {
    let target = &site.targets()[index];
    let setting = |(name, value): (&String, &String)| Setting { name: name.clone(), value: value.clone() };
    let view = View {
        label: target.label.clone(),
        is_base: index == site.report.base,
        base: site.base_label().to_owned(),
        predecessor: index.checked_sub(1).map(|previous| site.targets()[previous].label.clone()),
        facts: facts(site, target),
        settings: target.settings.iter().map(setting).collect(),
        groups: groups(site, index),
        has_intervals: site.has_intervals(),
        rows: rows(site, index),
        previous: index.checked_sub(1).map(|previous| site.release_link("../", previous)),
        next: Some(index + 1).filter(|&next| next < site.targets().len()).map(|next| site.release_link("../", next)),
    };
    let title = format!("PostgreSQL {}", target.label);
    let description =
        format!("Build, settings and rates of PostgreSQL {}, relative to {}.", target.label, site.base_label());
    let mut page = Page::new(&site.release_path(index), "release.html", title, description, &view)?;
    page.crumbs = vec![Link::new("../index.html#releases", "Releases")];
    page.feed = site.names.release_feed(&target.label);
    Ok(page)
}

fn facts(site: &Site, target: &Target) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Release", target.version.to_string())];
    if let Some(major) = site.majors.iter().find(|major| major.major == target.version.major) {
        let release = major.releases.iter().find(|release| release.version == target.version);
        facts.extend(release.and_then(|release| release.date).map(|date| Fact::new("Released", date.to_string())));
        facts.extend(major.end_of_life.map(|date| Fact::new("End of life of the major", date.to_string())));
    }
    facts.push(Fact::code("Target", target.id.0.clone()));
    if let Some(build) = &target.build {
        facts.extend(build_facts(build));
    }
    if let Some(imported) = &target.imported {
        facts.push(Fact::new("Build, as published", imported.build.clone()));
        facts.push(Fact::new("Configuration, as published", imported.config.clone()));
    }
    facts.extend(target.data_digest.as_ref().map(|digest| Fact::code("Digest of the rows", digest.clone())));
    facts
}

fn build_facts(build: &Build) -> Vec<Fact> {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not recorded in the install tree".to_owned());
    let fingerprint = &build.fingerprint;
    let mut facts = vec![Fact::new("Provenance", build.provenance.to_string())];
    match &build.provenance {
        Provenance::Source { sha256: Some(sha256), .. } => {
            facts.push(Fact::code("SHA-256 of the archive", sha256.clone()));
        }
        Provenance::Git { commit, .. } => facts.push(Fact::code("Commit", commit.clone())),
        _ => {}
    }
    facts.extend([
        Fact::code("postgres --version", fingerprint.version_text.clone()),
        Fact::new("Compiler", known(&fingerprint.compiler)),
        Fact::code("Compiler flags", known(&fingerprint.cflags)),
        Fact::code("configure", known(&fingerprint.configure)),
        Fact::code("SHA-256 of bin/postgres", fingerprint.postgres_sha256.clone()),
    ]);
    facts
}

fn groups(site: &Site, index: usize) -> Vec<Group> {
    let summaries = site.report.summaries.get(index).map(|summary| summary.groups.as_slice()).unwrap_or_default();
    let group = |summary: &crate::domain::GroupSummary| Group {
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

/// The rows in run order; those without definition keep the report's order, after the others.
fn rows(site: &Site, index: usize) -> Vec<Row> {
    let step = |row: &ReportRow| row.definition.as_ref().map(|definition| definition.step);
    let mut order: Vec<usize> = (0..site.report.rows.len()).collect();
    order.sort_by_key(|&row| step(&site.report.rows[row]).unwrap_or(u32::MAX));
    let line = |row_index: usize| {
        let row = &site.report.rows[row_index];
        let cell = &row.cells[index];
        let previous = index.checked_sub(1).and_then(|previous| view::quotient(cell, &row.cells[previous]));
        Row {
            step: step(row),
            link: site.bench_link("../", row_index),
            group: row.group.clone(),
            rate: cell.rate.map_or_else(|| format::NONE.to_owned(), |rate| view::rate(rate, row.unit)),
            rate_value: cell.rate,
            unit: Some(view::unit(row.unit)).filter(|unit| *unit != "QPS"),
            ratio: Ratio::new(cell.relative.map(|relative| relative.ratio)),
            interval: view::interval(view::relative(site, index, cell)),
            verdict: view::cell_verdict(site, index, cell.relative),
            against_previous: Ratio::new(previous),
            gap: if cell.rate.is_none() { Some(view::gap(cell)) } else { None },
        }
    };
    order.into_iter().map(line).collect()
}
