//! The whole pipeline on a simulated machine: everything between the command line and the report is
//! real, only builds and measurements are made up.

mod alarms;
mod bisect;
mod blind;
mod failures;
mod growth;
mod hunt;
mod interruption;
mod noise;
mod nulls;
mod order;
mod steps;
mod stopping;
mod turns;
mod verdicts;
mod weekly;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use tempfile::TempDir;

use regtrack::analysis;
use regtrack::build::{Builder as _, Request};
use regtrack::catalog::suite;
use regtrack::catalog::versions::Catalogue;
use regtrack::domain::{HostFingerprint, Outcome, Report, SliceRecord, SweepManifest};
use regtrack::store::Store;
use regtrack::sweep::{
    self, Crew, Event, Execution, Prepared, SliceKey, SweepError, SweepPlan, SweepRequest, Walked, WantedServer,
    profile,
};

use world::{Workbench, World};

/// Memory of the simulated machine.
const MEMORY_MIB: u64 = 8192;

/// Read once for all tests.
static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::builtin().unwrap());

/// A results directory and what `regtrack sweep` does with it.
struct Lab {
    _results: TempDir,
    store: Store,
    clusters: TempDir,
    catalogue: &'static Catalogue,
}

/// What a builder is asked for.
fn requests(prepared: &Prepared) -> Vec<Request> {
    let request = |server: &WantedServer| Request {
        release: server.release.clone(),
        floating: server.floating,
        prebuilt_fallback: None,
        fixups: Vec::new(),
        variant: server.variant.clone(),
    };
    prepared.wanted.iter().map(request).collect()
}

/// One call of `regtrack sweep`.
struct Call {
    prepared: Prepared,
    /// As stored at the end.
    manifest: SweepManifest,
    plan: SweepPlan,
    walked: Result<Walked, SweepError>,
    events: Vec<Event>,
}

impl Lab {
    fn new() -> Self {
        // Thousands of small files, each flushed to the disk: in memory, where there is room for them.
        let results = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let store = Store::create_or_open(results.path().join("results")).unwrap();
        Self { _results: results, store, clusters: tempfile::tempdir().unwrap(), catalogue: &CATALOGUE }
    }

    fn sweep(&self, world: &mut World, request: &SweepRequest) -> Call {
        self.call(world, request, false)
    }

    fn call(&self, world: &mut World, request: &SweepRequest, fresh: bool) -> Call {
        self.call_within(world, request, fresh, None)
    }

    fn call_within(&self, world: &mut World, request: &SweepRequest, fresh: bool, budget: Option<Duration>) -> Call {
        let prepared = sweep::prepare(request, self.catalogue, MEMORY_MIB).unwrap();
        self.call_prepared(world, prepared, fresh, budget)
    }

    fn call_prepared(&self, world: &mut World, prepared: Prepared, fresh: bool, budget: Option<Duration>) -> Call {
        let choices = world.plan(&requests(&prepared)).unwrap();
        let mut events = Vec::new();
        let targets = sweep::targets(&prepared, &choices, world, &mut |event| events.push(event)).unwrap();
        let arguments = ["sweep".to_owned(), "16".to_owned()];
        let host = HostFingerprint { memory_mib: MEMORY_MIB, ..HostFingerprint::default() };
        let manifest = sweep::open(&self.store, &prepared, targets, host, Vec::new(), &arguments, fresh).unwrap();
        let mut settings = BTreeMap::new();
        for target in manifest.launched() {
            let text = prepared.config.render(target.version.major, prepared.memory_mib).unwrap();
            settings.insert(target.id.clone(), text);
        }
        let id = manifest.id.clone();
        let mut execution = Execution {
            store: &self.store,
            manifest,
            suite: prepared.suite.clone(),
            settings,
            init: prepared.init_options(),
            clusters: self.clusters.path().to_owned(),
            crew: Crew::fitting(&prepared.protocol, prepared.launches, prepared.memory_mib),
            events: &mut |event| events.push(event),
        };
        let (plan, _) = sweep::next(&execution, &BTreeSet::new()).unwrap();
        let walked = sweep::run(&mut execution, &Workbench::new(world), budget);
        let manifest = self.store.manifest(&id).unwrap().unwrap();
        Call { prepared, manifest, plan, walked, events }
    }

