//! `regtrack parity` on a real server: sysbench, and pgbench where there is one, against regtrack's own client.

use std::path::{Path, PathBuf};

use regtrack::rival::Sysbench;
use rustix::process::{Pid, Signal, kill_process};

use super::{Place, eventually, text};
use crate::common::must_run;

/// The sysbench that `REGTRACK_SYSBENCH` names, or the one on the search path; `None`, with a note, where it cannot be
/// used.
fn sysbench(test: &str) -> Option<PathBuf> {
    let program = PathBuf::from(std::env::var_os("REGTRACK_SYSBENCH").unwrap_or_else(|| "sysbench".into()));
    match Sysbench::find(&program) {
        Ok(_) => Some(program),
        Err(error) => {
            must_run(test, &error.to_string());
            None
        }
    }
}

/// The arguments for prebuilt 17, with the data directory in `place`.
fn arguments<'a>(place: &'a Place, sysbench: &'a Path) -> Vec<&'a str> {
    let clusters = place.path().to_str().unwrap();
    let sysbench = sysbench.to_str().unwrap();
    vec!["parity", "17", "--source", "prebuilt", "--rows", "2000", "--clusters", clusters, "--sysbench", sysbench]
}

/// Entries of `place` that a comparison made.
fn left(place: &Place) -> usize {
    let entries = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_string_lossy().starts_with("regtrack-parity-")).count()
}

#[test]
fn sysbench_and_regtrack_do_the_same() {
    const TEST: &str = "sysbench_and_regtrack_do_the_same";
    let Some(sysbench) = sysbench(TEST) else { return };
    let Some(place) = Place::for_test(TEST) else { return };
    let mut arguments = arguments(&place, &sysbench);
    arguments.extend(["--rounds", "2", "--seconds", "0.1", "--placement", "same-cpu", "--json"]);
    let benches = ["range-notcovered-si.pre", "update-zipf", "read-write_range=10", "scan", "insert"];
    arguments.extend(benches.iter().flat_map(|bench| ["--bench", bench]));

    let output = place.run(&arguments);
    // 3: on a busy machine the CPU time of so short a run can be anything.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", text(&output));
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(entries.len(), benches.len());
    for entry in &entries {
        assert_eq!((&entry["statements_equal"], &entry["rounds"]), (&true.into(), &2.into()), "{entry:#}");
        assert_eq!(entry["placement"], "same-cpu", "{entry:#}");
        for name in ["backend_cpu_ratio", "client_cpu_ratio", "qps_ratio"] {
            let number = |name: &str| entry[name].as_f64().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
            let [low, mean, high] = [format!("{name}_low"), name.to_owned(), format!("{name}_high")]
                .map(|name| number(&name).unwrap_or_else(|| panic!("{name}: {entry:#}")));
            assert!(low <= mean && mean <= high, "{name}: {entry:#}");
        }
        // Of these, pgbench can do the first; it may be missing.
        let is_range = entry["name"] == "range-notcovered-si.pre_range=100";
        assert!(is_range || entry.get("pgbench_qps_ratio").is_none(), "{entry:#}");
    }
    place.assert_no_servers();
    assert_eq!(left(&place), 0);
}

#[test]
fn loads_are_compared_too() {
    const TEST: &str = "loads_are_compared_too";
    let Some(sysbench) = sysbench(TEST) else { return };
    let Some(place) = Place::for_test(TEST) else { return };
    let mut arguments = arguments(&place, &sysbench);
    arguments.extend(["--load", "--rounds", "2", "--json"]);
    let output = place.run(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    let entry: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&entry["rows"], &entry["rounds"]), (&2000.into(), &2.into()), "{entry:#}");
    for name in
        ["load_ratio_low", "load_ratio", "load_ratio_high", "regtrack_rows_per_second", "sysbench_rows_per_second"]
    {
        assert!(entry[name].as_f64().is_some_and(|number| number.is_finite() && number > 0.0), "{name}: {entry:#}");
    }
    place.assert_no_servers();
    assert_eq!(left(&place), 0);
}

#[test]
fn the_backend_executes_as_many_instructions_for_either() {
    const TEST: &str = "the_backend_executes_as_many_instructions_for_either";
    if let Err(error) = regtrack::measure::check_counting() {
        must_run(TEST, &error.to_string());
        return;
    }
    let Some(sysbench) = sysbench(TEST) else { return };
    let Some(place) = Place::for_test(TEST) else { return };
    let mut arguments = arguments(&place, &sysbench);
    arguments.extend(["--instructions", "--bench", "point-query.pre*", "--bench", "update-index*", "--json"]);
    let output = place.run(&arguments);
    assert!(output.status.success(), "{}", text(&output));
    let entries: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(entries.len(), 2);
    for entry in &entries {
        assert_eq!(entry["statements_equal"], true, "{entry:#}");
        let [ratio, ours, theirs] = [
            "backend_instructions_ratio",
            "regtrack_backend_instructions_per_query",
            "sysbench_backend_instructions_per_query",
        ]
        .map(|name| entry[name].as_f64().unwrap());
        // A statement cannot be received, planned or bound, executed and answered with less.
        assert!(ours > 10_000.0 && (ratio - ours / theirs).abs() < 1e-9, "{entry:#}");
        // A little more than what finding the next message there, or not, makes: names of two bytes do not pass.
        assert!((ratio - 1.0).abs() < 0.008, "{entry:#}");
    }
    place.assert_no_servers();
    assert_eq!(left(&place), 0);
}

#[test]
fn an_interrupted_comparison_leaves_nothing() {
    const TEST: &str = "an_interrupted_comparison_leaves_nothing";
    let Some(sysbench) = sysbench(TEST) else { return };
    let Some(place) = Place::for_test(TEST) else { return };
    let mut arguments = arguments(&place, &sysbench);
    arguments.extend(["--seconds", "0.4", "--rounds", "1000", "--bench", "point-query"]);
    let mut child = place.spawn(&arguments);
    assert!(eventually(|| !place.servers().is_empty()), "no server appears");
    assert!(eventually(|| !clients(child.id()).is_empty()), "no other client appears");
    let client = clients(child.id());
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    place.assert_no_servers();
    assert!(eventually(|| client.iter().all(|pid| !is_client(*pid))), "{client:?} still run");
    assert_eq!(left(&place), 0);
}

/// Process ids of the children of `parent` that are other clients.
fn clients(parent: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).filter(|pid| is_client(*pid)).collect()
}

/// Whether the process runs a twin.
fn is_client(pid: u32) -> bool {
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command_line).contains("gated-")
}
