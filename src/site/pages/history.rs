//! The history: the weeks, what changed and what drifted, and a page of ratios week by week per microbenchmark.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Job;
use crate::domain::{History, Line, Series, Track};
use crate::site::SiteError;
use crate::site::format::{self, fixed};
use crate::site::past;
use crate::site::timeline;
use crate::site::view::{Fact, Link, Page, Ratio, Site};

#[derive(Serialize)]
struct Overview {
    weeks: Vec<WeekRow>,
    sections: Vec<Section>,
    benches: Vec<Link>,
    feeds: Vec<Link>,
}

#[derive(Serialize)]
struct WeekRow {
    link: Link,
    releases: usize,
    cells: usize,
    gaps: usize,
    confirmed: usize,
    withdrawn: usize,
    changes: usize,
    corrections: usize,
}

/// What one series shows.
#[derive(Serialize)]
struct Section {
    title: String,
    apart: Option<String>,
    facts: Vec<Fact>,
    base: String,
    changes: Vec<ChangeRow>,
    drifts: Vec<DriftRow>,
}

#[derive(Serialize)]
struct ChangeRow {
    bench: Link,
    line: String,
    week: Link,
    before: String,
    after: String,
    factor: Ratio,
    found: String,
}

#[derive(Serialize)]
struct DriftRow {
    bench: Link,
    line: String,
    now: String,
    best: String,
    of: String,
    week: String,
    loss: String,
    loss_value: f64,
}

#[derive(Serialize)]
struct Bench {
    name: String,
    /// Its page in the site's sweep.
    now: Option<Link>,
    feed: Option<Link>,
    sections: Vec<BenchSection>,
}

/// One microbenchmark in one series.
#[derive(Serialize)]
struct BenchSection {
    title: String,
    /// For ids and labels, which have to be unique on the page.
    number: usize,
    apart: Option<String>,
    base: String,
    chart: Option<String>,
    legend: Vec<LegendEntry>,
    changes: Vec<String>,
    drifts: Vec<String>,
    columns: Vec<String>,
    rows: Vec<BenchRow>,
}

#[derive(Serialize)]
struct LegendEntry {
    name: String,
    colour: usize,
}

#[derive(Serialize)]
struct BenchRow {
    week: Link,
    ratios: Vec<Ratio>,
}

/// `history.html`, and `history/<slug>.html` of each microbenchmark.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    let Some(history) = site.history else { return Vec::new() };
    let mut pages: Vec<Job<'a>> = vec![Box::new(move || overview(site, history))];
    for (name, _) in site.names.benches() {
        pages.push(Box::new(move || bench(site, history, name)));
    }
    pages
}

fn overview(site: &Site, history: &History) -> Result<Page, SiteError> {
    let mut feeds = vec![Link::new("feed.xml", "everything")];
    let release = |(label, _): (&str, &str)| Some(Link::new(site.names.release_feed(label)?, label));
    feeds.extend(site.names.releases().filter_map(release));
    let view = Overview {
        weeks: past::weeks(history).into_iter().map(|week| week_row(history, week)).collect(),
        sections: history.series.iter().map(|series| section(site, series)).collect(),
        benches: site.names.benches().map(|(name, _)| past::bench_link(site, "", name)).collect(),
        feeds,
    };
    let description = "Week over week: what was measured, where ratios changed, and what was lost bit by bit.";
    Page::new("history.html", "history.html", "History".to_owned(), description.to_owned(), &view)
}

/// A week over all series.
fn week_row(history: &History, week: crate::domain::Week) -> WeekRow {
    let weeks: Vec<_> = history.series.iter().flat_map(|series| &series.weeks).filter(|one| one.week == week).collect();
    let sum = |count: fn(&crate::domain::HistoryWeek) -> usize| weeks.iter().map(|week| count(week)).sum();
    WeekRow {
        link: Link::new(past::week_path(week), &week.to_string()),
        releases: sum(|week| week.targets.len()),
        cells: sum(|week| week.cells),
        gaps: sum(|week| week.gaps),
        confirmed: sum(|week| week.news.confirmed.len()),
        withdrawn: sum(|week| week.news.withdrawn.len()),
        changes: sum(|week| week.news.changes.len()),
        corrections: sum(|week| week.news.corrections.len()),
    }
}

