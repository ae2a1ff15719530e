//! A sweep that is made up: seventeen releases, all microbenchmarks of the suite, launches with noise, and everything
//! that can be missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use regtrack::analysis::{self, Catalogue};
use regtrack::catalog::suite;
use regtrack::domain::{
    Measurement, Origin, Pairs, Protocol, RateUnit, Report, SliceRecord, Stopping, Suite, SweepManifest, Target,
    TargetId,
};
use regtrack::domain::{Microbenchmark, Outcome};
use regtrack::load::Random;
use regtrack::site::{self, Content};

const VERSIONS: [&str; 17] = [
    "9.0.23", "9.1.24", "9.2.24", "9.3.25", "9.4.26", "9.5.25", "9.6.24", "10.23", "11.22", "12.22", "13.23", "14.19",
    "14.20", "15.15", "16.11", "17.7", "18.1",
];

const LAUNCHES: u32 = 10;

/// One sweep with its site.
pub(super) struct Made {
    pub(super) manifest: SweepManifest,
    slices: Vec<SliceRecord>,
    suite: Suite,
    /// Its site, which stays for a look.
    directory: PathBuf,
    /// By base, as far as they were asked for.
    reports: [OnceLock<Report>; VERSIONS.len()],
}

/// As many launches for every row, and with looks while it ran.
pub(super) static FIXED: LazyLock<Made> = LazyLock::new(|| Made::new("fixed", None));
pub(super) static SEQUENTIAL: LazyLock<Made> =
    LazyLock::new(|| Made::new("sequential", Some(Stopping { precision: 0.01, power: 0.9, max_launches: LAUNCHES })));

impl Made {
    fn new(name: &str, stopping: Option<Stopping>) -> Self {
        let suite = suite::builtin().unwrap();
        let rows: Vec<&Microbenchmark> = suite.microbenchmarks.iter().filter(|row| !row.group.is_empty()).collect();
        let manifest = manifest(&rows, stopping);
        let slices = slices(&rows);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sites").join(name);
        let made = Self { manifest, slices, suite, directory, reports: Default::default() };
        let (report, pairs) = (made.on(0), made.pairs());
        site::render(&Content::of(&report, &pairs), made.site()).unwrap();
        made
    }

    pub(super) fn site(&self) -> &Path {
        &self.directory
    }

    /// The report on a base, as `regtrack report --base` makes it.
    pub(super) fn report(&self, base: usize) -> &Report {
        self.reports[base].get_or_init(|| self.on(base))
    }

    fn on(&self, base: usize) -> Report {
        let base = &self.manifest.targets[base].id;
        analysis::report(&self.manifest, &self.slices, &self.catalogue(), base).unwrap()
    }

    fn pairs(&self) -> Pairs {
        analysis::pairs(&self.manifest, &self.slices, &self.catalogue()).unwrap()
    }

    fn catalogue(&self) -> Catalogue<'_> {
        Catalogue { microbenchmarks: &self.suite.microbenchmarks, groups: &self.suite.groups, newest: &[] }
    }
}

fn id(version: &str) -> TargetId {
    TargetId(format!("{version}-0a"))
}

fn target(version: &str) -> Target {
    Target {
        id: id(version),
        label: version.to_owned(),
        version: version.parse().unwrap(),
        build: None,
        brake: None,
        imported: None,
        settings: BTreeMap::new(),
        data_digest: None,
    }
}

fn manifest(rows: &[&Microbenchmark], stopping: Option<Stopping>) -> SweepManifest {
    let time = "2026-03-04T05:06:07Z".parse().unwrap();
    let protocol = Protocol {
        suite: "sysbench".to_owned(),
        suite_hash: String::new(),
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
        config_hash: String::new(),
        data_checksums: false,
        transport: "unix".to_owned(),
        microbenchmarks: rows.iter().map(|row| row.name.clone()).collect(),
    };
    SweepManifest {
        format: 1,
        id: "2026-03-04-sysbench".to_owned(),
        regtrack: "0.1.0".to_owned(),
        created_at: time,
        updated_at: time,
        command: "regtrack sweep 9.0..18".to_owned(),
        arguments: Vec::new(),
        origin: Origin::Measured { profile: "standard".to_owned(), protocol: Box::new(protocol) },
        launches: LAUNCHES,
        stopping,
        targets: VERSIONS.map(target).into(),
        former_targets: Vec::new(),
        base: id(VERSIONS[0]),
        host: None,
        placement: None,
        blind: None,
        doctor: Vec::new(),
    }
}

/// A number between −1 and 1, wide in the middle.
fn noise(random: &mut Random) -> f64 {
    let one = |random: &mut Random| random.uniform(2_000_001) as f64 / 1_000_000.0 - 1.0;
    (one(random) + one(random) + one(random)) / 3.0
}

fn slices(rows: &[&Microbenchmark]) -> Vec<SliceRecord> {
    let mut random = Random::new(17);
    let mut slices = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let mut speeds = vec![1.0f64];
        for version in 1..VERSIONS.len() {
            // One release in five changes a row, by up to a quarter.
            let change = if random.uniform(5) == 1 { 1.0 + 0.25 * noise(&mut random) } else { 1.0 };
            speeds.push(speeds[version - 1] * change);
        }
        for block in 1..=LAUNCHES {
            for (version, speed) in speeds.iter().enumerate() {
                // One row scatters, and one release does on some.
                let size = if at == 7 || (version == 9 && at % 6 == 0) { 0.15 } else { 0.015 };
                let rate = 4000.0 * speed * (1.0 + size * noise(&mut random));
                slices.extend(slice(row, at, block, version, rate));
            }
        }
    }
    slices
}

/// What was measured, or why not: a release that fails on a row, another that lacks some launches, a third that was
/// never run.
fn slice(row: &Microbenchmark, at: usize, block: u32, version: usize, rate: f64) -> Option<SliceRecord> {
    let outcome = match (at, version, block) {
        (3, 5, _) => Outcome::Failed("the server ended with signal 11".to_owned()),
        (5, 12, _) | (11, 4, 3..) | (20, 8, 4) => return None,
        (14, 6, _) => measured(row, rate, vec!["another process had the CPU".to_owned()]),
        _ => measured(row, rate, Vec::new()),
    };
    let version = VERSIONS[version];
    Some(SliceRecord {
        block,
        target: id(version),
        launch: format!("b{block}-{version}"),
        server_start: 1,
        microbenchmark: row.name.clone(),
        started_at: "2026-03-04T05:06:07Z".parse().unwrap(),
        outcome,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of queries")]
fn measured(row: &Microbenchmark, rate: f64, noise: Vec<String>) -> Outcome {
    let queries = (rate * 10.0) as u64;
    let (seconds, events) = match row.unit {
        RateUnit::Qps => (10.0, queries),
        RateUnit::MegarowsPerSecond => (10.0 * 1e4 / rate, 10),
    };
    Outcome::Measured(Box::new(Measurement { seconds, events, queries, noise, ..Measurement::default() }))
}
