//! Walks a plan: launch by launch, step by step, storing every slice as soon as it exists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::plan::{LaunchPlan, Step, SweepPlan, slice_seconds};
use super::{Event, SweepError};
use crate::domain::{Measurement, Microbenchmark, Outcome, RateUnit, SliceRecord, Suite, SweepManifest, TargetId};
use crate::measure::{Bench, Launch, LaunchFacts, LaunchSpec, MeasureError, postwrite_name};
use crate::server::{InitOptions, ServerError};
use crate::store::Store;

/// A file system with less room than this is called full.
const FULL_DISK_BYTES: u64 = 64 << 20;

/// What a walk needs.
pub struct Execution<'a> {
    /// Where slices go.
    pub store: &'a Store,
    /// The sweep; its targets learn settings and data digest as launches come up.
    pub manifest: SweepManifest,
    /// The suite.
    pub suite: Arc<Suite>,
    /// Lines for postgresql.conf, per target.
    pub settings: BTreeMap<TargetId, String>,
    /// What initdb decides.
    pub init: InitOptions,
    /// Directory for clusters.
    pub clusters: PathBuf,
    /// Receives what happens.
    pub events: &'a mut dyn FnMut(Event),
}

/// How the slices of a walk came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Slices measured.
    pub measured: usize,
    /// Slices that failed.
    pub failed: usize,
}

/// Runs every launch of `plan`. A failure of one cell or one launch is stored and the walk goes on;
/// an interruption or a failure of the results directory ends it, with everything stored so far
/// kept.
pub fn execute(plan: &SweepPlan, bench: &mut dyn Bench, execution: &mut Execution<'_>) -> Result<Walked, SweepError> {
    let mut walked = Walked::default();
    for (index, launch) in plan.launches.iter().enumerate() {
        let target = execution.label(&launch.target);
        let (number, of, block) = (index + 1, plan.launches.len(), launch.block);
        (execution.events)(Event::LaunchStarted { number, of, block, target });
        let _span = tracing::info_span!("launch", name = launch.name).entered();
        let mut walk = LaunchWalk { plan: launch, execution, walked: &mut walked };
        walk.run(bench)?;
    }
    Ok(walked)
}

struct LaunchWalk<'a, 'b> {
    plan: &'a LaunchPlan,
    execution: &'a mut Execution<'b>,
    walked: &'a mut Walked,
}

impl LaunchWalk<'_, '_> {
    fn run(&mut self, bench: &mut dyn Bench) -> Result<(), SweepError> {
        let Some(spec) = self.execution.launch_spec(self.plan)? else {
            let reason = format!("there is no build of {}", self.execution.label(&self.plan.target));
            return self.fail_rest(0, 0, &reason);
        };
        let mut launch = match bench.open(&spec) {
            Ok(launch) => launch,
            Err(error) => return self.fail_or_stop(0, error),
        };
        self.execution.record_facts(&self.plan.target, launch.facts())?;
        let ended = self.walk_steps(launch.as_mut());
        // An interrupted launch keeps its cluster, so that it can go on from here.
        let keep = ended.is_err();
        let closed = launch.close(keep);
        ended?;
        if let Err(error) = closed {
            (self.execution.events)(Event::Note(format!("{}: {}", self.plan.name, chain(&error))));
        }
        Ok(())
    }

    fn walk_steps(&mut self, launch: &mut dyn Launch) -> Result<(), SweepError> {
        let steps = &self.plan.steps;
        let last_wanted = steps.iter().rposition(|step| matches!(step, Step::Measure { wanted: true, .. }));
        for (at, step) in steps.iter().enumerate().take(last_wanted.map_or(0, |last| last + 1)) {
            let result = match step {
                Step::Postwrite { after } if launch.facts().done.contains(&postwrite_name(*after)) => Ok(()),
                Step::Postwrite { after } => {
                    (self.execution.events)(Event::Postwrite);
                    launch.postwrite(*after)
                }
                Step::Measure { index, wanted } => self.measure(launch, *index, *wanted)?,
            };
            let Err(error) = result else { continue };
            let error = self.unless_sweep_wide(error)?;
            (self.execution.events)(Event::Note(chain(&error)));
            // The cell is lost; the launch may not be.
            if let Err(error) = launch.recover() {
                return self.fail_or_stop(at + 1, error);
            }
        }
        Ok(())
    }

    /// Measures one microbenchmark, or runs a stored one for its effect on the table. The outer
    /// error ends the sweep, the inner one is this cell's.
    fn measure(
        &mut self,
        launch: &mut dyn Launch,
        index: usize,
        wanted: bool,
    ) -> Result<Result<(), MeasureError>, SweepError> {
        let suite = Arc::clone(&self.execution.suite);
        let microbenchmark = &suite.microbenchmarks[index];
        if !wanted {
            let needed = microbenchmark.writes() && !launch.facts().done.contains(&microbenchmark.name);
            return Ok(if needed { launch.measure(microbenchmark).map(|_| ()) } else { Ok(()) });
        }
        let target = self.execution.label(&self.plan.target);
        let (name, seconds) = (microbenchmark.name.clone(), self.execution.slice_seconds(microbenchmark));
        (self.execution.events)(Event::SliceStarted { target, microbenchmark: name, seconds });
        let _span = tracing::info_span!("slice", name = microbenchmark.name).entered();
        match launch.measure(microbenchmark) {
            Ok((started_at, measurement)) => {
                let rate = self.execution.rate(microbenchmark, &measurement);
                tracing::debug!(rate, events = measurement.events, seconds = measurement.seconds, "measured");
                let server_start = launch.facts().server_start;
                self.store(microbenchmark, server_start, started_at, Outcome::Measured(Box::new(measurement)))?;
                (self.execution.events)(Event::SliceDone { rate, unit: microbenchmark.unit });
                Ok(Ok(()))
            }
            Err(error) => {
                let error = self.unless_sweep_wide(error)?;
                let failure = Outcome::Failed(chain(&error));
                self.store(microbenchmark, launch.facts().server_start, Timestamp::now(), failure)?;
                (self.execution.events)(Event::SliceFailed);
                Ok(Err(error))
            }
        }
    }

