//! What changed from each release to the next one, as the report on the earlier of the two says it.

use serde::Serialize;

use super::answers;
use super::format::counted;
use super::view::{self, Link, Ratio, Site};
use crate::domain::{RelativeQps, Verdict};

/// Lines of a list that are in the page itself; a script adds the others on demand.
const LINES: usize = 20;

#[derive(Serialize)]
pub(super) struct Changes {
    summary: String,
    lists: Vec<ChangeList>,
}

/// Changes of one kind, the largest first.
#[derive(Serialize)]
struct ChangeList {
    /// Name in addresses and scripts.
    id: &'static str,
    title: &'static str,
    /// What is said when there is none.
    none: &'static str,
    lines: Vec<ChangeLine>,
    /// How many there are, those beyond the lines too.
    count: usize,
}

#[derive(Serialize)]
struct ChangeLine {
    link: Link,
    group: String,
    /// Labels of the two releases.
    from: String,
    to: String,
    ratio: Ratio,
    interval: String,
    words: String,
}

/// A verdict between a release and the one before it.
struct Found {
    row: usize,
    to: usize,
    relative: RelativeQps,
}

impl Found {
    /// Confirmed ones by direction; what was seen and not confirmed apart.
    fn kind(&self) -> Option<&'static str> {
        let certainty = &self.relative.certainty;
        match self.relative.verdict {
            Verdict::Regressed if certainty.confirmed => Some("slower"),
            Verdict::Improved if certainty.confirmed => Some("faster"),
            Verdict::Regressed | Verdict::Improved => Some("unconfirmed"),
            Verdict::Inconclusive if certainty.flagged => Some("unconfirmed"),
            Verdict::Same | Verdict::Inconclusive => None,
        }
    }

    /// By the ratio as the scripts have it, so that they sort alike.
    fn size(&self) -> f64 {
        let ratio = self.relative.ratio;
        answers::units(ratio).map_or(ratio, |steps| f64::from(steps) / f64::from(answers::ONE)).ln().abs()
    }
}

/// `None` where no release has one before it.
pub(super) fn changes(site: &Site) -> Option<Changes> {
    if site.targets().len() < 2 {
        return None;
    }
    let all = adjacent(site);
    let judged = all.iter().filter(|found| found.relative.interval.is_some()).count();
    if judged == 0 {
        let ratios = counted(all.len(), "ratio", "ratios");
        let summary = format!(
            "{ratios} between a release and the one before it, none with an interval: nothing is confirmed, and small \
             differences may be noise."
        );
        return Some(Changes { summary, lists: Vec::new() });
    }
    let lists = vec![
        list(site, &all, "slower", "Confirmed regressions", "No regression between adjacent releases is confirmed."),
        list(site, &all, "faster", "Confirmed improvements", "No improvement between adjacent releases is confirmed."),
        list(site, &all, "unconfirmed", "Seen, not confirmed", "Nothing was seen that is not confirmed."),
    ];
    Some(Changes { summary: summary(&all, &lists), lists })
}

/// All comparisons of a release with the one before it.
fn adjacent(site: &Site) -> Vec<Found> {
    let pairs = (1..site.targets().len()).flat_map(|to| (0..site.report.rows.len()).map(move |row| (row, to)));
    pairs.filter_map(|(row, to)| Some(Found { row, to, relative: site.pairs.relative(to - 1, row, to)? })).collect()
}

fn summary(all: &[Found], lists: &[ChangeList]) -> String {
    let ratios = counted(all.len(), "ratio", "ratios");
    if lists[0].count + lists[1].count == 0 {
        return format!("Nothing is confirmed: of {ratios} between adjacent releases none is a confirmed change.");
    }
    format!(
        "Of {ratios} between adjacent releases, {} confirmed as slower and {} as faster.",
        are(lists[0].count),
        lists[1].count
    )
}

fn are(count: usize) -> String {
    format!("{count} {}", if count == 1 { "is" } else { "are" })
}

fn list(site: &Site, all: &[Found], id: &'static str, title: &'static str, none: &'static str) -> ChangeList {
    let mut found: Vec<&Found> = all.iter().filter(|found| found.kind() == Some(id)).collect();
    // Ties stay in the order of releases and rows.
    found.sort_by(|a, b| b.size().total_cmp(&a.size()));
    let count = found.len();
    let lines = found.into_iter().take(LINES).map(|found| line(site, found)).collect();
    ChangeList { id, title, none, lines, count }
}

fn line(site: &Site, found: &Found) -> ChangeLine {
    let label = |target: usize| site.targets()[target].label.clone();
    ChangeLine {
        link: site.bench_link("", found.row),
        group: site.report.rows[found.row].group.clone(),
        from: label(found.to - 1),
        to: label(found.to),
        ratio: Ratio::new(Some(found.relative.ratio)),
        interval: view::interval(Some(found.relative)),
        words: found.relative.words(),
    }
}
