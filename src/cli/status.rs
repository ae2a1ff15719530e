//! `regtrack status`: how far a sweep is.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;

use super::printer::Printer;
use super::results::Results;
use super::{Failure, Global};
use crate::domain::{Origin, Outcome, TargetId};

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// A sweep other than the current one
    #[arg(long, value_name = "ID")]
    sweep: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A cell is one microbenchmark on one release over all its launches.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    /// Every launch has its slice.
    measured: usize,
    /// At least one launch failed and has not been measured since.
    failed: usize,
    /// Nothing failed, but launches are still to come.
    missing: usize,
}

pub(super) fn run(args: &StatusArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let results = Results::read(global, args.sweep.as_deref())?;
    let counts = count(&results);
    let manifest = &results.manifest;
    if args.json {
        let value = json!({
            "sweep": manifest.id,
            "measured": counts.measured,
            "failed": counts.failed,
            "missing": counts.missing,
            "launches": manifest.launches,
            "targets": manifest.targets.iter().map(|target| &target.label).collect::<Vec<_>>(),
            "base": manifest.targets.iter().find(|target| target.id == manifest.base).map(|target| &target.label),
        });
        printer.data(&format!("{value:#}"))?;
    } else {
        let Counts { measured, failed, missing } = counts;
        printer.data(&format!("{}: {measured} measured, {failed} failed, {missing} missing", manifest.id))?;
    }
    Ok(())
}

fn count(results: &Results) -> Counts {
    let mut launches: BTreeMap<(&TargetId, &str), (u32, u32)> = BTreeMap::new();
    for slice in results.slices.iter().filter(|slice| !slice.is_counting()) {
        let entry = launches.entry((&slice.target, &slice.microbenchmark)).or_default();
        match slice.outcome {
            Outcome::Measured(_) => entry.0 += 1,
            Outcome::Failed(_) => entry.1 += 1,
        }
    }
    let Origin::Measured { protocol, .. } = &results.manifest.origin else {
        return Counts { measured: launches.len(), ..Counts::default() };
    };
    let mut counts = Counts::default();
    for target in &results.manifest.targets {
        for name in &protocol.microbenchmarks {
            match launches.get(&(&target.id, name.as_str())) {
                Some((_, failed)) if *failed > 0 => counts.failed += 1,
                Some((measured, _)) if *measured >= results.manifest.launches => counts.measured += 1,
                _ => counts.missing += 1,
            }
        }
    }
    counts
}
