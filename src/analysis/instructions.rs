//! Instructions per query, and their ratio to the base's.

use std::collections::BTreeMap;

use super::{RelativeInstructions, ReportRow, SliceRecord, TargetId};
use crate::domain::Outcome;

/// A difference of counts up to this share may come from what depends on the clock. Counts of equal servers differed by
/// less than half of it (docs/instructions.md).
pub const INSTRUCTIONS_THRESHOLD: f64 = 0.002;

/// Instructions per query by block.
type Blocks = BTreeMap<u32, f64>;

/// Fills the cells' instructions. Counts under valgrind go before the processor's own, and are never mixed with them:
/// one target of a row that has them decides for the row.
pub(super) fn fill(rows: &mut [ReportRow], targets: &[&TargetId], slices: &[SliceRecord], base: usize) {
    for row in rows {
        let of_row = |slice: &&SliceRecord| slice.microbenchmark == row.name;
        let slices: Vec<&SliceRecord> = slices.iter().filter(of_row).collect();
        let is_counted = slices.iter().any(|slice| slice.is_counting());
        let blocks: Vec<Blocks> = targets
            .iter()
            .map(|target| {
                let of_target = slices.iter().filter(|slice| slice.target == **target);
                of_target
                    .filter(|slice| slice.is_counting() == is_counted)
                    .filter_map(|slice| per_query(slice))
                    .collect()
            })
            .collect();
        for (cell, counts) in row.cells.iter_mut().zip(&blocks) {
            cell.instructions_per_query = mean(counts.values().copied());
            cell.relative_instructions = relative(counts, &blocks[base], is_counted);
        }
    }
}

fn per_query(slice: &SliceRecord) -> Option<(u32, f64)> {
    let Outcome::Measured(measurement) = &slice.outcome else { return None };
    let per_query = measurement.instructions? as f64 / measurement.queries as f64;
    per_query.is_finite().then_some((slice.block, per_query))
}

/// The geometric mean of the ratios inside each block.
fn relative(target: &Blocks, base: &Blocks, is_counted: bool) -> Option<RelativeInstructions> {
    let ratios = target.iter().filter_map(|(block, count)| Some((count / base.get(block)?).ln()));
    let ratio = mean(ratios)?.exp();
    let changed = is_counted.then_some(ratio.ln().abs() > INSTRUCTIONS_THRESHOLD);
    Some(RelativeInstructions { ratio, changed })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Cell, Measurement, RateUnit};

    fn slice(block: u32, launch: &str, target: &TargetId, instructions: Option<u64>) -> SliceRecord {
        let outcome = match instructions {
            Some(instructions) => Outcome::Measured(Box::new(Measurement {
                queries: 10,
                instructions: Some(instructions),
                ..Measurement::default()
            })),
            None => Outcome::Failed("no valgrind".to_owned()),
        };
        SliceRecord {
            block,
            target: target.clone(),
            launch: format!("{launch}{block}-{target}"),
            server_start: 1,
            microbenchmark: "scan_range=100".to_owned(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            outcome,
        }
    }

    #[test]
    fn the_processors_counts_are_not_mixed_with_valgrinds() {
        let ids = ["16.4-0", "17.2-0"].map(|id| TargetId(id.to_owned()));
        let [base, target] = &ids;
        let row = ReportRow {
            name: "scan_range=100".to_owned(),
            group: String::new(),
            unit: RateUnit::Qps,
            definition: None,
            cells: vec![Cell::default(), Cell::default()],
        };
        let filled = |slices: &[SliceRecord]| {
            let mut rows = [row.clone()];
            fill(&mut rows, &[base, target], slices, 0);
            rows[0]
                .cells
                .iter()
                .map(|cell| (cell.instructions_per_query, cell.relative_instructions))
                .collect::<Vec<_>>()
        };
        let timed = [slice(1, "b", base, Some(1000)), slice(1, "b", target, Some(1100))];
        let [of_base, of_target] = filled(&timed)[..] else { panic!() };
        assert_eq!((of_base.0, of_target.0), (Some(100.0), Some(110.0)));
        assert_eq!(of_target.1.unwrap().changed, None);
        let counted = [slice(1, "i", base, Some(990)), slice(1, "i", target, None)];
        let [of_base, of_target] = filled(&[timed, counted].concat())[..] else { panic!() };
        assert_eq!(
            (of_base.0, of_target),
            (Some(99.0), (None, None)),
            "its count failed, and the other is another thing"
        );
    }

    #[test]
    fn ratios_are_taken_inside_a_block() {
        let base = Blocks::from([(1, 100.0), (2, 200.0)]);
        let target = Blocks::from([(2, 201.0), (3, 900.0)]);
        let found = relative(&target, &base, true).unwrap();
        assert!((found.ratio - 1.005).abs() < 1e-12, "{found:?}");
        assert_eq!(found.changed, Some(true));
        assert_eq!(relative(&base, &base, true).unwrap().changed, Some(false));
        assert_eq!(relative(&base, &base, false).unwrap().changed, None, "the processor's counts have noise");
        assert_eq!(relative(&Blocks::from([(3, 1.0)]), &base, true), None);
    }
}
