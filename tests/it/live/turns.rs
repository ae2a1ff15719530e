//! What goes wrong while two servers take turns: a connection that ends, a server that dies, a disk that fills up. One
//! cell is lost, and only for as long as it takes to ask again.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::process::{Pid, Signal, kill_process};

use super::{Place, eventually, text};
use crate::common::not_run;

/// Three reads of a second each, on two servers that are up together.
const SWEEP: [&str; 11] =
    ["sweep", "17,18", "--profile", "smoke", "--rows", "3000", "--seconds", "1", "--bench", "*.pre_range=100", "-v"];

/// Starts the sweep and waits until its first microbenchmark is stored and the second is under way.
fn under_way(place: &Place, arguments: &[&str]) -> Child {
    let child = place.spawn(arguments);
    assert!(eventually(|| place.slice_files().len() >= 2));
    std::thread::sleep(Duration::from_millis(700));
    child
}

/// One failed cell whose reason has `reason`, everything else measured; the same command then measures what is missing.
fn assert_one_cell_is_lost(place: &Place, arguments: &[&str], output: &Output, reason: &str) {
    assert_eq!(output.status.code(), Some(3), "{}", text(output));
    assert!(String::from_utf8_lossy(&output.stderr).contains(reason), "{}", text(output));
    let (measured, failed, missing) = place.status();
    assert_eq!((failed, missing), (1, 0), "{}", text(output));
    place.assert_no_servers();
    let again = place.run(arguments);
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(place.status(), (measured + 1, 0, 0));
}

/// The connection's process of the server `postmaster` that has used the most CPU time.
fn busiest_backend(postmaster: i32) -> i32 {
    let mut backends: Vec<(u64, i32)> = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let title = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        // After the name in parentheses: state, parent, and as the 12th and 13th the user and system time.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        if fields[1] == postmaster.to_string() && title.windows(10).any(|window| window == b"127.0.0.1(") {
            let used = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
            backends.push((used, entry.file_name().to_str().unwrap().parse().unwrap()));
        }
    }
    backends.into_iter().max().expect("a connection").1
}

#[test]
fn a_connection_that_ends_costs_one_cell() {
    let Some(place) = Place::for_test("a_connection_that_ends_costs_one_cell") else { return };
    let child = under_way(&place, &SWEEP);
    let backend = busiest_backend(place.servers().into_iter().min().unwrap());
    kill_process(Pid::from_raw(backend).unwrap(), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_one_cell_is_lost(&place, &SWEEP, &output, "terminating connection due to administrator command");
}

#[test]
fn a_server_that_dies_between_two_turns_costs_one_cell() {
    let Some(place) = Place::for_test("a_server_that_dies_between_two_turns_costs_one_cell") else { return };
    let child = under_way(&place, &SWEEP);
    let postmaster = place.servers().into_iter().min().unwrap();
    kill_process(Pid::from_raw(postmaster).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_one_cell_is_lost(&place, &SWEEP, &output, "ended by itself");
}

/// A file system of its own for the clusters, so that filling it fills nothing else.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// `None` where this account may not mount anything.
    fn new(directory: &'a Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir_all(directory).unwrap();
        let options = format!("size={mebibytes}m,mode=0755");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(directory).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(directory))
    }

    /// Takes all space that is left.
    fn fill(&self) {
        let file = File::create(self.filler()).unwrap();
        let mut chunk = 16 << 20;
        let mut size = 0;
        while chunk >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), size, chunk) {
                Ok(()) => size += chunk,
                Err(_) => chunk /= 2,
            }
        }
    }

    fn clear(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> std::path::PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

#[test]
fn a_disk_that_fills_up_stops_the_sweep_and_costs_nothing_that_was_stored() {
    const TEST: &str = "a_disk_that_fills_up_stops_the_sweep_and_costs_nothing_that_was_stored";
    let Some(place) = Place::for_test(TEST) else { return };
    let import = place.run(&["sweep", "18", "--profile", "smoke", "--rows", "1000", "--bench", "point-query.pre*"]);
    assert!(import.status.success(), "{}", text(&import));
    let clusters = place.path().join("results/clusters");
    let Some(disk) = SmallDisk::new(&clusters, 600) else {
        return not_run(TEST, "this account may not mount a file system of its own");
    };
    let arguments = ["sweep", "17,18", "--profile", "smoke", "--rows", "3000", "--seconds", "1", "-v"];
    let arguments =
        [&arguments[..], &["--bench", "point-query.pre*", "--bench", "insert*", "--bench", "delete*"]].concat();
    let before = place.slice_files().len();
    let child = place.spawn(&arguments);
    assert!(eventually(|| place.slice_files().len() >= before + 2));
    disk.fill();
    let output = child.wait_with_output().unwrap();
    // Nothing that follows could be measured either: the sweep stops, and says what to do.
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("is full; everything measured so far is kept"), "{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    let (measured, failed, missing) = place.status();
    assert!(measured >= 2 && failed >= 1, "{}", text(&output));
    place.assert_no_servers();

    disk.clear();
    let again = place.run(&arguments);
    assert!(again.status.success(), "{}", text(&again));
    assert_eq!(place.status(), (measured + failed + missing, 0, 0));
}
