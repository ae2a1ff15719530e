//! From a results directory to its history.

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

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
    let majors = catalogue.majors();
    let summaries =
        store.sweeps()?.into_par_iter().filter(|manifest| matches!(manifest.origin, Origin::Measured { .. }));
    let summaries = summaries.map(|manifest| kept_or_new(&store, manifest, majors));
    summaries.filter_map(Result::transpose).collect()
}

fn kept_or_new(store: &Store, manifest: SweepManifest, majors: &[MajorRelease]) -> anyhow::Result<Option<WeekSummary>> {
    let (id, state) = (manifest.id.clone(), store.state(&manifest.id)?);
    if let Some(kept) = store.kept_summary(&id, &state) {
        return Ok(kept);
    }
    let new = summary(&Results::flat(store.clone(), manifest, majors)?)?;
    // Who may only read the results reads them again the next time.
    if let Err(error) = store.keep_summary(&id, &state, new.as_ref()) {
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
