//! `regtrack selftest [RELEASE]`: what this machine can tell, tried on differences that are known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::printer::Printer;
use super::progress::Progress;
use super::servers::{self, ServerArgs, watch_signals};
use super::sweep::{SMOKE, parse_seconds};
use super::{Failure, Global, placement, tables};
use crate::analysis::{self, Cost, CostTest, SelfTest};
use crate::build::Builder as _;
use crate::catalog::versions::Catalogue;
use crate::domain::{
    Bound, Brake, Placement, ReleaseRange, SliceRecord, SweepManifest, Target, TargetId, Term, Verdict,
};
use crate::load::Control;
use crate::measure::{self, LiveBench, MachineLock};
use crate::process;
use crate::server::{Account, StartOptions};
use crate::store::Store;
use crate::sweep::{self, Crew, Execution, Prepared, SweepRequest, Walked, WantedPlacement, profile};

/// Short events of one statement, reads and writes.
const BENCHES: [&str; 4] = [
    "point-query.pre_range=100",
    "range-covered-pk.pre_range=100",
    "points-covered-si.pre_range=100",
    "update-index_range=100",
];

/// Planted where none is asked for: from below a percent of a point query to several.
const NANOSECONDS: [u64; 4] = [250, 500, 1000, 2000];
/// Planted under valgrind.
const LOOPS: [u64; 4] = [25, 50, 100, 200];

/// Slices shorter than this prove that everything works; others need the machine to themselves.
const SHORTEST_MEASURING: f64 = 0.5;

/// Seconds of a turn, as in a sweep of conclusions; a slice has at least four.
const STRETCH_SECONDS: f64 = 0.25;

/// For how long a pair of targets is measured on one microbenchmark, where the smallest change that this detects is
/// computed.
const BUDGET: Duration = Duration::from_secs(600);

/// Arguments of `selftest`.
#[derive(Debug, Args)]
pub(super) struct SelftestArgs {
    /// One release, such as 17 or 16.4 [default: the newest that is prebuilt]
    #[arg(value_name = "RELEASE")]
    range: Option<ReleaseRange>,
    #[command(flatten)]
    servers: ServerArgs,
    /// Only these microbenchmarks; `*` and `?` are wildcards [default: four short ones]
    #[arg(long = "bench", value_name = "GLOB")]
    benches: Vec<String>,
    /// Slowdowns to plant, per message of the client: 400ns, or 50loops for instructions; may be repeated
    #[arg(long = "brake", value_name = "BRAKE", value_delimiter = ',')]
    brakes: Vec<Brake>,
    /// Launches of each server
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..))]
    launches: u32,
    /// Seconds per slice
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    seconds: f64,
    /// Rows of the table
    #[arg(long, default_value_t = 50_000)]
    rows: u64,
    /// CPUs of client and servers: same-cpu, split, free, or auto for whichever is the least noisy
    #[arg(long, default_value = "auto", value_parser = placement::parse, value_name = "PLACEMENT")]
    placement: WantedPlacement,
    /// Count instructions as well, with valgrind
    #[arg(long)]
    instructions: bool,
    /// Keep the results in this directory, and go on with what is there already
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Directory of the servers' data while they run
    #[arg(long, value_name = "DIR", env = "REGTRACK_CLUSTERS", default_value = "/var/tmp")]
    clusters: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was measured.
struct Measured {
    /// With all targets, timed and counted.
    manifest: SweepManifest,
    slices: Vec<SliceRecord>,
    walked: Walked,
    /// Wall-clock time of a slice with its share of its launch, where slices were measured by this call.
    slice_time: Option<Duration>,
}

pub(super) fn run(args: &SelftestArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    if args.instructions {
        measure::check_counting()?;
    }
    let catalogue = global.catalogue()?;
    let prepared = sweep::prepare(&request(args, &catalogue)?, &catalogue, measure::memory_mib())?;
    if prepared.wanted.len() != 1 {
        return Err(anyhow!("selftest tries one server; name one release").into());
    }
    let is_measuring = args.seconds >= SHORTEST_MEASURING;
    let _lock = is_measuring.then(|| MachineLock::take(&std::env::temp_dir().join(MachineLock::FILE))).transpose()?;
    let measured = measure_all(args, &prepared, &catalogue, printer)?;
    let test = analysis::self_test(&measured.manifest, &measured.slices);
    let false_verdicts = false_verdicts(&measured, &prepared)?;
    let summary = Summary { args, measured: &measured, test: &test, false_verdicts: &false_verdicts };
    printer.data(&if args.json { summary.json() } else { summary.text() })?;
    let alarms = test.false_alarms().cases > 0 || !false_verdicts.is_empty();
    if alarms || measured.walked.failed > 0 { Err(Failure::Incomplete) } else { Ok(()) }
}

