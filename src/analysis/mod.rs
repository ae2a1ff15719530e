//! From slices to answers: slices → cells → relative QPS → group summaries and verdicts.
//!
//! Pure functions. A ratio is taken inside a block only, where both releases ran under the same
//! conditions; the blocks' ratios are then combined. [`judge`] is the core: numbers in, answers out.

mod blind;
mod cells;
mod changes;
mod history;
mod instructions;
mod layout;
mod looks;
mod parity;
mod progress;
mod ratios;
mod selftest;
mod shifts;
mod slow_drift;
mod summary;
mod verdict;
mod warnings;

use serde::Serialize;

use crate::domain::{
    Cell, Certainty, Group, GroupSummary, LaunchesWanted, Major, Microbenchmark, Minor, Origin, Pairs, RateUnit,
    RelativeCost, RelativeInstructions, RelativeQps, Report, ReportRow, SliceRecord, Stopping, SweepManifest, Target,
    TargetId, TargetSummary, Verdict, Version, base_name,
};

pub use changes::{Change, changes};
pub use history::{corrected, history, series_key, week_summary};
pub use instructions::INSTRUCTIONS_THRESHOLD;
pub use layout::{Difference, ErrorOfDifference, Layout};
pub use parity::{BACKEND_BOUND, Parity, Rates, Ratio, parity};
pub use progress::{RowProgress, RowState, progress};
pub use selftest::{Cost, CostTest, POWER, SWEEP_COMPARISONS, SelfTest, Share, Trial, self_test, tried};
pub use shifts::{Drift, Shift, common_shift, drift};
pub use summary::two_decimals;
pub use verdict::{CONFIDENCE, CONFIRMATION, Design, FAMILY_ERROR, Judged, JudgedRow, THRESHOLD, judge};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// A name that is no target of the sweep.
    #[error("the sweep '{sweep}' has no release '{name}'; it has {valid}")]
    UnknownTarget {
        /// The sweep.
        sweep: String,
        /// The name given.
        name: String,
        /// Labels of its targets.
        valid: String,
    },
    /// A version that several targets share.
    #[error("'{name}' could be any of {candidates}: write which one")]
    AmbiguousTarget {
        /// The name given.
        name: String,
        /// Labels and ids of those that fit.
        candidates: String,
    },
    /// The query engine gave up, which is a bug.
    #[error("cannot combine the slices")]
    Query(#[from] polars::error::PolarsError),
}

/// What the catalogue knows about rows and releases.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue<'a> {
    /// Definitions of the suite's microbenchmarks.
    pub microbenchmarks: &'a [Microbenchmark],
    /// The groups, in the order of the tables.
    pub groups: &'a [Group],
    /// The newest release of each major; majors that are left out are not checked.
    pub newest: &'a [Version],
}

/// Two targets side by side.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Label of the target that is divided by.
    pub base: String,
    /// Label of the other.
    pub target: String,
    /// Summaries by group, in the order of the tables.
    pub groups: Vec<GroupSummary>,
    /// One entry per microbenchmark that either side has or should have.
    pub microbenchmarks: Vec<ComparedMicrobenchmark>,
    /// Things to know before believing a ratio of these two.
    pub warnings: Vec<String>,
}

/// One microbenchmark on two targets.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedMicrobenchmark {
    /// Row name.
    pub name: String,
    /// Group name.
    pub group: String,
    /// Mean rate of the base in `unit`.
    pub base_qps: Option<f64>,
    /// Mean rate of the target in `unit`.
    pub target_qps: Option<f64>,
    /// The target's rate relative to the base; above 1 is faster.
    pub relative_qps: Option<f64>,
    /// What the rates count.
    pub unit: RateUnit,
    /// The answer, where there is a ratio.
    pub verdict: Option<Verdict>,
    /// 95 % interval of the ratio, from two common blocks on.
    pub interval: Option<(f64, f64)>,
    /// How sure the answer is.
    pub certainty: Option<Certainty>,
    /// The answer in words: its size, its bound, or what would give one.
    pub words: Option<String>,
    /// CPU time of the backend per query, relative to the base; above 1 is dearer.
    pub cpu_cost: Option<RelativeCost>,
    /// Instructions of the backend per query, relative to the base; above 1 is dearer.
    pub instructions_cost: Option<RelativeCost>,
}

