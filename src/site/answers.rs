//! The answers of all pairs of releases, for the scripts of the pages: `site/assets/answers.js` takes them apart.
//!
//! They are written down as `analysis` gave them. The scripts choose, sort, round and summarise what is shown; they
//! compute no interval and no verdict.

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde::Serialize;

use super::view::{self, Site};
use crate::domain::{Pairs, RelativeQps, Verdict};

/// Steps of a number in the page per 1.
pub(super) const ONE: u32 = 20_000;

/// Digits of the numbers in the page: five bits each, the sixth says that more follow.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Stands for an answer that does not exist.
const ABSENT: char = '.';

/// Added to the standing of an answer that has an interval.
const WITH_INTERVAL: u32 = 16;

/// How a cell's answer stands, with its mark. The order is that of `STANDINGS` in `answers.js`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing is known beside the ratio.
    Open,
    /// The interval bounds the change.
    Bounded,
    /// So many more launches would decide.
    Wanted,
    /// Fresh launches have to confirm a change.
    Flagged,
    Same,
    SameBounded,
    Faster,
    FasterUnconfirmed,
    Slower,
    SlowerUnconfirmed,
}

impl Standing {
    pub(super) fn of(relative: &RelativeQps) -> Self {
        let certainty = &relative.certainty;
        match relative.verdict {
            Verdict::Improved if certainty.confirmed => Self::Faster,
            Verdict::Improved => Self::FasterUnconfirmed,
            Verdict::Regressed if certainty.confirmed => Self::Slower,
            Verdict::Regressed => Self::SlowerUnconfirmed,
            Verdict::Same if certainty.bound.is_some() => Self::SameBounded,
            Verdict::Same => Self::Same,
            Verdict::Inconclusive if certainty.flagged => Self::Flagged,
            Verdict::Inconclusive if certainty.wanted.is_some() => Self::Wanted,
            Verdict::Inconclusive if certainty.bound.is_some() => Self::Bounded,
            Verdict::Inconclusive => Self::Open,
        }
    }

    /// The mark beside the number, and what it says.
    pub(super) const fn mark(self) -> Mark {
        let (sign, words) = match self {
            Self::Open | Self::Bounded | Self::Wanted | Self::Flagged => ("·", "cannot tell"),
            Self::Same | Self::SameBounded => ("=", "no change"),
            Self::Faster => ("▲", "faster"),
            Self::FasterUnconfirmed => ("△", "faster, not confirmed"),
            Self::Slower => ("▼", "slower"),
            Self::SlowerUnconfirmed => ("▽", "slower, not confirmed"),
        };
        Mark { sign, words }
    }
}

/// A verdict as a mark, so that it needs no colour.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Mark {
    pub(super) sign: &'static str,
    pub(super) words: &'static str,
}

/// Every mark, for the legend.
pub(super) fn marks() -> Vec<Mark> {
    use Standing::{Faster, FasterUnconfirmed, Open, Same, Slower, SlowerUnconfirmed};
    [Slower, SlowerUnconfirmed, Faster, FasterUnconfirmed, Same, Open].map(Standing::mark).into()
}

/// What a page's scripts work on.
#[derive(Serialize)]
struct Data<'a> {
    base: usize,
    targets: Vec<TargetData<'a>>,
    groups: Vec<GroupData>,
    rows: Vec<RowData<'a>>,
    gaps: Vec<GapData>,
    /// The change that the launches wanted would find, as a share of the base.
    settles: Option<f64>,
    /// One text per base.
    answers: Vec<String>,
    /// By row and target, as they are shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct TargetData<'a> {
    label: &'a str,
    major: String,
    href: String,
}

#[derive(Serialize)]
struct GroupData {
    name: String,
    title: String,
    rows: Vec<usize>,
}

#[derive(Serialize)]
struct RowData<'a> {
    name: &'a str,
    href: String,
    unit: &'static str,
}

/// Why a cell has no rate, or a rate that decides nothing.
#[derive(Serialize)]
struct GapData {
    row: usize,
    target: usize,
    failed: bool,
    reason: String,
}

/// The data of a page at the root of the site as JSON that may stand inside a `script` element.
pub(super) fn json(site: &Site, with_rates: bool) -> String {
    let group = |(name, title, rows): (String, String, Vec<usize>)| GroupData { name, title, rows };
    let data = Data {
        base: site.report.base,
        targets: targets(site),
        groups: view::by_group(site.report).into_iter().map(group).collect(),
        rows: rows(site),
        gaps: gaps(site),
        settles: settles(site),
        answers: (0..site.targets().len()).map(|base| packed(site, base)).collect(),
        rates: if with_rates { rates(site) } else { Vec::new() },
    };
    // Texts and finite numbers: there is nothing that JSON cannot hold. An end tag in a text must not end the element.
    serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c")
}

fn targets<'a>(site: &Site<'a>) -> Vec<TargetData<'a>> {
    let target = |(index, target): (usize, &'a crate::domain::Target)| TargetData {
        label: &target.label,
        major: target.version.major.to_string(),
        href: site.release_path(index),
    };
    site.targets().iter().enumerate().map(target).collect()
}

fn rows<'a>(site: &Site<'a>) -> Vec<RowData<'a>> {
    let row = |(index, row): (usize, &'a crate::domain::ReportRow)| RowData {
        name: &row.name,
        href: site.bench_path(index),
        unit: view::unit(row.unit),
    };
    site.report.rows.iter().enumerate().map(row).collect()
}

