//! What is new in a week as plain text for a mail: at most 72 columns wide.

use std::fmt::Write as _;

use crate::domain::{Answer, CellNews, Correction, Series, WeekTarget};

/// Widest line, in characters.
const WIDTH: usize = 72;

/// The report of one week of a series. `url` is where the site is.
pub(super) fn text(series: &Series, week: usize, url: Option<&str>) -> String {
    let found = &series.weeks[week];
    let news = &found.news;
    let mut text = String::new();
    wrap(&mut text, "", &format!("PostgreSQL performance, week {}", found.week));
    text.push('\n');
    let mut measured = format!("Measured relative to {}: {}.", series.base(), labels(&found.targets));
    if found.gaps > 0 {
        let _ = write!(measured, " {} of {} cells have no ratio.", found.gaps, found.cells + found.gaps);
    }
    wrap(&mut text, "", &measured);
    if !news.targets.is_empty() {
        wrap(&mut text, "", &format!("For the first time: {}.", labels(&news.targets)));
    }
    let base = series.base();
    section(&mut text, "Confirmed changes", news.confirmed.iter().map(|cell| confirmed(cell, base)));
    section(&mut text, "Withdrawn", news.withdrawn.iter().map(withdrawn));
    section(
        &mut text,
        "Change points",
        news.changes.iter().map(|(track, change)| {
            let track = &series.tracks[*track];
            let change = &track.changes[*change];
            let since = series.weeks[track.points[change.at].week].week;
            let (name, line) = (&series.microbenchmarks[track.microbenchmark], series.lines[track.line].name());
            format!("{name}, {line}: {} in {since}", change.words())
        }),
    );
    section(&mut text, "Corrections", news.corrections.iter().map(|correction| corrected(correction, series)));
    if news.is_empty() {
        text.push_str("\nNothing is new.\n");
    }
    if let Some(url) = url {
        // An address is never broken.
        let _ = write!(text, "\n{}/week/{}.html\n", url.trim_end_matches('/'), found.week);
    }
    text
}

fn labels(targets: &[WeekTarget]) -> String {
    targets.iter().map(|target| target.label.as_str()).collect::<Vec<_>>().join(", ")
}

fn confirmed(cell: &CellNews, base: &str) -> String {
    format!("{}, {}: {} than {base}", cell.microbenchmark, cell.target.label, cell.is.words())
}

fn withdrawn(cell: &CellNews) -> String {
    let was = cell.was.as_ref().map_or_else(String::new, |(week, was)| format!("; in {week} {}", was.words()));
    format!("{}, {}: {}{was}", cell.microbenchmark, cell.target.label, cell.is.words())
}

fn corrected(correction: &Correction, series: &Series) -> String {
    let words = |answer: Option<Answer>| answer.map_or_else(|| "no answer".to_owned(), |answer| answer.words());
    let targets = series.weeks.iter().flat_map(|week| &week.targets);
    let target = targets.into_iter().find(|target| target.id == correction.target);
    let label = target.map_or(correction.target.0.as_str(), |target| target.label.as_str());
    format!("{}, {label}: {}; told was {}", correction.microbenchmark, words(correction.is), words(correction.was))
}

/// A list with a heading, unless it is empty.
fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        let _ = write!(text, "\n{title}\n");
        lines.for_each(|line| wrap(text, "- ", &line));
    }
}

/// Appends a paragraph; lines after the first are indented as far as `lead` is wide. A word that is longer than a line
/// is broken.
fn wrap(text: &mut String, lead: &str, paragraph: &str) {
    let indent = lead.chars().count();
    let mut column = indent;
    text.push_str(lead);
    for mut word in paragraph.split_whitespace().map(str::to_owned) {
        loop {
            let space = usize::from(column > indent);
            let length = word.chars().count();
            if column + space + length <= WIDTH {
                text.push_str(&" ".repeat(space));
                text.push_str(&word);
                column += space + length;
                break;
            }
            if column == indent {
                let rest = word.chars().skip(WIDTH - indent).collect();
                text.extend(word.chars().take(WIDTH - indent));
                word = rest;
            }
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        }
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_at_most_72_columns_wide() {
        let mut text = String::new();
        let long = "x".repeat(100);
        wrap(&mut text, "- ", &format!("one two three {long} é{}", " ü".repeat(60)));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(text.starts_with("- one two three\n  xxx") && text.contains("xx é ü"), "{text}");
    }
}
