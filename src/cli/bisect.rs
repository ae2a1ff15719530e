//! `regtrack bisect A..B --bench NAME`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use sha2::{Digest, Sha256};

use super::printer::Printer;
use super::progress::Progress;
use super::servers::{self, ServerArgs, absolute, watch_signals};
use super::sweep::{clusters, parse_budget, parse_profile, parse_seconds};
use super::{Failure, Global};
use crate::bisect::{
    self, BisectError, Chain, Closed, Effect, End, Ends, Event, Goal, LiveLaboratory, Materials, Metric, Notebook,
    Outcome, Posterior, Question, Revision, Route, Search, Servers, Stage, State,
};
use crate::build::{self, BuildError, Builder as _, Builds, Choice, Inventory, Request};
use crate::catalog::variants::Variants;
use crate::catalog::versions::Catalogue;
use crate::domain::{
    Bound, Build, Placement, Provenance, Release, ReleaseRange, Source, Term, Variant, VariantName, Version,
};
use crate::load::Control;
use crate::measure::{self, LiveBench, MachineLock};
use crate::process;
use crate::server::{Account, StartOptions};
use crate::store::Store;
use crate::sweep::profile::Profile;
use crate::sweep::{self, Prepared, SweepRequest, WantedPlacement, WantedPrecision};

/// Steps that are shown at most.
const SHOWN: usize = 12;

/// Arguments of `bisect`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BisectArgs {
    #[command(subcommand)]
    command: Option<BisectCommand>,
    #[command(flatten)]
    search: SearchArgs,
}

#[derive(Debug, Subcommand)]
enum BisectCommand {
    /// Show what a bisect knows: the probability of each step
    Show(PlaceArgs),
    /// Show what a bisect did, and when
    Log(PlaceArgs),
}

/// Which bisect.
#[derive(Debug, Args)]
struct PlaceArgs {
    /// Its directory [default: the last one below the results]
    dir: Option<PathBuf>,
}

/// Arguments of the search.
#[derive(Debug, Args)]
struct SearchArgs {
    /// The two ends: releases, or commits, tags and branches of --git; such as 9.1..9.2 or REL_17_0..master
    #[arg(value_name = "A..B")]
    range: Option<String>,
    /// Microbenchmark; with `*` and `?`, or a script's name, several: then their geometric mean is compared
    #[arg(long, value_name = "NAME", requires = "range")]
    bench: Option<String>,
    /// Repository of PostgreSQL, a directory or a URL: find the commit
    #[arg(long, value_name = "PATH|URL", requires = "range", conflicts_with = "source")]
    git: Option<String>,
    /// What is compared: qps, or cpu for queries per second of the backend's CPU time, which scatters less
    #[arg(long, value_parser = parse_metric, default_value = "qps", requires = "range")]
    by: Metric,
    /// Probability at which a step is called found
    #[arg(long, value_parser = parse_confidence, default_value = "0.99", requires = "range")]
    confidence: f64,
    /// Smallest difference of the ends that matters, in percent
    #[arg(long, value_parser = parse_threshold, default_value = "1%", value_name = "PERCENT", requires = "range")]
    threshold: f64,
    /// Begin nothing that would end later than this from now: 30min, 2h
    #[arg(long, value_parser = parse_budget, value_name = "TIME", requires = "range")]
    budget: Option<Duration>,
    /// Numbers to measure with: smoke, quick, standard or paper
    #[arg(long, value_parser = parse_profile, default_value = "quick", requires = "range")]
    profile: &'static Profile,
    /// Rows to load
    #[arg(long, requires = "range")]
    rows: Option<u64>,
    /// Seconds per slice
    #[arg(long, value_parser = parse_seconds, requires = "range")]
    seconds: Option<f64>,
    /// Configuration set: a name, or a directory (write ./NAME)
    #[arg(long, value_name = "NAME", requires = "range")]
    config: Option<String>,
    /// Read the suite from this file instead of the built-in one
    #[arg(long, value_name = "FILE", requires = "range")]
    suite: Option<PathBuf>,
    /// CPUs of client and server: same-cpu, split or free
    #[arg(long, default_value = "same-cpu", value_name = "PLACEMENT", requires = "range")]
    placement: Placement,
    #[command(flatten)]
    servers: ServerArgs,
    /// Directory of the bisect [default: below the results]
    #[arg(long, value_name = "DIR", requires = "range")]
    dir: Option<PathBuf>,
    /// Begin anew and keep an earlier bisect of this name under another
    #[arg(long, requires = "range")]
    fresh: bool,
    /// Directory of the servers' data while they run [default: below the bisect]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CLUSTERS")]
    clusters: Option<PathBuf>,
}

