//! What several pages share: the site as a whole, links, and how ratios and evidence are shown.

use std::borrow::Cow;

use serde::Serialize;
use tera::Value;

use super::past::Names;
use super::{Content, Download, Schema, SiteError, format, slug};
use crate::domain::{
    Cell, History, MajorRelease, Origin, Pairs, Protocol, RateUnit, RelativeQps, Report, ReportRow, Target,
};

/// A report with the names of its pages.
pub(super) struct Site<'a> {
    pub(super) report: &'a Report,
    pub(super) pairs: &'a Pairs,
    pub(super) downloads: &'a [Download],
    pub(super) schemas: &'a [Schema],
    pub(super) majors: &'a [MajorRelease],
    pub(super) history: Option<&'a History>,
    /// Files of the history; none without one.
    pub(super) names: Names,
    /// Where the site will be, if that is known.
    pub(super) url: Option<&'a str>,
    bench_slugs: Vec<String>,
    release_slugs: Vec<String>,
    /// Launches that the fullest cell has: the blocks that were run.
    blocks: usize,
}

impl<'a> Site<'a> {
    pub(super) fn new(content: Content<'a>) -> Self {
        let Content { report, pairs, downloads, schemas, majors, history, url } = content;
        let rows = || report.rows.iter().map(|row| row.name.as_str());
        let cells = report.rows.iter().flat_map(|row| &row.cells);
        Self {
            report,
            pairs,
            downloads,
            schemas,
            majors,
            history,
            names: history.map(|history| Names::new(history, rows())).unwrap_or_default(),
            url,
            bench_slugs: slug::unique(rows()),
            release_slugs: slug::unique(report.manifest.targets.iter().map(|target| target.id.0.as_str())),
            blocks: cells.map(|cell| cell.launch_rates.len()).max().unwrap_or(0),
        }
    }

    /// What the whole site is about, for page titles.
    pub(super) fn title(&self) -> String {
        match self.targets() {
            [] => "PostgreSQL".to_owned(),
            [only] => format!("PostgreSQL {}", only.label),
            [first, .., last] => format!("PostgreSQL {} to {}", first.label, last.label),
        }
    }

    pub(super) fn targets(&self) -> &'a [Target] {
        &self.report.manifest.targets
    }

    /// Label of the base.
    pub(super) fn base_label(&self) -> &'a str {
        self.targets().get(self.report.base).map_or("the base", |target| &target.label)
    }

    pub(super) fn bench_path(&self, row: usize) -> String {
        format!("bench/{}.html", self.bench_slugs[row])
    }

    pub(super) fn release_path(&self, target: usize) -> String {
        format!("release/{}.html", self.release_slugs[target])
    }

    /// A link to a microbenchmark's page, from a page at the given way up to the root.
    pub(super) fn bench_link(&self, root: &str, row: usize) -> Link {
        Link::new(format!("{root}{}", self.bench_path(row)), &self.report.rows[row].name)
    }

    /// A link to a release's page.
    pub(super) fn release_link(&self, root: &str, target: usize) -> Link {
        Link::new(format!("{root}{}", self.release_path(target)), &self.targets()[target].label)
    }

    /// A link to a download, where the site has it.
    pub(super) fn download_link(&self, root: &str, file_name: &str) -> Option<Link> {
        let download = self.downloads.iter().find(|download| download.file_name == file_name)?;
        Some(Link::new(format!("{root}{}", super::download_path(&download.file_name)), &download.file_name))
    }

    /// The protocol, unless the sweep was imported.
    pub(super) fn protocol(&self) -> Option<&'a Protocol> {
        match &self.report.manifest.origin {
            Origin::Measured { protocol, .. } => Some(protocol),
            Origin::Imported { .. } => None,
        }
    }

    /// Launches of a cell whose place in the block order is certain: all blocks were measured.
    pub(super) fn paired_launches(&self, cell: &'a Cell) -> &'a [f64] {
        if cell.launch_rates.len() == self.blocks { &cell.launch_rates } else { &[] }
    }

    /// Fewest and most launches over the cells that have a rate.
    pub(super) fn launches_per_cell(&self) -> (usize, usize) {
        let counts = self.report.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.rate.is_some());
        counts.fold((usize::MAX, 0), |(fewest, most), cell| {
            let count = cell.launch_rates.len();
            (fewest.min(count), most.max(count))
        })
    }

    /// Whether any ratio has an interval.
    pub(super) fn has_intervals(&self) -> bool {
        let mut ratios = self.report.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.relative);
        ratios.any(|relative| relative.interval.is_some())
    }
}

