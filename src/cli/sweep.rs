//! `regtrack sweep RANGE`

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser as _};
use sha2::{Digest, Sha256};

use super::printer::Printer;
use super::progress::Progress;
use super::results::{Results, SiteOptions};
use super::servers::{self, ServerArgs, absolute, watch_signals};
use super::{Cli, Command, Failure, Global, doctor, history, placement, tables};
use crate::build::{Builder as _, Builds, Choice};
use crate::catalog::versions::Catalogue;
use crate::catalog::{self, connections};
use crate::domain::{Finding, Placement, ReleaseRange, SweepManifest, Target, TargetId};
use crate::load::Control;
use crate::measure::{self, LiveBench, MachineLock};
use crate::process;
use crate::server::{Account, DEFAULT_PORT, ServerError, StartOptions};
use crate::site;
use crate::store::{Store, StoreError, StoreLock};
use crate::sweep::profile::{self, PROFILES, Profile};
use crate::sweep::{
    self, Crew, Estimate, Execution, LaunchPlan, Prepared, SweepRequest, WantedPlacement, WantedPrecision, WantedServer,
};

/// The profile that only proves that everything works: it need not have the machine to itself.
pub(super) const SMOKE: &str = "smoke";

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(super) struct SweepArgs {
    /// Releases, such as 16..18, 9.0..18, 14.10..16.2 or 9.6,17.3; without it the current sweep goes on
    pub(super) range: Option<ReleaseRange>,
    /// Numbers to measure with: smoke, quick, standard or paper
    #[arg(long, value_parser = parse_profile, default_value = "standard", requires = "range")]
    profile: &'static Profile,
    /// Every minor in the range instead of the latest of each major
    #[arg(long, requires = "range")]
    minors: bool,
    /// Release that the others are divided by [default: the oldest]
    #[arg(long, value_name = "RELEASE", requires = "range")]
    pub(super) base: Option<String>,
    /// Only microbenchmarks that match; `*` and `?` are wildcards; may be repeated
    #[arg(long = "bench", value_name = "GLOB", requires = "range")]
    benches: Vec<String>,
    #[command(flatten)]
    pub(super) servers: ServerArgs,
    /// Configuration set: a name, or a directory (write ./NAME)
    #[arg(long, value_name = "NAME", requires = "range")]
    config: Option<String>,
    /// Read the suite from this file instead of the built-in one
    #[arg(long, value_name = "FILE", requires = "range")]
    suite: Option<PathBuf>,
    /// Rows to load
    #[arg(long, requires = "range")]
    rows: Option<u64>,
    /// Seconds per slice
    #[arg(long, value_parser = parse_seconds, requires = "range")]
    seconds: Option<f64>,
    /// Seconds per slice of the writing microbenchmarks, where they differ
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS", requires = "range")]
    write_seconds: Option<f64>,
    /// Seconds of uncounted warm-up before each slice
    #[arg(long, value_parser = parse_warmup, value_name = "SECONDS", requires = "range")]
    warmup: Option<f64>,
    /// Launches (server starts on freshly loaded data) per release, at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), requires = "range")]
    launches: Option<u32>,
    /// A microbenchmark whose ratios are known to within this, such as 1%, gets no more launches; `off` makes all
    #[arg(long, value_parser = parse_precision, value_name = "PERCENT", requires = "range")]
    precision: Option<WantedPrecision>,
    /// Chance of finding a change of 1 % plus the precision, such as 0.9
    #[arg(long, value_parser = parse_power, requires = "range")]
    power: Option<f64>,
    /// Do not measure the base twice
    #[arg(long, requires = "range")]
    no_blind: bool,
    /// Begin no block that would end later than this from now: 90s, 30min, 6h
    #[arg(long, value_parser = parse_budget, value_name = "TIME")]
    pub(super) budget: Option<Duration>,
    /// Data checksums, where the release has them, instead of the configuration set's choice
    #[arg(long, value_parser = parse_switch, value_name = "on|off", requires = "range")]
    data_checksums: Option<bool>,
    /// Connect by tcp (as sysbench does) or unix
    #[arg(long, value_parser = ["tcp", "unix"], default_value = "tcp", requires = "range")]
    transport: String,
    /// Seconds of the turns in which a block's servers are measured together; 0 measures one after the other
    #[arg(long, value_parser = parse_warmup, value_name = "SECONDS", requires = "range")]
    stretch: Option<f64>,
    /// CPUs of client and servers: same-cpu, split, free, or auto for whichever is the least noisy
    #[arg(long, value_parser = placement::parse, value_name = "PLACEMENT", requires = "range")]
    placement: Option<WantedPlacement>,
    /// Connections at once, such as 1,4,16: every microbenchmark runs with each of these numbers [default: 1]
    #[arg(long, value_delimiter = ',', value_name = "N,N", requires = "range",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(connections::MOST)))]
    connections: Vec<u32>,
    /// Port for the servers [default: a free one]
    #[arg(long, value_parser = parse_port, requires = "range")]
    port: Option<u16>,
    /// Count the backend's instructions as well, on a small table and with valgrind
    #[arg(long, requires = "range")]
    instructions: bool,
    /// Begin a new sweep instead of continuing the last one with these numbers
    #[arg(long)]
    pub(super) fresh: bool,
    /// Print the plan and stop
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Directory of the site [default: public]
    #[arg(long, value_name = "DIR", env = "REGTRACK_SITE")]
    pub(super) site: Option<PathBuf>,
    /// Directory of the servers' data while they run [default: below the results]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CLUSTERS")]
    pub(super) clusters: Option<PathBuf>,
}