    fn fail_or_stop(&mut self, from: usize, error: MeasureError) -> Result<(), SweepError> {
        let error = self.unless_sweep_wide(error)?;
        self.fail_rest(from, 0, &chain(&error))
    }

    /// Stores a failure for every wanted slice from step `from` on.
    fn fail_rest(&mut self, from: usize, server_start: u32, reason: &str) -> Result<(), SweepError> {
        let label = self.execution.label(&self.plan.target);
        (self.execution.events)(Event::Note(format!("{label}: {reason}")));
        let suite = Arc::clone(&self.execution.suite);
        for step in &self.plan.steps[from..] {
            let Step::Measure { index, wanted: true } = step else { continue };
            let failure = Outcome::Failed(reason.to_owned());
            self.store(&suite.microbenchmarks[*index], server_start, Timestamp::now(), failure)?;
            (self.execution.events)(Event::SliceFailed);
        }
        Ok(())
    }

    fn store(
        &mut self,
        microbenchmark: &Microbenchmark,
        server_start: u32,
        started_at: Timestamp,
        outcome: Outcome,
    ) -> Result<(), SweepError> {
        match outcome {
            Outcome::Measured(_) => self.walked.measured += 1,
            Outcome::Failed(_) => self.walked.failed += 1,
        }
        let record = SliceRecord {
            block: self.plan.block,
            target: self.plan.target.clone(),
            launch: self.plan.name.clone(),
            server_start,
            microbenchmark: microbenchmark.name.clone(),
            started_at,
            outcome,
        };
        Ok(self.execution.store.append(&self.execution.manifest.id, &record)?)
    }

    /// An interruption, a port that someone else has and a full disk end the sweep; everything else is
    /// the cell's own and is handed back.
    fn unless_sweep_wide(&self, error: MeasureError) -> Result<MeasureError, SweepError> {
        match error {
            MeasureError::Interrupted => return Err(SweepError::Interrupted),
            // What fails while regtrack is asked to stop fails because of that.
            _ if crate::process::is_interrupted() => return Err(SweepError::Interrupted),
            MeasureError::Server(ServerError::PortInUse { .. } | ServerError::DefaultPort) => return Err(error.into()),
            _ => {}
        }
        let path = &self.execution.clusters;
        match rustix::fs::statvfs(path) {
            Ok(space) if space.f_bavail * space.f_frsize < FULL_DISK_BYTES => {
                Err(SweepError::DiskFull { path: path.clone(), cause: chain(&error) })
            }
            _ => Ok(error),
        }
    }
}

impl Execution<'_> {
    pub(super) fn label(&self, target: &TargetId) -> String {
        let found = self.manifest.targets.iter().find(|candidate| candidate.id == *target);
        found.map_or_else(|| target.to_string(), |target| target.label.clone())
    }

    pub(super) fn protocol(&self) -> &crate::domain::Protocol {
        match &self.manifest.origin {
            crate::domain::Origin::Measured { protocol, .. } => protocol,
            crate::domain::Origin::Imported { .. } => unreachable!("an imported sweep is never executed"),
        }
    }

    fn slice_seconds(&self, microbenchmark: &Microbenchmark) -> Option<f64> {
        slice_seconds(microbenchmark.clock, self.protocol())
    }

    /// The rate in the unit in which the microbenchmark is shown.
    fn rate(&self, microbenchmark: &Microbenchmark, measurement: &Measurement) -> f64 {
        match microbenchmark.unit {
            RateUnit::Qps => measurement.qps(),
            RateUnit::MegarowsPerSecond => measurement.qps() * self.protocol().rows as f64 / 1e6,
        }
    }

    /// `None` when the target could not be built.
    pub(super) fn launch_spec(&self, plan: &LaunchPlan) -> Result<Option<LaunchSpec>, SweepError> {
        let target = self.manifest.targets.iter().find(|target| target.id == plan.target);
        let brake = target.and_then(|target| target.brake);
        let build = target.and_then(|target| target.build.clone());
        let Some((build, settings)) = build.zip(self.settings.get(&plan.target).cloned()) else { return Ok(None) };
        Ok(Some(LaunchSpec {
            directory: self.clusters.join(&self.manifest.id).join(&plan.name),
            log: self.store.log(&self.manifest.id, &plan.name)?,
            build,
            brake,
            settings,
            init: self.init.clone(),
            suite: Arc::clone(&self.suite),
            protocol: self.protocol().clone(),
            seed: plan.seed,
        }))
    }

    /// Settings and digest become known when a launch is up.
    fn record_facts(&mut self, target: &TargetId, facts: &LaunchFacts) -> Result<(), SweepError> {
        if let Some(target) = self.manifest.targets.iter_mut().find(|candidate| candidate.id == *target) {
            target.settings.clone_from(&facts.settings);
            let earlier = target.data_digest.replace(facts.data_digest.clone());
            if let Some(expected) = earlier.filter(|earlier| *earlier != facts.data_digest) {
                let (target, found) = (target.label.clone(), facts.data_digest.clone());
                return Err(SweepError::OtherRows { target, found, expected });
            }
        }
        self.manifest.updated_at = Timestamp::now();
        Ok(self.store.write_manifest(&self.manifest)?)
    }
}

/// An error with its causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
