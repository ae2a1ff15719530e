//! What is in a cache, and how old builds leave it.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::cache::{self, Cache};
use super::error::{BuildError, io};
use super::worktree;
use crate::domain::{Build, Provenance, Version};

/// What a cache directory holds. Field names are part of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// The directory.
    pub directory: PathBuf,
    /// Finished builds, the one that was used last first.
    pub builds: Vec<CachedBuild>,
    /// Downloaded source archives by name.
    pub archives: Vec<CachedArchive>,
    /// Trees that sources were compiled in, the one that was used last first.
    pub trees: Vec<CachedTree>,
}

/// A tree that a source was compiled in: kept for the next commit, or left by a compile that was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CachedTree {
    /// Name of its directory.
    pub name: String,
    /// Room that it takes on the disk.
    pub bytes: u64,
    /// When it was used last.
    pub last_used: Timestamp,
    /// Whether a compile was interrupted there.
    pub unfinished: bool,
    /// Whether a process works there now.
    pub in_use: bool,
}

/// A finished build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CachedBuild {
    /// Hash of its inputs, and name of its directory.
    pub key: String,
    /// Its version.
    pub version: Version,
    /// Where it came from.
    pub provenance: Provenance,
    /// Room that it takes on the disk.
    pub bytes: u64,
    /// When a sweep last asked for it; when it was made, if none has since.
    pub last_used: Timestamp,
    /// Whether a process makes it or uses it now.
    pub in_use: bool,
}

/// A downloaded source archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CachedArchive {
    /// File name.
    pub name: String,
    /// Room that it takes on the disk.
    pub bytes: u64,
}

impl Inventory {
    /// Looks into the cache at `directory`. One that does not exist is empty; nothing is made or changed.
    pub fn read(directory: &Path) -> Result<Self, BuildError> {
        let mut builds = Vec::new();
        for prefix in entries(&directory.join("builds"))? {
            let key = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some(build) = own_build(&prefix, &key) {
                builds.push(entry(directory, build)?);
            }
        }
        builds.sort_by(|a, b| b.last_used.cmp(&a.last_used).then_with(|| a.key.cmp(&b.key)));
        let mut archives = Vec::new();
        for path in entries(&directory.join("archives"))? {
            if path.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                archives.push(CachedArchive { name, bytes: disk_use(&path)? });
            }
        }
        archives.sort_by(|a, b| a.name.cmp(&b.name));
        let mut trees = Vec::new();
        for path in entries(&directory.join("trees"))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let lock = directory.join("locks").join(format!("tree-{name}.lock"));
            // One without a lock was not made here.
            if lock.is_file() && path.is_dir() {
                trees.push(tree(&path, name, &lock)?);
            }
        }
        trees.sort_by(|a: &CachedTree, b| b.last_used.cmp(&a.last_used).then_with(|| a.name.cmp(&b.name)));
        Ok(Self { directory: directory.to_owned(), builds, archives, trees })
    }

    /// Room that all builds take together, in bytes.
    #[must_use]
    pub fn build_bytes(&self) -> u64 {
        self.builds.iter().map(|build| build.bytes).sum()
    }

    /// Room that all archives take together, in bytes.
    #[must_use]
    pub fn archive_bytes(&self) -> u64 {
        self.archives.iter().map(|archive| archive.bytes).sum()
    }

    /// Room that all trees take together, in bytes.
    #[must_use]
    pub fn tree_bytes(&self) -> u64 {
        self.trees.iter().map(|tree| tree.bytes).sum()
    }

    /// The trees that have to go for builds and trees to fit into `keep` bytes. They go before any build: one that
    /// is gone costs less than a build that is.
    #[must_use]
    pub fn superfluous_trees(&self, keep: u64) -> Vec<&CachedTree> {
        let mut rest = self.build_bytes() + self.tree_bytes();
        let oldest_first = self.trees.iter().rev().filter(|tree| !tree.in_use);
        oldest_first
            .take_while(|tree| {
                let too_much = rest > keep;
                rest -= if too_much { tree.bytes } else { 0 };
                too_much
            })
            .collect()
    }

    /// The builds that have to go for the rest to fit into `keep` bytes when there is no tree: those that were used
    /// least recently, and none that is in use.
    #[must_use]
    pub fn superfluous(&self, keep: u64) -> Vec<&CachedBuild> {
        let mut rest = self.build_bytes();
        let oldest_first = self.builds.iter().rev().filter(|build| !build.in_use);
        oldest_first
            .take_while(|build| {
                let too_much = rest > keep;
                rest -= if too_much { build.bytes } else { 0 };
                too_much
            })
            .collect()
    }
}

/// Removes `build` from the cache at `directory`. False when a process has begun to use it meanwhile.
pub fn prune(directory: &Path, build: &CachedBuild) -> Result<bool, BuildError> {
    Cache::open(directory, None)?.remove(&build.key)
}

/// Removes `tree` from the cache at `directory`. False when a process works there.
pub fn prune_tree(directory: &Path, tree: &CachedTree) -> Result<bool, BuildError> {
    Cache::open(directory, None)?.remove_tree(&tree.name)
}

fn tree(path: &Path, name: String, lock: &Path) -> Result<CachedTree, BuildError> {
    let state = path.join("state.json");
    let used = state.metadata().or_else(|_| path.metadata()).and_then(|metadata| metadata.modified());
    let last_used = Timestamp::try_from(used.map_err(io("look at", path))?).unwrap_or(Timestamp::UNIX_EPOCH);
    let (bytes, in_use) = (disk_use(path)?, is_locked(lock));
    Ok(CachedTree { name, bytes, last_used, unfinished: worktree::is_unfinished(path), in_use })
}

