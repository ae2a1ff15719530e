//! From a release or a commit to a usable install tree. Never starts a server.
//!
//! Three ways lead to a [`Build`]: an npm package (`prebuilt`), a compile of a source archive, directory or commit
//! (`origin` says what, `recipe` how, `compile` does it in a `worktree`), and a prefix that is there already
//! (`installed`). What is made here is kept in a `cache` under the hash of everything that went into it.

mod cache;
mod compile;
mod download;
mod error;
mod fingerprint;
mod fixups;
mod git;
mod installed;
mod inventory;
mod lineage;
mod origin;
mod plan;
mod prebuilt;
mod programs;
mod proof;
mod recipe;
mod relevance;
mod unpack;
mod worktree;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};

use crate::domain::{Build, Fixup, Release, Source, Variant, Version};

use cache::Cache;
use compile::Cpus;
pub use error::BuildError;
use error::one_line;
pub use inventory::{CachedArchive, CachedBuild, CachedTree, Inventory, prune, prune_tree};
pub use lineage::{check_work_tree, lineage, message, mirror, release_revision, resolve};
use origin::Origin;
pub use proof::Proof;
use recipe::{Recipe, Toolchains};

/// Where the official source archives are published.
pub const ARCHIVE_URL: &str = "https://ftp.postgresql.org/pub/source";

/// One release to provide a server for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What the person named, or the latest minor of the major they named.
    pub release: Release,
    /// Whether only the major was named, so that another minor of it will do.
    pub floating: bool,
    /// The newest release of the same major that has a prebuilt package, for floating requests.
    pub prebuilt_fallback: Option<Release>,
    /// What releases of its major need in order to compile.
    pub fixups: Vec<Fixup>,
    /// How it is compiled, if it is.
    pub variant: Variant,
}

impl Request {
    /// The release whose prebuilt package would serve this request.
    fn prebuilt(&self) -> Option<&Release> {
        let fallback = self.prebuilt_fallback.as_ref().filter(|_| self.floating);
        [Some(&self.release), fallback].into_iter().flatten().find(|release| release.prebuilt.is_some())
    }
}

/// How builds are made and where they are kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the cache; made when it is missing.
    pub cache: PathBuf,
    /// What the person asked for.
    pub source: Source,
    /// Parallel compile jobs.
    pub jobs: usize,
    /// Base URL of the source archives, [`ARCHIVE_URL`] or a mirror of it.
    pub archive_url: String,
    /// User and group id of the account that will run the servers, where it is not the own one.
    pub account: Option<(u32, u32)>,
}

/// One way to get a build for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The npm package that carries `release`.
    Prebuilt {
        /// The release in the package.
        release: Release,
        /// The newer minor that it stands in for.
        instead_of: Option<Version>,
    },
    /// Compile the official archive.
    Archive(Request),
    /// Compile the archive or directory that the person named.
    Path(Request),
    /// Compile a commit of the repository that the person named.
    Git {
        /// The release that it should hold.
        request: Request,
        /// The commit, tag or branch, when it is not to be found by the release.
        revision: Option<String>,
    },
    /// Use the prefix that the person named.
    Prefix {
        /// The release it should hold.
        release: Release,
        /// Whether another minor of the same major will do.
        floating: bool,
    },
}

impl Choice {
    /// The release that this choice is about.
    #[must_use]
    pub fn release(&self) -> &Release {
        match self {
            Self::Archive(request) | Self::Path(request) | Self::Git { request, .. } => &request.release,
            Self::Prebuilt { release, .. } | Self::Prefix { release, .. } => release,
        }
    }

    /// How it will be compiled, if it will be.
    #[must_use]
    pub fn variant(&self) -> Option<&Variant> {
        match self {
            Self::Archive(request) | Self::Path(request) | Self::Git { request, .. } => Some(&request.variant),
            Self::Prebuilt { .. } | Self::Prefix { .. } => None,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.release().version;
        match self {
            Self::Prebuilt { .. } => write!(f, "prebuilt {version}")?,
            Self::Archive(_) | Self::Path(_) => write!(f, "source {version}")?,
            Self::Git { revision: Some(revision), .. } => write!(f, "git {} at {revision}", version.major)?,
            Self::Git { request: Request { floating: true, .. }, .. } => write!(f, "git {}", version.major)?,
            Self::Git { .. } => write!(f, "git {version}")?,
            Self::Prefix { floating: true, .. } => write!(f, "installed {}", version.major)?,
            Self::Prefix { .. } => write!(f, "installed {version}")?,
        }
        match self.variant() {
            Some(variant) if !variant.name.is_default() => write!(f, " {}", variant.name),
            _ => Ok(()),
        }
    }
}

/// Provides servers: the seam where a simulated world can stand in for the real one.
pub trait Builder {
    /// The choices for each request, in the order in which they will be tried. Looks at the options and
    /// at which programs this machine has; reaches no network and makes nothing.
    fn plan(&self, requests: &[Request]) -> Result<Vec<Vec<Choice>>, BuildError>;

