//! `regtrack versions [RANGE]`

use clap::Args;
use jiff::civil::Date;
use serde::Serialize;

use super::printer::Printer;
use super::{Failure, tables};
use crate::catalog::versions::Catalogue;
use crate::domain::{Major, Release, ReleaseRange, Version};

/// Arguments of `versions`.
#[derive(Debug, Args)]
pub(super) struct VersionsArgs {
    /// Releases, such as 9.0..18, 14.10..16.2 or 9.6,17.3 [default: every release]
    range: Option<ReleaseRange>,
    /// Every minor in the range instead of the latest of each major
    #[arg(long)]
    minors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One line of the list. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct Line {
    version: Version,
    major: Major,
    date: Option<Date>,
    end_of_life: Option<Date>,
    newer: bool,
    tag: String,
    archive: String,
    sha256: Option<String>,
    prebuilt: Option<String>,
}

pub(super) fn run(args: &VersionsArgs, printer: Printer) -> Result<(), Failure> {
    let catalogue = Catalogue::builtin()?;
    let releases: Vec<Release> = match &args.range {
        Some(range) => {
            let selected = catalogue.resolve(range, args.minors)?;
            selected.into_iter().map(|selected| selected.release).collect()
        }
        None => catalogue.majors().iter().flat_map(|major| major.releases.clone()).collect(),
    };
    let lines: Vec<Line> = releases.into_iter().map(|release| line(release, &catalogue)).collect();
    if args.json {
        printer.data(&serde_json::to_string_pretty(&lines)?)?;
    } else {
        printer.data(&table(&lines))?;
    }
    Ok(())
}

fn line(release: Release, catalogue: &Catalogue) -> Line {
    let major = catalogue.majors().iter().find(|major| major.major == release.version.major);
    Line {
        version: release.version,
        major: release.version.major,
        date: release.date,
        end_of_life: major.and_then(|major| major.end_of_life),
        newer: major.is_some_and(|major| major.newer),
        tag: release.tag,
        archive: release.archive,
        sha256: release.sha256,
        prebuilt: release.prebuilt,
    }
}

fn table(lines: &[Line]) -> String {
    let text = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let mut rows = Vec::new();
    for line in lines {
        let newer = if line.newer { " (newer)" } else { "" };
        rows.push(vec![
            format!("{}{newer}", line.version),
            text(line.date.map(|date| date.to_string())),
            text(line.end_of_life.map(|date| date.to_string())),
            line.tag.clone(),
            text(line.sha256.as_ref().map(|hash| hash.chars().take(12).collect())),
            text(line.prebuilt.clone()),
        ]);
    }
    tables::listing(&["version", "released", "end of life", "tag", "source hash", "prebuilt"], rows)
}
