//! Sweeps over weeks: which can be compared, what is new in each week, where a ratio changed and what drifted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sha2::{Digest, Sha256};

use super::THRESHOLD;
use super::changes::{self, SEGMENT};
use super::slow_drift;
use crate::domain::{
    Answer, Cell, CellNews, ChangePoint, Correction, History, HistoryWeek, HostFingerprint, Line, Major, News, Origin,
    Protocol, Report, Series, SeriesKey, TargetId, Track, TrackPoint, Week, WeekCell, WeekSummary, WeekTarget,
};

/// A ratio that moves by less than this share needs no correction: it is shown with two decimals.
const TOLD: f64 = 0.005;

/// Differences up to this share that come from one launch are told as unsure.
const UNSURE: f64 = 0.1;

/// What a report says, for the history. `None` for imported tables: nobody knows when and how those were measured.
#[must_use]
pub fn week_summary(report: &Report) -> Option<WeekSummary> {
    let manifest = &report.manifest;
    let Origin::Measured { protocol, .. } = &manifest.origin else { return None };
    let base = manifest.targets.get(report.base)?;
    let target = |target: &crate::domain::Target| WeekTarget {
        id: target.id.clone(),
        label: target.label.clone(),
        version: target.version,
    };
    let rows = report.rows.iter().zip(0..);
    let cells = rows.flat_map(|(row, microbenchmark)| {
        let cell = move |(cell, target): (&Cell, u16)| {
            summarised(cell).map(|(answer, rate)| WeekCell { microbenchmark, target, answer, rate })
        };
        row.cells.iter().zip(0..).filter_map(cell)
    });
    Some(WeekSummary {
        week: Week::of_sweep(&manifest.id, manifest.created_at),
        sweep: manifest.id.clone(),
        updated_at: manifest.updated_at,
        told_at: None,
        regtrack: manifest.regtrack.clone(),
        kernel: manifest.host.as_ref().map(|host| host.kernel.clone()).unwrap_or_default(),
        series: series_key(protocol, manifest.host.as_ref(), &base.id),
        base: report.base,
        targets: manifest.targets.iter().map(target).collect(),
        microbenchmarks: report.rows.iter().map(|row| row.name.clone()).collect(),
        cells: cells.collect(),
        corrections: Vec::new(),
    })
}

/// `None` for a cell of which nothing is known.
fn summarised(cell: &Cell) -> Option<(Option<Answer>, Option<f64>)> {
    // What decides nothing in its sweep decides nothing here.
    let relative = cell.relative.filter(|relative| cell.noisy.is_none() && relative.ratio > 0.0);
    let answer = relative.map(|relative| Answer {
        ratio: relative.ratio,
        interval: relative.interval,
        verdict: relative.verdict,
        confirmed: relative.certainty.confirmed,
    });
    let is_known = answer.is_some() || cell.rate.is_some() || cell.failure.is_some() || cell.noisy.is_some();
    is_known.then_some((answer, cell.rate))
}

/// What sweeps have to share for their ratios to stand in one line.
#[must_use]
pub fn series_key(protocol: &Protocol, host: Option<&HostFingerprint>, base: &TargetId) -> SeriesKey {
    let machine = host.map_or_else(|| "unknown".to_owned(), |host| format!("{} × {}", host.cpu, host.cpus));
    let microbenchmarks =
        format!("{} ({})", protocol.microbenchmarks.len(), short_hash(&protocol.microbenchmarks.join("\n")));
    // What has no line of its own below.
    let rest = format!(
        "warm-up {} and {} s, scan once {}, rest {} s, turns {} s, placement {:?}",
        protocol.slice_warmup_seconds,
        protocol.load_warmup_seconds,
        protocol.scan_once,
        protocol.postwrite_rest_seconds,
        protocol.stretch_seconds,
        protocol.placement
    );
    let short = |hash: &str| hash.get(..8).unwrap_or(hash).to_owned();
    let facts = [
        ("machine", machine),
        ("suite", format!("{} {}", protocol.suite, short(&protocol.suite_hash))),
        ("microbenchmarks", microbenchmarks),
        ("rows", protocol.rows.to_string()),
        ("seconds", format!("{} read, {} write", protocol.read_seconds, protocol.write_seconds)),
        ("configuration", format!("{} {}", protocol.config, short(&protocol.config_hash))),
        ("data checksums", if protocol.data_checksums { "on" } else { "off" }.to_owned()),
        ("transport", protocol.transport.clone()),
        ("protocol", rest),
        (SeriesKey::BASE, base.to_string()),
    ];
    SeriesKey(facts.map(|(name, value)| (name.to_owned(), value)).into())
}

