//! `regtrack-site.json`: how new a site's data is and how much there is of it, for whoever publishes the next one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::view::Site;

/// Format of the file.
const FORMAT: u32 = 1;

/// What a site holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stamp {
    /// Format of the file.
    pub format: u32,
    /// Version of regtrack that wrote the site.
    pub regtrack: String,
    /// When the newest of its data was measured.
    pub newest: Timestamp,
    /// Cells with a value by target: those of the report and those of the history.
    pub cells: BTreeMap<String, usize>,
}

impl Stamp {
    /// Path of the file in a site.
    pub const FILE: &str = "regtrack-site.json";

    pub(super) fn of(site: &Site) -> Self {
        let manifest = &site.report.manifest;
        let mut cells: BTreeMap<String, usize> = BTreeMap::new();
        for (index, target) in manifest.targets.iter().enumerate() {
            let measured = site.report.rows.iter().filter(|row| row.cells[index].is_measured()).count();
            cells.insert(target.id.0.clone(), measured);
        }
        let series = || site.history.iter().flat_map(|history| &history.series);
        for series in series() {
            let mut of_line: BTreeMap<usize, usize> = BTreeMap::new();
            for track in &series.tracks {
                *of_line.entry(track.line).or_default() += 1;
            }
            for (line, count) in of_line {
                if let crate::domain::Line::Target(target) = &series.lines[line] {
                    let known = cells.entry(target.id.0.clone()).or_default();
                    *known = count.max(*known);
                }
            }
        }
        let weeks = series().flat_map(|series| &series.weeks).map(|week| week.updated_at);
        let newest = weeks.chain([manifest.updated_at]).max().unwrap_or(manifest.updated_at);
        Self { format: FORMAT, regtrack: manifest.regtrack.clone(), newest, cells }
    }

    /// Cells of all targets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cells.values().sum()
    }

    /// How many of these cells another site does not have.
    #[must_use]
    pub fn missing_in(&self, other: &Self) -> usize {
        let of = |target: &String| other.cells.get(target).copied().unwrap_or(0);
        self.cells.iter().map(|(target, count)| count.saturating_sub(of(target))).sum()
    }
}
