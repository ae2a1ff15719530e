//! One page per release: where its build came from, how it was configured, and all of its rates.

use std::collections::BTreeSet;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Job;
use crate::domain::{Build, Change, MajorRelease, Provenance, RelativeQps, ReportRow, Target, base_name};
use crate::site::SiteError;
use crate::site::format::{self, fixed};
use crate::site::view::{self, Fact, Link, Page, Ratio, Site};

#[derive(Serialize)]
struct View {
    label: String,
    is_base: bool,
    base: String,
    /// Heads of the columns that compare with other releases than the base.
    others: Vec<String>,
    facts: Vec<Fact>,
    settings: Vec<Setting>,
    /// Labels of the releases that the settings are compared with.
    compared: Vec<String>,
    differences: Vec<Difference>,
    changes: Vec<ChangeView>,
    /// Label of the release that the changes are measured against.
    previous_major: Option<String>,
    groups: Vec<Group>,
    has_intervals: bool,
    /// Cells of a row behind its name and group, which a gap spans.
    columns: usize,
    rows: Vec<Row>,
    previous: Option<Link>,
    next: Option<Link>,
}

#[derive(Serialize)]
struct Setting {
    name: String,
    value: String,
}

/// A setting whose value is not the same in all releases that are compared.
#[derive(Serialize)]
struct Difference {
    name: String,
    /// One value per compared release.
    others: Vec<String>,
    this: String,
}

/// A known change, beside what was measured.
#[derive(Serialize)]
struct ChangeView {
    major: String,
    title: String,
    effect: String,
    source: String,
    measured: Vec<Measured>,
}

#[derive(Serialize)]
struct Measured {
    name: String,
    /// The microbenchmark's page; absent for a group.
    href: Option<String>,
    ratio: Ratio,
    /// Absent for a group, and where nothing was measured twice.
    interval: Option<String>,
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
    /// Against the other releases.
    others: Vec<Other>,
    gap: Option<String>,
}

/// An answer against another release than the base.
#[derive(Serialize)]
struct Other {
    ratio: Ratio,
    interval: String,
    verdict: String,
}

impl Other {
    fn new(relative: Option<RelativeQps>) -> Self {
        Self {
            ratio: Ratio::new(relative.map(|relative| relative.ratio)),
            interval: view::interval(relative),
            verdict: relative.map_or_else(|| format::NONE.to_owned(), |relative| relative.words()),
        }
    }
}

/// `release/<slug>.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    (0..site.targets().len()).map(|index| -> Job<'a> { Box::new(move || page(site, index)) }).collect()
}

fn page(site: &Site, index: usize) -> Result<Page, SiteError> {
    let target = &site.targets()[index];
    let relatives = Relatives::of(site, index);
    let setting = |(name, value): (&String, &String)| Setting { name: name.clone(), value: value.clone() };
    let per_release = if site.has_intervals() { 3 } else { 1 };
    let view = View {
        label: target.label.clone(),
        is_base: index == site.report.base,
        base: site.base_label().to_owned(),
        others: relatives.columns().map(|(role, other)| format!("vs {} ({role})", label(site, other))).collect(),
        facts: facts(site, target),
        settings: target.settings.iter().map(setting).collect(),
        compared: relatives.all().map(|(role, other)| format!("{} ({role})", label(site, other))).collect(),
        differences: differences(site, index, &relatives),
        changes: changes(site, index, relatives.major),
        previous_major: relatives.major.map(|other| label(site, other).to_owned()),
        groups: groups(site, index),
        has_intervals: site.has_intervals(),
        columns: 1 + per_release * (1 + relatives.columns().count()),
        rows: rows(site, index, &relatives),
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

fn label<'a>(site: &Site<'a>, target: usize) -> &'a str {
    &site.targets()[target].label
}

/// The releases that a release is compared with, as places among the targets.
struct Relatives {
    this: usize,
    base: usize,
    /// The newest of the major before it that the sweep has.
    major: Option<usize>,
    /// The newest of its own major that is older.
    minor: Option<usize>,
    /// The target before it, where there is none of the above: another build, say.
    neighbour: Option<usize>,
}

impl Relatives {
    fn of(site: &Site, index: usize) -> Self {
        let this = &site.targets()[index];
        let variant = |target: &Target| target.build.as_ref().and_then(|build| build.variant.clone());
        // Of several builds of a release, the one that was compiled alike.
        let newest = |fits: &dyn Fn(&Target) -> bool| {
            let fitting = site.targets().iter().enumerate().filter(|(_, target)| fits(target));
            fitting.max_by_key(|(_, target)| (target.version, variant(target) == variant(this))).map(|(index, _)| index)
        };
        let major = newest(&|target| target.version.major < this.version.major);
        let minor = newest(&|target| target.version.major == this.version.major && target.version < this.version);
        let neighbour = index.checked_sub(1).filter(|_| major.is_none() && minor.is_none());
        Self { this: index, base: site.report.base, major, minor, neighbour }
    }

    /// Those that have a column of their own, with what they are to this release. The base has one anyway.
    fn columns(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let named = [("previous major", self.major), ("previous minor", self.minor), ("before it", self.neighbour)];
        let base = self.base;
        named.into_iter().filter_map(|(role, other)| Some((role, other?))).filter(move |(_, other)| *other != base)
    }

