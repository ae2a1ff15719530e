//! Error rates, counted: equal releases over kinds of noise that machines have, and worse ones.
//! `cargo bench --bench simulation` counts more of them and prints the table of docs/methodology.md.

use regtrack::analysis::{self, Catalogue, Design, Layout, RowState, judge};
use regtrack::domain::{Certainty, Measurement, Outcome, SliceRecord, Stopping, SweepManifest, Verdict};

use super::noise::{ROWS, STEPS, Shape, TARGETS, Tally, nulls, planted, rates};
use super::world::World;
use super::{Lab, report, request};

/// Sweeps of equal releases for each kind of noise and design: more than 10⁵ comparisons in all.
const SWEEPS: u32 = 110;

const FIXED_LAUNCHES: u32 = 10;
const MOST_LAUNCHES: u32 = 30;
const STOPPING: Stopping = Stopping { precision: 0.01, power: 0.9, max_launches: MOST_LAUNCHES };

#[test]
fn equal_releases_are_not_called_different() {
    let mut comparisons = 0;
    for (design, launches) in [(Design::Fixed, FIXED_LAUNCHES), (Design::Sequential(STOPPING), MOST_LAUNCHES)] {
        let mut all = Tally::default();
        for shape in Shape::ALL {
            let tally = nulls(shape, design, launches, SWEEPS);
            let what = format!("{} {design:?}: {tally:?}", shape.name());
            assert_eq!(tally.comparisons as usize, SWEEPS as usize * ROWS * (TARGETS - 1), "{what}");
            assert!(tally.sweeps_called * 20 <= tally.sweeps, "more than 5 % of sweeps have a false verdict: {what}");
            // 5 % in the long run; rows that share their launches miss together, which makes this count vary.
            assert!(tally.missed * 100 <= tally.comparisons * 8, "far more than 5 % of intervals miss: {what}");
            assert!(tally.shifted * 20 <= tally.sweeps, "more than 5 % of sweeps warn of a shift: {what}");
            if shape != Shape::Drift {
                assert!(tally.drifted * 20 <= tally.sweeps, "more than 5 % of sweeps warn of a drift: {what}");
            }
            all.confirmed += tally.confirmed;
            all.comparisons += tally.comparisons;
        }
        assert!(all.confirmed * 10_000 <= all.comparisons, "more than 10⁻⁴ falsely confirmed: {design:?} {all:?}");
        comparisons += all.comparisons;
    }
    assert!(comparisons >= 100_000, "{comparisons}");
}

#[test]
fn steps_are_found_and_a_sequential_sweep_stops_early() {
    for shape in [Shape::Independent, Shape::Launches, Shape::Drift] {
        let (fixed, _) = planted(shape, Design::Fixed, FIXED_LAUNCHES, 20);
        let (sequential, equal) = planted(shape, Design::Sequential(STOPPING), MOST_LAUNCHES, 20);
        let largest = STEPS.len() - 1;
        for (what, tally) in [("fixed", fixed[largest]), ("sequential", sequential[largest])] {
            assert!(tally.called * 20 >= tally.comparisons * 19, "5 % {what} on {}: {tally:?}", shape.name());
        }
        // Called means confirmed, where there are looks.
        assert_eq!(sequential[largest].called, sequential[largest].confirmed);
        let mean = equal.launches as f64 / f64::from(equal.rows);
        assert!(mean < f64::from(MOST_LAUNCHES), "{mean} launches on {}", shape.name());
    }
}

/// The slices of which a sweep's frame is made, with the rates of `layouts`.
fn slices(manifest: &SweepManifest, names: &[String], launches: u32, seed: u64) -> (Vec<SliceRecord>, Vec<Layout>) {
    // Whole queries in ten thousand seconds keep eight digits.
    const SECONDS: f64 = 10_000.0;
    let mut slices = Vec::new();
    let mut layouts = vec![Layout::new(TARGETS, 0); ROWS];
    let drawn = rates(Shape::Launches, launches, seed, &|row| if row < 4 { 0.08 } else { 0.0 });
    for (block, drawn) in (1..).zip(&drawn) {
        for ((name, drawn), layout) in names.iter().zip(drawn).zip(&mut layouts) {
            let mut values = Vec::new();
            for (index, target) in manifest.targets.iter().enumerate() {
                // One slice fails, so that a block is incomplete.
                let fails = block == 3 && index == 1 && name == &names[0];
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate near 10,000")]
                let queries = (drawn[index] * 10_000.0 * SECONDS) as u64;
                let measurement = Measurement { seconds: SECONDS, queries, events: queries, ..Measurement::default() };
                let rate = measurement.qps();
                slices.push(SliceRecord {
                    block,
                    target: target.id.clone(),
                    launch: format!("b{block}-{}", target.id),
                    server_start: 1,
                    microbenchmark: name.clone(),
                    started_at: manifest.created_at,
                    outcome: if fails {
                        Outcome::Failed("the server died".to_owned())
                    } else {
                        Outcome::Measured(Box::new(measurement))
                    },
                });
                values.push((!fails).then_some(rate));
            }
            layout.push(block, values);
        }
    }
    (slices, layouts)
}

