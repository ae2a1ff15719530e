//! What the pages and feeds about the history share: paths, and what is new in a week in words.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan as _};

use super::slug;
use super::view::{Link, Site};
use crate::domain::{Correction, History, HistoryWeek, Line, Series, Track, Week, WeekTarget};

/// File names of the history's pages and feeds.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    benches: BTreeMap<String, String>,
    releases: BTreeMap<String, String>,
}

impl Names {
    /// Microbenchmarks get the names that they have elsewhere in the site: `rows` come first.
    pub(super) fn new<'a>(history: &'a History, rows: impl Iterator<Item = &'a str>) -> Self {
        let benches = rows.chain(history.series.iter().flat_map(|series| &series.microbenchmarks).map(String::as_str));
        let targets = history.series.iter().flat_map(|series| &series.lines);
        // Majors first: their names never depend on which releases there are.
        let mut majors: Vec<String> = targets.clone().filter_map(major).collect();
        majors.sort_unstable();
        let labels = targets.filter_map(|line| match line {
            Line::Target(target) => Some(target.label.as_str()),
            Line::Major(_) => None,
        });
        Self { benches: named(benches), releases: named(majors.iter().map(String::as_str).chain(labels)) }
    }

    /// Microbenchmarks, each with the stem of its files.
    pub(super) fn benches(&self) -> impl Iterator<Item = (&str, &str)> {
        self.benches.iter().map(|(name, slug)| (name.as_str(), slug.as_str()))
    }

    /// Labels of releases, and majors, each with the stem of its feed.
    pub(super) fn releases(&self) -> impl Iterator<Item = (&str, &str)> {
        self.releases.iter().map(|(label, slug)| (label.as_str(), slug.as_str()))
    }

    /// The page of a microbenchmark's history.
    pub(super) fn bench_path(&self, name: &str) -> Option<String> {
        self.benches.get(name).map(|slug| format!("history/{slug}.html"))
    }

    /// The feed of a microbenchmark.
    pub(super) fn bench_feed(&self, name: &str) -> Option<String> {
        self.benches.get(name).map(|slug| format!("feed/bench-{slug}.xml"))
    }

    /// The feed of a release, by its label.
    pub(super) fn release_feed(&self, label: &str) -> Option<String> {
        self.releases.get(label).map(|slug| format!("feed/release-{slug}.xml"))
    }
}

fn major(line: &Line) -> Option<String> {
    match line {
        Line::Target(target) => Some(target.version.major.to_string()),
        Line::Major(_) => None,
    }
}

/// One slug for each different name.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    let slugs = slug::unique(once.iter().copied());
    once.into_iter().map(str::to_owned).zip(slugs).collect()
}

/// The page of a week.
pub(super) fn week_path(week: Week) -> String {
    format!("week/{week}.html")
}

/// All weeks of all series, newest first.
pub(super) fn weeks(history: &History) -> Vec<Week> {
    let mut weeks: Vec<Week> = history.series.iter().flat_map(|series| &series.weeks).map(|week| week.week).collect();
    weeks.sort_unstable();
    weeks.dedup();
    weeks.reverse();
    weeks
}

/// `30 November to 6 December 2026`
pub(super) fn days(week: Week) -> String {
    let monday = week.monday();
    let sunday = monday.checked_add(6.days()).unwrap_or(monday);
    format!("{} to {}", monday.strftime("%-d %B %Y"), sunday.strftime("%-d %B %Y"))
}

/// A link to the history of a microbenchmark, from a page at the given way up to the root.
pub(super) fn bench_link(site: &Site, root: &str, name: &str) -> Link {
    Link::new(site.names.bench_path(name).map_or_else(String::new, |path| format!("{root}{path}")), name)
}

/// What happened to a cell in a week.
#[derive(Debug, Clone)]
pub(super) enum What<'a> {
    /// A change against the base that is confirmed since this week.
    Confirmed(String),
    /// One that is not confirmed any more.
    Withdrawn(String),
    /// A step that the history shows since this week.
    Change(String),
    /// An answer of this week that was told otherwise before.
    Corrected(&'a Correction, String),
}