/// `2026-W02 to 2026-W49`
fn span(series: &Series) -> String {
    match series.weeks.as_slice() {
        [] => String::new(),
        [only] => only.week.to_string(),
        [first, .., last] => format!("{} to {}", first.week, last.week),
    }
}

fn section(site: &Site, series: &Series) -> Section {
    let fact = |(name, value): &(String, String)| Fact { name: name.clone().into(), value: value.clone(), code: false };
    let tracks = || series.tracks.iter();
    Section {
        title: span(series),
        apart: series.apart.clone(),
        facts: series.key.0.iter().map(fact).collect(),
        base: series.base().to_owned(),
        changes: tracks().flat_map(|track| change_rows(site, series, track)).collect(),
        drifts: tracks().filter_map(|track| drift_row(site, series, track)).collect(),
    }
}

fn change_rows(site: &Site, series: &Series, track: &Track) -> Vec<ChangeRow> {
    let week = |point: usize| series.weeks[track.points[point].week].week;
    let row = |change: &crate::domain::ChangePoint| ChangeRow {
        bench: past::bench_link(site, "", &series.microbenchmarks[track.microbenchmark]),
        line: series.lines[track.line].name(),
        week: Link::new(past::week_path(week(change.at)), &week(change.at).to_string()),
        before: fixed(change.before, 3),
        after: fixed(change.after, 3),
        factor: Ratio::new(Some(change.factor())),
        found: week(change.found).to_string(),
    };
    track.changes.iter().map(row).collect()
}

fn drift_row(site: &Site, series: &Series, track: &Track) -> Option<DriftRow> {
    let drift = track.drift?;
    Some(DriftRow {
        bench: past::bench_link(site, "", &series.microbenchmarks[track.microbenchmark]),
        line: series.lines[track.line].name(),
        now: fixed(drift.now, 3),
        best: fixed(drift.best, 3),
        of: series.lines[drift.best_line].name(),
        week: series.weeks[drift.best_week].week.to_string(),
        loss: format!("{} %", fixed(100.0 * drift.loss(), 1)),
        loss_value: drift.loss(),
    })
}

fn bench(site: &Site, history: &History, name: &str) -> Result<Page, SiteError> {
    let row = site.report.rows.iter().position(|row| row.name == name);
    let sections = history.series.iter().enumerate();
    let view = Bench {
        name: name.to_owned(),
        now: row.map(|row| Link::new(format!("../{}", site.bench_path(row)), "this sweep's numbers and statements")),
        feed: site.names.bench_feed(name).map(|path| Link::new(format!("../{path}"), "feed")),
        sections: sections.filter_map(|(number, series)| bench_section(series, name, number)).collect(),
    };
    let (title, description) = (format!("{name}, week by week"), format!("{name} relative to the base, week by week."));
    let path = site.names.bench_path(name).unwrap_or_default();
    let mut page = Page::new(&path, "history-bench.html", title, description, &view)?;
    page.crumbs = vec![Link::new("../history.html", "History")];
    page.feed = site.names.bench_feed(name);
    Ok(page)
}

