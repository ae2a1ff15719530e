//! Compiles PostgreSQL from an archive, a directory or a commit.
//!
//! Only what a benchmark server needs is made. The result is installed below a staging directory and
//! moved to its place when it is complete.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use walkdir::WalkDir;

use crate::domain::{Fixup, Provenance, TreeKind, Version};
use crate::process::{self, CommandErrorKind};

use super::cache::{Cache, Claim};
use super::error::{BuildError, io};
use super::origin::{self, Origin};
use super::programs::{self, GENERATORS};
use super::recipe::{self, MESON_DIRECTORY, PREFIX, Recipe};
use super::worktree::{Start, Tree};
use super::{Wanted, cache, fixups, git};

/// Disk space that a compile takes, in bytes.
pub(super) const SPACE: u64 = 1500 << 20;

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

/// The CPUs that all compiles of this process share.
#[derive(Debug)]
pub(super) struct Cpus {
    server: jobserver::Client,
    jobs: usize,
}

impl Cpus {
    /// `jobs` compilers at a time, whichever builds they belong to.
    pub(super) fn new(jobs: usize) -> Result<Self, BuildError> {
        let jobs = jobs.max(1);
        let server = jobserver::Client::new(jobs).map_err(io("make the pipe for", Path::new("compile jobs")))?;
        Ok(Self { server, jobs })
    }

    /// Waits for a free CPU. make counts itself as one job, and so does `configure`.
    fn take(&self) -> Result<jobserver::Acquired, BuildError> {
        self.server.acquire().map_err(io("wait for", Path::new("compile jobs")))
    }
}

/// One compile.
pub(super) struct Job<'a> {
    pub(super) origin: &'a Origin,
    /// The version that the source must have, if that matters.
    pub(super) wanted: Wanted,
    pub(super) recipe: &'a Recipe,
    pub(super) cpus: &'a Cpus,
    pub(super) key: &'a str,
    pub(super) cache: &'a Cache,
    pub(super) claim: &'a Claim,
}

/// Compiles and returns the install tree, inside of the job's claim.
pub(super) fn make(job: &Job, say: &mut dyn FnMut(&str)) -> Result<(PathBuf, Provenance), BuildError> {
    let family = match job.origin {
        Origin::Commit { repository, commit, .. } => {
            let version = origin::commit_version(repository, commit)?;
            job.check(version)?;
            let data = git::data_directory(repository)?;
            cache::key(&[&data.display().to_string(), &job.recipe.identity(), &version.major.to_string()])
        }
        Origin::Archive { .. } | Origin::Tree { .. } => String::new(),
    };
    let mut tree = Tree::take(job.cache, job.origin, job.key, &family, say)?;
    let mut start = tree.prepare(job.origin)?;
    let mut result = job.compile(&mut tree, start, say);
    if start != Start::Clean && result.as_ref().is_err_and(|error| !is_interruption(error)) {
        say(&format!("what an earlier compile left does not help {}; compiling from clean source", job.origin));
        start = tree.fill(job.origin)?;
        result = job.compile(&mut tree, start, say);
    }
    match result {
        Ok(installed) => {
            tree.finish()?;
            Ok((installed, job.origin.provenance()))
        }
        // The next call goes on from here.
        Err(error) if is_interruption(&error) => Err(error),
        Err(error) => {
            tree.clear()?;
            Err(error)
        }
    }
}

fn is_interruption(error: &BuildError) -> bool {
    process::is_interrupted()
        || matches!(error, BuildError::Step { source, .. } if matches!(source.kind(), CommandErrorKind::Interrupted))
}

impl Job<'_> {
    fn check(&self, version: Version) -> Result<(), BuildError> {
        self.wanted.check(version, &self.origin.to_string())?;
        self.recipe.check_features(version)
    }

    fn compile(&self, tree: &mut Tree, start: Start, say: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
        let version = origin::tree_version(&tree.top())?;
        self.check(version)?;
        let neighbours = matches!(self.origin, Origin::Commit { neighbours: true, .. });
        let arguments = self.recipe.arguments(version, tree.kind(), neighbours);
        let start = match start {
            Start::Moved if !tree.is_configured(&arguments) => tree.fill(self.origin)?,
            start => start,
        };
        let top = tree.top();
        path_for_make(&top)?;
        require_generators(version, tree.kind())?;
        let log = self.begin_log(version, start, say)?;
        let steps = Steps { tree: &top, version, log: &log, cpus: self.cpus };
        if matches!(start, Start::Clean | Start::Moved) {
            steps.fix(&self.recipe.fixups(version, tree.kind()), neighbours)?;
            tree.note_progress(None)?;
        }
        if !tree.is_configured(&arguments) {
            if self.recipe.is_meson() {
                steps.run("meson setup", self.recipe.meson().args(&arguments), CONFIGURE_DEADLINE)?;
            } else {
                steps.configure(&arguments)?;
            }
            tree.note_progress(Some(arguments))?;
        }
        let stage = self.claim.directory().join("stage");
        let _ = fs::remove_dir_all(&stage);
        if self.recipe.is_meson() {
            self.ninja_and_install(&steps, &stage)?;
        } else {
            self.make_and_install(&steps, &stage)?;
        }
        let installed = stage.join(PREFIX.trim_start_matches('/'));
        steps.check_complete(&installed)?;
        Ok(installed)
    }

    /// Says what begins, and where one can read about it.
    fn begin_log(&self, version: Version, start: Start, say: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
        let log = self.cache.log(&format!("{version}-{}", self.key));
        File::create(&log).map_err(io("create", &log))?;
        let how = match start {
            Start::Clean => "",
            Start::Made => ", which is there from an earlier call",
            Start::Resumed => ", going on where an earlier call was interrupted",
            Start::Moved => ", what changed only",
        };
        let through = if self.recipe.ccache() { ", through ccache" } else { "" };
        say(&format!("compiling {version} from {}{how}{through} (log: {})", self.origin, log.display()));
        Ok(log)
    }

    /// All of it: Meson installs everything or nothing. Ninja does not share CPUs with other builds.
    fn ninja_and_install(&self, steps: &Steps, stage: &Path) -> Result<(), BuildError> {
        let _cpu = self.cpus.take()?;
        let mut ninja = recipe::build_tool("ninja");
        steps.run(
            "ninja",
            ninja.args(["-C", MESON_DIRECTORY, "--quiet", &format!("-j{}", self.cpus.jobs)]),
            MAKE_DEADLINE,
        )?;
        let mut install = self.recipe.meson();
        install.args(["install", "-C", MESON_DIRECTORY, "--no-rebuild", "--quiet", "--destdir"]).arg(stage);
        steps.run("meson install", &mut install, MAKE_DEADLINE)
    }

    fn make_and_install(&self, steps: &Steps, stage: &Path) -> Result<(), BuildError> {
        let parts = self.recipe.parts(steps.tree);
        let makefile = self.claim.directory().join("parts.mk");
        let text = recipe::makefile(&parts, steps.generates_headers()?);
        fs::write(&makefile, text).map_err(io("write", &makefile))?;
        steps.make(&["-f", &makefile.display().to_string(), "all"])?;
        for part in &parts {
            // One after the other: older versions' install rules race for their directories.
            steps.make(&["-C", part, "install", &format!("DESTDIR={}", stage.display())])?;
        }
        Ok(())
    }
}