    fn slices(&self, call: &Call) -> Vec<SliceRecord> {
        self.store.slices(&call.manifest.id).unwrap()
    }

    fn report(&self, call: &Call) -> Report {
        report(&call.manifest, &self.slices(call))
    }

    /// Every block, target and microbenchmark that the call asked for is measured, and exactly once:
    /// counted over the files, not over what the store makes of them.
    fn assert_complete(&self, call: &Call) {
        let mut written = BTreeMap::<SliceKey, usize>::new();
        for slice in self.records(call) {
            if matches!(slice.outcome, Outcome::Measured(_)) {
                *written.entry(key(&slice)).or_default() += 1;
            }
        }
        let mut expected = BTreeSet::new();
        for block in 1..=call.manifest.launches {
            for target in &call.manifest.targets {
                for microbenchmark in &call.prepared.protocol.microbenchmarks {
                    let (target, microbenchmark) = (target.id.clone(), microbenchmark.clone());
                    expected.insert(SliceKey { block, target, microbenchmark });
                }
            }
        }
        let wanted: BTreeMap<SliceKey, usize> = expected.into_iter().map(|key| (key, 1)).collect();
        let former = |key: &SliceKey| call.manifest.former_targets.iter().any(|target| target.id == key.target);
        written.retain(|key, _| !former(key) && key.block <= call.manifest.launches);
        assert_eq!(written, wanted);
    }

    /// Everything that was written for a sweep, also what a later record stands in for.
    fn records(&self, call: &Call) -> Vec<SliceRecord> {
        let slices = self.store.dir().join("sweeps").join(&call.manifest.id).join("slices");
        // An interruption before the first slice leaves no directory.
        let files = walkdir::WalkDir::new(slices).into_iter().filter_map(Result::ok);
        let files = files.filter(|entry| entry.file_type().is_file());
        let read =
            |path: &std::path::Path| regtrack::store::columns::from_parquet(&std::fs::read(path).unwrap()).unwrap();
        files.flat_map(|entry| read(entry.path())).collect()
    }
}

fn report(manifest: &SweepManifest, slices: &[SliceRecord]) -> Report {
    let suite = suite::builtin().unwrap();
    let catalogue = analysis::Catalogue { microbenchmarks: &suite.microbenchmarks, groups: &suite.groups, newest: &[] };
    analysis::report(manifest, slices, &catalogue, &manifest.base).unwrap()
}

fn key(slice: &SliceRecord) -> SliceKey {
    SliceKey { block: slice.block, target: slice.target.clone(), microbenchmark: slice.microbenchmark.clone() }
}

/// A request for `range` with the numbers of the quick profile, but one launch after the other.
fn request(range: &str, launches: u32, benches: &[&str]) -> SweepRequest {
    SweepRequest {
        variants: Vec::new(),
        range: range.parse().unwrap(),
        minors: false,
        profile: profile::find("quick").unwrap(),
        rows: None,
        seconds: None,
        write_seconds: None,
        warmup_seconds: None,
        launches: Some(launches),
        benches: benches.iter().map(|glob| (*glob).to_owned()).collect(),
        config: None,
        data_checksums: None,
        suite: None,
        base: None,
        unix_socket: false,
        stretch_seconds: Some(0.0),
        placement: None,
        precision: None,
        power: None,
        blind: Some(false),
        connections: Vec::new(),
    }
}

/// A few microbenchmarks with everything that matters for the order: reads before the writes, writes
/// on both sides of the postwrite, reads after it.
const FEW: [&str; 6] = ["point-query.pre", "update-one", "write-only", "point-query_range=100", "delete", "insert"];

fn measured(slices: &[SliceRecord]) -> usize {
    slices.iter().filter(|slice| matches!(slice.outcome, Outcome::Measured(_))).count()
}
