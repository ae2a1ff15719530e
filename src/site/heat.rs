//! The heat map: every microbenchmark on every release, as a number, a mark, an interval and a colour.

use serde::Serialize;

use super::answers::{self, Mark, Standing};
use super::format;
use super::view::{self, Link, Ratio, SHADES, Site};
use crate::domain::{Cell, RelativeQps};

#[derive(Serialize)]
pub(super) struct HeatMap {
    releases: Vec<Link>,
    groups: Vec<HeatGroup>,
    /// Class, and lower or upper limit.
    legend: Vec<Ratio>,
    /// What the marks mean; empty where nothing is judged.
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct HeatGroup {
    name: String,
    title: String,
    rows: Vec<HeatRow>,
}

#[derive(Serialize)]
struct HeatRow {
    /// Index of the row in the report, for the scripts.
    index: usize,
    link: Link,
    cells: Vec<HeatCell>,
}

#[derive(Serialize)]
struct HeatCell {
    /// The number, or what stands for it.
    text: String,
    class: &'static str,
    mark: Option<Mark>,
    /// `0.951–0.989`
    interval: Option<String>,
    /// Why there is no number.
    note: String,
}

pub(super) fn heat_map(site: &Site) -> HeatMap {
    let row = |index: usize| HeatRow {
        index,
        link: site.bench_link("", index),
        cells: site.report.rows[index]
            .cells
            .iter()
            .enumerate()
            .map(|(target, cell)| heat_cell(site, target, cell))
            .collect(),
    };
    let group = |(name, title, rows): (String, String, Vec<usize>)| HeatGroup {
        name,
        title,
        rows: rows.into_iter().map(row).collect(),
    };
    HeatMap {
        releases: (0..site.targets().len()).map(|index| site.release_link("", index)).collect(),
        groups: view::by_group(site.report).into_iter().map(group).collect(),
        legend: legend(),
        marks: if site.has_intervals() { answers::marks() } else { Vec::new() },
    }
}

fn heat_cell(site: &Site, target: usize, cell: &Cell) -> HeatCell {
    let Some(relative) = view::relative(site, target, cell) else {
        let failed = cell.rate.is_none() && cell.failure.is_some();
        let text = if failed { "×" } else { format::NONE };
        let note = if cell.rate.is_some() { "the base has no rate here".to_owned() } else { view::gap(cell) };
        return HeatCell { text: text.to_owned(), class: "", mark: None, interval: None, note };
    };
    let ratio = Ratio::new(Some(relative.ratio));
    HeatCell {
        text: ratio.text,
        class: ratio.class,
        mark: mark(&relative),
        interval: interval(&relative),
        note: String::new(),
    }
}

/// Without an interval nothing was judged, and there is no mark.
pub(super) fn mark(relative: &RelativeQps) -> Option<Mark> {
    relative.interval.map(|_| Standing::of(relative).mark())
}

fn interval(relative: &RelativeQps) -> Option<String> {
    relative.interval.map(|(low, high)| format!("{}–{}", format::fixed(low, 3), format::fixed(high, 3)))
}

/// A swatch per colour, labelled with the mildest ratio that gets it.
fn legend() -> Vec<Ratio> {
    let hundredth = 0.01;
    let slower = SHADES.iter().rev().map(|limit| limit - hundredth);
    let faster = SHADES.iter().map(|limit| format::two_decimals(1.0 / limit) + hundredth);
    slower.chain([1.0]).chain(faster).map(|ratio| Ratio::new(Some(ratio))).collect()
}
