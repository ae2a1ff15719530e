//! The base against itself.

use super::{AnalysisError, Catalogue, SliceRecord, SweepManifest, Verdict, cells, placed_rows};
use crate::domain::Blind;

/// What the sweep's blind target came to against the target that it is the same as. A family of its own: it costs the
/// other comparisons nothing, and has their chances of a false verdict.
pub(super) fn against_itself(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    catalogue: &Catalogue<'_>,
) -> Result<Option<Blind>, AnalysisError> {
    let base = manifest.targets.iter().find(|target| target.id == manifest.base);
    let (Some(base), Some(again)) = (base, &manifest.blind) else { return Ok(None) };
    let mut pair = manifest.clone();
    pair.targets = vec![base.clone(), again.clone()];
    (pair.former_targets, pair.blind) = (Vec::new(), None);
    let (mut rows, _) = placed_rows(&pair, slices, catalogue);
    cells::fill(&mut rows, &pair, slices, 0)?;
    let compared: Vec<_> = rows.iter().filter_map(|row| Some((&row.name, row.cells[1].relative?))).collect();
    let mut distances: Vec<(f64, &String)> =
        compared.iter().map(|(name, relative)| ((relative.ratio - 1.0).abs(), *name)).collect();
    distances.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((largest, name)) = distances.last() else { return Ok(None) };
    let intervals = || compared.iter().filter_map(|(_, relative)| relative.interval);
    let is_called = |verdict| matches!(verdict, Verdict::Improved | Verdict::Regressed);
    let called = compared.iter().filter(|(_, relative)| is_called(relative.verdict));
    Ok(Some(Blind {
        compared: compared.len(),
        false_verdicts: called.map(|(name, _)| (*name).clone()).collect(),
        missed: intervals().filter(|(low, high)| *low > 1.0 || *high < 1.0).count(),
        intervals: intervals().count(),
        median_distance: distances[distances.len() / 2].0,
        largest: ((*name).clone(), *largest),
    }))
}
