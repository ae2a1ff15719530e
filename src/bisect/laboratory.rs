//! The real laboratory: builds from the builder, launches as blocks of two of a sweep.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::BisectError;
use super::chain::{Chain, Revision};
use super::notebook::{Metric, Notebook, Stage};
use super::run::{Failed, Laboratory};
use super::search::{Cost, Observation};
use crate::build::{BuildError, Builder, Choice};
use crate::domain::{
    Build, Finding, HostFingerprint, Origin, Outcome, Placement, SliceRecord, SweepManifest, Target, TargetId,
};
use crate::measure::{self, Bench};
use crate::store::Store;
use crate::sweep::{self, Crew, Event, Execution, LaunchPlan, Prepared, SliceKey, SweepPlan};

/// What a build is thought to take before one was made, in seconds.
const BUILD_SECONDS: f64 = 180.0;

/// Gets a server for a place.
pub trait Servers {
    /// How the build of a revision can be had, in the order in which it is tried; with `floating` another minor will do.
    fn choices(&self, revision: &Revision, floating: bool) -> Result<Vec<Choice>, BuildError>;
    /// Lines for the configuration of its server.
    fn settings(&self, build: &Build) -> Result<String, Box<dyn std::error::Error + Send + Sync>>;
    /// Whether it is known, without much work, that the build of a revision is in the cache.
    fn is_cached(&self, revision: &Revision) -> bool;
}

/// What a laboratory works with.
pub struct Materials<'a> {
    /// One or more microbenchmarks and the numbers to measure them with.
    pub prepared: &'a Prepared,
    /// Where servers come from.
    pub servers: &'a dyn Servers,
    /// What makes them.
    pub builder: &'a dyn Builder,
    /// Where launches happen.
    pub bench: &'a dyn Bench,
    /// Where data directories go.
    pub clusters: PathBuf,
    /// The machine.
    pub host: HostFingerprint,
    /// What was found out about the machine before.
    pub doctor: Vec<Finding>,
    /// Which CPUs client and servers use.
    pub placement: Placement,
    /// The command line.
    pub arguments: Vec<String>,
    /// Receives what happens.
    pub events: &'a mut dyn FnMut(Event),
}

/// Real servers on this machine. Its launches are slices of a sweep of the notebook's results, one sweep per stage.
pub struct LiveLaboratory<'a> {
    materials: Materials<'a>,
    notebook: &'a mut Notebook,
    stage: usize,
    chain: &'a Chain,
    store: Store,
    manifest: Option<SweepManifest>,
    settings: BTreeMap<TargetId, String>,
    slices: Vec<SliceRecord>,
    /// Positions whose build was found in the cache beforehand.
    cached: BTreeSet<usize>,
    block_seconds: Vec<f64>,
    begin: Instant,
}

impl<'a> LiveLaboratory<'a> {
    /// Goes on with what the notebook has of a stage.
    pub fn open(
        materials: Materials<'a>,
        notebook: &'a mut Notebook,
        stage: usize,
        chain: &'a Chain,
    ) -> Result<Self, BisectError> {
        let store = Store::create_or_open(notebook.results())?;
        let prepared =
            Prepared { name: Some(chain.level.to_string()), blind: false, base: 0, ..materials.prepared.clone() };
        let manifest = sweep::find(&store, &prepared, &materials.host)?;
        let slices = manifest.as_ref().map(|manifest| store.slices(&manifest.id)).transpose()?.unwrap_or_default();
        let is_cached = |position: &usize| materials.servers.is_cached(&chain.places[*position].revision);
        let cached = (0..chain.places.len()).filter(is_cached).collect();
        Ok(Self {
            materials,
            notebook,
            stage,
            chain,
            store,
            manifest,
            settings: BTreeMap::new(),
            slices,
            cached,
            block_seconds: Vec::new(),
            begin: Instant::now(),
        })
    }

    /// All launches that the results hold.
    #[must_use]
    pub fn observations(&self) -> Vec<Observation> {
        let benches = &self.materials.prepared.protocol.microbenchmarks;
        observations(&self.slices, &self.stage().targets, benches, self.notebook.record.question.metric)
    }

    /// Removes the data directories that regtrack made for this stage.
    pub fn clean(&self) -> Result<(), BisectError> {
        match &self.manifest {
            None => Ok(()),
            Some(manifest) => Ok(measure::remove_stale(&self.materials.clusters.join(&manifest.id), &BTreeSet::new())?),
        }
    }

    fn stage(&self) -> &Stage {
        &self.notebook.record.stages[self.stage]
    }

