//! One page per week: what it measured, and what is new in it.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;

use super::Job;
use crate::domain::{History, HistoryWeek, Series, Week};
use crate::site::SiteError;
use crate::site::format;
use crate::site::past::{self, CellEvents};
use crate::site::view::{Fact, Link, Page, Site};

#[derive(Serialize)]
struct View {
    week: String,
    days: String,
    sections: Vec<Section>,
    previous: Option<Link>,
    next: Option<Link>,
}

/// One series in this week; nearly always there is only one.
#[derive(Serialize)]
struct Section {
    /// Why it stands apart from the first.
    apart: Option<String>,
    facts: Vec<Fact>,
    news: Vec<Row>,
    /// Releases without news in a cell: first measured this week.
    targets: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    bench: Link,
    release: String,
    sentences: Vec<String>,
}

/// `week/<week>.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    let Some(history) = site.history else { return Vec::new() };
    let weeks = Arc::new(past::weeks(history));
    let job = |index| -> Job<'a> {
        let weeks = Arc::clone(&weeks);
        Box::new(move || page(site, history, &weeks, index))
    };
    (0..weeks.len()).map(job).collect()
}

/// `weeks` are newest first.
fn page(site: &Site, history: &History, weeks: &[Week], index: usize) -> Result<Page, SiteError> {
    let week = weeks[index];
    let in_series = |series: &Series| series.weeks.iter().position(|one| one.week == week);
    let link = |week: &Week| Link::new(format!("{week}.html"), &week.to_string());
    let sections = history.series.iter().filter_map(|series| Some(section(site, series, in_series(series)?)));
    let view = View {
        week: week.to_string(),
        days: past::days(week),
        sections: sections.collect(),
        previous: weeks.get(index + 1).map(link),
        next: index.checked_sub(1).map(|newer| link(&weeks[newer])),
    };
    let (title, description) = (format!("Week {week}"), format!("What was measured in {week}, and what is new in it."));
    let mut page = Page::new(&past::week_path(week), "week.html", title, description, &view)?;
    page.crumbs = vec![Link::new("../history.html", "History")];
    Ok(page)
}

fn section(site: &Site, series: &Series, index: usize) -> Section {
    let week = &series.weeks[index];
    let row = |cell: &CellEvents<'_>| Row {
        bench: past::bench_link(site, "../", cell.microbenchmark),
        release: cell.target.label.clone(),
        sentences: cell.events.iter().map(|event| event.sentence().to_owned()).collect(),
    };
    Section {
        apart: series.apart.clone(),
        facts: facts(series, index),
        news: past::events(series, index).iter().map(row).collect(),
        targets: week.news.targets.iter().map(|target| target.label.clone()).collect(),
    }
}

fn facts(series: &Series, index: usize) -> Vec<Fact> {
    let week = &series.weeks[index];
    let labels: Vec<&str> = week.targets.iter().map(|target| target.label.as_str()).collect();
    let mut cells = format::counted(week.cells, "cell with a ratio", "cells with a ratio");
    if week.gaps > 0 {
        let _ = write!(cells, ", {} without", format::whole(week.gaps as u64));
    }
    let mut facts = vec![
        Fact::new("Releases", labels.join(", ")),
        Fact::new("Base", series.base()),
        Fact::new("Cells", cells),
        Fact::code("Sweep", week.sweep.clone()),
        Fact::new("Measured until", format::time(week.updated_at)),
    ];
    let before = index.checked_sub(1).map(|before| &series.weeks[before]);
    facts.extend(before.and_then(|before| surroundings(before, week)).map(|text| Fact::new("Other than before", text)));
    facts
}

/// What is other than in the week before and may move ratios, although nobody measures it.
fn surroundings(before: &HistoryWeek, week: &HistoryWeek) -> Option<String> {
    let mut changes = Vec::new();
    for (what, was, is) in [("kernel", &before.kernel, &week.kernel), ("regtrack", &before.regtrack, &week.regtrack)] {
        if was != is {
            changes.push(format!("{what} {is} instead of {was}"));
        }
    }
    (!changes.is_empty()).then(|| changes.join("; "))
}