pub(super) fn run(args: BisectArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    match args.command {
        Some(BisectCommand::Show(place)) => Ok(printer.data(&show(&place.open(global)?)?)?),
        Some(BisectCommand::Log(place)) => Ok(printer.data(&place.open(global)?.read_log()?)?),
        None => search(&args.search, global, printer),
    }
}

impl PlaceArgs {
    fn open(&self, global: &Global) -> Result<Notebook, Failure> {
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => newest(&home(global)).unwrap_or_else(|| home(global)),
        };
        Ok(Notebook::open(&dir)?)
    }
}

/// Where bisects are that have no directory of their own choice.
fn home(global: &Global) -> PathBuf {
    global.results.join("bisects")
}

/// The bisect that was worked on last.
fn newest(home: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(home).ok()?;
    let worked_on = |path: &PathBuf| std::fs::metadata(path.join("log")).and_then(|log| log.modified()).ok();
    entries.flatten().map(|entry| entry.path()).filter(|path| worked_on(path).is_some()).max_by_key(worked_on)
}

fn search(args: &SearchArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let text =
        args.range.as_deref().context("name the two ends, such as `regtrack bisect 9.1..9.2 --bench read-only`")?;
    let bench = args.bench.as_deref().context("name the microbenchmark with --bench, such as --bench read-only")?;
    let catalogue = global.catalogue()?;
    let account = args.servers.account()?;
    let stop = process::interrupt_flag();
    watch_signals(&stop)?;
    let repository = args.git.as_deref().map(|git| repository(git, &args.servers, &account, printer)).transpose()?;
    let route = Route { catalogue: &catalogue, repository: repository.as_deref() };
    let ends = route.ends(text)?;
    let first = route.first(&ends)?;
    let prepared = prepare(args, bench, &ends, &catalogue)?;
    let question = question(args, text, bench, &prepared, repository.clone());
    let dir = directory(args, &question, global)?;
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let mut notebook = Notebook::create_or_open(&dir, &question, &format!("regtrack {command}"))?;
    let control = Arc::new(Control { stop, ..Control::default() });
    let world = World::new(args, &catalogue, &account, &prepared, repository.as_deref(), control, &dir, printer)?;
    printer.say(&world.describe(&question, &first));
    let found = world.walk(args, &mut notebook, &route, first);
    let found = found.map_err(|failure| match failure {
        Failure::Error(error) if matches!(error.downcast_ref(), Some(BisectError::Interrupted)) => {
            Failure::Interrupted(error)
        }
        other => other,
    })?;
    printer.data(&show(&notebook)?)?;
    printer.data(&format!("kept in {}", absolute(&dir)?.display()))?;
    if found { Ok(()) } else { Err(Failure::Incomplete) }
}

/// Everything that a walk needs and that does not change on the way.
struct World<'a> {
    supply: Supply<'a>,
    bench: LiveBench,
    clusters: PathBuf,
    placement: Placement,
    printer: Printer,
    begin: Instant,
    _lock: Option<MachineLock>,
}

impl<'a> World<'a> {
    #[expect(clippy::too_many_arguments, reason = "called once, with what `search` has put together")]
    fn new(
        args: &SearchArgs,
        catalogue: &'a Catalogue,
        account: &'a Account,
        prepared: &'a Prepared,
        repository: Option<&'a Path>,
        control: Arc<Control>,
        dir: &Path,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let is_measuring = args.profile.name != super::sweep::SMOKE;
        let lock =
            is_measuring.then(|| MachineLock::take(&std::env::temp_dir().join(MachineLock::FILE))).transpose()?;
        let (clusters, elsewhere) = clusters(args.clusters.as_deref(), dir, account)?;
        if elsewhere {
            let (name, dir) = (&account.name, dir.display());
            printer
                .say(&format!("the account {name} cannot enter {dir}; data directories go to {}", clusters.display()));
        }
        let start = StartOptions::default();
        Ok(Self {
            supply: Supply::new(args, catalogue, account, prepared, repository)?,
            bench: LiveBench { account: account.clone(), start, control, placement: args.placement },
            clusters,
            placement: args.placement,
            printer,
            begin: Instant::now(),
            _lock: lock,
        })
    }

