//! Finished builds and downloads on disk, safe against a second process and against interruption.
//!
//! ```text
//! builds/<key>/      an install tree with its build.json; appears complete, by one rename. Its file
//!                    last-used is as old as its last use
//! archives/          downloaded source archives
//! packages/          integrity of each npm package seen, so that a cached one needs no network
//! logs/              one log per compile
//! trees/<name>/      where sources are compiled
//! locks/<name>.lock  held while tmp/regtrack-<name> is in use, and shared by those who use the build
//! tmp/               work in progress
//! ```

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use crate::domain::{Build, Provenance};

use super::error::{BuildError, io};
use super::fingerprint;

/// File that makes a directory a finished build.
const BUILD_FILE: &str = "build.json";

/// File in a build whose time is that of the build's last use.
const USED_FILE: &str = "last-used";

/// Marks the directories that may be removed.
const CLAIM_PREFIX: &str = "regtrack-";

/// The cache directory.
#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
    /// Locks of the builds that were provided, so that nobody removes them as long as this exists.
    held: Mutex<BTreeMap<String, File>>,
}

/// A work directory that is ours alone until dropped, and is removed then.
#[derive(Debug)]
pub(super) struct Claim {
    directory: PathBuf,
    /// Held for as long as the directory exists: a directory whose lock is free belongs to nobody.
    _lock: File,
}

impl Claim {
    /// The work directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What cannot be removed now is swept by a later run.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Hash of a build's inputs that names it: 20 hex digits.
pub(super) fn key(inputs: &[&str]) -> String {
    let mut hash = Sha256::new();
    for input in inputs {
        hash.update(input);
        hash.update([0]);
    }
    let mut text = format!("{:x}", hash.finalize());
    text.truncate(20);
    text
}

impl Cache {
    /// Opens the cache at `root`, makes what is missing and removes what dead processes left behind.
    /// With `account`, checks that this user and group can get at the builds.
    pub(super) fn open(root: &Path, account: Option<(u32, u32)>) -> Result<Self, BuildError> {
        create_public(root)?;
        let root = root.canonicalize().map_err(io("find", root))?;
        for name in ["builds", "archives", "packages", "logs", "locks", "tmp", "trees"] {
            create_public(&root.join(name))?;
        }
        let cache = Self { root, held: Mutex::default() };
        if let Some(account) = account {
            check_reachable(&cache.root.join("builds"), account)?;
        }
        cache.sweep()?;
        Ok(cache)
    }

    /// Final place of a build.
    pub(super) fn prefix(&self, key: &str) -> PathBuf {
        self.root.join("builds").join(key)
    }

    /// Place of a downloaded archive.
    pub(super) fn archive(&self, name: &str) -> PathBuf {
        self.root.join("archives").join(name)
    }

    /// Place of the remembered integrity of an npm package.
    pub(super) fn package(&self, name: &str) -> PathBuf {
        self.root.join("packages").join(name)
    }

    /// Place of a compile's log.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    /// Place of a tree that sources are compiled in.
    pub(super) fn tree(&self, name: &str) -> PathBuf {
        self.root.join("trees").join(name)
    }

    /// The file whose lock says who works in a tree.
    pub(super) fn open_tree_lock(&self, name: &str) -> Result<File, BuildError> {
        open_lock(&self.lock_path(&format!("tree-{name}")))
    }

    /// Removes a tree; false when a process works in it.
    pub(super) fn remove_tree(&self, name: &str) -> Result<bool, BuildError> {
        let lock = self.open_tree_lock(name)?;
        match try_lock(&lock) {
            Ok(()) => remove_if_there(&self.tree(name)).map(|()| true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(source)) => Err(io("lock", &self.tree(name))(source)),
        }
    }

    /// The build `key`: from the cache, or made by `make` in a claimed directory. Of several processes
    /// that want one build, one makes it and the others wait.
    ///
    /// `make` returns the finished tree, inside of its claim, and where it came from.
    pub(super) fn provide(
        &self,
        key: &str,
        say: &mut dyn FnMut(&str),
        make: impl FnOnce(&Claim, &mut dyn FnMut(&str)) -> Result<(PathBuf, Provenance), BuildError>,
    ) -> Result<Build, BuildError> {
        if let Some(build) = self.hold(key, File::try_lock_shared) {
            return Ok(build);
        }
        let claim = self.claim(key, say)?;
        let build = if let Some(build) = self.find(key) {
            build
        } else {
            let (tree, provenance) = make(&claim, say)?;
            self.publish(key, &tree, provenance)?
        };
        drop(claim);
        Ok(self.hold(key, |file| file.lock_shared().map_err(TryLockError::Error)).unwrap_or(build))
    }