pub(super) fn run(args: SweepArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let (args, arguments, versions) = match &args.range {
        Some(_) => (args, std::env::args().skip(1).collect(), None),
        None => continued(args, global)?,
    };
    let global = &Global { versions: global.versions.clone().or(versions), ..global.clone() };
    let range = args.range.clone().context("the sweep to go on with names no releases")?;
    let site_dir = args.site.clone().unwrap_or_else(|| PathBuf::from("public"));
    // Not after hours of measuring.
    site::check(&site_dir)?;
    let catalogue = global.catalogue()?;
    let prepared = sweep::prepare(&request(&args, range), &catalogue, measure::memory_mib())?;
    let job = Job::new(&args, prepared, &catalogue)?;
    let description = job.describe(&args);
    if args.dry_run {
        printer.data(&description)?;
        return Ok(());
    }
    printer.say(&description);
    let measured = job.measure(&args, &arguments, global, printer);
    finish(&site_dir, global, printer, measured)
}

/// A sweep that is prepared, and where its servers come from.
pub(super) struct Job {
    pub(super) prepared: Prepared,
    /// One entry per wanted server.
    pub(super) choices: Vec<Vec<Choice>>,
    pub(super) builder: Builds,
    account: Account,
}

impl Job {
    /// Finds out how the servers will be got. No network yet.
    pub(super) fn new(args: &SweepArgs, prepared: Prepared, catalogue: &Catalogue) -> Result<Self, Failure> {
        let account = args.servers.account()?;
        let builder = args.servers.builder(&account)?;
        let choices = builder.plan(&servers::requests(&prepared.wanted, catalogue))?;
        Ok(Self { prepared, choices, builder, account })
    }

    /// Leaves out all servers but the base and those at these indices.
    pub(super) fn keep(&mut self, indices: &[usize]) {
        let base = self.prepared.base;
        let mut index = 0..;
        self.choices.retain(|_| index.next().is_some_and(|index| index == base || indices.contains(&index)));
        self.prepared.keep(indices);
    }

    /// The plan in words.
    pub(super) fn describe(&self, args: &SweepArgs) -> String {
        let mut text = describe(&self.prepared, &self.choices, estimate(&self.prepared), &self.account);
        if args.instructions {
            text += "\n  then instructions are counted under valgrind: some minutes for each server, at most twice";
        }
        text
    }

