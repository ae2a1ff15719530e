//! From a results directory to its history.

use std::num::NonZero;
use std::panic::resume_unwind;

use super::Global;
use super::results::Results;
use crate::analysis;
use crate::domain::{History, MajorRelease, Origin, SweepManifest, Week, WeekSummary};
use crate::store::{Store, StoreError};

/// What each measured sweep says, with what was told of it before. None when there are no results yet.
///
/// Most sweeps were analysed for an earlier history and have not changed since: their summaries were kept.
pub(super) fn summaries(global: &Global) -> anyhow::Result<Vec<WeekSummary>> {
    let store = match Store::open(&global.results) {
        Err(StoreError::NoResults { .. }) => return Ok(Vec::new()),
        store => store?,
    };
    let catalogue = global.catalogue()?;
    let mut manifests = store.sweeps()?;
    manifests.retain(|manifest| matches!(manifest.origin, Origin::Measured { .. }));
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = manifests.len().div_ceil(workers).max(1);
    let of_share = |share: &[SweepManifest]| -> anyhow::Result<Vec<Option<WeekSummary>>> {
        share.iter().map(|manifest| kept_or_new(&store, manifest, catalogue.majors())).collect()
    };
    // Threads of our own: a thread of a pool that waits for a query of polars takes up another sweep meanwhile, and
    // another one on top of that, until its stack is full.
    let summaries: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = manifests.chunks(share).map(|share| scope.spawn(|| of_share(share))).collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(summaries.into_iter().flatten().flatten().collect())
}

fn kept_or_new(
    store: &Store,
    manifest: &SweepManifest,
    majors: &[MajorRelease],
) -> anyhow::Result<Option<WeekSummary>> {
    let (id, state) = (&manifest.id, store.state(&manifest.id)?);
    if let Some(kept) = store.kept_summary(id, &state) {
        return Ok(kept);
    }
    let new = summary(&Results::flat(store.clone(), manifest.clone(), majors)?)?;
    // Who may only read the results reads them again the next time.
    if let Err(error) = store.keep_summary(id, &state, new.as_ref()) {
        tracing::debug!(%error, id, "the summary is not kept");
    }
    Ok(new)
}

/// What one sweep says; `None` for an imported one.
pub(super) fn summary(results: &Results) -> anyhow::Result<Option<WeekSummary>> {
    let Some(summary) = analysis::week_summary(&results.report(None)?) else { return Ok(None) };
    Ok(Some(match results.store.told(&summary.sweep)? {
        Some(told) => analysis::corrected(summary, &told),
        None => summary,
    }))
}

/// The history as a site shows it: from the first weekly sweep on, or the second of any kind that can be compared.
pub(super) fn shown(summaries: &[WeekSummary]) -> Option<History> {
    let is_weekly = |summary: &WeekSummary| summary.sweep.get(..8).is_some_and(|head| head.parse::<Week>().is_ok());
    let history = analysis::history(summaries);
    let has_weeks = history.series.iter().any(|series| series.weeks.len() > 1);
    (has_weeks || summaries.iter().any(is_weekly)).then_some(history)
}