    fn describe(&self, question: &Question, chain: &Chain) -> String {
        let protocol = &self.supply.prepared.protocol;
        let mut text = format!(
            "bisect: {}\n  {}: {} places, {} steps that can be it\n  {}\n  rows {}, {} s per slice, configuration {}, {}",
            question.words(),
            chain.level,
            chain.places.len(),
            chain.candidates(),
            protocol.microbenchmarks.join(", "),
            protocol.rows,
            protocol.read_seconds,
            protocol.config,
            self.placement,
        );
        if self.supply.account.is_other() {
            let _ = write!(text, "\n  servers run under the account {}", self.supply.account.name);
        }
        text
    }

    /// Goes from chain to chain, each within the answer of the one before. True with an answer.
    fn walk(
        &self,
        args: &SearchArgs,
        notebook: &mut Notebook,
        route: &Route<'_>,
        first: Chain,
    ) -> Result<bool, Failure> {
        let mut chain = first;
        loop {
            let stage = notebook.begin(&chain)?;
            // What was begun goes on with the chain of then: a branch may have grown since.
            chain = notebook.chain(chain.level)?;
            let outcome = self.stage(args, notebook, stage, &chain)?;
            notebook.log(&format!("{}: {}", chain.level, outcome_words(&outcome, &chain)))?;
            self.printer.say(&format!("{}: {}", chain.level, outcome_words(&outcome, &chain)));
            let closed = match &outcome {
                Outcome::Found(steps) => Some(Closed::Found(steps.clone())),
                Outcome::Alike(_) => Some(Closed::Alike),
                Outcome::Unclear(_) | Outcome::Spent | Outcome::Exhausted => None,
            };
            notebook.record.stages[stage].closed = closed;
            notebook.save()?;
            let Outcome::Found(steps) = outcome else { return Ok(matches!(outcome, Outcome::Alike(_))) };
            let ends = [steps.start, steps.end].map(|position| version_at(notebook, stage, &chain, position));
            let [Some(from), Some(to)] = ends else { return Ok(true) };
            match route.finer(chain.level, from, to)? {
                Some(finer) => chain = finer,
                None => return Ok(true),
            }
        }
    }

    fn stage(
        &self,
        args: &SearchArgs,
        notebook: &mut Notebook,
        stage: usize,
        chain: &Chain,
    ) -> Result<Outcome, Failure> {
        let logbook = notebook.logbook();
        let progress = Progress::new(self.printer, Arc::clone(&self.bench.control));
        // Of a block its result is told; without a terminal, that is enough.
        let is_told =
            |event: &sweep::Event| self.printer.is_live() || !matches!(event, sweep::Event::LaunchStarted { .. });
        let mut events = |event| {
            if is_told(&event) {
                progress.event(event);
            }
        };
        let materials = Materials {
            prepared: self.supply.prepared,
            servers: &self.supply,
            builder: &self.supply.builder,
            bench: &self.bench,
            clusters: self.clusters.clone(),
            host: measure::fingerprint(&self.clusters),
            doctor: Vec::new(),
            placement: self.placement,
            arguments: std::env::args().skip(1).collect(),
            events: &mut events,
        };
        let search = Search::new(&chain.weights())
            .ok_or_else(|| anyhow!("nothing lies between {} and {}", chain.places[0].label, chain.last().label))?;
        let skipped = notebook.record.stages[stage].skipped.clone();
        let mut laboratory = LiveLaboratory::open(materials, notebook, stage, chain)?;
        let mut known = State { search, observations: laboratory.observations(), skipped };
        for position in known.skipped.keys() {
            known.search.skip(*position);
        }
        let goal = Goal {
            confidence: args.confidence,
            threshold: args.threshold,
            budget: args.budget.map(|budget| budget.saturating_sub(self.begin.elapsed())),
        };
        let mut looks = None;
        let outcome = bisect::run(&mut known, &mut laboratory, goal, &mut |state, event| {
            let Some(line) = event_words(state, &event, chain, &mut looks) else { return Ok(()) };
            logbook.add(&line)?;
            progress.say(line);
            Ok(())
        });
        // What could not be measured is known next time, also when this call ends in an error.
        let cleaned = if outcome.is_ok() { laboratory.clean() } else { Ok(()) };
        drop(laboratory);
        notebook.record.stages[stage].skipped = known.skipped;
        notebook.save()?;
        let outcome = outcome?;
        cleaned?;
        Ok(outcome)
    }
}