    /// Gets the servers and measures what is missing.
    pub(super) fn measure(
        &self,
        args: &SweepArgs,
        arguments: &[String],
        global: &Global,
        printer: Printer,
    ) -> Result<sweep::Walked, Failure> {
        start_options(args).check()?;
        if args.instructions {
            // Not after hours of measuring.
            measure::check_counting()?;
        }
        let (prepared, account) = (&self.prepared, &self.account);
        let estimate = estimate(prepared);
        let place = Place::prepare(args, global, prepared, account, estimate)?;
        if place.clusters_elsewhere {
            printer.say(&format!(
                "the account {} cannot enter {}; data directories go to {}",
                account.name,
                global.results.display(),
                place.clusters.display()
            ));
        }
        let doctor = doctor::before_sweep(args, global, prepared, estimate, &place.clusters, printer);
        measure_all(args, arguments, prepared, &self.choices, &self.builder, account, &place, doctor, printer)
    }
}

/// The arguments of the current sweep's last call, with this call's places and switches.
fn continued(args: SweepArgs, global: &Global) -> Result<(SweepArgs, Vec<String>, Option<PathBuf>), Failure> {
    let manifest = match Store::open(&global.results).and_then(|store| store.current()) {
        Err(StoreError::NoResults { dir }) => {
            let text = format!("there is no sweep in '{}' to go on with", dir.display());
            return Err(anyhow::anyhow!("{text}; name the releases to measure, such as 16..18").into());
        }
        manifest => manifest?,
    };
    if manifest.arguments.is_empty() {
        return Err(
            anyhow::anyhow!("the current sweep was imported; name the releases to measure, such as 16..18").into()
        );
    }
    let words = std::iter::once("regtrack".to_owned()).chain(manifest.arguments.clone());
    let cli = Cli::try_parse_from(words).context("could not read the arguments of the current sweep")?;
    let Command::Sweep(previous) = cli.command else {
        let text = "the current sweep was not made by `regtrack sweep`";
        return Err(anyhow::anyhow!("{text}; name the releases to measure, such as 16..18").into());
    };
    let merged = args.over(*previous);
    Ok((merged, manifest.arguments, cli.global.versions))
}

impl SweepArgs {
    /// The arguments of an earlier call, with this call's places and switches.
    pub(super) fn over(self, previous: Self) -> Self {
        Self {
            fresh: self.fresh,
            budget: self.budget.or(previous.budget),
            dry_run: self.dry_run,
            site: self.site.or(previous.site),
            clusters: self.clusters.or(previous.clusters),
            servers: ServerArgs {
                cache: self.servers.cache.or(previous.servers.cache),
                run_as: self.servers.run_as.or(previous.servers.run_as),
                ..previous.servers
            },
            ..previous
        }
    }
}

pub(super) fn request(args: &SweepArgs, range: ReleaseRange) -> SweepRequest {
    SweepRequest {
        range,
        minors: args.minors,
        variants: args.servers.variants.clone(),
        profile: args.profile,
        rows: args.rows,
        seconds: args.seconds,
        write_seconds: args.write_seconds,
        warmup_seconds: args.warmup,
        launches: args.launches,
        benches: args.benches.clone(),
        config: args.config.clone(),
        data_checksums: args.data_checksums,
        suite: args.suite.clone(),
        base: args.base.clone(),
        unix_socket: args.transport == "unix",
        stretch_seconds: args.stretch,
        placement: args.placement,
        precision: args.precision,
        power: args.power,
        blind: args.no_blind.then_some(false),
        connections: args.connections.clone(),
    }
}

fn start_options(args: &SweepArgs) -> StartOptions {
    StartOptions { port: args.port, unix_socket: args.transport == "unix", ..StartOptions::default() }
}

