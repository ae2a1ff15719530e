//! Compiles PostgreSQL from an archive, a directory or a commit, always by the same recipe, so that
//! versions differ by their source alone.
//!
//! Only what a benchmark server needs is made. The tree is installed below a staging directory and
//! moved to its prefix when it is complete.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};
use walkdir::WalkDir;

use crate::domain::{Fixup, Provenance, Release, TreeKind, Version};
use crate::process;

use super::cache::{Cache, Claim};
use super::error::{BuildError, io};
use super::fingerprint::{self, sha256_file};
use super::programs::{self, COMPILERS, GENERATORS};
use super::{Wanted, fixups, git, unpack};

/// Disk space that a compile takes, in bytes.
pub(super) const SPACE: u64 = 1500 << 20;

/// Optimised as PostgreSQL is by default, and with what a profiler needs: frame pointers and symbols.
const CFLAGS: &str = "-O2 -fno-omit-frame-pointer -g";

/// What lets a current compiler take C of 2010. None of it changes code that compiled before.
const COMPATIBILITY_FLAGS: [&str; 5] = [
    "-std=gnu17",
    "-Wno-error=implicit-int",
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-pointer-types",
];

/// Libraries that a benchmark does not use, and whose versions would be one more difference.
const CONFIGURE: [&str; 2] = ["--without-readline", "--without-zlib"];

/// What is made and installed where the version has it, in the order of PostgreSQL's own `src/Makefile`.
const PARTS: [&str; 18] = [
    "src/common",
    "src/port",
    "src/timezone",
    "src/backend",
    "src/backend/utils/mb/conversion_procs",
    "src/backend/snowball",
    "src/include",
    "src/interfaces/libpq",
    "src/pl/plpgsql",
    "src/bin/initdb",
    "src/bin/pg_ctl",
    "src/bin/pg_config",
    "src/bin/psql",
    "src/bin/pgbench",
    "contrib/pgbench",
    "contrib/pg_prewarm",
    "contrib/pg_stat_statements",
    "contrib/pgstattuple",
];

/// Without these, `initdb` fails in the middle.
const ESSENTIAL: [&str; 7] = [
    "postgres",
    "initdb",
    "postgres.bki",
    "plpgsql.so",
    "dict_snowball.so",
    "snowball_create.sql",
    "postgresql.conf.sample",
];

const CONFIGURE_DEADLINE: Duration = Duration::from_secs(20 * 60);
const MAKE_DEADLINE: Duration = Duration::from_secs(2 * 60 * 60);
const COMPILER_DEADLINE: Duration = Duration::from_secs(30);

/// Where the source is.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// An archive. Named by its hash, which may be known before the file is here.
    Archive { file: PathBuf, sha256: String },
    /// An unpacked tree.
    Tree { directory: PathBuf, sha256: String },
    /// A commit.
    Commit { repository: PathBuf, commit: String },
}

