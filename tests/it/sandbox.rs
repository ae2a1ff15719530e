//! Runs the real program in a directory of its own: with its own home, its own temporary directory, and
//! only those programs on its PATH that a test puts there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// What looking up an account and checking a directory needs.
const PROGRAMS: [&str; 3] = ["id", "setpriv", "test"];

pub(crate) struct Sandbox {
    dir: TempDir,
}

/// How a run of the program ended.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        let sandbox = Self { dir: tempfile::tempdir().unwrap() };
        for directory in ["bin", "home", "tmp", "work"] {
            fs::create_dir(sandbox.dir.path().join(directory)).unwrap();
        }
        let path = std::env::var_os("PATH").unwrap();
        for program in PROGRAMS {
            let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
            let found = places.find(|place| place.is_file());
            let found = found.unwrap_or_else(|| panic!("the program '{program}' is not on PATH"));
            symlink(found, sandbox.dir.path().join("bin").join(program)).unwrap();
        }
        sandbox
    }

    /// A sandbox in which something called npm is installed. It does nothing: whether it is there is all
    /// that a plan looks at.
    pub(crate) fn with_npm() -> Self {
        let sandbox = Self::new();
        let npm = sandbox.dir.path().join("bin/npm");
        fs::write(&npm, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
        sandbox
    }

    /// A path in the directory in which the program runs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    /// Writes a file there, with the directories above it.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Runs the program. In what it says, the directory becomes `[DIR]` and the test's process `[PID]`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let root = self.dir.path();
        let output = Command::new(env!("CARGO_BIN_EXE_regtrack"))
            .args(arguments)
            .current_dir(root.join("work"))
            .env_clear()
            .env("PATH", root.join("bin"))
            .env("HOME", root.join("home"))
            .env("TMPDIR", root.join("tmp"))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| {
            let work = self.path("").canonicalize().unwrap();
            let text = String::from_utf8(bytes).unwrap().replace(&work.display().to_string(), "[DIR]");
            text.replace(&format!("process {}:", std::process::id()), "process [PID]:")
        };
        Run { status: output.status.code().unwrap(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs the program and checks that it succeeds; returns what it printed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
        run.stdout
    }

    /// Everything on this small disk, by path; directories have no content.
    pub(crate) fn tree(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let entries = walkdir::WalkDir::new(self.dir.path()).into_iter().map(Result::unwrap);
        let content = |path: &Path| path.is_file().then(|| fs::read(path).unwrap());
        entries.map(|entry| (entry.path().to_owned(), content(entry.path()))).collect()
    }
}
