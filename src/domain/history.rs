//! Weeks and what they measured: the history of a results directory.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, ISOWeekDate, Weekday};
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::{Major, TargetId, Verdict, Version};

/// A week of ISO 8601, Monday to Sunday: `2026-W49`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Week {
    year: i16,
    number: i8,
}

/// A text that is no week.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a week: write one as 2026-W49")]
pub struct ParseWeekError {
    /// The text.
    pub text: String,
}

impl Week {
    /// The week in which a day lies.
    #[must_use]
    pub fn of(day: Date) -> Self {
        let date = day.iso_week_date();
        Self { year: date.year(), number: date.week() }
    }

    /// The week of a point in time, in UTC.
    #[must_use]
    pub fn at(time: Timestamp) -> Self {
        Self::of(TimeZone::UTC.to_datetime(time).date())
    }

    /// The week of a sweep: that of its name, where it is named after one, else the one in which it began.
    #[must_use]
    pub fn of_sweep(id: &str, created_at: Timestamp) -> Self {
        id.get(..8).and_then(|head| head.parse().ok()).unwrap_or_else(|| Self::at(created_at))
    }

    /// Its first day.
    #[must_use]
    pub fn monday(self) -> Date {
        // Weeks are made from days and from texts that were checked.
        ISOWeekDate::new(self.year, self.number, Weekday::Monday)
            .unwrap_or_else(|error| unreachable!("{self} is a week: {error}"))
            .date()
    }
}

impl fmt::Display for Week {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-W{:02}", self.year, self.number)
    }
}

impl FromStr for Week {
    type Err = ParseWeekError;

    fn from_str(text: &str) -> Result<Self, ParseWeekError> {
        let parsed = || {
            let (year, number) = text.split_once("-W")?;
            let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            let well_formed = year.len() == 4 && number.len() == 2 && digits(year) && digits(number);
            let (year, number) = (year.parse().ok()?, number.parse().ok()?);
            let exists = ISOWeekDate::new(year, number, Weekday::Monday).is_ok();
            (well_formed && exists).then_some(Self { year, number })
        };
        parsed().ok_or_else(|| ParseWeekError { text: text.to_owned() })
    }
}

impl TryFrom<String> for Week {
    type Error = ParseWeekError;

    fn try_from(text: String) -> Result<Self, ParseWeekError> {
        text.parse()
    }
}

impl From<Week> for String {
    fn from(week: Week) -> Self {
        week.to_string()
    }
}

/// What has to be equal for the ratios of two sweeps to stand in one series, as names and values for people. The first
/// that differs is the reason why two sweeps do not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SeriesKey(pub Vec<(String, String)>);

impl SeriesKey {
    /// The name of the fact that says which target the ratios are relative to.
    pub const BASE: &str = "base";

    /// Whether the two differ in nothing but the base.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let facts = |key: &Self| -> Vec<(String, String)> {
            key.0.iter().filter(|(name, _)| name != Self::BASE).cloned().collect()
        };
        facts(self) == facts(other)
    }

    /// Why sweeps with this key are kept apart from those with the other: `rows: 20000 instead of 500000`. `None` when
    /// they are equal.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let value = |key: &Self, name: &str| {
            let found = key.0.iter().find(|(other, _)| other == name);
            found.map_or_else(|| "none".to_owned(), |(_, value)| value.clone())
        };
        let names = self.0.iter().chain(&other.0).map(|(name, _)| name);
        let mut differences = names.map(|name| (name, value(self, name), value(other, name)));
        let (name, this, that) = differences.find(|(_, this, that)| this != that)?;
        Some(format!("{name}: {this} instead of {that}"))
    }
}

/// What one sweep says, small enough to be kept for every week of years.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeekSummary {
    /// Its week.
    pub week: Week,
    /// Id of the sweep.
    pub sweep: String,
    /// When the sweep was last worked on.
    pub updated_at: Timestamp,
    /// When its answers were first told, where a weekly report did; later ones correct them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told_at: Option<Timestamp>,
    /// Version of regtrack that did.
    pub regtrack: String,
    /// Kernel of the machine; empty where it is not known.
    pub kernel: String,
    /// What it can be compared with.
    pub series: SeriesKey,
    /// Index into `targets` of the base, the anchor of all ratios.
    pub base: usize,
    /// The targets, oldest release first.
    pub targets: Vec<WeekTarget>,
    /// Names of the microbenchmarks, in the order of the tables.
    pub microbenchmarks: Vec<String>,
    /// What was measured of them, and what failed.
    pub cells: Vec<WeekCell>,
    /// Answers that were told before the sweep was measured further, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
}

