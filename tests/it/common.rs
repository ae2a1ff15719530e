//! What several tests share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program under test, with nothing of the caller's environment that changes what it does.
pub(crate) fn regtrack() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regtrack"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REGTRACK_")) {
        command.env_remove(name);
    }
    command
}

/// Notes that `test` did not do its work, for the end of the run. In CI that is a failure.
pub(crate) fn must_run(test: &str, reason: &str) {
    assert!(std::env::var_os("CI").is_none(), "{test} has to run in CI: {reason}");
    not_run(test, reason);
}

/// Notes that `test` did not do its work, for the end of the run.
pub(crate) fn not_run(test: &str, reason: &str) {
    let notes = notes();
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join(test), format!("{test}: {reason}")).unwrap();
}

/// Takes back the note of an earlier run.
pub(crate) fn runs(test: &str) {
    let _ = fs::remove_file(notes().join(test));
}

fn notes() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-run")
}