/// `None` where the series does not have the microbenchmark.
fn bench_section(series: &Series, name: &str, number: usize) -> Option<BenchSection> {
    let row = series.microbenchmarks.iter().position(|other| other == name)?;
    let tracks: Vec<&Track> = series.tracks.iter().filter(|track| track.microbenchmark == row).collect();
    let shown = shown(series, &tracks);
    let weeks: Vec<String> = series.weeks.iter().map(|week| week.week.to_string()).collect();
    let lines: Vec<timeline::Line> = shown.iter().map(|track| line(series, track)).collect();
    let title = format!("{name} relative to {}, {}", series.base(), span(series));
    let description = format!("{} The table below has every number.", level_words(series, &shown));
    let legend = shown.iter().enumerate();
    let changes = tracks
        .iter()
        .flat_map(|track| (0..track.changes.len()).map(|change| past::change_words(series, track, change)));
    Some(BenchSection {
        title: span(series),
        number,
        apart: series.apart.clone(),
        base: series.base().to_owned(),
        chart: timeline::draw(&weeks, &lines, &title, &description),
        legend: legend
            .map(|(index, track)| LegendEntry { name: series.lines[track.line].name(), colour: index % 7 })
            .collect(),
        changes: changes.collect(),
        drifts: tracks.iter().filter_map(|track| drift_words(series, track)).collect(),
        columns: shown.iter().map(|track| series.lines[track.line].name()).collect(),
        rows: rows(series, &shown),
    })
}

/// One line per major: that of its newest releases where it had several, else that of its only one. The base, which is 1
/// by definition, has none.
fn shown<'a>(series: &Series, tracks: &[&'a Track]) -> Vec<&'a Track> {
    let majors: BTreeSet<_> = series
        .lines
        .iter()
        .filter_map(|line| match line {
            Line::Major(major) => Some(*major),
            Line::Target(_) => None,
        })
        .collect();
    let mut by_major = BTreeMap::new();
    for track in tracks {
        match &series.lines[track.line] {
            Line::Major(major) => drop(by_major.insert(*major, *track)),
            Line::Target(target) if !majors.contains(&target.version.major) && target.label != series.base() => {
                by_major.insert(target.version.major, *track);
            }
            Line::Target(_) => {}
        }
    }
    by_major.into_values().collect()
}

fn line(series: &Series, track: &Track) -> timeline::Line {
    let mut values = vec![None; series.weeks.len()];
    for point in &track.points {
        values[point.week] = Some(point.answer.ratio);
    }
    let mark = |change: usize| (track.points[track.changes[change].at].week, past::change_words(series, track, change));
    timeline::Line { values, marks: (0..track.changes.len()).map(mark).collect() }
}

/// Where each line stands in its last week.
fn level_words(series: &Series, tracks: &[&Track]) -> String {
    let level = |track: &&Track| {
        let last = track.points.last()?;
        Some(format!(
            "{} at {} in {}",
            series.lines[track.line].name(),
            fixed(last.answer.ratio, 3),
            series.weeks[last.week].week
        ))
    };
    let levels: Vec<String> = tracks.iter().filter_map(level).collect();
    if levels.is_empty() { String::new() } else { format!("Last values: {}.", levels.join("; ")) }
}

fn drift_words(series: &Series, track: &Track) -> Option<String> {
    let drift = track.drift?;
    Some(format!(
        "{} lost {} % bit by bit: it is at {}, and {} was at {} until {}.",
        series.lines[track.line].name(),
        fixed(100.0 * drift.loss(), 1),
        fixed(drift.now, 3),
        series.lines[drift.best_line].name(),
        fixed(drift.best, 3),
        series.weeks[drift.best_week].week
    ))
}

/// Newest week first.
fn rows(series: &Series, tracks: &[&Track]) -> Vec<BenchRow> {
    let row = |(index, week): (usize, &crate::domain::HistoryWeek)| {
        let ratio = |track: &&Track| {
            let point = track.points.iter().find(|point| point.week == index);
            let ratio = Ratio::new(point.map(|point| point.answer.ratio));
            Ratio { text: point.map_or_else(|| format::NONE.to_owned(), |point| fixed(point.answer.ratio, 3)), ..ratio }
        };
        BenchRow {
            week: Link::new(format!("../{}", past::week_path(week.week)), &week.week.to_string()),
            ratios: tracks.iter().map(ratio).collect(),
        }
    };
    series.weeks.iter().enumerate().rev().map(row).collect()
}