/// The report of a sweep relative to `base`, one of its targets.
pub fn report(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
    base: &TargetId,
) -> Result<Report, AnalysisError> {
    let base = position(manifest, base)?;
    let (mut rows, unplaced) = placed_rows(manifest, slices, catalogue);
    let layouts = cells::fill(&mut rows, manifest, slices, base)?;
    let targets: Vec<&TargetId> = manifest.targets.iter().map(|target| &target.id).collect();
    instructions::fill(&mut rows, &targets, slices, base);
    let mut report = of_rows(manifest, rows, base, catalogue);
    report.warnings = unplaced;
    report.warnings.extend(warnings::of(&report, slices, catalogue.newest));
    report.warnings.extend(warnings::shifts(&report, &layouts));
    report.blind = blind::against_itself(manifest, slices, catalogue)?;
    report.warnings.extend(report.blind.as_ref().and_then(warnings::blind));
    Ok(report)
}

/// What reports on every base say about rates, for the rows and targets of [`report`]: see [`Pairs`].
pub fn pairs(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
) -> Result<Pairs, AnalysisError> {
    let (mut rows, _) = placed_rows(manifest, slices, catalogue);
    cells::pairs(&mut rows, manifest, slices)
}

/// A report of filled rows, without warnings.
fn of_rows(manifest: &SweepManifest, rows: Vec<ReportRow>, base: usize, catalogue: &Catalogue<'_>) -> Report {
    let summaries = manifest.targets.iter().enumerate().map(|(index, target)| TargetSummary {
        target: target.id.clone(),
        groups: summary::groups(catalogue.groups, &rows, index),
    });
    let summaries = summaries.collect();
    let groups = catalogue.groups.to_vec();
    Report { manifest: manifest.clone(), base, groups, rows, summaries, blind: None, warnings: Vec::new() }
}

/// Two targets of a sweep, also such as an earlier call measured. The answers are those of a report on all targets;
/// warnings are about these two only.
pub fn compare(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
    base: &TargetId,
    target: &TargetId,
) -> Result<Comparison, AnalysisError> {
    let mut pair = manifest.clone();
    pair.targets = targets(manifest).filter(|one| one.id == *base || one.id == *target).cloned().collect();
    pair.former_targets = Vec::new();
    let index = pair.targets.iter().position(|one| one.id == *target);
    let index = index.ok_or_else(|| unknown(manifest, targets(manifest), &target.0))?;
    if !pair.targets.iter().any(|one| one.id == *base) {
        return Err(unknown(manifest, targets(manifest), &base.0));
    }
    let mut report = report(&pair, slices, catalogue, base)?;
    take_answers(&mut report, manifest, slices, catalogue, base)?;
    let microbenchmarks = report.rows.iter().map(|row| {
        let (base, cell) = (&row.cells[report.base], &row.cells[index]);
        ComparedMicrobenchmark {
            name: row.name.clone(),
            group: row.group.clone(),
            base_qps: base.rate,
            target_qps: cell.rate,
            relative_qps: cell.relative.map(|relative| relative.ratio),
            unit: row.unit,
            verdict: cell.relative.map(|relative| relative.verdict),
            interval: cell.relative.and_then(|relative| relative.interval),
            certainty: cell.relative.map(|relative| relative.certainty),
            words: cell.relative.map(|relative| relative.words()),
            cpu_cost: cell.cpu_cost,
            instructions_cost: cell.instructions_cost,
        }
    });
    Ok(Comparison {
        base: report.manifest.targets[report.base].label.clone(),
        target: report.manifest.targets[index].label.clone(),
        microbenchmarks: microbenchmarks.collect(),
        groups: report.summaries.swap_remove(index).groups,
        warnings: report.warnings,
    })
}

/// Replaces what `report` says about its pair of targets by what all targets together say.
fn take_answers(
    report: &mut Report,
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
    base: &TargetId,
) -> Result<(), AnalysisError> {
    let mut all = manifest.clone();
    let pair = &report.manifest.targets;
    all.targets.extend(pair.iter().filter(|one| manifest.targets.iter().all(|target| target.id != one.id)).cloned());
    let (mut rows, _) = placed_rows(&all, slices, catalogue);
    cells::fill(&mut rows, &all, slices, position(&all, base)?)?;
    for (index, target) in report.manifest.targets.iter().enumerate() {
        let from = position(&all, &target.id)?;
        for row in &mut report.rows {
            let answers = rows.iter().find(|answers| answers.name == row.name);
            row.cells[index] = answers.map(|answers| answers.cells[from].clone()).unwrap_or_default();
        }
    }
    Ok(())
}