    /// A finished build, kept by `lock` from being removed as long as this cache is open. `None` also while
    /// another process makes or removes it, unless `lock` waits for that.
    fn hold(&self, key: &str, lock: impl Fn(&File) -> Result<(), TryLockError>) -> Option<Build> {
        let path = self.lock_path(key);
        // In another user's cache, finished builds can be used all the same.
        if let Ok(file) = open_lock(&path).or_else(|_| File::open(&path)) {
            lock(&file).ok()?;
            let build = self.find(key)?;
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), file);
            touch(&build.prefix);
            return Some(build);
        }
        self.find(key)
    }

    /// A finished build.
    fn find(&self, key: &str) -> Option<Build> {
        let build = read_build(self.prefix(key))?;
        build.program("postgres").is_file().then_some(build)
    }

    /// Gives up what `provide` holds of a build.
    pub(super) fn release(&self, key: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// A fresh work directory under `name`. Waits while another process has it.
    pub(super) fn claim(&self, name: &str, say: &mut dyn FnMut(&str)) -> Result<Claim, BuildError> {
        let path = self.lock_path(name);
        let lock = open_lock(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                say(&format!("waiting for another process that works on the same build ({})", path.display()));
                lock.lock().map_err(io("lock", &path))?;
            }
            Err(TryLockError::Error(source)) => return Err(io("lock", &path)(source)),
        }
        let directory = self.root.join("tmp").join(format!("{CLAIM_PREFIX}{name}"));
        remove_if_there(&directory)?;
        create_public(&directory)?;
        Ok(Claim { directory, _lock: lock })
    }

    /// Moves a finished tree to its place. It is readable by everyone then, has its `build.json`, and
    /// replaces what an older version of the program may have left there.
    fn publish(&self, key: &str, tree: &Path, provenance: Provenance) -> Result<Build, BuildError> {
        open_to_all(tree)?;
        let (version, fingerprint) = fingerprint::read(tree)?;
        let prefix = self.prefix(key);
        let key = key.to_owned();
        let build = Build { version, key, provenance, variant: None, fingerprint, prefix: prefix.clone() };
        let file = tree.join(BUILD_FILE);
        let text = serde_json::to_vec_pretty(&build).map_err(|error| io("write", &file)(error.into()))?;
        fs::write(&file, text).map_err(io("write", &file))?;
        make_public(&file, 0o644)?;
        remove_if_there(&prefix)?;
        fs::rename(tree, &prefix).map_err(io("move a finished build to", &prefix))?;
        Ok(build)
    }

    /// Removes the build `key`; false when a process makes or uses it. It disappears at once, by one
    /// rename, and is deleted then.
    pub(super) fn remove(&self, key: &str) -> Result<bool, BuildError> {
        let path = self.lock_path(key);
        let lock = open_lock(&path)?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(source)) => return Err(io("lock", &path)(source)),
        }
        let directory = self.root.join("tmp").join(format!("{CLAIM_PREFIX}{key}"));
        remove_if_there(&directory)?;
        let prefix = self.prefix(key);
        fs::rename(&prefix, &directory).map_err(io("move aside", &prefix))?;
        remove_if_there(&directory)?;
        Ok(true)
    }

    /// Refuses to begin what would fill the disk.
    pub(super) fn require_space(&self, needed: u64) -> Result<(), BuildError> {
        let stat =
            rustix::fs::statvfs(&self.root).map_err(|error| io("ask for free space of", &self.root)(error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= needed {
            return Ok(());
        }
        Err(BuildError::DiskSpace { path: self.root.clone(), needed_mb: needed >> 20, free_mb: free >> 20 })
    }

    /// Removes work directories whose process is gone.
    fn sweep(&self) -> Result<(), BuildError> {
        let tmp = self.root.join("tmp");
        for entry in fs::read_dir(&tmp).map_err(io("read", &tmp))? {
            let entry = entry.map_err(io("read", &tmp))?;
            let name = entry.file_name();
            // The first part of a download waits for the rest, but not for ever.
            if name.to_str().is_some_and(|name| name.contains(".part"))
                && entry.metadata().and_then(|file| file.modified()).is_ok_and(is_long_ago)
            {
                let _ = fs::remove_file(entry.path());
            }
            let Some(name) = name.to_str().and_then(|name| name.strip_prefix(CLAIM_PREFIX)) else { continue };
            let Ok(lock) = File::options().write(true).open(self.lock_path(name)) else { continue };
            if lock.try_lock().is_ok() {
                // A compiler that outlived its parent may still write there: then it goes with a later run.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.root.join("locks").join(format!("{name}.lock"))
    }
}

fn is_long_ago(time: SystemTime) -> bool {
    const LONG: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    time.elapsed().is_ok_and(|age| age > LONG)
}

/// What a directory says about the build in it.
pub(super) fn read_build(prefix: PathBuf) -> Option<Build> {
    let text = fs::read(prefix.join(BUILD_FILE)).ok()?;
    // A file that cannot be understood was written by another version of the program: build anew.
    let build: Build = serde_json::from_slice(&text).ok()?;
    // The cache may have been moved since; the trees do not mind.
    Some(Build { prefix, ..build })
}

/// When a build was used last, or else made.
pub(super) fn last_used(prefix: &Path) -> Result<Timestamp, BuildError> {
    let time = |name: &str| fs::metadata(prefix.join(name)).and_then(|file| file.modified());
    let time = time(USED_FILE).or_else(|_| time(BUILD_FILE)).map_err(io("look at", prefix))?;
    Ok(Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// Marks a build as used now. In another user's cache that cannot be done, and need not.
fn touch(prefix: &Path) {
    let file = File::options().create(true).truncate(false).write(true).open(prefix.join(USED_FILE));
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

fn open_lock(path: &Path) -> Result<File, BuildError> {
    File::options().create(true).truncate(false).write(true).open(path).map_err(io("open", path))
}

/// Takes a lock unless somebody keeps it. A child that another thread starts has a copy of every lock of this process
/// until it runs its program, so a lock that is not free at once may be in a moment.
fn try_lock(lock: &File) -> Result<(), TryLockError> {
    const MOMENTS: u32 = 25;
    for _ in 1..MOMENTS {
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            other => return other,
        }
    }
    lock.try_lock()
}

fn remove_if_there(directory: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// Creates a directory and its parents, open to all whatever the umask. Leaves existing ones as they are.
fn create_public(directory: &Path) -> Result<(), BuildError> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_public(parent)?;
    }
    match DirBuilder::new().create(directory) {
        Ok(()) => make_public(directory, 0o755),
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        Err(error) => Err(io("create", directory)(error)),
    }
}

fn make_public(path: &Path, mode: u32) -> Result<(), BuildError> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(io("set the permissions of", path))
}

/// Lets everyone read a tree, and run what its owner can run.
fn open_to_all(tree: &Path) -> Result<(), BuildError> {
    for entry in walkdir::WalkDir::new(tree) {
        let entry = entry.map_err(|error| io("read", tree)(error.into()))?;
        if entry.path_is_symlink() {
            continue;
        }
        let metadata = entry.metadata().map_err(|error| io("read", tree)(error.into()))?;
        let runs = metadata.is_dir() || metadata.permissions().mode() & 0o100 != 0;
        make_public(entry.path(), if runs { 0o755 } else { 0o644 })?;
    }
    Ok(())
}

/// Checks that a user and group, without further groups, can enter `path` and everything above it.
pub(super) fn check_reachable(path: &Path, (uid, gid): (u32, u32)) -> Result<(), BuildError> {
    for directory in path.ancestors().filter(|directory| !directory.as_os_str().is_empty()) {
        let metadata = directory.metadata().map_err(io("look at", directory))?;
        let bit = if metadata.uid() == uid {
            0o100
        } else if metadata.gid() == gid {
            0o010
        } else {
            0o001
        };
        if uid != 0 && metadata.mode() & bit == 0 {
            return Err(BuildError::Unreachable { uid, directory: directory.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::tests::program;
    use super::*;

    fn quiet(_: &str) {}

    /// A tree whose "server" is a script that knows its version.
    fn tree(directory: &Path, version: &str) -> PathBuf {
        let tree = directory.join("tree");
        program(&tree.join("bin/postgres"), &format!("postgres (PostgreSQL) {version}"));
        fs::set_permissions(tree.join("bin"), Permissions::from_mode(0o700)).unwrap();
        tree
    }

    fn made() -> Provenance {
        Provenance::Source { source: "test".into(), sha256: None }
    }

    #[test]
    fn a_build_is_made_once_and_found_again_even_after_a_move() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("cache");
        let cache = Cache::open(&root, None).unwrap();
        let first =
            cache.provide("abc", &mut quiet, |claim, _| Ok((tree(claim.directory(), "17.10"), made()))).unwrap();
        assert_eq!(first.version.to_string(), "17.10");
        assert!(fs::read_dir(root.join("tmp")).unwrap().next().is_none(), "no work directory stays");
        let again = cache.provide("abc", &mut quiet, |_, _| panic!("built twice")).unwrap();
        assert_eq!(again, first);

        let moved = home.path().join("moved");
        fs::rename(&root, &moved).unwrap();
        let cache = Cache::open(&moved, None).unwrap();
        let again = cache.provide("abc", &mut quiet, |_, _| panic!("built twice")).unwrap();
        assert!(again.program("postgres").starts_with(moved.canonicalize().unwrap()));
    }

    #[test]
    fn a_published_tree_is_open_to_all() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::open(home.path(), None).unwrap();
        let build =
            cache.provide("abc", &mut quiet, |claim, _| Ok((tree(claim.directory(), "17.10"), made()))).unwrap();
        for path in [&build.prefix, &build.prefix.join("bin"), &build.program("postgres")] {
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o755, "{}", path.display());
        }
    }

    #[test]
    fn a_directory_without_build_file_is_no_build_and_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::open(home.path(), None).unwrap();
        fs::create_dir_all(cache.prefix("abc").join("bin")).unwrap();
        fs::write(cache.prefix("abc").join("bin/postgres"), "half").unwrap();
        let build =
            cache.provide("abc", &mut quiet, |claim, _| Ok((tree(claim.directory(), "9.6.24"), made()))).unwrap();
        assert_eq!(build.version.to_string(), "9.6.24");
    }

    #[test]
    fn a_failed_build_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::open(home.path(), None).unwrap();
        let result = cache.provide("abc", &mut quiet, |claim, _| {
            tree(claim.directory(), "17.10");
            Err(BuildError::NoChoice)
        });
        assert!(result.is_err() && !cache.prefix("abc").exists());
        assert!(fs::read_dir(home.path().join("tmp")).unwrap().next().is_none());
    }

    #[test]
    fn what_a_dead_process_left_is_removed_and_what_a_living_one_uses_stays() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::open(home.path(), None).unwrap();
        let alive = cache.claim("alive", &mut quiet).unwrap();
        let tmp = cache.root.join("tmp");
        fs::create_dir(tmp.join("regtrack-dead")).unwrap();
        open_lock(&cache.lock_path("dead")).unwrap();
        fs::create_dir(tmp.join("not-ours")).unwrap();
        Cache::open(home.path(), None).unwrap();
        assert!(alive.directory().is_dir() && tmp.join("not-ours").is_dir());
        assert!(!tmp.join("regtrack-dead").exists());
    }

    #[test]
    fn a_second_claim_waits_for_the_first() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::open(home.path(), None).unwrap();
        let first = cache.claim("same", &mut quiet).unwrap();
        std::thread::scope(|scope| {
            let (sender, said) = std::sync::mpsc::channel();
            let cache = &cache;
            let second = scope.spawn(move || {
                cache
                    .claim("same", &mut |note| sender.send(note.to_owned()).unwrap())
                    .map(|claim| claim.directory.is_dir())
            });
            assert!(said.recv().unwrap().contains("waiting for another process"));
            assert!(!second.is_finished());
            drop(first);
            assert!(second.join().unwrap().unwrap(), "the second has a directory of its own");
        });
    }

    #[test]
    fn keys_depend_on_every_input_and_on_their_borders() {
        assert_eq!(key(&["a", "b"]).len(), 20);
        assert_ne!(key(&["a", "b"]), key(&["ab", ""]));
        assert_ne!(key(&["a", "b"]), key(&["a", "c"]));
    }

    #[test]
    fn a_closed_directory_above_the_cache_is_named() {
        let home = tempfile::tempdir().unwrap();
        let closed = home.path().join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
        let error = Cache::open(&closed.join("cache"), Some((54_321, 54_321))).unwrap_err().to_string();
        assert!(error.contains("54321") && error.contains("chmod o+x"), "{error}");
    }
}
