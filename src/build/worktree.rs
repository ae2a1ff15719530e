//! Directories in which sources are compiled. They outlive a compile that was interrupted, which goes on there, and
//! the compile of a commit, so that the next commit compiles only what changed.
//!
//! ```text
//! trees/<name>/source/     the source, and what was made of it
//! trees/<name>/index       git's index of that source, where it is a commit
//! trees/<name>/state.json  how far it is
//! locks/tree-<name>.lock   held while somebody works there
//! ```

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use crate::domain::TreeKind;

use super::cache::Cache;
use super::error::{BuildError, io};
use super::git::{self, Checkout};
use super::origin::{self, Origin};
use super::recipe::MESON_DIRECTORY;
use super::relevance;

/// Trees of one repository, recipe and major, for processes that work side by side.
const SLOTS: u32 = 4;

/// What was written so shortly before an interruption may be incomplete.
const DOUBTFUL: Duration = Duration::from_secs(10);

/// What is known about the content of a tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// Of the source.
    identity: String,
    /// The commit, where it is one.
    commit: Option<String>,
    /// Top of the source, relative to the tree.
    top: PathBuf,
    kind: TreeKind,
    /// The arguments that it was configured with.
    configured: Option<Vec<String>>,
    /// When make began.
    making_since: Option<SystemTime>,
    /// Whether everything was made.
    complete: bool,
}

/// What a tree holds at the start of a compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// The source alone.
    Clean,
    /// What an interrupted compile of the same source left.
    Resumed,
    /// Everything that an earlier compile of the same source made.
    Made,
    /// Another commit, and what was made of the one before.
    Moved,
}

/// A tree that is ours alone as long as this exists.
#[derive(Debug)]
pub(super) struct Tree {
    directory: PathBuf,
    state: Option<State>,
    /// Whether it stays when its compile is complete.
    stays: bool,
    _lock: File,
}

