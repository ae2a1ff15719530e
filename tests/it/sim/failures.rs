//! What goes wrong in one cell, one launch or one release stays there: it is stored with its reason,
//! shown, and tried again by the next call.

use regtrack::analysis;
use regtrack::build::Builder as _;
use regtrack::domain::{HostFingerprint, Outcome, SliceRecord, Version};
use regtrack::sweep::{self, Event, SweepError};

use super::world::{Act, World};
use super::{Call, FEW, Lab, measured, request};

fn failures(slices: &[SliceRecord]) -> Vec<(String, String)> {
    let reason = |slice: &SliceRecord| match &slice.outcome {
        Outcome::Failed(reason) => Some((slice.microbenchmark.clone(), reason.clone())),
        Outcome::Measured(_) => None,
    };
    slices.iter().filter_map(reason).collect()
}

fn counts(call: &Call) -> (usize, usize) {
    let walked = call.walked.as_ref().unwrap();
    (walked.measured, walked.failed)
}

fn version(call: &Call, index: usize) -> Version {
    call.manifest.targets[index].version
}

/// Name of the launch of a target in a block.
fn launch(call: &Call, block: u32, index: usize) -> String {
    format!("b{block}-{}", call.manifest.targets[index].id)
}

/// The releases of `range`, as a sweep that measures nothing yet would name them.
fn dry(range: &str) -> Call {
    let mut world = World::new(0);
    Lab::new().sweep(&mut world, &request(range, 1, &["point-query.pre"]))
}

#[test]
fn a_cell_that_fails_is_stored_shown_tried_again_and_then_counts_as_measured() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 2, &FEW);
    let broken = (version(&dry("16..17"), 1), "update-one_range=100".to_owned());
    world.failing.insert(broken.clone());

    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (22, 2));
    let reason = format!("the server of PostgreSQL {} is not running", broken.0);
    let failed = failures(&lab.slices(&call));
    assert_eq!(failed, vec![(broken.1.clone(), reason.clone()); 2], "every other cell is measured");
    let report = lab.report(&call);
    let row = report.rows.iter().find(|row| row.name == broken.1).unwrap();
    assert_eq!((row.cells[1].rate, row.cells[1].failure.as_ref()), (None, Some(&reason)));
    assert!(row.cells[0].rate.is_some());
    let warned =
        report.warnings.iter().any(|warning| warning.contains("2 measurements failed") && warning.contains(&reason));
    assert!(warned, "{:?}", report.warnings);

    // Still broken: the same two cells, and a second record of each.
    let call = lab.sweep(&mut world, &request);
    assert_eq!((call.plan.total - call.plan.stored, counts(&call)), (2, (0, 2)));
    assert_eq!((lab.records(&call).len(), lab.slices(&call).len()), (26, 24));

    world.failing.clear();
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (2, 0));
    assert!(failures(&lab.slices(&call)).is_empty());
    lab.assert_complete(&call);
    assert!(lab.report(&call).rows.iter().all(|row| row.cells.iter().all(|cell| cell.failure.is_none())));
}

#[test]
fn a_launch_that_cannot_be_opened_loses_its_own_cells_only() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 2, &FEW);
    let name = launch(&dry("16..17"), 2, 0);
    world.unopenable.insert(name.clone());
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (18, 6));
    let slices = lab.slices(&call);
    let lost: Vec<&SliceRecord> = slices.iter().filter(|slice| slice.outcome.measurement().is_none()).collect();
    assert!(lost.iter().all(|slice| slice.launch == name && slice.block == 2), "{lost:?}");
    assert_eq!(call.events.iter().filter(|event| matches!(event, Event::SliceFailed)).count(), 6);
    assert_eq!(
        call.events.iter().filter(|event| matches!(event, Event::Note(_))).count(),
        1,
        "the reason is said once"
    );

    world.unopenable.clear();
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (6, 0));
    lab.assert_complete(&call);
}

#[test]
fn a_server_that_dies_costs_one_cell_and_is_started_again() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 1, &FEW);
    let name = launch(&dry("16..17"), 1, 1);
    world.deadly.insert((name.clone(), "write-only_range=10000".to_owned()));
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (11, 1));
    let slices = lab.slices(&call);
    let failed = failures(&slices);
    assert!(failed[0].1.contains("ended by itself (signal: 11 (SIGSEGV))"), "{failed:?}");
    let starts = slices.iter().filter(|slice| slice.launch == name).map(|slice| slice.server_start);
    assert_eq!(starts.collect::<Vec<_>>(), [1, 1, 1, 2, 2, 2], "the cell of the death belongs to the first start");
    let acts = world.acts(&name);
    let death = acts.iter().position(|act| *act == Act::Recover).unwrap();
    assert_eq!(acts[death - 1], Act::Measure("write-only_range=10000".to_owned()));

    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (1, 0));
    lab.assert_complete(&call);
}