/// The plan for a sweep of which nothing is stored yet: builds, and so targets, are not known here.
pub(super) fn estimate(prepared: &Prepared) -> Estimate {
    let mut targets: Vec<TargetId> = prepared.wanted.iter().map(|server| TargetId(server.label())).collect();
    targets.extend(prepared.blind.then(|| TargetId("again".to_owned())));
    let wanted = prepared.protocol.microbenchmarks.iter().map(|name| (name.clone(), prepared.launches)).collect();
    let plan = sweep::plan("", &prepared.suite, &prepared.protocol, &targets, &wanted, &BTreeSet::new());
    plan.estimate(&prepared.suite, &prepared.protocol, crew(prepared))
}

fn crew(prepared: &Prepared) -> Crew {
    Crew::fitting(&prepared.protocol, prepared.launches, prepared.memory_mib)
}

fn describe(prepared: &Prepared, choices: &[Vec<Choice>], estimate: Estimate, account: &Account) -> String {
    let protocol = &prepared.protocol;
    let variants = prepared.wanted.iter().map(|server| &server.variant.name).collect::<BTreeSet<_>>().len();
    // Another minor may stand in for the latest.
    let base = choices[prepared.base].first().map_or_else(String::new, |choice| {
        let release = choice.release().clone();
        WantedServer { release, ..prepared.wanted[prepared.base].clone() }.label()
    });
    let servers: Vec<String> = choices.iter().filter_map(|choices| choices.first()).map(ToString::to_string).collect();
    let mut text = format!(
        "plan: {} × {} × {}, profile {}\n  \
         servers: {}\n  \
         base: {}{}\n  \
         rows {}, {} s per read slice, {} s per write slice, configuration {}, data checksums {}, {}\n  \
         estimated duration {} without getting the servers, about {} MiB of disk while a server runs",
        counted(prepared.wanted.len(), if variants > 1 { "server" } else { "release" }, "s"),
        counted(protocol.microbenchmarks.len(), "microbenchmark", "s"),
        launches(prepared),
        prepared.profile,
        servers.join(", "),
        base,
        if prepared.blind { ", measured twice" } else { "" },
        protocol.rows,
        protocol.read_seconds,
        protocol.write_seconds,
        protocol.config,
        if protocol.data_checksums { "on" } else { "off" },
        protocol.transport,
        indicatif::HumanDuration(estimate.duration),
        estimate.disk_bytes >> 20,
    );
    if account.is_other() {
        let _ = write!(text, "\n  PostgreSQL refuses to run as root: servers run under the account {}", account.name);
    }
    text
}

/// `5 launches`, `at most 20 launches (until ratios are known to 1 %)`
fn launches(prepared: &Prepared) -> String {
    let launches = counted(prepared.launches as usize, "launch", "es");
    match prepared.stopping {
        None => launches,
        Some(stopping) => {
            format!("at most {launches} (until ratios are known to {} %)", 100.0 * stopping.precision)
        }
    }
}

/// `1 launch`, `2 launches`
fn counted(number: usize, noun: &str, plural: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { plural })
}

/// Where results and clusters go, with the locks that keep others out.
struct Place {
    store: Store,
    clusters: PathBuf,
    clusters_elsewhere: bool,
    _store_lock: StoreLock,
    _machine_lock: Option<MachineLock>,
}

impl Place {
    fn prepare(
        args: &SweepArgs,
        global: &Global,
        prepared: &Prepared,
        account: &Account,
        estimate: Estimate,
    ) -> Result<Self, Failure> {
        let store = Store::create_or_open(&global.results)?;
        let store_lock = store.lock()?;
        let machine_lock = match prepared.profile {
            SMOKE => None,
            _ => Some(MachineLock::take(&std::env::temp_dir().join(MachineLock::FILE))?),
        };
        let (clusters, clusters_elsewhere) = clusters(args.clusters.as_deref(), &global.results, account)?;
        sweep::check_space(&clusters, estimate.disk_bytes)?;
        Ok(Self { store, clusters, clusters_elsewhere, _store_lock: store_lock, _machine_lock: machine_lock })
    }
}

