//! The launches of a block together, in turns.

use std::collections::BTreeSet;

use regtrack::sweep::{Crew, SweepError, SweepRequest};

use super::world::{Act, Change, Moment, World};
use super::{FEW, Lab, measured, request};

/// As [`request`], in turns of a quarter of a second.
fn in_turns(range: &str, launches: u32, benches: &[&str]) -> SweepRequest {
    SweepRequest { stretch_seconds: Some(0.25), ..request(range, launches, benches) }
}

/// Launches of the stretches of one microbenchmark in a block, in the order in which they ran, with their events.
fn stretches(world: &World, block: u32, name: &str) -> Vec<(String, u64)> {
    let prefix = format!("b{block}-");
    let (mut found, mut pending) = (Vec::new(), Vec::new());
    for (launch, act) in world.diary.iter().filter(|(launch, _)| launch.starts_with(&prefix)) {
        match act {
            Act::Stretch(events) => pending.push((launch.clone(), *events)),
            Act::Measure(measured) if measured == name => found.append(&mut pending),
            _ => pending.clear(),
        }
    }
    found
}

#[test]
fn the_servers_of_a_block_are_up_together_and_take_turns_forth_and_back() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let call = lab.sweep(&mut world, &in_turns("16..18", 2, &FEW));
    assert_eq!(call.walked.as_ref().unwrap().measured, 36);
    lab.assert_complete(&call);
    assert_eq!((world.most_up, world.cluster_count()), (3, 0));
    let turns = stretches(&world, 1, "point-query_range=100");
    // Four seconds in quarters, three members.
    assert_eq!(turns.len(), 16 * 3);
    let rounds: Vec<Vec<&str>> =
        turns.chunks(3).map(|round| round.iter().map(|(launch, _)| launch.as_str()).collect()).collect();
    for pair in rounds.chunks(2) {
        assert_eq!(pair[0].iter().collect::<BTreeSet<_>>().len(), 3, "each once in a round: {pair:?}");
        assert!(pair[0].iter().eq(pair[1].iter().rev()), "{pair:?}");
    }
    let orders: BTreeSet<&Vec<&str>> = rounds.iter().collect();
    assert!(orders.len() > 2, "one order for all rounds would favour one place: {orders:?}");
}

#[test]
fn all_tables_age_alike_however_fast_their_servers_are() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    world.changes = vec![Change { since: "17.0".parse().unwrap(), rows: "", factor: 0.3 }];
    lab.sweep(&mut world, &in_turns("16..18", 2, &FEW)).walked.unwrap();
    assert_eq!(world.ages.len(), 6);
    for block in ["b1-", "b2-"] {
        let ages: Vec<_> = world.ages.iter().filter(|(launch, _)| launch.starts_with(block)).collect();
        assert_eq!(ages[0].1.len(), 4, "{ages:?}");
        assert!(ages.iter().all(|(_, events)| *events == ages[0].1), "{ages:?}");
    }
    // One after the other, the faster server's table is older.
    let (lab, mut world) = (Lab::new(), World::new(1));
    world.changes = vec![Change { since: "17.0".parse().unwrap(), rows: "", factor: 0.3 }];
    lab.sweep(&mut world, &request("16,17", 1, &FEW)).walked.unwrap();
    assert_ne!(world.ages[0].1, world.ages[1].1);
}

#[test]
fn servers_that_do_not_fit_into_the_memory_together_are_rotated() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    // A table of 1.1 GB, twice, of 70 % of 8 GiB.
    let request = SweepRequest { rows: Some(4_000_000), ..in_turns("14..18", 1, &["point-query"]) };
    let call = lab.sweep(&mut world, &request);
    let crew = Crew::fitting(&call.prepared.protocol, 1, call.prepared.memory_mib);
    assert_eq!((crew.size, world.most_up), (2, 2));
    lab.assert_complete(&call);
    let alone = SweepRequest { stretch_seconds: Some(0.0), ..request };
    let mut world = World::new(1);
    lab.sweep(&mut world, &alone).walked.unwrap();
    assert_eq!(world.most_up, 1);
}

#[test]
fn a_member_that_fails_or_dies_leaves_the_others_alone() {
    let mut world = World::new(1);
    let request = in_turns("16..18", 1, &FEW);
    let call = Lab::new().sweep(&mut World::new(0), &request);
    let targets = &call.manifest.targets;
    world.failing.insert((targets[0].version, "update-one_range=100".to_owned()));
    world.deadly.insert((format!("b1-{}", targets[1].id), "write-only_range=10000".to_owned()));
    let call = Lab::new().sweep(&mut world, &request);
    let walked = call.walked.as_ref().unwrap();
    assert_eq!((walked.measured, walked.failed), (16, 2));
}

#[test]
fn an_interruption_at_every_step_loses_nothing() {
    let reference = {
        let mut world = World::new(1);
        Lab::new().sweep(&mut world, &in_turns("16..17", 1, FEW.split_at(4).0)).walked.unwrap();
        world
    };
    // Two openings, two times four slices, two postwrites.
    assert_eq!(reference.steps, 2 + 8 + 2);
    for at in 1..=reference.steps {
        for moment in [Moment::Before, Moment::After] {
            let (lab, mut world) = (Lab::new(), World::new(1));
            let request = in_turns("16..17", 1, FEW.split_at(4).0);
            world.interrupt = Some((at, moment));
            let call = lab.sweep(&mut world, &request);
            assert!(matches!(call.walked, Err(SweepError::Interrupted)), "step {at}: {:?}", call.walked);
            let records = lab.records(&call);
            assert_eq!(records.len(), measured(&records), "an interruption is no failure");
            world.interrupt = None;
            let call = lab.sweep(&mut world, &request);
            assert_eq!(call.walked.as_ref().unwrap().failed, 0, "step {at}");
            lab.assert_complete(&call);
            // What is complete when the other is interrupted is not opened again; the command removes its cluster.
            assert!(world.cluster_count() <= 1, "step {at}");
        }
    }
}
