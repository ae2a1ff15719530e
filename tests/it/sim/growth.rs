//! Later calls that ask for more, for less, or for something else.

use regtrack::analysis;
use regtrack::sweep::SweepRequest;

use super::world::World;
use super::{Call, FEW, Lab, measured, request};

fn labels(call: &Call) -> (Vec<String>, Vec<String>) {
    let majors =
        |targets: &[regtrack::domain::Target]| targets.iter().map(|target| target.version.major.to_string()).collect();
    (majors(&call.manifest.targets), majors(&call.manifest.former_targets))
}

fn new_slices(call: &Call) -> usize {
    call.walked.as_ref().unwrap().measured
}

#[test]
fn a_wider_range_and_more_launches_use_what_is_stored() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let first = lab.sweep(&mut world, &request("16..17", 1, &FEW));
    assert_eq!(new_slices(&first), 12);

    let wider = lab.sweep(&mut world, &request("15..18", 1, &FEW));
    assert_eq!((wider.manifest.id.as_str(), wider.plan.stored), (first.manifest.id.as_str(), 12));
    assert_eq!(new_slices(&wider), 12);
    assert_eq!(wider.manifest.base, wider.manifest.targets[0].id, "the oldest is the base again");

    let more = lab.sweep(&mut world, &request("15..18", 3, &FEW));
    assert_eq!((more.manifest.id.as_str(), more.plan.stored), (first.manifest.id.as_str(), 24));
    assert_eq!(new_slices(&more), 48);
    lab.assert_complete(&more);
    assert_eq!(more.manifest.created_at, first.manifest.created_at);
    assert_eq!(lab.store.sweeps().unwrap().len(), 1);
}

#[test]
fn fewer_launches_show_what_is_there() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    lab.sweep(&mut world, &request("16..17", 3, &FEW));
    let fewer = lab.sweep(&mut world, &request("16..17", 2, &FEW));
    assert_eq!((fewer.plan.total, fewer.plan.stored, new_slices(&fewer)), (24, 24, 0));
    assert_eq!(measured(&lab.slices(&fewer)), 36, "nothing is thrown away");
}

#[test]
fn another_protocol_is_another_sweep_and_leaves_the_first_alone() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let base = request("16..17", 1, &FEW);
    let first = lab.sweep(&mut world, &base);
    let before = lab.slices(&first);
    let others: [(&str, SweepRequest); 7] = [
        ("rows", SweepRequest { rows: Some(100_000), ..base.clone() }),
        ("seconds", SweepRequest { seconds: Some(1.0), ..base.clone() }),
        ("write seconds", SweepRequest { write_seconds: Some(1.0), ..base.clone() }),
        ("warm-up", SweepRequest { warmup_seconds: Some(0.0), ..base.clone() }),
        ("configuration", SweepRequest { config: Some("callaghan".to_owned()), ..base.clone() }),
        ("transport", SweepRequest { unix_socket: true, ..base.clone() }),
        ("microbenchmarks", SweepRequest { benches: vec!["scan".to_owned()], ..base.clone() }),
    ];
    for (number, (what, other)) in (2..).zip(&others) {
        let call = lab.sweep(&mut world, other);
        assert_ne!(call.manifest.id, first.manifest.id, "{what}");
        assert_eq!(call.plan.stored, 0, "{what}");
        assert_eq!(lab.store.sweeps().unwrap().len(), number, "{what}");
        assert_eq!(lab.store.current().unwrap().id, call.manifest.id, "{what}");
    }
    assert_eq!(lab.slices(&first), before);
    let back = lab.sweep(&mut world, &base);
    assert_eq!((back.manifest.id.as_str(), new_slices(&back)), (first.manifest.id.as_str(), 0));
    assert_eq!(lab.store.current().unwrap().id, first.manifest.id);
}

#[test]
fn fresh_begins_again_and_keeps_the_old_sweep() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let request = request("16..17", 1, &FEW);
    let first = lab.sweep(&mut world, &request);
    let before = lab.slices(&first);
    let second = lab.call(&mut world, &request, true);
    assert_eq!(second.manifest.id, format!("{}-2", first.manifest.id));
    assert_eq!(new_slices(&second), 12);
    let third = lab.call(&mut world, &request, true);
    assert_eq!(third.manifest.id, format!("{}-3", first.manifest.id));
    assert_eq!(lab.slices(&first), before);

    let on = lab.sweep(&mut world, &request);
    assert_eq!((on.manifest.id, on.plan.stored), (third.manifest.id, 12), "without --fresh the newest goes on");
}

#[test]
fn a_target_that_is_not_asked_for_steps_aside_and_comes_back() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let all = lab.sweep(&mut world, &request("16..18", 2, &FEW));
    let digest = all.manifest.targets[1].data_digest.clone();
    assert!(digest.is_some() && !all.manifest.targets[1].settings.is_empty());

    let without = lab.sweep(&mut world, &request("16,18", 2, &FEW));
    assert_eq!(labels(&without), (vec!["16".to_owned(), "18".to_owned()], vec!["17".to_owned()]));
    assert_eq!(new_slices(&without), 0);
    let report = lab.report(&without);
    assert_eq!(report.rows[0].cells.len(), 2);
    // It can still be compared with.
    let former = analysis::find_target(&without.manifest, "17").unwrap();
    assert_eq!(former.id, all.manifest.targets[1].id);

    // Once more without it: it is not forgotten.
    let still = lab.sweep(&mut world, &request("18", 2, &FEW));
    assert_eq!(labels(&still), (vec!["18".to_owned()], vec!["16".to_owned(), "17".to_owned()]));

    let back = lab.sweep(&mut world, &request("16..18", 2, &FEW));
    assert_eq!(labels(&back).1, Vec::<String>::new());
    assert_eq!((new_slices(&back), back.plan.stored), (0, 36));
    assert_eq!(back.manifest.targets[1].data_digest, digest);
    lab.assert_complete(&back);
}

#[test]
fn a_larger_range_over_a_gap_measures_only_the_gap() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    lab.sweep(&mut world, &request("16,18", 1, &FEW));
    world.diary.clear();
    let call = lab.sweep(&mut world, &request("16..18", 1, &FEW));
    assert_eq!(world.launches(), [format!("b1-{}", call.manifest.targets[1].id)]);
    lab.assert_complete(&call);
}

#[test]
fn another_build_of_a_release_is_another_target_and_the_new_one_is_meant() {
    let (lab, mut world) = (Lab::new(), World::new(1));
    let first = lab.sweep(&mut world, &request("16..17", 1, &FEW));
    world.compiler = "gcc 14.1.0";
    let second = lab.sweep(&mut world, &request("16..17", 1, &FEW));
    assert_eq!((second.plan.stored, new_slices(&second)), (0, 12), "slices of other builds do not count");
    assert_eq!(second.manifest.former_targets.len(), 2);
    let (old, new) = (&first.manifest.targets[1], &second.manifest.targets[1]);
    for name in ["17", old.label.as_str(), new.id.0.as_str()] {
        assert_eq!(analysis::find_target(&second.manifest, name).unwrap().id, new.id, "{name}");
    }
    assert_eq!(analysis::find_target(&second.manifest, &old.id.0).unwrap().id, old.id);
}