fn short_hash(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))[..8].to_owned()
}

/// A summary with the corrections that its predecessor had, and those that it makes itself. `told` is what was told of
/// the same sweep before.
#[must_use]
pub fn corrected(mut summary: WeekSummary, told: &WeekSummary) -> WeekSummary {
    let answers = |summary: &WeekSummary| -> BTreeMap<(String, TargetId), Option<Answer>> {
        summary.cells.iter().map(|cell| (names(summary, cell), cell.answer)).collect()
    };
    let (was, is) = (answers(told), answers(&summary));
    summary.told_at = told.told_at.or(Some(told.updated_at));
    summary.corrections.clone_from(&told.corrections);
    for ((microbenchmark, target), was) in was {
        let is = is.get(&(microbenchmark.clone(), target.clone())).copied().flatten();
        if differs(was, is) {
            summary.corrections.push(Correction { at: summary.updated_at, microbenchmark, target, was, is });
        }
    }
    summary
}

fn names(summary: &WeekSummary, cell: &WeekCell) -> (String, TargetId) {
    let microbenchmark = summary.microbenchmarks[usize::from(cell.microbenchmark)].clone();
    (microbenchmark, summary.targets[usize::from(cell.target)].id.clone())
}

/// Whether whoever was told the one has to be told the other: another verdict, another size of a confirmed change, or a
/// ratio that the interval left out. One without an interval was said to be good for large differences only.
fn differs(was: Option<Answer>, is: Option<Answer>) -> bool {
    match (was, is) {
        // A gap that was filled takes nothing back.
        (None, _) => false,
        (Some(_), None) => true,
        (Some(was), Some(is)) if was.change() != is.change() => true,
        (Some(was), Some(is)) => {
            let moved = (is.ratio / was.ratio).ln().abs();
            match was.interval {
                _ if was.change().is_some() => moved >= TOLD.ln_1p(),
                Some((low, high)) => moved >= TOLD.ln_1p() && !(low..=high).contains(&is.ratio),
                None => moved >= UNSURE.ln_1p(),
            }
        }
    }
}

/// All sweeps of a results directory, those together that can be compared. Summaries may come in any order.
#[must_use]
pub fn history(summaries: &[WeekSummary]) -> History {
    let mut by_key: HashMap<&SeriesKey, Vec<&WeekSummary>> = HashMap::new();
    for summary in summaries {
        by_key.entry(&summary.series).or_default().push(summary);
    }
    let mut groups: Vec<Vec<&WeekSummary>> = by_key.into_values().collect();
    for group in &mut groups {
        group.sort_by_key(|summary| (summary.week, summary.updated_at, &summary.sweep));
    }
    // The newest week is last in its group; of two groups with the same week the one that was worked on last counts.
    groups.sort_by_key(|group| group.last().map(|last| (last.week, last.updated_at, &last.sweep)));
    groups.reverse();
    let first = groups.first().and_then(|group| group.first()).map(|summary| summary.series.clone());
    let apart = |key: &SeriesKey| first.as_ref().and_then(|first| key.difference(first));
    History { series: groups.iter().map(|group| series(group, apart(&group[0].series))).collect() }
}

/// One series, from its summaries in the order of time; there is at least one.
fn series(group: &[&WeekSummary], apart: Option<String>) -> Series {
    let weeks = merged(group);
    let microbenchmarks = microbenchmarks(&weeks);
    let lines = lines(&weeks);
    let mut tracks = tracks(&weeks, &microbenchmarks, &lines);
    for track in &mut tracks {
        track.changes = change_points(&track.points);
    }
    slow_drift::fill(&mut tracks, &lines, weeks.len());
    let news = news(&weeks, &tracks);
    let weeks = weeks.into_iter().zip(news).map(|(week, news)| week_of(week, news)).collect();
    Series { key: group[0].series.clone(), apart, weeks, microbenchmarks, lines, tracks }
}

