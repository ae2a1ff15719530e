//! The main job: what to run next, and what to do when it fails.
//!
//! [`prepare()`] turns what a person asked for into checked facts, [`targets`] gets the servers,
//! [`open`] finds or begins the sweep in the results, [`plan()`] says what is left to do,
//! [`execute()`] does it, and [`run()`] repeats both until every question is answered. The outside world enters through [`crate::build::Builder`] and
//! [`crate::measure::Bench`] only.

mod counting;
mod execute;
mod plan;
mod prepare;
pub mod profile;
mod run;
pub mod weekly;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

pub use counting::count;
pub use execute::{Execution, Walked, execute};
pub use plan::{Crew, Estimate, LaunchPlan, SliceKey, Step, SweepPlan, plan};
pub use prepare::{Prepared, SweepRequest, WantedPlacement, WantedPrecision, WantedServer, check_space, prepare};
pub use run::{Wanted, next, run};

use crate::analysis::AnalysisError;
use crate::build::{BuildError, Builder, Choice, Progress};
use crate::catalog::CatalogError;
use crate::domain::{
    Build, Finding, HostFingerprint, Origin, Outcome, Protocol, RateUnit, SliceRecord, SweepManifest, Target, TargetId,
};
use crate::measure::MeasureError;
use crate::store::{Store, StoreError};

/// Version of the manifests that this program writes.
pub const MANIFEST_FORMAT: u32 = 1;

/// What ends a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Ctrl-C, SIGTERM.
    #[error("interrupted; everything measured so far is kept, and the same command without --fresh goes on from here")]
    Interrupted,
    /// A range without releases.
    #[error("the range '{range}' holds no release")]
    EmptyRange {
        /// The range.
        range: String,
    },
    /// The base is not one of the releases.
    #[error("the base {base} is not one of the releases of this sweep ({})", in_range.join(", "))]
    BaseOutside {
        /// What was asked for.
        base: String,
        /// The releases.
        in_range: Vec<String>,
    },
    /// A table size that the suite cannot work with.
    #[error("{rows} rows are outside of what the suite can work with: {fewest} to {most}")]
    Rows {
        /// What was asked for.
        rows: u64,
        /// Fewest.
        fewest: u64,
        /// Most.
        most: u64,
    },
    /// The disk has too little room to begin.
    #[error("{} has {available_mib} MiB free and this sweep needs about {wanted_mib} MiB; free some, ask for \
        fewer rows (--rows), or name another place (--clusters)", path.display())]
    NoSpace {
        /// Where.
        path: PathBuf,
        /// Needed.
        wanted_mib: u64,
        /// There.
        available_mib: u64,
    },
    /// The disk filled up on the way.
    #[error("the disk under {} is full; everything measured so far is kept: free some space and run the same \
        command again ({cause})", path.display())]
    DiskFull {
        /// Where.
        path: PathBuf,
        /// What failed first.
        cause: String,
    },
    /// A launch loaded other rows than the launches before it.
    #[error(
        "{target} was loaded with other rows than in earlier launches of this sweep ({found} instead of \
        {expected}): begin a new one with --fresh"
    )]
    OtherRows {
        /// The target.
        target: String,
        /// Digest of the launch.
        found: String,
        /// Digest of the launches before.
        expected: String,
    },
    /// Not one release could be had.
    #[error("there is no server for any of the releases")]
    NoBuilds(#[source] BuildError),
    /// The base that was asked for could not be had.
    #[error("there is no server for the base {base}, and without it no ratio; choose another with --base")]
    NoBase {
        /// The base.
        base: String,
    },
    /// The catalogue refused.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The results directory failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A builder failed before anything was tried.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The results so far could not be looked at.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// A lock or the account.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

/// What happens in a sweep, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// One line worth reading.
    Note(String),
    /// What is to be done, as far as it is known.
    Planned {
        /// Slices, stored ones included.
        total: usize,
        /// Slices that are stored.
        stored: usize,
        /// How long the others will take.
        estimate: std::time::Duration,
    },
    /// The next block would take longer than what is left of the budget.
    BudgetSpent {
        /// The budget.
        budget: std::time::Duration,
        /// Microbenchmarks that are not settled.
        open: usize,
    },
    /// A server is being got.
    BuildStarted {
        /// Number, from 1.
        number: usize,
        /// Of how many.
        of: usize,
        /// What is tried first.
        choice: String,
    },
    /// A launch begins: initdb, start, load.
    LaunchStarted {
        /// Number, from 1.
        number: usize,
        /// Of how many.
        of: usize,
        /// Its block.
        block: u32,
        /// Its target.
        target: String,
    },
    /// A slice begins, of one target or of several in turns.
    SliceStarted {
        /// The targets.
        targets: Vec<String>,
        /// Its microbenchmark.
        microbenchmark: String,
        /// How long each will be measured, unless it is a single execution.
        seconds: Option<f64>,
    },
    /// A slice is stored.
    SliceDone {
        /// Its target.
        target: String,
        /// Its microbenchmark.
        microbenchmark: String,
        /// Its rate.
        rate: f64,
        /// What the rate counts.
        unit: RateUnit,
    },
    /// A failure is stored in a slice's place.
    SliceFailed,
    /// Vacuum, checkpoint and rest.
    Postwrite,
}

