//! What a reader must know before believing a ratio, in full sentences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::layout::Layout;
use super::shifts::{self, Drift, Shift};
use super::{Minor, Origin, RateUnit, Report, SliceRecord, Target, Version};
use crate::domain::{Blind, Outcome, Protocol};

/// Failures and releases that a sentence lists before it says how many more there are.
const LISTED: usize = 5;

/// Slices below this length are noise, whatever their number.
const SHORTEST_SECONDS: f64 = 1.0;

/// Launches from which on an interval is narrow enough to decide in a report of 42 comparisons.
const ENOUGH_LAUNCHES: usize = 5;

/// All warnings on a report whose cells are filled.
pub(super) fn of(report: &Report, slices: &[SliceRecord], newest: &[Version]) -> Vec<String> {
    let targets = &report.manifest.targets;
    let mut warnings = Vec::new();
    warnings.extend(replication(report));
    match &report.manifest.origin {
        Origin::Measured { protocol, .. } => {
            warnings.extend(short(protocol));
            warnings.extend(differ(targets, "compilers or compiler flags", |target| {
                target.build.as_ref().map(|build| build.fingerprint.toolchain())
            }));
            warnings.extend(differ(targets, "origins", |target| {
                target.build.as_ref().map(|build| build.provenance.word().to_owned())
            }));
            warnings.extend(differ(targets, "settings of data checksums", |target| {
                Some(if checksums(target, protocol) { "on" } else { "off" }.to_owned())
            }));
            warnings.extend(data(targets));
            warnings.extend(outdated(targets, newest));
            warnings.extend(missing(report));
        }
        Origin::Imported { .. } => {
            warnings.extend(differ(targets, "builds", |target| Some(target.imported.as_ref()?.build.clone())));
            warnings.extend(differ(targets, "configurations", |target| Some(target.imported.as_ref()?.config.clone())));
            warnings.extend(scan_unit(report));
            warnings.extend(without_common_table(report));
        }
    }
    warnings.extend(failures(report, slices));
    warnings.extend(noisy(report, slices));
    warnings
}

/// What moved all microbenchmarks alike: a target's build or environment, or the machine under the base.
pub(super) fn shifts(report: &Report, layouts: &[Layout]) -> Vec<String> {
    if let Origin::Imported { .. } = report.manifest.origin {
        return Vec::new();
    }
    let targets = &report.manifest.targets;
    let base = &targets[report.base].label;
    let others = (0..targets.len()).filter(|target| *target != report.base);
    let mut warnings: Vec<String> = others
        .filter_map(|target| {
            let shift = shifts::common_shift(layouts, target, targets.len() - 1)?;
            Some(format!(
                "Nearly all microbenchmarks of {} differ from {base} by about the same, {}: that is what another \
                 build or environment does, rather than a change of one statement.",
                targets[target].label,
                size(&shift)
            ))
        })
        .collect();
    warnings.extend(shifts::drift(layouts).map(|drift| {
        let (shift, how) = match drift {
            Drift::Trend(shift) => (shift, "from the first block to the last".to_owned()),
            Drift::Step(shift, block) => (shift, format!("at once from block {block} on")),
        };
        format!(
            "The machine was not the same throughout: the rates of the base, {base}, changed by {} {how}. Ratios inside \
             blocks allow for that, rates do not.",
            size(&shift)
        )
    }));
    warnings
}

/// `+2.1 % [1.8, 2.4]`
fn size(shift: &Shift) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let (low, high) = shift.interval;
    format!("{:+.1} % [{:+.1}, {:+.1}]", percent(shift.ratio), percent(low), percent(high))
}

/// A build that was called different from itself.
pub(super) fn blind(blind: &Blind) -> Option<String> {
    let names = &blind.false_verdicts;
    (!names.is_empty()).then(|| {
        format!(
            "The base's build was measured twice, and called different from itself in {} of {} microbenchmarks ({}): \
             verdicts of this sweep are worth less than they say.",
            names.len(),
            blind.compared,
            names.join(", ")
        )
    })
}

/// Slices that something disturbed, with the most frequent reason.
fn noisy(report: &Report, slices: &[SliceRecord]) -> Option<String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut count, mut measured) = (0, 0);
    for slice in slices {
        if !report.manifest.targets.iter().any(|target| target.id == slice.target) {
            continue;
        }
        let Some(measurement) = slice.outcome.measurement() else { continue };
        measured += 1;
        count += usize::from(!measurement.noise.is_empty());
        for reason in &measurement.noise {
            *reasons.entry(without_numbers(reason)).or_default() += 1;
        }
    }
    let (reason, times) = reasons.into_iter().max_by_key(|(_, times)| *times)?;
    let most = if times == count { String::new() } else { format!("mostly, {times} times, ") };
    let cells = report.rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.noisy.is_some()).count();
    let rest = match cells {
        0 => "They are left out of all statistics".to_owned(),
        cells => format!("They are left out where a cell has others; {cells} cells have none, and decide nothing"),
    };
    Some(format!("{count} of {measured} slices are noisy: {most}{reason}. {rest}."))
}