fn week_of(week: WeekSummary, news: News) -> HistoryWeek {
    let cells = week.cells.iter().filter(|cell| cell.answer.is_some()).count();
    HistoryWeek {
        week: week.week,
        cells,
        gaps: week.cells.len() - cells,
        sweep: week.sweep,
        updated_at: week.updated_at,
        told_at: week.told_at.unwrap_or(week.updated_at),
        regtrack: week.regtrack,
        kernel: week.kernel,
        targets: week.targets,
        news,
    }
}

/// One summary per week: of a cell that several sweeps of the week measured, the last counts.
fn merged(group: &[&WeekSummary]) -> Vec<WeekSummary> {
    let mut weeks: Vec<WeekSummary> = Vec::new();
    for &summary in group {
        match weeks.last_mut().filter(|last| last.week == summary.week) {
            None => weeks.push(summary.clone()),
            Some(earlier) => *earlier = later(earlier, summary),
        }
    }
    weeks
}

/// What `newer` says, and of `older` what it does not.
fn later(older: &WeekSummary, newer: &WeekSummary) -> WeekSummary {
    let mut merged = newer.clone();
    let known: BTreeSet<(String, TargetId)> = newer.cells.iter().map(|cell| names(newer, cell)).collect();
    for cell in &older.cells {
        let (microbenchmark, id) = names(older, cell);
        if known.contains(&(microbenchmark.clone(), id.clone())) {
            continue;
        }
        let row =
            position_or_push(&mut merged.microbenchmarks, |name| *name == microbenchmark, || microbenchmark.clone());
        let old = &older.targets[usize::from(cell.target)];
        let target = position_or_push(&mut merged.targets, |target| target.id == id, || old.clone());
        if let (Ok(microbenchmark), Ok(target)) = (u16::try_from(row), u16::try_from(target)) {
            merged.cells.push(WeekCell { microbenchmark, target, ..*cell });
        }
    }
    // One that is named after the week is what the week is known by.
    let is_weekly = |id: &str| id.starts_with(&newer.week.to_string());
    if is_weekly(&older.sweep) || (older.sweep < newer.sweep && !is_weekly(&newer.sweep)) {
        merged.sweep.clone_from(&older.sweep);
    }
    merged.told_at = older.told_at.or(Some(older.updated_at));
    let before = older.corrections.iter().filter(|one| !newer.corrections.contains(one)).cloned();
    merged.corrections.splice(0..0, before);
    merged
}

fn position_or_push<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    items.iter().position(is).unwrap_or_else(|| {
        items.push(new());
        items.len() - 1
    })
}

