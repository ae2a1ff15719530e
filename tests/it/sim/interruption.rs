//! Ctrl-C at any moment, and the same command again.

use std::collections::BTreeMap;

use regtrack::sweep::SweepError;

use super::world::{Act, Moment, World};
use super::{FEW, Lab, measured, request};

/// [`FEW`] without the last: every step of a sweep of four launches is interrupted here.
const FEWER: &[&str] = FEW.split_at(5).0;

/// What the uninterrupted sweep does.
fn reference() -> World {
    let (lab, mut world) = (Lab::new(), World::new(1));
    lab.sweep(&mut world, &request("16..17", 2, FEWER)).walked.unwrap();
    world
}

/// Measurements of a launch over all its servers, with how often each was made.
fn measurements(world: &World, launch: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for act in world.acts(launch) {
        if let Act::Measure(name) = act {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// Interrupts at step `at`, checks that it was one, and runs the same command again.
fn interrupt_and_go_on(at: usize, moment: Moment, lose_clusters: bool) -> World {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 2, FEWER);
    world.interrupt = Some((at, moment));
    let call = lab.sweep(&mut world, &request);
    assert!(matches!(call.walked, Err(SweepError::Interrupted)), "step {at}: {:?}", call.walked);
    let records = lab.records(&call);
    let stored = measured(&records);
    assert_eq!(records.len(), stored, "an interruption is no failure");
    assert!(world.cluster_count() <= 1, "only the interrupted launch keeps its cluster");

    world.interrupt = None;
    if lose_clusters {
        world.lose_clusters();
    }
    let call = lab.sweep(&mut world, &request);
    let walked = call.walked.as_ref().unwrap();
    assert_eq!((call.plan.stored, walked.measured, walked.failed), (stored, 20 - stored, 0), "step {at}");
    lab.assert_complete(&call);
    assert_eq!(world.cluster_count(), 0);
    world
}

#[test]
fn at_every_step_the_rest_comes_once_and_in_the_same_order() {
    let reference = reference();
    // Four launches of an opening, five slices and a postwrite.
    assert_eq!(reference.steps, 4 * 7);
    for at in 1..=reference.steps {
        for moment in [Moment::Before, Moment::After] {
            let world = interrupt_and_go_on(at, moment, false);
            assert_eq!(world.launches(), reference.launches(), "step {at}, {moment:?}");
            for launch in reference.launches() {
                // What was measured before the interruption, or took effect in it, is not repeated
                // on the same table; only the slice whose result was lost is.
                let repeated: usize = measurements(&world, &launch).values().map(|count| count - 1).sum();
                assert!(repeated <= usize::from(moment == Moment::After), "step {at}, {moment:?}: {launch}");
                let postwrites = world.acts(&launch).iter().filter(|act| matches!(act, Act::Postwrite(_))).count();
                assert_eq!(postwrites, 1, "step {at}, {moment:?}: {launch}");
            }
        }
    }
}

#[test]
fn at_every_step_a_lost_cluster_is_made_again() {
    let reference = reference();
    for at in 1..=reference.steps {
        let world = interrupt_and_go_on(at, Moment::Before, true);
        assert_eq!(world.launches(), reference.launches(), "step {at}");
    }
}

/// The acts of the second call in the one launch of a sweep that was interrupted at step `at` and
/// then lost its cluster.
fn after_loss(at: usize) -> Vec<Act> {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("17", 1, &FEW);
    world.interrupt = Some((at, Moment::Before));
    assert!(lab.sweep(&mut world, &request).walked.is_err());
    world.interrupt = None;
    world.lose_clusters();
    world.diary.clear();
    let call = lab.sweep(&mut world, &request);
    lab.assert_complete(&call);
    world.acts(&world.launches()[0])
}

#[test]
fn stored_writes_run_again_unrecorded_only_where_a_later_step_needs_them() {
    let measure = |name: &str| Act::Measure(name.to_owned());
    let (update, write) = (measure("update-one_range=100"), measure("write-only_range=10000"));
    let (read, delete, insert) =
        (measure("point-query_range=100"), measure("delete_range=100"), measure("insert_range=100"));
    let (begin, close) = (Act::Begin, Act::Close { keep: false });
    // Steps: opening, point-query.pre, update-one, write-only, postwrite, point-query, delete, insert.
    // Reads that are stored never run again; writes do, with their postwrite.
    assert_eq!(
        after_loss(8),
        [
            begin.clone(),
            update.clone(),
            write.clone(),
            Act::Postwrite(24),
            delete.clone(),
            insert.clone(),
            close.clone()
        ]
    );
    assert_eq!(after_loss(4), [begin, update, write, Act::Postwrite(24), read, delete, insert, close]);
}

#[test]
fn a_read_before_the_writes_needs_none_of_them() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("17", 1, &FEW);
    let version = lab.catalogue.latest("17".parse().unwrap()).unwrap().version;
    world.failing.insert((version, "point-query.pre_range=100".to_owned()));
    lab.sweep(&mut world, &request).walked.unwrap();
    world.failing.clear();
    world.diary.clear();
    let call = lab.sweep(&mut world, &request);
    lab.assert_complete(&call);
    assert_eq!(
        world.acts(&world.launches()[0]),
        [Act::Begin, Act::Measure("point-query.pre_range=100".to_owned()), Act::Close { keep: false }]
    );
}

#[test]
fn the_records_of_a_continued_launch_tell_which_server_made_them() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("17", 1, &FEW);
    world.interrupt = Some((4, Moment::Before));
    assert!(lab.sweep(&mut world, &request).walked.is_err());
    world.interrupt = None;
    let call = lab.sweep(&mut world, &request);
    let slices = lab.slices(&call);
    assert_eq!(slices.iter().map(|slice| slice.server_start).collect::<Vec<_>>(), [1, 1, 2, 2, 2, 2]);
    assert!(slices.iter().all(|slice| slice.launch == slices[0].launch));
}