impl Origin {
    /// What names this source: equal only for equal source.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Archive { sha256, .. } => format!("archive {sha256}"),
            Self::Tree { sha256, .. } => format!("tree {sha256}"),
            Self::Commit { commit, .. } => format!("commit {commit}"),
        }
    }

    fn provenance(&self) -> Provenance {
        match self {
            Self::Archive { file, sha256 } => {
                let source = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
                Provenance::Source { source, sha256: Some(sha256.clone()) }
            }
            Self::Tree { directory, .. } => {
                Provenance::Source { source: directory.display().to_string(), sha256: None }
            }
            Self::Commit { repository, commit } => {
                Provenance::Git { repository: repository.display().to_string(), commit: commit.clone() }
            }
        }
    }

    /// Puts the source into `directory` and returns the top of its tree.
    fn bring(&self, directory: &Path) -> Result<PathBuf, BuildError> {
        fs::create_dir(directory).map_err(io("create", directory))?;
        match self {
            Self::Archive { file, .. } => unpack::unpack(file, directory)?,
            Self::Tree { directory: from, .. } => copy_tree(from, directory)?,
            Self::Commit { repository, commit } => {
                let archive = directory.with_extension("tar");
                git::archive(repository, commit, &archive)?;
                unpack::unpack(&archive, directory)?;
            }
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
            Self::Commit { repository, commit } => {
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

/// How everything is compiled on this machine.
#[derive(Debug)]
pub(super) struct Recipe {
    compiler: &'static str,
    /// The compiler's own words about its version and target.
    compiler_version: String,
    cflags: String,
}

impl Recipe {
    /// Finds the compiler and the compatibility flags that it knows.
    pub(super) fn detect() -> Result<Self, BuildError> {
        programs::require("compiling PostgreSQL", &programs::missing_for_compiling(false, &programs::on_path))?;
        let compiler = COMPILERS.into_iter().find(|name| programs::on_path(name)).unwrap_or(COMPILERS[0]);
        let ask = |option| {
            process::run(clean(compiler).arg(option), COMPILER_DEADLINE, None)
                .map_err(|source| BuildError::Compiler { compiler: compiler.to_owned(), source: source.into() })
        };
        let version = ask("--version")?;
        let compiler_version =
            format!("{}, {}", version.lines().next().unwrap_or_default(), ask("-dumpmachine")?.trim());
        let knows = |flag: &&str| {
            let arguments = [flag, "-Werror", "-fsyntax-only", "-x", "c", "/dev/null"];
            process::run(clean(compiler).args(arguments), COMPILER_DEADLINE, None).is_ok()
        };
        let flags: Vec<&str> = std::iter::once(CFLAGS).chain(COMPATIBILITY_FLAGS.into_iter().filter(knows)).collect();
        Ok(Self { compiler, compiler_version, cflags: flags.join(" ") })
    }

    /// Everything about the recipe that shapes the result.
    pub(super) fn identity(&self) -> String {
        let Self { compiler, compiler_version, cflags } = self;
        format!("{compiler}: {compiler_version}\n{cflags}\n{}\n{}", CONFIGURE.join(" "), PARTS.join(" "))
    }
}

/// A program in an environment without the caller's build variables, server variables and language.
fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    let kept = ["PATH", "HOME", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.env_clear().envs(kept).env("LC_ALL", "C");
    command
}

/// One compile.
pub(super) struct Job<'a> {
    pub(super) origin: &'a Origin,
    /// The version that the source must have, if that matters.
    pub(super) wanted: Wanted,
    /// Those that this source may need.
    pub(super) fixups: &'a [Fixup],
    pub(super) recipe: &'a Recipe,
    pub(super) jobs: usize,
    pub(super) key: &'a str,
    pub(super) cache: &'a Cache,
    pub(super) claim: &'a Claim,
}

/// Compiles and returns the install tree, still inside of the job's claim.
pub(super) fn make(job: &Job, say: &mut dyn FnMut(&str)) -> Result<(PathBuf, Provenance), BuildError> {
    let prefix = job.cache.prefix(job.key);
    if !prefix
        .to_str()
        .is_some_and(|path| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte)))
    {
        return Err(BuildError::PathForMake { path: prefix });
    }
    let tree = job.origin.bring(&job.claim.directory().join("source"))?;
    let version = tree_version(&tree)?;
    job.wanted.check(version, &job.origin.to_string())?;
    let kind = tree_kind(&tree);
    if kind == TreeKind::Git {
        let missing: Vec<&str> = GENERATORS.into_iter().filter(|name| !programs::on_path(name)).collect();
        programs::require(&format!("compiling {version}"), &missing)?;
    }
    let log = job.cache.log(&format!("{version}-{}", job.key));
    File::create(&log).map_err(io("create", &log))?;
    say(&format!("compiling {version} from {} (log: {})", job.origin, log.display()));

    let steps = Steps { tree: &tree, version, log: &log };
    let fixups: Vec<&Fixup> = job.fixups.iter().filter(|fixup| fixup.applies(version, kind)).collect();
    for fixup in &fixups {
        steps.append_to_log(format!("fix-up {}: {}\n", fixup.name, fixup.why).as_bytes())?;
        fixups::edit(fixup, version, &tree)?;
    }
    let stage = job.claim.directory().join("stage");
    let jobs = format!("-j{}", job.jobs.max(1));
    steps.configure(job.recipe, &fixups, &prefix)?;
    if steps.generates_headers()? {
        // The top-level makefile does this first: parts that are made in parallel rely on it.
        steps.make(&["-C", "src/backend", "generated-headers", &jobs])?;
    }
    for part in PARTS.into_iter().filter(|part| tree.join(part).join("Makefile").is_file()) {
        steps.make(&["-C", part, &jobs])?;
        // One after the other: older versions' install rules race for their directories.
        steps.make(&["-C", part, "install", &format!("DESTDIR={}", stage.display())])?;
    }
    let installed = stage.join(prefix.strip_prefix("/").unwrap_or(&prefix));
    steps.check_complete(&installed)?;
    Ok((installed, job.origin.provenance()))
}