/// The rates above are counted on the core alone; this is why they may.
#[test]
fn the_report_says_what_the_core_says() {
    let lab = Lab::new();
    let call = lab.sweep(&mut World::new(0), &request("15..17", 1, &[]));
    let names: Vec<String> = call.prepared.suite.microbenchmarks.iter().map(|one| one.name.clone()).collect();
    // The scan counts rows, which changes its rate by a factor and its ratios not at all.
    // After eight launches one of the planted steps is confirmed and the others are seen; after twelve all are.
    for (stopping, launches, expected) in
        [(None, 7, [4, 0]), (Some(STOPPING), 10, [1, 3]), (Some(STOPPING), 13, [4, 0])]
    {
        let manifest = SweepManifest { launches, stopping, ..call.manifest.clone() };
        let (slices, layouts) = slices(&manifest, &names, launches, 11);
        let judged = judge(&layouts, stopping.map_or(Design::Fixed, Design::Sequential));
        let report = report(&manifest, &slices);
        let mut answers = [0, 0];
        for (row, judged) in report.rows.iter().zip(&judged) {
            for (cell, judged) in row.cells.iter().zip(&judged.comparisons).skip(1) {
                let (relative, judged) = (cell.relative.unwrap(), judged.unwrap());
                assert!((relative.ratio.ln() - judged.log).abs() < 1e-12, "{} {relative:?} {judged:?}", row.name);
                let (found, expected) = (relative.certainty, judged.certainty);
                assert_eq!(relative.verdict, judged.verdict, "{}", row.name);
                assert_eq!(Certainty { bound: None, ..found }, Certainty { bound: None, ..expected }, "{}", row.name);
                assert_eq!(found.bound.is_some(), expected.bound.is_some());
                assert!((found.bound.unwrap_or(0.0) - expected.bound.unwrap_or(0.0)).abs() < 1e-12, "{}", row.name);
                let ends = |interval: Option<(f64, f64)>| interval.map(|(low, high)| [low, high]);
                let logs = relative.interval.map(|(low, high)| (low.ln(), high.ln()));
                for (found, expected) in ends(logs).iter().flatten().zip(ends(judged.interval).iter().flatten()) {
                    assert!((found - expected).abs() < 1e-12, "{}", row.name);
                }
                answers[0] += u32::from(relative.verdict == Verdict::Regressed);
                answers[1] += u32::from(found.flagged);
            }
        }
        assert_eq!(answers, expected, "called and flagged, {stopping:?} {launches}");
        if let Some(stopping) = stopping {
            agrees_with_progress(&manifest, &slices, &judged, &stopping);
        }
    }
}

fn agrees_with_progress(
    manifest: &SweepManifest,
    slices: &[SliceRecord],
    judged: &[analysis::JudgedRow],
    stopping: &Stopping,
) {
    let suite = regtrack::catalog::suite::builtin().unwrap();
    let catalogue = Catalogue { microbenchmarks: &suite.microbenchmarks, groups: &suite.groups, newest: &[] };
    let progress = analysis::progress(manifest, slices, &catalogue, &manifest.base, stopping).unwrap();
    assert_eq!(progress.len(), ROWS);
    for (row, judged) in progress.iter().zip(judged) {
        assert_eq!(row.state == RowState::Settled, judged.settled, "{row:?}");
        assert!(if judged.settled { row.next_look == judged.look } else { row.next_look > judged.look }, "{row:?}");
    }
    // A sweep that was killed inside a block decides as if the block had not begun.
    let whole: Vec<SliceRecord> = slices.iter().filter(|slice| slice.block < 9).cloned().collect();
    let mut begun = whole.clone();
    begun.extend(slices.iter().filter(|slice| slice.block == 9 && slice.target == manifest.targets[2].id).cloned());
    let of =
        |slices: &[SliceRecord]| analysis::progress(manifest, slices, &catalogue, &manifest.base, stopping).unwrap();
    assert_eq!(of(&begun), of(&whole));
}
