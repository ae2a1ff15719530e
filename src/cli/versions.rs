//! `regtrack versions [RANGE]` and `regtrack versions show MAJOR`; `regtrack versions refresh` is in `refresh`

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use jiff::civil::Date;
use serde::Serialize;

use super::printer::Printer;
use super::{Failure, Global, refresh, tables};
use crate::catalog::versions::Catalogue;
use crate::domain::{Change, Fixup, Major, MajorRelease, Release, ReleaseRange, TreeKind, Version};

/// Arguments of `versions`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct VersionsArgs {
    #[command(subcommand)]
    command: Option<VersionsCommand>,
    /// Releases, such as 9.0..18, 14.10..16.2 or 9.6,17.3 [default: every release]
    range: Option<ReleaseRange>,
    /// Every minor in the range instead of the latest of each major
    #[arg(long)]
    minors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum VersionsCommand {
    /// Add new releases, and hashes that are missing, from the listing of the official sources
    Refresh(refresh::RefreshArgs),
    /// Show a major: dates, releases, fix-ups, and what changed in it for a benchmark
    Show {
        /// The major, such as 9.4 or 17
        major: Major,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What is known about a major. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct Portrait<'a> {
    major: Major,
    first_release: Option<Date>,
    end_of_life: Option<Date>,
    newer: bool,
    releases: usize,
    latest: Option<Version>,
    latest_date: Option<Date>,
    prebuilt: Vec<Version>,
    unknown_hashes: Vec<Version>,
    fixups: Vec<FixupLine<'a>>,
    changes: &'a [Change],
}

/// What some releases of a major need to compile. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct FixupLine<'a> {
    name: &'a str,
    why: &'a str,
    /// The first release that needs it.
    from: Option<Version>,
    /// The last one; absent when later ones will need it too.
    to: Option<Version>,
    only: Option<TreeKind>,
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

pub(super) fn run(args: &VersionsArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    if let Some(VersionsCommand::Refresh(args)) = &args.command {
        return refresh::run(args, global, printer);
    }
    let catalogue = global.catalogue()?;
    if let Some(VersionsCommand::Show { major, json }) = &args.command {
        let portrait = portrait(catalogue.major(*major)?, &catalogue);
        let text = if *json { serde_json::to_string_pretty(&portrait)? } else { show(&portrait) };
        return Ok(printer.data(&text)?);
    }
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

fn portrait<'a>(major: &'a MajorRelease, catalogue: &Catalogue) -> Portrait<'a> {
    let versions = |wanted: fn(&Release) -> bool| {
        major.releases.iter().filter(|release| wanted(release)).map(|release| release.version).collect()
    };
    let latest = catalogue.latest(major.major);
    let first = major.releases.first().map(|release| release.version);
    let fixup = |fixup: &'a Fixup| FixupLine {
        name: &fixup.name,
        why: &fixup.why,
        from: fixup.from.or(first),
        to: fixup.to,
        only: fixup.only,
    };
    Portrait {
        major: major.major,
        first_release: major.first_release,
        end_of_life: major.end_of_life,
        newer: major.newer,
        releases: major.releases.len(),
        latest: latest.map(|release| release.version),
        latest_date: latest.and_then(|release| release.date),
        prebuilt: versions(|release| release.prebuilt.is_some()),
        unknown_hashes: versions(|release| release.sha256.is_none()),
        fixups: major.fixups.iter().map(fixup).collect(),
        changes: &major.changes,
    }
}

fn show(portrait: &Portrait) -> String {
    let date = |date: Option<Date>| date.map_or_else(|| "date not known".to_owned(), |date| date.to_string());
    let list = |versions: &[Version], none: &str| match versions {
        [] => none.to_owned(),
        _ => versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    };
    let latest = portrait.latest.map_or_else(String::new, |version| version.to_string());
    let newer = if portrait.newer { " (newer: takes part in a sweep only where it is named)" } else { "" };
    let facts = [
        ("first release", date(portrait.first_release)),
        ("end of life", date(portrait.end_of_life)),
        ("latest", format!("{latest} ({})", date(portrait.latest_date))),
        ("releases", portrait.releases.to_string()),
        ("prebuilt", list(&portrait.prebuilt, "none")),
        ("without source hash", list(&portrait.unknown_hashes, "none")),
    ];
    let mut text = format!("PostgreSQL {}{newer}\n", portrait.major);
    for (name, value) in facts {
        let _ = writeln!(text, "  {name:20} {value}");
    }
    for fixup in &portrait.fixups {
        let _ = write!(text, "\nFix-up {}: {}\n{}", fixup.name, fixup.range(), wrapped(fixup.why));
    }
    for Change { title, effect, source, .. } in portrait.changes {
        let _ = write!(text, "\n{title}\n{}{}", wrapped(effect), wrapped(&format!("[{source}]")));
    }
    text
}

impl FixupLine<'_> {
    /// The releases that need it, and of these the trees: `9.2.0 to 9.2.14, git trees`.
    fn range(&self) -> String {
        let end = |version: Option<Version>, open: &str| version.map_or_else(|| open.to_owned(), |it| it.to_string());
        let trees = match self.only {
            Some(TreeKind::Git) => ", git trees",
            Some(TreeKind::Archive) => ", archives",
            None => "",
        };
        format!("{} to {}{trees}", end(self.from, "the first"), end(self.to, "the last"))
    }
}

/// Text in indented lines of at most 100 characters, longer words aside.
fn wrapped(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_wrapped_between_words() {
        let text = wrapped(&"five§ ".repeat(40));
        assert!(text.lines().all(|line| line.starts_with("  five§") && line.chars().count() <= 100), "{text}");
        assert_eq!(text.split_whitespace().count(), 40);
        assert!(text.lines().next().unwrap().chars().count() > 90);
        assert_eq!(wrapped(&"x".repeat(200)), format!("  {}\n", "x".repeat(200)));
    }
}
