//! Launches that count instructions: after the timed ones, each on a server of its own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use jiff::Timestamp;

use super::execute::{Execution, Walked, chain};
use super::plan::LaunchPlan;
use super::{Event, SweepError};
use crate::domain::{Outcome, SliceRecord, TargetId};
use crate::load::Control;
use crate::measure::{self, MeasureError};
use crate::server::Account;

/// Blocks in which instructions are counted. A second count shows whether the first can be trusted; more would tell
/// nothing new.
const MOST_BLOCKS: u32 = 2;

/// Counts the instructions of every target of the sweep, minus what `stored` has, and stores each count at once. A
/// failure is stored in a count's place, and the walk goes on.
pub fn count(
    execution: &mut Execution<'_>,
    stored: &[SliceRecord],
    account: &Account,
    control: &Control,
) -> Result<Walked, SweepError> {
    measure::check_counting()?;
    let counted = |slice: &&SliceRecord| slice.is_counting() && matches!(slice.outcome, Outcome::Measured(_));
    let counted: BTreeSet<(u32, &TargetId, &str)> =
        stored.iter().filter(counted).map(|one| (one.block, &one.target, one.microbenchmark.as_str())).collect();
    let targets: Vec<TargetId> = execution.manifest.targets.iter().map(|target| target.id.clone()).collect();
    let mut walked = Walked::default();
    for block in 1..=execution.manifest.launches.min(MOST_BLOCKS) {
        for target in &targets {
            let names = execution.protocol().microbenchmarks.iter();
            let wanted: BTreeSet<String> =
                names.filter(|name| !counted.contains(&(block, target, name.as_str()))).cloned().collect();
            if !wanted.is_empty() {
                launch(execution, block, target, &wanted, account, control, &mut walked)?;
            }
        }
    }
    Ok(walked)
}

fn launch(
    execution: &mut Execution<'_>,
    block: u32,
    target: &TargetId,
    wanted: &BTreeSet<String>,
    account: &Account,
    control: &Control,
    walked: &mut Walked,
) -> Result<(), SweepError> {
    let name = SliceRecord::counting_launch(block, target);
    // The seed of a counting launch is its own business, and it has no steps to be told.
    let plan = LaunchPlan { block, target: target.clone(), name, seed: 0, steps: Vec::new() };
    let label = execution.label(target);
    let Some(spec) = execution.launch_spec(&plan)? else { return Ok(()) };
    let text = format!("counting instructions of {label} (block {block}), {} microbenchmarks", wanted.len());
    (execution.events)(Event::Note(text));
    let mut broken = None;
    let mut keep = |execution: &mut Execution<'_>, microbenchmark: &str, started_at, outcome: Outcome| {
        match outcome {
            Outcome::Measured(_) => walked.measured += 1,
            Outcome::Failed(_) => walked.failed += 1,
        }
        let record = SliceRecord {
            block,
            target: target.clone(),
            launch: plan.name.clone(),
            server_start: 1,
            microbenchmark: microbenchmark.to_owned(),
            started_at,
            outcome,
        };
        execution.store.append(&execution.manifest.id, &record)
    };
    let mut left = wanted.clone();
    let ended = measure::count_instructions(&spec, wanted, account, control, &mut |microbenchmark, at, counted| {
        left.remove(&microbenchmark.name);
        let outcome = match counted {
            Ok(measurement) => Outcome::Measured(Box::new(measurement)),
            Err(error) => {
                let reason = chain(&error);
                (execution.events)(Event::Note(format!("{label}: {reason}")));
                Outcome::Failed(reason)
            }
        };
        match keep(execution, &microbenchmark.name, at, outcome) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                broken = Some(error);
                ControlFlow::Break(())
            }
        }
    });
    if let Some(error) = broken {
        return Err(error.into());
    }
    match ended {
        Ok(()) => Ok(()),
        Err(MeasureError::Interrupted) => Err(SweepError::Interrupted),
        Err(_) if crate::process::is_interrupted() => Err(SweepError::Interrupted),
        Err(error) => {
            let reason = chain(&error);
            (execution.events)(Event::Note(format!("{label}: {reason}")));
            for microbenchmark in &left {
                keep(execution, microbenchmark, Timestamp::now(), Outcome::Failed(reason.clone()))?;
            }
            Ok(())
        }
    }
}