/// A sweep of one release with the smoke profile's pauses, of which there are none, and the turns of the others.
fn request(args: &SelftestArgs, catalogue: &Catalogue) -> Result<SweepRequest, Failure> {
    let profile = profile::find(SMOKE).ok_or_else(|| anyhow!("there is no profile '{SMOKE}'"))?;
    let newest = || {
        let prebuilt = catalogue.majors().iter().filter_map(|major| catalogue.latest_prebuilt(major.major));
        let newest = prebuilt.map(|release| release.version).filter(|version| !version.is_prerelease()).max();
        newest.map(|version| ReleaseRange { terms: vec![Term::One(Bound::Version(version))] })
    };
    let range = args.range.clone().or_else(newest).context("no release is prebuilt; name one")?;
    let benches = if args.benches.is_empty() { BENCHES.map(str::to_owned).to_vec() } else { args.benches.clone() };
    Ok(SweepRequest {
        variants: args.servers.variants.clone(),
        rows: Some(args.rows),
        seconds: Some(args.seconds),
        warmup_seconds: Some(args.seconds / 5.0),
        stretch_seconds: Some(STRETCH_SECONDS.min(args.seconds / 4.0)),
        placement: Some(args.placement),
        launches: Some(args.launches),
        benches,
        ..SweepRequest::new(range, profile)
    })
}

impl SelftestArgs {
    /// The base's build again, and with each brake that is planted in timed servers.
    fn timed(&self, base: &Target) -> Vec<Target> {
        let wanted = self.brakes.iter().copied().filter(|brake| matches!(brake, Brake::Nanoseconds(_)));
        Self::targets(base, wanted.collect(), || NANOSECONDS.map(Brake::Nanoseconds).to_vec())
    }

    /// The same for the servers whose instructions are counted.
    fn counted(&self, base: &Target) -> Vec<Target> {
        let wanted = self.brakes.iter().copied().filter(|brake| matches!(brake, Brake::Loops(_)));
        Self::targets(base, wanted.collect(), || LOOPS.map(Brake::Loops).to_vec())
    }

    fn targets(base: &Target, wanted: Vec<Brake>, default: impl FnOnce() -> Vec<Brake>) -> Vec<Target> {
        let brakes = if wanted.is_empty() { default() } else { wanted };
        let slower = brakes.into_iter().map(|brake| base.braked(brake));
        [base.clone(), base.again()].into_iter().chain(slower).collect()
    }
}

/// A directory that is removed at the end and that the servers' account may enter.
fn open_directory(parent: &Path) -> Result<TempDir, Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o711);
    let parent = servers::absolute(parent)?;
    let directory = tempfile::Builder::new().prefix("regtrack-selftest-").permissions(mode).tempdir_in(&parent);
    Ok(directory.with_context(|| format!("could not make a directory in {}", parent.display()))?)
}

