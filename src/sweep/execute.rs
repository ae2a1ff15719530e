//! Walks a plan: crew by crew, step by step, storing every slice as soon as it exists.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::plan::{Crew, LaunchPlan, Step, SweepPlan};
use super::{Event, SweepError};
use crate::domain::{Measurement, Microbenchmark, Outcome, RateUnit, SliceRecord, Suite, SweepManifest, TargetId};
use crate::measure::{
    self, Bench, Launch, LaunchFacts, LaunchSpec, MeasureError, Member as Part, postwrite_name, slice_seconds,
};
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
    /// Which launches are up together.
    pub crew: Crew,
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
    /// Microbenchmarks that are not settled because the budget is spent.
    pub open: usize,
}

/// Runs every launch of `plan`, those of a crew together. A failure of one cell or one launch is stored and the walk
/// goes on; an interruption or a failure of the results directory ends it, with everything stored so far kept.
pub fn execute(plan: &SweepPlan, bench: &dyn Bench, execution: &mut Execution<'_>) -> Result<Walked, SweepError> {
    let mut walked = Walked::default();
    let (mut number, of) = (0, plan.launches.len());
    for crew in plan.crews(execution.crew.size) {
        let mut walk = CrewWalk { execution, walked: &mut walked, members: Vec::new() };
        let ended = walk.open(crew, bench, &mut number, of).and_then(|()| walk.steps());
        // What was interrupted keeps its clusters, so that it can go on from here.
        walk.close(ended.is_err());
        ended?;
    }
    Ok(walked)
}

/// Launches that are up together, walked step by step.
struct CrewWalk<'a, 'b> {
    execution: &'a mut Execution<'b>,
    walked: &'a mut Walked,
    members: Vec<Member<'a>>,
}

/// A launch of a crew.
struct Member<'a> {
    plan: &'a LaunchPlan,
    launch: Box<dyn Launch + 'a>,
    /// Index of the last step for which it is needed.
    last: usize,
    /// Cleared when its server is lost and does not come back.
    is_up: bool,
}

impl Member<'_> {
    /// Whether the slice of step `at` is missing.
    fn wants(&self, at: usize) -> bool {
        matches!(self.plan.steps[at], Step::Measure { wanted: true, .. })
    }
}