/// A target of a week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeekTarget {
    /// Its id.
    pub id: TargetId,
    /// Its name in tables.
    pub label: String,
    /// The release.
    pub version: Version,
}

/// One microbenchmark on one target in one week.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WeekCell {
    /// Index into the week's microbenchmarks.
    pub microbenchmark: u16,
    /// Index into the week's targets.
    pub target: u16,
    /// The answer; `None` when the cell failed or has no ratio.
    pub answer: Option<Answer>,
    /// Mean rate over launches in the microbenchmark's unit.
    pub rate: Option<f64>,
}

/// What a week says about a cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// QPS relative to the base of the same sweep; above 1 is faster.
    pub ratio: f64,
    /// 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether later launches confirmed a change.
    pub confirmed: bool,
}

impl Answer {
    /// The change that launches confirmed, if they did.
    #[must_use]
    pub fn change(&self) -> Option<Verdict> {
        let is_change = matches!(self.verdict, Verdict::Improved | Verdict::Regressed);
        (is_change && self.confirmed).then_some(self.verdict)
    }

    /// The answer in words: `slower by 3.1 %`, `no confirmed change (ratio 0.985)`.
    #[must_use]
    pub fn words(&self) -> String {
        match self.change() {
            Some(_) if self.ratio > 1.0 => format!("faster by {:.1} %", 100.0 * (self.ratio - 1.0)),
            Some(_) => format!("slower by {:.1} %", 100.0 * (1.0 - self.ratio)),
            None => format!("no confirmed change (ratio {:.3})", self.ratio),
        }
    }
}

/// An answer that was told and that does not stand any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// When the data that corrected it was there.
    pub at: Timestamp,
    /// Name of the microbenchmark.
    pub microbenchmark: String,
    /// The target.
    pub target: TargetId,
    /// What was told.
    pub was: Option<Answer>,
    /// What the cell said from then on.
    pub is: Option<Answer>,
}

/// Week over week: all sweeps of a results directory, those together that can be compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The series with the newest week first.
    pub series: Vec<Series>,
}

/// Sweeps whose ratios can stand in one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// What they share.
    pub key: SeriesKey,
    /// Why they are not part of the first series; `None` for that one.
    pub apart: Option<String>,
    /// The weeks, oldest first, one entry each.
    pub weeks: Vec<HistoryWeek>,
    /// Names of the microbenchmarks, in the order of the tables of the newest week that has them.
    pub microbenchmarks: Vec<String>,
    /// What is followed: targets, and majors.
    pub lines: Vec<Line>,
    /// Every microbenchmark on every line that has at least one ratio, line after line.
    pub tracks: Vec<Track>,
}

/// A week of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryWeek {
    /// The week.
    pub week: Week,
    /// The sweep that was measured in it; of several the last.
    pub sweep: String,
    /// When it was last worked on.
    pub updated_at: Timestamp,
    /// When its answers were first told.
    pub told_at: Timestamp,
    /// Version of regtrack.
    pub regtrack: String,
    /// Kernel of the machine.
    pub kernel: String,
    /// Releases that were measured, oldest first.
    pub targets: Vec<WeekTarget>,
    /// Cells with a ratio.
    pub cells: usize,
    /// Cells without one.
    pub gaps: usize,
    /// What is new in it.
    pub news: News,
}

/// What a week has that the week before did not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct News {
    /// Targets that no earlier week of the series measured.
    pub targets: Vec<WeekTarget>,
    /// Changes against the base that are confirmed, and were not when the cell was last measured.
    pub confirmed: Vec<CellNews>,
    /// Changes that were confirmed when the cell was last measured, and are not any more.
    pub withdrawn: Vec<CellNews>,
    /// Change points that the series shows since this week: indices into its tracks and their changes.
    pub changes: Vec<(usize, usize)>,
    /// Answers of this week that were told otherwise before.
    pub corrections: Vec<Correction>,
}

impl News {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A cell whose answer differs from the one before.
#[derive(Debug, Clone, PartialEq)]
pub struct CellNews {
    /// Name of the microbenchmark.
    pub microbenchmark: String,
    /// The target.
    pub target: WeekTarget,
    /// What this week says.
    pub is: Answer,
    /// What the last week said that measured the cell, and which that was.
    pub was: Option<(Week, Answer)>,
}

/// What is followed from week to week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// One build of one release: it does not change, so what changes is the machine or the way of measuring.
    Target(WeekTarget),
    /// Whatever is the newest release of a major in each week.
    Major(Major),
}

impl History {
    /// The series that the sweep named `id` is part of, and its week there.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(&Series, usize)> {
        let week = |series: &Series| series.weeks.iter().position(|week| week.sweep == id);
        self.series.iter().find_map(|series| Some((series, week(series)?)))
    }
}