/// Gets a server for every release. A release without one becomes a target without a build, whose
/// cells will be stored as failed; only when there is none at all is that an error.
pub fn targets(
    prepared: &Prepared,
    choices: &[Vec<Choice>],
    builder: &dyn Builder,
    events: &mut dyn FnMut(Event),
) -> Result<Vec<Target>, SweepError> {
    let of = choices.len();
    let mut provided: Vec<Option<Result<Build, BuildError>>> = choices.iter().map(|_| None).collect();
    builder.provide_all(choices, &mut |index, progress| match progress {
        Progress::Started => {
            let choice = choices[index].first().map(ToString::to_string).unwrap_or_default();
            events(Event::BuildStarted { number: index + 1, of, choice });
        }
        Progress::Note(text) => events(Event::Note(text)),
        Progress::Done(result) => {
            if let Err(error) = &*result {
                let label = prepared.wanted[index].label();
                events(Event::Note(format!("no server for {label}: {}", execute::chain(error))));
            }
            provided[index] = Some(*result);
        }
    });
    if crate::process::is_interrupted() {
        return Err(SweepError::Interrupted);
    }
    let mut targets: Vec<Target> = Vec::new();
    let mut last_error = None;
    for (wanted, provided) in prepared.wanted.iter().zip(provided) {
        let (version, label, build) = match provided.unwrap_or(Err(BuildError::NoChoice)) {
            Ok(build) => (build.version, build.label(), Some(build)),
            Err(error) => {
                last_error = Some(error);
                (wanted.release.version, wanted.label(), None)
            }
        };
        let suffix = build.as_ref().map_or("unbuilt", |build| build.key.get(..8).unwrap_or(&build.key));
        let id = TargetId(format!("{}-{suffix}", label.replace([' ', '/'], "-")));
        let settings = BTreeMap::new();
        targets.push(Target { id, label, version, build, brake: None, imported: None, settings, data_digest: None });
    }
    match last_error {
        Some(error) if targets.iter().all(|target| target.build.is_none()) => Err(SweepError::NoBuilds(error)),
        _ => Ok(targets),
    }
}

/// Finds the sweep of this protocol and machine in the results, or begins one. With `fresh` a new one is begun
/// in any case; the old one stays where it is. `doctor` is what was found out about the machine before.
pub fn open(
    store: &Store,
    prepared: &Prepared,
    targets: Vec<Target>,
    host: HostFingerprint,
    doctor: Vec<Finding>,
    arguments: &[String],
    fresh: bool,
) -> Result<SweepManifest, SweepError> {
    let now = Timestamp::now();
    let origin =
        Origin::Measured { profile: prepared.profile.to_owned(), protocol: Box::new(prepared.protocol.clone()) };
    let (id, previous) = locate(store, prepared, &host, fresh)?;
    let base = base(prepared, &targets)?;
    let mut manifest = SweepManifest {
        format: MANIFEST_FORMAT,
        id,
        regtrack: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now,
        updated_at: now,
        command: format!("regtrack {}", arguments.join(" ")),
        arguments: arguments.to_vec(),
        origin,
        launches: prepared.launches,
        stopping: prepared.stopping,
        targets,
        former_targets: Vec::new(),
        base,
        blind: None,
        host: Some(host),
        placement: prepared.protocol.placement,
        doctor,
    };
    if prepared.blind {
        let base = manifest.targets.iter().find(|target| target.id == manifest.base && target.build.is_some());
        manifest.blind = base.map(Target::again);
    }
    if let Some(previous) = previous {
        manifest.created_at = previous.created_at;
        manifest.placement = previous.placement;
        carry_over(&mut manifest, previous);
    }
    store.write_suite(&manifest.id, &prepared.suite_text)?;
    store.write_manifest(&manifest)?;
    store.set_current(&manifest.id)?;
    Ok(manifest)
}