/// The build in a directory, if it was made here: a link or a copy under another name was not.
fn own_build(prefix: &Path, key: &str) -> Option<Build> {
    let is_directory = fs::symlink_metadata(prefix).is_ok_and(|metadata| metadata.is_dir());
    let build = is_directory.then(|| cache::read_build(prefix.to_owned())).flatten()?;
    (build.key == key).then_some(build)
}

fn entry(directory: &Path, build: Build) -> Result<CachedBuild, BuildError> {
    Ok(CachedBuild {
        bytes: disk_use(&build.prefix)?,
        last_used: cache::last_used(&build.prefix)?,
        in_use: is_locked(&directory.join("locks").join(format!("{}.lock", build.key))),
        key: build.key,
        version: build.version,
        provenance: build.provenance,
    })
}

fn is_locked(path: &Path) -> bool {
    File::open(path).is_ok_and(|lock| lock.try_lock().is_err())
}

/// Paths in a directory; none when there is no such directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, BuildError> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(directory).map_err(io("read", directory))?;
    entries.map(|entry| Ok(entry.map_err(io("read", directory))?.path())).collect()
}

/// Room that a file, or a directory with all below it, takes on the disk.
fn disk_use(path: &Path) -> Result<u64, BuildError> {
    let mut bytes = 0;
    for entry in walkdir::WalkDir::new(path) {
        let metadata = entry.and_then(|entry| entry.metadata()).map_err(|error| io("read", path)(error.into()))?;
        // st_blocks counts units of 512 bytes, whatever the file system's own are (stat(2)).
        bytes += metadata.blocks() * 512;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::super::fingerprint::tests::program;
    use super::*;

    /// A cache with builds that were used `a`, `b` and `c` hours ago.
    fn cache(home: &Path, hours: &[(&str, u64)]) -> Cache {
        let cache = Cache::open(home, None).unwrap();
        for (key, hours) in hours {
            let made = Provenance::Source { source: "test".into(), sha256: None };
            let build = cache.provide(key, &mut |_| {}, |claim, _| {
                let tree = claim.directory().join("tree");
                program(&tree.join("bin/postgres"), "postgres (PostgreSQL) 17.10");
                fs::write(tree.join("ballast"), vec![7; 100_000]).unwrap();
                Ok((tree, made))
            });
            let marker = File::options().write(true).open(build.unwrap().prefix.join("last-used")).unwrap();
            marker.set_modified(SystemTime::now() - Duration::from_secs(hours * 3600)).unwrap();
        }
        cache
    }

    /// What is in the cache once nobody uses a build. A child that another test starts has a copy of each
    /// lock until it runs its program.
    fn unused(home: &Path) -> Inventory {
        for _ in 0..1000 {
            let inventory = Inventory::read(home).unwrap();
            if inventory.builds.iter().all(|build| !build.in_use) {
                return inventory;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("a build is in use");
    }

    fn keys<'a>(builds: impl IntoIterator<Item = &'a CachedBuild>) -> String {
        builds.into_iter().map(|build| build.key.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_least_recently_used_go_until_the_rest_fits() {
        let home = tempfile::tempdir().unwrap();
        drop(cache(home.path(), &[("a", 5), ("b", 1), ("c", 9)]));
        let inventory = unused(home.path());
        assert_eq!(keys(&inventory.builds), "b a c");
        let one = inventory.builds[0].bytes;
        assert!((100_000..200_000).contains(&one) && inventory.build_bytes() == 3 * one, "{one}");
        let gone = |keep| keys(inventory.superfluous(keep));
        assert_eq!([gone(3 * one), gone(3 * one - 1), gone(one), gone(0)], ["", "c", "c a", "c a b"]);

        while !prune(home.path(), inventory.superfluous(2 * one)[0]).unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(keys(&Inventory::read(home.path()).unwrap().builds), "b a");
        assert!(fs::read_dir(home.path().join("tmp")).unwrap().next().is_none());
    }

    #[test]
    fn a_build_in_use_stays_even_when_its_use_begins_late() {
        let home = tempfile::tempdir().unwrap();
        drop(cache(home.path(), &[("a", 5), ("b", 1)]));
        let before = unused(home.path());
        let user = Cache::open(home.path(), None).unwrap();
        user.provide("a", &mut |_| {}, |_, _| panic!("it is there")).unwrap();
        assert!(!prune(home.path(), &before.builds[1]).unwrap(), "found unused, used since");
        let now = Inventory::read(home.path()).unwrap();
        assert_eq!(keys(&now.builds), "a b", "used last");
        assert!(now.builds[0].in_use && !keys(now.superfluous(0)).contains('a'));
        drop(user);
        assert_eq!(keys(unused(home.path()).superfluous(0)), "b a");
    }

    #[test]
    fn what_was_not_made_here_is_not_seen() {
        let home = tempfile::tempdir().unwrap();
        drop(cache(home.path(), &[("a", 5)]));
        let builds = home.path().join("builds");
        fs::create_dir(builds.join("mine")).unwrap();
        fs::write(builds.join("mine/data"), "precious").unwrap();
        fs::create_dir(builds.join("copy")).unwrap();
        fs::copy(builds.join("a/build.json"), builds.join("copy/build.json")).unwrap();
        std::os::unix::fs::symlink(builds.join("a"), builds.join("link")).unwrap();
        assert_eq!(keys(unused(home.path()).superfluous(0)), "a");
    }

    #[test]
    fn a_cache_that_does_not_exist_is_empty_and_stays_so() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("none");
        let inventory = Inventory::read(&directory).unwrap();
        assert!(inventory.builds.is_empty() && inventory.archives.is_empty() && !directory.exists());
    }
}