fn tree_kind(tree: &Path) -> TreeKind {
    if tree.join("src/backend/parser/gram.c").is_file() { TreeKind::Archive } else { TreeKind::Git }
}

/// The version that a source tree states in `configure`, which every PostgreSQL has.
fn tree_version(tree: &Path) -> Result<Version, BuildError> {
    let configure = tree.join("configure");
    let text = fs::read(&configure).map_err(io("read", &configure))?;
    let text = String::from_utf8_lossy(&text);
    let stated = text.lines().find_map(|line| line.strip_prefix("PACKAGE_VERSION=")).unwrap_or_default();
    let stated = stated.trim_matches('\'');
    fingerprint::version(stated)
        .ok_or_else(|| BuildError::VersionText { place: configure.display().to_string(), text: stated.to_owned() })
}

/// The steps of a compile, all logged to one file.
struct Steps<'a> {
    tree: &'a Path,
    version: Version,
    log: &'a Path,
}

impl Steps<'_> {
    fn configure(&self, recipe: &Recipe, fixups: &[&Fixup], prefix: &Path) -> Result<(), BuildError> {
        if self.tree.join("config.status").is_file() {
            // A copy of a tree that somebody has configured in their own way.
            self.make(&["distclean"])?;
        }
        let mut arguments = vec![format!("--prefix={}", prefix.display())];
        arguments.extend(CONFIGURE.map(str::to_owned));
        // From 16 on ICU is asked for unless declined.
        if self.version.major.number() >= 1600 {
            arguments.push("--without-icu".to_owned());
        }
        arguments.push(format!("CC={}", recipe.compiler));
        let cflags = std::iter::once(&recipe.cflags).chain(fixups.iter().flat_map(|fixup| &fixup.cflags));
        arguments.push(format!("CFLAGS={}", cflags.map(String::as_str).collect::<Vec<_>>().join(" ")));
        arguments.extend(fixups.iter().flat_map(|fixup| fixup.configure.clone()));
        self.append_to_log(format!("./configure {arguments:?}\n").as_bytes())?;
        let result = self.run("configure", clean("./configure").args(&arguments), CONFIGURE_DEADLINE);
        if result.is_err()
            && let Ok(story) = fs::read(self.tree.join("config.log"))
        {
            self.append_to_log(&story)?;
        }
        result
    }

    /// Whether the backend has a rule of its own for headers that its parts need.
    fn generates_headers(&self) -> Result<bool, BuildError> {
        let makefile = self.tree.join("src/backend/Makefile");
        let text = fs::read(&makefile).map_err(io("read", &makefile))?;
        Ok(String::from_utf8_lossy(&text).lines().any(|line| line.starts_with("generated-headers:")))
    }

    /// Silent, so that the log holds what compilers say and not what they were called with.
    fn make(&self, arguments: &[&str]) -> Result<(), BuildError> {
        let step = format!("make {}", arguments.join(" "));
        self.run(&step, clean("make").arg("--silent").args(arguments), MAKE_DEADLINE)
    }

    /// Runs one step with its messages in the log.
    fn run(&self, step: &str, command: &mut Command, deadline: Duration) -> Result<(), BuildError> {
        let start = fs::metadata(self.log).map_or(0, |metadata| metadata.len());
        let result = process::run(command.current_dir(self.tree), deadline, Some(self.log));
        result.map(drop).map_err(|source| BuildError::Step {
            version: self.version,
            step: step.to_owned(),
            reason: first_error(self.log, start).unwrap_or_else(|| "no error in the log".to_owned()),
            log: self.log.to_owned(),
            source: source.into(),
        })
    }

    fn append_to_log(&self, text: &[u8]) -> Result<(), BuildError> {
        let log = File::options().append(true).open(self.log);
        log.and_then(|mut log| log.write_all(text)).map_err(io("write", self.log))
    }

    fn check_complete(&self, installed: &Path) -> Result<(), BuildError> {
        let names: Vec<_> =
            WalkDir::new(installed).into_iter().filter_map(|entry| Some(entry.ok()?.file_name().to_owned())).collect();
        let missing: Vec<&str> =
            ESSENTIAL.into_iter().filter(|name| !names.iter().any(|found| found == *name)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(BuildError::Incomplete { version: self.version, missing: missing.join(", "), log: self.log.to_owned() })
    }
}