    fn stage_mut(&mut self) -> &mut Stage {
        &mut self.notebook.record.stages[self.stage]
    }

    /// Takes in the build of a position: a target of the sweep from now on.
    fn admit(&mut self, position: usize, build: &Build) -> Result<(), BisectError> {
        let label = self.chain.places[position].label.clone();
        let same_server = |target: &&Target| {
            target.build.as_ref().is_some_and(|other| {
                other.key == build.key || other.fingerprint.postgres_sha256 == build.fingerprint.postgres_sha256
            })
        };
        let known = self.manifest.iter().flat_map(|manifest| &manifest.targets).find(same_server);
        let target = known.cloned().unwrap_or_else(|| Target {
            id: TargetId(format!("{}-{}", build.version, build.key.get(..8).unwrap_or(&build.key))),
            label: label.clone(),
            version: build.version,
            build: Some(build.clone()),
            brake: None,
            imported: None,
            settings: BTreeMap::new(),
            data_digest: None,
        });
        if known.is_some() && target.label != label {
            self.notebook.log(&format!("{label} is the same server as {}", target.label))?;
        }
        let settings = self.materials.servers.settings(build);
        let settings = settings.map_err(|source| BisectError::Settings { label, source })?;
        self.settings.insert(target.id.clone(), settings);
        self.stage_mut().targets.insert(position, target.id.clone());
        self.notebook.save()?;
        self.enter(target)
    }

    /// Puts a target into the sweep's manifest; the first one begins the sweep or finds it again.
    fn enter(&mut self, target: Target) -> Result<(), BisectError> {
        let Some(manifest) = &mut self.manifest else {
            let manifest = self.begin_sweep(target)?;
            self.manifest = Some(manifest);
            return Ok(());
        };
        if let Some(known) = manifest.targets.iter_mut().find(|known| known.id == target.id) {
            // The tree may lie elsewhere than in an earlier call.
            known.build = target.build;
        } else {
            manifest.targets.push(target);
        }
        Ok(self.store.write_manifest(manifest)?)
    }

    fn begin_sweep(&self, target: Target) -> Result<SweepManifest, BisectError> {
        let Materials { prepared, host, doctor, arguments, placement, .. } = &self.materials;
        let name = Some(self.chain.level.to_string());
        let prepared = Prepared { name, blind: false, base: 0, ..(*prepared).clone() };
        let (host, doctor) = (host.clone(), doctor.clone());
        let mut manifest = sweep::open(&self.store, &prepared, vec![target], host, doctor, arguments, false)?;
        manifest.placement = Some(*placement);
        self.store.write_manifest(&manifest)?;
        Ok(manifest)
    }

    /// The plan of the next block, with these targets only.
    fn plan(&self, manifest: &SweepManifest, targets: &[TargetId]) -> (u32, SweepPlan) {
        let prepared = self.materials.prepared;
        let block = self.slices.iter().map(|slice| slice.block).max().unwrap_or(0) + 1;
        let protocol = &prepared.protocol;
        let wanted = protocol.microbenchmarks.iter().map(|name| (name.clone(), block)).collect();
        let key = |block, target: &TargetId, name: &String| SliceKey {
            block,
            target: target.clone(),
            microbenchmark: name.clone(),
        };
        // What came before is over, whatever it holds.
        let before = (1..block).flat_map(|block| targets.iter().map(move |target| (block, target)));
        let over: BTreeSet<SliceKey> = before
            .flat_map(|(block, target)| protocol.microbenchmarks.iter().map(move |name| key(block, target, name)))
            .collect();
        (block, sweep::plan(&manifest.id, &prepared.suite, protocol, targets, &wanted, &over))
    }

    /// Runs a block of these targets and returns its slices.
    fn block(&mut self, targets: &[TargetId]) -> Result<Vec<SliceRecord>, BisectError> {
        let Some(manifest) = self.manifest.clone() else { return Ok(Vec::new()) };
        let (block, plan) = self.plan(&manifest, targets);
        let prepared = self.materials.prepared;
        let crew = Crew::fitting(&prepared.protocol, 2, prepared.memory_mib);
        let clusters = &self.materials.clusters;
        self.keep_templates(&clusters.join(&manifest.id), &plan)?;
        let mut execution = Execution {
            store: &self.store,
            manifest,
            suite: Arc::clone(&prepared.suite),
            settings: self.settings.clone(),
            init: prepared.init_options(),
            clusters: clusters.clone(),
            crew,
            events: self.materials.events,
        };
        let walked = sweep::execute(&plan, self.materials.bench, &mut execution);
        self.manifest = Some(execution.manifest);
        walked?;
        let id = self.manifest.as_ref().map(|manifest| manifest.id.clone()).unwrap_or_default();
        self.slices = self.store.slices(&id)?;
        Ok(self.slices.iter().filter(|slice| slice.block == block).cloned().collect())
    }