/// The sweep that [`open`] would go on with, if there is one.
pub fn find(store: &Store, prepared: &Prepared, host: &HostFingerprint) -> Result<Option<SweepManifest>, SweepError> {
    Ok(locate(store, prepared, host, false)?.1)
}

/// The target that others are divided by: the one that was asked for, or the oldest that has a build.
fn base(prepared: &Prepared, targets: &[Target]) -> Result<TargetId, SweepError> {
    // `targets` has one entry per wanted server, in the same order.
    let wanted = &targets[prepared.base];
    let oldest_built = || targets.iter().find(|target| target.build.is_some());
    match wanted.build {
        None if prepared.base_is_given => Err(SweepError::NoBase { base: wanted.label.clone() }),
        None => Ok(oldest_built().unwrap_or(wanted).id.clone()),
        Some(_) => Ok(wanted.id.clone()),
    }
}

/// Name and manifest of the newest sweep with this protocol on this machine, or the name for a new
/// one. A sweep that was given a name is looked for under that only.
fn locate(
    store: &Store,
    prepared: &Prepared,
    host: &HostFingerprint,
    fresh: bool,
) -> Result<(String, Option<SweepManifest>), SweepError> {
    let protocol = &prepared.protocol;
    let json = serde_json::to_string(protocol).unwrap_or_else(|error| unreachable!("a protocol is JSON: {error}"));
    let hash = format!("{:x}", Sha256::digest(json));
    let ordinary = || format!("{}-{}-{}", protocol.suite, prepared.profile, &hash[..8]);
    let stem = prepared.name.clone().unwrap_or_else(ordinary);
    let mut newest = None;
    for number in 1.. {
        let id = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
        match store.manifest(&id)? {
            None => {
                return Ok(newest.filter(|_| !fresh).map_or((id, None), |(id, manifest)| (id, Some(manifest))));
            }
            Some(manifest)
                if manifest.host.as_ref().is_some_and(|other| same_machine(other, host))
                    && (prepared.name.is_none() || has_protocol(&manifest, protocol)) =>
            {
                newest = Some((id, manifest));
            }
            Some(_) => {}
        }
    }
    unreachable!("the numbers do not end")
}

/// Whether a sweep was measured with these numbers. Its name does not say so if it was given.
fn has_protocol(manifest: &SweepManifest, protocol: &Protocol) -> bool {
    matches!(&manifest.origin, Origin::Measured { protocol: other, .. } if **other == *protocol)
}

/// Whether results of both may stand beside each other. Names and kernels change on one machine.
fn same_machine(a: &HostFingerprint, b: &HostFingerprint) -> bool {
    (&a.cpu, a.cpus) == (&b.cpu, b.cpus)
}

/// Takes over from the sweep's last manifest what this call does not know: facts about targets, and
/// targets that it does not ask for. A release that could not be built has nothing to be kept for.
fn carry_over(manifest: &mut SweepManifest, previous: SweepManifest) {
    if let (Some(blind), Some(old)) = (&mut manifest.blind, previous.blind)
        && blind.id == old.id
    {
        *blind = old;
    }
    for old in previous.targets.into_iter().chain(previous.former_targets) {
        match manifest.targets.iter_mut().find(|target| target.id == old.id) {
            Some(target) => {
                target.settings = old.settings;
                target.data_digest = old.data_digest;
            }
            None if old.build.is_some() && manifest.former_targets.iter().all(|target| target.id != old.id) => {
                manifest.former_targets.push(old);
            }
            None => {}
        }
    }
}

/// What is measured already. A failed slice does not count: the next call tries it again.
#[must_use]
pub fn measured(slices: &[SliceRecord]) -> BTreeSet<SliceKey> {
    let is_timed = |slice: &&SliceRecord| matches!(slice.outcome, Outcome::Measured(_)) && !slice.is_counting();
    let measured = slices.iter().filter(is_timed);
    measured
        .map(|slice| SliceKey {
            block: slice.block,
            target: slice.target.clone(),
            microbenchmark: slice.microbenchmark.clone(),
        })
        .collect()
}