/// Finds a target by id, by label, by version, or by major (its newest version in the sweep). Targets
/// of an earlier call are meant only when no target of the last call is.
pub fn find_target<'a>(manifest: &'a SweepManifest, name: &str) -> Result<&'a Target, AnalysisError> {
    let by_id = targets(manifest).find(|target| target.id.0 == name);
    if let Some(target) = by_id.or_else(|| targets(manifest).find(|target| target.label == name)) {
        return Ok(target);
    }
    let fitting = |targets: &'a [Target]| -> Vec<&'a Target> {
        let version = match name.parse::<Major>() {
            Ok(major) => targets.iter().map(|target| target.version).filter(|version| version.major == major).max(),
            Err(_) => name.parse::<Version>().ok(),
        };
        targets.iter().filter(|target| Some(target.version) == version).collect()
    };
    let mut found = fitting(&manifest.targets);
    if found.is_empty() {
        found = fitting(&manifest.former_targets);
    }
    match found.as_slice() {
        [target] => Ok(target),
        [] => Err(unknown(manifest, targets(manifest), name)),
        _ => {
            let both = |target: &&Target| format!("'{}' ({})", target.label, target.id);
            let candidates = found.iter().map(both).collect::<Vec<_>>().join(", ");
            Err(AnalysisError::AmbiguousTarget { name: name.to_owned(), candidates })
        }
    }
}

/// Where a target of the last call stands.
fn position(manifest: &SweepManifest, id: &TargetId) -> Result<usize, AnalysisError> {
    let position = manifest.targets.iter().position(|target| target.id == *id);
    position.ok_or_else(|| unknown(manifest, manifest.targets.iter(), &id.0))
}

fn targets(manifest: &SweepManifest) -> impl Iterator<Item = &Target> {
    manifest.targets.iter().chain(&manifest.former_targets)
}

fn unknown<'a>(manifest: &SweepManifest, targets: impl Iterator<Item = &'a Target>, name: &str) -> AnalysisError {
    let labels: Vec<&str> = targets.map(|target| target.label.as_str()).collect();
    AnalysisError::UnknownTarget { sweep: manifest.id.clone(), name: name.to_owned(), valid: labels.join(", ") }
}

/// The rows of a sweep without their numbers: as the protocol lists them, or as the imported tables
/// do, sorted by group. A row that belongs to no group has an empty one.
fn empty_rows(manifest: &SweepManifest, slices: &[SliceRecord], catalogue: &Catalogue<'_>) -> Vec<ReportRow> {
    let mut names: Vec<&str> = Vec::new();
    match &manifest.origin {
        Origin::Measured { protocol, .. } => names.extend(protocol.microbenchmarks.iter().map(String::as_str)),
        Origin::Imported { .. } => {
            let mut seen = std::collections::HashSet::new();
            names.extend(slices.iter().map(|slice| slice.microbenchmark.as_str()).filter(|name| seen.insert(*name)));
            names.sort_by_key(|name| {
                catalogue.groups.iter().position(|group| group.members.iter().any(|member| member == base_name(name)))
            });
        }
    }
    names.into_iter().map(|name| empty_row(name, manifest.targets.len(), catalogue)).collect()
}

fn empty_row(name: &str, targets: usize, catalogue: &Catalogue<'_>) -> ReportRow {
    let definition = catalogue.microbenchmarks.iter().find(|microbenchmark| microbenchmark.name == name);
    let member = || catalogue.groups.iter().find(|group| group.members.iter().any(|member| member == base_name(name)));
    let group = definition.map(|definition| definition.group.clone());
    ReportRow {
        name: name.to_owned(),
        group: group.or_else(|| member().map(|group| group.name.clone())).unwrap_or_default(),
        unit: definition.map_or(RateUnit::Qps, |definition| definition.unit),
        definition: definition.cloned(),
        cells: vec![Cell::default(); targets],
    }
}