    /// Loaded data is kept of the ends and of what this plan launches; the rest would fill the disk.
    fn keep_templates(&self, clusters: &Path, plan: &SweepPlan) -> Result<(), BisectError> {
        let mut wanted: BTreeSet<String> = plan.launches.iter().map(LaunchPlan::template).collect();
        let ends = [0, self.chain.links.len()];
        let ends = ends.iter().filter_map(|end| self.stage().targets.get(end));
        wanted.extend(ends.map(|target| format!("template-{target}")));
        wanted.extend(plan.launches.iter().map(|launch| launch.name.clone()));
        Ok(measure::remove_stale(clusters, &wanted)?)
    }
}

impl Laboratory for LiveLaboratory<'_> {
    fn label(&self, position: usize) -> String {
        self.chain.places[position].label.clone()
    }

    fn cost(&self, position: usize) -> Cost {
        let mean = |seconds: &[f64], otherwise: f64| match seconds {
            [] => otherwise,
            seconds => seconds.iter().sum::<f64>() / seconds.len() as f64,
        };
        let is_there = self.stage().targets.contains_key(&position) || self.cached.contains(&position);
        let build = if is_there { 0.0 } else { mean(&self.stage().build_seconds, BUILD_SECONDS) };
        let launch = mean(&self.block_seconds, self.materials.prepared.protocol.read_seconds * 4.0 + 20.0);
        Cost { build, launch }
    }

    fn build(&mut self, position: usize) -> Result<Result<(), String>, BisectError> {
        let place = &self.chain.places[position];
        let choices = match self.materials.servers.choices(&place.revision, place.floating) {
            Ok(choices) => choices,
            // It cannot be had this way, for example as a package: others can.
            Err(error) if !error.concerns_cache() => return Ok(Err(first_line(&error))),
            Err(error) => return Err(error.into()),
        };
        let (number, of) = (position + 1, self.chain.places.len());
        let choice = self.label(position);
        (self.materials.events)(Event::BuildStarted { number, of, choice });
        let begin = Instant::now();
        let events = &mut *self.materials.events;
        let provided = self.materials.builder.provide(&choices, &mut |note| events(Event::Note(note.to_owned())));
        if crate::process::is_interrupted() {
            return Err(BisectError::Interrupted);
        }
        match provided {
            Ok(build) => {
                let is_known = self.cached.contains(&position) || self.stage().targets.contains_key(&position);
                // What comes from the cache after all says nothing about what a build takes.
                if !is_known && begin.elapsed() > Duration::from_secs(5) {
                    let seconds = begin.elapsed().as_secs_f64();
                    self.stage_mut().build_seconds.push(seconds);
                    self.notebook.log(&format!("{}: built in {seconds:.0} s", self.label(position)))?;
                }
                self.admit(position, &build)?;
                Ok(Ok(()))
            }
            Err(error) if error.concerns_cache() => Err(error.into()),
            Err(error) => Ok(Err(first_line(&error))),
        }
    }

    fn measure(&mut self, positions: [usize; 2]) -> Result<Result<[Observation; 2], Failed>, BisectError> {
        let mut positions = positions;
        // A reference may not have been built in this call.
        for position in positions {
            let is_ready = self.stage().targets.get(&position).is_some_and(|id| self.settings.contains_key(id));
            if !is_ready && let Err(reason) = self.build(position)? {
                return Ok(Err(Failed { position, reason }));
            }
        }
        let mut targets = positions.map(|position| self.stage().targets[&position].clone());
        if targets[0] == targets[1] {
            // The same server as the end to compare with: the other end tells as much.
            let other = if positions[0] == 0 { self.chain.links.len() } else { 0 };
            if let Err(reason) = self.build(other)? {
                return Ok(Err(Failed { position: other, reason }));
            }
            positions[0] = other;
            targets[0] = self.stage().targets[&other].clone();
            if targets[0] == targets[1] {
                let (from, to) = (self.label(0), self.label(self.chain.links.len()));
                return Err(BisectError::SameServer { from, to });
            }
        }
        let begin = Instant::now();
        let slices = self.block(&targets)?;
        self.block_seconds.push(begin.elapsed().as_secs_f64());
        for (position, target) in positions.iter().zip(&targets) {
            let mine = slices.iter().filter(|slice| slice.target == *target);
            let failure = mine.filter_map(|slice| match &slice.outcome {
                Outcome::Failed(reason) => Some(reason.clone()),
                Outcome::Measured(_) => None,
            });
            if let Some(reason) = failure.into_iter().next() {
                return Ok(Err(Failed { position: *position, reason }));
            }
        }
        let by_target = positions.iter().copied().zip(targets).collect();
        let benches = &self.materials.prepared.protocol.microbenchmarks;
        let found = observations(&slices, &by_target, benches, self.notebook.record.question.metric);
        let of = |position| found.iter().find(|one| one.position == position).copied();
        match positions.map(of) {
            [Some(a), Some(b)] => Ok(Ok([a, b])),
            [None, _] => Ok(Err(Failed { position: positions[0], reason: "it was not measured".to_owned() })),
            [_, None] => Ok(Err(Failed { position: positions[1], reason: "it was not measured".to_owned() })),
        }
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// All launches that a notebook's results hold of a stage.
pub fn stored(notebook: &Notebook, stage: &Stage) -> Result<Vec<Observation>, BisectError> {
    let store = Store::create_or_open(notebook.results())?;
    let Some(manifest) = store.manifest(&stage.level.to_string())? else { return Ok(Vec::new()) };
    let Origin::Measured { protocol, .. } = &manifest.origin else { return Ok(Vec::new()) };
    let slices = store.slices(&manifest.id)?;
    Ok(observations(&slices, &stage.targets, &protocol.microbenchmarks, notebook.record.question.metric))
}

/// The launches that have all their microbenchmarks: of several, the mean of the logarithms. A server that stands at
/// several positions counts at the first.
fn observations(
    slices: &[SliceRecord],
    targets: &BTreeMap<usize, TargetId>,
    benches: &[String],
    metric: Metric,
) -> Vec<Observation> {
    let mut positions: BTreeMap<&TargetId, usize> = BTreeMap::new();
    for (position, target) in targets {
        positions.entry(target).or_insert(*position);
    }
    let mut rates: BTreeMap<(u32, usize), Vec<f64>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| benches.contains(&slice.microbenchmark)) {
        let (Some(position), Outcome::Measured(measurement)) = (positions.get(&slice.target), &slice.outcome) else {
            continue;
        };
        if let Some(rate) = metric.rate(measurement) {
            rates.entry((slice.block, *position)).or_default().push(rate.ln());
        }
    }
    let complete = rates.into_iter().filter(|(_, rates)| rates.len() == benches.len());
    let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / rates.len() as f64;
    complete.map(|((block, position), rates)| Observation { block, position, log_rate: mean(rates) }).collect()
}