impl<'a> CrewWalk<'a, '_> {
    /// Brings the launches up. One that cannot be is stored as failed, and the others go on.
    fn open(
        &mut self,
        crew: &'a [LaunchPlan],
        bench: &'a dyn Bench,
        number: &mut usize,
        of: usize,
    ) -> Result<(), SweepError> {
        for plan in crew {
            *number += 1;
            let target = self.execution.label(&plan.target);
            (self.execution.events)(Event::LaunchStarted { number: *number, of, block: plan.block, target });
            let _span = tracing::info_span!("launch", name = plan.name).entered();
            let Some(spec) = self.execution.launch_spec(plan)? else {
                let reason = format!("there is no build of {}", self.execution.label(&plan.target));
                self.fail_rest(plan, 0, 0, &reason)?;
                continue;
            };
            let last = plan.steps.iter().rposition(|step| matches!(step, Step::Measure { wanted: true, .. }));
            match bench.open(&spec) {
                Ok(launch) => {
                    self.execution.record_facts(&plan.target, launch.facts())?;
                    self.members.push(Member { plan, launch, last: last.unwrap_or(0), is_up: true });
                }
                Err(error) => {
                    let error = self.unless_sweep_wide(error)?;
                    self.fail_rest(plan, 0, 0, &chain(&error))?;
                }
            }
        }
        Ok(())
    }

    /// All launches of a crew have the same steps; which of them are wanted differs.
    fn steps(&mut self) -> Result<(), SweepError> {
        let steps = self.members.first().map_or(0, |member| member.plan.steps.len());
        for at in 0..steps {
            let _span = tracing::info_span!("step", at).entered();
            match self.members[0].plan.steps[at] {
                Step::Postwrite { after } => self.postwrite(at, after)?,
                Step::Measure { index, .. } => self.measure(at, index)?,
            }
        }
        Ok(())
    }

    fn postwrite(&mut self, at: usize, after: u32) -> Result<(), SweepError> {
        let mut failures = Vec::new();
        for (index, member) in self.members.iter_mut().enumerate() {
            let is_done = member.launch.facts().done.contains(&postwrite_name(after));
            if member.is_up && at <= member.last && !is_done {
                (self.execution.events)(Event::Postwrite);
                failures.extend(member.launch.postwrite(after).err().map(|error| (index, error)));
            }
        }
        self.recover(at, failures)
    }

    /// Measures one microbenchmark on all members that want it. A stored one is run again only for its effect on the
    /// table, where a later step needs that.
    fn measure(&mut self, at: usize, index: usize) -> Result<(), SweepError> {
        let suite = Arc::clone(&self.execution.suite);
        let microbenchmark = &suite.microbenchmarks[index];
        let is_needed = |member: &Member<'_>| {
            let effect = microbenchmark.writes() && !member.launch.facts().done.contains(&microbenchmark.name);
            member.is_up && at <= member.last && (member.wants(at) || effect)
        };
        let taking_part: Vec<usize> = (0..self.members.len()).filter(|at| is_needed(&self.members[*at])).collect();
        let Some(first) = taking_part.first() else { return Ok(()) };
        let seed = self.members[*first].plan.seed.wrapping_add(u64::from(microbenchmark.step));
        self.announce(at, microbenchmark, &taking_part);
        let members = self.members.iter_mut().enumerate().filter(|(at, _)| taking_part.contains(at));
        let mut parts: Vec<Part<'_>> = members.map(|(_, member)| Part::new(member.launch.as_mut())).collect();
        let outcomes = measure::measure(&mut parts, microbenchmark, self.execution.protocol(), seed);
        drop(parts);
        let mut failures = Vec::new();
        for (index, outcome) in taking_part.into_iter().zip(outcomes) {
            match outcome {
                Ok((started_at, measurement)) if self.members[index].wants(at) => {
                    self.measured(index, microbenchmark, started_at, measurement)?;
                }
                Ok(_) => {}
                Err(error) => failures.push((index, error)),
            }
        }
        // After what was measured beside it is stored: an error may end the sweep.
        let mut lost = Vec::new();
        for (index, error) in failures {
            let error = match self.unless_sweep_wide(error) {
                Err(SweepError::DiskFull { path, cause }) => {
                    // The results may be on the disk that is full: what matters more is to say so.
                    let _ = self.failed(at, index, microbenchmark, &cause);
                    return Err(SweepError::DiskFull { path, cause });
                }
                other => other?,
            };
            self.failed(at, index, microbenchmark, &chain(&error))?;
            lost.push((index, error));
        }
        self.recover(at, lost)
    }

    /// Stores that a member has no slice of a step that wanted one.
    fn failed(
        &mut self,
        at: usize,
        index: usize,
        microbenchmark: &Microbenchmark,
        reason: &str,
    ) -> Result<(), SweepError> {
        if self.members[index].wants(at) {
            let (plan, server_start) = self.member(index);
            self.store(plan, microbenchmark, server_start, Timestamp::now(), Outcome::Failed(reason.to_owned()))?;
            (self.execution.events)(Event::SliceFailed);
        }
        Ok(())
    }

    /// Says which targets' slices begin, if any is wanted.
    fn announce(&mut self, at: usize, microbenchmark: &Microbenchmark, taking_part: &[usize]) {
        let wanted = taking_part.iter().map(|index| &self.members[*index]).filter(|member| member.wants(at));
        let targets: Vec<String> = wanted.map(|member| self.execution.label(&member.plan.target)).collect();
        if !targets.is_empty() {
            let seconds = slice_seconds(microbenchmark.clock, self.execution.protocol());
            let microbenchmark = microbenchmark.name.clone();
            (self.execution.events)(Event::SliceStarted { targets, microbenchmark, seconds });
        }
    }

    fn measured(
        &mut self,
        index: usize,
        microbenchmark: &Microbenchmark,
        started_at: Timestamp,
        measurement: Measurement,
    ) -> Result<(), SweepError> {
        let (plan, server_start) = self.member(index);
        let rate = self.execution.rate(microbenchmark, &measurement);
        let target = self.execution.label(&plan.target);
        let (events, seconds, noise) = (measurement.events, measurement.seconds, measurement.noise.join("; "));
        tracing::debug!(target, name = microbenchmark.name, rate, events, seconds, noise, "measured");
        self.store(plan, microbenchmark, server_start, started_at, Outcome::Measured(Box::new(measurement)))?;
        let (microbenchmark, unit) = (microbenchmark.name.clone(), microbenchmark.unit);
        (self.execution.events)(Event::SliceDone { target, microbenchmark, rate, unit });
        Ok(())
    }

    /// Plan and number of the server start of a member.
    fn member(&self, index: usize) -> (&'a LaunchPlan, u32) {
        let member = &self.members[index];
        (member.plan, member.launch.facts().server_start)
    }

    /// Starts the servers of members again that failed in step `at`: the cell is lost, the launch may not be.
    fn recover(&mut self, at: usize, failures: Vec<(usize, MeasureError)>) -> Result<(), SweepError> {
        for (index, error) in failures {
            let error = self.unless_sweep_wide(error)?;
            (self.execution.events)(Event::Note(chain(&error)));
            if let Err(error) = self.members[index].launch.recover() {
                let error = self.unless_sweep_wide(error)?;
                self.members[index].is_up = false;
                let (plan, _) = self.member(index);
                self.fail_rest(plan, at + 1, 0, &chain(&error))?;
            }
        }
        Ok(())
    }

    fn close(&mut self, keep: bool) {
        for member in self.members.drain(..) {
            if let Err(error) = member.launch.close(keep) {
                (self.execution.events)(Event::Note(format!("{}: {}", member.plan.name, chain(&error))));
            }
        }
    }

    /// Stores a failure for every wanted slice from step `from` on.
    fn fail_rest(&mut self, plan: &LaunchPlan, from: usize, server_start: u32, reason: &str) -> Result<(), SweepError> {
        let label = self.execution.label(&plan.target);
        (self.execution.events)(Event::Note(format!("{label}: {reason}")));
        let suite = Arc::clone(&self.execution.suite);
        for step in &plan.steps[from..] {
            let Step::Measure { index, wanted: true } = step else { continue };
            let failure = Outcome::Failed(reason.to_owned());
            self.store(plan, &suite.microbenchmarks[*index], server_start, Timestamp::now(), failure)?;
            (self.execution.events)(Event::SliceFailed);
        }
        Ok(())
    }

    fn store(
        &mut self,
        plan: &LaunchPlan,
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
            block: plan.block,
            target: plan.target.clone(),
            launch: plan.name.clone(),
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
        let found = self.manifest.launched().find(|candidate| candidate.id == *target);
        found.map_or_else(|| target.to_string(), |target| target.label.clone())
    }

    pub(super) fn protocol(&self) -> &crate::domain::Protocol {
        match &self.manifest.origin {
            crate::domain::Origin::Measured { protocol, .. } => protocol,
            crate::domain::Origin::Imported { .. } => unreachable!("an imported sweep is never executed"),
        }
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
        let target = self.manifest.launched().find(|target| target.id == plan.target);
        let brake = target.and_then(|target| target.brake);
        let build = target.and_then(|target| target.build.clone());
        let Some((build, settings)) = build.zip(self.settings.get(&plan.target).cloned()) else { return Ok(None) };
        Ok(Some(LaunchSpec {
            directory: self.clusters.join(&self.manifest.id).join(&plan.name),
            template: self.crew.templates.then(|| self.clusters.join(&self.manifest.id).join(plan.template())),
            log: self.store.log(&self.manifest.id, &plan.name)?,
            build,
            brake,
            settings,
            init: self.init.clone(),
            suite: Arc::clone(&self.suite),
            protocol: self.protocol().clone(),
            seed: plan.seed,
            plans: true,
        }))
    }

    /// Settings and digest become known when a launch is up.
    fn record_facts(&mut self, target: &TargetId, facts: &LaunchFacts) -> Result<(), SweepError> {
        let SweepManifest { targets, blind, .. } = &mut self.manifest;
        if let Some(target) = targets.iter_mut().chain(blind).find(|candidate| candidate.id == *target) {
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