/// The rows that belong to a group, and a word about those that do not.
fn placed_rows(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
) -> (Vec<ReportRow>, Vec<String>) {
    let mut rows = empty_rows(manifest, slices, catalogue);
    let unplaced = unplaced(&rows);
    rows.retain(|row| !row.group.is_empty());
    (rows, unplaced)
}

fn unplaced(rows: &[ReportRow]) -> Vec<String> {
    let names: Vec<&str> = rows.iter().filter(|row| row.group.is_empty()).map(|row| row.name.as_str()).collect();
    if names.is_empty() {
        return Vec::new();
    }
    vec![format!("Left out, because the suite puts them in no group: {}.", names.join(", "))]
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "ratios of one block are exact")]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::{Measurement, Outcome, PlanNode, Protocol, StatementPlan};

    const POINT: &str = "point-query_range=100";
    const SCAN: &str = "scan_range=100";

    fn groups() -> Vec<Group> {
        let group = |name: &str, members: &[&str]| Group {
            name: name.to_owned(),
            title: String::new(),
            members: members.iter().map(|member| (*member).to_owned()).collect(),
        };
        vec![group("point-1", &["point-query", "hot-points"]), group("range-2", &["scan"])]
    }

    fn scan() -> Microbenchmark {
        Microbenchmark {
            name: SCAN.to_owned(),
            group: "range-2".to_owned(),
            shape: "scan".to_owned(),
            step: 41,
            range: None,
            clock: crate::domain::Clock::Once,
            unit: RateUnit::MegarowsPerSecond,
            protocol: crate::domain::WireProtocol::Simple,
            transaction: false,
            connections: 1,
            statements: Vec::new(),
            why: String::new(),
        }
    }

    fn target(version: &str) -> Target {
        Target {
            id: TargetId(format!("{version}-0")),
            label: version.to_owned(),
            version: version.parse().unwrap(),
            build: None,
            brake: None,
            imported: None,
            settings: std::collections::BTreeMap::new(),
            data_digest: None,
        }
    }

    fn manifest(versions: &[&str]) -> SweepManifest {
        let protocol = Protocol {
            suite: "sysbench".to_owned(),
            suite_hash: String::new(),
            rows: 2_000_000,
            read_seconds: 1.0,
            write_seconds: 1.0,
            slice_warmup_seconds: 0.0,
            load_warmup_seconds: 0.0,
            scan_once: true,
            postwrite_rest_seconds: 0.0,
            stretch_seconds: 0.0,
            placement: None,
            config: "default".to_owned(),
            config_hash: String::new(),
            data_checksums: false,
            transport: "tcp".to_owned(),
            microbenchmarks: vec![SCAN.to_owned(), POINT.to_owned()],
        };
        SweepManifest {
            format: 1,
            id: "s".to_owned(),
            regtrack: String::new(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            command: String::new(),
            arguments: Vec::new(),
            origin: Origin::Measured { profile: "quick".to_owned(), protocol: Box::new(protocol) },
            launches: 1,
            stopping: None,
            targets: versions.iter().map(|version| target(version)).collect(),
            former_targets: Vec::new(),
            base: target(versions[0]).id,
            host: None,
            placement: None,
            blind: None,
            doctor: Vec::new(),
        }
    }

    fn slice(block: u32, version: &str, name: &str, measurement: Measurement) -> SliceRecord {
        SliceRecord {
            block,
            target: target(version).id,
            launch: format!("b{block}-{version}-1"),
            server_start: 1,
            microbenchmark: name.to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            outcome: Outcome::Measured(Box::new(measurement)),
        }
    }

    fn qps(block: u32, version: &str, queries: u64) -> SliceRecord {
        slice(block, version, POINT, Measurement { seconds: 2.0, queries, ..Measurement::default() })
    }

    fn failed(block: u32, version: &str, name: &str) -> SliceRecord {
        let outcome = Outcome::Failed("the server died\nlog follows".to_owned());
        SliceRecord { outcome, ..slice(block, version, name, Measurement::default()) }
    }

    fn report_of(manifest: &SweepManifest, slices: &[SliceRecord], base: &str) -> Report {
        let (groups, microbenchmarks) = (groups(), [scan()]);
        let newest = ["16.4".parse().unwrap(), "17.2".parse().unwrap()];
        let catalogue = Catalogue { microbenchmarks: &microbenchmarks, groups: &groups, newest: &newest };
        report(manifest, slices, &catalogue, &target(base).id).unwrap()
    }

    #[test]
    fn ratios_are_taken_inside_a_block() {
        // The machine is twice as fast in block 2; the release is 10 % slower in both.
        let slices = [qps(1, "16.4", 1000), qps(1, "17.2", 900), qps(2, "17.2", 1800), qps(2, "16.4", 2000)];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        let cell = &report.rows[1].cells[1];
        assert_eq!((cell.rate, cell.launch_rates.as_slice()), (Some(675.0), [450.0, 900.0].as_slice()));
        let relative = cell.relative.unwrap();
        assert!((relative.ratio - 0.9).abs() < 1e-12, "{relative:?}");
        assert_eq!(relative.verdict, Verdict::Regressed);
        let base = report.rows[1].cells[0].relative.unwrap();
        assert_eq!((base.ratio, base.interval, base.verdict), (1.0, None, Verdict::Same));
        assert_eq!(report.summaries[1].groups[0].avg, 0.9);
    }

    #[test]
    fn pairs_are_the_answers_of_the_reports_on_every_base() {
        let versions = ["14.9", "15.4", "16.4", "17.2"];
        let noise =
            Measurement { seconds: 2.0, queries: 880, noise: vec!["steal".to_owned()], ..Measurement::default() };
        let mut slices = vec![slice(1, "15.4", POINT, noise.clone()), slice(2, "15.4", POINT, noise)];
        for block in 1..=6 {
            slices.push(qps(block, "14.9", 1000 + u64::from(block * block % 7)));
            slices.push(qps(block, "17.2", 850 + u64::from(block % 3)));
            slices.extend((block != 4).then(|| qps(block, "16.4", 1000 + 40 * u64::from(block % 2))));
        }
        let stopping = Some(Stopping { precision: 0.01, power: 0.9, max_launches: 8 });
        for stopping in [None, stopping] {
            let manifest = SweepManifest { stopping, ..manifest(&versions) };
            let (groups, microbenchmarks) = (groups(), [scan()]);
            let catalogue = Catalogue { microbenchmarks: &microbenchmarks, groups: &groups, newest: &[] };
            let pairs = pairs(&manifest, &slices, &catalogue).unwrap();
            for (base, version) in versions.iter().enumerate() {
                let report = report_of(&manifest, &slices, version);
                for (row, cells) in report.rows.iter().map(|row| &row.cells).enumerate() {
                    let answers: Vec<Option<RelativeQps>> =
                        (0..versions.len()).map(|target| pairs.relative(base, row, target)).collect();
                    assert_eq!(answers, cells.iter().map(|cell| cell.relative).collect::<Vec<_>>());
                }
            }
            assert!(pairs.relative(0, 1, 3).is_some_and(|relative| relative.interval.is_some()));
            assert_eq!(pairs.relative(4, 0, 0), None);
        }
    }

    #[test]
    fn a_block_without_the_base_gives_no_ratio() {
        let slices = [qps(1, "16.4", 1000), qps(1, "17.2", 700), qps(2, "17.2", 9000)];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        let relative = report.rows[1].cells[1].relative.unwrap();
        assert_eq!((relative.ratio, relative.interval), (0.7, None));
        assert_eq!(relative.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn rows_follow_the_protocol_and_scans_count_rows() {
        let measurement = Measurement { seconds: 4.0, events: 3, queries: 3, ..Measurement::default() };
        let slices = [qps(1, "16.4", 10), slice(1, "16.4", SCAN, measurement)];
        let report = report_of(&manifest(&["16.4"]), &slices, "16.4");
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, [SCAN, POINT]);
        assert_eq!(report.rows[0].cells[0].rate, Some(1.5), "3 scans of 2 million rows in 4 s");
        assert_eq!((report.rows[1].group.as_str(), report.rows[1].unit), ("point-1", RateUnit::Qps));
    }

    #[test]
    fn counters_become_numbers_per_query() {
        let measurement = Measurement {
            seconds: 1.0,
            queries: 100,
            backend_cpu_ns: Some(500_000),
            buffers_queries: 100,
            buffers_hit: Some(250),
            buffers_read: Some(50),
            latency_us_p95: 7.0,
            latency_us_p99: 10.0,
            latency_us_max: 20.0,
            ..Measurement::default()
        };
        let slices = [
            slice(1, "16.4", POINT, measurement.clone()),
            slice(
                2,
                "16.4",
                POINT,
                Measurement { latency_us_p95: 9.0, latency_us_p99: 30.0, latency_us_max: 50.0, ..measurement },
            ),
        ];
        let cell = &report_of(&manifest(&["16.4"]), &slices, "16.4").rows[1].cells[0];
        assert_eq!((cell.backend_cpu_us_per_query, cell.buffers_per_query), (Some(5.0), Some(3.0)));
        assert_eq!((cell.latency_us_p95, cell.wal_bytes_per_query), (Some(8.0), None));
        assert_eq!((cell.latency_us_p99, cell.latency_us_max), (Some(20.0), Some(50.0)), "a mean, and the largest");
    }

    #[test]
    fn a_cell_has_the_course_of_each_launch_and_the_first_plan() {
        let plans = |index: &str| {
            let index = Some(index.to_owned());
            vec![StatementPlan { statement: 0, plan: PlanNode { index, ..PlanNode::default() } }]
        };
        let launch = |block, second, plans| {
            let (queries_by_second, checkpoints) = (vec![second], Some(1));
            let m = Measurement {
                seconds: 1.0,
                queries: 9,
                queries_by_second,
                checkpoints,
                plans,
                ..Measurement::default()
            };
            slice(block, "16.4", POINT, m)
        };
        let slices =
            [launch(3, 30, plans("b")), launch(2, 20, plans("a")), launch(1, 10, Vec::new()), launch(4, 9, plans("a"))];
        let cell = &report_of(&manifest(&["16.4"]), &slices, "16.4").rows[1].cells[0];
        assert_eq!((&cell.plans, &cell.replanned), (&plans("a"), &vec![3]));
        let seconds: Vec<u32> = cell.courses.iter().map(|course| course.queries_by_second[0]).collect();
        assert_eq!((seconds, cell.courses[0].checkpoints), (vec![10, 20, 30, 9], Some(1)));
    }

    #[test]
    fn costs_are_the_other_way_round() {
        let costs = |block, version: &str, cpu, instructions| {
            let (backend_cpu_ns, instructions) = (Some(cpu), Some(instructions));
            // Counted, not timed: there is no rate.
            let seconds = 0.0;
            let measurement =
                Measurement { seconds, queries: 100, backend_cpu_ns, instructions, ..Measurement::default() };
            slice(block, version, POINT, measurement)
        };
        let slices = [
            costs(1, "16.4", 1000, 50_000),
            costs(1, "17.2", 1100, 50_000),
            costs(2, "16.4", 2000, 50_000),
            costs(2, "17.2", 2200, 50_001),
        ];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        let cell = &report.rows[1].cells[1];
        assert_eq!((cell.rate, cell.relative, cell.instructions_per_query), (None, None, Some(500.005)));
        let cpu = cell.cpu_cost.unwrap();
        assert!((cpu.cost_ratio - 1.1).abs() < 1e-12 && cpu.verdict == Verdict::Regressed, "{cpu:?}");
        assert_eq!(cpu.words(), "dearer by 10.0 %, not confirmed");
        let instructions = cell.instructions_cost.unwrap();
        let (low, high) = instructions.interval.unwrap();
        assert!(low < instructions.cost_ratio && instructions.cost_ratio < high, "{instructions:?}");
        assert_eq!(
            (instructions.verdict, instructions.words().as_str()),
            (Verdict::Same, "no change larger than 0.1 %")
        );
        assert!(report.warnings.iter().any(|warning| warning.contains("2 of 4 cells are not measured yet")));
    }

    #[test]
    fn noisy_slices_count_for_nothing_and_are_counted() {
        let noisy = |block, version, reasons: &[&str]| {
            let noise = reasons.iter().map(|reason| (*reason).to_owned()).collect();
            slice(block, version, POINT, Measurement { seconds: 1.0, queries: 1, noise, ..Measurement::default() })
        };
        let slices = [
            qps(1, "16.4", 1000),
            noisy(1, "17.2", &["the backend waited for a CPU"]),
            noisy(2, "16.4", &["the clock changed", "the backend waited for a CPU"]),
            noisy(2, "17.2", &["the backend waited for a CPU"]),
        ];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        let [base, cell] = &report.rows[1].cells[..] else { panic!("two targets") };
        assert_eq!((base.rate, base.noisy.as_deref(), base.launch_rates.len()), (Some(500.0), None, 1));
        assert_eq!((cell.rate, cell.failure.as_deref()), (Some(1.0), None), "there is nothing else to show");
        let relative = cell.relative.unwrap();
        assert_eq!((relative.verdict, relative.certainty), (Verdict::Inconclusive, Certainty::default()));
        assert_eq!(cell.noisy.as_deref(), Some("all of its slices are noisy: the backend waited for a CPU"));
        let expected = "3 of 4 slices are noisy: the backend waited for a CPU. They are left out where a cell has \
            others; 1 cells have none, and decide nothing.";
        assert!(report.warnings.iter().any(|warning| warning == expected), "{:?}", report.warnings);
        assert!(report.warnings.iter().any(|warning| warning.contains("2 of 4 cells are not measured yet")));
    }

    #[test]
    fn a_comparison_answers_as_the_report_on_all_targets_does() {
        let (manifest, mut slices) = (manifest(&["15.1", "16.4", "17.2"]), Vec::new());
        for (block, [a, b, c]) in (1..).zip([[1000, 1100, 1203], [1010, 1101, 1199], [990, 1105, 1210]]) {
            slices.extend([qps(block, "15.1", a), qps(block, "16.4", b), qps(block, "17.2", c)]);
        }
        let report = report_of(&manifest, &slices, "16.4");
        let groups = groups();
        let catalogue = Catalogue { microbenchmarks: &[], groups: &groups, newest: &[] };
        let compared = compare(&manifest, &slices, &catalogue, &target("16.4").id, &target("17.2").id).unwrap();
        let row = compared.microbenchmarks.iter().find(|row| row.name == POINT).unwrap();
        let relative = report.rows[1].cells[2].relative.unwrap();
        assert_eq!((row.interval, row.certainty), (relative.interval, Some(relative.certainty)));
        assert_eq!(row.words, Some(relative.words()));
    }

    #[test]
    fn a_failure_is_a_gap_with_a_reason() {
        let slices = [qps(1, "16.4", 1000), failed(1, "17.2", POINT), failed(1, "16.4", SCAN)];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        let cell = &report.rows[1].cells[1];
        assert_eq!((cell.rate, cell.relative), (None, None));
        assert!(cell.failure.as_ref().unwrap().starts_with("the server died"));
        let failures = "2 measurements failed: point-query_range=100 on 17.2 in block 1, \
                        scan_range=100 on 16.4 in block 1 (the server died).";
        assert!(report.warnings.iter().any(|warning| warning == failures), "{:?}", report.warnings);
        assert!(report.warnings.iter().any(|warning| warning.contains("1 of 4 cells are not measured yet")));

        let slices = [failed(1, "17.2", POINT), qps(2, "17.2", 10), qps(2, "16.4", 10)];
        let report = report_of(&manifest(&["16.4", "17.2"]), &slices, "16.4");
        assert_eq!(report.rows[1].cells[1].failure, None, "another block has an answer");
    }

    #[test]
    fn a_zero_rate_has_no_ratio() {
        let report = report_of(&manifest(&["16.4", "17.2"]), &[qps(1, "16.4", 0), qps(1, "17.2", 5)], "16.4");
        assert_eq!((report.rows[1].cells[0].rate, report.rows[1].cells[1].relative), (Some(0.0), None));
        assert!(report.summaries.iter().all(|summary| summary.groups.is_empty()));
    }

    #[test]
    fn confounders_are_named() {
        let mut manifest = manifest(&["9.2.24", "16.2", "17.2"]);
        if let Origin::Measured { protocol, .. } = &mut manifest.origin {
            protocol.data_checksums = true;
        }
        manifest.targets[0].data_digest = Some("a".to_owned());
        manifest.targets[1].data_digest = Some("b".to_owned());
        manifest.targets[2].data_digest = Some("b".to_owned());
        let warnings = report_of(&manifest, &[qps(1, "16.2", 1)], "16.2").warnings.join("\n");
        for expected in [
            "Only one launch per release: differences below a few percent are noise.",
            "different settings of data checksums, which changes speed by itself: 9.2.24 (off); 16.2 and 17.2 (on).",
            "did not hold the same rows, so their ratios mean nothing: 9.2.24 and 16.2 and 17.2 differ.",
            "Not the newest minor release of its major: 16.2 (newest 16.4).",
            "The sweep is not complete: 5 of 6 cells are not measured yet.",
        ] {
            assert!(warnings.contains(expected), "{expected}\n{warnings}");
        }
    }

    #[test]
    fn a_comparison_is_about_two_targets_only() {
        let mut manifest = manifest(&["16.4", "17.2"]);
        manifest.former_targets.push(target("15.1"));
        let slices = [qps(1, "15.1", 100), qps(1, "16.4", 110), failed(1, "17.2", POINT)];
        let groups = groups();
        let catalogue = Catalogue { microbenchmarks: &[], groups: &groups, newest: &[] };
        let compared = compare(&manifest, &slices, &catalogue, &target("15.1").id, &target("16.4").id).unwrap();
        assert_eq!((compared.base.as_str(), compared.target.as_str()), ("15.1", "16.4"));
        let row = compared.microbenchmarks.iter().find(|row| row.name == POINT).unwrap();
        assert_eq!((row.base_qps, row.target_qps, row.relative_qps), (Some(50.0), Some(55.0), Some(1.1)));
        assert!(!compared.warnings.iter().any(|warning| warning.contains("17.2")), "{:?}", compared.warnings);
        let itself = compare(&manifest, &slices, &catalogue, &target("16.4").id, &target("16.4").id).unwrap();
        assert_eq!(itself.groups[0].avg, 1.0);
        let error = compare(&manifest, &slices, &catalogue, &target("9.6.1").id, &target("16.4").id).unwrap_err();
        assert_eq!(error.to_string(), "the sweep 's' has no release '9.6.1-0'; it has 16.4, 17.2, 15.1");
    }

    #[test]
    fn targets_are_found_by_what_people_write() {
        let mut manifest = manifest(&["16.2", "16.4", "18.0"]);
        manifest.targets.push(Target {
            id: TargetId("18.0-1".to_owned()),
            label: "18.0 x10c".to_owned(),
            ..target("18.0")
        });
        manifest.targets[2].label = "18.0 x10b".to_owned();
        let id = |name: &str| find_target(&manifest, name).map(|target| target.id.0.clone());
        assert_eq!(id("16.2").unwrap(), "16.2-0");
        assert_eq!(id("16").unwrap(), "16.4-0", "a major stands for its newest version");
        assert_eq!(id("18.0 x10c").unwrap(), "18.0-1");
        assert_eq!(id("18.0-0").unwrap(), "18.0-0");
        let message = id("18").unwrap_err().to_string();
        assert_eq!(message, "'18' could be any of '18.0 x10b' (18.0-0), '18.0 x10c' (18.0-1): write which one");
        let message = id("17").unwrap_err().to_string();
        assert_eq!(message, "the sweep 's' has no release '17'; it has 16.2, 16.4, 18.0 x10b, 18.0 x10c");
    }

    #[test]
    fn a_launch_printed_in_two_tables_counts_once() {
        let mut manifest = manifest(&["10.23", "16.2"]);
        manifest.origin = Origin::Imported { files: Vec::new() };
        let printed = |block, launch: &str, version: &str, name: &str, rate| SliceRecord {
            launch: launch.to_owned(),
            ..slice(block, version, name, Measurement { published_rate: Some(rate), ..Measurement::default() })
        };
        let slices = [
            printed(1, "a", "10.23", SCAN, 1.466),
            printed(1, "b", "16.2", SCAN, 1.593),
            printed(1, "b", "16.2", "no-such-row_range=1", 1.0),
            printed(1, "b", "16.2", "hot-points_range=100", 7.0),
            printed(2, "a", "10.23", SCAN, 1.466),
            printed(2, "b", "16.2", SCAN, 1.593),
        ];
        let report = report_of(&manifest, &slices, "10.23");
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["hot-points_range=100", SCAN], "in the order of the groups");
        let cell = &report.rows[1].cells[1];
        assert_eq!((cell.rate, cell.launch_rates.as_slice()), (Some(1.593), [1.593].as_slice()));
        let relative = cell.relative.unwrap();
        assert_eq!((relative.ratio, relative.interval), (1.593 / 1.466, None), "no certainty out of a reprint");
        assert!(report.warnings[0].contains("no-such-row_range=1"), "{:?}", report.warnings);
    }
}
