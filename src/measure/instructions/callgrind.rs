//! valgrind's callgrind: how a server is run under it, and what it writes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::super::MeasureError;
use crate::process;

const PROGRAM: &str = "valgrind";

/// A function of the server that nothing but [`MARK`] calls, in every release from 9.0 on. callgrind writes a dump of
/// what was counted since the last one each time before it is entered.
const MARKER: &str = "pg_backend_pid";

/// The statement that calls it.
pub(in crate::measure) const MARK: &str = "SELECT pg_backend_pid()";

/// What the line with the sum of a dump begins with (valgrind's manual, Callgrind Format Specification).
const TOTALS: &str = "totals: ";

/// Fails where valgrind is not on this machine.
pub(super) fn check() -> Result<(), MeasureError> {
    const DEADLINE: Duration = Duration::from_secs(20);
    let version = process::run(Command::new(PROGRAM).arg("--version"), DEADLINE, None);
    version.map(drop).map_err(|source| MeasureError::Valgrind { source })
}

/// What a server is started under, so that each of its processes writes its counts to `directory`. Instructions only:
/// no caches are simulated, no lines told apart.
pub(in crate::measure) fn command(directory: &Path) -> Vec<OsString> {
    let mut out = OsString::from("--callgrind-out-file=");
    out.push(directory.join("%p"));
    let marker = format!("--dump-before={MARKER}");
    let mut words: Vec<OsString> = [PROGRAM, "--tool=callgrind", "--quiet", "--vgdb=no", "--dump-line=no", &marker]
        .into_iter()
        .map(OsString::from)
        .collect();
    words.push(out);
    words
}

/// Instructions between the last two of the three marks that process `pid` met, without those of a mark: between the
/// first two it did nothing else.
pub(in crate::measure) fn count(directory: &Path, pid: u32) -> Result<u64, MeasureError> {
    let (mark, stretch) = (totals(directory, pid, 2)?, totals(directory, pid, 3)?);
    let path = || dump(directory, pid, 3);
    stretch.checked_sub(mark).ok_or_else(|| MeasureError::Count {
        path: path(),
        source: io::Error::other(format!("{stretch} instructions are fewer than the {mark} of a mark alone")),
    })
}

/// Removes what process `pid` wrote.
pub(in crate::measure) fn remove(directory: &Path, pid: u32) {
    for number in 1..=3 {
        // What stays here goes with the directory.
        let _ = fs::remove_file(dump(directory, pid, number));
    }
    let _ = fs::remove_file(directory.join(pid.to_string()));
}

fn dump(directory: &Path, pid: u32, number: u32) -> PathBuf {
    directory.join(format!("{pid}.{number}"))
}

fn totals(directory: &Path, pid: u32, number: u32) -> Result<u64, MeasureError> {
    let path = dump(directory, pid, number);
    let error = |source| MeasureError::Count { path: path.clone(), source };
    let text = fs::read(&path).map_err(error)?;
    let sum = totals_in(&String::from_utf8_lossy(&text));
    sum.ok_or_else(|| error(io::Error::other("it has no sum of instructions")))
}

/// The sum of a dump whose only event is instructions.
fn totals_in(text: &str) -> Option<u64> {
    text.lines().find(|line| *line == "events: Ir")?;
    text.lines().rev().find_map(|line| line.strip_prefix(TOTALS))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_its_sum_at_the_end() {
        let text = "# callgrind format\nevents: Ir\nsummary: 7\n\nfn=(1) main\n0 7\n\ntotals: 9321208\n";
        assert_eq!(totals_in(text), Some(9_321_208));
        assert_eq!(totals_in("events: Ir\nsummary: 7\n"), None, "it was cut off");
        assert_eq!(totals_in(&text.replace("events: Ir", "events: Ir Dr")), None, "another unit");
    }

    #[test]
    fn a_mark_is_taken_off() {
        let directory = tempfile::tempdir().unwrap();
        let write = |number, sum| {
            fs::write(dump(directory.path(), 7, number), format!("events: Ir\ntotals: {sum}\n")).unwrap();
        };
        write(2, 40_000);
        let error = count(directory.path(), 7).unwrap_err().to_string();
        assert!(error.contains("7.3"), "{error}");
        write(3, 9_040_000);
        assert_eq!(count(directory.path(), 7).unwrap(), 9_000_000);
        write(3, 39_999);
        assert!(count(directory.path(), 7).is_err());
        remove(directory.path(), 7);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