    /// Provides the first choice that works. `say` receives one-line notes about what takes time and
    /// about every choice that was passed over.
    fn provide(&self, choices: &[Choice], say: &mut dyn FnMut(&str)) -> Result<Build, BuildError>;

    /// Provides the first choice that works for each request; `tell` hears of each as it happens. The requests may be
    /// worked on side by side and be done in any order.
    fn provide_all(&self, requests: &[Vec<Choice>], tell: &mut dyn FnMut(usize, Progress)) {
        for (index, choices) in requests.iter().enumerate() {
            tell(index, Progress::Started);
            let provided = self.provide(choices, &mut |note| tell(index, Progress::Note(note.to_owned())));
            tell(index, Progress::Done(Box::new(provided)));
        }
    }
}

/// What happens to one of several requests.
#[derive(Debug)]
pub enum Progress {
    /// Work on it begins.
    Started,
    /// One line worth reading.
    Note(String),
    /// How it ended.
    Done(Box<Result<Build, BuildError>>),
}

/// The real [`Builder`].
///
/// Downloads run on a private tokio runtime: call it from outside of any other.
#[derive(Debug)]
pub struct Builds {
    options: Options,
    cache: OnceLock<Cache>,
    cpus: OnceLock<Cpus>,
    toolchains: Toolchains,
    /// Compiles that are going on.
    compiling: AtomicU64,
}

impl Builder for Builds {
    fn plan(&self, requests: &[Request]) -> Result<Vec<Vec<Choice>>, BuildError> {
        plan::choices(&self.options.source, requests, &programs::on_path)
    }

    fn provide(&self, choices: &[Choice], say: &mut dyn FnMut(&str)) -> Result<Build, BuildError> {
        let mut failures = Vec::new();
        for (index, choice) in choices.iter().enumerate() {
            tracing::debug!(%choice, "getting a server");
            match self.one(choice, say) {
                Ok(build) => return Ok(build),
                // A failure that would meet every other choice too.
                Err(error) if error.concerns_cache() || crate::process::is_interrupted() => return Err(error),
                Err(error) => {
                    if let Some(next) = choices.get(index + 1) {
                        say(&format!("{choice}: {}; trying {next} instead", one_line(&error)));
                    }
                    failures.push((choice.to_string(), error));
                }
            }
        }
        match failures.pop() {
            Some((_, error)) if failures.is_empty() => Err(error),
            Some(last) => {
                failures.push(last);
                Err(BuildError::EveryChoice { failures })
            }
            None => Err(BuildError::NoChoice),
        }
    }

    /// As many at a time as there are compile jobs: compilers of all of them share the jobs, so while one build is at
    /// a step that cannot use more than one CPU, another has the rest.
    fn provide_all(&self, requests: &[Vec<Choice>], tell: &mut dyn FnMut(usize, Progress)) {
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs.clamp(1, requests.len().max(1)) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    // A receiver that is gone is of no interest: nobody waits for the result.
                    let tell = |index, progress| drop(sender.send((index, progress)));
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(choices) = requests.get(index).filter(|_| !crate::process::is_interrupted()) else {
                            break;
                        };
                        tell(index, Progress::Started);
                        let mut say = |note: &str| tell(index, Progress::Note(note.to_owned()));
                        let provided = self.provide(choices, &mut say);
                        tell(index, Progress::Done(Box::new(provided)));
                    }
                });
            }
            drop(sender);
            for (index, progress) in receiver {
                tell(index, progress);
            }
        });
    }
}