    /// The base and the others, without the release itself.
    fn all(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let base = Some(("base", self.base)).filter(|(_, base)| *base != self.this);
        base.into_iter().chain(self.columns())
    }
}

/// Settings that the release has otherwise than the base or a predecessor.
fn differences(site: &Site, index: usize, relatives: &Relatives) -> Vec<Difference> {
    let settings = |target: usize| &site.targets()[target].settings;
    let others: Vec<usize> = relatives.all().map(|(_, other)| other).collect();
    // Without any reading nothing is known about a release, not even that it has the defaults.
    if others.iter().chain([&index]).any(|&target| settings(target).is_empty()) {
        return Vec::new();
    }
    let value = |target: usize, name: &str| settings(target).get(name).map_or("its default", String::as_str).to_owned();
    let names: BTreeSet<&String> = others.iter().chain([&index]).flat_map(|&target| settings(target).keys()).collect();
    let differs =
        |name: &&&String| others.iter().any(|&other| settings(other).get(**name) != settings(index).get(**name));
    let difference = |name: &String| Difference {
        name: name.clone(),
        others: others.iter().map(|&other| value(other, name)).collect(),
        this: value(index, name),
    };
    names.iter().filter(differs).map(|name| difference(name)).collect()
}

/// What is known to have changed since the previous major that was measured, or else in this one.
fn changes(site: &Site, index: usize, previous: Option<usize>) -> Vec<ChangeView> {
    let this = site.targets()[index].version.major;
    let since = previous.map(|previous| site.targets()[previous].version.major);
    let is_between = |major: &&MajorRelease| {
        major.major == this || (major.major < this && since.is_some_and(|since| major.major > since))
    };
    let mut majors: Vec<&MajorRelease> = site.majors.iter().filter(is_between).collect();
    majors.sort_by_key(|major| std::cmp::Reverse(major.major));
    let view = |major: &MajorRelease, change: &Change| ChangeView {
        major: major.major.to_string(),
        title: change.title.clone(),
        effect: change.effect.clone(),
        source: change.source.clone(),
        measured: previous.map(|previous| measured(site, index, previous, &change.touches)).unwrap_or_default(),
    };
    majors.iter().flat_map(|major| major.changes.iter().map(|change| view(major, change))).collect()
}

/// Answers against `previous` of the groups and microbenchmarks that a change names: of a group the quotient of the medians.
fn measured(site: &Site, index: usize, previous: usize, touches: &[String]) -> Vec<Measured> {
    let median = |target: usize, group: &str| {
        let groups = &site.report.summaries.get(target)?.groups;
        groups.iter().find(|summary| summary.group == group).map(|summary| summary.median)
    };
    let of_group = |name: &String| {
        let ratio = median(index, name)? / median(previous, name)?;
        Some(Measured { name: format!("{name} (median)"), href: None, ratio: Ratio::new(Some(ratio)), interval: None })
    };
    let of_row = |(row_index, row): (usize, &ReportRow)| {
        let relative = site.pairs.relative(previous, row_index, index)?;
        let href = Some(format!("../{}", site.bench_path(row_index)));
        let interval = relative.interval.map(|_| view::interval(Some(relative)));
        Some(Measured { name: row.name.clone(), href, ratio: Ratio::new(Some(relative.ratio)), interval })
    };
    let of_name = |name: &String| {
        let rows = site.report.rows.iter().enumerate().filter(|(_, row)| base_name(&row.name) == name);
        of_group(name).into_iter().chain(rows.filter_map(of_row)).collect::<Vec<_>>()
    };
    touches.iter().flat_map(of_name).collect()
}

fn facts(site: &Site, target: &Target) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Release", target.version.to_string())];
    if let Some(major) = site.majors.iter().find(|major| major.major == target.version.major) {
        let release = major.releases.iter().find(|release| release.version == target.version);
        facts.extend(release.and_then(|release| release.date).map(|date| Fact::new("Released", date.to_string())));
        facts.extend(major.end_of_life.map(|date| Fact::new("End of life of the major", end_of_life(site, date))));
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

/// The day, and whether it was over when the sweep was last worked on.
fn end_of_life(site: &Site, date: Date) -> String {
    let measured = site.report.manifest.updated_at.to_zoned(TimeZone::UTC).date();
    if date < measured { format!("{date}: past when this sweep was measured ({measured})") } else { date.to_string() }
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
fn rows(site: &Site, index: usize, relatives: &Relatives) -> Vec<Row> {
    let step = |row: &ReportRow| row.definition.as_ref().map(|definition| definition.step);
    let mut order: Vec<usize> = (0..site.report.rows.len()).collect();
    order.sort_by_key(|&row| step(&site.report.rows[row]).unwrap_or(u32::MAX));
    let line = |row_index: usize| {
        let row = &site.report.rows[row_index];
        let cell = &row.cells[index];
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
            others: relatives
                .columns()
                .map(|(_, other)| Other::new(site.pairs.relative(other, row_index, index)))
                .collect(),
            gap: if cell.rate.is_none() { Some(view::gap(cell)) } else { None },
        }
    };
    order.into_iter().map(line).collect()
}
