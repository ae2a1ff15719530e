//! From a results directory to its history.

use super::Global;
use super::results::Results;
use crate::analysis;
use crate::domain::{History, Origin, Week, WeekSummary};
use crate::store::{Store, StoreError};

/// What each measured sweep says, with what was told of it before. None when there are no results yet.
pub(super) fn summaries(global: &Global) -> anyhow::Result<Vec<WeekSummary>> {
    let store = match Store::open(&global.results) {
        Err(StoreError::NoResults { .. }) => return Ok(Vec::new()),
        store => store?,
    };
    let mut summaries = Vec::new();
    for manifest in store.sweeps()? {
        if matches!(manifest.origin, Origin::Measured { .. }) {
            let results = Results::read(global, Some(&manifest.id))?;
            summaries.extend(summary(&results)?);
        }
    }
    Ok(summaries)
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
