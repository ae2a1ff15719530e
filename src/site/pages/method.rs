//! How it was measured, on what, and what the numbers cannot tell.

use serde::Serialize;

use super::Job;
use crate::domain::{Blind, Finding, FindingStatus, Origin, Protocol, Target};
use crate::site::SiteError;
use crate::site::format::{plain, whole};
use crate::site::view::{Fact, Link, Page, Site};

#[derive(Serialize)]
struct View {
    measured: bool,
    base: String,
    launches: u32,
    protocol: Vec<Fact>,
    files: Vec<String>,
    environment: Vec<Fact>,
    /// Checks of the machine that did not end well, and how many were made.
    findings: Vec<FindingRow>,
    examined: usize,
    builds: Vec<BuildRow>,
    same_toolchain: bool,
    command: String,
    /// What the base came to against itself.
    blind: Option<BlindView>,
    placement: String,
    /// Ratios with an interval, and how many of those miss the true value by chance.
    intervals: String,
    expected_misses: String,
    microbenchmarks: usize,
}

#[derive(Serialize)]
struct BlindView {
    compared: usize,
    false_verdicts: Vec<String>,
    missed: usize,
    intervals: usize,
    /// In percent.
    median_distance: String,
    largest: String,
    largest_name: String,
}

#[derive(Serialize)]
struct BuildRow {
    link: Link,
    provenance: String,
    compiler: String,
    flags: String,
    /// Start of the hash of the executable.
    sha256: String,
    settings: usize,
    digest: String,
}

#[derive(Serialize)]
struct FindingRow {
    check: String,
    status: &'static str,
    found: String,
    why: String,
}

/// `method.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    vec![Box::new(move || page(site))]
}

fn page(site: &Site) -> Result<Page, SiteError> {
    let manifest = &site.report.manifest;
    let ratios = site.report.rows.iter().flat_map(|row| row.cells.iter().enumerate());
    let intervals = ratios
        .filter(|(target, cell)| *target != site.report.base && cell.relative.is_some_and(|r| r.interval.is_some()))
        .count();
    let mut toolchains =
        site.targets().iter().filter_map(|target| target.build.as_ref()).map(|b| b.fingerprint.toolchain());
    let first = toolchains.next();
    let view = View {
        measured: site.protocol().is_some(),
        base: site.base_label().to_owned(),
        launches: manifest.launches,
        protocol: site.protocol().map(protocol_facts).unwrap_or_default(),
        files: match &manifest.origin {
            Origin::Imported { files } => files.clone(),
            Origin::Measured { .. } => Vec::new(),
        },
        environment: environment(site),
        findings: manifest
            .doctor
            .iter()
            .filter(|finding| finding.status != FindingStatus::Ok)
            .map(finding_row)
            .collect(),
        examined: manifest.doctor.len(),
        builds: site.targets().iter().enumerate().map(|(index, target)| build_row(site, index, target)).collect(),
        same_toolchain: toolchains.all(|toolchain| Some(toolchain) == first),
        command: manifest.command.clone(),
        blind: site.report.blind.as_ref().map(blind),
        placement: manifest.placement.map_or_else(String::new, |placement| placement.to_string()),
        intervals: whole(intervals as u64),
        expected_misses: whole((intervals as u64).div_ceil(20)),
        microbenchmarks: site.report.rows.len(),
    };
    let title = "Method".to_owned();
    let description =
        "How these numbers were measured, on which machine and builds, and what they cannot tell.".to_owned();
    Page::new("method.html", "method.html", title, description, &view)
}

fn protocol_facts(protocol: &Protocol) -> Vec<Fact> {
    let seconds = |value: f64| format!("{} s", plain(value));
    vec![
        Fact::new("Suite", format!("{}, {} microbenchmarks", protocol.suite, protocol.microbenchmarks.len())),
        Fact::code("Hash of the suite", protocol.suite_hash.clone()),
        Fact::new("Rows loaded", whole(protocol.rows)),
        Fact::new("Read slice", seconds(protocol.read_seconds)),
        Fact::new("Write slice", seconds(protocol.write_seconds)),
        Fact::new("Warm-up before each slice", seconds(protocol.slice_warmup_seconds)),
        Fact::new("Warm-up after the load", seconds(protocol.load_warmup_seconds)),
        Fact::new(
            "Full scan",
            if protocol.scan_once { "executed exactly once" } else { "repeated for the read slice" },
        ),
        Fact::new("Rest after writes, at least", seconds(protocol.postwrite_rest_seconds)),
        Fact::new("Connection", format!("one, over {}", protocol.transport)),
        Fact::new("Configuration set", protocol.config.clone()),
        Fact::code("Hash of the configuration", protocol.config_hash.clone()),
        Fact::new("Data checksums", if protocol.data_checksums { "on, where the release has them" } else { "off" }),
    ]
}

fn environment(site: &Site) -> Vec<Fact> {
    let Some(host) = &site.report.manifest.host else {
        return Vec::new();
    };
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "not known".to_owned());
    vec![
        Fact::new("Host", host.hostname.clone()),
        Fact::new("CPU", host.cpu.clone()),
        Fact::new("Logical CPUs", host.cpus.to_string()),
        Fact::new("Memory", format!("{} MiB", whole(host.memory_mib))),
        Fact::new("Kernel", host.kernel.clone()),
        Fact::new("Distribution", host.os.clone()),
        Fact::new("CPU frequency governor", known(&host.governor)),
        Fact::new("Transparent huge pages", known(&host.transparent_huge_pages)),
        Fact::new("File system of the data", known(&host.filesystem)),
        Fact::new("C compiler on the machine", known(&host.c_compiler)),
    ]
}

fn blind(blind: &Blind) -> BlindView {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let (name, distance) = &blind.largest;
    BlindView {
        compared: blind.compared,
        false_verdicts: blind.false_verdicts.clone(),
        missed: blind.missed,
        intervals: blind.intervals,
        median_distance: percent(blind.median_distance),
        largest: percent(*distance),
        largest_name: name.clone(),
    }
}

fn finding_row(finding: &Finding) -> FindingRow {
    FindingRow {
        check: finding.check.clone(),
        status: finding.status.word(),
        found: finding.found.clone(),
        why: finding.why.clone(),
    }
}

fn build_row(site: &Site, index: usize, target: &Target) -> BuildRow {
    let none = || "–".to_owned();
    let fingerprint = target.build.as_ref().map(|build| &build.fingerprint);
    let imported = target.imported.as_ref();
    let known = |value: Option<&String>| value.cloned().unwrap_or_else(none);
    BuildRow {
        link: site.release_link("", index),
        provenance: target.build.as_ref().map_or_else(
            || imported.map_or_else(none, |imported| format!("published: {}, {}", imported.build, imported.config)),
            |build| build.provenance.to_string(),
        ),
        compiler: known(fingerprint.and_then(|fingerprint| fingerprint.compiler.as_ref())),
        flags: known(fingerprint.and_then(|fingerprint| fingerprint.cflags.as_ref())),
        sha256: fingerprint.map_or_else(none, |fingerprint| start(&fingerprint.postgres_sha256)),
        settings: target.settings.len(),
        digest: target.data_digest.as_deref().map_or_else(none, start),
    }
}

/// Enough of a hash to tell two apart.
fn start(hash: &str) -> String {
    hash.chars().take(12).collect()
}