/// All names, those of the newest week first.
fn microbenchmarks(weeks: &[WeekSummary]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for name in weeks.iter().rev().flat_map(|week| &week.microbenchmarks) {
        if seen.insert(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Every target that was ever measured, oldest release first, then the majors that had more than one.
fn lines(weeks: &[WeekSummary]) -> Vec<Line> {
    let mut targets: Vec<&WeekTarget> = Vec::new();
    let mut seen: BTreeSet<&TargetId> = BTreeSet::new();
    // The newest label counts.
    for target in weeks.iter().rev().flat_map(|week| &week.targets) {
        if seen.insert(&target.id) {
            targets.push(target);
        }
    }
    targets.sort_by(|a, b| (a.version, &a.id).cmp(&(b.version, &b.id)));
    let mut majors: BTreeMap<Major, usize> = BTreeMap::new();
    for target in &targets {
        *majors.entry(target.version.major).or_default() += 1;
    }
    let majors = majors.into_iter().filter(|(_, targets)| *targets > 1).map(|(major, _)| Line::Major(major));
    targets.into_iter().cloned().map(Line::Target).chain(majors).collect()
}

fn tracks(weeks: &[WeekSummary], microbenchmarks: &[String], lines: &[Line]) -> Vec<Track> {
    let rows: HashMap<&str, usize> = microbenchmarks.iter().zip(0..).map(|(name, row)| (name.as_str(), row)).collect();
    let mut points = vec![Vec::new(); lines.len() * microbenchmarks.len()];
    for (index, week) in weeks.iter().enumerate() {
        let of_target: Vec<Vec<usize>> = week.targets.iter().map(|target| lines_of(week, target, lines)).collect();
        for cell in &week.cells {
            let Some(answer) = cell.answer else { continue };
            let row = rows[week.microbenchmarks[usize::from(cell.microbenchmark)].as_str()];
            let target = usize::from(cell.target);
            for line in &of_target[target] {
                points[line * microbenchmarks.len() + row].push(TrackPoint { week: index, target, answer });
            }
        }
    }
    let track = |(index, points): (usize, Vec<TrackPoint>)| Track {
        microbenchmark: index % microbenchmarks.len(),
        line: index / microbenchmarks.len(),
        points,
        changes: Vec::new(),
        drift: None,
    };
    points.into_iter().enumerate().filter(|(_, points)| !points.is_empty()).map(track).collect()
}

/// The lines on which a target of a week lies: its own, and its major's if none of the week is newer.
fn lines_of(week: &WeekSummary, target: &WeekTarget, lines: &[Line]) -> Vec<usize> {
    let is_newest = || {
        let of_major = week.targets.iter().filter(|other| other.version.major == target.version.major);
        of_major.max_by_key(|other| (other.version, &other.id)) == Some(target)
    };
    let is_of = |line: &Line| match line {
        Line::Target(other) => other.id == target.id,
        Line::Major(major) => *major == target.version.major && is_newest(),
    };
    lines.iter().enumerate().filter(|(_, line)| is_of(line)).map(|(index, _)| index).collect()
}

/// The steps of a track that are sure and large enough to matter, with the point that first showed each.
fn change_points(points: &[TrackPoint]) -> Vec<ChangePoint> {
    let logs: Vec<f64> = points.iter().map(|point| point.answer.ratio.ln()).collect();
    let matters = |change: &changes::Change| (change.after - change.before).abs() >= THRESHOLD.ln_1p();
    let found = changes::changes(&logs).into_iter().filter(matters);
    found
        .map(|change| ChangePoint {
            at: change.at,
            found: first_shown(&logs, change.at),
            before: change.before.exp(),
            after: change.after.exp(),
        })
        .collect()
}

/// The last point of the shortest beginning of a series that shows the change at `at`, or one right beside it.
fn first_shown(logs: &[f64], at: usize) -> usize {
    let shows = |length: &usize| changes::changes(&logs[..*length]).iter().any(|one| one.at.abs_diff(at) < SEGMENT);
    (at + SEGMENT..logs.len()).find(shows).unwrap_or(logs.len()) - 1
}

/// What is new in each week.
fn news(weeks: &[WeekSummary], tracks: &[Track]) -> Vec<News> {
    let mut last: HashMap<(String, TargetId), (Week, Answer)> = HashMap::new();
    let mut seen: BTreeSet<TargetId> = BTreeSet::new();
    let mut all: Vec<News> = weeks.iter().map(|week| news_of(week, &mut last, &mut seen)).collect();
    for (index, track) in tracks.iter().enumerate() {
        for (number, change) in track.changes.iter().enumerate() {
            all[track.points[change.found].week].changes.push((index, number));
        }
    }
    all
}

/// What a week has that those before it, of which `last` and `seen` know, did not have.
fn news_of(
    week: &WeekSummary,
    last: &mut HashMap<(String, TargetId), (Week, Answer)>,
    seen: &mut BTreeSet<TargetId>,
) -> News {
    let mut news = News { corrections: week.corrections.clone(), ..News::default() };
    let answered: BTreeSet<u16> =
        week.cells.iter().filter(|cell| cell.answer.is_some()).map(|cell| cell.target).collect();
    let is_new = |(target, index): &(&WeekTarget, u16)| answered.contains(index) && seen.insert(target.id.clone());
    news.targets.extend(week.targets.iter().zip(0..).filter(is_new).map(|(target, _)| target.clone()));
    for cell in &week.cells {
        let Some(is) = cell.answer else { continue };
        let (microbenchmark, id) = names(week, cell);
        let was = last.insert((microbenchmark.clone(), id), (week.week, is));
        let before = was.and_then(|(_, was)| was.change());
        let target = week.targets[usize::from(cell.target)].clone();
        let told = CellNews { microbenchmark, target, is, was };
        match (before, is.change()) {
            (before, now) if before == now => {}
            (_, Some(_)) => news.confirmed.push(told),
            (_, None) => news.withdrawn.push(told),
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Verdict;

    /// The `number`th week from some Monday on.
    fn week(number: usize) -> Week {
        let first: jiff::civil::Date = "2026-01-05".parse().unwrap();
        Week::of(first.checked_add(jiff::Span::new().weeks(i64::try_from(number).unwrap())).unwrap())
    }

    fn answer(ratio: f64, confirmed: bool) -> Answer {
        let verdict = match ratio {
            _ if !confirmed => Verdict::Inconclusive,
            ratio if ratio > 1.0 => Verdict::Improved,
            _ => Verdict::Regressed,
        };
        Answer { ratio, interval: None, verdict, confirmed }
    }

    /// A week of one microbenchmark, with the answer of each target; the first is the base.
    fn summary(number: usize, targets: &[(&str, Option<Answer>)]) -> WeekSummary {
        let target = |(label, _): &(&str, Option<Answer>)| WeekTarget {
            id: TargetId(format!("{label}-aaaa")),
            label: (*label).to_owned(),
            version: label.parse().unwrap(),
        };
        let cells = targets.iter().zip(0..).map(|((_, answer), target)| WeekCell {
            microbenchmark: 0,
            target,
            answer: *answer,
            rate: answer.map(|answer| 100.0 * answer.ratio),
        });
        let at = format!("{}T12:00:00Z", week(number).monday()).parse().unwrap();
        WeekSummary {
            week: week(number),
            sweep: week(number).to_string(),
            updated_at: at,
            told_at: None,
            regtrack: "0.1.0".to_owned(),
            kernel: "6.1".to_owned(),
            series: SeriesKey(vec![
                ("machine".to_owned(), "a".to_owned()),
                ("base".to_owned(), "16.1-aaaa".to_owned()),
            ]),
            base: 0,
            targets: targets.iter().map(target).collect(),
            microbenchmarks: vec!["scan".to_owned()],
            cells: cells.collect(),
            corrections: Vec::new(),
        }
    }

    /// Weeks of a base and one target with these ratios and nothing confirmed.
    fn weeks(ratios: &[f64]) -> Vec<WeekSummary> {
        let week = |(number, ratio): (usize, &f64)| {
            summary(number, &[("16.1", Some(answer(1.0, false))), ("17.1", Some(answer(*ratio, false)))])
        };
        ratios.iter().enumerate().map(week).collect()
    }

    /// A little noise that is the same every time.
    fn noise(index: usize) -> f64 {
        0.002 * ((index as f64 * 12.9898).sin() * 43_758.545).fract()
    }

    #[test]
    fn what_cannot_be_compared_stands_apart_with_the_reason() {
        let mut all = weeks(&[0.9, 0.91, 0.92]);
        all[0].series.0[0].1 = "b".to_owned();
        all.reverse();
        let history = history(&all);
        let sizes: Vec<usize> = history.series.iter().map(|series| series.weeks.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert_eq!(history.series[0].apart, None);
        assert_eq!(history.series[1].apart.as_deref(), Some("machine: b instead of a"));
        assert_eq!(history.series[0].base(), "16.1");
        assert!(super::history(&[]).series.is_empty());
    }

    #[test]
    fn a_single_week_and_a_week_of_failures_are_histories_too() {
        let single = history(&weeks(&[0.9]));
        let news = &single.series[0].weeks[0].news;
        assert_eq!(news.targets.len(), 2);
        assert!(news.confirmed.is_empty() && single.series[0].tracks.iter().all(|track| track.changes.is_empty()));

        let failed = summary(1, &[("16.1", None), ("17.1", None), ("18.1", None)]);
        let history = history(&[weeks(&[0.9])[0].clone(), failed]);
        let last = &history.series[0].weeks[1];
        assert_eq!((last.cells, last.gaps), (0, 3));
        assert!(last.news.targets.is_empty(), "18.1 has no answer yet: {:?}", last.news);
        assert_eq!(history.series[0].tracks.len(), 2);
    }

    #[test]
    fn a_step_is_found_once_enough_weeks_have_shown_it() {
        let ratios: Vec<f64> = (0..40).map(|index| if index < 20 { 0.95 } else { 0.90 } + noise(index)).collect();
        let history = history(&weeks(&ratios));
        let series = &history.series[0];
        let track = series.tracks.iter().find(|track| !track.changes.is_empty()).unwrap();
        let [change] = track.changes[..] else { panic!("{:?}", track.changes) };
        assert_eq!(change.at, 20);
        assert!((22..=24).contains(&change.found), "{change:?}");
        assert!((change.factor() - 0.9 / 0.95).abs() < 0.002);
        let told: Vec<usize> = (0..40).filter(|week| !series.weeks[*week].news.changes.is_empty()).collect();
        assert_eq!(told, [change.found]);
        // The weeks after it do not move the week in which it is told.
        let shorter = super::history(&weeks(&ratios[..30]));
        let found =
            |history: &History| history.series[0].tracks.iter().find_map(|track| track.changes.first().copied());
        assert_eq!(found(&shorter).map(|change| change.found), Some(change.found));
    }

    #[test]
    fn a_step_that_does_not_matter_is_none() {
        let ratios: Vec<f64> =
            (0..40).map(|index| if index < 20 { 1.0 } else { 0.994 } + noise(index) / 10.0).collect();
        assert!(history(&weeks(&ratios)).series[0].tracks.iter().all(|track| track.changes.is_empty()));
    }

    #[test]
    fn a_line_of_a_major_goes_on_where_its_minors_end() {
        let base = ("16.1", Some(answer(1.0, false)));
        let week = |index: usize| {
            let (label, ratio) = if index < 10 { ("17.1", 0.95) } else { ("17.2", 0.90) };
            summary(index, &[base, (label, Some(answer(ratio + noise(index), false)))])
        };
        let history = history(&(0..20).map(week).collect::<Vec<_>>());
        let series = &history.series[0];
        let names: Vec<String> = series.lines.iter().map(Line::name).collect();
        assert_eq!(names, ["16.1", "17.1", "17.2", "newest 17"]);
        let changed: Vec<&Track> = series.tracks.iter().filter(|track| !track.changes.is_empty()).collect();
        assert_eq!(changed.len(), 1);
        assert_eq!((changed[0].line, changed[0].changes[0].at, changed[0].points.len()), (3, 10, 20));
        assert_eq!(series.weeks[10].news.targets[0].label, "17.2");
    }

    #[test]
    fn verdicts_are_news_once_and_when_they_are_withdrawn() {
        let base = ("16.1", Some(answer(1.0, false)));
        let states = [
            Some(answer(0.9, true)),
            Some(answer(0.91, true)),
            None,
            Some(answer(0.97, false)),
            Some(answer(1.1, true)),
        ];
        let all: Vec<WeekSummary> =
            states.iter().enumerate().map(|(index, state)| summary(index, &[base, ("17.1", *state)])).collect();
        let history = history(&all);
        let told = |number: usize| {
            let news = &history.series[0].weeks[number].news;
            (news.confirmed.len(), news.withdrawn.len())
        };
        assert_eq!([told(0), told(1), told(2), told(3), told(4)], [(1, 0), (0, 0), (0, 0), (0, 1), (1, 0)]);
        let withdrawn = &history.series[0].weeks[3].news.withdrawn[0];
        assert_eq!(withdrawn.was.unwrap().0, week(1), "the gap between is passed over");
    }

    #[test]
    fn corrections_are_kept_and_small_ones_are_none() {
        let first = weeks(&[0.9]).remove(0);
        let mut second = weeks(&[0.95]).remove(0);
        second.updated_at = "2026-01-06T12:00:00Z".parse().unwrap();
        let second = corrected(second, &first);
        assert!(second.corrections.is_empty());
        assert_eq!(second.told_at, Some(first.updated_at));
        let mut third = weeks(&[1.05]).remove(0);
        third.updated_at = "2026-01-07T12:00:00Z".parse().unwrap();
        let third = corrected(third, &second);
        let fourth = corrected(WeekSummary { corrections: vec![], told_at: None, ..third.clone() }, &third);
        assert_eq!(fourth, third, "telling the same again corrects nothing");
        let [correction] = &fourth.corrections[..] else { panic!("{:?}", fourth.corrections) };
        assert_eq!((correction.at, correction.was.unwrap().ratio), (third.updated_at, 0.95));
        assert_eq!(fourth.told_at, Some(first.updated_at));
        let with_interval =
            |ratio| Some(Answer { interval: Some((ratio - 0.01, ratio + 0.01)), ..answer(ratio, false) });
        let of = |answer| summary(0, &[("16.1", Some(super::tests::answer(1.0, false))), ("17.1", answer)]);
        let told = |was, is| corrected(of(is), &of(was)).corrections.len();
        assert_eq!(told(with_interval(0.95), with_interval(0.957)), 0, "the interval left it possible");
        assert_eq!(told(with_interval(0.95), with_interval(0.97)), 1);
        assert_eq!(told(Some(answer(0.95, true)), Some(answer(0.957, true))), 1, "a size that was confirmed");
        assert_eq!(told(Some(answer(0.95, true)), Some(answer(0.95, false))), 1);
        assert_eq!(told(None, Some(answer(0.95, false))), 0, "a gap that was filled");
        let gone = corrected(summary(0, &[("16.1", Some(answer(1.0, false))), ("17.1", None)]), &first);
        assert_eq!(gone.corrections[0].is, None);
    }

    #[test]
    fn sweeps_of_one_week_are_one_week() {
        let weekly = summary(0, &[("16.1", Some(answer(1.0, false))), ("17.1", Some(answer(0.9, false)))]);
        let mut other = summary(0, &[("16.1", Some(answer(1.0, false))), ("18.1", Some(answer(0.8, false)))]);
        other.sweep = "another".to_owned();
        other.updated_at = "2026-01-09T00:00:00Z".parse().unwrap();
        let history = history(&[other, weekly]);
        let [week] = &history.series[0].weeks[..] else { panic!("one week") };
        assert_eq!((week.sweep.as_str(), week.cells, week.targets.len()), ("2026-W02", 3, 3));
    }

    #[test]
    fn a_slow_loss_is_drift_and_a_step_is_not() {
        let drifting: Vec<f64> = (0..60).map(|index| 1.05 - 0.001 * index as f64 + 2.0 * noise(index)).collect();
        let drift = |ratios: &[f64]| {
            let history = history(&weeks(ratios));
            let series = &history.series[0];
            series.tracks.iter().find(|track| series.lines[track.line].name() == "17.1").unwrap().drift
        };
        let found = drift(&drifting).unwrap();
        assert!((found.loss() - 0.055).abs() < 0.01 && found.best_week < 8, "{found:?}");
        let step: Vec<f64> = (0..60).map(|index| if index < 30 { 1.05 } else { 1.0 } + noise(index)).collect();
        assert_eq!(drift(&step), None);
        let level: Vec<f64> = (0..60).map(|index| 1.05 + noise(index)).collect();
        assert_eq!(drift(&level), None);
    }

    #[test]
    fn bit_by_bit_from_release_to_release_is_drift_too() {
        let releases = [("12.1", 1.00), ("13.1", 0.992), ("14.1", 0.984), ("15.1", 0.976), ("16.1", 0.968)];
        let week = |index: usize| {
            let cell = |(label, level): &(&'static str, f64)| (*label, Some(answer(level + noise(index) / 4.0, false)));
            summary(index, &releases.iter().map(cell).collect::<Vec<_>>())
        };
        let history = history(&(0..20).map(week).collect::<Vec<_>>());
        let series = &history.series[0];
        let drifts: Vec<(String, String)> = series
            .tracks
            .iter()
            .filter_map(|track| Some((series.lines[track.line].name(), series.lines[track.drift?.best_line].name())))
            .collect();
        assert!(drifts.contains(&("16.1".to_owned(), "12.1".to_owned())), "{drifts:?}");
        assert!(!drifts.iter().any(|(line, _)| line == "13.1"), "one step explains it: {drifts:?}");
    }
}
