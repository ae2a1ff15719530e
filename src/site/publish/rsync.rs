//! Another machine, or another place, by the program rsync.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use super::{Finished, Present, PublishError, Published, Stamp, io};
use crate::process;
use crate::site::output;

/// A site of some ten megabytes on a slow line.
const DEADLINE: Duration = Duration::from_secs(1800);

fn run(doing: &'static str, place: &str, command: &mut Command) -> Result<String, PublishError> {
    let result = process::run(command, DEADLINE, None);
    let place = format!("rsync:{place}");
    result.map_err(|source| PublishError::Command { doing, place, source: Box::new(source) })
}

/// The place with one slash at its end: what is in it, and not the directory itself.
fn inside(place: &str) -> String {
    format!("{}/", place.trim_end_matches('/'))
}

pub(super) fn present(place: &str) -> Result<Present, PublishError> {
    let all = list(place)?;
    let work = tempfile::tempdir().map_err(io("make", &std::env::temp_dir()))?;
    let read = |file: &str| {
        if !all.contains(file) {
            return Ok(None);
        }
        let mut command = Command::new("rsync");
        command.arg(format!("{}{file}", inside(place))).arg(work.path());
        run("read a file of", place, &mut command)?;
        let path = work.path().join(file);
        fs::read_to_string(&path).map(Some).map_err(io("read", &path))
    };
    let (marker, stamp) = (read(output::MARKER)?, read(Stamp::FILE)?);
    Present::new(&format!("rsync:{place}"), marker.as_deref(), stamp.as_deref(), all)
}

/// Paths of all files that are there; none where the place does not exist yet.
fn list(place: &str) -> Result<BTreeSet<String>, PublishError> {
    let listing = |place: &str| {
        let mut command = Command::new("rsync");
        // One line per file: its kind and permissions, then nothing but the path.
        command.args(["--recursive", "--dry-run", "--out-format=%B %n", &inside(place)]);
        command.arg(std::env::temp_dir().join("regtrack-no-such-directory/"));
        process::run(&mut command, DEADLINE, None)
    };
    match listing(place) {
        Ok(text) => Ok(files(&text)),
        // rsync's own code for a source that cannot be read. Whether the place or its machine is missing, its parent tells.
        Err(error) if is_partial(&error) => {
            let parent =
                place.trim_end_matches('/').rsplit_once('/').map_or_else(String::new, |(parent, _)| inside(parent));
            let mut command = Command::new("rsync");
            run("look for", place, command.args(["--list-only", "--dirs", &parent]))?;
            Ok(BTreeSet::new())
        }
        Err(source) => {
            let place = format!("rsync:{place}");
            Err(PublishError::Command { doing: "list the files of", place, source: Box::new(source) })
        }
    }
}

/// Whether rsync ended with 23: some files could not be read.
fn is_partial(error: &process::CommandError) -> bool {
    match error.kind() {
        process::CommandErrorKind::Status(status) => status.code() == Some(23),
        _ => false,
    }
}

fn files(listing: &str) -> BTreeSet<String> {
    let path = |line: &str| {
        let (kind, path) = line.split_once(' ')?;
        // Permissions of nine letters; directories end with a slash.
        (kind.len() == 9 && !path.ends_with('/')).then(|| path.to_owned())
    };
    listing.lines().filter_map(path).collect()
}

/// Copies the site's files; those of the last site that are left are removed, and no others.
pub(super) fn publish(next: &Finished<'_>, place: &str, present: &Present) -> Result<Published, PublishError> {
    let work = tempfile::tempdir().map_err(io("make", &std::env::temp_dir()))?;
    let list = work.path().join("files");
    let files: Vec<String> = next.files.iter().cloned().chain(present.obsolete(next)).collect();
    fs::write(&list, files.join("\n") + "\n").map_err(io("write", &list))?;
    let mut command = Command::new("rsync");
    // A file that is on the list and not in the site is one to remove.
    command.args(["--links", "--times", "--checksum", "--delay-updates", "--delete-missing-args"]);
    command.arg(format!("--files-from={}", list.display()));
    command.arg(inside(&next.directory.display().to_string())).arg(inside(place));
    run("copy the site to", place, &mut command)?;
    Ok(Published::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_directories() {
        let listing = "rwxr-xr-x ./\nrw-r--r-- index.html\nrwxr-xr-x bench/\nrw-r--r-- bench/a b.html\nsome note\n";
        assert_eq!(files(listing).into_iter().collect::<Vec<_>>(), ["bench/a b.html", "index.html"]);
    }
}
