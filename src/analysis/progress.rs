//! How far a sweep that looks at its results has come. A function of the stored slices alone, so that a sweep that
//! was killed decides the same when it goes on.

use super::looks::{self, Look};
use super::verdict::{Design, JudgedRow};
use super::{AnalysisError, Catalogue, SliceRecord, Stopping, SweepManifest, TargetId, cells, placed_rows, position};

/// One microbenchmark of a sweep that looks at its results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProgress {
    /// Row name.
    pub name: String,
    /// Where it stands.
    pub state: RowState,
    /// Launches per target at which to look again; for a settled row those at which it was settled.
    pub next_look: u32,
}

/// Where a microbenchmark stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    /// Some comparison needs more launches.
    Open,
    /// A change was seen, and fresh launches are to confirm it.
    Confirming,
    /// More launches would not change any answer.
    Settled,
}

/// Progress of all rows of the sweep's protocol. The report of the sweep agrees with it when its manifest holds the
/// same `stopping`.
pub fn progress(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
    base: &TargetId,
    stopping: &Stopping,
) -> Result<Vec<RowProgress>, AnalysisError> {
    let base = position(manifest, base)?;
    let (mut rows, _) = placed_rows(manifest, slices, catalogue);
    let judged = cells::standing(&mut rows, manifest, slices, base, Design::Sequential(*stopping))?;
    let looks = looks::schedule(stopping);
    Ok(rows.into_iter().zip(judged).map(|(row, judged)| of(row.name, &judged, &looks)).collect())
}

fn of(name: String, judged: &JudgedRow, looks: &[Look]) -> RowProgress {
    let flagged = judged.comparisons.iter().flatten().any(|comparison| comparison.certainty.flagged);
    let state = match (judged.settled, flagged) {
        (true, _) => RowState::Settled,
        (false, true) => RowState::Confirming,
        (false, false) => RowState::Open,
    };
    let next = looks.iter().map(|look| look.launches).find(|launches| *launches > judged.look);
    let next_look = next.filter(|_| !judged.settled).unwrap_or(judged.look);
    RowProgress { name, state, next_look }
}