/// The version that stands at a position: of a release the one that was built, which may be another minor.
fn version_at(notebook: &Notebook, stage: usize, chain: &Chain, position: usize) -> Option<Version> {
    let target = notebook.record.stages[stage].targets.get(&position)?;
    let built = target.0.rsplit_once('-').and_then(|(version, _)| version.parse().ok());
    match chain.places[position].revision {
        Revision::Release(version) => Some(built.unwrap_or(version)),
        Revision::Commit(_) => None,
    }
}

/// Where servers come from.
struct Supply<'a> {
    catalogue: &'a Catalogue,
    account: &'a Account,
    prepared: &'a Prepared,
    repository: Option<&'a Path>,
    builder: Builds,
    variant: Variant,
    /// Commits whose builds are in the cache.
    cached: BTreeSet<String>,
}

impl<'a> Supply<'a> {
    fn new(
        args: &SearchArgs,
        catalogue: &'a Catalogue,
        account: &'a Account,
        prepared: &'a Prepared,
        repository: Option<&'a Path>,
    ) -> Result<Self, Failure> {
        let source = match repository {
            Some(path) => Source::Git { repository: path.to_owned(), revision: None },
            None => args.servers.source.clone(),
        };
        let name = match args.servers.variants.as_slice() {
            [] => VariantName::default(),
            [name] => name.clone(),
            _ => return Err(anyhow!("a bisect compiles in one way; name one --variant").into()),
        };
        let cache = Inventory::read(&args.servers.cache_directory(account)?)?;
        let commit = |build: &build::CachedBuild| match &build.provenance {
            Provenance::Git { commit, .. } => Some(commit.clone()),
            _ => None,
        };
        Ok(Self {
            catalogue,
            account,
            prepared,
            repository,
            builder: args.servers.builder_from(&source, account)?,
            variant: Variants::builtin()?.resolve(&name)?,
            cached: cache.builds.iter().filter_map(commit).collect(),
        })
    }

    fn request(&self, release: Release, floating: bool) -> Request {
        let major = release.version.major;
        Request {
            floating,
            prebuilt_fallback: self.catalogue.latest_prebuilt(major).cloned(),
            fixups: if self.catalogue.major(major).is_ok() {
                self.catalogue.fixups(major).to_vec()
            } else {
                Vec::new()
            },
            variant: self.variant.clone(),
            release,
        }
    }
}

impl Servers for Supply<'_> {
    fn choices(&self, revision: &Revision, floating: bool) -> Result<Vec<Choice>, BuildError> {
        match (revision, self.repository) {
            (Revision::Commit(hash), Some(repository)) => {
                // The commit's own version may be in no catalogue: that of a development cycle is not.
                let version = build::version_of(repository, hash)?;
                let release = Release {
                    version,
                    date: None,
                    tag: String::new(),
                    archive: String::new(),
                    sha256: None,
                    prebuilt: None,
                };
                Ok(vec![Choice::Git { request: self.request(release, true), revision: Some(hash.clone()) }])
            }
            (Revision::Release(version), _) => {
                let release = self.catalogue.find(*version).cloned().ok_or(BuildError::NoChoice)?;
                Ok(self.builder.plan(&[self.request(release, floating)])?.into_iter().flatten().collect())
            }
            (Revision::Commit(_), None) => Err(BuildError::NoChoice),
        }
    }

    fn settings(&self, build: &Build) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        Ok(servers::settings(self.prepared, build, self.account)?)
    }

    fn is_cached(&self, revision: &Revision) -> bool {
        matches!(revision, Revision::Commit(hash) if self.cached.contains(hash))
    }
}

/// What is measured: one launch of everything that `--bench` names, with the numbers of the profile.
fn prepare(args: &SearchArgs, bench: &str, ends: &[End; 2], catalogue: &Catalogue) -> Result<Prepared, Failure> {
    let known = |end: &End| match end {
        End::Release { release, .. } => Some(release.version),
        End::Commit { .. } => None,
    };
    // A configuration is made for each server when it is known; here a release stands for it.
    let newest =
        || catalogue.majors().iter().filter_map(|major| catalogue.latest(major.major)).map(|it| it.version).max();
    let version = ends.iter().find_map(known).or_else(newest).context("the catalogue has no release")?;
    let range = ReleaseRange { terms: vec![Term::One(Bound::Version(version))] };
    let request = SweepRequest {
        rows: args.rows,
        seconds: args.seconds,
        benches: vec![bench.to_owned()],
        config: args.config.clone(),
        suite: args.suite.clone(),
        placement: Some(WantedPlacement::Fixed(args.placement)),
        precision: Some(WantedPrecision::Fixed),
        blind: Some(false),
        launches: Some(2),
        ..SweepRequest::new(range, args.profile)
    };
    Ok(sweep::prepare(&request, catalogue, measure::memory_mib())?)
}

