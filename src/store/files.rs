//! Files that are either there in full or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Start of the name of everything that is still being written or already being removed. Whatever
/// carries it is ignored by readers, and removed by the next holder of the lock.
pub(super) const TEMPORARY: &str = ".tmp-";

/// Whether a name belongs to something unfinished.
pub(super) fn is_temporary(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(TEMPORARY.as_bytes())
}

/// A sibling of `path` with a temporary name.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{TEMPORARY}{name}-{}", std::process::id()))
}

/// Writes a file so that a reader, or a machine that loses power, sees the old content or the new.
pub(super) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let unfinished = temporary(path);
    let write = || {
        let mut file = File::create(&unfinished)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        sync_directory(path)
    };
    write().inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(&unfinished);
    })
}

/// Makes a rename or a new name in the directory of `path` durable.
pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// Creates a directory with its parents and makes their names durable.
pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directory(parent)?;
    }
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_directory(path),
    }
}

/// Entries of a directory in the order of their names, unfinished ones left out; none when the
/// directory does not exist.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let listing = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing?,
    };
    let mut paths = Vec::new();
    for entry in listing {
        let entry = entry?;
        if !is_temporary(&entry.file_name()) {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Removes what a killed process left behind, at any depth. Links are not followed.
pub(super) fn remove_temporary(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        match (is_temporary(&entry.file_name()), is_directory) {
            (true, true) => fs::remove_dir_all(entry.path())?,
            (true, false) => fs::remove_file(entry.path())?,
            (false, true) => remove_temporary(&entry.path())?,
            (false, false) => {}
        }
    }
    Ok(())
}