impl Tree {
    /// The tree for compiling `origin`: one of its own, named by the build's `key`, or one that neighbours share, named
    /// by `family`. Waits when all are taken.
    pub(super) fn take(
        cache: &Cache,
        origin: &Origin,
        key: &str,
        family: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, BuildError> {
        let stays = matches!(origin, Origin::Commit { neighbours: true, .. });
        let names =
            if stays { (1..=SLOTS).map(|slot| format!("{family}-{slot}")).collect() } else { vec![key.to_owned()] };
        for name in &names {
            let lock = cache.open_tree_lock(name)?;
            match lock.try_lock() {
                Ok(()) => return Self::open(cache.tree(name), stays, lock),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(io("lock", &cache.tree(name))(source)),
            }
        }
        say("waiting for another process that compiles in the same place");
        let lock = cache.open_tree_lock(&names[0])?;
        lock.lock().map_err(io("lock", &cache.tree(&names[0])))?;
        Self::open(cache.tree(&names[0]), stays, lock)
    }

    fn open(directory: PathBuf, stays: bool, lock: File) -> Result<Self, BuildError> {
        fs::create_dir_all(&directory).map_err(io("create", &directory))?;
        let state = fs::read(directory.join("state.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok(Self { directory, state, stays, _lock: lock })
    }

    /// Top of the source.
    pub(super) fn top(&self) -> PathBuf {
        let source = self.source();
        self.state.as_ref().map_or(source, |state| self.directory.join(&state.top))
    }

    /// Whether the source came with what bison, flex and perl make of it.
    pub(super) fn kind(&self) -> TreeKind {
        self.state.as_ref().map_or(TreeKind::Git, |state| state.kind)
    }

    /// Puts the source there, or finds it there.
    pub(super) fn prepare(&mut self, origin: &Origin) -> Result<Start, BuildError> {
        let identity = origin.identity();
        match self.state.clone() {
            Some(state) if state.identity == identity && state.complete => Ok(Start::Made),
            Some(state) if state.identity == identity => {
                self.drop_doubtful(&state)?;
                Ok(Start::Resumed)
            }
            Some(State { commit: Some(from), complete: true, .. }) if self.stays => self.switch(origin, &from),
            _ => self.fill(origin),
        }
    }

    /// Removes everything and puts the source there anew.
    pub(super) fn fill(&mut self, origin: &Origin) -> Result<Start, BuildError> {
        self.clear()?;
        fs::create_dir_all(&self.directory).map_err(io("create", &self.directory))?;
        let top = origin.bring(&self.source(), &self.index())?;
        let commit = match origin {
            Origin::Commit { commit, .. } => Some(commit.clone()),
            Origin::Archive { .. } | Origin::Tree { .. } => None,
        };
        self.state = Some(State {
            identity: origin.identity(),
            commit,
            top: top.strip_prefix(&self.directory).unwrap_or(&top).to_owned(),
            kind: origin::tree_kind(&top),
            configured: None,
            making_since: None,
            complete: false,
        });
        Ok(Start::Clean)
    }

    /// Goes on to another commit in place.
    fn switch(&mut self, origin: &Origin, from: &str) -> Result<Start, BuildError> {
        let Origin::Commit { repository, commit, .. } = origin else { return self.fill(origin) };
        // The commit that is there may be gone from the repository: then there is nothing to compare with.
        let Ok(changed) = git::changed(repository, from, commit) else { return self.fill(origin) };
        if changed.iter().any(|path| relevance::governs_all(path)) {
            return self.fill(origin);
        }
        // From here on the tree is neither the one commit nor the other.
        self.forget()?;
        let (directory, index) = (self.source(), self.index());
        let checkout = Checkout { repository, directory: &directory, index: &index };
        checkout.switch(commit)?;
        for path in changed.iter().filter(|path| relevance::is_makefile(path)) {
            for made in checkout.made_beside(path)? {
                fs::remove_file(&made).map_err(io("remove", &made))?;
            }
        }
        if let Some(state) = &mut self.state {
            state.identity = origin.identity();
            state.commit = Some(commit.clone());
            state.complete = false;
        }
        Ok(Start::Moved)
    }

    /// Whether it was configured with just these arguments.
    pub(super) fn is_configured(&self, arguments: &[String]) -> bool {
        let known = self.state.as_ref().and_then(|state| state.configured.as_ref());
        let made = ["config.status".to_owned(), format!("{MESON_DIRECTORY}/build.ninja")];
        known.is_some_and(|known| known == arguments) && made.iter().any(|file| self.top().join(file).is_file())
    }

    /// Notes that source and fix-ups are in place, and `configure` has run with these arguments if any are given.
    pub(super) fn note_progress(&mut self, configured: Option<Vec<String>>) -> Result<(), BuildError> {
        if let Some(state) = &mut self.state {
            state.configured = configured.or(state.configured.take());
            state.making_since = state.configured.is_some().then(SystemTime::now);
        }
        self.write()
    }

    /// Notes that everything was made. Only a tree that neighbours share stays.
    pub(super) fn finish(mut self) -> Result<(), BuildError> {
        if !self.stays {
            return self.clear();
        }
        if let Some(state) = &mut self.state {
            state.complete = true;
        }
        self.write()
    }

    /// Removes everything.
    pub(super) fn clear(&mut self) -> Result<(), BuildError> {
        self.forget()?;
        self.state = None;
        match fs::remove_dir_all(&self.directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &self.directory)(error)),
            _ => Ok(()),
        }
    }

    /// What was made last before an interruption may be there in part only; make would take it for complete.
    fn drop_doubtful(&self, state: &State) -> Result<(), BuildError> {
        let Some(since) = state.making_since else { return Ok(()) };
        let top = self.top();
        let mut made: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in WalkDir::new(&top) {
            let entry = entry.map_err(|error| io("read", &top)(error.into()))?;
            if entry.file_type().is_file()
                && let Some(time) = entry.metadata().ok().and_then(|metadata| metadata.modified().ok())
                && time >= since
            {
                made.push((time, entry.into_path()));
            }
        }
        let newest = made.iter().map(|(time, _)| *time).max().unwrap_or(since);
        for (_, path) in made.iter().filter(|(time, _)| *time + DOUBTFUL >= newest) {
            fs::remove_file(path).map_err(io("remove", path))?;
        }
        Ok(())
    }

    fn source(&self) -> PathBuf {
        self.directory.join("source")
    }

    fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    fn write(&self) -> Result<(), BuildError> {
        let file = self.directory.join("state.json");
        let text = serde_json::to_vec_pretty(&self.state).map_err(|error| io("write", &file)(error.into()))?;
        let fresh = self.directory.join("state.json.new");
        fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &file)).map_err(io("write", &file))
    }

    fn forget(&self) -> Result<(), BuildError> {
        let file = self.directory.join("state.json");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", &file)(error)),
            _ => Ok(()),
        }
    }
}

/// Whether a directory holds a tree that somebody left in the middle of a compile.
pub(super) fn is_unfinished(directory: &Path) -> bool {
    let state =
        fs::read(directory.join("state.json")).ok().and_then(|text| serde_json::from_slice::<State>(&text).ok());
    state.is_none_or(|state| !state.complete)
}