fn question(args: &SearchArgs, ends: &str, bench: &str, prepared: &Prepared, repository: Option<PathBuf>) -> Question {
    let json =
        serde_json::to_string(&prepared.protocol).unwrap_or_else(|error| unreachable!("a protocol is JSON: {error}"));
    let (from, to) = ends.split_once("..").unwrap_or((ends, ends));
    Question {
        from: from.to_owned(),
        to: to.to_owned(),
        bench: bench.to_owned(),
        metric: args.by,
        repository,
        protocol: format!("{:x}", Sha256::digest(json)),
    }
}

/// The directory of the bisect. With `--fresh` an earlier one gets another name.
fn directory(args: &SearchArgs, question: &Question, global: &Global) -> Result<PathBuf, Failure> {
    let plain = |text: &str| text.replace(|sign: char| !sign.is_ascii_alphanumeric() && !"._=-".contains(sign), "-");
    let name = format!("{}..{}-{}", plain(&question.from), plain(&question.to), plain(&question.bench));
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        // Makes the results directory, or says why it cannot be one.
        None => Store::create_or_open(&global.results).map(|_| home(global).join(name))?,
    };
    if args.fresh && Notebook::open(&dir).is_ok() {
        let parent = dir.parent().unwrap_or(Path::new("")).to_owned();
        let stem = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut names = (1..).map(|number| parent.join(format!("{stem}.{number}")));
        let kept = names.find(|path| !path.exists()).context("there is no free name")?;
        std::fs::rename(&dir, &kept)
            .with_context(|| format!("could not rename {} to {}", dir.display(), kept.display()))?;
    }
    Ok(dir)
}

/// The repository: a directory as it is; of a URL a copy in the cache, brought up to date.
fn repository(git: &str, servers: &ServerArgs, account: &Account, printer: Printer) -> Result<PathBuf, Failure> {
    if Path::new(git).exists() {
        return absolute(Path::new(git));
    }
    if !git.contains("://") {
        return Err(anyhow!("{git} does not exist; --git takes a directory, or a URL such as https://…").into());
    }
    let hash = format!("{:x}", Sha256::digest(git));
    let copy = servers.cache_directory(account)?.join("repositories").join(&hash[..16]);
    printer.say(&format!("{git} is copied to {}", copy.display()));
    build::mirror(git, &copy)?;
    Ok(copy)
}

// ------------------------------------------------------------------------------------------ words

/// `0.912 [0.903, 0.921]`
fn effect_words(effect: &Effect) -> String {
    format!("{:.3} [{:.3}, {:.3}]", effect.mean.exp(), effect.low.exp(), effect.high.exp())
}

fn outcome_words(outcome: &Outcome, chain: &Chain) -> String {
    match outcome {
        Outcome::Found(steps) => {
            let steps: Vec<String> = steps.clone().map(|step| chain.describe(step)).collect();
            format!("found: {}", steps.join("; or "))
        }
        Outcome::Alike(effect) => {
            let bound = 100.0 * effect.bound();
            format!("the ends do not differ by more than {bound:.2} %: ratio {}", effect_words(effect))
        }
        Outcome::Unclear(Some(effect)) => {
            format!(
                "it is not clear whether the ends differ: ratio {}; measure longer (--seconds)",
                effect_words(effect)
            )
        }
        Outcome::Unclear(None) => "it is not clear whether the ends differ".to_owned(),
        Outcome::Spent => "the budget is spent; the same command goes on from here".to_owned(),
        Outcome::Exhausted => "no further launch would tell anything more".to_owned(),
    }
}