/// The line after `start` bytes of a log that best tells why a step failed: the first error of a compiler,
/// `configure` or generator; else of the linker; else of make.
fn first_error(log: &Path, start: u64) -> Option<String> {
    use std::io::Seek;
    let mut file = File::open(log).ok()?;
    file.seek(std::io::SeekFrom::Start(start)).ok()?;
    let mut best: Option<(usize, String)> = None;
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        let rank = if line.contains("error: ") || line.contains("ERROR: ") {
            return Some(line);
        } else if line.contains("undefined reference") || line.contains("cannot find -l") || line.contains("not found")
        {
            1
        } else if line.contains("*** ") {
            2
        } else {
            continue;
        };
        if best.as_ref().is_none_or(|(found, _)| rank < *found) {
            best = Some((rank, line));
        }
    }
    best.map(|(_, line)| line)
}

#[cfg(test)]
mod tests {
    use super::super::unpack::tests::{Entry, tgz};
    use super::*;

    fn wanted(version: &str, floating: bool) -> Wanted {
        Wanted { version: version.parse().unwrap(), floating }
    }

    fn release(version: &str, sha256: Option<&str>) -> Release {
        let sha256 = sha256.map(str::to_owned);
        let version = version.parse().unwrap();
        Release { version, date: None, tag: String::new(), archive: String::new(), sha256, prebuilt: None }
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

    /// A source "tree" that knows its version and nothing else.
    fn source_archive(directory: &Path, version: &str) -> PathBuf {
        let configure = format!("#!/bin/sh\nPACKAGE_NAME='PostgreSQL'\nPACKAGE_VERSION='{version}'\nexit 1\n");
        let entries = [Entry::File("p/configure", &configure), Entry::File("p/src/backend/parser/gram.c", "")];
        tgz(&directory.join("postgresql.tar.gz"), &entries)
    }

    fn compile(home: &Path, version: &str, expected: Wanted) -> BuildError {
        compile_with(home, version, expected, &[])
    }

    fn compile_with(home: &Path, version: &str, expected: Wanted, fixups: &[Fixup]) -> BuildError {
        let file = source_archive(home, version);
        let origin = find(&file, expected, &release(&expected.version.to_string(), None)).unwrap();
        let cache = Cache::open(&home.join("cache"), None).unwrap();
        let recipe = Recipe { compiler: "cc", compiler_version: String::new(), cflags: String::new() };
        let claim = cache.claim("k", &mut |_| {}).unwrap();
        let (recipe, origin) = (&recipe, &origin);
        let job = Job { origin, wanted: expected, fixups, recipe, jobs: 1, key: "k", cache: &cache, claim: &claim };
        make(&job, &mut |_| {}).map(drop).unwrap_err()
    }

    #[test]
    fn source_of_another_version_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let error = compile(home.path(), "15.17", wanted("15.18", false)).to_string();
        assert!(error.contains("is PostgreSQL 15.17, not 15.18"), "{error}");
    }