fn measure_all(
    args: &SelftestArgs,
    prepared: &Prepared,
    catalogue: &Catalogue,
    printer: Printer,
) -> Result<Measured, Failure> {
    let account = args.servers.account()?;
    let stop = process::interrupt_flag();
    watch_signals(&stop)?;
    let control = Arc::new(Control { stop, ..Control::default() });
    let base = base(args, prepared, catalogue, &account, printer)?;

    let directory = open_directory(&args.clusters)?;
    if !account.can_enter(directory.path()) {
        let (name, clusters) = (&account.name, args.clusters.display());
        return Err(
            anyhow!("the account {name} cannot enter {clusters}; choose another directory with --clusters").into()
        );
    }
    let results = args.keep.clone().unwrap_or_else(|| directory.path().join("results"));
    let store = Store::create_or_open(&results)?;
    let _store_lock = store.lock()?;
    let host = measure::fingerprint(directory.path());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let manifest = sweep::open(&store, prepared, args.timed(&base), host, Vec::new(), &arguments, false)?;
    let build = base.build.as_ref().context("there is no server to try")?;
    let settings = servers::settings(prepared, build, &account)?;
    let counted = if args.instructions { args.counted(&base) } else { Vec::new() };
    let targets = manifest.targets.iter().chain(&counted);
    let settings: BTreeMap<TargetId, String> = targets.map(|target| (target.id.clone(), settings.clone())).collect();

    let stored = store.slices(&manifest.id)?;
    let crew = Crew::fitting(&prepared.protocol, prepared.launches, prepared.memory_mib);
    let progress = Progress::new(printer, Arc::clone(&control));
    let start = StartOptions::default();
    let placement = Placement::Free;
    let mut bench = LiveBench { account: account.clone(), start, control: Arc::clone(&control), placement };
    let mut execution = Execution {
        store: &store,
        manifest,
        suite: Arc::clone(&prepared.suite),
        settings,
        init: prepared.init_options(),
        clusters: directory.path().to_owned(),
        crew,
        events: &mut |event| progress.event(event),
    };
    bench.placement = placement::settle(&bench, prepared, &mut execution, printer)?;
    let begin = Instant::now();
    let mut walked = sweep::run(&mut execution, &bench, None).map_err(Failure::of_sweep)?;
    let slices = u32::try_from(walked.measured).ok().filter(|slices| *slices > 0);
    let slice_time = slices.map(|slices| begin.elapsed() / slices);
    if args.instructions {
        let timed = std::mem::replace(&mut execution.manifest.targets, counted);
        let counts = sweep::count(&mut execution, &stored, &account, &control).map_err(Failure::of_sweep)?;
        walked.measured += counts.measured;
        walked.failed += counts.failed;
        let counted = std::mem::replace(&mut execution.manifest.targets, timed);
        execution.manifest.targets.extend(counted.into_iter().filter(|target| target.brake.is_some()));
    }
    let manifest = execution.manifest;
    let slices = store.slices(&manifest.id)?;
    if walked.failed > 0 && args.keep.is_none() {
        // The failures name logs in there.
        printer.say(&format!("some slices failed; the results stay in {}", directory.keep().display()));
    }
    Ok(Measured { manifest, slices, walked, slice_time })
}

/// The server that is tried.
fn base(
    args: &SelftestArgs,
    prepared: &Prepared,
    catalogue: &Catalogue,
    account: &Account,
    printer: Printer,
) -> Result<Target, Failure> {
    let builder = args.servers.builder(account)?;
    let choices = builder.plan(&servers::requests(&prepared.wanted, catalogue))?;
    let mut events = |event| {
        if let sweep::Event::Note(text) = event {
            printer.say(&format!("note: {text}"));
        }
    };
    let targets = sweep::targets(prepared, &choices, &builder, &mut events).map_err(Failure::of_sweep)?;
    let base = targets.into_iter().next().context("there is no server to try")?;
    if let Some(build) = &base.build {
        printer.say(&format!("server: PostgreSQL {}, {}", base.label, build.provenance));
    }
    Ok(base)
}

/// Microbenchmarks on which the report of a sweep would call the build slower or faster than itself.
fn false_verdicts(measured: &Measured, prepared: &Prepared) -> Result<Vec<String>, Failure> {
    let mut manifest = measured.manifest.clone();
    manifest.targets.retain(|target| target.brake.is_none());
    let catalogue = analysis::Catalogue {
        microbenchmarks: &prepared.suite.microbenchmarks,
        groups: &prepared.suite.groups,
        newest: &[],
    };
    let report = analysis::report(&manifest, &measured.slices, &catalogue, &manifest.base)?;
    let is_false = |verdict: Verdict| matches!(verdict, Verdict::Improved | Verdict::Regressed);
    let rows = report
        .rows
        .iter()
        .filter(|row| row.cells.iter().any(|cell| cell.relative.is_some_and(|relative| is_false(relative.verdict))));
    Ok(rows.map(|row| row.name.clone()).collect())
}

// ------------------------------------------------------------------------------------------ output

struct Summary<'a> {
    args: &'a SelftestArgs,
    measured: &'a Measured,
    test: &'a SelfTest,
    false_verdicts: &'a [String],
}