/// A line for what happened, if it deserves one. `looks` is the number of launches of the ends at the last line.
fn event_words(state: &State, event: &Event, chain: &Chain, looks: &mut Option<Ends>) -> Option<String> {
    let label = |position: usize| &chain.places[position].label;
    match event {
        Event::Ends(ends) => {
            let is_new = looks.replace(*ends) != Some(*ends);
            let blocks = state.differences(0, state.search.end()).len();
            let (Ends::Differ(effect) | Ends::Alike(effect) | Ends::Open { effect: Some(effect), .. }) = ends else {
                return None;
            };
            let (from, to) = (label(0), label(state.search.end()));
            let words = match ends {
                Ends::Differ(_) => "they differ",
                Ends::Alike(_) => "they do not",
                Ends::Open { .. } => "not clear yet",
            };
            is_new.then(|| format!("{to} relative to {from} after {blocks} blocks: {}; {words}", effect_words(effect)))
        }
        Event::Next(_) => None,
        Event::Skipped { position, reason } => Some(format!("{} is left out: {reason}", label(*position))),
        Event::Measured { observations: [a, b], posterior } => {
            let ratio = (b.log_rate - a.log_rate).exp();
            let (step, probability) = posterior.best();
            Some(format!(
                "block {}: {} relative to {}: {ratio:.3}; {:.1} bits to go, best {probability:.3} {}",
                a.block,
                label(b.position),
                label(a.position),
                posterior.entropy(),
                chain.describe(step)
            ))
        }
    }
}

/// What a bisect knows, from its directory alone.
fn show(notebook: &Notebook) -> Result<String, Failure> {
    let record = &notebook.record;
    let mut text = format!("bisect {}\n", record.question.words());
    for stage in &record.stages {
        let chain = notebook.chain(stage.level)?;
        let Some(search) = Search::new(&chain.weights()) else { continue };
        let observations = bisect::stored(notebook, stage)?;
        let mut state = State { search, observations, skipped: stage.skipped.clone() };
        for position in stage.skipped.keys() {
            state.search.skip(*position);
        }
        text.push_str(&show_stage(stage, &chain, &state));
    }
    Ok(text)
}

fn show_stage(stage: &Stage, chain: &Chain, known: &State) -> String {
    let posterior = known.posterior();
    let launches = known.observations.len();
    let mut text = format!(
        "\n{}: {} steps, {} builds, {launches} launches{}\n",
        stage.level,
        chain.candidates(),
        stage.targets.len(),
        if stage.skipped.is_empty() { String::new() } else { format!(", {} left out", stage.skipped.len()) },
    );
    if let Some(effect) = Effect::of(&known.differences(0, known.search.end()), 0.05) {
        let (from, to) = (&chain.places[0].label, &chain.last().label);
        let _ = writeln!(text, "  {to} relative to {from}: {} (95 %)", effect_words(&effect));
    }
    if posterior.effect_sd.is_finite() {
        let (effect, sd, spread) = (posterior.effect.exp(), 100.0 * posterior.effect_sd, 100.0 * posterior.spread);
        let _ = writeln!(text, "  size of the step: {effect:.3} ± {sd:.1} %; a launch scatters by {spread:.1} %");
    }
    for (position, reason) in &stage.skipped {
        let _ = writeln!(text, "  left out: {}: {reason}", chain.places[*position].label);
    }
    text + &bars(&posterior, chain)
}

/// The steps that hold 99 % of the probability, with bars.
fn bars(posterior: &Posterior, chain: &Chain) -> String {
    const WIDTH: u32 = 20;
    let credible = posterior.credible(0.99);
    let mut text = String::new();
    for (step, probability) in credible.iter().take(SHOWN) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the width")]
        let filled = (probability * f64::from(WIDTH)).round() as usize;
        let bar = format!("{}{}", "█".repeat(filled), "·".repeat(WIDTH as usize - filled));
        let _ = writeln!(text, "  {probability:.3} {bar} {}", chain.describe(*step));
    }
    let rest: f64 = credible.iter().skip(SHOWN).map(|(_, probability)| probability).sum();
    if let Some(more) = credible.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = writeln!(text, "  {rest:.3} in {more} other steps");
    }
    text
}

fn parse_metric(text: &str) -> Result<Metric, String> {
    match text {
        "qps" => Ok(Metric::Qps),
        "cpu" => Ok(Metric::Cpu),
        _ => Err("write qps or cpu".to_owned()),
    }
}

fn parse_confidence(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(confidence) if (0.5..1.0).contains(&confidence) => Ok(confidence),
        _ => Err("write a probability from 0.5 to below 1, such as 0.95".to_owned()),
    }
}

fn parse_threshold(text: &str) -> Result<f64, String> {
    match text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>() {
        Ok(percent) if (0.1..=50.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share from 0.1% to 50%".to_owned()),
    }
}