    #[test]
    fn fixups_of_this_source_are_in_force_and_others_are_not() {
        let fixup = |text: &str| toml::from_str::<Fixup>(&format!("name = 'f'\nwhy = 'w'\n{text}")).unwrap();
        let fixups = [
            fixup("only = 'archive'\ncflags = ['-fone']\nconfigure = ['A=1']"),
            fixup("only = 'git'\ncflags = ['-ftwo']"),
            fixup("to = '15.17'\ncflags = ['-fthree']"),
        ];
        let home = tempfile::tempdir().unwrap();
        let error = compile_with(home.path(), "15.18", wanted("15.18", false), &fixups);
        let BuildError::Step { log, .. } = &error else { panic!("{error}") };
        let log = fs::read_to_string(log).unwrap();
        assert!(log.starts_with("fix-up f: w\n") && log.contains(" -fone\", \"A=1\"]"), "{log}");
        assert!(!log.contains("-ftwo") && !log.contains("-fthree"), "{log}");

        let misfit = [fixup("[[edit]]\nfile = 'configure'\nfind = 'nowhere'\nreplace = ''")];
        let home = tempfile::tempdir().unwrap();
        let error = compile_with(home.path(), "15.18", wanted("15.18", false), &misfit);
        assert!(matches!(error, BuildError::Fixup { .. }), "{error}");
    }

    #[test]
    fn a_cache_path_that_make_cannot_handle_is_named_before_anything_is_done() {
        let home = tempfile::Builder::new().prefix("with blank").tempdir().unwrap();
        assert!(matches!(compile(home.path(), "15.18", wanted("15.18", false)), BuildError::PathForMake { .. }));
    }

    #[test]
    fn a_failed_step_shows_release_step_reason_and_log() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        fs::write(&log, "earlier: error: of another step\n").unwrap();
        let steps = Steps { tree: home.path(), version: "9.0.23".parse().unwrap(), log: &log };
        let script = "echo 'gram.y:7:1: error: first' >&2; echo 'b.c:1: error: second' >&2; exit 2";
        let error =
            steps.run("make -C src/backend", clean("sh").args(["-c", script]), MAKE_DEADLINE).unwrap_err().to_string();
        assert!(error.starts_with("9.0.23: make -C src/backend failed: gram.y:7:1: error: first"), "{error}");
        assert!(error.contains(&log.display().to_string()), "{error}");
    }

    #[test]
    fn without_a_compiler_error_linker_and_make_are_asked() {
        let home = tempfile::tempdir().unwrap();
        let log = home.path().join("log");
        fs::write(&log, "make: *** [x] Error 1\nx.o: undefined reference to `y'\n").unwrap();
        assert_eq!(first_error(&log, 0).unwrap(), "x.o: undefined reference to `y'");
        fs::write(&log, "all is well\n").unwrap();
        assert_eq!(first_error(&log, 0), None);
    }

    #[test]
    fn a_copied_tree_keeps_times_and_hash_and_leaves_git_behind() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join(".git")).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("a"), "1").unwrap();
        symlink("a", from.join("l")).unwrap();
        let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        File::options().write(true).open(from.join("a")).unwrap().set_modified(old).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(to.join("a").metadata().unwrap().modified().unwrap(), old);
        assert!(!to.join(".git").exists() && to.join("l").is_symlink());
        assert_eq!(hash_tree(&from).unwrap(), hash_tree(&to).unwrap());
        fs::write(to.join("a"), "2").unwrap();
        assert_ne!(hash_tree(&from).unwrap(), hash_tree(&to).unwrap());
    }

    #[test]
    fn the_compiler_here_is_asked_which_flags_it_knows() {
        let recipe = Recipe::detect().unwrap();
        assert!(recipe.cflags.starts_with("-O2 -fno-omit-frame-pointer -g"), "{}", recipe.cflags);
        assert!(recipe.identity().contains(&recipe.cflags));
    }
}