/// A link.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Link {
    pub(super) href: String,
    pub(super) label: String,
}

impl Link {
    pub(super) fn new(href: impl Into<String>, label: &str) -> Self {
        Self { href: href.into(), label: label.to_owned() }
    }
}

/// One page, ready for its template.
pub(super) struct Page {
    /// Path in the site.
    pub(super) path: String,
    pub(super) template: &'static str,
    pub(super) title: String,
    pub(super) description: String,
    /// What stands between the overview and this page.
    pub(super) crumbs: Vec<Link>,
    /// Path in the site of the feed that follows what the page is about, if there is one.
    pub(super) feed: Option<String>,
    /// `page` in the template.
    pub(super) view: Value,
}

impl Page {
    /// A page directly below the overview whose template sees `view` as `page`.
    pub(super) fn new(
        path: &str,
        template: &'static str,
        title: String,
        description: String,
        view: &impl Serialize,
    ) -> Result<Self, SiteError> {
        let view = Value::try_from_serializable(view)
            .map_err(|source| SiteError::Template { page: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), template, title, description, crumbs: Vec::new(), feed: None, view })
    }
}

/// A ratio as a coloured cell.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Ratio {
    /// Two decimals, or a dash.
    pub(super) text: String,
    /// Style class: `n` around 1, `s1`…`s5` slower, `f1`…`f5` faster, empty without a ratio.
    pub(super) class: &'static str,
    /// For sorting.
    pub(super) value: Option<f64>,
}

/// Ratios at which the colours change, from slight to strong. Faster ratios use the reciprocals.
pub(super) const SHADES: [f64; 5] = [0.98, 0.95, 0.90, 0.80, 0.67];

impl Ratio {
    pub(super) fn new(ratio: Option<f64>) -> Self {
        let Some(ratio) = ratio else {
            return Self { text: format::NONE.to_owned(), class: "", value: None };
        };
        Self { text: format::fixed(ratio, 2), class: shade(format::two_decimals(ratio)), value: Some(ratio) }
    }
}

/// The class of a ratio that was rounded to two decimals, so that equal numbers look equal.
fn shade(ratio: f64) -> &'static str {
    let strength = |ratio: f64| SHADES.iter().filter(|&&limit| ratio < limit).count();
    // The reciprocal of a shown ratio; 1.02 must not fall below 0.98039… by a hair.
    let slower = strength(ratio);
    let faster = SHADES.iter().filter(|&&limit| ratio > format::two_decimals(1.0 / limit)).count();
    match (slower, faster) {
        (0, 0) => "n",
        (slower, 0) => ["s1", "s2", "s3", "s4", "s5"][slower - 1],
        (_, faster) => ["f1", "f2", "f3", "f4", "f5"][faster - 1],
    }
}

/// The ratio of a cell to the base. The base has one to itself, which says nothing: it is shown
/// without interval.
pub(super) fn relative(site: &Site, target: usize, cell: &Cell) -> Option<RelativeQps> {
    let relative = cell.relative?;
    let interval = relative.interval.filter(|_| target != site.report.base);
    Some(RelativeQps { interval, ..relative })
}

