//! The main job on three majors, all 42 microbenchmarks.

use std::collections::BTreeSet;

use regtrack::catalog::suite;
use regtrack::domain::{Microbenchmark, Outcome, SliceRecord, TargetId};

use super::{Place, text};

const MAJORS: [&str; 3] = ["10", "14", "18"];
const SWEEP: [&str; 8] = ["sweep", "10,14,18", "--profile", "smoke", "--rows", "3000", "--seconds", "0.1"];

#[test]
fn a_server_is_proved_once() {
    let Some(place) = Place::for_test("a_server_is_proved_once") else { return };
    let cache = place.path().join("cache");
    let build = || {
        let arguments = ["build", "17", "--source", "prebuilt", "--json", "--cache", cache.to_str().unwrap()];
        let output = place.run(&arguments);
        assert!(output.status.success(), "{}", text(&output));
        let lines: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(lines[0]["proved"], true, "{lines}");
        lines[0]["proof_seconds"].as_f64().unwrap()
    };
    let first = build();
    place.assert_no_servers();
    assert!(build() < first / 10.0, "the second time it is known");
    assert_eq!(std::fs::read_dir(cache.join("tmp")).unwrap().count(), 0, "no cluster stays");
}

#[test]
fn three_majors_give_every_cell_the_same_data_and_a_site() {
    let Some(place) = Place::for_test("three_majors_give_every_cell_the_same_data_and_a_site") else { return };
    let output = place.run(&SWEEP);
    assert!(output.status.success(), "{}", text(&output));
    place.assert_no_servers();

    let suite = suite::builtin().unwrap();
    assert_eq!(place.status(), (suite.microbenchmarks.len() as u64 * 3, 0, 0));
    let (manifest, slices) = place.results();
    let digests: BTreeSet<_> = manifest.targets.iter().map(|target| target.data_digest.clone()).collect();
    assert_eq!(digests.len(), 1, "{digests:?}");
    assert!(digests.first().unwrap().as_ref().unwrap().starts_with("3000:"), "{digests:?}");
    for (target, major) in manifest.targets.iter().zip(MAJORS) {
        assert_eq!(target.version.major.to_string(), major);
        let fingerprint = &target.build.as_ref().unwrap().fingerprint;
        assert!(fingerprint.version_text.contains(&target.version.to_string()), "{fingerprint:?}");
        assert!(fingerprint.compiler.as_ref().is_some_and(|compiler| compiler.starts_with("gcc")), "{fingerprint:?}");
        assert_eq!(target.settings["synchronous_commit"], "off");
    }
    for slice in &slices {
        let microbenchmark =
            suite.microbenchmarks.iter().find(|candidate| candidate.name == slice.microbenchmark).unwrap();
        check_counts(microbenchmark, &slice.outcome);
        check_plans(microbenchmark, &slice.outcome);
    }

    index_only_scans_stay_in_the_index(&slices);

    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("Relative to 10."), "{stdout}");
    assert!(stdout.contains("different compilers or compiler flags"), "the packages of 10 and 14 differ: {stdout}");
    assert!(place.path().join("public/index.html").exists());

    everything_is_reused(&place);
    comparison_has_every_ratio(&place);
}

/// The vacuum after the load marks all pages as visible to all: otherwise the covered queries before the writes would
/// read the table as well, a third more buffers than after the writes and their vacuum.
fn index_only_scans_stay_in_the_index(slices: &[SliceRecord]) {
    let buffers = |target: &TargetId, name: &str| {
        let found = slices.iter().find(|slice| slice.target == *target && slice.microbenchmark == name).unwrap();
        let m = found.outcome.measurement().unwrap();
        (m.buffers_hit.unwrap() + m.buffers_read.unwrap()) as f64 / m.buffers_queries as f64
    };
    for target in slices.iter().map(|slice| &slice.target).collect::<BTreeSet<_>>() {
        let (fresh, aged) =
            (buffers(target, "points-covered-pk.pre_range=100"), buffers(target, "points-covered-pk_range=100"));
        assert!(fresh < 1.1 * aged, "{target}: {fresh} buffers per query before the writes, {aged} after them");
    }
}

