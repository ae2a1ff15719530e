//! Where source is, what names it, and how it gets into a directory.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::domain::{Provenance, Release, TreeKind, Version};
use crate::http::sha256_file;

use super::error::{BuildError, io};
use super::fingerprint;
use super::git::{self, Checkout};
use super::{Wanted, unpack};

/// Where the source is.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// An archive. Named by its hash, which may be known before the file is here.
    Archive { file: PathBuf, sha256: String },
    /// An unpacked tree.
    Tree { directory: PathBuf, sha256: String },
    /// A commit. Named by the hash of what counts in it.
    Commit {
        repository: PathBuf,
        commit: String,
        sha256: String,
        /// Whether neighbours of this commit are likely to follow, for which its objects are worth keeping.
        neighbours: bool,
    },
}

impl Origin {
    /// What names this source: equal only for equal source.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Archive { sha256, .. } => format!("archive {sha256}"),
            Self::Tree { sha256, .. } => format!("tree {sha256}"),
            Self::Commit { sha256, .. } => format!("files {sha256}"),
        }
    }

    pub(super) fn provenance(&self) -> Provenance {
        match self {
            Self::Archive { file, sha256 } => {
                let source = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
                Provenance::Source { source, sha256: Some(sha256.clone()) }
            }
            Self::Tree { directory, .. } => {
                Provenance::Source { source: directory.display().to_string(), sha256: None }
            }
            Self::Commit { repository, commit, .. } => {
                Provenance::Git { repository: repository.display().to_string(), commit: commit.clone() }
            }
        }
    }

    /// Puts the source into `directory`, which is new, and returns the top of its tree. A commit's index goes to
    /// `index`.
    pub(super) fn bring(&self, directory: &Path, index: &Path) -> Result<PathBuf, BuildError> {
        fs::create_dir(directory).map_err(io("create", directory))?;
        match self {
            Self::Archive { file, .. } => unpack::unpack(file, directory)?,
            Self::Tree { directory: from, .. } => copy_tree(from, directory)?,
            Self::Commit { repository, commit, .. } => Checkout { repository, directory, index }.switch(commit)?,
        }
        let inner =
            fs::read_dir(directory).map_err(io("read", directory))?.filter_map(|entry| Some(entry.ok()?.path()));
        std::iter::once(directory.to_owned())
            .chain(inner)
            .find(|path| is_tree(path))
            .ok_or_else(|| BuildError::NoSource { path: PathBuf::from(self.to_string()) })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive { file: path, .. } | Self::Tree { directory: path, .. } => path.display().fmt(f),
            Self::Commit { repository, commit, .. } => {
                write!(f, "{} at {}", repository.display(), commit.get(..10).unwrap_or(commit))
            }
        }
    }
}

/// The source of `release` at a path that a person named.
pub(super) fn find(path: &Path, wanted: Wanted, release: &Release) -> Result<Origin, BuildError> {
    let path = path.canonicalize().map_err(io("find", path))?;
    if is_tree(&path) {
        let sha256 = hash_tree(&path)?;
        return Ok(Origin::Tree { directory: path, sha256 });
    }
    let file = if path.is_dir() { archive_in(&path, wanted)? } else { path };
    let sha256 = sha256_file(&file)?;
    let name = file_name(&file);
    // The catalogue's hash is that of the bzip2 archive; Debian's `orig` archive is that file renamed.
    if let Some(expected) = &release.sha256
        && has_extension(&name, "bz2")
        && archive_version(&name) == Some(release.version)
        && *expected != sha256
    {
        return Err(BuildError::Hash { what: file.display().to_string(), expected: expected.clone(), actual: sha256 });
    }
    Ok(Origin::Archive { file, sha256 })
}

