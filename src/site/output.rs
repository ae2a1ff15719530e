//! Puts a finished set of files in place of the previous one, without a moment in which half of it
//! is visible, and without ever deleting what regtrack did not write.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::SiteError;

/// Marks a directory as made by regtrack and lists the files that it wrote there.
pub(super) const MARKER: &str = ".regtrack-site";

/// First line of the marker.
const MARKER_HEADING: &str = "This directory was written by regtrack and is replaced as a whole. Its files:";

/// A file of the site: path relative to its root, with forward slashes, and content.
pub(super) struct SiteFile {
    /// `bench/scan_range-100.html`
    pub(super) path: String,
    /// The content.
    pub(super) bytes: Vec<u8>,
}

/// Writes all files into a new directory beside `out` and swaps the two. Returns the paths of the
/// files, in the order given.
pub(super) fn replace(out: &Path, files: &[SiteFile]) -> Result<Vec<PathBuf>, SiteError> {
    let target = resolve(out)?;
    refuse_foreign(&target)?;
    let staging = staging_directory(&target)?;
    write_all(&staging, files)?;
    swap(&staging, &target)?;
    if staging.exists() {
        // After the swap the staging name holds the previous site, which was checked above.
        remove(&staging)?;
    }
    Ok(files.iter().map(|file| out.join(&file.path)).collect())
}

/// The real path of the directory, so that a symbolic link keeps pointing to the site.
fn resolve(out: &Path) -> Result<PathBuf, SiteError> {
    if out.exists() {
        return out.canonicalize().map_err(|source| SiteError::Read { path: out.to_owned(), source });
    }
    let name = out.file_name().ok_or_else(|| SiteError::NotADirectory { path: out.to_owned() })?;
    let parent = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(|source| SiteError::Write { path: parent.to_owned(), source })?;
    let parent = parent.canonicalize().map_err(|source| SiteError::Read { path: parent.to_owned(), source })?;
    Ok(parent.join(name))
}

/// Fails unless the directory is absent, empty, or holds nothing but files that regtrack wrote.
pub(super) fn refuse_foreign(directory: &Path) -> Result<(), SiteError> {
    if !directory.exists() {
        return Ok(());
    }
    if !directory.is_dir() {
        return Err(SiteError::NotADirectory { path: directory.to_owned() });
    }
    let present = files_below(directory)?;
    let marker = match fs::read_to_string(directory.join(MARKER)) {
        Ok(marker) => marker,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let empty = present.is_empty();
            return if empty { Ok(()) } else { Err(SiteError::ForeignDirectory { path: directory.to_owned() }) };
        }
        Err(source) => return Err(SiteError::Read { path: directory.join(MARKER), source }),
    };
    let ours: BTreeSet<&str> = listed(&marker).chain([MARKER]).collect();
    match present.into_iter().find(|file| !ours.contains(file.as_str())) {
        Some(file) => Err(SiteError::ForeignFile { path: directory.to_owned(), file }),
        None => Ok(()),
    }
}

/// Relative paths of everything below that is not a directory, in a stable order.
fn files_below(directory: &Path) -> Result<Vec<String>, SiteError> {
    let mut files = Vec::new();
    for entry in walkdir::WalkDir::new(directory).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| SiteError::Read { path: directory.to_owned(), source: error.into() })?;
        if !entry.file_type().is_dir() {
            let path = entry.path().strip_prefix(directory).unwrap_or(entry.path());
            files.push(path.to_string_lossy().into_owned());
        }
    }
    Ok(files)
}

/// An empty directory beside the target. Its name is fixed, so what a killed run left there is
/// found and cleared by the next.
fn staging_directory(target: &Path) -> Result<PathBuf, SiteError> {
    let name = target.file_name().ok_or_else(|| SiteError::NotADirectory { path: target.to_owned() })?;
    let mut staging_name = std::ffi::OsString::from(".");
    staging_name.push(name);
    staging_name.push(".regtrack-new");
    let staging = target.with_file_name(staging_name);
    if staging.exists() {
        refuse_foreign(&staging)?;
        remove(&staging)?;
    }
    fs::create_dir(&staging).map_err(|source| SiteError::Write { path: staging.clone(), source })?;
    Ok(staging)
}

/// A marker that lists these files.
pub(super) fn marker<'a>(files: impl Iterator<Item = &'a str>) -> String {
    let mut marker = MARKER_HEADING.to_owned();
    for file in files {
        marker.push('\n');
        marker.push_str(file);
    }
    marker.push('\n');
    marker
}

/// The files that a marker lists, itself not among them.
pub(super) fn listed(marker: &str) -> impl Iterator<Item = &str> {
    marker.lines().skip(1)
}