impl Series {
    /// Label of the base.
    #[must_use]
    pub fn base(&self) -> &str {
        let id = self.key.0.iter().find(|(name, _)| name == SeriesKey::BASE).map_or("", |(_, value)| value.as_str());
        let targets = self.weeks.iter().rev().flat_map(|week| &week.targets);
        targets.into_iter().find(|target| target.id.0 == id).map_or(id, |target| target.label.as_str())
    }

    /// The target that a track had at one of its points.
    #[must_use]
    pub fn target(&self, point: &TrackPoint) -> &WeekTarget {
        &self.weeks[point.week].targets[point.target]
    }
}

impl Line {
    /// Its name for people: `17.10`, `newest 17`.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Target(target) => target.label.clone(),
            Self::Major(major) => format!("newest {major}"),
        }
    }
}

/// One microbenchmark on one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Index into the series' microbenchmarks.
    pub microbenchmark: usize,
    /// Index into the series' lines.
    pub line: usize,
    /// Its ratios, oldest first.
    pub points: Vec<TrackPoint>,
    /// Weeks from which on it lies elsewhere.
    pub changes: Vec<ChangePoint>,
    /// What it lost bit by bit.
    pub drift: Option<SlowDrift>,
}

/// A ratio of a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackPoint {
    /// Index into the series' weeks.
    pub week: usize,
    /// Index into the week's targets.
    pub target: usize,
    /// What the week says.
    pub answer: Answer,
}

/// A step in a track.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index into the track's points of the first one after the step.
    pub at: usize,
    /// Index into the track's points of the one with which the step became visible.
    pub found: usize,
    /// Geometric mean of the ratios between the change point before it and this one.
    pub before: f64,
    /// Geometric mean of those from here to the next change point.
    pub after: f64,
}

impl ChangePoint {
    /// The step in words: `down by 3.1 %`.
    #[must_use]
    pub fn words(&self) -> String {
        let direction = if self.factor() > 1.0 { "up" } else { "down" };
        format!("{direction} by {:.1} %", 100.0 * (self.factor() - 1.0).abs())
    }

    /// What the ratio was multiplied by.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.after / self.before
    }
}

/// A loss against the best that there ever was, which no single step explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowDrift {
    /// Level of the last weeks, as a ratio to the base.
    pub now: f64,
    /// The best level that any line of the microbenchmark had over as many weeks.
    pub best: f64,
    /// Index into the series' lines of the one that had it.
    pub best_line: usize,
    /// Index into the series' weeks of the last one of that level.
    pub best_week: usize,
}

impl SlowDrift {
    /// What was lost, as a share of the best level.
    #[must_use]
    pub fn loss(&self) -> f64 {
        1.0 - self.now / self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_those_of_iso_8601() {
        for (day, week, monday) in [
            ("2026-12-01", "2026-W49", "2026-11-30"),
            ("2027-01-03", "2026-W53", "2026-12-28"),
            ("2024-12-30", "2025-W01", "2024-12-30"),
        ] {
            let found = Week::of(day.parse().unwrap());
            assert_eq!((found.to_string().as_str(), found.monday().to_string().as_str()), (week, monday), "{day}");
            assert_eq!(week.parse::<Week>().unwrap(), found);
        }
        for text in ["2026-W54", "2025-W53", "2026-49", "2026-W4", "26-W49", "2026-W491", "2026-W+4", ""] {
            assert!(text.parse::<Week>().is_err(), "{text}");
        }
        assert!("2026-W53".parse::<Week>().unwrap() < "2027-W01".parse().unwrap());
    }

    #[test]
    fn a_sweep_belongs_to_the_week_of_its_name_or_of_its_begin() {
        let at = "2026-12-01T00:00:00Z".parse().unwrap();
        assert_eq!(Week::of_sweep("2026-W40-2", at).to_string(), "2026-W40");
        assert_eq!(Week::of_sweep("sysbench-smoke-77aa", at).to_string(), "2026-W49");
        assert_eq!(Week::of_sweep("2026-W4é", at).to_string(), "2026-W49");
    }

    #[test]
    fn what_differs_is_the_reason() {
        let key = |rows: &str| SeriesKey(vec![("suite".into(), "a".into()), ("rows".into(), rows.into())]);
        assert_eq!(key("1").difference(&key("2")).unwrap(), "rows: 1 instead of 2");
        assert_eq!(key("1").difference(&key("1")), None);
        let more = SeriesKey(vec![("suite".into(), "a".into())]);
        assert_eq!(more.difference(&key("2")).unwrap(), "rows: none instead of 2");
    }
}
