//! Sweeps that look at their results: launches go to what is open.

use std::collections::BTreeMap;
use std::time::Duration;

use regtrack::domain::{SliceRecord, Verdict};
use regtrack::sweep::{Event, SweepError, SweepRequest, WantedPrecision};

use super::world::{Change, Moment, World};
use super::{Lab, request};

/// A row that is slower from 17 on, one whose launches scatter widely, and some that are neither.
const ROWS: [&str; 4] = ["point-query.pre", "hot-points", "range-covered-pk.pre", "update-one"];

fn until_known(precision: f64, launches: u32) -> SweepRequest {
    SweepRequest {
        precision: Some(WantedPrecision::Within(precision)),
        stretch_seconds: Some(0.25),
        ..request("16,17", launches, &ROWS)
    }
}

fn world() -> World {
    let mut world = World::new(3);
    world.changes = vec![Change { since: "17.0".parse().unwrap(), rows: "hot-points", factor: 0.8 }];
    (world.launch_sd, world.slice_sd) = (0.004, 0.002);
    world.unsteady = vec!["range-covered-pk"];
    world
}

/// Blocks of each row.
fn blocks(slices: &[SliceRecord]) -> BTreeMap<&str, u32> {
    let mut blocks = BTreeMap::new();
    for slice in slices {
        let latest = blocks.entry(slice.microbenchmark.as_str()).or_default();
        *latest = slice.block.max(*latest);
    }
    blocks
}

#[test]
fn each_row_gets_launches_until_it_is_settled() {
    let (lab, mut world) = (Lab::new(), world());
    let call = lab.sweep(&mut world, &until_known(0.01, 20));
    let slices = lab.slices(&call);
    let blocks = blocks(&slices);
    assert!(blocks["point-query.pre_range=100"] < 20, "{blocks:?}");
    assert!(blocks["hot-points_range=100"] < 20, "a large change is seen early and confirmed: {blocks:?}");
    assert_eq!(blocks["range-covered-pk.pre_range=100"], 20, "it never becomes precise: {blocks:?}");
    let report = lab.report(&call);
    let relative = |name: &str| report.rows.iter().find(|row| row.name == name).unwrap().cells[1].relative.unwrap();
    let slower = relative("hot-points_range=100");
    assert_eq!((slower.verdict, slower.certainty.confirmed), (Verdict::Regressed, true), "{slower:?}");
    assert_eq!(relative("point-query.pre_range=100").verdict, Verdict::Same);
    assert!(!matches!(relative("range-covered-pk.pre_range=100").verdict, Verdict::Improved | Verdict::Regressed));
    // Nothing is left to do, and the same command knows it.
    let again = lab.sweep(&mut world, &until_known(0.01, 20));
    assert_eq!((again.walked.as_ref().unwrap().measured, again.plan.launches.len()), (0, 0));
}

#[test]
fn a_sweep_that_is_interrupted_again_and_again_measures_the_same() {
    let (reference, mut whole) = (Lab::new(), world());
    let call = reference.sweep(&mut whole, &until_known(0.01, 12));
    let wanted = cells(&reference.slices(&call));
    let (lab, mut world) = (Lab::new(), world());
    let mut interruptions = 0;
    let call = loop {
        world.interrupt = Some((world.steps + 17, Moment::Before));
        let call = lab.sweep(&mut world, &until_known(0.01, 12));
        match &call.walked {
            Err(SweepError::Interrupted) => interruptions += 1,
            Err(error) => panic!("{error}"),
            Ok(_) => break call,
        }
        assert!(interruptions < 100);
    };
    assert!(interruptions > 3, "{interruptions}");
    assert_eq!(cells(&lab.slices(&call)), wanted);
}

fn cells(slices: &[SliceRecord]) -> Vec<(u32, String, String)> {
    let cell = |slice: &SliceRecord| (slice.block, slice.target.to_string(), slice.microbenchmark.clone());
    let mut cells: Vec<_> = slices.iter().map(cell).collect();
    cells.sort();
    cells
}

#[test]
fn a_row_that_always_fails_does_not_keep_the_sweep_running() {
    let (lab, mut world) = (Lab::new(), world());
    let call = lab.sweep(&mut World::new(0), &request("17", 1, &["point-query.pre"]));
    world.failing.insert((call.manifest.targets[0].version, "hot-points_range=100".to_owned()));
    let call = Lab::new().sweep(&mut world, &until_known(0.01, 8));
    let walked = call.walked.as_ref().unwrap();
    assert!(walked.failed >= 4 && walked.failed <= 8, "{walked:?}");
}

#[test]
fn no_block_is_begun_that_would_not_end_within_the_budget() {
    let (lab, mut world) = (Lab::new(), world());
    let call = lab.call_within(&mut world, &until_known(0.01, 20), false, Some(Duration::from_secs(1)));
    let walked = call.walked.as_ref().unwrap();
    assert_eq!((walked.measured, walked.open), (0, 4));
    assert!(call.events.iter().any(|event| matches!(event, Event::BudgetSpent { open: 4, .. })));
    // A block is some minutes, as far as anybody can know; in this world it is over at once.
    let call = lab.call_within(&mut world, &until_known(0.01, 20), false, Some(Duration::from_secs(3600)));
    assert_eq!(call.walked.as_ref().unwrap().open, 0);
}