impl Summary<'_> {
    fn text(&self) -> String {
        let (test, args) = (self.test, self.args);
        let rows = analysis::tried(test).len();
        let mut page = format!("{rows} microbenchmarks, {} launches of {} s per server\n", test.launches, args.seconds);
        for cost in &test.costs {
            // Writing to a string does not fail.
            let _ = writeln!(page, "\n{}", heading(cost));
            page += &tables::listing(
                &["microbenchmark", "server", "planted", "measured", "95 % interval", "called"],
                trials(cost),
            );
        }
        let alarms = test.false_alarms();
        let (low, high) = alarms.interval;
        let _ = write!(
            page,
            "\nfalse alarms: {} of {} comparisons of the build with itself (95 % interval {:.0} .. {:.0} %)\n\
             a sweep's report would have called {} of {rows} microbenchmarks changed\n\n{}",
            alarms.cases,
            alarms.of,
            low * 100.0,
            high * 100.0,
            self.false_verdicts.len(),
            tables::listing(&["", "noise", "found in 10 minutes", "and as one of 42"], self.powers())
        );
        page += "noise: standard deviation of the ratio of two launches of equal servers, median of the microbenchmarks; \
            of instructions, the difference of two counts\n";
        page += "found: computed from the noise: the smallest change that 10 minutes for a pair of servers and a \
            microbenchmark would find with 90 % power\n";
        page
    }

    fn powers(&self) -> Vec<Vec<String>> {
        let line = |cost: &CostTest| {
            let [alone, of_many] =
                [1, analysis::SWEEP_COMPARISONS].map(|comparisons| self.detectable(cost, comparisons));
            let percent =
                |share: Option<f64>| share.map_or_else(|| "–".to_owned(), |share| format!("{:.2} %", share * 100.0));
            vec![name(cost.cost).to_owned(), percent(cost.median_noise()), percent(alone), percent(of_many)]
        };
        self.test.costs.iter().map(line).collect()
    }

    /// Launches of each of two servers in the budget.
    fn launches_in_budget(&self) -> Option<u32> {
        let pair = self.measured.slice_time?.as_secs_f64() * 2.0;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number of launches")]
        Some((BUDGET.as_secs_f64() / pair) as u32)
    }

    fn detectable(&self, cost: &CostTest, comparisons: u32) -> Option<f64> {
        cost.detectable(self.launches_in_budget()?, comparisons)
    }

    fn json(&self) -> String {
        let costs = self.test.costs.iter().map(|cost| {
            json!({
                "cost": cost.cost,
                "noise": cost.median_noise(),
                "noise_by_microbenchmark": cost.noise,
                "detectable": self.detectable(cost, 1),
                "detectable_in_sweep": self.detectable(cost, analysis::SWEEP_COMPARISONS),
                "trials": cost.trials,
            })
        });
        let value = json!({
            "server": self.measured.manifest.targets.first().map(|target| &target.label),
            "launches": self.test.launches,
            "seconds": self.args.seconds,
            "failed": self.measured.walked.failed,
            "seconds_per_slice_with_launch": self.measured.slice_time.map(|time| time.as_secs_f64()),
            "false_alarms": self.test.false_alarms(),
            "false_verdicts": self.false_verdicts,
            "costs": costs.collect::<Vec<Value>>(),
        });
        format!("{value:#}")
    }
}

fn name(cost: Cost) -> &'static str {
    match cost {
        Cost::Time => "time per query (1 / QPS)",
        Cost::BackendCpu => "CPU time of the backend per query",
        Cost::Instructions => "instructions of the backend per query",
    }
}

fn heading(cost: &CostTest) -> String {
    format!("{}: above 0 % is slower", name(cost.cost))
}

fn trials(cost: &CostTest) -> Vec<Vec<String>> {
    let percent = |share: f64| format!("{:.2} %", share * 100.0);
    let line = |trial: &analysis::Trial| {
        let interval =
            trial.interval.map_or_else(String::new, |(low, high)| format!("{} .. {}", percent(low), percent(high)));
        let called = match (trial.detected, trial.planted == 0.0) {
            (true, true) => "FALSE ALARM",
            (true, false) => "yes",
            (false, _) => "no",
        };
        let (planted, measured) = (percent(trial.planted), percent(trial.measured));
        vec![trial.microbenchmark.clone(), trial.target.clone(), planted, measured, interval, called.to_owned()]
    };
    cost.trials.iter().map(line).collect()
}