#[test]
fn a_server_that_does_not_come_back_costs_the_rest_of_its_launch() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 2, &FEW);
    let name = launch(&dry("16..17"), 1, 0);
    world.deadly.insert((name, "write-only_range=10000".to_owned()));
    world.recovers = false;
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (20, 4));
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (4, 0));
    lab.assert_complete(&call);
}

#[test]
fn a_release_without_a_build_is_a_gap_until_it_has_one() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..18", 2, &FEW);
    let gap = version(&dry("16..18"), 2);
    world.unbuildable.insert(gap);
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (24, 12));
    let failed = failures(&lab.slices(&call));
    assert_eq!(failed[0].1, format!("there is no build of {gap}"));
    assert_eq!(call.manifest.targets[2].id.0, format!("{gap}-unbuilt"));
    let notes: Vec<&Event> = call.events.iter().filter(|event| matches!(event, Event::Note(_))).collect();
    assert_eq!(notes.len(), 3, "why there is no build, and once per launch that it is missing: {notes:?}");

    world.unbuildable.clear();
    let call = lab.sweep(&mut world, &request);
    assert_eq!(counts(&call), (12, 0));
    lab.assert_complete(&call);
    // What was never built is not kept beside what was: "18" means one thing.
    assert!(call.manifest.former_targets.is_empty(), "{:?}", call.manifest.former_targets);
    let found = analysis::find_target(&call.manifest, &gap.major.to_string()).unwrap();
    assert_eq!(found.id, call.manifest.targets[2].id);
    let report = lab.report(&call);
    assert!(report.warnings.iter().all(|warning| !warning.contains("failed")), "{:?}", report.warnings);
}

#[test]
fn without_any_build_there_is_no_sweep() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let prepared = sweep::prepare(&request("16..17", 1, &FEW), lab.catalogue, 8192).unwrap();
    let choices = world.plan(&super::requests(&prepared)).unwrap();
    world.unbuildable.extend(prepared.wanted.iter().map(|server| server.release.version));
    let error = sweep::targets(&prepared, &choices, &world, &mut |_| ()).unwrap_err();
    assert!(matches!(error, SweepError::NoBuilds(_)), "{error}");
    assert!(lab.store.sweeps().unwrap().is_empty());
}

#[test]
fn a_base_without_a_server_is_replaced_by_the_oldest_release_that_has_one_unless_it_was_asked_for() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let mut request = request("16..18", 1, &FEW);
    let oldest = version(&dry("16..18"), 0);
    world.unbuildable.insert(oldest);
    let call = lab.sweep(&mut world, &request);
    assert_eq!(call.manifest.base, call.manifest.targets[1].id);
    assert!(lab.report(&call).rows[0].cells[2].relative.is_some());

    request.base = Some("16".to_owned());
    let prepared = sweep::prepare(&request, lab.catalogue, 8192).unwrap();
    let targets = call.manifest.targets.clone();
    let host = HostFingerprint::default();
    let error = sweep::open(&lab.store, &prepared, targets, host, Vec::new(), &[], false).unwrap_err();
    assert!(matches!(&error, SweepError::NoBase { base } if *base == oldest.to_string()), "{error}");
}

#[test]
fn a_failing_base_leaves_rates_without_ratios() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 1, &FEW);
    let base = version(&dry("16..17"), 0);
    world.failing.insert((base, "delete_range=100".to_owned()));
    let call = lab.sweep(&mut world, &request);
    assert_eq!(measured(&lab.slices(&call)), 11);
    let report = lab.report(&call);
    let row = report.rows.iter().find(|row| row.name == "delete_range=100").unwrap();
    assert!(row.cells[1].rate.is_some() && row.cells[1].relative.is_none());
}

#[test]
fn a_port_that_someone_else_has_ends_the_sweep_instead_of_failing_every_cell() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    world.taken_port = Some(5433);
    let call = lab.sweep(&mut world, &request("16..17", 1, &FEW));
    let error = call.walked.as_ref().unwrap_err().to_string();
    assert!(error.contains("port 5433 on 127.0.0.1 is in use"), "{error}");
    assert!(lab.records(&call).is_empty());
}