impl What<'_> {
    /// One sentence.
    pub(super) fn sentence(&self) -> &str {
        match self {
            Self::Confirmed(text) | Self::Withdrawn(text) | Self::Change(text) | Self::Corrected(_, text) => text,
        }
    }
}

/// Everything that happened to one cell in one week.
#[derive(Debug, Clone)]
pub(super) struct CellEvents<'a> {
    pub(super) microbenchmark: &'a str,
    pub(super) target: &'a WeekTarget,
    pub(super) events: Vec<What<'a>>,
}

impl CellEvents<'_> {
    /// When the last of it became known.
    pub(super) fn updated(&self, week: &HistoryWeek) -> Timestamp {
        let corrected = self.events.iter().filter_map(|event| match event {
            What::Corrected(correction, _) => Some(correction.at),
            _ => None,
        });
        corrected.max().unwrap_or(week.told_at).max(week.told_at)
    }
}

/// What is new in a week, cell by cell, releases in order and microbenchmarks in the order of the tables.
pub(super) fn events(series: &Series, week: usize) -> Vec<CellEvents<'_>> {
    let news = &series.weeks[week].news;
    let base = series.base();
    let mut cells: Vec<CellEvents<'_>> = Vec::new();
    let mut add = |microbenchmark, target: &_, event| add(series, &mut cells, microbenchmark, target, event);
    for cell in &news.confirmed {
        let before = cell
            .was
            .as_ref()
            .map_or_else(|| "not measured before".to_owned(), |(week, was)| format!("in {week}: {}", was.words()));
        let text = format!("Confirmed: {} than {base} ({before}).", cell.is.words());
        add(&cell.microbenchmark, &cell.target.id, What::Confirmed(text));
    }
    for cell in &news.withdrawn {
        let before =
            cell.was.as_ref().map_or_else(String::new, |(week, was)| format!(" In {week} it was {}.", was.words()));
        let text = format!("Withdrawn: {}.{before}", cell.is.words());
        add(&cell.microbenchmark, &cell.target.id, What::Withdrawn(text));
    }
    for (track, change) in &news.changes {
        let track = &series.tracks[*track];
        let target = series.target(&track.points[track.changes[*change].found]);
        add(
            &series.microbenchmarks[track.microbenchmark],
            &target.id,
            What::Change(change_words(series, track, *change)),
        );
    }
    for correction in &news.corrections {
        let words = |answer: Option<crate::domain::Answer>| {
            answer.map_or_else(|| "no answer".to_owned(), |answer| answer.words())
        };
        let day = correction.at.strftime("%Y-%m-%d");
        let (was, is) = (words(correction.was), words(correction.is));
        let text = format!("Corrected on {day}: measured further, it is {is}; told before was {was}.");
        add(&correction.microbenchmark, &correction.target, What::Corrected(correction, text));
    }
    cells
}

/// `Change point: newest 17 went down by 3.1 % in 2026-W45.`
pub(super) fn change_words(series: &Series, track: &Track, change: usize) -> String {
    let change = &track.changes[change];
    let since = series.weeks[track.points[change.at].week].week;
    format!("Change point: {} went {} in {since}.", series.lines[track.line].name(), change.words())
}

fn add<'a>(
    series: &'a Series,
    cells: &mut Vec<CellEvents<'a>>,
    microbenchmark: &'a str,
    target: &crate::domain::TargetId,
    event: What<'a>,
) {
    let known = cells.iter_mut().find(|cell| cell.microbenchmark == microbenchmark && cell.target.id == *target);
    if let Some(cell) = known {
        cell.events.push(event);
        return;
    }
    let targets = series.weeks.iter().flat_map(|week| &week.targets);
    if let Some(target) = targets.into_iter().find(|known| known.id == *target) {
        cells.push(CellEvents { microbenchmark, target, events: vec![event] });
    }
}
