//! What runs when: blocks over all targets in random order, the suite's steps inside a launch.

use std::collections::BTreeSet;

use super::world::{Act, World};
use super::{FEW, Lab, request};

fn steps(world: &World, launch: &str) -> Vec<Act> {
    let acts = world.acts(launch);
    let Some((Act::Begin, rest)) = acts.split_first() else { panic!("{launch} begins with {acts:?}") };
    let Some((Act::Close { keep: false }, steps)) = rest.split_last() else { panic!("{launch} ends with {acts:?}") };
    steps.to_vec()
}

#[test]
fn every_cell_is_measured_once_and_nothing_is_left_behind() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let call = lab.sweep(&mut world, &request("16..18", 2, &FEW));
    let walked = call.walked.as_ref().unwrap();
    assert_eq!((walked.measured, walked.failed), (3 * 2 * 6, 0));
    assert_eq!((call.plan.total, call.plan.stored), (36, 0));
    lab.assert_complete(&call);
    assert_eq!(world.cluster_count(), 0, "a finished launch gives its cluster up");
    let again = lab.sweep(&mut world, &request("16..18", 2, &FEW));
    assert!(again.plan.launches.is_empty());
    assert_eq!(world.launches().len(), 6, "nothing is launched for what is stored");
}

#[test]
fn a_block_is_a_pass_over_all_targets_in_an_order_of_its_own() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let call = lab.sweep(&mut world, &request("14..18", 4, &["point-query.pre"]));
    let launches = world.launches();
    assert_eq!(launches.len(), 20);
    let mut orders = BTreeSet::new();
    for (block, launches) in (1..).zip(launches.chunks(5)) {
        let prefix = format!("b{block}-");
        let targets: Vec<&str> = launches.iter().map(|name| name.strip_prefix(&prefix).unwrap()).collect();
        let all: BTreeSet<&str> = targets.iter().copied().collect();
        assert_eq!(all, call.manifest.targets.iter().map(|target| target.id.0.as_str()).collect());
        orders.insert(targets);
    }
    assert!(orders.len() > 1, "one order for all blocks would give drift the same sign in each: {orders:?}");
}

#[test]
fn the_steps_of_a_launch_are_the_suites() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let call = lab.sweep(&mut world, &request("17", 1, &[]));
    let names = |steps: std::ops::RangeInclusive<u32>| {
        let suite = &call.prepared.suite;
        let chosen = suite.microbenchmarks.iter().filter(move |one| steps.contains(&one.step));
        chosen.map(|one| Act::Measure(one.name.clone())).collect::<Vec<_>>()
    };
    // Vacuum, checkpoint and rest follow the writes that keep the table's size, and nothing else.
    let expected = [names(2..=24), vec![Act::Postwrite(24)], names(25..=43)].concat();
    assert_eq!(expected.len(), 43);
    assert_eq!(steps(&world, &world.launches()[0]), expected);
}

#[test]
fn without_a_write_there_is_no_postwrite() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    lab.sweep(&mut world, &request("17", 1, &["point-query", "scan"]));
    let measure = |name: &str| Act::Measure(name.to_owned());
    assert_eq!(
        steps(&world, &world.launches()[0]),
        [measure("point-query.pre_range=100"), measure("point-query_range=100"), measure("scan_range=100")]
    );
}