/// The directory for clusters. When root's results lie where the servers' account cannot go (below
/// /root, say), a directory of their own below /var/tmp is taken.
pub(super) fn clusters(named: Option<&Path>, results: &Path, account: &Account) -> Result<(PathBuf, bool), Failure> {
    let create = |path: &Path| {
        std::fs::create_dir_all(path).with_context(|| format!("could not make the directory {}", path.display()))
    };
    if let Some(directory) = named {
        let directory = absolute(directory)?;
        create(&directory)?;
        if !account.can_enter(&directory) {
            let text = format!("the account {} cannot enter {}", account.name, directory.display());
            return Err(anyhow::anyhow!("{text}; choose another directory with --clusters").into());
        }
        return Ok((directory, false));
    }
    let results = absolute(results)?;
    let below = results.join("clusters");
    create(&below)?;
    if account.can_enter(&below) {
        return Ok((below, false));
    }
    let hash = format!("{:x}", Sha256::digest(results.as_os_str().as_encoded_bytes()));
    let elsewhere = PathBuf::from(format!("/var/tmp/regtrack-clusters-{}", &hash[..8]));
    create(&elsewhere)?;
    Ok((elsewhere, true))
}

#[expect(clippy::too_many_arguments, reason = "called once, with what `run` has put together")]
fn measure_all(
    args: &SweepArgs,
    arguments: &[String],
    prepared: &Prepared,
    choices: &[Vec<Choice>],
    builder: &Builds,
    account: &Account,
    place: &Place,
    doctor: Vec<Finding>,
    printer: Printer,
) -> Result<sweep::Walked, Failure> {
    let stop = process::interrupt_flag();
    watch_signals(&stop)?;
    let control = Arc::new(Control { stop, ..Control::default() });

    let progress = Progress::new(printer, Arc::clone(&control));
    let targets = sweep::targets(prepared, choices, builder, &mut |event| progress.event(event));
    drop(progress);
    let targets = targets.map_err(Failure::of_sweep)?;
    show_fingerprints(printer, &targets);

    let host = measure::fingerprint(&place.clusters);
    let manifest = sweep::open(&place.store, prepared, targets, host, doctor, arguments, args.fresh)?;
    let wanted_base = &manifest.targets[prepared.base];
    if let Some(base) = manifest.targets.iter().find(|target| target.id == manifest.base && target.id != wanted_base.id)
    {
        printer
            .say(&format!("note: without a server for {}, ratios are relative to {}", wanted_base.label, base.label));
    }
    let start = start_options(args);
    let bench = LiveBench { account: account.clone(), start, control, placement: Placement::Free };
    let progress = Progress::new(printer, Arc::clone(&bench.control));
    let mut execution = Execution {
        store: &place.store,
        settings: render_settings(prepared, &manifest, account)?,
        manifest,
        suite: Arc::clone(&prepared.suite),
        init: prepared.init_options(),
        clusters: place.clusters.clone(),
        crew: crew(prepared),
        events: &mut |event| progress.event(event),
    };
    walk(args, prepared, bench, &mut execution, printer)
}

/// Measures what is missing, and leaves no data directory behind that no later call needs.
fn walk(
    args: &SweepArgs,
    prepared: &Prepared,
    mut bench: LiveBench,
    execution: &mut Execution<'_>,
    printer: Printer,
) -> Result<sweep::Walked, Failure> {
    let (plan, _) = sweep::next(execution, &BTreeSet::new())?;
    if plan.stored > 0 {
        printer.say(&format!("{} of {} slices are in the results already", plan.stored, plan.total));
    }
    let clusters = execution.clusters.join(&execution.manifest.id);
    let launches = plan.launches.iter().map(|launch| launch.name.clone());
    let templates = plan.launches.iter().map(LaunchPlan::template);
    measure::remove_stale(&clusters, &launches.chain(templates).collect())?;
    if !plan.launches.is_empty() {
        bench.placement = placement::settle(&bench, prepared, execution, printer)?;
    }
    let mut walked = sweep::run(execution, &bench, args.budget).map_err(Failure::of_sweep)?;
    if args.instructions {
        let slices = execution.store.slices(&execution.manifest.id)?;
        let counted = sweep::count(execution, &slices, &bench.account, &bench.control).map_err(Failure::of_sweep)?;
        walked.measured += counted.measured;
        walked.failed += counted.failed;
    }
    if walked.open == 0 {
        measure::remove_stale(&clusters, &BTreeSet::new())?;
    }
    Ok(walked)
}

