//! What a sweep needs of the machine, and what spoils one. Looks, and changes nothing.
//!
//! Whatever the machine does not tell is unknown, with the reason, and never taken for good.

mod activity;
mod cpu;
mod noise;
mod programs;
mod room;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use activity::Snapshot;
pub use room::Place;

use crate::domain::{Finding, FindingStatus};

/// How long the machine is watched for what others do on it.
const WATCH: Duration = Duration::from_secs(1);

/// How long each of the two series of the noise score takes.
const NOISE: Duration = Duration::from_secs(2);

/// What is examined.
#[derive(Debug, Clone)]
pub struct Examination<'a> {
    /// Whether to look at the programs by which servers are got. A sweep has checked by then those
    /// that it needs.
    pub programs: bool,
    /// The account that was named for the servers.
    pub run_as: Option<&'a str>,
    /// Directories that will be written to.
    pub places: Vec<Place>,
    /// Size of the table with its indexes, in bytes.
    pub table_bytes: u64,
    /// Whether to measure the machine's noise, which takes four seconds more.
    pub noise: bool,
}

/// Examines this machine. Takes a second, and with noise five.
#[must_use]
pub fn examine(wanted: &Examination) -> Vec<Finding> {
    let files = Files::here();
    // Before anything here adds to it.
    let load = activity::load_average(&files);
    let mut findings = Vec::new();
    if wanted.programs {
        findings.extend(programs::getting_servers());
    }
    findings.extend(programs::running_servers(wanted.run_as));
    findings.extend(wanted.places.iter().map(room::disk));
    findings.extend(room::memory(&files, wanted.table_bytes));
    findings.extend(cpu::all(&files));
    findings.push(load);
    let before = Snapshot::take(&files);
    std::thread::sleep(WATCH);
    let after = Snapshot::take(&files);
    findings.push(activity::others(&before, &after, std::process::id()));
    if wanted.noise {
        // A machine that wants no CPU is denied none: steal shows best while something spins.
        let before = Snapshot::take(&files);
        let noise = noise::score(NOISE);
        findings.push(activity::steal(&before, &Snapshot::take(&files)));
        findings.extend(noise);
    } else {
        findings.push(activity::steal(&before, &after));
    }
    findings
}

/// A check: its name, and why it is made.
#[derive(Debug, Clone, Copy)]
struct Check {
    name: &'static str,
    why: &'static str,
}

impl Check {
    const fn new(name: &'static str, why: &'static str) -> Self {
        Self { name, why }
    }

    fn ends(self, status: FindingStatus, found: impl Into<String>, mend: Option<String>) -> Finding {
        Finding { check: self.name.to_owned(), status, found: found.into(), why: self.why.to_owned(), mend }
    }

    fn ok(self, found: impl Into<String>) -> Finding {
        self.ends(FindingStatus::Ok, found, None)
    }

    /// Bad, and a command mends it.
    fn warn(self, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        self.ends(FindingStatus::Warn, found, Some(mend.into()))
    }

    /// Bad, and no command mends it.
    fn warn_only(self, found: impl Into<String>) -> Finding {
        self.ends(FindingStatus::Warn, found, None)
    }

    fn fail(self, found: impl Into<String>, mend: impl Into<String>) -> Finding {
        self.ends(FindingStatus::Fail, found, Some(mend.into()))
    }

    fn unknown(self, reason: impl Into<String>) -> Finding {
        self.ends(FindingStatus::Unknown, reason, None)
    }
}

/// What the kernel says in `/proc` and `/sys`, below a root that tests can choose.
#[derive(Debug)]
struct Files {
    root: PathBuf,
}

impl Files {
    fn here() -> Self {
        Self { root: PathBuf::from("/") }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A file without the blanks around its text; `None` when it is not there or not readable.
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// Names in a directory; empty when it is not there.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    if bytes >= GIB { format!("{:.1} GiB", bytes as f64 / GIB as f64) } else { format!("{} MiB", bytes / MIB) }
}

/// The directory itself, or the nearest one above it that exists.
fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files.
    pub(super) struct Machine {
        dir: tempfile::TempDir,
    }

    impl Machine {
        pub(super) fn new(files: &[(&str, &str)]) -> Self {
            let machine = Self { dir: tempfile::tempdir().unwrap() };
            for (path, text) in files {
                machine.set(path, text);
            }
            machine
        }

        pub(super) fn set(&self, path: &str, text: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(super) fn files(&self) -> Files {
            Files { root: self.dir.path().to_owned() }
        }
    }

    #[test]
    fn a_machine_that_says_nothing_is_unknown_and_not_well() {
        let files = Machine::new(&[]).files();
        let mut findings = cpu::all(&files);
        findings.extend(room::memory(&files, 1 << 30));
        findings.push(activity::load_average(&files));
        let nothing = Snapshot::take(&files);
        findings.extend([activity::others(&nothing, &nothing, 1), activity::steal(&nothing, &nothing)]);
        let known: Vec<&Finding> = findings.iter().filter(|finding| finding.status != FindingStatus::Unknown).collect();
        // The number of CPUs comes from the scheduler and not from a file.
        assert_eq!(known.iter().map(|finding| finding.check.as_str()).collect::<Vec<_>>(), ["cpus"], "{known:#?}");
        assert!(findings.iter().all(|finding| !finding.found.is_empty() && !finding.why.is_empty()));
    }

    #[test]
    fn this_machine_is_examined_without_noise_in_little_more_than_the_watch() {
        let places = vec![Place { name: "results", path: "/no/such/directory".into(), bytes: 1, mend: "x".into() }];
        let wanted = Examination { programs: false, run_as: None, places, table_bytes: 1, noise: false };
        let start = std::time::Instant::now();
        let findings = examine(&wanted);
        assert!(start.elapsed() < WATCH * 5, "{:?}", start.elapsed());
        let names: std::collections::BTreeSet<&str> = findings.iter().map(|finding| finding.check.as_str()).collect();
        assert_eq!(names.len(), findings.len(), "every check has a name of its own: {findings:#?}");
    }
}