/// A 95 % interval in brackets, or a dash.
pub(super) fn interval(relative: Option<RelativeQps>) -> String {
    relative.and_then(|relative| relative.interval).map_or_else(
        || format::NONE.to_owned(),
        |(low, high)| format!("[{}, {}]", format::fixed(low, 3), format::fixed(high, 3)),
    )
}

/// The verdict of a cell against the base; the base itself has none.
pub(super) fn cell_verdict(site: &Site, target: usize, relative: Option<RelativeQps>) -> String {
    if target == site.report.base {
        "base".to_owned()
    } else {
        relative.map_or_else(|| format::NONE.to_owned(), |relative| relative.words())
    }
}

/// Why a cell has no rate.
pub(super) fn gap(cell: &Cell) -> String {
    match (&cell.failure, &cell.noisy) {
        (Some(reason), _) => format!("failed: {reason}"),
        (None, Some(noisy)) => noisy.clone(),
        (None, None) => "not measured".to_owned(),
    }
}

/// What the rate of a row counts, for column heads.
pub(super) const fn unit(unit: RateUnit) -> &'static str {
    match unit {
        RateUnit::Qps => "QPS",
        RateUnit::MegarowsPerSecond => "Mrows/s",
    }
}

/// A rate in its unit.
pub(super) fn rate(value: f64, unit: RateUnit) -> String {
    let decimals = match unit {
        RateUnit::Qps => format::decimals_for([value]).min(2),
        RateUnit::MegarowsPerSecond => 3,
    };
    format::fixed(value, decimals)
}

/// A line of a list of facts.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fact {
    pub(super) name: Cow<'static, str>,
    pub(super) value: String,
    /// Whether the value is code: a command, flags, a hash.
    pub(super) code: bool,
}

impl Fact {
    pub(super) fn new(name: &'static str, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), code: false }
    }

    pub(super) fn code(name: &'static str, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), code: true }
    }
}

/// The build in a few words: compiler and optimisation level, or what an imported table called it.
pub(super) fn build_words(target: &Target) -> String {
    if let Some(build) = &target.build {
        let flags = build.fingerprint.cflags.as_deref().unwrap_or_default();
        let level = flags.split_whitespace().rfind(|flag| flag.starts_with("-O")).unwrap_or_default();
        let compiler = build.fingerprint.compiler.as_deref().unwrap_or("unknown compiler");
        return format!("{compiler} {level}").trim_end().to_owned();
    }
    target.imported.as_ref().map_or_else(|| format::NONE.to_owned(), |imported| imported.build.clone())
}

/// Rows by group in the order of the report's groups; rows of a group that is not listed come last,
/// under that group's name. Each group with its title.
pub(super) fn by_group(report: &Report) -> Vec<(String, String, Vec<usize>)> {
    let members = |name: &str| -> Vec<usize> {
        let rows = report.rows.iter().enumerate();
        rows.filter(|(_, row): &(usize, &ReportRow)| row.group == name).map(|(index, _)| index).collect()
    };
    let mut groups: Vec<(String, String, Vec<usize>)> = report
        .groups
        .iter()
        .map(|group| (group.name.clone(), group.title.clone(), members(&group.name)))
        .filter(|(_, _, rows)| !rows.is_empty())
        .collect();
    for row in &report.rows {
        if !groups.iter().any(|(name, _, _)| *name == row.group) {
            groups.push((row.group.clone(), String::new(), members(&row.group)));
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_number_that_is_shown() {
        for (ratio, class) in [
            (1.0, "n"),
            (0.98, "n"),
            (1.02, "n"),
            (0.9749, "s1"),
            (0.949, "s1"),
            (0.94, "s2"),
            (0.66, "s5"),
            (1.03, "f1"),
            (1.06, "f2"),
            (1.12, "f3"),
            (1.26, "f4"),
            (1.50, "f5"),
        ] {
            assert_eq!(Ratio::new(Some(ratio)).class, class, "{ratio}");
        }
        assert_eq!(Ratio::new(None).text, format::NONE);
    }
}
