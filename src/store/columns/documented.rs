//! Slices as a documented table: what can stand in one line of a text file.

use super::{COUNTS, FAILED, Field, MEASURED, NOISE_SEPARATOR, OPTIONAL_COUNTS, OPTIONAL_REALS, REALS};
use crate::domain::{Measurement, Outcome, SliceRecord, Table, TableColumn, Values};

/// Columns of the Parquet files that a line of text has no room for, with their meaning.
pub const NESTED: [(&str, &str, &str); 3] = [
    ("plans", "text", "plans of the statements as JSON; absent where none were asked for or the server tells none"),
    ("queries_by_second", "list of uint32", "queries completed in each full second"),
    ("latency_histogram", "binary", "latency of events in nanoseconds, as an HdrHistogram in its V2 serialisation"),
];

/// The slices with every column but the [nested](NESTED) ones.
#[must_use]
pub fn slices_table(slices: &[SliceRecord]) -> Table {
    let mut columns = place(slices);
    columns.extend(outcome(slices));
    let measurements: Vec<Option<&Measurement>> = slices.iter().map(|slice| slice.outcome.measurement()).collect();
    columns.extend(REALS.iter().map(|field| column(field, &measurements, Some, Values::Real)));
    columns.extend(COUNTS.iter().map(|field| column(field, &measurements, Some, Values::Count)));
    columns.extend(OPTIONAL_COUNTS.iter().map(|field| column(field, &measurements, |value| value, Values::Count)));
    columns.extend(OPTIONAL_REALS.iter().map(|field| column(field, &measurements, |value| value, Values::Real)));
    let noise = |m: &&Measurement| (!m.noise.is_empty()).then(|| m.noise.join(NOISE_SEPARATOR));
    columns.push(TableColumn {
        name: "noise",
        meaning: "what from outside disturbed the slice, in words; absent when nothing was noticed",
        values: Values::Text(measurements.iter().map(|m| m.as_ref().and_then(noise)).collect()),
    });
    Table {
        name: "slices".to_owned(),
        about: "One timed stretch of one microbenchmark in one launch, or why there is none.".to_owned(),
        columns,
    }
}

fn column<T: Copy, V>(
    field: &Field<T>,
    measurements: &[Option<&Measurement>],
    exists: fn(T) -> Option<V>,
    values: fn(Vec<Option<V>>) -> Values,
) -> TableColumn {
    let of = measurements.iter().map(|m| m.and_then(|m| exists((field.get)(m))));
    TableColumn { name: field.name, meaning: field.meaning, values: values(of.collect()) }
}

/// Where a slice stands.
fn place(slices: &[SliceRecord]) -> Vec<TableColumn> {
    let text = |of: fn(&SliceRecord) -> String| Values::Text(slices.iter().map(|slice| Some(of(slice))).collect());
    let count =
        |of: fn(&SliceRecord) -> u32| Values::Count(slices.iter().map(|slice| Some(of(slice).into())).collect());
    let column = |name, meaning, values| TableColumn { name, meaning, values };
    vec![
        column("format", "format of the columns", count(|_| super::FORMAT)),
        column("block", "pass over all targets, from 1; ratios are taken inside a block only", count(|s| s.block)),
        column("target", "version, build and configuration: an id from the manifest", text(|s| s.target.0.clone())),
        column("launch", "one server start of that target; unique in the sweep", text(|s| s.launch.clone())),
        column(
            "server_start",
            "1, or more when an interrupted launch was continued",
            count(|slice| slice.server_start),
        ),
        column("microbenchmark", "its name", text(|slice| slice.microbenchmark.clone())),
        column("started_at", "when the measured stretch began, RFC 3339, UTC", text(|s| s.started_at.to_string())),
    ]
}

fn outcome(slices: &[SliceRecord]) -> [TableColumn; 2] {
    let word = |slice: &SliceRecord| match slice.outcome {
        Outcome::Measured(_) => MEASURED.to_owned(),
        Outcome::Failed(_) => FAILED.to_owned(),
    };
    let reason = |slice: &SliceRecord| match &slice.outcome {
        Outcome::Measured(_) => None,
        Outcome::Failed(reason) => Some(reason.clone()),
    };
    [
        TableColumn {
            name: "outcome",
            meaning: "measured or failed; everything after failure is absent for a failed slice",
            values: Values::Text(slices.iter().map(|slice| Some(word(slice))).collect()),
        },
        TableColumn {
            name: "failure",
            meaning: "the reason of a failure",
            values: Values::Text(slices.iter().map(reason).collect()),
        },
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The Parquet files, the table for download, and the document say the same columns.
    #[test]
    fn every_column_is_documented() {
        let frame = super::super::to_frame(&[]).unwrap();
        let stored: BTreeSet<String> = frame.get_column_names().iter().map(ToString::to_string).collect();
        let table = slices_table(&[]);
        let names = table.columns.iter().map(|column| column.name).chain(NESTED.iter().map(|nested| nested.0));
        assert_eq!(names.clone().map(str::to_owned).collect::<BTreeSet<_>>(), stored);
        let document = include_str!("../../../docs/results.md");
        for name in names {
            // Percentiles are listed by their endings.
            let ending = name.rsplit_once("latency_us").map_or(name, |(_, ending)| ending);
            assert!(document.contains(&format!("`{name}`")) || document.contains(&format!("`{ending}`")), "{name}");
        }
        assert!(table.columns.iter().all(|column| !column.meaning.is_empty()));
    }
}