fn show_fingerprints(printer: Printer, targets: &[Target]) {
    for target in targets {
        if let Some(build) = &target.build {
            printer.say(&format!("  {}: {}; {}", target.label, build.provenance, build.fingerprint.toolchain()));
        }
    }
}

/// Configuration lines of every target that has a build.
fn render_settings(
    prepared: &Prepared,
    manifest: &SweepManifest,
    account: &Account,
) -> Result<BTreeMap<TargetId, String>, Failure> {
    let mut settings = BTreeMap::new();
    for target in manifest.launched() {
        if let Some(build) = &target.build {
            settings.insert(target.id.clone(), servers::settings(prepared, build, account)?);
        }
    }
    Ok(settings)
}

/// Prints the tables and writes the site, also when some cells failed.
fn finish(
    site: &Path,
    global: &Global,
    printer: Printer,
    measured: Result<sweep::Walked, Failure>,
) -> Result<(), Failure> {
    let walked = measured?;
    let results = Results::read(global, None)?;
    let report = results.report(None)?;
    printer.data(&tables::report(&report, tables::Format::Terminal)?)?;
    let history = history::shown(&history::summaries(global)?);
    let options = SiteOptions { history: history.as_ref(), url: None };
    let index = results.write_site(&report, site, options)?;
    printer.say(&format!("{} slices measured, {} failed", walked.measured, walked.failed));
    printer.data(&format!("site: {}", absolute(&index)?.display()))?;
    if walked.failed > 0 { Err(Failure::Incomplete) } else { Ok(()) }
}

pub(super) fn parse_profile(text: &str) -> Result<&'static Profile, String> {
    profile::find(text).ok_or_else(|| {
        let near = catalog::nearest(text, PROFILES.iter().map(|profile| profile.name));
        let near = near.first().map_or_else(String::new, |name| format!(" (did you mean {name}?)"));
        let lines: Vec<String> =
            PROFILES.iter().map(|profile| format!("\n    {:9} {}", profile.name, profile.about)).collect();
        format!("there is no such profile{near}; there are{}", lines.concat())
    })
}

pub(super) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("write a number of seconds above 0 and up to 86400".to_owned()),
    }
}

fn parse_warmup(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { parse_seconds(text) }
}

fn parse_precision(text: &str) -> Result<WantedPrecision, String> {
    if text == "off" {
        return Ok(WantedPrecision::Fixed);
    }
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if (0.1..=50.0).contains(&percent) => Ok(WantedPrecision::Within(percent / 100.0)),
        _ => Err("write a share from 0.1% to 50%, or off".to_owned()),
    }
}

fn parse_power(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(power) if (0.5..=0.99).contains(&power) => Ok(power),
        _ => Err("write a chance from 0.5 to 0.99".to_owned()),
    }
}

pub(super) fn parse_budget(text: &str) -> Result<Duration, String> {
    let units = [("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("s", 1.0)];
    let found = units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    match found.and_then(|(number, seconds)| Some(number.trim().parse::<f64>().ok()? * seconds)) {
        Some(seconds) if seconds > 0.0 && seconds < 1e9 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a time such as 90s, 30min, 6h or 2d".to_owned()),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(DEFAULT_PORT) => Err(ServerError::DefaultPort.to_string()),
        Ok(port) if port >= 1024 => Ok(port),
        _ => Err("write a port from 1024 to 65535".to_owned()),
    }
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}
