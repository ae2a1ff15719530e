//! Counted instructions: equal for equal servers, and a planted number of them is found.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use regtrack::catalog::versions::Catalogue;
use regtrack::domain::{Brake, Build, SliceRecord};
use regtrack::load::Control;
use regtrack::measure::{self, LaunchSpec, MeasureError};
use regtrack::server::Account;
use regtrack::sweep::{self, SweepRequest, profile};

use super::{Place, build, text};
use crate::common::must_run;

const BENCHES: [&str; 3] = ["point-query.pre_range=100", "update-index_range=100", "insert_range=100"];

/// Largest difference of two counts of one server, as a share.
const REPEATABILITY: f64 = 0.003;

/// Rounds of the planted loop per message.
const LOOPS: u64 = 1000;

/// Instructions per query by microbenchmark.
type Counts = BTreeMap<String, f64>;

fn spec(place: &Place, build: &Build, brake: Option<Brake>) -> LaunchSpec {
    let request = SweepRequest {
        rows: Some(1000),
        benches: BENCHES.iter().map(|name| (*name).to_owned()).collect(),
        ..SweepRequest::new("18".parse().unwrap(), profile::find("smoke").unwrap())
    };
    let prepared = sweep::prepare(&request, &Catalogue::builtin().unwrap(), 1024).unwrap();
    LaunchSpec {
        template: None,
        directory: place.path().join("launch"),
        log: place.path().join("server.log"),
        build: build.clone(),
        brake,
        settings: prepared.config.render(build.version.major, prepared.memory_mib).unwrap(),
        init: prepared.init_options(),
        suite: Arc::clone(&prepared.suite),
        protocol: prepared.protocol,
        seed: 1,
        plans: false,
    }
}

fn count(place: &Place, build: &Build, brake: Option<Brake>, wanted: &[&str]) -> Counts {
    let spec = spec(place, build, brake);
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    let mut counts = Counts::new();
    let account = Account::choose(None).unwrap();
    measure::count_instructions(&spec, &wanted, &account, &Control::default(), &mut |microbenchmark, _, counted| {
        let measurement = counted.unwrap();
        assert_eq!(measurement.queries, measurement.events, "one statement each");
        let per_query = measurement.instructions.unwrap() as f64 / measurement.queries as f64;
        counts.insert(microbenchmark.name.clone(), per_query);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(!spec.directory.exists());
    place.assert_no_servers();
    counts
}

#[test]
fn equal_servers_count_alike_and_a_planted_loop_is_found() {
    const TEST: &str = "equal_servers_count_alike_and_a_planted_loop_is_found";
    if let Err(error @ MeasureError::Valgrind { .. }) = measure::check_counting() {
        return must_run(TEST, &error.to_string());
    }
    let Some(place) = Place::for_test(TEST) else { return };
    let build = build("18").unwrap();
    let first = count(&place, &build, None, &BENCHES);
    assert_eq!(first.keys().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(BENCHES));
    // Those that are not wanted, but write, run all the same: the last one meets the same table.
    let again = count(&place, &build, None, &[BENCHES[0], BENCHES[2]]);
    assert_eq!(again.len(), 2);
    for (name, count) in &again {
        let ratio = count / first[name];
        assert!((ratio - 1.0).abs() < REPEATABILITY, "{name}: {count} after {}", first[name]);
    }
    let braked = count(&place, &build, Some(Brake::Loops(LOOPS)), &BENCHES);
    for (name, count) in &braked {
        let planted = (LOOPS * Brake::INSTRUCTIONS_PER_LOOP) as f64;
        let found = count - first[name];
        let tolerance = 100.0 + REPEATABILITY * first[name];
        assert!((found - planted).abs() < tolerance, "{name}: {found} instructions more, planted {planted}");
    }
}

#[test]
fn a_sweep_counts_what_is_not_counted_yet() {
    const TEST: &str = "a_sweep_counts_what_is_not_counted_yet";
    if let Err(error @ MeasureError::Valgrind { .. }) = measure::check_counting() {
        return must_run(TEST, &error.to_string());
    }
    let Some(place) = Place::for_test(TEST) else { return };
    let sweep = |more: &[&str]| {
        let mut arguments = vec!["sweep", "18", "--source", "prebuilt", "--profile", "smoke", "--rows", "1000"];
        arguments.extend(["--bench", "point-query.pre*", "--bench", "scan*"]);
        arguments.extend(more);
        let output = place.run(&arguments);
        assert!(output.status.success(), "{}", text(&output));
        text(&output)
    };
    let said = sweep(&[]);
    assert!(said.contains("2 slices measured, 0 failed") && !said.contains("instructions per query"), "{said}");
    let said = sweep(&["--instructions"]);
    assert!(said.contains("2 slices measured, 0 failed") && said.contains("instructions per query"), "{said}");
    let said = sweep(&["--instructions"]);
    assert!(said.contains("0 slices measured, 0 failed"), "{said}");
    assert_eq!(place.status(), (2, 0, 0));

    let (_, slices) = place.results();
    let counted: Vec<&SliceRecord> = slices.iter().filter(|slice| slice.is_counting()).collect();
    assert_eq!((slices.len(), counted.len()), (4, 2));
    for slice in counted {
        let measurement = slice.outcome.measurement().unwrap();
        assert!(measurement.instructions.unwrap() / measurement.queries > 10_000, "{measurement:?}");
        assert!(measurement.seconds == 0.0, "{measurement:?}");
    }
    let output = place.run(&["report", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cell = &report["microbenchmarks"][0]["cells"][0];
    assert!(
        cell["instructions_per_query"].as_f64().unwrap() > 10_000.0 && cell["qps"].as_f64().unwrap() > 0.0,
        "{cell}"
    );
    place.assert_no_servers();
}
