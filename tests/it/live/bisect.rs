//! A bisect on real servers: `hot-points` became faster in 17.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use super::{Place, eventually, text};

const BISECT: [&str; 10] = [
    "bisect",
    "16..17",
    "--bench=hot-points_range=100",
    "--source=prebuilt",
    "--profile=smoke",
    "--rows=20000",
    "--seconds=0.5",
    "--confidence=0.95",
    "--placement=free",
    "--dir=found",
];

#[test]
fn a_bisect_survives_a_kill_and_names_the_release_that_made_the_difference() {
    let Some(place) = Place::for_test("a_bisect_survives_a_kill_and_names_the_release_that_made_the_difference") else {
        return;
    };
    let log = place.path().join("found/log");
    let child = place.spawn(&BISECT);
    let blocks = || fs::read_to_string(&log).unwrap_or_default().matches(" block ").count();
    // Getting two servers may take longer than one wait.
    assert!((0..6).any(|_| eventually(|| blocks() >= 2)), "no block in three minutes");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait_with_output().unwrap();

    let output = place.run(&BISECT);
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    // Of 16.0 there is no package, so that what led to and from it cannot be told apart.
    let best = said.lines().filter(|line| line.contains("16.0 → 17.0")).collect::<Vec<_>>();
    assert_eq!(best.len(), 1, "{said}");
    let probability: f64 = best[0].split_whitespace().next().unwrap().parse().unwrap();
    assert!(probability > 0.8, "{said}");
    assert!(said.contains("left out: 16.0: "), "{said}");
    let ratio = said.lines().find_map(|line| line.trim().strip_prefix("17 relative to 16: ")).unwrap();
    let ratio: f64 = ratio.split_whitespace().next().unwrap().parse().unwrap();
    assert!((1.2..3.5).contains(&ratio), "{said}");

    // Nothing was measured twice, and nothing is left.
    let log = String::from_utf8(place.run(&["bisect", "log", "found"]).stdout).unwrap();
    let told: Vec<&str> = log.lines().filter(|line| line.contains(" block ")).map(|line| &line[21..]).collect();
    assert_eq!(told.len(), told.iter().collect::<BTreeSet<_>>().len(), "{log}");
    assert_eq!(log.matches("begun").count(), 1, "{log}");
    place.assert_no_servers();
    let shown = String::from_utf8(place.run(&["bisect", "show", "found"]).stdout).unwrap();
    assert!(said.starts_with(&shown), "{shown}\n---\n{said}");
    let again = place.run(&BISECT);
    assert!(String::from_utf8_lossy(&again.stdout).starts_with(&shown), "{}", text(&again));
}

#[test]
fn a_statement_that_fails_on_an_end_is_said() {
    let Some(place) = Place::for_test("a_statement_that_fails_on_an_end_is_said") else { return };
    let suite = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/catalog/suites/sysbench.toml");
    let points = "name = \"hot-points_range=100\"";
    let suite = fs::read_to_string(suite).unwrap();
    let (before, after) = suite.split_once(points).unwrap();
    // The function came with 16.
    let after = after.replacen("columns = \"c\"", "columns = \"any_value(c)\"", 1);
    fs::write(place.path().join("suite.toml"), format!("{before}{points}{after}")).unwrap();
    let arguments = ["bisect", "15..16", "--suite=suite.toml", "--dir=failing"];
    let output = place.run(&[&arguments[..], &BISECT[2..9]].concat());
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it fails on the end 15, so there is nothing to compare: "), "{said}");
    assert!(said.contains("any_value"), "{said}");
    place.assert_no_servers();
}
