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
    let targets: Vec<TargetId> = execution.manifest.launched().map(|target| target.id.clone()).collect();
    let mut walked = Walked::default();
    for block in 1..=execution.manifest.launches.min(MOST_BLOCKS) {
        for target in &targets {
            let names = execution.protocol().microbenchmarks.iter();
            let wanted: BTreeSet<String> =
                names.filter(|name| !counted.contains(&(block, target, name.as_str()))).cloned().collect();
            if !wanted.is_empty() {
                let mut launch = Launch { execution: &mut *execution, walked: &mut walked, block, target };
                launch.run(&wanted, account, control)?;
            }
        }
    }
    Ok(walked)
}

/// One counting launch.
struct Launch<'a, 'b> {
    execution: &'a mut Execution<'b>,
    walked: &'a mut Walked,
    block: u32,
    target: &'a TargetId,
}

impl Launch<'_, '_> {
    fn run(&mut self, wanted: &BTreeSet<String>, account: &Account, control: &Control) -> Result<(), SweepError> {
        let name = SliceRecord::counting_launch(self.block, self.target);
        // The seed of a counting launch is its own business, and it has no steps to be told.
        let plan = LaunchPlan { block: self.block, target: self.target.clone(), name, seed: 0, steps: Vec::new() };
        // Of a target without a build the timed launches have said why.
        let Some(spec) = self.execution.launch_spec(&plan)? else { return Ok(()) };
        let (block, count) = (self.block, wanted.len());
        self.note(&format!("counting instructions (block {block}), {count} microbenchmarks"));
        let mut left = wanted.clone();
        let mut broken = None;
        let ended = measure::count_instructions(&spec, wanted, account, control, &mut |microbenchmark, at, counted| {
            left.remove(&microbenchmark.name);
            let outcome = match counted {
                Ok(measurement) => Outcome::Measured(Box::new(measurement)),
                Err(error) => self.failed(&error),
            };
            match self.keep(&microbenchmark.name, at, outcome) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    broken = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        match (broken, ended) {
            (Some(error), _) => Err(error),
            (None, Ok(())) => Ok(()),
            (None, Err(MeasureError::Interrupted)) => Err(SweepError::Interrupted),
            // What fails while regtrack is asked to stop fails because of that.
            (None, Err(_)) if crate::process::is_interrupted() => Err(SweepError::Interrupted),
            (None, Err(error)) => {
                let failure = self.failed(&error);
                left.iter().try_for_each(|name| self.keep(name, Timestamp::now(), failure.clone()))
            }
        }
    }

    fn note(&mut self, text: &str) {
        let label = self.execution.label(self.target);
        (self.execution.events)(Event::Note(format!("{label}: {text}")));
    }

    fn failed(&mut self, error: &MeasureError) -> Outcome {
        let reason = chain(error);
        self.note(&reason);
        Outcome::Failed(reason)
    }

    fn keep(&mut self, microbenchmark: &str, started_at: Timestamp, outcome: Outcome) -> Result<(), SweepError> {
        match outcome {
            Outcome::Measured(_) => self.walked.measured += 1,
            Outcome::Failed(_) => self.walked.failed += 1,
        }
        let record = SliceRecord {
            block: self.block,
            target: self.target.clone(),
            launch: SliceRecord::counting_launch(self.block, self.target),
            server_start: 1,
            microbenchmark: microbenchmark.to_owned(),
            started_at,
            outcome,
        };
        Ok(self.execution.store.append(&self.execution.manifest.id, &record)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_no_timed_slice() {
        let target = TargetId("17.2-0".to_owned());
        let counting = SliceRecord {
            block: 1,
            launch: SliceRecord::counting_launch(1, &target),
            target,
            server_start: 1,
            microbenchmark: "scan_range=100".to_owned(),
            started_at: Timestamp::UNIX_EPOCH,
            outcome: Outcome::Measured(Box::default()),
        };
        let timed = SliceRecord { launch: "b1-17.2-0".to_owned(), ..counting.clone() };
        assert!(crate::sweep::measured(std::slice::from_ref(&counting)).is_empty());
        assert_eq!(crate::sweep::measured(&[counting, timed]).len(), 1);
    }
}