/// So that one reason with many sizes is one.
fn without_numbers(reason: &str) -> String {
    let words = reason.split(' ').map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Slices that are too short to mean anything.
fn short(protocol: &Protocol) -> Option<String> {
    let seconds = protocol.read_seconds.min(protocol.write_seconds);
    (seconds < SHORTEST_SECONDS)
        .then(|| format!("Slices of {seconds} s prove that everything works; the ratios are noise."))
}

/// Too few launches to tell a change from noise.
fn replication(report: &Report) -> Option<String> {
    let launches = |target: usize| report.rows.iter().map(|row| row.cells[target].launch_rates.len()).max();
    let fewest = (0..report.manifest.targets.len()).filter_map(launches).filter(|count| *count > 0).min()?;
    match fewest {
        1 => Some("Only one launch per release: differences below a few percent are noise.".to_owned()),
        2..ENOUGH_LAUNCHES => Some(format!(
            "Only {fewest} launches per release: intervals are wide, and small changes stay undecided; \
             {ENOUGH_LAUNCHES} or more narrow them."
        )),
        _ => None,
    }
}

/// Targets that differ in something that moves the numbers by itself.
fn differ(targets: &[Target], what: &str, of: impl Fn(&Target) -> Option<String>) -> Option<String> {
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for target in targets {
        // A release that could not be built has nothing to differ in.
        let Some(value) = of(target) else { continue };
        values.entry(value).or_default().push(&target.label);
    }
    if values.len() < 2 {
        return None;
    }
    let parts: Vec<String> = values.iter().map(|(value, labels)| format!("{} ({value})", list(labels))).collect();
    Some(format!("The releases have different {what}, which changes speed by itself: {}.", parts.join("; ")))
}

/// Checksums as the server said, or as asked for on releases that have them (from 9.3 on).
fn checksums(target: &Target, protocol: &Protocol) -> bool {
    match target.settings.get("data_checksums") {
        Some(value) => value == "on",
        None => protocol.data_checksums && target.version.major.number() >= 903,
    }
}

/// Releases that did not hold the same rows: their ratios mean nothing.
fn data(targets: &[Target]) -> Option<String> {
    let mut digests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for target in targets {
        if let Some(digest) = &target.data_digest {
            digests.entry(digest).or_default().push(&target.label);
        }
    }
    let parts: Vec<String> = digests.values().map(|labels| list(labels)).collect();
    (parts.len() > 1).then(|| {
        format!(
            "The releases did not hold the same rows, so their ratios mean nothing: {} differ.",
            parts.join(" and ")
        )
    })
}

/// Majors of which no target is the newest minor.
fn outdated(targets: &[Target], newest: &[Version]) -> Option<String> {
    let mut old = Vec::new();
    for newest in newest {
        let tested = targets.iter().map(|target| target.version).filter(|version| version.major == newest.major).max();
        if let Some(version) = tested.filter(|version| version < newest && matches!(newest.minor, Minor::Release(_))) {
            old.push(format!("{version} (newest {newest})"));
        }
    }
    (!old.is_empty()).then(|| format!("Not the newest minor release of its major: {}.", old.join(", ")))
}

/// Cells that were asked for and are not there yet.
fn missing(report: &Report) -> Option<String> {
    let cells = || report.rows.iter().flat_map(|row| &row.cells);
    let missing = cells().filter(|cell| !cell.is_measured() && cell.failure.is_none() && cell.noisy.is_none()).count();
    (missing > 0)
        .then(|| format!("The sweep is not complete: {missing} of {} cells are not measured yet.", cells().count()))
}

/// Tables of 2024 print scans in millions of rows per second, later ones in thousands per client.
fn scan_unit(report: &Report) -> Option<String> {
    // No single connection reads a hundred million rows per second.
    let thousands = report
        .rows
        .iter()
        .filter(|row| row.unit == RateUnit::MegarowsPerSecond)
        .flat_map(|row| row.cells.iter().filter_map(|cell| cell.rate))
        .any(|rate| rate >= 100.0);
    thousands.then(|| {
        "Scan rates are shown as printed in the imported tables: thousands of rows per second per client here, not \
         millions; ratios are not affected."
            .to_owned()
    })
}

/// Imported columns that never stand beside the base.
fn without_common_table(report: &Report) -> Option<String> {
    let compared = |index: usize| report.rows.iter().any(|row| row.cells[index].relative.is_some());
    let targets = report.manifest.targets.iter().enumerate();
    let labels: Vec<&str> =
        targets.filter(|(index, _)| !compared(*index)).map(|(_, target)| target.label.as_str()).collect();
    (!labels.is_empty()).then(|| {
        let base = &report.manifest.targets[report.base].label;
        format!("No imported table has these releases beside {base}, so they have no ratio to it: {}.", list(&labels))
    })
}

/// Slices that failed, with reasons.
fn failures(report: &Report, slices: &[SliceRecord]) -> Option<String> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for slice in slices {
        let target = report.manifest.targets.iter().find(|target| target.id == slice.target);
        if let (Some(target), Outcome::Failed(reason)) = (target, &slice.outcome) {
            let place = format!("{} on {} in block {}", slice.microbenchmark, target.label, slice.block);
            by_reason.entry(reason.lines().next().unwrap_or_default()).or_default().push(place);
        }
    }
    let count: usize = by_reason.values().map(Vec::len).sum();
    let parts: Vec<String> = by_reason.iter().map(|(reason, places)| failed_places(places, reason)).collect();
    let noun = if count == 1 { "measurement" } else { "measurements" };
    (count > 0).then(|| format!("{count} {noun} failed: {}.", parts.join("; ")))
}

/// Where one reason struck, and what it was.
fn failed_places(places: &[String], reason: &str) -> String {
    let mut text = places[..places.len().min(LISTED)].join(", ");
    if places.len() > LISTED {
        let _ = write!(text, " and {} more", places.len() - LISTED);
    }
    format!("{text} ({reason})")
}

/// `a, b and c`
fn list(labels: &[&str]) -> String {
    match labels {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