/// An error with its causes, without what a compiler printed after the first line.
fn first_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {}", cause.to_string().lines().next().unwrap_or_default());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Measurement;

    fn slice(block: u32, target: &str, name: &str, queries: u64) -> SliceRecord {
        let measurement = Measurement { queries, seconds: 1.0, ..Measurement::default() };
        SliceRecord {
            block,
            target: TargetId(target.to_owned()),
            launch: format!("b{block}-{target}"),
            server_start: 1,
            microbenchmark: name.to_owned(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            outcome: match queries {
                0 => Outcome::Failed("gone".to_owned()),
                _ => Outcome::Measured(Box::new(measurement)),
            },
        }
    }

    #[test]
    fn a_launch_counts_once_and_only_with_all_its_microbenchmarks() {
        let slices = [
            slice(1, "a", "x", 100),
            slice(1, "a", "y", 400),
            slice(1, "b", "x", 100),
            slice(1, "b", "y", 0),
            slice(2, "b", "x", 50),
            slice(2, "b", "y", 50),
            slice(2, "b", "other", 1),
            slice(2, "c", "x", 1),
        ];
        let target = |name: &str| TargetId(name.to_owned());
        // The server b stands at two positions.
        let targets = [(0, target("a")), (3, target("b")), (5, target("b"))].into();
        let found = observations(&slices, &targets, &["x".to_owned(), "y".to_owned()], Metric::Qps);
        let expected = [(1, 0, 200.0_f64), (2, 3, 50.0)];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (one, (block, position, rate)) in found.iter().zip(expected) {
            assert_eq!((one.block, one.position), (block, position));
            assert!((one.log_rate - rate.ln()).abs() < 1e-12);
        }
    }
}