/// The archive in a directory that holds the wanted release, or the newest minor if any will do.
fn archive_in(directory: &Path, wanted: Wanted) -> Result<PathBuf, BuildError> {
    let entries = fs::read_dir(directory).map_err(io("read", directory))?;
    let mut archives: Vec<(Version, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            Some((archive_version(&file_name(&path))?, path))
        })
        .collect();
    archives.sort();
    if archives.is_empty() {
        return Err(BuildError::NoSource { path: directory.to_owned() });
    }
    // Of a .bz2 and a .gz of one version the first has the hash that the catalogue knows.
    let fits = |version: Version| archives.iter().find(|(found, _)| *found == version);
    let newest = archives.iter().rev().find(|(version, _)| wanted.accepts(*version)).map(|(version, _)| *version);
    if let Some((_, path)) = fits(wanted.version).or_else(|| fits(newest?)) {
        return Ok(path.clone());
    }
    let mut found: Vec<String> = archives.iter().map(|(version, _)| version.to_string()).collect();
    found.dedup();
    Err(BuildError::NoArchive { path: directory.to_owned(), wanted: wanted.to_string(), found: found.join(", ") })
}

/// The version in an archive's name: `postgresql-9.6.24.tar.bz2`, `postgresql-19_19~rc1.orig.tar.bz2`.
fn archive_version(name: &str) -> Option<Version> {
    let stem = [".tar.bz2", ".tar.gz", ".tgz"].iter().find_map(|ending| name.strip_suffix(ending))?;
    let version = stem.strip_suffix(".orig").unwrap_or(stem).strip_prefix("postgresql-")?;
    version.rsplit_once('_').map_or(version, |(_, version)| version).replace('~', "").parse().ok()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

fn is_tree(directory: &Path) -> bool {
    directory.join("configure").is_file() && directory.join("src/backend").is_dir()
}

/// Everything in a tree except git's own data, in a fixed order.
fn tree_entries(directory: &Path) -> impl Iterator<Item = Result<(PathBuf, walkdir::DirEntry), BuildError>> {
    WalkDir::new(directory)
        .min_depth(1)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| entry.file_name() != ".git")
        .map(move |entry| {
            let entry = entry.map_err(|error| io("read", directory)(error.into()))?;
            let relative = entry.path().strip_prefix(directory).unwrap_or(entry.path()).to_owned();
            Ok((relative, entry))
        })
}