/// Refuses to begin what bison, flex or perl would be missing for.
fn require_generators(version: Version, kind: TreeKind) -> Result<(), BuildError> {
    let needed = if kind == TreeKind::Git { &GENERATORS[..] } else { &[] };
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !programs::on_path(name)).collect();
    programs::require(&format!("compiling {version}"), &missing)
}

/// Refuses a path that PostgreSQL's makefiles cannot handle.
fn path_for_make(path: &Path) -> Result<(), BuildError> {
    let is_plain = |path: &str| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte));
    if path.to_str().is_some_and(is_plain) { Ok(()) } else { Err(BuildError::PathForMake { path: path.to_owned() }) }
}

/// The steps of a compile, all logged to one file.
struct Steps<'a> {
    tree: &'a Path,
    version: Version,
    log: &'a Path,
    cpus: &'a Cpus,
}

impl Steps<'_> {
    fn fix(&self, fixups: &[&Fixup], between_releases: bool) -> Result<(), BuildError> {
        for fixup in fixups {
            self.append_to_log(format!("fix-up {}: {}\n", fixup.name, fixup.why).as_bytes())?;
            fixups::edit(fixup, self.version, self.tree, between_releases)?;
        }
        Ok(())
    }

    fn configure(&self, arguments: &[String]) -> Result<(), BuildError> {
        if self.tree.join("config.status").is_file() {
            // A copy of a tree that somebody has configured in their own way.
            self.make(&["distclean"])?;
        }
        self.append_to_log(format!("./configure {arguments:?}\n").as_bytes())?;
        let _cpu = self.cpus.take()?;
        let result = self.run("configure", recipe::build_tool("./configure").args(arguments), CONFIGURE_DEADLINE);
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

    fn make(&self, arguments: &[&str]) -> Result<(), BuildError> {
        // The first words of what was asked for say enough; the paths are in the log.
        let step = match arguments {
            ["-f", ..] => "make".to_owned(),
            ["-C", part, target, ..] => format!("make -C {part} {target}"),
            other => format!("make {}", other.join(" ")),
        };
        let mut command = recipe::make();
        self.cpus.server.configure_make(command.args(arguments));
        let _cpu = self.cpus.take()?;
        self.run(&step, &mut command, MAKE_DEADLINE)
    }

    /// Runs one step with its messages in the log.
    fn run(&self, step: &str, command: &mut Command, deadline: Duration) -> Result<(), BuildError> {
        let start = fs::metadata(self.log).map_or(0, |metadata| metadata.len());
        let result = process::run_group(command.current_dir(self.tree), deadline, Some(self.log));
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
    let mut file = File::open(log).ok()?;
    file.seek(SeekFrom::Start(start)).ok()?;
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
    use super::super::recipe::tests::variant;
    use super::super::recipe::{Toolchains, clean};
    use super::super::unpack::tests::{Entry, tgz};
    use super::*;

    fn wanted(version: &str, floating: bool) -> Wanted {
        Wanted { version: version.parse().unwrap(), floating }
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
        let origin = Origin::Archive { file: source_archive(home, version), sha256: "s".to_owned() };
        let cache = Cache::open(&home.join("cache"), None).unwrap();
        let recipe = Recipe::new(&Toolchains::default(), &variant("o2", &[]), fixups.to_vec()).unwrap();
        let (claim, cpus) = (cache.claim("k", &mut |_| {}).unwrap(), Cpus::new(1).unwrap());
        let (origin, recipe, cpus) = (&origin, &recipe, &cpus);
        let job = Job { origin, wanted: expected, recipe, cpus, key: "k", cache: &cache, claim: &claim };
        let error = make(&job, &mut |_| {}).map(drop).unwrap_err();
        assert!(!cache.tree("k").exists(), "what failed leaves its log and nothing else");
        error
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
        let cpus = Cpus::new(1).unwrap();
        let steps = Steps { tree: home.path(), version: "9.0.23".parse().unwrap(), log: &log, cpus: &cpus };
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
}