/// Writes the marker first: a run killed later leaves a directory that is known to be ours.
fn write_all(directory: &Path, files: &[SiteFile]) -> Result<(), SiteError> {
    let marker = marker(files.iter().map(|file| file.path.as_str()));
    write(&directory.join(MARKER), marker.as_bytes())?;
    for file in files {
        let path = directory.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|source| SiteError::Write { path: parent.to_owned(), source })?;
        }
        write(&path, &file.bytes)?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), SiteError> {
    fs::write(path, bytes).map_err(|source| SiteError::Write { path: path.to_owned(), source })
}

fn remove(directory: &Path) -> Result<(), SiteError> {
    fs::remove_dir_all(directory).map_err(|source| SiteError::Remove { path: directory.to_owned(), source })
}

/// Exchanges the two directories in one step. Without a target a plain rename does. A file system
/// that cannot exchange gets a moment without a site, never one with half of it.
fn swap(staging: &Path, target: &Path) -> Result<(), SiteError> {
    let error = |source| SiteError::Replace { path: target.to_owned(), source };
    match renameat_with(CWD, staging, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        Err(Errno::NOENT) => fs::rename(staging, target).map_err(error),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            remove(target)?;
            fs::rename(staging, target).map_err(error)
        }
        Err(errno) => Err(error(errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SiteFile {
        SiteFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() }
    }

    /// Everything below `root`, including what must not be left behind.
    fn tree(root: &Path) -> Vec<String> {
        files_below(root).unwrap()
    }

    #[test]
    fn a_site_replaces_the_one_before_it_and_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("deep/site");
        replace(&out, &[file("index.html", "one"), file("bench/a.html", "a")]).unwrap();
        let written = replace(&out, &[file("index.html", "two")]).unwrap();
        assert_eq!(written, [out.join("index.html")]);
        assert_eq!(fs::read_to_string(out.join("index.html")).unwrap(), "two");
        assert_eq!(tree(root.path()), ["deep/site/.regtrack-site", "deep/site/index.html"]);
    }

    #[test]
    fn an_empty_directory_is_taken() {
        let root = tempfile::tempdir().unwrap();
        replace(root.path(), &[file("index.html", "x")]).unwrap();
        assert_eq!(tree(root.path()), [".regtrack-site", "index.html"]);
    }

    #[test]
    fn a_foreign_directory_is_refused_and_untouched() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("photos");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("cat.jpg"), "meow").unwrap();
        let error = replace(&out, &[file("index.html", "x")]).unwrap_err();
        assert!(matches!(error, SiteError::ForeignDirectory { .. }), "{error}");
        assert!(error.to_string().contains("photos"), "{error}");
        assert_eq!(tree(root.path()), ["photos/cat.jpg"]);
    }

    #[test]
    fn a_file_that_someone_added_to_the_site_is_not_lost() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("site");
        replace(&out, &[file("index.html", "one")]).unwrap();
        fs::create_dir(out.join(".git")).unwrap();
        fs::write(out.join(".git/HEAD"), "ref").unwrap();
        let error = replace(&out, &[file("index.html", "two")]).unwrap_err();
        assert!(error.to_string().contains(".git/HEAD"), "{error}");
        assert_eq!(fs::read_to_string(out.join("index.html")).unwrap(), "one");
    }

    #[test]
    fn what_a_killed_run_left_is_cleared_but_a_foreign_directory_of_that_name_is_not() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("site");
        let staging = root.path().join(".site.regtrack-new");
        fs::create_dir(&staging).unwrap();
        fs::write(staging.join(MARKER), format!("{MARKER_HEADING}\nindex.html\nbench/a.html\n")).unwrap();
        fs::write(staging.join("index.html"), "half").unwrap();
        replace(&out, &[file("index.html", "x")]).unwrap();
        assert!(!staging.exists());

        fs::create_dir(&staging).unwrap();
        fs::write(staging.join("mine.txt"), "mine").unwrap();
        assert!(matches!(replace(&out, &[]), Err(SiteError::ForeignDirectory { .. })));
        assert!(staging.join("mine.txt").exists());
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("site");
        fs::write(&out, "text").unwrap();
        assert!(matches!(replace(&out, &[]), Err(SiteError::NotADirectory { .. })));
    }

    #[test]
    fn a_symbolic_link_keeps_pointing_to_the_site() {
        let root = tempfile::tempdir().unwrap();
        let link = root.path().join("latest");
        replace(&root.path().join("site"), &[file("index.html", "one")]).unwrap();
        std::os::unix::fs::symlink("site", &link).unwrap();
        replace(&link, &[file("index.html", "two")]).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(root.path().join("site/index.html")).unwrap(), "two");
    }
}