/// Every statement has its plan, and no value that was drawn is in it.
fn check_plans(microbenchmark: &Microbenchmark, outcome: &Outcome) {
    let (name, plans) = (&microbenchmark.name, &outcome.measurement().unwrap().plans);
    let statements: Vec<usize> = plans.iter().map(|plan| plan.statement).collect();
    assert_eq!(statements, (0..microbenchmark.statements.len()).collect::<Vec<_>>(), "{name}");
    let lines: Vec<String> = plans.iter().flat_map(|plan| plan.plan.lines()).collect();
    match microbenchmark.base_name() {
        "point-query" => assert_eq!(lines[0], "Index Scan using sbtest1_pkey on sbtest1", "{name}"),
        "scan" => assert!(lines[0].starts_with("Seq Scan") || lines[0].starts_with("Gather"), "{name}: {lines:?}"),
        "insert" => assert_eq!(lines[0], "ModifyTable (Insert)", "{name}"),
        _ => {}
    }
    let has_value = |line: &String| {
        line.split(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '_')).any(|w| w.parse::<u64>().is_ok())
    };
    assert!(!lines.iter().any(has_value), "{name}: {lines:?}");
}

/// Counters of one slice against what the microbenchmark's definition says.
fn check_counts(microbenchmark: &Microbenchmark, outcome: &Outcome) {
    let Outcome::Measured(measurement) = outcome else { panic!("{}: {outcome:?}", microbenchmark.name) };
    let (name, m) = (&microbenchmark.name, measurement);
    // A faster member of a crew needs less than the slowest.
    assert!(m.events > 0 && m.seconds > 0.0, "{name}: {m:?}");
    assert_eq!(m.queries, m.events * u64::from(microbenchmark.queries_per_event()), "{name}");
    assert_eq!(m.queries, m.reads + m.writes + m.others, "{name}");
    assert_eq!(m.retries, 0, "{name}");
    let selects: u32 =
        microbenchmark.statements.iter().filter(|statement| statement.returns_rows()).map(|s| s.times).sum();
    assert_eq!(m.reads, m.events * u64::from(selects), "{name}");
    assert!(m.buffers_hit.unwrap() > 0 && m.buffers_queries >= m.queries, "{name}: {m:?}");
    assert!(m.latency_us_p50 > 0.0 && m.latency_us_p50 <= m.latency_us_p95 && m.latency_us_p95 <= m.latency_us_max);
    if std::path::Path::new("/proc/self/schedstat").exists() {
        let cpu_seconds = m.backend_cpu_ns.unwrap() as f64 / 1e9;
        assert!(cpu_seconds > 0.0 && cpu_seconds < m.seconds * 1.1, "{name}: {cpu_seconds} of {} s", m.seconds);
        assert!(m.client_cpu_ns.unwrap() > 0, "{name}");
    }
    let wrote = microbenchmark.writes() && m.writes > 0;
    assert!(!wrote || m.wal_bytes.unwrap() > 0, "{name}: {m:?}");
    match microbenchmark.base_name() {
        // Every id exists until the deletes, which come last.
        "point-query" => assert_eq!(m.rows, m.events, "{name}"),
        // A list of a hundred distinct ids that all exist.
        "hot-points" => assert_eq!(m.rows, m.events * 100, "{name}"),
        "update-one" | "update-index" | "update-nonindex" | "update-zipf" | "update-inlist" | "insert" => {
            assert_eq!(m.writes, m.events, "{name}");
        }
        "scan" => assert_eq!(m.rows, 0, "{name}"),
        _ => {}
    }
}

fn everything_is_reused(place: &Place) {
    let files = place.slice_files();
    let again = place.run(&SWEEP);
    assert!(again.status.success(), "{}", text(&again));
    assert!(String::from_utf8_lossy(&again.stderr).contains("0 slices measured"), "{}", text(&again));
    assert_eq!(place.slice_files(), files);

    let without_range = place.run(&["sweep"]);
    assert!(String::from_utf8_lossy(&without_range.stderr).contains("0 slices measured"), "{}", text(&without_range));
}

fn comparison_has_every_ratio(place: &Place) {
    let output = place.run(&["compare", "10", "18", "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["base"].as_str().unwrap().starts_with("10."));
    let counts: Vec<u64> =
        value["groups"].as_array().unwrap().iter().map(|group| group["count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [11, 6, 8, 7, 10]);
    for row in value["microbenchmarks"].as_array().unwrap() {
        let number = |field: &str| row[field].as_f64().unwrap();
        let ratio = number("target_qps") / number("base_qps");
        assert!((number("relative_qps") / ratio - 1.0).abs() < 1e-9, "{row}");
    }
}
