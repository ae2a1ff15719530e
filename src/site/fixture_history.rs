//! A history for tests: two series, a change point, news of every kind, and hostile text.

use jiff::{Timestamp, ToSpan as _};

use super::fixture::{HOSTILE, HOSTILE_ROW};
use crate::domain::{
    Answer, CellNews, ChangePoint, Correction, History, HistoryWeek, Line, Major, News, Series, SeriesKey, SlowDrift,
    TargetId, Track, TrackPoint, Verdict, Week, WeekTarget,
};

const WEEKS: usize = 12;

pub(super) fn history() -> History {
    let apart = Series { apart: Some("machine: <b>old</b> instead of new".to_owned()), ..series(2) };
    History { series: vec![series(WEEKS), apart] }
}

/// The first weeks of 2026; the second series measured the first two of them as well.
fn week(number: usize) -> Week {
    let monday: jiff::civil::Date = "2026-01-05".parse().unwrap();
    Week::of(monday.checked_add(i64::try_from(number).unwrap().weeks()).unwrap())
}

fn at(number: usize) -> Timestamp {
    format!("{}T03:04:05Z", week(number).monday()).parse().unwrap()
}

fn target(label: &str, version: &str) -> WeekTarget {
    WeekTarget {
        id: TargetId(format!("{version}-3fa9c1d2")),
        label: label.to_owned(),
        version: version.parse().unwrap(),
    }
}

pub(super) fn answer(ratio: f64, confirmed: bool) -> Answer {
    let verdict = if confirmed { Verdict::Regressed } else { Verdict::Same };
    Answer { ratio, interval: Some((ratio - 0.01, ratio + 0.01)), verdict, confirmed }
}

fn series(weeks: usize) -> Series {
    let targets = [target("16.11", "16.11"), target("17.7", "17.7"), target("17.8", "17.8"), target(HOSTILE, "18.4")];
    let rows = ["scan_range=100".to_owned(), HOSTILE_ROW.to_owned()];
    let mut lines: Vec<Line> = targets.iter().cloned().map(Line::Target).collect();
    lines.push(Line::Major(Major::new(17, 0)));
    let point = |index: usize| TrackPoint {
        week: index,
        target: 1,
        answer: answer(if index < 6 { 0.97 } else { 0.91 }, index >= 6),
    };
    let points: Vec<TrackPoint> = (0..weeks).filter(|index| *index != 4).map(point).collect();
    let changes = if weeks > 8 { vec![ChangePoint { at: 5, found: 7, before: 0.97, after: 0.91 }] } else { Vec::new() };
    let track = |microbenchmark: usize, line: usize| Track {
        microbenchmark,
        line,
        points: points.clone(),
        changes: changes.clone(),
        drift: (line == 3 && weeks > 8).then_some(SlowDrift { now: 0.91, best: 0.97, best_line: 1, best_week: 3 }),
    };
    let tracks = (0..2).flat_map(|row| [1, 3, 4].map(|line| track(row, line))).collect();
    let key = SeriesKey(vec![
        ("machine".to_owned(), "a <i>fast</i> one".to_owned()),
        (SeriesKey::BASE.to_owned(), targets[0].id.to_string()),
    ]);
    let weeks = (0..weeks).map(|number| history_week(number, &targets, &rows)).collect();
    Series { key, apart: None, weeks, microbenchmarks: rows.to_vec(), lines, tracks }
}

fn history_week(number: usize, targets: &[WeekTarget; 4], rows: &[String; 2]) -> HistoryWeek {
    let cell = |row: usize, is, was| CellNews {
        microbenchmark: rows[row].clone(),
        target: targets[3].clone(),
        is,
        was: Some((week(number.saturating_sub(1)), was)),
    };
    let mut news = News::default();
    match number {
        0 => news.targets = targets.to_vec(),
        6 => news.confirmed.push(cell(0, answer(0.91, true), answer(0.97, false))),
        8 => {
            news.withdrawn.push(cell(1, answer(0.99, false), answer(0.91, true)));
            news.changes = vec![(2, 0)];
        }
        9 => news.corrections.push(Correction {
            at: at(10),
            microbenchmark: rows[0].clone(),
            target: targets[1].id.clone(),
            was: Some(answer(0.8, true)),
            is: None,
        }),
        _ => {}
    }
    HistoryWeek {
        week: week(number),
        sweep: week(number).to_string(),
        updated_at: at(number),
        told_at: at(number),
        regtrack: "0.1.0".to_owned(),
        kernel: if number < 3 { "6.1.0" } else { "6.1.1" }.to_owned(),
        targets: vec![targets[0].clone(), targets[1].clone(), targets[3].clone()],
        cells: 6,
        gaps: usize::from(number == 4),
        news,
    }
}