impl Builds {
    /// A builder with these options. Touches nothing yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            cache: OnceLock::new(),
            cpus: OnceLock::new(),
            toolchains: Toolchains::default(),
            compiling: AtomicU64::new(0),
        }
    }

    /// The key of the build that a choice gives, where it is known without the network and without making it.
    #[must_use]
    pub fn known_key(&self, choice: &Choice) -> Option<String> {
        match choice {
            Choice::Prebuilt { release, .. } => prebuilt::known_key(self.cache().ok()?, release),
            Choice::Archive(request) => {
                let (file, sha256) = (PathBuf::new(), request.release.sha256.clone()?);
                let recipe = self.recipe(request).ok()?;
                Some(cache::key(&[&Origin::Archive { file, sha256 }.identity(), &recipe.identity()]))
            }
            Choice::Path(_) | Choice::Git { .. } | Choice::Prefix { .. } => None,
        }
    }

    fn one(&self, choice: &Choice, say: &mut dyn FnMut(&str)) -> Result<Build, BuildError> {
        match choice {
            Choice::Prebuilt { release, instead_of } => {
                let build = prebuilt::provide(self.cache()?, release, say)?;
                if let Some(newest) = instead_of {
                    say(&format!("{}: {newest} has no prebuilt package yet; using {}", newest.major, build.version));
                }
                Ok(build)
            }
            Choice::Archive(request) => self.archive(request, say),
            Choice::Path(request) => {
                let origin = origin::find(&self.named_path()?, Wanted::of(request), &request.release)?;
                self.compile(&origin, Wanted::of(request), &self.recipe(request)?, say)
            }
            Choice::Git { request, revision } => self.commit(request, revision.as_deref(), say),
            Choice::Prefix { release, floating } => {
                let wanted = Wanted { version: release.version, floating: *floating };
                installed::provide(&self.named_path()?, wanted, self.options.account)
            }
        }
    }

    /// The path inside `--source`.
    fn named_path(&self) -> Result<PathBuf, BuildError> {
        match &self.options.source {
            Source::Path(path) | Source::Prefix(path) | Source::Git { repository: path, .. } => Ok(path.clone()),
            Source::Auto | Source::Prebuilt | Source::Archive => Err(BuildError::NoChoice),
        }
    }

    fn recipe(&self, request: &Request) -> Result<Recipe, BuildError> {
        // Another minor may turn out to be in the source, so what only that one needs counts too.
        let needed = |fixup: &&Fixup| request.floating || fixup.covers(request.release.version);
        let fixups = request.fixups.iter().filter(needed).cloned().collect();
        Recipe::new(&self.toolchains, &request.variant, fixups)
    }

    /// Compiles a commit: a release's own, or the one that was named.
    fn commit(
        &self,
        request: &Request,
        revision: Option<&str>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Build, BuildError> {
        let repository = self.named_path()?;
        let (commit, wanted) = match revision {
            // A commit between two releases reports the version of the one before it.
            Some(revision) => (git::resolve(&repository, revision)?, Wanted { floating: true, ..Wanted::of(request) }),
            None => (git::release_commit(&repository, &request.release, request.floating)?, Wanted::of(request)),
        };
        // Named by what this version needs, whether it or just its major was asked for.
        let version = origin::commit_version(&repository, &commit)?;
        let fixups = request.fixups.iter().filter(|fixup| fixup.covers(version)).cloned().collect();
        let recipe = Recipe::new(&self.toolchains, &request.variant, fixups)?;
        let sha256 = git::content_hash(&repository, &commit, recipe.scope())?;
        let origin = Origin::Commit { repository, commit, sha256, neighbours: revision.is_some() };
        let build = self.compile(&origin, wanted, &recipe, say)?;
        let provenance = origin.provenance();
        if build.provenance != provenance {
            say(&format!("{origin} gives the same server as another commit: {}", build.provenance));
        }
        Ok(Build { provenance, ..build })
    }

    /// Compiles the official archive; downloads it unless it, or its build, is in the cache.
    fn archive(&self, request: &Request, say: &mut dyn FnMut(&str)) -> Result<Build, BuildError> {
        let (base, release) = (&self.options.archive_url, &request.release);
        let cache = self.cache()?;
        let file = cache.archive(&release.archive);
        // With a known hash the key is known, so a cached build needs no archive.
        let sha256 = match &release.sha256 {
            Some(sha256) => sha256.clone(),
            None => download::archive(cache, base, release, say)?,
        };
        let (origin, recipe) = (Origin::Archive { file, sha256 }, self.recipe(request)?);
        self.compile_with(&origin, Wanted::exactly(release), &recipe, say, |cache, say| {
            download::archive(cache, base, release, say).map(drop)
        })
    }

    fn compile(
        &self,
        origin: &Origin,
        wanted: Wanted,
        recipe: &Recipe,
        say: &mut dyn FnMut(&str),
    ) -> Result<Build, BuildError> {
        self.compile_with(origin, wanted, recipe, say, |_, _| Ok(()))
    }

    /// Compiles `origin` unless its build is in the cache; `fetch` brings the source in first.
    fn compile_with(
        &self,
        origin: &Origin,
        wanted: Wanted,
        recipe: &Recipe,
        say: &mut dyn FnMut(&str),
        fetch: impl FnOnce(&Cache, &mut dyn FnMut(&str)) -> Result<(), BuildError>,
    ) -> Result<Build, BuildError> {
        let cache = self.cache()?;
        let key = cache::key(&[&origin.identity(), &recipe.identity()]);
        let build = cache.provide(&key, say, |claim, say| {
            let _compiling = Counted::new(&self.compiling);
            cache.require_space(compile::SPACE * self.compiling.load(Ordering::Relaxed))?;
            fetch(cache, say)?;
            let cpus = filled(&self.cpus, || Cpus::new(self.options.jobs))?;
            compile::make(&compile::Job { origin, wanted, recipe, cpus, key: &key, cache, claim }, say)
        })?;
        wanted.check(build.version, &origin.to_string())?;
        Ok(Build { variant: Some(recipe.variant().clone()), ..build })
    }

    /// The cache, opened at first use.
    fn cache(&self) -> Result<&Cache, BuildError> {
        filled(&self.cache, || Cache::open(&self.options.cache, self.options.account))
    }
}

