//! What goes wrong on the way: kill −9, signals, a server that dies, a port that is taken.

use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Place, eventually, text};

/// Reads, writes, a composite and both steps of the end, on two releases.
const SWEEP: [&str; 15] = [
    "sweep",
    "17,18",
    "--profile",
    "smoke",
    "--rows",
    "3000",
    "--seconds",
    "0.1",
    "--bench",
    "point-query*",
    "--bench",
    "*-index*",
    "--bench",
    "read-write*",
    "-v",
];

#[test]
fn kill_minus_nine_at_ten_moments_loses_nothing_that_was_stored() {
    const TEST: &str = "kill_minus_nine_at_ten_moments_loses_nothing_that_was_stored";
    let Some(place) = Place::for_test(TEST) else { return };
    let whole = place.run(&[&SWEEP[..], &["--dry-run"]].concat());
    assert!(whole.status.success(), "{}", text(&whole));
    let mut before = 0;
    for moment in 0..10u64 {
        let mut child = place.spawn(&SWEEP);
        // Spread over builds, initdb, load, slices and stops.
        std::thread::sleep(Duration::from_millis(120 + moment * 377 % 3100));
        child.kill().unwrap();
        child.wait().unwrap();
        place.assert_no_servers();
        let stored = place.slice_files().len();
        assert!(stored >= before, "a stored slice is gone");
        before = stored;
    }
    let last = place.run(&SWEEP);
    assert!(last.status.success(), "{}", text(&last));
    place.assert_no_servers();

    let (manifest, slices) = place.results();
    let mut cells: Vec<_> = slices.iter().map(|slice| (&slice.target, &slice.microbenchmark)).collect();
    cells.sort();
    cells.dedup();
    let (measured, failed, missing) = place.status();
    assert_eq!((failed, missing), (0, 0));
    assert_eq!(cells.len(), slices.len());
    assert_eq!(measured, cells.len() as u64);
    assert_eq!(cells.len() % manifest.targets.len(), 0);
    // One file per cell: nothing was measured twice.
    assert_eq!(place.slice_files().len(), cells.len());
    let left: Vec<_> = std::fs::read_dir(place.path().join("results/clusters")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_terminated_sweep_stops_its_server_and_goes_on_later() {
    let Some(place) = Place::for_test("a_terminated_sweep_stops_its_server_and_goes_on_later") else { return };
    let child = place.spawn(&SWEEP);
    assert!(eventually(|| place.slice_files().len() >= 2));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the same command without --fresh goes on from here"));
    assert!(place.servers().is_empty(), "the server was not stopped before the end");
    let last = place.run(&SWEEP);
    assert!(last.status.success(), "{}", text(&last));
    let (_, failed, missing) = place.status();
    assert_eq!((failed, missing), (0, 0));
}

#[test]
fn a_server_that_dies_costs_one_cell_and_is_started_again() {
    let Some(place) = Place::for_test("a_server_that_dies_costs_one_cell_and_is_started_again") else { return };
    let arguments = ["sweep", "18", "--profile", "smoke", "--rows", "3000", "--seconds", "0.2", "--bench", "*.pre*"];
    let child = place.spawn(&arguments);
    assert!(eventually(|| place.slice_files().len() >= 3));
    let postmaster = place.servers().into_iter().min().unwrap();
    kill_process(Pid::from_raw(postmaster).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("ended by itself"), "{stderr}");
    let (measured, failed, missing) = place.status();
    assert_eq!((measured, failed, missing), (14, 1, 0), "{}", text(&output));
    place.assert_no_servers();

    let again = place.run(&arguments);
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(place.status(), (15, 0, 0));
}

#[test]
fn a_port_that_is_taken_is_said_before_anything_starts() {
    let Some(place) = Place::for_test("a_port_that_is_taken_is_said_before_anything_starts") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = place.run(&["sweep", "18", "--profile", "smoke", "--port", &port]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&format!("port {port} on 127.0.0.1 is in use")));
    assert!(!place.path().join("results").exists());
}

#[test]
fn another_process_that_hogs_the_machine_is_noticed_and_named() {
    let Some(place) = Place::for_test("another_process_that_hogs_the_machine_is_noticed_and_named") else { return };
    let hog = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let mut hogs = [hog(), hog()];
    // Longer than what /proc/stat can tell anything about.
    let bench = ["--bench", "point-query.pre*", "--seconds", "0.7"];
    let output = place.run(&[&["sweep", "17", "--profile", "smoke", "--rows", "3000"][..], &bench].concat());
    for hog in &mut hogs {
        hog.kill().unwrap();
        hog.wait().unwrap();
    }
    assert!(output.status.success(), "{}", text(&output));
    let (_, slices) = place.results();
    let noise = &slices[0].outcome.measurement().unwrap().noise;
    assert!(noise.iter().any(|noise| noise.starts_with("other processes used")), "{noise:?}");
}
