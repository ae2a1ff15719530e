//! What can go wrong between a release and its install tree.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::domain::{Major, Version};
use crate::http::HttpError;
use crate::process::CommandError;

/// Why a build could not be provided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Neither npm nor a compiler is here.
    #[error(
        "no way to get a server on this machine: prebuilt packages need {prebuilt}, and compiling needs {source_programs}; \
         install npm, or build-essential bison flex perl (Debian's names)"
    )]
    NoProvider {
        /// What the prebuilt packages lack.
        prebuilt: String,
        /// The programs that compiling lacks.
        source_programs: String,
    },
    /// A release without a package was asked for as a prebuilt one.
    #[error("{version} has no prebuilt package; {hint}")]
    NotPrebuilt {
        /// The release.
        version: Version,
        /// What else to do.
        hint: String,
    },
    /// The packages are for another platform.
    #[error(
        "prebuilt packages are for Linux on x86-64, not for {platform}; use --source=source, or prefix=DIR for servers \
         that are installed"
    )]
    Platform {
        /// This machine, `linux-aarch64`.
        platform: String,
    },
    /// Programs are missing.
    #[error("{work} needs {programs}, not found on PATH; install {packages} (Debian's names)")]
    MissingPrograms {
        /// What was to be done.
        work: String,
        /// The programs.
        programs: String,
        /// The packages that have them.
        packages: String,
    },
    /// No choice was given for a release.
    #[error("nothing to choose from: the plan and --source do not fit together")]
    NoChoice,
    /// Each choice failed.
    #[error("no choice worked:{}", list(failures))]
    EveryChoice {
        /// Each choice with its failure.
        failures: Vec<(String, BuildError)>,
    },
    /// The file system refused something.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// The verb.
        doing: &'static str,
        /// The object.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Too little disk space.
    #[error(
        "{} has {free_mb} MB free and this needs about {needed_mb} MB; make room or name another directory with --cache",
        path.display()
    )]
    DiskSpace {
        /// A directory on the full file system.
        path: PathBuf,
        /// Megabytes needed.
        needed_mb: u64,
        /// Megabytes free.
        free_mb: u64,
    },
    /// The account that will run the servers cannot get at the tree.
    #[error(
        "user id {uid}, which will run the servers, cannot enter {}; open that directory (chmod o+x) or use another place",
        directory.display()
    )]
    Unreachable {
        /// The account's user id.
        uid: u32,
        /// The directory that is closed to it.
        directory: PathBuf,
    },
    /// The cache lies at a path that make cannot handle.
    #[error("PostgreSQL cannot be compiled below a path with blanks or quotes: {}; name another with --cache", path.display())]
    PathForMake {
        /// The cache.
        path: PathBuf,
    },
    /// npm failed.
    #[error("npm could not provide {package}")]
    Npm {
        /// Package and version.
        package: String,
        /// The cause.
        #[source]
        source: Box<CommandError>,
    },
    /// npm answered something unexpected.
    #[error("npm gave no {what} for {package}")]
    NpmAnswer {
        /// Package and version.
        package: String,
        /// What was missing.
        what: &'static str,
    },
    /// Content does not match its hash.
    #[error("{what} is damaged or not what it should be: its hash is {actual}, expected {expected}")]
    Hash {
        /// File name or URL.
        what: String,
        /// The hash it should have.
        expected: String,
        /// The hash it has.
        actual: String,
    },
    /// An archive holds a path outside of its tree.
    #[error("{} holds the unsafe path '{entry}'; nothing of it is used", archive.display())]
    UnsafePath {
        /// The archive.
        archive: PathBuf,
        /// The entry.
        entry: String,
    },
    /// An archive of an unknown compression.
    #[error("{} is neither a bzip2 nor a gzip archive", path.display())]
    ArchiveKind {
        /// The archive.
        path: PathBuf,
    },
    /// A download failed.
    #[error(transparent)]
    Download(#[from] HttpError),
    /// A published hash is no hash.
    #[error("{url} holds no SHA-256 hash")]
    PublishedHash {
        /// Its address.
        url: String,
    },
    /// The named path holds no PostgreSQL source.
    #[error(
        "{} is no PostgreSQL source: expected an archive, an unpacked tree (with configure and src/backend), or a \
         directory with archives such as postgresql-17.10.tar.bz2",
        path.display()
    )]
    NoSource {
        /// The path.
        path: PathBuf,
    },
    /// The directory has archives, but not this release's.
    #[error("{} has no archive of {wanted}; it has {found}", path.display())]
    NoArchive {
        /// The directory.
        path: PathBuf,
        /// The release, or the major.
        wanted: String,
        /// The versions that are there.
        found: String,
    },
    /// A tree or a prefix of another version.
    #[error("{place} is PostgreSQL {found}, not {wanted}")]
    WrongVersion {
        /// Where it is.
        place: String,
        /// The version it has.
        found: Version,
        /// The version it should have.
        wanted: String,
    },
    /// A version that could not be read.
    #[error("{place} states no PostgreSQL version that can be understood: '{text}'")]
    VersionText {
        /// Where.
        place: String,
        /// What it says.
        text: String,
    },
    /// A fix-up of the catalogue does not fit the source.
    #[error("the fix-up '{fixup}' does not fit {version}: {} {problem}", file.display())]
    Fixup {
        /// Its name.
        fixup: String,
        /// Version of the source.
        version: Version,
        /// The file it edits.
        file: PathBuf,
        /// What is wrong with the file.
        problem: String,
    },
    /// A step of a compile failed.
    #[error("{version}: {step} failed: {reason} (full log: {})", log.display())]
    Step {
        /// Version of the source.
        version: Version,
        /// `configure`, `make -C src/backend`.
        step: String,
        /// The first error in the log.
        reason: String,
        /// The log.
        log: PathBuf,
        /// The child's failure.
        #[source]
        source: Box<CommandError>,
    },
    /// A compile ended well but left something out.
    #[error("{version}: the compiled tree lacks {missing} (full log: {})", log.display())]
    Incomplete {
        /// Version of the source.
        version: Version,
        /// File names.
        missing: String,
        /// The log.
        log: PathBuf,
    },
    /// git failed.
    #[error("git could not {doing} in {}", repository.display())]
    Git {
        /// What it was asked.
        doing: String,
        /// The repository.
        repository: PathBuf,
        /// The cause.
        #[source]
        source: Box<CommandError>,
    },
    /// The repository does not know a revision.
    #[error("{} has no commit '{revision}'; is the clone complete (git fetch --tags, no --depth)?", repository.display())]
    NoRevision {
        /// The repository.
        repository: PathBuf,
        /// The revision.
        revision: String,
    },
    /// Two commits that no history joins.
    #[error("{} and {} of {} have no common history: nothing lies between them", commits[0], commits[1], repository.display())]
    Unrelated {
        /// The repository.
        repository: PathBuf,
        /// The commits.
        commits: [String; 2],
    },
    /// A commit is asked for by the name of what is checked out, and what is checked out is not that commit.
    #[error(
        "{} has edited files ({}) that no commit has; commit or stash them, or name the commit by its hash",
        repository.display(), files.join(", ")
    )]
    Edited {
        /// The repository.
        repository: PathBuf,
        /// Some of the files.
        files: Vec<String>,
    },
    /// The repository does not have a release.
    #[error(
        "{} has neither the tag {tag} nor a commit 'Stamp {version}.'; fetch it (git fetch --tags) or name another source",
        repository.display()
    )]
    NoReleaseCommit {
        /// The repository.
        repository: PathBuf,
        /// The release's tag.
        tag: String,
        /// The release.
        version: Version,
    },
    /// A prefix that lacks a program.
    #[error("{} is no PostgreSQL prefix: it has no bin/{program}", prefix.display())]
    NotInstalled {
        /// The prefix.
        prefix: PathBuf,
        /// `postgres` or `initdb`.
        program: &'static str,
    },
    /// The server program does not run here.
    #[error("{} does not run on this machine", program.display())]
    Program {
        /// Its path.
        program: PathBuf,
        /// The cause.
        #[source]
        source: Box<CommandError>,
    },
    /// A variant of servers that are not compiled here.
    #[error("the build variant {variant} has to be compiled: choose --source=source, source=PATH or git=REPO")]
    NotCompiled {
        /// The variant.
        variant: String,
    },
    /// The compiler that was named is not here.
    #[error("the compiler '{compiler}' is not on this machine; install it, or name another after @ in --variant")]
    NoCompiler {
        /// Its name.
        compiler: String,
    },
    /// A release that is older than a feature.
    #[error("{version} has no {feature}: it came with {from}")]
    NoFeature {
        /// Version of the source.
        version: Version,
        /// The feature's name.
        feature: String,
        /// The first major that has it.
        from: Major,
    },
    /// The machine lacks what a feature needs.
    #[error("{feature} needs {missing}, which is not here; install {package} (Debian's name)")]
    MissingLibrary {
        /// The feature's name.
        feature: String,
        /// `the library liblz4`, `the program llvm-config`.
        missing: String,
        /// The package that has it.
        package: String,
    },
    /// The compiler does not run.
    #[error("the compiler '{compiler}' does not run")]
    Compiler {
        /// Its name.
        compiler: String,
        /// The cause.
        #[source]
        source: Box<CommandError>,
    },
}

impl BuildError {
    /// Whether a source simply does not have the release, which is no failure of anything.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::NotPrebuilt { .. } | Self::NoArchive { .. } | Self::NoReleaseCommit { .. })
    }

    /// Whether this is about the cache itself, so that no other choice would fare better.
    #[must_use]
    pub fn concerns_cache(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// For `map_err`: an I/O error with what was being done to which path.
pub(super) fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> BuildError + use<'a> {
    move |source| BuildError::Io { doing, path: path.to_owned(), source }
}

/// An error and its causes on one line, for notes.
pub(super) fn one_line(error: &BuildError) -> String {
    let mut text = String::new();
    let mut current: Option<&dyn Error> = Some(error);
    while let Some(error) = current {
        let message = error.to_string();
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(message.lines().next().unwrap_or_default().trim_end());
        current = error.source();
    }
    text
}

fn list(failures: &[(String, BuildError)]) -> String {
    let lines: Vec<String> =
        failures.iter().map(|(choice, error)| format!("\n    {choice}: {}", one_line(error))).collect();
    lines.concat()
}