fn hash_tree(directory: &Path) -> Result<String, BuildError> {
    let mut hash = Sha256::new();
    for entry in tree_entries(directory) {
        let (relative, entry) = entry?;
        hash.update(relative.as_os_str().as_encoded_bytes());
        if entry.file_type().is_file() {
            hash.update(sha256_file(entry.path())?);
        }
        hash.update([0]);
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// Copies a tree with its file times, which decide what make regards as out of date.
fn copy_tree(from: &Path, to: &Path) -> Result<(), BuildError> {
    for entry in tree_entries(from) {
        let (relative, entry) = entry?;
        let (source, target) = (entry.path(), to.join(relative));
        if entry.file_type().is_dir() {
            fs::create_dir(&target).map_err(io("create", &target))?;
        } else if entry.file_type().is_symlink() {
            let link = fs::read_link(source).map_err(io("read", source))?;
            symlink(link, &target).map_err(io("create", &target))?;
        } else if entry.file_type().is_file() {
            fs::copy(source, &target).map_err(io("copy", source))?;
            let modified = source.metadata().and_then(|metadata| metadata.modified()).map_err(io("read", source))?;
            let file = File::options().write(true).open(&target);
            file.and_then(|file| file.set_modified(modified)).map_err(io("set the time of", &target))?;
        }
    }
    Ok(())
}

pub(super) fn tree_kind(tree: &Path) -> TreeKind {
    if tree.join("src/backend/parser/gram.c").is_file() { TreeKind::Archive } else { TreeKind::Git }
}

/// The version that a source tree states in `configure`, which every PostgreSQL has.
pub(super) fn tree_version(tree: &Path) -> Result<Version, BuildError> {
    let configure = tree.join("configure");
    let text = fs::read(&configure).map_err(io("read", &configure))?;
    stated_version(&String::from_utf8_lossy(&text), &configure.display().to_string())
}

/// The version that a commit's `configure` states.
pub(super) fn commit_version(repository: &Path, commit: &str) -> Result<Version, BuildError> {
    let text = git::file(repository, commit, "configure")?;
    stated_version(&text, &format!("configure of {commit} in {}", repository.display()))
}

fn stated_version(configure: &str, place: &str) -> Result<Version, BuildError> {
    let stated = configure.lines().find_map(|line| line.strip_prefix("PACKAGE_VERSION=")).unwrap_or_default();
    let stated = stated.trim_matches('\'');
    fingerprint::version(stated)
        .ok_or_else(|| BuildError::VersionText { place: place.to_owned(), text: stated.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(version: &str, floating: bool) -> Wanted {
        Wanted { version: version.parse().unwrap(), floating }
    }

    #[test]
    fn versions_are_read_from_archive_names() {
        for (name, expected) in [
            ("postgresql-9.6.24.tar.bz2", Some("9.6.24")),
            ("postgresql-17.10.tar.gz", Some("17.10")),
            ("postgresql-15_15.18.orig.tar.bz2", Some("15.18")),
            ("postgresql-19_19~rc1.orig.tar.bz2", Some("19rc1")),
            ("postgresql-15_15.18-0+deb12u1.debian.tar.xz", None),
            ("postgresql-17.10.tar.bz2.sha256", None),
            ("something-17.10.tar.bz2", None),
        ] {
            assert_eq!(archive_version(name).map(|version| version.to_string()).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_directory_of_archives_gives_the_release_or_the_newest_minor() {
        let home = tempfile::tempdir().unwrap();
        for name in ["postgresql-15.9.tar.gz", "postgresql-15_15.18.orig.tar.bz2", "postgresql-15.18.tar.gz", "notes"] {
            fs::write(home.path().join(name), "x").unwrap();
        }
        let found = |wanted| archive_in(home.path(), wanted).map(|path| file_name(&path));
        assert_eq!(found(wanted("15.9", false)).unwrap(), "postgresql-15.9.tar.gz");
        assert_eq!(found(wanted("15.9", true)).unwrap(), "postgresql-15.9.tar.gz");
        assert!(found(wanted("15.20", true)).unwrap().contains("15.18"));
        let error = found(wanted("15.20", false)).unwrap_err().to_string();
        assert!(error.contains("no archive of 15.20; it has 15.9, 15.18"), "{error}");
    }

    fn release(version: &str, sha256: Option<&str>) -> Release {
        let sha256 = sha256.map(str::to_owned);
        let version = version.parse().unwrap();
        Release { version, date: None, tag: String::new(), archive: String::new(), sha256, prebuilt: None }
    }

    #[test]
    fn an_archive_that_is_not_the_published_one_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("postgresql-15_15.18.orig.tar.bz2");
        fs::write(&file, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        find(&file, wanted("15.18", false), &release("15.18", Some(abc))).unwrap();
        let zeros = "0".repeat(64);
        let error = find(&file, wanted("15.18", false), &release("15.18", Some(&zeros))).unwrap_err().to_string();
        assert!(error.contains(abc) && error.contains(&zeros), "{error}");
    }

    #[test]
    fn a_copied_tree_keeps_times_and_hash_and_leaves_git_behind() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("a"), "1").unwrap();
        symlink("a", from.join("l")).unwrap();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        File::options().write(true).open(from.join("a")).unwrap().set_modified(old).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(to.join("a").metadata().unwrap().modified().unwrap(), old);
        assert!(!to.join(".git").exists() && to.join("l").is_symlink());
        assert_eq!(hash_tree(&from).unwrap(), hash_tree(&to).unwrap());
        fs::write(to.join("a"), "2").unwrap();
        assert_ne!(hash_tree(&from).unwrap(), hash_tree(&to).unwrap());
    }
}
