//! The base measured twice.

use regtrack::domain::TargetId;
use regtrack::sweep::SweepRequest;

use super::world::World;
use super::{FEW, Lab, request};

fn twice(launches: u32) -> SweepRequest {
    SweepRequest { blind: Some(true), ..request("16,17", launches, &FEW) }
}

#[test]
fn the_base_is_measured_twice_and_stands_nowhere_among_the_targets() {
    let (lab, mut world) = (Lab::new(), World::new(5));
    let call = lab.sweep(&mut world, &twice(6));
    assert_eq!(call.walked.as_ref().unwrap().measured, 3 * 6 * 6, "two releases, and the base again");
    let again = call.manifest.blind.clone().unwrap();
    assert_eq!(again.id, TargetId(format!("{}-again", call.manifest.base)));
    assert!(again.data_digest.is_some() && !again.settings.is_empty());
    let report = lab.report(&call);
    assert!(report.rows.iter().all(|row| row.cells.len() == 2));
    let blind = report.blind.unwrap();
    assert_eq!((blind.compared, blind.intervals), (6, 6));
    assert!(blind.false_verdicts.is_empty() && blind.median_distance < 0.02, "{blind:?}");
    assert!(blind.largest.1 >= blind.median_distance);

    let again = lab.sweep(&mut world, &twice(6));
    assert_eq!((again.walked.unwrap().measured, again.manifest.blind), (0, call.manifest.blind));
    let without = lab.sweep(&mut world, &request("16,17", 6, &FEW));
    assert_eq!(without.walked.as_ref().unwrap().measured, 0);
    assert_eq!(lab.report(&without).blind, None);
}

#[test]
fn a_base_that_is_called_different_from_itself_is_a_warning() {
    let (lab, mut world) = (Lab::new(), World::new(5));
    world.again_factor = 0.8;
    let report = lab.report(&lab.sweep(&mut world, &twice(6)));
    assert_eq!(report.blind.unwrap().false_verdicts.len(), 6);
    let warning = report.warnings.iter().find(|warning| warning.contains("different from itself in 6 of 6"));
    assert!(warning.is_some(), "{:?}", report.warnings);
}