/// The version that a commit, tag or branch of a repository states, which is that of the release before it.
pub fn version_of(repository: &Path, revision: &str) -> Result<Version, BuildError> {
    origin::commit_version(repository, &git::resolve(repository, revision)?)
}

/// One more of something, as long as it exists.
struct Counted<'a>(&'a AtomicU64);

impl<'a> Counted<'a> {
    fn new(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The value of a slot, made when it is first asked for.
fn filled<T>(slot: &OnceLock<T>, make: impl FnOnce() -> Result<T, BuildError>) -> Result<&T, BuildError> {
    if let Some(value) = slot.get() {
        return Ok(value);
    }
    let fresh = make()?;
    // Of two threads that were here at a time, the value of one is for both.
    Ok(slot.get_or_init(|| fresh))
}

/// The version that a build must turn out to have.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    version: Version,
    /// Whether another minor of the major will do.
    floating: bool,
}

impl Wanted {
    fn of(request: &Request) -> Self {
        Self { version: request.release.version, floating: request.floating }
    }

    fn exactly(release: &Release) -> Self {
        Self { version: release.version, floating: false }
    }

    fn accepts(self, version: Version) -> bool {
        version == self.version || (self.floating && version.major == self.version.major)
    }

    /// Refuses another version than the wanted one; `place` says where it was found.
    fn check(self, found: Version, place: &str) -> Result<(), BuildError> {
        if self.accepts(found) {
            return Ok(());
        }
        Err(BuildError::WrongVersion { place: place.to_owned(), found, wanted: self.to_string() })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.floating { self.version.major.fmt(f) } else { self.version.fmt(f) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::fingerprint::tests::program;
    use super::*;

    fn release(version: &str) -> Release {
        let version = version.parse().unwrap();
        Release { version, date: None, tag: String::new(), archive: String::new(), sha256: None, prebuilt: None }
    }

    /// A builder over a prefix with 15.18.
    fn builds(home: &Path) -> Builds {
        for name in ["postgres", "initdb"] {
            program(&home.join("bin").join(name), &format!("{name} (PostgreSQL) 15.18"));
        }
        Builds::new(Options {
            cache: home.join("cache"),
            source: Source::Prefix(home.to_owned()),
            jobs: 1,
            archive_url: ARCHIVE_URL.to_owned(),
            account: None,
        })
    }

    fn prefix(version: &str) -> Choice {
        Choice::Prefix { release: release(version), floating: false }
    }

    /// A choice that cannot work: the release has no package.
    fn no_package() -> Choice {
        Choice::Prebuilt { release: release("15.18"), instead_of: None }
    }

    #[test]
    fn a_choice_that_fails_is_named_and_the_next_one_is_used() {
        let home = tempfile::tempdir().unwrap();
        let mut notes = Vec::new();
        let mut say = |note: &str| notes.push(note.to_owned());
        let build = builds(home.path()).provide(&[no_package(), prefix("15.18")], &mut say).unwrap();
        assert_eq!(build.version.to_string(), "15.18");
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("prebuilt 15.18: "), "{notes:?}");
        assert!(notes[0].ends_with("; trying installed 15.18 instead"), "{notes:?}");
    }

    #[test]
    fn when_no_choice_works_each_is_told_with_its_reason() {
        let home = tempfile::tempdir().unwrap();
        let builds = builds(home.path());
        let error = builds.provide(&[no_package(), prefix("15.20")], &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("\n    prebuilt 15.18: 15.18 has no prebuilt package"), "{error}");
        assert!(error.contains("is PostgreSQL 15.18, not 15.20"), "{error}");
        let error = builds.provide(&[prefix("15.20")], &mut |_| {}).unwrap_err();
        assert!(matches!(error, BuildError::WrongVersion { .. }), "one choice has its own error: {error}");
    }
}
