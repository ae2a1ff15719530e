//! Block after block, until every microbenchmark has its answer, or time is up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::execute::{Execution, Walked, execute};
use super::plan::{SliceKey, SweepPlan, plan};
use super::{Event, SweepError, measured};
use crate::analysis::{self, RowState};
use crate::domain::TargetId;
use crate::measure::Bench;

/// Blocks that are wanted of each microbenchmark: those up to a number. One that is not named wants none.
pub type Wanted = BTreeMap<String, u32>;

/// Measures what is missing of a sweep. With a fixed number of launches, all of them. Where the sweep looks at its
/// results ([`SweepManifest::stopping`](crate::domain::SweepManifest::stopping)), each microbenchmark gets launches
/// until its verdicts are settled, so that time goes to those that are open.
///
/// What is measured depends on what is stored and on nothing else: a sweep that was killed goes on as it would have.
/// With a `budget`, a block that would not end in time is not begun.
pub fn run(execution: &mut Execution<'_>, bench: &dyn Bench, budget: Option<Duration>) -> Result<Walked, SweepError> {
    let begin = Instant::now();
    let mut walked = Walked::default();
    // What failed in this call is not tried again in it.
    let mut tried = BTreeSet::new();
    loop {
        let (plan, open) = next(execution, &tried)?;
        let suite = Arc::clone(&execution.suite);
        let estimate = plan.estimate(&suite, execution.protocol(), execution.crew).duration;
        (execution.events)(Event::Planned { total: plan.total, stored: plan.stored, estimate });
        let Some(block) = plan.first_block() else { break };
        let needed = block.estimate(&suite, execution.protocol(), execution.crew).duration;
        if let Some(budget) = budget.filter(|budget| begin.elapsed() + needed > *budget) {
            (execution.events)(Event::BudgetSpent { budget, open });
            walked.open = open;
            break;
        }
        let done = execute(&block, bench, execution)?;
        walked.measured += done.measured;
        walked.failed += done.failed;
        tried.extend(block.keys(&suite));
    }
    Ok(walked)
}

/// What is left to do, as far as the next look, and the number of microbenchmarks that are open.
pub fn next(execution: &Execution<'_>, tried: &BTreeSet<SliceKey>) -> Result<(SweepPlan, usize), SweepError> {
    let manifest = &execution.manifest;
    let slices = execution.store.slices(&manifest.id)?;
    let mut stored = measured(&slices);
    stored.extend(tried.iter().cloned());
    let protocol = execution.protocol();
    let wanted: Wanted = match &manifest.stopping {
        None => protocol.microbenchmarks.iter().map(|name| (name.clone(), manifest.launches)).collect(),
        Some(stopping) => {
            let (microbenchmarks, groups) = (&execution.suite.microbenchmarks, &execution.suite.groups);
            let catalogue = analysis::Catalogue { microbenchmarks, groups, newest: &[] };
            let rows = analysis::progress(manifest, &slices, &catalogue, &manifest.base, stopping)?;
            let open = rows.into_iter().filter(|row| row.state != RowState::Settled);
            open.map(|row| (row.name, row.next_look)).collect()
        }
    };
    let targets: Vec<TargetId> = manifest.launched().map(|target| target.id.clone()).collect();
    let plan = plan(&manifest.id, &execution.suite, protocol, &targets, &wanted, &stored);
    Ok((plan, wanted.len()))
}