fn gaps(site: &Site) -> Vec<GapData> {
    let rows = site.report.rows.iter().enumerate();
    let gap = |(row, (target, cell)): (usize, (usize, &crate::domain::Cell))| {
        let is_gap = cell.rate.is_none() || cell.noisy.is_some();
        let failed = cell.rate.is_none() && cell.failure.is_some();
        is_gap.then(|| GapData { row, target, failed, reason: view::gap(cell) })
    };
    rows.flat_map(|(index, row)| row.cells.iter().enumerate().map(move |cell| (index, cell))).filter_map(gap).collect()
}

fn rates(site: &Site) -> Vec<Vec<String>> {
    let rate = |row: &crate::domain::ReportRow, cell: &crate::domain::Cell| {
        cell.rate.map_or_else(|| super::format::NONE.to_owned(), |rate| view::rate(rate, row.unit))
    };
    site.report.rows.iter().map(|row| row.cells.iter().map(|cell| rate(row, cell)).collect()).collect()
}

/// All answers relative to one base, row by row.
fn packed(site: &Site, base: usize) -> String {
    let mut text = String::new();
    for row in 0..site.report.rows.len() {
        for target in 0..site.targets().len() {
            pack(&mut text, site.pairs.relative(base, row, target).as_ref());
        }
    }
    text
}

/// The same in the sweep: one plan of looks, one precision.
fn settles(site: &Site) -> Option<f64> {
    let wanted = |pairs: &Pairs, base: usize| {
        let mut cells = (0..site.report.rows.len()).flat_map(|row| (0..site.targets().len()).map(move |at| (row, at)));
        cells.find_map(|(row, at)| pairs.relative(base, row, at)?.certainty.wanted)
    };
    (0..site.targets().len()).find_map(|base| wanted(site.pairs, base)).map(|wanted| wanted.settles)
}

/// Standing; ratio; where there is an interval, how far it reaches down, and how much farther up: little, since it is
/// symmetric in logarithms; the launches wanted, if any.
fn pack(text: &mut String, relative: Option<&RelativeQps>) {
    let Some((relative, ratio)) = relative.and_then(|relative| Some((relative, units(relative.ratio)?))) else {
        text.push(ABSENT);
        return;
    };
    let interval = relative.interval.and_then(|(low, high)| Some((units(low)?, units(high)?)));
    let standing = Standing::of(relative);
    digits(text, standing as u32 | if interval.is_some() { WITH_INTERVAL } else { 0 });
    digits(text, ratio);
    if let Some((low, high)) = interval {
        let (down, up) = (ratio.saturating_sub(low), high.saturating_sub(ratio));
        digits(text, down);
        // The lowest bit is the sign.
        digits(text, up.abs_diff(down) * 2 + u32::from(up < down));
    }
    if let (Standing::Wanted, Some(wanted)) = (standing, relative.certainty.wanted) {
        digits(text, wanted.more);
    }
}

/// A number in steps of 1 / 20000, where an odd count stands for everything between its even neighbours: rounding the
/// count to two or three decimals, half up, gives what rounding the number itself gives, and so does rounding up.
pub(super) fn units(value: f64) -> Option<u32> {
    // At its shortest decimal form, as the summaries take it.
    let exact: Decimal = value.to_string().parse().ok()?;
    let steps = exact.checked_mul(Decimal::from(ONE / 2))?;
    let whole = steps.trunc();
    whole.to_u32()?.checked_mul(2)?.checked_add(u32::from(steps != whole))
}

/// Five bits per digit, the lowest first.
fn digits(text: &mut String, mut number: u32) {
    loop {
        let (digit, rest) = (number % 32, number / 32);
        let more = if rest > 0 { 32 } else { 0 };
        text.push(char::from(ALPHABET[(digit + more) as usize]));
        if rest == 0 {
            return;
        }
        number = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Certainty;

    #[test]
    fn steps_round_as_the_number_does() {
        for (value, steps) in [
            (1.0, 20_000),
            (1.005, 20_100),
            (1.004_999, 20_099),
            (0.995, 19_900),
            (0.9695, 19_390),
            (0.969_51, 19_391),
            (0.0, 0),
        ] {
            assert_eq!(units(value), Some(steps), "{value}");
        }
        assert_eq!((units(f64::NAN), units(f64::INFINITY), units(-1.0), units(1e9)), (None, None, None, None));
        for value in [0.994_999_9, 0.995, 1.004_999, 1.005, 1.005_000_1, 1.234_5, 4.635] {
            let hundredths = units(value).map(|steps| f64::from((steps + 100) / 200) / 100.0);
            assert_eq!(hundredths.map(|ratio| format!("{ratio:.2}")), Some(super::super::format::fixed(value, 2)));
        }
    }

    #[test]
    fn answers_are_packed_into_few_letters() {
        let mut text = String::new();
        pack(&mut text, None);
        let certainty = Certainty { confirmed: true, ..Certainty::default() };
        let (interval, verdict) = (Some((0.96, 0.98)), Verdict::Regressed);
        pack(&mut text, Some(&RelativeQps { ratio: 0.97, interval, verdict, certainty }));
        // 8 + 16 = 24; 19400 = 8 + 30 · 32 + 18 · 1024; 200 = 8 + 6 · 32; and as far up.
        assert_eq!(text, ".Yo-SoGA");
    }
}
